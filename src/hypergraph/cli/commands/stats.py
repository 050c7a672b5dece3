"""`hypergraph stats`: run counts, error rates and p50/p95 per node."""

from __future__ import annotations

from collections.abc import Sequence

from hypergraph.cli.arguments import Option, number, positive
from hypergraph.cli.call import Call, Reply
from hypergraph.cli.output import duration, suggested
from hypergraph.cli.stores import opened
from hypergraph.cli.tables import ROWS
from hypergraph.display import Table, execution_time, plural, with_usage
from hypergraph.views.problems import USAGE, Problem
from hypergraph.views.profile import NodeProfile, ProfileView, profile
from hypergraph.views.stats import NodeStats, StatsView
from hypergraph.views.stats import stats as measured

stats_options = (
    Option("--graph", "only runs of this graph", "NAME"),
    Option("--node", "only this node", "NAME"),
    Option("--since", "only steps since: an age like 2h, or a date", "T"),
    Option("--last", "where the time of the last N runs went, nested nodes included", "N", number),
    Option("--limit", "how many nodes, default 20", "N", positive, ROWS),
)


def stats(call: Call) -> Reply:
    """Show run counts, error rates and p50/p95 per node."""
    given = call.options
    if given.last is not None:
        return _profile(call)
    view = measured(opened(call), graph=given.graph, node=given.node, since=given.since)
    header = [f"Nodes ({len(view['items'])} total)", *filter(None, (given.graph, given.node))]
    header += [f"since {view['since']}"] if view["since"] else []
    return Reply(
        view, lambda: [_stats_table(view, given.limit)] if view["items"] else [], header, _slowest(view)
    )


def _slowest(view: StatsView) -> list[str]:
    """Return the command that lists the slowest runs of the node that took longest in all."""
    if not view["items"] or view["items"][0]["p95_ms"] is None:
        return []
    node, slow = view["items"][0]["node"], view["items"][0]["p95_ms"]
    return [suggested("ls", options=["--where", f"node:{node} duration >= {int(slow)}ms"])]


def _profile(call: Call) -> Reply:
    given = call.options
    if given.node or given.since:
        raise Problem(USAGE, "--last cannot be combined with --node or --since")
    view = profile(opened(call), graph=given.graph, last=given.last)
    header = [f"Nodes of the last {plural(view['runs'], 'run')}", *filter(None, [given.graph])]
    header += [f"p50 {execution_time(view['p50_ms'])}, p95 {execution_time(view['p95_ms'])}"]
    return Reply(view, lambda: [_profile_table(view, given.limit)] if view["items"] else [], header)


def _profile_table(view: ProfileView, limit: int) -> Table:
    shown = view["items"][:limit]
    rows = [
        (
            item["path"],
            item["count"],
            execution_time(item["p50_ms"]),
            execution_time(item["p95_ms"]),
            duration(item["total_ms"]),
            duration(item["self_ms"]),
            f"{item['share']:.0%}",
            f"{item['error_rate']:.0%}",
        )
        for item in shown
    ]
    left_out = len(view["items"]) - len(rows)
    more = [f"... and {plural(left_out, 'more node')}"] if left_out else []
    more += [f"{plural(view['left_out'], 'nested run')} not read"] if view["left_out"] else []
    headings = ("Node", "Runs", "p50", "p95", "Total", "Self", "Share", "Errors")
    more += _without_failures(shown)
    return with_usage(Table(headings, rows, ", ".join(more)), [item["usage"] for item in shown])


def _without_failures(shown: Sequence[NodeStats] | Sequence[NodeProfile]) -> list[str]:
    has_failed = any(item["error_rate"] for item in shown)
    return ["p50 and p95 leave out failures, Total does not"] if has_failed else []


def _stats_table(view: StatsView, limit: int) -> Table:
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
        for item in view["items"][:limit]
    ]
    left_out = len(view["items"]) - len(rows)
    notes = [f"... and {plural(left_out, 'more node')}"] if left_out else []
    more = ", ".join([*notes, *_without_failures(view["items"][:limit])])
    table = Table(("Node", "Runs", "p50", "p95", "Total", "Errors", "Cached"), rows, more)
    return with_usage(table, [item["usage"] for item in view["items"][:limit]])
