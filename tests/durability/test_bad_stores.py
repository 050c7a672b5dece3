"""Runs over a database that is missing, damaged, full, foreign or taken away: what is told, what is left."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.crashing import note, opened
from support.durable import Bodies, bodies, fail_once, pipeline, rows
from support.processes import Elsewhere, elsewhere
from support.running import RUNNERS, On, OnAsync, OnSync

from durability.test_crashes import calls
from hypergraph import Graph, interrupt, node
from hypergraph.checkpointers import SqliteCheckpointer
from hypergraph.checkpointers.sqlite.database import Database
from hypergraph.exceptions import (
    CheckpointError,
    SchemaTooNewError,
    StoreCorruptError,
    StoreFullError,
    StoreReadOnlyError,
    StoreUnavailableError,
)

__all__ = ["bodies", "elsewhere"]  # fixtures

both = pytest.mark.parametrize("runner", RUNNERS)


@pytest.fixture(params=[OnSync, OnAsync], ids=RUNNERS)
def over(request: pytest.FixtureRequest) -> Callable[[Path], On]:
    """`over(path)`: a runner of either kind over the store at a path, opened anew."""

    def make(path: Path) -> On:
        made: On = request.param(checkpointer=SqliteCheckpointer(path))
        return made

    return make


def failed_at(on: On, bodies: Bodies, at: str) -> None:
    """Leave a workflow of five steps that failed at one of them, in a file that nobody has open."""
    fail_once(on, bodies, pipeline(bodies), at, values={"v0": 0}, workflow_id="w")
    on.runner.checkpointer.close()
    bodies.take()


def refused(on: On, bodies: Bodies, error: type[Any], remedy: str) -> None:
    """See that new runs, resumed ones and maps are refused with the remedy before anything runs."""
    graph = pipeline(bodies)
    for call in (
        lambda: on.run(graph, {"v0": 0}, workflow_id="new"),
        lambda: on.run(graph, {"v0": 0}, workflow_id="w"),
        lambda: on.run(graph, {"v0": 0}),
        lambda: on.map(graph, {"v0": [0, 1]}, map_over="v0", workflow_id="batch"),
    ):
        with pytest.raises(error, match=remedy) as caught:
            call()
        assert caught.value.location == on.runner.checkpointer.backend.location
        assert not isinstance(caught.value, sqlite3.Error | OSError)
    assert bodies.take() == []


# -- stores that were never any good --------------------------------------------------------------------


def test_a_missing_folder_is_not_made(over: Any, tmp_path: Path, bodies: Bodies) -> None:
    refused(over(tmp_path / "typo" / "w.db"), bodies, StoreUnavailableError, "folder")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_no_store(over: Any, tmp_path: Path, bodies: Bodies) -> None:
    (tmp_path / "w.db").mkdir()
    refused(over(tmp_path / "w.db"), bodies, StoreUnavailableError, "path|folder|directory")
    assert list((tmp_path / "w.db").iterdir()) == []


@pytest.mark.parametrize(
    "text",
    [b"Dear diary,\n" * 500, b"xy", b"SQLite format 3\0", b"\0" * 4096, b"{}\n"],
    ids=["long", "two letters", "half a header", "zeros", "json"],
)
def test_another_kind_of_file_is_left_alone(over: Any, tmp_path: Path, bodies: Bodies, text: bytes) -> None:
    (tmp_path / "w.db").write_bytes(text)
    refused(over(tmp_path / "w.db"), bodies, StoreCorruptError, "backup")
    assert (tmp_path / "w.db").read_bytes() == text


def test_the_database_of_another_program_is_left_alone(over: Any, tmp_path: Path, bodies: Bodies) -> None:
    connection = sqlite3.connect(tmp_path / "w.db")
    connection.execute("CREATE TABLE precious (x)")
    connection.close()
    before = (tmp_path / "w.db").read_bytes()
    refused(over(tmp_path / "w.db"), bodies, StoreUnavailableError, "another program")
    assert (tmp_path / "w.db").read_bytes() == before


def told_or_done(call: Callable[[], Any]) -> tuple[str, Any]:
    """Return what a store refuses with, or what came out."""
    try:
        return "", call()
    except CheckpointError as error:
        return str(error), None


# -- stores that came to harm ---------------------------------------------------------------------------


def test_the_store_of_a_newer_release_is_left_alone(over: Any, tmp_path: Path, bodies: Bodies) -> None:
    failed_at(over(tmp_path / "w.db"), bodies, "s3")
    connection = sqlite3.connect(tmp_path / "w.db")
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    before = (tmp_path / "w.db").read_bytes()
    refused(over(tmp_path / "w.db"), bodies, SchemaTooNewError, "[Uu]pgrade")
    assert (tmp_path / "w.db").read_bytes() == before


@pytest.mark.parametrize("harmed", [slice(0, 16), slice(16, 24), slice(100, 140)], ids=str)
def test_a_damaged_head_is_reported_and_left_alone(
    over: Any, tmp_path: Path, bodies: Bodies, harmed: slice
) -> None:
    path = tmp_path / "w.db"
    failed_at(over(path), bodies, "s3")
    damaged = bytearray(path.read_bytes())
    damaged[harmed] = b"\xff" * len(damaged[harmed])
    path.write_bytes(damaged)
    refused(over(path), bodies, StoreCorruptError, "backup")
    assert path.read_bytes() == damaged


@pytest.mark.parametrize("share", [0.02, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99])
def test_a_truncated_store_is_reported_or_still_right(
    over: Any, tmp_path: Path, bodies: Bodies, share: float
) -> None:
    path = tmp_path / "w.db"
    failed_at(over(path), bodies, "s3")
    os.truncate(path, int(path.stat().st_size * share))
    before = path.read_bytes()
    told, result = told_or_done(lambda: over(path).run(pipeline(bodies), {"v0": 0}, workflow_id="w"))
    if told:
        assert "backup" in told
        assert path.read_bytes() == before
    else:
        assert result["v5"] == 5
        assert len(SqliteCheckpointer(path).workflows()) == 1


def test_a_value_that_was_damaged_is_made_again(over: Any, tmp_path: Path, bodies: Bodies) -> None:
    path = tmp_path / "w.db"
    failed_at(over(path), bodies, "s4")
    connection = sqlite3.connect(path)
    changed = connection.execute("UPDATE vals SET data = CAST('9' AS BLOB) WHERE name = 'v3'")
    assert changed.rowcount == 1
    connection.commit()
    connection.close()
    assert over(path).run(pipeline(bodies), workflow_id="w")["v5"] == 5
    assert bodies.take() == ["s3", "s4", "s5"]


def test_a_damaged_value_that_nobody_needs_is_no_matter(over: Any, tmp_path: Path, bodies: Bodies) -> None:
    path = tmp_path / "w.db"
    failed_at(over(path), bodies, "s4")
    connection = sqlite3.connect(path)
    connection.execute("UPDATE vals SET data = CAST('9' AS BLOB) WHERE name = 'v1'")
    connection.commit()
    connection.close()
    assert over(path).run(pipeline(bodies), workflow_id="w")["v5"] == 5
    assert bodies.take() == ["s4", "s5"]


@pytest.mark.slow
@both
def test_without_its_journal_a_store_is_older_but_whole(
    tmp_path: Path, elsewhere: Elsewhere, runner: str
) -> None:
    elsewhere.dies(run_steps, tmp_path, runner, "s3")
    (tmp_path / "w.db-wal").unlink()
    told, found = told_or_done(lambda: elsewhere(run_steps, tmp_path, runner))
    if told:
        assert "backup" in told
    else:
        assert found == 3
        assert [w.id for w in SqliteCheckpointer(tmp_path / "w.db").workflows()] == ["w"]


# -- stores that cannot be written ----------------------------------------------------------------------


def add(name: str, source: str, target: str) -> Any:
    def body(x: int) -> int:
        note(name)
        return x + 1

    return node(output_name=target)(body).with_name(name).with_inputs(x=source)


STEPS = Graph([add("s1", "v0", "v1"), add("s2", "v1", "v2"), add("s3", "v2", "v3")], name="steps")


def run_steps(folder: Path, runner: str, place: str | None = None) -> int:
    found: int = opened(folder, runner, place).run(STEPS, {"v0": 0}, workflow_id="w")["v3"]
    return found


def as_nobody(folder: Path, runner: str) -> tuple[str, str]:
    """Run as a user whom permissions bind; return what that user is told."""
    if os.geteuid() == 0:
        os.setgid(65534)
        os.setuid(65534)
    try:
        run_steps(folder, runner)
    except CheckpointError as error:
        return type(error).__name__, str(error)
    return "none", ""


@pytest.fixture
def shared_folder() -> Iterator[Path]:
    """A folder that every user can reach."""
    folder = Path(tempfile.mkdtemp())
    os.chmod(folder, 0o777)
    yield folder
    os.chmod(folder, 0o777)
    shutil.rmtree(folder)


@pytest.mark.slow
@both
@pytest.mark.parametrize("closed", ["file", "file and folder"])
def test_a_read_only_store_is_not_run_on(
    shared_folder: Path, elsewhere: Elsewhere, runner: str, closed: str
) -> None:
    path = shared_folder / "w.db"
    elsewhere.dies(run_steps, shared_folder, runner, "s3")
    os.chmod(shared_folder / "calls", 0o666)
    elsewhere(settled, path)
    os.chmod(path, 0o444)
    os.chmod(shared_folder, 0o777 if closed == "file" else 0o555)
    before = path.read_bytes()
    name, text = elsewhere(as_nobody, shared_folder, runner)
    assert name == StoreReadOnlyError.__name__
    assert "permissions" in text
    assert path.read_bytes() == before
    assert calls(shared_folder) == {"s1": 1, "s2": 1, "s3": 1}


def settled(path: Path) -> None:
    """Let everything be in the file itself, and nothing beside it."""
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    for file in path.parent.glob("w.db-*"):
        file.unlink()


def big(bodies: Bodies, before: Callable[[], None]) -> Graph:
    """Return a chain of which the second step makes something big, after what it is told to do before."""

    @node(output_name="small")
    def first(x: int) -> int:
        bodies.enter("first")
        return x + 1

    @node(output_name="text")
    def second(small: int) -> str:
        bodies.enter("second")
        before()
        return "y" * 100_000

    @node(output_name="size")
    def third(text: str) -> int:
        bodies.enter("third")
        return len(text)

    return Graph([first, second, third], name="big")


def test_a_full_store_stops_the_run_before_anything_is_built_on_sand(
    over: Any, tmp_path: Path, bodies: Bodies
) -> None:
    on = over(tmp_path / "w.db")

    def fill() -> None:
        writer = on.runner.checkpointer.backend.database._writer
        (pages,) = writer.execute("PRAGMA page_count").fetchone()
        writer.execute(f"PRAGMA max_page_count = {pages + 1}")

    with pytest.raises(StoreFullError, match="prune"):
        on.run(big(bodies, fill), {"x": 1}, workflow_id="w")
    assert bodies.take() == ["first", "second"]
    on.runner.checkpointer.close()
    store = SqliteCheckpointer(tmp_path / "w.db")
    assert [w.id for w in store.workflows()] == ["w"]
    assert rows(store, "w") == [(0, "first", "completed")]
    assert over(tmp_path / "w.db").run(big(bodies, lambda: None), workflow_id="w")["size"] == 100_000
    assert bodies.take() == ["second", "third"]


def limited(folder: Path, runner: str) -> int:
    """Run while no file may grow any further, as under a quota."""
    import resource

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        size = max(file.stat().st_size for file in folder.iterdir()) + 8192
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    graph = big(Bodies(), limit)
    found: int = opened(folder, runner).run(graph, {"x": 1}, workflow_id="w")["size"]
    return found


def unlimited(folder: Path, runner: str) -> Any:
    result = opened(folder, runner).run(big(Bodies(), lambda: None), workflow_id="w")
    return result["size"], [record.status for record in result.log.steps]


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGXFSZ"), reason="needs limits")
@both
def test_a_quota_that_is_used_up_loses_nothing_that_was_written(
    tmp_path: Path, elsewhere: Elsewhere, runner: str
) -> None:
    with pytest.raises(CheckpointError):
        elsewhere(limited, tmp_path, runner)
    size, statuses = elsewhere(unlimited, tmp_path, runner)
    assert (size, statuses) == (100_000, ["skipped", "completed", "completed"])


def test_a_store_that_others_keep_locked_is_reported(
    over: Any, tmp_path: Path, bodies: Bodies, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed_at(over(tmp_path / "w.db"), bodies, "s3")
    monkeypatch.setattr(Database, "timeout", 0.01)
    other = sqlite3.connect(tmp_path / "w.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailableError, match="locked"):
        over(tmp_path / "w.db").run(pipeline(bodies), workflow_id="w")
    assert bodies.take() == []
    other.execute("ROLLBACK")
    other.close()
    assert over(tmp_path / "w.db").run(pipeline(bodies), workflow_id="w")["v5"] == 5


# -- stores that go away while they are used ------------------------------------------------------------


def taken_away(folder: Path, how: str) -> None:
    for file in folder.glob("w.db*"):
        file.unlink()
    if how == "replaced":
        SqliteCheckpointer(folder / "other.db").backend.open()
        shutil.copy(folder / "other.db", folder / "w.db")
    elif how == "folder":
        folder.rmdir()


@pytest.mark.parametrize("how", ["deleted", "replaced", "folder"])
def test_a_store_that_is_taken_away_stops_the_run(
    over: Any, tmp_path: Path, bodies: Bodies, how: str
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    graph = big(bodies, lambda: taken_away(folder, how))
    with pytest.raises(CheckpointError):
        over(folder / "w.db").run(graph, {"x": 1}, workflow_id="w")
    assert bodies.take()[:2] == ["first", "second"]  # what runs in the next milliseconds is lost with them
    folder.mkdir(exist_ok=True)
    assert SqliteCheckpointer(folder / "w.db").workflows() == []
    result = over(folder / "w.db").run(big(bodies, lambda: None), {"x": 1}, workflow_id="w")
    assert result["size"] == 100_000
    assert [w.id for w in SqliteCheckpointer(folder / "w.db").workflows()] == ["w"]


def test_no_call_that_must_not_be_repeated_is_made_after_a_store_was_taken_away(
    over: Any, tmp_path: Path
) -> None:
    calls: list[str] = []

    @node(output_name="a")
    def first(x: int) -> int:
        for file in tmp_path.iterdir():
            file.unlink()
        return x

    @node(output_name="b", repeatable=False)
    def second(a: int) -> int:
        calls.append("second")
        return a

    with pytest.raises(CheckpointError):
        over(tmp_path / "w.db").run(Graph([first, second], name="g"), {"x": 1}, workflow_id="w")
    assert calls == []


def test_a_log_that_is_taken_away_stops_the_run(over: Any, tmp_path: Path, bodies: Bodies) -> None:
    graph = big(bodies, (tmp_path / "w.db-wal").unlink)
    with pytest.raises(StoreUnavailableError, match="-wal was removed"):
        over(tmp_path / "w.db").run(graph, {"x": 1}, workflow_id="w")
    assert bodies.take()[:2] == ["first", "second"]
    result = over(tmp_path / "w.db").run(big(bodies, lambda: None), {"x": 1}, workflow_id="w")
    assert result["size"] == 100_000
    assert "first" not in bodies.take()


@pytest.mark.parametrize(
    "nodes", ["[{}]", "[1]", "{}", "[null]", '[{"name": 1}]', '"abc"', '[{"name": "ask"}]']
)
@pytest.mark.parametrize("formerly", [{}, {"old_make": "make"}], ids=["as it was", "renamed"])
def test_a_resume_names_a_stored_graph_that_makes_no_sense(
    over: Any, tmp_path: Path, nodes: str, formerly: dict[str, str]
) -> None:
    @node(output_name="a")
    def make(x: int) -> int:
        return x

    @interrupt("approved")
    def ask(a: int) -> bool | None:
        return None

    graph, path = Graph([make, ask], name="g", formerly=formerly), tmp_path / "w.db"
    over(path).run(graph, {"x": 1}, workflow_id="w")
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE structures SET graph = ?", (f'{{"nodes": {nodes}, "edges": [{{}}]}}',))
    connection.close()
    for given in ({}, {"approved": True}, {"x": 2}):
        try:
            over(path).run(graph, given, workflow_id="w")
        except (CheckpointError, UserWarning):
            continue
