"""Questions in SQL about a SQLite store, over views whose columns are promised; nothing can be changed.

The connection is read-only three times: by the mode of the file, by `query_only`, and by an authorizer that
admits SELECT over the views alone. The tables below them are no part of the promise and cannot be read.
"""

from __future__ import annotations

import secrets
import sqlite3
from contextlib import closing
from typing import Any, TypedDict

from hypergraph.checkpointers import StepStatus
from hypergraph.checkpointers.errors import translated
from hypergraph.checkpointers.schema import INPUT, OUTPUT
from hypergraph.display import jsonable
from hypergraph.views.problems import REFUSED, USAGE, Problem
from hypergraph.views.readonly import read_only

_TIME = "strftime('%Y-%m-%dT%H:%M:%fZ', {column} / 1000000.0, 'unixepoch')"
_CREATED, _COMPLETED = _TIME.format(column="t.created_at"), _TIME.format(column="t.completed_at")
# The columns of each view, with what they are and where they come from; the documentation says the same.
VIEWS: dict[str, dict[str, tuple[str, str]]] = {
    "workflows": {
        "id": ("the id", "t.id"),
        "status": ("active, completed, failed, paused, stopped or partial", "t.status"),
        "graph": ("the name of the graph", "t.graph_name"),
        "created_at": ("when, ISO 8601 in UTC", _CREATED),
        "completed_at": ("when it ended", _COMPLETED),
        "duration_ms": ("the time it ran", "t.duration_ms"),
        "steps": ("how many", "(SELECT count(*) FROM main.steps AS s WHERE s.workflow = t.key)"),
        "parent": ("the workflow that it is a part of", "t.parent_id"),
        "node": ("the node of the parent that it is a run of", "t.node_name"),
        "item": ("of a map", "t.item"),
        "forked_from": ("the workflow whose history it began with", "t.forked_from"),
        "forked_at": ("up to which superstep", "t.forked_at"),
        "tags": ("as a JSON object", "coalesce(t.tags, '{}')"),
    },
    "steps": {
        "workflow": ("the id of the workflow", "w.id"),
        "superstep": ("the superstep", "t.superstep"),
        "step": ("the index, which counts over the workflow", "t.idx"),
        "node": ("the node", "t.node"),
        "status": (", ".join(status.value for status in StepStatus), "t.status"),
        "created_at": ("when it began, ISO 8601 in UTC", _CREATED),
        "completed_at": ("when it ended", _COMPLETED),
        "duration_ms": ("the time it took", "t.duration_ms"),
        "cached": ("1 if the cache had it", "t.cached"),
        "attempt": ("which attempt, from 1 on", "t.attempt"),
        "error_type": ("the type of the exception", "t.error_type"),
        "error": ("its message", "t.error"),
        "decision": ("of a gate, as JSON", "json_extract(t.extra, '$.decision')"),
        "child": ("the workflow of a nested graph", "json_extract(t.extra, '$.child_workflow_id')"),
    },
    "vals": {
        "workflow": ("the id of the workflow", "w.id"),
        "kind": (
            "output, input, or other: of steps that did not complete",
            f"CASE t.kind WHEN {OUTPUT} THEN 'output' WHEN {INPUT} THEN 'input' ELSE 'other' END",
        ),
        "name": ("the name of the value; empty for a question", "t.name"),
        "superstep": ("of its step; the one before which an input was given", "t.superstep"),
        "node": ("the node that made it; empty for inputs", "t.node"),
        "version": ("counts up with every new value", "t.version"),
        "format": ("how it is encoded; after a !, why it is not stored", "t.format"),
        "stored": ("1 if it is", "t.data IS NOT NULL"),
        "artifact": ("1 if it is outside of the file", "t.format LIKE '%@'"),
        "bytes": ("the size in the file", "coalesce(length(t.data), 0)"),
    },
}
_OWNER = " JOIN main.workflows AS w ON w.key = t.workflow"
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


class Rows(TypedDict):
    """What a question in SQL found."""

    schema: str  # hypergraph.sql/1
    columns: list[str]
    items: list[dict[str, Any]]  # by column; bytes as text
    truncated: bool  # there are more rows


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
        names = _distinct([column[0] for column in cursor.description])
    return {
        "schema": "hypergraph.sql/1",
        "columns": names,
        "items": [dict(zip(names, map(_plain, row), strict=True)) for row in found[:limit]],
        "truncated": len(found) > limit,
    }


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
        for view, columns in VIEWS.items():
            listed = ", ".join(f'{source} AS "{name}"' for name, (_, source) in columns.items())
            inner = guard.inner[view]
            source = f"main.{view} AS t{'' if view == 'workflows' else _OWNER}"
            connection.execute(f"CREATE TEMP VIEW {inner} AS SELECT {listed} FROM {source}")  # noqa: S608 - fixed names
            connection.execute(f"CREATE TEMP VIEW {view} AS SELECT * FROM temp.{inner}")  # noqa: S608 - as above
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


def _distinct(names: list[str]) -> list[str]:
    found: dict[str, None] = {}
    for name in names:
        chosen, count = jsonable(name), 1
        while chosen in found:
            count += 1
            chosen = f"{jsonable(name)}:{count}"
        found[chosen] = None
    return list(found)


def _plain(value: Any) -> Any:
    return jsonable(value.hex() if isinstance(value, bytes) else value)
