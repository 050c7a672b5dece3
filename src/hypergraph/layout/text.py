"""How much room texts and boxes take, without asking any font: letters are taken as of one width."""

from __future__ import annotations

from collections.abc import Sequence

from hypergraph.display import columns, escape

NAME_SIZE, SMALL_SIZE = 12.0, 10.0
_ASPECT = 0.61  # width of a letter in a monospaced font, by its size
LONGEST_NAME, LONGEST_ROW, LONGEST_LABEL = 30, 38, 24  # in columns
ROW, TITLE = 15.0, 26.0  # depth of a further row of text, of the bar on top of a box around boxes

VALUE_KINDS = frozenset({"input", "optional", "bound", "entry", "output"})
LOOP_ROOM = 30.0  # beside a box that has an arrow to itself
SLANT = 11.0  # how far the ends of a gate are pointed


def width_of(text: str, size: float) -> float:
    """Return about how wide a text is."""
    return columns(text) * size * _ASPECT


def cut(text: str, most: int) -> str:
    """Return the text with control characters spelled out, cut with an ellipsis to so many columns."""
    shown = escape(text)
    if columns(shown) <= most:
        return shown
    kept, used = [], 1
    for character in shown:
        used += columns(character)
        if used > most:
            break
        kept.append(character)
    return "".join(kept) + "…"


def size_of(kind: str, label: str, rows: Sequence[str]) -> tuple[float, float]:
    """Return width and height of a closed box with these texts."""
    if kind == "end":
        return 52.0, 24.0
    if kind in VALUE_KINDS:
        return round(max(40.0, width_of(label, 11) + 24)), 24.0
    widest = max([width_of(label, NAME_SIZE), *(width_of(row, SMALL_SIZE) for row in rows)])
    pointed = 2 * SLANT if kind == "gate" else 0.0
    return round(max(76.0, widest + 28 + pointed)), 34.0 + ROW * len(rows)


def label_size(label: str) -> tuple[float, float]:
    """Return width and height of what is written on an arrow."""
    return round(width_of(label, SMALL_SIZE) + 10), 16.0
