"""Calls that wait for a worker: that is no part of timeouts and durations, and early items end first."""

from __future__ import annotations

import gc
import multiprocessing
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from hypergraph import FunctionNode, Graph, RunStatus, SyncRunner
from hypergraph.checkpointers import MemoryCheckpointer
from hypergraph.testing import FakeClock


class Busy:
    """A pool of one thread that is busy until it is asked for something, and an hour longer."""

    def __init__(self) -> None:
        self.clock = FakeClock(skip=True)
        self.pool = ThreadPoolExecutor(1)
        self._asked = threading.Event()
        self.pool.submit(self._wait)
        submit = self.pool.submit

        def asked(*given: Any, **more: Any) -> Any:
            future = submit(*given, **more)
            self._asked.set()
            return future

        self.pool.submit = asked  # type: ignore[method-assign]

    def _wait(self) -> None:
        assert self._asked.wait(60)
        self.clock.jump(3600)


@pytest.fixture
def busy() -> Iterator[Busy]:
    made = Busy()
    with made.clock, made.pool:
        yield made


def test_a_call_that_waits_for_a_thread_does_not_time_out(busy: Busy) -> None:
    graph = Graph([FunctionNode(lambda x: x, "one", "y", timeout=60)], name="g")
    result = SyncRunner(executor=busy.pool).run(graph, x=1, error_handling="continue")
    assert result.status is RunStatus.COMPLETED
    assert result.log.steps[0].duration_ms == 0


def test_a_call_that_began_times_out(busy: Busy) -> None:
    graph = Graph([FunctionNode(lambda x: busy.clock.jump(3600), "one", "y", timeout=60)], name="g")
    result = SyncRunner(executor=busy.pool).run(graph, x=1, error_handling="continue")
    assert type(result.error).__name__ == "NodeTimeoutError"


def slow(x: int) -> int:
    time.sleep(0.1)
    return x


@pytest.mark.slow
def test_calls_that_wait_for_a_process_do_not_time_out() -> None:
    graph = Graph([FunctionNode(slow, "slow", "y", timeout=60)], name="g")
    with ProcessPoolExecutor(1) as pool:
        pool.submit(slow, 0).result()  # the first call starts the process
        began = time.perf_counter()
        found = SyncRunner(executor=pool).map(graph, x=list(range(8)), map_over="x")
        spent = 1000 * (time.perf_counter() - began)
    assert found["y"] == list(range(8))
    assert found.log.node_stats["slow"].total_ms < 2 * spent  # one after another; with the waits 4.5 times


def note(x: int, path: str) -> int:
    Path(path).touch()
    return x


def late(x: int) -> int:
    time.sleep(30 if x else 0)
    return x


def cold(seconds: float) -> ProcessPoolExecutor:
    """Return a pool whose process takes so long to start."""
    context = multiprocessing.get_context("fork")
    return ProcessPoolExecutor(1, mp_context=context, initializer=time.sleep, initargs=(seconds,))


def test_the_start_of_a_process_is_no_part_of_a_timeout(tmp_path: Path) -> None:
    graph = Graph([FunctionNode(note, "note", "y", timeout=0.5)], name="g")
    with cold(1.2) as pool:
        result = SyncRunner(executor=pool).run(graph, x=1, path=str(tmp_path / "called"))
    assert result["y"] == 1
    assert result.log.steps[0].duration_ms < 500


def test_a_call_in_a_process_that_began_times_out() -> None:
    graph = Graph([FunctionNode(late, "late", "y", timeout=0.2)], name="g")
    with cold(0.5) as pool:
        began = time.perf_counter()
        result = SyncRunner(executor=pool).run(graph, x=1, error_handling="continue")
        spent = time.perf_counter() - began
        (process,) = pool._processes.values()
        process.kill()  # else the end of the pool waits for the call
    assert type(result.error).__name__ == "NodeTimeoutError"
    assert spent < 20


@pytest.mark.parametrize("repeatable", [True, False])
def test_a_call_that_was_given_up_before_it_began_does_not_run(tmp_path: Path, repeatable: bool) -> None:
    called, store = tmp_path / "called", MemoryCheckpointer()
    graph = Graph([FunctionNode(note, "note", "y", repeatable=repeatable)], name="g")
    with cold(1.0) as pool:
        runner = SyncRunner(checkpointer=store, executor=pool)
        given = {"x": 1, "path": str(called)}
        result = runner.run(graph, given, workflow_id="w", timeout=0.2, error_handling="continue")
        assert result.status is not RunStatus.COMPLETED
    assert not called.exists()
    assert SyncRunner(checkpointer=store).run(graph, workflow_id="w")["y"] == 1  # it is not ambiguous


def test_no_marks_of_calls_are_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    graph = Graph([FunctionNode(slow, "slow", "y")], name="g")
    with ProcessPoolExecutor(1) as pool:
        assert SyncRunner(executor=pool).map(graph, x=[1, 2], map_over="x")["y"] == [1, 2]
    gc.collect()
    assert list(tmp_path.iterdir()) == []


def test_an_item_does_not_count_its_wait_for_a_worker() -> None:
    inner = Graph([FunctionNode(slow, "slow", "y")], name="inner")
    graph = Graph([inner.as_node(), FunctionNode(slow, "slower", "z").with_inputs(x="y")], name="g")
    store = MemoryCheckpointer()
    with ThreadPoolExecutor(1) as pool:
        runner = SyncRunner(checkpointer=store, executor=pool)
        found = runner.map(graph, x=[1, 2, 3, 4, 5], map_over="x", workflow_id="w")
    times = [item.log.total_duration_ms for item in found]
    assert min(times) >= 200
    assert sum(times) < 2 * found.total_duration_ms  # one after another; with the waits 3 times
    stored = [store.workflow(f"w/item-{number}").duration_ms or 0.0 for number in range(5)]
    assert sum(stored) < 2 * found.total_duration_ms


def test_earlier_items_are_finished_first() -> None:
    calls: list[str] = []

    def one(x: int) -> int:
        calls.append(f"a{x}")
        return x

    def two(a: int) -> int:
        calls.append(f"b{a}")
        return a

    graph = Graph([FunctionNode(one, "one", "a"), FunctionNode(two, "two", "b")], name="g")
    with ThreadPoolExecutor(1) as pool:
        SyncRunner(executor=pool).map(graph, x=list(range(20)), map_over="x")
    assert calls.index("b0") < calls.index("a9")
    assert calls.index("b9") < calls.index("a19")


def test_missing_support_for_pickling_is_told_before_the_first_item(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    graph = Graph([FunctionNode(slow, "slow", "y")], name="g")
    with ProcessPoolExecutor(1) as pool, pytest.raises(ImportError, match="pip install cloudpickle"):
        SyncRunner(executor=pool).map(graph, x=[1, 2], map_over="x", error_handling="continue")
