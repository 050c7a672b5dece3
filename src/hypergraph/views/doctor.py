"""Health of the installation, the store and the workers."""

from __future__ import annotations

import hashlib
import platform
import re
import sqlite3
from collections.abc import Iterator, Sequence
from importlib import metadata
from typing import Any, NamedTuple, TypedDict
from zlib import crc32

from hypergraph.checkpointers import WorkflowStatus
from hypergraph.checkpointers.query import Query
from hypergraph.display import jsonable, plural
from hypergraph.exceptions import CheckpointError
from hypergraph.views.database import SqlStore, Versions, schema_versions, sql_only
from hypergraph.views.problems import STORE, Problem
from hypergraph.views.stores import store_at

_ACTIVE = 100  # active workflows that are checked, the newest
_SKEW = 1.0  # seconds by which two clocks may differ
_TOTAL = "SELECT coalesce(sum(workflows), 0) FROM tallies"
OK, MISSING, TROUBLE = "ok", "missing", "TROUBLE"
# A package, and the extra that needs it.
_REQUIREMENT = re.compile(r"([\w.-]+)[^;]*;.*extra == ['\"]([\w-]+)['\"]")
_MOST = 10_000  # waiting runs that are counted
_LATE = 30  # seconds within which a claimed run is owned
_OURS = "name LIKE 'hypergraph.%'"
PLAIN_QUEUE = r"regexp_replace(queue_name, ' \(grouped\)$', '')"  # the queue, also of an item in a group
THERE = """
SELECT EXISTS (SELECT FROM pg_class JOIN pg_namespace AS n ON n.oid = relnamespace
    WHERE nspname = '{dbos}' AND relname = 'workflow_status' AND relkind = 'r'
    AND has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(pg_class.oid, 'SELECT'))
"""
_VERSION = "SELECT max(version) FROM dbos.dbos_migrations"
_TAKEN = f"""
SELECT application_name, executor_id, count(*) FROM dbos.workflow_status
WHERE status = 'PENDING' AND {_OURS} GROUP BY 1, 2 ORDER BY 1, 2
"""  # noqa: S608 - fixed texts
_WAITING = f"""
SELECT queue_name, count(*), max(extract(epoch FROM clock_timestamp()) - created_at / 1000.0)::float8
FROM (SELECT {PLAIN_QUEUE} AS queue_name, created_at FROM dbos.workflow_status
    WHERE status = 'ENQUEUED' AND {_OURS} LIMIT {_MOST}) AS counted
GROUP BY 1 ORDER BY 1
"""  # noqa: S608 - fixed texts
# Claimed a while ago, and no process owns the stored run: its worker lost the answer to the claim.
_UNKNOWN = f"""
SELECT count(*) FROM dbos.workflow_status AS d LEFT JOIN workflows AS w
ON w.id = regexp_replace(d.workflow_uuid, '/[0-9]+$', '')
WHERE d.status = 'PENDING' AND d.name IN ('hypergraph.run', 'hypergraph.scheduled') AND w.owner_pid IS NULL
AND d.started_at_epoch_ms < (extract(epoch FROM clock_timestamp()) - {_LATE}) * 1000
"""  # noqa: S608 - fixed texts
_PAUSED = "SELECT left(name, -9) FROM dbos.queues WHERE name LIKE '% (paused)' ORDER BY 1"
_LOCKS = """
SELECT classid::bigint, objid::bigint FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 1
AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""
_SESSIONS = """
SELECT DISTINCT substr(application_name, 19) FROM pg_stat_activity JOIN pg_locks USING (pid)
WHERE application_name LIKE 'hypergraph worker %' AND datname = current_database()
AND locktype = 'advisory' AND granted AND objsubid = 1 ORDER BY 1
"""


class Finding(TypedDict):
    """Result of one check."""

    check: str
    status: str  # ok, missing (not installed or not created, and not needed) or TROUBLE
    detail: str


class HealthView(TypedDict):
    """Results of all checks."""

    schema: str  # hypergraph.doctor/1
    items: list[Finding]
    trouble: int


class VersionView(TypedDict):
    """Versions of this release, of Python and of SQLite."""

    schema: str  # hypergraph.version/1
    version: str
    python: str
    sqlite: str


def version() -> VersionView:
    """Return the versions of this release, of Python and of SQLite."""
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


def health(address: str) -> HealthView:
    """Check the installation, and the store at an address."""
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
    for extra, packages in features().items():
        missing = [name for name in packages if not _is_installed(name)]
        detail = (
            f"{', '.join(missing)} not installed: pip install './hypergraph[{extra}]'"
            if missing
            else ", ".join(packages)
        )
        yield _finding(f"extra {extra}", MISSING if missing else OK, detail)


def features() -> dict[str, list[str]]:
    """Return the packages of each extra that adds a feature, none without an installation.

    The package declares them: `all` has them all, and extras for developers need more than that.
    """
    try:
        requirements = metadata.requires("hypergraph") or []
    except metadata.PackageNotFoundError:
        return {}
    extras: dict[str, list[str]] = {}
    for found in filter(None, map(_REQUIREMENT.match, requirements)):
        extras.setdefault(found[2], []).append(found[1])
    every = set(extras.pop("all", ()))
    return {extra: packages for extra, packages in extras.items() if every.issuperset(packages)}


def _is_installed(package: str) -> bool:
    try:
        metadata.distribution(package)
    except metadata.PackageNotFoundError:
        return False
    return True


def _store(address: str) -> Iterator[Finding]:
    try:
        store = sql_only(store_at(address))
        versions = schema_versions(store)
        total = store.backend.inspect(lambda connection: int(connection.execute(_TOTAL).fetchone()[0]))
        # To read an older schema would migrate it.
        alive, lost = _active(store) if versions.found == versions.newest else ([], [])
        may_write = store.backend.is_writable()
        cluster = workers(store) if store.backend.kind == "postgres" else None
    except Problem as problem:
        is_new = problem.code == STORE
        detail = f"{problem.message}; hypergraph run creates it" if is_new else problem.message
        yield _finding("store", MISSING if is_new else TROUBLE, detail)
        return
    except CheckpointError as error:
        yield _finding("store", TROUBLE, str(error))
        return
    yield _finding("store", OK, f"{store.backend.location}: {plural(total, 'workflow')}")
    yield _schema(versions)
    yield from _clock(store)
    if not may_write:
        yield _finding("writing", TROUBLE, "read-only for this user: workflows cannot be run or changed")
    yield _finding("active", OK, _listed(alive) or "none")
    if lost:
        detail = f"{_listed(lost)}: their owner processes are gone; resume each with hypergraph resume"
        yield _finding("left active", TROUBLE, detail)
    if cluster is not None:
        yield from _cluster(cluster)


def _schema(versions: Versions) -> Finding:
    detail = f"version {versions.found}"
    if versions.found < versions.newest:
        detail += f" of {versions.newest}; hypergraph db migrate, or the next run, updates it"
    return _finding("schema", OK, detail)


def _clock(store: SqlStore) -> Iterator[Finding]:
    """Compare the clock of this machine with that of the server, whose time is stored."""
    ahead = store.backend.clock_skew()
    if ahead is None:
        return
    if abs(ahead) < _SKEW:
        yield _finding("clock", OK, "the database and this machine agree")
        return
    which = "ahead of" if ahead > 0 else "behind"
    detail = f"the database is {abs(ahead):.1f} s {which} this machine: displayed ages are off by that"
    yield _finding("clock", TROUBLE, detail)


def _cluster(found: Workers) -> Iterator[Finding]:
    """Check the workers on the store, the queues, and runs of workers that died."""
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
    names = _listed(found.alive) or ("none, and runs are waiting: start a worker" if is_idle else "none")
    yield _finding("workers", TROUBLE if is_idle else OK, names)
    yield _finding("queues", OK, "; ".join(waiting) or "empty")
    if found.paused:
        yield _finding("paused queues", TROUBLE, f"{_listed([*found.paused])}: hypergraph queue resume NAME")
    if found.unknown and found.alive and not found.orphans:
        detail = f"{plural(found.unknown, 'run')} claimed {_LATE} s ago and not owned: workers requeue them"
        yield _finding("claims", TROUBLE, detail)
    if found.orphans:
        left = [f"{plural(count, 'run')} of {name}" for name, count in found.orphans.items()]
        remedy = "the other workers will take them over" if found.alive else "start a worker to resume them"
        yield _finding("recoveries", TROUBLE, f"{_listed(left)}, which is gone: {remedy}")


def _active(store: SqlStore) -> tuple[list[str], list[str]]:
    """Return the active workflows: those whose owner process lives, and those without one."""
    found, _, _ = store.backend.find(Query(frozenset({WorkflowStatus.ACTIVE}), limit=_ACTIVE))
    ids = [workflow.id for workflow in found]
    alive = {workflow_id for workflow_id, owner in store.backend.read_owners(ids).items() if owner.alive}
    return [name for name in ids if name in alive], [name for name in ids if name not in alive]


def _listed(ids: list[str], most: int = 5) -> str:
    more = f" and {len(ids) - most} more" if len(ids) > most else ""
    return ", ".join(ids[:most]) + more


class Waiting(NamedTuple):
    """Runs waiting in one queue, and the age of the oldest in seconds."""

    queue: str
    runs: int
    oldest: float


class Workers(NamedTuple):
    """Live workers, waiting runs, and runs of workers that died."""

    version: int  # of the tables of DBOS
    alive: list[str]
    waiting: list[Waiting]
    orphans: dict[str, int]  # unfinished runs by worker, where the lock of the worker is free
    unknown: int = 0  # runs that were claimed a while ago, and that no process owns
    paused: Sequence[str] = ()  # queues


def in_cluster(store: SqlStore, statement: str) -> str:
    """Return a statement over tables of DBOS with the schema in which they are for this store."""
    schema = cluster_schema(store)
    return re.sub(r"\bdbos\.(?=\w)", f'"{schema}".', statement.replace("{dbos}", schema.replace("'", "''")))


def cluster_schema(store: SqlStore) -> str:
    """Return the schema of the tables of DBOS, of a store in Postgres."""
    found = getattr(store.backend.database, "address", None)
    return "dbos" if found is None else str(found.cluster_schema).replace('"', "")


def session_mark(schema: str) -> str:
    """Return what ends the names of the sessions of workers in a schema: ids are unique in one only."""
    return "" if schema == "dbos" else f"#{crc32(schema.encode()) & 0xFFFF:04x}"


def executor_in(session: str, schema: str) -> str | None:
    """Return the id of a worker in the name of its session, None for a worker of another schema."""
    mark = session_mark(schema)
    if not mark:
        return None if re.search("#[0-9a-f]{4}$", session) else session
    return session.removesuffix(mark) if session.endswith(mark) else None


def lock_of(application: str, executor_id: str, schema: str = "dbos") -> int:
    """Return the number of the lock that a worker holds while it lives."""
    scope = application if schema == "dbos" else f"{schema}\0{application}"
    digest = hashlib.sha256(f"hypergraph worker\0{scope}\0{executor_id}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1  # a positive number of 8 bytes


def workers(store: SqlStore) -> Workers | None:
    """Return the workers of a store in Postgres, None without readable tables of DBOS.

    Raises:
        CheckpointError: the tables cannot be read.
    """

    schema = cluster_schema(store)

    def read(connection: Any) -> Workers | None:
        def rows(statement: str) -> list[Any]:
            found: list[Any] = connection.execute(in_cluster(store, statement)).fetchall()
            return found

        if not rows(THERE)[0][0]:
            return None
        held = {(high << 32) | low for high, low in connection.execute(_LOCKS).fetchall()}
        taken = rows(_TAKEN)
        return Workers(
            int(rows(_VERSION)[0][0]),
            [name for (session,) in rows(_SESSIONS) if (name := executor_in(session, schema)) is not None],
            [Waiting(*row) for row in rows(_WAITING)],
            {worker: count for name, worker, count in taken if lock_of(name, worker, schema) not in held},
            int(rows(_UNKNOWN)[0][0]),
            [name for (name,) in rows(_PAUSED)],
        )

    return store.backend.inspect(read)
