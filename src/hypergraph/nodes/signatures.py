"""Reading a callable: its parameters, its kind and its type hints, whatever sort of callable it is.

Functions, lambdas, partials, bound methods, classes and callable objects all answer alike. What has no
readable signature is refused at once.
"""

from __future__ import annotations

import functools
import inspect
import re
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hypergraph.nodes.context import NodeContext
from hypergraph.nodes.names import got

MISSING: Any = inspect.Parameter.empty
_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
_OPTIONAL = {"None", "Optional", "Union"}


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a node function under its original name."""

    name: str
    kind: Any
    default: Any
    is_context: bool = False


@dataclass(frozen=True, slots=True)
class Signature:
    """Everything the package needs to know about a callable.

    `hints` are all or nothing. Where some cannot be resolved, `declared` still has each of them: resolved
    on its own if possible, else as it was written.
    """

    name: str
    parameters: tuple[Parameter, ...]
    hints: dict[str, Any]
    declared: dict[str, Any]
    is_async: bool
    is_generator: bool
    by_keyword: bool

    @property
    def inputs(self) -> tuple[Parameter, ...]:
        """The parameters that are graph inputs: all but the context."""
        return tuple(p for p in self.parameters if not p.is_context)


def read_signature(func: Callable[..., Any]) -> Signature:
    """Read a callable. Raises TypeError when it is not one, or has no readable signature."""
    if not callable(func):
        raise TypeError(f"A node is made from a function or another callable, not from {got(func)}.")
    name = callable_name(func)
    try:
        found = inspect.signature(func).parameters.values()
    except Exception as error:  # builtins have none, and attributes of a callable object may raise anything
        wrapper = name if name.isidentifier() else "wrapper"
        raise TypeError(
            f"The signature of {name!r} cannot be read ({error}). Wrap it: def {wrapper}(x): return ..."
        ) from error
    body = _body(func)
    is_wrapper = peek(func, "__wrapped__") is not None
    hinted = func if is_wrapper and not isinstance(func, staticmethod) else body
    hints = _hints(hinted)
    return Signature(
        name,
        tuple(Parameter(p.name, p.kind, p.default, _is_context(p, hints, hinted)) for p in found),
        hints,
        hints or _one_by_one(hinted),
        is_async=any(inspect.iscoroutinefunction(f) or inspect.isasyncgenfunction(f) for f in (func, body)),
        is_generator=any(
            inspect.isgeneratorfunction(f) or inspect.isasyncgenfunction(f) for f in (func, body)
        ),
        by_keyword=is_wrapper,
    )


def peek(thing: Any, attribute: str) -> Any:
    """Return an attribute, None where it is missing or raises."""
    try:
        return getattr(thing, attribute, None)
    except Exception:  # a __getattr__ of the user's own may do anything
        return None


def unwrapped(func: Any) -> Any:
    """Return the callable inside partials and static methods."""
    while isinstance(func, (functools.partial, staticmethod)):
        func = func.func if isinstance(func, functools.partial) else func.__func__
    return func


def callable_name(func: Any) -> str:
    """Return the name a callable goes by; partials take that of their function, objects of their class."""
    func = unwrapped(func)
    name = peek(func, "__name__")
    return name if isinstance(name, str) else type(func).__name__


def _body(func: Any) -> Any:
    """Return the function or class that is called in the end; of a callable object, its __call__."""
    func = unwrapped(func)
    if isinstance(func, type) or inspect.isroutine(func):
        return func
    return type(func).__call__


def _hints(hinted: Any) -> dict[str, Any]:
    try:
        if not isinstance(hinted, type):
            return typing.get_type_hints(hinted, include_extras=True)
        makers = [peek(hinted, name) for name in ("__new__", "__init__")]
        made = [typing.get_type_hints(m, include_extras=True) for m in makers if inspect.isfunction(m)]
        return {name: hint for hints in made for name, hint in hints.items()} | {"return": hinted}
    except Exception:  # a hint may be any expression and fail in any way
        return {}


def _one_by_one(hinted: Any) -> dict[str, Any]:
    written = peek(hinted, "__annotations__")
    if isinstance(hinted, type) or not isinstance(written, dict):
        return {}
    return {name: _alone(hint, hinted) for name, hint in written.items()}


def _alone(hint: Any, hinted: Any) -> Any:
    """Return one hint of a function, resolved if possible."""
    carrier = types.SimpleNamespace(
        __annotations__={"hint": hint}, __globals__=peek(hinted, "__globals__") or {}
    )
    return _hints(carrier).get("hint", hint)


def _is_context(parameter: inspect.Parameter, hints: dict[str, Any], hinted: Any) -> bool:
    """Find NodeContext by hint, also when the hints of other parameters cannot be resolved."""
    if parameter.kind in _VARIADIC:
        return False
    if parameter.name in hints:
        return _means_context(hints[parameter.name])
    return _means_context(_alone(parameter.annotation, hinted))


def _means_context(hint: Any) -> bool:
    if isinstance(hint, (str, typing.ForwardRef)):  # unresolvable, e.g. imported for type checkers only
        text = hint if isinstance(hint, str) else hint.__forward_arg__
        return {name.rpartition(".")[2] for name in re.findall(r"[\w.]+", text)} - _OPTIONAL == {
            "NodeContext"
        }
    if typing.get_origin(hint) is typing.Annotated:
        return _means_context(typing.get_args(hint)[0])
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        members = [member for member in typing.get_args(hint) if member is not types.NoneType]
        return all(map(_means_context, members))
    return hint is NodeContext
