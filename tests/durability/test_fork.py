"""A fork without an id gets one, as every stored run does: nothing is lost for a forgotten argument."""

import asyncio
from typing import Any

import pytest

from hypergraph import AsyncRunner, FunctionNode, Graph, SyncRunner
from hypergraph.checkpointers import MemoryCheckpointer

GRAPH = Graph([FunctionNode(lambda x: x, "take", "y"), FunctionNode(lambda y: y + 1, "add", "z")])


def store_with_a_run() -> MemoryCheckpointer:
    store = MemoryCheckpointer()
    SyncRunner(checkpointer=store).run(GRAPH, x=1, workflow_id="first")
    return store


def ways_to_fork(store: MemoryCheckpointer) -> dict[str, dict[str, Any]]:
    point = store.checkpoint("first", superstep=0)
    return {
        "history": {"values": {**point.values}, "history": point.steps},
        "checkpoint": {"checkpoint": point},
        "fork_from": {"fork_from": ("first", 0)},
    }


@pytest.mark.parametrize("way", ["history", "checkpoint", "fork_from"])
def test_a_fork_without_an_id_is_stored_under_its_run_id(way: str) -> None:
    store = store_with_a_run()
    result = SyncRunner(checkpointer=store).run(GRAPH, **ways_to_fork(store)[way])
    assert result["z"] == 2
    assert result.workflow_id == result.run_id
    forked = store.workflow(result.run_id)
    assert forked is not None
    assert (forked.forked_from, [step.node_name for step in forked.steps]) == ("first", ["take", "add"])


def test_a_given_run_id_serves_as_the_id_of_a_fork() -> None:
    store = store_with_a_run()
    runner = AsyncRunner(checkpointer=store)
    result = asyncio.run(runner.run(GRAPH, fork_from=("first", 0), run_id="second"))
    assert (result.run_id, result.workflow_id) == ("second", "second")


@pytest.mark.parametrize("way", ["history", "checkpoint", "fork_from"])
def test_a_fork_needs_a_store(way: str) -> None:
    with pytest.raises(ValueError, match=f"{way}.* needs? a runner with a checkpointer"):
        SyncRunner().run(GRAPH, **ways_to_fork(store_with_a_run())[way])
