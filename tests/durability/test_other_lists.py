"""Mapped nested graphs that have not ended, and take another list by now: new code makes it."""

from __future__ import annotations

from typing import Any

import pytest
from support.durable import Bodies, bodies, durable, store
from support.running import On

from hypergraph import Graph, NodeContext, node
from hypergraph.checkpointers import Checkpointer, WorkflowStatus
from hypergraph.exceptions import ItemChangedError
from hypergraph.migration import migrate

__all__ = ["bodies", "durable", "store"]  # fixtures

ANEW = "Node 'each' takes another list than 'w/each' began with: all its items begin anew, in place of . rec"


def pricing(bodies: Bodies, failing: set[str], *, repeatable: bool = True) -> Graph:
    @node(output_name="price", repeatable=repeatable)
    def price(line: str) -> str:
        bodies.enter(f"price {line}")
        return line.upper()

    @node(output_name="sent")
    def send(price: str) -> str:
        if price in failing:
            raise RuntimeError(f"{price} is refused")
        return f"{price}!"

    return Graph([price, send], name="one")


def before(one: Graph) -> Graph:
    return Graph([one.as_node(name="each").with_inputs(line="lines").map_over("lines")], name="g")


def after(one: Graph, *made: str, version: str | None = None) -> Graph:
    @node(output_name="unique")
    def dedupe(lines: list[str]) -> list[str]:
        return list(made)

    each = one.as_node(name="each").with_inputs(line="unique").map_over("unique")
    return Graph([dedupe, each], name="g", version=version)


def begin(durable: On, graph: Graph) -> None:
    durable.run(graph, lines=["a", "b", "c"], workflow_id="w", error_handling="continue")


@pytest.mark.parametrize("made", [("z", "b"), ("z", "b", "c", "d"), ("b", "a", "c"), ("z",)])
def test_all_items_begin_anew_with_another_list(
    durable: On, store: Checkpointer, bodies: Bodies, made: tuple[str, ...]
) -> None:
    failing = {"B"}
    one = pricing(bodies, failing)
    begin(durable, before(one))
    failing.clear()
    bodies.take()
    graph = after(one, *made, version="2")
    assert migrate(store, graph).runs[0].outcome == "moves"
    with pytest.warns(UserWarning, match=ANEW):
        result = durable.run(graph, workflow_id="w")
    assert result["sent"] == [f"{line.upper()}!" for line in made]
    assert bodies.take() == [f"price {line}" for line in made]
    assert [item.status for item in store.backend.children("w/each")] == [WorkflowStatus.COMPLETED] * len(
        made
    )
    assert durable.run(graph, workflow_id="w")["sent"] == result["sent"]
    assert bodies.take() == []


def test_items_of_the_same_list_are_kept(durable: On, store: Checkpointer, bodies: Bodies) -> None:
    failing = {"B"}
    one = pricing(bodies, failing, repeatable=False)
    begin(durable, before(one))
    failing.clear()
    bodies.take()
    assert durable.run(after(one, "a", "b", "c", "d"), workflow_id="w")["sent"] == ["A!", "B!", "C!", "D!"]
    assert bodies.take() in (["price d"], ["price c", "price d"])  # without waiting, all items begin at once


def test_other_pairs_of_the_same_lists_begin_anew(durable: On, store: Checkpointer, bodies: Bodies) -> None:
    @node(output_name="pair")
    def join(left: str, right: str) -> str:
        bodies.enter(left + right)
        return left + right

    def graph(mode: Any) -> Graph:
        each = Graph([join], name="one").as_node(name="each").map_over("left", "right", mode=mode)
        return Graph([each], name="g")

    bodies.failing["by"] = RuntimeError("refused")
    given = {"left": ["a", "b"], "right": ["x", "y"]}
    durable.run(graph("zip"), given, workflow_id="w", error_handling="continue")
    bodies.failing.clear()
    with pytest.warns(UserWarning, match="all its items begin anew"):
        assert durable.run(graph("product"), workflow_id="w")["pair"] == ["ax", "ay", "bx", "by"]


def test_items_that_must_not_run_again_stay(durable: On, store: Checkpointer, bodies: Bodies) -> None:
    one = pricing(bodies, {"B"}, repeatable=False)
    begin(durable, before(one))
    stored, graph = store.backend.children("w/each"), after(one, "z", "b", version="2")
    bodies.take()
    (judged,) = migrate(store, graph).runs
    why = "in 'w/each/item-0' node 'price' has completed, and must not be repeated"
    assert judged.outcome == "refused"
    assert "node 'dedupe' makes the list of 'each' anew, and its items cannot begin anew" in str(
        judged.reason
    )
    assert why in str(judged.reason)
    assert migrate(store, graph, accept=True).runs[0].outcome == "moves"
    error = durable.run(graph, workflow_id="w", error_handling="continue").error
    assert isinstance(error, ItemChangedError)
    assert f"its items cannot begin anew: {why}." in str(error)
    assert [item.id for item in store.backend.children("w/each")] == [item.id for item in stored]
    assert bodies.take() == []


def test_inner_steps_and_nodes_that_must_not_be_repeated_by_now_count(
    durable: On, store: Checkpointer, bodies: Bodies
) -> None:
    @node(output_name="price")
    async def pay(line: str, ctx: NodeContext) -> str:
        await ctx.step("pay", lambda: bodies.enter(line), repeatable=False)
        raise RuntimeError("refused")

    @node(output_name="price")
    def pay_now(line: str, ctx: NodeContext) -> str:
        ctx.step("pay", lambda: bodies.enter(line), repeatable=False)
        raise RuntimeError("refused")

    is_sync = type(durable).__name__ == "OnSync"
    one = Graph([pay_now if is_sync else pay], name="one")
    begin(durable, before(one))
    error = durable.run(after(one, "z"), workflow_id="w", error_handling="continue").error
    assert isinstance(error, ItemChangedError)
    assert "step 'pay' of node" in str(error)


def test_a_node_that_must_not_be_repeated_by_now_counts(
    durable: On, store: Checkpointer, bodies: Bodies
) -> None:
    begin(durable, before(Graph([pricing(bodies, {"B"}).as_node(name="inner")], name="outer")))
    changed = Graph([pricing(bodies, {"B"}, repeatable=False).as_node(name="inner")], name="outer")
    error = durable.run(after(changed, "z"), workflow_id="w", error_handling="continue").error
    assert isinstance(error, ItemChangedError)
    assert "in 'w/each/item-0' node 'inner/price' has begun, and must not be repeated" in str(error)
