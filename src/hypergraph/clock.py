"""The wall clock: times that are stored, deadlines and timers; nothing is ordered by it.

`clock` is read at every call, so that a test can put another in its place.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any

clock: Callable[[], datetime] = partial(datetime.now, UTC)
skip: Callable[[float], None] | None = None  # moves the clock of a test over a wait, instead of waiting
adopt: Callable[[Any], bool] | None = None  # lets timers of an event loop follow the clock of a test


def now() -> datetime:
    """Return the current time in UTC."""
    return clock()


def skips() -> bool:
    """Return whether waits take no time, because the clock of a test moves over them."""
    return skip is not None


def waited(seconds: float) -> float:
    """Return how long to wait for this time to pass: not at all if the clock of a test skips waits."""
    if skip is None:
        return seconds
    skip(seconds)
    return 0.0
