"""Every command over a Postgres database, and workflows carried between databases."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.postgres import dsn_in, store_in

from hypergraph import AsyncRunner, Graph, SyncRunner, interrupt, node
from hypergraph.checkpointers import (
    FileArtifactStore,
    PostgresCheckpointer,
    SqliteCheckpointer,
    StepStatus,
    copy_store,
)
from hypergraph.checkpointers.sql.store import SqlCheckpointer
from hypergraph.cli import main
from hypergraph.durability.journal import growth_of
from hypergraph.exceptions import CheckpointError
from hypergraph.testing.conformance.samples import commit, given, opened, recorded, step


@node(output_name="doubled")
def double(x: int) -> int:
    return 2 * x


@node(output_name="messages")
def grow(messages: list[str], doubled: int) -> list[str]:
    return [*messages, "x" * doubled]


GRAPH = Graph([double, Graph([grow], name="inner").as_node()], name="outer")


def asked(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    code = main([*arguments, "--json"])
    said = capsys.readouterr()
    assert code == 0, said
    return json.loads(said.out)


@pytest.fixture
def filled(tmp_path: Path) -> PostgresCheckpointer:
    """A store with a run in it."""
    store: PostgresCheckpointer = store_in(tmp_path)
    SyncRunner(checkpointer=store).run(GRAPH, {"x": 3, "messages": []}, workflow_id="w")
    return store


def test_commands_take_the_address_of_a_postgres_database(
    filled: PostgresCheckpointer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    db = ("--db", dsn_in(tmp_path))
    (found,) = asked(capsys, "ls", *db)["items"]
    assert (found["id"], found["status"], found["steps"]) == ("w", "completed", 2)
    asked(capsys, "tag", "w", "k=v", *db)
    assert filled.workflow("w").tags == {"k": "v"}
    asked(capsys, "backup", str(tmp_path / "copy.db"), *db)
    assert SqliteCheckpointer(tmp_path / "copy.db").workflow("w").tags == {"k": "v"}
    asked(capsys, "rm", "w", "--yes", *db)
    assert asked(capsys, "ls", *db)["items"] == []


def test_looking_at_a_database_without_a_store_creates_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in (["ls"], ["tag", "w", "k=v"]):
        assert main([*command, "--db", dsn_in(tmp_path)]) != 0
        assert "No store found" in capsys.readouterr().err
    assert not store_in(tmp_path).backend.exists()


def test_another_schema_can_be_named_in_the_address(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded(store_in(tmp_path, schema="mine"))
    dsn = dsn_in(tmp_path)
    assert [found["id"] for found in asked(capsys, "ls", "--db", dsn + "&schema=mine")["items"]] == ["w"]
    swapped = dsn.replace("?", "?schema=mine&")
    assert [found["id"] for found in asked(capsys, "ls", "--db", swapped)["items"]] == ["w"]


@pytest.mark.parametrize(
    "dsn", ["postgresql://u:s3cr3t@127.0.0.1:1/db", "postgres://u:s3cr3t@h/db?nonsense=1"]
)
def test_a_wrong_address_is_told_without_the_password(dsn: str, capsys: pytest.CaptureFixture[str]) -> None:
    for command in (["ls"], ["tag", "w", "k=v"]):
        assert main([*command, "--db", dsn]) != 0
        said = capsys.readouterr()
        assert "s3cr3t" not in said.out + said.err
        assert "Traceback" not in said.err
        assert "ostgres" in said.err


# -- from one database to another --------------------------------------------------------------------


def described(store: SqlCheckpointer) -> list[Any]:
    """Return all there is in a store, in order."""
    found = [store.workflow(workflow_id) for workflow_id in ("w", "w/inner", "w2", "growing", "failed")]
    workflows = [each for each in found if each is not None]
    return [
        (
            *(each.id, each.status, each.graph_name, each.tags, each.created_at, each.duration_ms),
            *(each.node_hashes, each.graph, each.parent_id, each.step_count),
            *(steps_of(store, each.id), store.state(each.id), given(store, each.id)),
        )
        for each in workflows
    ]


def steps_of(store: SqlCheckpointer, workflow_id: str) -> list[Any]:
    """Return the steps of a workflow, each with whether it is up to date with the run inside of it."""
    steps = store.steps(workflow_id)
    fences = store.backend.read_fences([each.child_workflow_id for each in steps if each.child_workflow_id])
    return [
        (replace(each, child_fence=None), each.child_fence == fences.get(each.child_workflow_id or ""))
        for each in steps
    ]


def filled_with_all(store: SqlCheckpointer) -> None:
    runner = SyncRunner(checkpointer=store)
    runner.run(GRAPH, {"x": 3, "messages": ["a"]}, workflow_id="w", tags={"k": "é\0"})
    runner.run(GRAPH, {"x": 70_000, "messages": []}, workflow_id="w2")
    claim, growth = opened(store, "growing"), growth_of(store, "growing", is_new=True)
    for number in range(20):
        values = {"messages": ["long enough to be worth it"] * (number + 1)}
        store.backend.write(
            store.encoding.commit(
                claim, [store.encoding.encode(step(number, values=values, workflow_id="growing"), growth)]
            )
        )
    store.backend.release(claim)
    failed = step(0, status=StepStatus.FAILED, error="a\0b", cached=True, workflow_id="failed")
    recorded(store, failed, workflow_id="failed")


@pytest.fixture(params=["from SQLite", "from Postgres"])
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[SqlCheckpointer, SqlCheckpointer]:
    """Two stores in different databases, the first one filled."""
    sqlite = SqliteCheckpointer(tmp_path / "w.db")
    postgres = store_in(tmp_path, artifact_store=FileArtifactStore(str(tmp_path / "large")))
    source, target = (sqlite, postgres) if request.param == "from SQLite" else (postgres, sqlite)
    filled_with_all(source)
    return source, target


def test_a_copied_store_tells_the_same(pair: tuple[SqlCheckpointer, SqlCheckpointer]) -> None:
    source, target = pair
    before = described(source)
    copied = copy_store(source, target)
    assert set(copied) == {"w", "w/inner", "w2", "w2/inner", "growing", "failed"}
    assert described(target) == before == described(source)
    assert [found.id for found in target.workflows()] == [found.id for found in source.workflows()]
    assert target.workflows().total == source.workflows().total
    result = SyncRunner(checkpointer=target).run(GRAPH, {"x": 3, "messages": ["a"]}, workflow_id="w")
    assert result["messages"] == ["a", "xxxxxx"]
    claim = opened(target, "growing")
    growth = growth_of(target, "growing", is_new=False)
    longer = {"messages": ["long enough to be worth it"] * 21}
    target.backend.write(
        target.encoding.commit(
            claim, [target.encoding.encode(step(20, values=longer, workflow_id="growing"), growth)]
        )
    )
    assert target.state("growing") == longer


def test_some_workflows_are_copied_with_their_children(pair: tuple[SqlCheckpointer, SqlCheckpointer]) -> None:
    source, target = pair
    assert copy_store(source, target, ["w"]) == ["w", "w/inner"]
    with pytest.raises(CheckpointError, match="exists already"):
        copy_store(source, target)
    assert [found.id for found in target.workflows()] == ["w"]
    assert "w2" in copy_store(source, target, skip_existing=True)
    assert described(target) == described(source)
    with pytest.raises(CheckpointError, match="'nobody' not found"):
        copy_store(source, target, ["nobody"])


def test_large_values_go_into_rows_where_there_is_no_other_place(tmp_path: Path) -> None:
    source, target, back = SqliteCheckpointer(tmp_path / "w.db"), store_in(tmp_path), tmp_path / "back.db"
    commit(source, opened(source), step(0, values={"x": "y" * 500_000}))
    copy_store(source, target)
    assert target.state("w") == {"x": "y" * 500_000}
    copy_store(target, SqliteCheckpointer(back))
    assert SqliteCheckpointer(back).state("w") == target.state("w")


def test_a_backup_of_a_postgres_store_is_a_sqlite_file(filled: PostgresCheckpointer, tmp_path: Path) -> None:
    filled.backup(str(tmp_path / "copy.db"))
    copy = SqliteCheckpointer(tmp_path / "copy.db")
    assert copy.state("w") == filled.state("w")
    with pytest.raises(CheckpointError, match="exist"):
        filled.backup(str(tmp_path / "copy.db"))


def test_a_pause_is_answered_after_a_move(tmp_path: Path) -> None:
    @interrupt(output_name="verdict")
    def ask(doubled: int) -> None:
        return None

    @node(output_name="final")
    def publish(doubled: int, verdict: str) -> str:
        return f"{doubled} {verdict}"

    graph = Graph([double, ask, publish], name="asking")
    source, target = SqliteCheckpointer(tmp_path / "w.db"), store_in(tmp_path)

    async def story() -> Any:
        await AsyncRunner(checkpointer=source).run(graph, {"x": 1}, workflow_id="w")
        copy_store(source, target)
        return await AsyncRunner(checkpointer=target).run(graph, {"verdict": "yes"}, workflow_id="w")

    assert asyncio.run(story())["final"] == "2 yes"
