"""Which inputs a graph needs, may take, or has bound.

1. Scope: all nodes, or those reachable from the entry points; if outputs are selected, what leads to them.
2. A parameter fed by an edge of the scope is no input; else it is optional when bound or defaulted
   somewhere, else required.
3. A cycle over data edges has to be entered: each of its nodes lists the parameters it would need.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from hypergraph.graph.components import cyclic_components, reachable
from hypergraph.graph.wiring import Wiring
from hypergraph.nodes.gate import GateNode


@dataclass(frozen=True, slots=True)
class InputSpec:
    """Say what a graph takes: required and optional names, cycle entries and bound values."""

    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    entrypoints: dict[str, tuple[str, ...]] = field(default_factory=dict)
    bound: dict[str, Any] = field(default_factory=dict)

    @property
    def all(self) -> tuple[str, ...]:
        """Required names, then optional ones, then entry parameters not yet listed."""
        entries = (name for params in self.entrypoints.values() for name in params)
        return tuple(dict.fromkeys((*self.required, *self.optional, *entries)))


def scope_of(wiring: Wiring, entrypoints: Sequence[str] | None, selected: Sequence[str] | None) -> list[str]:
    """Return the names of the nodes that matter, in node order."""
    scope: Collection[str] = wiring.nodes
    if entrypoints:
        scope = reachable(entrypoints, wiring.successors)
    if selected:
        scope = _leading_to(wiring, selected, scope)
    return [name for name in wiring.nodes if name in scope]


def _leading_to(wiring: Wiring, selected: Sequence[str], within: Collection[str]) -> set[str]:
    outside = set(wiring.nodes).difference(within)
    wanted = {producer for output in selected for producer in wiring.producers.get(output, ())}
    backwards = _backward_links(wiring)
    while True:
        found = reachable(wanted, backwards, without=outside)
        targets = [t for name in found for t in _targets(wiring, name)]
        grown = found | reachable(targets, wiring.successors, without=outside)
        if grown == wanted:
            return grown
        wanted = grown


def _backward_links(wiring: Wiring) -> dict[str, list[str]]:
    """Edges backwards; inferred edges know one producer of a name, a selection may need any of them."""
    links = {name: list(sources) for name, sources in wiring.predecessors.items()}
    if not wiring.explicit:
        for name, node in wiring.nodes.items():
            for param in node.inputs:
                if len(wiring.data_producers.get(param, ())) > 1:
                    links[name].extend(wiring.data_producers[param])
    return links


def _targets(wiring: Wiring, name: str) -> Iterable[str]:
    gate = wiring.gates.get(name)
    return gate.target_names if gate else ()


def compute_input_spec(
    wiring: Wiring,
    bound: dict[str, Any],
    selected: Sequence[str] | None = None,
    entrypoints: Sequence[str] | None = None,
) -> InputSpec:
    """Compute what a graph with this wiring takes as input."""
    names = scope_of(wiring, entrypoints, selected)
    scope = set(names)
    every_bound = {**_bound_inside(wiring, names), **bound}
    required: dict[str, None] = {}
    optional: dict[str, None] = {}
    for name in names:
        for param in wiring.nodes[name].inputs:
            if scope.intersection(wiring.feeders(name, param)):
                continue
            free = param in every_bound or any(
                consumer in scope and wiring.nodes[consumer].has_default_for(param)
                for consumer in wiring.consumers[param]
            )
            (optional if free else required)[param] = None
    entries = _cycle_entries(wiring, scope, every_bound, entrypoints or ())
    return InputSpec(tuple(required), tuple(optional), entries, every_bound)


def _bound_inside(wiring: Wiring, names: Sequence[str]) -> dict[str, Any]:
    inside: dict[str, Any] = {}
    for name in names:
        node = wiring.nodes[name]
        if node.nested_graph is not None:
            inner_names = node.map_inputs_to_params({param: param for param in node.inputs})
            inner_bound = node.nested_graph.inputs.bound
            inside.update({outer: inner_bound[inner] for inner, outer in inner_names.items() if inner in inner_bound})
    return inside


def cycles_in(wiring: Wiring, scope: set[str]) -> list[list[str]]:
    """Return the data cycles among the nodes of a scope."""
    if len(scope) == len(wiring.nodes):
        return wiring.data_cycles
    links = {n: [t for t in wiring.data_successors[n] if t in scope] for n in wiring.nodes if n in scope}
    return [[n for n in wiring.nodes if n in c] for c in map(set, cyclic_components(links, links))]


def cycle_params(wiring: Wiring, name: str, component: Collection[str]) -> tuple[str, ...]:
    """Return the parameters of a node that its own cycle feeds."""
    return tuple(
        param for param in wiring.nodes[name].inputs if not set(component).isdisjoint(wiring.feeders(name, param))
    )


def entry_needs(
    wiring: Wiring, name: str, component: Collection[str], bound: Collection[str]
) -> tuple[str, ...]:
    """Return the cycle parameters that a run must supply to start the cycle at this node."""
    node = wiring.nodes[name]
    return tuple(
        param
        for param in cycle_params(wiring, name, component)
        if param not in bound and not node.has_default_for(param) and not _from_interrupt(wiring, name, param)
    )


def _from_interrupt(wiring: Wiring, name: str, param: str) -> bool:
    return any(wiring.nodes[feeder].is_interrupt for feeder in wiring.feeders(name, param))


def _cycle_entries(
    wiring: Wiring, scope: set[str], bound: Collection[str], configured: Sequence[str]
) -> dict[str, tuple[str, ...]]:
    entries: dict[str, tuple[str, ...]] = {}
    for component in cycles_in(wiring, scope):
        starts = [name for name in component if name in configured] or component
        for name in starts:
            if not isinstance(wiring.nodes[name], GateNode):
                needs = entry_needs(wiring, name, component, bound)
                if needs:
                    entries[name] = needs
    return entries
