"""Workflows in one SQLite file, written by the thread that runs them.

What is acknowledged survives the death of the process; a commit that asks for `full`, and all before it,
survive a power loss too. Several processes may use one file, and one process several stores on it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ParamSpec, TypeVar

from hypergraph.checkpointers import points, sqlite_upkeep, sqlite_writes
from hypergraph.checkpointers.artifact_files import FileArtifactStore
from hypergraph.checkpointers.artifacts import ArtifactStore
from hypergraph.checkpointers.commits import Commit, Ownership, each_of, owned
from hypergraph.checkpointers.database import Connection, database_at
from hypergraph.checkpointers.ids import check_workflow_id
from hypergraph.checkpointers.payloads import EncodedStep
from hypergraph.checkpointers.policy import Durability, Retention
from hypergraph.checkpointers.redaction import Redact
from hypergraph.checkpointers.refusals import taken_over
from hypergraph.checkpointers.sqlite_copies import recode
from hypergraph.checkpointers.sqlite_reader import SqliteReader
from hypergraph.checkpointers.types import (
    CheckpointPolicy,
    Claim,
    NewWorkflow,
    WorkflowStatus,
)
from hypergraph.exceptions import CheckpointError
from hypergraph.values.chains import CodecChain
from hypergraph.values.codecs import Codec
from hypergraph.values.serializers import Serializer

P = ParamSpec("P")
T = TypeVar("T")


class SqliteCheckpointer(SqliteReader):
    """Keep workflows in a SQLite file, which is opened on first use and made private to its user.

    Raises:
        ValueError: `policy` together with a shortcut for one of its parts, or ":memory:" as path.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        durability: Durability | None = None,
        retention: Retention | None = None,
        policy: CheckpointPolicy | None = None,
        serializer: Serializer | None = None,
        codec: Codec | Sequence[Codec] | CodecChain | None = None,
        artifact_store: ArtifactStore | None = None,
        artifact_threshold: int | None = None,
        redact: Redact | None = None,
    ) -> None:
        shortcuts: dict[str, Any] = {"durability": durability, "retention": retention}
        given = {name: value for name, value in shortcuts.items() if value is not None}
        if policy is not None and given:
            raise ValueError(f"Cannot pass both policy and {' and '.join(given)}; put it into the policy")
        if os.fspath(path) in ("", ":memory:"):
            raise ValueError("SqliteCheckpointer needs a file; MemoryCheckpointer keeps workflows in memory")
        self._database = database_at(os.fspath(path))
        self._has_own_artifacts = artifact_store is None
        super().__init__(
            policy=policy or CheckpointPolicy(**given),
            serializer=serializer,
            codec=codec,
            artifact_store=artifact_store or FileArtifactStore(self._database.path + "-artifacts"),
            artifact_threshold=artifact_threshold,
            redact=redact,
        )

    @property
    def path(self) -> str:
        """The file, as an absolute path."""
        return self._database.path

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.path!r})"

    # --- writing ------------------------------------------------------------------------------

    def claim(self, workflow_id: str, new: NewWorkflow, *, force: bool = False) -> Ownership:
        """Take the workflow, creating it ACTIVE if there is none; see `Checkpointer.claim`."""
        check_workflow_id(workflow_id, child=new.parent_id is not None)
        database = self._database
        locks = database.locks
        inputs = self._encoding.inputs(workflow_id, new.inputs)
        taken: list[Ownership] = []

        def work(connection: Connection) -> Ownership:
            taken.append(sqlite_writes.claim(connection, locks, workflow_id, new, inputs, force=force))
            claim = taken[0]
            if new.copies and claim.existing is None and self._encoding.chain.encrypts:
                recode(connection, claim.key, new.forked_from or "", workflow_id, self._encoding)
            return claim

        try:
            claim = database.write(work)
        except BaseException:
            for claim in taken:  # the lock is ours, but the commit failed
                locks.free(claim.key, claim.fence)
            raise
        if points.hook is not None:
            points.point("claim.taken")
        if claim.existing is None:
            return claim
        return replace(claim, existing=self._with_graph(claim.existing))

    def write(self, commit: Commit) -> None:
        """Make one commit durable; see `Checkpointer.write`."""
        self._check_held(commit.claim)
        self._database.write(partial(sqlite_writes.commit, unit=commit), full=commit.full)
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
        return sqlite_writes.commit_inside(connection, commit)

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
                database.write(partial(sqlite_writes.release, claim=mine))
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
        self._database.write(lambda connection: sqlite_writes.create(connection, workflow_id, new, inputs))

    def set_status(self, workflow_id: str, status: WorkflowStatus) -> None:
        """Change the status of a workflow that nobody owns."""
        change, locks = sqlite_writes.change_status, self._database.locks
        self._database.write(lambda connection: change(connection, locks, workflow_id, status))

    def set_tags(self, workflow_id: str, changes: Mapping[str, str | None]) -> dict[str, str]:
        """Set tags of a workflow, remove those under None, and return what it has then."""
        return self._database.write(
            lambda connection: sqlite_writes.set_tags(connection, workflow_id, changes)
        )

    def put(self, step: EncodedStep) -> None:
        """Record a step of a workflow that nobody owns, in place of one of the same superstep and node."""
        put, locks, encoding = sqlite_writes.put, self._database.locks, self._encoding
        self._database.write(lambda connection: put(connection, locks, step, encoding))

    # --- upkeep -------------------------------------------------------------------------------

    def open(self) -> None:
        """Open the file now, creating or migrating it."""
        self._database.open()

    def shut(self) -> None:
        """Close the connections to the file; a later call opens them again."""
        self._database.close()

    def erase(self, workflow_ids: Iterable[str]) -> int:
        """Remove these workflows and their children; return how many went.

        They do not come back after a power loss, when artifacts that they named may be gone.
        """
        count = sqlite_upkeep.erase(self._database, workflow_ids)
        self._database.write(sqlite_writes.change_nothing, full=True)
        return count

    def trim(self, workflow_id: str, *, before: int) -> None:
        """Drop values that no state at or after superstep `before` contains; the records stay."""
        trim, encoding = sqlite_upkeep.trim, self._encoding
        self._database.write(lambda connection: trim(connection, workflow_id, encoding, before))

    def save_copy(self, path: str) -> None:
        """Write a consistent, compact copy of the file to a new one, and of the artifacts beside it."""
        sqlite_upkeep.save_copy(self._database, path)
        if self._has_own_artifacts:
            copy = type(self)(path)
            sqlite_upkeep.copy_artifacts(self._encoding, copy._encoding, copy.artifact_references())
            copy.shut()
