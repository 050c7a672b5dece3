"""The shared statements as Postgres reads them: other placeholders, and a few other ways to say it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from hypergraph.checkpointers.postgres.driver import psycopg
from hypergraph.checkpointers.query import Query
from hypergraph.checkpointers.sql import queries, reads

# A text, a comment for Postgres, a cast, or a placeholder.
_TOKEN = re.compile(r"('(?:[^']|'')*')|/\*\+(.*?)\*/|(::\w+)|(\?)|:([a-z_]+)", re.DOTALL)
# Escapes of tags are compared as they are written: Postgres cannot make texts of all of them.
_PLAIN_TAGS = r"replace(replace(workflows.tags, '\\', '\u005c'), '\u', '\\u')::json"
_DIFFERENT = {
    queries.TAGGED: f"({_PLAIN_TAGS} ->> ?) = ?",
    # The newest row of each name is one seek from above, which Postgres must be told.
    reads.STATE: f"""{reads.NAMES}
    SELECT {reads.PAYLOAD} FROM names CROSS JOIN LATERAL (
        SELECT * FROM vals WHERE workflow = :key AND kind = :kind AND name = names.name AND superstep <= :upto
        ORDER BY superstep DESC, idx DESC, node DESC LIMIT 1) AS v
    """,  # noqa: S608 - fixed names
}


def asked(query: Query) -> Query:
    """Return a query whose tags have their escapes as they are written; see `_PLAIN_TAGS`."""
    return query._replace(tags={_plain(key): _plain(value) for key, value in query.tags.items()})


def _plain(text: str) -> str:
    written = json.dumps(text).replace("\\\\", "\\u005c").replace("\\u", "\\\\u")
    return str(json.loads(written))


@lru_cache(maxsize=1024)
def translated(sql: str) -> tuple[str, tuple[str, ...] | None]:
    """Return a statement for Postgres, and the names of its parameters by number, None if they have none."""
    for shared, different in _DIFFERENT.items():
        sql = sql.replace(shared, different)
    names: dict[str, int] = {}
    count = 0

    def change(found: re.Match[str]) -> str:
        nonlocal count
        _, comment, _, mark, name = found.groups()
        if comment is not None:
            return str(comment)
        if mark:
            count += 1
            return f"${count}"
        if name:
            return f"${names.setdefault(name, len(names) + 1)}"
        return found[0]

    text = _TOKEN.sub(change, sql)
    return text, tuple(names) if names else None


class Connection:
    """A connection that executes the shared statements; the first one begins the transaction.

    Statements of which nobody sees the outcome wait for the next one, or for the end, and go with it.
    """

    def __init__(self, driver: psycopg.Connection[Any], begin: str) -> None:
        self.driver = driver
        self._begun = False
        self._waiting: list[tuple[str, Sequence[Any]]] = [(begin, ())]

    def execute(self, sql: str, parameters: Sequence[Any] | Mapping[str, Any] = (), /) -> Any:
        """Execute one statement."""
        text, names = translated(sql)
        if isinstance(parameters, Mapping):
            parameters = [parameters[name] for name in names or ()]
        return self._send(text, parameters)

    def executemany(self, sql: str, parameters: Iterable[Any], /) -> None:
        """Execute one statement for each set of parameters, at the latest when the transaction ends."""
        text, _ = translated(sql)
        self._waiting += [(text, row) for row in parameters]

    def end(self, how: str) -> None:
        """Commit, or roll back, if anything was done."""
        if how == "ROLLBACK":
            self._waiting.clear()
        if self._begun or len(self._waiting) > 1:
            self._send(how, ())

    def _send(self, text: str, values: Sequence[Any]) -> Any:
        if not self._waiting:
            return self.driver.execute(text, values, binary=True)
        waiting, self._waiting, self._begun = self._waiting, [], True
        with self.driver.pipeline():
            for earlier, given in waiting:
                self.driver.execute(earlier, given, binary=True)
            return self.driver.execute(text, values, binary=True)
