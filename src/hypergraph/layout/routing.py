"""Where items stand along the flow, where arrows meet borders, and the curves in between.

Between two ranks lies a gap in which arrows change their place; beside the boxes of a rank they go straight.
So no arrow runs through a box. A curve is a chain of cubic Béziers: the start, then per piece two control
points and an end.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from hypergraph.layout.layers import Ladder, Link

Point = tuple[float, float]
Curve = list[Point]
_Ends = dict[int, list[tuple[float, int]]]  # by bundle: where the next item of a way is, and the link

_PORT_GAP = 14.0  # between two arrows at one border, where there is room
_GAP = 34.0  # between two ranks,
_LABEL_GAP = 18.0  # if one of them bears nothing but labels,
_STEEP = 0.07  # and more of it the farther arrows go across,
_MOST_STEEP = 40.0  # up to this
_TURN, _FARTHER = 24.0, 11.0  # control points of arrows that turn around, of wider ones farther out
_BULGE = 0.75  # of that is how far such a curve goes


class Band(NamedTuple):
    """The part of the flow that a rank takes."""

    start: float
    end: float


class Ports(NamedTuple):
    """Where a link leaves its source and meets its target, and how far it goes beyond them to turn around."""

    start: float
    end: float
    below: float = 0.0
    above: float = 0.0


def place_along(ladder: Ladder, xs: Sequence[float], links: Sequence[Ports]) -> tuple[list[Band], float]:
    """Return the band of each rank, and how deep all of it is, with room for turns at both ends."""
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
    """Return where an item begins in its band: near to what it is joined with, else in the middle."""
    slack = band.end - band.start - ladder.items[item].depth
    if not ladder.above[item] and ladder.below[item]:
        return band.start + slack
    return band.start if not ladder.below[item] else band.start + slack / 2


def ports(ladder: Ladder, xs: Sequence[float], links: Sequence[Link]) -> list[Ports]:
    """Return where each link meets its boxes; those of a bundle leave at one place."""
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
    """Let each turn around the same rank go a little farther than the narrower ones within it."""
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
    """Share a border among its arrows in the order of their other ends; a straight arrow stays straight."""
    middle, room = xs[item], ladder.items[item].room
    if not room:
        return dict.fromkeys(_numbers(found), middle)
    placed = {number: middle + port for number, port in fixed.items()}
    free = [
        (sum(x for x, _ in ends) / len(ends), [number for _, number in ends])
        for ends in ([end for end in ends if end[1] not in fixed] for ends in found.values())
        if ends
    ]
    free.sort(key=lambda end: _around(ladder, middle, *end))
    gap = min(_PORT_GAP, 2 * room / max(1, len(free) - 1))
    wanted = [x - middle if abs(x - middle) <= room else 0.0 for x, _ in free]
    for (_, numbers), x in zip(free, spaced(wanted, gap, -room, room), strict=True):
        placed.update(dict.fromkeys(numbers, middle + _beside(x, fixed.values(), room)))
    return placed


def _beside(x: float, taken: Collection[float], room: float) -> float:
    """Return the nearest place that keeps a distance from those that are taken, if there is one."""
    for step in range(100 if taken else 0):
        for place in (x + step * 4, x - step * 4):
            if abs(place) <= room and all(abs(place - other) >= _PORT_GAP for other in taken):
                return place
    return x


def _around(ladder: Ladder, middle: float, x: float, numbers: Sequence[int]) -> tuple[int, float]:
    """Return the order of an arrow at a border: turns stand outermost, wide ones around narrow ones."""
    if numbers[0] not in ladder.turned:
        return 0, x
    return (1, -x) if x > middle else (-1, -x)


def spaced(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Return places near the wanted ones, in the same order, at least `gap` apart and within the limits."""
    groups: list[tuple[float, int]] = []  # mean of what its members want once the gaps are taken out, size
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
            _swing(curve, xs[item], bands[ladder.rank[item]].end)
            _straight(curve, bands[ladder.rank[item]].start)
        _turn(curve, port.end, -port.above)
    else:
        for item in way[1:-1]:
            _swing(curve, xs[item], bands[ladder.rank[item]].start)
            _straight(curve, bands[ladder.rank[item]].end)
        _swing(curve, port.end, at_target.start)
    _straight(curve, start_of(ladder, target, at_target))
    return curve


def _straight(curve: Curve, y: float) -> None:
    """Go on along the flow; a straight piece before this one grows."""
    x, start = curve[-1]
    if y == start:
        return
    if len(curve) > 1 and curve[-2][0] == curve[-4][0] == x:
        start = curve[-4][1]
        del curve[-3:]
    if y != start:
        third = (y - start) / 3
        curve += [(x, start + third), (x, y - third), (x, y)]


def _swing(curve: Curve, x: float, y: float) -> None:
    """Change the place while going along: out of and into the direction of the flow."""
    from_x, from_y = curve[-1]
    if x == from_x:
        _straight(curve, y)
    elif y != from_y:
        half = (y - from_y) / 2
        curve += [(from_x, from_y + half), (x, y - half), (x, y)]


def _turn(curve: Curve, x: float, by: float) -> None:
    """Turn around and go back beside."""
    from_x, y = curve[-1]
    curve += [(from_x, y + by), (x, y + by), (x, y)]


def loop_at(x: float, start: float, depth: float, by: float) -> Curve:
    """Return the curve of an arrow from an item to itself, at the border across the flow."""
    high, low = start + depth * 0.28, start + depth * 0.72
    return [(x, high), (x + by, high - 8), (x + by, low + 8), (x, low)]
