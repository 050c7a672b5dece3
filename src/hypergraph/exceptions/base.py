"""The root of all our errors: a default text, and pickling that keeps every attribute."""

from __future__ import annotations

from typing import Any

EVIDENCE = "__hypergraph_evidence__"


def _rebuild(cls: type[HypergraphError], args: tuple[Any, ...], state: dict[str, Any]) -> HypergraphError:
    error = cls.__new__(cls, *args)
    error.args = args
    error.__dict__.update(state)
    return error


class HypergraphError(Exception):
    """Something this package noticed went wrong."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message if message is not None else type(self).__doc__ or type(self).__name__)

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.args, {k: v for k, v in self.__dict__.items() if k != EVIDENCE})


def safe_text(value: object) -> str:
    """Return str(value), or a placeholder when that raises."""
    try:
        return str(value)
    except Exception as error:
        return f"<{type(value).__name__} whose text raises {type(error).__name__}>"
