"""What `hypergraph.testing` offers: a clock to set, a listener that remembers, a suite to subclass."""

import asyncio
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from hypergraph import (
    AsyncRunner,
    FunctionNode,
    Graph,
    NodeContext,
    NodeEndEvent,
    NodeTimeoutError,
    RetryPolicy,
    RunStartEvent,
    RunTimeoutError,
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


def test_a_timeout_passes_by_the_clock_when_a_function_moves_it() -> None:
    def slow(x: int) -> int:
        clock.jump(31)
        return x

    graph = Graph([FunctionNode(slow, "slow", "y", timeout=30.0)])
    with FakeClock(NOON, skip=True) as clock, pytest.raises(NodeTimeoutError):
        SyncRunner().run(graph, x=1)
    with FakeClock(NOON, skip=True) as clock, pytest.raises(RunTimeoutError):
        SyncRunner().run(Graph([FunctionNode(slow, "slow", "y")]), x=1, timeout=20)
    with FakeClock(NOON) as clock:  # it is the wall clock that jumps, and no timeout minds
        assert SyncRunner().run(graph, x=1)["y"] == 1


async def _nap(seconds: float) -> float:
    await asyncio.sleep(seconds)
    return seconds


async def _step(context: NodeContext) -> float:
    found: float = await context.step("nap", _nap, 3600.0, timeout=60.0)
    return found


def test_sleeps_of_async_nodes_move_the_clock_up_to_their_timeouts() -> None:
    naps = [
        FunctionNode(_nap, name, name, rename_inputs={"seconds": f"{name}_s"}) for name in ("long", "short")
    ]
    with FakeClock(NOON, skip=True) as clock:
        result = asyncio.run(AsyncRunner().run(Graph(naps), long_s=86400.0, short_s=60.0))
        assert clock.time == NOON + timedelta(days=1)
        assert {step.node_name: step.duration_ms for step in result.log.steps} == {
            "long": 86400_000.0,
            "short": 60_000.0,
        }
    for graph, options, error, seconds in (
        (Graph([naps[0].with_name("a")]), {"timeout": 90.0}, RunTimeoutError, 90),
        (Graph([FunctionNode(_nap, "a", "long", timeout=30.0)]), {}, NodeTimeoutError, 30),
        (Graph([FunctionNode(_step, "a", "y")]), {}, NodeTimeoutError, 60),
    ):
        given = dict.fromkeys(graph.inputs.required, 86400.0)
        with FakeClock(NOON, skip=True) as clock, pytest.raises(error):
            asyncio.run(AsyncRunner().run(graph, given, **options))
        assert clock.time == NOON + timedelta(seconds=seconds)


@pytest.mark.parametrize("is_async", [False, True])
def test_a_run_times_out_during_the_delay_of_a_retry(is_async: bool) -> None:
    def fails() -> int:
        raise ConnectionError

    graph = Graph([FunctionNode(fails, "fails", "x", retry=HOURLY)])

    def run() -> None:
        if is_async:
            asyncio.run(AsyncRunner().run(graph, timeout=600))
        else:
            SyncRunner().run(graph, timeout=600)

    with FakeClock(NOON, skip=True) as clock, pytest.raises(RunTimeoutError):
        run()
    assert clock.time == NOON + timedelta(seconds=600)


def test_no_time_passes_while_a_thread_is_at_work() -> None:
    begun, may_end = threading.Event(), threading.Event()

    def work() -> int:
        begun.set()
        assert may_end.wait(60)
        return 1

    def release() -> None:
        assert begun.wait(60)
        may_end.set()

    async def wait() -> int:
        return await asyncio.wait_for(asyncio.to_thread(work), timeout=5)

    helper = threading.Thread(target=release)
    helper.start()
    with FakeClock(NOON, skip=True) as clock:
        assert asyncio.run(AsyncRunner().run(Graph([FunctionNode(wait, "wait", "x")])))["x"] == 1
        assert clock.time == NOON
    helper.join()


def test_a_loop_that_was_under_way_is_freed_at_the_end_of_the_block() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        with FakeClock(NOON, skip=True) as clock:
            await AsyncRunner().run(Graph([FunctionNode(_nap, "nap", "x")]), seconds=3600.0)
            assert clock.time == NOON + timedelta(hours=1)
        assert not {"time", "run_in_executor"} & vars(loop).keys()
        await asyncio.sleep(0)

    asyncio.run(main())


def test_a_loop_of_another_kind_is_refused() -> None:
    with FakeClock(skip=True) as clock, pytest.raises(RuntimeError, match="needs an event loop of asyncio"):
        clock._adopt(object())


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


@pytest.mark.parametrize(
    ("start", "error", "text"),
    [
        (datetime(2026, 1, 31), ValueError, "needs a time zone"),
        (date(2026, 1, 31), TypeError, "takes a datetime"),
        ("2026-01-31", TypeError, "takes a datetime"),
    ],
)
def test_a_start_that_is_no_moment_is_refused(start: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        FakeClock(start)


@pytest.mark.parametrize("span", ["2d", None, True])
def test_a_clock_moves_by_seconds_or_a_timedelta(span: Any) -> None:
    with pytest.raises(TypeError, match="moves by a timedelta or a number of seconds"):
        FakeClock(tick=span)
    with pytest.raises(TypeError, match="moves by a timedelta or a number of seconds"):
        FakeClock(NOON).jump(span)


def test_a_clock_is_refused_while_another_thread_has_one() -> None:
    def enter() -> None:
        with FakeClock(NOON):
            pass

    with ThreadPoolExecutor(1) as pool:
        with FakeClock(NOON), pytest.raises(RuntimeError, match="another thread has entered one"):
            pool.submit(enter).result()
        pool.submit(enter).result()
        enter()


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


@pytest.mark.parametrize("kinds", [(), ("NodeEndEvent",)])
def test_the_recording_processor_is_asked_for_classes(kinds: Any) -> None:
    with pytest.raises(TypeError, match="takes classes of events"):
        RecordingProcessor().of(*kinds)


def test_a_conformance_class_must_say_how_its_store_is_made(tmp_path: Path) -> None:
    with pytest.raises(NotImplementedError, match="make_store"):
        CheckpointerConformance().make_store(tmp_path)


def test_the_names_are_these_and_no_other() -> None:
    assert sorted(testing.__all__) == [
        "CheckpointerConformance",
        "Deviation",
        "FakeClock",
        "NotRecordedError",
        "RecordingProcessor",
        "ReplayReport",
        "Replayed",
        "SimulatedRun",
        "SimulationError",
        "SimulationReport",
        "VariantComparison",
        "VariantRun",
        "compare_variants",
        "recorded",
        "replay",
        "simulate",
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
