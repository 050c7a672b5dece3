"""Stored runs whose process dies: in a step that must not repeat, again and again, in any mode, at depth."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support import crashing
from support.crashing import note, opened
from support.durable import durable, store
from support.processes import Elsewhere, elsewhere
from support.running import RUNNERS, On, OnAsync, OnSync
from support.stored import DSN, store_at

from durability.test_crashes import calls, check_finished, repeated
from hypergraph import (
    END,
    AsyncRunner,
    Graph,
    NodeContext,
    Replace,
    RetryPolicy,
    RunStatus,
    SyncRunner,
    node,
    route,
)
from hypergraph.checkpointers import Checkpointer, WorkflowStatus
from hypergraph.checkpointers.records import NewWorkflow
from hypergraph.events import TypedEventProcessor
from hypergraph.exceptions import AmbiguousStepError, CrashLoopError, NodeTimeoutError, StoreFullError

__all__ = ["durable", "elsewhere", "store"]  # fixtures

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


def stopped_before_paying(folder: Path) -> RunStatus:
    """Resume, and stop the run when its next superstep is announced."""

    class Stop(TypedEventProcessor):
        def on_superstep_start(self, event: Any) -> None:
            handle.stop()

    async def main() -> RunStatus:
        nonlocal handle
        runner = AsyncRunner(checkpointer=store_at(folder / "w.db"))
        handle = runner.start_run(
            payment(), workflow_id="w", event_processors=[Stop()], error_handling="continue"
        )
        return (await handle.result()).status

    handle: Any = None
    return asyncio.run(main())


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

    def test_a_run_that_is_stopped_before_it_leaves_it_open(
        self, tmp_path: Path, elsewhere: Elsewhere, runner: str
    ) -> None:
        elsewhere.dies(pay, tmp_path, runner, "charge")
        assert elsewhere(stopped_before_paying, tmp_path) is RunStatus.STOPPED
        with pytest.raises(AmbiguousStepError):
            elsewhere(pay, tmp_path, runner)
        assert calls(tmp_path)["charge"] == 1

    def test_a_failure_is_a_result_and_is_tried_again(
        self, tmp_path: Path, elsewhere: Elsewhere, runner: str
    ) -> None:
        with pytest.raises(ConnectionError):
            elsewhere(pay, tmp_path, runner, on_ambiguous="fail")
        assert elsewhere(pay, tmp_path, runner) == "parcel with receipt for order of tea"
        assert calls(tmp_path)["charge"] == 2


# -- without a crash: only an exception of the function says that it may be called again ---------------

PATIENT = RetryPolicy(max_attempts=3, initial_delay=0)
WAYS = [
    *("sync", "offloaded", "generator", "async"),
    *("retried", "retried generator", "retried async", "retried deaf"),
]


class Till:
    """Charges, and keeps its books; what it does next is told to `after`."""

    def __init__(self, after: Callable[[], Any] = lambda: "receipt") -> None:
        self.after = after
        self.charged: list[int] = []

    def charge(self, amount: int) -> Any:
        self.charged.append(amount)
        return self.after()

    def graph(self, **options: Any) -> Graph:
        given = {"output_name": "receipt", "repeatable": False} | options
        return Graph([node(**given)(self.charge)], name="till")

    def slow(self, way: str, **options: Any) -> Graph:
        """Return a graph whose first call takes longer than it may."""

        def pause() -> float:
            return 0.05 if len(self.charged) == 1 else 0.0

        def charge(amount: int) -> Any:
            self.charged.append(amount)
            time.sleep(pause())
            return way

        def charge_in_parts(amount: int) -> Any:
            self.charged.append(amount)
            yield "first part"
            time.sleep(pause())
            yield "last part"

        async def charge_async(amount: int) -> Any:
            self.charged.append(amount)
            await asyncio.sleep(pause())
            return way

        async def charge_deaf(amount: int) -> Any:
            self.charged.append(amount)
            try:
                await asyncio.sleep(pause())
            except asyncio.CancelledError:
                return "all the same"

        kinds = {"generator": charge_in_parts, "async": charge_async, "deaf": charge_deaf}
        function = kinds.get(way.rsplit(maxsplit=1)[-1], charge)
        options |= {"retry": PATIENT} if "retried" in way else {}
        options |= {"offload": True} if way == "offloaded" else {}
        made = node(output_name="receipt", repeatable=False, timeout=0.01, **options)(function)
        return Graph([made.with_name("charge")], name="till")


def runner_for(way: str, store: Checkpointer | None, kind: type[On] = OnSync) -> On:
    needs_loop = way.endswith(("offloaded", "async", "deaf"))
    return (OnAsync if needs_loop else kind)(checkpointer=store)


@pytest.mark.parametrize("way", WAYS)
def test_a_call_that_took_too_long_is_not_repeated(store: Checkpointer, way: str) -> None:
    till = Till()
    with pytest.raises(NodeTimeoutError):
        runner_for(way, store).run(till.slow(way), amount=5, workflow_id="w")
    for _ in range(2):
        with pytest.raises(AmbiguousStepError, match="charge"):
            runner_for(way, store).run(till.slow(way), workflow_id="w")
    assert till.charged == [5]
    known = till.slow(way, on_ambiguous=lambda *_: "found")
    assert runner_for(way, store).run(known, workflow_id="w")["receipt"] == "found"
    assert till.charged == [5]


@pytest.mark.parametrize("kind", [OnSync, OnAsync], ids=RUNNERS)
@pytest.mark.parametrize("way", [way for way in WAYS if "retried" in way])
def test_a_retry_policy_does_not_repeat_what_took_too_long(kind: type[On], way: str) -> None:
    till = Till()
    with pytest.raises(NodeTimeoutError):
        runner_for(way, None, kind).run(till.slow(way), amount=5)
    assert till.charged == [5]


@pytest.mark.parametrize("around", ["nested", "mapped", "map"])
def test_nor_is_it_inside_of_another_graph_or_in_an_item(durable: On, around: str) -> None:
    till = Till()

    def call(**given: Any) -> Any:
        graph = till.slow("retried")
        if around == "map":
            return durable.map(graph, **given, map_over="amount", workflow_id="w")
        inner = graph.as_node(name="inner")
        outer = inner if around == "nested" else inner.map_over("amount")
        return durable.run(Graph([outer], name="outer"), **given, workflow_id="w")

    amount = 5 if around == "nested" else [5, 6]
    with pytest.raises(NodeTimeoutError):
        call(amount=amount)
    charged = [*till.charged]
    with pytest.raises(AmbiguousStepError):
        call(**({"amount": amount} if around == "map" else {}))
    assert till.charged[: len(charged)] == charged
    assert till.charged.count(5) == 1


@pytest.mark.parametrize("way", ["retried", "resumed"])
def test_a_call_that_raised_by_itself_is_made_again(durable: On, way: str) -> None:
    till = Till()

    def after() -> str:
        if len(till.charged) == 1:
            time.sleep(0.02)  # also if it took too long
            raise ConnectionError("no line")
        return "receipt"

    till.after = after
    graph = till.graph(timeout=0.01, **({"retry": PATIENT} if way == "retried" else {}))
    result = durable.run(graph, amount=5, workflow_id="w", error_handling="continue")
    if way == "resumed":
        assert isinstance(result.error, ConnectionError)
        result = durable.run(graph, workflow_id="w")
    assert result["receipt"] == "receipt"
    assert till.charged == [5, 5]


async def never() -> None: ...


REFUSED: dict[str, tuple[Callable[[], Any], Any]] = {
    "three for two": (lambda: (1, 2, 3), ("receipt", "fee")),
    "none for two": (lambda: None, ("receipt", "fee")),
    "an item that is missing": (lambda: {"receipt": 1}, ("receipt", "fee")),
    "a coroutine": (never, "receipt"),
    "a Replace": (lambda: Replace([1]), "receipt"),
}


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("retry", [None, PATIENT], ids=["once", "retried"])
def test_a_call_whose_result_is_refused_is_not_repeated(durable: On, case: str, retry: Any) -> None:
    wrong, names = REFUSED[case]
    till = Till(wrong)
    graph = till.graph(output_name=names, retry=retry)
    result = durable.run(graph, amount=5, workflow_id="w", error_handling="continue")
    assert isinstance(result.error, (TypeError, ValueError))
    till.after = lambda: (1, 2) if len(names) == 2 else 1
    with pytest.raises(AmbiguousStepError, match="charge"):
        durable.run(graph, workflow_id="w")
    assert till.charged == [5]


# -- an open step stays open until it is resolved ----------------------------------------------------------


def left_open(durable: On) -> Till:
    """Return a till that was interrupted."""
    till = Till(lambda: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        durable.run(till.graph(), amount=5, workflow_id="w")
    till.after = lambda: "receipt"
    return till


@pytest.mark.parametrize("answer", ["raises", "of a wrong shape"])
def test_a_function_that_cannot_find_out_leaves_the_step_open(durable: On, answer: str) -> None:
    till, two = Till(lambda: (1, 2, 3)), ("receipt", "fee")
    durable.run(till.graph(output_name=two), amount=5, workflow_id="w", error_handling="continue")

    def find_out(*_: Any) -> Any:
        if answer == "raises":
            raise ConnectionError("no line")
        return (1, 2, 3)

    for _ in range(2):
        graph = till.graph(output_name=two, on_ambiguous=find_out)
        with pytest.raises((ConnectionError, ValueError)):
            durable.run(graph, workflow_id="w")
    with pytest.raises(AmbiguousStepError):
        durable.run(till.graph(output_name=two), workflow_id="w")
    found = till.graph(output_name=two, on_ambiguous=lambda *_: (1, 2))
    assert durable.run(found, workflow_id="w")["fee"] == 2
    assert till.charged == [5]


def test_a_run_that_is_cancelled_while_a_function_finds_out_leaves_the_step_open(store: Checkpointer) -> None:
    till = left_open(OnSync(checkpointer=store))
    asked, ends = threading.Event(), threading.Event()

    def find_out(*_: Any) -> Any:
        asked.set()
        ends.wait(60)
        return "found"

    async def cancel() -> None:
        runner = AsyncRunner(checkpointer=store)
        task = asyncio.create_task(runner.run(till.graph(on_ambiguous=find_out), workflow_id="w"))
        await asyncio.to_thread(asked.wait, 60)
        task.cancel()
        await asyncio.sleep(0)
        ends.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel())
    with pytest.raises(AmbiguousStepError):
        SyncRunner(checkpointer=store).run(till.graph(), workflow_id="w")
    assert till.charged == [5]


def test_the_next_visit_of_a_resolved_step_is_not_in_question(durable: On) -> None:
    visits: list[int] = []

    @node(output_name="count", repeatable=False, on_ambiguous=lambda name, key, inputs: inputs["count"] + 1)
    def charge(count: int) -> int:
        visits.append(count)
        if len(visits) == 1:
            raise KeyboardInterrupt
        return count + 1

    @route(targets=["charge", END])
    def again(count: int) -> Any:
        return END if count == 3 else "charge"

    graph = Graph([charge, again], name="loop")
    with pytest.raises(KeyboardInterrupt):
        durable.run(graph, count=0, workflow_id="w")
    assert durable.run(graph, workflow_id="w")["count"] == 3
    assert visits == [0, 1, 2]


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


def mapped(folder: Path, runner: str, place: str | None = None, **options: Any) -> Any:
    """Map a graph over three items, of which one may die; return what the items made."""

    @node(output_name="y")
    def step(x: int) -> int:
        note(f"x{x}")
        return x + 1

    on = opened(folder, runner, place)
    each = Graph([step], name="each")
    if options.pop("inside", False):
        outer = Graph([each.as_node().map_over("x", error_handling="continue")], name="outer")
        return on.run(outer, {"x": [0, 1, 2]}, workflow_id="w", **options)["y"]
    more = {"map_over": "x", "error_handling": "continue", **options}
    return on.map(each, {"x": [0, 1, 2]}, workflow_id="w", **more)["y"]


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

    @pytest.mark.parametrize("inside", [False, True])
    def test_an_item_of_a_map_that_goes_on_fails_alone(
        self, tmp_path: Path, elsewhere: Elsewhere, runner: str, inside: bool
    ) -> None:
        for _ in range(3):
            elsewhere.dies(mapped, tmp_path, runner, "x1", inside=inside)
        assert elsewhere(mapped, tmp_path, runner, inside=inside) == [1, None, 3]
        item = store_at(tmp_path / "w.db").workflow("w/each/item-1" if inside else "w/item-1")
        assert item.status is WorkflowStatus.FAILED
        assert item.reason is not None
        assert item.reason.startswith("CrashLoopError: Workflow 'w/")
        assert elsewhere(mapped, tmp_path, runner, inside=inside, force=True, restart="node") == [1, 2, 3]
        assert calls(tmp_path)["x1"] == 4

    def test_an_item_of_another_map_ends_it(self, tmp_path: Path, elsewhere: Elsewhere, runner: str) -> None:
        for _ in range(3):
            elsewhere.dies(mapped, tmp_path, runner, "x1", error_handling="raise")
        with pytest.raises(CrashLoopError, match="'w/item-1' is in a crash loop at node step"):
            elsewhere(mapped, tmp_path, runner, error_handling="raise")

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


def test_a_person_says_what_became_of_a_call_with_the_same_graph(durable: On, store: Checkpointer) -> None:
    calls = list[str]()

    @node(output_name="receipt", repeatable=False)
    def charge(order: str) -> str:
        calls.append(order)
        raise KeyboardInterrupt

    graph = Graph([charge], name="payment")
    with pytest.raises(KeyboardInterrupt):
        durable.run(graph, {"order": "tea"}, workflow_id="w")
    with pytest.raises(AmbiguousStepError, match=r"cannot give 'receipt' in its place\. Let on_ambiguous"):
        durable.run(graph, {"receipt": "by hand"}, workflow_id="w")
    with pytest.raises(AmbiguousStepError, match="began without leaving a result"):
        durable.run(graph, workflow_id="w")
    said = node(output_name="receipt", repeatable=False, on_ambiguous=lambda *about: "by hand")
    result = durable.run(graph.replace({"charge": said(charge.func)}), workflow_id="w")
    assert result["receipt"] == "by hand"
    assert durable.run(graph, workflow_id="w")["receipt"] == "by hand"
    assert calls == ["tea"]
