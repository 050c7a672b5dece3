"""Statuses of steps and workflows."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum


class StepStatus(Enum):
    """How one execution of one node ended."""

    COMPLETED = "completed"
    FAILED = "failed"
    PAUSED = "paused"
    STOPPED = "stopped"


class WorkflowStatus(Enum):
    """Where a workflow stands. PARTIAL occurs on maps only: some items completed, some failed."""

    ACTIVE = "active"
    COMPLETED = "completed"
    FAILED = "failed"
    PAUSED = "paused"
    STOPPED = "stopped"
    PARTIAL = "partial"


UNFINISHED = frozenset(WorkflowStatus) - {WorkflowStatus.COMPLETED}


def settled(
    status: WorkflowStatus, items: Iterable[WorkflowStatus], *, is_whole: bool = False
) -> WorkflowStatus:
    """Return the status of a map after one of its items ran by itself.

    A map that failed or was stopped may lack items that never started: `map` completes it, given the list.
    `is_whole` says that it lacks none.
    """
    found = set(items)
    all_began = is_whole or status in (WorkflowStatus.PAUSED, WorkflowStatus.COMPLETED)
    if found <= {WorkflowStatus.COMPLETED}:
        return WorkflowStatus.COMPLETED if all_began else status
    if found <= {WorkflowStatus.COMPLETED, WorkflowStatus.FAILED}:
        return WorkflowStatus.PARTIAL if WorkflowStatus.COMPLETED in found else WorkflowStatus.FAILED
    if status is WorkflowStatus.COMPLETED and WorkflowStatus.ACTIVE not in found:
        return WorkflowStatus.PAUSED if WorkflowStatus.PAUSED in found else WorkflowStatus.STOPPED
    return status
