"""What the engine costs: overhead per node, per superstep, per item, as multiples of a bare call."""

from __future__ import annotations

import asyncio
import sys
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchmarks.measure import Case, bare_loop, measure, on_loop, plus_one, plus_one_async
from hypergraph import END, AsyncRunner, FunctionNode, Graph, NodeContext, RouteNode, SyncRunner, node, route

LOOPS = 500


def plus_one_in_context(x, context: NodeContext):
    return x + 1


def chain_of(length: int, func: Callable[..., Any]) -> Graph:
    return Graph(
        [FunctionNode(func, f"n{i}", f"v{i + 1}", rename_inputs={"x": f"v{i}"}) for i in range(length)],
        name="chain",
    )


def gated(length: int) -> Graph:
    """A chain with a gate in the middle of it that lets everything pass."""
    middle = f"n{length // 2}"

    def pass_on(x):
        return middle

    gate = RouteNode(pass_on, targets=[middle, END], rename_inputs={"x": f"v{length // 2}"})
    return Graph([*chain_of(length, plus_one).iter_nodes(), gate], name="gated")


def looped(size: int) -> Graph:
    """Loops with gates, one after the other: `size` nodes in all."""
    nodes: list[Any] = []
    for k in range(size // 4):
        head, gate = f"head{k}", f"gate{k}"
        nodes += [
            FunctionNode(
                _begin,
                head,
                f"a{k}",
                rename_inputs={"before": f"c{k - 1}" if k else "seed", "total": f"b{k}"},
            ),
            FunctionNode(plus_one, f"add{k}", f"b{k}", rename_inputs={"x": f"a{k}"}),
            RouteNode(_again(head), targets=[head, END], name=gate, rename_inputs={"total": f"b{k}"}),
            FunctionNode(plus_one, f"after{k}", f"c{k}", rename_inputs={"x": f"b{k}"}),
        ]
    return Graph(nodes, name="loops")


def _begin(before, total=0):
    return total


def _again(head: str) -> Callable[..., Any]:
    def again(total):
        return head if total < 2 else END

    return again


@node(output_name="state")
def count(state):
    state["n"] += 1
    return state


@route(targets=["count", END])
def enough(state):
    return "count" if state["n"] < LOOPS else END


@node(output_name="y")
def fail(x):
    raise ValueError("boom")


@dataclass
class Bar:
    """A ratio and the most it may be."""

    name: str
    ratio: float
    limit: float
    nanoseconds: float | None = None

    @property
    def holds(self) -> bool:
        return self.ratio <= self.limit

    def __str__(self) -> str:
        measured = f"{self.nanoseconds:8.0f} ns" if self.nanoseconds is not None else " " * 11
        verdict = "ok" if self.holds else "OVER"
        return f"  {self.name:<52} {self.ratio:7.1f}   at most {self.limit:<6g} {measured}  {verdict}"


def _cases(loop: asyncio.AbstractEventLoop) -> dict[str, Case]:
    sync = SyncRunner()
    hundred, thousand, one, three = (chain_of(n, plus_one) for n in (100, 1000, 1, 3))
    contexts, awaits = chain_of(100, plus_one_in_context), chain_of(100, plus_one_async)
    looping, failing = Graph([count, enough], name="loop"), Graph([fail], name="failing")
    items, half = list(range(1000)), gated(100)

    async def bare_awaits() -> None:
        x = 0
        for _ in range(1000):
            x = await plus_one_async(x)

    async def async_chain() -> None:
        await AsyncRunner().run(awaits, {"v0": 0})

    return {
        "bare": bare_loop(),
        "hundred": Case("chain of 100", lambda: sync.run(hundred, {"v0": 0}), 100),
        "gated": Case("chain of 100 with a gate", lambda: sync.run(half, {"v0": 0}), 100),
        "thousand": Case("chain of 1,000", lambda: sync.run(thousand, {"v0": 0}), 1000),
        "one": Case("one node", lambda: sync.run(one, {"v0": 0})),
        "await": Case("bare await", on_loop(loop, bare_awaits), 1000),
        "async": Case("async chain of 100", on_loop(loop, async_chain), 100),
        "loop": Case(
            "loop with a gate",
            lambda: sync.run(looping, {"state": {"n": 0}}, max_iterations=5000),
            2 * LOOPS + 1,
        ),
        "map": Case("map of 1,000 over 3", lambda: sync.map(three, {"v0": items}, map_over="v0"), 1000),
        "fail": Case("one failing node", lambda: sync.run(failing, {"x": 1}, error_handling="continue")),
        "context": Case("chain of 100 with contexts", lambda: sync.run(contexts, {"v0": 0}), 100),
    }


def engine_bars() -> list[Bar]:
    """Measure everything and return the bars."""
    loop = asyncio.new_event_loop()
    cases = _cases(loop)
    measure(list(cases.values()), slices=5)  # what the case before has left in the caches matters little
    loop.close()
    ns = {name: case.nanoseconds for name, case in cases.items()}
    call = ns["bare"]
    above = {name: ns[name] - call for name in ("hundred", "thousand")}
    return [
        Bar(
            "chain of 100 sync nodes, per node above the bare loop",
            above["hundred"] / call,
            16,
            ns["hundred"],
        ),
        Bar("chain of 1,000, per node, against the chain of 100", above["thousand"] / above["hundred"], 1.15),
        Bar("chain of 100 with one gate, against one without", ns["gated"] / ns["hundred"], 1.2),
        Bar("first run of 1,000 nodes in loops, in builds", *_first_run()),
        Bar("run of one node", ns["one"] / call, 100, ns["one"]),
        Bar(
            "async chain of 100, per node, in bare awaits",
            (ns["async"] - ns["await"]) / ns["await"],
            10,
            ns["async"],
        ),
        Bar("loop with a gate over a dict, per superstep", ns["loop"] / call, 45, ns["loop"]),
        Bar("map of 1,000 items over 3 nodes, per item", ns["map"] / call, 150, ns["map"]),
        Bar('one failing node with evidence, "continue"', ns["fail"] / call, 250, ns["fail"]),
        Bar(
            "NodeContext injection", (ns["context"] - ns["hundred"]) / call, 4, ns["context"] - ns["hundred"]
        ),
    ]


def _first_run() -> tuple[float, float]:
    """Return how long the first run of a large graph takes, in times of building it, and the most it may."""
    began = time.process_time()
    graph = looped(1000)
    built = time.process_time()
    SyncRunner().run(graph, {"seed": 0})
    return (time.process_time() - built) / (built - began), 4.0


def memory_bars(node_runs: int = 200_000) -> list[Bar]:
    """Measure what a node run leaves behind in a loop: its raw record and nothing else."""

    def grown(loops: int) -> int:
        @node(output_name="n")
        def up(n):
            return n + 1

        @route(targets=["up", END])
        def done(n):
            return "up" if n < loops else END

        graph, runner = Graph([up, done], name="memory"), SyncRunner()
        tracemalloc.start()
        result = runner.run(graph, {"n": 0}, max_iterations=4 * loops)
        size = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        assert result["n"] == loops
        return size

    small, large = grown(1000), grown(node_runs // 2)
    return [Bar("bytes per node run in a loop", (large - small) / (node_runs - 2000), 128)]


if __name__ == "__main__":
    for bar in [*engine_bars(), *memory_bars()]:
        print(
            f"{'ok ' if bar.holds else 'NOT'} {bar.name}: {bar.ratio:.1f} (at most {bar.limit:g})",
            file=sys.stdout,
        )
