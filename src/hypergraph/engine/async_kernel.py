"""Kernel on an event loop. The only module of the engine that imports asyncio."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar

from hypergraph import clock
from hypergraph.engine.kernel import Expired, is_cancellation

if TYPE_CHECKING:
    from concurrent.futures import Future

    from hypergraph.engine.run import CallContext
    from hypergraph.executors.dispatch import NodeExecutors

T = TypeVar("T")


class AsyncKernel:
    """Wait by awaiting. Created for every call, so nothing is tied to a closed event loop."""

    concurrent = True
    stride = 0.005

    def __init__(
        self,
        max_concurrency: int | None = None,
        *,
        offload_all: bool = False,
        executors: NodeExecutors | None = None,
        at_once: int | None = None,
    ) -> None:
        self.offload_all = offload_all
        self._at_once = at_once  # calls of `together` that start before one has ended, if `go_on` asks
        self.executors = executors
        self.overlaps = offload_all or executors is not None
        self.width = max_concurrency
        self.quick = max_concurrency is None and not self.overlaps
        self._sleepers: set[asyncio.Future[None]] = set()
        self._limit = asyncio.Semaphore(max_concurrency) if max_concurrency is not None else None
        # Executors work in real time: their timeouts must not pass while they do.
        adopts = clock.adopt is not None and executors is None
        self._is_virtual = adopts and clock.adopt(asyncio.get_running_loop())  # type: ignore[misc]  # as above

    async def yield_control(self) -> None:
        """Let the loop run its other tasks once."""
        await asyncio.sleep(0)

    def is_cancelled(self, error: BaseException) -> bool:
        """Return whether the error is the cancellation of the current task."""
        task = asyncio.current_task()
        return is_cancellation(error) and task is not None and task.cancelling() > 0

    def wake(self) -> None:
        """End sleeps; safe from any thread."""
        for sleeper in list(self._sleepers):
            _end(sleeper)

    async def sleep(self, seconds: float, context: CallContext) -> None:
        """Sleep until the time is over, a stop request or the deadline."""
        self._sleepers.add(sleeper := asyncio.get_running_loop().create_future())
        try:
            if context.stop_request is None:  # later requests end the sleep
                left = min(seconds, context.remaining())
                await asyncio.wait([sleeper], timeout=left if self._is_virtual else clock.waited(left))
        finally:
            self._sleepers.discard(sleeper)

    async def within(self, call: Awaitable[T], seconds: float | None) -> T:
        """Await a call with a timeout. Raises Expired for this timeout only."""
        if seconds is None:
            return await call
        limit = asyncio.timeout(seconds)
        try:
            async with limit:
                return await call
        except TimeoutError:
            if limit.expired():
                raise Expired from None
            raise

    async def within_begun(
        self,
        call: Callable[[Callable[[float], None]], Awaitable[T]],
        seconds: float | None,
        latest: float | None,
    ) -> T:
        """Await a call with a timeout from when it says, from any thread, that it began so many seconds ago.

        Raises Expired.
        """
        loop, limit = asyncio.get_running_loop(), asyncio.timeout(latest)

        def start(ago: float) -> None:
            when, now = limit.when(), loop.time() - ago
            if seconds is not None and not is_over and (when is None or now + seconds < when):
                limit.reschedule(now + seconds)

        def begun(ago: float) -> None:
            loop.call_soon_threadsafe(start, ago)

        is_over = False
        try:
            async with limit:
                try:
                    return await call(begun)
                finally:
                    is_over = True
        except TimeoutError:
            if limit.expired():
                raise Expired from None
            raise

    async def offload(self, call: Callable[[], T]) -> T:
        """Make a blocking call in a worker thread, with the context variables of the caller."""
        context = contextvars.copy_context()
        try:
            future = asyncio.get_running_loop().run_in_executor(None, context.run, call)
        except RuntimeError:
            if threading.main_thread().is_alive():
                raise
            return context.run(call)  # the interpreter shuts down, and starts no more threads
        return await future

    async def settle(self, call: Callable[[], T]) -> T:
        """Make a blocking call in a worker thread; a cancelled caller waits for its end."""
        settling = asyncio.ensure_future(self.offload(call))
        try:
            return await asyncio.shield(settling)
        except asyncio.CancelledError:
            while not settling.done():
                with suppress(asyncio.CancelledError):  # a second cancellation waits as well
                    await asyncio.wait([settling])
            raise

    async def until(
        self,
        future: Future[Any],
        context: CallContext | None,
        look: Callable[[], float | None] | None = None,
    ) -> bool:
        """Wait for a future of an executor; with a context, until a stop request at the latest.

        Returns whether it is done. Cancelling the caller cancels the future.
        """
        loop = asyncio.get_running_loop()
        sleeper = loop.create_future()

        timer: asyncio.TimerHandle | None = None

        def look_again() -> None:
            nonlocal timer
            seconds = look() if look is not None else None
            timer = None if seconds is None else loop.call_later(seconds, look_again)

        look_again()
        future.add_done_callback(lambda _: _end(sleeper))
        if context is not None:
            self._sleepers.add(sleeper)
        try:
            if context is None or context.stop_request is None:  # later requests end the sleep
                await sleeper
        except asyncio.CancelledError:
            future.cancel()
            raise
        finally:
            self._sleepers.discard(sleeper)
            if timer is not None:
                timer.cancel()
        return future.done()

    async def limited(self, call: Callable[[], Awaitable[T]]) -> T:
        """Await a leaf call under the concurrency limit. Leaves do not wait for each other: no deadlock."""
        if self._limit is None:
            return await call()
        async with self._limit:
            return await call()

    async def together(
        self, calls: Sequence[Callable[[], Awaitable[Any]]], go_on: Callable[[], bool] | None = None
    ) -> None:
        """Await several calls at the same time, within the limit."""
        waiting = iter(calls)

        async def work() -> None:
            for call in waiting:
                await call()
                if go_on is not None and not go_on():
                    return

        width = len(calls) if self.width is None else min(self.width, len(calls))
        if go_on is not None and self._at_once is not None:  # what has started cannot be left out
            width = min(width, self._at_once)
        await self._all([work() for _ in range(width)])

    async def flow(self, starts: Sequence[int], run_one: Callable[[int], Awaitable[Sequence[int]]]) -> None:
        """Await calls; start those that each call returns as soon as it is done."""
        tasks = _Tasks()

        async def follow(index: int) -> None:
            following: Sequence[int] = (index,)
            while following:
                for other in following[1:]:
                    tasks.start(follow(other))
                following = await run_one(following[0])

        for index in starts:
            tasks.start(follow(index))
        await tasks.wait()

    def turns(self, width: int) -> Turns:
        """Return a semaphore of this width that serves by rank."""
        return Turns(width)

    def signal(self) -> asyncio.Event:
        """Return an event."""
        return asyncio.Event()

    async def _all(self, works: Sequence[Coroutine[Any, Any, None]]) -> None:
        tasks = _Tasks()
        for work in works:
            tasks.start(work)
        await tasks.wait()


class Turns:
    """A semaphore; who waits is served by rank, and among equals in order."""

    def __init__(self, width: int) -> None:
        self._free = width
        self._waiting: list[tuple[Any, int, asyncio.Future[None]]] = []
        self._numbers = count()

    @asynccontextmanager
    async def turn(self, rank: Any) -> AsyncIterator[None]:
        """Wait for a turn, and take it."""
        if self._free:
            self._free -= 1
        else:
            turn = asyncio.get_running_loop().create_future()
            heappush(self._waiting, (rank, next(self._numbers), turn))
            try:
                await turn
            except asyncio.CancelledError:
                if not turn.cancelled():
                    self._give_on()  # it came at the last moment
                raise
        try:
            yield
        finally:
            self._give_on()

    def _give_on(self) -> None:
        while self._waiting:
            turn = heappop(self._waiting)[2]
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1


def _end(sleeper: asyncio.Future[None]) -> None:
    """End a sleep; safe from any thread."""
    try:
        sleeper.get_loop().call_soon_threadsafe(_set, sleeper)
    except RuntimeError:  # the loop is closed, and its sleeps with it
        pass


def _set(sleeper: asyncio.Future[None]) -> None:
    if not sleeper.done():
        sleeper.set_result(None)


class _Tasks:
    """A group of tasks: it ends with the last task, or with the failure of any."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._running: set[asyncio.Task[None]] = set()
        self._over: asyncio.Future[None] = self._loop.create_future()

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Start a task."""
        task = self._loop.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._note)

    def _note(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        if self._over.done():
            return
        if error is not None:
            self._over.set_exception(error)
        elif not self._running:
            self._over.set_result(None)

    async def wait(self) -> None:
        """Await all tasks; cancel the others if one fails. Raises the exception of that task."""
        if not self._running:
            return
        try:
            await self._over
        finally:
            left = list(self._running)
            for task in left:
                task.cancel()
            if left:
                await asyncio.gather(*left, return_exceptions=True)
