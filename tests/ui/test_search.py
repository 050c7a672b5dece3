"""The index of the page finds runs by their texts, follows the store, and counts honestly."""

import sqlite3
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import process_time

import pytest

from hypergraph import Graph, SyncRunner, node
from hypergraph.checkpointers import (
    Checkpointer,
    MemoryCheckpointer,
    SqliteCheckpointer,
    Workflow,
    WorkflowStatus,
)
from hypergraph.ui import search
from hypergraph.ui.search import FoundPage, SearchIndex
from hypergraph.views.problems import Problem


@node(output_name="reply")
def answer(question: str) -> str:
    if "broken" in question:
        raise ConnectionError("the line is dead")
    return f"About {question}: it depends"


graph = Graph([answer], name="desk")
outer = Graph([graph.as_node()], name="outer")


@pytest.fixture
def store() -> MemoryCheckpointer:
    return MemoryCheckpointer()


@pytest.fixture
def index(store: MemoryCheckpointer, monkeypatch: pytest.MonkeyPatch) -> Iterator[SearchIndex]:
    monkeypatch.setattr(search, "_FIRST", 60.0)  # a busy machine takes longer
    monkeypatch.setattr(search, "_FRESH", 60.0)
    found = SearchIndex(store)
    yield found
    found.close()


Searching = Callable[[Path, str], SearchIndex]


@pytest.fixture
def searching(monkeypatch: pytest.MonkeyPatch) -> Iterator[Searching]:
    """Return what makes an index of a store with three runs, changed by a statement."""
    monkeypatch.setattr(search, "_FIRST", 60.0)
    monkeypatch.setattr(search, "_FRESH", 60.0)
    opened: list[SearchIndex] = []

    def make(folder: Path, statement: str) -> SearchIndex:
        store = SqliteCheckpointer(folder / "w.db")
        for name in ("one", "two", "newest"):
            ask(store, name, "green tea")
        store.close()
        with sqlite3.connect(folder / "w.db") as connection:
            connection.execute(statement)
        connection.close()
        opened.append(SearchIndex(SqliteCheckpointer(folder / "w.db")))
        return opened[-1]

    yield make
    for index in opened:
        index.close()


def ask(store: Checkpointer, name: str, question: str) -> None:
    runner = SyncRunner(checkpointer=store)
    runner.run(graph, question=question, workflow_id=name, error_handling="continue")


def ids(page: FoundPage) -> list[str]:
    return [item["id"] for item in page["items"]]


def test_inputs_outputs_errors_and_nested_runs_are_found_and_the_match_is_shown(
    store: MemoryCheckpointer, index: SearchIndex
) -> None:
    ask(store, "one", "green tea")
    ask(store, "two", "broken cup")
    SyncRunner(checkpointer=store).run(outer, question="black tea", workflow_id="three")
    found = index.find("TEA")
    assert ids(found) == ["three", "one"]
    assert (found["total"], found["searched"], found["of"], found["more"]) == (2, 4, 4, False)
    assert found["matches"]["one"] == {"run": "one", "where": "input question", "text": "green tea"}
    assert index.find("line dead")["matches"]["two"]["where"] == "error in answer"
    assert ids(index.find("it depends black")) == ["three"]
    assert ids(index.find("te a")) == ["three", "one"]  # short words are found too
    assert ids(index.find("nowhere")) == []


@dataclass
class Order:
    item: str


@node(output_name="orders", append=True)
def order(item: str) -> Order:
    return Order(item)


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_fields_of_unknown_classes_and_inputs_of_earlier_turns_are_found(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "_FIRST", 60.0)
    monkeypatch.setattr(search, "_FRESH", 60.0)
    store = MemoryCheckpointer() if kind == "memory" else SqliteCheckpointer(tmp_path / "w.db")
    runner = SyncRunner(checkpointer=store)
    runner.run(Graph([order.with_inputs(item="thing")]), thing="samovar", workflow_id="one")
    runner.run(graph, question="first", workflow_id="two")
    runner.run(graph, question="second", workflow_id="two")
    store.close()
    index = SearchIndex(store if kind == "memory" else SqliteCheckpointer(tmp_path / "w.db"))
    assert index.find("item samovar")["matches"]["one"]["where"] == "orders of order"
    assert index.find("first")["matches"]["two"]["where"] == "input question"
    assert ids(index.find("register")) == []
    index.close()


def test_runs_that_are_new_changed_or_deleted_are_followed(
    store: MemoryCheckpointer, index: SearchIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "_WHOLE", 0.0)
    ask(store, "one", "green tea")
    assert ids(index.find("tea")) == ["one"]
    ask(store, "two", "black tea")
    assert ids(index.find("tea")) == ["two", "one"]
    store.tag("one", {"colour": "jade"})
    assert ids(index.find("jade")) == ["one"]
    store.delete("two")
    found = index.find("tea")
    assert (ids(found), found["searched"], found["of"]) == (["one"], 1, 1)


def test_pages_filters_orders_and_totals(store: MemoryCheckpointer, index: SearchIndex) -> None:
    for number in range(7):
        ask(store, f"run-{number}", "broken tea" if number % 2 else "tea")
    first = index.find("tea", limit=3)
    assert (ids(first), first["total"]) == (["run-6", "run-5", "run-4"], 7)
    second = index.find("tea", limit=3, cursor=first["next_cursor"])
    assert ids(second) == ["run-3", "run-2", "run-1"]
    failed = index.find("tea", status=["failed"], limit=2)
    assert (ids(failed), failed["total"]) == (["run-5", "run-3"], 3)
    assert ids(index.find("tea", sort="id-up", limit=2)) == ["run-0", "run-1"]
    assert ids(index.find("tea", graph="other")) == []


def test_what_is_not_counted_is_said(
    store: MemoryCheckpointer, index: SearchIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(5):
        ask(store, f"run-{number}", "tea")
    monkeypatch.setattr(search, "_BUDGET", -1.0)
    found = index.find("tea", limit=1)
    assert (ids(found), found["more"]) == (["run-4"], True)
    assert found["total"] < 5


@pytest.mark.parametrize(
    "odd", ["red\0blue", "\0", '"', "'", "*", "a AND (", "NEAR(", "text:x", "%_\\", "\x1b[31m"]
)
def test_any_text_can_be_searched_for(store: MemoryCheckpointer, index: SearchIndex, odd: str) -> None:
    ask(store, "one", f"green {odd} tea")
    if odd == "\0":
        with pytest.raises(Problem, match="at least one word"):
            index.find(odd)
    else:
        assert ids(index.find(odd)) == ["one"]


@pytest.mark.parametrize("created", [1, -(10**15), 10**16, 25 * 10**16], ids=str)
def test_a_run_of_any_time_is_found(tmp_path: Path, searching: Searching, created: int) -> None:
    found = searching(
        tmp_path, f"UPDATE workflows SET created_at = {created} + rowid % 2 WHERE id <> 'newest'"
    )
    assert sorted(ids(found.find("tea"))) == ["newest", "one", "two"]
    assert ids(found.find("tea", sort="created-down"))
    assert found.find("tea")["searched"] == 3


def test_many_runs_of_the_same_time_have_numbers_of_their_own(store: MemoryCheckpointer) -> None:
    index, times = SearchIndex(store), [*[0] * 20_000, *range(0, 20_000 * search._UNIT, search._UNIT)]
    begin = datetime(2020, 1, 1, tzinfo=UTC)
    runs = [
        Workflow(id="w", status=WorkflowStatus.COMPLETED, created_at=begin + timedelta(microseconds=each))
        for each in times
    ]
    start = process_time()
    assert len({index._number(run) for run in runs}) == len(runs)
    assert process_time() - start < 2  # each looking through the numbers of all before it would take minutes


def test_a_damaged_run_does_not_keep_others_from_being_found(tmp_path: Path, searching: Searching) -> None:
    damage = "UPDATE steps SET versions = 'x' WHERE workflow = (SELECT key FROM workflows WHERE id = 'two')"
    found = searching(tmp_path, damage)
    assert sorted(ids(found.find("tea"))) == ["newest", "one", "two"]  # of the damaged one, the input


def test_long_texts_and_odd_characters_are_indexed(store: MemoryCheckpointer, index: SearchIndex) -> None:
    ask(store, "one", "green tea")
    store.tag("one", {"note": "odd tag " + "x" * 1_000_000})
    ask(store, "two", "broken \udfff cup")
    assert ids(index.find("odd tag")) == ["one"]
    assert len(index.find("odd")["matches"]["one"]["text"]) < 300
    assert ids(index.find("broken cup")) == ["two"]
    assert ids(index.find("\ud800\udfff cup")) == []


def test_a_search_of_very_many_words_is_refused(store: MemoryCheckpointer, index: SearchIndex) -> None:
    ask(store, "one", "green tea")
    assert ids(index.find("tea " * 100)) == ["one"]
    assert ids(index.find("te " * 100)) == ["one"]
    with pytest.raises(Problem, match="at most 100 words, got 5000"):
        index.find("tea " * 5000)


@node(output_name="log", append=True)
def note(question: str) -> str:
    return f"noted {question}"


noting = Graph([note, answer], name="noting")


def test_runs_are_read_together_and_grown_values_as_they_are(
    tmp_path: Path, searching: Searching, monkeypatch: pytest.MonkeyPatch
) -> None:
    with SqliteCheckpointer(tmp_path / "w.db") as store:
        for question in ("red wine", "white wine"):
            SyncRunner(checkpointer=store).run(noting, question=question, workflow_id="notes")
    index = searching(tmp_path, "SELECT 1")
    read: list[str] = []
    steps = index._store.steps
    monkeypatch.setattr(
        type(index._store), "steps", lambda _, wf, **more: (read.append(wf), steps(wf, **more))[1]
    )
    assert ids(index.find("it depends tea")) == ["newest", "two", "one"]
    assert read == ["notes"]  # its list is stored as what was added
    assert ids(index.find("noted red")) == ["notes"]
    assert index.find("red wine")["matches"]["notes"]["where"] == "input question"  # of an earlier turn


def test_a_server_reads_the_runs_before_anything_is_searched_for(
    store: MemoryCheckpointer, index: SearchIndex
) -> None:
    for number in range(3):
        ask(store, f"run-{number}", "tea")
    index.begin()
    with index._settled:
        assert index._settled.wait_for(lambda: index._round > 0, 60)
        assert len(index._known) == 3
    assert len(ids(index.find("tea"))) == 3


def test_matches_are_read_together(
    tmp_path: Path, searching: Searching, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = searching(tmp_path, "SELECT 1")
    index.find("tea")
    asked: list[object] = []
    find = index._store.backend.find
    monkeypatch.setattr(index._store.backend, "find", lambda query: (asked.append(query.ids), find(query))[1])
    monkeypatch.setattr(index, "_look", lambda: None)
    assert ids(index.find("tea", status=["completed"])) == ["newest", "two", "one"]
    assert [each for each in asked if each] == [frozenset({"newest", "two", "one"})]


def test_a_search_comes_before_the_next_turn_of_the_build(
    store: MemoryCheckpointer, index: SearchIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "_TURN", 1)
    monkeypatch.setattr(search, "_LONGEST", 60.0)
    for number in range(400):
        SyncRunner(checkpointer=store).run(graph, question=f"tea {number}", workflow_id=f"w{number}")
    turns, arrived, asked, add = 0, 0, 0, index._add

    class Arrivals(threading.Event):
        def clear(self) -> None:
            nonlocal arrived
            super().clear()
            arrived = turns

    def counted(runs: list[tuple[Workflow, list[search._Text]]]) -> None:
        nonlocal turns
        add(runs)
        turns += 1

    index._calm = Arrivals()
    index._calm.set()
    monkeypatch.setattr(index, "_add", counted)
    index.begin()
    index._asked.set()
    while turns < 400:
        with index._ahead():
            assert turns - arrived <= 2  # one that had begun, and one whose end was not counted yet
        asked += 1
    assert asked
