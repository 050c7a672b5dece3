"""Classes that a graph names: in annotations, and through its functions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hypergraph.graph.graph import Graph
    from hypergraph.values.serializers import Serializer

Graphs = Iterable["Graph"]
_KEPT = 16  # serializers of one graph


def with_types_of(serializer: Serializer, graph: Graph) -> Serializer:
    """Return a serializer that restores the classes that the graph names, and stores no objects of others."""
    known = graph.memo.setdefault("serializers", {})
    found = known.get(id(serializer))
    if found is None or found[0] is not serializer:
        if len(known) >= _KEPT:
            known.clear()
        found = known[id(serializer)] = (serializer, with_graphs(serializer, [graph]))
    return found[1]  # type: ignore[no-any-return]  # put there above


def with_graphs(serializer: Serializer, graphs: Graphs) -> Serializer:
    """Return a serializer that restores the classes that these graphs name. Raises TypeError for others."""
    annotations: list[Any] = []
    functions: list[Any] = []
    for graph in graphs:
        if not hasattr(graph, "iter_nodes"):
            raise TypeError(f"graphs=[...] must hold graphs, got {type(graph).__name__}")
        known = graph.memo.get("classes")
        if known is None:
            known = graph.memo["classes"] = ([], [])
            _collect(graph, *known)
        annotations += known[0]
        functions += known[1]
    return serializer.with_types(annotations, functions)


def _collect(graph: Graph, annotations: list[Any], functions: list[Any]) -> None:
    """Add the types of inputs and outputs, the functions and the bound values, at any depth."""
    functions += graph.bound.values()
    for node in graph.iter_nodes():
        if node.nested_graph is not None:
            _collect(node.nested_graph, annotations, functions)
        else:
            found = [node.get_input_type(name) for name in node.inputs]
            found += [node.get_output_type(name) for name in node.data_outputs]
            annotations += [hint for hint in found if hint is not None]
            functions += [func] if (func := getattr(node, "func", None)) is not None else []
