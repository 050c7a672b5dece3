"""Edges from names: who feeds whom, who waits for whom, which gate controls which node.

Wiring is computed once per set of nodes and shared by every graph derived with bind, select or
entry points. It never raises: what is wrong with explicit edges is kept as findings.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from hypergraph.graph.components import Reach, cyclic_components
from hypergraph.graph.findings import did_you_mean, finding
from hypergraph.nodes.base import HyperNode
from hypergraph.nodes.gate import END, GateNode


@dataclass(frozen=True, slots=True)
class Edge:
    """A directed edge: "data" carries values, "control" leads from a gate, "ordering" only waits."""

    source: str
    target: str
    edge_type: str
    value_names: tuple[str, ...] = ()


class Wiring:
    """The nodes of a graph by name, and the edges between them."""

    def __init__(self, nodes: Sequence[HyperNode], edges: Iterable[Any] | None) -> None:
        self.nodes = {node.name: node for node in nodes}
        self.explicit = edges is not None
        self.findings: list[str] = []
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
        self._edges: dict[tuple[str, str], Edge] = {}
        for edge in self._infer() if edges is None else self._read(edges):
            self._add(edge)
        self._add_control_edges()
        self._add_ordering_edges()

    @property
    def edges(self) -> list[Edge]:
        """All edges, data edges first."""
        return list(self._edges.values())

    @cached_property
    def gates(self) -> dict[str, GateNode]:
        """The gates by name."""
        return {name: node for name, node in self.nodes.items() if isinstance(node, GateNode)}

    @cached_property
    def successors(self) -> dict[str, list[str]]:
        """Where edges of any type lead from each node."""
        return self._links(self.edges)

    @cached_property
    def predecessors(self) -> dict[str, list[str]]:
        """Where edges of any type come from."""
        links: dict[str, list[str]] = {name: [] for name in self.nodes}
        for source, target in self._edges:
            links[target].append(source)
        return links

    @cached_property
    def data_successors(self) -> dict[str, list[str]]:
        """Where data edges lead from each node."""
        return self._links(edge for edge in self.edges if edge.edge_type == "data")

    @cached_property
    def value_flow(self) -> dict[str, list[str]]:
        """Where values can go: from every producer of a name, not only the first, to all it feeds."""
        if self.explicit:
            return self.data_successors
        links: dict[str, dict[str, None]] = {name: {} for name in self.nodes}
        for output, producers in self.data_producers.items():
            for producer in producers:
                links[producer].update(dict.fromkeys(self.consumers.get(output, ())))
        return {name: list(targets) for name, targets in links.items()}

    @cached_property
    def data_cycles(self) -> list[list[str]]:
        """The cyclic components over data edges, each in node order."""
        return self._cycles(self.data_successors)

    @cached_property
    def flow_cycles(self) -> list[list[str]]:
        """The cyclic components over all ways that values can go."""
        return self._cycles(self.value_flow)

    @cached_property
    def cycles(self) -> list[list[str]]:
        """The cyclic components over edges of every type."""
        return self._cycles(self.successors)

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

    def feeders(self, node: str, param: str) -> Sequence[str]:
        """Return the nodes that may deliver this parameter: declared sources, else all producers."""
        if self.explicit:
            return self._declared_feeders.get((node, param), ())
        return self.data_producers.get(param, ())

    def reach_without(self, contested: set[str]) -> Reach:
        """Return path knowledge after dropping data edges that carry contested values only."""
        kept = self.edges
        if not self.explicit:
            kept = [e for e in kept if e.edge_type != "data" or not contested.issuperset(e.value_names)]
        return Reach(list(self.nodes), self._links(kept))

    def _links(self, edges: Iterable[Edge]) -> dict[str, list[str]]:
        links: dict[str, list[str]] = {name: [] for name in self.nodes}
        for edge in edges:
            links[edge.source].append(edge.target)
        return links

    def _add(self, edge: Edge) -> None:
        known = self._edges.get((edge.source, edge.target))
        if known is not None:
            values = tuple(dict.fromkeys((*known.value_names, *edge.value_names)))
            edge = Edge(edge.source, edge.target, "data" if values else edge.edge_type, values)
        self._edges[edge.source, edge.target] = edge

    def _infer(self) -> Iterable[Edge]:
        for name, node in self.nodes.items():
            for param in node.inputs:
                if param in self.data_producers:
                    yield Edge(self.data_producers[param][0], name, "data", (param,))

    def _add_control_edges(self) -> None:
        for name, gate in self.gates.items():
            for target in gate.target_names:
                if target in self.nodes and (name, target) not in self._edges:
                    self._edges[name, target] = Edge(name, target, "control")
                elif self._edges.get((name, target), Edge("", "", "data")).edge_type == "ordering":
                    self._edges[name, target] = Edge(name, target, "control")

    def _add_ordering_edges(self) -> None:
        for name, node in self.nodes.items():
            for awaited in node.wait_for:
                for producer in self.producers.get(awaited, ()):
                    if producer != name and (producer, name) not in self._edges:
                        self._edges[producer, name] = Edge(producer, name, "ordering", (awaited,))

    def _read(self, edges: Iterable[Any]) -> Iterable[Edge]:
        for given in edges:
            if not isinstance(given, (tuple, list)) or len(given) not in (2, 3):
                self._report(given, "an edge must be a 2-tuple or 3-tuple: (source, target) or (source, target, values)")
                continue
            source, target = _end_name(given[0]), _end_name(given[1])
            if target == END:
                continue  # where a chain ends; nothing to wire
            if source not in self.nodes:
                self._report(given, f"unknown source {source!r}", did_you_mean(source, self.nodes))
            elif target not in self.nodes:
                self._report(given, f"unknown target {target!r}", did_you_mean(target, self.nodes))
            else:
                yield from self._declared(given, source, target)

    def _declared(self, given: Any, source: str, target: str) -> Iterable[Edge]:
        outputs, inputs = self.nodes[source].data_outputs, self.nodes[target].inputs
        if len(given) == 2:
            shared = tuple(param for param in inputs if param in outputs)
            yield Edge(source, target, "data" if shared else "ordering", shared)
            return
        values = (given[2],) if isinstance(given[2], str) else tuple(given[2])
        wrong = False
        for value in values:
            if value not in outputs:
                wrong = True
                self._report(given, f"{value!r} is not an output of {source!r}", did_you_mean(value, outputs))
            if value not in inputs:
                wrong = True
                self._report(given, f"{value!r} is not an input of {target!r}", did_you_mean(value, inputs))
        if not wrong:
            yield Edge(source, target, "data" if values else "ordering", values)

    def _report(self, given: Any, what: str, hint: str | None = None) -> None:
        shown = tuple(_end_name(part) for part in given) if isinstance(given, (tuple, list)) else given
        self.findings.append(
            finding(f"Invalid edge {shown!r}: {what}", *([hint] if hint else []), fix="correct or remove this edge.")
        )


def _end_name(end: Any) -> Any:
    return end.name if isinstance(end, HyperNode) else end


def chain(*nodes: HyperNode | str | type[END]) -> list[tuple[str, Any]]:
    """Return the edges that join these nodes in a row; END may stand last.

    Raises ValueError for fewer than two nodes or an END in between.
    """
    names = [_end_name(node) for node in nodes]
    if len(names) < 2:
        raise ValueError("chain() needs at least two nodes.")
    if END in names[:-1]:
        raise ValueError("END can only stand last in a chain().")
    return list(zip(names[:-1], names[1:], strict=True))
