"""The endpoints of a worker under attack: idle, slow and many connections."""

from __future__ import annotations

import http.client
import socket
import struct
import threading
from collections.abc import Iterator

import pytest

from hypergraph.integrations.dbos import metrics

MANY = 4 * metrics.CONNECTIONS


@pytest.fixture
def port() -> Iterator[int]:
    server = metrics.serve("127.0.0.1", 0, metrics.Metrics(), lambda: {"ok": True})
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()


def status(port: int) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
    connection.request("GET", "/health")
    found = connection.getresponse().status
    connection.close()
    return found


def test_idle_connections_keep_no_answer_from_a_supervisor(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics, "SECONDS", 3600.0)  # their number is bounded, not their time alone
    before = threading.active_count()
    idle = [socket.create_connection(("127.0.0.1", port), timeout=300) for _ in range(MANY)]
    assert status(port) == 200
    for connection in idle[: MANY - metrics.CONNECTIONS]:
        assert connection.recv(1) == b""  # it was closed
    assert threading.active_count() - before <= 2 * metrics.CONNECTIONS  # some are about to end
    for connection in idle:
        connection.close()


def test_a_client_that_leaves_is_not_logged(port: int, capfd: pytest.CaptureFixture[str]) -> None:
    reset = struct.pack("ii", 1, 0)  # to close with a reset
    for _ in range(20):
        with socket.create_connection(("127.0.0.1", port), timeout=300) as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
            connection.sendall(b"GET /health HTTP/1.1\r\nHost")
    assert status(port) == 200
    assert capfd.readouterr() == ("", "")


def test_a_slow_request_is_ended(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "SECONDS", 0.0)
    with socket.create_connection(("127.0.0.1", port), timeout=300) as slow:
        slow.sendall(b"GET /health HTTP/1.1\r\nHost")
        assert slow.recv(1) == b""
