"""What a checkpointing task graph is expected to do: keep, tell and resume, in three groups.

1. a store keeps what it is given and finds it again, by workflow and by round of a loop
2. a run tells its listeners what became durable, as often as the granularity says
3. a resumed run skips what is done and does again what failed; and what is stored is right
"""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from support.crashing import note, opened
from support.durable import Bodies, bodies, counting, durable, pipeline, read, rows, store
from support.listening import Recorder
from support.processes import Elsewhere, elsewhere
from support.running import RUNNERS, On, OnAsync, OnSync

from durability.test_crashes import calls
from hypergraph import CheckpointPolicy, FunctionNode, Graph, node
from hypergraph.checkpointers import Checkpointer, SqliteCheckpointer, StepRecord, StepStatus, WorkflowStatus
from hypergraph.events.types import CheckpointSavedEvent

__all__ = ["bodies", "durable", "elsewhere", "store"]  # fixtures


def record(workflow_id: str, superstep: int, name: str = "task", **fields: Any) -> StepRecord:
    given: dict[str, Any] = {
        "status": StepStatus.COMPLETED,
        "input_versions": {},
        "values": {name: superstep},
    }
    return StepRecord(workflow_id, superstep, name, superstep, **{**given, **fields})


# -- 1. the store ---------------------------------------------------------------------------------------


class TestStore:
    """A store by itself, as an importer would fill it."""

    def test_what_was_saved_is_found(self, store: Checkpointer) -> None:
        read(store, "create_workflow", "thread-1")
        read(store, "save_step", record("thread-1", 0))
        (found,) = read(store, "get_steps", "thread-1")
        assert (found.node_name, found.values, found.status) == ("task", {"task": 0}, StepStatus.COMPLETED)

    def test_what_was_not_saved_is_not_found(self, store: Checkpointer) -> None:
        assert read(store, "get_workflow", "non-existent") is None
        assert read(store, "get_checkpoint", "non-existent").steps == []

    def test_the_latest_step_is_last_and_its_values_are_the_state(self, store: Checkpointer) -> None:
        read(store, "create_workflow", "thread-1")
        for superstep in (0, 1):
            read(store, "save_step", record("thread-1", superstep))
        assert read(store, "get_steps", "thread-1")[-1].superstep == 1
        assert read(store, "get_state", "thread-1") == {"task": 1}

    def test_each_workflow_has_its_own_history(self, store: Checkpointer) -> None:
        for workflow_id, superstep in (("thread-1", 0), ("thread-1", 1), ("thread-2", 0)):
            if read(store, "get_workflow", workflow_id) is None:
                read(store, "create_workflow", workflow_id)
            read(store, "save_step", record(workflow_id, superstep))
        assert rows(store, "thread-1") == [(0, "task", "completed"), (1, "task", "completed")]
        assert rows(store, "thread-2") == [(0, "task", "completed")]

    def test_the_rounds_of_a_loop_are_found_by_its_node(self, store: Checkpointer) -> None:
        read(store, "create_workflow", "thread-1")
        for superstep, name in enumerate(["while-1", "while-1", "other-task"]):
            read(store, "save_step", record("thread-1", superstep, name))
        assert [round_.number for round_ in read(store, "iterations", "thread-1", "while-1")] == [1, 2]

    def test_a_deleted_workflow_is_gone_and_no_other(self, store: Checkpointer) -> None:
        for workflow_id in ("thread-1", "thread-2"):
            read(store, "create_workflow", workflow_id)
            read(store, "save_step", record(workflow_id, 0))
        read(store, "delete", "thread-1")
        assert read(store, "get_steps", "thread-1") == []
        assert read(store, "get_workflow", "thread-1") is None
        assert rows(store, "thread-2") == [(0, "task", "completed")]


# -- 2. saving while a graph runs -----------------------------------------------------------------------


def saved(on: On, graph: Graph, given: dict[str, Any], **options: Any) -> list[CheckpointSavedEvent]:
    """Run a graph; return what its listeners heard of the store."""
    heard = Recorder()
    on.run(graph, given, event_processors=[heard], **options)
    return heard.of(CheckpointSavedEvent)


@pytest.fixture(params=[OnSync, OnAsync], ids=RUNNERS)
def kind(request: pytest.FixtureRequest) -> Any:
    return request.param


def nested(bodies: Bodies) -> Graph:
    """Return a graph of two steps, of which the first is a graph of two steps."""

    @node(output_name="text")
    def show(v2: int) -> str:
        return str(v2)

    return Graph([pipeline(bodies, 2, "inner").as_node(), show])


class TestSaving:
    """While a graph runs, its steps become durable, and listeners hear of it."""

    def test_after_each_task_there_is_something_durable(self, durable: On, bodies: Bodies) -> None:
        events = saved(durable, pipeline(bodies, 3), {"v0": 0}, workflow_id="test-thread")
        assert [event.steps for event in events] == [(0,), (1,), (2,)]
        assert {event.workflow_id for event in events} == {"test-thread"}
        assert [event.superstep for event in events] == [0, 1, 2]

    def test_with_granularity_none_nothing_is_told_and_no_step_kept(
        self, kind: Any, store: Checkpointer, bodies: Bodies
    ) -> None:
        store.policy = CheckpointPolicy(granularity="none")
        graph = nested(bodies)
        assert saved(kind(checkpointer=store), graph, {"v0": 0}, workflow_id="w") == []
        assert store.steps("w") == []
        assert store.workflow("w").status is WorkflowStatus.COMPLETED
        assert store.backend.read_workflow("w/inner") is None

    def test_with_durability_exit_all_is_told_once_at_the_end(
        self, kind: Any, store: Checkpointer, bodies: Bodies
    ) -> None:
        store.policy = CheckpointPolicy(durability="exit")
        (event,) = saved(kind(checkpointer=store), pipeline(bodies, 3), {"v0": 0}, workflow_id="w")
        assert event.steps == (0, 1, 2)
        assert [s.status for s in store.steps("w")] == 3 * [StepStatus.COMPLETED]

    def test_with_granularity_top_level_a_nested_graph_is_one_step(
        self, kind: Any, store: Checkpointer, bodies: Bodies
    ) -> None:
        store.policy = CheckpointPolicy(granularity="top-level")
        events = saved(kind(checkpointer=store), nested(bodies), {"v0": 0}, workflow_id="w")
        assert [(event.workflow_id, event.steps) for event in events] == [("w", (0,)), ("w", (1,))]
        assert [s.node_name for s in store.steps("w")] == ["inner", "show"]
        assert store.backend.read_workflow("w/inner") is None

    def test_the_steps_are_in_the_store(self, durable: On, store: Checkpointer, bodies: Bodies) -> None:
        durable.run(pipeline(bodies, 1), {"v0": 42}, workflow_id="persist-thread")
        assert [s.workflow_id for s in store.steps("persist-thread")] == ["persist-thread"]

    def test_each_step_says_which_versions_it_took(
        self, durable: On, store: Checkpointer, bodies: Bodies
    ) -> None:
        durable.run(pipeline(bodies, 3), {"v0": 0}, workflow_id="chain-thread")
        steps = store.steps("chain-thread")
        for earlier, later in pairwise(steps):
            assert later.input_versions == earlier.output_versions
            assert later.index == earlier.index + 1

    def test_each_round_of_a_loop_is_told_and_kept(
        self, durable: On, store: Checkpointer, bodies: Bodies
    ) -> None:
        events = saved(durable, counting(bodies), {"count": 0, "limit": 4}, workflow_id="w")
        told = [index for event in events for index in event.steps]
        assert told == [s.index for s in store.steps("w")]
        rounds = read(store, "iterations", "w", "add")
        assert [(r.inputs["count"], r.outputs["count"]) for r in rounds] == [(0, 1), (1, 2), (2, 3), (3, 4)]

    def test_each_item_of_a_mapped_graph_is_told_under_its_own_name(
        self, durable: On, store: Checkpointer, bodies: Bodies
    ) -> None:
        graph = Graph([pipeline(bodies, 1, "inner").as_node().map_over("v0")], name="outer")
        events = saved(durable, graph, {"v0": [1, 2, 3]}, workflow_id="w")
        assert {e.workflow_id for e in events} == {"w", *(f"w/inner/item-{i}" for i in range(3))}
        assert store.state("w/inner/item-2") == {"v1": 4}


# -- 3. resuming, and whether the data is right ---------------------------------------------------------


def failing(x: int) -> int:
    note("task_2")
    raise ValueError("Task failed")


def working(x: int) -> int:
    note("task_2")
    return x + 1


def first(x: int) -> int:
    note("task_1")
    return x


def two_tasks(folder: Path, runner: str, second: str, **options: Any) -> Any:
    """Run task_1 -> task_2, with one of the two bodies for the second."""
    graph = Graph(
        [
            FunctionNode(first, "task_1", "one"),
            FunctionNode(globals()[second], "task_2", "two", rename_inputs={"x": "one"}),
        ],
        name="tasks",
    )
    given = {"x": 42} if options.pop("fresh", False) else {}
    return opened(folder, runner).run(graph, given, error_handling="continue", **options).get("two")


@pytest.mark.slow
@pytest.mark.parametrize("runner", RUNNERS)
class TestResuming:
    """Each call is a process of its own."""

    def test_of_a_finished_run_every_task_is_skipped(
        self, tmp_path: Path, elsewhere: Elsewhere, runner: str
    ) -> None:
        assert elsewhere(two_tasks, tmp_path, runner, "working", workflow_id="w", fresh=True) == 43
        assert elsewhere(two_tasks, tmp_path, runner, "working", workflow_id="w") == 43
        assert calls(tmp_path) == {"task_1": 1, "task_2": 1}

    def test_a_failed_task_is_run_again_and_the_finished_one_is_not(
        self, tmp_path: Path, elsewhere: Elsewhere, runner: str
    ) -> None:
        assert elsewhere(two_tasks, tmp_path, runner, "failing", workflow_id="w", fresh=True) is None
        steps = SqliteCheckpointer(tmp_path / "w.db").steps("w")
        assert [(s.node_name, s.status.value) for s in steps] == [
            ("task_1", "completed"),
            ("task_2", "failed"),
        ]
        assert elsewhere(two_tasks, tmp_path, runner, "working", workflow_id="w") == 43
        assert calls(tmp_path) == {"task_1": 1, "task_2": 2}
        last = SqliteCheckpointer(tmp_path / "w.db").steps("w")[-1]
        assert (last.node_name, last.status, last.error) == ("task_2", StepStatus.COMPLETED, None)

    def test_a_checkpoint_from_before_the_failure_can_be_resumed_under_another_id(
        self, tmp_path: Path, elsewhere: Elsewhere, runner: str
    ) -> None:
        elsewhere(two_tasks, tmp_path, runner, "failing", workflow_id="w", fresh=True)
        point = SqliteCheckpointer(tmp_path / "w.db").checkpoint("w", superstep=0)
        found = elsewhere(two_tasks, tmp_path, runner, "working", workflow_id="resumed", checkpoint=point)
        assert found == 43
        assert calls(tmp_path) == {"task_1": 1, "task_2": 2}

    def test_resuming_where_it_fails_again_fails_again_and_loses_nothing(
        self, tmp_path: Path, elsewhere: Elsewhere, runner: str
    ) -> None:
        elsewhere(two_tasks, tmp_path, runner, "failing", workflow_id="w", fresh=True)
        elsewhere(two_tasks, tmp_path, runner, "failing", workflow_id="w")
        steps = SqliteCheckpointer(tmp_path / "w.db").steps("w")
        assert [(s.superstep, s.node_name, s.status.value) for s in steps] == [
            (0, "task_1", "completed"),
            (1, "task_2", "failed"),
            (2, "task_2", "failed"),
        ]
        assert calls(tmp_path) == {"task_1": 1, "task_2": 2}


class TestData:
    """What is stored is what happened."""

    def test_inputs_and_outputs_of_a_task(self, durable: On, store: Checkpointer, bodies: Bodies) -> None:
        durable.run(pipeline(bodies, 1), {"v0": 42}, workflow_id="data-thread")
        (step,) = store.steps("data-thread")
        assert (step.status, step.values) == (StepStatus.COMPLETED, {"v1": 43})
        assert read(store, "get_inputs", "data-thread", "s1") == {"v0": 42}

    def test_what_flowed_along_an_edge(self, durable: On, store: Checkpointer, bodies: Bodies) -> None:
        durable.run(pipeline(bodies, 2), {"v0": 10}, workflow_id="df-thread")
        assert read(store, "get_inputs", "df-thread", "s2") == {"v1": 11}
        newest, *_ = read(store, "provenance", "df-thread", "v2")
        assert (newest.step.node_name, newest.value) == ("s2", 12)

    def test_the_structure_of_the_graph(self, durable: On, store: Checkpointer, bodies: Bodies) -> None:
        durable.run(pipeline(bodies, 2), {"v0": 0}, workflow_id="json-thread")
        workflow = store.workflow("json-thread")
        assert workflow.graph_hash
        assert set(workflow.node_hashes) == {"s1", "s2"}
        assert workflow.graph is not None
        assert "s1" in json.dumps(workflow.graph)

    def test_an_id_is_made_where_none_is_given(
        self, durable: On, store: Checkpointer, bodies: Bodies
    ) -> None:
        events = saved(durable, pipeline(bodies, 1), {"v0": 0})
        (workflow,) = store.workflows()
        assert workflow.id
        assert {event.workflow_id for event in events} == {workflow.id}

    def test_more_than_the_message_of_an_error(self, durable: On, store: Checkpointer) -> None:
        @node(output_name="y")
        def task(x: int) -> int:
            raise KeyError("no such part")

        with pytest.raises(KeyError):
            durable.run(Graph([task]), {"x": 1}, workflow_id="w")
        (step,) = store.steps("w")
        assert step.error_type == "builtins.KeyError"
        assert "no such part" in step.error
        assert "in task" in step.traceback
