"""Streams and progress in the tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from operator import index
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from hypergraph.checkpointers.live import ChunkBatch, ChunkPage, Live, Progress, StreamOutline
from hypergraph.checkpointers.records import STREAM, Ownership, Payload, taken_over
from hypergraph.checkpointers.sql import reads
from hypergraph.checkpointers.sql.columns import EPOCH, check_number, micros, or_corrupt, time_of
from hypergraph.checkpointers.sql.connection import Connection, Database
from hypergraph.checkpointers.sql.writes import text

P = ParamSpec("P")
T = TypeVar("T")

_EXPIRED = 20  # streams that are emptied at a time
_MOST = 1_000_000  # chunks of a batch: each has a byte at least
_BELOW = "(workflows.id = ? OR (workflows.id > ? AND workflows.id < ?))"  # a workflow and the runs below it
_HERE = "workflow = ? AND node = ?"


class Reading(Protocol):
    """Calls a function with a connection, which may be that of a snapshot."""

    def __call__(
        self, read: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T: ...


class SqlLive(Live):
    """What running nodes show, in tables of a database; each function below is one transaction."""

    def __init__(self, database: Database, read: Reading) -> None:
        self._database = database
        self._read = read

    def open_stream(self, claim: Ownership, node: str) -> int:
        """Begin a stream of a node; return the offset of its first chunk."""
        database = self._database
        return database.write(lambda connection: _open_stream(connection, claim, node, database.now()))

    def write_chunks(self, claim: Ownership, node: str, batches: Sequence[ChunkBatch], limit: int) -> None:
        """Add chunks to a stream, within a limit of bytes."""
        self._database.write(lambda connection: _write_chunks(connection, claim, node, batches, limit))

    def end_stream(self, claim: Ownership, node: str, until: datetime) -> None:
        """Say until when the chunks of a stream are kept."""
        self._database.write(lambda connection: _end_stream(connection, claim, node, until))

    def read_chunks(self, workflow_id: str, node: str, offset: int, limit: int) -> ChunkPage | None:
        """Return the next batches of a stream."""
        return self._read(_read_chunks, workflow_id, node, offset, limit)

    def write_progress(self, claim: Ownership, rows: Sequence[Progress]) -> None:
        """Keep how far nodes are."""
        self._database.write(lambda connection: _write_progress(connection, claim, rows))

    def clear_progress(self, claim: Ownership, node: str) -> None:
        """Forget how far a node was."""
        self._database.write(lambda connection: _clear_progress(connection, claim, node))

    def read_progress(self, workflow_id: str) -> list[Progress]:
        """Return how far the running nodes of a workflow are, and of the runs below it."""
        return self._read(_read_progress, workflow_id)

    def read_streams(self, workflow_id: str) -> list[StreamOutline]:
        """Return the streams of a workflow and of the runs below it."""
        return self._read(_read_streams, workflow_id)


def _open_stream(connection: Connection, claim: Ownership, node: str, now: datetime) -> int:
    """Begin a stream, after a mark if the node had one before; return the offset of its first chunk."""
    connection.make("streams")
    _check(connection, claim)
    _expire(connection, now)
    place = (claim.key, node)
    row = connection.execute(f"SELECT next FROM streams WHERE {_HERE}", place).fetchone()  # noqa: S608 - fixed names
    if row is None:
        connection.execute("INSERT INTO streams VALUES (?, ?, 0, 0, 0, NULL)", place)
        return 0
    connection.execute("INSERT INTO chunks VALUES (?, ?, ?, 1, '', 0, NULL)", (*place, row[0]))
    connection.execute(f"UPDATE streams SET next = next + 1, until = NULL WHERE {_HERE}", place)  # noqa: S608 - as above
    return int(row[0]) + 1


def _write_chunks(
    connection: Connection, claim: Ownership, node: str, batches: Sequence[ChunkBatch], limit: int
) -> None:
    """Add chunks to a stream; the oldest go where it is longer than the limit in bytes."""
    _check(connection, claim)
    place, size = (claim.key, node), 0
    for first, count, payload in batches:
        if payload is not None:
            row = (*place, first, count, text(payload.format), payload.checksum, payload.data)
            connection.execute("INSERT INTO chunks VALUES (?, ?, ?, ?, ?, ?, ?)", row)
            size += len(payload.data or b"")
    last = batches[-1]
    connection.execute(
        f"UPDATE streams SET next = ?, size = size + ? WHERE {_HERE}",  # noqa: S608 - fixed names
        (last.first + last.length, size, *place),
    )
    (kept,) = connection.execute(f"SELECT size FROM streams WHERE {_HERE}", place).fetchone()  # noqa: S608 - as above
    if kept > limit:
        _shorten(connection, place, kept - limit)


def _shorten(connection: Connection, place: tuple[int, str], surplus: int) -> None:
    """Drop the oldest chunks, at least so many bytes, but never the newest batch."""
    rows = connection.execute(
        f"SELECT first, count, coalesce(length(data), 0) FROM chunks WHERE {_HERE} ORDER BY first",  # noqa: S608 - fixed names
        place,
    ).fetchall()
    gone, upto = 0, None
    for first, count, size in rows[:-1]:
        if gone >= surplus:
            break
        gone, upto = gone + size, first + count
    if upto is not None:
        connection.execute(f"DELETE FROM chunks WHERE {_HERE} AND first < ?", (*place, upto))  # noqa: S608 - as above
        connection.execute(
            f"UPDATE streams SET kept = ?, size = size - ? WHERE {_HERE}",  # noqa: S608 - as above
            (upto, gone, *place),
        )


def _end_stream(connection: Connection, claim: Ownership, node: str, until: datetime) -> None:
    """Say until when the chunks of a stream that has ended are kept."""
    _check(connection, claim)
    connection.execute(f"UPDATE streams SET until = ? WHERE {_HERE}", (micros(until), claim.key, node))  # noqa: S608 - as above


def _expire(connection: Connection, now: datetime) -> None:
    due = "SELECT workflow, node FROM streams WHERE until < ? ORDER BY until LIMIT ?"
    for place in connection.execute(due, (micros(now), _EXPIRED)).fetchall():
        connection.execute(f"DELETE FROM chunks WHERE {_HERE}", place)  # noqa: S608 - fixed names
        connection.execute(f"UPDATE streams SET kept = next, size = 0, until = NULL WHERE {_HERE}", place)  # noqa: S608 - as above


@or_corrupt
def _read_chunks(
    connection: Connection, workflow_id: str, node: str, offset: int, limit: int
) -> ChunkPage | None:
    """Return the next batches from an offset on, None if the node has no stream."""
    if not connection.has("streams"):
        return None
    key = reads.key_of(connection, workflow_id)
    found = connection.execute(f"SELECT kept FROM streams WHERE {_HERE}", (key, node)).fetchone()  # noqa: S608 - fixed names
    if found is None:
        return None
    rows = connection.execute(
        f"SELECT first, count, format, checksum, data FROM chunks WHERE {_HERE} AND first >= coalesce("  # noqa: S608 - as above
        f"(SELECT max(first) FROM chunks WHERE {_HERE} AND first <= ?), 0) ORDER BY first LIMIT ?",
        (key, node, key, node, offset, limit),
    ).fetchall()
    return ChunkPage(index(found[0]), [batch for row in rows if (batch := _batch(*row)).end > offset])


def _below(workflow_id: str) -> tuple[str, str, str]:
    """Return the parameters of _BELOW."""
    return workflow_id, f"{workflow_id}/", f"{workflow_id}0"  # "0" comes after "/"


def _batch(first: int, count: int, kind: str, checksum: int, data: bytes | None) -> ChunkBatch:
    """Return the batch of a row. Raises ValueError or TypeError for what no release writes."""
    if index(first) < 0 or not 0 < index(count) <= _MOST or type(kind) is not str:
        raise ValueError("a batch of chunks without its place")
    if data is None:
        return ChunkBatch(first, count, None)
    whole = bytes(memoryview(data))  # a number would be taken for a size
    return ChunkBatch(first, count, Payload(STREAM, 0, kind, index(checksum), whole, 0, first))


@or_corrupt
def _read_streams(connection: Connection, workflow_id: str) -> list[StreamOutline]:
    """Return the streams of a workflow and of the runs below it."""
    if not connection.has("streams"):
        return []
    rows = connection.execute(
        "SELECT workflows.id, streams.node, next, kept FROM workflows "  # noqa: S608 - fixed names
        "JOIN streams ON streams.workflow = workflows.key "
        f"WHERE {_BELOW} ORDER BY workflows.id, node",
        _below(workflow_id),
    ).fetchall()
    if not {tuple(map(type, row)) for row in rows} <= {(str, str, int, int)}:
        raise ValueError("a stream without its place")
    return [StreamOutline(*row) for row in rows]


def _write_progress(connection: Connection, claim: Ownership, rows: Sequence[Progress]) -> None:
    """Keep how far nodes are, in place of what was said before."""
    connection.make("progress")
    _check(connection, claim)
    for row in rows:
        connection.execute(f"DELETE FROM progress WHERE {_HERE}", (claim.key, row.node))  # noqa: S608 - fixed names
        connection.execute(
            "INSERT INTO progress VALUES (?, ?, ?, ?, ?, ?)",
            (claim.key, row.node, row.done, row.total, text(row.text), micros(row.at)),
        )


def _clear_progress(connection: Connection, claim: Ownership, node: str) -> None:
    """Forget how far a node was."""
    _check(connection, claim)
    if connection.has("progress"):
        connection.execute(f"DELETE FROM progress WHERE {_HERE}", (claim.key, node))  # noqa: S608 - fixed names


@or_corrupt
def _read_progress(connection: Connection, workflow_id: str) -> list[Progress]:
    """Return the progress of a workflow and of the runs below it."""
    if not connection.has("progress"):
        return []
    rows = connection.execute(
        "SELECT workflows.id, progress.node, done, total, text, at FROM progress "  # noqa: S608 - fixed names
        "JOIN workflows ON workflows.key = progress.workflow "
        f"WHERE {_BELOW} ORDER BY at",
        _below(workflow_id),
    ).fetchall()
    for owner, node, done, total, note, _ in rows:
        if not type(owner) is type(node) is type(note) is str:
            raise ValueError("a progress without its node")
        check_number(done)
        check_number(0 if total is None else total)
    return [
        Progress(owner, node, done, total, note, time_of(at) or EPOCH)
        for owner, node, done, total, note, at in rows
    ]


def _check(connection: Connection, claim: Ownership) -> None:
    if connection.execute(connection.dialect.owned, (claim.key, claim.fence)).fetchone() is None:
        raise taken_over(claim.workflow_id)
