"""One workflow at a glance, and the tree of the runs below it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypedDict

from hypergraph.checkpointers import (
    Checkpointer,
    Progress,
    Question,
    Signal,
    StepStatus,
    Workflow,
    WorkflowStatus,
)
from hypergraph.checkpointers.backend import StepTally
from hypergraph.checkpointers.overview import Overview, some_children
from hypergraph.display import iso, jsonable
from hypergraph.views.lookup import missing_workflow, require_workflow
from hypergraph.views.step import (
    PauseView,
    QuestionView,
    Step,
    UnresolvedNode,
    pause_view,
    question_view,
    shown_step,
    unresolved_nodes,
)
from hypergraph.views.values import ValueView, describe
from hypergraph.views.workflows import WorkflowSummary, workflow_summary

_DEEPEST = 50  # levels of a tree
_MOST = 1000  # rows of a tree
_QUESTIONS = 200  # listed


class NodeRow(TypedDict):
    """All executions of one node."""

    node: str
    runs: int
    total_ms: float
    avg_ms: float
    errors: int
    cached: int
    usage: dict[str, float]  # what was recorded with ctx.record; not of the items of a map


class ProgressView(TypedDict):
    """How far a running node is."""

    workflow: str  # whose node it is
    node: str
    done: float
    total: float | None
    share: float | None  # from 0 to 1
    text: str


class ChildCounts(TypedDict):
    """The children of a workflow: nested runs, or the items of a map."""

    total: int
    by_status: dict[str, int]
    is_map: bool  # the children are items of a map
    items: list[WorkflowSummary]  # some of them, failed ones first


class SignalView(TypedDict):
    """A value that was sent to a workflow."""

    name: str
    value: ValueView
    by: str | None  # who sent it
    sent_at: str | None


class WorkflowDetail(WorkflowSummary):
    """One workflow, without its values."""

    schema: str  # hypergraph.workflow/1
    counts: dict[str, int]  # steps by status
    nodes: list[NodeRow]  # in order of first execution; of a map those of its items, unless they are too many
    first_error: Step | None  # with its traceback; in the nested run or item where it happened
    unresolved: list[UnresolvedNode]  # of a failed run: they began and left no result
    pause: PauseView | None  # the first question without an answer
    questions: list[QuestionView]  # all open ones, with their paths from this workflow
    signals: list[SignalView]  # values that were sent to it and wait to be received
    children: ChildCounts
    next: list[str] | None  # nodes that would run next; null if the history is too long to find out
    forks: list[str]
    progress: list[ProgressView]  # of nodes that run now, if they say how far they are


class TreeRow(WorkflowSummary):
    """One run of a tree."""

    depth: int
    left_out: int  # children that are not listed


class TreeView(TypedDict):
    """All runs of a workflow, parents first; of many children those that failed, and some others."""

    schema: str  # hypergraph.tree/1
    workflow: str
    items: list[TreeRow]
    complete: bool


def workflow(store: Checkpointer, wf: str) -> WorkflowDetail:
    """Return one workflow at a glance, read in one transaction.

    Raises:
        Problem: the workflow does not exist.
    """
    return workflow_view(overview(store, wf, steps=0))


def overview(store: Checkpointer, wf: str, *, steps: int) -> Overview:
    """Return the overview of a workflow with its first `steps` steps. Raises Problem if it does not exist."""
    found = store.read_overview(wf, steps=steps)
    if found is None:
        raise missing_workflow(wf)
    return found


def _asking(found: Overview) -> list[Question]:
    """Return the questions that wait for an answer; a timer waits for none."""
    return [q for q in found.questions if q.step.answer is None and q.pause.reason != "timer"]


def workflow_view(found: Overview) -> WorkflowDetail:
    """Return an overview as answers show it."""
    active = found.workflow.status is WorkflowStatus.ACTIVE
    return {
        **workflow_summary(found.workflow),
        "schema": "hypergraph.workflow/1",
        "alive": found.owner is not None and found.owner.alive if active else None,
        "counts": _by_status(found.tallies),
        "nodes": list(_node_rows(found.tallies or found.item_tallies, found.node_usage)),
        "first_error": None if found.first_error is None else shown_step(found.first_error, failure=True),
        "unresolved": unresolved_nodes(found.unresolved),
        "pause": next((pause_view(q.pause) for q in _asking(found)), None),
        "questions": [question_view(question) for question in found.questions[:_QUESTIONS]],
        "signals": [signal_view(sent) for sent in found.signals[:_QUESTIONS]],
        "children": {
            "total": sum(found.child_counts.values()),
            "by_status": found.child_counts,
            "is_map": found.is_map,
            "items": [workflow_summary(child) for child in found.children],
        },
        "next": None if found.next is None else [jsonable(name) for name in found.next],
        "forks": [jsonable(fork) for fork in found.forks],
        "usage": jsonable(found.usage),
        "progress": [progress_view(progress) for progress in found.progress],
    }


def progress_view(found: Progress) -> ProgressView:
    """Return how far a node is, as answers show it."""
    return {
        "workflow": jsonable(found.workflow_id),
        "node": jsonable(found.node),
        "done": found.done,
        "total": found.total,
        "share": found.share,
        "text": jsonable(found.text),
    }


def signal_view(sent: Signal) -> SignalView:
    """Return a value that was sent as answers show it."""
    return {
        "name": jsonable(sent.name),
        "value": describe(sent.value),
        "by": jsonable(sent.by),
        "sent_at": iso(sent.sent_at),
    }


def tree(store: Checkpointer, wf: str) -> TreeView:
    """List the runs that a workflow consists of.

    Raises:
        Problem: the workflow does not exist.
    """
    rows: list[TreeRow] = []
    complete = True
    for row in _tree_rows(store, require_workflow(store, wf), 0):
        if len(rows) == _MOST:
            complete = False
            break
        complete = complete and not row["left_out"]
        rows.append(row)
    return {"schema": "hypergraph.tree/1", "workflow": jsonable(wf), "items": rows, "complete": complete}


def _tree_rows(store: Checkpointer, found: Workflow, depth: int) -> Iterator[TreeRow]:
    children, counts = some_children(store, found.id) if depth < _DEEPEST else ([], {})
    left_out = sum(counts.values()) - len(children)
    yield {**workflow_summary(found), "depth": depth, "left_out": left_out}
    for child in children:
        yield from _tree_rows(store, child, depth + 1)


def _by_status(tallies: Sequence[StepTally]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for tally in tallies:
        counts[tally.status.value] = counts.get(tally.status.value, 0) + tally.steps
    return counts


def _node_rows(tallies: Sequence[StepTally], usage: Mapping[str, Mapping[str, float]]) -> Iterator[NodeRow]:
    for node in dict.fromkeys(tally.node for tally in tallies):
        own = [tally for tally in tallies if tally.node == node]
        runs, total = sum(tally.steps for tally in own), sum(tally.total_ms for tally in own)
        yield {
            "node": jsonable(node),
            "runs": runs,
            "total_ms": total,
            "avg_ms": total / runs,
            "errors": sum(tally.steps for tally in own if tally.status is StepStatus.FAILED),
            "cached": sum(tally.steps for tally in own if tally.cached),
            "usage": jsonable(usage.get(node, {})),
        }
