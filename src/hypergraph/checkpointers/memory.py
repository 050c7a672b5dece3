"""MemoryCheckpointer: workflows in the memory of this process."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cache, partial
from itertools import groupby
from types import MappingProxyType
from typing import Any, Self, TypeVar

from hypergraph.checkpointers.backend import (
    START,
    Backend,
    Beside,
    Owner,
    Page,
    Position,
    StepOutline,
    position_of,
)
from hypergraph.checkpointers.base import Checkpointer
from hypergraph.checkpointers.encoding import Encoding
from hypergraph.checkpointers.live import ChunkBatch, ChunkPage, Live, Progress, StreamOutline
from hypergraph.checkpointers.names import changed, check_workflow_id, moved
from hypergraph.checkpointers.policy import CheckpointPolicy
from hypergraph.checkpointers.query import Query, ordered_by
from hypergraph.checkpointers.questions import around
from hypergraph.checkpointers.records import (
    ANSWER,
    APART,
    DROPPED,
    FINISHED,
    Claim,
    Commit,
    EncodedAnswer,
    EncodedSignal,
    EncodedStep,
    NewWorkflow,
    Ownership,
    Payload,
    StepRecord,
    Usage,
    Workflow,
    fast_replace,
    is_over,
    latest,
    locked,
    not_asking,
    owned,
    recorded_already,
    taken_over,
    unknown,
)
from hypergraph.checkpointers.sqlite.locks import HOST
from hypergraph.checkpointers.status import StepStatus, WorkflowStatus
from hypergraph.clock import now
from hypergraph.display import plural
from hypergraph.values.graphs import Graphs

T = TypeVar("T")
_WAITS = WorkflowStatus.PAUSED
_changed_step, _changed_workflow = fast_replace(StepRecord), fast_replace(Workflow)


class MemoryCheckpointer(Checkpointer):
    """Keep workflows in memory; over the limit the oldest finished ones are removed first.

    Args:
        policy: When steps are written and how long they are kept; CheckpointPolicy() by default.
        max_workflows: Workflows to keep; None for all.
        graphs: Graphs whose classes the store reads and writes; a run names those of its own graph.

    Raises:
        ValueError: `max_workflows` is neither None nor a positive int.

    Example:
        >>> from hypergraph.checkpointers import MemoryCheckpointer
        >>> store = MemoryCheckpointer(max_workflows=100)
        >>> store.workflows().total
        0
    """

    def __init__(
        self,
        *,
        policy: CheckpointPolicy | None = None,
        max_workflows: int | None = None,
        graphs: Graphs = (),
    ) -> None:
        if max_workflows is not None and (type(max_workflows) is not int or max_workflows < 1):
            raise ValueError(f"max_workflows must be None or a positive int, not {max_workflows!r}")
        super().__init__(MemoryBackend(max_workflows), policy=policy, graphs=graphs)

    def __repr__(self) -> str:
        count = self.backend.find(Query(top_level=False, limit=1))[1]
        return f"{type(self).__name__}({plural(count, 'workflow')})"


class MemoryBackend(Backend):
    """Workflows in the memory of this process."""

    kind = "memory"

    def __init__(self, max_workflows: int | None = None) -> None:
        self._limit = max_workflows
        self._rows: dict[str, Row] = {}
        self._keys = iter(range(1, 2**62))
        self._lock = threading.RLock()
        self._live = MemoryLive(self._rows, self._lock)

    @property
    def live(self) -> MemoryLive:
        """What running nodes show."""
        return self._live

    # --- writing ------------------------------------------------------------------------------

    def claim(
        self, workflow_id: str, new: NewWorkflow, encoding: Encoding, *, force: bool = False
    ) -> Ownership:
        """Take the workflow, creating it ACTIVE if there is none; see `Backend.claim`."""
        check_workflow_id(workflow_id, child=new.parent_id is not None)
        payloads = encoding.inputs(workflow_id, new.inputs)
        with self._lock:
            row = self._rows.get(workflow_id)
            existing = row.read() if row else None
            if row is None:
                row = self._add(workflow_id, new, payloads)
            elif not force:
                row.refuse_if_owned()
            row.fence += 1
            row.owner_since = now()
            return Ownership(workflow_id, row.fence, existing, row.key, False, tuple(row.announced()))

    def write(self, commit: Commit) -> None:
        """Make one commit part of the store; see `Backend.write`."""
        with self._lock:
            row = _owned(self._rows, commit.claim)
            steps: dict[tuple[int, str], EncodedStep] = {}
            for step in commit.steps:
                there = steps.get(place(step)) or row.steps.get(place(step))
                if there is not None and there.record.status is not StepStatus.PAUSED:
                    raise recorded_already(step.record)
                steps[place(step)] = bare(step)
            row.steps.update(steps)  # none of them before all are checked
            if commit.inputs:  # one of the same version is replaced
                given = {(commit.at, payload.name, payload.version) for payload in commit.inputs}
                row.inputs = [(at, p) for at, p in row.inputs if (at, p.name, p.version) not in given]
                row.inputs += [(commit.at, payload) for payload in commit.inputs]
            row.add_inner(commit.inner)
            row.usage |= {usage[:4]: usage for usage in commit.usage}
            row.summary = commit.summary or row.summary
            if commit.running is not None:
                row.intents.add((commit.at, commit.running))
            if commit.code is not None:
                row.describe(commit.code)
            if commit.status is not None:
                due = self._due_at_pause(row, commit) if commit.status is _WAITS else commit.due
                row.set_status(commit.status, due, commit.awaits, commit.reason)
            if commit.duration_ms is not None:
                row.workflow = replace(row.workflow, duration_ms=commit.duration_ms)

    def release(self, claim: Claim) -> None:
        """Give the workflow back; giving back what was taken over meanwhile does nothing."""
        with self._lock:
            row = self._rows.get(claim.workflow_id)
            if row is not None and (row.key, row.fence) == (owned(claim).key, claim.fence):
                row.owner_since = None
                self._keep_limit()

    def set_tags(self, workflow_id: str, changes: Mapping[str, str | None]) -> dict[str, str]:
        """Set tags of a workflow, remove those under None, and return what it has then."""
        with self._lock:
            row = self._rows.get(workflow_id)
            if row is None:
                raise unknown(workflow_id)
            row.workflow = replace(row.workflow, tags=changed(row.workflow.tags, changes))
            return dict(row.workflow.tags)

    def put_answers(self, answers: Sequence[EncodedAnswer]) -> None:
        """Add answers to steps that wait for one; see `Backend.put_answers`."""
        with self._lock:
            for is_checked in (False, True):
                for record, payload, replaces in answers:
                    row, at = self._rows.get(record.workflow_id), (record.superstep, record.node_name)
                    step = None if row is None else row.steps.get(at)
                    if row is None or step is None or step.record.status is not StepStatus.PAUSED:
                        raise not_asking(record)
                    found = [p.version for p in step.payloads if p.name == ANSWER]
                    if found != ([0] if replaces else []):
                        raise not_asking(record)
                    if is_checked:
                        others = [p for p in step.payloads if p.name != ANSWER]
                        row.steps[at] = step._replace(payloads=[*others, payload])
                        self._make_due(record.workflow_id)

    def _make_due(self, workflow_id: str) -> None:
        """Have a workflow that waits, or is under way, found as due, and those around it."""
        time = now()
        for row in [row for each in around(workflow_id) if (row := self._rows.get(each)) is not None]:
            if row.workflow.status in (_WAITS, WorkflowStatus.ACTIVE):
                row.workflow = replace(row.workflow, due=time)

    def _due_at_pause(self, row: Row, commit: Commit) -> datetime | None:
        """Return when a workflow is due that waits from now on: an answer may have come while it ran."""
        before, found = row.workflow.due, [commit.due, *self._due_below(row.workflow.id)]
        if self._has_unused_answer(row, commit.since):
            found.append(min(before or now(), now()))
        return min((due for due in found if due is not None), default=None)

    def _due_below(self, workflow_id: str) -> Iterator[datetime | None]:
        """Yield when what is below is due: what waits, or has failed beside a question that is answered."""
        for row in [row for row in self._rows.values() if row.workflow.parent_id == workflow_id]:
            if row.workflow.status in (_WAITS, WorkflowStatus.ACTIVE):
                yield row.workflow.due
            elif row.workflow.status is WorkflowStatus.FAILED:
                if self._has_unused_answer(row):
                    yield now()
                yield from self._due_below(row.workflow.id)

    @staticmethod
    def _has_unused_answer(row: Row, since: int = 0) -> bool:
        steps = (step for at, step in row.steps.items() if at[0] >= since)
        waiting = (step for step in steps if step.record.status is StepStatus.PAUSED)
        return any(payload.name == ANSWER for step in waiting for payload in step.payloads)

    def put_signal(self, workflow_id: str, payload: Payload) -> bool:
        """Keep a value that was sent; see `Backend.put_signal`."""
        with self._lock:
            row = self._rows.get(workflow_id)
            if row is None:
                raise unknown(workflow_id)
            if row.workflow.status is WorkflowStatus.COMPLETED:
                raise is_over(workflow_id)
            last = max((idx for name, idx in row.signals if name == payload.name), default=0)
            if payload.idx != last + 1:
                return False
            row.signals[payload.name, payload.idx] = EncodedSignal(payload)
            return True

    def take_signal(self, workflow_ids: Sequence[str], name: str, taker: str) -> tuple[str, Payload] | None:
        """Return the next value that was sent; see `Backend.take_signal`."""
        with self._lock:
            for row in [row for each in workflow_ids if (row := self._rows.get(each)) is not None]:
                for wanted in (taker, ""):
                    for place, sent in sorted(row.signals.items()):
                        if (place[0], sent.taker) == (name, wanted):
                            row.signals[place] = sent._replace(taker=taker)
                            if not wanted:
                                self._keep_due(workflow_ids, name)
                            return row.workflow.id, sent.payload
            return None

    def _keep_due(self, workflow_ids: Sequence[str], name: str) -> None:
        """Have workflows that waited for a signal found as due until it is written how they go on."""
        for row in [row for each in workflow_ids if (row := self._rows.get(each)) is not None]:
            due, time = row.workflow.due, now()
            if name in row.workflow.awaits and (due is None or due > time):
                row.workflow = replace(row.workflow, due=time)

    def put_step(self, step: EncodedStep, encoding: Encoding) -> None:
        """Record a step of a workflow without an owner, in place of one of the same superstep and node."""
        with self._lock:
            row = self._rows.get(step.record.workflow_id)
            if row is None:
                row = self._add(step.record.workflow_id, NewWorkflow())
            row.refuse_if_owned()
            row.put(bare(step), encoding)
            row.fence += 1

    # --- reading ------------------------------------------------------------------------------

    def snapshot(self, work: Callable[[Self], T]) -> T:
        """Return what `work` returns; nothing is written meanwhile."""
        with self._lock:
            return work(self)

    def read_owners(self, workflow_ids: Iterable[str]) -> dict[str, Owner]:
        """Return the claims that are held: all of them in this process, which lives."""
        with self._lock:
            found = ((workflow_id, self._rows.get(workflow_id)) for workflow_id in workflow_ids)
            return {
                workflow_id: Owner(os.getpid(), HOST, row.owner_since, True)
                for workflow_id, row in found
                if row is not None and row.owner_since is not None
            }

    def read_workflow(self, workflow_id: str) -> Workflow | None:
        """Return the workflow, None if there is none."""
        with self._lock:
            row = self._rows.get(workflow_id)
            return row.read() if row else None

    def read_fences(self, workflow_ids: Iterable[str]) -> dict[str, int]:
        """Return the fences of the newest claims; workflows that are held are left out."""
        with self._lock:
            found = ((each, self._rows.get(each)) for each in workflow_ids)
            return {each: row.fence for each, row in found if row is not None and row.owner_since is None}

    def read_steps(
        self,
        workflow_id: str,
        encoding: Encoding,
        *,
        upto: int | None = None,
        node: str | None = None,
        index: int | None = None,
        after: Position | None = None,
        limit: int | None = None,
        values: bool = True,
    ) -> list[StepRecord]:
        """Return the steps in order of their index, or a page of them; see `Backend.read_steps`."""
        with self._lock:
            row = self._rows.get(workflow_id)
            kept = row.ordered() if row else []
        chosen = [
            step
            for step in kept
            if (upto is None or step.record.superstep <= upto)
            and node in (None, step.record.node_name)
            and index in (None, step.record.index)
        ]
        if after is not None or limit is not None:
            chosen.sort(key=lambda step: position_of(step.record))
            chosen = [step for step in chosen if position_of(step.record) > (after or START)][:limit]
        return [_decoded(step, encoding, values) for step in chosen]

    def read_outlines(
        self, workflow_id: str, *, after: Position = START, limit: int | None = None
    ) -> list[StepOutline]:
        """Return the outlines of the next steps after a position."""
        with self._lock:
            row = self._rows.get(workflow_id)
            kept = [step.record for step in row.steps.values()] if row else []
        kept = sorted((step for step in kept if position_of(step) > after), key=position_of)
        return [StepOutline.of(step) for step in kept[:limit]]

    def read_versions(
        self, workflow_id: str, name: str | None = None, *, upto: int | None = None
    ) -> list[Payload]:
        """Return all that is stored, maybe under one name: what was given, then what steps have made."""
        with self._lock:
            row = self._rows.get(workflow_id)
            given = [payload for _, payload in row.given()] if row else []
            made = row.made() if row else []
        found = [*given, *sorted(made, key=lambda payload: (payload.superstep, payload.idx))]
        return [
            payload
            for payload in found
            if name in (None, payload.name) and (upto is None or payload.superstep <= upto)
        ]

    def read_summary(self, workflow_id: str) -> Payload | None:
        """Return the encoded summary that was written last."""
        with self._lock:
            row = self._rows.get(workflow_id)
            return None if row is None else row.summary

    def read_beside(self, workflow_id: str) -> Beside:
        """Return what is kept beside the steps."""
        with self._lock:
            row = self._rows.get(workflow_id)
            if row is None:
                return Beside()
            inner = sorted(row.inner.values(), key=lambda found: (found[1].superstep, found[0], found[1].idx))
            signals = [sent for _, sent in sorted(row.signals.items())]
            return Beside(inner, signals, row.announced(), sorted(row.usage.values()))

    def find(self, query: Query) -> Page:
        """Return the workflows asked for, newest first, the number of all, and the next cursor."""
        with self._lock:
            newest = sorted(self._rows.values(), key=lambda row: -row.key)
            matching = [
                (row.key, workflow)
                for row, workflow in ((row, row.read()) for row in newest)
                if query.admits(workflow, partial(self._records_below, workflow.id), self._is_signalled)
            ]
        if query.cursor is not None and not query.cursor.isdecimal():
            raise ValueError(f"Invalid cursor: {query.cursor!r} is not the next_cursor of an earlier list")
        if query.order:
            return _sorted_page(query, [workflow for _, workflow in matching])
        rest = [item for item in matching if query.cursor is None or item[0] < int(query.cursor)]
        page = rest[: query.limit]
        cursor = str(page[-1][0]) if len(page) < len(rest) else None
        return [workflow for _, workflow in page], len(matching), cursor

    def _records_below(self, workflow_id: str) -> list[StepRecord]:
        """Return the records of a workflow and of the runs below it."""
        return [record for row in _family(self._rows, workflow_id) for record in row.records()]

    def _is_signalled(self, workflow: Workflow) -> bool:
        """Say whether a signal is kept that nodes of a workflow, or of its items, wait for."""
        above = {workflow.id, workflow.parent_id}
        rows = self._rows.values() if workflow.awaits else ()
        targets = [(row, workflow.awaits) for row in rows if row.workflow.id in above]
        targets += [(row, row.workflow.awaits) for row in rows if row.workflow.parent_id == workflow.id]
        return any(
            sent.payload.name in awaits and not sent.taker
            for row, awaits in targets
            for sent in row.signals.values()
        )

    # --- upkeep -------------------------------------------------------------------------------

    def delete(self, workflow_ids: Iterable[str]) -> int:
        """Remove these workflows and their children; return how many went."""
        with self._lock:
            doomed: dict[str, None] = {}
            wanted = [workflow_id for workflow_id in workflow_ids if workflow_id in self._rows]
            while wanted:
                workflow_id = wanted.pop()
                if workflow_id not in doomed:
                    self._rows[workflow_id].refuse_if_owned()
                    doomed[workflow_id] = None
                    wanted += [
                        row.workflow.id
                        for row in self._rows.values()
                        if row.workflow.parent_id == workflow_id
                    ]
            for workflow_id in doomed:
                del self._rows[workflow_id]
            return len(doomed)

    def trim(self, workflow_id: str, encoding: Encoding, *, before: int) -> None:
        """Drop values that no state at or after superstep `before` contains; the records stay."""
        with self._lock:
            row = self._rows.get(workflow_id)
            if row is not None:
                row.trim(before, encoding)

    def _add(self, workflow_id: str, new: NewWorkflow, inputs: Iterable[Payload] = ()) -> Row:
        row = self._rows[workflow_id] = Row.of(next(self._keys), workflow_id, new)
        row.inputs += [(0, payload) for payload in inputs]
        row.steps.update((place(step), bare(step)) for step in new.steps)
        origin = self._rows.get(new.forked_from or "") if new.copies else None
        if origin is not None:
            row.copy(origin, new.forked_at)
            row.copy_inner(origin, new.forked_at, keep=new.keep_steps)
        self._keep_limit()
        return row

    def _keep_limit(self) -> None:
        if self._limit is None or len(self._rows) <= self._limit:
            return
        for row in sorted(self._rows.values(), key=lambda row: row.key):
            if len(self._rows) <= self._limit:
                return
            if row.finished and row.workflow.id in self._rows:
                self.delete([row.workflow.id])


class MemoryLive(Live):
    """What running nodes show, in the rows of a backend in memory."""

    def __init__(self, rows: dict[str, Row], lock: threading.RLock) -> None:
        self._rows, self._lock = rows, lock  # those of the backend

    def open_stream(self, claim: Ownership, node: str) -> int:
        """Begin a stream of a node; return the offset of its first chunk."""
        with self._lock:
            row, moment = _owned(self._rows, claim), now()
            for stream in (stream for each in self._rows.values() for stream in each.streams.values()):
                if stream.until is not None and stream.until < moment:
                    stream.batches, stream.kept, stream.until = [], stream.next, None
            if node not in row.streams:
                row.streams[node] = MemoryStream()
                return 0
            stream = row.streams[node]
            stream.batches.append(ChunkBatch(stream.next, 1, None))
            stream.next, stream.until = stream.next + 1, None
            return stream.next

    def write_chunks(self, claim: Ownership, node: str, batches: Sequence[ChunkBatch], limit: int) -> None:
        """Add chunks to a stream, within a limit of bytes."""
        with self._lock:
            _owned(self._rows, claim).streams[node].add(batches, limit)

    def end_stream(self, claim: Ownership, node: str, until: datetime) -> None:
        """Say until when the chunks of a stream are kept."""
        with self._lock:
            _owned(self._rows, claim).streams[node].until = until

    def read_chunks(self, workflow_id: str, node: str, offset: int, limit: int) -> ChunkPage | None:
        """Return the next batches of a stream."""
        with self._lock:
            row = self._rows.get(workflow_id)
            stream = None if row is None else row.streams.get(node)
            if stream is None:
                return None
            found = [batch for batch in stream.batches if batch.first + batch.length > offset]
            return ChunkPage(stream.kept, found[:limit])

    def write_progress(self, claim: Ownership, rows: Sequence[Progress]) -> None:
        """Keep how far nodes are."""
        with self._lock:
            _owned(self._rows, claim).progress.update({row.node: row for row in rows})

    def clear_progress(self, claim: Ownership, node: str) -> None:
        """Forget how far a node was."""
        with self._lock:
            _owned(self._rows, claim).progress.pop(node, None)

    def read_progress(self, workflow_id: str) -> list[Progress]:
        """Return how far the running nodes of a workflow are, and of the runs below it."""
        with self._lock:
            shown = [each for row in _family(self._rows, workflow_id) for each in row.progress.values()]
        return sorted(shown, key=lambda each: each.at)

    def read_streams(self, workflow_id: str) -> list[StreamOutline]:
        """Return the streams of a workflow and of the runs below it."""
        with self._lock:
            return sorted(
                StreamOutline(row.workflow.id, node, stream.next, stream.kept)
                for row in _family(self._rows, workflow_id)
                for node, stream in row.streams.items()
            )


def _family(rows: Mapping[str, Row], workflow_id: str) -> list[Row]:
    """Return the row of a workflow, and those of the runs below it."""
    inside = f"{workflow_id}/"
    return [row for key, row in rows.items() if key == workflow_id or key.startswith(inside)]


def _owned(rows: Mapping[str, Row], claim: Ownership) -> Row:
    """Return the row of a claim. Raises OwnershipLostError if it is not the newest."""
    row = rows.get(claim.workflow_id)
    if row is None or row.owner_since is None or (row.key, row.fence) != (claim.key, claim.fence):
        raise taken_over(claim.workflow_id)
    return row


Place = tuple[int, str]  # the superstep and node of a step
Dated = tuple[int, Payload]  # a payload and the superstep from which on it counts


@dataclass
class MemoryStream:
    """The chunks of one node."""

    batches: list[ChunkBatch] = field(default_factory=list)
    next: int = 0
    kept: int = 0
    until: datetime | None = None

    def add(self, batches: Sequence[ChunkBatch], limit: int) -> None:
        """Add batches; the oldest go where there are more bytes than the limit, but never the newest."""
        self.batches += batches
        self.next = batches[-1].first + batches[-1].length
        sizes = [0 if b.payload is None else len(b.payload.data or b"") for b in self.batches]
        surplus, gone = sum(sizes) - limit, 0
        while surplus > 0 and gone < len(sizes) - 1:
            surplus -= sizes[gone]
            gone += 1
        if gone:
            self.kept = self.batches[gone].first
            del self.batches[:gone]


@dataclass(slots=True)
class Row:
    """A workflow, its owner, its steps and its inputs."""

    key: int
    workflow: Workflow
    fence: int = 0
    owner_since: datetime | None = None
    steps: dict[Place, EncodedStep] = field(default_factory=dict)
    inputs: list[Dated] = field(default_factory=list)
    intents: set[Place] = field(default_factory=set)
    streams: dict[str, MemoryStream] = field(default_factory=dict)
    progress: dict[str, Progress] = field(default_factory=dict)
    inner: dict[tuple[Any, ...], tuple[str, Payload]] = field(default_factory=dict)
    usage: dict[tuple[Any, ...], Usage] = field(default_factory=dict)
    summary: Payload | None = None
    signals: dict[tuple[str, int], EncodedSignal] = field(default_factory=dict)  # by name and place

    @classmethod
    def of(cls, key: int, workflow_id: str, new: NewWorkflow) -> Row:
        """Return the row of a new workflow; what is read of its graph later is a copy."""
        structure = cache(lambda: json.dumps(new.graph))  # much quicker to read than to copy
        workflow = Workflow(
            workflow_id,
            WorkflowStatus.ACTIVE,
            graph_name=new.graph_name,
            graph_hash=new.graph_hash,
            parent_id=new.parent_id,
            forked_from=new.forked_from,
            forked_at=new.forked_at,
            tags=dict(new.tags),
            parent_superstep=new.parent_superstep,
            node_name=new.node_name,
            visit=new.visit,
            item=new.item,
            node_hashes=dict(new.node_hashes),
            fingerprint=new.fingerprint,
            version=new.version,
            load_graph=lambda: json.loads(structure()),
        )
        return cls(key, workflow)

    def copy(self, origin: Row, upto: int | None) -> None:
        """Take over steps, values and inputs of another workflow, up to and including a superstep."""
        source, own = origin.workflow.id, self.workflow.id
        for at, step in origin.steps.items():
            if upto is None or at[0] <= upto:
                child = step.record.child_workflow_id
                record = replace(
                    step.record,
                    workflow_id=own,
                    replayed=True,
                    child_workflow_id=child and moved(child, source, own),
                )
                self.steps[at] = step._replace(record=record)
        self.inputs += [item for item in origin.inputs if upto is None or item[0] <= upto]

    def add_inner(self, rows: Iterable[tuple[str, Payload]]) -> None:
        """Add inner steps, or replace those of the same place."""
        for node, payload in rows:
            self.inner[payload.name, payload.superstep, payload.idx, node] = (node, payload)

    def copy_inner(self, origin: Row, upto: int | None, *, keep: bool) -> None:
        """Take over the inner steps of what is completed, and of what is not if they are to be kept."""
        done: dict[str, int] = {}
        for step in self.steps.values():
            if step.record.status is StepStatus.COMPLETED:
                name = step.record.node_name
                done[name] = max(done.get(name, 0), step.record.visit)
        for at, (node, payload) in origin.inner.items():
            last = done.get(node, 0)
            if payload.version <= last or (keep and payload.version == last + 1):
                self.inner[at] = (node, payload)

    @property
    def finished(self) -> bool:
        """Whether the workflow has ended and has no owner."""
        return self.owner_since is None and self.workflow.status in FINISHED

    def read(self) -> Workflow:
        """Return the workflow as it is now."""
        load = cache(self.workflow.load_graph) if self.workflow.load_graph is not None else None
        return _changed_workflow(self.workflow, step_count=len(self.steps), load_graph=load)

    def describe(self, code: NewWorkflow) -> None:
        """Take over another graph and the hashes of its nodes."""
        found = Row.of(self.key, self.workflow.id, code).workflow
        self.workflow = replace(
            self.workflow,
            graph_hash=found.graph_hash,
            node_hashes=found.node_hashes,
            version=found.version,
            load_graph=found.load_graph,
        )

    def refuse_if_owned(self) -> None:
        """Raise WorkflowLockedError when the workflow has an owner."""
        if self.owner_since is not None:
            raise locked(self.workflow.id, os.getpid(), HOST, self.owner_since, own=True)

    def set_status(
        self,
        status: WorkflowStatus,
        due: datetime | None = None,
        awaits: Mapping[str, int] = MappingProxyType({}),
        reason: str | None = None,
    ) -> None:
        """Change the status; what is due stays so while it is worked on."""
        ended = now() if status in FINISHED else None
        due = self.workflow.due if status is WorkflowStatus.ACTIVE else due
        awaits = self.workflow.awaits if status is WorkflowStatus.ACTIVE else awaits
        self.workflow = replace(
            self.workflow, status=status, completed_at=ended, due=due, awaits=dict(awaits), reason=reason
        )
        if status is WorkflowStatus.COMPLETED:
            self.intents.clear()

    def put(self, step: EncodedStep, encoding: Encoding) -> None:
        """Add a step, or replace one; values that extend those of its superstep become whole before."""
        superstep = step.record.superstep
        for later in _with_chains(self.steps.values(), self.inputs):
            if later.record.superstep > superstep:
                payloads = [_whole(p, self.workflow.id, encoding) for p in later.payloads]
                self.steps[place(later)] = later._replace(payloads=payloads)
        self.steps[place(step)] = step
        self.summary = None

    def announced(self) -> list[Place]:
        """Return the steps that were announced and have no record, in order."""
        return sorted(self.intents - self.steps.keys())

    def records(self) -> list[StepRecord]:
        """Return the records without what is encoded, in order of their index."""
        return sorted((step.record for step in self.steps.values()), key=lambda record: record.index)

    def ordered(self) -> list[EncodedStep]:
        """Return the steps in order of their index, growing values with what they extend."""
        steps: Iterable[EncodedStep] = self.steps.values()
        if any(payload.base is not None for step in steps for payload in step.payloads):
            steps = _with_chains(steps, self.inputs)
        return sorted(steps, key=lambda step: step.record.index)

    def outputs(self) -> Iterator[Dated]:
        """Yield the outputs of completed steps, in order."""
        for step in self.ordered():
            if step.record.status is StepStatus.COMPLETED:
                yield from ((step.record.superstep, payload) for payload in step.payloads if payload.name)

    def made(self) -> list[Payload]:
        """Return the outputs of completed steps, without what they extend."""
        done = (step for step in self.steps.values() if step.record.status is StepStatus.COMPLETED)
        return [payload for step in done for payload in step.payloads if payload.name]

    def given(self) -> list[Dated]:
        """Return the inputs in the order in which they count."""
        return sorted(self.inputs, key=lambda item: (item[0], item[1].version))

    def trim(self, before: int, encoding: Encoding) -> None:
        """Drop values that no state at or after a superstep contains; what extends them becomes whole."""
        at_last = [payload for at, payload in self.outputs() if at == before]
        needed = {
            _at(part): part if part.is_added else _whole(part, self.workflow.id, encoding)
            for payload in (*_upto(self.outputs(), before), *at_last)
            for part in (*(payload.parts if payload.is_added else ()), payload)
        }
        for at, step in list(self.steps.items()):
            if at[0] <= before:
                kept = [_kept(payload, needed, at[0] < before) for payload in step.payloads]
                self.steps[at] = step._replace(payloads=kept)
        done: dict[str, int] = {}  # those of a visit that has not ended are needed to resume it
        for superstep, node in (
            at for at, s in self.steps.items() if s.record.status is StepStatus.COMPLETED
        ):
            done[node] = max(done.get(node, -1), superstep)
        self.inner = {
            at: (node, _kept(payload, {}, payload.superstep < min(before, done.get(node, -1) + 1)))
            for at, (node, payload) in self.inner.items()
        }
        given = {_at(payload): payload for payload in _upto(self.given(), before)} | needed
        self.inputs = [(at, _kept(payload, given, at < before)) for at, payload in self.inputs]


def _decoded(step: EncodedStep, encoding: Encoding, values: bool) -> StepRecord:
    record, payloads, _, _ = step
    owner = record.workflow_id, record.node_name
    with_values = values and record.values is not None
    return _changed_step(record, **encoding.contents(owner, record.output_versions, payloads, with_values))


def place(step: EncodedStep) -> Place:
    """Return where a step belongs."""
    return step.record.superstep, step.record.node_name


def bare(step: EncodedStep) -> EncodedStep:
    """Return the step without what its payloads hold; an empty dict says that it has values."""
    values: dict[str, Any] | None = None if step.record.values is None else {}
    return step._replace(record=_changed_step(step.record, values=values, pause=None, answer=None, lost={}))


def _upto(dated: Iterable[Dated], last: int) -> list[Payload]:
    """Return the latest payload of each name up to and including a superstep."""
    return latest(payload for at, payload in dated if at <= last)


def _with_chains(steps: Iterable[EncodedStep], inputs: Iterable[Dated]) -> Iterator[EncodedStep]:
    """Yield the steps, growing values with what they extend: the last results of earlier supersteps.

    Items of a list come with all that was added since it began, and with what it began with.
    """
    lists: dict[str, list[Payload]] = {}
    for _, payload in sorted(inputs, key=lambda item: item[0]):
        lists.setdefault(payload.name, []).append(payload)

    def parts(payload: Payload) -> tuple[Payload, ...]:
        if not payload.is_added:
            return chains.get(payload.name, ())
        first, here = payload.base or 0, payload.superstep
        return tuple(part for part in lists.get(payload.name, ()) if first <= part.superstep <= here)

    chains: dict[str, tuple[Payload, ...]] = {}
    in_order = sorted(steps, key=lambda step: (step.record.superstep, step.record.index))
    for _, siblings in groupby(in_order, key=lambda step: step.record.superstep):
        latest: dict[str, Payload] = {}
        for step in siblings:
            yield step._replace(
                payloads=[
                    payload if payload.base is None else payload._replace(parts=parts(payload))
                    for payload in step.payloads
                ]
            )
            if step.record.status is StepStatus.COMPLETED:
                for payload in step.payloads:
                    lists.setdefault(payload.name, []).append(payload)
                latest.update((payload.name, payload) for payload in step.payloads)
        for name, payload in latest.items():
            chains[name] = (*(() if payload.base is None else chains.get(name, ())), payload)


def _whole(payload: Payload, workflow_id: str, encoding: Encoding) -> Payload:
    return payload if payload.base is None else encoding.made_whole(workflow_id, payload)


def _at(payload: Payload) -> tuple[str, int, int]:
    return payload.name, payload.superstep, payload.idx


def _kept(payload: Payload, needed: dict[tuple[str, int, int], Payload], is_old: bool) -> Payload:
    if _at(payload) in needed:
        return needed[_at(payload)]
    if not is_old or payload.data is None or payload.name in APART:
        return payload
    return payload._replace(data=None, checksum=0, format=DROPPED, base=None)


def _sorted_page(query: Query, matching: list[Workflow]) -> Page:
    """Return one page in another order than that of time; workflows without the value come last."""
    attribute, is_down = ordered_by(query.order)
    without = [workflow for workflow in matching if getattr(workflow, attribute) is None]
    others = [workflow for workflow in matching if getattr(workflow, attribute) is not None]
    others.sort(key=lambda workflow: _comparable(getattr(workflow, attribute)), reverse=is_down)
    begin = int(query.cursor or 0)
    page = [*others, *without][begin:][: query.limit]
    end = begin + len(page)
    return page, len(matching), str(end) if end < len(matching) else None


def _comparable(value: Any) -> Any:
    return getattr(value, "value", value)  # a status is sorted by its name
