"""Payloads of chance through every reader of stored bytes: none raises, imports, or costs much.

Whole values are changed byte by byte, cut, doubled and spliced; trees of tags are made up. What takes longest
by design, two megabytes of each kind, is read as well.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any
from uuid import UUID
from zlib import crc32

import msgspec
from security import costly
from security.costly import MOST_MEMORY, MOST_SECONDS

from hypergraph.checkpointers.artifacts import ArtifactRef
from hypergraph.checkpointers.deltas import applied, difference
from hypergraph.checkpointers.encoding import Encoding
from hypergraph.checkpointers.records import Payload
from hypergraph.checkpointers.sql.columns import fields_of, or_corrupt
from hypergraph.checkpointers.sql.rows import extras_in, workflow_of
from hypergraph.display import jsonable, preview
from hypergraph.exceptions import CheckpointError, StoreCorruptError
from hypergraph.graph.drawing import draw
from hypergraph.graph.picture import plain_boxes
from hypergraph.layout import arrange
from hypergraph.values import tags
from hypergraph.values.codecs import CodecChain, ZlibCodec, ZstdCodec
from hypergraph.values.serializers import JsonSerializer, MsgpackSerializer
from hypergraph.views.values import describe
from proofs.outcome import Outcome, scaled

NAME = "payloads of chance"
FULL = 100_000
_JSON, _MSGPACK = JsonSerializer(), MsgpackSerializer()
_CHAIN = CodecChain(also_reads=[ZlibCodec(max_size=2**20), ZstdCodec(max_size=2**20)])
_ENCODING = Encoding(_JSON, _CHAIN)
_NAMES = (*tags.MAKE, "object", "ndarray", "npscalar", "frame", "no", "")
_PARTS = ("v", "of", "tz", "fold", "name", "dtype", "shape", "safe", "x")
_STRUCTURE: dict[str, Any] = {
    "version": 1,
    "name": "g",
    "nodes": [
        {"name": "f", "kind": "function", "inputs": ["a"], "outputs": ["b"], "emit": [], "wait_for": []},
        {"name": "g", "kind": "gate", "inputs": ["b"], "outputs": [], "targets": ["f", "END"], "emit": []},
    ],
    "edges": [{"source": "f", "target": "g", "type": "data", "values": ["b"]}],
    "inputs": {"required": ["a"], "optional": [], "bound": [], "entrypoints": {}},
}
_VALUES: tuple[Any, ...] = (
    {"a": [1, 2.5, None, True], "b": "text", "c": {"d": [[], {}]}},
    [(1, 2), {3, 4}, frozenset("ab"), b"bytes", bytearray(b"x"), 2**100, -(2**3000), float("nan"), 1j],
    [Decimal("1.50"), Fraction(1, 3), UUID(int=7), {1: 2, (3,): 4}, "\ud800", Path("/a/b")],
)


def _parsers() -> dict[str, Callable[[bytes], object]]:
    def shown(value: Any) -> None:
        preview(value)
        jsonable(value)
        describe(value)

    def drawn(data: bytes) -> None:
        try:
            arrange(plain_boxes(draw(json.loads(data))))
        except (ValueError, RecursionError):
            pass  # said by the view

    def named(data: bytes) -> None:
        try:
            ArtifactRef.from_text(data.decode("utf-8", "replace"))
        except CheckpointError:
            pass

    def patched(data: bytes) -> None:
        try:
            applied(b"0123456789" * 5, [data])
        except ValueError:
            pass

    def row(data: bytes) -> None:
        text = data.decode("utf-8", "replace")
        for build in (lambda: workflow_of(_row(text)), lambda: or_corrupt(extras_in)(text)):
            try:
                build()
            except StoreCorruptError:
                pass

    def decoded(data: bytes) -> None:
        for format in ("json/1", "json/1+zlib/1", "json/1+zstd/1"):
            shown(_ENCODING.value("w", Payload("x", 1, format, crc32(data), data)))

    return {
        "json": lambda data: shown(_JSON.deserialize(data)),
        "msgpack": lambda data: shown(_MSGPACK.deserialize(data)),
        "json for viewing": lambda data: shown(_JSON.without_types().deserialize(data)),
        "msgpack for viewing": lambda data: shown(_MSGPACK.without_types().deserialize(data)),
        "a value with codecs": decoded,
        "a patch": patched,
        "a reference": named,
        "a row": row,
        "a graph": drawn,
    }


def _row(text: str) -> tuple[Any, ...]:
    row: list[Any] = ["w", "completed", None, 1, None, None, None, None, None, text, 1.0]
    return (*row, None, None, 1, None, None, text, 0, text)


def _tree(rnd: random.Random, depth: int = 3) -> Any:
    kind = rnd.randrange(8 if depth else 5)
    if kind < 2:
        return rnd.choice((0, 1, -1, 2**63, -(2**63), 0.5, None, True))
    if kind < 5:
        return rnd.choice(
            ("", "x", "1", "0x" + "f" * rnd.randrange(50), "2024-01-01", "AAAA", "<i4", "\ud7ff")
        )
    if kind == 5:
        return [_tree(rnd, depth - 1) for _ in range(rnd.randrange(4))]
    parts = {rnd.choice(_PARTS): _tree(rnd, depth - 1) for _ in range(rnd.randrange(4))}
    return {"$": rnd.choice(_NAMES), **parts} if kind == 6 else parts


def _wholes() -> list[bytes]:
    found = [serializer.serialize(value) for serializer in (_JSON, _MSGPACK) for value in _VALUES]
    found += [codec.encode(data) for codec in (ZlibCodec(), ZstdCodec()) for data in found[:3]]
    found.append(json.dumps(_STRUCTURE).encode())
    found.append(difference(b"0123456789" * 5, b"0123456789" * 5 + b"more"))
    found.append(f"v1 file 5 {'ab' * 32} sha256:{'ab' * 32} application/json".encode())
    found.append(b'{"decision": ["a"], "visit": 2, "attempt_errors": ["x"], "wait_versions": {"a": 1}}')
    return found


def _payload(rnd: random.Random, wholes: list[bytes]) -> bytes:
    how = rnd.randrange(6)
    if how == 0:
        return msgspec.json.encode(_tree(rnd))
    if how == 1:
        return msgspec.msgpack.encode(_tree(rnd))
    if how == 2:
        return rnd.randbytes(rnd.randrange(80))
    data = bytearray(rnd.choice(wholes))
    if how == 3:
        for _ in range(rnd.choice((1, 1, 2, 5))):
            data[rnd.randrange(len(data))] = rnd.choice((0, 0x80, 0xFF, 0x22, 0x5B, rnd.randrange(256)))
    elif how == 4:
        del data[rnd.randrange(len(data)) :]
    else:
        start = rnd.randrange(len(data))
        data[start:start] = rnd.choice(wholes)[: rnd.randrange(60)] * rnd.randrange(4)
    return bytes(data)


def prove(scale: float = 1.0, seed: int = 0) -> Outcome:
    """Read payloads of chance, and those that are expensive by design."""
    outcome, rnd, wholes = Outcome(NAME), random.Random(seed), _wholes()
    parsers = _parsers()
    assert fields_of is not None
    for data in wholes:  # whatever is loaded on first use
        for parse in parsers.values():
            parse(data)
    before = set(sys.modules)
    with outcome.timed():
        for number in range(scaled(FULL, scale) // len(parsers) + 1):
            data = _payload(rnd, wholes)
            for name, parse in parsers.items():
                outcome.count(_trouble(f"seed {seed}, payload {number}, {name}: {data!r:.200}", parse, data))
        imported = sorted(name for name in set(sys.modules) - before if name.partition(".")[0] not in _LOADED)
        outcome.count(f"seed {seed} imported {imported}" if imported else None)
        if os.path.exists("/proc/self/clear_refs"):
            _measure(outcome, scale)
    return outcome


_LOADED = {"encodings", "numpy", "pyarrow", "pandas", "polars", "tzdata", "zoneinfo", "importlib", "dateutil"}


def _trouble(where: str, parse: Callable[[bytes], object], data: bytes) -> str | None:
    start = time.process_time()
    try:
        parse(data)
    except Exception as error:
        return f"{where}: {type(error).__name__}: {error}"
    seconds = time.process_time() - start
    return f"{where}: {seconds:.1f} s" if seconds > MOST_SECONDS else None


def _measure(outcome: Outcome, scale: float) -> None:
    """Count what the expensive rows cost; a slice takes some of them."""
    rows = list(costly.rows().items())
    for name, (reader, data) in rows[:: max(1, round(1 / min(1.0, scale * 2)))]:
        for each in (reader, reader.without_types()):
            found = costly.cost_of(lambda each=each, data=data: each.deserialize(data))
            is_dear = found.memory > MOST_MEMORY or found.seconds > MOST_SECONDS
            outcome.count(f"{name}: {found}" if is_dear else None)
