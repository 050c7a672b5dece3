"""Queues, workers, schedules and submitted runs of a cluster, read from the tables of DBOS."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any, TypedDict

from hypergraph.display import iso, jsonable
from hypergraph.views.database import SqlStore
from hypergraph.views.doctor import PLAIN_QUEUE, THERE, cluster_schema, executor_in, in_cluster, lock_of
from hypergraph.views.problems import NOT_FOUND, Problem

PAUSED = " (paused)"  # ends the name of the entry that keeps the limits of a paused queue
MAPS = " maps"  # ends the name of the queue of the maps whose items go to a queue
GROUPED = " (grouped)"  # ends the name of the queue of items that wait for a call which they share in a queue
WAITING, DELAYED, RUNNING, DEAD = "waiting", "delayed", "running", "dead"
_STATUSES = {WAITING: "ENQUEUED", DELAYED: "DELAYED", RUNNING: "PENDING", DEAD: "ERROR"}
SUBMITTED = tuple(_STATUSES)
_OURS = "name LIKE 'hypergraph.%'"
_QUEUES = f"""
SELECT q.name, q.application_name, q.concurrency, q.worker_concurrency, q.rate_limit_max,
    q.rate_limit_period_sec, q.partition_concurrency,
    EXISTS (SELECT FROM dbos.queues AS p WHERE p.name = q.name || '{PAUSED}') AS paused,
    coalesce(s.waiting, 0), coalesce(s.delayed, 0), coalesce(s.running, 0), s.oldest
FROM dbos.queues AS q LEFT JOIN (
    SELECT {PLAIN_QUEUE} AS queue_name, count(*) FILTER (WHERE status = 'ENQUEUED') AS waiting,
        count(*) FILTER (WHERE status = 'DELAYED') AS delayed,
        count(*) FILTER (WHERE status = 'PENDING') AS running,
        (extract(epoch FROM clock_timestamp()) - min(created_at) FILTER (WHERE status = 'ENQUEUED') / 1000.0
        )::float8 AS oldest
    FROM dbos.workflow_status
    WHERE status IN ('ENQUEUED', 'DELAYED', 'PENDING') AND {_OURS} GROUP BY 1) AS s ON s.queue_name = q.name
WHERE q.name NOT LIKE '%{PAUSED}' AND q.name NOT LIKE '%{MAPS}' ORDER BY q.name
"""  # noqa: S608 - fixed texts
_WORKERS = """
SELECT substr(a.application_name, 19), coalesce(host(a.client_addr), ''), a.pid,
    extract(epoch FROM clock_timestamp() - a.backend_start)::float8,
    extract(epoch FROM clock_timestamp() - a.state_change)::float8,
    (l.classid::bigint << 32) | l.objid::bigint
FROM pg_stat_activity AS a JOIN pg_locks AS l USING (pid)
WHERE a.application_name LIKE 'hypergraph worker %' AND a.datname = current_database()
    AND l.locktype = 'advisory' AND l.granted AND l.objsubid = 1 ORDER BY 1
"""
_CLAIMED = f"""
SELECT coalesce(application_name, ''), executor_id, count(*) FROM dbos.workflow_status
WHERE status = 'PENDING' AND {_OURS} GROUP BY 1, 2 ORDER BY 1, 2
"""  # noqa: S608 - fixed texts
_SCHEDULES = """
SELECT schedule_name, schedule, cron_timezone, queue_name, status, automatic_backfill, last_fired_at, context
FROM dbos.workflow_schedules WHERE workflow_name LIKE 'hypergraph.%' ORDER BY 1
"""
_SUBMITTED = f"""
SELECT workflow_uuid, status, coalesce({PLAIN_QUEUE}, ''), created_at, coalesce(executor_id, ''), priority,
    delay_until_epoch_ms
FROM dbos.workflow_status AS w WHERE {_OURS} AND status = ? AND (? = '' OR {PLAIN_QUEUE} = ?)
ORDER BY created_at DESC LIMIT ?
"""  # noqa: S608 - fixed texts


# A run that failed and was completed since is not dead; the id of a later call ends with its number.
_STORED = "LEFT JOIN workflows AS w ON w.id = regexp_replace(d.workflow_uuid, '/[0-9]+$', '')"
_COUNTED = f"""
SELECT d.status, count(*) FROM dbos.workflow_status AS d {_STORED}
WHERE d.status IN ('ENQUEUED', 'DELAYED', 'ERROR') AND d.name LIKE 'hypergraph.%'
AND (d.status <> 'ERROR' OR w.status IS DISTINCT FROM 'completed') GROUP BY 1
"""  # noqa: S608 - fixed texts
_LAST = f"""
SELECT status, coalesce({PLAIN_QUEUE}, ''), delay_until_epoch_ms FROM dbos.workflow_status
WHERE name LIKE 'hypergraph.%' AND (workflow_uuid = ? OR regexp_replace(workflow_uuid, '/[0-9]+$', '') = ?)
ORDER BY created_at DESC LIMIT 1
"""  # noqa: S608 - fixed texts


class QueueView(TypedDict):
    """A queue: its limits, and how many runs wait in it."""

    name: str
    application: str | None
    paused: bool
    waiting: int
    delayed: int
    running: int
    oldest: float | None  # seconds for which the first of the waiting runs has waited
    concurrency: int | None  # runs at once in all workers
    worker_concurrency: int | None  # runs at once in one worker
    limit: list[float] | None  # runs that may start in so many seconds
    partition_concurrency: int | None


class QueuePage(TypedDict):
    """All queues."""

    schema: str  # hypergraph.queues/1
    items: list[QueueView]


class WorkerView(TypedDict):
    """A worker: whether it lives, and how many runs it has."""

    executor_id: str
    alive: bool
    host: str  # its address, empty for a local socket
    up: float | None  # seconds since its session began
    silent: float | None  # seconds since its last heartbeat
    running: int


class WorkerPage(TypedDict):
    """Live workers, and dead ones that left runs."""

    schema: str  # hypergraph.workers/1
    items: list[WorkerView]


class ScheduleView(TypedDict):
    """A schedule: what it submits, and when."""

    name: str
    cron: str
    timezone: str | None
    queue: str | None
    graph: str
    paused: bool
    backfill: bool
    last: str | None  # when it last submitted a run


class SchedulePage(TypedDict):
    """All schedules."""

    schema: str  # hypergraph.schedules/1
    items: list[ScheduleView]


class SubmittedView(TypedDict):
    """A submitted run that has not ended, or that failed for good."""

    id: str
    status: str  # waiting, delayed, running or dead
    queue: str
    worker: str
    priority: int | None
    submitted: int  # milliseconds since 1970
    due: int | None  # of a delayed run, milliseconds since 1970; null if it waits for nested runs


class SubmittedPage(TypedDict):
    """Submitted runs of one status, newest first."""

    schema: str  # hypergraph.submitted/1
    items: list[SubmittedView]


def queues(store: SqlStore) -> QueuePage:
    """Return the queues. Raises Problem without tables of DBOS."""
    items: list[QueueView] = []
    for row in _rows(store, _QUEUES):
        name, application, concurrency, worker, most, period, partition = row[:7]
        paused, waiting, delayed, running, oldest = row[7:]
        items.append(
            {
                "name": jsonable(name),
                "application": application,
                "paused": bool(paused),
                "waiting": waiting,
                "delayed": delayed,
                "running": running,
                "oldest": oldest,
                "concurrency": concurrency,
                "worker_concurrency": None if paused else worker,
                "limit": None if most is None else [most, period],
                "partition_concurrency": partition,
            }
        )
    return {"schema": "hypergraph.queues/1", "items": items}


def workers(store: SqlStore) -> WorkerPage:
    """Return the workers. Raises Problem without tables of DBOS."""
    live, claimed = _rows(store, _WORKERS), _rows(store, _CLAIMED)
    running: dict[str, int] = {}
    for _, executor, count in claimed:
        running[executor] = running.get(executor, 0) + count
    locks = {number for *_, number in live}
    seen: dict[str, WorkerView] = {}
    schema = cluster_schema(store)
    for session, host, _, up, silent, number in live:
        name = executor_in(session, schema)
        if name is None:
            continue
        if number in {lock_of(application, name, schema) for application, *_ in claimed} or name not in seen:
            seen[name] = {
                "executor_id": jsonable(name),
                "alive": True,
                "host": host,
                "up": up,
                "silent": silent,
                "running": running.get(name, 0),
            }
    for application, executor, count in claimed:
        if executor not in seen and lock_of(application, executor, schema) not in locks:
            seen[executor] = {
                "executor_id": jsonable(executor),
                "alive": False,
                "host": "",
                "up": None,
                "silent": None,
                "running": count,
            }
    return {"schema": "hypergraph.workers/1", "items": list(seen.values())}


def schedules(store: SqlStore) -> SchedulePage:
    """Return the schedules. Raises Problem without tables of DBOS."""
    items: list[ScheduleView] = [
        {
            "name": jsonable(name),
            "cron": cron,
            "timezone": zone,
            "queue": queue,
            "graph": _graph_in(context),
            "paused": status != "ACTIVE",
            "backfill": bool(backfill),
            "last": last,
        }
        for name, cron, zone, queue, status, backfill, last, context in _rows(store, _SCHEDULES)
    ]
    return {"schema": "hypergraph.schedules/1", "items": items}


def submitted(store: SqlStore, status: str, queue: str = "", limit: int = 50) -> SubmittedPage:
    """Return submitted runs of a status, newest first. Raises Problem without tables of DBOS."""
    rows = _rows(store, _SUBMITTED, _STATUSES[status], queue, queue, limit)
    items: list[SubmittedView] = [
        {
            "id": jsonable(name),
            "status": status,
            "queue": queue_name,
            "worker": executor if status == RUNNING else "",
            "priority": priority or None,
            "submitted": created,
            "due": due if status == DELAYED and not executor else None,
        }
        for name, _, queue_name, created, executor, priority, due in rows
    ]
    return {"schema": "hypergraph.submitted/1", "items": items}


def queued(store: SqlStore) -> dict[str, int] | None:
    """Return how many submitted runs wait, are delayed or dead, None without tables of DBOS."""
    rows = _found(store, _COUNTED)
    if rows is None:
        return None
    counts: dict[str, int] = dict(rows)
    return {name: counts.get(_STATUSES[name], 0) for name in (WAITING, DELAYED, DEAD)}


def submission(store: SqlStore, wf: str) -> str | None:
    """Return in words how the last submission of a run stands, None if it was not submitted."""
    rows = _found(store, _LAST, wf, wf) or []
    for status, queue, due in rows:
        if status == _STATUSES[DELAYED]:
            until = iso(datetime.fromtimestamp((due or 0) / 1000, UTC))
            return f"is delayed until {until}, in the queue {queue!r}"
        words = {
            _STATUSES[WAITING]: "waits",
            _STATUSES[RUNNING]: "is about to start",
            _STATUSES[DEAD]: "is dead",
        }
        return f"{words.get(status, 'was cancelled')} in the queue {queue!r}"
    return None


def _rows(store: SqlStore, statement: str, *values: Any) -> list[Any]:
    found = _found(store, statement, *values)
    if found is None:
        raise Problem(
            NOT_FOUND,
            f"{store.backend.location} has no cluster",
            "Start a worker, or submit a run: hypergraph submit GRAPH",
        )
    return found


def _found(store: SqlStore, statement: str, *values: Any) -> list[Any] | None:
    """Return the rows of a statement, None without tables of DBOS that can be read."""

    def read(connection: Any) -> list[Any] | None:
        if store.backend.kind != "postgres" or not connection.execute(in_cluster(store, THERE)).fetchone()[0]:
            return None
        found: list[Any] = connection.execute(in_cluster(store, statement), values).fetchall()
        return found

    return store.backend.inspect(read)


def _graph_in(context: str) -> str:
    """Return the name of the graph in the call of a schedule, empty if it cannot be found."""
    found = re.search(r'\\?"graph\\?":\s*\\?"((?:[^"\\]|\\[^"])*)\\?"', context or "")
    return jsonable(found[1]) if found else ""
