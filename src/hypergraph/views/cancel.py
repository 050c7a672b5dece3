"""Cancellation of a running or paused workflow, decided from outside its process."""

from __future__ import annotations

from hypergraph.checkpointers import Checkpointer
from hypergraph.display import jsonable
from hypergraph.views.lookup import require_workflow
from hypergraph.views.problems import REFUSED, Problem
from hypergraph.views.writes import Cancelled


def cancelled(store: Checkpointer, workflow_id: str, *, ended: bool = False) -> Cancelled:
    """Take a workflow, and the open runs below it, away from their process and mark them as stopped.

    With `ended`, it may have ended already: its submission to a cluster was cancelled before.

    Raises:
        Problem: the workflow does not exist, or has ended.
        CheckpointError: the store refuses it.
    """
    found = require_workflow(store, workflow_id)
    ids = store.cancel(workflow_id)
    if not ids and not ended:
        raise Problem(REFUSED, f"Workflow {workflow_id!r} is {found.status.value}: nothing to cancel")
    return {"schema": "hypergraph.cancelled/1", "ids": jsonable(ids or [workflow_id])}
