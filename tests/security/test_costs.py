"""What reading a stored value may cost: 64 MiB and two seconds for two megabytes, whatever they contain."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import threading
import time
from fractions import Fraction
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from proofs.fuzzed import parsers

from hypergraph.checkpointers.query import milliseconds, parse
from hypergraph.values.serializers import JsonSerializer, MsgpackSerializer
from hypergraph.values.undecodable import Undecodable
from security import costly
from security.costly import MOST_MEMORY, MOST_SECONDS, PRIME, cost_of, frame, rows

linux = pytest.mark.skipif(not os.path.exists("/proc/self/clear_refs"), reason="counts memory as Linux does")
PARSERS = parsers()
SLICE = (
    *("a fraction, json", "a set of colliding integers, json", "a mapping with colliding keys, msgpack"),
    *("a long key over broken tags, json", "many broken tags, msgpack", "an array of many dimensions, json"),
    *("rows of nothing, pandas, json", "compressed zeros, pyarrow, json", "empty mappings, msgpack"),
    *("mappings in mappings, json", "a path of many parts, json", "runs without end, polars, json"),
)
ROWS = rows((*SLICE, "lists in lists, json", "many keys, json", "lists and a tag, json"))


@linux
@pytest.mark.parametrize("name", SLICE)
def test_reading_a_value_takes_little_memory_and_time(name: str) -> None:
    reader, data = ROWS[name]
    found = cost_of(lambda: reader.deserialize(data))
    assert found.memory <= MOST_MEMORY
    assert found.seconds <= MOST_SECONDS


@linux
@pytest.mark.parametrize("name", ["lists in lists, json", "mappings in mappings, json", "many keys, json"])
@pytest.mark.parametrize(
    "part",
    ["the tags of a workflow", "the graph of a workflow", "the extra of a step", "a graph", "an export"],
)
def test_reading_a_row_takes_little_memory_and_time(name: str, part: str) -> None:
    read, data = PARSERS[part], ROWS[name][1]
    found = cost_of(lambda: read(data))
    assert found.memory <= MOST_MEMORY
    assert found.seconds <= MOST_SECONDS


GIVES_WAY = 1.0  # seconds of the processor after which another thread gets its turn at the latest


@pytest.mark.parametrize("name", [*SLICE[:8], "lists in lists, json", "lists and a tag, json"])
def test_other_threads_get_their_turn_while_a_value_is_read(name: str) -> None:
    """No read keeps other threads waiting until it is done, so that a page answers meanwhile."""
    reader, data = ROWS[name]
    # The best of a few tries: a processor that others use too is slower.
    assert any(_longest_turn(reader, data) < GIVES_WAY for _ in range(5))


def _longest_turn(reader: Any, data: bytes) -> float:
    """Return the longest time that a read keeps another thread waiting."""
    done, longest = threading.Event(), 0.0
    thread = threading.Thread(target=lambda: (reader.deserialize(data), done.set()))
    last = time.process_time()
    thread.start()
    while not done.wait(0.0005):
        now = time.process_time()  # of the whole process: what the read took since the last turn
        longest, last = max(longest, now - last), now
    thread.join()
    return longest


# --- what is refused when it is read is refused when it is stored -----------------------------------


@pytest.mark.parametrize("serializer", [JsonSerializer(), MsgpackSerializer()], ids=lambda s: s.id)
@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (Fraction(2**70_000 + 1, 3), "a fraction of more than 65536 bits"),
        ({PRIME * n for n in range(1, 200)}, "too many elements with the same hash"),
        ({PRIME * n: 0 for n in range(1, 200)}, "too many elements with the same hash"),
    ],
    ids=["a fraction", "a set", "a mapping"],
)
def test_what_cannot_be_read_is_not_stored(serializer: Any, value: Any, reason: str) -> None:
    with pytest.raises(TypeError, match=reason):
        serializer.serialize(value)


def test_containers_without_end_are_not_stored() -> None:
    value: list[Any] = [{} for _ in range(1_000_000)]
    assert MsgpackSerializer().deserialize(MsgpackSerializer().serialize(value[:100_000])) == value[:100_000]
    with pytest.raises(TypeError, match="too many lists and mappings"):
        MsgpackSerializer().serialize(value)


@pytest.mark.parametrize("serializer", [JsonSerializer(), MsgpackSerializer()], ids=lambda s: s.id)
def test_large_values_of_many_kinds_are_still_stored(serializer: Any) -> None:
    values = [
        [{"id": n, "tags": [], "more": {}} for n in range(20_000)],
        ["{}" * 100, "[[[" * 300_000],
        b"\x80\x90" * 500_000,
        {n * 2**20 for n in range(10_000)},
        {(n, str(n)): n for n in range(5_000)},
        [0.5 * n for n in range(60_000)],
        Fraction(2**60_000 + 1, 3**30_000),
    ]
    for value in values:
        assert serializer.deserialize(serializer.serialize(value)) == value


# --- tables ---------------------------------------------------------------------------------------


def _stored(table: Any) -> bytes:
    return costly._stream(table)


@pytest.mark.parametrize("kind", ["pyarrow", "pandas", "polars"])
@pytest.mark.parametrize("wrong", [(0, 4, 65_536), (0, 65_536, 8), (0, -65_536, 8)])
def test_a_table_whose_offsets_lead_out_of_it_is_no_value(kind: str, wrong: tuple[int, ...]) -> None:
    data = bytearray(_stored(pa.table({"text": pa.array(["abcd", "efgh"], pa.large_string())})))
    offsets = struct.pack("<qqq", 0, 4, 8)
    place = data.index(offsets)
    data[place : place + 24] = struct.pack("<qqq", *wrong)
    found = JsonSerializer().deserialize(msgspec.json.encode(frame(kind, bytes(data))))
    assert isinstance(found, Undecodable)
    assert "not an Arrow stream" in found.reason


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_a_table_that_is_compressed_inside_is_refused_before_it_is_unpacked(compression: str) -> None:
    for table in (
        pa.table({"a": pa.array([bytes(1_000_000)])}),
        pa.table({"a": pa.array(["x" * 100_000, "y"]).dictionary_encode()}),
    ):
        data = costly._stream(table, compression)
        found = JsonSerializer().deserialize(msgspec.json.encode(frame("pyarrow", data)))
        assert isinstance(found, Undecodable)
        assert "compressed Arrow data" in found.reason


def test_a_dictionary_that_is_compressed_inside_is_refused_before_it_is_unpacked() -> None:
    """Of two streams of one table: the dictionary of the compressed one, everything else of the other."""
    table = pa.table({"a": pa.array(["x" * 100_000, "y"]).dictionary_encode()})
    streams = [costly._stream(table, compression) for compression in (None, "zstd")]
    plain, compressed = ([*pa.ipc.MessageReader.open_stream(data)] for data in streams)
    assert [message.type for message in plain] == ["schema", "dictionary", "record batch"]
    parts = [plain[0], compressed[1], plain[2]]
    data = b"".join(part.serialize().to_pybytes() for part in parts)
    found = JsonSerializer().deserialize(msgspec.json.encode(frame("pyarrow", data)))
    assert isinstance(found, Undecodable)
    assert "compressed Arrow data" in found.reason


FLIPPED = """
import random, sys
sys.path[:0] = sys.argv[2:]
import msgspec, pyarrow as pa
from security.costly import _stream, frame
from hypergraph.values.serializers import JsonSerializer
rnd, reader = random.Random(int(sys.argv[1])), JsonSerializer()
tables = [
    pa.table({"t": ["a", None, "ccc"], "n": [1, 2, 3], "b": [True, None, False]}),
    pa.table({"l": [[1, 2], None, []], "s": [{"x": 1}, {"x": None}, None]}),
    pa.table({"d": pa.array(["x", "y", "x"]).dictionary_encode()}),
    pa.table({"v": pa.array(["p" * 40, "q", None], pa.string_view())}),
]
for table in tables:
    whole = _stream(table)
    for _ in range(40):
        data = bytearray(whole)
        for _ in range(rnd.choice((1, 1, 2, 8))):
            data[rnd.randrange(len(data))] = rnd.choice((0, 1, 127, 128, 255, rnd.randrange(256)))
        for kind in ("pyarrow", "pandas", "polars"):
            found = reader.deserialize(msgspec.json.encode(frame(kind, bytes(data))))
            repr(found)
            if kind == "pyarrow" and hasattr(found, "to_pylist"):
                found.to_pylist()
print("alive")
"""


def test_no_changed_byte_of_a_table_ends_the_process() -> None:
    command = [sys.executable, "-c", FLIPPED, "7", *sys.path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "alive\n"), done.stderr[-2000:]


# --- questions ------------------------------------------------------------------------------------


def test_a_long_duration_is_refused_at_once() -> None:
    assert milliseconds("9" * 60_000) is None
    with pytest.raises(ValueError, match="Invalid since"):
        parse(since="9" * 60_000)
    assert milliseconds("1w2d3h4m5s6ms") == 788_645_006.0
