"""Runs that are cancelled while their beginning or their end is being written down."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from hypergraph import (
    AsyncEventProcessor,
    AsyncRunner,
    Event,
    FunctionNode,
    Graph,
    RunStartEvent,
    SyncRunner,
    node,
)
from hypergraph.checkpointers import SqliteCheckpointer, WorkflowStatus
from hypergraph.durability import map_recorder, recorder

CANCELLED = "CancelledError: the task of the run was cancelled"  # servers look for it when they start


@node(output_name="doubled")
async def double(x: int) -> int:
    return 2 * x


def test_who_is_cancelled_while_its_end_is_written_leaves_no_lock_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on, close = threading.Event(), threading.Event(), recorder.WorkflowRecorder.close

    def held_up(self: Any, run: Any) -> Any:
        begun.set()
        assert go_on.wait(30)
        return close(self, run)

    monkeypatch.setattr(recorder, "_SLOW", -1.0)  # every commit counts as slow, and goes to a thread
    monkeypatch.setattr(recorder.WorkflowRecorder, "close", held_up)
    store, graph = SqliteCheckpointer(tmp_path / "w.db"), Graph([double], name="doubling")

    async def main() -> Any:
        runner = AsyncRunner(checkpointer=store)
        call = asyncio.create_task(runner.run(graph, {"x": 2}, workflow_id="w"))
        assert await asyncio.to_thread(begun.wait, 30)
        call.cancel()
        for _ in range(5):
            await asyncio.sleep(0)
        assert not call.done()
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await call
        return await runner.run(graph, {"x": 2}, workflow_id="w")

    assert asyncio.run(main())["doubled"] == 4
    assert store.workflow("w").status is WorkflowStatus.COMPLETED


@node(output_name="total")
async def add(doubled: list[int]) -> int:
    return sum(doubled)


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize(
    ("method", "place"), [("open_map", "w/each"), ("open", "w/each/item-0"), ("open", "w")]
)
def test_who_is_cancelled_while_its_beginning_is_written_leaves_no_lock_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str, place: str, times: int
) -> None:
    begun, go_on, real = threading.Event(), threading.Event(), getattr(recorder.WorkflowRecorder, method)

    def held_up(self: Any, run: Any) -> Any:
        found = real(self, run)
        if run.workflow_id == place and not begun.is_set():
            begun.set()
            assert go_on.wait(30)
        return found

    monkeypatch.setattr(recorder, "_SLOW", -1.0)  # every commit counts as slow, and goes to a thread
    monkeypatch.setattr(recorder.WorkflowRecorder, method, held_up)
    store, inner = SqliteCheckpointer(tmp_path / "w.db"), Graph([double], name="doubling")
    graph = Graph([inner.as_node(name="each").map_over("x"), add], name="adding")

    async def main() -> Any:
        runner = AsyncRunner(checkpointer=store)
        call = asyncio.create_task(runner.run(graph, {"x": [2, 3]}, workflow_id="w"))
        assert await asyncio.to_thread(begun.wait, 30)
        for _ in range(times):
            call.cancel()
            for _ in range(5):
                await asyncio.sleep(0)
        assert not call.done()
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert store.workflow("w").status is WorkflowStatus.STOPPED
        assert store.workflow("w").reason == CANCELLED
        assert store.backend.read_owners(["w", "w/each", "w/each/item-0"]) == {}
        return await runner.run(graph, {"x": [2, 3]}, workflow_id="w")

    assert asyncio.run(main())["total"] == 10


def test_a_run_that_is_cancelled_before_its_first_step_says_so(tmp_path: Path) -> None:
    class Slow(AsyncEventProcessor):
        async def on_event_async(self, event: Event) -> None:
            begun.set()
            await asyncio.sleep(30 if isinstance(event, RunStartEvent) else 0)

    begun, store = asyncio.Event(), SqliteCheckpointer(tmp_path / "w.db")

    async def main() -> None:
        runner = AsyncRunner(checkpointer=store)
        graph = Graph([double], name="doubling")
        call = asyncio.create_task(runner.run(graph, {"x": 2}, workflow_id="w", event_processors=[Slow()]))
        await begun.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    asyncio.run(main())
    assert (store.workflow("w").status, store.workflow("w").reason) == (WorkflowStatus.STOPPED, CANCELLED)


def test_a_map_that_is_cancelled_while_its_beginning_is_written_leaves_no_lock_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on, real = threading.Event(), threading.Event(), recorder.WorkflowRecorder.open_map

    def held_up(self: Any, map_run: Any) -> None:
        real(self, map_run)
        begun.set()
        assert go_on.wait(30)

    monkeypatch.setattr(recorder, "_SLOW", -1.0)
    monkeypatch.setattr(recorder.WorkflowRecorder, "open_map", held_up)
    store, graph = SqliteCheckpointer(tmp_path / "w.db"), Graph([double], name="doubling")

    async def main() -> Any:
        runner = AsyncRunner(checkpointer=store)
        call = asyncio.create_task(runner.map(graph, {"x": [2, 3]}, map_over="x", workflow_id="w"))
        assert await asyncio.to_thread(begun.wait, 30)
        call.cancel()
        await asyncio.sleep(0)
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await call
        return await runner.map(graph, {"x": [2, 3]}, map_over="x", workflow_id="w")

    assert asyncio.run(main())["doubled"] == [4, 6]


def test_a_map_that_cannot_begin_is_given_back_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    twice = FunctionNode(lambda x: 2 * x, name="twice", output_name="doubled")
    store, graph = SqliteCheckpointer(tmp_path / "w.db"), Graph([twice], name="doubling")
    runner = SyncRunner(checkpointer=store)
    runner.map(graph, {"x": [2]}, map_over="x", workflow_id="w")

    def unreadable(*_: Any) -> None:
        raise RuntimeError("no key")

    with monkeypatch.context() as patch:
        patch.setattr(map_recorder, "count_spent", unreadable)
        with pytest.raises(RuntimeError, match="no key"):
            runner.map(graph, {"x": [2, 3]}, map_over="x", workflow_id="w")
    assert store.workflow("w").status is WorkflowStatus.COMPLETED
    assert runner.map(graph, {"x": [2, 3]}, map_over="x", workflow_id="w")["doubled"] == [4, 6]
