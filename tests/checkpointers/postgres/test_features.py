"""What stored runs can do, on Postgres: the same as in a file."""

from __future__ import annotations

import asyncio
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from support.postgres import store_in

from hypergraph import END, AsyncRunner, Graph, SyncRunner, node, route
from hypergraph.checkpointers import MsgpackSerializer, PickleSerializer
from hypergraph.checkpointers.references import REFERENCE
from hypergraph.durability import summaries
from hypergraph.exceptions import StoreFullError


@pytest.fixture
def store(tmp_path: Path) -> Any:
    return store_in(tmp_path)


@node(output_name="b")
def mix(a: int, scale: int = 2) -> int:
    return a * scale


@node(output_name="c")
def last(b: int) -> int:
    return b + 1


def test_a_best_effort_store_that_fails_is_reported_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = store_in(tmp_path, durability="best-effort")
    runner, write, is_full = SyncRunner(checkpointer=store), type(store.backend).write, [False]

    def guarded(self: Any, commit: Any) -> None:
        if is_full[0]:
            raise StoreFullError("no space left")
        write(self, commit)

    monkeypatch.setattr(type(store.backend), "write", guarded)

    @node(output_name="x")
    def fill(a: int) -> int:
        is_full[0] = True
        return a

    @node(output_name="y")
    def free(x: int) -> int:
        is_full[0] = False
        return x + 1

    @node(output_name="z")
    def between(y: int) -> int:
        return y + 1

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert runner.run(Graph([fill, free, between]), a=1, workflow_id="w")["z"] == 3
    assert len([found for found in caught if "best-effort" in str(found.message)]) == 1
    assert store.workflow("w").status.value == "completed"
    assert [step.node_name for step in store.steps("w")] == ["fill", "free", "between"]


def test_a_step_that_waited_for_a_worker_says_since_when(store: Any) -> None:
    free = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(free.wait)
        runner = AsyncRunner(checkpointer=store, executor=pool)

        async def main() -> None:
            run = asyncio.create_task(runner.run(Graph([mix]), a=1, workflow_id="w"))
            while pool._work_queue.empty():
                await asyncio.sleep(0.001)
            await asyncio.sleep(0.03)
            free.set()
            await run

        asyncio.run(main())
    (step,) = store.steps("w")
    assert step.waited_ms >= 20
    assert step.queued_at == step.started_at - timedelta(milliseconds=step.waited_ms)
    assert step.created_at == step.started_at <= step.completed_at


class RefusedError(Exception):
    """An error with attributes."""

    def __init__(self, code: str, **more: Any) -> None:
        super().__init__(f"refused: {code}")
        self.code = code
        self.__dict__.update(more)


def test_plain_attributes_of_an_error_are_kept(store: Any) -> None:
    @node(output_name="b")
    def refuse(a: int) -> int:
        raise RefusedError("E42", retry_after=1.5, fields=["x", {"y": None}], client=object())

    with pytest.raises(RefusedError):
        SyncRunner(checkpointer=store).run(Graph([refuse]), a=1, workflow_id="w")
    for found in (store.steps("w")[0], store.steps("w", values=False)[0], store.step("w", 0)):
        assert found.error_attributes == {"code": "E42", "retry_after": 1.5, "fields": ["x", {"y": None}]}


class Odd:
    """A class that JSON cannot store."""

    __slots__ = ("n",)

    def __init__(self, n: int) -> None:
        self.n = n

    def __reduce__(self) -> Any:
        return Odd, (self.n,)


def test_values_have_serializers_by_name(tmp_path: Path) -> None:
    choice = {"odd": PickleSerializer(allow_pickle=True), "words": MsgpackSerializer()}
    store = store_in(tmp_path, serializer=choice)

    @node(output_name=("odd", "words", "rest"))
    def make(n: int) -> tuple[Odd, list[str], int]:
        return Odd(n), ["a"] * 20, n

    SyncRunner(checkpointer=store).run(Graph([make]), n=3, workflow_id="w")
    formats = {p.name: p.format.partition("/")[0] for p in store.backend.read_outputs("w")}
    assert formats == {"odd": "pickle", "words": "msgpack", "rest": "json"}
    state = store_in(tmp_path, serializer=choice).state("w")
    assert (state["odd"].n, state["words"], state["rest"]) == (3, ["a"] * 20, 3)


def test_inputs_say_where_they_came_from(store: Any) -> None:
    graph = Graph([mix, last]).bind(scale=3)
    SyncRunner(checkpointer=store).run(graph, a=2, workflow_id="w")
    assert store.inputs("w", "mix", graph=graph) == {"a": 2, "scale": 3}
    found = store.provenance("w", step="mix")
    assert {origin.name: (origin.source, origin.stored) for origin in found} == {
        "a": ("given", True),
        "scale": ("bound", False),
    }
    (origin,) = store.provenance("w", step="last")
    assert (origin.source, origin.value, origin.step.node_name) == ("step", 6, "mix")


def test_redacted_inputs_are_compared_by_a_keyed_fingerprint(tmp_path: Path) -> None:
    called: list[str] = []

    @node(output_name="size")
    def measure(secret: str) -> int:
        called.append(secret)
        return len(secret)

    def hidden(node: str | None, name: str, value: Any) -> Any:
        return "***" if name == "secret" else value

    for secret in ("abc", "abc", "abd", "abd"):
        store = store_in(tmp_path, redact=hidden)
        assert (
            SyncRunner(checkpointer=store).run(Graph([measure]), secret=secret, workflow_id="w")["size"] == 3
        )
    assert called == ["abc", "abd"]
    assert store.inputs("w") == {"secret": "***"}


def test_failed_items_begin_at_their_first_node_and_share_what_is_not_mapped(store: Any) -> None:
    called: list[str] = []
    failing = {1}
    docs = [f"page {number}" for number in range(10)]

    @node(output_name="y")
    def first(x: int, docs: list[str]) -> int:
        called.append(f"first {x}")
        return len(docs)

    @node(output_name="z")
    def second(x: int, y: int) -> int:
        called.append(f"second {x}")
        if x in failing:
            raise RuntimeError("refused")
        return x + y

    graph, runner = Graph([first, second]), SyncRunner(checkpointer=store)
    options: dict[str, Any] = {"map_over": "x", "workflow_id": "m", "error_handling": "continue"}
    runner.map(graph, {"x": [0, 1, 2], "docs": docs}, **options)
    called.clear()
    failing.clear()
    found = runner.map(graph, {"x": [0, 1, 2], "docs": docs}, restart="item", **options)
    assert [item["z"] for item in found] == [10, 11, 12]
    assert called == ["first 1", "second 1"]
    for number in range(3):
        (kept,) = [p for p in store.backend.read_inputs(f"m/item-{number}") if p.name == "docs"]
        assert kept.format == REFERENCE
        assert store.inputs(f"m/item-{number}")["docs"] == docs


def test_a_long_loop_is_resumed_from_its_summary(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(summaries, "EVERY", 4)
    failing = {9}

    @node(output_name="n")
    def count(n: int) -> int:
        if n in failing:
            raise RuntimeError("once")
        return n + 1

    @route(targets=["count", END])
    def again(n: int) -> Any:
        return END if n >= 20 else "count"

    graph, runner = Graph([count, again], name="loop"), SyncRunner(checkpointer=store)
    assert runner.run(graph, n=0, workflow_id="w", error_handling="continue").failed
    found = store.encoding.read_summary("w", store.backend.read_summary("w"))
    assert 0 < found["last"] <= 18
    failing.clear()
    assert runner.run(graph, workflow_id="w")["n"] == 20
    again_called = runner.run(graph, workflow_id="w")
    assert again_called["n"] == 20
    assert len(again_called.log.steps) == 41
    store.delete("w")
    assert store.backend.read_summary("w") is None
