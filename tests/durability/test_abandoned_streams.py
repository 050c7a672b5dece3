"""Readers of a stream whose writer was killed: each of them ends, and says why."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from support.cli import Cli
from support.processes import Elsewhere, elsewhere

from hypergraph import Graph, NodeContext, SyncRunner, node
from hypergraph.checkpointers import SqliteCheckpointer
from hypergraph.ui.apps import Apps
from hypergraph.ui.server import Server, Setup
from hypergraph.views.watch import streamed

__all__ = ["elsewhere"]  # a fixture


def speak(file: str, *, dies: bool) -> str:
    """Run a workflow whose node streams two words; it may be killed at the third."""
    store = SqliteCheckpointer(file)

    @node(output_name="text", stream=True)
    def write(context: NodeContext) -> str:
        context.stream("one ")
        context.stream("two ")
        while store.backend.live.read_streams("w")[0].length < 2:
            pass
        if dies:
            os.kill(os.getpid(), signal.SIGKILL)
        return "done"

    return SyncRunner(checkpointer=store).run(Graph([write], name="g"), workflow_id="w").status.value


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory, elsewhere: Elsewhere) -> Path:
    """A store with a workflow whose process is gone."""
    found = tmp_path_factory.mktemp("abandoned") / "runs.db"
    elsewhere.dies(speak, str(found), dies=True)
    return found


def test_a_reader_ends_and_continues_after_a_resume(tmp_path: Path, elsewhere: Elsewhere) -> None:
    file = tmp_path / "runs.db"
    elsewhere.dies(speak, str(file), dies=True)
    store = SqliteCheckpointer(file)
    reader = store.read_stream("w", "write")
    assert [chunk.value for chunk in reader] == ["one ", "two "]
    assert reader.is_abandoned
    elsewhere(speak, str(file), dies=False)
    later = store.read_stream("w", "write", offset=reader.offset)
    assert [chunk.kind for chunk in later] == ["restart", "chunk", "chunk"]
    assert not later.is_abandoned


def test_a_reader_in_an_event_loop_ends_too(file: Path) -> None:
    async def read() -> tuple[list[str], bool]:
        reader = SqliteCheckpointer(file).read_stream("w", "write")
        return [chunk.value async for chunk in reader], reader.is_abandoned

    assert asyncio.run(read()) == (["one ", "two "], True)


def test_a_timeout_that_comes_first_says_nothing_about_the_owner(file: Path) -> None:
    reader = SqliteCheckpointer(file).read_stream("w", "write", timeout=0.01)
    assert len([*reader]) == 2
    assert not reader.is_abandoned


def test_watch_ends_with_the_words_and_the_code_that_it_has_without_a_stream(file: Path) -> None:
    cli = Cli(file)
    said = cli("watch", "w", "--stream", "write", code=1).out
    assert said == "one two \n" + cli("watch", "w", code=1).out
    assert "active (owner process is gone)" in said
    assert len(cli("watch", "w", "--stream", "write", "--jsonl", code=1).out.splitlines()) == 2


def test_events_and_pages_say_that_no_more_comes(file: Path) -> None:
    store = SqliteCheckpointer(file)
    server = Server(Setup(store, "runs.db", "token", 8765, "1", Apps(dict)))
    client = TestClient(
        server.app, base_url="http://127.0.0.1:8765", headers={"authorization": "Bearer token"}
    )
    answer = client.get("/api/v1/stream", params={"id": "w", "node": "write"})
    assert answer.text.endswith('event: end\ndata: {"abandoned":true}\n\n')
    assert streamed(store, "w", "write")["active"] is False
