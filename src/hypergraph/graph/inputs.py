"""Which inputs a graph needs, may take, or has bound.

1. Scope: all nodes, or those reachable from the entry points; if outputs are selected, what leads to them.
2. A parameter fed by an edge of the scope is no input; else it is optional when bound or defaulted
   somewhere, else required.
3. A cycle over data edges has to be entered: each of its nodes lists the parameters it would need.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hypergraph.graph.wiring import Wiring
from hypergraph.nodes.gate import GateNode
from hypergraph.structure import cyclic_components, walk

if TYPE_CHECKING:
    from hypergraph.graph.graph import Graph


@dataclass(frozen=True, slots=True)
class InputSpec:
    """Say what a graph takes: required and optional names, cycle entries and bound values."""

    required: tuple[str, ...] = ()  # must be given
    optional: tuple[str, ...] = ()  # may be given: bound, or with a default
    entrypoints: dict[str, tuple[str, ...]] = field(default_factory=dict)  # to begin a cycle there
    bound: dict[str, Any] = field(default_factory=dict)  # values bound to the graph and to graphs inside

    @property
    def all(self) -> tuple[str, ...]:
        """Required names, then optional ones, then entry parameters not yet listed."""
        entries = (name for params in self.entrypoints.values() for name in params)
        return tuple(dict.fromkeys((*self.required, *self.optional, *entries)))


def scope_of(wiring: Wiring, entrypoints: Sequence[str] | None, selected: Sequence[str] | None) -> list[str]:
    """Return the names of the nodes that matter, in node order."""
    scope: Collection[str] = wiring.nodes
    if entrypoints:
        scope = set(walk(entrypoints, wiring.successors))
    if selected:
        scope = _leading_to(wiring, selected, scope)
    return [name for name in wiring.nodes if name in scope]


def _leading_to(wiring: Wiring, selected: Sequence[str], within: Collection[str]) -> set[str]:
    outside = set(wiring.nodes).difference(within)
    wanted = {producer for output in selected for producer in wiring.producers.get(output, ())}
    backwards = _backward_links(wiring)
    while True:
        found = set(walk(wanted, backwards, without=outside))
        targets = [t for name in found for t in _targets(wiring, name)]
        grown = found.union(walk(targets, wiring.successors, without=outside))
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
    graph: Graph | Wiring,
    bound: Mapping[str, Any] | None = None,
    selected: Sequence[str] | None = None,
    entrypoints: Sequence[str] | None = None,
) -> InputSpec:
    """Compute what a graph takes as input.

    Of a Graph its own bindings, selection and entry points count where no others are given. Raises nothing.
    """
    if not isinstance(graph, Wiring):
        bound = graph.bound if bound is None else bound
        selected, entrypoints = selected or graph.selected, entrypoints or graph.entrypoints_config
        graph = graph.wiring
    names = scope_of(graph, entrypoints, selected)
    scope = set(names)
    every_bound = {**_bound_inside(graph, names), **(bound or {})}
    consumers: dict[str, list[str]] = {}
    for name in names:
        for param in graph.nodes[name].inputs:
            if scope.isdisjoint(graph.feeders(name, param)):
                consumers.setdefault(param, []).append(name)
    optional = {
        param
        for param, unfed in consumers.items()
        if param in every_bound or any(graph.nodes[name].can_do_without(param) for name in unfed)
    }
    return InputSpec(
        tuple(param for param in consumers if param not in optional),
        tuple(param for param in consumers if param in optional),
        _cycle_entries(graph, scope, every_bound, entrypoints or ()),
        every_bound,
    )


def _bound_inside(wiring: Wiring, names: Sequence[str]) -> dict[str, Any]:
    inside: dict[str, Any] = {}
    for node in (wiring.nodes[name] for name in names):
        if node.nested_graph is not None:
            bound = node.nested_graph.inputs.bound
            outer_names = node.map_inputs_to_params({p: p for p in node.inputs if node.can_do_without(p)})
            inside.update((outer, bound[inner]) for inner, outer in outer_names.items() if inner in bound)
    return inside


def cycles_in(wiring: Wiring, scope: set[str]) -> list[list[str]]:
    """Return the data cycles among the nodes of a scope."""
    if len(scope) == len(wiring.nodes):
        return wiring.data_cycles
    links = {n: [t for t in wiring.data_successors[n] if t in scope] for n in wiring.nodes if n in scope}
    return [[n for n in wiring.nodes if n in c] for c in map(set, cyclic_components(links, links))]


def _entry_params(
    wiring: Wiring, name: str, component: Collection[str], bound: Collection[str], scope: Collection[str]
) -> tuple[str, ...]:
    """Return the cycle parameters from which the cycle can be started at this node.

    Those are the parameters that nodes of the cycle produce, and nobody else: no interrupt, no node of the
    scope from which values only flow into the cycle, no binding and no default.
    """
    node, cycle = wiring.nodes[name], wiring.flow_cycle_of.get(name, set()).union(component)
    params = []
    for param in node.inputs:
        feeders = {feeder for feeder in wiring.feeders(name, param) if feeder in scope}
        if (
            feeders
            and feeders <= cycle
            and param not in bound
            and not (node.has_default_for(param) and node.can_do_without(param))
            and not any(wiring.nodes[feeder].is_interrupt for feeder in feeders)
        ):
            params.append(param)
    return tuple(params)


def entry_needs(
    wiring: Wiring, name: str, component: Collection[str], bound: Collection[str], scope: Collection[str]
) -> tuple[str, ...]:
    """Return the cycle parameters that a run must supply to start the cycle at this node.

    A nested graph with a cycle of its own may start from either of several, so that none is a must.
    """
    params = _entry_params(wiring, name, component, bound, scope)
    return tuple(param for param in params if not wiring.nodes[name].can_do_without(param))


def starts_alone(
    wiring: Wiring, name: str, component: Collection[str], bound: Collection[str], scope: Collection[str]
) -> bool:
    """Say whether a cycle can start at this node with nothing supplied for it."""
    gate = isinstance(wiring.nodes[name], GateNode)
    return not gate and not entry_needs(wiring, name, component, bound, scope)


def indispensable_inputs(graph: Graph) -> frozenset[str]:
    """Return the inputs without which no run of the graph can start."""
    wiring, spec, configured = graph.wiring, graph.inputs, graph.entrypoints_config or ()
    scope = set(scope_of(wiring, configured, graph.selected))
    needed = set(spec.required)
    for component in cycles_in(wiring, scope) if spec.entrypoints else ():
        starts = [name for name in component if name in configured] or component
        if not any(starts_alone(wiring, name, component, spec.bound, scope) for name in starts):
            ways = [
                set(entry_needs(wiring, name, component, spec.bound, scope))
                for name in starts
                if name in spec.entrypoints
            ]
            needed |= set.intersection(*ways) if ways else set()
    return frozenset(needed)


def _cycle_entries(
    wiring: Wiring, scope: set[str], bound: Collection[str], configured: Sequence[str]
) -> dict[str, tuple[str, ...]]:
    entries: dict[str, tuple[str, ...]] = {}
    for component in cycles_in(wiring, scope):
        for name in [name for name in component if name in configured] or component:
            params = _entry_params(wiring, name, component, bound, scope)
            if params and not isinstance(wiring.nodes[name], GateNode):
                entries[name] = params
    return entries
