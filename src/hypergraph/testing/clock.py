"""FakeClock: a clock for stores and runs that stands still, jumps and runs backwards as a test wants."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Any, Self

from hypergraph import clock
from hypergraph.durability import journal
from hypergraph.engine import concurrent, execute, inner_steps, nested, run
from hypergraph.nodes.names import got

Span = timedelta | float
_MOMENT = 1e-6  # seconds; a datetime knows no shorter ones
# The names under which the engine has its clocks: it reads them too often for an indirection.
_CLOCKS = tuple((module, "clock") for module in (run, execute, concurrent, nested))
_CLOCKS += ((inner_steps, "_clock"), (journal, "_clock"))
_MONOTONIC = tuple((module, "monotonic") for module in (run, execute))
_entered: dict[int, int] = {}  # clocks that are in use, by id, with the thread that entered each


class FakeClock:
    """Be the clock of every store and run in this process, inside a `with` block.

    It stands still at `start`, a datetime with a time zone, by default the present. `tick` is how far it
    moves with every reading, in seconds or as a timedelta; a negative one lets time run backwards. Clocks may
    be nested; leaving the block restores the one before. A function that calls `datetime.now()` or
    `time.sleep()` gets the real time: give it its time as a service or an input.

    With `skip=True` runs do not wait, and all their time is that of the clock: the delays of retries, the
    waits of timers and, under AsyncRunner, every `asyncio.sleep` move it. Timeouts of nodes, inner steps and
    runs pass by it, and durations are measured with it. A sync function takes time by `clock.jump(...)`.

    >>> import asyncio
    >>> @node(output_name="page", timeout=30.0)
    ... async def fetch(url: str) -> str:
    ...     await asyncio.sleep(3600)
    ...     return url
    >>> with FakeClock(skip=True) as clock:
    ...     begin = clock.time
    ...     result = asyncio.run(AsyncRunner().run(Graph([fetch]), url="a", error_handling="continue"))
    >>> type(result.error).__name__, (clock.time - begin).total_seconds()
    ('NodeTimeoutError', 30.0)

    Raises:
        TypeError: `start` is not a datetime, or `tick` not a timedelta or a number.
        ValueError: `start` has no time zone.
        RuntimeError: the clock is entered a second time, another thread has one, or `skip=True` meets an
            event loop that is not asyncio's own.
    """

    def __init__(self, start: datetime | None = None, *, tick: Span = 0.0, skip: bool = False) -> None:
        self._time = (_moment(start) if start is not None else clock.now()).astimezone(UTC)
        _span(tick)
        self.tick = tick  # how far each look moves it
        self.skip = skip  # whether waits move it, and take no time
        self._passed = 0.0  # seconds by which it was moved forward: what a timeout sees
        self._loops: dict[Any, Callable[[], None]] = {}  # event loops that follow it, and how to free them
        self._undo: ExitStack | None = None
        self._lock = threading.Lock()
        self._is_nested = False  # it may be entered in a thread for which that of the clock around it waits

    @property
    def time(self) -> datetime:
        """The time it shows; reading it does not move it."""
        return self._time

    def jump(self, span: Span) -> None:
        """Move the clock, back if the span is negative.

        Raises:
            OverflowError: the date does not exist.
            TypeError: `span` is not a timedelta or a number.
        """
        with self._lock:
            moved = _span(span)
            self._time += moved
            self._passed += max(moved.total_seconds(), 0.0)

    def __call__(self) -> datetime:
        """Return the time and move on by one tick."""
        with self._lock:
            self._time += _span(self.tick)
            return self._time

    def __enter__(self) -> Self:
        if self._undo is not None:
            raise RuntimeError("this clock is in use already; make another one")
        if not self._is_nested and any(thread != threading.get_ident() for thread in _entered.values()):
            raise RuntimeError(
                "a FakeClock is the clock of the whole process, and another thread has entered one. Run such "
                "tests one after another, or in processes, as pytest -n does."
            )
        self._undo = ExitStack()
        _entered[id(self)] = threading.get_ident()
        self._undo.callback(_entered.pop, id(self), None)
        places: list[tuple[Any, str, Any]] = [
            (clock, "clock", self),
            (clock, "skip", self.jump if self.skip else None),
            (clock, "adopt", self._adopt if self.skip else None),
        ]
        if self.skip:
            for names in (_CLOCKS, _MONOTONIC):
                began = getattr(*names[0])() - self._passed
                places += [(*place, lambda began=began: began + self._passed) for place in names]
        for module, name, value in places:
            self._undo.callback(setattr, module, name, getattr(module, name))
            setattr(module, name, value)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._undo is not None:
            self._undo.close()
            self._undo = None
        while self._loops:
            self._loops.popitem()[1]()

    def _adopt(self, loop: Any) -> bool:
        """Let the timers of an event loop follow this clock: where the loop would wait, the clock moves.

        While a worker thread is at work the loop waits for it, and no time passes.
        """
        if loop in self._loops:
            return True
        selector = getattr(loop, "_selector", None)
        if selector is None:
            raise RuntimeError(
                f"FakeClock(skip=True) needs an event loop of asyncio, got {type(loop).__name__}. Use "
                "asyncio.run(main()) in tests."
            )
        select, in_executor = selector.select, loop.run_in_executor
        began, threads = loop.time() - self._passed, 0

        def look(timeout: float | None = None) -> Any:
            found = select(0)
            if found or timeout == 0:
                return found
            if threads or timeout is None:
                return select(None)
            self.jump(max(timeout, _MOMENT))
            return found

        def counted(executor: Any, func: Callable[..., Any], *args: Any) -> Any:
            nonlocal threads
            threads += 1

            def over(_: object) -> None:
                nonlocal threads
                threads -= 1

            future = in_executor(executor, func, *args)
            future.add_done_callback(over)
            return future

        def free() -> None:
            del selector.select, loop.time, loop.run_in_executor

        selector.select, loop.time, loop.run_in_executor = look, lambda: began + self._passed, counted
        self._loops[loop] = free
        return True


def _span(given: Span) -> timedelta:
    if isinstance(given, timedelta):
        return given
    if isinstance(given, bool) or not isinstance(given, (int, float)):
        raise TypeError(f"FakeClock moves by a timedelta or a number of seconds, got {got(given)}")
    return timedelta(seconds=given)


def _moment(given: Any) -> datetime:
    if not isinstance(given, datetime):
        raise TypeError(
            f"FakeClock(start) takes a datetime, as in datetime(2026, 1, 31, tzinfo=UTC), got {got(given)}"
        )
    if given.tzinfo is None:  # the zone of the machine would decide what the tests see
        raise ValueError(
            f"FakeClock(start) needs a time zone: {given!r} is another moment on every machine. "
            "Pass tzinfo=UTC, for example."
        )
    return given
