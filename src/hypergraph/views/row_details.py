"""Details of rows of a list: errors, inputs, running nodes, items; and numbers of workflows by status."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from hypergraph.checkpointers import Checkpointer, Workflow, WorkflowStatus
from hypergraph.checkpointers.overview import first_error_in, loose_ends_of
from hypergraph.checkpointers.query import Query, parse
from hypergraph.checkpointers.view import view_of
from hypergraph.display import bounded, first_line, jsonable
from hypergraph.views.problems import USAGE, Problem
from hypergraph.views.state import upcoming
from hypergraph.views.step import NO_RESULT, unresolved_nodes
from hypergraph.views.values import is_at_hand, short_text

_MOST = 100  # workflows in one answer
_INPUTS = 3  # shown of one workflow
_TEXT = 80  # characters of an input
_LONG = 2000  # steps; to find the running nodes takes all of them
_DEEPEST = 8  # levels that a running node is followed into


class FirstError(TypedDict):
    """The failure of a workflow in a line."""

    run: str  # where it happened
    index: int | None  # of the step; null for a run that failed between steps, and a node that left no result
    node: str
    error_type: str | None
    message: str  # the first line


class RowDetails(TypedDict):
    """One workflow in a list, beyond its summary."""

    id: str
    error: FirstError | None
    inputs: list[str]  # as "name=value"; at most three
    running: list[str]  # paths of the nodes that an active run is at
    items: dict[str, int]  # of a map, the number of items by status; empty for other workflows
    usage: dict[str, float]  # what was recorded with ctx.record, in it and below it


class RowDetailsPage(TypedDict):
    """Details of some rows of a list."""

    schema: str  # hypergraph.row_details/1
    items: list[RowDetails]


class CountsView(TypedDict):
    """Numbers of workflows by status."""

    schema: str  # hypergraph.counts/1
    counts: dict[str, int]


def row_details(store: Checkpointer, id: Sequence[str]) -> RowDetailsPage:
    """Return details of workflows by id; unknown ids are left out.

    Raises:
        Problem: there are too many ids.
    """
    if len(id) > _MOST:
        raise Problem(USAGE, f"At most {_MOST} ids can be asked for at once")
    store = view_of(store, artifacts=False)
    found = [store.backend.read_workflow(workflow_id) for workflow_id in id]
    used = store.backend.total_usage([workflow.id for workflow in found if workflow is not None])
    failed = store.backend.count_failed([workflow.id for workflow in found if workflow is not None])
    items = [_details_of(store, workflow, used, failed) for workflow in found if workflow is not None]
    return {"schema": "hypergraph.row_details/1", "items": items}


def counts(store: Checkpointer, **filters: Any) -> CountsView:
    """Count the workflows that pass the filters, by status.

    Raises:
        Problem: a filter is invalid.
    """
    try:
        query = parse(**{**filters, "limit": 1})
    except ValueError as error:
        raise Problem(USAGE, str(error)) from error
    totals = {
        status.value: store.backend.summaries(query._replace(statuses=frozenset({status})))[1]
        for status in WorkflowStatus
    }
    return {"schema": "hypergraph.counts/1", "counts": totals}


def _details_of(
    store: Checkpointer, found: Workflow, used: Mapping[str, dict[str, float]], failed: Mapping[str, int]
) -> RowDetails:
    broken = found.status in (WorkflowStatus.FAILED, WorkflowStatus.PARTIAL) or found.id in failed
    return {
        "id": jsonable(found.id),
        "error": first_error(store, found.id) if broken else None,
        "inputs": _inputs(store, found.id),
        "running": _running(store, found) if found.status is WorkflowStatus.ACTIVE else [],
        "items": {} if found.step_count else _items(store, found.id),
        "usage": jsonable(used.get(found.id, {})),
    }


def first_error(store: Checkpointer, workflow_id: str) -> FirstError | None:
    """Return the failure of a workflow in a line, None if no step has failed and none lacks a result."""
    step = first_error_in(store, workflow_id)
    if step is not None:
        return {
            "run": jsonable(step.workflow_id),
            "index": step.index,
            "node": jsonable(step.node_name),
            "error_type": jsonable(step.error_type),
            "message": first_line(step.error or "", 200),
        }
    workflow = store.backend.read_workflow(workflow_id)
    if workflow is None:
        return None
    ends = loose_ends_of(store, workflow)
    for run, reason in ends.reasons:
        kind, _, text = reason.partition(": ")
        return {
            "run": jsonable(run),
            "index": None,
            "node": "",
            "error_type": jsonable(kind),
            "message": first_line(text, 200),
        }
    for node in unresolved_nodes(ends.unresolved):
        return {
            "run": node["workflow"],
            "index": None,
            "node": node["node"],
            "error_type": None,
            "message": NO_RESULT,
        }
    return None


def _inputs(store: Checkpointer, workflow_id: str) -> list[str]:
    payloads = [payload for payload in store.backend.read_inputs(workflow_id) if is_at_hand(payload)]
    return [
        jsonable(f"{payload.name}={bounded(short_text(store.encoding.value(workflow_id, payload)), _TEXT)}")
        for payload in payloads[:_INPUTS]
    ]


def _running(store: Checkpointer, found: Workflow, depth: int = 0) -> list[str]:
    """Return the nodes that a run is at; those of nested graphs by their path."""
    active = Query(parent=found.id, statuses=frozenset({WorkflowStatus.ACTIVE}), limit=3)
    nested = store.backend.find(active)[0] if depth < _DEEPEST else []
    paths = []
    for child in nested:
        inside = _running(store, child, depth + 1)
        if child.item is None or child.node_name is None:  # else its map has the name already
            name = child.node_name or f"item {child.item}"
            inside = [f"{name}/{path}" for path in inside] or [name]
        paths += inside
    is_map = not found.step_count and bool(store.backend.read_items(found.id))
    if not paths and not is_map and found.step_count <= _LONG:
        paths = upcoming(store, found) or []
    return [jsonable(path) for path in paths[:3]]


def _items(store: Checkpointer, workflow_id: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for item in store.backend.read_items(workflow_id):
        found[item.status] = found.get(item.status, 0) + 1
    return found
