"""Handles on what runs in the background: ask whether it is done, stop it, wait for it."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

from hypergraph.engine.nested import MapRun
from hypergraph.engine.run import Run

T = TypeVar("T")
R = TypeVar("R")


class Handle(Generic[R]):
    """Something under way; `result()` gives the result itself, under AsyncRunner a coroutine of it."""

    def __init__(self, run: Run | MapRun, done: Callable[[], bool], result: Callable[[], R]) -> None:
        self._run = run
        self._done = done
        self._result = result

    @property
    def run_id(self) -> str:
        """The id of the run."""
        return self._run.run_id

    @property
    def done(self) -> bool:
        """Whether the run has ended, whichever way."""
        return self._done()

    def stop(self, info: Any = None) -> None:
        """Ask the run to stop before its next node."""
        self._run.scope.stop(info)

    def result(self) -> R:
        """Wait for the run to end and return its result. Raises what `run` or `map` would have raised."""
        return self._result()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.run_id!r}, {'done' if self.done else 'running'})"


class RunHandle(Handle[R]):
    """A run that was started in the background."""


class MapHandle(Handle[R]):
    """A map that was started in the background."""


def in_thread(work: Callable[[], T]) -> Future[T]:
    """Start work in a thread of its own, with the context variables of the caller.

    The thread is no daemon: a program that comes to its end waits for it, so that no node is cut off midway.
    """
    future: Future[T] = Future()

    def target() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # handed to whoever asks for the result
            future.set_exception(error)

    threading.Thread(target=contextvars.copy_context().run, args=(target,), name="hypergraph run").start()
    return future
