"""When things ran, as bars of text: one lane each, alike ones folded into one where there are too many."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace

from hypergraph.display import columns, escape
from hypergraph.graph.overlay import WORST_FIRST

Span = tuple[float, float]  # start and length, in milliseconds

_PARTS = " ▏▎▍▌▋▊▉█"  # eighths of a cell, from the left
_IDLE = 0.5  # of all the time: a pause longer than this share is cut out
_GAP = 0.02  # of what is left, for the place of the cut
_WITHOUT_TERMINAL, _LEAST, _MOST = 40, 10, 80


@dataclass(frozen=True, slots=True)
class Lane:
    """One row: a step, or all steps of a node."""

    key: tuple[object, ...]  # lanes of the same key may be folded
    name: str
    depth: int
    status: str
    critical: bool
    spans: list[Span]
    total: float | None
    count: int


def folded(lanes: Sequence[Lane], most: int) -> list[Lane]:
    """Return the lanes, or if they are too many, one for each key, in order of their first."""
    if len(lanes) <= most:
        return list(lanes)
    groups: dict[tuple[object, ...], list[Lane]] = {}
    for lane in lanes:
        groups.setdefault(lane.key, []).append(lane)
    return [_together(group) for group in groups.values()]


def _together(group: Sequence[Lane]) -> Lane:
    first = group[0]
    if len(group) == 1:
        return first
    times = [lane.total for lane in group if lane.total is not None]
    name = str(first.key[1])
    return replace(
        first,
        name=f"{name} ×{len(group)}",
        status=min((lane.status for lane in group), key=_badness),
        critical=any(lane.critical for lane in group),
        spans=[span for lane in group for span in lane.spans],
        total=sum(times) if times else None,
        count=len(group),
    )


def _badness(status: str) -> int:
    order = ("failed", "partial", *WORST_FIRST)
    return order.index(status) if status in order else len(order)


def bar_width(*other_columns: Sequence[str]) -> int:
    """Return how many cells a bar may have beside other columns of a table."""
    if not sys.stdout.isatty():
        return _WITHOUT_TERMINAL
    taken = sum(max(columns(escape(cell)) for cell in column) + 3 for column in other_columns)
    return max(_LEAST, min(_MOST, shutil.get_terminal_size().columns - taken - 4))


def bars(lanes: Sequence[Lane], width: int) -> tuple[list[str], float]:
    """Return a bar for each lane, on one axis, and the time that was cut out of it."""
    spans = [span for lane in lanes for span in lane.spans]
    if not spans:
        return ["" for _ in lanes], 0.0
    axis = _Axis(spans)
    return [_bar([axis.placed(span, width) for span in lane.spans], width) for lane in lanes], axis.cut


class _Axis:
    """From the first start to the last end, without a long time in which nothing ran."""

    def __init__(self, spans: Sequence[Span]) -> None:
        ordered = sorted(spans)
        self.begin = ordered[0][0]
        end, idle = self.begin, (0.0, 0.0)
        for start, length in ordered:
            idle = max(idle, (start - end, end))
            end = max(end, start + length)
        whole = end - self.begin
        self.cut = 0.0
        self.cut_at = end
        if whole and idle[0] / whole > _IDLE:
            self.cut, self.cut_at = idle[0] - _GAP * (whole - idle[0]), idle[1]
        self.length = max(whole - self.cut, 1e-9)

    def placed(self, span: Span, width: int) -> tuple[float, float]:
        """Return the first and the last place of a span, in cells."""
        start, length = span
        if start > self.cut_at:
            start -= self.cut
        first = (start - self.begin) / self.length * width
        return first, first + length / self.length * width


def _bar(places: Sequence[tuple[float, float]], width: int) -> str:
    """Fill the cells that spans cover; what takes less than a cell is still seen."""
    filled, begins = [0.0] * width, [False] * width
    for first, last in places:
        lowest = min(int(first), width - 1)
        for cell in range(lowest, min(int(last) + 1, width)):
            covered = min(last, cell + 1) - max(first, cell)
            filled[cell] = min(1.0, filled[cell] + max(covered, 0.0))
        filled[lowest] = max(filled[lowest], 1 / 8)
        begins[lowest] |= last > lowest + 1 and filled[lowest] < 1
    return "".join(map(_cell, filled, begins)).rstrip()


def _cell(part: float, begins: bool) -> str:
    """Return a block that is as full as its cell; where a bar begins, at the right of it."""
    if begins and part < 7 / 8:
        return "▐" if part > 3 / 8 else "▕"
    return _PARTS[max(round(part * 8), 1 if part else 0)]
