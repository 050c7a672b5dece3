"""How nodes usually do, over all workflows that ran them."""

from __future__ import annotations

from typing import TypedDict

from hypergraph.checkpointers import Checkpointer
from hypergraph.checkpointers.analysis import survey
from hypergraph.checkpointers.query import moment
from hypergraph.display import closest, iso, jsonable
from hypergraph.views.problems import NOT_FOUND, USAGE, Problem


class NodeStats(TypedDict):
    """One node, in all its executions; steps that a fork copied were executed elsewhere and do not count."""

    node: str
    count: int
    p50_ms: float | None  # of executions that completed without the cache; null if there was none
    p95_ms: float | None
    error_rate: float  # 0 to 1
    cache_rate: float  # 0 to 1
    total_ms: float  # of all executions


class StatsView(TypedDict):
    """Nodes, the one that took most time in all first."""

    schema: str  # hypergraph.stats/1
    graph: str | None  # what was asked for
    node: str | None
    since: str | None
    items: list[NodeStats]


def stats(
    store: Checkpointer, *, graph: str | None = None, node: str | None = None, since: str | None = None
) -> StatsView:
    """Return figures of each node: of graphs of this name, of this node, of steps since a moment.

    Raises:
        Problem: the moment cannot be understood, or nothing of that name ever ran.
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
    what = "No step was recorded"
    if graph is not None:
        what += f" of a graph called {graph!r}"
    if node is not None:
        what += f" of a node called {node!r}"
        near = closest(node, survey(store, graph=graph))
        if near is not None:
            return Problem(NOT_FOUND, what, "Did you mean this one?", [near])
    return Problem(NOT_FOUND, what, "hypergraph stats shows every node; --since may be too late")
