"""Undecodable: the placeholder for a stored value that cannot be read."""

from __future__ import annotations

from typing import Any


class Undecodable:
    """Replace a stored value that cannot be rebuilt.

    `data` holds the readable part: the fields of an object whose class is unknown, or a value with such
    placeholders inside; None if the bytes are unreadable. Serializers refuse to store an Undecodable.
    """

    __slots__ = ("data", "of", "reason")  # a damaged value may hold very many

    def __init__(self, reason: str, data: Any = None, of: str | None = None) -> None:
        self.reason = reason  # the cause and its remedy
        self.data = data  # the readable part
        self.of = of  # the name of the class, if it is an object

    def __repr__(self) -> str:
        return f"Undecodable({self.reason!r})"
