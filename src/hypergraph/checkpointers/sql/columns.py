"""Columns of the tables of workflows, steps and values; times are microseconds since 1970, in UTC.

Statements, rows, records and exports follow these lists. What a list of workflows shows can be read with them
alone: no record is built and no value is touched.
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
NEW_COLUMNS = (  # of a workflow that begins
    *("id", "status", "created_at", "fence", "owner_pid", "owner_host", "owner_since", "graph_name"),
    *("graph_hash", "structure", "parent_id", "parent_superstep", "node_name", "visit", "item"),
    *("fingerprint", "forked_from", "forked_at", "tags"),
)

# Fields of StepRecord: each in a column of its name,
STEP_NUMBERS = ("duration_ms", "cached", "attempt")
STEP_TEXTS = ("error", "error_type")
# or, where most steps do not have them, together in the column `extra`, as JSON.
STEP_EXTRAS = (
    *("decision", "wait_versions", "visit", "child_workflow_id", "traceback", "attempt_errors", "partial"),
    *("replayed", "retry_of", "answered_by", "answered_at"),
)
STEP_KEY = ("workflow", "superstep", "node")
STEP_COLUMNS = (
    *STEP_KEY,
    *("idx", "status", "created_at", "completed_at"),
    *STEP_NUMBERS,
    *STEP_TEXTS,
    *("versions", "extra"),
)
VALUE_KEY = ("workflow", "kind", "name", "superstep", "idx", "node")
VALUE_COLUMNS = (*VALUE_KEY, "version", "format", "checksum", "data", "base")


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
