"""What a map gives back: the sequence of its items' results, and what they amount to."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, SupportsIndex, overload

from hypergraph.display import as_html, batch_time, jsonable, plural
from hypergraph.records import RunStatus
from hypergraph.runs.log import MapLog, RunLog
from hypergraph.runs.run_result import RunResult, error_text
from hypergraph.runs.tables import tally


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
