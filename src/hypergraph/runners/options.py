"""Options of a call."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Literal, NamedTuple

from hypergraph.display import explained
from hypergraph.durability.options import NO_WISHES, Wishes, checked_wishes
from hypergraph.engine.admission import UNSET
from hypergraph.graph.graph import Graph
from hypergraph.records import fresh_run_id

RUNNER_MEANINGS = {
    "cache": "where nodes with cache=True find results",
    "checkpointer": "the store that every run is written to",
    "max_iterations": "supersteps a graph with cycles may take; 1000 by default",
    "logger": "what nodes get as NodeContext.logger",
    "executor": "what calls the nodes: an Executor, or a dict from names of nodes to executors",
    "offload_sync": "whether every sync function is called in a worker thread",
}
CALL_MEANINGS = {
    "graph": "the graph to run",
    "values": "inputs by name; keywords are inputs too, unless they are called like an option",
    "map_over": "the inputs that hold one value per item: a name or a list of names",
    "map_mode": '"zip" takes items side by side, "product" in all combinations',
    "clone": "deep-copy the other values for each item: True, or a list of names",
    "select": 'the outputs to return: a name, a list, "**" for all; by default what the graph selects',
    "on_missing": 'what to do about a selected output that was not made: "ignore", "warn", "error"',
    "on_internal_override": 'the same about values for what nodes make, or for unknown names; "warn"',
    "entrypoint": "the node at which a cycle begins, where several could",
    "max_iterations": "supersteps a graph with cycles may take, then InfiniteLoopError",
    "max_concurrency": "how many node functions run at a time, nested graphs and items included",
    "error_handling": '"raise" the exception, or "continue" and return a failed result',
    "event_processors": "who is told of the events of this call",
    "timeout": "seconds for the whole call, then RunTimeoutError",
    "executor": "what calls the nodes of this call, instead of that of the runner; {}: nobody else",
    "run_id": 'the id of the run; by default "run-" and 12 hex characters',
    "workflow_id": "the id of the stored run; if it is there already, the run goes on",
    "history": "recorded steps to begin with, as in Checkpoint.steps",
    "checkpoint": "recorded values and steps to begin with",
    "fork_from": "a workflow id and a superstep (or None, the last) to begin with",
    "code_change": 'what to do if the code differs from the recorded one: "keep", "rerun", "error"',
    "new_turn": "whether given values count as new even if they are equal to the stored ones",
    "key": "by what a stored item is known: an input, or a function of the item's inputs; by position if not",
    "tags": "labels of the stored run",
    "wait": "whether to wait for somebody else who is at work on the workflow, and take over the outcome",
    "force": "whether to take a workflow from a living owner, or to go on after a crash loop",
}
explained_runner = explained(RUNNER_MEANINGS)
explained_call = explained(CALL_MEANINGS)


ErrorHandling = Literal["raise", "continue"]

RESERVED = frozenset(  # the names of all options of any call of any runner
    (
        *("graph", "values", "select", "on_missing", "on_internal_override", "entrypoint", "max_iterations"),
        *("max_concurrency", "error_handling", "event_processors", "timeout", "run_id", "workflow_id"),
        *("history", "checkpoint", "fork_from", "code_change", "new_turn", "tags", "wait", "force"),
        *("map_over", "map_mode", "clone", "key", "executor"),
    )
)

ONLY_OF_RUNS = frozenset(("run_id", "history", "checkpoint", "fork_from", "new_turn", "wait"))
ONLY_OF_MAPS = frozenset(("key",))


class Options(NamedTuple):
    """The options of one call of `run` or `map`, as given."""

    select: Any = UNSET
    on_missing: str = "ignore"
    on_internal_override: str = "warn"
    entrypoint: str | None = None
    max_iterations: int | None = None
    max_concurrency: int | None = None
    error_handling: str = "raise"
    event_processors: Any = None
    timeout: float | None = None
    run_id: str | None = None
    workflow_id: str | None = None
    executor: Any = None
    wishes: Wishes = NO_WISHES

    def names_given(self) -> set[str]:
        """Return the names of the options that differ from their defaults."""
        pairs = (
            *zip(self._fields, self, DEFAULTS, strict=True),
            *zip(Wishes._fields, self.wishes, NO_WISHES, strict=True),
        )
        return {name for name, value, default in pairs if value != default}


DEFAULTS = Options()


def options_of(given: tuple[Any, ...]) -> Options:
    """Return options from their values in order; most calls give none. Raises ValueError for unsound ones."""
    return DEFAULTS if given == DEFAULTS else checked(tuple.__new__(Options, given))


def _checked_history(options: Options) -> Options:
    """Return the options with those about the history checked; a fork has an id. Raises ValueError."""
    wishes = checked_wishes(tuple.__new__(Wishes, options.wishes))
    if (wishes.forks or wishes.checkpoint is not None) and options.workflow_id is None:
        made = options.run_id or fresh_run_id()  # as for every stored run without an id
        options = options._replace(run_id=made, workflow_id=made)
    return options._replace(wishes=wishes)


def split_options(given: dict[str, Any], foreign: Collection[str] = ()) -> tuple[Options, dict[str, Any]]:
    """Tell options from inputs among the keywords of a call; foreign ones are no options of this call.

    Raises ValueError for unsound options.
    """
    own = {name: value for name, value in given.items() if name not in foreign}
    wishes = Wishes(**{name: value for name, value in own.items() if name in Wishes._fields})
    known = {name: value for name, value in own.items() if name in Options._fields and name != "wishes"}
    rest = {n: v for n, v in given.items() if n not in known and not (n in own and n in Wishes._fields)}
    return options_of(Options(**known, wishes=wishes)), rest


def checked(options: Options) -> Options:
    """Return the options if they are sound. Raises ValueError or TypeError."""
    if options.on_missing not in ("ignore", "warn", "error"):
        raise ValueError(f'Invalid on_missing: {options.on_missing!r}. Use "ignore", "warn" or "error".')
    if options.error_handling not in ("raise", "continue"):
        raise ValueError(
            f"Invalid error_handling: {options.error_handling!r}.\n"
            'How to fix: use "raise" to get the exception, or "continue" to get a result with status FAILED.'
        )
    if options.max_iterations is not None:
        _check_count("max_iterations", options.max_iterations)
    if options.max_concurrency is not None:
        _check_count("max_concurrency", options.max_concurrency)
        if options.max_concurrency == 0:
            raise ValueError("max_concurrency must be at least 1, or None for no limit.")
    timeout = options.timeout
    if timeout is not None and (
        isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not timeout > 0
    ):
        raise ValueError(f"timeout must be a number of seconds greater than 0, got {timeout!r}")
    return options if options.wishes == NO_WISHES else _checked_history(options)


def _check_count(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"{name} must be a positive int, got {value!r}")


def merged_inputs(
    graph: Graph, values: Mapping[str, Any] | None, keywords: dict[str, Any], options: Options
) -> Mapping[str, Any]:
    """Return values and keyword inputs as one mapping. Raises ValueError where they cannot be told apart."""
    if type(values) is not dict and values is not None and not isinstance(values, Mapping):
        raise TypeError(f"values must be a mapping from input names to values, got {type(values).__name__}")
    if options is not DEFAULTS and (ambiguous := _ambiguous(graph)):
        _refuse_reserved((options.names_given() & ambiguous).difference(values or ()))
    if not keywords:
        return values if values is not None else {}
    _refuse_reserved(RESERVED.intersection(keywords))
    twice = sorted(set(values or ()) & set(keywords))
    if twice:
        raise ValueError(f"Inputs given in both values and kwargs: {', '.join(twice)}. Give each once.")
    return {**(values or {}), **keywords}


def _refuse_reserved(names: frozenset[str] | set[str]) -> None:
    if names:
        listed = ", ".join(sorted(names))
        raise ValueError(
            f"These names are reserved runner options: {listed}. If this call does not take such an option, "
            "leave it out; if an input of that name is meant, put it into `values`: run(graph, values={...})."
        )


def _ambiguous(graph: Graph) -> frozenset[str]:
    """Return the inputs of a graph that are called like an option."""
    if "ambiguous" not in graph.memo:
        graph.memo["ambiguous"] = RESERVED.intersection(graph.inputs.all)
    return graph.memo["ambiguous"]  # type: ignore[no-any-return]  # set one line above
