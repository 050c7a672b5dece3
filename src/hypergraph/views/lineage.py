"""Who a workflow stems from, which forks it has, and which runs are part of it.

The tree is told as a list, parents first, each row with its depth. Children that are many, as the items of
a map are, are one row with counts. Below the root of the forks all forks are listed; children only of the
workflow asked about.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypedDict

from hypergraph.checkpointers import Checkpointer, Workflow, WorkflowStatus
from hypergraph.checkpointers.query import Query
from hypergraph.display import iso, jsonable
from hypergraph.views.base import known

_MANY = 10  # children of one workflow from which on they are counted, not listed
_MOST = 500  # rows of one answer
_DEEPEST = 50  # levels


class Relative(TypedDict):
    """One workflow of the family, or several children of one, counted."""

    id: str  # of the workflow; of counted children that of their parent
    relation: str  # root, fork, child, or children for several
    depth: int
    of: str | None  # the workflow that it is a fork or child of
    current: bool  # the one asked about
    status: str | None  # null for several
    graph: str | None
    node: str | None  # of the parent, that this is a run of
    item: int | None  # of a map
    steps: int
    duration_ms: float | None
    created_at: str | None
    forked_at: int | None  # the superstep
    count: int  # workflows that this row stands for
    statuses: dict[str, int]  # how many of them have which


class LineageView(TypedDict):
    """The family of a workflow."""

    schema: str  # hypergraph.lineage/1
    workflow: str
    items: list[Relative]
    left_out: int  # workflows at least that found no place


def lineage(store: Checkpointer, wf: str) -> LineageView:
    """Return the tree of forks that a workflow is part of, and its children.

    Raises:
        Problem: there is no such workflow.
    """
    workflow = known(store, wf)
    family = _Family(store, workflow)
    rows: list[Relative] = []
    left_out = 0
    for row in family.rows():
        if len(rows) < _MOST:
            rows.append(row)
        else:
            left_out += row["count"]
    return {
        "schema": "hypergraph.lineage/1",
        "workflow": jsonable(workflow.id),
        "items": rows,
        "left_out": left_out,
    }


class _Family:
    """The relatives of one workflow. Each is told once: an id that was used again may close a circle."""

    def __init__(self, store: Checkpointer, workflow: Workflow) -> None:
        self.store = store
        self.current = workflow
        self.seen: set[str] = set()

    def rows(self) -> Iterator[Relative]:
        yield from self._tree(self._root(), "root", 0, None)

    def _root(self) -> Workflow:
        root, passed = self.current, {self.current.id}
        while root.forked_from is not None and root.forked_from not in passed:
            passed.add(root.forked_from)
            older = self.store.backend.read_workflow(root.forked_from)
            if older is None:
                break
            root = older
        return root

    def _tree(self, workflow: Workflow, relation: str, depth: int, of: str | None) -> Iterator[Relative]:
        if workflow.id in self.seen or depth > _DEEPEST:
            return
        self.seen.add(workflow.id)
        yield self._row(workflow, relation, depth, of)
        if workflow.id == self.current.id:
            yield from self._children(workflow, depth + 1)
        forks, _, _ = self.store.backend.find(Query(forked_from=workflow.id, top_level=False, limit=_MOST))
        for fork in reversed(forks):
            yield from self._tree(fork, "fork", depth + 1, workflow.id)

    def _children(self, workflow: Workflow, depth: int) -> Iterator[Relative]:
        children, total, _ = self.store.backend.find(Query(parent=workflow.id, limit=_MANY + 1))
        if total > _MANY:
            yield self._counted(workflow, children[0], depth, total)
            return
        for child in sorted(children, key=lambda child: (child.item or 0, child.created_at)):
            if depth <= _DEEPEST:
                yield self._row(child, "child", depth, workflow.id)
                yield from self._children(child, depth + 1)

    def _row(self, workflow: Workflow, relation: str, depth: int, of: str | None) -> Relative:
        return {
            "id": jsonable(workflow.id),
            "relation": relation,
            "depth": depth,
            "of": jsonable(of),
            "current": workflow.id == self.current.id,
            "status": workflow.status.value,
            "graph": jsonable(workflow.graph_name),
            "node": jsonable(workflow.node_name),
            "item": workflow.item,
            "steps": workflow.step_count,
            "duration_ms": workflow.duration_ms,
            "created_at": iso(workflow.created_at),
            "forked_at": workflow.forked_at,
            "count": 1,
            "statuses": {workflow.status.value: 1},
        }

    def _counted(self, workflow: Workflow, child: Workflow, depth: int, total: int) -> Relative:
        row = self._row(child, "children", depth, workflow.id)
        row["id"], row["status"], row["item"] = jsonable(workflow.id), None, None
        row["steps"], row["duration_ms"], row["created_at"], row["forked_at"] = 0, None, None, None
        row["count"], row["statuses"] = total, self._statuses(workflow)
        return row

    def _statuses(self, workflow: Workflow) -> dict[str, int]:
        counts = {}
        for status in WorkflowStatus:
            _, total, _ = self.store.backend.find(
                Query(parent=workflow.id, statuses=frozenset([status]), limit=1)
            )
            if total:
                counts[status.value] = total
        return counts
