"""A line to a Postgres server that can be cut or slow: a socket in front of the server's own.

Armed with "request", the line is cut when the next message from the client comes, which the server never
gets; with "reply", once the server has answered it, which the client never hears.
"""

from __future__ import annotations

import select
import socket
import threading
import time
from pathlib import Path

_NAME = ".s.PGSQL.5432"


class Line:
    """Listen in one folder for connections to the socket in another."""

    def __init__(self, folder: Path, behind: Path) -> None:
        self.folder = folder
        self._behind = str(behind / _NAME)
        self._armed: str | None = None
        self.cuts = 0
        self.delay = 0.0  # seconds that a message takes, in each direction
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / _NAME))
        self._listener.listen()
        self._open: set[socket.socket] = set()
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def arm(self, what: str) -> None:
        """Cut the connection that is used next."""
        self._armed = what

    def close(self) -> None:
        """Cut all connections and take no more."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for end in list(self._open):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # it was cut
        for thread in self._threads:
            thread.join()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            try:
                server.connect(self._behind)
            except OSError:  # the server is down
                client.close()
                server.close()
                continue
            self._open |= {client, server}
            thread = threading.Thread(target=self._carry, args=(client, server))
            self._threads.append(thread)
            thread.start()

    def _carry(self, client: socket.socket, server: socket.socket) -> None:
        try:
            self._until_cut(client, server)
        except OSError:
            pass  # one of the ends is gone
        self._open -= {client, server}
        client.close()
        server.close()

    def _until_cut(self, client: socket.socket, server: socket.socket) -> None:
        losing = False
        while True:
            ready, _, _ = select.select([client, server], [], [])
            for side, other in ((client, server), (server, client)):
                if side not in ready:
                    continue
                data = side.recv(65536)
                if not data or (side is server and losing):
                    return
                if side is client and self._armed is not None:
                    what, self._armed = self._armed, None
                    self.cuts += 1
                    if what == "request":
                        return
                    losing = True
                time.sleep(self.delay)
                other.sendall(data)
