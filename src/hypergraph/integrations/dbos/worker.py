"""The worker of a cluster: start, watch, drain and stop."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import dbos

from hypergraph import Graph
from hypergraph.checkpointers import Workflow
from hypergraph.exceptions import CheckpointError, HypergraphError, WorkflowLockedError
from hypergraph.integrations.dbos.calls import GROUP, MAP, NAMES, RUN, SCHEDULED, Call, graph_name
from hypergraph.integrations.dbos.cluster import VERSION, Cluster, map_queue
from hypergraph.integrations.dbos.execution import (
    AWAY,
    CancelledMapError,
    DrainedError,
    Runs,
    outcome,
    patiently,
    portable_error,
    run_map,
)
from hypergraph.integrations.dbos.groups import Ended, Group
from hypergraph.integrations.dbos.metrics import Metrics, series, serve
from hypergraph.integrations.dbos.nested import have_ended
from hypergraph.integrations.dbos.presence import ExecutorInUseError, Presence, session_name
from hypergraph.integrations.dbos.submissions import Submissions

logger = logging.getLogger("hypergraph.worker")
_HAND_OVER = 10  # seconds for running nodes to end, after the drain time
_STARTING = 2.0  # seconds within which a claimed run is started
_ENDING = 5.0  # seconds for DBOS to write the end of a run
_PASS_ON = 1.0  # seconds until a run of an unknown graph is offered to other workers
_MAX_DUE = 300.0  # seconds between two submissions of a run that stays due
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
    graph_patience: float = 60.0  # seconds a run may wait for a worker that has its graph
    log_level: str = "ERROR"  # of DBOS, which logs every failed poll while the database is away


def graphs_by_name(graphs: Graph | Mapping[str, Graph] | Iterable[Graph]) -> dict[str, Graph]:
    """Return graphs by the names under which they are submitted.

    Raises:
        TypeError: one of them is not a graph.
        ValueError: one has no name, or two have the same name and version.

    Of several versions of a graph the last one gets new runs; the others are found under "NAME@VERSION".
    """
    if isinstance(graphs, Mapping):
        named = [(str(name), graph) for name, graph in graphs.items()]
    else:
        listed = [graphs] if isinstance(graphs, Graph) else list(graphs)
        named = [(graph_name(graph) if isinstance(graph, Graph) else "", graph) for graph in listed]
    for _, graph in named:
        if not isinstance(graph, Graph):
            raise TypeError(f"A worker runs graphs, got {type(graph).__name__}")
    if len({(name, graph.version) for name, graph in named}) < len(named):
        raise ValueError(
            "Two graphs have the same name; pass a dict to give them different names, or give each a version"
        )
    pinned = {f"{name}@{graph.version}": graph for name, graph in named if graph.version is not None}
    return {**pinned, **dict(named)}


class Worker:
    """One worker, the only one of its process: DBOS allows no second one."""

    def __init__(
        self,
        cluster: Cluster,
        graphs: Mapping[str, Graph],
        settings: WorkerSettings,
        services: Mapping[str, Any] | None = None,
    ) -> None:
        self.settings = settings  # as given
        self.is_draining = False  # whether it claims no more runs
        self.has_lost_its_id = False  # whether another worker took over its id
        self._cluster = cluster
        self._metrics = Metrics(self._gauges)
        self._store = cluster.store(session_name(settings.executor_id, cluster.schema))
        more: dict[str, Any] = {"is_cancelled": self._is_cancelled, "services": services}
        self._runs = Runs(cluster, self._store, graphs, self._metrics, **more)
        self._waking: set[asyncio.Task[None]] = set()
        self._due: dict[str, tuple[float, float]] = {}  # when to submit a run again that stays due
        self._submissions = Submissions(cluster, self._store)
        self._unknown: dict[str, float] = {}  # claimed runs that are not running here, and since when
        self._own_claims = 0  # runs that DBOS says this worker has
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
            self._store.open()
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
        name = session_name(settings.executor_id, cluster.schema)
        dbos.DBOS(
            config={
                "name": cluster.application,
                "system_database_url": cluster.url,
                "dbos_system_schema": cluster.schema,
                "executor_id": settings.executor_id,
                "application_version": VERSION,
                "serializer": dbos.DBOSPortableJSONSerializer(),
                # With those of the store, a busy worker has at most 20 connections.
                "sys_db_pool_size": 4,
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
        self._runs.stop_all()

    def abandon(self) -> None:
        """Release what still runs after `stop`, for a process that ends now: its runs did not crash."""
        with suppress(CheckpointError):  # other workers find the process dead
            self._store.backend.release_all()

    def _end(self) -> None:
        global _worker  # noqa: PLW0603
        self.is_draining = True
        self._leave.set()
        self._ended.set()
        _worker = None
        with suppress(Exception):  # claimed, and never started; other workers find them as well
            if self._presence.is_held:
                self._cluster.requeue(
                    self._cluster.pending(name=NAMES, executor_id=self.settings.executor_id)
                )
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
                    self._resume_due()
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

    def _is_cancelled(self, dbos_id: str) -> bool:
        try:
            return bool(self._cluster.statuses([dbos_id], status="CANCELLED"))
        except Exception:  # asked again after the next try
            return False

    def _reconcile(self, claimed: Iterable[Any]) -> None:
        """Requeue runs that are claimed by this worker and not running in it.

        The answer to the claim was lost with its connection, or the end of the run could not be written.
        """
        own = {each.workflow_id: each for each in claimed if each.executor_id == self.settings.executor_id}
        now, live = time.monotonic(), self._runs.known
        self._own_claims = sum(each.name != GROUP for each in own.values())
        self._unknown = {name: self._unknown.get(name, now) for name in own if name not in live}
        limit = now - 3 * self.settings.interval - _STARTING
        lost = [own[name] for name, since in self._unknown.items() if since < limit]
        if lost:
            count = self._cluster.requeue(lost)
            logger.warning("%d claimed runs were not running here: they are back in their queues", count)
            self._metrics.count("hypergraph_reconciled_total", count)

    def _recover(self) -> None:
        """Requeue the runs of dead workers; of several workers that notice, one does it."""
        claimed = self._cluster.pending(name=NAMES)
        self._reconcile(claimed)
        if self._presence.is_settling:
            return  # other workers may not have replaced their lost sessions yet
        others = {status.executor_id for status in claimed}
        for executor_id in sorted(others - {self.settings.executor_id, None}):
            with self._presence.takeover(executor_id) as is_dead:
                if not is_dead:
                    continue
                claimed = self._cluster.pending(name=NAMES, executor_id=executor_id)
                count = self._cluster.requeue(claimed)
            if count:
                logger.warning("worker %s is dead: %d runs are back in their queues", executor_id, count)
                self._metrics.count("hypergraph_recovered_total", count)

    def _resume_due(self) -> None:
        """Submit runs whose timer is due or whose deadline has passed, if this worker has their graph."""
        found = self._store.due_runs()
        self._due = {each.id: self._due[each.id] for each in found if each.id in self._due}
        for workflow in found:
            name = workflow.graph_name or ""
            again, pause = self._due.get(workflow.id, (0.0, self.settings.interval))
            if self._runs.serving(name, workflow.version) is None or time.monotonic() < again:
                continue
            # One that stays due, since it fails, is tried again ever more seldom.
            self._due[workflow.id] = (time.monotonic() + pause, min(2 * pause, _MAX_DUE))
            try:
                self._submissions.enqueue(RUN, Call(name, workflow.id), self.settings.queues[0])
            except WorkflowLockedError:
                continue  # it was submitted with values, and is in flight
            logger.info("run %s is due", workflow.id)
            self._metrics.count("hypergraph_due_total")

    # -- health and metrics ----------------------------------------------------------------------------

    def health(self) -> dict[str, Any]:
        """Return the document of `/health`: whether this worker works, and if not, why."""
        age = self._presence.age
        is_late = age > max(self.settings.patience, 3 * self.settings.interval)
        problem = None
        if self.is_draining:
            problem = "draining"
        elif is_late:
            problem = "no contact with the database"
        elif not self._watcher.is_alive():
            problem = "the thread of the heartbeat has ended"
        return {
            "ok": problem is None,
            "problem": problem,
            "executor_id": self.settings.executor_id,
            "live": len(self._runs.live),
            "claimed": self._own_claims,
            "unknown": len(self._unknown),
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
        return await self._run_known(dbos_id, call, await self._runs.look_up(call))

    async def _run_known(
        self, dbos_id: str, call: Call, stored: Workflow | None, *, in_group: bool = False
    ) -> str:
        if not self._runs.serves(call, stored) and await self._pass_on(dbos_id, call):
            return ""
        try:
            result, outgoing = await self._runs.run(dbos_id, call, stored, in_group=in_group)
        except BaseException:  # rejected before its first node
            self._wake_parent(dbos_id, call)
            raise
        if result.paused and outgoing.groups:
            await patiently(outgoing.park)
            return ""
        if result.stopped and self._is_handing_over:
            await patiently(self._requeue, dbos_id)
        else:
            self._wake_parent(dbos_id, call)
        return outcome(result)

    def _wake_parent(self, dbos_id: str, call: Call) -> None:
        """Wake up the call that waits for a nested one, after DBOS has written how that ended."""

        async def wake() -> None:
            pause, known = 0.01, (self._cluster, self._store, dbos_id, call)
            while (is_over := await asyncio.to_thread(have_ended, *known)) is None:
                if pause > _ENDING:
                    return  # another worker has it by now
                await asyncio.sleep(pause)
                pause *= 1.5
            if is_over:
                await asyncio.to_thread(self._cluster.wake, call.parent)

        if call.parent:
            task = asyncio.create_task(wake())
            self._waking.add(task)
            task.add_done_callback(self._waking.discard)

    async def _group(self, dbos_id: str, text: str) -> str:
        group = Group(self._cluster, self._store, self.settings.executor_id, text)

        async def release_in_time() -> None:
            await asyncio.sleep(group.seconds)
            await patiently(group.release)

        with self._runs.registered(dbos_id, ""):
            release = asyncio.create_task(release_in_time())
            try:
                known = await patiently(group.read)
                served = all(self._runs.serves(*each) for each in known.values())
                ended: Ended | None = None
                while True:
                    begin = served and not self.is_draining
                    item = await patiently(group.next, ended, begin=begin)
                    if item is None:
                        break
                    try:
                        ended = Ended.of(item, await self._run_known(item, *known[item], in_group=True))
                    except Exception as error:  # of this item
                        ended = Ended.of(item, error)
            finally:
                release.cancel()
                group.forget()
            await patiently(group.release)
            await patiently(group.settle)
        return ""

    async def _map(self, dbos_id: str, call: Call) -> str:
        stored = await self._runs.look_up(call)
        if not self._runs.serves(call, stored) and await self._pass_on(dbos_id, call):
            return ""
        graph = self._runs.graph_of(call, stored)

        def check() -> None:
            if self.is_draining:
                raise DrainedError
            if self._runs.is_stopping(dbos_id):
                raise CancelledMapError

        with self._runs.registered(dbos_id, call.workflow_id):
            while True:
                try:
                    return await run_map(self._cluster, self._store, graph, call, check)
                except DrainedError:
                    await patiently(self._requeue, dbos_id)
                    return ""
                except CancelledMapError:
                    return json.dumps({"status": "stopped"})
                except AWAY as error:
                    logger.warning("map %s was interrupted and is tried again: %s", call.workflow_id, error)
                except (HypergraphError, ValueError, TypeError) as error:
                    raise portable_error(error) from error
                await asyncio.sleep(self.settings.interval)

    async def _pass_on(self, dbos_id: str, call: Call) -> bool:
        """Return a run whose graph this worker does not have to its queue, for a worker that has it.

        Returns False when the run has waited too long for one.
        """
        with self._runs.registered(dbos_id, call.workflow_id):
            found = (await asyncio.to_thread(self._cluster.statuses, [dbos_id])).get(dbos_id)
            began = max(found.created_at / 1000 if found is not None else 0.0, call.not_before)
            if self._store.backend.database.now().timestamp() - began > self.settings.graph_patience:
                return False
            self._metrics.count("hypergraph_passed_on_total")
            for _ in range(10):
                if self._runs.is_stopping(dbos_id) or self.is_draining:
                    break
                await asyncio.sleep(_PASS_ON / 10)
            await patiently(self._requeue, dbos_id)
            return True

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

    async def group(text: str) -> str:
        return await current()._group(own_id(), text)

    async def scheduled(at: str, text: str) -> str:
        call, own = Call.from_json(text), own_id()
        return await current()._run(own, replace(call, workflow_id=own, sealed=call.workflow_id))

    def current() -> Worker:
        if _worker is None:
            raise RuntimeError("The worker of this process has stopped.")
        return _worker

    def own_id() -> str:
        return str(dbos.DBOS.workflow_id)

    functions: dict[str, Callable[..., Any]] = {RUN: run, MAP: map, SCHEDULED: scheduled, GROUP: group}
    for name, function in functions.items():
        # No limit of DBOS: the store counts the crashes of a run.
        dbos.DBOS.workflow(name=name, max_recovery_attempts=None)(function)
