"""Run logs: timing, status and decision of every node execution, never a value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, overload

from hypergraph.display import (
    FailedTime,
    Table,
    as_html,
    as_text,
    batch_time,
    escape,
    execution_time,
    failed_status,
    jsonable,
    plural,
    run_time,
    with_usage,
)
from hypergraph.records import NodeRecord, step_table, total_usage

__all__ = ["MapLog", "NodeStats", "RunLog"]

_MAX_ITEMS = 20
_MAX_NESTED = 10


@dataclass(frozen=True, slots=True, repr=False)
class RunLog:
    """The trace of one run: `print(log)` shows it as a table."""

    graph_name: str  # "" for a graph without name
    run_id: str  # of the run
    total_duration_ms: float  # of the whole run
    steps: tuple[NodeRecord, ...]  # the executions in order
    item_index: int | None = None  # the index of the item, in a map

    def __post_init__(self) -> None:
        _normalise(self, "steps")

    @property
    def errors(self) -> tuple[NodeRecord, ...]:
        """The records of failed executions."""
        return tuple(step for step in self.steps if step.status == "failed")

    @property
    def timing(self) -> dict[str, float]:
        """The total milliseconds of each node."""
        return {name: stats.total_ms for name, stats in self.node_stats.items()}

    @property
    def node_stats(self) -> dict[str, NodeStats]:
        """The statistics of each node, in order of first execution."""
        return add_up(self.steps)

    @property
    def usage(self) -> dict[str, float]:
        """What the nodes recorded with `ctx.record`, added up, those of nested graphs included."""
        return total_usage(self.steps)

    def summary(self) -> str:
        """Return one line: number of nodes, duration, number of errors, slowest node."""
        timing = self.timing
        counts = (plural(len(timing), "node"), run_time(self.total_duration_ms), self._error_count)
        text = ", ".join(counts)
        if timing:
            slowest = max(timing, key=timing.__getitem__)
            text += f" | slowest: {escape(slowest)} ({run_time(timing[slowest])})"
        return text

    def to_dict(self) -> dict[str, Any]:
        """Return the whole log, inner logs included, as JSON primitives."""
        return {
            "graph_name": jsonable(self.graph_name),
            "run_id": jsonable(self.run_id),
            "total_duration_ms": jsonable(self.total_duration_ms),
            "steps": [_step_dict(step) for step in self.steps],
            "node_stats": _stats_dict(self.node_stats),
        }

    def __str__(self) -> str:
        return as_text(self._header(), *self._blocks())

    __repr__ = __str__

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))

    def _repr_html_(self) -> str:
        return as_html(self._header(), *self._blocks())

    @property
    def _error_count(self) -> str:
        failed = failed_inside(self)
        inside = f", {plural(failed, 'item')} failed inside" if failed else ""
        return plural(len(self.errors), "error") + inside

    def _header(self) -> Sequence[str]:
        title = f"RunLog: {_name(self)}"
        if self.item_index is not None:
            title += f" [item {self.item_index}]"
        nodes = plural(len(self.node_stats), "node")
        return title, run_time(self.total_duration_ms), nodes, self._error_count

    def _blocks(self) -> Iterator[Table | str]:
        stats = self.node_stats
        looped = len(stats) < len(self.steps)
        yield stats_table(stats) if looped else step_table(self.steps)
        nested = [f".steps[{index}].log" for index, step in enumerate(self.steps) if step.log is not None]
        if nested:
            left_out = len(nested) - _MAX_NESTED
            more = f" ... and {left_out} more" if left_out > 0 else ""
            yield f"nested logs: {', '.join(nested[:_MAX_NESTED])}{more}"


@dataclass(frozen=True, slots=True, repr=False)
class MapLog:
    """The logs of all items of a map, in item order.

    `outcomes` holds a status and a message per item, for items without a failed record: paused, stopped, or
    failed before the first node. Without `outcomes` the records decide.
    """

    graph_name: str  # "" for a graph without name
    total_duration_ms: float  # of the whole map
    items: tuple[RunLog, ...]  # the log of each item
    outcomes: tuple[tuple[str, str], ...] = field(default=(), compare=False)  # see above

    def __post_init__(self) -> None:
        _normalise(self, "items")

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[RunLog]:
        return iter(self.items)

    @overload
    def __getitem__(self, index: int) -> RunLog: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[RunLog, ...]: ...
    def __getitem__(self, index: int | slice) -> RunLog | tuple[RunLog, ...]:
        return self.items[index]

    @property
    def errors(self) -> tuple[NodeRecord, ...]:
        """The records of failed executions in all items."""
        return tuple(record for item in self.items for record in item.errors)

    @property
    def timing(self) -> dict[str, float]:
        """The milliseconds of each node over all items."""
        return {name: stats.total_ms for name, stats in self.node_stats.items()}

    @property
    def node_stats(self) -> dict[str, NodeStats]:
        """The statistics of each node over all items."""
        return add_up(step for item in self.items for step in item.steps)

    @property
    def usage(self) -> dict[str, float]:
        """What the nodes of all items recorded with `ctx.record`, added up."""
        return total_usage(step for item in self.items for step in item.steps)

    def summary(self) -> str:
        """Return one line: number of items, statuses, duration, number of errors."""
        statuses = tally(self._status(position) for position in range(len(self)))
        return " | ".join((plural(len(self), "item"), statuses, self._total, self._error_count))

    def to_dict(self) -> dict[str, Any]:
        """Return the logs of all items as JSON primitives."""
        return {
            "graph_name": jsonable(self.graph_name),
            "total_duration_ms": jsonable(self.total_duration_ms),
            "items": [item.to_dict() for item in self.items],
            "node_stats": _stats_dict(self.node_stats),
        }

    def __str__(self) -> str:
        return as_text(self._header(), *self._blocks())

    def __repr__(self) -> str:
        return f"MapLog({escape(_name(self))}: {self.summary()})"

    def _repr_html_(self) -> str:
        return as_html(self._header(), *self._blocks())

    @property
    def _total(self) -> str:
        return batch_time(self.total_duration_ms)

    @property
    def _error_count(self) -> str:
        # An item that failed before its first node has no failed record, but is an error too.
        counts = (
            len(item.errors) or self._status(position) == "failed" for position, item in enumerate(self.items)
        )
        return plural(sum(counts), "error")

    def _status(self, position: int) -> str:
        if self.outcomes:
            return self.outcomes[position][0]
        return "failed" if self.items[position].errors else "completed"

    def _header(self) -> Sequence[str]:
        return f"MapLog: {_name(self)}", self._total, plural(len(self), "item"), self._error_count

    def _blocks(self) -> Iterator[Table]:
        failed_first = sorted(range(len(self)), key=lambda position: self._status(position) != "failed")
        rows = [self._row(position) for position in failed_first[:_MAX_ITEMS]]
        left_out = len(self) - len(rows)
        more = f"... and {plural(left_out, 'more item')}" if left_out else ""
        yield Table(("Item", "Nodes", "Duration", "Status"), rows, more)
        if stats := self.node_stats:
            yield stats_table(stats)

    def _row(self, position: int) -> Sequence[object]:
        item, status = self.items[position], self._status(position)
        index = position if item.item_index is None else item.item_index
        nodes = len(item.node_stats)
        if status != "failed":
            return index, nodes, execution_time(item.total_duration_ms), status
        if item.errors:
            status = failed_status(item.errors[0].error, item.errors[0].node_name)
        else:
            status = failed_status(self.outcomes[position][1])
        return index, nodes, FailedTime(item.total_duration_ms), status


def _normalise(log: RunLog | MapLog, rows: str) -> None:
    """Normalise a new log: the name is text, the time rounded and not negative."""
    object.__setattr__(log, "graph_name", log.graph_name or "")
    object.__setattr__(log, "total_duration_ms", max(0.0, round(log.total_duration_ms, 3)))
    object.__setattr__(log, rows, tuple(getattr(log, rows)))


def _name(log: RunLog | MapLog) -> str:
    return log.graph_name or "unnamed"


def _stats_dict(stats: dict[str, NodeStats]) -> dict[str, Any]:
    return {jsonable(name, depth=0): node.to_dict() for name, node in stats.items()}


def _step_dict(step: NodeRecord) -> dict[str, Any]:
    fields = {
        name: jsonable(getattr(step, name)) for name in NodeRecord.__slots__ if name not in ("log", "steps")
    }
    return {
        **fields,
        "steps": [{name: jsonable(getattr(inner, name)) for name in _LOGGED} for inner in step.steps],
        "inner_log": None if step.log is None else step.log.to_dict(),
    }


_LOGGED = ("key", "status", "duration_ms", "error", "error_type", "attempt", "replayed", "usage")


def failed_inside(log: RunLog) -> int:
    """Return how many items failed in maps inside a run whose nodes completed all the same."""
    found = 0
    for step in log.steps:
        inner = None if step.status == "failed" else step.log
        if isinstance(inner, MapLog):
            for position, item in enumerate(inner.items):
                found += 1 if inner._status(position) == "failed" else failed_inside(item)
        elif isinstance(inner, RunLog):
            found += failed_inside(inner)
    return found


@dataclass(frozen=True, slots=True, repr=False)
class NodeStats:
    """The executions of one node in one call, added up. Steps restored from a stored run are none of them."""

    count: int = 0  # how many executions; 0 if all steps of the node were restored
    total_ms: float = 0.0  # how long they took together
    errors: int = 0  # how many failed
    cached: int = 0  # how many came from the cache
    usage: dict[str, float] = field(default_factory=dict)  # what they recorded, added up

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
        names = ("count", "total_ms", "avg_ms", "errors", "cached", "usage")
        return {name: jsonable(getattr(self, name)) for name in names}


def add_up(steps: Iterable[NodeRecord]) -> dict[str, NodeStats]:
    """Return the statistics of each node, in order of first execution; restored steps have not run."""
    by_name: dict[str, list[NodeRecord]] = {}
    for step in steps:
        ran = by_name.setdefault(step.node_name, [])
        if step.status != "skipped":
            ran.append(step)
    return {
        name: NodeStats(
            count=len(group),
            total_ms=sum(step.duration_ms for step in group),
            errors=sum(step.status == "failed" for step in group),
            cached=sum(step.cached or step.status == "cached" for step in group),
            usage=total_usage(group),
        )
        for name, group in by_name.items()
    }


def tally(statuses: Iterable[str]) -> str:
    """Return how often each status occurs, as in "2 completed, 1 failed"."""
    counts = Counter(statuses) or {"completed": 0}
    order = [name for name in ("completed", "failed", "paused", "stopped") if name in counts]
    return ", ".join(f"{counts[name]} {name}" for name in order)


def stats_table(stats: dict[str, NodeStats]) -> Table:
    """Return a table with one row per node; one whose steps were all restored is "skipped"."""
    rows = [
        (
            name,
            node.count or "skipped",
            run_time(node.total_ms),
            execution_time(node.avg_ms),
            node.errors,
            node.cached,
        )
        for name, node in stats.items()
    ]
    table = Table(("Node", "Runs", "Total", "Avg", "Errors", "Cached"), rows)
    return with_usage(table, [node.usage for node in stats.values()])
