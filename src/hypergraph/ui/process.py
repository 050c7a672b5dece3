"""Process of the server: its socket, its priority, and a clean shutdown."""

from __future__ import annotations

import errno
import os
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from hypergraph.ui.server import Server
from hypergraph.views.problems import USAGE, Problem

HOST = "127.0.0.1"
NICE_LEVEL = 10  # runs have priority over the page
_GRACE = 2  # seconds for open requests to end


def listening_socket(port: int) -> socket.socket:
    """Return a listening socket on 127.0.0.1; port 0 takes a free one.

    Raises:
        Problem: the port is taken, or cannot be used.
    """
    found = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((HOST, port))
        found.listen()  # requests are queued until the server has started
    except (OSError, OverflowError) as error:
        found.close()
        hint = "Choose another --port, or leave it out to use a free one"
        if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
            raise Problem(USAGE, f"Port {port} is already in use", hint) from error
        raise Problem(USAGE, f"Cannot use port {port}: {error}", hint) from error
    return found


def serve(server: Server, listening: socket.socket) -> None:
    """Serve until SIGINT or SIGTERM."""
    config = uvicorn.Config(
        server.app,
        http="h11",
        loop="asyncio",
        ws="none",
        log_config=None,
        access_log=False,  # a URL may contain private data
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=_GRACE,
    )
    if hasattr(os, "nice"):
        os.nice(NICE_LEVEL)
    _Process(config, server).run(sockets=[listening])


class _Process(uvicorn.Server):
    """A server that exits normally on SIGINT and SIGTERM, without raising the signal again."""

    def __init__(self, config: uvicorn.Config, server: Server) -> None:
        super().__init__(config)
        self._server = server

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Shut down on a signal, and restore the handlers afterwards."""
        numbers = (signal.SIGINT, signal.SIGTERM)
        before = {number: signal.signal(number, self.handle_exit) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close event streams, which never end by themselves, then shut down."""
        self._server.close_streams()
        await super().shutdown(sockets)
