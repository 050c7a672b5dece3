"""Commands about runs whose process was killed inside of a nested graph or a map."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from support.saying import Said, saying

from hypergraph import Graph, interrupt, node
from hypergraph.checkpointers import SqliteCheckpointer
from hypergraph.views.row_details import row_details

BAD = 1


@node(output_name="y")
def work(x: int) -> int:
    time.sleep(0.03)
    if x == BAD:
        raise ConnectionError("no")
    if str(x) == os.environ.get("DIE_AT"):
        os._exit(9)
    return x


@node(output_name="total")
def add(y: list[int | None]) -> int:
    return sum(each or 0 for each in y)


@interrupt("ok")
def ask(y: int) -> bool | None:
    return None if y == 0 else True


ONE = Graph([work], name="one")
EACH = ONE.as_node(name="each").map_over("x", error_handling="continue")
SHOP = Graph([EACH, add], name="shop")
DEEP = Graph([SHOP.as_node(name="shop")], name="deep")
ASKED = Graph([work, ask], name="asked")
DESK = Graph([ASKED.as_node(name="each").map_over("x", error_handling="continue")], name="desk")


def killed(*words: str, folder: Path | None = None) -> int:
    """Return the exit code of a command whose process kills itself."""
    environment = os.environ | {"DIE_AT": "3", "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "hypergraph", *words, "--db", "runs.db"]
    return subprocess.run(command, env=environment, cwd=folder, check=False).returncode


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the file with what processes have left that were killed at the last item."""
    file = tmp_path_factory.mktemp("crashed") / "runs.db"
    for name in ("SHOP", "DEEP", "DESK"):
        run = ("run", f"{__name__}:{name}", "x=[0, 1, 2, 3]", "--id", name.lower())
        assert killed(*run, folder=file.parent) == 9
    return file


@pytest.fixture
def said(
    left: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Said:
    """Return a function that runs a command on a copy of the file and returns what it prints."""
    for file in left.parent.glob("runs.db*"):
        shutil.copy(file, tmp_path)
    monkeypatch.chdir(tmp_path)
    return saying(capsys)


def document(said: Said, *words: str) -> Any:
    return json.loads(said(*words, "--json"))


def test_failures_inside_are_counted_everywhere(said: Said) -> None:
    gone = "active (owner process is gone, 1 failed inside)"
    assert said("ls").count(gone) == 3
    assert gone in said("show", "shop")
    assert "Workflow: desk" in said("show", "@last-failed")
    listed = document(said, "ls")["items"]
    assert [item["failed_inside"] for item in listed] == [1, 1, 1]
    assert document(said, "show", "shop")["failed_inside"] == 1
    assert document(said, "show", "shop/each")["failed_inside"] == 1
    children = document(said, "ls", "--parent", "shop")["items"]
    assert [item["failed_inside"] for item in children] == [1]
    assert "active (1 failed inside)" in str(SqliteCheckpointer("runs.db").workflows())


def test_a_parent_works_as_long_as_what_is_inside_of_it(said: Said) -> None:
    for name in ("SHOP", "DEEP"):
        said("resume", name.lower(), f"{__name__}:{name}")
    store = SqliteCheckpointer("runs.db")
    runs = ("shop", "shop/each", "deep", "deep/shop", "deep/shop/each")
    took = {wf: store.workflow(wf).duration_ms or 0 for wf in runs}
    assert took["deep"] >= took["deep/shop"] >= took["deep/shop/each"] >= 120
    assert took["shop"] >= took["shop/each"] >= 120
    assert "shop" in said("ls", "--where", "duration >= 120ms")


def test_nested_steps_of_a_run_that_has_not_ended_are_in_its_profile(said: Said) -> None:
    found = {item["path"]: item["count"] for item in document(said, "stats", "--last", "3")["items"]}
    assert found == {"each/work": 6, "shop/each/work": 3, "each/ask": 2}
    assert "p50 and p95 leave out failures, Total does not" in said("stats", "--last", "3")
    assert "p50 and p95 leave out failures, Total does not" in said("stats")


def test_the_timeline_of_a_run_that_has_not_ended_has_what_ran_inside(said: Said) -> None:
    for wf, path in (("shop", "each/work"), ("deep", "shop/each/work")):
        text = said("timeline", wf)
        assert f"Workflow: {wf} | active (owner process is gone)" in text
        assert path in text
        assert "free slots" not in text
        found = document(said, "timeline", wf)
        assert found["alive"] is False
        assert found["busy_ms"] >= found["critical"]["length_ms"] >= 90
        assert [node["path"] for node in found["critical"]["nodes"]] == [path]
        assert [row["node"] for row in found["items"]][: path.count("/")] == path.split("/")[:-1]


def test_a_gap_between_two_crashes_is_no_work(said: Said) -> None:
    time.sleep(1)
    assert killed("resume", "shop", f"{__name__}:SHOP") == 9
    each = next(row for row in document(said, "timeline", "shop")["items"] if row["node"] == "each")
    assert 90 <= each["duration_ms"] < 900


def test_a_crashed_run_with_an_open_question_is_to_be_resumed(said: Said) -> None:
    shown = said("show", "desk")
    following = shown.rpartition("next:")[2]
    assert "answer desk each.item-0.ok=..." in following
    assert "errors desk" in following
    assert "resume desk" in following


def test_failed_steps_have_their_duration(said: Said) -> None:
    row = next(line for line in said("steps", "shop/each/item-1").splitlines() if "FAILED" in line)
    assert "—" not in row


def test_where_a_run_is_has_the_name_of_a_map_once(said: Said) -> None:
    store = SqliteCheckpointer("runs.db")
    (found,) = row_details(store, ["deep"])["items"]
    assert found["running"] == ["shop/each/work"]
    assert found["error"] is not None
    assert found["error"]["message"] == "no"


def test_a_path_of_a_node_in_a_condition_is_refused_with_the_right_form(said: Said) -> None:
    assert "node:work" in said("ls", "--where", "node:each/work status = failed")
    assert "shop" in said("ls", "--where", "node:work status = failed")


def test_resolved_errors_are_marked(said: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    (group,) = document(said, "errors", "--all")["items"]
    assert (group["resolved"], group["no_result"]) == (False, False)
    assert "Resolved" not in said("errors")
    monkeypatch.setattr(f"{__name__}.BAD", -1)
    for name in ("SHOP", "DEEP", "DESK"):
        said("resume", name.lower(), f"{__name__}:{name}", "--restart", "node")
    assert document(said, "errors")["items"] == []
    (group,) = document(said, "errors", "--all")["items"]
    assert group["resolved"] is True
    assert "Resolved" in said("errors", "--all")
