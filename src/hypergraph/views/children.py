"""The workflows below one, nested runs or items of a map: how many ended how, and some of them."""

from __future__ import annotations

from hypergraph.checkpointers import Checkpointer, Workflow, WorkflowStatus
from hypergraph.checkpointers.filters import Query

LISTED = 20  # children that are listed, those that failed first
_FIELDS = (
    *("id", "status", "graph_name", "created_at", "completed_at", "duration_ms", "step_count"),
    *("parent_id", "node_name", "item", "forked_from", "forked_at", "tags"),
)


def fields_of(found: Workflow) -> dict[str, object]:
    """Return the fields of a workflow that `summary` takes."""
    return {name: getattr(found, name) for name in _FIELDS}


def few_children(store: Checkpointer, wf: str) -> tuple[list[Workflow], dict[str, int]]:
    """Return children, where they are many those of interest, and how many there are by status."""
    counts: dict[str, int] = {}
    listed: list[Workflow] = []
    # Each status is one look at an index, however many items a map has.
    for status in ("failed", "partial", "paused", "active", "stopped", "completed"):
        query = Query(parent=wf, statuses=frozenset([WorkflowStatus(status)]), limit=LISTED)
        page, count, _ = store.find(query)
        if count:
            counts[status] = count
            listed += page[: LISTED - len(listed)]
    # Lists begin with the newest; of a map one wants to see where it begins.
    items = sorted(store.read_items(wf), key=lambda item: (item.status != "failed", item.item))[:LISTED]
    found = [store.read_workflow(item.id) for item in items] if items else listed
    return sorted(filter(None, found), key=_order), counts


def _order(child: Workflow) -> tuple[bool, int, str]:
    return child.status is not WorkflowStatus.FAILED, child.item or 0, child.id
