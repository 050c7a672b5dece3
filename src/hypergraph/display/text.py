"""Words: texts with every control character spelled out, counts and durations, the name that was meant."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable

from hypergraph.exceptions import safe_text

# C0 and C1 controls (ESC begins every ANSI sequence), invisible and bidirectional marks, line
# separators, the byte order mark, lone surrogates, invisible tags. Joiners stay: emoji and scripts need them.
# Compiled on first use, which plain names never are.
_UNSAFE = (
    r"[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ud800-\udfff\ufeff"
    r"\U000e0000-\U000e007f]"
)
_MARKUP = str.maketrans(
    {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#x27;"}
)  # the module html would load its table of all entities for these five


def escape(value: object) -> str:
    """Return the value's text with every control character spelled out, like `\\n` and `\\x1b`."""
    text = safe_text(value)
    if text.isascii() and text.isprintable():
        return text
    return re.sub(_UNSAFE, lambda found: found[0].encode("unicode_escape").decode(), text)


def escape_html(value: object) -> str:
    """Return the value's text, safe between tags and inside quoted attributes."""
    return escape(value).translate(_MARKUP)


def first_line(value: object, limit: int = 120) -> str:
    """Return the first line of a message, escaped and cut to the limit."""
    return escape(safe_text(value).strip().split("\n", 1)[0].rstrip())[:limit]


def columns(text: str) -> int:
    """Return how many columns a terminal gives the text: wide characters take two, combining marks none."""
    return len(text) if text.isascii() else sum(map(_columns_of, text))


def _columns_of(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def plural(count: int, noun: str) -> str:
    """Return "1 node" or "2 nodes"."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def did_you_mean(name: object, known: Iterable[str]) -> str | None:
    """Return a hint at the closest known name, None when nothing is close."""
    close = closest(name, known)
    return None if close is None else f"Did you mean {close!r}?"


def closest(name: object, known: Iterable[str]) -> str | None:
    """Return the known name that is most like this one, None when nothing is close."""
    import difflib  # only who errs needs it

    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6) if isinstance(name, str) else []
    return close[0] if close else None


def execution_time(ms: float | None) -> str:
    """Show the time of one execution: milliseconds up to 9999, so that neighbours compare."""
    return _duration(ms, 9999)


def run_time(ms: float) -> str:
    """Show the total of a run: milliseconds below 100, then seconds, minutes, hours."""
    return _duration(ms, 99)


def batch_time(ms: float) -> str:
    """Show the total of a batch: milliseconds below one second, then as a run total."""
    return _duration(ms, 999)


def _duration(ms: float | None, most_ms: int) -> str:
    if ms is None or not math.isfinite(ms):
        return "—"
    ms = max(ms, 0)
    # Every limit is compared with the rounded number: 99.7 is not "100ms", 59.97 s is not "60.0s".
    if (whole := round(ms)) <= most_ms:
        return "<1ms" if ms and not whole else f"{whole}ms"
    if (tenths := round(ms / 100)) < 600:
        return f"{tenths / 10:.1f}s"
    minutes, seconds = divmod(round(ms / 1000), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02}m{seconds:02}s" if hours else f"{minutes}m{seconds:02}s"
