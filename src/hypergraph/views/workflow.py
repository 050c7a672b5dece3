"""One workflow at a glance: how it went, where its time went, what went wrong first, what it waits for.

All of it comes from counts and single steps, so a long history is as quick to look at as a short one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypedDict

from hypergraph.checkpointers import Checkpointer, StepStatus, Workflow, WorkflowStatus
from hypergraph.checkpointers.filters import Query
from hypergraph.checkpointers.reading import StepTally
from hypergraph.display import jsonable
from hypergraph.views.children import few_children, fields_of
from hypergraph.views.errors import ErrorGroup, ErrorPage, FirstError, errors, first_error
from hypergraph.views.owners import is_alive
from hypergraph.views.records import known
from hypergraph.views.state import upcoming
from hypergraph.views.step import PauseView, pause_view
from hypergraph.views.workflows import WorkflowSummary, summary

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
    found, tallies = known(store, wf), store.tally_steps(wf)
    forks, _, _ = store.find(Query(forked_from=wf, top_level=False, limit=_FORKS))
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
    items, _, _ = store.find(Query(parent=wf, limit=None))
    return [tally for item in items[::-1] for tally in store.tally_steps(item.id)]


def _pause(store: Checkpointer, found: Workflow, tallies: Sequence[StepTally]) -> PauseView | None:
    if found.status is not WorkflowStatus.PAUSED:
        return None
    paused = [tally.last for tally in tallies if tally.status is StepStatus.PAUSED]
    step = store.skimming().read_step(found.id, max(paused)) if paused else None
    return None if step is None or step.pause is None else pause_view(step.pause)


def _children(store: Checkpointer, wf: str) -> ChildCounts:
    listed, counts = few_children(store, wf)
    return {
        "total": sum(counts.values()),
        "by_status": counts,
        "is_map": any(child.item is not None for child in listed),
        "items": [summary(fields_of(child)) for child in listed],
    }
