"""The laws of the execution model on random graphs, interrupted at every call."""

from __future__ import annotations

from laws.trials import tried

from proofs.outcome import Outcome, scaled

NAME = "laws of the execution model"
GRAPHS = 20_000
EVERY_CALL = 200  # as many graphs are interrupted at each of their calls, the others at one


def prove(*, scale: float = 1.0, seed: int = 0) -> Outcome:
    """Try random graphs under every law."""
    outcome = Outcome(NAME)
    with outcome.timed():
        # A slice is short: the tests of the engine try a thousand graphs beside it.
        for number in range(scaled(GRAPHS, scale if scale >= 1 else scale / 5)):
            calls = 10_000 if number % (GRAPHS // EVERY_CALL) == 0 else 1
            case = seed * 1_000_003 + number
            try:
                tried(case, calls=calls, elsewhere=number % 50 == 0)
            except AssertionError as failure:
                outcome.count(f"tried({case}, calls={calls}): {failure}")
            else:
                outcome.count()
    return outcome
