"""The form of a finding: what is wrong, where, and how to fix it."""

from __future__ import annotations

from hypergraph.display import did_you_mean

__all__ = ["did_you_mean", "finding"]


def finding(what: str, *details: str | None, fix: str) -> str:
    """Write one finding of a broken graph; details that are None are left out."""
    return "\n".join([what, *(f"-> {detail}" for detail in details if detail), f"How to fix: {fix}"])
