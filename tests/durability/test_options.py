"""Options of stored runs, each tried with processes that die, wait for one another, or come later."""

from __future__ import annotations

import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support import crashing
from support.durable import Bodies, bodies, durable, fail_once, pipeline, read, rows, store
from support.processes import Elsewhere, elsewhere
from support.running import RUNNERS, On

from durability.test_ambiguous_steps import chained
from durability.test_bad_input import untouched
from durability.test_crashes import calls, check_finished
from hypergraph import Graph, node
from hypergraph.checkpointers import Checkpointer, WorkflowStatus
from hypergraph.exceptions import CheckpointError

__all__ = ["bodies", "durable", "elsewhere", "store"]  # fixtures

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
        assert store.backend.read_workflow("w") is None
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
            assert owner.communicate("go on\n", timeout=300)[0] == "result 2\n"
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
        assert owner.communicate("go on\n", timeout=300)[0] == "lost\n"
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


def test_tags_of_a_call_that_a_workflow_does_not_get_are_named(durable: On, store: Checkpointer) -> None:
    graph = Graph([node(output_name="b")(lambda a: a).with_name("take")], name="taking")
    for a in (1, 2):
        durable.run(graph, a=a, workflow_id="w", tags={"user": "ann"})
    with pytest.warns(
        UserWarning, match=r"{'user': 'bob'} were not set.* store\.tag\('w', {'user': 'bob'}\)"
    ):
        durable.run(graph, a=3, workflow_id="w", tags={"user": "bob"})
    assert store.workflow("w").tags == {"user": "ann"}
    durable.run(graph, a=4, fork_from=("w", 0), workflow_id="v", tags={"user": "bob"})
    assert store.workflow("v").tags == {"user": "bob"}
