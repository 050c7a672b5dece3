"""Owners of workflows: an active workflow whose owner process is gone waits for a resume."""

from __future__ import annotations

from typing import TypedDict

from hypergraph.checkpointers import Checkpointer
from hypergraph.checkpointers.query import Query
from hypergraph.checkpointers.status import WorkflowStatus
from hypergraph.display import jsonable
from hypergraph.views.workflows import WorkflowPage, WorkflowSummary


class Activity(TypedDict):
    """A workflow that has not ended, and whether its owner process is alive."""

    id: str
    alive: bool
    pid: int | None


def activities(store: Checkpointer, limit: int = 100) -> list[Activity]:
    """Return the active workflows, newest first. Raises CheckpointError."""
    active, _, _ = store.backend.find(Query(frozenset({WorkflowStatus.ACTIVE}), limit=limit))
    owners = store.backend.read_owners([found.id for found in active])
    return [
        {
            "id": jsonable(found.id),
            "alive": found.id in owners and owners[found.id].alive,
            "pid": owners[found.id].pid if found.id in owners else None,
        }
        for found in active
    ]


def is_alive(store: Checkpointer, workflow_id: str) -> bool:
    """Return whether the owner process of a workflow is alive. Raises CheckpointError."""
    owner = store.backend.read_owners([workflow_id]).get(workflow_id)
    return owner is not None and owner.alive


def with_owners(store: Checkpointer, page: WorkflowPage) -> WorkflowPage:
    """Return a page that says of the active ones whether they are alive. Raises CheckpointError."""
    active: list[WorkflowSummary] = [item for item in page["items"] if item["status"] == "active"]
    owners = store.backend.read_owners([item["id"] for item in active]) if active else {}
    for item in active:
        item["alive"] = item["id"] in owners and owners[item["id"]].alive
    return page
