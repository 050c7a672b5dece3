"""A chain of thirty nodes, killed in its middle again and again: how much of it has to be done twice?

Each trial has a database of its own. One process runs the chain and dies in it, another goes on.
"""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest
from durability.test_crashes import calls, check_finished, repeated
from support import crashing
from support.processes import Elsewhere, elsewhere
from support.running import RUNNERS
from support.stored import store_at

from hypergraph import EventProcessor, FunctionNode, Graph, NodeStartEvent, node, route

__all__ = ["elsewhere"]  # fixture

LENGTH, TRIALS = 30, 50
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs signals"),
]


def kill_myself() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class KillAtStart(EventProcessor):
    """Die when a node is announced, before its body is called."""

    def __init__(self, victim: str) -> None:
        self.victim = victim

    def on_event(self, event: Any) -> None:
        if isinstance(event, NodeStartEvent) and event.node_name == self.victim:
            kill_myself()


def chain(victim: int | None, how: str) -> Graph:
    """Return n0 ... n29, each adding one to its input; the victim's body takes its process along."""
    returned = threading.Event()

    def plus_one(x: int) -> int:
        crashing.note(f"plus {x}")
        if x == victim and how == "in the body":
            kill_myself()
        if x == victim and how == "after the body":
            threading.Thread(target=lambda: (returned.wait(), kill_myself()), daemon=True).start()
            returned.set()
        return x + 1

    nodes = [
        FunctionNode(plus_one, f"n{i}", f"v{i + 1}", rename_inputs={"x": f"v{i}"}) for i in range(LENGTH)
    ]
    return Graph(nodes, name="chain")


def run_chain(folder: Path, runner: str, victim: int | None = None, how: str = "") -> int:
    watching = [KillAtStart(f"n{victim}")] if how == "before the body" else []
    result = crashing.opened(folder, runner).run(
        chain(victim, how), {"v0": 0}, workflow_id="w", event_processors=watching
    )
    if victim is not None:
        threading.Event().wait(20)  # the one that kills is under way
    return result["v30"]  # type: ignore[no-any-return]


def check_whole(folder: Path) -> None:
    """Each node is recorded once, in order, with the value it has without any crash."""
    check_finished(folder)
    steps = store_at(folder / "w.db").steps("w")
    assert [(s.superstep, s.node_name, s.values) for s in steps] == [
        (i, f"n{i}", {f"v{i + 1}": i + 1}) for i in range(LENGTH)
    ]


@pytest.mark.parametrize("runner", RUNNERS)
def test_killed_in_node_20_of_30_exactly_that_body_is_repeated(
    tmp_path: Path, elsewhere: Elsewhere, runner: str
) -> None:
    for trial in range(TRIALS):
        folder = tmp_path / str(trial)
        folder.mkdir()
        elsewhere.dies(run_chain, folder, runner, 20, "in the body")
        assert elsewhere(run_chain, folder, runner) == LENGTH
        assert repeated(folder) == {"plus 20": 2}
        assert len(calls(folder)) == LENGTH
    check_whole(folder)


@pytest.mark.parametrize("runner", RUNNERS)
@pytest.mark.parametrize("how", ["before the body", "in the body", "after the body"])
def test_wherever_the_kill_strikes_at_most_one_body_is_repeated(
    tmp_path: Path, elsewhere: Elsewhere, runner: str, how: str
) -> None:
    for victim in range(0, LENGTH, 5):
        folder = tmp_path / str(victim)
        folder.mkdir()
        elsewhere.dies(run_chain, folder, runner, victim, how)
        survivors = calls(folder) if (folder / "calls").exists() else {}
        assert elsewhere(run_chain, folder, runner) == LENGTH
        again = repeated(folder)
        if how == "before the body":
            assert set(again) <= {f"plus {victim - 1}"}
            assert len(survivors) == victim
        elif how == "in the body":
            assert again == {f"plus {victim}": 2}
        else:  # the chain may have come further before the signal arrived
            assert sum(again.values()) in (0, 2)
            assert set(again) <= {f"plus {len(survivors) - 1}"}
        assert len(calls(folder)) == LENGTH
        check_whole(folder)


@pytest.mark.parametrize("runner", RUNNERS)
def test_a_chain_that_is_killed_in_every_third_node_repeats_those_and_no_others(
    tmp_path: Path, elsewhere: Elsewhere, runner: str
) -> None:
    victims = range(1, LENGTH, 3)
    for victim in victims:
        elsewhere.dies(run_chain, tmp_path, runner, victim, "in the body")
    assert elsewhere(run_chain, tmp_path, runner) == LENGTH
    assert repeated(tmp_path) == {f"plus {victim}": 2 for victim in victims}
    check_whole(tmp_path)


# -- a kill in every body of something larger -----------------------------------------------------------


def larger() -> Graph:
    """Return siblings, a loop around a nested graph, a branch and a mapped graph, one after the other."""

    @node(output_name="left")
    def go_left(seed: int) -> int:
        crashing.note("left")
        return seed + 1

    @node(output_name="right")
    def go_right(seed: int) -> list[int]:
        crashing.note("right")
        return [seed, seed + 1, seed + 2]

    @node(output_name="half")
    def up(count: int) -> int:
        crashing.note(f"up {count}")
        return count + 2

    @node(output_name="down")
    def down(half: int) -> int:
        crashing.note(f"down {half}")
        return half - 1

    @route(targets=["body", "leave"])
    def again(count: int, left: int) -> str:
        crashing.note(f"again {count}")
        return "leave" if count >= left else "body"

    @node(output_name="way")
    def leave(count: int, right: list[int]) -> list[int]:
        crashing.note("leave")
        return [count * step for step in right]

    @node(output_name="part")
    def work(way: int) -> int:
        crashing.note(f"work {way}")
        return way + 1

    @node(output_name="total")
    def add(part: list[int]) -> int:
        crashing.note("add")
        return sum(part)

    body = Graph([up, down], name="body").as_node().with_outputs(down="count")
    each = Graph([work], name="each").as_node().map_over("way")
    return Graph([go_left, go_right, body, again, leave, each, add], name="larger")


def run_larger(folder: Path, runner: str, mode: str, place: int | None = None) -> int:
    on = crashing.opened(folder, runner, place, durability=mode)
    total: int = on.run(larger(), {"seed": 1, "count": 0}, workflow_id="w")["total"]
    return total


def written(folder: Path) -> list[Any]:
    """Return every step of every workflow, without times; nodes that overlap begin in any order."""
    store = store_at(folder / "w.db")
    found, places = [], ["w"]
    for place in places:
        places += [child.id for child in store.workflows(parent=place, limit=None)]
        facts = ("superstep", "node_name", "status", "input_versions", "values", "decision", "visit")
        workflow = store.workflow(place)
        assert workflow is not None
        steps = sorted(store.steps(place), key=lambda step: (step.superstep, step.node_name))
        found.append((place, workflow.status, [[getattr(s, f) for f in facts] for s in steps]))
    return sorted(found, key=lambda entry: entry[0])


@pytest.mark.parametrize("runner", RUNNERS)
@pytest.mark.parametrize(("mode", "times"), [("sync", 1), ("sync", 2), ("async", 1), ("exit", 1)])
def test_whatever_body_is_killed_the_history_is_that_of_an_uncrashed_run(
    tmp_path: Path, elsewhere: Elsewhere, runner: str, mode: str, times: int
) -> None:
    (tmp_path / "whole").mkdir()
    total = elsewhere(run_larger, tmp_path / "whole", runner, mode)
    bodies, expected = sum(calls(tmp_path / "whole").values()), written(tmp_path / "whole")
    assert (total, len(expected)) == (15, 7)
    for place in range(1, bodies + 1):
        folder = tmp_path / str(place)
        folder.mkdir()
        elsewhere.dies(run_larger, folder, runner, mode, place)
        if times == 2:
            elsewhere.dies(run_larger, folder, runner, mode, 1)
        assert elsewhere(run_larger, folder, runner, mode) == total
        assert written(folder) == expected
        assert max(calls(folder).values()) <= 1 + times


# -- many items -----------------------------------------------------------------------------------------

ITEMS, CRASH = 1000, 731


def run_items(folder: Path, runner: str, place: str | None = None) -> int:
    @node(output_name="y")
    def work(x: int) -> int:
        crashing.note(f"work {x}")
        return 2 * x

    on = crashing.opened(folder, runner, place)
    options: dict[str, Any] = {"max_concurrency": 1} if on.is_async else {}
    found = on.map(
        Graph([work], name="work"), {"x": list(range(ITEMS))}, map_over="x", workflow_id="w", **options
    )
    return sum(found["y"])


@pytest.mark.parametrize("runner", RUNNERS)
def test_a_crash_at_item_731_of_1000_resumes_with_730_skipped(
    tmp_path: Path, elsewhere: Elsewhere, runner: str
) -> None:
    elsewhere.dies(run_items, tmp_path, runner, f"work {CRASH}")
    before = sum(calls(tmp_path).values())
    assert elsewhere(run_items, tmp_path, runner) == ITEMS * (ITEMS - 1)
    assert before == CRASH + 1
    assert repeated(tmp_path) == {f"work {CRASH}": 2}
    assert len(calls(tmp_path)) == ITEMS
