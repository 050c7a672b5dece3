"""Which rank each item gets: arrows lead down, but for those that close a loop."""

from __future__ import annotations

from collections.abc import Sequence

from hypergraph.layout.ladder import Item, Link


def closing_links(count: int, links: Sequence[Link]) -> set[int]:
    """Return the links that go back to where the walk came from, first from items that nothing leads to."""
    leaving: list[list[int]] = [[] for _ in range(count)]
    entered = [0] * count
    for number, link in enumerate(links):
        if link.source != link.target:
            leaving[link.source].append(number)
            entered[link.target] += 1
    starts_loop = [any(links[number].weight for number in leaving[item]) for item in range(count)]
    starts = sorted(range(count), key=lambda item: (entered[item] > 0, not starts_loop[item], item))
    closing: set[int] = set()
    state = [0] * count  # 1 on the way, 2 done
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


def rank(items: Sequence[Item], links: Sequence[Link], closing: set[int]) -> list[int]:
    """Return a rank per item: as near to its neighbours as longest ways allow; pinned ones outermost."""
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
    order = _topological(inner, into, out)
    for item in order:
        found[item] = max((found[source] + length for source, length in into[item]), default=0)
    for item in reversed(order):
        if len(out[item]) > len(into[item]):  # what has more below than above moves down to it
            found[item] = max(found[item], min(found[target] - length for target, length in out[item]))
    return _with_pinned(items, links, found, inner)


def _topological(
    inner: Sequence[int], into: Sequence[Sequence[object]], out: Sequence[Sequence[tuple[int, int]]]
) -> list[int]:
    missing = {item: len(into[item]) for item in inner}
    order = [item for item in inner if not missing[item]]
    for item in order:  # grows while it is read
        for target, _ in out[item]:
            missing[target] -= 1
            if not missing[target]:
                order.append(target)
    return order


def _with_pinned(
    items: Sequence[Item], links: Sequence[Link], found: list[int], inner: Sequence[int]
) -> list[int]:
    first = min((found[item] for item in inner), default=0)
    begins = any(item.pinned == "first" for item in items)
    # A label on the way in or out needs a rank of its own.
    room_in = 1 + any(link.label and items[link.source].pinned == "first" for link in links) if begins else 0
    room_out = 1 + any(link.label and items[link.target].pinned == "last" for link in links)
    for item in inner:
        found[item] += room_in - first
    last = max((found[item] for item in inner), default=room_in)
    for number, about in enumerate(items):
        if about.pinned:
            found[number] = 0 if about.pinned == "first" else last + room_out
    return found
