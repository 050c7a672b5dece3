"""The critical path of a workflow: the chain of steps that its time went by, through nested runs.

On each level it is the longest chain of steps that had to wait for each other. A step that is a nested run
counts with the time it took; inside it the path goes on along the longest chain there, and in a map along
the slowest item.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypedDict

from hypergraph.checkpointers import Checkpointer, StepRecord, Workflow
from hypergraph.checkpointers.filters import Query
from hypergraph.checkpointers.history import History
from hypergraph.display import jsonable
from hypergraph.views.waits import Chain, cost, longest_chain

_NESTED = 200  # nested runs that the path is followed into


class CriticalNode(TypedDict):
    """One node on the critical path."""

    path: str  # names from the outermost graph inwards, joined by "/"
    steps: int  # of it that are on the path
    duration_ms: float
    share: float  # of the length of the path, 0 to 1; what is inside a node counts in its share too


class CriticalPath(TypedDict):
    """The longest chain of steps that waited for each other: no order of execution is quicker."""

    length_ms: float
    steps: int  # of the workflow itself
    nodes: list[CriticalNode]  # the one with the greatest share first
    left_out: int  # nested runs that the path was not followed into


@dataclass
class Critical:
    """What is known of the path, and on the way there of the workflow."""

    length_ms: float = 0.0
    busy_ms: float = 0.0
    steps: set[tuple[str, int | None]] = field(default_factory=set)  # workflow and index; items have none
    own: int = 0
    times: dict[str, list[float]] = field(default_factory=dict)  # by path
    followed: int = 0
    left_out: int = 0

    @property
    def view(self) -> CriticalPath:
        """The path as it is told to others."""
        nodes: list[CriticalNode] = [
            {
                "path": jsonable(path),
                "steps": len(times),
                "duration_ms": sum(times),
                "share": sum(times) / self.length_ms if self.length_ms else 0.0,
            }
            for path, times in self.times.items()
        ]
        nodes.sort(key=lambda node: -node["duration_ms"])
        return {
            "length_ms": self.length_ms,
            "steps": self.own,
            "nodes": nodes,
            "left_out": self.left_out,
        }


def critical_path(store: Checkpointer, workflow: Workflow) -> Critical:
    """Return the critical path of a workflow, or of a map."""
    critical = Critical()
    if workflow.step_count:
        history = History(store, workflow.id)
        chain = longest_chain(history, workflow.graph)
        critical.length_ms, critical.own = chain.length_ms, len(chain.steps)
        critical.busy_ms = sum(map(cost, history.steps))
        _Walk(store, critical).along(workflow.id, chain, "")
        return critical
    items = items_of(store, workflow)
    critical.busy_ms = sum(item.duration_ms or 0.0 for item in items)
    slowest = _slowest(items)
    if slowest is not None:
        critical.length_ms, critical.own = slowest.duration_ms or 0.0, 1
        critical.steps.add((slowest.id, None))
        _Walk(store, critical).into(slowest, "")
    return critical


def items_of(store: Checkpointer, workflow: Workflow) -> list[Workflow]:
    """Return the items of a map, in order; none of a workflow that is no map."""
    children, _, _ = store.find(Query(parent=workflow.id, limit=None))
    items = [child for child in children if child.item is not None]
    return sorted(items, key=lambda child: child.item or 0)


def _slowest(items: Iterable[Workflow]) -> Workflow | None:
    return max(items, key=lambda item: item.duration_ms or 0.0, default=None)


class _Walk:
    """Mark what is on the path, and go on inside nested runs."""

    def __init__(self, store: Checkpointer, critical: Critical) -> None:
        self.store = store
        self.critical = critical

    def along(self, workflow_id: str, chain: Chain, prefix: str) -> None:
        for step in chain.steps:
            self.critical.steps.add((workflow_id, step.index))
            path = f"{prefix}{step.node_name}"
            self.critical.times.setdefault(path, []).append(cost(step))
            self._nested(step, path)

    def _nested(self, step: StepRecord, path: str) -> None:
        if step.child_workflow_id is None or step.replayed:
            return
        if self.critical.followed >= _NESTED:
            self.critical.left_out += 1
            return
        self.critical.followed += 1
        child = self.store.read_workflow(step.child_workflow_id)
        if child is not None:
            self.into(child, f"{path}/")

    def into(self, child: Workflow, prefix: str) -> None:
        if child.step_count:
            chain = longest_chain(History(self.store, child.id), child.graph)
            self.along(child.id, chain, prefix)
            return
        slowest = _slowest(items_of(self.store, child))
        if slowest is not None:
            self.critical.steps.add((slowest.id, None))
            self.into(slowest, prefix)
