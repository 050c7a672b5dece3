"""What one call of a runner shares: kernel, cache, listeners, deadline and stop request.

They hold for the run, all runs nested in it and all items of a map.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import Any

from hypergraph.engine.ports import Keeper, Kernel, NodeCache, Observer
from hypergraph.exceptions import CancellationError, RunTimeoutError, StopRequested
from hypergraph.nodes.context import DEFAULT_LOGGER

clock = time.perf_counter
NEVER = float("inf")
DEFAULT_LIMIT = 1000


class Scope:
    """What all runs of one call share. Most calls need no more than these defaults."""

    observer: Observer | None = None
    keeper: Keeper | None = None
    on_missing = "ignore"
    timeout: float | None = None
    deadline: float | None = None
    halt_at = NEVER
    stop_request: StopRequested | None = None
    root: Any = None  # the outermost Run or MapRun
    quick = True  # whether plain functions may be called in place
    _awake: threading.Event | None = None

    def __init__(
        self, kernel: Kernel, cache: NodeCache | None, logger: logging.Logger | None, max_iterations: int
    ) -> None:
        self.kernel = kernel
        self.cache = cache
        self.logger = logger or DEFAULT_LOGGER
        self.max_iterations = max_iterations
        if not kernel.quick:
            self.quick = False

    def configure(self, observer: Observer | None, on_missing: str, timeout: float | None) -> None:
        """Set what is out of the ordinary; a timeout counts from here."""
        self.observer = observer
        self.on_missing = on_missing
        if timeout is not None:
            self.timeout = timeout
            self.halt_at, self.deadline = clock() + timeout, time.monotonic() + timeout
        # A plain call made in place passes no listener and cannot be cut off by a deadline.
        if observer is not None or (timeout is not None and self.kernel.concurrent):
            self.quick = False

    def keep(self, keeper: Keeper | None) -> None:
        """Have the runs of this call written down."""
        if keeper is not None:
            self.keeper = keeper

    def stop(self, info: Any = None) -> None:
        """Ask every run of this scope to stop before its next node."""
        request = StopRequested(info)
        if self.__dict__.setdefault("stop_request", request) is not request:
            return  # somebody was first; of two threads only one can be
        if self.observer is not None:
            self.observer.stop_requested(self, info)  # before the run can notice, and end
        self.halt_at = -NEVER
        if self._awake is not None:
            self._awake.set()
        self.kernel.wake()

    def remaining(self) -> float:
        """Return the seconds until the call must be over."""
        return max(self.halt_at - clock(), 0.0)

    @property
    def awake(self) -> threading.Event:
        """An event that a stop request sets, made when somebody is about to wait for it."""
        if self._awake is None:
            self._awake = threading.Event()
            if self.stop_request is not None:
                self._awake.set()
        return self._awake

    def halt_error(self, name: str, was_executing: bool) -> CancellationError:
        """Return the error for a run that ends here because of a stop request or the deadline."""
        if self.stop_request is not None:
            return CancellationError(name, self.stop_request, was_executing=was_executing)
        cause = TimeoutError(f"the run's timeout of {self.timeout:g} s has passed")
        return RunTimeoutError(name, cause, was_executing=was_executing, timeout=self.timeout or 0.0)
