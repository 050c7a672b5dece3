"""Who lives: a session of the server that this process keeps open, which ends with it, or with the line.

The session holds one advisory lock, under a number that it drew, and every claim of this process carries
that number. Whether an owner lives is whether its number is locked. The server ends the session of a killed
client at once, and that of one behind a cut line when its keepalives go unanswered.

A session that was lost is replaced by another, and what this process still owns is put under its number,
unless somebody has taken it over meanwhile: the fence tells.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable

from hypergraph.checkpointers.locks import HOST
from hypergraph.checkpointers.postgres_driver import Driver, is_ready, psycopg

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
        self._held: set[tuple[int, int]] = set()
        self._lock = threading.Lock()

    @property
    def address(self) -> str:
        """What the row of a workflow says about an owner in this process: the host, and the number."""
        with self._lock:
            self._open()
            return f"{HOST} {self._number:x}"

    def hold(self, key: int, fence: int) -> None:
        """Add a claim to those that end with the session."""
        self._held.add((key, fence))

    def free(self, key: int, fence: int) -> None:
        """Drop a claim."""
        self._held.discard((key, fence))

    def holds(self, key: int, fence: int) -> bool:
        """Return whether the claim is one of this process."""
        return (key, fence) in self._held

    @property
    def in_use(self) -> bool:
        """Whether this process holds any claim."""
        return bool(self._held)

    def lives(self, key: int, fence: int, pid: int, address: str) -> bool:
        """Return whether the owner of that claim is still there; raises the driver's errors."""
        number = _number_in(address)
        with self._lock:
            driver = self._open()
            if number == self._number:
                return (key, fence) in self._held
            # Held until the statement ends, and shared: who asks does not disturb who else asks.
            row = driver.execute("SELECT pg_try_advisory_xact_lock_shared($1)", [number]).fetchone()
            return not (row and row[0])

    def check(self) -> None:
        """Begin a new session if this one was lost while it is needed; raises the driver's errors."""
        if self._held and self._driver is not None and _has_ended(self._driver):
            with self._lock:
                self._open()

    def close(self) -> None:
        """End the session unless a claim needs it."""
        with self._lock:
            if self._driver is not None and not self._held:
                self._driver.close()
                self._driver = None

    def end(self) -> None:
        """End the session, whoever needs it."""
        self._held.clear()
        self.close()

    def forget(self) -> Driver | None:
        """Begin anew in the child of a fork; return what belongs to the parent."""
        driver, self._driver = self._driver, None
        self._held.clear()
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
            if self._held:
                keys, fences = zip(*self._held, strict=True)
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
