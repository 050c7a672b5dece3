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
