"""What is bound around a nested graph is bound inside: it is part of the code, and no stored input."""

from __future__ import annotations

from typing import Any

import pytest
from support.durable import Bodies, bodies, durable, fail_once, store
from support.running import On

from hypergraph import END, Graph, node, route
from hypergraph.checkpointers import Checkpointer
from hypergraph.exceptions import ItemChangedError

__all__ = ["bodies", "durable", "store"]  # fixtures


def fetching(bodies: Bodies) -> Graph:
    """Return an inner graph of two steps that take a url."""

    @node(output_name="y")
    def first(x: int, url: str) -> str:
        bodies.enter(f"first {x} {url}")
        return f"{url}{x}"

    @node(output_name="z")
    def second(y: str, url: str) -> str:
        bodies.enter(f"second {y} {url}")
        return f"{y}{url}"

    return Graph([first, second], name="inner")


def around(bodies: Bodies, kind: str) -> Graph:
    """Return the same two steps by themselves, in a nested graph, two graphs deep, or once per item."""
    inner = fetching(bodies)
    if kind == "flat":
        return inner
    if kind == "deep":
        return Graph([Graph([inner.as_node()], name="middle").as_node()])
    return Graph([inner.as_node() if kind == "nested" else inner.as_node().map_over("x")])


@pytest.mark.parametrize("kind", ["flat", "nested", "deep", "mapped"])
def test_a_resume_takes_another_bound_value_and_keeps_what_is_done(
    durable: On, bodies: Bodies, kind: str
) -> None:
    graph, x = around(bodies, kind), [1] if kind == "mapped" else 1
    fail_once(durable, bodies, graph.bind(url="a"), "second a1 a", x=x, workflow_id="w")
    result = durable.run(graph.bind(url="b"), workflow_id="w")
    assert result["z"] == (["a1b"] if kind == "mapped" else "a1b")
    assert bodies.take() == ["first 1 a", "second a1 b"]


@pytest.mark.parametrize("kind", ["nested", "deep", "mapped"])
def test_a_bound_value_is_no_stored_input_of_what_runs_inside(
    durable: On, store: Checkpointer, bodies: Bodies, kind: str
) -> None:
    durable.run(around(bodies, kind).bind(url="a"), {"x": [1] if kind == "mapped" else 1}, workflow_id="w")
    child = {"nested": "w/inner", "deep": "w/middle/inner", "mapped": "w/inner/item-0"}[kind]
    assert store.checkpoint(child).values == {"x": 1, "y": "a1", "z": "a1a"}
    assert [step.input_versions["url"] for step in store.steps(child)] == [0, 0]


@pytest.mark.parametrize("kind", ["nested", "deep", "mapped"])
def test_a_recalled_result_has_its_nested_results(durable: On, bodies: Bodies, kind: str) -> None:
    graph, x = around(bodies, kind).bind(url="a"), [1] if kind == "mapped" else 1
    first = durable.run(graph, x=x, workflow_id="w")
    again = durable.run(graph, workflow_id="w")
    name = "middle" if kind == "deep" else "inner"
    assert again[name]["z"] == first[name]["z"] == first["z"]


def test_a_value_given_in_place_of_a_bound_one_is_an_input(
    durable: On, store: Checkpointer, bodies: Bodies
) -> None:
    graph = around(bodies, "nested").bind(url="a")
    durable.run(graph, x=1, url="c", workflow_id="w")
    assert store.checkpoint("w/inner").values["url"] == "c"
    assert durable.run(graph, workflow_id="w")["z"] == "c1c"


def test_mapped_items_are_inputs_though_the_list_is_bound(durable: On, bodies: Bodies) -> None:
    graph = around(bodies, "mapped").bind(url="a")
    fail_once(durable, bodies, graph.bind(x=[1, 2]), "second a2 a", workflow_id="w")
    with pytest.raises(ItemChangedError, match=r"Item 1 .* other values of 'x'"):
        durable.run(graph.bind(x=[1, 3]), workflow_id="w")


def test_bound_values_are_cloned_for_each_item_if_that_is_asked_for(durable: On) -> None:
    shared: list[int] = []

    @node(output_name="seen")
    def add(x: int, found: list[int]) -> list[int]:
        found.append(x)
        return list(found)

    inner = Graph([add], name="inner").as_node().map_over("x", clone=["found"])
    result = durable.run(Graph([inner]).bind(found=shared), x=[1, 2], workflow_id="w")
    assert (result["seen"], shared) == ([[1], [2]], [])


def test_a_loop_around_a_nested_graph_starts_from_the_bound_value(durable: On, store: Checkpointer) -> None:
    @node(output_name="count")
    def add(count: int) -> int:
        return count + 1

    @route(targets=["inner", END])
    def again(count: int) -> Any:
        return END if count >= 3 else "inner"

    graph = Graph([Graph([add], name="inner").as_node(), again]).bind(count=0)
    assert durable.run(graph, workflow_id="w")["count"] == 3
    assert [store.checkpoint(f"w/inner{n}").values["count"] for n in ("", "#2", "#3")] == [1, 2, 3]
