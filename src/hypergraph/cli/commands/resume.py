"""`hypergraph run`, `resume` and `fork`: the commands that call the code of a user."""

from __future__ import annotations

from hypergraph.cli.arguments import PAIRS, VALUES
from hypergraph.cli.call import Call, Reply
from hypergraph.cli.commands.run import _HOW, _order
from hypergraph.cli.execution import outcome, reply_to
from hypergraph.cli.stores import WF, asked
from hypergraph.cli.targets import TARGET
from hypergraph.views.problems import USAGE, Problem

resume_options = (WF, TARGET, PAIRS, VALUES, *_HOW)


def resume(call: Call) -> Reply:
    """Go on with a run that failed, paused or died."""
    store, workflow_id = asked(call)
    order = _order(call)
    order.options["workflow_id"] = workflow_id
    if not order.is_map and store.backend.find_ids(f"{workflow_id}/item-", parent=workflow_id, limit=1):
        hint = f"{order.resuming('--map-over', 'KEY', 'KEY=VALUES')}: items that completed do not run again"
        raise Problem(USAGE, f"Workflow {workflow_id!r} is a map; it goes on with its list of items", hint)
    return reply_to(outcome(order, store), order)
