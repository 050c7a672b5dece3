"""Writing: claims, commits, forks, deletions and retention, each inside of one transaction."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, fields, replace
from datetime import datetime
from functools import cache
from operator import attrgetter
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from hypergraph.checkpointers import fault_points
from hypergraph.checkpointers.artifacts import ArtifactRef, ArtifactStore
from hypergraph.checkpointers.encoding import Encoding
from hypergraph.checkpointers.inner_steps import owner_of
from hypergraph.checkpointers.names import changed, moved
from hypergraph.checkpointers.questions import around
from hypergraph.checkpointers.records import (
    ANSWER,
    APART,
    DROPPED,
    FINISHED,
    Commit,
    EncodedAnswer,
    EncodedStep,
    NewWorkflow,
    Ownership,
    Payload,
    Place,
    StepRecord,
    gap,
    is_over,
    locked,
    not_asking,
    recorded_already,
    taken,
    taken_over,
    unknown,
)
from hypergraph.checkpointers.sql import reads
from hypergraph.checkpointers.sql.columns import (
    EPOCH,
    MICROSECOND,
    NEW_COLUMNS,
    STEP_COLUMNS,
    STEP_EXTRAS,
    STEP_KEY,
    STEP_NUMBERS,
    STEP_OWN,
    STEP_TEXTS,
    USAGE_COLUMNS,
    VALUE_COLUMNS,
    VALUE_KEY,
    WRITTEN,
    Row,
    micros,
    or_corrupt,
    parsed,
    time_of,
)
from hypergraph.checkpointers.sql.connection import Connection, Database, Locks
from hypergraph.checkpointers.sql.dialect import PAYLOAD
from hypergraph.checkpointers.sqlite.migrations import (
    INNER,
    INPUT,
    MANY_WORKFLOWS,
    OTHER,
    OUTPUT,
    SIGNAL,
    SUMMARY,
)
from hypergraph.checkpointers.status import StepStatus, WorkflowStatus, settled
from hypergraph.clock import now
from hypergraph.exceptions import ArtifactMissingError, CheckpointError, DecryptionError, StoreError

T = TypeVar("T")

_dumps = json.JSONEncoder(separators=(",", ":"), default=list).encode
_KEPT = 256
_STRUCTURES: dict[
    int, tuple[Any, Any, Any]
] = {}  # by the id of the hashes, which are kept so that it is theirs
_numbers, _texts = attrgetter(*STEP_NUMBERS), attrgetter(*STEP_TEXTS)
_NO_TEXTS: tuple[str | None, ...] = (None,) * len(STEP_TEXTS)
_extras = attrgetter(*STEP_EXTRAS)
STEP_DEFAULTS = {
    field.name: field.default if field.default_factory is MISSING else field.default_factory()
    for field in fields(StepRecord)
    if field.name in (*STEP_OWN, *STEP_EXTRAS)
}
_NO_EXTRAS = tuple(STEP_DEFAULTS[name] for name in STEP_EXTRAS)
_rare = attrgetter(*STEP_TEXTS, *STEP_EXTRAS)  # what most steps do not have
_NOTHING_RARE = (*_NO_TEXTS, *_NO_EXTRAS)


def text(value: str | None) -> str | None:
    """Return a text that can be stored: lone surrogates, which UTF-8 has no bytes for, are escaped."""
    if value is None or value.isascii():
        return value
    return value.encode("utf-8", "backslashreplace").decode()


def awaits_text(awaits: Mapping[str, int]) -> str | None:
    """Return the signals that nodes wait for as they are stored, None without any."""
    return _dumps(dict(awaits)) if awaits else None


class Structure(NamedTuple):
    """The graph and the hashes of its nodes, under a digest of both."""

    digest: bytes | None
    graph: str | None
    node_hashes: str | None


def structure(new: NewWorkflow) -> Structure:
    """Return what the table of structures keeps of a new workflow."""
    if new.graph is None and not new.node_hashes:
        return Structure(None, None, None)
    found = _STRUCTURES.get(id(new.node_hashes))
    if found is None or found[0] is not new.node_hashes or found[1] is not new.graph:
        graph, hashes = _dumps(new.graph), _dumps(dict(new.node_hashes))
        import hashlib  # reading needs no digest, and it takes long to load

        digest = hashlib.sha256(f"[{graph},{hashes}]".encode()).digest()
        if len(_STRUCTURES) >= _KEPT:
            _STRUCTURES.clear()
        found = _STRUCTURES[id(new.node_hashes)] = (
            new.node_hashes,
            new.graph,
            Structure(digest, graph, hashes),
        )
    return found[2]


def new_row(workflow_id: str, new: NewWorkflow, time: datetime, digest: bytes | None, owner: Row) -> Row:
    """Return the row of a new workflow, by NEW_COLUMNS; the owner is fence, process, host and since when."""
    return (
        *(workflow_id, WorkflowStatus.ACTIVE.value, micros(time), *owner, new.graph_name, new.graph_hash),
        *(digest, new.parent_id, new.parent_superstep, new.node_name, new.visit, new.item, new.fingerprint),
        *(new.forked_from, new.forked_at, _dumps(dict(new.tags)) if new.tags else None, new.version),
    )


def _extra(record: StepRecord, seal: str | None) -> str | None:
    """Return the fields that most steps do not have, as one text."""
    given = zip(STEP_EXTRAS, _extras(record), _NO_EXTRAS, strict=True)
    extras = {name: value for name, value, default in given if value != default}
    if record.values is None:
        extras["no_values"] = True
    if seal is not None:
        extras["seal"] = seal
    return _dumps(extras) if extras else None


def copied_extra(extra: str | None, origin: str, workflow_id: str) -> str:
    """Return the extra fields of a step that is copied into another workflow, and its children with it."""
    found = {**json.loads(extra or "{}"), "replayed": True}
    if "child_workflow_id" in found:
        found["child_workflow_id"] = moved(found["child_workflow_id"], origin, workflow_id)
    return _dumps(found)


def versions_text(brief: bool, taken: Mapping[str, int], made: Mapping[str, int]) -> str:
    """Return versions as they are written: as JSON, or briefly without its ends and with a line for each."""
    encoded = _encoder()((taken, made))
    if brief:
        encoded = encoded[2:-2].replace(b"},{", b"\n")  # JSON has no such character, so nothing is lost
    return encoded.decode()


@cache
def _encoder() -> Callable[[Any], bytes]:
    import msgspec  # several times faster than json, and not needed to read

    return msgspec.json.Encoder().encode


def rows_of(key: int, step: EncodedStep, *, brief: bool = False) -> tuple[Row, list[Row]]:
    """Return the row of a step, by WRITTEN, and those of its values, by VALUE_COLUMNS."""
    record, payloads, seal, is_usual = step
    superstep, node, index, status = record.superstep, record.node_name, record.index, record.status
    began, ended, texts, extra = record.created_at, record.completed_at, _NO_TEXTS, None
    if not is_usual and (_rare(record) != _NOTHING_RARE or record.values is None or seal is not None):
        texts, extra = tuple(map(text, _texts(record))), _extra(record, seal)
    row = (
        key,
        superstep,
        node,
        index,
        status._value_,  # the property `value` costs several times as much
        (began - EPOCH) // MICROSECOND,
        None if ended is None else (ended - (began if brief else EPOCH)) // MICROSECOND,
        *_numbers(record),
        *texts,
        versions_text(brief, record.input_versions, record.output_versions),
        extra,
    )
    kind = OUTPUT if status is StepStatus.COMPLETED else OTHER
    return row, [
        (key, kind, name, superstep, index, node, version, text(kept), checksum, data, base)
        for name, version, kept, checksum, data, _, _, base, _ in payloads
    ]


def input_rows(key: int, at: int, inputs: Iterable[Payload]) -> list[Row]:
    """Return the rows of inputs, by VALUE_COLUMNS."""
    return [
        (key, INPUT, name, at, version, "", version, text(kept), checksum, data, base)
        for name, version, kept, checksum, data, _, _, base, _ in inputs
    ]


def inner_rows(key: int, steps: Iterable[tuple[str, Payload]]) -> list[Row]:
    """Return the rows of inner steps, by VALUE_COLUMNS."""
    return [
        (key, INNER, text(name), superstep, index, node, visit, text(kept), checksum, data, fence)
        for node, (name, visit, kept, checksum, data, superstep, index, fence, _) in steps
    ]


def summary_rows(key: int, payload: Payload | None) -> list[Row]:
    """Return the row of a summary, if there is one, by VALUE_COLUMNS."""
    if payload is None:
        return []
    name, version, kept, checksum, data, superstep, index, _, _ = payload
    return [(key, SUMMARY, text(name), superstep, index, "", version, text(kept), checksum, data, None)]


def inserting(table: str, columns: Sequence[str], given: Mapping[str, str] = MappingProxyType({})) -> str:
    """Return the statement that adds a row; some columns may be `given` as more than a parameter."""
    marks = ", ".join(given.get(name, "?") for name in columns)
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})"  # noqa: S608 - fixed names


def replacing(columns: Sequence[str], key: Sequence[str]) -> str:
    """Return the end of an INSERT that replaces a row of the same key."""
    changes = ", ".join(f"{name} = excluded.{name}" for name in columns if name not in key)
    return f"ON CONFLICT ({', '.join(key)}) DO UPDATE SET {changes}"


# A pause is completed in place, nothing else is ever replaced.
_PAUSED = f"WHERE steps.status = '{StepStatus.PAUSED.value}'"
COMPLETING = f"{replacing(STEP_COLUMNS, STEP_KEY)} {_PAUSED}"
NEW = f"{inserting('workflows', NEW_COLUMNS)} RETURNING key"
STRUCTURE = f"{inserting('structures', ('digest', 'graph', 'node_hashes'))} ON CONFLICT DO NOTHING"
_BRIEFLY = {"unusual": f"nullif(?, '{StepStatus.COMPLETED.value}')", "took": "round(? * 1e6)"}
ADD = {brief: inserting("steps", columns, _BRIEFLY) for brief, columns in WRITTEN.items()}  # by brevity
PUT = {brief: f"{ADD[brief]} {replacing(columns, STEP_KEY)}" for brief, columns in WRITTEN.items()}
STEP = {brief: f"{put} {_PAUSED}" for brief, put in PUT.items()}
VALUE = f"{inserting('vals', VALUE_COLUMNS)} {replacing(VALUE_COLUMNS, VALUE_KEY)}"
RECORDED = "SELECT 1 FROM steps WHERE workflow = ? AND superstep = ? AND node = ?"
NO_VALUES = (
    f"DELETE FROM vals WHERE workflow = ? AND kind IN ({OUTPUT}, {OTHER}) AND superstep = ? AND node = ?"  # noqa: S608 - fixed numbers
)
SCRAMBLED = """
UPDATE workflows SET scrambled = 1 WHERE key = :key AND (:idx < (
    SELECT max(idx) FROM steps WHERE workflow = :key AND superstep = (
        SELECT max(superstep) FROM steps WHERE workflow = :key AND superstep < :superstep))
OR :idx > (
    SELECT min(idx) FROM steps WHERE workflow = :key AND superstep = (
        SELECT min(superstep) FROM steps WHERE workflow = :key AND superstep > :superstep)))
"""
USAGE = f"{inserting('usage', USAGE_COLUMNS)} {replacing(USAGE_COLUMNS, USAGE_COLUMNS[:-1])}"
_INTENT_COLUMNS = (*STEP_KEY, "fence")
INTENT = f"{inserting('intents', _INTENT_COLUMNS)} {replacing(_INTENT_COLUMNS, STEP_KEY)}"
# Only runners add steps in their order, so that what was counted before stays right.
NO_SUMMARY = f"DELETE FROM vals WHERE workflow = ? AND kind = {SUMMARY}"  # noqa: S608 - a fixed number
COUNT_AGAIN = "UPDATE workflows SET counted = NULL, counted_steps = NULL WHERE key = ? AND counted > ?"
STATUS = (
    "UPDATE workflows SET status = :status, completed_at = :ended, "
    "due = CASE WHEN :status = 'active' THEN due ELSE :due END, "
    "awaits = CASE WHEN :status = 'active' THEN awaits ELSE :awaits END, reason = :reason, "
    "duration_ms = coalesce(:duration, duration_ms), "
    "owner_pid = CASE WHEN :status = 'active' THEN owner_pid END, "
    "crashes = CASE WHEN :status = 'completed' THEN NULL ELSE crashes END WHERE key = :key"
)
# Answers that no run has used: of one workflow, and of those below that have failed beside a question.
_UNUSED = f"""
SELECT 1 FROM vals JOIN steps ON steps.workflow = vals.workflow AND steps.superstep = vals.superstep
    AND steps.node = vals.node
WHERE vals.kind = {OTHER} AND vals.name = '{ANSWER}' AND steps.status = 'paused' AND vals.workflow =
"""  # noqa: S608 - fixed names
_DUE_BELOW = f"""
WITH RECURSIVE below(key, id, status, due) AS (
    SELECT part.key, part.id, part.status, part.due FROM workflows AS part
    WHERE part.parent_id = workflows.id AND part.status IN ('paused', 'active', 'failed')
    UNION ALL
    SELECT part.key, part.id, part.status, part.due FROM workflows AS part
    JOIN below ON part.parent_id = below.id AND below.status = 'failed'
    WHERE part.status IN ('paused', 'active', 'failed'))
SELECT CASE WHEN below.status <> 'failed' THEN below.due
    WHEN EXISTS ({_UNUSED} below.key) THEN CAST(:now AS BIGINT) END AS moment FROM below
"""  # noqa: S608 - fixed names
# The answers may have come while the run was under way. Once the row is locked, each of them is either seen
# here or sees that the workflow waits.
_ANSWERED_MEANWHILE = f"""
(SELECT min(moment) FROM (
    SELECT CAST(:due AS BIGINT) AS moment
    UNION ALL SELECT moment FROM ({_DUE_BELOW}) AS inside
    UNION ALL SELECT CASE WHEN workflows.due < :now THEN workflows.due ELSE CAST(:now AS BIGINT) END
    WHERE EXISTS ({_UNUSED} workflows.key AND vals.superstep >= :since)) AS moments)
"""  # noqa: S608 - fixed names
PAUSE_STATUS = STATUS.replace(":due", _ANSWERED_MEANWHILE)
TAKE = (
    "UPDATE workflows SET fence = ?, owner_pid = ?, owner_host = ?, owner_since = ?, crashes = ? "
    "WHERE key = ?"
)
# Nodes that an owner has announced and completed, or in which it has completed an inner step.
PROGRESS = f"""
SELECT intents.node FROM intents JOIN steps ON steps.workflow = intents.workflow
AND steps.superstep = intents.superstep AND steps.node = intents.node
WHERE intents.workflow = :key AND intents.fence = :fence AND steps.status = 'completed'
UNION SELECT node FROM vals WHERE workflow = :key AND kind = {INNER} AND base = :fence
"""  # noqa: S608 - a fixed number


_RAISE = "UPDATE workflows SET fence = fence + 1 WHERE key = ?"  # what was read before is outdated
_LAST = 2**62  # no superstep comes after it
_PLACE = "workflow = ? AND kind = ? AND name = ? AND superstep = ? AND idx = ?"
_NAMES = "SELECT name FROM vals WHERE workflow = ? AND kind = ? AND superstep = ? AND node = ?"
_EXTRA = "UPDATE steps SET extra = ? WHERE workflow = ? AND superstep = ? AND node = ?"
_CHANGE = f"UPDATE vals SET format = ?, checksum = ?, data = ?, base = ? WHERE {_PLACE}"  # noqa: S608 - fixed names


def identity(connection: Connection) -> bytes:
    """Make the id of the store, unless it has one, and return it."""
    connection.make("identity")
    return bytes(connection.execute("SELECT id FROM identity").fetchone()[0])


def copy_history(connection: Connection, key: int, workflow_id: str, new: NewWorkflow) -> None:
    """Copy the rows of another workflow under a new key."""
    origin = new.forked_from or ""
    source = reads.locked_key(connection, origin)
    where, apart = "WHERE workflow = ? AND superstep <= ?", f"({INNER}, {SUMMARY}, {SIGNAL})"
    bounds = (source, _LAST if new.forked_at is None else new.forked_at)
    connection.execute(
        "UPDATE workflows SET scrambled = (SELECT scrambled FROM workflows WHERE key = ?) WHERE key = ?",
        (source, key),
    )
    columns = WRITTEN[connection.dialect.brief]
    values, steps = ", ".join(VALUE_COLUMNS[1:]), ", ".join(columns[1:])
    connection.execute(
        f"INSERT INTO vals (workflow, {values}) SELECT ?, {values} FROM vals {where} AND kind NOT IN {apart}",  # noqa: S608 - fixed names
        (key, *bounds),
    )
    rows = connection.execute(f"SELECT {steps} FROM steps {where} ORDER BY superstep, idx", bounds).fetchall()  # noqa: S608 - as above
    connection.executemany(
        inserting("steps", columns),
        ((key, *row[:-1], copied_extra(row[-1], origin, workflow_id)) for row in rows),
    )
    for node, visit in connection.execute(
        f"SELECT DISTINCT node, version FROM vals WHERE workflow = ? AND kind = {INNER}",  # noqa: S608 - as above
        (source,),
    ).fetchall():
        last = reads.last_visit(connection, workflow_id, node)
        if visit <= last or (new.keep_steps and visit == last + 1):
            connection.execute(
                f"INSERT INTO vals (workflow, {values}) SELECT :key, {values} FROM vals "  # noqa: S608 - as above
                f"WHERE workflow = :source AND kind = {INNER} AND node = :node AND version = :visit",
                {"key": key, "source": source, "node": node, "visit": visit},
            )


def reseal(
    connection: Connection,
    key: int,
    origin: str,
    workflow_id: str,
    encoding: Encoding,
    *,
    store_id: bytes | None = None,
) -> None:
    """Seal copied steps for the workflow they are in now.

    Raises DecryptionError for a step that others have written or changed.
    """
    columns = ", ".join(STEP_COLUMNS)
    rows = connection.execute(f"SELECT {columns} FROM steps WHERE workflow = ?", (key,)).fetchall()  # noqa: S608 - fixed names
    for row in rows:
        record, extra = reads.record_of(workflow_id, row, (), encoding, values=False), parsed(row[-1] or "{}")
        child = record.child_workflow_id
        before = child if child is None else moved(child, workflow_id, origin)
        copied = replace(record, workflow_id=origin, child_workflow_id=before)
        try:
            encoding.verify(copied, extra.get("seal"), store_id)
        except DecryptionError:
            encoding.verify(record, extra.get("seal"))  # it was written for this workflow
            continue
        extra["seal"] = encoding.seal(record)
        connection.execute(_EXTRA, (json.dumps(extra), key, record.superstep, record.node_name))


def recode(
    connection: Connection,
    key: int,
    origin: str,
    workflow_id: str,
    encoding: Encoding,
    *,
    store_id: bytes | None = None,
) -> None:
    """Bind copied values to the workflow and store they are in now; what cannot be read stays as it is."""
    for kind, payload in reads.all_payloads(connection, key):
        try:
            owners = (origin, workflow_id) if kind != INNER else (owner_of(origin), owner_of(workflow_id))
            bound = encoding.moved(payload, *owners, store_id)
        except StoreError:
            raise  # it is there, and may be read another time
        except Exception:  # noqa: S112 - rows may hold anything; the value shows itself what is wrong
            continue
        _change(connection, key, kind, bound)


def make_whole(
    connection: Connection, key: int, workflow_id: str, encoding: Encoding, payload: Payload
) -> None:
    """Store a value whole, because what it extends is about to change or to be dropped."""
    try:
        whole = encoding.made_whole(workflow_id, payload)
    except StoreError:
        raise
    except Exception as error:  # as above
        place = Place(workflow_id, payload.superstep, payload.idx)
        whole = gap(payload.name, payload.version, f"what it extends could not be read: {error}", place)
    _change(connection, key, OUTPUT, whole)


def make_later_whole(connection: Connection, key: int, record: StepRecord, encoding: Encoding) -> None:
    """Store values whole that extend those of a step which is about to be written or replaced."""
    replaced = connection.execute(_NAMES, (key, OUTPUT, record.superstep, record.node_name)).fetchall()
    for name in {name for (name,) in replaced} | {*record.output_versions, *(record.values or ())}:
        for later in reads.extending(connection, key, name, record.superstep):
            make_whole(connection, key, record.workflow_id, encoding, later)


def _change(connection: Connection, key: int, kind: int, payload: Payload) -> None:
    connection.execute(
        _CHANGE,
        (
            *(text(payload.format), payload.checksum, payload.data, payload.base),
            *(key, kind, payload.name, payload.superstep, abs(payload.idx)),
        ),
    )


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
    """Take a workflow; other processes see a live owner when this returns."""
    row = connection.execute(connection.dialect.owner, (workflow_id,)).fetchone()
    if row is None:
        time, locks = database.now(), database.locks
        owner = (1, os.getpid(), locks.address, micros(time))
        key = insert(connection, workflow_id, new, time, inputs, owner=owner)
        locks.hold(key, 1)
        return Ownership(workflow_id, 1, None, key)
    if not force:
        refuse_if_owned(database.locks, workflow_id, row)
    return _take(connection, database, workflow_id, row, force)


@or_corrupt
def _take(connection: Connection, database: Database, workflow_id: str, row: Row, force: bool) -> Ownership:
    locks = database.locks
    key, status, fence, pid, address, _, crashes = row
    announced = reads.open_intents(connection, key) if fence else []  # 0: never owned
    # A claim that this process gave up, but could not release, while the store was away, is not a crash.
    is_own = pid is not None and address == locks.address and " " in address  # a number of this process
    crashed = pid is not None and status == WorkflowStatus.ACTIVE.value and not is_own
    counts = {} if force else parsed(crashes or "{}")
    if crashed and not force:
        if counts:  # a node that has completed since its last crash is not in a loop of crashes
            connection.make("intents")
            for (node,) in connection.execute(PROGRESS, {"key": key, "fence": fence}).fetchall():
                counts.pop(node, None)
        blamed = {node for _, node, announced_by in announced if announced_by == fence}
        for node in blamed or {""}:  # "": no node was announced
            counts[node] = counts.get(node, 0) + 1
    fence += 1
    locks.hold(key, fence)
    try:
        blame = json.dumps(counts) if counts else None
        owner = (fence, os.getpid(), locks.address, (database.now() - EPOCH) // MICROSECOND)
        connection.executemany(TAKE, [(*owner, blame, key)])  # sent with the next statement
        found = reads.workflow(connection, workflow_id)
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
    own = (pid, address) == (os.getpid(), locks.address)
    raise locked(workflow_id, pid, address.partition(" ")[0], time_of(since) or EPOCH, own=own)


def release(connection: Connection, claim: Ownership) -> None:
    """Record that the owner has released the workflow."""
    connection.executemany(connection.dialect.release, [(claim.key, claim.fence)])


def commit(connection: Connection, unit: Commit, database: Database) -> None:
    """Write one unit, under a claim that this process holds and that is still the newest."""
    claim = unit.claim
    owner = (claim.key, claim.fence)
    is_held = owner in database.locks.held  # not if it was released, or was the parent's before a fork
    # The workflow stays ours until the transaction ends.
    if not is_held or connection.execute(connection.dialect.owned, owner).fetchone() is None:
        raise taken_over(claim.workflow_id)
    write_unit(connection, unit, database)


def write_unit(connection: Connection, unit: Commit, database: Database) -> None:
    """Write one unit in a transaction that has found its claim to be the newest."""
    claim, steps, inputs, at, status, duration, _, running, code, due, inner, usage, summary, *_ = unit
    key, fence = claim.key, claim.fence
    execute, brief = connection.execute, connection.dialect.brief
    values = []
    for step in steps:
        row, own = rows_of(key, step, brief=brief)
        if execute(STEP[brief], row).rowcount != 1:
            raise recorded_already(step.record)
        values += own
    if inputs:
        values += input_rows(key, at, inputs)
    if inner:
        connection.make("inner_steps")
        values += inner_rows(key, inner)
    values += summary_rows(key, summary)
    if values:
        connection.executemany(VALUE, values)
    if usage:
        connection.make("usage")
        connection.executemany(USAGE, [(key, *row) for row in usage])
    if running is not None:
        if fault_points.hook is not None:
            fault_points.point("intent.before")
        connection.make("intents")
        connection.execute(INTENT, (key, at, running, fence))
        _blame(connection, key, running)
    if code is not None:
        kept = structure(code)
        connection.execute(STRUCTURE, kept)
        connection.execute(
            "UPDATE workflows SET graph_hash = ?, structure = ?, version = ? WHERE key = ?",
            (code.graph_hash, kept.digest, code.version, key),
        )
    if status is not None:
        more = (due, unit.awaits, unit.reason, unit.since)
        set_status(connection, key, status, duration, database.now, *more)
    elif duration is not None:
        connection.execute("UPDATE workflows SET duration_ms = ? WHERE key = ?", (duration, key))


def _blame(connection: Connection, key: int, node: str) -> None:
    """Count a crash at an unknown place as one of this node, the first that runs after it.

    Of several only the first can have been inside of a node: after it, nodes are announced.
    """
    (stored,) = connection.execute("SELECT crashes FROM workflows WHERE key = ?", (key,)).fetchone()
    counts = parsed(stored or "{}")
    unknown = counts.pop("", 0)
    if unknown:
        counts[node] = counts.get(node, 0) + 1
        connection.execute("UPDATE workflows SET crashes = ? WHERE key = ?", (json.dumps(counts), key))


def commit_inside(connection: Connection, unit: Commit, database: Database) -> CheckpointError | None:
    """Write one unit of several; what is wrong with it alone undoes it alone, and is returned."""
    refusals: tuple[type[Exception], ...] = (CheckpointError, *database.bad_row)
    connection.execute("SAVEPOINT unit")
    try:
        commit(connection, unit, database)
    except refusals as error:
        connection.execute("ROLLBACK TO unit")
        connection.execute("RELEASE unit")
        return database.translated(error, f"of workflow {unit.claim.workflow_id!r}")
    connection.execute("RELEASE unit")
    return None


def set_status(  # noqa: PLR0917 - the columns that go with a status
    connection: Connection,
    key: int,
    status: WorkflowStatus,
    duration: float | None,
    clock: Clock,
    due: datetime | None = None,
    awaits: Mapping[str, int] = MappingProxyType({}),
    reason: str | None = None,
    since: int = 0,
) -> None:
    """Change the status; a workflow that completed has its crashes reset."""
    ended = micros(clock()) if status in FINISHED else None
    changes = {"status": status.value, "ended": ended, "duration": duration, "due": None, "key": key}
    changes |= {"awaits": awaits_text(awaits), "reason": reason}
    if due is not None:
        changes["due"] = micros(due)
        connection.make("workflows_by_due")
    if status is WorkflowStatus.PAUSED:
        connection.execute(PAUSE_STATUS, {**changes, "now": micros(now()), "since": since})
    else:
        connection.execute(STATUS, changes)
    if status is WorkflowStatus.COMPLETED and connection.has("intents"):
        connection.execute("DELETE FROM intents WHERE workflow = ?", (key,))


def change_status(
    connection: Connection, database: Database, workflow_id: str, status: WorkflowStatus
) -> None:
    """Change the status of a workflow without an owner."""
    key = unowned(connection, database.locks, workflow_id)
    if key is None:
        raise unknown(workflow_id)
    set_status(connection, key, status, None, database.now)
    connection.execute(_RAISE, (key,))


def raise_fence(connection: Connection, workflow_id: str, least: int | None) -> None:
    """Say that a workflow without owner has changed, or give it a fence of at least `least`."""
    if least is None:
        connection.execute(_RAISE_NEXT, (workflow_id,))
    else:
        connection.execute(_RAISE_TO, (least, workflow_id, least))


def settle_map(connection: Connection, workflow_id: str, clock: Clock, is_whole: bool) -> None:
    """Bring a map without owner up to date with its items: its status, when it is due, what it awaits."""
    # Its row is locked, so that an answer to an item is either seen here or is written after this.
    row = connection.execute(connection.dialect.owner, (workflow_id,)).fetchone()
    if row is None or row[1] == WorkflowStatus.ACTIVE.value:
        return
    before, found = WorkflowStatus(row[1]), connection.execute(_STATUSES, (workflow_id,)).fetchall()
    status = settled(before, [WorkflowStatus(name) for (name,) in found], is_whole=is_whole)
    awaits: Counter[str] = Counter()
    for (stored,) in connection.execute(_AWAITED, (workflow_id,)).fetchall():
        awaits.update(parsed(stored))
    ended = micros(clock()) if status in FINISHED else None
    changes = {"id": workflow_id, "before": before.value, "status": status.value, "ended": ended}
    changes |= {"awaits": awaits_text(awaits), "now": micros(now())}
    connection.execute(_SETTLE, changes)


def set_tags(connection: Connection, workflow_id: str, changes: Mapping[str, str | None]) -> dict[str, str]:
    """Set and remove tags; return those that the workflow has then."""
    row = connection.execute(connection.dialect.tags, (workflow_id,)).fetchone()
    if row is None:
        raise unknown(workflow_id)
    tags = changed(parsed(row[1] or "{}"), changes)
    connection.make("tags")
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
    if new.tags:
        connection.make("tags")
    if new.forked_from is not None:
        connection.make("workflows_by_origin")
    ((key,),) = connection.execute(NEW, new_row(workflow_id, new, time, kept.digest, owner)).fetchall()
    make_list_indexes(connection, key)
    connection.executemany(VALUE, input_rows(key, 0, inputs))
    if new.copies:
        copy_history(connection, key, workflow_id, new)
    for step in new.steps:
        row, values = rows_of(key, step, brief=connection.dialect.brief)
        connection.execute(STEP[connection.dialect.brief], row)
        connection.executemany(VALUE, values)
    if new.steps:
        connection.execute(COUNT_AGAIN, (key, 0))
    return int(key)


def make_list_indexes(connection: Connection, key: int) -> None:
    """Make the indexes for lists of many workflows; called with the key of each that is added."""
    if key % MANY_WORKFLOWS == 0:
        connection.make("workflows_by_parent")


def unowned(connection: Connection, locks: Locks, workflow_id: str) -> int | None:
    """Return the key of a workflow without an owner, None if there is none; raises WorkflowLockedError."""
    row = connection.execute(connection.dialect.owner, (workflow_id,)).fetchone()
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
    row, values = rows_of(key, step, brief=connection.dialect.brief)
    connection.execute(PUT[connection.dialect.brief], row)
    connection.execute(COUNT_AGAIN, (key, record.superstep))
    connection.execute(NO_SUMMARY, (key,))
    connection.executemany(VALUE, values)
    connection.execute(_RAISE, (key,))


def put_answers(connection: Connection, answers: Iterable[EncodedAnswer]) -> None:
    """Add answers to steps that wait for one and have none, or one that is replaced.

    A workflow that waits, or is under way, is due from then on, and so are the workflows around it: a run
    that is under way may have passed its question, and may be killed before it says so.
    """
    for record, payload, replaces in answers:
        key = reads.key_of(connection, record.workflow_id)
        place = (key, record.superstep, record.node_name)
        waits = connection.execute(_STILL_PAUSED, place).rowcount  # the row stays so until the end
        row = (*place[:1], OTHER, ANSWER, record.superstep, record.index, record.node_name)
        more = (payload.version, text(payload.format), payload.checksum, payload.data, payload.base)
        if replaces and connection.execute(_NOT_ANSWERED, row).rowcount != 1:
            raise not_asking(record)
        if waits != 1 or connection.execute(_ANSWERED, (*row, *more)).rowcount != 1:
            raise not_asking(record)
        waiting = around(record.workflow_id)
        connection.execute(_RIPE.format(ids=", ".join("?" * len(waiting))), (micros(now()), *waiting))
        connection.make("workflows_by_due")


def put_signal(connection: Connection, workflow_id: str, payload: Payload) -> bool:
    """Keep a value that was sent, if it is the next one of its name; return whether it is."""
    row = connection.execute(connection.dialect.owner, (workflow_id,)).fetchone()
    if row is None:
        raise unknown(workflow_id)
    if row[1] == WorkflowStatus.COMPLETED.value:
        raise is_over(workflow_id)
    key = row[0]  # its row is locked, so that two senders do not get the same place
    connection.make("workflows_by_due")
    ((last,),) = connection.execute(_LAST_SIGNAL, (key, payload.name)).fetchall()
    if payload.idx != (last or 0) + 1:
        return False
    place = (key, SIGNAL, payload.name, 0, payload.idx, "")
    connection.execute(VALUE, (*place, 0, text(payload.format), payload.checksum, payload.data, None))
    return True


def take_signal(
    connection: Connection, workflow_ids: Sequence[str], name: str, taker: str
) -> tuple[str, Payload] | None:
    """Return what was taken before, else take the first that is kept; of the first of several workflows.

    A workflow that has waited for it is due until it is written how it goes on: its process may die before.
    """
    for workflow_id in workflow_ids:
        key = reads.locked_key(connection, workflow_id)
        if key is None:
            continue
        for wanted in (taker, ""):
            row = connection.execute(_SIGNAL, (key, name, wanted)).fetchone()
            if row is not None:
                payload = reads.payload_of(SIGNAL, row)
                if not wanted:
                    connection.execute(_RECEIVED, (taker, key, name, payload.idx))
                    ids, time = ", ".join("?" * len(workflow_ids)), micros(now())
                    connection.execute(_AWAITED_IT.format(ids=ids), (time, *workflow_ids, time, f'"{name}"'))
                return workflow_id, payload
    return None


_LAST_SIGNAL = f"SELECT max(idx) FROM vals WHERE workflow = ? AND kind = {SIGNAL} AND name = ?"  # noqa: S608 - fixed names
_SIGNAL = (
    f"SELECT {PAYLOAD} FROM vals AS v WHERE v.workflow = ? AND v.kind = {SIGNAL} AND v.name = ? "  # noqa: S608 - as above
    "AND v.node = ? ORDER BY v.idx LIMIT 1"
)
_RECEIVED = f"UPDATE vals SET node = ? WHERE workflow = ? AND kind = {SIGNAL} AND name = ? AND idx = ?"  # noqa: S608 - as above


def create(
    connection: Connection, workflow_id: str, new: NewWorkflow, time: datetime, inputs: Iterable[Payload]
) -> None:
    """Add a workflow with its inputs."""
    if reads.key_of(connection, workflow_id) is not None:
        raise taken(workflow_id)
    insert(connection, workflow_id, new, time, inputs)


_STATUSES = "SELECT DISTINCT status FROM workflows WHERE parent_id = ?"
_AWAITED = "SELECT awaits FROM workflows WHERE parent_id = ? AND awaits IS NOT NULL"
_SETTLE = (  # unless an item that ended meanwhile has changed it already
    f"UPDATE workflows SET due = (SELECT min(moment) FROM ({_DUE_BELOW}) AS inside), "  # noqa: S608 - fixed names
    "awaits = :awaits, status = :status, "
    "completed_at = CASE WHEN status = :status THEN completed_at ELSE :ended END "
    "WHERE id = :id AND status = :before AND owner_pid IS NULL"
)
_RAISE_NEXT = "UPDATE workflows SET fence = fence + 1 WHERE id = ? AND owner_pid IS NULL"
_RAISE_TO = "UPDATE workflows SET fence = ? WHERE id = ? AND owner_pid IS NULL AND fence < ?"
_STILL_PAUSED = (
    "UPDATE steps SET idx = idx WHERE workflow = ? AND superstep = ? AND node = ? AND status = 'paused'"
)
_ANSWERED = f"{inserting('vals', VALUE_COLUMNS)} ON CONFLICT DO NOTHING"
_NOT_ANSWERED = f"DELETE FROM vals WHERE {' AND '.join(f'{name} = ?' for name in VALUE_KEY)} AND version = 0"  # noqa: S608 - fixed names
# Not WHERE status: a run that is about to end as paused has locked its row, and is to be waited for.
_RIPE = (
    "UPDATE workflows SET due = CASE WHEN status IN ('paused', 'active') THEN ? ELSE due END "
    "WHERE id IN ({ids})"
)
_AWAITED_IT = (
    "UPDATE workflows SET due = ? WHERE id IN ({ids}) AND (due IS NULL OR due > ?) "
    "AND replace(awaits, ?, '') <> awaits"
)
_BATCH = 500  # ids in one statement
_ROWS = 5000  # per table and transaction
_PARTS = (
    ("vals", "kind, name, superstep, idx, node"),
    ("steps", "superstep, node"),
    ("intents", "superstep, node"),
    ("chunks", "node, first"),
    ("streams", "node"),
    ("progress", "node"),
    ("usage", "superstep, node, step, name"),
)

# A value goes if a newer one of its name counts already at the first superstep that is kept,
_DROP = f"UPDATE vals SET data = NULL, checksum = 0, format = '{DROPPED}', base = NULL WHERE workflow = :key"  # noqa: S608 - fixed names
_TRIM = f"""{_DROP} AND superstep < :before AND data IS NOT NULL AND kind <> {SIGNAL}
AND name NOT IN {APART} AND NOT (%s)
AND (kind = {OTHER} OR kind = {INNER} AND EXISTS (
    SELECT 1 FROM steps WHERE steps.workflow = vals.workflow AND steps.node = vals.node
    AND steps.status = 'completed' AND steps.superstep >= vals.superstep)
OR kind <> {INNER} AND EXISTS (
    SELECT 1 FROM vals AS newer
    WHERE newer.workflow = vals.workflow AND newer.kind = vals.kind AND newer.name = vals.name
    AND newer.superstep <= :before
    AND (newer.superstep, newer.idx, newer.node) > (vals.superstep, vals.idx, vals.node)))
"""  # noqa: S608 - fixed names
# and what was added to a list if the list has begun anew since.
_OF_LIST = f"kind = {OUTPUT} AND name = :name{{0}} AND superstep >= :begin{{0}}"


def delete(database: Database, workflow_ids: Iterable[str]) -> int:
    """Remove workflows and their children; their ids are free once the first transaction is over."""
    wanted = list(workflow_ids)

    def take_out(connection: Connection) -> int:
        connection.make("erased")
        keys = _family(connection, database, wanted)
        for chunk in batched(keys):
            marks = ", ".join("?" * len(chunk))
            erased = f"INSERT INTO erased (key) SELECT key FROM workflows WHERE key IN ({marks})"  # noqa: S608 - marks
            connection.execute(erased, chunk)
            connection.execute(f"DELETE FROM workflows WHERE key IN ({marks})", chunk)  # noqa: S608 - as above
        return len(keys)

    count = database.write(take_out)
    while database.write(_sweep):
        if fault_points.hook is not None:
            fault_points.point("erase.after_batch")
    return count


def _family(connection: Connection, database: Database, ids: Sequence[str]) -> list[int]:
    """Return the keys of workflows and all below them. Raises WorkflowLockedError if one has an owner."""
    keys: dict[int, None] = {}
    seen = set(ids)
    while ids:
        below: list[str] = []
        for chunk in batched(ids):
            marks = ", ".join("?" * len(chunk))
            found = connection.execute(f"{_OWNERS} WHERE id IN ({marks}) {connection.dialect.lock}", chunk)
            rows = [row for row in found.fetchall() if row[1] not in keys]
            for workflow_id, *row in rows:
                refuse_if_owned(database.locks, workflow_id, tuple(row))
                keys[row[0]] = None
            inside = f"SELECT id FROM workflows WHERE parent_id IN ({marks})"  # noqa: S608 - marks
            below += [child for (child,) in connection.execute(inside, chunk).fetchall()]
        ids = [child for child in dict.fromkeys(below) if child not in seen]  # there may be circles
        seen.update(ids)
    return list(keys)


def batched(found: Sequence[T]) -> Iterator[Sequence[T]]:
    """Yield some at a time: as many as one statement takes."""
    return (found[at : at + _BATCH] for at in range(0, len(found), _BATCH))


_OWNERS = "SELECT id, key, status, fence, owner_pid, owner_host, owner_since, crashes FROM workflows"


def _sweep(connection: Connection) -> bool:
    """Remove rows of some erased workflows; return whether more may be left, also by a crash."""
    erased = connection.execute(connection.dialect.next_erased) if connection.has("erased") else ()
    keys = [key for (key,) in erased]
    if not keys:
        if connection.dialect.lock_structures is not None:  # a new workflow may be about to use one
            connection.execute(connection.dialect.lock_structures)
        connection.execute(
            "DELETE FROM structures WHERE digest NOT IN "
            "(SELECT structure FROM workflows WHERE structure IS NOT NULL)"
        )
        return False
    marks = ", ".join("?" * len(keys))
    for table, key in _PARTS:
        if not connection.has(table):
            continue
        some = f"SELECT workflow FROM {table} WHERE workflow IN ({marks}) LIMIT {_ROWS + 1}"  # noqa: S608 - fixed names
        found = [workflow for (workflow,) in connection.execute(some, keys).fetchall()]
        if len(found) <= _ROWS:
            if found:
                connection.execute(f"DELETE FROM {table} WHERE workflow IN ({marks})", keys)  # noqa: S608 - as above
            continue
        # More than one transaction should remove: a part of one of them, which is long.
        longest = max(set(found), key=found.count)
        connection.execute(
            f"DELETE FROM {table} WHERE workflow = ? AND ({key}) IN "  # noqa: S608 - fixed names
            f"(SELECT {key} FROM {table} WHERE workflow = ? LIMIT {_ROWS})",
            (longest, longest),
        )
        return True
    connection.execute(f"DELETE FROM erased WHERE key IN ({marks})", keys)  # noqa: S608 - as above
    return True


def trim(connection: Connection, workflow_id: str, encoding: Encoding, before: int) -> None:
    """Drop values that were replaced before a superstep; what extends them becomes whole.

    Where that cannot be read, with this key or serializer, everything stays.
    """
    key = reads.locked_key(connection, workflow_id)
    if key is None:
        return
    found = reads.payloads(connection, workflow_id, OUTPUT, before, chains=False)
    lists = [payload for payload in found if payload.is_added]
    growing = [
        reads.linked(connection, key, OUTPUT, payload)
        for payload in found
        if payload.base is not None and payload not in lists
    ]
    if not all(encoding.reads(workflow_id, payload) for payload in growing):
        return
    for payload in growing:
        make_whole(connection, key, workflow_id, encoding, payload)
    if fault_points.hook is not None:
        fault_points.point("trim.made_whole")
    kept = " OR ".join(_OF_LIST.format(number) for number in range(len(lists)))
    bounds: dict[str, object] = {"key": key, "before": before}
    for number, payload in enumerate(lists):
        bounds |= {f"name{number}": payload.name, f"begin{number}": payload.base}
    connection.execute(_TRIM % (kept or "false"), bounds)


def copy_artifacts(
    source: ArtifactStore | None, target: ArtifactStore | None, references: Iterable[str]
) -> None:
    """Put what these references mean into another artifact store; what is gone already is gone there too."""
    for reference in references:
        ref = ArtifactRef.from_text(reference)
        if source is not None and target is not None:
            try:
                target.put(source.get(ref), content_type=ref.content_type)
            except ArtifactMissingError:
                continue
