"""How to call a node's function with values from a run's state: decided once, cheap ever after.

Most functions take their inputs by position and are called straight from the state. Whatever needs more
(defaults, keywords, variadic parameters, a NodeContext) gets a prepared call of its own.
"""

from __future__ import annotations

import copy
import enum
import numbers
import types
from collections.abc import Callable, Mapping
from inspect import Parameter as Kinds
from operator import itemgetter
from typing import Any, Protocol

from hypergraph.exceptions import GraphConfigError
from hypergraph.nodes.callable_node import CallableNode
from hypergraph.nodes.context import NodeContext, RunFacts
from hypergraph.nodes.signatures import MISSING, Parameter

_FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType)
_IMMUTABLE = (type(None), int, float, str, bytes, type, enum.Enum, *_FUNCTIONS, numbers.Number)
_BY_POSITION = (Kinds.POSITIONAL_ONLY, Kinds.POSITIONAL_OR_KEYWORD)


class Call(Protocol):
    """A prepared call: everything it needs comes from the state and the run."""

    def __call__(self, values: Mapping[str, Any], run: RunFacts, superstep: int) -> Any: ...


def is_immutable(value: Any) -> bool:
    """Say whether a value cannot change in place: numbers, text, functions, classes, tuples of such."""
    kind = type(value)  # not its __class__, which a proxy looks up, and may fail to
    if kind is not tuple and kind is not frozenset:
        return issubclass(kind, _IMMUTABLE)
    try:
        return all(map(is_immutable, value))
    except RecursionError:
        return False  # too deep to tell, and mutable is what costs nothing but a step


def takes_plain_positions(node: CallableNode) -> bool:
    """Say whether the function can be called with its inputs by position, straight from the state."""
    return not node.signature.by_keyword and all(
        p.kind in _BY_POSITION and p.default is MISSING and not p.is_context
        for p in node.signature.parameters
    )


def getter_of(names: tuple[str, ...]) -> Callable[[Mapping[str, Any]], Any] | None:
    """Return what fetches several inputs as a tuple, None for fewer than two."""
    return itemgetter(*names) if len(names) > 1 else None


def prepare_call(node: CallableNode, other: Callable[..., Any] | None = None) -> Call:
    """Return the call of a function that needs more than plain positions, or of another in its place."""
    quick = _context_call(node) if other is None else None
    if quick is not None:
        return quick
    func = other or node.func
    names = dict(zip((p.name for p in node.params), node.inputs, strict=True))
    parts = [(p, names.get(p.name, ""), _copier(node, p)) for p in node.signature.parameters]
    spread = any(p.kind is Kinds.VAR_POSITIONAL for p in node.signature.parameters)
    keywords = node.signature.by_keyword and not spread

    def call(values: Mapping[str, Any], run: RunFacts, superstep: int) -> Any:
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        for param, name, default in parts:
            if param.is_context:
                value: Any = NodeContext(run, node.name, superstep)
            elif name in values:
                value = values[name]
            else:
                value = default()
            _place(param, value, args, kwargs, keywords)
        return func(*args, **kwargs)

    return call


def _place(param: Parameter, value: Any, args: list[Any], kwargs: dict[str, Any], keywords: bool) -> None:
    if param.kind is Kinds.VAR_POSITIONAL:
        args.extend(value)
    elif param.kind is Kinds.VAR_KEYWORD:
        kwargs.update(value)
    elif param.kind is Kinds.KEYWORD_ONLY or (keywords and param.kind is not Kinds.POSITIONAL_ONLY):
        kwargs[param.name] = value
    else:
        args.append(value)


def _context_call(node: CallableNode) -> Call | None:
    """Return a shorter call for the usual shape: one input and, behind it, the context."""
    params = node.signature.parameters
    plain = all(p.kind in _BY_POSITION and p.default is MISSING for p in params)
    if not plain or node.signature.by_keyword or [p.is_context for p in params] != [False, True]:
        return None
    func, arg, name, new = node.func, node.inputs[0], node.name, object.__new__

    def call(values: Mapping[str, Any], run: RunFacts, superstep: int) -> Any:
        context = new(NodeContext)  # past its constructor: one call less for every call of the node
        context._run, context._name, context.superstep = run, name, superstep
        return func(values[arg], context)

    return call


def _copier(node: CallableNode, param: Parameter) -> Callable[[], Any]:
    """Return what makes the default of a parameter: a copy per call where it could be changed."""
    default = param.default
    if is_immutable(default):
        return lambda: default

    def fresh() -> Any:
        try:
            return copy.deepcopy(default)
        except Exception as error:
            raise GraphConfigError(
                f"The default of {param.name!r} in node {node.name!r} cannot be safely copied "
                f"({type(error).__name__}: {error}), and calls must not share it.\n"
                f"How to fix: share it with .bind(), as in graph.bind({param.name}=...), or default to None."
            ) from error

    return fresh


def inputs_of(node: CallableNode, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the node would take from this state, by current input names."""
    found = {name: values[name] for name in node.inputs if name in values}
    if len(found) < len(node.inputs):
        found |= {name: default for name, default in node.defaults.items() if name not in found}
    return found
