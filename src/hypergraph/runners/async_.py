"""AsyncRunner: the engine on an event loop."""

from __future__ import annotations

import asyncio
import inspect
import logging
import weakref
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Mapping,
    Sequence,
)
from contextlib import aclosing
from dataclasses import replace
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, cast

from hypergraph.cache import CacheBackend
from hypergraph.checkpointers.pending import Pending, names_of
from hypergraph.engine.async_kernel import AsyncKernel
from hypergraph.engine.execute import execute
from hypergraph.engine.nested import MapRun
from hypergraph.engine.options import RunOptions
from hypergraph.engine.run import Run
from hypergraph.events.dispatcher import EventDispatcher
from hypergraph.exceptions import CALLED_AT, calling_line
from hypergraph.executors.dispatch import NodeExecutors
from hypergraph.graph.graph import Graph
from hypergraph.runners.base import (
    MAP_OPTIONS,
    RUN_OPTIONS,
    BaseRunner,
    RunnerCapabilities,
    chosen_executor,
)
from hypergraph.runners.handles import LEFT, Beginning, MapHandle, RunHandle, finished
from hypergraph.runners.observer import Deliver, EventObserver
from hypergraph.runners.options import split_keywords, takes, takes_step
from hypergraph.runners.stepping import Call, NodeStop, SteppedRun, Stepper, split_step
from hypergraph.runs.build import result_of
from hypergraph.runs.results import MapResult, RunResult

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from hypergraph.checkpointers.base import Checkpointer
    from hypergraph.events.types import Event


def running_loop() -> asyncio.AbstractEventLoop:
    """Return the event loop. Raises RuntimeError, with what to do, if none is running."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        raise RuntimeError(
            "AsyncRunner needs a running event loop. Call it in an async function, and start that with "
            "asyncio.run(main()), or use SyncRunner."
        ) from None


class AsyncObserver(EventObserver):
    """Deliver events in order, however long a processor takes."""

    def __init__(self, deliver: Deliver, *, values: bool = False) -> None:
        turn = asyncio.Lock()  # concurrent nodes emit at the same time

        async def deliver_in_turn(event: Event) -> None:
            async with turn:
                await deliver(event)

        super().__init__(deliver_in_turn, values=values)
        self._loop = running_loop()
        self._flush_is_due = False
        self._flushes: set[asyncio.Task[None]] = set()

    def flush(self) -> None:
        """Schedule the delivery of the backlog; may be called from a worker thread."""
        if not self._flush_is_due:
            self._flush_is_due = True
            self._loop.call_soon_threadsafe(self._start_flush)

    def _start_flush(self) -> None:
        self._flush_is_due = False  # later events may need another flush
        if self.backlog:
            task = self._loop.create_task(self.drain())
            self._flushes.add(task)
            task.add_done_callback(self._flushes.discard)

    async def settle(self) -> None:
        """Wait for running flushes: no task outlives its run."""
        if self._flushes:
            await asyncio.wait(self._flushes)


T = TypeVar("T")
R = TypeVar("R")
P = ParamSpec("P")


_background: set[asyncio.Task[Any]] = set()  # an event loop keeps only weak references to tasks


class Handover(Generic[T]):
    """A channel from a run to its consumer; the run waits until each item is consumed."""

    def __init__(self) -> None:
        self._offers: asyncio.Queue[tuple[T, asyncio.Future[None]] | None] = asyncio.Queue()
        self._givers: set[asyncio.Future[None]] = set()
        self._is_open = True

    async def give(self, thing: T) -> None:
        """Put an item and wait until the consumer asks for the next one, or has left."""
        if self._is_open:
            self._givers.add(giver := asyncio.get_running_loop().create_future())
            self._offers.put_nowait((thing, giver))
            await giver

    def _release(self, giver: asyncio.Future[None]) -> None:
        self._givers.discard(giver)
        if not giver.done():  # it may have been cancelled
            giver.set_result(None)

    async def take(
        self, run: Run | MapRun, work: Callable[[], Coroutine[Any, Any, None]]
    ) -> AsyncGenerator[T, None]:
        """Start the work and yield the items it puts; the work has ended when the consumer is gone."""
        line = calling_line()  # of the loop over the items

        async def at_line() -> None:
            CALLED_AT.set(line)
            await work()

        task = asyncio.create_task(at_line())
        _background.add(task)  # the garbage collector would close its coroutines in any order
        task.add_done_callback(_background.discard)
        task.add_done_callback(lambda _: self._offers.put_nowait(None))
        try:
            while (offer := await self._offers.get()) is not None:
                thing, giver = offer
                yield thing
                self._release(giver)
        except asyncio.CancelledError:  # cancelling the consumer cancels its run
            task.cancel()
            raise
        except GeneratorExit:
            run.context.stop(LEFT)
            raise
        finally:
            self._is_open = False
            for giver in list(self._givers):
                self._release(giver)
            await task


def as_task(
    work: Coroutine[Any, Any, T], beginning: Beginning
) -> tuple[Callable[[], bool], Callable[[], Awaitable[T]], Callable[[], Awaitable[None]]]:
    """Start work as a task; return functions for its handle: is it done, await its result, and its start."""
    task = asyncio.create_task(work)
    _background.add(task)
    task.add_done_callback(_background.discard)

    async def result() -> T:
        await asyncio.wait([task])  # not the task itself: cancelling who waits for it would cancel the run
        return task.result()

    async def started() -> None:
        try:
            await asyncio.shield(asyncio.wrap_future(beginning.reached))
        except BaseException:
            if task.done() and not task.cancelled():
                task.exception()  # it is raised here, so asyncio need not log it
            raise

    return task.done, result, started


class AsyncIteration(Generic[T]):
    """What a run publishes, one after another; leaving the loop stops the run."""

    def __init__(self, things: AsyncGenerator[T, None]) -> None:
        self._things = things
        self._closing = asyncio.Lock()
        self._loop: weakref.ref[AsyncGenerator[T, None]] | None = None

    def __aiter__(self) -> AsyncIterator[T]:
        loop = self._until_left(self._is_left)
        self._loop = weakref.ref(loop)
        return loop

    @property
    def _is_left(self) -> bool:
        """Whether an earlier loop is gone: what is left of it is closed by the event loop, sometime."""
        return self._loop is not None and self._loop() is None

    async def _until_left(self, is_left: bool) -> AsyncGenerator[T, None]:
        try:
            if not is_left:
                async for thing in self._things:
                    yield thing
        finally:  # runs when an abandoned loop is collected: aclose() may be running already
            if is_left or not self._closing.locked():
                await self.aclose()

    async def __anext__(self) -> T:
        if self._is_left:
            await self.aclose()
        return await anext(self._things)

    async def aclose(self) -> None:
        """Stop the run unless it has ended, and wait for its end."""
        async with self._closing:
            await self._things.aclose()


class AsyncMapIterator(AsyncIteration[tuple[int, RunResult]]):
    """The items of a map, as they finish."""

    def __init__(
        self, items: AsyncGenerator[tuple[int, RunResult], None], conclude: Callable[[], Any]
    ) -> None:
        super().__init__(_concluded(items, conclude, asyncio.Event()))


async def _concluded(
    things: AsyncGenerator[T, None], conclude: Callable[[], Any], over: asyncio.Event
) -> AsyncGenerator[T, None]:
    """Yield what a run publishes, and conclude it."""
    try:
        async for thing in things:
            yield thing
    finally:
        await things.aclose()
        over.set()
    conclude()


class AsyncRunIterator(AsyncIteration["Event"]):
    """The events of a run, one after another."""

    def __init__(
        self, run: Run, events: AsyncGenerator[Event, None], conclude: Callable[[], RunResult]
    ) -> None:
        self._run = run
        self._over = asyncio.Event()
        super().__init__(_concluded(events, conclude, self._over))

    @property
    def run_id(self) -> str:
        """The id of the run."""
        return self._run.run_id

    @cached_property
    def result(self) -> RunResult:
        """The result of the run. Raises RuntimeError before its end."""
        return finished(self._run, self._over.is_set())


class AsyncRunDebugger(SteppedRun["AsyncGenerator[NodeStop, None]"], AsyncIteration[NodeStop]):
    """A run that stops before each node, under AsyncRunner: iterate with `async for`."""

    def __init__(
        self,
        stepper: Stepper,
        begin: Callable[[], tuple[Run, AsyncGenerator[NodeStop, None], Callable[[], RunResult]]],
    ) -> None:
        SteppedRun.__init__(self, stepper, begin)
        AsyncIteration.__init__(self, self._iterate())

    async def _iterate(self) -> AsyncGenerator[NodeStop, None]:
        try:
            while True:
                async with aclosing(self._steps) as stops:
                    async for stop in stops:
                        yield stop
                if not self._stepper.again():
                    break
                self._start()
        finally:
            self._is_over = True
        self._conclude()


_OF_RESULTS = names_of(RunResult, MapResult)


def _pending(work: Coroutine[Any, Any, T], method: str) -> Pending[T]:
    """Return the call of a method, which explains a missing `await`."""
    remedy = (
        f"Write `await runner.{method}(...)`, and asyncio.run(...) around the outermost call. In a program "
        "without asyncio, use SyncRunner."
    )
    return Pending(work, f"AsyncRunner.{method}", remedy, _OF_RESULTS)


def returns_coroutine(method: Callable[P, R]) -> Callable[P, R]:
    """Mark a function as a coroutine function for `inspect`, so that mocks of it can be awaited."""
    mark = getattr(inspect, "markcoroutinefunction", None)
    if mark is not None:  # since Python 3.12
        return cast("Callable[P, R]", mark(method))
    method._is_coroutine = asyncio.coroutines._is_coroutine  # type: ignore[attr-defined]  # the mark of 3.11
    return method


_CAPABILITIES = RunnerCapabilities(
    supports_async_nodes=True, returns_coroutine=True, supports_interrupts=True
)


class AsyncRunner(BaseRunner):
    """Run graphs of sync and async nodes on the running event loop.

    >>> import asyncio
    >>> count = FunctionNode(lambda words: len(words), "count", "total")
    >>> asyncio.run(AsyncRunner().run(Graph([count]), words=["a", "b"]))["total"]
    2

    With `offload_sync=True` every sync function is called in a worker thread, with `executor=...` by that
    executor. Raises the errors of SyncRunner.

    Args:
        cache: where nodes with cache=True find results
        checkpointer: the store that records every run, or the path of a SQLite file
        max_iterations: rounds that a loop may take each time it is entered; 1000 by default
        logger: the logger that nodes get as NodeContext.logger
        executor: what calls the nodes: an Executor, or a dict from node names to executors
        services: clients and other objects for nodes, by name: NodeContext.service; never stored
        offload_sync: call every sync function in a worker thread
    """

    def __init__(
        self,
        cache: CacheBackend | None = None,
        checkpointer: Checkpointer | str | PathLike[str] | None = None,
        *,
        max_iterations: int | None = None,
        logger: logging.Logger | None = None,
        executor: Executor | Mapping[str, Executor] | None = None,
        services: Mapping[str, Any] | None = None,
        offload_sync: bool = False,
    ) -> None:
        super().__init__(
            cache,
            checkpointer,
            max_iterations=max_iterations,
            logger=logger,
            executor=executor,
            services=services,
        )
        self._offload_sync = bool(offload_sync)

    @property
    def capabilities(self) -> RunnerCapabilities:
        """What this runner can do: cycles, async nodes and interrupts."""
        return replace(_CAPABILITIES, supports_checkpointing=self.checkpointer is not None)

    @returns_coroutine
    @takes(BaseRunner.run)
    def run(
        self, /, graph: Graph, values: Mapping[str, Any] | None = None, **keywords: Any
    ) -> Coroutine[Any, Any, RunResult]:
        line = None if self.checkpointer is None else calling_line()
        return _pending(self._run(graph, values, keywords, line), "run")

    async def _run(
        self,
        graph: Graph,
        values: Mapping[str, Any] | None,
        keywords: dict[str, Any],
        line: tuple[str, int] | None,
    ) -> RunResult:
        if line is not None:  # warnings of other threads and tasks need it
            CALLED_AT.set(line)
        options, inputs = split_keywords(keywords, RUN_OPTIONS, graph, values)
        known, store = None, self.checkpointer
        if options.workflow_id is not None and store is not None and store.backend.is_locked():
            known = await asyncio.to_thread(self._known, graph, values, inputs, options)
        run, dispatcher = self._begin(graph, values, inputs, options, known)
        await self._drive(run, dispatcher)
        return self._conclude(run, options.error_handling)

    @returns_coroutine
    @takes(BaseRunner.map)
    def map(
        self,
        /,
        graph: Graph,
        values: Mapping[str, Any] | None = None,
        *,
        map_over: str | Sequence[str],
        **keywords: Any,
    ) -> Coroutine[Any, Any, MapResult]:
        line = None if self.checkpointer is None else calling_line()
        work = self._map(graph, values, {"map_over": map_over, **keywords}, line)
        return _pending(work, "map")

    async def _map(
        self,
        graph: Graph,
        values: Mapping[str, Any] | None,
        keywords: dict[str, Any],
        line: tuple[str, int] | None,
    ) -> MapResult:
        if line is not None:
            CALLED_AT.set(line)
        options, inputs = split_keywords(keywords, MAP_OPTIONS, graph, values)
        map_run, dispatcher = self._begin_map(graph, values, inputs, options)
        await self._drive(map_run, dispatcher)
        return self._conclude_map(map_run, options.error_handling)

    @takes_step(BaseRunner.run, AsyncRunIterator, AsyncRunDebugger)
    def iter(self, /, graph: Graph, values: Mapping[str, Any] | None = None, **keywords: Any) -> Any:
        """Run a graph and iterate over its events with `async for`; `.result` holds the result afterwards.

        Takes the parameters of `run` and raises the same errors, failures after the last event. Leaving the
        loop early stops the run.

        With `step=True`, iterate over stops instead, one before each node: see `NodeStop`.
        """
        step, keywords = split_step(graph, keywords)
        options, inputs = split_keywords(keywords, RUN_OPTIONS, graph, values)
        if step:
            return self._debug(graph, Call(values, inputs, options))
        dispatcher, events = EventDispatcher(options.event_processors), Handover["Event"]()

        async def deliver(event: Event) -> None:
            await dispatcher.emit_async(event)
            await events.give(event)

        run = self._prepare(graph, values, inputs, options, AsyncObserver(deliver, values=dispatcher.values))
        return AsyncRunIterator(
            run,
            events.take(run, lambda: self._drive(run, dispatcher)),
            lambda: self._conclude(run, options.error_handling),
        )

    def _debug(self, graph: Graph, call: Call) -> AsyncRunDebugger:
        stepper = Stepper(self, graph, call)

        def begin() -> tuple[Run, AsyncGenerator[NodeStop, None], Callable[[], RunResult]]:
            runner, (values, inputs, options) = cast("AsyncRunner", stepper.runner), stepper.call
            stops = Handover[NodeStop]()
            stepper.give = stops.give
            run, dispatcher = runner._begin(graph, values, inputs, options)
            run.context.stepper, run.context.quick = stepper, False
            return (
                run,
                stops.take(run, lambda: runner._drive(run, dispatcher)),
                lambda: runner._conclude(run, options.error_handling),
            )

        return AsyncRunDebugger(stepper, begin)

    @takes(BaseRunner.map)
    def map_iter(
        self,
        /,
        graph: Graph,
        values: Mapping[str, Any] | None = None,
        *,
        map_over: str | Sequence[str],
        **keywords: Any,
    ) -> AsyncIterator[tuple[int, RunResult]]:
        """Run a graph once per item and yield (index, result) as items finish.

        Takes the parameters of `map` and raises the same errors, failures after the last item that ran.
        Leaving the loop early stops the map.
        """
        options, inputs = split_keywords({"map_over": map_over, **keywords}, MAP_OPTIONS, graph, values)
        map_run, dispatcher = self._begin_map(graph, values, inputs, options)
        finished = Handover[tuple[int, RunResult]]()

        async def publish(index: int, run: Run) -> None:
            await finished.give((index, result_of(run)))

        map_run.publish = publish
        return AsyncMapIterator(
            finished.take(map_run, lambda: self._drive(map_run, dispatcher)),
            lambda: self._conclude_map(map_run, options.error_handling),
        )

    @takes(BaseRunner.run)
    def start_run(
        self, /, graph: Graph, values: Mapping[str, Any] | None = None, **keywords: Any
    ) -> RunHandle[Awaitable[RunResult]]:
        """Start a run as a task and return a handle. Takes the parameters of `run`.

        Errors found before a node runs are raised at once, all others by `await handle.result()`.
        """
        options, inputs = split_keywords(keywords, RUN_OPTIONS, graph, values)
        run, dispatcher = self._begin(graph, values, inputs, options)
        beginning, line = Beginning(run), calling_line()

        async def work() -> RunResult:
            CALLED_AT.set(line)
            with beginning.watched():
                await self._drive(run, dispatcher)
            return self._conclude(run, options.error_handling)

        return RunHandle(run, *as_task(work(), beginning))

    @takes(BaseRunner.map)
    def start_map(
        self,
        /,
        graph: Graph,
        values: Mapping[str, Any] | None = None,
        *,
        map_over: str | Sequence[str],
        **keywords: Any,
    ) -> MapHandle[Awaitable[MapResult]]:
        """Start a map as a task and return a handle. Takes the parameters of `map`.

        Errors found before a node runs are raised at once, all others by `await handle.result()`.
        """
        options, inputs = split_keywords({"map_over": map_over, **keywords}, MAP_OPTIONS, graph, values)
        map_run, dispatcher = self._begin_map(graph, values, inputs, options)
        beginning, line = Beginning(map_run), calling_line()

        async def work() -> MapResult:
            CALLED_AT.set(line)
            with beginning.watched():
                await self._drive(map_run, dispatcher)
            return self._conclude_map(map_run, options.error_handling)

        return MapHandle(map_run, *as_task(work(), beginning))

    # -- the parts -------------------------------------------------------------------------------------

    def _kernel(self, graph: Graph, options: RunOptions) -> AsyncKernel:
        running_loop()
        executor = chosen_executor(self._executor, options.executor)
        executors = NodeExecutors(executor, graph) if executor is not None else None
        return AsyncKernel(options.max_concurrency, offload_all=self._offload_sync, executors=executors)

    def _observer(self, dispatcher: EventDispatcher) -> EventObserver:
        return AsyncObserver(dispatcher.emit_async, values=dispatcher.values)

    async def _drive(self, run: Run | MapRun, dispatcher: EventDispatcher | None) -> None:
        """Execute to the end on this loop."""
        self._live.add(run.context)
        try:
            await (execute(run) if isinstance(run, Run) else run.execute())
        finally:
            self._live.discard(run.context)
            if isinstance(run.context.observer, AsyncObserver):
                await run.context.observer.settle()
            if dispatcher is not None:
                await dispatcher.shutdown_async()
