"""Data of a layout: placed boxes and arrows, the direction of flow, and text sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypedDict

from hypergraph.display import columns, escape
from hypergraph.node_kinds import NODE_KINDS, VALUE_KINDS

DIRECTIONS = ("TD", "LR")
NAME_SIZE, SMALL_SIZE = 12.0, 10.0
_ASPECT = 0.61  # width of a letter in a monospaced font, by its size
LONGEST_NAME, LONGEST_ROW, LONGEST_LABEL = 30, 38, 24  # in columns
ROW, TITLE = 15.0, 26.0  # height of a row of text, and of the title of an open box

LOOP_ROOM = 30.0  # beside a box with an arrow to itself
SLANT = 11.0  # length of the points of a hexagon


def shape_of(kind: str) -> str:
    """Return the shape of a closed box: "round" for values and the end, else that of the kind of node."""
    if kind in VALUE_KINDS or kind == "end":
        return "round"
    return NODE_KINDS.get(kind, NODE_KINDS["function"]).shape


def width_of(text: str, size: float) -> float:
    """Return the approximate width of a text."""
    return columns(text) * size * _ASPECT


def cut(text: str, most: int) -> str:
    """Return the text with control characters escaped, cut with an ellipsis to this many columns."""
    shown = escape(text)
    if columns(shown) <= most:
        return shown
    kept, used = [], 1
    for character in shown:
        used += columns(character)
        if used > most:
            break
        kept.append(character)
    return "".join(kept) + "…"


def size_of(kind: str, label: str, rows: Sequence[str]) -> tuple[float, float]:
    """Return width and height of a closed box with these texts."""
    if kind == "end":
        return 52.0, 24.0
    if kind in VALUE_KINDS:
        return round(max(40.0, width_of(label, 11) + 24)), 24.0
    widest = max([width_of(label, NAME_SIZE), *(width_of(row, SMALL_SIZE) for row in rows)])
    pointed = 2 * SLANT if shape_of(kind) == "hexagon" else 0.0
    return round(max(76.0, widest + 28 + pointed)), 34.0 + ROW * len(rows)


def label_size(label: str) -> tuple[float, float]:
    """Return width and height of the label of an arrow."""
    return round(width_of(label, SMALL_SIZE) + 10), 16.0


class PlacedBox(TypedDict):
    """A box with its position. `open` boxes contain others; texts are cut, `title` is not."""

    id: str
    kind: str
    path: str
    parent: str | None
    open: bool
    label: str
    rows: list[str]
    title: str
    x: float
    y: float
    width: float
    height: float


class PlacedEdge(TypedDict):
    """An arrow; the curve is a start, then two control points and an end per Bézier piece."""

    source: str
    target: str
    type: str
    label: str
    title: str
    curve: list[list[float]]
    label_box: list[float] | None  # x, y, width, height


class Layout(TypedDict):
    """All boxes, outer ones first, and all arrows, on a canvas with its origin at 0, 0."""

    name: str
    direction: str
    width: float
    height: float
    boxes: list[PlacedBox]
    edges: list[PlacedEdge]


class Padding(NamedTuple):
    """The space between the border of a box and its content, across the flow and along it."""

    before: float
    after: float
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class Flow:
    """The direction of flow, and the conversion of coordinates to "across" and "along" the flow."""

    direction: str

    @property
    def is_down(self) -> bool:
        """Whether the flow goes down; otherwise it goes to the right."""
        return self.direction == "TD"

    @property
    def padding(self) -> Padding:
        """The padding of an open box; its title is at the top."""
        return Padding(18, 18, TITLE + 14, 18) if self.is_down else Padding(TITLE + 10, 16, 20, 20)

    def sizes(self, size: tuple[float, float]) -> tuple[float, float]:
        """Turn (width, height) into (across, along), or back."""
        return size if self.is_down else (size[1], size[0])

    def least_size(self, title: float) -> tuple[float, float]:
        """Return the minimum size of a box with a title of this width."""
        return (title, 0.0) if self.is_down else (0.0, title)

    def room(self, kind: str, across: float) -> float:
        """Return half the length of the border that arrows can use, without the corners."""
        margin = 10.0
        if shape_of(kind) == "hexagon":
            margin = SLANT + 4
        elif shape_of(kind) == "round":
            margin = 12.0
        return max(across / 2 - margin, 1.0)


class Texts:
    """The texts of boxes and edges, cut to their maximum length, and their sizes."""

    def __init__(self, nodes: Sequence[Mapping[str, Any]], edges: Sequence[Mapping[str, Any]]) -> None:
        self.kinds = {node["id"]: str(node["kind"]) for node in nodes}
        self.names = {node["id"]: cut(str(node["label"]), LONGEST_NAME) for node in nodes}
        self.rows = {node["id"]: [cut(str(r), LONGEST_ROW) for r in node.get("rows") or ()] for node in nodes}
        self.labels = [cut(", ".join(map(str, edge.get("labels") or ())), LONGEST_LABEL) for edge in edges]

    def size(self, box: str) -> tuple[float, float]:
        """Return width and height of a closed box."""
        return size_of(self.kinds[box], self.names[box], self.rows[box])

    def title_width(self, box: str) -> float:
        """Return the width of the title of an open box, with space for a badge."""
        return width_of("  ".join([self.names[box], *self.rows[box]]), NAME_SIZE) + 120

    def label_size(self, edge: int) -> tuple[float, float]:
        """Return width and height of the label of an edge."""
        return label_size(self.labels[edge])
