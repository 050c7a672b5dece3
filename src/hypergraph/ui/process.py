"""Process of the server: its socket, its priority, and a clean shutdown."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from hypergraph.ui.security import ADMITTED
from hypergraph.ui.server import Server
from hypergraph.views.problems import USAGE, Problem

HOST = "127.0.0.1"
NICE_LEVEL = 10  # runs have priority over the page
_GRACE = 2  # seconds for open requests to end
CONNECTIONS = 128  # at once
HEAD_SECONDS = 10.0  # for the first line and the headers of a request
_BACKLOG = 64  # connections that the system holds; as many are accepted in one round, before any is dropped


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
        http=Connection,
        loop="asyncio",
        ws="none",
        log_config=None,
        access_log=False,  # a URL may contain private data
        server_header=False,
        proxy_headers=False,
        backlog=_BACKLOG,
        timeout_graceful_shutdown=_GRACE,
    )
    if hasattr(os, "nice"):
        os.nice(NICE_LEVEL)
    _Process(config, server).run(sockets=[listening])


class Connection(H11Protocol):
    """A connection with a deadline for the next request, one of a limited number.

    If there are too many, the oldest one that never sent the token is closed: connections without the token
    cannot shut out those with it.
    """

    _deadline: asyncio.TimerHandle | None = None
    _was_admitted = False
    _opened_at = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        """Start the deadline; close another connection if there are too many."""
        super().connection_made(transport)
        self._opened_at = self.loop.time()
        self._set_deadline()
        if len(self.connections) > CONNECTIONS:
            others = [each for each in self.connections if isinstance(each, Connection) and each._is_optional]
            min(others, key=lambda each: each._opened_at, default=self)._drop()

    def data_received(self, data: bytes) -> None:
        """Handle a part of a request."""
        super().data_received(data)
        self._set_deadline()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        self._was_admitted = self._was_admitted or ADMITTED in self.scope
        super().on_response_complete()
        self._set_deadline()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the deadline."""
        self._clear_deadline()
        super().connection_lost(exc)

    @property
    def _is_optional(self) -> bool:
        return not (self._was_admitted or ADMITTED in (self.scope or ())) and not self.transport.is_closing()

    def _set_deadline(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            self._clear_deadline()
        elif self._deadline is None and not self.transport.is_closing():
            self._deadline = self.loop.call_later(HEAD_SECONDS, self._drop)

    def _clear_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _drop(self) -> None:
        self.connections.discard(self)  # it counts no longer, although it is closed only in the next round
        self.transport.abort()


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
