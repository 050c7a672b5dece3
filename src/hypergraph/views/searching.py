"""Workflows in which a text is mentioned: in a name, an error or a value of one of their steps."""

from __future__ import annotations

from functools import partial
from typing import Any

from hypergraph.checkpointers import Checkpointer
from hypergraph.checkpointers.filters import parse
from hypergraph.checkpointers.surveys import mentions
from hypergraph.views.problems import USAGE, Problem
from hypergraph.views.workflow import fields_of
from hypergraph.views.workflows import WorkflowPage, summary

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
    found = [store.read_workflow(workflow_id) for workflow_id in dict.fromkeys(ids)]
    items = [
        summary(fields_of(workflow))
        for workflow in found
        if workflow is not None
        and query.admits(workflow, partial(store.read_steps, workflow.id, values=False))
    ]
    return {
        "schema": "hypergraph.workflows/1",
        "items": items[:limit],
        "total": len(items),
        "next_cursor": None,
    }
