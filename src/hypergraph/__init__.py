"""Graph workflows from plain functions: run them, understand them, trust them."""

from typing import TYPE_CHECKING, Any

from hypergraph.cache import CacheBackend, DiskCache, InMemoryCache
from hypergraph.events import AsyncEventProcessor, EventDispatcher, EventProcessor, TypedEventProcessor
from hypergraph.exceptions import (
    CancellationError,
    GraphConfigError,
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
    RetryPolicy,
    RouteNode,
    ifelse,
    interrupt,
    node,
    route,
)
from hypergraph.records import NodeRecord, PauseInfo, RunStatus
from hypergraph.runners import BaseRunner, ErrorHandling, SyncRunner
from hypergraph.runs import MapLog, MapResult, NodeStats, RunLog, RunResult

if TYPE_CHECKING:
    from hypergraph.checkpointers import Checkpointer, CheckpointPolicy, SqliteCheckpointer
    from hypergraph.events import (
        BaseEvent,
        CacheHitEvent,
        CheckpointSavedEvent,
        Event,
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
    )
    from hypergraph.events.rich_progress import RichProgressProcessor
    from hypergraph.runners.async_ import AsyncRunner

# What few programs need, or what needs an event loop or an optional package, is loaded on first use.
_EVENTS = (
    "BaseEvent",
    "CacheHitEvent",
    "CheckpointSavedEvent",
    "Event",
    "InterruptEvent",
    "NodeEndEvent",
    "NodeErrorEvent",
    "NodeRetryEvent",
    "NodeStartEvent",
    "RouteDecisionEvent",
    "RunEndEvent",
    "RunStartEvent",
    "StopRequestedEvent",
    "StreamingChunkEvent",
    "SuperstepStartEvent",
)
_LAZY = {
    **dict.fromkeys(_EVENTS, "hypergraph.events.types"),
    "AsyncRunner": "hypergraph.runners.async_",
    "Checkpointer": "hypergraph.checkpointers.base",
    "CheckpointPolicy": "hypergraph.checkpointers.types",
    "SqliteCheckpointer": "hypergraph.checkpointers.sqlite",
    "RichProgressProcessor": "hypergraph.events.rich_progress",
}

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
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_LAZY[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
