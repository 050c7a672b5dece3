"""One random graph under every law: against the reference, in another order, interrupted, in threads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from random import Random

from hypergraph.checkpointers import Checkpointer, MemoryCheckpointer
from laws import checks
from laws.compare import (
    LIMIT,
    RUNNERS,
    Runs,
    Subject,
    Unfit,
    beside,
    compared,
    fitted,
    key,
    reference_runs,
    run_once,
)
from laws.graphs import FEATURES, Case, Overgrown, make, program, sharing, tangle, team

Stores = Callable[[], Checkpointer]
FLAT = tuple(name for name in FEATURES if name not in ("nested", "maps", "append", "asks"))


# What the library refuses by design: whatever else is refused breaks a law.
REFUSALS = (
    "Multiple nodes produce",
    "and neither goes first",  # in a turn that remembers the name
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
    calls: int | None = None,
    elsewhere: bool = False,
    stores: Stores = MemoryCheckpointer,
    shared: bool = False,
    tangled: bool = False,
    teamed: bool = False,
) -> str:
    """Try the graph of a seed under every law, broken at so many of its calls, or at each of them.

    If names are `shared`, nodes of the graph make names that others make, too. A `tangled` graph is small and
    has cycles without a gate beside and inside of loops with one. In a `teamed` one a gate starts graphs,
    which may ask, beside nodes that write what they have taken.

    Return why it was refused by design, else "". Raises AssertionError with the graph and what does not hold.
    """
    rnd = Random(seed)
    features = FEATURES if rnd.random() < 0.5 else [f for f in FEATURES if rnd.random() < 0.6]
    case = team(seed) if teamed else tangle(seed) if tangled else make(seed, FLAT if shared else features)
    case = sharing(case, rnd) if shared else case
    with asyncio.Runner() as loop:
        try:
            subject = fitted(case)
            case = subject.case
            for what in _broken(subject, rnd, loop, calls, elsewhere, stores):
                raise AssertionError(f"{sorted(features)}\n{what}\n{program(case)}")
        except Overgrown:
            return "values grow without end"
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
    calls: int | None,
    elsewhere: bool,
    stores: Stores,
) -> Iterator[object]:
    """Yield what breaks a law."""
    case = subject.case
    runs = reference_runs(case)
    yield from law_breaks(case, runs, rnd.randrange(2**32))
    both = RUNNERS if calls is None else [RUNNERS[case.seed % 2]]  # the other one is interrupted
    yield from filter(None, (compared(subject, runner, runs, loop) for runner in both))
    yield from interrupted(subject, runs, rnd, calls, stores, loop)
    if elsewhere:
        with ThreadPoolExecutor(2) as pool:
            for runner in RUNNERS:
                different = compared(subject, runner, runs, loop, pool)
                if different is not None:
                    yield f"in other threads: {different}"


def law_breaks(case: Case, runs: Runs, seed: int) -> Iterator[str]:
    """Yield what breaks the laws that need no engine: it does what the reference does."""
    values, first = runs[0]
    yield from checks.broken_by(checks.scoped(case.net), values, first)
    kinds = {part.name: part.kind for part in case.net.parts}
    left = [name for name in first.overlooked if kinds[name] != "gate"]
    if left and case.net.declared is None:  # else a given value may begin nothing (D10)
        yield f"{left} had all they take and did not run: {first.supersteps}"
    other_order = checks.same_in_any_order(case.net, values, first, seed, LIMIT)
    if other_order is not None:
        yield f"in another order: {other_order}"


def interrupted(  # noqa: PLR0917 - a case, and how to break it
    subject: Subject,
    runs: Runs,
    rnd: Random,
    calls: int | None,
    stores: Stores,
    loop: asyncio.Runner,
) -> Iterator[str]:
    """L6: yield what differs when calls fail and the graph is called again.

    That many calls fail, each in runs of its own; with None also each of them once, one after the other.
    """
    if any(out.ended not in ("completed", "paused", "infinite") for _, out in runs):
        return
    total = sum(len(out.calls) for _, out in runs)
    for broken in sorted(rnd.sample(range(total), min(calls or 1, total))):
        runner = RUNNERS[(subject.case.seed + 1) % 2]
        what = _broken_at(subject, runs, runner, broken, stores, loop)
        if what is not None:
            yield f"{runner}: call {broken} of {total} failed: {what}"
    if calls is None and total:
        runner = RUNNERS[subject.case.seed % 2]
        what = _broken_at(subject, runs, runner, 0, stores, loop, every=True)
        if what is not None:
            yield f"{runner}: every call failed once: {what}"


def _broken_at(  # noqa: PLR0917 - a case, and where it breaks
    subject: Subject,
    runs: Runs,
    runner: str,
    broken: int,
    stores: Stores,
    loop: asyncio.Runner,
    *,
    every: bool = False,
) -> str | None:
    made = subject.calls
    with _closing(stores(), subject) as store:
        subject.until_fault = broken + 1
        for number, (values, out) in enumerate(runs):
            made.clear()
            was_broken = not subject.until_fault
            armed = not was_broken
            result, ended = run_once(subject, runner, store, values, number, loop)
            while armed and not subject.until_fault:
                if ended == out.ended == "infinite":
                    return None  # another item of a map went round too often, and counts
                if ended != "failed":
                    return f"run {number + 1} {ended} although a call failed"
                armed = every
                subject.until_fault = 2 if every else 0  # the call that failed succeeds, the next one fails
                result, ended = run_once(subject, runner, store, values, number, loop, again=True)
            if ended != out.ended:
                return f"run {number + 1} {ended}, else {out.ended}: {result and result.error}"
            if ended == "infinite":
                return None
            if key(made) != key(out.calls):
                more, less = beside(made, out.calls)[:4], beside(out.calls, made)[:4]
                return f"run {number + 1} called {more}, missed {less}"
            found = {x: v for x, v in result.values.items() if x in out.values}
            if found != out.values:
                odd = sorted(x for x in out.values if found.get(x, ...) != out.values[x])
                made_so = [(x, found.get(x), out.values[x]) for x in odd]
                return f"run {number + 1} made other values than without a failure: {made_so}"
            if every:
                subject.until_fault = 1
            elif was_broken:
                break  # one more call after the one that failed has shown what was left behind
    return None


@contextmanager
def _closing(store: Checkpointer, subject: Subject) -> Iterator[Checkpointer]:
    try:
        yield store
    finally:
        subject.until_fault = 0
        store.close()
