"""`hypergraph resume`: a run that failed, paused, stopped or crashed, continued."""

from __future__ import annotations

from hypergraph.cli.arguments import Option
from hypergraph.cli.call import Call, Reply
from hypergraph.cli.due import run_due
from hypergraph.cli.execution import PROGRESS, RESUME_OPTIONS, RUN_OPTIONS, order_of, outcome, reply_to
from hypergraph.cli.inputs import PAIRS, VALUES
from hypergraph.cli.output import status
from hypergraph.cli.stores import WF, asked, opened
from hypergraph.cli.targets import STORED_TARGET
from hypergraph.display import Table, plural
from hypergraph.views.problems import USAGE, Problem

resume_options = (
    WF._replace(needed=False, help=f"{WF.help}; with --due a graph"),
    STORED_TARGET,
    PAIRS,
    VALUES,
    *RUN_OPTIONS,
    *RESUME_OPTIONS,
    PROGRESS,
    Option("--due", "resume every workflow whose deadline has passed or whose timer is due"),
    Option("--watch", "with --due: keep doing so until interrupted"),
)


def resume(call: Call) -> Reply:
    """Resume a run that failed, stopped or crashed, or answer a paused one; or all that are due."""
    if call.options.due:
        return _resume_due(call)
    if call.options.watch:
        raise Problem(USAGE, "--watch needs --due")
    if call.options.wf is None:
        raise Problem(USAGE, "Missing argument: WF", "Name a workflow, or resume all that are due with --due")
    store, workflow_id = asked(call)
    order = order_of(call, store.workflow(workflow_id))
    order.options["workflow_id"] = workflow_id
    if not order.is_map and store.backend.find_ids(f"{workflow_id}/item-", parent=workflow_id, limit=1):
        command = order.resuming("KEY=VALUES", options=("--map-over", "KEY"))
        hint = f"Completed items do not run again: {command}"
        raise Problem(USAGE, f"Workflow {workflow_id!r} is a map: it needs --map-over", hint)
    return reply_to(outcome(order, store), order, store)


def _resume_due(call: Call) -> Reply:
    given = call.options
    if given.values is not None or getattr(given, PAIRS.key):
        raise Problem(USAGE, "--due takes graphs, and no values")
    targets = [target for target in (given.wf, given.target) if target]
    found = run_due(opened(call), targets, watch=given.watch, services=given.services)
    rows = [(run["id"], status(run["status"]), run["error"] or "") for run in found["items"]]
    bad = any(run["status"] in ("failed", "refused") for run in found["items"])
    table = Table(("ID", "Status", "Error"), rows)
    return Reply(found, lambda: [table] if rows else [], [f"Due: {plural(len(rows), 'run')}"], code=int(bad))
