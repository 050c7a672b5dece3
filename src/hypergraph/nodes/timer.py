"""TimerNode and the functions that make one: a run waits until a moment, in its process or in the store."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from hypergraph.nodes.interrupt import LONGEST, InterruptNode
from hypergraph.nodes.names import Names, got

AUTO = timedelta(seconds=60)  # a longer wait is left to the store

Hold = timedelta | float | Literal["auto"]


class TimerNode(InterruptNode):
    """Wait until a moment; `pause_until` and `pause_for` make one.

    Its output is that moment. An answer under the name of the output ends the wait early.

    Args:
        source: a function that returns the moment, or the delay
        name: the name of the node; by default that of the function
        output_name: the name of its output, the moment
        relative: whether the function returns a delay
        hold: the longest wait inside of the process; a longer one pauses a stored run. "auto": 60 s
        emit: names of outputs without a value, for the `wait_for` of other nodes
        wait_for: outputs of other nodes that must exist before it starts
        hide: leave the node out of drawings
    """

    reason = "timer"  # why a run waits at it, as in `PauseInfo`
    relative: bool  # whether the function returns a delay instead of a moment
    hold: timedelta  # the longest wait inside of the process

    def __init__(
        self,
        source: Callable[..., Any],
        name: str | None = None,
        output_name: Names = None,
        *,
        relative: bool = False,
        hold: Hold = "auto",
        emit: Names = None,
        wait_for: Names = None,
        hide: bool = False,
    ) -> None:
        super().__init__(source, name, output_name, answer=datetime, emit=emit, wait_for=wait_for, hide=hide)
        if len(self.data_outputs) != 1:
            raise ValueError(f"Timer {self.name!r} has one output, the moment at which it is due.")
        self.__dict__.update(relative=relative, hold=_checked_hold(hold))

    def due_after(self, found: Any, now: datetime) -> datetime:
        """Return the moment that the function named. Raises TypeError or ValueError for anything else."""
        what = f"Timer {self.name!r}"
        return now + _delay(what, found) if self.relative else _moment(what, found)


def pause_until(
    name: str,
    when: datetime | Callable[..., datetime],
    *,
    output_name: str | None = None,
    hold: Hold = "auto",
    emit: Names = None,
    wait_for: Names = None,
    hide: bool = False,
) -> TimerNode:
    """Make a timer that is due at a moment; a moment in the past is due at once.

    >>> pause_until("remind", lambda sent_at: sent_at + timedelta(days=2)).inputs
    ('sent_at',)

    Args:
        name: the name of the node
        when: a datetime with a time zone, or a function that returns one; its parameters are inputs
        output_name: the name of its output, the moment; by default that of the node
        hold: the longest wait inside of the process; a longer one pauses a stored run. "auto": 60 s
        emit: names of outputs without a value, for the `wait_for` of other nodes
        wait_for: outputs of other nodes that must exist before it starts
        hide: leave the node out of drawings

    Raises:
        ValueError: the moment has no time zone.
        TypeError: it is neither a datetime nor a function.
    """
    source = when if callable(when) else _constant(_moment(f"Timer {name!r}", when))
    return _timer(source, name, output_name, False, hold, emit, wait_for, hide)


def pause_for(
    name: str,
    delay: timedelta | float | Callable[..., timedelta | float],
    *,
    output_name: str | None = None,
    hold: Hold = "auto",
    emit: Names = None,
    wait_for: Names = None,
    hide: bool = False,
) -> TimerNode:
    """Make a timer that is due some time after it has started.

    >>> pause_for("cool_down", 3600, wait_for="draft").outputs
    ('cool_down',)

    Args:
        name: the name of the node
        delay: a timedelta, seconds, or a function that returns either; its parameters are inputs
        output_name: the name of its output, the moment; by default that of the node
        hold: the longest wait inside of the process; a longer one pauses a stored run. "auto": 60 s
        emit: names of outputs without a value, for the `wait_for` of other nodes
        wait_for: outputs of other nodes that must exist before it starts
        hide: leave the node out of drawings

    Raises:
        ValueError: the delay is negative, or not a number.
        TypeError: it is neither a timedelta, nor a number, nor a function.
    """
    source = delay if callable(delay) else _constant(_delay(f"Timer {name!r}", delay))
    return _timer(source, name, output_name, True, hold, emit, wait_for, hide)


def _timer(  # noqa: PLR0917 - the options of both functions
    source: Callable[..., Any],
    name: str,
    output_name: str | None,
    relative: bool,
    hold: Hold,
    emit: Names,
    wait_for: Names,
    hide: bool,
) -> TimerNode:
    return TimerNode(
        source,
        name,
        output_name or name,
        relative=relative,
        hold=hold,
        emit=emit,
        wait_for=wait_for,
        hide=hide,
    )


def _constant(value: Any) -> Callable[[], Any]:
    def due() -> Any:
        return value

    return due


def _checked_hold(hold: Any) -> timedelta:
    if hold == "auto":
        return AUTO
    return _delay("hold", hold)


def _delay(what: str, found: Any) -> timedelta:
    if isinstance(found, bool) or not isinstance(found, (int, float, timedelta)):
        raise TypeError(f"{what} needs a timedelta or a number of seconds, got {got(found)}")
    try:
        delay = found if isinstance(found, timedelta) else timedelta(seconds=found)
    except (ValueError, OverflowError):
        raise ValueError(f"{what} cannot wait for {found!r} seconds") from None
    if delay < timedelta(0):
        raise ValueError(f"{what} cannot wait for a negative time, got {found!r}")
    if delay > LONGEST:
        raise ValueError(f"{what} cannot wait for more than {LONGEST.days} days, got {found!r}")
    return delay


def _moment(what: str, found: Any) -> datetime:
    if not isinstance(found, datetime):
        raise TypeError(f"{what} needs a datetime, got {got(found)}")
    if found.tzinfo is None or found.utcoffset() is None:
        raise ValueError(f"{what} needs a datetime with a time zone, got {found.isoformat()}; add tzinfo=UTC")
    return found.astimezone(UTC)
