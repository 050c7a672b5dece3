"""The verbs of a backend: what a place for workflows implements, and what the conformance suite tests.

A backend keeps records and encoded values; it knows no serializer. Verbs that read or rewrite values are
handed the `Encoding` of the store. All verbs are synchronous and may be called from any thread. Reading an
unknown id gives nothing, never an error. Trouble with the place itself is a CheckpointError.

A backend writes the eighteen abstract members of `Backend`, which come first, and the eight of `Live`. All
others have a default that is made of these, and are overridden where a backend has a shorter way.
"""

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from datetime import datetime
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, TypeVar

from hypergraph.checkpointers.encoding import Encoding
from hypergraph.checkpointers.query import Query
from hypergraph.checkpointers.records import (
    Ahead,
    Claim,
    Commit,
    EncodedAnswer,
    EncodedSignal,
    EncodedStep,
    NewWorkflow,
    Ownership,
    Payload,
    StepRecord,
    Turn,
    Usage,
    Workflow,
    each_of,
    latest,
    no_copy,
    since_whole,
    taken,
    turns_of,
    unknown,
)
from hypergraph.checkpointers.sql.columns import micros
from hypergraph.checkpointers.status import StepStatus, WorkflowStatus, settled
from hypergraph.exceptions import CheckpointError, WorkflowLockedError

if TYPE_CHECKING:
    from hypergraph.checkpointers.background import Writer
    from hypergraph.checkpointers.live import Live
    from hypergraph.checkpointers.policy import CheckpointPolicy

T = TypeVar("T")

Position = tuple[int, int]  # the superstep and the index of a step
START: Position = (-1, -1)  # before all of them
Page = tuple[list[Workflow], int, str | None]  # workflows, the number of all matches, the next cursor
_FAR = 2**62  # no index comes after it
_FIELDS = [item.name for item in fields(Workflow)]


class StepTally(NamedTuple):
    """The number of steps of one node that ended with the same status."""

    node: str  # its name
    status: StepStatus  # how they ended
    cached: bool  # whether the outputs came from the cache
    steps: int  # how many
    total_ms: float  # of all of them
    first: int  # index of the first of them
    last: int  # and of the last
    superstep: int  # the highest one


class NodeSurvey(NamedTuple):
    """The figures of one node over many workflows."""

    node: str  # its name
    steps: int  # how many executions
    failed: int
    cached: int
    total_ms: float  # of all of them
    p50_ms: float | None  # of those that completed without the cache
    p95_ms: float | None
    usage: dict[str, float]  # what they recorded


def percentile(ordered: Sequence[float], share: float) -> float | None:
    """Return the smallest time that at least this share of the times does not exceed."""
    return ordered[math.ceil(share * len(ordered)) - 1] if ordered else None


class StepOutline(NamedTuple):
    """The columns of one step that a drawing of a whole history shows."""

    superstep: int
    idx: int
    node: str
    status: str
    ended: int  # microseconds since 1970
    duration_ms: float | None
    cached: bool
    attempt: int
    visit: int = 1
    child: str | None = None  # the workflow of a nested graph
    replayed: bool = False
    decision: str | list[str] | None = None  # the targets that a gate chose
    waited_ms: float | None = None  # for a worker or a free slot, before it began

    @classmethod
    def of(cls, step: StepRecord) -> "StepOutline":
        """Return the outline of a record."""
        return cls(
            *(step.superstep, step.index, step.node_name, step.status.value),
            *(micros(step.completed_at or step.created_at) or 0, step.duration_ms, step.cached, step.attempt),
            *(step.visit, step.child_workflow_id, step.replayed, step.decision),
            step.waited_ms,
        )


class Contents(NamedTuple):
    """What one run was given, made and failed with; values are encoded, without what they extend."""

    inputs: list[Payload]  # of all turns
    outputs: list[tuple[str, Payload]]  # with the names of the nodes that made them
    errors: list[tuple[str, str | None, str]]  # node, type and message


class Beside(NamedTuple):
    """What is kept of a workflow beside its steps."""

    inner: Sequence[tuple[str, Payload]] = ()  # see `Backend.read_inner`
    signals: Sequence[EncodedSignal] = ()  # see `Backend.read_signals`
    announced: Sequence[tuple[int, str]] = ()  # see `Backend.read_announced`
    usage: Sequence[Usage] = ()  # see `Backend.read_usage`


class ItemOutline(NamedTuple):
    """The columns of one item of a map that a list shows."""

    item: int
    id: str
    status: str
    duration_ms: float | None
    fingerprint: str | None = None  # its key, if the map has one


@dataclass(frozen=True, slots=True)
class Owner:
    """The process that holds the claim on a workflow, or the queues of a cluster, in which it waits."""

    pid: int  # of the process; 0: the workflow waits in a queue
    host: str  # where it runs
    since: datetime  # when it took the claim
    alive: bool  # False: the process is gone, and the claim with it


position_of: Callable[[StepRecord], Position] = attrgetter("superstep", "index")


class Backend(ABC):
    """A place where workflows are kept: its `kind`, and eighteen abstract members."""

    kind: ClassVar[str]  # as in "sqlite"

    # --- to be written: changing ----------------------------------------------------------------

    @abstractmethod
    def claim(
        self, workflow_id: str, new: NewWorkflow, encoding: Encoding, *, force: bool = False
    ) -> Ownership:
        """Take the workflow, creating it ACTIVE if there is none.

        `force` takes it even from an owner that is alive, and resets its count of crashes.

        Raises:
            InvalidWorkflowIdError: a new workflow cannot have this id.
            WorkflowLockedError: the owner is alive.
        """

    @abstractmethod
    def write(self, commit: Commit) -> None:
        """Make one commit durable.

        Raises:
            OwnershipLostError: the claim is not the newest, or a step is recorded already.
        """

    @abstractmethod
    def release(self, claim: Claim) -> None:
        """Give the workflow back; a claim that another process has taken over is left alone."""

    @abstractmethod
    def put_step(self, step: EncodedStep, encoding: Encoding) -> None:
        """Record a step, in place of one of the same superstep and node; an unknown workflow is created.

        Raises:
            WorkflowLockedError: the workflow has an owner.
        """

    @abstractmethod
    def put_answers(self, answers: Sequence[EncodedAnswer]) -> None:
        """Add answers to steps that wait for one, also of a workflow with an owner: all of them, or none.

        One that `replaces` takes the place of an answer of version 0: of two at once, one counts. A workflow
        that is paused or under way is due from now on, and so are those around it.

        Raises:
            WorkflowError: a step does not wait any more, or has an answer (to be replaced: of version 0).
        """

    @abstractmethod
    def put_signal(self, workflow_id: str, payload: Payload) -> bool:
        """Keep a value that was sent to a workflow, also to one with an owner.

        Returns False, and keeps nothing, if its index is not the next one of its name, from 1 on.

        Raises:
            WorkflowNotFoundError: the workflow does not exist.
            WorkflowError: it has completed.
        """

    @abstractmethod
    def take_signal(self, workflow_ids: Sequence[str], name: str, taker: str) -> tuple[str, Payload] | None:
        """Return the first kept value of a name, of the first of these workflows that has one, and of which.

        From then on it belongs to the taker, who is given the same one again. None if there is none.
        """

    @abstractmethod
    def set_tags(self, workflow_id: str, changes: Mapping[str, str | None]) -> dict[str, str]:
        """Set tags, also of a workflow with an owner, remove those under None, and return the result.

        Raises:
            WorkflowNotFoundError: the workflow does not exist.
        """

    @abstractmethod
    def delete(self, workflow_ids: Iterable[str]) -> int:
        """Remove these workflows and their children; return how many. Forks of them stay whole.

        Deletions that a crash has interrupted are finished, also without any ids.

        Raises:
            WorkflowLockedError: one of them has an owner.
        """

    @abstractmethod
    def trim(self, workflow_id: str, encoding: Encoding, *, before: int) -> None:
        """Drop values that no state at or after superstep `before` contains; the records stay."""

    @property
    @abstractmethod
    def live(self) -> "Live":
        """What running nodes show: a part with verbs of its own."""

    # --- to be written: reading -----------------------------------------------------------------

    @abstractmethod
    def snapshot(self, work: Callable[[Self], T]) -> T:
        """Return what `work` returns, called with a view of this backend that reads in one transaction."""

    @abstractmethod
    def find(self, query: Query) -> Page:
        """Return the workflows asked for, newest first, the number of all, and the next cursor.

        Raises:
            ValueError: this backend did not give out the cursor.
        """

    @abstractmethod
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
        """Return the steps in order of their index, up to and including superstep `upto`.

        Only those of one `node`, or the one of an `index`. With `after` or `limit` it is a page: the next
        `limit` steps after a position, by superstep and index. Without `values` no value is decoded.
        """

    @abstractmethod
    def read_versions(
        self, workflow_id: str, name: str | None = None, *, upto: int | None = None
    ) -> list[Payload]:
        """Return all that is stored up to superstep `upto`, maybe under one name, without what it extends.

        What was given comes first, then what completed steps have made, in order of superstep and index.
        """

    @abstractmethod
    def read_beside(self, workflow_id: str) -> Beside:
        """Return all that is kept beside the steps: what is inside of them, sent, announced and used."""

    @abstractmethod
    def read_owners(self, workflow_ids: Iterable[str]) -> dict[str, Owner]:
        """Return the processes that hold claims on these workflows; those without an owner are left out."""

    @abstractmethod
    def read_fences(self, workflow_ids: Iterable[str]) -> dict[str, int]:
        """Return the fences of the newest claims; workflows that are held, or do not exist, are left out.

        A claim whose fence is the next one finds what was read at this moment: nothing was written since.
        """

    # --- with a default: the place --------------------------------------------------------------

    writer: "Writer | None" = None  # writes in the background, once a run asks for that
    transactional: ClassVar[bool] = False  # whether users can write in the transaction of a step
    commit_seconds: float = 0.0  # the time that the last fully synced commit took

    @property
    def location(self) -> str:
        """The file, or the address without its password; empty for memory."""
        return ""

    def store_id(self) -> bytes:
        """Return the id that an encrypted store binds its values to; empty for memory."""
        return b""

    def open(self) -> None:
        """Prepare the place now instead of on first use; by default it needs nothing."""
        return

    def close(self) -> None:
        """Close files and connections; a later call opens them again. By default there are none."""
        return

    def recover(self) -> bool:
        """Finish what a crashed program left half done, before a program that writes reads anything.

        Return whether that was needed. Raises CheckpointError when that fails.
        """
        return False

    def is_locked(self) -> bool:
        """Return whether a read or write would have to wait now, for a lock or for the answer of a server."""
        return False

    def watch(self) -> Callable[[], Any]:
        """Return a cheap function whose result differs from the last one whenever something was written.

        It is called from one thread at a time.
        """
        return self.change_markers

    def change_markers(self, limit: int = 100) -> dict[str, Any]:
        """Return a marker of each of the newest and the active workflows, at most `limit` of either."""
        newest, _, _ = self.find(Query(top_level=False, limit=limit))
        active, _, _ = self.find(Query(statuses=frozenset({WorkflowStatus.ACTIVE}), limit=limit))
        return {
            found.id: (found.status.value, found.step_count, found.completed_at, dict(found.tags))
            for found in (*newest, *active)
        }

    def artifact_references(self) -> list[str]:
        """Return the references to artifacts that stored values hold, as texts."""
        return []

    def backup(self, path: str, encoding: Encoding) -> None:
        """Write a consistent copy of all workflows to a new SQLite file.

        Raises:
            CheckpointError: the file exists, or this kind of backend has no backup.
        """
        raise no_copy(path)

    # --- with a default: changing ---------------------------------------------------------------

    def create(self, workflow_id: str, new: NewWorkflow, encoding: Encoding) -> None:
        """Add an ACTIVE workflow without an owner. Raises CheckpointError if the id exists."""
        if self.read_workflow(workflow_id) is None:
            claim = self.claim(workflow_id, new, encoding)
            self.release(claim)
            if claim.existing is None:
                return
        raise taken(workflow_id)

    def set_status(self, workflow_id: str, status: WorkflowStatus) -> None:
        """Change the status.

        Raises:
            WorkflowLockedError: the workflow has an owner.
            WorkflowNotFoundError: the workflow does not exist.
        """
        found = self.read_workflow(workflow_id)
        if found is None:
            raise unknown(workflow_id)
        with self._held(found) as claim:
            self.write(Commit(claim, status=status))

    def settle_map(self, workflow_id: str, *, is_whole: bool = False) -> None:
        """Bring a map up to date after an item ran by itself: its status, and when it is due.

        `is_whole` says that every item has begun.
        """
        written: Any = None
        while (found := self.read_workflow(workflow_id)) is not None:
            if found.status is WorkflowStatus.ACTIVE:
                return  # its own end brings it up to date
            items = self.children(workflow_id)
            status = settled(found.status, [item.status for item in items], is_whole=is_whole)
            due = min((item.due for item in items if item.due is not None), default=None)
            awaits = Counter(name for item in items for name in Counter(item.awaits).elements())
            wanted = status, due, awaits
            if wanted in ((found.status, found.due, found.awaits), written):
                return
            try:
                with self._held(found) as claim:
                    self.write(Commit(claim, status=status, due=due, awaits=awaits))
            except WorkflowLockedError:
                return  # who holds it looks again: so do we, for an item that has ended meanwhile
            written = wanted

    def raise_fence(self, workflow_id: str, least: int | None = None) -> None:
        """Say that a workflow without owner has changed, or give it a fence of at least `least`."""
        found, fence = self.read_workflow(workflow_id), self.read_fences([workflow_id]).get(workflow_id)
        if found is None or fence is None:
            return
        with suppress(WorkflowLockedError):
            for _ in range(1 if least is None else least - fence):
                with self._held(found):  # each claim raises it by one
                    pass

    @contextmanager
    def _held(self, found: Workflow) -> Iterator[Ownership]:
        """Hold a workflow that exists."""
        claim = self.claim(found.id, NewWorkflow(parent_id=found.parent_id), Encoding())
        try:
            yield claim
        finally:
            self.release(claim)

    def try_write(self, commit: Commit) -> bool:
        """Make one commit durable, as `write` does, but return False where it would have to wait."""
        self.write(commit)
        return True

    def write_all(self, commits: Sequence[Commit]) -> list[CheckpointError | None]:
        """Make commits durable together, each on its own; return the error of each, None for success.

        After one that failed, the others of the same claim fail with it.
        """

        def outcome(commit: Commit) -> CheckpointError | None:
            try:
                self.write(commit)
            except CheckpointError as error:
                return error
            return None

        return each_of(commits, outcome)

    def transact(
        self, claim: Ownership, node: str, call: Callable[[Any], tuple[Commit, T]]
    ) -> tuple[Commit, T]:
        """Return what `call` returns: a commit that is written in the transaction of the call, and a result.

        It is called with a connection of the driver, inside of the transaction. What it raises ends the
        transaction, and is raised. Only a backend in a database has transactions.

        Raises:
            OwnershipLostError: the claim is not the newest, or a step is recorded already.
        """
        raise NotImplementedError(f"{self.kind} has no transactions")

    def retain(self, workflow_id: str, policy: "CheckpointPolicy", encoding: Encoding) -> None:
        """Drop the values of a workflow that the retention policy does not keep."""
        if policy.retention != "full":
            last = self.last_superstep(workflow_id) or 0
            self.trim(workflow_id, encoding, before=last + 1 - (policy.window or 1))

    # --- with a default: workflows --------------------------------------------------------------

    def read_workflow(self, workflow_id: str) -> Workflow | None:
        """Return the workflow, None if there is none."""
        found, _, _ = self.find(Query(ids=frozenset({workflow_id}), top_level=False, limit=1))
        return found[0] if found else None

    def children(self, workflow_id: str) -> list[Workflow]:
        """Return the workflows below this one, oldest first."""
        return self.find(Query(parent=workflow_id, limit=None))[0][::-1]

    def read_items(self, workflow_id: str) -> list[ItemOutline]:
        """Return the items of a map, in their order."""
        return sorted(
            ItemOutline(child.item, child.id, child.status.value, child.duration_ms, child.fingerprint)
            for child in self.children(workflow_id)
            if child.item is not None
        )

    def ids(self, query: Query) -> list[str]:
        """Return the ids of the workflows that `find` returns."""
        return [workflow.id for workflow in self.find(query)[0]]

    def find_ids(self, prefix: str, *, parent: str | None = None, limit: int = 20) -> list[str]:
        """Return up to `limit` ids that begin with a text: of children of `parent`, or without a parent."""
        found, _, _ = self.find(Query(parent=parent, limit=None))
        return sorted(workflow.id for workflow in found if workflow.id.startswith(prefix))[:limit]

    def summaries(self, query: Query) -> tuple[list[dict[str, Any]], int, str | None]:
        """Return the result of `find` with the fields of each workflow instead of the workflow."""
        found, total, cursor = self.find(query)
        return [{name: getattr(workflow, name) for name in _FIELDS} for workflow in found], total, cursor

    def count_failed(self, workflow_ids: Iterable[str]) -> dict[str, int]:
        """Return how many items of maps failed below workflows, or, without any, how many nested runs.

        Of a node that ran several times, the last run counts. Workflows without failures are left out.
        """
        found: dict[str, int] = {}
        for workflow_id in workflow_ids:
            items, others, family = 0, 0, [workflow_id]
            while family:
                below = self.children(family.pop())
                last = {
                    (child.node_name, child.item): child for child in sorted(below, key=attrgetter("visit"))
                }
                for child in last.values():
                    has_failed = child.status is WorkflowStatus.FAILED
                    items += has_failed and child.item is not None
                    others += has_failed and child.item is None
                    family += [] if has_failed and child.item is not None else [child.id]
            if items or others:
                found[workflow_id] = items or others
        return found

    def total_usage(self, workflow_ids: Iterable[str]) -> dict[str, dict[str, float]]:
        """Return the sums of what was recorded in each workflow and those below it, if there are any."""
        found: dict[str, dict[str, float]] = {}
        for workflow_id in workflow_ids:
            total: dict[str, float] = {}
            family = [workflow_id]
            while family:
                below = family.pop()
                family += [child.id for child in self.children(below)]
                for row in self.read_usage(below):
                    total[row.name] = total.get(row.name, 0) + row.amount
            if total:
                found[workflow_id] = total
        return found

    def survey(self, graph: str | None, node: str | None, since: datetime | None) -> list[NodeSurvey] | None:
        """Return the figures of each node over all workflows, None where records must be read for them."""
        return None

    def read_contents(self, workflow_ids: Sequence[str]) -> dict[str, Contents] | None:
        """Return values and errors of many runs at once, None where that is not shorter than one by one."""
        return None

    def ahead(self, workflow_id: str) -> Ahead | None:
        """Return what was read of a workflow before it begins, together with others; None if it was not."""
        return None

    # --- with a default: the steps of one workflow ----------------------------------------------

    def read_outlines(
        self, workflow_id: str, *, after: Position = START, limit: int | None = None
    ) -> list[StepOutline]:
        """Return the outlines of the next `limit` steps `after` a position, by superstep and index."""
        found = self.read_steps(workflow_id, Encoding(), after=after, limit=limit, values=False)
        return [StepOutline.of(step) for step in found]

    def read_steps_at(
        self, workflow_id: str, encoding: Encoding, places: Iterable[tuple[int, str]]
    ) -> list[StepRecord]:
        """Return the steps of these supersteps and nodes that there are, without their values."""
        wanted = set(places)
        found = self.read_steps(workflow_id, encoding, values=False)
        return [step for step in found if (step.superstep, step.node_name) in wanted]

    def read_following(self, workflow_id: str, superstep: int) -> list[str]:
        """Return the nodes of the first superstep after this one that has any, in order of their index."""
        later = self.read_outlines(workflow_id, after=(superstep, _FAR))
        return [step.node for step in later if step.superstep == later[0].superstep]

    def last_superstep(self, workflow_id: str) -> int | None:
        """Return the highest superstep that has a step, None if there is none."""
        return max((tally.superstep for tally in self.tally_steps(workflow_id)), default=None)

    def last_visit(self, workflow_id: str, node: str) -> int:
        """Return how often a node has completed, by its last completed step; 0 if it has not."""
        done = [
            s.visit for s in self.read_outlines(workflow_id) if s.node == node and s.status == "completed"
        ]
        return max(done, default=0)

    def tally_steps(self, workflow_id: str) -> list[StepTally]:
        """Return the number of steps by node, status and cached, in order of their first index."""
        groups: dict[tuple[str, StepStatus, bool], list[StepOutline]] = {}
        for step in sorted(self.read_outlines(workflow_id), key=lambda step: step.idx):
            groups.setdefault((step.node, StepStatus(step.status), step.cached), []).append(step)
        return [
            StepTally(
                *(*alike, len(found), sum(step.duration_ms or 0 for step in found)),
                *(found[0].idx, found[-1].idx, max(step.superstep for step in found)),
            )
            for alike, found in groups.items()
        ]

    def tally_items(self, workflow_id: str) -> list[StepTally]:
        """Return the number of steps of all items of a map, by node, status and cached."""
        groups: dict[tuple[str, StepStatus, bool], list[StepTally]] = {}
        for item in self.read_items(workflow_id):
            for tally in self.tally_steps(item.id):
                groups.setdefault((tally.node, tally.status, tally.cached), []).append(tally)
        found = [
            StepTally(
                *(*alike, sum(tally.steps for tally in same), sum(tally.total_ms for tally in same)),
                *(min(tally.first for tally in same), max(tally.last for tally in same)),
                max(tally.superstep for tally in same),
            )
            for alike, same in groups.items()
        ]
        return sorted(found, key=lambda tally: (tally.first, tally.node, tally.status.value))

    def read_summary(self, workflow_id: str) -> Payload | None:
        """Return the encoded summary that was written last, None if there is none.

        A backend may drop a summary at any time, and must when `put_step` changes the history.
        """
        return None

    def read_inner(
        self, workflow_id: str, *, node: str | None = None, visit: int | None = None
    ) -> list[tuple[str, Payload]]:
        """Return the encoded inner steps, of one node or visit or of all, each with the name of its node.

        They come in the order in which they began. The version of a payload is the visit of the node.
        """
        return [
            (name, payload)
            for name, payload in self.read_beside(workflow_id).inner
            if node in (None, name) and visit in (None, payload.version)
        ]

    def count_inner(self, workflow_id: str) -> dict[tuple[int, str], int]:
        """Return how many inner steps each node has, by superstep and node; those without are left out."""
        found: dict[tuple[int, str], int] = {}
        for node, payload in self.read_inner(workflow_id):
            found[payload.superstep, node] = found.get((payload.superstep, node), 0) + 1
        return found

    def read_signals(self, workflow_id: str) -> list[EncodedSignal]:
        """Return what was sent to a workflow, received or not, by name and in order."""
        return list(self.read_beside(workflow_id).signals)

    def read_announced(self, workflow_id: str) -> list[tuple[int, str]]:
        """Return the steps that were announced and have no record, as superstep and node, in order."""
        return list(self.read_beside(workflow_id).announced)

    def read_usage(self, workflow_id: str) -> list[Usage]:
        """Return what the nodes of a workflow have recorded; what it has copied from another is not there."""
        return list(self.read_beside(workflow_id).usage)

    # --- with a default: the values of one workflow ---------------------------------------------

    def read_inputs(self, workflow_id: str, *, upto: int | None = None) -> list[Payload]:
        """Return the latest encoded value of each input given at or before superstep `upto`."""
        return latest(each for each in self.read_versions(workflow_id, upto=upto) if each.idx < 0)

    def read_outputs(self, workflow_id: str, *, upto: int | None = None) -> list[Payload]:
        """Return the latest encoded value of each output of completed steps up to superstep `upto`."""
        return [self.linked(workflow_id, each) for each in self._newest(workflow_id, upto=upto)]

    def read_output(self, workflow_id: str, name: str) -> Payload | None:
        """Return the latest encoded value of one output, with the chain that it extends."""
        found = self._newest(workflow_id, name)
        return self.linked(workflow_id, found[0]) if found else None

    def _newest(self, workflow_id: str, name: str | None = None, *, upto: int | None = None) -> list[Payload]:
        """Return the latest value of each output, or of one, without what it extends."""
        made = [each for each in self.read_versions(workflow_id, name, upto=upto) if each.idx >= 0]
        return latest(sorted(made, key=attrgetter("idx")))

    def read_newest(self, workflow_id: str) -> list[Payload]:
        """Return the latest encoded value of each output, as far as it costs nothing with what it extends."""
        return self._newest(workflow_id)

    def linked(self, workflow_id: str, payload: Payload) -> Payload:
        """Return one of the payloads that `read_newest` gave with what it extends."""
        if payload.base is None or payload.parts:
            return payload
        here = payload.superstep, payload.idx
        found = self.read_versions(workflow_id, payload.name, upto=payload.superstep)
        found = [each for each in found if each.superstep >= payload.base]
        if payload.is_added:  # to a list, which may have begun with what was given
            before = [each for each in found if each.idx < 0 or (each.superstep, each.idx) < here]
            return payload._replace(parts=tuple(before))
        made = [each for each in found if each.idx >= 0 and each.superstep < payload.superstep]
        return payload._replace(parts=since_whole(made))

    def read_turns(self, workflow_id: str, *, after: int = -1) -> list[Turn]:
        """Return when inputs entered, and which, in order; those after a superstep, else there is a first."""
        given = [each for each in self.read_versions(workflow_id) if each.idx < 0]
        return turns_of([(each.superstep, each.name) for each in given if each.superstep > after], after)
