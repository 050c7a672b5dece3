"""Stopping: asked for from anywhere, done between nodes, with everything completed at hand."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from support.listening import Recorder, assert_closed
from support.running import On, on, order

from hypergraph import (
    END,
    AsyncRunner,
    CancellationError,
    Graph,
    NodeContext,
    NodeError,
    RetryPolicy,
    RunEndEvent,
    RunStatus,
    RunTimeoutError,
    StopRequestedEvent,
    SyncRunner,
    node,
    route,
)
from hypergraph.checkpointers import MemoryCheckpointer
from hypergraph.exceptions import StopRequested
from hypergraph.testing import FakeClock

__all__ = ["on"]


def stopper(on: On, info: Any = None) -> Any:
    """Return a node that stops its own run."""

    @node(output_name="b")
    def stops(a: int, ctx: NodeContext) -> int:
        assert on.runner.stop(ctx.run_id, info)
        return a * 2

    return stops


@node(output_name="c")
def follows(b: int) -> int:
    raise AssertionError("nothing starts after a stop")


def test_a_node_can_stop_its_run(on: On) -> None:
    with pytest.raises(CancellationError) as caught:
        on.run(Graph([stopper(on, "enough"), follows]), {"a": 1})
    error = caught.value
    assert str(error) == "cancelled before node follows: stop requested: enough"
    assert isinstance(error.cause, StopRequested)
    assert error.cause.info == "enough"
    assert (error.node_name, error.was_executing) == ("follows", False)
    assert error.values == {"a": 1, "b": 2}


def test_a_stopped_run_says_so(on: On) -> None:
    heard = Recorder()
    result = on.run(
        Graph([stopper(on), follows]), {"a": 1}, error_handling="continue", event_processors=[heard]
    )
    assert result.status is RunStatus.STOPPED
    assert result.stopped
    assert isinstance(result.error, CancellationError)
    assert result.failure is not None
    assert (result.failure.op, result.failure.node_name, result.failure.superstep) == ("cancel", "follows", 1)
    assert NodeError.of(result.error) is result.failure
    assert result.values == {"b": 2}
    assert order(result) == ["stops"]
    assert heard.of(RunEndEvent)[-1].status is RunStatus.STOPPED
    assert len(heard.of(StopRequestedEvent)) == 1
    assert_closed(heard.events)


def test_a_stop_during_the_last_node_came_too_late(on: On) -> None:
    result = on.run(Graph([stopper(on)]), {"a": 1})
    assert result.completed
    assert result["b"] == 2


def test_a_stop_before_siblings_that_run_together_is_kept(on: On) -> None:
    @node(output_name="d")
    def other(b: int) -> int:
        raise AssertionError("nothing starts after a stop")

    result = on.run(Graph([stopper(on), follows, other]), {"a": 1}, error_handling="continue")
    assert result.stopped
    assert result.values == {"b": 2}


def test_a_stop_reaches_nested_runs_and_ends_the_outer_one(on: On) -> None:
    @node(output_name="z")
    def outer_node(c: int) -> int:
        raise AssertionError("nothing starts after a stop")

    @node(output_name="b")
    def stops(a: int) -> int:
        assert on.runner.stop("outer run")
        return a

    graph = Graph([Graph([stops, follows], name="inner").as_node(), outer_node])
    with pytest.raises(CancellationError) as caught:
        on.run(graph, {"a": 1}, run_id="outer run")
    assert caught.value.node_name == "inner/follows"


def test_a_loop_can_be_stopped(on: On) -> None:
    @node(output_name="n")
    def count(n: int, ctx: NodeContext) -> int:
        if n == 5:
            on.runner.stop(ctx.run_id)
        return n + 1

    @route(targets=["count", END])
    def gate(n: int) -> str:
        return "count"

    result = on.run(Graph([count, gate]), {"n": 0}, error_handling="continue")
    assert result.stopped
    assert result["n"] == 6


def test_check_raises_once_a_stop_was_requested(on: On) -> None:
    @node(output_name="b")
    def notices(a: int, ctx: NodeContext) -> int:
        assert ctx.check() is None  # type: ignore[func-returns-value]
        assert ctx.stop_requested is False
        on.runner.stop(ctx.run_id)
        assert ctx.stop_requested is True
        ctx.check()
        raise AssertionError("check let it pass")

    result = on.run(Graph([notices, follows]), {"a": 1}, error_handling="continue")
    assert result.stopped
    assert isinstance(result.error, CancellationError)
    assert result.error.was_executing is True
    assert str(result.error) == "cancelled during node notices: stop requested"
    assert result.failure is not None
    assert result.failure.op == "cancel"


def test_a_workflow_id_will_do_to_stop(on: On) -> None:
    on.runner.checkpointer = MemoryCheckpointer()

    @node(output_name="b")
    def stops(a: int, ctx: NodeContext) -> int:
        assert ctx.workflow_id == "w-1"
        assert on.runner.stop("w-1")
        return a

    result = on.run(Graph([stops, follows]), {"a": 1}, workflow_id="w-1", error_handling="continue")
    assert result.stopped


def test_stopping_what_is_not_there_returns_false(on: On) -> None:
    assert on.runner.stop("nobody") is False
    result = on.run(Graph([stopper(on)]), {"a": 1})
    assert on.runner.stop(result.run_id) is False


def test_a_stopped_map_hands_out_no_more_items(on: On) -> None:
    on.runner.checkpointer = MemoryCheckpointer()
    seen: list[int] = []

    @node(output_name="y")
    def item(x: int) -> int:
        seen.append(x)
        on.runner.stop("batch")
        return x

    @node(output_name="z")
    def second(y: int) -> int:
        raise AssertionError("nothing starts after a stop")

    result = on.map(
        Graph([item, second]), {"x": [1, 2, 3]}, map_over="x", workflow_id="batch", error_handling="continue"
    )
    assert seen == [1]
    assert result.status is RunStatus.STOPPED
    assert [each.status for each in result] == [RunStatus.STOPPED] * 3


# -- from elsewhere ------------------------------------------------------------------------------------


def test_another_thread_can_stop_a_sync_run() -> None:
    runner, started, stopped = SyncRunner(), threading.Event(), threading.Event()

    @node(output_name="b")
    def waits(a: int) -> int:
        started.set()
        assert stopped.wait(30)
        return a

    handle = runner.start_run(Graph([waits, follows]), {"a": 1}, run_id="r", error_handling="continue")
    assert started.wait(30)
    assert runner.stop("r", {"by": "test"})
    stopped.set()
    result = handle.result()
    assert result.stopped
    assert isinstance(result.error, CancellationError)
    assert result.error.cause.info == {"by": "test"}  # type: ignore[attr-defined]


def test_another_thread_can_stop_an_async_run() -> None:
    runner, started, stopped = AsyncRunner(), threading.Event(), threading.Event()

    def stop_when_started() -> None:
        assert started.wait(30)
        assert runner.stop("r")
        stopped.set()

    @node(output_name="b", offload=True)
    def waits(a: int) -> int:
        started.set()
        assert stopped.wait(30)
        return a

    thread = threading.Thread(target=stop_when_started)
    thread.start()
    result = asyncio.run(runner.run(Graph([waits, follows]), {"a": 1}, run_id="r", error_handling="continue"))
    thread.join()
    assert result.stopped


@pytest.mark.parametrize("handling", ["raise", "continue"])
def test_a_stop_wakes_a_run_that_waits_to_try_again(on: On, handling: str) -> None:
    failed = threading.Event()

    @node(output_name="b", retry=RetryPolicy(initial_delay=3600, max_delay=3600))
    def fails(a: int) -> int:
        failed.set()
        raise ValueError("not yet")

    def stop() -> None:
        assert failed.wait(30)
        while not on.runner.stop("r"):  # the run is known from its start to its end
            pass

    thread = threading.Thread(target=stop)
    thread.start()
    if handling == "raise":
        with pytest.raises(CancellationError) as caught:
            on.run(Graph([fails]), {"a": 1}, run_id="r")
        error: Any = caught.value
    else:
        error = on.run(Graph([fails]), {"a": 1}, run_id="r", error_handling="continue").error
    thread.join()
    assert error.was_executing is True
    assert isinstance(error.__cause__, ValueError)


def test_the_deadline_ends_the_wait_between_attempts(on: On) -> None:
    @node(output_name="b", retry=RetryPolicy(initial_delay=3600, max_delay=3600))
    def fails(a: int) -> int:
        raise ValueError("not yet")

    with FakeClock(skip=True), pytest.raises(RunTimeoutError) as caught:
        on.run(Graph([fails]), {"a": 1}, timeout=60)
    assert caught.value.node_name == "fails"
    assert isinstance(caught.value.__cause__, ValueError)


# -- tasks ---------------------------------------------------------------------------------------------


def test_cancelling_a_waiter_cancels_its_run_and_nothing_else() -> None:
    async def main() -> None:
        entered, gate = [asyncio.Event(), asyncio.Event()], asyncio.Event()

        @node(output_name="b")
        async def waits(a: int) -> int:
            entered[a].set()
            await gate.wait()
            return a

        runner = AsyncRunner()
        calls = [asyncio.ensure_future(runner.run(Graph([waits]), {"a": i})) for i in (0, 1)]
        for event in entered:
            await event.wait()
        calls[0].cancel()
        with pytest.raises(asyncio.CancelledError):
            await calls[0]
        gate.set()
        assert (await calls[1])["b"] == 1
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())


def test_cancelling_a_run_cancels_all_its_nodes_and_waits_for_them() -> None:
    async def main() -> None:
        entered, left = [], []
        everybody = asyncio.Event()

        async def wait(name: str) -> int:
            entered.append(name)
            if len(entered) == 3:
                everybody.set()
            try:
                return await asyncio.get_running_loop().create_future()
            finally:
                await asyncio.sleep(0)
                left.append(name)

        @node(output_name="p")
        async def one(x: int) -> int:
            return await wait("one")

        @node(output_name="q")
        async def two(x: int) -> int:
            return await wait("two")

        @node(output_name="r")
        async def three(x: int) -> int:
            return await wait("three")

        graph = Graph([one, two, Graph([three], name="inner").as_node()])
        call = asyncio.ensure_future(AsyncRunner().run(graph, {"x": 1}))
        await everybody.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert sorted(left) == ["one", "three", "two"]
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())


def test_a_timeout_around_a_run_is_the_callers_own() -> None:
    @node(output_name="b")
    async def waits(a: int) -> int:
        return await asyncio.get_running_loop().create_future()

    async def main() -> None:
        with pytest.raises(TimeoutError) as caught:
            async with asyncio.timeout(0.01):
                await AsyncRunner().run(Graph([waits]), {"a": 1})
        assert not isinstance(caught.value, RunTimeoutError)

    asyncio.run(main())


def test_a_run_may_be_started_by_somebody_who_was_cancelled() -> None:
    @node(output_name="b")
    async def passes(a: int) -> int:
        await asyncio.sleep(0)
        return a

    async def main() -> Any:
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            return await AsyncRunner().run(Graph([passes]), {"a": 1})

    async def outer() -> Any:
        task = asyncio.ensure_future(main())
        await asyncio.sleep(0)
        task.cancel()
        return await task

    assert asyncio.run(outer())["b"] == 1


def test_a_run_cancelled_while_only_a_slow_branch_is_left_is_stopped() -> None:
    heard = Recorder()

    async def main() -> None:
        entered, decided = asyncio.Event(), asyncio.Event()

        @node(output_name="slow")
        async def waits(x: int) -> int:
            entered.set()
            return await asyncio.get_running_loop().create_future()

        @node(output_name="n")
        async def count(n: int) -> int:
            return n + 1

        @route(targets=["count", END])
        def gate(n: int) -> Any:
            if n < 3:
                return "count"
            decided.set()
            return END

        graph = Graph([waits, count, gate])
        call = asyncio.ensure_future(AsyncRunner().run(graph, {"x": 1, "n": 0}, event_processors=[heard]))
        await entered.wait()
        await decided.wait()
        for _ in range(20):  # the loop has come to its end
            await asyncio.sleep(0)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())
    assert heard.of(RunEndEvent)[-1].status is RunStatus.STOPPED
    assert_closed(heard.events)
