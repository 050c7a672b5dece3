"""Values as trees that a page can unfold: types, sizes and texts, each value once, within bounds."""

from __future__ import annotations

from itertools import islice
from typing import Any

import msgspec

from hypergraph.display import jsonable
from hypergraph.views.structures import content_of
from hypergraph.views.values import describe, part_at, short_text

_ROOM = 10_000_000  # bytes of all trees
_MISSES = 20  # values that found no room, after which no other is tried
_PARTS, _CHARACTERS = 1_000, 20_000  # of one value
_DEEPEST = 60
_LEAVES = {int, float, bool, type(None)}

Tree = dict[str, Any]
_encode = msgspec.json.Encoder().encode


class Trees:
    """All values of one document. What is empty is left out of a tree.

    t: type; n: size; s: a short text; p: why it is not what was stored; v: a text, number or the like;
    k: pairs of key and tree; d: keys are names; m: there is more than is told.
    """

    def __init__(self) -> None:
        self.found: list[Tree] = []
        self.left_out = 0
        self._places: dict[bytes, int] = {}
        self._room, self._misses = _ROOM, 0

    @property
    def is_full(self) -> bool:
        """Whether there is no use in trying another value."""
        return self._misses >= _MISSES

    def place_of(self, value: object) -> int | None:
        """Return the place of a value among `found`, None where there is no room for it."""
        if self.is_full:
            self.left_out += 1
            return None
        tree = _Planting().tree(value)
        encoded = _encode(tree)
        if encoded in self._places:
            return self._places[encoded]
        if len(encoded) > self._room:
            self.left_out += 1
            self._misses += 1
            return None
        self._room -= len(encoded)
        self._places[encoded] = len(self.found)
        self.found.append(tree)
        return self._places[encoded]


class _Planting:
    """One value becoming a tree, until there is no room left."""

    def __init__(self) -> None:
        self._parts, self._characters = _PARTS, _CHARACTERS

    def tree(self, value: object, depth: int = 0) -> Tree:
        self._parts -= 1
        if type(value) in _LEAVES:
            return {"t": type(value).__name__, "s": short_text(value), "v": jsonable(value)}
        seen = describe(value, limit=0, characters=max(0, self._characters))
        tree: Tree = {"t": seen["type"], "s": seen["text"]}
        if seen["size"] is not None:
            tree["n"] = seen["size"]
        if seen["problem"] is not None:
            tree["p"] = seen["problem"]
        content = content_of(part_at(value, ""))
        if content is None:
            tree["v"] = seen["value"]
            self._characters -= len(str(seen["value"]))
            if seen["truncated"]:
                tree["m"] = 1
            return tree
        return {**tree, **self._inside(content, depth)}

    def _inside(self, content: Any, depth: int) -> Tree:
        inside: list[tuple[str, Tree]] = []
        if depth < _DEEPEST:
            for key, item in islice(content.pairs(), max(0, self._parts)):
                if self._parts <= 0 or self._characters <= 0:
                    break
                inside.append((jsonable(str(key)), self.tree(item, depth + 1)))
        found: Tree = {"k": inside}
        if content.named:
            found["d"] = 1
        if len(inside) < content.size:
            found["m"] = 1
        return found
