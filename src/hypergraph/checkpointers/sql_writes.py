"""What is written to the tables; every function runs inside a transaction.

On SQLite that has the write lock of the file; on Postgres it locks the row of the workflow that it is about.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime

from hypergraph.checkpointers import points, sql_reads
from hypergraph.checkpointers.columns import EPOCH, Row, micros, time_of
from hypergraph.checkpointers.commits import FINISHED, Commit, Ownership
from hypergraph.checkpointers.encoding import Encoding
from hypergraph.checkpointers.payloads import EncodedStep, Payload
from hypergraph.checkpointers.refusals import locked, recorded_already, taken, taken_over, unknown
from hypergraph.checkpointers.rows import (
    input_rows,
    new_row,
    step_row,
    structure,
    value_rows,
)
from hypergraph.checkpointers.sql_connections import Connection, Database, Locks
from hypergraph.checkpointers.sql_copies import copy_history, make_later_whole
from hypergraph.checkpointers.sql_statements import (
    COUNT_AGAIN,
    INTENT,
    NEW,
    NO_VALUES,
    OPEN_INTENTS,
    OWNED,
    OWNER,
    PUT,
    RECORDED,
    RELEASE,
    SCRAMBLED,
    STATUS,
    STEP,
    STRUCTURE,
    TAKE,
    VALUE,
)
from hypergraph.checkpointers.tags import changed
from hypergraph.checkpointers.types import NewWorkflow, WorkflowStatus
from hypergraph.exceptions import CheckpointError

Clock = Callable[[], datetime]


def claim(
    connection: Connection,
    database: Database,
    workflow_id: str,
    new: NewWorkflow,
    inputs: Iterable[Payload],
    *,
    force: bool,
) -> Ownership:
    """Take a workflow; others know that its owner lives when this returns."""
    row = connection.execute(OWNER, (workflow_id,)).fetchone()
    if row is None:
        time, locks = database.now(), database.locks
        owner = (1, os.getpid(), locks.address, micros(time))
        key = insert(connection, workflow_id, new, time, inputs, owner=owner)
        locks.hold(key, 1)
        return Ownership(workflow_id, 1, None, key)
    if not force:
        refuse_if_owned(database.locks, workflow_id, row)
    return _take(connection, database, workflow_id, row, force)


def _take(connection: Connection, database: Database, workflow_id: str, row: Row, force: bool) -> Ownership:
    locks = database.locks
    key, status, fence, pid, _, _, crashes = row
    announced = connection.execute(OPEN_INTENTS, (key,)).fetchall()
    crashed = pid is not None and status == WorkflowStatus.ACTIVE.value
    counts = {} if force else json.loads(crashes or "{}")
    if crashed and not force:
        blamed = {node for _, node, announced_by in announced if announced_by == fence}
        for node in blamed or {""}:  # "": no node was announced
            counts[node] = counts.get(node, 0) + 1
    fence += 1
    locks.hold(key, fence)
    try:
        blame = json.dumps(counts) if counts else None
        owner = (fence, os.getpid(), locks.address, micros(database.now()))
        connection.execute(TAKE, (*owner, blame, key))
        found = sql_reads.workflow(connection, workflow_id)
    except BaseException:
        locks.free(key, fence)
        raise
    running = tuple((superstep, node) for superstep, node, _ in announced)
    return Ownership(workflow_id, fence, found, key, crashed, running)


def refuse_if_owned(locks: Locks, workflow_id: str, row: Row) -> None:
    """Raise WorkflowLockedError when the owner named in the row lives."""
    key, _, fence, pid, address, since, _ = row
    if pid is None or not locks.lives(key, fence, pid, address):
        return
    raise locked(workflow_id, pid, address.partition(" ")[0], time_of(since) or EPOCH)


def release(connection: Connection, claim: Ownership) -> None:
    """Say that the owner left in peace."""
    connection.executemany(RELEASE, [(claim.key, claim.fence)])


def commit(connection: Connection, unit: Commit, clock: Clock) -> None:
    """Write one unit."""
    claim, steps, inputs, at, status, duration, _, running, code = unit
    key, fence = claim.key, claim.fence
    execute = connection.execute
    if execute(OWNED, (key, fence)).fetchone() is None:  # it stays ours until the transaction ends
        raise taken_over(claim.workflow_id)
    for step in steps:
        if execute(STEP, step_row(key, step.record)).rowcount != 1:
            raise recorded_already(step.record)
        if step.payloads:
            connection.executemany(VALUE, value_rows(key, step))
    if inputs:
        connection.executemany(VALUE, input_rows(key, at, inputs))
    if running is not None:
        if points.hook is not None:
            points.point("intent.before")
        connection.execute(INTENT, (key, at, running, fence))
        _blame(connection, key, running)
    if code is not None:
        kept = structure(code)
        connection.execute(STRUCTURE, kept)
        connection.execute(
            "UPDATE workflows SET graph_hash = ?, structure = ? WHERE key = ?",
            (code.graph_hash, kept.digest, key),
        )
    if status is not None:
        set_status(connection, key, status, duration, clock)
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


def commit_inside(connection: Connection, unit: Commit, database: Database) -> CheckpointError | None:
    """Write one unit of several; what is wrong with it alone undoes it alone, and is returned."""
    refusals: tuple[type[Exception], ...] = (CheckpointError, *database.bad_row)
    connection.execute("SAVEPOINT unit")
    try:
        commit(connection, unit, database.now)
    except refusals as error:
        connection.execute("ROLLBACK TO unit")
        connection.execute("RELEASE unit")
        return database.translated(error, f"of workflow {unit.claim.workflow_id!r}")
    connection.execute("RELEASE unit")
    return None


def set_status(
    connection: Connection, key: int, status: WorkflowStatus, duration: float | None, clock: Clock
) -> None:
    """Change the status; a workflow that completed is forgiven its crashes."""
    ended = micros(clock()) if status in FINISHED else None
    changes = {"status": status.value, "ended": ended, "duration": duration, "key": key}
    connection.execute(STATUS, changes)
    if status is WorkflowStatus.COMPLETED:
        connection.execute("DELETE FROM intents WHERE workflow = ?", (key,))


def change_status(
    connection: Connection, database: Database, workflow_id: str, status: WorkflowStatus
) -> None:
    """Change the status of a workflow that nobody owns."""
    key = unowned(connection, database.locks, workflow_id)
    if key is None:
        raise unknown(workflow_id)
    set_status(connection, key, status, None, database.now)


def set_tags(connection: Connection, workflow_id: str, changes: Mapping[str, str | None]) -> dict[str, str]:
    """Set and remove tags; return those that the workflow has then."""
    statement = "SELECT key, tags FROM workflows WHERE id = ? /*+ FOR UPDATE */"
    row = connection.execute(statement, (workflow_id,)).fetchone()
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
    time: datetime,
    inputs: Iterable[Payload] = (),
    *,
    owner: Row = (0, None, None, None),
) -> int:
    """Add a workflow and return its key."""
    kept = structure(new)
    if kept.digest is not None:
        connection.executemany(STRUCTURE, [kept])
    ((key,),) = connection.execute(NEW, new_row(workflow_id, new, time, kept.digest, owner)).fetchall()
    connection.executemany(VALUE, input_rows(key, 0, inputs))
    if new.copies:
        copy_history(connection, key, workflow_id, new)
    for step in new.steps:
        connection.execute(STEP, step_row(key, step.record))
        connection.executemany(VALUE, value_rows(key, step))
    if new.steps:
        connection.execute(COUNT_AGAIN, (key, 0))
    return int(key)


def unowned(connection: Connection, locks: Locks, workflow_id: str) -> int | None:
    """Return the key of a workflow nobody owns, None if there is none; raises WorkflowLockedError."""
    row = connection.execute(OWNER, (workflow_id,)).fetchone()
    if row is None:
        return None
    refuse_if_owned(locks, workflow_id, row)
    return int(row[0])


def put(connection: Connection, database: Database, step: EncodedStep, encoding: Encoding) -> None:
    """Write a step in place of an older one."""
    record = step.record
    key = unowned(connection, database.locks, record.workflow_id)
    if key is None:
        key = insert(connection, record.workflow_id, NewWorkflow(), database.now())
    make_later_whole(connection, key, record, encoding)
    place = (key, record.superstep, record.node_name)
    if connection.execute(RECORDED, place).fetchone():
        connection.execute(NO_VALUES, place)
    connection.execute(SCRAMBLED, {"key": key, "superstep": record.superstep, "idx": record.index})
    connection.execute(PUT, step_row(key, record))
    connection.execute(COUNT_AGAIN, (key, record.superstep))
    connection.executemany(VALUE, value_rows(key, step))


def create(
    connection: Connection, workflow_id: str, new: NewWorkflow, time: datetime, inputs: Iterable[Payload]
) -> None:
    """Add a workflow with its inputs."""
    if sql_reads.key_of(connection, workflow_id) is not None:
        raise taken(workflow_id)
    insert(connection, workflow_id, new, time, inputs)
