"""Execution of submitted runs and maps inside a worker.

A map is one call that submits a call for each item, waits for them and stores its status. Items that have
completed are not submitted again; a worker that takes over a map finds the submitted items by their ids.
"""

from __future__ import annotations

import asyncio
import contextvars
import json
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple, ParamSpec, TypeVar

import dbos
from sqlalchemy import text
from sqlalchemy.exc import OperationalError

from hypergraph import AsyncRunner, Graph, RunResult, SyncRunner
from hypergraph.checkpointers import Checkpointer, PostgresCheckpointer, Workflow, WorkflowStatus
from hypergraph.checkpointers.records import NewWorkflow
from hypergraph.display import did_you_mean, jsonable
from hypergraph.durability.code_changes import pinned_to, with_version
from hypergraph.durability.code_hashes import node_hashes, recorded_structure
from hypergraph.durability.history import incomparable, inputs_in
from hypergraph.durability.map_recorder import refuse_left_out, refuse_restart
from hypergraph.durability.once_only import refuse_restart_of
from hypergraph.engine.admission import names_to_give
from hypergraph.engine.nested import expand
from hypergraph.engine.plan import graph_inside
from hypergraph.engine.run import Run
from hypergraph.exceptions import (
    CrashLoopError,
    HypergraphError,
    ItemChangedError,
    OwnershipLostError,
    StoreFullError,
    StoreReadOnlyError,
    StoreUnavailableError,
    safe_text,
)
from hypergraph.graph.formerly import has_former_names, recorded_as
from hypergraph.integrations.dbos.calls import (
    RUN,
    Call,
    attempt_id,
    decode_values,
    encode_values,
    item_id,
)
from hypergraph.integrations.dbos.cluster import Cluster, grouped_queue
from hypergraph.integrations.dbos.groups import (
    group_id,
    group_size,
    groups_of,
    may_group,
    may_share,
    order_of_group,
    release_lost,
)
from hypergraph.integrations.dbos.metrics import Metrics
from hypergraph.integrations.dbos.nested import Outgoing
from hypergraph.runners import RunStatus
from hypergraph.runs.build import stored_names

logger = logging.getLogger("hypergraph.worker")
_RETRY_SECONDS = 0.5  # until a run that lost its store or its ownership is tried again, at first
_MAX_RETRY_SECONDS = 10.0
_IDLE_SECONDS = 5.0  # until a thread without a call ends
_CHUNK = 500  # items of a map that are submitted at once
_ASKED = 100  # items of a map whose status is read at once, the first of those that are left
_MAX_POLL = 2.0  # seconds between two reads of the status of items
_SWEEP = 10.0  # seconds between two looks for items whose group was lost
_STRIKES = 2  # crashes after which a run is a suspect
# A store that cannot be used now, or a run that another worker took over: no failure of the run.
INTERRUPTIONS = (OwnershipLostError, StoreUnavailableError, StoreReadOnlyError, StoreFullError)
AWAY = (*INTERRUPTIONS, OperationalError)  # not where nodes run: one may raise the same error

P = ParamSpec("P")
T = TypeVar("T")

_outgoing: contextvars.ContextVar[Outgoing | None] = contextvars.ContextVar("outgoing", default=None)


class Threads(ThreadPoolExecutor):
    """A daemon thread for each call: no call waits for another one, and none keeps the process from ending.

    Threads whose call has ended are used again.
    """

    def __init__(self) -> None:
        super().__init__()
        self._free: list[SimpleQueue[Callable[[], None]]] = []  # what idle threads wait for

    def submit(self, call: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Start a call in a thread."""
        future: Future[Any] = Future()

        def work() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(call(*args, **kwargs))
            except BaseException as error:
                future.set_exception(error)

        try:
            self._free.pop().put(work)
        except IndexError:
            threading.Thread(target=self._serve, args=[work], name="hypergraph-run", daemon=True).start()
        return future

    def _serve(self, work: Callable[[], None]) -> None:
        given: SimpleQueue[Callable[[], None]] = SimpleQueue()
        while True:
            contextvars.Context().run(work)  # no call sees what another one has set
            del work  # with all that it refers to
            self._free.append(given)
            try:
                work = given.get(timeout=_IDLE_SECONDS)
            except Empty:
                try:
                    self._free.remove(given)
                except ValueError:  # it was taken in this moment
                    work = given.get()
                else:
                    return


class Runs:
    """The runs and maps of one worker: starts them, stops them, knows those that are running."""

    def __init__(
        self,
        cluster: Cluster,
        store: PostgresCheckpointer,
        graphs: Mapping[str, Graph],
        metrics: Metrics,
        *,
        is_cancelled: Callable[[str], bool] = lambda dbos_id: False,
        services: Mapping[str, Any] | None = None,
    ) -> None:
        self.cluster = cluster
        self.store = store
        self.graphs = graphs
        self.metrics = metrics
        self._is_cancelled = is_cancelled
        self._sync = SyncRunner(checkpointer=store, services=services)
        self._async = AsyncRunner(checkpointer=store, services=services, offload_sync=True)
        self._sync._sender = self._async._sender = _send
        self._sync._leaves_map = self._async._leaves_map = _in_group
        self._threads = Threads()
        self._suspects = asyncio.Lock()
        self._live: dict[str, str] = {}
        self._stopping: set[str] = set()
        self._is_closing = False
        self._lock = threading.Lock()

    @property
    def live(self) -> dict[str, str]:
        """The workflow ids of the running runs and maps, by their DBOS ids."""
        with self._lock:
            return {dbos_id: workflow_id for dbos_id, workflow_id in self._live.items() if workflow_id}

    @property
    def known(self) -> set[str]:
        """The DBOS ids of all calls that are running, also of groups."""
        with self._lock:
            return set(self._live)

    def stop(self, dbos_id: str) -> None:
        """Stop a run before its next node, a map before its next items."""
        with self._lock:
            workflow_id = self._live.get(dbos_id)
            if not workflow_id:
                return
            self._stopping.add(dbos_id)
        if not self._sync.stop(workflow_id):
            self._async.stop(workflow_id)

    def stop_all(self) -> None:
        """Stop all runs, and those that are started later."""
        self._is_closing = True
        for dbos_id in self.live:
            self.stop(dbos_id)

    def is_stopping(self, dbos_id: str) -> bool:
        """Return whether a run has to stop."""
        return self._is_closing or dbos_id in self._stopping

    def serving(self, name: str, version: str | None) -> Graph | None:
        """Return the graph of a name and version, None if this worker does not have it."""
        return self.graphs.get(name) if version is None else self.graphs.get(f"{name}@{version}")

    async def look_up(self, call: Call) -> Workflow | None:
        """Return what is stored of the run of a call, None if it has not begun."""
        return await patiently(self.store.backend.read_workflow, call.workflow_id)

    def serves(self, call: Call, stored: Workflow | None) -> bool:
        """Return whether this worker has the graph of a call, in the version that its run is pinned to."""
        graph = self.serving(call.graph, _pinned(call, stored)) if call.graph in self.graphs else None
        return graph is not None and _inside(graph, call.inside) is not None

    def graph_of(self, call: Call, stored: Workflow | None) -> Graph:
        """Return the graph of a call. Raises the error that DBOS records if this worker does not have it."""
        pinned = _pinned(call, stored)
        graph = self.serving(call.graph, pinned)
        if graph is None and call.graph in self.graphs:
            versions = sorted(repr(g.version) for g in self.graphs.values() if g.name == call.graph)
            raise dbos.PortableWorkflowError(
                f"Run {call.workflow_id!r} is pinned to version {pinned!r} of graph {call.graph!r}; the "
                f"worker has {', '.join(dict.fromkeys(versions))}. Nothing ran. Start a worker that has this "
                "version, or move the run with `hypergraph migrate`, and submit again.",
                "GraphVersionError",
            )
        if graph is None:
            hint = did_you_mean(call.graph, self.graphs) or f"It has {', '.join(sorted(self.graphs))}."
            raise dbos.PortableWorkflowError(
                f"The worker has no graph {call.graph!r}. {hint} Nothing ran. Start a worker that has the "
                "graph and submit again.",
                "UnknownGraph",
            )
        found = _inside(graph, call.inside)
        if found is None:
            raise dbos.PortableWorkflowError(
                f"Graph {call.graph!r} of the worker has no nested graph {'/'.join(call.inside)!r}. Nothing "
                "ran. Start a worker with the code that submitted the run, and submit again.",
                "UnknownGraph",
            )
        return found

    async def run(
        self, dbos_id: str, call: Call, stored: Workflow | None, *, in_group: bool = False
    ) -> tuple[RunResult, Outgoing]:
        """Run a call to its end and return the result, failed or not, and the nested runs of others."""
        graph, interruptions, failures = self.graph_of(call, stored), 0, 0
        asyncio.get_running_loop().set_default_executor(self._threads)
        with self.registered(dbos_id, call.workflow_id):
            await self._until_due(dbos_id, call)
            while True:
                outgoing = Outgoing(self.cluster, self.store, dbos_id, call, in_group=in_group)
                if self.is_stopping(dbos_id):
                    result = RunResult({}, RunStatus.STOPPED, workflow_id=call.workflow_id)
                    break
                is_first = not (interruptions or failures)
                known = stored if is_first else await self.look_up(call)
                result = await self._try(graph, call, outgoing, known)
                error, pause = result.error, _RETRY_SECONDS
                if isinstance(error, INTERRUPTIONS):
                    self.metrics.count("hypergraph_runs_interrupted_total", reason=type(error).__name__)
                    logger.warning("run %s was interrupted and is tried again: %s", call.workflow_id, error)
                    pause = min(_RETRY_SECONDS * 2**interruptions, _MAX_RETRY_SECONDS)
                    interruptions += 1
                elif result.stopped and not self.is_stopping(dbos_id):
                    # Another worker had the run, and was stopped. That is not the end of the run.
                    logger.info("run %s was stopped elsewhere and is resumed", call.workflow_id)
                elif (
                    result.failed
                    and failures < call.retries
                    and not (isinstance(error, CrashLoopError) or outgoing.has_failed)
                ):
                    pause = call.retry_delay * 2**failures
                    failures += 1
                    self.metrics.count("hypergraph_runs_retried_total")
                    text = "run %s failed and is tried again in %.1f s (%d of %d): %s"
                    logger.warning(text, call.workflow_id, pause, failures, call.retries, error)
                else:
                    break
                await self._pause(dbos_id, pause)
                if await asyncio.to_thread(self._is_cancelled, dbos_id):
                    self.stop(dbos_id)
        if not outgoing.groups:
            self.metrics.count("hypergraph_runs_total", status=result.status.value)
        return result, outgoing

    async def _pause(self, dbos_id: str, seconds: float) -> None:
        """Sleep, but not longer than the run may take."""
        give_up = time.monotonic() + seconds
        while not self.is_stopping(dbos_id) and (left := give_up - time.monotonic()) > 0:
            await asyncio.sleep(min(left, _RETRY_SECONDS))

    async def _until_due(self, dbos_id: str, call: Call) -> None:
        """Wait for the time of a run with a delay, if a worker whose clock is ahead took it too early."""
        if call.not_before:
            early = call.not_before - self.store.backend.database.now().timestamp()
            if early > 0:
                await self._pause(dbos_id, early)

    def _is_suspect(self, stored: Workflow) -> bool:
        """Return whether a run may be what kills its processes: several died while it was running."""
        owner = self.store.backend.read_owners([stored.id]).get(stored.id)
        uncounted = 1 if owner is not None and not owner.alive else 0
        return max(stored.crashes.values(), default=0) + uncounted >= _STRIKES

    async def _try(self, graph: Graph, call: Call, outgoing: Outgoing, stored: Workflow | None) -> RunResult:
        options = {
            **call.options,
            "workflow_id": call.workflow_id,
            "wait": True,
            "error_handling": "continue",
        }
        tags = options.pop("tags", None)
        try:
            # Suspects run one by one: if the process dies again, the others are not counted.
            is_suspect = False
            if stored is not None and stored.status is WorkflowStatus.ACTIVE and stored.crashes:
                is_suspect = await asyncio.to_thread(self._is_suspect, stored)
            async with self._suspects if is_suspect else nullcontext():
                return await self._execute(graph, call, outgoing, tags=tags, options=options)
        except INTERRUPTIONS as error:
            return _failed(call, error)
        except (HypergraphError, ValueError, TypeError) as error:  # rejected before the first node
            raise portable_error(error) from error

    async def _execute(
        self, graph: Graph, call: Call, outgoing: Outgoing, *, tags: Any, options: dict[str, Any]
    ) -> RunResult:
        loop = asyncio.get_running_loop()
        values = decode_values(self.store, graph, call)
        if {"new_turn", "fork_from"} & options.keys():
            await asyncio.to_thread(self._drop_applied, call, options)
        if not graph.has_async_nodes and not graph.has_interrupts:
            work = partial(self._in_thread, call, graph, values, outgoing, tags=tags, **options)
            return await loop.run_in_executor(self._threads, work)
        coroutine = self._on_loop(call, graph, values, outgoing, tags=tags, **options)
        return await loop.create_task(coroutine, context=contextvars.Context())

    def _drop_applied(self, call: Call, options: dict[str, Any]) -> None:
        """Remove options that an earlier execution of the same call has applied: its turn, or its fork."""
        stored = self.store.backend.read_workflow(call.workflow_id)
        if stored is not None:
            options.pop("fork_from", None)
            if stored.step_count > call.steps:
                options.pop("new_turn", None)

    def _in_thread(
        self, call: Call, graph: Graph, values: dict[str, Any], outgoing: Outgoing, **options: Any
    ) -> RunResult:
        _outgoing.set(outgoing)  # the thread is of this call alone
        try:
            return self._sync.run(graph, values, **options)
        except KeyboardInterrupt as error:  # raised by a node: it ends this run, not the event loop
            return _failed(call, error)

    async def _on_loop(
        self, call: Call, graph: Graph, values: dict[str, Any], outgoing: Outgoing, **options: Any
    ) -> RunResult:
        _outgoing.set(outgoing)  # the context of the task is of this call alone
        try:
            return await self._async.run(graph, values, **options)
        except KeyboardInterrupt as error:
            return _failed(call, error)

    @contextmanager
    def registered(self, dbos_id: str, workflow_id: str) -> Iterator[None]:
        """Count a run or a map among the running ones; a group has no workflow id."""
        with self._lock:
            self._live[dbos_id] = workflow_id
        try:
            yield
        finally:
            with self._lock:
                self._live.pop(dbos_id, None)
                self._stopping.discard(dbos_id)


async def patiently(ask: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Return what a call in a thread returns; while the database is away, call again.

    An error would end a run that did not fail.
    """
    pause = _RETRY_SECONDS
    while True:
        try:
            return await asyncio.to_thread(ask, *args, **kwargs)
        except AWAY as error:
            logger.warning("the database is asked again in %.1f s: %s", pause, error)
        await asyncio.sleep(pause)
        pause = min(2 * pause, _MAX_RETRY_SECONDS)


def _send() -> Callable[[Sequence[Run]], list[Run]] | None:
    """Return what submits the nested runs of the call that this thread or task executes."""
    found = _outgoing.get()
    return None if found is None else found.send


def _in_group() -> bool:
    """Return whether this thread or task executes an item of a group, which settles the map at its end."""
    found = _outgoing.get()
    return found is not None and found.in_group


def _pinned(call: Call, stored: Workflow | None) -> str | None:
    """Return the version that a run is pinned to: the stored one, or that of the submitted graph.

    A run inside of another one that has completed counts as a part of that one's work.
    """
    pinned = None if stored is None else pinned_to(stored)
    inside = None if stored is None or stored.parent_id is None else stored.version
    return pinned or call.version or inside or None


def _inside(graph: Graph, names: Sequence[str]) -> Graph | None:
    """Return the graph to which nodes lead, None if the graph has none there."""
    for name in names:
        node = graph.nodes.get(name)
        if node is None or node.nested_graph is None:
            return None
        graph = graph_inside(graph, node)
    return graph


def outcome(result: RunResult) -> str:
    """Return the outcome of a run as JSON for DBOS: status and names of outputs; the store has the values.

    Raises the error that DBOS records for a failed run.
    """
    names: Any = stored_names(result)
    if result.failed:
        raise portable_error(result.error, names=names)
    return json.dumps({"status": result.status.value, "names": names})


def portable_error(error: object, **data: Any) -> Exception:
    """Return the error that DBOS records, with a text that Postgres can store."""
    name = jsonable(type(error).__name__)
    return dbos.PortableWorkflowError(f"{name}: {jsonable(safe_text(error))}", name, data=data or None)


def _failed(call: Call, error: BaseException) -> RunResult:
    return RunResult({}, RunStatus.FAILED, workflow_id=call.workflow_id, error=error)


class DrainedError(Exception):
    """The worker is draining; the map must be requeued."""


class CancelledMapError(Exception):
    """The map was cancelled."""


async def run_map(
    cluster: Cluster, store: PostgresCheckpointer, graph: Graph, call: Call, check: Callable[[], None]
) -> str:
    """Run a map to its end and return its outcome as JSON.

    `check` is called between two chunks of items and raises the error that ends the map.

    Raises:
        DrainedError: the worker is draining.
        CancelledMapError: the map was cancelled.
    """
    own = attempt_id(call.workflow_id, call.attempt)
    items = await asyncio.to_thread(_open_map, cluster, store, graph, call)
    size = group_size(len(items.rows))
    if size > 1 and not await asyncio.to_thread(may_share, cluster, call.queue):
        size = 1
    groups = list(groups_of(items.left, size))
    for at in range(0, len(groups), _CHUNK // size):
        check()
        chunk = groups[at : at + _CHUNK // size]
        if not await asyncio.to_thread(_submit_chunk, cluster, store, call, own, items, size, chunk):
            raise CancelledMapError
    group_of = {
        attempt_id(item_id(call.workflow_id, item), call.attempt): group_id(
            call.workflow_id, first, size, call.attempt
        )
        for first, group in groups
        for item in group
    }
    waiting, pause, swept = list(group_of), 0.02, time.monotonic()
    while waiting:
        check()
        await asyncio.sleep(pause)
        pause = min(pause * 1.5, _MAX_POLL)
        asked = waiting[:_ASKED]
        found = await asyncio.to_thread(cluster.in_flight, asked)
        if not found:
            pause = 0.0  # the next ones may have ended too
        elif len(found) < len(asked):
            pause = 0.1
        waiting = [dbos_id for dbos_id in asked if dbos_id in found] + waiting[_ASKED:]
        if time.monotonic() - swept > _SWEEP:
            left = {dbos_id: group_of[dbos_id] for dbos_id in waiting[:_CHUNK]}
            await asyncio.to_thread(release_lost, cluster, store, call.queue, left)
            swept = time.monotonic()
    return await asyncio.to_thread(_end_map, cluster, store, call)


class _Items(NamedTuple):
    rows: Sequence[dict[str, Any]]  # the values of each item
    left: list[int]  # those that have not completed
    stored: Set[int]  # those that are in the store
    code: NewWorkflow


def _open_map(cluster: Cluster, store: PostgresCheckpointer, graph: Graph, call: Call) -> _Items:
    """Store a map, or mark it as active again, and return its items."""
    if call.restart == "item":
        refuse_restart(graph)
    batch = call.workflow_id
    values, over, stored_batch = decode_values(store, graph, call), [*call.map_over], None
    if has_former_names(graph):
        stored_batch = store.backend.read_workflow(batch)
        graph = recorded_as(graph, None if stored_batch is None else stored_batch.graph)
    if (names := graph.renaming) is not None:
        values, over = names.recorded_inputs(values), [*map(names.recorded, over)]
    rows = expand(values, over, call.map_mode, False)
    code = NewWorkflow(
        graph_name=graph.name,
        graph_hash=graph.definition_hash,
        graph=recorded_structure(graph),
        node_hashes=node_hashes(graph),
        version=graph.version,
    )
    known, failed = store.backend.read_workflow(batch), []
    stored = {child.item: child for child in store.backend.children(batch) if child.item is not None}
    recorded = [stored[item] for item in range(len(rows)) if item in stored]
    if call.restart == "item":
        failed = [stored.pop(item) for item in _failed_before(cluster, call, stored)]
        refuse_restart_of(store, graph, failed)
    for item, found in stored.items():
        if item < len(rows):
            _check_unchanged(store, found, rows[item])
    if not stored.keys() >= {*range(len(rows))}:
        left_out = names_to_give(graph).difference(values, graph.inputs.bound)
        refuse_left_out(store, batch, recorded, left_out.__contains__)
    if known is None:
        store.backend.create(batch, replace(code, tags=call.options.get("tags") or {}), store.encoding)
    elif (other := with_version(known, graph.version)) is not None:
        claim = store.backend.claim(batch, code, store.encoding)
        try:
            store.backend.write(store.encoding.commit(claim, status=WorkflowStatus.ACTIVE, code=other))
        finally:
            store.backend.release(claim)
    else:
        store.update_workflow_status(batch, WorkflowStatus.ACTIVE)
    if failed:
        store.backend.delete([item.id for item in failed])
    done = {item for item, found in stored.items() if found.status is WorkflowStatus.COMPLETED}
    return _Items(rows, [item for item in range(len(rows)) if item not in done], stored.keys(), code)


def _failed_before(cluster: Cluster, call: Call, stored: Mapping[int, Workflow]) -> list[int]:
    """Return the items that failed before this call submitted any: its worker may be the second one."""
    failed = {
        attempt_id(found.id, call.attempt): item
        for item, found in stored.items()
        if found.status is WorkflowStatus.FAILED
    }
    submitted = cluster.statuses(failed)
    return [item for dbos_id, item in failed.items() if dbos_id not in submitted]


def _submit_chunk(  # noqa: PLR0917 - one chunk
    cluster: Cluster,
    store: PostgresCheckpointer,
    call: Call,
    dbos_id: str,
    items: _Items,
    size: int,
    groups: Sequence[tuple[int, list[int]]],
) -> bool:
    """Store and submit some items, in one transaction each; return whether the map is still wanted."""
    batch, chunk = call.workflow_id, [item for _, group in groups for item in group]
    new = {
        item_id(batch, item): replace(items.code, parent_id=batch, item=item, inputs=items.rows[item])
        for item in chunk
        if item not in items.stored
    }
    store.backend.create_all(new, store.encoding)
    with cluster.transaction() as connection:
        # Locked, so that a map is cancelled before or after these items are submitted.
        row = connection.execute(text(_STATUS.format(cluster.schema)), {"id": dbos_id}).fetchone()
        if row is None or row[0] != "PENDING":
            return False
        cluster.enqueue_all(
            [order for group in groups for order in _orders_of(store, call, items, size, *group)]
        )
    return True


def _orders_of(  # noqa: PLR0917 - one group
    store: Checkpointer, call: Call, items: _Items, size: int, first: int, group: Sequence[int]
) -> list[tuple[dict[str, Any], str]]:
    """Return the orders of items, and that of the call they share, if they make a group."""
    orders = [_order_of(store, call, item, items.rows[item]) for item in group]
    if may_group([text for _, text in orders]):
        for options, _ in orders:
            options["queue_name"] = grouped_queue(call.queue)
        own = group_id(call.workflow_id, first, size, call.attempt)
        names = [options["workflow_id"] for options, _ in orders]
        orders.append(order_of_group(own, call.queue, names))
    return orders


_STATUS = "SELECT status FROM {}.workflow_status WHERE workflow_uuid = :id FOR SHARE"


def _check_unchanged(store: Checkpointer, item: Any, values: dict[str, Any]) -> None:
    stored = inputs_in(store, item)
    for name, value in incomparable(stored.inputs, values).items():
        raise ItemChangedError(
            f"Item {item.item} cannot be compared with the recorded one: its {name!r} is {value.reason}. Use "
            "another workflow_id.",
            workflow_id=item.id,
        )
    changed = stored.news(values)
    if changed:
        raise ItemChangedError(
            f"Item {item.item} was recorded with different values of {', '.join(map(repr, changed))}. Map "
            "the same list again, or use another workflow_id.",
            workflow_id=item.id,
        )


def _order_of(
    store: Checkpointer, call: Call, item: int, values: dict[str, Any]
) -> tuple[dict[str, Any], str]:
    """Return the options of DBOS and the text of the call of an item."""
    workflow_id = item_id(call.workflow_id, item)
    options = {name: value for name, value in call.options.items() if name != "tags"}
    own = Call(
        call.graph,
        workflow_id,
        encode_values(store, workflow_id, values),
        options,
        version=call.version,
        attempt=call.attempt,
        retries=call.retries,
        retry_delay=call.retry_delay,
    )
    wanted = {
        "workflow_name": RUN,
        "queue_name": call.queue,
        "workflow_id": attempt_id(workflow_id, call.attempt),
    }
    return wanted, own.to_json()


def _end_map(cluster: Cluster, store: Checkpointer, call: Call) -> str:
    """Store the status of a map whose items have ended, and return its outcome as JSON."""
    items = {
        child.id: child.status for child in store.backend.children(call.workflow_id) if child.item is not None
    }
    unstarted = {
        attempt_id(name, call.attempt): name for name, s in items.items() if s is WorkflowStatus.ACTIVE
    }
    for dbos_id in cluster.statuses(unstarted, status="ERROR"):  # rejected before its first node
        store.update_workflow_status(unstarted[dbos_id], WorkflowStatus.FAILED)
        items[unstarted[dbos_id]] = WorkflowStatus.FAILED
    found = set(items.values())
    bad = found - {WorkflowStatus.COMPLETED}
    if not bad:
        status = WorkflowStatus.COMPLETED
    elif bad <= {WorkflowStatus.STOPPED, WorkflowStatus.ACTIVE}:
        status = WorkflowStatus.STOPPED
    elif WorkflowStatus.COMPLETED in found:
        status = WorkflowStatus.PARTIAL
    else:
        status = WorkflowStatus.FAILED
    store.update_workflow_status(call.workflow_id, status)
    return json.dumps({"status": status.value})
