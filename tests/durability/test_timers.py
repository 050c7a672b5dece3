"""Timer nodes: short waits in the process, long ones in the store, and what is due."""

from __future__ import annotations

import asyncio
import threading
import time
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from support.durable import On, durable, store

from hypergraph import AsyncRunner, CancellationError, Graph, SyncRunner, node, pause_for, pause_until
from hypergraph.checkpointers import Checkpointer, MemoryCheckpointer, WorkflowStatus
from hypergraph.testing import FakeClock

__all__ = ["durable", "store"]  # fixtures

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def reminding(delay: Any, ran: list[str] | None = None, **options: Any) -> Graph:
    """Return a graph that sends, waits and reminds."""
    calls = [] if ran is None else ran

    @node(output_name="sent")
    def send(topic: str) -> str:
        calls.append("send")
        return topic

    @node(output_name="reminded", wait_for="remind_at")
    def remind(sent: str) -> str:
        calls.append("remind")
        return f"{sent}!"

    timer = pause_for("wait", delay, output_name="remind_at", wait_for="sent", **options)
    return Graph([send, timer, remind], name="reminding")


def test_a_long_wait_pauses_a_stored_run_until_it_is_due(durable: On, store: Checkpointer) -> None:
    ran: list[str] = []
    graph = reminding(HOUR, ran)
    with FakeClock(NOON) as clock:
        asked = durable.run(graph, {"topic": "tea"}, workflow_id="w")
        assert (asked.pause.reason, asked.pause.due) == ("timer", NOON + HOUR)
        assert store.workflow("w").due == NOON + HOUR
        clock.jump(1800)
        assert durable.run(graph, workflow_id="w").pause.due == NOON + HOUR
        assert list(store.workflows(due=True)) == []
        clock.jump(1800)
        assert [found.id for found in store.workflows(due=True)] == ["w"]
        done = durable.run(graph, workflow_id="w")
        assert (done["reminded"], done["remind_at"]) == ("tea!", NOON + HOUR)
        assert list(store.workflows(due=True)) == []
        assert durable.run(graph, workflow_id="w")["reminded"] == "tea!"
    assert ran == ["send", "remind"]
    assert [step.status.value for step in store.steps("w")] == ["completed"] * 3


def test_a_short_wait_stays_in_the_process(durable: On, store: Checkpointer) -> None:
    started = time.monotonic()
    assert durable.run(reminding(0.05), {"topic": "tea"}, workflow_id="w")["reminded"] == "tea!"
    assert time.monotonic() - started >= 0.05
    assert store.workflow("w").status is WorkflowStatus.COMPLETED
    paused = durable.run(reminding(0.05, hold=0), {"topic": "tea"}, workflow_id="v")
    assert paused.pause is None or paused.pause.reason == "timer"


def test_hold_says_how_long_a_process_waits(durable: On) -> None:
    assert durable.run(reminding(30, hold=1), {"topic": "tea"}, workflow_id="w").pause.reason == "timer"
    with FakeClock(NOON, tick=2 * HOUR):  # every look takes two hours
        done = durable.run(reminding(HOUR, hold=2 * HOUR), {"topic": "tea"}, workflow_id="v")
    assert done["reminded"] == "tea!"


def test_without_a_store_any_wait_is_in_the_process() -> None:
    with FakeClock(NOON, tick=5 * HOUR):
        assert SyncRunner().run(reminding(timedelta(hours=3)), topic="tea")["reminded"] == "tea!"


def test_a_moment_may_come_from_inputs_and_the_past_is_due_at_once(durable: On) -> None:
    graph = Graph([pause_until("wait", lambda sent_at: sent_at + HOUR)])
    berlin = timezone(HOUR)
    with FakeClock(NOON):
        past = durable.run(graph, {"sent_at": datetime(2026, 3, 1, 12, tzinfo=berlin)}, workflow_id="w")
        assert past["wait"] == NOON
        later = durable.run(graph, {"sent_at": datetime(2026, 3, 1, 13, tzinfo=berlin)}, workflow_id="v")
        assert later.pause.due == NOON + HOUR
    fixed = Graph([pause_until("wait", NOON)])
    with FakeClock(NOON + HOUR):
        assert SyncRunner().run(fixed)["wait"] == NOON


def test_an_answer_ends_a_wait_early(durable: On, store: Checkpointer) -> None:
    graph = reminding(HOUR)
    with FakeClock(NOON):
        durable.run(graph, {"topic": "tea"}, workflow_id="w")
        store.answer("w", "remind_at", NOON, by="ann")
        assert durable.run(graph, workflow_id="w")["remind_at"] == NOON


def test_timers_of_nested_graphs_and_items_are_due_each_at_its_time(durable: On, store: Checkpointer) -> None:
    graph = Graph([pause_for("wait", lambda hours: hours * HOUR)], name="waiting")
    outer = Graph([graph.as_node()], name="outer")
    with FakeClock(NOON) as clock:
        durable.run(outer, {"hours": 1}, workflow_id="w")
        paused = durable.map(graph, {"hours": [3, 2]}, map_over="hours", workflow_id="m")
        assert [pause.due for pause in paused.pauses] == [NOON + 3 * HOUR, NOON + 2 * HOUR]
        assert store.workflow("m").due == NOON + 2 * HOUR
        clock.jump(2 * HOUR)
        assert [run.id for run in store.due_runs()] == ["w", "m/item-1"]
        for run in store.due_runs():
            durable.run(outer if run.id == "w" else graph, workflow_id=run.id)
        assert store.workflow("m").due == NOON + 3 * HOUR
        clock.jump(HOUR)
        assert [run.id for run in store.due_runs()] == ["m/item-0"]
        done = durable.map(graph, {"hours": [3, 2]}, map_over="hours", workflow_id="m")
        assert [item["wait"] for item in done] == [NOON + 3 * HOUR, NOON + 2 * HOUR]


def test_other_nodes_run_while_a_timer_waits() -> None:
    seen: list[str] = []

    @node(output_name="a")
    async def work(x: int) -> int:
        await asyncio.sleep(0)
        seen.append("work")
        return x

    @node(output_name="b")
    def after(wait: datetime, a: int) -> int:
        seen.append("after")
        return a

    graph = Graph([pause_for("wait", 0.05), work, after])
    assert asyncio.run(AsyncRunner().run(graph, x=1))["b"] == 1
    assert seen == ["work", "after"]


def test_a_wait_in_the_process_ends_when_the_run_is_stopped() -> None:
    runner = SyncRunner(checkpointer=(store := MemoryCheckpointer()))
    raised: list[BaseException] = []

    def run() -> None:
        try:
            runner.run(reminding(50), topic="tea", workflow_id="w")
        except CancellationError as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    while not runner.stop("w"):
        time.sleep(0.001)
    thread.join()
    assert raised
    assert store.workflow("w").status is WorkflowStatus.STOPPED


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: pause_until("t", datetime(2026, 1, 1)), ValueError, "needs a datetime with a time zone"),
        (lambda: pause_until("t", "tomorrow"), TypeError, "needs a datetime"),
        (lambda: pause_for("t", -1), ValueError, "cannot wait for a negative time"),
        (lambda: pause_for("t", float("nan")), ValueError, "cannot wait for nan seconds"),
        (lambda: pause_for("t", float("inf")), ValueError, "cannot wait for inf seconds"),
        (lambda: pause_for("t", timedelta.max), ValueError, "cannot wait for more than 365000 days"),
        (lambda: pause_for("t", True), TypeError, "needs a timedelta or a number of seconds"),
        (lambda: pause_for("t", 1, hold=-1), ValueError, "hold cannot wait for a negative time"),
    ],
)
def test_times_that_make_no_sense_are_refused(make: Any, error: Any, text: str) -> None:
    with pytest.raises(error, match=text):
        make()


@pytest.mark.parametrize("found", ["soon", datetime(2026, 1, 1)])
def test_a_function_that_returns_no_moment_fails_its_node(found: Any) -> None:
    graph = Graph([pause_until("wait", lambda given: given)])
    with pytest.raises((TypeError, ValueError), match="Timer 'wait' needs a datetime"):
        SyncRunner().run(graph, given=found)


def test_a_fork_waits_until_the_same_moment(durable: On, store: Checkpointer) -> None:
    graph = reminding(HOUR)
    with FakeClock(NOON) as clock:
        durable.run(graph, {"topic": "tea"}, workflow_id="w")
        clock.jump(600)
        assert durable.run(graph, workflow_id="f", fork_from=("w", None)).pause.due == NOON + HOUR
        assert durable.run(graph, workflow_id="g", fork_from=("w", 0)).pause.due == NOON + HOUR + timedelta(
            minutes=10
        )
