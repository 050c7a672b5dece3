"""Replacements of nodes by path, and the check that a node fits in the place of another."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from hypergraph.display import did_you_mean, finding
from hypergraph.exceptions import GraphConfigError
from hypergraph.nodes.base import HyperNode
from hypergraph.nodes.callable_node import CallableNode
from hypergraph.nodes.function import FunctionNode
from hypergraph.nodes.gate import GateNode
from hypergraph.nodes.graph_node import GraphNode
from hypergraph.nodes.names import got, shown
from hypergraph.nodes.signature import refuse_mock

if TYPE_CHECKING:
    from hypergraph.graph.graph import Graph
    from hypergraph.graph.wiring import Wiring

_FIX = "give the replacement the inputs and outputs of the node, or build a new Graph."


def replaced_nodes(graph: Graph, replacements: Mapping[str, Any]) -> list[HyperNode]:
    """Return the nodes of a graph with these replacements. Raises GraphConfigError with all findings."""
    found: dict[str, dict[str, Any]] = {}  # the node of this graph -> path inside of it, "" for itself
    findings: list[str] = []
    for path, given in replacements.items():
        head, rest = _split(graph, path)
        if head is None or (rest and not _has(graph.wiring.nodes[head].nested_graph, rest)):
            findings.append(_unknown(graph, path))
        else:
            found.setdefault(head, {})[rest] = given
    nodes: list[HyperNode] = []
    for name, node in graph.wiring.nodes.items():
        inside = found.get(name, {})
        if "" in inside and len(inside) > 1:
            what = f"Cannot replace {name!r} and nodes inside of it"
            findings.append(finding(what, fix="replace the one or the others."))
        elif "" in inside:
            try:
                nodes.append(_fitted(node, inside[""], graph.inputs.bound))
            except (TypeError, ValueError) as error:
                findings.append(finding(f"Cannot replace {name!r}: {error}", fix=_FIX))
        elif inside and isinstance(node, GraphNode):
            try:
                nodes.append(node.with_graph(node.graph.replace(inside)))
            except GraphConfigError as error:
                findings += (f"In nested graph {name!r}: {inner}" for inner in error.findings)
        else:
            nodes.append(node)
    if findings:
        raise GraphConfigError.from_findings(findings)
    return nodes


def declared_edges(wiring: Wiring) -> list[tuple[Any, ...]] | None:
    """Return the explicit edges of a graph as its constructor takes them; None if they follow from names."""
    if not wiring.explicit:
        return None
    return [
        (edge.source, edge.target, edge.value_names if edge.edge_type == "data" else ())
        for edge in wiring.edges
        if edge.edge_type == "data" or (edge.edge_type == "ordering" and not edge.value_names)
    ]


def _split(graph: Graph, path: Any) -> tuple[str | None, str]:
    """Return the node of this graph to which a path leads, and the rest of the path."""
    nodes = graph.wiring.nodes
    if not isinstance(path, str) or path in nodes:
        return (path, "") if isinstance(path, str) else (None, "")
    head, _, rest = path.partition("/")
    return (head, rest) if rest and head in nodes else (None, "")


def _has(graph: Graph | None, path: str) -> bool:
    if graph is None:
        return False
    head, rest = _split(graph, path)
    return head is not None and (not rest or _has(graph.wiring.nodes[head].nested_graph, rest))


def _unknown(graph: Graph, path: Any) -> str:
    paths = list(node_paths(graph))
    last = str(path).rpartition("/")[2]
    elsewhere = [known for known in paths if known.rpartition("/")[2] == last]
    hint = f"Did you mean {elsewhere[0]!r}?" if elsewhere else did_you_mean(path, paths)
    return finding(
        f"Cannot replace {shown(path)}: no node has this path",
        hint or f"nodes of this graph: {', '.join(map(repr, paths[:12]))}{', ...' * (len(paths) > 12)}",
        fix="use the name of a node, or for one of a nested graph a path such as 'outer/inner'.",
    )


def node_paths(graph: Graph) -> Iterator[str]:
    """Yield the path of every node, nested ones after the node that holds them."""
    for name, node in graph.wiring.nodes.items():
        yield name
        if node.nested_graph is not None:
            yield from (f"{name}/{path}" for path in node_paths(node.nested_graph))


def _fitted(node: HyperNode, given: Any, bound: Collection[str]) -> HyperNode:
    """Return a replacement under the name of a node. Raises TypeError or ValueError if it does not fit."""
    if isinstance(node, CallableNode):
        refuse_mock(given, node.signature.name)
    if not isinstance(given, HyperNode):
        if not callable(given):
            raise TypeError(f"{got(given)} is neither a node nor a function")
        if isinstance(node, CallableNode):
            return node.with_function(given)
        given = FunctionNode(
            given,
            node.name,
            node.data_outputs,
            append=[*node.append],
            emit=node.outputs[len(node.data_outputs) :],
            wait_for=node.wait_for,
        )
    different = list(_differences(node, given))
    lacking = [n for n in node.inputs if n not in bound and node.has_default_for(n)]
    lacking = [n for n in lacking if n in given.inputs and not given.has_default_for(n)]
    if lacking:  # the node would wait for what nothing gives: in a loop for ever, without a word
        different.append(f"its defaults differ: the replacement has none for {', '.join(lacking)}")
    if different:
        raise ValueError("; ".join(different))
    replacement: HyperNode = given if given.name == node.name else given.with_name(node.name)
    return replacement


def _differences(node: HyperNode, other: HyperNode) -> Iterator[str]:
    for what in ("inputs", "outputs", "append", "wait_for", "targets"):
        before, now = _names(node, what), _names(other, what)
        if set(before) != set(now):
            missing = [name for name in before if name not in now]
            more = [name for name in now if name not in before]
            parts = [f"lacks {', '.join(missing)}"] if missing else []
            parts += [f"adds {', '.join(more)}"] if more else []
            yield f"its {what} differ: the replacement {' and '.join(parts)}"


def _names(node: HyperNode, what: str) -> tuple[str, ...]:
    if what == "targets":
        return tuple(map(str, node.targets)) if isinstance(node, GateNode) else ()
    names: tuple[str, ...] = getattr(node, what)
    return names
