"""A graph described in a few lines of text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypergraph.graph.inputs import scope_of

if TYPE_CHECKING:
    from hypergraph.graph.graph import Graph


def describe(graph: Graph, *, show_types: bool) -> str:
    """Return inputs, outputs and nodes of a graph as a block of text."""
    active = scope_of(graph.wiring, graph.entrypoints_config, graph.selected)
    joint = " → " if _is_chain(graph, active) else ", "
    outputs = graph.selected or tuple(
        dict.fromkeys(o for name in active for o in graph.wiring.nodes[name].data_outputs)
    )
    return "\n".join(
        [
            f"# {graph.name or 'unnamed'}",
            "",
            *_input_lines(graph, show_types),
            "Outputs: " + (joint.join(_typed(o, _output_type(graph, o), show_types) for o in outputs) or "none"),
            "Nodes: " + (joint.join(active) or "none"),
        ]
    )


def _input_lines(graph: Graph, show_types: bool) -> list[str]:
    spec = graph.inputs
    groups = [
        ("required", spec.required),
        ("optional", tuple(name for name in spec.optional if name not in spec.bound)),
        ("bound", tuple(spec.bound)),
        *((f"entrypoint[{node}]", params) for node, params in spec.entrypoints.items()),
    ]
    lines = [
        f"  {title}: " + ", ".join(_typed(name, _input_type(graph, name), show_types) for name in names)
        for title, names in groups
        if names
    ]
    return ["Inputs:", *lines] if lines else ["Inputs: none"]


def _typed(name: str, declared: Any, show_types: bool) -> str:
    if not show_types or declared is None:
        return name
    return f"{name} ({declared.__name__ if isinstance(declared, type) and not hasattr(declared, '__args__') else declared})"


def _input_type(graph: Graph, name: str) -> Any:
    return next((t for n in graph.consumers_of(name) if (t := n.get_input_type(name)) is not None), None)


def _output_type(graph: Graph, name: str) -> Any:
    return next((t for n in graph.producers_of(name) if (t := n.get_output_type(name)) is not None), None)


def _is_chain(graph: Graph, active: list[str]) -> bool:
    """Say whether the nodes form a single row of data edges with one output each."""
    nodes = graph.wiring.nodes
    if len(active) < 2 or any(len(nodes[name].data_outputs) != 1 for name in active):
        return False
    inside = [e for e in graph.edges if e.source in active and e.target in active]
    row = list(zip(active, active[1:], strict=False))
    return len(inside) == len(row) and all(
        e.edge_type == "data" and (e.source, e.target) in row for e in inside
    )
