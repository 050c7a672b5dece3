"""SyncRunner: plain calls, one node after another, no event loop."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from hypergraph.engine.execute import execute
from hypergraph.engine.kernels import SyncKernel, finish, hand_out
from hypergraph.engine.nested import MapRun
from hypergraph.engine.run import Run
from hypergraph.events.dispatcher import EventDispatcher
from hypergraph.events.processor import EventProcessor
from hypergraph.events.types import Event
from hypergraph.graph.graph import Graph
from hypergraph.plan.admission import UNSET
from hypergraph.runners.base import BaseRunner, RunnerCapabilities, dispatcher_for
from hypergraph.runners.handles import MapHandle, RunHandle
from hypergraph.runners.observe import EventObserver, SyncObserver
from hypergraph.runners.options import ErrorHandling, options_of, split_options
from hypergraph.runs.build import result_of
from hypergraph.runs.results import MapResult
from hypergraph.runs.run_result import RunResult

_KERNEL = SyncKernel()
_CAPABILITIES = RunnerCapabilities()


class SyncRunner(BaseRunner):
    """Run graphs of sync nodes in the calling thread.

    Raises ValueError for a max_iterations that is not a positive int, TypeError for a cache that is none.
    """

    @property
    def capabilities(self) -> RunnerCapabilities:
        """What this runner can do: cycles; no async nodes and no interrupts."""
        return _CAPABILITIES

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
        **input_values: Any,
    ) -> RunResult:
        """Run a graph once and return its result.

        Raises what a node raised (with `error_handling="raise"`), MissingInputError, IncompatibleRunnerError,
        GraphConfigError or ValueError for a call that cannot work, CancellationError when stopped,
        InfiniteLoopError for a loop that does not end.
        """
        options = options_of(
            (select, on_missing, on_internal_override, entrypoint, max_iterations, None, error_handling, event_processors, timeout, run_id, workflow_id)
        )
        dispatcher = dispatcher_for(event_processors)
        observer = SyncObserver(dispatcher) if dispatcher is not None else None
        run = self._prepare(_KERNEL, graph, values, input_values, options, observer)
        self._drive(run, dispatcher)
        return self._conclude(run, error_handling)

    def map(
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
        error_handling: ErrorHandling = "raise",
        event_processors: Sequence[EventProcessor] | None = None,
        timeout: float | None = None,
        workflow_id: str | None = None,
        **input_values: Any,
    ) -> MapResult:
        """Run a graph once per item and return all results.

        Raises what `run` raises, and ValueError for lists of unequal lengths.
        """
        options = options_of(
            (select, on_missing, on_internal_override, entrypoint, max_iterations, None, error_handling, event_processors, timeout, None, workflow_id)
        )
        dispatcher = dispatcher_for(event_processors)
        observer = SyncObserver(dispatcher) if dispatcher is not None else None
        map_run = self._prepare_map(
            _KERNEL, graph, values, input_values, options, observer, map_over, map_mode, clone
        )
        self._drive(map_run, dispatcher)
        return self._conclude_map(map_run, error_handling)

    def iter(self, graph: Graph, values: Mapping[str, Any] | None = None, **options: Any) -> RunIterator:
        """Run a graph and iterate over its events; `.result` holds the result after the last one.

        Takes the options of `run` and raises what it raises. Leaving the loop early stops the run.
        """
        given, keywords = split_options(options)
        dispatcher = EventDispatcher(given.event_processors)

        async def deliver(event: Event) -> None:
            dispatcher.emit(event)
            await hand_out(event)

        run = self._prepare(_KERNEL, graph, values, keywords, given, EventObserver(deliver))
        return RunIterator(self, run, dispatcher, given.error_handling)

    def map_iter(
        self,
        graph: Graph,
        values: Mapping[str, Any] | None = None,
        *,
        map_over: str | Sequence[str],
        map_mode: Literal["zip", "product"] = "zip",
        clone: bool | Sequence[str] = False,
        **options: Any,
    ) -> Iterator[tuple[int, RunResult]]:
        """Run a graph once per item and yield (index, result) as items finish.

        Takes the options of `map` and raises what it raises, failures after the last item that ran.
        """
        given, keywords = split_options(options)
        dispatcher = dispatcher_for(given.event_processors)
        observer = SyncObserver(dispatcher) if dispatcher is not None else None
        map_run = self._prepare_map(_KERNEL, graph, values, keywords, given, observer, map_over, map_mode, clone)

        async def publish(index: int, run: Run) -> None:
            await hand_out((index, result_of(run)))

        map_run.publish = publish
        return self._items(map_run, dispatcher, given.error_handling)

    def _items(
        self, map_run: MapRun, dispatcher: EventDispatcher | None, error_handling: str
    ) -> Iterator[tuple[int, RunResult]]:
        steps = self._steps(map_run, dispatcher)
        try:
            for item in steps:  # noqa: UP028 - closing a `yield from` would tear the run down, not stop it
                yield item
        except GeneratorExit:
            map_run.scope.stop()
            for _ in steps:
                pass
            raise
        self._conclude_map(map_run, error_handling)

    def start_run(self, graph: Graph, values: Mapping[str, Any] | None = None, **options: Any) -> RunHandle:
        """Start a run in a thread of its own and return a handle. Takes the options of `run`."""
        given, keywords = split_options(options)
        dispatcher = dispatcher_for(given.event_processors)
        observer = SyncObserver(dispatcher) if dispatcher is not None else None
        run = self._prepare(_KERNEL, graph, values, keywords, given, observer)
        return RunHandle(run, lambda: self._drive(run, dispatcher), lambda: self._conclude(run, given.error_handling))

    def start_map(
        self,
        graph: Graph,
        values: Mapping[str, Any] | None = None,
        *,
        map_over: str | Sequence[str],
        map_mode: Literal["zip", "product"] = "zip",
        clone: bool | Sequence[str] = False,
        **options: Any,
    ) -> MapHandle:
        """Start a map in a thread of its own and return a handle. Takes the options of `map`."""
        given, keywords = split_options(options)
        dispatcher = dispatcher_for(given.event_processors)
        observer = SyncObserver(dispatcher) if dispatcher is not None else None
        map_run = self._prepare_map(_KERNEL, graph, values, keywords, given, observer, map_over, map_mode, clone)
        return MapHandle(
            map_run,
            lambda: self._drive(map_run, dispatcher),
            lambda: self._conclude_map(map_run, given.error_handling),
        )

    def _drive(self, run: Run | MapRun, dispatcher: EventDispatcher | None) -> None:
        """Execute to the end in this thread."""
        live, scope = self._live, run.scope
        live.add(scope)
        try:
            finish(execute(run) if isinstance(run, Run) else run.execute())
        finally:
            live.discard(scope)
            if dispatcher is not None:
                dispatcher.shutdown()

    def _steps(self, run: Run | MapRun, dispatcher: EventDispatcher | None) -> Iterator[Any]:
        """Execute, handing out on the way what the run publishes."""
        self._live.add(run.scope)
        try:
            yield from (execute(run) if isinstance(run, Run) else run.execute()).__await__()
        finally:
            self._live.discard(run.scope)
            if dispatcher is not None:
                dispatcher.shutdown()


class RunIterator:
    """The events of a run, one after another; the run goes on only as far as somebody asks for the next."""

    def __init__(self, runner: SyncRunner, run: Run, dispatcher: EventDispatcher, error_handling: str) -> None:
        self._run = run
        self._steps = runner._steps(run, dispatcher)
        self._conclude = lambda: runner._conclude(run, error_handling)
        self._result: RunResult | None = None

    def __iter__(self) -> Iterator[Event]:
        try:
            for event in self._steps:  # noqa: UP028 - as in `map_iter`
                yield event
        except GeneratorExit:
            self.close()
            raise
        self._result = result_of(self._run)
        self._conclude()

    @property
    def run_id(self) -> str:
        """The id of the run."""
        return self._run.run_id

    @property
    def result(self) -> RunResult:
        """The result of the run. Raises RuntimeError while it is still under way."""
        if self._result is None:
            raise RuntimeError("The run is not over: iterate to the last event, or call close().")
        return self._result

    def close(self) -> None:
        """Stop the run and let it close properly."""
        if self._result is None:
            self._run.scope.stop("the iterator was closed")
            for _ in self._steps:
                pass
            self._result = result_of(self._run)
