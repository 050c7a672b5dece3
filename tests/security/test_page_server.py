"""The server of the page under attack: secrets in arguments, slow connections, many listeners."""

from __future__ import annotations

import asyncio
import http.client
import os
import resource
import socket
import stat
import sys
import time
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from support.ui_serving import Served, answering, command, environment, serving, write_story

from hypergraph import SqliteCheckpointer
from hypergraph.ui import process
from hypergraph.ui.apps import Apps
from hypergraph.ui.security import Code
from hypergraph.ui.server import LISTENERS, Live, Server, Setup
from hypergraph.views.problems import Problem
from security import costly

JSON = {"Content_Type": "application/json"}
BROWSER = '#!/bin/sh\nprintf \'%s\\n\' "$@" > "$BROWSER_SAW.new" && mv "$BROWSER_SAW.new" "$BROWSER_SAW"\n'


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("page") / "story.db"
    store = SqliteCheckpointer(file)
    asyncio.run(write_story(store))
    store.close()
    return file


@pytest.fixture
def server(database: Path) -> Iterator[Served]:
    with serving(database) as running:
        yield running


# --- the code of the browser that is opened -------------------------------------------------------------


def test_the_browser_is_started_without_a_secret_in_its_arguments(database: Path, tmp_path: Path) -> None:
    browser, saw = tmp_path / "browser", tmp_path / "saw"
    browser.write_text(BROWSER)
    browser.chmod(0o755)
    variables = {**environment(), "BROWSER": str(browser), "BROWSER_SAW": str(saw)}
    with answering(command("--db", database, "ui"), variables) as server:
        assert server.ask("about").status == 200  # the server runs, so the browser was started before
        while not saw.exists():
            os.sched_yield()
        [given] = saw.read_text().splitlines()
        assert server.token not in given
        file = Path(unquote(urlsplit(given).path))
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        text = file.read_text()
        assert server.token not in text
        code = text.partition("#code=")[2].partition('"')[0]
        assert code not in given
        answers = [
            server.request("/api/v1/token", "POST", body={"code": code}, token=None, **JSON) for _ in range(2)
        ]
        assert answers[0].document == {"schema": "hypergraph.token/1", "token": server.token}
        assert (answers[1].status, answers[1].document["error"]["code"]) == (401, "unauthorized")
        server.stop()
    assert not file.exists()


@pytest.mark.parametrize("body", [{"code": "x"}, {"code": ""}, {"code": "é"}, {}, {"code": 1}, []])
def test_a_wrong_code_gets_no_token(server: Served, body: object) -> None:
    answer = server.request("/api/v1/token", "POST", body=body, token=None, **JSON)
    assert answer.status in (400, 401)
    assert server.token.encode() not in answer.body


def test_a_code_is_used_once() -> None:
    code = Code()
    assert [code.use("x"), code.use(code.text), code.use(code.text)] == [False, True, False]


# --- connections ----------------------------------------------------------------------------------------


def half_requests(server: Served, count: int) -> list[socket.socket]:
    found = []
    for _ in range(count):
        connection = socket.create_connection(("127.0.0.1", server.port), timeout=300)
        connection.sendall(b"GET / HTTP/1.1\r\nHost: x")
        found.append(connection)
    return found


def is_open(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return connection.recv(1) != b""
    except BlockingIOError:
        return True
    except OSError:
        return False


def test_many_half_requests_shut_out_no_request_with_the_token(server: Served, database: Path) -> None:
    kept = http.client.HTTPConnection("127.0.0.1", server.port, timeout=300)
    kept.request("GET", "/api/v1/events", headers={"Authorization": f"Bearer {server.token}"})
    stream = kept.getresponse()
    assert stream.readline() == b"retry: 1000\n"
    half = half_requests(server, 4 * process.CONNECTIONS)
    assert server.ask("about").status == 200
    alive = [connection for connection in half if is_open(connection)]
    assert len(alive) <= process.CONNECTIONS
    assert [stream.readline(), stream.readline()] == [b": listening\n", b"\n"]
    store = SqliteCheckpointer(database)
    store.create_workflow(f"news-{server.port}")
    store.close()
    assert stream.readline().startswith(b"data: ")  # the stream, older than all of them, was not closed
    for connection in half:
        connection.close()
    kept.close()


@pytest.mark.slow
def test_half_requests_do_not_use_up_the_files_of_the_server(database: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limited = [sys.executable, "-c", "import os, resource, sys; resource.setrlimit(resource.RLIMIT_NOFILE, "
               "(256, 256)); os.execv(sys.argv[1], sys.argv[1:])"]  # fmt: skip
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 2048)), hard))
    with answering([*limited, *command("--db", database, "ui", "--no-open")], environment()) as server:
        half = half_requests(server, 600)
        assert server.ask("workflows").status == 200
        for connection in half:
            connection.close()


@pytest.fixture
def quick(database: Path) -> Iterator[tuple[int, str]]:
    """A server in a process of its own whose deadlines are short: its port and token."""
    code = (
        "import sys; from hypergraph.ui import process, server\n"
        "process.HEAD_SECONDS = server.BODY_SECONDS = 0.2\n"
        "from hypergraph.cli import main; sys.exit(main())"
    )
    words = [sys.executable, "-c", code, "--db", str(database), "ui", "--no-open"]
    with answering(words, environment()) as served:
        yield served.port, served.token


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1",
        b"POST /api/v1/token HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Type: application/json\r\n"
        b"Content-Length: 100\r\n\r\n{",
        b"POST /api/v1/tag HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Type: application/json\r\n"
        b"Content-Length: 100\r\n\r\n{",
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\nGET / HT",
    ],
    ids=["nothing", "half a head", "half a login", "half a body that is refused", "half a second request"],
)
def test_a_connection_that_sends_no_whole_request_is_closed(quick: tuple[int, str], sent: bytes) -> None:
    port, _ = quick
    with socket.create_connection(("127.0.0.1", port), timeout=300) as connection:
        connection.sendall(sent.replace(b"%d", str(port).encode()))
        try:
            while connection.recv(65536):
                pass
        except ConnectionResetError:
            pass


def test_a_body_that_stops_to_arrive_is_given_up(quick: tuple[int, str]) -> None:
    port, token = quick
    head = (
        f"POST /api/v1/tag HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\n"
        "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
    )
    with socket.create_connection(("127.0.0.1", port), timeout=300) as connection:
        connection.sendall(head.encode())
        assert connection.recv(65536).startswith(b"HTTP/1.1 408 ")


# --- expensive reads ------------------------------------------------------------------------------------

BLOCKING = """
import os, sys, time
from hypergraph.values.serializers import JsonSerializer
read = JsonSerializer.deserialize
def waiting(self, data, *args):
    if len(data) > 1_000_000:
        open(os.environ["GATE"] + ".begun", "w").close()
        while not os.path.exists(os.environ["GATE"]):  # until the test lets every read continue
            time.sleep(0.01)
    return read(self, data, *args)
JsonSerializer.deserialize = waiting
from hypergraph.cli import main
sys.exit(main())
"""


def test_other_requests_are_answered_while_a_hostile_row_is_read(tmp_path: Path) -> None:
    file, gate = tmp_path / "story.db", tmp_path / "gate"
    store = SqliteCheckpointer(file)
    asyncio.run(write_story(store))
    _, data = costly.rows()["lists in lists, json"]
    plant = "UPDATE vals SET format = 'json/1', checksum = ?, data = ? WHERE name = 'topic'"
    store.backend.database.write(lambda connection: connection.execute(plant, (zlib.crc32(data), data)))
    store.close()
    words = [sys.executable, "-c", BLOCKING, "--db", str(file), "ui", "--no-open"]
    with (
        answering(words, {**environment(), "GATE": str(gate)}) as server,
        ThreadPoolExecutor(1) as elsewhere,
    ):
        first = elsewhere.submit(server.ask, "value", id="review-1", key="topic")
        try:
            while not gate.with_name("gate.begun").exists():
                time.sleep(0.01)
            assert server.ask("about").status == 200
            assert server.ask("workflows").status == 200
            assert server.ask("value", id="loop-1", key="n").document["value"] == 5
            assert not first.done()
        finally:
            gate.touch()
        assert first.result().status == 200


# --- listeners ------------------------------------------------------------------------------------------


def test_of_many_listeners_at_once_no_more_than_the_limit_are_admitted(server: Served) -> None:
    host, bearer = f"Host: 127.0.0.1:{server.port}", f"Authorization: Bearer {server.token}"
    head = f"GET /api/v1/events HTTP/1.1\r\n{host}\r\n{bearer}\r\n\r\n"
    connections = [socket.create_connection(("127.0.0.1", server.port), timeout=300) for _ in range(60)]
    for connection in connections:
        connection.sendall(head.encode())
    statuses = [connection.recv(12).split()[1] for connection in connections]
    assert sorted(statuses) == [b"200"] * LISTENERS + [b"409"] * (60 - LISTENERS)
    for connection in connections:
        connection.close()


def test_a_listener_that_leaves_is_forgotten(server: Served) -> None:
    for _ in range(LISTENERS + 8):
        with server.listening():
            pass


def test_a_listener_that_left_before_its_first_event_is_forgotten(database: Path) -> None:
    store = SqliteCheckpointer(database)
    setup = Setup(store, "story.db", "token", 1, "0", Apps(dict))
    headers = [(b"host", b"127.0.0.1:1"), (b"authorization", b"Bearer token")]
    scope = {"type": "http", "method": "GET", "path": "/api/v1/events", "raw_path": b"/api/v1/events",
             "query_string": b"", "headers": headers}  # fmt: skip

    async def gone(message: object) -> None:
        raise OSError("the client has left")

    async def leaving() -> dict[str, object]:
        return {"type": "http.disconnect"}

    async def main() -> None:
        server = Server(setup)
        for _ in range(LISTENERS + 8):
            with pytest.raises(BaseException):  # noqa: B017, PT011 - of the transport, not of the limit
                await server.app(dict(scope), leaving, gone)
        live = Live(store, Apps(dict))
        listeners = [live.admit() for _ in range(LISTENERS)]
        with pytest.raises(Problem, match="open already"):
            live.admit()
        live.dismiss(listeners[0])
        live.admit()

    asyncio.run(main())
    store.close()
