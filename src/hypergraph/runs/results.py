"""Results of a run and of a map."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, SupportsIndex, overload

from hypergraph.display import (
    Table,
    as_html,
    batch_time,
    bounded,
    did_you_mean,
    escape,
    jsonable,
    plural,
    preview,
)
from hypergraph.exceptions import NodeError, safe_text
from hypergraph.records import PauseInfo, RunStatus, fresh_run_id
from hypergraph.runs.log import MapLog, RunLog, tally

_FIELDS = ("values", "status", "run_id", "workflow_id", "error", "pause", "log", "failure", "nested")
_MAX_VALUES = 50
_repr_state = threading.local()


def error_text(error: BaseException | None) -> str | None:
    """Return "Type: message"; None without an error."""
    return None if error is None else f"{type(error).__name__}: {safe_text(error)}"


class RunResult:
    """The outcome of one run: its values, how it ended, and its log."""

    workflow_id: str | None = None  # of the stored run, if there is one
    error: BaseException | None = None  # the exception that a node raised, if one did
    pauses: tuple[PauseInfo, ...] = ()  # the open questions, if it waits
    failure: NodeError | None = None  # the evidence about the error

    def __init__(  # noqa: PLR0917 - the fields are its signature
        self,
        values: Mapping[str, Any],
        status: RunStatus,
        run_id: str | None = None,
        workflow_id: str | None = None,
        error: BaseException | None = None,
        pause: PauseInfo | None = None,
        log: RunLog | None = None,
        failure: NodeError | None = None,
        nested: dict[str, RunResult | MapResult] | None = None,
        pauses: Iterable[PauseInfo] = (),
    ) -> None:
        self.values = values  # the outputs by name; emit names and plain inputs are not among them
        self.status = status  # how it ended
        self.run_id = run_id if run_id is not None else fresh_run_id()  # made unless given
        self.workflow_id = workflow_id
        self.error = error
        self.pauses = tuple(pauses) or (() if pause is None else (pause,))
        self.log = log  # what happened, without values
        self.failure = failure
        self.nested = nested if nested is not None else {}  # results of GraphNodes, by node

    @property
    def pause(self) -> PauseInfo | None:
        """The first of the open questions."""
        return self.pauses[0] if self.pauses else None

    @property
    def completed(self) -> bool:
        """Whether the run came to its end."""
        return self.status is RunStatus.COMPLETED

    @property
    def failed(self) -> bool:
        """Whether a node failed."""
        return self.status is RunStatus.FAILED

    @property
    def paused(self) -> bool:
        """Whether the run waits for an answer; `pause` says for which."""
        return self.status is RunStatus.PAUSED

    @property
    def stopped(self) -> bool:
        """Whether the run was asked to stop before its end."""
        return self.status is RunStatus.STOPPED

    def __getitem__(self, key: str) -> Any:
        """Return a value, or the nested result of the graph node of that name.

        Raises:
            KeyError: neither has that name.
        """
        if key in self.values:
            return self.values[key]
        nested = self.nested
        if key in nested:
            return nested[key]
        names = [*self.values, *(name for name in nested if name not in self.values)]
        available = f"Available: {', '.join(map(repr, names)) or 'nothing'}"
        hints = (f"This {self.status.value} run has no value {key!r}.", did_you_mean(key, names), available)
        raise KeyError(" ".join(hint for hint in hints if hint))

    def __contains__(self, key: object) -> bool:
        return key in self.values

    def get(self, key: str, default: Any = None) -> Any:
        """Return a value, or the default when there is none of that name."""
        return self.values.get(key, default)

    def summary(self) -> str:
        """Return one line: the log's summary, or without a log the status and the error."""
        if self.log is not None:
            return self.log.summary()
        error = error_text(self.error)
        return self.status.value if error is None else f"{self.status.value}: {escape(error)}"

    def to_dict(self) -> dict[str, Any]:
        """Return status, ids, log and error as JSON primitives; never a value."""
        log, error = self.log, error_text(self.error)
        return {
            "status": self.status.value,
            "run_id": jsonable(self.run_id),
            "workflow_id": jsonable(self.workflow_id),
            **({} if log is None else {"log": log.to_dict()}),
            **({} if error is None else {"error": jsonable(error)}),
        }

    def __repr__(self) -> str:
        extras = {"workflow_id": self.workflow_id, "error": self.error, "pause": self.pause}
        shown = [f"{name}={preview(value)}" for name, value in extras.items() if value is not None]
        parts = (self.status.value, f"run_id={preview(self.run_id)}", *shown, self._values_text())
        return bounded(f"RunResult({', '.join(parts)})")

    def _values_text(self) -> str:
        # A result among the values of another is shown without its own: each would begin again
        # at full depth, and a result that contains itself would never end.
        if getattr(_repr_state, "busy", False):
            return "..."
        _repr_state.busy = True
        try:
            return f"values={preview(self.values, depth=3)}"
        finally:
            _repr_state.busy = False

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self))

    def _repr_html_(self) -> str:
        names = list(self.values)
        rows = [(name, preview(self.values[name])) for name in names[:_MAX_VALUES]]
        left_out = len(names) - len(rows)
        more = f"... and {plural(left_out, 'more value')}" if left_out else ""
        error = error_text(self.error)
        header = ("RunResult", self.status.value, self.run_id, *([] if error is None else [bounded(error)]))
        values = [Table(("Name", "Value"), rows, more)] if rows else []
        own = as_html(header, *self._waits_for(), *values)
        return own + ("" if self.log is None else self.log._repr_html_())

    def _waits_for(self) -> list[str]:
        return [f"{p.node_name} waits for {', '.join(p.response_keys.values())}" for p in self.pauses]

    def __reduce__(self) -> tuple[Any, ...]:
        return _empty, (), {name: getattr(self, name) for name in _FIELDS}


def _empty() -> RunResult:
    return RunResult.__new__(RunResult)


def overall(found: Collection[RunStatus]) -> RunStatus:
    """Return what the statuses of all items amount to."""
    if RunStatus.FAILED in found:
        if RunStatus.COMPLETED in found:
            return RunStatus.PARTIAL
        if len(found) == 1:
            return RunStatus.FAILED
    ranked = (RunStatus.STOPPED, RunStatus.PAUSED)
    return next((status for status in ranked if status in found), RunStatus.COMPLETED)


@dataclass(frozen=True, repr=False, eq=False)
class MapResult(Sequence[RunResult]):
    """The results of all items of a map, in input order."""

    results: tuple[RunResult, ...]  # of the items, in their order
    run_id: str | None = None  # of the map; None if there was no item
    total_duration_ms: float = 0.0  # of the whole map
    map_over: tuple[str, ...] = ()  # the inputs that were mapped over
    map_mode: str = "zip"  # "zip" or "product"
    graph_name: str = ""  # "" for a graph without name
    workflow_id: str | None = None  # of the stored map, if there is one

    def __post_init__(self) -> None:
        object.__setattr__(self, "results", tuple(self.results))
        object.__setattr__(self, "map_over", tuple(self.map_over))

    def __len__(self) -> int:
        return len(self.results)

    def __iter__(self) -> Iterator[RunResult]:
        return iter(self.results)

    @overload
    def __getitem__(self, key: SupportsIndex) -> RunResult: ...
    @overload
    def __getitem__(self, key: slice) -> list[RunResult]: ...
    @overload
    def __getitem__(self, key: str) -> list[Any]: ...
    def __getitem__(self, key: SupportsIndex | slice | str) -> Any:
        """Return one item, a list of items, or one output of every item.

        Raises:
            IndexError: there is no such item.
            TypeError: the key is neither an index, a slice nor a name.
        """
        if isinstance(key, str):
            return self.get(key)
        if isinstance(key, slice):
            return list(self.results[key])
        if isinstance(key, SupportsIndex):
            return self.results[key]
        raise TypeError(
            f"MapResult indices must be integers, slices or output names, not {type(key).__name__}"
        )

    def get(self, key: str, default: Any = None) -> list[Any]:
        """Return one output of every item, the default where an item lacks it."""
        return [result.get(key, default) for result in self.results]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, MapResult):
            return self.results == other.results
        return list(self.results) == other if isinstance(other, list) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.results)

    @property
    def status(self) -> RunStatus:
        """How the map ended as a whole; PARTIAL when some items completed and some failed."""
        return overall({result.status for result in self.results})

    @property
    def completed(self) -> bool:
        """Whether every item completed."""
        return self.status is RunStatus.COMPLETED

    @property
    def paused(self) -> bool:
        """Whether the map waits for answers."""
        return self.status is RunStatus.PAUSED

    @property
    def stopped(self) -> bool:
        """Whether the map was asked to stop before its end."""
        return self.status is RunStatus.STOPPED

    @property
    def partial(self) -> bool:
        """Whether some items completed and some failed."""
        return self.status is RunStatus.PARTIAL

    @property
    def failed(self) -> bool:
        """Whether any item failed."""
        return bool(self.failures)

    @property
    def failures(self) -> list[RunResult]:
        """The failed items."""
        return [result for result in self.results if result.failed]

    @cached_property
    def log(self) -> MapLog:
        """The logs of all items."""
        items = [
            result.log or RunLog(self.graph_name, result.run_id, 0.0, (), item_index=index)
            for index, result in enumerate(self.results)
        ]
        outcomes = tuple((result.status.value, error_text(result.error) or "") for result in self.results)
        return MapLog(self.graph_name, self.total_duration_ms, tuple(items), outcomes)

    def summary(self) -> str:
        """Return one line: how many items, how they ended, how long they took."""
        return " | ".join((plural(len(self), "item"), self._tally, self._total))

    def to_dict(self) -> dict[str, Any]:
        """Return the counts and every item's `to_dict()` as JSON primitives."""
        return {
            "run_id": jsonable(self.run_id),
            "total_duration_ms": jsonable(self.total_duration_ms),
            "map_over": jsonable(self.map_over),
            "map_mode": jsonable(self.map_mode),
            "graph_name": jsonable(self.graph_name),
            "item_count": len(self),
            "completed_count": sum(result.completed for result in self.results),
            "failed_count": len(self.failures),
            "items": [result.to_dict() for result in self.results],
        }

    def __repr__(self) -> str:
        counts = f"{plural(len(self), 'item')}: {self._tally}, {self._total}"
        return f"MapResult({counts}, map_over={self.map_over!r})"

    def _repr_html_(self) -> str:
        return as_html(("MapResult", self.status.value, self.summary())) + self.log._repr_html_()

    @property
    def _tally(self) -> str:
        return tally(result.status.value for result in self.results)

    @property
    def _total(self) -> str:
        return batch_time(self.total_duration_ms)
