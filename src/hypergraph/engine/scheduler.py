"""The course of a run: the scheduler's verdicts, remembered from one decision to the next."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, time
from typing import Any

from hypergraph.engine.lists import Lists
from hypergraph.engine.plan import ABSENT, Step, is_immutable
from hypergraph.nodes.gate import END
from hypergraph.scheduling import Layout, Standing

CLOCKS = (datetime, time)
TRUTH = ("bool", "bool_")  # numpy calls its truth value bool_ or, since version 2, bool


def differs(old: Any, new: Any) -> bool:
    """Say whether a new value counts as different from the old one.

    Where comparison fails or gives no truth value, and for values unlike themselves, identity decides. Times
    that are equal for Python and differ in their `fold` are different moments.
    """
    if new is old:
        return False
    try:
        unequal = old != new
        if type(unequal).__name__ not in TRUTH or unequal:
            return True
        return isinstance(new, CLOCKS) and isinstance(old, CLOCKS) and is_other_moment(old, new)
    except Exception:  # an __eq__ of the user's own may do anything
        return True


def is_other_moment(old: datetime | time, new: datetime | time) -> bool:
    """Say whether two equal times are different moments.

    Where clocks are put back, an hour comes twice, and Python compares the two by what the clock shows.
    """
    if old.tzinfo is not new.tzinfo:  # Python has compared the moments
        return False
    offsets = old.utcoffset(), new.utcoffset()
    return old.fold != new.fold if None in offsets else offsets[0] != offsets[1]


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


ASKED: Any = object()  # what a step lands with that waits for an answer
_KEPT = 4096  # stretches remembered per admission; more are a sign of a graph without a pattern
_ROUNDS = 100  # of a stretch: a loop whose gates have ended may go round without a decision, and is counted


class Stretch:
    """The supersteps from one decision to the next.

    Where a run stands, and what happens next, depends on decisions alone, so a loop comes by the same stretch
    in every round. `events` are rounds that begin (True) and loops that are entered (False) on the way.
    """

    __slots__ = ("_placed", "_placed_at", "after", "batch", "events", "length", "standing", "steps")

    def __init__(self, standing: Standing) -> None:
        self.standing = standing  # at its end, with its last superstep under way
        self.steps: tuple[tuple[int, Step], ...] = ()  # each with its superstep, counted from the first
        self.batch: tuple[Step, ...] = ()  # the steps of the last superstep, none if the run is over
        self.length = 0
        self.events: tuple[tuple[int, int, bool], ...] = ()  # superstep, loop, whether a round begins
        self.after: dict[Hashable, Stretch] = {}  # by what the last superstep came to
        self._placed: tuple[tuple[int, Step], ...] = ()
        self._placed_at = 0

    def at(self, superstep: int) -> tuple[tuple[int, Step], ...]:
        """Return the steps with their supersteps; a long stretch mostly begins where it began before."""
        if superstep == 0:
            return self.steps
        if superstep != self._placed_at:
            self._placed = tuple([(superstep + offset, step) for offset, step in self.steps])
            self._placed_at = superstep
        return self._placed


class Track:
    """All stretches that runs in one layout have come by."""

    def __init__(self, layout: Layout, steps: Sequence[Step]) -> None:
        self.layout = layout
        self.steps = steps
        self.known: dict[Hashable, Stretch] = {}
        self.start: Stretch | None = None

    def begin(self) -> Stretch:
        """Return the first stretch of a run that begins here."""
        if self.start is None:
            self.start = self.from_(Standing(self.layout))
        return self.start

    def from_(self, standing: Standing) -> Stretch:
        """Return the stretch from a standing, which it may change, and from what was just entered."""
        key = (standing.key(), *standing.events)
        found = self.known.get(key)
        if found is None:
            if len(self.known) >= _KEPT:
                self.known.clear()
            found = self.known[key] = self._explore(standing)
        return found

    def _explore(self, standing: Standing) -> Stretch:
        stretch, eventful = Stretch(standing), self.layout.eventful
        steps: list[tuple[int, Step]] = []
        events: list[tuple[int, int, bool]] = []
        superstep = 0
        while True:
            batch = standing.ready()
            events += ((superstep, loop, begins) for loop, begins in standing.events)
            standing.events.clear()
            mask = 0
            for index in batch:
                standing.start(index)
                mask |= 1 << index
                steps.append((superstep, self.steps[index]))
            if not batch or mask & eventful or len(events) >= _ROUNDS:
                break
            for index in batch:
                standing.finish(index)
            superstep += 1
        stretch.batch = tuple(self.steps[index] for index in batch)
        stretch.steps, stretch.events = tuple(steps), tuple(events)
        stretch.length = superstep + 1
        return stretch

    def next(
        self, stretch: Stretch, landed: list[tuple[Step, Any]], values: dict[str, Any], lists: Lists
    ) -> Stretch:
        """Return what follows, and put what has landed into the state."""
        if len(landed) == 1 and landed[0][0].is_gate and type(landed[0][1]) is str:
            outcome: Hashable = landed[0][1]  # the decision of a single gate, as it mostly is
        else:
            landed.sort(key=_by_index)
            outcome = tuple([_outcome(step, value, values, self.layout) for step, value in landed])
        found = stretch.after.get(outcome)
        if found is None:
            standing = stretch.standing.copy()
            missing = {step.index for step in stretch.batch}.difference(step.index for step, _ in landed)
            for step in stretch.batch:
                if step.index in missing:
                    standing.finish(step.index)
            for step, value in landed:
                settle(standing, step, value, values)
            found = stretch.after[outcome] = self.from_(standing)
        for step, value in landed:
            if not step.is_gate:
                write(step, value, values, lists)
        return found


def _by_index(pair: tuple[Step, Any]) -> int:
    return pair[0].index


def _outcome(step: Step, value: Any, values: Mapping[str, Any], layout: Layout) -> Hashable:
    """Return what matters to the scheduler of what a step returned."""
    if value is ASKED:
        return "<asked>"  # no identifier, so it cannot be the name of an output
    if step.is_gate:
        decided: Hashable = (*value, "") if isinstance(value, list) else value
        return decided
    made = results_of(step, value)
    return (*_absent(step, made), None, *equal_outputs(step, made, values, layout))


def settle(standing: Standing, step: Step, value: Any, values: Mapping[str, Any]) -> None:
    """Tell the scheduler what a step returned, before it is written."""
    if value is ASKED:
        standing.ask(step.index)
        return
    if step.is_gate:
        chosen = value if isinstance(value, list) else () if value is None else (value,)
        targets = [step.target_index[name] for name in chosen if name is not END]
        standing.decide(step.index, targets, END in chosen)
        standing.finish(step.index)
    else:
        made = results_of(step, value)
        equal = equal_outputs(step, made, values, standing.layout)
        standing.finish(step.index, _absent(step, made), equal)


def results_of(step: Step, value: Any) -> dict[str, Any]:
    """Return the outputs of a step that it made, with their values."""
    if step.output is not None:
        return {} if value is ABSENT else {step.output: value}
    if step.is_gate:
        return {}
    made = zip(step.outputs, value or (), strict=False)
    return {name: result for name, result in made if result is not ABSENT}


def write(step: Step, value: Any, values: dict[str, Any], lists: Lists) -> None:
    """Put what a step made into the state; a list grows in place, and belongs to the run."""
    if value is ASKED:
        return
    if not step.appends:
        values.update(results_of(step, value))
        return
    for name, result in results_of(step, value).items():
        if name in step.appends:
            lists.add(values, name, step.index, result)
        else:
            values[name] = result


def _absent(step: Step, made: Mapping[str, Any]) -> list[str]:
    return [name for name in step.outputs if name not in made]


def equal_outputs(
    step: Step, results: Mapping[str, Any], values: Mapping[str, Any], layout: Layout
) -> list[str]:
    """Return the results that lead back to where a loop begins without a gate, and are what they were.

    An output that is one of the inputs, and mutable, may have been changed in place.
    """
    watched = layout.returns[step.index]
    if not watched:
        return []
    return [
        name
        for name, result in results.items()
        if name in watched
        and name not in step.appends
        and name in values
        and not differs(values[name], result)
        and (is_immutable(result) or not any(values.get(n) is result for n in step.node.inputs))
    ]
