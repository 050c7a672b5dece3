"""Tests of stores under many threads and processes, and under any clock."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from hypergraph.checkpointers import Checkpointer, WorkflowStatus
from hypergraph.exceptions import WorkflowLockedError
from hypergraph.testing.clock import FakeClock
from hypergraph.testing.conformance.process import Another
from hypergraph.testing.conformance.samples import commit, opened, recorded, step

CENTURY = timedelta(days=36525)
CLOCKS: list[dict[str, Any]] = [{}, {"tick": -1.0}, {"tick": CENTURY / 100}]
any_clock = pytest.mark.parametrize("options", CLOCKS, ids=["frozen", "backwards", "a year a look"])


def at_once(*calls: Callable[[], Any]) -> list[Any]:
    """Make all calls in threads of their own that start together; return what each returned or raised."""
    start = threading.Barrier(len(calls))
    outcomes: list[Any] = [None] * len(calls)

    def work(position: int) -> None:
        start.wait()
        try:
            outcomes[position] = calls[position]()
        except Exception as error:
            outcomes[position] = error

    threads = [threading.Thread(target=work, args=(position,)) for position in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcomes


class ThreadTests:
    """Threads share a store."""

    def test_of_many_threads_one_gets_the_claim(self, store: Checkpointer) -> None:
        outcomes = at_once(*[partial(opened, store)] * 8)
        assert len([one for one in outcomes if isinstance(one, WorkflowLockedError)]) == 7

    def test_of_many_threads_that_record_one_step_one_does(self, store: Checkpointer) -> None:
        claim = opened(store)
        outcomes = at_once(*(partial(commit, store, claim, step(0, values={"x": n})) for n in range(8)))
        (winner,) = [number for number, one in enumerate(outcomes) if one is None]
        assert [found.values for found in store.steps("w")] == [{"x": winner}]

    def test_threads_that_write_different_workflows_do_not_disturb_each_other(
        self, store: Checkpointer
    ) -> None:
        def tell(name: str) -> None:
            claim = opened(store, name)
            for number in range(20):
                commit(store, claim, step(number, values={"x": [name, number]}, workflow_id=name))
            store.backend.write(store.encoding.commit(claim, status=WorkflowStatus.COMPLETED))
            store.backend.release(claim)

        names = [f"w{number}" for number in range(6)]
        assert at_once(*(partial(tell, name) for name in names)) == [None] * 6
        for name in names:
            assert [found.index for found in store.steps(name)] == list(range(20))
            assert store.state(name) == {"x": [name, 19]}

    def test_who_reads_meanwhile_sees_whole_commits(self, store: Checkpointer) -> None:
        claim, seen = opened(store), []

        def write() -> None:
            for number in range(0, 60, 2):
                pair = [step(number + i, f"n{i}", {f"v{i}": number}) for i in range(2)]
                commit(store, claim, *pair)

        def read() -> None:
            for _ in range(40):
                seen.append(len(store.steps("w")))
                state = store.state("w")
                assert state.get("v0") == state.get("v1")

        assert at_once(write, read, read) == [None] * 3
        assert [number for number in seen if number % 2] == []

    def test_a_fork_of_a_workflow_that_grows_is_a_whole_beginning_of_it(self, store: Checkpointer) -> None:
        claim = opened(store)

        def write() -> None:
            for number in range(50):
                commit(store, claim, step(number, values={"x": number}))

        def fork() -> None:
            for number in range(5):
                store.backend.release(opened(store, f"fork-{number}", forked_from="w", copies=True))

        assert at_once(write, fork) == [None] * 2
        for number in range(5):
            found = store.steps(f"fork-{number}")
            assert [record.values for record in found] == [{"x": n} for n in range(len(found))]

    def test_deleting_and_writing_at_once_leave_all_or_nothing(self, store: Checkpointer) -> None:
        def erase(name: str) -> None:
            try:
                store.backend.delete([name])
            except WorkflowLockedError:
                pass  # it came while the other one was at work

        for number in range(10):
            name = f"w{number}"
            record = step(0, values={"x": 1}, workflow_id=name)
            at_once(partial(recorded, store, record, workflow_id=name), partial(erase, name))
            is_there = store.backend.read_workflow(name) is not None
            assert len(list(store.backend.read_steps(name, store.encoding))) == int(is_there)


class ProcessTests:
    """Processes share the data of a store."""

    def test_of_processes_that_race_for_a_workflow_one_wins(self, other: Callable[[], Another]) -> None:
        racers = [other() for _ in range(3)]
        for number in range(15):
            for racer in racers:
                racer.say(f"claim w{number}")
            assert sorted(racer.hear() for racer in racers) == ["WorkflowLockedError"] * 2 + ["done"]

    def test_processes_that_write_at_once_lose_nothing(
        self, store: Checkpointer, other: Callable[[], Another]
    ) -> None:
        writers = {name: other() for name in ("a", "b", "c")}
        for name, writer in writers.items():
            assert writer.ask(f"claim {name}") == "done"
        for writer in writers.values():
            writer.say("steps 30")
        for name, writer in writers.items():
            assert [writer.hear() for _ in range(31)] == [*map(str, range(30)), "done"]
            assert [found.superstep for found in store.steps(name)] == list(range(30))


class ClockTests:
    """Nothing but display and pruning goes by the clock."""

    @any_clock
    def test_order_does_not_come_from_the_clock(self, store: Checkpointer, options: dict[str, Any]) -> None:
        with FakeClock(**options):
            for name in ("first", "second", "third"):
                records = [step(n, values={"x": n}, workflow_id=name) for n in range(3)]
                recorded(store, *records, workflow_id=name)
            assert [found.id for found in store.workflows()] == ["third", "second", "first"]
            assert [found.superstep for found in store.steps("second")] == [0, 1, 2]
            assert store.state("second") == {"x": 2}

    @any_clock
    def test_ownership_does_not_expire(self, store: Checkpointer, options: dict[str, Any]) -> None:
        with FakeClock(**options) as clock:
            claim = opened(store)
            clock.jump(CENTURY)
            with pytest.raises(WorkflowLockedError):
                opened(store)
            clock.jump(-2 * CENTURY)
            with pytest.raises(WorkflowLockedError):
                opened(store)
            commit(store, claim, step(0, values={"x": 1}), status=WorkflowStatus.COMPLETED)
            store.backend.release(claim)
            assert opened(store).fence > claim.fence

    def test_prune_goes_by_the_clock(self, store: Checkpointer) -> None:
        with FakeClock() as clock:
            recorded(store)
            ended = store.workflow("w").completed_at
            assert ended is not None
            assert abs(ended - clock.time) < timedelta(milliseconds=1)
            clock.jump(timedelta(hours=23))
            assert store.prune("1d") == []
            clock.jump(-CENTURY)
            assert store.prune("1d") == []
            clock.jump(2 * CENTURY)
            assert store.prune("1d") == ["w"]
