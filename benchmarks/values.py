"""What exactness costs: a serializer beside the bare encoder that would write the wrong thing silently.

python -m benchmarks.values
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any

import msgspec

from benchmarks.engine import Bar
from benchmarks.measure import Case, measure
from hypergraph.values.serializers import JsonSerializer, MsgpackSerializer

PLAIN: dict[str, Any] = {
    "small dict": {"id": 7, "name": "ann", "score": 0.5, "ok": True},
    "20 chat messages": [{"role": "user", "content": "How is the weather in Rome? " * 8} for _ in range(20)],
    "1,536 floats": [0.1 * i for i in range(1536)],
    "100 documents of 1 KB": [{"id": i, "text": "lorem ipsum " * 85, "score": 0.25} for i in range(100)],
}
TAGGED: dict[str, Any] = {
    "100 rows with a datetime": [{"id": i, "at": datetime(2024, 1, 1, tzinfo=UTC)} for i in range(100)],
}
LIMITS = {  # writing, reading, MessagePack; all others: (4, 2, 12)
    "small dict": (4, 3, 12),  # the calls themselves are half of it
    "100 rows with a datetime": (130, 30, 130),  # the bare encoder forgets that they were datetimes
}


def bar(name: str, limit: float, ours: Callable[[], object], bare: Callable[[], object]) -> Bar:
    cases = [Case("ours", ours), Case("bare", bare)]
    measure(cases)
    return Bar(name, cases[0].nanoseconds / cases[1].nanoseconds, limit, cases[0].nanoseconds)


def value_bars() -> list[Bar]:
    """Writing and reading, as multiples of msgspec's own encoder and decoder for the same value."""
    bars = []
    serializer, packer = JsonSerializer(), MsgpackSerializer()
    for name, value in (PLAIN | TAGGED).items():
        json, packed = serializer.serialize(value), packer.serialize(value)
        write, read, pack = LIMITS.get(name, (4, 2, 12))
        encode, decode = partial(msgspec.json.encode, value), partial(msgspec.json.decode, json)
        bars += [
            bar(f"{name}, write JSON", write, partial(serializer.serialize, value), encode),
            bar(f"{name}, read JSON", read, partial(serializer.deserialize, json), decode),
            bar(
                f"{name}, write MessagePack",
                pack,
                partial(packer.serialize, value),
                partial(msgspec.msgpack.encode, value),
            ),
        ]
        assert packer.deserialize(packed) == value
    return bars


if __name__ == "__main__":
    for found in value_bars():
        print(found)
