"""Lists of workflows. Only what a list shows is read, so that listing is quick whatever the store holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

from hypergraph.checkpointers.query import parse
from hypergraph.display import iso, jsonable
from hypergraph.views.problems import USAGE, Problem

if TYPE_CHECKING:  # making a Protocol takes a while, and only the type checker needs it
    from typing import Protocol

    from hypergraph.checkpointers.query import Query

    class Lists(Protocol):
        """What can list workflows: any store, or a file that only lists are wanted of."""

        def summaries(self, query: Query) -> tuple[list[dict[str, Any]], int, str | None]:
            """Return the fields of each workflow on a page, the number of all, and the next cursor."""


class WorkflowSummary(TypedDict):
    """One workflow, without its steps and values."""

    id: str
    status: str  # active, completed, failed, paused, stopped or partial
    alive: bool | None  # of an active one, whether somebody is at work on it; null where nobody looked
    graph: str | None
    created_at: str
    completed_at: str | None
    duration_ms: float | None
    steps: int
    parent: str | None
    node: str | None  # of the parent, that this is a run of
    item: int | None  # of a map
    forked_from: str | None
    forked_at: int | None
    tags: dict[str, str]


class WorkflowPage(TypedDict):
    """Workflows, newest first."""

    schema: str  # hypergraph.workflows/1
    items: list[WorkflowSummary]
    total: int  # all that match, on whatever page
    next_cursor: str | None


def workflows(lists: Lists, **filters: Any) -> WorkflowPage:
    """List workflows; the filters are those of `Checkpointer.list_workflows`.

    Raises:
        Problem: a filter cannot be understood.
    """
    try:
        found, total, cursor = lists.summaries(parse(**filters))
    except ValueError as error:
        raise Problem(USAGE, str(error)) from error
    return {
        "schema": "hypergraph.workflows/1",
        "items": [summary(fields) for fields in found],
        "total": total,
        "next_cursor": cursor,
    }


def summary(fields: dict[str, Any]) -> WorkflowSummary:
    """Return what lists show of a workflow, from its fields."""
    return {
        "id": jsonable(fields["id"]),
        "status": getattr(fields["status"], "value", fields["status"]),
        "alive": None,
        "graph": jsonable(fields["graph_name"]),
        "created_at": iso(fields["created_at"]) or "",
        "completed_at": iso(fields["completed_at"]),
        "duration_ms": fields["duration_ms"],
        "steps": fields["step_count"],
        "parent": jsonable(fields["parent_id"]),
        "node": jsonable(fields["node_name"]),
        "item": fields["item"],
        "forked_from": jsonable(fields["forked_from"]),
        "forked_at": fields["forked_at"],
        "tags": jsonable(fields["tags"]),
    }
