"""SyncRunner: plain calls, one node after another, no event loop."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from hypergraph import runners
from hypergraph.engine.admission import UNSET
from hypergraph.engine.execute import execute
from hypergraph.engine.kernel import Kernel, SyncKernel, finish, hand_out
from hypergraph.engine.nested import MapRun
from hypergraph.engine.run import Run
from hypergraph.events.dispatcher import EventDispatcher
from hypergraph.events.processor import EventProcessor
from hypergraph.graph.graph import Graph
from hypergraph.runners.base import BaseRunner, RunnerCapabilities, chosen_executor
from hypergraph.runners.handles import MapHandle, RunHandle, RunIterator, in_thread, until_left
from hypergraph.runners.observer import EventObserver, SyncObserver
from hypergraph.runners.options import (
    DEFAULTS,
    ONLY_OF_MAPS,
    ONLY_OF_RUNS,
    ErrorHandling,
    Options,
    explained_call,
    explained_runner,
    options_of,
    split_options,
)
from hypergraph.runs.build import result_of
from hypergraph.runs.results import MapResult, RunResult

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from hypergraph.checkpointers.records import Checkpoint, StepRecord
    from hypergraph.events.types import Event

_KERNEL = SyncKernel()
_CAPABILITIES = RunnerCapabilities(supports_interrupts=True)
_FOREIGN = ONLY_OF_MAPS | {"max_concurrency"}  # options that only other calls have
_FOREIGN_TO_MAPS = ONLY_OF_RUNS | {"max_concurrency"}


@explained_runner
class SyncRunner(BaseRunner):
    """Run graphs of sync nodes in the calling thread.

    >>> double = FunctionNode(lambda number: 2 * number, "double", "twice")
    >>> SyncRunner().run(Graph([double]), number=4)["twice"]
    8
    >>> SyncRunner().map(Graph([double]), number=[1, 2], map_over="number")["twice"]
    [2, 4]

    With `executor=...` its nodes are called by that executor, what can run at the same time does, and only
    the calling thread waits. Raises ValueError for a max_iterations that is not a positive int, TypeError for
    a cache, a checkpointer or an executor that is none.
    """

    @property
    def capabilities(self) -> RunnerCapabilities:
        """What this runner can do: cycles; no async nodes and no interrupts."""
        return replace(_CAPABILITIES, supports_checkpointing=self.checkpointer is not None)

    @explained_call
    def run(
        self,
        graph: Graph,
        values: Mapping[str, Any] | None = None,
        *,
        select: Any = UNSET,
        on_missing: Literal["ignore", "warn", "error"] = "ignore",
        on_internal_override: Literal["warn", "ignore", "error"] = "warn",
        entrypoint: str | None = None,
        max_iterations: int | None = None,
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

        Raises what a node raised (with `error_handling="raise"`), MissingInputError, IncompatibleRunnerError,
        GraphConfigError or ValueError for a call that cannot work, CancellationError when stopped,
        InfiniteLoopError for a loop that does not end.
        """
        options = options_of((
            select, on_missing, on_internal_override, entrypoint, max_iterations, None,
            error_handling, event_processors, timeout, run_id, workflow_id, executor,
            (history, checkpoint, fork_from, code_change, new_turn, tags, wait, force, None),
        ))  # fmt: skip
        run = dispatcher = None
        if options is DEFAULTS and type(values) is dict and not input_values:  # as most calls are
            run = self._prepared_before(_KERNEL, graph, values)
        if run is None:
            run, dispatcher = self._begin(graph, values, input_values, options)
        self._drive(run, dispatcher)
        return self._conclude(run, error_handling)

    @explained_call
    def map(
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
        """Run a graph once per item and return all results.

        Raises what `run` raises, and ValueError for lists of unequal lengths.
        """
        options = options_of((
            select, on_missing, on_internal_override, entrypoint, max_iterations, None,
            error_handling, event_processors, timeout, None, workflow_id, executor,
            (None, None, None, code_change, False, tags, False, force, key),
        ))  # fmt: skip
        map_run, dispatcher = self._begin_map(
            graph, values, input_values, options=options, map_over=map_over, map_mode=map_mode, clone=clone
        )
        self._drive(map_run, dispatcher)
        return self._conclude_map(map_run, error_handling)

    def iter(self, graph: Graph, values: Mapping[str, Any] | None = None, **options: Any) -> RunIterator:
        """Run a graph and iterate over its events; `.result` holds the result after the last one.

        Takes the options of `run` and raises what it raises, failures after the last event. Leaving the loop
        early stops the run.
        """
        given, keywords = split_options(options, _FOREIGN)
        dispatcher = EventDispatcher(given.event_processors)

        handover, give = self._outlet(given)

        async def deliver(event: Event) -> None:
            dispatcher.emit(event)
            await give(event)

        run = self._prepare(graph, values, keywords, options=given, observer=EventObserver(deliver))
        return RunIterator(
            run, self._steps(run, dispatcher, handover), lambda: self._conclude(run, given.error_handling)
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
    ) -> Iterator[tuple[int, RunResult]]:
        """Run a graph once per item and yield (index, result) as items finish.

        Takes the options of `map` and raises what it raises, failures after the last item that ran. Leaving
        the loop early stops the map.
        """
        given, keywords = split_options(options, _FOREIGN_TO_MAPS)
        map_run, dispatcher = self._begin_map(
            graph, values, keywords, options=given, map_over=map_over, map_mode=map_mode, clone=clone
        )

        handover, give = self._outlet(given)

        async def publish(index: int, run: Run) -> None:
            await give((index, result_of(run)))

        def items() -> Iterator[tuple[int, RunResult]]:
            yield from until_left(map_run, self._steps(map_run, dispatcher, handover))
            self._conclude_map(map_run, given.error_handling)

        map_run.publish = publish
        return items()

    def start_run(
        self, graph: Graph, values: Mapping[str, Any] | None = None, **options: Any
    ) -> RunHandle[RunResult]:
        """Start a run in a thread of its own and return a handle. Takes the options of `run`.

        Raises at once what `run` raises before anything runs; the rest is raised by `handle.result()`.
        """
        given, keywords = split_options(options, _FOREIGN)
        run, dispatcher = self._begin(graph, values, keywords, given)

        def work() -> RunResult:
            self._drive(run, dispatcher)
            return self._conclude(run, given.error_handling)

        future = in_thread(work)
        return RunHandle(run, future.done, future.result)

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
    ) -> MapHandle[MapResult]:
        """Start a map in a thread of its own and return a handle. Takes the options of `map`.

        Raises at once what `map` raises before anything runs; the rest is raised by `handle.result()`.
        """
        given, keywords = split_options(options, _FOREIGN_TO_MAPS)
        map_run, dispatcher = self._begin_map(
            graph, values, keywords, options=given, map_over=map_over, map_mode=map_mode, clone=clone
        )

        def work() -> MapResult:
            self._drive(map_run, dispatcher)
            return self._conclude_map(map_run, given.error_handling)

        future = in_thread(work)
        return MapHandle(map_run, future.done, future.result)

    # -- the parts -------------------------------------------------------------------------------------

    def _kernel(self, graph: Graph, options: Options) -> Kernel:
        executor = chosen_executor(self._executor, options.executor)
        return _KERNEL if executor is None else runners.kernel_for(executor, graph)

    def _observer(self, dispatcher: EventDispatcher) -> EventObserver:
        return SyncObserver(dispatcher)

    def _drive(self, run: Run | MapRun, dispatcher: EventDispatcher | None) -> None:
        """Execute to the end in this thread."""
        live, scope = self._live, run.scope
        live.add(scope)
        try:
            work = execute(run) if isinstance(run, Run) else run.execute()
            if scope.kernel.places is None:
                finish(work)
            else:
                runners.finish_on_loop(run, work)
        finally:
            live.discard(scope)
            if dispatcher is not None:
                dispatcher.shutdown()

    def _outlet(self, options: Options) -> tuple[Any, Callable[[Any], Awaitable[None]]]:
        """Return what passes things from a run to its consumer, and how a run gives it something."""
        if chosen_executor(self._executor, options.executor) is None:
            return None, hand_out
        handover: Any = runners.Handover()
        return handover, handover.give

    def _steps(self, run: Run | MapRun, dispatcher: EventDispatcher | None, handover: Any) -> Iterator[Any]:
        """Execute, handing out on the way what the run publishes."""
        self._live.add(run.scope)
        try:
            work = execute(run) if isinstance(run, Run) else run.execute()
            yield from work.__await__() if handover is None else runners.steps_on_loop(run, work, handover)
        finally:
            self._live.discard(run.scope)
            if dispatcher is not None:
                dispatcher.shutdown()
