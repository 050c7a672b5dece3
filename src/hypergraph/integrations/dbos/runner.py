"""Runs on a cluster of workers, through DBOS on Postgres: the extra `dbos`.

One run, or one item of a map, is one workflow of DBOS, which decides who runs it; its steps are written by
our own store, so that resuming, forking, time travel and all tools work as they do for local runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from hypergraph import Graph, MapResult, RunResult
from hypergraph.checkpointers import PostgresCheckpointer, WorkflowStatus
from hypergraph.exceptions import CheckpointError
from hypergraph.integrations.dbos.calls import (
    IN_FLIGHT,
    MAP,
    RUN,
    SCHEDULED,
    attempt_id,
    dbos,
    item_id,
    known_graphs,
    maps_of,
)
from hypergraph.integrations.dbos.client import ErrorHandling, Submissions, Submitted
from hypergraph.integrations.dbos.cluster import Cluster
from hypergraph.integrations.dbos.worker import Worker, WorkerSettings
from hypergraph.integrations.parameters import explained_integration


@explained_integration
class DBOSRunner:
    """Submit graphs to workers over one Postgres database, and wait for what becomes of them.

    `store` makes the store from an address; give one to set a codec, a serializer or artifacts. Nothing is
    connected to before it is needed. Raises ImportError without the extra, ValueError for a wrong address.
    """

    def __init__(
        self,
        dsn: str,
        *,
        store: Callable[[str], PostgresCheckpointer] = PostgresCheckpointer,
        queue: str = "hypergraph",
        application: str = "hypergraph",
        polling: float = 0.1,
    ) -> None:
        if not polling > 0:
            raise ValueError(f"polling must be a number of seconds greater than 0, got {polling!r}")
        self._cluster = Cluster(dsn, application, store, polling)
        self.checkpointer = self._cluster.store()  # the store of the runs
        self._submissions = Submissions(self._cluster, self.checkpointer)
        self._queue = queue

    # -- submitting ------------------------------------------------------------------------------------

    @explained_integration
    def submit(
        self,
        graph: Graph | str,
        values: Mapping[str, Any] | None = None,
        *,
        workflow_id: str | None = None,
        queue: str | None = None,
        priority: int | None = None,
        partition: str | None = None,
        delay: float | None = None,
        tags: Mapping[str, str] | None = None,
        **options: Any,
    ) -> Submitted:
        """Put a run into a queue and return what stands for it; a graph may be given by its name.

        Submitting again what has not ended yet is the same submission. What has ended goes on as `run` on an
        existing id does.

        Raises:
            WorkflowLockedError: the workflow has not ended, and was submitted with something else.
            TypeError: a value cannot be stored, or an option cannot travel.
            ValueError: the graph has no name.
            CheckpointError: the id cannot be one.
        """
        call = self._submissions.call(graph, workflow_id, values, options, tags)
        more = {"priority": priority, "queue_partition_key": partition, "delay_seconds": delay}
        dbos_id = self._submissions.enqueue(RUN, call, queue or self._queue, **more)
        return Submitted(self._submissions, call.workflow_id, dbos_id, graph)

    @explained_integration
    def submit_map(
        self,
        graph: Graph | str,
        values: Mapping[str, Any] | None = None,
        *,
        map_over: str | Sequence[str],
        map_mode: Literal["zip", "product"] = "zip",
        workflow_id: str | None = None,
        queue: str | None = None,
        tags: Mapping[str, str] | None = None,
        **options: Any,
    ) -> Submitted:
        """Put a map into a queue: a worker submits its items, each of which any worker may run.

        Raises what `submit` raises.
        """
        names = [map_over] if isinstance(map_over, str) else list(map_over)
        call = self._submissions.call(graph, workflow_id, values, options, tags)
        call = replace(call, queue=queue or self._queue, map_over=names, map_mode=map_mode)
        dbos_id = self._submissions.enqueue(MAP, call, maps_of(call.queue))
        return Submitted(self._submissions, call.workflow_id, dbos_id, graph)

    def run(self, graph: Graph | str, values: Mapping[str, Any] | None = None, **options: Any) -> RunResult:
        """Submit a run, wait for its end and return its result; takes what `submit` and `result` take."""
        waiting = {name: options.pop(name) for name in ("error_handling",) if name in options}
        found: RunResult = self.submit(graph, values, **options).result(**waiting)
        return found

    @explained_integration
    def map(
        self, graph: Graph | str, values: Mapping[str, Any] | None = None, *, map_over: Any, **options: Any
    ) -> MapResult:
        """Submit a map, wait for its end and return its results; takes what `submit_map` takes."""
        waiting = {name: options.pop(name) for name in ("error_handling",) if name in options}
        found: MapResult = self.submit_map(graph, values, map_over=map_over, **options).result(**waiting)
        return found

    # -- what became of it -----------------------------------------------------------------------------

    @explained_integration
    def result(
        self,
        workflow_id: str,
        *,
        graph: Graph | None = None,
        timeout: float | None = None,
        error_handling: ErrorHandling = "raise",
    ) -> Any:
        """Wait for the end of what was last submitted under an id; return its RunResult or MapResult.

        With the graph, values come back as the classes which its annotations name.

        Raises:
            WorkflowError: nothing was submitted under this id, or, under "raise", it failed.
            TimeoutError: it has not ended in time; it goes on.
        """
        last = self._submissions.last_attempt(workflow_id) or 1
        status = self._submissions.outcome(attempt_id(workflow_id, last), timeout)
        return self._submissions.result(workflow_id, status, graph, error_handling)

    def cancel(self, workflow_id: str) -> bool:
        """Cancel what was submitted under an id; return whether there was anything to cancel.

        What waits is never begun. What runs stops before its next node, soon after its worker has heard of
        it, and can be submitted again to go on.
        """
        attempt = self._submissions.last_attempt(workflow_id)
        if not attempt:
            return False
        store = self.checkpointer
        items = [child.item for child in store.backend.children(workflow_id) if child.item is not None]
        names = [workflow_id, *(item_id(workflow_id, item) for item in items)]
        ids = [attempt_id(name, attempt) for name in names]
        in_flight = self._cluster.found(ids, status=list(IN_FLIGHT))
        self._cluster.client.cancel_workflows(list(in_flight))
        for name, dbos_id in zip(names, ids, strict=True):
            found = store.backend.read_workflow(name) if dbos_id in in_flight else None
            if found is not None and found.status is WorkflowStatus.ACTIVE:
                try:
                    store.update_workflow_status(name, WorkflowStatus.STOPPED)
                except CheckpointError:
                    pass  # its owner lives, and will stop
        return bool(in_flight)

    # -- queues and schedules --------------------------------------------------------------------------

    def queue(
        self,
        name: str,
        *,
        concurrency: int | None = None,
        worker_concurrency: int | None = None,
        limit: tuple[int, float] | None = None,
        partition_concurrency: int | None = None,
        polling: float | None = None,
    ) -> None:
        """Create or change a queue; workers follow at once.

        `concurrency` bounds the runs under way everywhere, `worker_concurrency` those in one worker, `limit`
        is how many may begin in how many seconds, `partition_concurrency` bounds those of one partition,
        `polling` is how many seconds workers wait between looks into it.
        Raises ValueError for limits that make no sense.
        """
        self._cluster.declare(
            name,
            global_concurrency=concurrency,
            worker_concurrency=worker_concurrency,
            limiter={"limit": limit[0], "period": limit[1]} if limit else None,
            partition_concurrency=partition_concurrency,
            polling_interval_sec=polling or self._cluster.polling,
        )

    @explained_integration
    def schedule(
        self,
        name: str,
        graph: Graph | str,
        cron: str,
        values: Mapping[str, Any] | None = None,
        *,
        queue: str | None = None,
        timezone: str | None = None,
        backfill: bool = False,
        tags: Mapping[str, str] | None = None,
        **options: Any,
    ) -> None:
        """Create or replace a schedule; each time it submits a run called "sched-NAME-TIME".

        `cron` has five fields, or six with seconds first; with `backfill`, times that nobody was there for
        are made up for. Raises ValueError for a wrong time or zone, and what `submit` raises.
        """
        call = self._submissions.call(graph, name, values, options, tags)
        self._cluster.declare_if_missing(queue or self._queue)
        try:
            self._cluster.client.apply_schedules(
                [
                    {
                        "schedule_name": name,
                        "workflow_name": SCHEDULED,
                        "schedule": cron,
                        "context": call.text(),
                        "cron_timezone": timezone,
                        "automatic_backfill": backfill,
                        "queue_name": queue or self._queue,
                    }
                ]
            )
        except dbos.error.DBOSException as error:
            raise ValueError(str(error)) from error

    def unschedule(self, name: str) -> None:
        """Remove a schedule; runs that it has submitted stay."""
        self._cluster.client.delete_schedule(name)

    # -- working ---------------------------------------------------------------------------------------

    @explained_integration
    def worker(
        self, graphs: Graph | Mapping[str, Graph] | Iterable[Graph], *, executor_id: str, **settings: Any
    ) -> Worker:
        """Return a worker for this process, which is to be started; settings are those of `WorkerSettings`.

        Raises ValueError for graphs without names and for an id that cannot be one.
        """
        settings.setdefault("queues", [self._queue])
        return Worker(self._cluster, known_graphs(graphs), WorkerSettings(executor_id, **settings))

    def close(self) -> None:
        """Close all connections; the next use opens what it needs."""
        self._cluster.close()
        self.checkpointer.close()
