"""Provenance of a value: the step that made it, the inputs of that step, and so on back to given inputs.

The answer is a graph in a list: every value has an `id` and is listed once, and `sources` refer to ids. The
value asked for comes first, and nearer ones before those further back.
"""

from __future__ import annotations

from collections import deque
from typing import TypedDict

from hypergraph.checkpointers import Checkpointer, StepRecord, Workflow
from hypergraph.checkpointers.history import History
from hypergraph.display import closest, jsonable
from hypergraph.views.inner import call_text, has_value
from hypergraph.views.lookup import last_superstep, map_hint, require_workflow
from hypergraph.views.problems import NOT_FOUND, Problem
from hypergraph.views.timeline import Waits
from hypergraph.views.values import Brief, StepRef, added_lines, brief, is_list, step_ref

_MOST = 100  # values in one answer
_LISTED = 20  # names that an error lists
Version = tuple[str, int]


class Source(TypedDict):
    """An input of a step."""

    name: str
    version: int
    id: str | None  # of the value in the list; null if it is not listed


class InnerCall(TypedDict):
    """A call that a step made with ctx.step."""

    key: str
    call: str  # the function and its arguments, as text
    value: Brief | None  # null if it is not stored


class WhyValue(TypedDict):
    """One value that the one asked for was made from."""

    id: str  # name@version
    name: str
    version: int
    depth: int  # steps between it and the value asked for
    given: bool  # as an input
    value: Brief | None  # null if it is no longer stored
    added: list[str] | None  # what its step added to a list, a line for each item; null for other values
    made_by: StepRef | None
    child: str | None  # the nested run that made it, which has more
    decided_by: StepRef | None  # the gate that let the step run
    calls: list[InnerCall]  # what the step did with ctx.step, in order
    sources: list[Source]


class WhyView(TypedDict):
    """A value and the values that it was made from."""

    schema: str  # hypergraph.why/1
    workflow: str
    key: str
    at: int | None  # the superstep asked for; null for the last
    items: list[WhyValue]
    left_out: int  # values further back that are not listed


def why(
    store: Checkpointer, wf: str, key: str, *, at: int | None = None, depth: int | None = None
) -> WhyView:
    """Return the provenance of the latest value of a name, at the end or after superstep `at`.

    `depth` limits how many steps back it goes.

    Raises:
        Problem: the workflow, value or superstep does not exist; close names are listed.
    """
    workflow = require_workflow(store, wf)
    last_superstep(store, workflow.id, at)
    descent = _Descent(store.view(artifacts=False), workflow, at)
    version = descent.history.newest(key)
    if version is None:
        if hint := map_hint(store, workflow.id, "why", key):
            raise Problem(NOT_FOUND, f"{workflow.id!r} has no value {key!r}", hint)
        raise _unknown(descent.history, workflow, key, at)
    items, left_out = descent.of((key, version), depth)
    return {
        "schema": "hypergraph.why/1",
        "workflow": jsonable(workflow.id),
        "key": jsonable(key),
        "at": at,
        "items": items,
        "left_out": left_out,
    }


def _unknown(history: History, workflow: Workflow, key: str, at: int | None) -> Problem:
    names = sorted(map(str, history.names()))
    near = closest(key, names)
    when = "" if at is None else f" at superstep {at}"
    message = f"{workflow.id!r} has no value {key!r}{when}"
    if near is not None:
        return Problem(NOT_FOUND, message, f"Did you mean {near!r}?")
    hint = "Its values:" if names else "It has no values"
    return Problem(NOT_FOUND, message, hint, names[:_LISTED])


class _Descent:
    """Values of one workflow, followed back to their sources."""

    def __init__(self, store: Checkpointer, workflow: Workflow, upto: int | None) -> None:
        self.store = store
        self.workflow = workflow
        self.history = History(store, workflow.id, upto)
        self.waits = Waits(self.history, None)

    def of(self, first: Version, depth: int | None) -> tuple[list[WhyValue], int]:
        """Return a value and its sources, and how many more there are."""
        found: list[WhyValue] = []
        seen = {first}
        to_do: deque[tuple[Version, int, int | None]] = deque([(first, 0, self.history.upto)])
        while to_do and len(found) < _MOST:
            item, level, superstep = to_do.popleft()
            maker = self.history.maker(*item)
            value = self._value(item, maker, level, superstep)
            found.append(value)
            if maker is None or (depth is not None and level >= depth):
                continue
            for source in maker.input_versions.items():
                if source not in seen:
                    seen.add(source)
                    to_do.append((source, level + 1, maker.superstep))
        _leave_out_unknown(found)
        further = {s["name"] for value in found for s in value["sources"] if s["id"] is None}
        return found, max(len(to_do), len(further) if depth is not None else 0)

    def _value(self, item: Version, maker: StepRecord | None, level: int, superstep: int | None) -> WhyValue:
        name, version = item
        shown: WhyValue = {
            "id": _id(item),
            "name": jsonable(name),
            "version": version,
            "depth": level,
            "given": False,
            "value": None,
            "added": None,
            "made_by": None,
            "child": None,
            "decided_by": None,
            "calls": [],
            "sources": [],
        }
        if maker is None:
            gift = self.history.gift(name, version, superstep)
            shown["given"] = gift is not None
            shown["value"] = brief(gift.value) if gift is not None else None
            return shown
        values = (self.store.step(self.workflow.id, maker.index) or maker).values or {}
        gate = self.waits.gate(maker)
        shown["value"] = brief(values[name]) if name in values else None
        if is_list(values.get(name)):
            shown["added"] = added_lines(self.store, maker, name)
        shown["made_by"] = step_ref(maker)
        shown["child"] = jsonable(maker.child_workflow_id)
        shown["decided_by"] = step_ref(gate) if gate is not None else None
        shown["calls"] = [
            {
                "key": jsonable(call.key),
                "call": call_text(call),
                "value": brief(call.value) if has_value(call) else None,
            }
            for call in self.history.calls_of(maker)
        ]
        shown["sources"] = [
            {"name": jsonable(taken), "version": number, "id": _id((taken, number))}
            for taken, number in maker.input_versions.items()
        ]
        return shown


def _id(item: Version) -> str:
    name: str = jsonable(item[0])
    return f"{name}@{item[1]}"


def _leave_out_unknown(found: list[WhyValue]) -> None:
    listed = {value["id"] for value in found}
    for value in found:
        for source in value["sources"]:
            source["id"] = source["id"] if source["id"] in listed else None
