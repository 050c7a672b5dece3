"""Graph workflows from plain functions.

Public names are loaded on first use, so that importing the package is cheap: a command that lists workflows
does not load the engine.
"""

from __future__ import annotations

TYPE_CHECKING = False  # type checkers take it for typing.TYPE_CHECKING, which takes long to import
if TYPE_CHECKING:
    from typing import Any

    from hypergraph.cache import CacheBackend, DiskCache, InMemoryCache
    from hypergraph.checkpointers import Checkpointer, CheckpointPolicy, SqliteCheckpointer
    from hypergraph.events import (
        AsyncEventProcessor,
        BaseEvent,
        CacheHitEvent,
        CheckpointSavedEvent,
        Event,
        EventDispatcher,
        EventProcessor,
        InterruptEvent,
        NodeEndEvent,
        NodeErrorEvent,
        NodeRetryEvent,
        NodeStartEvent,
        RouteDecisionEvent,
        RunEndEvent,
        RunStartEvent,
        StopRequestedEvent,
        StreamingChunkEvent,
        SuperstepStartEvent,
        TypedEventProcessor,
    )
    from hypergraph.events.rich_progress import RichProgressProcessor
    from hypergraph.exceptions import (
        CancellationError,
        GraphConfigError,
        GraphWarning,
        HypergraphError,
        IncompatibleRunnerError,
        InfiniteLoopError,
        MaxIterationsError,
        MissingInputError,
        NodeError,
        NodeTimeoutError,
        PanicError,
        RenameError,
        RunTimeoutError,
    )
    from hypergraph.graph import Graph, InputSpec, chain
    from hypergraph.nodes import (
        END,
        FunctionNode,
        GateNode,
        GraphNode,
        HyperNode,
        IfElseNode,
        InterruptNode,
        NodeContext,
        Replace,
        RetryPolicy,
        RouteNode,
        ifelse,
        interrupt,
        node,
        route,
    )
    from hypergraph.records import NodeRecord, PauseInfo, RunStatus
    from hypergraph.runners import AsyncRunner, BaseRunner, ErrorHandling, SyncRunner
    from hypergraph.runs import MapLog, MapResult, NodeStats, RunLog, RunResult

# The public names of each module.
_NAMES = {
    "nodes": (
        "node route ifelse interrupt HyperNode FunctionNode GraphNode GateNode RouteNode "
        "IfElseNode InterruptNode END NodeContext Replace RetryPolicy"
    ),
    "graph": "Graph chain InputSpec",
    "runners": "BaseRunner SyncRunner AsyncRunner ErrorHandling",
    "runs": "RunResult MapResult RunLog MapLog NodeStats",
    "records": "RunStatus PauseInfo NodeRecord",
    "exceptions": (
        "HypergraphError GraphConfigError GraphWarning RenameError MissingInputError IncompatibleRunnerError "
        "InfiniteLoopError MaxIterationsError NodeError PanicError CancellationError "
        "RunTimeoutError NodeTimeoutError"
    ),
    "events": (
        "BaseEvent Event RunStartEvent RunEndEvent SuperstepStartEvent NodeStartEvent "
        "NodeEndEvent NodeErrorEvent NodeRetryEvent CacheHitEvent RouteDecisionEvent "
        "InterruptEvent StopRequestedEvent StreamingChunkEvent CheckpointSavedEvent "
        "EventDispatcher EventProcessor AsyncEventProcessor TypedEventProcessor"
    ),
    "events.rich_progress": "RichProgressProcessor",
    "cache": "CacheBackend InMemoryCache DiskCache",
    "checkpointers": "Checkpointer CheckpointPolicy SqliteCheckpointer",
}
_MODULE_OF = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = [
    # decorators
    "node",
    "route",
    "ifelse",
    "interrupt",
    # nodes
    "HyperNode",
    "FunctionNode",
    "GraphNode",
    "GateNode",
    "RouteNode",
    "IfElseNode",
    "InterruptNode",
    "END",
    "NodeContext",
    "Replace",
    "RetryPolicy",
    # graph and runners
    "Graph",
    "chain",
    "InputSpec",
    "BaseRunner",
    "SyncRunner",
    "AsyncRunner",
    "ErrorHandling",
    # results
    "RunResult",
    "MapResult",
    "RunStatus",
    "PauseInfo",
    "RunLog",
    "MapLog",
    "NodeRecord",
    "NodeStats",
    # errors
    "HypergraphError",
    "GraphConfigError",
    "GraphWarning",
    "RenameError",
    "MissingInputError",
    "IncompatibleRunnerError",
    "InfiniteLoopError",
    "MaxIterationsError",
    "NodeError",
    "PanicError",
    "CancellationError",
    "RunTimeoutError",
    "NodeTimeoutError",
    # events
    "BaseEvent",
    "Event",
    "RunStartEvent",
    "RunEndEvent",
    "SuperstepStartEvent",
    "NodeStartEvent",
    "NodeEndEvent",
    "NodeErrorEvent",
    "NodeRetryEvent",
    "CacheHitEvent",
    "RouteDecisionEvent",
    "InterruptEvent",
    "StopRequestedEvent",
    "StreamingChunkEvent",
    "CheckpointSavedEvent",
    # processors
    "EventDispatcher",
    "EventProcessor",
    "AsyncEventProcessor",
    "TypedEventProcessor",
    "RichProgressProcessor",
    # caching
    "CacheBackend",
    "InMemoryCache",
    "DiskCache",
    # persistence
    "Checkpointer",
    "CheckpointPolicy",
    "SqliteCheckpointer",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    found = getattr(importlib.import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    globals()[name] = found  # the next access needs no call
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
