"""Timeline of a workflow: when each step ran, and the critical path through those that waited for others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import inf
from typing import Any, NamedTuple, TypedDict

from hypergraph.checkpointers import Checkpointer, StepRecord, StepStatus, Workflow, WorkflowStatus
from hypergraph.checkpointers.backend import Position, position_of
from hypergraph.checkpointers.history import History
from hypergraph.checkpointers.query import Query
from hypergraph.clock import now
from hypergraph.display import iso, jsonable
from hypergraph.graph.drawing import WORST_FIRST
from hypergraph.structure import StoredGraph, readable_graph
from hypergraph.views.inside import Inside, Ran, Span, joined, last_chain
from hypergraph.views.lookup import cursor_after, position_in, require_workflow


class Costs:
    """The time that each step of a workflow took there; one that a fork copied took none.

    A nested graph that paused has the time of all calls, as its run has it: the step has that of the last.
    One that failed and was resumed has a step for each attempt, with its time.
    """

    def __init__(self, history: History) -> None:
        steps: dict[str, list[StepRecord]] = {}
        for step in history.steps:
            if step.child_workflow_id is not None:
                steps.setdefault(step.child_workflow_id, []).append(step)
        self._before: dict[int, float] = {}  # time of a nested run that no step has
        self.first = {of_run[0].index for of_run in steps.values()}
        if steps:
            children, _, _ = history.store.backend.find(Query(parent=history.workflow_id, limit=None))
            for child in children:
                of_run = steps.get(child.id)
                if of_run is not None:
                    known = sum(step.duration_ms or 0.0 for step in of_run if not step.replayed)
                    self._before[of_run[0].index] = max(0.0, (child.duration_ms or 0.0) - known)

    def __call__(self, step: StepRecord) -> float:
        if step.replayed:
            return 0.0
        return (step.duration_ms or 0.0) + self._before.get(step.index, 0.0)


class Chain(NamedTuple):
    """The steps of the longest chain, in order, and its length in milliseconds."""

    cost: Costs
    steps: tuple[StepRecord, ...]
    length_ms: float


def longest_chain(history: History, structure: Any = None) -> Chain:
    """Return the critical path of a workflow; of several with the same length, the one that ends first."""
    waits, cost = _Waits(history, structure), Costs(history)
    ends: dict[int, float] = {}
    before: dict[int, StepRecord | None] = {}
    last: StepRecord | None = None
    repeated = _repeated(history.steps)
    for step in history.steps:
        slowest = waits.slowest(step, ends)
        before[step.index] = slowest
        ends[step.index] = cost(step) + (ends[slowest.index] if slowest is not None else 0.0)
        if step.index not in repeated and (last is None or ends[step.index] > ends[last.index]):
            last = step
    chain: list[StepRecord] = []
    at = last
    while at is not None:
        chain.append(at)
        at = before[at.index]
    return Chain(cost, tuple(reversed(chain)), ends[last.index] if last is not None else 0.0)


def _repeated(steps: Iterable[StepRecord]) -> set[int]:
    """Return the indexes of failed steps that were run again: no step waited for them."""
    failed: dict[tuple[int, str], int] = {}
    found = set()
    for step in steps:
        known = failed.pop((step.round, step.node_name), None)
        if known is not None:
            found.add(known)
        if step.status is StepStatus.FAILED:
            failed[step.round, step.node_name] = step.index
    return found


class _Waits:
    """The steps that each step of a workflow waited for."""

    def __init__(self, history: History, structure: Any = None) -> None:
        self._history = history
        self._signals = _signals(history.steps, readable_graph(structure))
        self._known: dict[tuple[str, int], StepRecord | None] = {}  # by value: the slowest step behind it

    def slowest(self, step: StepRecord, ends: Mapping[int, float]) -> StepRecord | None:
        """Return what a step had to wait for longest, by when the steps before it end; None for the first."""
        found = [self._behind(*item, ends) for item in step.input_versions.items()]
        for name, version in step.wait_versions.items():
            found.append(self._history.maker(name, version) or self._signals.get((name, version)))
        found.append(self._history.gate(step))
        known = {wait.index: wait for wait in found if wait is not None and wait.index != step.index}
        return _last([known[index] for index in sorted(known)], ends)

    def _behind(self, name: str, version: int, ends: Mapping[int, float]) -> StepRecord | None:
        """Return the step that a value had to wait for longest: an appended list has one of many steps."""
        if (name, version) in self._known:
            return self._known[name, version]
        makers: list[StepRecord | None] = []
        for part in self._history.parts(name, version):
            if (name, part) in self._known:  # an earlier version, with all that is part of it
                makers.append(self._known[name, part])
                break
            makers.append(self._history.maker(name, part))
        found = _last([maker for maker in reversed(makers) if maker is not None], ends)
        self._known[name, version] = found
        return found


def _last(steps: Iterable[StepRecord], ends: Mapping[int, float]) -> StepRecord | None:
    """Return the step that ends last, of those whose end is known."""
    return max(
        (step for step in steps if step.index in ends), key=lambda step: ends[step.index], default=None
    )


def _signals(steps: Iterable[StepRecord], graph: StoredGraph | None) -> Mapping[tuple[str, int], StepRecord]:
    """Return the step behind each signal and version, counted as runs count them."""
    counts: dict[str, int] = {}
    found: dict[tuple[str, int], StepRecord] = {}
    signals = {} if graph is None else graph.signals
    for step in steps:
        for signal in signals.get(step.node_name, ()) if step.status is StepStatus.COMPLETED else ():
            counts[signal] = counts.get(signal, 0) + 1
            found[signal, counts[signal]] = step
    return found


_SLACK = 1.0  # milliseconds between the end of a nested run and that of its step
_NESTED = 200  # nested runs that the critical path is followed into


class CriticalNode(TypedDict):
    """One node on the critical path."""

    path: str  # names from the outermost graph inwards, joined by "/"
    steps: int  # its executions on the path
    duration_ms: float  # of a nested graph with its nodes
    self_ms: float  # the time in which no step of the path ran inside of it
    share: float  # of `self_ms` in the length of the path, 0 to 1: the shares of all nodes add up to 1


class CriticalPath(TypedDict):
    """The longest chain of steps that waited for each other, in a map also for free slots."""

    length_ms: float  # never more than the run took
    waiting_ms: float | None  # the rest of the run: no step of the path ran; null while it is running
    steps: int  # of the workflow itself
    nodes: list[CriticalNode]  # greatest share first
    left_out: int  # nested runs that were not read


@dataclass
class Critical:
    """The critical path while it is computed."""

    length_ms: float = 0.0
    busy_ms: float = 0.0
    steps: set[tuple[str, int | None]] = field(default_factory=set)  # workflow and index; items have none
    own: int = 0
    times: dict[str, list[float]] = field(default_factory=dict)  # by path
    followed: int = 0
    left_out: int = 0

    def add(self, inside: Critical) -> None:
        """Add the path through a nested run after this one."""
        self.length_ms += inside.length_ms
        self.steps |= inside.steps
        self.times |= inside.times
        self.left_out += inside.left_out

    def view(self, total_ms: float | None) -> CriticalPath:
        """Return the path as answers show it, of a run that took this long."""
        own = {path: sum(times) for path, times in self.times.items()}
        for path, times in self.times.items():
            around = path.rpartition("/")[0]
            while around and around not in own:
                around = around.rpartition("/")[0]
            if around:
                own[around] -= sum(times)
        own = {path: max(0.0, took) for path, took in own.items()}
        whole = sum(own.values())
        nodes: list[CriticalNode] = [
            {
                "path": jsonable(path),
                "steps": len(times),
                "duration_ms": sum(times),
                "self_ms": own[path],
                "share": own[path] / whole if whole else 0.0,
            }
            for path, times in self.times.items()
        ]
        nodes.sort(key=lambda node: (-node["self_ms"], -node["duration_ms"]))
        return {
            "length_ms": self.length_ms,
            "waiting_ms": None if total_ms is None else max(0.0, total_ms - self.length_ms),
            "steps": self.own,
            "nodes": nodes,
            "left_out": self.left_out,
        }


def critical_path(store: Checkpointer, workflow: Workflow, prefix: str = "") -> Critical:
    """Return the critical path of a workflow, or of a map; `prefix` is the path of the graphs around it."""
    critical = Critical()
    walk, chain, known = _Walk(store, critical), None, set()
    if workflow.step_count:
        history = History(store, workflow.id)
        chain = longest_chain(history, workflow.graph)
        critical.busy_ms = sum(map(chain.cost, history.steps))
        known = {step.child_workflow_id for step in history.steps}  # continued by this process
    elif items := items_of(store, workflow):
        critical.busy_ms = sum(walk.worked(item) for item in items)
        critical.length_ms, critical.own = walk.through(workflow, items, prefix)
        return critical
    children = [child for child in running_in(store, workflow) if child.id not in known]
    inside, chain = _open_part(store, children, prefix, chain)
    if chain is not None:
        critical.length_ms, critical.own = chain.length_ms, len(chain.steps)
        walk.along(workflow.id, chain, prefix)
    for each, is_on_path in inside:
        critical.busy_ms += each.busy_ms
        if is_on_path:
            critical.add(each)
    return critical


def _open_part(
    store: Checkpointer, children: Iterable[Workflow], prefix: str, chain: Chain | None
) -> tuple[list[tuple[Critical, bool]], Chain | None]:
    """Return the paths of nested runs without a step, whether each is on the path, and what comes before."""
    found: list[tuple[Critical, bool]] = []
    longest, rest = 0.0 if chain is None else chain.length_ms, chain
    for child in children:
        inside = critical_path(store, child, f"{prefix}{child.node_name}/")
        inside.steps.add((child.id, None))
        steps = () if chain is None else chain.steps
        before = [step for step in steps if (step.completed_at or step.created_at) <= child.created_at]
        length = 0.0 if chain is None else sum(map(chain.cost, before))
        is_longer = length + inside.length_ms > longest
        if is_longer:
            found = [(each, False) for each, _ in found]
            longest = length + inside.length_ms
            rest = None if chain is None else Chain(chain.cost, tuple(before), length)
        found.append((inside, is_longer))
    return found, rest


def running_in(store: Checkpointer, workflow: Workflow) -> list[Workflow]:
    """Return nested runs that have not ended: their steps are recorded when they end."""
    if workflow.status is not WorkflowStatus.ACTIVE:
        return []
    active = Query(parent=workflow.id, statuses=frozenset([WorkflowStatus.ACTIVE]), limit=_INSIDE)
    found = store.backend.find(active)[0][::-1]
    # The id of a child begins with its parent's; a damaged store may have circles.
    return [child for child in found if child.item is None and len(child.id) > len(workflow.id)]


def items_of(store: Checkpointer, workflow: Workflow) -> list[Workflow]:
    """Return the items of a map in order; none for a single run."""
    children, _, _ = store.backend.find(Query(parent=workflow.id, limit=None))
    items = [child for child in children if child.item is not None]
    return sorted(items, key=lambda child: child.item or 0)


class _Walk:
    """Mark the steps on the path, in nested runs too."""

    def __init__(self, store: Checkpointer, critical: Critical) -> None:
        self.store = store
        self.critical = critical
        self.entered: set[str] = set()  # a damaged store may have circles

    def along(self, workflow_id: str, chain: Chain, prefix: str) -> None:
        for step in chain.steps:
            self.critical.steps.add((workflow_id, step.index))
            path = f"{prefix}{step.node_name}"
            self.critical.times.setdefault(path, []).append(chain.cost(step))
            self._nested(step, path, None if step.index in chain.cost.first else chain.cost(step))

    def _nested(self, step: StepRecord, path: str, took: float | None) -> None:
        if step.child_workflow_id is None or step.replayed:
            return
        if self.critical.followed >= _NESTED:
            self.critical.left_out += 1
            return
        self.critical.followed += 1
        child = self.store.backend.read_workflow(step.child_workflow_id)
        if child is not None:
            self.into(child, f"{path}/", step, took)

    def into(self, child: Workflow, prefix: str, step: StepRecord, took: float | None) -> None:
        """Follow a nested run up to the end of a step; `took` says how far back, None to its beginning."""
        if child.id in self.entered:
            return
        self.entered.add(child.id)
        if child.step_count:
            self.along(child.id, longest_chain(History(self.store, child.id), child.graph), prefix)
            return
        self.through(child, items_of(self.store, child), prefix, step.completed_at, took)

    def worked(self, item: Workflow) -> float:
        """Return for how long an item worked: as long as something in it ran, if its end is not known."""
        if item.duration_ms is not None:
            return item.duration_ms
        ran = Inside(self.store, item.created_at).of(item.id, is_open=True)
        return sum(
            end - begin for begin, end in joined((each.begin, each.end) for each in ran if not each.copied)
        )

    def through(
        self,
        found: Workflow,
        items: Sequence[Workflow],
        prefix: str,
        end: datetime | None = None,
        took: float | None = None,
    ) -> tuple[float, int]:
        """Follow the items of a map; return the time of their steps on the path, and how many there are."""
        inside = Inside(self.store, found.created_at)
        last = inf if end is None else inside.moment(end) + _SLACK
        first = -inf if took is None else last - took - 2 * _SLACK
        ran = [each for item in items for each in inside.of(item.id, is_open=_is_open(item))]
        chain = last_chain(each for each in ran if first <= each.begin and each.end <= last)
        self.critical.left_out += inside.left_out
        for each in chain:
            self.critical.steps.update([(each.item, None), *each.around, (each.run, each.number)])
            self.critical.times.setdefault(f"{prefix}{each.path}", []).append(each.took)
        return sum(each.took for each in chain), len(chain)


def _is_open(run: Workflow) -> bool:
    return run.status is WorkflowStatus.ACTIVE


_LONG = 20_000  # steps up to which the critical path, which needs all of them, is computed by default
_INSIDE = 20  # rows of one nested run; its own timeline has all of them
_DEEPEST = 4  # levels of nested runs
_SPANS = 200  # of one list of times


class TimelineRow(TypedDict):
    """One step, or one item of a map. Rows of a nested run, and inner steps, follow their step."""

    workflow: str
    index: int | None  # null for items, for inner steps, and for a nested run that has not ended
    item: int | None
    node: str  # of an inner step its key
    inner: bool  # a call that the node above made with ctx.step
    superstep: int | None
    visit: int
    depth: int  # 0 for steps of the workflow itself
    start_ms: float | None  # since the workflow was created; null if a fork copied the step
    duration_ms: float | None
    status: str
    critical: bool | None  # null if the path was not computed
    child: str | None  # the nested run
    left_out: int  # rows of the nested run that are not shown


class NodeTimes(TypedDict):
    """All executions of one node, or all items, inside of a row of which rows are left out."""

    workflow: str  # the nested run of that row
    node: str
    item: bool  # these are the items of a map
    depth: int
    count: int
    duration_ms: float  # of all of them
    status: str  # the worst of the last ones of each run
    critical: bool | None
    busy: list[
        tuple[float, float]
    ]  # when any of them ran, in milliseconds; those that are close to each other are one


class TimelineView(TypedDict):
    """Steps by superstep and index, and the critical path of all of them, whatever the page."""

    schema: str  # hypergraph.timeline/1
    workflow: str
    status: str
    alive: bool | None  # of an active one, whether its owner process lives
    created_at: str
    total_ms: float | None  # from start to end, without the time between a failure and a resume
    busy_ms: float | None  # the sum over its steps; more than the total if they ran in parallel
    critical: CriticalPath | None  # null, as busy_ms, for a long workflow unless asked for
    busy: (
        list[tuple[float, float]] | None
    )  # when anything ran, inside too; null for a long workflow unless asked for
    items: list[TimelineRow]
    nodes: list[NodeTimes]  # of rows of which others are left out: the times of all
    not_read: int  # nested runs that these times do not include, because they are too many
    total: int  # steps of the workflow itself, or items of a map
    next_cursor: str | None


def timeline(
    store: Checkpointer,
    wf: str,
    *,
    limit: int = 100,
    cursor: str | None = None,
    critical: bool | None = None,
) -> TimelineView:
    """Return when each step ran; `limit` counts steps of the workflow itself.

    The critical path needs the whole history; beyond 20,000 steps it is computed only if `critical` is true.

    Raises:
        Problem: the workflow does not exist, or the cursor is invalid.
    """
    workflow, after, limit = require_workflow(store, wf), position_in(cursor), max(1, limit)
    wanted = workflow.step_count <= _LONG if critical is None else critical
    path = critical_path(store, workflow) if wanted else None
    rows = _Rows(store, workflow, path)
    items, total, more = _page(rows, workflow, after, limit)
    took = workflow.duration_ms
    if path is not None and took is not None:
        took = max(took, path.length_ms)  # a process that was killed has noted no end of the run around it
    nodes = [each for row in items if row["left_out"] for each in rows.nodes(row)]
    busy = rows.busy(workflow) if wanted else None
    return {
        "schema": "hypergraph.timeline/1",
        "workflow": jsonable(workflow.id),
        "status": workflow.status.value,
        "alive": rows.since is not None if _is_open(workflow) else None,
        "created_at": iso(workflow.created_at) or "",
        "total_ms": took,
        "busy_ms": None if path is None else path.busy_ms,
        "critical": None if path is None else path.view(took),
        "busy": busy,
        "items": items,
        "nodes": nodes,
        "not_read": rows.inside.left_out,
        "total": total,
        "next_cursor": more,
    }


def _page(
    rows: _Rows, workflow: Workflow, after: Position, limit: int
) -> tuple[list[TimelineRow], int, str | None]:
    """Return the rows of a page, the number of all, and the next cursor."""
    items = [] if workflow.step_count else items_of(rows.store, workflow)
    if items:
        later = [item for item in items if (item.item or 0, 0) > after]
        more = cursor_after((later[limit - 1].item or 0, 0)) if len(later) > limit else None
        return [row for item in later[:limit] for row in rows.item(item, 0)], len(items), more
    page = rows.store.steps(workflow.id, after=after, limit=limit + 1, values=False)
    found_rows = [row for step in page[:limit] for row in rows.step(workflow, step, 0)]
    if len(page) > limit:
        last = page[limit - 1]
        return found_rows, workflow.step_count, cursor_after(position_of(last))
    return [*found_rows, *rows.running(workflow)], workflow.step_count, None


class _Rows:
    """Rows of one timeline, with times since its start."""

    def __init__(self, store: Checkpointer, workflow: Workflow, critical: Critical | None) -> None:
        self.store = store
        self.begin = workflow.created_at
        self.critical = critical
        self.inside = Inside(store, workflow.created_at)
        self._latest: dict[str, dict[str, int]] = {}  # by workflow: the last step of each nested run
        self._known: dict[str, list[Ran]] = {}  # what ran in a nested run, or in an item
        self.since = _runs_since(store, workflow)

    def step(self, workflow: Workflow, step: StepRecord, depth: int) -> Iterator[TimelineRow]:
        """Yield the row of a step, and those of its nested run: below the last attempt, if it had several."""
        end, took = step.completed_at or step.created_at, step.duration_ms
        inside, left_out = self._inside(step.child_workflow_id, depth) if self._is_latest(step) else ((), 0)
        yield {
            "workflow": jsonable(workflow.id),
            "index": step.index,
            "item": None,
            "node": jsonable(step.node_name),
            "inner": False,
            "superstep": step.superstep,
            "visit": step.visit,
            "depth": depth,
            "start_ms": None if step.replayed else self._since(end) - (took or 0.0),
            "duration_ms": took,
            "status": _status(step),
            "critical": self._is_critical(workflow, step.index),
            "child": jsonable(step.child_workflow_id),
            "left_out": left_out,
        }
        yield from inside
        yield from self._inner(workflow, step, depth + 1)

    def _is_latest(self, step: StepRecord) -> bool:
        """Tell whether no later step continued the nested run of a step."""
        if step.child_workflow_id is None:
            return True
        latest = self._latest.get(step.workflow_id)
        if latest is None:
            lines = self.store.backend.read_outlines(step.workflow_id)
            latest = {line.child: line.idx for line in lines if line.child is not None}
            self._latest[step.workflow_id] = latest
        return latest.get(step.child_workflow_id, step.index) == step.index

    def _inner(self, workflow: Workflow, step: StepRecord, depth: int) -> Iterator[TimelineRow]:
        """Yield the calls that a node made with `ctx.step`, as far as they have room."""
        calls = self.store.inner_steps(workflow.id, node=step.node_name, visit=step.visit)
        for call in [each for each in calls if each.superstep == step.superstep][:_INSIDE]:
            began = None if call.started_at is None else datetime.fromtimestamp(call.started_at, UTC)
            yield {
                "workflow": jsonable(workflow.id),
                "index": None,
                "item": None,
                "node": jsonable(call.key),
                "inner": True,
                "superstep": step.superstep,
                "visit": step.visit,
                "depth": depth,
                "start_ms": None if began is None or step.replayed else self._since(began),
                "duration_ms": call.duration_ms,
                "status": call.status,
                "critical": None if self.critical is None else False,
                "child": None,
                "left_out": 0,
            }

    def item(self, item: Workflow, depth: int) -> Iterator[TimelineRow]:
        """Yield the row of an item of a map, or of a nested run without a step yet, and the rows inside."""
        inside, left_out = self._inside(item.id, depth)
        end = self._since(item.created_at) + (item.duration_ms or 0.0)
        took = item.duration_ms
        if _is_open(item):
            end, took = self._until(item), self._worked(item)
        yield {
            "workflow": jsonable(item.id),
            "index": None,
            "item": item.item,
            "node": jsonable(item.node_name or item.graph_name or ""),
            "inner": False,
            "superstep": item.parent_superstep,
            "visit": item.visit,
            "depth": depth,
            "start_ms": end - (took or 0.0),
            "duration_ms": took,
            "status": item.status.value,
            "critical": self._is_critical(item, None),
            "child": jsonable(item.id),
            "left_out": left_out,
        }
        yield from inside

    def running(self, workflow: Workflow, depth: int = 0) -> Iterator[TimelineRow]:
        """Yield rows of nested runs that are still running."""
        for child in running_in(self.store, workflow):
            yield from self.item(child, depth)

    def _inside(self, child_id: str | None, depth: int) -> tuple[Sequence[TimelineRow], int]:
        child = (
            self.store.backend.read_workflow(child_id) if child_id is not None and depth < _DEEPEST else None
        )
        if child is None:
            return (), 0
        if child.step_count:
            steps = self.store.steps(child.id, limit=_INSIDE, values=False)
            rows = [row for step in steps for row in self.step(child, step, depth + 1)]
            rows += self.running(child, depth + 1)
            return rows, max(0, child.step_count - len(steps))
        items = items_of(self.store, child)
        if not items:
            return [*self.running(child, depth + 1)], 0
        return [row for item in items[:_INSIDE] for row in self.item(item, depth + 1)], max(
            0, len(items) - _INSIDE
        )

    def nodes(self, row: TimelineRow) -> Iterator[NodeTimes]:
        """Yield the times of all that ran inside of a row: of the items of a map, and of each node."""
        child = self.store.backend.read_workflow(row["child"]) if row["child"] is not None else None
        if child is None:
            return
        items = [] if child.step_count else items_of(self.store, child)
        depth = row["depth"] + 1
        if items:
            name = items[0].node_name or items[0].graph_name or ""
            yield self._times(child, name, depth, items)
            depth += 1
        lines = [ran for run in items or [child] for ran in self._ran(run)]
        found: dict[str, list[Ran]] = {}
        for ran in lines:
            found.setdefault(ran.path, []).append(ran)
        order = sorted(found, key=lambda path: _outer_first(path, found))
        for path in order:
            spans = [(ran.begin, ran.end) for ran in found[path] if not ran.copied]
            last = {ran.run: ran.status for ran in found[path]}
            of_path = found[path]
            yield {
                "workflow": jsonable(child.id),
                "node": jsonable(path.rpartition("/")[2]),
                "item": False,
                "depth": depth + path.count("/"),
                "count": len(of_path),
                "duration_ms": sum(ran.took for ran in of_path),
                "status": _worst(last.values()),
                "critical": self._any_critical((ran.run, ran.number) for ran in of_path),
                "busy": joined(spans, _SPANS),
            }

    def _times(self, child: Workflow, name: str, depth: int, items: Sequence[Workflow]) -> NodeTimes:
        return {
            "workflow": jsonable(child.id),
            "node": jsonable(name),
            "item": True,
            "depth": depth,
            "count": len(items),
            "duration_ms": sum(
                self._worked(item) if item.duration_ms is None else item.duration_ms for item in items
            ),
            "status": _worst(item.status.value for item in items),
            "critical": self._any_critical((item.id, None) for item in items),
            "busy": joined([span for item in items for span in self._busy_in(item)], _SPANS),
        }

    def busy(self, workflow: Workflow) -> list[Span]:
        """Return when anything ran in a workflow, or inside of it."""
        children = self.store.backend.children(workflow.id)
        lines = self.inside.own(workflow.id)
        spans = [(ran.begin, ran.end) for ran in lines if not ran.copied]
        for child in children:
            spans += self._busy_in(child)
        return joined(spans, _SPANS)

    def _busy_in(self, run: Workflow) -> list[Span]:
        """Return when something ran in a nested run or an item: what is inside of it now has no steps yet."""
        spans = [(ran.begin, ran.end) for ran in self._ran(run) if not ran.copied]
        if _is_open(run) and self.since is not None:
            spans.append((max(self._since(run.created_at), self._since(self.since)), self._since(now())))
        return spans

    def _until(self, run: Workflow) -> float:
        """Return up to when an active run went on: now, or the last sign of a process that is gone."""
        if self.since is not None:
            return self._since(now())
        return max((ran.end for ran in self._ran(run)), default=self._since(run.created_at))

    def _worked(self, run: Workflow) -> float:
        """Return for how long something ran in an active run, without the time in which no process did."""
        return sum(end - begin for begin, end in joined(self._busy_in(run)))

    def _ran(self, run: Workflow) -> list[Ran]:
        if run.id not in self._known:
            self._known[run.id] = self.inside.of(run.id, is_open=_is_open(run))
        return self._known[run.id]

    def _any_critical(self, places: Iterable[tuple[str, int | None]]) -> bool | None:
        return None if self.critical is None else any(place in self.critical.steps for place in places)

    def _is_critical(self, workflow: Workflow, index: int | None) -> bool | None:
        return None if self.critical is None else (workflow.id, index) in self.critical.steps

    def _since(self, moment: datetime) -> float:
        return (moment - self.begin).total_seconds() * 1000


def _runs_since(store: Checkpointer, workflow: Workflow) -> datetime | None:
    """Return since when the process of an active workflow runs it, None if it is gone."""
    owner = store.backend.read_owners([workflow.id]).get(workflow.id) if _is_open(workflow) else None
    return owner.since if owner is not None and owner.alive else None


def _outer_first(path: str, found: Mapping[str, Sequence[Ran]]) -> list[tuple[int, float]]:
    """Sort paths like steps: by the first superstep, what is inside of a node after it."""
    names = path.split("/")
    whole = ["/".join(names[: count + 1]) for count in range(len(names))]
    return [
        min(((ran.superstep, ran.begin) for ran in found.get(part, ())), default=(0, 0.0)) for part in whole
    ]


def _worst(statuses: Iterable[str]) -> str:
    order = ("failed", "partial", *WORST_FIRST)
    return min(statuses, key=lambda status: order.index(status) if status in order else len(order))


def _status(step: StepRecord) -> str:
    """Return the status of a step: that of its record, or "cached", or "skipped" if a fork copied it."""
    if step.status is StepStatus.COMPLETED and (step.cached or step.replayed):
        return "cached" if step.cached else "skipped"
    status: str = step.status.value
    return status
