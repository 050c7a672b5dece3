"""A cluster of workers as others see it: the tables of DBOS say who took what, locks of the server who lives.

Only Postgres is asked; neither DBOS nor a worker is needed.
"""

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple

from hypergraph.checkpointers.sql_store import SqlCheckpointer

_MOST = 10_000  # runs that are counted as waiting
_OURS = "name LIKE 'hypergraph.%'"
_THERE = """
SELECT EXISTS (SELECT FROM pg_class JOIN pg_namespace AS n ON n.oid = relnamespace
    WHERE nspname = 'dbos' AND relname = 'workflow_status' AND has_schema_privilege(n.oid, 'USAGE')
    AND has_table_privilege(pg_class.oid, 'SELECT'))
"""
_VERSION = "SELECT max(version) FROM dbos.dbos_migrations"
_TAKEN = f"""
SELECT application_name, executor_id, count(*) FROM dbos.workflow_status
WHERE status = 'PENDING' AND {_OURS} GROUP BY 1, 2 ORDER BY 1, 2
"""  # noqa: S608 - fixed texts
_WAITING = f"""
SELECT queue_name, count(*), max(extract(epoch FROM clock_timestamp()) - created_at / 1000.0)::float8
FROM (SELECT queue_name, created_at FROM dbos.workflow_status
    WHERE status = 'ENQUEUED' AND {_OURS} LIMIT {_MOST}) AS looked_at
GROUP BY 1 ORDER BY 1
"""  # noqa: S608 - fixed texts
_LOCKS = """
SELECT classid::bigint, objid::bigint FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 1
AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""
_SESSIONS = """
SELECT DISTINCT substr(application_name, 19) FROM pg_stat_activity JOIN pg_locks USING (pid)
WHERE application_name LIKE 'hypergraph worker %' AND datname = current_database()
AND locktype = 'advisory' AND granted AND objsubid = 1 ORDER BY 1
"""


class Waiting(NamedTuple):
    """What waits in one queue, and for how many seconds the oldest has."""

    queue: str
    runs: int
    oldest: float


class Workers(NamedTuple):
    """Who works, what waits, and what was taken by somebody who is dead."""

    version: int  # of the tables of DBOS
    alive: list[str]
    waiting: list[Waiting]
    orphans: dict[str, int]  # runs under way, by workers whose lock is free


def lock_of(application: str, executor_id: str) -> int:
    """Return the number of the lock that a worker holds as long as it lives."""
    digest = hashlib.sha256(f"hypergraph worker\0{application}\0{executor_id}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1  # a positive number of 8 bytes


def workers(store: SqlCheckpointer) -> Workers | None:
    """Return who works on a store in Postgres, None without tables of DBOS that can be read.

    Raises:
        CheckpointError: they cannot be read.
    """

    def look(connection: Any) -> Workers | None:
        if not connection.execute(_THERE).fetchone()[0]:
            return None
        held = {(high << 32) | low for high, low in connection.execute(_LOCKS).fetchall()}
        taken = connection.execute(_TAKEN).fetchall()
        return Workers(
            int(connection.execute(_VERSION).fetchone()[0]),
            [name for (name,) in connection.execute(_SESSIONS).fetchall()],
            [Waiting(*row) for row in connection.execute(_WAITING).fetchall()],
            {executor: count for name, executor, count in taken if lock_of(name, executor) not in held},
        )

    return store._database.read(look)
