"""What is written to the tables; every function runs inside a transaction that holds the write lock."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable, Mapping

from hypergraph.checkpointers import points, sqlite_reads
from hypergraph.checkpointers.clock import now
from hypergraph.checkpointers.columns import Row, micros, time_of
from hypergraph.checkpointers.commits import FINISHED, Commit, Ownership
from hypergraph.checkpointers.encoding import Encoding
from hypergraph.checkpointers.errors import translated
from hypergraph.checkpointers.locks import HOST, LockFile
from hypergraph.checkpointers.payloads import EncodedStep, Payload
from hypergraph.checkpointers.refusals import locked, recorded_already, taken, taken_over, unknown
from hypergraph.checkpointers.rows import (
    NEW_COLUMNS,
    STEP_COLUMNS,
    VALUE_COLUMNS,
    input_rows,
    new_row,
    step_row,
    structure,
    value_rows,
)
from hypergraph.checkpointers.schema import OTHER, OUTPUT, number
from hypergraph.checkpointers.sqlite_copies import copy_history, make_later_whole
from hypergraph.checkpointers.tags import changed
from hypergraph.checkpointers.types import NewWorkflow, StepStatus, WorkflowStatus
from hypergraph.exceptions import CheckpointError

Connection = sqlite3.Connection


def _insert(table: str, columns: Iterable[str]) -> str:
    names = tuple(columns)
    return f"INTO {table} ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})"


_NEW = f"INSERT {_insert('workflows', NEW_COLUMNS)}"
_STRUCTURE = f"INSERT OR IGNORE {_insert('structures', ('digest', 'graph', 'node_hashes'))}"
_CHANGES = ", ".join(f"{name} = excluded.{name}" for name in STEP_COLUMNS[3:])
_OWNED = "SELECT 1 FROM workflows WHERE key = ? AND fence = ?"
_STEP = (  # a pause is completed in place, nothing else is ever replaced
    f"INSERT {_insert('steps', STEP_COLUMNS)} "
    f"ON CONFLICT DO UPDATE SET {_CHANGES} WHERE steps.status = '{StepStatus.PAUSED.value}'"
)
_PUT = f"INSERT OR REPLACE {_insert('steps', STEP_COLUMNS)}"
_VALUE = f"INSERT OR REPLACE {_insert('vals', VALUE_COLUMNS)}"
_RECORDED = "SELECT 1 FROM steps WHERE workflow = ? AND superstep = ? AND node = ?"
_NO_VALUES = (
    f"DELETE FROM vals WHERE workflow = ? AND kind IN ({OUTPUT}, {OTHER}) AND superstep = ? AND node = ?"  # noqa: S608 - fixed numbers
)
_SCRAMBLED = """
UPDATE workflows SET scrambled = 1 WHERE key = :key AND (:idx < (
    SELECT max(idx) FROM steps WHERE workflow = :key AND superstep = (
        SELECT max(superstep) FROM steps WHERE workflow = :key AND superstep < :superstep))
OR :idx > (
    SELECT min(idx) FROM steps WHERE workflow = :key AND superstep = (
        SELECT min(superstep) FROM steps WHERE workflow = :key AND superstep > :superstep)))
"""
# Trouble with what is written; anything else is trouble with the file, and concerns everybody.
_BAD_ROW = (
    *(sqlite3.IntegrityError, sqlite3.DataError, sqlite3.InterfaceError, sqlite3.ProgrammingError),
    *(OverflowError, UnicodeError),
)
_INTENT = f"INSERT OR REPLACE {_insert('intents', ('workflow', 'superstep', 'node', 'fence'))}"
_STATUS = (
    "UPDATE workflows SET status = :status, completed_at = :ended, "
    "duration_ms = coalesce(:duration, duration_ms), "
    "crashes = CASE WHEN :status = 'completed' THEN NULL ELSE crashes END WHERE key = :key"
)
_TAKE = (
    "UPDATE workflows SET fence = ?, owner_pid = ?, owner_host = ?, owner_since = ?, crashes = ? "
    "WHERE key = ?"
)
_OWNER = "SELECT key, status, fence, owner_pid, owner_host, owner_since, crashes FROM workflows WHERE id = ?"
_OPEN_INTENTS = (
    "SELECT superstep, node, fence FROM intents WHERE workflow = ? AND NOT EXISTS (SELECT 1 FROM steps WHERE "
    "steps.workflow = intents.workflow AND steps.superstep = intents.superstep AND steps.node = intents.node)"
)


def claim(
    connection: Connection,
    locks: LockFile,
    workflow_id: str,
    new: NewWorkflow,
    inputs: Iterable[Payload],
    *,
    force: bool,
) -> Ownership:
    """Take a workflow; its byte in the lock file is ours when this returns."""
    row = connection.execute(_OWNER, (workflow_id,)).fetchone()
    if row is None:
        key = insert(connection, workflow_id, new, inputs, (1, os.getpid(), HOST, micros(now())))
        locks.hold(key, 1)
        return Ownership(workflow_id, 1, None, key)
    if not force:
        refuse_if_owned(locks, workflow_id, row)
    return _take(connection, locks, workflow_id, row, force)


def _take(connection: Connection, locks: LockFile, workflow_id: str, row: Row, force: bool) -> Ownership:
    key, status, fence, pid, _, _, crashes = row
    announced = connection.execute(_OPEN_INTENTS, (key,)).fetchall()
    crashed = pid is not None and status == WorkflowStatus.ACTIVE.value
    counts = {} if force else json.loads(crashes or "{}")
    if crashed and not force:
        blamed = {node for _, node, announced_by in announced if announced_by == fence}
        for node in blamed or {""}:  # "": no node was announced
            counts[node] = counts.get(node, 0) + 1
    fence += 1
    locks.hold(key, fence)
    try:
        taken = (fence, os.getpid(), HOST, micros(now()), json.dumps(counts) if counts else None, key)
        connection.execute(_TAKE, taken)
        found = sqlite_reads.workflow(connection, workflow_id)
    except BaseException:
        locks.free(key, fence)
        raise
    running = tuple((superstep, node) for superstep, node, _ in announced)
    return Ownership(workflow_id, fence, found, key, crashed, running)


def refuse_if_owned(locks: LockFile, workflow_id: str, row: Row) -> None:
    """Raise WorkflowLockedError when the owner named in the row lives."""
    key, _, fence, pid, host, since, _ = row
    if pid is None or not locks.lives(key, fence, pid, host):
        return
    raise locked(workflow_id, pid, host, time_of(since) or now())


def release(connection: Connection, claim: Ownership) -> None:
    """Say that the owner left in peace."""
    connection.execute(
        "UPDATE workflows SET owner_pid = NULL WHERE key = ? AND fence = ? AND owner_pid IS NOT NULL",
        (claim.key, claim.fence),
    )


def commit(connection: Connection, unit: Commit) -> None:
    """Write one unit."""
    claim, steps, inputs, at, status, duration, _, running, code = unit
    key, fence = claim.key, claim.fence
    execute = connection.execute
    if execute(_OWNED, (key, fence)).fetchone() is None:  # it stays ours until the transaction ends
        raise taken_over(claim.workflow_id)
    for step in steps:
        if execute(_STEP, step_row(key, step.record)).rowcount != 1:
            raise recorded_already(step.record)
        if step.payloads:
            connection.executemany(_VALUE, value_rows(key, step))
    if inputs:
        connection.executemany(_VALUE, input_rows(key, at, inputs))
    if running is not None:
        if points.hook is not None:
            points.point("intent.before")
        connection.execute(_INTENT, (key, at, running, fence))
        _blame(connection, key, running)
    if code is not None:
        kept = structure(code)
        connection.execute(_STRUCTURE, kept)
        connection.execute(
            "UPDATE workflows SET graph_hash = ?, structure = ? WHERE key = ?",
            (code.graph_hash, kept.digest, key),
        )
    if status is not None:
        set_status(connection, key, status, duration)
    elif duration is not None:
        connection.execute("UPDATE workflows SET duration_ms = ? WHERE key = ?", (duration, key))


def _blame(connection: Connection, key: int, node: str) -> None:
    """Count a crash of which nobody knows the place as one of this node, the first that runs after it."""
    (stored,) = connection.execute("SELECT crashes FROM workflows WHERE key = ?", (key,)).fetchone()
    counts = json.loads(stored or "{}")
    unknown = counts.pop("", 0)
    if unknown:
        counts[node] = counts.get(node, 0) + unknown
        connection.execute("UPDATE workflows SET crashes = ? WHERE key = ?", (json.dumps(counts), key))


def commit_inside(connection: Connection, unit: Commit) -> CheckpointError | None:
    """Write one unit of several; what is wrong with it alone undoes it alone, and is returned."""
    connection.execute("SAVEPOINT unit")
    try:
        commit(connection, unit)
    except (CheckpointError, *_BAD_ROW) as error:
        connection.execute("ROLLBACK TO unit")
        connection.execute("RELEASE unit")
        return translated(error, f"of workflow {unit.claim.workflow_id!r}")
    connection.execute("RELEASE unit")
    return None


def set_status(connection: Connection, key: int, status: WorkflowStatus, duration: float | None) -> None:
    """Change the status; a workflow that completed is forgiven its crashes."""
    ended = micros(now()) if status in FINISHED else None
    changes = {"status": status.value, "ended": ended, "duration": duration, "key": key}
    connection.execute(_STATUS, changes)
    if status is WorkflowStatus.COMPLETED:
        connection.execute("DELETE FROM intents WHERE workflow = ?", (key,))


def change_status(connection: Connection, locks: LockFile, workflow_id: str, status: WorkflowStatus) -> None:
    """Change the status of a workflow that nobody owns."""
    key = unowned(connection, locks, workflow_id)
    if key is None:
        raise unknown(workflow_id)
    set_status(connection, key, status, None)


def set_tags(connection: Connection, workflow_id: str, changes: Mapping[str, str | None]) -> dict[str, str]:
    """Set and remove tags; return those that the workflow has then."""
    row = connection.execute("SELECT key, tags FROM workflows WHERE id = ?", (workflow_id,)).fetchone()
    if row is None:
        raise unknown(workflow_id)
    tags = changed(json.loads(row[1] or "{}"), changes)
    connection.execute(
        "UPDATE workflows SET tags = ? WHERE key = ?", (json.dumps(tags) if tags else None, row[0])
    )
    return tags


def insert(
    connection: Connection,
    workflow_id: str,
    new: NewWorkflow,
    inputs: Iterable[Payload] = (),
    owner: Row = (0, None, None, None),
) -> int:
    """Add a workflow and return its key."""
    kept = structure(new)
    if kept.digest is not None:
        connection.execute(_STRUCTURE, kept)
    key = connection.execute(_NEW, new_row(workflow_id, new, kept.digest, owner)).lastrowid or 0
    connection.executemany(_VALUE, input_rows(key, 0, inputs))
    if new.copies:
        copy_history(connection, key, workflow_id, new)
    for step in new.steps:
        connection.execute(_STEP, step_row(key, step.record))
        connection.executemany(_VALUE, value_rows(key, step))
    return key


def unowned(connection: Connection, locks: LockFile, workflow_id: str) -> int | None:
    """Return the key of a workflow nobody owns, None if there is none; raises WorkflowLockedError."""
    row = connection.execute(_OWNER, (workflow_id,)).fetchone()
    if row is None:
        return None
    refuse_if_owned(locks, workflow_id, row)
    return int(row[0])


def put(connection: Connection, locks: LockFile, step: EncodedStep, encoding: Encoding) -> None:
    """Write a step in place of an older one."""
    record = step.record
    key = unowned(connection, locks, record.workflow_id)
    if key is None:
        key = insert(connection, record.workflow_id, NewWorkflow())
    make_later_whole(connection, key, record, encoding)
    place = (key, record.superstep, record.node_name)
    if connection.execute(_RECORDED, place).fetchone():
        connection.execute(_NO_VALUES, place)
    connection.execute(_SCRAMBLED, {"key": key, "superstep": record.superstep, "idx": record.index})
    connection.execute(_PUT, step_row(key, record))
    connection.executemany(_VALUE, value_rows(key, step))


def change_nothing(connection: Connection) -> None:
    """Write a page as it is: a commit without any would not wait for those before it to reach the disk."""
    connection.execute(f"PRAGMA user_version = {number(connection, 'user_version')}")


def create(connection: Connection, workflow_id: str, new: NewWorkflow, inputs: Iterable[Payload]) -> None:
    """Add a workflow with its inputs."""
    if sqlite_reads.key_of(connection, workflow_id) is not None:
        raise taken(workflow_id)
    insert(connection, workflow_id, new, inputs)
