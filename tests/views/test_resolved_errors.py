"""An error that was resolved does not stand in the way of one that is left, and the last one counts."""

from __future__ import annotations

import pytest

from hypergraph import Graph, SyncRunner, node
from hypergraph.checkpointers import MemoryCheckpointer
from hypergraph.views.errors import errors
from hypergraph.views.row_details import row_details
from hypergraph.views.workflow import workflow

IS_DOWN = [False]


@node(output_name="names")
def fetch(day: str) -> list[int]:
    if IS_DOWN[0]:
        raise ConnectionError("down")
    return [0, 1, 2, 3]


@node(output_name="checked")
def check(name: int) -> int:
    if name in (1, 3):
        raise ValueError("bad")
    return name


ONE = Graph([check], name="one")
EACH = ONE.as_node(name="each").map_over("name", error_handling="continue").with_inputs(name="names")
GRAPH = Graph([fetch, EACH], name="night")


@pytest.fixture
def store() -> MemoryCheckpointer:
    """Return a store with a run whose first node failed and was resumed, and which has failed items."""
    found = MemoryCheckpointer()
    runner = SyncRunner(checkpointer=found)
    for IS_DOWN[0] in (True, False):
        runner.run(GRAPH, day="monday", workflow_id="w", error_handling="continue")
    return found


def test_the_first_error_is_one_that_is_left(store: MemoryCheckpointer) -> None:
    detail = workflow(store, "w")
    assert detail["first_error"] is not None
    assert (detail["first_error"]["workflow"], detail["first_error"]["node"]) == ("w/each/item-1", "check")
    (row,) = row_details(store, ["w"])["items"]
    assert row["error"] is not None
    assert row["error"]["node"] == "check"


def test_a_resolved_error_is_the_first_where_there_is_no_other() -> None:
    store = MemoryCheckpointer()
    runner = SyncRunner(checkpointer=store)
    for IS_DOWN[0] in (True, False):
        runner.run(Graph([fetch], name="alone"), day="monday", workflow_id="w", error_handling="continue")
    detail = workflow(store, "w")
    assert detail["first_error"] is not None
    assert detail["first_error"]["node"] == "fetch"


def test_the_last_time_of_a_group_is_that_of_its_last_failure(store: MemoryCheckpointer) -> None:
    (group,) = errors(store, "w")["items"]
    last = store.steps("w/each/item-3")[-1].completed_at
    assert last is not None
    assert group["last_at"] == last.isoformat(timespec="milliseconds").replace("+00:00", "Z")
