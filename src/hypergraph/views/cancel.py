"""Cancellation of a running or paused workflow, decided from outside its process."""

from __future__ import annotations

from hypergraph.checkpointers import Checkpointer, Workflow, WorkflowStatus
from hypergraph.checkpointers.records import NewWorkflow
from hypergraph.display import jsonable
from hypergraph.views.lookup import require_workflow
from hypergraph.views.problems import REFUSED, Problem
from hypergraph.views.writes import Cancelled

_OPEN = (WorkflowStatus.ACTIVE, WorkflowStatus.PAUSED)


def cancelled(store: Checkpointer, workflow_id: str, *, ended: bool = False) -> Cancelled:
    """Take a workflow, and the open runs below it, away from their process and mark them as stopped.

    With `ended`, it may have ended already: its submission to a cluster was cancelled before.

    Raises:
        Problem: the workflow does not exist, or has ended.
        CheckpointError: the store refuses it.
    """
    found = require_workflow(store, workflow_id)
    if found.status not in _OPEN and not ended:
        raise Problem(REFUSED, f"Workflow {workflow_id!r} is {found.status.value}: nothing to cancel")
    ids = [_stop(store, each) for each in _open_runs(store, found) if each.status in _OPEN] or [workflow_id]
    return {"schema": "hypergraph.cancelled/1", "ids": jsonable(ids)}


def _open_runs(store: Checkpointer, found: Workflow) -> list[Workflow]:
    """Return a workflow and the open runs below it, the outermost first: it starts no others then."""
    runs = {found.id: found}
    left = [found.id]
    while left:
        for child in store.backend.children(left.pop(0)):
            if child.status in _OPEN and child.id not in runs:  # a damaged store may have circles
                runs[child.id] = child
                left.append(child.id)
    return [*runs.values()]


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
