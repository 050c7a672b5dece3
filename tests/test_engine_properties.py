"""The engine against plain Python, a naive interpreter of the rules, and itself under other conditions."""

from __future__ import annotations

from random import Random

from hypothesis import assume, given, settings
from hypothesis import strategies as st
from random_graphs import LIMIT, outcome_of, random_case, shown
from running import run_sync

OPTIONS = {"max_iterations": LIMIT, "error_handling": "continue"}


@given(seed=st.integers(0, 10**9))
@settings(max_examples=1500)
def test_the_engine_does_what_the_rules_say(seed: int) -> None:
    case = random_case(Random(seed))
    assume(case is not None)
    result = run_sync(case.ready_graph(), case.inputs(), **OPTIONS)
    assert shown(outcome_of(result)) == shown(case.expected())
