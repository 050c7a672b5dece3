"""What a full store costs: no question looks at rows that it does not need. Work is counted, not timed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.durable import read

from benchmarks.stores import LISTS, loop_of, size_bar, workflows_of
from hypergraph.checkpointers import SqliteCheckpointer, StepRecord, StepStatus, WorkflowStatus
from hypergraph.checkpointers.query import Query
from hypergraph.checkpointers.records import NewWorkflow
from hypergraph.testing.conformance import samples

SCAN = re.compile(r"SCAN (steps|vals|v|workflows|structures|lengths)\b")
PAGE = 10


@contextmanager
def connection_of(store: SqliteCheckpointer) -> Iterator[Any]:
    """Lend the connection on which the next question will be asked."""
    taken: list[Any] = []
    store.backend.database.read(taken.append)
    yield taken[0]
    taken[0].set_trace_callback(None)
    taken[0].set_progress_handler(None, 0)


def statements(store: SqliteCheckpointer, question: Callable[[], Any]) -> list[str]:
    """Return what a question is to the database."""
    asked: list[str] = []
    with connection_of(store) as connection:
        connection.set_trace_callback(asked.append)
        question()
    return [sql for sql in asked if sql.lstrip().startswith(("SELECT", "WITH"))]


def plans(store: SqliteCheckpointer, question: Callable[[], Any]) -> list[str]:
    """Return the plans by which a question is answered, line by line."""
    asked = statements(store, question)
    assert asked
    with connection_of(store) as connection:
        return [row[3] for sql in asked for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}")]


def work(store: SqliteCheckpointer, question: Callable[[], Any]) -> int:
    """Return how many instructions the database executes for a question."""
    count = 0

    def tick() -> None:
        nonlocal count
        count += 1

    question()  # what is done once only does not count
    with connection_of(store) as connection:
        connection.set_progress_handler(tick, 1)
        question()
    assert count
    return count


# --- along an index ----------------------------------------------------------------------------------

QUESTIONS: dict[str, Callable[[SqliteCheckpointer], Any]] = {
    "state": lambda store: store.state("loop", superstep=3),
    "latest state": lambda store: store.state("loop"),
    "inputs": lambda store: samples.given(store, "loop", upto=3),
    "steps": lambda store: store.steps("loop", superstep=3),
    "steps without values": lambda store: store.steps("loop", superstep=3, values=False),
    "all steps": lambda store: store.steps("loop"),
    "checkpoint": lambda store: store.checkpoint("loop", superstep=3),
    "workflow": lambda store: store.workflow("loop"),
    "list": lambda store: store.workflows(limit=PAGE),
    "next page": lambda store: store.workflows(limit=PAGE, cursor="7"),
    "status": lambda store: store.workflows(limit=PAGE, status="failed"),
    "next page of a status": lambda store: store.workflows(limit=PAGE, status="failed", cursor="7"),
    "statuses": lambda store: store.workflows(limit=PAGE, status=["failed", "active"]),
    "graph": lambda store: store.workflows(limit=PAGE, graph="loop"),
    "graph and status": lambda store: store.workflows(limit=PAGE, graph="loop", status="failed"),
    "children": lambda store: store.workflows(limit=PAGE, parent="loop"),
    "children with a status": lambda store: store.workflows(limit=PAGE, parent="loop", status="failed"),
    "forks": lambda store: store.backend.find(Query(forked_from="loop", top_level=False)),
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_no_table_is_read_from_end_to_end(tmp_path: Path, question: str) -> None:
    store = loop_of(tmp_path / "loop.db", 10)
    for index in ("workflows_by_parent", "workflows_by_origin"):  # as among many workflows, with forks
        store.backend.database.write(lambda connection, index=index: connection.make(index))
    found = [line for line in plans(store, lambda: QUESTIONS[question](store)) if SCAN.search(line)]
    assert not found, "\n".join(found)


def test_the_check_of_plans_finds_a_scan(tmp_path: Path) -> None:
    store = loop_of(tmp_path / "loop.db", 10)
    scanning = plans(store, lambda: store.backend.find(Query(top_level=False)))
    assert any(SCAN.search(line) for line in scanning)


# --- no more work than in a small store --------------------------------------------------------------


@pytest.fixture(scope="module")
def loops(tmp_path_factory: pytest.TempPathFactory) -> dict[int, SqliteCheckpointer]:
    """Workflows of different lengths."""
    folder = tmp_path_factory.mktemp("loops")
    return {length: loop_of(folder / f"{length}.db", length) for length in (1_000, 10_000)}


@pytest.fixture(scope="module")
def lists(tmp_path_factory: pytest.TempPathFactory) -> dict[int, SqliteCheckpointer]:
    """Stores with few workflows and with many."""
    folder = tmp_path_factory.mktemp("lists")
    return {count: workflows_of(folder / f"{count}.db", count) for count in (200, 2_000)}


def test_a_state_in_the_middle_costs_the_same_in_a_history_ten_times_as_long(loops: Any) -> None:
    costs = [work(s, lambda s=s, n=n: s.state("loop", superstep=n // 2)) for n, s in loops.items()]
    assert costs[1] <= costs[0]


def test_early_steps_cost_the_same_however_long_the_history_became(loops: Any) -> None:
    for values in (True, False):
        costs = [
            work(s, lambda s=s, v=values: s.steps("loop", superstep=9, values=v)) for s in loops.values()
        ]
        assert costs[1] <= costs[0]


def test_the_number_of_steps_is_known_without_counting_them_all(loops: Any) -> None:
    for length, store in loops.items():
        assert store.workflow("loop").step_count == length
        assert work(store, lambda s=store: s.workflow("loop")) < 2_000


@pytest.mark.parametrize("filters", LISTS.values(), ids=str)
def test_a_page_costs_the_same_among_ten_times_as_many(lists: Any, filters: dict[str, Any]) -> None:
    costs = [work(s, lambda s=s: s.workflows(limit=PAGE, **filters)) for s in lists.values()]
    assert costs[1] <= costs[0] * 1.1


def test_a_late_page_costs_no_more_than_an_early_one(lists: Any) -> None:
    store = lists[2_000]
    early, late = (
        work(store, lambda c=c: store.workflows(limit=PAGE, status="failed", cursor=c))
        for c in ("1900", "300")
    )
    assert late <= early * 1.1


def test_a_run_takes_up_room_in_proportion_to_its_steps(tmp_path: Path) -> None:
    bar = size_bar(tmp_path)
    assert bar.holds, bar


# --- what is counted ahead is always right -----------------------------------------------------------


def check_totals(store: SqliteCheckpointer) -> None:
    """Compare how many workflows lists say there are with how many they contain."""
    choices: list[dict[str, Any]] = [{}, {"graph": "a"}, {"graph": ""}, {"parent": "p"}]
    choices += [{"status": status} for status in WorkflowStatus]
    choices += [{"status": ["active", "failed"], "graph": "a"}, {"parent": "p", "status": "active"}]
    for filters in choices:
        assert store.workflows(limit=1, **filters).total == len(store.workflows(limit=None, **filters)), (
            filters
        )


@given(st.randoms(use_true_random=False))
@settings(max_examples=15, deadline=None)
def test_totals_are_right_whatever_has_happened(tmp_path_factory: Any, rng: Random) -> None:
    store = SqliteCheckpointer(tmp_path_factory.mktemp("store") / "a.db")
    alive: list[str] = []
    for number in range(25):
        deed = rng.random()
        if deed < 0.5 or not alive:
            parent = rng.choice([None, None, "p"])
            alive.append(f"{'p/' if parent else ''}w{number}")
            new = NewWorkflow(graph_name=rng.choice([None, "", "a", "b"]), parent_id=parent)
            store.backend.release(store.backend.claim(alive[-1], new, store.encoding))
        elif deed < 0.8:
            store.update_workflow_status(rng.choice(alive), rng.choice(list(WorkflowStatus)))
        else:
            store.backend.delete([alive.pop(rng.randrange(len(alive)))])
    check_totals(store)
    store.close()


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 4)), max_size=25))
@settings(max_examples=40, deadline=None)
def test_the_number_of_steps_is_right_in_whatever_order_they_come(
    tmp_path_factory: Any, places: list[tuple[int, int]]
) -> None:
    store = SqliteCheckpointer(tmp_path_factory.mktemp("store") / "a.db")
    for position, (superstep, index) in enumerate(places):  # each hundredth index is where steps are counted
        read(
            store,
            "save_step",
            StepRecord("w", superstep, f"n{position % 3}", 100 * index, StepStatus.COMPLETED, {}),
        )
        found = store.workflow("w")
        assert found is not None
        assert found.step_count == len(store.steps("w"))
    store.close()


def test_the_length_of_a_deleted_workflow_is_forgotten(tmp_path: Path) -> None:
    store = loop_of(tmp_path / "a.db", 2_500)
    store.backend.delete(["loop"])
    assert store.backend.database.read(
        lambda c: c.execute("SELECT count(counted) FROM workflows").fetchone()
    ) == (0,)
    assert loop_of(tmp_path / "a.db", 3).workflow("loop").step_count == 3
