"""The state of a workflow: its values after each superstep."""

from __future__ import annotations

import asyncio
from pathlib import Path

from hypergraph import AsyncRunner, Graph, SqliteCheckpointer, node
from hypergraph.views.state import state
from hypergraph.views.step import step


def test_the_version_of_a_list_does_not_run_backwards_when_a_later_superstep_ends_first(
    tmp_path: Path,
) -> None:
    ended = asyncio.Event()

    @node(output_name="notes", append=True)
    async def slow(x: int) -> str:
        await ended.wait()
        return "slow"

    @node(output_name="y")
    async def quick(x: int) -> int:
        return x

    @node(output_name="notes", append=True)
    async def after_quick(y: int) -> str:
        ended.set()
        return "after quick"

    @node(output_name="report")
    def report(notes: list[str]) -> str:
        return ", ".join(notes)

    with SqliteCheckpointer(tmp_path / "runs.db") as store:
        graph = Graph([slow, quick, after_quick, report])
        asyncio.run(AsyncRunner(checkpointer=store).run(graph, x=1, workflow_id="w"))
        versions = [
            (item["version"], item["size"])
            for at in (0, 1, None)
            for item in state(store, "w", at=at)["items"]
            if item["name"] == "notes"
        ]
        taken = next(item for item in step(store, "w", 3)["inputs"] if item["name"] == "notes")
    assert versions == [(2, 1), (2, 2), (2, 2)]  # slow ended last, so its part is version 2
    assert taken["version"] == 2
