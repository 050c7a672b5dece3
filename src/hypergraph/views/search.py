"""Steps that mention a text: in a name, an error or a value, of newer workflows first."""

from __future__ import annotations

import re
from typing import TypedDict

from hypergraph.checkpointers import Checkpointer
from hypergraph.checkpointers.surveys import mentions
from hypergraph.display import jsonable
from hypergraph.views.problems import USAGE, Problem
from hypergraph.views.records import StepSummary, step_summary


class FoundStep(StepSummary):
    """A step that was found, in whichever workflow."""

    workflow: str


class SearchPage(TypedDict):
    """Steps that mention every word of a text."""

    schema: str  # hypergraph.search/1
    text: str
    items: list[FoundStep]
    next_cursor: str | None


def search(store: Checkpointer, text: str, *, limit: int = 20, cursor: str | None = None) -> SearchPage:
    """Find the steps that mention every word of a text, whatever the case; all of them are looked through.

    Raises:
        Problem: the text has no word, or the cursor is of another list.
    """
    if not text.strip():
        raise Problem(USAGE, "Give at least one word to look for")
    if cursor is not None and not re.fullmatch(r"\d{1,9}", cursor):
        raise Problem(USAGE, f"cursor {cursor!r} is no next_cursor of an earlier search")
    begin = int(cursor or 0)
    end = begin + max(1, limit)
    found = mentions(store, text, end + 1)
    items: list[FoundStep] = [
        {**step_summary(step), "workflow": jsonable(step.workflow_id)} for step in found[begin:end]
    ]
    return {
        "schema": "hypergraph.search/1",
        "text": jsonable(text),
        "items": items,
        "next_cursor": str(end) if len(found) > end else None,
    }
