"""What a worker does with a call: run the graph here, from where its history stops, and say how it ended.

Graphs of sync nodes run in a thread each, all others on the one event loop of DBOS; none of them sees the
context of DBOS, so nothing a node does becomes a step of DBOS. A run that was taken over by somebody else is
followed, not failed, and a store that is gone is waited for.
"""

from __future__ import annotations

import asyncio
import contextvars
import json
import logging
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any

from hypergraph import AsyncRunner, Graph, RunResult, SyncRunner
from hypergraph.checkpointers import Checkpointer
from hypergraph.display import did_you_mean, jsonable
from hypergraph.exceptions import HypergraphError, OwnershipLostError, StoreUnavailableError, safe_text
from hypergraph.integrations.dbos_address import dbos
from hypergraph.integrations.dbos_calls import Call, unpacked
from hypergraph.integrations.dbos_metrics import Metrics
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
        stored = self.store.read_workflow(call.workflow_id)
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
