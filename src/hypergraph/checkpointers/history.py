"""History of a workflow: producers, consumers and versions of its values."""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from hypergraph import checkpointers  # the course of a graph is loaded on first access
from hypergraph.checkpointers.deltas import stands
from hypergraph.checkpointers.query import Query
from hypergraph.checkpointers.records import Payload, StepRecord
from hypergraph.checkpointers.status import StepStatus
from hypergraph.checkpointers.view import lazy_state
from hypergraph.display import jsonable
from hypergraph.records import InnerStep
from hypergraph.structure import readable_graph
from hypergraph.values.undecodable import Undecodable

if TYPE_CHECKING:
    from hypergraph.checkpointers.base import Checkpointer
    from hypergraph.checkpointers.deltas import Added
    from hypergraph.checkpointers.encoding import Encoding

_ITEMS_READ = 1000  # items of a map whose inputs are looked at
Version = tuple[str, int]  # a name and which of its values
Source = Literal["step", "given", "bound", "default", "around"]


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a value came from: a step, the caller, the workflow around, the graph or a default."""

    name: str  # of the value
    version: int  # of the value
    value: Any  # None if it cannot be read any more
    step: StepRecord | None  # which made it; None for an input
    source: Source = "given"  # a "step"; "given" to the run; "around" it; "bound" to its graph; a "default"
    known: bool = True  # False without a value: bound values and defaults are not stored
    calls: tuple[InnerStep, ...] = ()  # what the step did with `ctx.step` to make it, in order
    added: tuple[Any, ...] | None = None  # the items that the step added to a list; None for other values
    decided_by: StepRecord | None = None  # the gate that let the step run; None if it needed none
    workflow_id: str = ""  # which has the value
    around: "Origin | None" = None  # of what an item or a nested graph took: the value around it
    corrected: tuple[str, ...] = ()  # items of the map that made it which took other inputs than it gave them

    @property
    def stored(self) -> bool:
        """Whether the value can be read; if not, `value` is None."""
        return self.known and (self.step is None or self.name in (self.step.values or ()))

    @property
    def sources(self) -> dict[str, int]:
        """The names and versions that the step took."""
        return dict(self.step.input_versions) if self.step else {}

    def to_dict(self) -> dict[str, Any]:
        """Return the origin as JSON primitives."""
        return {
            "name": jsonable(self.name),
            "version": self.version,
            "value": jsonable(self.value),
            "sources": jsonable(self.sources),
            "source": self.source,
            "step": self.step.to_dict() if self.step else None,
            "added": jsonable(self.added),
            "decided_by": self.decided_by.to_dict() if self.decided_by else None,
            "workflow": jsonable(self.workflow_id),
            "around": self.around.to_dict() if self.around else None,
            "corrected": jsonable(self.corrected),
            "calls": [
                {
                    name: jsonable(getattr(call, name))
                    for name in ("key", "function", "args", "kwargs", "value")
                }
                for call in self.calls
            ],
        }


@dataclass(frozen=True, slots=True)
class Addition:
    """One item of an appended list, and the step that added it."""

    value: Any  # the item; an Undecodable with its fields if its class is unknown here
    node: str | None  # which node added it; None if the list began with it
    superstep: int | None  # when; None if the list began with it
    index: int | None  # of the step; None if the list began with it

    def to_dict(self) -> dict[str, Any]:
        """Return the item as JSON primitives."""
        return {
            "value": jsonable(self.value),
            "node": jsonable(self.node),
            "superstep": self.superstep,
            "index": self.index,
        }


def additions(store: "Checkpointer", workflow_id: str, name: str, superstep: int | None) -> list[Addition]:
    """Return the items of an appended list with the steps that added them; see `Checkpointer.appended`."""
    state = lazy_state(store, workflow_id, superstep)
    if name not in state:
        return []
    found = state.segments(name)
    if found is None:
        value = state[name]
        if isinstance(value, Undecodable) and value.data is None:
            raise ValueError(f"{name!r} of workflow {workflow_id!r} cannot be read: {value.reason}")
        raise ValueError(f"{name!r} of workflow {workflow_id!r} is not a list that nodes append to")
    nodes = {step.idx: step.node for step in store.backend.read_outlines(workflow_id)}
    begun = len(found.items) - sum(length for _, length in found.added)
    made = [Addition(item, None, None, None) for item in found.items[:begun]]
    for payload, length in found.added:
        items = found.items[len(made) : len(made) + length]
        made += [Addition(item, nodes.get(payload.idx), payload.superstep, payload.idx) for item in items]
    return made


def added_by(store: "Checkpointer", step: StepRecord, name: str) -> "Added | None":
    """Return what a step added to a list, None for other values and for what cannot be read.

    Items of unknown classes are `Undecodable`, as in a list that is not appended to.
    """
    state = lazy_state(store, step.workflow_id, step.superstep)
    return state.added(name, step.index) if name in state else None


@dataclass(frozen=True, slots=True)
class Iteration:
    """One visit of a node: what it took, what it gave, and the step with its timing."""

    number: int  # counts from 1
    inputs: dict[str, Any]  # what it took
    step: StepRecord  # its record

    @property
    def outputs(self) -> dict[str, Any]:
        """The values the node gave; empty if it failed."""
        return self.step.values or {}

    @property
    def duration_ms(self) -> float | None:
        """How long the node took."""
        return self.step.duration_ms

    def to_dict(self) -> dict[str, Any]:
        """Return the visit as JSON primitives; the outputs are the values of its step."""
        return {"number": self.number, "inputs": jsonable(self.inputs), "step": self.step.to_dict()}


_Place = tuple[int, int, int]  # where items stand in a list: the superstep, node and index of their step


class _Stretch:
    """The versions of an appended list between two points at which it began anew."""

    def __init__(self, members: list[int], rows: list[tuple[_Place, Payload]], begin: _Place | None) -> None:
        self.members = members  # the versions whose steps it is made by
        self.rows = rows  # what it consists of, by version: what it began with, and what was added since
        self.begin = begin  # where a step has replaced it: what stands before that is not part of it
        self.items: list[Any] = []  # of the rows that were read, as long as they stand in order of version
        self.lengths: list[int] = []  # of these items, after each row

    def read(self, count: int, items: Callable[[Payload], list[Any]]) -> list[Any]:
        """Return the list that the first rows make."""
        while len(self.lengths) < count:
            place, row = self.rows[len(self.lengths)]
            if self.lengths and place < self.rows[len(self.lengths) - 1][0]:
                placed = sorted(self.rows[:count], key=lambda each: each[0])
                return [item for _, row in placed for item in items(row)]
            self.items += items(row)
            self.lengths.append(len(self.items))
        return self.items[: self.lengths[count - 1]] if count else []


class AppendedList:
    """The versions of a list that steps append to: the items of each, and the steps that added them.

    A version is what all steps before it have added, so that it is made by many steps, and not by the last.
    """

    def __init__(self, encoding: "Encoding", workflow_id: str, rows: Iterable[Payload]) -> None:
        self._encoding = encoding
        self._workflow_id = workflow_id
        self._rows: dict[int, Payload] = {}
        self._ends: dict[int, tuple[_Stretch, int, int]] = {}  # by version: how much of which stretch it has
        self._parts: dict[int, list[Any] | Undecodable] = {}
        self._begin = 0  # the first version to which a step has added
        stretch = _Stretch([], [], None)
        for row in sorted(rows, key=lambda row: (row.version, row.superstep, row.idx)):
            if row.version in self._rows:
                continue  # a step that only makes again what was not kept adds nothing
            self._rows[row.version] = row
            stretch = self._after(stretch, row)
            self._ends[row.version] = stretch, len(stretch.members), len(stretch.rows)

    def _after(self, stretch: _Stretch, row: Payload) -> _Stretch:
        """Return the stretch that a version belongs to."""
        found = stands(row.format) if row.base is not None else None
        if found is None:
            # A whole list of a step is what was there before and what the step added; a given one is new.
            before = stretch.members if row.idx >= 0 else []
            return _Stretch([*before, row.version], [((-1, 0, 0), row)], None)
        self._begin = self._begin or row.version
        place = (row.superstep - found.late, found.node, row.idx)
        if stretch.begin is not None and place < stretch.begin:
            return stretch  # a step that belongs after this one was faster, and has replaced the list
        if found.anew:
            later = [each for each in stretch.rows if each[0] > place]
            stretch = _Stretch([each.version for _, each in later], later, place)
        stretch.members.append(row.version)
        stretch.rows.append((place, row))
        return stretch

    def __contains__(self, version: int) -> bool:
        return version in self._rows and self._begin > 0 and version >= self._begin

    def parts(self, version: int) -> Iterator[int]:
        """Yield the versions that a version was put together of, newest first: what each step added."""
        stretch, count, _ = self._ends[version]
        return (stretch.members[place] for place in range(count - 1, -1, -1))

    def index(self, version: int) -> int | None:
        """Return the index of the step that made a version, None if it was given."""
        index = self._rows[version].idx
        return index if index >= 0 else None

    def added(self, version: int) -> list[Any] | None:
        """Return what the step of a version added, None for what is not known."""
        row = self._rows[version]
        try:
            found = self._part(row) if row.is_added else None
            return list(found.data) if isinstance(found, Undecodable) else found
        except Exception:  # as in `Encoding.value`, which says why
            return None

    def value(self, version: int) -> Any:
        """Return a version, or an `Undecodable` that says why it cannot be read."""
        stretch, _, count = self._ends[version]
        try:
            return stretch.read(count, self._read)
        except Exception:  # rows may hold anything; the encoding says what is wrong
            *parts, last = (row for _, row in stretch.rows[:count])
            return self._encoding.value(self._workflow_id, last._replace(parts=tuple(parts)))

    def _read(self, row: Payload) -> list[Any]:
        found = self._part(row)
        if isinstance(found, Undecodable):
            raise ValueError(found.reason)
        return found

    def _part(self, row: Payload) -> list[Any] | Undecodable:
        if row.version not in self._parts:
            self._parts[row.version] = self._encoding.part(self._workflow_id, row)
        return self._parts[row.version]


class History:
    """The steps of one workflow up to a superstep, and the values that they and its inputs made."""

    def __init__(
        self,
        store: "Checkpointer",
        workflow_id: str,
        upto: int | None = None,
        *,
        steps: list[StepRecord] | None = None,  # if they have been read already, with their values
    ) -> None:
        self.store = store
        self.workflow_id = workflow_id
        self.upto = upto
        self.steps = store.steps(workflow_id, superstep=upto, values=False) if steps is None else steps
        self._complete: dict[str, dict[int, StepRecord]] = {}
        self._given: dict[Version, Any] = {}
        self._makers: dict[Version, StepRecord] = {}
        self._latest: dict[str, int] = {}
        for step in self.steps:
            if step.status is StepStatus.COMPLETED:
                for name, version in self._versions(step).items():
                    self._makers[name, version] = step
                    # Of two steps that append at the same time, the later one may have been faster.
                    self._latest[name] = max(version, self._latest.get(name, 0))

    @cached_property
    def given(self) -> dict[str, tuple[int, Any]]:
        """The latest version and value of each input."""
        return self._inputs(self.upto)

    def _inputs(self, upto: int | None) -> dict[str, tuple[int, Any]]:
        found = self.store.backend.read_inputs(self.workflow_id, upto=upto)
        return self.store.encoding.versioned(self.workflow_id, found)

    def _versions(self, step: StepRecord) -> dict[str, int]:
        if step.output_versions:
            return step.output_versions
        # Rows that no runner wrote may lack versions; then each value of a name counts one up.
        return {name: self._latest.get(name, 0) + 1 for name in self.complete(step).values or ()}

    def complete(self, step: StepRecord) -> StepRecord:
        """Return the step together with its values."""
        if step.values is not None:
            return step
        if step.node_name not in self._complete:
            steps = self.store.steps(self.workflow_id, superstep=self.upto, node=step.node_name)
            self._complete[step.node_name] = {found.index: found for found in steps}
        return self._complete[step.node_name].get(step.index, step)

    def names(self) -> list[str]:
        """Return the names of all values, those that steps made first."""
        return list({**self._latest, **self.given})

    def newest(self, name: str) -> int | None:
        """Return the latest version of a value, None if there is none."""
        versions = [self._latest[name]] if name in self._latest else []
        versions += [self.given[name][0]] if name in self.given else []
        return max(versions, default=None)

    def maker(self, name: str, version: int) -> StepRecord | None:
        """Return the step that made a version of a value, None if that was given or is not known.

        Of an appended list it is the step that added last; `parts` are the versions with all others.
        """
        found = self._list(name, version)
        if found is None:
            return self._makers.get((name, version))
        index = found.index(version)
        return None if index is None else self._by_index.get(index)

    def parts(self, name: str, version: int) -> Iterator[int]:
        """Yield the versions that a version was put together of, newest first.

        An appended list has one for each step that has added to it, and one if it began with given items.
        Any other value is made by one step.
        """
        found = self._list(name, version)
        return iter((version,)) if found is None else found.parts(version)

    def added(self, name: str, version: int) -> list[Any] | None:
        """Return what the step of a version added to a list, None for other values."""
        found = self._list(name, version)
        return None if found is None else found.added(version)

    def list_at(self, name: str, version: int) -> Any:
        """Return a version of an appended list, None for other values; one that cannot be read says why."""
        found = self._list(name, version)
        return None if found is None else found.value(version)

    @cached_property
    def _by_index(self) -> dict[int, StepRecord]:
        return {step.index: step for step in self.steps}

    @cached_property
    def _lists(self) -> dict[str, AppendedList | None]:
        """The appended lists by name; None for those that nothing has asked for."""
        newest = self.store.backend.read_newest(self.workflow_id)
        return {payload.name: None for payload in newest if payload.is_added}

    def _list(self, name: str, version: int) -> AppendedList | None:
        """Return the list that a version belongs to, None for other values."""
        if name not in self._latest or name not in self._lists:
            return None
        found = self._lists[name]
        if found is None:
            rows = self.store.backend.read_versions(self.workflow_id, name, upto=self.upto)
            found = self._lists[name] = AppendedList(self.store.encoding, self.workflow_id, rows)
        return found if version in found else None

    @cached_property
    def _decisions(self) -> dict[str, list[StepRecord]]:
        found: dict[str, list[StepRecord]] = {}
        for step in self.steps:
            if step.decision is not None and step.status is StepStatus.COMPLETED:
                found.setdefault(step.node_name, []).append(step)
        return found

    def gate(self, step: StepRecord) -> StepRecord | None:
        """Return the decision that let a step run, None if it needed none."""
        naming = [
            decided
            for decisions in self._decisions.values()
            if (decided := _before(decisions, step)) is not None
            and decided.index < step.index  # else the gate was added later
            and step.node_name in _targets(decided)
        ]
        return max(naming, key=lambda decided: decided.index, default=None)

    def gates(self, step: StepRecord) -> Iterator[StepRecord]:
        """Yield the decision that let a step run, the one that let that gate run, and so on."""
        gate = self.gate(step)
        while gate is not None:  # each is of an earlier superstep
            yield gate
            gate = self.gate(gate)

    def value(self, name: str, version: int, superstep: int | None = None) -> Any:
        """Return a version of a value that a step at a superstep may have seen; None if it is not known."""
        origin = self._origin((name, version), superstep)
        return None if origin is None else origin.value

    def step(self, which: int | str) -> StepRecord | None:
        """Return the step with that index, or the last one of the node with that name."""
        attribute = "node_name" if isinstance(which, str) else "index"
        return next((step for step in reversed(self.steps) if getattr(step, attribute) == which), None)

    def inputs_of(self, step: StepRecord) -> dict[str, Any]:
        """Return the values that the step took."""
        origins = [self._origin(item, step.superstep) for item in step.input_versions.items()]
        return {origin.name: origin.value for origin in origins if origin is not None and origin.stored}

    def origins_of(self, step: StepRecord, graph: Any = None) -> dict[str, Origin]:
        """Return where every input of the step came from, in the order of the node's parameters."""
        workflow = self.store.backend.read_workflow(self.workflow_id)
        stored = readable_graph(workflow.graph) if workflow is not None else None
        node = None if stored is None else stored.nodes.get(step.node_name)
        names = dict.fromkeys([*(node.inputs if node is not None else ()), *step.input_versions])
        bound = set() if stored is None else set(stored.bound)
        if graph is not None and workflow is not None:
            graph = graph.recorded_as(workflow.graph)
        found = {}
        for name in names:
            version = step.input_versions.get(name, 0)
            origin = self._origin((name, version), step.superstep) if version else None
            if origin is None:
                source: Source = "given" if version else "bound" if name in bound else "default"
                value = _from_graph(graph, step.node_name, name, source) if not version else _NOT_KNOWN
                known = value is not _NOT_KNOWN
                origin = Origin(name, version, value if known else None, None, source, known)
            found[name] = self._led_outside(origin) if version else origin
        return found

    def iterations(self, node: str) -> list[Iteration]:
        """Return the visits of a node, in order."""
        visits = [step for step in self.steps if step.node_name == node]
        return [
            Iteration(number, self.inputs_of(step), self.complete(step))
            for number, step in enumerate(visits, 1)
        ]

    def values(self) -> dict[str, Any]:
        """Return the latest value of each name, inputs included."""
        values = self.store.state(self.workflow_id, superstep=self.upto)
        for name, (version, value) in self.given.items():
            # A later turn may give a name that a step made before: the higher version is the newer value.
            # What a step made and did not store is left out: what was given before is not it.
            made = self._latest.get(name, -1)
            if version > made or (version == made and name not in values):
                values[name] = value
        return values

    def next(self) -> tuple[str, ...]:
        """Return the nodes that ran after these steps; if none did, those that would run."""
        later = (
            self.store.backend.read_following(self.workflow_id, self.upto) if self.upto is not None else ()
        )
        workflow = None if later else self.store.backend.read_workflow(self.workflow_id)
        if workflow is None or self._is_map():
            return tuple(later)
        return checkpointers.next_nodes(workflow, self.steps, self.store.backend.read_turns(self.workflow_id))

    def _is_map(self) -> bool:
        """Say whether it is the items that run, each as a workflow of its own, and no nodes."""
        children = () if self.steps else self.store.backend.find(Query(parent=self.workflow_id, limit=1))[0]
        return any(child.item is not None and child.node_name is None for child in children)

    def descent(self, name: str) -> list[Origin]:
        """Return the latest value of a name and all it was made of, newest first, given inputs last.

        That is what steps took, each step that added to a list which they took, and what the gates took that
        let these steps run. What came from the workflow around this one is followed there.
        """
        newest = self.newest(name)
        return [] if newest is None else self._descent([((name, newest), self.upto)])

    def _descent(self, to_do: list[tuple[Version, int | None]]) -> list[Origin]:
        seen: set[Version] = set()
        decided: set[int] = set()
        found: list[Origin] = []
        outside: list[tuple[Version, int | None]] = []
        while to_do:
            (name, version), superstep = to_do.pop()
            for part in self.parts(name, version):
                if (name, part) in seen:
                    break  # and all that is part of it
                seen.add((name, part))
                origin = self._origin((name, part), superstep)
                if origin is None:
                    continue
                if origin.step is None:
                    origin = self._led_outside(origin)
                elif corrected := self.corrected(origin.step):
                    origin = replace(origin, corrected=tuple(item for item, _ in corrected))
                found.append(origin)
                if origin.around is not None and self._around is not None:
                    outside.append(((origin.around.name, origin.around.version), self._around.step.superstep))
                if origin.step is not None:
                    to_do += _taken(origin.step)
                    for gate in self.gates(origin.step):
                        if gate.index in decided:
                            break
                        decided.add(gate.index)
                        to_do += _taken(gate)
        found.sort(key=lambda origin: -origin.step.index if origin.step else 1)
        return [*found, *(self._around.history._descent(outside) if self._around is not None else ())]

    def _origin(self, item: Version, superstep: int | None) -> Origin | None:
        """Return where a value came from; a step at that superstep has seen it."""
        name, version = item
        maker = self.maker(name, version)
        appended = self._list(name, version)
        if maker is None:
            return self.gift(name, version, superstep)
        maker = self.complete(maker)
        value = (maker.values or {}).get(name) if appended is None else appended.value(version)
        added = None if appended is None else appended.added(version)
        return Origin(
            name,
            version,
            value,
            maker,
            "step",
            calls=tuple(self.calls_of(maker)),
            added=None if added is None else tuple(added),
            decided_by=self.gate(maker),
            workflow_id=self.workflow_id,
        )

    @cached_property
    def _callers(self) -> set[str]:
        """The nodes that have called `ctx.step`."""
        return {node for _, node in self.store.backend.count_inner(self.workflow_id)}

    def calls_of(self, maker: StepRecord) -> Iterator[InnerStep]:
        """Yield the calls that a step used: of its visit, with those that an earlier attempt has recorded."""
        if maker.node_name not in self._callers:
            return
        found = self.store.inner_steps(self.workflow_id, node=maker.node_name, visit=maker.visit)
        last = {call.key: call for call in found if call.superstep <= maker.superstep}
        yield from (call for call in last.values() if call.status == "completed")

    def gift(self, name: str, version: int, superstep: int | None) -> Origin | None:
        """Return a value that was given, at or before a superstep; None if it was not, or is gone."""
        item = name, version
        if item not in self._given:
            given = self._inputs(superstep)
            self._given.update({(name, version): value for name, (version, value) in given.items()})
        if item not in self._given:
            return None
        return Origin(name, version, self._given[item], None, workflow_id=self.workflow_id)

    def around(self, name: str, version: int) -> "tuple[History, Version] | None":
        """Return the workflow around this one, and what an input of an item or a nested graph is of there.

        None for what a caller gave: to an outermost run, or in place of the first value.
        """
        found = self._around
        outer = None if found is None or version != 1 else found.names.get(name)
        if found is None or outer is None or outer not in found.step.input_versions:
            return None
        return found.history, (outer, found.step.input_versions[outer])

    def _led_outside(self, origin: Origin) -> Origin:
        """Return the origin of an input with the value around it, if it was taken from there."""
        found = self.around(origin.name, origin.version) if origin.step is None else None
        if found is None or self._around is None:
            return origin
        around = found[0]._origin(found[1], self._around.step.superstep)
        return origin if around is None else replace(origin, source="around", around=around)

    def corrected(self, maker: StepRecord) -> list[tuple[str, list[str]]]:
        """Return the first items of a map that ran by themselves with other inputs, and which inputs."""
        if maker.child_workflow_id is None:
            return []
        backend, found = self.store.backend, list[tuple[str, list[str]]]()
        for item in backend.read_items(maker.child_workflow_id)[:_ITEMS_READ]:
            names = [payload.name for payload in backend.read_inputs(item.id) if payload.version > 1]
            if names:
                found.append((item.id, names))
        return found

    @cached_property
    def _around(self) -> "_Around | None":
        """The workflow around this one, and the step of it that this one is part of."""
        backend = self.store.backend
        inner = backend.read_workflow(self.workflow_id)
        if inner is not None and inner.item is not None and inner.parent_id is not None:
            inner = backend.read_workflow(inner.parent_id)  # the map
        outer = None if inner is None or inner.parent_id is None else backend.read_workflow(inner.parent_id)
        if inner is None or outer is None:
            return None
        history = History(self.store, outer.id)
        steps = [step for step in history.steps if step.child_workflow_id == inner.id]
        if not steps:
            return None
        graph = readable_graph(outer.graph)
        node = None if graph is None else graph.nodes.get(steps[-1].node_name)
        inlets = {name: name for name in steps[-1].input_versions} if node is None else node.inlets
        return _Around(history, steps[-1], {inside: name for name, inside in inlets.items()})


@dataclass(frozen=True, slots=True)
class _Around:
    history: History  # of the workflow around
    step: StepRecord  # of the nested graph there
    names: dict[str, str]  # of its inputs there, by the name inside


def _taken(step: StepRecord) -> list[tuple[Version, int]]:
    """Return what a step took, each value with the superstep in which it was taken."""
    return [(item, step.superstep) for item in step.input_versions.items()]


def _before(decisions: Sequence[StepRecord], step: StepRecord) -> StepRecord | None:
    """Return the last decision of a gate that applied to a step: one of an earlier superstep."""
    place = bisect_left(decisions, step.superstep, key=lambda decided: decided.superstep)
    return decisions[place - 1] if place else None


def _targets(decided: StepRecord) -> Sequence[str]:
    return [decided.decision] if isinstance(decided.decision, str) else decided.decision or ()


_NOT_KNOWN: Any = object()


def _from_graph(graph: Any, node_name: str, name: str, source: Source) -> Any:
    """Return what a graph, if there is one, binds to a name, or the default of its node."""
    node = None if graph is None else graph.nodes.get(node_name)
    if node is None:
        return _NOT_KNOWN
    if source == "bound":
        return graph.inputs.bound.get(name, _NOT_KNOWN)
    return node.get_default_for(name) if node.has_default_for(name) else _NOT_KNOWN


def ran_since(store: "Checkpointer", steps: Iterable[StepRecord]) -> dict[str, str]:
    """Return, by node, the nested runs that changed after their step ended: something in them ran by itself.

    Only the last step of each node counts, and only if it has completed.
    """
    seen = {name: (child, step.child_fence) for name, child, step in _nested(steps)}
    fences = store.backend.read_fences([child for child, _ in seen.values()]) if seen else {}
    return {
        name: child
        for name, (child, fence) in seen.items()
        if fence is not None and fences.get(child, fence) > fence
    }


def failed_in(store: "Checkpointer", steps: Iterable[StepRecord]) -> dict[str, str]:
    """Return, by node, the nested runs whose step has completed although something in them failed."""
    inside = {child: name for name, child, _ in _nested(steps)}
    failed = store.backend.count_failed(inside) if inside else {}
    return {inside[child]: child for child in failed}


def _nested(steps: Iterable[StepRecord]) -> list[tuple[str, str, StepRecord]]:
    latest = {step.node_name: step for step in steps}
    return [
        (name, step.child_workflow_id, step)
        for name, step in latest.items()
        if step.child_workflow_id is not None and step.status is StepStatus.COMPLETED
    ]


def edits_of(store: "Checkpointer", workflow_id: str | None) -> frozenset[int]:
    """Return the supersteps before which a fork, or one that it was forked from, was given values."""
    found: set[int] = set()
    seen: set[str] = set()
    while workflow_id is not None and workflow_id not in seen:  # a damaged store may have circles
        seen.add(workflow_id)
        workflow = store.backend.read_workflow(workflow_id)
        if workflow is not None and workflow.forked_at is not None:
            found.add(workflow.forked_at + 1)
        workflow_id = None if workflow is None else workflow.forked_from
    return frozenset(found)
