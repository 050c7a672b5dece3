"""Failed steps: of one workflow and the runs below it, and of all workflows, grouped by node and message."""

import re
from collections.abc import Iterator
from datetime import datetime
from itertools import islice
from typing import TypedDict

from hypergraph.checkpointers import Checkpointer, StepRecord, StepStatus, Workflow, WorkflowStatus
from hypergraph.checkpointers.overview import key_around, loose_ends_of
from hypergraph.checkpointers.query import Clause, Comparison, Moment, Query, moment
from hypergraph.checkpointers.records import recorded_once_only
from hypergraph.display import first_line, iso, jsonable
from hypergraph.views.lookup import require_workflow
from hypergraph.views.problems import USAGE, Problem
from hypergraph.views.step import (
    NO_RESULT,
    RunReason,
    Step,
    UnresolvedNode,
    failed_step,
    run_reasons,
    unresolved_nodes,
)
from hypergraph.views.workflows import shown_key

_PAGE = 500  # workflows read at once
_MOST = 5000  # workflows read in all, the newest ones
_SAMPLES = 5  # workflows named with each error
_ROOTS = 200  # workflows that can be resumed together
_FAILED = frozenset({WorkflowStatus.FAILED})

Failure = tuple[str, str | None, str]  # the node, the type of the error and its first line


class FailurePage(TypedDict):
    """The failed steps of a workflow and of the runs below it."""

    schema: str  # hypergraph.failures/1
    workflow: str
    items: list[Step]  # with their tracebacks
    reason: str | None  # why the workflow failed or stopped, where no step says so
    reasons: list[RunReason]  # of runs below that failed where no step says why
    unresolved: list[UnresolvedNode]  # began and left no result: a resume that is refused there adds no step
    raised: list[UnresolvedNode]  # failed with an exception: a resume calls them again
    complete: bool


class ErrorGroup(TypedDict):
    """Failures of one node with the same type; messages differ in numbers, ids and quoted texts only."""

    node: str
    error_type: str | None
    message: str  # the first line of the latest
    variants: int  # how many different first lines there are
    no_result: bool  # the node began and left no result; no step of it has failed
    resolved: bool  # all of them ended well later, or were repeated
    count: int  # steps, each once however often it was tried
    attempts: int  # executions of these steps that failed
    last_at: str | None
    workflows: list[str]  # the latest of them
    keys: list[str | None]  # of these: the keys of the items of a map that they are, or are inside of
    roots: list[str]  # the outermost workflows that failed with it, at most 200


class ErrorPage(TypedDict):
    """Failed steps of failed workflows in groups, newest first."""

    schema: str  # hypergraph.errors/1
    items: list[ErrorGroup]
    total: int  # groups
    failures: int  # steps
    attempts: int  # executions of these steps that failed
    complete: bool  # False: there are older ones that were not read


def failures(store: Checkpointer, wf: str, *, limit: int = 20) -> FailurePage:
    """List the steps that failed in a workflow and in the runs below it.

    Raises:
        Problem: the workflow does not exist.
    """
    workflow = require_workflow(store, wf)
    found, ends = list(islice(_failures_below(store, workflow), limit + 1)), loose_ends_of(store, workflow)
    keys = _Keys(store)
    return {
        "schema": "hypergraph.failures/1",
        "workflow": jsonable(wf),
        "items": [failed_step(step, keys.of(step.workflow_id)) for step in found[:limit]],
        "reason": jsonable(workflow.reason),
        "reasons": run_reasons(ends.reasons),
        "unresolved": unresolved_nodes(ends.unresolved),
        "raised": unresolved_nodes(ends.raised),
        "complete": len(found) <= limit,
    }


def errors(
    store: Checkpointer,
    workflow: str | None = None,
    *,
    graph: str | None = None,
    since: Moment | None = None,
    limit: int = 20,
    resolved: bool = False,
) -> ErrorPage:
    """Group the failed steps of failed workflows, newest first; `resolved` adds those that ended well later.

    A nested graph that failed, and then ran as a new run because its inputs had changed, counts as resolved.

    `graph` is the name of the graph that failed, or of one around it; `since` says when the workflow was
    created. A failure inside a nested graph counts once, where it happened. `workflow` is the id of one
    whose errors are wanted, with those of the runs below it; by default those of all.

    Raises:
        Problem: the workflow does not exist, or `since` is not a time.
    """
    try:
        query = Query(frozenset() if resolved else _FAILED, since=moment(since), top_level=False, limit=_PAGE)
    except ValueError as error:
        raise Problem(USAGE, str(error)) from error
    groups = _Groups(store)
    count = 0
    if workflow is None:
        failed_ones = _failed_workflows(store, query)
    else:
        failed_ones = _failed_in(store, require_workflow(store, workflow), query)
    visits: dict[tuple[str, str], int] = {}
    for found in failed_ones:
        count += 1
        if count > _MOST:
            break
        is_left = found.status in _FAILED and not _is_repeated(store, found, workflow, visits)
        if not (resolved or is_left):
            continue
        if graph is None or graph in _graphs(store, found):
            failed = _last_failures(store, found.id, resolved)
            for step, attempts, is_done in failed:
                failure = step.node_name, step.error_type, first_line(step.error or "", 200)
                ended = step.completed_at or step.created_at
                groups.add(failure, found.id, ended, attempts, resolved=is_done or not is_left)
            is_told = found.reason is not None and found.status is WorkflowStatus.FAILED
            is_nested = found.node_name is not None and found.item is None
            if is_told and not is_nested:  # else by the step of the graph around it
                kind, _, text = (found.reason or "").partition(": ")
                groups.add(
                    ("", kind, first_line(text, 200)), found.id, found.completed_at, resolved=not is_left
                )
            elif not failed and found.status is WorkflowStatus.FAILED:
                once = recorded_once_only(found)  # after a crash the others are announced, too
                for _, node in store.backend.read_announced(found.id):
                    if node in once:
                        at = found.completed_at
                        groups.add((node, None, NO_RESULT), found.id, at, resolved=not is_left)
    return {
        "schema": "hypergraph.errors/1",
        "items": list(groups.found.values())[:limit],
        "total": len(groups.found),
        "failures": sum(group["count"] for group in groups.found.values()),
        "attempts": sum(group["attempts"] for group in groups.found.values()),
        "complete": count <= _MOST,
    }


def _failures_below(store: Checkpointer, found: Workflow) -> Iterator[StepRecord]:
    """Yield all steps that failed, also those of nested runs and items that were resumed and completed."""
    yield from _failures(store, found.id)
    children = store.backend.children(found.id)
    if any(child.item is not None for child in children):  # of a map only items with failures are read
        broken = Query(_FAILED | {WorkflowStatus.PARTIAL}, parent=found.id, limit=None)
        wanted = set(store.backend.ids(broken))
        for tally in store.backend.tally_items(found.id):
            if tally.status is StepStatus.FAILED:
                failed = Clause(tally.node, (Comparison("status", "=", "failed"),))
                wanted.update(store.backend.ids(Query(parent=found.id, where=(failed,), limit=None)))
        children = [child for child in children if child.id in wanted]
    for child in sorted(children, key=lambda child: (child.item or 0, child.visit)):
        if len(child.id) > len(found.id):  # the id of a child begins with its parent's; no circle does
            yield from _failures_below(store, child)


def _failed_workflows(store: Checkpointer, query: Query) -> Iterator[Workflow]:
    while True:
        page, _, cursor = store.backend.find(query)
        yield from page
        if cursor is None:
            return
        query = query._replace(cursor=cursor)


def _failed_in(store: Checkpointer, found: Workflow, query: Query) -> Iterator[Workflow]:
    """Yield a workflow and the runs below it, those that a query looks for."""
    if (not query.statuses or found.status in query.statuses) and (
        query.since is None or found.created_at >= query.since
    ):
        yield found
    for child in store.backend.children(found.id):
        if len(child.id) > len(found.id):  # the id of a child begins with its parent's; no circle does
            yield from _failed_in(store, child, query)


def _graphs(store: Checkpointer, found: Workflow) -> set[str | None]:
    """Return the names of the graph of a workflow and of those around it."""
    names, above, passed = {found.graph_name}, found.parent_id, {found.id}
    while above is not None and above not in passed:  # a damaged store may have circles
        passed.add(above)
        parent = store.backend.read_workflow(above)
        names |= set() if parent is None else {parent.graph_name}
        above = None if parent is None else parent.parent_id
    return names


def _is_repeated(
    store: Checkpointer, found: Workflow, asked: str | None, visits: dict[tuple[str, str], int]
) -> bool:
    """Tell whether a run, or one around it up to that asked for, is of a visit that was repeated since."""
    at: Workflow | None = found
    while at is not None and at.id != asked and at.parent_id is not None:
        place = at.parent_id, at.node_name or ""
        if at.item is None and place not in visits:
            for child in store.backend.children(at.parent_id):
                known = at.parent_id, child.node_name or ""
                visits[known] = max(child.visit, visits.get(known, 0))
        if at.item is None and at.visit < visits.get(place, 0):
            return True
        # The id of a child begins with its parent's: a damaged store has no circle here.
        at = store.backend.read_workflow(at.parent_id) if len(at.parent_id) < len(at.id) else None
    return False


def _failures(store: Checkpointer, wf: str) -> Iterator[StepRecord]:
    """Yield the steps that failed in the workflow itself, the last one first; nested runs have their own."""
    failed = [tally for tally in store.backend.tally_steps(wf) if tally.status is StepStatus.FAILED]
    for tally in sorted(failed, key=lambda tally: -tally.last):
        for step in reversed(store.steps(wf, node=tally.node, values=False)):
            nested = step.child_workflow_id and store.backend.read_workflow(step.child_workflow_id)
            if step.status is StepStatus.FAILED and not (nested and _is_told_inside(store, nested)):
                yield step


def _is_told_inside(store: Checkpointer, nested: Workflow) -> bool:
    """Say whether a step of a nested run says why it ended badly: it counts where it happened."""
    if nested.reason is None:
        return True
    return any(tally.status is StepStatus.FAILED for tally in store.backend.tally_steps(nested.id))


def _last_failures(store: Checkpointer, wf: str, resolved: bool) -> list[tuple[StepRecord, int, bool]]:
    """Return the last failure of each step of a workflow itself, how many it had, and if it ended well since.

    Those that did are left out unless `resolved`.
    """
    found: dict[tuple[str, int], tuple[StepRecord, int]] = {}
    for step in _failures(store, wf):  # the last one first
        last, attempts = found.get((step.node_name, step.round), (step, 0))
        found[step.node_name, step.round] = last, attempts + 1
    done: dict[str, int] = {}
    for tally in store.backend.tally_steps(wf):
        if tally.status is StepStatus.COMPLETED:
            done[tally.node] = max(tally.last, done.get(tally.node, -1))
    every = [(*each, each[0].index <= done.get(each[0].node_name, -1)) for each in found.values()]
    return [each for each in every if resolved or not each[2]]


# What differs between messages of the same failure: quoted texts, ids and numbers.
_VARYING = re.compile(
    r"""(?<!\w)(['"`]).*?\1(?!\w)|\b(?=\w*\d)[0-9a-fA-F]{4,}(?:-[0-9a-fA-F]{4,})*\b|0x[0-9a-fA-F]+|\d+(?:[.,:]\d+)*"""
)


class _Keys:
    """Keys of the items of maps that runs are inside of, each looked up once; the outermost run has none."""

    def __init__(self, store: Checkpointer) -> None:
        self._store = store
        self._known: dict[str, str | None] = {}

    def of(self, workflow_id: str) -> str | None:
        """Return the key of an item, or of the item around a run; None without one."""
        if "/" not in workflow_id:
            return None
        if workflow_id not in self._known:
            found = self._store.backend.read_workflow(workflow_id)
            self._known[workflow_id] = key_around(self._store, found)
        return self._known[workflow_id]


class _Groups:
    """Failures by node, type and what their messages have in common."""

    def __init__(self, store: Checkpointer) -> None:
        self.found: dict[Failure, ErrorGroup] = {}
        self._keys = _Keys(store)
        self._messages: dict[Failure, set[str]] = {}

    def add(
        self,
        failure: Failure,
        workflow_id: str,
        at: datetime | None,
        attempts: int = 1,
        *,
        resolved: bool = False,
    ) -> None:
        """Add one step that failed, with how often it did."""
        node, error_type, message = failure
        alike = node, error_type, _VARYING.sub("#", message)
        group = self.found.setdefault(
            alike,
            {
                "node": jsonable(node),
                "error_type": jsonable(error_type),
                "message": message,
                "variants": 0,
                "no_result": error_type is None and message == NO_RESULT,
                "resolved": True,
                "count": 0,
                "attempts": 0,
                "last_at": iso(at),
                "workflows": [],
                "keys": [],
                "roots": [],
            },
        )
        messages = self._messages.setdefault(alike, set())
        messages.add(message)
        group["variants"] = len(messages)
        group["resolved"] &= resolved
        group["last_at"] = max(filter(None, (group["last_at"], iso(at))), default=None)
        group["count"] += 1
        group["attempts"] += attempts
        wf = jsonable(workflow_id)
        if wf not in group["workflows"] and len(group["workflows"]) < _SAMPLES:
            group["workflows"].append(wf)
            group["keys"].append(shown_key(self._keys.of(workflow_id)))
        root = wf.split("/")[0]
        if root not in group["roots"] and len(group["roots"]) < _ROOTS:
            group["roots"].append(root)
