"""Questions about directed graphs of names, answered without recursion and in linear time."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

Links = Mapping[str, Collection[str]]


def reachable(starts: Iterable[str], links: Links, without: Collection[str] = ()) -> set[str]:
    """Return the starts and everything that can be reached from them, not passing through `without`."""
    found = {start for start in starts if start not in without}
    stack = list(found)
    while stack:
        for successor in links.get(stack.pop(), ()):
            if successor not in found and successor not in without:
                found.add(successor)
                stack.append(successor)
    return found


def strong_components(names: Iterable[str], links: Links) -> list[list[str]]:
    """Return the strongly connected components, each after all components it leads to."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    open_path: dict[str, None] = {}
    components: list[list[str]] = []
    for root in names:
        if root in index:
            continue
        index[root] = low[root] = len(index)
        open_path[root] = None
        work: list[tuple[str, Iterator[str]]] = [(root, iter(links.get(root, ())))]
        while work:
            name, successors = work[-1]
            for successor in successors:
                if successor not in index:
                    index[successor] = low[successor] = len(index)
                    open_path[successor] = None
                    work.append((successor, iter(links.get(successor, ()))))
                    break
                if successor in open_path:
                    low[name] = min(low[name], index[successor])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[name])
                if low[name] == index[name]:
                    components.append(_close(name, open_path))
    return components


def _close(root: str, open_path: dict[str, None]) -> list[str]:
    component = []
    while True:
        name, _ = open_path.popitem()
        component.append(name)
        if name == root:
            return component[::-1]


def cyclic_components(names: Iterable[str], links: Links) -> list[list[str]]:
    """Return the components that contain a cycle: several names, or one that leads to itself."""
    return [c for c in strong_components(names, links) if len(c) > 1 or c[0] in links.get(c[0], ())]


class Reach:
    """Answer "does a path lead from a to b?" in constant time, for all pairs."""

    def __init__(self, names: Sequence[str], links: Links) -> None:
        self._bit = {name: 1 << position for position, name in enumerate(names)}
        self._reach: dict[str, int] = {}
        for component in strong_components(names, links):
            mask = 0
            for name in component:
                for successor in links.get(name, ()):
                    # successors in this very component have no mask yet: they are covered by the bits
                    mask |= self._bit[successor] | self._reach.get(successor, 0)
            for name in component:
                self._reach[name] = mask

    def leads(self, source: str, target: str) -> bool:
        """Say whether a path of at least one edge leads from source to target."""
        return bool(self._reach[source] & self._bit[target])
