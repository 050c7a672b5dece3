"""Processes that end badly, multiply, or are interrupted while they save: nothing acknowledged is lost."""

from __future__ import annotations

import itertools
import random
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from support.processes import Elsewhere, started
from support.running import RUNNERS

from proofs import endings
from proofs.outcome import Outcome, scaled
from proofs.rivals import MISSING, told

NAME = "process endings"
MODES = ("sync", "async", "exit")
POINTS = 16  # more than a run of three nodes passes
TRIALS: dict[str, endings.Trial] = {
    **{f"{name} in a node": partial(endings.ends, name) for name in endings.ENDINGS},
    **{f"program: {name}": partial(endings.program, name) for name in endings.PROGRAMS},
    "fork in a node": endings.forks,
    **{f"multiprocessing: {method}": partial(endings.shares, method) for method in ("fork", "spawn")},
    **{
        f"{how} at point {number}": partial(endings.at_a_point, how, number)
        for how in ("Ctrl-C", "cancel")
        for number in range(POINTS)
    },
}


def one_trial(folder: Path, kind: str, runner: str, mode: str) -> list[str]:
    """Run one trial in this process and its children; return what was wrong with it."""
    return TRIALS[kind](folder, runner, mode)


def _cases() -> Iterator[tuple[str, str, str]]:
    for kind, runner, mode in itertools.product(TRIALS, RUNNERS, MODES):
        if not (kind.startswith("cancel") and runner == "sync"):  # only tasks can be cancelled
            yield kind, runner, mode


def prove(scale: float = 1.0, seed: int = 0) -> Outcome:
    """Try every ending with every runner and mode; a slice tries a choice of them."""
    outcome, cases = Outcome(NAME, skipped=MISSING), list(_cases())
    if outcome.skipped:
        return outcome
    random.Random(seed).shuffle(cases)
    with outcome.timed(), started() as elsewhere:
        for case in cases[: scaled(len(cases), min(scale, 1.0))]:
            outcome.count(_failure(elsewhere, case))
    return outcome


def _failure(elsewhere: Elsewhere, case: tuple[str, str, str]) -> str | None:
    with tempfile.TemporaryDirectory() as folder:
        name, wrong = told(partial(elsewhere, one_trial, Path(folder), *case))
    texts = [f"{name}: {wrong}"] if name else wrong
    how = f"repeat with proofs.processes_suite.one_trial(folder, {', '.join(map(repr, case))})"
    return "; ".join([*texts, how]) if texts else None
