"""Where a page of steps ended, as a text that people and programs can hand back."""

from __future__ import annotations

import re

from hypergraph.checkpointers.reading import START, Position
from hypergraph.views.problems import USAGE, Problem


def cursor_after(position: Position) -> str:
    """Return what continues a list of steps behind a position."""
    return "{}.{}".format(*position)


def position_in(cursor: str | None) -> Position:
    """Return the position that a cursor stands for, without one that before all steps.

    Raises:
        Problem: the text is none that a page gave out.
    """
    if cursor is None:
        return START
    found = re.fullmatch(r"(\d{1,15})\.(\d{1,15})", cursor, re.ASCII)
    if found is None:
        raise Problem(USAGE, f"{cursor!r} is no next_cursor of an earlier page")
    return int(found[1]), int(found[2])
