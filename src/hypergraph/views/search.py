"""Steps and workflows that mention a text."""

from __future__ import annotations

import re
from typing import Any, TypedDict

from hypergraph.checkpointers import Checkpointer
from hypergraph.checkpointers.analysis import mentions
from hypergraph.checkpointers.query import parse
from hypergraph.checkpointers.view import view_of
from hypergraph.display import jsonable
from hypergraph.views.problems import USAGE, Problem
from hypergraph.views.step import Step, shown_step
from hypergraph.views.workflows import WorkflowPage, workflow_summary

_STEPS = 20  # matching steps to read for each workflow wanted


class SearchPage(TypedDict):
    """Steps that mention every word of a text."""

    schema: str  # hypergraph.search/1
    text: str
    items: list[Step]
    next_cursor: str | None


def search(store: Checkpointer, text: str, *, limit: int = 20, cursor: str | None = None) -> SearchPage:
    """Find the steps that mention every word of a text, ignoring case; every stored step is read.

    Raises:
        Problem: the text has no word, or the cursor is invalid.
    """
    if not text.strip():
        raise Problem(USAGE, "Missing search text: give at least one word")
    if cursor is not None and not re.fullmatch(r"\d{1,9}", cursor):
        raise Problem(USAGE, f"Invalid cursor: {cursor!r}")
    begin = int(cursor or 0)
    end = begin + max(1, limit)
    found = mentions(view_of(store, artifacts=False), text, end + 1)
    return {
        "schema": "hypergraph.search/1",
        "text": jsonable(text),
        "items": [shown_step(step) for step in found[begin:end]],
        "next_cursor": str(end) if len(found) > end else None,
    }


def mentioning(store: Checkpointer, text: str, *, limit: int = 50, **filters: Any) -> WorkflowPage:
    """List workflows with a step, in them or below them, that mentions every word of a text.

    The filters are those of `workflows`. Every stored step is read, and there is one page.

    Raises:
        Problem: a filter is invalid.
    """
    try:
        query = parse(limit=limit, **filters)
    except ValueError as error:
        raise Problem(USAGE, str(error)) from error
    ids = (step.workflow_id for step in mentions(view_of(store, artifacts=False), text, limit * _STEPS))
    if query.parent is None:
        ids = (workflow_id.split("/")[0] for workflow_id in ids)
    order = {workflow_id: place for place, workflow_id in enumerate(dict.fromkeys(ids))}
    found, _, _ = store.backend.find(query._replace(ids=frozenset(order), limit=None))
    items = [workflow_summary(each) for each in sorted(found, key=lambda each: order[each.id])]
    return {
        "schema": "hypergraph.workflows/1",
        "items": items[:limit],
        "total": len(items),
        "next_cursor": None,
        "queued": None,
    }
