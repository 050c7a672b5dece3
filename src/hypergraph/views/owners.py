"""Who is at work: a workflow that is active while nobody is at work on it has lost its process."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, TypedDict

from hypergraph.checkpointers import Checkpointer, SqliteCheckpointer
from hypergraph.checkpointers.sql.store import SqlCheckpointer
from hypergraph.display import jsonable
from hypergraph.views.database import looked
from hypergraph.views.workflows import WorkflowPage, WorkflowSummary

_ACTIVE = """
SELECT id, key, fence, owner_pid, owner_host FROM workflows
WHERE status = 'active' AND parent_id IS NULL ORDER BY key DESC LIMIT ?
"""
_OWNER = "SELECT key, fence, owner_pid, owner_host FROM workflows WHERE id = ?"


class Activity(TypedDict):
    """A workflow that has not ended, and whether somebody is at work on it."""

    id: str
    alive: bool
    pid: int | None


def activities(store: SqlCheckpointer, limit: int = 100) -> list[Activity]:
    """Return the workflows that are under way, newest first. Raises CheckpointError."""
    rows = looked(store, lambda connection: connection.execute(_ACTIVE, (limit,)).fetchall())
    return [
        {"id": jsonable(workflow_id), "alive": _lives(store, owner), "pid": owner[2]}
        for workflow_id, *owner in rows
    ]


def is_alive(store: Checkpointer, workflow_id: str) -> bool | None:
    """Return whether somebody is at work, None where nobody can know. Raises CheckpointError."""
    return _are_alive(store, [workflow_id])[0]


def with_owners(store: Checkpointer, page: WorkflowPage) -> WorkflowPage:
    """Return a page that says of the active ones whether they are alive. Raises CheckpointError."""
    active: list[WorkflowSummary] = [item for item in page["items"] if item["status"] == "active"]
    for item, alive in zip(active, _are_alive(store, [item["id"] for item in active]), strict=True):
        item["alive"] = alive
    return page


def _are_alive(store: Checkpointer, ids: Sequence[str]) -> list[bool | None]:
    if not ids or not isinstance(store, SqlCheckpointer):
        return [None] * len(ids)
    owners = looked(store, lambda connection: [connection.execute(_OWNER, (id_,)).fetchone() for id_ in ids])
    return [owner is not None and _lives(store, owner) for owner in owners]


def _lives(store: SqlCheckpointer, owner: Sequence[Any]) -> bool:
    key, fence, pid, host = owner
    # Where nobody ever claimed anything, asking would make the file of locks.
    if not pid or (isinstance(store, SqliteCheckpointer) and not os.path.exists(store.path + "-lock")):
        return False
    try:
        return store._database.locks.lives(key, fence, pid, host)
    except Exception as error:  # of the system, or of a driver that is not always installed
        raise store._database.translated(error) from error
