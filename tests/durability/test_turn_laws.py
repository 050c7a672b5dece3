"""Turns of random graphs on one workflow: interrupted anywhere in any of them, they come to the same."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from support.durable import Fuse
from support.random_graphs import LIMIT, UNDONE, Case, random_case
from support.reference import number_of
from support.running import OnSync

from durability.test_laws import ON, calls_in, durable_case, fused, made_store, seeds, steps_of
from hypergraph.checkpointers import MemoryCheckpointer
from hypergraph.exceptions import WorkflowError

pytestmark = [pytest.mark.slow, UNDONE]
turns = st.lists(st.integers(0, 2**16), min_size=2, max_size=4)
fuses = st.frozensets(st.integers(1, 20), min_size=1, max_size=4)


def inputs_of(case: Case, salt: int) -> dict[str, Any]:
    """Return what a turn is given: the inputs of the case, some of them changed."""
    rng = Random(salt)
    found = dict(case.inputs())
    return {
        name: value + rng.choice([0, 1, 2]) if type(value) in (int, float) else value
        for name, value in found.items()
    }


def taken(case: Case, salts: list[int], on: Any, fuse: Fuse, *, again: Random, new_turn: bool) -> list[Any]:
    """Take the turns, each until it comes to its end; return their values and the completed steps."""
    graph, found = fused(case, fuse), []
    for salt in salts:
        given_now: Any = inputs_of(case, salt)
        options: dict[str, Any] = {"new_turn": new_turn and bool(given_now)}
        for _ in range(30):
            try:
                result = on.run(
                    graph,
                    given_now,
                    workflow_id="w",
                    max_iterations=LIMIT,
                    error_handling="continue",
                    **options,
                )
                break
            except KeyboardInterrupt:  # go on with the turn, not with another one
                given_now, options = again.choice([None, given_now]), {}
            except WorkflowError as refusal:  # a value that a node makes again first
                return [found, calls_in(steps_of(on.runner.checkpointer, "w")), str(refusal)]
        else:
            raise AssertionError("the turn never came to its end")
        assume(result.error is None)
        found.append(result.values)
    return [found, calls_in(steps_of(on.runner.checkpointer, "w"))]


def check(
    case: Case, salts: list[int], at: frozenset[int], *, kind: str, runner: str, new_turn: bool
) -> None:
    with made_store("memory") as store:
        on = ON[runner](checkpointer=store)
        expected = taken(case, salts, on, Fuse(), again=Random(0), new_turn=new_turn)
    with made_store(kind) as store:
        on, fuse = ON[runner](checkpointer=store), Fuse(at=at, error=KeyboardInterrupt)
        assert taken(case, salts, on, fuse, again=Random(0), new_turn=new_turn) == expected


def cases_that_remember_nothing(count: int) -> Iterator[Case]:
    """Yield cases with several inputs, none of which a node makes, and without accumulators."""
    for seed in range(count):
        case = random_case(Random(seed), ("sum",))
        if case is None or len(case.given) < 2:
            continue
        made = {name for sketch in case.sketches for name in sketch.outputs}
        own = [name for sketch in case.sketches for name in sketch.outputs if name in sketch.inputs]
        if not own and made.isdisjoint(case.given):
            numbers = {name: number_of(value) for name, value in case.given.items()}
            bound = {name: number_of(value) for name, value in case.bound.items()}
            yield replace(case, given=numbers, bound=bound)


def test_a_turn_comes_to_what_a_fresh_run_comes_to() -> None:
    options: dict[str, Any] = {"max_iterations": LIMIT, "error_handling": "continue"}
    tried = 0
    for case in cases_that_remember_nothing(2000):
        on, graph, rng = OnSync(checkpointer=MemoryCheckpointer()), fused(case, Fuse()), Random(tried)
        known = case.inputs()
        ended = on.run(graph, known, workflow_id="w", **options)
        for number in range(4):
            if ended.error is not None:
                break
            name = rng.choice(sorted(known))
            known[name] += rng.randrange(1, 5)
            ended = on.run(graph, {name: known[name]}, workflow_id="w", new_turn=True, **options)
            fresh = on.run(graph, known, workflow_id=f"fresh-{number}", **options)
            assert type(ended.error) is type(fresh.error)
            assert ended.error is not None or ended.values == fresh.values, (case, name, known)
            tried += 1
    assert tried > 500


@given(seed=seeds, salts=turns, at=fuses, new_turn=st.booleans())
@settings(max_examples=40)
@example(
    seed=2328684303, salts=[61888, 45930, 34270, 63786], at=frozenset({6, 7}), new_turn=False
)  # given what is there
@example(
    seed=1024741960, salts=[45911, 29663, 2316, 21718], at=frozenset({1, 4, 14}), new_turn=False
)  # a gate that ended
def test_interrupted_turns_come_to_the_same(
    seed: int, salts: list[int], at: frozenset[int], new_turn: bool
) -> None:
    check(durable_case(seed), salts, at, kind="memory", runner="sync", new_turn=new_turn)


@given(seed=seeds, salts=turns, at=fuses, new_turn=st.booleans())
@settings(max_examples=25)
@example(seed=2449017909, salts=[40309, 40453, 35107], at=frozenset({10}), new_turn=False)
def test_interrupted_turns_of_async_runs_come_to_the_same(
    seed: int, salts: list[int], at: frozenset[int], new_turn: bool
) -> None:
    check(durable_case(seed), salts, at, kind="memory", runner="async", new_turn=new_turn)


@given(seed=seeds, salts=turns, at=fuses, runner=st.sampled_from(["sync", "async"]), new_turn=st.booleans())
@settings(max_examples=20)
@example(seed=65536, salts=[39827, 0], at=frozenset({1}), runner="sync", new_turn=False)  # refused
def test_interrupted_turns_over_a_database_come_to_the_same(
    seed: int, salts: list[int], at: frozenset[int], runner: str, new_turn: bool
) -> None:
    check(durable_case(seed), salts, at, kind="sqlite", runner=runner, new_turn=new_turn)
