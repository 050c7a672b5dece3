"""Wiring: the edges between nodes, inferred from names or given explicitly.

It is computed once per set of nodes and shared by every graph derived with bind, select or entry points. It
never raises: mistakes in explicit edges are kept as findings.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

from hypergraph.display import did_you_mean, finding
from hypergraph.nodes.base import HyperNode
from hypergraph.nodes.gate import END, GateNode
from hypergraph.nodes.names import shown
from hypergraph.structure import cyclic_components


@dataclass(frozen=True, slots=True)
class Edge:
    """Connect two nodes: a "data" edge carries values, "control" starts at a gate, "ordering" delays."""

    source: str  # name of the node at its start
    target: str  # name of the node at its end
    edge_type: str  # "data", "control" or "ordering"
    value_names: tuple[str, ...] = ()  # the values it carries


class Wiring:
    """The nodes of a graph by name, and the edges between them."""

    def __init__(self, nodes: Sequence[HyperNode], edges: Iterable[Any] | None) -> None:
        self.nodes = {node.name: node for node in nodes}
        self.explicit = edges is not None
        self.findings: list[str] = []
        self.memo: dict[str, Any] = {}  # results that later layers derive from this wiring, e.g. the plan
        self.producers: dict[str, list[str]] = {}
        self.data_producers: dict[str, list[str]] = {}
        self.consumers: dict[str, list[str]] = {}
        for name, node in self.nodes.items():
            for output in node.outputs:
                self.producers.setdefault(output, []).append(name)
            for output in node.data_outputs:
                self.data_producers.setdefault(output, []).append(name)
            for param in node.inputs:
                self.consumers.setdefault(param, []).append(name)
        self.lists = frozenset(output for node in self.nodes.values() for output in node.append)
        self._edges: dict[tuple[str, str], Edge] = {}
        for found in (
            self._infer() if edges is None else self._read(edges),
            self._control(),
            self._ordering(),
        ):
            for edge in found:
                self._add(edge)

    @property
    def edges(self) -> list[Edge]:
        """All edges, data edges first."""
        return list(self._edges.values())

    @cached_property
    def gates(self) -> dict[str, GateNode]:
        """The gates by name."""
        return {name: node for name, node in self.nodes.items() if isinstance(node, GateNode)}

    @cached_property
    def chosen(self) -> frozenset[str]:
        """The nodes that gates choose from."""
        return frozenset(target for gate in self.gates.values() for target in gate.target_names)

    @cached_property
    def successors(self) -> dict[str, list[str]]:
        """The targets of edges of any type, by source."""
        return self._links(self.edges)

    @cached_property
    def predecessors(self) -> dict[str, list[str]]:
        """The sources of edges of any type, by target."""
        links: dict[str, list[str]] = {name: [] for name in self.nodes}
        for source, target in self._edges:
            links[target].append(source)
        return links

    @cached_property
    def data_successors(self) -> dict[str, list[str]]:
        """The targets of data edges, by source."""
        return self._links(edge for edge in self.edges if edge.edge_type == "data")

    @cached_property
    def value_flow(self) -> dict[str, list[str]]:
        """The possible consumers of each node: those of all producers of a name, not only the first."""
        if self.explicit:
            return self.data_successors
        links: dict[str, dict[str, None]] = {name: {} for name in self.nodes}
        for output, producers in self.data_producers.items():
            for producer in producers:
                links[producer].update(dict.fromkeys(self.consumers.get(output, ())))
        return {name: list(targets) for name, targets in links.items()}

    @cached_property
    def flow_cycles(self) -> list[list[str]]:
        """The cyclic components over `value_flow`."""
        return self._cycles(self.value_flow)

    @cached_property
    def flow_cycle_of(self) -> dict[str, set[str]]:
        """The flow cycle of each node that is part of one."""
        return {name: cycle for cycle in map(set, self.flow_cycles) for name in cycle}

    @cached_property
    def cycles(self) -> list[list[str]]:
        """The cyclic components over `ways`."""
        return self._cycles(self.ways)

    @cached_property
    def cycle_of(self) -> dict[str, set[str]]:
        """The cycle over `ways` of each node that is part of one."""
        return {name: cycle for cycle in map(set, self.cycles) for name in cycle}

    @cached_property
    def ways(self) -> dict[str, list[str]]:
        """The successors of each node by edges of any type, and by `value_flow`."""
        return {name: [*self.successors[name], *self.value_flow[name]] for name in self.nodes}

    @cached_property
    def ways_back(self) -> dict[str, list[str]]:
        """The inverse of `ways`."""
        back: dict[str, list[str]] = {name: [] for name in self.nodes}
        for source, targets in self.ways.items():
            for target in targets:
                back[target].append(source)
        return back

    def _cycles(self, links: dict[str, list[str]]) -> list[list[str]]:
        order = {name: position for position, name in enumerate(self.nodes)}
        found = [sorted(c, key=order.__getitem__) for c in cyclic_components(self.nodes, links)]
        return sorted(found, key=lambda component: order[component[0]])

    @cached_property
    def _declared_feeders(self) -> dict[tuple[str, str], list[str]]:
        feeders: dict[tuple[str, str], list[str]] = {}
        for edge in self.edges:
            if edge.edge_type == "data":
                for value in edge.value_names:
                    feeders.setdefault((edge.target, value), []).append(edge.source)
        return feeders

    def passed(self, nodes: Collection[str]) -> str:
        """Return the quoted names of the values that nodes make for each other."""
        values = (value for node in nodes for value in self.nodes[node].outputs)
        return ", ".join(repr(v) for v in values if not set(nodes).isdisjoint(self.consumers.get(v, ())))

    def feeders(self, node: str, param: str) -> Sequence[str]:
        """Return the nodes that can supply this parameter: declared sources, else all producers."""
        if self.explicit:
            return self._declared_feeders.get((node, param), ())
        return self.data_producers.get(param, ())

    def _links(self, edges: Iterable[Edge]) -> dict[str, list[str]]:
        links: dict[str, list[str]] = {name: [] for name in self.nodes}
        for edge in edges:
            links[edge.source].append(edge.target)
        return links

    def _add(self, edge: Edge) -> None:
        """Add an edge, or merge it with the edge between the same nodes."""
        known = self._edges.get((edge.source, edge.target), edge)
        values = dict.fromkeys((*known.value_names, *edge.value_names))
        kind = "data" if "data" in (known.edge_type, edge.edge_type) else edge.edge_type
        self._edges[edge.source, edge.target] = Edge(edge.source, edge.target, kind, tuple(values))

    def _kind(self, source: str, target: str) -> str | None:
        known = self._edges.get((source, target))
        return known.edge_type if known else None

    def _infer(self) -> Iterable[Edge]:
        for name, node in self.nodes.items():
            for param in node.inputs:
                producers = self.data_producers.get(param, ())
                for producer in producers if param in self.lists else producers[:1]:
                    yield Edge(producer, name, "data", (param,))

    def _control(self) -> Iterable[Edge]:
        for name, gate in self.gates.items():
            for target in gate.target_names:
                if target in self.nodes and self._kind(name, target) != "data":
                    yield Edge(name, target, "control")

    def _ordering(self) -> Iterable[Edge]:
        for name, node in self.nodes.items():
            for awaited in node.wait_for:
                for producer in self.producers.get(awaited, ()):
                    if producer != name and self._kind(producer, name) in (None, "ordering"):
                        yield Edge(producer, name, "ordering", (awaited,))

    def _read(self, edges: Any) -> Iterable[Edge]:
        if not isinstance(edges, Iterable):
            self._report(edges, "edges must be a list of 2-tuple or 3-tuple entries")
            return
        for given in edges:
            if not isinstance(given, (tuple, list)) or len(given) not in (2, 3):
                self._report(
                    given,
                    "an edge must be a 2-tuple or 3-tuple: (source, target) or (source, target, values)",
                )
                continue
            source, target = _endpoint_name(given[0]), _endpoint_name(given[1])
            if not self._knows(source):
                self._report(given, f"unknown source {shown(source)}", did_you_mean(source, self.nodes))
            elif target is END:
                continue  # the end of a chain
            elif not self._knows(target):
                self._report(given, f"unknown target {shown(target)}", did_you_mean(target, self.nodes))
            else:
                yield from self._declared(given, source, target)

    def _knows(self, name: Any) -> bool:
        return isinstance(name, str) and name in self.nodes

    def _declared(self, given: Any, source: str, target: str) -> Iterable[Edge]:
        outputs, inputs = self.nodes[source].data_outputs, self.nodes[target].inputs
        values: Any = tuple(param for param in inputs if param in outputs) if len(given) == 2 else given[2]
        if isinstance(values, str):
            values = (values,)
        if not isinstance(values, (tuple, list)):
            self._report(given, "the values must be a name or a list of names")
            return
        foreign = [
            (f"{shown(value)} is not {what} of {end!r}", did_you_mean(value, names))
            for value in values
            for what, end, names in (("an output", source, outputs), ("an input", target, inputs))
            if value not in names
        ]
        for what, hint in foreign:
            self._report(given, what, hint)
        if not foreign:
            yield Edge(source, target, "data" if values else "ordering", tuple(values))

    def _report(self, given: Any, what: str, hint: str | None = None) -> None:
        ends = tuple(map(_endpoint_name, given)) if isinstance(given, (tuple, list)) else given
        self.findings.append(
            finding(
                f"Invalid edge {shown(ends)}: {what}",
                f"nodes of this graph: {shown(tuple(self.nodes))}",
                hint,
                fix="correct or remove this edge.",
            )
        )

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "memo": {}}


def _endpoint_name(end: Any) -> Any:
    return end.name if isinstance(end, HyperNode) else end


def chain(*nodes: HyperNode | str | type[END]) -> list[tuple[str, Any]]:
    """Return the edges that connect these nodes one after another; END can be the last.

    >>> chain("load", "clean", "split")
    [('load', 'clean'), ('clean', 'split')]

    Raises ValueError for fewer than two nodes, or END before the last place.
    """
    names = [_endpoint_name(node) for node in nodes]
    if len(names) < 2:
        raise ValueError("chain() needs at least two nodes.")
    if END in names[:-1]:
        raise ValueError("END can only be the last argument of chain().")
    return list(pairwise(names))
