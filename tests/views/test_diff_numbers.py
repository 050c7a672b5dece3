"""Numbers of steps in a comparison: those of `hypergraph step`, on both sides."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from pathlib import Path

import pytest
from support.processes import Elsewhere, elsewhere

from hypergraph import AsyncRunner, FunctionNode, Graph, SyncRunner, node
from hypergraph.checkpointers import SqliteCheckpointer
from hypergraph.cli import main
from hypergraph.views.diff import diff

__all__ = ["elsewhere"]  # a fixture


def race(file: str, workflow_id: str, *, dies: bool) -> None:
    """Run two nodes side by side; the process may be killed in the first, after the second has ended."""
    store = SqliteCheckpointer(file)

    @node(output_name="a")
    async def slow(x: int) -> int:
        while not store.backend.tally_steps(workflow_id):
            await asyncio.sleep(0.001)
        if dies:
            os.kill(os.getpid(), signal.SIGKILL)
        return x

    @node(output_name="b")
    async def quick(x: int) -> int:
        return x

    @node(output_name="c")
    def add(a: int, b: int, extra: int) -> int:
        return a + b + extra

    extra = 0 if workflow_id == "w" else 5
    graph = Graph([slow, quick, add], name="g").bind(extra=extra)
    asyncio.run(AsyncRunner(checkpointer=store).run(graph, x=1, workflow_id=workflow_id))


def test_the_numbers_of_a_comparison_are_those_of_the_steps(
    tmp_path: Path, elsewhere: Elsewhere, capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(tmp_path / "runs.db")

    def said(*words: str) -> str:
        assert main([*words, "--db", file]) == 0
        return capsys.readouterr().out

    elsewhere.dies(race, file, "w", dies=True)
    elsewhere(race, file, "w", dies=False)
    elsewhere(race, file, "v", dies=False)
    compared = said("diff", "w", "v")
    first = re.search(r"First difference at step (\d+) of A, (\d+) of B: different nodes ran", compared)
    assert first is not None, compared
    sides = re.search(r"a: (\w+) .*\n *b: (\w+) ", compared)
    assert sides is not None
    for wf, number, name in zip("wv", first.groups(), sides.groups(), strict=True):
        assert said("step", wf, number).startswith(f"Step {number} of {wf}: {name} ")
    rows = re.findall(r"^ +(\d+) +(\w+) \w+ +[=≠] +(\d+) +(\w+) ", compared, re.MULTILINE)
    assert len(rows) == 3
    for number, name, other, name_of_other in rows:
        assert said("step", "w", number).startswith(f"Step {number} of w: {name} ")
        assert said("step", "v", other).startswith(f"Step {other} of v: {name_of_other} ")


def test_a_difference_inside_names_the_number_of_its_step(tmp_path: Path) -> None:
    store = SqliteCheckpointer(tmp_path / "runs.db")

    @node(output_name="y")
    def double(x: int) -> int:
        return 2 * x

    graph = Graph([double], name="g")
    for name, numbers in (("m", [1, 2]), ("n", [1, 3])):
        SyncRunner(checkpointer=store).map(graph, x=numbers, map_over="x", workflow_id=name)
    (inside,) = diff(store, "m", "n")["inside"]
    assert (inside["position"], inside["a_step"], inside["b_step"]) == (0, 0, 0)


def test_steps_after_those_that_are_shown_are_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def add(number: int) -> FunctionNode:
        return FunctionNode(
            lambda v: v + 1, f"n{number}", f"v{number + 1}", rename_inputs={"v": f"v{number}"}
        )

    graph, file = Graph([add(number) for number in range(14)], name="long"), str(tmp_path / "w.db")
    for begin, name in enumerate("ab"):
        SyncRunner(checkpointer=file).run(graph, v0=begin, workflow_id=name)
    found = diff(SqliteCheckpointer(file), "a", "b")
    assert (len(found["path"]), found["path_left_out"]) == (10, 4)
    assert main(["--db", file, "diff", "a", "b"]) == 0
    assert "... and 4 more steps" in capsys.readouterr().out
