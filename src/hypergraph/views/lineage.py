"""Family of a workflow: the tree of its forks, and the runs below it.

The tree is a list of rows, parents first, each with its depth. More than a few children, as a map has, are
one row with counts. Forks are listed from the root of the tree on, children only of the workflow asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypedDict

from hypergraph.checkpointers import Checkpointer, Workflow, WorkflowStatus
from hypergraph.checkpointers.query import Query
from hypergraph.display import jsonable
from hypergraph.views.lookup import require_workflow
from hypergraph.views.workflows import WorkflowSummary, workflow_summary

_MANY = 10  # children above which they are counted, not listed
_MOST = 500  # rows of one answer
_DEEPEST = 50  # levels
_WORST_FIRST = ("failed", "partial", "paused", "active", "stopped", "completed")


class Relative(WorkflowSummary):
    """One workflow of the family; or several children in one row, with the fields of the newest of them."""

    relation: str  # root, fork, child, or children for several
    depth: int
    of: str | None  # the workflow that it is a fork or child of
    current: bool  # the workflow asked for
    count: int  # workflows in this row
    statuses: dict[str, int]  # how many of them have which; `status` is the worst of these


class LineageView(TypedDict):
    """The family of a workflow."""

    schema: str  # hypergraph.lineage/1
    workflow: str
    items: list[Relative]
    left_out: int  # at least so many workflows are not listed


def lineage(store: Checkpointer, wf: str) -> LineageView:
    """Return the tree of forks that a workflow is part of, and its children.

    Raises:
        Problem: the workflow does not exist.
    """
    workflow = require_workflow(store, wf)
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
    """The relatives of one workflow, each listed once: an id that was used again may close a circle."""

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
            if depth <= _DEEPEST and child.id not in self.seen:
                self.seen.add(child.id)
                yield self._row(child, "child", depth, workflow.id)
                yield from self._children(child, depth + 1)

    def _row(self, workflow: Workflow, relation: str, depth: int, of: str | None) -> Relative:
        return {
            **workflow_summary(workflow),
            "relation": relation,
            "depth": depth,
            "of": jsonable(of),
            "current": workflow.id == self.current.id,
            "count": 1,
            "statuses": {workflow.status.value: 1},
        }

    def _counted(self, workflow: Workflow, newest: Workflow, depth: int, total: int) -> Relative:
        row = self._row(newest, "children", depth, workflow.id)
        row["count"], row["statuses"] = total, self._statuses(workflow)
        row["status"] = min(row["statuses"], key=_WORST_FIRST.index)
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
