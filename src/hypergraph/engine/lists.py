"""Lists that steps append to, in the order of supersteps and, inside of one, of the graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from hypergraph.nodes.options import Replace

Position = tuple[int, int]  # a superstep, and the index of a node


def items_of(result: Any) -> list[Any]:
    """Return the items that a step adds: a list has several, anything else is one."""
    if isinstance(result, Replace):
        return result.items
    return result if isinstance(result, list) else [result]


class Mark(NamedTuple):
    """What one step added to a list."""

    at: Position
    length: int
    anew: bool = False  # whether the list begins here


class Lists:
    """The appended lists of a run: steps may end in any order, their items stand where the steps belong."""

    __slots__ = ("_marks", "_rounds", "anew", "dropped", "unread")

    def __init__(self) -> None:
        self._rounds: dict[int, int | None] = {}  # by step under way: the superstep that it belongs to
        self._marks: dict[str, list[Mark]] = {}
        self.anew: set[str] = set()  # lists that a step has started anew
        self.dropped: dict[
            str, tuple[int, int]
        ] = {}  # by list: a step, and one beside it that dropped its items
        self.unread: frozenset[str] = frozenset()  # stored lists that nothing takes: they are only added to

    def begin(self, index: int, superstep: int | None) -> None:
        """Note the superstep that a step belongs to which starts now, None for one that adds nothing."""
        self._rounds[index] = superstep

    def restore(self, name: str, marks: Iterable[Mark]) -> None:
        """Take over what stored steps have added, in order."""
        self._marks[name] = found = list(marks)
        if any(mark.anew for mark in found):
            self.anew.add(name)

    def withdraw(
        self, values: dict[str, Any], name: str, at: Position, before: Callable[[], list[Any]]
    ) -> list[Any] | Replace:
        """Take away what a step has added, and return it; `before` makes the list that it started anew."""
        marks = self._marks.get(name, [])
        end = len(values.get(name, ()))
        for number in range(len(marks) - 1, -1, -1):
            begin = end - marks[number].length
            if marks[number].at == at:
                anew = marks.pop(number).anew
                items: list[Any] = values[name][begin:end]
                values[name][begin:end] = before() if anew else []
                return Replace(items) if anew else items
            end = begin
        return []

    def rests_since(self, name: str, superstep: int) -> bool:
        """Say whether steps have added to a list, and none after this superstep."""
        return name in self._marks and all(mark.at[0] <= superstep for mark in self._marks[name])

    def added(self, values: Mapping[str, Any], name: str) -> list[Any]:
        """Return what steps have added to a list, without what it began with."""
        length = sum(mark.length for mark in self._marks.get(name, ()))
        known: list[Any] = values.get(name, [])
        return known[len(known) - length :]

    def add(self, values: dict[str, Any], name: str, index: int, result: Any) -> None:
        """Add what a step returned: a list extends, Replace starts anew, anything else is one item."""
        superstep = self._rounds[index]
        if name in self.unread or superstep is None:
            return
        at = (superstep, index)
        marks = self._marks.setdefault(name, [])
        anew = isinstance(result, Replace)
        items = items_of(result)
        known: list[Any] = values.setdefault(name, [])
        number, end = len(marks), len(known)
        while number and marks[number - 1].at > at:  # a step that belongs after this one was faster
            number -= 1
            end -= marks[number].length
        if later := next((mark for mark in marks[number:] if mark.anew), None):
            if later.at[0] == superstep and items and not anew:
                self.dropped[name] = index, later.at[1]
            return  # what it would add to, or start anew, has been replaced since
        if anew:
            self.anew.add(name)
            for mark in marks[:number]:
                if mark.at[0] == superstep and mark.at != at and mark.length and not mark.anew:
                    self.dropped[name] = mark.at[1], index
            values[name] = [*items, *known[end:]]
            marks[:number] = [Mark(at, len(items), anew=True)]
        else:
            known[end:end] = items
            marks.insert(number, Mark(at, len(items)))
