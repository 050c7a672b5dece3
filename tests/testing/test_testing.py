"""What `hypergraph.testing` offers: a clock to set, a listener that remembers, a suite to subclass."""

import asyncio
import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from hypergraph import (
    AsyncRunner,
    FunctionNode,
    Graph,
    NodeContext,
    NodeEndEvent,
    RetryPolicy,
    RunStartEvent,
    SyncRunner,
    node,
    pause_for,
    testing,
)
from hypergraph.checkpointers import Checkpointer, MemoryCheckpointer, SqliteCheckpointer
from hypergraph.clock import now, waited
from hypergraph.testing import CheckpointerConformance, FakeClock, RecordingProcessor

CENTURY = timedelta(days=36525)
NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


@node(output_name="y")
def add_one(x: int) -> int:
    return x + 1


@node(output_name="z")
def double(y: int) -> int:
    return 2 * y


GRAPH = Graph([add_one, double], name="g")


def test_the_clock_stands_still_until_it_is_moved() -> None:
    with FakeClock(NOON) as clock:
        assert (now(), now()) == (NOON, NOON)
        clock.jump(90)
        clock.jump(timedelta(minutes=-1))
        assert now() == clock.time == NOON + timedelta(seconds=30)


def test_the_clock_moves_at_every_look_by_its_tick() -> None:
    with FakeClock(NOON, tick=-60) as clock:
        assert now() - now() == timedelta(minutes=1)
        clock.tick = CENTURY
        assert now().year == 2130


def test_the_clock_before_comes_back() -> None:
    with FakeClock(NOON):
        with FakeClock(NOON + CENTURY), pytest.raises(OSError, match="gone"):
            raise OSError("gone")
        assert now() == NOON
    assert abs(now() - datetime.now(UTC)) < CENTURY


def test_a_clock_is_entered_once() -> None:
    with FakeClock() as clock, pytest.raises(RuntimeError, match="in use"), clock:
        pass


HOURLY = RetryPolicy(max_attempts=4, initial_delay=3600, backoff_multiplier=1, max_delay=3600, jitter=0)


@pytest.mark.parametrize("is_async", [False, True])
def test_a_clock_that_skips_moves_over_delays_of_retries_and_timers(is_async: bool) -> None:
    attempts: list[datetime] = []

    def flaky() -> int:
        attempts.append(now())
        if len(attempts) < 4:
            raise ConnectionError
        return 1

    def later() -> datetime:
        return now()

    graph = Graph(
        [
            FunctionNode(flaky, "flaky", "x", retry=HOURLY),
            pause_for("rest", timedelta(days=2), wait_for="x"),
            FunctionNode(later, "later", "at", wait_for="rest"),
        ]
    )
    with FakeClock(NOON, skip=True):
        found = asyncio.run(_awaited(graph)) if is_async else SyncRunner().run(graph)["at"]
    assert attempts == [NOON + timedelta(hours=number) for number in range(4)]
    assert found == NOON + timedelta(hours=3, days=2)


async def _awaited(graph: Graph) -> datetime:
    found: datetime = (await AsyncRunner().run(graph))["at"]
    return found


def test_retries_of_inner_steps_skip_too() -> None:
    attempts: list[datetime] = []

    def flaky() -> int:
        attempts.append(now())
        if len(attempts) < 3:
            raise ConnectionError
        return 1

    def ask(context: NodeContext) -> int:
        found: int = context.step("ask", flaky, retry=HOURLY)
        return found

    with FakeClock(NOON, skip=True):
        assert SyncRunner().run(Graph([FunctionNode(ask, "ask", "x")]))["x"] == 1
    assert attempts == [NOON + timedelta(hours=number) for number in range(3)]


def test_a_clock_inside_of_one_that_skips_does_not() -> None:
    with FakeClock(NOON, skip=True) as outer:
        with FakeClock(NOON):
            assert waited(5.0) == 5.0
        assert waited(5.0) == 0.0
        assert outer.time == NOON + timedelta(seconds=5)
    assert waited(5.0) == 5.0


def test_a_clock_may_be_set_in_any_time_zone() -> None:
    with FakeClock(NOON.astimezone(timezone(timedelta(hours=5)))):
        assert (now(), now().tzinfo) == (NOON, UTC)


@pytest.mark.parametrize("tick", [0, -3600, CENTURY], ids=["frozen", "backwards", "jumping"])
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_runs_resume_whatever_the_clock_says(tmp_path: Path, kind: str, tick: float) -> None:
    store: Checkpointer = (
        MemoryCheckpointer() if kind == "memory" else SqliteCheckpointer(tmp_path / "runs.db")
    )
    runner = SyncRunner(checkpointer=store)
    with FakeClock(NOON, tick=tick):
        runner.run(GRAPH, x=1, workflow_id="w")
        assert runner.run(GRAPH, x=2, workflow_id="w")["z"] == 6
        assert runner.run(GRAPH, workflow_id="w")["z"] == 6
        assert [step.index for step in store.steps("w")] == [0, 1, 2, 3]
    assert runner.run(GRAPH, fork_from=("w", 1), workflow_id="fork")["z"] == 4
    store.close()


def test_the_recording_processor_keeps_events_of_both_runners_in_order() -> None:
    heard, again = RecordingProcessor(), RecordingProcessor()
    SyncRunner().run(GRAPH, x=1, event_processors=[heard])
    asyncio.run(AsyncRunner().run(GRAPH, x=1, event_processors=[again]))
    assert [type(event) for event in heard.events] == [type(event) for event in again.events]
    assert [event.node_name for event in heard.of(NodeEndEvent)] == ["add_one", "double"]
    assert len(heard.of(NodeEndEvent, RunStartEvent)) == 3
    assert heard.shutdowns == 1


def test_a_conformance_class_must_say_how_its_store_is_made(tmp_path: Path) -> None:
    with pytest.raises(NotImplementedError, match="make_store"):
        CheckpointerConformance().make_store(tmp_path)


def test_the_names_are_these_and_no_other() -> None:
    assert sorted(testing.__all__) == [
        "CheckpointerConformance",
        "Deviation",
        "FakeClock",
        "RecordingProcessor",
        "ReplayReport",
        "Replayed",
        "replay",
    ]
    assert set(testing.__all__) < set(dir(testing))
    with pytest.raises(AttributeError, match="no_such_name"):
        testing.no_such_name  # noqa: B018 - the access is the test


@pytest.mark.slow
def test_only_the_conformance_suite_needs_pytest() -> None:
    code = """
import sys
sys.modules["pytest"] = None
from hypergraph.testing import FakeClock, RecordingProcessor
with FakeClock():
    RecordingProcessor()
try:
    from hypergraph.testing import CheckpointerConformance
except ImportError:
    print("refused")
"""
    found = subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.PIPE, text=True)
    assert found.stdout == "refused\n"
