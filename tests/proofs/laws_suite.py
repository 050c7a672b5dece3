"""The laws of the execution model on random graphs, interrupted at every call."""

from __future__ import annotations

from collections import Counter

from laws.trials import tried

from proofs.outcome import Outcome, scaled

NAME = "laws of the execution model"
GRAPHS = 20_000
EVERY_CALL = 200  # as many graphs are interrupted at each of their calls, the others at one


def prove(*, scale: float = 1.0, seed: int = 0) -> Outcome:
    """Try random graphs under every law."""
    outcome, refused = Outcome(NAME), Counter[str]()
    with outcome.timed():
        # A slice is short: the tests of the engine try graphs beside it.
        for number in range(scaled(GRAPHS, scale if scale >= 1 else scale / 20)):
            calls = 10_000 if number % (GRAPHS // EVERY_CALL) == 0 else 1
            case = seed * 1_000_003 + number
            try:
                reason = tried(case, calls=calls, elsewhere=number % 50 == 0)
                refused[reason] += bool(reason)
            except AssertionError as failure:
                outcome.count(f"tried({case}, calls={calls}): {failure}")
            else:
                outcome.count()
    outcome.note = ", ".join(
        f"{count} refused ({reason})" for reason, count in refused.most_common() if count
    )
    return outcome
