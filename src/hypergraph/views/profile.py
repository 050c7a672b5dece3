"""Profile of the last runs: the time of each node with those of nested graphs, its own share, p50 and p95."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypedDict

from hypergraph.checkpointers import Checkpointer, Workflow, WorkflowStatus
from hypergraph.checkpointers.backend import StepOutline, percentile
from hypergraph.checkpointers.query import parse
from hypergraph.display import jsonable
from hypergraph.views.problems import USAGE, Problem

LAST = 100  # runs by default
MOST = 1000  # runs at most
_NESTED = 5000  # nested runs that are read in all
_DEEPEST = 20  # levels of nested graphs


class NodeProfile(TypedDict):
    """All executions of one node in the runs; steps that a fork copied do not count."""

    path: str  # names from the outermost graph inwards, joined by "/"
    count: int
    p50_ms: float | None  # of executions that completed without the cache; null without any
    p95_ms: float | None
    total_ms: float  # of all executions
    self_ms: float  # the same without the runs inside of them
    share: float  # of the self time of all nodes, 0 to 1
    waited_ms: float  # for a worker or a free slot
    error_rate: float  # 0 to 1
    cache_rate: float  # 0 to 1
    usage: dict[str, float]  # recorded with ctx.record by the node itself


class ProfileView(TypedDict):
    """Nodes of the last runs, those with the greatest self time first."""

    schema: str  # hypergraph.profile/1
    graph: str | None  # what was asked for
    runs: int  # that were read
    of: int  # runs of the graph in all
    p50_ms: float | None  # of the runs
    p95_ms: float | None
    items: list[NodeProfile]
    left_out: int  # nested runs that were not read


@dataclass
class _Times:
    times: list[float] = field(default_factory=list)
    count: int = 0
    total: float = 0.0
    own: float = 0.0
    waited: float = 0.0
    failed: int = 0
    cached: int = 0
    usage: dict[str, float] = field(default_factory=dict)


def profile(store: Checkpointer, *, graph: str | None = None, last: int = LAST) -> ProfileView:
    """Return where the time of the last runs went: of a graph, or of all.

    Raises:
        Problem: `last` is out of range.
    """
    if not 1 <= last <= MOST:
        raise Problem(USAGE, f"last must be from 1 to {MOST}, not {last}")
    found, total, _ = store.backend.find(parse(graph=graph, limit=last))
    reading = _Reading(store)
    for run in found:
        reading.add(run.id, "", 0, is_open=run.status is not WorkflowStatus.COMPLETED)
    took = sorted(run.duration_ms for run in found if run.duration_ms is not None and _is_whole(run))
    whole = sum(each.own for each in reading.nodes.values()) or 1.0
    items = [_node(path, each, whole) for path, each in reading.nodes.items()]
    items.sort(key=lambda item: (-item["self_ms"], item["path"]))
    return {
        "schema": "hypergraph.profile/1",
        "graph": jsonable(graph),
        "runs": len(found),
        "of": total,
        "p50_ms": percentile(took, 0.50),
        "p95_ms": percentile(took, 0.95),
        "items": items,
        "left_out": reading.left_out,
    }


def _is_whole(run: Workflow) -> bool:
    return run.status.value == "completed"


def _node(path: str, found: _Times, whole: float) -> NodeProfile:
    times = sorted(found.times)
    return {
        "path": jsonable(path),
        "count": found.count,
        "p50_ms": percentile(times, 0.50),
        "p95_ms": percentile(times, 0.95),
        "total_ms": found.total,
        "self_ms": found.own,
        "share": found.own / whole,
        "waited_ms": found.waited,
        "error_rate": found.failed / found.count,
        "cache_rate": found.cached / found.count,
        "usage": jsonable(found.usage),
    }


class _Reading:
    """Times of nodes by path, from runs and those inside of them."""

    def __init__(self, store: Checkpointer) -> None:
        self.store = store
        self.nodes: dict[str, _Times] = {}
        self.left_out = 0
        self._nested = 0
        self._left: dict[str, float] = {}  # of nested runs: time not yet taken off the steps they belong to

    def add(self, run_id: str, prefix: str, depth: int, *, is_open: bool) -> None:
        """Add the steps of a run, or of the items of a map; inside of an open one are runs without a step."""
        lines = self.store.backend.read_outlines(run_id)
        for line in lines:
            if not line.replayed:
                self._step(line, f"{prefix}{line.node}", depth)
        for usage in self.store.backend.read_usage(run_id) if lines else ():
            found = self.nodes.get(f"{prefix}{usage.node}")
            if found is not None:
                found.usage[usage.name] = found.usage.get(usage.name, 0) + usage.amount
        items = [] if lines else self.store.backend.read_items(run_id)
        for item in items:
            self._inside(item.id, prefix, depth, is_open=item.status != "completed")
        if is_open and not items:
            for child in self.store.backend.children(run_id):  # those that no step has noted yet
                self._nested_run(child.id, f"{prefix}{child.node_name}", depth)

    def _step(self, line: StepOutline, path: str, depth: int) -> None:
        found = self.nodes.setdefault(path, _Times())
        took = line.duration_ms or 0.0
        found.count += 1
        found.total += took
        found.waited += line.waited_ms or 0.0
        found.failed += line.status == "failed"
        found.cached += line.cached
        if line.status == "completed" and not line.cached and line.duration_ms is not None:
            found.times.append(line.duration_ms)
        found.own += took
        if line.child is not None:
            self._nested_run(line.child, path, depth)
            inside = min(took, self._left[line.child])
            self._left[line.child] -= inside
            found.own -= inside

    def _nested_run(self, child_id: str, path: str, depth: int) -> None:
        """Add a nested run once: attempts of its node are steps of their own, and continue the same run."""
        if child_id in self._left:
            return
        child = self.store.backend.read_workflow(child_id)
        self._left[child_id] = 0.0 if child is None else child.duration_ms or 0.0
        if child is not None:
            is_open = child.status is not WorkflowStatus.COMPLETED
            self._inside(child_id, f"{path}/", depth, is_open=is_open)

    def _inside(self, run_id: str, prefix: str, depth: int, *, is_open: bool) -> None:
        if self._nested >= _NESTED or depth >= _DEEPEST:
            self.left_out += 1
            return
        self._nested += 1
        self.add(run_id, prefix, depth + 1, is_open=is_open)
