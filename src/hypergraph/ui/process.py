"""The server as a process: a socket of this machine, an address with a token, and a clean end."""

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
_MODESTY = 10  # where processors are scarce, those who write come first
_GRACE = 2  # seconds that answers under way have to end


def listening_socket(port: int) -> socket.socket:
    """Return a socket on this machine's own address; port 0 takes any that is free.

    Raises:
        Problem: the port is taken, or may not be used.
    """
    found = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((HOST, port))
        found.listen()  # whoever knows the address may ask, though the answer takes a moment
    except (OSError, OverflowError) as error:
        found.close()
        hint = "Choose another with --port, or leave it out to take one that is free"
        if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
            raise Problem(USAGE, f"Port {port} is taken by another program", hint) from error
        raise Problem(USAGE, f"Port {port} cannot be used: {error}", hint) from error
    return found


def serve(server: Server, listening: socket.socket) -> None:
    """Answer requests until SIGINT or SIGTERM arrives."""
    config = uvicorn.Config(
        server.app,
        http="h11",
        loop="asyncio",
        ws="none",
        log_config=None,
        access_log=False,  # an address may hold what is private
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=_GRACE,
    )
    if hasattr(os, "nice"):
        os.nice(_MODESTY)
    _Process(config, server).run(sockets=[listening])


class _Process(uvicorn.Server):
    """A server for which being told to stop is a good end, and no signal to be raised again."""

    def __init__(self, config: uvicorn.Config, server: Server) -> None:
        super().__init__(config)
        self._server = server

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop at a signal, as the class above does it."""
        numbers = (signal.SIGINT, signal.SIGTERM)
        before = {number: signal.signal(number, self.handle_exit) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End, after what would never end by itself."""
        self._server.stop_telling()
        await super().shutdown(sockets)
