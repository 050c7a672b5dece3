"""Deltas: patches of bytes that grow, and items that are added to lists."""

import struct
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, NamedTuple
from zlib import crc32

LEAST, _MOST = 256, 64 * 1024 * 1024  # bytes of values that are looked at
_HEADS = [(before, now) for before in range(6) for now in range(6)]  # lengths that a changed header may have
_TAIL = 16  # bytes at the end that usually change
_PROBE = 32
_MISFIT = "a patch of a growing value does not fit to what it extends"

# Begin and end of the piece that is kept, length of what goes before it, checksum of the result.
_PIECE = struct.Struct(">QQII")


class Added(NamedTuple):
    """What a step adds to a list: the value of its output, as a store keeps it."""

    items: list[Any]
    node: int  # its index in the graph: those of one superstep stand in this order
    late: int  # by how much its superstep is later than the one that it belongs to
    anew: bool  # whether the list starts anew
    begin: int  # the superstep from which on the list is stored

    @property
    def mark(self) -> str:
        """The part of the stored format that says where the items stand."""
        return f"&{'=' if self.anew else ''}{self.node}" + (f"-{self.late}" if self.late else "")


class Stands(NamedTuple):
    """Where stored items of a list stand, by what their format says."""

    node: int  # the index of the node
    late: int  # by how much their superstep is later than the one that they belong to
    anew: bool  # whether the list starts anew


@lru_cache(maxsize=1024)
def stands(written: str) -> Stands | None:
    """Return what a stored format says of items of a list, None for other values and damaged formats."""
    _, is_added, mark = written.partition("+")[0].partition("&")
    node, _, late = mark.rstrip("@").removeprefix("=").partition("-")
    if not is_added or not node.isdigit() or not (late or "0").isdigit() or written.startswith("!"):
        return None
    return Stands(int(node), int(late or 0), mark.startswith("="))


class Grown(NamedTuple):
    """The bytes of a version, and the chain that they are stored as."""

    raw: bytes
    superstep: int
    idx: int
    base: int  # the superstep in which the chain begins
    links: int = 1
    size: int = 0  # of all links


class Growth:
    """What the values of one workflow were when they were stored last."""

    def __init__(self, load: Callable[[str], Grown | None] | None = None) -> None:
        self._load = load  # how to look up what was stored before this run
        self.last: dict[str, Grown | None] = {}

    def patch(self, name: str, superstep: int, idx: int, raw: bytes) -> tuple[bytes, int | None]:
        """Return the bytes to store: a patch and where its chain begins, or all of them."""
        if not LEAST <= len(raw) <= _MOST:
            self.last[name] = None
            return raw, None
        if name not in self.last and self._load is not None:
            self.last[name] = self._load(name)
        last = self.last.get(name)
        if last is not None and (last.superstep, last.idx) > (superstep, idx):
            return raw, None  # a sibling that began later has ended earlier; it is what others extend
        if last is not None and last.superstep < superstep and last.links < len(raw) // 16:
            found = difference(last.raw, raw)
            size = last.size + len(found)
            if 2 * len(found) <= len(raw) and size <= 2 * len(raw):
                self.last[name] = Grown(raw, superstep, idx, last.base, last.links + 1, size)
                return found, last.base
        self.last[name] = Grown(raw, superstep, idx, superstep, 1, len(raw))
        return raw, None

    def forget(self, name: str) -> None:
        """Let the next version be stored as a whole, because the last one was not stored."""
        self.last[name] = None


def difference(before: bytes, now: bytes) -> bytes:
    """Return a patch that makes the second out of the first."""
    start, length, head = _longest_piece(before, now)
    return _PIECE.pack(start, start + length, head, crc32(now)) + now[:head] + now[head + length :]


def applied(whole: bytes, patches: Iterable[bytes]) -> bytes:
    """Return the bytes after all patches.

    Raises:
        ValueError: a patch does not fit.
    """
    raw, checksum = bytearray(whole), None
    for patch in patches:
        if len(patch) < _PIECE.size:
            raise ValueError("a patch of a growing value is cut off")
        start, end, head, checksum = _PIECE.unpack_from(patch)
        rest = _PIECE.size + head
        if not start <= end <= len(raw) or rest > len(patch):
            raise ValueError(_MISFIT)
        del raw[end:]
        raw[:start] = patch[_PIECE.size : rest]
        raw += patch[rest:]
    if checksum is not None and crc32(raw) != checksum:
        raise ValueError(_MISFIT)
    return bytes(raw)


def _longest_piece(before: bytes, now: bytes) -> tuple[int, int, int]:
    """Return where the piece begins before, how long it is, and where it begins now."""
    old, new = memoryview(before), memoryview(now)
    for start, head in _HEADS:
        body = len(before) - start - _TAIL
        same = body > 0 and old[start : start + _PROBE] == new[head : head + _PROBE]
        if same and old[start : start + body] == new[head : head + body]:
            return start, _extended(old[start:], new[head:], body), head
    return 0, _common_length(old, new), 0


def _extended(old: memoryview, new: memoryview, length: int) -> int:
    limit = min(len(old), len(new))
    while length < limit and old[length] == new[length]:
        length += 1
    return length


def _common_length(old: memoryview, new: memoryview) -> int:
    """Return how many bytes two values begin with in common."""
    low, high = 0, min(len(old), len(new))
    while low < high:
        middle = (low + high + 1) // 2
        if old[low:middle] == new[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
