"""A workflow and the runs that are part of it: nested graphs and the items of maps, each with its depth."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypedDict

from hypergraph.checkpointers import Checkpointer, Workflow
from hypergraph.display import jsonable
from hypergraph.views.children import few_children, fields_of
from hypergraph.views.records import known
from hypergraph.views.workflows import WorkflowSummary, summary

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
