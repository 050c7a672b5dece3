"""Events of a run and the processors that observe them; progress bars and tracing live in submodules."""

from hypergraph.events.dispatcher import EventDispatcher
from hypergraph.events.processor import AsyncEventProcessor, EventProcessor, TypedEventProcessor
from hypergraph.events.types import (
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
    RunStatus,
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
