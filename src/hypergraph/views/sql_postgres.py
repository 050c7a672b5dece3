"""Questions in SQL about a Postgres store, over the same views as those of a file; nothing can be changed.

Rights cannot keep a question to the views: whoever may read them may read the tables, and a function can
change the rights while the question runs. So the server is asked first how it understands the question. It
keeps that with a view, made for a moment of the question; there, every table and every function has its
number, however it was written. Then the transaction can only read, and a question is a part of the SELECT
of a cursor, which admits nothing that writes and no second statement. It is ended by the server when it
takes too long, and all is rolled back.
"""

from __future__ import annotations

import re
from typing import Any

from hypergraph.checkpointers.sql.store import SqlCheckpointer
from hypergraph.exceptions import CheckpointError
from hypergraph.views.problems import REFUSED, USAGE, Problem
from hypergraph.views.sql import VIEWS, Rows, answer, selection

SECONDS = 30  # that a question may take
_FIRST_WORD = re.compile(r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/|\()*(\w*)", re.DOTALL)
# What else a statement may begin with; the server would only say that it is no part of a question.
_COMMANDS = re.compile(
    "abort|alter|analyze|begin|call|checkpoint|close|cluster|comment|commit|copy|create|deallocate|declare|"
    "delete|discard|do|drop|end|execute|explain|fetch|grant|import|insert|listen|load|lock|merge|move|notify|"
    "prepare|reassign|refresh|reindex|release|reset|revoke|rollback|savepoint|security|set|show|start|"
    "truncate|unlisten|update|vacuum"
)
# What the server understood: numbers of tables and functions. A name that looks like one only adds to them.
_NUMBERS = """
SELECT m[1] = 'relid' AS is_table, m[2]::oid AS number FROM pg_rewrite,
    regexp_matches(ev_action::text, ':(relid|funcid|opfuncid|aggfnoid|winfnoid) (\\d+)', 'g') AS m
WHERE ev_class = 'pg_temp.asked'::regclass
"""
# Functions of the server that compute; not those that read files, settings, tables or sessions, wait, lock,
# or take a statement as a text.
_UNWANTED = f"""
WITH used AS ({_NUMBERS})
SELECT CASE WHEN is_table THEN number::regclass::text ELSE proname || '()' END
FROM used LEFT JOIN pg_proc ON NOT is_table AND pg_proc.oid = number WHERE number <> 0 AND CASE
    WHEN is_table THEN NOT EXISTS (
        SELECT FROM pg_class WHERE oid = number AND relnamespace = pg_my_temp_schema())
    WHEN pronamespace IS DISTINCT FROM 'pg_catalog'::regnamespace THEN true
    WHEN provolatile = 'v' THEN proname NOT IN ('random', 'gen_random_uuid', 'clock_timestamp')
    WHEN provolatile = 's' THEN
        proname ~ '^(pg_|has_|inet_|txid_)|_to_xml|setting|description' AND proname <> 'pg_typeof'
    ELSE false END
LIMIT 1
"""  # noqa: S608 - fixed texts
_LIMITS = "SELECT set_config('statement_timeout', ?, true), set_config('search_path', 'pg_catalog', true)"
_WRITES = frozenset({"0A000", "42501"})  # not in a part of a question, not allowed
_TRANSACTION = "25"  # it can only read
_TIMEOUT = "57014"
_NONSENSE = ("42", "22", "21", "54")  # syntax and names, values, numbers of rows, too much of something


def rows(store: SqlCheckpointer, statement: str, *, limit: int) -> Rows:
    """Return the rows of a SELECT over the views, at most so many.

    Raises:
        Problem: the statement makes no sense, does anything but read, or takes too long; nothing was changed.
        CheckpointError: the store cannot be read.
    """
    asked = statement.strip().rstrip(";")
    _check(asked)

    def look(connection: Any) -> tuple[list[str], list[Any]]:
        _make_views(connection)
        _understand(connection, asked)
        connection.execute("SET TRANSACTION READ ONLY")
        _send(connection, "DECLARE answer CURSOR FOR SELECT *", asked)
        found = connection.driver.execute(f"FETCH {limit + 1} FROM answer")
        return [column.name for column in found.description], found.fetchall()

    try:
        names, found = store.backend.database.read(look)
    except CheckpointError as error:
        raise _problem(error) from error
    return answer(names, found, limit)


def _check(statement: str) -> None:
    found = _FIRST_WORD.match(statement)
    word = found[1].lower() if found else ""
    if "\0" in statement or not word:
        raise Problem(USAGE, "This is no question: give a SELECT")
    if _COMMANDS.fullmatch(word):
        raise _refused(f"{word.upper()} is no question")


def _make_views(connection: Any) -> None:
    """Make the views for this transaction; their names go before those of tables.

    Raises Problem where the server or the user's rights do not allow that.
    """
    try:
        connection.execute("SET TRANSACTION READ WRITE")  # temporary views are written, too
        (schema,) = connection.execute("SELECT quote_ident(current_schema())").fetchone()
        connection.execute(_LIMITS, (f"{SECONDS}s",))
        for view in VIEWS:
            connection.execute(f"CREATE TEMP VIEW {view} AS {selection(view, schema, postgres=True)}")
    except Exception as error:  # of the driver, which is not loaded here: questions to a file do without it
        if getattr(error, "sqlstate", None) not in _WRITES:
            raise
        why = f"Questions need temporary views, and these cannot be made: {_said(error)}"
        hint = "Ask the primary, not a standby, as a user with TEMP on the database"
        raise Problem(REFUSED, why, hint) from error


def _understand(connection: Any, statement: str) -> None:
    """Refuse a question that uses anything but the views and functions that compute."""
    _send(connection, "CREATE TEMP VIEW asked AS SELECT 1 AS one", statement)
    unwanted = connection.execute(_UNWANTED).fetchone()
    if unwanted is not None:
        raise _refused(f"{unwanted[0]} is none of the views, and no function that only computes")


def _send(connection: Any, beginning: str, statement: str) -> None:
    # Sent apart from its parameters, which is how a server takes one statement and no more.
    connection.driver.execute(f"{beginning} FROM (\n{statement}\n) AS asked", binary=True)


def _refused(reason: str) -> Problem:
    hint = f"Only SELECT over {', '.join(VIEWS)} is admitted"
    return Problem(REFUSED, f"refused: {reason}; nothing was changed", hint)


def _said(error: BaseException | None) -> str:
    return getattr(getattr(error, "diag", None), "message_primary", None) or str(error)


def _problem(error: CheckpointError) -> Exception:
    cause = error.__cause__
    code = getattr(cause, "sqlstate", None) or ""
    said = _said(cause)
    if code in _WRITES or code.startswith(_TRANSACTION):
        return _refused(said)
    if code == _TIMEOUT:
        return Problem(REFUSED, f"The question took longer than {SECONDS} s and was ended", "Ask for less")
    if code.startswith(_NONSENSE):
        hint = "hypergraph sql --help lists the views and their columns"
        return Problem(USAGE, f"Postgres says: {said}", hint)
    return error
