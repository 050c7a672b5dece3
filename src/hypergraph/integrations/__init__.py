"""Connections to other systems, each behind an extra and loaded on first use."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hypergraph.integrations.dbos import DBOSRunner
    from hypergraph.integrations.mcp import agent_server, serve_agents

_LAZY = {
    "DBOSRunner": "hypergraph.integrations.dbos",
    "agent_server": "hypergraph.integrations.mcp",
    "serve_agents": "hypergraph.integrations.mcp",
}

__all__ = ["DBOSRunner", "agent_server", "serve_agents"]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_LAZY[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
