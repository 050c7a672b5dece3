"""Payloads of chance through every reader of stored bytes: none raises, imports, or costs much.

Whole values are changed byte by byte, cut, doubled and spliced; trees of tags are made up. No payload comes
twice. What takes longest by design, two megabytes of each kind, is read as well, whole and changed.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID
from zlib import crc32

import msgspec
import numpy as np
import pyarrow as pa
from security import costly
from security.costly import MOST_MEMORY, MOST_SECONDS, Peak

from hypergraph.answers import check, from_text, stored_schema
from hypergraph.checkpointers.artifacts import ArtifactRef
from hypergraph.checkpointers.deltas import applied, difference
from hypergraph.checkpointers.encoding import Encoding
from hypergraph.checkpointers.inner_steps import content_of, inner_step_of
from hypergraph.checkpointers.live import ChunkPage
from hypergraph.checkpointers.live import _read_visit as chunks_in
from hypergraph.checkpointers.records import ANSWER, ERROR, PAUSE, SUMMARY, Payload
from hypergraph.checkpointers.sql import transfer
from hypergraph.checkpointers.sql.columns import or_corrupt
from hypergraph.checkpointers.sql.live import _batch
from hypergraph.checkpointers.sql.reads import _graph_in, record_of, workflow_of
from hypergraph.display import preview
from hypergraph.durability.summaries import _Facts
from hypergraph.exceptions import (
    CheckpointError,
    DecryptionError,
    InvalidAnswerError,
    StoreCorruptError,
)
from hypergraph.graph.drawing import draw
from hypergraph.graph.picture import plain_boxes
from hypergraph.layout import arrange
from hypergraph.structure import signals_in
from hypergraph.ui.search import _text_of
from hypergraph.ui.streams import _event
from hypergraph.values import tags
from hypergraph.values.codecs import CodecChain, ZlibCodec, ZstdCodec
from hypergraph.values.encryption import AesGcmCodec
from hypergraph.values.serializers import JsonSerializer, MsgpackSerializer
from hypergraph.views import export
from hypergraph.views.inner import inner_view
from hypergraph.views.problems import Problem
from hypergraph.views.values import brief, describe
from hypergraph.views.workflow import signal_view
from proofs.outcome import Outcome, scaled

NAME = "payloads of chance"
FULL = 100_000  # payloads, no two of them the same
_BATCH = 500  # payloads whose memory is measured together
_JSON, _MSGPACK = JsonSerializer(), MsgpackSerializer()
_CHAIN = CodecChain(also_reads=[ZlibCodec(max_size=2**20), ZstdCodec(max_size=2**20)])
_ENCODING = Encoding(_JSON, _CHAIN)
_SEALED = Encoding(_JSON, CodecChain([AesGcmCodec(bytes(32))])).verifying()
_SEALED.read_store_id = lambda: b"store"
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


Readers = dict[str, Callable[[bytes], object]]


def parsers() -> Readers:
    """Return the readers of stored bytes by name; what each of them may raise is said by who calls it."""

    def shown(value: Any) -> None:
        preview(value)
        describe(value)
        brief(value)

    def drawn(data: bytes) -> None:
        try:
            arrange(plain_boxes(draw(or_corrupt(_graph_in)(_text(data)) or {})))
        except (ValueError, StoreCorruptError):
            pass

    def named(data: bytes) -> None:
        try:
            ArtifactRef.from_text(_text(data))
        except CheckpointError:
            pass

    def patched(data: bytes) -> None:
        try:
            applied(b"0123456789" * 5, [data])
        except ValueError:
            pass

    def workflow(part: str) -> Callable[[bytes], None]:
        def work(data: bytes) -> None:
            given = {"tags": None, "crashes": None, "graph": None, "hashes": None, part: _text(data)}
            row = ("w", "completed", None, 1, None, None, None, None, None, given["tags"], 1.0)
            row = (*row, None, None, 1, None, None, given["crashes"])
            _or_corrupt(lambda: or_corrupt(workflow_of)((*row, 0, given["hashes"])))
            _or_corrupt(lambda: transfer._workflow_part((*row, 0, given["graph"], given["hashes"])))

        return work

    def step(part: str) -> Callable[[bytes], None]:
        def work(data: bytes) -> None:
            row = _step_row(**{part: _text(data)})
            _or_corrupt(lambda: or_corrupt(record_of)("w", row, (), _ENCODING, values=True))
            _or_corrupt(lambda: transfer._step_part(row[1:]))

        return work

    def sealed(data: bytes) -> None:
        for extra in (_text(data), json.dumps({"seal": _text(data)})):
            row = _step_row(extra=extra)
            try:
                _or_corrupt(lambda row=row: or_corrupt(record_of)("w", row, (), _SEALED, values=True))
            except DecryptionError:
                pass

    def imported(data: bytes) -> None:
        head = msgspec.json.encode({"schema": export.SCHEMA})
        for content in (data, head + b"\n" + data):
            try:
                export._parts(content)
            except Problem:
                pass

    def decoded(data: bytes) -> None:
        for format in ("json/1", "json/1+zlib/1", "json/1+zstd/1"):
            shown(_ENCODING.value("w", Payload("x", 1, format, crc32(data), data)))
        shown(_SEALED.value("w", Payload("x", 1, "json/1+aesgcm/1", crc32(data), data)))

    def inner(data: bytes) -> None:
        payload = Payload("k", 1, "json/1", crc32(data), data)
        inner_view(inner_step_of("n", payload, content_of(_ENCODING, "w", payload)))

    def asked(data: bytes) -> None:
        pause = _ENCODING._read_pause("w", "n", Payload(PAUSE, 0, "json/1", crc32(data), data))
        shown(pause.value)
        for name, key in pause.response_keys.items():
            for convert in (partial(check, key, 1), partial(from_text, key, "1")):
                try:
                    convert((pause.schemas or {}).get(name))
                except InvalidAnswerError:
                    pass

    def answer(data: bytes) -> None:
        shown(_ENCODING._read_answer("w", Payload(ANSWER, 0, "json/1", crc32(data), data)))

    def error(data: bytes) -> None:
        shown(_ENCODING._read_error("w", Payload(ERROR, 0, "json/1", crc32(data), data)))

    def sent(data: bytes) -> None:
        signal_view(_ENCODING.read_signal("w", Payload("n", 0, "json/1", crc32(data), data)))

    def received(data: bytes) -> None:
        """Read the signals of a stored graph, and compare a value with their types."""
        try:
            graph = or_corrupt(_graph_in)(_text(data)) or {}
        except StoreCorruptError:
            return
        for name, schema in signals_in(graph).items():
            try:
                from_text(name, "1", stored_schema(schema))
            except InvalidAnswerError:
                pass

    def summarized(data: bytes) -> None:
        _ENCODING.read_summary("w", Payload(SUMMARY, 0, "json/1", crc32(data), data))
        try:
            msgspec.convert(json.loads(_text(data)[:5000]), _Facts)
        except (ValueError, RecursionError):
            pass

    def searched(data: bytes) -> None:
        _text_of(_ENCODING.value("w", Payload("x", 1, "json/1", crc32(data), data)))

    def streamed(data: bytes) -> None:
        page = ChunkPage(0, [_batch(0, 3, "json/1", crc32(data), data)])
        backend = SimpleNamespace(live=SimpleNamespace(read_chunks=lambda *_: page))
        store: Any = SimpleNamespace(encoding=_ENCODING, backend=backend)
        for chunk in chunks_in(store, "w", "n", 0):
            _event(chunk)

    return {
        "an inner step": inner,
        "arguments of an inner step": lambda data: inner(
            b'{"status":"completed","function":"f","args":' + data + b"}"
        ),
        "a question": asked,
        "the type of an answer": lambda data: asked(
            b'{"node_name":"n","output_param":"o","schemas":{"o":' + data + b"}}"
        ),
        "an answer": answer,
        "attributes of an error": error,
        "chunks of a stream": streamed,
        "a signal": sent,
        "signals of a graph": received,
        "a summary": summarized,
        "a text to search in": searched,
        "json": lambda data: shown(_JSON.deserialize(data)),
        "msgpack": lambda data: shown(_MSGPACK.deserialize(data)),
        "json for viewing": lambda data: shown(_JSON.without_types().deserialize(data)),
        "msgpack for viewing": lambda data: shown(_MSGPACK.without_types().deserialize(data)),
        "a value with codecs": decoded,
        "a patch": patched,
        "a reference": named,
        **{f"the {part} of a workflow": workflow(part) for part in ("tags", "crashes", "graph", "hashes")},
        **{f"the {part} of a step": step(part) for part in ("versions", "extra")},
        "a sealed step": sealed,
        "a graph": drawn,
        "an export": imported,
    }


def _or_corrupt(work: Callable[[], object]) -> None:
    try:
        work()
    except StoreCorruptError:
        pass


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _step_row(versions: str = "[{},{}]", extra: str | None = None) -> tuple[Any, ...]:
    return (1, 0, "f", 0, "completed", 1, 2, 1.0, 0, 1, None, None, versions, extra)


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
    tables = [pa.table({"t": ["a", None], "l": [[1], []]}), np.arange(6.0).reshape(2, 3), np.float32(1)]
    found += [serializer.serialize(value) for serializer in (_JSON, _MSGPACK) for value in tables]
    found.append(json.dumps(_STRUCTURE).encode())
    found.append(difference(b"0123456789" * 5, b"0123456789" * 5 + b"more"))
    found.append(f"v1 file 5 {'ab' * 32} sha256:{'ab' * 32} application/json".encode())
    found.append(b'{"decision": ["a"], "visit": 2, "attempt_errors": ["x"], "wait_versions": {"a": 1}}')
    found.append(b'[{"a": 1, "b": 2}, {"c": 3}]')
    found.append(
        b'{"status": "completed", "function": "f", "args": [1], "kwargs": {"a": 2}, "result": 3, '
        b'"started": 1.5, "ms": 2, "error": null, "attempt": 1}'
    )
    found.append(
        b'{"node_name": "n", "output_param": "o", "value": 1, "path": ["p"], "due": '
        b'"2030-01-01T00:00:00+00:00", "schemas": {"o": {"type": "array", "items": {"enum": [1, "a"]}}}}'
    )
    found.append(b'{"value": {"a": 1}, "by": "ann", "at": "2030-01-01T00:00:00+00:00"}')
    found.append(
        b'{"last": 9, "places": [[8, "f"], [9, "g"]], "rules": 2, "shape": "f2", "standing": {"due": 3}, '
        b'"versions": {"a": 1}, "visits": [[0, 4]], "sources": {"a": [8, "f"]}, "writes": {"a": [null]}}'
    )
    found.append(
        b'{"nodes": [{"name": "n", "kind": "interrupt", "signal": "s", "answer": {"type": "string", '
        b'"pattern": "^a+$", "anyOf": [{"enum": [1, "a"], "x-names": ["A"]}, {"minLength": 1}]}}]}'
    )
    found.append(b'{"answer": {"o": 1}, "answered_by": "ann", "answered_at": null}')
    found.append(_JSON.serialize([b"1", b'"x"', b"{}"]))
    found.append(b'{"kind":"value","role":"input","name":"a","superstep":0,"index":-1,"node":"","version":1}')
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


def payloads(count: int, seed: int) -> Iterator[bytes]:
    """Yield payloads, no two of them the same."""
    rnd, wholes, seen = random.Random(seed), _wholes(), set[int]()
    while len(seen) < count:
        data = _payload(rnd, wholes)
        if (digest := hash(data)) not in seen:
            seen.add(digest)
            yield data


def prove(scale: float = 1.0, seed: int = 0) -> Outcome:
    """Read payloads of chance, and those that are expensive by design; a case is a payload in all readers."""
    outcome, readers = Outcome(NAME), parsers()
    for data in _wholes():  # whatever is loaded on first use
        for read in readers.values():
            read(data)
    count = scaled(FULL, scale if scale >= 1 else scale / 15)
    before, peak = set(sys.modules), Peak()
    with outcome.timed():
        for number, data in enumerate(payloads(count, seed)):
            where = f"seed {seed}, payload {number}"
            found = [_trouble(f"{where}, {name}", read, data) for name, read in readers.items()]
            outcome.count("; ".join(filter(None, found)) or None)
            if number % _BATCH == _BATCH - 1:
                if (taken := peak.taken()) > MOST_MEMORY:
                    outcome.count(f"{where} or one of the {_BATCH} before it: {taken} bytes of memory")
                peak = Peak()
        imported = sorted(name for name in set(sys.modules) - before if name.partition(".")[0] not in _LOADED)
        outcome.count(f"seed {seed} imported {imported}" if imported else None)
        if Peak.is_known:
            _measure(outcome, readers, scale, seed)
    return outcome


_LOADED = {"encodings", "numpy", "pyarrow", "pandas", "polars", "tzdata", "zoneinfo", "importlib", "dateutil"}


def _trouble(where: str, parse: Callable[[bytes], object], data: bytes) -> str | None:
    start = time.process_time()
    try:
        parse(data)
    except Exception as error:
        return f"{where}: {type(error).__name__}: {error}: {data!r:.200}"
    seconds = time.process_time() - start
    return f"{where}: {seconds:.1f} s: {data!r:.200}" if seconds > MOST_SECONDS else None


def _measure(outcome: Outcome, readers: Readers, scale: float, seed: int) -> None:
    """Count what the expensive rows cost in every reader, whole and changed; a slice takes some of them."""
    rnd, every = random.Random(seed), 1 if scale >= 1 else round(4 / scale)
    cases = [
        (row, is_changed, name) for row in costly.rows().items() for is_changed in (0, 1) for name in readers
    ]
    for (kind, (_, data)), is_changed, name in cases[seed % every :: every]:
        changed = bytearray(data)
        for _ in range(rnd.choice((1, 2, 5)) if is_changed else 0):
            changed[rnd.randrange(len(changed))] = rnd.randrange(256)
        given = bytes(changed)
        where = f"seed {seed}, {kind}{', changed' * is_changed}, {name}"
        try:
            found = costly.cost_of(lambda name=name, given=given: readers[name](given))
        except costly.Failed as error:
            outcome.count(f"{where}: {error}")
            continue
        is_dear = found.memory > MOST_MEMORY or found.seconds > MOST_SECONDS
        outcome.count(f"{where}: {found}" if is_dear else None)
