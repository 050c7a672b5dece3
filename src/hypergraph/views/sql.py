"""SQL queries over documented views; a query can read, and nothing else.

A SQLite file is opened read-only, with an authorizer that admits the views alone.

On Postgres, privileges cannot restrict a query to the views: a user who may read them may read the tables,
and a function can change privileges while the query runs. So the server parses the query first, as a
temporary view, whose definition lists every table and function by number. The query then runs in a read-only
transaction, as part of the SELECT of a cursor, which admits no write and no second statement. The server ends
it after a timeout, and everything is rolled back.
"""

from __future__ import annotations

import re
import secrets
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, NamedTuple, TypedDict

from hypergraph.checkpointers import StepStatus
from hypergraph.display import jsonable
from hypergraph.exceptions import CheckpointError
from hypergraph.views.database import (
    VALUE_KIND,
    FileConnection,
    SqlStore,
    file_error,
    file_of_store,
    opened_file,
)
from hypergraph.views.problems import REFUSED, USAGE, Problem

_ONLY_SELECT = "Only SELECT statements are allowed"
_HELP = "Views and their columns: hypergraph sql --help"


class Column(NamedTuple):
    """A column of a view: its description and its SQL; `{schema}` is the schema of the tables."""

    what: str
    sqlite: str
    different: str = ""  # the SQL of Postgres, if it differs

    @property
    def postgres(self) -> str:
        """The SQL of Postgres."""
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


# The columns of each view; the documentation lists the same.
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
        "key": Column("of an item of a map with a key", "t.fingerprint"),
        "forked_from": Column("the workflow whose history it began with", "t.forked_from"),
        "forked_at": Column("up to which superstep", "t.forked_at"),
        "tags": Column("as a JSON object", "coalesce(t.tags, '{}')"),
        "version": Column(
            "of the code that ran it last; it is pinned to that until it has completed", "t.version"
        ),
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
            "output, input, inner: a step inside of a node, signal, summary: of the steps so far, for a "
            "resume, or other: of steps that did not complete",
            VALUE_KIND,
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
    "usage": {
        "workflow": Column("the id of the workflow", "w.id"),
        "superstep": Column("the superstep", "t.superstep"),
        "node": Column("the node that recorded it", "t.node"),
        "step": Column("the key of its inner step; empty for the node itself", "t.step"),
        "name": Column("what was used, like cost", "t.name"),
        "amount": Column("how much", "t.amount"),
    },
}


_DIGITS = 300  # of a number


class Rows(TypedDict):
    """Rows of a query."""

    schema: str  # hypergraph.sql/1
    columns: list[str]
    items: list[dict[str, Any]]  # by column; bytes as text
    truncated: bool  # there are more rows


def rows(store: SqlStore, statement: str, *, limit: int) -> Rows:
    """Return the rows of a SELECT over the views, at most `limit`.

    Raises:
        Problem: the statement is invalid, does not only read, or takes too long; nothing is changed.
        CheckpointError: the store cannot be read.
        KeyboardInterrupt: the query was interrupted.
    """
    path = file_of_store(store)
    return _server_rows(store, statement, limit) if path is None else _file_rows(path, statement, limit)


def selection(view: str, schema: str, *, postgres: bool = False) -> str:
    """Return the SELECT of a view over the tables of a schema, which is quoted already."""
    listed = ", ".join(
        f'{column.postgres if postgres else column.sqlite} AS "{name}"'
        for name, column in VIEWS[view].items()
    )
    # With a condition SQLite counts row by row, which can be interrupted.
    owner = " WHERE TRUE" if view == "workflows" else " JOIN {schema}.workflows AS w ON w.key = t.workflow"
    text = f"SELECT {listed} FROM {{schema}}.{view} AS t{owner}"  # noqa: S608 - fixed names
    return text.replace("{schema}", schema)


def _nothing(view: str) -> str:
    """Return the SELECT of a view whose table is made on first use, before that."""
    columns = ", ".join(f'NULL AS "{name}"' for name in VIEWS[view])
    return f"SELECT {columns} WHERE FALSE"


def answer(names: Iterable[str], found: Sequence[Sequence[Any]], limit: int) -> Rows:
    """Return the answer; one row more than the limit says that there are more."""
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
        value = _number(value)
    elif isinstance(value, date | datetime | time):
        value = value.isoformat()
    elif not isinstance(value, bool | int | float | str | list | dict | None):
        value = str(value)  # other types of Postgres: intervals, addresses, ranges
    return jsonable(value)


def _number(value: Decimal) -> int | float | str:
    if not value.is_finite():
        return str(value)
    if abs(value.adjusted()) > _DIGITS:  # as an int it may be very long
        return format(value, "e")
    return int(value) if value == value.to_integral_value() else float(value)


# --- SQLite ---------------------------------------------------------------------------------------

_READS = frozenset(
    {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
)
_FORBIDDEN_FUNCTIONS = frozenset({"load_extension", "fts3_tokenizer", "writefile", "readfile", "edit"})
_TABLE_FUNCTIONS = frozenset({"json_each", "json_tree"})
_TROUBLE = frozenset(
    {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_BUSY}
)
_PRIMARY = 0xFF  # the low byte of a result code; the rest refines it
_PATIENCE = 10  # times the instructions of other reads: about half a minute in a small file


def _file_rows(path: str, statement: str, limit: int) -> Rows:
    guard = _Guard()
    with _guarded(path, guard) as connection:
        try:
            cursor = connection.execute(statement)
            found = cursor.fetchmany(limit + 1)
        except (sqlite3.Error, sqlite3.Warning, ValueError) as error:  # ValueError: not valid text
            if connection.interrupted(error):
                raise KeyboardInterrupt from error
            raise _sqlite_problem(error, guard, path) from error
        if cursor.description is None:
            raise Problem(USAGE, _ONLY_SELECT)
        names = [column[0] for column in cursor.description]
    return answer(names, found, limit)


class _Guard:
    """Authorizer that admits reads of the views, and remembers whether it refused anything.

    Each view is built on an inner one that alone may read the tables. The inner name cannot be guessed: a
    query can name its own subqueries freely, and SQLite reports them to the authorizer as it reports views.
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
            return (second or "").lower() not in _FORBIDDEN_FUNCTIONS
        if action != sqlite3.SQLITE_READ or second == "":  # count(*) reads no column
            return True
        return (
            view in self._readers or (database != "main" and first in self._own) or first in _TABLE_FUNCTIONS
        )


@contextmanager
def _guarded(path: str, guard: _Guard) -> Iterator[FileConnection]:
    """Yield a connection that can read the views and nothing else."""
    with opened_file(path) as connection:
        try:
            connection.execute("PRAGMA query_only = OFF")  # temporary views are written, too
            for view, inner in guard.inner.items():
                found = selection(view, "main") if connection.has(view) else _nothing(view)
                connection.execute(f"CREATE TEMP VIEW {inner} AS {found}")
                connection.execute(f"CREATE TEMP VIEW {view} AS SELECT * FROM temp.{inner}")  # noqa: S608 - fixed names
            for function in _TABLE_FUNCTIONS:  # created on first use, which the authorizer would refuse
                connection.execute(f"SELECT 1 FROM {function}('[]')")  # noqa: S608 - fixed names
            connection.execute("PRAGMA query_only = ON")
            connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
            connection.set_authorizer(guard)
            if connection.budget is not None:
                connection.budget.renew(_PATIENCE)
        except sqlite3.Error as error:
            raise file_error(error, path) from error
        yield connection


def _sqlite_problem(error: Exception, guard: _Guard, path: str) -> BaseException:
    code = getattr(error, "sqlite_errorcode", None) or 0
    if code == sqlite3.SQLITE_INTERRUPT:
        return Problem(REFUSED, "The query took too long and was cancelled", "Narrow it down")
    if guard.refused or "cannot modify" in str(error) or code & _PRIMARY == sqlite3.SQLITE_READONLY:
        return _refused(str(error))
    if code & _PRIMARY in _TROUBLE:
        return file_error(error, path)
    return Problem(USAGE, f"Invalid query: {error}", _HELP)


# --- Postgres -------------------------------------------------------------------------------------

SECONDS = 30  # that a query may take
_FIRST_WORD = re.compile(r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/|\()*(\w*)", re.DOTALL)
# First words of other statements, for which the error of the server would not help.
_COMMANDS = re.compile(
    "abort|alter|analyze|begin|call|checkpoint|close|cluster|comment|commit|copy|create|deallocate|declare|"
    "delete|discard|do|drop|end|execute|explain|fetch|grant|import|insert|listen|load|lock|merge|move|notify|"
    "prepare|reassign|refresh|reindex|release|reset|revoke|rollback|savepoint|security|set|show|start|"
    "truncate|unlisten|update|vacuum"
)
# Numbers of the tables and functions that the server parsed. A name that looks like one only adds to them.
_NUMBERS = """
SELECT m[1] = 'relid' AS is_table, m[1] ~ 'type' AS is_type, m[2]::oid AS number FROM pg_rewrite,
    regexp_matches(ev_action::text,
        ':(relid|funcid|opfuncid|aggfnoid|winfnoid|resulttype|consttype) (\\d+)', 'g') AS m
WHERE ev_class = 'pg_temp.asked'::regclass
"""
# Allowed are functions of the server that compute; not those that read files, settings, tables or sessions,
# wait, lock, or execute a text.
_FORBIDDEN = f"""
WITH used AS ({_NUMBERS})
SELECT CASE WHEN is_table THEN number::regclass::text WHEN is_type THEN 'type ' || number::regtype::text
    ELSE proname || '()' END
FROM used LEFT JOIN pg_proc ON NOT is_table AND NOT is_type AND pg_proc.oid = number
WHERE number <> 0 AND CASE
    WHEN is_type THEN EXISTS (SELECT FROM pg_type WHERE oid = number AND (
        typnamespace <> 'pg_catalog'::regnamespace OR typtype = 'd'))
    WHEN is_table THEN NOT EXISTS (
        SELECT FROM pg_class WHERE oid = number AND relnamespace = pg_my_temp_schema())
    WHEN pronamespace IS DISTINCT FROM 'pg_catalog'::regnamespace THEN true
    WHEN provolatile = 'v' THEN proname NOT IN ('random', 'gen_random_uuid', 'clock_timestamp')
    WHEN provolatile = 's' THEN
        proname ~ '^(pg_|has_|inet_|txid_)|_to_xml|setting|description' AND proname <> 'pg_typeof'
    ELSE false END
LIMIT 1
"""  # noqa: S608 - fixed texts
_ANY_KIND = """
SELECT CASE WHEN current_setting('restrict_nonsystem_relation_kind', true) IS NOT NULL
    THEN set_config('restrict_nonsystem_relation_kind', '', true) END
"""
_LIMITS = "SELECT set_config('statement_timeout', ?, true), set_config('search_path', 'pg_catalog', true)"
_WRITE_STATES = frozenset({"0A000", "42501"})  # not allowed in a subquery, insufficient privilege
_TRANSACTION = "25"  # the transaction is read-only
_TIMEOUT = "57014"
_NONSENSE = ("42", "22", "21", "54")  # syntax and names, values, cardinality, program limits


def _server_rows(store: SqlStore, statement: str, limit: int) -> Rows:
    asked = statement.strip().rstrip(";")
    _check_first_word(asked)

    def read(connection: Any) -> tuple[list[str], list[Any]]:
        _make_views(connection)
        _understand(connection, asked)
        connection.execute("SET TRANSACTION READ ONLY")
        _send(connection, "DECLARE answer CURSOR FOR SELECT *", asked)
        found = connection.driver.execute(f"FETCH {limit + 1} FROM answer")
        return [column.name for column in found.description], found.fetchall()

    try:
        names, found = store.backend.inspect(read)
    except CheckpointError as error:
        raise _postgres_problem(error) from error
    return answer(names, found, limit)


def _check_first_word(statement: str) -> None:
    found = _FIRST_WORD.match(statement)
    word = found[1].lower() if found else ""
    if "\0" in statement or not word:
        raise Problem(USAGE, _ONLY_SELECT)
    if _COMMANDS.fullmatch(word):
        raise _refused(f"{word.upper()} is not a SELECT")


def _make_views(connection: Any) -> None:
    """Create the views for this transaction; their names take precedence over those of tables.

    Raises Problem if the server or the privileges of the user do not allow that.
    """
    try:
        connection.execute("SET TRANSACTION READ WRITE")  # temporary views are written, too
        connection.execute(_ANY_KIND)
        (schema,) = connection.execute("SELECT quote_ident(current_schema())").fetchone()
        connection.execute(_LIMITS, (f"{SECONDS}s",))
        for view in VIEWS:
            connection.execute(f"CREATE TEMP VIEW {view} AS {selection(view, schema, postgres=True)}")
    except Exception as error:  # of the driver, which is not imported here: queries of a file do not need it
        if getattr(error, "sqlstate", None) not in _WRITE_STATES:
            raise
        why = f"SQL queries need temporary views, which cannot be created: {_said(error)}"
        hint = "Connect to the primary, not a standby, as a user with TEMP on the database"
        raise Problem(REFUSED, why, hint) from error


def _understand(connection: Any, statement: str) -> None:
    """Refuse a query that uses anything but the views and functions that compute."""
    _send(connection, "CREATE TEMP VIEW asked AS SELECT 1 AS one", statement)
    unwanted = connection.execute(_FORBIDDEN).fetchone()
    if unwanted is not None:
        raise _refused(f"{unwanted[0]} is not allowed")


def _send(connection: Any, beginning: str, statement: str) -> None:
    # In binary mode the server takes one statement and no more.
    connection.driver.execute(f"{beginning} FROM (\n{statement}\n) AS asked", binary=True)


def _refused(reason: str) -> Problem:
    hint = f"{_ONLY_SELECT}, over {', '.join(VIEWS)}"
    return Problem(REFUSED, f"Query refused: {reason}; nothing was changed", hint)


def _said(error: BaseException | None) -> str:
    return getattr(getattr(error, "diag", None), "message_primary", None) or str(error)


def _postgres_problem(error: CheckpointError) -> Exception:
    cause = error.__cause__
    code = getattr(cause, "sqlstate", None) or ""
    said = _said(cause)
    if code in _WRITE_STATES or code.startswith(_TRANSACTION):
        return _refused(said)
    if code == _TIMEOUT:
        return Problem(REFUSED, f"The query took longer than {SECONDS} s and was cancelled", "Narrow it down")
    if code.startswith(_NONSENSE):
        return Problem(USAGE, f"Invalid query: {said}", _HELP)
    return error
