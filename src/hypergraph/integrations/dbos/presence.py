"""Who lives: a session of the server with one advisory lock for each worker, taken before it takes work.

The server frees the lock of a worker that was killed at once. One that was stopped, or cut off, keeps its
lock and says nothing: whoever finds that out ends all its sessions, and what it still writes is refused by
the fence of the store. The server's clock tells how long somebody has been silent.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hypergraph.checkpointers.postgres.address import address_of
from hypergraph.checkpointers.postgres.errors import translated
from hypergraph.exceptions import HypergraphError
from hypergraph.integrations.dbos.calls import named, psycopg
from hypergraph.views.doctor import lock_of

logger = logging.getLogger("hypergraph.worker")

MAX_ID = 40  # Postgres keeps 63 bytes of the name of a session
_MOURNING = 3.0  # seconds in which whoever takes over may hold the lock of a worker that comes back

_HOLDER = """
SELECT a.pid, a.client_addr, extract(epoch FROM clock_timestamp() - a.state_change)::float8
FROM pg_locks l JOIN pg_stat_activity a USING (pid)
WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1 AND a.datname = current_database()
  AND l.classid = %s AND l.objid = %s
"""
_END = """
SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
WHERE application_name = %s AND datname = current_database() AND pid <> pg_backend_pid()
"""


class ExecutorInUseError(HypergraphError):
    """Another worker with this executor id lives; give every worker an id of its own."""


def session_name(executor_id: str) -> str:
    """Return the name of all sessions of a worker.

    Raises:
        ValueError: it cannot be the id of a worker.
    """
    fits = executor_id.isascii() and executor_id.isprintable() and executor_id == executor_id.strip()
    if not executor_id or not fits or len(executor_id) > MAX_ID:
        raise ValueError(f"An executor id is 1 to {MAX_ID} printable ASCII characters, got {executor_id!r}")
    return f"hypergraph worker {executor_id}"


class Presence:
    """The lock of one worker, and what it can find out about the others of the same application."""

    def __init__(self, dsn: str, application: str, executor_id: str, *, patience: float) -> None:
        self._conninfo = named(dsn, session_name(executor_id))
        self._application = application
        self.executor_id = executor_id
        self.patience = patience
        self.losses = 0
        self._driver: psycopg.Connection[Any] | None = None
        self._lock = threading.Lock()
        self._is_over = False
        self._beaten = time.monotonic()

    def begin(self) -> None:
        """Take the lock.

        Raises:
            ExecutorInUseError: another worker has it.
            CheckpointError: the server cannot be reached, or refuses.
        """
        try:
            with self._lock:
                self._open()
        except psycopg.Error as error:
            address = address_of(self._conninfo, "hypergraph")
            raise translated(error, address.shown, address.secret) from error

    def beat(self) -> None:
        """Say that this worker lives, in a new session if the last one was lost.

        Raises:
            ExecutorInUseError: another worker has the lock by now.
            psycopg.Error: the server cannot be reached.
        """
        with self._lock:
            try:
                self._open().execute("SELECT 1")
            except psycopg.OperationalError:
                self._close()
                self.losses += 1
                self._open()
            self._beaten = time.monotonic()

    @property
    def age(self) -> float:
        """Seconds since this worker was last seen to live."""
        return time.monotonic() - self._beaten

    @contextmanager
    def mourning(self, executor_id: str) -> Iterator[bool]:
        """Tell whether a worker is dead; if so, nobody else mourns it, and it cannot come back meanwhile."""
        key = lock_of(self._application, executor_id)
        with self._lock:
            driver = self._open()
            is_dead = _try_lock(driver, key)
            if not is_dead:
                self._end_silent(driver, key, executor_id)
                is_dead = _try_lock(driver, key)
            try:
                yield is_dead
            finally:
                if is_dead:
                    driver.execute("SELECT pg_advisory_unlock(%s)", [key])

    def _end_silent(self, driver: psycopg.Connection[Any], key: int, executor_id: str) -> None:
        holder = _holder(driver, key)
        if holder is None or holder[2] < self.patience:
            return
        logger.warning("worker %s has been silent for %.1f s: ending its sessions", executor_id, holder[2])
        driver.execute(_END, [session_name(executor_id)])
        deadline = time.monotonic() + 1
        while _holder(driver, key) is not None and time.monotonic() < deadline:
            time.sleep(0.01)

    def end(self) -> None:
        """Free the lock, for good."""
        with self._lock:
            self._is_over = True
            self._close()

    def _open(self) -> psycopg.Connection[Any]:
        if self._driver is not None and not self._driver.closed:
            return self._driver
        if self._is_over:
            raise RuntimeError("this worker has ended")
        driver = psycopg.connect(self._conninfo, autocommit=True)
        try:
            key, give_up = lock_of(self._application, self.executor_id), time.monotonic() + _MOURNING
            while not _try_lock(driver, key):
                if time.monotonic() > give_up:
                    raise _in_use(driver, key, self.executor_id)
                time.sleep(0.05)
        except BaseException:
            driver.close()
            raise
        self._driver = driver
        return driver

    def _close(self) -> None:
        if self._driver is not None:
            self._driver.close()
            self._driver = None


def _try_lock(driver: psycopg.Connection[Any], key: int) -> bool:
    row = driver.execute("SELECT pg_try_advisory_lock(%s)", [key]).fetchone()
    return bool(row and row[0])


def _holder(driver: psycopg.Connection[Any], key: int) -> tuple[int, Any, float] | None:
    found: tuple[int, Any, float] | None = driver.execute(_HOLDER, [key >> 32, key & 0xFFFFFFFF]).fetchone()
    return found


def _in_use(driver: psycopg.Connection[Any], key: int, executor_id: str) -> ExecutorInUseError:
    holder = _holder(driver, key)
    where = f" (from {holder[1] or 'this host'}, seen {holder[2]:.1f} s ago)" if holder else ""
    return ExecutorInUseError(
        f"A worker with the executor id {executor_id!r} lives{where}. Give every worker an id of its own; "
        "a worker that died can be started again under its old one."
    )
