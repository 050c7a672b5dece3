"""Processes that die in the middle of a workflow, and others that go on with it."""

import json
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support import crashing
from support.running import RUNNERS
from support.stored import store_at

from hypergraph import RunStatus
from hypergraph.checkpointers import StepStatus, WorkflowStatus
from hypergraph.checkpointers.sqlite import locks

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs signals"),
]
Killed = Callable[..., None]
both = pytest.mark.parametrize("runner", RUNNERS)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    crashing.told(tmp_path)
    yield tmp_path
    crashing.told(Path())


@pytest.fixture(scope="module")
def killed() -> Iterator[Callable[..., None]]:
    """Let another process run something, and see it die by the signal and by nothing else."""
    command = [sys.executable, crashing.__file__]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:

        def ask(folder: Path, runner: str, what: str, place: str | None = None, **more: float) -> None:
            request = {"folder": str(folder), "runner": runner, "what": what, "place": place, "early": None}
            print(json.dumps(request | more), file=server.stdin, flush=True)
            assert server.stdout is not None
            assert int(server.stdout.readline()) == -signal.SIGKILL

        yield ask


def calls(folder: Path) -> Counter[str]:
    """Return how often each body was entered, by all processes together."""
    return Counter((folder / "calls").read_text().splitlines())


def repeated(folder: Path) -> dict[str, int]:
    return {place: times for place, times in calls(folder).items() if times > 1}


def recorded(folder: Path, workflow_id: str = "w") -> list[str]:
    steps = store_at(folder / "w.db").steps(workflow_id)
    return [step.node_name for step in steps if step.status is StepStatus.COMPLETED]


def check_finished(folder: Path, workflow_id: str = "w") -> None:
    """Nothing is recorded twice, indexes have no gaps, and the workflow is at its end."""
    store = store_at(folder / "w.db")
    workflow, steps = store.workflow(workflow_id), store.steps(workflow_id)
    assert workflow is not None
    assert workflow.status is WorkflowStatus.COMPLETED
    assert [step.index for step in steps] == list(range(len(steps)))
    assert workflow.duration_ms > max(step.duration_ms for step in steps)  # dead processes worked, too
    assert len({(step.superstep, step.node_name) for step in steps}) == len(steps)


@both
@pytest.mark.parametrize("node", [0, 20, 29])
def test_a_chain_goes_on_with_the_node_in_which_its_process_was_killed(
    folder: Path, killed: Killed, runner: str, node: int
) -> None:
    killed(folder, runner, "chain", f"plus {node}")
    assert recorded(folder) == [f"n{i}" for i in range(node)]
    assert crashing.started(folder, runner, "chain")["v30"] == 30
    assert repeated(folder) == {f"plus {node}": 2}
    assert len(calls(folder)) == crashing.LENGTH
    check_finished(folder)


def test_awaited_nodes_are_no_exception(folder: Path, killed: Killed) -> None:
    killed(folder, "async", "awaits", "plus 20")
    assert crashing.started(folder, "async", "awaits")["v30"] == 30
    assert repeated(folder) == {"plus 20": 2}
    check_finished(folder)


def test_several_crashes_repeat_one_body_each(folder: Path, killed: Killed) -> None:
    for node in (3, 11, 12):
        killed(folder, "sync", "chain", f"plus {node}")
    assert crashing.started(folder, "async", "chain")["v30"] == 30
    assert repeated(folder) == {"plus 3": 2, "plus 11": 2, "plus 12": 2}
    check_finished(folder)


@both
@pytest.mark.parametrize("place", ["count 7", "enough 7"])
def test_a_loop_goes_on_in_the_round_in_which_it_was_killed(
    folder: Path, killed: Killed, runner: str, place: str
) -> None:
    killed(folder, runner, "loop", place)
    assert crashing.started(folder, runner, "loop")["n"] == crashing.LOOPS
    assert repeated(folder) == {place: 2}
    assert len(calls(folder)) == len(recorded(folder))
    check_finished(folder)


@both
@pytest.mark.parametrize("place", ["plus 5", "after"])
def test_a_nested_graph_goes_on_inside(folder: Path, killed: Killed, runner: str, place: str) -> None:
    killed(folder, runner, "nested", place)
    assert crashing.started(folder, runner, "nested")["total"] == 20
    assert repeated(folder) == {place: 2}
    check_finished(folder)
    check_finished(folder, "w/inner")


@both
def test_a_map_runs_only_the_items_that_were_not_finished(folder: Path, killed: Killed, runner: str) -> None:
    killed(folder, runner, "map", "plus 701")  # the second node of item 7
    results = crashing.started(folder, runner, "map")
    assert results["y"] == [2 * (100 * item + 2) for item in range(crashing.ITEMS)]
    assert repeated(folder) == {"plus 701": 2}
    assert len(calls(folder)) == 3 * crashing.ITEMS
    for item in range(crashing.ITEMS):
        check_finished(folder, f"w/item-{item}")


@pytest.mark.parametrize(("early", "written"), [(0.0, ["a", "b", "c"]), (60.0, [])])
def test_siblings_are_run_again_only_if_they_were_not_written_down(
    folder: Path, killed: Killed, early: float, written: list[str]
) -> None:
    killed(folder, "async", "siblings", "sibling d", early=early)
    assert recorded(folder) == written
    assert crashing.started(folder, "async", "siblings")["joined"] == "a1b1c1d1"
    assert repeated(folder) == {f"sibling {name}": 2 for name in "abcd" if name not in written}
    check_finished(folder)


def test_a_pause_outlives_its_process_and_is_answered_in_another(folder: Path, killed: Killed) -> None:
    killed(folder, "async", "review")
    waiting = crashing.started(folder, "async", "review")
    assert waiting.status is RunStatus.PAUSED
    assert waiting.pause.value == "on crashes"
    done = crashing.started(folder, "async", "review", verdict="good")
    assert done["published"] == "on crashes: good"
    assert calls(folder) == {"write": 1, "ask": 1, "publish": 1}
    check_finished(folder)


@both
def test_what_a_run_returned_needs_no_farewell(folder: Path, killed: Killed, runner: str) -> None:
    killed(folder, runner, "chain")
    check_finished(folder)
    assert crashing.started(folder, runner, "chain")["v30"] == 30
    assert repeated(folder) == {}


@both
def test_of_two_processes_that_start_at_once_one_runs(folder: Path, runner: str) -> None:
    command = [sys.executable, crashing.__file__, str(folder), runner]
    piped: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    rivals = [subprocess.Popen(command, **piped) for _ in range(2)]
    try:
        assert [rival.stdout.readline() for rival in rivals] == ["ready\n", "ready\n"]
        for rival in rivals:
            rival.stdin.write("go\n")
            rival.stdin.flush()
        heard = {rival.stdout.readline(): rival for rival in rivals}
        owner = heard["running\n"]
        assert f"locked {owner.pid} {locks.HOST}\n" in heard
        assert owner.communicate("go on\n", timeout=300)[0] == "result 2\n"
    finally:
        for rival in rivals:
            rival.kill()
            rival.communicate()
    assert calls(folder) == {"hold": 1}
    check_finished(folder)
