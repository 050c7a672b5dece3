"""Handles on what runs in the background: ask whether it is done, stop it, wait for it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from hypergraph.engine.nested import MapRun
from hypergraph.engine.run import Run
from hypergraph.runs.results import MapResult
from hypergraph.runs.run_result import RunResult

T = TypeVar("T")


class Handle(Generic[T]):
    """A run in a thread of its own."""

    def __init__(self, run: Run | MapRun, drive: Callable[[], None], conclude: Callable[[], T]) -> None:
        self._run = run
        self._conclude = conclude
        self._error: BaseException | None = None
        self.run_id = run.run_id
        self._thread = threading.Thread(target=self._work, args=(drive,), name=f"hypergraph {self.run_id}")
        self._thread.start()

    def _work(self, drive: Callable[[], None]) -> None:
        try:
            drive()
        except BaseException as error:  # handed to whoever asks for the result
            self._error = error

    @property
    def done(self) -> bool:
        """Whether the run has ended, whichever way."""
        return not self._thread.is_alive()

    def stop(self, info: Any = None) -> None:
        """Ask the run to stop before its next node."""
        self._run.scope.stop(info)

    def result(self) -> T:
        """Wait for the run to end and return its result. Raises what `run` or `map` would have raised."""
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._conclude()


class RunHandle(Handle[RunResult]):
    """A run that was started in the background."""


class MapHandle(Handle[MapResult]):
    """A map that was started in the background."""
