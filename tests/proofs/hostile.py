"""Hostile bytes where a value should be: nothing is imported or called, nothing breaks, the step runs again.

The corpus is put straight into rows of a store, with a checksum that fits; then everything is read, listed,
printed and searched, and the workflow is resumed.
"""

from __future__ import annotations

import builtins
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from support.durable import read
from values.test_hostile import BROKEN_JSON, BROKEN_MSGPACK, HOSTILE, READERS, written

from hypergraph import Graph, SyncRunner, node
from hypergraph.checkpointers import SqliteCheckpointer, Undecodable
from hypergraph.exceptions import ValueUnreadableError
from proofs.outcome import Outcome, scaled
from proofs.rivals import told

NAME = "hostile payloads"
OWN_IMPORTS = {"numpy", "hypergraph", "html", "concurrent", "importlib", "tzdata"}  # by code, not by data
_broken = [False]


@node(output_name="made")
def make(x: int) -> dict[str, int]:
    return {"x": x}


@node(output_name="used")
def use(made: dict[str, int]) -> int:
    if _broken[0]:
        raise ValueError("broken")
    assert type(made) is dict  # whatever is stored, a node is given what its graph made
    return made["x"]


GRAPH = Graph([make, use], name="victim")


def corpus() -> list[tuple[str, Any, bytes]]:
    """Return names, serializers and bytes."""
    found = [(name, reader, written(reader, tree)) for name, tree in HOSTILE.items() for reader in READERS]
    inside = [
        (f"{name}, inside", reader, written(reader, {"good": 1, "bad": [tree]}))
        for name, tree in HOSTILE.items()
        for reader in READERS
    ]
    broken = [(name, READERS[0], data) for name, data in BROKEN_JSON.items()]
    broken += [(name, READERS[1], data) for name, data in BROKEN_MSGPACK.items()]
    return found + inside + broken


@contextmanager
def watched() -> Iterator[None]:
    """See that nothing is run, and that no module comes in."""

    def refuse(*args: Any, **options: Any) -> Any:
        raise AssertionError(f"called with {args}")

    before = set(sys.modules)
    with pytest.MonkeyPatch.context() as patch:
        for owner, name in ((builtins, "eval"), (os, "system"), (os, "popen"), (subprocess, "Popen")):
            patch.setattr(owner, name, refuse)
        yield
    new = {name.partition(".")[0] for name in sys.modules.keys() - before}
    assert new <= OWN_IMPORTS, f"imported {new}"


def planted(path: Path, reader: Any, data: bytes) -> SqliteCheckpointer:
    """Return a store in which a step that is done holds the bytes."""
    store = SqliteCheckpointer(path, serializer=reader)
    _broken[0] = True
    SyncRunner(checkpointer=store).run(GRAPH, x=7, workflow_id="w", error_handling="continue")
    _broken[0] = False
    row = (data, crc32(data))
    store.backend.database.write(
        lambda connection: connection.execute(
            "UPDATE vals SET data = ?, checksum = ? WHERE name = 'made'", row
        )
    )
    return store


def one_case(reader: Any, data: bytes) -> None:
    """Read, list, print, search and resume a workflow with such a value."""
    with tempfile.TemporaryDirectory() as folder:
        store = planted(Path(folder) / "w.db", reader, data)
        with watched():
            assert isinstance(store.state("w")["made"], Undecodable)
            (step, _) = store.steps("w")
            shown = f"{store.workflow('w')}{store.workflows()}{step!r}{step.to_dict()}"
            assert "Known(" not in shown
            read(store, "search", "made")
            read(store, "provenance", "w", "made")
            try:
                used = SyncRunner(checkpointer=store).run(GRAPH, workflow_id="w")["used"]
            except ValueUnreadableError as error:  # of an unknown or changed class: refused, not made again
                assert error.class_name is not None  # noqa: PT017 - what is damaged otherwise is made again
                used = 7
        assert used == 7
        store.close()


def prove(scale: float = 1.0, seed: int = 0) -> Outcome:
    """Plant everything hostile; a slice plants every n-th."""
    outcome, cases = Outcome(NAME), corpus()
    every = max(1, len(cases) // scaled(len(cases), min(scale, 1.0), least=20))
    with outcome.timed():
        for name, reader, data in cases[seed % every :: every]:
            error, text = told(partial(one_case, reader, data))
            outcome.count(f"{name}, {reader.id}, seed {seed}: {error}: {text}" if error else None)
    return outcome
