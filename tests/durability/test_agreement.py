"""Runs that end as they would without a store: changed inputs, errors of processors, kinds of exceptions."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.processes import Elsewhere, elsewhere

from hypergraph import END, AsyncRunner, FunctionNode, Graph, RetryPolicy, SyncRunner, ifelse, node
from hypergraph.checkpointers import Checkpointer, MemoryCheckpointer, SqliteCheckpointer, WorkflowStatus
from hypergraph.events import EventProcessor

__all__ = ["elsewhere"]  # fixture
Call = Callable[..., Any]


@pytest.fixture
def store() -> Checkpointer:
    return MemoryCheckpointer()


@pytest.fixture(params=["sync", "async"])
def call(request: pytest.FixtureRequest, store: Checkpointer) -> Call:
    if request.param == "sync":
        return SyncRunner(checkpointer=store).run
    runner = AsyncRunner(checkpointer=store)
    return lambda *given, **more: asyncio.run(runner.run(*given, **more))


# -- a consumer that changes what it was given -----------------------------------------------------------


def mutating(down: list[bool], *, nested: bool = False) -> Graph:
    @node(output_name="xs")
    def make(n: int) -> list[Any]:
        return [n, {"deep": []}]

    @node(output_name="b")
    def change(xs: list[Any], given: list[int]) -> int:
        xs[1]["deep"].append(9)
        given.append(9)
        return len(given)

    @node(output_name="c")
    def stop(b: int) -> int:
        if down[0]:
            raise OSError("down")
        return b

    @node(output_name="d")
    def show(xs: list[Any], given: list[int], c: int) -> Any:
        return [*xs, *given]

    inner: Any = Graph([change], name="change").as_node() if nested else change
    return Graph([make, inner, stop, show], name="g")


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("interrupted", [False, True])
def test_the_next_node_is_given_what_is_recorded(call: Call, interrupted: bool, nested: bool) -> None:
    down = [interrupted]
    result = call(mutating(down, nested=nested), n=1, given=[0], workflow_id="w", error_handling="continue")
    if interrupted:
        down[0] = False
        result = call(mutating(down, nested=nested), workflow_id="w")
    assert result["d"] == [1, {"deep": []}, 0]


def test_a_second_attempt_is_given_what_the_first_was_given(call: Call) -> None:
    seen: list[list[int]] = []

    def flaky(xs: list[int]) -> int:
        seen.append(list(xs))
        xs.append(9)
        if len(seen) < 3:
            raise OSError("down")
        return len(xs)

    retry = RetryPolicy(max_attempts=3, initial_delay=0.0)
    call(Graph([FunctionNode(flaky, "flaky", "n", retry=retry)], name="g"), xs=[1], workflow_id="w")
    assert seen == [[1], [1], [1]]


def test_a_list_that_a_node_changes_and_returns_counts_as_changed(call: Call) -> None:
    def add(xs: list[int], said: int) -> list[int]:
        xs.append(said)
        return xs

    graph = Graph([FunctionNode(add, "add", "xs")], name="g")
    assert call(graph, xs=[], said=1, workflow_id="w")["xs"] == [1]
    assert call(graph, said=2, workflow_id="w")["xs"] == [1, 2]

    @ifelse(when_true=END, when_false="add")
    def enough(xs: list[int]) -> bool:
        return len(xs) >= 4

    looped = Graph([FunctionNode(add, "add", "xs"), enough], name="h")
    assert call(looped, xs=[], said=1, workflow_id="v")["xs"] == [1, 1, 1, 1]


def test_what_cannot_be_stored_is_shared(call: Call) -> None:
    client = object()

    def one(client: Any) -> bool:
        return True

    def two(client: Any, a: bool) -> Any:
        return client is shared

    shared = client
    graph = Graph([FunctionNode(one, "one", "a"), FunctionNode(two, "two", "b")], name="g")
    with pytest.warns(UserWarning, match="cannot be stored"):
        assert call(graph, client=client, workflow_id="w")["b"] is True


# -- processors that raise --------------------------------------------------------------------------------


class Exiting(EventProcessor):
    """A processor that ends the program at an event."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def on_event(self, event: Any) -> None:
        if type(event).__name__ == self.kind:
            raise SystemExit(3)


KINDS = ("RunStartEvent", "NodeStartEvent", "NodeEndEvent", "RunEndEvent")


@pytest.mark.parametrize("kind", KINDS)
def test_a_processor_that_exits_leaves_no_active_workflow(call: Call, store: Checkpointer, kind: str) -> None:
    graph = Graph([FunctionNode(lambda x: x, "one", "a")], name="g")
    with pytest.raises(SystemExit):
        call(graph, x=1, workflow_id="w", event_processors=[Exiting(kind)])
    assert store.workflow("w").status is not WorkflowStatus.ACTIVE
    assert call(graph, x=1, workflow_id="w")["a"] == 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_processor_that_exits_leaves_no_active_map(store: Checkpointer, kind: str) -> None:
    graph, runner = Graph([FunctionNode(lambda x: x, "one", "a")], name="g"), SyncRunner(checkpointer=store)
    with pytest.raises(SystemExit):
        runner.map(graph, x=[1, 2], map_over="x", workflow_id="m", event_processors=[Exiting(kind)])
    found = [store.workflow("m"), *store.backend.children("m")]
    assert [one.id for one in found if one.status is WorkflowStatus.ACTIVE] == []
    assert runner.map(graph, x=[1, 2], map_over="x", workflow_id="m")["a"] == [1, 2]


# -- exceptions -------------------------------------------------------------------------------------------


def exhausted(x: int) -> int:
    return next(iter(()))


async def exhausted_async(x: int) -> int:
    return next(iter(()))


@pytest.mark.parametrize("options", [{}, {"timeout": 5.0}], ids=["plain", "timed"])
@pytest.mark.parametrize("function", [exhausted, exhausted_async])
def test_a_stop_iteration_is_reported_as_one(function: Any, options: dict[str, Any]) -> None:
    store = MemoryCheckpointer()
    graph = Graph([FunctionNode(function, "n", "y", **options)], name="g")
    run = AsyncRunner(checkpointer=store).run(graph, x=1, workflow_id="w", error_handling="continue")
    result = asyncio.run(run)
    assert type(result.error) is StopIteration
    assert store.steps("w")[0].error_type == "builtins.StopIteration"


# -- crashes ----------------------------------------------------------------------------------------------


def looping(path: Path, kill_at: int | None) -> int:
    @node(output_name="n")
    def think(n: int) -> int:
        if n == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        return n + 1

    @ifelse(when_true=END, when_false="think")
    def done(n: int) -> bool:
        return n >= 12

    runner = SyncRunner(checkpointer=SqliteCheckpointer(path / "runs.db"))
    found: int = runner.run(Graph([think, done], name="g"), n=0, workflow_id="w")["n"]
    return found


@pytest.mark.slow
def test_crashes_with_progress_between_them_are_not_a_crash_loop(
    tmp_path: Path, elsewhere: Elsewhere
) -> None:
    for kill_at in (2, 4, 6, 8, 10):
        elsewhere.dies(looping, tmp_path, kill_at)
    assert elsewhere(looping, tmp_path, None) == 12
