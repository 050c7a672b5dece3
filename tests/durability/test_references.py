"""Inputs of nested graphs: larger values are stored as references to those of the graph around."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.durable import Bodies, bodies
from support.running import RUNNERS, On, OnAsync, OnSync

from hypergraph import END, Graph, SyncRunner, node, route
from hypergraph.checkpointers import (
    AesGcmCodec,
    Checkpointer,
    SqliteCheckpointer,
    Undecodable,
)
from hypergraph.checkpointers.memory import MemoryBackend
from hypergraph.checkpointers.references import REFERENCE

__all__ = ["bodies"]  # fixtures


@pytest.fixture(params=["memory", "sqlite", "encrypted"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    if request.param == "memory":
        return Checkpointer(MemoryBackend())
    codec = AesGcmCodec(bytes(32)) if request.param == "encrypted" else None
    return SqliteCheckpointer(tmp_path / "w.db", codec=codec)


@pytest.fixture(params=[OnSync, OnAsync], ids=RUNNERS)
def on(request: pytest.FixtureRequest, store: Any) -> On:
    made: On = request.param(checkpointer=store)
    return made


@node(output_name="messages", append=True)
def listen(said: str) -> str:
    return said


@node(output_name="answer")
def reply(messages: list[str], limit: int = 3) -> str:
    return f"{len(messages)} of {limit}"


@node(output_name="messages", append=True)
def speak(answer: str) -> str:
    return answer


@route(targets=["inner", END])
def once(messages: list[str]) -> Any:
    return END if " of " in messages[-1] else "inner"


def chat(nested: bool) -> Graph:
    thinking = Graph([reply], name="inner").as_node() if nested else reply.with_name("inner")
    return Graph([listen, once, thinking, speak], name="chat")


def formats(store: Any, workflow_id: str) -> dict[str, bool]:
    """Return which inputs are stored as references."""
    return {p.name: p.format == REFERENCE for p in store.backend.read_inputs(workflow_id)}


def test_each_visit_has_its_own_inputs_and_none_has_a_copy(on: On, store: Any) -> None:
    for number in range(8):
        on.run(chat(nested=True), {"said": f"turn {number}"}, workflow_id="w")
    said: list[str] = []
    for number in range(8):
        said.append(f"turn {number}")
        child = "w/inner" if number == 0 else f"w/inner#{number + 1}"
        assert store.inputs(child) == {"messages": said}
        assert formats(store, child) == {"messages": len(said) >= 4}
        assert store.inputs(child, "reply")["messages"] == said
        assert store.checkpoint(child).values["messages"] == said
        said.append(f"{len(said)} of 3")


def test_passing_a_history_into_a_nested_graph_takes_at_most_twice_the_bytes(tmp_path: Path) -> None:
    sizes = []
    for nested in (False, True):
        store = SqliteCheckpointer(tmp_path / f"{nested}.db")
        runner = SyncRunner(checkpointer=store)
        for number in range(60):
            runner.run(chat(nested), said=f"{number} " + "x" * 300, workflow_id="w")
        store.close()
        sizes.append((tmp_path / f"{nested}.db").stat().st_size)
    assert sizes[1] <= 2 * sizes[0]


def failing(bodies: Bodies, wrong: list[int]) -> Graph:
    """Return a nested graph of two nodes, the second of which fails as long as something is wrong."""

    @node(output_name="texts")
    def make(n: int) -> list[str]:
        bodies.enter("make")
        return ["x" * n] * 10

    @node(output_name="sizes")
    def measure(texts: list[str]) -> list[int]:
        bodies.enter("measure")
        return [len(text) for text in texts]

    @node(output_name="total")
    def add(sizes: list[int], texts: list[str]) -> int:
        bodies.enter("add")
        if wrong:
            raise OSError("down")
        return sum(sizes) + len(texts)

    return Graph([make, Graph([measure, add], name="inner").as_node()], name="outer")


def test_a_nested_graph_that_failed_continues_inside(on: On, store: Any, bodies: Bodies) -> None:
    wrong = [1]
    with pytest.raises(OSError, match="down"):
        on.run(failing(bodies, wrong), {"n": 3}, workflow_id="w")
    assert formats(store, "w/inner") == {"texts": True}
    bodies.take()
    wrong.clear()
    assert on.run(failing(bodies, wrong), {"n": 3}, workflow_id="w")["total"] == 40
    assert bodies.take() == ["add"]
    assert on.run(failing(bodies, wrong), {"n": 4}, workflow_id="w")["total"] == 50
    assert bodies.take() == ["make", "measure", "add"]
    assert [len(store.inputs(child)["texts"][0]) for child in ("w/inner", "w/inner#2")] == [3, 4]


def test_a_fork_has_the_inputs_of_its_nested_graphs(on: On, store: Any, bodies: Bodies) -> None:
    on.run(failing(bodies, []), {"n": 3}, workflow_id="w")
    assert on.run(failing(bodies, []), fork_from=("w", None), workflow_id="f")["total"] == 40
    store.delete("w")
    assert store.inputs("f/inner") == {"texts": ["xxx"] * 10}


def test_graphs_at_any_depth_and_given_values_are_referred_to(on: On, store: Any) -> None:
    @node(output_name="size")
    def measure(words: list[str]) -> int:
        return len(words)

    inside = Graph([measure], name="inside").as_node().with_inputs(words="terms")
    outside = Graph([inside], name="middle").as_node().with_inputs(terms="names")
    names = [f"name {number}" for number in range(20)]
    assert on.run(Graph([outside]), {"names": names}, workflow_id="w")["size"] == 20
    assert store.inputs("w/middle") == {"terms": names}
    assert store.inputs("w/middle/inside") == {"words": names}
    assert formats(store, "w/middle/inside") == {"words": True}
    assert store.inputs("w/middle/inside", 0) == {"words": names}


def test_items_of_a_nested_map_share_what_is_not_mapped(on: On, store: Any) -> None:
    @node(output_name="found")
    def look(word: str, words: list[str]) -> int:
        return words.index(word)

    words = [f"word {number}" for number in range(12)]
    looking = Graph([look], name="looking").as_node().with_inputs(word="wanted").map_over("wanted")
    result = on.run(Graph([looking]), {"wanted": words[:2], "words": words}, workflow_id="w")
    assert result["found"] == [0, 1]
    assert store.inputs("w/looking/item-1") == {"word": "word 1", "words": words}
    assert formats(store, "w/looking/item-1") == {"word": False, "words": True}


def _read(store: Any, workflow_id: str) -> dict[str, Any]:
    found = store.encoding.versioned(workflow_id, store.backend.read_inputs(workflow_id))
    return {name: value for name, (_, value) in found.items()}


def _formats(store: Any, workflow_id: str) -> dict[str, str]:
    return {payload.name: payload.format for payload in store.backend.read_inputs(workflow_id)}


def _search(bodies: Bodies, failing: set[str]) -> Graph:
    @node(output_name="found")
    def find(word: str, docs: list[str]) -> int:
        bodies.enter(word)
        if word in failing:
            raise RuntimeError("down")
        return sum(word in doc for doc in docs)

    return Graph([find], name="search")


DOCS = [f"page {number} of tea and milk" for number in range(20)]


def test_items_of_a_map_share_what_is_not_mapped(on: On, store: Any, bodies: Bodies) -> None:
    failing = {"milk"}
    graph, options = _search(bodies, failing), {"map_over": "word", "workflow_id": "m"}
    values = {"word": ["tea", "milk", "beer"], "docs": DOCS}
    on.map(graph, values, **options, error_handling="continue")
    for number in range(3):
        assert _formats(store, f"m/item-{number}")["docs"] == REFERENCE
        assert _read(store, f"m/item-{number}") == {"word": values["word"][number], "docs": DOCS}
    failing.clear()
    result = on.map(graph, {**values, "word": [*values["word"], "rum"]}, **options)
    assert [item["found"] for item in result] == [20, 20, 0, 0]
    assert bodies.take() == ["tea", "milk", "beer", "milk", "rum"]
    assert _formats(store, "m/item-3")["docs"] == REFERENCE


def test_items_with_another_value_than_those_before_have_a_copy(on: On, store: Any, bodies: Bodies) -> None:
    graph, options = _search(bodies, set()), {"map_over": "word", "workflow_id": "m", "key": "word"}
    on.map(graph, {"word": ["tea", "milk"], "docs": DOCS}, **options)
    result = on.map(graph, {"word": ["tea", "beer"], "docs": DOCS[:10]}, **options)
    assert [item["found"] for item in result] == [10, 0]
    assert _formats(store, "m/item-2")["docs"] != REFERENCE
    assert _read(store, "m/item-2")["docs"] == _read(store, "m/item-0")["docs"] == DOCS[:10]
    assert _read(store, "m/item-1")["docs"] == DOCS


def test_a_fork_of_an_item_has_its_inputs(on: On, store: Any, bodies: Bodies) -> None:
    graph = _search(bodies, set())
    on.map(graph, {"word": ["tea", "milk"], "docs": DOCS}, map_over="word", workflow_id="m")
    fork = on.run(graph, word="beer", fork_from=("m/item-0", None), workflow_id="fork")
    assert fork["found"] == 0
    assert _read(store, "fork")["docs"] == DOCS


def test_what_is_not_kept_or_written_later_is_not_referred_to(tmp_path: Path) -> None:
    @node(output_name="texts", persist=False)
    def make(n: int) -> list[int]:
        return [n] * 10

    @node(output_name="size")
    def measure(texts: list[int]) -> int:
        return len(texts)

    graph = Graph([make, Graph([measure], name="inner").as_node()])
    store = SqliteCheckpointer(tmp_path / "w.db")
    SyncRunner(checkpointer=store).run(graph, n=1, workflow_id="w")
    assert formats(store, "w/inner") == {"texts": False}
    for durability in ("async", "exit"):
        late = SqliteCheckpointer(tmp_path / "late.db", durability=durability)
        SyncRunner(checkpointer=late).run(chat(nested=True), said="x" * 999, workflow_id=durability)
        assert formats(late, f"{durability}/inner") == {"messages": False}


def test_what_retention_has_dropped_is_said_to_be_gone(tmp_path: Path) -> None:
    store = SqliteCheckpointer(tmp_path / "w.db", retention="latest")
    for number in range(4):
        SyncRunner(checkpointer=store).run(failing(Bodies(), []), n=number, workflow_id="w")
    found = store.inputs("w/inner#2")["texts"]
    assert isinstance(found, Undecodable)
    assert "replaced" in found.reason or "dropped" in found.reason
    assert store.inputs("w/inner#4")["texts"] == ["xxx"] * 10


@pytest.mark.parametrize("data", [b"", b"[]", b'[9,"texts",1,-1]', b"[1,2,3,4]", b"\xff"])
def test_damaged_references_are_undecodable(tmp_path: Path, data: bytes) -> None:
    import sqlite3
    from zlib import crc32

    store = SqliteCheckpointer(tmp_path / "w.db")
    SyncRunner(checkpointer=store).run(failing(Bodies(), []), n=1, workflow_id="w")
    store.close()
    with sqlite3.connect(tmp_path / "w.db") as connection:
        connection.execute("UPDATE vals SET data = ?, checksum = ? WHERE format = '^'", (data, crc32(data)))
    assert isinstance(store.inputs("w/inner")["texts"], Undecodable)
