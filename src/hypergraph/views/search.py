"""Steps and workflows that mention a text."""

from __future__ import annotations

import re
from functools import partial
from typing import Any, TypedDict

from hypergraph.checkpointers import Checkpointer
from hypergraph.checkpointers.analysis import mentions
from hypergraph.checkpointers.query import parse
from hypergraph.display import jsonable
from hypergraph.views.base import StepSummary, step_summary
from hypergraph.views.problems import USAGE, Problem
from hypergraph.views.workflow import fields_of
from hypergraph.views.workflows import WorkflowPage, summary


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


_STEPS = 20  # mentions that are looked for per workflow wanted


def mentioning(store: Checkpointer, text: str, *, limit: int = 50, **filters: Any) -> WorkflowPage:
    """List workflows with a step, in them or below them, that mentions every word of a text.

    The filters are those of `workflows`; all steps are looked through, and there is one page.

    Raises:
        Problem: a filter cannot be understood.
    """
    try:
        query = parse(limit=limit, **filters)
    except ValueError as error:
        raise Problem(USAGE, str(error)) from error
    ids = (step.workflow_id for step in mentions(store, text, limit * _STEPS))
    if query.parent is None:
        ids = (workflow_id.split("/")[0] for workflow_id in ids)
    found = [store.backend.read_workflow(workflow_id) for workflow_id in dict.fromkeys(ids)]
    items = [
        summary(fields_of(workflow))
        for workflow in found
        if workflow is not None and query.admits(workflow, partial(store.steps, workflow.id, values=False))
    ]
    return {
        "schema": "hypergraph.workflows/1",
        "items": items[:limit],
        "total": len(items),
        "next_cursor": None,
    }
