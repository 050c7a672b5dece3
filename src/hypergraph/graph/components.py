"""Questions about directed graphs of names, answered without recursion and in linear time."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

Links = Mapping[str, Collection[str]]


def walk(starts: Iterable[str], links: Links, without: Collection[str] = ()) -> Iterator[str]:
    """Yield the starts and everything that can be reached from them, not passing through `without`."""
    found = {start: None for start in starts if start not in without}
    yield from found
    stack = list(found)
    while stack:
        for name in links.get(stack.pop(), ()):
            if name not in found and name not in without:
                found[name] = None
                stack.append(name)
                yield name


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
