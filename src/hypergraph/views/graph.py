"""Graph of a workflow as stored with the run: layout, and the status and time of each box.

The code of the program is not needed. A box has a path, the names from the outermost graph inwards joined by
"/". Boxes inside an open one get their status from nested runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypedDict

from hypergraph.checkpointers import Checkpointer, StepStatus, Workflow, WorkflowStatus
from hypergraph.checkpointers.backend import StepTally
from hypergraph.checkpointers.query import Query
from hypergraph.display import jsonable
from hypergraph.graph.drawing import WORST_FIRST, draw
from hypergraph.graph.picture import plain_boxes
from hypergraph.layout import Layout, arrange
from hypergraph.layout import svg as painted
from hypergraph.views.lookup import require_workflow
from hypergraph.views.problems import NOT_FOUND, STORE, USAGE, Problem
from hypergraph.views.state import upcoming

OVERLAYS = ("status", "time")
_NESTED = 1000  # nested runs that are read
_RUNNING = 20  # items whose running nodes are looked up


class BoxFacts(TypedDict):
    """Status and time of one box."""

    status: str  # completed, failed, cached, skipped, paused, active, stopped or pending
    runs: int
    duration_ms: float | None
    share: float  # of the time of all nodes, 0 to 1


class GraphView(TypedDict):
    """A graph with the layout of its boxes, and their status in a run."""

    schema: str  # hypergraph.graph/1
    workflow: str | None  # null for a graph that is not from a store
    name: str | None
    depth: int  # levels of nested graphs that are open
    colouring: str | None  # status or time; null without an overlay
    structure: dict[str, Any]  # as stored: nodes and edges
    overlay: dict[str, BoxFacts]  # by path
    layout: Layout
    svg: str | None  # if asked for
    left_out: int  # nested runs that were not read


def graph(
    store: Checkpointer,
    wf: str,
    *,
    depth: int = 0,
    overlay: str | None = "status",
    svg: bool = False,
    theme: str = "auto",
    direction: str = "TD",
) -> GraphView:
    """Return the graph that a workflow ran, with the layout of its boxes and their status.

    Raises:
        Problem: the workflow does not exist, its graph is not stored or cannot be read, or an option is
            invalid.
    """
    workflow = require_workflow(store, wf)
    structure = workflow.graph
    if structure is None:
        raise Problem(
            NOT_FOUND, f"No graph is stored with {workflow.id!r}", "To see what ran: hypergraph steps"
        )
    run = _Overlay(store, depth)
    facts = run.of(workflow) if overlay is not None else None
    view = graph_view(
        structure, facts=facts, depth=depth, overlay=overlay, svg=svg, theme=theme, direction=direction
    )
    view["workflow"], view["left_out"] = jsonable(workflow.id), run.left_out
    return view


def graph_view(
    structure: dict[str, Any],
    *,
    facts: dict[str, BoxFacts] | None = None,
    depth: int = 0,
    overlay: str | None = None,
    svg: bool = False,
    theme: str = "auto",
    direction: str = "TD",
) -> GraphView:
    """Return the view of a graph from its structure. Raises Problem if it cannot be drawn."""
    if overlay is not None and overlay not in OVERLAYS:
        raise Problem(USAGE, f"Invalid overlay {overlay!r}: expected one of {', '.join(OVERLAYS)}")
    try:
        drawing = draw(structure, depth=depth)
    except ValueError as error:
        raise Problem(STORE, f"The graph cannot be drawn: {error}") from error
    try:
        layout = arrange(plain_boxes(drawing), direction=direction)
        plain: Any = facts
        text = painted(layout, theme=theme, overlay=plain, colouring=overlay or "status") if svg else None
    except ValueError as error:
        raise Problem(USAGE, str(error)) from error
    return {
        "schema": "hypergraph.graph/1",
        "workflow": None,
        "name": jsonable(drawing["name"]),
        "depth": depth,
        "colouring": overlay,
        "structure": jsonable(structure, depth=200),
        "overlay": {jsonable(path): about for path, about in (facts or {}).items()},
        "layout": jsonable(layout),
        "svg": jsonable(text),
        "left_out": 0,
    }


class _Overlay:
    """Status and time of boxes by path, from counts of steps in a workflow and the runs below it."""

    def __init__(self, store: Checkpointer, depth: int) -> None:
        self.store = store
        self.depth = depth
        self.facts: dict[str, BoxFacts] = {}
        self.nested_read = 0
        self.left_out = 0

    def of(self, workflow: Workflow) -> dict[str, BoxFacts]:
        """Return the facts of each box; for a map, of all its items together."""
        tallies = self.store.backend.tally_steps(workflow.id)
        if tallies or not self._add_children(workflow, "", self.depth + 1):
            self._add(workflow, tallies, "", self.depth)
        whole = sum(facts["duration_ms"] or 0.0 for path, facts in self.facts.items() if "/" not in path)
        for facts in self.facts.values():
            facts["share"] = min(1.0, (facts["duration_ms"] or 0.0) / whole) if whole else 0.0
        return self.facts

    def _add(self, workflow: Workflow, tallies: Sequence[StepTally], prefix: str, depth: int) -> None:
        self._count(tallies, prefix)
        self._add_running(workflow, prefix)
        if depth:
            self._add_children(workflow, prefix, depth)

    def _count(self, tallies: Sequence[StepTally], prefix: str) -> None:
        statuses: dict[str, str] = {}
        for tally in sorted(tallies, key=lambda tally: tally.last):
            path = f"{prefix}{tally.node}"
            facts = self._at(path)
            facts["runs"] += tally.steps
            facts["duration_ms"] = (facts["duration_ms"] or 0.0) + tally.total_ms
            cached = tally.cached and tally.status is StepStatus.COMPLETED
            statuses[path] = "cached" if cached else tally.status.value  # of the last execution
        for path, status in statuses.items():
            self._mark(path, status)

    def _add_running(self, workflow: Workflow, prefix: str) -> None:
        if workflow.status is WorkflowStatus.ACTIVE:
            for node in upcoming(self.store, workflow) or ():
                self._mark(f"{prefix}{node}", "active")

    def _mark(self, path: str, status: str) -> None:
        facts = self._at(path)
        facts["status"] = min(facts["status"], status, key=WORST_FIRST.index)

    def _at(self, path: str) -> BoxFacts:
        return self.facts.setdefault(
            path, {"status": "pending", "runs": 0, "duration_ms": None, "share": 0.0}
        )

    def _add_children(self, workflow: Workflow, prefix: str, depth: int) -> bool:
        """Add nested runs under the path of their node, and items of a map under that of the map."""
        room = max(0, _NESTED - self.nested_read)
        items = self._add_items(workflow, prefix)
        if items and depth < 2:
            return True  # nothing below the items is drawn
        children, total, _ = self.store.backend.find(Query(parent=workflow.id, limit=room or 1))
        children = children[:room]
        self.nested_read += len(children)
        self.left_out += total - len(children)
        for child in children:
            if child.item is not None:
                self._add_children(child, prefix, depth - 1)
                continue
            below = f"{prefix}{child.node_name}/"
            tallies = self.store.backend.tally_steps(child.id)
            if tallies or not self._add_children(child, below, depth):
                self._add(child, tallies, below, depth - 1)
        return bool(children)

    def _add_items(self, workflow: Workflow, prefix: str) -> bool:
        """Count the steps of all items of a map, however many there are; return whether there are any."""
        items = self.store.backend.read_items(workflow.id)
        if not items:
            return False
        tallies = self.store.backend.tally_items(workflow.id)
        if not any(item.status in ("failed", "partial") for item in items):
            # Steps that failed were run again: no item has failed.
            tallies = [tally for tally in tallies if tally.status is not StepStatus.FAILED]
        for status in StepStatus:
            self._count([tally for tally in tallies if tally.status is status], prefix)
        for item in [item for item in items if item.status == "active"][:_RUNNING]:
            found = self.store.backend.read_workflow(item.id)
            if found is not None:
                self._add_running(found, prefix)
        return True
