"""Statuses of steps and workflows."""

from __future__ import annotations

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
