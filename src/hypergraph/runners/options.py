"""Keywords of a call: options checked and told apart from inputs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from typing import Any, Concatenate, Literal, ParamSpec, Protocol, TypeVar, cast, overload

from hypergraph.display import closest
from hypergraph.durability.options import HISTORY_OPTIONS, checked_history
from hypergraph.engine.options import DEFAULTS, RunOptions
from hypergraph.graph.graph import Graph
from hypergraph.nodes.names import got
from hypergraph.nodes.options import checked_timeout

ErrorHandling = Literal["raise", "continue"]
_DEFAULTS = {name: getattr(RunOptions, name) for name in RunOptions.__annotations__}
_CONTINUE = RunOptions(error_handling="continue")
_ORIGINS = frozenset(("fork_from", "checkpoint", "history"))
RESERVED = frozenset(("graph", "values", *_DEFAULTS))  # the options of all calls

P = ParamSpec("P")
R = TypeVar("R")
D = TypeVar("D")
R_co = TypeVar("R_co", covariant=True)
D_co = TypeVar("D_co", covariant=True)


def takes(
    parameters: Callable[Concatenate[Any, P], Any], *, without: Collection[str] = ()
) -> Callable[[Callable[..., R]], Callable[Concatenate[Any, P], R]]:
    """Give a method that takes `**keywords` the signature of another method.

    The signatures, with 25 parameters each, are written once, in `BaseRunner`. Type checkers and editors see
    them through the return type, `inspect.signature` and `help` through `__signature__`; a call costs nothing
    extra.
    """

    def declare(method: Callable[..., R]) -> Callable[Concatenate[Any, P], R]:
        declared = inspect.signature(parameters)
        shown = [p for name, p in declared.parameters.items() if name not in without]
        returned = method.__annotations__.get("return", inspect.Signature.empty)
        method.__signature__ = declared.replace(  # type: ignore[attr-defined]  # what inspect looks for
            parameters=shown, return_annotation=returned
        )
        return cast("Callable[Concatenate[Any, P], R]", method)

    return declare


def takes_step(
    parameters: Callable[Concatenate[Any, P], Any],
    events: type[R],
    debugger: type[D],
    *,
    without: Collection[str] = (),
) -> Callable[[Callable[..., Any]], IterMethod[P, R, D]]:
    """Give `iter` the signature of another method and the option `step`, which makes it return a debugger."""

    def declare(method: Callable[..., Any]) -> IterMethod[P, R, D]:
        declared: Any = takes(parameters, without=without)(method)
        signature = declared.__signature__
        step = inspect.Parameter("step", inspect.Parameter.KEYWORD_ONLY, default=False, annotation="bool")
        *shown, inputs = signature.parameters.values()
        returned = f"{events.__name__} | {debugger.__name__}"
        declared.__signature__ = signature.replace(
            parameters=[*shown, step, inputs], return_annotation=returned
        )
        return cast("IterMethod[P, R, D]", declared)

    return declare


class BoundIter(Protocol[P, R_co, D_co]):
    """The method `iter` of a runner, for type checkers."""

    @overload
    def __call__(
        self,
        graph: Graph,
        values: Mapping[str, Any] | None = None,
        /,
        *,
        step: Literal[True],
        **keywords: Any,
    ) -> D_co: ...
    @overload
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co: ...


class IterMethod(Protocol[P, R_co, D_co]):
    """`iter` as an attribute of the class of a runner, for type checkers."""

    def __get__(self, instance: Any, owner: Any = None) -> BoundIter[P, R_co, D_co]: ...


def split_keywords(  # noqa: PLR0912 - a branch for each kind of keyword
    keywords: dict[str, Any], own: Collection[str], graph: Any, values: Any
) -> tuple[RunOptions, dict[str, Any]]:
    """Return the options and the inputs among the keywords of a call whose options are `own`.

    Raises ValueError or TypeError for wrong options, for an option of other calls, and for an input of the
    graph that is called like an option and is not in the values.
    """
    if RESERVED.isdisjoint(keywords):
        return DEFAULTS, keywords
    if isinstance(graph, Graph) and (ambiguous := _ambiguous(graph)):
        _refuse_inputs(keywords, ambiguous.difference(values if isinstance(values, Mapping) else ()))
    how = keywords.get("error_handling") if len(keywords) == 1 and "error_handling" in own else None
    if type(how) is str and how == "continue":
        return _CONTINUE, {}  # an option of many short runs, made once
    given, inputs = {}, {}
    for name, value in keywords.items():
        if name in own:
            default = _DEFAULTS[name]
            if value is not default and value != default:
                if name in _CHECKS:
                    try:
                        _CHECKS[name](value)
                    except (TypeError, ValueError):
                        if isinstance(graph, Graph) and name in graph.outputs:  # an answer is meant
                            refuse_reserved([name])
                        raise
                given[name] = value
        elif name in _ORIGINS and "map_over" in own:
            raise ValueError(
                f"map does not fork, and has no option {name}. Fork one item with run(..., fork_from="
                "('batch/item-3', None)), or map the list under another workflow_id. If an input of that "
                "name is meant, pass it in `values`."
            )
        elif name in RESERVED:
            refuse_reserved([name])
        else:
            inputs[name] = value
    if not given:
        return DEFAULTS, inputs
    options = RunOptions(**given)
    return (options if HISTORY_OPTIONS.isdisjoint(given) else checked_history(options)), inputs


def _check_on_missing(value: Any) -> None:
    if value not in ("ignore", "warn", "error"):
        raise ValueError(f'Invalid on_missing: {value!r}. Use "ignore", "warn" or "error".')


def _check_error_handling(value: Any) -> None:
    if value not in ("raise", "continue"):
        raise ValueError(
            f"Invalid error_handling: {value!r}.\n"
            'How to fix: use "raise" to get the exception, or "continue" to get a result with status FAILED.'
        )


def check_max_iterations(value: Any) -> None:
    """Raise ValueError for a limit that is not a positive int."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"max_iterations must be a positive int, or None for the default, got {value!r}")


def _check_max_concurrency(value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"max_concurrency must be a positive int, or None for no limit, got {value!r}")


def _check_timeout(value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
        raise ValueError(f"timeout must be a number of seconds greater than 0, got {value!r}")
    checked_timeout(value)


def _check_run_id(value: Any) -> None:
    if not isinstance(value, str) or not value:
        raise ValueError(f"run_id must be a text that is not empty, got {value!r}")


def checked_services(value: Any) -> dict[str, Any]:
    """Return services by name. Raises TypeError for anything but a mapping from names."""
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise TypeError(
            f'services must be a mapping from names to objects, as in {{"llm": client}}, got {got(value)}'
        )
    return dict(value)


def _check_budget(value: Any) -> None:
    if not isinstance(value, Mapping) or not value or not all(isinstance(name, str) for name in value):
        raise TypeError(
            f'budget must be a mapping from names to numbers, as in {{"cost": 1.0}}, got {got(value)}'
        )
    for name, most in value.items():
        if isinstance(most, bool) or not isinstance(most, (int, float)):
            raise TypeError(f"budget[{name!r}] must be a number, got {got(most)}")
        if not most > 0:
            raise ValueError(f"budget[{name!r}] must be greater than 0, got {most!r}")


def _check_entrypoint(value: Any) -> None:
    if not isinstance(value, str):
        raise TypeError(f"entrypoint must be the name of a node, got {got(value)}")


_CHECKS: dict[str, Callable[[Any], object]] = {
    "on_missing": _check_on_missing,
    "error_handling": _check_error_handling,
    "max_iterations": check_max_iterations,
    "max_concurrency": _check_max_concurrency,
    "timeout": _check_timeout,
    "run_id": _check_run_id,
    "services": checked_services,
    "budget": _check_budget,
    "entrypoint": _check_entrypoint,
}


def merged_inputs(
    graph: Graph, values: Mapping[str, Any] | None, inputs: dict[str, Any], options: RunOptions
) -> Mapping[str, Any]:
    """Return `values` and keyword inputs as one mapping. Raises ValueError where a name could be either."""
    if type(values) is not dict and values is not None and not isinstance(values, Mapping):
        name = next(iter(graph.inputs.all), "text") if isinstance(graph, Graph) else "text"
        raise TypeError(
            f"values must be a mapping from input names to values, got {got(values)}. "
            f"Pass inputs by name: run(graph, {name}=...) or run(graph, {{{name!r}: ...}})."
        )
    if options is not DEFAULTS and (ambiguous := _ambiguous(graph)):
        refuse_reserved(ambiguous.intersection(vars(options)).difference(values or ()))
    if not inputs:
        return values if values is not None else {}
    twice = sorted(set(values or ()) & set(inputs))
    if twice:
        raise ValueError(f"Inputs given in both values and kwargs: {', '.join(twice)}. Give each once.")
    return {**(values or {}), **inputs}


def _refuse_inputs(keywords: Mapping[str, Any], ambiguous: Collection[str]) -> None:
    """Raise ValueError for inputs that are called like options, before they are checked as options."""
    refuse_reserved(
        [
            name
            for name in keywords.keys() & ambiguous
            if keywords[name] is not _DEFAULTS[name] and keywords[name] != _DEFAULTS[name]
        ]
    )


def refuse_reserved(names: Collection[str]) -> None:
    """Raise ValueError if there are names that could be an option as well as an input."""
    if names:
        serial = "max_concurrency" in names
        other = " (SyncRunner runs one node at a time, AsyncRunner takes it)" if serial else ""
        raise ValueError(
            f"These names are reserved runner options: {', '.join(sorted(names))}. If this call does not "
            f"take such an option, leave it out{other}. If an input of that name is meant, pass it in "
            "`values`: run(graph, values={...})."
        )


def refuse_misspelt_options(graph: Graph, inputs: Collection[str], options: Collection[str]) -> None:
    """Raise ValueError for a keyword that is no input of the graph and resembles an option."""
    for name in inputs:
        known = name in graph.inputs.all or name in graph.outputs
        if not known and (option := closest(name, options)) is not None:
            raise ValueError(
                f"{name!r} is neither an input of graph {graph.name or 'unnamed'!r} nor an option. "
                f"Did you mean the option {option}=...?"
            )


def _ambiguous(graph: Graph) -> frozenset[str]:
    """Return the inputs of a graph that have the name of an option."""
    if "ambiguous" not in graph.memo:
        graph.memo["ambiguous"] = RESERVED.intersection(graph.inputs.all)
    return graph.memo["ambiguous"]  # type: ignore[no-any-return]  # set one line above
