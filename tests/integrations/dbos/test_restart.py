"""Failed items that are run again by another submission: at the node that failed, or from the beginning."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("dbos")

from support import dbos_graphs
from support.dbos_cluster import TestCluster, gated

from hypergraph.exceptions import WorkflowError

__all__ = ["gated"]  # fixture

pytestmark = pytest.mark.slow
RUNS = ["good", "bad", "fine"]
FIX = "CREATE TABLE fixed ()"


def tried(cluster: TestCluster) -> dict[tuple[str, int], int]:
    """Return how often each body ran."""
    return {row[:2]: row[2] for row in cluster.all("SELECT run, number, count(*) FROM bodies GROUP BY 1, 2")}


def once(**more: int) -> dict[tuple[str, int], int]:
    """Return that every body ran once, but for those of the bad item."""
    return {
        **{(run, number): 1 for run in RUNS for number in (1, 2)},
        ("bad", 1): more["first"],
        ("bad", 2): more["second"],
    }


@pytest.mark.parametrize("restart", ["node", "item"])
def test_a_map_runs_its_failed_items_again(cluster: TestCluster, restart: Any) -> None:
    cluster.start("w1")

    def submit(**options: Any) -> Any:
        given = {"map_over": "run", "workflow_id": "m", **options}
        return cluster.runner.map("trying", {"run": RUNS}, error_handling="continue", **given)

    assert [result.failed for result in submit()] == [False, True, False]
    assert [result.failed for result in submit(restart=restart)] == [False, True, False]
    first = 2 if restart == "item" else 1
    assert tried(cluster) == once(first=first, second=2)
    cluster.connection.execute(FIX)
    assert [result["worked"] for result in submit(restart=restart)] == RUNS
    first = 3 if restart == "item" else 1
    assert tried(cluster) == once(first=first, second=3)
    steps = [step.status.value for step in cluster.runner.checkpointer.steps("m/item-1")]
    assert steps == (
        ["completed"] * 2 if restart == "item" else ["completed", "failed", "failed", "completed"]
    )
    assert [result["worked"] for result in submit(restart=restart)] == RUNS
    assert tried(cluster) == once(first=first, second=3)


@pytest.mark.parametrize("graph", ["trying_inside", "trying_apart"])
@pytest.mark.parametrize("restart", ["node", "item"])
def test_a_run_runs_failed_items_inside_again(cluster: TestCluster, restart: Any, graph: str) -> None:
    cluster.start("w1")

    def submit(**options: Any) -> Any:
        return cluster.runner.run(graph, {"run": RUNS}, workflow_id="r", **options)

    assert submit()["count"] == 2
    cluster.connection.execute(FIX)
    assert submit()["count"] == 2
    assert submit(restart=restart)["count"] == 3
    assert submit(restart=restart)["worked"] == RUNS
    assert tried(cluster) == once(first=2 if restart == "item" else 1, second=2)


def test_what_cannot_be_restarted_is_refused(cluster: TestCluster) -> None:
    runner, given = cluster.runner, {"map_over": "x", "workflow_id": "s"}
    with pytest.raises(ValueError, match="Invalid restart: 'all'"):
        runner.submit("trying", {"run": "good"}, restart="all")
    with pytest.raises(ValueError, match="Invalid restart: 'all'"):
        runner.submit_map("trying", {"run": RUNS}, map_over="run", restart="all")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="leave out restart"):
        runner.schedule("s", "trying", "* * * * *", {"run": "good"}, restart="node")
    with pytest.raises(ValueError, match="must not be repeated, and restart='item'"):
        runner.submit_map(dbos_graphs.sending, {"x": [0, 1]}, map_over="x", restart="item")
    assert runner.checkpointer.workflows().total == 0
    cluster.start("w1")
    before = runner.map("sending", {"x": [0, 1]}, error_handling="continue", **given)
    assert [result.failed for result in before] == [True, False]
    with pytest.raises(WorkflowError, match="must not be repeated, and restart='item'"):
        runner.map("sending", {"x": [0, 1]}, restart="item", **given)  # the worker knows the graph
    assert len(runner.checkpointer.steps("s/item-0")) == 1


def test_an_item_with_an_inner_step_that_must_not_be_repeated_is_not_restarted(cluster: TestCluster) -> None:
    runner, given = cluster.runner, {"map_over": "x", "workflow_id": "s"}
    cluster.start("w1")
    runner.map("sending_inside", {"x": [0, 1]}, error_handling="continue", **given)
    with pytest.raises(WorkflowError, match="step 'send' of node 'send_inside' has completed, must not be"):
        runner.map("sending_inside", {"x": [0, 1]}, restart="item", **given)
    assert [step.key for step in runner.checkpointer.inner_steps("s/item-0")] == ["send"]


def test_a_worker_that_takes_over_a_map_restarts_no_item_that_failed_since(cluster: TestCluster) -> None:
    cluster.start("w1")
    given: dict[str, Any] = {"map_over": "run", "workflow_id": "m", "error_handling": "continue"}
    cluster.runner.map("trying", {"run": RUNS}, **given)
    cluster.runner.map("trying", {"run": RUNS}, restart="item", **given)
    assert tried(cluster) == once(first=2, second=2)
    again = "UPDATE dbos.workflow_status SET status = 'ENQUEUED', started_at_epoch_ms = NULL WHERE "
    cluster.connection.execute(f"{again} workflow_uuid = 'm/2'")  # as after a crash at the end of the map
    assert [each.failed for each in cluster.runner.result("m", error_handling="continue")] == [0, 1, 0]
    assert tried(cluster) == once(first=2, second=2)
    steps = cluster.runner.checkpointer.steps("m/item-1")
    assert [step.status.value for step in steps] == ["completed", "failed"]
