"""`hypergraph resume`: a run that failed, paused, stopped or crashed, continued."""

from __future__ import annotations

from hypergraph.cli.call import Call, Reply
from hypergraph.cli.execution import PROGRESS, RESUME_OPTIONS, RUN_OPTIONS, order_of, outcome, reply_to
from hypergraph.cli.inputs import PAIRS, VALUES
from hypergraph.cli.stores import WF, asked
from hypergraph.cli.targets import STORED_TARGET
from hypergraph.views.problems import USAGE, Problem

resume_options = (WF, STORED_TARGET, PAIRS, VALUES, *RUN_OPTIONS, *RESUME_OPTIONS, PROGRESS)


def resume(call: Call) -> Reply:
    """Resume a run that failed, stopped or crashed, or answer a paused one."""
    store, workflow_id = asked(call)
    order = order_of(call, store.workflow(workflow_id))
    order.options["workflow_id"] = workflow_id
    if not order.is_map and store.backend.find_ids(f"{workflow_id}/item-", parent=workflow_id, limit=1):
        command = order.resuming("--map-over", "KEY", "KEY=VALUES")
        hint = f"Completed items do not run again: {command}"
        raise Problem(USAGE, f"Workflow {workflow_id!r} is a map: it needs --map-over", hint)
    return reply_to(outcome(order, store), order)
