"""Presence of workers: one database session and one advisory lock per worker, taken before its first claim.

The server releases the lock of a killed worker at once. A worker that is suspended or cut off keeps its lock
but sends no heartbeat: another worker then ends all its sessions, and the fence of the store rejects its
later writes. Silence is measured by the clock of the server.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg

from hypergraph.checkpointers.postgres.address import address_of, split_schema
from hypergraph.checkpointers.postgres.errors import translated
from hypergraph.exceptions import HypergraphError
from hypergraph.integrations.dbos.cluster import session_address
from hypergraph.views.doctor import executor_in, lock_of, session_mark

logger = logging.getLogger("hypergraph.worker")

MAX_ID = 40  # characters; Postgres keeps 63 bytes of the name of a session
_SETTLING = 5.0  # seconds for the workers to replace the sessions that they lost together
_TAKEOVER = 3.0  # seconds a returning worker waits for a takeover that holds its lock

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
    """A live worker has this executor id; give each worker its own."""


def session_name(executor_id: str, schema: str) -> str:
    """Return the name of all database sessions of a worker, whose tables of DBOS are in a schema.

    Raises:
        ValueError: the executor id is invalid.
    """
    fits = executor_id.isascii() and executor_id.isprintable() and executor_id == executor_id.strip()
    if not executor_id or not fits or len(executor_id) > MAX_ID:
        raise ValueError(
            f"An executor id must be 1 to {MAX_ID} printable ASCII characters, got {executor_id!r}"
        )
    if executor_in(executor_id, "dbos") is None:
        raise ValueError(f"An executor id must not end with # and four digits, got {executor_id!r}")
    return f"hypergraph worker {executor_id}{session_mark(schema)}"


class Presence:
    """The lock and heartbeat of one worker, and takeovers from other workers of its application."""

    def __init__(self, dsn: str, application: str, executor_id: str, *, patience: float) -> None:
        self._schema = address_of(dsn).cluster_schema
        self._conninfo, _ = split_schema(session_address(dsn, session_name(executor_id, self._schema)))
        self._application = application
        self.executor_id = executor_id
        self.patience = patience
        self.losses = 0
        self._driver: psycopg.Connection[Any] | None = None
        self._lock = threading.Lock()
        self._is_over = False
        self._beaten = time.monotonic()
        self._lost_at = -_SETTLING

    @property
    def is_settling(self) -> bool:
        """Whether the session was lost a moment ago, and so perhaps those of all other workers."""
        return time.monotonic() - self._lost_at < _SETTLING

    @property
    def is_held(self) -> bool:
        """Whether the lock is held, as far as is known."""
        return self._driver is not None and not self._driver.closed

    def begin(self) -> None:
        """Take the lock.

        Raises:
            ExecutorInUseError: another worker holds it.
            CheckpointError: the server cannot be reached, or rejects the session.
        """
        try:
            with self._lock:
                self._open()
        except psycopg.Error as error:
            address = address_of(self._conninfo)
            raise translated(error, address.shown, address.secrets) from error

    def beat(self) -> None:
        """Send a heartbeat, in a new session if the last one was lost.

        Raises:
            ExecutorInUseError: another worker holds the lock now.
            psycopg.Error: the server cannot be reached.
        """
        with self._lock:
            try:
                self._open().execute("SELECT 1")
            except psycopg.Error:
                self._close()
                self.losses += 1
                self._lost_at = time.monotonic()
                self._open()
                self._lost_at = time.monotonic()
            self._beaten = time.monotonic()

    @property
    def age(self) -> float:
        """Seconds since the last heartbeat."""
        return time.monotonic() - self._beaten

    @contextmanager
    def takeover(self, executor_id: str) -> Iterator[bool]:
        """Yield whether a worker is dead.

        A dead worker's lock is held meanwhile: no other worker takes over, and the dead one cannot return.
        """
        key = lock_of(self._application, executor_id, self._schema)
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
        logger.warning("worker %s sent no heartbeat for %.1f s: ending its sessions", executor_id, holder[2])
        driver.execute(_END, [session_name(executor_id, self._schema)])
        deadline = time.monotonic() + 1
        while _holder(driver, key) is not None and time.monotonic() < deadline:
            time.sleep(0.01)

    def end(self) -> None:
        """Release the lock for good."""
        with self._lock:
            self._is_over = True
            self._close()

    def _open(self) -> psycopg.Connection[Any]:
        if self._driver is not None and not self._driver.closed:
            return self._driver
        if self._is_over:
            raise RuntimeError("the worker has stopped")
        driver = psycopg.connect(self._conninfo, autocommit=True)
        try:
            driver.execute("SET idle_session_timeout = 0; SET statement_timeout = '30s'")
            key = lock_of(self._application, self.executor_id, self._schema)
            give_up = time.monotonic() + _TAKEOVER
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
    where = f" (from {holder[1] or 'this host'}, last seen {holder[2]:.1f} s ago)" if holder else ""
    return ExecutorInUseError(
        f"Executor id {executor_id!r} is in use by a live worker{where}. Give each worker its own id; the "
        "id of a dead worker can be used again."
    )
