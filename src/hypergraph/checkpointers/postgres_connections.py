"""The connections of this process to one store: a few that are lent, and the session of its claims.

Nothing is opened before it is needed; whoever connects first prepares the tables. After a fork the child
opens its own.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any

from hypergraph.checkpointers import clock
from hypergraph.checkpointers.columns import EPOCH, MICROSECOND
from hypergraph.checkpointers.forking import watch
from hypergraph.checkpointers.postgres_address import Address
from hypergraph.checkpointers.postgres_driver import ADAPTERS, Driver, TransactionStatus, psycopg
from hypergraph.checkpointers.postgres_errors import translated
from hypergraph.checkpointers.postgres_schema import applied, check_server, migrate
from hypergraph.checkpointers.postgres_session import OwnerSession
from hypergraph.exceptions import CheckpointError, StoreUnavailableError

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
        """Begin anew in the child of a fork, without touching what belongs to the parent."""
        _PARENTS.extend((*self._readers, *self._writers, self.locks.forget()))
        self._readers.clear()
        self._writers.clear()
        self.lock = threading.RLock()
        self._permits = _permits()

    def drop_idle(self) -> None:
        """Close the connections that nobody uses."""
        _close_all(self._readers)
        _close_all(self._writers)


def connect(address: Address, settings: Mapping[str, str]) -> Driver:
    """Return a connection whose statements are about the tables of a store; raises the driver's errors."""
    driver = Driver.connect(
        address.conninfo, autocommit=True, cursor_factory=psycopg.RawCursor, context=ADAPTERS
    )
    try:
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
    """Close what nobody uses any more."""
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
