"""A Postgres database: sessions, connections and transactions."""

from __future__ import annotations

import os
import secrets
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from hypergraph.checkpointers import clock, fault_points
from hypergraph.checkpointers.os_fork import watch
from hypergraph.checkpointers.postgres import commits
from hypergraph.checkpointers.postgres.address import Address
from hypergraph.checkpointers.postgres.dialect import Connection
from hypergraph.checkpointers.postgres.driver import ADAPTERS, Driver, TransactionStatus, is_ready, psycopg
from hypergraph.checkpointers.postgres.errors import BAD_ROW, CLASHES, TROUBLE, is_lost, translated
from hypergraph.checkpointers.postgres.migrations import applied, check_server, migrate
from hypergraph.checkpointers.postgres.objects import check_objects
from hypergraph.checkpointers.records import Commit
from hypergraph.checkpointers.sql import writes
from hypergraph.checkpointers.sql.columns import EPOCH, MICROSECOND
from hypergraph.checkpointers.sqlite.locks import HOST
from hypergraph.exceptions import CheckpointError, StoreUnavailableError

_MOVE = """
UPDATE workflows SET owner_host = $1 FROM unnest($2::bigint[], $3::bigint[]) AS mine (key, fence)
WHERE workflows.key = mine.key AND workflows.fence = mine.fence AND owner_pid IS NOT NULL
"""


class OwnerSession:
    """The claims that this process holds on one store, and the session that says so."""

    def __init__(self, connect: Callable[[], Driver]) -> None:
        self._connect = connect
        self._driver: Driver | None = None
        self._number = 0
        self.held: set[tuple[int, int]] = set()  # key and fence of each claim
        self._lock = threading.Lock()

    @property
    def address(self) -> str:
        """What the row of a workflow says about an owner in this process: the host, and the number."""
        with self._lock:
            self._open()
            return f"{HOST} {self._number:x}"

    def hold(self, key: int, fence: int) -> None:
        """Add a claim to those that end with the session."""
        self.held.add((key, fence))

    def free(self, key: int, fence: int) -> None:
        """Drop a claim."""
        self.held.discard((key, fence))

    def lives(self, key: int, fence: int, pid: int, address: str) -> bool:
        """Return whether the owner of that claim is still there; raises the driver's errors."""
        number = _number_in(address)
        with self._lock:
            driver = self._open()
            if number == self._number:
                return (key, fence) in self.held
            # Held until the statement ends, and shared: processes that ask do not disturb each other.
            row = driver.execute("SELECT pg_try_advisory_xact_lock_shared($1)", [number]).fetchone()
            return not (row and row[0])

    def check(self) -> None:
        """Begin a new session if this one was lost while it is needed; raises the driver's errors."""
        if self.held and self._driver is not None and _has_ended(self._driver):
            with self._lock:
                self._open()

    def close(self) -> None:
        """End the session unless a claim needs it."""
        with self._lock:
            if self._driver is not None and not self.held:
                self._driver.close()
                self._driver = None

    def end(self) -> None:
        """End the session, with all claims."""
        self.held.clear()
        self.close()

    def forget(self) -> Driver | None:
        """Start over in the child of a fork; return what belongs to the parent."""
        driver, self._driver = self._driver, None
        self.held.clear()
        self._lock = threading.Lock()
        return driver

    def _open(self) -> Driver:
        if self._driver is not None and not _has_ended(self._driver):
            return self._driver
        if self._driver is not None:
            self._driver.close()
            self._driver = None
        driver = self._connect()
        try:
            number = secrets.randbits(62)
            driver.execute("SELECT pg_advisory_lock($1)", [number])
            if self.held:
                keys, fences = zip(*self.held, strict=True)
                driver.execute(_MOVE, [f"{HOST} {number:x}", list(keys), list(fences)])
        except BaseException:
            driver.close()
            raise
        self._driver, self._number = driver, number
        return driver


def _number_in(address: str) -> int:
    number = address.rpartition(" ")[2]
    try:
        return int(number, 16)
    except ValueError:
        return 0


def _has_ended(driver: Driver) -> bool:
    """Return whether the other side is gone: a session that waits hears nothing, unless it is ended."""
    if driver.closed:
        return True
    try:
        if is_ready(driver.pgconn.socket, 0):
            driver.execute("SELECT 1")  # it may have been but a notice
    except (psycopg.Error, OSError, ValueError):
        return True
    return False


_MOST = 10  # connections in use at a time, beside that of the session

# Statements that write go by keys: a plan that suits one value suits all, and need not be made again.
_FOR_WRITING = {"plan_cache_mode": "force_generic_plan"}
_TIME = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"

# Connections a forked child inherited: closing one here would end what the parent relies on.
_PARENTS: list[Any] = []


class Connections:
    """The connections to one store."""

    timeout = 30.0  # seconds to wait for a connection that others use

    def __init__(self, address: Address) -> None:
        self.address = address
        self.path = address.shown  # forks go by it
        self.locks = OwnerSession(partial(connect, address, dict(address.settings)))
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
    def lend(self, *, writing: bool = False) -> Iterator[Driver]:
        """Lend a connection."""
        idle = self._writers if writing else self._readers
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
                driver = self._opened(writing)
            yield driver
        finally:
            permits.put(None)
            if driver is not None:
                if driver.pgconn.transaction_status == TransactionStatus.IDLE:
                    idle.append(driver)
                else:
                    driver.close()

    def _opened(self, writing: bool) -> Driver:
        driver = connect(self.address, _FOR_WRITING if writing else {})
        try:
            if not self.is_ready:
                self._prepare(driver)
        except BaseException:
            driver.close()
            raise
        return driver

    def _prepare(self, driver: Driver) -> None:
        with self.lock:
            if self.is_ready:
                return
            check_server(driver, self.path)
            self._behind = _difference(driver)
            migrate(driver, _quoted(self.address.schema), self.path)
            self.is_ready = True

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
        return translated(error, location or self.path, self.address.secret)

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
        wanted = {"search_path": _quoted(address.schema), **settings}
        calls = ", ".join(f"set_config(${2 * n + 1}, ${2 * n + 2}, false)" for n in range(len(wanted)))
        driver.execute(f"SELECT {calls}", [part for pair in wanted.items() for part in pair])
    except BaseException:
        driver.close()
        raise
    return driver


def _permits() -> SimpleQueue[None]:
    """Return one permit per connection: a queue takes a tenth of the time of a semaphore."""
    permits: SimpleQueue[None] = SimpleQueue()
    for _ in range(_MOST):
        permits.put(None)
    return permits


def _close_all(drivers: list[Driver]) -> None:
    while drivers:
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


T = TypeVar("T")

_TRIES = 5  # of a transaction that clashes with others
_PAUSE = 0.1  # seconds between attempts to reach a server that is gone
_READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"


class _Unknown(Exception):
    """The connection was lost together with a commit."""


class Database(Connections):
    """The transactions of this process on one store; stores of the same address share it."""

    patience = 15.0  # seconds to wait for a server that was there and is gone
    bad_row = BAD_ROW

    def write(self, work: Callable[[Connection], T], *, full: bool = False, look: bool = True) -> T:
        """Return what the work returns, once everything it wrote is committed; every commit is `full`.

        Raises:
            CheckpointError: the store failed, or the work refused; nothing was written, unless it says so.
        """
        with self._ours():
            return self._transact(work)

    def read(self, work: Callable[[Connection], T]) -> T:
        """Return what the work returns; all it reads is of one moment.

        Raises:
            CheckpointError: the store failed.
        """

        def look() -> T:
            with self.lend() as driver:
                connection = Connection(driver, _READ)
                try:
                    return work(connection)
                finally:
                    connection.end("ROLLBACK")

        with self._ours():
            return self._patiently(look)

    def commit(self, unit: Commit) -> None:
        """Write one unit of a claim; raises CheckpointError when that is refused or the store failed."""
        found = commits.statements(unit, self.now)
        with self._ours():
            self._patiently(self.locks.check)
            try:
                if found is None or not self._at_once(found):
                    self._transact(lambda connection: writes.commit(connection, unit, self.now))
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
                self._transact(lambda connection: commits.confirm(connection, unit, self.now))
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
