"""How speed is measured here: as ratios of things that ran side by side in one process.

Every case is cut into short slices. Slices of all cases take turns, and of each case the best slice
counts: what disturbs the machine for a moment disturbs one slice, not the comparison.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass, field

ROUNDS = 60
SLICE_SECONDS = 0.002


@dataclass
class Case:
    """Something to measure: one call of `work` does `units` units."""

    name: str
    work: Callable[[], object]
    units: int = 1
    best: float = field(default=float("inf"))
    repeats: int = 1

    def calibrate(self) -> None:
        """Warm up, and find out how often the work fits into one slice."""
        self.work()
        started = time.perf_counter()
        self.work()
        self.repeats = max(1, int(SLICE_SECONDS / max(time.perf_counter() - started, 1e-9)))

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


def measure(cases: list[Case], rounds: int = ROUNDS) -> None:
    """Measure cases side by side."""
    for case in cases:
        case.calibrate()
    for case in cases:
        case.calibrate()  # once more, now that everything is warm
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
