"""A SQLite file from anywhere: reading it writes, deletes, runs and waits for nothing."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hypergraph import SyncRunner
from hypergraph.checkpointers import SqliteCheckpointer
from hypergraph.checkpointers.sqlite import reading
from hypergraph.checkpointers.sqlite.migrations import RARE
from hypergraph.cli import main
from hypergraph.exceptions import StoreCorruptError, StoreError, StoreUnavailableError
from hypergraph.views.sql import rows
from security.files import GRAPH, endless, sent, with_hot_journal, with_schema

READING = (
    *("ls", "show @last", "steps @last", "step @last 0", "state @last", "errors", "why @last y", "stats"),
    *("timeline @last", "lineage @last", "graph @last", "diff @last @last", "export @last", "doctor"),
    *("db info", "db check", "watch @last --json", "sql 'SELECT * FROM workflows'", "completion bash"),
)


def called(path: Path, command: str, folder: Path) -> int:
    """Return the exit code of a command."""
    words = [word.strip("'") for word in __import__("shlex").split(command)]
    if words[0] == "export":
        words += ["-o", str(folder / "exported.json"), "--force"]
    return main(["--db", str(path), *words])


def seen(folder: Path) -> dict[str, str]:
    """Return the content of the files in a folder, without SQLite's index of the log: a reader makes one."""
    return {
        file.name: hashlib.sha256(file.read_bytes()).hexdigest()
        for file in folder.iterdir()
        if file.is_file() and not file.name.endswith("-shm") and file.name != "exported.json"
    }


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A file that a sender would like to be rid of."""
    file = tmp_path / "victim.txt"
    file.write_text("mine")
    return file


# --- journals -------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", READING)
def test_no_command_deletes_what_a_journal_names(tmp_path: Path, victim: Path, command: str) -> None:
    path = sent(tmp_path)
    with_hot_journal(path, victim)
    before = seen(tmp_path)
    called(path, command, tmp_path)
    assert seen(tmp_path) == before


def test_neither_a_resume_nor_a_recovery_deletes_what_a_journal_names(tmp_path: Path, victim: Path) -> None:
    path = sent(tmp_path)
    with_hot_journal(path, victim)
    before = seen(tmp_path)
    store = SqliteCheckpointer(path)
    with pytest.raises(StoreCorruptError, match="names another file"):
        SyncRunner(checkpointer=store).run(GRAPH, workflow_id="w0")
    assert main(["--db", str(path), "db", "recover"]) == 3
    assert seen(tmp_path) == before


def test_a_journal_is_played_back_by_the_owner_and_by_the_command(tmp_path: Path) -> None:
    for name in ("run", "command"):
        path = sent(tmp_path, name=f"{name}.db")
        with_hot_journal(path)
        store = SqliteCheckpointer(path)
        with pytest.raises(StoreUnavailableError, match="half written"):
            store.workflows()
        if name == "run":
            assert SyncRunner(checkpointer=store).run(GRAPH, workflow_id="w0")["y"] == 0
        else:
            assert main(["--db", str(path), "db", "recover"]) == 0
        assert [found.id for found in store.workflows()] == ["w0"]
        assert not Path(f"{path}-journal").exists()
        store.close()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
@pytest.mark.parametrize("end", ["-journal", "-wal", "-shm"])
@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_a_link_or_pipe_beside_the_file_is_neither_opened_nor_written(
    tmp_path: Path, victim: Path, end: str, kind: str
) -> None:
    path = sent(tmp_path)
    beside = Path(f"{path}{end}")
    beside.symlink_to(victim) if kind == "link" else os.mkfifo(beside)
    store = SqliteCheckpointer(path)
    for call in (store.workflows, lambda: store.create_workflow("new")):
        with pytest.raises(StoreCorruptError, match="a link or a pipe"):
            call()
    assert victim.read_text() == "mine"
    beside.unlink()


# --- the schema -----------------------------------------------------------------------------------

ENDLESS = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT 'a', '', count(*) FROM c"
SCHEMAS = {
    "a view in place of a table": (
        "DROP TABLE tallies",
        f"CREATE VIEW tallies (status, graph, workflows) AS {ENDLESS}",
    ),
    "another view": (f"CREATE VIEW more AS {ENDLESS}",),
    "another trigger": ("CREATE TRIGGER mine AFTER UPDATE ON workflows BEGIN DELETE FROM vals; END",),
    "another index": ("CREATE INDEX mine ON vals (length(data))",),
    "a trigger on a table of one's own": (
        "CREATE TABLE mine (x)",
        "CREATE TRIGGER more AFTER INSERT ON mine BEGIN DELETE FROM vals; END",
    ),
    "a table made of a view": ("CREATE TABLE mine (x)", "CREATE VIEW more AS SELECT x FROM mine"),
    "a table with a check": ("CREATE TABLE erased (key INTEGER PRIMARY KEY CHECK (key > 0))",),
    "a rare table that is not ours": ("CREATE TABLE usage (x)",),
    "a rare table without its index": (RARE["streams"][0],),
    "a rare table without its trigger": ("DROP TRIGGER tagged",),
    "a virtual table": ("CREATE VIRTUAL TABLE mine USING fts5(x)",),
    "a missing table": ("DROP TABLE structures",),
    "a missing trigger": ("DROP TRIGGER added",),
}


def test_plain_tables_of_the_user_are_left_alone(tmp_path: Path) -> None:
    path = sent(tmp_path)
    with_schema(path, "CREATE TABLE mine (x UNIQUE, y)", "CREATE INDEX by_y ON mine (y)")
    store = SqliteCheckpointer(path)
    assert store.workflows().total
    store.close()


@pytest.mark.parametrize("kind", SCHEMAS)
def test_a_schema_that_is_not_ours_is_refused_before_the_first_query(tmp_path: Path, kind: str) -> None:
    path = sent(tmp_path)
    with_schema(path, *SCHEMAS[kind])
    before = path.read_bytes()
    store = SqliteCheckpointer(path)
    for call in (store.workflows, store.backend.open, store.backend.size, lambda: store.state("w0")):
        if call != store.backend.size:
            with pytest.raises(StoreCorruptError, match="its schema was changed or is damaged"):
                call()
    for command in READING:
        assert called(path, command, tmp_path) in (0, 1, 3), command
    assert path.read_bytes() == before


def test_statistics_that_a_user_asked_for_are_no_harm(tmp_path: Path) -> None:
    path = sent(tmp_path)
    with_schema(path, "ANALYZE")
    assert [found.id for found in SqliteCheckpointer(path).workflows()] == ["w0"]


# --- time and memory ------------------------------------------------------------------------------


@pytest.fixture
def thrifty(monkeypatch: pytest.MonkeyPatch) -> None:
    """A smaller budget, so that the tests take less time."""
    monkeypatch.setattr(reading, "_LEAST", 1_000_000)
    monkeypatch.setattr(reading, "_PER_BYTE", 1)


LONG_TAG = "n=" + "7" * 600  # too long for the index of tags: all workflows are looked at


@pytest.mark.usefixtures("thrifty")
def test_an_index_without_end_is_named_as_damage(tmp_path: Path) -> None:
    path = sent(tmp_path)
    endless(path)
    store = SqliteCheckpointer(path)
    with pytest.raises(StoreCorruptError, match="takes longer to read than its size allows"):
        store.workflows(tag=LONG_TAG, limit=None)
    for command in ("db info", "stats", "errors", "doctor", "ls"):
        assert called(path, command, tmp_path) in (0, 3), command


@pytest.mark.usefixtures("thrifty")
def test_a_question_without_end_is_cancelled(tmp_path: Path) -> None:
    path = sent(tmp_path)
    assert main(["--db", str(path), "sql", f"{ENDLESS}"]) == 4
    endless(path)
    assert main(["--db", str(path), "sql", "SELECT count(*) FROM workflows"]) == 4


TELLING = """
import sys
from hypergraph.checkpointers.sqlite import database, reading
from hypergraph.checkpointers.sqlite.store import SqliteBackend
from hypergraph.cli import main
said = []
def telling(work):
    def told(*args):
        said or (said.append(1), print("begun", flush=True))
        return work(*args)
    return told
reading._LEAST, reading._ATTEMPT, database.Database.timeout, reading.TIMEOUT = 10**15, 0.01, 1e5, 1e5
reading.reader_at.__defaults__ = (1e5,)
def count(self):
    return self.inspect(lambda c: c.execute("SELECT count(*) FROM workflows").fetchall())
"""
READ = "reading.Budget.__call__ = telling(reading.Budget.__call__)"
COUNT = "SqliteBackend.find_damage = telling(count)"  # SQLite counts at one go, and asks nothing meanwhile
WAIT = "reading._prepared = telling(reading._prepared)"
WAIT_TO_WRITE = "database.Database._prepared_writer = telling(database.Database._prepared_writer)"


@contextmanager
def begun(path: Path, patches: str, words: str) -> Iterator[subprocess.Popen[str]]:
    """Start a command that says when it has begun what the patches name; it ends by a signal alone."""
    code = f"{TELLING}{patches}\nsys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", code, "--db", str(path), *words.split()]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    ("words", "patches"),
    [(f"ls --tag {LONG_TAG}", READ), ("db check", COUNT)],
    ids=["ls", "a count at one go"],
)
def test_an_interrupt_ends_a_read_at_once(tmp_path: Path, words: str, patches: str) -> None:
    path = sent(tmp_path)
    endless(path)
    with begun(path, patches, words) as process:
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate()
        assert (process.returncode, errors) == (-signal.SIGINT, "")  # a shell says 130


@pytest.mark.parametrize(
    ("words", "patches"),
    [("tag w0 a=b", WAIT), ("db migrate", WAIT), ("ls", WAIT), ("db recover", WAIT_TO_WRITE)],
    ids=["tag", "db migrate", "ls", "db recover"],
)
def test_an_interrupt_ends_a_wait_for_another_process(tmp_path: Path, words: str, patches: str) -> None:
    path = sent(tmp_path)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    if words == "db recover":
        other.execute("UPDATE workflows SET fence = fence + 1")  # which begins a journal
    with begun(path, patches, words) as process:
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate()
        assert process.returncode in (130, -signal.SIGINT)
        assert "Traceback" not in errors
    other.close()


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs timers")
def test_an_interrupt_ends_a_write_and_rolls_it_back(tmp_path: Path) -> None:
    path = sent(tmp_path)
    store = SqliteCheckpointer(path)
    long = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x FROM c WHERE x < 0"

    def work(connection: sqlite3.Connection) -> None:
        connection.execute("DELETE FROM workflows")
        signal.setitimer(signal.ITIMER_REAL, 0.001)
        connection.execute(long)

    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            store.backend.database.write(work)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert [found.id for found in store.workflows()] == ["w0"]
    store.close()


# --- media that cannot be written -----------------------------------------------------------------


def as_another_user(work: Callable[[], str]) -> str:
    """Return what a process says that must not write: permissions do not bind the superuser."""
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if os.geteuid() == 0:
                os.setgid(65534)
                os.setuid(65534)
            text = work()
        except BaseException as error:
            text = f"{type(error).__name__}: {error}"
        os.write(writes, text.encode())
        os._exit(0)
    os.close(writes)
    with open(reads, "rb") as file:
        text = file.read().decode()
    os.waitpid(child, 0)
    return text


@pytest.fixture
def locked() -> Iterator[Path]:
    """A folder that will be read-only, and that other users can reach."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("log", ["none", "empty", "full"])
def test_media_that_cannot_be_written_are_read_or_refused_by_name(locked: Path, log: str) -> None:
    store = SqliteCheckpointer(locked / "w.db")
    SyncRunner(checkpointer=store).run(GRAPH, x=1, workflow_id="w0")
    if log == "full":
        copies = {end: Path(f"{store.backend.location}{end}").read_bytes() for end in ("", "-wal")}
        store.close()
        for end, content in copies.items():
            Path(f"{store.backend.location}{end}").write_bytes(content)
    store.close() if log != "full" else None
    Path(f"{locked}/w.db-shm").unlink(missing_ok=True)
    if log == "empty":
        Path(f"{locked}/w.db-wal").touch()
    for file in locked.iterdir():
        file.chmod(0o444)
    locked.chmod(0o555)
    before = seen(locked)
    try:
        said = as_another_user(
            lambda: ", ".join(w.id for w in SqliteCheckpointer(locked / "w.db").workflows())
        )
        assert seen(locked) == before
    finally:
        locked.chmod(0o755)
    if log == "full":
        assert said.startswith("StoreUnavailableError")
        assert "copy both files to another folder" in said
    else:
        assert said == "w0"


def test_a_file_without_locks_that_is_written_meanwhile_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = sent(tmp_path)
    connection = reading.reader_at(str(path))
    connection.unlocked = reading._state(str(path))
    connection.check_unchanged(str(path))
    SqliteCheckpointer(path).create_workflow("new")
    with pytest.raises(StoreUnavailableError, match="written while it was read"):
        connection.check_unchanged(str(path))
    connection.close()


def test_reading_makes_no_file(tmp_path: Path) -> None:
    (tmp_path / "empty.db").touch()
    for name in ("missing.db", "empty.db"):
        store = SqliteCheckpointer(tmp_path / name)
        assert store.workflows() == []
        assert asyncio.run(store.list_workflows()) == [] if hasattr(store, "list_workflows") else True
    assert [(file.name, file.stat().st_size) for file in tmp_path.iterdir()] == [("empty.db", 0)]
    with pytest.raises(StoreError, match="folder"):
        SqliteCheckpointer(tmp_path / "nowhere" / "w.db").workflows()


@pytest.mark.parametrize("command", READING)
def test_reading_commands_leave_a_file_as_it_is(tmp_path: Path, command: str) -> None:
    path = sent(tmp_path)
    before = seen(tmp_path)
    called(path, command, tmp_path)
    after = {name: digest for name, digest in seen(tmp_path).items() if not name.endswith("-wal")}
    assert after == before


def test_a_connection_that_reads_is_read_only_and_runs_nothing(tmp_path: Path) -> None:
    connection = reading.reader_at(str(sent(tmp_path)))
    settings = {"query_only": 1, "trusted_schema": 0, "cell_size_check": 1}
    assert {name: connection.execute(f"PRAGMA {name}").fetchone()[0] for name in settings} == settings
    if sys.version_info >= (3, 12):
        assert connection.getconfig(sqlite3.SQLITE_DBCONFIG_DEFENSIVE)
        assert not connection.getconfig(sqlite3.SQLITE_DBCONFIG_ENABLE_TRIGGER)
        assert not connection.getconfig(sqlite3.SQLITE_DBCONFIG_ENABLE_VIEW)
    connection.execute("PRAGMA query_only = OFF")
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        connection.execute("DELETE FROM workflows")
    connection.close()


def test_python_3_12_is_asked_for_the_defensive_mode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which older versions cannot say; the names are those of SQLite's header."""
    asked: list[tuple[str, bool]] = []
    names = ("SQLITE_DBCONFIG_DEFENSIVE", "SQLITE_DBCONFIG_ENABLE_TRIGGER", "SQLITE_DBCONFIG_ENABLE_VIEW")
    for name in names:
        monkeypatch.setattr(sqlite3, name, name, raising=False)
    monkeypatch.setattr(
        reading.Connection, "setconfig", lambda _, name, on: asked.append((name, on)), raising=False
    )
    monkeypatch.setattr(sys, "version_info", (3, 12))
    path = sent(tmp_path)
    asked.clear()
    reading.reader_at(str(path)).close()
    assert asked == [(names[0], True), (names[1], False), (names[2], False)]
    asked.clear()
    SqliteCheckpointer(path).create_workflow("new")
    assert (names[0], True) in asked  # of the connection that writes
    assert (names[1], False) not in asked[:1]


def test_the_answer_of_sql_is_that_of_the_file(tmp_path: Path) -> None:
    path = sent(tmp_path, 2)
    shutil.copy(path, tmp_path / "copy.db")
    found = rows(SqliteCheckpointer(tmp_path / "copy.db"), "SELECT id FROM workflows ORDER BY id", limit=5)
    assert [item["id"] for item in found["items"]] == ["w0", "w1"]
