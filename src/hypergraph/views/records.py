"""What every answer about steps begins with: the workflow it is about, and one step without its values."""

from __future__ import annotations

from datetime import timedelta
from typing import TypedDict

from hypergraph.checkpointers import Checkpointer, StepRecord, Workflow
from hypergraph.display import bounded, jsonable
from hypergraph.views.problems import NOT_FOUND, Problem
from hypergraph.views.workflows import iso

ERROR = 2000  # characters of an error in a summary; one step has all of it


class StepSummary(TypedDict):
    """One execution of one node, without its values."""

    index: int
    superstep: int
    node: str
    status: str  # completed, failed, paused or stopped
    duration_ms: float | None
    started_at: str | None
    decision: str | list[str] | None
    cached: bool
    replayed: bool  # taken over from the workflow that this one was forked from
    attempt: int
    visit: int
    error: str | None
    error_type: str | None
    child: str | None  # the workflow of a nested graph
    partial: bool


def step_summary(step: StepRecord) -> StepSummary:
    """Return what lists show of a step."""
    return {
        "index": step.index,
        "superstep": step.superstep,
        "node": jsonable(step.node_name),
        "status": step.status.value,
        "duration_ms": step.duration_ms,
        "started_at": started_at(step),
        "decision": jsonable(step.decision),
        "cached": step.cached,
        "replayed": step.replayed,
        "attempt": step.attempt,
        "visit": step.visit,
        "error": None if step.error is None else jsonable(bounded(step.error, ERROR)),
        "error_type": jsonable(step.error_type),
        "child": jsonable(step.child_workflow_id),
        "partial": step.partial,
    }


def started_at(step: StepRecord) -> str | None:
    """Return when a step began: records are made when it ends, and know how long it took."""
    ended = step.completed_at or step.created_at
    return iso(ended - timedelta(milliseconds=step.duration_ms or 0))


def known(store: Checkpointer, wf: str) -> Workflow:
    """Return the workflow. Raises Problem when there is none."""
    found = store.read_workflow(wf)
    if found is None:
        raise Problem(NOT_FOUND, f"Workflow {wf!r} not found", "hypergraph ls lists the workflows")
    return found
