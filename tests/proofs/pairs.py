"""The tests of stored runs with each runner on each store; `make test` takes two of the four pairs."""

from __future__ import annotations

import os

from proofs import conformance
from proofs.outcome import Outcome

NAME = "stored runs, each runner on each store"


def prove(scale: float = 1.0, seed: int = 0) -> Outcome:
    """Run the tests and count them."""
    os.environ["HYPERGRAPH_EVERY_RUNNER_AND_STORE"] = "yes"
    try:
        return conformance.tested(Outcome(NAME), ["durability", "laws/test_programs.py"], scale)
    finally:
        del os.environ["HYPERGRAPH_EVERY_RUNNER_AND_STORE"]
