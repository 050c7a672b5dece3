"""Base class of the runners: the signatures of their calls, and what both do around the engine."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from os import PathLike
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from hypergraph import checkpointers, durability
from hypergraph.cache import CacheBackend, NodeCache
from hypergraph.display import did_you_mean
from hypergraph.durability.options import HISTORY_OPTIONS
from hypergraph.engine.admission import (
    UNSET,
    Admission,
    admit,
    admit_nothing,
    check_answers,
    refuse_undecodable,
    split_answers,
    transactional_node,
)
from hypergraph.engine.execute import report
from hypergraph.engine.kernel import Kernel
from hypergraph.engine.nested import MapRun, expand, report_map
from hypergraph.engine.options import DEFAULTS, RunOptions
from hypergraph.engine.run import DEFAULT_LIMIT, CallContext, Run
from hypergraph.events.dispatcher import EventDispatcher
from hypergraph.events.processor import EventProcessor
from hypergraph.exceptions import (
    CheckpointError,
    IncompatibleRunnerError,
    InfiniteLoopError,
    MissingInputError,
    NodeError,
    annotate,
    attach_evidence,
    reraise,
    warn_caller,
)
from hypergraph.graph.formerly import has_former_names, recorded_as
from hypergraph.graph.graph import Graph
from hypergraph.nodes.graph_node import checked_clone
from hypergraph.nodes.names import got
from hypergraph.records import RunStatus
from hypergraph.runners.observer import EventObserver
from hypergraph.runners.options import (
    ErrorHandling,
    check_max_iterations,
    checked_services,
    merged_inputs,
    refuse_misspelt_options,
)
from hypergraph.runs.build import map_result_of, result_of
from hypergraph.runs.results import MapResult, RunResult
from hypergraph.values.undecodable import OPEN_OTHERWISE, Undecodable, may_exist

if TYPE_CHECKING:
    from hypergraph.checkpointers.base import Checkpointer
    from hypergraph.checkpointers.records import Checkpoint, StepRecord
    from hypergraph.durability.recorder import WorkflowRecorder

_NOTHING: dict[Any, Any] = {}
# Returns what has nested runs of a call executed by other workers, None if none are to be.
Sender = Callable[[], Callable[[Sequence[Run]], list[Run]] | None]


@dataclass(frozen=True)
class RunnerCapabilities:
    """What a runner can do with a graph."""

    supports_cycles: bool = True  # graphs with loops
    supports_async_nodes: bool = False  # async functions
    supports_streaming: bool = False  # streamed values; never, chunks are events
    returns_coroutine: bool = False  # whether run and map must be awaited
    supports_interrupts: bool = False  # runs that pause
    supports_checkpointing: bool = False  # whether it has a store


# The graph and options of a run under the names it is stored with, its inputs, and its recorder.
_Known = tuple[Graph, RunOptions, Mapping[str, Any], "WorkflowRecorder | None"]


class BaseRunner(ABC):
    """Run graphs; abstract. Both runners drive the same engine and differ in how they wait.

    Args:
        cache: where nodes with cache=True find results
        checkpointer: the store that records every run, or the path of a SQLite file
        max_iterations: rounds that a loop may take each time it is entered; 1000 by default
        logger: the logger that nodes get as NodeContext.logger
        executor: what calls the nodes: an Executor, or a dict from node names to executors
        services: clients and other objects for nodes, by name: NodeContext.service; never stored
    """

    checkpointer: Checkpointer | None  # the store that records every run

    def __init__(
        self,
        cache: CacheBackend | None = None,
        checkpointer: Checkpointer | str | PathLike[str] | None = None,
        *,
        max_iterations: int | None = None,
        logger: logging.Logger | None = None,
        executor: Executor | Mapping[str, Executor] | None = None,
        services: Mapping[str, Any] | None = None,
    ) -> None:
        checkpointer = _store_of(type(self).__name__, checkpointer)
        if cache is not None and (hasattr(cache, "save_step") or isinstance(cache, (str, PathLike))):
            found = f"the store {type(cache).__name__}" if hasattr(cache, "save_step") else repr(cache)
            raise TypeError(
                f"cache must have get(key) and set(key, value), got {found}. "
                f"Write {type(self).__name__}(checkpointer=...) to record runs."
            )
        self.checkpointer = checkpointer
        if max_iterations is not None:
            check_max_iterations(max_iterations)
        self._max_iterations = max_iterations or DEFAULT_LIMIT
        self._logger = logger
        self._cache = NodeCache(cache) if cache is not None else None
        self._executor = checked_executor(executor)
        self._services = {} if services is None else checked_services(services)
        self._live: set[CallContext] = set()
        self._sender: Sender | None = None  # of a worker, for graphs that other workers may run
        self._leaves_map: Callable[[], bool] | None = None  # of a worker: whether it settles the map itself

    @property
    @abstractmethod
    def capabilities(self) -> RunnerCapabilities:
        """What this runner can do."""

    @abstractmethod
    def run(
        self,
        /,
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
        services: Mapping[str, Any] | None = None,
        budget: Mapping[str, float] | None = None,
        history: Sequence[StepRecord] | None = None,
        checkpoint: Checkpoint | None = None,
        fork_from: tuple[str, int | None] | None = None,
        code_change: Literal["keep", "rerun", "error"] = "keep",
        new_turn: bool | Literal["if-completed"] = False,
        keep_steps: bool = False,
        restart: Literal["node", "item"] | None = None,
        tags: Mapping[str, str] | None = None,
        wait: bool = False,
        force: bool = False,
        **input_values: Any,
    ) -> Any:
        """Run a graph once and return its RunResult; under AsyncRunner a coroutine.

        >>> count = FunctionNode(lambda words: len(words), "count", "total")
        >>> SyncRunner().run(Graph([count]), words=["a", "b"])["total"]
        2

        The parameters that most calls need come first in this list.

        Args:
            graph: the graph to run
            values: inputs by name; other keywords are inputs too, unless they have the name of an option
            workflow_id: the id of the stored run; an existing one is resumed. Needs a checkpointer
            error_handling: "raise" the exception of a node, or "continue" and return a failed result
            select: the outputs to return: a name, a list, "**" for all; by default what the graph selects
            max_concurrency: how many node functions run at a time, nested graphs and map items included;
                AsyncRunner only
            event_processors: event processors for this call
            timeout: seconds for the whole call before RunTimeoutError
            max_iterations: rounds that a loop may take each time it is entered before InfiniteLoopError
            entrypoint: the node at which a cycle starts, if there are several possible ones
            tags: labels of the stored run
            fork_from: a workflow id and a superstep (None for the last) to start from
            checkpoint: recorded values and steps to start from
            history: recorded steps to start from, as in Checkpoint.steps
            keep_steps: with fork_from, keep recorded inner steps of nodes that the fork runs again
            services: clients and other objects for nodes, by name: NodeContext.service; never stored
            budget: how much of what nodes record the workflow may use, as in {"cost": 1.0}; then
                BudgetExceededError
            restart: run failed items of maps inside again, also if their map has completed: from the "node"
                that failed, or as new "item"s; what read their list runs again
            new_turn: count given values as new even if they equal the stored ones; "if-completed" does so,
                and raises WorkflowError, before anything is written, unless the last turn has completed
            code_change: what to do if the code has changed since it was recorded: "keep" the results,
                "rerun" the changed nodes, or raise an "error"
            wait: if another run owns the workflow, wait for it, and do then what the call does: return its
                result, or run a turn with values that are new
            force: take over even if another process owns the workflow, or after repeated crashes
            on_missing: what to do if a selected output was not produced: "ignore", "warn" or "error"
            on_internal_override: what to do about values for outputs of nodes, or for unknown names:
                "warn", "ignore" or "error"
            executor: what calls the nodes in this call instead of the runner's executor; {} for none
            run_id: the id of the run; by default "run-" and 12 hex characters

        Raises:
            Exception: whatever a node raised, unless `error_handling="continue"`.
            MissingInputError: a required input was not given.
            IncompatibleRunnerError: this runner cannot run the graph.
            GraphConfigError: `select` or the graph's `wait_for` cannot work.
            ValueError: an option or an input is wrong.
            CancellationError: the run was stopped, took longer than `timeout`, or used up its `budget`.
            InfiniteLoopError: a loop did not end.
            CheckpointError: the store failed, or another process owns the workflow.
        """

    @abstractmethod
    def map(
        self,
        /,
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
        services: Mapping[str, Any] | None = None,
        budget: Mapping[str, float] | None = None,
        code_change: Literal["keep", "rerun", "error"] = "keep",
        key: str | Sequence[str] | Callable[[dict[str, Any]], Any] | None = None,
        restart: Literal["node", "item"] | None = None,
        tags: Mapping[str, str] | None = None,
        force: bool = False,
        **input_values: Any,
    ) -> Any:
        """Run a graph once per item and return a MapResult; under AsyncRunner a coroutine.

        >>> count = FunctionNode(lambda words: len(words), "count", "total")
        >>> results = SyncRunner().map(Graph([count]), words=[["a"], ["b", "c"]], map_over="words")
        >>> [result["total"] for result in results]
        [1, 2]

        Args:
            graph: the graph to run
            values: inputs by name; other keywords are inputs too, unless they have the name of an option
            map_over: the inputs that hold one value per item: a name or a list of names
            map_mode: "zip" combines items side by side, "product" in all combinations
            clone: deep-copy the other values for each item: True, or a list of names
            select: the outputs to return: a name, a list, "**" for all; by default what the graph selects
            on_missing: what to do if a selected output was not produced: "ignore", "warn" or "error"
            on_internal_override: what to do about values for outputs of nodes, or for unknown names:
                "warn", "ignore" or "error"
            entrypoint: the node at which a cycle starts, if there are several possible ones
            max_iterations: rounds that a loop may take each time it is entered before InfiniteLoopError
            max_concurrency: how many node functions run at a time, nested graphs and map items included;
                AsyncRunner only
            error_handling: "raise" the exception of a node, or "continue" and return failed results
            event_processors: event processors for this call
            timeout: seconds for the whole call before RunTimeoutError
            workflow_id: the id of the stored map; an existing one is resumed. Needs a checkpointer
            executor: what calls the nodes in this call instead of the runner's executor; {} for none
            services: clients and other objects for nodes, by name: NodeContext.service; never stored
            budget: how much of what nodes record all items together may use, as in {"cost": 1.0}; then
                BudgetExceededError
            code_change: what to do if the code has changed since it was recorded: "keep" the results,
                "rerun" the changed nodes, or raise an "error"
            key: how to identify a stored item: the name of an input, a list of names, or a function of the
                item's inputs that gives a text, an int or a path; by default its position
            restart: where items that failed before begin: at the "node" that failed (default), or as new
                "item"s; if it is given, failed items of maps inside of other items run again, too
            tags: labels of the stored map
            force: take over even if another process owns the map, or after repeated crashes

        Raises:
            ValueError: lists of unequal lengths, too many items without `max_concurrency`, or what `run`
                raises it for.
            Exception: the other errors of `run`.
        """

    def stop(self, id: str, info: Any = None) -> bool:
        """Ask the live run with this run id or workflow id to stop; return whether there was one.

        It stops before its next node. A run of another process is stopped by `store.cancel`.
        """
        found = False
        for context in list(self._live):
            root = context.root
            if root is not None and id in (root.run_id, root.workflow_id):
                context.stop(info)
                found = True
        return found

    # -- preparing -------------------------------------------------------------------------------------

    def _kernel(self, graph: Graph, options: RunOptions) -> Kernel:
        """Return how to wait in a call about this graph."""
        raise NotImplementedError

    def _observer(self, dispatcher: EventDispatcher) -> EventObserver:
        """Return what makes events for a dispatcher."""
        raise NotImplementedError

    def _begin(
        self,
        graph: Graph,
        values: Mapping[str, Any] | None,
        inputs: dict[str, Any],
        options: RunOptions,
        known: _Known | None = None,
    ) -> tuple[Run, EventDispatcher | None]:
        """Prepare a run, and a dispatcher if there are event processors."""
        dispatcher = dispatcher_for(options.event_processors)
        observer = self._observer(dispatcher) if dispatcher is not None else None
        return self._prepare(graph, values, inputs, options, observer, known=known), dispatcher

    def _prepare(
        self,
        graph: Graph,
        values: Mapping[str, Any] | None,
        inputs: dict[str, Any],
        options: RunOptions,
        observer: EventObserver | None,
        *,
        known: _Known | None = None,
    ) -> Run:
        """Check everything that can be checked before a node runs, and return the run to execute."""
        graph, options, given, recorder = known or self._known(graph, values, inputs, options)
        kernel = self._kernel(graph, options)
        try:
            admission = self._admit(graph, tuple(given), inputs, options)
        except MissingInputError as error:
            if recorder is None or (why := recorder.nothing_stored()) is None:
                raise
            text, fix, how = str(error).partition("\nHow to fix:")
            raise MissingInputError(f"{text}\n-> {why}{fix}{how}", error.missing, error.provided) from None
        if recorder is None or not recorder.has_history:  # else the values are those of a turn, or edits
            admission.refuse_unused()
        context = self._context(kernel, options, observer, recorder)
        if observer is not None:
            observer.renaming = graph.renaming
        run = context.root = Run(context, admission, given)
        if options is not DEFAULTS:
            run.run_id = options.run_id
            run.workflow_id = options.workflow_id
        return run

    def _known(
        self, graph: Graph, values: Mapping[str, Any] | None, inputs: dict[str, Any], options: RunOptions
    ) -> _Known:
        """Return what a run begins with: its inputs are those given and those stored; reads the store."""
        given = merged_inputs(graph, values, inputs, options)
        graph, options, given = self._as_recorded(graph, options, given)
        if isinstance(graph, Graph) and graph.has_interrupts:
            check_answers(graph, given)
        recorder = self._recorder(graph, options)
        if recorder is not None:
            given = recorder.inputs_for(graph, options.workflow_id, given)
        if may_exist():
            refuse_undecodable(given, inside_only=recorder is not None and recorder.has_history)
        return graph, options, given, recorder

    def _as_recorded(
        self, graph: Graph, options: RunOptions, given: Mapping[str, Any]
    ) -> tuple[Graph, RunOptions, Mapping[str, Any]]:
        """Return graph, options and inputs under the names of the stored run that a call continues."""
        store = self.checkpointer
        if store is None or not isinstance(graph, Graph) or not has_former_names(graph):
            return graph, options, given
        try:
            named = recorded_as(graph, durability.structure_before(store, options))
        except CheckpointError:
            if isinstance(store, checkpointers.Checkpointer) and store.policy.durability == "best-effort":
                return graph, options, given  # nothing is known of the workflow
            raise
        if named.renaming is None:
            return graph, options, given
        names, more = named.renaming, dict(vars(options))
        for option in ("select", "map_over", "clone", "key"):
            if option in more:
                more[option] = _renamed(more[option], names.recorded)
        if callable(key := options.key):
            more["key"] = lambda item: key(names.named(item))
        if options.entrypoint is not None:
            more["entrypoint"] = names.recorded_node(options.entrypoint)
        executor = self._executor if options.executor is None else options.executor
        if isinstance(executor, Mapping):
            more["executor"] = {names.recorded_node(node): one for node, one in executor.items()}
        return named, RunOptions(**more), names.recorded_inputs(given)

    def _prepared_before(self, kernel: Kernel, graph: Graph, given: Mapping[str, Any]) -> Run | None:
        """Return the run of a call without options, if a call with the same names was admitted before."""
        if self.checkpointer is not None or self._executor is not None or type(given) is not dict:
            return None
        if self._services:
            return None
        try:
            admission = graph.memo["admissions"][self.__class__, tuple(given)]
        except (AttributeError, KeyError):
            return None
        if admission.answers:
            check_answers(graph, given)
        if may_exist():
            refuse_undecodable(given)
        context = CallContext(kernel, self._cache, self._logger, self._max_iterations)
        run = context.root = Run(context, admission, given)
        return run

    def _begin_map(
        self, graph: Graph, values: Mapping[str, Any] | None, inputs: dict[str, Any], options: RunOptions
    ) -> tuple[MapRun, EventDispatcher | None]:
        """Prepare a map, and a dispatcher if there are event processors."""
        dispatcher = dispatcher_for(options.event_processors)
        observer = self._observer(dispatcher) if dispatcher is not None else None
        check_graph(graph, type(self).__name__, self.capabilities)
        merged = merged_inputs(graph, values, inputs, options)
        graph, options, merged = self._as_recorded(graph, options, merged)
        if observer is not None:
            observer.renaming = graph.renaming
        answers, given = split_answers(graph, merged)
        if not isinstance(options.map_over, str | Sequence):
            raise TypeError(f"map_over must be a name or a list of names, got {got(options.map_over)}")
        names = [options.map_over] if isinstance(options.map_over, str) else list(options.map_over)
        check_mapped(graph, names, given)
        if graph.has_interrupts:
            check_answers(graph, given, names)
            for own in answers.values():
                check_answers(graph, own)
        items = expand(given, names, options.map_mode, checked_clone(options.clone, names, tuple(given)))
        refusal: Exception | None = None
        try:
            admission = self._admit(graph, tuple(given), inputs, options)
            admission.refuse_unused()
        except MissingInputError as error:
            if options.error_handling != "continue":
                raise
            admission, refusal = admit_nothing(graph), error  # F11: every item reports it
        recorder = self._recorder(graph, options)
        if may_exist():
            is_new = recorder is None  # else a stored item may be given back as it was read
            refuse_undecodable({n: v for n, v in given.items() if n not in names}, inside_only=not is_new)
            for item in items:
                refuse_undecodable({name: item[name] for name in names}, inside_only=not is_new)
        context = self._context(self._kernel(graph, options), options, observer, recorder)
        map_run = context.root = MapRun(
            context,
            admission,
            items,
            map_over=names,
            mode=options.map_mode,
            keep_going=options.error_handling == "continue",
        )
        map_run.workflow_id, map_run.refusal, map_run.answers = options.workflow_id, refusal, answers
        return map_run, dispatcher if map_run.items else None  # a map of no items has no events

    def _admit(
        self, graph: Graph, names: tuple[str, ...], inputs: dict[str, Any], options: RunOptions
    ) -> Admission:
        """Check the names of the inputs against the graph; what was admitted before is remembered."""
        plain = options is DEFAULTS or _SELECTING.isdisjoint(vars(options))
        known = getattr(graph, "memo", _NOTHING).get("admissions", _NOTHING)
        admission: Admission | None = known.get((self.__class__, names)) if plain else None
        if admission is None:
            check_graph(graph, type(self).__name__, self.capabilities)
            admission = admit(graph, names, options.select, options.entrypoint, options.on_internal_override)
            if admission.notices:
                refuse_misspelt_options(graph, inputs, RUN_OPTIONS | MAP_OPTIONS)
                admission.warn()
            elif (
                plain and admission.unused is None and transactional_node(graph) is None
            ):  # checked by each call
                graph.memo["admissions"][self.__class__, names] = admission
        return admission

    def _recorder(self, graph: Graph, options: RunOptions) -> WorkflowRecorder | None:
        """Return what records this call, None without a store. Raises ValueError if an option needs one."""
        if self.checkpointer is not None:
            recorder: WorkflowRecorder = durability.WorkflowRecorder(self.checkpointer, options, graph)
            recorder.may_be_inner = self._sender is not None
            recorder.leaves_map = self._leaves_map is not None and self._leaves_map()
            return recorder
        if isinstance(graph, Graph) and (name := transactional_node(graph)) is not None:
            raise ValueError(
                f"Node {name!r} has transaction=True, and this runner has no store to commit it in: "
                f"{type(self).__name__}(checkpointer='runs.db')."
            )
        if not _NEEDS_STORE.isdisjoint(vars(options)):
            unmet = sorted(_NEEDS_STORE.intersection(vars(options)))
            raise ValueError(
                f"{', '.join(unmet)} {'needs' if len(unmet) == 1 else 'need'} a runner with a checkpointer: "
                f"{type(self).__name__}(checkpointer='runs.db')."
            )
        return None

    def _context(
        self,
        kernel: Kernel,
        options: RunOptions,
        observer: EventObserver | None,
        recorder: WorkflowRecorder | None,
    ) -> CallContext:
        limit = options.max_iterations or self._max_iterations
        context = CallContext(kernel, self._cache, self._logger, limit)
        if options is not DEFAULTS or observer is not None:
            context.configure(observer, options)
        if self._services or options.services is not None:
            context.services = MappingProxyType({**self._services, **(options.services or {})})
        context.recorder = recorder
        if self._sender is not None:
            context.send = self._sender()
        return context

    # -- concluding ------------------------------------------------------------------------------------

    def _conclude(self, run: Run, error_handling: str) -> RunResult:
        """Return the result, or raise what the run ended with."""
        if run.resumed is not None and run.status is RunStatus.COMPLETED:
            run.values |= {n: why for n, why in run.resumed.unreadable.items() if n not in run.values}
        result = result_of(run)
        if run.context.budget is not None:
            run.context.check_budget()
        if run.failure is None:
            if not run.fixed or run.context.options.on_missing != "ignore" or run.lists.dropped:
                report(run)
            return result
        if run.admission.answers:
            report(run)
        error = run.error
        if isinstance(error, InfiniteLoopError):
            error.log = result.log
        if error_handling == "raise" and error is not None:
            annotate(error, _note(run, run.failure))
            reraise(error)
        return result

    def _conclude_map(self, map_run: MapRun, error_handling: str) -> MapResult:
        if may_exist():
            _tell_unreadable(map_run)
        result = map_result_of(map_run)
        if map_run.context.budget is not None:
            map_run.context.check_budget()
        bad = map_run.ended_badly
        is_raised = bad is not None and bad.error is not None and error_handling == "raise"
        lacking = report_map(map_run, answers_only=is_raised)
        if bad is not None and bad.error is not None and is_raised:
            if bad.failure is not None:
                bad.failure.map_result = result
                attach_evidence(bad.error, bad.failure)
                annotate(bad.error, _note(bad, bad.failure))
            reraise(bad.error)
        if lacking and error_handling == "raise":
            raise next(iter(lacking.values()))
        for index, error in lacking.items():  # with "continue" every item has a result
            result[index].status, result[index].error = RunStatus.FAILED, error
        return result


def _tell_unreadable(map_run: MapRun) -> None:
    """Warn once of items whose results cannot be read: their results have an Undecodable in place of each."""
    found: dict[int, dict[str, Undecodable]] = {}
    for index, run in enumerate(map_run.runs):
        if run is None or run.resumed is None or run.status is not RunStatus.COMPLETED:
            continue
        run.values |= {n: why for n, why in run.resumed.unreadable.items() if n not in run.values}
        results = {name: run.values.get(name) for name in run.admission.returns}
        unread = {name: value for name, value in results.items() if isinstance(value, Undecodable)}
        if unread:
            found[index] = unread
    if not found:
        return
    index, unread = next(iter(found.items()))
    name, value = next(iter(unread.items()))
    place = f"{map_run.workflow_id}/item-{map_run.number_of(index)}"
    if value.is_foreign:
        remedy = OPEN_OTHERWISE
    elif value.classes:
        remedy = "make the class known"
    else:
        remedy = f"delete these items, as with hypergraph rm {place}, and map again: that runs them again"
    warn_caller(
        f"Results of {len(found)} of {len(map_run.items)} items of {map_run.workflow_id!r} cannot be read, "
        f"and an Undecodable is in their place: {name!r} of {place!r}: {value.reason.rstrip('.')}.\n"
        f"How to fix: {remedy}."
    )


def _renamed(given: Any, rename: Callable[[str], str]) -> Any:
    """Return an option that holds one name, or several, under other names."""
    if isinstance(given, str):
        return rename(given)
    if isinstance(given, (list, tuple)):
        return [rename(name) if isinstance(name, str) else name for name in given]
    return given


def dispatcher_for(processors: Any) -> EventDispatcher | None:
    """Return a dispatcher, None without processors. Raises TypeError for wrong processors."""
    if processors is None:
        return None
    dispatcher = EventDispatcher(processors)
    return dispatcher if dispatcher.active else None


def _note(run: Run, failure: NodeError) -> str:
    item = "" if failure.item_index is None else f", map item {failure.item_index}"
    where = f"node {failure.node_name!r}, superstep {failure.superstep}{item}, run {run.run_id}"
    return f"graph {run.graph_name or 'unnamed'!r}, {where}; inputs and state: NodeError.of(exception)"


# The signatures above are the only list of the options of each call.
RUN_OPTIONS = frozenset(BaseRunner.run.__kwdefaults__ or ())
MAP_OPTIONS = frozenset(("map_over", *(BaseRunner.map.__kwdefaults__ or ())))
_SELECTING = frozenset(("select", "entrypoint", "on_internal_override"))  # what an admission depends on
_NEEDS_STORE = HISTORY_OPTIONS | {"workflow_id"}


def _store_of(runner: str, given: Any) -> Checkpointer | None:
    """Return the store that was given, or the one in the file whose path was given. Raises TypeError."""
    if isinstance(given, str | PathLike):
        if "://" in str(given):
            raise TypeError(
                f"checkpointer takes the path of a SQLite file; for a server write {runner}("
                "checkpointer=PostgresCheckpointer(...))."
            )
        return checkpointers.SqliteCheckpointer(given)
    if given is not None and (isinstance(given, type) or not hasattr(given, "save_step")):
        raise TypeError(
            f"checkpointer must be a Checkpointer or the path of a SQLite file, got {got(given)}. "
            f"Write {runner}(checkpointer='runs.db')."
        )
    store: Checkpointer | None = given
    return store


def check_graph(graph: Graph, runner: str, can: RunnerCapabilities) -> None:
    """A1: raise IncompatibleRunnerError for a graph the runner cannot run, TypeError for another object."""
    if not isinstance(graph, Graph):
        raise TypeError(f"A runner runs a Graph, got {type(graph).__name__}. Build one: Graph([node, ...]).")
    if not can.supports_async_nodes and graph.has_async_nodes:
        names = [node.name for node in graph.iter_nodes() if node.is_async]
        raise IncompatibleRunnerError(
            f"{runner} cannot run async nodes: {', '.join(names)}. Use AsyncRunner: "
            "await AsyncRunner().run(graph, ...)",
            names[0],
            "supports_async_nodes",
        )
    if not can.supports_interrupts and graph.has_interrupts:
        names = [node.name for node in graph.interrupt_nodes] or ["a nested graph"]
        raise IncompatibleRunnerError(
            f"{runner} cannot pause for the questions of this graph: {', '.join(names)}. Use SyncRunner or "
            "AsyncRunner.",
            names[0],
            "supports_interrupts",
        )


def check_mapped(graph: Graph, names: Sequence[str], given: Mapping[str, Any]) -> None:
    """Check the names to map over. Raises ValueError or MissingInputError."""
    if not names:
        raise ValueError("map_over needs at least one input name.")
    if len(set(names)) < len(names):
        raise ValueError(f"map_over names an input twice: {', '.join(names)}.")
    missing = [name for name in names if name not in given]
    if missing:
        hint = did_you_mean(missing[0], given) or f"How to fix: pass a list: {missing[0]}=[...]."
        raise MissingInputError(
            f"map_over names {', '.join(map(repr, missing))}, which was not given. "
            f"{hint} Inputs: {graph.inputs.all}",
            missing,
            sorted(given),
        )


def checked_executor(given: Any) -> Executor | Mapping[str, Executor] | None:
    """Return the executor, or a copy of a dict of executors by node. Raises TypeError for anything else."""
    executors = list(given.values()) if isinstance(given, Mapping) else [] if given is None else [given]
    for executor in executors:
        if not isinstance(executor, Executor):
            raise TypeError(
                "executor must be a concurrent.futures.Executor or a dict from node names to executors, "
                f"got {type(executor).__name__}"
            )
    return dict(given) if isinstance(given, Mapping) else given


def chosen_executor(own: Any, given: Any) -> Executor | Mapping[str, Executor] | None:
    """Return the executor of a call (`{}`: none), or that of its runner. Raises TypeError."""
    return own if given is None else checked_executor(given) or None
