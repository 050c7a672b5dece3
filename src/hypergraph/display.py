"""Text for people: escaping, durations, tables, previews of values, and parts of error messages."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Any, NamedTuple

from hypergraph.exceptions import safe_text

# -- escaping ----------------------------------------------------------------------------------------

# C0 and C1 controls (ESC starts every ANSI sequence), invisible and bidirectional marks, line separators, the
# byte order mark, lone surrogates, invisible tags. Joiners stay: emoji and scripts need them. Not compiled at
# import, because plain names never need it.
_UNSAFE = (
    r"[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ud800-\udfff\ufeff"
    r"\U000e0000-\U000e007f]"
)
_MARKUP = str.maketrans(
    {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#x27;"}
)  # importing the module html would load its table of all entities


def escape(value: object) -> str:
    """Return the text of a value with control characters escaped, like `\\n` and `\\x1b`."""
    text = value if type(value) is str else safe_text(value)
    if text.isprintable():  # then none of them is in it
        return text
    return re.sub(_UNSAFE, lambda found: found[0].encode("unicode_escape").decode(), text)


def escape_json(text: str) -> str:
    """Return the same JSON, in which no character moves a cursor, changes colours or reorders a line."""
    if text.isascii() and "\x7f" not in text:
        return text
    return re.sub(_UNSAFE, _as_json, text)


def _as_json(found: re.Match[str]) -> str:
    if found[0] == "\n":
        return found[0]
    units = found[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at] << 8 | units[at + 1]:04x}" for at in range(0, len(units), 2))


def escape_html(value: object) -> str:
    """Return the text of a value, safe between tags and in quoted attributes."""
    return escape(value).translate(_MARKUP)


def first_line(value: object, limit: int = 120) -> str:
    """Return the first line of a message, escaped, and cut with "..." at the limit."""
    return bounded(escape(safe_text(value).strip().split("\n", 1)[0].rstrip()), limit)


def typed_error(error_type: str | None, message: str) -> str:
    """Return the type of an error and its first line."""
    kind = f"{error_type.removeprefix('builtins.')}: " if error_type else ""
    return f"{kind}{first_line(message)}"


def columns(text: str) -> int:
    """Return the width of a text in a terminal: wide characters take two columns, combining marks none."""
    return len(text) if text.isascii() else sum(map(_columns_of, text))


def _columns_of(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


# -- error messages ----------------------------------------------------------------------------------


def plural(count: int, noun: str) -> str:
    """Return "1 node" or "2 nodes"."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def did_you_mean(name: object, known: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """Return a hint at the closest known name, None if none is close; see `closest`."""
    close = closest(name, known, cutoff=cutoff)
    return None if close is None else f"Did you mean {close!r}?"


def closest(name: object, known: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """Return the closest known name, None if none is as similar as `cutoff`: 0 for any, 1 for equal ones."""
    import difflib  # needed for mistakes only

    close = difflib.get_close_matches(name, list(known), n=1, cutoff=cutoff) if isinstance(name, str) else []
    return close[0] if close else None


def finding(what: str, *details: str | None, fix: str) -> str:
    """Return the text of one finding about a graph; details that are None are left out."""
    return "\n".join([what, *(f"-> {detail}" for detail in details if detail), f"How to fix: {fix}"])


# -- times -------------------------------------------------------------------------------------------


def execution_time(ms: float | None) -> str:
    """Format the time of one execution: milliseconds up to 9999, so that rows compare easily."""
    return _duration(ms, 9999)


class FailedTime(NamedTuple):
    """The time of a failed execution: a dash in texts, where rows are compared; the number in notebooks."""

    ms: float | None

    def __str__(self) -> str:
        return execution_time(None)


def run_time(ms: float) -> str:
    """Format the total of a run: milliseconds below 100, then seconds, minutes, hours."""
    return _duration(ms, 99)


def batch_time(ms: float) -> str:
    """Format the total of a batch: milliseconds below one second, then as a run total."""
    return _duration(ms, 999)


def _duration(ms: float | None, most_ms: int) -> str:
    if ms is None or not math.isfinite(ms):
        return "—"
    ms = max(ms, 0)
    # Limits apply to the rounded number: 99.7 must not become "100ms", nor 59.97 s "60.0s".
    if (whole := round(ms)) <= most_ms:
        return "<1ms" if ms and not whole else f"{whole}ms"
    if (tenths := round(ms / 100)) < 600:
        return f"{tenths / 10:.1f}s"
    minutes, seconds = divmod(round(ms / 1000), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02}m{seconds:02}s" if hours else f"{minutes}m{seconds:02}s"


def iso(time: datetime | None) -> str | None:
    """Return a time as ISO 8601 with milliseconds, and "Z" for UTC."""
    return None if time is None else time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


# -- tables ------------------------------------------------------------------------------------------

_RIGHT = frozenset({"Step", "Superstep", "Item", "Nodes", "Steps", "Runs", "Errors", "Cached"})
_DURATIONS = frozenset({"Duration", "Total", "Self", "Avg", "p50", "p95"})  # right-aligned, then a blank
_ROOMY = frozenset({"Node", "ID"})  # one column wider than their content

# Styles are inline, where notebooks keep them; colours come from the page, light or dark.
_PAGE = "overflow-x:auto"
_TABLE = "border-collapse:collapse;font-variant-numeric:tabular-nums;margin:4px 0 12px"
_CELL = "vertical-align:top;padding:2px 16px 2px 0;"
_RULE = "border-bottom:1px solid"
_LONG = "white-space:normal;overflow-wrap:anywhere;max-width:80ch"  # wraps
_WRAP = {"Value": _LONG + ";font-family:monospace", "Status": _LONG, "Decision": _LONG}
_FAILED = "color:#dc2626;font-weight:600"  # readable on white and on black


class Table(NamedTuple):
    """Headings and raw rows; the heading determines the alignment of its column."""

    headings: Sequence[str]
    rows: Sequence[Sequence[object]]
    more: str = ""  # a line below the rows, e.g. the number of omitted ones
    numbers: frozenset[str] = frozenset()  # more headings whose columns hold numbers


KEY = 60  # characters of the key of an item in a table or line

Block = Table | str | list[str]  # a table, a line, or a group of lines


def with_usage(table: Table, used: Sequence[Mapping[str, float]]) -> Table:
    """Return a table with a column for each amount that one of its rows has, in order of their names."""
    names = sorted({name for usage in used for name in usage})
    if not names:
        return table
    rows = [
        (*row, *(amount_text(usage.get(name)) for name in names))
        for row, usage in zip(table.rows, used, strict=True)
    ]
    amounts = [*map(amount_heading, names)]
    return table._replace(headings=(*table.headings, *amounts), rows=rows, numbers=frozenset(amounts))


def with_keys(table: Table, keys: Sequence[str | None], after: int = 1) -> Table:
    """Return a table with the keys of items after so many columns; as it is if none has a key."""
    if not any(key is not None for key in keys):
        return table
    rows = [
        (*row[:after], "" if key is None else shortened(key, KEY), *row[after:])
        for row, key in zip(table.rows, keys, strict=True)
    ]
    return table._replace(headings=(*table.headings[:after], "Key", *table.headings[after:]), rows=rows)


def amount_heading(name: str) -> str:
    """Return the heading of an amount: "Input tokens" for input_tokens."""
    return name.replace("_", " ").strip().capitalize() or name


def amount_text(amount: float | None) -> str:
    """Return an amount with at most six significant digits behind the point; nothing for None."""
    if amount is None:
        return ""
    return f"{int(amount):,}" if float(amount).is_integer() else f"{float(amount):.6g}"


def failed_status(message: str | None, node_name: str | None = None, attempts: int = 1) -> str:
    """Return "FAILED: message", with the node before the message if it is given."""
    parts = (f"FAILED{after(attempts)}", node_name, first_line(message or ""))
    return ": ".join(part for part in parts if part)


def after(attempts: int) -> str:
    """Return " after 3 attempts", and nothing for the first one."""
    return f" after {attempts} attempts" if attempts > 1 else ""


def as_text(header: Iterable[object], *blocks: Block) -> str:
    """Return a header line and below it the blocks, each after an empty line."""
    lines = [_header(header)]
    for block in blocks:
        lines += ["", *(_table_lines(block) if isinstance(block, Table) else _plain_lines(block))]
    return "\n".join(lines)


def as_html(header: Iterable[object], *blocks: Block) -> str:
    """Return the same content as `as_text`, as static HTML; failed rows have their times."""
    body = "".join(_html_table(block) if isinstance(block, Table) else _paragraph(block) for block in blocks)
    return f'<div class="hypergraph" style="{_PAGE}"><p><b>{escape_html(_header(header))}</b></p>{body}</div>'


def _header(parts: Iterable[object]) -> str:
    return " | ".join(escape(part) for part in parts)


def _table_lines(table: Table) -> list[str]:
    headings = table.headings
    spare = [" " if heading in _DURATIONS else "" for heading in headings]
    rows = [[escape(cell) + blank for cell, blank in zip(row, spare, strict=True)] for row in table.rows]
    widths = [
        max(columns(cell) for cell in column) + (column[0] in _ROOMY)
        for column in zip(headings, *rows, strict=True)
    ]
    rule = ["─" * width for width in widths]
    numbers = _RIGHT | table.numbers
    right = [heading in numbers for heading in headings]
    right_cells = [heading in numbers or heading in _DURATIONS for heading in headings]
    lines = [_line(headings, widths, right), _line(rule, widths, right)]
    lines += [_line(row, widths, right_cells) for row in rows]
    return [*lines, "  " + escape(table.more)] if table.more else lines


def _plain_lines(block: str | list[str]) -> list[str]:
    return [f"  {escape(line)}".rstrip() for line in ([block] if isinstance(block, str) else block)]


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    placed = []
    for cell, width, to_the_right in zip(cells, widths, right, strict=True):
        blanks = " " * (width - columns(cell))
        placed.append(blanks + cell if to_the_right else cell + blanks)
    return ("  " + "  ".join(placed)).rstrip(" ")


def _html_table(table: Table) -> str:
    headings, right = table.headings, _RIGHT | _DURATIONS | table.numbers
    sides = ["right" if heading in right else "left" for heading in headings]
    head = _html_row([_html_cell("th", h, h, side, _RULE) for h, side in zip(headings, sides, strict=True)])
    body = "".join(
        _html_row([_html_cell("td", *cell) for cell in zip(headings, row, sides, strict=True)])
        for row in table.rows
    )
    html_table = f'<table style="{_TABLE}"><thead>{head}</thead><tbody>{body}</tbody></table>'
    return html_table + (_paragraph(table.more) if table.more else "")


def _html_row(cells: Sequence[str]) -> str:
    return f"<tr>{''.join(cells)}</tr>"


def _html_cell(tag: str, heading: str, cell: object, side: str, style: str = "") -> str:
    text = escape_html(execution_time(cell.ms) if isinstance(cell, FailedTime) else cell)
    wrap = _WRAP.get(heading, "white-space:nowrap") if tag == "td" else "white-space:nowrap"
    if heading == "Status" and text.startswith("FAILED"):
        style = _FAILED
    return f'<{tag} style="text-align:{side};{wrap};{_CELL}{style}">{text}</{tag}>'


def _paragraph(text: str | list[str]) -> str:
    if isinstance(text, str):
        return f"<p>{escape_html(text)}</p>"
    return f"<pre>{chr(10).join(map(escape_html, text))}</pre>"


# -- previews ----------------------------------------------------------------------------------------

_TOTAL, _OBJECT, _STRING, _ITEMS = 4000, 400, 120, 6
Opened = Callable[[object], object]
_BRACKETS: tuple[tuple[type[Any], str], ...] = (
    (list, "[]"),
    (tuple, "()"),
    (set, "{}"),
    (frozenset, "{}"),
    (deque, "[]"),
)


def _unchanged(value: object) -> object:
    return value


def bounded(text: str, limit: int = _TOTAL) -> str:
    """Return the text, cut with "..." at the limit."""
    return text if len(text) <= limit else text[: limit - 3] + "..."


def shortened(text: str, limit: int) -> str:
    """Return the text, cut with "..." in its middle at the limit: paths often differ in their ends."""
    if len(text) <= limit:
        return text
    begin = (limit - 3) // 2
    return f"{text[:begin]}...{text[begin + 3 - limit :]}"


def preview(value: object, depth: int = 2, opened: Opened = _unchanged) -> str:
    """Return a short repr: long strings are cut, containers show their first items, arrays their shape.

    `opened` maps each value, also inside containers, to the value to show.
    """
    try:
        value = opened(value)
        text = _preview(value, depth, opened)
    except Exception as error:  # one broken repr must not hide the other values
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
    # Items below the last level are not touched, which ends the recursion of a cyclic structure.
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


# -- JSON --------------------------------------------------------------------------------------------


def jsonable(value: object, depth: int = 8) -> Any:
    """Return JSON primitives for any value; what JSON cannot represent becomes text.

    That includes NaN, infinities, integers beyond 64 bits and lone surrogates, so the result can be dumped
    with `allow_nan=False` and encoded as UTF-8.
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
