"""Text description of a graph: inputs, outputs and nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypergraph.graph.inputs import scope_of
from hypergraph.graph.structure import type_text

if TYPE_CHECKING:
    from hypergraph.graph.graph import Graph


def describe(graph: Graph, *, show_types: bool = True) -> str:
    """Return inputs, outputs and nodes as text, with declared types unless `show_types` is False."""
    active = scope_of(graph.wiring, graph.entrypoints_config, graph.selected)
    chain = _chain(graph, active)
    joint = " → " if chain else ", "
    produced = (output for name in chain or active for output in graph.wiring.nodes[name].data_outputs)
    outputs = graph.selected or tuple(dict.fromkeys(produced))
    typed = [_typed(output, _output_type(graph, output), show_types) for output in outputs]
    return "\n".join(
        [
            f"# {graph.name or 'unnamed'}",
            "",
            *_input_lines(graph, show_types),
            f"Outputs: {joint.join(typed) or 'none'}",
            f"Nodes: {joint.join(chain or active) or 'none'}",
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
    return name if not show_types or declared is None else f"{name} ({type_text(declared)})"


def _input_type(graph: Graph, name: str) -> Any:
    return next((t for n in graph.consumers_of(name) if (t := n.get_input_type(name)) is not None), None)


def _output_type(graph: Graph, name: str) -> Any:
    return next((t for n in graph.producers_of(name) if (t := n.get_output_type(name)) is not None), None)


def _chain(graph: Graph, active: list[str]) -> list[str]:
    """Return the nodes in order if they form one data chain with one output each, else []."""
    inside = set(active)
    edges = [e for e in graph.edges if e.source in inside and e.target in inside]
    if len(edges) != len(active) - 1 or any(e.edge_type != "data" for e in edges):
        return []
    if any(len(graph.wiring.nodes[name].data_outputs) != 1 for name in active):
        return []
    following = {e.source: e.target for e in edges}
    starts = inside.difference(following.values())
    chain = [name for name in active if name in starts]
    while chain[-1] in following:
        chain.append(following.pop(chain[-1]))
    return chain if len(chain) == len(active) > 1 and len(starts) == 1 else []
