"""Graphs as networkx graphs; networkx is imported on use."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from hypergraph.graph.wiring import Wiring

if TYPE_CHECKING:
    from hypergraph.graph.graph import Graph


def _networkx() -> Any:
    try:
        return importlib.import_module("networkx")
    except ImportError as error:
        raise ImportError('networkx is not installed: pip install "hypergraph[viz]"') from error


def network(wiring: Wiring) -> Any:
    """Return a DiGraph of one level. Raises ImportError naming the extra."""
    built = _networkx().DiGraph()
    for name, node in wiring.nodes.items():
        built.add_node(name, **node.nx_attrs, parent=None)
    _add_edges(built, wiring, "")
    return built


def flat_network(graph: Graph) -> Any:
    """Return a DiGraph of all levels with ids "parent/child". Raises ImportError naming the extra."""
    spec = graph.inputs
    built = _networkx().DiGraph(
        input_spec={
            "required": spec.required,
            "optional": spec.optional,
            "bound": dict(spec.bound),
            "entrypoints": dict(spec.entrypoints),
        },
        output_to_sources={output: list(found) for output, found in graph.wiring.data_producers.items()},
    )
    levels: list[tuple[str | None, Wiring]] = [(None, graph.wiring)]
    for parent, wiring in levels:  # the loop appends to it
        prefix = f"{parent}/" if parent else ""
        for name, node in wiring.nodes.items():
            built.add_node(prefix + name, **node.nx_attrs, parent=parent, original_name=name)
            if node.nested_graph is not None:
                levels.append((prefix + name, node.nested_graph.wiring))
        _add_edges(built, wiring, prefix)
    return built


def _add_edges(built: Any, wiring: Wiring, prefix: str) -> None:
    for edge in wiring.edges:
        values = list(edge.value_names)
        built.add_edge(
            prefix + edge.source, prefix + edge.target, edge_type=edge.edge_type, value_names=values
        )
