"""Worker of a cluster."""

from __future__ import annotations

import asyncio
import contextvars
import json
import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

from hypergraph import AsyncRunner, Graph, RunResult, SyncRunner
from hypergraph.checkpointers import Checkpointer
from hypergraph.display import did_you_mean, jsonable
from hypergraph.exceptions import HypergraphError, OwnershipLostError, StoreUnavailableError, safe_text
from hypergraph.integrations.dbos.calls import MAP, NAMES, RUN, SCHEDULED, Call, dbos, maps_of, unpacked
from hypergraph.integrations.dbos.cluster import VERSION, Cluster
from hypergraph.integrations.dbos.maps import DrainedError, run_map
from hypergraph.integrations.dbos.metrics import Metrics, series, serve
from hypergraph.integrations.dbos.presence import ExecutorInUseError, Presence, session_name
from hypergraph.runners import RunStatus

logger = logging.getLogger("hypergraph.worker")
_MOST_THREADS = 1000  # the queues say how many runs there are at once
_PAUSE = 0.5  # seconds until a run that lost its store or its ownership looks again


class Running:
    """The graphs a worker knows, and the runs of them that are under way."""

    def __init__(self, store: Checkpointer, graphs: Mapping[str, Graph], metrics: Metrics) -> None:
        self.store = store
        self.graphs = graphs
        self.metrics = metrics
        self.is_handing_over = False
        self._sync = SyncRunner(checkpointer=store)
        self._async = AsyncRunner(checkpointer=store, offload_sync=True)
        self._threads = ThreadPoolExecutor(_MOST_THREADS, thread_name_prefix="hypergraph-run")
        self._live: dict[str, str] = {}  # what DBOS calls them -> workflow id
        self._lock = threading.Lock()

    @property
    def live(self) -> dict[str, str]:
        """The runs under way: workflow ids by the ids that DBOS has for them."""
        with self._lock:
            return dict(self._live)

    def stop(self, dbos_id: str) -> None:
        """Ask a run to stop before its next node."""
        workflow_id = self.live.get(dbos_id)
        if workflow_id is not None and not self._sync.stop(workflow_id):
            self._async.stop(workflow_id)

    def close(self) -> None:
        """Accept no more runs."""
        self._threads.shutdown(wait=False)

    def graph_of(self, call: Call) -> Graph:
        """Return the graph of a call; raises the error that DBOS records where there is none."""
        graph = self.graphs.get(call.graph)
        if graph is None:
            hint = did_you_mean(call.graph, self.graphs) or f"It has {', '.join(sorted(self.graphs))}."
            raise dbos.PortableWorkflowError(
                f"The worker has no graph {call.graph!r}. {hint} Nothing ran; start a worker that has it, "
                "and submit again.",
                "UnknownGraph",
            )
        return graph

    async def run(self, dbos_id: str, call: Call) -> RunResult:
        """Run a call to its end, however it ends, and return the result."""
        graph = self.graph_of(call)
        with self._registered(dbos_id, call.workflow_id):
            while True:
                result = await self._once(graph, call)
                error = result.error
                if not isinstance(error, (OwnershipLostError, StoreUnavailableError)):
                    break
                self.metrics.count("hypergraph_runs_interrupted_total", reason=type(error).__name__)
                logger.warning("run %s goes on as soon as it can: %s", call.workflow_id, error)
                await asyncio.sleep(_PAUSE)
        self.metrics.count("hypergraph_runs_total", status=result.status.value)
        return result

    async def _once(self, graph: Graph, call: Call) -> RunResult:
        options = {
            **call.options,
            "workflow_id": call.workflow_id,
            "wait": True,
            "error_handling": "continue",
        }
        tags = options.pop("tags", None)
        loop = asyncio.get_running_loop()
        try:
            values = unpacked(self.store, graph, call)
            if {"new_turn", "fork_from"} & options.keys():
                await asyncio.to_thread(self._drop_what_was_done, call, options)
            if not graph.has_async_nodes and not graph.has_interrupts:
                work = partial(self._in_thread, call, graph, values, tags=tags, **options)
                return await loop.run_in_executor(self._threads, work)
            coroutine = self._on_loop(call, graph, values, tags=tags, **options)
            return await loop.create_task(coroutine, context=contextvars.Context())
        except (OwnershipLostError, StoreUnavailableError) as error:
            return _failed(call, error)
        except (HypergraphError, ValueError, TypeError) as error:  # refused before anything ran
            raise told(error) from error

    def _drop_what_was_done(self, call: Call, options: dict[str, Any]) -> None:
        """Take from a call that is repeated what it has done: it has begun its turn, or the fork."""
        stored = self.store.backend.read_workflow(call.workflow_id)
        if stored is not None:
            options.pop("fork_from", None)
            if stored.step_count > call.steps:
                options.pop("new_turn", None)

    def _in_thread(self, call: Call, graph: Graph, values: dict[str, Any], **options: Any) -> RunResult:
        try:
            return self._sync.run(graph, values, **options)
        except KeyboardInterrupt as error:  # of a node: it ends its run, not the loop of all others
            return _failed(call, error)

    async def _on_loop(self, call: Call, graph: Graph, values: dict[str, Any], **options: Any) -> RunResult:
        try:
            return await self._async.run(graph, values, **options)
        except KeyboardInterrupt as error:
            return _failed(call, error)

    @contextmanager
    def _registered(self, dbos_id: str, workflow_id: str) -> Iterator[None]:
        with self._lock:
            self._live[dbos_id] = workflow_id
        try:
            yield
        finally:
            with self._lock:
                self._live.pop(dbos_id, None)


def outcome(result: RunResult) -> str:
    """Return how a run ended, as DBOS keeps it: without values, which the store has.

    Raises the error that DBOS records for a run that failed.
    """
    names: Any = list(result.values)
    if result.failed:
        raise told(result.error, names=names)
    return json.dumps({"status": result.status.value, "names": names})


def told(error: object, **data: Any) -> Exception:
    """Return the error that DBOS records: a text that can be written, whatever the exception says."""
    name = jsonable(type(error).__name__)
    return dbos.PortableWorkflowError(f"{name}: {jsonable(safe_text(error))}", name, data=data or None)


def _failed(call: Call, error: BaseException) -> RunResult:
    return RunResult({}, RunStatus.FAILED, workflow_id=call.workflow_id, error=error)


_HAND_OVER = 10  # seconds in which nodes under way may end, after the time to drain


@dataclass(frozen=True)
class WorkerSettings:
    """How a worker works: its queues, how often it looks after others, how long it waits for what."""

    executor_id: str  # its name; no other living worker has it
    queues: Sequence[str]  # what it takes runs from
    interval: float = 1.0  # seconds between looks after others
    patience: float = 30.0  # seconds of silence until another worker counts as dead
    drain: float = 20.0  # seconds that runs have to end when it leaves
    host: str = "127.0.0.1"  # where /health and /metrics listen
    port: int = 0  # 0 for one that is free
    log_level: str = "ERROR"  # of DBOS, which repeats itself at every poll while the database is away


class Worker:
    """One worker in this process; DBOS allows no second one."""

    current: Worker | None = None  # the one of this process

    def __init__(self, cluster: Cluster, graphs: Mapping[str, Graph], settings: WorkerSettings) -> None:
        self.cluster = cluster  # how to reach the database
        self.settings = settings  # as given
        self.metrics = Metrics(self._gauges)  # what /metrics tells
        self.store = cluster.store(session_name(settings.executor_id))  # of the runs
        self.running = Running(self.store, graphs, self.metrics)  # what is under way
        self.presence = Presence(
            cluster.dsn, cluster.application, settings.executor_id, patience=settings.patience
        )  # the sign of life
        self.is_draining = False  # whether it takes no more runs
        self.has_lost_its_id = False  # whether another worker has its id
        self._leave = threading.Event()
        self._ended = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="hypergraph-watch", daemon=True)
        self._server: Any = None

    # -- coming and leaving ----------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to work.

        Raises:
            ExecutorInUseError: another worker with this id lives.
            CheckpointError: the database cannot be reached, or refuses.
            RuntimeError: this process has a worker already.
            OSError: the port is in use.
        """
        if Worker.current is not None:
            raise RuntimeError("This process has a worker already; start another process.")
        self.presence.begin()
        try:
            self.store.open()
            for queue in self.settings.queues:
                self.cluster.declare_if_missing(queue)
            self._server = serve(self.settings.host, self.settings.port, self.metrics, self.health)
            Worker.current = self
            _register()
            self._launch()
        except BaseException:
            dbos.DBOS.destroy()
            self._end()
            raise
        self._watcher.start()

    def _launch(self) -> None:
        settings, cluster = self.settings, self.cluster
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
                "run_migrations": False,  # the client has made the tables
                "log_level": settings.log_level,
            }
        )
        dbos.DBOS.listen_queues([name for queue in settings.queues for name in (queue, maps_of(queue))])
        dbos.DBOS.launch()

    def __enter__(self) -> Worker:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    @property
    def address(self) -> str:
        """Where `/health` and `/metrics` are."""
        host, port = self._server.server_address[:2]
        return f"http://{host}:{port}"

    def leave(self) -> None:
        """Ask the worker to leave; safe in a signal handler."""
        self._leave.set()

    def wait(self) -> None:
        """Return when the worker was asked to leave, or must."""
        self._leave.wait()

    def stop(self) -> None:
        """Take no more runs, let those under way end or give them to others, and end."""
        self.is_draining = True
        self._leave.set()
        logger.info("draining: %d runs under way", len(self.running.live))
        hand_over = threading.Timer(self.settings.drain, self._hand_over)
        hand_over.start()
        try:
            dbos.DBOS.destroy(workflow_completion_timeout_sec=int(self.settings.drain) + _HAND_OVER)
        finally:
            hand_over.cancel()
            self._end()

    def _hand_over(self) -> None:
        self.running.is_handing_over = True
        for dbos_id in self.running.live:
            self.running.stop(dbos_id)

    def _end(self) -> None:
        self.is_draining = True
        self._leave.set()
        self._ended.set()
        Worker.current = None
        self.running.close()
        self.presence.end()
        self.cluster.close()
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()

    # -- looking after others --------------------------------------------------------------------------

    def _watch(self) -> None:
        while not self._ended.is_set():
            try:
                self.presence.beat()
                self._stop_cancelled()
                if not self.is_draining:
                    self._recover()
            except ExecutorInUseError as error:
                logger.error("leaving: %s", error)
                self.has_lost_its_id = True
                self._leave.set()
                return
            except Exception as error:  # whatever it is, the next round may be better
                self.metrics.count("hypergraph_watch_errors_total")
                if not self._ended.is_set():
                    logger.warning("looking after others failed: %s: %s", type(error).__name__, error)
            self._ended.wait(self.settings.interval)

    def _stop_cancelled(self) -> None:
        for dbos_id in self.cluster.found(self.running.live, status="CANCELLED"):
            self.running.stop(dbos_id)

    def _recover(self) -> None:
        """Put the runs of dead workers back; one of those that notice does it."""
        others = {status.executor_id for status in self.cluster.pending(name=NAMES)}
        for executor_id in sorted(others - {self.settings.executor_id, None}):
            with self.presence.mourning(executor_id) as is_dead:
                if not is_dead:
                    continue
                taken = self.cluster.pending(name=NAMES, executor_id=executor_id)
                count = self.cluster.put_back(taken)
            if count:
                logger.warning("worker %s is dead: %d runs are back in their queues", executor_id, count)
                self.metrics.count("hypergraph_recovered_total", count)

    # -- what it says about itself ---------------------------------------------------------------------

    def health(self) -> dict[str, Any]:
        """Return whether this worker works, and why not."""
        age = self.presence.age
        is_late = age > max(self.settings.patience, 3 * self.settings.interval)
        problem = "draining" if self.is_draining else "no contact with the database" if is_late else None
        return {
            "ok": problem is None,
            "problem": problem,
            "executor_id": self.settings.executor_id,
            "live": len(self.running.live),
            "heartbeat_age": round(age, 3),
        }

    def _gauges(self) -> Mapping[str, float]:
        found = {
            "hypergraph_runs_live": len(self.running.live),
            "hypergraph_lock_losses_total": self.presence.losses,
            "hypergraph_heartbeat_age_seconds": self.presence.age,
            "hypergraph_draining": float(self.is_draining),
        }
        with suppress(Exception):  # the others are worth knowing, all the more when the database is gone
            for queue in self.settings.queues:
                found[series("hypergraph_queue_waiting", queue=queue)] = self.cluster.waiting(queue)
        return found

    # -- calls -----------------------------------------------------------------------------------------

    async def run(self, dbos_id: str, call: Call) -> str:
        """Run a call and return how it ended."""
        result = await self.running.run(dbos_id, call)
        if result.stopped and self.running.is_handing_over:
            await asyncio.to_thread(self._give_away, dbos_id)
        return outcome(result)

    async def map(self, dbos_id: str, call: Call) -> str:
        """Run a map and return how it ended."""
        graph = self.running.graph_of(call)
        try:
            return await run_map(self.cluster, self.store, graph, call, lambda: self.is_draining)
        except DrainedError:
            await asyncio.to_thread(self._give_away, dbos_id)
            return ""
        except (HypergraphError, ValueError, TypeError) as error:
            raise told(error) from error

    def _give_away(self, dbos_id: str) -> None:
        count = self.cluster.put_back(self.cluster.found([dbos_id]).values())
        self.metrics.count("hypergraph_handed_over_total", count)


def _current() -> Worker:
    if Worker.current is None:
        raise RuntimeError("This process has no worker any more.")
    return Worker.current


def _own_id() -> str:
    return str(dbos.DBOS.workflow_id)


@lru_cache(maxsize=1)
def _register() -> None:
    """Tell DBOS what its workflows are; once per process, whoever works."""

    async def run(text: str) -> str:
        return await _current().run(_own_id(), Call.of(text))

    async def map(text: str) -> str:
        return await _current().map(_own_id(), Call.of(text))

    async def scheduled(at: str, text: str) -> str:
        call, own = Call.of(text), _own_id()
        return await _current().run(own, replace(call, workflow_id=own, sealed=call.workflow_id))

    functions: dict[str, Callable[..., Any]] = {RUN: run, MAP: map, SCHEDULED: scheduled}
    for name, function in functions.items():
        # How often a run may kill its process, the store decides.
        dbos.DBOS.workflow(name=name, max_recovery_attempts=None)(function)
