"""Overview of one workflow: its record, owner, first steps, counts, children, first error and questions."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from hypergraph.checkpointers.backend import Owner, StepTally
from hypergraph.checkpointers.history import History, ran_since
from hypergraph.checkpointers.live import ITEMS as ANY_ITEM
from hypergraph.checkpointers.live import Progress, visits_of
from hypergraph.checkpointers.query import Query
from hypergraph.checkpointers.questions import Question
from hypergraph.checkpointers.records import Signal, StepRecord, Usage, Workflow, recorded_once_only
from hypergraph.checkpointers.status import UNFINISHED, StepStatus, WorkflowStatus
from hypergraph.checkpointers.view import view_of
from hypergraph.display import did_you_mean

if TYPE_CHECKING:
    from hypergraph.checkpointers.base import Checkpointer

CHILDREN = 20  # listed, those that failed first
FORKS = 20  # listed
ITEMS = 2000  # of a map that are searched for the first error
LONG = 20_000  # steps; to find the next nodes takes all of them
_ITEM = re.compile(r"item-(?:\d+|N)")
_BROKEN = frozenset({WorkflowStatus.FAILED, WorkflowStatus.PARTIAL})
_CUT_OFF = frozenset({WorkflowStatus.ACTIVE, WorkflowStatus.STOPPED})
# Those of interest first; each status is one seek in an index, however many items a map has.
_STATUSES = ("failed", "partial", "paused", "active", "stopped", "completed")


class LooseEnds(NamedTuple):
    """What no failed step tells of a workflow that nothing runs, and of the runs below it, by workflow."""

    reasons: list[tuple[str, str]]  # items that failed where no step says why: workflow and reason
    unresolved: list[tuple[str, str]]  # began and left no result: workflow and node with repeatable=False
    raised: list[tuple[str, str]]  # failed with an exception: workflow and node with repeatable=False


@dataclass(frozen=True, slots=True)
class Overview:
    """A workflow at a glance, as of one moment."""

    workflow: Workflow  # its record
    owner: Owner | None  # None: no process holds it
    steps: list[StepRecord]  # the first ones by superstep and index, without values
    tallies: list[StepTally]  # executions by node, status and cached
    item_tallies: list[StepTally]  # the same of all items of a map
    children: list[Workflow]  # at most CHILDREN: those that failed first, then by item
    child_counts: dict[str, int]  # status -> how many children have it
    is_map: bool  # the children are items of a map
    failed_inside: int  # items of maps inside, or else nested runs, that failed without failing it
    outdated: list[str]  # nested runs in which something ran by itself since: resume makes the results again
    first_error: StepRecord | None  # in the nested run or item where it happened
    error_status: WorkflowStatus | None  # of that run
    error_key: str | None  # of the item of a map that it happened in, if that has a key
    child_errors: dict[str, StepRecord]  # of listed children that failed: id -> the step that failed
    reasons: list[tuple[str, str]]  # items below that failed where no step says why: workflow and reason
    unresolved: list[tuple[str, str]]  # if nothing runs it: workflow and node that began and left no result
    raised: list[tuple[str, str]]  # likewise: workflow and node with repeatable=False that raised
    questions: list[Question]  # open ones, of nested runs and items too; artifacts are not fetched
    signals: list[Signal]  # values that were sent to it and wait to be received
    next: tuple[str, ...] | None  # nodes that would run next; None if the history is longer than LONG
    forks: list[str]  # ids, at most FORKS
    usage: dict[str, float]  # what was recorded in it and below it
    node_usage: dict[str, dict[str, float]]  # what its own nodes recorded, by node
    progress: list[Progress]  # how far running nodes are


def overview_of(store: "Checkpointer", workflow_id: str, *, steps: int = 20) -> Overview | None:
    """Return a workflow at a glance with its first `steps` steps, None if there is none, of one moment."""
    return view_of(store, artifacts=False).snapshot(lambda view: _overview(view, workflow_id, steps))


def _overview(store: "Checkpointer", workflow_id: str, steps: int) -> Overview | None:
    workflow = store.backend.read_workflow(workflow_id)
    if workflow is None:
        return None
    tallies = store.backend.tally_steps(workflow_id)
    children, counts = some_children(store, workflow_id)
    is_map = any(child.item is not None for child in children)
    forks, _, _ = store.backend.find(Query(forked_from=workflow_id, top_level=False, limit=FORKS))
    failed = (
        0 if workflow.status in _BROKEN else store.backend.count_failed([workflow_id]).get(workflow_id, 0)
    )
    is_over = workflow.status is WorkflowStatus.COMPLETED
    error = first_error_in(store, workflow_id, tallies)
    ends = loose_ends_of(store, workflow) if failed or not is_over else LooseEnds([], [], [])
    at: Workflow | None = None if error is None else workflow
    if error is not None and error.workflow_id != workflow_id:
        at = store.backend.read_workflow(error.workflow_id)
    errors = {child.id: first_error_in(store, child.id) for child in children if child.status in _BROKEN}
    return Overview(
        workflow=workflow,
        owner=_owner(store, workflow),
        steps=store.steps(workflow_id, limit=steps, values=False) if steps else [],
        tallies=tallies,
        item_tallies=store.backend.tally_items(workflow_id) if is_map else [],
        children=children,
        child_counts=counts,
        is_map=is_map,
        failed_inside=failed,
        outdated=outdated_in(store, workflow, tallies),
        first_error=error,
        error_status=None if at is None else at.status,
        error_key=key_around(store, at),
        child_errors={child: step for child, step in errors.items() if step is not None},
        reasons=ends.reasons,
        unresolved=ends.unresolved,
        raised=ends.raised,
        questions=[] if workflow.status is WorkflowStatus.COMPLETED else store.questions(workflow_id),
        signals=[sent for sent in store.signals(workflow_id) if sent.received_by is None],
        next=() if is_map else _next(store, workflow, tallies),
        forks=[fork.id for fork in forks],
        usage=store.backend.total_usage([workflow_id]).get(workflow_id, {}),
        node_usage=_by_node(store.backend.read_usage(workflow_id)),
        progress=store.progress(workflow_id) if workflow.status is WorkflowStatus.ACTIVE else [],
    )


def outdated_in(
    store: "Checkpointer", workflow: Workflow, tallies: Sequence[StepTally] | None = None
) -> list[str]:
    """Return the nested runs of a workflow in which something ran by itself after their step had ended."""
    nodes = (workflow.graph or {}).get("nodes")
    listed = [node for node in nodes if isinstance(node, Mapping)] if isinstance(nodes, list) else []
    graphs = {node.get("name") for node in listed if node.get("graph")}
    if not graphs:
        return []
    tallies = store.backend.tally_steps(workflow.id) if tallies is None else tallies
    last: dict[str, int] = {}
    for tally in tallies:
        if tally.node in graphs:
            last[tally.node] = max(tally.last, last.get(tally.node, 0))
    steps = [step for number in last.values() if (step := store.step(workflow.id, number)) is not None]
    return list(ran_since(store, steps).values())


def key_around(store: "Checkpointer", workflow: Workflow | None) -> str | None:
    """Return the key of an item of a map, or of the item that a run is inside of; None without a key."""
    while workflow is not None and workflow.fingerprint is None:
        above = workflow.parent_id
        # The id of a child begins with its parent's: a damaged store has no circle here.
        is_inside = above is not None and len(above) < len(workflow.id)
        workflow = store.backend.read_workflow(above) if above is not None and is_inside else None
    return None if workflow is None else workflow.fingerprint


def _by_node(rows: Iterable[Usage]) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for row in rows:
        used = found.setdefault(row.node, {})
        used[row.name] = used.get(row.name, 0) + row.amount
    return found


def _owner(store: "Checkpointer", workflow: Workflow) -> Owner | None:
    """Return the owner; one that is gone matters only where there is work left."""
    owner = store.backend.read_owners([workflow.id]).get(workflow.id)
    return owner if owner is not None and (owner.alive or workflow.status is WorkflowStatus.ACTIVE) else None


def some_children(store: "Checkpointer", workflow_id: str) -> tuple[list[Workflow], dict[str, int]]:
    """Return some children, and how many there are by status."""
    counts: dict[str, int] = {}
    listed: list[Workflow] = []
    has_children = bool(store.backend.ids(Query(parent=workflow_id, limit=1)))
    for status in _STATUSES if has_children else ():
        query = Query(frozenset({WorkflowStatus(status)}), parent=workflow_id, limit=CHILDREN)
        page, count, _ = store.backend.find(query)
        if count:
            counts[status] = count
            listed += page[: CHILDREN - len(listed)]
    if any(child.item is not None for child in listed):
        # Lists begin with the newest, and a map is read from its first item on.
        items = sorted(
            store.backend.read_items(workflow_id), key=lambda item: (_STATUSES.index(item.status), item.item)
        )
        listed = [
            found for item in items[:CHILDREN] if (found := store.backend.read_workflow(item.id)) is not None
        ]
    return sorted(listed, key=_order), counts


def _order(child: Workflow) -> tuple[int, int, str]:
    is_item = child.item is not None  # runs of other nodes stay in their order, but for failed ones
    rank = _STATUSES.index(child.status.value) if is_item else int(child.status is not WorkflowStatus.FAILED)
    return rank, child.item or 0, child.id


def first_error_in(
    store: "Checkpointer",
    workflow_id: str,
    tallies: Sequence[StepTally] | None = None,
    seen: Collection[str] = (),
) -> StepRecord | None:
    """Return the first step that failed; failures of nested graphs are followed to where they happened.

    Of a node that failed again after a resume its last failure counts, as long as it has not completed. A
    resolved failure counts only if no other failure is left.
    """
    seen = {*seen, workflow_id}  # a damaged store may have circles
    tallies = store.backend.tally_steps(workflow_id) if tallies is None else tallies
    failed = [tally for tally in tallies if tally.status is StepStatus.FAILED]
    done = {tally.node: tally.last for tally in tallies if tally.status is StepStatus.COMPLETED}
    left = [tally.last for tally in failed if _is_left(tally, done)]
    if left:
        step = store.step(workflow_id, min(left))
        below = step.child_workflow_id if step else None
        inner = first_error_in(store, below, seen=seen) if below and below not in seen else None
        return inner or step
    broken, _, _ = store.backend.find(Query(_BROKEN, parent=workflow_id, limit=ITEMS))
    # A map that waits for answers, or has more to do, may have failed items too.
    others, _, _ = store.backend.find(Query(UNFINISHED - _BROKEN, parent=workflow_id, limit=ITEMS))
    failed_in = store.backend.count_failed([child.id for child in others]) if others else {}
    holding = [child for child in others if failed_in.get(child.id)]
    children = sorted(broken, key=_by_item) + sorted(holding, key=_by_item)
    for child in children or _failed_below(store, workflow_id):
        found = first_error_in(store, child.id, seen=seen) if child.id not in seen else None
        if found is not None:
            return found
    return store.step(workflow_id, min(tally.first for tally in failed)) if failed else None


def _failed_below(store: "Checkpointer", workflow_id: str) -> list[Workflow]:
    """Return the runs directly below a workflow that failed, or hold such runs; of each node the last one."""
    if not store.backend.count_failed([workflow_id]):
        return []
    below = sorted(store.backend.children(workflow_id), key=lambda child: child.visit)
    last = {(child.node_name, child.item): child for child in below}.values()
    holding = store.backend.count_failed([child.id for child in last])
    return sorted((child for child in last if child.status in _BROKEN or child.id in holding), key=_by_item)


def _by_item(child: Workflow) -> int:
    return child.item or 0


def loose_ends_of(store: "Checkpointer", workflow: Workflow, seen: Collection[str] = ()) -> LooseEnds:
    """Return what no failed step tells of a workflow and the runs below it; nothing while it is run.

    Of the runs below, some of each kind are looked at; of a run that has completed those that failed in it
    without failing it.
    """
    ends = LooseEnds([], [], [])
    if workflow.id in seen or _is_running(store, workflow):  # a damaged store may have circles
        return ends
    seen = {*seen, workflow.id}
    # A node with repeatable=False is announced before it is called. One without a result is refused by
    # resumes, which adds no step; one that raised is called again.
    once = recorded_once_only(workflow) if workflow.status is not WorkflowStatus.COMPLETED else set[str]()
    if once:
        tallies = store.backend.tally_steps(workflow.id)
        done = {tally.node: tally.last for tally in tallies if tally.status is StepStatus.COMPLETED}
        failed = {tally.node for tally in tallies if _is_left(tally, done)}
        announced = [node for _, node in store.backend.read_announced(workflow.id) if node in once]
        ends.unresolved.extend((workflow.id, node) for node in announced)
        ends.raised.extend((workflow.id, node) for node in sorted((once & failed).difference(announced)))
    for child in _in_question(store, workflow):
        if child.reason is not None and child.item is not None and child.status is WorkflowStatus.FAILED:
            ends.reasons.append((child.id, child.reason))  # else the step of the graph around it tells
        for own, more in zip(ends, loose_ends_of(store, child, seen), strict=True):
            own.extend(more)
    return ends


def _is_left(tally: StepTally, done: Mapping[str, int]) -> bool:
    """Tell whether the last of these steps failed and its node has not completed since."""
    return tally.status is StepStatus.FAILED and tally.last > done.get(tally.node, -1)


def _in_question(store: "Checkpointer", workflow: Workflow) -> list[Workflow]:
    """Return some runs below a workflow that have not completed; of a completed one those that failed."""
    if workflow.status is WorkflowStatus.COMPLETED:
        return _failed_below(store, workflow.id)[:CHILDREN]
    found: list[Workflow] = []
    for statuses in (_BROKEN, _CUT_OFF, frozenset((WorkflowStatus.PAUSED,))):
        below, _, _ = store.backend.find(Query(statuses, parent=workflow.id, limit=CHILDREN))
        found += sorted(below, key=_order)
    return found


def _is_running(store: "Checkpointer", workflow: Workflow) -> bool:
    if workflow.status is not WorkflowStatus.ACTIVE:
        return False
    owner = _owner(store, workflow)
    return owner is not None and owner.alive


def _next(store: "Checkpointer", workflow: Workflow, tallies: Sequence[StepTally]) -> tuple[str, ...] | None:
    if workflow.status in (WorkflowStatus.COMPLETED, WorkflowStatus.PARTIAL):
        return ()
    if workflow.status is WorkflowStatus.PAUSED:
        last = {tally.node: tally for tally in sorted(tallies, key=lambda tally: tally.last)}
        return tuple(name for name, tally in last.items() if tally.status is StepStatus.PAUSED)
    if workflow.step_count > LONG:
        return None
    return History(store, workflow.id).next()


def streams_of(store: "Checkpointer", workflow: Workflow, node: str) -> list[str] | None:
    """Return the nodes of a workflow that stream if this one is none of them; else, and if unknown, None."""
    known = (workflow.graph or {}).get("streams")
    if not isinstance(known, list):
        return None
    parts = [ANY_ITEM if _ITEM.fullmatch(part) else part for part in node.split("/")]
    if _is_map(store, workflow, parts[0]):
        known = [f"{ANY_ITEM}/{name}" for name in known]
    if "/".join(parts) in known:
        return None
    if visits_of(store.backend.live.read_streams(workflow.id), workflow.id, node):
        return None  # the code may have changed since the node streamed
    return [str(name) for name in known]


def require_stream(store: "Checkpointer", workflow_id: str, node: str) -> None:
    """Raise ValueError if no such node of a workflow streams, WorkflowNotFoundError without a workflow."""
    streams = streams_of(store, store.workflow(workflow_id), node)
    if streams is None:
        return
    what = f"Node {node!r} of workflow {workflow_id!r} does not stream. "
    near = did_you_mean(node, streams)
    with_stream = f"Nodes with stream=True: {', '.join(map(repr, streams)) or 'none'}."
    raise ValueError(f"{what}{near + ' ' if near else ''}{with_stream}")


def _is_map(store: "Checkpointer", workflow: Workflow, first: str) -> bool:
    """Say whether a workflow has items; before they have begun, the first part of a path tells."""
    if workflow.step_count or workflow.item is not None:
        return False
    if first == ANY_ITEM:
        return True
    below, _, _ = store.backend.find(Query(parent=workflow.id, limit=1))
    return any(child.item is not None for child in below)
