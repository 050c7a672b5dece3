"""The events of real runs: their order, what they say, and that every ending closes them."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest
from support.listening import AwaitedRecorder, Recorder, assert_closed, breath
from support.running import map_, map_async, map_sync, run, run_async, run_sync

from hypergraph import (
    END,
    AsyncEventProcessor,
    AsyncRunner,
    Event,
    EventDispatcher,
    EventProcessor,
    FunctionNode,
    Graph,
    InterruptEvent,
    NodeContext,
    NodeEndEvent,
    NodeErrorEvent,
    NodeRetryEvent,
    NodeStartEvent,
    RetryPolicy,
    RouteDecisionEvent,
    RunEndEvent,
    RunStartEvent,
    RunStatus,
    StopRequestedEvent,
    StreamingChunkEvent,
    SuperstepStartEvent,
    SyncRunner,
    ifelse,
    interrupt,
    node,
    route,
)
from hypergraph.checkpointers import MemoryCheckpointer

__all__ = ["map_", "run"]
Runs = Callable[..., Any]


@node(output_name="b")
def double(a: int) -> int:
    return a * 2


@node(output_name="c")
def inc(b: int) -> int:
    return b + 1


@node(output_name="b")
def boom(a: int) -> int:
    raise ValueError("boom")


def test_a_run_tells_its_course_in_order(run: Runs) -> None:
    heard = Recorder()
    run(Graph([double, inc], name="g"), {"a": 1}, event_processors=[heard])
    assert heard.short == [
        *("RunStart g", "SuperstepStart g", "NodeStart double", "NodeEnd double"),
        *("SuperstepStart g", "NodeStart inc", "NodeEnd inc", "RunEnd g"),
    ]
    assert_closed(heard.events)
    assert heard.shutdowns == 1


def test_start_and_end_say_what_they_are_about(run: Runs) -> None:
    heard = Recorder()
    run(
        Graph([double], name="g"),
        {"a": 1},
        event_processors=[heard],
        run_id="r",
        workflow_id="w",
        store=MemoryCheckpointer(),
    )
    start, end = heard.of(RunStartEvent, RunEndEvent)
    assert (start.run_id, start.workflow_id, start.is_map, start.map_size) == ("r", "w", False, None)
    assert (end.status, end.error, end.parent_span_id) == (RunStatus.COMPLETED, None, None)
    assert end.duration_ms >= 0
    (ended,) = heard.of(NodeEndEvent)
    assert (ended.cached, ended.inner_logs, ended.replayed) == (False, (), False)
    assert ended.duration_ms >= 0


def test_the_graph_name_is_text_for_unnamed_graphs(run: Runs) -> None:
    heard = Recorder()
    run(Graph([double]), {"a": 1}, event_processors=[heard])
    assert {event.graph_name for event in heard.events} == {""}


def test_a_failure_closes_node_and_run(run: Runs) -> None:
    heard = Recorder()
    with pytest.raises(ValueError, match="boom"):
        run(Graph([boom, inc], name="g"), {"a": 1}, event_processors=[heard])
    assert heard.short == ["RunStart g", "SuperstepStart g", "NodeStart boom", "NodeError boom", "RunEnd g"]
    failed, end = heard.events[-2:]
    assert (failed.error, failed.error_type) == ("boom", "builtins.ValueError")
    assert (end.status, end.error) == (RunStatus.FAILED, "boom")
    assert_closed(heard.events)
    assert heard.shutdowns == 1


def test_a_panic_is_reported_as_what_the_run_fails_with(run: Runs) -> None:
    @node(output_name="b")
    def leave(a: int) -> int:
        raise SystemExit(3)

    heard = Recorder()
    result = run(Graph([leave]), {"a": 1}, event_processors=[heard], error_handling="continue")
    (failed,) = heard.of(NodeErrorEvent)
    assert failed.error == result.log.errors[0].error == "node leave panicked: 3"
    assert failed.error_type == "hypergraph.exceptions.PanicError"
    assert_closed(heard.events)


def test_keyboard_interrupt_closes_everything_as_stopped(run: Runs) -> None:
    @node(output_name="b")
    def interrupted(a: int) -> int:
        raise KeyboardInterrupt

    inner = Graph([interrupted], name="inner")
    heard = Recorder()
    with pytest.raises(KeyboardInterrupt):
        run(Graph([inner.as_node()], name="outer"), {"a": 1}, event_processors=[heard])
    assert [(end.graph_name, end.status) for end in heard.of(RunEndEvent)] == [
        ("inner", RunStatus.STOPPED),
        ("outer", RunStatus.STOPPED),
    ]
    assert_closed(heard.events)
    assert heard.shutdowns == 1


def test_keyboard_interrupt_in_a_map_closes_it_as_stopped(map_: Runs) -> None:
    @node(output_name="b")
    def interrupted(a: int) -> int:
        if a == 1:
            raise KeyboardInterrupt
        return a

    heard = Recorder()
    with pytest.raises(KeyboardInterrupt):
        map_(Graph([interrupted]), {"a": [0, 1, 2]}, map_over="a", event_processors=[heard])
    assert heard.of(RunEndEvent)[-1].status is RunStatus.STOPPED
    assert_closed(heard.events)


def test_cancelling_closes_everything_as_stopped() -> None:
    started = asyncio.Event()

    @node(output_name="b")
    async def waits(a: int) -> int:
        started.set()
        await asyncio.Event().wait()
        return a

    graph = Graph([Graph([waits], name="inner").as_node().map_over("a")], name="outer")
    heard = Recorder()

    async def main() -> None:
        task = asyncio.create_task(AsyncRunner().run(graph, {"a": [1, 2]}, event_processors=[heard]))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert {end.status for end in heard.of(RunEndEvent)} == {RunStatus.STOPPED}
    assert len(heard.of(RunEndEvent)) == 4
    assert_closed(heard.events)
    assert heard.shutdowns == 1


def test_a_loop_that_does_not_end_closes_as_failed(run: Runs) -> None:
    @node(output_name="n")
    def step(n: int) -> int:
        return n + 1

    @route(targets=["step", END])
    def again(n: int) -> str:
        return "step"

    heard = Recorder()
    result = run(
        Graph([step, again]), {"n": 0}, max_iterations=4, error_handling="continue", event_processors=[heard]
    )
    assert result.failed
    end = heard.of(RunEndEvent)[-1]
    assert end.status is RunStatus.FAILED
    assert "exceeded maximum iterations" in end.error
    assert_closed(heard.events)


def test_a_decision_comes_before_the_end_of_its_gate_with_a_span_of_its_own(run: Runs) -> None:
    @route(targets=["double", "other", END], multi_target=True)
    def choose(a: int) -> list[Any]:
        return ["double", "other"]

    @node(output_name="d")
    def other(a: int) -> int:
        return a

    heard = Recorder()
    run(Graph([choose, double, other], name="g"), {"a": 1}, event_processors=[heard])
    start = heard.short.index("NodeStart choose")
    assert heard.short[start : start + 3] == ["NodeStart choose", "RouteDecision choose", "NodeEnd choose"]
    (decided,) = heard.of(RouteDecisionEvent)
    assert decided.decision == ["double", "other"]
    assert decided.parent_span_id == heard.events[0].span_id
    assert decided.span_id not in {event.span_id for event in heard.of(NodeStartEvent)}
    assert_closed(heard.events)


def test_decisions_are_text_in_events(run: Runs) -> None:
    @ifelse(when_true="double", when_false=END)
    def positive(a: int) -> bool:
        return a > 0

    for a, decision in ((1, "double"), (-1, "END")):
        heard = Recorder()
        run(Graph([positive, double]), {"a": a}, event_processors=[heard])
        assert [event.decision for event in heard.of(RouteDecisionEvent)] == [decision]


def test_a_nested_run_has_its_own_id_and_lies_in_the_span_of_its_node(run: Runs) -> None:
    inner = Graph([double, inc], name="inner")
    heard = Recorder()
    result = run(Graph([inner.as_node()], name="outer"), {"a": 1}, event_processors=[heard])
    outer_start, inner_start = heard.of(RunStartEvent)
    graph_node = heard.of(NodeStartEvent)[0]
    assert graph_node.parent_span_id == outer_start.span_id
    assert inner_start.parent_span_id == graph_node.span_id
    assert inner_start.run_id == result["inner"].run_id != result.run_id == outer_start.run_id
    assert result.log.steps[0].span_id == graph_node.span_id
    assert heard.of(NodeEndEvent)[-1].inner_logs == (result["inner"].log,)
    assert_closed(heard.events)
    assert heard.shutdowns == 1


def test_a_map_is_the_parent_of_its_items(map_: Runs) -> None:
    heard = Recorder()
    results = map_(Graph([double], name="g"), {"a": [1, 2, 3]}, map_over="a", event_processors=[heard])
    outer, *items = heard.of(RunStartEvent)
    assert (outer.is_map, outer.map_size, outer.run_id) == (True, 3, results.run_id)
    assert [item.parent_span_id for item in items] == [outer.span_id] * 3
    assert [item.run_id for item in items] == [result.run_id for result in results]
    assert not any(item.is_map for item in items)
    assert len({outer.run_id, *(item.run_id for item in items)}) == 4
    assert_closed(heard.events)
    assert heard.shutdowns == 1


def test_a_map_with_some_failures_ends_partial(map_: Runs) -> None:
    @node(output_name="b")
    def odd_only(a: int) -> int:
        if a % 2 == 0:
            raise ValueError(f"even: {a}")
        return a

    heard = Recorder()
    graph = Graph([odd_only], name="g")
    options = {"map_over": "a", "error_handling": "continue", "event_processors": [heard]}
    map_(graph, {"a": [1, 2, 3]}, **options)
    *items, outer = heard.of(RunEndEvent)
    assert [item.status.value for item in items] == ["completed", "failed", "completed"]
    assert (outer.status, outer.error) == (RunStatus.PARTIAL, "even: 2")
    assert_closed(heard.events)


def test_a_map_of_nothing_emits_nothing(map_: Runs, run: Runs) -> None:
    heard = Recorder()
    assert map_(Graph([double]), {"a": []}, map_over="a", event_processors=[heard]).run_id is None
    assert heard.events == []
    nested = Graph([Graph([double], name="inner").as_node().map_over("a")])
    result = run(nested, {"a": []}, event_processors=[Recorder(), heard := Recorder()])
    assert result["b"] == []
    assert len(heard.of(RunStartEvent)) == 1
    assert_closed(heard.events)


def test_a_nested_map_lies_in_the_span_of_its_node(run: Runs) -> None:
    mapped = Graph([double], name="inner").as_node().map_over("a")
    heard = Recorder()
    result = run(Graph([mapped], name="outer"), {"a": [1, 2]}, event_processors=[heard])
    _, outer_map, *items = heard.of(RunStartEvent)
    assert outer_map.is_map
    assert outer_map.parent_span_id == heard.of(NodeStartEvent)[0].span_id
    assert {item.parent_span_id for item in items} == {outer_map.span_id}
    assert outer_map.run_id == result["inner"].run_id
    assert heard.of(NodeEndEvent)[-1].inner_logs == tuple(result["inner"].log)
    assert_closed(heard.events)


def test_a_retried_attempt_is_told_as_a_retry(run: Runs) -> None:
    calls: list[int] = []

    @node(output_name="b", retry=RetryPolicy(max_attempts=3, initial_delay=0.0, jitter=0.0))
    def flaky(a: int) -> int:
        calls.append(a)
        if len(calls) < 3:
            raise ConnectionError(f"call {len(calls)}")
        return a

    heard = Recorder()
    result = run(Graph([flaky]), {"a": 1}, event_processors=[heard])
    retries = heard.of(NodeRetryEvent)
    assert [(retry.attempt, retry.error, retry.delay_s) for retry in retries] == [
        (1, "call 1", 0.0),
        (2, "call 2", 0.0),
    ]
    assert {retry.error_type for retry in retries} == {"builtins.ConnectionError"}
    assert not heard.of(NodeErrorEvent)
    assert len(heard.of(NodeStartEvent)) == len(heard.of(NodeEndEvent)) == 1
    assert result.log.steps[0].attempt == 3
    assert_closed(heard.events)


def test_what_a_node_without_outputs_returns_is_dropped_with_listeners_too(run: Runs) -> None:
    def note(a):  # type: ignore[no-untyped-def]  # without a hint its result may be dropped
        return a

    @route(targets=["note", END])
    def gate(a: int) -> Any:
        return "note"

    for graph in (Graph([FunctionNode(note)]), Graph([gate, FunctionNode(note), double])):
        for processors in ([], [Recorder()]):
            assert run(graph, {"a": 1}, event_processors=processors, select="**").completed


# -- streaming ----------------------------------------------------------------------------------------


def chunks(heard: Recorder) -> list[tuple[str, Any, int]]:
    return [(e.node_name, e.chunk, e.chunk_index) for e in heard.of(StreamingChunkEvent)]


def test_chunks_come_in_order_inside_their_node(run: Runs) -> None:
    @node(output_name="b")
    def count(a: int) -> Any:
        yield from range(a)

    @node(output_name="c")
    def talk(b: list[int], ctx: NodeContext) -> int:
        ctx.stream("x")
        ctx.stream("y")
        return 1

    heard = Recorder()
    result = run(Graph([count, talk]), {"a": 2}, event_processors=[heard])
    assert result["b"] == [0, 1]
    assert chunks(heard) == [("count", 0, 0), ("count", 1, 1), ("talk", "x", 0), ("talk", "y", 1)]
    assert_closed(heard.events)
    assert [event.parent_span_id for event in heard.of(StreamingChunkEvent)] == [
        span for event in heard.of(NodeStartEvent) for span in [event.span_id] * 2
    ]


def test_chunk_indexes_begin_anew_with_every_execution(run: Runs) -> None:
    @node(output_name="n")
    def step(n: int, ctx: NodeContext) -> int:
        ctx.stream("a")
        ctx.stream("b")
        return n + 1

    @route(targets=["step", END])
    def again(n: int) -> Any:
        return "step" if n < 2 else END

    heard = Recorder()
    run(Graph([step, again]), {"n": 0}, event_processors=[heard])
    assert [event.chunk_index for event in heard.of(StreamingChunkEvent)] == [0, 1, 0, 1]
    assert_closed(heard.events)


def test_chunks_are_heard_while_the_node_is_at_work() -> None:
    heard = Recorder()
    seen: list[int] = []

    @node(output_name="b")
    async def talk(a: int, ctx: NodeContext) -> int:
        ctx.stream(1)
        await breath()
        await breath()
        seen.append(len(heard.of(StreamingChunkEvent)))
        return a

    run_async(Graph([talk]), {"a": 1}, event_processors=[heard])
    assert seen == [1]

    @node(output_name="b")
    def talk_sync(a: int, ctx: NodeContext) -> int:
        ctx.stream(1)
        seen.append(len(heard.of(StreamingChunkEvent)))
        return a

    heard = Recorder()
    run_sync(Graph([talk_sync]), {"a": 1}, event_processors=[heard])
    assert seen == [1, 1]


def test_chunks_from_a_worker_thread_arrive_in_order() -> None:
    threads: set[int] = set()

    class Where(Recorder):
        def on_event(self, event: Any) -> None:
            super().on_event(event)
            threads.add(threading.get_ident())

    @node(output_name="b", offload=True)
    def talk(a: int, ctx: NodeContext) -> int:
        assert threading.get_ident() != threading.main_thread().ident
        for chunk in range(20):
            ctx.stream(chunk)
        return a

    heard = Where()
    run_async(Graph([talk]), {"a": 1}, event_processors=[heard])
    assert [event.chunk for event in heard.of(StreamingChunkEvent)] == list(range(20))
    assert threads == {threading.get_ident()}
    assert_closed(heard.events)


def test_a_slow_processor_hears_everything_in_order() -> None:
    @node(output_name="b")
    async def talk(a: int, ctx: NodeContext) -> int:
        ctx.stream(1)
        await breath()
        await breath()
        ctx.stream(2)
        return a

    slow, behind = AwaitedRecorder(), Recorder()
    siblings = [FunctionNode(talk, name=f"talk{i}", output_name=f"b{i}") for i in range(5)]
    run_async(Graph(siblings), {"a": 1}, event_processors=[slow, behind])
    assert_closed(slow.events)
    assert slow.events == behind.events


# -- pauses -------------------------------------------------------------------------------------------


@interrupt(output_name="verdict")
def ask(b: int) -> None:
    return None


def test_a_pause_closes_node_and_run() -> None:
    heard = Recorder()
    result = run_async(
        Graph([double, ask], name="g"),
        {"a": 1},
        event_processors=[heard],
        workflow_id="w",
        store=MemoryCheckpointer(),
    )
    assert result.paused
    assert heard.short[-4:] == ["NodeStart ask", "Interrupt ask", "CheckpointSaved", "RunEnd g"]
    (asked,) = heard.of(InterruptEvent)
    assert (asked.value, asked.response_param, asked.workflow_id) == (2, "verdict", "w")
    assert heard.events[-1].status is RunStatus.PAUSED
    assert_closed(heard.events)


def test_a_nested_pause_closes_every_level_and_names_the_key_of_each() -> None:
    innermost = Graph([double, ask], name="innermost")
    middle = Graph([innermost.as_node()], name="middle")
    heard = Recorder()
    result = run_async(Graph([middle.as_node()], name="outer"), {"a": 1}, event_processors=[heard])
    assert [(e.node_name, e.response_param) for e in heard.of(InterruptEvent)] == [
        ("ask", "verdict"),
        ("innermost", "innermost.verdict"),
        ("middle", "middle.innermost.verdict"),
    ]
    assert result.pause.response_key == "middle.innermost.verdict"
    assert {end.status for end in heard.of(RunEndEvent)} == {RunStatus.PAUSED}
    assert_closed(heard.events)


def test_an_answer_closes_the_interrupt_like_any_node() -> None:
    heard = Recorder()
    run_async(Graph([double, ask], name="g"), {"a": 1, "verdict": "ok"}, event_processors=[heard])
    assert heard.short[-3:] == ["NodeStart ask", "NodeEnd ask", "RunEnd g"]
    assert not heard.of(InterruptEvent)
    assert_closed(heard.events)


# -- stops --------------------------------------------------------------------------------------------


class StopAtFirstNode(Recorder):
    """Asks its runner to stop as soon as a node has started, more than once."""

    def __init__(self, runner: Any) -> None:
        super().__init__()
        self.runner = runner

    def on_event(self, event: Any) -> None:
        super().on_event(event)
        if isinstance(event, NodeStartEvent):
            assert self.runner.stop("r", "enough")
            self.runner.stop("r", "again")


@pytest.mark.parametrize("kind", [SyncRunner, AsyncRunner])
def test_a_stop_request_is_told_once_and_before_the_end(kind: Any) -> None:
    runner = kind(checkpointer=MemoryCheckpointer())
    heard = StopAtFirstNode(runner)
    graph = Graph([double, inc], name="g")
    options = {"run_id": "r", "workflow_id": "w", "error_handling": "continue", "event_processors": [heard]}

    async def main() -> Any:
        return await runner.run(graph, {"a": 1}, **options)

    result = asyncio.run(main()) if kind is AsyncRunner else runner.run(graph, {"a": 1}, **options)
    assert result.stopped
    (asked,) = heard.of(StopRequestedEvent)
    assert (asked.info, asked.workflow_id, asked.run_id) == ("enough", "w", "r")
    assert heard.events[-1].status is RunStatus.STOPPED
    assert "NodeStart inc" not in heard.short
    assert_closed(heard.events)


@pytest.mark.parametrize("kind", [SyncRunner, AsyncRunner])
def test_a_stopped_map_closes_every_item(kind: Any) -> None:
    runner = kind(checkpointer=MemoryCheckpointer())

    @node(output_name="b")
    def stops(a: int, ctx: NodeContext) -> int:
        if a == 1:
            runner.stop("w")
        return a

    heard = Recorder()
    options = {
        "map_over": "a",
        "workflow_id": "w",
        "error_handling": "continue",
        "event_processors": [heard],
    }
    graph, inputs = Graph([stops, inc]), {"a": [0, 1, 2, 3]}

    async def main() -> Any:
        return await runner.map(graph, inputs, **options)

    results = (
        asyncio.run(main()) if kind is AsyncRunner else runner.map(graph, {"a": [0, 1, 2, 3]}, **options)
    )
    assert [result.status.value for result in results] == ["completed", "stopped", "stopped", "stopped"]
    assert len(heard.of(StopRequestedEvent)) == 1
    assert heard.of(RunEndEvent)[-1].status is RunStatus.STOPPED
    assert_closed(heard.events)


def test_a_timeout_closes_as_stopped(run: Runs) -> None:
    @node(output_name="b")
    def patient(a: int, ctx: NodeContext) -> int:
        while True:
            ctx.check()

    heard = Recorder()
    result = run(
        Graph([patient]), {"a": 1}, timeout=0.001, error_handling="continue", event_processors=[heard]
    )
    assert result.stopped
    assert heard.events[-1].status is RunStatus.STOPPED
    assert not heard.of(StopRequestedEvent)
    assert_closed(heard.events)


# -- supersteps ---------------------------------------------------------------------------------------


def test_supersteps_are_told_once_each_and_in_order_also_when_branches_overtake_each_other() -> None:
    done: list[int] = []

    @node(output_name="slow")
    async def slow(a: int) -> int:
        while not done:
            await breath()
        return a

    @node(output_name="z")
    async def last(y: int) -> int:
        done.append(y)
        return y

    @node(output_name="x")
    async def first(a: int) -> int:
        return a

    @node(output_name="y")
    async def second(x: int) -> int:
        return x

    @node(output_name="all")
    async def join(slow: int, z: int) -> int:
        return slow + z

    for processor in (Recorder(), AwaitedRecorder()):
        done.clear()
        result = run_async(Graph([slow, first, second, last, join]), {"a": 1}, event_processors=[processor])
        assert [event.superstep for event in processor.of(SuperstepStartEvent)] == [0, 1, 2, 3]
        assert result["all"] == 2
        assert_closed(processor.events)


def test_siblings_share_one_superstep(run: Runs) -> None:
    siblings = [FunctionNode(double, name=f"d{i}", output_name=f"b{i}") for i in range(3)]
    heard = Recorder()
    run(Graph(siblings), {"a": 1}, event_processors=[heard])
    assert [event.superstep for event in heard.of(SuperstepStartEvent)] == [0]
    assert [event.node_name for event in heard.of(NodeStartEvent)] == ["d0", "d1", "d2"]


# -- processors ---------------------------------------------------------------------------------------


class Broken(EventProcessor):
    def __init__(self) -> None:
        self.calls = 0

    def on_event(self, event: Any) -> None:
        self.calls += 1
        raise RuntimeError("broken")

    def shutdown(self) -> None:
        raise RuntimeError("broken")


def test_a_broken_processor_is_logged_once_and_fails_nothing(run: Runs, caplog: Any) -> None:
    broken, heard = Broken(), Recorder()
    with caplog.at_level(logging.WARNING, "hypergraph"):
        result = run(Graph([double, inc]), {"a": 1}, event_processors=[broken, heard])
    assert result["c"] == 3
    assert broken.calls == len(heard.events) == 8
    assert [record.name for record in caplog.records] == ["hypergraph"]


def test_a_strict_dispatcher_raises_what_a_processor_raises_on_events_of_a_run(run: Runs) -> None:
    heard = Recorder()
    run(Graph([double]), {"a": 1}, event_processors=[heard])
    with pytest.raises(RuntimeError, match="broken"):
        EventDispatcher([Broken()], strict=True).emit(heard.events[0])


def test_nobody_is_told_anything_when_the_call_itself_is_wrong(run: Runs, map_: Runs) -> None:
    heard = Recorder()
    with pytest.raises(Exception, match="Missing required inputs"):
        run(Graph([double]), {}, event_processors=[heard])
    with pytest.raises(ValueError, match="equal lengths"):
        map_(Graph([double]), {"a": [1], "x": [1, 2]}, map_over=["a", "x"], event_processors=[heard])
    assert heard.events == []


@pytest.mark.parametrize("runs", [(run_sync, map_sync), (run_async, map_async)])
def test_one_processor_serves_several_calls(runs: Any) -> None:
    class Lasting(Recorder):
        def on_event(self, event: Any) -> None:
            self.events.append(event)

    heard = Lasting()
    runs[0](Graph([double]), {"a": 1}, event_processors=[heard])
    runs[1](Graph([double]), {"a": [1]}, map_over="a", event_processors=[heard])
    assert heard.shutdowns == 2
    assert_closed(heard.events)


# -- iterating ----------------------------------------------------------------------------------------


def test_iter_yields_what_processors_hear() -> None:
    heard = Recorder()
    events = SyncRunner().iter(Graph([double, inc]), {"a": 1}, event_processors=[heard])
    assert list(events) == heard.events
    assert events.result["c"] == 3
    assert heard.shutdowns == 1


def test_async_iter_yields_what_processors_hear() -> None:
    heard = Recorder()

    async def main() -> Any:
        events = AsyncRunner().iter(Graph([double, inc]), {"a": 1}, event_processors=[heard])
        return [event async for event in events], events.result

    events, result = asyncio.run(main())
    assert events == heard.events
    assert result["c"] == 3
    assert_closed(events)


def test_leaving_the_iteration_early_still_closes_everything() -> None:
    heard = Recorder()
    events = SyncRunner().iter(Graph([double, inc]), {"a": 1}, event_processors=[heard])
    for event in events:
        if isinstance(event, NodeEndEvent):
            break
    events.close()
    assert events.result.stopped
    assert len(heard.of(StopRequestedEvent)) == 1
    assert_closed(heard.events)


def test_of_many_threads_that_ask_to_stop_one_is_heard() -> None:
    runner = SyncRunner()

    @node(output_name="b")
    def asked(a: int) -> int:
        barrier = threading.Barrier(8)

        def ask(number: int) -> None:
            barrier.wait()
            runner.stop("r", number)

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return a

    heard = Recorder()
    result = runner.run(
        Graph([asked, inc]), {"a": 1}, run_id="r", error_handling="continue", event_processors=[heard]
    )
    (event,) = heard.of(StopRequestedEvent)
    assert event.info == result.error.cause.info


def test_a_processor_that_only_awaits_is_named_by_a_sync_runner() -> None:
    class Awaits(AsyncEventProcessor):
        heard = 0

        async def on_event_async(self, event: Event) -> None:
            self.heard += 1

    awaits, graph = Awaits(), Graph([FunctionNode(lambda x: x, "f", "y")])
    with pytest.warns(UserWarning, match="Awaits gets no events from a SyncRunner"):
        SyncRunner().run(graph, x=1, event_processors=[awaits])
    with pytest.warns(UserWarning, match="Awaits gets no events from a SyncRunner"):
        list(SyncRunner().iter(graph, x=1, event_processors=[awaits]))
    assert awaits.heard == 0
    asyncio.run(AsyncRunner().run(graph, x=1, event_processors=[awaits]))
    assert awaits.heard > 0
