"""Commits of runs as one statement each, which is one round trip and one transaction.

The statement checks the fence, adds the steps and values, changes the status, and ends with an error if the
claim is not the newest any more or a step was recorded already: then nothing of it is written.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from hypergraph.checkpointers import sql_writes
from hypergraph.checkpointers.columns import micros
from hypergraph.checkpointers.commits import FINISHED, Commit
from hypergraph.checkpointers.postgres_schema import LOST, RECORDED
from hypergraph.checkpointers.refusals import taken_over
from hypergraph.checkpointers.rows import STEP_COLUMNS, VALUE_COLUMNS, input_rows, step_row, value_rows
from hypergraph.checkpointers.sql_connections import Connection
from hypergraph.checkpointers.sql_statements import COMPLETING, OWNED, STATUS, VALUE_KEY, replacing
from hypergraph.checkpointers.types import WorkflowStatus

Statement = tuple[str, list[Any]]

REFUSED = frozenset({LOST, RECORDED, "21000"})  # the last: one step twice in one commit
_TYPES = {
    **dict.fromkeys(("node", "name", "status", "error", "error_type", "versions", "extra", "format"), "text"),
    "duration_ms": "double precision",
    "cached": "boolean",
    "data": "bytea",
}  # all others are numbers
_STATUS_NAMES = ("key", "fence", "status", "ended", "duration")
_SAME = """
SELECT 1 FROM steps
WHERE workflow = ? AND superstep = ? AND node = ? AND idx = ? AND status = ? AND created_at = ?
"""


def statement(unit: Commit, clock: sql_writes.Clock) -> Statement | None:
    """Return a commit as one statement with its parameters, None for one that takes several."""
    if unit.running is not None or unit.code is not None:
        return None
    key, status = unit.claim.key, unit.status
    given: list[Any] = [key, unit.claim.fence]
    if status is not None:
        ended = micros(clock()) if status in FINISHED else None
        given += [status.value, ended, unit.duration_ms]
    elif unit.duration_ms is not None:
        given.append(unit.duration_ms)
    steps = [step_row(key, step.record) for step in unit.steps]
    values = [row for step in unit.steps for row in value_rows(key, step)]
    values += input_rows(key, unit.at, unit.inputs)
    kind = "status" if status is not None else "duration" if unit.duration_ms is not None else ""
    ends = status is WorkflowStatus.COMPLETED
    for row in (*steps, *values):
        given += row
    return _text(kind, ends, len(steps), len(values)), given


@lru_cache(maxsize=256)
def _text(kind: str, ends: bool, steps: int, values: int) -> str:
    used = {"status": 5, "duration": 3}.get(kind, 2)
    parts = [f"own AS ({_own(kind)})"]
    counted = "(SELECT count(*) FROM recorded)" if steps else "0"
    if steps:
        rows = _rows("steps", STEP_COLUMNS, steps, used)
        parts.append(f"recorded AS ({rows} {COMPLETING} RETURNING 1)")
    if values:
        rows = _rows("vals", VALUE_COLUMNS, values, used + steps * len(STEP_COLUMNS))
        parts.append(f"kept AS ({rows} {replacing(VALUE_COLUMNS, VALUE_KEY)})")
    if ends:
        parts.append("over AS (DELETE FROM intents WHERE workflow = $1 AND EXISTS (SELECT FROM own))")
    checks = f"refuse_unless((SELECT count(*) FROM own) = 1, '{LOST}'), "  # noqa: S608 - fixed names
    return f"WITH {', '.join(parts)} SELECT {checks} refuse_unless({counted} = {steps}, '{RECORDED}')"


def _own(kind: str) -> str:
    """Return what finds out whether the claim is the newest, and keeps it so until the end."""
    if kind == "status":
        text = re.sub(r":(\w+)", lambda found: f"${_STATUS_NAMES.index(found[1]) + 1}", STATUS)
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


def confirm(connection: Connection, unit: Commit, clock: sql_writes.Clock) -> None:
    """Write a unit of which nobody knows whether it is written, unless it is.

    Under the fence nobody else can have written its steps, and all of a unit is written or nothing.

    Raises:
        OwnershipLostError: the claim is not the newest.
    """
    key = unit.claim.key
    if connection.execute(OWNED, (key, unit.claim.fence)).fetchone() is None:
        raise taken_over(unit.claim.workflow_id)
    rows = [step_row(key, step.record) for step in unit.steps]
    if not rows or not all(connection.execute(_SAME, row[:6]).fetchone() for row in rows):
        sql_writes.commit(connection, unit, clock)
