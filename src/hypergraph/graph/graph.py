"""Graph: nodes joined by names, immutable."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Literal, Self

from hypergraph.display import did_you_mean, finding, plural
from hypergraph.exceptions import GraphConfigError
from hypergraph.graph.describe import describe
from hypergraph.graph.inputs import InputSpec, compute_input_spec, indispensable_inputs
from hypergraph.graph.mermaid import to_mermaid
from hypergraph.graph.networks import flat_network, network
from hypergraph.graph.picture import graph_html, visualize
from hypergraph.graph.validation import validate_graph
from hypergraph.graph.wiring import Edge, Wiring
from hypergraph.nodes.base import Frozen, HyperNode
from hypergraph.nodes.graph_node import GraphNode
from hypergraph.nodes.names import Names, got, shown
from hypergraph.nodes.signature import sha256


def definition_hash(graph: Graph) -> str:
    """Return the hash of a graph; it is remembered, as are those of the graphs inside."""
    pending = [graph]
    while pending:  # inner graphs first, without recursion: nesting may be deep
        nested = (node.nested_graph for node in pending[-1].iter_nodes())
        unknown = [inner for inner in nested if inner is not None and "hash" not in inner.memo]
        if unknown:
            pending += unknown
        else:
            done = pending.pop()
            items = sorted(f"{node.name}:{node.definition_hash}" for node in done.iter_nodes())
            done.memo["hash"] = sha256(*items, "edges", *sorted(set(_edge_texts(done.wiring))))
    return str(graph.memo["hash"])


def _edge_texts(wiring: Wiring) -> Iterator[str]:
    """Write edges from output position to original parameter: renames may connect other ends."""
    for name, node in wiring.nodes.items():
        for param in node.inputs:
            (original,) = node.map_inputs_to_params({param: None})
            for feeder in wiring.feeders(name, param) or ("",):
                source = f"{feeder}.{wiring.nodes[feeder].outputs.index(param)}" if feeder else "input"
                yield f"{source}->{name}.{original}:{param}"
        for awaited in node.wait_for:
            for producer in wiring.producers[awaited]:
                yield f"{producer}->{name}:ordering"
    for edge in wiring.edges:
        if edge.edge_type == "control" or (wiring.explicit and edge.edge_type == "ordering"):
            yield f"{edge.source}->{edge.target}:{edge.edge_type}"


class Graph(Frozen):
    """Join nodes by the names of their inputs and outputs, or by explicit edges.

    `edges` declares them all, see `chain`; `name` shows in logs; `strict_types` checks the annotations along
    every edge. Raises GraphConfigError with all findings when the nodes cannot work together, TypeError for
    things that are no nodes.
    """

    name: str | None  # as given
    strict_types: bool  # whether types were checked
    wiring: Wiring  # the nodes and edges, as the package uses them
    selected: tuple[str, ...] | None  # the outputs that a run returns; None for all
    entrypoints_config: tuple[str, ...] | None  # the nodes that runs begin at; None for all
    _bound: dict[str, Any]
    memo: dict[str, Any]  # what the package worked out about this graph

    def __init__(
        self,
        nodes: Iterable[HyperNode],
        *,
        edges: Iterable[Any] | None = None,
        name: str | None = None,
        strict_types: bool = False,
    ) -> None:
        listed = [_checked_node(node) for node in _checked_list(nodes)]
        if name is not None and not isinstance(name, str):
            raise TypeError(f"A graph's name must be a string, got {got(name)}")
        self.__dict__.update(
            name=name,
            strict_types=bool(strict_types),
            wiring=validate_graph(listed, edges=edges, name=name, strict_types=strict_types),
            selected=None,
            entrypoints_config=None,
            _bound={},
            memo={},
        )

    # -- what it is made of --------------------------------------------------------------------------

    @property
    def nodes(self) -> dict[str, HyperNode]:
        """The nodes by name, in construction order; a copy."""
        return dict(self.wiring.nodes)

    def iter_nodes(self) -> Iterator[HyperNode]:
        """Iterate over the nodes in construction order."""
        return iter(self.wiring.nodes.values())

    @property
    def edges(self) -> list[Edge]:
        """The edges with their type and the names of the values they carry."""
        return self.wiring.edges

    @property
    def outputs(self) -> tuple[str, ...]:
        """All output names, emit names included, in node order."""
        return tuple(self.wiring.producers)

    @property
    def data_outputs(self) -> dict[str, list[str]]:
        """The outputs that carry values, each with its producers."""
        return self.wiring.data_producers

    @property
    def leaf_outputs(self) -> tuple[str, ...]:
        """The outputs of nodes without outgoing edges."""
        leaves = (node for node in self.iter_nodes() if not self.wiring.successors[node.name])
        return tuple(dict.fromkeys(output for node in leaves for output in node.outputs))

    @property
    def inputs(self) -> InputSpec:
        """What the graph takes; computed once."""
        if "inputs" not in self.memo:
            self.memo["inputs"] = compute_input_spec(self)
        spec: InputSpec = self.memo["inputs"]
        return spec

    @property
    def indispensable(self) -> frozenset[str]:
        """The inputs no run can start without: required ones, and those every way into a cycle needs."""
        if "indispensable" not in self.memo:
            self.memo["indispensable"] = indispensable_inputs(self)
        return self.memo["indispensable"]  # type: ignore[no-any-return]  # set one line above

    @property
    def bound(self) -> dict[str, Any]:
        """The values bound to this very graph; a copy."""
        return dict(self._bound)

    @property
    def controlled_by(self) -> dict[str, list[str]]:
        """The gates that target each node."""
        controlled: dict[str, list[str]] = {}
        for name, gate in self.wiring.gates.items():
            for target in gate.target_names:
                controlled.setdefault(target, []).append(name)
        return controlled

    @property
    def self_producers(self) -> dict[str, set[str]]:
        """The producers of each output."""
        return {output: set(producers) for output, producers in self.wiring.producers.items()}

    @property
    def sole_producers(self) -> dict[str, str]:
        """The producer of each output that has exactly one."""
        return {output: found[0] for output, found in self.wiring.producers.items() if len(found) == 1}

    def consumers_of(self, name: str) -> list[HyperNode]:
        """Return the nodes that take this input."""
        return [self.wiring.nodes[consumer] for consumer in self.wiring.consumers.get(name, ())]

    def producers_of(self, name: str) -> list[HyperNode]:
        """Return the nodes that produce this output."""
        return [self.wiring.nodes[producer] for producer in self.wiring.producers.get(name, ())]

    @property
    def has_cycles(self) -> bool:
        """Whether edges of any type, from whichever producer of a value, form a cycle."""
        return bool(self.wiring.cycles)

    @property
    def has_async_nodes(self) -> bool:
        """Whether some node, at any depth, is async."""
        return any(node.is_async for node in self.iter_nodes())

    @property
    def interrupt_nodes(self) -> list[HyperNode]:
        """The interrupts of this graph itself."""
        return [node for node in self.iter_nodes() if node.is_interrupt]

    @property
    def has_interrupts(self) -> bool:
        """Whether the graph, or a graph inside it, has an interrupt."""
        if "has_interrupts" not in self.memo:
            self.memo["has_interrupts"] = any(
                n.is_interrupt or (n.nested_graph is not None and n.nested_graph.has_interrupts)
                for n in self.iter_nodes()
            )
        return bool(self.memo["has_interrupts"])

    @property
    def definition_hash(self) -> str:
        """A hash over structure and code, independent of bindings and of the order of nodes."""
        return str(self.memo.get("hash") or definition_hash(self))

    # -- copies --------------------------------------------------------------------------------------

    def bind(self, /, **values: Any) -> Self:
        """Return a graph with these inputs or outputs filled in. Raises ValueError for unknown names."""
        known = {**self.wiring.consumers, **self.wiring.data_producers}
        for name in values:
            if name not in known and name in self.wiring.producers:
                raise ValueError(f"Cannot bind {name!r}: an emit name orders nodes and carries no value.")
            if name not in known:
                hint = did_you_mean(name, known) or ""
                raise ValueError(f"Cannot bind {name!r}: not a graph input or output. {hint}".rstrip())
        return self._copy(_bound={**self._bound, **values})

    def unbind(self, *keys: str) -> Self:
        """Return a graph without these bindings; unknown keys are ignored."""
        return self._copy(_bound={name: value for name, value in self._bound.items() if name not in keys})

    def select(self, *names: str) -> Self:
        """Return a graph that returns only these outputs. Raises ValueError for unknown or repeated names."""
        outputs = tuple(self.wiring.data_producers)
        unknown = ", ".join(shown(name) for name in names if name not in outputs)
        if unknown:
            raise ValueError(f"Cannot select {unknown}: not graph outputs. Outputs: {outputs}")
        if len(set(names)) < len(names):
            raise ValueError(f"select() needs unique output names, got {names}")
        return self._copy(selected=names or None)

    def with_entrypoint(self, *names: str) -> Self:
        """Return a graph in which only these nodes and what follows them ever run.

        Raises GraphConfigError for unknown nodes and gates.
        """
        for name in names:
            if name not in list(self.wiring.nodes):
                hint = did_you_mean(name, self.wiring.nodes)
                raise GraphConfigError(
                    finding(f"Unknown entry point {shown(name)}", hint, fix="name a node of the graph.")
                )
            if name in self.wiring.gates:
                fix = "enter at the node whose output the gate reads."
                raise GraphConfigError(finding(f"Entry point {name!r} is a gate", fix=fix))
        merged = tuple(dict.fromkeys((*(self.entrypoints_config or ()), *names)))
        return self._copy(entrypoints_config=merged or None)

    def add_nodes(self, *nodes: HyperNode) -> Self:
        """Return a graph with further nodes; bindings and selection are kept, entry points are dropped.

        Raises GraphConfigError for a graph with explicit edges, ValueError when a bound input would become
        an output.
        """
        if not nodes:
            return self
        if self.wiring.explicit:
            raise GraphConfigError(
                finding(
                    "Cannot use add_nodes on a graph with explicit edges",
                    "nothing would say how the new nodes are joined",
                    fix="build a new Graph with all nodes and edges.",
                )
            )
        grown = type(self)([*self.iter_nodes(), *nodes], name=self.name, strict_types=self.strict_types)
        for name in self._bound:
            if name in grown.wiring.data_producers and name not in self.wiring.data_producers:
                raise ValueError(
                    f"The binding of {name!r} is no longer valid after add_nodes: it was an input and is now "
                    f"produced by {grown.wiring.data_producers[name]}. Call unbind({name!r}) first."
                )
        return grown._copy(_bound=self._bound, selected=self.selected)

    def as_node(
        self,
        *,
        name: str | None = None,
        durability: Literal["nested", "atomic"] = "nested",
        lift: Names = None,
    ) -> GraphNode:
        """Return this graph as a node; `name`, `durability` and `lift` are those of GraphNode, which see."""
        return GraphNode(self, name, durability=durability, lift=lift)

    def _copy(self, **changes: Any) -> Self:
        clone = object.__new__(type(self))
        clone.__dict__.update(self.__dict__)
        clone.__dict__.update(changes, memo={})
        return clone

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "memo": {}}

    # -- looking at it -------------------------------------------------------------------------------

    @property
    def nx_graph(self) -> Any:
        """The graph as a networkx DiGraph. Raises ImportError without the extra `viz`."""
        if "network" not in self.memo:
            self.memo["network"] = network(self.wiring)
        return self.memo["network"]

    def to_flat_graph(self) -> Any:
        """Return a networkx DiGraph with nested nodes under "parent/child" ids. Raises ImportError."""
        return flat_network(self)

    describe = describe
    to_mermaid = to_mermaid
    visualize = visualize
    _repr_html_ = graph_html

    def __repr__(self) -> str:
        size = plural(len(self.wiring.nodes), "node")
        return f"Graph({self.name or 'unnamed'}, {size}, outputs={self.outputs})"


def _checked_list(nodes: Any) -> Iterable[Any]:
    if isinstance(nodes, Iterable):
        return nodes
    raise TypeError(f"A graph takes a list of nodes, got {got(nodes)}; write Graph([...]).")


def _checked_node(node: Any) -> HyperNode:
    if isinstance(node, HyperNode):
        return node
    remedy = "a graph takes nodes"
    if isinstance(node, Graph):
        remedy = "use its as_node()"
    elif callable(node):
        remedy = "decorate it with @node(output_name=...)"
    raise TypeError(f"{got(node)} is not a node; {remedy}.")
