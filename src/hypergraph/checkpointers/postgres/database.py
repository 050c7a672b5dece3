"""A Postgres database: sessions, connections and transactions."""

from __future__ import annotations

import os
import secrets
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Concatenate, ParamSpec, TypeVar

from hypergraph import clock
from hypergraph.checkpointers import fault_points
from hypergraph.checkpointers.os_fork import watch
from hypergraph.checkpointers.postgres import ahead, commits
from hypergraph.checkpointers.postgres.address import Address
from hypergraph.checkpointers.postgres.dialect import Connection
from hypergraph.checkpointers.postgres.driver import ADAPTERS, Driver, TransactionStatus, is_ready, psycopg
from hypergraph.checkpointers.postgres.errors import BAD_ROW, CLASHES, TROUBLE, is_lost, translated
from hypergraph.checkpointers.postgres.migrations import applied, check_server, migrate
from hypergraph.checkpointers.postgres.objects import check_objects
from hypergraph.checkpointers.records import Commit
from hypergraph.checkpointers.sql import writes
from hypergraph.checkpointers.sql.columns import EPOCH, MICROSECOND, micros
from hypergraph.checkpointers.sqlite.locks import HOST
from hypergraph.exceptions import CheckpointError, StoreUnavailableError

# Not by trying to lock it: two processes that ask at once would take each other for the owner.
_IS_HELD = """
SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 1
    AND classid::bigint = $1 AND objid::bigint = $2
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))
"""
# A session that waits is not ended for that, whatever the server is set to.
_FOR_OWNING = {"idle_session_timeout": "0", "statement_timeout": "30s", "lock_timeout": "30s"}
_LOOK = 5.0  # seconds between two looks at a session of which nothing is heard


class SuspectedOwnerError(psycopg.OperationalError):
    """The session of an owner is missing, and its process may be about to open another one."""

    def __init__(self, number: int) -> None:
        super().__init__("the session of the owner was lost")
        self.number = number


class OwnerSession:
    """The claims that this process holds on one store, and the session that shows them to others.

    A session holds a shared lock on a number, which stays the same when a lost session is replaced. A thread
    replaces it at once, so that a missing lock means a dead process after a grace period.
    """

    def __init__(self, connect: Callable[[], Driver]) -> None:
        self._connect = connect
        self._driver: Driver | None = None
        self._number = _new_number()
        self.held: set[tuple[int, int]] = set()  # key and fence of each claim
        self._beginning: set[tuple[int, int]] = set()  # the same of those that may be ours in a moment
        # Around every use of the driver. Reentrant: garbage that is collected meanwhile may end the session.
        self._lock = threading.RLock()
        self._keeper: threading.Thread | None = None
        self._is_over = False
        self._dead: set[int] = set()  # numbers whose grace period is over

    @property
    def address(self) -> str:
        """The text by which the row of a workflow names this process: the host, and the number."""
        return f"{HOST} {self._number:x}"

    def hold(self, key: int, fence: int) -> None:
        """Add a claim to those that end with the session."""
        self.held.add((key, fence))

    @contextmanager
    def beginning(self, key: int) -> Iterator[bool]:
        """Show the first claim of a workflow while it is taken; yield whether no other thread takes it."""
        first = (key, 1)
        with self._lock:
            is_alone = first not in self._beginning
            self._beginning.add(first)
        try:
            yield is_alone
        finally:
            if is_alone:
                self._beginning.discard(first)

    def free(self, key: int, fence: int) -> None:
        """Drop a claim."""
        self.held.discard((key, fence))

    def lives(self, key: int, fence: int, pid: int, address: str) -> bool:
        """Return whether the owner of that claim is alive; raises the driver's errors.

        Raises:
            SuspectedOwnerError: its session is missing, and the grace period is not over.
        """
        if self.is_shown(key, fence, address):
            return True
        number = _number_in(address)
        if number != self._number and number not in self._dead and not _is_gone(pid, address):
            raise SuspectedOwnerError(number)
        return False

    def is_shown(self, key: int, fence: int, address: str) -> bool:
        """Return whether the owner of that claim has a session now; raises the driver's errors."""
        number = _number_in(address)
        if number == self._number:
            return (key, fence) in self.held or (key, fence) in self._beginning
        return self._is_held(number)

    def outlasts(self, number: int, grace: float) -> None:
        """Wait until a missing session is back, or its owner counts as dead; raises the driver's errors."""
        give_up = time.monotonic() + grace
        while not self._is_held(number):
            if time.monotonic() > give_up:
                self._dead.add(number)
                return
            time.sleep(_PAUSE)

    def _is_held(self, number: int) -> bool:
        with self._lock:
            driver = self._driver
            if driver is None or driver.closed:
                raise psycopg.OperationalError("the session of this process was lost")
            row = driver.execute(_IS_HELD, [number >> 32, number & 0xFFFFFFFF]).fetchone()
        if row and row[0]:
            self._dead.discard(number)
            return True
        return False

    def open(self) -> None:
        """Open the session, again if it was lost; raises the driver's errors.

        This is done before a transaction begins: a transaction that waits for a connection would keep its
        locks meanwhile.
        """
        driver = self._driver
        if driver is None or _has_news(driver):
            with self._lock:
                self._open()

    def check(self) -> None:
        """Open the session again if it was lost while it is needed; raises the driver's errors."""
        if self.held:
            self.open()

    def close(self) -> None:
        """End the session unless a claim needs it."""
        with self._lock:
            if self._driver is not None and not self.held and not self._beginning:
                self._driver.close()
                self._driver = None

    def end(self) -> None:
        """End the session for good, with all claims."""
        self._is_over = True
        self.held.clear()
        self.close()

    def forget(self) -> Driver | None:
        """Start over in the child of a fork; return what belongs to the parent."""
        driver, self._driver = self._driver, None
        self.held.clear()
        self._beginning.clear()
        self._lock = threading.RLock()
        self._keeper, self._number = None, _new_number()
        return driver

    def _open(self) -> None:
        lost = self._driver
        if lost is not None:
            if not _has_ended(lost):
                return
            lost.close()  # but keep it: the thread ends without a driver, and has to try again
        driver = self._connect()
        try:
            # Shared: the server may not have noticed yet that the last session is gone.
            driver.execute("SELECT pg_advisory_lock_shared($1)", [self._number])
            if self._is_over:
                raise psycopg.OperationalError("the session of this process has ended")
        except BaseException:
            driver.close()
            raise
        self._driver = driver
        if self._keeper is None or not self._keeper.is_alive():
            self._keeper = threading.Thread(target=self._keep, name="hypergraph-owner", daemon=True)
            self._keeper.start()

    def _keep(self) -> None:
        """Replace the session as soon as it is lost, as long as it is needed."""
        while (driver := self._driver) is not None and self._keeper is threading.current_thread():
            try:
                if not driver.closed:
                    is_ready(driver.pgconn.socket, _LOOK)
                with self._lock:
                    if self._driver is not driver or not _has_ended(driver):
                        continue
                    if not self.held:
                        self._keeper = None  # the next claim opens another session
                        return
                    self._open()
            except (psycopg.Error, OSError, ValueError, CheckpointError):
                time.sleep(_PAUSE)


def _new_number() -> int:
    return secrets.randbits(62) | 1  # not 0


def _number_in(address: str) -> int:
    number = address.rpartition(" ")[2]
    try:
        return int(number, 16) & 0x7FFFFFFFFFFFFFFF
    except ValueError:
        return 0


def _is_gone(pid: int, address: str) -> bool:
    """Return whether a process is known to be dead: it was on this machine, and is not any more."""
    if address.partition(" ")[0] != HOST or not isinstance(pid, int) or not hasattr(os, "kill"):
        return False
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] in (b"Z", b"X")  # dead, and not yet forgotten
    except OSError:
        pass
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        pass
    return False


def _has_news(driver: Driver) -> bool:
    """Return whether a session that waits was closed or heard something, for instance of its end."""
    try:
        return bool(driver.closed or is_ready(driver.pgconn.socket, 0))
    except (psycopg.Error, OSError, ValueError):
        return True


def _has_ended(driver: Driver) -> bool:
    """Return whether the other side is gone.

    Callers hold the lock of the session: a statement during which another thread closes the connection may
    wait for ever, or crash the process.
    """
    try:
        if _has_news(driver):
            driver.execute("SELECT 1")  # it may have been but a notice
    except psycopg.Error:
        return True
    return False


_MOST = 10  # connections in use at a time, beside that of the session

# Statements that write go by keys: a plan that suits one value suits all, and need not be made again.
# None waits forever: a transaction that hangs, here or in another process, keeps its locks.
_FOR_WRITING = {
    "plan_cache_mode": "force_generic_plan",
    "lock_timeout": "30s",
    "statement_timeout": "300s",
    "idle_in_transaction_session_timeout": "60s",
}
_FOR_READING = "; ".join(f"RESET {name}" for name in _FOR_WRITING)
_TIME = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"

# Connections a forked child inherited: closing one here would end what the parent relies on.
_PARENTS: list[Any] = []


class Connections:
    """The connections to one store."""

    timeout = 30.0  # seconds to wait for a connection that others use

    def __init__(self, address: Address) -> None:
        self.address = address
        self.path = address.shown  # forks go by it
        self.locks = OwnerSession(partial(connect, address, {**dict(address.settings), **_FOR_OWNING}))
        self.settled: set[tuple[int, int]] = set()
        self.lock = threading.RLock()
        self._permits = _permits()
        self._readers: list[Driver] = []  # those that are idle; append and pop are atomic
        self._writers: list[Driver] = []
        self._behind = timedelta()  # by how much our clock is behind the server's
        self.is_ready = False
        watch(self)
        weakref.finalize(self, _end, self._readers, self._writers, self.locks)  # also when the program ends

    def now(self) -> datetime:
        """Return the time of the server, as far as it differs from ours by more than a question takes."""
        return clock.now() + self._behind

    @contextmanager
    def lend(self, *, writing: bool = False, either: bool = False) -> Iterator[Driver]:
        """Lend a connection; `either` takes one with the settings of the other kind, if that is idle."""
        idle = self._writers if writing or (either and not self._readers) else self._readers
        permits = self._permits
        try:
            permits.get(timeout=self.timeout)
        except Empty:
            raise StoreUnavailableError(
                f"All {_MOST} connections to {self.path} were in use for {self.timeout:.0f} s; try again.",
                location=self.path,
            ) from None
        driver = None
        try:
            try:
                driver = idle.pop()
            except IndexError:
                idle = self._writers if writing else self._readers
                driver = self._converted(writing) or self._opened(writing)
            yield driver
        finally:
            permits.put(None)
            if driver is not None:
                if driver.pgconn.transaction_status == TransactionStatus.IDLE:
                    idle.append(driver)
                else:
                    driver.close()

    def _converted(self, writing: bool) -> Driver | None:
        """Return an idle connection of the other kind with the settings of this one; None without one."""
        try:
            driver = (self._readers if writing else self._writers).pop()
        except IndexError:
            return None
        try:
            if writing:
                _set(driver, _FOR_WRITING)
            else:
                driver.execute(_FOR_READING)
        except BaseException:
            driver.close()
            raise
        return driver

    def _opened(self, writing: bool) -> Driver:
        driver = connect(self.address, {})
        try:
            if not self.is_ready:
                self._prepare(driver)
            if writing:  # not before: a migration may take long
                _set(driver, _FOR_WRITING)
        except BaseException:
            driver.close()
            raise
        return driver

    def _prepare(self, driver: Driver) -> None:
        with self.lock:
            if self.is_ready:
                return
            check_server(driver, self.path)
            self._check_pooler(driver)
            self._behind = _difference(driver)
            migrate(driver, _quoted(self.address.schema), self.path)
            self.is_ready = True

    def _check_pooler(self, driver: Driver) -> None:
        """Raise StoreUnavailableError behind a pooler that gives every transaction another session.

        A pooler in between is known by its own number for the session. One that keeps sessions is fine.
        """
        if _backend_pid(driver) == driver.info.backend_pid:
            return
        driver.execute("SELECT set_config('hypergraph.probe', 'kept', false)")
        other = connect(self.address, {})
        try:
            other.execute("BEGIN")
            other.execute("SELECT 1")  # takes the session that the first one has used, if that is shared
            found = driver.execute("SELECT current_setting('hypergraph.probe', true)").fetchone()
        finally:
            other.close()
        if not found or found[0] != "kept":
            raise StoreUnavailableError(
                f"The store {self.path} is behind a pooler that shares sessions between transactions. Locks "
                "and prepared statements need sessions: give the direct address of the server, or set the "
                "pooler to pool_mode=session.",
                location=self.path,
            )

    def find_version(self) -> int | None:
        """Return the version of the tables, None without any. Raises the driver's errors, and ours."""
        driver = connect(self.address, {})
        try:
            check_server(driver, self.path)
            return applied(driver, self.path)
        finally:
            driver.close()

    def close(self) -> None:
        """Close every connection, but the session that claims need; the next use opens what it needs."""
        self.drop_idle()
        self.locks.close()

    def translated(self, error: Exception, location: str | None = None) -> CheckpointError:
        """Return our error for one of the driver's."""
        return translated(error, location or self.path, self.address.secrets)

    def forget(self) -> None:
        """Start over in the child of a fork, without touching what belongs to the parent."""
        _PARENTS.extend((*self._readers, *self._writers, self.locks.forget()))
        self._readers.clear()
        self._writers.clear()
        self.lock = threading.RLock()
        self._permits = _permits()

    def drop_idle(self) -> None:
        """Close the idle connections."""
        _close_all(self._readers)
        _close_all(self._writers)


def connect(address: Address, settings: Mapping[str, str]) -> Driver:
    """Return a connection whose statements are about the tables of a store; raises the driver's errors."""
    driver = Driver.connect(
        address.conninfo, autocommit=True, cursor_factory=psycopg.RawCursor, context=ADAPTERS
    )
    try:
        check_objects(driver, address.schema, address.shown)
        _set(driver, {"search_path": _quoted(address.schema), **settings})
    except BaseException:
        driver.close()
        raise
    return driver


def _backend_pid(driver: Driver) -> int:
    row = driver.execute("SELECT pg_backend_pid()").fetchone()
    return int(row[0]) if row else 0


def _set(driver: Driver, settings: Mapping[str, str]) -> None:
    calls = ", ".join(f"set_config(${2 * n + 1}, ${2 * n + 2}, false)" for n in range(len(settings)))
    driver.execute(f"SELECT {calls}", [part for pair in settings.items() for part in pair])


def _permits() -> SimpleQueue[None]:
    """Return one permit per connection: a queue takes a tenth of the time of a semaphore."""
    permits: SimpleQueue[None] = SimpleQueue()
    for _ in range(_MOST):
        permits.put(None)
    return permits


def _close_all(drivers: list[Driver]) -> None:
    with suppress(IndexError):  # another thread may take the last one
        while True:
            drivers.pop().close()


def _end(readers: list[Driver], writers: list[Driver], session: OwnerSession) -> None:
    """Close the idle connections and the session."""
    _close_all(readers)
    _close_all(writers)
    session.end()


def _difference(driver: Driver) -> timedelta:
    """Return by how much the server's clock is ahead of ours, nothing if it may be right."""
    asked = datetime.now(UTC)
    row = driver.execute(_TIME).fetchone()
    heard = datetime.now(UTC)
    theirs = EPOCH + row[0] * MICROSECOND if row else asked
    return timedelta() if asked <= theirs <= heard else theirs - asked - (heard - asked) / 2


def _quoted(schema: str) -> str:
    return '"' + schema.replace('"', '""') + '"'


P = ParamSpec("P")
T = TypeVar("T")

_TRIES = 5  # of a transaction that clashes with others
_PAUSE = 0.1  # seconds between attempts to reach a server that is gone
_READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"


class _Unknown(Exception):
    """The connection was lost together with a commit."""


class Database(Connections):
    """The transactions of this process on one store; stores of the same address share it."""

    patience = 15.0  # seconds to wait for a server that was there and is gone
    grace = 5.0  # seconds for an owner that may be alive to replace its lost session
    bad_row = BAD_ROW

    def write(self, work: Callable[[Connection], T], *, full: bool = False) -> T:
        """Return what the work returns, once everything it wrote is committed; every commit is `full`.

        Raises:
            CheckpointError: the store failed, or the work refused; nothing was written, unless it says so.
        """
        with self._ours():
            return self._transact(work)

    def read(self, work: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return what the work returns, called with these arguments; all it reads is of one moment.

        Raises:
            CheckpointError: the store failed.
        """
        return self._read(lambda connection: work(connection, *args, **kwargs), "COMMIT")

    def execute(self, sql: str, values: Sequence[str | None]) -> str | None:
        """Return the text that one statement returns, None if it returns no row.

        It writes, is a transaction by itself, and has numbered placeholders for texts. If the connection is
        lost it is executed again, whether it counted or not.

        Raises:
            CheckpointError: the store failed.
        """
        given = [None if value is None else value.encode() for value in values]

        def work() -> str | None:
            with self.lend(writing=True) as driver:
                found = driver.quickly(sql, given)
                return found.get_value(0, 0).decode() if found.ntuples else None

        with self._ours():
            return self._patiently(work)

    def ask(self, work: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return what the work returns, which reads by keys with one statement: that needs no transaction.

        Raises:
            CheckpointError: the store failed.
        """

        def look() -> T:
            with self.lend(either=True) as driver:
                return work(Connection(driver, ""), *args, **kwargs)

        with self._ours():
            return self._patiently(look)

    def inspect(self, work: Callable[[Connection], T]) -> T:
        """Return what the work reads; temporary views and settings that it makes are gone afterwards.

        Raises:
            CheckpointError: the store failed.
        """
        return self._read(work, "ROLLBACK")

    def _read(self, work: Callable[[Connection], T], end: str) -> T:
        def look() -> T:
            with self.lend() as driver:
                connection = Connection(driver, _READ)
                try:
                    found = work(connection)
                except BaseException:
                    connection.end("ROLLBACK")
                    raise
                connection.end(end)  # what was prepared stays after a commit
                return found

        with self._ours():
            return self._patiently(look)

    def open_session(self) -> None:
        """Open the session that shows the claims of this process; raises CheckpointError when that fails."""
        with self._ours():
            self._patiently(self.locks.open)

    def release_all(self) -> None:
        """Release all claims of this process; raises CheckpointError when the store failed."""
        held = list(self.locks.held)
        if held:
            with self._ours():
                self._transact(lambda connection: connection.executemany(connection.dialect.release, held))
            for key, fence in held:
                self.locks.free(key, fence)

    def begin(self, key: int) -> bool:
        """Take a workflow that was stored ahead; return whether it is ours now, under the fence 1.

        Raises:
            CheckpointError: the store failed.
        """
        locks = self.locks
        with self._ours():
            self._patiently(locks.open)
            with locks.beginning(key) as is_alone:
                is_ours = is_alone and self._begin(key)
                if is_ours:
                    locks.hold(key, 1)
        return is_ours

    def _begin(self, key: int) -> bool:
        if fault_points.hook is not None:
            fault_points.point("write.before_commit")
        given = ahead.begin_values(key, os.getpid(), self.locks.address, micros(self.now()) or 0)
        try:
            with self.lend(writing=True) as driver:
                is_ours = bool(driver.quickly(ahead.BEGIN, given).ntuples)
        except psycopg.Error as error:
            if not is_lost(error) and error.sqlstate not in CLASHES:
                raise
            self.drop_idle()
            return False  # the next claim finds it free, or given up by this process
        if fault_points.hook is not None:
            fault_points.point("write.after_commit")
        return is_ours

    def commit(self, unit: Commit) -> None:
        """Write one unit of a claim; raises CheckpointError when that is refused or the store failed."""
        found = commits.statements(unit, self.now)
        with self._ours():
            self._patiently(self.locks.check)
            try:
                if found is None or not self._at_once(found):
                    self._transact(lambda connection: writes.commit(connection, unit, self))
            except _Unknown:
                self._find_out(unit)

    def transact(self, work: Callable[[Connection], None], found: Sequence[tuple[Commit, Any]]) -> None:
        """Do the work in a transaction, once: it calls a user's function, and adds the commit to `found`.

        Raises:
            CheckpointError: the store failed; nothing was written.
        """
        with self._ours():
            self._patiently(self.locks.check)
            try:
                self._try(work)
            except _Unknown:
                unit = found[-1][0]
                if not self._transact(lambda connection: commits.is_written(connection, unit)):
                    raise

    def commit_together(self, units: Sequence[Commit]) -> bool | None:
        """Write all units in one transaction, or none; return whether they are written, None if unknown.

        Raises:
            CheckpointError: the store failed.
        """
        found: list[commits.Statement] = []
        for unit in units:
            of_unit = commits.statements(unit, self.now)
            if of_unit is None:
                return False
            found += of_unit
        with self._ours():
            self._patiently(self.locks.check)
            try:
                return self._at_once(found)
            except _Unknown:
                return None

    def find_out(self, unit: Commit) -> None:
        """Write one unit of a claim, unless it is written; raises CheckpointError as `commit` does."""
        with self._ours():
            self._find_out(unit)

    def _find_out(self, unit: Commit) -> None:
        give_up = time.monotonic() + self.patience
        while True:
            try:
                self._transact(lambda connection: commits.confirm(connection, unit, self))
                return
            except _Unknown:
                if time.monotonic() > give_up:
                    raise

    def _at_once(self, statements: Sequence[commits.Statement]) -> bool:
        """Commit statements in one round trip; return whether they were accepted.

        Raises:
            _Unknown: the connection was lost.
        """
        try:
            with self.lend(writing=True) as driver:
                if fault_points.hook is not None:
                    fault_points.point("write.before_commit")
                _execute(driver, statements)
        except psycopg.Error as error:
            if is_lost(error):
                self.drop_idle()
                raise _Unknown from error
            if error.sqlstate in commits.REFUSED or error.sqlstate in CLASHES:
                return False
            raise
        if fault_points.hook is not None:
            fault_points.point("write.after_commit")
        return True

    def _transact(self, work: Callable[[Connection], T]) -> T:
        for attempt in range(1, _TRIES + 1):
            try:
                return self._patiently(lambda: self._try(work))
            except psycopg.Error as error:
                if error.sqlstate not in CLASHES or attempt == _TRIES:
                    raise
        raise AssertionError("unreachable")

    def _try(self, work: Callable[[Connection], T]) -> T:
        while True:
            try:
                return self._try_once(work)
            except SuspectedOwnerError as suspected:  # its locks are released by now
                self.locks.outlasts(suspected.number, self.grace)

    def _try_once(self, work: Callable[[Connection], T]) -> T:
        self.locks.open()
        with self.lend(writing=True) as driver:
            connection = Connection(driver, "BEGIN")
            if fault_points.hook is not None:
                fault_points.point("write.begun")
            try:
                result = work(connection)
                if fault_points.hook is not None:
                    fault_points.point("write.before_commit")
            except BaseException:
                connection.end("ROLLBACK")
                raise
            try:
                connection.end("COMMIT")
            except psycopg.Error as error:
                if is_lost(error):
                    self.drop_idle()
                    raise _Unknown from error
                raise
        if fault_points.hook is not None:
            fault_points.point("write.after_commit")
        return result

    def _patiently(self, call: Callable[[], T]) -> T:
        """Call something that can be called again as long as it has not returned; wait for a lost server."""
        give_up = time.monotonic() + self.patience if self.is_ready else 0.0
        pause = 0.0  # the first time, only the connection may have been stale
        while True:
            try:
                return call()
            except psycopg.Error as error:
                if not is_lost(error) or time.monotonic() > give_up:
                    raise
                self.drop_idle()
            time.sleep(pause)
            pause = _PAUSE

    def version(self) -> int | None:
        """Return the version of the tables, None without any. Raises CheckpointError when that fails."""
        with self._ours():
            return self.find_version()

    def open(self) -> None:
        """Connect and prepare the tables now; raises CheckpointError when that fails."""
        with self._ours(), self.lend(writing=True):
            pass

    @contextmanager
    def _ours(self) -> Iterator[None]:
        """Raise only errors of the package."""
        try:
            yield
        except _Unknown as unknown:
            raise StoreUnavailableError(
                f"The connection to {self.path} was lost in the middle of a commit, and it is not known "
                "whether it counts. Try again once the server is there: nothing is written twice.",
                location=self.path,
            ) from unknown.__cause__
        except TROUBLE as error:
            raise self.translated(error) from error

    def __reduce__(self) -> tuple[Callable[[Address], Database], tuple[Address]]:
        return database_at, (self.address,)


def _execute(driver: Driver, statements: Sequence[commits.Statement]) -> None:
    if len(statements) == 1 and driver.knows(statements[0].text):
        driver.quickly(statements[0].text, statements[0].encoded())
        return
    with driver.pipeline():
        driver.execute("BEGIN")
        for found in statements:
            driver.execute(found.text, found.values, prepare=True)
        driver.execute("COMMIT")


def database_at(address: Address) -> Database:
    """Return this process's database for the address, the same one as long as it is in use."""
    with _REGISTRY_LOCK:
        found = _BY_ADDRESS.get(address)
        if found is None:
            found = _BY_ADDRESS[address] = Database(address)
        return found


_BY_ADDRESS: weakref.WeakValueDictionary[Address, Database] = weakref.WeakValueDictionary()
_REGISTRY_LOCK = threading.Lock()


def _in_child() -> None:
    global _REGISTRY_LOCK  # noqa: PLW0603 - another thread of the parent may have held it
    _REGISTRY_LOCK = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
