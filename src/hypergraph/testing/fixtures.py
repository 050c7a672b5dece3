"""Recorded runs as fixtures: nodes that return what they returned before, without a call."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from hypergraph.checkpointers import Checkpointer, SqliteCheckpointer
from hypergraph.checkpointers.analysis import same
from hypergraph.checkpointers.query import Query
from hypergraph.checkpointers.status import StepStatus
from hypergraph.display import did_you_mean, plural, preview
from hypergraph.exceptions import GraphConfigError, HypergraphError, WorkflowNotFoundError
from hypergraph.graph.graph import Graph
from hypergraph.graph.replacing import node_paths
from hypergraph.nodes.function import FunctionNode
from hypergraph.nodes.names import got
from hypergraph.values.undecodable import Undecodable


class NotRecordedError(HypergraphError):
    """A node was called with inputs that no recorded run has."""


def recorded(
    graph: Graph,
    store: Checkpointer | str | os.PathLike[str],
    nodes: Iterable[str],
    ids: Iterable[str] | None = None,
) -> Graph:
    """Return a graph whose nodes of these names return what stored runs have recorded for the same inputs.

    The other nodes are called. So a run that was recorded once, with a model or a service, is a fixture for
    tests of everything around it.

    >>> @node(output_name="answer")
    ... def ask(question: str) -> str:
    ...     return question.upper()  # costs money
    >>> @node(output_name="length")
    ... def measure(answer: str) -> int:
    ...     return len(answer)
    >>> from hypergraph.checkpointers import MemoryCheckpointer
    >>> store, graph = MemoryCheckpointer(), Graph([ask, measure], name="questions")
    >>> _ = SyncRunner(checkpointer=store).run(graph, question="why?", workflow_id="monday")
    >>> offline = recorded(graph, store, ["ask"])
    >>> SyncRunner().run(offline, question="why?")["length"]
    4

    Args:
        graph: the graph
        store: a store, or the path of a SQLite file with recorded runs
        nodes: the functions to replace, by name or by path such as "act/tools/call_tool"
        ids: the workflows to take; by default all of the name of the graph

    Raises:
        GraphConfigError: a name is not in the graph, or is not that of a function.
        WorkflowNotFoundError: an id is not stored, or no run of the graph.
        NotRecordedError: raised by the graph in a run, for inputs that were not recorded.
        TypeError: `graph` is not a Graph.
    """
    if not isinstance(graph, Graph):
        raise TypeError(f"recorded() takes a Graph and a store, got {got(graph)}")
    if not isinstance(store, Checkpointer):
        store = SqliteCheckpointer(store)
    view = store.view(graph=graph)
    wanted = [nodes] if isinstance(nodes, str) else list(nodes)
    found = {path: _function_at(graph, path) for path in wanted}
    calls: dict[str, list[tuple[dict[str, Any], dict[str, Any]]]] = {path: [] for path in wanted}
    for workflow_id in _ids(view, graph, ids):
        for path, taken, made in _steps(view, graph, workflow_id, ""):
            if path in calls:
                calls[path].append((taken, made))
    return graph.replace({path: _replacement(path, found[path], calls[path]) for path in wanted})


def _ids(store: Checkpointer, graph: Graph, ids: Iterable[str] | None) -> list[str]:
    if ids is not None:
        return [store.workflow(workflow_id).id for workflow_id in ([ids] if isinstance(ids, str) else ids)]
    found = store.backend.find(Query(limit=None))[0]
    known = [each.id for each in found if graph.name is None or each.graph_name == graph.name]
    if not known:
        raise WorkflowNotFoundError(f"No run of graph {graph.name!r} is stored in {store!r}")
    return known


def _function_at(graph: Graph, path: str) -> FunctionNode:
    head, _, rest = path.partition("/")
    node = graph.wiring.nodes.get(path) or graph.wiring.nodes.get(head)
    if node is None or (rest and node.nested_graph is None):
        paths = list(node_paths(graph))
        hint = did_you_mean(path, paths) or f"Its nodes: {', '.join(paths)}."
        raise GraphConfigError(f"No node has the path {path!r}. {hint}")
    if rest and node.nested_graph is not None:
        return _function_at(node.nested_graph, rest)
    if not isinstance(node, FunctionNode):
        raise GraphConfigError(
            f"Node {path!r} is a {type(node).__name__}; only functions are replaced by records"
        )
    return node


def _steps(
    store: Checkpointer, graph: Graph, workflow_id: str, path: str
) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Yield the paths of completed steps with what they took and made, those of nested runs included."""
    for record in store.steps(workflow_id):
        node = graph.wiring.nodes.get(record.node_name)
        if record.status is not StepStatus.COMPLETED or not isinstance(node, FunctionNode):
            continue
        taken, made = store.inputs(workflow_id, record, graph=graph), dict(record.values or {})
        if not any(isinstance(value, Undecodable) for value in (*taken.values(), *made.values())):
            yield path + node.name, taken, made
    for child in store.backend.children(workflow_id):
        node = graph.wiring.nodes.get(child.node_name or "")
        if child.item is not None:  # an item of this map
            yield from _steps(store, graph, child.id, path)
        elif node is not None and node.nested_graph is not None:
            yield from _steps(store, node.nested_graph, child.id, f"{path}{node.name}/")


def _replacement(
    path: str, node: FunctionNode, calls: list[tuple[dict[str, Any], dict[str, Any]]]
) -> Callable[..., Any]:
    """Return a function that answers from the records."""
    signature = inspect.signature(node.func)
    names = {param.name: name for param, name in zip(node.params, node.inputs, strict=True)}

    def answer(*args: Any, **keywords: Any) -> Any:
        bound = signature.bind(*args, **keywords)
        given = {names[name]: value for name, value in bound.arguments.items() if name in names}
        for taken, made in calls:
            if all(name not in taken or same(taken[name], value) for name, value in given.items()):
                return _result(node, made)
        raise NotRecordedError(
            f"Node {path!r} was not recorded with {_shown(given)}; there are {plural(len(calls), 'record')} "
            "of it. Record a run with these inputs, or replace the node with a function of your own."
        )

    if node.is_async:

        @functools.wraps(node.func)
        async def answer_later(*args: Any, **keywords: Any) -> Any:
            return answer(*args, **keywords)

        return answer_later
    return functools.wraps(node.func)(answer)


def _result(node: FunctionNode, made: Mapping[str, Any]) -> Any:
    values = tuple(made.get(name) for name in node.data_outputs)
    return values[0] if len(values) == 1 else values or None


def _shown(given: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={preview(value)}" for name, value in given.items()) or "no inputs"
