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
from hypergraph.durability.recorder import settle_map
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
# This need not wait for the disk: an item whose end was lost with the server is found complete in the store,
# and the store has the owner of one whose begin was.
_NEXT = f"""
WITH ended AS (
    UPDATE {{0}}.workflow_status
    SET status = $2::text, queue_name = $5::text, owner_xid = NULL, updated_at = {_NOW}, completed_at = {_NOW}
    WHERE workflow_uuid = $1::text AND status = 'PENDING' AND queue_name = $6::text
    AND executor_id = $8::text AND set_config('synchronous_commit', 'off', true) IS NOT NULL
    RETURNING workflow_uuid
), kept AS (
    INSERT INTO {{0}}.workflow_output (workflow_uuid, output, error)
    SELECT workflow_uuid, $3::text, $4::text FROM ended
    ON CONFLICT (workflow_uuid) DO UPDATE SET output = excluded.output, error = excluded.error)
UPDATE {{0}}.workflow_status
SET status = 'PENDING', executor_id = $8::text, application_version = $9::text,
    started_at_epoch_ms = {_NOW}, updated_at = {_NOW}
WHERE workflow_uuid = (
    SELECT workflow_uuid FROM {{0}}.workflow_status
    WHERE workflow_uuid = $10::text AND status = 'ENQUEUED' AND queue_name = $6::text
    AND NOT EXISTS (SELECT FROM {{0}}.queues WHERE name = $7::text
        OR (name = $5::text AND (rate_limit_max IS NOT NULL OR partition_queue)))
    FOR UPDATE SKIP LOCKED)
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


def order_of_group(dbos_id: str, queue: str, items: Sequence[str]) -> tuple[dict[str, Any], str]:
    """Return the options of DBOS and the text of the call of a group of items with these DBOS ids."""
    wanted = {"workflow_name": GROUP, "queue_name": queue, "workflow_id": dbos_id}
    given = {"queue": queue, "items": list(items)}
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
        self._left = self._items[::-1]  # those that were not asked for
        self._is_released = False
        self._names: list[str] = []  # of the runs of all
        self._map: str | None = None  # that they are items of
        self._next = _NEXT.format(cluster.schema)
        self._given = (self._queue, grouped_queue(self._queue), self._queue + PAUSED, executor_id, VERSION)

    def read(self) -> dict[str, tuple[Call, Workflow | None]]:
        """Return the calls of the items, and what is stored of their runs, by their DBOS ids."""
        backend = self._store.backend
        found = self._cluster.statuses(self._items, load_input=True)
        calls = {name: Call.from_json(status.input["args"][0]) for name, status in found.items()}
        self._names = [call.workflow_id for call in calls.values()]
        ahead = backend.read_ahead(self._names)
        known = {
            name: (call, ahead.get(call.workflow_id) or backend.read_workflow(call.workflow_id))
            for name, call in calls.items()
        }
        parents = (None if stored is None else stored.parent_id for _, stored in known.values())
        self._map = next(filter(None, parents), None)
        return known

    def next(self, ended: Ended | None, *, begin: bool) -> str | None:
        """Store how an item ended, and begin the next one; return its DBOS id, None if there is none."""
        item, output, error = ended or (None, None, None)
        end: Any = (item, "SUCCESS" if error is None else "ERROR", output, error)
        while begin and self._left and not self._is_released:
            asked = self._left[-1]
            found = self._store.backend.database.execute(self._next, (*end, *self._given, asked))
            self._left.pop()
            if found is not None:
                return found
            end = (None,) * 4  # that is stored by now; this one was cancelled, or released
        if end[0] is not None:
            self._store.backend.database.execute(self._next, (*end, *self._given, None))
        return None

    def release(self) -> None:
        """Make calls of their own of the items that have not begun."""
        statement = _RELEASE.format(self._cluster.schema)
        given = {"queue": self._queue, "grouped": grouped_queue(self._queue), "items": self._items}
        self._store.backend.database.write(lambda connection: connection.execute(statement, given).rowcount)
        self._is_released = True

    def forget(self) -> None:
        """Forget what was read of items that have not begun."""
        self._store.backend.forget_ahead(self._names)

    def settle(self) -> None:
        """Bring the map up to date, if it does not run any more: it was cancelled meanwhile."""
        if self._map is not None:
            settle_map(self._store, self._map)
