"""Columns of the tables of workflows, steps and values; times are microseconds since 1970, in UTC.

Statements, rows, records and exports follow these lists. What a list of workflows shows can be read with them
alone: no record is built and no value is touched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache, wraps
from types import NoneType
from typing import Any, ParamSpec, TypeVar

from hypergraph.exceptions import StoreCorruptError

Row = tuple[Any, ...]
P = ParamSpec("P")
T = TypeVar("T")

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
_LONGEST = 1e13  # milliseconds
_ENDLESS = float("inf")
_LONG = 200_000  # characters of a text that may take much memory
_MEMORY, _TIMES = 32 * 1024 * 1024, 16  # bytes of memory for it: some, and so many times its size
_LIST, _DICT = 72, 208  # bytes of memory that a container takes
_SHOWN = 300  # characters of what is wrong with a row

WORKFLOW_COLUMNS = (
    *("id", "status", "graph_name", "created_at", "completed_at", "graph_hash", "parent_id", "forked_from"),
    *("forked_at", "tags", "duration_ms", "parent_superstep", "node_name", "visit", "item", "fingerprint"),
    *("crashes", "due", "version", "awaits", "reason"),
)
_SUMMARY = (*WORKFLOW_COLUMNS, "step_count")
_CREATED, _DURATION = (WORKFLOW_COLUMNS.index(name) for name in ("created_at", "duration_ms"))
_TIMES_OR_NONE = tuple(WORKFLOW_COLUMNS.index(name) for name in ("completed_at", "due"))
_MAPPINGS = tuple(
    (WORKFLOW_COLUMNS.index(name), kind) for name, kind in (("tags", str), ("crashes", int), ("awaits", int))
)
NEW_COLUMNS = (  # of a workflow that begins
    *("id", "status", "created_at", "fence", "owner_pid", "owner_host", "owner_since", "graph_name"),
    *("graph_hash", "structure", "parent_id", "parent_superstep", "node_name", "visit", "item"),
    *("fingerprint", "forked_from", "forked_at", "tags", "version"),
)

# Fields of StepRecord: each in a column of its name,
STEP_NUMBERS = ("duration_ms", "cached", "attempt", "visit")
STEP_TEXTS = ("error", "error_type")
STEP_OWN = (*STEP_NUMBERS, *STEP_TEXTS)
# or, where most steps do not have them, together in the column `extra`, as JSON.
STEP_EXTRAS = (
    *("decision", "wait_versions", "child_workflow_id", "child_fence", "traceback"),
    *("attempt_errors", "partial", "replayed", "retry_of", "answered_by", "answered_at", "waited_ms"),
    *("expired", "used", "rerun_at", "code_was"),
)
STEP_KEY = ("workflow", "superstep", "node")
STEP_COLUMNS = (
    *STEP_KEY,
    *("idx", "status", "created_at", "completed_at"),
    *STEP_OWN,
    *("versions", "extra"),
)
# What SQLite stores in place of some, in fewer bytes; it computes these from them: see sqlite/migrations.py.
BRIEF = {"status": "unusual", "completed_at": "ended", "duration_ms": "took"}
WRITTEN = {False: STEP_COLUMNS, True: tuple(BRIEF.get(name, name) for name in STEP_COLUMNS)}  # by brevity
VALUE_KEY = ("workflow", "kind", "name", "superstep", "idx", "node")
USAGE_COLUMNS = ("workflow", "superstep", "node", "step", "name", "amount")
VALUE_COLUMNS = (*VALUE_KEY, "version", "format", "checksum", "data", "base")


def micros(time: datetime | None) -> int | None:
    """Return a time as it is stored."""
    return None if time is None else (time - EPOCH) // MICROSECOND


def time_of(stored: int | None) -> datetime | None:
    """Return a stored time."""
    return None if stored is None else EPOCH + stored * MICROSECOND


# Errors of code that takes a row for what it should be; ValueError may also be one of the caller's.
NONSENSE = (TypeError, LookupError, AttributeError, ArithmeticError, RecursionError)


def corrupt(error: Exception) -> StoreCorruptError:
    """Return the error for a damaged row."""
    text = f"{type(error).__name__}: {error}"
    return StoreCorruptError(
        f"The store contains a damaged row ({text[:_SHOWN]}); restore it from a backup, or delete the "
        "workflow."
    )


def or_corrupt(build: Callable[P, T]) -> Callable[P, T]:
    """Turn errors in a row into StoreCorruptError."""

    @wraps(build)
    def read(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return build(*args, **kwargs)
        except (ValueError, *NONSENSE) as error:
            raise corrupt(error) from error

    return read


_INTS = ("created_at", "superstep", "idx", "attempt", "visit", "step_count", "workflow")
_INTS_OR_NONE = ("due", "completed_at", "forked_at", "parent_superstep", "item")
_TEXTS = ("id", "status", "node", "versions")
_KINDS: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(_INTS, (int,)),
    **dict.fromkeys(_INTS_OR_NONE, (int, NoneType)),
    **dict.fromkeys(_TEXTS, (str,)),
    "cached": (int, bool),
    "duration_ms": (float, int, NoneType),
}
_OTHER = (str, NoneType)
_sound: set[tuple[type, ...]] = set()  # types of rows of workflows that are right
_seen: set[tuple[object, ...]] = set()  # types of rows that are right: there are few combinations


def check_types(columns: tuple[str, ...], row: Sequence[Any]) -> None:
    """Raise ValueError unless every column holds its type: SQLite stores anything anywhere."""
    found = (len(columns), *map(type, row))
    if found in _seen:
        return
    for name, kind in zip(columns, found[1:], strict=True):
        if kind not in _KINDS.get(name, _OTHER):
            raise ValueError(f"{name} is of type {getattr(kind, '__name__', kind)}")
    _seen.add(found)


def check_rows(columns: tuple[str, ...], rows: Iterable[Sequence[Any]]) -> None:
    """Raise ValueError unless every row holds its types, and a duration that makes sense."""
    at = columns.index("duration_ms")
    for row in rows:
        check_types(columns, row)
        check_duration(row[at])


def check_duration(ms: float | None) -> None:
    """Raise ValueError for a duration of more than a few centuries, or without end."""
    if ms is not None and not -_LONGEST < ms < _LONGEST:
        raise ValueError(f"a duration of {ms}")


def check_number(found: object) -> None:
    """Raise ValueError unless something is a finite number from 0 on."""
    if not isinstance(found, int | float) or not 0 <= found < _ENDLESS:
        raise ValueError(f"an amount of {found!r:.40}")


def fields_of(row: Sequence[Any]) -> dict[str, Any]:
    """Return the fields of a workflow by name, from WORKFLOW_COLUMNS and the number of its steps."""
    return dict(zip(_SUMMARY, decoded(row), strict=False))


def decoded(row: Sequence[Any]) -> list[Any]:
    """Return what the columns of a workflow mean, in their order: WORKFLOW_COLUMNS, the number of steps.

    What comes after them is left as it is. Raises ValueError or TypeError for a damaged row.
    """
    found = list(row)
    if (kinds := tuple(map(type, found))) not in _sound:
        check_types(_SUMMARY, found[: len(_SUMMARY)])
        _sound.add(kinds)
    if found[_DURATION] is not None:
        check_duration(found[_DURATION])
    found[_CREATED] = EPOCH + found[_CREATED] * MICROSECOND
    for at in _TIMES_OR_NONE:
        if found[at] is not None:
            found[at] = EPOCH + found[at] * MICROSECOND
    for at, kind in _MAPPINGS:
        found[at] = mapping_in(found[at], kind) if found[at] else {}
    return found


def mapping_in(text: str, kind: type) -> Any:
    """Return the mapping that a JSON text holds. Raises ValueError for anything else."""
    texts = _texts_of(text)
    return mapping_of(parsed(text) if texts is None else texts, kind)


def _texts_of(text: str) -> dict[str, str] | None:
    """Return a JSON object of plain texts, as most tags are; None for any other text."""
    marks, texts = text.split('"')[::2], text.split('"')[1::2]
    between = [mark.strip(" ") for mark in marks]
    is_plain = "\\" not in text and text.isprintable()  # no quote is escaped, and none may have to be
    if is_plain and between == ["{", *[":", ","] * (len(texts) // 2 - 1), ":", "}"]:
        return dict(zip(texts[::2], texts[1::2], strict=True))
    return None


def check_length(text: str) -> None:
    """Raise ValueError if reading a JSON text would take too much memory: it is copied once to be shown.

    Brackets inside of strings count too. No text that a release writes has that many.
    """
    if len(text) > _LONG:
        cost = text.count("{") * _DICT + text.count("[") * _LIST
        if cost > max(_MEMORY, _TIMES * len(text)):
            raise ValueError(f"too many lists and mappings for a text of {len(text)} characters")


def mapping_of(found: Any, kind: type) -> Any:
    """Return a mapping whose values have this type. Raises ValueError for anything else."""
    if type(found) is not dict or not set(map(type, found.values())) <= {kind}:
        raise ValueError(f"not a mapping to {kind.__name__}")
    return found


def versions_in(text: str) -> list[dict[str, int]]:
    """Return the versions of what a step took, and made. Raises ValueError for anything else."""
    if not text.startswith("["):
        text = "[{" + text.replace("\n", "},{") + "}]"
    return [mapping_of(each, int) for each in parsed(text)]


@cache
def _scanner() -> Callable[[str], tuple[Any, int]]:
    import json  # takes long to load

    return json.JSONDecoder().raw_decode


def parsed(text: str) -> Any:
    """Return what a JSON text holds, without the search for blanks around it that `json.loads` begins with.

    Raises:
        ValueError: it is not JSON, or would take too much memory.
    """
    check_length(text)
    found, end = _scanner()(text)
    if end != len(text):
        raise ValueError(f"not JSON from character {end} on")
    return found
