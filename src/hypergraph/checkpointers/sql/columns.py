"""Columns of the table of workflows; times are microseconds since 1970, in UTC.

What a list shows can be read with these alone: no record is built and no value is touched.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from hypergraph.exceptions import StoreCorruptError

Row = tuple[Any, ...]
P = ParamSpec("P")
T = TypeVar("T")

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)

WORKFLOW_COLUMNS = (
    *("id", "status", "graph_name", "created_at", "completed_at", "graph_hash", "parent_id", "forked_from"),
    *("forked_at", "tags", "duration_ms", "parent_superstep", "node_name", "visit", "item", "fingerprint"),
    "crashes",
)


def micros(time: datetime | None) -> int | None:
    """Return a time as it is stored."""
    return None if time is None else (time - EPOCH) // MICROSECOND


def time_of(stored: int | None) -> datetime | None:
    """Return a stored time."""
    return None if stored is None else EPOCH + stored * MICROSECOND


def or_corrupt(build: Callable[P, T]) -> Callable[P, T]:
    """Turn errors in a row into StoreCorruptError."""

    @wraps(build)
    def read(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return build(*args, **kwargs)
        except (ValueError, TypeError, KeyError) as error:
            raise StoreCorruptError(
                f"A row of the store makes no sense ({type(error).__name__}: {error}); restore it from "
                "a backup, or delete the workflow."
            ) from error

    return read


def fields_of(row: Sequence[Any]) -> dict[str, Any]:
    """Return the fields of a workflow by name, from WORKFLOW_COLUMNS and the number of its steps."""
    *columns, step_count = row
    fields = dict(zip(WORKFLOW_COLUMNS, columns, strict=True))
    for name in ("tags", "crashes"):
        fields[name] = _parsed(fields[name]) if fields[name] else {}
    for name in ("created_at", "completed_at"):
        fields[name] = time_of(fields[name])
    return {**fields, "step_count": step_count}


def _parsed(text: str) -> Any:
    import json  # most workflows have neither tags nor crashes

    return json.loads(text)
