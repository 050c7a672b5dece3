"""Workers that are killed, stopped, cut off, replaced and asked to leave; every run ends, and counts once."""

from __future__ import annotations

import asyncio
import re
import signal
import threading
from collections.abc import Iterator

import pytest

pytest.importorskip("dbos")

from chaos import Chaos
from sqlalchemy.exc import OperationalError
from support.dbos_cluster import TestCluster
from support.dbos_graphs import NODES, graphs, receiving, timed

from hypergraph import AsyncRunner
from hypergraph.exceptions import StoreUnavailableError
from hypergraph.integrations.dbos import DBOSRunner, execution
from hypergraph.integrations.dbos.cluster import WORKER_CONCURRENCY
from hypergraph.views.doctor import health

pytestmark = pytest.mark.slow


@pytest.fixture
def cluster() -> Iterator[TestCluster]:
    found = TestCluster(quick=True)
    try:
        yield found
    finally:
        found.close()


def submit(cluster: TestCluster, count: int) -> list[str]:
    """Submit chains and return their ids."""
    names = [f"r{number}" for number in range(count)]
    for name in names:
        cluster.runner.submit("chain", {"run": name, "v0": 0}, workflow_id=name)
    return names


def assert_all_ended(cluster: TestCluster, names: list[str], most_repeated: int) -> None:
    for name in names:
        assert cluster.runner.result(name, timeout=300)[f"v{NODES}"] == NODES
    recorded = cluster.recorded()
    assert set(recorded.values()) == {1}, "a step was recorded twice"
    assert len(recorded) == len(names) * NODES
    assert cluster.repeated() <= most_repeated


def bodies(cluster: TestCluster) -> int:
    return int(cluster.one("SELECT count(*) FROM bodies"))


def live_of(cluster: TestCluster, executor_id: str) -> int:
    find = "SELECT count(*) FROM dbos.workflow_status WHERE status = 'PENDING' AND executor_id = %s"
    return int(cluster.one(find, executor_id))


def doctor(cluster: TestCluster, check: str) -> tuple[str, str]:
    """Return what the doctor says about something."""
    ((status, detail),) = (
        (each["status"], each["detail"]) for each in health(cluster.dsn)["items"] if each["check"] == check
    )
    return status, detail


def test_the_runs_of_a_killed_worker_are_taken_over_and_count_once(cluster: TestCluster) -> None:
    first, _ = cluster.start("w1", "w2", NODE_SECONDS="0.05")
    names = submit(cluster, 20)
    cluster.until(lambda: live_of(cluster, "w1") and bodies(cluster) > 40)
    first.kill()
    cluster.until(lambda: not live_of(cluster, "w1"))
    assert_all_ended(cluster, names, most_repeated=WORKER_CONCURRENCY)


def test_a_worker_that_was_stopped_is_taken_over_and_refused_when_it_wakes_up(cluster: TestCluster) -> None:
    (stopped,) = cluster.start("w1", NODE_SECONDS="0.1")
    names = submit(cluster, 3)
    cluster.until(lambda: bodies(cluster) >= 6)
    stopped.signal(signal.SIGSTOP)
    cluster.start("w2", options=("--patience", "1"), NODE_SECONDS="0.1")
    assert_all_ended(cluster, names, most_repeated=3)
    stopped.signal(signal.SIGCONT)
    # It goes on with its node, is refused, and works again as if new.
    cluster.until(
        lambda: cluster.one("SELECT count(*) FROM dbos.workflow_status WHERE status = 'SUCCESS'") == 3
    )
    cluster.workers[1].kill()
    more = submit(cluster, 4)
    assert_all_ended(cluster, more, most_repeated=3)
    stopped.leave()
    assert re.search("was interrupted and is tried again: .*(taken over|OwnershipLost)", stopped.words())


def test_a_worker_can_come_back_under_its_id_and_goes_on_with_maps_too(cluster: TestCluster) -> None:
    (first,) = cluster.start("w1", NODE_SECONDS="0.05")
    names = [f"i{number}" for number in range(5)]
    values = {"run": names, "v0": 0}
    submitted = cluster.runner.submit_map("chain", values, map_over="run", workflow_id="batch")
    cluster.until(lambda: bodies(cluster) > 10)
    first.kill()
    assert live_of(cluster, "w1")
    assert doctor(cluster, "workers") == ("TROUBLE", "none, and runs are waiting: start a worker")
    trouble, told = doctor(cluster, "recoveries")
    assert trouble == "TROUBLE"
    assert re.fullmatch(r"\d+ runs of w1, which is gone: start a worker to resume them", told)
    cluster.start("w1")
    assert doctor(cluster, "workers") == ("ok", "w1")
    assert submitted.result(timeout=300)[f"v{NODES}"] == [NODES] * 5
    assert "recoveries" not in {each["check"] for each in health(cluster.dsn)["items"]}
    assert set(cluster.recorded().values()) == {1}
    assert cluster.repeated() <= 5
    assert cluster.runner.checkpointer.workflow("batch").status.value == "completed"  # type: ignore[union-attr]


def test_a_worker_that_leaves_lets_runs_end_or_gives_them_to_others(cluster: TestCluster) -> None:
    (leaving,) = cluster.start("w1", options=("--drain", "0"), NODE_SECONDS="0.2")
    names = submit(cluster, 4)
    cluster.until(lambda: bodies(cluster) >= 8)
    assert leaving.leave() == 0
    assert 8 <= bodies(cluster) < 4 * NODES, "it should not have waited for whole runs"
    before = bodies(cluster)
    (patient,) = cluster.start("w2", NODE_SECONDS="0.05")
    cluster.until(lambda: bodies(cluster) > before)
    assert patient.leave() == 0
    assert_all_ended(cluster, names, most_repeated=0)


def test_a_worker_without_the_graph_leaves_the_run_to_one_that_has_it(cluster: TestCluster) -> None:
    cluster.start("old", target="support.dbos_graphs:doubling", options=("--graph-patience", "300"))
    submitted = cluster.runner.submit("dividing", {"x": 5})
    cluster.until(lambda: submitted.status == "PENDING")
    cluster.start("new")
    assert submitted.result(timeout=300)["quotient"] == 2.0


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="signals of threads are of POSIX")
def test_a_signal_that_does_not_wake_the_main_thread_is_handled() -> None:
    worker = DBOSRunner("postgresql://nowhere/none").worker(graphs, executor_id="w")
    is_waiting, hung = threading.Event(), threading.Event()

    def send() -> None:  # to this thread: the main one sleeps on
        is_waiting.wait()
        signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)
        if not worker._leave.wait(60):
            hung.set()
            worker.leave()

    before = signal.signal(signal.SIGUSR1, lambda number, frame: worker.leave())
    sender = threading.Thread(target=send)
    try:
        sender.start()
        threading.Timer(0.1, is_waiting.set).start()
        worker.wait()
        assert not hung.is_set()
    finally:
        sender.join()
        signal.signal(signal.SIGUSR1, before)


def test_a_cluster_that_is_disturbed_loses_nothing(cluster: TestCluster) -> None:
    chaos = Chaos(cluster, seed=1)
    try:
        found = chaos.run(20, 0, ["crash", "cut", "clock", "kill"], limit=300)
    finally:
        chaos.close()
    assert found.is_good, found
    assert found.ended == 20


def test_a_database_that_is_away_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution, "_RETRY_SECONDS", 0.0)
    left: list[Exception] = [StoreUnavailableError("away"), OperationalError("", {}, Exception("away"))]

    def ask(number: int) -> int:
        if left:
            raise left.pop()
        return number

    assert asyncio.run(execution.patiently(ask, 7)) == 7
    assert not left


def test_a_run_whose_timer_is_due_is_resumed_by_a_worker(cluster: TestCluster) -> None:
    store = cluster.runner.checkpointer
    paused = asyncio.run(AsyncRunner(checkpointer=store).run(timed, {"x": 3}, workflow_id="due"))
    assert paused.paused
    cluster.start("w1", target="support.dbos_graphs:timed")
    cluster.until(lambda: store.workflow("due").status.value == "completed")
    assert store.state("due")["doubled"] == 6


def test_a_run_that_was_sent_a_signal_is_resumed_by_a_worker(cluster: TestCluster) -> None:
    store = cluster.runner.checkpointer
    assert asyncio.run(AsyncRunner(checkpointer=store).run(receiving, workflow_id="sent")).paused
    cluster.start("w1", target="support.dbos_graphs:receiving")
    store.send("sent", "x", 4)
    cluster.until(lambda: store.workflow("sent").status.value == "completed")
    assert store.state("sent")["doubled"] == 8
