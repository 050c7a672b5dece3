"""What keeps the steps of a run from being ready: inputs on their way, gates still closed, nothing new.

Readiness is kept in counters that change when something happens to a step, so that nobody has to look at
the whole graph to find out what can run.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Protocol

from hypergraph.plan.admission import Admission
from hypergraph.plan.steps import Step

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
