"""`hypergraph cancel`: the end of a running or paused workflow, decided from outside."""

from __future__ import annotations

from hypergraph.cli.call import Call, Reply
from hypergraph.cli.output import quoted
from hypergraph.cli.stores import WF, asked
from hypergraph.display import plural
from hypergraph.views.cancel import cancelled

cancel_options = (WF,)


def cancel(call: Call) -> Reply:
    """Take a workflow away from its process and mark it as stopped."""
    store, workflow_id = asked(call)
    document = cancelled(store, workflow_id)
    header = [f"Cancelled {workflow_id}", plural(len(document["ids"]), "run"), "no further step is stored"]
    return Reply(document, tuple, header, [quoted("hypergraph", "show", workflow_id)])
