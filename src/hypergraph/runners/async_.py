"""AsyncRunner: the same engine on an event loop; what can run at the same time does."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from hypergraph.cache import CacheBackend
from hypergraph.engine.async_kernel import AsyncKernel
from hypergraph.engine.execute import execute
from hypergraph.engine.nested import MapRun
from hypergraph.engine.run import Run
from hypergraph.events.dispatcher import EventDispatcher
from hypergraph.events.processor import EventProcessor
from hypergraph.graph.graph import Graph
from hypergraph.placement.places import Places
from hypergraph.plan.admission import UNSET
from hypergraph.runners.async_iteration import AsyncRunIterator, Handover, as_task
from hypergraph.runners.async_observe import AsyncObserver
from hypergraph.runners.base import BaseRunner, RunnerCapabilities
from hypergraph.runners.handles import MapHandle, RunHandle
from hypergraph.runners.observe import EventObserver
from hypergraph.runners.options import (
    ONLY_OF_MAPS,
    ONLY_OF_RUNS,
    ErrorHandling,
    Options,
    checked,
    options_of,
    split_options,
)
from hypergraph.runners.parameters import explained_call, explained_runner
from hypergraph.runs.build import result_of
from hypergraph.runs.results import MapResult
from hypergraph.runs.run_result import RunResult

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from hypergraph.checkpointers.base import Checkpointer
    from hypergraph.checkpointers.types import Checkpoint, StepRecord
    from hypergraph.events.types import Event

_CAPABILITIES = RunnerCapabilities(
    supports_async_nodes=True, returns_coroutine=True, supports_interrupts=True
)


@explained_runner
class AsyncRunner(BaseRunner):
    """Run graphs of sync and async nodes on the running event loop.

    With `offload_sync=True` every sync function is called in a worker thread, with `executor=...` by that
    executor. Raises what SyncRunner raises.
    """

    def __init__(
        self,
        cache: CacheBackend | None = None,
        checkpointer: Checkpointer | None = None,
        *,
        max_iterations: int | None = None,
        logger: logging.Logger | None = None,
        executor: Executor | Mapping[str, Executor] | None = None,
        offload_sync: bool = False,
    ) -> None:
        super().__init__(cache, checkpointer, max_iterations=max_iterations, logger=logger, executor=executor)
        self._offload_sync = bool(offload_sync)

    @property
    def capabilities(self) -> RunnerCapabilities:
        """What this runner can do: cycles, async nodes and interrupts."""
        return replace(_CAPABILITIES, supports_checkpointing=self.checkpointer is not None)

    @explained_call
    async def run(
        self,
        graph: Graph,
        values: Mapping[str, Any] | None = None,
        *,
        select: Any = UNSET,
        on_missing: Literal["ignore", "warn", "error"] = "ignore",
        on_internal_override: Literal["warn", "ignore", "error"] = "warn",
        entrypoint: str | None = None,
        max_iterations: int | None = None,
        max_concurrency: int | None = None,
        error_handling: ErrorHandling = "raise",
        event_processors: Sequence[EventProcessor] | None = None,
        timeout: float | None = None,
        run_id: str | None = None,
        workflow_id: str | None = None,
        executor: Executor | Mapping[str, Executor] | None = None,
        history: Sequence[StepRecord] | None = None,
        checkpoint: Checkpoint | None = None,
        fork_from: tuple[str, int | None] | None = None,
        code_change: Literal["keep", "rerun", "error"] = "keep",
        new_turn: bool = False,
        tags: Mapping[str, str] | None = None,
        wait: bool = False,
        force: bool = False,
        **input_values: Any,
    ) -> RunResult:
        """Run a graph once and return its result.

        Raises what a node raised (with `error_handling="raise"`), MissingInputError, GraphConfigError or
        ValueError for a call that cannot work, CancellationError when stopped, InfiniteLoopError.
        """
        options = options_of((
            select, on_missing, on_internal_override, entrypoint, max_iterations, max_concurrency,
            error_handling, event_processors, timeout, run_id, workflow_id, executor,
            (history, checkpoint, fork_from, code_change, new_turn, tags, wait, force, None),
        ))  # fmt: skip
        run, dispatcher = self._begin(graph, values, input_values, options)
        await self._drive(run, dispatcher)
        return self._conclude(run, error_handling)

    @explained_call
    async def map(
        self,
        graph: Graph,
        values: Mapping[str, Any] | None = None,
        *,
        map_over: str | Sequence[str],
        map_mode: Literal["zip", "product"] = "zip",
        clone: bool | list[str] = False,
        select: Any = UNSET,
        on_missing: Literal["ignore", "warn", "error"] = "ignore",
        on_internal_override: Literal["warn", "ignore", "error"] = "warn",
        entrypoint: str | None = None,
        max_iterations: int | None = None,
        max_concurrency: int | None = None,
        error_handling: ErrorHandling = "raise",
        event_processors: Sequence[EventProcessor] | None = None,
        timeout: float | None = None,
        workflow_id: str | None = None,
        executor: Executor | Mapping[str, Executor] | None = None,
        code_change: Literal["keep", "rerun", "error"] = "keep",
        key: str | Callable[[dict[str, Any]], Any] | None = None,
        tags: Mapping[str, str] | None = None,
        force: bool = False,
        **input_values: Any,
    ) -> MapResult:
        """Run a graph once per item, items at the same time, and return all results.

        Raises what `run` raises, and ValueError for lists of unequal lengths and for too many items without
        a limit.
        """
        options = options_of((
            select, on_missing, on_internal_override, entrypoint, max_iterations, max_concurrency,
            error_handling, event_processors, timeout, None, workflow_id, executor,
            (None, None, None, code_change, False, tags, False, force, key),
        ))  # fmt: skip
        map_run, dispatcher = self._begin_map(
            graph, values, input_values, options=options, map_over=map_over, map_mode=map_mode, clone=clone
        )
        await self._drive(map_run, dispatcher)
        return self._conclude_map(map_run, error_handling)

    def iter(self, graph: Graph, values: Mapping[str, Any] | None = None, **options: Any) -> AsyncRunIterator:
        """Run a graph and iterate over its events with `async for`; `.result` holds the result afterwards.

        Takes the options of `run` and raises what it raises, failures after the last event. Leaving the loop
        early stops the run.
        """
        given, keywords = split_options(options, ONLY_OF_MAPS)
        dispatcher, events = EventDispatcher(given.event_processors), Handover["Event"]()

        async def deliver(event: Event) -> None:
            await dispatcher.emit_async(event)
            await events.give(event)

        run = self._prepare(graph, values, keywords, options=given, observer=AsyncObserver(deliver))
        return AsyncRunIterator(
            run,
            events.take(run, lambda: self._drive(run, dispatcher)),
            lambda: self._conclude(run, given.error_handling),
        )

    @explained_call
    def map_iter(
        self,
        graph: Graph,
        values: Mapping[str, Any] | None = None,
        *,
        map_over: str | Sequence[str],
        map_mode: Literal["zip", "product"] = "zip",
        clone: bool | list[str] = False,
        **options: Any,
    ) -> AsyncIterator[tuple[int, RunResult]]:
        """Run a graph once per item and yield (index, result) as items finish.

        Takes the options of `map` and raises what it raises, failures after the last item that ran. Leaving
        the loop early stops the map.
        """
        given, keywords = split_options(options, ONLY_OF_RUNS)
        map_run, dispatcher = self._begin_map(
            graph, values, keywords, options=given, map_over=map_over, map_mode=map_mode, clone=clone
        )
        finished = Handover[tuple[int, RunResult]]()

        async def publish(index: int, run: Run) -> None:
            await finished.give((index, result_of(run)))

        async def items() -> AsyncIterator[tuple[int, RunResult]]:
            async with aclosing(finished.take(map_run, lambda: self._drive(map_run, dispatcher))) as taken:
                async for item in taken:
                    yield item
            self._conclude_map(map_run, given.error_handling)

        map_run.publish = publish
        return items()

    def start_run(
        self, graph: Graph, values: Mapping[str, Any] | None = None, **options: Any
    ) -> RunHandle[Awaitable[RunResult]]:
        """Start a run as a task and return a handle. Takes the options of `run`.

        Raises at once what `run` raises before anything runs; the rest is raised by `await handle.result()`.
        """
        given, keywords = split_options(options, ONLY_OF_MAPS)
        run, dispatcher = self._begin(graph, values, keywords, given)

        async def work() -> RunResult:
            await self._drive(run, dispatcher)
            return self._conclude(run, given.error_handling)

        return RunHandle(run, *as_task(work()))

    @explained_call
    def start_map(
        self,
        graph: Graph,
        values: Mapping[str, Any] | None = None,
        *,
        map_over: str | Sequence[str],
        map_mode: Literal["zip", "product"] = "zip",
        clone: bool | list[str] = False,
        **options: Any,
    ) -> MapHandle[Awaitable[MapResult]]:
        """Start a map as a task and return a handle. Takes the options of `map`.

        Raises at once what `map` raises before anything runs; the rest is raised by `await handle.result()`.
        """
        given, keywords = split_options(options, ONLY_OF_RUNS)
        map_run, dispatcher = self._begin_map(
            graph, values, keywords, options=given, map_over=map_over, map_mode=map_mode, clone=clone
        )

        async def work() -> MapResult:
            await self._drive(map_run, dispatcher)
            return self._conclude_map(map_run, given.error_handling)

        return MapHandle(map_run, *as_task(work()))

    # -- the parts -------------------------------------------------------------------------------------

    def _kernel(self, graph: Graph, options: Options) -> AsyncKernel:
        asyncio.get_running_loop()  # raises now, and not when something is under way
        executor = self._placing(options)
        places = Places(executor, graph) if executor is not None else None
        return AsyncKernel(checked(options).max_concurrency, offload_all=self._offload_sync, places=places)

    def _observer(self, dispatcher: EventDispatcher) -> EventObserver:
        return AsyncObserver(dispatcher.emit_async)

    async def _drive(self, run: Run | MapRun, dispatcher: EventDispatcher | None) -> None:
        """Execute to the end on this loop."""
        self._live.add(run.scope)
        try:
            await (execute(run) if isinstance(run, Run) else run.execute())
        finally:
            self._live.discard(run.scope)
            if isinstance(run.scope.observer, AsyncObserver):
                await run.scope.observer.settle()
            if dispatcher is not None:
                await dispatcher.shutdown_async()
