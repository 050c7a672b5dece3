"""Events on an event loop: one at a time and in order, chunks while their node is still at work."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from hypergraph.runners.observe import Deliver, EventObserver

if TYPE_CHECKING:
    from hypergraph.events.types import Event


class AsyncObserver(EventObserver):
    """Deliver events in the order in which they happened, however long a processor takes."""

    def __init__(self, deliver: Deliver) -> None:
        turn = asyncio.Lock()  # nodes that run at the same time report at the same time

        async def deliver_in_turn(event: Event) -> None:
            async with turn:
                await deliver(event)

        super().__init__(deliver_in_turn)
        self._loop = asyncio.get_running_loop()
        self._flush_is_due = False
        self._flushes: set[asyncio.Task[None]] = set()

    def flush(self) -> None:
        """Deliver the backlog as soon as the loop gets to it; may be called from a worker thread."""
        if not self._flush_is_due:
            self._flush_is_due = True
            self._loop.call_soon_threadsafe(self._start_flush)

    def _start_flush(self) -> None:
        self._flush_is_due = False  # what is added from here on may be too late for this flush
        if self.backlog:
            task = self._loop.create_task(self.drain())
            self._flushes.add(task)
            task.add_done_callback(self._flushes.discard)

    async def settle(self) -> None:
        """Wait for the flushes that are under way: no task outlives its run."""
        if self._flushes:
            await asyncio.wait(self._flushes)
