"""The laws of the execution model on random graphs, interrupted at every call."""

from __future__ import annotations

import sys
from collections import Counter

from laws.trials import tried

from proofs.outcome import Outcome, everywhere, scaled

NAME = "laws of the execution model"
GRAPHS = 6_000
CHUNK = 50
TOLD = 1000  # after so many graphs a line says how it stands: all of them take long


def prove(*, scale: float = 1.0, seed: int = 0) -> Outcome:
    """Try random graphs under every law, in as many processes as there are processors."""
    outcome, refused = Outcome(NAME), Counter[str]()
    # A slice is short: the tests of the engine try graphs beside it.
    count = scaled(GRAPHS, scale if scale >= 1 else scale / 6)
    first = seed * 1_000_003
    chunks = [range(first + at, first + min(at + CHUNK, count)) for at in range(0, count, CHUNK)]
    with outcome.timed():
        for reason, failure in everywhere(_tried_in, chunks):
            refused[reason] += bool(reason)
            outcome.count(failure)
            if failure is not None:
                print(failure, file=sys.stderr, flush=True)
            if outcome.cases % TOLD == 0:
                told = f"{outcome.cases:,} graphs, {len(outcome.failures)} failures"
                print(told, file=sys.stderr, flush=True)
    outcome.note = ", ".join(
        f"{count} refused ({reason})" for reason, count in refused.most_common() if count
    )
    return outcome


def _tried_in(seeds: range) -> list[tuple[str, str | None]]:
    """Return of each seed why it was refused, and what failed."""
    found: list[tuple[str, str | None]] = []
    for seed in seeds:
        try:
            kind = {9: "shared", 8: "tangled", 7: "teamed"}.get(seed % 10)
            how = "" if kind is None else f", {kind}=True"
            options = {} if kind is None else {kind: True}
            reason = tried(seed, elsewhere=seed % 50 == 0, **options)
            found.append((reason, None))
        except AssertionError as failure:
            found.append(("", f"tried({seed}{how}): {failure}"))
    return found
