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
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import dbos

from hypergraph import AsyncRunner, Graph, RunResult, SyncRunner
from hypergraph.checkpointers import Checkpointer, WorkflowStatus
from hypergraph.checkpointers.records import NewWorkflow
from hypergraph.display import did_you_mean, jsonable
from hypergraph.durability.code_changes import node_hashes
from hypergraph.durability.history import inputs_in
from hypergraph.engine.nested import expand
from hypergraph.exceptions import (
    HypergraphError,
    ItemChangedError,
    OwnershipLostError,
    StoreUnavailableError,
    safe_text,
)
from hypergraph.graph.structure import structure_of
from hypergraph.integrations.dbos.calls import (
    IN_FLIGHT,
    RUN,
    Call,
    attempt_id,
    decode_values,
    encode_values,
    item_id,
)
from hypergraph.integrations.dbos.cluster import Cluster
from hypergraph.integrations.dbos.metrics import Metrics
from hypergraph.runners import RunStatus

logger = logging.getLogger("hypergraph.worker")
_MAX_THREADS = 1000  # queues limit the runs; threads must not
_RETRY_SECONDS = 0.5  # until a run that lost its store or its ownership is tried again
_CHUNK = 500  # items of a map whose status is read at once
_MAX_POLL = 2.0  # seconds between two reads of the status of items


class Runs:
    """The runs of one worker: starts them, stops them, knows those that are running."""

    def __init__(self, store: Checkpointer, graphs: Mapping[str, Graph], metrics: Metrics) -> None:
        self.store = store
        self.graphs = graphs
        self.metrics = metrics
        self._sync = SyncRunner(checkpointer=store)
        self._async = AsyncRunner(checkpointer=store, offload_sync=True)
        self._threads = ThreadPoolExecutor(_MAX_THREADS, thread_name_prefix="hypergraph-run")
        self._live: dict[str, str] = {}
        self._lock = threading.Lock()

    @property
    def live(self) -> dict[str, str]:
        """The workflow ids of the running runs, by their DBOS ids."""
        with self._lock:
            return dict(self._live)

    def stop(self, dbos_id: str) -> None:
        """Stop a run before its next node."""
        workflow_id = self.live.get(dbos_id)
        if workflow_id is not None and not self._sync.stop(workflow_id):
            self._async.stop(workflow_id)

    def close(self) -> None:
        """Accept no more runs."""
        self._threads.shutdown(wait=False)

    def graph_of(self, call: Call) -> Graph:
        """Return the graph of a call. Raises the error that DBOS records if this worker does not have it."""
        graph = self.graphs.get(call.graph)
        if graph is None:
            hint = did_you_mean(call.graph, self.graphs) or f"It has {', '.join(sorted(self.graphs))}."
            raise dbos.PortableWorkflowError(
                f"The worker has no graph {call.graph!r}. {hint} Nothing ran. Start a worker that has the "
                "graph and submit again.",
                "UnknownGraph",
            )
        return graph

    async def run(self, dbos_id: str, call: Call) -> RunResult:
        """Run a call to its end and return the result, failed or not."""
        graph = self.graph_of(call)
        with self._registered(dbos_id, call.workflow_id):
            while True:
                result = await self._try(graph, call)
                error = result.error
                if not isinstance(error, (OwnershipLostError, StoreUnavailableError)):
                    break
                self.metrics.count("hypergraph_runs_interrupted_total", reason=type(error).__name__)
                logger.warning("run %s was interrupted and is tried again: %s", call.workflow_id, error)
                await asyncio.sleep(_RETRY_SECONDS)
        self.metrics.count("hypergraph_runs_total", status=result.status.value)
        return result

    async def _try(self, graph: Graph, call: Call) -> RunResult:
        options = {
            **call.options,
            "workflow_id": call.workflow_id,
            "wait": True,
            "error_handling": "continue",
        }
        tags = options.pop("tags", None)
        loop = asyncio.get_running_loop()
        try:
            values = decode_values(self.store, graph, call)
            if {"new_turn", "fork_from"} & options.keys():
                await asyncio.to_thread(self._drop_applied, call, options)
            if not graph.has_async_nodes and not graph.has_interrupts:
                work = partial(self._in_thread, call, graph, values, tags=tags, **options)
                return await loop.run_in_executor(self._threads, work)
            coroutine = self._on_loop(call, graph, values, tags=tags, **options)
            return await loop.create_task(coroutine, context=contextvars.Context())
        except (OwnershipLostError, StoreUnavailableError) as error:
            return _failed(call, error)
        except (HypergraphError, ValueError, TypeError) as error:  # rejected before the first node
            raise portable_error(error) from error

    def _drop_applied(self, call: Call, options: dict[str, Any]) -> None:
        """Remove options that an earlier execution of the same call has applied: its turn, or its fork."""
        stored = self.store.backend.read_workflow(call.workflow_id)
        if stored is not None:
            options.pop("fork_from", None)
            if stored.step_count > call.steps:
                options.pop("new_turn", None)

    def _in_thread(self, call: Call, graph: Graph, values: dict[str, Any], **options: Any) -> RunResult:
        try:
            return self._sync.run(graph, values, **options)
        except KeyboardInterrupt as error:  # raised by a node: it ends this run, not the event loop
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
    """Return the outcome of a run as JSON for DBOS: status and names of outputs; the store has the values.

    Raises the error that DBOS records for a failed run.
    """
    names: Any = list(result.values)
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


async def run_map(
    cluster: Cluster, store: Checkpointer, graph: Graph, call: Call, is_draining: Callable[[], bool]
) -> str:
    """Run a map to its end and return its outcome as JSON.

    Raises:
        DrainedError: the worker is draining.
    """
    submitted = await asyncio.to_thread(_submit_items, cluster, store, graph, call)
    waiting, pause = [attempt_id(item_id(call.workflow_id, item), call.attempt) for item in submitted], 0.02
    while waiting:
        if is_draining():
            raise DrainedError
        await asyncio.sleep(pause)
        pause = min(pause * 1.5, _MAX_POLL)
        asked = waiting[:_CHUNK]
        found = await asyncio.to_thread(cluster.statuses, asked, status=list(IN_FLIGHT))
        if len(found) < len(asked):
            pause = 0.02
        waiting = [dbos_id for dbos_id in asked if dbos_id in found] + waiting[_CHUNK:]
    return await asyncio.to_thread(_end_map, cluster, store, call)


def _submit_items(cluster: Cluster, store: Checkpointer, graph: Graph, call: Call) -> list[int]:
    """Store and submit the items that have not completed; return their numbers."""
    batch = call.workflow_id
    rows = expand(decode_values(store, graph, call), call.map_over, call.map_mode, False)
    tags = call.options.get("tags") or {}
    code = NewWorkflow(
        graph_name=graph.name,
        graph_hash=graph.definition_hash,
        graph=structure_of(graph),
        node_hashes=node_hashes(graph),
    )
    if store.backend.read_workflow(batch) is None:
        store.backend.create(batch, replace(code, tags=tags), store.encoding)
    else:
        store.update_workflow_status(batch, WorkflowStatus.ACTIVE)
    stored = {child.item: child for child in store.backend.children(batch)}
    for item, values in enumerate(rows):
        if item in stored:
            _check_unchanged(store, stored[item], values)
    submitted = []
    for item, values in enumerate(rows):
        if item not in stored:
            new = replace(code, parent_id=batch, item=item, inputs=values)
            store.backend.create(item_id(batch, item), new, store.encoding)
        elif stored[item].status is WorkflowStatus.COMPLETED:
            continue
        _enqueue_item(cluster, store, call, item, values)
        submitted.append(item)
    return submitted


def _check_unchanged(store: Checkpointer, item: Any, values: dict[str, Any]) -> None:
    changed = inputs_in(store, item).news(values)
    if changed:
        raise ItemChangedError(
            f"Item {item.item} was recorded with different values of {', '.join(map(repr, changed))}. Map "
            "the same list again, or use another workflow_id.",
            workflow_id=item.id,
        )


def _enqueue_item(
    cluster: Cluster, store: Checkpointer, call: Call, item: int, values: dict[str, Any]
) -> None:
    workflow_id = item_id(call.workflow_id, item)
    options = {name: value for name, value in call.options.items() if name != "tags"}
    encoded = encode_values(store, workflow_id, values)
    own = Call(call.graph, workflow_id, encoded, options, attempt=call.attempt)
    cluster.client.enqueue(
        {
            "workflow_name": RUN,
            "queue_name": call.queue,
            "workflow_id": attempt_id(workflow_id, call.attempt),
            "workflow_id_reuse_policy": "return-existing",
        },
        own.to_json(),
    )


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
