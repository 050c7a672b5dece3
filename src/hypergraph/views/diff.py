"""Differences between two workflows, or between two supersteps of one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, zip_longest
from typing import Any, TypedDict

from hypergraph.checkpointers import Checkpointer, StepRecord, Workflow
from hypergraph.checkpointers.analysis import Divergence, first_divergence, inner_pairs, same
from hypergraph.checkpointers.records import Payload
from hypergraph.checkpointers.view import view_of
from hypergraph.display import bounded, jsonable, preview
from hypergraph.views.lookup import last_superstep, require_workflow
from hypergraph.views.problems import USAGE, Problem
from hypergraph.views.state import state_payloads
from hypergraph.views.step import Step, shown_step
from hypergraph.views.values import (
    TEXT,
    Brief,
    Content,
    Makers,
    StepRef,
    brief,
    content_of,
    part_at,
    pointer,
    short_text,
    step_ref,
)
from hypergraph.views.workflows import WorkflowSummary, workflow_summary

_VALUES = 100  # differences listed in one answer
_COMPARED = 5000  # supersteps whose values are compared one by one
_BEFORE, _AFTER = 2, 8  # pairs of steps shown around the first difference
_STEPS = 100  # steps listed between two supersteps
_PARTS = 50  # parts of one value that are listed
_CHARACTERS = 4000  # of one part
_COMPARED_ITEMS = 20_000  # items of containers that are compared one by one
_DEEPEST = 20
_WITHIN, _LEAD = 100, 30  # characters of a text that are shown, and those before a difference further on
_INSIDE = 50  # items and nested graphs listed in one answer
_NAMES = 20  # values that are named for each of them
_PAIRS = 500  # of them that are compared
_Times = dict[str, tuple[int, float]]  # node -> runs and milliseconds


class PartChange(TypedDict):
    """One part of a value that differs."""

    path: str  # "" for the value itself
    kind: str  # changed, added or removed
    a: Brief | None
    b: Brief | None


class ValueChange(TypedDict):
    """One value on both sides; null where it does not exist or is not stored."""

    name: str
    kind: str  # changed, added (only in b), or removed (only in a)
    a: Brief | None
    b: Brief | None
    made_by: StepRef | None  # the step of b that made it; null for inputs, and for values of a
    parts: list[PartChange]  # of a container that changed, the parts that differ; the first 50
    parts_left_out: bool


class State(Mapping[str, Any]):
    """The values of a workflow at one superstep, inputs included, decoded on access."""

    def __init__(self, store: Checkpointer, wf: str, at: int | None = None) -> None:
        self._store, self._wf = store, wf
        self._makers = Makers(store, wf)
        self.payloads = state_payloads(store, wf, at)

    def __getitem__(self, name: str) -> Any:
        return self._store.encoding.value(self._wf, self.payloads[name])

    def __iter__(self) -> Any:
        return (name for name, payload in self.payloads.items() if payload.data is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def maker(self, name: str) -> StepRef | None:
        """Return the step that made a value, None for an input."""
        payload = self.payloads.get(name)
        return None if payload is None else self._makers.of(payload)


def changed_values(a: State, b: State) -> tuple[list[ValueChange], int]:
    """Return the values that differ, inputs first, and how many of them are left out."""
    items: list[ValueChange] = []
    left_out = 0
    names = dict.fromkeys([*a, *b])
    for name in names:
        if name in a and name in b and _are_alike(a, b, name):
            continue
        if len(items) == _VALUES:
            left_out += 1
        else:
            items.append(change(name, a, b, b.maker(name)))
    items.sort(key=_place)
    return items, left_out


def _place(item: ValueChange) -> tuple[bool, int]:
    return item["kind"] == "removed", item["made_by"]["index"] if item["made_by"] else -1


def _are_alike(a: State, b: State, name: str) -> bool:
    ours, theirs = a.payloads[name], b.payloads[name]
    return _bytes(ours) == _bytes(theirs) or same(a[name], b[name])


def _bytes(payload: Payload) -> list[tuple[str, bytes | None]]:
    """Return what the decoded value depends on."""
    return [(part.format, part.data) for part in (*payload.parts, payload)]


def change(name: str, a: Mapping[str, Any], b: Mapping[str, Any], made_by: StepRef | None) -> ValueChange:
    """Return how a value differs on two sides."""
    kind = "changed" if name in a and name in b else "added" if name in b else "removed"
    parts = list(islice(differing(a[name], b[name]), _PARTS + 1)) if kind == "changed" else []
    return {
        "name": jsonable(name),
        "kind": kind,
        "a": brief(a[name]) if name in a else None,
        "b": brief(b[name]) if name in b else None,
        "made_by": made_by,
        "parts": parts[:_PARTS],
        "parts_left_out": len(parts) > _PARTS,
    }


def differing(a: Any, b: Any, path: str = "", depth: int = 0) -> Iterator[PartChange]:
    """Yield the parts in which two values differ, the innermost ones; items of lists are aligned."""
    ours, theirs = part_at(a, ""), part_at(b, "")
    inside, other = content_of(ours), content_of(theirs)
    alike = type(ours) is type(theirs) and inside is not None and other is not None
    if not alike or inside is None or other is None or depth == _DEEPEST or _is_large(inside, other):
        sides = _longer_brief(a), _longer_brief(b)
        if isinstance(ours, str) and isinstance(theirs, str):
            unlike = (at for at, (x, y) in enumerate(zip(ours, theirs, strict=False)) if x != y)
            place = next(unlike, min(len(ours), len(theirs)))
            for side, text in zip(sides, (ours, theirs), strict=True):
                side["text"] = _around(text, place)
        yield {"path": path, "kind": "changed", "a": sides[0], "b": sides[1]}
        return
    if inside.named:
        before, after = dict(inside.pairs()), dict(other.pairs())
        pairs = [(key, key) for key in dict.fromkeys([*before, *after])]
    else:
        before, after = dict(inside.pairs()), dict(other.pairs())
        pairs = list(_aligned(list(before.values()), list(after.values())))
    for old, new in pairs:
        where = pointer(path, new if new is not None and new in after else old)
        if old is None or old not in before:
            yield {"path": jsonable(where), "kind": "added", "a": None, "b": _longer_brief(after[new])}
        elif new is None or new not in after:
            yield {"path": jsonable(where), "kind": "removed", "a": _longer_brief(before[old]), "b": None}
        elif not same(before[old], after[new]):
            yield from differing(before[old], after[new], where, depth + 1)


def _around(text: str, place: int) -> str:
    """Return a text in a line, from shortly before a place on."""
    if place <= _WITHIN:
        return short_text(text)
    begin = place - _LEAD
    return bounded(f"...{preview(text[begin : begin + _WITHIN])} (from character {begin})", TEXT)


def _is_large(inside: Content, other: Content) -> bool:
    return inside.size + other.size > _COMPARED_ITEMS


def _aligned(a: list[Any], b: list[Any]) -> Iterator[tuple[int | None, int | None]]:
    """Yield pairs of indexes that belong together: equal items at both ends, the others in their order."""
    begin, end = 0, 0
    while begin < min(len(a), len(b)) and same(a[begin], b[begin]):
        begin += 1
    while end < min(len(a), len(b)) - begin and same(a[-1 - end], b[-1 - end]):
        end += 1
    for place in range(begin, max(len(a), len(b)) - end):
        yield place if place < len(a) - end else None, place if place < len(b) - end else None


def _longer_brief(value: object) -> Brief:
    return brief(value, characters=_CHARACTERS)


class StepPair(TypedDict):
    """The steps at one position of both histories; null where one has ended."""

    position: int  # from 0, in the order of supersteps; the number of a step is its index
    same: bool  # node, status, decision and outputs
    a: Step | None
    b: Step | None


class FirstDifference(TypedDict):
    """The first position at which the histories differ."""

    kind: str  # given (to a fork, before the steps differ), path, status, decision or values
    position: int  # from 0, in the order of supersteps; the number of a step is its index
    a: Step | None
    b: Step | None
    values: list[ValueChange]  # the outputs that differ there, or what was given


class NodeTimes(TypedDict):
    """Runs and total time of a node in both workflows."""

    node: str
    a_runs: int
    b_runs: int
    a_ms: float | None  # null if it did not run
    b_ms: float | None


class InnerDifference(TypedDict):
    """Two items, or two nested graphs, that belong together and differ."""

    path: str  # in a, like item-3 or each/item-3
    a: str  # its id in a
    b: str
    kind: str | None  # of the first difference: path, status, decision or values; null if all steps are alike
    position: int | None  # of the first difference among its steps
    a_step: int | None  # the index of the step of a there; null if a has ended
    b_step: int | None
    node: str | None  # that of the first difference
    values: list[str]  # names of the values that differ at the end, inputs included; the first 20


class DiffView(TypedDict):
    """Two workflows compared."""

    schema: str  # hypergraph.diff/1
    a: WorkflowSummary
    b: WorkflowSummary
    same: bool  # nothing differs but times
    first: FirstDifference | None
    compared: int  # steps whose values were compared to find it
    path: list[StepPair]  # around the first difference
    path_left_out: int  # pairs of steps after those
    timing: list[NodeTimes]  # the greatest difference first
    items: list[ValueChange]  # the latest values, inputs included
    left_out: int  # values that differ and are not listed
    inside: list[InnerDifference]  # items and nested graphs that differ; the first 50
    inside_left_out: int  # those that differ and are not listed
    inside_unread: int  # those that were not compared, because there are too many
    only_a: list[str]  # ids of items and nested graphs that b lacks; the first 50
    only_b: list[str]  # likewise


class ChangesView(TypedDict):
    """Changes of a workflow after one superstep, up to and including another."""

    schema: str  # hypergraph.changes/1
    workflow: str
    first: int
    second: int
    steps: list[Step]
    steps_left_out: bool
    items: list[ValueChange]
    left_out: int


def diff(store: Checkpointer, a: str, b: str) -> DiffView:
    """Compare two workflows, and the items and nested graphs inside of them.

    Items are matched by key, or by number if one of the maps was recorded without a key.

    Raises:
        Problem: a workflow does not exist.
    """
    ours, theirs = require_workflow(store, a), require_workflow(store, b)
    store = view_of(store, artifacts=False)
    steps_a, steps_b = (store.steps(each.id, values=False) for each in (ours, theirs))
    first, compared = _first(store, (ours, theirs), (steps_a, steps_b))
    path = _pairs(store, steps_a, steps_b, first.position if first else 0)
    last = path[-1]["position"] if path else -1
    state = State(store, theirs.id)
    items, left_out = changed_values(State(store, ours.id), state)
    inside = _Inside(store, ours, theirs)
    return {
        "schema": "hypergraph.diff/1",
        "a": workflow_summary(ours),
        "b": workflow_summary(theirs),
        "same": first is None and not items and inside.is_empty,
        "first": None if first is None else _after_given(_first_view(first), items, (ours, theirs), state),
        "compared": compared,
        "path": path,
        "path_left_out": max(len(steps_a), len(steps_b)) - last - 1,
        "timing": _timing(*(_times(store, *each) for each in ((ours, steps_a), (theirs, steps_b)))),
        "items": items,
        "left_out": left_out,
        "inside": inside.differing[:_INSIDE],
        "inside_left_out": max(0, len(inside.differing) - _INSIDE),
        "inside_unread": inside.unread,
        "only_a": [jsonable(each.id) for each in inside.only[0][:_INSIDE]],
        "only_b": [jsonable(each.id) for each in inside.only[1][:_INSIDE]],
    }


def changes(store: Checkpointer, wf: str, first: int, second: int) -> ChangesView:
    """Return the changes of a workflow after superstep `first`, up to and including `second`.

    Raises:
        Problem: the workflow or a superstep does not exist, or `second` does not come after `first`.
    """
    workflow = require_workflow(store, wf)
    for superstep in (first, second):
        last_superstep(store, workflow.id, superstep)
    if first >= second:
        raise Problem(USAGE, f"Superstep {second} does not come after superstep {first}")
    store = view_of(store, artifacts=False)
    between = store.steps(workflow.id, after=(first, 2**62), limit=_STEPS + 1, superstep=second, values=False)
    items, left_out = changed_values(State(store, wf, first), State(store, wf, second))
    return {
        "schema": "hypergraph.changes/1",
        "workflow": jsonable(workflow.id),
        "first": first,
        "second": second,
        "steps": [shown_step(step) for step in between[:_STEPS]],
        "steps_left_out": len(between) > _STEPS,
        "items": items,
        "left_out": left_out,
    }


def _maybe(step: StepRecord | None) -> Step | None:
    return None if step is None else shown_step(step)


# --- the steps --------------------------------------------------------------------------------------


def _first(
    store: Checkpointer, both: Sequence[Workflow], steps: Sequence[list[StepRecord]]
) -> tuple[Divergence | None, int]:
    """Return the first difference, and how many steps were compared with their values."""
    course = first_divergence(*steps)
    end = len(steps[0]) if course is None else course.position
    last = max((step.superstep for step in steps[0][:end]), default=-1)
    upto = min(last, _COMPARED)
    full = [store.steps(each.id, superstep=upto) for each in both] if last >= 0 else [[], []]
    compared = min(end, len(full[0]), len(full[1]))
    values = first_divergence(full[0][:compared], full[1][:compared])
    return (course if values is None else values), compared


def _first_view(first: Divergence) -> FirstDifference:
    a, b = first.a, first.b
    ours, theirs = (a and a.values) or {}, (b and b.values) or {}
    made_by = step_ref(b) if b is not None else None
    return {
        "kind": first.kind,
        "position": first.position,
        "a": _maybe(a),
        "b": _maybe(b),
        "values": [change(name, ours, theirs, made_by) for name in first.names[:_VALUES]],
    }


def _after_given(
    first: FirstDifference, items: Sequence[ValueChange], both: Sequence[Workflow], b: State
) -> FirstDifference:
    """Return the first difference; of a fork, what it was given before its steps differ."""
    last = None if first["b"] is None else first["b"]["superstep"]
    early = {jsonable(n) for n, given in b.payloads.items() if last is None or given.superstep <= last}
    given = [item for item in items if item["made_by"] is None and item["name"] in early]
    is_fork = any(one.id == other.forked_from for one, other in (both, both[::-1]))
    return {**first, "kind": "given", "values": given} if given and is_fork else first


def _pairs(
    store: Checkpointer, a: Sequence[StepRecord], b: Sequence[StepRecord], position: int
) -> list[StepPair]:
    start = max(0, position - _BEFORE)
    around = islice(zip_longest(a[start:], b[start:]), _BEFORE + _AFTER)
    return [
        {
            "position": start + place,
            "same": first_divergence(*(_with_values(store, step) for step in pair)) is None,
            "a": _maybe(pair[0]),
            "b": _maybe(pair[1]),
        }
        for place, pair in enumerate(around)
    ]


def _with_values(store: Checkpointer, step: StepRecord | None) -> list[StepRecord]:
    found = None if step is None else store.step(step.workflow_id, step.index)
    return [] if found is None else [found]


def _timing(ours: _Times, theirs: _Times) -> list[NodeTimes]:
    rows: list[NodeTimes] = [
        {
            "node": jsonable(node),
            "a_runs": ours[node][0] if node in ours else 0,
            "b_runs": theirs[node][0] if node in theirs else 0,
            "a_ms": ours[node][1] if node in ours else None,
            "b_ms": theirs[node][1] if node in theirs else None,
        }
        for node in {**ours, **theirs}
    ]
    return sorted(rows, key=lambda row: -abs((row["a_ms"] or 0.0) - (row["b_ms"] or 0.0)))


def _times(store: Checkpointer, workflow: Workflow, steps: Sequence[StepRecord]) -> _Times:
    """Return runs and total time of each node, without copied steps; of a map, those of all its items."""
    found = [(step.node_name, 1, step.duration_ms or 0.0) for step in steps if not step.replayed]
    if not steps:
        tallies = store.backend.tally_items(workflow.id)
        found = [(tally.node, tally.steps, tally.total_ms) for tally in tallies]
    times: _Times = {}
    for node, runs, took in found:
        before = times.get(node, (0, 0.0))
        times[node] = before[0] + runs, before[1] + took
    return times


# --- what runs inside --------------------------------------------------------------------------------------


class _Inside:
    """The items and nested graphs of two workflows, compared one by one, as far as that is quick."""

    def __init__(self, store: Checkpointer, a: Workflow, b: Workflow) -> None:
        self.differing: list[InnerDifference] = []
        self.only: tuple[list[Workflow], list[Workflow]] = ([], [])
        self.unread = self._compared = 0
        self._store, self._around = store, a.id
        self._walk(a, b)

    @property
    def is_empty(self) -> bool:
        """Whether all that was found is alike."""
        return not (self.differing or self.unread or any(self.only))

    def _walk(self, a: Workflow, b: Workflow) -> None:
        for ours, theirs in inner_pairs(self._store, a, b):
            if ours is None or theirs is None:
                self.only[ours is None].extend(each for each in (ours, theirs) if each is not None)
            elif self._compared == _PAIRS:
                self.unread += 1
            else:
                self._compared += 1
                self._compare(ours, theirs)
                self._walk(ours, theirs)

    def _compare(self, ours: Workflow, theirs: Workflow) -> None:
        store, both = self._store, (ours, theirs)
        first, _ = _first(store, both, [store.steps(each.id, values=False) for each in both])
        a, b = State(store, ours.id), State(store, theirs.id)
        names = [n for n in dict.fromkeys([*a, *b]) if n not in a or n not in b or not _are_alike(a, b, n)]
        if first is None and not names:
            return
        step = None if first is None else first.a or first.b
        self.differing.append(
            {
                "path": jsonable(ours.id.removeprefix(f"{self._around}/")),
                "a": jsonable(ours.id),
                "b": jsonable(theirs.id),
                "kind": None if first is None else first.kind,
                "position": None if first is None else first.position,
                "a_step": None if first is None or first.a is None else first.a.index,
                "b_step": None if first is None or first.b is None else first.b.index,
                "node": None if step is None else jsonable(step.node_name),
                "values": [jsonable(name) for name in names[:_NAMES]],
            }
        )
