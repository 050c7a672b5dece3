"""The form of a finding: what is wrong, where, and how to fix it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def finding(what: str, *details: str, fix: str) -> str:
    """Write one finding of a broken graph."""
    return "\n".join([what, *(f"-> {detail}" for detail in details), f"How to fix: {fix}"])


def did_you_mean(name: object, known: Iterable[str]) -> str | None:
    """Return a hint at the closest known name, None when nothing is close."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6) if isinstance(name, str) else []
    return f"Did you mean {close[0]!r}?" if close else None
