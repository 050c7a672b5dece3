"""Exceptions that are meant to end the process end the run, or pass through it after it has been closed."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from support.listening import Recorder, assert_closed
from support.running import On, OnAsync, on, order

from hypergraph import (
    AsyncRunner,
    Graph,
    NodeError,
    PanicError,
    RetryPolicy,
    RunEndEvent,
    RunStatus,
    SyncRunner,
    node,
)

__all__ = ["on"]


class Panic(BaseException):
    """Neither an Exception nor anything Python knows."""


@node(output_name="b")
def double(a: int) -> int:
    return a * 2


@node(output_name="c")
def leaves(b: int) -> int:
    raise SystemExit("bye")


@node(output_name="d")
def sibling(b: int) -> int:
    return b + 1


def test_a_panic_fails_the_run_and_the_process_goes_on(on: On) -> None:
    result = on.run(Graph([double, leaves, sibling]), {"a": 1}, error_handling="continue")
    assert result.failed
    assert isinstance(result.error, PanicError)
    assert isinstance(result.error.value, SystemExit)
    assert str(result.error) == "node leaves panicked: bye"
    assert result.values == {"b": 2, "d": 3}
    assert order(result) == ["double", "leaves", "sibling"]


def test_a_panic_has_evidence(on: On) -> None:
    with pytest.raises(PanicError) as caught:
        on.run(Graph([double, leaves]), {"a": 1})
    evidence = NodeError.of(caught.value)
    assert evidence is not None
    assert evidence.inputs == {"b": 2}
    assert evidence.cause is caught.value


def test_a_nested_panic_is_wrapped_once_and_names_the_path(on: On) -> None:
    panic = Panic(7)

    @node(output_name="y")
    def inside(x: int) -> int:
        raise panic

    with pytest.raises(PanicError) as caught:
        on.run(Graph([Graph([inside], name="inner").as_node()]), {"x": 1})
    assert caught.value.node_name == "inner/inside"
    assert caught.value.value is panic
    assert "in inside" in caught.value.stack


def test_an_async_panic_is_like_any_other() -> None:
    @node(output_name="y")
    async def inside(x: int) -> int:
        await asyncio.sleep(0)
        raise SystemExit(3)

    with pytest.raises(PanicError, match="node inside panicked: 3"):
        OnAsync().run(Graph([inside]), {"x": 1})


def test_a_panic_in_a_worker_thread_is_like_any_other() -> None:
    with pytest.raises(PanicError, match="node leaves panicked: bye"):
        OnAsync(offload_sync=True).run(Graph([double, leaves]), {"a": 1})


def test_a_panic_is_not_tried_again(on: On) -> None:
    calls: list[int] = []

    @node(output_name="y", retry=RetryPolicy(retry_on=BaseException, initial_delay=0))
    def inside(x: int) -> int:
        calls.append(x)
        raise Panic

    with pytest.raises(PanicError):
        on.run(Graph([inside]), {"x": 1})
    assert calls == [1]


# -- KeyboardInterrupt ---------------------------------------------------------------------------------


@node(output_name="c")
def interrupted(b: int) -> int:
    raise KeyboardInterrupt


@pytest.mark.parametrize("handling", ["raise", "continue"])
def test_keyboard_interrupt_passes_through_and_the_run_is_closed_as_stopped(on: On, handling: str) -> None:
    heard = Recorder()
    graph = Graph([Graph([double, interrupted, sibling], name="inner").as_node()])
    with pytest.raises(KeyboardInterrupt):
        on.run(graph, {"a": 1}, error_handling=handling, event_processors=[heard])
    assert_closed(heard.events)
    assert [event.status for event in heard.of(RunEndEvent)] == [RunStatus.STOPPED] * 2
    assert heard.shutdowns == 1


def test_keyboard_interrupt_in_an_async_node_passes_through() -> None:
    heard = Recorder()

    @node(output_name="c")
    async def inside(b: int) -> int:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        OnAsync().run(Graph([double, inside, sibling]), {"a": 1}, event_processors=[heard])
    assert [event.status for event in heard.of(RunEndEvent)] == [RunStatus.STOPPED]
    assert_closed(heard.events)


def test_keyboard_interrupt_stops_a_map(on: On) -> None:
    heard = Recorder()
    with pytest.raises(KeyboardInterrupt):
        on.map(Graph([double, interrupted]), {"a": [1, 2]}, map_over="a", event_processors=[heard])
    assert_closed(heard.events)
    assert heard.of(RunEndEvent)[-1].status is RunStatus.STOPPED


def test_keyboard_interrupt_is_not_tried_again(on: On) -> None:
    calls: list[int] = []

    @node(output_name="y", retry=RetryPolicy(retry_on=BaseException, initial_delay=0))
    def inside(x: int) -> int:
        calls.append(x)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        on.run(Graph([inside]), {"x": 1})
    assert calls == [1]


def test_a_runner_forgets_interrupted_runs(on: On) -> None:
    with pytest.raises(KeyboardInterrupt):
        on.run(Graph([double, interrupted]), {"a": 1}, run_id="gone")
    assert on.runner.stop("gone") is False


def test_what_ends_a_background_run_is_raised_by_its_result() -> None:
    with pytest.raises(KeyboardInterrupt):
        SyncRunner().start_run(Graph([double, interrupted]), {"a": 1}).result()


# -- CancelledError ------------------------------------------------------------------------------------


def test_a_node_that_raises_cancelled_error_by_itself_has_failed(on: On) -> None:
    error = asyncio.CancelledError("by itself")

    @node(output_name="y")
    def inside(x: int) -> int:
        raise error

    nested = Graph([Graph([inside], name="inner").as_node(), sibling.with_inputs(b="x")])
    for graph in (Graph([inside]), nested):
        result = on.run(graph, {"x": 1}, error_handling="continue")
        assert result.failed
        assert result.error is error


def test_a_cancelled_run_is_closed_as_stopped_and_raises_cancelled_error() -> None:
    heard = Recorder()
    kept: dict[str, Any] = {}

    @node(output_name="c")
    async def waits(b: int) -> int:
        kept["task"].cancel()
        await asyncio.Event().wait()
        return b

    async def main() -> None:
        graph = Graph([Graph([double, waits, sibling], name="inner").as_node()])
        kept["task"] = asyncio.ensure_future(
            AsyncRunner().run(graph, {"a": 1}, error_handling="continue", event_processors=[heard])
        )
        with pytest.raises(asyncio.CancelledError):
            await kept["task"]
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())
    assert_closed(heard.events)
    assert [event.status for event in heard.of(RunEndEvent)] == [RunStatus.STOPPED] * 2


def test_a_sync_run_in_another_thread_is_not_cancelled_by_its_nodes() -> None:
    results: list[Any] = []

    @node(output_name="y")
    def inside(x: int) -> int:
        raise asyncio.CancelledError

    def work() -> None:
        results.append(SyncRunner().run(Graph([inside]), {"x": 1}, error_handling="continue"))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert results[0].failed
