"""Provenance of a value: the step that made it, the inputs of that step, and so on back to given inputs.

The answer is a graph in a list: every value has an `id` and is listed once, and `sources` refer to ids. The
value asked for comes first, and nearer ones before those further back. An appended list is made by every step
that has added to it: a source has those of its turn that did so since the step took the list before.
"""

from __future__ import annotations

import shlex
from bisect import bisect_left, bisect_right
from collections import deque
from typing import NamedTuple, TypedDict

from hypergraph.checkpointers import Checkpointer, StepRecord, StepStatus, Workflow
from hypergraph.checkpointers.history import History
from hypergraph.checkpointers.view import view_of
from hypergraph.display import closest, jsonable, typed_error
from hypergraph.structure import StoredGraph, readable_graph
from hypergraph.views.inner import call_text, has_value
from hypergraph.views.lookup import last_superstep, map_hint, require_workflow
from hypergraph.views.problems import NOT_FOUND, Problem
from hypergraph.views.step import answer_state, looked_up
from hypergraph.views.values import ITEMS, Brief, StepRef, brief, line_of, step_ref

_MOST = 100  # values in one answer
_OTHERS = 20  # further steps that added to a list, of one source
_LISTED = 20  # names that an error lists
Version = tuple[str, int]


class Source(TypedDict):
    """An input of a step."""

    name: str
    version: int
    id: str | None  # of the value in the list; null if it is not listed
    others: list[str]  # of a list: what other steps of the turn have added since it was taken before
    earlier: int  # steps that had added to it before those; they are not in `others`


class InnerCall(TypedDict):
    """A call that a step made with ctx.step."""

    key: str
    call: str  # the function and its arguments, as text
    value: Brief | None  # null if it is not stored


class Around(TypedDict):
    """A value of the workflow around an item, or around a nested graph."""

    workflow: str
    name: str
    version: int
    made_by: StepRef | None  # null if it was given


class Corrected(TypedDict):
    """An item of a map that ran by itself with other inputs than the map gave it."""

    workflow: str  # the item
    inputs: list[str]


class WhyValue(TypedDict):
    """One value that the one asked for was made from."""

    id: str  # name@version
    name: str
    version: int
    depth: int  # steps between it and the value asked for
    given: bool  # as an input, by a caller
    around: Around | None  # of an input of an item or a nested graph: what it is of there
    value: Brief | None  # null if it is no longer stored
    added: list[str] | None  # what its step added to a list, a line for each item; null for other values
    made_by: StepRef | None
    child: str | None  # the nested run that made it, which has more
    corrected: list[Corrected]  # items of that run, if it is a map, that took other inputs than `sources`
    answer: (
        str | None
    )  # to the question of the step: "used", "expired", or null: none was needed, or it asks nothing
    answered_by: str | None  # who gave it, if that is known
    asks: bool  # the step asks a question
    looked_up: bool  # an earlier process began the call, and on_ambiguous has returned what it made
    decided_by: StepRef | None  # the gate that let the step run
    decided_on: list[Source]  # what that gate took, and the gate that let it run, and so on
    calls: list[InnerCall]  # what the step did with ctx.step, in order
    sources: list[Source]  # what the step took; of the value asked for also the list that it added to


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
    descent = _Descent(view_of(store, artifacts=False), workflow, at)
    version = descent.history.newest(key)
    if version is None:
        if hint := map_hint(store, workflow.id, "why", key):
            raise Problem(NOT_FOUND, f"{workflow.id!r} has no value {key!r}", hint)
        raise _unknown(descent.history, workflow, key, at)
    # A step that was slower than one that replaced the list has made a version, and added nothing to it.
    items, left_out = descent.of((key, next(descent.history.parts(key, version))), depth)
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
    graph = readable_graph(workflow.graph)
    if graph is not None and key in graph.producers:
        return Problem(NOT_FOUND, message, _unmade(history, graph, key))
    if near is not None:
        return Problem(NOT_FOUND, message, f"Did you mean {near!r}?")
    hint = "Its values:" if names else "It has no values"
    return Problem(NOT_FOUND, message, hint, names[:_LISTED])


def _unmade(history: History, graph: StoredGraph, key: str) -> str:
    """Say why a value was not made: the nearest step before it that failed or waits, or what did not run."""
    last = {step.node_name: step for step in history.steps}
    there, seen, coming = set(history.names()), {key}, deque([key])
    while coming:
        for name in graph.producers.get(coming.popleft(), ()):
            step = last.get(name)
            if step is not None and step.status is StepStatus.FAILED:
                asking = shlex.join(("hypergraph", "step", history.workflow_id, str(step.index)))
                return f"Node {name!r} failed: {typed_error(step.error_type, step.error or '')}; {asking}"
            if step is not None and step.status is StepStatus.PAUSED:
                return f"Node {name!r} waits for an answer"
            missing = [each for each in graph.nodes[name].inputs if each not in there and each not in seen]
            seen.update(missing)
            coming.extend(missing)
    name = graph.producers[key][0]
    gates = [edge.source for edge in graph.edges if edge.type == "control" and edge.target == name]
    if gates:
        chosen = {gate: last[gate].decision for gate in gates if gate in last}
        decided = "; ".join(f"{gate!r} chose {_choice(choice)}" for gate, choice in chosen.items())
        return f"Node {name!r} makes it, and did not run: {decided or 'its gate was not asked'}"
    return f"Node {name!r} makes it, and did not run"


def _choice(decision: object) -> str:
    return ", ".join(map(str, decision)) if isinstance(decision, list | tuple) else str(decision)


class _Descent:
    """Values of one workflow, followed back to their sources."""

    def __init__(self, store: Checkpointer, workflow: Workflow, upto: int | None) -> None:
        self.store = store
        self.workflow = workflow
        self.history = History(store, workflow.id, upto)
        self.turns = [turn.superstep for turn in store.backend.read_turns(workflow.id)]
        graph = readable_graph(workflow.graph)
        nodes = {} if graph is None else graph.nodes
        self.asking = {name for name, node in nodes.items() if node.kind == "interrupt"}
        self.visits: dict[str, list[StepRecord]] = {}
        for step in self.history.steps:
            if step.status is StepStatus.COMPLETED:
                self.visits.setdefault(step.node_name, []).append(step)

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
            if maker is None:
                continue
            taken = [*self._taken(maker), *(self._rest(first, maker) if item == first else ())]
            decided = [source for gate in self.history.gates(maker) for source in self._taken(gate)]
            value["sources"] = [_shown(source) for source in taken]
            value["decided_on"] = [_shown(source) for source in decided]
            if depth is not None and level >= depth:
                continue
            for source in (*taken, *decided):
                for version in source.versions:
                    if (source.name, version) not in seen:
                        seen.add((source.name, version))
                        to_do.append(((source.name, version), level + 1, maker.superstep))
        return found, _leave_out_unknown(found)

    def _taken(self, step: StepRecord) -> list[_Taken]:
        """Return what a step took; of a list, what was added since the visit before."""
        visits = self.visits.get(step.node_name, [])
        place = bisect_left(visits, step.index, key=lambda visit: visit.index)
        before = visits[place - 1].input_versions if place else {}
        return [
            self._source(step, name, list(self.history.parts(name, version)), before.get(name, 0))
            for name, version in step.input_versions.items()
        ]

    def _rest(self, item: Version, maker: StepRecord) -> list[_Taken]:
        """Return what a list had before its last step added to it, unless that step has taken it."""
        name, version = item
        taken = maker.input_versions.get(name)
        known = set() if taken is None else set(self.history.parts(name, taken))
        rest = [part for part in self.history.parts(name, version) if part != version and part not in known]
        return [self._source(maker, name, rest, 0)] if rest else []

    def _source(self, step: StepRecord, name: str, versions: list[int], since: int) -> _Taken:
        """Return what a step took; what it had taken before, and what earlier turns made, is only counted."""
        turn = self.turns[max(0, bisect_right(self.turns, step.superstep) - 1)]
        first, *others = versions
        shown: list[int] = []
        for version in others:
            maker = self.history.maker(name, version)
            if version <= since or len(shown) == _OTHERS or (maker is not None and maker.superstep < turn):
                break
            shown.append(version)
        return _Taken(name, [first, *shown], len(others) - len(shown))

    def _value(self, item: Version, maker: StepRecord | None, level: int, superstep: int | None) -> WhyValue:
        name, version = item
        shown: WhyValue = {
            "id": _id(item),
            "name": jsonable(name),
            "version": version,
            "depth": level,
            "given": False,
            "around": None,
            "value": None,
            "added": None,
            "made_by": None,
            "child": None,
            "corrected": [],
            "answer": None,
            "answered_by": None,
            "asks": False,
            "looked_up": False,
            "decided_by": None,
            "decided_on": [],
            "calls": [],
            "sources": [],
        }
        if maker is None:
            gift = self.history.gift(name, version, superstep)
            around = self.history.around(name, version)
            shown["given"] = gift is not None and around is None
            shown["around"] = None if around is None else _around(*around)
            shown["value"] = brief(gift.value) if gift is not None else None
            return shown
        gate = self.history.gate(maker)
        added = self.history.added(name, version)
        if added is not None:
            shown["value"] = brief(self.history.list_at(name, version))
            shown["added"] = [line_of(each) for each in added[:ITEMS]]
        else:
            values = (self.store.step(self.workflow.id, maker.index) or maker).values or {}
            shown["value"] = brief(values[name]) if name in values else None
        shown["made_by"] = step_ref(maker)
        shown["child"] = jsonable(maker.child_workflow_id)
        shown["corrected"] = [
            {"workflow": jsonable(item), "inputs": jsonable(names)}
            for item, names in self.history.corrected(maker)[:_OTHERS]
        ]
        shown["answer"], shown["looked_up"] = answer_state(maker), looked_up(maker)
        shown["answered_by"] = None if shown["looked_up"] else jsonable(maker.answered_by)
        shown["asks"] = maker.node_name in self.asking
        shown["decided_by"] = step_ref(gate) if gate is not None else None
        shown["calls"] = [
            {
                "key": jsonable(call.key),
                "call": call_text(call),
                "value": brief(call.value) if has_value(call) else None,
            }
            for call in self.history.calls_of(maker)
        ]
        return shown


def _around(history: History, item: Version) -> Around:
    name, version = item
    maker = history.maker(name, version)
    return {
        "workflow": jsonable(history.workflow_id),
        "name": jsonable(name),
        "version": version,
        "made_by": None if maker is None else step_ref(maker),
    }


class _Taken(NamedTuple):
    """What a step took under a name."""

    name: str
    versions: list[int]  # the one that it took, and of a list those with further items
    earlier: int


def _shown(taken: _Taken) -> Source:
    first, *others = (_id((taken.name, version)) for version in taken.versions)
    return {
        "name": jsonable(taken.name),
        "version": taken.versions[0],
        "id": first,
        "others": others,
        "earlier": taken.earlier,
    }


def _id(item: Version) -> str:
    name: str = jsonable(item[0])
    return f"{name}@{item[1]}"


def _leave_out_unknown(found: list[WhyValue]) -> int:
    """Take away references to what is not listed, and return to how many values there were."""
    listed = {value["id"] for value in found}
    unlisted: set[str] = set()
    for value in found:
        for source in (*value["sources"], *value["decided_on"]):
            unlisted |= {source["id"] or "", *source["others"]} - listed
            shown = [other for other in source["others"] if other in listed]
            source["earlier"] += len(source["others"]) - len(shown)
            source["others"] = shown
            source["id"] = source["id"] if source["id"] in listed else None
    return len(unlisted)
