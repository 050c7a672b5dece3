"""Durable runs of random graphs: interrupted anywhere and taken up again, they do what they would have done."""

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
from durable import STORES, Fuse
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from random_graphs import LIMIT, Case, random_case
from reference import Sketch, graph_of, number_of
from running import OnAsync, OnSync

from hypergraph import Graph, RunResult
from hypergraph.checkpointers import Checkpointer, MemoryCheckpointer, SqliteCheckpointer, StepStatus

pytestmark = pytest.mark.slow
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
    numbers = replace(
        case,
        given={name: number_of(value) for name, value in case.given.items()},
        bound={name: number_of(value) for name, value in case.bound.items()},
    )
    return numbers


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
        assert sorted(steps_of(store, "w"), key=str) == sorted(steps, key=str)
        if runner == "sync":  # async siblings of an interrupted body are cancelled without a row
            assert fuse.finished == Counter(name for _, name, _ in steps)


@given(seeds, fuses)
@settings(max_examples=600)
def test_an_interrupted_run_goes_on_as_if_nothing_had_happened(seed: int, at: frozenset[int]) -> None:
    check_interrupted(seed, at, "memory", "sync")


@given(seeds, fuses)
@settings(max_examples=200)
def test_an_interrupted_async_run_goes_on_as_if_nothing_had_happened(seed: int, at: frozenset[int]) -> None:
    check_interrupted(seed, at, "memory", "async")


@given(seeds, fuses)
@settings(max_examples=60)
def test_a_run_interrupted_over_a_database_goes_on_as_if_nothing_had_happened(
    seed: int, at: frozenset[int]
) -> None:
    check_interrupted(seed, at, "sqlite", "sync")
