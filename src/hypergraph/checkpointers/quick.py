"""Frozen records that are made quickly: one is made for every step of every run that is stored.

A frozen dataclass sets each field through `object.__setattr__`, which takes four times as long as a plain
assignment. Here a new record is, while it is being filled, an instance of a twin class that is not frozen.
"""

from __future__ import annotations

from dataclasses import field, fields, make_dataclass
from functools import wraps
from typing import Any, TypeVar

Record = TypeVar("Record", bound=type)


def quickly_made(frozen: Record) -> Record:
    """Give a frozen, slotted dataclass with `__post_init__` an `__init__` that does the same in less time."""
    twin: Any = make_dataclass(
        frozen.__name__,
        [(f.name, Any, field(default=f.default, default_factory=f.default_factory)) for f in fields(frozen)],
        slots=True,  # the same slots make the same layout, so an instance can change its class
    )
    made: Any = frozen
    fill, settle, turn = twin.__init__, made.__post_init__, object.__setattr__

    @wraps(made.__init__)
    def __init__(self: Any, *args: Any, **fields: Any) -> None:
        turn(self, "__class__", twin)
        fill(self, *args, **fields)
        self.__class__ = made
        settle(self)

    made.__init__ = __init__
    return frozen
