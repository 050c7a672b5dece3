"""What the comparison with other libraries says, tried: `python -m benchmarks.facts`.

There is a module for each library, which runs in an environment that has it, with a dict `FACTS`: the first
words of a row of the table in docs/explanation/comparison.md, and a function that runs a small program and
returns whether it is so. That something does not exist cannot be run: such cells stand in italics.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

NAMES, LOOPS, SPELLING, TYPES = "Arrows from names", "Loops", "A misspelled name", "Types that do not fit"
FAILURE, ITEMS, PAUSE, FORK = "After a failure", "A map of which", "A pause", "A fork"

Facts = dict[str, Callable[[], bool]]


def raises(work: Callable[[], Any]) -> bool:
    """Say whether this raises anything."""
    try:
        work()
    except Exception:
        return True
    return False


class Shaky:
    """A piece of work that remembers what it was asked for, and fails until it is mended."""

    def __init__(self, fails_for: object) -> None:
        self.fails_for = fails_for
        self.calls: list[Any] = []

    def __call__(self, asked: Any) -> Any:
        """Return what was asked for, or fail."""
        self.calls.append(asked)
        if asked == self.fails_for:
            raise ConnectionError("not today")
        return asked

    def mend(self) -> None:
        """Let it succeed from now on, and forget the calls."""
        self.fails_for = None
        self.calls.clear()
