"""Summaries of long histories: what a resume needs of the steps up to a superstep.

A resume runs the recorded steps through the scheduler to find out where the run stands. In a long loop, and
after many turns, that would take longer with every step. So now and then a run stores where that leads to:
the standing, and the places of the steps whose records still matter. A resume continues from there with the
steps that came later. A summary holds no values, and it is only a shortcut: without it all steps are read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Annotated, Any, Literal, TypedDict

import msgspec

from hypergraph.checkpointers.records import (
    EncodedStep,
    StepRecord,
    Turn,
    Workflow,
    fast_constructor,
    turns_of,
)
from hypergraph.checkpointers.status import StepStatus, WorkflowStatus
from hypergraph.durability.code_hashes import RULES
from hypergraph.durability.history import (
    EARLIER,
    Replay,
    ResumeState,
    Stored,
    continued_in,
    covered,
    grown,
    indexes_in,
    reached_by_edit,
    replaced_in,
)
from hypergraph.engine.admission import Admission
from hypergraph.engine.run import Run
from hypergraph.scheduling import Standing

EVERY = 256  # steps between two summaries of a run
_LEAST = 32  # steps for which a run that ends does
_WIDEST = 10_000  # bits of a number that JSON can hold
_new_record = fast_constructor(StepRecord, checks=False)


_Count = Annotated[int, msgspec.Meta(ge=0, lt=2**60)]
_Counts = list[tuple[_Count, _Count]]
_Place = tuple[int, str] | Literal[0] | None  # of a record, of what is older than the records, of an input


class _Facts(TypedDict):
    """A summary as it is stored."""

    rules: int
    shape: str
    last: _Count
    begun: _Count
    shift: _Count
    worked: Annotated[float, msgspec.Meta(ge=0, lt=1e15)]
    whole: bool
    places: list[tuple[_Count, str]]
    given: list[str]
    remembered: list[str]
    first: _Count
    standing: dict[str, Any]  # checked by `Standing.from_data`
    levels: tuple[_Counts, _Counts, _Counts, _Counts]
    versions: dict[str, _Count]
    visits: _Counts
    reached: _Counts
    sources: dict[str, _Place]
    writes: dict[str, list[_Place]]


def fits(stored: Stored, admission: Admission) -> bool:
    """Say whether a summary was made for this graph, by these rules of scheduling, and is not damaged."""
    try:
        found = msgspec.convert(stored.summary, _Facts)
        if found["rules"] != RULES or found["shape"] != admission.layout.shape:
            return False
        layout = admission.layout_for(found["given"], found["remembered"])
        Standing.from_data(layout, found["standing"])
    except (ValueError, TypeError, LookupError, ArithmeticError):  # a row may hold anything
        return False
    known = {(record.superstep, record.node_name) for record in stored.records}
    named = {*found["sources"].values(), *(place for each in found["writes"].values() for place in each)}
    by_node = (*found["levels"][::2], found["visits"], found["reached"])
    by_loop = found["levels"][1::2]
    return (
        all(place in known for place in named if place)
        and all(index < layout.size for pairs in by_node for index, _ in pairs)
        and all(index < len(layout.loops) for pairs in by_loop for index, _ in pairs)
        and found["begun"] <= found["last"] + 1
    )


def with_turn(stored: Stored, more: Turn) -> list[Turn]:
    """Return the turns with another one, as they are read later: what enters together is one turn."""
    turns = (*stored.turns, more)
    given = ((turn.superstep, name) for turn in turns for name in turn.names)
    again = ((turn.superstep, name) for turn in turns for name in turn.again)
    return turns_of(given, -1 if stored.summary is None else stored.summary["last"], again)


def reached_at(stored: Stored, admission: Admission) -> dict[int, int]:
    """Return the superstep of the last turn that reached each nested graph or question, but for the first.

    What such a graph had begun before is given up, what it has begun since continues. An answer from before
    does not count any more.
    """
    nodes = [step.index for step in admission.plan.steps if step.kind in ("graph", "interrupt")]
    return turns_of_nodes(stored, admission, nodes)


def turns_of_nodes(stored: Stored, admission: Admission, nodes: Collection[int]) -> dict[int, int]:
    """Return the superstep of the last turn that reached each of some nodes, but for the first turn.

    A summary covers nested graphs and questions alone.
    """
    found = {} if stored.summary is None else dict(stored.summary["reached"])
    for turn in stored.turns if nodes else ():
        is_anew = turn.again or turn.names != replaced_in(turn, stored, admission)
        again = indexes_in(admission, turn)
        reached = admission.layout.reached_from(turn.names, again) if is_anew else 0
        reached |= reached_by_edit(turn, stored, admission)
        reached &= ~sum(1 << index for index in continued_in(admission, turn.names, again))
        found |= {index: turn.superstep for index in nodes if turn.superstep and reached >> index & 1}
    return found


def shift_of(stored: Stored, begun: int) -> int:
    """Return by how much the steps of a turn are later than they would have been without failures."""
    is_same_turn = stored.summary is not None and stored.summary["begun"] == begun
    known = stored.summary["shift"] if stored.summary is not None and is_same_turn else 0
    retries = [r for r in stored.records if r.retry_of is not None and r.superstep >= begun]
    return max([known, *(r.superstep - r.round for r in retries)])


def _that_matter(records: Iterable[StepRecord], replay: Replay) -> list[StepRecord]:
    """Return the records that say as much as all of them of what nodes have done last, and made."""
    named = [record for writes in replay.writes.values() for record in writes[-1:]]
    named += replay.sources.values()
    last: dict[Any, StepRecord] = {
        ("value", record.index): record for record in named if record is not None and record is not EARLIER
    }
    for record in records:
        node = record.node_name
        last["last", node] = record
        if record.status is StepStatus.COMPLETED:
            last["completed", node] = record
            if not record.lost:
                last["durable", node] = record
            for name in record.output_versions:
                last["made", node, name] = record
        else:
            last[record.status] = record
        if "superstep" not in last or record.superstep >= last["superstep"].superstep:
            last["superstep"] = record
    return sorted({record.index: record for record in last.values()}.values(), key=lambda r: r.index)


def summaries_of(run: Run) -> SummaryWriter | None:
    """Return what summarizes the steps of a run, None for one whose history stays too short for that."""
    past: ResumeState | None = run.resumed
    if past is None:
        if not run.plan.has_cycles:
            return None
        turn = Turn(0, frozenset(run.begun))
        workflow = Workflow(run.workflow_id or run.run_id, WorkflowStatus.ACTIVE)
        return SummaryWriter(run.admission, Stored(workflow, [], {}, [turn]))
    stored = past.stored
    return None if stored is None or _stays_short(run, stored) else SummaryWriter(run.admission, stored)


def _stays_short(run: Run, stored: Stored) -> bool:
    """Say whether no summary is worth it, even if each node of the graph runs once more."""
    steps = len(stored.records) + len(run.plan.steps)
    return stored.summary is None and not run.plan.has_cycles and steps < min(_LEAST, EVERY)


class SummaryWriter:
    """The steps of a workflow since its last summary, and the next summary."""

    def __init__(self, admission: Admission, stored: Stored) -> None:
        self._admission = admission
        self._stored = stored  # without records: these are here
        self._records = {(record.superstep, record.node_name): record for record in stored.records}
        self._count = len(stored.tail)  # steps since the last summary
        self._due = EVERY
        self.is_due = self._count >= EVERY  # whether to write a summary, once nothing is under way
        self.last = max((record.superstep for record in stored.records), default=-1)

    @property
    def is_stored(self) -> bool:
        """Whether there is a summary already."""
        return self._stored.summary is not None

    def add(self, step: EncodedStep) -> None:
        """Note a step that is recorded; a pause is replaced by what it came to."""
        found, lost = step.record, [payload.name for payload in step.payloads if payload.data is None]
        record = _new_record(
            found.workflow_id,
            found.superstep,
            found.node_name,
            found.index,
            found.status,
            {},
            duration_ms=found.duration_ms,
            decision=found.decision,
            partial=found.partial,
            created_at=found.created_at,
            completed_at=found.completed_at,
            output_versions=found.output_versions,
            lost=dict.fromkeys(lost, "") if lost else {},
            visit=found.visit,
            retry_of=found.retry_of,
            rerun_at=found.rerun_at,
        )
        self._records[found.superstep, found.node_name] = record
        self._count += 1
        self.is_due = self._count >= self._due
        self.last = max(self.last, found.superstep)

    def discard(self, node: str, index: int) -> None:
        """Forget a step that was rolled back."""
        for place in [p for p, record in self._records.items() if p[1] == node and record.index == index]:
            del self._records[place]

    def take(self, turn: int, name: str) -> None:
        """Note an input that entered late with a turn that has begun."""
        self._stored.turns = with_turn(self._stored, Turn(turn, frozenset((name,))))

    @property
    def is_due_at_end(self) -> bool:
        """Whether to write a summary when the run ends."""
        return self._count >= _LEAST

    def summary(self) -> dict[str, Any] | None:
        """Return a summary of all steps so far, None where these do not end with a finished superstep."""
        records = sorted(self._records.values(), key=lambda record: record.index)
        stored = replace(self._stored, records=records)
        self._due, self.is_due = 2 * self._count + EVERY, False  # if it cannot be made now
        layout = self._admission.layout
        if max(layout.size, layout.slot_count) > _WIDEST:
            return None
        if stored.waiting or any(turn.superstep > self.last for turn in stored.turns):
            return None  # a question is completed in its place, and a turn without steps may be given more
        if grown(stored, self._admission.graph) != records:
            return None  # what a function makes by now, and did not make then, is read from its record
        replay = Replay(self._admission, stored)
        replay.run(stored.turns)
        data = replay.to_data()
        if data is None:
            return None
        begun, kept = replay.begun_at(), _that_matter(records, replay)
        before = 0.0 if stored.summary is None else float(stored.summary["worked"])
        data |= {
            "rules": RULES,
            "shape": self._admission.layout.shape,
            "last": self.last,
            "begun": begun,
            "shift": shift_of(stored, begun),
            "reached": [[index, at] for index, at in reached_at(stored, self._admission).items()],
            "worked": before + covered(stored.tail),
            "whole": stored.is_whole,
            "places": [[record.superstep, record.node_name] for record in kept],
        }
        self._records = {(record.superstep, record.node_name): record for record in kept}
        self._stored = replace(stored, records=[], turns=[], first=0, summary=data)
        self._count, self._due = 0, EVERY
        return data
