"""The database of a cluster, and the DBOS client on it: queues, listings, requeueing.

Clients and workers share it. The tables of DBOS are created on first use. Only public calls of DBOS are used,
except for the items of maps, which are submitted many at once, and for calls that wait for nested ones.
"""

from __future__ import annotations

import json
import logging
import re
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import dbos
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from sqlalchemy import create_engine, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import DBAPIError, OperationalError

from hypergraph.checkpointers import PostgresCheckpointer
from hypergraph.checkpointers.postgres.address import address_of, split_schema
from hypergraph.checkpointers.postgres.errors import translated
from hypergraph.exceptions import CheckpointError, StoreUnavailableError
from hypergraph.integrations.dbos.calls import GROUP, IN_FLIGHT, NAMES
from hypergraph.views.cluster import GROUPED, MAPS, PAUSED
from hypergraph.views.doctor import PLAIN_QUEUE

VERSION = "hypergraph"  # one for all: the store decides which code may resume a run (`code_change`), not DBOS
WORKER_CONCURRENCY = 10  # default limit of runs per queue and worker; a store opens as many connections
_BARE = {"load_input": False, "load_output": False}
_CHUNK = 1000  # ids in one statement
_PARK = """
UPDATE {schema}.workflow_status SET status = 'DELAYED', owner_xid = NULL, started_at_epoch_ms = NULL,
    queue_name = {plain},
    delay_until_epoch_ms = (extract(epoch FROM clock_timestamp()) * 1000)::bigint + :wait
WHERE workflow_uuid = :id AND status = 'PENDING'
"""
_WAKE = """
UPDATE {}.workflow_status SET status = 'ENQUEUED', delay_until_epoch_ms = NULL
WHERE workflow_uuid = :id AND status = 'DELAYED'
"""
_PLAIN = ("workflow_uuid", "status", "name", "queue_name", "priority", "serialization", "application_name")
_ENQUEUE = """
WITH given AS (SELECT * FROM json_to_recordset(CAST(:rows AS json)) AS r (workflow_uuid text, status text,
    name text, queue_name text, priority int, serialization text, application_name text, inputs text)
), added AS (
    INSERT INTO {0}.workflow_status (workflow_uuid, status, name, queue_name, priority, serialization,
        application_name, recovery_attempts, created_at, updated_at)
    SELECT workflow_uuid, status, name, queue_name, priority, serialization, application_name, 0, :now, :now
    FROM given ON CONFLICT (workflow_uuid) DO NOTHING)
INSERT INTO {0}.workflow_input (workflow_uuid, inputs, retention_timestamp)
SELECT workflow_uuid, inputs, :now FROM given ON CONFLICT (workflow_uuid) DO NOTHING
"""
_IN_FLIGHT = """
SELECT workflow_uuid FROM {}.workflow_status WHERE workflow_uuid = ANY(:ids) AND status = ANY(:in_flight)
"""
_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,62}")


_SSL_PASSWORD = re.compile(r"(sslpassword['\"]?\s*[=:]\s*['\"]?)[^&\s'\"]+", re.IGNORECASE)


def _without_ssl_password(record: logging.LogRecord) -> bool:
    """Hide the password of a client key: DBOS logs its addresses, without `password` alone."""
    shown = record.getMessage()
    hidden = _SSL_PASSWORD.sub(r"\1***", shown)
    if hidden != shown:
        record.msg, record.args = hidden, ()
    return True


logging.getLogger("dbos").addFilter(_without_ssl_password)


def session_address(dsn: str, session: str) -> str:
    """Return the address of a database, for sessions of that name. Raises ValueError for a wrong address."""
    address = address_of(dsn)
    return address._replace(conninfo=make_conninfo(address.conninfo, application_name=session)).with_schema


def url_of(conninfo: str) -> str:
    """Return an address as the URL that DBOS expects; the schema is another option of DBOS."""
    parts: dict[str, Any] = dict(conninfo_to_dict(split_schema(conninfo)[0]))
    user, password, database = (parts.pop(name, None) for name in ("user", "password", "dbname"))
    query = {name: str(value) for name, value in parts.items() if name != "application_name"}
    url = URL.create("postgresql", username=user, password=password or None, database=database, query=query)
    return url.render_as_string(hide_password=False)


def map_queue(queue: str) -> str:
    """Return the queue of the maps whose items go to `queue`: a map that waits must not occupy it."""
    return queue + MAPS


def grouped_queue(queue: str) -> str:
    """Return the queue of items that share a call in `queue`: no worker reads it."""
    return queue + GROUPED


def plain_queue(queue: str) -> str:
    """Return the queue in which a call is on its own, for that of a call that may be part of a group."""
    return queue.removesuffix(GROUPED)


@dataclass
class Cluster:
    """One application on one database."""

    dsn: str
    application: str
    make_store: Callable[[str], PostgresCheckpointer]
    polling: float
    _client: Any = None
    _engine: Any = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        address = address_of(self.dsn)
        if not _SCHEMA.fullmatch(address.cluster_schema):
            raise ValueError(
                f"schema={address.schema!r} cannot be that of a cluster: use up to 58 lower-case letters, "
                "digits and _"
            )

    @property
    def schema(self) -> str:
        """The schema of the tables of DBOS."""
        return address_of(self.dsn).cluster_schema

    # -- connections -----------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        """The address for DBOS."""
        return url_of(session_address(self.dsn, "hypergraph"))

    def store(self, session: str = "hypergraph") -> PostgresCheckpointer:
        """Return a store whose sessions have that name.

        Raises:
            ValueError: the store does not commit every step at once, so no other worker could resume.
        """
        store = self.make_store(session_address(self.dsn, session))
        if store.policy.durability != "sync":
            raise ValueError(
                f'DBOSRunner needs a store with durability="sync", got {store.policy.durability!r}'
            )
        return store

    @property
    def client(self) -> Any:
        """The client of DBOS, connected on first use.

        Raises:
            CheckpointError: the database cannot be reached, or rejects the tables of DBOS.
        """
        with self._lock:
            if self._client is None:
                self._client = self._connect()
            return self._client

    def _connect(self) -> Any:
        try:
            dbos.DBOS.migrate(self.url, schema=self.schema)
            return dbos.DBOSClient(
                system_database_url=self.url,
                dbos_system_schema=self.schema,
                serializer=dbos.DBOSPortableJSONSerializer(),
                application_name=self.application,
            )
        except OperationalError as error:
            raise StoreUnavailableError(f"The database cannot be reached: {error.orig}") from error
        except DBAPIError as error:
            raise CheckpointError(
                f"The database rejected the tables of DBOS: {error.orig}. Grant this user CREATE on the "
                f"database, or USAGE on the schema {self.schema} and its tables."
            ) from error

    def close(self) -> None:
        """Close the connections of the client."""
        with self._lock:
            if self._client is not None:
                self._client.destroy()
                self._client = None
            if self._engine is not None:
                self._engine.dispose()
                self._engine = None

    # -- queues ----------------------------------------------------------------------------------------

    def set_queue(self, queue: str, **limits: Any) -> None:
        """Create or change a queue, and create the queue of its maps."""
        client, given = self.client, {"polling_interval_sec": self.polling, **limits}
        client.register_queue(queue, **given)
        polling = {"polling_interval_sec": given["polling_interval_sec"]}
        client.register_queue(map_queue(queue), **polling, on_conflict="never_update")

    def pause_queue(self, queue: str) -> bool:
        """Let workers claim no more runs of a queue; return whether the queue exists."""
        client = self.client
        if (found := client.retrieve_queue(queue)) is None:
            return False
        kept = queue + PAUSED
        if client.retrieve_queue(kept) is None:  # the limit that is to come back is kept under this name
            client.register_queue(kept, worker_concurrency=found.worker_concurrency)
            found.set_worker_concurrency(0)
            if (maps := client.retrieve_queue(map_queue(queue))) is not None:
                maps.set_worker_concurrency(0)
        return True

    def resume_queue(self, queue: str) -> bool:
        """Let workers claim runs of a paused queue again; return whether it was paused."""
        client = self.client
        if (kept := client.retrieve_queue(queue + PAUSED)) is None:
            return False
        for name, limit in ((queue, kept.worker_concurrency), (map_queue(queue), None)):
            if (found := client.retrieve_queue(name)) is not None:
                found.set_worker_concurrency(limit)
        client.delete_queue(queue + PAUSED)
        return True

    def ensure_queue(self, queue: str) -> None:
        """Create a queue with the default limits, unless it exists."""
        if self.client.retrieve_queue(queue) is None:
            self.set_queue(queue, worker_concurrency=WORKER_CONCURRENCY, on_conflict="never_update")

    # -- submitted workflows ---------------------------------------------------------------------------

    def statuses(self, dbos_ids: Iterable[str], **filters: Any) -> dict[str, Any]:
        """Return the statuses of DBOS workflows of this application by id, without inputs and outputs."""
        ids, found = list(dbos_ids), {}
        wanted = {**_BARE, "application_name": self.application, **filters}
        for at in range(0, len(ids), _CHUNK):
            listed = self.client.list_workflows(workflow_ids=ids[at : at + _CHUNK], **wanted)
            found.update({status.workflow_id: status for status in listed})
        return found

    def in_flight(self, dbos_ids: Iterable[str]) -> set[str]:
        """Return those of DBOS workflows that have not ended: `statuses` would tell all about each."""
        with self.transaction() as connection:
            given = {"ids": list(dbos_ids), "in_flight": list(IN_FLIGHT)}
            rows = connection.execute(text(_IN_FLIGHT.format(self.schema)), given).fetchall()
        return {dbos_id for (dbos_id,) in rows}

    def enqueue_all(self, orders: Iterable[tuple[dict[str, Any], str]]) -> None:
        """Put calls into queues, all of them or none; those that exist stay as they are.

        DBOS has no public call for that. Its own statement, which knows all options, takes longer to build
        than the server takes for the rows.
        """
        client, rows = self.client, []
        statuses = [client._build_enqueue_status(*order)[1] for order in orders]
        for status in statuses:
            row = {name: status[name] for name in (*_PLAIN, "inputs")}
            if any(value for name, value in status.items() if name not in row):
                client._sys_db.init_workflows(statuses)
                return
            rows.append(row)
        with self.transaction() as connection:
            given = {"rows": json.dumps(rows), "now": int(time.time() * 1000)}
            connection.execute(text(_ENQUEUE.format(self.schema)), given)

    def cancel(self, dbos_ids: Iterable[str]) -> None:
        """Cancel DBOS workflows."""
        ids = list(dbos_ids)
        for at in range(0, len(ids), _CHUNK):
            self.client.cancel_workflows(ids[at : at + _CHUNK])

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        """Lend a connection of SQLAlchemy inside of a transaction, which is committed at the end.

        Raises:
            CheckpointError: the database cannot be reached, or rejects a statement.
        """
        with self._lock:
            if self._engine is None:
                url = make_url(self.url).set(drivername="postgresql+psycopg")
                self._engine = create_engine(url, pool_size=2, pool_pre_ping=True)
            engine = self._engine
        try:
            with engine.begin() as connection:
                yield connection
        except DBAPIError as error:
            address = address_of(self.dsn)
            raise translated(error.orig or error, address.shown, address.secrets) from error

    def below(self, workflow_id: str) -> list[str]:
        """Return the DBOS ids in flight of items and nested graphs of a workflow."""
        found = self.client.list_workflows(
            workflow_id_prefix=f"{workflow_id}/",
            status=list(IN_FLIGHT),
            application_name=self.application,
            **_BARE,
        )
        return [status.workflow_id for status in found]

    def park(self, dbos_id: str, seconds: float) -> bool:
        """Delay a call that a worker has claimed; return whether it was claimed, and not cancelled."""
        with self.transaction() as connection:
            given = {"id": dbos_id, "wait": int(seconds * 1000)}
            return bool(
                connection.execute(text(_PARK.format(schema=self.schema, plain=PLAIN_QUEUE)), given).rowcount
            )

    def wake(self, dbos_id: str) -> None:
        """Let a call that was parked be claimed."""
        with self.transaction() as connection:
            connection.execute(text(_WAKE.format(self.schema)), {"id": dbos_id})

    def pending(self, **filters: Any) -> list[Any]:
        """Return the statuses of this application's workflows that a worker has claimed."""
        found: list[Any] = self.client.list_workflows(
            status="PENDING", application_name=self.application, **_BARE, **filters
        )
        return found

    def waiting(self, queue: str) -> int:
        """Return the number of workflows that wait in a queue, at most 1000."""
        found = self.client.list_workflows(
            name=[name for name in NAMES if name != GROUP],
            status=["ENQUEUED", "DELAYED"],
            queue_name=[queue, grouped_queue(queue)],
            limit=1000,
            application_name=self.application,
            **_BARE,
        )
        return len(found)

    def requeue(self, statuses: Iterable[Any]) -> int:
        """Return claimed workflows to their queues; return the number of runs and maps among them.

        An item of a group becomes a call of its own: if it is what killed its worker, it is so alone.
        """
        by_queue: dict[str, list[str]] = defaultdict(list)
        count = 0
        for status in statuses:
            if status.status == "PENDING":  # a cancelled one stays cancelled
                by_queue[plain_queue(status.queue_name)].append(status.workflow_id)
                count += status.name != GROUP
        for queue, ids in by_queue.items():
            self.client.resume_workflows(ids, queue_name=queue)
        return count
