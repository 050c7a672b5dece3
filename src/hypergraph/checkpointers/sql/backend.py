"""SqlBackend: workflows in the tables of an SQL database."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cache, partial
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from hypergraph.checkpointers import fault_points
from hypergraph.checkpointers.backend import (
    START,
    Backend,
    Beside,
    Contents,
    ItemOutline,
    NodeSurvey,
    Owner,
    Page,
    Position,
    StepOutline,
    StepTally,
)
from hypergraph.checkpointers.encoding import Encoding
from hypergraph.checkpointers.names import check_workflow_id
from hypergraph.checkpointers.query import Query
from hypergraph.checkpointers.records import (
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
    owned,
    taken_over,
)
from hypergraph.checkpointers.sql import queries, reads, writes
from hypergraph.checkpointers.sql.columns import EPOCH, NONSENSE, corrupt, or_corrupt, time_of
from hypergraph.checkpointers.sql.connection import Connection, Database
from hypergraph.checkpointers.sql.live import SqlLive
from hypergraph.checkpointers.sql.writes import recode, reseal
from hypergraph.checkpointers.sqlite.migrations import INPUT, OUTPUT
from hypergraph.checkpointers.status import WorkflowStatus
from hypergraph.checkpointers.transactions import Raised, UserConnection
from hypergraph.exceptions import CheckpointError, reraise

P = ParamSpec("P")
T = TypeVar("T")


class SqlBackend(Backend):
    """Workflows in the tables of an SQL database."""

    def __init__(self, database: Database) -> None:
        self.database = database  # the connections of this process
        self._connection: Connection | None = None  # of a snapshot, as long as that lasts
        self._has_one = True  # whether the state that was read last has one value: then less is asked for

    @property
    def location(self) -> str:
        """The file, or the address without its password."""
        return self.database.path

    def open(self) -> None:
        """Open the database now, creating or migrating its tables."""
        self.database.open()

    def close(self) -> None:
        """Close the connections; a later call opens them again."""
        self.database.close()

    # --- reading ------------------------------------------------------------------------------

    transactional = True

    def snapshot(self, work: Callable[[Self], T]) -> T:
        """Return what `work` returns, called with a view of this backend that reads in one transaction."""
        if self._connection is not None:
            return work(self)

        def read(connection: Connection) -> T:
            view = copy.copy(self)
            view._connection = connection
            try:
                return work(view)
            finally:
                view._connection = None  # what reads on demand later has a transaction of its own

        return self.database.read(read)

    def _read(self, read: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            if self._connection is not None:
                return read(self._connection, *args, **kwargs)
            return self.database.read(read, *args, **kwargs)
        except NONSENSE as error:
            raise corrupt(error) from error

    @property
    def live(self) -> SqlLive:
        """What running nodes show."""
        return SqlLive(self.database, self._read)

    def _ask(self, read: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return what a function reads by keys with one statement, which needs no transaction."""
        try:
            if self._connection is not None:
                return read(self._connection, *args, **kwargs)
            return self.database.ask(read, *args, **kwargs)
        except NONSENSE as error:
            raise corrupt(error) from error

    def read_workflow(self, workflow_id: str) -> Workflow | None:
        """Return the workflow, None if there is none."""
        found = self._ask(reads.workflow, workflow_id)
        return found and self._with_graph(found)

    def read_fences(self, workflow_ids: Iterable[str]) -> dict[str, int]:
        """Return the fences of the newest claims; workflows that are held are left out."""
        return self._ask(reads.fences, list(workflow_ids))

    def read_owners(self, workflow_ids: Iterable[str]) -> dict[str, Owner]:
        """Return the processes that hold claims on these workflows; those without an owner are left out."""
        rows = self._read(reads.owners, workflow_ids)
        return {workflow_id: self._owner(*row) for workflow_id, row in rows.items()}

    @or_corrupt
    def _owner(self, key: int, fence: int, pid: int, address: str, since: int | None) -> Owner:
        lives = self._lives(key, fence, pid, address)
        if type(pid) is not int:
            raise ValueError(f"a process of type {type(pid).__name__}")
        return Owner(pid, address.partition(" ")[0], time_of(since) or EPOCH, lives)

    def _lives(self, key: int, fence: int, pid: int, address: str) -> bool:
        try:
            return self.database.locks.lives(key, fence, pid, address)
        except Exception as error:  # of the system, or of a driver that is not always installed
            raise self.database.translated(error) from error

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
        if index is not None:
            return self._read(reads.step, workflow_id, encoding, index, values=values)
        if after is None and limit is None:
            return self._read(reads.steps, workflow_id, encoding, upto=upto, node=node, values=values)
        return self._read(
            reads.page_of_steps,
            workflow_id,
            encoding,
            after=after or START,
            limit=limit,
            upto=upto,
            node=node,
            values=values,
        )

    def last_superstep(self, workflow_id: str) -> int | None:
        """Return the highest superstep that has a step, None if there is none."""
        return self._read(reads.last_superstep, workflow_id)

    def last_visit(self, workflow_id: str, node: str) -> int:
        """Return how often a node has completed; steps since it did are passed over, from the last one."""
        return self._read(reads.last_visit, workflow_id, node)

    def tally_steps(self, workflow_id: str) -> list[StepTally]:
        """Return how the steps of each node ended; see `Backend.tally_steps`."""
        return self._read(reads.tallies, workflow_id)

    def survey(self, graph: str | None, node: str | None, since: datetime | None) -> list[NodeSurvey]:
        """Return the figures of each node over all workflows; no record is built."""
        return self._read(reads.survey, graph, node, since)

    def read_contents(self, workflow_ids: Sequence[str]) -> dict[str, Contents]:
        """Return values and errors of many runs, by two statements."""
        return self._read(reads.contents, workflow_ids)

    def tally_items(self, workflow_id: str) -> list[StepTally]:
        """Return how the steps of all items ended; see `Backend.tally_items`."""
        return self._read(reads.item_tallies, workflow_id)

    def read_outlines(
        self, workflow_id: str, *, after: Position = START, limit: int | None = None
    ) -> list[StepOutline]:
        """Return the outlines of the next steps after a position; no record is built."""
        return self._read(reads.outlines, workflow_id, after, limit)

    def read_items(self, workflow_id: str) -> list[ItemOutline]:
        """Return the items of a map, in their order; no record is built."""
        return self._read(reads.items, workflow_id)

    def change_markers(self, limit: int = 100) -> dict[str, Any]:
        """Return a marker of each of the newest and the active workflows."""
        return self._read(reads.change_markers, limit)

    def find_ids(self, prefix: str, *, parent: str | None = None, limit: int = 20) -> list[str]:
        """Return ids that begin with a text, of children of a workflow or of those without parent."""
        return self._read(reads.find_ids, prefix, parent, limit)

    def store_id(self) -> bytes:
        """Return the id that was made when it was first asked for."""
        return self.database.read(reads.identity) or self.database.write(writes.identity)

    def read_outputs(self, workflow_id: str, *, upto: int | None = None) -> list[Payload]:
        """Return the latest encoded value of each output; one seek per name."""
        if self._has_one:
            only = self._ask(reads.only_output, workflow_id, upto)
            if only is not None:
                return only
        found = self._read(reads.payloads, workflow_id, OUTPUT, upto)
        self._has_one = len(found) < 2 and all(each.base is None for each in found)
        return found

    def read_inputs(self, workflow_id: str, *, upto: int | None = None) -> list[Payload]:
        """Return the latest encoded value of each input; one seek per name."""
        return self._read(reads.payloads, workflow_id, INPUT, upto)

    def read_versions(
        self, workflow_id: str, name: str | None = None, *, upto: int | None = None
    ) -> list[Payload]:
        """Return all that is stored, maybe under one name: what was given, then what steps have made."""
        return self._read(reads.versions, workflow_id, name, upto)

    def read_turns(self, workflow_id: str, *, after: int = -1) -> list[Turn]:
        """Return when inputs entered, and which, in order; earlier ones are not touched."""
        return self._read(reads.turns, workflow_id, after)

    def read_inner(
        self, workflow_id: str, *, node: str | None = None, visit: int | None = None
    ) -> list[tuple[str, Payload]]:
        """Return the encoded inner steps, each with the name of its node."""
        return self._read(reads.inner, workflow_id, node, visit)

    def read_beside(self, workflow_id: str) -> Beside:
        """Return all that is kept beside the steps."""
        inner, signals = self.read_inner(workflow_id), self.read_signals(workflow_id)
        return Beside(inner, signals, self.read_announced(workflow_id), self.read_usage(workflow_id))

    def count_inner(self, workflow_id: str) -> dict[tuple[int, str], int]:
        """Return how many inner steps each node has; see `Backend.count_inner`."""
        return self._read(reads.count_inner, workflow_id)

    def read_usage(self, workflow_id: str) -> list[Usage]:
        """Return what the nodes of a workflow have recorded."""
        return self._read(reads.usage, workflow_id)

    def count_failed(self, workflow_ids: Iterable[str]) -> dict[str, int]:
        """Return how many items, or else nested runs, failed below workflows; those without are left out."""
        return self._read(queries.count_failed, list(map(reads.findable, workflow_ids)))

    def total_usage(self, workflow_ids: Iterable[str]) -> dict[str, dict[str, float]]:
        """Return the sums of what was recorded in each workflow and those below it."""
        return self._read(reads.total_usage, list(workflow_ids))

    def read_following(self, workflow_id: str, superstep: int) -> list[str]:
        """Return the nodes of the first superstep after this one, in order of their index."""
        return self._read(reads.following, workflow_id, superstep)

    def read_newest(self, workflow_id: str) -> list[Payload]:
        """Return the latest encoded value of each output, without what it extends."""
        return self._read(reads.payloads, workflow_id, OUTPUT, None, chains=False)

    def linked(self, workflow_id: str, payload: Payload) -> Payload:
        """Return a payload with what it extends."""
        return self._read(reads.with_chain, workflow_id, payload)

    def read_summary(self, workflow_id: str) -> Payload | None:
        """Return the encoded summary of a workflow."""
        return self._ask(reads.summary, workflow_id)

    def read_steps_at(
        self, workflow_id: str, encoding: Encoding, places: Iterable[tuple[int, str]]
    ) -> list[StepRecord]:
        """Return the steps of these supersteps and nodes; each is a seek."""
        return self._read(reads.steps_at, workflow_id, encoding, list(places))

    def read_output(self, workflow_id: str, name: str) -> Payload | None:
        """Return the latest encoded value of an output, with the chain that it extends."""
        return self._read(reads.newest, workflow_id, name)

    def artifact_references(self) -> list[str]:
        """Return the references to artifacts that stored values hold."""
        return self._read(reads.artifact_references)

    def find(self, query: Query) -> Page:
        """Return the workflows asked for, newest first, the number of all, and the next cursor."""
        found, total, cursor = self._read(reads.page, query)
        return [self._with_graph(workflow) for workflow in found], total, cursor

    def ids(self, query: Query) -> list[str]:
        """Return the ids of the workflows asked for, in one statement."""
        return self._read(queries.ids, query)

    def _with_graph(self, workflow: Workflow) -> Workflow:
        # It was made for this call and is not shared yet; a copy would take as long as the rest.
        object.__setattr__(workflow, "load_graph", cache(lambda: self._read(reads.graph, workflow.id)))
        return workflow

    # --- writing ------------------------------------------------------------------------------

    def claim(
        self, workflow_id: str, new: NewWorkflow, encoding: Encoding, *, force: bool = False
    ) -> Ownership:
        """Take the workflow, creating it ACTIVE if there is none; see `Backend.claim`."""
        check_workflow_id(workflow_id, child=new.parent_id is not None)
        database = self.database
        inputs = encoding.inputs(workflow_id, new.inputs)
        if encoding.chain.encrypts:
            _ = encoding.store_id  # not inside of the transaction
        taken: list[Ownership] = []

        def work(connection: Connection) -> Ownership:
            taken.append(writes.claim(connection, database, workflow_id, new, inputs, force=force))
            claim = taken[-1]
            if new.copies and claim.existing is None and encoding.chain.encrypts:
                reseal(connection, claim.key, new.forked_from or "", workflow_id, encoding)
                recode(connection, claim.key, new.forked_from or "", workflow_id, encoding)
            return claim

        try:
            claim = database.write(work)
        except BaseException:
            for claim in taken:  # the lock is ours, but the commit failed
                database.locks.free(claim.key, claim.fence)
            raise
        for other in taken:  # a transaction that clashed with another's was tried again
            if (other.key, other.fence) != (claim.key, claim.fence):
                database.locks.free(other.key, other.fence)
        if fault_points.hook is not None:
            fault_points.point("claim.taken")
        if claim.existing is None:
            return claim
        return replace(claim, existing=self._with_graph(claim.existing))

    def transact(
        self, claim: Ownership, node: str, call: Callable[[Any], tuple[Commit, T]]
    ) -> tuple[Commit, T]:
        """Write a commit in the transaction of a call; see `Backend.transact`."""
        self._check_held(claim)
        found: list[tuple[Commit, T]] = []

        def work(connection: Connection) -> None:
            user = self._user_connection(connection, node)
            try:
                found.append(call(user))
                user.check_open()  # else the step would be committed without what it has written
            except BaseException as error:  # of the driver, too: not an error of the store
                raise Raised(error) from None
            finally:
                user.end()
            self._commit(connection, found[-1][0])

        try:
            self._transacted(work, found)
        except Raised as raised:
            reraise(raised.error)
        return found[-1]

    def _commit(self, connection: Connection, commit: Commit) -> None:
        """Write a commit in a transaction that has begun."""
        writes.commit(connection, commit, self.database)

    @abstractmethod
    def _transacted(self, work: Callable[[Connection], None], found: Sequence[tuple[Commit, Any]]) -> None:
        """Do the work in a transaction, once; it adds the commit to those found."""

    @abstractmethod
    def _user_connection(self, connection: Connection, node: str) -> UserConnection:
        """Return the connection for the function of a node, inside of a transaction."""

    def write_all(self, commits: Sequence[Commit]) -> list[CheckpointError | None]:
        """Make commits durable in one transaction, in which each stands or falls by itself."""

        def work(connection: Connection) -> list[CheckpointError | None]:
            write = partial(writes.commit_inside, connection, database=self.database)
            return each_of(commits, write)

        try:
            outcomes = self.database.write(work, full=any(commit.full for commit in commits))
        except CheckpointError as error:
            return [error] * len(commits)
        for commit, wrong in zip(commits, outcomes, strict=True):
            if wrong is None:
                self._settle(commit)
        return outcomes

    def release(self, claim: Claim) -> None:
        """Give the workflow back; a claim that another process has taken over is left alone."""
        mine = owned(claim)
        database, held = self.database, (mine.key, mine.fence)
        if held not in database.locks.held:
            return
        if fault_points.hook is not None:
            fault_points.point("release.before")
        try:
            if held not in database.settled:
                database.write(partial(writes.release, claim=mine))
        finally:
            database.settled.discard(held)
            database.locks.free(*held)
        if fault_points.hook is not None:
            fault_points.point("release.after")

    def _check_held(self, claim: Ownership) -> None:
        if (
            claim.key,
            claim.fence,
        ) not in self.database.locks.held:  # released, or the parent's before a fork
            raise taken_over(claim.workflow_id)

    def _settle(self, commit: Commit) -> None:
        """Remember whether a commit that was written has ended its workflow, and so the claim."""
        held = (commit.claim.key, commit.claim.fence)
        if commit.status is WorkflowStatus.ACTIVE:
            self.database.settled.discard(held)
        elif commit.status is not None:
            self.database.settled.add(held)

    def create(self, workflow_id: str, new: NewWorkflow, encoding: Encoding) -> None:
        """Add an ACTIVE workflow without an owner."""
        inputs = encoding.inputs(workflow_id, new.inputs)
        create, database = writes.create, self.database
        database.write(lambda connection: create(connection, workflow_id, new, database.now(), inputs))

    def set_status(self, workflow_id: str, status: WorkflowStatus) -> None:
        """Change the status of a workflow without an owner."""
        change, database = writes.change_status, self.database
        database.write(lambda connection: change(connection, database, workflow_id, status))

    def put_answers(self, answers: Sequence[EncodedAnswer]) -> None:
        """Add answers to steps that wait for one; see `Backend.put_answers`."""
        self.database.write(lambda connection: writes.put_answers(connection, answers))

    def put_signal(self, workflow_id: str, payload: Payload) -> bool:
        """Keep a value that was sent; see `Backend.put_signal`."""
        return self.database.write(lambda connection: writes.put_signal(connection, workflow_id, payload))

    def take_signal(self, workflow_ids: Sequence[str], name: str, taker: str) -> tuple[str, Payload] | None:
        """Return the next value that was sent; see `Backend.take_signal`."""
        return self.database.write(
            lambda connection: writes.take_signal(connection, workflow_ids, name, taker)
        )

    def read_signals(self, workflow_id: str) -> list[EncodedSignal]:
        """Return what was sent to a workflow, by name and in order."""
        return self._read(reads.signals, workflow_id)

    def read_announced(self, workflow_id: str) -> list[tuple[int, str]]:
        """Return the steps that were announced and have no record, as superstep and node, in order."""
        return self._read(reads.announced, workflow_id)

    def settle_map(self, workflow_id: str, *, is_whole: bool = False) -> None:
        """Bring a map up to date after one of its items ran by itself."""
        now = self.database.now
        self.database.write(lambda connection: writes.settle_map(connection, workflow_id, now, is_whole))

    def raise_fence(self, workflow_id: str, least: int | None = None) -> None:
        """Say that a workflow without owner has changed, or give it a fence of at least `least`."""
        self.database.write(lambda connection: writes.raise_fence(connection, workflow_id, least))

    def set_tags(self, workflow_id: str, changes: Mapping[str, str | None]) -> dict[str, str]:
        """Set tags of a workflow, remove those under None, and return what it has then."""
        return self.database.write(lambda connection: writes.set_tags(connection, workflow_id, changes))

    def put_step(self, step: EncodedStep, encoding: Encoding) -> None:
        """Record a step of a workflow without an owner, in place of one of the same superstep and node."""
        put, database = writes.put, self.database
        database.write(lambda connection: put(connection, database, step, encoding))

    # --- maintenance --------------------------------------------------------------------------

    @abstractmethod
    def inspect(self, work: Callable[[Connection], T]) -> T:
        """Return what `work` reads from the tables as they are; nothing is created or migrated."""

    @abstractmethod
    def schema_versions(self) -> tuple[int, int]:
        """Return the version of the tables, 0 without any, and the one this release writes.

        Nothing is created or changed. Raises CheckpointError when they cannot be read.
        """

    @abstractmethod
    def size(self) -> int:
        """Return the bytes that the tables take on disk."""

    @abstractmethod
    def is_writable(self) -> bool:
        """Return whether this user may write."""

    def find_damage(self) -> list[str]:
        """Return what is wrong with the pages on disk; empty where the database checks them itself."""
        return []

    def clock_skew(self) -> float | None:
        """Return the seconds by which the clock of a server is ahead of ours, None without one."""
        return None

    def delete(self, workflow_ids: Iterable[str]) -> int:
        """Remove these workflows and their children; return how many went."""
        return writes.delete(self.database, workflow_ids)

    def trim(self, workflow_id: str, encoding: Encoding, *, before: int) -> None:
        """Drop values that no state at or after superstep `before` contains; the records stay."""
        self.database.write(lambda connection: writes.trim(connection, workflow_id, encoding, before))
