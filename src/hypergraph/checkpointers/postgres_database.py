"""One store in a Postgres database as this process uses it: transactions that survive a lost connection.

Writes are transactions of one function each. A connection that was lost before anything was committed is
replaced and the work done again; where the loss came with the commit, nobody knows whether it counts, and
that is an error, except for commits of a claim: those can be found out, because only we may have made them.
A server that answered once is waited for a while. Every failure comes out as one of our errors.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from hypergraph.checkpointers import points, postgres_commits, sql_writes
from hypergraph.checkpointers.commits import Commit
from hypergraph.checkpointers.postgres_address import Address
from hypergraph.checkpointers.postgres_connections import Connections
from hypergraph.checkpointers.postgres_dialect import Connection
from hypergraph.checkpointers.postgres_driver import Driver, psycopg
from hypergraph.checkpointers.postgres_errors import BAD_ROW, CLASHES, TROUBLE, is_lost
from hypergraph.exceptions import StoreUnavailableError

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

    def write(self, work: Callable[[Connection], T], *, full: bool = False) -> T:
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
        found = postgres_commits.statements(unit, self.now)
        with self._ours():
            self._patiently(self.locks.check)
            try:
                if found is None or not self._at_once(found):
                    self._transact(lambda connection: sql_writes.commit(connection, unit, self.now))
            except _Unknown:
                self._find_out(unit)

    def commit_together(self, units: Sequence[Commit]) -> bool | None:
        """Write all units in one transaction, or none; return whether they are written, None if unknown.

        Raises:
            CheckpointError: the store failed.
        """
        found: list[postgres_commits.Statement] = []
        for unit in units:
            of_unit = postgres_commits.statements(unit, self.now)
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
                self._transact(lambda connection: postgres_commits.confirm(connection, unit, self.now))
                return
            except _Unknown:
                if time.monotonic() > give_up:
                    raise

    def _at_once(self, statements: Sequence[postgres_commits.Statement]) -> bool:
        """Commit statements in one round trip; return whether they were accepted.

        Raises:
            _Unknown: the connection was lost.
        """
        try:
            with self.lend(writing=True) as driver:
                if points.hook is not None:
                    points.point("write.before_commit")
                _execute(driver, statements)
        except psycopg.Error as error:
            if is_lost(error):
                self.drop_idle()
                raise _Unknown from error
            if error.sqlstate in postgres_commits.REFUSED or error.sqlstate in CLASHES:
                return False
            raise
        if points.hook is not None:
            points.point("write.after_commit")
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
            if points.hook is not None:
                points.point("write.begun")
            try:
                result = work(connection)
                if points.hook is not None:
                    points.point("write.before_commit")
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
        if points.hook is not None:
            points.point("write.after_commit")
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
        """Let nothing but our errors out."""
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


def _execute(driver: Driver, statements: Sequence[postgres_commits.Statement]) -> None:
    if len(statements) == 1 and driver.knows(statements[0].text):
        driver.quickly(statements[0].text, statements[0].encoded())
        return
    with driver.pipeline():
        driver.execute("BEGIN")
        for found in statements:
            driver.execute(found.text, found.values, prepare=True)
        driver.execute("COMMIT")


def database_at(address: Address) -> Database:
    """Return this process's database for the address, the same one as long as somebody uses it."""
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
