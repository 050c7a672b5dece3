"""SQL queries over documented views."""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, NamedTuple, TypedDict

from hypergraph.checkpointers import StepStatus
from hypergraph.checkpointers.errors import translated
from hypergraph.checkpointers.sqlite.database import read_only
from hypergraph.checkpointers.sqlite.migrations import INPUT, OUTPUT
from hypergraph.display import jsonable
from hypergraph.views.problems import REFUSED, USAGE, Problem


class Column(NamedTuple):
    """A column of a view: what it is, and where it comes from; `{schema}` is that of the tables."""

    what: str
    sqlite: str
    different: str = ""  # where Postgres says it in another way

    @property
    def postgres(self) -> str:
        """Where it comes from in Postgres."""
        return self.different or self.sqlite


def _time(what: str, column: str) -> Column:
    seconds = f"t.{column} / 1000000.0"
    return Column(
        what,
        f"strftime('%Y-%m-%dT%H:%M:%fZ', {seconds}, 'unixepoch')",
        f"""to_char(to_timestamp({seconds}) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')""",
    )


def _extra(what: str, name: str) -> Column:
    return Column(what, f"json_extract(t.extra, '$.{name}')", f"t.extra::json ->> '{name}'")


def _flag(what: str, condition: str) -> Column:
    return Column(what, condition, f"({condition})::int")


# The columns of each view, with what they are and where they come from; the documentation says the same.
VIEWS: dict[str, dict[str, Column]] = {
    "workflows": {
        "id": Column("the id", "t.id"),
        "status": Column("active, completed, failed, paused, stopped or partial", "t.status"),
        "graph": Column("the name of the graph", "t.graph_name"),
        "created_at": _time("when, ISO 8601 in UTC", "created_at"),
        "completed_at": _time("when it ended", "completed_at"),
        "duration_ms": Column("the time it ran", "t.duration_ms"),
        "steps": Column("how many", "(SELECT count(*) FROM {schema}.steps AS s WHERE s.workflow = t.key)"),
        "parent": Column("the workflow that it is a part of", "t.parent_id"),
        "node": Column("the node of the parent that it is a run of", "t.node_name"),
        "item": Column("of a map", "t.item"),
        "forked_from": Column("the workflow whose history it began with", "t.forked_from"),
        "forked_at": Column("up to which superstep", "t.forked_at"),
        "tags": Column("as a JSON object", "coalesce(t.tags, '{}')"),
    },
    "steps": {
        "workflow": Column("the id of the workflow", "w.id"),
        "superstep": Column("the superstep", "t.superstep"),
        "step": Column("the index, which counts over the workflow", "t.idx"),
        "node": Column("the node", "t.node"),
        "status": Column(", ".join(status.value for status in StepStatus), "t.status"),
        "created_at": _time("when it began, ISO 8601 in UTC", "created_at"),
        "completed_at": _time("when it ended", "completed_at"),
        "duration_ms": Column("the time it took", "t.duration_ms"),
        "cached": _flag("1 if the cache had it", "t.cached"),
        "attempt": Column("which attempt, from 1 on", "t.attempt"),
        "error_type": Column("the type of the exception", "t.error_type"),
        "error": Column("its message", "t.error"),
        "decision": _extra("of a gate, as JSON", "decision"),
        "child": _extra("the workflow of a nested graph", "child_workflow_id"),
    },
    "vals": {
        "workflow": Column("the id of the workflow", "w.id"),
        "kind": Column(
            "output, input, or other: of steps that did not complete",
            f"CASE t.kind WHEN {OUTPUT} THEN 'output' WHEN {INPUT} THEN 'input' ELSE 'other' END",
        ),
        "name": Column("the name of the value; empty for a question", "t.name"),
        "superstep": Column("of its step; the one before which an input was given", "t.superstep"),
        "node": Column("the node that made it; empty for inputs", "t.node"),
        "version": Column("counts up with every new value", "t.version"),
        "format": Column("how it is encoded; after a !, why it is not stored", "t.format"),
        "stored": _flag("1 if it is", "t.data IS NOT NULL"),
        "artifact": _flag("1 if it is outside of the database", "t.format LIKE '%@'"),
        "bytes": Column("the size in the database", "coalesce(length(t.data), 0)"),
    },
}


class Rows(TypedDict):
    """What a question in SQL found."""

    schema: str  # hypergraph.sql/1
    columns: list[str]
    items: list[dict[str, Any]]  # by column; bytes as text
    truncated: bool  # there are more rows


def selection(view: str, schema: str, *, postgres: bool = False) -> str:
    """Return the statement behind a view, over the tables of a schema, which is quoted already."""
    listed = ", ".join(
        f'{column.postgres if postgres else column.sqlite} AS "{name}"'
        for name, column in VIEWS[view].items()
    )
    owner = "" if view == "workflows" else " JOIN {schema}.workflows AS w ON w.key = t.workflow"
    text = f"SELECT {listed} FROM {{schema}}.{view} AS t{owner}"  # noqa: S608 - fixed names
    return text.replace("{schema}", schema)


def answer(names: Iterable[str], found: Sequence[Sequence[Any]], limit: int) -> Rows:
    """Return the rows that were found; one more than the limit says that there are more."""
    columns = _distinct(names)
    return {
        "schema": "hypergraph.sql/1",
        "columns": columns,
        "items": [dict(zip(columns, map(_plain, row), strict=True)) for row in found[:limit]],
        "truncated": len(found) > limit,
    }


def _distinct(names: Iterable[str]) -> list[str]:
    found: dict[str, None] = {}
    for name in names:
        chosen, count = jsonable(name), 1
        while chosen in found:
            count += 1
            chosen = f"{jsonable(name)}:{count}"
        found[chosen] = None
    return list(found)


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        value = value.hex()
    elif isinstance(value, Decimal):
        value = int(value) if value == value.to_integral_value() else float(value)
    elif isinstance(value, date | datetime | time):
        value = value.isoformat()
    elif not isinstance(value, bool | int | float | str | list | dict | None):
        value = str(value)  # what else Postgres knows: intervals, addresses, ranges
    return jsonable(value)


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
