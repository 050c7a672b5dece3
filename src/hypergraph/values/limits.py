"""Limits of values: what reading stored bytes may cost, whatever they contain.

Bytes are cheap to write and may be expensive to read: an empty mapping is one byte of MessagePack and 80
bytes of memory. What would be refused when it is read is refused when it is stored, too.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Hashable, Iterable
from typing import Any

from hypergraph.values.undecodable import with_public_text

MAX_SIZE = 1024**3  # bytes of one decoded value, unless a codec has its own limit

LONGEST_TEXT = 500  # characters of the reason why a value cannot be read
_LEAST, _TIMES = 64 * 1024 * 1024, 32  # bytes of memory for a value: some, and so many times its size
# Bytes of memory that a container takes, with the reference to it: a list or an empty one, and a mapping.
_EMPTY, _DICT = 72, 208
SMALL = 256 * 1024  # bytes of a value that cannot reach the limit
_DENSEST = 42  # bytes of memory for one byte of JSON, at most: a mapping inside of another takes 5, `{"":}`
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)  # one that is not closed extends to the end
_EMPTIES, _DICTS = bytes([0x80, *range(0x90, 0xA0), 0xDC, 0xDD]), bytes([*range(0x81, 0x90), 0xDE, 0xDF])
_FEW = 100  # elements that may all have the same hash
_SAME_HASH = 32  # elements of one hash: comparing each with each takes long


def memory_for(size: int) -> int:
    """Return the bytes of memory that a value of so many stored bytes may take."""
    return max(_LEAST, _TIMES * size)


def check_json(data: bytes) -> None:
    """Raise ValueError if the containers in a JSON text would take too much memory."""
    size = len(data)
    if size * _DENSEST <= _LEAST:
        return
    if data.count(b"{") * _DICT + data.count(b"[") * _EMPTY <= memory_for(size):
        return  # as most data: even if no mapping is empty, which takes longer to find out
    cost = _json_cost(data)
    if cost > memory_for(size):  # some of it may be text inside of strings
        cost -= sum(_json_cost(found[0]) for found in _STRING.finditer(data))
    if cost > memory_for(size):
        raise _too_many(size)


def _json_cost(data: bytes) -> int:
    empty = data.count(b"{}")
    return (data.count(b"{") - empty) * _DICT + (data.count(b"[") + empty) * _EMPTY


def check_msgpack(data: bytes) -> None:
    """Raise ValueError if the containers in MessagePack would take too much memory."""
    size = len(data)
    empty, dicts = size - len(data.translate(None, _EMPTIES)), size - len(data.translate(None, _DICTS))
    if empty * _EMPTY + dicts * _DICT > memory_for(size) and _msgpack_cost(data) > memory_for(size):
        raise _too_many(size)


def _too_many(size: int) -> ValueError:
    return ValueError(f"too many lists and mappings for a value of {size} bytes")


# What follows the first byte of an item of MessagePack: some bytes, or a length of some bytes.
_FOLLOWING = {0xCA: 4, 0xCB: 8, 0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8, 0xD0: 1, 0xD1: 2, 0xD2: 4, 0xD3: 8}
_FOLLOWING |= {0xD4: 2, 0xD5: 3, 0xD6: 5, 0xD7: 9, 0xD8: 17, 0xDC: 2, 0xDD: 4, 0xDE: 2, 0xDF: 4}
_LENGTHS = {0xC4: 1, 0xC5: 2, 0xC6: 4, 0xC7: 1, 0xC8: 2, 0xC9: 4, 0xD9: 1, 0xDA: 2, 0xDB: 4}


def _msgpack_cost(data: bytes) -> int:
    """Return the memory of the containers, item by item; long strings are skipped."""
    place, cost, limit, size = 0, 0, memory_for(len(data)), len(data)
    while place < size and cost <= limit:
        kind = data[place]
        place += 1
        if kind < 0x80 or kind >= 0xE0:
            continue
        if kind in _DICTS:
            cost += _DICT
        elif kind in _EMPTIES:
            cost += _EMPTY
        if 0xA0 <= kind <= 0xBF:
            place += kind - 0xA0
        elif kind in _LENGTHS:
            end = place + _LENGTHS[kind]
            place = end + int.from_bytes(data[place:end]) + (0xC7 <= kind <= 0xC9)
        else:
            place += _FOLLOWING.get(kind, 0)
    return cost


def check_hashes(items: Collection[Any]) -> None:
    """Raise ValueError if many elements of a set, or keys, have the same hash. Raises what hash() raises."""
    if len(items) > _FEW and _most_common(items) > _SAME_HASH:
        raise ValueError("too many elements with the same hash")


def _most_common(items: Iterable[Hashable]) -> int:
    return Counter(map(hash, items)).most_common(1)[0][1]


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
        text = (
            f"A value is larger than the {limit} bytes that {name} allows; "
            f"raise the limit with {name}(max_size=...)"
        )
        raise with_public_text(ValueError(text), text)
