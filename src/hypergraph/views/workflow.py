"""One workflow at a glance, and the tree of the runs below it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypedDict

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
from hypergraph.checkpointers.overview import ITEMS, Overview, some_children
from hypergraph.display import iso, jsonable
from hypergraph.structure import StoredGraph, readable_graph
from hypergraph.views.lookup import missing_workflow, require_workflow
from hypergraph.views.step import (
    PauseView,
    QuestionView,
    RunReason,
    Step,
    UnresolvedNode,
    answer_state,
    failed_step,
    pause_view,
    question_view,
    run_reasons,
    unresolved_nodes,
)
from hypergraph.views.values import ValueView, describe
from hypergraph.views.workflows import WorkflowSummary, note_owners, workflow_summary

_DEEPEST = 50  # levels of a tree
_MOST = 1000  # rows of a tree
_COUNTED = ("failed", "partial")  # what failed inside of these is not counted
_QUESTIONS = 200  # listed
ASKED = 20  # questions listed that were asked, the last ones


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


class AskedView(TypedDict):
    """A question that a workflow, or a nested run or item, has asked; open or not."""

    node: str  # with the path of the graphs around it
    keys: list[str]  # the inputs that take its answer
    item: str | None  # the id of the item that asked: to change its answer alone, resume that with a new turn
    superstep: int  # of this workflow
    status: str  # of its step: paused until an answer is used
    answer: str | None  # "given" and not used yet, "used", "expired", or null: open, or none was needed
    answered_by: str | None
    fork_at: (
        int | None
    )  # the superstep to fork from, to answer otherwise; null for one in the first superstep


class WorkflowDetail(WorkflowSummary):
    """One workflow, without its values."""

    schema: str  # hypergraph.workflow/1
    counts: dict[str, int]  # steps by status
    nodes: list[NodeRow]  # in order of first execution; of a map those of its items, unless they are too many
    outdated: list[str]  # nested runs in which something ran by itself since: resume makes the results again
    first_error: Step | None  # with its traceback; in the nested run or item where it happened
    reasons: list[RunReason]  # of runs below that failed where no step says why
    unresolved: list[UnresolvedNode]  # of a run that nothing runs: they began and left no result
    raised: list[UnresolvedNode]  # likewise: they failed with an exception, and a resume calls them again
    pause: PauseView | None  # the first question without an answer
    questions: list[QuestionView]  # all open ones, with their paths from this workflow
    asked: list[AskedView]  # the last ones that were asked; those that needed no answer come last
    asked_left_out: int  # that are not listed
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
    return store.snapshot(lambda view: _detail(view, wf))


def _detail(store: Checkpointer, wf: str) -> WorkflowDetail:
    found = overview(store, wf, steps=0)
    return workflow_view(found, asked(store, found.workflow))


def overview(store: Checkpointer, wf: str, *, steps: int) -> Overview:
    """Return the overview of a workflow with its first `steps` steps. Raises Problem if it does not exist."""
    found = store.read_overview(wf, steps=steps)
    if found is None:
        raise missing_workflow(wf)
    return found


def _asking(found: Overview) -> list[Question]:
    """Return the questions that wait for an answer; a timer waits for none."""
    return [q for q in found.questions if q.step.answer is None and q.pause.reason != "timer"]


def asked(store: Checkpointer, found: Workflow) -> list[AskedView]:
    """List the questions that a workflow has asked, those of nested runs and items included.

    Those that needed no answer come last.
    """
    graph = readable_graph(found.graph)
    if graph is None:
        return []
    rows = sorted(_asked(store, found, graph), key=lambda row: row["superstep"])
    waited = [row for row in rows if row["status"] != "completed" or row["answer"] is not None]
    needless = [row for row in rows if row["status"] == "completed" and row["answer"] is None]
    return waited[-ASKED:] + needless + waited[:-ASKED]


def _asked(  # noqa: PLR0917 - a run, and where it stands in another one
    store: Checkpointer,
    found: Workflow,
    graph: StoredGraph,
    path: tuple[str, ...] = (),
    superstep: int | None = None,
    item: str | None = None,
) -> Iterator[AskedView]:
    """Yield the questions of a run; one inside of another run was asked in a superstep of that one."""
    wf = found.id
    if found.item is not None and path:
        item = wf
    inside: dict[str, StoredGraph] = {}
    for name, node in graph.nodes.items():
        if node.kind == "interrupt":
            for step in store.steps(wf, node=name, values=False)[-ASKED:]:
                at = step.superstep if superstep is None else superstep
                yield {
                    "node": jsonable("/".join((*path, name))),
                    "keys": [jsonable(".".join((*path, output))) for output in node.outputs],
                    "item": jsonable(item),
                    "superstep": at,
                    "status": step.status.value,
                    "answer": answer_state(step),
                    "answered_by": jsonable(step.answered_by),
                    "fork_at": at - 1 if at else None,
                }
        elif node.inner is not None and _asks(node.inner):
            below = readable_graph(node.inner)
            inside |= {name: below} if below is not None else {}
    children = store.backend.children(wf) if inside else []
    for child in children[-ITEMS:]:
        below = inside.get(child.node_name or "")
        if below is None or len(path) >= _DEEPEST:
            continue
        around = child.parent_superstep if superstep is None else superstep
        items = [each for each in store.backend.children(child.id)[-ITEMS:] if each.item is not None]
        for run in items or [child]:
            more = (*path, child.node_name or "", *(() if run.item is None else (f"item-{run.item}",)))
            yield from _asked(store, run, below, more, around or 0, item)


def _asks(structure: Mapping[str, Any]) -> bool:
    """Say whether a stored graph, or one inside of it, asks something."""
    nodes = structure.get("nodes") or ()
    return any(
        node.get("kind") == "interrupt" or _asks(node.get("graph") or {})
        for node in nodes
        if isinstance(node, Mapping)
    )


def workflow_view(found: Overview, asked: Sequence[AskedView] = ()) -> WorkflowDetail:
    """Return an overview, and the questions that were asked, as answers show them."""
    active = found.workflow.status is WorkflowStatus.ACTIVE
    return {
        **workflow_summary(found.workflow, found.failed_inside),
        "schema": "hypergraph.workflow/1",
        "alive": found.owner is not None and found.owner.alive if active else None,
        "counts": _by_status(found.tallies),
        "nodes": jsonable(list(_node_rows(found.tallies or found.item_tallies, found.node_usage))),
        "outdated": [jsonable(run) for run in found.outdated],
        "first_error": None if found.first_error is None else failed_step(found.first_error, found.error_key),
        "reasons": run_reasons(found.reasons),
        "unresolved": unresolved_nodes(found.unresolved),
        "raised": unresolved_nodes(found.raised),
        "pause": next((pause_view(q.pause) for q in _asking(found)), None),
        "questions": [question_view(question) for question in found.questions[:_QUESTIONS]],
        "asked": list(asked[:ASKED]),
        "asked_left_out": max(0, len(asked) - ASKED),
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
    note_owners(store, rows)
    failed = store.backend.count_failed([row["id"] for row in rows if row["status"] not in _COUNTED])
    for row in rows:
        row["failed_inside"] = failed.get(row["id"], 0)
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
            "node": node,
            "runs": runs,
            "total_ms": total,
            "avg_ms": total / runs,
            "errors": sum(tally.steps for tally in own if tally.status is StepStatus.FAILED),
            "cached": sum(tally.steps for tally in own if tally.cached),
            "usage": dict(usage.get(node, {})),
        }
