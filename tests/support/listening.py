"""Keep the events of real runs and say in short what they were."""

from __future__ import annotations

from typing import Any

from hypergraph import (
    AsyncEventProcessor,
    BaseEvent,
    InterruptEvent,
    NodeEndEvent,
    NodeErrorEvent,
    NodeStartEvent,
    RunEndEvent,
    RunStartEvent,
)
from hypergraph.testing import RecordingProcessor

CLOSING = (NodeEndEvent, NodeErrorEvent, InterruptEvent)


class Recorder(RecordingProcessor):
    """Keep every event in order, as long as the run lasts."""

    def on_event(self, event: BaseEvent) -> None:
        assert not self.shutdowns, "an event after shutdown"
        super().on_event(event)

    @property
    def short(self) -> list[str]:
        return [short(event) for event in self.events]


class AwaitedRecorder(AsyncEventProcessor, Recorder):
    """Keep events, but take turns of the event loop before doing so."""

    def __init__(self, turns: int = 3) -> None:
        super().__init__()
        self.turns = turns

    async def on_event_async(self, event: BaseEvent) -> None:
        for _ in range(self.turns):
            await breath()
        self.on_event(event)


class breath:
    """Let everybody else on the event loop go first."""

    def __await__(self) -> Any:
        yield


def short(event: Any) -> str:
    """Return "NodeStart a": the kind of an event and whom it is about."""
    name = getattr(event, "node_name", None) or getattr(event, "graph_name", "")
    return f"{type(event).__name__.removesuffix('Event')} {name}".rstrip()


def assert_closed(events: list[Any]) -> None:
    """Hold the laws of spans: every start is closed once, by its own kind, inside its parent."""
    open_spans: dict[str, Any] = {}
    for event in events:
        if isinstance(event, (RunStartEvent, NodeStartEvent)):
            assert event.span_id not in open_spans
            assert event.parent_span_id is None or event.parent_span_id in open_spans, event
            open_spans[event.span_id] = event
        elif isinstance(event, (RunEndEvent, *CLOSING)):
            start = open_spans.pop(event.span_id)
            assert isinstance(start, RunStartEvent) == isinstance(event, RunEndEvent)
            assert start.parent_span_id == event.parent_span_id
            assert (start.run_id, start.graph_name) == (event.run_id, event.graph_name)
            assert event.span_id not in {other.parent_span_id for other in open_spans.values()}
        else:
            assert event.parent_span_id in open_spans, event
            assert event.span_id not in open_spans
    assert not open_spans
