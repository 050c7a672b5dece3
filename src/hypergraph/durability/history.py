"""Stored history of a workflow as a resume needs it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import lru_cache, partial
from typing import Any

from hypergraph.checkpointers.base import Checkpointer
from hypergraph.checkpointers.encoding import LazyState
from hypergraph.checkpointers.records import StepRecord, Turn, Workflow
from hypergraph.checkpointers.status import StepStatus, WorkflowStatus
from hypergraph.engine.plan import ABSENT, Plan, Step
from hypergraph.engine.run import StepOutcome
from hypergraph.engine.scheduler import PASSED_ON, differs
from hypergraph.graph.graph import Graph
from hypergraph.nodes.function import FunctionNode
from hypergraph.nodes.gate import END
from hypergraph.records import Decision
from hypergraph.values.serializers import JsonSerializer
from hypergraph.values.undecodable import Undecodable

LookUp = Callable[[Step, str], Any]
OwnValues = Callable[[StepRecord], Mapping[str, Any]]


@lru_cache(maxsize=256)
def _replayed(decision: str | tuple[str, ...] | None) -> StepOutcome:
    """Return what is known of a step that ran before; a long loop decides the same again and again."""
    detail = StepOutcome()
    detail.replayed = True
    detail.decision = list(decision) if isinstance(decision, tuple) else decision
    return detail


class Recalled(StepOutcome):
    """The record of a nested graph that ran before; its run is read on demand."""

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


def active_time(workflow: Workflow, parts: Iterable[StepRecord | Workflow]) -> float:
    """Return for how many milliseconds a workflow has worked; `parts` are its steps, or items if a map."""
    known = workflow.duration_ms or 0.0
    return max(known, _covered(parts)) if workflow.status is WorkflowStatus.ACTIVE else known


def _covered(parts: Iterable[StepRecord | Workflow]) -> float:
    """Return for how many milliseconds at least one of the parts ran; what a fork has copied did not run."""
    spans = sorted(
        (part.completed_at - timedelta(milliseconds=part.duration_ms), part.completed_at)
        for part in parts
        if part.completed_at is not None and part.duration_ms and not getattr(part, "replayed", False)
    )
    covered = timedelta()
    until = spans[0][0] if spans else None
    for start, end in spans:
        covered += max(end - max(start, until or start), timedelta())
        until = max(end, until or end)
    return covered / timedelta(milliseconds=1)


_FIRST_TURN = Turn()
_as_stored = JsonSerializer().serialize


@dataclass(slots=True)
class Stored:
    """What the store has of one workflow."""

    workflow: Workflow
    records: list[StepRecord]
    inputs: dict[str, tuple[int, Any]]
    turn: Turn = _FIRST_TURN  # when inputs entered for the last time
    state: LazyState = field(default_factory=LazyState)  # the latest value of every output
    is_map: bool = False  # it has items instead of steps
    claims: int = 0  # the fence of the newest claim when it was read

    def is_current(self, fence: int) -> bool:
        """Return whether nothing can have been written between the reading and the claim of this fence."""
        return self.workflow.status is not WorkflowStatus.ACTIVE and fence == self.claims + 1

    @property
    def given(self) -> dict[str, int]:
        """The versions of the inputs."""
        return {name: version for name, (version, _) in self.inputs.items()}

    @property
    def active_time(self) -> float:
        """The milliseconds that it has worked before."""
        return active_time(self.workflow, self.records)

    def standing(self, past: Past) -> dict[str, Any]:
        """Return the inputs that no step has replaced by a later version."""
        latest = past.versions
        return {
            name: value
            for name, (version, value) in self.inputs.items()
            if latest[name] == version and not isinstance(value, Undecodable)
        }

    @property
    def finished(self) -> set[str]:
        """The nodes that have results."""
        return {record.node_name for record in self.records if record.durable}

    @property
    def outputs(self) -> set[str]:
        """The names that recorded steps produced."""
        return produced(self.records)

    @property
    def question(self) -> StepRecord | None:
        """The step that waits for an answer, if one does."""
        waiting = [record for record in self.records if record.status is StepStatus.PAUSED]
        return waiting[-1] if waiting and self.workflow.status is WorkflowStatus.PAUSED else None

    @property
    def asked(self) -> set[str]:
        """The names of the answers to that question."""
        pause = None if self.question is None else self.question.pause
        return set() if pause is None else set(pause.response_keys.values())

    def echoes(self, given: Mapping[str, Any]) -> dict[str, tuple[int, Any]]:
        """Return which of the given values are what the state holds already, with their versions.

        They are no news, but inputs: who gives them again gives nothing new, whatever became of the state.
        """
        versions: dict[str, int] = {}
        for record in self.records:
            versions.update(record.output_versions)
        return {
            name: (max(versions[name], self.inputs.get(name, (0, None))[0]), value)
            for name, value in given.items()
            if name in self.state and name in versions and not is_other(self.state[name], value)
        }

    def news(self, given: Mapping[str, Any], again: Iterable[str] = ()) -> dict[str, int]:
        """Return which of the given values are new or changed, with the version they get.

        Neither the input as it was stored nor the value as it is now counts as new, and what could not be
        stored is taken to be what it was. Those in `again` count as new in any case.
        """
        news = {}
        for name, value in given.items():
            version, before = self.inputs.get(name, (0, None))
            as_stored = version > 0 and (isinstance(before, Undecodable) or not is_other(before, value))
            as_now = name in self.state and not is_other(self.state[name], value)
            if name in again or not (as_stored or as_now):
                news[name] = _next_version(self, name)
        return news


def stored_in(store: Checkpointer, workflow_id: str) -> Stored | None:
    """Return what is stored under an id, None if nothing is, as of one moment."""
    found = store.read_history(workflow_id)
    return None if found is None else Stored(*found)


def marked(records: list[StepRecord], state: Mapping[str, Any]) -> list[StepRecord]:
    """Return the records; the last step that made a value which cannot be read has lost it."""
    unreadable = {name: value.reason for name, value in state.items() if isinstance(value, Undecodable)}
    marked = list(records)
    for position in reversed(range(len(records))):
        record = records[position]
        if record.status is StepStatus.COMPLETED:
            lost = {name: unreadable.pop(name) for name in record.output_versions if name in unreadable}
            marked[position] = replace(record, lost={**record.lost, **lost}) if lost else record
    return marked


def grown(stored: Stored, graph: Graph) -> list[StepRecord]:
    """Return the records; a function that makes more by now has lost what it did not make then."""
    records = list(stored.records)
    last = {r.node_name: n for n, r in enumerate(records) if r.status is StepStatus.COMPLETED}
    for name, position in last.items():
        record, node = records[position], graph.wiring.nodes.get(name)
        if not isinstance(node, FunctionNode) or record.partial:
            continue
        unmade = set(node.data_outputs).difference(record.output_versions)
        if unmade:
            made = {n: _next_version(stored, n) for n in unmade}
            lost = dict.fromkeys(unmade, "its node did not make it then")
            records[position] = replace(
                record, output_versions={**record.output_versions, **made}, lost={**record.lost, **lost}
            )
    return records


def _next_version(stored: Stored, name: str) -> int:
    written = [r.output_versions[name] for r in stored.records if name in r.output_versions]
    return max([stored.inputs.get(name, (0, None))[0], *written]) + 1


def is_other(stored: Any, given: Any) -> bool:
    """Say whether a given value is another than the stored one.

    What was read is never the same object; where `==` does not tell, as for NaN, arrays and tables, the
    stored form does.
    """
    if not differs(stored, given):
        return False
    try:
        return _as_stored(stored) != _as_stored(given)
    except Exception:  # it has no such form
        return True


def produced(records: Sequence[StepRecord]) -> set[str]:
    """Return the names that steps produced, but for those asked for right now: these are answers."""
    names = {name for record in records for name in record.output_versions}
    latest = {record.node_name: record for record in records}.values()  # an older pause was overtaken
    return names.difference(
        *(r.pause.response_keys.values() for r in latest if r.pause is not None and not r.durable)
    )
