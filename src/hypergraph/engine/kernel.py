"""Kernels: how the engine waits, and what it needs from outside."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Coroutine, Generator, Sequence
from types import coroutine
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TypeVar

from hypergraph.exceptions import HypergraphError, reraise

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future
    from contextlib import AbstractAsyncContextManager

    from hypergraph.engine.plan import Step
    from hypergraph.engine.run import Detail, Run, Scope
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

    async def breathe(self) -> None:
        """Let others through."""

    def is_cancelled(self, error: BaseException) -> bool:
        """Say whether the error means that the caller's task is being cancelled."""

    def wake(self) -> None:
        """End waits because a stop was requested; may be called from any thread."""

    async def sleep(self, seconds: float, scope: Scope) -> None:
        """Wait; ends early when the run is asked to stop."""

    async def within(self, call: Awaitable[Any], seconds: float | None) -> Any:
        """Await a call for at most so many seconds. Raises Expired."""

    async def offload(self, call: Callable[[], Any]) -> Any:
        """Make a blocking call off the event loop."""

    async def settle(self, call: Callable[[], Any]) -> Any:
        """Make a blocking call off the event loop, to its end whoever is cancelled."""

    async def until(self, future: Future[Any], scope: Scope | None) -> bool:
        """Wait for a future of an executor, or until the scope is to stop; return whether it is done."""

    async def limited(self, call: Callable[[], Awaitable[Any]]) -> Any:
        """Await a leaf call under the concurrency limit."""

    async def together(
        self, calls: Sequence[Callable[[], Awaitable[Any]]], go_on: Callable[[], bool] | None = None
    ) -> None:
        """Await several calls, concurrently where that is possible, while `go_on` says so."""

    async def flow(self, starts: Sequence[int], run_one: Callable[[int], Awaitable[Sequence[int]]]) -> None:
        """Await calls, starting those that each one sets free as soon as it is done."""

    async def beside(self, main: Coroutine[Any, Any, None], side: Coroutine[Any, Any, None]) -> None:
        """Await two coroutines at the same time; neither outlives the other's failure."""

    def turnstile(self, width: int) -> AbstractAsyncContextManager[Any]:
        """Return something that so many can be inside of at a time."""

    def signal(self) -> Any:
        """Return something to `set()` once and `await wait()` for."""


class Places(Protocol):
    """Who calls functions elsewhere."""

    def of(self, run: Run, step: Step) -> Executor | None:
        """Return the executor that is to call a step, None where the run calls it itself."""

    async def call(self, executor: Executor, run: Run, step: Step, superstep: int) -> Any:
        """Have an executor call a step, and return what its function returned."""


class Observer(Protocol):
    """Who wants to know what happens. Nothing is built when there is no observer."""

    async def run_started(self, run: Run) -> None: ...
    async def run_ended(self, run: Run) -> None: ...
    async def replayed(self, run: Run) -> None: ...
    async def checkpoint_saved(self, run: Run, indexes: tuple[int, ...]) -> None: ...
    async def superstep_started(self, run: Run, superstep: int) -> None: ...
    async def node_started(self, run: Run, step: Step) -> str: ...
    async def node_ended(self, run: Run, step: Step, detail: Detail, seconds: float) -> None: ...
    async def node_failed(self, run: Run, step: Step, span_id: str, error: BaseException) -> None: ...
    async def node_retried(
        self, run: Run, step: Step, attempt: int, error: BaseException, delay: float
    ) -> None: ...
    async def cache_hit(self, run: Run, step: Step, key: str) -> None: ...
    async def decided(self, run: Run, step: Step, decision: Any) -> None: ...
    async def interrupted(self, run: Run, step: Step, span_id: str, pause: PauseInfo) -> None: ...
    async def map_started(self, map_run: Any) -> None: ...
    async def map_ended(self, map_run: Any) -> None: ...
    def chunk(self, run: Run, name: str, chunk: Any) -> None: ...
    def stop_requested(self, scope: Scope, info: Any) -> None: ...


class Keeper(Protocol):
    """Who keeps the history of runs, so that it survives the process."""

    def open(self, run: Run) -> bool | None:
        """Begin or take up the history of a run; return whether there is anything left to do.

        None says that somebody else is at work on it, and that the call wants to wait for that.
        """

    @property
    def is_slow(self) -> bool:
        """Whether ending a run takes longer than an event loop should be held up."""

    def close(self, run: Run) -> tuple[int, ...]:
        """Write down how the run ended; return the indexes of the steps that became durable."""

    def open_map(self, map_run: Any) -> None:
        """Begin or take up the history of a map."""

    def close_map(self, map_run: Any) -> None:
        """Write down how the map ended."""


class Journal(Protocol):
    """Where the steps of one run are written down; what it raises ends the run, and is nobody's failure."""

    def before(self, step: Step, superstep: int) -> tuple[int, ...]:
        """Make durable what the step could take; return the indexes of the steps that became durable."""

    def known_result(self, step: Step, superstep: int) -> Any:
        """Return what a call that must not be repeated has returned, if somebody knows; else NOT_KNOWN."""

    def done(
        self, step: Step, superstep: int, value: Any, seconds: float, detail: Detail | None = None
    ) -> None:
        """Write down a completed step."""

    def failed(self, step: Step, superstep: int, seconds: float, detail: Detail) -> None:
        """Write down a failed step."""

    def paused(self, step: Step, superstep: int, pause: PauseInfo) -> None:
        """Write down that a step waits for an answer."""


NOT_KNOWN: Any = object()


class NodeCache(Protocol):
    """Where results of cached nodes are kept."""

    def key(self, step: Step, inputs: dict[str, Any]) -> str:
        """Return the key of a call, empty when it cannot be cached."""

    def get(self, key: str) -> tuple[bool, Any]:
        """Look a result up."""

    def set(self, key: str, value: Any) -> None:
        """Keep a result."""


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
