"""Handles on background runs, and iterators over runs."""

from __future__ import annotations

import contextvars
import threading
import weakref
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from hypergraph.engine.nested import MapRun
from hypergraph.engine.run import Run
from hypergraph.runs.build import result_of
from hypergraph.runs.results import RunResult

if TYPE_CHECKING:
    from hypergraph.checkpointers.live import StreamReader
    from hypergraph.events.types import Event


T = TypeVar("T")
R = TypeVar("R")


class Handle(Generic[R]):
    """A call in progress; `started()` and `result()` wait for it, under AsyncRunner as coroutines."""

    def __init__(
        self,
        run: Run | MapRun,
        done: Callable[[], bool],
        result: Callable[[], R],
        started: Callable[[], Any],
    ) -> None:
        self._run = run
        self._done = done
        self._result = result
        self._started = started

    @property
    def run_id(self) -> str:
        """The id of the run."""
        return self._run.run_id

    @property
    def done(self) -> bool:
        """Whether the run has ended, with any status."""
        return self._done()

    def stop(self, info: Any = None) -> None:
        """Ask the run to stop before its next node."""
        self._run.context.stop(info)

    def started(self) -> Any:
        """Wait until the run has begun: from then on it is found in the store under its id.

        Raises the error of a run that could not begin, like WorkflowLockedError.
        """
        return self._started()

    def result(self) -> R:
        """Wait for the run to end and return its result. Raises the errors of `run` or `map`.

        To give up waiting, as asyncio.wait_for does, does not end the run: `stop()` does.
        """
        return self._result()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.run_id!r}, {'done' if self.done else 'running'})"


class RunHandle(Handle[R]):
    """A run that was started in the background."""

    def read_stream(self, node: str, *, timeout: float | None = None) -> StreamReader:
        """Iterate over what a node with `stream=True` gives to `context.stream` in this run.

        It begins with the first chunk of this run and ends with its last one, also if other runs on the
        same id, such as the next turn of a chat, begin at once. Use it with `for`, or with `async for` in
        an event loop. Its `offset` is the next one: with it `store.read_stream` reads on, in another
        process too.

        Args:
            node: The name of the node; with the graphs and items around it, as in "each/item-3/write".
            timeout: Seconds without a chunk, after which reading ends.

        Raises:
            ValueError: the runner has no checkpointer; or no such node has `stream=True`.
            RuntimeError: the run has not begun: wait for `started()` first.
        """
        recorder = self._run.context.recorder
        if recorder is None:
            raise ValueError(
                "read_stream needs a runner with a checkpointer, like AsyncRunner(checkpointer='runs.db'). "
                "Without one, take StreamingChunkEvent from runner.iter(...)."
            )
        if recorder.streams is None:
            raise RuntimeError(
                "The run is not in the store yet. Wait for its beginning before read_stream: "
                "`await handle.started()` with AsyncRunner, `handle.started()` with SyncRunner."
            )
        if self.done:
            recorder.streams.is_over = True
        return recorder.streams.read(node, timeout)


class MapHandle(Handle[R]):
    """A map that was started in the background."""


class Beginning:
    """The moment when a run is in the store, or what kept it from that."""

    def __init__(self, run: Run | MapRun) -> None:
        self.reached: Future[None] = Future()
        if run.context.recorder is None:
            self._reach()
        else:
            run.context.begun = self._reach

    def _reach(self) -> None:
        if not self.reached.done():
            self.reached.set_result(None)

    @contextmanager
    def watched(self) -> Generator[None, None, None]:
        """Note the error of a run that ends before it has begun."""
        try:
            yield
        except BaseException as error:
            if not self.reached.done():
                self.reached.set_exception(error)
            raise
        self._reach()


def in_thread(work: Callable[[], T]) -> Future[T]:
    """Start work in a new thread, with the context variables of the caller.

    It is not a daemon thread: the program waits for it at exit, so no node is cut off.
    """
    future: Future[T] = Future()

    def target() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # raised by Future.result()
            future.set_exception(error)

    threading.Thread(target=contextvars.copy_context().run, args=(target,), name="hypergraph run").start()
    return future


LEFT = "the iterator was left"  # why a run stops when its iterator is closed


def until_left(run: Run | MapRun, steps: Iterator[T]) -> Iterator[T]:
    """Yield what a run publishes; if the consumer leaves early, stop the run and let it end properly."""
    try:
        for step in steps:  # noqa: UP028 - `yield from` would throw the GeneratorExit of the consumer into the run
            yield step
    except GeneratorExit:
        run.context.stop(LEFT)
        for _ in steps:
            pass
        raise


def close_with(holder: object, steps: Generator[Any, None, None]) -> None:
    """Close a run when the object that iterates over it is dropped.

    Until then this is a reference to the run: the garbage collector would close its coroutines in any order.
    """
    weakref.finalize(holder, steps.close).atexit = False


class Iteration(Generic[T]):
    """What a run publishes, one after another; leaving the loop stops the run."""

    _things: Generator[T, None, None]

    def __iter__(self) -> Iterator[T]:
        yield from self._things  # leaving this one closes that one

    def __next__(self) -> T:
        return next(self._things)

    def close(self) -> None:
        """Stop the run unless it has ended."""
        self._things.close()


def _concluded(
    steps: Generator[T, None, None], conclude: Callable[[], Any], over: threading.Event
) -> Generator[T, None, None]:
    """Yield what a run publishes, and conclude it.

    A function, not a method: a generator that refers to its iterator would keep it alive.
    """
    try:
        yield from steps
    finally:
        over.set()
    conclude()


class MapIterator(Iteration[tuple[int, RunResult]]):
    """The items of a map, as they finish."""

    def __init__(
        self, steps: Generator[tuple[int, RunResult], None, None], conclude: Callable[[], Any]
    ) -> None:
        close_with(self, steps)
        self._things = _concluded(steps, conclude, threading.Event())


class RunIterator(Iteration["Event"]):
    """The events of a run, one after another."""

    def __init__(
        self, run: Run, steps: Generator[Event, None, None], conclude: Callable[[], RunResult]
    ) -> None:
        close_with(self, steps)
        self._run = run
        self._over = threading.Event()
        self._things = _concluded(steps, conclude, self._over)

    @property
    def run_id(self) -> str:
        """The id of the run."""
        return self._run.run_id

    @cached_property
    def result(self) -> RunResult:
        """The result of the run. Raises RuntimeError before its end."""
        return finished(self._run, self._over.is_set())


def finished(run: Run, is_over: bool) -> RunResult:
    """Return the result of a run. Raises RuntimeError before its end."""
    if not is_over:
        raise RuntimeError(
            "The run has not ended: the result is available after the last event, or after close(); "
            "with AsyncRunner, `await aclose()` stops the run and waits for its end."
        )
    return result_of(run)
