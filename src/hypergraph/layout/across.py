"""Where items stand across the flow: long arrows straight, boxes over the middle of what they lead to.

After Brandes and Köpf: items are aligned with the middle of their neighbours in four ways (from above or
below, leaning left or right), each way is compacted, and every item gets the mean of the two middle places.
As each way keeps the distances, so does that mean.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from hypergraph.layout.ladder import Joint, Ladder
from hypergraph.layout.ordering import positions

GAP = 26.0  # between boxes
_NARROW = 12.0  # beside a dummy

Pair = tuple[int, int]


@dataclass(slots=True)
class _View:
    """The ladder as one of the four ways sees it: ranks in the order of the walk, mirrored or not."""

    ranks: list[list[int]]
    joints: list[list[Joint]]
    left: list[float]
    right: list[float]
    places: list[int]
    sign: int
    crossed: set[Pair]


def place_across(ladder: Ladder) -> list[float]:
    """Return the x of the middle of each item."""
    crossed = _crossed_by_straight(ladder)
    found = [
        _one_way(ladder, crossed, down=down, mirrored=mirrored)
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
    """Return the segments that cross one between two dummies: those must not bend the long arrow."""
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


def _one_way(ladder: Ladder, crossed: set[Pair], *, down: bool, mirrored: bool) -> list[float]:
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
    """Chain each item to the middle one of its neighbours; return the head of each chain, and the offset."""
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
    """Push the chains together: first all to the left, then each to the right as far as it finds room."""
    after: dict[int, list[tuple[int, float]]] = {}
    before: dict[int, list[tuple[int, float]]] = {}
    for rank in view.ranks:
        for one, other in pairwise(rank):
            narrow = ladder.items[one].is_dummy or ladder.items[other].is_dummy
            distance = view.right[one] + (_NARROW if narrow else GAP) + view.left[other]
            distance += shift[one] - shift[other]
            after.setdefault(root[one], []).append((root[other], distance))
            before.setdefault(root[other], []).append((root[one], distance))
    order = _in_order(set(root), after, before)
    x: dict[int, float] = {}
    for chain in order:
        x[chain] = max((x[other] + distance for other, distance in before.get(chain, ())), default=0.0)
    for chain in reversed(order):
        if chain in after:
            x[chain] = max(x[chain], min(x[other] - distance for other, distance in after[chain]))
    return [x[head] + offset for head, offset in zip(root, shift, strict=True)]


def _in_order(
    chains: set[int], after: dict[int, list[tuple[int, float]]], before: dict[int, list[tuple[int, float]]]
) -> list[int]:
    missing = {chain: len(before.get(chain, ())) for chain in chains}
    order = sorted(chain for chain in chains if not missing[chain])
    for chain in order:  # grows while it is read
        for other, _ in after.get(chain, ()):
            missing[other] -= 1
            if not missing[other]:
                order.append(other)
    return order
