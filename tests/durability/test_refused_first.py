"""What is refused before anything is written, and what a warning names: the whole call leaves no trace."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
from support.durable import durable, store
from support.running import On

from hypergraph import Graph, interrupt, node
from hypergraph.checkpointers import Checkpointer
from hypergraph.checkpointers.query import Query
from hypergraph.exceptions import WorkflowError
from hypergraph.migration import migrate

__all__ = ["durable", "store"]  # fixtures


@node(output_name="price")
def price(n: int) -> int:
    return n


@node(output_name="price")
def price_today(n: int) -> int:
    return n * 100


@interrupt("ok")
def ask(price: int) -> bool | None:
    return None


@node(output_name="paid")
def pay(price: int, ok: bool) -> str:
    return f"paid {price}" if ok else "not paid"


def flat(first: Any) -> Graph:
    return Graph([first.with_name("price"), ask, pay], name="shop")


def mapped(first: Any) -> Graph:
    each = Graph([first.with_name("price"), ask, pay], name="one").as_node(name="each").map_over("n")
    return Graph([each], name="shop")


def history(store: Checkpointer) -> list[Any]:
    found = store.backend.find(Query(top_level=False))[0]
    steps = [(step.node_name, step.status, step.answer) for run in found for step in store.steps(run.id)]
    return [(run.id, run.status, run.step_count) for run in found] + steps


# -- answers that no run has used ----------------------------------------------------------------------


@pytest.mark.parametrize(("graph", "key"), [(flat, "ok"), (mapped, "each.item-0.ok")], ids=["flat", "mapped"])
def test_changed_code_does_not_lose_an_answer_that_no_run_has_used(
    durable: On, store: Checkpointer, graph: Any, key: str
) -> None:
    durable.run(graph(price), n=[3] if graph is mapped else 3, workflow_id="w")
    store.answer("w", key, True, by="ann")
    before = history(store)
    with pytest.raises(WorkflowError, match=rf"'{key}' has been answered by 'ann', and no run has used"):
        durable.run(graph(price_today), workflow_id="w", code_change="rerun")
    assert history(store) == before
    with pytest.warns(UserWarning, match="has changed since it was recorded"):
        assert "paid 3" in str(durable.run(graph(price_today), workflow_id="w")["paid"])


def test_nor_is_one_to_an_item_of_a_map_lost(durable: On, store: Checkpointer) -> None:
    durable.map(flat(price), {"n": [3, 4]}, map_over="n", workflow_id="w")
    store.answer("w", "item-1.ok", True)
    before = history(store)
    with pytest.raises(WorkflowError, match=r"'item-1.ok' has been answered, and no run has used"):
        durable.map(flat(price_today), {"n": [3, 4]}, map_over="n", workflow_id="w", code_change="rerun")
    assert history(store) == before


def test_it_is_given_up_by_new_values(durable: On, store: Checkpointer) -> None:
    durable.run(flat(price), n=3, workflow_id="w")
    store.answer("w", "ok", True)
    with pytest.warns(UserWarning, match="run the workflow without values first"):
        found = durable.run(flat(price_today), n=3, workflow_id="w", code_change="rerun", new_turn=True)
    assert found.pause.value == 300


# -- items that cannot begin anew ----------------------------------------------------------------------


def shop(fails: bool, *, asks: bool) -> Graph:
    @node(output_name="charged", repeatable=False)
    def charge(n: int) -> int:
        if fails and n == 4:
            raise ConnectionError("no line")
        return n

    box = Graph([charge], name="one").as_node(name="each").map_over("n", error_handling="continue")

    @node(output_name="total")
    def add(charged: list[int | None]) -> int:
        return len(charged)

    @interrupt("ok")
    def confirm(total: int) -> bool | None:
        return None if asks else True

    around = Graph([box], name="inner").as_node(name="box")
    return Graph([around, add, confirm], name="shop")


@pytest.mark.parametrize("asks", [True, False], ids=["paused", "completed"])
def test_items_that_must_not_begin_anew_leave_the_run_as_it_is(
    durable: On, store: Checkpointer, asks: bool
) -> None:
    durable.run(shop(True, asks=asks), n=[3, 4], workflow_id="w")
    before = history(store)
    with pytest.raises(ValueError, match="'charge' must not be repeated, and restart='item'"):
        durable.run(shop(False, asks=asks), workflow_id="w", restart="item", error_handling="continue")
    assert history(store) == before
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the question is given up
        durable.run(shop(False, asks=asks), workflow_id="w", restart="node")
    assert store.state("w")["charged"] == [3, 4]
    durable.run(shop(False, asks=asks), workflow_id="w", restart="item")  # none has failed


# -- the names of today, and what is new ---------------------------------------------------------------


@node(output_name="sealed")
def seal(price: int) -> int:
    return price


@node(output_name="paid")
def pay_sealed(price: int, ok: bool, sealed: int) -> str:
    return f"paid {sealed}"


def today(*, removed: bool = False) -> Graph:
    one = Graph([price, seal, ask, pay_sealed.with_name("settle")], name="one", formerly={"pay": "settle"})
    return Graph([one.as_node(name="boxes").map_over("n")], name="shop", formerly={"each": "boxes"})


def test_reports_and_warnings_have_the_names_of_today(durable: On, store: Checkpointer) -> None:
    durable.run(mapped(price), n=[3], workflow_id="w")
    durable.run(mapped(price), {"each.item-0.ok": True}, workflow_id="w")
    durable.run(mapped(price), n=[4], workflow_id="w")
    (run,) = migrate(store, today(), dry_run=True, accept=True).runs
    told = [*run.added, *run.changed, *run.asks, *run.runs_next]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        durable.run(today(), n=[5], workflow_id="w")
    told += [str(each.message) for each in caught]
    assert any("gives up what it asked for ('boxes.item-0.ok')" in text for text in told)
    assert any("boxes/seal" in text for text in told)
    for text in told:
        assert "'each" not in text
        assert "each/seal" not in text


def test_an_item_that_ran_by_itself_is_told_of_under_its_name_of_today(
    durable: On, store: Checkpointer
) -> None:
    @interrupt("sure")
    def confirm(charged: list[int]) -> bool | None:
        return None

    @node(output_name="charged")
    def charge(n: int) -> int:
        return n

    one = Graph([charge], name="one")
    durable.run(Graph([one.as_node(name="each").map_over("n"), confirm], name="shop"), n=[3], workflow_id="w")
    durable.run(one, n=4, workflow_id="w/each/item-0", new_turn=True)
    renamed = Graph(
        [one.as_node(name="boxes").map_over("n"), confirm], name="shop", formerly={"each": "boxes"}
    )
    with pytest.warns(UserWarning, match="because of what ran in 'boxes'"):
        durable.run(renamed, workflow_id="w")


def test_a_node_that_is_new_is_named_when_a_completed_run_is_read(durable: On) -> None:
    @node(output_name="paid")
    def charge(price: int) -> str:
        return f"paid {price}"

    @node(output_name="paid")
    def charge_less(sealed: int) -> str:
        return f"paid {sealed}"

    durable.run(Graph([price, charge], name="shop"), n=3, workflow_id="w")
    later = Graph([price, seal, charge_less.with_name("charge")], name="shop")
    with pytest.warns(UserWarning, match=r"'charge' has changed.*is kept. New nodes run now: 'seal'."):
        found = durable.run(later, workflow_id="w")
    assert (found["paid"], found["sealed"]) == ("paid 3", 3)
    with pytest.warns(UserWarning, match="'charge' has changed") as told:
        durable.run(later, workflow_id="w")
    assert "New nodes" not in str(told[0].message)


@pytest.mark.parametrize(("graph", "path"), [(flat, ""), (mapped, "each/")], ids=["flat", "mapped"])
def test_migrate_knows_that_an_answer_is_stored(
    durable: On, store: Checkpointer, graph: Any, path: str
) -> None:
    durable.run(graph(price), n=[3] if path else 3, workflow_id="w")
    (run,) = migrate(store, graph(price), dry_run=True).runs
    assert run.asks[-1] == f"{path}ask"
    store.answer("w", "each.item-0.ok" if path else "ok", True)
    (run,) = migrate(store, graph(price), dry_run=True).runs
    assert (run.asks, run.runs_next, run.text) == ((), (f"{path}ask",), f"runs {path}ask")
