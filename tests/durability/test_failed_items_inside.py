"""Failed items of a map inside a run: repaired after the map has ended, retried, counted and kept."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
from support.durable import durable as either
from support.durable import store
from support.running import On, OnSync

from hypergraph import END, FunctionNode, Graph, interrupt, node, route
from hypergraph.checkpointers import (
    Checkpointer,
    MemoryCheckpointer,
    SqliteCheckpointer,
    WorkflowStatus,
    copy_store,
)
from hypergraph.checkpointers.records import NewWorkflow
from hypergraph.exceptions import WorkflowError, WorkflowLockedError
from hypergraph.runners import SyncRunner
from hypergraph.views.export import exported, imported

__all__ = ["either", "store"]  # fixtures


@pytest.fixture
def durable(store: Checkpointer) -> On:
    """A runner over the store; most of what is tested here is not part of it."""
    return OnSync(checkpointer=store)


class Shop:
    """A graph whose items fail while they are in `bad`; it notes its calls."""

    def __init__(self, bad: set[int], *, strict: bool = False) -> None:
        self.bad, self.calls, self.strict = bad, list[str](), strict
        halve, add = FunctionNode(self.halve, output_name="half"), FunctionNode(self.add, output_name="total")
        self.one = Graph([FunctionNode(self.look, output_name="seen"), halve], name="one")
        self.each = self.one.as_node(name="each").map_over("n", error_handling="continue")
        self.graph = Graph([self.each, add], name="shop")

    def look(self, n: int) -> int:
        self.calls.append(f"look {n}")
        return n

    def halve(self, seen: int) -> int:
        self.calls.append(f"halve {seen}")
        if seen in self.bad:
            raise ValueError(f"{seen} is bad")
        return seen // 2

    def add(self, half: list[int | None]) -> int:
        self.calls.append("add")
        if self.strict and None in half:
            raise TypeError("an item is missing")
        return sum(h or 0 for h in half)

    def called(self) -> list[str]:
        found, self.calls = self.calls, []
        return found


def broken(durable: On, bad: set[int], **options: Any) -> Shop:
    """Return a shop that completed with failed items under the id "w"."""
    shop = Shop(set(bad))
    durable.run(shop.graph, n=[2, 4, 6, 8], workflow_id="w", **options)
    shop.called()
    return shop


def test_a_repaired_item_makes_the_list_again_and_what_read_it(either: On, store: Checkpointer) -> None:
    shop, durable = broken(either, {4}), either
    assert store.state("w")["half"] == [1, None, 3, 4]
    assert store.workflow("w/each").status is WorkflowStatus.PARTIAL
    shop.bad.clear()
    durable.run(shop.one, workflow_id="w/each/item-1")
    assert shop.called() == ["halve 4"]
    assert store.workflow("w/each").status is WorkflowStatus.COMPLETED
    result = durable.run(shop.graph, workflow_id="w")
    assert shop.called() == ["add"]
    assert result["half"] == result.nested["each"]["half"] == [1, 2, 3, 4]
    assert result["total"] == store.state("w")["total"] == 10
    assert store.state("w")["half"] == store.state("w/each")["half"]
    assert {found.id for found in store.workflows(parent="w")} == {"w/each"}
    assert durable.run(shop.graph, workflow_id="w")["total"] == 10
    assert shop.called() == []


def test_other_failed_items_run_again_with_the_map(durable: On, store: Checkpointer) -> None:
    shop = broken(durable, {4, 6})
    shop.bad.clear()
    durable.run(shop.one, workflow_id="w/each/item-1")
    assert store.workflow("w/each").status is WorkflowStatus.PARTIAL
    shop.called()
    assert durable.run(shop.graph, workflow_id="w")["half"] == [1, 2, 3, 4]
    assert shop.called() == ["halve 6", "add"]
    assert store.workflow("w/each").status is WorkflowStatus.COMPLETED


def test_an_item_that_fails_again_changes_nothing(durable: On, store: Checkpointer) -> None:
    shop = broken(durable, {4})
    durable.run(shop.one, workflow_id="w/each/item-1", error_handling="continue")
    shop.called()
    assert durable.run(shop.graph, workflow_id="w")["half"] == [1, None, 3, 4]
    assert shop.called() == []


def test_a_run_that_failed_on_a_missing_item_takes_the_repaired_one(durable: On) -> None:
    shop = Shop({4}, strict=True)
    durable.run(shop.graph, n=[2, 4], workflow_id="w", error_handling="continue")
    shop.bad.clear()
    durable.run(shop.one, workflow_id="w/each/item-1")
    shop.called()
    assert durable.run(shop.graph, workflow_id="w")["total"] == 3
    assert shop.called() == ["add"]


def test_a_corrected_item_keeps_its_inputs(durable: On, store: Checkpointer) -> None:
    shop = broken(durable, {4})
    durable.run(shop.one, n=40, workflow_id="w/each/item-1")  # one that failed, and
    durable.run(shop.one, n=60, workflow_id="w/each/item-2")  # one that had completed
    shop.called()
    result = durable.run(shop.graph, workflow_id="w")
    assert result["half"] == [1, 20, 30, 4]
    assert shop.called() == ["add"]
    assert store.inputs("w/each")["n"] == [2, 40, 60, 8]


def test_a_failure_after_the_list_was_made_again_repeats_nothing(durable: On) -> None:
    shop = broken(durable, {4})
    shop.bad.clear()
    durable.run(shop.one, workflow_id="w/each/item-1")
    shop.called()
    fails = FunctionNode(lambda half: 1 // 0, name="add", output_name="total")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # other code
        durable.run(Graph([shop.each, fails], name="shop"), workflow_id="w", error_handling="continue")
        assert shop.called() == []
        result = durable.run(shop.graph, workflow_id="w")
    assert shop.called() == ["add"]
    assert (result["half"], result["total"]) == ([1, 2, 3, 4], 10)


@pytest.mark.parametrize(("restart", "calls"), [("node", []), ("item", ["look 4"])])
def test_failed_items_run_again_if_the_caller_says_so(durable: On, restart: str, calls: list[str]) -> None:
    shop = broken(durable, {4})
    assert durable.run(shop.graph, workflow_id="w")["total"] == 8
    assert shop.called() == []
    shop.bad.clear()
    assert durable.run(shop.graph, workflow_id="w", restart=restart)["total"] == 10
    assert shop.called() == [*calls, "halve 4", "add"]
    assert durable.run(shop.graph, workflow_id="w", restart=restart)["total"] == 10
    assert shop.called() == []


def test_maps_deep_inside_are_brought_up_to_date(durable: On, store: Checkpointer) -> None:
    shop = Shop({4, 6})
    outer = Graph([shop.graph.as_node(name="sub"), FunctionNode(lambda total: -total, "negate", "debt")])
    assert durable.run(outer, n=[2, 4, 6], workflow_id="w")["debt"] == -1
    shop.bad.remove(4)
    durable.run(shop.one, workflow_id="w/sub/each/item-1")
    shop.called()
    assert durable.run(outer, workflow_id="w")["debt"] == -3
    assert shop.called() == ["halve 6", "add"]
    shop.bad.clear()
    assert durable.run(outer, workflow_id="w", restart="node")["debt"] == -6
    assert shop.called() == ["halve 6", "add"]
    assert store.state("w/sub")["total"] == 6


def test_a_fork_takes_along_what_was_repaired(durable: On, store: Checkpointer) -> None:
    shop = broken(durable, {4, 6})
    shop.bad.clear()
    durable.run(shop.one, workflow_id="w/each/item-1")
    assert durable.run(shop.graph, fork_from=("w", None), workflow_id="v")["half"] == [1, 2, 3, 4]
    shop = broken(durable, set())
    durable.run(shop.graph, fork_from=("v", None), workflow_id="u")
    shop.called()
    durable.run(shop.one, n=20, workflow_id="u/each/item-0")
    shop.called()
    assert durable.run(shop.graph, workflow_id="u")["half"] == [10, 2, 3, 4]
    assert shop.called() == ["add"]
    assert durable.run(shop.graph, workflow_id="v")["half"] == [1, 2, 3, 4]


def test_a_question_about_the_list_is_asked_again(durable: On) -> None:
    shop = Shop({4})

    @interrupt("verdict")
    def judge(half: list[int | None]) -> str | None:
        return None

    graph = Graph([shop.each, judge], name="judged")
    durable.run(graph, n=[2, 4], workflow_id="w")
    shop.bad.clear()
    durable.run(shop.one, workflow_id="w/each/item-1")
    with pytest.warns(UserWarning, match="verdict|judge"):
        result = durable.run(graph, workflow_id="w")
    assert result.paused
    assert result["half"] == [1, 2]
    assert durable.run(graph, verdict="good", workflow_id="w").completed


def test_a_list_that_cannot_be_made_again_is_warned_about() -> None:
    shop = Shop({4})
    runner = SyncRunner(checkpointer=MemoryCheckpointer())

    @node(output_name="totals", append=True)
    def note(half: list[int | None]) -> int:
        return sum(h or 0 for h in half)

    graph = Graph([shop.each, note], name="noted")
    runner.run(graph, n=[2, 4], workflow_id="w")
    shop.bad.clear()
    runner.run(shop.one, workflow_id="w/each/item-1")
    with pytest.warns(UserWarning, match="'w' is not up to date with 'w/each'.*'note' adds to what it made"):
        assert runner.run(graph, workflow_id="w")["totals"] == [1]


def test_pruning_keeps_a_run_with_failed_items_inside(durable: On, store: Checkpointer) -> None:
    shop = broken(durable, {4})
    outer = Graph([shop.graph.as_node(name="sub")], name="outer")
    durable.run(outer, n=[2, 4], workflow_id="deep")
    durable.map(outer, n=[[2, 4], [2]], map_over="n", workflow_id="wide")
    durable.run(shop.graph, n=[2], workflow_id="whole")
    durable.run(shop.graph, n=[4], workflow_id="turned")
    durable.run(shop.graph, n=[2], workflow_id="turned")
    assert sorted(store.prune("0s", keep_failed=True)) == ["turned", "whole"]
    assert sorted(found.id for found in store.workflows()) == ["deep", "w", "wide"]
    assert sorted(store.prune("0s")) == ["deep", "w", "wide"]


@pytest.mark.parametrize("way", ["export", "copy"])
@pytest.mark.parametrize("is_repaired", [False, True])
def test_a_run_that_moves_to_another_store_does_the_same_there(
    way: str, is_repaired: bool, tmp_path: Path
) -> None:
    here, there = SqliteCheckpointer(tmp_path / "here.db"), SqliteCheckpointer(tmp_path / "there.db")
    shop = broken(OnSync(checkpointer=here), {4})
    shop.bad.clear()
    if is_repaired:
        SyncRunner(checkpointer=here).run(shop.one, workflow_id="w/each/item-1")
    if way == "copy":
        copy_store(here, there)
    else:
        imported(there, b"".join(exported(here, "w", lines=True)))
    shop.called()
    kept, moved = (
        (SyncRunner(checkpointer=s).run(shop.graph, workflow_id="w"), shop.called()) for s in (here, there)
    )
    assert moved[1] == kept[1] == (["add"] if is_repaired else [])
    assert moved[0].values == kept[0].values


class Desk(Shop):
    """A shop that asks about the items from 6 on, after what may fail."""

    def __init__(self, bad: set[int]) -> None:
        super().__init__(bad)

        @interrupt("price")
        def price(half: int) -> int | None:
            return half if half < 3 else None

        self.one = Graph([*self.one.nodes.values(), price], name="one")
        self.each = self.one.as_node(name="each").map_over("n", error_handling="continue")
        self.graph = Graph([self.each, self.graph.nodes["add"]], name="desk")


@pytest.mark.parametrize(("restart", "calls"), [("node", []), ("item", ["look 4"])])
@pytest.mark.parametrize("is_deep", [False, True])
def test_failed_items_run_again_while_others_wait(
    durable: On, store: Checkpointer, restart: str, calls: list[str], is_deep: bool
) -> None:
    shop = Desk({4})
    graph = Graph([shop.graph.as_node(name="sub")], name="outer") if is_deep else shop.graph
    result = durable.run(graph, n=[2, 4, 6, 8], workflow_id="w")
    assert result.paused
    asked = [key for question in store.questions("w") for key in question.keys]
    assert len(asked) == 2
    shop.called()
    shop.bad.clear()
    assert durable.run(graph, workflow_id="w").paused
    assert shop.called() == []  # nothing asks for more
    assert durable.run(graph, workflow_id="w", restart=restart).paused
    assert shop.called() == [*calls, "halve 4"]
    assert [key for question in store.questions("w") for key in question.keys] == asked
    assert durable.run(graph, workflow_id="w", restart=restart).paused
    assert shop.called() == []
    result = durable.run(graph, **dict.fromkeys(asked, 5), workflow_id="w")
    assert result.completed
    assert result["total"] == 10
    assert shop.called() == ["add"]


def test_an_answer_that_no_run_has_used_is_replaced(durable: On, store: Checkpointer) -> None:
    shop = Desk(set())
    durable.run(shop.graph, n=[2, 6], workflow_id="w")
    key = "each.item-1.price"
    store.answer("w", key, 7, by="ann")
    with pytest.raises(WorkflowError, match=r"No run has used that one yet: .*, replace=True\)"):
        store.answer("w", key, 8)
    with pytest.raises(WorkflowError, match="No run has used that one yet"):
        durable.run(shop.graph, {key: 8}, workflow_id="w")
    with pytest.raises(WorkflowError, match="No run has used that one yet"):
        store.answer("w/each/item-1", "price", 8)
    store.answer("w", key, 8, replace=True)
    store.answer("w/each/item-1", "price", 9, by="bob", replace=True)
    assert store.workflow("w").status is WorkflowStatus.PAUSED
    assert durable.run(shop.graph, workflow_id="w")["price"] == [1, 9]
    with pytest.raises(WorkflowError, match="To change the answer of this item alone, run 'w/each/item-1'"):
        store.answer("w", key, 1, replace=True)


@pytest.mark.parametrize("is_deep", [False, True])
def test_the_advice_for_another_answer_in_a_loop_of_an_item_works(
    durable: On, store: Checkpointer, is_deep: bool
) -> None:
    @node(output_name="topics")
    def split(request: str) -> list[str]:
        return list(request)

    @node(output_name="draft")
    def write(topic: str, answer: str = "") -> str:
        return topic + answer

    @route(targets=["ask", END])
    def is_open(draft: str) -> Any:
        return "ask" if len(draft) < 2 and draft[0] < "c" else END

    @interrupt("answer")
    def ask(draft: str) -> str | None:
        return None

    agent = Graph([write, is_open, ask], name="agent")
    if is_deep:
        agent = Graph([agent.as_node(name="inner")], name="deep")
    each = agent.as_node(name="each").with_inputs(topic="topics").map_over("topics")
    graph, inner = Graph([split, each], name="g"), "inner." if is_deep else ""
    keys = [f"each.item-{number}.{inner}answer" for number in range(2)]
    durable.run(graph, request="abc", workflow_id="w")
    durable.run(graph, {keys[0]: "1"}, workflow_id="w")
    with pytest.raises(WorkflowError) as caught:
        durable.run(graph, {keys[0]: "22"}, workflow_id="w")
    assert "alone" not in str(caught.value)
    assert "fork_from=('w', 0). All items of its map run again, and ask again." in str(caught.value)
    durable.run(graph, fork_from=("w", 0), workflow_id="v")
    result = durable.run(graph, dict.fromkeys(keys, "22"), workflow_id="v")
    assert result["draft"] == ["a22", "b22", "c"]


def test_an_answer_is_not_replaced_while_a_process_runs_the_workflow(
    durable: On, store: Checkpointer
) -> None:
    shop = Desk(set())
    durable.run(shop.graph, n=[2, 6], workflow_id="w")
    store.answer("w", "each.item-1.price", 7)
    claim = store.backend.claim("w", NewWorkflow(), store.encoding)
    with pytest.raises(WorkflowLockedError):
        store.answer("w", "each.item-1.price", 8, replace=True)
    store.backend.release(claim)
    store.answer("w", "each.item-1.price", 8, replace=True)
    assert durable.run(shop.graph, workflow_id="w")["price"] == [1, 8]


def test_a_rerun_that_an_item_refuses_is_not_recommended(durable: On) -> None:
    def graphs(look: Any) -> tuple[Graph, Graph]:
        send = FunctionNode(lambda price: price, "send", "sent", repeatable=False)
        ask = interrupt("price")(lambda half: half if half < 3 else None).with_name("ask")
        one = Graph([FunctionNode(look, "look", "half"), ask, send], name="one")
        return one, Graph([one.as_node(name="each").map_over("n")], name="all")

    (one, first), (changed, second) = graphs(lambda n: n), graphs(lambda n: n + 0)
    durable.run(first, n=[2, 6], workflow_id="w")
    durable.map(one, n=[2, 6], map_over="n", workflow_id="m")
    with pytest.warns(UserWarning, match="A rerun is not possible: in 'w/each/item-0' node 'send' has comp"):
        durable.run(second, workflow_id="w")
    with pytest.warns(UserWarning, match="A rerun is not possible: in 'm/item-0' node 'send' has completed"):
        durable.map(changed, n=[2, 6], map_over="n", workflow_id="m")


# -- the items of a map ----------------------------------------------------------------------------------


def map_shops(durable: On, shop: Shop, **options: Any) -> Any:
    return durable.map(
        shop.graph,
        {"n": [[2, 4], [6, 8]]},
        map_over="n",
        workflow_id="m",
        error_handling="continue",
        **options,
    )


@pytest.mark.parametrize("key", [None, lambda given: given["n"][0]])
@pytest.mark.parametrize(
    ("restart", "called"), [("node", ["halve 8", "add"]), ("item", ["look 8", "halve 8", "add"])]
)
def test_a_map_restarts_what_failed_inside_of_its_items(
    either: On, store: Checkpointer, restart: Any, called: list[str], key: Any
) -> None:
    shop = Shop({8})
    assert map_shops(either, shop, key=key)["total"] == [3, 3]
    shop.called()
    shop.bad.clear()
    assert map_shops(either, shop, key=key)["total"] == [3, 3]  # what has completed stays without it
    assert shop.called() == []
    result = map_shops(either, shop, restart=restart, key=key)
    assert (result["total"], shop.called()) == ([3, 7], called)
    assert store.workflow("m").status is WorkflowStatus.COMPLETED
    assert store.backend.count_failed(["m"]).get("m", 0) == 0
    assert map_shops(either, shop, restart=restart, key=key)["total"] == [3, 7]
    assert shop.called() == []


def test_items_of_a_map_that_fail_inside_of_it_again_stay_as_they_were(durable: On) -> None:
    shop = Shop({8})
    map_shops(durable, shop)
    shop.called()
    assert map_shops(durable, shop, restart="node")["total"] == [3, 3]
    assert shop.called() == ["halve 8", "add"]


@pytest.mark.parametrize("restart", ["node", "item"])
def test_a_map_refuses_a_restart_inside_before_anything_runs(
    either: On, store: Checkpointer, restart: Any
) -> None:
    def once(n: int) -> int:
        called.append(n)
        if n == 8:
            raise ValueError("bad")
        return n

    called: list[int] = []
    inner = Graph([FunctionNode(once, output_name="half", repeatable=False)], name="one")
    each = inner.as_node(name="each").map_over("n", error_handling="continue")
    graph = Graph([each], name="shop")
    options: Any = {"map_over": "n", "workflow_id": "m", "error_handling": "continue"}
    either.map(graph, {"n": [[2, 4], [8, 8]]}, **options)
    called.clear()
    if restart == "item":
        with pytest.raises(ValueError, match="must not be repeated"):
            either.map(graph, {"n": [[2, 4], [8, 8]]}, restart=restart, **options)
    else:
        either.map(graph, {"n": [[2, 4], [8, 8]]}, restart=restart, **options)
    assert called == ([] if restart == "item" else [8, 8])


def test_a_map_says_what_it_does_not_restart_in_earlier_rounds(durable: On) -> None:
    @node(output_name="count")
    def count(got: list[int | None], count: int = 0) -> int:
        return count + 1

    @route(targets=["each", END])
    def more(count: int) -> str:
        return "each" if count < 2 else END

    def get(n: int, count: int) -> int:
        if count == 0 and bad:
            raise ValueError("bad")
        return n

    bad = [True]
    one = Graph([FunctionNode(get, output_name="got")], name="one")
    each = one.as_node(name="each").map_over("n", error_handling="continue")
    graph = Graph([each, count, more], name="loop").with_entrypoint("each")
    options: Any = {"map_over": "n", "workflow_id": "m", "error_handling": "continue"}
    durable.map(graph, {"n": [[1]], "count": 0}, **options)
    bad.clear()
    with pytest.warns(UserWarning, match="does not run the failed items of earlier rounds again"):
        durable.map(graph, {"n": [[1]], "count": 0}, restart="node", **options)
