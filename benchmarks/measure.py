"""How speed is measured here: as ratios of things that ran side by side.

Every case is cut into short slices. Slices of all cases take turns, and of each case the best slice
counts: what disturbs the machine for a moment disturbs one slice, not the comparison.

Nothing but the standard library is imported here: this runs in the environments of other libraries too.
"""

from __future__ import annotations

import asyncio
import gc
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from functools import cache
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROUNDS = 60
SLICE_SECONDS = 0.002
WIDTH = 8  # siblings beside each other
_MESSAGE = 470  # characters, which make half a kilobyte of JSON
_numbers = count()


def plus_one(x):
    return x + 1


async def plus_one_async(x):
    return x + 1


def message(number: int) -> dict[str, str]:
    """Return a message of half a kilobyte."""
    return {"role": "user", "content": f"message {number}, {'lorem ipsum ' * 40}"[:_MESSAGE]}


def on_loop(loop: asyncio.AbstractEventLoop, coroutine: Callable[[], Any]) -> Callable[[], Any]:
    return lambda: loop.run_until_complete(coroutine())


@cache
def _folder() -> TemporaryDirectory[str]:
    return TemporaryDirectory(prefix="bench")  # gone when the process ends


def scratch(name: str) -> str:
    """Return the path of a new file that lasts as long as this process."""
    return str(Path(_folder().name) / f"{next(_numbers)}-{name}")


def bytes_of_file(path: str | Path) -> int:
    """Return what a SQLite file takes up when everything is in it."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return Path(path).stat().st_size


@dataclass
class Case:
    """Something to measure: one call of `work` does `units` units."""

    name: str
    work: Callable[[], object]
    units: int = 1
    best: float = field(default=float("inf"))
    repeats: int = 1

    def calibrate(self, slices: int = 1) -> None:
        """Warm up, and find out how often the work fits into so many slices."""
        self.work()
        started = time.perf_counter()
        self.work()
        self.repeats = max(1, int(SLICE_SECONDS * slices / max(time.perf_counter() - started, 1e-9)))

    def slice(self) -> None:
        """Run one slice and keep the best time per unit."""
        work, repeats = self.work, self.repeats
        started = time.perf_counter()
        for _ in range(repeats):
            work()
        self.best = min(self.best, (time.perf_counter() - started) / (repeats * self.units))

    @property
    def nanoseconds(self) -> float:
        """The best time per unit."""
        return self.best * 1e9


def bare_loop(units: int = 1000) -> Case:
    """Return the unit of everything: a call of a function that does next to nothing."""

    def work() -> None:
        x = 0
        for _ in range(units):
            x = plus_one(x)

    return Case("bare call", work, units)


def measure(cases: list[Case], rounds: int = ROUNDS, *, slices: int = 1) -> None:
    """Measure cases side by side; each turn is so many slices long."""
    for case in cases:
        case.calibrate(slices)
    for case in cases:
        case.calibrate(slices)  # once more, now that everything is warm
    was_enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        for number in range(rounds):
            for case in cases if number % 2 else reversed(cases):
                case.slice()
            gc.collect(0)
    finally:
        if was_enabled:
            gc.enable()
