"""AsyncRunner: the same engine on an event loop; what can run at the same time does."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, Generic, Literal, TypeVar

from hypergraph.cache import CacheBackend
from hypergraph.engine.async_kernel import AsyncKernel
from hypergraph.engine.execute import execute
from hypergraph.engine.nested import MAX_TASKS, MapRun
from hypergraph.engine.run import Run
from hypergraph.events.dispatcher import EventDispatcher
from hypergraph.events.processor import EventProcessor
from hypergraph.events.types import Event
from hypergraph.graph.graph import Graph
from hypergraph.plan.admission import UNSET
from hypergraph.runners.async_observe import AsyncObserver
from hypergraph.runners.base import BaseRunner, RunnerCapabilities, dispatcher_for
from hypergraph.runners.observe import EventObserver
from hypergraph.runners.options import ErrorHandling, Options, checked, options_of, split_options
from hypergraph.runs.build import result_of
from hypergraph.runs.results import MapResult
from hypergraph.runs.run_result import RunResult

T = TypeVar("T")
_CAPABILITIES = RunnerCapabilities(
    supports_async_nodes=True, returns_coroutine=True, supports_interrupts=True
)


class AsyncRunner(BaseRunner):
    """Run graphs of sync and async nodes on the running event loop.

    With `offload_sync=True` every sync function is called in a worker thread. Raises ValueError for a
    max_iterations that is not a positive int, TypeError for a cache that is none.
    """

    def __init__(
        self,
        cache: CacheBackend | None = None,
        *,
        max_iterations: int | None = None,
        logger: logging.Logger | None = None,
        offload_sync: bool = False,
    ) -> None:
        super().__init__(cache, max_iterations=max_iterations, logger=logger)
        self._offload_sync = bool(offload_sync)

    @property
    def capabilities(self) -> RunnerCapabilities:
        """What this runner can do: cycles, async nodes and interrupts."""
        return _CAPABILITIES

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
        **input_values: Any,
    ) -> RunResult:
        """Run a graph once and return its result.

        Raises what a node raised (with `error_handling="raise"`), MissingInputError, GraphConfigError or
        ValueError for a call that cannot work, CancellationError when stopped, InfiniteLoopError for a loop
        that does not end.
        """
        options = options_of(
            (select, on_missing, on_internal_override, entrypoint, max_iterations, max_concurrency, error_handling, event_processors, timeout, run_id, workflow_id)
        )
        dispatcher = dispatcher_for(event_processors)
        run = self._prepare(
            self._kernel(options), graph, values, input_values, options, self._observer(dispatcher)
        )
        await self._drive(run, dispatcher)
        return self._conclude(run, error_handling)

    async def map(
        self,
        graph: Graph,
        values: Mapping[str, Any] | None = None,
        *,
        map_over: str | Sequence[str],
        map_mode: Literal["zip", "product"] = "zip",
        clone: bool | Sequence[str] = False,
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
        **input_values: Any,
    ) -> MapResult:
        """Run a graph once per item, items at the same time, and return all results.

        Raises what `run` raises, and ValueError for lists of unequal lengths or too many items without a limit.
        """
        options = options_of(
            (select, on_missing, on_internal_override, entrypoint, max_iterations, max_concurrency, error_handling, event_processors, timeout, None, workflow_id)
        )
        map_run, dispatcher = self._begin_map(graph, values, input_values, options, map_over, map_mode, clone)
        await self._drive(map_run, dispatcher)
        return self._conclude_map(map_run, error_handling)

    def iter(self, graph: Graph, values: Mapping[str, Any] | None = None, **options: Any) -> AsyncRunIterator:
        """Run a graph and iterate over its events with `async for`; `.result` holds the result afterwards.

        Takes the options of `run` and raises what it raises. Leaving the loop early stops the run.
        """
        given, keywords = split_options(options)
        return AsyncRunIterator(self, lambda observer: (graph, values, keywords, given, observer))

    async def map_iter(
        self,
        graph: Graph,
        values: Mapping[str, Any] | None = None,
        *,
        map_over: str | Sequence[str],
        map_mode: Literal["zip", "product"] = "zip",
        clone: bool | Sequence[str] = False,
        **options: Any,
    ) -> AsyncIterator[tuple[int, RunResult]]:
        """Run a graph once per item and yield (index, result) as items finish.

        Takes the options of `map` and raises what it raises, failures after the last item that ran.
        """
        given, keywords = split_options(options)
        map_run, dispatcher = self._begin_map(graph, values, keywords, given, map_over, map_mode, clone)
        finished: asyncio.Queue[tuple[int, RunResult] | None] = asyncio.Queue()

        async def publish(index: int, run: Run) -> None:
            finished.put_nowait((index, result_of(run)))

        map_run.publish = publish
        task = asyncio.create_task(self._drive(map_run, dispatcher))
        task.add_done_callback(lambda _: finished.put_nowait(None))
        try:
            while (item := await finished.get()) is not None:
                yield item
        finally:
            map_run.scope.stop("the iterator was closed")
            await task
        self._conclude_map(map_run, given.error_handling)

    def start_run(
        self, graph: Graph, values: Mapping[str, Any] | None = None, **options: Any
    ) -> AsyncHandle[RunResult]:
        """Start a run as a task and return a handle. Takes the options of `run`."""
        given, keywords = split_options(options)
        dispatcher = dispatcher_for(given.event_processors)
        run = self._prepare(self._kernel(given), graph, values, keywords, given, self._observer(dispatcher))
        return AsyncHandle(run, self._drive(run, dispatcher), lambda: self._conclude(run, given.error_handling))

    def start_map(
        self,
        graph: Graph,
        values: Mapping[str, Any] | None = None,
        *,
        map_over: str | Sequence[str],
        map_mode: Literal["zip", "product"] = "zip",
        clone: bool | Sequence[str] = False,
        **options: Any,
    ) -> AsyncHandle[MapResult]:
        """Start a map as a task and return a handle. Takes the options of `map`."""
        given, keywords = split_options(options)
        map_run, dispatcher = self._begin_map(graph, values, keywords, given, map_over, map_mode, clone)
        return AsyncHandle(
            map_run,
            self._drive(map_run, dispatcher),
            lambda: self._conclude_map(map_run, given.error_handling),
        )

    # -- the parts -------------------------------------------------------------------------------------

    def _kernel(self, options: Options) -> AsyncKernel:
        return AsyncKernel(checked(options).max_concurrency, offload_all=self._offload_sync)

    def _observer(self, dispatcher: EventDispatcher | None) -> EventObserver | None:
        return AsyncObserver(dispatcher.emit_async) if dispatcher is not None else None

    def _begin_map(
        self,
        graph: Graph,
        values: Mapping[str, Any] | None,
        keywords: dict[str, Any],
        options: Options,
        map_over: str | Sequence[str],
        mode: str,
        clone: bool | Sequence[str],
    ) -> tuple[MapRun, EventDispatcher | None]:
        dispatcher = dispatcher_for(options.event_processors)
        kernel, observer = self._kernel(options), self._observer(dispatcher)
        map_run = self._prepare_map(kernel, graph, values, keywords, options, observer, map_over, mode, clone)
        if options.max_concurrency is None and len(map_run.items) > MAX_TASKS:
            raise ValueError(
                f"Too many map tasks: {len(map_run.items)} items without a limit. Pass max_concurrency=..."
            )
        return map_run, dispatcher

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


class AsyncHandle(Generic[T]):
    """A run or map that was started as a task."""

    def __init__(self, run: Run | MapRun, drive: Awaitable[None], conclude: Callable[[], T]) -> None:
        self._run = run
        self._conclude = conclude
        self.run_id = run.run_id
        self._task = asyncio.ensure_future(drive)

    @property
    def done(self) -> bool:
        """Whether the run has ended, whichever way."""
        return self._task.done()

    def stop(self, info: Any = None) -> None:
        """Ask the run to stop before its next node."""
        self._run.scope.stop(info)

    async def result(self) -> T:
        """Wait for the run to end and return its result. Raises what `run` or `map` would have raised."""
        await self._task
        return self._conclude()


class AsyncRunIterator:
    """The events of a run as they happen."""

    def __init__(self, runner: AsyncRunner, call: Callable[[EventObserver], tuple[Any, ...]]) -> None:
        self._runner = runner
        self._call = call
        self._run: Run | None = None
        self._result: RunResult | None = None

    @property
    def result(self) -> RunResult:
        """The result of the run. Raises RuntimeError while it is still under way."""
        if self._result is None:
            raise RuntimeError("The run is not over: iterate to the last event.")
        return self._result

    async def __aiter__(self) -> AsyncIterator[Event]:
        events: asyncio.Queue[Event | None] = asyncio.Queue()
        graph, values, keywords, options, _ = self._call(EventObserver(events.put))
        dispatcher = EventDispatcher(options.event_processors)

        async def deliver(event: Event) -> None:
            await dispatcher.emit_async(event)
            events.put_nowait(event)

        kernel, observer = self._runner._kernel(options), AsyncObserver(deliver)
        run = self._run = self._runner._prepare(kernel, graph, values, keywords, options, observer)
        task = asyncio.create_task(self._runner._drive(run, dispatcher))
        task.add_done_callback(lambda _: events.put_nowait(None))
        try:
            while (event := await events.get()) is not None:
                yield event
        finally:
            run.scope.stop("the iterator was closed")
            await task
            self._result = result_of(run)
        self._runner._conclude(run, options.error_handling)
