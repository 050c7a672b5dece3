"""InputSpec: the required, optional and bound inputs of a graph, and the entries of its cycles.

1. Scope: all nodes, or those reachable from the entry points; with selected outputs, their ancestors.
2. A parameter fed by an edge of the scope is not an input. Other parameters are optional if bound, or if a
   consumer has a default; else they are required. A list that nodes append to is optional: it may be given.
3. A cycle over data edges starts at one of its nodes: each node lists the parameters needed for that.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hypergraph.graph.wiring import Wiring
from hypergraph.nodes.base import HyperNode
from hypergraph.nodes.gate import GateNode
from hypergraph.structure import cyclic_components, walk

if TYPE_CHECKING:
    from hypergraph.graph.graph import Graph


@dataclass(frozen=True, slots=True)
class InputSpec:
    """List the inputs of a graph: required and optional names, cycle entries and bound values."""

    required: tuple[str, ...] = ()  # inputs that every run needs
    optional: tuple[str, ...] = ()  # inputs that are bound or have a default
    entrypoints: dict[str, tuple[str, ...]] = field(default_factory=dict)  # inputs to start a cycle at a node
    bound: dict[str, Any] = field(default_factory=dict)  # values bound to the graph and to nested graphs

    @property
    def all(self) -> tuple[str, ...]:
        """Required names, then optional ones, then entry parameters not yet listed."""
        entries = (name for params in self.entrypoints.values() for name in params)
        return tuple(dict.fromkeys((*self.required, *self.optional, *entries)))


def scope_of(wiring: Wiring, entrypoints: Sequence[str] | None, selected: Sequence[str] | None) -> list[str]:
    """Return the names of the nodes in scope, in node order."""
    scope: Collection[str] = wiring.nodes
    if entrypoints:
        scope = set(walk(entrypoints, wiring.ways))
    if selected:
        scope = _ancestors_of(wiring, selected, scope)
    return [name for name in wiring.nodes if name in scope]


def _ancestors_of(wiring: Wiring, selected: Sequence[str], within: Collection[str]) -> set[str]:
    outside = set(wiring.nodes).difference(within)
    wanted = {producer for output in selected for producer in wiring.producers.get(output, ())}
    backwards = _backward_links(wiring)
    while True:
        found = set(walk(wanted, backwards, without=outside))
        targets = [t for name in found for t in _gate_targets(wiring, name)]
        grown = found.union(walk(targets, wiring.ways, without=outside))
        if grown == wanted:
            return grown
        wanted = grown


def _backward_links(wiring: Wiring) -> dict[str, list[str]]:
    """Return predecessors by all producers of a name, where inferred edges have the first one only."""
    links = {name: list(sources) for name, sources in wiring.predecessors.items()}
    if not wiring.explicit:
        for name, node in wiring.nodes.items():
            for param in node.inputs:
                if len(wiring.data_producers.get(param, ())) > 1:
                    links[name].extend(wiring.data_producers[param])
    return links


def _gate_targets(wiring: Wiring, name: str) -> Iterable[str]:
    gate = wiring.gates.get(name)
    return gate.target_names if gate else ()


def compute_input_spec(
    graph: Graph | Wiring,
    bound: Mapping[str, Any] | None = None,
    selected: Sequence[str] | None = None,
    entrypoints: Sequence[str] | None = None,
) -> InputSpec:
    """Compute the inputs of a graph.

    Bindings, selection and entry points default to those of the graph.
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
            if param in graph.lists or scope.isdisjoint(graph.feeders(name, param)):
                consumers.setdefault(param, []).append(name)
    injected = [name for name in bound or () if name not in consumers]
    asking = {name for name in names if _asks(graph.nodes[name])}  # a bound answer replaces no question
    replaced = bypassed(graph, names, injected, without=asking | graph.chosen)
    consumers = {param: unfed for param, unfed in consumers.items() if not replaced.issuperset(unfed)}
    optional = {
        param
        for param, unfed in consumers.items()
        if param in every_bound
        or param in graph.lists
        or any(graph.nodes[name].can_do_without(param) for name in unfed)
    }
    return InputSpec(
        tuple(param for param in consumers if param not in optional),
        tuple(param for param in consumers if param in optional),
        _cycle_entries(graph, scope, every_bound, entrypoints or ()),
        every_bound,
    )


def _asks(node: HyperNode) -> bool:
    return node.is_interrupt or (node.nested_graph is not None and node.nested_graph.has_interrupts)


def bypassed(
    wiring: Wiring, names: Sequence[str], available: Collection[str], without: Collection[str] = ()
) -> set[str]:
    """A7: nodes whose outputs are all given, or those that others take, or only such nodes take them.

    Not nodes of a cycle: what is given there is the value it begins with, and the next round runs them.
    """
    if wiring.data_producers.keys().isdisjoint(available):
        return set()
    scope, idle = set(names), set[str]()
    takers = {
        name: consumed_outputs(wiring, name, scope)
        or {output: [] for output in wiring.nodes[name].data_outputs}
        for name in names
        if name not in without and name not in wiring.cycle_of
    }
    grown = True
    while grown:
        grown = False
        for name in reversed([name for name in takers if name not in idle]):
            if takers[name] and all(
                output in available or (consumers and idle.issuperset(consumers))
                for output, consumers in takers[name].items()
            ):
                idle.add(name)
                grown = True
    return idle


def consumed_outputs(wiring: Wiring, name: str, active: Collection[str]) -> dict[str, list[str]]:
    """Return the outputs of a node that others take from it, each with those consumers."""
    found: dict[str, list[str]] = {}
    for output in wiring.nodes[name].data_outputs:
        consumers = [
            c for c in wiring.consumers.get(output, ()) if c in active and name in wiring.feeders(c, output)
        ]
        if consumers:
            found[output] = consumers
    return found


def _bound_inside(wiring: Wiring, names: Sequence[str]) -> dict[str, Any]:
    inside: dict[str, Any] = {}
    for node in (wiring.nodes[name] for name in names):
        if node.nested_graph is not None:
            bound = node.nested_graph.inputs.bound
            outer_names = node.map_inputs_to_params({p: p for p in node.inputs if node.can_do_without(p)})
            inside.update((outer, bound[inner]) for inner, outer in outer_names.items() if inner in bound)
    return inside


def cycles_in(wiring: Wiring, scope: set[str]) -> list[list[str]]:
    """Return the cycles of values within a scope."""
    if len(scope) == len(wiring.nodes):
        return wiring.flow_cycles
    links = {n: [t for t in wiring.value_flow[n] if t in scope] for n in wiring.nodes if n in scope}
    return [[n for n in wiring.nodes if n in c] for c in map(set, cyclic_components(links, links))]


def _entry_params(
    wiring: Wiring, name: str, component: Collection[str], bound: Collection[str], scope: Collection[str]
) -> tuple[str, ...]:
    """Return the parameters of this node that start the cycle here.

    These are the parameters produced by nodes of the cycle only: not by an interrupt or a node outside of
    the cycle, and without a bound value or default.
    """
    node, cycle = wiring.nodes[name], wiring.flow_cycle_of.get(name, set()).union(component)
    params = []
    for param in node.inputs:
        feeders = {feeder for feeder in wiring.feeders(name, param) if feeder in scope}
        if (
            feeders
            and param not in wiring.lists
            and feeders <= cycle
            and param not in bound
            and not (node.has_default_for(param) and node.can_do_without(param) and not _begins(node, param))
            and not any(wiring.nodes[feeder].is_interrupt for feeder in feeders)
        ):
            params.append(param)
    return tuple(params)


def _begins(node: HyperNode, param: str) -> bool:
    """Say whether a loop inside of a nested graph could begin with a parameter, wherever it has a default."""
    if node.nested_graph is None:
        return False
    (name,) = node.map_inputs_to_params({param: None})
    return any(name in params for params in node.nested_graph.inputs.entrypoints.values())


def entry_needs(
    wiring: Wiring, name: str, component: Collection[str], bound: Collection[str], scope: Collection[str]
) -> tuple[str, ...]:
    """Return the parameters that a run must supply to start the cycle at this node.

    A nested graph with its own cycle can start from one of several parameters; none of them is required.
    """
    params = _entry_params(wiring, name, component, bound, scope)
    return tuple(param for param in params if not wiring.nodes[name].can_do_without(param))


def starts_alone(
    wiring: Wiring, name: str, component: Collection[str], bound: Collection[str], scope: Collection[str]
) -> bool:
    """Return whether a cycle can start at this node without further inputs."""
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
            needs = [
                set(entry_needs(wiring, name, component, spec.bound, scope))
                for name in starts
                if name in spec.entrypoints
            ]
            needed |= set.intersection(*needs) if needs else set()
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
