"""Values: short texts of them, and JSON primitives for anything."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any

from hypergraph.display.text import escape
from hypergraph.exceptions import safe_text

_TOTAL, _OBJECT, _STRING, _ITEMS = 4000, 400, 120, 6
Opened = Callable[[object], object]
_BRACKETS: tuple[tuple[type[Any], str], ...] = (
    (list, "[]"),
    (tuple, "()"),
    (set, "{}"),
    (frozenset, "{}"),
    (deque, "[]"),
)


def _as_it_is(value: object) -> object:
    return value


def bounded(text: str, limit: int = _TOTAL) -> str:
    """Return the text, or its beginning and "..." when it is longer than the limit."""
    return text if len(text) <= limit else text[: limit - 3] + "..."


def preview(value: object, depth: int = 2, opened: Opened = _as_it_is) -> str:
    """Return a short repr: long strings cut, containers by their first items, arrays by their shape.

    `opened` is asked for each value, also inside of containers, what to show in its place.
    """
    try:
        value = opened(value)
        text = _preview(value, depth, opened)
    except Exception as error:  # a value that cannot show itself must not hide the others
        text = f"<{type(value).__name__} whose repr raises {type(error).__name__}>"
    return bounded(escape(text))


def _preview(value: object, depth: int, opened: Opened) -> str:
    if isinstance(value, (str, bytes, bytearray)):
        length = len(value)
        return repr(value) if length <= _STRING else f"{value[:_STRING]!r}... (length {length})"
    if isinstance(value, Mapping):
        return _preview_mapping(value, depth, opened)
    for kind, brackets in _BRACKETS:
        if isinstance(value, kind):
            return _preview_items(value, brackets, depth, opened)
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple) and shape:  # scalars of array libraries have an empty shape
        dtype = getattr(value, "dtype", None)
        kind_of_item = "" if dtype is None else f", dtype={dtype}"
        return f"{type(value).__name__}(shape={tuple(shape)}{kind_of_item})"
    return bounded(repr(value), _OBJECT)


def _preview_mapping(value: Mapping[Any, Any], depth: int, opened: Opened) -> str:
    # Below the last level nothing is asked of the items: that is what ends a recursive structure.
    pairs = islice(value.items(), _ITEMS) if depth else ()
    shown = [f"{preview(key, depth - 1, opened)}: {preview(item, depth - 1, opened)}" for key, item in pairs]
    return _enclose(value, "{}", shown, "keys")


def _preview_items(value: Any, brackets: str, depth: int, opened: Opened) -> str:
    shown = [preview(item, depth - 1, opened) for item in islice(value, _ITEMS if depth else 0)]
    return _enclose(value, brackets, shown, "items")


def _enclose(value: Any, brackets: str, shown: list[str], noun: str) -> str:
    length = len(value)
    if length > len(shown):
        shown = [*shown, f"... ({length} {noun})"] if shown else ["..."]
    elif length == 1 and brackets == "()":
        shown = [shown[0] + ","]
    text = ", ".join(shown).join(brackets)
    plain = type(value) in (list, tuple, dict) or (type(value) is set and length)
    return text if plain else f"{type(value).__name__}({text if length else ''})"


def jsonable(value: object, depth: int = 8) -> Any:
    """Return JSON primitives for anything: what JSON cannot hold becomes its text.

    That includes NaN, infinities, integers beyond 64 bits and lone surrogates, so the outcome
    can be dumped with `allow_nan=False` and encoded as UTF-8.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int) and value.bit_length() <= 64:
        return int(value)
    if isinstance(value, float) and math.isfinite(value):
        return float(value)
    if isinstance(value, dict) and depth:
        return {_encodable(key): jsonable(item, depth - 1) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)) and depth:
        return [jsonable(item, depth - 1) for item in value]
    return _encodable(value)


def _encodable(value: object) -> str:
    text = value if isinstance(value, str) else safe_text(value)
    return str.encode(text, "utf-8", "backslashreplace").decode()
