"""What came of one suite: how many cases it tried, which failed and how to repeat them, how long it took."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import get_context
from typing import TypeVar

T = TypeVar("T")


@dataclass
class Outcome:
    """The outcome of a suite. A failure is a text with the seed of its case and how to repeat it."""

    name: str
    cases: int = 0
    failures: list[str] = field(default_factory=list)
    seconds: float = 0.0
    skipped: str | None = None
    note: str = ""  # what was not tried, and why

    @contextmanager
    def timed(self) -> Iterator[Outcome]:
        """Add the time that the block takes."""
        began = time.perf_counter()
        try:
            yield self
        finally:
            self.seconds += time.perf_counter() - began

    def count(self, failure: str | None = None) -> None:
        """Count one case; with a text, one that failed."""
        self.cases += 1
        if failure is not None:
            self.failures.append(failure)


def scaled(full: int, scale: float, least: int = 1) -> int:
    """Say how many of `full` cases a suite makes at this scale."""
    return max(least, round(full * scale))


def everywhere(work: Callable[[range], list[T]], chunks: Sequence[range]) -> Iterator[T]:
    """Yield what the work returns of each chunk, from as many processes as there are processors.

    A single chunk is done here.
    """
    if len(chunks) == 1:
        yield from work(chunks[0])
        return
    with ProcessPoolExecutor(os.cpu_count(), get_context("spawn")) as pool:
        for found in pool.map(work, chunks):
            yield from found
