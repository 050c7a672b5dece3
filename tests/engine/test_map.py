"""One graph over many items: what becomes an item, what an item's failure does, what comes back."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest
from support.listening import Recorder, assert_closed
from support.running import On, on

from hypergraph import (
    Graph,
    GraphConfigError,
    MapResult,
    MissingInputError,
    NodeError,
    RunStatus,
    interrupt,
    node,
)
from hypergraph.checkpointers import MemoryCheckpointer

__all__ = ["on"]


@node(output_name="y")
def add(x: int, k: int = 0) -> int:
    return x + k


@node(output_name="inverse")
def invert(x: int) -> float:
    return 1 / x


ADD = Graph([add], name="adding")


# -- what becomes an item ------------------------------------------------------------------------------


def test_a_list_becomes_one_item_each(on: On) -> None:
    result = on.map(ADD, {"x": [1, 2, 3]}, map_over="x")
    assert isinstance(result, MapResult)
    assert result["y"] == [1, 2, 3]
    assert (result.map_over, result.map_mode, result.graph_name) == (("x",), "zip", "adding")
    assert result.status is RunStatus.COMPLETED
    assert [log.item_index for log in result.log.items] == [0, 1, 2]


@pytest.mark.parametrize("kind", [tuple, iter, deque, dict.fromkeys])
def test_anything_that_can_be_iterated_over_will_do(on: On, kind: Any) -> None:
    items = kind([1, 2])
    given = items.keys() if isinstance(items, dict) else items
    assert on.map(ADD, {"x": given}, map_over="x")["y"] == [1, 2]


@pytest.mark.parametrize("items", [7, None, "abc", b"abc", {"a": 1}])
def test_text_mappings_and_single_values_are_no_lists_of_items(on: On, items: Any) -> None:
    with pytest.raises(TypeError, match="'x'"):
        on.map(ADD, {"x": items}, map_over="x")


def test_other_inputs_are_the_same_for_every_item(on: On) -> None:
    assert on.map(ADD, {"x": [1, 2], "k": 10}, map_over=["x"])["y"] == [11, 12]
    assert on.map(ADD, {"x": [1, 2]}, map_over="x", k=10)["y"] == [11, 12]


def test_zip_takes_items_side_by_side(on: On) -> None:
    assert on.map(ADD, {"x": [1, 2], "k": [10, 20]}, map_over=["x", "k"])["y"] == [11, 22]


def test_zip_needs_equal_lengths(on: On) -> None:
    with pytest.raises(ValueError, match="equal lengths") as caught:
        on.map(ADD, {"x": [1, 2], "k": [10]}, map_over=["x", "k"], error_handling="continue")
    assert "x: 2" in str(caught.value)


def test_product_takes_all_pairs_in_the_order_of_map_over(on: On) -> None:
    for names, expected in ((["x", "k"], [11, 21, 12, 22]), (["k", "x"], [11, 12, 21, 22])):
        result = on.map(ADD, {"x": [1, 2], "k": [10, 20]}, map_over=names, map_mode="product")
        assert result["y"] == expected
        assert result.map_mode == "product"


def test_an_unknown_mode_is_refused(on: On) -> None:
    with pytest.raises(ValueError, match="map_mode"):
        on.map(ADD, {"x": [1]}, map_over="x", map_mode="cross")


@pytest.mark.parametrize("handling", ["raise", "continue"])
def test_no_items_give_no_results_and_no_events(on: On, handling: str) -> None:
    heard = Recorder()
    result = on.map(ADD, {"x": []}, map_over="x", error_handling=handling, event_processors=[heard])
    assert len(result) == 0
    assert result.run_id is None
    assert result.status is RunStatus.COMPLETED
    assert heard.events == []


def test_names_to_map_over_must_be_given(on: On) -> None:
    with pytest.raises(MissingInputError, match="'x'"):
        on.map(ADD, {"k": 1}, map_over="x")
    with pytest.raises(MissingInputError, match=r"not given\. Did you mean 'number'\?"):
        on.map(ADD, {"number": [1]}, map_over="numbers")
    with pytest.raises(ValueError, match="at least one"):
        on.map(ADD, {"x": [1]}, map_over=[])
    with pytest.raises(ValueError, match="twice"):
        on.map(ADD, {"x": [1]}, map_over=["x", "x"])
    with pytest.raises(TypeError, match="map_over"):
        on.map(ADD, {"x": [1]})


def test_each_item_asks_for_itself(on: On) -> None:
    @interrupt(output_name="answer")
    def ask(x: int) -> None:
        return None

    result = on.map(Graph([ask]), {"x": [1, 2]}, map_over="x")
    assert [pause.response_key for pause in result.pauses] == ["item-0.answer", "item-1.answer"]


# -- clones --------------------------------------------------------------------------------------------


@node(output_name="seen")
def collect(x: int, box: list[int]) -> list[int]:
    box.append(x)
    return box


def test_broadcast_values_are_shared_unless_cloned(on: On) -> None:
    graph = Graph([collect])
    box: list[int] = []
    shared = on.map(graph, {"x": [1, 2], "box": box}, map_over="x")
    assert all(each["seen"] is box for each in shared)
    for clone in (True, ["box"]):
        own: list[int] = []
        assert on.map(graph, {"x": [1, 2], "box": own}, map_over="x", clone=clone)["seen"] == [[1], [2]]
        assert own == []


def test_bound_values_are_never_cloned(on: On) -> None:
    box: list[int] = []
    result = on.map(Graph([collect]).bind(box=box), {"x": [1, 2]}, map_over="x", clone=True)
    assert all(each["seen"] is box for each in result)


def test_what_cannot_be_cloned_is_refused(on: On) -> None:
    generator = (i for i in range(3))
    with pytest.raises(GraphConfigError, match="cannot be deep-copied for clone"):
        on.map(Graph([collect]), {"x": [1], "box": generator}, map_over="x", clone=True)


@pytest.mark.parametrize(
    ("clone", "kind", "text"),
    [
        (["x"], ValueError, "Cannot clone mapped parameter"),
        (["nobody"], ValueError, "nobody"),
        ("box", TypeError, "clone must be bool or list"),
        ([1], TypeError, "clone list entries must be strings"),
    ],
)
def test_a_wrong_clone_is_refused(on: On, clone: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        on.map(Graph([collect]), {"x": [1], "box": []}, map_over="x", clone=clone)


# -- failures ------------------------------------------------------------------------------------------


def test_the_failure_of_an_item_is_raised_with_everything_that_finished(on: On) -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        on.map(Graph([invert], name="inv"), {"x": [1, 0, 2]}, map_over="x")
    evidence = NodeError.of(caught.value)
    assert evidence is not None
    assert (evidence.node_name, evidence.item_index) == ("invert", 1)
    assert evidence.inputs == {"x": 0}
    assert isinstance(evidence.map_result, MapResult)
    assert evidence.map_result[0]["inverse"] == 1
    assert "map item 1" in caught.value.__notes__[0]
    # without an event loop the first failing item ends the map; on one the others were under way
    assert len(evidence.map_result) == (3 if on.is_async else 2)


def test_continue_gives_a_result_for_every_item(on: On) -> None:
    result = on.map(Graph([invert]), {"x": [1, 0, 2]}, map_over="x", error_handling="continue")
    assert [each.status for each in result] == [RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.COMPLETED]
    assert result.status is RunStatus.PARTIAL
    assert result.partial
    assert result.failed
    assert result["inverse"] == [1, None, 0.5]
    (failed,) = result.failures
    assert isinstance(failed.error, ZeroDivisionError)
    assert failed.failure is not None
    assert failed.failure.item_index == 1
    assert len(result.log.errors) == 1


def test_nothing_but_failures_is_a_failure(on: On) -> None:
    result = on.map(Graph([invert]), {"x": [0, 0]}, map_over="x", error_handling="continue")
    assert result.status is RunStatus.FAILED


def test_one_bad_item_in_a_hundred_is_partial(on: On) -> None:
    result = on.map(Graph([invert]), {"x": list(range(100))}, map_over="x", error_handling="continue")
    assert result.status is RunStatus.PARTIAL
    assert len(result.failures) == 1


def test_items_that_lack_an_input_fail_one_by_one_under_continue(on: On) -> None:
    heard = Recorder()
    graph = Graph([collect], name="g")
    with pytest.raises(MissingInputError):
        on.map(graph, {"x": [1, 2]}, map_over="x")
    result = on.map(graph, {"x": [1, 2]}, map_over="x", error_handling="continue", event_processors=[heard])
    assert [type(each.error) for each in result] == [MissingInputError] * 2
    assert result.status is RunStatus.FAILED
    assert [each.failure.values for each in result if each.failure] == [{"x": 1}, {"x": 2}]
    assert [len(each.log.steps) for each in result] == [0, 0]
    assert_closed(heard.events)


def test_every_item_has_a_run_of_its_own(on: On) -> None:
    assert on.map(ADD, {"x": [1]}, map_over="x").workflow_id is None
    on.runner.checkpointer = MemoryCheckpointer()
    result = on.map(ADD, {"x": [1, 2]}, map_over="x", workflow_id="batch")
    assert len({result.run_id, *(each.run_id for each in result)}) == 3
    assert [each.workflow_id for each in result] == ["batch/item-0", "batch/item-1"]
    assert result.workflow_id == "batch"


def test_options_hold_for_every_item(on: On) -> None:
    @node(output_name="z")
    def more(y: int) -> int:
        return y + 1

    graph = Graph([add, more])
    assert on.map(graph, {"x": [1, 2]}, map_over="x", select="z")[0].values == {"z": 2}
    with pytest.raises(GraphConfigError, match="Invalid select"):
        on.map(graph, {"x": [1, 2]}, map_over="x", select="nobody")


def test_a_mapped_graph_node_gives_lists(on: On) -> None:
    each = Graph([invert], name="each").as_node().map_over("x", error_handling="continue")
    result = on.run(Graph([each]), {"x": [1, 0, 2]})
    assert result["inverse"] == [1, None, 0.5]
    nested: Any = result.nested["each"]
    assert nested.status is RunStatus.PARTIAL
    assert result.completed
