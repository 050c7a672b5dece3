"""Questions about stored maps: the values of all items, forks, and differences."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from support.durable import durable, store
from support.running import On, OnSync

from hypergraph import Graph, node
from hypergraph.checkpointers import Checkpointer, MemoryCheckpointer
from hypergraph.exceptions import GraphChangedError, WorkflowError

__all__ = ["durable", "store"]  # fixtures


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
    assert store.workflow_ids() == ["a"]
    assert durable.run(GRAPH, k=3, fork_from=("a/item-1", None), workflow_id="fork")["y"] == 6


@pytest.mark.parametrize("option", ["fork_from", "checkpoint", "history"])
def test_map_does_not_fork(durable: On, option: str) -> None:
    with pytest.raises(ValueError, match=f"map does not fork, and has no option {option}"):
        mapped(durable, [2], **{option: ("a", None)})


def test_another_graph_is_not_advised_to_fork_a_map(durable: On) -> None:
    mapped(durable, [2])
    other = Graph([scale], name="other")
    with pytest.raises(GraphChangedError) as caught:
        durable.map(other, half=[1.0], map_over="half", workflow_id="a")
    assert "another workflow_id" in str(caught.value)
    assert "fork_from" not in str(caught.value)
