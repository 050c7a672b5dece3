"""What the stored steps of a workflow say about where a run stands.

Only completed steps count. The steps of the last superstep, if it was not finished, are replayed: they land
once more beside those that are still to run, so that nobody sees a sibling's output too early. A superstep in
which something failed is not finished either; what runs of it later has another number, and says of which
superstep it is a retry. Everything before is folded into values, versions, visits and decisions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from hypergraph.checkpointers.types import StepRecord, StepStatus
from hypergraph.engine.endings import Detail
from hypergraph.engine.readiness import PASSED_ON
from hypergraph.nodes.gate import END
from hypergraph.plan.outcomes import ABSENT
from hypergraph.plan.steps import Plan, Step
from hypergraph.records import Decision

if TYPE_CHECKING:
    from hypergraph.durability.stored import Stored

LookUp = Callable[[Step, str], Any]
OwnValues = Callable[[StepRecord], Mapping[str, Any]]


@lru_cache(maxsize=256)
def _replayed(decision: str | tuple[str, ...] | None) -> Detail:
    """Return what is known of a step that ran before; a long loop decides the same again and again."""
    detail = Detail()
    detail.replayed = True
    detail.decision = list(decision) if isinstance(decision, tuple) else decision
    return detail


class Recalled(Detail):
    """What is known of a nested graph that ran before; its run is looked up when somebody asks for it."""

    replayed = True

    def __init__(self, past: Past, step: Step, child: str) -> None:
        self._found = partial(past.look_up, step, child) if past.look_up is not None else None

    @property
    def inner(self) -> Any:
        """The run, or map, as it is stored; None if it is not there any more."""
        if self._found is not None:
            self.__dict__["_inner"], self._found = self._found(), None
        return self.__dict__.get("_inner")


@dataclass(slots=True)
class Visit:
    """The last completed execution of a step, and how many there have been."""

    runs: int
    order: int
    inputs: Mapping[str, int]
    waits: dict[str, int]


@dataclass(slots=True)
class Past:
    """Where a run stands that began earlier."""

    superstep: int = 0  # the number of the superstep that goes on
    round: int = 0  # the superstep that it goes on with: another one if something failed in it
    is_closed: bool = False  # whether there is none to go on with, so that a new one begins
    next_index: int = 0
    turn: int = 0  # the superstep before which inputs came in for the last time
    news: frozenset[str] = frozenset()  # the names of those inputs
    in_turn: set[int] = field(default_factory=set)  # what has run since then
    given: dict[str, int] = field(default_factory=dict)
    versions: dict[str, int] = field(default_factory=dict)
    written: dict[tuple[int, str], int] = field(default_factory=dict)
    visits: dict[int, Visit] = field(default_factory=dict)
    decisions: dict[int, tuple[Any, int]] = field(default_factory=dict)
    replayed: dict[int, Any] = field(default_factory=dict)
    lost: dict[str, int] = field(default_factory=dict)  # names without a value, and the step that made them
    outdated: frozenset[int] = frozenset()  # steps that must run again because their code has changed
    waiting: dict[tuple[int, str], int] = field(default_factory=dict)  # pauses: superstep and node -> index
    rows: list[tuple[int, Step, str | None, Any]] = field(
        default_factory=list
    )  # what need not run again, its child, and what it decided
    look_up: LookUp | None = None  # how to find the run of a child
    echoes: dict[int, int] = field(default_factory=dict)  # who was given an equal value, after so many visits
    folded: int = -1  # the superstep being folded,
    before: dict[str, int] = field(default_factory=dict)  # the versions at its start,
    equal: list[int] = field(default_factory=list)  # and who is given an equal value in it

    @property
    def is_turn(self) -> bool:
        """Whether it goes on with other inputs than it once began with."""
        return self.turn > 0

    def raw_records(self) -> list[Any]:
        """Return what need not run again, in the form in which a run records what it does."""
        raw: list[Any] = []
        for superstep, step, child, decision in self.rows:
            known = tuple(decision) if isinstance(decision, list) else decision
            detail = _replayed(known) if child is None else Recalled(self, step, child)
            raw += (superstep, step, 0.0, detail)
        return raw

    def fold(self, step: Step, record: StepRecord, turn: int) -> None:
        """Take over what a completed step left behind; an end is one of its own turn only."""
        if record.round != self.folded:
            self.settle()
            self.folded, self.before = record.round, dict(self.versions)
        index = step.index
        if record.superstep >= turn:
            self.in_turn.add(index)
        self._visit(index, record)
        for name, version in record.output_versions.items():
            if version > self.before.get(name, 0):
                self.written[index, name] = version
                self.versions[name] = max(version, self.versions.get(name, 0))
            else:  # it made what was there already
                self.written.setdefault((index, name), 0)
                self.equal += next(consumers for written, consumers in step.writes if written == name)
            self.lost.pop(name, None)
        for name in record.lost:
            self.lost[name] = index
        for name in step.awaited:
            self.versions[name] = self.versions.get(name, 0) + 1
        if step.is_gate:
            self.decisions[index] = (record.decision, record.index)
            self.echoes.clear()
            self.equal.clear()

    def _visit(self, index: int, record: StepRecord) -> None:
        last = self.visits.get(index)
        runs = last.runs if last is not None else 0
        if last is not None and self.echoes.get(index) == runs and last.inputs == record.input_versions:
            self.echoes[index] = PASSED_ON
        self.visits[index] = Visit(runs + 1, record.index, record.input_versions, dict(record.wait_versions))

    def settle(self) -> None:
        """Close the superstep being folded: all visits in it are counted now."""
        for index in self.equal:
            if self.echoes.get(index) != PASSED_ON:
                self.echoes[index] = self.visits[index].runs if index in self.visits else 0
        self.equal.clear()


def _failures(plan: Plan, records: Sequence[StepRecord]) -> list[StepRecord]:
    """Return the steps that failed and have not run since."""
    latest = {record.node_name: record for record in records if record.node_name in plan.index}
    return [record for record in latest.values() if record.status is StepStatus.FAILED]


def _open_round(plan: Plan, records: Sequence[StepRecord], failed: Sequence[StepRecord]) -> int:
    """Return the superstep that is to be finished: where something failed, or else the last one.

    A step that no round concerns may fail while the rounds go on: it is made up for, they are not.
    """
    free = plan.unconcerned()
    concerned = [record.round for record in failed if plan.index[record.node_name] not in free]
    return min([max(record.round for record in records), *concerned])


def read_past(plan: Plan, stored: Stored, *, closed: bool) -> Past:
    """Read the history of a workflow; with `closed` nothing of it is left to do."""
    records, given = stored.records, stored.given
    past = Past(given=given, versions=dict(given))
    if not records:
        return past
    last, failed = max(record.superstep for record in records), _failures(plan, records)
    past.round = _open_round(plan, records, failed)
    # What has a row of its own and must run again gets another one, in a superstep of its own.
    unfinished = [r for r in records if r.round >= past.round]
    turn, past.news = stored.turn
    past.turn = turn
    past.is_closed = closed or turn > last or any(record.lost for record in unfinished)
    past.superstep = last + 1 if past.is_closed or failed else last
    past.next_index = max(record.index for record in records) + 1
    past.waiting = {(r.superstep, r.node_name): r.index for r in records if r.status is StepStatus.PAUSED}
    for step, record in _completed(plan, records):
        if past.is_closed or record.round < past.round:
            past.fold(step, record, turn)
        past.rows.append((record.superstep, step, record.child_workflow_id, record.decision))
    past.settle()
    for record in records:  # what was read shows how often siblings wrote a name
        for name, version in record.input_versions.items():
            past.versions[name] = max(version, past.versions.get(name, 0))
    return past


def replay(
    past: Past, plan: Plan, records: Sequence[StepRecord], latest: Mapping[str, Any], own: OwnValues
) -> None:
    """Let the finished steps of an unfinished superstep count as done.

    `latest` holds their values; of names that several of them wrote, `own` tells what each one wrote.
    """
    found = [(s, r) for s, r in _completed(plan, records) if r.round >= past.round]
    writers = Counter(name for _, record in found for name in record.output_versions)
    for step, record in found:
        if not record.lost:
            is_sole = all(writers[name] == 1 for name in record.output_versions)
            past.replayed[step.index] = landed_value(step, record, latest if is_sole else own(record))


def _completed(plan: Plan, records: Iterable[StepRecord]) -> Iterable[tuple[Step, StepRecord]]:
    """Yield completed steps of nodes that still exist; the others are history, not state."""
    for record in records:
        if record.status is StepStatus.COMPLETED and record.node_name in plan.index:
            yield plan.steps[plan.index[record.node_name]], record


def landed_value(step: Step, record: StepRecord, values: Mapping[str, Any]) -> Any:
    """Return what the step once returned, in the form in which it landed."""
    if step.is_gate:
        return _decision(record.decision)
    found = tuple(values[n] if n in record.output_versions and n in values else ABSENT for n in step.outputs)
    return found[0] if step.output is not None else found


def _decision(stored: Any) -> Any:
    if isinstance(stored, list):
        return Decision(END if name == "END" else name for name in stored)  # type: ignore[misc]  # END may be among them
    return END if stored == "END" else stored
