"""`hypergraph stats` and `timeline`: how long nodes take, and where the time of a run went."""

from __future__ import annotations

from collections.abc import Iterator

from hypergraph.cli.asking import WF, asked, opened
from hypergraph.cli.bars import Lane, bar_width, bars, folded
from hypergraph.cli.call import Call, Reply
from hypergraph.cli.options import Option, number
from hypergraph.cli.screens import quoted
from hypergraph.cli.words import duration, status
from hypergraph.display import Block, Table, execution_time, plural
from hypergraph.views.stats import StatsView
from hypergraph.views.stats import stats as measured
from hypergraph.views.timeline import TimelineRow, TimelineView
from hypergraph.views.timeline import timeline as looked_up

_ROWS = 20
_READ = 500  # steps that are read, and folded to fewer rows

stats_options = (
    Option("--graph", "of runs of this graph", "NAME"),
    Option("--node", "of this node", "NAME"),
    Option("--since", "of steps since: a time ago like 2h, or a date", "T"),
)
timeline_options = (
    WF,
    Option("--critical", "find the critical path of a very long workflow too"),
    Option(
        "--limit",
        f"how many steps, {_READ} by default; alike ones are folded",
        "N",
        number,
        _READ,
    ),
    Option("--cursor", "go on where the page before ended", "C"),
)


def stats(call: Call) -> Reply:
    """Tell how nodes usually do."""
    given = call.options
    view = measured(opened(call), graph=given.graph, node=given.node, since=given.since)
    header = [f"Nodes ({len(view['items'])} total)", *filter(None, (given.graph, given.node))]
    header += [f"since {view['since']}"] if view["since"] else []
    slow = view["items"][0]["node"] if view["items"] else None
    found = [] if slow is None else [quoted("hypergraph", "ls", "--where", f"node:{slow} duration > 1s")]
    return Reply(view, lambda: [_stats_table(view)] if view["items"] else [], header, found)


def _stats_table(view: StatsView) -> Table:
    rows = [
        (
            item["node"],
            item["count"],
            execution_time(item["p50_ms"]),
            execution_time(item["p95_ms"]),
            duration(item["total_ms"]),
            f"{item['error_rate']:.0%}",
            f"{item['cache_rate']:.0%}",
        )
        for item in view["items"][:_ROWS]
    ]
    left_out = len(view["items"]) - len(rows)
    more = f"... and {plural(left_out, 'more node')}" if left_out else ""
    return Table(("Node", "Runs", "p50", "p95", "Total", "Errors", "Cached"), rows, more)


# --- timeline -----------------------------------------------------------------------------------------


def timeline(call: Call) -> Reply:
    """Show when steps ran."""
    store, wf = asked(call)
    given = call.options
    view = looked_up(
        store, wf, limit=given.limit, cursor=given.cursor, critical=True if given.critical else None
    )
    header = [
        f"Workflow: {view['workflow']}",
        status(view["status"]),
        plural(view["total"], "item" if _is_map(view) else "step"),
        duration(view["total_ms"]),
    ]
    return Reply(view, lambda: _blocks(view), header, _next(view))


def _is_map(view: TimelineView) -> bool:
    return any(row["item"] is not None for row in view["items"] if row["depth"] == 0)


def _next(view: TimelineView) -> list[str]:
    more = view["next_cursor"]
    found = [quoted("hypergraph", "timeline", view["workflow"], "--cursor", more)] if more else []
    slow = max((row for row in view["items"] if row["depth"] == 0), key=_time, default=None)
    if slow is None:
        return [quoted("hypergraph", "show", view["workflow"])]
    if slow["child"] is not None:
        return [quoted("hypergraph", "timeline", slow["child"]), *found]
    return [quoted("hypergraph", "step", view["workflow"], slow["index"]), *found]


def _time(row: TimelineRow) -> float:
    return row["duration_ms"] or 0.0


def _blocks(view: TimelineView) -> Iterator[Block]:
    if not view["items"]:
        yield "No step has ended yet" if view["status"] == "active" else "There are no steps"
        return
    lanes = folded([_lane(row) for row in view["items"]], _ROWS)
    shown = lanes[:_ROWS]
    names = [("* " if lane.critical else "  ") + "  " * lane.depth + lane.name for lane in shown]
    others = [(execution_time(lane.total), status(lane.status)) for lane in shown]
    width = bar_width(names, *zip(*others, strict=True))
    drawn, cut = bars(shown, width)
    rows = [(name, *other, bar) for name, other, bar in zip(names, others, drawn, strict=True)]
    left_out = len(lanes) - len(shown)
    notes = [f"... and {plural(left_out, 'more row')}"] if left_out else []
    if view["next_cursor"]:
        notes.append("more steps follow")
    yield Table(("Node", "Duration", "Status", "Timeline"), rows, "; ".join(notes))
    if cut:
        yield f"Nothing ran for {duration(cut)}, which is cut out"
    yield from _critical(view)


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
    )


def _critical(view: TimelineView) -> Iterator[Block]:
    path = view["critical"]
    if path is None:
        yield "The critical path needs all steps; --critical finds it"
        return
    rows = [
        (node["path"], node["steps"], execution_time(node["duration_ms"]), f"{node['share']:.0%}")
        for node in path["nodes"][:_ROWS]
    ]
    left_out = len(path["nodes"]) - len(rows)
    more = f"... and {plural(left_out, 'more node')}" if left_out else ""
    busy = "" if view["busy_ms"] is None else f"; all steps together {execution_time(view['busy_ms'])}"
    yield f"* Critical path: {execution_time(path['length_ms'])}{busy}"
    yield Table(("On the path", "Runs", "Duration", "Share"), rows, more)
