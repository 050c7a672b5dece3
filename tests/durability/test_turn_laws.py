"""Turns of random graphs on one workflow: interrupted anywhere in any of them, they come to the same."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from support.durable import Fuse
from support.random_graphs import LIMIT, UNDONE, Case

from durability.test_laws import ON, calls_in, durable_case, fused, made_store, seeds, steps_of

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


@given(seed=seeds, salts=turns, at=fuses, new_turn=st.booleans())
@settings(max_examples=150)
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
@settings(max_examples=100)
@example(seed=2449017909, salts=[40309, 40453, 35107], at=frozenset({10}), new_turn=False)
def test_interrupted_turns_of_async_runs_come_to_the_same(
    seed: int, salts: list[int], at: frozenset[int], new_turn: bool
) -> None:
    check(durable_case(seed), salts, at, kind="memory", runner="async", new_turn=new_turn)


@given(seed=seeds, salts=turns, at=fuses, runner=st.sampled_from(["sync", "async"]), new_turn=st.booleans())
@settings(max_examples=40)
def test_interrupted_turns_over_a_database_come_to_the_same(
    seed: int, salts: list[int], at: frozenset[int], runner: str, new_turn: bool
) -> None:
    check(durable_case(seed), salts, at, kind="sqlite", runner=runner, new_turn=new_turn)
