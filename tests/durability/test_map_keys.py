"""Stored maps with corrected inputs: a key that is added or left out later, items run by themselves."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support.durable import Bodies, bodies, durable, store
from support.running import RUNNERS, On, OnAsync, OnSync

from hypergraph import Graph, interrupt, node
from hypergraph.checkpointers import Checkpointer, SqliteCheckpointer, WorkflowStatus
from hypergraph.exceptions import InvalidWorkflowIdError, ItemChangedError, WorkflowError
from hypergraph.views.state import raw_value

__all__ = ["bodies", "durable", "store"]  # fixtures

Row = dict[str, Any]


def rows(size: int, broken: frozenset[int] | set[int] = frozenset()) -> list[Row]:
    """Return rows of a table, some with a price that cannot be parsed."""
    return [{"id": 100 + i, "price": f"{i},5" if i in broken else f"{i}.5"} for i in range(size)]


def by_id(inputs: dict[str, Any]) -> int:
    found: int = inputs["row"]["id"]
    return found


@pytest.fixture
def pricing(bodies: Bodies) -> Graph:
    @node(output_name="price")
    def parse(row: Row) -> float:
        bodies.enter(f"parse {row['id']}")
        return float(row["price"])

    @node(output_name="total")
    def total(row: Row, price: float, rate: float = 0.5) -> float:
        bodies.enter(f"total {row['id']}")
        return price * (1 + rate)

    return Graph([parse, total], name="pricing")


def price(durable: On, graph: Graph, given: list[Row], **options: Any) -> Any:
    return durable.map(
        graph, row=given, map_over="row", workflow_id="prices", error_handling="continue", **options
    )


def ids(store: Checkpointer) -> set[str]:
    return {item.id for item in store.workflows(parent="prices", limit=None)}


def by_path(inputs: dict[str, Any]) -> str:
    found: str = inputs["path"]
    return found


@pytest.mark.parametrize("key", ["path", ["path", "size"], by_path], ids=["name", "names", "function"])
@pytest.mark.parametrize("was_keyed", [True, False])
def test_a_key_may_be_the_name_of_a_file_that_is_not_utf8(
    durable: On, bodies: Bodies, key: Any, was_keyed: bool
) -> None:
    @node(output_name="text")
    def read(path: str, size: int) -> str:
        bodies.enter(ascii(path))
        return path

    graph, paths = Graph([read], name="reading"), ["a.csv", "caf\udce9.csv", "caf\udce8.csv"]
    options: dict[str, Any] = {"map_over": "path", "size": 1, "workflow_id": "files"}
    durable.map(graph, path=paths, key=key if was_keyed else None, **options)
    assert len(bodies.take()) == 3
    found = durable.map(graph, path=["new.csv", *reversed(paths)], key=key, **options)
    assert (found["text"], bodies.take()) == (["new.csv", *reversed(paths)], ["'new.csv'"])


def test_a_key_of_no_names_is_refused(durable: On, pricing: Graph) -> None:
    with pytest.raises(ValueError, match=r"key=\.\.\. names no input"):
        price(durable, pricing, rows(2), key=[])


def test_the_list_of_a_map_lacks_what_an_item_made_from_earlier_inputs(
    durable: On, store: Checkpointer, pricing: Graph
) -> None:
    price(durable, pricing, rows(3), key=by_id)
    again = price(durable, pricing, rows(3, {1}), key=by_id)
    assert store.state("prices") == {name: again[name] for name in ("price", "total")}
    assert store.state("prices")["total"] == raw_value(store, "prices", "total") == [0.75, None, 3.75]
    assert store.state("prices", superstep=1)["total"] == [0.75, 2.25, 3.75]  # as it was then
    assert store.state("prices/item-1") == {"price": 1.5, "total": 2.25}  # the history of the item
    price(durable, pricing, rows(3), key=by_id)
    assert store.state("prices")["total"] == [0.75, 2.25, 3.75]


@pytest.mark.parametrize("size", [2, 3, 8])
def test_a_key_added_later_finds_the_items_and_runs_those_that_failed(
    durable: On, store: Checkpointer, bodies: Bodies, pricing: Graph, size: int
) -> None:
    first = price(durable, pricing, rows(size, {1}))
    assert (len(first.failures), store.workflow("prices").status) == (1, WorkflowStatus.PARTIAL)
    bodies.take()
    again = price(durable, pricing, rows(size), key=by_id)
    assert bodies.take() == ["parse 101", "total 101"]
    assert again["total"] == [(i + 0.5) * 1.5 for i in range(size)]
    assert store.workflow("prices").status is WorkflowStatus.COMPLETED
    assert ids(store) == {f"prices/item-{i}" for i in range(size)}
    price(durable, pricing, rows(size), key=by_id)  # once more, now that the inputs are stored
    price(durable, pricing, rows(size))  # and by position, as it was recorded
    assert bodies.take() == []


def test_a_key_added_later_finds_items_in_another_order_and_new_ones(
    durable: On, store: Checkpointer, bodies: Bodies, pricing: Graph
) -> None:
    price(durable, pricing, rows(3))
    bodies.take()
    four = rows(5)
    found = price(durable, pricing, [four[4], four[2], four[0]], key=by_id)
    assert bodies.take() == ["parse 104", "total 104"]
    assert found["price"] == [4.5, 2.5, 0.5]
    assert [result.workflow_id for result in found] == ["prices/item-3", "prices/item-2", "prices/item-0"]


def test_an_input_name_is_a_key_that_can_be_added_later(
    durable: On, store: Checkpointer, bodies: Bodies
) -> None:
    @node(output_name="y")
    def double(x: int, code: str) -> int:
        bodies.enter(code)
        return 2 * x

    graph, codes = Graph([double], name="g"), ["a", "b", "c"]
    options: dict[str, Any] = {"map_over": ["x", "code"], "workflow_id": "prices"}
    durable.map(graph, x=[1, 2, 3], code=codes, **options)
    bodies.take()
    assert durable.map(graph, x=[1, 9, 3], code=codes, key="code", **options)["y"] == [2, 18, 6]
    assert bodies.take() == ["b"]


def test_failed_items_that_a_key_finds_can_begin_anew(
    durable: On, store: Checkpointer, bodies: Bodies, pricing: Graph
) -> None:
    price(durable, pricing, rows(4, {2}))
    bodies.take()
    price(durable, pricing, rows(4), key=by_id, restart="item")
    assert bodies.take() == ["parse 102", "total 102"]
    assert len(ids(store)) == 4


def test_a_key_that_does_not_tell_recorded_items_apart_is_refused(
    durable: On, store: Checkpointer, bodies: Bodies, pricing: Graph
) -> None:
    twice = [*rows(2), *rows(1)]
    price(durable, pricing, twice)
    bodies.take()
    with pytest.raises(ItemChangedError, match=r"Items 0 and 2 of 'prices' .* both have the key '100'"):
        price(durable, pricing, rows(2), key=by_id)
    assert price(durable, pricing, [rows(2)[1]], key=by_id)["price"] == [1.5]  # of this one there is no doubt
    assert bodies.take() == []
    assert len(ids(store)) == 3


def test_a_key_that_recorded_inputs_lack_is_refused(
    durable: On, store: Checkpointer, bodies: Bodies, pricing: Graph
) -> None:
    price(durable, pricing, rows(3))
    bodies.take()
    named = [{**row, "name": f"row {row['id']}"} for row in rows(3)]
    with pytest.raises(ItemChangedError, match=r"Item 0 of 'prices' .* KeyError.*Leave out key"):
        price(durable, pricing, named, key=lambda inputs: inputs["row"]["name"])
    with pytest.raises(ItemChangedError, match=r"Item 0 of 'prices' .* it gives NoneType"):
        price(durable, pricing, rows(1), key="rate", rate=1)
    assert (bodies.take(), len(ids(store))) == ([], 3)


def test_a_key_of_what_cannot_be_read_any_more_is_refused(durable: On, store: Checkpointer) -> None:
    @dataclass
    class Order:
        number: int

    @node(output_name="n")
    def size(order) -> int:  # type: ignore[no-untyped-def]
        return int(order.number)

    graph = Graph([size], name="g")
    with pytest.warns(UserWarning, match="can be stored, but not restored"):
        durable.map(graph, order=[Order(1), Order(2)], map_over="order", workflow_id="prices")
    with pytest.raises(ItemChangedError, match=r"Item 0 .* its 'order' is .*Leave out key"):
        durable.map(
            graph,
            order=[Order(1), Order(2)],
            map_over="order",
            workflow_id="prices",
            key=lambda inputs: inputs["order"].number,
        )


@pytest.mark.parametrize("kind", [OnSync, OnAsync], ids=RUNNERS)
def test_a_key_of_what_is_redacted_is_refused(
    kind: Any, tmp_path: Path, bodies: Bodies, pricing: Graph
) -> None:
    def hidden(node: str | None, name: str, value: Any) -> Any:
        return {**value, "id": 0} if name == "row" else value

    store = SqliteCheckpointer(tmp_path / "w.db", redact=hidden)
    price(kind(checkpointer=store), pricing, rows(3, {1}))
    with pytest.raises(ItemChangedError, match="redacts what"):
        price(kind(checkpointer=store), pricing, rows(3), key=by_id)

    def less(node: str | None, name: str, value: Any) -> Any:
        return {**value, "price": "?"} if name == "row" else value

    open_store = SqliteCheckpointer(tmp_path / "other.db", redact=less)
    price(kind(checkpointer=open_store), pricing, rows(3, {1}))
    bodies.take()
    price(kind(checkpointer=open_store), pricing, rows(3), key=by_id)
    assert bodies.take() == ["parse 101", "total 101"]


def test_items_that_were_deleted_leave_no_number_behind(
    durable: On, store: Checkpointer, bodies: Bodies, pricing: Graph
) -> None:
    price(durable, pricing, rows(6), key=by_id)
    store.delete(*(f"prices/item-{i}" for i in range(5)))
    bodies.take()
    assert price(durable, pricing, rows(6), key=by_id)["price"] == [i + 0.5 for i in range(6)]
    assert len(bodies.take()) == 10
    assert ids(store) == {f"prices/item-{i}" for i in range(5, 11)}


# -- recorded with a key, called with another ------------------------------------------------------------


def test_another_key_for_the_same_items_is_refused(
    durable: On, store: Checkpointer, bodies: Bodies, pricing: Graph
) -> None:
    price(durable, pricing, rows(3), key=by_id)
    bodies.take()
    with pytest.raises(ItemChangedError, match=r"recorded with the key '100', and key=\.\.\. gives 'id 100'"):
        price(durable, pricing, rows(3), key=lambda inputs: f"id {inputs['row']['id']}")
    assert (bodies.take(), ids(store)) == ([], {f"prices/item-{i}" for i in range(3)})


def numbered(size: int, since: int = 0) -> list[Row]:
    """Return rows whose line is the id of the row before."""
    return [{"id": i + 2, "line": i + 1, "price": f"{i}.5"} for i in range(since, since + size)]


def by_line(inputs: dict[str, Any]) -> int:
    found: int = inputs["row"]["line"]
    return found


@pytest.mark.parametrize(
    "again",
    [
        numbered(3),
        numbered(3)[::-1],
        numbered(2),
        [*numbered(3), *numbered(3, 3)],
        [numbered(1)[0], {"id": 7, "line": 9, "price": "1"}],  # an item that was recorded under another key
        [*numbered(1), {"id": 1, "line": 9, "price": "1"}],  # a new item has its key
    ],
)
@pytest.mark.filterwarnings("error")
def test_another_key_whose_values_are_known_is_refused(
    durable: On, store: Checkpointer, bodies: Bodies, pricing: Graph, again: list[Row]
) -> None:
    price(durable, pricing, numbered(3), key=by_line)
    bodies.take()
    with pytest.raises(
        ItemChangedError, match=r"with the key '\d', and key=\.\.\. gives '\d' for it: items would"
    ):
        price(durable, pricing, again, key=by_id)
    assert (bodies.take(), len(ids(store))) == ([], 3)
    price(durable, pricing, again, key=by_line)


@pytest.mark.filterwarnings("error")
def test_keys_that_change_places_are_refused(durable: On, bodies: Bodies, pricing: Graph) -> None:
    names = {100: "a", 101: "b"}
    price(durable, pricing, rows(2), key=lambda inputs: names[by_id(inputs)])
    bodies.take()
    names |= {100: "b", 101: "a"}
    with pytest.raises(ItemChangedError, match=r"recorded with the key 'a', and key=\.\.\. gives 'b'"):
        price(durable, pricing, rows(2), key=lambda inputs: names[by_id(inputs)])
    assert bodies.take() == []


@pytest.mark.filterwarnings("error")
def test_corrected_items_run_again_also_if_they_have_the_values_of_others(
    durable: On, bodies: Bodies, pricing: Graph
) -> None:
    price(durable, pricing, rows(3, {1}), key=by_id)
    bodies.take()
    changed = [{"id": 100, "price": "1.5"}, {"id": 101, "price": "0.5"}, {"id": 102, "price": "2.5"}]
    again = price(durable, pricing, changed, key=by_id)
    assert again["total"] == [2.25, 0.75, 3.75]
    assert bodies.take() == ["parse 100", "total 100", "parse 101", "total 101"]


@pytest.mark.filterwarnings("error")
def test_items_of_equal_values_are_corrected_by_their_key(
    durable: On, bodies: Bodies, pricing: Graph
) -> None:
    """A key that the values do not tell: those of one item become those of another."""
    given: list[str] = []

    def in_order(inputs: dict[str, Any]) -> str:
        return given.pop(0) if given else "?"

    same = {"id": 1, "price": "1.5"}
    given += ["a", "b"]
    price(durable, pricing, [same, same], key=in_order)
    given += ["a", "b"]
    price(durable, pricing, [same, {"id": 1, "price": "2.5"}], key=in_order)
    assert bodies.take().count("parse 1") == 3


@pytest.mark.parametrize("kind", [OnSync, OnAsync], ids=RUNNERS)
def test_redacted_values_are_compared_by_their_fingerprints(
    kind: Any, tmp_path: Path, bodies: Bodies, pricing: Graph
) -> None:
    def less(node: str | None, name: str, value: Any) -> Any:
        return {**value, "price": "?"} if name == "row" else value

    store = SqliteCheckpointer(tmp_path / "w.db", redact=less)
    price(kind(checkpointer=store), pricing, numbered(3), key=by_line)
    bodies.take()
    with pytest.raises(ItemChangedError, match=r"with the key '2', and key=\.\.\. gives '3'"):
        price(kind(checkpointer=store), pricing, numbered(3), key=by_id)
    changed = [{**row, "price": "9"} for row in numbered(3)]
    price(
        kind(checkpointer=store), pricing, changed, key=by_id
    )  # none of them is known: the key may be right
    assert len(bodies.take()) == 6


@pytest.mark.filterwarnings("error")
def test_a_list_of_other_items_runs_under_the_same_key(
    durable: On, store: Checkpointer, bodies: Bodies, pricing: Graph
) -> None:
    price(durable, pricing, rows(3), key=by_id)
    bodies.take()
    price(durable, pricing, rows(5)[3:], key=by_id)
    assert len(bodies.take()) == 4
    price(durable, pricing, [], key=by_id)
    assert ids(store) == {f"prices/item-{i}" for i in range(5)}


def test_other_keys_are_warned_of_if_the_recorded_items_do_not_tell(
    durable: On, bodies: Bodies, pricing: Graph
) -> None:
    given = {0: "a", 1: "b"}
    price(durable, pricing, rows(2), key=lambda inputs: given[inputs["row"]["id"] - 100])
    bodies.take()
    later = {10: "c"}  # which knows no older item
    other = [{"id": 110, "price": "1.5"}]
    with pytest.warns(UserWarning, match="None of the 2 recorded keys of 'prices' is among"):
        price(durable, pricing, other, key=lambda inputs: later[inputs["row"]["id"] - 100])
    assert bodies.take() == ["parse 110", "total 110"]


# -- recorded with a key, called without -----------------------------------------------------------------


def test_without_its_key_a_map_is_matched_by_the_numbers_of_items(
    durable: On, store: Checkpointer, bodies: Bodies, pricing: Graph
) -> None:
    price(durable, pricing, rows(3, {1}), key=by_id)
    bodies.take()
    with pytest.raises(ItemChangedError, match=r"Item 1 .* recorded with a key: .* with the same key="):
        price(durable, pricing, rows(3))
    with pytest.raises(ItemChangedError, match="with the same key="):
        price(durable, pricing, rows(3, {1})[::-1])
    assert bodies.take() == []
    assert len(price(durable, pricing, rows(3, {1})).failures) == 1
    price(durable, pricing, rows(3), key=by_id)
    assert bodies.take() == ["parse 101", "parse 101", "total 101"]


def test_a_mapped_graph_inside_of_a_run_has_no_key_to_pass(
    durable: On, bodies: Bodies, pricing: Graph
) -> None:
    graph = Graph([pricing.as_node(name="each").map_over("row")], name="outer")
    with pytest.raises(ValueError, match="could not convert"):
        durable.run(graph.bind(row=rows(3, {1})), workflow_id="w")
    with pytest.raises(ItemChangedError) as caught:
        durable.run(graph.bind(row=rows(3)), workflow_id="w")
    assert "key" not in str(caught.value)


# -- one item by itself ------------------------------------------------------------------------------------


def test_an_item_can_be_run_by_itself_with_corrected_inputs(
    durable: On, store: Checkpointer, bodies: Bodies, pricing: Graph
) -> None:
    price(durable, pricing, rows(4, {1, 2}))
    bodies.take()
    right = rows(4)
    for number in (1, 2):
        found = durable.run(pricing, row=right[number], workflow_id=f"prices/item-{number}")
        assert found["price"] == number + 0.5
    assert store.workflow("prices").status is WorkflowStatus.PARTIAL  # the list may be longer: see below
    assert bodies.take() == ["parse 101", "total 101", "parse 102", "total 102"]
    assert price(durable, pricing, right)["price"] == [
        0.5,
        1.5,
        2.5,
        3.5,
    ]  # which is now recorded
    assert (bodies.take(), store.workflow("prices").status) == ([], WorkflowStatus.COMPLETED)
    with pytest.raises(ItemChangedError, match="Item 1"):
        price(durable, pricing, rows(4, {1, 2}))


def test_an_item_that_fails_by_itself_makes_a_completed_map_partial(
    durable: On, store: Checkpointer, pricing: Graph
) -> None:
    price(durable, pricing, rows(2))
    wrong: Any = {"row": rows(2, {1})[1], "workflow_id": "prices/item-1", "error_handling": "continue"}
    assert durable.run(pricing, **wrong).failed
    assert store.workflow("prices").status is WorkflowStatus.PARTIAL


def test_a_map_that_did_not_begin_all_items_is_not_completed_by_one_of_them(
    durable: On, store: Checkpointer, pricing: Graph
) -> None:
    with pytest.raises(ValueError, match="could not convert"):
        durable.map(pricing, row=rows(3, {0}), map_over="row", workflow_id="prices")
    durable.run(pricing, row=rows(3)[0], workflow_id="prices/item-0")
    assert store.workflow("prices").status is not WorkflowStatus.COMPLETED
    assert price(durable, pricing, rows(3))["price"] == [0.5, 1.5, 2.5]
    assert store.workflow("prices").status is WorkflowStatus.COMPLETED


def test_a_paused_map_is_partial_once_its_last_item_has_failed_by_itself(
    durable: On, store: Checkpointer
) -> None:
    @interrupt(output_name="verdict")
    def review(x: int) -> None:
        return None

    @node(output_name="y")
    def use(x: int, verdict: str) -> int:
        return int(verdict)

    graph = Graph([review, use], name="g")
    durable.map(graph, x=[1, 2], map_over="x", workflow_id="prices")
    assert durable.run(graph, verdict="7", workflow_id="prices/item-0")["y"] == 7
    assert store.workflow("prices").status is WorkflowStatus.PAUSED
    assert durable.run(graph, verdict="?", workflow_id="prices/item-1", error_handling="continue").failed
    assert store.workflow("prices").status is WorkflowStatus.PARTIAL


def test_an_item_that_does_not_exist_cannot_be_run_by_itself(
    durable: On, store: Checkpointer, pricing: Graph
) -> None:
    price(durable, pricing, rows(2))
    with pytest.raises(InvalidWorkflowIdError, match='contains "/"'):
        durable.run(pricing, row=rows(3)[2], workflow_id="prices/item-2")


def test_an_item_of_an_earlier_visit_says_that_nothing_takes_it(
    durable: On, bodies: Bodies, pricing: Graph
) -> None:
    outer = Graph([pricing.as_node().map_over("row")], name="outer")
    for start in (0, 2):
        durable.run(outer, row=rows(4)[start : start + 2], workflow_id="w")
    new, says = {"id": 7, "price": "7.5"}, "'w/pricing/item-0' is of an earlier visit.*'w/pricing#2'"
    with pytest.warns(UserWarning, match=says):
        durable.run(pricing, row=new, workflow_id="w/pricing/item-0")
    assert durable.run(outer, workflow_id="w")["price"] == [2.5, 3.5]
    durable.run(pricing, workflow_id="w/pricing/item-1")  # only looked at
    durable.run(pricing, row=new, workflow_id="w/pricing#2/item-0")
    assert durable.run(outer, workflow_id="w")["price"] == [7.5, 3.5]


def test_an_item_that_is_left_out_of_a_list_with_keys_does_not_count_for_the_map(
    durable: On, store: Checkpointer, bodies: Bodies, pricing: Graph
) -> None:
    broken = rows(3, {2})
    assert price(durable, pricing, broken, key=by_id).partial
    bodies.take()
    with pytest.warns(UserWarning, match=r"lacks 1 recorded item not completed: prices/item-2 \(failed\)"):
        result = price(durable, pricing, broken[1::-1], key=by_id)
    assert (result.status.value, bodies.take()) == ("completed", [])
    assert store.workflow("prices").status is WorkflowStatus.COMPLETED
    assert store.state("prices")["total"] == [0.75, 2.25, None]  # it stays stored
    with pytest.warns(UserWarning, match="lacks 1 recorded item"):
        price(durable, pricing, [], key=by_id)
    assert store.workflow("prices").status is WorkflowStatus.COMPLETED
    assert price(durable, pricing, rows(3)[2:], key=by_id)["price"] == [2.5]
    assert price(durable, pricing, rows(3)[:1], key=by_id).completed  # without a warning


def test_of_an_empty_list_with_a_key_nothing_is_stored(
    durable: On, store: Checkpointer, bodies: Bodies, pricing: Graph
) -> None:
    assert price(durable, pricing, rows(2, {1}), key=by_id).partial
    bodies.take()
    with pytest.warns(UserWarning, match="lacks 1 recorded item not .* the map keeps its status") as told:
        result = price(durable, pricing, [], key=by_id)
    assert "items given" not in str(told[0].message)
    assert (len(result), bodies.take()) == (0, [])
    assert store.workflow("prices").status is WorkflowStatus.PARTIAL


# -- several names --------------------------------------------------------------------------------------


def test_several_inputs_identify_an_item(durable: On, store: Checkpointer, bodies: Bodies) -> None:
    @node(output_name="score")
    def fit(depth: int, rate: str, seed: int = 0) -> str:
        bodies.enter(f"fit {depth} {rate}")
        return f"{depth} {rate} {seed}"

    graph, grid = Graph([fit], name="grid"), {"map_over": ["depth", "rate"], "map_mode": "product"}
    options: dict[str, Any] = {**grid, "workflow_id": "g", "key": ["depth", "rate"]}
    durable.map(graph, depth=[1, 2], rate=["a", "b"], **options)
    bodies.take()
    assert durable.map(graph, depth=[3, 2], rate=["b"], **options)["score"] == ["3 b 0", "2 b 0"]
    assert bodies.take() == ["fit 3 b"]
    assert store.inputs("g/item-3") == {"depth": 2, "rate": "b"}
    for key in ("depth", ["depth"], ("depth",)):  # one name in a list is that name
        durable.map(graph, depth=[1], rate="a", map_over="depth", workflow_id="one", key=key)
    assert bodies.take() == ["fit 1 a"]
    with pytest.raises(
        ValueError, match=r"key=\['depth', 'rat'\] names no input of item 0. Did you mean 'rate'"
    ):
        durable.map(graph, depth=[1], rate=["a"], **{**options, "key": ["depth", "rat"]})
    with pytest.raises(ValueError, match=r"gives \[1, None\] for item 0; each must be a text, an int"):
        durable.map(graph, depth=[1], rate=[None], **options)


@pytest.mark.parametrize("key", ["path", ["path", "size"], by_path], ids=["name", "names", "function"])
def test_a_path_as_a_key_counts_as_its_text(
    durable: On, bodies: Bodies, store: Checkpointer, key: Any
) -> None:
    @node(output_name="text")
    def read(path: Path, size: int) -> str:
        bodies.enter(path.name)
        return path.name

    graph, paths = Graph([read], name="reading"), [Path("in/a.csv"), Path("in/b.csv")]
    options: dict[str, Any] = {"map_over": "path", "size": 1, "workflow_id": "files", "key": key}
    durable.map(graph, path=paths, **options)
    bodies.take()
    found = durable.map(graph, path=[Path("in/new.csv"), *reversed(paths)], **options)
    assert (found["text"], bodies.take()) == (["new.csv", "b.csv", "a.csv"], ["new.csv"])
    stored = {item.item: item.fingerprint for item in store.workflows(parent="files", limit=None)}
    assert stored[0] == (json.dumps(["in/a.csv", 1]) if isinstance(key, list) else "in/a.csv")


def test_a_path_and_its_text_are_one_key(durable: On) -> None:
    @node(output_name="text")
    def read(path: str | Path) -> str:
        return str(path)

    options: dict[str, Any] = {"map_over": "path", "workflow_id": "files", "key": "path"}
    with pytest.raises(ValueError, match=r"Several items have the key 'a\.csv'"):
        durable.map(Graph([read]), path=["a.csv", Path("a.csv")], **options)


class PathOfBytes:
    def __fspath__(self) -> bytes:
        return b"a.csv"


@pytest.mark.parametrize("path", [PathOfBytes(), b"a.csv"])
def test_a_path_of_bytes_is_no_key(durable: On, path: object) -> None:
    @node(output_name="text")
    def read(path: Any) -> str:
        return "text"

    with pytest.raises(ValueError, match="for item 0; it must be a text, an int or a path that is a text"):
        durable.map(Graph([read]), path=[path], map_over="path", workflow_id="files", key="path")


# -- inputs of all items ---------------------------------------------------------------------------------

LEFT_OUT = r"recorded items were given 'rate', and this call leaves that out"


@pytest.mark.parametrize("key", [None, by_id])
def test_new_items_do_not_take_the_default_of_what_recorded_ones_were_given(
    durable: On, store: Checkpointer, pricing: Graph, bodies: Bodies, key: Any
) -> None:
    price(durable, pricing, rows(2), rate=3.0, key=key)
    bodies.take()
    with pytest.raises(WorkflowError, match=LEFT_OUT):
        price(durable, pricing, rows(3), key=key)
    assert ids(store) == {"prices/item-0", "prices/item-1"}
    assert price(durable, pricing, rows(2), key=key)["total"] == [2.0, 6.0]  # nothing begins
    assert bodies.take() == []
    assert price(durable, pricing, rows(3), rate=3.0, key=key)["total"] == [2.0, 6.0, 10.0]


def test_a_list_of_other_items_does_not_take_the_default_either(durable: On, pricing: Graph) -> None:
    price(durable, pricing, rows(2), rate=3.0, key=by_id)
    with pytest.raises(WorkflowError, match=LEFT_OUT):
        price(durable, pricing, rows(4)[2:], key=by_id)
    found = price(durable, pricing.bind(rate=1.0), rows(4)[2:], key=by_id)  # it is not left out
    assert found["total"] == [5.0, 7.0]


def test_what_a_key_gave_to_completed_items_later_counts_too(durable: On, pricing: Graph) -> None:
    price(durable, pricing, rows(2), key=by_id)
    assert price(durable, pricing, rows(2), key=by_id, rate=3.0)["total"] == [2.0, 6.0]
    with pytest.raises(WorkflowError, match=LEFT_OUT):
        price(durable, pricing, rows(3), key=by_id)


def test_what_one_item_was_given_by_itself_is_its_own(durable: On, pricing: Graph) -> None:
    price(durable, pricing, rows(2))
    durable.run(pricing, {"rate": 3.0}, workflow_id="prices/item-1")
    assert price(durable, pricing, rows(3))["total"] == [0.75, 6.0, 3.75]


def test_failed_items_that_start_over_do_not_lose_what_they_were_given(durable: On, pricing: Graph) -> None:
    price(durable, pricing, rows(2, {1}), rate=3.0)
    with pytest.raises(WorkflowError, match=LEFT_OUT):
        price(durable, pricing, rows(2, {1}), restart="item")
    assert price(durable, pricing, rows(2, {1}))["total"] == [2.0, None]
