"""Durable runs as users meet them: what they leave behind, and forks of it."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from support.durable import Bodies, bodies, counting, durable, fail_once, pipeline, read, rows, store
from support.running import On, OnAsync

from hypergraph import Graph, SyncRunner, node
from hypergraph.checkpointers import Checkpointer, SqliteCheckpointer, StepStatus, WorkflowStatus

__all__ = ["bodies", "durable", "store"]  # fixtures

# -- looking at runs ------------------------------------------------------------------------------------


def test_values_can_be_read_at_any_superstep(durable: On, store: Checkpointer, bodies: Bodies) -> None:
    durable.run(pipeline(bodies), {"v0": 0}, workflow_id="w")
    for superstep in range(5):
        expected = {f"v{position}": position for position in range(1, superstep + 2)}
        assert read(store, "get_state", "w", superstep=superstep) == expected
        assert store.state("w", superstep=superstep) == expected


def test_steps_tell_what_happened_and_with_what(durable: On, store: Checkpointer, bodies: Bodies) -> None:
    durable.run(pipeline(bodies, 2), {"v0": 0}, workflow_id="w")
    first, second = read(store, "get_steps", "w")
    assert (first.values, first.input_versions, first.status) == ({"v1": 1}, {"v0": 1}, StepStatus.COMPLETED)
    assert (second.values, second.input_versions, second.index) == ({"v2": 2}, {"v1": 1}, 1)
    assert second.duration_ms >= 0


def test_items_of_a_map_are_workflows_of_their_own(durable: On, store: Checkpointer, bodies: Bodies) -> None:
    durable.map(pipeline(bodies, 2), {"v0": [1, 2, 3]}, map_over="v0", workflow_id="batch")
    assert store.state("batch/item-2", superstep=0) == {"v1": 4}
    assert store.workflow("batch").status is WorkflowStatus.COMPLETED
    assert [w.id for w in store.workflows()] == ["batch"]
    assert {w.id for w in store.workflows(parent="batch")} == {f"batch/item-{i}" for i in range(3)}


def test_failed_workflows_are_listed_and_print_their_failing_step(
    durable: On, store: Checkpointer, bodies: Bodies
) -> None:
    durable.run(pipeline(bodies), {"v0": 0}, workflow_id="good")
    fail_once(durable, bodies, pipeline(bodies), "s3", values={"v0": 0}, workflow_id="bad")
    failed = read(store, "list_workflows", status=WorkflowStatus.FAILED)
    assert [w.id for w in failed] == ["bad"]
    text = str(failed[0])
    assert text.startswith("Workflow: bad | FAILED | 3 steps | ")
    assert "FAILED: broken" in text
    step = store.steps("bad")[-1]
    assert (step.error, step.error_type) == ("broken", "builtins.ValueError")
    assert "in body" in step.traceback
    assert {w.id for w in store.workflows()} == {"good", "bad"}


def test_a_decision_is_part_of_its_step(durable: On, store: Checkpointer, bodies: Bodies) -> None:
    durable.run(counting(bodies), {"count": 0, "limit": 2}, workflow_id="w")
    decisions = [s.decision for s in store.steps("w") if s.node_name == "again"]
    assert decisions[-1] == "END"
    assert set(decisions[:-1]) == {"add"}


def test_a_run_without_an_id_is_kept_under_its_run_id(
    durable: On, store: Checkpointer, bodies: Bodies
) -> None:
    result = durable.run(pipeline(bodies, 1), {"v0": 0})
    assert result.workflow_id is not None
    assert store.state(result.workflow_id) == {"v1": 1}
    mapped = durable.map(pipeline(bodies, 1), {"v0": [0]}, map_over="v0")
    assert mapped.workflow_id is not None
    assert store.state(f"{mapped.workflow_id}/item-0") == {"v1": 1}


# -- forks ----------------------------------------------------------------------------------------------


def test_a_fork_executes_only_later_steps(durable: On, store: Checkpointer, bodies: Bodies) -> None:
    graph = pipeline(bodies)
    fail_once(durable, bodies, graph, "s4", values={"v0": 0}, workflow_id="order")
    parent = rows(store, "order")
    bodies.take()
    point = store.checkpoint("order", superstep=2)
    assert point.values == {"v0": 0, "v1": 1, "v2": 2, "v3": 3}
    result = durable.run(graph, {**point.values}, history=point.steps, workflow_id="retry")
    assert bodies.take() == ["s4", "s5"]
    assert result["v5"] == 5
    assert rows(store, "order") == parent
    assert rows(store, "retry") == [(k, f"s{k + 1}", "completed") for k in range(5)]
    forked = store.workflow("retry")
    assert (forked.forked_from, forked.forked_at) == ("order", 2)


def test_a_fork_with_an_edited_value_goes_on_from_the_edit(
    durable: On, store: Checkpointer, bodies: Bodies
) -> None:
    graph = pipeline(bodies)
    durable.run(graph, {"v0": 0}, workflow_id="order")
    bodies.take()
    point = store.checkpoint("order", superstep=2)
    result = durable.run(graph, {**point.values, "v3": 100}, history=point.steps, workflow_id="edited")
    assert bodies.take() == ["s4", "s5"]
    assert result["v5"] == 102
    assert store.state("order")["v5"] == 5


def test_a_fork_of_a_fork_is_whole(durable: On, store: Checkpointer, bodies: Bodies) -> None:
    graph = pipeline(bodies)
    durable.run(graph, {"v0": 0}, workflow_id="a")
    one = store.checkpoint("a", superstep=3)
    durable.run(graph, one.values, history=one.steps, workflow_id="b")
    two = store.checkpoint("b", superstep=1)
    bodies.take()
    assert durable.run(graph, two.values, history=two.steps, workflow_id="c")["v5"] == 5
    assert bodies.take() == ["s3", "s4", "s5"]
    assert store.workflow("c").forked_from == "b"


def test_a_fork_inside_a_loop_goes_on_with_the_next_round(
    durable: On, store: Checkpointer, bodies: Bodies
) -> None:
    graph = counting(bodies)
    durable.run(graph, {"count": 0, "limit": 4}, workflow_id="w")
    whole = bodies.take()
    last = store.steps("w")[-1].superstep
    for superstep in range(last + 1):
        point = store.checkpoint("w", superstep=superstep)
        result = durable.run(graph, point.values, history=point.steps, workflow_id=f"fork-{superstep}")
        assert result["count"] == 4
        assert bodies.take() == whole[len(point.steps) :]


@pytest.mark.parametrize("is_mapped", [False, True], ids=["once", "mapped"])
def test_nested_results_of_a_run_that_is_taken_up_are_there(
    durable: On, bodies: Bodies, is_mapped: bool
) -> None:
    inner = pipeline(bodies, 2, "inner").as_node()
    last = pipeline(bodies, 3).nodes["s3"]
    graph = Graph([inner.map_over("v0") if is_mapped else inner, last.with_inputs(v2="v9")], name="outer")
    given = {"v0": [1, 2] if is_mapped else 1, "v9": 0}
    fail_once(durable, bodies, graph, "s3", values=given, workflow_id="w")
    for _ in range(2):  # resumed, and recalled
        result = durable.run(graph, workflow_id="w")
        assert result["inner"]["v2"] == ([3, 4] if is_mapped else 3)
        log = result.log.steps[0].log
        assert log.errors == ()
        assert len(log.steps if not is_mapped else log) == 2


def test_a_slow_disk_does_not_hold_up_the_event_loop(tmp_path: Path) -> None:
    store = SqliteCheckpointer(tmp_path / "runs.db")
    store.backend.commit_seconds = 1.0  # as it would be after a commit that took that long
    threads = []
    plain = store.backend.database.write

    def write(*args: Any, **options: Any) -> Any:
        if options.get("full"):
            threads.append(threading.current_thread())
        return plain(*args, **options)

    store.backend.database.write = write  # type: ignore[method-assign]  # to see who writes
    OnAsync(checkpointer=store).run(pipeline(Bodies()), {"v0": 0}, workflow_id="w")
    assert [thread is threading.main_thread() for thread in threads] == [False]
    assert store.backend.commit_seconds < 1.0


def test_a_traceback_is_kept_whatever_characters_it_holds(durable: On, store: Checkpointer) -> None:
    @node(output_name="y")
    def fail(x: str) -> str:
        raise ValueError(f"cannot read {x}")

    durable.run(Graph([fail]), {"x": "\udcff"}, error_handling="continue", workflow_id="w")
    (step,) = store.steps("w")
    assert step.traceback.endswith("ValueError: cannot read \udcff\n")


def test_what_an_owner_writes_between_the_reading_and_the_claim_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, let, calls = threading.Event(), threading.Event(), []

    @node(output_name="y")
    def body(x: int) -> int:
        calls.append(x)
        begun.set()
        let.wait()
        return x + 1

    store, graph = SqliteCheckpointer(tmp_path / "w.db"), Graph([body])
    claim = store.backend.claim

    def late(*args: Any, **options: Any) -> Any:
        if threading.current_thread() is threading.main_thread():
            let.set()
            rival.join()
        return claim(*args, **options)

    monkeypatch.setattr(store.backend, "claim", late)
    runner = SyncRunner(checkpointer=store)
    rival = threading.Thread(target=runner.run, args=[graph, {"x": 1}], kwargs={"workflow_id": "w"})
    rival.start()
    begun.wait()
    assert runner.run(graph, {"x": 1}, workflow_id="w")["y"] == 2
    assert calls == [1]
    store.close()
