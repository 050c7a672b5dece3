"""The four kinds of functions, and the chunks that generators report while they are at work."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from support.listening import AwaitedRecorder, Recorder, assert_closed
from support.running import On, OnAsync, on

from hypergraph import (
    AsyncEventProcessor,
    AsyncRunner,
    FunctionNode,
    Graph,
    NodeContext,
    NodeEndEvent,
    NodeStartEvent,
    RunEndEvent,
    StreamingChunkEvent,
    node,
)
from hypergraph.exceptions import StepUsageError

__all__ = ["on"]


def test_a_chunk_of_a_node_that_has_ended_is_refused_and_not_heard(on: On) -> None:
    kept: list[NodeContext] = []

    @node(output_name="text")
    def first(x: int, context: NodeContext) -> int:
        kept.append(context)
        context.stream("in time")
        return x

    @node(output_name="end")
    def second(text: int) -> int:
        with pytest.raises(StepUsageError, match="'first' has ended"):
            kept[0].stream("late")
        return text

    heard = Recorder()
    assert on.run(Graph([first, second]), x=1, event_processors=[heard])["end"] == 1
    assert [event.chunk for event in heard.of(StreamingChunkEvent)] == ["in time"]


def plain(x: int) -> list[int]:
    return list(range(x))


async def awaited(x: int) -> list[int]:
    await asyncio.sleep(0)
    return list(range(x))


def generated(x: int) -> Iterator[int]:
    yield from range(x)


async def generated_later(x: int) -> AsyncIterator[int]:
    for i in range(x):
        await asyncio.sleep(0)
        yield i


@pytest.mark.parametrize("function", [plain, generated])
def test_sync_kinds_give_their_result_on_both_runners(on: On, function: Any) -> None:
    assert on.run(Graph([FunctionNode(function, output_name="y")]), {"x": 3})["y"] == [0, 1, 2]


@pytest.mark.parametrize("function", [plain, awaited, generated, generated_later])
@pytest.mark.parametrize("options", [{}, {"timeout": 60}], ids=str)
def test_all_four_kinds_give_their_result_on_the_async_runner(function: Any, options: dict[str, Any]) -> None:
    graph = Graph([FunctionNode(function, output_name="y", **options)])
    assert OnAsync().run(graph, {"x": 3})["y"] == [0, 1, 2]


def test_an_empty_generator_gives_an_empty_list(on: On) -> None:
    assert on.run(Graph([FunctionNode(generated, output_name="y")]), {"x": 0})["y"] == []


def test_items_of_a_generator_are_matched_with_several_outputs(on: On) -> None:
    graph = Graph([FunctionNode(generated, output_name=("p", "q"))])
    assert on.run(graph, {"x": 2}).values == {"p": 0, "q": 1}
    with pytest.raises(ValueError, match="generated"):
        on.run(graph, {"x": 3})


def test_every_item_is_reported_between_start_and_end_of_its_node(on: On) -> None:
    heard = Recorder()
    on.run(Graph([FunctionNode(generated, output_name="y")]), {"x": 3}, event_processors=[heard])
    kinds = [type(event) for event in heard.events if not type(event).__name__.startswith(("Run", "Super"))]
    assert kinds == [NodeStartEvent, *[StreamingChunkEvent] * 3, NodeEndEvent]
    chunks = heard.of(StreamingChunkEvent)
    assert [(event.chunk, event.chunk_index) for event in chunks] == [(0, 0), (1, 1), (2, 2)]
    assert {event.parent_span_id for event in chunks} == {heard.of(NodeStartEvent)[0].span_id}


def test_chunks_are_counted_per_node_and_visit(on: On) -> None:
    heard = Recorder()
    one = FunctionNode(generated, "one", "y")
    two = FunctionNode(generated, "two", "z")
    on.run(Graph([one, two]), {"x": 2}, event_processors=[heard])
    found = [(event.node_name, event.chunk_index) for event in heard.of(StreamingChunkEvent)]
    assert sorted(found) == [("one", 0), ("one", 1), ("two", 0), ("two", 1)]


def test_chunks_arrive_while_the_node_is_still_at_work() -> None:
    async def main() -> Any:
        arrived = asyncio.Event()

        class Listener(AsyncEventProcessor):
            async def on_event_async(self, event: Any) -> None:
                if isinstance(event, StreamingChunkEvent):
                    arrived.set()

        @node(output_name="y")
        async def streams(x: int, ctx: NodeContext) -> int:
            ctx.stream("early")
            async with asyncio.timeout(30):
                await arrived.wait()
            return x

        return await AsyncRunner().run(Graph([streams]), {"x": 1}, event_processors=[Listener()])

    assert asyncio.run(main())["y"] == 1


def test_chunks_from_a_worker_thread_arrive_in_order_and_none_is_lost() -> None:
    heard = AwaitedRecorder()
    threads: set[int] = set()

    def streams(x: int) -> Iterator[int]:
        for i in range(x):
            threads.add(threading.get_ident())
            yield i

    result = OnAsync().run(
        Graph([FunctionNode(streams, output_name="y", offload=True)]), {"x": 50}, event_processors=[heard]
    )
    assert result["y"] == list(range(50))
    assert threading.get_ident() not in threads
    assert [event.chunk for event in heard.of(StreamingChunkEvent)] == list(range(50))
    assert isinstance(heard.events[-1], RunEndEvent)
    assert_closed(heard.events)


def test_nodes_streaming_from_several_threads_keep_their_chunks_apart() -> None:
    heard = Recorder()
    together = threading.Barrier(2, timeout=300)

    def streams(x: int) -> Iterator[int]:
        together.wait()
        yield from range(x)

    nodes = [FunctionNode(streams, f"n{i}", f"y{i}", offload=True) for i in range(2)]
    OnAsync().run(Graph(nodes), {"x": 200}, event_processors=[heard])
    for name in ("n0", "n1"):
        chunks = [event for event in heard.of(StreamingChunkEvent) if event.node_name == name]
        assert [event.chunk_index for event in chunks] == list(range(200))


def test_a_processor_that_is_slow_loses_no_chunk() -> None:
    class Slow(AsyncEventProcessor):
        def __init__(self) -> None:
            self.events: list[Any] = []
            self.is_shut_down = False

        async def on_event_async(self, event: Any) -> None:
            for _ in range(3):
                await asyncio.sleep(0)
            assert not self.is_shut_down
            self.events.append(event)

        async def shutdown_async(self) -> None:
            self.is_shut_down = True

    slow = Slow()

    @node(output_name="y")
    async def streams(x: int) -> Any:
        for i in range(x):
            yield i
            await asyncio.sleep(0)

    OnAsync().run(Graph([streams]), {"x": 10}, event_processors=[slow])
    chunks = [event.chunk for event in slow.events if isinstance(event, StreamingChunkEvent)]
    assert chunks == list(range(10))
    assert isinstance(slow.events[-1], RunEndEvent)
    assert isinstance(slow.events[-2], NodeEndEvent)
    assert slow.is_shut_down


def test_chunks_of_a_generator_that_fails_were_reported(on: On) -> None:
    heard = Recorder()

    @node(output_name="y")
    def midway(x: int) -> Iterator[int]:
        yield 1
        raise ValueError("midway")

    with pytest.raises(ValueError, match="midway"):
        on.run(Graph([midway]), {"x": 1}, event_processors=[heard])
    assert [event.chunk for event in heard.of(StreamingChunkEvent)] == [1]
    assert_closed(heard.events)
