"""Build-time checks: every finding of a broken graph in one error.

A rule is a function from the draft of a graph to findings; `RULES` lists them in the order in which their
findings are reported. Rules that need edges are left out when node names repeat, because edges would
then join the wrong nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from hypergraph.exceptions import GraphConfigError
from hypergraph.graph import name_rules, node_rules, producer_rules
from hypergraph.graph.draft import Draft
from hypergraph.graph.wiring import Wiring
from hypergraph.nodes.base import HyperNode

__all__ = ["RULES", "GraphConfigError", "validate_graph"]

Rule = Callable[[Draft], Iterable[str]]
RULES: tuple[Rule, ...] = (
    name_rules.names_differ,
    producer_rules.edges_are_sound,
    producer_rules.producers_agree,
    name_rules.graph_name_is_plain,
    name_rules.end_is_reserved,
    name_rules.names_are_identifiers,
    name_rules.nested_names_are_free,
    node_rules.defaults_agree,
    node_rules.gate_targets_exist,
    node_rules.gates_leave_themselves,
    node_rules.parallel_targets_differ,
    node_rules.interrupts_can_wait,
    node_rules.unrepeatable_is_recorded,
    node_rules.nested_graphs_do_not_cache,
    node_rules.awaited_names_exist,
    node_rules.types_fit,
)
_NEED_NO_EDGES = (
    name_rules.names_differ,
    name_rules.graph_name_is_plain,
    name_rules.end_is_reserved,
    name_rules.names_are_identifiers,
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
