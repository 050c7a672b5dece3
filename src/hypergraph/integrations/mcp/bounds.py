"""Bounds of answers: documents shortened to a size that fits into the context of an agent."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any, NamedTuple

from hypergraph.display import escape, jsonable
from hypergraph.views.problems import USAGE, Problem

LIMIT = 20_000  # characters of JSON
PAGED = ("items", "value")  # the fields that the cursor of a page counts

Document = dict[str, Any]
Ask = Callable[[int], Mapping[str, Any]]

_NAMED = 10  # places listed under `cut`
_DEPTH = 60  # levels; a chain of forks can be of any length
_KEYS = 40  # keys that every mapping keeps: no answer has as many fields
_HIDDEN = re.compile("[\U000e0000-\U000e01ef]")  # tags and selectors: invisible text
_NO_LIMIT = 10**9


class _Level(NamedTuple):
    texts: int
    items: int


_LEVELS = [_Level(*level) for level in ((4000, 200), (2000, 100), (1000, 50), (400, 20), (150, 10), (60, 3))]


def fitted(ask: Ask, page: int, rest: str) -> Document:
    """Return an answer within the limit: with at most `page` items, fewer if they are long.

    `rest` says how to get the parts that were cut.
    """
    while True:
        document = ask(page)
        whole = _Cutter(_Level(_NO_LIMIT, _NO_LIMIT), ()).cut(document)
        items = sum(_size(whole[name]) for name in PAGED if name in whole)
        room = LIMIT - min(_size(whole) - items, LIMIT // 2)
        if page <= 1 or items <= room:
            break
        page = max(1, min(page - 1, page * room // items))
    return whole if _size(whole) <= LIMIT else _shortened(document, rest)


def page_of(document: Mapping[str, Any], limit: int, cursor: str | None) -> Document:
    """Return one page of an answer that holds all its items.

    Raises:
        Problem: the cursor is not a `next_cursor`.
    """
    if cursor is not None and not re.fullmatch(r"\d{1,9}", cursor):
        raise Problem(USAGE, f"Invalid cursor: {cursor!r}", "Pass the next_cursor of the page before")
    items, begin = document["items"], int(cursor or 0)
    end = begin + limit
    more = str(end) if end < len(items) else None
    return {**document, "items": items[begin:end], "total": len(items), "next_cursor": more}


def _shortened(document: Mapping[str, Any], rest: str) -> Document:
    is_page = document.get("next_cursor") is not None or document.get("next_offset") is not None
    for level in _LEVELS:
        cutter = _Cutter(level, ("", PAGED[0]) if is_page else ())
        short: Document = {**cutter.cut(document), "cut": {"places": cutter.named(), "rest": rest}}
        if _size(short) <= LIMIT:
            return short
    plain = {key: value for key, value in short.items() if not isinstance(value, list | dict)}
    return {**plain, "cut": {"places": [{"path": "", "kept": len(plain), "of": len(document)}], "rest": rest}}


def readable(text: str) -> str:
    """Return a text with control characters escaped, except for line ends and tabs."""
    if text.isascii() and text.isprintable():
        return text
    parts = re.split(r"([\n\t])", text)
    shown = "".join(part if part in ("\n", "\t") else escape(part) for part in parts)
    return _HIDDEN.sub(lambda found: found[0].encode("unicode_escape").decode(), shown)


def _size(document: Any) -> int:
    return len(json.dumps(document, ensure_ascii=False, allow_nan=False))


class _Cutter:
    """A copy of a document with texts, lists and mappings cut to one level, and the places that were cut.

    `kept` is the path of the one list that keeps all its items.
    """

    def __init__(self, level: _Level, kept: tuple[str, ...]) -> None:
        self.level = level
        self.kept = kept
        self.places: list[dict[str, Any]] = []

    def cut(self, document: Mapping[str, Any]) -> Document:
        """Return the copy of a document."""
        copy: Document = self._of(document, ("",))
        return copy

    def named(self) -> list[dict[str, Any]]:
        """Return the first places that were cut: the size that was kept, and the size before."""
        return self.places[:_NAMED]

    def _of(self, value: Any, path: tuple[str, ...]) -> Any:
        if isinstance(value, str):
            return self._text(value, path)
        if not isinstance(value, dict | list | tuple):
            return jsonable(value)
        if len(path) > _DEPTH:
            self._remember(path, 0, len(value))
            return None
        if isinstance(value, dict):
            most = max(self.level.items, _KEYS)
            self._check(path, len(value), most)
            return self._mapping(value, most, path)
        most = _NO_LIMIT if path == self.kept else self.level.items
        self._check(path, len(value), most)
        return [self._of(item, (*path, str(place))) for place, item in enumerate(value[:most])]

    def _mapping(self, value: dict[str, Any], most: int, path: tuple[str, ...]) -> Document:
        copy: Document = {}
        for key, item in islice(value.items(), most):
            name = self._key(key)
            if name in copy:  # keys that differ only in a part that was cut or escaped
                name = f"{name} ({len(copy)})"
            copy[name] = self._of(item, (*path, key))
        return copy

    def _text(self, text: str, path: tuple[str, ...]) -> str:
        if len(text) <= self.level.texts:
            return readable(text)
        self._remember(path, self.level.texts, len(text))
        return readable(text[: self.level.texts]) + "…"

    def _key(self, key: str) -> str:
        return readable(key) if len(key) <= self.level.texts else readable(key[: self.level.texts]) + "…"

    def _check(self, path: tuple[str, ...], size: int, most: int) -> None:
        if size > most:
            self._remember(path, most, size)

    def _remember(self, path: tuple[str, ...], kept: int, size: int) -> None:
        if len(self.places) < _NAMED:
            text = "/".join(part.replace("~", "~0").replace("/", "~1")[:60] for part in path)
            self.places.append({"path": readable(text), "kept": kept, "of": size})
