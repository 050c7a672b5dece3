"""What the demo prints: headings, what was typed, what came of it; plain text unless a terminal wants colours."""

import os
from typing import Any, TextIO

from hypergraph.display import Table, as_text, bounded, columns, escape

WIDTH = 80
_BOLD, _DIM, _END = "\x1b[1m", "\x1b[2m", "\x1b[0m"


class Page:
    """Print one part after another."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._chapters = 0
        dull = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
        self._coloured = out.isatty() and not dull

    def chapter(self, title: str) -> None:
        """Begin a chapter; the title says what happens and what that is good for."""
        self._chapters += 1
        text = f"── {self._chapters}. {title} "
        self._print("\n" + self._styled(_BOLD, text + "─" * (WIDTH - columns(text))) + "\n")

    def typed(self, *lines: str, prompt: str = ">>>") -> None:
        """Show what a user would type to see what follows."""
        for number, line in enumerate(lines):
            self._print(self._styled(_DIM, f"{'...' if number else prompt} {line}"))

    def shown(self, text: object) -> None:
        """Show what a user would see."""
        self._print(f"{text}\n")

    def rows(self, *rows: tuple[object, ...]) -> None:
        """Show rows as aligned columns, the last one cut where the line ends."""
        cells = [[escape(cell) for cell in row] for row in rows]
        widths = [max(map(columns, column)) for column in zip(*cells, strict=True)]
        room = WIDTH - sum(widths[:-1]) - 2 * len(widths)
        for *first, last in cells:
            padded = (cell + " " * (width - columns(cell)) for cell, width in zip(first, widths, strict=False))
            self._print("  ".join(("", *padded, bounded(last, room))).rstrip())
        self._print("")

    def table(self, title: str, headings: tuple[str, ...], rows: list[tuple[Any, ...]]) -> None:
        """Show rows below headings."""
        self.shown(as_text((title,), Table(headings, rows)))

    def _styled(self, style: str, text: str) -> str:
        return f"{style}{text}{_END}" if self._coloured else text

    def _print(self, text: str) -> None:
        # A terminal that cannot show a line as such gets a question mark, not a traceback.
        encoding = self._out.encoding or "utf-8"
        print(text.encode(encoding, "replace").decode(encoding), file=self._out, flush=True)
