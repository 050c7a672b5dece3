"""Kernels: how the engine waits."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Coroutine, Generator, Sequence
from types import coroutine
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TypeVar

from hypergraph.clock import waited
from hypergraph.exceptions import HypergraphError, reraise

if TYPE_CHECKING:
    from concurrent.futures import Future

    from hypergraph.engine.run import CallContext
    from hypergraph.executors.dispatch import NodeExecutors
    from hypergraph.records import PauseInfo


AWAY = "remote"  # why a run waits for a nested graph on another worker


class Expired(Exception):
    """A call took longer than its timeout."""


class PauseExecution(BaseException):
    """The signal that pauses a run; runners never let it out.

    It is a `BaseException`, so that no handler between the interrupt and its run mistakes it for a failure.
    """

    def __init__(self, *pauses: PauseInfo) -> None:
        super().__init__(*pauses)
        self.pauses = pauses  # what the run waits for
        self.pause = pauses[0]  # the first of them


class Carried(Exception):
    """A StopIteration wrapped to leave a coroutine, which cannot raise it itself."""

    def __init__(self, error: StopIteration) -> None:
        super().__init__(error)
        self.error = error


_HIDDEN = ("coroutine raised StopIteration",)


def original(raised: BaseException) -> BaseException:
    """Return the exception that was originally raised; Python hides a StopIteration of a coroutine."""
    if isinstance(raised, Carried):
        return raised.error
    if (
        type(raised) is RuntimeError
        and raised.args == _HIDDEN
        and isinstance(raised.__cause__, StopIteration)
    ):
        return raised.__cause__
    return raised


def pass_on(error: BaseException) -> NoReturn:
    """Raise an error inside a coroutine unchanged."""
    if isinstance(error, StopIteration):
        raise Carried(error)
    reraise(error)


class Kernel(Protocol):
    """How the engine waits. The sync kernel never suspends, the async one awaits an event loop."""

    concurrent: bool
    quick: bool  # whether plain functions may be called in place, past `limited` and `offload`
    offload_all: bool
    overlaps: bool  # whether sync functions can run at the same time
    executors: NodeExecutors | None  # the executors that call functions, None without
    width: int | None  # the limit of concurrent leaf calls, None for no limit
    stride: float  # seconds of calls in place before control is yielded

    async def yield_control(self) -> None:
        """Yield control to other tasks."""

    def is_cancelled(self, error: BaseException) -> bool:
        """Return whether the error means that the task of the caller is being cancelled."""

    def wake(self) -> None:
        """End all sleeps because of a stop request; may be called from any thread."""

    async def sleep(self, seconds: float, context: CallContext) -> None:
        """Sleep; ends early when the run is asked to stop."""

    async def within(self, call: Awaitable[Any], seconds: float | None) -> Any:
        """Await a call with a timeout. Raises Expired."""

    async def within_begun(
        self,
        call: Callable[[Callable[[float], None]], Awaitable[Any]],
        seconds: float | None,
        latest: float | None,
    ) -> Any:
        """Await a call with a timeout from when it says that it has begun; `latest` counts from now on.

        Raises Expired.
        """

    async def offload(self, call: Callable[[], Any]) -> Any:
        """Make a blocking call outside the event loop."""

    async def settle(self, call: Callable[[], Any]) -> Any:
        """Make a blocking call outside the event loop; a cancelled caller still waits for its end."""

    async def until(
        self,
        future: Future[Any],
        context: CallContext | None,
        look: Callable[[], float | None] | None = None,
    ) -> bool:
        """Wait for a future of an executor, or for a stop request; return whether it is done.

        Meanwhile `look` is called; it returns after how many seconds it wants to be called again.
        """

    async def limited(self, call: Callable[[], Awaitable[Any]]) -> Any:
        """Await a leaf call under the concurrency limit."""

    async def together(
        self, calls: Sequence[Callable[[], Awaitable[Any]]], go_on: Callable[[], bool] | None = None
    ) -> None:
        """Await several calls, concurrently if possible, while `go_on` returns True."""

    async def flow(self, starts: Sequence[int], run_one: Callable[[int], Awaitable[Sequence[int]]]) -> None:
        """Await calls; each returns the calls to start next."""

    def turns(self, width: int) -> Any:
        """Return a semaphore of this width, with `turn(rank)`: who waits is served by rank."""

    def signal(self) -> Any:
        """Return an event with `set()` and an awaitable `wait()`."""


NOT_KNOWN: Any = object()  # returned by Journal.known_result for an unknown result
HALTED: Any = object()  # returned by a debugger before a step that is not to be performed any more


T = TypeVar("T")


class SyncKernel:
    """Wait by blocking the thread; nothing runs concurrently."""

    concurrent = False
    quick = True
    offload_all = overlaps = False
    executors: NodeExecutors | None = None
    width: int | None = 1
    stride = float("inf")

    async def yield_control(self) -> None:
        """Do nothing: there are no other tasks."""

    def is_cancelled(self, error: BaseException) -> bool:
        """Return False: a sync run has no task that could be cancelled."""
        return False

    def wake(self) -> None:
        """Do nothing: sleeps wait for the event of the context."""

    async def sleep(self, seconds: float, context: CallContext) -> None:
        """Block until the time is over, a stop request or the deadline."""
        context.awake.wait(waited(min(seconds, context.remaining())))

    async def within(self, call: Awaitable[T], seconds: float | None) -> T:
        """Await the call: without suspension there is no timeout."""
        return await call

    async def within_begun(
        self,
        call: Callable[[Callable[[float], None]], Awaitable[T]],
        seconds: float | None,
        latest: float | None,
    ) -> T:
        """Raise HypergraphError: a sync run without an executor has no calls that wait for a worker."""
        raise HypergraphError("A sync run without an executor has no calls that wait for a worker.")

    async def offload(self, call: Callable[[], T]) -> T:
        """Call right here."""
        return call()

    async def settle(self, call: Callable[[], T]) -> T:
        """Call right here."""
        return call()

    async def until(
        self,
        future: Future[Any],
        context: CallContext | None,
        look: Callable[[], float | None] | None = None,
    ) -> bool:
        """Raise HypergraphError: a sync run without an executor has no futures."""
        raise HypergraphError("A sync run without an executor has no futures to wait for.")

    async def limited(self, call: Callable[[], Awaitable[T]]) -> T:
        """Await the call: one at a time is below any limit."""
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
        """Await the calls one after another."""
        waiting = list(starts)
        while waiting:
            waiting.extend(await run_one(waiting.pop(0)))

    def turns(self, width: int) -> Any:
        """Raise HypergraphError: a sync run without an executor needs no semaphore."""
        raise HypergraphError("A sync run without an executor needs no semaphore.")

    def signal(self) -> Any:
        """Raise HypergraphError: a sync run without an executor has no events to wait for."""
        raise HypergraphError("A sync run without an executor has no events to wait for.")


def is_cancellation(error: BaseException) -> bool:
    """Return whether the error is an asyncio cancellation, without importing asyncio."""
    loaded = sys.modules.get("asyncio.exceptions")
    return loaded is not None and isinstance(error, loaded.CancelledError)


@coroutine
def hand_out(event: Any) -> Generator[Any, None, None]:
    """Yield an event to the driver of the coroutine."""
    yield event


def finish(run: Coroutine[Any, None, None]) -> None:
    """Drive a coroutine to its end. Raises HypergraphError if it suspends."""
    for _ in run.__await__():  # cheaper than send(None), whose StopIteration has to be caught
        run.close()
        raise HypergraphError("A SyncRunner cannot wait for async work; use AsyncRunner.")
