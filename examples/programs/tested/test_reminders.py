"""How to test a graph: nodes, replaced nodes, services, fake time, recorded runs."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from reminders import Bank, is_paid, reminders, write

from hypergraph import SyncRunner
from hypergraph.checkpointers import MemoryCheckpointer
from hypergraph.testing import FakeClock, replay

GIVEN = {"customer": "Ann", "amount": 12.5}


class Shaky(Bank):
    """Fails as often as it is told to, then answers."""

    def __init__(self, answer: bool, failures: int = 0) -> None:
        self.answer, self.failures, self.calls = answer, failures, 0

    def paid(self, number: str) -> bool:
        self.calls += 1
        if self.calls <= self.failures:
            raise ConnectionError("busy")
        return self.answer


def test_a_node_is_a_function() -> None:
    assert write("Ann", 12.5) == "Ann owes 12.50"
    assert is_paid.func(True) is True


@pytest.mark.parametrize(("paid", "outcome"), [(True, "closed"), (False, "a friendly reminder")])
def test_each_way(paid: bool, outcome: str) -> None:
    offline = reminders.replace({"look": lambda invoice: paid})
    with FakeClock(skip=True):
        result = SyncRunner().run(offline, GIVEN)
    assert result["outcome"] == f"{outcome}: Ann owes 12.50"
    assert [step.decision for step in result.log.steps if step.decision] == ["close" if paid else "remind"]


def test_two_weeks_and_two_failures_take_no_time() -> None:
    bank = Shaky(False, failures=2)
    with FakeClock(skip=True) as clock:
        began = clock.time
        result = SyncRunner(services={"bank": bank}).run(reminders, GIVEN)
        assert clock.time - began > timedelta(days=14, hours=2)
    assert (result["outcome"], bank.calls) == ("a friendly reminder: Ann owes 12.50", 3)


def test_the_run_waits_in_the_store_and_wakes_up_in_another_process() -> None:
    store, bank = MemoryCheckpointer(), Shaky(True)
    with FakeClock() as clock:
        assert (
            SyncRunner(checkpointer=store, services={"bank": bank})
            .run(reminders, GIVEN, workflow_id="w")
            .paused
        )
        assert store.due_runs() == []
        clock.jump(timedelta(days=13))
        assert store.due_runs() == []
        clock.jump(timedelta(days=1, seconds=1))
        assert [run.id for run in store.due_runs()] == ["w"]
        result = SyncRunner(checkpointer=store, services={"bank": bank}).run(reminders, workflow_id="w")
    assert (result["outcome"], bank.calls) == ("closed: Ann owes 12.50", 1)


def test_recorded_runs_still_take_the_same_course(tmp_path: Path) -> None:
    recorded = tmp_path / "recorded.db"
    for name, paid in (("paid", True), ("late", False)):
        runner = SyncRunner(checkpointer=recorded, services={"bank": Shaky(paid)})
        with FakeClock(skip=True) as clock:
            runner.run(reminders, GIVEN, workflow_id=name)
            clock.jump(timedelta(days=15))
            runner.run(reminders, workflow_id=name)
    assert replay(recorded, reminders).ok
    other = reminders.replace({"is_paid": lambda paid: not paid})
    report = replay(recorded, other, execute=["is_paid"])
    assert [run.first.kind for run in report.runs if run.first] == ["value", "value"]
