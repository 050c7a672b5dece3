"""Which steps mention some words, in a name, an error or a value, by workflow."""

from __future__ import annotations

from typing import TypedDict

from hypergraph.checkpointers import Checkpointer
from hypergraph.checkpointers.surveys import mentions
from hypergraph.display import jsonable
from hypergraph.views.problems import USAGE, Problem
from hypergraph.views.records import StepSummary, step_summary
from hypergraph.views.workflows import iso

_STEPS = 500  # that are looked for, the newest workflows first


class Found(TypedDict):
    """One workflow and its steps that mention the words."""

    id: str
    status: str
    created_at: str | None
    steps: list[StepSummary]


class SearchPage(TypedDict):
    """Workflows with steps that mention every word, newest first."""

    schema: str  # hypergraph.search/1
    text: str
    items: list[Found]
    complete: bool


def search(store: Checkpointer, text: str, *, limit: int = 20) -> SearchPage:
    """Look for steps that mention every word of a text; values in artifacts are not looked into.

    Raises:
        Problem: there is no word in the text.
    """
    if not text.split():
        raise Problem(USAGE, "There is nothing to search for")
    steps = mentions(store, text, _STEPS)
    found: dict[str, Found] = {}
    for step in steps:
        workflow = None if step.workflow_id in found else store.read_workflow(step.workflow_id)
        if workflow is not None:
            found[step.workflow_id] = {
                "id": jsonable(workflow.id),
                "status": workflow.status.value,
                "created_at": iso(workflow.created_at),
                "steps": [],
            }
        if step.workflow_id in found:
            found[step.workflow_id]["steps"].append(step_summary(step))
    return {
        "schema": "hypergraph.search/1",
        "text": jsonable(text),
        "items": list(found.values())[:limit],
        "complete": len(steps) < _STEPS and len(found) <= limit,
    }
