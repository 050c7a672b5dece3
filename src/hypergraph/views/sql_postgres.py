"""Questions in SQL about a Postgres store, over the same views as those of a file; nothing can be changed.

The transaction can only read, and a question is a part of the SELECT of a cursor, which admits nothing that
writes and no second statement. It is ended by the server when it takes too long.
"""

from __future__ import annotations

import re
from typing import Any

from hypergraph.checkpointers.sql_store import SqlCheckpointer
from hypergraph.exceptions import CheckpointError
from hypergraph.views.problems import REFUSED, USAGE, Problem
from hypergraph.views.sql_views import VIEWS, Rows, answer, selection

SECONDS = 30  # that a question may take
_FIRST_WORD = re.compile(r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/|\()*(\w*)", re.DOTALL)
# What else a statement may begin with; the server would only say that it is no part of a question.
_COMMANDS = re.compile(
    "abort|alter|analyze|begin|call|checkpoint|close|cluster|comment|commit|copy|create|deallocate|declare|"
    "delete|discard|do|drop|end|execute|explain|fetch|grant|import|insert|listen|load|lock|merge|move|notify|"
    "prepare|reassign|refresh|reindex|release|reset|revoke|rollback|savepoint|security|set|show|start|"
    "truncate|unlisten|update|vacuum"
)
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
        (schema,) = connection.execute("SELECT quote_ident(current_schema())").fetchone()
        connection.execute(_LIMITS, (f"{SECONDS}s",))
        # Sent apart from its parameters, which is how a server takes one statement and no more.
        connection.driver.execute(_cursor(schema, asked), binary=True)
        found = connection.driver.execute(f"FETCH {limit + 1} FROM answer")
        return [column.name for column in found.description], found.fetchall()

    try:
        names, found = store._database.read(look)
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


def _cursor(schema: str, statement: str) -> str:
    views = (f"{view} AS NOT MATERIALIZED ({selection(view, schema, postgres=True)})" for view in VIEWS)
    return f"DECLARE answer CURSOR FOR WITH {', '.join(views)} SELECT * FROM (\n{statement}\n) AS asked"  # noqa: S608 - see above


def _refused(reason: str) -> Problem:
    hint = f"Only SELECT over {', '.join(VIEWS)} is admitted"
    return Problem(REFUSED, f"refused: {reason}; nothing was changed", hint)


def _problem(error: CheckpointError) -> Exception:
    cause = error.__cause__
    code = getattr(cause, "sqlstate", None) or ""
    said = getattr(getattr(cause, "diag", None), "message_primary", None) or str(cause)
    if code in _WRITES or code.startswith(_TRANSACTION):
        return _refused(said)
    if code == _TIMEOUT:
        return Problem(REFUSED, f"The question took longer than {SECONDS} s and was ended", "Ask for less")
    if code.startswith(_NONSENSE):
        hint = "hypergraph sql --help lists the views and their columns"
        return Problem(USAGE, f"Postgres says: {said}", hint)
    return error
