"""What queues promise, as bodies of nodes see it: how many are inside at once, and when each of them began.

A body leaves a row when it begins and when it ends, with the time of the database, and waits between the two
at a gate, which is a lock of the server that a test holds. Two workers take runs from every queue.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

pytest.importorskip("dbos")

from support.dbos_cluster import TestCluster

from hypergraph.cli import main

pytestmark = pytest.mark.slow

QUEUES = ("pair", "single", "each", "parts", "rated", "later", "items")
HELD = (
    "CREATE TABLE held (run TEXT, gate INT, pid INT, began TIMESTAMPTZ DEFAULT clock_timestamp(), "
    "ended TIMESTAMPTZ)"
)
# For every body that began, how many were inside then.
TOGETHER = """
SELECT coalesce(max(inside), 0) FROM (SELECT count(*) AS inside FROM held AS one JOIN held AS other
ON other.began <= one.began AND other.ended > one.began AND other.gate = one.gate AND {same}
WHERE one.gate = %s GROUP BY one.run) AS counted
"""
INSIDE = "SELECT count(*) FROM held WHERE gate = %s AND ended IS NULL"


@pytest.fixture(scope="module")
def cluster() -> Iterator[TestCluster]:
    found = TestCluster(quick=True)
    found.connection.execute(HELD)
    found.runner.queue("pair", concurrency=2)
    found.runner.queue("single", concurrency=1)
    found.runner.queue("each", worker_concurrency=1)
    found.runner.queue("parts", partition_concurrency=1)
    found.runner.queue("rated", limit=(3, 0.5))
    found.runner.queue("items", concurrency=1)
    found.start(
        "w1", "w2", options=tuple(word for name in (*QUEUES, "hypergraph") for word in ("--queue", name))
    )
    try:
        yield found
    finally:
        found.close()


@contextmanager
def closed(cluster: TestCluster, gate: int) -> Iterator[None]:
    """Let no body through a gate meanwhile."""
    cluster.all("SELECT pg_advisory_lock(%s)", gate)
    try:
        yield
    finally:
        cluster.all("SELECT pg_advisory_unlock(%s)", gate)


def submit(cluster: TestCluster, gate: int, *names: str, **options: object) -> None:
    for name in names:
        cluster.runner.submit("holding", {"run": name, "gate": gate}, workflow_id=name, **options)


def settle(cluster: TestCluster) -> None:
    """Wait until other queues have been polled several times, so that a waiting run could have started."""
    for _ in range(4):
        assert cluster.runner.run("doubling", {"x": 1})["doubled"] == 2


def ended(cluster: TestCluster, *names: str) -> list[str]:
    """Wait for runs to end and return them in the order in which they began."""
    for name in names:
        cluster.runner.result(name, timeout=300)
    return [
        name for (name,) in cluster.all("SELECT run FROM held WHERE run = ANY(%s) ORDER BY began", [*names])
    ]


def test_no_more_runs_of_a_queue_are_under_way_than_it_says(cluster: TestCluster) -> None:
    names = [f"pair{number}" for number in range(8)]
    with closed(cluster, 1):
        submit(cluster, 1, *names, queue="pair")
        cluster.until(lambda: cluster.one(INSIDE, 1) == 2)
        settle(cluster)
        assert cluster.one(INSIDE, 1) == 2
    assert len(ended(cluster, *names)) == 8
    assert cluster.one(TOGETHER.format(same="true"), 1) == 2


def test_no_more_runs_of_a_queue_are_under_way_in_one_worker_than_it_says(cluster: TestCluster) -> None:
    names = [f"each{number}" for number in range(6)]
    with closed(cluster, 2):
        submit(cluster, 2, *names, queue="each")
        cluster.until(lambda: cluster.one(INSIDE, 2) == 2)
        settle(cluster)
        assert (
            cluster.one("SELECT count(DISTINCT pid) FROM held WHERE gate = 2") == cluster.one(INSIDE, 2) == 2
        )
    ended(cluster, *names)
    assert cluster.one(TOGETHER.format(same="other.pid = one.pid"), 2) == 1


def test_no_more_runs_of_one_partition_are_under_way_than_the_queue_says(cluster: TestCluster) -> None:
    with closed(cluster, 3):
        submit(cluster, 3, "a1", "a2", "a3", queue="parts", partition="a")
        submit(cluster, 3, "b1", "b2", queue="parts", partition="b")
        cluster.until(lambda: cluster.one(INSIDE, 3) == 2)
        settle(cluster)
        inside = cluster.all("SELECT left(run, 1) FROM held WHERE gate = 3 ORDER BY 1")
        assert inside == [("a",), ("b",)]
    ended(cluster, "a1", "a2", "a3", "b1", "b2")
    assert cluster.one(TOGETHER.format(same="left(other.run, 1) = left(one.run, 1)"), 3) == 1


def test_no_more_runs_begin_in_a_period_than_the_queue_says(cluster: TestCluster) -> None:
    before = cluster.one("SELECT clock_timestamp()")
    names = [f"rated{number}" for number in range(8)]
    submit(cluster, 4, *names, queue="rated")
    ended(cluster, *names)
    waited = cluster.all(
        "SELECT extract(epoch FROM began - %s)::float8 FROM held WHERE gate = 4 ORDER BY began", before
    )
    # However late a worker is, the fourth comes a period after the first was submitted, the seventh two.
    assert [int(seconds / 0.5) >= number // 3 for number, (seconds,) in enumerate(waited)] == [True] * 8


def test_the_most_urgent_run_is_next(cluster: TestCluster) -> None:
    with closed(cluster, 5):
        submit(cluster, 5, "first", queue="single")
        cluster.until(lambda: cluster.one(INSIDE, 5) == 1)
        submit(cluster, 5, "later", queue="single", priority=7)
        submit(cluster, 5, "sooner", queue="single", priority=3)
    assert ended(cluster, "first", "later", "sooner") == ["first", "sooner", "later"]


def test_a_run_with_a_delay_waits_so_long(cluster: TestCluster) -> None:
    before = cluster.one("SELECT clock_timestamp()")
    submit(cluster, 6, "delayed", queue="later", delay=0.4)
    ended(cluster, "delayed")
    assert cluster.one("SELECT began - %s >= interval '0.4 s' FROM held WHERE run = 'delayed'", before)


def test_the_items_of_a_map_share_the_limits_of_its_queue_which_the_map_itself_does_not_use(
    cluster: TestCluster,
) -> None:
    names = ["m1", "m2", "m3"]
    with closed(cluster, 7):
        submitted = cluster.runner.submit_map(
            "holding", {"run": names, "gate": 7}, map_over="run", queue="items", workflow_id="map"
        )
        cluster.until(lambda: cluster.one(INSIDE, 7))
        settle(cluster)
        assert cluster.one(INSIDE, 7) == 1
    assert submitted.result(timeout=300)["held"] == names
    assert cluster.one(TOGETHER.format(same="true"), 7) == 1


def test_a_paused_queue_keeps_its_runs_and_its_limits(cluster: TestCluster, capsys: Any) -> None:
    def command(*arguments: str) -> Any:
        assert main(["--db", cluster.dsn, "queue", *arguments, "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    def queue() -> Any:
        return {each["name"]: each for each in command("ls")["items"]}["each"]

    command("pause", "each")
    settle(cluster)
    submit(cluster, 8, "kept", queue="each")
    settle(cluster)
    assert (queue()["paused"], queue()["waiting"]) == (True, 1)
    assert [each["id"] for each in command("show", "each")["items"]] == ["kept"]
    command("resume", "each")
    assert ended(cluster, "kept") == ["kept"]
    assert (queue()["paused"], queue()["worker_concurrency"]) == (False, 1)
    assert main(["--db", cluster.dsn, "queue", "resume", "each"]) == 4
    assert main(["--db", cluster.dsn, "queue", "pause", "none"]) == 4
    assert "There is no queue 'none'" in capsys.readouterr().err


def test_a_schedule_submits_a_run_each_time(cluster: TestCluster) -> None:
    cluster.runner.schedule("often", "doubling", "* * * * * *", {"x": 3}, tags={"by": "clock"})
    find = "SELECT id FROM hypergraph.workflows WHERE id LIKE 'sched-often-%%' AND status = 'completed'"
    found = cluster.until(lambda: len(rows := cluster.all(find)) >= 2 and rows)
    cluster.runner.unschedule("often")
    store = cluster.runner.checkpointer
    for (name,) in found:
        assert store.state(name)["doubled"] == 6
        assert store.workflow(name).tags == {"by": "clock"}  # type: ignore[union-attr]
    with pytest.raises(ValueError, match="cron"):
        cluster.runner.schedule("never", "doubling", "now and then")
