"""SqliteCheckpointer: workflows in one SQLite file."""

from __future__ import annotations

import os
import sqlite3
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from hypergraph.checkpointers import fault_points
from hypergraph.checkpointers.artifacts import ArtifactStore
from hypergraph.checkpointers.artifacts.files import FileArtifactStore
from hypergraph.checkpointers.encoding import Encoding, Redact
from hypergraph.checkpointers.errors import translated
from hypergraph.checkpointers.policy import CheckpointPolicy, Durability, Retention
from hypergraph.checkpointers.records import NOTHING_ELSE, Commit, EncodedStep, Ownership
from hypergraph.checkpointers.sql import writes
from hypergraph.checkpointers.sql.backend import SqlBackend
from hypergraph.checkpointers.sql.columns import EPOCH, MICROSECOND, NONSENSE, Row, corrupt
from hypergraph.checkpointers.sql.store import SqlCheckpointer
from hypergraph.checkpointers.sql.writes import copy_artifacts, versions_text
from hypergraph.checkpointers.sqlite import usual
from hypergraph.checkpointers.sqlite.database import Database, Locked, database_at
from hypergraph.checkpointers.sqlite.migrations import MIGRATIONS, number
from hypergraph.checkpointers.sqlite.reading import Connection, inspector_at
from hypergraph.checkpointers.transactions import UserConnection
from hypergraph.exceptions import CheckpointError
from hypergraph.values.codecs import Codec, CodecChain

if TYPE_CHECKING:
    from hypergraph.values.graphs import Graphs
    from hypergraph.values.serializers import Serializer

T = TypeVar("T")


class SqliteCheckpointer(SqlCheckpointer):
    """Keep workflows in a SQLite file, which is opened on first use and made private to its user.

    Args:
        path: The file; it is created on first use. ":memory:" is a temporary file that is removed with the
            store, for tests and experiments.
        durability: A shortcut for a policy with this durability.
        retention: A shortcut for a policy with this retention.
        policy: When steps are written and how long they are kept; CheckpointPolicy() by default.
        serializer: Turns values into bytes; JsonSerializer() by default. A dict has serializers by the
            names of values, and under "*" that of all others.
        codec: Compresses or encrypts these bytes: one codec, or several in order.
        artifact_store: The place for large values; a folder beside the file by default.
        artifact_threshold: Encoded bytes above which a value is large; 128 KiB by default.
        redact: A function (node, name, value) -> value, called before a value is encoded.
        lock_timeout: Seconds to wait for another process that writes, before StoreUnavailableError; 30 by
            default. A warning comes after 2.
        graphs: Graphs whose classes the store reads and writes; a run names those of its own graph.

    Raises:
        ValueError: `policy` together with a shortcut for one of its parts, an empty path, or a
            `lock_timeout` that is not a number of seconds.

    Example:
        >>> from hypergraph.checkpointers import SqliteCheckpointer
        >>> store = SqliteCheckpointer(":memory:")  # or the path of a file, like "runs.db"
        >>> store.create_workflow("order-1")
        >>> store.state("order-1")
        {}
    """

    backend: SqliteBackend

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        durability: Durability | None = None,
        retention: Retention | None = None,
        policy: CheckpointPolicy | None = None,
        serializer: Serializer | Mapping[str, Serializer] | None = None,
        codec: Codec | Sequence[Codec] | CodecChain | None = None,
        artifact_store: ArtifactStore | None = None,
        artifact_threshold: int | None = None,
        redact: Redact | None = None,
        graphs: Graphs = (),
        lock_timeout: float | None = None,
    ) -> None:
        path = os.fspath(path)
        if not path:
            raise ValueError("SqliteCheckpointer needs the path of a file, or ':memory:' for a temporary one")
        is_temporary = path == ":memory:"
        if is_temporary:
            path = os.path.join(_temporary_folder(), "runs.db")
        backend = SqliteBackend(database_at(path))
        if lock_timeout is not None:
            backend.database.timeout = _checked_timeout(lock_timeout)
        if is_temporary:
            _remove_with(backend.database)
        beside = artifacts_beside(backend.database.path) if artifact_store is None else artifact_store
        super().__init__(
            backend,
            durability=durability,
            retention=retention,
            policy=policy,
            serializer=serializer,
            codec=codec,
            artifact_store=beside,
            artifact_threshold=artifact_threshold,
            redact=redact,
            graphs=graphs,
        )


def _temporary_folder() -> str:
    import tempfile  # most stores have a file of their own

    return tempfile.mkdtemp(prefix="hypergraph-")


def _remove_with(database: Database) -> None:
    import shutil  # as above

    weakref.finalize(database, shutil.rmtree, os.path.dirname(database.path), ignore_errors=True)


def _checked_timeout(given: Any) -> float:
    """Return the seconds. Raises ValueError for anything but a number from 0 on."""
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 <= given < float("inf"):
        raise ValueError(f"lock_timeout must be a number of seconds, not {given!r}")
    return float(given)


def artifacts_beside(path: str) -> FileArtifactStore:
    """Return the folder for large values beside a file."""
    return FileArtifactStore(path + "-artifacts", link=False)


def usual_rows(commit: Commit) -> list[Row]:
    """Return the parameters of `usual.WRITE` for the steps of a commit, none if one of them is not usual."""
    rows = [usual_row(commit.claim, step) for step in commit.steps]
    return [] if None in rows else rows  # type: ignore[return-value]  # as just checked


def usual_row(claim: Ownership, step: EncodedStep) -> Row | None:
    """Return the parameters of `usual.WRITE` for a step, None if that does not write all of it."""
    record, payloads, seal, is_usual = step
    if not is_usual or len(payloads) != 1 or seal is not None:
        return None
    name, version, kept, checksum, data, superstep, index, base, _ = payloads[0]
    if kept is None or not kept.isascii():
        return None
    began, ended, duration = record.created_at, record.completed_at, record.duration_ms
    return (
        claim.key,
        superstep,
        record.node_name,
        index,
        (began - EPOCH) // MICROSECOND,
        None if ended is None else (ended - began) // MICROSECOND,
        None if duration is None else round(duration * 1e6),
        record.visit,
        versions_text(True, record.input_versions, record.output_versions),
        name,
        version,
        kept,
        checksum,
        data,
        base,
        claim.fence,
    )


class SqliteBackend(SqlBackend):
    """Workflows in a SQLite file."""

    kind = "sqlite"
    database: Database

    def recover(self) -> bool:
        """Create the file, update its schema or undo half a commit; return whether that was needed."""
        return self.database.recover()

    def write(self, commit: Commit) -> None:
        """Make one commit durable; see `Backend.write`."""
        self._write(commit, wait=True)

    def try_write(self, commit: Commit) -> bool:
        """Make one commit durable, unless another connection is writing; return whether it is."""
        try:
            self._write(commit, wait=False)
        except Locked:
            return False
        return True

    def _write(self, commit: Commit, *, wait: bool) -> None:
        claim, database, rows = commit.claim, self.database, usual_rows(commit)
        is_alone = len(rows) == 1 and commit[2:] == NOTHING_ELSE
        if is_alone and database.write_usual((claim.key, claim.fence), rows[0]):
            return
        database.write(
            partial(self._commit, commit=commit, rows=rows)
            if rows
            else partial(writes.commit, unit=commit, database=database),
            full=commit.full,
            wait=wait,
            look=commit.full or commit.status is not None,
        )
        if commit.status is not None:
            self._settle(commit)

    def _commit(self, connection: Any, commit: Commit, rows: Sequence[Row] | None = None) -> None:
        rows = usual_rows(commit) if rows is None else rows
        if not rows or not self._write_usual_steps(connection, commit.claim, rows):
            writes.commit(connection, commit, self.database)
        elif commit[2:] != NOTHING_ELSE:
            writes.write_unit(connection, commit._replace(steps=()), self.database)

    def _write_usual_steps(self, connection: Connection, claim: Ownership, rows: Sequence[Row]) -> bool:
        """Write usual steps if their claim counts, and say whether that is done."""
        if (claim.key, claim.fence) not in self.database.locks.held:
            return False
        is_done, several = True, len(rows) > 1  # one that fails undoes itself
        if several:
            connection.execute("SAVEPOINT steps")
        try:
            connection.executemany(usual.WRITE, rows)
        except sqlite3.Error as error:  # the long way says what is wrong
            if connection.interrupted(error) or not connection.in_transaction:
                raise
            is_done = False
            if several:
                connection.execute("ROLLBACK TO steps")
        if several:
            connection.execute("RELEASE steps")
        return is_done

    def _transacted(self, work: Callable[[Connection], None], found: Sequence[tuple[Commit, Any]]) -> None:
        self.database.write(work, look=False)

    def _user_connection(self, connection: Any, node: str) -> UserConnection:
        return UserConnection(node, connection, connection.cursor, lambda: connection.in_transaction)

    def is_locked(self) -> bool:
        """Return whether another connection is writing now."""
        return self.database.is_locked()

    def watch(self) -> Callable[[], Any]:
        """Return a function whose result differs whenever something was written to the file."""
        return Watch(self.database).version

    def delete(self, workflow_ids: Iterable[str]) -> int:
        """Remove these workflows and their children; return how many.

        They do not come back after a power loss, when artifacts that they named may be gone.
        """
        count = super().delete(workflow_ids)
        shrink(self.database)
        self.database.write(change_nothing, full=True)
        return count

    def inspect(self, work: Callable[[Connection], T]) -> T:
        """Return what `work` reads from the file as it is, on a connection of its own that cannot write."""
        with closing(inspector_at(self.location)) as connection:
            try:
                return work(connection)
            except (sqlite3.Error, OSError) as error:
                if connection.interrupted(error):
                    raise KeyboardInterrupt from error
                raise translated(error, self.location) from error
            except NONSENSE as error:
                raise corrupt(error) from error

    def schema_versions(self) -> tuple[int, int]:
        """Return the version of the tables, 0 without any, and the one this release writes."""
        return self.inspect(lambda connection: number(connection, "user_version")), len(MIGRATIONS)

    def size(self) -> int:
        """Return the bytes of the file, with what is still in its log."""
        files = [self.location + end for end in ("", "-wal")]
        return sum(os.path.getsize(file) for file in files if os.path.exists(file))

    def is_writable(self) -> bool:
        """Return whether this user may write the file and the folder around it."""
        return all(os.access(path, os.W_OK) for path in (self.location, os.path.dirname(self.location)))

    def find_damage(self) -> list[str]:
        """Return what is wrong with the pages of the file."""
        found = self.inspect(lambda connection: connection.execute("PRAGMA integrity_check").fetchall())
        return [text for (text,) in found if text != "ok"]

    def backup(self, path: str, encoding: Encoding) -> None:
        """Write a consistent, compact copy of the file to a new one, and of the artifacts beside it."""
        save_copy(self.database, path)
        artifacts = encoding.artifacts
        if (
            isinstance(artifacts, FileArtifactStore)
            and artifacts.root == artifacts_beside(self.location).root
        ):
            copy = SqliteBackend(database_at(path))
            copy_artifacts(artifacts, artifacts_beside(copy.location), copy.artifact_references())
            copy.close()


class Watch:
    """A marker of changes to a file, read with a connection of its own."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._connection: Connection | None = None
        self._file: tuple[int, int] | None = None

    def version(self) -> tuple[object, ...]:
        """Return a value that differs from the last one whenever something was written to the file.

        Raises:
            CheckpointError: the file cannot be read.
        """
        try:
            found = os.stat(self._database.path)
            file = (found.st_dev, found.st_ino)
            if self._connection is None or file != self._file:  # the path may come to mean another
                self.close()
                self._connection = self._database.open_reader()
                self._file = file
            return (*file, number(self._connection, "data_version"))
        except (sqlite3.Error, OSError) as error:
            self.close()
            raise translated(error, self._database.path) from error

    def close(self) -> None:
        """Close the connection; the next call opens another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def __del__(self) -> None:
        self.close()


_PAGES = 500  # given back to the file system at a time


def shrink(database: Database) -> None:
    """Give free pages back to the file system, some in each transaction."""
    while database.write(_shrink):
        if fault_points.hook is not None:
            fault_points.point("erase.after_shrink")


def _shrink(connection: Connection) -> bool:
    """Give free pages back to the file system; return whether there are more."""
    free = number(connection, "freelist_count")
    connection.execute(f"PRAGMA incremental_vacuum({_PAGES})").fetchall()
    return number(connection, "freelist_count") not in (0, free)


def change_nothing(connection: Connection) -> None:
    """Write a page as it is: a commit without any would not wait for those before it to reach the disk."""
    connection.execute(f"PRAGMA user_version = {number(connection, 'user_version')}")


def save_copy(database: Database, path: str) -> None:
    """Write a compact copy of the file, as of one moment."""
    try:
        database.copy_to(path)
    except FileExistsError as error:
        raise CheckpointError(f"{path} exists; a backup never overwrites. Choose another name.") from error
    except (OSError, sqlite3.Error) as error:
        raise translated(error, path) from error
