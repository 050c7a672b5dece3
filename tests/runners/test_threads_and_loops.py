"""Runners among threads and event loops: nothing is tied to where it was made."""

from __future__ import annotations

import asyncio
import contextvars
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from support.running import OnAsync

from hypergraph import END, AsyncRunner, Graph, RetryPolicy, SyncRunner, node, route


@node(output_name="b")
def double(a: int) -> int:
    return a * 2


@node(output_name="c")
def inc(b: int) -> int:
    return b + 1


@node(output_name="n")
def count(n: int) -> int:
    return n + 1


@route(targets=["count", END])
def gate(n: int) -> Any:
    return "count" if n < 50 else END


def test_a_sync_run_inside_a_running_loop_works() -> None:
    async def main() -> Any:
        return SyncRunner().run(Graph([double, inc]), {"a": 1})

    assert asyncio.run(main())["c"] == 3


def test_a_sync_run_inside_a_node_of_an_async_run_works() -> None:
    @node(output_name="y")
    def nests(x: int) -> int:
        return int(SyncRunner().run(Graph([double]), {"a": x})["b"])

    assert OnAsync().run(Graph([nests]), {"x": 4})["y"] == 8
    assert OnAsync(offload_sync=True).run(Graph([nests]), {"x": 4})["y"] == 8


def test_one_async_runner_serves_several_loops() -> None:
    @node(output_name="y", retry=RetryPolicy(initial_delay=0))
    async def waits(x: int) -> int:
        await asyncio.sleep(0)
        return x

    runner, graph = AsyncRunner(), Graph([waits])
    for i in range(3):
        assert asyncio.run(runner.run(graph, {"x": i}, max_concurrency=1))["y"] == i


def test_one_async_runner_serves_loops_in_several_threads() -> None:
    @node(output_name="y")
    async def waits(x: int) -> int:
        await asyncio.sleep(0)
        return x

    runner, graph = AsyncRunner(), Graph([waits])
    with ThreadPoolExecutor(4) as pool:
        calls = [pool.submit(lambda i=i: asyncio.run(runner.run(graph, {"x": i}))) for i in range(20)]
        assert [call.result()["y"] for call in calls] == list(range(20))


@pytest.mark.parametrize("attempt", range(5))
def test_threads_may_run_one_graph_for_the_first_time_at_once(attempt: int) -> None:
    together = threading.Barrier(8, timeout=300)
    graph = Graph([double, inc, Graph([count, gate], name="loop").as_node()])
    runner = SyncRunner()

    def call(i: int) -> Any:
        together.wait()
        return runner.run(graph, {"a": i, "n": i})

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(call, range(8)))
    assert [result["c"] for result in results] == [2 * i + 1 for i in range(8)]
    assert {result["n"] for result in results} == {50}
    assert [len(result.log.steps) for result in results] == [3] * 8


def test_both_runners_may_use_one_graph_by_turns() -> None:
    graph = Graph([double, inc])
    for _ in range(2):
        assert SyncRunner().run(graph, {"a": 1})["c"] == OnAsync().run(graph, {"a": 1})["c"] == 3


# -- context variables ---------------------------------------------------------------------------------

VARIABLE: contextvars.ContextVar[str] = contextvars.ContextVar("VARIABLE", default="nobody")


@node(output_name="who")
def who(x: int) -> str:
    return VARIABLE.get()


def test_context_variables_reach_nodes_everywhere() -> None:
    VARIABLE.set("me")
    assert SyncRunner().run(Graph([who]), {"x": 1})["who"] == "me"
    assert SyncRunner().start_run(Graph([who]), {"x": 1}).result()["who"] == "me"
    assert OnAsync().run(Graph([who]), {"x": 1})["who"] == "me"
    assert OnAsync(offload_sync=True).run(Graph([who]), {"x": 1})["who"] == "me"
    assert OnAsync().start_run(Graph([who]), {"x": 1})["who"] == "me"


# -- offloading ----------------------------------------------------------------------------------------


@node(output_name="thread")
def where(x: int) -> int:
    return threading.get_ident()


@node(output_name="thread", offload=True)
def elsewhere(x: int) -> int:
    return threading.get_ident()


def test_sync_functions_run_on_the_loops_thread_unless_offloaded() -> None:
    here = threading.get_ident()
    assert OnAsync().run(Graph([where]), {"x": 1})["thread"] == here
    assert OnAsync().run(Graph([elsewhere]), {"x": 1})["thread"] != here
    assert OnAsync(offload_sync=True).run(Graph([where]), {"x": 1})["thread"] != here


def test_without_a_loop_nothing_is_offloaded() -> None:
    assert SyncRunner().run(Graph([elsewhere]), {"x": 1})["thread"] == threading.get_ident()


def test_an_offloaded_function_does_not_block_the_loop() -> None:
    async def main() -> Any:
        released = threading.Event()

        @node(output_name="y", offload=True)
        def blocks(x: int) -> bool:
            return released.wait(30)

        @node(output_name="z")
        async def releases(x: int) -> int:
            released.set()
            return x

        return await AsyncRunner().run(Graph([blocks, releases]), {"x": 1})

    assert asyncio.run(main())["y"] is True


# -- the end of the program ----------------------------------------------------------------------------

PROGRAM = """
import threading
from hypergraph import Graph, SyncRunner, node

main_is_over = threading.Event()

@node(output_name="b")
def waits(a):
    threading.main_thread().join()
    return a

@node
def says(b):
    print("done", b)

SyncRunner().start_run(Graph([waits, says]), {"a": 1})
print("main is over")
"""


def test_a_program_that_ends_waits_for_its_background_runs() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=300
    )
    assert done.stdout.split("\n")[:2] == ["main is over", "done 1"]
    assert done.stderr == ""


def test_a_runner_made_outside_of_any_loop_works_inside_one() -> None:
    runner = AsyncRunner(max_iterations=5)
    assert asyncio.run(runner.run(Graph([double]), {"a": 1}))["b"] == 2


def test_what_needs_a_running_loop_says_so() -> None:
    for call in (AsyncRunner().start_run, AsyncRunner().iter):
        with pytest.raises(RuntimeError, match="running event loop"):
            call(Graph([double]), {"a": 1})
