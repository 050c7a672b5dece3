"""pydantic-graph: steps joined by a GraphBuilder; everything awaits, so a sync case is a call of run_sync."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from pydantic_graph import GraphBuilder, StepContext, reduce_list_append

from benchmarks.measure import WIDTH, on_loop, plus_one, plus_one_async

Work = Callable[[], Any]
Context = StepContext[None, None, Any]


async def step(context: Context) -> int:
    return plus_one(context.inputs)


async def step_async(context: Context) -> int:
    return await plus_one_async(context.inputs)


def chain_of(size: int, function: Any) -> Any:
    builder = GraphBuilder(input_type=int, output_type=int, auto_instrument=False)
    steps = [builder.step(function, node_id=f"n{i}") for i in range(size)]
    ends = zip([builder.start_node, *steps], [*steps, builder.end_node], strict=True)
    builder.add(*(builder.edge_from(source).to(target) for source, target in ends))
    return builder.build()


def sync(graph: Any, inputs: Any = 0) -> Work:
    asyncio.set_event_loop(asyncio.new_event_loop())  # the one that run_sync takes
    return lambda: graph.run_sync(inputs=inputs, infer_name=False)


def chain(size: int) -> Work:
    return sync(chain_of(size, step))


def chain_async(size: int) -> Work:
    graph = chain_of(size, step_async)
    return on_loop(asyncio.new_event_loop(), lambda: graph.run(inputs=0, infer_name=False))


def loop(size: int) -> Work:
    builder = GraphBuilder(input_type=int, output_type=int, auto_instrument=False)
    count = builder.step(step, node_id="count")
    gate = (
        builder.decision()
        .branch(builder.match(int, matches=lambda n: n < size).to(count))
        .branch(builder.match(int).to(builder.end_node))
    )
    builder.add(
        builder.edge_from(builder.start_node).to(count),
        builder.edge_from(count).to(gate),
    )
    return sync(builder.build())


def map_items(size: int) -> Work:
    builder = GraphBuilder(input_type=list, output_type=list, auto_instrument=False)
    steps = [builder.step(step, node_id=f"n{i}") for i in range(3)]
    found = builder.join(reduce_list_append, initial_factory=list)
    builder.add(
        builder.edge_from(builder.start_node).map().to(steps[0]),
        builder.edge_from(steps[0]).to(steps[1]),
        builder.edge_from(steps[1]).to(steps[2]),
        builder.edge_from(steps[2]).to(found),
        builder.edge_from(found).to(builder.end_node),
    )
    work = sync(builder.build(), list(range(size)))
    return lambda: sorted(work())  # they come in the order in which they end


def nested(size: int) -> Work:
    inner = chain_of(3, step)

    async def inside(context: Context) -> int:
        found: int = await inner.run(inputs=context.inputs, infer_name=False)
        return found

    return sync(chain_of(size, inside))


def failure(_: int) -> Work:
    async def fail(context: Context) -> int:
        raise ValueError("boom")

    run = sync(chain_of(1, fail))

    def work() -> str:
        try:
            run()
        except ValueError as error:
            return str(error)
        return ""

    return work


def parallel_async(_: int) -> Work:
    builder = GraphBuilder(input_type=int, output_type=list, auto_instrument=False)
    steps = [builder.step(step_async, node_id=f"n{i}") for i in range(WIDTH)]
    found = builder.join(reduce_list_append, initial_factory=list)
    builder.add(
        builder.edge_from(builder.start_node).to(*steps),
        *(builder.edge_from(one).to(found) for one in steps),
        builder.edge_from(found).to(builder.end_node),
    )
    graph = builder.build()

    async def run() -> int:
        return sum(await graph.run(inputs=0, infer_name=False))

    return on_loop(asyncio.new_event_loop(), run)


CASES: dict[str, Callable[[int], Work]] = {
    "chain": chain,
    "chain_async": chain_async,
    "loop": loop,
    "map": map_items,
    "nested": nested,
    "failure": failure,
    "parallel_async": parallel_async,
}
GROWING: dict[str, Any] = {}
_NO_STORE = "has no store of its own in this version"
DASHES = {
    "parallel": "everything awaits: see the awaited siblings",
    "durable": _NO_STORE,
    "durable_parallel": _NO_STORE,
    "state": _NO_STORE,
    "listing": _NO_STORE,
    "chat": _NO_STORE,
}
