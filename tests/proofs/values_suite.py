"""Values that are hard to store, through every store, serializer and codec: exact, or refused."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from durability.test_values import Seen, check_everywhere
from hypothesis import HealthCheck, given, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st
from support.nasty import NASTY, ONLY_PICKLED, UNSTORABLE, WAYS, kept, storable

from proofs.outcome import Outcome, scaled
from proofs.rivals import told

NAME = "nasty values"


def comes_back(way: Any, values: dict[str, Any], is_given: bool) -> None:
    """See that every reader gets the values themselves."""
    with tempfile.TemporaryDirectory() as folder:
        options = {} if way[0] == "memory" else {"artifact_threshold": 1000}
        check_everywhere(kept(way, Path(folder), **options), Seen(values, given=is_given))


def is_refused(way: Any, value: Any) -> None:
    """See that a value that cannot be stored is a gap, and that somebody is told."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        store, seen = kept(way, Path(folder)), Seen({"it": value}, given=False)
        seen.run_halfway(store)
        assert "v0" not in store.state("w")
        assert any("'v0' cannot be stored" in str(warning.message) for warning in heard)


def _large() -> dict[str, Any]:
    """Return the nasty values in lists that are stored as artifacts."""
    return {f"{label}, large": [value] * 3 + ["x" * 3000] for label, value in NASTY.items()}


def refused_by(way: Any) -> dict[str, Any]:
    """Return what a serializer must refuse; memory is no different from a file."""
    return UNSTORABLE if way[1] == "pickle" else {**UNSTORABLE, **ONLY_PICKLED}


def invented(way: Any, examples: int, seed: int, outcome: Outcome) -> None:
    """Try values that nobody thought of."""

    @seeded(seed)
    @settings(max_examples=examples, database=None, deadline=None, suppress_health_check=list(HealthCheck))
    @given(value=storable, is_given=st.booleans())
    def attempt(value: Any, is_given: bool) -> None:
        outcome.count()
        comes_back(way, {"it": value}, is_given)

    _report(outcome, attempt, f"values invented with seed {seed}, {way}", cases=0)


def _report(outcome: Outcome, trial: Callable[[], object], what: str, cases: int = 1) -> None:
    name, text = told(trial)
    outcome.cases += cases
    if name:
        outcome.failures.append(f"{what}: {name}: {text}")


def prove(scale: float = 1.0, seed: int = 0) -> Outcome:
    """Store every nasty value in every way, and invented ones; a slice has the invented ones in two ways."""
    outcome = Outcome(NAME)
    with outcome.timed():
        for way in WAYS if scale >= 1 else WAYS[2::8]:
            for is_given in (False, True) if scale >= 1 else ():  # a failure names the values
                values = NASTY if is_given else {**NASTY, **_large()}
                trial = partial(comes_back, way, values, is_given)
                _report(outcome, trial, f"{'inputs' if is_given else 'results'}, {way}", cases=len(values))
            for name, value in refused_by(way).items():
                _report(outcome, partial(is_refused, way, value), f"{name}, {way}")
            invented(way, scaled(30, scale), seed, outcome)
    return outcome
