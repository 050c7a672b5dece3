"""Questions with a deadline: the default, no default, answers in time and late, and who was first."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from support.durable import On, durable, store

from hypergraph import Graph, InvalidAnswerError, QuestionExpiredError, SyncRunner, interrupt, node
from hypergraph.checkpointers import Checkpointer, CheckpointPolicy, MemoryCheckpointer, WorkflowStatus
from hypergraph.checkpointers.records import NewWorkflow
from hypergraph.exceptions import WorkflowError
from hypergraph.testing import FakeClock

__all__ = ["durable", "store"]  # fixtures

DAYS = timedelta(days=2)
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def office(**options: Any) -> Graph:
    @interrupt("approved", timeout=DAYS, **options)
    def approve(draft: str) -> bool | None:
        return None

    @node(output_name="sent")
    def send(draft: str, approved: bool) -> str:
        return f"{draft}: {approved}"

    return Graph([approve, send], name="office")


def test_after_its_deadline_the_default_is_the_answer(durable: On, store: Checkpointer) -> None:
    graph = office(default=False)
    with FakeClock(NOON) as clock:
        asked = durable.run(graph, {"draft": "tea"}, workflow_id="w")
        assert (asked.pause.due, asked.pause.default) == (NOON + DAYS, "False")
        assert store.workflow("w").due == NOON + DAYS
        clock.jump(DAYS - timedelta(seconds=1))
        assert [found.id for found in store.workflows(due=True)] == []
        assert durable.run(graph, workflow_id="w").pause.due == NOON + DAYS
        clock.jump(1)
        assert [found.id for found in store.workflows(due=True)] == ["w"]
        assert durable.run(graph, workflow_id="w")["sent"] == "tea: False"
        assert store.workflow("w").due is None
    (step,) = store.steps("w", node="approve")
    assert (step.values, step.expired, step.answered_by) == ({"approved": False}, True, None)


def test_without_a_default_the_run_fails_and_may_ask_anew(durable: On, store: Checkpointer) -> None:
    graph = office()
    with FakeClock(NOON) as clock:
        durable.run(graph, {"draft": "tea"}, workflow_id="w")
        clock.jump(DAYS)
        with pytest.raises(QuestionExpiredError, match="not answered by 2026-03-03 12:00:00 UTC") as late:
            durable.run(graph, workflow_id="w")
        assert (late.value.node_name, late.value.due) == ("approve", NOON + DAYS)
        assert store.workflow("w").status is WorkflowStatus.FAILED
        assert list(store.workflows(due=True)) == []
        assert durable.run(graph, workflow_id="w").pause.due == NOON + 2 * DAYS
        store.answer("w", "approved", True, by="ann")
        assert durable.run(graph, workflow_id="w")["sent"] == "tea: True"


def test_an_answer_in_time_counts_whenever_the_run_comes_back(durable: On, store: Checkpointer) -> None:
    graph = office(default=False)
    with FakeClock(NOON) as clock:
        durable.run(graph, {"draft": "tea"}, workflow_id="w")
        store.answer("w", "approved", True, by="ann")
        clock.jump(2 * DAYS)
        assert durable.run(graph, workflow_id="w")["sent"] == "tea: True"
    (step,) = store.steps("w", node="approve")
    assert (step.expired, step.answered_by) == (False, "ann")


def test_a_late_answer_is_refused_and_says_what_happens(durable: On, store: Checkpointer) -> None:
    with FakeClock(NOON) as clock:
        durable.run(office(default=False), {"draft": "tea"}, workflow_id="w")
        durable.run(office(), {"draft": "tea"}, workflow_id="v")
        clock.jump(DAYS)
        with pytest.raises(WorkflowError, match=r"had to be answered by .* UTC; False is the answer"):
            store.answer("w", "approved", True)
        with pytest.raises(WorkflowError, match="the run fails when the workflow is run again"):
            store.answer("v", "approved", True)
        with pytest.raises(WorkflowError, match="had to be answered by"):
            durable.run(office(default=False), {"approved": True}, workflow_id="w")
        assert durable.run(office(default=False), workflow_id="w")["sent"] == "tea: False"


def test_an_answer_that_came_while_the_deadline_was_judged_counts(
    durable: On, store: Checkpointer, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = office(default=False)
    with FakeClock(NOON) as clock:
        durable.run(graph, {"draft": "tea"}, workflow_id="w")
        put, calls = type(store.backend).put_answers, []

        def quicker(backend: Any, answers: Any) -> None:
            calls.append("put")
            if len(calls) == 1:
                clock.jump(-DAYS)
                store.answer("w", "approved", True, by="ann")
                clock.jump(DAYS)
            put(backend, answers)

        clock.jump(DAYS)
        monkeypatch.setattr(type(store.backend), "put_answers", quicker)
        assert durable.run(graph, workflow_id="w")["sent"] == "tea: True"
    (step,) = store.steps("w", node="approve")
    assert (step.expired, step.answered_by) == (False, "ann")


def test_of_two_people_the_first_counts_and_the_second_is_told(store: Checkpointer) -> None:
    graph = office(default=False)
    SyncRunner(checkpointer=store).run(graph, draft="tea", workflow_id="w")
    told: list[str] = []
    start = threading.Barrier(2)

    def answer(who: str, value: bool) -> None:
        start.wait()
        try:
            store.answer("w", "approved", value, by=who)
        except WorkflowError as error:
            told.append(str(error))

    people = [threading.Thread(target=answer, args=given) for given in (("ann", True), ("bob", False))]
    for person in people:
        person.start()
    for person in people:
        person.join()
    assert len(told) == 1
    assert "has been answered already" in told[0]
    result = SyncRunner(checkpointer=store).run(graph, workflow_id="w")
    (step,) = store.steps("w", node="approve")
    assert result["approved"] is (step.answered_by == "ann")


def test_a_clock_that_jumps_back_reopens_nothing_and_forward_expires(
    durable: On, store: Checkpointer
) -> None:
    graph = office(default=False)
    with FakeClock(NOON) as clock:
        durable.run(graph, {"draft": "tea"}, workflow_id="w")
        clock.jump(DAYS)
        assert durable.run(graph, workflow_id="w")["approved"] is False
        clock.jump(-10 * DAYS)
        assert durable.run(graph, workflow_id="w")["approved"] is False
        durable.run(graph, {"draft": "tea"}, workflow_id="v")
        clock.jump(-DAYS)
        assert durable.run(graph, workflow_id="v").pause is not None


def test_deadlines_hold_in_nested_graphs_and_maps(durable: On, store: Checkpointer) -> None:
    inner = office(default=False)
    outer = Graph([inner.as_node()], name="outer")
    with FakeClock(NOON) as clock:
        durable.run(outer, {"draft": "tea"}, workflow_id="w")
        durable.map(inner, {"draft": ["a", "b"]}, map_over="draft", workflow_id="m")
        assert store.workflow("w").due == store.workflow("m").due == NOON + DAYS
        clock.jump(timedelta(days=1))
        assert durable.run(outer, workflow_id="w").pause.due == NOON + DAYS
        store.answer("m", "item-0.approved", True)
        clock.jump(timedelta(days=1))
        assert [found.id for found in store.workflows(due=True)] == ["m", "w"]
        assert durable.run(outer, workflow_id="w")["sent"] == "tea: False"
        done = durable.map(inner, {"draft": ["a", "b"]}, map_over="draft", workflow_id="m")
        assert [item["sent"] for item in done] == ["a: True", "b: False"]
        assert list(store.workflows(due=True)) == []


def test_deadlines_hold_where_a_nested_graph_has_no_history_of_its_own() -> None:
    store = MemoryCheckpointer(policy=CheckpointPolicy(granularity="top-level"))
    runner, outer = SyncRunner(checkpointer=store), Graph([office(default=False).as_node()], name="outer")
    with FakeClock(NOON) as clock:
        runner.run(outer, draft="tea", workflow_id="w")
        clock.jump(timedelta(days=1))
        assert runner.run(outer, workflow_id="w").pause.due == NOON + DAYS
        clock.jump(timedelta(days=1))
        assert runner.run(outer, workflow_id="w")["sent"] == "tea: False"


def test_items_that_are_due_run_by_themselves(durable: On, store: Checkpointer) -> None:
    graph = office(default=False)
    with FakeClock(NOON) as clock:
        durable.map(graph, {"draft": ["a", "b"]}, map_over="draft", workflow_id="m")
        clock.jump(DAYS)
        found = store.due_runs("office")
        assert [run.id for run in found] == ["m/item-0", "m/item-1"]
        durable.run(graph, workflow_id="m/item-0")
        assert [run.id for run in store.due_runs()] == ["m/item-1"]
        assert store.workflow("m").status is WorkflowStatus.PAUSED
        durable.run(graph, workflow_id="m/item-1")
        assert store.due_runs() == []
        assert store.workflow("m").status is WorkflowStatus.COMPLETED


def test_a_fork_has_the_deadline_of_its_origin(durable: On, store: Checkpointer) -> None:
    graph = office(default=False)
    with FakeClock(NOON) as clock:
        durable.run(graph, {"draft": "tea"}, workflow_id="w")
        clock.jump(60)
        fork = durable.run(graph, workflow_id="f", fork_from=("w", None))
        assert fork.pause.due == NOON + DAYS
        assert store.workflow("f").due == NOON + DAYS


def test_without_a_store_every_run_asks_anew() -> None:
    graph = office(default=False)
    with FakeClock(NOON) as clock:
        assert SyncRunner().run(graph, draft="tea").pause.due == NOON + DAYS
        clock.jump(DAYS)
        assert SyncRunner().run(graph, draft="tea").pause.due == NOON + 2 * DAYS


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"timeout": timedelta(0)}, ValueError, "timeout must be greater than 0"),
        ({"timeout": -1}, ValueError, "timeout must be greater than 0"),
        ({"timeout": float("nan")}, ValueError, "timeout must be greater than 0"),
        ({"timeout": 1e300}, ValueError, "at most 365000 days"),
        ({"timeout": timedelta.max}, ValueError, "at most 365000 days"),
        ({"timeout": True}, TypeError, "timeout must be a timedelta or a number of seconds"),
        ({"timeout": NOON}, TypeError, "timeout must be a timedelta or a number of seconds"),
        ({"default": True}, ValueError, "default is the answer after a timeout"),
        ({"timeout": 1, "default": "no"}, InvalidAnswerError, "'approved' must be true or false, not 'no'"),
        ({"timeout": 1, "default": None}, InvalidAnswerError, "'approved' must be true or false, not None"),
    ],
)
def test_deadlines_that_make_no_sense_are_refused(options: Any, error: Any, text: str) -> None:
    with pytest.raises(error, match=text):

        @interrupt("approved", **options)
        def approve(draft: str) -> bool | None:
            return None


def test_a_due_workflow_stays_due_when_its_process_dies_in_between() -> None:
    store = MemoryCheckpointer()
    graph = office(default=False)
    with FakeClock(NOON) as clock:
        SyncRunner(checkpointer=store).run(graph, draft="tea", workflow_id="w")
        clock.jump(DAYS)
        claim = store.backend.claim("w", NewWorkflow(), store.encoding)
        store.backend.write(store.encoding.commit(claim, status=WorkflowStatus.ACTIVE))
        store.backend.release(claim)
        assert [found.id for found in store.due_runs()] == ["w"]


@pytest.mark.parametrize("days", [1, 5])
def test_new_code_keeps_the_deadline_of_an_open_question_and_gives_its_own_default(
    durable: On, days: int
) -> None:
    def asking(timeout: timedelta, default: bool) -> Graph:
        ask = interrupt("approved", timeout=timeout, default=default)(lambda draft: None)
        return Graph([ask.with_name("approve")], name="office")

    today = asking(timedelta(days=days), True)
    with FakeClock(NOON) as clock:
        durable.run(asking(DAYS, False), {"draft": "tea"}, workflow_id="w")
        clock.jump(DAYS - timedelta(hours=1))
        assert durable.run(today, workflow_id="w").paused
        clock.jump(timedelta(hours=1))
        assert durable.run(today, workflow_id="w")["approved"] is True
