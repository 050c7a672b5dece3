"""Events of runs and event processors; progress bars and tracing are in submodules.

The event classes are imported on first use: most runs have no processors.
"""

from typing import TYPE_CHECKING, Any

from hypergraph.events.dispatcher import EventDispatcher
from hypergraph.events.processor import AsyncEventProcessor, EventProcessor, TypedEventProcessor
from hypergraph.records import RunStatus

if TYPE_CHECKING:
    from hypergraph.events.types import (
        BaseEvent,
        CacheHitEvent,
        CheckpointSavedEvent,
        Event,
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
    )

__all__ = [
    "AsyncEventProcessor",
    "BaseEvent",
    "CacheHitEvent",
    "CheckpointSavedEvent",
    "Event",
    "EventDispatcher",
    "EventProcessor",
    "InterruptEvent",
    "NodeEndEvent",
    "NodeErrorEvent",
    "NodeProgressEvent",
    "NodeRetryEvent",
    "NodeStartEvent",
    "RouteDecisionEvent",
    "RunEndEvent",
    "RunStartEvent",
    "RunStatus",
    "StopRequestedEvent",
    "StreamingChunkEvent",
    "SuperstepStartEvent",
    "TypedEventProcessor",
]


def __getattr__(name: str) -> Any:
    if name not in (*__all__, "fresh_span_id"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module("hypergraph.events.types"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
