"""Ways to damage a database file, seeded where there are too many to try them all."""

from __future__ import annotations

import os
import random
import sqlite3
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from hypergraph.exceptions import CheckpointError, SchemaTooNewError, StoreCorruptError, StoreUnavailableError
from proofs.outcome import scaled


class Case(NamedTuple):
    """One way to harm a database, and the errors that must follow; without any, the right answer will do."""

    name: str
    harm: Callable[[Path], Any]
    errors: tuple[type[CheckpointError], ...] = ()


def flip(offset: int, bit: int, path: Path) -> None:
    with open(path, "r+b") as file:
        file.seek(offset)
        (old,) = file.read(1)
        file.seek(offset)
        file.write(bytes([old ^ 1 << bit]))


def truncate(share: float, path: Path) -> None:
    os.truncate(path, int(path.stat().st_size * share))


def overwrite(data: bytes, path: Path) -> None:
    path.write_bytes(data)


def sql(statement: str, path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute(statement)
    connection.commit()
    connection.close()


def replace_by_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def replace_by_foreign(path: Path) -> None:
    path.unlink()
    sql("CREATE TABLE precious (x)", path)


def payload_offsets(path: Path) -> list[int]:
    """Return where in the file the bytes of values are."""
    connection = sqlite3.connect(path)
    rows = [bytes(data) for (data,) in connection.execute("SELECT data FROM vals WHERE length(data) > 8")]
    connection.close()
    content, found = path.read_bytes(), []
    for data in set(rows):
        start = content.find(data[:40])
        while start >= 0:
            found += range(start, start + min(len(data), 40))
            start = content.find(data[:40], start + 1)
    return found


def damages(pristine: Path, scale: float, seed: int) -> Iterator[Case]:
    """Yield cases in which bytes of the file change."""
    dice, size = random.Random(seed), pristine.stat().st_size
    offsets = payload_offsets(pristine)
    for _ in range(scaled(400, scale, least=20)):
        offset, bit = dice.choice(offsets), dice.randrange(8)
        yield Case(f"bit {bit} of byte {offset}, in a value", partial(flip, offset, bit))
    for _ in range(scaled(100, scale, least=5)):
        offset, bit = dice.randrange(100), dice.randrange(8)
        yield Case(f"bit {bit} of byte {offset}, in the header", partial(flip, offset, bit))
    for _ in range(scaled(60, scale, least=5)):
        share = dice.random()
        yield Case(f"truncated to {int(share * size)} bytes", partial(truncate, share))
    corrupt, foreign = (StoreCorruptError,), (StoreUnavailableError,)
    yield Case("no header", partial(overwrite, b"\xff" * 100 + pristine.read_bytes()[100:]), corrupt)
    yield Case("zeros", partial(overwrite, bytes(size)), corrupt)
    yield Case("text", partial(overwrite, b"Dear diary,\n" * 999), corrupt)
    yield Case("newer schema", partial(sql, "PRAGMA user_version = 99"), (SchemaTooNewError,))
    yield Case("another program's", replace_by_foreign, foreign)
    yield Case("another program's id", partial(sql, "PRAGMA application_id = 7"), foreign)
    yield Case("a folder", replace_by_folder, foreign)
