"""Failures inside of a run that no failed step tells: what commands show, and what they advise."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

import pytest
from support.saying import Said, saying

from hypergraph import END, FunctionNode, Graph, SyncRunner, interrupt, route
from hypergraph.checkpointers import SqliteCheckpointer
from hypergraph.testing import FakeClock
from hypergraph.views.row_details import row_details

FAULTS: dict[int, BaseException] = {}
PAID: list[int] = []


def pay(n: int) -> int:
    PAID.append(n)
    if n in FAULTS:
        raise FAULTS.pop(n)
    return n


def count(receipt: list[int | None]) -> int:
    return len([each for each in receipt if each is not None])


@route(targets=["grow", END])
def again(n: int) -> str:
    return "grow"


@interrupt("ok", timeout=60)
def ask(n: int) -> bool | None:
    return None


ONE = Graph([FunctionNode(pay, output_name="receipt", repeatable=False)], name="one")
EACH = ONE.as_node(name="each").map_over("n", error_handling="continue")
NIGHT = Graph([EACH, FunctionNode(count, output_name="paid")], name="night")
DEEP = Graph([NIGHT.as_node()], name="deep")
ASKING = Graph([ask], name="asking")
NIGHT_HERE = f"{__name__}:NIGHT"


@pytest.fixture
def said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Said:
    """Return a function that runs a command and returns what it prints."""
    monkeypatch.chdir(tmp_path)
    FAULTS.clear()
    PAID.clear()
    run = saying(capsys)
    return lambda *words: run(*words).replace(" --db runs.db", "")


def cut_off(graph: Graph) -> None:
    """Store a run in which one call was cut off, and that has completed without it since."""
    FAULTS[2] = KeyboardInterrupt()
    with SqliteCheckpointer("runs.db") as store:
        with pytest.raises(KeyboardInterrupt):
            SyncRunner(checkpointer=store).run(graph, n=[1, 2, 3], workflow_id="w")
        assert SyncRunner(checkpointer=store).run(graph, workflow_id="w").completed
    assert PAID == [1, 2, 3]


@pytest.mark.parametrize("graph", [NIGHT, DEEP])
def test_a_call_without_a_result_is_told_in_a_run_that_completed_without_it(said: Said, graph: Graph) -> None:
    cut_off(graph)
    for shown in (said("show", "w"), said("show", "w", "--errors")):
        assert re.search(r"w/.*each/item-1, pay: began without leaving a result", shown)
    with SqliteCheckpointer("runs.db") as store:
        (row,) = row_details(store, ["w"])["items"]
    assert row["error"] is not None
    assert row["error"]["node"] == "pay"


def test_a_resume_leads_to_why_items_inside_failed(said: Said) -> None:
    cut_off(NIGHT)
    assert "To see why they failed: hypergraph errors w" in said("resume", "w", NIGHT_HERE)
    assert "began without leaving a result" in said("errors", "w")


def test_an_error_inside_of_a_completed_nested_graph_is_found(said: Said) -> None:
    FAULTS[2] = ConnectionError("no bank")
    with SqliteCheckpointer("runs.db") as store:
        assert SyncRunner(checkpointer=store).run(DEEP, n=[1, 2], workflow_id="w").completed
    assert "First error: w/night/each/item-1, step 0, pay: ConnectionError: no bank" in said("show", "w")


def test_it_is_told_that_a_call_that_raised_is_made_again(said: Said) -> None:
    FAULTS[2] = TimeoutError("no answer")
    said("run", NIGHT_HERE, "n=[1, 2]", "--id", "w")
    for shown in (said("show", "w"), said("show", "w", "--errors"), said("show", "w/each/item-1")):
        assert "w/each/item-1, pay: raised, and a resume calls it again" in shown
    assert "hypergraph resume w MODULE:GRAPH --restart node" in said("show", "w/each/item-1")
    said("resume", "w", NIGHT_HERE, "--restart", "node")
    assert PAID == [1, 2, 2]
    assert "raised" not in said("show", "w")


def in_a_crash_loop() -> None:
    """Store an item that has failed, as if its process had died three times."""
    FAULTS[2] = ValueError("no")
    with SqliteCheckpointer("runs.db") as store:
        SyncRunner(checkpointer=store).run(NIGHT, n=[1, 2, 3], workflow_id="w")
    with sqlite3.connect("runs.db") as connection:
        connection.execute("""UPDATE workflows SET crashes = '{"pay": 3}' WHERE id = 'w/each/item-1'""")
    connection.close()


def test_a_crash_loop_of_an_item_is_told_with_the_option_that_ends_it(said: Said) -> None:
    in_a_crash_loop()
    resumed = said("resume", "w", NIGHT_HERE, "--restart", "node")
    assert "completed" in resumed
    assert f"To run them again: hypergraph resume w {NIGHT_HERE} --restart node --force" in resumed
    for shown in (said("show", "w"), said("show", "w", "--errors"), said("show", "w/each/item-1")):
        assert "is in a crash loop at node pay" in shown
        assert "then resume with --force" in shown
    assert "resume w MODULE:GRAPH --restart node --force" in said("show", "w")
    assert "CrashLoopError: Workflow 'w/each/item-1' is in a crash loop" in said("errors", "w")
    said("resume", "w", NIGHT_HERE, "--restart", "node", "--force")
    assert "failed inside" not in said("ls")
    assert PAID == [1, 2, 3, 2]


def test_a_crash_loop_of_a_run_is_resumed_as_the_message_says(said: Said) -> None:
    FAULTS[2] = ValueError("no")
    said("run", f"{__name__}:ONE", "n=2", "--id", "w")
    with sqlite3.connect("runs.db") as connection:
        connection.execute("""UPDATE workflows SET crashes = '{"pay": 3}'""")
    connection.close()
    one = f"{__name__}:ONE"
    said("resume", "w", one)
    assert "hypergraph resume w MODULE:GRAPH --force" in said("show", "w")
    assert "completed" in said("resume", "w", one, "--force")


def test_the_tree_counts_what_it_lists_and_leads_to_a_failed_run(said: Said) -> None:
    FAULTS[7] = ValueError("no")
    numbers = list(range(1, 41))
    said("run", NIGHT_HERE, f"n={numbers}", "--id", "w")
    tree = said("show", "w", "--tree")
    assert "Workflow: w | 22 runs listed" in tree
    assert "w  completed (1 failed inside)" in tree
    assert "next: hypergraph show w/each/item-6" in tree


def test_a_question_after_its_deadline_is_not_to_be_answered(said: Said) -> None:
    with FakeClock() as clock:
        said("run", f"{__name__}:ASKING", "n=1", "--id", "w")
        assert "hypergraph answer w ok=..." in said("show", "w")
        clock.jump(61)
        shown = said("show", "w")
        assert "ask was to be answered by" in shown
        assert "hypergraph answer" not in shown
        assert "hypergraph resume w" in shown


def test_a_step_says_when_its_answer_was_given(said: Said) -> None:
    said("run", f"{__name__}:ASKING", "n=1", "--id", "w")
    said("answer", "w", "ok=true", "--by", "ann")
    said("resume", "w", f"{__name__}:ASKING")
    assert re.search(r"^  answered by ann 20", said("step", "w", "0"), re.MULTILINE)


def test_due_runs_without_a_graph_say_how_to_name_it(said: Said) -> None:
    with FakeClock() as clock:
        with SqliteCheckpointer("runs.db") as store:
            SyncRunner(checkpointer=store).run(ASKING, n=1, workflow_id="w")
        clock.jump(61)
        told = said("resume", "--due")
    assert "Problem:" not in told
    assert "give the graph: module:attribute" in told


def test_a_value_in_place_of_a_node_is_refused_without_advice_for_python(said: Said) -> None:
    FAULTS[2] = ValueError("no")
    said("run", f"{__name__}:ONE", "n=2", "--id", "w")
    told = said("resume", "w", f"{__name__}:ONE", "receipt=5")
    assert "Pass only one of them." in told
    assert "with_entrypoint" not in told


def test_an_item_that_ended_between_steps_is_told_with_its_reason(said: Said) -> None:
    loop = Graph([FunctionNode(lambda n: n + 1, "grow", "n"), again], name="loop").with_entrypoint("grow")
    graph = Graph([loop.as_node(name="each").map_over("n", error_handling="continue")], name="night")
    with SqliteCheckpointer("runs.db") as store:
        SyncRunner(checkpointer=store).run(graph, n=[1], workflow_id="w", max_iterations=3)
    for shown in (said("show", "w"), said("show", "w", "--errors")):
        assert "w/each/item-0: InfiniteLoopError: The run exceeded maximum iterations (3)" in shown
    assert "InfiniteLoopError: The run exceeded maximum iterations (3)" in said("errors", "w")
