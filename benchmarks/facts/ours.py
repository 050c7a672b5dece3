"""hypergraph, for the comparison."""

from __future__ import annotations

import asyncio
from typing import Any

from benchmarks.facts import FAILURE, FORK, ITEMS, LOOPS, NAMES, PAUSE, SPELLING, TYPES, Facts, Shaky, raises
from hypergraph import END, AsyncRunner, Graph, SyncRunner, interrupt, node, route
from hypergraph.checkpointers import MemoryCheckpointer


@node(output_name="b")
def add(a: int) -> int:
    return a + 1


@node(output_name="c")
def double(b: int) -> int:
    return b * 2


def chain(*works: Any) -> Graph:
    """Return a graph of two steps, each of which does some work first."""
    first, second = works

    @node(output_name="b")
    def begin(a: int) -> int:
        return first("begin") and a + 1

    @node(output_name="c")
    def end(b: int) -> int:
        return second("end") and b * 2

    return Graph([begin, end], name="chain")


def joins_names() -> bool:
    return SyncRunner().run(Graph([double, add]), a=1)["c"] == 4


def loops() -> bool:
    @node(output_name="n")
    def grow(n: int) -> int:
        return n + 1

    @route(targets=["grow", END])
    def again(n: int) -> Any:
        return END if n == 3 else "grow"

    return SyncRunner().run(Graph([grow, again]), n=0)["n"] == 3


def finds_misspelled_names() -> bool:
    work = Shaky(None)
    return raises(lambda: SyncRunner().run(chain(work, work), aa=1)) and not work.calls


def finds_wrong_types() -> bool:
    @node(output_name="c")
    def shout(b: str) -> str:
        return b.upper()

    return raises(lambda: Graph([add, shout], strict_types=True))


def goes_on_after_a_failure() -> bool:
    work = Shaky("end")
    runner, graph = SyncRunner(checkpointer=MemoryCheckpointer()), chain(work, work)
    failed = raises(lambda: runner.run(graph, a=1, workflow_id="w"))
    work.mend()
    return failed and runner.run(graph, workflow_id="w")["c"] == 4 and work.calls == ["end"]


def repeats_failed_items_only() -> bool:
    work = Shaky(2)

    @node(output_name="y")
    def item(x: int) -> int:
        return int(work(x))

    runner, options = SyncRunner(checkpointer=MemoryCheckpointer()), {"map_over": "x", "workflow_id": "w"}
    failed = raises(lambda: runner.map(Graph([item]), x=[1, 2, 3], **options))
    work.mend()
    again = runner.map(Graph([item]), x=[1, 2, 3], **options)
    return failed and again["y"] == [1, 2, 3] and 1 not in work.calls


def pauses() -> bool:
    @interrupt(output_name="a")
    def ask(question: str) -> int | None:
        return None

    runner, graph = AsyncRunner(checkpointer=MemoryCheckpointer()), Graph([ask, add])
    paused = asyncio.run(runner.run(graph, question="?", workflow_id="w")).paused
    return paused and asyncio.run(runner.run(graph, a=1, workflow_id="w"))["b"] == 2


def forks() -> bool:
    work = Shaky(None)
    runner, graph = SyncRunner(checkpointer=MemoryCheckpointer()), chain(work, work)
    runner.run(graph, a=1, workflow_id="w")
    work.mend()
    forked = runner.run(graph, {"b": 5}, fork_from=("w", 0), workflow_id="v")
    return forked["c"] == 10 and work.calls == ["end"]


FACTS: Facts = {
    NAMES: joins_names,
    LOOPS: loops,
    SPELLING: finds_misspelled_names,
    TYPES: finds_wrong_types,
    FAILURE: goes_on_after_a_failure,
    ITEMS: repeats_failed_items_only,
    PAUSE: pauses,
    FORK: forks,
}
