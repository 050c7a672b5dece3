"""Stored runs whose process dies: in a step that must not repeat, again and again, in any mode, at depth."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
from support import crashing
from support.crashing import note, opened
from support.processes import Elsewhere, elsewhere
from support.running import RUNNERS
from support.stored import DSN, store_at

from durability.test_crashes import calls, check_finished, repeated
from hypergraph import Graph, NodeContext, node
from hypergraph.checkpointers import WorkflowStatus
from hypergraph.checkpointers.records import NewWorkflow
from hypergraph.exceptions import AmbiguousStepError, CrashLoopError, StoreFullError

__all__ = ["elsewhere"]  # fixture

needs_signals = pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs signals")
both = pytest.mark.parametrize("runner", RUNNERS)


# -- repeatable=False: did it happen or not? ------------------------------------------------------------


def payment(on_ambiguous: Any = None) -> Graph:
    """Return order -> charge -> ship, of which the second must not happen twice."""
    more = {} if on_ambiguous is None else {"on_ambiguous": on_ambiguous}

    @node(output_name="order")
    def place(item: str) -> str:
        note("place")
        return f"order of {item}"

    @node(output_name="receipt", repeatable=False, **more)
    def charge(order: str, ctx: NodeContext) -> str:
        note(f"key {ctx.idempotency_key}")
        note("charge")
        if on_ambiguous == "fail":
            raise ConnectionError("no line")
        return f"receipt for {order}"

    @node(output_name="parcel")
    def ship(receipt: str) -> str:
        note("ship")
        return f"parcel with {receipt}"

    return Graph([place, charge, ship], name="payment")


def find_out(node_name: str, key: str, inputs: dict[str, Any]) -> Any:
    note(f"asked about {node_name} {key} {inputs['order']}")
    return "receipt found"


def nothing_happened(node_name: str, key: str, inputs: dict[str, Any]) -> Any:
    note("asked")
    return NotImplemented


ANSWERS = {"find_out": find_out, "nothing_happened": nothing_happened}


def pay(folder: Path, runner: str, place: str | None = None, on_ambiguous: Any = None, **options: Any) -> Any:
    on_ambiguous = ANSWERS.get(on_ambiguous, on_ambiguous)
    result = opened(folder, runner, place).run(
        payment(on_ambiguous), {"item": "tea"}, workflow_id="w", **options
    )
    return result["parcel"]


@needs_signals
@pytest.mark.slow
@both
class TestRepeatableFalse:
    """A step that began and has no result."""

    def test_it_is_not_repeated_but_reported(self, tmp_path: Path, elsewhere: Elsewhere, runner: str) -> None:
        elsewhere.dies(pay, tmp_path, runner, "charge")
        for _ in range(2):
            with pytest.raises(AmbiguousStepError, match="charge") as caught:
                elsewhere(pay, tmp_path, runner)
            assert (caught.value.workflow_id, caught.value.node_name) == ("w", "charge")
            assert "on_ambiguous" in str(caught.value)
        ran = calls(tmp_path)
        assert (ran["place"], ran["charge"], ran["ship"]) == (1, 1, 0)

    def test_it_is_repeated_if_that_is_said(self, tmp_path: Path, elsewhere: Elsewhere, runner: str) -> None:
        elsewhere.dies(pay, tmp_path, runner, "charge")
        found = elsewhere(pay, tmp_path, runner, on_ambiguous="rerun")
        assert found == "parcel with receipt for order of tea"
        ran = calls(tmp_path)
        assert (ran["place"], ran["charge"], ran["ship"]) == (1, 2, 1)
        (times,) = [times for place, times in ran.items() if place.startswith("key ")]
        assert times == 2

    def test_a_function_may_find_out_what_became_of_it(
        self, tmp_path: Path, elsewhere: Elsewhere, runner: str
    ) -> None:
        elsewhere.dies(pay, tmp_path, runner, "charge")
        found = elsewhere(pay, tmp_path, runner, on_ambiguous="find_out")
        assert found == "parcel with receipt found"
        ran = calls(tmp_path)
        assert (ran["charge"], ran["ship"]) == (1, 1)
        key = next(place for place in ran if place.startswith("key ")).removeprefix("key ")
        assert ran[f"asked about charge {key} order of tea"] == 1
        assert store_at(tmp_path / "w.db").state("w")["receipt"] == "receipt found"
        check_finished(tmp_path)

    def test_a_function_may_find_that_nothing_happened(
        self, tmp_path: Path, elsewhere: Elsewhere, runner: str
    ) -> None:
        elsewhere.dies(pay, tmp_path, runner, "charge")
        found = elsewhere(pay, tmp_path, runner, on_ambiguous="nothing_happened")
        assert found == "parcel with receipt for order of tea"
        assert (calls(tmp_path)["asked"], calls(tmp_path)["charge"]) == (1, 2)

    def test_a_crash_before_or_after_it_leaves_no_doubt(
        self, tmp_path: Path, elsewhere: Elsewhere, runner: str
    ) -> None:
        elsewhere.dies(pay, tmp_path, runner, "place")
        elsewhere.dies(pay, tmp_path, runner, "ship")
        assert elsewhere(pay, tmp_path, runner) == "parcel with receipt for order of tea"
        ran = calls(tmp_path)
        assert (ran["place"], ran["charge"], ran["ship"]) == (2, 1, 2)
        check_finished(tmp_path)

    def test_a_failure_is_a_result_and_is_tried_again(
        self, tmp_path: Path, elsewhere: Elsewhere, runner: str
    ) -> None:
        with pytest.raises(ConnectionError):
            elsewhere(pay, tmp_path, runner, on_ambiguous="fail")
        assert elsewhere(pay, tmp_path, runner) == "parcel with receipt for order of tea"
        assert calls(tmp_path)["charge"] == 2


# -- crash loops ----------------------------------------------------------------------------------------


def chain(length: int = 4) -> Graph:
    def step(position: int) -> Any:
        def body(x: int) -> int:
            note(f"s{position}")
            return x + 1

        made = node(output_name=f"v{position + 1}")(body)
        return made.with_name(f"s{position}").with_inputs(x=f"v{position}")

    return Graph([step(position) for position in range(length)], name="steps")


def nested(folder: Path, runner: str, place: str | None = None, **options: Any) -> Any:
    graph = Graph([chain().as_node()], name="outer")
    return opened(folder, runner, place).run(graph, {"v0": 0}, workflow_id="w", **options)["v4"]


def chained(folder: Path, runner: str, place: str | None = None, policy: Any = None, **options: Any) -> Any:
    on = opened(folder, runner, place, **(policy or {}))
    return on.run(chain(), {"v0": 0}, workflow_id="w", **options)["v4"]


def claim_and_die(folder: Path) -> None:
    """Take a workflow and be killed before any of its nodes runs."""
    store = store_at(folder / "w.db")
    store.backend.claim("w", NewWorkflow(), store.encoding)
    os.kill(os.getpid(), signal.SIGKILL)


@needs_signals
@pytest.mark.slow
@both
class TestCrashLoop:
    """A node that takes its process along, again and again."""

    def test_after_three_times_it_is_not_tried_again(
        self, tmp_path: Path, elsewhere: Elsewhere, runner: str
    ) -> None:
        for _ in range(3):
            elsewhere.dies(chained, tmp_path, runner, "s2")
        for _ in range(2):
            with pytest.raises(CrashLoopError, match="crash loop at node s2") as caught:
                elsewhere(chained, tmp_path, runner)
            assert (caught.value.workflow_id, caught.value.node_name) == ("w", "s2")
            assert "force=True" in str(caught.value)
        assert calls(tmp_path) == {"s0": 1, "s1": 1, "s2": 3}
        workflow = store_at(tmp_path / "w.db").workflow("w")
        assert workflow is not None
        assert workflow.status is WorkflowStatus.FAILED

    def test_it_is_tried_again_by_force(self, tmp_path: Path, elsewhere: Elsewhere, runner: str) -> None:
        for _ in range(3):
            elsewhere.dies(chained, tmp_path, runner, "s2")
        with pytest.raises(CrashLoopError):
            elsewhere(chained, tmp_path, runner)
        assert elsewhere(chained, tmp_path, runner, force=True) == 4
        assert calls(tmp_path) == {"s0": 1, "s1": 1, "s2": 4, "s3": 1}
        check_finished(tmp_path)

    def test_twice_is_no_loop(self, tmp_path: Path, elsewhere: Elsewhere, runner: str) -> None:
        for _ in range(2):
            elsewhere.dies(chained, tmp_path, runner, "s2")
        assert elsewhere(chained, tmp_path, runner) == 4
        assert repeated(tmp_path) == {"s2": 3}

    def test_a_nested_graph_counts_its_own(self, tmp_path: Path, elsewhere: Elsewhere, runner: str) -> None:
        for place in ("s0", "s1", "s2"):
            elsewhere.dies(nested, tmp_path, runner, place)
        for _ in range(2):
            elsewhere.dies(nested, tmp_path, runner, "s2")
        with pytest.raises(CrashLoopError, match="'w/steps' is in a crash loop at node s2"):
            elsewhere(nested, tmp_path, runner)
        assert elsewhere(nested, tmp_path, runner, force=True) == 4
        assert calls(tmp_path) == {"s0": 2, "s1": 2, "s2": 4, "s3": 1}

    @pytest.mark.parametrize("place", ["s0", "s2"])
    def test_crashes_before_its_nodes_are_no_loop_of_a_node(
        self, tmp_path: Path, elsewhere: Elsewhere, runner: str, place: str
    ) -> None:
        elsewhere.dies(chained, tmp_path, runner, place)
        for _ in range(3):
            elsewhere.dies(claim_and_die, tmp_path)
        elsewhere.dies(chained, tmp_path, runner, place)
        assert elsewhere(chained, tmp_path, runner) == 4
        assert repeated(tmp_path) == {place: 3}

    def test_a_run_that_never_comes_to_its_nodes_is_not_tried_for_ever(
        self, tmp_path: Path, elsewhere: Elsewhere, runner: str
    ) -> None:
        elsewhere.dies(chained, tmp_path, runner, "s0")
        for _ in range(5):
            elsewhere.dies(claim_and_die, tmp_path)
        with pytest.raises(CrashLoopError, match=r"in a crash loop before any of its nodes: .* 6 times"):
            elsewhere(chained, tmp_path, runner)

    def test_crashes_in_several_nodes_are_no_loop(
        self, tmp_path: Path, elsewhere: Elsewhere, runner: str
    ) -> None:
        for victim in ("s1", "s1", "s2", "s2", "s3"):
            elsewhere.dies(chained, tmp_path, runner, victim)
        assert elsewhere(chained, tmp_path, runner) == 4


# -- durability: when things are written ----------------------------------------------------------------


def mutating(folder: Path, runner: str, policy: Any) -> None:
    """Run a graph whose second node spoils what the first returned."""

    @node(output_name="found")
    def find() -> list[int]:
        return [1, 2]

    @node(output_name="longest")
    def spoil(found: list[int]) -> int:
        found.append(99)
        return max(found)

    opened(folder, runner, **policy).run(Graph([find, spoil], name="mutating"), workflow_id="w")


def run_and_be_killed(folder: Path, runner: str, policy: Any) -> None:
    chained(folder, runner, None, policy)
    crashing.told(folder, "killed")
    note("killed")


@needs_signals
@pytest.mark.slow
@both
class TestDurability:
    """In every mode the same is written, only at other times."""

    modes = pytest.mark.parametrize("mode", ["sync", "async", "exit"])

    @modes
    def test_what_a_run_returned_is_written(
        self, tmp_path: Path, elsewhere: Elsewhere, runner: str, mode: str
    ) -> None:
        elsewhere.dies(run_and_be_killed, tmp_path, runner, {"durability": mode})
        check_finished(tmp_path)
        assert store_at(tmp_path / "w.db").state("w") == {f"v{i}": i for i in range(1, 5)}

    @modes
    def test_what_a_later_node_changes_is_stored_as_it_was(
        self, tmp_path: Path, elsewhere: Elsewhere, runner: str, mode: str
    ) -> None:
        elsewhere(mutating, tmp_path, runner, {"durability": mode})
        assert store_at(tmp_path / "w.db").state("w") == {"found": [1, 2], "longest": 99}

    @modes
    def test_a_killed_run_is_a_beginning_of_the_whole_and_goes_on_to_the_end(
        self, tmp_path: Path, elsewhere: Elsewhere, runner: str, mode: str
    ) -> None:
        elsewhere.dies(chained, tmp_path, runner, "s3", {"durability": mode})
        written = [s.node_name for s in store_at(tmp_path / "w.db").steps("w")]
        assert written == ["s0", "s1", "s2"][: len(written)]
        assert mode != "sync" or len(written) == 3
        assert mode != "exit" or written == []
        assert elsewhere(chained, tmp_path, runner, None, {"durability": mode}) == 4
        assert {f"s{i}" for i in range(len(written), 4)} == set(repeated(tmp_path)) | {"s3"}
        check_finished(tmp_path)

    @modes
    def test_a_failed_run_has_all_it_did(
        self, tmp_path: Path, elsewhere: Elsewhere, runner: str, mode: str
    ) -> None:
        assert elsewhere(failing_chain, tmp_path, runner, {"durability": mode}) == "failed"
        steps = store_at(tmp_path / "w.db").steps("w")
        assert [(s.node_name, s.status.value) for s in steps] == [("one", "completed"), ("two", "failed")]


def failing_chain(folder: Path, runner: str, policy: Any) -> str:
    @node(output_name="a")
    def one() -> int:
        return 1

    @node(output_name="b")
    def two(a: int) -> int:
        raise ValueError("broken")

    on = opened(folder, runner, **policy)
    found: str = on.run(Graph([one, two]), workflow_id="w", error_handling="continue").status.value
    return found


@both
@pytest.mark.skipif(DSN in os.environ, reason="fills a file")
@pytest.mark.parametrize("mode", ["sync", "async", "exit"])
def test_in_no_mode_a_failed_write_is_swallowed(tmp_path: Path, runner: str, mode: str) -> None:
    on = opened(tmp_path, runner, durability=mode)
    made: Any = on.runner.checkpointer

    @node(output_name="text")
    def fill(x: int) -> str:
        writer = made.backend.database._writer
        (pages,) = writer.execute("PRAGMA page_count").fetchone()
        writer.execute(f"PRAGMA max_page_count = {pages + 1}")
        return "y" * 100_000

    @node(output_name="size")
    def count(text: str) -> int:
        return len(text)

    with pytest.raises(StoreFullError, match="prune"):
        on.run(Graph([fill, count]), {"x": 1}, workflow_id="w")
    made.close()
    assert [w.id for w in store_at(tmp_path / "w.db").workflows()] == ["w"]


# -- at depth -------------------------------------------------------------------------------------------


def deep() -> Graph:
    """Return prepare -> middle, mapped over 0, 10, 20 ... -> total; in middle is inner, with two nodes."""

    @node(output_name="a")
    def left(x: int) -> int:
        note(f"left {x}")
        return x + 1

    @node(output_name="b")
    def right(a: int) -> int:
        note(f"right {a}")
        return a + 1

    @node(output_name="c")
    def close(b: int) -> int:
        note(f"close {b}")
        return b + 1

    @node(output_name="x")
    def prepare(size: int) -> list[int]:
        note("prepare")
        return [10 * item for item in range(size)]

    @node(output_name="total")
    def total(c: list[int]) -> int:
        note("total")
        return sum(c)

    inner = Graph([left, right], name="inner")
    middle = Graph([inner.as_node(), close], name="middle")
    return Graph([prepare, middle.as_node().map_over("x"), total], name="outer")


def deep_total(folder: Path, runner: str, place: str | None = None) -> Any:
    return opened(folder, runner, place).run(deep(), {"size": 6}, workflow_id="w")["total"]


@needs_signals
@pytest.mark.slow
@both
@pytest.mark.parametrize("place", ["left 30", "right 31", "close 32", "total"])
def test_a_graph_in_an_item_of_a_mapped_graph_goes_on_where_it_was_killed(
    tmp_path: Path, elsewhere: Elsewhere, runner: str, place: str
) -> None:
    elsewhere.dies(deep_total, tmp_path, runner, place)
    lost = {entry for entry in calls(tmp_path) if not entry.startswith(("prepare", "total"))}
    assert elsewhere(deep_total, tmp_path, runner) == sum(10 * item + 3 for item in range(6))
    assert repeated(tmp_path)[place] == 2
    assert runner == "async" or repeated(tmp_path) == {place: 2}
    assert set(repeated(tmp_path)) <= lost | {place}
    for item in range(6):
        check_finished(tmp_path, f"w/middle/item-{item}")
        check_finished(tmp_path, f"w/middle/item-{item}/inner")
    check_finished(tmp_path)


@needs_signals
@pytest.mark.slow
@both
def test_every_level_of_a_deep_workflow_can_be_looked_at(
    tmp_path: Path, elsewhere: Elsewhere, runner: str
) -> None:
    elsewhere(deep_total, tmp_path, runner)
    store = store_at(tmp_path / "w.db")
    assert store.state("w/middle/item-3/inner") == {"a": 31, "b": 32}
    assert store.state("w/middle/item-3")["c"] == 33
    assert store.steps("w")[1].child_workflow_id == "w/middle"
    assert {w.id for w in store.workflows(parent="w/middle")} == {f"w/middle/item-{i}" for i in range(6)}
    assert [w.id for w in store.workflows()] == ["w"]
