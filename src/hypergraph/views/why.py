"""How a value came about: the step that made it, what that took, and so on down to what was given.

The answer is a graph told as a list: every value has an `id` and stands in it once, and `sources` refer to
ids. It begins with the value asked for; what is nearer to it comes earlier.
"""

from __future__ import annotations

from collections import deque
from typing import TypedDict

from hypergraph.checkpointers import Checkpointer, StepRecord, Workflow
from hypergraph.checkpointers.history import History
from hypergraph.display import closest, jsonable
from hypergraph.views.base import known, last_superstep
from hypergraph.views.problems import NOT_FOUND, Problem
from hypergraph.views.timeline import Waits
from hypergraph.views.values import Brief, Maker, brief, step_name

_MOST = 100  # values that one answer tells of
_LISTED = 20  # names that an error lists
Version = tuple[str, int]


class Source(TypedDict):
    """What a step took."""

    name: str
    version: int
    id: str | None  # of the value in the list; null if it is not there


class WhyValue(TypedDict):
    """One value in the descent of the one asked for."""

    id: str  # name@version
    name: str
    version: int
    depth: int  # steps between it and the value asked for
    given: bool  # as an input
    value: Brief | None  # null if it is not stored any more
    made_by: Maker | None
    child: str | None  # the nested run that made it: ask there for more
    decided_by: Maker | None  # the gate that let the step run
    sources: list[Source]


class WhyView(TypedDict):
    """A value and what it was made of."""

    schema: str  # hypergraph.why/1
    workflow: str
    key: str
    at: int | None  # the superstep asked about; null for the end
    items: list[WhyValue]
    left_out: int  # values that are known to be further back


def why(
    store: Checkpointer, wf: str, key: str, *, at: int | None = None, depth: int | None = None
) -> WhyView:
    """Return how the latest value of a name, at the end or at a superstep, came about.

    With `depth` only so many steps back are told.

    Raises:
        Problem: there is no such workflow, value or superstep; what comes close is listed.
    """
    workflow = known(store, wf)
    last_superstep(store, workflow.id, at)
    descent = _Descent(store.without_artifacts(), workflow, at)
    version = descent.history.newest(key)
    if version is None:
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
    message = f"{workflow.id!r} has no value called {key!r}{when}"
    if near is not None:
        return Problem(NOT_FOUND, message, "Did you mean this one?", [near])
    hint = "These are there:" if names else "It has no values"
    return Problem(NOT_FOUND, message, hint, names[:_LISTED])


class _Descent:
    """The values of one workflow that others were made of."""

    def __init__(self, store: Checkpointer, workflow: Workflow, upto: int | None) -> None:
        self.store = store
        self.workflow = workflow
        self.history = History(store, workflow.id, upto)
        self.waits = Waits(self.history, None)

    def of(self, first: Version, depth: int | None) -> tuple[list[WhyValue], int]:
        """Return a value and those behind it, and how many more are known of."""
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
        told: WhyValue = {
            "id": _id(item),
            "name": jsonable(name),
            "version": version,
            "depth": level,
            "given": False,
            "value": None,
            "made_by": None,
            "child": None,
            "decided_by": None,
            "sources": [],
        }
        if maker is None:
            gift = self.history.gift(name, version, superstep)
            told["given"] = gift is not None
            told["value"] = brief(gift.value) if gift is not None else None
            return told
        values = (self.store.step(self.workflow.id, maker.index) or maker).values or {}
        gate = self.waits.gate(maker)
        told["value"] = brief(values[name]) if name in values else None
        told["made_by"] = step_name(maker)
        told["child"] = jsonable(maker.child_workflow_id)
        told["decided_by"] = step_name(gate) if gate is not None else None
        told["sources"] = [
            {"name": jsonable(taken), "version": number, "id": _id((taken, number))}
            for taken, number in maker.input_versions.items()
        ]
        return told


def _id(item: Version) -> str:
    name: str = jsonable(item[0])
    return f"{name}@{item[1]}"


def _leave_out_unknown(found: list[WhyValue]) -> None:
    told = {value["id"] for value in found}
    for value in found:
        for source in value["sources"]:
            source["id"] = source["id"] if source["id"] in told else None
