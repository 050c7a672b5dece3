"""Handles on background runs, and iterators over runs."""

from __future__ import annotations

import contextvars
import threading
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


class RunIterator:
    """The events of a run, one after another."""

    def __init__(self, run: Run, steps: Iterator[Event], conclude: Callable[[], RunResult]) -> None:
        self._run = run
        self._is_over = False
        self._events = self._iterate(steps, conclude)

    def _iterate(
        self, steps: Iterator[Event], conclude: Callable[[], RunResult]
    ) -> Generator[Event, None, None]:
        try:
            yield from until_left(self._run, steps)
        finally:
            self._is_over = True
        conclude()

    def __iter__(self) -> Iterator[Event]:
        yield from self._events  # leaving this one closes that one

    def __next__(self) -> Event:
        return next(self._events)

    def close(self) -> None:
        """Stop the run unless it has ended."""
        self._events.close()

    @property
    def run_id(self) -> str:
        """The id of the run."""
        return self._run.run_id

    @cached_property
    def result(self) -> RunResult:
        """The result of the run. Raises RuntimeError before its end."""
        return finished(self._run, self._is_over)


def finished(run: Run, is_over: bool) -> RunResult:
    """Return the result of a run. Raises RuntimeError before its end."""
    if not is_over:
        raise RuntimeError(
            "The run has not ended: the result is available after the last event, or after close(); "
            "with AsyncRunner, `await aclose()` stops the run and waits for its end."
        )
    return result_of(run)
