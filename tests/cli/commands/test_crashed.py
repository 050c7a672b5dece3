"""Commands about runs whose process was killed inside of a nested graph or a map."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hypergraph import Graph, interrupt, node
from hypergraph.checkpointers import SqliteCheckpointer
from hypergraph.cli import main


@node(output_name="y")
def work(x: int) -> int:
    time.sleep(0.03)
    if x == 1:
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


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the file with what processes have left that were killed at the last item."""
    file = tmp_path_factory.mktemp("crashed") / "runs.db"
    environment = os.environ | {"DIE_AT": "3", "PYTHONPATH": os.pathsep.join(sys.path)}
    for name in ("SHOP", "DEEP", "DESK"):
        words = ("run", f"{__name__}:{name}", "x=[0, 1, 2, 3]", "--id", name.lower(), "--db", file)
        ended = subprocess.run(
            [sys.executable, "-m", "hypergraph", *words], env=environment, cwd=file.parent, check=False
        )
        assert ended.returncode == 9
    return file


Said = Callable[..., str]


@pytest.fixture
def said(
    left: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Said:
    """Return a function that runs a command on a copy of the file and returns what it prints."""
    for file in left.parent.glob("runs.db*"):
        shutil.copy(file, tmp_path)
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> str:
        capsys.readouterr()
        main([*words, "--db", "runs.db"])
        found = capsys.readouterr()
        return found.out + found.err

    return run


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
