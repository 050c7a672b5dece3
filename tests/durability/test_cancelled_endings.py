"""Runs that are cancelled while their end is being written down."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from hypergraph import AsyncRunner, Graph, node
from hypergraph.checkpointers import SqliteCheckpointer, WorkflowStatus
from hypergraph.durability import recorder


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
