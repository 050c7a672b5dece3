"""Lookups that most answers begin with: a workflow, a superstep, the position of a cursor."""

from __future__ import annotations

import re
import shlex

from hypergraph.checkpointers import Checkpointer, Workflow
from hypergraph.checkpointers.backend import START, Position
from hypergraph.display import plural
from hypergraph.views.problems import AMBIGUOUS, NOT_FOUND, REFUSED, USAGE, Problem

_FEW = 20  # keys that a message lists


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


def key_of_answer(store: Checkpointer, wf: str, question: str | None = None) -> str:
    """Return the key of an answer that was given without one: that of the question, or of the only one.

    Raises:
        Problem: the question is not open, none is, or several keys are asked for.
    """
    found = require_workflow(store, wf)
    every = store.questions(wf)
    if question is not None:
        asking = [each for each in every if each.id == question]
        if not asking:
            raise no_longer_open(wf)
    else:
        asking = [each for each in every if each.step.answer is None and each.pause.reason != "timer"]
    keys = [key for each in asking for key in each.keys]
    if not keys:
        raise Problem(REFUSED, f"{wf!r} does not wait for an answer: it is {found.status.value}")
    if len(keys) > 1:
        message = f"{wf!r} asks for several answers: {', '.join(map(repr, keys[:_FEW]))}"
        raise Problem(AMBIGUOUS, message, "Name the key of the answer", keys[:_FEW])
    return keys[0]


def no_longer_open(wf: str) -> Problem:
    """Return the problem of an answer to a question that was answered, or is not asked any more."""
    hint = "Load the page again to see what is asked now"
    return Problem(REFUSED, f"This question of {wf!r} is not open any more", hint)


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
    hint = f"Its supersteps: 0 to {last}" if last is not None else map_hint(store, wf) or "It has no steps"
    raise Problem(NOT_FOUND, f"Workflow {wf!r} has no superstep {asked}", hint)


def map_size(store: Checkpointer, wf: str) -> int | None:
    """Return how many items a map has, None for a run."""
    return len(store.backend.read_items(wf)) or None


def map_hint(store: Checkpointer, wf: str, command: str = "show", *after: str) -> str:
    """Return what to ask instead about a map, which has no steps of its own; empty for a run."""
    items = store.backend.read_items(wf)
    if not items:
        return ""
    asked = ("hypergraph", command, items[0].id, *after)
    listing, asking = shlex.join(("hypergraph", "ls", "--parent", wf)), shlex.join(asked)
    return f"{wf!r} is a map of {plural(len(items), 'item')}: {listing}, {asking}"
