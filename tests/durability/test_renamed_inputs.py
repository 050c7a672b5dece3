"""Parameters renamed without `formerly`: no stored value is replaced by a default in silence."""

import warnings
from collections.abc import Mapping
from typing import Any

import pytest
from support.durable import Bodies, On, bodies, durable, store

from hypergraph import Graph, node
from hypergraph.checkpointers import Checkpointer
from hypergraph.exceptions import GraphChangedError
from hypergraph.migration import migrate

__all__ = ["bodies", "durable", "store"]  # fixtures
pytestmark = pytest.mark.filterwarnings("ignore:Workflow")
RENAMED = r"'currency' any more, and '(\w+/)*charge' would take the default of 'money' instead"


def shop(
    bodies: Bodies, takes: str, shape: str = "plain", formerly: Mapping[str, str | None] | None = None
) -> Graph:
    """Return a graph whose second node takes a currency under some name."""

    @node(output_name="amount")
    def price(item: str) -> int:
        bodies.enter("price")
        return 5

    def in_currency(amount: int, currency: str = "EUR") -> str:
        bodies.enter("charge")
        return f"{amount} {currency}"

    def in_money(amount: int, money: str = "EUR") -> str:
        bodies.enter("charge")
        return f"{amount} {money}"

    def in_digits(amount: int, digits: int = 2) -> str:
        bodies.enter("charge")
        return f"{amount:.{digits}f}"

    def alone(amount: int) -> str:
        bodies.enter("charge")
        return f"{amount}"

    ways: dict[str, Any] = {"currency": in_currency, "money": in_money, "digits": in_digits, "": alone}
    charge = node(ways[takes], output_name="paid").with_name("charge")
    if shape == "plain":
        return Graph([price, charge], name="shop", formerly=formerly)
    pay: Any = Graph([charge], name="pay", formerly=formerly).as_node()
    if shape == "twice":
        pay = Graph([pay], name="desk", formerly=formerly).as_node()
    if shape == "mapped":
        return Graph([Graph([price, charge], name="pay").as_node().map_over("item")], name="shop")
    return Graph([price, pay], name="shop", formerly=formerly)


def fail(durable: On, bodies: Bodies, graph: Graph, **given: Any) -> None:
    bodies.failing["price"] = ConnectionError("prices")
    durable.run(graph, workflow_id="w", error_handling="continue", currency="USD", **given)
    bodies.failing.clear()
    bodies.take()


@pytest.mark.parametrize("code_change", ["keep", "rerun"])
@pytest.mark.parametrize("shape", ["plain", "nested", "twice", "mapped"])
def test_a_renamed_parameter_does_not_take_its_default(
    durable: On, store: Checkpointer, bodies: Bodies, shape: str, code_change: Any
) -> None:
    item: Any = ["tea"] if shape == "mapped" else "tea"
    fail(durable, bodies, shop(bodies, "currency", shape), item=item)
    new = shop(bodies, "money", shape)
    where = (
        RENAMED if shape == "plain" else "'currency' any more, .* would take the default of 'money' instead"
    )
    with pytest.raises(GraphChangedError, match=where):
        durable.run(new, workflow_id="w", code_change=code_change)
    with pytest.raises(GraphChangedError, match=where):
        durable.run(new, fork_from=("w", None), workflow_id="fork", code_change=code_change)
    assert bodies.take() == []
    for dry_run in (True, False):
        (moved,) = migrate(store, new, dry_run=dry_run).runs
        assert moved.outcome == "refused"
        assert "formerly={'currency': 'money'}" in moved.text
        assert "accept=True" in moved.text
    paid = durable.run(new, workflow_id="w", money="USD")["paid"]
    assert paid == (["5 USD"] if shape == "mapped" else "5 USD")


@pytest.mark.parametrize("shape", ["plain", "nested"])
@pytest.mark.parametrize(("follower", "paid"), [("money", "5 USD"), (None, "5 EUR")])
def test_former_names_say_what_becomes_of_the_value(
    durable: On, bodies: Bodies, shape: str, follower: str | None, paid: str
) -> None:
    fail(durable, bodies, shop(bodies, "currency", shape), item="tea")
    new = shop(bodies, "money", shape, {"currency": follower})
    assert durable.run(new, workflow_id="w")["paid"] == paid


def test_a_run_that_is_moved_nevertheless_takes_the_default(
    durable: On, store: Checkpointer, bodies: Bodies
) -> None:
    fail(durable, bodies, shop(bodies, "currency"), item="tea")
    new = shop(bodies, "money")
    assert migrate(store, new, accept=True).ok
    assert durable.run(new, workflow_id="w")["paid"] == "5 EUR"


@pytest.mark.parametrize(("takes", "paid"), [("", "5"), ("digits", "5.00")])
def test_an_input_may_be_removed(
    durable: On, store: Checkpointer, bodies: Bodies, takes: str, paid: str
) -> None:
    """A new parameter of another type is not the removed one."""
    fail(durable, bodies, shop(bodies, "currency"), item="tea")
    new = shop(bodies, takes)
    assert migrate(store, new, dry_run=True).ok
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert durable.run(new, workflow_id="w")["paid"] == paid


def test_what_only_finished_nodes_took_is_not_needed(durable: On, bodies: Bodies) -> None:
    @node(output_name="amount")
    def price(item: str, country: str = "DE") -> int:
        return 5

    @node(output_name="amount")
    def price_anywhere(item: str) -> int:
        return 5

    def charge(amount: int) -> str:
        bodies.enter("charge")
        return f"{amount}"

    def charge_in(amount: int, money: str = "EUR") -> str:
        return f"{amount} {money}"

    old = Graph([price, node(charge, output_name="paid")], name="shop")
    paying = node(charge_in, output_name="paid").with_name("charge")
    new = Graph([price_anywhere.with_name("price"), paying], name="shop")
    bodies.failing["charge"] = ConnectionError("bank")
    durable.run(old, item="tea", country="US", workflow_id="w", error_handling="continue")
    assert durable.run(new, workflow_id="w")["paid"] == "5 EUR"


def test_items_of_a_map_are_refused_before_one_of_them_runs(durable: On, bodies: Bodies) -> None:
    bodies.failing["price"] = ConnectionError("prices")
    items = {"item": ["tea", "jam"], "map_over": "item", "workflow_id": "m"}
    durable.map(shop(bodies, "currency"), currency="USD", error_handling="continue", **items)
    bodies.failing.clear()
    with pytest.raises(GraphChangedError, match=RENAMED):
        durable.map(shop(bodies, "money"), **items)
    with pytest.raises(GraphChangedError, match=RENAMED):
        durable.map(shop(bodies, "money"), key="item", **items)
    assert bodies.take() == []
    found = durable.map(shop(bodies, "money"), money="USD", key="item", **items)
    assert [each["paid"] for each in found] == ["5 USD", "5 USD"]


@pytest.mark.parametrize("ends", ["fails", "begins"])
def test_what_a_chat_remembers_is_not_begun_anew(durable: On, bodies: Bodies, ends: str) -> None:
    @node(output_name=("text", "count"))
    def reply(said: str, count: int = 0) -> tuple[str, int]:
        bodies.enter("reply")
        return f"{said} #{count}", count + 1

    @node(output_name=("text", "turns"))
    def reply_again(said: str, turns: int = 0) -> tuple[str, int]:
        bodies.enter("reply")
        return f"{said} #{turns}", turns + 1

    old, new = Graph([reply], name="chat"), Graph([reply_again.with_name("reply")], name="chat")
    for _ in range(3):
        durable.run(old, said="a", workflow_id="c", new_turn=True)
    turn: dict[str, Any] = {"said": "b", "new_turn": True}
    if ends == "fails":
        bodies.failing["reply"] = ConnectionError("model")
        durable.run(old, workflow_id="c", error_handling="continue", **turn)
        bodies.failing.clear()
        turn = {}
    bodies.take()
    with pytest.raises(GraphChangedError, match="'turns'"):
        durable.run(new, workflow_id="c", **turn)
    assert bodies.take() == []
