"""Drawing of a graph as boxes and arrows, with the outcome of a run on it."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, TypedDict, cast

from hypergraph.display import preview
from hypergraph.graph.structure import DEEPEST, Structure, structure_of
from hypergraph.layout import Facts, Overlay
from hypergraph.node_kinds import NODE_KINDS, VALUE_KINDS
from hypergraph.structure import END_NAME, StoredGraph, StoredNode

if TYPE_CHECKING:
    from hypergraph.graph.graph import Graph


KINDS = (*NODE_KINDS, *VALUE_KINDS, "end")
_MOST_ARROWS, _MOST_LABELS = 20_000, 1000  # a structure may come from a store that another person wrote
_STRENGTH = ("ordering", "control", "data")
_Types = Mapping[str, str | None] | None


class Box(TypedDict):
    """One box. Inputs and outputs map names to the text of their type, None if unknown."""

    id: str
    kind: str
    label: str
    path: str  # names from the outermost graph to the box, joined by "/"
    parent: str | None
    inputs: dict[str, str | None]
    outputs: dict[str, str | None]
    map_over: list[str]
    map_mode: str | None


class Arrow(TypedDict):
    """One arrow with its type and the names of its values."""

    source: str
    target: str
    type: str
    labels: list[str]


class Drawing(TypedDict):
    """All boxes, a parent always before its children, and all arrows."""

    name: str | None
    nodes: list[Box]
    edges: list[Arrow]


@dataclass(frozen=True, slots=True)
class _Ports:
    """The ends of arrows at a node: its box, and the boxes that consume or produce each value."""

    id: str
    takes: Mapping[str, Sequence[str]]
    gives: Mapping[str, Sequence[str]]


def draw(graph: Graph | Structure, *, depth: int = 0, separate_outputs: bool = False) -> Drawing:
    """Return the boxes and arrows of a graph, or of a stored structure.

    Raises ValueError for a negative depth, and for a structure that cannot be read.
    """
    if isinstance(depth, bool) or not isinstance(depth, int) or depth < 0:
        raise ValueError(f"depth must be an int of at least 0, got {depth!r}")
    given: Any = graph
    level = StoredGraph(structure_of(given) if hasattr(given, "wiring") else given)
    sketch = _Sketch(separate_outputs)
    sketch.add_level(level, None, min(depth, DEEPEST))
    arrows = _bridged(sketch.arrows.values(), {box["id"] for box in sketch.boxes})
    _drop_repeated_labels(arrows, sketch.boxes)
    used = {end for arrow in arrows for end in (arrow["source"], arrow["target"])}
    # Values of hidden nodes only are hidden too.
    shown = [box for box in sketch.boxes if box["id"] in used or box["kind"] in NODE_KINDS]
    return {"name": level.name, "nodes": shown, "edges": arrows}


class _Sketch:
    """The boxes and arrows of a drawing; hidden nodes have an id and arrows, but no box."""

    def __init__(self, separate_outputs: bool) -> None:
        self.separate_outputs = separate_outputs
        self.boxes: list[Box] = []
        self.arrows: dict[tuple[str, str], Arrow] = {}
        self._ids = 0

    def add_level(
        self, level: StoredGraph, parent: Box | None, depth: int, from_outside: Collection[str] = ()
    ) -> _Ports:
        """Draw one graph; values in `from_outside` get no boxes, because the caller draws their arrows."""
        ports = {name: self._add_node(node, parent, depth) for name, node in level.active.items()}
        takes = self._join_data(level, ports)
        for param, takers in takes.items():
            if param not in from_outside:
                self.join([self._add_input(level, param, parent)], takers, "data", [param])
        self._join_control(level, ports, parent)
        for edge in level.edges:
            if edge.type == "ordering":
                self.join([ports[edge.source].id], [ports[edge.target].id], "ordering", edge.values)
        gives = {
            output: [end for name in found for end in ports[name].gives[output]]
            for output, found in level.producers.items()
        }
        return _Ports("", takes, gives)

    def join(self, sources: Iterable[str], targets: Sequence[str], kind: str, labels: Iterable[str]) -> None:
        """Draw arrows from each source to each target, merged with existing ones."""
        for source in sources:
            if len(self.arrows) + len(targets) > _MOST_ARROWS:
                raise ValueError(f"more than {_MOST_ARROWS} arrows")
            for target in targets:
                _strengthen(self.arrows, source, target, kind, labels)

    def _new_id(self) -> str:
        self._ids += 1
        return f"n{self._ids - 1}"

    def _add_box(
        self, kind: str, label: str, parent: Box | None, outputs: _Types = None, inputs: _Types = None
    ) -> Box:
        box: Box = {
            "id": self._new_id(),
            "kind": kind,
            "label": label,
            "path": f"{parent['path']}/{label}" if parent else label,
            "parent": parent["id"] if parent else None,
            "inputs": dict(inputs or {}),
            "outputs": dict(outputs or {}),
            "map_over": [],
            "map_mode": None,
        }
        self.boxes.append(box)
        return box

    def _add_node(self, node: StoredNode, parent: Box | None, depth: int) -> _Ports:
        if node.hidden:
            hidden = self._new_id()
            return _Ports(
                hidden, dict.fromkeys(node.inputs, (hidden,)), dict.fromkeys(node.outputs, (hidden,))
            )
        inputs = {name: node.types[0].get(name) for name in node.inputs}
        outputs = {name: node.types[1].get(name) for name in node.outputs}
        box = self._add_box(node.kind, node.name, parent, outputs, inputs)
        box["map_over"], box["map_mode"] = list(node.map_over), node.map_mode
        inside = StoredGraph(node.inner) if depth and node.inner is not None else None
        if inside is not None and _shows_something(inside):
            return self._open(node, inside, box, depth - 1)
        gives = {name: [self._outlet(box, name, text, parent)] for name, text in outputs.items()}
        return _Ports(box["id"], dict.fromkeys(node.inputs, (box["id"],)), gives)

    def _open(self, node: StoredNode, level: StoredGraph, box: Box, depth: int) -> _Ports:
        inlets = node.inlets
        inside = self.add_level(level, box, depth, set(inlets.values()))
        return _Ports(
            box["id"],
            {name: inside.takes.get(inner, ()) for name, inner in inlets.items()},
            {name: inside.gives.get(inner, ()) for name, inner in node.outlets.items()},
        )

    def _outlet(self, box: Box, output: str, type_text: str | None, parent: Box | None) -> str:
        if not self.separate_outputs:
            return box["id"]
        outlet = self._add_box("output", output, parent, {output: type_text})
        self.join([box["id"]], [outlet["id"]], "data", [])
        return outlet["id"]

    def _add_input(self, level: StoredGraph, param: str, parent: Box | None) -> str:
        return self._add_box(level.kind_of_input(param), param, parent, {param: level.type_of_input(param)})[
            "id"
        ]

    def _join_data(self, level: StoredGraph, ports: Mapping[str, _Ports]) -> dict[str, list[str]]:
        """Draw the data arrows of one level; return the boxes that take each value from outside."""
        entries, bound = level.entrypoints, level.bound_here
        outside: dict[str, list[str]] = {}
        for name, port in ports.items():
            for param, takers in port.takes.items():
                feeders = level.feeders(name, param)
                for feeder in feeders:
                    # A node consumes its own output only where the wiring has a loop.
                    if feeder != name or name in level.self_fed:
                        self.join(ports[feeder].gives.get(param, ()), takers, "data", [param])
                if not feeders or param in bound or param in entries.get(name, ()):
                    outside.setdefault(param, []).extend(takers)
        return outside

    def _join_control(self, level: StoredGraph, ports: Mapping[str, _Ports], parent: Box | None) -> None:
        end = None
        for name, gate in level.active.items():
            for target, label in gate.branches:
                if target == END_NAME:
                    end = end or self._add_box("end", END_NAME, parent)["id"]
                    self.join([ports[name].id], [end], "control", label)
                elif target in ports:
                    self.join([ports[name].id], [ports[target].id], "control", label)


def _shows_something(inside: StoredGraph) -> bool:
    return not all(node.hidden for node in inside.active.values())


def _strengthen(
    arrows: dict[tuple[str, str], Arrow], source: str, target: str, kind: str, labels: Iterable[str]
) -> None:
    """Add an arrow, or merge it with one between the same boxes: the stronger type wins."""
    known = arrows.get((source, target))
    if known is None or _STRENGTH.index(known["type"]) < _STRENGTH.index(kind):
        arrows[source, target] = {"source": source, "target": target, "type": kind, "labels": list(labels)}
    elif known["type"] == kind and len(known["labels"]) < _MOST_LABELS:
        known["labels"] += [label for label in labels if label not in known["labels"]]


def _bridged(arrows: Collection[Arrow], shown: Collection[str]) -> list[Arrow]:
    """Replace arrows to and from hidden nodes by arrows between visible boxes."""
    leaving: dict[str, list[Arrow]] = {}
    for arrow in arrows:
        leaving.setdefault(arrow["source"], []).append(arrow)
    bridges: dict[tuple[str, str], Arrow] = {}
    for source, first in leaving.items():
        if source not in shown:
            continue
        ways = deque((arrow, arrow["type"]) for arrow in first)
        seen: set[tuple[str, str]] = set()
        while ways:
            last, kind = ways.popleft()
            target = last["target"]
            if target in shown:
                _strengthen(bridges, source, target, kind, last["labels"])
            elif (target, kind) not in seen:
                seen.add((target, kind))
                further = leaving.get(target, ())
                ways.extend((arrow, min(kind, arrow["type"], key=_STRENGTH.index)) for arrow in further)
    return list(bridges.values())


def _drop_repeated_labels(arrows: Iterable[Arrow], boxes: Iterable[Box]) -> None:
    """Remove from each arrow the label that its source box already shows."""
    values = {box["id"]: box["label"] for box in boxes if box["kind"] in VALUE_KINDS}
    for arrow in arrows:
        arrow["labels"] = [label for label in arrow["labels"] if label != values.get(arrow["source"])]


# -- the outcome of a run -----------------------------------------------------------------------------

WORST_FIRST = ("failed", "paused", "active", "stopped", "completed", "cached", "skipped", "pending")


def overlay_of(run: Any, store: Any = None) -> Overlay | None:
    """Return status and times of a RunLog or a Workflow, by node path ("outer/inner"); None for None.

    With the store of a workflow, steps of nested graphs are included. A mapping is returned as it is. Raises
    TypeError for anything else.
    """
    if run is None or isinstance(run, Mapping):
        return cast(Overlay | None, run)
    if not hasattr(run, "steps") and not hasattr(run, "items"):
        raise TypeError(f"overlay must be a RunLog or a Workflow, got {preview(run)}")
    found: dict[str, Facts] = {}
    runs = [run] if hasattr(run, "steps") else list(run.items)
    for each in runs:
        _add_run(each, "", found, store)
    whole = sum(facts.get("duration_ms") or 0.0 for path, facts in found.items() if "/" not in path)
    for facts in found.values():
        facts["share"] = min(1.0, (facts.get("duration_ms") or 0.0) / whole) if whole else 0.0
    return found


def _add_run(run: Any, prefix: str, found: dict[str, Facts], store: Any) -> None:
    """Add one run: its status of a node is that of the last execution; of several runs the worst counts."""
    latest: dict[str, str] = {}
    for step in run.steps:
        path = f"{prefix}{step.node_name}"
        latest[path] = _status(step)
        facts = found.setdefault(path, {"runs": 0, "duration_ms": 0.0})
        facts["runs"] += 1
        facts["duration_ms"] = (facts["duration_ms"] or 0.0) + (step.duration_ms or 0.0)
        for inner in _inner_runs(step, store):
            _add_run(inner, f"{path}/", found, store)
    for path, status in latest.items():
        known = found[path].get("status", status)
        found[path]["status"] = min(known, status, key=WORST_FIRST.index)


def _status(step: Any) -> str:
    status = step.status.value if isinstance(step.status, Enum) else str(step.status)
    if status not in WORST_FIRST:
        return "pending"
    return "cached" if status == "completed" and getattr(step, "cached", False) else status


def _inner_runs(step: Any, store: Any) -> Iterator[Any]:
    log = getattr(step, "log", None)
    if log is not None:
        yield from [log] if hasattr(log, "steps") else log.items
    child = getattr(step, "child_workflow_id", None)
    if child is not None and store is not None:
        yield from filter(None, [store.backend.read_workflow(child)])
        yield from (item for item in store.workflows(parent=child, limit=None) if item.item is not None)
