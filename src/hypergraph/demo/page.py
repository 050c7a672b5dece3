"""Output of the demo: headings, commands and their results; styled only on a terminal."""

import os
from typing import TextIO

from hypergraph.display import bounded, columns, escape

WIDTH = 80
_BOLD, _CYAN, _END = "\x1b[1m", "\x1b[36m", "\x1b[0m"


class Page:
    """The printed page."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._chapters = 0
        self._after_a_gap = False
        dull = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
        self._coloured = out.isatty() and not dull

    def line(self, text: str) -> None:
        """Print a line; an output that cannot show a character gets a question mark, not a traceback."""
        encoding = self._out.encoding or "utf-8"  # a stream of text alone has none
        self._after_a_gap = not text
        print(text.encode(encoding, "replace").decode(encoding), file=self._out, flush=True)

    def chapter(self, title: str) -> None:
        """Start a chapter."""
        self._chapters += 1
        text = f"── {self._chapters}. {title} "
        if not self._after_a_gap:
            self.line("")
        self.line(self._styled(_BOLD, text + "─" * (WIDTH - columns(text))))
        self.line("")

    def typed(self, *lines: str, prompt: str = ">>>") -> None:
        """Print lines as a user would type them; an indented line continues the one before."""
        for line in lines:
            self.line(self._styled(_CYAN, f"{'...' if line.startswith(' ') else prompt} {line}"))

    def shown(self, text: object) -> None:
        """Print a result as a user would see it."""
        self.line(str(text))
        self.line("")

    def rows(self, *rows: tuple[object, ...]) -> None:
        """Print rows as aligned columns, the last one cut at the end of the line."""
        cells = [[escape(cell) for cell in row] for row in rows]
        widths = [max(map(columns, column)) for column in zip(*cells, strict=True)]
        room = WIDTH - sum(widths[:-1]) - 2 * len(widths)
        for *first, last in cells:
            padded = (
                cell + " " * (width - columns(cell)) for cell, width in zip(first, widths, strict=False)
            )
            self.line("  ".join(("", *padded, bounded(last, room))).rstrip())
        self.line("")

    def _styled(self, style: str, text: str) -> str:
        return f"{style}{text}{_END}" if self._coloured else text
