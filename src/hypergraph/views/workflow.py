"""One workflow at a glance, and the runs below it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypedDict

from hypergraph.checkpointers import Checkpointer, StepStatus, Workflow, WorkflowStatus
from hypergraph.checkpointers.backend import StepTally
from hypergraph.checkpointers.query import Query
from hypergraph.display import jsonable
from hypergraph.views.base import known
from hypergraph.views.errors import ErrorGroup, ErrorPage, FirstError, errors, first_error
from hypergraph.views.owners import is_alive
from hypergraph.views.state import upcoming
from hypergraph.views.step import PauseView, pause_view
from hypergraph.views.workflows import WorkflowSummary, summary

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
        page, count, _ = store.backend.find(query)
        if count:
            counts[status] = count
            listed += page[: LISTED - len(listed)]
    # Lists begin with the newest; of a map one wants to see where it begins.
    items = sorted(store.backend.read_items(wf), key=lambda item: (item.status != "failed", item.item))[
        :LISTED
    ]
    found = [store.backend.read_workflow(item.id) for item in items] if items else listed
    return sorted(filter(None, found), key=_order), counts


def _order(child: Workflow) -> tuple[bool, int, str]:
    return child.status is not WorkflowStatus.FAILED, child.item or 0, child.id


_DEEPEST = 50  # levels
_MOST = 1000  # rows


class TreeRow(WorkflowSummary):
    """One run, below the one it is part of."""

    depth: int
    left_out: int  # children that are not listed


class TreeView(TypedDict):
    """All runs of a workflow, parents first; of many children those that failed, and some others."""

    schema: str  # hypergraph.tree/1
    workflow: str
    items: list[TreeRow]
    complete: bool


def tree(store: Checkpointer, wf: str) -> TreeView:
    """List the runs that a workflow consists of.

    Raises:
        Problem: there is no such workflow.
    """
    rows: list[TreeRow] = []
    complete = True
    for row in _rows(store, known(store, wf), 0):
        if len(rows) == _MOST:
            complete = False
            break
        complete = complete and not row["left_out"]
        rows.append(row)
    return {"schema": "hypergraph.tree/1", "workflow": jsonable(wf), "items": rows, "complete": complete}


def _rows(store: Checkpointer, found: Workflow, depth: int) -> Iterator[TreeRow]:
    children, counts = few_children(store, found.id) if depth < _DEEPEST else ([], {})
    left_out = sum(counts.values()) - len(children)
    yield {**summary(fields_of(found)), "depth": depth, "left_out": left_out}
    for child in children:
        yield from _rows(store, child, depth + 1)


__all__ = [
    "ChildCounts",
    "ErrorGroup",
    "ErrorPage",
    "FirstError",
    "NodeRow",
    "WorkflowDetail",
    "errors",
    "fields_of",
    "workflow",
]

_FORKS = 20  # that are named
_ITEMS = 2000  # of a map whose steps are added up


class NodeRow(TypedDict):
    """All executions of one node."""

    node: str
    runs: int
    total_ms: float
    avg_ms: float
    errors: int
    cached: int


class ChildCounts(TypedDict):
    """The workflows below one: nested runs, or the items of a map."""

    total: int
    by_status: dict[str, int]
    is_map: bool  # they are items, which run instead of nodes
    items: list[WorkflowSummary]  # some of them, those that failed first


class WorkflowDetail(WorkflowSummary):
    """One workflow, without its values."""

    schema: str  # hypergraph.workflow/1
    counts: dict[str, int]  # steps by status
    nodes: list[NodeRow]  # in order of first execution; of a map those of its items, unless they are too many
    first_error: FirstError | None
    pause: PauseView | None
    children: ChildCounts
    next: list[str] | None  # nodes that would run next, None if finding out takes too long
    forks: list[str]


def workflow(store: Checkpointer, wf: str) -> WorkflowDetail:
    """Return one workflow at a glance.

    Raises:
        Problem: there is none of that id.
    """
    found, tallies = known(store, wf), store.backend.tally_steps(wf)
    forks, _, _ = store.backend.find(Query(forked_from=wf, top_level=False, limit=_FORKS))
    children = _children(store, wf)
    return {
        **summary(fields_of(found)),
        "schema": "hypergraph.workflow/1",
        "alive": is_alive(store, wf) if found.status is WorkflowStatus.ACTIVE else None,
        "counts": _by_status(tallies),
        "nodes": list(_node_rows(tallies or _of_items(store, children, wf))),
        "first_error": first_error(store, found, tallies),
        "pause": _pause(store, found, tallies),
        "children": children,
        "next": [] if children["is_map"] else upcoming(store, found),
        "forks": [jsonable(fork.id) for fork in forks],
    }


def _by_status(tallies: Sequence[StepTally]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for tally in tallies:
        counts[tally.status.value] = counts.get(tally.status.value, 0) + tally.steps
    return counts


def _node_rows(tallies: Sequence[StepTally]) -> Iterator[NodeRow]:
    for node in dict.fromkeys(tally.node for tally in tallies):
        own = [tally for tally in tallies if tally.node == node]
        runs, total = sum(tally.steps for tally in own), sum(tally.total_ms for tally in own)
        yield {
            "node": jsonable(node),
            "runs": runs,
            "total_ms": total,
            "avg_ms": total / runs,
            "errors": sum(tally.steps for tally in own if tally.status is StepStatus.FAILED),
            "cached": sum(tally.steps for tally in own if tally.cached),
        }


def _of_items(store: Checkpointer, children: ChildCounts, wf: str) -> list[StepTally]:
    if not children["is_map"] or children["total"] > _ITEMS:
        return []
    items, _, _ = store.backend.find(Query(parent=wf, limit=None))
    return [tally for item in items[::-1] for tally in store.backend.tally_steps(item.id)]


def _pause(store: Checkpointer, found: Workflow, tallies: Sequence[StepTally]) -> PauseView | None:
    if found.status is not WorkflowStatus.PAUSED:
        return None
    paused = [tally.last for tally in tallies if tally.status is StepStatus.PAUSED]
    step = store.without_artifacts().step(found.id, max(paused)) if paused else None
    return None if step is None or step.pause is None else pause_view(step.pause)


def _children(store: Checkpointer, wf: str) -> ChildCounts:
    listed, counts = few_children(store, wf)
    return {
        "total": sum(counts.values()),
        "by_status": counts,
        "is_map": any(child.item is not None for child in listed),
        "items": [summary(fields_of(child)) for child in listed],
    }
