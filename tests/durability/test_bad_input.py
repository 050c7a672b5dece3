"""Calls that a store or a stored workflow cannot serve: refused with a remedy, and without a trace."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from support.durable import Bodies, bodies, durable, fail_once, pipeline, rows, store
from support.running import On

from hypergraph import END, FunctionNode, Graph, MissingInputError, RouteNode, SyncRunner, node
from hypergraph.checkpointers import Checkpointer, MemoryCheckpointer
from hypergraph.exceptions import (
    CheckpointError,
    GraphChangedError,
    InvalidWorkflowIdError,
    ItemChangedError,
    WorkflowError,
    WorkflowLockedError,
    WorkflowNotFoundError,
)

__all__ = ["bodies", "durable", "store"]  # fixtures


def content(store: Checkpointer) -> list[Any]:
    """Return all that is stored, of children too, in a form that can be compared."""
    found: list[Any] = []
    places: list[str | None] = [None]
    while places:
        parent = places.pop()
        for workflow in store.workflows(limit=None, **({} if parent is None else {"parent": parent})):
            steps = [step.to_dict() for step in store.steps(workflow.id)]
            found.append((workflow.to_dict(), steps, store.inputs(workflow.id), store.state(workflow.id)))
            places.append(workflow.id)
    return sorted(found, key=lambda entry: str(entry[0]["id"]))


@contextmanager
def untouched(store: Checkpointer, bodies: Bodies) -> Iterator[None]:
    """See that nothing runs and nothing is written meanwhile."""
    before = content(store)
    bodies.take()
    yield
    assert bodies.take() == []
    assert content(store) == before


# -- ids ------------------------------------------------------------------------------------------------

BAD_IDS = {
    "empty": "",
    "a blank": " ",
    "a leading blank": " w",
    "a trailing blank": "w ",
    "a leading wide blank": "\u3000w",
    "a trailing line break": "w\n",
    "a slash": "a/b",
    "nothing but a slash": "/",
    "dots and slashes": "a/../../b",
    "NUL": "a\0b",
    "a bell": "a\x07b",
    "an escape sequence": "\x1b[31mred",
    "DEL": "a\x7fb",
    "a C1 control": "a\x9bb",
    "half a pair": "a\ud800b",
    "the other half": "\udfff",
    "600 bytes": "w" * 600,
    "513 bytes": "w" * 513,
    "600 bytes of 200 characters": "€" * 200,
    "a number": 7,
    "bytes": b"w",
}
bad_ids = pytest.mark.parametrize("bad", BAD_IDS.values(), ids=BAD_IDS.keys())
GOOD_IDS = [
    "w" * 512,
    "é" * 256,
    "e\u0301",
    "é",
    "a b",
    "%",
    "_",
    "x') OR 1=1--",
    "..",
    "item-5",
    "日本",
    "🙂",
]


@bad_ids
def test_an_id_that_cannot_be_one_is_refused_with_what_could(
    durable: On, store: Checkpointer, bodies: Bodies, bad: Any
) -> None:
    with untouched(store, bodies), pytest.raises(InvalidWorkflowIdError, match="1 to 512 bytes of printable"):
        durable.run(pipeline(bodies, 1), {"v0": 0}, workflow_id=bad)


@pytest.mark.parametrize("name", ["inner", "a name with a blank at the end ", "n" * 600])
def test_what_children_are_called_does_not_count_against_the_id(
    durable: On, store: Checkpointer, bodies: Bodies, name: str
) -> None:
    longest = "w" * 512
    outer = Graph([pipeline(bodies, 2).as_node(name=name)], name="outer")
    fail_once(durable, bodies, outer, "s2", values={"v0": 0}, workflow_id=longest)
    bodies.take()
    assert durable.run(outer, workflow_id=longest).completed
    assert bodies.take() == ["s2"]
    assert store.backend.read_workflow(f"{longest}/{name}") is not None
    assert durable.map(outer, {"v0": [0, 1]}, map_over="v0", workflow_id="m" * 512).completed


def test_maps_and_forks_are_refused_such_ids_too(durable: On, store: Checkpointer, bodies: Bodies) -> None:
    graph = pipeline(bodies, 2)
    durable.run(graph, {"v0": 0}, workflow_id="w")
    point = store.checkpoint("w", superstep=0)
    with untouched(store, bodies):
        for bad in BAD_IDS.values():
            with pytest.raises(InvalidWorkflowIdError, match="1 to 512 bytes of printable"):
                durable.map(graph, {"v0": [0, 1]}, map_over="v0", workflow_id=bad)
            with pytest.raises(InvalidWorkflowIdError, match="1 to 512 bytes of printable"):
                durable.run(graph, checkpoint=point, workflow_id=bad)


@bad_ids
def test_a_message_about_a_bad_id_can_be_printed_anywhere(bad: Any) -> None:
    with pytest.raises(InvalidWorkflowIdError) as caught:
        SyncRunner(checkpointer=MemoryCheckpointer()).run(Graph([]), workflow_id=bad)
    text = str(caught.value)
    assert text.isascii()
    assert text.isprintable()
    assert len(text) < 300


def test_unusual_ids_are_kept_byte_by_byte(durable: On, store: Checkpointer, bodies: Bodies) -> None:
    for number, workflow_id in enumerate(GOOD_IDS):
        assert durable.run(pipeline(bodies, 1), {"v0": number}, workflow_id=workflow_id)["v1"] == number + 1
    assert {w.id for w in store.workflows()} == set(GOOD_IDS)
    bodies.take()
    for number, workflow_id in enumerate(GOOD_IDS):
        assert durable.run(pipeline(bodies, 1), workflow_id=workflow_id)["v1"] == number + 1
    assert bodies.take() == []


def test_who_only_asks_for_such_an_id_finds_nothing(store: Checkpointer) -> None:
    for bad in BAD_IDS.values():
        if isinstance(bad, str):
            assert store.backend.read_workflow(bad) is None
            for ask in (store.steps, store.state):
                with pytest.raises(WorkflowNotFoundError):
                    ask(bad)


# -- workflows that are not what the caller thinks ------------------------------------------------------


def test_an_unknown_workflow_needs_its_inputs_and_is_not_created_without(
    durable: On, store: Checkpointer, bodies: Bodies
) -> None:
    with untouched(store, bodies), pytest.raises(MissingInputError, match="v0"):
        durable.run(pipeline(bodies), workflow_id="typo")
    assert store.backend.read_workflow("typo") is None


def test_missing_inputs_of_a_misspelt_workflow_say_that_there_is_none(
    durable: On, store: Checkpointer, bodies: Bodies
) -> None:
    durable.run(pipeline(bodies), {"v0": 0}, workflow_id="trip-1")
    for id, hint in {"trp-1": ". Did you mean 'trip-1'?\n", "other": "\n"}.items():
        with pytest.raises(MissingInputError) as caught:
            durable.run(pipeline(bodies), workflow_id=id)
        assert f"-> workflow {id!r} does not exist in " in str(caught.value)
        assert f"this would be a new run{hint}How to fix:" in str(caught.value)
        assert caught.value.missing == ["v0"]
    with pytest.raises(MissingInputError) as caught:
        durable.run(pipeline(bodies))
    assert "workflow" not in str(caught.value)


def test_a_workflow_that_is_running_names_its_owner_and_the_ways_out(
    durable: On, store: Checkpointer, bodies: Bodies
) -> None:
    caught: list[WorkflowLockedError] = []

    @node(output_name="y")
    def call_itself(x: int) -> int:
        bodies.enter("call_itself")
        for given in ({}, {"x": 1}, {"x": 2}):
            with pytest.raises(WorkflowLockedError) as refused:
                SyncRunner(checkpointer=store).run(graph, given, workflow_id="w")
            caught.append(refused.value)
        return x

    graph = Graph([call_itself], name="recursive")
    assert durable.run(graph, {"x": 1}, workflow_id="w")["y"] == 1
    assert bodies.take() == ["call_itself"]
    assert {(error.workflow_id, type(error.pid)) for error in caught} == {("w", int)}
    assert all("force=True" in str(error) and error.since for error in caught)
    assert rows(store, "w") == [(0, "call_itself", "completed")]
    assert store.checkpoint("w").values == {"x": 1, "y": 1}


def test_an_item_that_is_running_is_refused_as_its_map_is(
    durable: On, store: Checkpointer, bodies: Bodies
) -> None:
    @node(output_name="y")
    def map_itself(x: int) -> int:
        bodies.enter(f"map_itself {x}")
        with pytest.raises(WorkflowLockedError):
            SyncRunner(checkpointer=store).map(graph, {"x": [1, 2]}, map_over="x", workflow_id="batch")
        return x

    graph = Graph([map_itself], name="recursive")
    assert durable.map(graph, {"x": [1, 2]}, map_over="x", workflow_id="batch")["y"] == [1, 2]
    assert bodies.take() == ["map_itself 1", "map_itself 2"]


def test_a_finished_workflow_is_not_run_again(durable: On, store: Checkpointer, bodies: Bodies) -> None:
    durable.run(pipeline(bodies), {"v0": 0}, workflow_id="w")
    with untouched(store, bodies):
        assert durable.run(pipeline(bodies), workflow_id="w")["v5"] == 5


def test_an_input_that_mended_code_needs_is_asked_for(
    durable: On, store: Checkpointer, bodies: Bodies
) -> None:
    fail_once(durable, bodies, pipeline(bodies, 2), "s2", values={"v0": 0}, workflow_id="w")

    @node(output_name="v2")
    def s2(v1: int, factor: int) -> int:
        bodies.enter("s2")
        return v1 * factor

    mended = Graph([*list(pipeline(bodies, 1).nodes.values()), s2], name="pipeline")
    with untouched(store, bodies), pytest.raises(MissingInputError, match="factor") as caught:
        durable.run(mended, workflow_id="w")
    assert list(caught.value.missing) == ["factor"]
    assert durable.run(mended, {"factor": 5}, workflow_id="w")["v2"] == 5
    assert bodies.take() == ["s2"]


def test_an_unknown_input_is_no_reason_to_write(durable: On, store: Checkpointer, bodies: Bodies) -> None:
    fail_once(durable, bodies, pipeline(bodies, 2), "s2", values={"v0": 0}, workflow_id="w")
    with untouched(store, bodies), pytest.raises(ValueError, match="v00"):
        durable.run(pipeline(bodies, 2), {"v00": 1}, workflow_id="w", on_internal_override="error")


def test_a_workflow_is_either_a_run_or_a_map(durable: On, store: Checkpointer, bodies: Bodies) -> None:
    graph = pipeline(bodies, 1)
    durable.run(graph, {"v0": 0}, workflow_id="single")
    durable.map(graph, {"v0": [0, 1]}, map_over="v0", workflow_id="batch")
    with untouched(store, bodies), pytest.raises(CheckpointError, match=r"'single'.*run\(\)"):
        durable.map(graph, {"v0": [0, 1]}, map_over="v0", workflow_id="single")
    with untouched(store, bodies), pytest.raises(CheckpointError, match=r"'batch'.*map\(\)"):
        durable.run(graph, {"v0": 0}, workflow_id="batch")


# -- a graph that has changed ---------------------------------------------------------------------------


def versions(bodies: Bodies) -> tuple[Graph, Graph]:
    """Return load -> scale -> save, and the same with another scale."""

    @node(output_name="loaded")
    def load(x: int) -> int:
        bodies.enter("load")
        return x

    @node(output_name="scaled")
    def scale(loaded: int) -> int:
        bodies.enter("scale")
        return loaded * 10

    @node(output_name="saved")
    def save(scaled: int) -> str:
        bodies.enter("save")
        return f"saved {scaled}"

    old = Graph([load, scale, save], name="scaling")

    @node(output_name="scaled")
    def scale(loaded: int) -> int:  # type: ignore[no-redef]
        bodies.enter("scale")
        return loaded * 100

    return old, Graph([load, scale, save], name="scaling")


@pytest.fixture
def changed(durable: On, bodies: Bodies) -> Graph:
    """The graph of a workflow that failed at its last step, with another version of an earlier one."""
    old, new = versions(bodies)
    fail_once(durable, bodies, old, "save", values={"x": 1}, workflow_id="w")
    bodies.take()
    return new


def test_kept_outputs_of_changed_code_are_one_warning(durable: On, bodies: Bodies, changed: Graph) -> None:
    with pytest.warns(UserWarning, match="scale") as warned:
        assert durable.run(changed, workflow_id="w")["saved"] == "saved 10"
    assert len(warned) == 1
    assert "load" not in str(warned[0].message)
    assert bodies.take() == ["save"]


def test_changed_code_is_run_again_with_all_that_follows(
    durable: On, store: Checkpointer, bodies: Bodies, changed: Graph
) -> None:
    assert durable.run(changed, workflow_id="w", code_change="rerun")["saved"] == "saved 100"
    assert bodies.take() == ["scale", "save"]
    assert rows(store, "w") == [
        (0, "load", "completed"),
        (1, "scale", "completed"),
        (2, "save", "failed"),
        (3, "scale", "completed"),
        (4, "save", "completed"),
    ]
    assert store.state("w", superstep=2)["scaled"] == 10


def test_changed_code_is_an_error_if_it_shall_be_one(
    durable: On, store: Checkpointer, bodies: Bodies, changed: Graph
) -> None:
    with untouched(store, bodies), pytest.raises(GraphChangedError, match="scale") as caught:
        durable.run(changed, workflow_id="w", code_change="error")
    assert caught.value.workflow_id == "w"
    assert "code_change" in str(caught.value)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert durable.run(changed, workflow_id="w")["saved"] == "saved 10"


def test_changed_code_is_told_though_nothing_is_left_to_run(
    durable: On, store: Checkpointer, bodies: Bodies
) -> None:
    old, new = versions(bodies)
    durable.run(old, {"x": 1}, workflow_id="w")
    bodies.take()
    with untouched(store, bodies), pytest.raises(GraphChangedError, match="scale"):
        durable.run(new, workflow_id="w", code_change="error")
    with untouched(store, bodies), pytest.warns(UserWarning, match="scale") as warned:
        assert durable.run(new, workflow_id="w")["saved"] == "saved 10"
    assert len(warned) == 1


@pytest.mark.parametrize("option", ["keep", "rerun", "error"])
def test_code_that_has_not_changed_is_no_matter(
    durable: On, store: Checkpointer, bodies: Bodies, option: str
) -> None:
    old, _ = versions(bodies)
    fail_once(durable, bodies, old, "save", values={"x": 1}, workflow_id="w")
    bodies.take()
    again, _ = versions(bodies)
    assert durable.run(again, workflow_id="w", code_change=option)["saved"] == "saved 10"
    assert bodies.take() == ["save"]


@pytest.mark.parametrize("option", ["Keep", "", None, True, "replay"])
def test_another_word_for_code_changes_is_refused(
    durable: On, store: Checkpointer, bodies: Bodies, option: Any
) -> None:
    with untouched(store, bodies), pytest.raises(ValueError, match="code_change"):
        durable.run(pipeline(bodies, 1), {"v0": 0}, workflow_id="w", code_change=option)


def test_the_outputs_of_a_node_that_is_gone_are_history_not_state(
    durable: On, store: Checkpointer, bodies: Bodies
) -> None:
    old, _ = versions(bodies)
    fail_once(durable, bodies, old, "save", values={"x": 1}, workflow_id="w")
    rest = Graph([old.nodes["save"]], name="scaling")
    with untouched(store, bodies), pytest.raises(MissingInputError, match="scaled"):
        durable.run(rest, workflow_id="w")
    assert durable.run(rest, {"scaled": 7}, workflow_id="w")["saved"] == "saved 7"
    assert bodies.take() == ["save"]
    assert rows(store, "w")[:2] == [(0, "load", "completed"), (1, "scale", "completed")]


def test_a_node_that_was_added_is_run_with_the_rest(durable: On, bodies: Bodies) -> None:
    old, _ = versions(bodies)
    fail_once(durable, bodies, old, "save", values={"x": 1}, workflow_id="w")
    bodies.take()

    @node(output_name="seen")
    def look(loaded: int) -> int:
        bodies.enter("look")
        return loaded

    more = Graph([*old.nodes.values(), look], name="scaling")
    result = durable.run(more, workflow_id="w")
    assert (result["saved"], result["seen"]) == ("saved 10", 1)
    assert sorted(bodies.take()) == ["look", "save"]


def test_a_renamed_node_is_another_node(durable: On, bodies: Bodies) -> None:
    old, _ = versions(bodies)
    fail_once(durable, bodies, old, "save", values={"x": 1}, workflow_id="w")
    bodies.take()
    nodes = dict(old.nodes)
    renamed = Graph([nodes["load"], nodes["scale"].with_name("multiply"), nodes["save"]], name="scaling")
    with pytest.warns(UserWarning, match="'multiply' is new, and makes again what 'scale' has made"):
        assert durable.run(renamed, workflow_id="w")["saved"] == "saved 10"
    assert bodies.take() == ["scale", "save"]


# -- a map whose list has changed -----------------------------------------------------------------------


@pytest.fixture
def batch(durable: On, bodies: Bodies) -> Graph:
    """The graph of a map over 1, 2, 3 of which the last item failed."""

    @node(output_name="y")
    def work(x: int, bonus: int) -> int:
        bodies.enter(f"work {x}")
        return x * 10 + bonus

    graph = Graph([work], name="work")
    bodies.failing["work 3"] = ValueError("broken")
    mapped(durable, graph, [1, 2, 3], error_handling="continue")
    bodies.failing.clear()
    bodies.take()
    return graph


def mapped(durable: On, graph: Graph, items: list[int], bonus: int = 0, **options: Any) -> list[Any]:
    found = durable.map(graph, {"x": items, "bonus": bonus}, map_over="x", workflow_id="batch", **options)
    return list(found["y"])


def test_the_same_list_does_what_is_left(durable: On, bodies: Bodies, batch: Graph) -> None:
    assert mapped(durable, batch, [1, 2, 3]) == [10, 20, 30]
    assert bodies.take() == ["work 3"]


def test_an_item_that_changed_is_named_and_nothing_runs(
    durable: On, store: Checkpointer, bodies: Bodies, batch: Graph
) -> None:
    with untouched(store, bodies), pytest.raises(ItemChangedError, match=r"[Ii]tem 1\b.*'batch'") as caught:
        mapped(durable, batch, [1, 7, 3])
    assert "key=" in str(caught.value) or "workflow_id" in str(caught.value)
    assert caught.value.workflow_id == "batch/item-1"
    assert mapped(durable, batch, [1, 2, 3]) == [10, 20, 30]


def test_a_list_in_another_order_has_changed(
    durable: On, store: Checkpointer, bodies: Bodies, batch: Graph
) -> None:
    with untouched(store, bodies), pytest.raises(ItemChangedError, match=r"[Ii]tem 0\b"):
        mapped(durable, batch, [3, 2, 1])


def test_what_all_items_share_is_part_of_each(
    durable: On, store: Checkpointer, bodies: Bodies, batch: Graph
) -> None:
    with untouched(store, bodies), pytest.raises(ItemChangedError, match="bonus"):
        mapped(durable, batch, [1, 2, 3], bonus=1)


def test_an_error_about_an_item_is_none_of_the_items(
    durable: On, store: Checkpointer, bodies: Bodies, batch: Graph
) -> None:
    with untouched(store, bodies), pytest.raises(ItemChangedError):
        mapped(durable, batch, [1, 7, 3], error_handling="continue")


def test_a_list_that_grew_runs_what_is_new(
    durable: On, store: Checkpointer, bodies: Bodies, batch: Graph
) -> None:
    assert mapped(durable, batch, [1, 2, 3, 4]) == [10, 20, 30, 40]
    assert bodies.take() == ["work 3", "work 4"]
    assert len(store.workflows(parent="batch")) == 4


def test_a_list_that_shrank_leaves_the_other_items_where_they_are(
    durable: On, store: Checkpointer, bodies: Bodies, batch: Graph
) -> None:
    with pytest.warns(UserWarning, match=r"recorded with 3 items, and now there are 2: 1 item missing \(2\)"):
        assert mapped(durable, batch, [1, 2]) == [10, 20]
    assert bodies.take() == []
    assert store.workflow("batch").status.value == "partial"
    assert store.state("batch/item-1") == {"y": 20}
    assert store.workflow("batch/item-2").status.value == "failed"
    assert mapped(durable, batch, [1, 2, 3]) == [10, 20, 30]


def test_an_empty_list_is_an_empty_result(
    durable: On, store: Checkpointer, bodies: Bodies, batch: Graph
) -> None:
    with (
        untouched(store, bodies),
        pytest.warns(UserWarning, match="now there are 0"),
    ):
        assert mapped(durable, batch, []) == []


# -- options that make no sense -------------------------------------------------------------------------


def test_a_fork_needs_an_id_of_its_own(durable: On, store: Checkpointer, bodies: Bodies) -> None:
    graph = pipeline(bodies, 2)
    durable.run(graph, {"v0": 0}, workflow_id="w")
    point = store.checkpoint("w", superstep=0)
    with untouched(store, bodies), pytest.raises(ValueError, match="'w' exists"):
        durable.run(graph, checkpoint=point, workflow_id="w")


@pytest.mark.parametrize(
    "options",
    [
        {"history": 7},
        {"history": ["step"]},
        {"history": "steps"},
        {"checkpoint": {"values": {}, "steps": []}},
        {"checkpoint": 7},
        {"tags": ["a"]},
        {"tags": {"user": 7}},
        {"tags": {7: "user"}},
        {"tags": "user"},
    ],
    ids=repr,
)
def test_options_of_the_wrong_kind_are_refused_before_anything_is_written(
    durable: On, store: Checkpointer, bodies: Bodies, options: dict[str, Any]
) -> None:
    with untouched(store, bodies), pytest.raises((TypeError, ValueError), match=next(iter(options))):
        durable.run(pipeline(bodies, 1), {"v0": 0}, workflow_id="new", **options)


# -- turns and rules -----------------------------------------------------------------------------------------


def test_a_first_run_may_be_called_a_new_turn(durable: On) -> None:
    graph = Graph([FunctionNode(lambda said: f"you said {said}", "answer", "reply")], name="chat")
    for _ in range(2):
        result = durable.run(graph, {"said": "yes"}, workflow_id="chat", new_turn=True)
        assert result["reply"] == "you said yes"
    assert [step.superstep for step in durable.runner.checkpointer.steps("chat")] == [0, 1]


def test_a_new_turn_without_values_is_refused(durable: On) -> None:
    graph = Graph([FunctionNode(lambda said: said, "answer", "reply")], name="chat")
    durable.run(graph, {"said": "yes"}, workflow_id="chat")
    with pytest.raises(ValueError, match=r"new_turn=True counts the values .* and none are given"):
        durable.run(graph, workflow_id="chat", new_turn=True)


def counting(failing: list[Exception]) -> Graph:
    """Return a loop that counts to two."""

    def add(n: int) -> int:
        if failing:
            raise failing.pop()
        return n + 1

    gate = RouteNode(lambda n: END if n >= 2 else "add", ["add", END], name="gate")
    return Graph([gate, FunctionNode(add, "add", "n")], name="counting")


def test_unfinished_work_of_other_rules_is_refused_and_finished_work_goes_on(durable: On) -> None:
    store = durable.runner.checkpointer
    failing: list[Exception] = [OSError("once")]
    graph = counting(failing)
    with pytest.raises(OSError, match="once"):
        durable.run(graph, {"n": 0}, workflow_id="unfinished")
    durable.run(graph, {"n": 0}, workflow_id="finished")
    with_other_rules(store)
    with pytest.raises(WorkflowError, match="'unfinished' is unfinished and was recorded by a release"):
        durable.run(graph, workflow_id="unfinished")
    assert durable.run(graph, workflow_id="finished")["n"] == 2
    assert durable.run(graph, {"n": 1}, workflow_id="finished")["n"] == 2


def with_other_rules(store: Checkpointer) -> None:
    """Let the structures in a store be those of an earlier release, which did not name its rules."""
    backend: Any = store.backend
    if isinstance(store, MemoryCheckpointer):
        for row in backend._rows.values():
            graph = {name: part for name, part in row.workflow.graph.items() if name != "rules"}
            row.workflow = replace(row.workflow, load_graph=lambda graph=graph: graph)
    else:
        changed = "UPDATE structures SET graph = replace(graph, ',\"rules\":2', '')"
        backend.database.write(lambda connection: connection.execute(changed))


# -- inputs that cannot be stored --------------------------------------------------------------------------


class Ledger:
    """What no serializer takes, and pickle does."""

    def __init__(self, *amounts: int) -> None:
        self.amounts = amounts


def adding(failures: list[int]) -> Graph:
    @node(output_name="total")
    def add(ledger: Ledger) -> int:
        return sum(ledger.amounts)

    @node(output_name="report")
    def tell(total: int, ledger: Ledger) -> str:
        if failures:
            raise RuntimeError(failures.pop())
        return f"{total} of {len(ledger.amounts)}"

    return Graph([add, tell], name="adding")


@pytest.mark.filterwarnings("ignore:The value of 'ledger' cannot be stored")
def test_another_value_of_an_input_that_was_not_stored_does_not_get_the_old_result() -> None:
    runner, graph = SyncRunner(checkpointer=MemoryCheckpointer()), adding([])
    assert runner.run(graph, ledger=Ledger(1, 2), workflow_id="w")["total"] == 3
    assert runner.run(graph, ledger=Ledger(1, 2), workflow_id="w")["total"] == 3
    with pytest.raises(WorkflowError, match="'ledger' could not be stored, and is another value than"):
        runner.run(graph, ledger=Ledger(100, 200), workflow_id="w")
    assert runner.run(graph, workflow_id="w")["total"] == 3
    assert runner.run(graph, ledger=Ledger(100, 200), workflow_id="w", new_turn=True)["total"] == 300


@pytest.mark.filterwarnings("ignore:The value of 'ledger' cannot be stored")
def test_an_unfinished_run_takes_another_value_with_a_warning() -> None:
    runner, graph = SyncRunner(checkpointer=MemoryCheckpointer()), adding([1, 2])
    for _ in range(2):  # the same value again
        runner.run(graph, ledger=Ledger(1, 2), workflow_id="w", error_handling="continue")
    with pytest.warns(UserWarning, match="'ledger' could not be stored, and is another value than the run"):
        result = runner.run(graph, ledger=Ledger(7), workflow_id="w")
    assert result["report"] == "3 of 1"


@pytest.mark.filterwarnings("ignore:The value of 'ledger' cannot be stored")
def test_a_run_is_compared_with_the_value_that_it_took_last(durable: On) -> None:
    graph = adding([1])
    durable.run(graph, ledger=Ledger(1, 2), workflow_id="w", error_handling="continue")
    with pytest.warns(UserWarning, match="another value than the run began with"):
        durable.run(graph, ledger=Ledger(7), workflow_id="w")
    assert durable.run(graph, ledger=Ledger(7), workflow_id="w")["report"] == "3 of 1"  # it begins no turn
    with pytest.raises(WorkflowError, match="another value than the workflow has completed with"):
        durable.run(graph, ledger=Ledger(1, 2), workflow_id="w")
    assert durable.run(graph, ledger=Ledger(1, 2), workflow_id="w", new_turn=True)["report"] == "3 of 2"


@pytest.mark.filterwarnings("ignore:The value of 'ledger' cannot be stored")
def test_a_value_that_can_be_stored_takes_the_place_of_one_that_could_not(durable: On) -> None:
    @node(output_name="total")
    def add(ledger: Any) -> int:
        if failures:
            raise RuntimeError(failures.pop())
        return sum(ledger if isinstance(ledger, list) else ledger.amounts)

    failures, graph = [1], Graph([add], name="adding")
    durable.run(graph, ledger=Ledger(1, 2), workflow_id="w", error_handling="continue")
    with pytest.warns(UserWarning, match="another value than the run began with"):
        durable.run(graph, ledger=[7], workflow_id="w")
    for given in ({}, {"ledger": [7]}, {"ledger": [8]}):
        assert durable.run(graph, given, workflow_id="w")["total"] == given.get("ledger", [7])[0]


@pytest.mark.filterwarnings("ignore:The value of 'ledger' cannot be stored")
def test_what_cannot_be_compared_counts_as_unchanged() -> None:
    runner, graph = SyncRunner(checkpointer=MemoryCheckpointer()), adding([])
    locks = [Ledger(), Ledger()]
    for ledger in locks:
        ledger.lock = threading.Lock()  # type: ignore[attr-defined]
    for ledger in locks:
        assert runner.run(graph, ledger=ledger, workflow_id="w")["total"] == 0


def test_a_misspelt_key_of_a_map_is_refused_with_the_name_that_is_close(
    durable: On, store: Checkpointer
) -> None:
    graph = Graph([FunctionNode(lambda sku: sku, name="look", output_name="seen")], name="items")
    with pytest.raises(ValueError, match=r"key='skus' names no input of item 0\. Did you mean 'sku'\?"):
        durable.map(graph, sku=["a", "b"], map_over="sku", key="skus", workflow_id="w")
    assert content(store) == []


def adding_many(failures: list[int]) -> Graph:
    @node(output_name="total")
    def add(name: str, ledger: Ledger) -> int:
        if failures:
            raise RuntimeError(failures.pop())
        return sum(ledger.amounts)

    return Graph([add], name="adding")


def add_all(durable: On, graph: Graph, *ledgers: Ledger, **options: Any) -> list[int | None]:
    names = [f"ledger-{number}" for number in range(len(ledgers))]
    over = ["name", "ledger"]
    given = durable.map(
        graph, name=names, ledger=list(ledgers), map_over=over, key="name", workflow_id="w", **options
    )
    found: list[int | None] = given["total"]
    return found


@pytest.mark.filterwarnings("ignore:The value of 'ledger' cannot be stored")
def test_an_item_of_another_value_that_was_not_stored_does_not_get_the_old_result(
    durable: On, store: Checkpointer
) -> None:
    graph = adding_many([])
    assert add_all(durable, graph, Ledger(1, 2), Ledger(3)) == [3, 3]
    assert add_all(durable, graph, Ledger(1, 2), Ledger(3)) == [3, 3]
    before = repr(content(store))
    match = (
        r"Item 1 of 'w': 'ledger' could not be stored, and is another value than .* workflow_id='w/item-1'"
    )
    for more in ((), (Ledger(4),)):
        with pytest.raises(ItemChangedError, match=match):
            add_all(durable, graph, Ledger(1, 2), Ledger(30), *more, error_handling="continue")
    assert repr(content(store)) == before
    alone = durable.run(graph, name="ledger-1", ledger=Ledger(30), workflow_id="w/item-1", new_turn=True)
    assert alone["total"] == 30
    assert add_all(durable, graph, Ledger(1, 2), Ledger(30), Ledger(4)) == [3, 30, 4]


@pytest.mark.filterwarnings("ignore:The value of 'ledger' cannot be stored")
def test_an_unfinished_item_takes_another_value_that_is_not_stored_with_a_warning(durable: On) -> None:
    graph = adding_many([1])
    assert add_all(durable, graph, Ledger(1, 2), Ledger(3), error_handling="continue") == [None, 3]
    with pytest.warns(UserWarning, match=r"'ledger' could not be stored, .* than 1 item began with \(0\)"):
        assert add_all(durable, graph, Ledger(7), Ledger(3)) == [7, 3]


@pytest.mark.filterwarnings("ignore:The value of 'rate' cannot be stored")
@pytest.mark.parametrize("key", [None, "name"])
def test_what_all_items_take_and_is_not_stored_is_compared_too(durable: On, key: str | None) -> None:
    @node(output_name="total")
    def add(name: str, rate: Ledger) -> int:
        if failures:
            raise RuntimeError(failures.pop())
        return sum(rate.amounts)

    def total(*amounts: int) -> list[int | None]:
        given = {"name": ["a", "b"], "rate": Ledger(*amounts)}
        results = durable.map(
            graph, given, map_over="name", key=key, workflow_id="w", error_handling="continue"
        )
        found: list[int | None] = results["total"]
        return found

    failures, graph = [1], Graph([add], name="adding")
    assert total(1) == [None, 1]
    with pytest.warns(UserWarning, match=r"'rate' could not be stored, .* than 2 items began with \(0, 1\)"):
        assert total(5) == [5, 1]
    with pytest.raises(
        ItemChangedError, match=r"another value than .* bind it to the graph if it is the same"
    ):
        total(6)
    with pytest.warns(UserWarning, match=r"'rate' could not be stored, .* than 1 item began with \(0\)"):
        assert total(1) == [5, 1]
    with pytest.warns(UserWarning, match=r"'rate' could not be stored, .* than 1 item began with \(1\)"):
        assert total(5) == [5, 1]
