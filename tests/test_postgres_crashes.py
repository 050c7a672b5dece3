"""The suites of crashes and races on Postgres: clients killed at every named point, rivals, zombies."""

from __future__ import annotations

from types import ModuleType

import prove
import pytest
import stored
from postgres import server
from proofs import kills, races

SLICE = 0.02


@pytest.fixture
def on_postgres(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let all processes of a suite use a database of the server."""
    monkeypatch.setenv(stored.DSN, server().create())


@pytest.mark.slow
@pytest.mark.usefixtures("on_postgres")
@pytest.mark.parametrize("suite", [kills, races], ids=lambda suite: suite.__name__)
def test_no_case_of_the_suite_fails_on_postgres(suite: ModuleType) -> None:
    outcome = prove.proven(suite, SLICE, seed=0)
    if outcome.skipped is not None:
        pytest.skip(outcome.skipped)
    assert outcome.cases
    assert not outcome.failures, "\n\n".join(outcome.failures)
