"""Groups: short items of a large map that share one call of DBOS.

To claim, start and end a call of DBOS costs several times what a short run does. Every item has the row that
it would have as a call of its own, with its id, its call and its status, so it is found, cancelled and
submitted again like any other. While it is part of a group, that row is in a queue that no worker reads:
"QUEUE (grouped)". The worker that claims the group takes its items from there, one after the other, so a
group occupies one place of its queue.

A group is only a faster way into the queue. Items that have not begun are released, which makes them calls of
their own, when the time of the group is over, when its worker drains, when the queue is paused or when the
worker does not have the graph. An item that has to be run again, after a crash or for a nested graph, is one
too.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import dbos
from dbos._serialization import serialize_exception

from hypergraph.checkpointers import PostgresCheckpointer, Workflow
from hypergraph.integrations.dbos.calls import GROUP, Call, attempt_id
from hypergraph.integrations.dbos.cluster import VERSION, Cluster, grouped_queue
from hypergraph.views.cluster import PAUSED

_SHARE = 50  # groups of a map at least: the places of several workers
_MOST = 20  # items in a group: more save little, since the call of DBOS is a small part of the work by then
_BYTES = 1_000_000  # of the calls of a group: its worker holds them all at once
_LOST = 30  # seconds after which a claimed group that has not released its items has no worker that knows it

_NOW = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
# An item ends, and the next one begins; none of a queue that was paused since the group was submitted, or
# that now limits how many runs start in a time.
_NEXT = f"""
WITH ended AS (
    UPDATE {{0}}.workflow_status
    SET status = :status, queue_name = :queue, owner_xid = NULL, updated_at = {_NOW}, completed_at = {_NOW}
    WHERE workflow_uuid = :ended AND status = 'PENDING' AND queue_name = :grouped AND executor_id = :executor
    RETURNING workflow_uuid
), kept AS (
    INSERT INTO {{0}}.workflow_output (workflow_uuid, output, error)
    SELECT workflow_uuid, CAST(:output AS text), CAST(:error AS text) FROM ended
    ON CONFLICT (workflow_uuid) DO UPDATE SET output = excluded.output, error = excluded.error)
UPDATE {{0}}.workflow_status
SET status = 'PENDING', executor_id = :executor, application_version = :version,
    started_at_epoch_ms = {_NOW}, updated_at = {_NOW}
WHERE workflow_uuid = (
    SELECT workflow_uuid FROM {{0}}.workflow_status
    WHERE workflow_uuid = ANY(:items) AND status = 'ENQUEUED' AND queue_name = :grouped
    AND NOT EXISTS (SELECT FROM {{0}}.queues WHERE name = :paused
        OR (name = :queue AND (rate_limit_max IS NOT NULL OR partition_queue)))
    ORDER BY array_position(:items, workflow_uuid) LIMIT 1 FOR UPDATE SKIP LOCKED)
RETURNING workflow_uuid
"""  # noqa: S608 - fixed texts
_RELEASE = f"""
UPDATE {{0}}.workflow_status SET queue_name = :queue, updated_at = {_NOW}
WHERE workflow_uuid = ANY(:items) AND status = 'ENQUEUED' AND queue_name = :grouped
"""  # noqa: S608 - fixed texts
_RELEASE_LOST = f"""
UPDATE {{0}}.workflow_status AS i SET queue_name = :queue, updated_at = {_NOW}
FROM unnest(CAST(:items AS text[]), CAST(:groups AS text[])) AS m (item, own)
WHERE i.workflow_uuid = m.item AND i.status = 'ENQUEUED' AND i.queue_name = :grouped
AND NOT EXISTS (SELECT FROM {{0}}.workflow_status AS g
    WHERE g.workflow_uuid = m.own AND (g.status = 'ENQUEUED'
        OR (g.status = 'PENDING' AND g.started_at_epoch_ms > {_NOW} - {_LOST * 1000})))
"""  # noqa: S608 - fixed texts


def group_size(count: int) -> int:
    """Return how many items of a map with that many share a call."""
    return max(1, min(count // _SHARE, _MOST))


def group_id(workflow_id: str, first: int, size: int, attempt: int) -> str:
    """Return the DBOS id of the group of the items of a map that begins with an item."""
    return attempt_id(f"{workflow_id}/items-{first}-{first + size - 1}", attempt)


def groups_of(items: Sequence[int], size: int) -> Iterator[tuple[int, list[int]]]:
    """Yield the groups of items: the first item that each could have, and those that it has.

    They depend on the numbers of the items alone, so a worker that takes over a map finds the same ones.
    """
    found: dict[int, list[int]] = {}
    for item in items:
        found.setdefault(item // size * size, []).append(item)
    yield from found.items()


def may_share(cluster: Cluster, queue: str) -> bool:
    """Return whether items of a queue may share calls: not if its limits count the calls that start."""
    found = cluster.client.retrieve_queue(queue)
    return found is None or not (found.limiter or found.partition_concurrency or found.partition_limiter)


def may_group(texts: Sequence[str]) -> bool:
    """Return whether calls with these texts make a group: several, with small values."""
    return len(texts) > 1 and sum(map(len, texts)) <= _BYTES


def order_of_group(
    dbos_id: str, queue: str, items: Sequence[str], *, is_plain: bool
) -> tuple[dict[str, Any], str]:
    """Return the options of DBOS and the text of the call of a group of items with these DBOS ids.

    Plain ones are stored with it, and pinned to no version.
    """
    wanted = {"workflow_name": GROUP, "queue_name": queue, "workflow_id": dbos_id}
    given = {"queue": queue, "items": list(items), "plain": is_plain}
    return wanted, json.dumps(given, separators=(",", ":"))


def release_lost(
    cluster: Cluster, store: PostgresCheckpointer, queue: str, groups: Mapping[str, str]
) -> None:
    """Release items, given with their groups, whose group has ended, or is not run by its worker.

    Workers of an earlier release claim groups and cannot run them.
    """
    given = {
        "items": list(groups),
        "groups": list(groups.values()),
        "queue": queue,
        "grouped": grouped_queue(queue),
    }
    statement = _RELEASE_LOST.format(cluster.schema)
    store.backend.database.write(lambda connection: connection.execute(statement, given).rowcount)


class Ended(NamedTuple):
    """How an item ended, as DBOS stores it."""

    item: str  # its DBOS id
    output: str | None
    error: str | None

    @classmethod
    def of(cls, item: str, found: str | Exception) -> Ended:
        """Return the end of an item that returned a text, or raised an error."""
        serializer = dbos.DBOSPortableJSONSerializer()
        if isinstance(found, str):
            return cls(item, serializer.serialize(found), None)
        return cls(item, None, serialize_exception(found, serializer.name(), serializer)[0])


class Group:
    """A group that a worker has claimed."""

    seconds = 5.0  # from its begin until items that have not begun are released: none waits longer for others

    def __init__(self, cluster: Cluster, store: PostgresCheckpointer, executor_id: str, text: str) -> None:
        given = json.loads(text)
        self._cluster = cluster
        self._store = store
        self._items: list[str] = given["items"]
        self._queue: str = given["queue"]
        self._is_plain: bool = given["plain"]
        self._next = _NEXT.format(cluster.schema)
        self._given = {
            "items": self._items,
            "queue": self._queue,
            "paused": self._queue + PAUSED,
            "grouped": grouped_queue(self._queue),
            "executor": executor_id,
            "version": VERSION,
        }

    def read(self) -> dict[str, tuple[Call, Workflow | None]]:
        """Return the calls of the items, and what is stored of their runs, by their DBOS ids.

        Nothing matters of a plain one that has not begun.
        """
        found = self._cluster.statuses(self._items, load_input=True)
        calls = {name: Call.from_json(status.input["args"][0]) for name, status in found.items()}

        def look(backend: Any) -> dict[str, Workflow | None]:
            fences = backend.read_fences([call.workflow_id for call in calls.values()])
            return {
                name: backend.read_workflow(call.workflow_id)
                for name, call in calls.items()
                if not self._is_plain or fences.get(call.workflow_id) != 0
            }

        stored = self._store.backend.snapshot(look)
        return {name: (call, stored.get(name)) for name, call in calls.items()}

    def next(self, ended: Ended | None, *, begin: bool) -> str | None:
        """Store how an item ended, and begin the next one; return its DBOS id, None if there is none."""
        item, output, error = ended or (None, None, None)
        status = "SUCCESS" if error is None else "ERROR"
        more = {"ended": item, "output": output, "error": error, "status": status}
        given = {**self._given, **more, "items": self._items if begin else []}
        rows = self._store.backend.database.execute(self._next, given)
        return str(rows[0][0]) if rows else None

    def release(self) -> None:
        """Make calls of their own of the items that have not begun."""
        statement = _RELEASE.format(self._cluster.schema)
        self._store.backend.database.write(
            lambda connection: connection.execute(statement, self._given).rowcount
        )
