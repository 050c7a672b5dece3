"""Validation of a graph: every problem in one error."""

from __future__ import annotations

import keyword
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, Any

from hypergraph.display import did_you_mean, finding
from hypergraph.exceptions import GraphConfigError
from hypergraph.graph.type_compat import fits
from hypergraph.graph.wiring import Wiring
from hypergraph.nodes.base import HyperNode
from hypergraph.nodes.gate import GateNode
from hypergraph.nodes.graph_node import GraphNode
from hypergraph.nodes.names import shown
from hypergraph.nodes.signature import content
from hypergraph.structure import Links, walk

if TYPE_CHECKING:
    from hypergraph.graph.graph import Graph


@dataclass(frozen=True, slots=True)
class Draft:
    """What is to become a graph; `nodes` still has all that share a name, `wiring` one of each."""

    nodes: Sequence[HyperNode]
    wiring: Wiring
    name: str | None
    strict_types: bool


def names_differ(draft: Draft) -> Iterator[str]:
    """B1: every node has a name of its own."""
    for name, count in Counter(node.name for node in draft.nodes).items():
        if count > 1:
            yield finding(
                f"Duplicate node name: {name!r}",
                f"{count} nodes of this graph are called {name!r}",
                fix=f"rename all but one, e.g. {name}.with_name('{name}_2').",
            )


def graph_name_is_plain(draft: Draft) -> Iterator[str]:
    """B3: a graph's name is part of paths and ids."""
    for character in "./":
        if draft.name and character in draft.name:
            yield finding(
                f"Invalid graph name: {draft.name!r} cannot contain {character!r}",
                "graph names cannot contain '.' or '/': these join names in ids and answers",
                fix=f"use another separator, e.g. {draft.name.replace(character, '_')!r}.",
            )


def end_is_reserved(draft: Draft) -> Iterator[str]:
    """B4: END means the end of a branch."""
    for node in draft.nodes:
        if node.name == "END":
            yield finding(
                "Invalid node name: 'END' is reserved for the end of a gate's branch",
                f"{node!r}",
                fix="give the node another name with with_name().",
            )


def names_are_identifiers(draft: Draft) -> Iterator[str]:
    """B5: names become parameters, so they have to be identifiers."""
    for node in draft.nodes:
        flaw = None if isinstance(node, GraphNode) else _flaw(node.name)
        if flaw:
            fix = "choose another name through with_name()."
            yield finding(f"Invalid node name: {node.name!r}{flaw}", f"node {node!r}", fix=fix)
        for output in node.outputs:
            flaw = _flaw(output)
            if flaw:
                where, fix = (
                    f"output of node {node.name!r}",
                    "choose another output_name, or use with_outputs().",
                )
                yield finding(f"Invalid output name: {output!r}{flaw}", where, fix=fix)


def _flaw(name: str) -> str | None:
    if not name.isidentifier():
        return ". Names must be valid Python identifiers"
    return " is a Python keyword" if keyword.iskeyword(name) else None


def nested_names_are_free(draft: Draft) -> Iterator[str]:
    """B6: result[NAME] is either a value or a nested result."""
    for node in draft.nodes:
        if isinstance(node, GraphNode):
            for producer in draft.wiring.producers.get(node.name, ()):
                if producer != node.name:
                    yield finding(
                        f"GraphNode name {node.name!r} collides with output of node {producer!r}",
                        f"result[{node.name!r}] would be ambiguous",
                        fix="rename the GraphNode with as_node(name=...), or the output.",
                    )


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


def edges_are_sound(draft: Draft) -> Iterator[str]:
    """B2, first half: explicit edges join what exists."""
    yield from draft.wiring.findings


def producers_agree(draft: Draft) -> Iterator[str]:
    """B2, second half: several producers of one output are exclusive or ordered."""
    wiring = draft.wiring
    for output in wiring.data_producers:
        producers = wiring.producers[output]  # a name that others only emit is contested all the same
        if len(producers) > 1:
            clash = _first_clash(wiring, producers, wiring.ways)
            if clash:
                yield finding(
                    f"Multiple nodes produce {output!r}",
                    f"{clash[0]!r} and {clash[1]!r} could both run, in no fixed order",
                    fix="put them into exclusive branches of one gate, order them with emit/wait_for, "
                    "or rename one output with with_outputs().",
                )


def _first_clash(wiring: Wiring, producers: Sequence[str], links: Links) -> tuple[str, str] | None:
    if all(b in walk(links[a], links) for a, b in pairwise(producers)):
        return None  # one row, each leading to the next: no need to look at all pairs
    homes = [_homes(wiring, gate) for gate in wiring.gates.values() if not gate.multi_target]
    after = {name: set(producers).intersection(walk(links[name], links)) for name in producers}
    for a, b in combinations(producers, 2):
        exclusive = any(a in home and b in home and home[a] != home[b] for home in homes)
        if not exclusive and b not in after[a] and a not in after[b]:
            return a, b
    return None


def _homes(wiring: Wiring, gate: GateNode) -> dict[str, str]:
    """Return the nodes that are reachable through one target of a gate only, each with that target."""
    targets = [target for target in gate.target_names if target in wiring.nodes]
    closed = {gate.name, *targets}  # a loop back to the gate or to another target starts a new decision
    reached = {t: set(walk([t], wiring.successors, without=closed - {t})) for t in targets}
    ways = Counter(name for found in reached.values() for name in found)
    return {name: target for target, found in reached.items() for name in found if ways[name] == 1}


__all__ = ["RULES", "GraphConfigError", "validate_graph"]

Rule = Callable[[Draft], Iterable[str]]
RULES: tuple[Rule, ...] = (
    names_differ,
    edges_are_sound,
    producers_agree,
    graph_name_is_plain,
    end_is_reserved,
    names_are_identifiers,
    nested_names_are_free,
    defaults_agree,
    gate_targets_exist,
    gates_leave_themselves,
    parallel_targets_differ,
    interrupts_can_wait,
    unrepeatable_is_recorded,
    nested_graphs_do_not_cache,
    awaited_names_exist,
    types_fit,
)
_NEED_NO_EDGES = (
    names_differ,
    graph_name_is_plain,
    end_is_reserved,
    names_are_identifiers,
)


def validate_graph(
    nodes: Iterable[HyperNode],
    *,
    edges: Iterable[object] | None = None,
    name: str | None = None,
    strict_types: bool = False,
) -> Wiring:
    """Check whether a graph can be made of this, and return how its nodes are joined.

    Takes what `Graph` takes: `nodes`, `edges`, `name`, `strict_types`. Raises GraphConfigError
    with the findings of all rules.
    """
    listed = tuple(nodes)
    draft = Draft(listed, Wiring(listed, edges), name, strict_types)
    repeated = len(draft.wiring.nodes) < len(listed)
    findings = [text for rule in (_NEED_NO_EDGES if repeated else RULES) for text in rule(draft)]
    if findings:
        raise GraphConfigError.from_findings(findings)
    return draft.wiring
