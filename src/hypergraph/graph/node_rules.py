"""Rules about single nodes and what they share: B7 to B14."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from hypergraph.graph.draft import Draft
from hypergraph.graph.findings import did_you_mean, finding
from hypergraph.graph.types import fits
from hypergraph.nodes.base import HyperNode
from hypergraph.nodes.fingerprint import content
from hypergraph.nodes.graph_node import GraphNode
from hypergraph.nodes.names import shown

if TYPE_CHECKING:
    from hypergraph.graph.graph import Graph


def defaults_agree(draft: Draft) -> Iterator[str]:
    """B7: consumers of one graph input agree on its default."""
    wiring = draft.wiring
    for param, consumers in wiring.consumers.items():
        unfed = [wiring.nodes[name] for name in consumers if not wiring.feeders(name, param)]
        known = {
            n.name: n.get_signature_default_for(param) for n in unfed if n.has_signature_default_for(param)
        }
        lacking = [n.name for n in unfed if n.name not in known and not n.has_default_for(param)]
        if not known or (not lacking and _all_same(list(known.values()))):
            continue
        yield finding(
            f"Inconsistent defaults for {param!r}",
            *(f"node {name!r}: default {shown(default)}" for name, default in known.items()),
            *(f"node {name!r}: without default" for name in lacking),
            fix=f"give every consumer the same default, or none and graph.bind({param}=...).",
        )


def _all_same(values: list[Any]) -> bool:
    first = values[0]
    return all(first is value or (type(first) is type(value) and _equal(first, value)) for value in values)


def _equal(a: Any, b: Any) -> bool:
    try:
        if (a == b) is True:
            return True
    except Exception:  # noqa: S110 - an __eq__ of the user's own may do anything; their content still counts
        pass
    return content(a) == content(b)  # arrays answer == with an array, NaN with False


def gate_targets_exist(draft: Draft) -> Iterator[str]:
    """B8: a gate leads to nodes of its graph."""
    for name, gate in draft.wiring.gates.items():
        for target in gate.target_names:
            if target not in draft.wiring.nodes:
                yield finding(
                    f"Gate {name!r} targets unknown node {target!r}",
                    f"the graph has: {', '.join(draft.wiring.nodes)}",
                    did_you_mean(target, draft.wiring.nodes),
                    fix="add the node to the graph or correct the target.",
                )


def gates_leave_themselves(draft: Draft) -> Iterator[str]:
    """B9: a gate decides about others."""
    for name, gate in draft.wiring.gates.items():
        if name in gate.target_names:
            yield finding(
                f"Gate {name!r} cannot target itself",
                "it runs again by itself when its inputs change",
                fix="target the node whose output the gate decides on.",
            )


def parallel_targets_differ(draft: Draft) -> Iterator[str]:
    """B10: targets that may run together write different outputs."""
    nodes = draft.wiring.nodes
    for name, gate in draft.wiring.gates.items():
        owners: dict[str, list[str]] = {}
        for target in gate.target_names if gate.multi_target else ():
            for output in nodes[target].data_outputs if target in nodes else ():
                owners.setdefault(output, []).append(target)
        for output, targets in owners.items():
            if len(targets) > 1:
                yield finding(
                    f"Targets of multi_target gate {name!r} share the output {output!r}",
                    f"produced by {', '.join(map(repr, targets))}, which may run together",
                    fix="rename the outputs with with_outputs(), or make the gate single-target.",
                )


def interrupts_can_wait(draft: Draft) -> Iterator[str]:
    """B11: a pause needs one place to come back to."""
    for node in draft.nodes:
        if isinstance(node, GraphNode) and node.graph.has_interrupts:
            asked = ", ".join(map(repr, _interrupts(node.graph)))
            if node.map_config is not None:
                yield finding(
                    f"GraphNode {node.name!r} maps over a graph with interrupts: {asked}",
                    "many items cannot wait for one answer",
                    fix="move the interrupt outside of the mapped graph.",
                )
            if node.durability == "atomic":
                yield finding(
                    f"GraphNode {node.name!r} is atomic but contains interrupts: {asked}",
                    "an atomic boundary cannot be resumed inside",
                    fix='use durability="nested", or move the interrupt outside the boundary.',
                )


def unrepeatable_is_recorded(draft: Draft) -> Iterator[str]:
    """B11: what must not be repeated needs a record of its own."""
    for node in draft.nodes:
        if isinstance(node, GraphNode) and node.durability == "atomic":
            held = ", ".join(map(repr, _unrepeatable(node.graph)))
            if held:
                yield finding(
                    f"GraphNode {node.name!r} is atomic but contains nodes that must not be repeated: {held}",
                    "after a failure or a crash inside an atomic boundary all of it runs again",
                    fix='use durability="nested", or move them outside the boundary.',
                )


def _unrepeatable(graph: Graph) -> Iterator[str]:
    for node in graph.iter_nodes():
        if not node.repeatable:
            yield node.name
        elif node.nested_graph is not None:
            yield from _unrepeatable(node.nested_graph)


def _interrupts(graph: Graph) -> Iterator[str]:
    for node in graph.iter_nodes():
        if node.is_interrupt:
            yield node.name
        elif node.nested_graph is not None:
            yield from _interrupts(node.nested_graph)


def nested_graphs_do_not_cache(draft: Draft) -> Iterator[str]:
    """B12: inner nodes cache by themselves."""
    for node in draft.nodes:
        if isinstance(node, GraphNode) and node.cache:
            yield finding(
                f"GraphNode {node.name!r} cannot have cache=True",
                "a graph has no result of its own to cache",
                fix="set cache=True on the inner nodes.",
            )


def awaited_names_exist(draft: Draft) -> Iterator[str]:
    """B13: what is waited for is produced."""
    for node in draft.nodes:
        for awaited in node.wait_for:
            if awaited not in draft.wiring.producers:
                yield finding(
                    f"Node {node.name!r} has wait_for={awaited!r}, which no node produces",
                    f"names that nodes produce: {shown(tuple(draft.wiring.producers))}",
                    did_you_mean(awaited, draft.wiring.producers),
                    fix="wait for an output or emit name of a node in this graph.",
                )


def types_fit(draft: Draft) -> Iterator[str]:
    """B14: under strict_types what every producer sends fits what its consumers take."""
    wiring = draft.wiring
    for name, node in wiring.nodes.items() if draft.strict_types else ():
        for param in node.inputs:
            for feeder in wiring.feeders(name, param):
                yield from _check_types(wiring.nodes[feeder], node, param)


def _check_types(source: HyperNode, target: HyperNode, value: str) -> Iterator[str]:
    sent, wanted = source.get_output_type(value), target.get_input_type(value)
    pair = f"{source.name!r} -> {target.name!r}, value {value!r}"
    if sent is None or wanted is None:
        bare = [n.name for n, known in ((source, sent), (target, wanted)) if known is None]
        yield finding(
            f"Missing type annotation for {value!r}",
            pair,
            f"not annotated in {' and '.join(map(repr, bare))}",
            fix="annotate the parameter and the return value, or build the graph without strict_types.",
        )
    elif not fits(sent, wanted):
        yield finding(
            f"Type mismatch for {value!r}",
            pair,
            f"{source.name!r} returns {sent}",
            f"{target.name!r} takes {wanted}",
            fix="change one annotation, or put a converting node in between.",
        )
