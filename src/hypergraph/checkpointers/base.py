"""What a store is to its users: everything they ask for, derived from the verbs it implements."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any, Self

from hypergraph.checkpointers.artifacts import ArtifactRef, SweepableStore
from hypergraph.checkpointers.commits import FINISHED, Commit, Ownership
from hypergraph.checkpointers.filters import Moment, Query, moment
from hypergraph.checkpointers.ids import check_workflow_id
from hypergraph.checkpointers.offload import in_thread
from hypergraph.checkpointers.parameters import explained_store
from hypergraph.checkpointers.payloads import EncodedStep
from hypergraph.checkpointers.tags import check_tags
from hypergraph.checkpointers.types import NewWorkflow, StepRecord, WorkflowStatus
from hypergraph.checkpointers.verbs import Verbs
from hypergraph.exceptions import CheckpointError

__all__ = ["Checkpointer", "Commit", "EncodedStep", "NewWorkflow", "Ownership"]


@explained_store
class Checkpointer(Verbs):
    """Keep workflows, their steps and values, beyond the run that made them.

    At the end of `with store:` or `async with store:` it is closed. Every method raises CheckpointError, or a
    subclass that names the remedy, when the store fails.
    """

    async def initialize(self) -> None:
        """Make the store ready now instead of on first use."""
        await in_thread(self.open)

    async def close(self) -> None:
        """Let go of files and connections; a later call opens them again."""
        await in_thread(self.shut)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.shut()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

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

        `graph` is the structure of a graph as plain data, `graph_name` its name, `graph_hash` its hash;
        `parent` and `forked_from` are ids of workflows, `inputs` and `tags` go by name.

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

    async def tag(
        self, workflow_id: str, tags: Mapping[str, str] | None = None, *, remove: Iterable[str] = ()
    ) -> dict[str, str]:
        """Set tags of a workflow, whoever is at work on it, `remove` others, and return those it has then.

        Raises:
            ValueError: a tag is no text.
            CheckpointError: there is no such workflow.
        """
        changes: dict[str, str | None] = {**dict.fromkeys(remove), **check_tags(tags or {})}
        return await in_thread(self.set_tags, workflow_id, changes)

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

        `keep_failed` spares those that failed and maps with failed items; with `dry_run` nothing is removed.

        Raises:
            ValueError: the moment cannot be understood, or there is neither one nor a `ttl`.
        """
        age = timedelta(seconds=self.policy.ttl_seconds) if self.policy.ttl_seconds else None
        limit = moment(older_than if older_than is not None else age, "older_than")
        if limit is None:
            raise ValueError('prune needs older_than, as in prune("30d"), or a policy with ttl')
        spared = {WorkflowStatus.FAILED, WorkflowStatus.PARTIAL} if keep_failed else set()

        def work() -> list[str]:
            found, _, _ = self.find(Query(statuses=FINISHED - spared, limit=None))
            ids = [item.id for item in found if item.completed_at and item.completed_at < limit]
            if not dry_run:
                self.erase(ids)
            return ids

        return await in_thread(work)

    async def gc(self, *, older_than: float = 3600.0) -> int:
        """Finish deletions that a crash has interrupted, and remove artifacts that no value refers to.

        Those younger than `older_than` seconds stay: a run may be about to refer to one. Return how many
        workflows and artifacts went.
        """

        def work() -> int:
            gone, artifacts = self.erase(()), self._encoding.artifacts
            if not isinstance(artifacts, SweepableStore):
                return gone
            kept = {key for text in self.artifact_references() if (key := _key_in(text))}
            return gone + artifacts.sweep(kept, older_than_seconds=older_than)

        return await in_thread(work)

    async def backup(self, path: str) -> None:
        """Write a consistent copy of the store to a new file, while others go on working."""
        await in_thread(self.save_copy, str(path))


def _key_in(reference: str) -> str | None:
    """Return the key of the artifact that is referred to, None for what is no reference."""
    try:
        return ArtifactRef.from_text(reference).key
    except CheckpointError:
        return None
