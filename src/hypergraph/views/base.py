"""Shared parts of answers: workflow, step, superstep and cursor."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TypedDict

from hypergraph.checkpointers import Checkpointer, StepRecord, Workflow
from hypergraph.checkpointers.backend import START, Position
from hypergraph.display import bounded, iso, jsonable
from hypergraph.views.problems import NOT_FOUND, USAGE, Problem


def cursor_after(position: Position) -> str:
    """Return what continues a list of steps behind a position."""
    return "{}.{}".format(*position)


def position_in(cursor: str | None) -> Position:
    """Return the position that a cursor stands for, without one that before all steps.

    Raises:
        Problem: the text is none that a page gave out.
    """
    if cursor is None:
        return START
    found = re.fullmatch(r"(\d{1,15})\.(\d{1,15})", cursor, re.ASCII)
    if found is None:
        raise Problem(USAGE, f"{cursor!r} is no next_cursor of an earlier page")
    return int(found[1]), int(found[2])


ERROR = 2000  # characters of an error in a summary; one step has all of it


def started_at(step: StepRecord) -> str | None:
    """Return when a step began: records are made when it ends, and know how long it took."""
    ended = step.completed_at or step.created_at
    return iso(ended - timedelta(milliseconds=step.duration_ms or 0))


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


def known(store: Checkpointer, wf: str) -> Workflow:
    """Return the workflow. Raises Problem when there is none."""
    found = store.backend.read_workflow(wf)
    if found is None:
        raise Problem(NOT_FOUND, f"Workflow {wf!r} not found", "hypergraph ls lists the workflows")
    return found


def last_superstep(store: Checkpointer, wf: str, asked: int | None = None) -> int | None:
    """Return the last superstep that has a step, None if there is no step.

    Raises:
        Problem: the superstep asked for is none of them; None, the end, is always fine.
    """
    last = store.backend.last_superstep(wf)
    if asked is None or (last is not None and 0 <= asked <= last):
        return last
    hint = "It has no steps" if last is None else f"It has the supersteps 0 to {last}"
    raise Problem(NOT_FOUND, f"Workflow {wf!r} has no superstep {asked}", hint)
