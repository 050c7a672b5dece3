"""What an observer looks like: override what you need, everything else does nothing.

A processor sees the events of every run it is given to, in order. It may be used for one run after
another and for several at a time; `shutdown` means that the outermost run which used it is over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from hypergraph.events.types import (
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


class EventProcessor:
    """Observe runs. Both methods do nothing unless overridden."""

    def on_event(self, event: Event) -> None:
        """Take note of one event."""

    def shutdown(self) -> None:
        """Release what was held for the run that is over."""


class AsyncEventProcessor(EventProcessor):
    """Observe runs with coroutines where the runner can await them, with plain calls elsewhere."""

    async def on_event_async(self, event: Event) -> None:
        """Take note of one event; calls `on_event` unless overridden."""
        self.on_event(event)

    async def shutdown_async(self) -> None:
        """Release what was held for the run that is over; calls `shutdown` unless overridden."""
        self.shutdown()


class TypedEventProcessor(EventProcessor):
    """Observe runs with one method per kind of event; those not overridden ignore it."""

    _HANDLERS: ClassVar[dict[str, str]] = {
        "RunStartEvent": "on_run_start",
        "RunEndEvent": "on_run_end",
        "SuperstepStartEvent": "on_superstep_start",
        "NodeStartEvent": "on_node_start",
        "NodeEndEvent": "on_node_end",
        "NodeErrorEvent": "on_node_error",
        "NodeRetryEvent": "on_node_retry",
        "CacheHitEvent": "on_cache_hit",
        "RouteDecisionEvent": "on_route_decision",
        "InterruptEvent": "on_interrupt",
        "StopRequestedEvent": "on_stop_requested",
        "StreamingChunkEvent": "on_streaming_chunk",
        "CheckpointSavedEvent": "on_checkpoint_saved",
    }

    def on_event(self, event: Event) -> None:
        """Hand the event to the method for its kind; an unknown kind is ignored."""
        handler = self._HANDLERS.get(type(event).__name__)
        if handler is not None:
            getattr(self, handler)(event)

    def on_run_start(self, event: RunStartEvent) -> None:
        """Take note that a run or map begins."""

    def on_run_end(self, event: RunEndEvent) -> None:
        """Take note that a run or map is over."""

    def on_superstep_start(self, event: SuperstepStartEvent) -> None:
        """Take note that a round of nodes begins."""

    def on_node_start(self, event: NodeStartEvent) -> None:
        """Take note that a node begins."""

    def on_node_end(self, event: NodeEndEvent) -> None:
        """Take note that a node has its outputs."""

    def on_node_error(self, event: NodeErrorEvent) -> None:
        """Take note that a node failed for good."""

    def on_node_retry(self, event: NodeRetryEvent) -> None:
        """Take note that a failed attempt will be repeated."""

    def on_cache_hit(self, event: CacheHitEvent) -> None:
        """Take note that outputs came from the cache."""

    def on_route_decision(self, event: RouteDecisionEvent) -> None:
        """Take note of a gate's decision."""

    def on_interrupt(self, event: InterruptEvent) -> None:
        """Take note that a node waits for an answer."""

    def on_stop_requested(self, event: StopRequestedEvent) -> None:
        """Take note that the run was asked to stop."""

    def on_streaming_chunk(self, event: StreamingChunkEvent) -> None:
        """Take note of a piece of a result."""

    def on_checkpoint_saved(self, event: CheckpointSavedEvent) -> None:
        """Take note that steps became durable."""
