"""Which nodes would run next, from stored facts alone: the structure of the graph, steps, versions of inputs.

This is the rule by which runs are scheduled, read from a history instead of a run. A node is next when

a  it lies behind the entry points, if there are any, and is no gate that has decided END in this turn;
b  no gate controls it, or the latest decision of one names it, or one that never ran is open by default and
   lies on a cycle with it. A decision counts until what the gate takes has changed;
c  each input exists: as the output of a completed step or a stored input; or a binding or default stands in
   for it, and no producer outside of its own cycle can still run;
d  the names it waits for are newer than those it saw last;
e  it never completed, or an input is newer than the one it took last, or a decision names it since then;
f  it need not let others go first: the gates that control it, what it waits for, and a question to a person.

Steps that failed, or are missing, beside finished ones of a superstep come first, as in a resume. A paused
workflow waits in the nodes that paused. Where no structure is stored, what has failed is all that is known.
Of a loop at rest whose nodes all made what they had made before, and of a loop with declared edges that has
not begun, a run may choose more narrowly than this.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from hypergraph.checkpointers.shapes import Shape, shape_of
from hypergraph.checkpointers.types import StepRecord, StepStatus, Workflow, WorkflowStatus

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
    shape = shape_of(workflow.graph)
    return (shape and ready_nodes(shape, steps, given, turn)) or _left_at(StepStatus.FAILED, steps)


def _left_at(status: StepStatus, steps: Sequence[StepRecord]) -> tuple[str, ...]:
    """Return the nodes whose last step has this status; others may have gone on meanwhile."""
    last = {step.node_name: step for step in steps}
    return tuple(name for name, step in last.items() if step.status is status)


def ready_nodes(shape: Shape, steps: Sequence[StepRecord], given: Versions, turn: int = 0) -> tuple[str, ...]:
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
    """An input that a node lacks, and who is expected to make it; `soft` if something could stand in."""

    feeders: Collection[str]
    soft: bool


class Standing:
    """Where a workflow stands after its completed steps."""

    def __init__(self, shape: Shape, records: Iterable[StepRecord], given: Versions, turn: int) -> None:
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
        for param in shape.nodes[name]["inputs"]:
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
        for param in node["inputs"] if name not in self.visits else ():
            outer = shape.outer_feeders(name, param)
            delivered = {f for f in shape.feeders(name, param) if (f, param) in self.written}
            exists = bool(delivered) or param in self.given
            stands_in = param in shape.bound or param in node["optional"]
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
            for param in shape.nodes[name]["inputs"]
            for feeder in shape.feeders(name, param)
        )
        if not (name in self.stale or gated or any(fed)):
            return False
        if any(not need.soft and alive.isdisjoint(need.feeders) for need in self._needs(name)):
            return False
        return all(alive & shape.makers[awaited] - {name} for awaited in self._behind(name))

    # --- who goes first -----------------------------------------------------------------------

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
        asking = [name for name in batch if self.shape.nodes[name]["kind"] == "interrupt"]
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
