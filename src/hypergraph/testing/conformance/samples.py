"""Sample steps and workflows for the tests of stores."""

from __future__ import annotations

from typing import Any, Unpack

from hypergraph.checkpointers import Checkpointer, StepRecord, StepStatus, WorkflowStatus
from hypergraph.checkpointers.records import CommitOptions, NewWorkflow, Ownership


def step(superstep: int, node: str = "n", values: Any = None, **fields: Any) -> StepRecord:
    """Return a completed step of workflow "w", whose index is its superstep."""
    given = {"workflow_id": "w", "index": superstep, "status": StepStatus.COMPLETED, "input_versions": {}}
    return StepRecord(**{**given, "superstep": superstep, "node_name": node, "values": values, **fields})


def opened(store: Checkpointer, workflow_id: str = "w", **about: Any) -> Ownership:
    """Claim a workflow, new or not."""
    return store.backend.claim(workflow_id, NewWorkflow(**about), store.encoding)


def commit(
    store: Checkpointer, claim: Ownership, *records: StepRecord, **more: Unpack[CommitOptions]
) -> None:
    """Commit steps together."""
    store.backend.write(
        store.encoding.commit(claim, [store.encoding.encode(record) for record in records], **more)
    )


def recorded(store: Checkpointer, *records: StepRecord, workflow_id: str = "w", **about: Any) -> None:
    """Store a whole workflow that completes."""
    claim = opened(store, workflow_id, **about)
    commit(store, claim, *records, status=WorkflowStatus.COMPLETED)
    store.backend.release(claim)


def given(store: Checkpointer, workflow_id: str = "w", upto: int | None = None) -> dict[str, Any]:
    """Return version and value of each input given at or before a superstep."""
    return store.encoding.versioned(workflow_id, store.backend.read_inputs(workflow_id, upto=upto))
