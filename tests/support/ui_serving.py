"""`hypergraph ui` as a process of its own, and what may be asked of it by plain HTTP.

The graphs below are those that the server of a test may run.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

from hypergraph import END, AsyncRunner, Graph, NodeContext, SqliteCheckpointer, interrupt, node, route

SECRET = "a value that no log may hold"
IDS = ["health", "..", "%2e%2e", 'it\'s "quoted" & <b>', "ünïcødé ☃", "a b+c?d=e#f", "x') OR 1=1--"]


# One question of each kind, about the runs of `write_story`.
ASKED: dict[str, dict[str, Any]] = {
    "workflows": {},
    "row_details": {"id": ["loop-1", "map-1"]},
    "running": {"id": "loop-1"},
    "counts": {},
    "workflow": {"id": "loop-1"},
    "steps": {"id": "loop-1"},
    "step": {"id": "loop-1", "index": 1},
    "columns": {"id": "loop-1"},
    "items": {"id": "map-1"},
    "state": {"id": "loop-1", "at": 2},
    "value": {"id": "loop-1", "key": "n"},
    "content": {"id": "loop-1", "key": "n"},
    "changes": {"id": "loop-1", "first": 0, "second": 4},
    "diff": {"a": "loop-1", "b": "health"},
    "why": {"id": "loop-1", "key": "n"},
    "stats": {},
    "profile": {"last": 5},
    "errors": {},
    "timeline": {"id": "outer-1"},
    "lineage": {"id": "loop-1"},
    "graph": {"id": "outer-1", "depth": 1},
}


@node(output_name="n")
def bump(n: int) -> int:
    return n + 1


@route(targets=["bump", END])
def enough(n: int) -> str:
    return END if n >= 5 else "bump"


@node(output_name="draft")
def write(topic: str) -> str:
    return f"about {topic}"


@interrupt(output_name="approved")
def ask(draft: str) -> None:
    return None


@interrupt(output_name="paid")
def ask_too(topic: str) -> bool | None:
    return None


@node(output_name="sent")
def send(draft: str, approved: bool) -> str:
    return f"{draft}: {approved}"


@node(output_name="receipt", repeatable=False)
def post(amount: int) -> str:
    return f"posted {amount}"


@node(output_name="y")
def invert(x: int, note: str) -> float:
    if not x:
        raise ZeroDivisionError("x is 0")
    return 1 / x


@node(output_name="translated")
def translate(word: str, context: NodeContext) -> str:
    return str(context.service("words", dict)[word])


services = {"words": {"tea": "Tee"}}


@node(output_name="n")
async def wait_for_ever(n: int) -> int:
    await asyncio.Event().wait()
    return n


@node(output_name="size")
def measure(path: str) -> int:
    return len(Path(path).read_text(encoding="utf-8"))


loop = Graph([bump, enough], name="loop")
files = Graph(
    [Graph([measure], name="file").as_node().map_over("path", error_handling="continue")], name="files"
)
endless = Graph([wait_for_ever], name="endless")
posting = Graph([post], name="posting")
review = Graph([write, ask, send], name="review")
both = Graph([write, ask, ask_too], name="both")
inverse = Graph([invert], name="inverse")
translating = Graph([translate], name="translating")
outer = Graph([loop.as_node(name="inside")], name="outer")


async def write_story(store: SqliteCheckpointer) -> None:
    """Leave a run of each kind in a store."""
    runner = AsyncRunner(checkpointer=store)
    await runner.run(loop, {"n": 0}, workflow_id="loop-1")
    await runner.run(outer, {"n": 3}, workflow_id="outer-1")
    await runner.run(review, {"topic": "tea"}, workflow_id="review-1")
    values = {"x": 0, "note": SECRET}
    await runner.run(inverse, values, workflow_id="inverse-1", error_handling="continue")
    items = {"x": [1, 0, 2, 0], "note": SECRET}
    await runner.map(inverse, items, map_over="x", workflow_id="map-1", error_handling="continue")
    for workflow_id in IDS:
        await runner.run(loop, {"n": 4}, workflow_id=workflow_id)


class Answer(NamedTuple):
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def document(self) -> Any:
        return json.loads(self.body)


class Served:
    """A server that runs, and its token."""

    def __init__(self, process: subprocess.Popen[str], address: str) -> None:
        self.process, self.address = process, address
        self.port = urlsplit(address).port or 0
        self.token = address.partition("token=")[2]

    def request(
        self, path: str, method: str = "GET", *, body: Any = None, token: str | None = "", **headers: str
    ) -> Answer:
        """Send one request, as it is; without `token` it is the bearer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        if token is not None:
            given.setdefault("Authorization", f"Bearer {token or self.token}")
        try:
            connection.putrequest(method, path, skip_host="Host" in given, skip_accept_encoding=True)
            for name, value in given.items():
                connection.putheader(name, value)
            content = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
            if body is not None:
                connection.putheader("Content-Length", str(len(content)))
            connection.endheaders(content)
            response = connection.getresponse()
            return Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
        finally:
            connection.close()

    def ask(self, question: str, **parameters: Any) -> Answer:
        """Ask a question of the API."""
        query = f"?{urlencode(parameters, doseq=True)}" if parameters else ""
        return self.request(f"/api/v1/{question}{query}")

    def wish(self, name: str, **body: Any) -> Answer:
        """Wish for something, as a program does."""
        return self.request(f"/api/v1/{name}", "POST", body=body, Content_Type="application/json")

    @contextmanager
    def listening(self) -> Iterator[Iterator[dict[str, Any]]]:
        """Yield the news as they come."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)
        connection.request("GET", "/api/v1/events", headers={"Authorization": f"Bearer {self.token}"})
        response = connection.getresponse()
        assert response.status == 200

        def news() -> Iterator[dict[str, Any]]:
            while line := response.readline():
                if line.startswith(b"data: "):
                    yield json.loads(line[6:])

        try:
            assert response.readline() == b"retry: 1000\n"
            yield news()
        finally:
            response.close()
            connection.close()

    def stop(self, by: int = signal.SIGTERM) -> tuple[int, str]:
        """Stop the server; return its exit code and all that it said on stderr."""
        self.process.send_signal(by)
        _, said = self.process.communicate(timeout=300)
        return self.process.returncode, said


def command(*arguments: object) -> list[str]:
    """Return a command line for this interpreter."""
    code = "import sys; from hypergraph.cli import main; sys.exit(main())"
    return [sys.executable, "-c", code, *map(str, arguments)]


def environment() -> dict[str, str]:
    """Return an environment in which our modules, and those of the tests, can be imported."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "NO_COLOR": "1"}


@contextmanager
def serving(database: Path | str, *options: str) -> Iterator[Served]:
    """Start a server, and stop it if the test did not."""
    with answering(command("--db", database, "ui", "--no-open", *options), environment()) as served:
        yield served


@contextmanager
def answering(words: list[str], variables: dict[str, str]) -> Iterator[Served]:
    """Start a server by any command, and stop it if the test did not."""
    pipe = subprocess.PIPE
    process = subprocess.Popen(words, stdout=pipe, stderr=pipe, text=True, env=variables)
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        assert address.startswith("http://127.0.0.1:"), process.communicate(timeout=300)
        yield Served(process, address)
    finally:
        if process.poll() is None:
            process.terminate()
        process.communicate(timeout=300)
