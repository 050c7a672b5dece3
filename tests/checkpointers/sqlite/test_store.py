"""The SQLite store: its file, its plans, its troubles, and what survives them."""

import os
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hypergraph import Graph, SyncRunner, node
from hypergraph.checkpointers import (
    SqliteCheckpointer,
    StepRecord,
    StepStatus,
    Undecodable,
    WorkflowStatus,
    query,
)
from hypergraph.checkpointers.query import Query, parse
from hypergraph.checkpointers.records import NewWorkflow
from hypergraph.checkpointers.sql import queries
from hypergraph.checkpointers.sqlite import database, migrations, reading
from hypergraph.checkpointers.sqlite.database import Database
from hypergraph.checkpointers.sqlite.dialect import SQLITE
from hypergraph.checkpointers.sqlite.reading import connect
from hypergraph.exceptions import (
    CheckpointError,
    SchemaTooNewError,
    StoreCorruptError,
    StoreFullError,
    StoreReadOnlyError,
    StoreUnavailableError,
)

as_root = hasattr(os, "geteuid") and os.geteuid() == 0


def step(superstep: int, values: Any = None, **fields: Any) -> StepRecord:
    given = {"workflow_id": "w", "node_name": "n", "index": superstep, "input_versions": {}}
    return StepRecord(
        **{**given, "superstep": superstep, "status": StepStatus.COMPLETED, "values": values, **fields}
    )


def written(path: Path, count: int = 3) -> SqliteCheckpointer:
    """Return a store with a workflow of some steps."""
    store = SqliteCheckpointer(path)
    claim = store.backend.claim("w", NewWorkflow(), store.encoding)
    store.backend.write(
        store.encoding.commit(claim, [store.encoding.encode(step(i, {"x": i})) for i in range(count)])
    )
    store.backend.write(store.encoding.commit(claim, status=WorkflowStatus.COMPLETED))
    store.backend.release(claim)
    return store


def in_fresh_python(code: str, *arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, check=True, text=True, capture_output=True, **options)


# -- the file ------------------------------------------------------------------------------------------


_RUN_AND_END = """
import sys
from hypergraph import Graph, SyncRunner, node
@node(output_name="y")
def double(x): return 2 * x
runner, number = SyncRunner(checkpointer=sys.argv[1]), sys.argv[2]
runner.run(Graph([double], name="g"), x=int(number), workflow_id="b" + number)
"""


def test_processes_that_come_and_go_leave_the_log_of_a_reader_that_begins_to_write(tmp_path: Path) -> None:
    """A process that ends takes the log with it, unless the locks of the others say that it is in use."""

    @node(output_name="y")
    def double(x: int) -> int:
        return 2 * x

    path = tmp_path / "w.db"
    others = iter(range(100))
    in_fresh_python(_RUN_AND_END, path, next(others))
    store = SqliteCheckpointer(path)
    runner = SyncRunner(checkpointer=store)
    for number in range(4):
        assert store.workflow("b0") is not None  # by a reader, whose lock has to last
        runner.run(Graph([double], name="g"), x=number, workflow_id=f"a{number}")
        for _ in range(2):
            other = next(others)
            in_fresh_python(_RUN_AND_END, path, other)
            assert store.workflow(f"b{other}") is not None
    store.close()
    fresh = SqliteCheckpointer(path)
    expected = {f"a{number}": 2 * number for number in range(4)} | {f"b{n}": 2 * n for n in range(9)}
    assert {found.id: fresh.state(found.id)["y"] for found in fresh.workflows()} == expected
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    connection.close()


def test_the_file_is_made_by_the_first_write_and_by_no_read(tmp_path: Path) -> None:
    store = SqliteCheckpointer(tmp_path / "w.db")
    assert store.workflows() == []
    assert store.search("x") == []
    assert list(tmp_path.iterdir()) == []
    store.create_workflow("w")
    assert [found.id for found in store.workflows()] == ["w"]


@pytest.mark.parametrize("umask", [0o000, 0o077, 0o277])
def test_files_are_private_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        store = SqliteCheckpointer(tmp_path / "w.db")
        store.backend.claim("w", NewWorkflow(), store.encoding)
    finally:
        os.umask(before)
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()}
    assert modes["w.db"] == 0o600
    assert not any(mode & 0o077 for mode in modes.values()), modes


def test_the_file_says_what_it_is(tmp_path: Path) -> None:
    written(tmp_path / "w.db").close()
    connection = sqlite3.connect(tmp_path / "w.db")
    assert migrations.number(connection, "application_id") == migrations.APPLICATION_ID
    assert migrations.number(connection, "user_version") == len(migrations.MIGRATIONS)
    assert migrations.number(connection, "auto_vacuum") == 2
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()


def test_everything_is_there_after_closing_and_opening_again(tmp_path: Path) -> None:
    written(tmp_path / "w.db").close()
    store = SqliteCheckpointer(tmp_path / "w.db")
    assert store.state("w") == {"x": 2}
    store.close()
    assert store.state("w") == {"x": 2}


def test_two_stores_on_one_file_are_one(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    first, second = SqliteCheckpointer(tmp_path / "w.db"), SqliteCheckpointer(tmp_path / "link" / "w.db")
    claim = first.backend.claim("w", NewWorkflow(), first.encoding)
    second.backend.write(second.encoding.commit(claim, [second.encoding.encode(step(0, {"x": 1}))]))
    first.close()
    second.backend.write(second.encoding.commit(claim, [second.encoding.encode(step(1, {"x": 2}))]))
    assert first.state("w") == {"x": 2}


def test_a_file_that_was_removed_is_not_written_on(tmp_path: Path) -> None:
    store = written(tmp_path / "w.db")
    for file in tmp_path.iterdir():
        file.unlink()
    assert store.workflows() == []
    store.backend.claim("new", NewWorkflow(), store.encoding)
    assert [found.id for found in SqliteCheckpointer(tmp_path / "w.db").workflows()] == ["new"]


def test_a_backup_is_a_whole_private_store(tmp_path: Path) -> None:
    store = written(tmp_path / "w.db")
    copy = tmp_path / "copy's.db"
    store.backup(str(copy))
    assert SqliteCheckpointer(copy).state("w") == {"x": 2}
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    with pytest.raises(CheckpointError, match="exists"):
        store.backup(str(copy))
    with pytest.raises(StoreUnavailableError):
        store.backup(str(tmp_path / "nowhere" / "copy.db"))


def test_erasing_leaves_no_rows_and_gives_the_room_back(tmp_path: Path) -> None:
    store = written(tmp_path / "w.db", 600)
    store.close()
    size = (tmp_path / "w.db").stat().st_size
    store.backend.delete(["w"])
    store.close()
    assert (tmp_path / "w.db").stat().st_size < size
    connection = sqlite3.connect(tmp_path / "w.db")
    left = {table: connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in
            ("workflows", "structures", "steps", "vals", "erased")}  # fmt: skip
    assert set(left.values()) == {0}
    connection.close()


def test_an_erasure_that_was_interrupted_is_finished_by_the_next(tmp_path: Path) -> None:
    store = written(tmp_path / "w.db")
    connection = sqlite3.connect(tmp_path / "w.db")
    connection.execute(migrations.RARE["erased"][0])
    connection.execute("INSERT INTO erased SELECT key FROM workflows")
    connection.execute("DELETE FROM workflows")
    connection.commit()
    store.gc()
    assert connection.execute("SELECT count(*) FROM steps").fetchone() == (0,)
    connection.close()


# -- plans ---------------------------------------------------------------------------------------------


def plan(path: Path, statement: str, values: Any) -> str:
    connection = sqlite3.connect(path)
    connection.create_function("contains", 2, query.contains)
    rows = connection.execute("EXPLAIN QUERY PLAN " + statement, values).fetchall()
    connection.close()
    return "\n".join(row[-1] for row in rows)


def test_state_is_read_by_seeks_alone(tmp_path: Path) -> None:
    store = written(tmp_path / "w.db")
    found = plan(Path(store.backend.location), SQLITE.state, {"key": 1, "kind": 0, "upto": 5})
    scans = [line for line in found.splitlines() if line.startswith("SCAN") and "names" not in line]
    assert [line for line in scans if "CONSTANT ROW" not in line] == [], found
    assert "(workflow=? AND kind=? AND name=? AND superstep<?)" in found


def test_state_costs_the_same_however_long_the_history(tmp_path: Path) -> None:
    def work(count: int) -> int:
        store = written(tmp_path / f"{count}.db", count)
        rows = []
        connection = sqlite3.connect(store.backend.location)
        connection.set_progress_handler(lambda: rows.append(1), 1)
        connection.execute(SQLITE.state, {"key": 1, "kind": 0, "upto": count // 2}).fetchall()
        connection.close()
        return len(rows)

    assert work(2000) <= work(20) * 1.2


@pytest.mark.parametrize(
    "query",
    [
        Query(),
        Query(cursor="500"),
        Query(parent="x"),
        Query(parent="x", cursor="9"),
        Query(graph="g"),
        parse(status="failed"),
        parse(status="failed", cursor="9", graph="g"),
    ],
)
def test_a_page_of_workflows_is_a_walk_along_an_index(tmp_path: Path, query: Query) -> None:
    store = written(tmp_path / "w.db")
    store.backend.database.write(lambda connection: connection.make("workflows_by_parent"))
    found = plan(Path(store.backend.location), *queries.page(query, SQLITE.has_long_tag))
    assert "SEARCH workflows USING" in found, found
    assert "TEMP B-TREE" not in found, found
    assert "SCAN" not in found, found


@pytest.mark.slow
def test_a_page_costs_the_same_among_few_and_among_many_workflows(tmp_path: Path) -> None:
    store = SqliteCheckpointer(tmp_path / "w.db")
    store.backend.database.write(lambda connection: connection.make("workflows_by_parent"))
    connection = sqlite3.connect(tmp_path / "w.db")

    def work() -> int:
        ticks = []
        connection.set_progress_handler(lambda: ticks.append(1), 1)
        assert len(connection.execute(*queries.page(Query(limit=50), SQLITE.has_long_tag)).fetchall()) == 51
        connection.set_progress_handler(None, 0)
        return len(ticks)

    def fill(first: int, last: int) -> None:
        rows = [(f"w{number}", "completed", 1, number, 0) for number in range(first, last)]
        insert = "INSERT INTO workflows (id, status, visit, created_at, fence) VALUES (?, ?, ?, ?, ?)"
        connection.executemany(insert, rows)
        connection.commit()

    fill(0, 100)
    few = work()
    fill(100, 100_000)
    assert work() <= few * 1.2
    connection.close()


# -- several processes ---------------------------------------------------------------------------------

OPEN = """
import sys
from hypergraph.checkpointers import SqliteCheckpointer
from hypergraph.checkpointers.records import NewWorkflow
sys.stdin.readline()
store = SqliteCheckpointer(sys.argv[1])
store.backend.claim(sys.argv[2], NewWorkflow(), store.encoding)
"""


@pytest.mark.slow
def test_processes_that_create_the_file_at_once_all_succeed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", OPEN, str(tmp_path / "w.db")]
    racers = [
        subprocess.Popen([*command, f"w{number}"], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for number in range(4)
    ]
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("go\n")
        racer.stdin.flush()
    errors = [racer.communicate()[1] for racer in racers]
    assert errors == [""] * 4
    assert {found.id for found in SqliteCheckpointer(tmp_path / "w.db").workflows()} == {
        f"w{number}" for number in range(4)
    }


KILLED = """
import os
import signal
import sys
from hypergraph.checkpointers import SqliteCheckpointer, StepRecord, StepStatus
from hypergraph.checkpointers import fault_points
from hypergraph.checkpointers.records import NewWorkflow
store = SqliteCheckpointer(sys.argv[1])
claim = store.backend.claim("w", NewWorkflow(), store.encoding)
for i in range(10):
    record = StepRecord("w", i, "n", i, StepStatus.COMPLETED, {}, values={"x": i})
    if i == 5:
        def hook(name):
            if name == sys.argv[2]:
                os.kill(os.getpid(), signal.SIGKILL)
        fault_points.hook = hook
    store.backend.write(store.encoding.commit(claim, [store.encoding.encode(record)]))
    print(i, flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("where", "rows"), [("write.before_commit", 5), ("write.after_commit", 6)])
def test_what_was_acknowledged_survives_a_kill(tmp_path: Path, where: str, rows: int) -> None:
    run = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path / "w.db"), where],
        text=True,
        capture_output=True,
        check=False,
    )
    assert run.stdout.split() == [str(number) for number in range(5)]
    store = SqliteCheckpointer(tmp_path / "w.db")
    assert [found.index for found in store.steps("w")] == list(range(rows))


@pytest.mark.slow
def test_what_is_queued_is_written_before_the_interpreter_ends(tmp_path: Path) -> None:
    code = """if True:
        import sys
        from hypergraph.checkpointers import SqliteCheckpointer, StepRecord, StepStatus
        from hypergraph.checkpointers.records import NewWorkflow
        from hypergraph.checkpointers.background import Writer
        store = SqliteCheckpointer(sys.argv[1])
        writer, claim = Writer(store.backend), store.backend.claim("w", NewWorkflow(), store.encoding)
        for i in range(200):
            record = StepRecord("w", i, "n", i, StepStatus.COMPLETED, {})
            writer.submit(store.encoding.commit(claim, [store.encoding.encode(record)]))
    """
    in_fresh_python(code, tmp_path / "w.db")
    assert len(SqliteCheckpointer(tmp_path / "w.db").steps("w")) == 200


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_the_child_of_a_fork_has_connections_of_its_own(tmp_path: Path) -> None:
    store = written(tmp_path / "w.db")
    claim = store.backend.claim("mine", NewWorkflow(), store.encoding)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            try:
                store.backend.write(
                    store.encoding.commit(claim, [store.encoding.encode(step(0, workflow_id="mine"))])
                )
            except CheckpointError:
                told = store.backend.claim("childs", NewWorkflow(), store.encoding)
                store.backend.write(
                    store.encoding.commit(told, [store.encoding.encode(step(0, workflow_id="childs"))])
                )
                code = 0 if store.state("w") == {"x": 2} else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    store.backend.write(store.encoding.commit(claim, [store.encoding.encode(step(0, workflow_id="mine"))]))
    assert [len(store.steps(name)) for name in ("mine", "childs")] == [1, 1]


# -- trouble -------------------------------------------------------------------------------------------


def everything(store: SqliteCheckpointer) -> list[Callable[[], object]]:
    """Return one call of each kind."""
    return [
        lambda: store.backend.claim("new", NewWorkflow(), store.encoding),
        lambda: store.state("w"),
        lambda: store.steps("w"),
        store.workflows,
        store.backend.open,
        lambda: store.backend.delete(["w"]),
        lambda: store.save_step(step(7)),
    ]


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    store = SqliteCheckpointer(tmp_path / "nowhere" / "w.db")
    for call in everything(store):
        with pytest.raises(StoreUnavailableError, match="folder") as caught:
            call()
        assert caught.value.__cause__ is not None
        assert caught.value.location == store.backend.location


def test_a_folder_in_place_of_the_file_is_named(tmp_path: Path) -> None:
    store = SqliteCheckpointer(tmp_path)
    for call in everything(store):
        with pytest.raises(StoreUnavailableError):
            call()


@pytest.mark.parametrize("damage", [b"this is no database " * 300, b"SQLite format 3\0" + b"\xff" * 5000])
def test_a_damaged_file_is_refused_and_left_alone(tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "w.db"
    path.write_bytes(damage)
    for call in everything(SqliteCheckpointer(path)):
        with pytest.raises(StoreCorruptError, match="backup"):
            call()
    assert path.read_bytes() == damage


def test_a_truncated_file_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "w.db"
    written(path, 500).close()
    os.truncate(path, path.stat().st_size // 2)
    store = SqliteCheckpointer(path)
    with pytest.raises(StoreCorruptError):
        store.steps("w")


def test_a_flipped_byte_in_a_value_hides_that_value_only(tmp_path: Path) -> None:
    store = written(tmp_path / "w.db")
    connection = sqlite3.connect(tmp_path / "w.db")
    connection.execute("UPDATE vals SET data = CAST('9' AS BLOB) WHERE superstep = 1")
    connection.commit()
    connection.close()
    values = [found.values["x"] for found in store.steps("w") if found.values]
    assert (values[0], values[2]) == (0, 2)
    assert isinstance(values[1], Undecodable)
    assert "checksum" in values[1].reason


@pytest.mark.parametrize("hostile", [b"", b"\x80\x04.", b"[" * 100_000, b'{"$": "os.system"}', b"\xff"])
def test_hostile_bytes_come_back_as_undecodable_or_plain_data(tmp_path: Path, hostile: bytes) -> None:
    from zlib import crc32

    store = written(tmp_path / "w.db")
    connection = sqlite3.connect(tmp_path / "w.db")
    connection.execute("UPDATE vals SET data = ?, checksum = ?", (hostile, crc32(hostile)))
    connection.commit()
    connection.close()
    assert isinstance(store.state("w")["x"], Undecodable | dict)
    assert len(store.steps("w")) == 3


@pytest.mark.parametrize("change", ["versions = '['", "versions = '7'", "unusual = 'odd'", "superstep = -1"])
def test_a_row_that_makes_no_sense_is_reported_as_damage(tmp_path: Path, change: str) -> None:
    store = written(tmp_path / "w.db", 1)
    connection = sqlite3.connect(tmp_path / "w.db")
    connection.execute(f"UPDATE steps SET {change}")
    connection.execute("UPDATE workflows SET status = 'odd'")
    connection.commit()
    connection.close()
    with pytest.raises(StoreCorruptError):
        store.steps("w")
    with pytest.raises(StoreCorruptError):
        store.workflows()
    store.backend.delete(["w"])
    assert store.workflows() == []


def test_a_newer_schema_is_refused_untouched(tmp_path: Path) -> None:
    path = tmp_path / "w.db"
    written(path).close()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = DELETE")
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    before = path.read_bytes()
    for call in everything(SqliteCheckpointer(path)):
        with pytest.raises(SchemaTooNewError, match="Upgrade") as caught:
            call()
        assert (caught.value.found, caught.value.known) == (99, len(migrations.MIGRATIONS))
    assert path.read_bytes() == before


def test_the_database_of_another_program_is_refused_untouched(tmp_path: Path) -> None:
    path = tmp_path / "w.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE precious (x)")
    connection.close()
    before = path.read_bytes()
    for call in everything(SqliteCheckpointer(path)):
        with pytest.raises(StoreUnavailableError, match="another program"):
            call()
    assert path.read_bytes() == before


def test_a_file_that_is_created_while_it_is_opened_is_not_an_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    SqliteCheckpointer(tmp_path / "w.db").create_workflow("w")
    prepared = reading._prepared
    monkeypatch.setattr(
        reading, "_prepared", lambda *given: (prepared(*given)[0], 1)
    )  # as it was a moment ago
    assert SqliteCheckpointer(tmp_path / "w.db").workflow("w").id == "w"


def test_tables_of_the_user_may_follow_those_of_the_store(tmp_path: Path) -> None:
    path = tmp_path / "w.db"
    store = SqliteCheckpointer(path)
    store.open()
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE precious (x)")
    connection.close()
    store.create_workflow("w")
    with SqliteCheckpointer(path) as again:
        assert again.workflow("w").id == "w"


def test_a_migration_that_fails_leaves_the_file_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path / "w.db").close()

    def broken(connection: sqlite3.Connection) -> None:
        connection.execute("CREATE TABLE half (x)")
        connection.execute("NOT SQL")

    monkeypatch.setattr(migrations, "MIGRATIONS", (*migrations.MIGRATIONS, broken))
    with pytest.raises(CheckpointError):
        SqliteCheckpointer(tmp_path / "w.db").backend.open()
    monkeypatch.undo()
    assert SqliteCheckpointer(tmp_path / "w.db").state("w") == {"x": 2}
    connection = sqlite3.connect(tmp_path / "w.db")
    assert connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'half'").fetchone() is None
    connection.close()


def test_an_older_file_is_migrated_by_a_program_that_writes_and_not_by_a_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path / "w.db").close()

    def add(connection: sqlite3.Connection) -> None:
        connection.execute("CREATE TABLE added (x)")

    newer = (*migrations.SCHEMAS, migrations.SCHEMAS[-1] | {("table", "added", "CREATE TABLE added (x)")})
    monkeypatch.setattr(migrations, "MIGRATIONS", (*migrations.MIGRATIONS, add))
    monkeypatch.setattr(migrations, "SCHEMAS", newer)
    before = (tmp_path / "w.db").read_bytes()
    store = SqliteCheckpointer(tmp_path / "w.db")
    with pytest.raises(StoreUnavailableError, match=r"older release.*hypergraph db migrate"):
        store.state("w")
    assert (tmp_path / "w.db").read_bytes() == before
    assert store.backend.recover()
    assert store.state("w") == {"x": 2}
    connection = sqlite3.connect(tmp_path / "w.db")
    assert connection.execute("SELECT count(*) FROM added").fetchone() == (0,)
    connection.close()


def test_a_full_disk_loses_the_commit_and_nothing_else(tmp_path: Path) -> None:
    store = written(tmp_path / "w.db")
    claim = store.backend.claim("w", NewWorkflow(), store.encoding)
    writer = store.backend.database._writer
    assert writer is not None
    pages = migrations.number(writer, "page_count")
    writer.execute(f"PRAGMA max_page_count = {pages + 1}")
    with pytest.raises(StoreFullError, match="prune"):
        store.backend.write(
            store.encoding.commit(claim, [store.encoding.encode(step(7, {"x": "y" * 50_000}))], full=True)
        )
    writer.execute("PRAGMA max_page_count = 1000000")
    store.backend.write(store.encoding.commit(claim, [store.encoding.encode(step(8, {"x": 8}))]))
    assert [found.index for found in store.steps("w")] == [0, 1, 2, 8]


def test_a_locked_file_is_reported_after_the_patience_is_used_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Database, "timeout", 0.01)
    store = SqliteCheckpointer(tmp_path / "w.db")
    store.backend.open()
    other = sqlite3.connect(tmp_path / "w.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailableError, match="locked by another program"):
        store.backend.claim("w", NewWorkflow(), store.encoding)
    assert store.workflows() == []  # readers never wait for a writer
    other.execute("ROLLBACK")
    other.close()
    store.backend.claim("w", NewWorkflow(), store.encoding)


def test_a_read_only_connection_is_reported_as_such(tmp_path: Path) -> None:
    store = written(tmp_path / "w.db")
    writer = store.backend.database._writer
    assert writer is not None
    writer.execute("PRAGMA query_only = ON")
    with pytest.raises(StoreReadOnlyError, match="permissions"):
        store.backend.claim("w", NewWorkflow(), store.encoding)


@pytest.mark.skipif(as_root, reason="permissions do not bind the superuser")
def test_a_read_only_file_can_be_read(tmp_path: Path) -> None:
    written(tmp_path / "w.db").close()
    os.chmod(tmp_path / "w.db", 0o400)
    store = SqliteCheckpointer(tmp_path / "w.db")
    assert store.state("w") == {"x": 2}
    with pytest.raises(StoreReadOnlyError):
        store.backend.claim("w", NewWorkflow(), store.encoding)


@pytest.mark.skipif(as_root, reason="permissions do not bind the superuser")
def test_a_file_in_a_read_only_folder_can_be_read(tmp_path: Path) -> None:
    written(tmp_path / "w.db").close()
    os.chmod(tmp_path, 0o500)
    store = SqliteCheckpointer(tmp_path / "w.db")
    assert store.state("w") == {"x": 2}
    with pytest.raises(StoreReadOnlyError, match="in a folder that cannot be written"):
        store.tag("w", {"a": "b"})
    os.chmod(tmp_path, 0o700)


def test_a_file_on_a_read_only_mount_is_not_said_to_be_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = written(tmp_path / "w.db")
    store.close()
    nowhere = str(tmp_path / "none" / "w.db")  # fails as a log does that cannot be created
    monkeypatch.setattr(database, "connect", lambda path, timeout: connect(nowhere, timeout))
    with pytest.raises(StoreUnavailableError, match="check that the folder exists"):
        store.tag("w", {"a": "b"})
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)
    with pytest.raises(StoreReadOnlyError, match=r"in a folder that cannot be written.*how it is mounted"):
        store.tag("w", {"a": "b"})
    assert store.state("w") == {"x": 2}


def test_a_row_that_cannot_be_bound_fails_alone_in_its_group(tmp_path: Path) -> None:
    store = SqliteCheckpointer(tmp_path / "w.db")
    good, bad = (
        store.backend.claim("good", NewWorkflow(), store.encoding),
        store.backend.claim("bad", NewWorkflow(), store.encoding),
    )
    units = [
        store.encoding.commit(bad, [store.encoding.encode(step(2**70, workflow_id="bad"))]),
        store.encoding.commit(good, [store.encoding.encode(step(0, workflow_id="good"))]),
    ]
    outcomes = store.backend.write_all(units)
    assert [type(error) for error in outcomes] != [type(None)] * 2
    assert outcomes[1] is None
    assert [len(store.steps(name)) for name in ("good", "bad")] == [1, 0]


def test_an_interrupted_commit_leaves_no_open_transaction(tmp_path: Path) -> None:
    store = written(tmp_path / "w.db")

    def interrupt(connection: sqlite3.Connection) -> None:
        connection.execute("DELETE FROM steps")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.backend.database.write(interrupt, full=True)
    assert len(store.steps("w")) == 3
    store.backend.claim("next", NewWorkflow(), store.encoding)
    writer = store.backend.database._writer
    assert writer is not None
    assert migrations.number(writer, "synchronous") == 1


def test_only_a_full_commit_waits_for_the_disk(tmp_path: Path) -> None:
    database = written(tmp_path / "w.db").backend.database
    levels = [
        database.write(lambda c: migrations.number(c, "synchronous"), full=full) for full in (True, False)
    ]
    assert levels == [2, 1]


def test_readers_can_neither_write_nor_checkpoint(tmp_path: Path) -> None:
    store = written(tmp_path / "w.db")

    def write(connection: sqlite3.Connection) -> None:
        connection.execute("DELETE FROM steps")

    with pytest.raises(StoreReadOnlyError):
        store.backend.database.read(write)
    assert store.backend.database.read(lambda reader: migrations.number(reader, "wal_autocheckpoint")) == 0
    assert store.backend.database.read(lambda reader: migrations.number(reader, "trusted_schema")) == 0


def test_threads_may_write_and_read_at_once(tmp_path: Path) -> None:
    store = SqliteCheckpointer(tmp_path / "w.db")
    start, trouble = threading.Barrier(6), []

    def work(number: int) -> None:
        try:
            start.wait()
            name = f"w{number}"
            claim = store.backend.claim(name, NewWorkflow(), store.encoding)
            for i in range(20):
                store.backend.write(
                    store.encoding.commit(claim, [store.encoding.encode(step(i, {"x": i}, workflow_id=name))])
                )
                assert store.state(name) == {"x": i}
            store.backend.release(claim)
        except BaseException as error:
            trouble.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert trouble == []
    assert {found.step_count for found in store.workflows()} == {20}


def test_a_program_that_writes_undoes_what_a_crash_left_and_a_reader_does_not(tmp_path: Path) -> None:
    store = SqliteCheckpointer(tmp_path / "whole.db")
    store.create_workflow("w")
    store.close()
    connection = sqlite3.connect(store.backend.location, isolation_level=None)
    connection.execute("PRAGMA journal_mode = DELETE")  # as before the first table is there
    connection.execute("PRAGMA cache_size = 1")  # so that pages reach the file before the end
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("DELETE FROM workflows")
    connection.executemany("INSERT INTO structures VALUES (?, zeroblob(5000), '')", [(n,) for n in range(50)])
    for ending in ("", "-journal"):
        (tmp_path / f"left.db{ending}").write_bytes(Path(store.backend.location + ending).read_bytes())
    connection.close()
    left = SqliteCheckpointer(tmp_path / "left.db")
    with pytest.raises(StoreUnavailableError, match="half written"):
        left.workflows()
    assert (tmp_path / "left.db-journal").exists()
    assert left.backend.recover()
    assert [workflow.id for workflow in left.workflows()] == ["w"]
