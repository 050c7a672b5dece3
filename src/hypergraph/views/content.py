"""Values as a viewer shows them, in pages: images, tables, arrays, bytes, conversations, tracebacks, text."""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, TypedDict

from hypergraph.checkpointers import Checkpointer
from hypergraph.display import bounded, jsonable, preview
from hypergraph.views.problems import USAGE, Problem
from hypergraph.views.state import raw_value, state_additions
from hypergraph.views.step import raw_step_value, step_additions
from hypergraph.views.values import content_of, describe, kind_of, maker_of, part_at, short_text

ROWS = 1000  # of a table that can be sorted and paged through
_PAGE = 100  # rows, messages or lines in one answer
_BYTES = 16  # in a line
_CELL = 120  # characters of a cell
_TEXT = 100_000  # characters of a text in one answer
_MESSAGE = 20_000  # characters of a message
_IMAGE = 4_000_000  # bytes
_STRIP = 240  # cells of the strip of an array
_COLUMNS = 200
_MAGIC = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}


class ContentView(TypedDict):
    """One value, or one part of it, in the form that suits it."""

    schema: str  # hypergraph.content/1
    form: str  # image, table, array, bytes, chat, traceback, text or tree
    type: str
    size: int | None  # characters, bytes or items
    path: str
    problem: str | None  # why it cannot be read, or not as its own type
    offset: int
    next_offset: int | None  # where the next page begins
    data: dict[str, Any]  # what the form needs; empty for a tree


def content(
    store: Checkpointer,
    wf: str,
    key: str,
    *,
    at: int | None = None,
    step: int | None = None,
    side: str | None = None,
    path: str = "",
    offset: int = 0,
    sort: str | None = None,
) -> ContentView:
    """Return a value of the state or of a step in the form that suits it, one page of it.

    `sort` is the name of a column with "-up" or "-down"; the first 1,000 rows of a table are sorted.

    Raises:
        Problem: the value or the part does not exist, or `sort` is invalid.
    """
    if step is None:
        value = raw_value(store, wf, key, at=at)
    else:
        value = raw_step_value(store, wf, step, key, side=side or "output")
    seen = describe(value, path=path, offset=offset, limit=0, characters=0)
    found = part_at(value, path)
    form, data, end = _shown(found, offset, sort)
    if form == "chat" and not path:
        if step is None:
            added = state_additions(store, wf, key, at=at)
        else:
            added = step_additions(store, wf, step, key, value, side=side or "output")
        for message, item in zip(data["messages"], added[offset:], strict=False):
            message["by"] = maker_of(item)
    return {
        "schema": "hypergraph.content/1",
        "form": form,
        "type": seen["type"],
        "size": seen["size"],
        "path": path,
        "problem": seen["problem"],
        "offset": offset,
        "next_offset": end,
        "data": data,
    }


Shown = tuple[str, dict[str, Any], int | None]


def _shown(value: Any, offset: int, sort: str | None) -> Shown:
    if isinstance(value, str):
        return _text(value, offset)
    if isinstance(value, bytes | bytearray):
        return _image(bytes(value)) or _hex(bytes(value), offset)
    for look in (_frame, _chat, _records):
        found = look(value, offset, sort)
        if found is not None:
            return found
    return _array(value) or ("tree", {}, None)


def _text(value: str, offset: int) -> Shown:
    end = offset + _TEXT
    form = "traceback" if value.lstrip().startswith("Traceback (most recent call last)") else "text"
    return form, {"text": jsonable(value[offset:end])}, end if end < len(value) else None


def _image(value: bytes) -> Shown | None:
    kind = next((kind for magic, kind in _MAGIC.items() if value.startswith(magic)), None)
    if kind is None and value[:4] == b"RIFF" and value[8:12] == b"WEBP":
        kind = "image/webp"
    if kind is None or len(value) > _IMAGE:
        return None
    return "image", {"type": kind, "base64": base64.b64encode(value).decode()}, None


def _hex(value: bytes, offset: int) -> Shown:
    begin = offset - offset % _BYTES
    end = begin + _PAGE * _BYTES
    lines = []
    for place in range(begin, min(end, len(value)), _BYTES):
        part = value[place : place + _BYTES]
        readable = "".join(chr(byte) if 32 <= byte < 127 else "·" for byte in part)
        lines.append([place, part.hex(" "), readable])
    return "bytes", {"lines": lines}, end if end < len(value) else None


def _frame(value: Any, offset: int, sort: str | None) -> Shown | None:
    """Return a page of a data frame of any library."""
    names, rows = getattr(value, "columns", None), content_of(value)
    types = getattr(value, "dtypes", None)
    if names is None or rows is None or rows.named or isinstance(value, Mapping):
        return None
    columns = [str(name) for name in names][:_COLUMNS]
    kinds = [str(kind) for kind in (types.values() if isinstance(types, Mapping) else _listed(types))]
    heads = [
        {"name": jsonable(name), "type": kinds[place] if place < len(kinds) else ""}
        for place, name in enumerate(columns)
    ]
    first = [list(row.values()) for _, row in islice(rows.pairs(), ROWS)]
    return _table(heads, first, rows.size, offset, sort)


def _listed(types: Any) -> list[Any]:
    try:
        return list(types)
    except TypeError:
        return []


def _records(value: Any, offset: int, sort: str | None) -> Shown | None:
    """Return a page of a list of mappings with the same keys."""
    rows = content_of(value)
    if rows is None or rows.named or rows.size < 2 or getattr(value, "shape", None) is not None:
        return None
    first = [part_at(item, "") for _, item in islice(rows.pairs(), ROWS)]
    if not all(isinstance(item, Mapping) and item for item in first):
        return None
    names = list(dict.fromkeys(key for item in first for key in item))
    if len(names) > _COLUMNS or not any(list(item) == list(first[0]) for item in first[1:]):
        return None
    kinds = {name: {kind_of(item[name]) for item in first if name in item} for name in names}
    heads = [{"name": jsonable(str(name)), "type": " | ".join(sorted(kinds[name]))} for name in names]
    return _table(heads, [[item.get(name) for name in names] for item in first], rows.size, offset, sort)


def _table(heads: list[dict[str, Any]], rows: list[Any], size: int, offset: int, sort: str | None) -> Shown:
    numbered = list(enumerate(rows))
    if sort:
        name, _, way = sort.rpartition("-")
        places = [place for place, head in enumerate(heads) if head["name"] == name]
        if not places or way not in ("up", "down"):
            raise Problem(USAGE, f"Invalid sort {sort!r}: expected a column with -up or -down")
        numbered.sort(key=lambda row: _rank(row[1][places[0]]), reverse=way == "down")
    page = [[number, *map(_cell, row)] for number, row in numbered[offset : offset + _PAGE]]
    end = offset + len(page)
    data = {"columns": heads, "rows": page, "total": size, "reachable": len(rows)}
    return "table", data, end if end < len(rows) else None


def _rank(value: Any) -> tuple[int, Any]:
    """Return what a cell is sorted by: numbers before texts, and nothing last."""
    if isinstance(value, bool | int | float) and not (isinstance(value, float) and math.isnan(value)):
        return 0, value
    return (2, "") if value is None else (1, short_text(value))


def _cell(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float):
        return jsonable(value)
    return bounded(jsonable(value) if isinstance(value, str) else short_text(value), _CELL)


def _chat(value: Any, offset: int, _: str | None) -> Shown | None:
    """Return a page of messages: mappings or objects with a role and a content."""
    rows = content_of(value)
    if rows is None or rows.named or not rows.size or not isinstance(value, list | tuple):
        return None
    some = [_message(item) for _, item in islice(rows.pairs(), 3)]
    if None in some:
        return None
    page = [_message(item) for _, item in islice(rows.pairs(), offset, offset + _PAGE)]
    end = offset + len(page)
    shown = [found or {"role": "", "text": "", "calls": [], "by": None} for found in page]
    return "chat", {"messages": shown}, end if end < rows.size else None


def _message(item: Any) -> dict[str, Any] | None:
    parts = content_of(part_at(item, ""))
    if parts is None or not parts.named:
        return None
    found = {str(key): part for key, part in islice(parts.pairs(), 50)}
    role = part_at(found.get("role") or found.get("type"), "")
    if not isinstance(role, str) or not {"content", "text", "tool_calls"} & found.keys():
        return None
    text = "\n".join(_said(part_at(found.get("content", found.get("text")), "")))
    calls = [_call(call) for call in _items(found.get("tool_calls") or ())]
    calls += [_call(part) for part in _items(found.get("content")) if _is_call(part)]
    name = found.get("name")
    return {
        "role": jsonable(role),
        "name": jsonable(name) if isinstance(name, str) else None,
        "text": jsonable(bounded(text, _MESSAGE)),
        "calls": calls[:50],
        "by": None,  # the step that added it to a list
    }


def _items(value: Any) -> Sequence[Any]:
    value = part_at(value, "")
    return value if isinstance(value, list | tuple) else ()


def _fields(value: Any) -> dict[str, Any]:
    parts = content_of(part_at(value, ""))
    named = parts is not None and parts.named
    return {str(key): part for key, part in islice(parts.pairs(), 50)} if parts is not None and named else {}


def _is_call(part: Any) -> bool:
    return _fields(part).get("type") in ("tool_use", "tool_call", "function_call")


def _said(value: Any) -> Iterator[str]:
    """Yield the texts of a content, which may be a list of blocks."""
    if isinstance(value, str):
        yield value
    elif value is not None and not isinstance(value, list | tuple):
        yield short_text(value)
    for part in _items(value):
        fields = _fields(part)
        if isinstance(part, str):
            yield part
        elif isinstance(fields.get("text"), str):
            yield fields["text"]
        elif not _is_call(part):
            yield f"[{fields.get('type', kind_of(part))}]"


def _call(call: Any) -> dict[str, Any]:
    fields = _fields(call)
    inner = _fields(fields.get("function"))
    name = fields.get("name") or inner.get("name") or kind_of(call)
    given = next(
        (bag[key] for bag in (fields, inner) for key in ("arguments", "args", "input") if key in bag), None
    )
    text = given if isinstance(given, str) else preview(jsonable(part_at(given, "")))
    return {"name": jsonable(str(name)), "arguments": jsonable(bounded(text, 4000))}


def _array(value: Any) -> Shown | None:
    """Return shape, type, figures and a strip of an array of numbers."""
    shape, kind = getattr(value, "shape", None), getattr(value, "dtype", None)
    flat: Callable[[], Any] | None = getattr(value, "ravel", None)
    if not isinstance(shape, tuple) or not shape or kind is None or flat is None:
        return None
    data: dict[str, Any] = {"shape": [int(length) for length in shape], "dtype": str(kind)}
    if getattr(kind, "kind", "") in "biuf" and all(shape):
        data |= _figures(flat())
    return "array", data, None


def _figures(flat: Any) -> dict[str, Any]:
    """Return the figures of a flat array, and the means of its parts in order."""
    numbers = flat.astype("float64")
    finite = numbers[abs(numbers) < math.inf]  # not NaN either
    if not len(finite):
        return {"missing": len(numbers)}
    width = max(1, math.ceil(len(numbers) / _STRIP))
    parts = [numbers[place : place + width] for place in range(0, len(numbers), width)]
    means = [float(part.mean()) for part in parts]
    return {
        "min": float(finite.min()),
        "max": float(finite.max()),
        "mean": float(finite.mean()),
        "std": float(finite.std()),
        "missing": len(numbers) - len(finite),
        "strip": [mean if math.isfinite(mean) else None for mean in means],
    }
