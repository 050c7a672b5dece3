"""hypergraph itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import cache, partial
from typing import Any

from benchmarks.durable import siblings
from benchmarks.engine import chain_of
from benchmarks.growth import answer, bytes_of
from benchmarks.measure import WIDTH, message, on_loop, plus_one, plus_one_async, scratch
from hypergraph import END, AsyncRunner, FunctionNode, Graph, SyncRunner, node, route
from hypergraph.checkpointers import SqliteCheckpointer
from hypergraph.checkpointers.query import Query

Work = Callable[[], Any]


def chain(size: int) -> Work:
    graph, runner = chain_of(size, plus_one), SyncRunner()
    return lambda: runner.run(graph, {"v0": 0})[f"v{size}"]


def chain_result(size: int) -> Work:
    """Return the whole result, with its log: that is what stays in memory."""
    graph, runner = chain_of(size, plus_one), SyncRunner()
    return lambda: runner.run(graph, {"v0": 0})


def chain_async(size: int) -> Work:
    graph, runner = chain_of(size, plus_one_async), AsyncRunner()

    async def run() -> Any:
        return (await runner.run(graph, {"v0": 0}))[f"v{size}"]

    return on_loop(asyncio.new_event_loop(), run)


def counting(size: int) -> Graph:
    """Return a node that counts, and the gate that lets it go on."""

    @node(output_name="n")
    def count(n):
        return plus_one(n)

    @route(targets=["count", END])
    def enough(n):
        return "count" if n < size else END

    return Graph([count, enough], name="loop")


def loop(size: int) -> Work:
    graph, runner = counting(size), SyncRunner()
    return lambda: runner.run(graph, {"n": 0}, max_iterations=3 * size)["n"]


def map_items(size: int) -> Work:
    graph, runner, items = chain_of(3, plus_one), SyncRunner(), list(range(size))
    return lambda: runner.map(graph, {"v0": items}, map_over="v0")["v3"]


def nested(size: int) -> Work:
    inner, runner = chain_of(3, plus_one), SyncRunner()
    nodes = [
        inner.as_node(name=f"g{i}", lift=["v3"]).with_inputs(v0=f"w{i}").with_outputs(v3=f"w{i + 1}")
        for i in range(size)
    ]
    graph = Graph(nodes, name="outer")
    return lambda: runner.run(graph, {"w0": 0})[f"w{size}"]


def failure(_: int) -> Work:
    @node(output_name="y")
    def fail(x):
        raise ValueError("boom")

    graph, runner = Graph([fail], name="failing"), SyncRunner()

    def work() -> str:
        try:
            runner.run(graph, {"x": 1})
        except ValueError as error:
            return str(error)
        return ""

    return work


def parallel(_: int) -> Work:
    graph, runner = siblings(), SyncRunner()
    return lambda: sum(runner.run(graph, {"v0": 0}).values.values())


def parallel_async(_: int) -> Work:
    names = range(WIDTH)
    nodes = [FunctionNode(plus_one_async, f"n{i}", f"v{i + 1}", rename_inputs={"x": "v0"}) for i in names]
    graph, runner = Graph(nodes, name="siblings"), AsyncRunner()

    async def run() -> Any:
        return sum((await runner.run(graph, {"v0": 0})).values.values())

    return on_loop(asyncio.new_event_loop(), run)


def durable(mode: Any, size: int) -> Work:
    store = SqliteCheckpointer(scratch(f"{mode}.db"), durability=mode)
    graph, runner = chain_of(size, plus_one), SyncRunner(checkpointer=store)
    return lambda: runner.run(graph, {"v0": 0})[f"v{size}"]


def durable_parallel(_: int) -> Work:
    graph, runner = siblings(), SyncRunner(checkpointer=SqliteCheckpointer(scratch("siblings.db")))
    return lambda: sum(runner.run(graph, {"v0": 0}).values.values())


@cache
def history(size: int) -> SqliteCheckpointer:
    """Return a store with a loop that went round so often: two steps each time."""
    store = SqliteCheckpointer(scratch("history.db"))
    runner = SyncRunner(checkpointer=store)
    runner.run(counting(size), {"n": 0}, workflow_id="loop", max_iterations=3 * size)
    return store


def state_last(size: int) -> Work:
    store = history(size)
    return lambda: store.state("loop")["n"]


def state_middle(size: int) -> Work:
    store = history(size)
    return lambda: store.state("loop", superstep=size - 1)["n"]


@cache
def listed(size: int) -> SqliteCheckpointer:
    """Return a store with so many workflows."""
    store = SqliteCheckpointer(scratch("list.db"))
    graph, runner = chain_of(1, plus_one), SyncRunner(checkpointer=store)
    for _ in range(size):
        runner.run(graph, {"v0": 0})
    return store


def listing(size: int) -> Work:
    store = listed(size)
    return lambda: len(store.workflows(limit=50))


def listing_ids(size: int) -> Work:
    store = listed(size)
    return lambda: len(store.backend.ids(Query(limit=50)))


def chat() -> tuple[Work, Callable[[], int]]:
    store, turns = SqliteCheckpointer(scratch("chat.db")), iter(range(10**9))
    graph, runner = Graph([answer], name="chat"), SyncRunner(checkpointer=store)

    def turn() -> int:
        said = message(next(turns))
        return len(runner.run(graph, said=said, workflow_id="chat", new_turn=True)["messages"])

    return turn, lambda: bytes_of(store)


CASES: dict[str, Callable[[int], Work]] = {
    "chain": chain,
    "chain_async": chain_async,
    "loop": loop,
    "map": map_items,
    "nested": nested,
    "failure": failure,
    "parallel": parallel,
    "parallel_async": parallel_async,
    **{f"durable/{mode}": partial(durable, mode) for mode in ("sync", "async", "exit")},
    "durable_parallel": durable_parallel,
    "state/last": state_last,
    "state/middle": state_middle,
    "listing": listing,
    "listing/ids": listing_ids,
}
GROWING = {"chat": chat}
DASHES: dict[str, str] = {}
