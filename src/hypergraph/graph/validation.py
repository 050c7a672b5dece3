"""Build-time checks: one function per rule, every finding of a broken graph in one error.

Each rule takes the draft of a graph and yields findings. Rules that need edges are left out when node
names repeat, because edges would then join the wrong nodes.
"""

from __future__ import annotations

import keyword
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from hypergraph.exceptions import GraphConfigError
from hypergraph.graph.components import Reach, reachable
from hypergraph.graph.findings import did_you_mean, finding
from hypergraph.graph.types import fits
from hypergraph.graph.wiring import Wiring
from hypergraph.nodes.base import HyperNode
from hypergraph.nodes.gate import GateNode, RouteNode
from hypergraph.nodes.graph_node import GraphNode


@dataclass(frozen=True, slots=True)
class Draft:
    """What is to become a graph."""

    nodes: Sequence[HyperNode]
    wiring: Wiring
    name: str | None
    strict_types: bool


def validate_graph(draft: Draft) -> None:
    """Check every rule. Raises GraphConfigError with all findings."""
    rules = _RULES
    if len(draft.wiring.nodes) < len(draft.nodes):
        rules = tuple(rule for rule in _RULES if rule in _NAME_RULES)
    findings = [text for rule in rules for text in rule(draft)]
    if findings:
        raise GraphConfigError.from_findings(findings)


def duplicate_names(draft: Draft) -> Iterator[str]:
    """B1: every node has a name of its own."""
    for name, count in Counter(node.name for node in draft.nodes).items():
        if count > 1:
            yield finding(
                f"Duplicate node name: {name!r}",
                f"{count} nodes of this graph are called {name!r}",
                fix=f"rename all but one, e.g. {name}.with_name('{name}_2').",
            )


def edges_are_sound(draft: Draft) -> Iterator[str]:
    """B2, first half: explicit edges join what exists."""
    yield from draft.wiring.findings


def producers_agree(draft: Draft) -> Iterator[str]:
    """B2, second half: several producers of one output are exclusive or ordered."""
    wiring = draft.wiring
    contested = {output: p for output, p in wiring.data_producers.items() if len(p) > 1}
    known_reach: dict[tuple[str, ...], Reach] = {}
    for output, producers in contested.items():
        key = tuple(producers)
        if key not in known_reach:
            same = {o for o, others in contested.items() if len(set(others) & set(producers)) > 1}
            known_reach[key] = wiring.reach_without(same)
        clash = _first_clash(wiring, producers, known_reach[key])
        if clash:
            yield finding(
                f"Multiple nodes produce {output!r}",
                f"{clash[0]!r} and {clash[1]!r} could both run, in no fixed order",
                fix="put them into exclusive branches of one gate, order them with emit/wait_for, "
                "or rename one output with with_outputs().",
            )


def _first_clash(wiring: Wiring, producers: Sequence[str], reach: Reach) -> tuple[str, str] | None:
    if all(reach.leads(a, b) or reach.leads(b, a) for a, b in zip(producers, producers[1:], strict=False)) and (
        all(reach.leads(a, b) for a, b in zip(producers, producers[1:], strict=False))
    ):
        return None  # one row, each leading to the next: no need to look at all pairs
    branches = [_branches(wiring, gate) for gate in wiring.gates.values() if not gate.multi_target]
    for a, b in combinations(producers, 2):
        if not (reach.leads(a, b) or reach.leads(b, a)) and not any(_exclusive(a, b, found) for found in branches):
            return a, b
    return None


def _branches(wiring: Wiring, gate: GateNode) -> dict[str, set[str]]:
    reached = {
        target: reachable([target], wiring.successors, without=(gate.name,))
        for target in gate.target_names
        if target in wiring.nodes
    }
    return {
        target: found.difference(*(other for name, other in reached.items() if name != target))
        for target, found in reached.items()
    }


def _exclusive(a: str, b: str, branches: dict[str, set[str]]) -> bool:
    home = {name: target for target, names in branches.items() for name in (a, b) if name in names}
    return len(home) == 2 and home[a] != home[b]


def graph_name_is_plain(draft: Draft) -> Iterator[str]:
    """B3: a graph's name is part of paths and ids."""
    for character in "./":
        if draft.name and character in draft.name:
            yield finding(
                f"Invalid graph name: {draft.name!r} cannot contain {character!r}",
                "names of graphs are joined by '.' and '/' in ids and answers",
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
        if not isinstance(node, GraphNode):
            yield from _identifier("node", node.name, f"node {node!r}", "with_name()")
        for output in dict.fromkeys(node.outputs):
            yield from _identifier("output", output, f"output of node {node.name!r}", "with_outputs() or output_name")


def _identifier(what: str, name: str, where: str, remedy: str) -> Iterator[str]:
    if not name.isidentifier():
        yield finding(
            f"Invalid {what} name: {name!r}. Names must be valid Python identifiers",
            where,
            fix=f"choose another name through {remedy}.",
        )
    elif keyword.iskeyword(name):
        yield finding(
            f"Invalid {what} name: {name!r} is a Python keyword", where, fix=f"choose another name through {remedy}."
        )


def nested_names_are_free(draft: Draft) -> Iterator[str]:
    """B6: result[NAME] is either a value or a nested result."""
    for node in draft.nodes:
        if isinstance(node, GraphNode):
            for producer in draft.wiring.producers.get(node.name, ()):
                if producer != node.name:
                    yield finding(
                        f"GraphNode name {node.name!r} collides with output {node.name!r} of node {producer!r}",
                        f"result[{node.name!r}] would be ambiguous",
                        fix="rename the GraphNode with as_node(name=...) or the output with with_outputs().",
                    )


def defaults_agree(draft: Draft) -> Iterator[str]:
    """B7: consumers of one graph input agree on its default."""
    wiring = draft.wiring
    for param, consumers in wiring.consumers.items():
        unfed = [wiring.nodes[name] for name in consumers if not wiring.feeders(name, param)]
        having = [node for node in unfed if node.has_signature_default_for(param)]
        lacking = [node for node in unfed if node not in having and not _bound_inside(node, param)]
        if not having:
            continue
        details = [f"node {n.name!r}: default {_shown(n.get_signature_default_for(param))}" for n in having]
        details += [f"node {n.name!r}: without default" for n in lacking]
        first = having[0].get_signature_default_for(param)
        if lacking or not all(_same(first, node.get_signature_default_for(param)) for node in having[1:]):
            yield finding(
                f"Inconsistent defaults for {param!r}",
                *details,
                fix=f"give every consumer the same default, or none and graph.bind({param}=...).",
            )


def _bound_inside(node: HyperNode, param: str) -> bool:
    return node.has_default_for(param) and not node.has_signature_default_for(param)


def _shown(value: Any) -> str:
    try:
        text = repr(value)
    except Exception:
        text = f"<{type(value).__name__}>"
    return text if len(text) <= 60 else text[:57] + "..."


def _same(a: Any, b: Any) -> bool:
    if a is b:
        return True
    try:
        equal = a == b
        return bool(equal.all()) if hasattr(equal, "all") else bool(equal) and type(a) is type(b)
    except Exception:  # an __eq__ of the user's own may do anything
        return False


def gate_targets_exist(draft: Draft) -> Iterator[str]:
    """B8: a gate leads to nodes of its graph."""
    for name, gate in draft.wiring.gates.items():
        for target in gate.target_names:
            if target not in draft.wiring.nodes:
                hint = did_you_mean(target, draft.wiring.nodes)
                yield finding(
                    f"Gate {name!r} targets unknown node {target!r}",
                    f"the graph has: {', '.join(draft.wiring.nodes)}",
                    *([hint] if hint else []),
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
    for name, gate in draft.wiring.gates.items():
        if isinstance(gate, RouteNode) and gate.multi_target:
            owners: dict[str, list[str]] = {}
            for target in gate.target_names:
                for output in draft.wiring.nodes[target].data_outputs if target in draft.wiring.nodes else ():
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
            asked = ", ".join(repr(i.name) for i in node.graph.interrupt_nodes) or repr(node.graph.name)
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
                hint = did_you_mean(awaited, draft.wiring.producers)
                yield finding(
                    f"Node {node.name!r} has wait_for={awaited!r}, which no node produces",
                    *([hint] if hint else []),
                    fix="wait for an output or emit name of a node in this graph.",
                )


def types_fit(draft: Draft) -> Iterator[str]:
    """B14: under strict_types the types on both ends of an edge fit."""
    if not draft.strict_types:
        return
    for edge in draft.wiring.edges:
        source, target = draft.wiring.nodes[edge.source], draft.wiring.nodes[edge.target]
        for value in edge.value_names:
            if value in target.inputs:
                yield from _check_types(source, target, value)


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


Rule = Callable[[Draft], Iterable[str]]
_RULES: tuple[Rule, ...] = (
    duplicate_names,
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
    nested_graphs_do_not_cache,
    awaited_names_exist,
    types_fit,
)
_NAME_RULES = (duplicate_names, graph_name_is_plain, end_is_reserved, names_are_identifiers)
