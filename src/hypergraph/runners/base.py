"""Base class of both runners."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hypergraph import durability
from hypergraph.cache import CacheBackend, NodeCache
from hypergraph.display import did_you_mean
from hypergraph.durability.options import NO_WISHES, Wishes
from hypergraph.engine.admission import Admission, admit, admit_nothing
from hypergraph.engine.execute import report
from hypergraph.engine.kernel import Kernel
from hypergraph.engine.nested import MapRun, expand
from hypergraph.engine.run import DEFAULT_LIMIT, CallContext, Run
from hypergraph.events.dispatcher import EventDispatcher
from hypergraph.exceptions import (
    IncompatibleRunnerError,
    InfiniteLoopError,
    MissingInputError,
    NodeError,
    annotate,
    attach_evidence,
    reraise,
)
from hypergraph.graph.graph import Graph
from hypergraph.nodes.graph_node import checked_clone
from hypergraph.records import RunStatus
from hypergraph.runners.observer import EventObserver
from hypergraph.runners.options import DEFAULTS, Options, checked, explained_runner, merged_inputs
from hypergraph.runs.build import map_result_of, result_of
from hypergraph.runs.results import MapResult, RunResult

if TYPE_CHECKING:
    from hypergraph.checkpointers.base import Checkpointer


def needs_interrupts(graph: Graph, why: str) -> IncompatibleRunnerError:
    """Return the error for a graph whose interrupts nobody could answer."""
    names = [node.name for node in graph.interrupt_nodes] or ["a nested graph"]
    return IncompatibleRunnerError(
        f"The graph has an InterruptNode ({', '.join(names)}), and {why}.", names[0], "supports_interrupts"
    )


def check_graph(graph: Graph, runner: str, can: RunnerCapabilities) -> None:
    """A1: refuse what a runner cannot run. Raises TypeError for what is no graph, IncompatibleRunnerError."""
    if not isinstance(graph, Graph):
        raise TypeError(f"A runner runs a Graph, got {type(graph).__name__}. Build one: Graph([node, ...]).")
    if not can.supports_async_nodes and graph.has_async_nodes:
        names = [node.name for node in graph.iter_nodes() if node.is_async]
        raise IncompatibleRunnerError(
            f"{runner} cannot run async nodes: {', '.join(names)}. Use AsyncRunner.",
            names[0],
            "supports_async_nodes",
        )
    if not can.supports_interrupts and graph.has_interrupts:
        raise needs_interrupts(graph, f"{runner} cannot pause; use AsyncRunner")


def check_mapped(graph: Graph, names: Sequence[str], given: Mapping[str, Any]) -> None:
    """Check the names to map over. Raises ValueError or MissingInputError."""
    if not names:
        raise ValueError("map_over needs at least one input name.")
    if len(set(names)) < len(names):
        raise ValueError(f"map_over names an input twice: {', '.join(names)}.")
    missing = [name for name in names if name not in given]
    if missing:
        hint = did_you_mean(missing[0], given) or "How to fix: pass a list for it in `values`."
        raise MissingInputError(
            f"map_over names {', '.join(map(repr, missing))}, which was not given. "
            f"{hint} Inputs: {graph.inputs.all}",
            missing,
            sorted(given),
        )


def checked_executor(given: Any) -> Executor | Mapping[str, Executor] | None:
    """Return what was given as executor. Raises TypeError unless it is one, or a dict of them by node."""
    executors = list(given.values()) if isinstance(given, Mapping) else [] if given is None else [given]
    for executor in executors:
        if not isinstance(executor, Executor):
            raise TypeError(
                "executor must be a concurrent.futures.Executor or a dict from node names to such, "
                f"got {type(executor).__name__}"
            )
    return dict(given) if isinstance(given, Mapping) else given


def chosen_executor(own: Any, given: Any) -> Executor | Mapping[str, Executor] | None:
    """Return who calls the nodes of a call: the executor it was given (`{}`: nobody else), or its runner's.

    Raises TypeError for what is no executor.
    """
    return own if given is None else checked_executor(given) or None


_NOTHING: dict[Any, Any] = {}
_USUAL = (DEFAULTS.select, DEFAULTS.entrypoint, DEFAULTS.on_internal_override)


@dataclass(frozen=True)
class RunnerCapabilities:
    """What a runner can do with a graph."""

    supports_cycles: bool = True  # graphs with loops
    supports_async_nodes: bool = False  # async functions
    supports_streaming: bool = False  # streamed values; never, chunks are events
    returns_coroutine: bool = False  # whether run and map must be awaited
    supports_interrupts: bool = False  # runs that pause
    supports_checkpointing: bool = False  # whether it has a store


@explained_runner
class BaseRunner(ABC):
    """Run graphs; abstract. Both runners drive the same engine and differ in how they wait."""

    def __init__(
        self,
        cache: CacheBackend | None = None,
        checkpointer: Checkpointer | None = None,
        *,
        max_iterations: int | None = None,
        logger: logging.Logger | None = None,
        executor: Executor | Mapping[str, Executor] | None = None,
    ) -> None:
        if checkpointer is not None and not hasattr(checkpointer, "claim"):
            raise TypeError(f"checkpointer must be a Checkpointer, got {type(checkpointer).__name__}")
        self.checkpointer = checkpointer
        checked(Options(max_iterations=max_iterations))
        self._max_iterations = max_iterations or DEFAULT_LIMIT
        self._logger = logger
        self._cache = NodeCache(cache) if cache is not None else None
        self._executor = checked_executor(executor)
        self._live: set[CallContext] = set()

    @property
    @abstractmethod
    def capabilities(self) -> RunnerCapabilities:
        """What this runner can do."""

    @abstractmethod
    def run(self, graph: Graph, values: Mapping[str, Any] | None = None, **options: Any) -> Any:
        """Run a graph once."""

    @abstractmethod
    def map(
        self,
        graph: Graph,
        values: Mapping[str, Any] | None = None,
        *,
        map_over: str | Sequence[str],
        **options: Any,
    ) -> Any:
        """Run a graph once per item of the inputs named in `map_over`."""

    def stop(self, id: str, info: Any = None) -> bool:
        """Ask the live run with this run id or workflow id to stop; return whether there was one."""
        found = False
        for scope in list(self._live):
            root = scope.root
            if root is not None and id in (root.run_id, root.workflow_id):
                scope.stop(info)
                found = True
        return found

    # -- preparing -------------------------------------------------------------------------------------

    def _prepared_before(self, kernel: Kernel, graph: Graph, values: dict[str, Any]) -> Run | None:
        """Return the run of a call without options whose like was checked before, None if there was none."""
        if self.checkpointer is not None or self._executor is not None:
            return None
        try:
            admission = graph.memo["admissions"][self.__class__, tuple(values)]
        except (AttributeError, KeyError):
            return None
        scope = CallContext(kernel, self._cache, self._logger, self._max_iterations)
        run = scope.root = Run(scope, admission, values)
        return run

    def _kernel(self, graph: Graph, options: Options) -> Kernel:  # how to wait in a call about this graph
        raise NotImplementedError

    def _observer(self, dispatcher: EventDispatcher) -> EventObserver:  # what makes events for a dispatcher
        raise NotImplementedError

    def _begin(
        self, graph: Graph, values: Mapping[str, Any] | None, keywords: dict[str, Any], options: Options
    ) -> tuple[Run, EventDispatcher | None]:
        """Prepare a run for whoever listens."""
        dispatcher = dispatcher_for(options.event_processors)
        observer = self._observer(dispatcher) if dispatcher is not None else None
        return self._prepare(graph, values, keywords, options=options, observer=observer), dispatcher

    def _prepare(
        self,
        graph: Graph,
        values: Mapping[str, Any] | None,
        keywords: dict[str, Any],
        *,
        options: Options,
        observer: EventObserver | None,
    ) -> Run:
        """Check everything that can be checked, and return the run that is to be executed."""
        kernel, given = self._kernel(graph, options), merged_inputs(graph, values, keywords, options)
        recorder = self._recorder(graph, options)
        if recorder is not None:
            given = recorder.inputs_for(graph, options.workflow_id, given)
        admission = self._admit(graph, tuple(given), options)
        scope = self._scope(kernel, options, observer)
        scope.recorder = recorder
        run = scope.root = Run(scope, admission, given)
        if options is not DEFAULTS:
            run.run_id = options.run_id
            run.workflow_id = options.workflow_id
        return run

    def _recorder(self, graph: Graph, options: Options) -> Any:
        """Return who keeps the history of this call, None without a store. Raises ValueError."""
        if self.checkpointer is None:
            if options.wishes == NO_WISHES:
                return None
            listed = ", ".join(sorted(options.names_given().intersection(Wishes._fields)))
            raise ValueError(f"These options need a runner with a checkpointer: {listed}.")
        return durability.WorkflowRecorder(self.checkpointer, Wishes(*options.wishes), graph)

    def _begin_map(
        self,
        graph: Graph,
        values: Mapping[str, Any] | None,
        keywords: dict[str, Any],
        *,
        options: Options,
        map_over: str | Sequence[str],
        map_mode: str,
        clone: bool | list[str],
    ) -> tuple[MapRun, EventDispatcher | None]:
        """Prepare a map for whoever listens."""
        dispatcher = dispatcher_for(options.event_processors)
        observer = self._observer(dispatcher) if dispatcher is not None else None
        check_graph(graph, type(self).__name__, self.capabilities)
        if graph.has_interrupts:
            raise needs_interrupts(graph, "map cannot wait for answers: many items cannot share one")
        given = merged_inputs(graph, values, keywords, options)
        names = [map_over] if isinstance(map_over, str) else list(map_over)
        check_mapped(graph, names, given)
        items = expand(given, names, map_mode, checked_clone(clone, names, tuple(given)))
        refusal: Exception | None = None
        try:
            admission = self._admit(graph, tuple(given), options)
        except MissingInputError as error:
            if options.error_handling != "continue":
                raise
            admission, refusal = admit_nothing(graph), error  # F11: that is for every item to say
        scope = self._scope(self._kernel(graph, options), options, observer)
        scope.recorder = self._recorder(graph, options)
        map_run = scope.root = MapRun(
            scope,
            admission,
            items,
            map_over=names,
            mode=map_mode,
            keep_going=options.error_handling == "continue",
        )
        map_run.workflow_id, map_run.refusal = options.workflow_id, refusal
        return map_run, dispatcher if map_run.items else None  # no item: nothing begins, nothing is over

    def _admit(self, graph: Graph, names: tuple[str, ...], options: Options) -> Admission:
        plain = (
            options is DEFAULTS
            or (options.select, options.entrypoint, options.on_internal_override) == _USUAL
        )
        known = getattr(graph, "memo", _NOTHING).get("admissions", _NOTHING)
        admission: Admission | None = known.get((self.__class__, names)) if plain else None
        if admission is None:
            check_graph(graph, type(self).__name__, self.capabilities)
            admission = admit(graph, names, options.select, options.entrypoint, options.on_internal_override)
            if admission.notices:
                admission.warn(stacklevel=6)
            elif plain:
                graph.memo["admissions"][self.__class__, names] = admission
        return admission

    def _scope(self, kernel: Kernel, options: Options, observer: EventObserver | None) -> CallContext:
        scope = CallContext(kernel, self._cache, self._logger, options.max_iterations or self._max_iterations)
        if options is not DEFAULTS or observer is not None:
            scope.configure(observer, options.on_missing, options.timeout)
        return scope

    # -- concluding ------------------------------------------------------------------------------------

    def _conclude(self, run: Run, error_handling: str) -> RunResult:
        """Return the result, or raise what the run ended with."""
        result = result_of(run)
        if run.failure is None:
            if run.status is RunStatus.COMPLETED and not (run.fixed and run.scope.on_missing == "ignore"):
                report(run)
            return result
        error = run.error
        if isinstance(error, InfiniteLoopError):
            error.log = result.log
        if error_handling == "raise" and error is not None:
            annotate(error, _note(run, run.failure))
            reraise(error)
        return result

    def _conclude_map(self, map_run: MapRun, error_handling: str) -> MapResult:
        result = map_result_of(map_run)
        bad = map_run.ended_badly
        if bad is not None and bad.error is not None and error_handling == "raise":
            if bad.failure is not None:
                bad.failure.map_result = result
                attach_evidence(bad.error, bad.failure)
                annotate(bad.error, _note(bad, bad.failure))
            reraise(bad.error)
        for run in map_run.runs:
            if run is not None and run.status is RunStatus.COMPLETED:
                report(run)
        return result


def dispatcher_for(processors: Any) -> EventDispatcher | None:
    """Return a dispatcher for this call, None when nobody listens. Raises TypeError for wrong processors."""
    if processors is None:
        return None
    dispatcher = EventDispatcher(processors)
    return dispatcher if dispatcher.active else None


def _note(run: Run, failure: NodeError) -> str:
    item = "" if failure.item_index is None else f", map item {failure.item_index}"
    where = f"node {failure.node_name!r}, superstep {failure.superstep}{item}, run {run.run_id}"
    return f"graph {run.graph_name or 'unnamed'!r}, {where}; inputs and state: NodeError.of(exception)"
