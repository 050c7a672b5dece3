"""Facts that a stored step keeps beside its values: attributes of errors, waiting, where inputs came from."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from support.running import RUNNERS, On, OnAsync, OnSync

from hypergraph import AsyncRunner, Graph, SyncRunner, node
from hypergraph.checkpointers import AesGcmCodec, MemoryCheckpointer, SqliteCheckpointer
from hypergraph.views.step import step as shown_step


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return MemoryCheckpointer() if request.param == "memory" else SqliteCheckpointer(tmp_path / "w.db")


@pytest.fixture(params=[OnSync, OnAsync], ids=RUNNERS)
def on(request: pytest.FixtureRequest, store: Any) -> On:
    made: On = request.param(checkpointer=store)
    return made


class RefusedError(Exception):
    """An error with data."""

    def __init__(self, code: str, **more: Any) -> None:
        super().__init__(f"refused: {code}")
        self.code = code
        self.__dict__.update(more)

    @property
    def broken(self) -> Any:
        raise RuntimeError


@node(output_name="b")
def refuse(a: int) -> int:
    raise RefusedError(
        "E42", retry_after=1.5, fields=["x", {"y": None}], client=object(), _private=1, broken_too=[object()]
    )


@node(output_name="b")
def leave(a: int) -> int:
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("given", [{}, {"name": "x", "step": "mix"}], ids=["neither", "both"])
def test_provenance_is_asked_of_a_value_or_of_a_step(store: Any, given: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="the name of a value, or step="):
        store.provenance("w", **given)


def test_plain_attributes_of_an_error_are_kept(on: On, store: Any) -> None:
    with pytest.raises(RefusedError):
        on.run(Graph([refuse]), {"a": 1}, workflow_id="w")
    with pytest.raises(OSError, match="No space"):
        on.run(Graph([leave]), {"a": 1}, workflow_id="o")
    expected = {"code": "E42", "retry_after": 1.5, "fields": ["x", {"y": None}]}
    for found in (store.steps("w")[0], store.steps("w", values=False)[0], store.step("w", 0)):
        assert found.error_attributes == expected
        assert found.error == "refused: E42"
        assert found.values in (None, {})
    assert shown_step(store, "w", 0)["error_attributes"] == expected
    assert store.steps("o")[0].error_attributes == {"errno": 28}


def test_huge_attributes_are_left_out(on: On, store: Any) -> None:
    @node(output_name="b")
    def large(a: int) -> int:
        raise RefusedError("E1", page="x" * 10_000)

    with pytest.raises(RefusedError):
        on.run(Graph([large]), {"a": 1}, workflow_id="w")
    assert store.steps("w")[0].error_attributes == {}


def test_attributes_are_redacted_and_encrypted(tmp_path: Path) -> None:
    store = SqliteCheckpointer(
        tmp_path / "w.db",
        codec=AesGcmCodec(bytes(32)),
        redact=lambda node, name, value: "***" if name == "retry_after" else value,
    )
    with pytest.raises(RefusedError):
        SyncRunner(checkpointer=store).run(Graph([refuse]), a=1, workflow_id="w")
    assert store.steps("w")[0].error_attributes["retry_after"] == "***"
    store.close()
    assert b"retry_after" not in (tmp_path / "w.db").read_bytes().replace(b"retry_after=1.5", b"")


def test_attributes_survive_retention_and_forks(tmp_path: Path) -> None:
    store = SqliteCheckpointer(tmp_path / "w.db", retention="latest")
    with pytest.raises(RefusedError):
        SyncRunner(checkpointer=store).run(Graph([refuse]), a=1, workflow_id="w")
    with pytest.raises(RefusedError):
        SyncRunner(checkpointer=store).run(Graph([refuse]), fork_from=("w", None), workflow_id="f")
    assert [step.error_attributes["code"] for step in store.steps("f")] == ["E42", "E42"]


def test_a_step_that_waited_for_a_worker_says_since_when(store: Any) -> None:
    @node(output_name="y")
    def work(x: int) -> int:
        return x

    graph = Graph([work])
    free = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(free.wait)
        runner = AsyncRunner(checkpointer=store, executor=pool)

        async def main() -> None:
            run = asyncio.create_task(runner.run(graph, x=1, workflow_id="w"))
            while pool._work_queue.empty():
                await asyncio.sleep(0.001)
            await asyncio.sleep(0.03)
            free.set()
            await run

        asyncio.run(main())
    (step,) = store.steps("w")
    assert step.waited_ms is not None
    assert step.waited_ms >= 20
    assert step.queued_at == step.started_at - timedelta(milliseconds=step.waited_ms)
    assert step.created_at == step.started_at <= step.completed_at
    shown = shown_step(store, "w", 0)
    assert shown["waited_ms"] == step.waited_ms
    assert shown["queued_at"] < shown["started_at"]


def test_a_step_that_did_not_wait_began_when_it_could(on: On, store: Any) -> None:
    on.run(Graph([node(output_name="y")(lambda x: x).with_name("f")]), {"x": 1}, workflow_id="w")
    (step,) = store.steps("w")
    assert step.waited_ms is None
    assert step.queued_at == step.started_at == step.created_at


@node(output_name="b")
def mix(a: int, scale: int, offset: int = 7) -> int:
    return a * scale + offset


@node(output_name="c")
def last(b: int, offset: int = 7) -> int:
    return b + offset


def test_inputs_show_what_was_bound_and_defaults(on: On, store: Any) -> None:
    graph = Graph([mix, last]).bind(scale=3)
    on.run(graph, {"a": 2}, workflow_id="w")
    assert store.inputs("w", "mix") == {"a": 2}
    assert store.inputs("w", "mix", graph=graph) == {"a": 2, "scale": 3, "offset": 7}
    found = store.provenance("w", step="mix")
    assert {origin.name: (origin.source, origin.stored) for origin in found} == {
        "a": ("given", True),
        "scale": ("bound", False),
        "offset": ("default", False),
    }
    found = store.provenance("w", step="last", graph=graph)
    assert [(o.source, o.value, o.step and o.step.node_name) for o in found] == [
        ("step", 13, "mix"),
        ("default", 7, None),
    ]
    assert asyncio.run(store.get_inputs("w", "mix", graph=graph))["scale"] == 3
    problems = {item["name"]: item["problem"] for item in shown_step(store, "w", 0)["inputs"]}
    assert problems["a"] is None
    assert problems["scale"] == "bound, not stored"
