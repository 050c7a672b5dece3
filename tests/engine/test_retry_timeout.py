"""Trying again and running out of time: which failures are worth it, and whose time it was."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from support.listening import Recorder
from support.running import On, OnAsync, on

from hypergraph import (
    END,
    FunctionNode,
    Graph,
    NodeContext,
    NodeErrorEvent,
    NodeRetryEvent,
    NodeTimeoutError,
    RetryPolicy,
    RunTimeoutError,
    node,
    route,
)

__all__ = ["on"]
AT_ONCE = RetryPolicy(initial_delay=0)


def failing(times: int, error: BaseException | None = None, **options: Any) -> tuple[FunctionNode, list[int]]:
    """Return a node that fails so many times before it succeeds, and the attempts it will have seen."""
    attempts: list[int] = []

    def flaky(x: int, ctx: NodeContext) -> int:
        attempts.append(ctx.attempt)
        if len(attempts) <= times:
            raise error or ValueError(f"attempt {len(attempts)}")
        return x

    return FunctionNode(flaky, output_name="y", **{"retry": AT_ONCE, **options}), attempts


# -- retry ---------------------------------------------------------------------------------------------


def test_a_flaky_node_is_tried_until_it_succeeds(on: On) -> None:
    flaky, attempts = failing(2)
    heard = Recorder()
    result = on.run(Graph([flaky]), {"x": 7}, event_processors=[heard])
    assert result["y"] == 7
    assert attempts == [1, 2, 3]
    assert [record.attempt for record in result.log.steps] == [3]
    assert [(event.attempt, event.error) for event in heard.of(NodeRetryEvent)] == [
        (1, "attempt 1"),
        (2, "attempt 2"),
    ]
    assert heard.of(NodeErrorEvent) == []


def test_the_last_error_counts_when_the_attempts_are_used_up(on: On) -> None:
    flaky, attempts = failing(9)
    heard = Recorder()
    result = on.run(Graph([flaky]), {"x": 7}, event_processors=[heard], error_handling="continue")
    assert attempts == [1, 2, 3]
    assert str(result.error) == "attempt 3"
    assert [record.attempt for record in result.log.errors] == [3]
    assert len(heard.of(NodeRetryEvent)) == 2
    assert len(heard.of(NodeErrorEvent)) == 1


def test_without_a_policy_there_is_one_attempt(on: On) -> None:
    flaky, attempts = failing(1, retry=None)
    with pytest.raises(ValueError, match="attempt 1"):
        on.run(Graph([flaky]), {"x": 7})
    assert attempts == [1]


def test_only_the_errors_named_are_worth_another_attempt(on: On) -> None:
    flaky, attempts = failing(9, KeyError("k"), retry=RetryPolicy(retry_on=ValueError, initial_delay=0))
    with pytest.raises(KeyError):
        on.run(Graph([flaky]), {"x": 7})
    assert attempts == [1]


def test_stop_iteration_can_be_worth_another_attempt(on: On) -> None:
    flaky, attempts = failing(1, StopIteration(), retry=RetryPolicy(retry_on=StopIteration, initial_delay=0))
    assert on.run(Graph([flaky]), {"x": 7})["y"] == 7
    assert attempts == [1, 2]


def test_wrong_results_are_not_tried_again(on: On) -> None:
    calls: list[int] = []

    @node(output_name=("p", "q"), retry=AT_ONCE)
    def wrong(x: int) -> Any:
        calls.append(x)
        return (1, 2, 3)

    with pytest.raises(ValueError, match="wrong"):
        on.run(Graph([wrong]), {"x": 1})
    assert calls == [1]


def test_an_unawaited_coroutine_is_not_tried_again(on: On) -> None:
    calls: list[int] = []

    async def later() -> int:
        return 1

    @node(output_name="y", retry=AT_ONCE)
    def forgets(x: int) -> Any:
        calls.append(x)
        return later()

    with pytest.raises(TypeError, match="forgets"):
        on.run(Graph([forgets]), {"x": 1})
    assert calls == [1]


def test_attempts_of_different_nodes_are_counted_apart(on: On) -> None:
    first, _ = failing(1)
    seen: list[int] = []

    @node(output_name="z")
    def following(y: int, ctx: NodeContext) -> int:
        seen.append(ctx.attempt)
        return y

    on.run(Graph([first, following]), {"x": 1})
    assert seen == [1]


def test_a_later_visit_starts_with_the_first_attempt(on: On) -> None:
    seen: list[tuple[int, int]] = []

    @node(output_name="n", retry=AT_ONCE)
    def count(n: int, ctx: NodeContext) -> int:
        seen.append((n, ctx.attempt))
        if n == 0 and ctx.attempt == 1:
            raise ValueError("once")
        return n + 1

    @route(targets=["count", END])
    def gate(n: int) -> Any:
        return "count" if n < 2 else END

    on.run(Graph([count, gate]), {"n": 0})
    assert seen == [(0, 1), (0, 2), (1, 1)]


def test_an_async_node_is_tried_again() -> None:
    calls: list[int] = []

    @node(output_name="y", retry=AT_ONCE)
    async def flaky(x: int) -> int:
        calls.append(x)
        await asyncio.sleep(0)
        if len(calls) < 3:
            raise ValueError("not yet")
        return x

    assert OnAsync().run(Graph([flaky]), {"x": 1})["y"] == 1
    assert len(calls) == 3


def test_a_generator_is_tried_again_from_its_start(on: On) -> None:
    calls: list[int] = []

    @node(output_name="items", retry=AT_ONCE)
    def flaky(x: int) -> Any:
        calls.append(x)
        yield 1
        if len(calls) < 2:
            raise ValueError("midway")
        yield 2

    assert on.run(Graph([flaky]), {"x": 1})["items"] == [1, 2]


# -- timeout of a node ---------------------------------------------------------------------------------


def test_a_sync_node_that_returns_late_has_failed_and_its_result_is_discarded(on: On) -> None:
    @node(output_name="y", timeout=0.001)
    def late(x: int, ctx: NodeContext) -> int:
        assert ctx.deadline is not None
        while time.monotonic() <= ctx.deadline:
            pass
        return x

    result = on.run(Graph([late]), {"x": 1}, error_handling="continue")
    assert isinstance(result.error, NodeTimeoutError)
    assert isinstance(result.error, TimeoutError)
    assert (result.error.node_name, result.error.timeout) == ("late", 0.001)
    assert result.failed
    assert "y" not in result


def test_a_sync_node_can_ask_whether_its_time_is_up(on: On) -> None:
    @node(output_name="y", timeout=0.001)
    def asks(x: int, ctx: NodeContext) -> int:
        while True:
            ctx.check()

    with pytest.raises(NodeTimeoutError, match="node inner/asks took longer"):
        on.run(Graph([Graph([asks], name="inner").as_node()]), {"x": 1})


def test_an_async_node_is_cancelled_at_its_deadline() -> None:
    cleaned: list[bool] = []

    @node(output_name="y", timeout=0.001)
    async def waits(x: int) -> int:
        try:
            return await asyncio.get_running_loop().create_future()
        finally:
            cleaned.append(True)

    result = OnAsync().run(Graph([waits]), {"x": 1}, error_handling="continue")
    assert isinstance(result.error, NodeTimeoutError)
    assert result.failed
    assert cleaned == [True]


def test_an_async_node_that_ignores_its_deadline_has_failed_all_the_same() -> None:
    @node(output_name="y", timeout=0.001)
    async def ignores(x: int) -> int:
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            pass
        return x

    result = OnAsync().run(Graph([ignores]), {"x": 1}, error_handling="continue")
    assert isinstance(result.error, NodeTimeoutError)


def test_an_async_generator_is_cancelled_at_its_deadline() -> None:
    @node(output_name="y", timeout=0.001)
    async def waits(x: int) -> Any:
        yield 1
        await asyncio.get_running_loop().create_future()

    with pytest.raises(NodeTimeoutError):
        OnAsync().run(Graph([waits]), {"x": 1})


def test_a_timeout_error_of_the_nodes_own_is_no_timeout_of_ours(on: On) -> None:
    error = TimeoutError("the database")

    @node(output_name="y", timeout=60)
    def fails(x: int) -> int:
        raise error

    result = on.run(Graph([fails]), {"x": 1}, error_handling="continue", timeout=60)
    assert result.error is error
    assert result.failed


def test_an_async_timeout_error_of_the_nodes_own_is_no_timeout_of_ours() -> None:
    @node(output_name="y", timeout=60)
    async def fails(x: int) -> int:
        async with asyncio.timeout(0):
            return await asyncio.get_running_loop().create_future()

    result = OnAsync().run(Graph([fails]), {"x": 1}, error_handling="continue", timeout=60)
    assert type(result.error) is TimeoutError
    assert result.failed


def test_an_attempt_that_took_too_long_is_worth_another_one(on: On) -> None:
    attempts: list[int] = []

    @node(output_name="y", timeout=0.001, retry=AT_ONCE)
    def late_once(x: int, ctx: NodeContext) -> int:
        attempts.append(ctx.attempt)
        while ctx.attempt == 1:
            ctx.check()
        return x

    # the second attempt is given the same short time and needs next to none of it
    result = on.run(Graph([late_once]), {"x": 1}, error_handling="continue")
    assert attempts[:2] == [1, 2]
    assert result.completed or isinstance(result.error, NodeTimeoutError)


# -- timeout of a run ----------------------------------------------------------------------------------


SOON = 0.25  # seconds in which the first nodes have certainly been started


def wait_for_the_deadline(ctx: NodeContext) -> None:
    assert ctx.deadline is not None
    while time.monotonic() <= ctx.deadline:
        pass


@pytest.mark.slow
def test_no_node_starts_after_the_deadline(on: On) -> None:
    @node(output_name="b")
    def slow(a: int, ctx: NodeContext) -> int:
        wait_for_the_deadline(ctx)
        return a

    @node(output_name="c")
    def follows(b: int) -> int:
        raise AssertionError("started after the deadline")

    result = on.run(Graph([slow, follows]), {"a": 1}, timeout=SOON, error_handling="continue")
    assert result.stopped
    assert isinstance(result.error, RunTimeoutError)
    assert isinstance(result.error, TimeoutError)
    assert (result.error.node_name, result.error.was_executing) == ("follows", False)
    assert str(result.error).startswith("cancelled before node follows: ")
    assert result.error.values == {"a": 1, "b": 1}
    assert result["b"] == 1


@pytest.mark.slow
def test_a_deadline_that_passes_in_the_last_node_counts(on: On) -> None:
    @node(output_name="b")
    def slow(a: int, ctx: NodeContext) -> int:
        wait_for_the_deadline(ctx)
        return a

    @node(output_name="early")
    def early(a: int) -> int:
        return a

    for nodes in ([slow], [early, slow]):
        with pytest.raises(RunTimeoutError, match="cancelled during node slow") as caught:
            on.run(Graph(nodes), {"a": 1}, timeout=SOON)
        assert caught.value.was_executing is True


@pytest.mark.slow
def test_running_async_nodes_are_cancelled_when_the_run_has_no_time_left() -> None:
    cleaned: list[str] = []

    async def forever(name: str) -> int:
        try:
            return await asyncio.get_running_loop().create_future()
        finally:
            cleaned.append(name)

    @node(output_name="p")
    async def one(a: int) -> int:
        return await forever("one")

    @node(output_name="q")
    async def two(a: int) -> int:
        return await forever("two")

    graph = Graph([one, Graph([two], name="inner").as_node()])
    result = OnAsync().run(graph, {"a": 1}, timeout=SOON, error_handling="continue")
    assert result.stopped
    assert isinstance(result.error, RunTimeoutError)
    assert result.error.was_executing is True
    assert result.error.node_name == "one"
    assert sorted(cleaned) == ["one", "two"]


def test_the_shorter_of_two_timeouts_counts() -> None:
    @node(output_name="p", timeout=60)
    async def patient(a: int) -> int:
        return await asyncio.get_running_loop().create_future()

    @node(output_name="p", timeout=0.001)
    async def hasty(a: int) -> int:
        return await asyncio.get_running_loop().create_future()

    with pytest.raises(RunTimeoutError):
        OnAsync().run(Graph([patient]), {"a": 1}, timeout=0.001)
    with pytest.raises(NodeTimeoutError):
        OnAsync().run(Graph([hasty]), {"a": 1}, timeout=60)


def test_a_map_has_one_deadline_for_all_items(on: On) -> None:
    seen: list[int] = []

    @node(output_name="y")
    def slow(x: int, ctx: NodeContext) -> int:
        seen.append(x)
        wait_for_the_deadline(ctx)
        return x

    result = on.map(Graph([slow]), {"x": [1, 2, 3]}, map_over="x", timeout=0.2, error_handling="continue")
    assert seen == [1]
    assert result.status.value == "stopped"


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), "1", True])
def test_a_timeout_is_a_positive_number(on: On, timeout: Any) -> None:
    fine, _ = failing(0)
    with pytest.raises(ValueError, match="timeout"):
        on.run(Graph([fine]), {"x": 1}, timeout=timeout)
