"""`hypergraph stats`: run counts, error rates and p50/p95 per node."""

from __future__ import annotations

from hypergraph.cli.arguments import Option
from hypergraph.cli.call import Call, Reply
from hypergraph.cli.output import duration, suggested
from hypergraph.cli.stores import opened
from hypergraph.cli.tables import ROWS
from hypergraph.display import Table, execution_time, plural
from hypergraph.runs.log import with_usage
from hypergraph.views.stats import StatsView
from hypergraph.views.stats import stats as measured

stats_options = (
    Option("--graph", "only runs of this graph", "NAME"),
    Option("--node", "only this node", "NAME"),
    Option("--since", "only steps since: an age like 2h, or a date", "T"),
)


def stats(call: Call) -> Reply:
    """Show run counts, error rates and p50/p95 per node."""
    given = call.options
    view = measured(opened(call), graph=given.graph, node=given.node, since=given.since)
    header = [f"Nodes ({len(view['items'])} total)", *filter(None, (given.graph, given.node))]
    header += [f"since {view['since']}"] if view["since"] else []
    slow = view["items"][0]["node"] if view["items"] else None
    found = [] if slow is None else [suggested("ls", options=["--where", f"node:{slow} duration > 1s"])]
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
        for item in view["items"][:ROWS]
    ]
    left_out = len(view["items"]) - len(rows)
    more = f"... and {plural(left_out, 'more node')}" if left_out else ""
    table = Table(("Node", "Runs", "p50", "p95", "Total", "Errors", "Cached"), rows, more)
    return with_usage(table, [item["usage"] for item in view["items"][:ROWS]])
