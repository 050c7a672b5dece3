"""The usual commit leaves the rows of the long way, and refuses what that refuses."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hypergraph import Graph, NodeContext, SyncRunner, node
from hypergraph.checkpointers import SqliteCheckpointer
from hypergraph.checkpointers.records import Commit, EncodedStep, Ownership
from hypergraph.checkpointers.sqlite.database import Database
from hypergraph.checkpointers.sqlite.store import SqliteBackend, usual_row
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
        lambda claim, step: row_of.append(usual_row(claim, step)) or row_of[-1],
    )
    SyncRunner(checkpointer=SqliteCheckpointer(tmp_path / "short.db")).run(graph, amount=3, workflow_id="w")
    assert any(row is not None for row in row_of)
    monkeypatch.setattr("hypergraph.checkpointers.sqlite.store.usual_row", lambda *_: None)
    SyncRunner(checkpointer=SqliteCheckpointer(tmp_path / "long.db")).run(graph, amount=3, workflow_id="w")
    assert steps_and_values(tmp_path / "short.db") == steps_and_values(tmp_path / "long.db")


@node(output_name="first")
def first(amount: int) -> int:
    return amount


@node(output_name="second")
def second(amount: int) -> str:
    return str(amount)


@node(output_name="third")
def third(amount: int) -> None:
    return None


def test_so_does_the_commit_of_siblings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = Graph([first, second, third])
    written: list[int] = []
    write = SqliteBackend._write_usual_steps

    def counted(self: SqliteBackend, connection: Any, claim: Ownership, rows: Sequence[Any]) -> bool:
        done = write(self, connection, claim, rows)
        written.append(len(rows) if done else 0)
        return done

    monkeypatch.setattr(SqliteBackend, "_write_usual_steps", counted)
    SyncRunner(checkpointer=SqliteCheckpointer(tmp_path / "short.db")).run(graph, amount=3, workflow_id="w")
    assert max(written) > 1
    monkeypatch.setattr(SqliteBackend, "_write_usual_steps", lambda *_: False)
    monkeypatch.setattr(Database, "write_usual", lambda *_: False)
    SyncRunner(checkpointer=SqliteCheckpointer(tmp_path / "long.db")).run(graph, amount=3, workflow_id="w")
    assert steps_and_values(tmp_path / "short.db") == steps_and_values(tmp_path / "long.db")


def running(path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[SqliteCheckpointer, Commit]:
    """Return a store whose workflow is still owned, and a usual commit of its next step."""
    kept: list[Commit] = []
    write = SqliteBackend._write

    def noted(self: SqliteBackend, commit: Commit, *, wait: bool) -> None:
        kept.append(commit)
        write(self, commit, wait=wait)

    monkeypatch.setattr(SqliteBackend, "_write", noted)
    store = stored(path)
    commit = next(
        Commit(commit.claim, (step,))
        for commit in kept
        for step in commit.steps
        if usual_row(commit.claim, step) is not None
    )
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


def test_of_several_steps_all_are_written_or_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, commit = running(tmp_path / "w.db", monkeypatch)
    ((record, *rest),) = commit.steps
    other = EncodedStep(replace(record, index=record.index + 1, node_name="other"), *rest)
    store.backend.write(commit)
    with pytest.raises(OwnershipLostError, match="recorded"):
        store.backend.write(commit._replace(steps=(other, *commit.steps)))
    assert [step.node_name for step in store.steps("w")] == [record.node_name]
    store.backend.write(commit._replace(steps=(other,)))
    assert len(store.steps("w")) == 2


def test_a_locked_file_is_left_for_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, commit = running(tmp_path / "w.db", monkeypatch)
    with closing(sqlite3.connect(tmp_path / "w.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert store.backend.try_write(commit) is False
    assert store.backend.try_write(commit) is True
    assert len(store.steps("w")) == 1
