"""What stores refuse, in the same words whatever the store."""

from __future__ import annotations

from datetime import datetime

from hypergraph.checkpointers.types import StepRecord
from hypergraph.exceptions import CheckpointError, OwnershipLostError, WorkflowLockedError


def locked(workflow_id: str, pid: int, host: str, since: datetime) -> WorkflowLockedError:
    """Return the error for a workflow whose owner lives."""
    return WorkflowLockedError(
        f"Workflow {workflow_id!r} is being run by process {pid} on {host} since {since:%Y-%m-%d %H:%M:%S} "
        "UTC. Wait for it, stop it, or take the workflow over with force=True.",
        workflow_id=workflow_id,
        pid=pid,
        host=host,
        since=since,
    )


def taken_over(workflow_id: str) -> OwnershipLostError:
    """Return the error for a claim that is not the newest, or was given back."""
    return OwnershipLostError(
        f"Workflow {workflow_id!r} was taken over by another run, given back or deleted; this run stops "
        "here, what it wrote before stays.",
        workflow_id=workflow_id,
    )


def recorded_already(record: StepRecord) -> OwnershipLostError:
    """Return the error for a step that another run has written."""
    return OwnershipLostError(
        f"Workflow {record.workflow_id!r}: superstep {record.superstep} of node {record.node_name!r} is "
        "recorded already, so another run is at work on it; this one stops here.",
        workflow_id=record.workflow_id,
    )


def taken(workflow_id: str) -> CheckpointError:
    """Return the error for creating what exists."""
    return CheckpointError(f"Workflow {workflow_id!r} exists already; choose another id or delete it.")


def is_taken(error: CheckpointError) -> bool:
    """Return whether an error is that of creating what exists."""
    return "exists already" in str(error)


def unknown(workflow_id: str) -> CheckpointError:
    """Return the error for changing what does not exist."""
    return CheckpointError(f"There is no workflow {workflow_id!r}; create it first.")


def no_copy(path: str) -> CheckpointError:
    """Return the error for a backup of something that is in no file."""
    return CheckpointError(f"Workflows in memory cannot be backed up to {path}; use SqliteCheckpointer.")
