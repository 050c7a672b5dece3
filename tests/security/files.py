"""SQLite files that another person prepared, page by page."""

from __future__ import annotations

import os
import sqlite3
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

from hypergraph import Graph, SyncRunner, node
from hypergraph.checkpointers import SqliteCheckpointer
from hypergraph.checkpointers.sqlite.migrations import MAKING

SUPER_JOURNAL = bytes.fromhex("d9d505f920a163d7")
PAGE = 4096


@node(output_name="y")
def double(x: int) -> int:
    return 2 * x


GRAPH = Graph([double], name="doubling")


def sent(folder: Path, count: int = 1, name: str = "sent.db") -> Path:
    """Return a store in one file, without a log."""
    store = SqliteCheckpointer(folder / name)
    for number in range(count):
        SyncRunner(checkpointer=store).run(GRAPH, x=number, workflow_id=f"w{number}", tags={"n": str(number)})
    store.close()
    with sqlite3.connect(folder / name) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
    connection.close()
    for file in folder.glob(f"{name}-*"):
        if file.is_file():
            file.unlink()
    return folder / name


def with_hot_journal(path: Path, named: Path | None = None) -> None:
    """Leave a journal as a crash does; it may name another file, as one of several databases does."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA cache_size = 1")  # so that pages reach the file before the end
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("UPDATE workflows SET fence = fence + 1")
    connection.executemany("INSERT INTO structures VALUES (?, zeroblob(5000), '')", [(n,) for n in range(50)])
    database, journal = path.read_bytes(), Path(f"{path}-journal").read_bytes()
    connection.execute("ROLLBACK")
    connection.close()
    if named is not None:
        text = os.fsencode(named)
        end = struct.pack(">II", len(text), sum(byte - 256 * (byte > 127) for byte in text) & 0xFFFFFFFF)
        journal += struct.pack(">I", 0x40000000 // PAGE + 1) + text + end + SUPER_JOURNAL
    path.write_bytes(database)
    Path(f"{path}-journal").write_bytes(journal)


def with_schema(path: Path, *statements: str) -> None:
    """Change a file with SQL of one's own."""
    with sqlite3.connect(path) as connection:
        for statement in statements:
            connection.execute(statement)
    connection.close()


def endless(path: Path, index: str = "workflows_by_parent") -> None:
    """Make an index of a few pages whose entries have no end: every page lists the next one many times."""
    connection = sqlite3.connect(path)
    for statement in MAKING.get(index, ()):
        connection.execute(statement)
    (root,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (index,)).fetchone()
    connection.close()
    data = bytearray(path.read_bytes())
    leaf = bytes(data[(root - 1) * PAGE : root * PAGE])
    assert leaf[0] == 0x0A, "an index with one page of entries"
    (first,) = struct.unpack_from(">H", leaf, 8)
    entry = leaf[first : first + 1 + leaf[first]]
    levels, count = 12, len(data) // PAGE
    pages = [root, *range(count + 1, count + levels + 1)]
    data += bytes(levels * PAGE)
    for page, below in pairwise(pages):
        cell = struct.pack(">I", below) + entry
        cells = (PAGE - 100) // (len(cell) + 2)
        start = PAGE - cells * len(cell)
        content = struct.pack(">BHHHBI", 0x02, 0, cells, start, 0, below)
        content += b"".join(struct.pack(">H", start + place * len(cell)) for place in range(cells))
        data[(page - 1) * PAGE : page * PAGE] = content.ljust(start, b"\0") + cell * cells
    data[(pages[-1] - 1) * PAGE : pages[-1] * PAGE] = leaf
    struct.pack_into(">I", data, 28, len(data) // PAGE)  # the number of pages
    path.write_bytes(data)


@contextmanager
def without_triggers(path: Path) -> Iterator[sqlite3.Connection]:
    """Change a file as a hostile program would, past the triggers that keep its tables together."""
    connection = sqlite3.connect(path)
    triggers = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
    for name, _ in triggers:
        connection.execute(f"DROP TRIGGER {name}")
    yield connection
    for _, statement in triggers:
        connection.execute(statement)
    connection.commit()
    connection.close()
