"""Commits of runs as statements: mostly one each, which is one round trip and one transaction.

A statement checks the fence, adds the steps and values, changes the status, and ends with an error if the
claim is not the newest any more or a step was recorded already: then nothing of it is written.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

from hypergraph.checkpointers.postgres.driver import escaped
from hypergraph.checkpointers.postgres.migrations import LOST, RECORDED, TYPES
from hypergraph.checkpointers.records import FINISHED, Commit, taken_over
from hypergraph.checkpointers.sql import writes
from hypergraph.checkpointers.sql.columns import STEP_COLUMNS, VALUE_COLUMNS, VALUE_KEY, micros
from hypergraph.checkpointers.sql.connection import Connection, Database
from hypergraph.checkpointers.sql.writes import (
    COMPLETING,
    PAUSE_STATUS,
    STATUS,
    awaits_text,
    inner_rows,
    input_rows,
    replacing,
    rows_of,
    summary_rows,
)
from hypergraph.checkpointers.status import WorkflowStatus
from hypergraph.clock import now

REFUSED = frozenset({LOST, RECORDED, "21000"})  # the last: one step twice in one commit
# All others are numbers.
_TYPES = {**TYPES, "duration": "double precision", "awaits": "text", "reason": "text"}
_ENCODERS: dict[str, Callable[[Any], bytes]] = {
    "bigint": struct.Struct(">q").pack,
    "double precision": struct.Struct(">d").pack,
    "text": lambda value: escaped(value).encode(),
    "boolean": lambda value: b"\1" if value else b"\0",
    "bytea": lambda value: value,
}
_STEPS = 16  # in one statement
_VALUES = 10_000  # in one statement; the protocol takes 65,535
_STATUS = ("key", "fence", "status", "ended", "duration", "due", "awaits", "reason")
_HEADS = {  # the parameters that come first
    "": ("key", "fence"),
    "duration": ("key", "fence", "duration"),
    "status": _STATUS,
    "pause": (*_STATUS, "now", "since"),
}
_SAME = """
SELECT 1 FROM steps
WHERE workflow = ? AND superstep = ? AND node = ? AND idx = ? AND status = ? AND created_at = ?
"""


class Statement(NamedTuple):
    """A commit: the text, its parameters, and what makes bytes of them."""

    text: str
    values: list[Any]
    encoders: tuple[Callable[[Any], bytes], ...]

    def encoded(self) -> list[bytes | None]:
        """Return the parameters in the binary form of their types. Raises struct.error, UnicodeError."""
        return [
            None if value is None else encode(value)
            for value, encode in zip(self.values, self.encoders, strict=True)
        ]


def statements(unit: Commit, clock: writes.Clock) -> list[Statement] | None:
    """Return a commit as statements with their parameters, None for one that is not made of rows alone.

    Most are one statement. The parts of a long one have the same shape, so that it is prepared once.
    """
    if unit.running is not None or unit.code is not None or unit.usage:
        return None
    if unit.status is WorkflowStatus.PAUSED:
        # A statement sees what was there when it began. The one that looks for answers comes last: when the
        # row is locked, so that no answer is under way, and the steps are written.
        before = statements(unit._replace(status=None, duration_ms=None, due=None), clock)
        last = Commit(unit.claim, status=unit.status, duration_ms=unit.duration_ms, due=unit.due)
        last = last._replace(awaits=unit.awaits, reason=unit.reason, since=unit.since)
        return None if before is None else [*before, _statement(last, clock)]
    claim, steps, end = unit.claim, unit.steps, max(0, len(unit.steps) - 1) // _STEPS * _STEPS
    parts = [Commit(claim, steps[at : at + _STEPS]) for at in range(0, end, _STEPS)]
    found = [_statement(part, clock) for part in (*parts, unit._replace(steps=steps[end:]))]
    return None if any(len(each.values) > _VALUES for each in found) else found


def _statement(unit: Commit, clock: writes.Clock) -> Statement:
    key, status = unit.claim.key, unit.status
    given: list[Any] = [key, unit.claim.fence]
    if status is not None:
        ended = micros(clock()) if status in FINISHED else None
        given += [status.value, ended, unit.duration_ms, micros(unit.due)]
        given += [awaits_text(unit.awaits), unit.reason]
        if status is WorkflowStatus.PAUSED:
            given += [micros(now()), unit.since]
    elif unit.duration_ms is not None:
        given.append(unit.duration_ms)
    found = [rows_of(key, step) for step in unit.steps]
    steps, values = [row for row, _ in found], [row for _, rows in found for row in rows]
    values += input_rows(key, unit.at, unit.inputs)
    values += inner_rows(key, unit.inner)
    values += summary_rows(key, unit.summary)
    for row in (*steps, *values):
        given += row
    kind = "status" if status is not None else "duration" if unit.duration_ms is not None else ""
    kind = "pause" if status is WorkflowStatus.PAUSED else kind
    shape = (kind, len(steps), len(values))
    return Statement(_text(*shape, status is WorkflowStatus.COMPLETED), given, _encoders(*shape))


@lru_cache(maxsize=256)
def _encoders(kind: str, steps: int, values: int) -> tuple[Callable[[Any], bytes], ...]:
    names = (*_HEADS[kind], *STEP_COLUMNS * steps, *VALUE_COLUMNS * values)
    return tuple(_ENCODERS[_TYPES.get(name, "bigint")] for name in names)


@lru_cache(maxsize=256)
def _text(kind: str, steps: int, values: int, ends: bool) -> str:
    used = len(_HEADS[kind])
    parts = [f"own AS ({_own(kind)})"]
    recorded = ""
    if steps:
        rows = _rows("steps", STEP_COLUMNS, steps, used)
        parts.append(f"recorded AS ({rows} {COMPLETING} RETURNING 1)")
        recorded = f"WHEN (SELECT count(*) FROM recorded) <> {steps} THEN refuse_unless(false, '{RECORDED}')"  # noqa: S608 - fixed names
    if values:
        rows = _rows("vals", VALUE_COLUMNS, values, used + steps * len(STEP_COLUMNS))
        parts.append(f"kept AS ({rows} {replacing(VALUE_COLUMNS, VALUE_KEY)})")
    if ends:
        parts.append("over AS (DELETE FROM intents WHERE workflow = $1 AND EXISTS (SELECT FROM own))")
    lost = f"WHEN NOT EXISTS (SELECT FROM own) THEN refuse_unless(false, '{LOST}')"
    return f"WITH {', '.join(parts)} SELECT CASE {lost} {recorded} END"


def _own(kind: str) -> str:
    """Return what finds out whether the claim is the newest, and keeps it so until the end."""
    if kind in ("status", "pause"):
        given = STATUS if kind == "status" else PAUSE_STATUS
        text = re.sub(r":(\w+)", lambda found: f"${_HEADS[kind].index(found[1]) + 1}", given)
        return f"{text} AND fence = $2 RETURNING 1"
    if kind == "duration":
        return "UPDATE workflows SET duration_ms = $3 WHERE key = $1 AND fence = $2 RETURNING 1"
    return "SELECT 1 FROM workflows WHERE key = $1 AND fence = $2 FOR SHARE"


def _rows(table: str, columns: tuple[str, ...], count: int, used: int) -> str:
    """Return the beginning of an INSERT of rows under a claim, with parameters after those that are used."""
    width = len(columns)
    casts = [f"::{_TYPES.get(name, 'bigint')}" for name in columns]
    rows = [
        "(" + ", ".join(f"${used + row * width + at + 1}{casts[at]}" for at in range(width)) + ")"
        for row in range(count)
    ]
    names = ", ".join(columns)
    return f"INSERT INTO {table} ({names}) SELECT given.* FROM own, (VALUES {', '.join(rows)}) AS given"  # noqa: S608 - fixed names


def confirm(connection: Connection, unit: Commit, database: Database) -> None:
    """Write a unit after a lost connection, unless it was written before.

    Under the fence no other process can have written its steps, and all of a unit is written or nothing.

    Raises:
        OwnershipLostError: the claim is not the newest.
    """
    key = unit.claim.key
    if connection.execute(connection.dialect.owned, (key, unit.claim.fence)).fetchone() is None:
        raise taken_over(unit.claim.workflow_id)
    if not is_written(connection, unit):
        writes.commit(connection, unit, database)


def is_written(connection: Connection, unit: Commit) -> bool:
    """Return whether the steps of a unit are there, and so all of it; False for one without steps."""
    rows = [rows_of(unit.claim.key, step)[0] for step in unit.steps]
    return bool(rows) and all(connection.execute(_SAME, row[:6]).fetchone() for row in rows)
