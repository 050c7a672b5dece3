"""Options of stored runs, each tried with processes that die, wait for one another, or come later."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import crashing
import pytest
from crashing import note, opened
from durable import Bodies, bodies, durable, fail_once, pipeline, read, rows, store
from processes import Elsewhere, elsewhere
from running import RUNNERS, On
from test_crashes import calls, check_finished, repeated
from test_stored_bad_input import untouched

from hypergraph import Graph, NodeContext, interrupt, node
from hypergraph.checkpointers import Checkpointer, SqliteCheckpointer, WorkflowStatus
from hypergraph.exceptions import (
    AmbiguousStepError,
    CheckpointError,
    CrashLoopError,
    StoreFullError,
)

__all__ = ["bodies", "durable", "elsewhere", "store"]  # fixtures

needs_signals = pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs signals")
both = pytest.mark.parametrize("runner", RUNNERS)


def values_of(result: Any) -> dict[str, Any]:
    return dict(result.values)


# -- fork_from ------------------------------------------------------------------------------------------


class TestForkFrom:
    """The short form of a fork."""

    def test_only_what_comes_after_the_superstep_runs(
        self, durable: On, store: Checkpointer, bodies: Bodies
    ) -> None:
        graph = pipeline(bodies)
        fail_once(durable, bodies, graph, "s4", values={"v0": 0}, workflow_id="order-456")
        before = rows(store, "order-456")
        bodies.take()
        result = durable.run(graph, fork_from=("order-456", 2), workflow_id="retry")
        assert result["v5"] == 5
        assert bodies.take() == ["s4", "s5"]
        assert rows(store, "order-456") == before
        fork = store.workflow("retry")
        assert (fork.forked_from, fork.forked_at, fork.status) == ("order-456", 2, WorkflowStatus.COMPLETED)
        assert rows(store, "retry") == [(k, f"s{k + 1}", "completed") for k in range(5)]

    def test_it_does_what_the_long_form_does(self, durable: On, store: Checkpointer, bodies: Bodies) -> None:
        graph = pipeline(bodies)
        durable.run(graph, {"v0": 0}, workflow_id="w")
        point = store.checkpoint("w", superstep=1)
        long = durable.run(graph, {**point.values, "v2": 50}, history=point.steps, workflow_id="long")
        short = durable.run(graph, {"v2": 50}, fork_from=("w", 1), workflow_id="short")
        assert values_of(short) == values_of(long)
        assert rows(store, "short") == rows(store, "long")
        assert store.checkpoint("short").values == store.checkpoint("long").values

    def test_a_changed_input_runs_everything_that_depends_on_it(self, durable: On, bodies: Bodies) -> None:
        durable.run(pipeline(bodies), {"v0": 0}, workflow_id="w")
        bodies.take()
        assert durable.run(pipeline(bodies), {"v0": 10}, fork_from=("w", 2), workflow_id="f")["v5"] == 15
        assert "s1" in bodies.take()

    def test_forks_outlive_what_they_were_forked_from(
        self, durable: On, store: Checkpointer, bodies: Bodies
    ) -> None:
        durable.run(pipeline(bodies), {"v0": 0}, workflow_id="w")
        durable.run(pipeline(bodies), {"v3": 7}, fork_from=("w", 2), workflow_id="f")
        read(store, "delete", "w")
        assert store.workflow("w") is None
        assert store.checkpoint("f").values == {"v0": 0, "v1": 1, "v2": 2, "v3": 7, "v4": 8, "v5": 9}

    @pytest.mark.parametrize(
        "wrong", [("w",), ("w", 1, 2), ("w", "1"), ("w", -1), ("w", 99), ("unknown", 0), (7, 0), 7]
    )
    def test_a_place_that_does_not_exist_is_refused(
        self, durable: On, store: Checkpointer, bodies: Bodies, wrong: Any
    ) -> None:
        durable.run(pipeline(bodies), {"v0": 0}, workflow_id="w")
        with (
            untouched(store, bodies),
            pytest.raises((CheckpointError, ValueError, TypeError), match=r"fork_from|unknown|99"),
        ):
            durable.run(pipeline(bodies), {"v0": 0}, fork_from=wrong, workflow_id="f")

    def test_two_pasts_at_once_are_refused(self, durable: On, store: Checkpointer, bodies: Bodies) -> None:
        durable.run(pipeline(bodies), {"v0": 0}, workflow_id="w")
        point = store.checkpoint("w", superstep=1)
        for other in ({"history": point.steps}, {"checkpoint": point}):
            with untouched(store, bodies), pytest.raises(ValueError, match="fork_from"):
                durable.run(pipeline(bodies), fork_from=("w", 1), workflow_id="f", **other)

    def test_an_existing_id_is_not_overwritten(
        self, durable: On, store: Checkpointer, bodies: Bodies
    ) -> None:
        durable.run(pipeline(bodies), {"v0": 0}, workflow_id="w")
        with untouched(store, bodies), pytest.raises((CheckpointError, ValueError), match="exists"):
            durable.run(pipeline(bodies), fork_from=("w", 1), workflow_id="w")


# -- wait and force: somebody else is at work -----------------------------------------------------------


@contextmanager
def owner_at_work(folder: Path, runner: str) -> Iterator[Any]:
    """Let another process enter the body of a workflow, in which it stays until it is told to go on."""
    crashing.told(folder)
    command = [sys.executable, crashing.__file__, str(folder), runner]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as owner:
        try:
            assert owner.stdout is not None
            assert owner.stdin is not None
            assert owner.stdout.readline() == "ready\n"
            owner.stdin.write("go\n")
            owner.stdin.flush()
            assert owner.stdout.readline() == "running\n"
            yield owner
        finally:
            owner.kill()
            crashing.told(Path())


@pytest.mark.slow
@both
class TestWait:
    """A second runner follows the one that is at work."""

    def test_it_returns_what_the_owner_brings_about(self, tmp_path: Path, runner: str) -> None:
        found: list[Any] = []
        with owner_at_work(tmp_path, runner) as owner:
            follower = threading.Thread(
                target=lambda: found.append(crashing.started(tmp_path, runner, "hold", wait=True))
            )
            follower.start()
            follower.join(0.3)
            assert follower.is_alive()
            assert owner.communicate("go on\n", timeout=60)[0] == "result 2\n"
            follower.join(60)
        assert found[0].completed
        assert found[0]["held"] == 2
        assert calls(tmp_path) == {"hold": 1}
        check_finished(tmp_path)

    def test_it_returns_at_once_where_nobody_is_at_work(
        self, tmp_path: Path, elsewhere: Elsewhere, runner: str
    ) -> None:
        for _ in range(2):
            assert elsewhere(chained, tmp_path, runner, wait=True) == 4
        assert calls(tmp_path) == {"s0": 1, "s1": 1, "s2": 1, "s3": 1}


@pytest.mark.slow
@both
def test_who_takes_over_by_force_runs_and_the_owner_is_told(
    tmp_path: Path, elsewhere: Elsewhere, runner: str
) -> None:
    with owner_at_work(tmp_path, runner) as owner:
        assert elsewhere(forced_hold, tmp_path, runner) == 2
        assert owner.communicate("go on\n", timeout=60)[0] == "lost\n"
    assert calls(tmp_path) == {"hold": 2}
    check_finished(tmp_path)


def forced_hold(folder: Path, runner: str) -> Any:
    sys.stdin = open("/dev/null")  # noqa: SIM115 - so that its body need not wait
    crashing.told(folder)
    return crashing.started(folder, runner, "hold", force=True)["held"]


# -- key: which item is which ---------------------------------------------------------------------------


class TestKey:
    """Items are known by their key, wherever they stand in the list."""

    @pytest.fixture(params=["name", "callable"])
    def key(self, request: pytest.FixtureRequest) -> Any:
        return "user" if request.param == "name" else lambda item: f"u-{item['user']}"

    @pytest.fixture
    def work(self, durable: On, bodies: Bodies, key: Any) -> Any:
        """A call of the map, of which the item of Cid fails the first time."""

        @node(output_name="text")
        def greet(user: str, age: int) -> str:
            bodies.enter(user)
            return f"{user} is {age}"

        graph = Graph([greet], name="greeting")

        def call(*people: tuple[str, int], **options: Any) -> Any:
            given = {"user": [name for name, _ in people], "age": [age for _, age in people]}
            more = {"map_over": ["user", "age"], "workflow_id": "batch", "key": key, **options}
            return durable.map(graph, given, **more)

        bodies.failing["cid"] = ValueError("broken")
        call(("ann", 1), ("bob", 2), ("cid", 3), error_handling="continue")
        bodies.failing.clear()
        bodies.take()
        return call

    def test_the_same_list_does_what_is_left(self, work: Any, bodies: Bodies) -> None:
        assert work(("ann", 1), ("bob", 2), ("cid", 3))["text"] == ["ann is 1", "bob is 2", "cid is 3"]
        assert bodies.take() == ["cid"]

    def test_another_order_is_no_matter(self, work: Any, bodies: Bodies) -> None:
        assert work(("cid", 3), ("bob", 2), ("ann", 1))["text"] == ["cid is 3", "bob is 2", "ann is 1"]
        assert bodies.take() == ["cid"]

    def test_an_item_that_was_inserted_is_run(self, work: Any, bodies: Bodies) -> None:
        found = work(("dan", 9), ("ann", 1), ("bob", 2), ("cid", 3))
        assert found["text"] == ["dan is 9", "ann is 1", "bob is 2", "cid is 3"]
        assert bodies.take() == ["dan", "cid"]

    def test_an_item_that_is_gone_moves_no_other(self, work: Any, bodies: Bodies) -> None:
        assert work(("bob", 2), ("cid", 3))["text"] == ["bob is 2", "cid is 3"]
        assert bodies.take() == ["cid"]
        assert work(("ann", 1), ("bob", 2), ("cid", 3))["text"] == ["ann is 1", "bob is 2", "cid is 3"]
        assert bodies.take() == []

    def test_an_item_with_other_inputs_is_done_again(self, work: Any, bodies: Bodies) -> None:
        assert work(("bob", 99), ("ann", 1), ("cid", 3))["text"] == ["bob is 99", "ann is 1", "cid is 3"]
        assert sorted(bodies.take()) == ["bob", "cid"]

    def test_two_items_of_one_key_are_refused(self, work: Any, bodies: Bodies, store: Checkpointer) -> None:
        with untouched(store, bodies), pytest.raises(ValueError, match="ann"):
            work(("ann", 1), ("bob", 2), ("ann", 3))

    @pytest.mark.parametrize(
        "wrong",
        ["nobody", 7, lambda item: None, lambda item: item["nobody"]],
        ids=["no input", "a number", "nothing", "an error"],
    )
    def test_a_key_that_is_none_is_refused(
        self, work: Any, bodies: Bodies, store: Checkpointer, wrong: Any
    ) -> None:
        with untouched(store, bodies), pytest.raises((ValueError, TypeError, KeyError)):
            work(("ann", 1), key=wrong)


# -- persist=False: fresh on resume ---------------------------------------------------------------------


def with_handle(bodies: Bodies) -> Graph:
    """Return open -> read -> count, of which the first must not be stored."""

    @node(output_name="handle", persist=False)
    def open_file(path: str) -> Any:
        bodies.enter("open_file")
        return iter([path])  # cannot be stored, and nobody warns

    @node(output_name="text")
    def read(handle: Any) -> str:
        bodies.enter("read")
        return str(next(handle))

    @node(output_name="size")
    def count(text: str) -> int:
        bodies.enter("count")
        return len(text)

    return Graph([open_file, read, count], name="files")


class TestPersistFalse:
    """Outputs that are made again rather than stored."""

    def test_they_are_nowhere_in_the_store_and_nobody_warns(
        self, durable: On, store: Checkpointer, bodies: Bodies
    ) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            result = durable.run(with_handle(bodies), {"path": "abc"}, workflow_id="w")
        assert result["size"] == 3
        assert store.state("w") == {"text": "abc", "size": 3}
        assert [s.durable for s in store.steps("w")] == [False, True, True]

    def test_they_are_made_again_for_what_is_unfinished(self, durable: On, bodies: Bodies) -> None:
        fail_once(durable, bodies, with_handle(bodies), "read", values={"path": "abc"}, workflow_id="w")
        bodies.take()
        assert durable.run(with_handle(bodies), workflow_id="w")["size"] == 3
        assert bodies.take() == ["open_file", "read", "count"]

    def test_they_are_not_made_again_for_nobody(self, durable: On, bodies: Bodies) -> None:
        fail_once(durable, bodies, with_handle(bodies), "count", values={"path": "abc"}, workflow_id="w")
        bodies.take()
        assert durable.run(with_handle(bodies), workflow_id="w")["size"] == 3
        assert bodies.take() == ["count"]

    def test_such_a_step_cannot_be_one_that_must_not_repeat(self) -> None:
        with pytest.raises(ValueError, match="repeatable"):
            node(output_name="x", persist=False, repeatable=False)(len)


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
        assert SqliteCheckpointer(tmp_path / "w.db").state("w")["receipt"] == "receipt found"
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


def chained(folder: Path, runner: str, place: str | None = None, policy: Any = None, **options: Any) -> Any:
    on = opened(folder, runner, place, **(policy or {}))
    return on.run(chain(), {"v0": 0}, workflow_id="w", **options)["v4"]


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
            with pytest.raises(CrashLoopError, match=r"crash loop at node '?s2") as caught:
                elsewhere(chained, tmp_path, runner)
            assert (caught.value.workflow_id, caught.value.node_name) == ("w", "s2")
            assert "force=True" in str(caught.value)
        assert calls(tmp_path) == {"s0": 1, "s1": 1, "s2": 3}
        workflow = SqliteCheckpointer(tmp_path / "w.db").workflow("w")
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
        assert SqliteCheckpointer(tmp_path / "w.db").state("w") == {f"v{i}": i for i in range(1, 5)}

    @modes
    def test_what_a_later_node_changes_is_stored_as_it_was(
        self, tmp_path: Path, elsewhere: Elsewhere, runner: str, mode: str
    ) -> None:
        elsewhere(mutating, tmp_path, runner, {"durability": mode})
        assert SqliteCheckpointer(tmp_path / "w.db").state("w") == {"found": [1, 2], "longest": 99}

    @modes
    def test_a_killed_run_is_a_beginning_of_the_whole_and_goes_on_to_the_end(
        self, tmp_path: Path, elsewhere: Elsewhere, runner: str, mode: str
    ) -> None:
        elsewhere.dies(chained, tmp_path, runner, "s3", {"durability": mode})
        written = [s.node_name for s in SqliteCheckpointer(tmp_path / "w.db").steps("w")]
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
        steps = SqliteCheckpointer(tmp_path / "w.db").steps("w")
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
@pytest.mark.parametrize("mode", ["sync", "async", "exit"])
def test_in_no_mode_a_failed_write_is_swallowed(tmp_path: Path, runner: str, mode: str) -> None:
    on = opened(tmp_path, runner, durability=mode)
    made: Any = on.runner.checkpointer

    @node(output_name="text")
    def fill(x: int) -> str:
        writer = made._database._writer
        (pages,) = writer.execute("PRAGMA page_count").fetchone()
        writer.execute(f"PRAGMA max_page_count = {pages + 1}")
        return "y" * 100_000

    @node(output_name="size")
    def count(text: str) -> int:
        return len(text)

    with pytest.raises(StoreFullError, match="prune"):
        on.run(Graph([fill, count]), {"x": 1}, workflow_id="w")
    made.shut()
    assert [w.id for w in SqliteCheckpointer(tmp_path / "w.db").workflows()] == ["w"]


# -- answers --------------------------------------------------------------------------------------------


def reviewed(folder: Path, given: dict[str, str], **options: Any) -> Any:
    nested = options.pop("nested", False)
    graph = Graph([review().as_node()], name="outer") if nested else review()
    result = opened(folder, "async").run(graph, given, **{"workflow_id": "w", **options})
    return result.status.value, result.get("published")


def review() -> Graph:
    @node(output_name="draft")
    def write(topic: str) -> str:
        note("write")
        return f"on {topic}"

    @interrupt(output_name="verdict")
    def ask(draft: str) -> None:
        return None

    @node(output_name="published")
    def publish(draft: str, verdict: str) -> str:
        note(f"publish {verdict}")
        return f"{draft}: {verdict}"

    return Graph([write, ask, publish], name="review")


@pytest.mark.slow
@pytest.mark.parametrize("nested", [False, True], ids=["flat", "nested"])
class TestAnswers:
    """A question is answered once."""

    @pytest.fixture
    def key(self, nested: bool) -> str:
        return "review.verdict" if nested else "verdict"

    def test_another_answer_to_what_was_answered_is_refused(
        self, tmp_path: Path, elsewhere: Elsewhere, nested: bool, key: str
    ) -> None:
        assert elsewhere(reviewed, tmp_path, {"topic": "tea"}, nested=nested) == ("paused", None)
        found = elsewhere(reviewed, tmp_path, {key: "good"}, nested=nested)
        assert found == ("completed", "on tea: good")
        before = SqliteCheckpointer(tmp_path / "w.db").steps("w")
        with pytest.raises((CheckpointError, ValueError), match="verdict"):
            elsewhere(reviewed, tmp_path, {key: "bad"}, nested=nested)
        assert SqliteCheckpointer(tmp_path / "w.db").steps("w") == before
        assert calls(tmp_path) == {"write": 1, "publish good": 1}

    def test_the_same_answer_again_is_no_news(
        self, tmp_path: Path, elsewhere: Elsewhere, nested: bool, key: str
    ) -> None:
        elsewhere(reviewed, tmp_path, {"topic": "tea"}, nested=nested)
        for _ in range(2):
            found = elsewhere(reviewed, tmp_path, {key: "good"}, nested=nested)
            assert found == ("completed", "on tea: good")
        assert calls(tmp_path) == {"write": 1, "publish good": 1}

    def test_another_answer_given_to_a_fork_counts_or_is_refused(
        self, tmp_path: Path, elsewhere: Elsewhere, nested: bool, key: str
    ) -> None:
        elsewhere(reviewed, tmp_path, {"topic": "tea"}, nested=nested)
        asked = SqliteCheckpointer(tmp_path / "w.db").steps("w")[-1].superstep
        early = {"nested": nested, "fork_from": ("w", asked), "workflow_id": "early"}
        assert elsewhere(reviewed, tmp_path, {key: "bad"}, **early) == ("completed", "on tea: bad")
        elsewhere(reviewed, tmp_path, {key: "good"}, nested=nested)
        last = SqliteCheckpointer(tmp_path / "w.db").steps("w")[-1].superstep
        late = {"nested": nested, "fork_from": ("w", last), "workflow_id": "late"}
        try:
            found = elsewhere(reviewed, tmp_path, {key: "bad"}, **late)
        except CheckpointError:
            found = ("refused", None)
        assert found in [("completed", "on tea: bad"), ("refused", None)]

    @needs_signals
    def test_an_answer_outlives_the_process_that_took_it(
        self, tmp_path: Path, elsewhere: Elsewhere, nested: bool, key: str
    ) -> None:
        elsewhere(reviewed, tmp_path, {"topic": "tea"}, nested=nested)
        elsewhere.dies(reviewed_and_killed, tmp_path, {key: "good"}, nested)
        assert elsewhere(reviewed, tmp_path, {}, nested=nested) == ("completed", "on tea: good")
        assert calls(tmp_path) == {"write": 1, "publish good": 2}


def reviewed_and_killed(folder: Path, given: dict[str, str], nested: bool) -> None:
    graph = Graph([review().as_node()], name="outer") if nested else review()
    opened(folder, "async", "publish good").run(graph, given, workflow_id="w")


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
    store = SqliteCheckpointer(tmp_path / "w.db")
    assert store.state("w/middle/item-3/inner") == {"a": 31, "b": 32}
    assert store.state("w/middle/item-3")["c"] == 33
    assert store.steps("w")[1].child_workflow_id == "w/middle"
    assert {w.id for w in store.workflows(parent="w/middle")} == {f"w/middle/item-{i}" for i in range(6)}
    assert [w.id for w in store.workflows()] == ["w"]
