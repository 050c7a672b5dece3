"""FakeClock: a clock for stores and runs that stands still, jumps and runs backwards as a test wants."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Self

from hypergraph import clock

Span = timedelta | float


class FakeClock:
    """Be the clock of every store and run in this process, inside a `with` block.

    It stands still at `start`, by default the present. `tick` is how far it moves with every reading, in
    seconds or as a timedelta; a negative one lets time run backwards. With `skip=True` runs do not wait: the
    delays of retries and the waits of timers move the clock instead. Clocks may be nested; leaving the block
    restores the one before.

    Raises:
        RuntimeError: the clock is entered a second time.
    """

    def __init__(self, start: datetime | None = None, *, tick: Span = 0.0, skip: bool = False) -> None:
        self._time = (start if start is not None else clock.now()).astimezone(UTC)
        self.tick = tick  # how far each look moves it
        self.skip = skip  # whether waits move it, and take no time
        self._skip_before: Callable[[float], None] | None = None
        self._before: Callable[[], datetime] | None = None
        self._lock = threading.Lock()

    @property
    def time(self) -> datetime:
        """The time it shows; reading it does not move it."""
        return self._time

    def jump(self, span: Span) -> None:
        """Move the clock, back if the span is negative.

        Raises:
            OverflowError: the date does not exist.
        """
        with self._lock:
            self._time += _span(span)

    def __call__(self) -> datetime:
        """Return the time and move on by one tick."""
        with self._lock:
            self._time += _span(self.tick)
            return self._time

    def __enter__(self) -> Self:
        if self._before is not None:
            raise RuntimeError("this clock is in use already; make another one")
        self._before, self._skip_before = clock.clock, clock.skip
        clock.clock, clock.skip = self, self.jump if self.skip else None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._before is not None:
            clock.clock, self._before = self._before, None
            clock.skip, self._skip_before = self._skip_before, None


def _span(given: Span) -> timedelta:
    return given if isinstance(given, timedelta) else timedelta(seconds=given)
