"""Positions of boxes and arrows, across the flow and level by level."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, takewhile
from typing import Any, NamedTuple

from hypergraph.layout.layers import (
    Item,
    Joint,
    Ladder,
    Link,
    assign_ranks,
    build,
    closing_links,
    order,
    positions,
    topological,
)
from hypergraph.layout.model import LOOP_ROOM, Flow, Texts
from hypergraph.layout.routing import Band, Curve, Point, curve_of, loop_at, place_along, ports, start_of

GAP = 26.0  # between boxes
_NARROW = 12.0  # beside a dummy

Pair = tuple[int, int]

# -- across the flow ------------------------------------------------------------------------------------


@dataclass(slots=True)
class _View:
    """The ladder as seen in one of four passes: from the top or the bottom, mirrored or not."""

    ranks: list[list[int]]
    joints: list[list[Joint]]
    left: list[float]
    right: list[float]
    places: list[int]
    sign: int
    crossed: set[Pair]


def place_across(ladder: Ladder) -> list[float]:
    """Return the x of the middle of each item, after Brandes and Köpf: the median of four passes."""
    crossed = _crossed_by_straight(ladder)
    found = [
        _pass(ladder, crossed, down=down, mirrored=mirrored)
        for down in (True, False)
        for mirrored in (False, True)
    ]
    widths = [max(xs) - min(xs) for xs in found]
    narrowest = found[widths.index(min(widths))]
    low, high = min(narrowest), max(narrowest)
    for number, xs in enumerate(found):
        shift = high - max(xs) if number % 2 else low - min(xs)
        found[number] = [x + shift for x in xs]
    return [sum(sorted(four)[1:3]) / 2 for four in zip(*found, strict=True)]


def _crossed_by_straight(ladder: Ladder) -> set[Pair]:
    """Return the segments that cross one between two dummies; long arrows stay straight."""
    places = positions(ladder)
    crossed: set[Pair] = set()
    for upper, rank in pairwise(ladder.ranks):
        left_bound, waiting = -1, 0
        for place, item in enumerate(rank):
            inner = _dummy_above(ladder, item)
            if inner is None and place < len(rank) - 1:
                continue
            right_bound = len(upper) if inner is None else places[inner]
            for other in rank[waiting : place + 1]:
                for joint in ladder.above[other]:
                    crosses = not left_bound <= places[joint.item] <= right_bound
                    if crosses and not (ladder.items[other].is_dummy and ladder.items[joint.item].is_dummy):
                        crossed.add((joint.item, other))
            waiting, left_bound = place + 1, right_bound
    return crossed


def _dummy_above(ladder: Ladder, item: int) -> int | None:
    if not ladder.items[item].is_dummy:
        return None
    return next((joint.item for joint in ladder.above[item] if ladder.items[joint.item].is_dummy), None)


def _pass(ladder: Ladder, crossed: set[Pair], *, down: bool, mirrored: bool) -> list[float]:
    ranks = ladder.ranks if down else ladder.ranks[::-1]
    left, right = [item.left for item in ladder.items], [item.right for item in ladder.items]
    if mirrored:
        ranks = [rank[::-1] for rank in ranks]
        left, right = right, left
    places = [0] * len(left)
    for rank in ranks:
        for place, item in enumerate(rank):
            places[item] = place
    joints = ladder.above if down else ladder.below
    view = _View(ranks, joints, left, right, places, -1 if mirrored else 1, crossed)
    root, shift = _align(view)
    xs = _compact(view, ladder, root, shift)
    return [-x for x in xs] if mirrored else xs


def _align(view: _View) -> tuple[list[int], list[float]]:
    """Align each item with the median of its neighbours; return the head of each chain, and the offset."""
    root = list(range(len(view.left)))
    shift = [0.0] * len(root)
    for rank in view.ranks:
        taken = -1  # chains must not cross
        for item in rank:
            joints = sorted(view.joints[item], key=lambda j: (view.places[j.item], view.sign * j.there))
            middle = (len(joints) - 1) // 2
            for joint in joints[middle : len(joints) // 2 + 1]:
                other = joint.item
                if view.places[other] <= taken or _is_crossed(view, other, item):
                    continue
                taken = view.places[other]
                root[item] = root[other]
                shift[item] = shift[other] + view.sign * (joint.there - joint.here)
                break
    return root, shift


def _is_crossed(view: _View, one: int, other: int) -> bool:
    return (one, other) in view.crossed or (other, one) in view.crossed


def _compact(view: _View, ladder: Ladder, root: list[int], shift: list[float]) -> list[float]:
    """Place the chains: all as far left as possible, then each as far right as there is space."""
    after: dict[int, list[tuple[int, float]]] = {chain: [] for chain in root}
    before: dict[int, list[tuple[int, float]]] = {chain: [] for chain in root}
    for rank in view.ranks:
        for one, other in pairwise(rank):
            narrow = ladder.items[one].is_dummy or ladder.items[other].is_dummy
            distance = view.right[one] + (_NARROW if narrow else GAP) + view.left[other]
            distance += shift[one] - shift[other]
            after[root[one]].append((root[other], distance))
            before[root[other]].append((root[one], distance))
    order = topological(sorted(after), before, after)
    x: dict[int, float] = {}
    for chain in order:
        x[chain] = max((x[other] + distance for other, distance in before[chain]), default=0.0)
    for chain in reversed(order):
        if after[chain]:
            x[chain] = max(x[chain], min(x[other] - distance for other, distance in after[chain]))
    return [x[head] + offset for head, offset in zip(root, shift, strict=True)]


# -- one level ------------------------------------------------------------------------------------------

_COMPONENT_GAP = 36.0
_ROW = 1100.0  # minimum width of a row of components
_ASPECT = 1.6  # aspect ratio of the picture if there are many


@dataclass(slots=True)
class Placed:
    """Positions of a level: items by the middle across and the start along the flow."""

    width: float = 0.0
    depth: float = 0.0
    items: dict[int, Point] = field(default_factory=dict)
    curves: dict[int, Curve] = field(default_factory=dict)
    labels: dict[int, Point] = field(default_factory=dict)  # the middle of each label


class _Component(NamedTuple):
    items: list[int]
    links: list[int]


def place(items: Sequence[Item], links: Sequence[Link]) -> Placed:
    """Lay out one level: each connected component, then all of them in rows."""
    parts = [
        _place_component(
            part, [items[number] for number in part.items], [links[number] for number in part.links]
        )
        for part in _components(items, links)
    ]
    in_one_row = any(item.pinned for item in items)
    whole = _packed(parts, in_one_row=in_one_row)
    for number, link in enumerate(links):  # arrows across the border reach it
        curve = whole.curves[number]
        if items[link.source].pinned:
            _lengthen(curve, 0.0, at_start=True)
        if items[link.target].pinned:
            _lengthen(curve, whole.depth, at_start=False)
    return whole


def _lengthen(curve: Curve, y: float, *, at_start: bool) -> None:
    x, known = curve[0 if at_start else -1]
    third = (y - known) / 3
    if not third:
        return
    more = [(x, known + third), (x, y - third), (x, y)]
    if at_start:
        curve[:0] = more[::-1]
    else:
        curve += more


def _components(items: Sequence[Item], links: Sequence[Link]) -> list[_Component]:
    """Return the connected components, in the order of their first items."""
    leader = list(range(len(items)))

    def find(item: int) -> int:
        while leader[item] != item:
            leader[item] = leader[leader[item]]
            item = leader[item]
        return item

    for link in links:
        one, other = find(link.source), find(link.target)
        leader[max(one, other)] = min(one, other)
    parts: dict[int, _Component] = {}
    for item in range(len(items)):
        parts.setdefault(find(item), _Component([], [])).items.append(item)
    for number, link in enumerate(links):
        parts[find(link.source)].links.append(number)
    return list(parts.values())


def _place_component(part: _Component, items: Sequence[Item], links: Sequence[Link]) -> Placed:
    local = {item: number for number, item in enumerate(part.items)}
    links = [link._replace(source=local[link.source], target=local[link.target]) for link in links]
    closing = closing_links(len(items), links)
    ladder = build(items, links, assign_ranks(items, links, closing), closing)
    order(ladder)
    xs = place_across(ladder)
    low = min(x - item.left for x, item in zip(xs, ladder.items, strict=True))
    xs = [x - low for x in xs]
    meets = ports(ladder, xs, links)
    bands, depth = place_along(ladder, xs, meets)
    placed = Placed(max(x + item.right for x, item in zip(xs, ladder.items, strict=True)), depth)
    for number, item in enumerate(part.items):
        placed.items[item] = xs[number], start_of(ladder, number, bands[ladder.rank[number]])
    reach: dict[int, float] = {}
    for number, link in enumerate(links):
        name = part.links[number]
        if link.source == link.target:
            far = reach.get(link.source, 0.0) + LOOP_ROOM
            _place_loop(placed, (name, part.items[link.source]), items[link.source], link, far)
            reach[link.source] = far + (link.label[0] if link.label else 0.0)
        else:
            placed.curves[name] = curve_of(ladder, xs, bands, number, meets[number])
    for number, dummy in ladder.labels.items():
        placed.labels[part.links[number]] = xs[dummy], _middle(bands[ladder.rank[dummy]])
    return placed


def _middle(band: Band) -> float:
    return (band.start + band.end) / 2


def _place_loop(placed: Placed, names: tuple[int, int], about: Item, link: Link, far: float) -> None:
    name, item = names
    x, start = placed.items[item]
    border = x + about.left  # the right half is wider, with space for loops
    placed.curves[name] = loop_at(border, start, about.depth, far)
    if link.label:
        placed.labels[name] = border + far + link.label[0] / 2, start + about.depth / 2


def _packed(parts: Sequence[Placed], *, in_one_row: bool) -> Placed:
    area = sum((part.width + _COMPONENT_GAP) * (part.depth + _COMPONENT_GAP) for part in parts)
    widest = math.inf if in_one_row else max(_ROW, math.sqrt(area) * _ASPECT)
    whole = Placed()
    x = y = 0.0
    for part in parts:
        if x and x + part.width > widest:
            x, y = 0.0, whole.depth + _COMPONENT_GAP
        for item, (at_x, at_y) in part.items.items():
            whole.items[item] = at_x + x, at_y + y
        for number, curve in part.curves.items():
            whole.curves[number] = [(at_x + x, at_y + y) for at_x, at_y in curve]
        for number, (at_x, at_y) in part.labels.items():
            whole.labels[number] = at_x + x, at_y + y
        whole.width = max(whole.width, x + part.width)
        whole.depth = max(whole.depth, y + part.depth)
        x += part.width + _COMPONENT_GAP
    return whole


# -- all levels -----------------------------------------------------------------------------------------


class _Piece(NamedTuple):
    level: str | None
    edge: int
    source: str | None  # a box; None if the arrow comes in through the border
    target: str | None  # a box; None if the arrow leaves through the border
    main: bool  # whether it has the label


@dataclass(slots=True)
class Nest:
    """The layout of all levels: sizes of boxes, and where arrows cross their borders."""

    flow: Flow
    texts: Texts
    edges: Sequence[Mapping[str, Any]]
    parent: dict[str, str | None]
    inside: dict[str | None, list[str]]
    kinds: dict[str, str]
    sizes: dict[str, tuple[float, float]] = field(default_factory=dict)  # across, along
    bundles: list[int] = field(default_factory=list)  # per edge: its bundle, -1 for none
    passes: dict[tuple[str | None, int], float] = field(
        default_factory=dict
    )  # (box, edge) -> crossing of the border, relative to its middle
    levels: dict[str | None, tuple[list[_Piece], Placed]] = field(default_factory=dict)
    insets: dict[str, float] = field(default_factory=dict)  # start of the content of a box, across
    places: dict[str, Point] = field(default_factory=dict)  # middle of the start of a box, in its level

    def solve(self) -> None:
        """Lay out all levels, inner ones first."""
        self._bundle()
        pieces: dict[str | None, list[_Piece]] = {}
        beside: dict[str, float] = {}  # a box is at least as long as the labels of its loops
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
        """Return the boxes around a box, innermost first, then None for the picture."""
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
        """Compute size and border crossings of the box around a level."""
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
        """Yield every box with its top left corner, outer ones first."""
        corners: dict[str | None, Point] = {None: corner}
        for box in self.parent:
            holder = self.parent[box]
            origin = self._origin(corners[holder], holder)
            x, y = self.places[box]
            corners[box] = origin[0] + x - self.sizes[box][0] / 2, origin[1] + y
            yield box, corners[box]

    def _origin(self, corner: Point, level: str | None) -> Point:
        """Return the origin of the content of a box."""
        if level is None:
            return corner
        return corner[0] + self.insets[level], corner[1] + self.flow.padding.start

    def arrows(self, corners: Mapping[str | None, Point]) -> tuple[dict[int, Curve], dict[int, Point]]:
        """Return the curve of each edge, and the middle of its label."""
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
        """Extend a piece through the padding to the border of its level."""
        if level is None:
            return curve
        if piece.source is None:
            (x, y), border = curve[0], corner[1]
            curve = [(x, border), (x, border + (y - border) / 3), (x, y - (y - border) / 3), *curve]
        if piece.target is None:
            (x, y), border = curve[-1], corner[1] + self.sizes[level][1]
            curve = [*curve, (x, y + (border - y) / 3), (x, border - (border - y) / 3), (x, border)]
        return curve
