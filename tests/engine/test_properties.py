"""The engine against plain Python, the reference interpreter, and itself under other conditions."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from support.random_graphs import KINDS, LIMIT, UNDONE, Case, outcome_of, random_case, shown
from support.running import run_async, run_sync, trace

from hypergraph import FunctionNode, Graph
from hypergraph.engine.admission import admit

pytestmark = [pytest.mark.slow, UNDONE]
OPTIONS: dict[str, Any] = {"max_iterations": LIMIT, "error_handling": "continue"}
seeds = st.integers(0, 2**32)


def drawn_case(seed: int, *kinds: str) -> Case:
    case = random_case(Random(seed), kinds) if kinds else random_case(Random(seed))
    assume(case is not None)
    assert case is not None
    return case


# -- the runners ---------------------------------------------------------------------------------------


@given(seeds)
@settings(max_examples=150)
def test_async_runs_of_sync_nodes_do_the_same(seed: int) -> None:
    case = drawn_case(seed, *KINDS, "interrupt")
    plain = run_sync(case.ready_graph(), case.inputs(), **OPTIONS)
    assert shown(outcome_of(run_async(case.ready_graph(), case.inputs(), **OPTIONS))) == shown(
        outcome_of(plain)
    )


@given(seeds, st.randoms(use_true_random=False))
@settings(max_examples=150)
def test_nodes_that_take_their_time_change_neither_values_nor_supersteps(seed: int, rng: Random) -> None:
    case = drawn_case(seed, "sum", "sum", "box")
    check_paused(case, {sketch.name: rng.randint(0, 3) for sketch in case.sketches})


@pytest.mark.parametrize(
    ("seed", "pauses"),
    [
        (1926, {"n4": 2, "n1": 3, "n2": 3, "n0": 1, "n6": 2}),  # a value that comes from the round before
    ],
)
def test_supersteps_do_not_depend_on_what_ends_first(seed: int, pauses: dict[str, int]) -> None:
    case = random_case(Random(seed), ("sum", "sum", "box"))
    assert case is not None
    check_paused(case, {sketch.name: pauses.get(sketch.name, 0) for sketch in case.sketches})


def check_paused(case: Case, pauses: dict[str, int]) -> None:
    plain = outcome_of(run_sync(case.ready_graph(), case.inputs(), **OPTIONS))
    if plain.ending == "exhausted":
        return  # what else runs meanwhile is a matter of time
    slow = outcome_of(run_async(case.ready_graph(pauses), case.inputs(), **OPTIONS))
    slow.trace.sort(key=lambda step: (step[0], case.order(step[1])))
    assert shown(slow) == shown(plain)


# -- graphs without gates and cycles ------------------------------------------------------------------


@st.composite
def dags(draw: st.DrawFn) -> list[tuple[str, tuple[str, ...]]]:
    """Nodes with the names they take: graph inputs "x0", "x1", or results of earlier nodes."""
    found: list[tuple[str, tuple[str, ...]]] = []
    for index in range(draw(st.integers(1, 9))):
        pool = ["x0", "x1", *(name for name, _ in found)]
        taken = draw(st.lists(st.sampled_from(pool), max_size=3, unique=True))
        found.append((f"y{index}", tuple(taken)))
    return found


def combine(name: str, values: tuple[Any, ...]) -> tuple[Any, ...]:
    return (name, *values)


def dag_node(name: str, taken: tuple[str, ...], *, is_async: bool = False) -> FunctionNode:
    head = "async def" if is_async else "def"
    space: dict[str, Any] = {"combine": combine}
    values = "".join(f"{value}, " for value in taken)
    exec(f"{head} make({values}): return combine({name!r}, ({values}))", space)
    return FunctionNode(space["make"], f"make_{name}", name)


def inputs_for(dag: list[tuple[str, tuple[str, ...]]]) -> dict[str, str]:
    taken = {name for _, names in dag for name in names}
    return {name: f"<{name}>" for name in ("x0", "x1") if name in taken}


@given(dags(), st.randoms(use_true_random=False))
def test_a_dag_is_a_fold_in_topological_order(dag: list[tuple[str, tuple[str, ...]]], rng: Random) -> None:
    state: dict[str, Any] = dict(inputs_for(dag))
    depth: dict[str, int] = {}
    for name, taken in dag:
        state[name] = combine(name, tuple(state[t] for t in taken))
        depth[name] = 1 + max((depth.get(t, -1) for t in taken), default=-1)
    shuffled = rng.sample(dag, len(dag))
    result = run_sync(Graph([dag_node(*item) for item in shuffled]), inputs_for(dag))
    assert result.values == {name: state[name] for name, _ in dag}
    expected = sorted((depth[name], position) for position, (name, _) in enumerate(shuffled))
    assert trace(result) == [(d, f"make_{shuffled[position][0]}") for d, position in expected]


@given(dags(), st.randoms(use_true_random=False))
def test_both_runners_agree_on_dags_sync_async_or_mixed(
    dag: list[tuple[str, tuple[str, ...]]], rng: Random
) -> None:
    mixed = Graph([dag_node(*item, is_async=rng.random() < 0.5) for item in dag])
    plain = run_sync(Graph([dag_node(*item) for item in dag]), inputs_for(dag))
    waited = run_async(mixed, inputs_for(dag))
    assert waited.values == plain.values
    assert trace(waited) == trace(plain)


@given(seeds, st.randoms(use_true_random=False))
@settings(max_examples=80)
def test_node_order_never_matters_where_each_output_has_one_producer(seed: int, rng: Random) -> None:
    case = drawn_case(seed, "sum", "sum", "box")
    produced = [output for sketch in case.sketches for output in sketch.outputs]
    assume(len(produced) == len(set(produced)))
    admission = admit(case.ready_graph(), tuple(case.inputs()), on_internal_override="ignore")
    assume(all(loop.gated for loop in admission.layout.loops))  # others begin at the first node
    shuffled = replace(case, sketches=tuple(rng.sample(case.sketches, len(case.sketches))))
    first = run_sync(case.ready_graph(), case.inputs(), **OPTIONS)
    second = run_sync(shuffled.ready_graph({}), case.inputs(), **OPTIONS)
    assert second.values == first.values
    assert sorted(trace(second)) == sorted(trace(first))
