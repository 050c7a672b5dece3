"""Clocks that stand still, run backwards or jump: order, resume, listing, prune and ttl stay right."""

from __future__ import annotations

import itertools
import random
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

from support.durable import STORES, Bodies, counting, pipeline, read
from support.running import On, OnAsync, OnSync

from hypergraph.checkpointers import Checkpointer, CheckpointPolicy, MemoryCheckpointer, SqliteCheckpointer
from hypergraph.testing import FakeClock
from proofs.outcome import Outcome, scaled
from proofs.rivals import told

NAME = "clock"
CENTURY = timedelta(days=36525)
DAY = timedelta(days=1)


class Erratic(FakeClock):
    """A clock that jumps by up to ten years, either way, whenever somebody looks at it."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._dice = random.Random(seed)

    def __call__(self) -> Any:
        self.tick = timedelta(seconds=self._dice.uniform(-1, 1) * 3e8)
        found = super().__call__()
        self.jump(-self.tick)  # so that it does not stray for ever
        return found


CLOCKS: dict[str, Callable[[int], FakeClock]] = {
    "frozen": lambda seed: FakeClock(),
    "backwards": lambda seed: FakeClock(tick=-3600.0),
    "a century ahead": lambda seed: _ahead(CENTURY),
    "a century behind": lambda seed: _ahead(-CENTURY),
    "erratic": Erratic,
}


def _ahead(span: timedelta) -> FakeClock:
    clock = FakeClock(tick=1e-6)
    clock.jump(span)
    return clock


@contextmanager
def opened(kind: str, **policy: Any) -> Iterator[Checkpointer]:
    """Open a new store."""
    made = CheckpointPolicy(**policy)
    with tempfile.TemporaryDirectory() as folder:
        store: Checkpointer = (
            MemoryCheckpointer(policy=made)
            if kind == "memory"
            else SqliteCheckpointer(Path(folder) / "w.db", policy=made)
        )
        yield store
        store.close()


def run_all(on: On, between: Callable[[], object]) -> list[str]:
    """Fail, resume, loop and fork, with something happening to the clock between; return what is wrong."""
    bodies, store = Bodies(), on.runner.checkpointer
    bodies.failing["s3"] = ValueError("broken")
    on.run(pipeline(bodies), {"v0": 0}, workflow_id="chain", error_handling="continue")
    bodies.failing.clear()
    between()
    on.run(counting(bodies), {"count": 0, "limit": 5}, workflow_id="loop")
    between()
    resumed = on.run(pipeline(bodies), workflow_id="chain")["v5"]
    between()
    forked = on.run(pipeline(bodies), workflow_id="fork", fork_from=("chain", 1))["v5"]
    wrong = [] if (resumed, forked, store.state("loop")["count"]) == (5, 5, 5) else [f"{resumed}, {forked}"]
    expected = ["s1", "s2", *(f"{name} {n}" for n in range(5) for name in ("again", "add")), "again 5"]
    expected += ["s3", "s4", "s5", "s3", "s4", "s5"]
    wrong += [] if bodies.ran == expected else [f"ran {bodies.ran}"]
    return wrong + _listing(store)


def _listing(store: Checkpointer) -> list[str]:
    ids = [workflow.id for workflow in store.workflows()]
    wrong = [] if ids == ["fork", "loop", "chain"] else [f"listed as {ids}"]
    for workflow_id in ids:
        steps = store.steps(workflow_id)
        if [step.index for step in steps] != list(range(len(steps))):
            wrong.append(f"the steps of {workflow_id} are out of order")
        if any((step.duration_ms or 0) < 0 for step in steps):
            wrong.append(f"a step of {workflow_id} took less than no time")
    return wrong


def pages(on: On) -> list[str]:
    """List in pages, which must neither repeat nor leave out anything."""
    bodies, store = Bodies(), on.runner.checkpointer
    for number in range(7):
        on.run(pipeline(bodies, 1), {"v0": number}, workflow_id=str(number))
    found, cursor = [], None
    while True:
        page = store.workflows(limit=2, cursor=cursor)
        found += [workflow.id for workflow in page]
        cursor = page.next_cursor
        if cursor is None:
            return [] if found == list("6543210") else [f"the pages hold {found}"]


def pruned(store: Checkpointer, on: On, clock: FakeClock) -> list[str]:
    """Prune by age: what ended long enough ago goes, whatever the clock did in between."""
    bodies = Bodies()
    on.run(pipeline(bodies, 1), {"v0": 0}, workflow_id="old")
    clock.jump(10 * DAY)
    on.run(pipeline(bodies, 1), {"v0": 0}, workflow_id="young")
    wrong = []
    clock.jump(-CENTURY)
    if gone := read(store, "prune"):
        wrong.append(f"before they were made, {gone} went")
    clock.jump(CENTURY)
    if (gone := read(store, "prune")) != ["old"]:
        wrong.append(f"after ten days, {gone} went")
    clock.jump(CENTURY)
    if (gone := read(store, "prune", "1d", dry_run=True)) != ["young"]:
        wrong.append(f"after a century, {gone} would go")
    if [w.id for w in store.workflows()] != ["young"]:
        wrong.append("something else is left")
    return wrong


def prove(scale: float = 1.0, seed: int = 0) -> Outcome:
    """Run, list and prune under every clock, on every store and runner."""
    outcome = Outcome(NAME)
    with outcome.timed():
        for number in range(scaled(20, scale)):
            for kind, name, make in itertools.product(STORES, CLOCKS, (OnSync, OnAsync)):
                outcome.count(_failure(kind, name, make, seed + number))
    return outcome


def _jump(clock: FakeClock, dice: random.Random) -> None:
    clock.jump(timedelta(days=dice.uniform(-9, 9)))


def _failure(kind: str, name: str, make: Any, seed: int) -> str | None:
    dice = random.Random(seed)

    def trial() -> list[str]:
        with CLOCKS[name](seed) as clock, opened(kind) as store:
            jump = partial(_jump, clock, dice)
            wrong = run_all(make(checkpointer=store), jump)
        with CLOCKS[name](seed), opened(kind) as store:
            wrong += pages(make(checkpointer=store))
        with FakeClock() as clock, opened(kind, ttl=5 * DAY) as store:
            return wrong + pruned(store, make(checkpointer=store), clock)

    error, wrong = told(trial)
    texts = [f"{error}: {wrong}"] if error else wrong
    return f"{name} clock, {kind}, {make.__name__}: {texts}; repeat with seed {seed}" if texts else None
