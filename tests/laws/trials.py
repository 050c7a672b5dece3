"""One random graph under every law: against the reference, in another order, interrupted, in threads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from random import Random
from typing import Any

from hypergraph.checkpointers import Checkpointer, MemoryCheckpointer
from laws import checks
from laws.compare import (
    LIMIT,
    RUNNERS,
    Runs,
    Subject,
    Unfit,
    compared,
    fitted,
    key,
    reference_runs,
    run_once,
)
from laws.graphs import FEATURES, Case, make, program

Stores = Callable[[], Checkpointer]


# What the library refuses by design: whatever else is refused breaks a law.
REFUSALS = (
    "Multiple nodes produce",
    "Targets of multi_target gate",
    "Deadlock: these nodes would wait forever",
    "Inconsistent defaults",
    "wait_for names overlap",
    "is not an input of",
    "targets unknown node",
)


def tried(
    seed: int,
    *,
    calls: int = 3,
    elsewhere: bool = False,
    whole: bool = True,
    stores: Stores = MemoryCheckpointer,
) -> str:
    """Try the graph of a seed, broken at some of its calls; return why it was refused by design, else "".

    With `whole`, under every law; else under half of those that need the reference alone, and broken under
    one runner. Raises AssertionError with the graph and what does not hold.
    """
    rnd = Random(seed)
    features = FEATURES if rnd.random() < 0.5 else [f for f in FEATURES if rnd.random() < 0.6]
    case = make(seed, features)
    with asyncio.Runner() as loop:
        try:
            subject = fitted(case)
            case = subject.case
            for what in _broken(subject, rnd, loop, calls, elsewhere, whole, stores):
                raise AssertionError(f"{sorted(features)}\n{what}\n{program(case)}")
        except Unfit as refusal:
            reason = next((text for text in REFUSALS if text in str(refusal)), None)
            if reason is None:
                raise AssertionError(f"refused: {refusal}\n{program(case)}") from refusal
            return reason
    return ""


def _broken(  # noqa: PLR0917 - a case, and how to try it
    subject: Subject,
    rnd: Random,
    loop: asyncio.Runner,
    calls: int,
    elsewhere: bool,
    whole: bool,
    stores: Stores,
) -> Iterator[object]:
    """Yield what breaks a law."""
    case = subject.case
    runs = reference_runs(case)
    yield from law_breaks(case, runs, rnd.randrange(2**32))
    yield from filter(None, (compared(subject, runner, runs, loop) for runner in RUNNERS))
    for runner in RUNNERS if whole else [RUNNERS[case.seed // 2 % 2]]:
        for what in interrupted(subject, runs, runner, rnd, calls, stores, loop):
            yield f"{runner}: {what}"
    if elsewhere:
        with ThreadPoolExecutor(2) as pool:
            for runner in RUNNERS:
                different = compared(subject, runner, runs, loop, pool)
                if different is not None:
                    yield f"in other threads: {different}"


def law_breaks(case: Case, runs: Runs, seed: int) -> Iterator[str]:
    """Yield what breaks the laws that need no engine: it does what the reference does."""
    values, first = runs[0]
    net = checks.scoped(case.net)
    if first.ended in ("completed", "paused"):
        found = (
            checks.nothing_stale(net, first.supersteps),
            checks.at_most_once(net, first.supersteps),
            checks.nothing_unchosen(net, first.supersteps, first),
            checks.rounds(net, first.supersteps),
        )
        yield from filter(None, found)
    other_order = checks.same_in_any_order(case.net, values, first, seed, LIMIT)
    if other_order is not None:
        yield f"in another order: {other_order}"


def interrupted(  # noqa: PLR0917 - a case, and how to break it
    subject: Subject,
    runs: Runs,
    runner: str,
    rnd: Random,
    calls: int,
    stores: Stores,
    loop: asyncio.Runner,
) -> Iterator[str]:
    """L6: yield what differs when one of the calls fails and the graph is called again."""
    if any(out.ended not in ("completed", "paused") for _, out in runs):
        return
    total = sum(len(out.calls) for _, out in runs)
    for broken in sorted(rnd.sample(range(total), min(calls, total))):
        with _closing(stores()) as store:
            what = _broken_at(subject, runs, runner, broken, store, loop)
        if what is not None:
            yield f"call {broken} of {total} failed: {what}"


def _broken_at(  # noqa: PLR0917 - a case, and where it breaks
    subject: Subject, runs: Runs, runner: str, broken: int, store: Checkpointer, loop: asyncio.Runner
) -> str | None:
    subject.until_fault = broken + 1
    made = subject.calls
    for number, (values, out) in enumerate(runs):
        made.clear()
        is_whole = not subject.until_fault
        result, ended = run_once(subject, runner, store, values, number, loop)
        if not is_whole and not subject.until_fault:
            if ended != "failed":
                return f"run {number + 1} {ended} although a call failed"
            result, ended = run_once(subject, runner, store, values, number, loop, again=True)
        if ended != out.ended:
            return f"run {number + 1} {ended}, and {out.ended} without a failure: {result.error}"
        if key(made) != key(out.calls):
            return f"run {number + 1} called {_beside(made, out.calls)}, missed {_beside(out.calls, made)}"
        found = {x: v for x, v in result.values.items() if x in out.values}
        if found != out.values:
            odd = sorted(x for x in out.values if found.get(x, ...) != out.values[x])
            made_so = [(x, found.get(x), out.values[x]) for x in odd]
            return f"run {number + 1} made other values than without a failure: {made_so}"
    return None


def _beside(some: list[Any], others: list[Any]) -> list[str]:
    left, rest = key(some), key(others)
    for call in rest:
        if call in left:
            left.remove(call)
    return left[:4]


@contextmanager
def _closing(store: Checkpointer) -> Iterator[Checkpointer]:
    try:
        yield store
    finally:
        store.close()
