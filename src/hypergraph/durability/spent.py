"""How long a workflow has worked before: what it says, or what is known of a process that died over it.

Such a process could not say. Its steps did: the time during which at least one of them ran counts, so that
neither steps side by side count twice, nor the time until somebody went on.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from hypergraph.checkpointers.types import StepRecord, Workflow, WorkflowStatus


def spent(workflow: Workflow, parts: Iterable[StepRecord | Workflow]) -> float:
    """Return for how many milliseconds a workflow has worked; `parts` are its steps, or items if a map."""
    known = workflow.duration_ms or 0.0
    return max(known, _covered(parts)) if workflow.status is WorkflowStatus.ACTIVE else known


def _covered(parts: Iterable[StepRecord | Workflow]) -> float:
    """Return for how many milliseconds at least one of the parts ran; what a fork has copied did not run."""
    spans = sorted(
        (part.completed_at - timedelta(milliseconds=part.duration_ms), part.completed_at)
        for part in parts
        if part.completed_at is not None and part.duration_ms and not getattr(part, "replayed", False)
    )
    covered = timedelta()
    until = spans[0][0] if spans else None
    for start, end in spans:
        covered += max(end - max(start, until or start), timedelta())
        until = max(end, until or end)
    return covered / timedelta(milliseconds=1)
