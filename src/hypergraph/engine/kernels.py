"""How to wait without an event loop: by not suspending at all.

A sync run is driven by `finish`, which expects the coroutine to come to its end in one go. The one thing it
may hand out on the way is an event for somebody who iterates over the run.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Coroutine, Generator, Sequence
from types import coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from hypergraph.exceptions import HypergraphError

if TYPE_CHECKING:
    from concurrent.futures import Future

    from hypergraph.engine.ports import Places
    from hypergraph.engine.scope import Scope

T = TypeVar("T")


class SyncKernel:
    """Wait by blocking the thread; nothing runs at the same time."""

    concurrent = False
    quick = True
    offload_all = overlaps = False
    places: Places | None = None
    width: int | None = 1
    stride = float("inf")

    async def breathe(self) -> None:
        """Do nothing: nobody else waits for this thread."""

    def is_cancelled(self, error: BaseException) -> bool:
        """Return False: nobody cancels a sync run from outside."""
        return False

    def wake(self) -> None:
        """Do nothing: sleepers wait for the scope's own event."""

    async def sleep(self, seconds: float, scope: Scope) -> None:
        """Block until the time is over, the run must stop or its deadline passes."""
        scope.awake.wait(min(seconds, scope.remaining()))

    async def within(self, call: Awaitable[T], seconds: float | None) -> T:
        """Await the call: what does not suspend cannot be interrupted."""
        return await call

    async def offload(self, call: Callable[[], T]) -> T:
        """Call right here."""
        return call()

    async def settle(self, call: Callable[[], T]) -> T:
        """Call right here."""
        return call()

    async def until(self, future: Future[Any], scope: Scope | None) -> bool:
        """Raise: nothing is called elsewhere where nothing runs at the same time."""
        raise HypergraphError("A sync run without an executor has nothing to wait for.")

    async def limited(self, call: Callable[[], Awaitable[T]]) -> T:
        """Await the call: one at a time is within any limit."""
        return await call()

    async def together(
        self, calls: Sequence[Callable[[], Awaitable[Any]]], go_on: Callable[[], bool] | None = None
    ) -> None:
        """Await one call after another."""
        for call in calls:
            await call()
            if go_on is not None and not go_on():
                return

    async def flow(self, starts: Sequence[int], run_one: Callable[[int], Awaitable[Sequence[int]]]) -> None:
        """Await calls as they become possible, in order."""
        waiting = list(starts)
        while waiting:
            waiting.extend(await run_one(waiting.pop(0)))

    async def beside(self, main: Coroutine[Any, Any, None], side: Coroutine[Any, Any, None]) -> None:
        """Await one coroutine after the other; not used, because nothing runs at the same time here."""
        await side
        await main

    def turnstile(self, width: int) -> Any:
        """Raise: nobody has to wait for others where nothing runs at the same time."""
        raise HypergraphError("A sync run without an executor has nobody to hold back.")

    def signal(self) -> Any:
        """Raise: there is nothing to wait for where nothing runs at the same time."""
        raise HypergraphError("A sync run has nothing to wait for.")


def is_cancellation(error: BaseException) -> bool:
    """Say whether the error is asyncio's cancellation, without loading asyncio to find out."""
    loaded = sys.modules.get("asyncio.exceptions")
    return loaded is not None and isinstance(error, loaded.CancelledError)


@coroutine
def hand_out(event: Any) -> Generator[Any, None, None]:
    """Give an event to whoever drives the coroutine, and go on when asked to."""
    yield event


def finish(run: Coroutine[Any, None, None]) -> None:
    """Drive a coroutine to its end. Raises HypergraphError if it has to wait."""
    for _ in run.__await__():  # cheaper than send(None), whose StopIteration has to be caught
        run.close()
        raise HypergraphError("A SyncRunner cannot wait for async work; use AsyncRunner.")
