"""What every store promises, asked of memory and SQLite, and what each of them promises besides."""

import gc
from pathlib import Path
from typing import Any

import pytest

from hypergraph.checkpointers import Checkpointer, CheckpointPolicy, MemoryCheckpointer, SqliteCheckpointer
from hypergraph.exceptions import CheckpointError
from hypergraph.testing import CheckpointerConformance
from hypergraph.testing.conformance.samples import opened, recorded


class TestMemory(CheckpointerConformance):
    survives_processes = False

    def make_store(self, folder: Path) -> Checkpointer:
        return MemoryCheckpointer()


class TestSqlite(CheckpointerConformance):
    def make_store(self, folder: Path) -> Checkpointer:
        return SqliteCheckpointer(folder / "w.db")


def test_memory_lets_the_oldest_finished_workflow_go_first() -> None:
    store = MemoryCheckpointer(max_workflows=2)
    active = opened(store, "active")
    for name in ("a", "b", "c"):
        recorded(store, workflow_id=name)
    assert [found.id for found in store.workflows()] == ["c", "active"]
    store.backend.release(active)


@pytest.mark.parametrize("limit", [0, -1, 1.5, True])
def test_memory_refuses_a_limit_that_is_none(limit: Any) -> None:
    with pytest.raises(ValueError, match="max_workflows"):
        MemoryCheckpointer(max_workflows=limit)


def test_memory_cannot_be_backed_up() -> None:
    with pytest.raises(CheckpointError, match="SqliteCheckpointer"):
        MemoryCheckpointer().backup("x")


def test_sqlite_takes_a_policy_or_shortcuts_but_not_both(tmp_path: Path) -> None:
    path = tmp_path / "w.db"
    assert SqliteCheckpointer(path, durability="exit").policy.durability == "exit"
    assert SqliteCheckpointer(path, retention="latest").policy.retention == "latest"
    with pytest.raises(ValueError, match="Cannot pass both"):
        SqliteCheckpointer(path, durability="exit", policy=CheckpointPolicy())
    with pytest.raises(ValueError, match="the path of a file"):
        SqliteCheckpointer("")
    assert not path.exists()


def test_sqlite_in_memory_is_a_file_that_goes_with_its_store() -> None:
    store = SqliteCheckpointer(":memory:")
    store.create_workflow("w")
    assert store.workflow("w").id == "w"
    assert SqliteCheckpointer(":memory:").workflows() == []
    folder = Path(store.backend.location).parent
    assert folder.exists()
    store.close()
    del store
    for _ in range(1000):  # a call does nothing while another thread collects garbage
        if folder.exists():
            gc.collect()
    assert not folder.exists()
