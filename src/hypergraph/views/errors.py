"""What went wrong: the first failure of one workflow, and those of all workflows, alike ones together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TypedDict

from hypergraph.checkpointers import Checkpointer, StepRecord, StepStatus, Workflow, WorkflowStatus
from hypergraph.checkpointers.backend import StepTally
from hypergraph.checkpointers.query import Moment, Query, moment
from hypergraph.display import first_line, iso, jsonable
from hypergraph.views.base import known
from hypergraph.views.problems import USAGE, Problem

_PAGE = 500  # workflows looked at together
_MOST = 5000  # workflows looked at in all, the newest ones
_SAMPLES = 5  # workflows named with each error
_BROKEN = frozenset({WorkflowStatus.FAILED})


class FirstError(TypedDict):
    """A step that failed, in the workflow where that really happened."""

    workflow: str  # a child of the one asked for, if it failed inside of a nested graph
    index: int
    node: str
    error_type: str | None
    message: str
    traceback: str | None


class FailurePage(TypedDict):
    """The failing steps of a workflow and of the runs that are part of it."""

    schema: str  # hypergraph.failures/1
    workflow: str
    items: list[FirstError]
    complete: bool


class ErrorGroup(TypedDict):
    """Failures that are alike: the same node, type and first line."""

    node: str
    error_type: str | None
    message: str  # the first line
    count: int
    last_at: str | None
    workflows: list[str]  # the latest of them


class ErrorPage(TypedDict):
    """Failing steps of all workflows that failed, alike ones together, newest first."""

    schema: str  # hypergraph.errors/1
    items: list[ErrorGroup]
    total: int  # groups
    failures: int
    complete: bool  # False: there are older ones that were not looked at


def first_error(store: Checkpointer, found: Workflow, tallies: Sequence[StepTally]) -> FirstError | None:
    """Return where a workflow failed first; failures of nested graphs are followed to where they happened."""
    failed = [tally.first for tally in tallies if tally.status is StepStatus.FAILED]
    if failed:
        step = store.without_artifacts().step(found.id, min(failed))
        if step is None:
            return None
        child = step.child_workflow_id and store.backend.read_workflow(step.child_workflow_id)
        inner = first_error(store, child, store.backend.tally_steps(child.id)) if child else None
        return inner or _located(step)
    return _of_first_child(store, found.id)


def failures(store: Checkpointer, wf: str, *, limit: int = 20) -> FailurePage:
    """List the steps that failed in a workflow and in the runs that are part of it.

    Raises:
        Problem: there is no such workflow.
    """
    found = list(islice(_failures_below(store, known(store, wf)), limit + 1))
    return {
        "schema": "hypergraph.failures/1",
        "workflow": jsonable(wf),
        "items": [_located(step) for step in found[:limit]],
        "complete": len(found) <= limit,
    }


def errors(
    store: Checkpointer, *, graph: str | None = None, since: Moment | None = None, limit: int = 20
) -> ErrorPage:
    """Group the failing steps of workflows that failed, newest first.

    `graph` is the name of the graph that failed, or of the one that it was nested in; `since` says when the
    workflow was created. A failure inside of a nested graph counts once, where it happened.

    Raises:
        Problem: `since` is no moment.
    """
    try:
        query = Query(_BROKEN, since=moment(since), top_level=False, limit=_PAGE)
    except ValueError as error:
        raise Problem(USAGE, str(error)) from error
    groups: dict[tuple[str, str | None, str], ErrorGroup] = {}
    looked_at = 0
    for found in _failed_workflows(store, query):
        looked_at += 1
        if looked_at > _MOST:
            break
        if graph is None or graph in _graphs(store, found):
            for step in _failures(store, found.id):
                _add(groups, step)
    return {
        "schema": "hypergraph.errors/1",
        "items": list(groups.values())[:limit],
        "total": len(groups),
        "failures": sum(group["count"] for group in groups.values()),
        "complete": looked_at <= _MOST,
    }


def _failures_below(store: Checkpointer, found: Workflow) -> Iterator[StepRecord]:
    yield from _failures(store, found.id)
    broken, _, _ = store.backend.find(Query(_BROKEN | {WorkflowStatus.PARTIAL}, parent=found.id, limit=None))
    for child in sorted(broken, key=lambda child: child.item or 0):
        yield from _failures_below(store, child)


def _failed_workflows(store: Checkpointer, query: Query) -> Iterator[Workflow]:
    while True:
        page, _, cursor = store.backend.find(query)
        yield from page
        if cursor is None:
            return
        query = query._replace(cursor=cursor)


def _graphs(store: Checkpointer, found: Workflow) -> set[str | None]:
    """Return the names of the graph of a workflow and of those it is nested in."""
    names, above = {found.graph_name}, found.parent_id
    while above is not None and (parent := store.backend.read_workflow(above)) is not None:
        names.add(parent.graph_name)
        above = parent.parent_id
    return names


def _failures(store: Checkpointer, wf: str) -> Iterator[StepRecord]:
    """Yield the steps that failed by themselves, the last one first; of nested graphs the child has them."""
    failed = [tally for tally in store.backend.tally_steps(wf) if tally.status is StepStatus.FAILED]
    for tally in sorted(failed, key=lambda tally: -tally.last):
        for step in reversed(store.steps(wf, node=tally.node, values=False)):
            nested = step.child_workflow_id and store.backend.read_workflow(step.child_workflow_id)
            if step.status is StepStatus.FAILED and not nested:
                yield step


def _add(groups: dict[tuple[str, str | None, str], ErrorGroup], step: StepRecord) -> None:
    message = first_line(step.error or "", 200)
    key = step.node_name, step.error_type, message
    group = groups.setdefault(
        key,
        {
            "node": jsonable(step.node_name),
            "error_type": jsonable(step.error_type),
            "message": message,
            "count": 0,
            "last_at": iso(step.completed_at or step.created_at),
            "workflows": [],
        },
    )
    group["count"] += 1
    wf = jsonable(step.workflow_id)
    if wf not in group["workflows"] and len(group["workflows"]) < _SAMPLES:
        group["workflows"].append(wf)


def _of_first_child(store: Checkpointer, wf: str) -> FirstError | None:
    """Return the first error of the first run below that failed: of a map, or of what may fail."""
    broken = _BROKEN | {WorkflowStatus.PARTIAL}
    failed, _, _ = store.backend.find(Query(broken, parent=wf, limit=_PAGE))
    for child in sorted(failed, key=lambda child: child.item or 0):
        found = first_error(store, child, store.backend.tally_steps(child.id))
        if found is not None:
            return found
    return None


def _located(step: StepRecord) -> FirstError:
    return {
        "workflow": jsonable(step.workflow_id),
        "index": step.index,
        "node": jsonable(step.node_name),
        "error_type": jsonable(step.error_type),
        "message": jsonable(step.error or ""),
        "traceback": jsonable(step.traceback),
    }
