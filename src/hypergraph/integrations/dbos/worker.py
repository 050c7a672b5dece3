"""The worker of a cluster: start, watch, drain and stop."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import dbos

from hypergraph import Graph
from hypergraph.exceptions import HypergraphError
from hypergraph.integrations.dbos.calls import MAP, NAMES, RUN, SCHEDULED, Call, graph_name
from hypergraph.integrations.dbos.cluster import VERSION, Cluster, map_queue
from hypergraph.integrations.dbos.execution import DrainedError, Runs, outcome, portable_error, run_map
from hypergraph.integrations.dbos.metrics import Metrics, series, serve
from hypergraph.integrations.dbos.presence import ExecutorInUseError, Presence, session_name

logger = logging.getLogger("hypergraph.worker")
_HAND_OVER = 10  # seconds for running nodes to end, after the drain time
_AWAKE = 0.5  # seconds until a signal that did not wake the main thread is handled


@dataclass(frozen=True)
class WorkerSettings:
    """Settings of a worker: its id, its queues and its times."""

    executor_id: str  # unique among live workers
    queues: Sequence[str]  # the queues it claims runs from
    interval: float = 1.0  # seconds between two heartbeats, each with a look for dead workers
    patience: float = 30.0  # seconds without a heartbeat after which another worker counts as dead
    drain: float = 20.0  # seconds for running runs to end when the worker stops
    host: str = "127.0.0.1"  # the address of /health and /metrics
    port: int = 0  # their port; 0 chooses a free one
    log_level: str = "ERROR"  # of DBOS, which logs every failed poll while the database is away


def graphs_by_name(graphs: Graph | Mapping[str, Graph] | Iterable[Graph]) -> dict[str, Graph]:
    """Return graphs by the names under which they are submitted.

    Raises:
        TypeError: one of them is not a graph.
        ValueError: one has no name, or two have the same.
    """
    if isinstance(graphs, Mapping):
        named = [(str(name), graph) for name, graph in graphs.items()]
    else:
        listed = [graphs] if isinstance(graphs, Graph) else list(graphs)
        named = [(graph_name(graph) if isinstance(graph, Graph) else "", graph) for graph in listed]
    for _, graph in named:
        if not isinstance(graph, Graph):
            raise TypeError(f"A worker runs graphs, got {type(graph).__name__}")
    found = dict(named)
    if len(found) < len(named):
        raise ValueError("Two graphs have the same name; pass a dict to give them different names")
    return found


class Worker:
    """One worker, the only one of its process: DBOS allows no second one."""

    def __init__(self, cluster: Cluster, graphs: Mapping[str, Graph], settings: WorkerSettings) -> None:
        self.settings = settings  # as given
        self.is_draining = False  # whether it claims no more runs
        self.has_lost_its_id = False  # whether another worker took over its id
        self._cluster = cluster
        self._metrics = Metrics(self._gauges)
        self._store = cluster.store(session_name(settings.executor_id))
        self._runs = Runs(self._store, graphs, self._metrics)
        self._presence = Presence(
            cluster.dsn, cluster.application, settings.executor_id, patience=settings.patience
        )
        self._is_handing_over = False
        self._leave = threading.Event()
        self._ended = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="hypergraph-watch", daemon=True)
        self._server: Any = None

    # -- start and stop --------------------------------------------------------------------------------

    def start(self) -> None:
        """Start to claim and run what is submitted.

        Raises:
            ExecutorInUseError: a live worker has this id.
            CheckpointError: the database cannot be reached, or rejects the worker.
            RuntimeError: this process already has a worker.
            OSError: the port is in use.
        """
        global _worker  # noqa: PLW0603 - the functions that DBOS calls find the worker here
        if _worker is not None:
            raise RuntimeError("This process already has a worker; start another process.")
        self._presence.begin()
        try:
            self._store.backend.open()
            for queue in self.settings.queues:
                self._cluster.ensure_queue(queue)
            self._server = serve(self.settings.host, self.settings.port, self._metrics, self.health)
            _worker = self
            _register()
            self._launch()
        except BaseException:
            dbos.DBOS.destroy()
            self._end()
            raise
        self._watcher.start()

    def _launch(self) -> None:
        settings, cluster = self.settings, self._cluster
        name = session_name(settings.executor_id)
        dbos.DBOS(
            config={
                "name": cluster.application,
                "system_database_url": cluster.url,
                "executor_id": settings.executor_id,
                "application_version": VERSION,
                "serializer": dbos.DBOSPortableJSONSerializer(),
                "sys_db_pool_size": 10,
                "db_engine_kwargs": {"connect_args": {"application_name": name}},
                "scheduler_polling_interval_sec": settings.interval,
                "run_migrations": False,  # the client has created the tables
                "log_level": settings.log_level,
            }
        )
        dbos.DBOS.listen_queues([name for queue in settings.queues for name in (queue, map_queue(queue))])
        dbos.DBOS.launch()

    def __enter__(self) -> Worker:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    @property
    def address(self) -> str:
        """The URL under which `/health` and `/metrics` are."""
        host, port = self._server.server_address[:2]
        return f"http://{host}:{port}"

    def leave(self) -> None:
        """Make `wait` return, so that the process can call `stop`; safe in a signal handler."""
        self._leave.set()

    def wait(self) -> None:
        """Wait until `leave` was called, or until another worker took over the id."""
        # Python calls the handler of a signal between two instructions of the main thread. A signal that
        # arrives just before this thread sleeps, or in another thread, does not end its sleep.
        while not self._leave.wait(_AWAKE):
            pass

    def stop(self) -> None:
        """Drain and stop: claim no more runs, let running ones end, requeue those that take too long."""
        self.is_draining = True
        self._leave.set()
        logger.info("draining: %d runs are running", len(self._runs.live))
        hand_over = threading.Timer(self.settings.drain, self._hand_over)
        hand_over.start()
        try:
            dbos.DBOS.destroy(workflow_completion_timeout_sec=int(self.settings.drain) + _HAND_OVER)
        finally:
            hand_over.cancel()
            self._end()

    def _hand_over(self) -> None:
        self._is_handing_over = True
        for dbos_id in self._runs.live:
            self._runs.stop(dbos_id)

    def _end(self) -> None:
        global _worker  # noqa: PLW0603
        self.is_draining = True
        self._leave.set()
        self._ended.set()
        _worker = None
        self._runs.close()
        self._presence.end()
        self._cluster.close()
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()

    # -- watch -----------------------------------------------------------------------------------------

    def _watch(self) -> None:
        while not self._ended.is_set():
            try:
                self._presence.beat()
                self._stop_cancelled()
                if not self.is_draining:
                    self._recover()
            except ExecutorInUseError as error:
                logger.error("stopping: %s", error)
                self.has_lost_its_id = True
                self._leave.set()
                return
            except Exception as error:  # the next round may succeed
                self._metrics.count("hypergraph_watch_errors_total")
                if not self._ended.is_set():
                    logger.warning("heartbeat or recovery failed: %s: %s", type(error).__name__, error)
            self._ended.wait(self.settings.interval)

    def _stop_cancelled(self) -> None:
        for dbos_id in self._cluster.statuses(self._runs.live, status="CANCELLED"):
            self._runs.stop(dbos_id)

    def _recover(self) -> None:
        """Requeue the runs of dead workers; of several workers that notice, one does it."""
        others = {status.executor_id for status in self._cluster.pending(name=NAMES)}
        for executor_id in sorted(others - {self.settings.executor_id, None}):
            with self._presence.takeover(executor_id) as is_dead:
                if not is_dead:
                    continue
                claimed = self._cluster.pending(name=NAMES, executor_id=executor_id)
                count = self._cluster.requeue(claimed)
            if count:
                logger.warning("worker %s is dead: %d runs are back in their queues", executor_id, count)
                self._metrics.count("hypergraph_recovered_total", count)

    # -- health and metrics ----------------------------------------------------------------------------

    def health(self) -> dict[str, Any]:
        """Return the document of `/health`: whether this worker works, and if not, why."""
        age = self._presence.age
        is_late = age > max(self.settings.patience, 3 * self.settings.interval)
        problem = "draining" if self.is_draining else "no contact with the database" if is_late else None
        return {
            "ok": problem is None,
            "problem": problem,
            "executor_id": self.settings.executor_id,
            "live": len(self._runs.live),
            "heartbeat_age": round(age, 3),
        }

    def _gauges(self) -> Mapping[str, float]:
        found = {
            "hypergraph_runs_live": len(self._runs.live),
            "hypergraph_lock_losses_total": self._presence.losses,
            "hypergraph_heartbeat_age_seconds": self._presence.age,
            "hypergraph_draining": float(self.is_draining),
        }
        with suppress(Exception):  # the other gauges matter most when the database is away
            for queue in self.settings.queues:
                found[series("hypergraph_queue_waiting", queue=queue)] = self._cluster.waiting(queue)
        return found

    # -- calls, as DBOS makes them ---------------------------------------------------------------------

    async def _run(self, dbos_id: str, call: Call) -> str:
        result = await self._runs.run(dbos_id, call)
        if result.stopped and self._is_handing_over:
            await asyncio.to_thread(self._requeue, dbos_id)
        return outcome(result)

    async def _map(self, dbos_id: str, call: Call) -> str:
        graph = self._runs.graph_of(call)
        try:
            return await run_map(self._cluster, self._store, graph, call, lambda: self.is_draining)
        except DrainedError:
            await asyncio.to_thread(self._requeue, dbos_id)
            return ""
        except (HypergraphError, ValueError, TypeError) as error:
            raise portable_error(error) from error

    def _requeue(self, dbos_id: str) -> None:
        count = self._cluster.requeue(self._cluster.statuses([dbos_id]).values())
        self._metrics.count("hypergraph_handed_over_total", count)


_worker: Worker | None = None  # the worker of this process


@lru_cache(maxsize=1)
def _register() -> None:
    """Register our workflows with DBOS, once per process; they run on the worker of the moment."""

    async def run(text: str) -> str:
        return await current()._run(own_id(), Call.from_json(text))

    async def map(text: str) -> str:
        return await current()._map(own_id(), Call.from_json(text))

    async def scheduled(at: str, text: str) -> str:
        call, own = Call.from_json(text), own_id()
        return await current()._run(own, replace(call, workflow_id=own, sealed=call.workflow_id))

    def current() -> Worker:
        if _worker is None:
            raise RuntimeError("The worker of this process has stopped.")
        return _worker

    def own_id() -> str:
        return str(dbos.DBOS.workflow_id)

    functions: dict[str, Callable[..., Any]] = {RUN: run, MAP: map, SCHEDULED: scheduled}
    for name, function in functions.items():
        # No limit of DBOS: the store counts the crashes of a run.
        dbos.DBOS.workflow(name=name, max_recovery_attempts=None)(function)
