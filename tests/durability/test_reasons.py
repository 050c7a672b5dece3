"""Why a run ended between its steps: stored, shown, copied, and dropped when the run goes on."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from support.cli import Cli
from support.durable import durable, store
from support.running import On

from hypergraph import (
    END,
    AsyncRunner,
    BudgetExceededError,
    Graph,
    InfiniteLoopError,
    NodeContext,
    SyncRunner,
    node,
    route,
)
from hypergraph.checkpointers import Checkpointer, SqliteCheckpointer, WorkflowStatus
from hypergraph.views.errors import errors, failures
from hypergraph.views.export import exported, imported

__all__ = ["durable", "store"]  # fixtures


@node(output_name="count")
def add(count: int, ctx: NodeContext) -> int:
    ctx.record(calls=1)
    return count + 1


@route(targets=["add", END])
def enough(count: int) -> Any:
    return END if count >= 20 else "add"


LOOP = Graph([add, enough], name="loop")


def endless(on: On, graph: Graph, **options: Any) -> None:
    with pytest.raises(InfiniteLoopError):
        on.run(graph, count=0, max_iterations=5, **options)


def test_an_endless_loop_says_so_in_its_workflow_until_it_goes_on(durable: On, store: Checkpointer) -> None:
    endless(durable, LOOP, workflow_id="w")
    reason = store.workflow("w").reason or ""
    assert reason.startswith("InfiniteLoopError: The run exceeded maximum iterations (5)")
    assert failures(store, "w")["reason"] == reason
    (group,) = errors(store, "w")["items"]
    assert (group["node"], group["error_type"], group["count"]) == ("", "InfiniteLoopError", 1)
    assert durable.run(LOOP, workflow_id="w")["count"] == 20
    assert store.workflow("w").reason is None


def test_a_budget_that_is_used_up_says_so(durable: On, store: Checkpointer) -> None:
    with pytest.raises(BudgetExceededError):
        durable.run(LOOP, count=0, budget={"calls": 3}, workflow_id="w")
    assert "the budget is used up: calls is" in (store.workflow("w").reason or "")


def test_a_nested_loop_is_one_error_of_the_node_around_it(durable: On, store: Checkpointer) -> None:
    endless(durable, Graph([LOOP.as_node()], name="around"), workflow_id="w")
    assert store.workflow("w").reason is None
    assert "maximum iterations" in (store.workflow("w/loop").reason or "")
    (group,) = errors(store, "w")["items"]
    assert (group["node"], group["count"]) == ("loop", 1)
    assert len(failures(store, "w")["items"]) == 1


def test_items_of_a_map_are_counted_each(durable: On, store: Checkpointer) -> None:
    options: dict[str, Any] = {"map_over": "count", "error_handling": "continue", "max_iterations": 5}
    durable.map(LOOP, count=[0, 18, 1], workflow_id="m", **options)
    assert [group["count"] for group in errors(store, "m")["items"]] == [2]


def test_the_reason_is_copied_with_the_workflow(tmp_path: Path) -> None:
    first, second = (SqliteCheckpointer(tmp_path / name) for name in ("first.db", "second.db"))
    with pytest.raises(InfiniteLoopError):
        SyncRunner(checkpointer=first).run(LOOP, count=0, max_iterations=5, workflow_id="w")
    imported(second, b"".join(exported(first, "w", lines=True)))
    assert second.workflow("w").reason == first.workflow("w").reason


def test_show_and_errors_print_it(tmp_path: Path) -> None:
    cli = Cli(tmp_path / "w.db")
    with pytest.raises(InfiniteLoopError):
        SyncRunner(checkpointer=SqliteCheckpointer(cli.database)).run(
            LOOP, count=0, max_iterations=5, workflow_id="w"
        )
    for command in (("show", "w"), ("show", "w", "--errors"), ("errors", "w")):
        assert "InfiniteLoopError: The run exceeded maximum iterations (5)" in cli(*command).out
    assert "resume w" in cli("show", "w").out


def chat(waits: list[bool]) -> Graph:
    """A graph whose node waits without end until the list is empty."""

    @node(output_name="reply")
    async def reply(said: str) -> str:
        if waits:
            await asyncio.Event().wait()
        return said.upper()

    return Graph([reply], name="chat")


def test_a_run_whose_task_was_cancelled_says_so_until_it_is_resumed(tmp_path: Path) -> None:
    """As the end of an event loop does: a server that starts again finds what it has to resume."""
    cli, waits = Cli(tmp_path / "w.db"), [True]
    store, graph = SqliteCheckpointer(cli.database), chat(waits)
    outer = Graph([graph.as_node()], name="outer")

    async def begin() -> None:
        for number, one in enumerate((graph, outer)):
            handle = AsyncRunner(checkpointer=store).start_run(one, said="tea", workflow_id=f"w{number}")
            await handle.started()
            while store.backend.read_owners({"w1/chat"}) == {} and one is outer:
                await asyncio.sleep(0)

    asyncio.run(begin())
    for number, one in enumerate((graph, outer)):
        stopped = store.workflow(f"w{number}")
        assert stopped.status is WorkflowStatus.STOPPED
        assert stopped.reason == "CancelledError: the task of the run was cancelled"
        shown = cli("show", f"w{number}").out
        assert "reason: CancelledError: the task of the run was cancelled" in shown
        assert f"next: hypergraph resume w{number}" in shown.replace(f"--db {cli.database} ", "")
        waits.clear()
        assert (
            asyncio.run(AsyncRunner(checkpointer=store).run(one, workflow_id=f"w{number}"))["reply"] == "TEA"
        )
        assert store.workflow(f"w{number}").reason is None
    assert store.workflow("w1/chat").reason is None


def test_a_run_that_ctrl_c_has_ended_says_so(durable: On, store: Checkpointer) -> None:
    def interrupted(x: int) -> int:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        durable.run(Graph([node(output_name="y")(interrupted)], name="g"), x=1, workflow_id="w")
    assert store.workflow("w").reason == "KeyboardInterrupt"


def test_a_map_that_ctrl_c_has_ended_says_so_until_it_is_resumed(durable: On, store: Checkpointer) -> None:
    interrupts: list[int] = []

    def interrupted(x: int) -> int:
        if interrupts and x == 2:
            interrupts.clear()
            raise KeyboardInterrupt
        return x

    graph = Graph([node(output_name="y")(interrupted)], name="g")
    outer = Graph([graph.as_node(name="each").map_over("x")], name="outer")
    for call, one in ((durable.map, graph), (durable.run, outer)):
        interrupts.append(2)
        options: dict[str, Any] = {"map_over": "x"} if one is graph else {}
        with pytest.raises(KeyboardInterrupt):
            call(one, x=[1, 2, 3], workflow_id=one.name, **options)
        assert store.workflow(str(one.name)).status is WorkflowStatus.STOPPED
        assert store.workflow(str(one.name)).reason == "KeyboardInterrupt"
        assert store.workflow("g/item-1").reason is None
        assert call(one, x=[1, 2, 3], workflow_id=one.name, **options)["y"] == [1, 2, 3]
        assert store.workflow(str(one.name)).reason is None
    assert store.workflow("outer/each").reason is None


def test_a_map_in_which_an_item_failed_has_no_reason_of_its_own(durable: On, store: Checkpointer) -> None:
    def fails(x: int) -> int:
        raise ValueError(x)

    graph = Graph([node(output_name="y")(fails)], name="g")
    with pytest.raises(ValueError, match="1"):
        durable.map(graph, x=[1, 2], map_over="x", workflow_id="w")
    assert (store.workflow("w").status, store.workflow("w").reason) == (WorkflowStatus.FAILED, None)


def test_a_map_whose_task_was_cancelled_says_so(tmp_path: Path) -> None:
    cli, waits = Cli(tmp_path / "w.db"), [True]
    store, graph = SqliteCheckpointer(cli.database), chat(waits)

    async def begin() -> None:
        handle = AsyncRunner(checkpointer=store).start_map(
            graph, said=["tea", "milk"], map_over="said", workflow_id="w"
        )
        await handle.started()

    asyncio.run(begin())
    assert store.workflow("w").reason == "CancelledError: the task of the run was cancelled"
    assert "reason: CancelledError: the task of the run was cancelled" in cli("show", "w").out
    waits.clear()
    runner = AsyncRunner(checkpointer=store)
    found = asyncio.run(runner.map(graph, said=["tea", "milk"], map_over="said", workflow_id="w"))
    assert found["reply"] == ["TEA", "MILK"]
    assert store.workflow("w").reason is None


def test_a_stopped_run_without_a_reason_is_resumed_next(tmp_path: Path) -> None:
    cli = Cli(tmp_path / "w.db")
    store = SqliteCheckpointer(cli.database)
    store.create_workflow("w", graph_name="loop")
    store.cancel("w")
    assert store.workflow("w").reason is None
    assert "resume w" in cli("show", "w").out


def _stopped_graphs(stop: list[Any]) -> dict[str, tuple[Graph, Any]]:
    """Return graphs whose first node has the run stopped, which the second one notices at some depth."""

    @node(output_name="half")
    def first(x: int) -> int:
        stop[-1]()
        return x

    @node(output_name="out")
    def second(half: int) -> int:
        return half

    @node(output_name="out")
    def looks(x: int, ctx: NodeContext) -> int:
        stop[-1]()
        ctx.check()
        return x

    one, within = Graph([first, second], name="one"), Graph([looks], name="within")
    return {
        "flat": (one, 1),
        "nested": (Graph([one.as_node()], name="g"), 1),
        "twice nested": (Graph([Graph([one.as_node()], name="m").as_node()], name="g"), 1),
        "mapped": (Graph([one.as_node().map_over("x")], name="g"), [1, 2]),
        "continued": (Graph([one.as_node().map_over("x", error_handling="continue")], name="g"), [1, 2]),
        "while it runs": (within, 1),
        "nested, while it runs": (Graph([within.as_node()], name="g"), 1),
        "map": (one, [1, 2]),
        "map of nested graphs": (Graph([one.as_node()], name="g"), [1, 2]),
    }


@pytest.mark.parametrize("shape", _stopped_graphs([]))
def test_a_run_that_was_stopped_says_why_wherever_that_was_noticed(
    durable: On, store: Checkpointer, shape: str
) -> None:
    stop: list[Any] = []
    graph, x = _stopped_graphs(stop)[shape]
    stop.append(lambda: durable.runner.stop("w", "SIGTERM"))
    if shape in ("map", "map of nested graphs"):
        durable.map(graph, x=x, map_over="x", workflow_id="w", error_handling="continue")
    else:
        durable.run(graph, x=x, workflow_id="w", error_handling="continue")
    found = [*store.workflows(), *_below(store, "w")]
    assert {each.status for each in found} == {WorkflowStatus.STOPPED}
    for each in found:
        assert str(each.reason).startswith("CancellationError: cancelled "), each.id
        assert str(each.reason).endswith("stop requested: SIGTERM"), each.id
    assert len(failures(store, "w")["items"]) <= 1  # it counts where it happened


def _below(store: Checkpointer, workflow_id: str) -> list[Any]:
    found = list(store.workflows(parent=workflow_id))
    return [*found, *(each for one in found for each in _below(store, one.id))]
