"""Graph: nodes connected by the names of their inputs and outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Self

from hypergraph.display import did_you_mean, finding, plural
from hypergraph.exceptions import GraphConfigError
from hypergraph.graph.describe import describe
from hypergraph.graph.formerly import ITEM, Renaming, checked_formerly, recorded_as
from hypergraph.graph.inputs import InputSpec, compute_input_spec, indispensable_inputs
from hypergraph.graph.mermaid import to_mermaid
from hypergraph.graph.networks import flat_network, network
from hypergraph.graph.picture import graph_html, visualize
from hypergraph.graph.replacing import declared_edges, replaced_nodes
from hypergraph.graph.validation import validate_graph
from hypergraph.graph.wiring import Edge, Wiring
from hypergraph.nodes.base import Frozen, HyperNode
from hypergraph.nodes.graph_node import GraphNode
from hypergraph.nodes.names import Names, got, shown
from hypergraph.nodes.signature import callable_name, sha256


def definition_hash(graph: Graph) -> str:
    """Return the hash of a graph; it is kept in the memo, as are those of nested graphs."""
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
    """Yield edges as strings, from output position to original parameter: a rename can swap ends."""
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


_ELSEWHERE = frozenset({"run", "map", "iter", "invoke", "ainvoke", "stream", "astream", "compile", "execute"})


class Graph(Frozen):
    """Connect nodes by the names of their inputs and outputs, or by explicit edges. Immutable.

    >>> @node(output_name="words")
    ... def split(text):
    ...     return text.split()
    >>> @node(output_name="total")
    ... def count(words):
    ...     return len(words)
    >>> SyncRunner().run(Graph([split, count]), text="a b c")["total"]
    3

    Raises GraphConfigError with all findings if the nodes do not fit together, TypeError if `nodes` contains
    anything but nodes.

    Args:
        nodes: the nodes of the graph
        edges: all edges, instead of inferring them from names; see `chain`
        name: the name in logs and stores; required to nest the graph
        strict_types: check the type annotations along every edge
        formerly: maps former names of nodes and values to those of today, for runs recorded under them, and
            the names of removed nodes to None
        version: the version of the code; an unfinished run is continued only by code of its version
    """

    name: str | None  # as given
    strict_types: bool  # whether types were checked
    wiring: Wiring  # nodes and edges in the form that the package uses
    selected: tuple[str, ...] | None  # the outputs that a run returns; None for all
    entrypoints_config: tuple[str, ...] | None  # the nodes at which runs start; None for all
    _bound: dict[str, Any]
    formerly: Mapping[str, str]  # former names of nodes and values -> those of today
    removed: frozenset[str]  # former nodes that have no follower
    version: str | None  # of the code; None for any
    renaming: Renaming | None  # of a graph under the names of a recorded run
    memo: dict[str, Any]  # results computed once per graph

    def __init__(
        self,
        nodes: Iterable[HyperNode],
        *,
        edges: Iterable[Any] | None = None,
        name: str | None = None,
        strict_types: bool = False,
        formerly: Mapping[str, str | None] | None = None,
        version: str | None = None,
    ) -> None:
        listed = _checked_nodes(nodes)
        if name is not None and not isinstance(name, str):
            raise TypeError(f"The name of a graph must be a string, got {got(name)}")
        wiring = validate_graph(listed, edges=edges, name=name, strict_types=strict_types)
        findings: list[str] = []
        former, removed = checked_formerly({} if formerly is None else formerly, wiring, findings)
        if findings:
            raise GraphConfigError.from_findings(findings)
        self.__dict__.update(
            name=name,
            strict_types=bool(strict_types),
            wiring=wiring,
            formerly=former,
            removed=removed,
            version=_checked_version(version),
            renaming=None,
            selected=None,
            entrypoints_config=None,
            _bound={},
            memo={},
        )

    if not TYPE_CHECKING:  # for type checkers every name would be an attribute

        def __getattr__(self, name: str) -> Any:
            """Raise AttributeError, with the way to run a graph where a name asks for it."""
            if name in _ELSEWHERE:
                raise AttributeError(
                    f"A graph has no {name}(): a runner runs it. Write SyncRunner().run(graph, ...), or "
                    "await AsyncRunner().run(graph, ...)."
                )
            raise AttributeError(f"'Graph' object has no attribute {name!r}", name=name, obj=self)

    # -- structure -----------------------------------------------------------------------------------

    @property
    def nodes(self) -> dict[str, HyperNode]:
        """A copy of the nodes by name, in construction order."""
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
        """The outputs that carry values, with their producers."""
        return self.wiring.data_producers

    @property
    def leaf_outputs(self) -> tuple[str, ...]:
        """The outputs of nodes without outgoing edges."""
        leaves = (node for node in self.iter_nodes() if not self.wiring.successors[node.name])
        return tuple(dict.fromkeys(output for node in leaves for output in node.outputs))

    @property
    def inputs(self) -> InputSpec:
        """The required, optional and bound inputs; computed once."""
        if "inputs" not in self.memo:
            self.memo["inputs"] = compute_input_spec(self)
        spec: InputSpec = self.memo["inputs"]
        return spec

    @property
    def indispensable(self) -> frozenset[str]:
        """The inputs that every run needs: required ones, and those common to all entries of a cycle."""
        if "indispensable" not in self.memo:
            self.memo["indispensable"] = indispensable_inputs(self)
        return self.memo["indispensable"]  # type: ignore[no-any-return]  # set one line above

    @property
    def bound(self) -> dict[str, Any]:
        """A copy of the values bound to this graph itself."""
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
        """Return the nodes with this input."""
        return [self.wiring.nodes[consumer] for consumer in self.wiring.consumers.get(name, ())]

    def producers_of(self, name: str) -> list[HyperNode]:
        """Return the nodes with this output."""
        return [self.wiring.nodes[producer] for producer in self.wiring.producers.get(name, ())]

    @cached_property
    def has_cycles(self) -> bool:
        """Whether edges of any type form a cycle."""
        return bool(self.wiring.cycles)

    @property
    def has_async_nodes(self) -> bool:
        """Whether a node is async, at any depth."""
        return any(node.is_async for node in self.iter_nodes())

    @property
    def interrupt_nodes(self) -> list[HyperNode]:
        """The interrupts of this graph, without those of nested graphs."""
        return [node for node in self.iter_nodes() if node.is_interrupt]

    @cached_property
    def has_interrupts(self) -> bool:
        """Whether the graph or a nested graph has an interrupt."""
        return any(
            n.is_interrupt or (n.nested_graph is not None and n.nested_graph.has_interrupts)
            for n in self.iter_nodes()
        )

    @cached_property
    def definition_hash(self) -> str:
        """A hash over structure and code; bindings and the order of nodes do not count."""
        return str(self.memo.get("hash") or definition_hash(self))

    # -- copies --------------------------------------------------------------------------------------

    def bind(self, /, **values: Any) -> Self:
        """Return a graph with values for these inputs or outputs. Raises ValueError for unknown names.

        >>> greet = node(lambda name, greeting: f"{greeting}, {name}!", "text").with_name("greet")
        >>> SyncRunner().run(Graph([greet]).bind(greeting="Hello"), name="Ada")["text"]
        'Hello, Ada!'
        """
        known = {**self.wiring.consumers, **self.wiring.data_producers}
        for name in values:
            if name not in known and name in self.wiring.producers:
                raise ValueError(f"Cannot bind {name!r}: an emit name carries no value.")
            if name not in known:
                hint = did_you_mean(name, known) or ""
                raise ValueError(f"Cannot bind {name!r}: not a graph input or output. {hint}".rstrip())
        return self._copy(_bound={**self._bound, **values})

    def unbind(self, *keys: str) -> Self:
        """Return a graph without these bindings; unknown keys are ignored."""
        return self._copy(_bound={name: value for name, value in self._bound.items() if name not in keys})

    def select(self, *names: str) -> Self:
        """Return a graph whose runs return only these outputs; without names, all of them again.

        >>> count = FunctionNode(lambda words: (len(words), words[0]), "count", ("total", "first"))
        >>> SyncRunner().run(Graph([count]).select("total"), words=["a", "b"]).values
        {'total': 2}

        Raises ValueError for unknown or repeated names.
        """
        outputs = tuple(self.wiring.data_producers)
        unknown = [name for name in names if name not in outputs]
        if unknown:
            hint = did_you_mean(str(unknown[0]), outputs)
            raise ValueError(
                f"Cannot select {', '.join(map(shown, unknown))}: not graph outputs. "
                f"{hint + ' ' if hint else ''}Outputs: {outputs}"
            )
        if len(set(names)) < len(names):
            raise ValueError(f"select() needs unique output names, got {names}")
        return self._copy(selected=names or None)

    def with_entrypoint(self, *names: str) -> Self:
        """Return a graph in which only these nodes and their descendants run.

        Raises GraphConfigError for unknown nodes and for gates.
        """
        for name in names:
            if name not in list(self.wiring.nodes):
                hint = did_you_mean(name, self.wiring.nodes)
                raise GraphConfigError(
                    finding(f"Unknown entry point {shown(name)}", hint, fix="use the name of a node.")
                )
            if name in self.wiring.gates:
                fix = "start at the node whose output the gate reads."
                raise GraphConfigError(finding(f"Entry point {name!r} is a gate", fix=fix))
        merged = tuple(dict.fromkeys((*(self.entrypoints_config or ()), *names)))
        return self._copy(entrypoints_config=merged or None)

    def add_nodes(self, *nodes: HyperNode) -> Self:
        """Return a graph with more nodes; bindings and selection are kept, entry points are dropped.

        Raises GraphConfigError for a graph with explicit edges, ValueError if a bound input would become an
        output.
        """
        if not nodes:
            return self
        if self.wiring.explicit:
            raise GraphConfigError(
                finding(
                    "Cannot use add_nodes on a graph with explicit edges",
                    "the edges of the new nodes would be missing",
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
        return grown._copy(
            _bound=self._bound,
            selected=self.selected,
            formerly=self.formerly,
            removed=self.removed,
            version=self.version,
        )

    def replace(self, replacements: Mapping[str, HyperNode | Callable[..., Any]]) -> Self:
        """Return a graph with other nodes in these places; nested ones are named by path.

        A function is called in place of the node's own, with its parameters; names, options and defaults of
        the node stay. A parameter for the NodeContext may be left out, or lack its annotation. A node must
        have the same inputs, outputs, `append`, `wait_for` and targets, and a default where the other has
        one. Bindings, edges, selection and entry points are kept.

        >>> fetch = FunctionNode(lambda url: 1 / 0, "fetch", "page")
        >>> inner = Graph([fetch], name="web")
        >>> graph = Graph([inner.as_node(), FunctionNode(lambda page: len(page), "count", "size")])
        >>> offline = graph.replace({"web/fetch": lambda url: "<p>hello"})
        >>> SyncRunner().run(offline, url="https://example.com")["size"]
        8

        Raises GraphConfigError for unknown paths, and for replacements that do not fit, with what differs.
        """
        if not isinstance(replacements, Mapping):
            raise TypeError(f"replace() takes a dict of paths and nodes, got {got(replacements)}")
        changed = type(self)(
            replaced_nodes(self, replacements),
            edges=declared_edges(self.wiring),
            name=self.name,
            strict_types=self.strict_types,
        )
        return changed._copy(
            _bound=self._bound,
            selected=self.selected,
            entrypoints_config=self.entrypoints_config,
            formerly=self.formerly,
            removed=self.removed,
            version=self.version,
        )

    def recorded_as(self, structure: Mapping[str, Any] | None) -> Graph:
        """Return this graph under the names in a stored structure: itself where `formerly` changes nothing.

        >>> count = FunctionNode(lambda words: len(words), "count", "total")
        >>> before = Graph([FunctionNode(lambda words: len(words), "measure", "total")])
        >>> graph = Graph([count], formerly={"measure": "count"})
        >>> from hypergraph.graph.structure import structure_of
        >>> list(graph.recorded_as(structure_of(before)).nodes)
        ['measure']

        Raises GraphChangedError if several former names of one node or value are recorded.
        """
        return recorded_as(self, structure)

    def node_at(self, path: Sequence[str]) -> HyperNode | None:
        """Return the node at a path of nested graphs and items, None if there is none.

        >>> inner = Graph([FunctionNode(lambda words: len(words), "count", "total")], name="inner")
        >>> Graph([inner.as_node().map_over("words")]).node_at(("inner", "item-0", "count")).name
        'count'
        """
        inside: Graph | None = self
        *around, name = path
        is_mapped = bool(around) and ITEM.fullmatch(around[0]) is not None  # by a call of map
        for part in around:
            if (ITEM.fullmatch(part) is not None) is not is_mapped:
                return None  # a graph that is mapped by now, or no longer is, keeps its history elsewhere
            if is_mapped:
                is_mapped = False
                continue
            node = None if inside is None else inside.wiring.nodes.get(part)
            inside = None if node is None else node.nested_graph
            is_mapped = isinstance(node, GraphNode) and node.map_config is not None
        return None if inside is None or is_mapped else inside.wiring.nodes.get(name)

    def as_node(
        self,
        *,
        name: str | None = None,
        durability: Literal["nested", "atomic"] = "nested",
        lift: Names = None,
        append: Names = None,
        remote: bool = False,
    ) -> GraphNode:
        """Return this graph as a node of another graph. Raises what GraphNode raises.

        >>> inner = Graph([FunctionNode(lambda words: len(words), "count", "total")], name="inner")
        >>> SyncRunner().run(Graph([inner.as_node()]), words=["a", "b"])["total"]
        2

        Args:
            name: the name of the node; by default that of the graph
            durability: "nested" stores inner steps as a child workflow, "atomic" stores a single step
            lift: the outputs that the parent receives, in this order; by default all
            append: the outputs that are added to the list of that name in the parent, each run's in turn
            remote: on a cluster, run the graph as a run of its own that any worker may take; elsewhere in
                place
        """
        return GraphNode(self, name, durability=durability, lift=lift, append=append, remote=remote)

    def _copy(self, **changes: Any) -> Self:
        clone = object.__new__(type(self))
        clone.__dict__.update(self.__dict__)
        clone.__dict__.update(changes, memo={})
        return clone

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "memo": {}}

    # -- drawings and descriptions -------------------------------------------------------------------

    @property
    def nx_graph(self) -> Any:
        """The graph as a networkx DiGraph. Raises ImportError without the extra `viz`."""
        if "network" not in self.memo:
            self.memo["network"] = network(self.wiring)
        return self.memo["network"]

    def to_flat_graph(self) -> Any:
        """Return a networkx DiGraph with nested nodes under "parent/child" ids.

        Raises ImportError without the extra `viz`.
        """
        return flat_network(self)

    describe = describe
    to_mermaid = to_mermaid
    visualize = visualize
    _repr_html_ = graph_html

    def __repr__(self) -> str:
        size = plural(len(self.wiring.nodes), "node")
        return f"Graph({self.name or 'unnamed'}, {size}, outputs={self.outputs})"


def _checked_version(version: Any) -> str | None:
    if version is not None and not isinstance(version, str):
        raise TypeError(f'The version of a graph must be a string such as "2026-11", got {got(version)}')
    if version is not None and (not version.strip() or not version.isprintable() or len(version) > 100):
        raise ValueError(f"The version of a graph must be 1 to 100 printable characters, got {version!r}")
    return version


def _checked_nodes(nodes: Any) -> list[HyperNode]:
    if not isinstance(nodes, Iterable):
        example = nodes.name if isinstance(nodes, HyperNode) and nodes.name.isidentifier() else "..."
        raise TypeError(f"A graph takes a list of nodes, got {got(nodes)}; write Graph([{example}]).")
    return [_checked_node(node) for node in nodes]


def _checked_node(node: Any) -> HyperNode:
    if isinstance(node, HyperNode):
        return node
    if isinstance(node, Graph):
        remedy = "use graph.as_node()"
    elif callable(node):
        name = callable_name(node)
        if name == "<lambda>":
            raise TypeError('A lambda is not a node; write FunctionNode(fn, "name", "output").')
        remedy = f"decorate it with @node(output_name=...), or write node({name}, output_name=...)"
    else:
        remedy = "pass functions decorated with @node, without calling them"
    raise TypeError(f"{got(node)} is not a node; {remedy}.")
