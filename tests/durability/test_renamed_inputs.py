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
        assert "(accept moves it nevertheless)" in moved.text
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


# -- values whose node is gone -----------------------------------------------------------------------


def rated(
    bodies: Bodies,
    makes: bool,
    default: str = "EUR",
    nested: bool = False,
    formerly: Mapping[str, str | None] | None = None,
) -> Graph:
    """Return a graph whose last node takes a currency that another node makes, or a default."""

    @node(output_name="amount")
    def price(item: str) -> int:
        return 5

    @node(output_name="currency")
    def look_up(item: str) -> str:
        return "USD"

    def made(amount: int, currency: str) -> str:
        bodies.enter("charge")
        return f"{amount} {currency}"

    def with_default(amount: int, currency: str = default) -> str:
        bodies.enter("charge")
        return f"{amount} {currency}"

    charge: Any = node(made if makes else with_default, output_name="paid").with_name("charge")
    if nested:
        charge = Graph([charge], name="pay").as_node()
    return Graph([price, *([look_up] if makes else []), charge], name="shop", formerly=formerly)


def fail_to_charge(durable: On, bodies: Bodies, **options: Any) -> None:
    bodies.failing["charge"] = ConnectionError("bank")
    durable.run(rated(bodies, True, **options), workflow_id="w", error_handling="continue", item="tea")
    bodies.failing.clear()
    bodies.take()


@pytest.mark.parametrize("code_change", ["keep", "rerun", "error"])
@pytest.mark.parametrize("nested", [False, True])
def test_a_value_whose_node_is_gone_is_not_replaced_by_a_default(
    durable: On, store: Checkpointer, bodies: Bodies, nested: bool, code_change: Any
) -> None:
    fail_to_charge(durable, bodies, nested=nested)
    new = rated(bodies, False, nested=nested)
    taker = "pay" if nested else "charge"
    text = rf"no node makes 'currency' any more, which node 'look_up' has made, and '{taker}' would take the"
    if not (nested and code_change != "keep"):  # else the nested graph itself is refused
        with pytest.raises(GraphChangedError, match=text):
            durable.run(new, workflow_id="w", code_change=code_change)
    with pytest.raises(GraphChangedError, match=text):
        durable.run(new, fork_from=("w", None), workflow_id="fork")
    (moved,) = migrate(store, new, dry_run=True).runs
    assert moved.outcome == "refused"
    assert bodies.take() == []
    assert durable.run(new, workflow_id="w", currency="USD")["paid"] == "5 USD"


@pytest.mark.parametrize("nested", [False, True])
def test_a_node_that_is_said_to_be_removed_leaves_the_default(
    durable: On, bodies: Bodies, nested: bool
) -> None:
    fail_to_charge(durable, bodies, nested=nested)
    new = rated(bodies, False, nested=nested, formerly={"look_up": None})
    paid = durable.run(new, workflow_id="w")["paid"]
    assert paid == ("5 USD" if nested else "5 EUR")  # a nested graph continues with what it began with


def test_a_default_that_is_the_value_of_the_removed_node_is_taken(durable: On, bodies: Bodies) -> None:
    fail_to_charge(durable, bodies)
    assert durable.run(rated(bodies, False, default="USD"), workflow_id="w")["paid"] == "5 USD"


def test_a_new_turn_takes_the_default_for_a_removed_node(durable: On, bodies: Bodies) -> None:
    fail_to_charge(durable, bodies)
    assert durable.run(rated(bodies, False), workflow_id="w", item="jam")["paid"] == "5 EUR"
