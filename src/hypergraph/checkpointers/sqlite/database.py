"""A SQLite file: one connection that writes, under a lock, and readers.

SQLite's locks on a file belong to the process: closing any other handle of the file frees them all, and
another process would then delete the log that is in use here. So the file is opened by SQLite alone.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import weakref
from collections.abc import Callable
from time import monotonic, sleep
from typing import Concatenate, ParamSpec, TypeVar

from hypergraph.checkpointers import fault_points
from hypergraph.checkpointers.errors import BAD_ROW, translated
from hypergraph.checkpointers.os_fork import watch
from hypergraph.checkpointers.sql.columns import Row
from hypergraph.checkpointers.sqlite import usual
from hypergraph.checkpointers.sqlite.locks import LockFile
from hypergraph.checkpointers.sqlite.migrations import migrate, missing_migrations
from hypergraph.checkpointers.sqlite.reading import (
    INTERRUPTIBLE,
    TIMEOUT,
    Connection,
    check_before_writing,
    connect,
    is_busy,
    is_complete,
    patiently,
    reader_at,
)
from hypergraph.clock import now
from hypergraph.exceptions import (
    CheckpointError,
    StoreUnavailableError,
    TransactionError,
    warn_caller,
)

P = ParamSpec("P")
T = TypeVar("T")

_IDLE_READERS = 4
_LOOK = 0.005  # seconds after which a commit looks for the file again; the last one of a run always does
_PATIENCE = 2.0  # seconds to wait for another process without a warning
_TROUBLE = (sqlite3.Error, OSError, OverflowError, UnicodeError)


def _no_end() -> bool:
    """Let a statement continue; Python has seen an interrupt before this is called."""
    return False


def _at_one_moment(
    connection: Connection,
    work: Callable[Concatenate[Connection, P], T],
    /,
    *args: P.args,
    **kwargs: P.kwargs,
) -> T:
    connection.execute("BEGIN")
    result = work(connection, *args, **kwargs)
    connection.execute("COMMIT")
    return result


class Locked(Exception):
    """Another connection is writing, and the caller does not wait."""


class Database:
    """The connections of this process to one file; stores on the same file share it."""

    timeout = TIMEOUT  # seconds to wait for another process that writes
    bad_row = BAD_ROW
    now = staticmethod(now)

    def __init__(self, path: str) -> None:
        self.path = path
        self.locks = LockFile(path + "-lock")
        self.settled: set[tuple[int, int]] = set()  # claims whose workflow has an end on record
        self.lock = threading.RLock()
        self._writer: Connection | None = None
        self._idle: list[Connection] = []  # append and pop are atomic
        self._identity: tuple[int, int] | None = None  # which file is open: a path may come to mean another
        self._log: tuple[int, int] | None = None  # which log the writer appends to
        self._log_path = path + "-wal"
        self._looked = 0.0  # when the file at the path was last looked at
        watch(self)

    def write(
        self, work: Callable[[Connection], T], *, full: bool = False, wait: bool = True, look: bool = True
    ) -> T:
        """Return what the work returns, once everything it wrote is committed.

        A `full` commit survives a power loss, and so does every commit before it. Without `wait`, it raises
        Locked where it would wait for another connection or thread. Without `look`, it looks for the file
        every few milliseconds only.

        Raises:
            CheckpointError: the store failed, or the work refused; nothing was written.
            TransactionError: this thread is in the function of a node with a transaction, which goes on.
        """
        if not self.lock.acquire(blocking=wait):
            raise Locked
        connection = None
        try:
            self._refuse_inside()
            if look or monotonic() - self._looked > _LOOK:
                self.refresh()
            connection = self._writer or self._open_writer()
            if full:
                connection.execute("PRAGMA synchronous = FULL")
            try:
                connection.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError as error:
                self._begin_later(connection, error, wait)
            if fault_points.hook is not None:
                fault_points.point("write.begun")
            result = work(connection)
            if fault_points.hook is not None:
                fault_points.point("write.before_commit")
            connection.execute("COMMIT")
            if fault_points.hook is not None:
                fault_points.point("write.after_commit")
            if full:
                connection.execute("PRAGMA synchronous = NORMAL")
        except BaseException as error:
            self._undo(connection, full)
            if connection is not None and connection.interrupted(error):
                raise KeyboardInterrupt from error
            if isinstance(error, _TROUBLE):
                raise translated(error, self.path) from error
            raise
        finally:
            self.lock.release()
        return result

    def _refuse_inside(self) -> None:
        """Raise TransactionError amid a transaction: the caller has the lock, so it is one of this thread."""
        if self._writer is not None and self._writer.in_transaction:
            raise TransactionError(
                f"Nothing else can be written to {self.path} inside of a transaction. Write through "
                "context.connection, or call the store in a node before or after the one with "
                "transaction=True."
            )

    def write_usual(self, claim: tuple[int, int], row: Row) -> bool:
        """Write one usual commit under a claim, unless anything is in the way; return whether it is durable.

        Where it is not, nothing was written, and `write` finds out why.

        Raises:
            CheckpointError: another file is at the path by now.
        """
        if not self.lock.acquire(blocking=False):
            return False
        try:
            if monotonic() - self._looked > _LOOK:
                self.refresh()
            connection = self._writer
            if connection is None or connection.in_transaction or claim not in self.locks.held:
                return False
            if fault_points.hook is not None:
                fault_points.point("write.begun")
                fault_points.point("write.before_commit")
            try:
                connection.execute(usual.WRITE, row)
            except _TROUBLE as error:
                if connection.interrupted(error):
                    raise KeyboardInterrupt from error
                return False
            if fault_points.hook is not None:
                fault_points.point("write.after_commit")
        finally:
            self.lock.release()
        return True

    def is_locked(self) -> bool:
        """Return whether another connection or thread is writing now."""
        if not self.lock.acquire(blocking=False):
            return True
        try:
            if self._writer is None or self._writer.in_transaction:
                return False
            self._writer.execute("BEGIN IMMEDIATE")
            self._writer.execute("ROLLBACK")
        except sqlite3.Error as error:
            return is_busy(error)  # of anything else the write itself informs
        finally:
            self.lock.release()
        return False

    def _begin_later(self, connection: Connection, error: sqlite3.OperationalError, wait: bool) -> None:
        """Begin to write once other connections allow it.

        Raises Locked where this thread does not wait, and the error that it was given if that is another one.
        """
        started, pause, is_told = monotonic(), 0.001, False
        while True:
            waited = monotonic() - started
            if not is_busy(error) or (wait and waited >= self.timeout):
                raise error
            if not wait:
                raise Locked
            if waited > _PATIENCE and not is_told:
                is_told = True
                warn_caller(
                    f"{self.path} has been locked by another process for {_PATIENCE:g} s; this one waits up "
                    f"to {self.timeout:g} s (lock_timeout)."
                )
            sleep(min(pause, max(self.timeout - waited, 0.0)))
            pause = min(pause * 2, 0.05)
            try:
                connection.execute("BEGIN IMMEDIATE")
                return
            except sqlite3.OperationalError as later:
                error = later

    def read(self, work: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return what the work returns, called with these arguments; all it reads is of one moment.

        Raises:
            CheckpointError: the store failed.
        """
        return self.ask(_at_one_moment, work, *args, **kwargs)

    def ask(self, work: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return what the work returns, called with these arguments; it executes one statement.

        Raises:
            CheckpointError: the store failed.
        """
        connection = None
        try:
            connection = self._take_reader()
            if connection.budget is not None:
                connection.budget.renew()
            result = work(connection, *args, **kwargs)
            if connection.unlocked is not None:
                connection.check_unchanged(self.path)
        except BaseException as error:
            if connection is not None:
                connection.close()
                if connection.interrupted(error):
                    raise KeyboardInterrupt from error
            if isinstance(error, _TROUBLE):
                raise translated(error, self.path) from error
            raise
        if connection.is_kept and len(self._idle) < _IDLE_READERS:
            self._idle.append(connection)
        else:
            connection.close()
        return result

    def translated(self, error: Exception, location: str | None = None) -> CheckpointError:
        """Return our error for one of the driver's or the system's."""
        return translated(error, location or self.path)

    def open(self) -> None:
        """Open and prepare the file now; raises CheckpointError when that fails."""
        with self.lock:
            try:
                _ = self._writer or self._open_writer()
            except _TROUBLE as error:
                raise translated(error, self.path) from error

    def recover(self) -> bool:
        """Create the file, or finish what a crashed program left half done; return whether that was needed.

        Readers do neither. Raises CheckpointError when that fails.
        """
        if self._writer is not None:
            return False
        try:
            if is_complete(self.path):
                self.ask(lambda connection: None)  # opens a reader, which is kept for what follows
                return False
        except StoreUnavailableError:
            pass  # an older release, or a half-written file: opening it for writing repairs it or raises
        except OSError as error:
            raise translated(error, self.path) from error
        self.open()
        return True

    def close(self) -> None:
        """Close every connection; the next use opens what it needs."""
        with self.lock:
            while self._idle:
                self._idle.pop().close()
            if self._writer is not None:
                self._writer.close()
                self._writer = None
            self._identity = None
            self.locks.close()

    def copy_to(self, path: str) -> None:
        """Write a compact copy, as of one moment; raises FileExistsError rather than overwrite anything."""
        create_private(path, exist_ok=False)
        connection = reader_at(self.path, self.timeout)
        connection.execute("PRAGMA query_only = OFF")  # the new file is written; this one is opened read-only
        try:
            connection.execute("VACUUM INTO ?", (path,))
        except BaseException as error:
            os.unlink(path)
            if connection.interrupted(error):
                raise KeyboardInterrupt from error
            raise
        finally:
            connection.close()

    def refresh(self) -> None:
        """Close a file that is no longer the one at this path: what is written to it would be lost.

        Raises:
            StoreUnavailableError: a claim on that file is under way.
        """
        gone = self._gone()
        if gone is not None:
            if self.locks.held:
                raise StoreUnavailableError(
                    f"{gone} was removed or replaced while a workflow was being written to it. "
                    "Put the file back, or run the workflow again on the new one.",
                    location=self.path,
                )
            self.close()

    def _gone(self) -> str | None:
        """Return the path that no longer means the file we have open: the database, or the writer's log."""
        self._looked = monotonic()
        if self._identity is not None and self._identity != identity(self.path):
            return self.path
        is_written = self._writer is not None and self._log is not None
        return self._log_path if is_written and self._log != identity(self._log_path) else None

    def forget(self) -> None:
        """Start over in the child of a fork, without touching what belongs to the parent."""
        self.lock = threading.RLock()
        _PARENTS.extend(self._idle)
        if self._writer is not None:
            _PARENTS.append(self._writer)
        self._writer, self._idle, self._identity = None, [], None
        self.settled.clear()
        self.locks.forget()

    def _open_writer(self) -> Connection:
        check_before_writing(self.path)
        create_private(self.path)
        connection = patiently(self._prepared_writer, self.timeout)
        self._identity, self._log = identity(self.path), identity(self._log_path)
        self._writer = connection
        return connection

    def _prepared_writer(self, timeout: float) -> Connection:
        connection = connect(self.path, timeout)
        connection.set_progress_handler(_no_end, INTERRUPTIBLE)
        try:
            # Before anything is changed: the file may be another program's or of a newer release.
            missing = missing_migrations(connection, self.path)
            if missing:
                connection.execute("PRAGMA auto_vacuum = INCREMENTAL")  # counts before the first table only
            self._use_wal(connection)
            if missing:
                migrate(connection, self.path)
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute("PRAGMA busy_timeout = 0")  # `write` waits, and can give up
            connection.execute("PRAGMA temp_store = MEMORY")
            for statement in usual.MAKE:
                connection.execute(statement)
        except BaseException as error:
            connection.close()
            if connection.interrupted(error):
                raise KeyboardInterrupt from error
            raise
        return connection

    def _use_wal(self, connection: Connection) -> None:
        give_up = monotonic() + self.timeout
        while True:
            try:
                connection.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError as error:
                # Another process is creating the file; this one pragma does not wait by itself.
                if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or monotonic() > give_up:
                    raise

    def _take_reader(self) -> Connection:
        if self._identity is not None and self._identity != identity(self.path):
            self.refresh()
        try:
            return self._idle.pop()
        except IndexError:
            return self.open_reader()

    def open_reader(self) -> Connection:
        """Return a connection of one's own, which can neither write nor checkpoint; close it in the end."""
        connection = reader_at(self.path, self.timeout)
        if connection.is_kept:
            self._identity = self._identity or identity(self.path)
        return connection

    def _undo(self, connection: Connection | None, full: bool) -> None:
        if connection is None:
            return
        try:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            if full:
                connection.execute("PRAGMA synchronous = NORMAL")
        except sqlite3.Error:
            connection.close()  # whatever state it is in; the next write opens a fresh one
            self._writer = None

    def __reduce__(self) -> tuple[Callable[[str], Database], tuple[str]]:
        return database_at, (self.path,)

    def __del__(self) -> None:
        try:
            self.close()
        except Exception:  # noqa: S110 - the interpreter is about to end: names of this module may be gone
            pass


def database_at(path: str) -> Database:
    """Return this process's database for the file, the same one as long as it is in use."""
    real = os.path.realpath(path)
    with _REGISTRY_LOCK:
        found = _BY_PATH.get(real)
        if found is None:
            found = _BY_PATH[real] = Database(real)
        return found


_BY_PATH: weakref.WeakValueDictionary[str, Database] = weakref.WeakValueDictionary()
_REGISTRY_LOCK = threading.Lock()

# Connections a forked child inherited: closing one here would release what the parent relies on.
_PARENTS: list[Connection] = []


def _in_child() -> None:
    global _REGISTRY_LOCK  # noqa: PLW0603 - another thread of the parent may have held it
    _REGISTRY_LOCK = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)


def create_private(path: str, *, exist_ok: bool = True) -> None:
    """Create a file that only its user can read; raises FileExistsError unless it may exist."""
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o600)
    except FileExistsError:
        if exist_ok:
            return
        raise
    try:
        if hasattr(os, "fchmod"):
            os.fchmod(file, 0o600)  # whatever the umask; SQLite gives its other files the same mode
    finally:
        os.close(file)


def identity(path: str) -> tuple[int, int] | None:
    """Return which file a path means, None if there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino
