"""Whether a store stays as fast when it fills: questions to a large file, against the same to a small one.

python -m benchmarks.stores
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.engine import Bar, chain_of, plus_one
from benchmarks.measure import Case, bytes_of_file, measure
from hypergraph import END, Graph, SyncRunner, node, route
from hypergraph.checkpointers import SqliteCheckpointer, StepRecord, StepStatus, WorkflowStatus
from hypergraph.checkpointers.records import NewWorkflow

SMALL, LARGE = 1_000, 100_000
PAGE = 50
_COMMIT = 1_000  # steps
_RUNS = 10
_RESUMES = 5


def loop_of(path: Path, length: int) -> SqliteCheckpointer:
    """Return a store with the workflow "loop": a node that counts, and the gate that lets it go on."""
    store = SqliteCheckpointer(path)
    claim = store.backend.claim("loop", NewWorkflow(graph_name="loop"), store.encoding)
    store.backend.write(store.encoding.commit(claim, inputs={"n": (1, 0)}))
    for start in range(0, length, _COMMIT):
        indexes = range(start, min(start + _COMMIT, length))
        store.backend.write(
            store.encoding.commit(claim, [store.encoding.encode(_step_of_a_loop(index)) for index in indexes])
        )
    store.backend.release(claim)
    return store


def _step_of_a_loop(index: int) -> StepRecord:
    version = index // 2 + 1
    facts: dict[str, Any] = {"decision": "count"}
    if index % 2 == 0:
        facts = {"values": {"n": version + 1}, "output_versions": {"n": version + 1}}
    name = "enough" if index % 2 else "count"
    return StepRecord("loop", index, name, index, StepStatus.COMPLETED, {"n": version}, **facts)


def workflows_of(path: Path, count: int) -> SqliteCheckpointer:
    """Return a store with so many workflows of three graphs; every tenth one failed."""
    store = SqliteCheckpointer(path)
    for number in range(count):
        workflow_id = f"w{number}"
        store.create_workflow(workflow_id, graph_name=f"graph {number % 3}")
        if number % 10 == 0:
            store.update_workflow_status(workflow_id, WorkflowStatus.FAILED)
    return store


def bytes_of_chain(path: Path, length: int) -> int:
    """Return what a few runs of a chain add to an empty file; of one, half-filled pages would be too much."""
    store = SqliteCheckpointer(path)
    store.open()
    empty = bytes_of_file(path)
    runner, graph = SyncRunner(checkpointer=store), chain_of(length, plus_one)
    for _ in range(_RUNS):
        runner.run(graph, {"v0": 0})
    store.close()
    return bytes_of_file(path) - empty


LISTS: dict[str, dict[str, Any]] = {
    "": {},
    " with a status": {"status": "failed"},
    " with one of two statuses": {"status": ["failed", "active"]},
    " of a graph": {"graph": "graph 1"},
}


def store_bars() -> list[Bar]:
    """Measure everything and return the bars."""
    with TemporaryDirectory() as folder:
        return [
            *_loop_bars(Path(folder)),
            *call_bars(Path(folder)),
            *_list_bars(Path(folder)),
            size_bar(Path(folder)),
        ]


def counting(rounds: int, failures: list[int]) -> Graph:
    """Return a loop of two steps a round, which fails once at each of these counts."""

    @node(output_name="n")
    def count(n: int) -> int:
        if n in failures:
            failures.remove(n)
            raise RuntimeError("once")
        return n + 1

    @route(targets=["count", END])
    def enough(n: int) -> Any:
        return END if n >= rounds else "count"

    return Graph([count, enough], name="counting")


def call_bars(folder: Path, small: int = SMALL, large: int = LARGE) -> list[Bar]:
    """Measure a call on a finished id, and the resume of a run whose last round has failed, by its length."""
    finished, resumed = [], []
    for steps in (small, large):
        rounds, failures = steps // 2, []
        runner = SyncRunner(checkpointer=SqliteCheckpointer(folder / f"calls{steps}.db"))
        graph = counting(rounds, failures)
        options: dict[str, Any] = {"max_iterations": steps}
        runner.run(graph, n=0, workflow_id="finished", **options)
        finished.append(_called(runner, graph, "finished"))
        failures += [rounds - 1] * (_RESUMES + 1)
        runner.run(graph, n=0, workflow_id="failed", error_handling="continue", **options)
        resume = _called(runner, graph, "failed", error_handling="continue", **options)
        resumed.append(min(_seconds(resume) for _ in range(_RESUMES)))
    cases = [Case(str(place), call) for place, call in enumerate(finished)]
    measure(cases, rounds=20)
    return [
        Bar(
            f"call on a finished id of {large:,} steps, in ms",
            cases[1].nanoseconds / 1e6,
            5,
            cases[1].nanoseconds,
        ),
        Bar(f"resume of {large:,} steps, against {small:,}", resumed[1] / resumed[0], 3, resumed[1] * 1e9),
    ]


def _called(runner: SyncRunner, graph: Graph, workflow_id: str, **more: Any) -> Callable[[], Any]:
    return lambda: runner.run(graph, workflow_id=workflow_id, **more)


def _seconds(call: Callable[[], Any]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def _loop_bars(folder: Path) -> list[Bar]:
    small, large = (loop_of(folder / f"loop{length}.db", length) for length in (SMALL, LARGE))
    return [
        _compared(
            f"state in the middle of {LARGE:,} steps, against {SMALL:,}",
            3,
            lambda: small.state("loop", superstep=SMALL // 2),
            lambda: large.state("loop", superstep=LARGE // 2),
        ),
        _compared(
            f"the first steps of {LARGE:,}, against {SMALL:,}",
            3,
            lambda: small.steps("loop", superstep=9),
            lambda: large.steps("loop", superstep=9),
        ),
        _compared(
            f"a workflow of {LARGE:,} steps, against {SMALL:,}",
            3,
            lambda: small.workflow("loop"),
            lambda: large.workflow("loop"),
        ),
    ]


def _list_bars(folder: Path) -> list[Bar]:
    small, large = (workflows_of(folder / f"list{count}.db", count) for count in (SMALL, LARGE))
    return [
        _compared(
            f"list of {PAGE}{what} of {LARGE:,}, against {SMALL:,}",
            2,
            _listing(small, filters),
            _listing(large, filters),
        )
        for what, filters in LISTS.items()
    ]


def _listing(store: SqliteCheckpointer, filters: dict[str, Any]) -> Callable[[], Any]:
    return lambda: store.workflows(limit=PAGE, **filters)


def _compared(name: str, limit: float, small: Callable[[], Any], large: Callable[[], Any]) -> Bar:
    cases = Case("small", small), Case("large", large)
    measure(list(cases), rounds=20)
    return Bar(name, cases[1].best / cases[0].best, limit, cases[1].nanoseconds)


def size_bar(folder: Path) -> Bar:
    """Measure what a longer run takes up: a little more per step, because names and numbers get longer."""
    small, large = (bytes_of_chain(folder / f"chain{length}.db", length) for length in (100, 1_000))
    return Bar("bytes of a chain of 1,000, in chains of 100", large / small, 11.5)


if __name__ == "__main__":
    for bar in store_bars():
        print(bar)
