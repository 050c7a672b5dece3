"""`hypergraph cancel`: the end of a running or paused workflow, decided from outside."""

from __future__ import annotations

from hypergraph.checkpointers import Checkpointer, Workflow, WorkflowStatus
from hypergraph.checkpointers.records import NewWorkflow
from hypergraph.cli.call import Call, Reply
from hypergraph.cli.output import suggested
from hypergraph.cli.stores import WF, asked
from hypergraph.display import jsonable, plural
from hypergraph.views.problems import REFUSED, Problem
from hypergraph.views.writes import Cancelled

_OPEN = (WorkflowStatus.ACTIVE, WorkflowStatus.PAUSED)

cancel_options = (WF,)


def cancel(call: Call) -> Reply:
    """Take a workflow away from its process and mark it as stopped."""
    store, workflow_id = asked(call)
    found = store.workflow(workflow_id)
    if found.status not in _OPEN:
        raise Problem(REFUSED, f"Workflow {workflow_id!r} is {found.status.value}: nothing to cancel")
    ids = [_stop(store, each) for each in _open_runs(store, found)]
    document: Cancelled = {"schema": "hypergraph.cancelled/1", "ids": jsonable(ids)}
    header = [f"Cancelled {workflow_id}", plural(len(ids), "run"), "no further step is stored"]
    return Reply(document, tuple, header, [suggested("show", workflow_id)])


def _open_runs(store: Checkpointer, found: Workflow) -> list[Workflow]:
    """Return a workflow and the open runs below it, the outermost first: it starts no others then."""
    runs = [found]
    for parent in runs:  # grows while it is read
        runs += [child for child in store.backend.children(parent.id) if child.status in _OPEN]
    return runs


def _stop(store: Checkpointer, found: Workflow) -> str:
    """Claim a run over the head of its owner, whose next write is refused then, and end it."""
    claim = store.backend.claim(
        found.id, NewWorkflow(found.graph_name, parent_id=found.parent_id), store.encoding, force=True
    )
    try:
        store.backend.write(store.encoding.commit(claim, status=WorkflowStatus.STOPPED))
    finally:
        store.backend.release(claim)
    return found.id
