"""One random graph under every law: against the reference, in another order, interrupted, in threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from random import Random
from typing import Any

from hypergraph.checkpointers import Checkpointer, MemoryCheckpointer
from laws import checks
from laws.compare import LIMIT, RUNNERS, Unfit, built, check_case, fitted, key, reference_runs, run_once
from laws.graphs import FEATURES, Case, make, program
from laws.reference import Outcome

Stores = Callable[[], Checkpointer]
Runs = list[tuple[dict[str, Any], Outcome]]


class Fault(Exception):
    """What breaks a call."""


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
    try:
        case = fitted(case)
        runs = list(reference_runs(case))
        difference = check_case(case, runs=runs)
        assert difference is None, f"{sorted(features)}\n{difference}"
        for what in law_breaks(case, runs, rnd.randrange(2**32), None if whole else seed):
            raise AssertionError(f"{what}\n{program(case)}")
        for runner in RUNNERS if whole else [RUNNERS[seed // 2 % 2]]:
            for what in interrupted(case, runs, runner, rnd, calls, stores):
                raise AssertionError(f"{runner}: {what}\n{program(case)}")
        if elsewhere:
            with ThreadPoolExecutor(2) as pool:
                for runner in RUNNERS:
                    different = check_case(case, [runner], executor=pool, runs=runs)
                    assert different is None, f"in other threads: {different}"
    except Unfit as refusal:
        reason = next((text for text in REFUSALS if text in str(refusal)), None)
        if reason is None:
            raise AssertionError(f"refused: {refusal}\n{program(case)}") from refusal
        return reason
    return ""


def law_breaks(case: Case, runs: Runs, seed: int, number: int | None = None) -> Iterator[str]:
    """Yield what breaks the laws that need no engine: it does what the reference does.

    Of L4 and L5 only one is looked at where a number is given.
    """
    values, first = runs[0]
    net = checks.scoped(case.net)
    if first.ended in ("completed", "paused"):
        found = (
            checks.nothing_stale(net, first.supersteps),
            checks.at_most_once(net, first.supersteps),
            checks.nothing_unchosen(net, first.supersteps, first, set()),
            checks.rounds(net, first.supersteps),
        )
        yield from filter(None, found)
    if number is None or number % 2 == 0:
        other_order = checks.same_in_any_order(case.net, values, seed, LIMIT)
        if other_order is not None:
            yield f"in another order: {other_order}"
    if number is None or number % 2:
        yield from checks.turn_is_a_fresh_run(net, case.turns, LIMIT)


def interrupted(  # noqa: PLR0917 - a case, and how to break it
    case: Case, runs: Runs, runner: str, rnd: Random, calls: int, stores: Stores
) -> Iterator[str]:
    """L6: yield what differs when one of the calls fails and the graph is called again."""
    if any(out.ended not in ("completed", "paused") for _, out in runs):
        return
    total = sum(len(out.calls) for _, out in runs)
    for broken in sorted(rnd.sample(range(total), min(calls, total))):
        what = _broken_at(case, runs, runner, broken, stores)
        if what is not None:
            yield f"call {broken} of {total} failed: {what}"


def _broken_at(case: Case, runs: Runs, runner: str, broken: int, stores: Stores) -> str | None:
    made: list[tuple[str, dict[str, Any]]] = []
    failed: list[tuple[str, dict[str, Any]]] = []
    count = 0

    def record(name: str, inputs: dict[str, Any]) -> None:
        nonlocal count
        count += 1
        if count == broken + 1:
            failed.append((name, inputs))
            raise Fault
        made.append((name, inputs))

    graph = built(case.net, record, runner)
    with _closing(stores()) as store:
        for number, (values, out) in enumerate(runs):
            made.clear()
            before = len(failed)
            result, ended = run_once(graph, runner, store, values, number, case)
            if len(failed) > before:
                if ended != "failed":
                    return f"run {number + 1} {ended} although a call failed"
                result, ended = run_once(graph, runner, store, values, number, case, again=True)
            if ended != out.ended:
                return f"run {number + 1} {ended}, and {out.ended} without a failure: {result.error}"
            if key(made) != key(out.calls):
                return (
                    f"run {number + 1} called {_beside(made, out.calls)}, missed {_beside(out.calls, made)}"
                )
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
