"""One value as people and programs can look at it: its type and size first, its content in bounded parts.

A path is a JSON pointer (RFC 6901), as in `/docs/0/title`: keys of mappings, indexes of sequences and rows of
tables, fields of objects. What cannot be read here says why, and shows what is readable nevertheless.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import Any, TypedDict

from hypergraph.display import bounded, closest, jsonable, preview
from hypergraph.values.undecodable import Undecodable
from hypergraph.views.problems import NOT_FOUND, USAGE, Problem
from hypergraph.views.structures import content_of, type_name

ITEMS = 100  # of a container on one page, unless more are asked for
CHARACTERS = 20_000  # of a value in one answer
TEXT = 200  # characters of a value in a line
_LISTED = 10  # keys that an error lists
_DEEPEST = 120  # levels; stores refuse deeper values


class Part(TypedDict):
    """One item of a container, as a line of a list."""

    key: str
    path: str
    type: str
    size: int | None
    text: str


class ValueView(TypedDict):
    """One value, or one part of it."""

    schema: str  # hypergraph.value/1
    type: str
    size: int | None  # characters, bytes or items; None for what has no length
    path: str  # "" for the whole value
    value: Any  # JSON primitives, from `offset` on
    text: str  # a short repr
    truncated: bool  # `value` is not all there is
    problem: str | None  # why it cannot be read, or not as what it was
    items: list[Part]  # what is inside, one page of it
    offset: int
    next_offset: int | None  # where the next page begins


def describe(
    value: Any,
    *,
    path: str = "",
    offset: int = 0,
    limit: int | None = ITEMS,
    characters: int | None = CHARACTERS,
) -> ValueView:
    """Return what a value, or the part of it at a path, looks like.

    Containers are paged by items, texts and bytes by characters; None for both limits gives all there is.

    Raises:
        Problem: nothing is at that path; the error says what is.
    """
    part = _part_at(value, path)
    found, problem = _opened(part)
    content, room, items = content_of(found), _Room(characters), []
    if content is None:
        size = len(found) if isinstance(found, str | bytes | bytearray) else None
        shown, end = _slice(found, offset, characters)
    else:
        size = content.size
        end = size if limit is None else min(size, offset + limit)
        pairs = list(islice(content.pairs(), offset, end))
        items = [_part(path, key, item) for key, item in pairs[:ITEMS]]
        shown = room.filled(pairs, content.named, _DEEPEST)
        end = offset + len(shown)
    more = size is not None and end < size
    return {
        "schema": "hypergraph.value/1",
        "type": kind_of(part),
        "size": size,
        "path": path,
        "value": shown,
        "text": short_text(found),
        "truncated": room.is_cut or more or offset > 0,
        "problem": problem,
        "items": items,
        "offset": offset,
        "next_offset": end if more else None,
    }


def kind_of(value: Any) -> str:
    """Return the type of a value; of an object whose class is unknown here the name of that."""
    if isinstance(value, Undecodable) and value.of is not None:
        return str(jsonable(re.split("[.:]", value.of)[-1]))
    return str(jsonable(type_name(_opened(value)[0])))


def short_text(value: Any) -> str:
    """Return a value in at most a line, escaped; objects of unknown classes by their fields."""
    return bounded(preview(value, opened=_readable), TEXT)


def size_of(value: Any) -> int | None:
    """Return the number of characters, bytes or items, None for what has no length."""
    content = content_of(value)
    if content is not None:
        return content.size
    return len(value) if isinstance(value, str | bytes | bytearray) else None


def part_at(value: Any, path: str) -> Any:
    """Return the part of a value that a JSON pointer means.

    Raises:
        Problem: nothing is at that path.
    """
    return _opened(_part_at(value, path))[0]


def steps_of(path: str) -> list[str]:
    """Return the keys and indexes that a path names one after another; raises Problem for what is none."""
    if path and not path.startswith("/"):
        raise Problem(USAGE, f"The path {path!r} must begin with a slash", "Write it like /docs/0/title")
    return [token.replace("~1", "/").replace("~0", "~") for token in path.split("/")[1:]]


def _part_at(value: Any, path: str) -> Any:
    for depth, token in enumerate(steps_of(path)):
        value, _ = _opened(value)
        content = content_of(value)
        try:
            if content is None:
                raise KeyError(token)
            value = content.at(token)
        except LookupError:
            raise _nothing_at(path, value, "/".join(path.split("/")[: depth + 1]), token) from None
    return value


def _nothing_at(path: str, value: Any, there: str, token: str) -> Problem:
    content, where = content_of(value), there or "the value itself"
    message = f"Nothing is at {path}"
    if content is None:
        return Problem(NOT_FOUND, message, f"{where} is {short_text(value)}, which has no parts")
    if not content.named:
        last = f"0 to {content.size - 1}" if content.size else "none"
        return Problem(NOT_FOUND, message, f"{where} is a {type_name(value)}; its indexes: {last}")
    keys = [str(key) for key, _ in islice(content.pairs(), 1000)]
    close = closest(token, keys)
    matches = [pointer(there, key) for key in ([close] if close else keys[:_LISTED])]
    return Problem(NOT_FOUND, message, f"{where} is a {type_name(value)} with {content.size} keys", matches)


def pointer(path: str, key: object) -> str:
    """Return the path of what is under a key of what is at a path."""
    return f"{path}/{re.sub('/', '~1', re.sub('~', '~0', str(key)))}"


def _opened(value: Any) -> tuple[Any, str | None]:
    """Return what can be read of a value, and why it is not what was stored."""
    if not isinstance(value, Undecodable):
        return value, None
    inner, _ = _opened(value.data)
    return inner, jsonable(value.reason)


def _readable(value: object) -> object:
    return value if isinstance(value, Undecodable) and value.data is None else _opened(value)[0]


def _part(path: str, key: object, item: Any) -> Part:
    found, _ = _opened(item)
    return {
        "key": jsonable(str(key)),
        "path": jsonable(pointer(path, key)),
        "type": kind_of(item),
        "size": size_of(found),
        "text": short_text(found),
    }


def _slice(value: Any, offset: int, characters: int | None) -> tuple[Any, int]:
    """Return a page of a text, or all of anything else, and where it ends."""
    if not isinstance(value, str | bytes | bytearray):
        return jsonable(value), 0
    end = len(value) if characters is None else min(len(value), offset + characters)
    return jsonable(value[offset:end]), end


class _Room:
    """Turn values into JSON primitives until there is no room left."""

    def __init__(self, characters: int | None) -> None:
        self.left = float("inf") if characters is None else characters
        self.is_cut = False

    def filled(self, pairs: list[tuple[Any, Any]], named: bool, depth: int) -> Any:
        kept = []
        for key, item in pairs:
            if self.left <= 0:
                self.is_cut = True
                break
            name = jsonable(str(key))
            self.left -= len(name) + 4 if named else 2
            kept.append((name, self._fitted(item, depth)))
        return dict(kept) if named else [item for _, item in kept]

    def _fitted(self, value: Any, depth: int) -> Any:
        value, _ = _opened(value)
        content = content_of(value) if depth else None
        if content is not None:
            most = content.size if self.left == float("inf") else int(max(self.left, 0)) // 2 + 1
            pairs = list(islice(content.pairs(), most))
            self.is_cut |= len(pairs) < content.size
            return self.filled(pairs, content.named, depth - 1)
        found = jsonable(value, 0)
        length = len(found) if isinstance(found, str) else len(str(found))
        if isinstance(found, str) and length > self.left:
            self.is_cut = True
            found = found[: int(max(self.left, 0))]
        self.left -= length
        return found
