"""What parameters mean, written once for all calls that share them, and shown by `help` on each of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

T = TypeVar("T", bound=Callable[..., Any])


def explained(meanings: Mapping[str, str]) -> Callable[[T], T]:
    """Return a decorator that lists the parameters of a function or class in its docstring, under `Args:`.

    Names without a meaning are left out, and so is everything where docstrings are (`python -OO`).
    """

    def explain(call: T) -> T:
        function: Any = getattr(call, "__init__") if isinstance(call, type) else call  # noqa: B009 - for mypy
        if call.__doc__:
            code = function.__code__
            names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
            listed = [f"    {name}: {meanings[name]}" for name in names if name in meanings]
            margin = "\n" + _margin(call.__doc__)
            call.__doc__ = call.__doc__.rstrip() + "\n" + margin + margin.join(["Args:", *listed])
        return call

    return explain


def _margin(text: str) -> str:
    """Return the blanks that every line but the first begins with."""
    lines = [line for line in text.splitlines()[1:] if line.strip()]
    return " " * min((len(line) - len(line.lstrip()) for line in lines), default=0)
