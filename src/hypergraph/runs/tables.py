"""How executions add up, and how they are laid out in rows: one per execution, or one per node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from hypergraph.display import Table, execution_time, first_line, jsonable, run_time
from hypergraph.exceptions import safe_text
from hypergraph.records import NodeRecord


@dataclass(frozen=True, slots=True, repr=False)
class NodeStats:
    """All executions of one node, added up."""

    count: int = 0  # how many executions
    total_ms: float = 0.0  # how long they took together
    errors: int = 0  # how many failed
    cached: int = 0  # how many came from the cache

    @property
    def avg_ms(self) -> float:
        """The mean duration; 0.0 when there was no execution."""
        return self.total_ms / self.count if self.count else 0.0

    def __repr__(self) -> str:
        return (
            f"NodeStats(count={self.count}, avg_ms={round(self.avg_ms, 3)}, "
            f"total_ms={round(self.total_ms, 3)}, errors={self.errors}, cached={self.cached})"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as JSON primitives."""
        names = ("count", "total_ms", "avg_ms", "errors", "cached")
        return {name: jsonable(getattr(self, name)) for name in names}


def add_up(steps: Iterable[NodeRecord]) -> dict[str, NodeStats]:
    """Return the statistics of each node, in order of first execution."""
    by_name: dict[str, list[NodeRecord]] = {}
    for step in steps:
        by_name.setdefault(step.node_name, []).append(step)
    return {
        name: NodeStats(
            count=len(group),
            total_ms=sum(step.duration_ms for step in group),
            errors=sum(step.status == "failed" for step in group),
            cached=sum(step.cached or step.status == "cached" for step in group),
        )
        for name, group in by_name.items()
    }


def tally(statuses: Iterable[str]) -> str:
    """Return how often each status occurs, as in "2 completed, 1 failed"."""
    counts = Counter(statuses) or {"completed": 0}
    order = [name for name in ("completed", "failed", "paused", "stopped") if name in counts]
    return ", ".join(f"{counts[name]} {name}" for name in order)


def step_table(steps: Iterable[NodeRecord]) -> Table:
    """Lay out one row per execution; the Decision column is there if some record has one."""
    rows = [(*_step_row(step), _decision(step.decision)) for step in steps]
    headings = ("Step", "Node", "Duration", "Status", "Decision")
    shown = len(headings) if any(row[-1] for row in rows) else len(headings) - 1
    return Table(headings[:shown], [row[:shown] for row in rows])


def stats_table(stats: dict[str, NodeStats]) -> Table:
    """Lay out one row per node."""
    rows = [
        (name, node.count, run_time(node.total_ms), execution_time(node.avg_ms), node.errors, node.cached)
        for name, node in stats.items()
    ]
    return Table(("Node", "Runs", "Total", "Avg", "Errors", "Cached"), rows)


def failed_status(message: str | None, node_name: str | None = None) -> str:
    """Return "FAILED: message", with the node before the message where the row does not name it."""
    parts = ("FAILED", node_name, first_line(message or ""))
    return ": ".join(part for part in parts if part)


def _step_row(step: NodeRecord) -> tuple[object, ...]:
    failed = step.status == "failed"
    status = failed_status(step.error) if failed else step.status
    if step.log is not None:
        inner = step.log.steps if hasattr(step.log, "steps") else step.log.items
        status += f" ({len(inner)} inner)"
    # How long a failure took says nothing about the node; the record keeps the number.
    return step.superstep, step.node_name, execution_time(None if failed else step.duration_ms), status


def _decision(decision: Any) -> str:
    if decision is None:
        return ""
    targets = decision if isinstance(decision, (list, tuple)) else [decision]
    return "→ " + (", ".join(safe_text(target) for target in targets) or "(none)")
