"""In which order the items of a rank stand: few arrows cross each other."""

from __future__ import annotations

from hypergraph.layout.ladder import Joint, Ladder

_PATIENCE = 4  # sweeps without an improvement
_MOST_SWEEPS = 24
_MOST_SWAPS = 8
_MANY = 400  # pairs of arrows: of two busy boxes not all are compared


def order(ladder: Ladder) -> None:
    """Sort every rank by sweeping down and up; the best order seen stays."""
    _begin(ladder)
    best, fewest = [list(rank) for rank in ladder.ranks], crossings(ladder)
    patience = _PATIENCE
    for sweep in range(_MOST_SWEEPS):
        if not fewest or not patience:
            break
        _sweep(ladder, down=sweep % 2 == 0)
        found = crossings(ladder)
        patience -= 1
        if found < fewest:
            best, fewest, patience = [list(rank) for rank in ladder.ranks], found, _PATIENCE
    ladder.ranks[:] = best
    for _ in range(_MOST_SWAPS if fewest else 0):
        if not _swap_neighbours(ladder):
            break


def _swap_neighbours(ladder: Ladder) -> bool:
    """Swap neighbours in a rank where their arrows then cross less; say whether there were such."""
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
    """Return how many crossings fewer there would be if left and right were swapped."""
    if len(left) * len(right) > _MANY:
        return 0
    ends = [(places[joint.item], joint.there) for joint in left]
    others = [(places[joint.item], joint.there) for joint in right]
    return sum((one > other) - (one < other) for one in ends for other in others)


def crossings(ladder: Ladder) -> int:
    """Count how often segments between neighbouring ranks cross."""
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
    """Group segments that leave from the same port: those never cross."""
    groups: list[list[Joint]] = []
    for joint in joints:
        if groups and groups[-1][0].here == joint.here:
            groups[-1].append(joint)
        else:
            groups.append([joint])
    return groups


def _inversions(groups: list[list[tuple[int, float]]]) -> int:
    """Count pairs in the wrong order with a tree of counts."""
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
    """Return the place of each item in its rank."""
    places = [0] * len(ladder.items)
    for rank in ladder.ranks:
        for place, item in enumerate(rank):
            places[item] = place
    return places


def _begin(ladder: Ladder) -> None:
    """Order the ranks as a walk from the top meets their items: what belongs together stands together."""
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
        wanted = {item: _middle(ladder, joints[item], places) for item in rank if joints[item]}
        for item in rank:
            box = ladder.anchors.get(item)
            if item not in wanted and box in wanted:
                wanted[item] = wanted[box] + 1e-3  # beside the box that the arrow turns around
        free = iter(sorted((item for item in rank if item in wanted), key=wanted.__getitem__))
        rank[:] = [next(free) if item in wanted else item for item in rank]
        for place, item in enumerate(rank):
            places[item] = place


def _middle(ladder: Ladder, joints: list[Joint], places: list[int]) -> float:
    total = 0.0
    for joint in joints:
        item = ladder.items[joint.item]
        total += places[joint.item] + joint.there / (item.left + item.right + 1)
    return total / len(joints)
