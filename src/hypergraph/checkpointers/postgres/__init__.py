"""Postgres backend; its driver is loaded on first use, because it comes with an extra."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hypergraph.checkpointers.postgres.backend import backend_at as backend_at


def __getattr__(name: str) -> Any:
    if name != "backend_at":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from hypergraph.checkpointers.postgres import backend

    return getattr(backend, name)
