"""Questions in SQL about a SQLite store, over views whose columns are promised; nothing can be changed.

The connection is read-only three times: by the mode of the file, by `query_only`, and by an authorizer that
admits SELECT over the views alone. The tables below them are no part of the promise and cannot be read.
`sql_postgres` answers for Postgres.
"""

from __future__ import annotations

import secrets
import sqlite3
from contextlib import closing

from hypergraph.checkpointers.errors import translated
from hypergraph.views.problems import REFUSED, USAGE, Problem
from hypergraph.views.readonly import read_only
from hypergraph.views.sql_views import VIEWS, Rows, answer, selection

_READS = frozenset(
    {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
)
_UNWANTED = frozenset({"load_extension", "fts3_tokenizer", "writefile", "readfile", "edit"})
_TABLE_FUNCTIONS = frozenset({"json_each", "json_tree"})
_TROUBLE = frozenset(
    {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_BUSY}
)
_PRIMARY = 0xFF  # the low byte of a result code; the rest refines it
_EVERY = 20_000  # instructions after which somebody may interrupt


def rows(path: str, statement: str, *, limit: int) -> Rows:
    """Return the rows of a SELECT over the views, at most so many.

    Raises:
        Problem: the statement makes no sense, or does anything but read; nothing was changed.
        CheckpointError: the file cannot be read, or is no store.
        KeyboardInterrupt: somebody interrupted it.
    """
    guard = _Guard()
    with closing(_connection(path, guard)) as connection:
        try:
            cursor = connection.execute(statement)
            found = cursor.fetchmany(limit + 1)
        except (sqlite3.Error, sqlite3.Warning, ValueError) as error:  # also of texts that are none
            raise _problem(error, guard, path) from error
        if cursor.description is None:
            raise Problem(USAGE, "This is no question: give a SELECT")
        names = [column[0] for column in cursor.description]
    return answer(names, found, limit)


class _Guard:
    """Admits what reads the views, and remembers whether it refused anything.

    Each view stands on another one that alone may read the tables. Its name cannot be guessed: a query may
    give any name to a part of itself, and SQLite tells of such parts as it tells of views.
    """

    def __init__(self) -> None:
        self.inner = {view: f"{view}_{secrets.token_hex(8)}" for view in VIEWS}
        self._own = {*VIEWS, *self.inner.values()}
        self._readers = frozenset(self.inner.values())
        self.refused = False

    def __call__(self, action: int, first: str | None, second: str | None, *where: str | None) -> int:
        if action in _READS and self._is_read(action, first, second, *where):
            return sqlite3.SQLITE_OK
        self.refused = True
        return sqlite3.SQLITE_DENY

    def _is_read(
        self, action: int, first: str | None, second: str | None, database: str | None, view: str | None
    ) -> bool:
        if action == sqlite3.SQLITE_FUNCTION:
            return (second or "").lower() not in _UNWANTED
        if action != sqlite3.SQLITE_READ or second == "":  # rows are counted, and nothing is read
            return True
        return (
            view in self._readers or (database != "main" and first in self._own) or first in _TABLE_FUNCTIONS
        )


def _connection(path: str, guard: _Guard) -> sqlite3.Connection:
    connection = read_only(path)
    try:
        for view, inner in guard.inner.items():
            connection.execute(f"CREATE TEMP VIEW {inner} AS {selection(view, 'main')}")
            connection.execute(f"CREATE TEMP VIEW {view} AS SELECT * FROM temp.{inner}")  # noqa: S608 - fixed names
        for function in _TABLE_FUNCTIONS:  # made on first use, which the authorizer would not admit
            connection.execute(f"SELECT 1 FROM {function}('[]')")  # noqa: S608 - fixed names
        connection.execute("PRAGMA query_only = ON")
        connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        connection.set_authorizer(guard)
        connection.set_progress_handler(_notice, _EVERY)
    except sqlite3.Error as error:
        connection.close()
        raise translated(error, path) from error
    except BaseException:
        connection.close()
        raise
    return connection


def _notice() -> int:
    """Let Python notice that somebody interrupts; SQLite goes on."""
    return 0


def _problem(error: Exception, guard: _Guard, path: str) -> BaseException:
    code = getattr(error, "sqlite_errorcode", None) or 0
    if code == sqlite3.SQLITE_INTERRUPT:
        return KeyboardInterrupt()
    if guard.refused or "cannot modify" in str(error) or code & _PRIMARY == sqlite3.SQLITE_READONLY:
        hint = f"Only SELECT over {', '.join(VIEWS)} is admitted"
        return Problem(REFUSED, f"refused: {error}; nothing was changed", hint)
    if code & _PRIMARY in _TROUBLE:
        return translated(error, path)
    return Problem(USAGE, f"SQLite says: {error}", "hypergraph sql --help lists the views and their columns")
