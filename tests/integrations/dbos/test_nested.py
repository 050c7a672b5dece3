"""Nested graphs on other workers: they end as local ones do, whoever dies, and hold no place in a queue."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("dbos")

from support.dbos_cluster import TestCluster
from support.dbos_graphs import NODES, apart, asking_apart, doubling, graphs

from hypergraph import AsyncRunner, Graph, SyncRunner
from hypergraph.exceptions import WorkflowError
from hypergraph.views.doctor import health

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster() -> Iterator[TestCluster]:
    found = TestCluster(quick=True)
    found.runner.queue("hypergraph", concurrency=1)  # for all workers: a run that waits must not occupy it
    found.start("w1", "w2", NODE_SECONDS="0")
    try:
        yield found
    finally:
        found.close()


def calls(cluster: TestCluster, workflow_id: str) -> list[tuple[Any, ...]]:
    """Return id and status of all calls about a workflow."""
    find = "SELECT workflow_uuid, status FROM dbos.workflow_status WHERE workflow_uuid LIKE %s ORDER BY 1"
    return cluster.all(find, f"{workflow_id}%")


def test_a_nested_graph_is_a_call_of_its_own_and_ends_as_a_local_one(cluster: TestCluster) -> None:
    result = cluster.runner.run("apart", {"x": 5}, workflow_id="apart")
    assert result["total"] == 12
    assert calls(cluster, "apart") == [
        (name, "SUCCESS") for name in ("apart", "apart/dividing", "apart/doubling")
    ]
    store = cluster.runner.checkpointer
    local = SyncRunner(checkpointer=store).run(apart, x=5, workflow_id="local")
    assert local["total"] == 12
    assert _facts(cluster, "apart") == _facts(cluster, "local")


def _facts(cluster: TestCluster, root: str) -> list[tuple[Any, ...]]:
    """Return what is stored of a run and those inside of it, but for ids and times."""
    find = (
        "SELECT substr(w.id, %s), w.status, w.node_name, w.visit, s.node, s.superstep, s.status "
        "FROM hypergraph.workflows w LEFT JOIN hypergraph.steps s ON s.workflow = w.key "
        "WHERE w.id = %s OR w.id LIKE %s ORDER BY 1, s.superstep, s.node"
    )
    return cluster.all(find, len(root) + 1, root, f"{root}/%")


def test_a_failure_comes_out_as_that_of_a_local_graph_and_is_tried_again(cluster: TestCluster) -> None:
    with pytest.raises(WorkflowError, match=r"'bad' failed: ZeroDivisionError: division by zero"):
        cluster.runner.run("apart", {"x": 0}, workflow_id="bad")
    (step,) = [s for s in cluster.runner.checkpointer.steps("bad") if s.status.value == "failed"]
    assert (step.node_name, step.error_type) == ("dividing", "builtins.ZeroDivisionError")
    assert cluster.runner.run("apart", {"x": 2}, workflow_id="bad")["total"] == 9


def test_a_question_inside_pauses_the_run_and_its_answer_ends_it(cluster: TestCluster) -> None:
    paused = cluster.runner.run("asking_apart", {"x": 1}, workflow_id="asked")
    assert paused.paused
    assert (paused.pause.node_name, paused.pause.response_key) == ("inner/ask", "inner.answer")
    done = cluster.runner.run("asking_apart", {"inner.answer": "yes"}, workflow_id="asked")
    assert done["decided"] == "YES"
    local = AsyncRunner(checkpointer=cluster.runner.checkpointer)
    asyncio.run(local.run(asking_apart, x=1, workflow_id="asked locally"))
    asyncio.run(local.run(asking_apart, {"inner.answer": "yes"}, workflow_id="asked locally"))
    assert _facts(cluster, "asked") == _facts(cluster, "asked locally")


def test_each_item_of_a_mapped_graph_is_a_call_also_inside_of_another_one(cluster: TestCluster) -> None:
    given = {"run": ["a", "b", "c"], "v0": 0}
    assert cluster.runner.run("deep_apart", given, workflow_id="deep")["sums"] == 6
    names = ["", "/mapped_apart", *(f"/mapped_apart/short/item-{number}" for number in range(3))]
    assert calls(cluster, "deep") == [(f"deep{name}", "SUCCESS") for name in names]
    recorded = {step: count for step, count in cluster.recorded().items() if step[0].startswith("deep")}
    assert set(recorded.values()) == {1}


def test_items_of_a_map_have_nested_calls_too_one_for_each_round_of_a_loop(cluster: TestCluster) -> None:
    results = cluster.runner.map("looping_apart", {"n": [0, 1]}, map_over="n", workflow_id="rounds")
    assert results["n"] == [2, 2]
    nested = [name for name, _ in calls(cluster, "rounds") if "growing" in name]
    assert nested == ["rounds/item-0/growing", "rounds/item-0/growing#2", "rounds/item-1/growing"]


def test_a_value_that_cannot_be_stored_does_not_leave(cluster: TestCluster) -> None:
    with pytest.raises(WorkflowError, match="TypeError: 'lock' cannot be stored, so it cannot be sent"):
        cluster.runner.run("locks_apart", {"x": 1}, workflow_id="locks")


def test_a_run_whose_nested_graph_runs_is_cancelled_with_it(cluster: TestCluster) -> None:
    cluster.connection.execute(
        "CREATE TABLE IF NOT EXISTS held (run TEXT, gate INT, pid INT, ended TIMESTAMPTZ)"
    )
    cluster.connection.execute("SELECT pg_advisory_lock(7)")
    submitted = cluster.runner.submit("held_apart", {"run": "h", "gate": 7}, workflow_id="held")
    cluster.until(lambda: cluster.one("SELECT count(*) FROM held"))
    cluster.until(lambda: submitted.status == "DELAYED")
    owners = cluster.runner.checkpointer.backend.read_owners(["held", "held/holding", "apart"])
    assert {name: (owner.pid > 0, owner.alive) for name, owner in owners.items()} == {
        "held": (False, True),  # it waits, and its process is not gone
        "held/holding": (True, True),
    }
    assert "left active" not in {each["check"] for each in health(cluster.dsn)["items"]}
    assert cluster.runner.cancel("held")
    cluster.connection.execute("SELECT pg_advisory_unlock(7)")
    assert submitted.result(timeout=300, error_handling="continue").stopped
    store = cluster.runner.checkpointer
    cluster.until(lambda: store.workflow("held/holding").status.value in {"stopped", "completed"})
    assert store.workflow("held").status.value == "stopped"
    assert cluster.runner.run("held_apart", {"run": "h", "gate": 7}, workflow_id="held")["held"] == "h"


@pytest.mark.parametrize("victim", ["the worker of the run", "the worker of the nested run"])
def test_the_death_of_a_worker_changes_nothing(victim: str) -> None:
    cluster = TestCluster(quick=True)
    try:
        first, second = cluster.start("w1", "w2", NODE_SECONDS="0.05")
        cluster.runner.queue("hypergraph", worker_concurrency=1)
        submitted = cluster.runner.submit("chain_apart", {"run": "r", "v0": 0}, workflow_id="r")
        cluster.until(lambda: cluster.one("SELECT count(*) FROM bodies") >= 3)
        owner = cluster.one("SELECT executor_id FROM dbos.workflow_status WHERE workflow_uuid = 'r/chain'")
        is_first = (owner == "w1") == (victim == "the worker of the nested run")
        (first if is_first else second).kill()
        assert submitted.result(timeout=300)[f"v{NODES}"] == NODES
        assert set(cluster.recorded().values()) == {1}
        assert cluster.repeated() <= 1
    finally:
        cluster.close()


def test_without_a_cluster_the_graph_runs_in_place_and_what_cannot_leave_is_refused() -> None:
    assert SyncRunner().run(apart, x=5)["total"] == 12
    with pytest.raises(ValueError, match='remote=True needs durability="nested"'):
        doubling.as_node(remote=True, durability="atomic")
    with pytest.raises(TypeError, match="remote must be a bool"):
        doubling.as_node(remote="w2")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="that of an attempt"):
        doubling.as_node(remote=True).with_name("2")
    assert Graph([doubling.as_node(remote=True, name="two")]).nodes["two"].remote
    assert apart in graphs
