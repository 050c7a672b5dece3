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

MISSING: Any = inspect.Parameter.empty
_CONTEXT_TEXT = re.compile(r"^(Optional\[)?([\w.]+\.)?NodeContext\]?(\s*\|\s*None)?$")


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a node function under its original name."""

    name: str
    kind: Any
    default: Any
    is_context: bool = False


@dataclass(frozen=True, slots=True)
class Signature:
    """Everything the package needs to know about a callable."""

    name: str
    parameters: tuple[Parameter, ...]
    hints: dict[str, Any]
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
        raise TypeError(
            f"A node is made from a function or another callable, not from {type(func).__name__} {func!r}."
        )
    name = callable_name(func)
    try:
        found = inspect.signature(func)
    except (ValueError, TypeError) as error:
        raise TypeError(
            f"The signature of {name!r} cannot be read ({error}). Wrap it: def {_identifier(name)}(x): return ..."
        ) from error
    hints = _hints(func)
    parameters = tuple(
        Parameter(p.name, p.kind, p.default, _is_context(hints.get(p.name, p.annotation)))
        for p in found.parameters.values()
    )
    body = _body(func)
    return Signature(
        name,
        parameters,
        hints,
        is_async=inspect.iscoroutinefunction(body) or inspect.isasyncgenfunction(body),
        is_generator=inspect.isgeneratorfunction(body) or inspect.isasyncgenfunction(body),
        by_keyword=hasattr(func, "__wrapped__"),
    )


def callable_name(func: Any) -> str:
    """Return the name a callable goes by; partials take that of their function, objects of their class."""
    while isinstance(func, functools.partial):
        func = func.func
    return str(getattr(func, "__name__", type(func).__name__))


def _identifier(name: str) -> str:
    return name if name.isidentifier() else "wrapper"


def _body(func: Any) -> Any:
    """Return the function whose kind (async, generator) counts."""
    while isinstance(func, functools.partial):
        func = func.func
    if isinstance(func, type) or inspect.isroutine(func):
        return func
    return getattr(type(func), "__call__", func)


def _hints(func: Any) -> dict[str, Any]:
    while isinstance(func, functools.partial):
        func = func.func
    if isinstance(func, type):
        func = func.__init__  # type: ignore[misc]  # the signature of a class is that of its __init__
    elif not inspect.isroutine(func) and not hasattr(func, "__wrapped__"):
        func = type(func).__call__
    try:
        return typing.get_type_hints(func, include_extras=True)
    except Exception:  # a hint may be any expression and fail in any way
        return {}


def _is_context(hint: Any) -> bool:
    """Recognise NodeContext, also written as text that cannot be resolved."""
    if isinstance(hint, str):
        return _CONTEXT_TEXT.match(hint.strip().strip("\"'")) is not None
    if typing.get_origin(hint) is typing.Annotated:
        hint = typing.get_args(hint)[0]
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        members = [member for member in typing.get_args(hint) if member is not type(None)]
        return members == [NodeContext]
    return hint is NodeContext
