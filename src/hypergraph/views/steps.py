"""The steps of one workflow, in pages of summaries, which hold no values; `step` is one of them in full."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from typing import TypedDict

from hypergraph.checkpointers import Checkpointer, StepRecord, StepStatus
from hypergraph.checkpointers.conditions import milliseconds
from hypergraph.checkpointers.filters import Query
from hypergraph.checkpointers.reading import Position, StepLine, position_of
from hypergraph.display import did_you_mean, jsonable
from hypergraph.views.positions import cursor_after, position_in
from hypergraph.views.problems import AMBIGUOUS, NOT_FOUND, USAGE, Problem
from hypergraph.views.records import StepSummary, known, step_summary
from hypergraph.views.step import StepDetail, StepValue, step

__all__ = [
    "STATUSES",
    "StepDetail",
    "StepPage",
    "StepRow",
    "StepSummary",
    "item_of",
    "known",
    "position_in",
    "step",
    "step_summary",
    "steps",
]

STATUSES = (*(status.value for status in StepStatus), "cached", "skipped")
_CHUNK = 5000  # steps read at once when only some of them are wanted
_FAR = 2**62  # no index comes after it
_FEW = 10  # ids that an error lists

Test = Callable[[StepLine], bool]


class StepRow(StepSummary, total=False):
    """A step in a list; its outputs only if values were asked for."""

    outputs: list[StepValue]


class StepPage(TypedDict):
    """Steps in order."""

    schema: str  # hypergraph.steps/1
    workflow: str
    items: list[StepRow]
    total: int | None  # all that match, None where counting would take reading the rest
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
    visits of a node from 1, `slow` is a duration like "1s", or milliseconds. With `values` each step comes
    with its outputs.

    Raises:
        Problem: there is no such workflow or item, or a filter cannot be understood.
    """
    if item is not None:
        wf = item_of(store, wf, item)
    found = known(store, wf)
    tests = _tests(node, status, iteration, slow)
    first, last = _range(superstep)
    after = max((first - 1, _FAR), position_in(cursor))
    if limit < 1:
        raise Problem(USAGE, "The limit must be at least 1")
    if tests:
        lines, ended = _matching(_walk(store, wf, after, last), tests, limit)
        kept = [record for line in lines for record in _at(store, wf, line)]
    else:
        kept = store.read_page(wf, after=after, limit=limit + 1, upto=last)
        kept, ended = kept[:limit], len(kept) <= limit
    is_all = not tests and superstep is None
    return {
        "schema": "hypergraph.steps/1",
        "workflow": jsonable(wf),
        "items": [_row(store, record, values) for record in kept],
        "total": found.step_count if is_all else len(kept) if ended and cursor is None else None,
        "next_cursor": None if ended else cursor_after(position_of(kept[-1])),
    }


def _row(store: Checkpointer, record: StepRecord, values: bool) -> StepRow:
    if not values:
        return {**step_summary(record)}  # type: ignore[typeddict-item]  # what may be absent is
    return {**step_summary(record), "outputs": step(store, record.workflow_id, record.index)["outputs"]}


def item_of(store: Checkpointer, wf: str, item: int) -> str:
    """Return the workflow of one item of a map, or of the one mapped graph inside a workflow.

    Raises:
        Problem: there is none, or there are several.
    """
    direct = f"{wf}/item-{item}"
    if store.read_workflow(direct) is not None:
        return direct
    maps, _, _ = store.find(Query(parent=wf, limit=1000))
    inner = [found for m in maps if store.read_workflow(found := f"{m.id}/item-{item}") is not None]
    if len(inner) == 1:
        return inner[0]
    if inner:
        raise Problem(AMBIGUOUS, f"{wf!r} has several items {item}", "Name the map", inner[:_FEW])
    raise Problem(NOT_FOUND, f"{wf!r} has no item {item}", f"hypergraph ls --parent {wf} lists its children")


def _walk(store: Checkpointer, wf: str, after: Position, last: int | None) -> Iterator[StepLine]:
    """Yield the outlines of the steps after a position; a long history is looked through in no time."""
    while page := store.read_lines(wf, after=after, limit=_CHUNK):
        for line in page:
            if last is not None and line.superstep > last:
                return
            yield line
        after = page[-1].superstep, page[-1].idx


def _matching(found: Iterator[StepLine], tests: list[Test], limit: int) -> tuple[list[StepLine], bool]:
    """Return a page of those that pass all tests, and whether there are no more."""
    kept: list[StepLine] = []
    for line in found:
        if all(test(line) for test in tests):
            if len(kept) == limit:
                return kept, False
            kept.append(line)
    return kept, True


def _at(store: Checkpointer, wf: str, line: StepLine) -> list[StepRecord]:
    return store.read_page(wf, after=(line.superstep, line.idx - 1), limit=1)


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
            raise Problem(USAGE, f"{slow!r} is no duration", "Write one like 250ms, 1.5s or 2m")
        tests.append(lambda step: step.duration_ms is not None and step.duration_ms >= least)
    return tests


def _status_test(status: str) -> Test:
    if status not in STATUSES:
        hint = did_you_mean(status, STATUSES) or ""
        raise Problem(USAGE, f"A step is {', '.join(STATUSES[:-1])} or {STATUSES[-1]}, not {status!r}", hint)
    if status in ("cached", "skipped"):
        return lambda step: step.cached if status == "cached" else step.replayed
    return lambda step: step.status == status


def _range(text: str | int | None) -> tuple[int, int | None]:
    """Return the first superstep that is wanted and the last."""
    if text is None:
        return 0, None
    found = re.fullmatch(r"(\d{1,15})(?:\.\.(\d{1,15}))?", str(text))
    if found is None:
        raise Problem(USAGE, f"{text!r} is no superstep", "Write a number like 3, or a range like 3..7")
    return int(found[1]), int(found[2] or found[1])
