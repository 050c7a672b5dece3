"""`hypergraph backup`: a copy of the store in a new file."""

from __future__ import annotations

import contextlib
import os

from hypergraph.checkpointers import Checkpointer
from hypergraph.cli.arguments import Option
from hypergraph.cli.call import Call, Reply
from hypergraph.cli.output import quoted
from hypergraph.cli.stores import opened
from hypergraph.display import jsonable
from hypergraph.views.problems import REFUSED, Problem
from hypergraph.views.writes import Written

backup_options = (
    Option("FILE", "the file to create", needed=True),
    Option("--force", "overwrite an existing file"),
)


def backup(call: Call) -> Reply:
    """Copy the store to a new file while it is in use."""
    path, store = call.options.file, opened(call)
    if not os.path.lexists(path):
        store.backup(path)
    elif call.options.force:
        _replace(store, path)
    else:
        raise Problem(REFUSED, f"{path} already exists", "Choose another name, or overwrite it with --force")
    document: Written = {
        "schema": "hypergraph.written/1",
        "file": jsonable(path),
        "format": "sqlite",
        "workflows": None,
    }
    return Reply(document, tuple, [f"Backed up to {path}"], [quoted("hypergraph", "--db", path, "ls")])


def _replace(store: Checkpointer, path: str) -> None:
    """Overwrite an earlier backup; it stays as it is if the new one cannot be written."""
    if not os.path.isfile(path) or os.path.samefile(path, store.backend.location):
        raise Problem(REFUSED, f"{path} is not a file that a backup may overwrite", "Choose another name")
    before = f"{path}.before"
    _move(path, before)
    try:
        store.backup(path)
    except BaseException:
        _move(before, path)
        raise
    for end in _PARTS:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(before + end)


_PARTS = ("", "-wal", "-shm")  # of a SQLite file


def _move(old: str, new: str) -> None:
    for end in _PARTS:
        with contextlib.suppress(FileNotFoundError):
            os.replace(old + end, new + end)
