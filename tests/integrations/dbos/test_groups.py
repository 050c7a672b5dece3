"""Items of a map that share a call: each runs once, and is found, cancelled and submitted again alone."""

from __future__ import annotations

import json
import random
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

pytest.importorskip("dbos")

import psycopg
from support.dbos_cluster import TestCluster, WorkerProcess, gated

from hypergraph import RunStatus
from hypergraph.checkpointers import WorkflowStatus
from hypergraph.cli import main
from hypergraph.exceptions import WorkflowError
from hypergraph.integrations.dbos.cluster import WORKER_CONCURRENCY
from hypergraph.integrations.dbos.groups import group_size, groups_of
from hypergraph.views.cluster import queues, submission
from hypergraph.views.doctor import health

__all__ = ["gated"]  # fixture

pytestmark = pytest.mark.slow

GATE = 7
ITEMS = "SELECT count(*) FROM dbos.workflow_status WHERE workflow_uuid LIKE 'm/item-%%'"
GROUPS = "SELECT count(*) FROM dbos.workflow_status WHERE name = 'hypergraph_group'"


def start(cluster: TestCluster, *names: str, **environment: Any) -> list[WorkerProcess]:
    variables = {name: str(value) for name, value in environment.items()}
    return cluster.start(*names, target="support.dbos_groups:graphs", **variables)


@contextmanager
def closed(cluster: TestCluster, gate: int = GATE) -> Iterator[None]:
    """Let no body out that comes to a gate."""
    with psycopg.connect(cluster.dsn, autocommit=True) as connection:
        connection.execute("SELECT pg_advisory_lock(%s)", [gate])
        yield


RUNS = [f"r{number}" for number in range(5)]


def held(cluster: TestCluster, graph: str = "holding", **more: Any) -> Any:
    """Submit a map of five items that come to a gate, and wait until the first is there."""
    values = {"run": RUNS, "gate": GATE, **more}
    over = [name for name, value in values.items() if isinstance(value, list)]
    submitted = cluster.runner.submit_map(graph, values, map_over=over, workflow_id="m")
    cluster.until(lambda: began(cluster) == ["r0"])
    return submitted


def began(cluster: TestCluster) -> list[str]:
    return [run for (run,) in cluster.all("SELECT run FROM held ORDER BY began")]


def status(cluster: TestCluster, dbos_id: str) -> str:
    return str(cluster.one("SELECT status FROM dbos.workflow_status WHERE workflow_uuid = %s", dbos_id))


def test_groups_grow_with_the_map_and_depend_on_the_numbers_of_the_items_alone() -> None:
    assert [group_size(count) for count in (0, 1, 50, 99, 100, 500, 1000, 10**6)] == [
        1,
        1,
        1,
        1,
        2,
        10,
        20,
        20,
    ]
    rng = random.Random(1)
    for _ in range(200):
        count, size = rng.randrange(1, 60), rng.randrange(1, 20)
        every = dict(groups_of(range(count), size))
        assert [item for group in every.values() for item in group] == list(range(count))
        left = sorted(rng.sample(range(count), rng.randrange(count + 1)))
        for first, group in groups_of(left, size):
            assert set(group) <= set(every[first])
            assert len(group) <= size


@pytest.mark.parametrize("seed", range(3))
def test_every_item_runs_once_whatever_the_sizes_of_the_groups(cluster: TestCluster, seed: int) -> None:
    rng = random.Random(seed)
    for name in ("w1", "w2"):  # the one that submits the items decides
        start(cluster, name, NODES=1, NODE_SECONDS=0, GROUP_SIZE=rng.randrange(2, 12))
    names = [f"r{number}" for number in range(rng.randrange(20, 60))]
    results = cluster.runner.map("chain", {"run": names, "v0": 0}, map_over="run", workflow_id="m")
    assert [result["v1"] for result in results] == [1] * len(names)
    assert cluster.all("SELECT run FROM bodies ORDER BY 1") == [(name,) for name in sorted(names)]
    assert set(cluster.recorded().values()) == {1}
    rows = f"{ITEMS} AND status = 'SUCCESS' AND queue_name = 'hypergraph'"
    assert cluster.one(rows) == len(names)
    assert cluster.one(GROUPS) > 0
    assert cluster.runner.result("m/item-0")["v1"] == 1
    again = cluster.runner.map("chain", {"run": names, "v0": 0}, map_over="run", workflow_id="m")
    assert again.completed
    assert len(cluster.all("SELECT run FROM bodies")) == len(names)
    cluster.runner.checkpointer.delete("m")
    assert cluster.one("SELECT count(*) FROM dbos.workflow_status WHERE workflow_uuid LIKE 'm/%%'") == 0


def test_a_killed_worker_leaves_its_items_to_others_and_none_that_ended_is_repeated(
    cluster: TestCluster,
) -> None:
    first, _ = start(cluster, "w1", "w2", NODES=1, NODE_SECONDS=0.05, GROUP_SIZE=6)
    names = [f"r{number}" for number in range(120)]
    submitted = cluster.runner.submit_map("chain", {"run": names, "v0": 0}, map_over="run", workflow_id="m")
    mine = "SELECT count(*) FROM bodies WHERE pid = %s"
    cluster.until(lambda: cluster.one(mine, first.pid) > 8)
    first.kill()
    assert len(submitted.result(timeout=300)) == 120
    assert set(cluster.recorded().values()) == {1}
    assert len(cluster.recorded()) == 120
    assert cluster.repeated() <= WORKER_CONCURRENCY  # those under way
    assert cluster.one(f"{ITEMS} AND status = 'SUCCESS'") == 120


def test_a_worker_that_drains_leaves_the_items_that_have_not_begun_to_others(cluster: TestCluster) -> None:
    (first,) = start(cluster, "w1")
    with closed(cluster):
        submitted = held(cluster)
        first.signal(signal.SIGTERM)
        cluster.until(lambda: "draining" in first.words())
        (second,) = start(cluster, "w2")
        assert began(cluster) == ["r0"]
    assert submitted.result(timeout=300).completed
    found = dict(cluster.all("SELECT run, pid FROM held"))
    assert found == {f"r{number}": second.pid if number else first.pid for number in range(5)}


def test_an_item_that_waits_in_a_group_is_cancelled_and_submitted_again_alone(cluster: TestCluster) -> None:
    start(cluster, "w1")
    with closed(cluster):
        submitted = held(cluster)
        assert (status(cluster, "m/item-0"), status(cluster, "m/item-2")) == ("PENDING", "ENQUEUED")
        assert cluster.runner.cancel("m/item-2")
        assert not cluster.runner.cancel("m/item-2")
    results = submitted.result(timeout=300)
    ended = [RunStatus.COMPLETED] * 5
    ended[2] = RunStatus.STOPPED
    assert [result.status for result in results] == ended
    assert began(cluster) == ["r0", "r1", "r3", "r4"]
    assert cluster.runner.result("m/item-2").status is RunStatus.STOPPED
    assert cluster.runner.requeue("m/item-2").result(timeout=300)["held"] == "r2"


def test_a_cancelled_map_begins_no_more_items_of_its_groups(cluster: TestCluster) -> None:
    start(cluster, "w1")
    with closed(cluster):
        submitted = held(cluster)
        assert cluster.runner.cancel("m")
        assert cluster.one(f"{ITEMS} AND status <> 'CANCELLED'") == 0
    cluster.until(lambda: cluster.one("SELECT count(*) FROM held WHERE ended IS NULL") == 0)
    assert cluster.runner.run("doubling", {"x": 1})["doubled"] == 2
    assert began(cluster) == ["r0"]
    assert submitted.status == "CANCELLED"
    values = {"run": [f"r{number}" for number in range(5)], "gate": GATE}
    assert cluster.runner.map("holding", values, map_over="run", workflow_id="m").completed
    assert sorted(set(began(cluster))) == values["run"]


def followed(cluster: TestCluster) -> list[str]:
    return [run for (run,) in cluster.all("SELECT run FROM bodies ORDER BY run")]


def test_a_cancelled_item_stops_before_its_next_node_and_the_rest_of_its_group_runs(
    cluster: TestCluster,
) -> None:
    (worker,) = start(cluster, "w1")
    with closed(cluster):
        submitted = held(cluster, "followed")
        assert cluster.runner.cancel("m/item-0")
        cluster.until_noticed(worker)
        assert began(cluster) == ["r0"]  # its function goes on; nothing else begins meanwhile
    results = submitted.result(timeout=300)
    assert [result.status for result in results] == [RunStatus.STOPPED, *[RunStatus.COMPLETED] * 4]
    assert began(cluster) == RUNS
    assert followed(cluster) == RUNS[1:]
    store = cluster.runner.checkpointer
    assert store.workflow("m/item-0").status is WorkflowStatus.STOPPED  # type: ignore[union-attr]
    assert store.workflow("m").status is WorkflowStatus.STOPPED  # type: ignore[union-attr]
    assert cluster.runner.requeue("m/item-0").result(timeout=300)["followed"] == "r0"
    assert (began(cluster), followed(cluster)) == (RUNS, RUNS)  # what it had stored is not repeated


def test_the_running_item_of_a_cancelled_map_stops_too_and_all_are_run_again_once(
    cluster: TestCluster,
) -> None:
    (worker,) = start(cluster, "w1")
    store = cluster.runner.checkpointer
    with closed(cluster):
        submitted = held(cluster, "followed")
        assert cluster.runner.cancel("m")
        cluster.until_noticed(worker)
    cluster.until(lambda: store.workflow("m/item-0").status is not WorkflowStatus.ACTIVE)  # type: ignore[union-attr]
    assert submitted.result(timeout=300).stopped
    assert (began(cluster), followed(cluster)) == (["r0"], [])
    assert {child.status for child in store.backend.children("m")} == {WorkflowStatus.STOPPED}
    again = cluster.runner.map("followed", {"run": RUNS, "gate": GATE}, map_over="run", workflow_id="m")
    assert [result["followed"] for result in again] == RUNS
    assert (sorted(began(cluster)), followed(cluster)) == (RUNS, RUNS)
    assert set(cluster.recorded().values()) == {1}


def test_an_item_that_must_not_be_repeated_fails_alone_after_its_worker_was_killed(
    cluster: TestCluster,
) -> None:
    (first,) = start(cluster, "w1")
    with closed(cluster):
        submitted = held(cluster, "paying")
        first.kill()
    start(cluster, "w2")
    results = submitted.result(timeout=300, error_handling="continue")
    assert [result.failed for result in results] == [True, False, False, False, False]
    assert "AmbiguousStepError" in str(results[0].error)
    assert 'on_ambiguous="rerun"' in str(results[0].error)
    assert [result.get("paid") for result in results[1:]] == RUNS[1:]
    assert sorted(began(cluster)) == RUNS


@pytest.mark.parametrize("is_submitting", [True, False])
def test_another_worker_takes_over_a_map_whose_worker_was_killed(
    cluster: TestCluster, is_submitting: bool
) -> None:
    workers = {worker.executor_id: worker for worker in start(cluster, "w1", "w2", NODES=1, NODE_SECONDS=0)}
    names = [f"r{number}" for number in range(1500)]
    submitted = cluster.runner.submit_map("chain", {"run": names, "v0": 0}, map_over="run", workflow_id="m")
    if is_submitting:
        cluster.until(lambda: cluster.one(ITEMS))
    else:
        cluster.until(lambda: cluster.one("SELECT count(*) FROM bodies") > 100)
    workers[cluster.one("SELECT executor_id FROM dbos.workflow_status WHERE workflow_uuid = 'm'")].kill()
    assert [result["v1"] for result in submitted.result(timeout=300)] == [1] * len(names)
    assert set(cluster.recorded().values()) == {1}
    assert len(cluster.recorded()) == len(names)
    assert cluster.repeated() <= WORKER_CONCURRENCY  # those under way
    assert cluster.one(f"{ITEMS} AND status = 'SUCCESS'") == len(names)


def test_items_that_fail_do_not_end_their_group_and_are_submitted_again(
    cluster: TestCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    start(cluster, "w1")
    values = {"x": [1, 0, 2, 0, 5]}
    results = cluster.runner.map(
        "dividing",
        values,
        map_over="x",
        workflow_id="m",
        retries=1,
        retry_delay=0.01,
        error_handling="continue",
    )
    assert [result.get("quotient") for result in results] == [10, None, 5, None, 2]
    assert main(["--db", cluster.dsn, "queue", "show", "--status", "dead", "--json"]) == 0
    dead = json.loads(capsys.readouterr().out)["items"]
    assert sorted((each["id"], each["queue"]) for each in dead) == [
        ("m/item-1", "hypergraph"),
        ("m/item-3", "hypergraph"),
    ]
    with pytest.raises(WorkflowError, match="ZeroDivisionError"):
        cluster.runner.result("m/item-1")
    assert cluster.runner.requeue("m/item-1").result(error_handling="continue").failed
    assert status(cluster, "m/item-1/2") == "ERROR"
    strange = cluster.runner.map(
        "complaining", {"x": [1, 2]}, map_over="x", workflow_id="n", error_handling="continue"
    )
    assert [result.failed for result in strange] == [True, True]
    leaving = cluster.runner.map(
        "leaving", {"x": [1, 2]}, map_over="x", workflow_id="p", error_handling="continue"
    )
    assert [result.failed for result in leaving] == [True, True]
    rejected = cluster.runner.map(
        "unknown", {"x": [1, 2]}, map_over="x", workflow_id="o", error_handling="continue"
    )
    assert rejected.failed


def test_items_do_not_wait_long_behind_a_slow_one(cluster: TestCluster) -> None:
    start(cluster, "w1", GROUP_SECONDS=0.3)
    with closed(cluster):
        submitted = held(cluster, gate=[GATE, *[GATE + 1] * 4])
        done = "SELECT count(*) FROM held WHERE ended IS NOT NULL"
        cluster.until(lambda: cluster.one(done) == 4)
        assert status(cluster, "m/item-0") == "PENDING"
    assert submitted.result(timeout=300).completed
    assert sorted(began(cluster)) == [f"r{number}" for number in range(5)]


def test_a_paused_queue_begins_no_more_items_of_a_group_and_counts_them(cluster: TestCluster) -> None:
    (worker,) = start(cluster, "w1")
    store: Any = cluster.runner.checkpointer
    with closed(cluster):
        submitted = held(cluster)
        (found,) = queues(store)["items"]
        assert (found["waiting"], found["running"]) == (4, 1)
        cluster.runner.pause_queue("hypergraph")
        cluster.until_noticed(worker)  # the limits of a queue are read far more often than it beats
    cluster.until(lambda: status(cluster, "m/item-0") == "SUCCESS")
    cluster.until(lambda: cluster.one(f"{GROUPS} AND status = 'SUCCESS'") == 1)
    assert began(cluster) == ["r0"]
    (found,) = queues(store)["items"]
    assert (found["waiting"], found["running"], found["paused"]) == (4, 0, True)
    assert submission(store, "m/item-3") == "waits in the queue 'hypergraph'"
    assert "recoveries" not in {each["check"] for each in health(cluster.dsn)["items"]}
    cluster.runner.resume_queue("hypergraph")
    assert submitted.result(timeout=300).completed
    assert began(cluster).count("r0") == 1


def test_only_the_item_that_kills_its_workers_is_to_blame(cluster: TestCluster) -> None:
    workers = start(cluster, "w0", GROUP_SIZE=5)
    submitted = cluster.runner.submit_map("surviving", {"x": [1, 13, 2, 3, 4]}, map_over="x", workflow_id="m")
    while not submitted.done:
        if workers[-1].process.poll() is not None:
            assert len(workers) < 12
            workers += start(cluster, f"w{len(workers)}")
    results = submitted.result(error_handling="continue")
    assert [result.failed for result in results] == [False, True, False, False, False]
    store = cluster.runner.checkpointer
    children = {child.item: child for child in store.backend.children("m")}
    assert [bool(children[item].crashes) for item in range(5)] == [False, True, False, False, False]
    assert children[1].status is WorkflowStatus.FAILED


def test_items_of_a_lost_group_become_calls_of_their_own(cluster: TestCluster) -> None:
    start(cluster, "w1", SWEEP_SECONDS=0.2)
    cluster.runner.queue("hypergraph", worker_concurrency=1)
    with closed(cluster):
        blocking = cluster.runner.submit("holding", {"run": "before", "gate": GATE})
        cluster.until(lambda: began(cluster) == ["before"])
        submitted = cluster.runner.submit_map("doubling", {"x": [*range(5)]}, map_over="x", workflow_id="m")
        cluster.until(lambda: cluster.one(ITEMS) == 5)
        cluster.connection.execute(
            "UPDATE dbos.workflow_status SET status = 'ERROR' WHERE name = 'hypergraph_group'"
        )
    assert blocking.result(timeout=300).completed
    assert [result["doubled"] for result in submitted.result(timeout=300)] == [0, 2, 4, 6, 8]


def test_items_of_a_queue_that_limits_how_many_start_share_no_call(cluster: TestCluster) -> None:
    cluster.runner.queue("hypergraph", limit=(1000, 0.1))
    start(cluster, "w1")
    assert cluster.runner.map("doubling", {"x": [*range(10)]}, map_over="x").completed
    assert cluster.one(GROUPS) == 0


def test_items_with_large_values_share_no_call(cluster: TestCluster) -> None:
    start(cluster, "w1", TRACE_DSN="")
    names = [letter * 400_000 for letter in "abcd"]
    assert cluster.runner.map("chain", {"run": names, "v0": 0}, map_over="run").completed
    assert cluster.one(GROUPS) == 0


def test_items_in_groups_leave_nested_graphs_to_other_workers(cluster: TestCluster) -> None:
    start(cluster, "w1", "w2")
    results = cluster.runner.map("apart", {"x": [1, 2, 5, 10]}, map_over="x", workflow_id="m")
    assert [result["total"] for result in results] == [12, 9, 12, 21]
    assert cluster.one("SELECT count(*) FROM dbos.workflow_status WHERE queue_name LIKE '%%(grouped)'") == 0


def test_a_worker_without_the_version_leaves_the_items_to_one_that_has_it(cluster: TestCluster) -> None:
    cluster.runner.queue("hypergraph", worker_concurrency=1)
    cluster.start("w1", target="support.dbos_groups:pinned")
    with closed(cluster):
        blocking = cluster.runner.submit("holding", {"run": "before", "gate": GATE})
        cluster.until(lambda: began(cluster) == ["before"])
        submitted = cluster.runner.submit_map("doubling", {"x": [*range(5)]}, map_over="x", workflow_id="m")
        cluster.until(lambda: cluster.one(ITEMS) == 5)
        others = ("--graph-patience", "60")
        cluster.start("w2", target="support.dbos_graphs:doubling", options=others)
        cluster.until(lambda: cluster.one(f"{GROUPS} AND status = 'SUCCESS'") == 1)
    assert blocking.result(timeout=300).completed
    assert [result["doubled"] for result in submitted.result(timeout=300)] == [0, 2, 4, 6, 8]
    ran = "SELECT DISTINCT executor_id FROM dbos.workflow_status WHERE workflow_uuid LIKE 'm/item-%%'"
    assert cluster.all(ran) == [("w1",)]


def test_a_worker_without_the_graph_leaves_the_items_to_one_that_has_it(cluster: TestCluster) -> None:
    start(cluster, "w1")
    others = ("--graph-patience", "60")
    cluster.start("w2", target="support.dbos_graphs:receiving", options=others)
    results = cluster.runner.map("doubling", {"x": [*range(30)]}, map_over="x", workflow_id="m")
    assert [result["doubled"] for result in results] == [2 * x for x in range(30)]
