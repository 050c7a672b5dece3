"""Protocols of a database, its connections and locks, as the shared statements use them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from hypergraph.checkpointers.sql.dialect import Dialect
from hypergraph.exceptions import CheckpointError

P = ParamSpec("P")
T = TypeVar("T")


class Rows(Protocol):
    """The result of a statement."""

    @property
    def rowcount(self) -> int:
        """How many rows were written."""

    def fetchone(self) -> Any:
        """Return the next row, None after the last."""

    def fetchall(self) -> list[Any]:
        """Return all rows."""

    def __iter__(self) -> Iterator[Any]: ...


class Connection(Protocol):
    """A connection inside of a transaction."""

    dialect: Dialect  # the statements that differ

    def execute(self, sql: str, parameters: Any = ..., /) -> Rows:
        """Execute one statement."""

    def executemany(self, sql: str, parameters: Iterable[Any], /) -> object:
        """Execute one statement for each set of parameters, at the latest when the transaction ends."""

    def has(self, name: str) -> bool:
        """Return whether a table or index of RARE exists; without it, nothing of its kind is stored."""

    def make(self, name: str) -> None:
        """Make a table or index of RARE with what belongs to it, unless it exists."""


class Locks(Protocol):
    """The claims that this process holds, and the liveness of others."""

    held: set[tuple[int, int]]  # key and fence of each claim of this process

    @property
    def address(self) -> str:
        """The text by which the row of a workflow names this process, beside its number."""

    def hold(self, key: int, fence: int) -> None:
        """Show other processes that the owner of a new claim is alive."""

    def free(self, key: int, fence: int) -> None:
        """Drop a claim."""

    def lives(self, key: int, fence: int, pid: int, address: str) -> bool:
        """Return whether the owner of that claim is alive."""


class Database(Protocol):
    """The connections of this process to one database."""

    path: str  # the file, or the address without its password
    settled: set[tuple[int, int]]  # claims whose workflow has an end on record
    bad_row: tuple[type[Exception], ...]  # errors in what is written, not in the database

    @property
    def locks(self) -> Locks:
        """The claims of this process."""

    def now(self) -> datetime:
        """Return the time that rows are written with."""

    def write(self, work: Callable[[Connection], T], *, full: bool = False) -> T:
        """Return what the work returns, once everything it wrote is committed."""

    def read(self, work: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return what the work returns, called with these arguments; all it reads is of one moment."""

    def ask(self, work: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return what the work returns, called with these arguments; it executes one statement."""

    def translated(self, error: Exception, location: str | None = None) -> CheckpointError:
        """Return our error for one of the driver's."""

    def open(self) -> None:
        """Open and prepare the database now."""

    def close(self) -> None:
        """Close every connection; the next use opens what it needs."""
