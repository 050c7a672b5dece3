"""Stored bytes that are cheap to write and would be expensive to read, and what reading them costs."""

from __future__ import annotations

import base64
import gc
import io
import os
import re
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa

from hypergraph.values.serializers import JsonSerializer, MsgpackSerializer, Serializer

SIZE = 2_000_000  # bytes of a row
MOST_MEMORY, MOST_SECONDS = 64 * 1024 * 1024, 2.0  # that reading one may cost
PRIME = 2**61 - 1  # integers that differ by a multiple of it have the same hash


class Cost(NamedTuple):
    """Memory above what was in use before, and seconds of the processor."""

    memory: int
    seconds: float


class Failed(Exception):
    """A call that raised, or that ended its process."""


class Peak:
    """The most memory that is in use from now on, above what is in use now; counted as Linux does."""

    is_known = os.path.exists("/proc/self/clear_refs")

    def __init__(self) -> None:
        gc.collect()
        if self.is_known:
            Path("/proc/self/clear_refs").write_text("5")  # the most that was in use is counted anew
            self._before, self._files = _memory("VmRSS"), _memory("RssFile")

    def taken(self) -> int:
        """Return the bytes so far, zero where they are not known.

        A process that was just forked has the code of libraries in use only once it runs it: that is no cost.
        """
        if not self.is_known:
            return 0
        return _memory("VmHWM") - self._before - max(0, _memory("RssFile") - self._files)


def cost_of(work: Callable[[], Any]) -> Cost:
    """Return what a call costs, in a process of its own: memory of all libraries counts. Raises Failed."""
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            peak, start = Peak(), time.process_time()
            work()
            os.write(writes, f"{peak.taken()} {time.process_time() - start}".encode())
        except BaseException as error:
            os.write(writes, repr(error).encode())
        finally:
            os._exit(0)
    os.close(writes)
    with open(reads, "rb") as file:
        text = file.read().decode()
    _, ended = os.waitpid(child, 0)
    if not re.fullmatch(r"-?\d+ \S+", text):
        raise Failed(text or f"the process ended with {ended}")
    memory, seconds = text.split(" ")
    return Cost(int(memory), float(seconds))


def _memory(kind: str) -> int:
    found = re.search(rf"{kind}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) * 1024


def filled(piece: bytes, start: bytes = b"[", end: bytes = b"0]") -> bytes:
    """Return a piece as often as there is room for it."""
    return start + piece * ((SIZE - len(start) - len(end)) // len(piece)) + end


def _msgpack(piece: bytes) -> bytes:
    count = SIZE // len(piece)
    return b"\xdd" + count.to_bytes(4, "big") + piece * count


def _tag(name: str, v: Any, **parts: Any) -> dict[str, Any]:
    return {"$": name, "v": v, **parts}


def _colliding(count: int) -> list[Any]:
    return [_tag("int", hex(PRIME * number)) for number in range(2**7, 2**7 + count)]


def _stream(table: Any, compression: str | None = None) -> bytes:
    sink = io.BytesIO()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    return sink.getvalue()


def frame(of: str, data: bytes) -> dict[str, Any]:
    """Return the tree of a stored table."""
    return _tag("frame", _tag("bytes", base64.b64encode(data).decode()), of=of)


def frames() -> dict[str, dict[str, Any]]:
    """Return tables that take more memory than their bytes."""
    nulls = pa.table({"a": pa.nulls(2**26)})
    ends = pa.array([2**30], pa.int32())
    encoded = pa.RunEndEncodedArray.from_arrays(ends, pa.array(["x" * 1000]))
    struct = pa.StructArray.from_arrays([pa.nulls(2**26)], ["a"])
    many = pa.table({f"c{n}": pa.nulls(50_000) for n in range(1000)})
    found = {
        "rows of nothing": nulls,
        "runs without end": pa.table({"a": encoded}),
        "structures of nothing": pa.table({"a": struct}),
        "many columns of nothing": many,
        "compressed zeros": pa.table({"a": pa.array([bytes(100_000_000)])}),
    }
    return {
        f"{name}, {kind}": frame(kind, _stream(table, "zstd" if "compressed" in name else None))
        for name, table in found.items()
        for kind in ("pandas", "polars", "pyarrow")
    }


def trees() -> dict[str, Any]:
    """Return trees, which both serializers read."""
    half = "f" * (SIZE // 2 - 100)
    return {
        "a fraction": _tag("fraction", [_tag("int", "0x" + half), _tag("int", "0x" + half[:-1] + "1")]),
        "many fractions": [
            _tag("fraction", [_tag("int", "0x" + "f" * 16_000), _tag("int", "0x" + "e" * 15_999 + "1")])
        ]
        * 60,
        "a long integer": _tag("int", "9" * SIZE),
        "a long hexadecimal integer": _tag("int", "0x" + "f" * SIZE),
        "a long octal integer": _tag("int", "0o" + "7" * SIZE),
        "a long float": _tag("float", "9" * SIZE),
        "a long decimal": _tag("decimal", "9" * SIZE),
        "a set of colliding integers": _tag("set", _colliding(SIZE // 45)),
        "a mapping with colliding keys": _tag("dict", [x for n in _colliding(SIZE // 48) for x in (n, 0)]),
        "a set of colliding decimals": _tag(
            "set", [_tag("decimal", str(PRIME * n)) for n in range(1, SIZE // 50)]
        ),
        "a set of colliding tuples": _tag(
            "frozenset", [_tag("tuple", [item]) for item in _colliding(SIZE // 70)]
        ),
        "many small sets of colliding integers": [_tag("set", _colliding(100))] * (SIZE // 4600),
        "a long key over broken tags": {"k" * 440_000: [{"$": "no", "v": 0}] * 20_000},
        "long keys over broken tags": {str(n) + "k" * 40_000: [{"$": "no"}] * 100 for n in range(40)},
        "many broken tags": [{"$": 0}] * (SIZE // 9),
        "many broken dates": [_tag("date", "x")] * (SIZE // 22),
        "a broken date": _tag("date", "1" * SIZE),
        "a broken zone": _tag("zoneinfo", "x" * SIZE),
        "many empty sets": [_tag("set", [])] * (SIZE // 20),
        "a path of many parts": _tag("PurePosixPath", "".join(f"{n:x}/" for n in range(SIZE // 6))),
        "an array of many dimensions": _tag(
            "ndarray", _tag("bytes", ""), dtype="<i4", shape=[2**62] * (SIZE // 21)
        ),
        "an array of a long type": _tag("ndarray", _tag("bytes", ""), dtype="<U" + "9" * SIZE, shape=[0]),
        "objects of an unknown class": [_tag("object", {}, of="a:B")] * (SIZE // 35),
        "an object with a long name": _tag("object", {}, of="a" * SIZE),
        "lists in lists": [[[[]]]] * (SIZE // 9),
        "tags in tags": [_tag("tuple", [_tag("tuple", [])])] * (SIZE // 45),
    }


JSON = {
    "empty lists": filled(b"[],"),
    "empty mappings": filled(b"{},"),
    "small mappings": filled(b'{"":0},'),
    "mappings in mappings": filled(b'{"":{"":{}}},'),
    "lists in mappings": filled(b'{"":[]},'),
    "short texts": filled(b'"ab",'),
    "floats": filled(b"1e9,"),
    "a long number": b"9" * SIZE,
    "a long fraction": b"0." + b"9" * SIZE,
    "quotes and escapes": b'"' + b'\\"' * (SIZE // 2),
    "deep lists": b"[" * SIZE,
    "deep tags": b'{"$":"tuple","v":[' * (SIZE // 18),
    "many keys": b"{" + b",".join(b'"%x":0' % n for n in range(SIZE // 9)) + b"}",
    "lists and a tag": filled(b"[],", end=b'{"$":"tuple","v":[]}]'),
    "mappings in mappings and a tag": filled(b'{"":{"":{}}},', end=b'{"$":"tuple","v":[]}]'),
}
MSGPACK = {
    "empty lists": _msgpack(b"\x90"),
    "empty mappings": _msgpack(b"\x80"),
    "small mappings": _msgpack(b"\x81\xa0\x00"),
    "lists in lists": _msgpack(b"\x91\x91\x90"),
    "short texts": _msgpack(b"\xa1a"),
    "floats": _msgpack(b"\xca\x3f\x80\x00\x00"),
    "numbers": _msgpack(b"\xcd\x01\x2c"),
    "deep lists": b"\x91" * SIZE,
    "deep mappings": b"\x81\xa0" * (SIZE // 2),
    "a list that lies": b"\xdd\xff\xff\xff\xff" + b"\x90" * 100,
    "long texts that lie": b"\xdb\xff\xff\xff\xff" * (SIZE // 5),
}


def rows(wanted: Collection[str] | None = None) -> dict[str, tuple[Serializer, bytes]]:
    """Return rows by name, with what reads them: all, or those that are wanted."""
    found: dict[str, tuple[Serializer, bytes]] = {}
    made = {**trees(), **frames()}
    for serializer, encode, more in (
        (JsonSerializer(), msgspec.json.encode, JSON),
        (MsgpackSerializer(), msgspec.msgpack.encode, MSGPACK),
    ):
        for name, row in {**made, **more}.items():
            if wanted is None or f"{name}, {serializer.id}" in wanted:
                data = row if isinstance(row, bytes) else encode(row)
                found[f"{name}, {serializer.id}"] = serializer, data
    return found
