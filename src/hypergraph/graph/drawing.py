"""A graph as plain boxes and arrows: what every picture of it shows, whoever paints it.

1. Every node that can run is a box. A nested graph, down to the depth asked for, is a box around boxes, and
   its values then lead to and from the nodes inside that really take and make them.
2. What comes from outside (inputs, bound values, the first values of a loop) is a box too; so are END and,
   on demand, every output.
3. An arrow stands for all that joins two boxes. Its type is the strongest there is: data, then control,
   then ordering. A value goes to its taker from each node that may deliver it.
4. Hidden nodes are left out. Boxes joined by a way through hidden nodes get an arrow, as strong as the
   weakest step of that way.

Texts are raw: whoever paints must escape them. Ids are safe everywhere.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict, get_origin

from hypergraph.display import bounded
from hypergraph.exceptions import safe_text
from hypergraph.graph.inputs import InputSpec, scope_of
from hypergraph.nodes.base import HyperNode
from hypergraph.nodes.gate import END, GateNode, IfElseNode
from hypergraph.nodes.graph_node import GraphNode

if TYPE_CHECKING:
    from hypergraph.graph.graph import Graph

VALUES = ("input", "optional", "bound", "entry", "output")  # boxes that are one value, under its name
KINDS = ("function", "gate", "interrupt", "graph", *VALUES, "end")
_STRENGTH = ("ordering", "control", "data")
_LONGEST_TYPE = 80
_Hints = Mapping[str, Any] | None


class Box(TypedDict):
    """One box. Inputs and outputs map names to the text of their type, None when unknown."""

    id: str
    kind: str
    label: str
    path: str  # names from the outermost graph inwards, joined by "/"
    parent: str | None
    inputs: dict[str, str | None]
    outputs: dict[str, str | None]
    map_over: list[str]
    map_mode: str | None


class Arrow(TypedDict):
    """One arrow with its type and the names of what it stands for."""

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
    """Where arrows to and from a node end: its box, and for each value the boxes that take or make it."""

    id: str
    takes: Mapping[str, Sequence[str]]
    gives: Mapping[str, Sequence[str]]


def draw(graph: Graph, *, depth: int = 0, separate_outputs: bool = False) -> Drawing:
    """Return the boxes and arrows of a graph. Raises ValueError for a depth that is no count of levels."""
    if isinstance(depth, bool) or not isinstance(depth, int) or depth < 0:
        raise ValueError(f"depth must be an int of at least 0, got {depth!r}")
    sketch = _Sketch(separate_outputs)
    sketch.add_level(graph, None, depth)
    arrows = _bridged(sketch.arrows.values(), {box["id"] for box in sketch.boxes})
    _say_once(arrows, sketch.boxes)
    used = {end for arrow in arrows for end in (arrow["source"], arrow["target"])}
    # What only hidden nodes take or lead to is hidden with them.
    shown = [box for box in sketch.boxes if box["id"] in used or box["kind"] not in (*VALUES, "end")]
    return {"name": graph.name, "nodes": shown, "edges": arrows}


def type_text(declared: Any) -> str | None:
    """Return a short text for a type hint, None for no hint."""
    if declared is None:
        return None
    if isinstance(declared, type) and get_origin(declared) is None:
        return "None" if declared is type(None) else declared.__name__
    return bounded(safe_text(declared).replace("typing.", ""), _LONGEST_TYPE)


class _Sketch:
    """The boxes and arrows found so far; hidden nodes have an id and arrows, but no box."""

    def __init__(self, separate_outputs: bool) -> None:
        self.separate_outputs = separate_outputs
        self.boxes: list[Box] = []
        self.arrows: dict[tuple[str, str], Arrow] = {}
        self._ids = 0

    def add_level(
        self, graph: Graph, parent: Box | None, depth: int, from_outside: Collection[str] = ()
    ) -> _Ports:
        """Draw one graph; the values listed as from outside get no boxes, the caller leads them in."""
        nodes = {name: graph.wiring.nodes[name] for name in _active(graph)}
        ports = {name: self._add_node(node, parent, depth) for name, node in nodes.items()}
        takes = self._join_data(graph, ports)
        for param, takers in takes.items():
            if param not in from_outside:
                self.join([self._add_input(graph, param, parent)], takers, "data", [param])
        self._join_control(nodes, ports, parent)
        for edge in graph.edges:
            if edge.edge_type == "ordering" and edge.source in ports and edge.target in ports:
                self.join([ports[edge.source].id], [ports[edge.target].id], "ordering", edge.value_names)
        gives = {
            output: [end for name in found if name in ports for end in ports[name].gives[output]]
            for output, found in graph.data_outputs.items()
        }
        return _Ports("", takes, gives)

    def join(self, sources: Iterable[str], targets: Sequence[str], kind: str, labels: Iterable[str]) -> None:
        """Draw arrows from each source to each target, or make the existing ones say more."""
        for source in sources:
            for target in targets:
                _strengthen(self.arrows, source, target, kind, labels)

    def _new_id(self) -> str:
        self._ids += 1
        return f"n{self._ids - 1}"

    def _add_box(
        self, kind: str, label: str, parent: Box | None, outputs: _Hints = None, inputs: _Hints = None
    ) -> Box:
        box: Box = {
            "id": self._new_id(),
            "kind": kind,
            "label": label,
            "path": f"{parent['path']}/{label}" if parent else label,
            "parent": parent["id"] if parent else None,
            "inputs": {name: type_text(hint) for name, hint in (inputs or {}).items()},
            "outputs": {name: type_text(hint) for name, hint in (outputs or {}).items()},
            "map_over": [],
            "map_mode": None,
        }
        self.boxes.append(box)
        return box

    def _add_node(self, node: HyperNode, parent: Box | None, depth: int) -> _Ports:
        if node.hide:
            hidden = self._new_id()
            return _Ports(
                hidden, dict.fromkeys(node.inputs, (hidden,)), dict.fromkeys(node.outputs, (hidden,))
            )
        inputs = {name: node.get_input_type(name) for name in node.inputs}
        outputs = {name: node.get_output_type(name) for name in node.data_outputs}
        box = self._add_box(_kind(node), node.name, parent, outputs, inputs)
        if isinstance(node, GraphNode) and node.map_config:
            box["map_over"], box["map_mode"] = list(node.map_config[0]), node.map_config[1]
        if depth and isinstance(node, GraphNode) and _shows_something(node.graph):
            return self._open(node, box, depth - 1)
        gives = {name: [self._outlet(box, name, hint, parent)] for name, hint in outputs.items()}
        return _Ports(box["id"], dict.fromkeys(node.inputs, (box["id"],)), gives)

    def _open(self, node: GraphNode, box: Box, depth: int) -> _Ports:
        inside = self.add_level(node.graph, box, depth, set(node.inner_inputs))
        inlets = zip(node.inputs, node.inner_inputs, strict=True)
        outlets = zip(node.outputs, node.inner_outputs, strict=True)
        return _Ports(
            box["id"],
            {name: inside.takes.get(inner, ()) for name, inner in inlets},
            {name: inside.gives.get(inner, ()) for name, inner in outlets},
        )

    def _outlet(self, box: Box, output: str, hint: Any, parent: Box | None) -> str:
        if not self.separate_outputs:
            return box["id"]
        outlet = self._add_box("output", output, parent, {output: hint})
        self.join([box["id"]], [outlet["id"]], "data", [])
        return outlet["id"]

    def _add_input(self, graph: Graph, param: str, parent: Box | None) -> str:
        hints = (node.get_input_type(param) for node in graph.consumers_of(param))
        hint = next((hint for hint in hints if hint is not None), None)
        return self._add_box(_input_kind(graph.inputs, param), param, parent, {param: hint})["id"]

    def _join_data(self, graph: Graph, ports: Mapping[str, _Ports]) -> dict[str, list[str]]:
        """Draw the data arrows of one level; return who takes which value from outside it."""
        wiring, entries, bound = graph.wiring, graph.inputs.entrypoints, graph.bound
        outside: dict[str, list[str]] = {}
        for name, port in ports.items():
            for param, takers in port.takes.items():
                feeders = [feeder for feeder in wiring.feeders(name, param) if feeder in ports]
                for feeder in feeders:
                    # A node's own output is news to it only where the wiring sees a loop.
                    if feeder != name or name in wiring.successors[name]:
                        self.join(ports[feeder].gives[param], takers, "data", [param])
                if not feeders or param in bound or param in entries.get(name, ()):
                    outside.setdefault(param, []).extend(takers)
        return outside

    def _join_control(
        self, nodes: Mapping[str, HyperNode], ports: Mapping[str, _Ports], parent: Box | None
    ) -> None:
        end = None
        for name, gate in nodes.items():
            for target, label in _branches(gate):
                if target is END:
                    end = end or self._add_box("end", "END", parent)["id"]
                    self.join([ports[name].id], [end], "control", label)
                else:
                    self.join([ports[name].id], [ports[target].id], "control", label)


def _active(graph: Graph) -> list[str]:
    """Return the names of the nodes that can run: a selection narrows results, not what runs."""
    return scope_of(graph.wiring, graph.entrypoints_config, None)


def _shows_something(graph: Graph) -> bool:
    return not all(graph.wiring.nodes[name].hide for name in _active(graph))


def _input_kind(spec: InputSpec, param: str) -> str:
    if param in spec.bound:
        return "bound"
    if param in spec.required:
        return "input"
    return "entry" if any(param in params for params in spec.entrypoints.values()) else "optional"


def _kind(node: HyperNode) -> str:
    if node.is_interrupt:
        return "interrupt"
    return {"GRAPH": "graph", "BRANCH": "gate"}.get(node.node_type, "function")


def _branches(node: HyperNode) -> Iterable[tuple[Any, list[str]]]:
    """Yield each target of a gate with what is written on its arrow; nothing for other nodes."""
    if isinstance(node, IfElseNode):
        yield node.when_true, [node.descriptions[True]]
        yield node.when_false, [node.descriptions[False]]
    elif isinstance(node, GateNode):
        for target in node.targets:
            yield target, [safe_text(text)] if (text := node.descriptions.get(target)) else []


def _strengthen(
    arrows: dict[tuple[str, str], Arrow], source: str, target: str, kind: str, labels: Iterable[str]
) -> None:
    """Add an arrow, or merge it with the one that joins the same boxes: the stronger type wins."""
    known = arrows.get((source, target))
    if known is None or _STRENGTH.index(known["type"]) < _STRENGTH.index(kind):
        arrows[source, target] = {"source": source, "target": target, "type": kind, "labels": list(labels)}
    elif known["type"] == kind:
        known["labels"] += [label for label in labels if label not in known["labels"]]


def _bridged(arrows: Collection[Arrow], shown: Collection[str]) -> list[Arrow]:
    """Replace the arrows to and from hidden nodes by arrows between the boxes they join."""
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


def _say_once(arrows: Iterable[Arrow], boxes: Iterable[Box]) -> None:
    """Take from each arrow the label that the box it comes from already bears."""
    values = {box["id"]: box["label"] for box in boxes if box["kind"] in VALUES}
    for arrow in arrows:
        arrow["labels"] = [label for label in arrow["labels"] if label != values.get(arrow["source"])]
