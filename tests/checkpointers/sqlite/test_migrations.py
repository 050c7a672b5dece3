"""Databases of every schema that was released can be opened, listed, resumed, forked and pruned."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from fixtures import make_fixture
from fixtures.make_fixture import ASKING, CHAIN, CHAT, NESTED, TURNS
from support.durable import read

from hypergraph import AsyncRunner, SyncRunner
from hypergraph.checkpointers import SqliteCheckpointer, WorkflowStatus
from hypergraph.checkpointers.sqlite.migrations import MIGRATIONS, SCHEMAS, missing_migrations, number

KEPT = sorted(make_fixture.HERE.glob("schema-*.db"))
C = (3, {"type", "exact"})


@pytest.fixture(params=KEPT, ids=lambda path: path.stem)
def old(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SqliteCheckpointer]:
    """A store on a copy of a database that is kept."""
    shutil.copy(request.param, tmp_path / "old.db")
    make_fixture.ran.clear()
    store = SqliteCheckpointer(tmp_path / "old.db")
    store.open()
    yield store
    store.close()


def run(store: SqliteCheckpointer, *args: Any, **options: Any) -> Any:
    return SyncRunner(checkpointer=store).run(*args, **options)


def test_there_is_one_for_every_schema() -> None:
    assert [path.stem for path in KEPT] == [f"schema-{n + 1}" for n in range(len(MIGRATIONS))]


def test_the_objects_of_every_schema_are_known(old: SqliteCheckpointer) -> None:
    assert len(SCHEMAS) == len(MIGRATIONS) + 1
    found = old.backend.inspect(lambda connection: missing_migrations(connection, "old.db"))
    assert 0 <= found < len(MIGRATIONS)


def test_what_is_kept_tells_nothing_about_the_machine_that_wrote_it() -> None:
    root = str(make_fixture.HERE.parent.parent.resolve()).encode()
    for path in KEPT:
        assert root not in path.read_bytes()
        assert path.stat().st_size < 100_000


def test_workflows_are_listed(old: SqliteCheckpointer) -> None:
    assert {workflow.id: workflow.status.value for workflow in old.workflows()} == {
        "finished": "completed",
        "failed": "failed",
        "nested": "failed",
        "fork": "completed",
        "batch": "completed",
        "chat": "completed",
        "paused": "paused",
    }
    assert [workflow.id for workflow in old.workflows(tag="user=ann")] == ["finished"]
    assert [workflow.id for workflow in old.workflows(parent="nested")] == ["nested/inner"]
    assert "third is broken" in str(old.workflow("failed"))
    assert read(old, "lineage", "fork").workflow.id == "finished"


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.stem)
def test_steps_keep_what_is_read_of_them(path: Path, tmp_path: Path) -> None:
    shutil.copy(path, tmp_path / "old.db")
    told = "SELECT workflow, superstep, node, status, created_at, completed_at, duration_ms FROM steps"
    with closing(sqlite3.connect(tmp_path / "old.db")) as connection:
        before = connection.execute(told).fetchall()
    store = SqliteCheckpointer(tmp_path / "old.db")
    store.open()
    with closing(sqlite3.connect(tmp_path / "old.db")) as connection:
        after = connection.execute(told).fetchall()
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert {row[3] for row in after} == {"completed", "failed", "paused"}
    assert [row[:6] for row in after] == [row[:6] for row in before]
    assert [row[6] for row in after] == [row[6] and pytest.approx(row[6], abs=1e-6) for row in before]
    last = store.steps("finished")[-1]
    assert (last.input_versions, last.output_versions) == ({"c": 1}, {"d": 1})
    store.close()


def test_values_are_read(old: SqliteCheckpointer) -> None:
    assert old.state("finished") == {"b": 2, "c": C, "d": 4}
    assert old.state("fork")["d"] == 13
    for length in range(TURNS):
        found = old.state("chat", superstep=2 * length + 1)["messages"]
        assert [text.split()[:2] for text in found] == [["turn", str(n)] for n in range(length + 1)]


def test_what_is_done_is_not_run_again(old: SqliteCheckpointer) -> None:
    assert run(old, CHAIN, workflow_id="finished")["d"] == 4
    assert run(old, CHAT, workflow_id="chat")["messages"] == old.state("chat")["messages"]
    assert make_fixture.ran == []


def test_what_failed_goes_on(old: SqliteCheckpointer) -> None:
    assert run(old, CHAIN, workflow_id="failed")["d"] == 4
    assert run(old, NESTED, workflow_id="nested")["d"] == 4
    assert make_fixture.ran == ["third", "third"]


def test_what_paused_is_answered(old: SqliteCheckpointer) -> None:
    runner = AsyncRunner(checkpointer=old)
    result = asyncio.run(runner.run(ASKING, verdict="fine", workflow_id="paused"))
    assert result["d"] == "3: fine"
    assert make_fixture.ran == ["publish"]


def test_forks_are_made(old: SqliteCheckpointer) -> None:
    assert run(old, CHAIN, workflow_id="new", fork_from=("finished", 1))["d"] == 4
    assert run(old, NESTED, workflow_id="inner", fork_from=("nested", 1))["d"] == 4
    assert make_fixture.ran == ["third", "third"]


def test_a_growing_list_grows_on(old: SqliteCheckpointer) -> None:
    before = old.state("chat")["messages"]
    assert run(old, CHAT, {"messages": before[:3]}, workflow_id="chat")["messages"] == before
    assert make_fixture.ran == ["chat"] * (TURNS - 3)


def test_it_is_brought_to_the_schema_of_today(old: SqliteCheckpointer) -> None:
    old.backend.open()
    assert old.backend.database.read(lambda connection: number(connection, "user_version")) == len(MIGRATIONS)


def test_it_can_be_pruned_and_deleted(old: SqliteCheckpointer) -> None:
    gone = read(old, "prune", "1d")
    assert {*gone} == {"finished", "failed", "nested", "fork", "batch", "chat"}
    workflow = old.workflow("paused")
    assert workflow is not None
    assert workflow.status is WorkflowStatus.PAUSED
    assert read(old, "delete", "paused") == 1
    assert len(old.workflows()) == 0
