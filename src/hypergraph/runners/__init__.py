"""Runners of graphs. AsyncRunner, and asyncio with it, is imported on first use."""

from typing import TYPE_CHECKING, Any

from hypergraph.engine.kernel import PauseExecution
from hypergraph.engine.scheduler import GraphState, NodeExecution
from hypergraph.records import InnerStep, NodeRecord, PauseInfo, RunStatus
from hypergraph.runners.base import BaseRunner, RunnerCapabilities
from hypergraph.runners.handles import MapHandle, RunHandle
from hypergraph.runners.options import ErrorHandling
from hypergraph.runners.stepping import NodeStop, RunDebugger
from hypergraph.runners.sync import SyncRunner
from hypergraph.runs import MapLog, MapResult, NodeStats, RunLog, RunResult

if TYPE_CHECKING:  # the types of what `__getattr__` returns
    from hypergraph.runners.async_ import AsyncRunDebugger, AsyncRunner
    from hypergraph.runners.async_ import Handover as Handover
    from hypergraph.runners.sync_on_loop import finish_on_loop as finish_on_loop
    from hypergraph.runners.sync_on_loop import kernel_for as kernel_for
    from hypergraph.runners.sync_on_loop import steps_on_loop as steps_on_loop

_LAZY = {  # names and modules that only AsyncRunner, and SyncRunner with an executor, need
    "AsyncRunDebugger": "async_",
    "AsyncRunner": "async_",
    "Handover": "async_",
    **dict.fromkeys(("finish_on_loop", "kernel_for", "steps_on_loop"), "sync_on_loop"),
}
__all__ = [
    "AsyncRunDebugger",
    "AsyncRunner",
    "BaseRunner",
    "ErrorHandling",
    "GraphState",
    "InnerStep",
    "MapHandle",
    "MapLog",
    "MapResult",
    "NodeExecution",
    "NodeRecord",
    "NodeStats",
    "NodeStop",
    "PauseExecution",
    "PauseInfo",
    "RunDebugger",
    "RunHandle",
    "RunLog",
    "RunResult",
    "RunStatus",
    "RunnerCapabilities",
    "SyncRunner",
]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        import importlib

        return getattr(importlib.import_module(f"hypergraph.runners.{_LAZY[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
