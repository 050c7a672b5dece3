"""The suites of crashes and races, and the tests of what holds of every store, on a Postgres server.

Every process of a suite finds the database by a variable of the environment; see `stored`.
"""

from __future__ import annotations

import os
from types import ModuleType
from typing import Any, NamedTuple

import pytest
from support import stored

from proofs import conformance, kills, races, unnamed_suite
from proofs.outcome import Outcome

try:
    from support import postgres
except pytest.skip.Exception as reason:  # the server is a package, which not every system has
    postgres: Any = None  # type: ignore[no-redef]
    _MISSING = str(reason)

LAWS = [
    *(
        "durability/test_laws.py",
        "durability/test_pauses.py",
        "durability/test_resume.py",
        "durability/test_recorder.py",
    ),
    *(
        "durability/test_turn_laws.py",
        "checkpointers/sqlite/test_os_fork.py",
        "durability/test_crashes.py",
        "durability/test_ambiguous_steps.py",
    ),
    "proofs/test_kill_trials.py",
]


class Laws:
    """What must hold of every store that outlives its process, as the tests say it; a slice has none."""

    NAME = "laws of stored runs"

    @staticmethod
    def prove(scale: float = 1.0, seed: int = 0) -> Outcome:
        """Run the tests that take whatever store the environment names."""
        return conformance.tested(Outcome(Laws.NAME), LAWS, scale)


class OnPostgres(NamedTuple):
    """A suite that is proven on Postgres."""

    suite: ModuleType | type[Laws]

    @property
    def NAME(self) -> str:
        """The name of the suite."""
        return f"{self.suite.NAME}, on Postgres"

    def prove(self, scale: float = 1.0, seed: int = 0) -> Outcome:
        """Prove the suite on a database of its own."""
        if postgres is None:
            return Outcome(self.NAME, skipped=_MISSING)
        os.environ[stored.DSN] = postgres.server().create()
        try:
            outcome: Outcome = self.suite.prove(scale=scale, seed=seed)
        finally:
            del os.environ[stored.DSN]
        outcome.name = self.NAME
        return outcome


SUITES = {
    "kills_postgres": OnPostgres(kills),
    "races_postgres": OnPostgres(races),
    "laws_postgres": OnPostgres(Laws),
    "unnamed_postgres": OnPostgres(unnamed_suite),
}
