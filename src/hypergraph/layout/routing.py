"""Positions along the flow, ports of arrows at borders, and the curves between them.

Arrows move across the flow in the gaps between ranks and go straight beside the boxes of a rank, so no arrow
runs through a box. A curve is a chain of cubic Béziers: the start, then two control points and an end per
piece.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from hypergraph.layout.layers import Ladder, Link

Point = tuple[float, float]
Curve = list[Point]
_Ends = dict[int, list[tuple[float, int]]]  # by bundle: the x of the next item, and the link

_PORT_GAP = 14.0  # between two arrows at one border, if there is space
_GAP = 34.0  # between two ranks
_LABEL_GAP = 18.0  # between two ranks, if one consists of labels only
_STEEP = 0.07  # growth of the gap with the distance of arrows across,
_MOST_STEEP = 40.0  # up to this
_TURN, _FARTHER = 24.0, 11.0  # distance of the control points of a turn, and its growth for outer turns
_BULGE = 0.75  # extent of the curve, as a fraction of that distance


class Band(NamedTuple):
    """The extent of a rank along the flow."""

    start: float
    end: float


class Ports(NamedTuple):
    """The x of a link at its source and target, and the extent of its turns below and above them."""

    start: float
    end: float
    below: float = 0.0
    above: float = 0.0


def place_along(ladder: Ladder, xs: Sequence[float], links: Sequence[Ports]) -> tuple[list[Band], float]:
    """Return the band of each rank, and the total depth, with space for turns at both ends."""
    below, above = [0.0] * len(ladder.ranks), [0.0] * len(ladder.ranks)
    for way, link in zip(ladder.ways, links, strict=True):
        first, last = ladder.rank[way[0]], ladder.rank[way[-1]]
        below[first] = max(below[first], link.below * _BULGE)
        above[last] = max(above[last], link.above * _BULGE)
    bands: list[Band] = []
    y = above[0]
    for number, rank in enumerate(ladder.ranks):
        if number:
            y += _gap(ladder, xs, ladder.ranks[number - 1], rank) + below[number - 1] + above[number]
        depth = max(ladder.items[item].depth for item in rank)
        bands.append(Band(y, y + depth))
        y += depth
    return bands, y + below[-1]


def _gap(ladder: Ladder, xs: Sequence[float], upper: Sequence[int], lower: Sequence[int]) -> float:
    widest = max((abs(xs[j.item] - xs[item]) for item in upper for j in ladder.below[item]), default=0.0)
    tight = any(all(not ladder.items[item].room for item in rank) for rank in (upper, lower))
    return (_LABEL_GAP if tight else _GAP) + min(_MOST_STEEP, widest * _STEEP)


def start_of(ladder: Ladder, item: int, band: Band) -> float:
    """Return the start of an item in its band: next to its neighbours, else in the middle."""
    slack = band.end - band.start - ladder.items[item].depth
    if not ladder.above[item] and ladder.below[item]:
        return band.start + slack
    return band.start if not ladder.below[item] else band.start + slack / 2


def ports(ladder: Ladder, xs: Sequence[float], links: Sequence[Link]) -> list[Ports]:
    """Return the ports of each link; links of a bundle share one."""
    leaving: dict[int, _Ends] = {}
    meeting: dict[int, _Ends] = {}
    for number, way in enumerate(ladder.ways):
        if len(way) > 1:
            bundle = links[number].bundle
            key = number if bundle < 0 or number in ladder.turned else -1 - bundle
            first = xs[way[1]] + (links[number].meets or 0.0 if way[1] == way[-1] else 0.0)
            last = xs[way[-2]] + (links[number].leaves or 0.0 if way[-2] == way[0] else 0.0)
            leaving.setdefault(way[0], {}).setdefault(key, []).append((first, number))
            meeting.setdefault(way[-1], {}).setdefault(number, []).append((last, number))
    starts: dict[int, float] = {}
    ends: dict[int, float] = {}
    for item, found in leaving.items():
        fixed = {n: port for n in _numbers(found) if (port := links[n].leaves) is not None}
        starts.update(_spread(ladder, xs, item, found, fixed))
    for item, found in meeting.items():
        fixed = {n: port for n in _numbers(found) if (port := links[n].meets) is not None}
        ends.update(_spread(ladder, xs, item, found, fixed))
    whole = [Ports(starts.get(number, 0.0), ends.get(number, 0.0)) for number in range(len(ladder.ways))]
    return _with_turns(ladder, xs, whole)


def _with_turns(ladder: Ladder, xs: Sequence[float], found: list[Ports]) -> list[Ports]:
    """Nest the turns at each rank: wider ones extend farther."""
    below: dict[int, list[tuple[float, int]]] = {}
    above: dict[int, list[tuple[float, int]]] = {}
    for number in ladder.turned:
        way, link = ladder.ways[number], found[number]
        below.setdefault(ladder.rank[way[0]], []).append((abs(xs[way[1]] - link.start), number))
        above.setdefault(ladder.rank[way[-1]], []).append((abs(xs[way[-2]] - link.end), number))
    for side, turns in (("below", below), ("above", above)):
        for widths in turns.values():
            for place, (_, number) in enumerate(sorted(widths)):
                found[number] = found[number]._replace(**{side: _TURN + _FARTHER * min(place, 6)})
    return found


def _numbers(found: _Ends) -> Iterator[int]:
    return (number for ends in found.values() for _, number in ends)


def _spread(
    ladder: Ladder, xs: Sequence[float], item: int, found: _Ends, fixed: dict[int, float]
) -> dict[int, float]:
    """Distribute arrows along a border in the order of their other ends; straight arrows stay straight."""
    middle, room = xs[item], ladder.items[item].room
    if not room:
        return dict.fromkeys(_numbers(found), middle)
    placed = {number: middle + port for number, port in fixed.items()}
    free = [
        (sum(x for x, _ in ends) / len(ends), [number for _, number in ends])
        for ends in ([end for end in ends if end[1] not in fixed] for ends in found.values())
        if ends
    ]
    free.sort(key=lambda end: _sort_key(ladder, middle, *end))
    gap = min(_PORT_GAP, 2 * room / max(1, len(free) - 1))
    wanted = [x - middle if abs(x - middle) <= room else 0.0 for x, _ in free]
    for (_, numbers), x in zip(free, spaced(wanted, gap, -room, room), strict=True):
        placed.update(dict.fromkeys(numbers, middle + _beside(x, fixed.values(), room)))
    return placed


def _beside(x: float, taken: Collection[float], room: float) -> float:
    """Return the nearest x with a distance from taken ones, or x itself if there is none."""
    for step in range(100 if taken else 0):
        for place in (x + step * 4, x - step * 4):
            if abs(place) <= room and all(abs(place - other) >= _PORT_GAP for other in taken):
                return place
    return x


def _sort_key(ladder: Ladder, middle: float, x: float, numbers: Sequence[int]) -> tuple[int, float]:
    """Return the sort key of an arrow at a border: turns are outermost, wide ones around narrow ones."""
    if numbers[0] not in ladder.turned:
        return 0, x
    return (1, -x) if x > middle else (-1, -x)


def spaced(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Return positions close to the wanted ones, in their order, at least `gap` apart and within limits."""
    groups: list[tuple[float, int]] = []  # (mean of wanted positions without gaps, number of members)
    for number, x in enumerate(wanted):
        mean, size = x - number * gap, 1
        while groups and groups[-1][0] > mean:
            earlier, members = groups.pop()
            mean, size = (earlier * members + mean * size) / (members + size), members + size
        groups.append((mean, size))
    most = high - gap * (len(wanted) - 1)
    flat = [min(max(mean, low), max(low, most)) for mean, size in groups for _ in range(size)]
    return [min(max(x + number * gap, low), high) for number, x in enumerate(flat)]


def curve_of(ladder: Ladder, xs: Sequence[float], bands: Sequence[Band], link: int, port: Ports) -> Curve:
    """Return the curve of a link between two different items."""
    way = ladder.ways[link]
    source, target = way[0], way[-1]
    at_source, at_target = bands[ladder.rank[source]], bands[ladder.rank[target]]
    bottom = start_of(ladder, source, at_source) + ladder.items[source].depth
    curve: Curve = [(port.start, bottom)]
    _straight(curve, at_source.end)
    if link in ladder.turned:
        _turn(curve, xs[way[1]], port.below)
        for item in way[1:-1]:
            _bend(curve, xs[item], bands[ladder.rank[item]].end)
            _straight(curve, bands[ladder.rank[item]].start)
        _turn(curve, port.end, -port.above)
    else:
        for item in way[1:-1]:
            _bend(curve, xs[item], bands[ladder.rank[item]].start)
            _straight(curve, bands[ladder.rank[item]].end)
        _bend(curve, port.end, at_target.start)
    _straight(curve, start_of(ladder, target, at_target))
    return curve


def _straight(curve: Curve, y: float) -> None:
    """Extend the curve along the flow; a straight piece before it is lengthened."""
    x, start = curve[-1]
    if y == start:
        return
    if len(curve) > 1 and curve[-2][0] == curve[-4][0] == x:
        start = curve[-4][1]
        del curve[-3:]
    if y != start:
        third = (y - start) / 3
        curve += [(x, start + third), (x, y - third), (x, y)]


def _bend(curve: Curve, x: float, y: float) -> None:
    """Add a piece that moves across, tangent to the flow at both ends."""
    from_x, from_y = curve[-1]
    if x == from_x:
        _straight(curve, y)
    elif y != from_y:
        half = (y - from_y) / 2
        curve += [(from_x, from_y + half), (x, y - half), (x, y)]


def _turn(curve: Curve, x: float, by: float) -> None:
    """Add a U-turn."""
    from_x, y = curve[-1]
    curve += [(from_x, y + by), (x, y + by), (x, y)]


def loop_at(x: float, start: float, depth: float, by: float) -> Curve:
    """Return the curve of an arrow from an item to itself, beside the item."""
    high, low = start + depth * 0.28, start + depth * 0.72
    return [(x, high), (x + by, high - 8), (x + by, low + 8), (x, low)]
