"""Size limits of values."""

from __future__ import annotations

from typing import Any

MAX_SIZE = 1024**3  # bytes of one decoded value, unless a codec has its own limit


def check_limit(name: str, value: int, largest: int | None = None) -> int:
    """Return the option. Raises TypeError if it is not an int, ValueError if it is out of range."""
    if type(value) is not int:
        raise TypeError(f"{name} must be an int, got {type(value).__name__}")
    if value < 1 or (largest is not None and value > largest):
        allowed = "at least 1" if largest is None else f"1 to {largest}"
        raise ValueError(f"{name} must be {allowed}, got {value}")
    return value


def check_size(codec: Any, size: int) -> None:
    """Raise ValueError if this many decoded bytes exceed the limit of the codec."""
    limit = getattr(codec, "max_size", MAX_SIZE)
    if size > limit:
        name = type(codec).__name__
        raise ValueError(
            f"A value is larger than the {limit} bytes that {name} allows; "
            f"raise the limit with {name}(max_size=...)"
        )
