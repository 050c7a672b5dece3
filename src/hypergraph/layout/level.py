"""One level: boxes of known size and the arrows between them get their places.

Parts that nothing joins are laid out each on its own and stand side by side. Where arrows come in from
outside or leave (pinned items), they do so at the very start and end of the level.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from hypergraph.layout.across import place_across
from hypergraph.layout.ladder import Item, Link, build
from hypergraph.layout.ordering import order
from hypergraph.layout.ranks import closing_links, rank
from hypergraph.layout.routing import Band, Curve, Point, curve_of, loop_at, place_along, ports, start_of
from hypergraph.layout.text import LOOP_ROOM

_BETWEEN_PARTS = 36.0
_ROW = 1100.0  # parts fill rows of about this width,
_ASPECT = 1.6  # or more if there are many


@dataclass(slots=True)
class Placed:
    """The places found: of the middle of each item across and of its start along the flow."""

    width: float = 0.0
    depth: float = 0.0
    items: dict[int, Point] = field(default_factory=dict)
    curves: dict[int, Curve] = field(default_factory=dict)
    labels: dict[int, Point] = field(default_factory=dict)  # the middle of each label


class _Part(NamedTuple):
    items: list[int]
    links: list[int]


def place(items: Sequence[Item], links: Sequence[Link]) -> Placed:
    """Lay out one level."""
    parts = [
        _place_part(part, [items[number] for number in part.items], [links[number] for number in part.links])
        for part in _parts(items, links)
    ]
    in_one_row = any(item.pinned for item in items)
    whole = _packed(parts, in_one_row=in_one_row)
    for number, link in enumerate(links):  # from border to border
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


def _parts(items: Sequence[Item], links: Sequence[Link]) -> list[_Part]:
    """Return what hangs together, in the order of first items."""
    leader = list(range(len(items)))

    def find(item: int) -> int:
        while leader[item] != item:
            leader[item] = leader[leader[item]]
            item = leader[item]
        return item

    for link in links:
        one, other = find(link.source), find(link.target)
        leader[max(one, other)] = min(one, other)
    parts: dict[int, _Part] = {}
    for item in range(len(items)):
        parts.setdefault(find(item), _Part([], [])).items.append(item)
    for number, link in enumerate(links):
        parts[find(link.source)].links.append(number)
    return list(parts.values())


def _place_part(part: _Part, items: Sequence[Item], links: Sequence[Link]) -> Placed:
    local = {item: number for number, item in enumerate(part.items)}
    links = [link._replace(source=local[link.source], target=local[link.target]) for link in links]
    closing = closing_links(len(items), links)
    ladder = build(items, links, rank(items, links, closing), closing)
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
    border = x + about.left  # what is to the right beyond the half width is room for loops
    placed.curves[name] = loop_at(border, start, about.depth, far)
    if link.label:
        placed.labels[name] = border + far + link.label[0] / 2, start + about.depth / 2


def _packed(parts: Sequence[Placed], *, in_one_row: bool) -> Placed:
    area = sum((part.width + _BETWEEN_PARTS) * (part.depth + _BETWEEN_PARTS) for part in parts)
    widest = math.inf if in_one_row else max(_ROW, math.sqrt(area) * _ASPECT)
    whole = Placed()
    x = y = 0.0
    for part in parts:
        if x and x + part.width > widest:
            x, y = 0.0, whole.depth + _BETWEEN_PARTS
        for item, (at_x, at_y) in part.items.items():
            whole.items[item] = at_x + x, at_y + y
        for number, curve in part.curves.items():
            whole.curves[number] = [(at_x + x, at_y + y) for at_x, at_y in curve]
        for number, (at_x, at_y) in part.labels.items():
            whole.labels[number] = at_x + x, at_y + y
        whole.width = max(whole.width, x + part.width)
        whole.depth = max(whole.depth, y + part.depth)
        x += part.width + _BETWEEN_PARTS
    return whole
