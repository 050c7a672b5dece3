"""Connections to a SQLite file that may come from anywhere: reading must not write, run or wait for anything.

A file is opened read-only, its schema is compared with ours before the first query, and every read has a
budget of instructions. What a crashed program left half done is finished only by a program that writes.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import stat
import sys
from collections.abc import Callable
from time import monotonic
from typing import TypeVar

from hypergraph.checkpointers.errors import translated
from hypergraph.checkpointers.query import contains
from hypergraph.checkpointers.sqlite import migrations
from hypergraph.checkpointers.sqlite.dialect import SQLITE
from hypergraph.exceptions import StoreCorruptError, StoreUnavailableError

T = TypeVar("T")

_ATTEMPT = 0.25  # seconds of one attempt to open a file
TIMEOUT = 30.0  # seconds to wait for another process that writes
INTERRUPTIBLE = 10_000  # instructions between two checks for an interrupt, less than a millisecond
_LEAST, _PER_BYTE = 50_000_000, 200  # instructions that a read may take: some, and more in a large file
_BESIDE = ("-journal", "-wal", "-shm")
_SUPER = bytes.fromhex(
    "d9d505f920a163d7"
)  # the end of a journal that names another file, which SQLite deletes
_PRIMARY = 0xFF  # the low byte of a result code; the rest refines it


class Budget:
    """The instructions that a read may still take: a table whose pages contain each other has no end."""

    def __init__(self, size: int) -> None:
        self._all = (_LEAST + _PER_BYTE * size) // INTERRUPTIBLE
        self._left = self._all

    @property
    def is_spent(self) -> bool:
        """Whether the read took more than it may."""
        return self._left < 0

    def renew(self, factor: int = 1) -> None:
        """Begin another read, which may take `factor` times as much as a usual one."""
        self._left = self._all * factor

    def __call__(self) -> bool:
        """Count; SQLite calls this now and then, so that Python sees an interrupt. True ends the read."""
        self._left -= 1
        return self._left < 0


class Connection(sqlite3.Connection):
    """A connection that knows the dialect of the shared statements."""

    dialect = SQLITE
    budget: Budget | None = None  # of a connection that reads
    unlocked: tuple[object, ...] | None = None  # the state of a file that is read without locks
    is_kept = True  # False for one that stands for a file that does not exist yet

    def has(self, name: str) -> bool:
        """Return whether a table or index of RARE exists; without it, nothing of its kind is stored."""
        return self.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (name,)).fetchone() is not None

    def make(self, name: str) -> None:
        """Make a table or index of RARE with what belongs to it, unless it exists."""
        for statement in migrations.MAKING[name]:
            self.execute(statement)

    def check_unchanged(self, path: str) -> None:
        """Raise StoreUnavailableError if a file that is read without locks was written meanwhile."""
        if self.unlocked != _state(path):
            raise StoreUnavailableError(
                f"The store {path} was written while it was read; try again.", location=path
            )

    def interrupted(self, error: BaseException) -> bool:
        """Return whether the user, and not the budget, ended a statement with this error."""
        is_interrupt = getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_INTERRUPT
        return is_interrupt and (self.budget is None or not self.budget.is_spent)


def connect(name: str, timeout: float, *, uri: bool = False) -> Connection:
    """Return a connection that runs nothing that a schema names, as far as this Python can say so."""
    connection = sqlite3.connect(
        name,
        timeout=timeout,
        isolation_level=None,
        check_same_thread=False,
        factory=Connection,
        uri=uri,
    )
    connection.execute("PRAGMA trusted_schema = OFF")
    if sys.version_info >= (3, 12):
        connection.setconfig(sqlite3.SQLITE_DBCONFIG_DEFENSIVE, True)
    return connection


def reader_at(path: str, timeout: float = TIMEOUT, *, older: bool = False) -> Connection:
    """Return a connection that reads a file and changes neither it nor what lies beside it.

    SQLite may write its own index of the log, FILE-shm. A file that is missing or empty is read as an empty
    store, and is not made. With `older`, the tables of an earlier release are read as far as they go.

    Raises:
        StoreUnavailableError: a crashed program left the file half written, its log cannot be read here, or
            another program or an older release wrote it.
        StoreCorruptError: the schema is not ours, or something else lies where a file of SQLite should.
        SchemaTooNewError: a newer release wrote the file.
        sqlite3.Error, OSError: the file cannot be read.
    """
    if is_empty(path):
        os.stat(os.path.dirname(path) or os.curdir)  # a folder that is missing may be a mistake
        return _empty(older)
    check_beside(path)
    name = f"file:{in_uri(path)}?mode=ro"
    try:
        connection, missing = patiently(lambda wait: _prepared(name, path, wait), timeout)
    except sqlite3.OperationalError as error:
        if not _needs_no_lock(error, path):
            raise
        before = _state(path)
        connection, missing = _prepared(name + "&immutable=1", path, timeout)
        connection.unlocked = before
    connection.execute(f"PRAGMA busy_timeout = {int(timeout * 1000)}")
    if missing and not older:
        has_tables = connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
        if has_tables and not migrations.missing_migrations(connection, path):
            return connection  # another process has created it since the first look
        connection.close()
        if not has_tables:
            return _empty(older)  # another process is creating it
        raise StoreUnavailableError(
            f"The store {path} was written by an older release. Update it with: hypergraph db migrate",
            location=path,
        )
    return connection


def patiently(opened: Callable[[float], T], timeout: float) -> T:
    """Return what could be opened once other processes allow it.

    SQLite is asked to wait for a moment only: meanwhile nothing sees an interrupt.
    """
    give_up = monotonic() + timeout
    while True:
        try:
            return opened(min(_ATTEMPT, timeout))
        except sqlite3.OperationalError as error:
            if not is_busy(error) or monotonic() >= give_up:
                raise


def is_busy(error: sqlite3.Error) -> bool:
    """Return whether another connection is in the way."""
    return (getattr(error, "sqlite_errorcode", 0) & _PRIMARY) == sqlite3.SQLITE_BUSY


def _empty(older: bool) -> Connection:
    connection = connect(":memory:", TIMEOUT)
    if not older:
        migrations.migrate(connection, "")
    connection.create_function("contains", 2, contains, deterministic=True)
    connection.is_kept = False
    return connection


def _prepared(name: str, path: str, timeout: float) -> tuple[Connection, int]:
    """Return a connection whose schema was checked, and how many migrations the file lacks."""
    connection = connect(name, timeout, uri=True)
    try:
        connection.execute("PRAGMA query_only = ON")
        connection.execute("PRAGMA cell_size_check = ON")
        connection.execute("PRAGMA mmap_size = 0")  # a file that shrinks meanwhile would end the process
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        if sys.version_info >= (3, 12):
            connection.setconfig(sqlite3.SQLITE_DBCONFIG_ENABLE_TRIGGER, False)
            connection.setconfig(sqlite3.SQLITE_DBCONFIG_ENABLE_VIEW, False)
        connection.create_function("contains", 2, contains, deterministic=True)
        connection.budget = Budget(sum(_size(path + end) for end in ("", "-wal")))
        connection.set_progress_handler(connection.budget, INTERRUPTIBLE)
        return connection, migrations.missing_migrations(connection, path)
    except BaseException as error:
        connection.close()
        if connection.interrupted(error):
            raise KeyboardInterrupt from error
        raise


def _needs_no_lock(error: sqlite3.OperationalError, path: str) -> bool:
    """Return whether a file cannot be locked but can be read: on read-only media, with all of its log in it.

    Raises:
        StoreUnavailableError: a part of what is stored is in the log, which cannot be read without locks.
    """
    code = error.sqlite_errorcode & _PRIMARY
    if code not in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY):
        return False
    if error.sqlite_errorcode == sqlite3.SQLITE_READONLY_ROLLBACK or not os.access(path, os.R_OK):
        return False
    if os.access(os.path.dirname(os.path.abspath(path)), os.W_OK):
        return False
    if _size(path + "-wal"):
        raise StoreUnavailableError(
            f"The store {path} has a log, {path}-wal, that cannot be read in a folder without write access: "
            "copy both files to another folder.",
            location=path,
        ) from error
    return True


def check_beside(path: str) -> None:
    """Raise StoreCorruptError if one of SQLite's files beside a database is a link, or no file.

    Raises IsADirectoryError if the database itself is a folder.
    """
    if os.path.isdir(path):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    for end in _BESIDE:
        try:
            mode = os.lstat(path + end).st_mode
        except FileNotFoundError:
            continue
        if not stat.S_ISREG(mode):
            raise StoreCorruptError(
                f"{path}{end} is not a file of this store but a link or a pipe: remove it, and find out "
                "where it comes from. Nothing was read or written.",
                location=path,
            )


def check_before_writing(path: str) -> None:
    """Check what lies beside a database; raise StoreCorruptError if its journal names another file.

    SQLite would delete that. No release writes several databases in one transaction, which is what such a
    journal is for.
    """
    check_beside(path)
    try:
        with open(path + "-journal", "rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - len(_SUPER)))
            names_another = file.read() == _SUPER
    except FileNotFoundError:
        return
    if names_another:
        raise StoreCorruptError(
            f"{path}-journal names another file, which would be deleted with it; no release writes such a "
            "journal. Remove it, or use a backup. Nothing was changed.",
            location=path,
        )


def in_uri(path: str) -> str:
    """Return a path as it stands in SQLite's file: addresses."""
    return path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")


def is_complete(path: str) -> bool:
    """Return whether there is a file, and no program that writes without a log has begun to change it."""
    return not is_empty(path) and not os.path.lexists(path + "-journal")


def is_empty(path: str) -> bool:
    """Return whether there is nothing at a path, or nothing in it."""
    return not _size(path)


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0


def _state(path: str) -> tuple[object, ...]:
    """Return what differs when a file or its log was written."""
    found = os.stat(path)
    return found.st_ino, found.st_size, found.st_mtime_ns, _size(path + "-wal")


def inspector_at(path: str) -> Connection:
    """Return a reader of a file of this or an older release, for tools that look at its tables.

    Raises:
        CheckpointError: as `reader_at`; errors of SQLite and the system as ours.
    """
    try:
        if is_empty(path) and not os.path.exists(path):
            raise FileNotFoundError(path)
        return reader_at(path, older=True)
    except (sqlite3.Error, OSError) as error:
        raise translated(error, path) from error
