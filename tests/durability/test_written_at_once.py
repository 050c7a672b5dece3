"""Steps are written when they end, whatever else is under way, and without holding up an event loop."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import warnings
from pathlib import Path
from typing import Any

import pytest

from hypergraph import AsyncRunner, FunctionNode, Graph, SyncRunner, interrupt, node
from hypergraph.checkpointers import MemoryCheckpointer, SqliteCheckpointer, StepStatus
from hypergraph.exceptions import StoreError

MODES = pytest.mark.parametrize("durability", ["sync", "async"])


def stored(path: Path) -> list[str]:
    """Return the nodes that another reader of the file sees."""
    return [step.node_name for step in SqliteCheckpointer(path).steps("w")]


def waits_for(path: Path, name: str) -> bool:
    """Wait until a step is stored; the background writer needs a moment."""
    for _ in range(6000):
        if name in stored(path):
            return True
        threading.Event().wait(0.01)
    return False


@MODES
def test_a_finished_step_is_stored_while_its_sibling_runs(tmp_path: Path, durability: Any) -> None:
    path, seen = tmp_path / "runs.db", []

    @node(output_name="mail")
    def mail(x: int) -> str:
        return "sent"

    @node(output_name="slow")
    def slow(x: int) -> int:
        seen.append(waits_for(path, "mail"))
        return 1

    store = SqliteCheckpointer(path, durability=durability)
    SyncRunner(checkpointer=store).run(Graph([mail, slow], name="g"), x=1, workflow_id="w")
    assert seen == [True]


@MODES
def test_a_finished_step_is_stored_while_a_task_waits(tmp_path: Path, durability: Any) -> None:
    path, seen = tmp_path / "runs.db", []

    @node(output_name="mail")
    async def mail(x: int) -> str:
        return "sent"

    @node(output_name="bad")
    async def bad(x: int) -> str:
        raise OSError("down")

    @node(output_name="slow")
    async def slow(x: int) -> int:
        found = await asyncio.gather(*(asyncio.to_thread(waits_for, path, name) for name in ("mail", "bad")))
        seen.extend(found)
        return 1

    store = SqliteCheckpointer(path, durability=durability)
    graph = Graph([slow, mail, bad], name="g")
    run = AsyncRunner(checkpointer=store).run(graph, x=1, workflow_id="w", error_handling="continue")
    asyncio.run(run)
    assert seen == [True, True]


class Lock:
    """A connection of another program that holds the file."""

    def __init__(self, path: Path) -> None:
        self.connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self.connection.execute("BEGIN IMMEDIATE")

    def free(self) -> None:
        self.connection.execute("ROLLBACK")
        self.connection.close()


@MODES
@pytest.mark.parametrize("kept", [True, False], ids=["repeatable", "not repeatable"])
def test_a_locked_file_does_not_stop_the_event_loop(tmp_path: Path, durability: Any, kept: bool) -> None:
    path, beats = tmp_path / "runs.db", []

    async def one(x: int) -> int:
        beats.append("one")
        lock.append(Lock(path))
        return x

    async def two(a: int) -> int:
        beats.append("two")
        return a

    async def main() -> Any:
        store = SqliteCheckpointer(path, durability=durability)
        store.workflows()  # opens it
        graph = Graph([FunctionNode(one, "one", "a", repeatable=kept), FunctionNode(two, "two", "b")])
        task = asyncio.create_task(AsyncRunner(checkpointer=store).run(graph, x=1, workflow_id="w"))
        while not lock:
            await asyncio.sleep(0)
        for _ in range(20):  # the loop is free while the run waits for the file, or completes in memory
            await asyncio.sleep(0.001)
        beats.append("free")
        lock[0].free()
        return await task

    lock: list[Lock] = []
    result = asyncio.run(main())
    assert result["b"] == 1
    assert beats == (["one", "two", "free"] if durability == "async" else ["one", "free", "two"])
    assert stored(path) == ["one", "two"]


def test_a_run_begins_beside_a_locked_file_without_stopping_the_loop(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"

    @node(output_name="a")
    async def one(x: int) -> int:
        return x

    async def main() -> Any:
        runner = AsyncRunner(checkpointer=SqliteCheckpointer(path))
        await runner.run(Graph([one], name="g"), x=1, workflow_id="before")
        lock = Lock(path)
        task = asyncio.create_task(runner.run(Graph([one], name="g"), x=1, workflow_id="w"))
        for _ in range(20):
            await asyncio.sleep(0.001)
        assert not task.done()
        lock.free()
        return await task

    assert asyncio.run(main())["a"] == 1


def test_an_answer_that_begins_a_run_is_not_written_by_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @node(output_name="draft")
    async def write(said: str) -> str:
        return f"draft for {said}"

    @interrupt(output_name="said")
    def ask(draft: str) -> None:
        return None

    store = SqliteCheckpointer(tmp_path / "runs.db")
    plain, waited = store.backend.write, []

    def watched(commit: Any) -> None:
        waited.extend(threading.current_thread() is threading.main_thread() for _ in commit.inputs)
        plain(commit)

    monkeypatch.setattr(store.backend, "write", watched)
    result = asyncio.run(
        AsyncRunner(checkpointer=store).run(Graph([write, ask]), said="tea", workflow_id="w")
    )
    assert result.pause.value == "draft for tea"
    assert store.inputs("w") == {"said": "tea"}
    assert not any(waited)


def test_how_long_a_lock_is_waited_for_is_a_setting(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    store = SqliteCheckpointer(path, lock_timeout=0.01)
    store.create_workflow("w")
    lock = Lock(path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(StoreError, match="locked"):
            store.create_workflow("v")
    lock.free()
    store.create_workflow("v")
    for wrong in (-1, True, "5", float("inf")):
        with pytest.raises(ValueError, match="lock_timeout"):
            SqliteCheckpointer(path, lock_timeout=wrong)  # type: ignore[arg-type]


def test_a_long_wait_for_a_lock_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "runs.db"
    store = SqliteCheckpointer(path, lock_timeout=0.05)
    store.create_workflow("w")
    monkeypatch.setattr("hypergraph.checkpointers.sqlite.database._PATIENCE", 0.0)
    lock = Lock(path)
    with pytest.warns(UserWarning, match="locked by another process"), pytest.raises(StoreError):
        store.create_workflow("v")
    lock.free()


@pytest.mark.parametrize("limit", [None, 1])
def test_a_run_cancelled_before_the_call_is_not_ambiguous(limit: int | None) -> None:
    called: list[int] = []

    @node(output_name="receipt", repeatable=False)
    async def charge(order: int) -> str:
        called.append(order)
        return "paid"

    async def main() -> Any:
        store = MemoryCheckpointer()
        announced, go_on = asyncio.Event(), threading.Event()
        loop, write = asyncio.get_running_loop(), store.backend.write

        def slow_write(commit: Any) -> None:
            write(commit)
            if commit.running == "charge" and not called:
                loop.call_soon_threadsafe(announced.set)
                go_on.wait(10)

        store.backend.write = slow_write  # type: ignore[method-assign]
        runner = AsyncRunner(checkpointer=store)
        task = asyncio.create_task(runner.run(Graph([charge], name="g"), order=1, workflow_id="w"))
        await announced.wait()
        task.cancel()
        await asyncio.sleep(0)
        go_on.set()
        await asyncio.wait([task])
        assert task.cancelled()
        assert [step.status for step in store.steps("w")] == [StepStatus.FAILED]
        store.backend.write = write  # type: ignore[method-assign]
        return await runner.run(Graph([charge], name="g"), order=1, workflow_id="w", max_concurrency=limit)

    assert asyncio.run(main())["receipt"] == "paid"
    assert called == [1]
