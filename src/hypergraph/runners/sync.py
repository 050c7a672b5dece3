"""SyncRunner: plain calls, one node after another, no event loop."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from hypergraph import runners
from hypergraph.engine.execute import execute
from hypergraph.engine.kernel import Kernel, SyncKernel, finish, hand_out
from hypergraph.engine.nested import MapRun
from hypergraph.engine.options import DEFAULTS, RunOptions
from hypergraph.engine.run import Run
from hypergraph.events.dispatcher import EventDispatcher, tell_deaf
from hypergraph.exceptions import CALLED_AT, calling_line
from hypergraph.graph.graph import Graph
from hypergraph.runners.base import (
    MAP_OPTIONS,
    RUN_OPTIONS,
    BaseRunner,
    RunnerCapabilities,
    chosen_executor,
)
from hypergraph.runners.handles import (
    Beginning,
    MapHandle,
    MapIterator,
    RunHandle,
    RunIterator,
    in_thread,
    until_left,
)
from hypergraph.runners.observer import EventObserver, SyncObserver
from hypergraph.runners.options import split_keywords, takes, takes_step
from hypergraph.runners.stepping import Call, NodeStop, RunDebugger, Stepper, split_step
from hypergraph.runs.build import result_of
from hypergraph.runs.results import MapResult, RunResult

if TYPE_CHECKING:
    from hypergraph.events.types import Event

_KERNEL = SyncKernel()
_CAPABILITIES = RunnerCapabilities(supports_interrupts=True)
_ASYNC_ONLY = frozenset(("max_concurrency",))
_RUN_OPTIONS = RUN_OPTIONS - _ASYNC_ONLY
_MAP_OPTIONS = MAP_OPTIONS - _ASYNC_ONLY
_CONCLUDING = frozenset(("error_handling",))  # options that only the end of a run depends on


class SyncRunner(BaseRunner):
    """Run graphs of sync nodes in the calling thread.

    >>> double = FunctionNode(lambda number: 2 * number, "double", "twice")
    >>> SyncRunner().run(Graph([double]), number=4)["twice"]
    8
    >>> SyncRunner().map(Graph([double]), number=[1, 2], map_over="number")["twice"]
    [2, 4]

    With `executor=...` the executor calls the nodes, independent ones at the same time, and the calling
    thread waits. Raises ValueError for a max_iterations that is not a positive int, TypeError for an
    unsuitable cache, checkpointer or executor.

    Args:
        cache: where nodes with cache=True find results
        checkpointer: the store that records every run, or the path of a SQLite file
        max_iterations: rounds that a loop may take each time it is entered; 1000 by default
        logger: the logger that nodes get as NodeContext.logger
        executor: what calls the nodes: an Executor, or a dict from node names to executors
        services: clients and other objects for nodes, by name: NodeContext.service; never stored
    """

    @property
    def capabilities(self) -> RunnerCapabilities:
        """What this runner can do: cycles; no async nodes and no interrupts."""
        return replace(_CAPABILITIES, supports_checkpointing=self.checkpointer is not None)

    @takes(BaseRunner.run, without=_ASYNC_ONLY)
    def run(self, /, graph: Graph, values: Mapping[str, Any] | None = None, **keywords: Any) -> RunResult:
        options, inputs = DEFAULTS, keywords
        if keywords:
            options, inputs = split_keywords(keywords, _RUN_OPTIONS, graph, values)
        run = dispatcher = None
        plain = options is DEFAULTS or vars(options).keys() <= _CONCLUDING
        if plain and (values is None or not inputs):  # as most calls are
            run = self._prepared_before(_KERNEL, graph, inputs if values is None else values)
        if run is None:
            run, dispatcher = self._begin(graph, values, inputs, options)
        self._drive(run, dispatcher)
        return self._conclude(run, options.error_handling)

    @takes(BaseRunner.map, without=_ASYNC_ONLY)
    def map(
        self,
        /,
        graph: Graph,
        values: Mapping[str, Any] | None = None,
        *,
        map_over: str | Sequence[str],
        **keywords: Any,
    ) -> MapResult:
        options, inputs = split_keywords({"map_over": map_over, **keywords}, _MAP_OPTIONS, graph, values)
        map_run, dispatcher = self._begin_map(graph, values, inputs, options)
        self._drive(map_run, dispatcher)
        return self._conclude_map(map_run, options.error_handling)

    @takes_step(BaseRunner.run, RunIterator, RunDebugger, without=_ASYNC_ONLY)
    def iter(self, /, graph: Graph, values: Mapping[str, Any] | None = None, **keywords: Any) -> Any:
        """Run a graph and iterate over its events; `.result` holds the result after the last one.

        Takes the parameters of `run` and raises the same errors, failures after the last event. Leaving the
        loop early stops the run.

        With `step=True`, iterate over stops instead, one before each node: see `NodeStop`.
        """
        step, keywords = split_step(graph, keywords)
        options, inputs = split_keywords(keywords, _RUN_OPTIONS, graph, values)
        if step:
            return self._debug(graph, Call(values, inputs, options))
        dispatcher = EventDispatcher(options.event_processors)
        tell_deaf(dispatcher)

        handover, give = self._outlet(options)

        async def deliver(event: Event) -> None:
            dispatcher.emit(event)
            await give(event)

        run = self._prepare(graph, values, inputs, options, EventObserver(deliver, values=dispatcher.values))
        return RunIterator(
            run, self._steps(run, dispatcher, handover), lambda: self._conclude(run, options.error_handling)
        )

    def _debug(self, graph: Graph, call: Call) -> RunDebugger:
        stepper = Stepper(self, graph, call)

        def begin() -> tuple[Run, Generator[NodeStop, None, None], Callable[[], RunResult]]:
            runner, (values, inputs, options) = cast("SyncRunner", stepper.runner), stepper.call
            handover, stepper.give = runner._outlet(options)
            run, dispatcher = runner._begin(graph, values, inputs, options)
            run.context.stepper, run.context.quick = stepper, False
            return (
                run,
                runner._steps(run, dispatcher, handover),
                lambda: runner._conclude(run, options.error_handling),
            )

        return RunDebugger(stepper, begin)

    @takes(BaseRunner.map, without=_ASYNC_ONLY)
    def map_iter(
        self,
        /,
        graph: Graph,
        values: Mapping[str, Any] | None = None,
        *,
        map_over: str | Sequence[str],
        **keywords: Any,
    ) -> Iterator[tuple[int, RunResult]]:
        """Run a graph once per item and yield (index, result) as items finish.

        Takes the parameters of `map` and raises the same errors, failures after the last item that ran.
        Leaving the loop early stops the map.
        """
        options, inputs = split_keywords({"map_over": map_over, **keywords}, _MAP_OPTIONS, graph, values)
        map_run, dispatcher = self._begin_map(graph, values, inputs, options)

        handover, give = self._outlet(options)

        async def publish(index: int, run: Run) -> None:
            await give((index, result_of(run)))

        map_run.publish = publish
        return MapIterator(
            self._steps(map_run, dispatcher, handover),
            lambda: self._conclude_map(map_run, options.error_handling),
        )

    @takes(BaseRunner.run, without=_ASYNC_ONLY)
    def start_run(
        self, /, graph: Graph, values: Mapping[str, Any] | None = None, **keywords: Any
    ) -> RunHandle[RunResult]:
        """Start a run in a thread of its own and return a handle. Takes the parameters of `run`.

        Errors found before a node runs are raised at once, all others by `handle.result()`.
        """
        options, inputs = split_keywords(keywords, _RUN_OPTIONS, graph, values)
        run, dispatcher = self._begin(graph, values, inputs, options)
        beginning, line = Beginning(run), calling_line()

        def work() -> RunResult:
            CALLED_AT.set(line)
            with beginning.watched():
                self._drive(run, dispatcher)
            return self._conclude(run, options.error_handling)

        future = in_thread(work)
        return RunHandle(run, future.done, future.result, beginning.reached.result)

    @takes(BaseRunner.map, without=_ASYNC_ONLY)
    def start_map(
        self,
        /,
        graph: Graph,
        values: Mapping[str, Any] | None = None,
        *,
        map_over: str | Sequence[str],
        **keywords: Any,
    ) -> MapHandle[MapResult]:
        """Start a map in a thread of its own and return a handle. Takes the parameters of `map`.

        Errors found before a node runs are raised at once, all others by `handle.result()`.
        """
        options, inputs = split_keywords({"map_over": map_over, **keywords}, _MAP_OPTIONS, graph, values)
        map_run, dispatcher = self._begin_map(graph, values, inputs, options)
        beginning, line = Beginning(map_run), calling_line()

        def work() -> MapResult:
            CALLED_AT.set(line)
            with beginning.watched():
                self._drive(map_run, dispatcher)
            return self._conclude_map(map_run, options.error_handling)

        future = in_thread(work)
        return MapHandle(map_run, future.done, future.result, beginning.reached.result)

    # -- the parts -------------------------------------------------------------------------------------

    def _kernel(self, graph: Graph, options: RunOptions) -> Kernel:
        executor = chosen_executor(self._executor, options.executor)
        return _KERNEL if executor is None else runners.kernel_for(executor, graph)

    def _observer(self, dispatcher: EventDispatcher) -> EventObserver:
        tell_deaf(dispatcher)
        return SyncObserver(dispatcher)

    def _drive(self, run: Run | MapRun, dispatcher: EventDispatcher | None) -> None:
        """Execute to the end in this thread."""
        live, context = self._live, run.context
        live.add(context)
        try:
            work = execute(run) if isinstance(run, Run) else run.execute()
            if context.kernel.executors is None:
                finish(work)
            else:
                runners.finish_on_loop(run, work)
        finally:
            live.discard(context)
            if dispatcher is not None:
                dispatcher.shutdown()

    def _outlet(self, options: RunOptions) -> tuple[Any, Callable[[Any], Awaitable[None]]]:
        """Return the handover from a run to its consumer, and the function that puts something into it."""
        if chosen_executor(self._executor, options.executor) is None:
            return None, hand_out
        handover: Any = runners.Handover()
        return handover, handover.give

    def _steps(
        self, run: Run | MapRun, dispatcher: EventDispatcher | None, handover: Any
    ) -> Generator[Any, None, None]:
        """Execute, and yield what the run publishes; closing the generator stops the run."""
        self._live.add(run.context)
        try:
            work = execute(run) if isinstance(run, Run) else run.execute()
            steps = work.__await__() if handover is None else runners.steps_on_loop(run, work, handover)
            yield from until_left(run, steps)
        finally:
            self._live.discard(run.context)
            if dispatcher is not None:
                dispatcher.shutdown()
