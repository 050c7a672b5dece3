"""A slice of the suites of crashes and races on Postgres; `make prove` runs them at full size."""

from __future__ import annotations

import prove
import pytest

from proofs import on_postgres

SLICE = 0.003


@pytest.mark.slow
@pytest.mark.parametrize("name", on_postgres.SUITES)
def test_no_case_of_the_suite_fails_on_postgres(name: str) -> None:
    outcome = prove.proven(on_postgres.SUITES[name], SLICE, seed=0)
    if outcome.skipped is not None:
        pytest.skip(outcome.skipped)
    assert outcome.cases
    assert not outcome.failures, "\n\n".join(outcome.failures)
