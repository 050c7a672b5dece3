"""Summaries of long histories: a resume from one is a resume from all steps."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from laws.trials import tried

from hypergraph import END, AsyncRunner, Graph, SyncRunner, interrupt, node, route
from hypergraph.checkpointers import Checkpointer, MemoryCheckpointer, SqliteCheckpointer
from hypergraph.checkpointers.sql import reads
from hypergraph.checkpointers.sql.transfer import copy_store
from hypergraph.durability import recorder, resume, summaries
from hypergraph.durability.history import Replay, Stored, grown, stored_in
from hypergraph.engine.run import Run

Facts = dict[str, Any]


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have summaries written after every superstep, and read whenever there is one."""
    monkeypatch.setattr(summaries, "EVERY", 1)
    monkeypatch.setattr(summaries, "_LEAST", 1)


def place(record: Any) -> Any:
    return (record.superstep, record.node_name) if hasattr(record, "superstep") else record


def facts(run: Run, stored: Stored) -> Facts:
    """Return all that a resume takes from a history."""
    stored.records = grown(stored, run.admission.graph)
    replay = Replay(run.admission, stored)
    replay.run(stored.turns)
    begun = replay.begun_at()
    current = [record for record in stored.records if record.superstep >= begun]
    return {
        "standing": replay.standing.key(),
        "layout": (replay.standing.layout.given, replay.standing.layout.remembered),
        "due": replay.standing.due,
        "ran": replay.standing.ran,
        "partial": replay.standing.partial,
        "levels": replay.levels.to_data(),
        "versions": replay.versions,
        "visits": replay.visits,
        "sources": {name: place(record) for name, record in replay.sources.items()},
        "withheld": {index: siblings for index, (_, siblings) in replay.past.withheld.items()},
        "given": replay.given,
        "first": (replay.first, begun, summaries.shift_of(stored, begun)),
        "last": max((record.superstep for record in stored.records), default=-1),
        "next": max((record.index for record in stored.records), default=-1),
        "failed": {r.node_name for r in {r.node_name: r for r in current}.values() if r.error_type},
        "finished": stored.finished,
        "outputs": stored.outputs,
        "reached": summaries.reached_at(stored, run.admission),
        "waiting": [place(record) for record in stored.waiting],
        "asked": stored.asked,
        "gaps": resume._has_gaps(stored),
        "next versions": stored.news(dict.fromkeys(stored.outputs), again=stored.outputs),
        "active": round(stored.active_time(), 3),
    }


class Comparison:
    """Compare each resume from a summary with one from all steps."""

    def __init__(self) -> None:
        self.compared = 0

    def __call__(self, run: Run, stored: Stored, *more: Any) -> Any:
        store = more[-1]
        if stored.summary is not None and summaries.fits(stored, run.admission):
            graph = run.admission.graph
            short = stored_in(store, stored.workflow.id, graph)
            whole = stored_in(store, stored.workflow.id, graph, summaries=False)
            assert short is not None
            assert whole is not None
            assert whole.summary is None
            if short.summary is not None and not whole.first:
                assert facts(run, short) == facts(run, whole)
                self.compared += 1
        return take_up(run, stored, *more)


take_up = resume.take_up


@pytest.fixture
def comparison(eager: None, monkeypatch: pytest.MonkeyPatch) -> Comparison:
    found = Comparison()
    monkeypatch.setattr(resume, "take_up", found)
    monkeypatch.setattr(recorder, "take_up", found)
    return found


@pytest.mark.parametrize("first", range(0, 12, 4))
def test_random_graphs_resume_from_a_summary_as_from_all_steps(first: int, comparison: Comparison) -> None:
    for seed in range(first, first + 4):
        tried(seed, calls=2)
    assert comparison.compared


# -- long loops -------------------------------------------------------------------------------------------


def loop(fail_at: int | None = None, times: int = 1) -> Graph:
    """Return a loop that counts and remembers; one call of it may fail, once or more often."""
    left = [] if fail_at is None else [fail_at] * times

    @node(output_name="n")
    def count(n: int) -> int:
        if n in left:
            left.pop()
            raise RuntimeError("once")
        return n + 1

    @node(output_name="log", append=True)
    def remember(n: int) -> int:
        return n

    @route(targets=["count", END])
    def again(n: int, rounds: int) -> Any:
        return END if n >= rounds else "count"

    return Graph([count, remember, again], name="loop")


def plain_loop(fail_at: int | None = None, times: int = 1) -> Graph:
    """Return the loop without its list, the state of which is the same after every round."""
    return Graph([loop(fail_at, times).nodes[name] for name in ("count", "again")], name="loop")


class Reads:
    """Count what is read of steps, and the statements."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.steps = 0
        self.monkeypatch = monkeypatch

    def __enter__(self) -> Reads:
        record_of = reads.record_of

        def counted(*given: Any, **more: Any) -> Any:
            self.steps += 1
            return record_of(*given, **more)

        self.steps = 0
        self.monkeypatch.setattr(reads, "record_of", counted)
        return self

    def __exit__(self, *error: object) -> None:
        self.monkeypatch.undo()


@pytest.fixture
def store(tmp_path: Path) -> Checkpointer:
    return SqliteCheckpointer(tmp_path / "runs.db")


def run(store: Checkpointer, graph: Graph, rounds: int, **more: Any) -> Any:
    runner = SyncRunner(checkpointer=store, max_iterations=10**6)
    return runner.run(graph, {"n": 0, "rounds": rounds}, workflow_id="w", **more)


def test_the_call_on_a_finished_id_reads_no_more_after_several_times_as_many_steps(
    store: Checkpointer, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = []
    for rounds in (150, 600):
        run(store, plain_loop(), rounds)
        with Reads(monkeypatch) as counted:
            result = run(store, plain_loop(), rounds)
            assert result["n"] == rounds
            assert result.completed
            read.append(counted.steps)
            assert len(result.log.steps) == 2 * rounds + 1
            assert counted.steps > 2 * rounds  # the log is read when it is looked at
        store.delete("w")
    assert read[0] == read[1] < 10


def test_a_resume_reads_no_more_after_several_times_as_many_steps(
    store: Checkpointer, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = []
    for rounds in (256, 1024):
        graph = plain_loop(fail_at=rounds - 1, times=2)
        assert run(store, graph, rounds, error_handling="continue").failed
        for fails in (True, False):
            with Reads(monkeypatch) as counted:
                assert run(store, graph, rounds, error_handling="continue").failed is fails
            read.append(counted.steps)
        assert store.state("w")["n"] == rounds
        store.delete("w")
    assert max(read) < 2 * summaries.EVERY


def test_a_turn_reads_no_more_after_many_that_reached_a_part_of_the_graph(
    store: Checkpointer, monkeypatch: pytest.MonkeyPatch
) -> None:
    @node(output_name="settings")
    def load(name: str) -> str:
        return name.upper()

    @node(output_name="answer")
    def answer(question: str, settings: str) -> str:
        return f"{settings} {question}"

    graph, runner = Graph([load, answer], name="chat"), SyncRunner(checkpointer=store)
    runner.run(graph, name="ann", question="", workflow_id="w")
    read = []
    for number in range(150):
        with Reads(monkeypatch) as counted:
            result = runner.run(graph, question=f"why {number}?", workflow_id="w")
        assert result["answer"] == f"ANN why {number}?"
        read.append(counted.steps)
    assert max(read) < 50


@pytest.mark.parametrize("make", [MemoryCheckpointer, SqliteCheckpointer])
@pytest.mark.parametrize("fail_at", [0, 11, 23])
def test_a_loop_that_failed_ends_as_one_that_did_not(
    make: Callable[..., Checkpointer], fail_at: int, tmp_path: Path, comparison: Comparison
) -> None:
    store = make() if make is MemoryCheckpointer else make(tmp_path / "runs.db")
    expected = SyncRunner().run(loop(), {"n": 0, "rounds": 24})
    graph = loop(fail_at)
    assert run(store, graph, 24, error_handling="continue").failed
    resumed = run(store, graph, 24)
    assert resumed.values == expected.values
    again = run(store, graph, 24)
    assert (again.values, again.status) == (resumed.values, resumed.status)
    shown = [(step.node_name, step.superstep) for step in again.log.steps]
    assert shown == [(step.node_name, step.superstep) for step in resumed.log.steps]
    assert comparison.compared
    store.close()


def test_a_turn_that_fails_in_its_first_step_is_not_begun_twice(
    store: Checkpointer, comparison: Comparison
) -> None:
    failing = [False]

    @node(output_name="a")
    def first(x: int) -> int:
        if failing[0]:
            raise RuntimeError("down")
        return x + 1

    @node(output_name="b")
    def second(a: int, y: int) -> int:
        return a + y

    @node(output_name="c")
    def other(y: int) -> int:
        return y

    graph, runner = Graph([first, second, other], name="turns"), SyncRunner(checkpointer=store)
    runner.run(graph, x=1, y=1, workflow_id="w")
    for x in range(2, 5):
        failing[0] = True
        assert runner.run(graph, x=x, workflow_id="w", error_handling="continue").failed
        failing[0] = False
        assert runner.run(graph, x=x, workflow_id="w")["b"] == x + 2
    assert comparison.compared


def test_a_question_beside_a_failure_is_answered_in_its_place(
    store: Checkpointer, comparison: Comparison
) -> None:
    failing = [True]

    @node(output_name="a")
    def work(x: int) -> int:
        if failing[0]:
            raise RuntimeError("down")
        return x + 1

    @interrupt(output_name="ok")
    def ask(x: int) -> bool | None:
        return None

    @node(output_name="b")
    def both(a: int, ok: bool) -> int:
        return a if ok else 0

    graph = Graph([work, ask, both], name="asks")
    runner = AsyncRunner(checkpointer=store)
    asyncio.run(runner.run(graph, x=1, workflow_id="w", error_handling="continue"))
    failing[0] = False
    for _ in range(2):
        assert asyncio.run(runner.run(graph, ok=True, workflow_id="w"))["b"] == 2
    assert asyncio.run(runner.run(graph, x=5, workflow_id="w")).pause is not None
    assert asyncio.run(runner.run(graph, ok=False, workflow_id="w"))["b"] == 0
    assert comparison.compared


def test_the_finished_call_gives_what_a_full_read_gives(store: Checkpointer, eager: None) -> None:
    run(store, loop(), 40)
    short = run(store, loop(), 40)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recorder, "stored_in", lambda *given: stored_in(*given, summaries=False))
        whole = run(store, loop(), 40)
    assert short.values == whole.values
    assert short.status is whole.status
    assert short.log.steps == whole.log.steps
    assert short.log.node_stats.keys() == whole.log.node_stats.keys()


def test_a_graph_that_has_changed_is_resumed_from_all_steps(store: Checkpointer, eager: None) -> None:
    run(store, loop(), 20)

    @node(output_name="double")
    def double(n: int) -> int:
        return 2 * n

    result = run(store, Graph([*loop().iter_nodes(), double], name="loop"), 20)
    assert result["double"] == 40
    assert result["n"] == 20


def test_a_step_that_is_put_into_the_history_drops_its_summary(store: Checkpointer, eager: None) -> None:
    run(store, loop(), 20)
    assert store.backend.read_summary("w") is not None
    store.save_step(store.steps("w")[0])
    assert store.backend.read_summary("w") is None
    assert run(store, loop(), 20)["n"] == 20


def test_a_damaged_summary_is_not_used(store: Checkpointer, eager: None) -> None:
    run(store, loop(), 20)
    store.backend.database.write(  # type: ignore[attr-defined]  # of a SQLite store
        lambda c: c.execute("UPDATE vals SET data = ? WHERE kind = 4", (b"{}",))
    )
    assert run(store, loop(), 20)["n"] == 20


def test_a_fork_and_an_export_leave_the_summary_behind(
    store: Checkpointer, tmp_path: Path, eager: None
) -> None:
    run(store, loop(), 20)
    runner = SyncRunner(checkpointer=store)
    assert runner.run(loop(), fork_from=("w", 10), workflow_id="fork")["n"] == 20
    with SqliteCheckpointer(tmp_path / "other.db") as other:
        copy_store(store, other, ids=["w"])
        assert other.backend.read_summary("w") is None
        assert run(other, loop(), 20)["n"] == 20


# -- nested graphs ----------------------------------------------------------------------------------------


class Flaky:
    """Calls of which each fails once, unless they are told not to."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.is_down = True

    def __call__(self, *call: Any) -> None:
        self.calls.append(call)
        if self.is_down and self.calls.count(call) == 1:
            raise RuntimeError("once")


def of_nested(flaky: Flaky, *, mapped: bool) -> Graph:
    @node(output_name="total")
    def grow(row: int, total: int = 0) -> int:
        flaky("grow", row, total)
        return total + row

    @route(targets=["grow", "show"])
    def more(total: int, row: int) -> str:
        return "grow" if total < 3 * row else "show"

    @node(output_name="shown")
    def show(total: int) -> str:
        flaky("show", total)
        return f"= {total}"

    inner = Graph([grow, more, show], name="inner").as_node()
    return Graph([inner.map_over("row") if mapped else inner], name="outer")


@pytest.mark.parametrize("mapped", [False, True])
def test_a_nested_graph_that_failed_continues_after_a_summary(
    store: Checkpointer, comparison: Comparison, mapped: bool
) -> None:
    flaky = Flaky()
    graph, runner = of_nested(flaky, mapped=mapped), SyncRunner(checkpointer=store)
    given, calls = ([1, 2] if mapped else 2), (8 if mapped else 4)
    for _ in range(calls):
        with pytest.raises(RuntimeError, match="once"):
            runner.run(graph, row=given, workflow_id="w")
    result = runner.run(graph, row=given, workflow_id="w")
    assert result["shown"] == (["= 3", "= 6"] if mapped else "= 6")
    assert [flaky.calls.count(call) for call in set(flaky.calls)] == [2] * calls
    assert comparison.compared


def test_a_nested_graph_that_a_turn_gave_up_begins_anew_after_a_summary(
    store: Checkpointer, comparison: Comparison
) -> None:
    flaky = Flaky()
    graph, runner = of_nested(flaky, mapped=False), SyncRunner(checkpointer=store)
    for row in (1, 2, 2):
        with pytest.raises(RuntimeError, match="once"):
            runner.run(graph, row=row, workflow_id="w")
    flaky.is_down = False
    assert runner.run(graph, row=2, workflow_id="w")["shown"] == "= 6"
    assert flaky.calls.count(("grow", 2, 0)) == 2
    children = [child for child in store.workflows(parent="w") if child.status.value == "completed"]
    assert [child.visit for child in children] == [2]
