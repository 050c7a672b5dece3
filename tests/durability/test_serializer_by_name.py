"""Serializers of single values: a dict of them by name, and one for all others."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from support.running import RUNNERS, OnAsync, OnSync

from hypergraph import Graph, SyncRunner, node
from hypergraph.checkpointers import (
    AesGcmCodec,
    JsonSerializer,
    MsgpackSerializer,
    PickleSerializer,
    SqliteCheckpointer,
    Undecodable,
    ZlibCodec,
)

kinds = pytest.mark.parametrize("kind", [OnSync, OnAsync], ids=RUNNERS)


class Odd:
    """A class that JSON cannot store."""

    def __init__(self, n: int) -> None:
        self.n = n
        self.fun = {n}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Odd) and other.n == self.n

    def __hash__(self) -> int:
        return self.n

    def __reduce__(self) -> Any:
        return Odd, (self.n,)

    __slots__ = ("fun", "lock", "n")


@node(output_name="odd")
def make(n: int) -> Odd:
    return Odd(n)


@node(output_name=("small", "words"))
def use(odd: Odd) -> tuple[int, list[str]]:
    return odd.n + 1, ["a"] * 50


@node(output_name="end")
def fail(small: int, odd: Odd, words: list[str]) -> int:
    if not FLAG.is_set():
        raise RuntimeError("once")
    return small + odd.n + len(words)


FLAG = threading.Event()
CHOICE = {"odd": PickleSerializer(allow_pickle=True), "words": MsgpackSerializer()}


@kinds
@pytest.mark.parametrize("codec", [None, ZlibCodec(), AesGcmCodec(bytes(32))], ids=["plain", "zlib", "aes"])
def test_each_value_has_its_format_and_comes_back(kind: Any, codec: Any, tmp_path: Path) -> None:
    FLAG.clear()

    def opened() -> SqliteCheckpointer:
        return SqliteCheckpointer(tmp_path / "w.db", serializer=CHOICE, codec=codec)

    graph = Graph([make, use, fail])
    with pytest.raises(RuntimeError):
        kind(checkpointer=opened()).run(graph, {"n": 3}, workflow_id="w")
    formats = {p.name: p.format.partition("/")[0] for p in opened().backend.read_outputs("w")}
    assert formats == {"odd": "pickle", "small": "json", "words": "msgpack"}
    FLAG.set()
    assert kind(checkpointer=opened()).run(graph, workflow_id="w")["end"] == 4 + 3 + 50
    assert opened().state("w")["odd"] == Odd(3)


def test_a_store_without_that_serializer_says_so(tmp_path: Path) -> None:
    FLAG.set()
    store = SqliteCheckpointer(tmp_path / "w.db", serializer=CHOICE)
    SyncRunner(checkpointer=store).run(Graph([make, use, fail]), n=3, workflow_id="w")
    found = SqliteCheckpointer(tmp_path / "w.db").state("w")
    assert isinstance(found["odd"], Undecodable)
    assert "pickle" in found["odd"].reason
    assert found["small"] == 4


def test_the_rest_has_a_serializer_too(tmp_path: Path) -> None:
    FLAG.set()
    store = SqliteCheckpointer(
        tmp_path / "w.db",
        serializer={"*": MsgpackSerializer(), "odd": CHOICE["odd"], "end": JsonSerializer()},
    )
    SyncRunner(checkpointer=store).run(Graph([make, use, fail]), n=3, workflow_id="w")
    formats = {p.name: p.format.partition("/")[0] for p in store.backend.read_outputs("w")}
    assert formats == {"odd": "pickle", "small": "msgpack", "words": "msgpack", "end": "json"}


@kinds
def test_lists_and_growing_values_keep_their_format(kind: Any, tmp_path: Path) -> None:
    @node(output_name="messages", append=True)
    def listen(said: str) -> str:
        return said

    @node(output_name="count")
    def count(messages: list[str]) -> int:
        return len(messages)

    def opened(**options: Any) -> SqliteCheckpointer:
        return SqliteCheckpointer(tmp_path / "w.db", **options)

    graph = Graph([listen, count])
    choices: list[Any] = [{"messages": MsgpackSerializer()}, {"messages": MsgpackSerializer()}]
    for number, choice in enumerate(choices):
        on = kind(checkpointer=opened(serializer=choice))
        assert on.run(graph, {"said": f"turn {number}"}, workflow_id="w")["count"] == number + 1
    # Another choice later: what was written before is read by the serializer that wrote it.
    later = opened(serializer={"messages": JsonSerializer(), "other": MsgpackSerializer()})
    assert kind(checkpointer=later).run(graph, {"said": "last"}, workflow_id="w")["count"] == 3
    assert later.state("w")["messages"] == ["turn 0", "turn 1", "last"]
