"""History of a workflow: producers, consumers and versions of its values, and the nodes that run next."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from hypergraph.checkpointers.query import Query
from hypergraph.checkpointers.records import StepRecord, Workflow, last_turn
from hypergraph.checkpointers.status import StepStatus, WorkflowStatus
from hypergraph.display import jsonable
from hypergraph.structure import StoredGraph, readable_graph

if TYPE_CHECKING:
    from hypergraph.checkpointers.base import Checkpointer

Version = tuple[str, int]  # a name and which of its values


@dataclass(frozen=True, slots=True)
class Origin:
    """One value in the descent of another: the step that made it, None if it was given as an input."""

    name: str  # of the value
    version: int  # of the value
    value: Any  # None if it cannot be read any more
    step: StepRecord | None  # which made it; None for an input

    @property
    def stored(self) -> bool:
        """Whether the value can still be read; if not, `value` is None."""
        return self.step is None or self.name in (self.step.values or ())

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
            "step": self.step.to_dict() if self.step else None,
        }


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


class History:
    """The steps of one workflow up to a superstep, and the values that they and its inputs made."""

    def __init__(
        self,
        store: Checkpointer,
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
                    self._latest[name] = version

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
        """Return the step that made a version of a value, None if that was given or is not known."""
        return self._makers.get((name, version))

    def step(self, which: int | str) -> StepRecord | None:
        """Return the step with that index, or the last one of the node with that name."""
        attribute = "node_name" if isinstance(which, str) else "index"
        return next((step for step in reversed(self.steps) if getattr(step, attribute) == which), None)

    def inputs_of(self, step: StepRecord) -> dict[str, Any]:
        """Return the values that the step took."""
        origins = [self._origin(item, step.superstep) for item in step.input_versions.items()]
        return {origin.name: origin.value for origin in origins if origin is not None and origin.stored}

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
            if name not in values or version > self._latest.get(name, version):
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
        given = {name: version for name, (version, _) in self.given.items()}
        return next_nodes(
            workflow, self.steps, given, last_turn(self.store.backend.read_inputs(self.workflow_id)).superstep
        )

    def _is_map(self) -> bool:
        """Say whether it is the items that run, each as a workflow of its own, and no nodes."""
        children = () if self.steps else self.store.backend.find(Query(parent=self.workflow_id, limit=1))[0]
        return any(child.item is not None and child.node_name is None for child in children)

    def descent(self, name: str) -> list[Origin]:
        """Return the latest value of a name and all it was made of, newest first, given inputs last."""
        newest = self.newest(name)
        to_do: list[tuple[Version, int | None]] = [] if newest is None else [((name, newest), self.upto)]
        found: dict[Version, Origin] = {}
        while to_do:
            item, superstep = to_do.pop()
            origin = None if item in found else self._origin(item, superstep)
            if origin is not None:
                found[item] = origin
                to_do += [(source, origin.step.superstep) for source in origin.sources.items() if origin.step]
        return sorted(found.values(), key=lambda origin: -origin.step.index if origin.step else 1)

    def _origin(self, item: Version, superstep: int | None) -> Origin | None:
        """Return where a value came from; a step at that superstep has seen it."""
        name, version = item
        maker = self._makers.get(item)
        if maker is not None:
            maker = self.complete(maker)
            return Origin(name, version, (maker.values or {}).get(name), maker)
        return self.gift(name, version, superstep)

    def gift(self, name: str, version: int, superstep: int | None) -> Origin | None:
        """Return a value that was given, at or before a superstep; None if it was not, or is gone."""
        item = name, version
        if item not in self._given:
            given = self._inputs(superstep)
            self._given.update({(name, version): value for name, (version, value) in given.items()})
        return Origin(name, version, self._given[item], None) if item in self._given else None


Versions = Mapping[str, int]
_END = "END"


def next_nodes(
    workflow: Workflow, steps: Sequence[StepRecord], given: Versions, turn: int = 0
) -> tuple[str, ...]:
    """Return the nodes that would run next, none where that cannot be known.

    `steps` are all that the workflow has, in order, `given` the versions of its inputs, `turn` the superstep
    before which the last of them entered.
    """
    if workflow.status in (WorkflowStatus.COMPLETED, WorkflowStatus.PARTIAL):
        return ()
    if workflow.status is WorkflowStatus.PAUSED:
        return _left_at(StepStatus.PAUSED, steps)
    shape = readable_graph(workflow.graph)
    return (shape and ready_nodes(shape, steps, given, turn)) or _left_at(StepStatus.FAILED, steps)


def _left_at(status: StepStatus, steps: Sequence[StepRecord]) -> tuple[str, ...]:
    """Return the nodes whose last step has this status; others may have gone on meanwhile."""
    last = {step.node_name: step for step in steps}
    return tuple(name for name, step in last.items() if step.status is status)


def ready_nodes(
    shape: StoredGraph, steps: Sequence[StepRecord], given: Versions, turn: int = 0
) -> tuple[str, ...]:
    """Return the nodes of a graph that would run after these steps, in graph order."""
    latest = {step.node_name: step for step in steps if step.node_name in shape.nodes}
    failed = [step.round for step in latest.values() if step.status is StepStatus.FAILED]
    current = min([*failed, max((step.round for step in steps), default=-1)])
    unfinished = [step for step in steps if step.round >= current]
    if turn <= max((step.superstep for step in steps), default=-1) and not any(s.lost for s in unfinished):
        done = {step.node_name for step in unfinished if step.status is StepStatus.COMPLETED}
        earlier = Standing(shape, [step for step in steps if step.round < current], given, turn)
        missing = [name for name in earlier.ready() if name not in done]
        if missing:
            return tuple(missing)
    return tuple(Standing(shape, steps, given, turn).ready())


class Need(NamedTuple):
    """An input that a node lacks, and the nodes expected to make it; `soft` if something could stand in."""

    feeders: Collection[str]
    soft: bool


class Standing:
    """Where a workflow stands after its completed steps."""

    def __init__(self, shape: StoredGraph, records: Iterable[StepRecord], given: Versions, turn: int) -> None:
        self.shape = shape
        self.given = given
        self.versions = dict(given)
        self.visits: dict[str, StepRecord] = {}
        self.written: dict[tuple[str, str], int] = {}
        for record in records:
            if record.status is StepStatus.COMPLETED and record.node_name in shape.nodes:
                self._fold(record)
        self.stale = {name for name in shape.nodes if self._is_stale(name)}
        self.decisions = {gate: self._decision(gate) for gate in shape.gates if gate in self.visits}
        ended = {gate for gate, targets in self.decisions.items() if _END in targets}
        ended = {gate for gate in ended if self.visits[gate].superstep >= turn}
        self.stale -= ended  # whatever has changed since
        for gate in self.stale.intersection(self.decisions):
            del self.decisions[gate]
        for gate, targets in self.decisions.items():
            order = self.visits[gate].index
            self.stale.update(t for t in targets if t in shape.nodes and self._last(t) < order)
        self.live = shape.scope - ended

    def _fold(self, record: StepRecord) -> None:
        name = record.node_name
        self.visits[name] = record
        made = record.output_versions or {
            output: self.versions.get(output, 0) + 1 for output in record.values or ()
        }
        for output, version in made.items():
            self.written[name, output] = version
        for counted in (made, record.input_versions):  # siblings may have written a name more than once
            for output, version in counted.items():
                self.versions[output] = max(version, self.versions.get(output, 0))
        for signal in self.shape.signals[name]:
            self.versions[signal] = self.versions.get(signal, 0) + 1

    def _last(self, name: str) -> int:
        return self.visits[name].index if name in self.visits else -1

    def _decision(self, gate: str) -> Collection[str]:
        decided = self.visits[gate].decision
        return decided if isinstance(decided, list) else () if decided is None else (decided,)

    def _is_stale(self, name: str) -> bool:
        visit, shape = self.visits.get(name), self.shape
        if visit is None:
            return True
        for param in shape.nodes[name].inputs:
            sources = (f for f in shape.feeders(name, param) if shape.makes_stale(name, param, f))
            latest = max((self.written.get((f, param), 0) for f in sources), default=0)
            if max(latest, self.given.get(param, 0)) > visit.input_versions.get(param, 0):
                return True
        return False

    # --- what keeps a node from running -------------------------------------------------------

    def _openers(self, name: str) -> list[str]:
        """Return the gates that let a node run: by their decision, or before any."""
        return [
            gate
            for gate in self.shape.controllers[name]
            if name in self.decisions.get(gate, ())
            or (gate not in self.visits and self.shape.is_open_by_default(gate, name))
        ]

    def _is_open(self, name: str) -> bool:
        return not self.shape.controllers[name] or bool(self._openers(name))

    def _behind(self, name: str) -> list[str]:
        """Return the names that the node still waits for."""
        visit = self.visits.get(name)
        seen = visit.wait_versions if visit is not None else {}
        return [n for n in self.shape.awaits[name] if self.versions.get(n, 0) <= seen.get(n, 0)]

    def _needs(self, name: str) -> Iterator[Need]:
        """Yield what a node lacks; one that has run lacks nothing, whatever stood in for it then."""
        node, shape = self.shape.nodes[name], self.shape
        for param in node.inputs if name not in self.visits else ():
            outer = shape.outer_feeders(name, param)
            delivered = {f for f in shape.feeders(name, param) if (f, param) in self.written}
            exists = bool(delivered) or param in self.given
            stands_in = param in shape.bound or param in node.optional
            if shape.explicit and outer:
                if outer - delivered:
                    yield Need(outer - delivered, exists or stands_in)
            elif not exists and (outer or not stands_in):
                yield Need(outer or shape.feeders(name, param), stands_in)

    def _may_run(self, name: str) -> bool:
        return name in self.live and name in self.stale and self._is_open(name) and not self._behind(name)

    @cached_property
    def _alive(self) -> set[str]:
        """The nodes that may run from here on, taking every open question in their favour."""
        alive: set[str] = set()
        grown = True
        while grown:
            grown = False
            for name in self.shape.nodes:  # in graph order one pass is mostly enough
                if name in self.live and name not in alive and self._could_run(name, alive):
                    alive.add(name)
                    grown = True
        return alive

    def _could_run(self, name: str, alive: set[str]) -> bool:
        shape = self.shape
        gated = not alive.isdisjoint(shape.controllers[name])
        if not (self._is_open(name) or gated):
            return False
        fed = (
            feeder in alive and shape.makes_stale(name, param, feeder)
            for param in shape.nodes[name].inputs
            for feeder in shape.feeders(name, param)
        )
        if not (name in self.stale or gated or any(fed)):
            return False
        if any(not need.soft and alive.isdisjoint(need.feeders) for need in self._needs(name)):
            return False
        return all(alive & shape.makers[awaited] - {name} for awaited in self._behind(name))

    # --- which node runs first -----------------------------------------------------------------------

    def ready(self) -> list[str]:
        """Return the nodes that would run now, in graph order."""
        willing = {name: list(self._needs(name)) for name in self.shape.nodes if self._may_run(name)}
        found = [name for name, needs in willing.items() if not any(map(self._must_wait, needs))]
        if not found:  # those that wait for each other only: the first goes
            found = [name for name, needs in willing.items() if all(need.soft for need in needs)][:1]
        ready = set(found)
        batch = [name for name in found if not self._waits_for_one_of(ready, name)]
        again = {name for name in batch if self.shape.controllers[name] and self._has_had_its_turn(name)}
        others = ready - again
        batch = [name for name in batch if name not in again or self._is_still_named(name, others)]
        batch = batch or found[:1]
        asking = [name for name in batch if self.shape.nodes[name].kind == "interrupt"]
        return asking[:1] or batch

    def _must_wait(self, need: Need) -> bool:
        return not need.soft or not self._alive.isdisjoint(need.feeders)

    def _waits_for_one_of(self, ready: set[str], name: str) -> bool:
        """Say whether one of them decides on the node, or makes what it waits for."""
        shape = self.shape
        if not ready.isdisjoint(shape.controllers[name]):
            return True
        return any(ready & shape.makers[awaited] - {name} for awaited in shape.awaits[name])

    def _has_had_its_turn(self, name: str) -> bool:
        """Say whether the node has run since a decision named it."""
        last = self._last(name)
        naming = (self.visits[gate].index for gate, named in self.decisions.items() if name in named)
        return last >= 0 and all(index < last for index in naming)

    def _is_still_named(self, name: str, others: set[str]) -> bool:
        """Say whether a gate that lets the node run is not about to decide again, because of others."""
        return any(others.isdisjoint(self.shape.upstream(gate, name)) for gate in self._openers(name))
