"""Stored structure of a graph, read back without its code, and walks over directed graphs of names."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

from hypergraph.display import preview
from hypergraph.node_kinds import NODE_KINDS

Links = Mapping[str, Collection[str]]
K = TypeVar("K", str, int)


def walk(starts: Iterable[str], links: Links, without: Collection[str] = ()) -> Collection[str]:
    """Return the starts and everything that can be reached from them, not passing through `without`."""
    found = {start: None for start in starts if start not in without}
    stack = list(found)
    while stack:
        for name in links.get(stack.pop(), ()):
            if name not in found and name not in without:
                found[name] = None
                stack.append(name)
    return found


def leads(start: str, end: str, links: Links) -> bool:
    """Return whether a way of one link or more leads from one name to another; the nearest names first."""
    found: dict[str, None] = {}
    reached: Collection[str] = (start,)
    while reached:
        reached = dict.fromkeys(n for name in reached for n in links.get(name, ()) if n not in found)
        if end in reached:
            return True
        found.update(reached)
    return False


def signals_in(structure: Mapping[str, Any]) -> dict[str, Any]:
    """Return the signals that nodes of a stored graph receive, nested ones included, with their JSON Schemas.

    None is the schema of a value without a type. A damaged row may hold anything: what is not a node, a name
    or a schema is passed over.
    """
    found: dict[str, Any] = {}
    pending: list[Any] = [structure]
    while pending:
        graph = pending.pop()
        nodes = graph.get("nodes") if isinstance(graph, Mapping) else None
        for node in nodes if isinstance(nodes, list | tuple) else ():
            if not isinstance(node, Mapping):
                continue
            schema = node.get("answer")
            if node.get("signal") and isinstance(node["signal"], str):
                found.setdefault(node["signal"], schema if isinstance(schema, dict) else None)
            pending.append(node.get("graph"))
    return found


def strong_components(names: Iterable[K], links: Mapping[K, Collection[K]]) -> list[list[K]]:
    """Return the strongly connected components, each after all components it leads to."""
    index: dict[K, int] = {}
    low: dict[K, int] = {}
    open_path: dict[K, None] = {}
    components: list[list[K]] = []
    for root in names:
        if root in index:
            continue
        index[root] = low[root] = len(index)
        open_path[root] = None
        work: list[tuple[K, Iterator[K]]] = [(root, iter(links.get(root, ())))]
        while work:
            name, successors = work[-1]
            for successor in successors:
                if successor not in index:
                    index[successor] = low[successor] = len(index)
                    open_path[successor] = None
                    work.append((successor, iter(links.get(successor, ()))))
                    break
                if successor in open_path:
                    low[name] = min(low[name], index[successor])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[name])
                if low[name] == index[name]:
                    components.append(_close(name, open_path))
    return components


def _close(root: K, open_path: dict[K, None]) -> list[K]:
    component = []
    while True:
        name, _ = open_path.popitem()
        component.append(name)
        if name == root:
            return component[::-1]


def cyclic_components(names: Iterable[str], links: Links) -> list[list[str]]:
    """Return the components that contain a cycle: several names, or one that leads to itself."""
    return [c for c in strong_components(names, links) if len(c) > 1 or c[0] in links.get(c[0], ())]


VERSION = 1  # of the stored structure that this release writes, and the newest that it can read
END_NAME = "END"  # the end of a branch in a structure; no node can have this name


class StoredEdge(NamedTuple):
    """One edge: "data", "control" or "ordering", with the names it stands for."""

    source: str
    target: str
    type: str
    values: Sequence[str]


class StoredNode(NamedTuple):
    """One node of a stored graph."""

    name: str
    kind: str  # one of NODE_KINDS
    hidden: bool
    inputs: Sequence[str]
    outputs: Sequence[str]
    optional: Sequence[str]  # inputs that have a default
    emit: Sequence[str]
    wait_for: Sequence[str]
    types: tuple[Mapping[str, str], Mapping[str, str]]  # of inputs, of outputs
    branches: Sequence[tuple[str, Sequence[str]]]  # targets of a gate, each with the labels of its arrow
    default_open: bool
    inner: Mapping[str, Any] | None  # the structure of a nested graph
    renamed: tuple[Mapping[str, str], Mapping[str, str]]  # of inputs, of outputs: names inside
    map_over: Sequence[str]
    map_mode: str | None

    @property
    def targets(self) -> list[str]:
        """The nodes that a gate can choose, and END_NAME."""
        return [target for target, _ in self.branches]

    @property
    def inlets(self) -> dict[str, str]:
        """The inputs, each with its name inside the nested graph."""
        return {name: self.renamed[0].get(name, name) for name in self.inputs}

    @property
    def outlets(self) -> dict[str, str]:
        """The outputs, each with its name inside the nested graph."""
        return {name: self.renamed[1].get(name, name) for name in self.outputs}


class StoredGraph:
    """The outermost level of a stored graph: its nodes, the edges between them, and the values from outside.

    Raises:
        ValueError: the structure is damaged, or a newer release wrote it.
    """

    def __init__(self, structure: Any) -> None:
        checked = checked_structure(structure)
        listed = [_node(_mapping(entry, "a node"), at) for at, entry in enumerate(_list(checked, "nodes"))]
        edges = [_edge(_mapping(entry, "an edge")) for entry in _list(checked, "edges")]
        spec = _mapping(checked.get("inputs") or {}, "inputs")
        entries = _mapping(spec.get("entrypoints") or {}, "entrypoints of inputs")
        self.name = _maybe(checked.get("name"), "the name of the graph")
        self.nodes = {node.name: node for node in listed}  # all of them
        edges = [edge for edge in edges if edge.source in self.nodes and edge.target in self.nodes]
        # The names of nodes that can run: entry points leave others out.
        self.starts = _names(checked, "entrypoints")
        self.scope = set(_scope(self.nodes, edges, self.starts))
        self.edges = [edge for edge in edges if edge.source in self.scope and edge.target in self.scope]
        self.explicit = bool(checked.get("explicit"))  # the edges were declared
        self.required = _names(spec, "required")
        self.bound = _names(spec, "bound")
        self.entrypoints = {str(name): _names(entries, name) for name in entries}  # inputs of cycles by node
        self.cycles = _lists(checked, "cycles")  # over edges of every type
        self.value_cycles = _lists(checked, "value_cycles")  # over data edges

    @cached_property
    def active(self) -> Mapping[str, StoredNode]:
        """The nodes in scope."""
        return {name: node for name, node in self.nodes.items() if name in self.scope}

    # --- edges -------------------------------------------------------------------------------

    @cached_property
    def producers(self) -> Mapping[str, Sequence[str]]:
        """The nodes in scope that make each value."""
        found: dict[str, list[str]] = {}
        for node in self.active.values():
            for output in node.outputs:
                found.setdefault(output, []).append(node.name)
        return found

    @cached_property
    def _declared(self) -> Mapping[tuple[str, str], Sequence[str]]:
        found: dict[tuple[str, str], list[str]] = {}
        for edge in self.edges:
            for value in edge.values if edge.type == "data" else ():
                found.setdefault((edge.target, value), []).append(edge.source)
        return found

    def feeders(self, name: str, param: str) -> Sequence[str]:
        """Return the nodes that may deliver this parameter: declared sources, else all producers."""
        return self._declared.get((name, param), ()) if self.explicit else self.producers.get(param, ())

    @cached_property
    def self_fed(self) -> set[str]:
        """The nodes with an edge to themselves."""
        return {edge.source for edge in self.edges if edge.source == edge.target}

    # --- gates --------------------------------------------------------------------------------

    @cached_property
    def gates(self) -> Mapping[str, StoredNode]:
        """The gates in scope."""
        return {name: node for name, node in self.active.items() if node.kind == "gate"}

    @cached_property
    def controllers(self) -> Mapping[str, Sequence[str]]:
        """The gates that can choose each node."""
        found: dict[str, list[str]] = {name: [] for name in self.nodes}
        for gate in self.gates.values():
            for target in dict.fromkeys(gate.targets):
                if target in found:
                    found[target].append(gate.name)
        return found

    # --- ordering -----------------------------------------------------------------------------

    @cached_property
    def signals(self) -> Mapping[str, Sequence[str]]:
        """What each node emits; a declared edge without values stands for a signal of its source."""
        found = {name: list(node.emit) for name, node in self.nodes.items()}
        for edge in self._plain_order:
            if marker_of(edge.source) not in found[edge.source]:
                found[edge.source].append(marker_of(edge.source))
        return found

    @cached_property
    def awaits(self) -> Mapping[str, Sequence[str]]:
        """What each node waits for, as far as a node in scope makes it."""
        found = {name: list(node.wait_for) for name, node in self.nodes.items()}
        for edge in self._plain_order:
            found[edge.target].append(marker_of(edge.source))
        return {name: [made for made in names if made in self.makers] for name, names in found.items()}

    @cached_property
    def makers(self) -> Mapping[str, set[str]]:
        """The nodes in scope that make each value or signal."""
        found: dict[str, set[str]] = {}
        for name, node in self.active.items():
            for made in (*node.outputs, *self.signals[name]):
                found.setdefault(made, set()).add(name)
        return found

    @property
    def _plain_order(self) -> list[StoredEdge]:
        return [edge for edge in self.edges if edge.type == "ordering" and not edge.values]

    # --- values from outside ------------------------------------------------------------------

    @cached_property
    def bound_here(self) -> set[str]:
        """What is bound on this level, as far as the structure shows: not inside a nested graph."""
        inside: set[str] = set()
        for node in self.active.values():
            spec = node.inner.get("inputs") if node.inner is not None else None
            deeper = spec.get("bound") if isinstance(spec, Mapping) else None
            if isinstance(deeper, list):
                inside.update(outer for outer, own in node.inlets.items() if own in deeper)
        return set(self.bound) - inside

    def kind_of_input(self, param: str) -> str:
        """Return whether a value from outside is bound, required, the first one of a loop, or optional."""
        if param in self.bound:
            return "bound"
        if param in self.required:
            return "input"
        return "entry" if any(param in params for params in self.entrypoints.values()) else "optional"

    def type_of_input(self, param: str) -> str | None:
        """Return the type that the first consumer with one declares."""
        types = (node.types[0].get(param) for node in self.active.values() if param in node.inputs)
        return next((text for text in types if text is not None), None)


def marker_of(name: str) -> str:
    """Return the signal that a run records for a node which others follow without taking a value."""
    return f"<{name}>"


def readable_graph(structure: Any) -> StoredGraph | None:
    """Return the outermost level of a structure, None where none is stored or it cannot be read."""
    try:
        return None if structure is None else StoredGraph(structure)
    except ValueError:
        return None


def checked_structure(structure: Any) -> Mapping[str, Any]:
    """Return a structure. Raises ValueError for what is none, and for one of a newer release."""
    if not isinstance(structure, Mapping):
        raise ValueError(f"A stored graph must be a dict, got {preview(structure)}")
    version = structure.get("version", VERSION)
    if not isinstance(version, int) or not 1 <= version <= VERSION:
        raise ValueError(
            f"The stored graph has version {preview(version)}, this release reads up to {VERSION}; "
            "use the release that wrote it, or a newer one."
        )
    return structure


def _scope(nodes: Collection[str], edges: Iterable[StoredEdge], starts: Sequence[str]) -> Iterable[str]:
    if not starts:
        return nodes
    links: dict[str, list[str]] = {}
    for edge in edges:
        links.setdefault(edge.source, []).append(edge.target)
    return (name for name in walk(starts, links) if name in nodes)


def _node(entry: Mapping[str, Any], place: int) -> StoredNode:
    name = _text(entry.get("name"), f"the name of node {place}")
    kind = entry.get("kind")
    inner = entry.get("graph") if kind == "graph" else None
    return StoredNode(
        name=name,
        kind=kind if isinstance(kind, str) and kind in NODE_KINDS else "function",
        hidden=bool(entry.get("hidden")),
        inputs=_names(entry, "inputs"),
        outputs=_names(entry, "outputs"),
        optional=_names(entry, "optional"),
        emit=_names(entry, "emit"),
        wait_for=_names(entry, "wait_for"),
        types=_pair(entry, "types"),
        branches=_branches(entry) if kind == "gate" else (),
        default_open=bool(entry.get("default_open")),
        inner=None if inner is None else _mapping(inner, f"the graph inside {name!r}"),
        renamed=_pair(entry, "renamed"),
        map_over=_names(entry, "map_over"),
        map_mode=_maybe(entry.get("map_mode"), "map_mode"),
    )


def _branches(entry: Mapping[str, Any]) -> list[tuple[str, Sequence[str]]]:
    targets = _names(entry, "targets")
    if entry.get("ifelse") and targets:  # one target means that both answers lead there
        return [(targets[0], ["True"]), (targets[-1], ["False"])]
    labels = _texts(entry.get("labels"), "labels")
    return [(target, [labels[target]] if labels.get(target) else []) for target in targets]


def _edge(entry: Mapping[str, Any]) -> StoredEdge:
    source, target = (
        _text(entry.get("source"), "an end of an edge"),
        _text(entry.get("target"), "an end of an edge"),
    )
    kind = _text(entry.get("type"), "the type of an edge")
    return StoredEdge(source, target, kind, _names(entry, "values"))


def _pair(entry: Mapping[str, Any], key: str) -> tuple[dict[str, str], dict[str, str]]:
    pair = _mapping(entry.get(key) or {}, key)
    return _texts(pair.get("inputs"), f"{key} of inputs"), _texts(pair.get("outputs"), f"{key} of outputs")


def _texts(value: Any, what: str) -> dict[str, str]:
    texts = _mapping(value or {}, what)
    return {_text(key, what): _text(text, what) for key, text in texts.items()}


def _mapping(value: Any, what: str) -> Mapping[str, Any]:
    if isinstance(value, Mapping):
        return value
    raise ValueError(f"The stored graph is damaged: {what} must be a dict, got {preview(value)}")


def _list(entry: Mapping[str, Any], key: str) -> Sequence[Any]:
    value = entry.get(key)
    if value is None:
        return ()
    if isinstance(value, list | tuple):
        return value
    raise ValueError(f"The stored graph is damaged: {key!r} must be a list, got {preview(value)}")


def _names(entry: Mapping[str, Any], key: str) -> Sequence[str]:
    return [_text(name, f"every name in {key!r}") for name in _list(entry, key)]


def _lists(entry: Mapping[str, Any], key: str) -> list[Sequence[str]]:
    return [_names({key: names}, key) for names in _list(entry, key)]


def _text(value: Any, what: str) -> str:
    if isinstance(value, str):
        return value
    raise ValueError(f"The stored graph is damaged: {what} must be a text, got {preview(value)}")


def _maybe(value: Any, what: str) -> str | None:
    return None if value is None else _text(value, what)


def asks_for(structure: Any, key: str) -> bool:
    """Say whether a key leads to a question of a stored graph; True if nothing is known of the graph.

    An output of a nested graph may be the answer to a question inside; of a map, each item has its own.
    """
    try:
        nodes = StoredGraph(structure).nodes
    except ValueError:
        return True
    head, dot, rest = key.partition(".")
    if dot:
        return asks_for(nodes[head].inner, rest) if head in nodes else asks_for(structure, rest)  # of an item
    makers = [node for node in nodes.values() if key in node.outputs]
    return any(
        node.kind == "interrupt"
        or (node.kind == "graph" and not node.map_over and asks_for(node.inner, node.outlets[key]))
        for node in makers
    )
