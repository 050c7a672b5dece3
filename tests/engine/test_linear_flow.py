"""A straight line of nodes: state goes through, and every way in which it can end early is told apart."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
from support.running import run, run_async

from hypergraph import (
    END,
    AsyncRunner,
    CancellationError,
    FunctionNode,
    Graph,
    InfiniteLoopError,
    MaxIterationsError,
    NodeContext,
    NodeError,
    PanicError,
    RunResult,
    RunStatus,
    RunTimeoutError,
    SyncRunner,
    node,
    route,
)
from hypergraph.testing import FakeClock

__all__ = ["run"]
Runs = Callable[..., RunResult]


@dataclass(frozen=True)
class State:
    initial: str = ""
    step: int = 0
    progress: str = ""


class Panic(BaseException):
    """Something that is meant to end the process."""


def chain_of(*functions: Callable[..., Any], name: str = "line") -> Graph:
    """Return a graph that hands "s0" through the functions: s0 -> s1 -> s2 ..."""
    return Graph(
        [
            FunctionNode(function, output_name=f"s{i + 1}", rename_inputs={"state": f"s{i}"})
            for i, function in enumerate(functions)
        ],
        name=name,
    )


# -- success ------------------------------------------------------------------------------------------


def test_a_line_of_nodes_runs_to_its_end(run: Runs) -> None:
    def increment(value: int) -> int:
        return value + 1

    line = [
        FunctionNode(increment, f"inc{i}", f"v{i}", rename_inputs={"value": f"v{i - 1}"}) for i in (1, 2, 3)
    ]
    result = run(Graph(line), {"v0": 0})
    assert result.completed
    assert result["v3"] == 3


def test_each_node_receives_what_the_one_before_returned(run: Runs) -> None:
    seen: dict[str, State] = {}

    def a(state: State) -> State:
        seen["a"] = state
        return replace(state, step=1)

    def b(state: State) -> State:
        seen["b"] = state
        return replace(state, step=2)

    result = run(chain_of(a, b), {"s0": State(initial="test")})
    assert seen["a"].initial == "test"
    assert seen["b"].step == 1
    assert result["s2"].step == 2


# -- errors -------------------------------------------------------------------------------------------


def ok(state: Any) -> Any:
    return state


def test_an_error_is_the_nodes_own_and_its_evidence_names_the_node(run: Runs) -> None:
    boom = ValueError("boom")

    def fail(state: State) -> State:
        raise boom

    with pytest.raises(ValueError, match="boom") as caught:
        run(chain_of(ok, fail), {"s0": State()})
    assert caught.value is boom
    evidence = NodeError.of(caught.value)
    assert evidence is not None
    assert evidence.node_name == "fail"
    assert evidence.cause is boom
    assert str(evidence) == "node fail: execute: boom"
    assert evidence.values == {"s0": State(), "s1": State()}


def test_progress_made_before_the_error_is_kept(run: Runs) -> None:
    def halfway(state: dict[str, str]) -> dict[str, str]:
        state["progress"] = "halfway"
        raise RuntimeError("failed")

    result = run(chain_of(halfway), {"s0": {}}, error_handling="continue")
    assert result.failed
    assert result.failure is not None
    assert result.failure.inputs == {"s0": {"progress": "halfway"}}
    assert result.failure.values["s0"] == {"progress": "halfway"}


# -- panics -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [Panic("unexpected error"), Panic(42), SystemExit(3)])
def test_a_panic_is_reported_with_node_value_and_stack(run: Runs, value: BaseException) -> None:
    def panic_node(state: State) -> State:
        raise value

    with pytest.raises(PanicError) as caught:
        run(chain_of(panic_node), {"s0": State()})
    assert caught.value.node_name == "panic_node"
    assert caught.value.value is value
    assert "panic_node" in caught.value.stack
    assert str(caught.value) == f"node panic_node panicked: {value}"


# -- cancellation and time ----------------------------------------------------------------------------


def test_a_stop_between_nodes_keeps_what_was_completed(run: Runs) -> None:
    completed: list[str] = []

    def slow(state: State, ctx: NodeContext) -> str:
        stop(ctx.run_id)
        completed.append("slow")
        return "slow"

    def following(state: str) -> str:
        completed.append("following")
        return state

    runner = SyncRunner()
    stop: Callable[[str], bool] = runner.stop
    graph = chain_of(slow, following)
    if run is run_async:
        async_runner = AsyncRunner()
        stop = async_runner.stop
        call: Callable[[], Any] = lambda: asyncio.run(async_runner.run(graph, {"s0": State()}))  # noqa: E731
    else:
        call = lambda: runner.run(graph, {"s0": State()})  # noqa: E731
    with pytest.raises(CancellationError) as caught:
        call()
    assert completed == ["slow"]
    assert caught.value.was_executing is False
    assert caught.value.node_name == "following"
    assert caught.value.values["s1"] == "slow"
    assert str(caught.value) == "cancelled before node following: stop requested"


def test_a_run_that_takes_too_long_ends_with_a_timeout(run: Runs) -> None:
    def slow(state: State, ctx: NodeContext) -> State:
        clock.jump(3600)
        ctx.check()
        return state

    with FakeClock(skip=True) as clock, pytest.raises(TimeoutError) as caught:
        run(chain_of(slow), {"s0": State()}, timeout=60)
    assert isinstance(caught.value, RunTimeoutError)
    assert isinstance(caught.value.cause, TimeoutError)
    assert caught.value.timeout == 60
    assert caught.value.was_executing is True


# -- loops --------------------------------------------------------------------------------------------


@node(output_name="count")
def loop(count: int) -> int:
    return count + 1


@route(targets=["loop", END])
def again(count: int) -> str:
    return "loop"


def test_a_loop_that_never_ends_is_ended(run: Runs) -> None:
    with pytest.raises(InfiniteLoopError, match="exceeded maximum iterations") as caught:
        run(Graph([loop, again]), {"count": 0}, max_iterations=10)
    assert isinstance(caught.value, MaxIterationsError)
    assert caught.value.max_iterations == 10
    assert "10" in str(caught.value)
    assert caught.value.values == {"count": 9}  # the gate was asked ten times, first before the node ran
    assert caught.value.log.node_stats["again"].count == 10


def test_a_loop_may_take_a_thousand_rounds_by_default(run: Runs) -> None:
    result = run(Graph([loop, again]), {"count": 0}, error_handling="continue")
    assert result.status is RunStatus.FAILED
    assert isinstance(result.error, InfiniteLoopError)
    assert result.error.max_iterations == 1000
    assert result.log.node_stats["again"].count == 1000


# -- context ------------------------------------------------------------------------------------------


def test_a_node_sees_the_run_id_and_the_very_logger_given() -> None:
    seen: list[NodeContext] = []

    def capture(state: State, ctx: NodeContext) -> State:
        seen.append(ctx)
        return state

    logger = logging.getLogger("tests.linear_flow")
    SyncRunner(logger=logger).run(chain_of(capture), {"s0": State()}, run_id="test-123")
    asyncio.run(AsyncRunner(logger=logger).run(chain_of(capture), {"s0": State()}, run_id="test-123"))
    assert [context.run_id for context in seen] == ["test-123"] * 2
    assert all(context.logger is logger for context in seen)
