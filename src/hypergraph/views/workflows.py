"""Lists of workflows; only the columns that a list shows are read, and no store is loaded."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypedDict

from hypergraph.checkpointers.query import parse
from hypergraph.display import iso, jsonable, shortened
from hypergraph.views.problems import USAGE, Problem

if TYPE_CHECKING:  # a Protocol takes a while to make, and only the type checker needs it
    from typing import Protocol

    from hypergraph.checkpointers import Checkpointer, Workflow
    from hypergraph.checkpointers.query import Query

    class Lists(Protocol):
        """A source of lists: any store, or a SQLite file without one."""

        def summaries(self, query: "Query") -> tuple[list[dict[str, Any]], int, str | None]:
            """Return the fields of each workflow on a page, the number of all, and the next cursor."""

        def count_failed(self, workflow_ids: Iterable[str]) -> dict[str, int]:
            """Return how many items, or else nested runs, failed below workflows."""


_FIELDS = (
    *("id", "status", "graph_name", "created_at", "completed_at", "duration_ms", "step_count"),
    *("parent_id", "node_name", "item", "forked_from", "forked_at", "tags", "due", "version"),
    *("reason", "fingerprint"),
)
_KEY = 1000  # characters of a key


class WorkflowSummary(TypedDict):
    """One workflow, without its steps and values."""

    id: str
    status: str  # active, completed, failed, paused, stopped or partial
    alive: bool | None  # of an active one, whether its owner process lives; null if not checked
    graph: str | None
    created_at: str
    completed_at: str | None
    duration_ms: float | None
    steps: int
    parent: str | None
    node: str | None  # of the parent, which this is a run of
    item: int | None  # of a map
    key: str | None  # of an item of a map with a key; a long one is cut in its middle
    forked_from: str | None
    forked_at: int | None
    tags: dict[str, str]
    due: str | None  # of a paused one, the first deadline of its questions or time of its timers
    version: str | None  # of the code that ran it last; it is pinned to that until it has completed
    reason: str | None  # why it was stopped, or failed where no step says so: an endless loop
    failed_inside: int  # of a run that did not fail: how many items of maps in it, or else nested runs, did
    usage: dict[str, float]  # what was recorded with ctx.record; of one workflow, and in lists sorted by it


class WorkflowPage(TypedDict):
    """Workflows, newest first."""

    schema: str  # hypergraph.workflows/1
    items: list[WorkflowSummary]
    total: int  # all that match, on any page
    next_cursor: str | None
    queued: dict[str, int] | None  # on a cluster: submitted runs that wait, are delayed or dead


def workflows(lists: "Lists", *, sort: str | None = None, **filters: Any) -> WorkflowPage:
    """List workflows; the filters are those of `Checkpointer.list_workflows`.

    `sort` is id, status, graph, steps, duration or created, with "-up" or "-down"; the newest come first
    without it.

    Raises:
        Problem: a filter or the order is invalid.
    """
    try:
        found, total, cursor = lists.summaries(parse(**filters)._replace(order=sort or ""))
        failed = failures_inside(lists, found)
    except ValueError as error:
        raise Problem(USAGE, str(error)) from error
    return {
        "schema": "hypergraph.workflows/1",
        "items": [_summary(fields, failed.get(fields["id"], 0)) for fields in found],
        "total": total,
        "next_cursor": cursor,
        "queued": None,
    }


def with_owners(store: "Checkpointer", page: WorkflowPage) -> WorkflowPage:
    """Return a page whose active workflows say whether their owner process lives. Raises CheckpointError."""
    note_owners(store, page["items"])
    return page


def note_owners(store: "Checkpointer", items: Iterable[WorkflowSummary]) -> None:
    """Note in active workflows whether their owner process lives. Raises CheckpointError."""
    active = [item for item in items if item["status"] == "active"]
    owners = store.backend.read_owners([item["id"] for item in active]) if active else {}
    for item in active:
        item["alive"] = item["id"] in owners and owners[item["id"]].alive


def by_usage(store: "Checkpointer", name: str, *, limit: int | None = 20, **filters: Any) -> WorkflowPage:
    """List workflows with the greatest recorded amount first; those without any come last.

    Raises:
        Problem: a filter is invalid, or nothing of this name was recorded.
    """
    page = workflows(store.backend, **filters, limit=None)
    found = store.backend.total_usage([item["id"] for item in page["items"]])
    known = sorted({each for amounts in found.values() for each in amounts})
    if name not in known and page["items"]:
        recorded = f"Recorded are: {', '.join(known)}" if known else "Nodes record amounts with ctx.record"
        raise Problem(USAGE, f"No workflow has recorded {name!r}", recorded)
    for item in page["items"]:
        item["usage"] = found.get(item["id"], {})
    page["items"].sort(key=lambda item: -item["usage"].get(name, -1.0))
    page["items"] = page["items"][:limit]
    return page


def workflow_summary(found: "Workflow", failed: int = 0) -> WorkflowSummary:
    """Return a stored workflow as lists show it; `failed` runs in it failed without failing it."""
    return _summary({name: getattr(found, name) for name in _FIELDS}, failed)


def shown_key(key: str | None) -> str | None:
    """Return the key of an item as answers show it; a long one is cut in its middle."""
    return None if key is None else jsonable(shortened(key, _KEY))


def failures_inside(lists: "Lists", found: Iterable[dict[str, Any]]) -> dict[str, int]:
    """Return how many runs failed inside of workflows whose status does not show it."""
    return lists.count_failed([fields["id"] for fields in found if not has_failed(fields)])


def has_failed(fields: dict[str, Any]) -> bool:
    """Say whether a workflow has failed, or is a map with items that have."""
    return getattr(fields["status"], "value", fields["status"]) in ("failed", "partial")


def _summary(fields: dict[str, Any], failed: int = 0) -> WorkflowSummary:
    shown: WorkflowSummary = jsonable(
        {
            "id": fields["id"],
            "status": getattr(fields["status"], "value", fields["status"]),
            "alive": None,
            "graph": fields["graph_name"],
            "created_at": iso(fields["created_at"]) or "",
            "completed_at": iso(fields["completed_at"]),
            "duration_ms": fields["duration_ms"],
            "steps": fields["step_count"],
            "parent": fields["parent_id"],
            "node": fields["node_name"],
            "item": fields["item"],
            "key": shown_key(fields["fingerprint"]),
            "forked_from": fields["forked_from"],
            "forked_at": fields["forked_at"],
            "tags": fields["tags"],
            "due": iso(fields["due"]),
            "version": fields["version"],
            "reason": fields["reason"],
            "failed_inside": failed,
            "usage": {},
        }
    )
    return shown
