"""Ranks of boxes, and their order within ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple


@dataclass(slots=True)
class Item:
    """An element of a rank: a box, or a dummy for a label or an arrow. Left and right are half widths."""

    left: float = 0.0
    right: float = 0.0
    depth: float = 0.0
    pinned: str = ""  # "first" or "last" rank, for arrows that cross the border of the level
    room: float = 0.0  # half of the border that arrows may use; 0 for dummies
    is_dummy: bool = False


class Link(NamedTuple):
    """An arrow between two items; a label has a width across the flow and a depth along it."""

    source: int
    target: int
    label: tuple[float, float] | None = None
    weight: int = 1  # 0: does not count for the start of a loop
    bundle: int = -1  # links of one bundle leave their source together; -1 for none
    leaves: float | None = None  # fixed port at the source, relative to its middle
    meets: float | None = None  # fixed port at the target, relative to its middle


class Joint(NamedTuple):
    """The other end of a segment, and the ports at both ends, relative to the middle of the item."""

    item: int
    there: float
    here: float


_MOST_DUMMIES = 20_000  # a graph may come from a store that another person wrote, and costs time


@dataclass(slots=True)
class Ladder:
    """Items in ranks, and the route of every link through them."""

    items: list[Item]
    rank: list[int]
    ranks: list[list[int]]
    above: list[list[Joint]]
    below: list[list[Joint]]
    ways: list[list[int]] = field(default_factory=list)  # items on each link, from source to target
    turned: set[int] = field(default_factory=set)  # links against the flow
    labels: dict[int, int] = field(default_factory=dict)  # link -> the dummy with its label
    anchors: dict[int, int] = field(default_factory=dict)  # end of a turned link -> the box next to it
    dummies: int = 0
    _joined: set[tuple[int, int, float, float]] = field(default_factory=set)

    def add_dummy(self, rank: int, width: float, depth: float = 0.0) -> int:
        """Add a dummy to a rank and return its number. Raises ValueError for very many."""
        self.dummies += 1
        if self.dummies > _MOST_DUMMIES:
            raise ValueError("too many long arrows to arrange them")
        self.items.append(Item(width / 2, width / 2, depth, is_dummy=True))
        self.rank.append(rank)
        self.ranks[rank].append(len(self.items) - 1)
        self.above.append([])
        self.below.append([])
        return len(self.items) - 1

    def join(self, upper: int, lower: int, link: Link) -> None:
        """Add a segment between adjacent ranks, unless another link of the bundle has the same."""
        out = (link.leaves or 0.0) if upper == link.source else 0.0
        into = (link.meets or 0.0) if lower == link.target else 0.0
        if (upper, lower, out, into) in self._joined:
            return
        self._joined.add((upper, lower, out, into))
        self.below[upper].append(Joint(lower, into, out))
        self.above[lower].append(Joint(upper, out, into))


# -- routes ---------------------------------------------------------------------------------------------

LANE = 10.0  # width of a passing arrow


def build(items: Sequence[Item], links: Sequence[Link], ranks: Sequence[int], turned: set[int]) -> Ladder:
    """Split the links into segments; the caller draws links from an item to itself."""
    height = max(ranks, default=-1) + 1
    ladder = Ladder(list(items), list(ranks), [[] for _ in range(height)], [], [], turned=turned)
    for item, rank in enumerate(ranks):
        ladder.ranks[rank].append(item)
        ladder.above.append([])
        ladder.below.append([])
    trunks: dict[tuple[int, int, float, int], int] = {}
    for number, link in enumerate(links):
        if link.source == link.target:
            ladder.ways.append([link.source])
        elif number in turned:
            ladder.ways.append(_way_back(ladder, number, link))
        else:
            ladder.ways.append(_way_down(ladder, number, link, trunks))
    return ladder


def _add_dummies(ladder: Ladder, number: int, link: Link, ranks: range) -> list[int]:
    """Add dummies in these ranks; the one in the middle has the label."""
    dummies = []
    for rank in ranks:
        labelled = link.label is not None and rank == ranks[len(ranks) // 2]
        width, depth = link.label if link.label is not None and labelled else (LANE, 0.0)
        dummies.append(ladder.add_dummy(rank, width, depth))
        if labelled:
            ladder.labels[number] = dummies[-1]
    return dummies


def _way_down(
    ladder: Ladder, number: int, link: Link, trunks: dict[tuple[int, int, float, int], int]
) -> list[int]:
    between = range(ladder.rank[link.source] + 1, ladder.rank[link.target])
    if link.bundle < 0:
        way = [link.source, *_add_dummies(ladder, number, link, between), link.target]
    else:  # a shared trunk, which each link leaves before its target
        key = link.source, link.bundle, link.leaves or 0.0
        for rank in between:
            if (*key, rank) not in trunks:
                trunks[*key, rank] = ladder.add_dummy(rank, LANE)
        way = [link.source, *(trunks[*key, rank] for rank in between), link.target]
    for upper, lower in pairwise(way):
        ladder.join(upper, lower, link)
    return way


def _way_back(ladder: Ladder, number: int, link: Link) -> list[int]:
    """Route an arrow against the flow, beside the boxes, from its source up to its target."""
    beside = range(ladder.rank[link.target], ladder.rank[link.source] + 1)
    lane = _add_dummies(ladder, number, link, beside)
    for upper, lower in pairwise(lane):
        ladder.join(upper, lower, link)
    ladder.anchors[lane[0]] = link.target
    ladder.anchors[lane[-1]] = link.source
    return [link.source, *reversed(lane), link.target]


# -- ranks ----------------------------------------------------------------------------------------------


def closing_links(count: int, links: Sequence[Link]) -> set[int]:
    """Return the links that close cycles, found by depth-first search from items without incoming links."""
    leaving: list[list[int]] = [[] for _ in range(count)]
    entered = [0] * count
    for number, link in enumerate(links):
        if link.source != link.target:
            leaving[link.source].append(number)
            entered[link.target] += 1
    starts_loop = [any(links[number].weight for number in leaving[item]) for item in range(count)]
    starts = sorted(range(count), key=lambda item: (entered[item] > 0, not starts_loop[item], item))
    closing: set[int] = set()
    state = [0] * count  # 1 on the path, 2 done
    for start in starts:
        if state[start]:
            continue
        state[start] = 1
        path = [(start, iter(leaving[start]))]
        while path:
            item, numbers = path[-1]
            for number in numbers:
                target = links[number].target
                if state[target] == 1:
                    closing.add(number)
                elif not state[target]:
                    state[target] = 1
                    path.append((target, iter(leaving[target])))
                    break
            else:
                state[item] = 2
                path.pop()
    return closing


def assign_ranks(items: Sequence[Item], links: Sequence[Link], closing: set[int]) -> list[int]:
    """Return the rank of each item: by longest paths, close to its neighbours, pinned items outermost."""
    inner = [item for item in range(len(items)) if not items[item].pinned]
    into: list[list[tuple[int, int]]] = [[] for _ in items]
    out: list[list[tuple[int, int]]] = [[] for _ in items]
    for number, link in enumerate(links):
        ends = items[link.source], items[link.target]
        if number in closing or link.source == link.target or any(end.pinned for end in ends):
            continue
        length = 1 if link.label is None else 2
        into[link.target].append((link.source, length))
        out[link.source].append((link.target, length))
    found = [0] * len(items)
    order = topological(inner, into, out)
    for item in order:
        found[item] = max((found[source] + length for source, length in into[item]), default=0)
    for item in reversed(order):
        if len(out[item]) > len(into[item]):  # move down, towards the majority of links
            found[item] = max(found[item], min(found[target] - length for target, length in out[item]))
    return _with_pinned(items, links, found, inner)


_Weighted = Sequence[tuple[int, float]]  # neighbours, each with the length of the link


def topological(
    items: Sequence[int],
    into: Sequence[_Weighted] | Mapping[int, _Weighted],
    out: Sequence[_Weighted] | Mapping[int, _Weighted],
) -> list[int]:
    """Return the items in topological order."""
    missing = {item: len(into[item]) for item in items}
    order = [item for item in items if not missing[item]]
    for item in order:  # the loop appends to it
        for target, _ in out[item]:
            missing[target] -= 1
            if not missing[target]:
                order.append(target)
    return order


def _with_pinned(
    items: Sequence[Item], links: Sequence[Link], found: list[int], inner: Sequence[int]
) -> list[int]:
    first = min((found[item] for item in inner), default=0)
    has_entries = any(item.pinned == "first" for item in items)
    # The label of an arrow across the border needs its own rank.
    room_in = (
        1 + any(link.label and items[link.source].pinned == "first" for link in links) if has_entries else 0
    )
    room_out = 1 + any(link.label and items[link.target].pinned == "last" for link in links)
    for item in inner:
        found[item] += room_in - first
    last = max((found[item] for item in inner), default=room_in)
    for number, about in enumerate(items):
        if about.pinned:
            found[number] = 0 if about.pinned == "first" else last + room_out
    return found


# -- order ----------------------------------------------------------------------------------------------

_PATIENCE = 4  # sweeps without improvement before giving up
_MOST_SWEEPS = 24
_MOST_SWAPS = 8
_WORK = 100_000  # items that all sweeps together may move
_MANY = 400  # pairs of arrows; swaps of busier boxes are not considered


def order(ladder: Ladder) -> None:
    """Sort the ranks by sweeping down and up, and keep the best order."""
    _initial_order(ladder)
    best, fewest = [list(rank) for rank in ladder.ranks], crossings(ladder)
    patience = _PATIENCE
    effort = max(1, _WORK // max(1, len(ladder.items)))
    for sweep in range(min(_MOST_SWEEPS, effort)):
        if not fewest or not patience:
            break
        _sweep(ladder, down=sweep % 2 == 0)
        found = crossings(ladder)
        patience -= 1
        if found < fewest:
            best, fewest, patience = [list(rank) for rank in ladder.ranks], found, _PATIENCE
    ladder.ranks[:] = best
    for _ in range(min(_MOST_SWAPS, effort // 2) if fewest else 0):
        if not _swap_neighbours(ladder):
            break


def _swap_neighbours(ladder: Ladder) -> bool:
    """Swap neighbours where that reduces crossings; return whether any were swapped."""
    places = positions(ladder)
    swapped = False
    for rank in ladder.ranks:
        for place in range(len(rank) - 1):
            one, other = rank[place], rank[place + 1]
            gain = sum(_gain(joints[one], joints[other], places) for joints in (ladder.above, ladder.below))
            if gain > 0:
                rank[place], rank[place + 1] = other, one
                places[one], places[other] = place + 1, place
                swapped = True
    return swapped


def _gain(left: list[Joint], right: list[Joint], places: list[int]) -> int:
    """Return the reduction of crossings by a swap of left and right."""
    if len(left) * len(right) > _MANY:
        return 0
    ends = [(places[joint.item], joint.there) for joint in left]
    others = [(places[joint.item], joint.there) for joint in right]
    return sum((one > other) - (one < other) for one in ends for other in others)


def crossings(ladder: Ladder) -> int:
    """Count crossings of segments between adjacent ranks."""
    places = positions(ladder)
    total = 0
    for rank in ladder.ranks[:-1]:
        ends = []
        for item in rank:
            joints = sorted(ladder.below[item], key=lambda joint: joint.here)
            for port in _grouped(joints):
                ends.append(sorted((places[joint.item], joint.there) for joint in port))
        total += _inversions(ends)
    return total


def _grouped(joints: list[Joint]) -> list[list[Joint]]:
    """Group segments from the same port, which never cross."""
    groups: list[list[Joint]] = []
    for joint in joints:
        if groups and groups[-1][0].here == joint.here:
            groups[-1].append(joint)
        else:
            groups.append([joint])
    return groups


def _inversions(groups: list[list[tuple[int, float]]]) -> int:
    """Count inversions between groups with a Fenwick tree."""
    known = {end: number for number, end in enumerate(sorted({end for group in groups for end in group}), 1)}
    counts = [0] * (len(known) + 1)
    total = seen = 0
    for group in groups:
        for end in group:
            place, smaller = known[end], 0
            while place:
                smaller += counts[place]
                place &= place - 1
            total += seen - smaller
        for end in group:
            place = known[end]
            while place < len(counts):
                counts[place] += 1
                place += place & -place
        seen += len(group)
    return total


def positions(ladder: Ladder) -> list[int]:
    """Return the index of each item in its rank."""
    places = [0] * len(ladder.items)
    for rank in ladder.ranks:
        for place, item in enumerate(rank):
            places[item] = place
    return places


def _initial_order(ladder: Ladder) -> None:
    """Set the initial order by depth-first search from the top, which keeps connected items together."""
    met: dict[int, None] = {}
    for rank in ladder.ranks:
        for start in rank:
            stack = [start]
            while stack:
                item = stack.pop()
                if item not in met and item not in ladder.anchors:
                    met[item] = None
                    stack.extend(joint.item for joint in reversed(ladder.below[item]))
    place = {item: float(number) for number, item in enumerate(met)}
    for end, box in ladder.anchors.items():
        place[end] = place.get(box, 0.0) + 0.5
    for rank in ladder.ranks:
        rank.sort(key=lambda item: place.get(item, len(place)))


def _sweep(ladder: Ladder, *, down: bool) -> None:
    places = positions(ladder)
    joints = ladder.above if down else ladder.below
    for rank in ladder.ranks[1:] if down else ladder.ranks[-2::-1]:
        wanted = {item: _barycenter(ladder, joints[item], places) for item in rank if joints[item]}
        for item in rank:
            box = ladder.anchors.get(item)
            if item not in wanted and box in wanted:
                wanted[item] = wanted[box] + 1e-3  # next to its box
        free = iter(sorted((item for item in rank if item in wanted), key=wanted.__getitem__))
        rank[:] = [next(free) if item in wanted else item for item in rank]
        for place, item in enumerate(rank):
            places[item] = place


def _barycenter(ladder: Ladder, joints: list[Joint], places: list[int]) -> float:
    total = 0.0
    for joint in joints:
        item = ladder.items[joint.item]
        total += places[joint.item] + joint.there / (item.left + item.right + 1)
    return total / len(joints)
