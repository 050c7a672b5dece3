"""The options of a call: what they are called, what they may be, and how inputs are told from them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Literal, NamedTuple

from hypergraph.graph.graph import Graph
from hypergraph.plan.admission import UNSET

ErrorHandling = Literal["raise", "continue"]

RESERVED = frozenset(  # the names of all options of any call of any runner
    (
        *("graph", "values", "select", "on_missing", "on_internal_override", "entrypoint", "max_iterations"),
        *("max_concurrency", "error_handling", "event_processors", "timeout", "run_id", "workflow_id"),
        *("history", "checkpoint", "fork_from", "code_change", "new_turn", "tags", "wait", "force"),
        *("map_over", "map_mode", "clone", "key", "executor"),
    )
)


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
    new_turn: bool = False
    tags: Mapping[str, str] | None = None
    force: bool = False
    code_change: str = "keep"
    history: Any = None


DEFAULTS = Options()


def options_of(given: tuple[Any, ...]) -> Options:
    """Return options from their values in order; most calls give none. Raises ValueError for unsound ones."""
    return DEFAULTS if given == DEFAULTS else checked(tuple.__new__(Options, given))


def split_options(given: dict[str, Any], foreign: Collection[str] = ()) -> tuple[Options, dict[str, Any]]:
    """Tell options from inputs among the keywords of a call; foreign ones are no options of this call.

    Raises ValueError for unsound options.
    """
    own = [name for name in Options._fields if name not in foreign]
    known = {name: value for name, value in given.items() if name in own}
    return options_of(Options(**known)), {name: value for name, value in given.items() if name not in known}


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
    if options.code_change not in ("keep", "rerun", "error"):
        raise ValueError(f'Invalid code_change: {options.code_change!r}. Use "keep", "rerun" or "error".')
    timeout = options.timeout
    if timeout is not None and (
        isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not timeout > 0
    ):
        raise ValueError(f"timeout must be a number of seconds greater than 0, got {timeout!r}")
    return options


def from_checkpoint(
    values: Mapping[str, Any] | None, keywords: Mapping[str, Any], history: Any, checkpoint: Any
) -> tuple[Mapping[str, Any] | None, Any]:
    """Return values and history with those of a checkpoint. Raises ValueError for both kinds at once."""
    if checkpoint is None:
        return values, history
    if history is not None:
        raise ValueError("Pass either checkpoint or history: a checkpoint brings its own.")
    kept = {name: value for name, value in checkpoint.values.items() if name not in keywords}
    return {**kept, **(values or {})}, checkpoint.steps


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
        given = {name for name, value in options._asdict().items() if value != getattr(DEFAULTS, name)}
        _refuse_reserved((given & ambiguous).difference(values or ()))
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
