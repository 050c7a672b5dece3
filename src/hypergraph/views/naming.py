"""Which workflow is meant: an id, the beginning of one, `@last`, `@last-failed`, or `parent/child`."""

from __future__ import annotations

import difflib

from hypergraph.checkpointers import Checkpointer
from hypergraph.views.problems import AMBIGUOUS, NOT_FOUND, Problem

_SHOWN = 10  # matches that are listed
_RECENT = 500  # workflows among which a close name is looked for
_LATEST = {"@last": None, "@last-failed": "failed"}


def resolve(store: Checkpointer, text: str) -> str:
    """Return the id of the workflow that a text means.

    Raises:
        Problem: no workflow, or more than one, is meant; the matches, or what comes close, are listed.
    """
    if text in _LATEST:
        return _latest(store, text)
    if store.read_workflow(text) is not None:
        return text
    head, slash, rest = text.rpartition("/")
    parent = resolve(store, head) if slash else None
    prefix = f"{parent}/{rest}" if slash else text
    matches = store.names(prefix, parent=parent, limit=_SHOWN + 1)
    if len(matches) == 1:
        return matches[0]
    if not matches:
        raise _unknown(store, text, parent)
    more = " and more" if len(matches) > _SHOWN else ""
    message = f"{text!r} is ambiguous: these workflows begin with it{more}"
    raise Problem(AMBIGUOUS, message, "Give more of the id", matches[:_SHOWN])


def _latest(store: Checkpointer, text: str) -> str:
    newest = store.workflows(status=_LATEST[text], limit=1)
    if not newest:
        wanted = "failed workflow" if _LATEST[text] else "workflow"
        raise Problem(NOT_FOUND, f"{text} not found: there is no {wanted} in this database")
    return newest[0].id


def _unknown(store: Checkpointer, text: str, parent: str | None) -> Problem:
    known = [workflow.id for workflow in store.workflows(parent=parent, limit=_RECENT)]
    close = difflib.get_close_matches(text, known, n=5, cutoff=0.5)
    hint = "Did you mean one of these?" if close else "hypergraph ls lists the workflows"
    return Problem(NOT_FOUND, f"Workflow {text!r} not found", hint, close)
