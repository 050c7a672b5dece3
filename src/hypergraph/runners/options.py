"""The options of a call: what they are called, what they may be, and how inputs are told from them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Literal, NamedTuple

from hypergraph.durability.wishes import NO_WISHES, Wishes, checked_wishes
from hypergraph.graph.graph import Graph
from hypergraph.plan.admission import UNSET
from hypergraph.records import fresh_run_id

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
