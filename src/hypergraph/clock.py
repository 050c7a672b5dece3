"""The wall clock: times that are stored, deadlines and timers; nothing is ordered by it.

`clock` is read at every call, so that a test can put another in its place.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial

clock: Callable[[], datetime] = partial(datetime.now, UTC)


def now() -> datetime:
    """Return the current time in UTC."""
    return clock()
