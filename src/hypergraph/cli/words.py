"""How cells are worded: statuses, durations, times."""

from __future__ import annotations

from datetime import UTC, datetime

from hypergraph.checkpointers.clock import now
from hypergraph.display import execution_time, run_time

_AGES = ((60, "s"), (60, "m"), (24, "h"), (10_000_000, "d"))


def status(name: str) -> str:
    """Return a status; failures in capitals, so that they are seen without colours too."""
    return name.upper() if name == "failed" else name


def duration(ms: float | None) -> str:
    """Return the total of a run, a dash if it is unknown."""
    return execution_time(None) if ms is None else run_time(ms)


def when(time: str | None) -> str:
    """Return a time of an answer as local time and as an age."""
    if not time:
        return "—"
    moment = datetime.fromisoformat(time).replace(tzinfo=UTC)
    return f"{moment.astimezone():%Y-%m-%d %H:%M} ({age(moment)})"


def age(moment: datetime) -> str:
    """Return how long ago a moment was, like "5m ago"."""
    left = (now() - moment).total_seconds()
    if left < 1:
        return "now"
    units = iter(_AGES)
    size, unit = next(units)
    while left >= size:
        left /= size
        size, unit = next(units)
    return f"{int(left)}{unit} ago"
