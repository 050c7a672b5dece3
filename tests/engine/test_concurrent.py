"""What runs at the same time, and the limit on it. Nodes shake hands; nobody sleeps."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from support.running import OnAsync

from hypergraph import (
    END,
    AsyncRunner,
    FunctionNode,
    Graph,
    NodeContext,
    NodeError,
    RetryPolicy,
    RunStatus,
    ifelse,
    node,
    pause_for,
)
from hypergraph.testing import FakeClock


class Meeting:
    """A place where so many nodes must be at once before any of them goes on."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.present = 0
        self.complete = asyncio.Event()

    async def join(self) -> None:
        self.present += 1
        if self.present == self.size:
            self.complete.set()
        async with asyncio.timeout(30):
            await self.complete.wait()


class Counter:
    """Count how many are inside, and how many there were at most."""

    def __init__(self) -> None:
        self.inside = self.most = self.total = 0
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        with self._lock:
            self.inside += 1
            self.total += 1
            self.most = max(self.most, self.inside)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self.inside -= 1


def counted(counter: Counter, name: str, given: str = "x", output: str | None = None) -> FunctionNode:
    """Return an async node that lets everybody else run while it is inside."""

    async def work(x: int) -> int:
        with counter:
            for _ in range(5):
                await asyncio.sleep(0)
        return x

    return FunctionNode(work, name, output or f"{name}_out", rename_inputs={"x": given})


def main(call: Callable[[], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        return await call()

    return asyncio.run(run())


# -- overlap -------------------------------------------------------------------------------------------


def test_siblings_run_at_the_same_time() -> None:
    async def call() -> Any:
        meeting = Meeting(3)

        async def meet(x: int) -> int:
            await meeting.join()
            return x

        nodes = [FunctionNode(meet, f"n{i}", f"y{i}") for i in range(3)]
        return await AsyncRunner().run(Graph(nodes), {"x": 1})

    assert main(call).completed


def test_nodes_of_nested_graphs_run_at_the_same_time_as_those_outside() -> None:
    async def call() -> Any:
        meeting = Meeting(2)

        async def meet(x: int) -> int:
            await meeting.join()
            return x

        inner = Graph([FunctionNode(meet, "a", "ya")], name="inner")
        return await AsyncRunner().run(Graph([inner.as_node(), FunctionNode(meet, "b", "yb")]), {"x": 1})

    assert main(call).completed


def test_items_of_a_map_run_at_the_same_time() -> None:
    async def call() -> Any:
        meeting = Meeting(20)

        @node(output_name="y")
        async def meet(x: int) -> int:
            await meeting.join()
            return x

        return await AsyncRunner().map(Graph([meet]), {"x": list(range(20))}, map_over="x")

    assert main(call)["y"] == list(range(20))


def test_items_of_a_nested_map_run_at_the_same_time() -> None:
    async def call() -> Any:
        meeting = Meeting(5)

        @node(output_name="y")
        async def meet(x: int) -> int:
            await meeting.join()
            return x

        each = Graph([meet], name="each").as_node().map_over("x")
        return await AsyncRunner().run(Graph([each]), {"x": list(range(5))})

    assert main(call)["y"] == list(range(5))


def test_offloaded_functions_run_at_the_same_time() -> None:
    meeting = threading.Barrier(2, timeout=300)

    def meet(x: int) -> str:
        meeting.wait()
        return threading.current_thread().name

    nodes = [FunctionNode(meet, f"n{i}", f"y{i}", offload=True) for i in range(2)]
    result = OnAsync().run(Graph(nodes), {"x": 1})
    assert threading.current_thread().name not in result.values.values()
    everywhere = [FunctionNode(meet, f"n{i}", f"y{i}") for i in range(2)]
    assert OnAsync(offload_sync=True).run(Graph(everywhere), {"x": 1}).completed


def test_two_runs_of_one_graph_at_the_same_time_do_not_mix() -> None:
    async def call() -> Any:
        meeting = Meeting(2)

        @node(output_name="y")
        async def meet(x: int) -> int:
            await meeting.join()
            return x

        @node(output_name="z")
        def after(x: int, y: int) -> tuple[int, int]:
            return x, y

        graph, runner = Graph([meet, after]), AsyncRunner()
        return await asyncio.gather(runner.run(graph, {"x": 1}), runner.run(graph, {"x": 2}))

    one, two = main(call)
    assert (one["z"], two["z"]) == ((1, 1), (2, 2))


# -- the limit -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_the_limit_is_kept_and_used_up_by_siblings(limit: int) -> None:
    counter = Counter()
    nodes = [counted(counter, f"n{i}") for i in range(8)]
    OnAsync().run(Graph(nodes), {"x": 1}, max_concurrency=limit)
    assert (counter.most, counter.total) == (limit, 8)


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_the_limit_is_shared_by_nested_graphs(limit: int) -> None:
    counter = Counter()
    inner = Graph([counted(counter, f"i{i}") for i in range(3)], name="inner")
    middle = Graph([inner.as_node(), counted(counter, "m")], name="middle")
    OnAsync().run(Graph([middle.as_node(), counted(counter, "o")]), {"x": 1}, max_concurrency=limit)
    assert (counter.most, counter.total) == (limit, 5)


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_the_limit_is_shared_by_all_items_of_a_map_and_of_maps_inside(limit: int) -> None:
    counter = Counter()
    each = Graph([counted(counter, "a"), counted(counter, "b")], name="each").as_node().map_over("x")
    result = OnAsync().map(
        Graph([each]), {"x": [[1, 2], [3, 4], [5, 6]]}, map_over="x", max_concurrency=limit
    )
    assert result["a_out"] == [[1, 2], [3, 4], [5, 6]]
    assert (counter.most, counter.total) == (limit, 12)


def test_the_limit_holds_for_worker_threads() -> None:
    counter = Counter()

    def work(x: int) -> int:
        with counter:
            return x

    nodes = [FunctionNode(work, f"n{i}", f"y{i}") for i in range(20)]
    OnAsync(offload_sync=True).run(Graph(nodes), {"x": 1}, max_concurrency=2)
    assert counter.most <= 2
    assert counter.total == 20


def test_deep_nesting_does_not_deadlock_under_a_limit_of_one() -> None:
    counter = Counter()
    graph = Graph([counted(counter, "leaf", output="x0")], name="g0")
    for depth in range(1, 6):
        beside = counted(counter, f"beside{depth}")
        graph = Graph([graph.as_node(), beside], name=f"g{depth}")
    result = OnAsync().run(graph, {"x": 1}, max_concurrency=1)
    assert result.completed
    assert (counter.most, counter.total) == (1, 6)


def test_waiting_for_the_limit_is_no_part_of_a_nodes_duration() -> None:
    ticks = 0

    async def slow(x: int) -> int:
        nonlocal ticks
        for _ in range(2000):
            ticks += 1
            await asyncio.sleep(0)
        return x

    async def quick(x: int) -> int:
        return x

    graph = Graph([FunctionNode(slow, "slow", "a"), FunctionNode(quick, "quick", "b")])
    result = OnAsync().run(graph, {"x": 1}, max_concurrency=1)
    assert ticks == 2000
    durations = {record.node_name: record.duration_ms for record in result.log.steps}
    assert durations["quick"] < durations["slow"] / 2


@pytest.mark.parametrize("limit", [0, -1, 1.5, True, "2"])
def test_a_limit_is_a_positive_int(limit: Any) -> None:
    with pytest.raises(ValueError, match="max_concurrency"):
        OnAsync().run(Graph([counted(Counter(), "n")]), {"x": 1}, max_concurrency=limit)


# -- failures at the same time -------------------------------------------------------------------------


def test_what_already_runs_when_a_sibling_fails_is_finished_and_kept() -> None:
    async def call() -> Any:
        failed = asyncio.Event()

        @node(output_name="a")
        async def fails(x: int) -> int:
            failed.set()
            raise ValueError("boom")

        @node(output_name="b")
        async def slow(x: int) -> int:
            await failed.wait()
            for _ in range(10):
                await asyncio.sleep(0)
            return x

        @node(output_name="c")
        async def after(b: int) -> int:
            raise AssertionError("nothing new starts after a failure")

        return await AsyncRunner().run(Graph([fails, slow, after]), {"x": 1}, error_handling="continue")

    result = main(call)
    assert result.values == {"b": 1}
    assert result.failure.values == {"x": 1, "b": 1}


def test_a_later_failure_of_a_node_that_comes_first_is_the_one_reported() -> None:
    async def call() -> Any:
        failed = asyncio.Event()

        @node(output_name="a")
        async def first(x: int) -> int:
            await failed.wait()
            raise ValueError("first")

        @node(output_name="b")
        async def second(x: int) -> int:
            failed.set()
            raise KeyError("second")

        return await AsyncRunner().run(Graph([first, second]), {"x": 1}, error_handling="continue")

    assert str(main(call).error) == "first"


def test_a_map_without_limit_lets_all_items_finish_then_raises_the_first_in_input_order() -> None:
    finished: list[int] = []

    async def call() -> Any:
        meeting = Meeting(3)

        @node(output_name="y")
        async def item(x: int) -> int:
            await meeting.join()
            if x == 1:
                await asyncio.sleep(0)
            if x < 2:
                raise ValueError(f"item {x}")
            finished.append(x)
            return x

        return await AsyncRunner().map(Graph([item]), {"x": [0, 1, 2]}, map_over="x")

    with pytest.raises(ValueError, match="item 0") as caught:
        main(call)
    assert finished == [2]
    evidence = NodeError.of(caught.value)
    assert evidence is not None
    assert evidence.item_index == 0
    assert [each.status for each in evidence.map_result] == [
        RunStatus.FAILED,
        RunStatus.FAILED,
        RunStatus.COMPLETED,
    ]


def test_a_map_with_a_limit_hands_out_nothing_after_a_failure_and_lets_running_items_finish() -> None:
    started: list[int] = []
    finished: list[int] = []

    async def call() -> Any:
        both, failed = Meeting(2), asyncio.Event()

        @node(output_name="y")
        async def item(x: int) -> int:
            started.append(x)
            if x < 2:
                await both.join()
            if x == 0:
                failed.set()
                raise ValueError("item 0")
            await failed.wait()
            for _ in range(10):
                await asyncio.sleep(0)
            finished.append(x)
            return x

        return await AsyncRunner().map(Graph([item]), {"x": list(range(10))}, map_over="x", max_concurrency=2)

    with pytest.raises(ValueError, match="item 0") as caught:
        main(call)
    assert started == [0, 1]
    assert finished == [1]
    evidence = NodeError.of(caught.value)
    assert evidence is not None
    assert len(evidence.map_result) == 2


def test_too_many_items_need_a_limit() -> None:
    @node(output_name="y")
    async def item(x: int) -> int:
        return x

    with pytest.raises(ValueError, match="Too many map tasks"):
        OnAsync().map(Graph([item]), {"x": [0] * 10_001}, map_over="x")
    mapped = Graph([Graph([item], name="items").as_node().map_over("x")])
    with pytest.raises(ValueError, match="Too many map tasks"):
        OnAsync().run(mapped, {"x": [0] * 10_001})
    assert len(OnAsync().map(Graph([item]), {"x": [0] * 10_001}, map_over="x", max_concurrency=50)) == 10_001


def test_no_task_is_left_behind_by_a_failing_run() -> None:
    async def call() -> Any:
        counter = Counter()

        @node(output_name="boom")
        async def fails(x: int) -> int:
            raise ValueError("boom")

        graph = Graph([fails, *(counted(counter, f"n{i}") for i in range(5))])
        with pytest.raises(ValueError, match="boom"):
            await AsyncRunner().run(graph, {"x": 1})
        assert counter.inside == 0
        return asyncio.all_tasks() == {asyncio.current_task()}

    assert main(call)


def test_a_thread_that_outlives_its_program_still_makes_blocking_calls() -> None:
    """The interpreter starts no threads then, and waits for those that run."""
    program = """
import asyncio, threading
from concurrent.futures import thread
from hypergraph.engine.async_kernel import AsyncKernel

def late():
    while not thread._shutdown:
        pass
    print(asyncio.run(AsyncKernel().offload(lambda: "made")))

threading.Thread(target=late).start()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("made\n", "")


@node(output_name="order")
def take(x: int) -> int:
    return x


def test_timers_of_plain_functions_wait_at_the_same_time() -> None:
    waiting = Graph(
        [take, *(pause_for(f"timer_{n}", 10, wait_for="order") for n in range(3))], name="waiting"
    )
    each = Graph([waiting.as_node(name="each").map_over("x")])
    with FakeClock(skip=True) as clock:
        for call in (
            lambda runner: runner.run(waiting, x=1),
            lambda runner: runner.map(waiting, x=[1, 2, 3], map_over="x"),
            lambda runner: runner.run(each, x=[1, 2, 3]),
        ):
            start = clock.time
            asyncio.run(call(AsyncRunner()))
            assert (clock.time - start).total_seconds() == 10


def test_a_plain_function_runs_while_a_timer_waits() -> None:
    moments = []

    @node(output_name="seen")
    def look(x: int) -> None:
        moments.append(clock.time)

    with FakeClock(skip=True) as clock:
        start = clock.time
        asyncio.run(AsyncRunner().run(Graph([pause_for("later", 10), look]), x=1))
        assert moments == [start]


def test_plain_functions_wait_for_their_next_attempts_at_the_same_time() -> None:
    policy = RetryPolicy(max_attempts=2, initial_delay=10, jitter=0)

    @node(output_name="page", retry=policy)
    def fetch(x: int, context: NodeContext) -> int:
        if context.attempt == 1:
            raise ConnectionError("busy")
        return x

    @ifelse(when_true="fetch", when_false=END, retry=policy)
    def choose(x: int, context: NodeContext) -> bool:
        if context.attempt == 1:
            raise ConnectionError("busy")
        return True

    with FakeClock(skip=True) as clock:
        for graph, seconds in ((Graph([fetch]), 10), (Graph([choose, fetch]), 20)):
            start = clock.time
            results = asyncio.run(AsyncRunner().map(graph, x=[1, 2, 3], map_over="x"))
            assert results["page"] == [1, 2, 3]
            assert (clock.time - start).total_seconds() == seconds
