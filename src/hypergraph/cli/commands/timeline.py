"""`hypergraph timeline`: steps as bars on a time axis, folded by node if there are many."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from hypergraph.cli.arguments import Option, positive, repeated
from hypergraph.cli.call import Call, Reply
from hypergraph.cli.output import duration, status, suggested
from hypergraph.cli.stores import WF, answer
from hypergraph.cli.tables import ROWS
from hypergraph.display import Block, Table, columns, escape, execution_time, plural
from hypergraph.graph.drawing import WORST_FIRST
from hypergraph.views.timeline import NodeTimes, TimelineRow, TimelineView
from hypergraph.views.timeline import timeline as timeline_of

Span = tuple[float, float]  # start and length, in milliseconds

_PARTS = " ▏▎▍▌▋▊▉█"  # eighths of a cell, from the left
_IDLE = 0.5  # of the whole time: a longer pause is cut out
_GAP = 0.02  # of the remaining time, as space for the cut
_WITHOUT_TERMINAL, _LEAST, _MOST = 40, 10, 80


@dataclass(frozen=True, slots=True)
class Lane:
    """One bar: a step, or all steps of a node."""

    key: tuple[object, ...]  # lanes of the same key may be folded
    name: str
    depth: int
    status: str
    critical: bool
    spans: list[Span]
    total: float | None
    count: int
    run: str  # the workflow that it is in


def folded(lanes: Sequence[Lane], most: int) -> list[Lane]:
    """Return the lanes; if they are too many, one for each key."""
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
    name, count = str(first.key[1]), sum(lane.count for lane in group)
    last = {lane.run: lane.status for lane in group}  # an attempt that failed, and was repeated, is settled
    return replace(
        first,
        name=f"{name} ×{count}",
        status=min(last.values(), key=_badness),
        critical=any(lane.critical for lane in group),
        spans=[span for lane in group for span in lane.spans],
        total=sum(times) if times else None,
        count=count,
    )


def _badness(status: str) -> int:
    order = ("failed", "partial", *WORST_FIRST)
    return order.index(status) if status in order else len(order)


def bar_width(*other_columns: Sequence[str]) -> int:
    """Return the width of a bar next to the other columns of a table."""
    if not sys.stdout.isatty():
        return _WITHOUT_TERMINAL
    taken = sum(max(columns(escape(cell)) for cell in column) + 3 for column in other_columns)
    return max(_LEAST, min(_MOST, shutil.get_terminal_size().columns - taken - 4))


def bars(lanes: Sequence[Lane], width: int, others: Sequence[Span] = ()) -> tuple[list[str], float]:
    """Return a bar for each lane on one axis, and the time that was cut out of the axis.

    `others` are the times of what has no lane: nothing is cut out where it ran.
    """
    spans = [span for lane in lanes for span in lane.spans]
    if not spans:
        return ["" for _ in lanes], 0.0
    axis = _Axis(spans, others)
    return [_bar([axis.placed(span, width) for span in lane.spans], width) for lane in lanes], axis.cut


class _Axis:
    """The time from the first start to the last end, without a long pause."""

    def __init__(self, drawn: Sequence[Span], others: Sequence[Span]) -> None:
        self.begin = min(drawn)[0]
        last = max(start + length for start, length in drawn)
        ordered = sorted([*drawn, *(span for span in others if self.begin <= span[0] < last)])
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
        """Return the start and end of a span in cells."""
        start, length = span
        if start > self.cut_at:
            start -= self.cut
        first = (start - self.begin) / self.length * width
        return first, first + length / self.length * width


def _bar(places: Sequence[tuple[float, float]], width: int) -> str:
    """Fill the cells that spans cover; a span of less than a cell is still visible."""
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
    """Return the block character of a cell; at the start of a bar it is aligned right."""
    if begins and part < 7 / 8:
        return "▐" if part > 3 / 8 else "▕"
    return _PARTS[max(round(part * 8), 1 if part else 0)]


_READ = 500  # steps

timeline_options = (
    WF,
    Option("--critical", "compute the critical path of a very long workflow too"),
    Option(
        "--limit",
        f"how many steps, default {_READ}; many are folded by node",
        "N",
        positive,
        _READ,
    ),
    Option("--cursor", "continue after the previous page", "C"),
)


def timeline(call: Call) -> Reply:
    """Show when each step ran and the critical path."""
    given = call.options
    critical = True if given.critical else None
    view = answer(call, timeline_of, limit=given.limit, cursor=given.cursor, critical=critical)
    header = [
        f"Workflow: {view['workflow']}",
        status(view["status"]) + (" (owner process is gone)" if view["alive"] is False else ""),
        plural(view["total"], "item" if _is_map(view) else "step"),
        duration(view["total_ms"]),
    ]
    return Reply(view, lambda: _blocks(view), header, _next(view, call))


def _is_map(view: TimelineView) -> bool:
    return any(row["item"] is not None for row in view["items"] if row["depth"] == 0)


def _next(view: TimelineView, call: Call) -> list[str]:
    more, same = view["next_cursor"], repeated(timeline_options, call.options)
    found = [suggested("timeline", view["workflow"], options=[*same, "--cursor", more])] if more else []
    slow = max((row for row in view["items"] if row["depth"] == 0), key=_time, default=None)
    if slow is None:
        return [suggested("show", view["workflow"])]
    if slow["child"] is not None:
        return [suggested("timeline", slow["child"]), *found]
    return [suggested("step", view["workflow"], slow["index"]), *found]


def _time(row: TimelineRow) -> float:
    return row["duration_ms"] or 0.0


def _blocks(view: TimelineView) -> Iterator[Block]:
    if not view["items"]:
        yield "No step has ended yet" if view["status"] == "active" else "No steps"
        return
    lanes = folded(list(_lanes(view)), ROWS)
    shown = lanes[:ROWS]
    names = [("* " if lane.critical else "  ") + "  " * lane.depth + lane.name for lane in shown]
    others = [(execution_time(lane.total), status(lane.status)) for lane in shown]
    width = bar_width(names, *zip(*others, strict=True))
    drawn, cut = bars(shown, width, [(begin, end - begin) for begin, end in view["busy"] or ()])
    rows = [(name, *other, bar) for name, other, bar in zip(names, others, drawn, strict=True)]
    left_out = len(lanes) - len(shown)
    notes = [f"... and {plural(left_out, 'more row')}"] if left_out else []
    if view["next_cursor"]:
        notes.append(f"... more {'items' if _is_map(view) else 'steps'} follow")
    if view["not_read"]:
        notes.append(f"{plural(view['not_read'], 'nested run')} not read")
    yield Table(("Node", "Duration", "Status", "Timeline"), rows, "; ".join(notes))
    if cut:
        yield f"Idle for {duration(cut)}, not drawn"
    yield from _critical(view)


def _lanes(view: TimelineView) -> Iterator[Lane]:
    """Yield a lane for each row; where rows are left out, one for each node, with the times of all."""
    times: dict[str, list[NodeTimes]] = {}
    for each in view["nodes"]:
        times.setdefault(each["workflow"], []).append(each)
    within: int | None = None  # the depth of a row of which others are left out
    for row in view["items"]:
        if within is not None and row["depth"] > within:
            continue
        within = None
        yield _lane(row)
        if row["left_out"] and row["child"] in times:
            within = row["depth"]
            yield from map(_lane_of_all, times[row["child"]])


def _lane_of_all(times: NodeTimes) -> Lane:
    return Lane(
        key=(times["depth"], times["node"], times["item"]),
        name=f"{times['node']} ×{times['count']}",
        depth=times["depth"],
        status=times["status"],
        critical=bool(times["critical"]),
        spans=[(begin, end - begin) for begin, end in times["busy"]],
        total=times["duration_ms"],
        count=times["count"],
        run=times["workflow"],
    )


def _lane(row: TimelineRow) -> Lane:
    name = row["node"] if row["item"] is None else f"{row['node']} item {row['item']}".strip()
    return Lane(
        key=(row["depth"], row["node"], row["item"] is not None),
        name=name,
        depth=row["depth"],
        status=row["status"],
        critical=bool(row["critical"]),
        spans=[] if row["start_ms"] is None else [(row["start_ms"], row["duration_ms"] or 0.0)],
        total=row["duration_ms"],
        count=1,
        run=row["workflow"],
    )


def _critical(view: TimelineView) -> Iterator[Block]:
    path = view["critical"]
    if path is None:
        yield "To compute the critical path of this long workflow: --critical"
        return
    if not path["nodes"]:
        return
    rows: list[tuple[object, ...]] = [
        (
            *(node["path"], node["steps"], execution_time(node["duration_ms"])),
            *(execution_time(node["self_ms"]), f"{node['share']:.0%}"),
        )
        for node in path["nodes"][:ROWS]
    ]
    left_out = len(path["nodes"]) - len(rows)
    more = [f"... and {plural(left_out, 'more node')}"] if left_out else []
    more += [f"{plural(path['left_out'], 'nested run')} not followed"] if path["left_out"] else []
    busy = "" if view["busy_ms"] is None else f"; sum of all steps {execution_time(view['busy_ms'])}"
    beside = ""
    if path["waiting_ms"] is not None and view["total_ms"] is not None:
        beside = f" of {execution_time(view['total_ms'])}"
        if path["waiting_ms"] >= 1:
            beside += f"; in the other {execution_time(path['waiting_ms'])} no step of it ran"
    yield f"* Critical path: {execution_time(path['length_ms'])}{beside}{busy}"
    yield Table(("Critical node", "Runs", "Duration", "Self", "Share"), rows, "; ".join(more))
    paths = {node["path"] for node in path["nodes"]}
    if any(place.rpartition("/")[0] in paths for place in paths):
        yield "Self of a nested graph: the time in which no step of the path ran inside of it"
