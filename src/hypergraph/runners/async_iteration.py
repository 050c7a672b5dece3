"""An async run as an iterator: between nodes it goes on only as far as somebody asks for the next thing.

Functions that are under way do not wait for the consumer; what they have to report does. `break` lets the run
stop in the background; `await iterator.aclose()` waits until it has stopped.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from hypergraph.engine.nested import MapRun
from hypergraph.engine.run import Run
from hypergraph.runners.iteration import LEFT, finished
from hypergraph.runs.run_result import RunResult

if TYPE_CHECKING:
    from hypergraph.events.types import Event

T = TypeVar("T")


class Handover(Generic[T]):
    """Pass things from a run to its consumer, one at a time."""

    def __init__(self) -> None:
        self._offers: asyncio.Queue[tuple[T, asyncio.Future[None]] | None] = asyncio.Queue()
        self._givers: set[asyncio.Future[None]] = set()
        self._is_open = True

    async def give(self, thing: T) -> None:
        """Offer a thing and wait until the consumer asks for the next one, or has left."""
        if self._is_open:
            self._givers.add(giver := asyncio.get_running_loop().create_future())
            self._offers.put_nowait((thing, giver))
            await giver

    def _release(self, giver: asyncio.Future[None]) -> None:
        self._givers.discard(giver)
        if not giver.done():  # it may have been cancelled
            giver.set_result(None)

    async def take(
        self, run: Run | MapRun, work: Callable[[], Coroutine[Any, Any, None]]
    ) -> AsyncGenerator[T, None]:
        """Start the work and yield what it gives; nothing of it is left when the consumer is gone."""
        task = asyncio.create_task(work())
        task.add_done_callback(lambda _: self._offers.put_nowait(None))
        try:
            while (offer := await self._offers.get()) is not None:
                thing, giver = offer
                yield thing
                self._release(giver)
        except asyncio.CancelledError:  # whoever cancels the consumer cancels its run
            task.cancel()
            raise
        except GeneratorExit:
            run.scope.stop(LEFT)
            raise
        finally:
            self._is_open = False
            for giver in list(self._givers):
                self._release(giver)
            await task


_background: set[asyncio.Task[Any]] = set()  # a loop holds on to its tasks only weakly


def as_task(work: Coroutine[Any, Any, T]) -> tuple[Callable[[], bool], Callable[[], Awaitable[T]]]:
    """Start work as a task; return how to ask whether it is done, and how to wait for what it returns."""
    task = asyncio.create_task(work)
    _background.add(task)
    task.add_done_callback(_background.discard)

    async def result() -> T:
        return await task

    return task.done, result


class AsyncRunIterator:
    """The events of a run, one after another."""

    def __init__(
        self, run: Run, events: AsyncGenerator[Event, None], conclude: Callable[[], RunResult]
    ) -> None:
        self._run = run
        self._is_over = False
        self._closing = asyncio.Lock()
        self._events = self._iterate(events, conclude)

    async def _iterate(
        self, events: AsyncGenerator[Event, None], conclude: Callable[[], RunResult]
    ) -> AsyncGenerator[Event, None]:
        try:
            async for event in events:
                yield event
        finally:
            await events.aclose()
            self._is_over = True
        conclude()

    async def __aiter__(self) -> AsyncIterator[Event]:
        try:
            async for event in self._events:
                yield event
        finally:  # of a loop that was left, whenever it is collected: somebody may have been faster
            if not self._closing.locked():
                await self.aclose()

    async def __anext__(self) -> Event:
        return await anext(self._events)

    async def aclose(self) -> None:
        """Stop the run unless it is over, and wait until it is."""
        async with self._closing:
            await self._events.aclose()

    @property
    def run_id(self) -> str:
        """The id of the run."""
        return self._run.run_id

    @cached_property
    def result(self) -> RunResult:
        """The result of the run. Raises RuntimeError while it is still under way."""
        return finished(self._run, self._is_over)
