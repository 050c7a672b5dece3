"""Kernels: how the engine waits."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Coroutine, Generator, Sequence
from types import coroutine
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TypeVar

from hypergraph.exceptions import HypergraphError, reraise

if TYPE_CHECKING:
    from concurrent.futures import Future
    from contextlib import AbstractAsyncContextManager

    from hypergraph.engine.run import CallContext
    from hypergraph.executors.dispatch import Places
    from hypergraph.records import PauseInfo


class Expired(Exception):
    """A call took longer than the kernel was told to wait for it."""


class PauseExecution(BaseException):
    """The signal by which an interrupt pauses its run; no call of a runner lets it out.

    It is no `Exception`, so that nothing between the interrupt and its run takes it for a failure.
    """

    def __init__(self, *pauses: PauseInfo) -> None:
        super().__init__(*pauses)
        self.pauses = pauses  # what the run waits for
        self.pause = pauses[0]  # the first of them


class Carried(Exception):
    """A StopIteration on its way out of a coroutine, which could not raise the thing itself."""

    def __init__(self, error: StopIteration) -> None:
        super().__init__(error)
        self.error = error


def original(raised: BaseException) -> BaseException:
    """Return what was raised in the first place."""
    return raised.error if isinstance(raised, Carried) else raised


def pass_on(error: BaseException) -> NoReturn:
    """Raise an error inside a coroutine, as it is."""
    if isinstance(error, StopIteration):
        raise Carried(error)
    reraise(error)


class Kernel(Protocol):
    """How to wait. The sync kernel never suspends, the async one awaits an event loop."""

    concurrent: bool
    quick: bool  # whether plain functions may be called in place, past `limited` and `offload`
    offload_all: bool
    overlaps: bool  # whether sync functions can be under way at the same time
    places: Places | None  # where functions are called, None for here
    width: int | None  # how many leaf calls may be under way, None for any number
    stride: float  # seconds of calls in place after which others are let through

    async def yield_control(self) -> None:
        """Let others through."""

    def is_cancelled(self, error: BaseException) -> bool:
        """Say whether the error means that the caller's task is being cancelled."""

    def wake(self) -> None:
        """End waits because a stop was requested; may be called from any thread."""

    async def sleep(self, seconds: float, scope: CallContext) -> None:
        """Wait; ends early when the run is asked to stop."""

    async def within(self, call: Awaitable[Any], seconds: float | None) -> Any:
        """Await a call for at most so many seconds. Raises Expired."""

    async def offload(self, call: Callable[[], Any]) -> Any:
        """Make a blocking call off the event loop."""

    async def settle(self, call: Callable[[], Any]) -> Any:
        """Make a blocking call off the event loop, to its end whoever is cancelled."""

    async def until(self, future: Future[Any], scope: CallContext | None) -> bool:
        """Wait for a future of an executor, or until the scope is to stop; return whether it is done."""

    async def limited(self, call: Callable[[], Awaitable[Any]]) -> Any:
        """Await a leaf call under the concurrency limit."""

    async def together(
        self, calls: Sequence[Callable[[], Awaitable[Any]]], go_on: Callable[[], bool] | None = None
    ) -> None:
        """Await several calls, concurrently where that is possible, while `go_on` says so."""

    async def flow(self, starts: Sequence[int], run_one: Callable[[int], Awaitable[Sequence[int]]]) -> None:
        """Await calls, starting those that each one sets free as soon as it is done."""

    def semaphore(self, width: int) -> AbstractAsyncContextManager[Any]:
        """Return something that so many can be inside of at a time."""

    def signal(self) -> Any:
        """Return something to `set()` once and `await wait()` for."""


NOT_KNOWN: Any = object()  # what a journal says about a call whose result it does not have


T = TypeVar("T")


class SyncKernel:
    """Wait by blocking the thread; nothing runs at the same time."""

    concurrent = False
    quick = True
    offload_all = overlaps = False
    places: Places | None = None
    width: int | None = 1
    stride = float("inf")

    async def yield_control(self) -> None:
        """Do nothing: nobody else waits for this thread."""

    def is_cancelled(self, error: BaseException) -> bool:
        """Return False: nobody cancels a sync run from outside."""
        return False

    def wake(self) -> None:
        """Do nothing: sleepers wait for the scope's own event."""

    async def sleep(self, seconds: float, scope: CallContext) -> None:
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

    async def until(self, future: Future[Any], scope: CallContext | None) -> bool:
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

    def semaphore(self, width: int) -> Any:
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
