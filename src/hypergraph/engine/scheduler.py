"""Which steps run next. Pure: no clock, no I/O, no waiting.

S1  Given values enter the state with version 1; bound values and defaults count as version 0. An answer
    to an interrupt enters when its interrupt resolves; if nothing else can run, it enters as an input.
S2  A version rises only if the name is new or the value differs; else the state keeps the old object.
S3  An output that *is* one of the node's inputs, and mutable, counts as changed.
S4  Ready steps run against the same snapshot; then their outputs are applied in graph order.
S5  A step is ready when
    a  it is inside the scope of the entry points,
    b  no gate controls it, or the decision of one names it, or one that never executed is open by
       default and lies on a cycle with it,
    c  all inputs are available; what could stand in for an edge-fed input waits while its producer can
       still run, except inside a cycle,
    d  the names it waits for exist and are newer than those it saw last,
    e  it never executed, or an input has changed since.
S6  Own outputs do not make a step stale, unless a gate drives it. A fresh decision re-arms the targets it
    names, and what ran by a decision raises the versions of its outputs even if they are equal. If
    everything comes to rest on the way from there to the gate, because something made there is equal to
    what was made before, those who take it run all the same, once per decision.
S7  Targets of a ready gate wait for its decision. So do those that have run by it, as long as something
    else is ready that leads to the gate: a loop goes through its gate before it goes on.
S8  A step waiting for an output of another ready step is deferred.
S8a If holding back would leave nothing to run, the first held step runs.
S9  A ready interrupt runs alone.
S10 A gate whose inputs changed loses its decision; END is final for its gate.
S11 A step controlled by several gates needs one of them.
S12 Order within a superstep is graph construction order.

Readiness is kept in counters that change when something happens to a step, so the cost of a superstep
depends on the steps that could have become ready, not on the size of the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from hypergraph.engine.admission import Admission
from hypergraph.engine.plan import ABSENT, Step, is_immutable
from hypergraph.nodes.gate import END

_TRUTH = ("bool", "bool_")  # numpy calls its truth value bool_ or, since version 2, bool


def differs(old: Any, new: Any) -> bool:
    """Say whether a new value counts as different from the old one.

    Where comparison fails or gives no truth value, and for values unlike themselves, identity decides.
    """
    if new is old:
        return False
    try:
        unequal = old != new
        return bool(unequal) if type(unequal).__name__ in _TRUTH else True
    except Exception:  # an __eq__ of the user's own may do anything
        return True


@dataclass
class NodeExecution:
    """One execution of a node: what it consumed and what came out."""

    node_name: str  # which node
    input_versions: dict[str, int]  # the version of each input it took
    outputs: dict[str, Any]  # what it made
    wait_for_versions: dict[str, int] = field(default_factory=dict)  # the version of each name it waited for
    duration_ms: float = 0.0  # how long it took
    cached: bool = False  # whether its outputs came from the cache


@dataclass
class GraphState:
    """Values with versions, executions and decisions: the state of a run, standing alone."""

    values: dict[str, Any] = field(default_factory=dict)  # by name
    versions: dict[str, int] = field(default_factory=dict)  # how often each value was set to something new
    node_executions: dict[str, NodeExecution] = field(default_factory=dict)  # the last one of each node
    routing_decisions: dict[str, Any] = field(default_factory=dict)  # the last one of each gate

    def update_value(self, name: str, value: Any) -> None:
        """Set a value; its version rises only if the name is new or the value differs."""
        if name not in self.values or differs(self.values[name], value):
            self.values[name] = value
            self.versions[name] = self.get_version(name) + 1

    def get_version(self, name: str) -> int:
        """Return the version of a name, 0 if it is unset."""
        return self.versions.get(name, 0)

    def copy(self) -> GraphState:
        """Return a state that shares values but neither names, versions nor executions."""
        executions = {
            name: NodeExecution(
                e.node_name,
                dict(e.input_versions),
                dict(e.outputs),
                dict(e.wait_for_versions),
                e.duration_ms,
                e.cached,
            )
            for name, e in self.node_executions.items()
        }
        return GraphState(dict(self.values), dict(self.versions), executions, dict(self.routing_decisions))


PASSED_ON = -1  # the count of an echo that has been heard


class Course(Protocol):
    """The side of a run that its schedule reads and writes."""

    admission: Admission
    values: dict[str, Any]
    versions: dict[str, int]
    landed: list[tuple[Step, Any]]
    answers: dict[str, Any]

    failure: Any
    pause: Any
    journal: Any

    def exhaust(self, step: Step, superstep: int) -> None: ...


class Readiness:
    """The counters of one run.

    Steps in `elsewhere` (with their supersteps) are run by somebody else; they only land here, when a
    batch of them is asked for.
    """

    def __init__(self, run: Course, elsewhere: Mapping[int, int] | None = None) -> None:
        admission = run.admission
        self.run = run
        self.abroad = dict(elsewhere or {})  # those nobody has asked for yet
        self.until = max(self.abroad.values(), default=-1) + 1  # below this there is always something to run
        self.scope = admission.scope.difference(self.abroad)
        self.steps = admission.plan.steps
        self.values, self.versions = run.values, run.versions
        size = len(self.steps)
        self.needs = {index: dict(needs) for index, needs in admission.needs.items()}
        self.soft = dict(admission.soft)
        self.missing = [len(self.needs.get(index, ())) for index in range(size)]
        self.opened = [0 if step.controllers else 1 for step in self.steps]  # S5b, S11: ways to be activated
        self.named = [0] * size  # by how many decisions
        self.stale = [True] * size
        self.runs = [0] * size
        self.armed = [0] * size  # how often it had run when a decision named it last
        self.live = set(self.scope)  # without the gates that have decided END
        self.decisions: dict[int, tuple[int, ...]] = {}
        self.echoes: dict[int, int] = {}  # who was given an equal value again, and how often it had run then
        self.seen: dict[int, dict[str, int]] = {}
        self.agenda = set(self.scope)
        self.superstep = 0
        self.replayed: dict[int, Any] = {}  # what steps of the first superstep have returned before
        self.remade: list[Step] = []  # what runs first, because values it once made were not kept,
        self.remade_until = 0  # below this superstep
        self.hopeless_known = False
        self.unasked = set()  # gates that have not decided yet, and whose targets are open until then
        for step in self.steps:
            for target in step.default_targets:  # S5b
                self.unasked.add(step.index)
                self.opened[target] += 1
        self.lacking: dict[tuple[int, str], list[int]] = {}
        for index, needs in self.needs.items():
            for name in needs:
                for feeder in admission.plan.wiring.feeders(self.steps[index].name, name):
                    self.lacking.setdefault((admission.plan.index[feeder], name), []).append(index)

    def _has_waited(self, step: Step) -> bool:
        seen = self.seen.get(step.index, {})
        return all(self.versions.get(name, 0) > seen.get(name, 0) for name in step.wait_for)

    def _openers(self, index: int) -> list[int]:
        """S5b: return the gates that let a step run: by their decision, or before any."""
        return [
            gate
            for gate in self.steps[index].controllers
            if index in self.decisions.get(gate, ())
            or (gate in self.unasked and index in self.steps[gate].default_targets)
        ]

    def _withdraw(self, gate: int) -> None:
        for target in self.decisions.pop(gate):
            self.opened[target] -= 1
            self.named[target] -= 1

    def _resound(self) -> bool:
        """S6: let a round go on to its gate through steps that made what they had made before."""
        heard = [i for i, count in self.echoes.items() if count == self.runs[i] and self._is_in_a_round(i)]
        for index in heard:
            self.echoes[index] = PASSED_ON
            self.stale[index] = True
            self.agenda.add(index)
            if index in self.decisions:
                self._withdraw(index)
        return bool(heard)

    def _is_in_a_round(self, index: int) -> bool:
        """Say whether a step is on the way from a target that ran by a decision to the gate that made it."""
        upstream = self.run.admission.plan.upstream
        return index in self.live and any(
            self.runs[target] != self.armed[target]
            and index in upstream(gate, target)
            and target in upstream(index)
            for gate, targets in self.decisions.items()
            if gate in self.live
            for target in targets
        )

    # -- what others run -------------------------------------------------------------------------------

    def _due_from_abroad(self, idle: bool = False) -> list[int]:
        """Return the steps of earlier supersteps, run elsewhere, that alone keep others from being ready.

        With nothing else to do, it is enough if somebody takes anything from them.
        """
        late = {index for index, superstep in self.abroad.items() if superstep < self.superstep}
        due = set()
        for index in late:
            step = self.steps[index]
            consumers = {c for _, found in step.writes for c in found}.union(step.waiters) & self.scope
            if any(idle or self._waits_only_for(consumer, late) for consumer in consumers):
                due.add(index)
        for index in due:
            del self.abroad[index]
        return sorted(due)

    def _waits_only_for(self, index: int, late: set[int]) -> bool:
        step, plan = self.steps[index], self.run.admission.plan
        if not self.opened[index] or not self.stale[index]:
            return False
        lacking = [
            *self.needs.get(index, ()),
            *(name for name in step.wait_for if not self.versions.get(name)),
        ]
        sources = ({plan.index[p] for p in plan.wiring.producers.get(name, ())} for name in lacking)
        return all(found & late for found in sources)

    # -- what could stand in for a missing input -------------------------------------------------------

    def _release_hopeless(self) -> None:
        """S5c: let stand-ins count for inputs none of whose producers can run any more."""
        self.hopeless_known = True
        alive = self._could_run()
        for (index, name), feeders in list(self.soft.items()):
            if alive.isdisjoint(feeders):
                self._satisfy(index, name)

    def _could_run(self, without: Collection[int] = ()) -> set[int]:
        """Return the steps that may run from here on, taking every open question in their favour."""
        alive = set(self.abroad)
        grown = True
        while grown:
            grown = False
            left = (self.scope - alive).difference(without)
            for index in sorted(left):  # in graph order one pass is mostly enough
                if self._could_run_with(index, alive):
                    alive.add(index)
                    grown = True
        return alive

    def _could_run_with(self, index: int, alive: set[int]) -> bool:
        step, plan = self.steps[index], self.run.admission.plan
        if index not in self.live:
            return False
        gated = not alive.isdisjoint(step.controllers)  # by gates that may open it, or re-arm it
        if not (self.opened[index] or gated):
            return False
        if not (self.stale[index] or gated or self._could_change(index, alive)):
            return False
        hard = (name for name in self.needs.get(index, ()) if (index, name) not in self.soft)
        feeding = ({plan.index[f] for f in plan.wiring.feeders(step.name, name)} for name in hard)
        if any(alive.isdisjoint(feeders) for feeders in feeding):
            return False
        seen = self.seen.get(index, {})
        behind = [name for name in step.wait_for if self.versions.get(name, 0) <= seen.get(name, 0)]
        return all(
            any(name in (*self.steps[i].outputs, *self.steps[i].awaited) for i in alive if i != index)
            for name in behind
        )

    def _could_change(self, index: int, alive: set[int]) -> bool:
        return any(index in consumers for i in alive for _, consumers in self.steps[i].writes)

    def _release_first_soft(self) -> bool:
        """S8a for stand-ins: waiting for each other, nobody would run."""
        for index in sorted({index for index, _ in self.soft}):
            names = [name for name in self.needs[index] if (index, name) in self.soft]
            lacks_more = len(names) < self.missing[index] or not self._has_waited(self.steps[index])
            if self.opened[index] and self.stale[index] and not lacks_more:
                for name in names:
                    self._satisfy(index, name)
                return True
        return False

    def _take_answers_as_inputs(self) -> bool:
        """S1: an answer nobody asks for is an input, rather than a reason to stand still."""
        answers = self.run.answers
        usable = [name for name in answers if name in self.run.admission.plan.wiring.consumers]
        for name in usable:
            value = self.values[name] = answers.pop(name)
            version = self.versions[name] = self.versions.get(name, 0) + 1
            if self.run.journal is not None:
                self.run.journal.taken(name, version, value)
            self.enter(name)
        return bool(usable)

    def enter(self, name: str) -> None:
        """Let steps go on that waited for a value which nobody made, but which is there now."""
        for index in [index for index, needs in self.needs.items() if name in needs]:
            feeders = self.needs[index][name]
            if feeders is None:
                self._satisfy(index, name)
            else:  # a declared source goes first as long as it can
                self.soft[index, name] = feeders
                self.hopeless_known = False
        self.agenda.update(self.scope)  # somebody may have waited for the name

    def _satisfy(self, index: int, name: str) -> None:
        del self.needs[index][name]
        self.soft.pop((index, name), None)
        self.missing[index] -= 1
        if not self.needs[index]:
            del self.needs[index]
        if index in self.scope:
            self.agenda.add(index)

    def _deliver(self, feeder: int, name: str) -> None:
        """A producer has delivered: its consumers wait for one thing less."""
        for index in self.lacking.pop((feeder, name)):
            needs = self.needs.get(index, {})
            if name in needs:
                outstanding = needs[name]
                if outstanding is not None:
                    needs[name] = outstanding = outstanding - {feeder}
                    self.soft[index, name] = outstanding  # now there is a value that could stand in
                    self.hopeless_known = False
                if not outstanding:
                    self._satisfy(index, name)


NEVER = float("inf")


class Unfolding(Readiness):
    """The course of one run, found out superstep by superstep."""

    def course(  # noqa: PLR0912 - once per superstep, so it is all in one place
        self,
        limit: float = NEVER,
        together: Callable[[list[Step]], Any] | None = None,
        arrival: Callable[[list[int]], Any] = list,
    ) -> Iterator[tuple[int, Any]]:
        """Yield one step after another with its superstep; before the next superstep all must have landed.

        `together` makes one step of those that may run at the same time, `arrival` one that waits for steps
        run elsewhere, if there are any. A run that has more to do after `limit` supersteps is exhausted.
        """
        run, steps, agenda, landed = self.run, self.steps, self.agenda, self.run.landed
        missing, opened, stale, runs, named = self.missing, self.opened, self.stale, self.runs, self.named
        if self.remade and not (yield from self._remake()):
            return
        superstep = first = self.superstep
        while True:
            if self.abroad or self.soft:
                yield from self._look_around(superstep, arrival)
            batch = []
            for index in agenda:  # S5: b, c, e by counters; a because others are never on the agenda
                if (
                    stale[index]
                    and opened[index]
                    and not missing[index]
                    and (not steps[index].wait_for or self._has_waited(steps[index]))
                ):
                    batch.append(index)
            agenda.clear()
            if len(batch) > 1 or (batch and self.abroad):
                batch = self._hold_back(sorted(batch))
            elif not batch and superstep >= self.until:
                if (yield from self._goes_on(superstep, arrival)):
                    continue
                if not self.replayed:
                    return
            if self.replayed:
                batch = self._land_replayed(batch)
            if superstep - first >= limit and batch:
                return run.exhaust(steps[batch[0]], superstep)
            for index in batch:
                stale[index] = False  # until something it takes changes again
                runs[index] += 1
                if steps[index].wait_for:
                    self.seen[index] = {name: self.versions[name] for name in steps[index].wait_for}
            if together is not None and len(batch) > 1:
                yield superstep, together([steps[index] for index in batch])
            else:
                for index in batch:
                    yield superstep, steps[index]
            if len(landed) == 1:
                step, value = landed.pop()
                self._apply(step, value, named[step.index], None)
            else:
                self.apply_landed()
            if run.failure is not None or run.pause is not None:
                return
            self.superstep = superstep = superstep + 1

    # -- choosing ------------------------------------------------------------------------------------

    def _look_around(self, superstep: int, arrival: Callable[[list[int]], Any]) -> Iterator[tuple[int, Any]]:
        """See whether steps run elsewhere must arrive first, and which inputs need not be waited for."""
        while True:
            if self.soft and not self.hopeless_known:
                self._release_hopeless()
            due = self._due_from_abroad() if self.abroad else ()
            if not due:
                return
            yield superstep, arrival(due)
            self.apply_landed()

    def _remake(self) -> Generator[tuple[int, Any], None, bool]:
        """Run steps whose values were not kept; nobody who had them is stale. Return whether all is well."""
        for remade in self.remade:
            yield self.superstep, remade
            if self.run.failure is not None or self.run.pause is not None:
                return False
            for step, value in self.run.landed:
                results = (value,) if step.output is not None else value or ()
                pairs = zip(step.outputs, results, strict=False)
                self.values.update((name, result) for name, result in pairs if result is not ABSENT)
            self.run.landed.clear()
            self.superstep += 1
        return True

    def _goes_on(
        self, superstep: int, arrival: Callable[[list[int]], Any]
    ) -> Generator[tuple[int, Any], None, bool]:
        """Find what a run at rest need not wait for any longer; return whether there was anything."""
        if self.abroad and (due := self._due_from_abroad(idle=True)):
            yield superstep, arrival(due)
            self.apply_landed()
            return True
        if self._release_first_soft():
            return True
        return (not self.replayed and self._take_answers_as_inputs()) or self._resound()

    def _land_replayed(self, batch: list[int]) -> list[int]:
        """Let what was finished before land again; return what is left to do in this superstep."""
        replayed, self.replayed = self.replayed, {}
        for index, value in replayed.items():
            self.stale[index] = False
            self.runs[index] += 1
            self.seen[index] = {name: self.versions.get(name, 0) for name in self.steps[index].wait_for}
            self.run.landed.append((self.steps[index], value))
        return [index for index in batch if index not in replayed]

    def _hold_back(self, ready: list[int]) -> list[int]:
        held: set[int] = set()
        for index in ready:
            step = self.steps[index]
            held.update(step.target_index.values())  # S7
            held.update(step.waiters)  # S8
        batch = [index for index in ready if index not in held]
        again = [index for index in batch if self.steps[index].controllers and self._has_had_its_turn(index)]
        if again:  # S7
            others = {index for index, superstep in self.abroad.items() if superstep == self.superstep}
            others.update(ready)
            others.difference_update(again)
            batch = [index for index in batch if index not in again or self._is_still_named(index, others)]
        if not batch and self.superstep >= self.until:
            batch = ready[:1]  # S8a
        asking = [index for index in batch if self.steps[index].kind == "interrupt"]
        if asking:
            batch = asking[:1]  # S9
        self.agenda.update(index for index in ready if index not in batch)
        return batch

    def _has_had_its_turn(self, index: int) -> bool:
        return self.runs[index] != self.armed[index]

    def _is_still_named(self, index: int, others: set[int]) -> bool:
        """Say whether some gate that lets this step run is not about to decide again, because of others."""
        upstream = self.run.admission.plan.upstream
        return any(others.isdisjoint(upstream(gate, index)) for gate in self._openers(index))

    # -- applying ------------------------------------------------------------------------------------

    def apply_landed(self) -> None:
        """Put what the steps of this superstep returned into the state."""
        landed = self.run.landed
        landed.sort(key=lambda pair: pair[0].index)  # S12: steps that ran together land in any order
        before = [(self.named[step.index], self._aliased(step, value)) for step, value in landed]
        for (step, value), (named, aliased) in zip(landed, before, strict=True):
            self._apply(step, value, named, aliased)
        landed.clear()

    def _apply(self, step: Step, value: Any, named: int, aliased: set[str] | None) -> None:
        if step.is_gate:
            self._decide(step, value)
        elif step.output is not None:
            self._write(step, 0, value, named, aliased)
        else:
            for position, result in enumerate(value or ()):
                self._write(step, position, result, named, aliased)
        if step.awaited:
            for name in step.awaited:
                self.versions[name] = self.versions.get(name, 0) + 1
        if step.waiters:
            self.agenda.update(self.scope.intersection(step.waiters))

    def _write(self, step: Step, position: int, value: Any, named: int, aliased: set[str] | None) -> None:
        if value is ABSENT:
            self.hopeless_known = False  # whoever hoped for it need not wait any longer
            return
        name, consumers = step.writes[position]
        if self.needs and (step.index, name) in self.lacking:
            self._deliver(step.index, name)
        version = self.versions.get(name, 0)
        if version and not named and not self._has_changed(step, name, value, aliased):
            for index in consumers:
                if self.echoes.get(index) != PASSED_ON:
                    self.echoes[index] = self.runs[index]
            return
        self.values[name] = value
        self.versions[name] = version + 1
        stale, agenda, decisions, live = self.stale, self.agenda, self.decisions, self.live
        for index in consumers:
            if index in live:
                stale[index] = True
                agenda.add(index)
                if index in decisions:
                    self._withdraw(index)  # S10

    def _has_changed(self, step: Step, name: str, value: Any, aliased: set[str] | None) -> bool:
        """S2 and S3; what ran by a decision (S6) is not asked."""
        if name not in self.values or differs(self.values[name], value):  # another node may only emit it
            return True
        return self._is_aliased(step, value) if aliased is None else name in aliased

    def _is_aliased(self, step: Step, value: Any) -> bool:
        """S3: say whether an output is one of the inputs, changed in place perhaps."""
        values = self.values
        return any(values.get(name) is value for name in step.node.inputs) and not is_immutable(value)

    def versions_after(self, step: Step, value: Any) -> dict[str, int]:
        """Return the versions that the outputs of a step get when this lands."""
        results = (value,) if step.output is not None else () if step.is_gate else value or ()
        after = {}
        is_remade = self.superstep < self.remade_until
        for name, result in zip(step.outputs, results, strict=False):
            if result is not ABSENT:
                version = self.versions.get(name, 0)
                rises = not version or self.named[step.index] or self._has_changed(step, name, result, None)
                after[name] = version + 1 if rises and not is_remade else version
        return after

    def _aliased(self, step: Step, value: Any) -> set[str]:
        results = (value,) if step.output is not None else () if step.is_gate else value or ()
        pairs = zip(step.outputs, results, strict=False)
        return {name for name, result in pairs if self._is_aliased(step, result)}

    def _decide(self, step: Step, decision: Any) -> None:
        gate = step.index
        if self.echoes:
            self.echoes.clear()
        if gate in self.unasked:
            self.unasked.discard(gate)
            for target in step.default_targets:
                self.opened[target] -= 1
        if gate in self.decisions:
            self._withdraw(gate)
        if type(decision) is str:
            targets: tuple[int, ...] = (step.target_index[decision],)
        else:
            chosen = decision if isinstance(decision, list) else () if decision is None else (decision,)
            if END in chosen:  # S10
                self.live.discard(gate)
                self.stale[gate] = False  # whatever changed in this very superstep
            targets = tuple(step.target_index[name] for name in chosen if name is not END)
        self.decisions[gate] = targets
        for target in targets:
            self.opened[target] += 1
            self.named[target] += 1
            self.armed[target] = self.runs[target]
            if target in self.live:
                self.stale[target] = True  # S6
                self.agenda.add(target)
        if self.stale[gate]:
            self._withdraw(gate)  # S10: its inputs changed while it decided
        self.hopeless_known = False
