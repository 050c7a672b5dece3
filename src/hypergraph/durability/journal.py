"""Journal of a run: what it does, written as it happens."""

from __future__ import annotations

import os
import threading
import time
import traceback
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import cached_property, partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from uuid import UUID

from hypergraph import clock
from hypergraph.checkpointers import fault_points
from hypergraph.checkpointers.background import Writer
from hypergraph.checkpointers.base import Checkpointer
from hypergraph.checkpointers.deltas import Added, Grown, Growth
from hypergraph.checkpointers.inner_steps import by_step
from hypergraph.checkpointers.records import (
    NOTHING_ELSE,
    Commit,
    EncodedStep,
    Ownership,
    StepRecord,
    Usage,
    fast_constructor,
)
from hypergraph.checkpointers.status import StepStatus, WorkflowStatus
from hypergraph.durability.code_changes import RecordedCode, asked_schemas
from hypergraph.durability.history import ResumeState, is_about_others
from hypergraph.durability.inner_steps import InnerJournal
from hypergraph.durability.summaries import summaries_of, turns_of_nodes
from hypergraph.engine.inner_steps import added, usage_inside
from hypergraph.engine.kernel import NOT_KNOWN
from hypergraph.engine.lists import items_of
from hypergraph.engine.plan import ABSENT, Step, inputs_of
from hypergraph.engine.run import Run, StepOutcome
from hypergraph.engine.scheduler import equal_outputs, results_of
from hypergraph.exceptions import (
    AmbiguousStepError,
    CancellationError,
    CheckpointError,
    CrashLoopError,
    WorkerLostError,
    WorkflowError,
    safe_text,
    warn_caller,
)
from hypergraph.nodes.interrupt import InterruptNode
from hypergraph.nodes.options import Replace
from hypergraph.records import PauseInfo
from hypergraph.runs.build import decision_text
from hypergraph.values.undecodable import Undecodable

if TYPE_CHECKING:
    from hypergraph.durability.live import Live

_STRIKES = 3  # crashes of one node after which it is not called again
_STRIKES_BEFORE = 6  # the same before any node: a process that is killed takes along runs that had just begun
_OVER = frozenset((WorkflowStatus.COMPLETED, WorkflowStatus.STOPPED))  # endings that leave nothing half done


class Intents:
    """The announcements of one run, and those that an earlier owner left without a result."""

    def __init__(self, journal: Journal, claim: Ownership) -> None:
        self.journal = journal
        self.wary = claim.crashed or bool(claim.existing is not None and claim.existing.crashes)
        began = "it began without leaving a result"
        self.unresolved = {node: began for _, node in claim.running}  # and why
        past: ResumeState | None = journal.run.resumed
        for step in () if past is None else past.remade:
            reason = past.lost.get(step.name, "not stored") if past is not None else ""
            self.unresolved.setdefault(step.name, f"its result cannot be restored: {reason}")

    def announce(self, step: Step, superstep: int) -> None:
        """Say that a step is about to run; the nodes of a nested graph speak for themselves."""
        if not (step.kind == "graph" and step.node.durability == "nested"):
            self.journal.outbox.append({"at": superstep, "running": step.name})

    def result_of(self, step: Step, superstep: int) -> Any:
        """Return what an earlier call has returned, if that is known; else announce a new one."""
        run, store, claim = self.journal.run, self.journal.store, self.journal.claim
        if step.name in self.unresolved:
            resolve = step.node.on_ambiguous
            where, inputs = run.shown(step.name, inputs_of(step, run.values))
            if resolve == "fail":
                raise AmbiguousStepError(
                    f"Node {where!r} of workflow {claim.workflow_id!r} must not be repeated, and "
                    f"{self.unresolved[step.name]}. Find out what it did. If nothing happened, "
                    'run it again with @node(on_ambiguous="rerun"). Otherwise pass on_ambiguous=a_function '
                    "that returns its result.",
                    workflow_id=claim.workflow_id,
                    node_name=where,
                )
            if callable(resolve):
                known = resolve(where, run.idempotency_key(step.name), inputs)
                if known is not NotImplemented:
                    return known
        store.backend.write(Commit(claim, at=superstep, running=step.name, full=True))
        self.unresolved.pop(step.name, None)
        return NOT_KNOWN


def refuse_crash_loop(claim: Ownership, store: Checkpointer) -> None:
    """Raise CrashLoopError for a workflow in which one node has taken its process along too often.

    A crash that no node announced happened inside of a nested graph, if there is one: that counts its own.
    """
    crashes = claim.existing.crashes if claim.existing is not None else {}
    for node, count in crashes.items():
        limit = _STRIKES if node else _STRIKES_BEFORE
        if count >= limit and (node or not store.backend.children(claim.workflow_id)):
            where = f"at node {node}" if node else "before any of its nodes"
            raise CrashLoopError(
                f"Workflow {claim.workflow_id!r} is in a crash loop {where}: its process died "
                f"there {count} times. Fix what kills the process, then resume with force=True.",
                workflow_id=claim.workflow_id,
                node_name=node,
            )


_new_record = fast_constructor(StepRecord, checks=False)
_fill = object.__setattr__  # of a record that is being made
_new_commit: Callable[[tuple[Any, ...]], Commit] = partial(tuple.__new__, Commit)  # in half the time
_clock = time.perf_counter
_EARLY = 0.005  # seconds for which a finished step may wait for others, to be committed together
_LOOKS = 100  # for finished steps, before the thread that writes late waits to be called
_IDLE = 10.0  # seconds without work after which the thread that writes late ends
_NEVER = float("inf")
_NOT_KEPT = "persist=False"
_NO_WAIT = 0.001  # seconds; less is the time that passes between two lines
_CODES = ("code", "status_code", "errno")  # attributes that are not in the dictionary of every error
_DEEP, _LARGE = 4, 4000  # levels and characters of the attributes of an error that are kept
_NOTHING: Any = (object(), None)
_IMMUTABLE = frozenset((int, float, complex, bool, str, bytes, type(None), date, datetime, Decimal, UUID))
_Versions = tuple[dict[str, int], dict[str, int], dict[str, int]]  # of inputs, outputs, awaited names


class Journal:
    """The history of one run, while it is being written."""

    def __init__(
        self,
        store: Checkpointer,
        claim: Ownership,
        run: Run,
        writer: Writer | None,
        *,
        active_time: float = 0.0,
        tolerate: Callable[..., bool] | None = None,
        is_detached: bool = False,
        code: RecordedCode | None = None,
    ) -> None:
        self.store = store
        self.claim = claim
        self.tolerate = tolerate  # whether the run continues after an error of the store, which it reports
        self.is_detached = is_detached  # the store cannot be written: nothing is recorded
        self.run = run
        self.code = code  # of a workflow that was recorded with other code than that of today
        self.active_time = active_time  # milliseconds that the workflow has worked before
        self.next_index = 0 if run.resumed is None else run.resumed.next_index
        self.turn = 0 if run.resumed is None else run.resumed.first  # the superstep in which it began
        self.remade: set[int] = set()  # what was made again, after which it runs as usual
        self.visits: dict[int, int] = {} if run.resumed is None else dict(run.resumed.visits)
        self.versions = (
            dict.fromkeys(run.begun, 1) if run.resumed is None else dict(run.resumed.versions)
        )  # how often each name was written
        self.written: dict[
            str, tuple[int, int]
        ] = {}  # by name: the last superstep that did, and how often before
        self.waiting: dict[str, StepRecord] = {} if run.resumed is None else run.resumed.waiting
        # Of the questions that were open when the run began: one that is asked again may keep its place.
        self.asked_since = [asked.superstep for asked in self.waiting.values()]
        self.numbers: dict[int, int] | None = {} if run.context.kernel.concurrent else None
        self.intents = Intents(self, claim)
        # After a crash nothing is written behind: what a second crash would lose counts as no progress.
        self.writer = None if self.intents.wary else writer
        self.growth = growth_of(store, claim.workflow_id, is_new=run.resumed is None)
        self.begins = {} if run.resumed is None else run.resumed.begins
        self.encode = store.encoding.encode
        self.outbox: deque[EncodedStep | dict[str, Any]] = deque()  # steps to write, and what a commit adds
        self.lowest: float = _NEVER  # the earliest superstep in it
        self.running: set[int] = set()  # steps under way
        self.concurrent = run.context.kernel.concurrent
        self.must_wait = False  # whether something has to be written before the run proceeds
        self._writing = threading.Lock()  # commits keep their order, whatever thread writes them
        self._next: Commit | None = None  # taken from the outbox, and not written yet
        self.is_closed = False
        self.shared = shared_names(run)  # what several calls take
        self._handed: dict[str, tuple[Any, bytes | None]] = {}  # their objects, and what was in them before
        self._trouble: BaseException | None = None  # what went wrong while no step was there to fail
        self.superstep = -1  # of the last step
        self.waits_for_end = store.policy.durability == "exit"
        self.silent = is_detached or store.policy.granularity == "none"
        self.live: Live | None = None  # what its nodes show while they run, if they do
        self._transacted: str | None = None  # the step that is noted inside of its transaction
        self.saved: deque[int] = deque()  # steps that have become durable and were not reported yet
        self.on_their_way: tuple[int, ...] = ()  # steps given to the writer
        self.last_commit = _clock()
        self._used_before: dict[tuple[int, str, str], dict[str, float]] | None = None
        self.summaries = None if self.silent else summaries_of(run)

    @cached_property
    def turns_at(self) -> dict[int, int]:
        """The superstep of the last turn that reached each node, but for the first turn."""
        past: ResumeState | None = self.run.resumed
        if past is None or past.stored is None:
            return {}
        return turns_of_nodes(past.stored, self.run.admission, range(len(self.run.plan.steps)))

    def before(self, step: Step, superstep: int) -> tuple[int, ...]:
        """Make durable what the step could take; return the indexes of the steps that became durable."""
        past = self.run.resumed
        if self.summaries is not None and self.summaries.is_due and superstep > self.summaries.last:
            self._summarize()
        if past is not None and not past.is_whole and step.index not in self.visits:
            self.visits[step.index] = self.store.backend.last_visit(self.claim.workflow_id, step.name)
        if past is not None and step.index in past.reopened:
            past.reopened.discard(step.index)
        elif past is None or not self._is_remade(step):
            self.visits[step.index] = self.visits.get(step.index, 0) + 1
        if self.numbers is not None:  # now: steps that run together end in any order
            asked = self._in_place(step, superstep)
            self.numbers[step.index] = self._next_index() if asked is None else asked.index
        if self._trouble is not None:
            raise self._trouble
        self.running.add(step.index)
        if self.intents.wary:
            self.intents.announce(step, superstep)
        # A commit that is under way in another thread, or was put off, counts like one that is yet to come.
        is_open = self._next is not None or self._writing.locked() or superstep > self.lowest
        if (self.intents.wary and self.outbox) or (is_open and not self.waits_for_end):
            self.must_wait = not self._write_out(wait=not self.concurrent)
        elif self.outbox and not self.waits_for_end:
            LATE.add(self)  # its sibling may take long
        return self._reported() if self.saved else ()

    def _summarize(self) -> None:
        """Write a summary of the steps so far with the next commit, if nothing is under way."""
        if self.summaries is None or self.running or self.waits_for_end:
            return
        facts = self.summaries.summary()
        if facts is not None:
            self.outbox.append({"summary": self.store.encoding.summary(self.claim.workflow_id, facts)})

    def _reported(self) -> tuple[int, ...]:
        """Return the steps that have become durable since the last question."""
        saved = self.saved
        return (saved.popleft(),) if len(saved) == 1 else tuple([saved.popleft() for _ in range(len(saved))])

    def catch_up(self) -> tuple[int, ...]:
        """Write what had to wait for a locked store; return the indexes of the steps that became durable."""
        self._write_out(wait=True)
        self.must_wait = False
        return self._reported()

    def version_of(self, name: str, superstep: int) -> int:
        """Return the version of a value that steps of a superstep take; 0 if it was neither given nor made.

        What their siblings in it have made is for later ones.
        """
        if self.run.fixed:
            admission = self.run.admission
            return int(name in admission.given or name in admission.made)
        at, before = self.written.get(name, (-1, 0))
        return self.versions.get(name, 0) if at < superstep else before

    def _is_remade(self, step: Step) -> bool:
        """Say whether a step only makes again what was not kept."""
        return (
            self.run.resumed is not None and step in self.run.resumed.remade and step.index not in self.remade
        )

    def taken(self, name: str, version: int, value: Any) -> None:
        """Record an answer that was taken as an input, among those that came with this turn."""
        if self.summaries is not None and self.summaries.is_stored:
            self.summaries = None  # the turn that it covers is another one by now
            self.outbox.append({"summary": self.store.encoding.summary(self.claim.workflow_id, None)})
        elif self.summaries is not None:
            self.summaries.take(self.turn, name)
        commit = self.store.encoding.commit(self.claim, inputs={name: (version, value)}, at=self.turn)
        if not self.concurrent or self.is_detached:
            self.put(commit)
            return
        self.outbox.append({"inputs": commit.inputs, "at": commit.at})
        self.lowest = -1  # written before the first step, without holding up the event loop

    def put(self, commit: Commit) -> None:
        """Write a commit now; what a best-effort store cannot write is tried once more at the end."""
        for step in commit.steps if self.summaries is not None else ():
            self.summaries.add(step)  # type: ignore[union-attr]  # it is there
        if self.is_detached:
            return
        if self.tolerate is None:
            self.store.backend.write(commit)
            self._note_code(commit)
            return
        self.outbox.extend(commit.steps)
        self.flush(inputs=commit.inputs, at=commit.at, status=commit.status, code=commit.code)

    def hand_out(self, step: Step) -> None:
        """Give a call what is recorded, also if an earlier call has changed the object that it was given.

        The first call gets the object itself, later ones a copy. What cannot be stored is shared.
        """
        values = self.run.values
        for name in self.shared.intersection(step.node.inputs):
            value = values.get(name)
            if type(value) in _IMMUTABLE:
                continue
            handed, raw = self._handed.get(name, _NOTHING)
            if handed is not value:
                self._handed[name] = (value, self._form_of(name, value))
            elif raw is not None:
                fresh = self.store.encoding.serializer_of(name).deserialize(raw)
                if not isinstance(fresh, Undecodable):
                    values[name] = fresh
                    self._handed[name] = (fresh, raw)

    def _form_of(self, name: str, value: Any) -> bytes | None:
        try:
            return self.store.encoding.serializer_of(name).serialize(value)
        except Exception:  # the warning comes from where it is stored
            return None

    def inner(self, step: Step, superstep: int) -> InnerJournal | None:
        """Return where the steps inside of a node are recorded, None if no steps are."""
        return None if self.silent else InnerJournal(self, step, superstep)

    def spent(self, step: Step, superstep: int, usage: Mapping[str, float]) -> None:
        """Write down, with the next commit, what a node has used in this run."""
        self.outbox.append({"usage": self.usage_rows(step, superstep, usage)})

    def usage_rows(
        self, step: Step, superstep: int, usage: Mapping[str, float], key: str = ""
    ) -> tuple[Usage, ...]:
        """Return what a node, or the inner step of a key, has used, as it is stored.

        What an earlier run has recorded for the same step is added: a crash may have ended that run.
        """
        at = self._recorded_at(step, superstep)
        before = self._before().get((at, step.name, key), {})
        amounts = {name: amount + before.get(name, 0) for name, amount in usage.items()}
        return tuple(Usage(at, step.name, key, name, amount) for name, amount in amounts.items())

    def _recorded_at(self, step: Step, superstep: int) -> int:
        """Return the superstep of the record of a step."""
        asked = self._in_place(step, superstep)
        return superstep if asked is None else asked.superstep

    def _in_place(self, step: Step, superstep: int) -> StepRecord | None:
        """Return the record of a pause that the step replaces: a pause is completed in place.

        If new nodes ran before it, its place is after them: a record stands behind all that led to it.
        """
        asked = self.waiting.get(step.name) if self.waiting else None
        if asked is None or (superstep > asked.superstep and self.run.resumed.displaced >> step.index & 1):
            return None
        return asked

    def _before(self) -> Mapping[tuple[int, str, str], Mapping[str, float]]:
        """Return what earlier runs of the workflow have recorded, by superstep, node and inner step."""
        if self._used_before is None:
            is_new = self.run.resumed is None
            rows = [] if is_new else self.store.backend.read_usage(self.claim.workflow_id)
            self._used_before = by_step(rows)
        return self._used_before

    def _facts_of(self, step: Step, superstep: int, outcome: StepOutcome | None) -> dict[str, Any]:
        """Return the uncommon fields of a record; in an encrypted store, also what the step has used."""
        facts = {} if outcome is None else _uncommon(outcome)
        if outcome is None or not self.store.encoding.chain.encrypts:
            return facts
        inner, visit = outcome.inner, outcome.visit
        used = dict(visit.total or {}) if visit is not None else {}
        if inner is not None and inner.workflow_id is None:
            added(used, usage_inside(inner))
        if visit is not None and self.run.resumed is not None:
            place = (self._recorded_at(step, superstep), step.name)
            for (*known, _), amounts in self._before().items():
                added(used, amounts if (*known,) == place else {})
        return {**facts, "used": used} if used else facts

    def _spent_inside(self, step: Step, superstep: int, outcome: StepOutcome | None) -> None:
        """Write down what was used in a nested graph that has no history of its own."""
        inner = None if outcome is None else outcome.inner
        if inner is not None and inner.workflow_id is None and (usage := usage_inside(inner)):
            self.spent(step, superstep, usage)

    def add_inner(self, more: dict[str, Any], *, wait: bool, urgent: bool) -> bool:
        """Write an inner step; return False if that would have to wait for a locked store."""
        if self._trouble is not None:
            raise self._trouble
        self.outbox.append(more)
        return self.waits_for_end or not urgent or self._write_out(wait=wait)

    def input_versions(self, step: Step, superstep: int) -> dict[str, int]:
        """Return the versions of what a step takes."""
        is_fixed = self.run.fixed
        return (_fixed_versions(self.run, step) if is_fixed else self._versions(step, superstep, {}))[0]

    def asks_the_same(self, step: Step) -> bool:
        """Say whether a question that was answered is asked about the same values now.

        If not, because they were not kept, or code has changed, its answer stays in the history as unused.
        """
        asked = self.waiting.get(step.name)
        redacts = self.store.encoding.redact is not None
        if asked is None or not is_about_others(
            asked, inputs_of(step, self.run.values), self.versions, self.run.lists, redacts=redacts
        ):
            return True
        del self.waiting[step.name]
        if self.numbers is not None and self.numbers[step.index] == asked.index:
            self.numbers[step.index] = self._next_index()
        self._give_up(asked)
        warn_caller(
            f"Workflow {asked.workflow_id!r}: the answer to {self.run.path_of(step.name)!r} was not used. It "
            "was given for other values than the question is about now, so the question is asked again."
        )
        return False

    def _give_up(self, asked: StepRecord) -> None:
        """Leave a question in the history that is asked at another place."""
        given_up = self.encode(replace(asked, status=StepStatus.STOPPED))
        if self.summaries is not None:
            self.summaries.add(given_up)
        self.outbox.append(given_up)
        self.lowest = min(self.lowest, asked.superstep)

    def expire(self, step: Step) -> Mapping[str, Any]:
        """Close a question whose deadline has passed to later answers; return one that was quicker."""
        asked = self.waiting[step.name]
        if asked.answer is None:
            try:
                self.store.backend.put_answers([self.store.encoding.answer(asked, {}, None)])
            except WorkflowError:
                found = self.store.step(asked.workflow_id, asked.index)
                asked = self.waiting[step.name] = asked if found is None else found
        return asked.answer or {}

    def known_result(self, step: Step, superstep: int) -> Any:
        """Return what a call that must not be repeated has returned, if that is known; else NOT_KNOWN."""
        return self.intents.result_of(step, superstep)

    def done(
        self, step: Step, superstep: int, value: Any, seconds: float, outcome: StepOutcome | None = None
    ) -> None:
        """Write down a completed step."""
        if self.silent:
            return
        self._note_done(step, superstep, value, seconds, outcome)
        if not step.node.repeatable:
            self.intents.unresolved.pop(step.name, None)
            self.outbox.append({"full": True})
            self.must_wait = not self._write_out(wait=not self.concurrent)
        elif not self.waits_for_end and _clock() - self.last_commit > _EARLY:
            self._write_out(wait=not self.concurrent)

    def _note_done(
        self, step: Step, superstep: int, value: Any, seconds: float, outcome: StepOutcome | None
    ) -> None:
        facts = self._facts_of(step, superstep, outcome)
        if step.kind == "graph":
            self._spent_inside(step, superstep, outcome)
        single = None if value is ABSENT else step.output
        made = results_of(step, value) if single is None else {single: value}
        if self.run.resumed is not None and self._is_remade(step):
            made = {**made, **self.run.resumed.kept[step.index]}
        kept: dict[str, Any] | None = None
        if step.is_gate:
            facts["decision"] = decision_text(value)
        elif not step.node.persist:
            facts["lost"], kept = dict.fromkeys(made, _NOT_KEPT), {}
        else:
            kept = made if not step.appends else self._added(step, superstep, made)
        for name in made if self._handed else ():
            self._handed.pop(name, None)  # it is written anew, if only by changing it in place
        self._add(step, superstep, StepStatus.COMPLETED, seconds, facts, made, kept)

    def transact(
        self, step: Step, superstep: int, outcome: StepOutcome, work: Callable[[], tuple[Any, float]]
    ) -> Any:
        """Commit a step together with what its function writes, and return what the function returned."""
        run, name = self.run, step.name
        if self.outbox or self._next is not None:
            self._write_out(wait=True)
        if self.writer is not None:
            self.writer.drain(self.claim)
        before = (
            {} if run.fixed else dict(self.versions),
            self.next_index,
            dict(self.numbers or {}),
            dict(self.waiting),
        )

        def call(connection: Any) -> tuple[Commit, Any]:
            run.connections = {**(run.connections or {}), name: connection}
            try:
                value, seconds = work()
            finally:
                run.connections = {n: each for n, each in run.connections.items() if n != name}
            if fault_points.hook is not None:
                fault_points.point("transaction.called")
            run.leave(step, outcome)
            self._transacted = name
            try:
                self._note_done(step, superstep, value, seconds, outcome)
            finally:
                self._transacted = None
            unit = self._own_commit(step)
            for payload in unit.steps[0].payloads:
                if payload.data is None:
                    raise TypeError(
                        f"Node {name!r} has transaction=True, and its output {payload.name!r} cannot be "
                        f"stored: {payload.format[1:]}. Return a value that can be."
                    )
            return unit, value

        try:
            with self._writing:
                try:
                    unit, value = self.store.backend.transact(self.claim, run.path_of(name), call)
                    self._note_code(unit)
                except BaseException:
                    self._take_back(step, before)
                    raise
        finally:
            if self.live is not None:
                self.live.release(name)
        if self.live is not None:
            self.live.ended(name)  # not inside: its writer may be waiting for the end of the transaction
        self.saved += (unit.steps[0].record.index,)
        outcome.committed = True
        return value

    def _own_commit(self, step: Step) -> Commit:
        """Return what was noted last of a step as a commit of its own; other steps may be noted meanwhile."""
        found: list[EncodedStep] = []
        more: dict[str, Any] = {}
        for place in reversed(range(len(self.outbox))):
            item = self.outbox[place]
            if type(item) is not dict:
                is_own = item.record.node_name == step.name  # type: ignore[union-attr]  # the other kind
            else:
                is_own = "usage" in item and item["usage"][0].node == step.name
            if is_own:
                del self.outbox[place]
                if type(item) is dict:
                    more |= item
                else:
                    found.append(item)  # type: ignore[arg-type]  # as above
        return self._with_code(Commit(self.claim, (found[0],), **more))

    def _take_back(self, step: Step, before: tuple[Any, ...]) -> None:
        """Forget what was noted of a step whose transaction was rolled back."""
        versions, self.next_index, numbers, waiting = before
        if self.summaries is not None:
            self.summaries.discard(step.name, numbers.get(step.index, self.next_index))
        if not self.run.fixed:
            self.versions = versions
        if self.numbers is not None and step.index in numbers:
            self.numbers[step.index] = numbers[step.index]
        self.waiting |= waiting
        self.running.add(step.index)
        for name in step.outputs:
            self.growth.forget(name)
        if self.code is not None:
            self.code.take_back(step.name)

    def failed(self, step: Step, superstep: int, seconds: float, outcome: StepOutcome) -> None:
        """Write down a failed step, its error as text; what is ambiguous stays without a record."""
        error = outcome.error
        lost = outcome.in_doubt or isinstance(error, WorkerLostError)
        is_open = not step.node.repeatable and (
            (outcome.called and lost) or step.name in self.intents.unresolved
        )
        if self.silent or is_open or isinstance(error, AmbiguousStepError):
            return
        kind = type(error)
        facts = self._facts_of(step, superstep, outcome)
        if step.kind == "graph":
            self._spent_inside(step, superstep, outcome)
        facts["error"] = safe_text(error) or kind.__name__
        facts["error_type"] = f"{kind.__module__}.{kind.__qualname__}"
        if error is not None:
            facts["traceback"] = "".join(traceback.format_exception(error))
            facts["error_attributes"] = plain_attributes(error)
        self._add(step, superstep, StepStatus.FAILED, seconds, facts)

    def not_called(self, step: Step, superstep: int, error: BaseException) -> None:
        """Withdraw the announcement of a step whose function was not called, with a failed step in its place.

        Any other failure of the step is recorded by `failed`.
        """
        if not isinstance(error, Exception):
            self._withdraw(step, superstep, type(error))

    def not_begun(self, step: Step, superstep: int) -> None:
        """Forget a step before which the run was stopped."""
        self.left(step)
        if self.intents.wary and not step.node.repeatable:  # it was announced
            self._withdraw(step, superstep, CancellationError)

    def _withdraw(self, step: Step, superstep: int, kind: type[BaseException]) -> None:
        if self.silent or step.name in self.intents.unresolved:  # an earlier announcement stays
            return
        facts = {
            "error": "cancelled before its function was called",
            "error_type": f"{kind.__module__}.{kind.__qualname__}",
        }
        self._add(step, superstep, StepStatus.FAILED, None, facts)

    def paused(self, step: Step, superstep: int, pause: PauseInfo, outcome: StepOutcome) -> None:
        """Write down that a step waits for an answer; of a nested graph, the first of its questions."""
        if not self.silent:
            if isinstance(step.node, InterruptNode) and pause.schemas:
                pause = replace(pause, schemas=asked_schemas(step.node))
            self._add(
                step,
                superstep,
                StepStatus.PAUSED,
                None,
                {**self._facts_of(step, superstep, outcome), "pause": pause},
            )

    def left(self, step: Step) -> None:
        """Leave a step without a record: another worker runs its graph, which a later call finds ended."""
        self.running.discard(step.index)
        if self.numbers is not None:
            self.numbers.pop(step.index, None)

    def _add(  # noqa: PLR0912, PLR0917 - the facts of one step
        self,
        step: Step,
        superstep: int,
        status: StepStatus,
        seconds: float | None,
        facts: dict[str, Any],
        results: Mapping[str, Any] = MappingProxyType({}),
        kept: dict[str, Any] | None = None,
    ) -> None:
        run, moment = self.run, clock.clock()
        taken, made, awaited = (
            _fixed_versions(run, step) if run.fixed else self._versions(step, superstep, results)
        )
        if status is not StepStatus.COMPLETED:
            made = {}
        else:
            if run.resumed is not None and self._is_remade(step):
                self.remade.add(step.index)
            if not run.fixed:
                for name in made:
                    if self.written.get(name, (-1,))[0] < superstep:
                        self.written[name] = superstep, self.versions.get(name, 0)
                self.versions |= made
                for name in step.signals:
                    self.versions[name] = self.versions.get(name, 0) + 1
        if awaited:
            facts["wait_versions"] = awaited
        past = run.resumed
        if past is not None and past.last < superstep <= past.last + past.shift - len(past.remade):
            facts["retry_of"] = superstep - past.shift
        if past is not None and step.index in past.again:
            facts["rerun_at"] = past.entry
        if self.code is not None and status is StepStatus.COMPLETED:
            code_was = self.code.replaced_by(step.name)
            facts |= {} if code_was is None else {"code_was": code_was}
        number = self.numbers.pop(step.index, None) if self.numbers is not None else None
        duration, began = None, moment
        if seconds is not None:
            # Whole nanoseconds, which every store keeps alike.
            duration, began = round(seconds * 1e9) / 1e6, moment - timedelta(0, seconds)
        if self.waiting and step.name in self.waiting:
            superstep, number = self._end_pause(step, (superstep, number), status, facts)
        record = _new_record(
            self.claim.workflow_id,
            superstep,
            step.name,
            self._next_index() if number is None else number,
            status,
            taken,
            kept,
            duration_ms=duration,
            created_at=began,
            completed_at=moment,
            output_versions=made,
            visit=self.visits.get(step.index, 1),
        )
        for field, fact in facts.items():  # most steps have none
            _fill(record, field, fact)
        self.superstep = superstep
        self.running.discard(step.index)
        if self.live is not None and step.name != self._transacted:
            self.live.ended(step.name)
        grows = record.visit > 1 or (not run.fixed and self._may_repeat(step))
        growth, artifact = self.growth if grows else None, step.node.artifact
        if past is not None and not grows:
            self.growth.last |= dict.fromkeys(made)  # a node that extends them has to begin with the whole
        is_usual = not facts and kept is not None and not grows
        try:
            encoded = self.encode(record, growth, artifact, is_usual, step.node.on_ambiguous)
        except CheckpointError as error:
            encoded = self._without_values(record, error)
        if self.summaries is not None:
            self.summaries.add(encoded)
        self.outbox.append(encoded)
        if superstep < self.lowest:  # noqa: PLR1730 - min() costs more. Afterwards: another thread empties both
            self.lowest = superstep
        if self.running and not self.waits_for_end:
            LATE.add(self)  # what is under way may take long

    def _end_pause(
        self, step: Step, place: tuple[int, int | None], status: StepStatus, facts: dict[str, Any]
    ) -> tuple[int, int | None]:
        """Return the superstep and the index of a step that was paused; its facts name who has answered."""
        is_in_place = self._in_place(step, place[0]) is not None
        asked = self.waiting.pop(step.name)
        if is_in_place:
            place = (asked.superstep, asked.index)
            facts["retry_of"], facts["rerun_at"] = asked.retry_of, asked.rerun_at
        else:
            self._give_up(asked)
        if asked.answer and status is not StepStatus.PAUSED and step.kind == "interrupt":
            if status is StepStatus.FAILED:
                facts["answer"] = asked.answer  # it was not of the type that the code asks for by now
            facts["answered_by"], facts["answered_at"] = asked.answered_by, asked.answered_at
        return place

    def _without_values(self, record: StepRecord, error: CheckpointError) -> EncodedStep:
        """Return a step without values where the place for large values fails and the run tolerates that."""
        if self.tolerate is None or not self.tolerate(error, of_value=True):
            raise error
        return self.encode(replace(record, values={}, lost=dict.fromkeys(record.values or (), str(error))))

    def _added(self, step: Step, superstep: int, results: Mapping[str, Any]) -> dict[str, Any]:
        """Return what a step made, of lists only what it adds; what is made again adds nothing."""
        past, made = self.run.resumed, dict(results)
        recorded = self._recorded_at(step, superstep)
        late = 0 if past is None else max(recorded - (superstep - past.shift), 0)
        for name in step.appends.intersection(made):
            result = [] if self._is_remade(step) else made[name]
            anew = isinstance(result, Replace)
            if anew:
                self.begins[name] = self.turn
            elif past is not None and name in past.unlisted:
                past.unlisted.discard(name)  # if nothing is there yet, the list begins with what steps add
                if name in self.run.values:
                    made[name] = [*self.run.values[name], *items_of(result)]
                    self.begins[name] = superstep
                    self.growth.forget(name)
                    continue
            made[name] = Added(items_of(result), step.index, late, anew, self.begins.get(name, 0))
        return made

    def _versions(self, step: Step, superstep: int, results: Mapping[str, Any]) -> _Versions:
        """Return the versions of what a step took, of what it makes, and of what it waited for.

        The version of a value that leads back to the beginning of a loop without a gate, and is what it was,
        does not rise; nor does that of what is only made again.
        """
        versions, run = self.versions, self.run
        same = equal_outputs(step, results, run.values, run.layout) if run.layout.returns[step.index] else []
        rise = 0 if self._is_remade(step) else 1
        return (
            {name: self.version_of(name, superstep) for name in step.node.inputs if name in run.values},
            {name: versions.get(name, 0) + (rise if name not in same else 0) for name in results},
            {name: versions.get(name, 0) for name in step.wait_for},
        )

    def _may_repeat(self, step: Step) -> bool:
        """Say whether a step can run more than once in this run, so that its values can grow."""
        return bool(self.run.layout.home[step.index])

    def _next_index(self) -> int:
        self.next_index += 1
        return self.next_index - 1

    def flush(self, **more: Any) -> None:
        """Commit what is pending, and more."""
        if more:
            self.outbox.append(more)
        self._write_out(wait=True)

    def _taken(self) -> Commit:
        """Return the next commit of what is in the outbox; the caller holds the lock."""
        steps: list[EncodedStep] = []
        outbox = self.outbox
        while outbox:
            found = outbox.popleft()
            if type(found) is dict:
                return self._with_code(Commit(self.claim, tuple(steps), **found))
            steps.append(found)  # type: ignore[arg-type]  # the other kind
        commit = _new_commit((self.claim, tuple(steps), *NOTHING_ELSE))
        return commit if self.code is None else self._with_code(commit)

    def _with_code(self, commit: Commit) -> Commit:
        """Return a commit with the hashes of the code that made its steps, where they differ."""
        if self.code is None or commit.code is not None:
            return commit
        is_over = commit.status is WorkflowStatus.COMPLETED
        return commit._replace(code=self.code.after(commit.steps, is_over=is_over))

    def _note_code(self, commit: Commit) -> None:
        """Note what was given to the store: later commits begin with the code that it has then."""
        if self.code is not None:
            self.code.stored(commit.steps, commit.code)

    def _write_out(self, *, wait: bool) -> bool:
        """Write commits in order; return False if that would have to wait for a locked store."""
        if not self._writing.acquire(blocking=wait):
            return False
        self.last_commit, self.lowest = _clock(), _NEVER
        try:
            while self._next is not None or self.outbox:
                commit = self._next = self._next or self._taken()
                if self.writer is not None:
                    if not self.writer.submit(commit, wait=wait):
                        return False
                    self.on_their_way += tuple([step.record.index for step in commit.steps])
                else:
                    if wait:
                        self.store.backend.write(commit)
                    elif not self.store.backend.try_write(commit):
                        return False
                    for step in commit.steps:
                        self.saved.append(step.record.index)
                if self.code is not None:
                    self._note_code(commit)
                self._next = None
        except BaseException as error:
            if isinstance(error, CheckpointError) and self.tolerate is not None and self.tolerate(error):
                self.waits_for_end, self.intents.wary = True, False  # what is left is tried once more then
                return True
            self._next = None  # it is not tried again
            raise
        finally:
            self._writing.release()
        return True

    def flush_late(self) -> None:
        """Write finished steps while others are under way; called in a thread of its own."""
        try:
            self._write_out(wait=True)
        except BaseException as error:  # the next step raises it
            self._trouble = error

    def close(
        self,
        status: WorkflowStatus,
        *,
        full: bool,
        due: datetime | None = None,
        awaits: Mapping[str, int] = MappingProxyType({}),
        reason: str | None = None,
        since: int = 0,
    ) -> tuple[int, ...]:
        """Write down how the run ended; return the indexes of the steps that became durable."""
        self.is_closed = True
        duration = (self.run.stopped_at - self.run.started) * 1000 + self.active_time
        if self.live is not None:
            self.live.close()
        if self._trouble is not None:
            raise self._trouble
        if self.is_detached:
            return ()
        more: dict[str, Any] = {"due": due, "awaits": awaits, "reason": reason}
        more["since"] = min((since, *self.asked_since))
        if self.summaries is not None and status in _OVER and self.summaries.is_due_at_end:
            facts = None if self.running else self.summaries.summary()
            if facts is not None:
                more["summary"] = self.store.encoding.summary(self.claim.workflow_id, facts)
        self.flush(status=status, duration_ms=duration, full=full, **more)
        if self.writer is not None:
            self.writer.drain(self.claim)
        return (*self._reported(), *self.on_their_way)


class LateWriter:
    """The thread that writes finished steps while their siblings run, a few milliseconds after they ended.

    A function that blocks, also one that blocks an event loop, does not keep it from writing. It looks every
    few milliseconds for a while after it was needed: waking it at every run would cost more than a commit.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._wanted = threading.Event()
        self._journals: set[Journal] = set()
        self._thread: threading.Thread | None = None
        self._sleeps = False  # whether it looks at the journals only when `_wanted` is set

    def add(self, journal: Journal) -> None:
        """Have the steps of a journal written soon."""
        if journal in self._journals or _EARLY == _NEVER:
            return
        with self._lock:
            self._journals.add(journal)
            if self._thread is None:
                self._sleeps = False
                self._thread = threading.Thread(target=self._work, name="hypergraph-late", daemon=True)
                self._thread.start()
            elif self._sleeps:
                self._sleeps = False
                self._wanted.set()

    def _work(self) -> None:
        looks = 0  # since there was something to write
        while True:
            time.sleep(min(max(_EARLY, 0.0), 1.0))
            with self._lock:
                journals, self._journals = self._journals, set()
                looks = 0 if journals else looks + 1
                self._sleeps = looks > _LOOKS
                self._wanted.clear()
            for journal in journals:
                journal.flush_late()
            if self._sleeps and not self._wanted.wait(_IDLE):
                with self._lock:
                    if not self._journals:
                        self._thread = None  # the next journal starts another
                        return


LATE = LateWriter()


def _in_child() -> None:
    global LATE  # noqa: PLW0603 - the thread is the parent's, and its lock may be held
    LATE = LateWriter()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)


def shared_names(run: Run) -> frozenset[str]:
    """Return the names that several calls of a run may take: those of nodes, rounds and attempts."""
    memo = run.admission.graph.memo
    if "shared" not in memo:
        takers = Counter(name for step in run.plan.steps for name in step.node.inputs)
        again = {
            name
            for step in run.plan.steps
            if run.admission.layout.home[step.index] or getattr(step.node, "retry", None) is not None
            for name in step.node.inputs
        }
        memo["shared"] = frozenset(
            again.union(n for n, count in takers.items() if count > 1) - run.plan.lists
        )
    return memo["shared"]  # type: ignore[no-any-return]  # put there above


def growth_of(store: Checkpointer, workflow_id: str, *, is_new: bool) -> Growth:
    """Return the last versions of outputs, for the next ones to extend; a new workflow has none."""

    def load(name: str) -> Grown | None:
        payload = store.backend.read_output(workflow_id, name)
        return None if payload is None else store.encoding.grown(workflow_id, payload)

    return Growth(None if is_new else load)


def _fixed_versions(run: Run, step: Step) -> _Versions:
    """Return the versions in a run whose course is fixed: what is made is made once."""
    admission = run.admission
    if step.index not in admission.versions:
        given, made = admission.given, admission.made
        admission.versions[step.index] = (
            {n: int(n in given or n in made) for n in step.node.inputs if n in run.values},
            dict.fromkeys(step.outputs, 1),
            dict.fromkeys(step.wait_for, 1),
        )
    return admission.versions[step.index]  # type: ignore[no-any-return]  # put there above


def _uncommon(outcome: StepOutcome) -> dict[str, Any]:
    """Return the fields of a record that most steps leave as they are."""
    facts: dict[str, Any] = {}
    if outcome.cached:
        facts["cached"] = True
    if outcome.expired:
        facts["expired"] = True
    if outcome.given:
        facts["answered_at"] = clock.clock().isoformat()
    if outcome.answered_by is not None:
        facts["answered_by"] = outcome.answered_by
    if outcome.attempts > 1:
        facts["attempt"], facts["attempt_errors"] = outcome.attempts, outcome.failed_attempts
    if outcome.inner is not None and outcome.inner.workflow_id is not None:
        facts["child_workflow_id"] = outcome.inner.workflow_id
        facts["child_fence"] = outcome.inner.fence
    if outcome.waited > _NO_WAIT:
        facts["waited_ms"] = outcome.waited * 1000
    return facts


def plain_attributes(error: BaseException) -> dict[str, Any]:
    """Return the public attributes of an error that are plain data and small, such as its code."""
    found: dict[str, Any] = {}
    for name in (*getattr(error, "__dict__", ()), *_CODES):
        try:
            value = getattr(error, name, None)
            if value is not None and not name.startswith("_") and _is_plain(value, _DEEP):
                found[name] = value
        except Exception:  # noqa: S112 - a property of the user's class
            continue
    return found if len(repr(found)) <= _LARGE else {}


def _is_plain(value: Any, depth: int) -> bool:
    if type(value) in (list, tuple):
        return depth > 0 and all(_is_plain(item, depth - 1) for item in value)
    if type(value) is dict:
        return depth > 0 and all(type(k) is str and _is_plain(v, depth - 1) for k, v in value.items())
    return type(value) in (str, int, float, bool, type(None))
