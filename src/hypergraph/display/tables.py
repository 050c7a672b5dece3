"""Tables and lines as text and as HTML; rows come in raw and leave escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from hypergraph.display.text import columns, escape, escape_html

_RIGHT = frozenset({"Step", "Superstep", "Item", "Nodes", "Steps", "Runs", "Errors", "Cached"})
_DURATIONS = frozenset({"Duration", "Total", "Avg", "p50", "p95"})  # right-aligned, one blank kept free
_ROOMY = frozenset({"Node", "ID"})  # one wider than their content

# Styles stand in the tags, where no notebook removes them; colours come from the page, light or dark.
_PAGE = "overflow-x:auto"
_TABLE = "border-collapse:collapse;font-variant-numeric:tabular-nums;margin:4px 0 12px"
_CELL = "vertical-align:top;padding:2px 16px 2px 0;"
_RULE = "border-bottom:1px solid"
_LONG = "white-space:normal;overflow-wrap:anywhere;max-width:80ch"  # goes on below itself
_WRAP = {"Value": _LONG + ";font-family:monospace", "Status": _LONG, "Decision": _LONG}
_FAILED = "color:#dc2626;font-weight:600"  # readable on white and on black


class Table(NamedTuple):
    """Headings and raw rows; the heading decides how its column is laid out."""

    headings: Sequence[str]
    rows: Sequence[Sequence[object]]
    more: str = ""  # a line below the rows, about those left out


Block = Table | str | list[str]  # a table, a line, or lines that belong together


def as_text(header: Iterable[object], *blocks: Block) -> str:
    """Lay out a header line and below it, each after an empty line, tables and plain lines."""
    lines = [_header(header)]
    for block in blocks:
        lines += ["", *(_table_lines(block) if isinstance(block, Table) else _plain_lines(block))]
    return "\n".join(lines)


def as_html(header: Iterable[object], *blocks: Block) -> str:
    """Render what `as_text` shows as static HTML."""
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
    right = [heading in _RIGHT for heading in headings]
    right_cells = [heading in _RIGHT or heading in _DURATIONS for heading in headings]
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
    headings = table.headings
    head = _html_row([_html_cell("th", heading, heading, _RULE) for heading in headings])
    body = "".join(
        _html_row([_html_cell("td", heading, cell) for heading, cell in zip(headings, row, strict=True)])
        for row in table.rows
    )
    html_table = f'<table style="{_TABLE}"><thead>{head}</thead><tbody>{body}</tbody></table>'
    return html_table + (_paragraph(table.more) if table.more else "")


def _html_row(cells: Sequence[str]) -> str:
    return f"<tr>{''.join(cells)}</tr>"


def _html_cell(tag: str, heading: str, cell: object, style: str = "") -> str:
    text = escape_html(cell)
    side = "right" if heading in _RIGHT | _DURATIONS else "left"
    wrap = _WRAP.get(heading, "white-space:nowrap") if tag == "td" else "white-space:nowrap"
    if heading == "Status" and text.startswith("FAILED"):
        style = _FAILED
    return f'<{tag} style="text-align:{side};{wrap};{_CELL}{style}">{text}</{tag}>'


def _paragraph(text: str | list[str]) -> str:
    if isinstance(text, str):
        return f"<p>{escape_html(text)}</p>"
    return f"<pre>{chr(10).join(map(escape_html, text))}</pre>"
