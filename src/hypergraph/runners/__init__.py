"""Runners: how graphs are executed. AsyncRunner is loaded on first use, and asyncio with it."""

from typing import TYPE_CHECKING, Any

from hypergraph.engine.ports import PauseExecution
from hypergraph.engine.state import GraphState, NodeExecution
from hypergraph.records import NodeRecord, PauseInfo, RunStatus
from hypergraph.runners.base import BaseRunner, RunnerCapabilities
from hypergraph.runners.handles import MapHandle, RunHandle
from hypergraph.runners.options import ErrorHandling
from hypergraph.runners.sync import SyncRunner
from hypergraph.runs import MapLog, MapResult, NodeStats, RunLog, RunResult

if TYPE_CHECKING:  # without this, type checkers cannot call what `__getattr__` returns
    from hypergraph.runners.async_ import AsyncRunner

__all__ = [
    "AsyncRunner",
    "BaseRunner",
    "ErrorHandling",
    "GraphState",
    "MapHandle",
    "MapLog",
    "MapResult",
    "NodeExecution",
    "NodeRecord",
    "NodeStats",
    "PauseExecution",
    "PauseInfo",
    "RunHandle",
    "RunLog",
    "RunResult",
    "RunStatus",
    "RunnerCapabilities",
    "SyncRunner",
]


def __getattr__(name: str) -> Any:
    if name == "AsyncRunner":
        from hypergraph.runners.async_ import AsyncRunner

        return AsyncRunner
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
