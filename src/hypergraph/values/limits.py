"""How large a value may be on its way into a row and out of it."""

from __future__ import annotations

from typing import Any

MAX_SIZE = 1024**3  # bytes of one decoded value, unless a codec says otherwise


def check_limit(name: str, value: int, largest: int | None = None) -> int:
    """Return the option; raise TypeError when it is no int, ValueError when it is out of range."""
    if type(value) is not int:
        raise TypeError(f"{name} must be an int, not {type(value).__name__}")
    if value < 1 or (largest is not None and value > largest):
        allowed = "at least 1" if largest is None else f"1 to {largest}"
        raise ValueError(f"{name} must be {allowed}, not {value}")
    return value


def check_size(codec: Any, size: int) -> None:
    """Raise ValueError, with what to raise, when this many decoded bytes are more than the codec takes."""
    limit = getattr(codec, "max_size", MAX_SIZE)
    if size > limit:
        name = type(codec).__name__
        raise ValueError(
            f"A value is larger than the {limit} bytes that {name} takes; "
            f"if it is meant to be, allow it with {name}(max_size=...)"
        )
