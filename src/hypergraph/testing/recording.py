"""RecordingProcessor: an event processor that keeps every event for a test."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from hypergraph import EventProcessor
from hypergraph.nodes.names import got

if TYPE_CHECKING:
    from hypergraph import BaseEvent, Event

Kind = TypeVar("Kind", bound="BaseEvent")


class RecordingProcessor(EventProcessor):
    """Keep every event in order, in `events`; `shutdowns` counts the runs that are over."""

    def __init__(self) -> None:
        self.events: list[Event] = []  # all so far
        self.shutdowns = 0  # how many runs are over

    def on_event(self, event: Event) -> None:
        """Keep the event."""
        self.events.append(event)

    def shutdown(self) -> None:
        """Count that a run is over."""
        self.shutdowns += 1

    def of(self, *kinds: type[Kind]) -> list[Kind]:
        """Return the events of these classes, in order.

        Raises TypeError if no class is given, or something else.
        """
        if not kinds or not all(isinstance(kind, type) for kind in kinds):
            given = ", ".join(map(got, kinds)) or "none"
            raise TypeError(f"of() takes classes of events, as in of(NodeEndEvent), got {given}")
        return [event for event in self.events if isinstance(event, kinds)]
