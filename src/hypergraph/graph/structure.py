"""Structure of a graph as plain data: enough to draw it, and to find the next nodes, without its code.

The data are JSON primitives: names, kinds and texts of types, but no values, not even bound ones. Everything
is in construction order. A nested graph is stored inside its node; where that would be too deep or too large,
its `graph` is None, and the name, inputs and outputs of the node are still there. The data are built once per
graph and shared: copy them before changing them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NewType, get_args, get_origin

from hypergraph.display import bounded
from hypergraph.exceptions import safe_text
from hypergraph.nodes.base import HyperNode
from hypergraph.nodes.gate import GateNode, IfElseNode
from hypergraph.nodes.graph_node import GraphNode
from hypergraph.nodes.receive import ReceiveNode
from hypergraph.nodes.signature import safe_getattr
from hypergraph.structure import VERSION

if TYPE_CHECKING:
    from hypergraph.graph.graph import Graph


Structure = dict[str, Any]

DEEPEST = 50  # levels: JSON encoders recurse, and may be called deep in a stack themselves
LARGEST = 10_000  # nodes of all levels: graphs that contain others twice, level by level, grow exponentially
_LONGEST_TYPE = 80


def structure_of(graph: Graph) -> Structure:
    """Return the structure of a graph.

    {version, name, nodes, edges, explicit, cycles, value_cycles, inputs: {required, optional, bound,
    entrypoints}, selected, entrypoints}; `explicit` means that the edges were declared; cycles are lists of
    nodes, over edges of every type or over those of values; the last `entrypoints` are of `with_entrypoint`.

    node  {name, kind, inputs, outputs, emit, wait_for, hidden, optional, types: {inputs, outputs}}; `kind`
          is "function", "gate", "interrupt" or "graph", `optional` the inputs with a default
    interrupt that receives a signal: also {signal, answer}; the JSON Schema of its value, or None
    gate  also {targets, labels, multi_target, default_open, ifelse}; the end is "END", the first target of
          an ifelse is the one for True
    graph also {graph, renamed: {inputs, outputs}, map_over, map_mode, durability}; `renamed` maps
          names of the node to those inside, where they differ
    edge  {source, target, type, values}; the type is "data", "control" or "ordering"
    """
    pending = [] if "structure" in graph.memo else [graph]
    while pending:  # inner graphs first, without recursion
        inside = [node.nested_graph for node in pending[-1].iter_nodes() if node.nested_graph is not None]
        unknown = dict.fromkeys(inner for inner in inside if "structure" not in inner.memo)
        if unknown:
            pending += unknown
            continue
        done = pending.pop()
        sizes = [inner.memo["structure size"] for inner in inside]
        levels = 1 + max((levels for levels, _ in sizes), default=0)
        nodes = len(done.wiring.nodes) + sum(nodes for _, nodes in sizes)
        done.memo["structure size"] = (levels, nodes)
        done.memo["structure"] = _structure(done)
    found: Structure = graph.memo["structure"]
    return found


def type_text(declared: Any) -> str | None:
    """Return a short text for a type hint, None for no hint. Classes are without their modules.

    So it is the same where a class is of a script, and where that script is imported.
    """
    if declared is None:
        return None
    if isinstance(declared, type) and get_origin(declared) is None:
        return "None" if declared is type(None) else declared.__name__
    text = safe_text(declared).replace("typing.", "")
    for name, short in sorted(_long_names(declared).items(), reverse=True):  # the longer of two comes first
        text = short.join(re.split(rf"(?<![\w.'\"]){re.escape(name)}(?!\w)", text))
    return bounded(text, _LONGEST_TYPE)


def _long_names(declared: Any) -> dict[str, str]:
    """Return the texts with modules of the classes in a type hint, and those without."""
    waiting, seen, found = [declared], set[int](), dict[str, str]()
    while waiting:
        part = waiting.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        waiting += part if type(part) is list else [*get_args(part), get_origin(part)]
        module, qualname = safe_getattr(part, "__module__"), safe_getattr(part, "__qualname__")
        if isinstance(part, type | NewType) and isinstance(module, str) and isinstance(qualname, str):
            found[f"{module}.{qualname}"] = qualname
    return found


def _structure(graph: Graph) -> Structure:
    spec = graph.inputs
    return {
        "version": VERSION,
        "name": graph.name,
        "nodes": [_node(node) for node in graph.iter_nodes()],
        "edges": [
            {
                "source": edge.source,
                "target": edge.target,
                "type": edge.edge_type,
                "values": list(edge.value_names),
            }
            for edge in graph.edges
        ],
        "explicit": graph.wiring.explicit,
        "cycles": [list(names) for names in graph.wiring.cycles],
        "value_cycles": [list(names) for names in graph.wiring.flow_cycles],
        "inputs": {
            "required": list(spec.required),
            "optional": list(spec.optional),
            "bound": list(spec.bound),
            "entrypoints": {name: list(params) for name, params in spec.entrypoints.items()},
        },
        "selected": None if graph.selected is None else list(graph.selected),
        "entrypoints": None if graph.entrypoints_config is None else list(graph.entrypoints_config),
    }


def _node(node: HyperNode) -> Structure:
    data_outputs = node.data_outputs
    carrying = set(data_outputs)
    about: Structure = {
        "name": node.name,
        "kind": "interrupt" if node.is_interrupt else "function",
        "inputs": list(node.inputs),
        "outputs": list(data_outputs),
        "emit": [output for output in node.outputs if output not in carrying],
        "wait_for": list(node.wait_for),
        "hidden": bool(node.hide),
    }
    if isinstance(node, GraphNode):
        return about | _inner(node)
    about["optional"] = [param for param in node.inputs if node.can_do_without(param)]
    about["types"] = {
        "inputs": _texts((name, type_text(node.get_input_type(name))) for name in node.inputs),
        "outputs": _texts((name, type_text(node.get_output_type(name))) for name in data_outputs),
    }
    if isinstance(node, ReceiveNode):
        return about | {"signal": node.signal, "answer": node.answer_schemas.get(data_outputs[0])}
    return about | _branches(node) if isinstance(node, GateNode) else about


def _branches(gate: GateNode) -> Structure:
    texts = ((str(target), gate.descriptions.get(target)) for target in gate.targets)
    return {
        "kind": "gate",
        "targets": [str(target) for target in gate.targets],
        "labels": {target: safe_text(text) for target, text in texts if text},
        "multi_target": gate.multi_target,
        "default_open": gate.default_open,
        "ifelse": isinstance(gate, IfElseNode),
    }


def _inner(node: GraphNode) -> Structure:
    levels, nodes = node.graph.memo["structure size"]
    inner: Structure = node.graph.memo["structure"]
    inlets = dict(zip(node.inputs, node.inner_inputs, strict=True))
    outlets = dict(zip(node.outputs, node.inner_outputs, strict=True))
    mapped, mode, _ = node.map_config or ((), None, None)
    needed = node.graph.indispensable.union(node.inner_map_params)
    return {
        "kind": "graph",
        "optional": [param for param, own in inlets.items() if own not in needed],
        "types": _types_inside(node, inner, inlets, outlets),
        "graph": inner if levels < DEEPEST and nodes < LARGEST else None,
        "renamed": {"inputs": _differing(inlets), "outputs": _differing(outlets)},
        "map_over": list(mapped),
        "map_mode": mode,
        "durability": node.durability,
    }


def _types_inside(
    node: GraphNode, inner: Structure, inlets: dict[str, str], outlets: dict[str, str]
) -> dict[str, dict[str, str]]:
    """Return the types that inner nodes declare, read from the structure: the node itself would recurse."""
    taken: dict[str, str] = {}
    made: dict[str, str] = {}
    for inside in reversed(inner["nodes"]):  # of several, the first one counts
        taken.update(inside["types"]["inputs"])
        made.update(inside["types"]["outputs"])
    mapped = set(node.map_config[0]) if node.map_config else set()
    return {
        "inputs": _texts((name, _listed(taken.get(own), name in mapped)) for name, own in inlets.items()),
        "outputs": _texts((name, _listed(made.get(own), bool(mapped))) for name, own in outlets.items()),
    }


def _listed(text: str | None, mapped: bool) -> str | None:
    return f"list[{text}]" if text and mapped else text


def _texts(pairs: Iterable[tuple[str, str | None]]) -> dict[str, str]:
    return {name: text for name, text in pairs if text is not None}


def _differing(names: dict[str, str]) -> dict[str, str]:
    return {outer: inner for outer, inner in names.items() if outer != inner}
