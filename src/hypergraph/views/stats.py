"""Statistics of nodes over all workflows: counts, error rates, p50 and p95."""

from __future__ import annotations

from typing import TypedDict

from hypergraph.checkpointers import Checkpointer
from hypergraph.checkpointers.analysis import survey
from hypergraph.checkpointers.query import moment
from hypergraph.display import closest, iso, jsonable
from hypergraph.views.problems import NOT_FOUND, USAGE, Problem


class NodeStats(TypedDict):
    """All executions of one node; steps that a fork copied do not count."""

    node: str
    count: int
    p50_ms: float | None  # of executions that completed without the cache; null without any
    p95_ms: float | None
    error_rate: float  # 0 to 1
    cache_rate: float  # 0 to 1
    total_ms: float  # of all executions
    usage: dict[str, float]  # what they recorded with ctx.record


class StatsView(TypedDict):
    """Nodes, those with the greatest total time first."""

    schema: str  # hypergraph.stats/1
    graph: str | None  # what was asked for
    node: str | None
    since: str | None
    items: list[NodeStats]


def stats(
    store: Checkpointer, *, graph: str | None = None, node: str | None = None, since: str | None = None
) -> StatsView:
    """Return the statistics of each node: in graphs of this name, of one node, of steps since a time.

    Raises:
        Problem: `since` is not a time, or no step of that graph or node is stored.
    """
    try:
        first = moment(since)
    except ValueError as error:
        raise Problem(USAGE, str(error)) from error
    figures = survey(store, graph=graph, node=node, since=first)
    if not figures and (node is not None or graph is not None):
        raise _nothing(store, graph, node)
    items: list[NodeStats] = [
        {
            "node": jsonable(name),
            "count": each.count,
            "p50_ms": each.p50_ms,
            "p95_ms": each.p95_ms,
            "error_rate": each.error_rate,
            "cache_rate": each.cache_rate,
            "total_ms": each.total_ms,
            "usage": jsonable(each.usage),
        }
        for name, each in figures.items()
    ]
    items.sort(key=lambda item: (-item["total_ms"], item["node"]))
    return {
        "schema": "hypergraph.stats/1",
        "graph": jsonable(graph),
        "node": jsonable(node),
        "since": iso(first),
        "items": items,
    }


def _nothing(store: Checkpointer, graph: str | None, node: str | None) -> Problem:
    what = "No step is stored"
    if graph is not None:
        what += f" of graph {graph!r}"
    if node is not None:
        what += f" of node {node!r}"
        near = closest(node, survey(store, graph=graph))
        if near is not None:
            return Problem(NOT_FOUND, what, f"Did you mean {near!r}?")
    return Problem(NOT_FOUND, what, "To list all nodes: hypergraph stats")
