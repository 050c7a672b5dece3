"""What a store is: a few synchronous verbs, and everything users and runners ask for derived from them.

A writer claims a workflow, commits under that claim, and releases it. A claim carries a fence that
grows with every claim, and a store refuses what comes with an old one, so only one owner's writes are
ever accepted. A commit is one unit: all of it is durable when the call returns, or nothing is. A recorded
step that completed is never replaced by a commit. Stores may be used from any thread.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Self, Unpack

from hypergraph.checkpointers.commits import FINISHED, Commit, CommitOptions, Ownership, each_of, owned
from hypergraph.checkpointers.filters import Moment, Query, moment
from hypergraph.checkpointers.ids import check_workflow_id
from hypergraph.checkpointers.offload import in_thread
from hypergraph.checkpointers.payloads import EncodedStep, Encoding
from hypergraph.checkpointers.questions import Questions
from hypergraph.checkpointers.types import (
    CheckpointPolicy,
    Claim,
    NewWorkflow,
    StepRecord,
    Workflow,
    WorkflowStatus,
)
from hypergraph.exceptions import CheckpointError
from hypergraph.values.serializers import JsonSerializer, Serializer

if TYPE_CHECKING:
    from hypergraph.checkpointers.writer import Writer

__all__ = ["Checkpointer", "Commit", "EncodedStep", "NewWorkflow", "Ownership"]


class Checkpointer(Questions):
    """Keep workflows, their steps and values, beyond the run that made them.

    Every method raises CheckpointError, or a subclass that names the remedy, when the store fails.
    """

    def __init__(
        self, *, policy: CheckpointPolicy | None = None, serializer: Serializer | None = None
    ) -> None:
        self.policy = policy if policy is not None else CheckpointPolicy()
        self.serializer = serializer if serializer is not None else JsonSerializer()
        self.background: Writer | None = None  # who writes behind the backs of runs, once one is needed

    @property
    def serializer(self) -> Serializer:
        """How values become bytes."""
        return self._encoding.serializer

    @serializer.setter
    def serializer(self, serializer: Serializer) -> None:
        self._encoding = Encoding(serializer)

    def reading(self, serializer: Serializer) -> Self:
        """Return a view of the same store that reads and writes values with another serializer."""
        view = copy.copy(self)
        view.serializer = serializer
        return view

    # --- the verbs of a writer ----------------------------------------------------------------

    @abstractmethod
    def claim(self, workflow_id: str, new: NewWorkflow, *, force: bool = False) -> Ownership:
        """Take the workflow, creating it ACTIVE if there is none.

        `force` takes it even from an owner that lives, and forgives its crashes.

        Raises:
            InvalidWorkflowIdError: a new workflow cannot be called so.
            WorkflowLockedError: the owner lives.
        """

    @abstractmethod
    def write(self, commit: Commit) -> None:
        """Make one commit durable.

        Raises:
            OwnershipLostError: the claim is no longer the newest, or a step is recorded already.
        """

    @abstractmethod
    def release(self, claim: Claim) -> None:
        """Give the workflow back; giving back what was taken over meanwhile does nothing."""

    def write_all(self, commits: Sequence[Commit]) -> list[CheckpointError | None]:
        """Make commits durable together, each on its own; return for each what went wrong with it.

        After one that failed, the others of the same claim fail with it.
        """

        def outcome(commit: Commit) -> CheckpointError | None:
            try:
                self.write(commit)
            except CheckpointError as error:
                return error
            return None

        return each_of(commits, outcome)

    def encode(self, record: StepRecord) -> EncodedStep:
        """Return the step with its values as bytes, so that later changes to them do not matter.

        A value that cannot be encoded is named in a warning and marked as lost.
        """
        return self._encoding.encode(record)

    def prepare(
        self, claim: Claim, steps: Sequence[EncodedStep] = (), **more: Unpack[CommitOptions]
    ) -> Commit:
        """Return a commit with its inputs encoded, to be written now or later."""
        given = more.get("inputs") or {}
        encode, owner = self._encoding.payload, claim.workflow_id
        inputs = tuple(encode(name, version, value, owner) for name, (version, value) in given.items())
        rest: dict[str, Any] = {name: value for name, value in more.items() if name != "inputs"}
        return Commit(owned(claim), tuple(steps), inputs, **rest)

    def commit(self, claim: Claim, steps: Sequence[EncodedStep] = (), **more: Unpack[CommitOptions]) -> None:
        """Make steps, inputs and the status durable together; see `CommitOptions`.

        Raises:
            OwnershipLostError: the claim is no longer the newest, or a step is recorded already.
        """
        self.write(self.prepare(claim, steps, **more) if more else Commit(owned(claim), tuple(steps)))

    # --- the verbs of everybody else ----------------------------------------------------------

    @abstractmethod
    def open(self) -> None:
        """Make the store ready now instead of on first use."""

    @abstractmethod
    def shut(self) -> None:
        """Let go of files and connections; a later call opens them again."""

    @abstractmethod
    def create(self, workflow_id: str, new: NewWorkflow) -> None:
        """Add an ACTIVE workflow that nobody owns."""

    @abstractmethod
    def set_status(self, workflow_id: str, status: WorkflowStatus) -> None:
        """Change the status of a workflow that nobody owns."""

    @abstractmethod
    def put(self, step: EncodedStep) -> None:
        """Record a step of a workflow that nobody owns, in place of one of the same superstep and node."""

    @abstractmethod
    def erase(self, workflow_ids: Iterable[str]) -> int:
        """Remove these workflows and their children; return how many went. Forks of them stay whole.

        Raises:
            WorkflowLockedError: somebody is at work on one of them.
        """

    @abstractmethod
    def trim(self, workflow_id: str, *, before: int) -> None:
        """Drop values that no state at or after superstep `before` contains; the records stay."""

    @abstractmethod
    def save_copy(self, path: str) -> None:
        """Write a consistent copy of the store to a new file."""

    def children(self, workflow_id: str) -> list[Workflow]:
        """Return the workflows below this one, oldest first."""
        return self.find(Query(parent=workflow_id, limit=None))[0][::-1]

    def retain(self, workflow_id: str) -> None:
        """Drop what the retention policy does not keep of this workflow."""
        if self.policy.retention == "full":
            return
        last = max((step.superstep for step in self.read_steps(workflow_id, values=False)), default=0)
        self.trim(workflow_id, before=last + 1 - (self.policy.window or 1))

    # --- the same, awaitable ------------------------------------------------------------------

    async def initialize(self) -> None:
        """Make the store ready now instead of on first use."""
        await in_thread(self.open)

    async def close(self) -> None:
        """Let go of files and connections; a later call opens them again."""
        await in_thread(self.shut)

    async def create_workflow(
        self,
        workflow_id: str,
        *,
        graph_name: str | None = None,
        graph_hash: str | None = None,
        graph: dict[str, Any] | None = None,
        inputs: Mapping[str, Any] | None = None,
        parent: str | None = None,
        forked_from: str | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> None:
        """Add a workflow with status ACTIVE.

        Raises:
            InvalidWorkflowIdError: a workflow cannot be called so.
            CheckpointError: there is one of that id.
        """
        check_workflow_id(workflow_id, child=parent is not None)
        new = NewWorkflow(
            *(graph_name, graph_hash, copy.deepcopy(graph)),
            parent_id=parent,
            forked_from=forked_from,
            tags=dict(tags or {}),
            inputs=dict(inputs or {}),
        )
        await in_thread(self.create, workflow_id, new)

    async def update_workflow_status(self, workflow_id: str, status: WorkflowStatus) -> None:
        """Change the status of a workflow.

        Raises:
            WorkflowLockedError: somebody is at work on it.
            CheckpointError: there is no such workflow.
        """
        await in_thread(self.set_status, workflow_id, WorkflowStatus(status))

    async def save_step(self, record: StepRecord) -> None:
        """Record a step, in place of one of the same superstep and node; an unknown workflow is created.

        Raises:
            WorkflowLockedError: somebody is at work on the workflow.
        """
        await in_thread(self.put, self.encode(record))

    async def delete(self, *workflow_ids: str) -> int:
        """Remove workflows and their children, and return how many went.

        Raises:
            WorkflowLockedError: somebody is at work on one of them.
        """
        return await in_thread(self.erase, workflow_ids)

    async def prune(
        self, older_than: Moment | None = None, *, keep_failed: bool = False, dry_run: bool = False
    ) -> list[str]:
        """Remove workflows that ended before a moment, by default the policy's `ttl` ago; return their ids.

        Raises:
            ValueError: the moment cannot be understood, or there is neither one nor a `ttl`.
        """
        age = timedelta(seconds=self.policy.ttl_seconds) if self.policy.ttl_seconds else None
        limit = moment(older_than if older_than is not None else age, "older_than")
        if limit is None:
            raise ValueError('prune needs older_than, as in prune("30d"), or a policy with ttl')
        statuses = FINISHED - {WorkflowStatus.FAILED} if keep_failed else FINISHED

        def work() -> list[str]:
            found, _, _ = self.find(Query(statuses=frozenset(statuses), until=limit, limit=None))
            ids = [item.id for item in found if item.completed_at and item.completed_at < limit]
            if not dry_run:
                self.erase(ids)
            return ids

        return await in_thread(work)

    async def gc(self) -> int:
        """Finish deletions that a crash has interrupted, and return how many workflows went."""
        return await in_thread(self.erase, ())

    async def backup(self, path: str) -> None:
        """Write a consistent copy of the store to a new file, while others go on working."""
        await in_thread(self.save_copy, str(path))
