"""What the page costs others: nothing that a writer would wait for, and long lists and histories little."""

import sqlite3
from pathlib import Path

import pytest
from support.ui_serving import loop

from benchmarks.stores import loop_of
from benchmarks.ui import Page, columns_bar, list_bar, polled, serving, watched_runs
from hypergraph import SqliteCheckpointer, SyncRunner

FORGIVING = 3  # a busy machine is no reason to fail here; `python -m benchmarks.ui` holds the real bars


@pytest.mark.slow
def test_a_writer_that_never_waits_is_never_refused_while_pages_are_polled(tmp_path: Path) -> None:
    file = tmp_path / "polled.db"
    store = SqliteCheckpointer(file)
    SyncRunner(checkpointer=store).run(loop, {"n": 0}, workflow_id="loop")
    store.close()
    writer = sqlite3.connect(file, timeout=0, isolation_level=None)  # a lock in the way is an error
    with serving(file) as address, polled(address, "loop") as asked:
        commits = 0
        while commits < 300 or sum(asked) < 50:
            writer.execute("BEGIN IMMEDIATE")
            writer.execute("UPDATE workflows SET tags = ? WHERE id = 'loop'", (f'{{"n": "{commits}"}}',))
            writer.execute("COMMIT")
            commits += 1
    writer.close()


@pytest.mark.slow
def test_a_server_neither_writes_nor_checkpoints(tmp_path: Path) -> None:
    file = tmp_path / "read.db"
    store = SqliteCheckpointer(file)
    SyncRunner(checkpointer=store).run(loop, {"n": 0}, workflow_id="loop")
    wal = Path(f"{file}-wal")
    before = file.read_bytes(), wal.read_bytes()  # the store stays open, so nobody has moved anything yet
    with serving(file) as address, Page(address) as page:
        assert b'"schema"' in page.get("workflows")
        for question in ("workflow", "columns", "state", "graph", "timeline", "items"):
            assert b'"schema"' in page.get(f"{question}?id=loop")
    assert before[1]
    assert (file.read_bytes(), wal.read_bytes()) == before
    store.close()


@pytest.mark.slow
def test_a_run_is_hardly_slower_while_it_is_asked_about(tmp_path: Path) -> None:
    found = watched_runs(tmp_path, steps=100, rounds=3)
    assert found.questions > 10
    assert found.against_others < FORGIVING * 1.3


@pytest.mark.slow
def test_the_first_page_of_a_long_list_is_as_quick_as_that_of_a_short_one(tmp_path: Path) -> None:
    folders = [tmp_path / str(number) for number in range(3)]  # a busy machine may be unfair to one of them
    for folder in folders:
        folder.mkdir()
    assert any(list_bar(folder, small=100, large=1_000).ratio < FORGIVING for folder in folders)


@pytest.mark.slow
def test_twenty_thousand_steps_fit_into_one_answer(tmp_path: Path) -> None:
    store = loop_of(tmp_path / "long.db", 20_000)
    store.close()
    with serving(tmp_path / "long.db") as address, Page(address) as page:
        answer = page.get("columns?id=loop")
    assert answer.count(b"completed") == 20_000
    assert b'"next_cursor":null' in answer
    assert len(answer) < 80 * 20_000


@pytest.mark.slow
def test_columns_take_not_much_longer_than_their_rows(tmp_path: Path) -> None:
    assert columns_bar(tmp_path, steps=2_000).ratio < FORGIVING * 5
