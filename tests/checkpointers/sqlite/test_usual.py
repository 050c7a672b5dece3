"""The usual commit leaves the rows of the long way, and refuses what that refuses."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from hypergraph import Graph, NodeContext, SyncRunner, node
from hypergraph.checkpointers import SqliteCheckpointer
from hypergraph.checkpointers.records import Commit
from hypergraph.checkpointers.sqlite.database import Database
from hypergraph.checkpointers.sqlite.store import usual_row
from hypergraph.exceptions import OwnershipLostError


@node(output_name="doubled")
def double(amount: int) -> int:
    return amount * 2


@node(output_name="told")
def tell(doubled: int) -> str:
    return f"zwölf \ud800 {doubled}"


@node(output_name=("low", "high"))
def split(doubled: int) -> tuple[int, int]:
    return 0, doubled


@node(output_name="nothing")
def end(told: str, high: int) -> None:
    return None


def steps_and_values(path: Path) -> dict[str, list[Any]]:
    """Return all columns of all rows but times, with the types that they are stored with."""
    times = {"created_at", "ended", "took", "completed_at", "duration_ms"}
    with closing(sqlite3.connect(path)) as connection:
        found = {}
        for table in ("steps", "vals"):
            names = [row[1] for row in connection.execute(f"PRAGMA table_xinfo({table})")]
            wanted = [name for name in names if name not in times]
            columns = ", ".join(f"{name}, typeof({name})" for name in wanted)
            found[table] = connection.execute(f"SELECT {columns} FROM {table} ORDER BY 1, 3, 5, 7").fetchall()
            if table == "steps":
                kinds = "SELECT typeof(created_at), typeof(ended), typeof(took) FROM steps ORDER BY idx"
                found["times"] = connection.execute(kinds).fetchall()
    return found


def stored(path: Path) -> SqliteCheckpointer:
    store = SqliteCheckpointer(path)
    SyncRunner(checkpointer=store).run(Graph([double, tell, split, end]), {"amount": 3}, workflow_id="w")
    return store


def test_it_leaves_the_rows_of_the_long_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    used = []
    write = Database.write_usual

    def counted(self: Database, claim: tuple[int, int], row: tuple[Any, ...]) -> bool:
        used.append(write(self, claim, row))
        return used[-1]

    monkeypatch.setattr(Database, "write_usual", counted)
    stored(tmp_path / "short.db")
    assert used
    assert all(used)
    monkeypatch.setattr(Database, "write_usual", lambda *_: False)
    stored(tmp_path / "long.db")
    assert steps_and_values(tmp_path / "short.db") == steps_and_values(tmp_path / "long.db")


@node(output_name="paid", transaction=True)
def pay(amount: int, ctx: NodeContext) -> int:
    ctx.connection.execute("CREATE TABLE paid AS SELECT ? AS amount", (amount,))
    return amount


def test_so_does_the_commit_of_a_transaction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = Graph([pay])
    row_of: list[Any] = []
    monkeypatch.setattr(
        "hypergraph.checkpointers.sqlite.store.usual_row",
        lambda commit: row_of.append(usual_row(commit)) or row_of[-1],
    )
    SyncRunner(checkpointer=SqliteCheckpointer(tmp_path / "short.db")).run(graph, amount=3, workflow_id="w")
    assert any(row is not None for row in row_of)
    monkeypatch.setattr("hypergraph.checkpointers.sqlite.store.usual_row", lambda _: None)
    SyncRunner(checkpointer=SqliteCheckpointer(tmp_path / "long.db")).run(graph, amount=3, workflow_id="w")
    assert steps_and_values(tmp_path / "short.db") == steps_and_values(tmp_path / "long.db")


def running(path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[SqliteCheckpointer, Commit]:
    """Return a store whose workflow is still owned, and a usual commit of its next step."""
    kept: list[Commit] = []
    monkeypatch.setattr(
        "hypergraph.checkpointers.sqlite.store.usual_row",
        lambda commit: kept.append(commit) or usual_row(commit),
    )
    store = stored(path)
    commit = next(commit for commit in kept if usual_row(commit) is not None)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DELETE FROM steps")
        connection.execute("DELETE FROM vals")
    store.backend.database.locks.hold(commit.claim.key, commit.claim.fence)
    return store, commit


def test_a_claim_that_another_process_took_over_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, commit = running(tmp_path / "w.db", monkeypatch)
    with closing(sqlite3.connect(tmp_path / "w.db")) as connection, connection:
        connection.execute("UPDATE workflows SET fence = fence + 1")
    with pytest.raises(OwnershipLostError):
        store.backend.write(commit)
    assert store.steps("w") == []


def test_a_step_that_is_recorded_already_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, commit = running(tmp_path / "w.db", monkeypatch)
    store.backend.write(commit)
    with pytest.raises(OwnershipLostError, match="recorded"):
        store.backend.write(commit)
    assert len(store.steps("w")) == 1


def test_a_locked_file_is_left_for_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, commit = running(tmp_path / "w.db", monkeypatch)
    with closing(sqlite3.connect(tmp_path / "w.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert store.backend.try_write(commit) is False
    assert store.backend.try_write(commit) is True
    assert len(store.steps("w")) == 1
