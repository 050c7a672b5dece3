"""Lookups that most answers begin with: a workflow, a superstep, the position of a cursor."""

from __future__ import annotations

import re

from hypergraph.checkpointers import Checkpointer, Workflow
from hypergraph.checkpointers.backend import START, Position
from hypergraph.views.problems import NOT_FOUND, USAGE, Problem


def cursor_after(position: Position) -> str:
    """Return the cursor of the page that begins after a position."""
    return "{}.{}".format(*position)


def position_in(cursor: str | None) -> Position:
    """Return the position of a cursor; without one, that before the first step.

    Raises:
        Problem: the cursor is invalid.
    """
    if cursor is None:
        return START
    found = re.fullmatch(r"(\d{1,15})\.(\d{1,15})", cursor, re.ASCII)
    if found is None:
        raise Problem(USAGE, f"Invalid cursor: {cursor!r}")
    return int(found[1]), int(found[2])


def require_workflow(store: Checkpointer, wf: str) -> Workflow:
    """Return the workflow. Raises Problem if it does not exist."""
    found = store.backend.read_workflow(wf)
    if found is None:
        raise missing_workflow(wf)
    return found


def missing_workflow(wf: str) -> Problem:
    """Return the problem of an id that no workflow has."""
    return Problem(NOT_FOUND, f"Workflow {wf!r} not found", "To list the workflows: hypergraph ls")


def last_superstep(store: Checkpointer, wf: str, asked: int | None = None) -> int | None:
    """Return the last superstep that has a step, None without steps.

    Raises:
        Problem: there is no superstep `asked`; None stands for the last one.
    """
    last = store.backend.last_superstep(wf)
    if asked is None or (last is not None and 0 <= asked <= last):
        return last
    hint = "It has no steps" if last is None else f"Its supersteps: 0 to {last}"
    raise Problem(NOT_FOUND, f"Workflow {wf!r} has no superstep {asked}", hint)
