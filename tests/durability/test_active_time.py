"""How long a workflow worked: also what a process took that died over it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from support.durable import Bodies, bodies, durable, pipeline, read, store
from support.running import On

from hypergraph import Graph
from hypergraph.checkpointers import Checkpointer, StepRecord, StepStatus, WorkflowStatus

__all__ = ["bodies", "durable", "store"]  # fixtures

MINUTE = 60_000.0  # milliseconds
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def crashed(store: Checkpointer, *steps: tuple[str, int, float]) -> None:
    """Leave a workflow as a process leaves it that dies: steps with the minute of their end and how long."""
    read(store, "create_workflow", "w", inputs={"v0": 0})
    for index, (name, end, minutes) in enumerate(steps):
        ended = NOON + timedelta(minutes=end)
        step = StepRecord(
            *("w", index, name, index, StepStatus.COMPLETED, {f"v{index}": 1}),
            values={f"v{index + 1}": index + 1},
            output_versions={f"v{index + 1}": 1},
            duration_ms=minutes * MINUTE,
            created_at=ended,
            completed_at=ended,
        )
        read(store, "save_step", step)


def minutes(store: Checkpointer, workflow_id: str = "w") -> int:
    return round(store.workflow(workflow_id).duration_ms / MINUTE)


def test_the_steps_of_a_dead_process_count(durable: On, store: Checkpointer, bodies: Bodies) -> None:
    crashed(store, ("s1", 4, 4), ("s2", 6, 2))
    assert durable.run(pipeline(bodies, 3), workflow_id="w")["v3"] == 3
    assert bodies.take() == ["s3"]
    assert minutes(store) == 6


def test_time_in_which_nobody_worked_does_not_count(durable: On, store: Checkpointer, bodies: Bodies) -> None:
    crashed(store, ("s1", 4, 4), ("s2", 600, 2))
    durable.run(pipeline(bodies, 3), workflow_id="w")
    assert minutes(store) == 6


def test_what_ran_at_the_same_time_counts_once(durable: On, store: Checkpointer, bodies: Bodies) -> None:
    crashed(store, ("s1", 4, 4), ("s2", 5, 4))
    durable.run(pipeline(bodies, 3), workflow_id="w")
    assert minutes(store) == 5


def test_a_second_attempt_that_dies_counts_too(durable: On, store: Checkpointer, bodies: Bodies) -> None:
    crashed(store, ("s1", 4, 4))
    bodies.failing["s3"] = OSError("broken")
    with pytest.raises(OSError, match="broken"):
        durable.run(pipeline(bodies, 3), workflow_id="w")
    assert minutes(store) == 4
    read(store, "update_workflow_status", "w", WorkflowStatus.ACTIVE)
    bodies.failing.clear()
    durable.run(pipeline(bodies, 3), workflow_id="w")
    assert minutes(store) == 4


def test_a_fork_does_not_count_what_its_origin_did(durable: On, store: Checkpointer, bodies: Bodies) -> None:
    crashed(store, ("s1", 4, 4), ("s2", 6, 2))
    durable.run(pipeline(bodies, 3), fork_from=("w", 0), workflow_id="fork")
    read(store, "update_workflow_status", "fork", WorkflowStatus.ACTIVE)
    durable.run(pipeline(bodies, 3), {"v0": 5}, workflow_id="fork")
    assert minutes(store, "fork") == 0


def test_a_map_counts_what_its_items_took(durable: On, store: Checkpointer, bodies: Bodies) -> None:
    graph: Graph = pipeline(bodies, 3)
    mapped = {"values": {"v0": [0, 0]}, "map_over": "v0", "workflow_id": "batch"}
    durable.map(graph, **mapped)
    first = store.workflow("batch").duration_ms
    read(store, "update_workflow_status", "batch", WorkflowStatus.ACTIVE)
    durable.map(graph, **mapped)
    assert store.workflow("batch").duration_ms > first
