"""Delivery of events to processors, in order.

An exception of a processor is logged once and swallowed, unless the dispatcher is strict. KeyboardInterrupt
and cancellation pass through.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from contextlib import AsyncExitStack, ExitStack
from dataclasses import replace
from functools import lru_cache
from inspect import iscoroutinefunction
from types import TracebackType
from typing import TYPE_CHECKING

from hypergraph.events.processor import AsyncEventProcessor, EventProcessor, TypedEventProcessor
from hypergraph.exceptions import warn_caller

if TYPE_CHECKING:
    from hypergraph.events.types import Event

_logger = logging.getLogger("hypergraph")
_IGNORED = AsyncEventProcessor.on_event_async  # not overridden, it calls on_event


class _Guard:
    """A reusable context manager that logs and swallows the exceptions of one processor."""

    __slots__ = ("_logged", "_name", "_strict")

    def __init__(self, processor: EventProcessor, strict: bool) -> None:
        self._name = type(processor).__name__
        self._strict = strict
        self._logged = False

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if self._strict or not isinstance(error, Exception):
            return False
        if not self._logged:
            self._logged = True
            _logger.warning("Event processor %s failed; the run continues", self._name, exc_info=error)
        return True


class EventDispatcher:
    """Deliver events to processors: objects with a callable `on_event`.

    Their exceptions are logged and swallowed, unless `strict`.

    Raises TypeError for a single processor instead of a list, for a class instead of an instance, and
    for other objects.
    """

    __slots__ = ("_deliveries", "_shut_down", "values")

    def __init__(self, processors: Iterable[EventProcessor] | None = None, *, strict: bool = False) -> None:
        self._deliveries = tuple((each, _Guard(each, strict)) for each in _checked(processors))
        self._shut_down = False
        self.values = any(_sees_values(each) for each, _ in self._deliveries)  # whether a processor sees any

    @property
    def active(self) -> bool:
        """Whether there are processors."""
        return bool(self._deliveries)

    def emit(self, event: Event) -> None:
        """Deliver through `on_event`; raises what a processor raises only when strict."""
        bare = without_values(event) if self.values else event
        for processor, guard in self._deliveries:
            with guard:
                processor.on_event(event if bare is event or _sees_values(processor) else bare)

    async def emit_async(self, event: Event) -> None:
        """Deliver and await async processors in turn; raises what a processor raises only when strict."""
        bare = without_values(event) if self.values else event
        for processor, guard in self._deliveries:
            with guard:
                seen = event if bare is event or _sees_values(processor) else bare
                if isinstance(processor, AsyncEventProcessor):
                    await processor.on_event_async(seen)
                else:
                    processor.on_event(seen)

    def shutdown(self) -> None:
        """Shut every processor down, the first time only; raises as `emit` does, after the last one."""
        with ExitStack() as stack:
            for processor, guard in self._first_shutdown():
                stack.callback(_shutdown, processor, guard)

    async def shutdown_async(self) -> None:
        """Shut every processor down, awaiting async ones; otherwise like `shutdown`."""
        async with AsyncExitStack() as stack:
            for processor, guard in self._first_shutdown():
                stack.push_async_callback(_shutdown_async, processor, guard)

    def _first_shutdown(self) -> tuple[tuple[EventProcessor, _Guard], ...]:
        """Return the processors to shut down, last first because a stack unwinds backwards; later none."""
        if self._shut_down:
            return ()
        self._shut_down = True
        return self._deliveries[::-1]


def tell_deaf(dispatcher: EventDispatcher) -> None:
    """Warn of processors that a SyncRunner cannot reach: they override `on_event_async` alone."""
    for processor, _ in dispatcher._deliveries:
        kind = type(processor)
        awaits = getattr(kind, "on_event_async", _IGNORED) is not _IGNORED
        if awaits and getattr(processor.on_event, "__func__", None) is EventProcessor.on_event:
            warn_caller(
                f"{kind.__name__} gets no events from a SyncRunner, which awaits nothing: it overrides "
                "on_event_async alone. Override on_event as well, or use AsyncRunner."
            )


def _sees_values(processor: EventProcessor) -> bool:
    return bool(getattr(processor, "values", False))


def without_values(event: Event) -> Event:
    """Return an event without inputs and outputs, the event itself if it has none."""
    if getattr(event, "inputs", None) is not None:
        return replace(event, inputs=None)  # type: ignore[arg-type]  # only a NodeStartEvent has them
    if getattr(event, "outputs", None) is not None:
        return replace(event, outputs=None)  # type: ignore[arg-type]  # only a NodeEndEvent has them
    return event


def _checked(processors: Iterable[EventProcessor] | None) -> list[EventProcessor]:
    if processors is None:
        return []
    if not isinstance(processors, Iterable) or _is_processor(processors):
        raise TypeError(
            f"event processors must be given as a list, not as a single {type(processors).__name__}: "
            f"write [processor]"
        )
    found = list(processors)
    for each in found:
        if isinstance(each, type):
            raise TypeError(f"{each.__name__} is a class; pass an instance of it: {each.__name__}()")
        if not _is_processor(each):
            raise TypeError(f"{type(each).__name__} is not an event processor: it has no on_event method")
        if (name := _unawaited(type(each))) is not None:  # type: ignore[arg-type]  # classes are hashable
            raise TypeError(
                f"{type(each).__name__}.{name} is async, and would never be awaited. Make it a plain method, "
                "or override on_event_async and shutdown_async of AsyncEventProcessor."
            )
    return found


@lru_cache(maxsize=256)
def _unawaited(kind: type) -> str | None:
    """Return a method of a processor that is async and is called as a plain one; None if there is none."""
    names = ["on_event", "shutdown"]
    if issubclass(kind, TypedEventProcessor):
        names += kind._HANDLERS.values()
    return next((name for name in names if iscoroutinefunction(getattr(kind, name, None))), None)


def _is_processor(candidate: object) -> bool:
    return callable(getattr(candidate, "on_event", None))


def _shutdown(processor: EventProcessor, guard: _Guard) -> None:
    # A duck-typed processor may have no shutdown method.
    release = getattr(processor, "shutdown", None)
    if release is not None:
        with guard:
            release()


async def _shutdown_async(processor: EventProcessor, guard: _Guard) -> None:
    if isinstance(processor, AsyncEventProcessor):
        with guard:
            await processor.shutdown_async()
    else:
        _shutdown(processor, guard)
