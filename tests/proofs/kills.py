"""A program killed at every named point of the store that it comes by, in every mode, and started again.

A counting run finds the points, so one that is new is covered as soon as the program comes by it. After each
kill the store must be in order, and the program, started again, must give what it gives without a crash: no
call that is on record is repeated, no other more than once, and what must not be repeated not at all.
"""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from support.processes import Elsewhere, started

from hypergraph.checkpointers import fault_points
from hypergraph.exceptions import StoreUnavailableError
from proofs import sample
from proofs.outcome import Outcome, scaled
from proofs.promises import Seen, flaws_of, look, unsaved
from proofs.sample import Manner

NAME = "kills at named points"
MANNERS = [
    Manner("sync", "sync"),
    Manner("async", "sync", early=0.0),
    Manner("sync", "async"),
    Manner("async", "async", early=0.0),
    Manner("sync", "exit"),
    Manner("async", "exit"),
]


class Whole(NamedTuple):
    """A program that nobody killed: what it gave, the history it left, the points it came by."""

    given: Any
    history: list[Any]
    points: list[str]


class Resumed(NamedTuple):
    """A program that was started again: what was wrong before, what it gave, what is wrong now."""

    flaws: list[str]
    given: Any
    history: list[Any]


def counted(folder: Path, manner: Manner) -> Whole:
    """Run the program undisturbed."""
    hits: list[str] = []
    fault_points.hook = hits.append
    given = sample.run(folder, manner)
    fault_points.hook = None
    return Whole(given, look(sample.store_in(folder)).history, hits)


def killed(folder: Path, manner: Manner, at: int) -> None:
    """Run the program and be killed at a point, given by its number."""
    left = [at]
    (folder / "killed").write_text(str(os.getpid()))

    def hook(_name: str) -> None:
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    fault_points.hook = hook
    sample.run(folder, manner)


def resumed(folder: Path, manner: Manner, crashes: int = 1) -> Resumed:
    """Look at what a crash left, start the program again and look once more."""
    store = sample.store_in(folder)
    entered = sample.calls(folder)
    try:
        before = look(store)
        flaws = flaws_of(store, before)
    except StoreUnavailableError:  # half created: readers leave it as it is, and the next run finishes it
        before, flaws = Seen({}, {}, {}), []
    if manner.mode == "sync":
        last = folder / "killed"  # by its number; it may have called nothing
        begun = sample.places(sample.of_process(entered, last.read_text()) if last.exists() else entered)
        flaws += unsaved(before, (place for place in begun if not is_erased(before, place)))
    given = sample.run(folder, manner)
    after = look(store)
    flaws += flaws_of(store, after) + repeated(folder, before, len(entered), crashes)
    return Resumed(flaws, given, after.history)


def is_erased(seen: Seen, place: tuple[str, int, str]) -> bool:
    """Say whether a call belongs to the workflow that the program deletes in the end."""
    return place[0] == "scrap" and "scrap" not in seen.workflows


def repeated(folder: Path, before: Seen, calls_before: int, crashes: int) -> list[str]:
    """Say which calls were made again although they must not have been, after so many crashes."""
    lines = sample.calls(folder)
    flaws = [
        f"{visit} was on record and was called again"
        for visit in sample.visits(lines[calls_before:])
        if visit in before.completed
    ]
    for visit, times in sample.visits(lines).items():
        if times > most_calls(visit.split(":")[1], crashes):
            flaws.append(f"{visit} was called {times} times")
    return flaws


def most_calls(node: str, crashes: int) -> int:
    """Return how often a visit of a node may be called: each crash repeats it once, with one exception."""
    return {sample.ONCE: 1, sample.BROKEN: 2 + crashes}.get(node, 1 + crashes)


def differences(whole: Whole, found: Resumed) -> list[str]:
    """Say in what a program that was killed differs from one that was not."""
    flaws = list(found.flaws)
    if found.given != whole.given:
        flaws.append(f"the result is {found.given}, not {whole.given}")
    if found.history != whole.history:
        missing = [entry for entry in whole.history if entry not in found.history]
        more = [entry for entry in found.history if entry not in whole.history]
        flaws.append(f"the history lacks {missing} and has {more}")
    return flaws


def _case(elsewhere: Elsewhere, whole: Whole, manner: Manner, kills: Sequence[int]) -> str | None:
    """Kill the program at one point, again at the next one, and start it once more; return what is wrong."""
    with sample.scratch() as folder:
        for at in kills:  # which may be beyond the end: a thread that writes takes more or less at a time
            elsewhere.ends(killed, folder, manner, at)
        is_dead, found = elsewhere.ends(resumed, folder, manner, len(kills))
    flaws = [repr(found)] if is_dead or isinstance(found, Exception) else differences(whole, found)
    if not flaws:
        return None
    case = f"kills.once({manner}, {kills})"
    return f"killed at {whole.points[kills[0] - 1]}: {'; '.join(flaws)}. Repeat: {case}"


def once(manner: Manner, kills: Sequence[int]) -> str | None:
    """Repeat one case."""
    with started() as elsewhere, sample.scratch() as folder:
        return _case(elsewhere, elsewhere(counted, folder, manner), manner, kills)


def _cases(hits: int, scale: float, seed: int) -> list[tuple[int, ...]]:
    """Return every point, or some, and a few pairs of points: killed at one, and then at the other."""
    chance, every = random.Random(seed), range(1, hits + 1)
    some = sorted(chance.sample(every, min(hits, scaled(hits, scale))))
    pairs = [(chance.choice(every), chance.choice(every)) for _ in range(scaled(hits // 10, scale))]
    return [*((at,) for at in some), *pairs]


def _some_of(part: int, parts: int, scale: float, seed: int, manners: Sequence[Manner]) -> Outcome:
    """Try every so many of all cases."""
    outcome = Outcome(NAME)
    with started() as elsewhere:
        for manner in manners:
            with sample.scratch() as folder:
                whole = elsewhere(counted, folder, manner)
            for kills in _cases(len(whole.points), scale, seed)[part::parts]:
                outcome.count(_case(elsewhere, whole, manner, kills))
    return outcome


def prove(scale: float = 1.0, seed: int = 0, manners: Sequence[Manner] = MANNERS) -> Outcome:
    """Kill the program at every point it comes by, or at some of them."""
    return in_two(Outcome(NAME), partial(_some_of, scale=scale, seed=seed, manners=manners))


def in_two(outcome: Outcome, some_of: Callable[..., Outcome]) -> Outcome:
    """Let each of two threads try half of the cases, for machines with two processors, and kill."""
    if not hasattr(signal, "SIGKILL"):
        outcome.skipped = "needs signals"
        return outcome
    with outcome.timed(), ThreadPoolExecutor(2) as pool:
        for half in pool.map(partial(some_of, parts=2), range(2)):
            outcome.cases += half.cases
            outcome.failures += half.failures
    return outcome
