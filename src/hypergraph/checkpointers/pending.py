"""Coroutines that explain a missing `await`, of runners and of stores."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from functools import wraps
from itertools import chain
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
Call = Callable[P, Coroutine[Any, Any, T]]


class Pending(Coroutine[Any, Any, T]):
    """The result of a call before it is awaited.

    It is a coroutine in every respect. Used as if it were the result, it raises TypeError.
    """

    __slots__ = ("_call", "_names", "_remedy", "_work")

    def __init__(self, work: Coroutine[Any, Any, T], call: str, remedy: str, names: frozenset[str]) -> None:
        self._work, self._call, self._remedy = work, call, remedy
        self._names = names  # attributes that only results have
        named: Any = work
        named.__qualname__ = call  # for Python's warning about a coroutine that was never awaited

    def send(self, value: Any, /) -> Any:
        """Resume the coroutine with a value."""
        return self._work.send(value)

    def throw(self, *error: Any) -> Any:
        """Raise an exception in the coroutine."""
        return self._work.throw(*error)

    def close(self) -> None:
        """End the coroutine."""
        self._work.close()

    def __await__(self) -> Generator[Any, Any, T]:
        return self._work.__await__()

    def __repr__(self) -> str:
        return f"<{self._call}(...), not awaited yet>"

    def _refuse(self, *_: Any) -> Any:
        self.close()  # the error below says all that a warning would
        raise TypeError(self._text)

    @property
    def _text(self) -> str:
        return f"{self._call}() was not awaited. {self._remedy}"

    __getitem__ = __iter__ = __len__ = __contains__ = __bool__ = _refuse

    def __getattr__(self, name: str) -> Any:
        if name.startswith("cr_"):  # asked by debuggers
            return getattr(self._work, name)
        if name in ("__name__", "__qualname__"):  # and by the repr of a task
            return self._call
        if name in self._names:
            return self._refuse()
        if name[0] != "_":  # a library may look whether it has this, and await it then
            raise AttributeError(f"{self._text} It has no {name!r} itself.")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


def names_of(*kinds: type) -> frozenset[str]:
    """Return the public attributes of these classes, and what their objects are made of."""
    codes = (getattr(vars(kind).get("__init__"), "__code__", None) for kind in kinds)
    fields = (name for code in codes if code is not None for name in code.co_varnames[1 : code.co_argcount])
    return frozenset(name for name in (*fields, *chain(*map(dir, kinds))) if name[0] != "_")


def awaited(*kinds: type) -> Callable[[Call[P, T]], Call[P, T]]:
    """Decorate an async method of a store, to explain a missing `await`; `kinds` are those of its results."""
    names = names_of(*kinds)

    def decorate(method: Call[P, T]) -> Call[P, T]:
        name = method.__name__
        remedy = (
            f"Write `await store.{name}(...)`. In a program without asyncio: "
            f"`store.{name.partition('_')[2]}(...)`."
        )

        @wraps(method)
        def call(*args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, T]:
            store = type(args[0]).__name__
            return Pending(method(*args, **kwargs), f"{store}.{name}", remedy, names)

        return call

    return decorate
