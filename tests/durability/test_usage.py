"""What nodes record, budgets and services: sums that count everything once, and limits that hold."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from support.durable import durable, store
from support.running import On, OnAsync, OnSync

from hypergraph import END, AsyncRunner, Graph, NodeContext, RetryPolicy, RunStatus, SyncRunner, node, route
from hypergraph.checkpointers import Checkpointer, MemoryCheckpointer
from hypergraph.exceptions import BudgetExceededError, MissingServiceError

__all__ = ["durable", "store"]  # fixtures


@node(output_name="y")
def spend(x: float, ctx: NodeContext) -> float:
    ctx.record(cost=x, calls=1)
    return x


@pytest.mark.parametrize("kind", [OnSync, OnAsync])
def test_amounts_are_summed_in_the_log_with_and_without_a_store(kind: type[On], store: Checkpointer) -> None:
    for runner in (kind(), kind(checkpointer=store)):
        log = runner.run(Graph([spend]), x=0.5).log
        assert log.usage == {"cost": 0.5, "calls": 1}
        assert log.node_stats["spend"].usage == {"cost": 0.5, "calls": 1}
        assert "Cost" in str(log)
    assert "Cost" not in str(kind().run(Graph([node(lambda x: x, "y").with_name("plain")]), x=1).log)


def test_items_nested_graphs_and_atomic_ones_add_up(durable: On) -> None:
    inner = Graph([spend], name="inner")
    outer = Graph([inner.as_node(name="nested").map_over("x")])
    result = durable.run(outer, x=[1, 2, 3], workflow_id="w")
    assert result.log.usage == {"cost": 6, "calls": 3}
    kept = durable.runner.checkpointer
    assert kept is not None
    assert kept.usage("w") == {"cost": 6, "calls": 3}
    assert kept.usage("w/nested/item-1") == {"cost": 2, "calls": 1}
    durable.map(Graph([spend]), x=[1, 2], map_over="x", workflow_id="m")
    assert kept.usage("m") == {"cost": 3, "calls": 2}
    atomic = Graph([inner.as_node(name="whole", durability="atomic")])
    durable.run(atomic, x=4, workflow_id="a")
    assert kept.usage("a") == {"cost": 4, "calls": 1}


@pytest.mark.parametrize(
    ("amount", "error"),
    [
        (float("nan"), ValueError),
        (-1, ValueError),
        (float("inf"), ValueError),
        (10**30, ValueError),
        (1e300, ValueError),
        ("1", TypeError),
        (True, TypeError),
    ],
)
def test_what_is_not_an_amount_is_refused(amount: Any, error: type[Exception]) -> None:
    @node(output_name="y")
    def wrong(x: int, ctx: NodeContext) -> int:
        ctx.record(tokens=1, cost=amount)
        return x

    result = SyncRunner().run(Graph([wrong]), x=1, error_handling="continue")
    assert isinstance(result.error, error)
    assert result.log.usage == {}


def test_a_fork_counts_what_it_ran_itself(durable: On) -> None:
    @node(output_name="z")
    def more(y: float, ctx: NodeContext) -> float:
        ctx.record(cost=10)
        return y

    graph = Graph([spend, more])
    durable.run(graph, x=1, workflow_id="w")
    durable.run(graph, workflow_id="f", fork_from=("w", 0))
    kept = durable.runner.checkpointer
    assert kept is not None
    assert (kept.usage("w"), kept.usage("f")) == ({"cost": 11, "calls": 1}, {"cost": 10})


def test_a_turn_has_its_own_sum_and_the_workflow_all_of_them(durable: On) -> None:
    durable.run(Graph([spend]), x=1, workflow_id="w")
    second = durable.run(Graph([spend]), x=2, workflow_id="w")
    kept = durable.runner.checkpointer
    assert kept is not None
    assert (second.log.usage, kept.usage("w")) == ({"cost": 2, "calls": 1}, {"cost": 3, "calls": 2})


@pytest.mark.parametrize("seed", range(25))
def test_sums_agree_with_a_simple_count_over_failures_retries_and_resumes(seed: int) -> None:
    """The oracle is a list to which each amount is added when it is recorded, outside of the library."""
    chance = random.Random(seed)
    kept, true = MemoryCheckpointer(), {"own": 0, "inner": 0}

    def tool(ctx: NodeContext, amount: int) -> int:
        ctx.record(inner=amount)
        true["inner"] += amount
        if chance.random() < 0.2:
            raise OSError("tool")
        return amount

    @node(output_name="n", retry=RetryPolicy(max_attempts=2, initial_delay=0))
    def work(n: int, ctx: NodeContext) -> int:
        for number in range(3):
            ctx.step(f"tool {number}", tool, ctx, n + number + 1)
            amount = chance.randrange(5)
            ctx.record(own=amount)
            true["own"] += amount
        if chance.random() < 0.3:
            raise OSError("node")
        return n + 1

    @route(targets=["work", END])
    def enough(n: int) -> Any:
        return "work" if n < 4 else END

    graph, runner = Graph([work, enough]), SyncRunner(checkpointer=kept)
    logged = {"own": 0, "inner": 0}
    given: dict[str, Any] = {"n": 0}
    for _ in range(60):
        result = runner.run(graph, given, workflow_id="w", error_handling="continue")
        for name, amount in result.log.usage.items():
            logged[name] += int(amount)
        given = {}
        if result.completed:
            break
    found = kept.usage("w")
    assert {name: found.get(name, 0) for name in true} == true
    assert logged == true


# -- budgets ------------------------------------------------------------------------------------------------


@node(output_name="n")
def step_on(n: int, ctx: NodeContext) -> int:
    ctx.record(cost=1.0)
    return n + 1


@route(targets=["step_on", END])
def until_ten(n: int) -> Any:
    return "step_on" if n < 10 else END


LOOP = Graph([step_on, until_ten])


@pytest.mark.parametrize("kind", [OnSync, OnAsync])
def test_nothing_new_begins_once_the_budget_is_spent(kind: type[On]) -> None:
    with pytest.raises(BudgetExceededError, match="cost is 3, and the budget 3") as caught:
        kind().run(LOOP, n=0, budget={"cost": 3})
    assert caught.value.name == "cost"
    assert caught.value.values["n"] == 3
    assert kind().run(LOOP, n=0, budget={"cost": 10.5})["n"] == 10
    assert kind().run(Graph([spend]), x=1, budget={"cost": 1})["y"] == 1  # it is spent with the last node


@pytest.mark.parametrize("kind", [OnSync, OnAsync])
def test_a_budget_for_what_is_recorded_under_another_name_is_reported(kind: type[On]) -> None:
    with pytest.warns(UserWarning, match="limits 'tokens', of which nothing was recorded. .* limit: 'cost'"):
        assert kind().run(LOOP, n=0, budget={"tokens": 1})["n"] == 10
    with pytest.warns(UserWarning, match="limits 'costs'"):
        kind().map(LOOP, n=[0, 0], map_over="n", budget={"costs": 1})


def test_a_larger_budget_resumes_and_counts_what_was_spent(durable: On) -> None:
    stopped = durable.run(LOOP, n=0, workflow_id="w", budget={"cost": 4}, error_handling="continue")
    assert (stopped.status, isinstance(stopped.error, BudgetExceededError)) == (RunStatus.STOPPED, True)
    with pytest.raises(BudgetExceededError):
        durable.run(LOOP, workflow_id="w", budget={"cost": 4})
    with pytest.raises(BudgetExceededError):
        durable.run(LOOP, workflow_id="w", budget={"cost": 6})
    assert durable.run(LOOP, workflow_id="w", budget={"cost": 100})["n"] == 10
    kept = durable.runner.checkpointer
    assert kept is not None
    assert kept.usage("w") == {"cost": 10}


def test_inner_steps_do_not_begin_without_budget_but_are_replayed(durable: On) -> None:
    calls: list[int] = []

    @node(output_name="out")
    def agent(x: int, ctx: NodeContext) -> int:
        def tool(n: int) -> int:
            calls.append(n)
            ctx.record(cost=1)
            return n

        return sum(ctx.step(f"tool {n}", tool, n) for n in range(5))

    with pytest.raises(BudgetExceededError):
        durable.run(Graph([agent]), x=1, workflow_id="w", budget={"cost": 2})
    assert calls == [0, 1]
    assert durable.run(Graph([agent]), workflow_id="w", budget={"cost": 50})["out"] == 10
    assert calls == [0, 1, 2, 3, 4]


def test_a_map_has_one_budget(durable: On) -> None:
    with pytest.raises(BudgetExceededError):
        durable.map(LOOP, n=[0, 0, 0], map_over="n", workflow_id="m", budget={"cost": 15})
    results = durable.map(LOOP, n=[0, 0, 0], map_over="n", workflow_id="m", budget={"cost": 31})
    assert results["n"] == [10, 10, 10]


@pytest.mark.parametrize("bad", [{}, {"cost": 0}, {"cost": -1}, {"cost": "1"}, {"cost": True}, 3, {1: 2}])
def test_a_budget_is_a_mapping_to_positive_numbers(bad: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="budget"):
        SyncRunner().run(LOOP, n=0, budget=bad)


# -- services -----------------------------------------------------------------------------------------------


class Client:
    """Something that cannot be stored."""

    def __init__(self, name: str) -> None:
        self.name = name


@node(output_name="said")
def ask(x: int, ctx: NodeContext) -> str:
    return ctx.service("llm", Client).name


def test_services_come_from_the_call_or_the_runner_and_are_not_stored(store: Checkpointer) -> None:
    nested = Graph([Graph([ask], name="inner").as_node(name="nested")])
    for graph in (Graph([ask]), nested):
        for runner in (
            SyncRunner(services={"llm": Client("of the runner")}),
            SyncRunner(checkpointer=store, services={"llm": Client("of the runner")}),
            OnAsync(checkpointer=store, services={"llm": Client("of the runner")}),
        ):
            assert runner.run(graph, x=1)["said"] == "of the runner"
            assert runner.run(graph, x=1, services={"llm": Client("of the call")})["said"] == "of the call"
            results = runner.map(graph, x=[1, 2], map_over="x", services={"llm": Client("of the map")})
            assert results["said"] == ["of the map"] * 2
    for workflow in store.workflows(limit=None):
        assert "llm" not in str(store.state(workflow.id))
    found = asyncio.run(AsyncRunner().run(Graph([ask]), x=1, services={"llm": Client("in a loop")}))
    assert found["said"] == "in a loop"


def test_a_service_that_is_missing_or_of_another_class_is_an_error() -> None:
    with pytest.raises(MissingServiceError, match=r"asks for the service 'llm'. Given are: db"):
        SyncRunner(services={"db": 1}).run(Graph([ask]), x=1)
    with pytest.raises(TypeError, match="as Client, and it is int"):
        SyncRunner().run(Graph([ask]), x=1, services={"llm": 1})
    with pytest.raises(TypeError, match="services must be"):
        SyncRunner().run(Graph([ask]), x=1, services=[Client("x")])  # type: ignore[arg-type]
