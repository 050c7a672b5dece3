"""What tests pass to the tools of this room: functions, ids and stores, checked."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any

from hypergraph.checkpointers import Checkpointer
from hypergraph.checkpointers.query import Query
from hypergraph.checkpointers.records import Workflow
from hypergraph.display import did_you_mean
from hypergraph.exceptions import WorkflowNotFoundError
from hypergraph.graph.graph import Graph
from hypergraph.nodes.names import got

_LATER = (inspect.iscoroutinefunction, inspect.isasyncgenfunction, inspect.isgeneratorfunction)


def refuse_async(name: str, given: Any) -> None:
    """Raise TypeError unless a plain call executes the body: it is no async function and no generator."""
    if not callable(given):
        raise TypeError(f"{name} must be a function, got {got(given)}")
    if any(is_later(func) for is_later in _LATER for func in (given, given.__call__)):
        raise TypeError(f"{name} must be a plain function, not an async one or a generator: got {got(given)}")


def listed(ids: str | Iterable[str]) -> list[str]:
    """Return ids as a list; a text is one. Raises ValueError without any: nothing would be tested."""
    wanted = [ids] if isinstance(ids, str) else list(ids)
    if not wanted:
        raise ValueError("ids must name at least one stored run")
    return wanted


def runs_of(graph: Graph, store: Checkpointer) -> tuple[list[Workflow], int]:
    """Return the stored runs of a graph, newest first, and how many are of other graphs.

    Raises WorkflowNotFoundError without any.
    """
    found = store.backend.find(Query(limit=None))[0]
    wanted = [each for each in found if graph.name is None or each.graph_name == graph.name]
    if wanted:
        return wanted, len(found) - len(wanted)
    names = list(dict.fromkeys(str(each.graph_name) for each in found))
    text = f"No run of graph {graph.name!r} is stored in {store!r}"
    if not names:
        raise WorkflowNotFoundError(f"{text}: it has no runs")
    hint = did_you_mean(str(graph.name), names) or f"It has runs of {', '.join(map(repr, names[:5]))}."
    raise WorkflowNotFoundError(f"{text}. {hint} Runs of nested graphs and items are taken by their ids.")
