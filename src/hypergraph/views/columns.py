"""All steps of a workflow as columns: what a waterfall, an overlay and a slider over supersteps need.

Twenty thousand steps fit into one or two answers; names of nodes are said once, times are milliseconds since
the workflow was created.
"""

from __future__ import annotations

from typing import TypedDict

from hypergraph.checkpointers import Checkpointer
from hypergraph.checkpointers.columns import micros
from hypergraph.checkpointers.reading import StepLine
from hypergraph.display import jsonable
from hypergraph.views.positions import cursor_after, position_in
from hypergraph.views.records import known
from hypergraph.views.workflows import iso

MOST = 20_000  # steps in one answer


class Rows(TypedDict):
    """Lists of the same length, an entry for each step, by superstep and index."""

    index: list[int]
    superstep: list[int]
    node: list[int]  # its place in `nodes`
    start_ms: list[float | None]  # since `origin`; null where a fork copied the step
    duration_ms: list[float | None]
    status: list[str]
    visit: list[int]
    attempt: list[int]
    cached: list[int]  # 1 or 0
    replayed: list[int]
    child: list[str | None]


class ColumnsView(TypedDict):
    """The steps of a workflow, or those after the cursor."""

    schema: str  # hypergraph.columns/1
    workflow: str
    origin: str | None  # when the workflow was created
    rows: Rows
    nodes: list[str]  # those of this answer
    last: int | None  # the last superstep of this answer
    total: int  # steps of the workflow
    next_cursor: str | None


def columns(store: Checkpointer, id: str, *, after: str | None = None, limit: int = MOST) -> ColumnsView:
    """Return the steps of a workflow as columns; `after` is the `next_cursor` of the answer before.

    Raises:
        Problem: there is no such workflow, or the cursor is none.
    """
    workflow = known(store, id)
    origin = micros(workflow.created_at) or 0
    lines = store.read_lines(id, after=position_in(after), limit=limit + 1)
    more, lines = len(lines) > limit, lines[:limit]
    nodes: dict[str, int] = {}
    return {
        "schema": "hypergraph.columns/1",
        "workflow": jsonable(id),
        "origin": iso(workflow.created_at),
        "rows": {
            "index": [line.idx for line in lines],
            "superstep": [line.superstep for line in lines],
            "node": [nodes.setdefault(line.node, len(nodes)) for line in lines],
            "start_ms": [_start(line, origin) for line in lines],
            "duration_ms": [_rounded(line.duration_ms) for line in lines],
            "status": [line.status for line in lines],
            "visit": [line.visit for line in lines],
            "attempt": [line.attempt for line in lines],
            "cached": [int(line.cached) for line in lines],
            "replayed": [int(line.replayed) for line in lines],
            "child": [line.child and jsonable(line.child) for line in lines],
        },
        "nodes": [jsonable(name) for name in nodes],
        "last": lines[-1].superstep if lines else None,
        "total": workflow.step_count,
        "next_cursor": cursor_after((lines[-1].superstep, lines[-1].idx)) if more else None,
    }


def _start(line: StepLine, origin: int) -> float | None:
    """Return when a step began; what a fork copied ran in another workflow."""
    if line.replayed:
        return None
    return _rounded((line.ended - origin) / 1000 - (line.duration_ms or 0.0))


def _rounded(ms: float | None) -> float | None:
    return None if ms is None else round(ms, 3)
