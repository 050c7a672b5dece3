"""Maps that are given again: shorter lists, logs and times of their steps."""

from __future__ import annotations

import pytest

from hypergraph import FunctionNode, Graph, SyncRunner
from hypergraph.checkpointers import MemoryCheckpointer, WorkflowStatus


def check(x: int) -> int:
    if x == 2:
        raise ValueError("two")
    return x


GRAPH = Graph([FunctionNode(check, "check", "y")], name="g")


def test_a_shorter_list_is_told_what_is_missing() -> None:
    store = MemoryCheckpointer()
    runner = SyncRunner(checkpointer=store)
    runner.map(GRAPH, x=[0, 1, 2, 3], map_over="x", workflow_id="m", error_handling="continue")
    assert store.workflow("m").status is WorkflowStatus.PARTIAL
    with pytest.warns(UserWarning, match=r"recorded with 4 items, and now there are 2: 2 items missing"):
        runner.map(GRAPH, x=[0, 1], map_over="x", workflow_id="m")
    with pytest.warns(UserWarning, match=r"recorded with 4 items, and now there are 0: 4 items missing"):
        assert len(runner.map(GRAPH, x=[], map_over="x", workflow_id="m")) == 0
    assert store.workflow("m").status is WorkflowStatus.PARTIAL
    found = runner.map(GRAPH, x=[0, 1, 2, 3, 4], map_over="x", workflow_id="m", error_handling="continue")
    assert len(found) == 5


def test_the_log_of_a_map_has_the_time_of_each_node() -> None:
    log = SyncRunner().map(GRAPH, x=[0, 1], map_over="x").log
    assert list(log.timing) == ["check"]
    assert log.timing["check"] == log.node_stats["check"].total_ms


def test_a_step_begins_before_it_ends() -> None:
    store = MemoryCheckpointer()
    SyncRunner(checkpointer=store).run(GRAPH, x=1, workflow_id="w")
    (step,) = store.steps("w")
    assert step.completed_at is not None
    assert step.duration_ms is not None
    took = (step.completed_at - step.created_at).total_seconds() * 1000
    assert took == pytest.approx(step.duration_ms, abs=0.002)
