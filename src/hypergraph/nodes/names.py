"""Checks of names, and the way error messages show values."""

from __future__ import annotations

from types import BuiltinFunctionType, FunctionType
from typing import Any

Names = str | tuple[str, ...] | list[str] | None


def require_name(value: Any, what: str) -> str:
    """Return the value if it is a string. Raises TypeError otherwise."""
    if not isinstance(value, str):
        raise TypeError(f"{what} must be a string, got {got(value)}")
    return value


def as_names(value: Names, what: str) -> tuple[str, ...]:
    """Turn None, a name or several names into a tuple. Raises TypeError or, for repeats, ValueError."""
    if value is None:
        return ()
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, (tuple, list)):
        raise TypeError(f"{what} must be a string or a tuple of strings, got {got(value)}")
    names = tuple(require_name(name, f"each name in {what}") for name in value)
    if len(set(names)) < len(names):
        raise ValueError(f"{what} must not repeat a name, got {names}")
    return names


def shown(value: object) -> str:
    """Return the repr of a value, cut to 60 characters; never raises."""
    try:
        text = repr(value)
    except Exception:  # a __repr__ of the user's own may do anything
        text = f"<{type(value).__name__}>"
    return text if len(text) <= 60 else text[:57] + "..."


def got(value: object) -> str:
    """Return a value as error messages show it after "got": type and repr, functions by their name."""
    if isinstance(value, (FunctionType, BuiltinFunctionType)):
        return f"function {value.__name__!r}"
    kind, text = type(value).__name__, shown(value)
    return text if text.startswith(f"{kind}(") else f"{kind} {text}"
