"""Stored structure of a graph, and questions about directed graphs of names."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

from hypergraph.display import preview

Links = Mapping[str, Collection[str]]
K = TypeVar("K", str, int)


def walk(starts: Iterable[str], links: Links, without: Collection[str] = ()) -> Iterator[str]:
    """Yield the starts and everything that can be reached from them, not passing through `without`."""
    found = {start: None for start in starts if start not in without}
    yield from found
    stack = list(found)
    while stack:
        for name in links.get(stack.pop(), ()):
            if name not in found and name not in without:
                found[name] = None
                stack.append(name)
                yield name


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


VERSION = 1  # of this format; what a later release cannot read it leaves alone


_KNOWN = 1  # the version of structures that this release can read


def shape_of(graph: Any) -> Shape | None:
    """Return the shape of a stored structure, None where there is none that can be read."""
    readable = isinstance(graph, Mapping) and graph.get("version") == _KNOWN
    try:
        return Shape(graph) if readable else None
    except (KeyError, TypeError, AttributeError):  # it is damaged, and tells nothing
        return None


class Shape:
    """A stored structure, and who leads to whom in it."""

    def __init__(self, graph: Mapping[str, Any]) -> None:
        self.nodes: dict[str, Mapping[str, Any]] = {node["name"]: node for node in graph["nodes"]}
        self.explicit: bool = graph["explicit"]
        self.bound = set(graph["inputs"]["bound"])
        self._cycle = {name: number for number, names in enumerate(graph["cycles"]) for name in names}
        self._flow = {name: number for number, names in enumerate(graph["value_cycles"]) for name in names}
        self._declared: dict[tuple[str, str], list[str]] = {}
        self._producers: dict[str, list[str]] = {}
        self._links: dict[str, list[str]] = {name: [] for name in self.nodes}
        for edge in graph["edges"]:
            self._links[edge["source"]].append(edge["target"])
            for value in edge["values"] if edge["type"] == "data" else ():
                self._declared.setdefault((edge["target"], value), []).append(edge["source"])
        for name, node in self.nodes.items():
            for output in node["outputs"]:
                self._producers.setdefault(output, []).append(name)
        self.scope = set(_walk(graph["entrypoints"], self._links) if graph["entrypoints"] else self.nodes)
        self.signals = {name: list(node["emit"]) for name, node in self.nodes.items()}
        self.awaits = {name: list(node["wait_for"]) for name, node in self.nodes.items()}
        self.makers: dict[str, set[str]] = {}  # of values and of signals
        self._order(graph["edges"])
        self.gates = {n: node for n, node in self.nodes.items() if node["kind"] == "gate" and n in self.scope}
        self.controllers: dict[str, list[str]] = {name: [] for name in self.nodes}
        for gate, node in self.gates.items():
            for target in node["targets"]:
                if target in self.nodes:
                    self.controllers[target].append(gate)

    def _order(self, edges: Iterable[Mapping[str, Any]]) -> None:
        for edge in edges:
            if edge["type"] == "ordering" and not edge["values"]:
                marker = f"<{edge['source']}>"  # as runs record it
                if marker not in self.signals[edge["source"]]:
                    self.signals[edge["source"]].append(marker)
                self.awaits[edge["target"]].append(marker)
        for name in self.scope:
            for made in (*self.nodes[name]["outputs"], *self.signals[name]):
                self.makers.setdefault(made, set()).add(name)
        for name, awaited in self.awaits.items():  # what nobody makes is not waited for
            self.awaits[name] = [made for made in awaited if made in self.makers]

    def feeders(self, name: str, param: str) -> list[str]:
        """Return the nodes that may deliver an input."""
        found = self._declared.get((name, param), ()) if self.explicit else self._producers.get(param, ())
        return [feeder for feeder in found if feeder in self.scope]

    def outer_feeders(self, name: str, param: str) -> set[str]:
        """Return the feeders that are on no common cycle of values with the node."""
        own = self._flow.get(name)
        return {
            feeder
            for feeder in self.feeders(name, param)
            if feeder != name and (own is None or self._flow.get(feeder) != own)
        }

    def is_open_by_default(self, gate: str, target: str) -> bool:
        """Say whether the target may run before the gate ever has."""
        cycle = self._cycle.get(gate)
        return (
            bool(self.gates[gate]["default_open"]) and cycle is not None and cycle == self._cycle.get(target)
        )

    def makes_stale(self, name: str, param: str, feeder: str) -> bool:
        """Say whether a new value makes the node run again: its own does only where a gate drives it."""
        node = self.nodes[name]
        own = feeder == name if self.explicit else param in node["outputs"]
        alone = node["kind"] == "graph" and param in node["optional"]
        return not own or bool(self.controllers[name] and not alone)

    def upstream(self, name: str, without: str) -> set[str]:
        """Return the node and all that lead to it by other ways than through a certain one."""
        return set(_walk([name], self._ways_back, without))

    @cached_property
    def _ways_back(self) -> dict[str, list[str]]:
        """Where edges of every type come from, and values, from whichever producer."""
        back: dict[str, list[str]] = {name: [] for name in self.nodes}
        for source, targets in self._links.items():
            for target in targets:
                back[target].append(source)
        for name, node in self.nodes.items():
            for param in node["inputs"] if not self.explicit else ():
                back[name] += self._producers.get(param, ())
        return back


def _walk(
    starts: Iterable[str], links: Mapping[str, Iterable[str]], without: str | None = None
) -> Iterator[str]:
    seen = {without, *starts}
    to_do = [start for start in starts if start != without]
    while to_do:
        name = to_do.pop()
        yield name
        for further in links[name]:
            if further not in seen:
                seen.add(further)
                to_do.append(further)


END_NAME = "END"  # how a structure spells the end of a branch; no node can have this name


@dataclass(frozen=True, slots=True)
class Edge:
    """One edge: "data", "control" or "ordering", with the names it stands for."""

    source: str
    target: str
    type: str
    values: Sequence[str]


@dataclass(frozen=True, slots=True)
class Part:
    """One node of a structure."""

    name: str
    kind: str
    hidden: bool
    inputs: Sequence[str]
    outputs: Sequence[str]
    types: tuple[Mapping[str, str], Mapping[str, str]]  # of inputs, of outputs
    branches: Sequence[tuple[str, Sequence[str]]]  # targets of a gate, and what is written on the way there
    inner: Mapping[str, Any] | None
    renamed: tuple[Mapping[str, str], Mapping[str, str]]  # of inputs, of outputs: names inside
    map_over: Sequence[str]
    map_mode: str | None

    @property
    def inlets(self) -> dict[str, str]:
        """The inputs, each with its name inside the nested graph."""
        return {name: self.renamed[0].get(name, name) for name in self.inputs}

    @property
    def outlets(self) -> dict[str, str]:
        """The outputs, each with its name inside the nested graph."""
        return {name: self.renamed[1].get(name, name) for name in self.outputs}


@dataclass(frozen=True)
class Level:
    """The nodes that can run, the edges between them, and what comes from outside."""

    name: str | None
    parts: Mapping[str, Part]  # a selection narrows results, not what runs
    edges: Sequence[Edge]
    explicit: bool
    required: Collection[str]
    bound: Collection[str]
    entrypoints: Mapping[str, Collection[str]]

    @cached_property
    def _feeders(self) -> Mapping[tuple[str, str], Sequence[str]]:
        found: dict[tuple[str, str], list[str]] = {}
        for edge in self.edges if self.explicit else ():
            for value in edge.values if edge.type == "data" else ():
                found.setdefault((edge.target, value), []).append(edge.source)
        return found

    @cached_property
    def producers(self) -> Mapping[str, Sequence[str]]:
        """The nodes that make each value."""
        found: dict[str, list[str]] = {}
        for part in self.parts.values():
            for output in part.outputs:
                found.setdefault(output, []).append(part.name)
        return found

    def feeders(self, name: str, param: str) -> Sequence[str]:
        """Return the nodes that may deliver this parameter: declared sources, else all producers."""
        return self._feeders.get((name, param), ()) if self.explicit else self.producers.get(param, ())

    @cached_property
    def self_fed(self) -> set[str]:
        """The nodes with an edge to themselves."""
        return {edge.source for edge in self.edges if edge.source == edge.target}

    @cached_property
    def bound_here(self) -> set[str]:
        """What is bound on this very level, as far as can be told: not inside one of its nested graphs."""
        inside: set[str] = set()
        for part in self.parts.values():
            spec = part.inner.get("inputs") if part.inner is not None else None
            deeper = spec.get("bound") if isinstance(spec, Mapping) else None
            if isinstance(deeper, list):
                inside.update(outer for outer, own in part.inlets.items() if own in deeper)
        return set(self.bound) - inside

    def kind_of_input(self, param: str) -> str:
        """Return whether a value from outside is bound, required, the first one of a loop, or optional."""
        if param in self.bound:
            return "bound"
        if param in self.required:
            return "input"
        return "entry" if any(param in params for params in self.entrypoints.values()) else "optional"

    def type_of_input(self, param: str) -> str | None:
        """Return the type that the first taker with one declares."""
        types = (part.types[0].get(param) for part in self.parts.values() if param in part.inputs)
        return next((text for text in types if text is not None), None)


def read_level(structure: Any) -> Level:
    """Read the outermost level of a structure. Raises ValueError for what is none, or a newer one."""
    if not isinstance(structure, Mapping):
        raise ValueError(f"A stored graph must be a dict, got {preview(structure)}")
    version = structure.get("version", VERSION)
    if not isinstance(version, int) or not 1 <= version <= VERSION:
        raise ValueError(
            f"The stored graph has version {preview(version)}, this release reads up to {VERSION}; "
            "use the release that wrote it, or a newer one."
        )
    listed = [
        _part(_mapping(entry, "a node"), place) for place, entry in enumerate(_list(structure, "nodes"))
    ]
    parts = {part.name: part for part in listed}
    edges = [_edge(_mapping(entry, "an edge")) for entry in _list(structure, "edges")]
    edges = [edge for edge in edges if edge.source in parts and edge.target in parts]
    active = set(_active(parts, edges, _names(structure, "entrypoints")))
    spec = _mapping(structure.get("inputs") or {}, "inputs")
    entries = _mapping(spec.get("entrypoints") or {}, "entrypoints of inputs")
    return Level(
        name=_maybe(structure.get("name"), "the name of the graph"),
        parts={name: part for name, part in parts.items() if name in active},
        edges=[edge for edge in edges if edge.source in active and edge.target in active],
        explicit=bool(structure.get("explicit")),
        required=_names(spec, "required"),
        bound=_names(spec, "bound"),
        entrypoints={str(name): _names(entries, name) for name in entries},
    )


def _active(parts: Iterable[str], edges: Iterable[Edge], starts: Sequence[str]) -> Iterable[str]:
    if not starts:
        return parts
    links: dict[str, list[str]] = {}
    for edge in edges:
        links.setdefault(edge.source, []).append(edge.target)
    return walk(starts, links)


def _part(entry: Mapping[str, Any], place: int) -> Part:
    name = _text(entry.get("name"), f"the name of node {place}")
    kind = entry.get("kind")
    inner = entry.get("graph") if kind == "graph" else None
    return Part(
        name=name,
        kind=kind if kind in ("gate", "interrupt", "graph") else "function",
        hidden=bool(entry.get("hidden")),
        inputs=_names(entry, "inputs"),
        outputs=_names(entry, "outputs"),
        types=_pair(entry, "types"),
        branches=_branches(entry) if kind == "gate" else (),
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


def _edge(entry: Mapping[str, Any]) -> Edge:
    source, target = (
        _text(entry.get("source"), "an end of an edge"),
        _text(entry.get("target"), "an end of an edge"),
    )
    return Edge(source, target, _text(entry.get("type"), "the type of an edge"), _names(entry, "values"))


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


def _text(value: Any, what: str) -> str:
    if isinstance(value, str):
        return value
    raise ValueError(f"The stored graph is damaged: {what} must be a text, got {preview(value)}")


def _maybe(value: Any, what: str) -> str | None:
    return None if value is None else _text(value, what)
