"""The dialect of Postgres, and its connections: statements with numbered placeholders."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from hypergraph.checkpointers.postgres.driver import psycopg
from hypergraph.checkpointers.postgres.migrations import PLAIN_TAGS
from hypergraph.checkpointers.query import Query
from hypergraph.checkpointers.sql.dialect import NAMES, PAYLOAD, WHOLE, Dialect
from hypergraph.checkpointers.sqlite.migrations import OUTPUT

# A text, a cast, or a placeholder.
_TOKEN = re.compile(r"('(?:[^']|'')*')|(::\w+)|(\?)|:([a-z_]+)")

_ONLY = f"""
SELECT v.base IS NULL AND w.scrambled = 0 AND v.name = low.name, {WHOLE} FROM workflows AS w
LEFT JOIN LATERAL (
    SELECT name FROM vals WHERE workflow = w.key AND kind = {OUTPUT} ORDER BY name LIMIT 1) AS low ON TRUE
LEFT JOIN LATERAL (
    SELECT name FROM vals WHERE workflow = w.key AND kind = {OUTPUT} ORDER BY name DESC LIMIT 1
) AS high ON TRUE
LEFT JOIN LATERAL (
    SELECT * FROM vals WHERE workflow = w.key AND kind = {OUTPUT} AND name = high.name {{upto}}
    ORDER BY superstep DESC, idx DESC, node DESC LIMIT 1) AS v ON TRUE
WHERE w.id = ?
"""  # noqa: S608 - fixed names

POSTGRES = Dialect(
    brief=False,
    owned="SELECT 1 FROM workflows WHERE key = ? AND fence = ? FOR UPDATE",
    owner=(
        "SELECT key, status, fence, owner_pid, owner_host, owner_since, crashes FROM workflows WHERE id = ? "
        "FOR UPDATE"
    ),
    key="SELECT key FROM workflows WHERE id = ? FOR UPDATE",
    tags="SELECT key, tags FROM workflows WHERE id = ? FOR UPDATE",
    # This need not wait for the disk: an owner whose release was lost is found dead.
    release=(
        "UPDATE workflows SET owner_pid = NULL WHERE key = ? AND fence = ? AND owner_pid IS NOT NULL "
        "AND set_config('synchronous_commit', 'off', true) IS NOT NULL"
    ),
    lock="ORDER BY key FOR UPDATE",
    next_erased="SELECT key FROM erased LIMIT 200 FOR UPDATE SKIP LOCKED",
    lock_structures="LOCK TABLE structures IN SHARE ROW EXCLUSIVE MODE",
    has_long_tag=f"({PLAIN_TAGS.format('workflows.tags')} ->> ?) = ?",
    survey="""
    SELECT node, count(*), count(*) FILTER (WHERE status = 'failed'), count(*) FILTER (WHERE cached),
        coalesce(sum(duration_ms), 0)::float8,
        percentile_disc(0.5) WITHIN GROUP (ORDER BY duration_ms) FILTER (WHERE {timed}),
        percentile_disc(0.95) WITHIN GROUP (ORDER BY duration_ms) FILTER (WHERE {timed})
    FROM {found} GROUP BY node
    """,
    # Each of these is one seek, which needs LATERAL here.
    only=_ONLY.format(upto=""),
    only_before=_ONLY.format(upto="AND superstep <= ?"),
    state=f"""{NAMES}
    SELECT {PAYLOAD} FROM names CROSS JOIN LATERAL (
        SELECT * FROM vals WHERE workflow = :key AND kind = :kind AND name = names.name AND superstep <= :upto
        ORDER BY superstep DESC, idx DESC, node DESC LIMIT 1) AS v
    """,  # noqa: S608 - fixed names
)


def asked(query: Query) -> Query:
    """Return a query whose tags have their escapes as they are written; see `PLAIN_TAGS`."""
    return query._replace(tags={_plain(key): _plain(value) for key, value in query.tags.items()})


def _plain(text: str) -> str:
    written = json.dumps(text).replace("\\\\", "\\u005c").replace("\\u", "\\\\u")
    return str(json.loads(written))


@lru_cache(maxsize=1024)
def translated(sql: str) -> tuple[str, tuple[str, ...] | None]:
    """Return a statement with numbered placeholders, and the names of its parameters, None without any."""
    names: dict[str, int] = {}
    count = 0

    def change(found: re.Match[str]) -> str:
        nonlocal count
        _, _, mark, name = found.groups()
        if mark:
            count += 1
            return f"${count}"
        if name:
            return f"${names.setdefault(name, len(names) + 1)}"
        return found[0]

    text = _TOKEN.sub(change, sql)
    return text, tuple(names) if names else None


class Connection:
    """A connection for the shared statements; the first one begins the transaction, if there is one.

    Statements without a result wait for the next one, or for the end, and are sent with it.
    """

    dialect = POSTGRES

    def __init__(self, driver: psycopg.Connection[Any], begin: str) -> None:
        self.driver = driver
        self._begun = False
        self._waiting: list[tuple[str, Sequence[Any]]] = [(begin, ())] if begin else []

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

    def has(self, name: str) -> bool:
        """Return True: here a table without rows takes nothing worth mentioning, and all are made at once."""
        return True

    def make(self, name: str) -> None:
        """Do nothing, as above."""

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
