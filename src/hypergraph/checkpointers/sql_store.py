"""Workflows in an SQL database, written by the thread that runs them; which database, subclasses say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from hypergraph.checkpointers import points, sql_upkeep, sql_writes
from hypergraph.checkpointers.commits import Commit, Ownership, each_of, owned
from hypergraph.checkpointers.ids import check_workflow_id
from hypergraph.checkpointers.payloads import EncodedStep
from hypergraph.checkpointers.policy import Durability, Retention
from hypergraph.checkpointers.refusals import taken_over
from hypergraph.checkpointers.sql_connections import Connection
from hypergraph.checkpointers.sql_copies import recode
from hypergraph.checkpointers.sql_reader import SqlReader
from hypergraph.checkpointers.types import CheckpointPolicy, Claim, NewWorkflow, WorkflowStatus
from hypergraph.exceptions import CheckpointError


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
            taken.append(sql_writes.claim(connection, database, workflow_id, new, inputs, force=force))
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
        if points.hook is not None:
            points.point("claim.taken")
        if claim.existing is None:
            return claim
        return replace(claim, existing=self._with_graph(claim.existing))

    def write(self, commit: Commit) -> None:
        """Make one commit durable; see `Checkpointer.write`."""
        self._check_held(commit.claim)
        database = self._database
        database.write(partial(sql_writes.commit, unit=commit, clock=database.now), full=commit.full)
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
        return sql_writes.commit_inside(connection, commit, self._database)

    def release(self, claim: Claim) -> None:
        """Give the workflow back; giving back what was taken over meanwhile does nothing."""
        mine = owned(claim)
        database, held = self._database, (mine.key, mine.fence)
        if not database.locks.holds(*held):
            return
        if points.hook is not None:
            points.point("release.before")
        try:
            if held not in database.settled:
                database.write(partial(sql_writes.release, claim=mine))
        finally:
            database.settled.discard(held)
            database.locks.free(*held)
        if points.hook is not None:
            points.point("release.after")

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
        create, database = sql_writes.create, self._database
        database.write(lambda connection: create(connection, workflow_id, new, database.now(), inputs))

    def set_status(self, workflow_id: str, status: WorkflowStatus) -> None:
        """Change the status of a workflow that nobody owns."""
        change, database = sql_writes.change_status, self._database
        database.write(lambda connection: change(connection, database, workflow_id, status))

    def set_tags(self, workflow_id: str, changes: Mapping[str, str | None]) -> dict[str, str]:
        """Set tags of a workflow, remove those under None, and return what it has then."""
        return self._database.write(lambda connection: sql_writes.set_tags(connection, workflow_id, changes))

    def put(self, step: EncodedStep) -> None:
        """Record a step of a workflow that nobody owns, in place of one of the same superstep and node."""
        put, database, encoding = sql_writes.put, self._database, self._encoding
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
        return sql_upkeep.erase(self._database, workflow_ids)

    def trim(self, workflow_id: str, *, before: int) -> None:
        """Drop values that no state at or after superstep `before` contains; the records stay."""
        trim, encoding = sql_upkeep.trim, self._encoding
        self._database.write(lambda connection: trim(connection, workflow_id, encoding, before))
