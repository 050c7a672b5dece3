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
        NodeProgressEvent,
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
        BudgetExceededError,
        CancellationError,
        GraphConfigError,
        GraphWarning,
        HypergraphError,
        IncompatibleRunnerError,
        InfiniteLoopError,
        InvalidAnswerError,
        MaxIterationsError,
        MissingInputError,
        MissingServiceError,
        NodeError,
        NodeTimeoutError,
        PanicError,
        QuestionExpiredError,
        RenameError,
        RunTimeoutError,
        StepUsageError,
        TransactionError,
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
        ReceiveNode,
        Replace,
        RetryPolicy,
        RouteNode,
        TimerNode,
        ifelse,
        interrupt,
        node,
        pause_for,
        pause_until,
        receive,
        route,
    )
    from hypergraph.records import InnerStep, NodeRecord, PauseInfo, RunStatus
    from hypergraph.runners import AsyncRunner, BaseRunner, ErrorHandling, SyncRunner
    from hypergraph.runs import MapLog, MapResult, NodeStats, RunLog, RunResult

# The public names of each module.
_NAMES = {
    "nodes": (
        "node route ifelse interrupt pause_until pause_for receive HyperNode FunctionNode GraphNode GateNode "
        "RouteNode IfElseNode InterruptNode TimerNode ReceiveNode END NodeContext Replace RetryPolicy"
    ),
    "graph": "Graph chain InputSpec",
    "runners": "BaseRunner SyncRunner AsyncRunner ErrorHandling",
    "runs": "RunResult MapResult RunLog MapLog NodeStats",
    "records": "RunStatus PauseInfo NodeRecord InnerStep",
    "exceptions": (
        "HypergraphError GraphConfigError GraphWarning RenameError MissingInputError IncompatibleRunnerError "
        "InfiniteLoopError MaxIterationsError NodeError PanicError CancellationError "
        "RunTimeoutError NodeTimeoutError InvalidAnswerError QuestionExpiredError BudgetExceededError "
        "MissingServiceError StepUsageError TransactionError"
    ),
    "events": (
        "BaseEvent Event RunStartEvent RunEndEvent SuperstepStartEvent NodeStartEvent "
        "NodeEndEvent NodeErrorEvent NodeProgressEvent NodeRetryEvent CacheHitEvent RouteDecisionEvent "
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
    "pause_until",
    "pause_for",
    "receive",
    # nodes
    "HyperNode",
    "FunctionNode",
    "GraphNode",
    "GateNode",
    "RouteNode",
    "IfElseNode",
    "InterruptNode",
    "TimerNode",
    "ReceiveNode",
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
    "InnerStep",
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
    "InvalidAnswerError",
    "QuestionExpiredError",
    "BudgetExceededError",
    "MissingServiceError",
    "StepUsageError",
    "TransactionError",
    # events
    "BaseEvent",
    "Event",
    "RunStartEvent",
    "RunEndEvent",
    "SuperstepStartEvent",
    "NodeStartEvent",
    "NodeEndEvent",
    "NodeErrorEvent",
    "NodeProgressEvent",
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
    if name == "__version__":  # the metadata of packages takes long to load
        from hypergraph.views.doctor import version

        return version()["version"]
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    found = getattr(importlib.import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    globals()[name] = found  # the next access needs no call
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
