"""Base classes of event processors.

A processor receives the events of every run it is passed to, in order. It may be used for several runs, one
after another or at the same time; `shutdown` is called when an outermost run that used it has ended.
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


class EventProcessor:
    """Receive the events of runs. Both methods do nothing unless overridden.

    With `values=True` its NodeStartEvents have the inputs and its NodeEndEvents the outputs: the objects
    themselves, which must not be changed. A class with a constructor of its own can set the attribute.

    >>> class Names(EventProcessor):
    ...     def on_event(self, event):
    ...         if type(event).__name__ == "NodeEndEvent":
    ...             print(event.node_name)
    >>> count = FunctionNode(lambda words: len(words), "count", "total")
    >>> result = SyncRunner().run(Graph([count]), words=[], event_processors=[Names()])
    count
    """

    values = False  # whether it gets inputs and outputs

    def __init__(self, *, values: bool = False) -> None:
        self.values = values

    def on_event(self, event: Event) -> None:
        """Handle one event."""

    def shutdown(self) -> None:
        """Release resources after an outermost run."""


class AsyncEventProcessor(EventProcessor):
    """Receive events in coroutines under AsyncRunner, in plain calls under SyncRunner.

    Args:
        values: whether it gets inputs and outputs, as in EventProcessor
    """

    async def on_event_async(self, event: Event) -> None:
        """Handle one event; calls `on_event` unless overridden."""
        self.on_event(event)

    async def shutdown_async(self) -> None:
        """Release resources after an outermost run; calls `shutdown` unless overridden."""
        self.shutdown()


class TypedEventProcessor(EventProcessor):
    """Receive events in one method per kind of event; override those you need.

    Args:
        values: whether it gets inputs and outputs, as in EventProcessor
    """

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
        "NodeProgressEvent": "on_node_progress",
        "CheckpointSavedEvent": "on_checkpoint_saved",
    }

    def on_event(self, event: Event) -> None:
        """Call the method for the kind of the event; unknown kinds are ignored."""
        handler = self._HANDLERS.get(type(event).__name__)
        if handler is not None:
            getattr(self, handler)(event)

    def on_run_start(self, event: RunStartEvent) -> None:
        """Handle the start of a run or map."""

    def on_run_end(self, event: RunEndEvent) -> None:
        """Handle the end of a run or map."""

    def on_superstep_start(self, event: SuperstepStartEvent) -> None:
        """Handle the start of a superstep."""

    def on_node_start(self, event: NodeStartEvent) -> None:
        """Handle the start of a node."""

    def on_node_end(self, event: NodeEndEvent) -> None:
        """Handle the end of a node."""

    def on_node_error(self, event: NodeErrorEvent) -> None:
        """Handle the failure of a node, after its last attempt."""

    def on_node_retry(self, event: NodeRetryEvent) -> None:
        """Handle a failed attempt that will be retried."""

    def on_cache_hit(self, event: CacheHitEvent) -> None:
        """Handle outputs that came from the cache."""

    def on_route_decision(self, event: RouteDecisionEvent) -> None:
        """Handle the decision of a gate."""

    def on_interrupt(self, event: InterruptEvent) -> None:
        """Handle a node that waits for an answer."""

    def on_stop_requested(self, event: StopRequestedEvent) -> None:
        """Handle a stop request."""

    def on_streaming_chunk(self, event: StreamingChunkEvent) -> None:
        """Handle a streamed chunk."""

    def on_node_progress(self, event: NodeProgressEvent) -> None:
        """Handle a node that says how far it is."""

    def on_checkpoint_saved(self, event: CheckpointSavedEvent) -> None:
        """Handle steps that became durable."""
