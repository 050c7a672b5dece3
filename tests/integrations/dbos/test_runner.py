"""Graphs submitted to a worker in another process, through DBOS on a real Postgres."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest

pytest.importorskip("dbos")

from support import dbos_graphs
from support.dbos_cluster import GRAPHS, TestCluster, WorkerProcess

from hypergraph import Graph, node
from hypergraph.checkpointers import AesGcmCodec, PostgresCheckpointer, WorkflowStatus
from hypergraph.checkpointers.records import NewWorkflow
from hypergraph.cli import main
from hypergraph.exceptions import CheckpointError, StoreUnavailableError, WorkflowError, WorkflowLockedError
from hypergraph.integrations.dbos import DBOSRunner
from hypergraph.migration import migrate
from hypergraph.views.doctor import health

pytestmark = pytest.mark.slow

NOWHERE = "postgresql://ann:hidden@127.0.0.1:1/x"
ON_POSTGRES = ("--db", "postgresql://x", "worker")


@pytest.fixture(scope="module")
def cluster() -> Iterator[TestCluster]:
    found = TestCluster()
    found.start("w1", options=("--services", "support.dbos_graphs:services"))
    try:
        yield found
    finally:
        found.close()


def test_a_run_elsewhere_gives_the_result_of_a_run_here(cluster: TestCluster) -> None:
    result = cluster.runner.run(dbos_graphs.doubling, {"x": 21}, workflow_id="run")
    assert (result["doubled"], result.workflow_id) == (42, "run")
    assert result.completed


def test_its_history_is_in_the_store_and_its_values_nowhere_else(cluster: TestCluster) -> None:
    cluster.runner.run("doubling", {"x": 4711}, workflow_id="history", tags={"team": "a"})
    stored = cluster.runner.checkpointer.workflow("history")
    assert stored is not None
    assert (stored.status.value, stored.tags, stored.step_count) == ("completed", {"team": "a"}, 1)
    output = cluster.one("SELECT output FROM dbos.workflow_output WHERE workflow_uuid = 'history'")
    assert "9422" not in output


def test_nothing_in_the_tables_of_dbos_is_pickled(cluster: TestCluster) -> None:
    cluster.runner.run("doubling", {"x": 1}, workflow_id="portable")
    found = cluster.all("SELECT DISTINCT serialization FROM dbos.workflow_status")
    assert found == [("portable_json",)]


def test_a_failed_run_says_why_and_goes_on_when_submitted_again(cluster: TestCluster) -> None:
    with pytest.raises(WorkflowError, match="ZeroDivisionError: division by zero"):
        cluster.runner.run("dividing", {"x": 0}, workflow_id="failing")
    failed = cluster.runner.result("failing", error_handling="continue")
    assert failed.failed
    assert cluster.runner.run("dividing", {"x": 5}, workflow_id="failing")["quotient"] == 2.0


def test_a_failure_whose_text_cannot_be_written_is_told_as_well_as_it_can(cluster: TestCluster) -> None:
    with pytest.raises(WorkflowError, match=r"ValueError: \\ud800 and"):
        cluster.runner.submit("complaining", {"x": 1}).result(timeout=300)


def test_an_output_that_cannot_be_stored_is_told_and_the_others_come_back(cluster: TestCluster) -> None:
    result = cluster.runner.run("locking", {"x": 2})
    assert result["doubled"] == 4
    assert "did not store it" in result["lock"].reason


def test_nodes_get_the_services_of_the_worker(cluster: TestCluster) -> None:
    assert cluster.runner.run("translating", {"word": "tea"}, workflow_id="tea")["translated"] == "Tee"
    with pytest.raises(TypeError, match="services must be a mapping"):
        cluster.runner.worker(dbos_graphs.graphs, executor_id="w2", services=["words"])


def test_a_question_pauses_a_run_and_an_answer_ends_it(cluster: TestCluster) -> None:
    paused = cluster.runner.run(dbos_graphs.asking, {"x": 1}, workflow_id="asking")
    assert paused.paused
    assert paused.pause.node_name == "ask"
    done = cluster.runner.run(dbos_graphs.asking, {"answer": "yes"}, workflow_id="asking")
    assert done["decided"] == "YES"


def test_a_turn_or_a_fork_that_is_repeated_by_another_worker_is_one(cluster: TestCluster) -> None:
    runner, store = cluster.runner, cluster.runner.checkpointer
    runner.run("doubling", {"x": 1}, workflow_id="turns")
    runner.run("doubling", {"x": 1}, workflow_id="turns", new_turn=True)
    runner.run("doubling", workflow_id="forked", fork_from=("turns", 0))
    before = [len(store.steps(name)) for name in ("turns", "forked")]
    assert before == [2, 1]
    # As if the worker had died after its last step, before it could say so.
    cluster.connection.execute(
        "UPDATE dbos.workflow_status SET status = 'PENDING', executor_id = 'dead' "
        "WHERE workflow_uuid IN ('turns/2', 'forked')"
    )
    assert runner.result("turns", timeout=300)["doubled"] == 2
    assert runner.result("forked", timeout=300)["doubled"] == 2
    assert [len(store.steps(name)) for name in ("turns", "forked")] == before
    with pytest.raises(WorkflowError, match="a fork needs a new workflow_id"):
        runner.submit("doubling", workflow_id="forked", fork_from=("turns", 0))


def test_force_forgives_once_when_it_is_submitted(cluster: TestCluster) -> None:
    cluster.runner.run("doubling", {"x": 1}, workflow_id="forced")
    set_crashes = "UPDATE hypergraph.workflows SET crashes = %s, status = 'failed' WHERE id = 'forced'"
    cluster.connection.execute(set_crashes, ['{"double": 3}'])
    with pytest.raises(WorkflowError, match="CrashLoopError"):
        cluster.runner.run("doubling", {"x": 2}, workflow_id="forced")
    assert cluster.runner.run("doubling", {"x": 2}, workflow_id="forced", force=True)["doubled"] == 4


def test_a_map_runs_each_item_as_a_child_of_the_map(cluster: TestCluster) -> None:
    results = cluster.runner.map("doubling", {"x": [1, 2, 3]}, map_over="x", workflow_id="batch")
    assert results["doubled"] == [2, 4, 6]
    store = cluster.runner.checkpointer
    assert [child.id for child in store.workflows(parent="batch")] == [f"batch/item-{i}" for i in (2, 1, 0)]
    assert store.workflow("batch").status.value == "completed"  # type: ignore[union-attr]


def test_a_map_that_failed_in_part_runs_the_rest_when_submitted_again(cluster: TestCluster) -> None:
    submit = partial(cluster.runner.submit_map, "dividing", map_over="x", workflow_id="partly")
    results = submit({"x": [1, 0]}).result(error_handling="continue")
    assert [result.status.value for result in results] == ["completed", "failed"]
    assert "ZeroDivisionError" in str(results[1].error)
    with pytest.raises(WorkflowError, match="ItemChangedError: Item 1"):
        submit({"x": [1, 2]}).result()
    assert len(cluster.runner.checkpointer.steps("partly/item-0")) == 1


def test_a_map_with_an_item_that_cannot_be_compared_is_refused(cluster: TestCluster) -> None:
    submit = partial(cluster.runner.submit_map, "dividing", map_over="x", workflow_id="lost")
    submit({"x": [1, 0]}).result(error_handling="continue")
    lose = (
        "UPDATE hypergraph.vals SET format = 'json+none', data = '?' WHERE name = 'x' AND workflow = "
        "(SELECT key FROM hypergraph.workflows WHERE id = 'lost/item-0')"
    )
    cluster.connection.execute(lose)
    for x in ([1, 0], [2, 0]):
        with pytest.raises(WorkflowError, match="ItemChangedError: Item 0 cannot be compared"):
            submit({"x": x}).result()
    assert cluster.runner.checkpointer.workflow("lost").status is WorkflowStatus.PARTIAL


def test_the_same_submission_twice_is_one(cluster: TestCluster) -> None:
    submit = partial(cluster.runner.submit, "doubling", queue="unserved", workflow_id="twice")
    first = submit({"x": 1})
    assert submit({"x": 1}).dbos_id == first.dbos_id == "twice"
    with pytest.raises(WorkflowLockedError, match="has not ended"):
        submit({"x": 2})
    assert cluster.runner.cancel("twice")
    assert submit({"x": 2}).dbos_id == "twice/2"


def test_what_waits_is_never_begun_after_it_was_cancelled(cluster: TestCluster) -> None:
    submitted = cluster.runner.submit("doubling", {"x": 1}, queue="unserved", workflow_id="cancelled")
    assert not submitted.done
    assert cluster.runner.cancel("cancelled")
    assert submitted.result().stopped
    assert not cluster.runner.cancel("cancelled")


def test_what_runs_stops_between_two_nodes_and_can_go_on(cluster: TestCluster) -> None:
    values = {"run": "stopping", "v0": 0}
    submitted = cluster.runner.submit("chain", values, workflow_id="stopping")
    cluster.until(lambda: cluster.one("SELECT count(*) FROM bodies WHERE run = 'stopping'"))
    cluster.runner.cancel("stopping")
    store = cluster.runner.checkpointer
    cluster.until(lambda: store.workflow("stopping").status.value != "active")  # type: ignore[union-attr]
    assert submitted.result().stopped
    assert cluster.runner.run("chain", values, workflow_id="stopping")["v10"] == 10
    assert cluster.one("SELECT count(*) FROM bodies WHERE run = 'stopping'") == dbos_graphs.NODES


def test_a_graph_that_the_worker_lacks_is_named(cluster: TestCluster) -> None:
    with pytest.raises(WorkflowError, match=r"no graph 'doublin'\. Did you mean 'doubling'"):
        cluster.runner.run("doublin", {"x": 1})


def test_a_worker_runs_each_version_of_a_graph_and_moved_runs_under_their_names(cluster: TestCluster) -> None:
    old, new, store = dbos_graphs.asking_1, dbos_graphs.asking_2, cluster.runner.checkpointer
    assert cluster.runner.run(old, {"x": 2}, workflow_id="pinned-1").paused
    assert cluster.runner.run(new, {"x": 2}, workflow_id="pinned-2").paused
    assert [store.workflow(name).version for name in ("pinned-1", "pinned-2")] == ["1", "2"]
    assert [step.node_name for step in store.steps("pinned-1")] == ["double", "ask"]
    assert migrate(store, new).runs[0].renamed == ("double -> twice", "doubled -> twofold")
    result = cluster.runner.run(new, {"answer": "yes"}, workflow_id="pinned-1")
    assert (result["twofold"], result["answer"]) == (4, "yes")


def test_a_run_that_is_claimed_and_not_running_is_found_by_its_worker(cluster: TestCluster) -> None:
    submitted = cluster.runner.submit("doubling", {"x": 4}, queue="unserved", workflow_id="unknown")
    # As if the answer to the claim had been lost with its connection.
    cluster.connection.execute(
        "UPDATE dbos.workflow_status SET status = 'PENDING', executor_id = 'w1', queue_name = 'hypergraph' "
        "WHERE workflow_uuid = 'unknown'"
    )
    assert submitted.result(timeout=300)["doubled"] == 8


def test_a_run_that_another_process_stopped_goes_on(cluster: TestCluster) -> None:
    store = cluster.runner.checkpointer
    claim = store.backend.claim("followed", NewWorkflow(), store.encoding)
    submitted = cluster.runner.submit("doubling", {"x": 5}, workflow_id="followed")
    cluster.until(lambda: submitted.status == "PENDING")
    store.backend.write(store.encoding.commit(claim, status=WorkflowStatus.STOPPED))
    store.backend.release(claim)
    assert submitted.result(timeout=300)["doubled"] == 10


def test_a_map_that_is_cancelled_submits_no_more_items(cluster: TestCluster) -> None:
    values = {"run": "items", "v0": list(range(1500))}
    submitted = cluster.runner.submit_map("chain", values, map_over="v0", workflow_id="cut")
    items = "SELECT count(*) FROM dbos.workflow_status WHERE workflow_uuid LIKE 'cut/item-%%'"
    cluster.until(lambda: cluster.one(items))
    assert cluster.runner.cancel("cut")
    before = cluster.one(items)
    assert cluster.one(f"{items} AND status = 'ENQUEUED'") == 0
    cluster.until(lambda: cluster.one(f"{items} AND status = 'PENDING'") == 0)
    assert submitted.status == "CANCELLED"
    cluster.runner.run("doubling", {"x": 1})
    assert cluster.one(items) == before < 1500


def test_a_failed_run_is_retried_as_often_as_asked(cluster: TestCluster) -> None:
    submitted = cluster.runner.submit("dividing", {"x": 0}, workflow_id="again", retries=2, retry_delay=0.01)
    with pytest.raises(WorkflowError, match="ZeroDivisionError"):
        submitted.result(timeout=300)
    failed = [step.status.value for step in cluster.runner.checkpointer.steps("again")]
    assert failed == ["failed"] * 3


def test_an_application_neither_sees_nor_cancels_the_runs_of_another(cluster: TestCluster) -> None:
    cluster.runner.submit("doubling", {"x": 1}, queue="unserved", workflow_id="mine")
    other = DBOSRunner(cluster.dsn, application="other-application")
    try:
        assert not other.cancel("mine")
        with pytest.raises(WorkflowLockedError, match="in use by another application"):
            other.submit("doubling", {"x": 1}, queue="unserved", workflow_id="mine")
    finally:
        other.close()
    assert cluster.runner.cancel("mine")


def test_what_is_deleted_is_forgotten_by_the_queues_too(cluster: TestCluster) -> None:
    cluster.runner.map("doubling", {"x": [1, 2]}, map_over="x", workflow_id="deleted")
    cluster.runner.run("doubling", {"x": 1}, workflow_id="deleted-not")
    count = "SELECT count(*) FROM dbos.workflow_status WHERE split_part(workflow_uuid, '/', 1) = %s"
    assert cluster.one(count, "deleted") == 3
    cluster.runner.checkpointer.delete("deleted")
    assert (cluster.one(count, "deleted"), cluster.one(count, "deleted-not")) == (0, 1)
    waiting = cluster.runner.submit("doubling", {"x": 1}, workflow_id="later", delay=600)
    cluster.runner.checkpointer.backend.delete(["later"])
    assert waiting.status == "DELAYED"
    cluster.runner.cancel("later")


def test_runs_that_wait_or_are_dead_are_seen_in_lists(cluster: TestCluster, capsys: Any) -> None:
    def said(*words: str, code: int = 0) -> str:
        assert main(["--db", cluster.dsn, *words]) == code
        captured = capsys.readouterr()
        return captured.out + captured.err

    before = json.loads(said("ls", "--json"))["queued"]
    assert set(before) == {"waiting", "delayed", "dead"}
    cluster.runner.submit("doubling", {"x": 1}, workflow_id="patient", delay=600)
    cluster.runner.run("dividing", {"x": 0}, workflow_id="hopeless", error_handling="continue")
    after = json.loads(said("ls", "--json"))["queued"]
    assert (after["delayed"], after["dead"]) == (before["delayed"] + 1, before["dead"] + 1)
    assert f"{after['delayed']} delayed | {after['dead']} dead" in said("ls")
    assert f"{after['delayed']} delayed | {after['dead']} dead" in said("watch", "--once")
    assert "has no history yet: it is delayed until" in said("show", "patient", code=1)
    assert "not found" in said("show", "never-submitted", code=1)
    cluster.runner.cancel("patient")
    assert "has no history yet: it was cancelled" in said("show", "patient", code=1)


def test_applications_in_two_schemas_are_apart(cluster: TestCluster, capsys: Any) -> None:
    dsn = f"{cluster.dsn}&schema=tenant"
    (worker,) = cluster.workers
    other = DBOSRunner(dsn, polling=0.05)
    try:
        other.checkpointer.backend.open()
        waiting = other.submit("doubling", {"x": 1}, workflow_id="shared-id")
        assert cluster.runner.run("doubling", {"x": 5}, workflow_id="shared-id")["doubled"] == 10
        assert not cluster.runner.checkpointer.workflows(parent="shared-id")
        assert waiting.status == "ENQUEUED"
        assert main(["--db", dsn, "--json", "queue", "show", "--status", "waiting"]) == 0
        assert [each["id"] for each in json.loads(capsys.readouterr().out)["items"]] == ["shared-id"]
        started = WorkerProcess(dsn, worker.executor_id, "--interval", "0.5")
        cluster.workers.append(started)
        started.ready()
        assert waiting.result()["doubled"] == 2
        assert main(["--db", dsn, "--json", "worker", "ls"]) == 0
        (found,) = json.loads(capsys.readouterr().out)["items"]
        assert (found["executor_id"], found["alive"]) == (worker.executor_id, True)
        assert main(["--db", cluster.dsn, "--json", "worker", "ls"]) == 0
        assert len(json.loads(capsys.readouterr().out)["items"]) == 1
        assert started.leave() == 0
        cluster.workers.remove(started)
    finally:
        other.close()


@pytest.mark.parametrize("name", ["Tenant", "a%20b", "x" * 60])
def test_a_schema_that_a_cluster_cannot_have_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="cannot be that of a cluster"):
        DBOSRunner(f"postgresql://h/d?schema={name}")


def test_the_last_submission_is_found_after_older_ones_were_deleted(cluster: TestCluster) -> None:
    submit = partial(cluster.runner.submit, "doubling", queue="unserved", workflow_id="pruned")
    for number in range(3):
        submit({"x": number})
        if number < 2:
            cluster.runner.cancel("pruned")
    cluster.connection.execute(
        "DELETE FROM dbos.workflow_status WHERE workflow_uuid IN ('pruned', 'pruned/2')"
    )
    assert cluster.runner.cancel("pruned")
    assert cluster.runner.result("pruned").stopped


def test_a_delay_goes_by_the_clock_of_the_database(
    cluster: TestCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = time.time
    with monkeypatch.context() as patch:
        ahead = ClockAhead(3600)
        patch.setattr("hypergraph.integrations.dbos.runner.datetime", ahead)
        patch.setattr("hypergraph.checkpointers.postgres.backend.now", ahead.now)
        patch.setattr(time, "time", lambda: real() + 3600)
        submitted = cluster.runner.submit("doubling", {"x": 1}, delay=0.2, workflow_id="later")
    assert submitted.result(timeout=300)["doubled"] == 2


class ClockAhead:
    """The clock of a machine that is ahead of others."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def now(self, zone: object = UTC) -> datetime:
        """Return the time."""
        return datetime.now(UTC) + timedelta(seconds=self._seconds)


@pytest.mark.parametrize(
    "wrong",
    [{"priority": 0}, {"delay": -1}, {"retries": -1}, {"retry_delay": float("nan")}, {"queue": ""}],
)
def test_a_wrong_option_is_named(cluster: TestCluster, wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        cluster.runner.submit("doubling", {"x": 1}, **{"queue": "unserved", **wrong})


def test_what_cannot_travel_is_refused_before_anything_is_submitted(cluster: TestCluster) -> None:
    with pytest.warns(UserWarning, match="x"), pytest.raises(TypeError, match="'x' cannot be stored"):
        cluster.runner.submit("doubling", {"x": object()})
    with pytest.raises(TypeError, match="Unsupported options of a submitted run: event_processors"):
        cluster.runner.submit("doubling", {"x": 1}, event_processors=[])
    with pytest.raises(ValueError, match="name"):
        cluster.runner.submit(Graph([node(output_name="y")(lambda x: x).with_name("f")]), {"x": 1})
    with pytest.raises(CheckpointError, match="cannot be a workflow id"):
        cluster.runner.submit("doubling", {"x": 1}, workflow_id="a/b")


def test_waiting_ends_in_time_and_the_run_does_not(cluster: TestCluster) -> None:
    submitted = cluster.runner.submit("doubling", {"x": 1}, queue="unserved", workflow_id="waiting")
    with pytest.raises(TimeoutError, match="ENQUEUED"):
        submitted.result(timeout=0.01)
    assert not submitted.done


def test_nothing_is_known_of_what_was_never_submitted(cluster: TestCluster) -> None:
    with pytest.raises(WorkflowError, match="Nothing was submitted as 'never'"):
        cluster.runner.result("never")
    assert not cluster.runner.cancel("never")


def test_encrypted_values_are_encrypted_on_their_way_too(cluster: TestCluster) -> None:
    codec = AesGcmCodec(b"0" * 32)
    runner = DBOSRunner(cluster.dsn, store=partial(PostgresCheckpointer, codec=codec), queue="unserved")
    runner.submit("doubling", {"x": "secret"}, workflow_id="encrypted")
    runner.close()
    inputs = cluster.all("SELECT * FROM dbos.workflow_input WHERE workflow_uuid = 'encrypted'")
    assert inputs
    assert "secret" not in str(inputs)


@pytest.mark.parametrize("missing", ["dbos", "psycopg"])
def test_without_the_extra_the_import_says_how_to_install_it(missing: str) -> None:
    program = f"import sys; sys.modules[{missing!r}] = None; from hypergraph.integrations import DBOSRunner"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "ImportError: DBOSRunner needs DBOS. Install it: pip install 'hypergraph[dbos]'" in ended.stderr


def test_a_store_that_writes_later_is_refused() -> None:
    with pytest.raises(ValueError, match='durability="sync"'):
        DBOSRunner("postgresql://nowhere/x", store=partial(PostgresCheckpointer, durability="async"))


def test_an_address_that_is_none_is_refused_without_showing_it() -> None:
    with pytest.raises(ValueError, match="postgresql://user@host/database") as caught:
        DBOSRunner("postgresql://user:hidden@host:port:1/x y")
    assert "hidden" not in str(caught.value)


def test_a_database_that_cannot_be_reached_is_an_error_of_ours() -> None:
    with pytest.raises(StoreUnavailableError, match="cannot be reached") as caught:
        DBOSRunner(NOWHERE).submit("doubling", {"x": 1})
    assert "hidden" not in str(caught.value)


def test_a_node_that_exits_ends_its_run_and_no_other(cluster: TestCluster) -> None:
    with pytest.raises(WorkflowError, match="node leave panicked: 3"):
        cluster.runner.run("leaving", {"x": 3})
    assert cluster.runner.run("doubling", {"x": 1})["doubled"] == 2


def test_a_queue_is_changed_by_declaring_it_again(cluster: TestCluster) -> None:
    cluster.runner.queue("limited", concurrency=3)
    cluster.runner.queue("limited", concurrency=1)
    assert cluster.one("SELECT concurrency FROM dbos.queues WHERE name = 'limited'") == 1
    with pytest.raises(ValueError, match="concurrency"):
        cluster.runner.queue("limited", concurrency=1, worker_concurrency=2)
    with pytest.raises(ValueError, match="polling must be"):
        cluster.runner.queue("limited", polling=0)


def test_the_doctor_tells_who_works_and_what_waits(cluster: TestCluster) -> None:
    cluster.runner.submit("doubling", {"x": 1}, queue="unserved", workflow_id="patient")
    found = {each["check"]: each["detail"] for each in health(cluster.dsn)["items"]}
    assert found["workers"] == "w1"
    assert re.search(r"unserved: \d+ runs?, the oldest for \d+ s", found["queues"])
    assert re.fullmatch(r"tables of version \d+; the package is 3\..*", found["dbos"])


def test_the_doctor_finds_claimed_runs_that_no_process_owns(cluster: TestCluster) -> None:
    cluster.runner.submit("doubling", {"x": 1}, queue="unserved", workflow_id="lost-claim")
    claim = (
        "UPDATE dbos.workflow_status SET status = %s, executor_id = 'w1', started_at_epoch_ms = 1 "
        "WHERE workflow_uuid = 'lost-claim'"
    )
    cluster.connection.execute(claim, ["PENDING"])
    found = {each["check"]: each["detail"] for each in health(cluster.dsn)["items"]}
    assert found["claims"] == "1 run claimed 30 s ago and not owned: workers requeue them"
    cluster.runner.cancel("lost-claim")


def test_a_worker_tells_how_it_is(cluster: TestCluster) -> None:
    def get(path: str) -> str:
        with urllib.request.urlopen(cluster.workers[0].address + path) as answer:
            return str(answer.read().decode())

    cluster.runner.run("doubling", {"x": 1})
    assert '"ok": true' in get("/health")
    metrics = get("/metrics")
    assert 'hypergraph_runs_total{status="completed"}' in metrics
    assert "# TYPE hypergraph_runs_live gauge" in metrics
    with pytest.raises(urllib.error.HTTPError, match="404"):
        get("/dump")


def command(capsys: Any, cluster: TestCluster, *arguments: str) -> Any:
    """Return the document of a command."""
    code = main(["--db", cluster.dsn, *arguments, "--json"])
    said = capsys.readouterr()
    assert code == 0, said
    return json.loads(said.out)


def test_a_run_is_submitted_from_the_command_line(cluster: TestCluster, capsys: Any) -> None:
    by_name = command(capsys, cluster, "submit", "doubling", "x=4", "--id", "typed", "--tag", "by=hand")
    assert by_name["id"] == "typed"
    assert cluster.runner.result("typed", timeout=300)["doubled"] == 8
    by_target = command(
        capsys, cluster, "submit", "support.dbos_graphs:doubling", "x=[1,2]", "--map-over", "x"
    )
    assert cluster.runner.result(by_target["id"], timeout=300)["doubled"] == [2, 4]
    assert main(["--db", cluster.dsn, "submit", "doubling", "x=1", "--priority", "0"]) == 4
    assert "priority" in capsys.readouterr().err


def test_a_dead_run_is_listed_and_submitted_again(cluster: TestCluster, capsys: Any) -> None:
    cluster.runner.run("dividing", {"x": 0}, workflow_id="dead", error_handling="continue")
    dead = command(capsys, cluster, "queue", "show", "--status", "dead")["items"]
    assert "dead" in {each["id"] for each in dead}
    command(capsys, cluster, "queue", "requeue", "dead")
    with pytest.raises(WorkflowError, match="ZeroDivisionError"):
        cluster.runner.result("dead", timeout=300)
    assert cluster.one("SELECT status FROM dbos.workflow_status WHERE workflow_uuid = 'dead/2'") == "ERROR"


def test_schedules_are_listed_paused_and_triggered(cluster: TestCluster, capsys: Any) -> None:
    cluster.runner.schedule("yearly", "doubling", "0 0 1 1 *", {"x": 6})
    (found,) = command(capsys, cluster, "schedule", "ls")["items"]
    assert (found["name"], found["graph"], found["paused"]) == ("yearly", "doubling", False)
    command(capsys, cluster, "schedule", "pause", "yearly")
    assert command(capsys, cluster, "schedule", "ls")["items"][0]["paused"]
    command(capsys, cluster, "schedule", "resume", "yearly")
    triggered = command(capsys, cluster, "schedule", "trigger", "yearly")
    assert cluster.runner.result(triggered["id"], timeout=300)["doubled"] == 12
    assert main(["--db", cluster.dsn, "schedule", "pause", "none"]) == 4
    cluster.runner.unschedule("yearly")


def test_workers_are_listed(cluster: TestCluster, capsys: Any) -> None:
    (found,) = command(capsys, cluster, "worker", "ls")["items"]
    assert (found["executor_id"], found["alive"]) == ("w1", True)
    assert main(["--db", cluster.dsn, "worker", "ls"]) == 0
    assert "w1" in capsys.readouterr().out


def test_a_submitted_run_is_cancelled_from_the_command_line(cluster: TestCluster, capsys: Any) -> None:
    cluster.connection.execute(
        "CREATE TABLE IF NOT EXISTS held (run TEXT, gate INT, pid INT, ended TIMESTAMPTZ)"
    )
    cluster.all("SELECT pg_advisory_lock(99)")  # the body waits for it
    submitted = cluster.runner.submit("holding", {"run": "typed", "gate": 99}, workflow_id="to-cancel")
    cluster.until(lambda: cluster.one("SELECT count(*) FROM held"))
    command(capsys, cluster, "cancel", "to-cancel")
    assert submitted.status == "CANCELLED"
    cluster.all("SELECT pg_advisory_unlock(99)")
    cluster.until(lambda: cluster.one("SELECT count(ended) FROM held"))
    assert cluster.runner.run("doubling", {"x": 1})["doubled"] == 2
    assert cluster.runner.checkpointer.workflow("to-cancel").status.value == "stopped"  # type: ignore[union-attr]
    assert cluster.one("SELECT count(*) FROM held") == 1


def test_an_executor_id_in_use_is_refused(
    cluster: TestCluster, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hypergraph.integrations.dbos.presence._TAKEOVER", 0.1)
    assert main(["--db", cluster.dsn, "worker", GRAPHS, "--executor-id", "w1"]) == 2
    assert "Executor id 'w1' is in use" in capsys.readouterr().err
    assert cluster.runner.run("doubling", {"x": 1})["doubled"] == 2


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("--db", "a.db", "worker", GRAPHS, "--executor-id", "x"), 3, "needs a Postgres database"),
        ((*ON_POSTGRES, "support.dbos_graphs:grafs", "--executor-id", "x"), 1, "no attribute 'grafs'"),
        ((*ON_POSTGRES, "support.dbos_graphs:NODES", "--executor-id", "x"), 2, "int"),
        ((*ON_POSTGRES, GRAPHS, "--executor-id", "x" * 41), 2, "1 to 40"),
        (("--db", NOWHERE, "worker", GRAPHS, "--executor-id", "x"), 3, "cannot be reached"),
        ((*ON_POSTGRES, GRAPHS), 2, "Missing option: --executor-id"),
    ],
)
def test_a_worker_that_cannot_work_says_why(
    arguments: tuple[str, ...], code: int, said: str, capsys: Any
) -> None:
    assert main(arguments) == code
    assert said in capsys.readouterr().err
