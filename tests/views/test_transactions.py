"""Each answer is read in few transactions, so that all it shows is of one moment."""

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hypergraph import Graph, SqliteCheckpointer, SyncRunner, node
from hypergraph.cli import main
from hypergraph.ui.api import QUERIES

STEPS = 10
OPENING = 1  # the schema of the file is checked when it is opened


class Counter:
    """Transactions of all SQLite connections: those that are begun, and statements outside of them."""

    def __init__(self) -> None:
        self.count = 0

    def traced(self, connect: Callable[..., sqlite3.Connection]) -> Callable[..., sqlite3.Connection]:
        def connecting(*args: Any, **kwargs: Any) -> sqlite3.Connection:
            connection, inside = connect(*args, **kwargs), False

            def trace(statement: str) -> None:
                nonlocal inside
                word = statement.split(None, 1)[0].upper()
                self.count += word == "BEGIN" or not (inside or word in ("COMMIT", "ROLLBACK", "PRAGMA"))
                inside = word == "BEGIN" or (inside and word not in ("COMMIT", "ROLLBACK"))

            connection.set_trace_callback(trace)
            return connection

        return connecting


@pytest.fixture
def transactions(monkeypatch: pytest.MonkeyPatch) -> Counter:
    counter = Counter()
    monkeypatch.setattr(sqlite3, "connect", counter.traced(sqlite3.connect))
    return counter


def chain(length: int) -> Graph:
    def plus_one(x: int) -> int:
        return x + 1

    first = node(output_name="x1")(plus_one).with_name("n1").with_inputs(x="x0")
    rest = [
        node(output_name=f"x{n}")(plus_one).with_name(f"n{n}").with_inputs(x=f"x{n - 1}")
        for n in range(2, length + 1)
    ]
    return Graph([first, *rest], name="chain")


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """A file with a run of ten steps, one that failed, and a map."""
    file = tmp_path / "runs.db"
    store = SqliteCheckpointer(file)
    runner = SyncRunner(checkpointer=store)
    runner.run(chain(STEPS), x0=0, workflow_id="ten")
    runner.run(chain(STEPS), x0=None, workflow_id="failed", error_handling="continue")
    runner.map(chain(2), x0=[1, 2, None], map_over="x0", workflow_id="map", error_handling="continue")
    store.close()
    return file


def test_the_counter_counts(database: Path, transactions: Counter) -> None:
    store = SqliteCheckpointer(database)
    store.backend.read_workflow("ten")
    before = transactions.count
    store.backend.read_workflow("ten")
    store.backend.read_workflow("failed")
    assert transactions.count == before + 2
    with sqlite3.connect(database) as connection:
        connection.execute("SELECT 1").fetchall()
    assert transactions.count == before + 3


@pytest.mark.parametrize("workflow_id", ["ten", "te", "failed", "map", "@last"])
@pytest.mark.parametrize(
    "words",
    [
        *(["show"], ["show", "--tree"], ["show", "--errors"], ["steps"], ["steps", "--values"], ["state"]),
        *(["timeline"], ["lineage"], ["graph"], ["diff", "ten"]),
    ],
    ids=" ".join,
)
def test_a_screen_takes_one(
    database: Path,
    transactions: Counter,
    words: list[str],
    workflow_id: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    command, *rest = words
    assert main(["--db", str(database), command, workflow_id, *rest]) == 0
    assert capsys.readouterr().out
    assert transactions.count == OPENING + 1


@pytest.mark.parametrize(
    "words", [["step", "ten", "3"], ["why", "ten", "x4"], ["diff", "ten", "--at", "1..3"]]
)
def test_a_screen_about_a_part_takes_one(
    database: Path, transactions: Counter, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--db", str(database), *words]) == 0
    assert capsys.readouterr().out
    assert transactions.count == OPENING + 1


@pytest.mark.parametrize("workflow_id", ["ten", "failed", "map"])
@pytest.mark.parametrize("name", [name for name, query in QUERIES.items() if query.needed == ("id",)])
def test_an_answer_to_the_page_takes_one(
    database: Path, transactions: Counter, name: str, workflow_id: str
) -> None:
    store = SqliteCheckpointer(database)
    store.backend.read_workflow("")  # opens the file
    before = transactions.count
    assert QUERIES[name].ask(store, [("id", workflow_id)])
    assert transactions.count == before + 1
