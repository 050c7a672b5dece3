"""A graph cut into ranks: every segment leads from one rank to the next, as dummies stand where arrows pass.

Items are numbers. The first ones are what the caller has; dummies follow. All coordinates are those of the
flow: x goes across it, y along it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple


@dataclass(slots=True)
class Item:
    """What takes room: a box, a label, or the place where an arrow passes. Left and right are half widths."""

    left: float = 0.0
    right: float = 0.0
    depth: float = 0.0
    pinned: str = ""  # "first" or "last": where arrows come in and go out
    room: float = 0.0  # half of the border that arrows may use; 0 for dummies
    is_dummy: bool = False


class Link(NamedTuple):
    """An arrow between two items; a label has a width across the flow and a depth along it."""

    source: int
    target: int
    label: tuple[float, float] | None = None
    weight: int = 1  # 0: says nothing about where a loop begins
    bundle: int = -1  # links of one bundle leave their source as one; -1 for none
    leaves: float | None = None  # where the link must leave its source, from the middle; None: anywhere
    meets: float | None = None


class Joint(NamedTuple):
    """The other end of a segment, the port there and the port here, both from the middle of the item."""

    item: int
    there: float
    here: float


@dataclass(slots=True)
class Ladder:
    """Items in ranks, and the way that every link takes through them."""

    items: list[Item]
    rank: list[int]
    ranks: list[list[int]]
    above: list[list[Joint]]
    below: list[list[Joint]]
    ways: list[list[int]] = field(default_factory=list)  # per link: from source to target
    turned: set[int] = field(default_factory=set)  # links that go back against the flow
    labels: dict[int, int] = field(default_factory=dict)  # link -> the dummy that bears its label
    anchors: dict[int, int] = field(default_factory=dict)  # the end of a way back -> the box it turns around
    _joined: set[tuple[int, int, float, float]] = field(default_factory=set)

    def add_dummy(self, rank: int, width: float, depth: float = 0.0) -> int:
        """Add a place to pass and return its number."""
        self.items.append(Item(width / 2, width / 2, depth, is_dummy=True))
        self.rank.append(rank)
        self.ranks[rank].append(len(self.items) - 1)
        self.above.append([])
        self.below.append([])
        return len(self.items) - 1

    def join(self, upper: int, lower: int, link: Link) -> None:
        """Add a segment between neighbouring ranks, unless another link of the bundle has."""
        out = (link.leaves or 0.0) if upper == link.source else 0.0
        into = (link.meets or 0.0) if lower == link.target else 0.0
        if (upper, lower, out, into) in self._joined:
            return
        self._joined.add((upper, lower, out, into))
        self.below[upper].append(Joint(lower, into, out))
        self.above[lower].append(Joint(upper, out, into))


LANE = 10.0  # what an arrow needs across, beside boxes


def build(items: Sequence[Item], links: Sequence[Link], ranks: Sequence[int], turned: set[int]) -> Ladder:
    """Cut the links into segments; links from an item to itself are left to the caller."""
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


def _passing(ladder: Ladder, number: int, link: Link, ranks: range) -> list[int]:
    """Add dummies in these ranks; the one in the middle bears the label."""
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
        way = [link.source, *_passing(ladder, number, link, between), link.target]
    else:  # one trunk for the whole bundle, which each link leaves at the rank before its target
        key = link.source, link.bundle, link.leaves or 0.0
        for rank in between:
            if (*key, rank) not in trunks:
                trunks[*key, rank] = ladder.add_dummy(rank, LANE)
        way = [link.source, *(trunks[*key, rank] for rank in between), link.target]
    for upper, lower in pairwise(way):
        ladder.join(upper, lower, link)
    return way


def _way_back(ladder: Ladder, number: int, link: Link) -> list[int]:
    """Lead an arrow beside all ranks from its source up to its target, and around both."""
    beside = range(ladder.rank[link.target], ladder.rank[link.source] + 1)
    lane = _passing(ladder, number, link, beside)
    for upper, lower in pairwise(lane):
        ladder.join(upper, lower, link)
    ladder.anchors[lane[0]] = link.target
    ladder.anchors[lane[-1]] = link.source
    return [link.source, *reversed(lane), link.target]
