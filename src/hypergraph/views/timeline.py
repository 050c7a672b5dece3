"""When the steps of a workflow ran, and which of them its time went by.

A store records when a step ended and how long it took; it began that much earlier. Steps that a fork copied
ran elsewhere: they have no place on this axis. A workflow that was resumed has gaps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TypedDict

from hypergraph.checkpointers import Checkpointer, StepRecord, Workflow, WorkflowStatus
from hypergraph.checkpointers.clock import now
from hypergraph.checkpointers.filters import Query
from hypergraph.checkpointers.reading import Position, position_of
from hypergraph.display import jsonable
from hypergraph.views.briefs import step_status
from hypergraph.views.critical import Critical, CriticalPath, critical_path, items_of
from hypergraph.views.positions import cursor_after, position_in
from hypergraph.views.records import known
from hypergraph.views.workflows import iso

_LONG = 20_000  # steps up to which the critical path, which needs all of them, is found unasked
_INSIDE = 20  # rows of one nested run; more can be asked for by its id
_DEEPEST = 4  # levels of nested runs


class TimelineRow(TypedDict):
    """One step, or one item of a map. Rows of a nested run follow the step that it belongs to."""

    workflow: str
    index: int | None  # null for items, and for a nested run that has not ended
    item: int | None
    node: str
    superstep: int | None
    visit: int
    depth: int  # 0 for steps of the workflow itself
    start_ms: float | None  # since the workflow was created; null for what a fork copied
    duration_ms: float | None
    status: str
    critical: bool | None  # null where the path was not looked for
    child: str | None  # the nested run
    left_out: int  # rows of the nested run that are not shown


class TimelineView(TypedDict):
    """Steps by superstep and index, and the critical path of all of them, whatever the page."""

    schema: str  # hypergraph.timeline/1
    workflow: str
    status: str
    created_at: str
    total_ms: float | None  # from begin to end, without the time between a failure and a resume
    busy_ms: float | None  # the sum of what its steps took; more than the total where they ran side by side
    critical: CriticalPath | None  # null, as busy_ms, for a long workflow unless it is asked for
    items: list[TimelineRow]
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
    """Return when steps ran; `limit` counts those of the workflow itself.

    The critical path needs the whole history; of more than 20,000 steps it is found only
    if `critical` is true.

    Raises:
        Problem: there is no such workflow, or the cursor is of another list.
    """
    workflow, after, limit = known(store, wf), position_in(cursor), max(1, limit)
    wanted = workflow.step_count <= _LONG if critical is None else critical
    path = critical_path(store, workflow) if wanted else None
    rows = _Rows(store, workflow, path)
    items, total, more = _page(rows, workflow, after, limit)
    return {
        "schema": "hypergraph.timeline/1",
        "workflow": jsonable(workflow.id),
        "status": workflow.status.value,
        "created_at": iso(workflow.created_at) or "",
        "total_ms": workflow.duration_ms,
        "busy_ms": None if path is None else path.busy_ms,
        "critical": None if path is None else path.view,
        "items": items,
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
    page = rows.store.read_page(workflow.id, after=after, limit=limit + 1)
    found_rows = [row for step in page[:limit] for row in rows.step(workflow, step, 0)]
    if len(page) > limit:
        last = page[limit - 1]
        return found_rows, workflow.step_count, cursor_after(position_of(last))
    return [*found_rows, *rows.running(workflow)], workflow.step_count, None


class _Rows:
    """Rows of one timeline: all times count from the same moment."""

    def __init__(self, store: Checkpointer, workflow: Workflow, critical: Critical | None) -> None:
        self.store = store
        self.begin = workflow.created_at
        self.critical = critical

    def step(self, workflow: Workflow, step: StepRecord, depth: int) -> Iterator[TimelineRow]:
        """Yield the row of a step, and those of the nested run it stands for."""
        end, took = step.completed_at or step.created_at, step.duration_ms
        inside, left_out = self._inside(step.child_workflow_id, depth)
        yield {
            "workflow": jsonable(workflow.id),
            "index": step.index,
            "item": None,
            "node": jsonable(step.node_name),
            "superstep": step.superstep,
            "visit": step.visit,
            "depth": depth,
            "start_ms": None if step.replayed else self._since(end) - (took or 0.0),
            "duration_ms": took,
            "status": step_status(step),
            "critical": self._is_critical(workflow, step.index),
            "child": jsonable(step.child_workflow_id),
            "left_out": left_out,
        }
        yield from inside

    def item(self, item: Workflow, depth: int) -> Iterator[TimelineRow]:
        """Yield the row of an item of a map, or of a nested run without a step, and what is inside."""
        inside, left_out = self._inside(item.id, depth)
        start = self._since(item.created_at)
        running = item.status is WorkflowStatus.ACTIVE
        yield {
            "workflow": jsonable(item.id),
            "index": None,
            "item": item.item,
            "node": jsonable(item.node_name or item.graph_name or ""),
            "superstep": item.parent_superstep,
            "visit": item.visit,
            "depth": depth,
            "start_ms": start,
            "duration_ms": self._since(now()) - start if running else item.duration_ms,
            "status": item.status.value,
            "critical": self._is_critical(item, None),
            "child": jsonable(item.id),
            "left_out": left_out,
        }
        yield from inside

    def running(self, workflow: Workflow) -> Iterator[TimelineRow]:
        """Yield rows of nested runs that go on now; their steps are recorded when they end."""
        if workflow.status is WorkflowStatus.ACTIVE:
            active = Query(parent=workflow.id, statuses=frozenset([WorkflowStatus.ACTIVE]), limit=_INSIDE)
            for child in self.store.find(active)[0][::-1]:
                yield from self.item(child, 0)

    def _inside(self, child_id: str | None, depth: int) -> tuple[Sequence[TimelineRow], int]:
        child = self.store.read_workflow(child_id) if child_id is not None and depth < _DEEPEST else None
        if child is None:
            return (), 0
        if child.step_count:
            steps = self.store.read_page(child.id, limit=_INSIDE)
            rows = [row for step in steps for row in self.step(child, step, depth + 1)]
            return rows, max(0, child.step_count - len(steps))
        items = items_of(self.store, child)
        return [row for item in items[:_INSIDE] for row in self.item(item, depth + 1)], max(
            0, len(items) - _INSIDE
        )

    def _is_critical(self, workflow: Workflow, index: int | None) -> bool | None:
        return None if self.critical is None else (workflow.id, index) in self.critical.steps

    def _since(self, moment: datetime) -> float:
        return (moment - self.begin).total_seconds() * 1000
