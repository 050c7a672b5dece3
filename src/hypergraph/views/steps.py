"""Steps of a workflow: pages of them with filters, and all of them as columns."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from typing import TypedDict

from hypergraph.checkpointers import Checkpointer, StepRecord, StepStatus
from hypergraph.checkpointers.backend import Position, StepOutline, position_of
from hypergraph.checkpointers.query import Query, milliseconds
from hypergraph.checkpointers.view import view_of
from hypergraph.display import did_you_mean, iso, jsonable
from hypergraph.views.inner import add_inner
from hypergraph.views.lookup import cursor_after, map_size, position_in, require_workflow
from hypergraph.views.problems import AMBIGUOUS, NOT_FOUND, USAGE, Problem
from hypergraph.views.step import Step, shown_step, step

MOST = 20_000  # steps in one answer as columns
STATUSES = (*(status.value for status in StepStatus), "cached", "skipped")
_CHUNK = 5000  # outlines read at once to apply filters
_FAR = 2**62  # no index comes after it
_FEW = 10  # ids that an error lists
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Test = Callable[[StepOutline], bool]


class StepPage(TypedDict):
    """Steps in order."""

    schema: str  # hypergraph.steps/1
    workflow: str
    map_size: int | None  # the items of a map, which have the steps; null for a run
    items: list[Step]
    total: int | None  # all that match; null where counting means to read the rest
    next_cursor: str | None


def steps(
    store: Checkpointer,
    wf: str,
    *,
    node: str | None = None,
    status: str | None = None,
    superstep: str | int | None = None,
    item: int | None = None,
    iteration: int | None = None,
    slow: str | float | None = None,
    values: bool = False,
    limit: int = 20,
    cursor: str | None = None,
) -> StepPage:
    """List the steps of a workflow, or of one item of a map; every filter narrows the choice.

    `node` is a pattern like "embed*", `superstep` a number or a range like "3..7", `iteration` counts the
    visits of a node from 1, `slow` is the least duration, like "1s" or in milliseconds. With `values` each
    step has its outputs.

    Raises:
        Problem: the workflow or the item does not exist, or a filter is invalid.
    """
    if item is not None:
        wf = item_of(store, wf, item)
    found = require_workflow(store, wf)
    tests = _tests(node, status, iteration, slow)
    first, last = _range(superstep)
    after = max((first - 1, _FAR), position_in(cursor))
    if limit < 1:
        raise Problem(USAGE, "limit must be at least 1")
    if tests:
        lines, ended = _matching(_walk(store, wf, after, last), tests, limit)
        kept = [record for line in lines for record in _at(store, wf, line)]
    else:
        kept = store.steps(wf, after=after, limit=limit + 1, superstep=last, values=False)
        kept, ended = kept[:limit], len(kept) <= limit
    is_all = not tests and superstep is None
    rows = [_row(store, record, values) for record in kept]
    add_inner(view_of(store, artifacts=False), wf, rows)
    return {
        "schema": "hypergraph.steps/1",
        "workflow": jsonable(wf),
        "map_size": None if found.step_count else map_size(store, wf),
        "items": rows,
        "total": found.step_count if is_all else len(kept) if ended and cursor is None else None,
        "next_cursor": None if ended else cursor_after(position_of(kept[-1])),
    }


def _row(store: Checkpointer, record: StepRecord, values: bool) -> Step:
    shown = shown_step(record)
    if values:
        shown["outputs"] = step(store, record.workflow_id, record.index)["outputs"]
    return shown


def item_of(store: Checkpointer, wf: str, item: int) -> str:
    """Return the workflow of one item of a map, or of the one mapped graph inside a workflow.

    Raises:
        Problem: the item does not exist, or several mapped graphs have one.
    """
    direct = f"{wf}/item-{item}"
    if store.backend.read_workflow(direct) is not None:
        return direct
    maps, _, _ = store.backend.find(Query(parent=wf, limit=1000))
    inner = [found for m in maps if store.backend.read_workflow(found := f"{m.id}/item-{item}") is not None]
    if len(inner) == 1:
        return inner[0]
    if inner:
        raise Problem(
            AMBIGUOUS, f"{wf!r} has several items {item}", "Give the id of one of them", inner[:_FEW]
        )
    listing = f"hypergraph ls --parent {shlex.quote(wf)}"
    raise Problem(NOT_FOUND, f"{wf!r} has no item {item}", f"To list its children: {listing}")


def _walk(store: Checkpointer, wf: str, after: Position, last: int | None) -> Iterator[StepOutline]:
    """Yield outlines of the steps after a position, which are read faster than whole records."""
    while page := store.backend.read_outlines(wf, after=after, limit=_CHUNK):
        for line in page:
            if last is not None and line.superstep > last:
                return
            yield line
        after = page[-1].superstep, page[-1].idx


def _matching(found: Iterator[StepOutline], tests: list[Test], limit: int) -> tuple[list[StepOutline], bool]:
    """Return a page of those that pass all tests, and whether it is the last one."""
    kept: list[StepOutline] = []
    for line in found:
        if all(test(line) for test in tests):
            if len(kept) == limit:
                return kept, False
            kept.append(line)
    return kept, True


def _at(store: Checkpointer, wf: str, line: StepOutline) -> list[StepRecord]:
    return store.steps(wf, after=(line.superstep, line.idx - 1), limit=1, values=False)


def _tests(
    node: str | None, status: str | None, iteration: int | None, slow: str | float | None
) -> list[Test]:
    tests: list[Test] = []
    if node is not None:
        tests.append(lambda step: fnmatchcase(step.node, node))
    if status is not None:
        tests.append(_status_test(status))
    if iteration is not None:
        tests.append(lambda step: step.visit == iteration)
    if slow is not None:
        least = milliseconds(slow) if isinstance(slow, str) else slow
        if least is None:
            raise Problem(USAGE, f"Invalid duration: {slow!r}", "Examples: 250ms, 1.5s, 2m")
        tests.append(lambda step: step.duration_ms is not None and step.duration_ms >= least)
    return tests


def _status_test(status: str) -> Test:
    if status not in STATUSES:
        hint = did_you_mean(status, STATUSES) or ""
        raise Problem(USAGE, f"Invalid status {status!r}: expected one of {', '.join(STATUSES)}", hint)
    if status in ("cached", "skipped"):
        return lambda step: step.cached if status == "cached" else step.replayed
    return lambda step: step.status == status


def _range(text: str | int | None) -> tuple[int, int | None]:
    """Return the first and the last superstep of a range."""
    if text is None:
        return 0, None
    found = re.fullmatch(r"(\d{1,15})(?:\.\.(\d{1,15}))?", str(text))
    if found is None:
        raise Problem(USAGE, f"Invalid superstep: {text!r}", "Examples: 3, or the range 3..7")
    return int(found[1]), int(found[2] or found[1])


class Rows(TypedDict):
    """Columns of the same length with an entry for each step, by superstep and index."""

    index: list[int]
    superstep: list[int]
    node: list[int]  # the position of its name in `nodes`
    start_ms: list[float | None]  # since `origin`; null where a fork copied the step
    duration_ms: list[float | None]
    status: list[str]
    visit: list[int]
    attempt: list[int]
    cached: list[int]  # 1 or 0
    replayed: list[int]
    child: list[str | None]
    decision: list[str | list[str] | None]  # the targets that a gate chose
    waited_ms: list[float | None]  # for a worker or a free slot, before it began
    inner: list[int]  # calls that the node made with ctx.step
    usage: list[dict[str, float] | None]  # recorded with ctx.record, in nested runs too


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
        Problem: the workflow does not exist, or the cursor is invalid.
    """
    workflow = require_workflow(store, id)
    origin = (workflow.created_at - _EPOCH) // timedelta(microseconds=1)
    lines = store.backend.read_outlines(id, after=position_in(after), limit=limit + 1)
    more, lines = len(lines) > limit, lines[:limit]
    nodes: dict[str, int] = {}
    inner, used = store.backend.count_inner(id), _used(store, id, lines)
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
            "decision": [None if line.decision is None else jsonable(line.decision) for line in lines],
            "waited_ms": [_rounded(line.waited_ms) for line in lines],
            "inner": [inner.get((line.superstep, line.node), 0) for line in lines],
            "usage": used,
        },
        "nodes": [jsonable(name) for name in nodes],
        "last": lines[-1].superstep if lines else None,
        "total": workflow.step_count,
        "next_cursor": cursor_after((lines[-1].superstep, lines[-1].idx)) if more else None,
    }


def _used(store: Checkpointer, wf: str, lines: list[StepOutline]) -> list[dict[str, float] | None]:
    """Return what was recorded by each step, and in the run inside of it."""
    nested = [line.child for line in lines if line.child is not None and not line.replayed]
    below = store.backend.total_usage(nested) if nested else {}
    own: dict[tuple[int, str], dict[str, float]] = {}
    for row in store.backend.read_usage(wf):
        amounts = own.setdefault((row.superstep, row.node), {})
        amounts[row.name] = amounts.get(row.name, 0) + row.amount
    return [_sum(own.get((line.superstep, line.node)), below.get(line.child or "")) for line in lines]


def _sum(*parts: dict[str, float] | None) -> dict[str, float] | None:
    found: dict[str, float] = {}
    for part in parts:
        for name, amount in (part or {}).items():
            found[jsonable(name)] = found.get(jsonable(name), 0) + amount
    return found or None


def _start(line: StepOutline, origin: int) -> float | None:
    """Return the start of a step; one that a fork copied ran in another workflow."""
    if line.replayed:
        return None
    return _rounded((line.ended - origin) / 1000 - (line.duration_ms or 0.0))


def _rounded(ms: float | None) -> float | None:
    return None if ms is None else round(ms, 3)
