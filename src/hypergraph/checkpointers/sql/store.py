"""SqlCheckpointer: workflows in an SQL database."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Concatenate, ParamSpec, TypeVar

from hypergraph.checkpointers import fault_points
from hypergraph.checkpointers.base import Checkpointer
from hypergraph.checkpointers.names import check_workflow_id
from hypergraph.checkpointers.policy import CheckpointPolicy, Durability, Retention
from hypergraph.checkpointers.query import Query
from hypergraph.checkpointers.reader import START, ItemLine, Position, StepLine, StepTally
from hypergraph.checkpointers.records import (
    Claim,
    Commit,
    EncodedStep,
    NewWorkflow,
    Ownership,
    Payload,
    StepRecord,
    Turn,
    Workflow,
    each_of,
    owned,
    taken_over,
)
from hypergraph.checkpointers.sql import reads, writes
from hypergraph.checkpointers.sql.connection import Connection, Database
from hypergraph.checkpointers.sql.writes import recode
from hypergraph.checkpointers.sqlite.migrations import INPUT, OUTPUT
from hypergraph.checkpointers.status import WorkflowStatus
from hypergraph.exceptions import CheckpointError

P = ParamSpec("P")
T = TypeVar("T")


class SqlReader(Checkpointer):
    """The part of a store that reads."""

    _database: Database

    def _read(self, read: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        return self._database.read(lambda connection: read(connection, *args, **kwargs))

    def read_workflow(self, workflow_id: str) -> Workflow | None:
        """Return the workflow, None if there is none."""
        found = self._read(reads.workflow, workflow_id)
        return found and self._with_graph(found)

    def read_steps(
        self, workflow_id: str, *, upto: int | None = None, node: str | None = None, values: bool = True
    ) -> list[StepRecord]:
        """Return the steps in order of their index; see `Reader.read_steps`."""
        read = reads.steps
        return self._read(read, workflow_id, self._encoding, upto=upto, node=node, values=values)

    def read_page(
        self, workflow_id: str, *, after: Position = START, limit: int = 100, upto: int | None = None
    ) -> list[StepRecord]:
        """Return the next steps after a position, by superstep and index, without their values."""
        return self._read(
            reads.page_of_steps, workflow_id, self._encoding, after=after, limit=limit, upto=upto
        )

    def read_step(self, workflow_id: str, index: int) -> StepRecord | None:
        """Return one step with its values, None if there is none."""
        return self._read(reads.step, workflow_id, self._encoding, index)

    def last_superstep(self, workflow_id: str) -> int | None:
        """Return the highest superstep that has a step, None if there is none."""
        return self._read(reads.last_superstep, workflow_id)

    def tally_steps(self, workflow_id: str) -> list[StepTally]:
        """Return how the steps of each node ended; see `Reader.tally_steps`."""
        return self._read(reads.tallies, workflow_id)

    def read_lines(self, workflow_id: str, *, after: Position = START, limit: int = 100) -> list[StepLine]:
        """Return of the next steps what a drawing shows; no record is built."""
        return self._read(reads.lines, workflow_id, after, limit)

    def read_items(self, workflow_id: str) -> list[ItemLine]:
        """Return the items of a map, in their order; no record is built."""
        return self._read(reads.items, workflow_id)

    def marks(self, limit: int = 100) -> dict[str, Any]:
        """Return what differs whenever one of the newest workflows, or of those at work, has changed."""
        return self._read(reads.marks, limit)

    def names(self, prefix: str, *, parent: str | None = None, limit: int = 20) -> list[str]:
        """Return ids that begin with a text, of children of a workflow or of those without parent."""
        return self._read(reads.names, prefix, parent, limit)

    def state_payloads(self, workflow_id: str, upto: int | None = None) -> list[Payload]:
        """Return the latest encoded value of each output; one seek per name."""
        return self._read(reads.payloads, workflow_id, OUTPUT, upto)

    def input_payloads(self, workflow_id: str, upto: int | None = None) -> list[Payload]:
        """Return the latest encoded value of each input; one seek per name."""
        return self._read(reads.payloads, workflow_id, INPUT, upto)

    def read_following(self, workflow_id: str, superstep: int) -> list[str]:
        """Return the nodes of the first superstep after this one, in order of their index."""
        return self._read(reads.following, workflow_id, superstep)

    def read_payload(self, workflow_id: str, name: str) -> Payload | None:
        """Return the latest encoded value of an output, with the chain that it extends."""
        return self._read(reads.newest, workflow_id, name)

    def artifact_references(self) -> list[str]:
        """Return the references to artifacts that stored values hold."""
        return self._read(reads.artifact_references)

    def turns(self, workflow_id: str) -> list[Turn]:
        """Return when inputs entered, and which, in order."""
        return self._read(reads.turns, workflow_id)

    def find(self, query: Query) -> tuple[list[Workflow], int, str | None]:
        """Return the workflows asked for, newest first, the number of all, and the next cursor."""
        found, total, cursor = self._read(reads.page, query)
        return [self._with_graph(workflow) for workflow in found], total, cursor

    def _with_graph(self, workflow: Workflow) -> Workflow:
        # It was made for us a moment ago, and nobody else has it; a copy would take as long as the rest.
        object.__setattr__(workflow, "load_graph", lambda: self._read(reads.graph, workflow.id))
        return workflow


def policy_of(
    policy: CheckpointPolicy | None, durability: Durability | None, retention: Retention | None
) -> CheckpointPolicy:
    """Return the policy of a store, from itself or from shortcuts for its parts.

    Raises:
        ValueError: both are given.
    """
    shortcuts = {"durability": durability, "retention": retention}
    given: dict[str, Any] = {name: value for name, value in shortcuts.items() if value is not None}
    if policy is not None and given:
        raise ValueError(f"Cannot pass both policy and {' and '.join(given)}; put it into the policy")
    return policy or CheckpointPolicy(**given)


class SqlCheckpointer(SqlReader):
    """The part of a store that writes."""

    # --- writing ------------------------------------------------------------------------------

    def claim(self, workflow_id: str, new: NewWorkflow, *, force: bool = False) -> Ownership:
        """Take the workflow, creating it ACTIVE if there is none; see `Checkpointer.claim`."""
        check_workflow_id(workflow_id, child=new.parent_id is not None)
        database = self._database
        inputs = self._encoding.inputs(workflow_id, new.inputs)
        taken: list[Ownership] = []

        def work(connection: Connection) -> Ownership:
            taken.append(writes.claim(connection, database, workflow_id, new, inputs, force=force))
            claim = taken[-1]
            if new.copies and claim.existing is None and self._encoding.chain.encrypts:
                recode(connection, claim.key, new.forked_from or "", workflow_id, self._encoding)
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

    def write(self, commit: Commit) -> None:
        """Make one commit durable; see `Checkpointer.write`."""
        self._check_held(commit.claim)
        database = self._database
        database.write(partial(writes.commit, unit=commit, clock=database.now), full=commit.full)
        if commit.status is not None:
            self._settle(commit)

    def write_all(self, commits: Sequence[Commit]) -> list[CheckpointError | None]:
        """Make commits durable in one transaction, in which each stands or falls by itself."""

        def work(connection: Connection) -> list[CheckpointError | None]:
            return each_of(commits, partial(self._write_inside, connection))

        try:
            outcomes = self._database.write(work, full=any(commit.full for commit in commits))
        except CheckpointError as error:
            return [error] * len(commits)
        for commit, wrong in zip(commits, outcomes, strict=True):
            if wrong is None and commit.status is not None:
                self._settle(commit)
        return outcomes

    def _write_inside(self, connection: Connection, commit: Commit) -> CheckpointError | None:
        try:
            self._check_held(commit.claim)
        except CheckpointError as error:
            return error
        return writes.commit_inside(connection, commit, self._database)

    def release(self, claim: Claim) -> None:
        """Give the workflow back; giving back what was taken over meanwhile does nothing."""
        mine = owned(claim)
        database, held = self._database, (mine.key, mine.fence)
        if not database.locks.holds(*held):
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
        if not self._database.locks.holds(claim.key, claim.fence):  # released, or the parent's before a fork
            raise taken_over(claim.workflow_id)

    def _settle(self, commit: Commit) -> None:
        held = (commit.claim.key, commit.claim.fence)
        if commit.status is WorkflowStatus.ACTIVE:
            self._database.settled.discard(held)
        else:
            self._database.settled.add(held)

    def create(self, workflow_id: str, new: NewWorkflow) -> None:
        """Add an ACTIVE workflow that nobody owns."""
        inputs = self._encoding.inputs(workflow_id, new.inputs)
        create, database = writes.create, self._database
        database.write(lambda connection: create(connection, workflow_id, new, database.now(), inputs))

    def set_status(self, workflow_id: str, status: WorkflowStatus) -> None:
        """Change the status of a workflow that nobody owns."""
        change, database = writes.change_status, self._database
        database.write(lambda connection: change(connection, database, workflow_id, status))

    def set_tags(self, workflow_id: str, changes: Mapping[str, str | None]) -> dict[str, str]:
        """Set tags of a workflow, remove those under None, and return what it has then."""
        return self._database.write(lambda connection: writes.set_tags(connection, workflow_id, changes))

    def put(self, step: EncodedStep) -> None:
        """Record a step of a workflow that nobody owns, in place of one of the same superstep and node."""
        put, database, encoding = writes.put, self._database, self._encoding
        database.write(lambda connection: put(connection, database, step, encoding))

    # --- upkeep -------------------------------------------------------------------------------

    def open(self) -> None:
        """Open the database now, creating or migrating its tables."""
        self._database.open()

    def shut(self) -> None:
        """Close the connections; a later call opens them again."""
        self._database.close()

    def erase(self, workflow_ids: Iterable[str]) -> int:
        """Remove these workflows and their children; return how many went."""
        return writes.erase(self._database, workflow_ids)

    def trim(self, workflow_id: str, *, before: int) -> None:
        """Drop values that no state at or after superstep `before` contains; the records stay."""
        trim, encoding = writes.trim, self._encoding
        self._database.write(lambda connection: trim(connection, workflow_id, encoding, before))
