"""What those who submit and those who work have in common: where the database is, and how DBOS is used on it.

The tables of DBOS are made when they are first needed. Only its public calls are used.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy.exc import DBAPIError, OperationalError

from hypergraph.checkpointers import PostgresCheckpointer
from hypergraph.exceptions import CheckpointError, StoreUnavailableError
from hypergraph.integrations.dbos.calls import dbos, maps_of, named, url_of

VERSION = "hypergraph"  # which code may go on with which run, the store decides (`code_change`), not DBOS
WORKER_CONCURRENCY = 10  # runs of one queue at once in one worker; as many connections as a store opens
_BARE = {"load_input": False, "load_output": False}


@dataclass
class Cluster:
    """One application on one database."""

    dsn: str
    application: str
    make_store: Callable[[str], PostgresCheckpointer]
    polling: float
    _client: Any = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def url(self) -> str:
        """The address for DBOS."""
        return url_of(named(self.dsn, "hypergraph"))

    def store(self, name: str = "hypergraph") -> PostgresCheckpointer:
        """Return the store, its sessions named so.

        Raises:
            ValueError: it does not write every step at once, so others could not go on from it.
        """
        store = self.make_store(named(self.dsn, name))
        if store.policy.durability != "sync":
            raise ValueError(
                f'A run that others may take over needs durability="sync", got {store.policy.durability!r}'
            )
        return store

    @property
    def client(self) -> Any:
        """The client of DBOS, connected on first use.

        Raises:
            CheckpointError: the database cannot be reached, or refuses to have the tables of DBOS.
        """
        with self._lock:
            if self._client is None:
                self._client = self._connected()
            return self._client

    def _connected(self) -> Any:
        try:
            dbos.DBOS.migrate(self.url)
            return dbos.DBOSClient(
                system_database_url=self.url,
                serializer=dbos.DBOSPortableJSONSerializer(),
                application_name=self.application,
            )
        except OperationalError as error:
            raise StoreUnavailableError(f"The database cannot be reached: {error.orig}") from error
        except DBAPIError as error:
            raise CheckpointError(
                f"The database refuses the tables of DBOS: {error.orig}. Grant this user CREATE on the "
                "database, or the use of the schema dbos and its tables."
            ) from error

    def close(self) -> None:
        """Close the connections of the client."""
        with self._lock:
            if self._client is not None:
                self._client.destroy()
                self._client = None

    def declare(self, queue: str, **limits: Any) -> None:
        """Create or change a queue, and that of the maps whose items go there."""
        client, given = self.client, {"polling_interval_sec": self.polling, **limits}
        client.register_queue(queue, **given)
        quick = {"polling_interval_sec": given["polling_interval_sec"]}
        client.register_queue(maps_of(queue), **quick, on_conflict="never_update")

    def declare_if_missing(self, queue: str) -> None:
        """Create a queue with the usual limits, unless there is one of that name."""
        if self.client.retrieve_queue(queue) is None:
            self.declare(queue, worker_concurrency=WORKER_CONCURRENCY, on_conflict="never_update")

    def found(self, dbos_ids: Iterable[str], **filters: Any) -> dict[str, Any]:
        """Return what DBOS knows of some of its workflows, by their ids, without inputs and outputs."""
        ids = list(dbos_ids)
        listed = self.client.list_workflows(workflow_ids=ids, **{**_BARE, **filters}) if ids else []
        return {status.workflow_id: status for status in listed}

    def pending(self, **filters: Any) -> list[Any]:
        """Return the runs of this application that some worker has taken."""
        found: list[Any] = self.client.list_workflows(
            status="PENDING", application_name=self.application, **_BARE, **filters
        )
        return found

    def waiting(self, queue: str) -> int:
        """Return how many runs wait in a queue, counted up to a thousand."""
        found = self.client.list_workflows(
            status=["ENQUEUED", "DELAYED"],
            queue_name=queue,
            limit=1000,
            application_name=self.application,
            **_BARE,
        )
        return len(found)

    def put_back(self, statuses: Iterable[Any]) -> int:
        """Put runs that were taken back into their queues; return how many there were."""
        by_queue: dict[str, list[str]] = defaultdict(list)
        for status in statuses:
            if status.status == "PENDING":  # a run that was cancelled stays so
                by_queue[status.queue_name].append(status.workflow_id)
        for queue, ids in by_queue.items():
            self.client.resume_workflows(ids, queue_name=queue)
        return sum(map(len, by_queue.values()))
