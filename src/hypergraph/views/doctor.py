"""Health of the installation, the store and the workers."""

from __future__ import annotations

import hashlib
import importlib.util
import platform
import sqlite3
from collections.abc import Iterator
from importlib import metadata
from typing import Any, NamedTuple, TypedDict

from hypergraph.checkpointers.sql.store import SqlCheckpointer
from hypergraph.display import jsonable, plural
from hypergraph.exceptions import CheckpointError
from hypergraph.views.database import Versions, looked
from hypergraph.views.owners import activities
from hypergraph.views.problems import STORE, Problem
from hypergraph.views.stores import location_of, sql_only, store_at

_SKEW = 1.0  # seconds by which two clocks may differ
_TOTAL = "SELECT coalesce(sum(workflows), 0) FROM tallies"
OK, MISSING, TROUBLE = "ok", "missing", "TROUBLE"
_EXTRAS = {
    "viz": ("networkx",),
    "cache": ("diskcache",),
    "progress": ("rich",),
    "otel": ("opentelemetry",),
    "ui": ("starlette", "uvicorn"),
    "mcp": ("mcp",),
    "postgres": ("psycopg",),
    "dbos": ("dbos",),
    "dask": ("dask", "cloudpickle"),
    "ray": ("ray", "cloudpickle"),
    "zstd": ("zstandard",),
    "crypto": ("cryptography",),
    "objects": ("obstore",),
    "arrays": ("numpy", "pyarrow"),
}


class Finding(TypedDict):
    """One thing that was looked at."""

    check: str
    status: str  # ok, missing (nothing is wrong, something is not there) or TROUBLE
    detail: str


class HealthView(TypedDict):
    """All that was looked at."""

    schema: str  # hypergraph.doctor/1
    items: list[Finding]
    trouble: int


def version() -> VersionView:
    """Return which release this is, and on what it runs."""
    try:
        release = metadata.version("hypergraph")
    except metadata.PackageNotFoundError:
        release = "not installed"
    return {
        "schema": "hypergraph.version/1",
        "version": release,
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
    }


class VersionView(TypedDict):
    """Which release this is."""

    schema: str  # hypergraph.version/1
    version: str
    python: str
    sqlite: str


def health(address: str) -> HealthView:
    """Look at everything that runs and stores need, and at the store at an address."""
    items = [*_installed(), *_extras(), *_store(address)]
    return {
        "schema": "hypergraph.doctor/1",
        "items": items,
        "trouble": sum(item["status"] == TROUBLE for item in items),
    }


def _finding(check: str, status: str, detail: str) -> Finding:
    return {"check": check, "status": status, "detail": jsonable(detail)}


def _installed() -> Iterator[Finding]:
    found = version()
    yield _finding("python", OK, f"{found['python']} on {platform.system()}")
    yield _finding("hypergraph", OK, found["version"])
    yield _finding("sqlite", OK, found["sqlite"])


def _extras() -> Iterator[Finding]:
    for extra, modules in _EXTRAS.items():
        missing = [name for name in modules if importlib.util.find_spec(name) is None]
        detail = (
            f"without {', '.join(missing)}: pip install 'hypergraph[{extra}]'"
            if missing
            else ", ".join(modules)
        )
        yield _finding(f"extra {extra}", MISSING if missing else OK, detail)


def _store(address: str) -> Iterator[Finding]:
    try:
        store = sql_only(store_at(address))
        versions = Versions(*store.backend.schema_versions())
        total = looked(store, lambda connection: int(connection.execute(_TOTAL).fetchone()[0]))
        active = activities(store) if versions.found == versions.newest else []  # reading would migrate
        may_write = store.backend.is_writable()
        cluster = workers(store) if store.backend.kind == "postgres" else None
    except Problem as problem:
        is_new = problem.code == STORE
        detail = f"{problem.message} yet; hypergraph run makes it" if is_new else problem.message
        yield _finding("store", MISSING if is_new else TROUBLE, detail)
        return
    except CheckpointError as error:
        yield _finding("store", TROUBLE, str(error))
        return
    yield _finding("store", OK, f"{location_of(store)}: {plural(total, 'workflow')}")
    yield _schema(versions)
    yield from _clock(store)
    if not may_write:
        yield _finding("writing", TROUBLE, "it is read-only for this user: nothing can be run or changed")
    alive = [item["id"] for item in active if item["alive"]]
    crashed = [item["id"] for item in active if not item["alive"]]
    yield _finding("at work", OK, _listed(alive) or "nobody")
    if crashed:
        detail = f"{_listed(crashed)}: nobody is at work on them; hypergraph resume goes on with each"
        yield _finding("left active", TROUBLE, detail)
    if cluster is not None:
        yield from _cluster(cluster)


def _schema(versions: Versions) -> Finding:
    detail = f"version {versions.found}"
    if versions.found < versions.newest:
        detail += f" of {versions.newest}; hypergraph db migrate, or the next run, brings it there"
    return _finding("schema", OK, detail)


def _clock(store: SqlCheckpointer) -> Iterator[Finding]:
    """Compare the clock of this machine with that of the server, whose time is written; a file has none."""
    ahead = store.backend.clock_skew()
    if ahead is None:
        return
    if abs(ahead) < _SKEW:
        yield _finding("clock", OK, "that of the database and of this machine agree")
        return
    which = "ahead of" if ahead > 0 else "behind"
    detail = f"that of the database is {abs(ahead):.1f} s {which} this machine's: ages are wrong by as much"
    yield _finding("clock", TROUBLE, detail)


def _cluster(found: Workers) -> Iterator[Finding]:
    """Look at the workers on the store, at what waits for them, and at what dead ones have left."""
    try:
        release = metadata.version("dbos")
    except metadata.PackageNotFoundError:
        release = "not installed here"
    yield _finding("dbos", OK, f"tables of version {found.version}; the package is {release}")
    waiting = [
        f"{each.queue}: {plural(each.runs, 'run')}, the oldest for {each.oldest:.0f} s"
        for each in found.waiting
    ]
    is_idle = bool(waiting or found.orphans) and not found.alive
    names = _listed(found.alive) or ("nobody, and runs wait: start a worker" if is_idle else "nobody")
    yield _finding("workers", TROUBLE if is_idle else OK, names)
    yield _finding("queues", OK, "; ".join(waiting) or "nothing waits")
    if found.orphans:
        left = [f"{plural(count, 'run')} of {name}" for name, count in found.orphans.items()]
        remedy = (
            "the others take them at their next look" if found.alive else "start a worker to go on with them"
        )
        yield _finding("recoveries", TROUBLE, f"{_listed(left)}, whose lock is free: {remedy}")


def _listed(ids: list[str], most: int = 5) -> str:
    more = f" and {len(ids) - most} more" if len(ids) > most else ""
    return ", ".join(ids[:most]) + more


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

    return store.backend.database.read(look)
