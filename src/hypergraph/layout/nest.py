"""Boxes within boxes: every level is laid out on its own, from the innermost out, and becomes one box.

An arrow between boxes of different levels is cut at every border it passes: one piece per level, each from
border to border. A piece that comes in from outside leaves room for itself among the boxes inside, so that
the arrow avoids those as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any, NamedTuple

from hypergraph.layout.ladder import Item, Link
from hypergraph.layout.level import Placed, place
from hypergraph.layout.model import Flow, Texts
from hypergraph.layout.routing import Curve, Point
from hypergraph.layout.text import LOOP_ROOM


class _Piece(NamedTuple):
    level: str | None
    edge: int
    source: str | None  # a box; None at the border, where the arrow comes in,
    target: str | None  # or leaves
    main: bool  # the piece that bears the label


@dataclass(slots=True)
class Nest:
    """What is known of all levels: sizes of boxes, and where arrows pass their borders."""

    flow: Flow
    texts: Texts
    edges: Sequence[Mapping[str, Any]]
    parent: dict[str, str | None]
    inside: dict[str | None, list[str]]
    kinds: dict[str, str]
    sizes: dict[str, tuple[float, float]] = field(default_factory=dict)  # across, along
    bundles: list[int] = field(default_factory=list)  # per edge: those alike from one source leave it as one
    passes: dict[tuple[str | None, int], float] = field(
        default_factory=dict
    )  # (box, edge) -> from the middle
    levels: dict[str | None, tuple[list[_Piece], Placed]] = field(default_factory=dict)
    insets: dict[str, float] = field(default_factory=dict)  # where the inside of a box begins across
    places: dict[str, Point] = field(default_factory=dict)  # the middle of the start, in its level

    def solve(self) -> None:
        """Lay out all levels, inner ones first."""
        self._bundle()
        pieces: dict[str | None, list[_Piece]] = {}
        beside: dict[str, float] = {}  # a box is not shorter than what is written on its arrows to itself
        for number, edge in enumerate(self.edges):
            for piece in self._pieces(number):
                pieces.setdefault(piece.level, []).append(piece)
            if edge["source"] == edge["target"]:
                along = self.flow.sizes(self.texts.label_size(number))[1]
                beside[edge["source"]] = max(along, beside.get(edge["source"], 0.0))
        for box in reversed(self.parent):
            if box in self.inside:
                self._solve_level(box, pieces.get(box, []))
            else:
                self.sizes[box] = self.flow.sizes(self.texts.size(box))
            across, along = self.sizes[box]
            self.sizes[box] = across, max(along, beside.get(box, 0.0))
        self._solve_level(None, pieces.get(None, []))

    def _bundle(self) -> None:
        known: dict[tuple[str, str], int] = {}
        for number, edge in enumerate(self.edges):
            key = edge["source"], str(edge.get("type") or "data")
            alone = bool(self.texts.labels[number]) or key[1] == "control"
            self.bundles.append(-1 if alone else known.setdefault(key, number))

    def containers(self, box: str) -> list[str | None]:
        """Return what a box stands in, from the nearest out; the last one is the picture."""
        found: list[str | None] = []
        holder = self.parent[box]
        while holder is not None:
            found.append(holder)
            holder = self.parent[holder]
        return [*found, None]

    def _pieces(self, number: int) -> Iterator[_Piece]:
        source, target = self.edges[number]["source"], self.edges[number]["target"]
        around_source, around_target = self.containers(source), self.containers(target)
        if source in around_target:
            shared: str | None = source
        elif target in around_source:
            shared = target
        else:
            known = set(around_source)
            shared = next(holder for holder in around_target if holder in known)
        end = None if source == shared else source
        for holder in takewhile(lambda holder: holder != shared, around_source if end else ()):
            yield _Piece(holder, number, end, None, False)
            end = holder
        way_in = [target, *takewhile(lambda holder: holder != shared, around_target)]
        if target == shared:
            way_in = [None]
        yield _Piece(shared, number, end, way_in[-1], True)
        for holder, inner in zip(way_in[:0:-1], way_in[-2::-1], strict=True):
            yield _Piece(holder, number, None, inner, False)

    def _solve_level(self, level: str | None, pieces: list[_Piece]) -> None:
        boxes = self.inside.get(level, [])
        numbers = {box: number for number, box in enumerate(boxes)}
        items = [self._item(box) for box in boxes]
        links = []
        borders: dict[tuple[str, int], int] = {}
        for number, piece in enumerate(pieces):
            bundle = self.bundles[piece.edge]
            ends = []
            for end, pinned in ((piece.source, "first"), (piece.target, "last")):
                key = pinned, bundle if bundle >= 0 else -1 - number
                if end is None and key not in borders:
                    borders[key] = len(items)
                    items.append(Item(5.0, 5.0, pinned=pinned))
                ends.append(borders[key] if end is None else numbers[end])
            label = self.flow.sizes(self.texts.label_size(piece.edge)) if piece.main else None
            label = label if self.texts.labels[piece.edge] else None
            weight = int(self.kinds.get(piece.source or "") != "entry")
            passes = (self.passes.get((end, piece.edge)) for end in (piece.source, piece.target))
            if ends[0] == ends[1]:
                items[ends[0]].right += LOOP_ROOM + (label[0] if label else 0.0)
            links.append(Link(ends[0], ends[1], label, weight, bundle, *passes))
        placed = place(items, links)
        self.levels[level] = pieces, placed
        self.places.update((box, placed.items[number]) for box, number in numbers.items())
        if level is not None:
            self._close(level, pieces, placed)

    def _item(self, box: str) -> Item:
        across, along = self.sizes[box]
        return Item(across / 2, across / 2, along, room=self.flow.room(self.kinds[box], across))

    def _close(self, level: str, pieces: Sequence[_Piece], placed: Placed) -> None:
        """Make a box of a finished level."""
        pad = self.flow.padding
        least = self.flow.least_size(self.texts.title_width(level))
        across = max(placed.width + pad.before + pad.after, least[0])
        self.sizes[level] = across, max(placed.depth + pad.start + pad.end, least[1])
        self.insets[level] = (across - placed.width + pad.before - pad.after) / 2
        for number, piece in enumerate(pieces):
            if not piece.main:
                x = placed.curves[number][0 if piece.source is None else -1][0]
                self.passes[level, piece.edge] = x + self.insets[level] - across / 2

    def boxes(self, corner: Point) -> Iterator[tuple[str, Point]]:
        """Yield every box with its corner before and at the start, outer ones first."""
        corners: dict[str | None, Point] = {None: corner}
        for box in self.parent:
            holder = self.parent[box]
            origin = self._origin(corners[holder], holder)
            x, y = self.places[box]
            corners[box] = origin[0] + x - self.sizes[box][0] / 2, origin[1] + y
            yield box, corners[box]

    def _origin(self, corner: Point, level: str | None) -> Point:
        """Return where the inside of a box begins."""
        if level is None:
            return corner
        return corner[0] + self.insets[level], corner[1] + self.flow.padding.start

    def arrows(self, corners: Mapping[str | None, Point]) -> tuple[dict[int, Curve], dict[int, Point]]:
        """Return the whole curve of each edge, and the middle of its label."""
        curves: dict[int, Curve] = {}
        labels: dict[int, Point] = {}
        found: dict[tuple[str | None, int], Curve] = {}
        for level, (pieces, placed) in self.levels.items():
            x, y = self._origin(corners[level], level)
            for number, piece in enumerate(pieces):
                curve = [(at_x + x, at_y + y) for at_x, at_y in placed.curves[number]]
                found[level, piece.edge] = self._to_border(level, piece, curve, corners[level])
                if piece.main and number in placed.labels:
                    at_x, at_y = placed.labels[number]
                    labels[piece.edge] = at_x + x, at_y + y
        for number in range(len(self.edges)):
            for piece in self._pieces(number):
                part = found[piece.level, number]
                curves[number] = [*curves[number], *part[1:]] if number in curves else part
        return curves, labels

    def _to_border(self, level: str | None, piece: _Piece, curve: Curve, corner: Point) -> Curve:
        """Lead a piece through the padding to the border of its level."""
        if level is None:
            return curve
        if piece.source is None:
            (x, y), border = curve[0], corner[1]
            curve = [(x, border), (x, border + (y - border) / 3), (x, y - (y - border) / 3), *curve]
        if piece.target is None:
            (x, y), border = curve[-1], corner[1] + self.sizes[level][1]
            curve = [*curve, (x, y + (border - y) / 3), (x, border - (border - y) / 3), (x, border)]
        return curve
