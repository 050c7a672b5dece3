"""Calls that wait for a worker: that is no part of timeouts and durations, and early items end first."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from typing import Any

import pytest

from hypergraph import FunctionNode, Graph, RunStatus, SyncRunner
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
