"""Durable runs of random graphs: interrupted anywhere and taken up again, they do the same."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from support.durable import STORES, Fuse
from support.random_graphs import LIMIT, UNDONE, Case, random_case
from support.reference import Sketch, graph_of, number_of
from support.running import OnAsync, OnSync

from hypergraph import Graph, RunResult
from hypergraph.checkpointers import Checkpointer, MemoryCheckpointer, SqliteCheckpointer, StepStatus

pytestmark = [pytest.mark.slow, UNDONE]
seeds = st.integers(0, 2**32)
ON = {"sync": OnSync, "async": OnAsync}


@dataclass(frozen=True)
class Fused(Sketch):
    """A sketch whose body counts, and may fail."""

    fuse: Fuse = field(default_factory=Fuse)

    def call(self, given: Mapping[str, Any]) -> Any:
        return self.fuse.run(self.name, lambda: Sketch.call(self, given))


def fused(case: Case, fuse: Fuse) -> Graph:
    """Return the graph of a case with bodies that count; all its values are numbers."""
    sketches = []
    for sketch in case.sketches:
        facts = {name: getattr(sketch, name) for name in Sketch.__dataclass_fields__}
        facts["defaults"] = {name: number_of(value) for name, value in sketch.defaults.items()}
        sketches.append(Fused(**facts, fuse=fuse))
    made = replace(case, sketches=tuple(sketches), graph=graph_of(sketches, case.edges))
    return made.ready_graph()


def durable_case(seed: int) -> Case:
    """Return a case with numbers only, that comes to an end by itself."""
    case = random_case(Random(seed), ("sum",))
    assume(case is not None)
    assert case is not None
    return replace(
        case,
        given={name: number_of(value) for name, value in case.given.items()},
        bound={name: number_of(value) for name, value in case.bound.items()},
    )


@contextmanager
def made_store(kind: str) -> Iterator[Checkpointer]:
    if kind == "memory":
        yield MemoryCheckpointer()
        return
    with tempfile.TemporaryDirectory() as folder:
        yield SqliteCheckpointer(Path(folder) / "runs.db")


def steps_of(store: Checkpointer, workflow_id: str) -> list[tuple[int, str, Any]]:
    """Return the completed steps as superstep, node and decision."""
    found = store.steps(workflow_id)
    return [(s.superstep, s.node_name, s.decision) for s in found if s.status is StepStatus.COMPLETED]


def calls_in(steps: list[tuple[int, str, Any]]) -> list[tuple[int, str, Any]]:
    """Return supersteps, nodes and decisions, in the order of supersteps."""
    return sorted(steps, key=str)


def uninterrupted(case: Case, on: type) -> tuple[RunResult, list[tuple[int, str, Any]]]:
    store = MemoryCheckpointer()
    result = on(checkpointer=store).run(
        fused(case, Fuse()), case.inputs(), workflow_id="w", max_iterations=LIMIT, error_handling="continue"
    )
    assume(result.error is None)
    return result, steps_of(store, "w")


def run_to_the_end(graph: Graph, case: Case, runner: Any, error: type[BaseException]) -> RunResult:
    for attempt in range(30):
        try:
            return runner.run(graph, case.inputs() if attempt % 2 == 0 else None, workflow_id="w")
        except error:
            pass
    raise AssertionError("the run never came to its end")


fuses = st.frozensets(st.integers(1, 14), min_size=1, max_size=4)


def check_interrupted(seed: int, at: frozenset[int], kind: str, runner: str) -> None:
    case = durable_case(seed)
    expected, steps = uninterrupted(case, ON[runner])
    fuse = Fuse(at=at, error=KeyboardInterrupt)
    graph = fused(case, fuse)
    with made_store(kind) as store:
        result = run_to_the_end(graph, case, ON[runner](checkpointer=store), KeyboardInterrupt)
        assert result.values == expected.values
        assert calls_in(steps_of(store, "w")) == calls_in(steps)
        if runner == "sync":  # async siblings of an interrupted body are cancelled without a row
            assert fuse.finished == Counter(name for _, name, _ in steps)


@given(seeds, fuses)
@settings(max_examples=50)
def test_an_interrupted_run_goes_on_as_if_nothing_had_happened(seed: int, at: frozenset[int]) -> None:
    check_interrupted(seed, at, "memory", "sync")


@given(seeds, fuses)
@settings(max_examples=30)
def test_an_interrupted_async_run_goes_on_as_if_nothing_had_happened(seed: int, at: frozenset[int]) -> None:
    check_interrupted(seed, at, "memory", "async")


@given(seeds, fuses)
@settings(max_examples=30)
def test_a_run_interrupted_over_a_database_goes_on_as_if_nothing_had_happened(
    seed: int, at: frozenset[int]
) -> None:
    check_interrupted(seed, at, "sqlite", "sync")


# -- failures -------------------------------------------------------------------------------------------


@given(seeds, fuses, st.sampled_from(STORES), st.sampled_from(["sync", "async"]))
@settings(max_examples=30)
def test_a_failed_run_is_repeated_until_it_completes_without_repeating_bodies(
    seed: int, at: frozenset[int], kind: str, runner: str
) -> None:
    case = durable_case(seed)
    expected, steps = uninterrupted(case, ON[runner])
    fuse = Fuse(at=at)
    graph = fused(case, fuse)
    with made_store(kind) as store:
        result = run_to_the_end(graph, case, ON[runner](checkpointer=store), OSError)
        assert result.values == expected.values
        assert fuse.finished == Counter(name for _, name, _ in steps)
        assert fuse.finished == Counter(name for _, name, _ in steps_of(store, "w"))


@given(seeds, fuses)
@settings(max_examples=45)
def test_every_completed_body_is_recorded_once_even_if_loops_fail(seed: int, at: frozenset[int]) -> None:
    case = durable_case(seed)
    uninterrupted(case, OnSync)
    fuse, store = Fuse(at=at), MemoryCheckpointer()
    graph = fused(case, fuse)
    runner = OnSync(checkpointer=store)
    for _ in range(30):
        result = runner.run(
            graph, case.inputs(), workflow_id="w", max_iterations=LIMIT, error_handling="continue"
        )
        if not isinstance(result.error, OSError):
            break
    found = steps_of(store, "w")
    assert fuse.finished == Counter(name for _, name, _ in found)
    assert len({(superstep, name) for superstep, name, _ in found}) == len(found)


# -- looking back, and forks ----------------------------------------------------------------------------


@given(seeds, st.integers(0, 8), st.sampled_from(STORES), st.sampled_from(["sync", "async"]))
@settings(max_examples=30)
def test_a_fork_shares_the_steps_before_it_and_leaves_its_parent_alone(
    seed: int, superstep: int, kind: str, runner: str
) -> None:
    case = durable_case(seed)
    expected, steps = uninterrupted(case, ON[runner])
    fuse = Fuse()
    graph = fused(case, fuse)
    with made_store(kind) as store:
        on = ON[runner](checkpointer=store)
        on.run(graph, case.inputs(), workflow_id="w")
        before = [step.to_dict() for step in store.steps("w")]
        fuse.finished.clear()
        point = store.checkpoint("w", superstep=superstep)
        assume(point.steps)
        result = on.run(graph, point.values, history=point.steps, workflow_id="fork")
        assert result.values == expected.values
        assert steps_of(store, "fork") == steps
        assert [step.to_dict() for step in store.steps("w")] == before
        shared = [(s.index, s.superstep, s.node_name, s.values) for s in store.steps("fork")]
        assert shared[: len(point.steps)] == [
            (s.index, s.superstep, s.node_name, s.values) for s in point.steps
        ]
        later = Counter(name for number, name, _ in steps if number > superstep)
        assert fuse.finished == later


@given(seeds, st.sampled_from(STORES), st.sampled_from(["sync", "async"]))
@settings(max_examples=40)
def test_the_state_at_a_superstep_is_the_fold_of_the_steps_up_to_it(
    seed: int, kind: str, runner: str
) -> None:
    case = durable_case(seed)
    with made_store(kind) as store:
        ON[runner](checkpointer=store).run(
            fused(case, Fuse()),
            case.inputs(),
            workflow_id="w",
            max_iterations=LIMIT,
            error_handling="continue",
        )
        state: dict[str, Any] = {}
        records = store.steps("w")
        for superstep in range(max((r.superstep for r in records), default=-1) + 1):
            for record in records:
                if record.superstep == superstep and record.status is StepStatus.COMPLETED:
                    state.update(record.values or {})
            assert store.state("w", superstep=superstep) == state
        assert store.state("w") == state
