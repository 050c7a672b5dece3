"""Who or what has made a value: a human, a function by itself, a default, or an earlier process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.saying import Said, saying

from hypergraph import Graph, SyncRunner, interrupt, node
from hypergraph.checkpointers import Checkpointer, MemoryCheckpointer, SqliteCheckpointer
from hypergraph.cli.commands.show import _next
from hypergraph.views.inputs import typed_values
from hypergraph.views.problems import Problem
from hypergraph.views.step import of_user
from hypergraph.views.workflow import workflow

DIES = [False]


@interrupt("ok")
def ask(x: int) -> bool | None:
    return None if x % 10 == 0 else True


@node(output_name="paid", repeatable=False, on_ambiguous=lambda name, key, inputs: "found")
def pay(x: int, ok: bool) -> str:
    if DIES[0]:
        raise KeyboardInterrupt
    return "paid"


ONE = Graph([ask, pay], name="one")
SHOP = Graph([ONE.as_node(name="each").map_over("x")], name="shop")


@pytest.fixture
def said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Said:
    """Return a function that runs a command and returns what it prints."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    return saying(capsys)


def opened() -> SyncRunner:
    return SyncRunner(checkpointer=SqliteCheckpointer("runs.db"))


def answers(said: Said, wf: str) -> Any:
    (first, *_) = json.loads(said("why", wf, "ok", "--json"))["items"]
    return first["asks"], first["answer"], first["answered_by"], first["looked_up"]


def test_a_human_answer_is_told_from_one_of_the_function(said: Said) -> None:
    runner = opened()
    runner.run(SHOP, x=[0, 1, 10], workflow_id="w")
    runner.checkpointer.answer("w", "each.item-2.ok", True, by="ann")
    runner.run(SHOP, {"each.item-0.ok": True}, workflow_id="w")
    assert "← ask (step 0), answered  bool" in said("why", "w/each/item-0", "ok")
    assert "← ask (step 0), needed no answer  bool" in said("why", "w/each/item-1", "ok")
    assert "← ask (step 0), answered by ann  bool" in said("why", "w/each/item-2", "ok")
    assert answers(said, "w/each/item-0") == (True, "used", None, False)
    assert answers(said, "w/each/item-1") == (True, None, None, False)
    assert answers(said, "w/each/item-2") == (True, "used", "ann", False)
    assert "completed, answered\n" in said("steps", "w/each/item-0").replace(" \n", "\n")
    assert "answered" not in said("steps", "w/each/item-1")


def test_what_on_ambiguous_looked_up_is_told_from_a_call(said: Said) -> None:
    runner = opened()
    DIES[0] = True
    with pytest.raises(KeyboardInterrupt):
        runner.run(ONE, x=1, workflow_id="w")
    DIES[0] = False
    assert runner.run(ONE, workflow_id="w")["paid"] == "found"
    seen = said("step", "w", "1")
    assert "completed, looked up" in seen
    assert "an earlier process began the call; on_ambiguous looked up what it made" in seen
    assert "looked up by on_ambiguous, an earlier process began the call" in said("why", "w", "paid")
    (found, *_) = json.loads(said("why", "w", "paid", "--json"))["items"]
    assert (found["looked_up"], found["answered_by"]) == (True, None)
    assert [step["looked_up"] for step in json.loads(said("steps", "w", "--json"))["items"]] == [False, True]


@pytest.mark.parametrize("kind", [MemoryCheckpointer, SqliteCheckpointer])
def test_runs_with_answers_that_no_run_has_used_are_found(kind: Any, tmp_path: Path) -> None:
    store: Checkpointer = kind() if kind is MemoryCheckpointer else kind(tmp_path / "runs.db")
    runner = SyncRunner(checkpointer=store)
    for wf in ("waits", "nested"):
        runner.run(SHOP, x=[0, 1], workflow_id=wf)
    runner.run(ONE, x=0, workflow_id="plain")
    assert store.workflows(due=True) == []
    store.answer("nested", "each.item-0.ok", True)
    store.answer("plain", "ok", True)
    assert [found.id for found in store.workflows(due=True)] == ["plain", "nested"]
    runner.run(SHOP, workflow_id="nested")
    assert [found.id for found in store.workflows(due=True, status="paused")] == ["plain"]


def test_the_list_of_due_runs_has_answered_ones(said: Said) -> None:
    runner = opened()
    for wf in ("a", "b"):
        runner.run(ONE, x=0, workflow_id=wf)
    said("answer", "b", "ok=true")
    assert [item["id"] for item in json.loads(said("ls", "--due", "--json"))["items"]] == ["b"]


def test_many_questions_that_needed_no_answer_are_three_rows(said: Said) -> None:
    opened().run(SHOP, x=[0, *range(1, 10)], workflow_id="w")
    shown = said("show", "w")
    assert shown.count("needed no answer") == 4
    assert "... and 6 more that needed no answer" in shown
    assert "each.item-0.ok=..." in shown


def test_a_graph_that_the_settings_name_is_suggested(said: Said) -> None:
    opened().run(SHOP, x=[0, 1], workflow_id="w")
    assert "resume w MODULE:GRAPH" in said("show", "w")
    Path("pyproject.toml").write_text('[tool.hypergraph.graphs]\nshop = "x:y"\n', encoding="utf-8")
    shown = said("show", "w")
    assert "resume w shop" in shown
    assert "MODULE:GRAPH" not in shown


def test_the_key_of_an_item_without_its_map_is_named_whole() -> None:
    with pytest.raises(Problem, match=r"'each\.item-2\.ok'"):
        typed_values(SHOP, {"item-2.ok": False})


def test_a_run_that_waits_and_has_failures_inside_names_how_to_run_them_again() -> None:
    store = MemoryCheckpointer()
    SyncRunner(checkpointer=store).run(ONE, x=0, workflow_id="w")
    found = workflow(store, "w") | {"failed_inside": 1}
    assert _next(found, "again") == ["hypergraph answer w ok=...", "hypergraph errors w", "again"]


def test_frames_that_call_a_node_are_left_out_and_what_is_said_between_frames_is_not() -> None:
    lib = '  File "/x/hypergraph/engine/execute.py", line 1, in f\n    g()\n'
    thread = '  File "/usr/lib/python3/concurrent/futures/thread.py", line 58, in run\n    g()\n'
    own = '  File "/home/a.py", line 2, in work\n    raise E\n'
    text = f"Traceback (most recent call last):\n{lib}KeyError: 1\n\nDuring it:\n\n{thread}{own}E: no\n"
    kept = f"Traceback (most recent call last):\nKeyError: 1\n\nDuring it:\n\n{own}E: no\n"
    assert of_user(text) == kept
    assert of_user(f"Traceback:\n{lib}E\n") == f"Traceback:\n{lib}E\n"
