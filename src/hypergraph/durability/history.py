"""Stored history of a workflow as a resume needs it."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import lru_cache, partial
from typing import Any

from hypergraph.checkpointers.base import Checkpointer
from hypergraph.checkpointers.encoding import LazyState
from hypergraph.checkpointers.history import edits_of
from hypergraph.checkpointers.records import Payload, StepRecord, Turn, Workflow, turns_of
from hypergraph.checkpointers.status import StepStatus, WorkflowStatus
from hypergraph.durability.code_hashes import is_recorded
from hypergraph.durability.sameness import holds_other
from hypergraph.engine.admission import Admission
from hypergraph.engine.lists import Lists
from hypergraph.engine.plan import ABSENT, Plan, Step, answer_names
from hypergraph.engine.run import Run, StepOutcome
from hypergraph.engine.scheduler import differs, write
from hypergraph.exceptions import warn_caller
from hypergraph.graph.graph import Graph
from hypergraph.graph.inputs import scope_of
from hypergraph.nodes.base import HyperNode
from hypergraph.nodes.function import FunctionNode
from hypergraph.nodes.graph_node import GraphNode
from hypergraph.nodes.interrupt import InterruptNode
from hypergraph.nodes.receive import ReceiveNode
from hypergraph.records import PauseInfo
from hypergraph.scheduling import Done, Past, Standing, Supersteps, bits
from hypergraph.structure import walk
from hypergraph.values.serializers import JsonSerializer
from hypergraph.values.undecodable import Undecodable

LookUp = Callable[[Step, str], Any]
_Row = tuple[int, Step, str | None, Any]  # of a step: its superstep, the node, its child, what it decided


@lru_cache(maxsize=256)
def _replayed(decision: str | tuple[str, ...] | None) -> StepOutcome:
    """Return what is known of a step that ran before; a long loop decides the same again and again."""
    outcome = StepOutcome()
    outcome.replayed = True
    outcome.decision = list(decision) if isinstance(decision, tuple) else decision
    return outcome


class Recalled(StepOutcome):
    """The record of a nested graph that ran before; its run is read on demand."""

    replayed = True

    def __init__(self, past: ResumeState, step: Step, child: str) -> None:
        self._found = partial(past.look_up, step, child) if past.look_up is not None else None

    @property
    def inner(self) -> Any:
        """The run, or map, as it is stored; None if it is not there any more."""
        if self._found is not None:
            self.__dict__["_inner"], self._found = self._found(), None
        return self.__dict__.get("_inner")


@dataclass(slots=True)
class Withheld:
    """What a step has made whose siblings in the same superstep have not ended: they run without it."""

    step: Step
    results: dict[str, Any]  # what it made, by name
    versions: Mapping[str, int]  # of what it made
    superstep: int
    siblings: int  # that have not ended, as a mask

    @property
    def value(self) -> Any:
        """What it made, as a call returns it."""
        found = [self.results.get(name, ABSENT) for name in self.step.outputs]
        return found[0] if self.step.output is not None else tuple(found)


@dataclass(slots=True)
class ResumeState:
    """Where a run stands that began earlier."""

    first: int = 0  # the superstep with which its turn began
    last: int = -1  # the last superstep that has a record, or was under way when a turn gave it up
    entry: int = 0  # the superstep before which values enter that are given now
    again: frozenset[int] = frozenset()  # the steps that run again from there on, because of changed code
    shift: int = 0  # by how much supersteps are later than they would be without the failures so far
    next_index: int = 0
    levels: Supersteps = field(default_factory=Supersteps)  # by step: the last superstep it has started in
    withheld: dict[int, Withheld] = field(default_factory=dict)  # by step: what lands with its siblings
    versions: dict[str, int] = field(default_factory=dict)  # how often each name was written
    visits: dict[int, int] = field(default_factory=dict)  # how often each step has completed,
    is_whole: bool = True  # of all steps that have ever run; else of those that were read
    remade: list[Step] = field(default_factory=list)  # what runs first, because values it made were not kept
    kept: dict[int, dict[str, Any]] = field(default_factory=dict)  # by step of `remade`: what stays as it was
    lost: dict[str, str] = field(default_factory=dict)  # node -> why values it made are not there
    unreadable: dict[str, Undecodable] = field(default_factory=dict)  # results that nothing makes again
    reopened: set[int] = field(default_factory=set)  # nested graphs of which only changed nodes run again
    waiting: dict[str, StepRecord] = field(default_factory=dict)  # open questions, by node
    displaced: int = 0  # those of them that come later now, because new nodes lead to them
    given_up: int = 0  # nodes of which a turn that begins now gives up what has not ended
    load_rows: Callable[[], list[_Row]] = list  # finds what need not run again, maybe in the store
    stored: Stored | None = None  # the history that it continues, without what is given now
    look_up: LookUp | None = None  # how to find the run of a child
    begins: dict[str, int] = field(default_factory=dict)  # by list: from which superstep on it is stored
    continuing: int = 0  # nodes that began in an earlier call and have not ended
    redacted: list[str] = field(default_factory=list)  # inputs of which a step gets what a redaction left
    unlisted: set[str] = field(default_factory=set)  # lists of which nothing is stored that could be extended
    _rows: list[_Row] | None = None
    _raw: list[Any] | None = None

    def round_of(self, step: Step, superstep: int) -> int | None:
        """Return the superstep of a step had nothing failed, None if it only makes values again."""
        is_remade = step in self.remade and superstep <= self.last + len(self.remade)
        return None if is_remade else superstep - self.shift

    def released(self, run: Run, ended: Iterable[int]) -> list[tuple[Step, Any]]:
        """Return what need not be withheld any more once these steps have ended."""
        found, gone = [], sum(1 << index for index in ended)
        for index, kept in list(self.withheld.items()):
            kept.siblings &= ~gone
            if not kept.siblings:
                del self.withheld[index]
                found.append((kept.step, kept.value))
                run.lists.begin(index, kept.superstep)
                if run.journal is not None:
                    run.journal.versions.update(kept.versions)
        return found

    @property
    def rows(self) -> list[_Row]:
        """What need not run again, read on demand."""
        if self._rows is None:
            self._rows = self.load_rows()
        return self._rows

    def raw_records(self) -> list[Any]:
        """Return what need not run again, in the form in which a run records what it does."""
        if self._raw is not None:
            return self._raw
        raw: list[Any] = []
        for superstep, step, child, decision in self.rows:
            known = tuple(decision) if isinstance(decision, list) else decision
            outcome = _replayed(known) if child is None else Recalled(self, step, child)
            raw += (superstep, step, 0.0, outcome)
        self._raw = raw
        return raw

    def remade_done(self, run: Run, step: Step) -> None:
        """Put what was made again into the state; the scheduler knows of it already."""
        for done, value in run.landed:
            write(done, value, run.values, run.lists)
        run.values.update(self.kept[step.index])
        run.landed.clear()


def completed(plan: Plan, records: Iterable[StepRecord]) -> list[tuple[Step, StepRecord]]:
    """Return completed steps of nodes that still exist; the others are history, not state."""
    return [
        (plan.steps[plan.index[record.node_name]], record)
        for record in records
        if record.status is StepStatus.COMPLETED and record.node_name in plan.index
    ]


EARLIER: Any = object()  # the source of a value that was made before the records begin


class Replay:
    """The history of a workflow, run through the scheduler turn by turn: no step is called.

    `sources` says of each name whose value is there: the record of a step, or None for an input.
    """

    def __init__(self, admission: Admission, stored: Stored) -> None:
        self.admission = admission
        self.plan = admission.plan
        self.stored = stored
        self.given: set[str] = set()
        self.sources: dict[str, StepRecord | None] = {}
        self.writes: dict[str, list[StepRecord | None]] = {}
        self.versions: dict[str, int] = {}
        self.visits: dict[int, int] = {}
        self.past = Past(Standing(admission.layout))
        self.latest: dict[int, StepRecord] = {}  # by step: its last record
        self.first = 0  # the superstep with which the turn began
        self.given_up = 0  # what values have reached that the last turn has replaced
        self.remembered: tuple[str, ...] = ()  # what is there without having been given
        waiting = (self.plan.index.get(record.node_name) for record in stored.waiting)
        self.asked = sum(1 << index for index in waiting if index is not None)
        if stored.summary is not None:
            self._restore(stored.summary)
        elif stored.unseen:
            new = (self.plan.index[name] for name in stored.unseen if name in self.plan.index)
            is_over = stored.workflow.status is WorkflowStatus.COMPLETED
            self.standing.hush(sum(1 << index for index in new), is_over=is_over)

    @property
    def standing(self) -> Standing:
        """Where the run stands."""
        return self.past.standing

    @property
    def levels(self) -> Supersteps:
        """The last superstep of each step."""
        return self.past.supersteps

    def run(self, turns: Sequence[Turn], *, every: bool = False) -> Standing:
        """Run through the turns that matter, or every one, and return where the last one stands."""
        if self.stored.summary is not None:
            self._continue(turns)
        else:
            self._follow(turns, every=every)
        self._reopen()
        return self.standing

    def _reopen(self) -> None:
        """Take back the answers to questions that changed code has asked again: they are open."""
        again = bits(self.asked & self.standing.ran & ~self.standing.ahead()) if self.asked else []
        if again:
            names = {self.plan.steps[index].name for index in again}
            at = max(record.superstep for record in self.stored.waiting if record.node_name in names)
            self.begin(Turn(at, frozenset()), self.standing.layout.reached_from((), again))

    def _follow(self, turns: Sequence[Turn], *, every: bool) -> None:
        starts = [turn.superstep for turn in turns]
        found: list[list[tuple[Step, StepRecord]]] = [[] for _ in turns]
        for step, record in completed(self.plan, self.stored.records):
            found[bisect_right(starts, record.superstep) - 1].append((step, record))
        whole = 0 if every else self._last_whole(turns)
        if self.stored.first:
            whole = starts.index(self.stored.first)
            self._recall_earlier(turns[whole:], found[whole:])
        for number, turn in enumerate(turns):
            if number < whole:
                self._pass_over(turn, found[number])
                continue
            self.begin(turn, None if number > whole else self.admission.layout.scope)
            steps = [done for step, record in found[number] if (done := self._noted(step, record))]
            self.past.follow(steps, self.first, self.asked)

    def _continue(self, turns: Sequence[Turn]) -> None:
        """Run through what came after the summary: the rest of its turn, and later turns."""
        starts = [-1, *(turn.superstep for turn in turns)]
        found: list[list[tuple[Step, StepRecord]]] = [[] for _ in starts]
        for step, record in completed(self.plan, self.stored.tail):
            found[bisect_right(starts, record.superstep) - 1].append((step, record))
        for turn, records in zip((None, *turns), found, strict=True):
            if turn is not None:
                self.begin(turn)
            steps = [done for step, record in records if (done := self._noted(step, record))]
            self.past.follow(steps, self.first, self.asked)

    def to_data(self) -> dict[str, Any] | None:
        """Return it as plain data to continue from; None while a superstep, or a question, is unfinished."""
        standing = self.standing
        if standing.running | standing.asking | standing.pending or self.past.withheld:
            return None
        return {
            "given": sorted(self.given),
            "remembered": sorted(self.remembered),
            "first": self.first,
            "standing": standing.to_data(),
            "levels": self.levels.to_data(),
            "versions": self.versions,
            "visits": [[index, visit] for index, visit in self.visits.items()],
            "sources": {name: _place(record) for name, record in self.sources.items()},
            "writes": {name: _last_places(writes) for name, writes in self.writes.items()},
        }

    def _restore(self, data: Mapping[str, Any]) -> None:
        """Continue where `to_data` was called; the records have all that it names."""
        known = {(record.superstep, record.node_name): record for record in self.stored.records}

        def record_at(place: Any) -> StepRecord | None:
            return None if place is None else EARLIER if place == 0 else known[place[0], place[1]]

        self.given, self.remembered = set(data["given"]), tuple(data["remembered"])
        self.first = data["first"]
        layout = self.admission.layout_for(self.given, self.remembered)
        self.past = Past(Standing.from_data(layout, data["standing"]))
        self.past.supersteps = Supersteps.from_data(data["levels"])
        self.versions, self.visits = dict(data["versions"]), dict(data["visits"])
        self.sources = {name: record_at(place) for name, place in data["sources"].items()}
        self.writes = {
            name: [record_at(place) for place in places] for name, places in data["writes"].items()
        }

    def _recall_earlier(
        self, turns: Sequence[Turn], found: Sequence[Sequence[tuple[Step, StepRecord]]]
    ) -> None:
        """Note which values there were before the records begin, and how often they had been written.

        Each of the turns writes what it is given once more. What a record took tells more than what it wrote:
        a value that equals the one before does not count as written again where a loop has no gate.
        """
        there: dict[str, int] = {}
        given: Counter[str] = Counter()  # before the first record that has taken or written it
        for turn, records in zip(turns, found, strict=True):
            given.update(name for name in turn.names if name not in there)
            for _, record in records:
                for name, version in record.input_versions.items():
                    there.setdefault(name, version)
                for name, version in record.output_versions.items():
                    there.setdefault(name, version - 1)
        for name in there.keys() - self.stored.versions.keys():  # inputs
            self.versions[name] = there[name] - given[name]
        for name, version in self.stored.versions.items():
            before = self.versions[name] = there.get(name, version) - given[name]
            if before:  # a value that was given since is newer than what a step has made
                self._write(name, None if self.stored.given.get(name, 0) >= before else EARLIER)

    def _last_whole(self, turns: Sequence[Turn]) -> int:
        """Return the last turn that began everything anew: what was before matters by its values only."""
        layout = self.admission.layout
        for number in range(len(turns) - 1, 0, -1):
            again = indexes_in(self.admission, turns[number])
            if layout.reached_from(self.news_in(turns[number]), again) == layout.scope:
                return number
        return 0

    def _pass_over(self, turn: Turn, records: Iterable[tuple[Step, StepRecord]]) -> None:
        """Note what a turn was given and wrote, and no more."""
        self.given |= turn.names
        for name in turn.names if not self.stored.first else ():
            self._write(name, None)
            self.versions[name] = self.versions.get(name, 0) + 1
        for step, record in records:
            for name, version in record.output_versions.items():
                self._write(name, record)
                self.versions[name] = max(version, self.versions.get(name, 0))
            self.levels[step.index] = record.round
            self.visits[step.index] = record.visit
            self.standing.quiet.pop(step.index, None)

    def news_in(self, turn: Turn) -> frozenset[str]:
        """Return the values of a turn that begin something anew.

        What a fork is given for a name that was made inside a loop is not among them: it replaces the value,
        and the round continues.
        """
        return turn.names - self._replaced(turn)

    def begun_at(self) -> int:
        """Return the superstep of the last turn that began something anew."""
        known = 0 if self.stored.summary is None else int(self.stored.summary["begun"])
        begun = (turn.superstep for turn in self.stored.turns if self.news_in(turn) or turn.again)
        return max([known, *begun])

    def _replaced(self, turn: Turn) -> frozenset[str]:
        return replaced_in(turn, self.stored, self.admission)

    def _replace(self, name: str, replaced: frozenset[str], *, is_new: bool) -> None:
        """Put another value in place of what a step of a loop has made last: its consumers take that.

        A step that is next, failed or not begun, counts as done with what is given in place of all it makes.
        A value that is not used is warned about when it is new.
        """
        written = [w.node_name for w in self.writes.get(name, []) if w is not None and w is not EARLIER]
        maker = _maker_of(name, self.admission, written)
        self.given_up |= self.past.retract(maker.index, name)
        if replaced.issuperset(maker.outputs) and self.standing.is_next(maker.index):
            self.standing.start(maker.index)
            self.levels[maker.index] = max(self.first - 1, self.levels.get(maker.index, 0))
        elif is_new and self.standing.is_led_to(maker.index):
            warn_caller(
                f"The value given for {name!r} is not used: node {maker.name!r} makes it again first. "
                "Fork from a superstep after it."
            )
        self.standing.finish(maker.index, [other for other in maker.outputs if other != name])
        self.standing.events.clear()

    def begin(self, turn: Turn, reached: int | None = None) -> None:
        """Begin a turn with news, or with steps that must run again."""
        self.first, self.given_up = turn.superstep, 0
        replaced = self._replaced(turn)
        again = indexes_in(self.admission, turn)
        if replaced and not (reached or again or turn.names - replaced):
            for name in sorted(replaced):
                self._replace(name, replaced, is_new=reached is not None)
                self._write(name, None)
                self.versions[name] = self.versions.get(name, 0) + 1
            for index, superstep in self.levels.items():  # what runs now runs after the edit
                self.levels[index] = max(superstep, turn.superstep - 1)
            return
        self.given |= turn.names
        if reached is None:
            reached = self.standing.layout.reached_from(turn.names, again)
        self._forget(reached, turn.names)
        kept = (name for name in self.plan.accumulated if name in self.sources and name not in self.given)
        self.remembered = tuple(kept)
        layout = self.admission.layout_for(self.given, self.remembered)
        self.past.turn(layout, reached)
        for name in turn.names:
            self._write(name, None)
            self.versions[name] = self.versions.get(name, 0) + 1

    def _forget(self, reached: int, fresh: Collection[str]) -> None:
        """Take away what steps made that begin anew, but for what is remembered.

        An answer is not, even one that was given in place of another: the question is asked anew.
        """
        answers: Collection[str] = answer_names(self.admission.graph)
        if answers:
            asking = (self.plan.steps[index] for index in bits(reached))
            made = {name for step in asking for name in step.outputs}
            answers = made.intersection(answers).difference(fresh)
            self.given -= answers
        remembered = (self.plan.accumulated | self.given) - self.plan.shared
        for name in [name for name in self.writes if name not in remembered]:
            left = [w for w in self.writes[name] if w is not EARLIER and not self._is_reached(w, reached)]
            if name in answers:
                left = [write for write in left if write is not None]
            if left:
                self.writes[name], self.sources[name] = left, left[-1]
            else:
                del self.writes[name]
                self.sources.pop(name, None)

    def _is_reached(self, record: StepRecord | None, reached: int) -> bool:
        return record is not None and bool(reached >> self.plan.index[record.node_name] & 1)

    def withhold(self, record: StepRecord) -> None:
        """Take back what a step has written: its siblings run without it."""
        for name in record.output_versions:
            self.versions[name] -= 1
            if name in self.plan.lists:
                continue  # the list is there, and what the step has added is taken out of it
            self.writes[name].remove(record)
            if self.writes[name]:
                self.sources[name] = self.writes[name][-1]
            else:
                del self.sources[name]

    def _write(self, name: str, record: StepRecord | None) -> None:
        self.sources[name] = record
        self.writes.setdefault(name, []).append(record)

    def _noted(self, step: Step, record: StepRecord) -> Done | None:
        """Note what a step has written; return it as the scheduler sees it.

        None is returned for a step that made again what had not been kept.
        """
        made = record.output_versions
        known = all(version <= self.versions.get(name, 0) for name, version in made.items())
        if known and record.visit <= self.visits.get(step.index, 0):
            for name in made:
                self._write(name, record)
            return None
        equal = tuple(name for name, version in made.items() if version <= self.versions.get(name, 0))
        for name, version in made.items():
            self._write(name, record)
            self.versions[name] = max(version, self.versions.get(name, 0))
        self.visits[step.index], self.latest[step.index] = record.visit, record
        if step.is_gate:
            decided = record.decision
            names = decided if isinstance(decided, list) else () if decided is None else (decided,)
            chosen = tuple(step.target_index[name] for name in names if name in step.target_index)
            return Done(step.index, record.superstep, chosen, "END" in names, round=record.round)
        absent = tuple(name for name in step.outputs if name not in made)
        return Done(step.index, record.superstep, absent=absent, equal=equal, round=record.round)


def indexes_in(admission: Admission, turn: Turn) -> list[int]:
    """Return the nodes that a turn ran again because of changed code, those that are still there."""
    return [admission.plan.index[name] for name in turn.again if name in admission.plan.index]


def continued_in(admission: Admission, news: Collection[str], again: Sequence[int]) -> set[int]:
    """Return the nested graphs whose own run continues: their code has changed, and not what they take."""
    steps, reached_from = admission.plan.steps, admission.layout.reached_from
    return {
        index
        for index in again
        if steps[index].kind == "graph"
        and steps[index].node.durability == "nested"
        and not reached_from(news, [other for other in again if other != index]) >> index & 1
    }


def replaced_in(turn: Turn, stored: Stored, admission: Admission) -> frozenset[str]:
    """Return the values of a turn that a fork was given in place of what steps of a loop had made."""
    if turn.superstep not in stored.edited_at:
        return frozenset()
    return turn.names & made_in_loops(admission)


def reached_by_edit(turn: Turn, stored: Stored, admission: Admission) -> int:
    """Return what the values have reached that a fork was given others for, as a mask."""
    index = admission.plan.index
    before = [r for r in stored.records if r.superstep < turn.superstep and r.node_name in index]
    levels = {index[record.node_name]: record.superstep for record in before}
    reached = 0
    for name in replaced_in(turn, stored, admission):
        maker = _maker_of(name, admission, [r.node_name for r in before if name in r.output_versions])
        reached |= admission.layout.reached_since(maker.index, name, levels)
    return reached


def _maker_of(name: str, admission: Admission, written: Sequence[str]) -> Step:
    """Return the step of a loop that has made a value last; `written` are the nodes that made it."""
    makers = [s for s in admission.plan.steps if name in s.outputs and admission.layout.home[s.index]]
    return next((s for s in makers if s.name in written[-1:]), makers[0])


def made_in_loops(admission: Admission) -> set[str]:
    """Return the names that steps of loops make."""
    home = admission.layout.home
    return {name for step in admission.plan.steps if home[step.index] for name in step.outputs}


def _place(record: StepRecord | None) -> Any:
    """Return the record of a value as plain data: None for an input, 0 for what is older than the records."""
    if record is None:
        return None
    return 0 if record is EARLIER else [record.superstep, record.node_name]


def _last_places(writes: Iterable[StepRecord | None]) -> list[Any]:
    """Return the places of writes, of those of one node the last."""
    last: dict[Any, Any] = {}
    for record in writes:
        place = _place(record)
        node = place[1] if isinstance(place, list) else place
        last.pop(node, None)
        last[node] = place
    return list(last.values())


def active_time(workflow: Workflow, parts: Iterable[StepRecord | Workflow], before: float = 0.0) -> float:
    """Return for how many milliseconds a workflow has worked; `parts` are its steps, or items if a map.

    `before` is for how long those did that are not among them.
    """
    known = workflow.duration_ms or 0.0
    return max(known, before + covered(parts)) if workflow.status is WorkflowStatus.ACTIVE else known


def left_inside(store: Checkpointer, workflow: Workflow) -> Iterator[StepRecord | Workflow]:
    """Yield what ran inside of a workflow whose process died: no step of the workflow has its time yet.

    Nothing is read of other workflows. What a fork has copied did not run.
    """
    if workflow.status is not WorkflowStatus.ACTIVE:
        return
    for child in store.backend.children(workflow.id):
        if child.status is not WorkflowStatus.ACTIVE and child.forked_from is None:
            yield child
        elif len(child.id) > len(workflow.id):  # the id of a child begins with its parent's; no circle does
            yield from store.steps(child.id, values=False)
            yield from left_inside(store, child)


def covered(parts: Iterable[StepRecord | Workflow]) -> float:
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


PLAIN = frozenset((int, float, bool, str, bytes, type(None)))  # values that every serializer stores
_FIRST_TURN = Turn()
_as_stored = JsonSerializer().serialize


@dataclass(slots=True)
class Stored:
    """What the store has of one workflow."""

    workflow: Workflow
    records: list[StepRecord]
    inputs: dict[str, tuple[int, Any]]
    turns: list[Turn] = field(default_factory=lambda: [_FIRST_TURN])  # when inputs entered, and which
    state: LazyState = field(default_factory=LazyState)  # the latest value of every output
    is_map: bool = False  # it has items instead of steps
    first: int = 0  # the superstep from which on there are records
    fence: int | None = None  # of the newest claim when it was read; None if that was held
    versions: Mapping[str, int] = field(default_factory=dict)  # the latest version of every output
    edited_at: frozenset[int] = frozenset()  # supersteps before which a fork was given values
    redacted: Mapping[str, Payload] = field(default_factory=dict)  # inputs in whose place something is stored
    is_redacted: Callable[[Payload, Any], bool] | None = None  # whether one of them is this value
    unseen: Collection[str] = ()  # nodes that are new, and make what finished ones have taken without them
    # Of earlier steps: `records` has those that still matter, and all later ones; `turns` has the later ones.
    summary: Mapping[str, Any] | None = None
    is_same_code: bool = False  # whether it was recorded with the code of the graph that it is read for

    @property
    def is_whole(self) -> bool:
        """Whether nothing that ever ran is left out of account."""
        return not self.first if self.summary is None else bool(self.summary["whole"])

    @property
    def tail(self) -> list[StepRecord]:
        """The records that a summary does not cover."""
        if self.summary is None:
            return self.records
        last = self.summary["last"]
        return [record for record in self.records if record.superstep > last]

    @property
    def given(self) -> dict[str, int]:
        """The versions of the inputs."""
        return {name: version for name, (version, _) in self.inputs.items()}

    def active_time(self, inside: Iterable[StepRecord | Workflow] = ()) -> float:
        """Return for how many milliseconds it has worked before; `inside` is what ran in nested runs."""
        before = 0.0 if self.summary is None else float(self.summary["worked"])
        return active_time(self.workflow, [*self.tail, *inside], before)

    @property
    def finished(self) -> set[str]:
        """The nodes that have results; those that changed code runs again have the ones since then."""
        return {record.node_name for record in self._done() if not record.lost}

    @property
    def completed(self) -> set[str]:
        """The nodes that have results, whether or not these are stored."""
        return {record.node_name for record in self._done()}

    def _done(self) -> Iterator[StepRecord]:
        done, begun = StepStatus.COMPLETED, self.rerun_at
        for record in self.records:
            if record.status is done and record.superstep >= begun.get(record.node_name, 0):
                yield record

    @property
    def rerun_at(self) -> dict[str, int]:
        """The superstep at which each node that changed code ran again was begun anew."""
        return {name: turn.superstep for turn in self.turns for name in turn.again}

    @property
    def outputs(self) -> set[str]:
        """The names that recorded steps produced, but for those asked for right now: these are answers."""
        return produced(self.records) | (set() if self.is_whole else self.versions.keys() - self.asked)

    @property
    def questions(self) -> list[StepRecord]:
        """The steps that wait for an answer."""
        return self.waiting if self.workflow.status is WorkflowStatus.PAUSED else []

    @property
    def waiting(self) -> list[StepRecord]:
        """The steps that wait for an answer, or will once the workflow is run again."""
        latest = {record.node_name: record for record in self.records}
        return [record for record in latest.values() if record.status is StepStatus.PAUSED]

    @property
    def asked(self) -> set[str]:
        """The names of the answers to them."""
        pauses = [record.pause for record in self.waiting if record.pause is not None]
        return {key for pause in pauses for key in pause.response_keys.values()}

    def recorded(self) -> Stored:
        """Return the steps and turns as they are stored now; what changes here does not change there."""
        return replace(self, records=list(self.records), inputs={})

    def take(self, news: Mapping[str, tuple[int, Any]]) -> None:
        """Let new values take the place of stored inputs."""
        self.inputs |= news
        self.redacted = {name: kept for name, kept in self.redacted.items() if name not in news}

    def is_hidden(self, name: str, value: Any) -> bool:
        """Say whether a value is the input in whose place the store has what a redaction left."""
        payload = self.redacted.get(name)
        return payload is not None and self.is_redacted is not None and self.is_redacted(payload, value)

    def has_remade(self, name: str, value: Any) -> bool:
        """Say whether steps have made another value of an input since it was given."""
        return name in self.inputs and name in self.state and is_other(self.state[name], value)

    def news(
        self,
        given: Mapping[str, Any],
        edits: Collection[str] = (),
        again: Collection[str] = (),
        surely: Collection[str] = (),
    ) -> dict[str, int]:
        """Return which of the given values are new or changed, with the version they get.

        An input as it was given last is not new, nor is an edit of what it is now. Those in `again` count as
        new in any case, those in `surely` and edits unless they are known to be what is stored. Others that
        cannot be compared are taken to be what they were.
        """
        news = {}
        for name, value in given.items():
            version, before = self.inputs.get(name, (0, None))
            as_stored = version > 0 and self._is_kept(
                name, before, value, is_sure=name in surely or name in edits
            )
            as_now = name in edits and name in self.state and not is_other(self.state[name], value)
            if name in again or not (as_stored or as_now):
                news[name] = _next_version(self, name)
        return news

    def _is_kept(self, name: str, before: Any, value: Any, *, is_sure: bool) -> bool:
        """Say whether an input is given as it is stored; what cannot be compared is, unless `is_sure`."""
        if self.is_hidden(name, value):
            return True
        if not is_other(before, value):
            return True
        if not isinstance(before, Undecodable) or before.is_form_of(value) is not None:
            return False
        return before.may_be(value) or not is_sure


def stored_in(
    store: Checkpointer, workflow_id: str, graph: Graph | None = None, *, summaries: bool = True
) -> Stored | None:
    """Return what is stored under an id, None if nothing is, as of one moment.

    With a graph, steps are read that a resume of this graph needs; without summaries, from the last turn on
    that began everything anew.
    """
    edited = edits_of(store, workflow_id) if graph is None or graph.has_cycles else frozenset()
    since = None if graph is None else partial(_since, graph, edited)
    found = store.read_history(workflow_id, since, summaries=summaries and graph is not None)
    if found is None:
        return None
    facts = found._asdict()
    after = -1 if found.summary is None else found.summary["last"]
    again = [(r.rerun_at, r.node_name) for r in found.steps if r.rerun_at is not None and r.rerun_at > after]
    if again:
        given = [(turn.superstep, name) for turn in found.turns for name in turn.names]
        facts["turns"] = turns_of(given, after, again)
    is_same = graph is not None and is_recorded(graph, found.workflow)
    return Stored(
        records=facts.pop("steps"),
        edited_at=edited,
        is_redacted=store.encoding.is_redacted,
        is_same_code=is_same,
        **facts,
    )


def inputs_in(store: Checkpointer, workflow: Workflow, given: Mapping[str, Any] | None = None) -> Stored:
    """Return what a workflow was given, to compare it with what is `given` now.

    What is given as it is stored is not decoded, here and for the rest of the call.
    """
    found = {payload.name: payload for payload in store.backend.read_inputs(workflow.id)}
    for name, value in (given or {}).items():
        if name in found and type(value) not in PLAIN:
            store.encoding.recognise(workflow.id, found[name], value)
    inputs = store.encoding.versioned(workflow.id, found.values())
    redacted = store.encoding.redacted(found.values())
    return Stored(workflow, [], inputs, redacted=redacted, is_redacted=store.encoding.is_redacted)


def _since(graph: Graph, edited: Collection[int], turns: Sequence[Turn]) -> int:
    """Return the superstep of the last turn that began everything anew: earlier steps do not matter."""
    wiring = graph.wiring
    scope = set(scope_of(wiring, graph.entrypoints_config, None))
    for turn in reversed([turn for turn in turns[1:] if turn.superstep not in edited]):
        takers = [node for name in turn.names for node in wiring.consumers.get(name, ()) if node in scope]
        if scope.issubset(walk(takers, wiring.ways)):
            return turn.superstep
    return 0


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
    """Return the records; a node that makes more by now has lost what it did not make then.

    What it has made since, without running anew, counts as made then.
    """
    records = list(stored.records)
    declared_later = {} if stored.is_same_code else lacking(graph, stored.workflow)
    last = {r.node_name: n for n, r in enumerate(records) if r.status is StepStatus.COMPLETED}
    for name, position in last.items():
        record, node = records[position], graph.wiring.nodes.get(name)
        if isinstance(node, FunctionNode) and not record.partial:
            unmade = set(node.data_outputs).difference(record.output_versions)
        else:
            unmade = set(declared_later.get(name, ())).difference(record.output_versions)
        if unmade:
            records[position] = _lost_later(record, {n: _next_version(stored, n) for n in unmade})
    for position, record in enumerate(records):
        later = records[last.get(record.node_name, position)]
        if later is record or later.visit != record.visit or record.status is not StepStatus.COMPLETED:
            continue
        made, then = later.output_versions, record.output_versions
        if len(made) > len(then) and then.items() <= made.items():  # it has made more, without running anew
            more = {name: version for name, version in made.items() if name not in then}
            records[position] = _lost_later(record, more)
    return records


MADE_LATER = "its node did not make it then"  # why a value is not there


def _lost_later(record: StepRecord, more: Mapping[str, int]) -> StepRecord:
    """Return the record of a node that makes more by now, under these versions."""
    lost = dict.fromkeys(more, MADE_LATER)
    made = {**record.output_versions, **more}
    return replace(record, output_versions=made, lost={**record.lost, **lost})


def lacking(graph: Graph, workflow: Workflow) -> dict[str, list[str]]:
    """Return the outputs of nested graphs that kept results cannot have, because they were declared later.

    Others may be missing as well: a nested graph makes what its gates choose.
    """
    recorded = workflow.graph or {}
    before = {node["name"]: node["outputs"] for node in recorded.get("nodes", ())}
    known = recorded.get("lacking")
    found: dict[str, list[str]] = {}
    for node in graph.iter_nodes():
        if isinstance(node, GraphNode) and node.name in before:
            still = known.get(node.name, ()) if isinstance(known, dict) else ()
            later = [n for n in node.data_outputs if n not in before[node.name] or n in still]
            found |= {node.name: later} if later else {}
    return found


def unseen_nodes(graph: Graph, stored: Stored) -> dict[str, list[str]]:
    """Return the new nodes that make what finished nodes have taken without them, each with those nodes.

    So are new gates that choose finished nodes. A node that a recorded gate chooses is none of them: a
    decision made now leads to it.
    """
    before, wiring = stored.workflow.node_hashes, graph.wiring
    new = [name for name in wiring.nodes if name not in before] if before else []
    if not new:
        return {}
    gates = [gate for name, gate in wiring.gates.items() if name in before]
    chosen = {target for gate in gates for target in gate.target_names}
    given = stored.inputs.keys() - produced(stored.records)
    last = {r.node_name: r for r in stored.records if r.status is StepStatus.COMPLETED}

    def ran_with(taker: str, name: str) -> bool:
        """Say whether a node ran after a new one, and took what that had made."""
        ran, before = last.get(taker), last.get(name)
        if ran is None or before is None or before.superstep >= ran.superstep:
            return False
        return not ran.input_versions.keys().isdisjoint(before.output_versions)

    found: dict[str, list[str]] = {}
    for taker in (name for name in wiring.nodes if name in stored.finished):
        taken = [name for name in wiring.nodes[taker].inputs if name not in given]
        feeders = {feeder for name in taken for feeder in wiring.feeders(taker, name)}
        feeders |= {name for name, gate in wiring.gates.items() if taker in gate.target_names}
        for name in new:
            if name in feeders and name not in chosen and name != taker and not ran_with(taker, name):
                found.setdefault(name, []).append(taker)
    pending = list(found)
    while pending:  # a new gate that chooses one of them is as new as that: it decides for the first time
        name = pending.pop()
        for gate in (g for g in new if g in wiring.gates and g not in found):
            if name in wiring.gates[gate].target_names:
                found[gate] = found[name]
                pending.append(gate)
    return found


def _next_version(stored: Stored, name: str) -> int:
    written = [r.output_versions[name] for r in stored.records if name in r.output_versions]
    return max([stored.inputs.get(name, (0, None))[0], stored.versions.get(name, 0), *written]) + 1


def is_other(stored: Any, given: Any) -> bool:
    """Say whether a given value is another than the stored one.

    What was read is never the same object; where `==` does not tell, as for NaN, arrays and tables, the
    stored form does. So does it for a value that cannot be read; what cannot be compared is another.
    """
    if stored is given:
        return False
    if isinstance(stored, Undecodable):
        # Code that has read a value may give it back as it is.
        return not (isinstance(given, Undecodable) or stored.is_form_of(given))
    if not differs(stored, given):
        return _holds_other(stored, given)
    try:
        return _as_stored(stored) != _as_stored(given)
    except Exception:  # it has no such form
        return True


def _holds_other(stored: Any, given: Any) -> bool:
    try:
        return holds_other(stored, given)
    except Exception:  # a container or time zone of the user's own may do anything; a list may hold itself
        return False


def incomparable(inputs: Mapping[str, tuple[int, Any]], given: Mapping[str, Any]) -> dict[str, Undecodable]:
    """Return the stored inputs that cannot be read, nor be compared with what is given for them.

    Those that could not be stored at all are not among them: a warning said so.
    """
    known = {name: inputs[name][1] for name in given if name in inputs}
    return {
        name: value
        for name, value in known.items()
        if isinstance(value, Undecodable)
        and not value.is_unstorable
        and value.is_form_of(given[name]) is None
    }


def unlike_unstored(inputs: Mapping[str, tuple[int, Any]], given: Mapping[str, Any]) -> list[str]:
    """Return the names of inputs that could not be stored and are surely given other values now."""
    known = {name: inputs[name][1] for name in given if name in inputs}
    return [
        name
        for name, value in known.items()
        if isinstance(value, Undecodable) and value.is_replaced_by(given[name])
    ]


def asks_no_more(graph: Graph, asked: StepRecord) -> bool:
    """Say whether a node that asked is gone, cannot ask any more, or asks for something else."""
    node = graph.wiring.nodes.get(asked.node_name)
    return not isinstance(node, (InterruptNode, GraphNode)) or asks_for_others(node, asked)


def asks_for_others(node: HyperNode, asked: StepRecord) -> bool:
    """Say whether its node asks in another way today: for other names, or a signal in place of a person."""
    if asked.pause is None or not isinstance(node, InterruptNode):
        return False
    signal = node.signal if isinstance(node, ReceiveNode) else None
    if (asked.pause.reason, asked.pause.signal) != (node.reason, signal):
        return True
    return not asked.pause.response_keys.keys() >= set(node.data_outputs)


def way_of_asking(node: HyperNode, keys: Sequence[str]) -> str:
    """Return what a node that once asked does now, given the keys of its answers."""
    if isinstance(node, ReceiveNode):
        return f"receives the signal {node.signal!r}"
    if not isinstance(node, (InterruptNode, GraphNode)):
        return "does not ask"
    is_timer = isinstance(node, InterruptNode) and node.reason == "timer"
    return "waits for a time" if is_timer else f"asks for {', '.join(keys)}"


def shows_others(pause: PauseInfo, names: Sequence[str]) -> bool:
    """Say whether a question showed values of other names than its node takes today."""
    return pause.reason == "interrupt" and {*(pause.values or names[:1])} != {*names}


def is_about_others(
    asked: StepRecord, now: Mapping[str, Any], versions: Mapping[str, int], lists: Lists, *, redacts: bool
) -> bool:
    """Say whether a question that was asked is about other values now, which it did not show.

    A list is the same if nothing was added but by steps beside the question. Of values that are not stored as
    they were, only the versions are compared.
    """
    if asked.pause is None or asked.pause.reason != "interrupt":
        return False
    if shows_others(asked.pause, list(now)):
        return True
    before = asked.pause.values or dict.fromkeys(now, asked.pause.value)
    if redacts or any(isinstance(value, Undecodable) for value in before.values()):
        return any(versions.get(name, 0) > version for name, version in asked.input_versions.items())
    return any(
        is_other(before[name], _shown(before[name], now[name], lists.rests_since(name, asked.round)))
        for name in now
    )


def _shown(before: Any, now: Any, rests: bool) -> Any:
    """Return of a list to which only steps beside the question have added what it could show."""
    return now[: len(before)] if rests and isinstance(now, list) and isinstance(before, list) else now


def produced(records: Sequence[StepRecord]) -> set[str]:
    """Return the names that steps produced, but for those asked for right now: these are answers."""
    names = {name for record in records for name in record.output_versions}
    latest = {record.node_name: record for record in records}.values()  # an older pause was overtaken
    return names.difference(
        *(r.pause.response_keys.values() for r in latest if r.pause is not None and not r.durable)
    )
