"""Questions about stored maps: the values of all items, forks, and differences."""

from __future__ import annotations

import asyncio
import threading
import warnings
from typing import Any

import pytest
from support import running
from support.durable import Bodies, bodies, durable, store
from support.running import On, OnSync

from hypergraph import Graph, node
from hypergraph.checkpointers import Checkpointer, MemoryCheckpointer, WorkflowStatus
from hypergraph.exceptions import AmbiguousStepError, GraphChangedError, WorkflowError
from hypergraph.views.diff import diff

__all__ = ["bodies", "durable", "store"]  # fixtures


@node(output_name="half")
def halve(x: int) -> float:
    if x % 2:
        raise ValueError("odd")
    return x / 2


@node(output_name="y")
def scale(half: float, k: int = 1) -> float:
    return half * k


GRAPH = Graph([halve, scale], name="scaling")


def mapped(durable: On, xs: list[int], workflow_id: str = "a", **options: Any) -> Any:
    return durable.map(
        GRAPH, x=xs, map_over="x", workflow_id=workflow_id, error_handling="continue", **options
    )


async def awaitable(store: Checkpointer) -> Any:
    return await store.get_state("a")


# -- the values of all items -------------------------------------------------------------------------------


def test_the_state_of_a_map_is_that_of_all_items_in_their_order(durable: On, store: Checkpointer) -> None:
    result = mapped(durable, [2, 4, 7, 6], k=10)
    found = store.state("a")
    assert found == {"half": [1, 2, None, 3], "y": [10, 20, None, 30]}
    assert found == {name: result[name] for name in found}
    assert store.inputs("a") == {"x": [2, 4, 7, 6], "k": [10] * 4}
    assert asyncio.run(awaitable(store)) == found
    assert store.state("a", superstep=0) == {"half": [1, 2, None, 3]}
    assert store.state("a/item-1") == {"half": 2.0, "y": 20.0}


def test_the_state_of_a_map_has_more_items_than_a_list_of_workflows() -> None:
    store = MemoryCheckpointer()
    mapped(OnSync(checkpointer=store), [2 * x for x in range(120)])
    assert len(store.workflows(parent="a")) == 100
    assert store.state("a")["half"] == list(range(120))


def test_the_state_of_a_keyed_map_is_in_the_order_of_the_numbers(durable: On, store: Checkpointer) -> None:
    mapped(durable, [2, 4], key="x")
    mapped(durable, [6, 4], key="x")
    assert store.inputs("a") == {"x": [2, 4, 6]}
    assert store.state("a")["half"] == [1, 2, 3]


def test_the_state_of_a_mapped_graph_inside_of_a_run(durable: On, store: Checkpointer) -> None:
    outer = Graph([GRAPH.as_node(name="each").map_over("x")], name="outer")
    durable.run(outer, x=[2, 4], workflow_id="w")
    assert store.state("w/each") == store.state("w") == {"half": [1, 2], "y": [1, 2]}


def test_a_run_without_values_has_none(store: Checkpointer) -> None:
    store.create_workflow("w")
    assert (store.state("w"), store.inputs("w")) == ({}, {})


# -- forks -------------------------------------------------------------------------------------------------


def test_a_map_cannot_be_forked_and_its_items_can(durable: On, store: Checkpointer) -> None:
    mapped(durable, [2, 4])
    with pytest.raises(WorkflowError, match=r"'a' is a map.*fork_from=\('a/item-0', None\)"):
        durable.run(GRAPH, x=8, fork_from=("a", None), workflow_id="fork")
    with pytest.raises(WorkflowError, match=r"'a' is a map.*checkpoint\('a/item-0'\)"):
        store.checkpoint("a")
    assert [found.id for found in store.workflows()] == ["a"]
    assert durable.run(GRAPH, k=3, fork_from=("a/item-1", None), workflow_id="fork")["y"] == 6


@pytest.mark.parametrize("option", ["fork_from", "checkpoint", "history"])
def test_map_does_not_fork(durable: On, option: str) -> None:
    given: Any = {option: ("a", None)}
    with pytest.raises(ValueError, match=f"map does not fork, and has no option {option}"):
        mapped(durable, [2], **given)


def test_another_graph_is_not_advised_to_fork_a_map(durable: On) -> None:
    mapped(durable, [2])
    other = Graph([scale], name="other")
    with pytest.raises(GraphChangedError) as caught:
        durable.map(other, half=[1.0], map_over="half", workflow_id="a")
    assert "another workflow_id" in str(caught.value)
    assert "fork_from" not in str(caught.value)


# -- differences -------------------------------------------------------------------------------------------


def test_maps_are_compared_item_by_item(durable: On, store: Checkpointer) -> None:
    mapped(durable, [2, 4, 6], "a")
    mapped(durable, [2, 8, 6], "b")
    found = store.diff("a", "b")
    assert found is not None
    assert found.first is not None
    assert (found.first.kind, found.first.names) == ("values", ("half",))
    assert found.first.a is not None
    assert found.first.a.workflow_id == "a/item-1"
    (inner,) = found.inside
    assert (inner.a, inner.b) == ("a/item-1", "b/item-1")
    assert inner.changed == {"x": (4, 8), "half": (2, 4), "y": (2, 4)}
    assert repr(found) == "<Difference: a, b | values differ at position 0 in halve of item-1>"
    lines = str(found).splitlines()
    assert any(line.split()[:3] == ["item-1", "values", "differ"] for line in lines)
    assert found.timing.keys() == {"halve", "scale"}
    assert found.to_dict()["inside"][0]["a"] == "a/item-1"
    view = diff(store, "a", "b")
    assert (view["same"], view["first"]) == (False, None)
    assert [(each["path"], each["kind"], each["position"], each["node"]) for each in view["inside"]] == [
        ("item-1", "values", 0, "halve")
    ]
    assert set(view["inside"][0]["values"]) == {"x", "half", "y"}
    assert [(row["node"], row["a_runs"], row["b_runs"]) for row in view["timing"]].count(("halve", 3, 3)) == 1


def test_items_that_one_map_lacks_are_named(durable: On, store: Checkpointer) -> None:
    mapped(durable, [2, 4, 6], "a")
    mapped(durable, [2], "b")
    found = store.diff("a", "b")
    assert found is not None
    assert found.unmatched == (("a/item-1", "a/item-2"), ())
    assert found.inside == ()
    assert found.first is not None
    assert (found.first.kind, found.first.b) == ("path", None)
    assert "only in a: item-1, item-2" in str(found)
    view = diff(store, "b", "a")
    assert (view["same"], view["only_a"], view["only_b"]) == (False, [], ["a/item-1", "a/item-2"])


def test_items_with_keys_are_matched_by_key(durable: On, store: Checkpointer) -> None:
    mapped(durable, [2, 4, 6], "a", key="x")
    mapped(durable, [6, 2, 8], "b", key="x")
    found = store.diff("a", "b")
    assert found is not None
    assert (found.inside, found.unmatched) == ((), (("a/item-1",), ("b/item-2",)))
    mapped(durable, [6, 4, 2], "c", key="x")
    same = store.diff("a", "c")
    assert same is not None
    assert same.is_empty
    assert diff(store, "a", "c")["same"]
    assert repr(same) == "<Difference: a, c | every step is alike>"


def test_equal_maps_are_alike(durable: On, store: Checkpointer) -> None:
    for name in ("a", "b"):
        mapped(durable, [2, 3], name)
    found = store.diff("a", "b")
    assert found is not None
    assert found.is_empty
    assert diff(store, "a", "b")["same"]


@pytest.mark.parametrize("is_mapped", [False, True], ids=["nested", "mapped"])
def test_a_difference_inside_of_a_run_is_found(durable: On, store: Checkpointer, is_mapped: bool) -> None:
    """The outputs of the nested graph are the same, and what it did to make them is not."""

    @node(output_name="z")
    def sign(half: float) -> bool:
        return half > 0

    inner = Graph([halve, sign], name="inner").select("z").as_node(name="each")
    graph = Graph([inner.map_over("x") if is_mapped else inner], name="outer")
    for name, x in (("a", 2), ("b", 4)):
        durable.run(graph.bind(x=[2, x] if is_mapped else x), workflow_id=name)
    place = "each/item-1" if is_mapped else "each"
    found = store.diff("a", "b")
    assert found is not None
    assert found.changed == {}
    assert found.first is not None
    assert found.first.a is not None
    assert (found.first.names, found.first.a.workflow_id) == (("half",), f"a/{place}")
    assert f"in halve of {place}>" in repr(found)
    view = diff(store, "a", "b")
    assert (view["same"], view["first"]) == (False, None)
    assert place in [each["path"] for each in view["inside"]]


def test_a_difference_before_one_inside_is_the_first(durable: On, store: Checkpointer) -> None:
    @node(output_name="x")
    def begin(n: int) -> int:
        return 2 * n

    graph = Graph([begin, GRAPH.as_node(name="inner")], name="outer")
    for name, n in (("a", 1), ("b", 2)):
        durable.run(graph, n=n, workflow_id=name)
    found = store.diff("a", "b")
    assert found is not None
    assert repr(found) == "<Difference: a, b | values differ at position 0 in begin>"
    assert [each.a for each in found.inside] == ["a/inner"]


def test_an_answer_about_large_maps_says_how_many_items_it_has_not_compared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = MemoryCheckpointer()
    for name, k in (("a", 1), ("b", 2)):
        mapped(OnSync(checkpointer=store), [2, 4, 6], name, k=k)
    monkeypatch.setattr("hypergraph.views.diff._PAIRS", 2)
    monkeypatch.setattr("hypergraph.views.diff._INSIDE", 1)
    view = diff(store, "a", "b")
    assert (view["same"], view["inside_left_out"], view["inside_unread"]) == (False, 1, 1)
    assert [each["path"] for each in view["inside"]] == ["item-0"]
    assert not diff(store, "a", "a")["same"]  # the third item was not compared


def test_a_part_of_an_unfinished_workflow_is_not_deleted(
    durable: On, store: Checkpointer, bodies: Bodies
) -> None:
    @node(output_name="half")
    def halve(x: int) -> int:
        bodies.enter(f"halve {x}")
        return x // 2

    inner = Graph([halve], name="inner")
    outer = Graph([inner.as_node().map_over("x")], name="outer")
    bodies.failing["halve 4"] = OSError("down")
    durable.map(inner, {"x": [2, 4]}, map_over="x", workflow_id="m", error_handling="continue")
    durable.run(outer, x=[2, 4], workflow_id="w", error_handling="continue")
    bodies.failing.clear()
    for part in ("m/item-0", "w/inner", "w/inner/item-0"):
        with pytest.raises(WorkflowError, match=rf"'{part}' is part of.*Finish '{part[0]}' first"):
            store.delete(part)
    bodies.take()
    durable.map(inner, {"x": [2, 4]}, map_over="x", workflow_id="m")
    durable.run(outer, workflow_id="w")
    assert bodies.take() == ["halve 4", "halve 4"]
    assert store.delete("m/item-0", "w/none") == 1  # what is completed may become smaller
    assert store.delete("w/inner", "w") == 4


def test_the_first_item_that_lacks_a_value_is_told_at_once_and_all_others_at_the_end(durable: On) -> None:
    @node(output_name="found")
    def look(n: int) -> Any:
        return {"lock": threading.Lock()}

    @node(output_name="size")
    def measure(found: Any) -> int:
        return len(found)

    each = Graph([look, measure], name="each").as_node(lift=["size"]).map_over("n")
    whole = Graph([Graph([each], name="row").as_node().map_over("n")], name="whole")
    for graph, given, first in (
        (Graph([each], name="one"), [1, 2, 3], "one/each/item-0"),
        (whole, [[1, 2], [3]], "whole/row/item-0/each/item-0"),
    ):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            durable.run(graph, n=given, workflow_id=graph.name)
            at_once, at_the_end = map(str, (each.message for each in told))
        assert f"cannot be stored (workflow '{first}', node 'look')" in at_once
        assert f"cannot be stored (workflow '{first}' and 2 others, node 'look')" in at_the_end
        assert {each.filename for each in told} == {running.__file__}


@pytest.mark.parametrize("fails", [False, True])
def test_a_completed_item_makes_again_what_could_not_be_stored(
    durable: On, store: Checkpointer, bodies: Bodies, fails: bool
) -> None:
    @node(output_name="found")
    def look(n: int) -> Any:
        bodies.enter(f"look {n}")
        return {"lock": threading.Lock()} if n != 1 else n

    @node(output_name="double")
    def double(n: int) -> int:
        bodies.enter(f"double {n}")
        return 2 * n

    items: dict[str, Any] = {"n": [0, 1, 2], "map_over": "n", "workflow_id": "m"}
    items["error_handling"] = "continue"
    graph, told = Graph([look, double], name="looks"), r"node 'look'\).*value\[\.\.\.\]"
    with pytest.warns(UserWarning, match=told):
        durable.map(graph, **items)
    bodies.take()
    if fails:
        bodies.failing["look 2"] = ConnectionError("down")
    with pytest.warns(UserWarning, match="cannot be stored"):
        again = durable.map(graph, **items)
    assert sorted(bodies.take()) == (["look 0"] if fails else ["look 0", "look 2"])
    assert again["found"][1] == 1
    assert again["found"][0] is not None
    assert again["double"][:2] == [0, 2]
    status = WorkflowStatus.PARTIAL if fails else WorkflowStatus.COMPLETED
    assert again.status.value == status.value
    assert store.workflow("m").status is status


def test_a_completed_item_whose_call_must_not_be_repeated_fails_without_its_result(
    durable: On, bodies: Bodies
) -> None:
    @node(output_name="found", repeatable=False)
    def book(n: int) -> Any:
        bodies.enter("book")
        return threading.Lock()

    items: dict[str, Any] = {"n": [0], "map_over": "n", "workflow_id": "m", "error_handling": "continue"}
    with pytest.warns(UserWarning, match="must not be repeated"):
        durable.map(Graph([book], name="bookings"), **items)
    again = durable.map(Graph([book], name="bookings"), **items)
    assert type(again[0].error) is AmbiguousStepError
    assert bodies.take() == ["book"]


def test_an_item_does_not_make_again_what_is_not_to_be_kept(durable: On, bodies: Bodies) -> None:
    @node(output_name="page", persist=False)
    def fetch(n: int) -> str:
        bodies.enter("fetch")
        return "page"

    for _ in range(2):
        durable.map(Graph([fetch], name="pages"), n=[0], map_over="n", workflow_id="m")
    assert bodies.take() == ["fetch"]
