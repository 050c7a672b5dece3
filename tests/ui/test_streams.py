"""Streams of nodes as server-sent events."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from hypergraph import Graph, NodeContext, SyncRunner, node
from hypergraph.checkpointers import CheckpointPolicy, SqliteCheckpointer
from hypergraph.ui.apps import Apps
from hypergraph.ui.server import Server, Setup
from hypergraph.ui.streams import asked_for
from hypergraph.views.problems import Problem


@node(output_name="text", stream=True)
def write(words: list[str], context: NodeContext) -> str:
    for word in words:
        context.stream(word)
    return " ".join(words)


@node(output_name="number")
def count(words: list[str]) -> int:
    return len(words)


@pytest.fixture
def client(tmp_path: Path) -> TestClient:
    store = SqliteCheckpointer(tmp_path / "runs.db")
    SyncRunner(checkpointer=store).run(
        Graph([write, count], name="g"), words=["a", "b\n", "c"], workflow_id="w"
    )
    return client_of(store)


def client_of(store: SqliteCheckpointer) -> TestClient:
    server = Server(Setup(store, "runs.db", "token", 8765, "1", Apps(dict)))
    return TestClient(server.app, base_url="http://127.0.0.1:8765", headers={"authorization": "Bearer token"})


def events(text: str) -> list[tuple[str, Any]]:
    blocks = [
        dict(line.split(": ", 1) for line in block.splitlines()) for block in text.strip().split("\n\n")
    ]
    return [(block["event"], json.loads(block["data"])) for block in blocks if "event" in block]


def test_chunks_are_events_with_their_offsets_until_the_end(client: TestClient) -> None:
    answer = client.get("/api/v1/stream", params={"id": "w", "node": "write"})
    assert answer.headers["content-type"].startswith("text/event-stream")
    found = events(answer.text)
    assert [data.get("value") for _, data in found] == ["a", "b\n", "c", None]
    assert found[-1] == ("end", {})
    assert "id: 2\n" in answer.text


def test_a_browser_goes_on_after_the_last_event(client: TestClient) -> None:
    answer = client.get("/api/v1/stream", params={"id": "w", "node": "write"}, headers={"last-event-id": "1"})
    assert [data.get("offset") for _, data in events(answer.text)] == [2, None]


def test_a_browser_goes_on_after_a_gap_without_losing_a_chunk(tmp_path: Path) -> None:
    store = SqliteCheckpointer(tmp_path / "runs.db", policy=CheckpointPolicy(stream_limit=100_000))
    words = [f"{number:02000}" for number in range(2000)]
    SyncRunner(checkpointer=store).run(Graph([write, count], name="g"), words=words, workflow_id="w")
    client = client_of(store)
    answer = client.get("/api/v1/stream", params={"id": "w", "node": "write"})
    (_, gap), (_, first), *_ = events(answer.text)
    assert (gap["kind"], first["value"]) == ("gap", words[first["offset"]])
    assert answer.text.split("\n\n")[1].startswith(f"id: {gap['offset']}\n")
    after = {"last-event-id": str(gap["offset"])}
    again = client.get("/api/v1/stream", params={"id": "w", "node": "write"}, headers=after)
    assert events(again.text)[0] == ("chunk", first)


def test_requests_without_a_workflow_or_a_node_are_refused(client: TestClient) -> None:
    assert client.get("/api/v1/stream", params={"id": "w"}).status_code == 400
    assert client.get("/api/v1/stream", params={"id": "nothing", "node": "write"}).status_code == 404
    assert client.get("/api/v1/stream", params={"id": "w", "node": "x", "offset": "-1"}).status_code == 400
    unknown = client.get("/api/v1/stream", params={"id": "w", "node": "wrte"})
    assert (unknown.status_code, unknown.json()["error"]["hint"]) == (404, "Did you mean 'write'?")
    silent = client.get("/api/v1/stream", params={"id": "w", "node": "count"})
    assert (silent.status_code, silent.json()["error"]["matches"]) == (404, ["write"])
    with pytest.raises(Problem, match="Last-Event-ID"):
        asked_for([("id", "w"), ("node", "x")], "last")
