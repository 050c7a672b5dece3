"""`hypergraph sql`: the views answer, and nothing else does."""

import csv
import io
import os
import signal
import sqlite3
from pathlib import Path

import pytest
from support.cli import Cli
from support.cli_stories import stories

from hypergraph import SqliteCheckpointer
from hypergraph.checkpointers.sqlite.reading import Budget
from hypergraph.exceptions import CheckpointError
from hypergraph.views import sql
from hypergraph.views.problems import Problem
from hypergraph.views.sql import VIEWS, Rows

__all__ = ["stories"]

WRITES = [
    "DELETE FROM workflows",
    "DELETE FROM main.workflows",
    "UPDATE workflows SET id = 'x'",
    "INSERT INTO workflows DEFAULT VALUES",
    "REPLACE INTO main.workflows (id) VALUES ('x')",
    "CREATE TABLE x (a)",
    "CREATE TEMP TABLE x (a)",
    "CREATE TEMP TRIGGER t AFTER INSERT ON main.workflows BEGIN SELECT 1; END",
    "DROP VIEW workflows",
    "ALTER TABLE main.workflows RENAME TO w",
    "ATTACH 'x.db' AS x",
    "DETACH main",
    "VACUUM",
    "VACUUM INTO 'copy.db'",
    "PRAGMA user_version",
    "PRAGMA user_version = 3",
    "PRAGMA query_only = OFF",
    "PRAGMA writable_schema = ON",
    "SELECT load_extension('x')",
    "REINDEX",
    "ANALYZE",
    "BEGIN IMMEDIATE",
    "SAVEPOINT x",
]
INTERNALS = [
    "SELECT * FROM structures",
    "SELECT * FROM structures",
    "SELECT data FROM main.vals",
    "SELECT owner_pid FROM main.workflows",
    "SELECT * FROM sqlite_master",
    "SELECT * FROM sqlite_temp_master",
    "SELECT * FROM pragma_table_info('vals')",
    "WITH workflows AS (SELECT data FROM main.vals) SELECT data FROM workflows",
    "SELECT (SELECT data FROM main.vals LIMIT 1)",
]
NONSENSE = [
    "SELEC 1",
    "SELECT nope FROM workflows",
    "SELECT * FROM nothing",
    "",
    "-- nothing",
    "SELECT 1; SELECT 2",
]


def rows(path: str, statement: str, *, limit: int) -> Rows:
    return sql.rows(SqliteCheckpointer(path), statement, limit=limit)


@pytest.mark.parametrize("statement", [*WRITES, *INTERNALS])
def test_what_is_no_question_about_the_views_is_refused(stories: Cli, statement: str) -> None:
    before = Path(stories.database).read_bytes()
    with pytest.raises(Problem, match=r"refused: .*; nothing was changed") as caught:
        rows(stories.database, statement, limit=5)
    assert caught.value.code == "refused"
    assert Path(stories.database).read_bytes() == before
    assert not Path("copy.db").exists()


@pytest.mark.parametrize("statement", NONSENSE)
def test_what_makes_no_sense_is_told_in_the_words_of_sqlite(stories: Cli, statement: str) -> None:
    with pytest.raises(Problem) as caught:
        rows(stories.database, statement, limit=5)
    assert caught.value.code == "usage"


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_has_the_columns_that_are_promised(stories: Cli, view: str) -> None:
    found = rows(stories.database, f"SELECT * FROM {view}", limit=1000)
    assert found["columns"] == list(VIEWS[view])
    assert found["items"] or view == "usage"  # no story records amounts
    assert not found["truncated"]


def test_views_can_be_joined_counted_and_taken_apart(stories: Cli) -> None:
    path = stories.database
    joined = "SELECT w.id, count(*) AS n FROM workflows AS w JOIN steps ON workflow = w.id GROUP BY w.id"
    counts = {row["id"]: row["n"] for row in rows(path, joined, limit=100)["items"]}
    assert counts["order-456"] == 3
    assert (
        rows(path, "SELECT count(*) AS n FROM steps WHERE status = 'failed'", limit=9)["items"][0]["n"] == 5
    )
    tagged = "SELECT count(value) AS n FROM workflows, json_each(tags)"
    assert rows(path, tagged, limit=1)["items"] == [{"n": 0}]


def test_columns_of_one_name_are_told_apart_and_bytes_are_text(stories: Cli) -> None:
    found = rows(stories.database, "SELECT 1 AS a, 2 AS a, x'ff00' AS b, 1e999 AS c", limit=1)
    assert found["items"] == [{"a": 1, "a:2": 2, "b": "ff00", "c": "inf"}]


def test_a_statement_that_uses_half_a_character_is_refused_in_peace(stories: Cli) -> None:
    with pytest.raises(Problem):
        rows(stories.database, "SELECT '\ud800'", limit=1)


def test_a_file_that_is_no_store_is_told(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "x.db") as connection:
        connection.execute("CREATE TABLE secret (a)")
    connection.close()
    with pytest.raises(CheckpointError, match="another program"):
        rows(str(tmp_path / "x.db"), "SELECT 1", limit=1)
    (tmp_path / "y.db").write_text("no database at all, but long enough to look at" * 9)
    with pytest.raises(CheckpointError):
        rows(str(tmp_path / "y.db"), "SELECT 1", limit=1)


@pytest.mark.slow
def test_the_screen_and_its_limits(stories: Cli) -> None:
    stories.golden("sql", "sql", "SELECT workflow, node, status, error FROM steps WHERE status = 'failed'")
    stories.golden("sql-limited", "sql", "SELECT id FROM workflows ORDER BY id", "--limit", 2)
    stories.golden("sql-nothing", "sql", "SELECT id FROM workflows WHERE id = 'no'")
    stories.golden("sql-refused", "sql", "DELETE FROM workflows", code=4)
    stories.golden("sql-syntax", "sql", "SELEC 1", code=2)
    stories.golden("sql-no-limit", "sql", "SELECT 1", "--limit", 0, code=2)
    stories.golden("sql-csv-and-json", "sql", "SELECT 1", "--csv", "--json", code=2)
    assert stories.json("sql", "SELECT id FROM workflows")["truncated"] is False


@pytest.mark.slow
def test_csv_is_what_readers_of_csv_read(stories: Cli) -> None:
    said = stories(
        "sql", "SELECT id, 'a,\"b\n' AS odd, NULL AS none FROM workflows WHERE id = 'offer-1'", "--csv"
    )
    assert list(csv.reader(io.StringIO(said.out))) == [["id", "odd", "none"], ["offer-1", 'a,"b\n', ""]]


def test_a_question_without_end_can_be_interrupted(stories: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(budget: Budget) -> bool:
        os.kill(os.getpid(), signal.SIGINT)
        return False

    # Whoever starts the tests in the background may have them ignore the signal.
    monkeypatch.setattr(Budget, "__call__", interrupt)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    endless = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c"
    try:
        with pytest.raises(KeyboardInterrupt):
            rows(stories.database, endless, limit=1)
    finally:
        signal.signal(signal.SIGINT, before)
