"""The stand-in for a stored value that cannot be read here: it says why and shows what is readable."""

from __future__ import annotations

from typing import Any


class Undecodable:
    """Take the place of a stored value that could not be rebuilt.

    `reason` says why, and what to do about it. `data` is what could be read nevertheless: the fields of an
    object whose class is unknown here, or a whole value with such stand-ins inside. It is None when the bytes
    themselves are unreadable. `of` names the class of such an object. Serializers refuse to store one.
    """

    def __init__(self, reason: str, data: Any = None, of: str | None = None) -> None:
        self.reason = reason  # why, and what to do about it
        self.data = data  # what could be read
        self.of = of  # the class, if it is known

    def __repr__(self) -> str:
        return f"Undecodable({self.reason!r})"
