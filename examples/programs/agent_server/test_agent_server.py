"""The agent behind HTTP: streams, an approval across a restart, two requests at once, a dead model."""

from __future__ import annotations

import importlib
import json
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from model_server import ModelServer

BOTH = pytest.mark.parametrize("name", ["app", "langgraph_app"])


@contextmanager
def serve(name: str) -> Iterator[httpx.Client]:
    """Start the server as a new process would: a module of its own, and nothing in memory."""
    sys.modules.pop(name, None)
    server = uvicorn.Server(uvicorn.Config(importlib.import_module(name).app, port=0, log_level="error"))
    started, thread = threading.Event(), threading.Thread(target=server.run)
    startup = server.startup

    async def announce(*args: Any, **kwargs: Any) -> None:
        await startup(*args, **kwargs)
        started.set()

    server.startup = announce  # type: ignore[method-assign]
    thread.start()
    try:
        assert started.wait(60)
        port = server.servers[0].sockets[0].getsockname()[1]
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
            yield client
    finally:
        server.should_exit = True
        thread.join()


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    monkeypatch.setenv("LEDGER", str(tmp_path / "ledger.txt"))
    monkeypatch.setenv("DATABASE", str(tmp_path / "chats.db"))
    with ModelServer() as model:
        monkeypatch.setenv("MODEL_URL", model.url)
        yield model


def refunds(folder: Path) -> list[str]:
    ledger = folder / "ledger.txt"
    return ledger.read_text().split() if ledger.exists() else []


def events(client: httpx.Client, path: str, **params: Any) -> list[tuple[str, Any]]:
    """Post, and return the events that are streamed back."""
    response = client.post(path, params=params)
    assert response.status_code == 200, response.text
    assert response.headers["content-type"].startswith("text/event-stream")
    pairs = [event.split("\n") for event in response.text.strip().split("\n\n")]
    return [(kind.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for kind, data in pairs]


def text(found: list[tuple[str, Any]]) -> str:
    assert found[-1] == ("end", {"status": "completed", "error": ""})
    return "".join(value for kind, value in found if kind == "token")


def question(found: list[tuple[str, Any]]) -> str:
    assert found[-1][1]["status"] == "paused"
    asked: list[str] = [value["question"] for kind, value in found if kind == "question"]
    assert len(asked) == 1
    return asked[0]


@BOTH
def test_an_approval_across_a_restart(name: str, model: ModelServer, tmp_path: Path) -> None:
    with serve(name) as client:
        found = events(client, "/chats/a", said="weather in Rome and weather in Oslo")
        assert text(found) == "So: 18 degrees in Rome; 18 degrees in Oslo."
        assert len([kind for kind, _ in found if kind == "token"]) > 5  # word by word
        first = question(events(client, "/chats/a", said="weather in Bonn and refund o1"))
        assert client.post("/chats/a", params={"said": "hello?"}).status_code == 409  # a question is open
        assert refunds(tmp_path) == []

    with serve(name) as client:
        shown = client.get("/chats/a").json()
        assert (shown["status"], list(shown["questions"])) == ("paused", [first])
        found = events(client, "/chats/a/answers", question=first, approved=True)
        assert text(found) == "So: 18 degrees in Bonn; order o1 is refunded."

        second = question(events(client, "/chats/a", said="refund o2"))
        client.post("/chats/a/answers", params={"question": first, "approved": True})  # a late second click
        assert refunds(tmp_path) == ["o1"]
        assert text(events(client, "/chats/a/answers", question=second, approved=False)) == "So: refused."
        assert refunds(tmp_path) == ["o1"]
        roles = [message["role"] for message in client.get("/chats/a").json()["messages"]]
    assert "".join(role[0] for role in roles) == "uatta" * 2 + "uata"


@BOTH
def test_two_requests_at_once(name: str, model: ModelServer) -> None:
    with serve(name) as client, ThreadPoolExecutor(1) as thread, model.holding() as asked:
        first = thread.submit(client.post, "/chats/b", params={"said": "weather in Ulm"})
        assert asked.wait(60)
        second = client.post("/chats/b", params={"said": "weather in Kiel"})
        model.http.hold.set()
        codes = [first.result().status_code, second.status_code]
        shown = client.get("/chats/b").json()
    assert codes == [200, 409]
    assert [message["role"] for message in shown["messages"]] == ["user", "assistant", "tool", "assistant"]


@BOTH
def test_a_turn_that_failed_is_resumed(name: str, model: ModelServer) -> None:
    with serve(name) as client:
        model.http.failures = 1
        found = events(client, "/chats/c", said="weather in Graz")
        assert found == [("end", {"status": "failed", "error": "Error code: 503 - overloaded"})]
        assert client.post("/chats/c", params={"said": "weather in Graz"}).status_code == 409
        assert text(events(client, "/chats/c/resume")) == "So: 18 degrees in Graz."
        assert len(client.get("/chats/c").json()["messages"]) == 4
        assert client.get("/chats/unknown").status_code == 404
