"""The power goes after every call of a program that changes a file; what was not synced may be lost or torn.

Whatever is left, the store opens and is in order; what was acknowledged as safe from this is there; a call
that must not be repeated has not begun without being announced; and the program, started again, gives what it
always gives.
"""

from __future__ import annotations

import json
import random
import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from support.processes import started

from hypergraph.checkpointers.sqlite.database import Connection, Database
from proofs import kills, sample, shim
from proofs.images import Disk
from proofs.outcome import Outcome, scaled
from proofs.promises import Place, flaws_of, look
from proofs.sample import Manner

NAME = "loss of power"
_VARIANTS = 4  # images of each moment at scale 1
_RESUMED = 0.1  # the part of the images on which the program is started again
_ANNOUNCED = (
    """SELECT workflows.id, superstep, node FROM intents JOIN workflows ON workflows.key = workflow"""
)
_RECORDED = """SELECT workflows.id, superstep, node FROM steps JOIN workflows ON workflows.key = workflow"""


class Moment(NamedTuple):
    """When the power goes: after so many calls; which parts are left depends on the variant."""

    calls: int
    variant: int


class Known(NamedTuple):
    """What was known to the outside by then: the rows that are safe, and the calls of nodes."""

    safe: set[Place]
    lines: list[str]


def recorded(folder: Path, log: Path) -> kills.Whole:
    """Run the program and write down every call, every row that is safe and every body that begins."""
    plain = Database.write

    def write(self: Database, work: Callable[[Connection], Any], *, full: bool = False, **how: bool) -> Any:
        result = plain(self, work, full=full, **how)
        if full:
            rows = self.read(lambda connection: connection.execute(_RECORDED).fetchall())
            shim.mark("safe " + json.dumps(rows))
        return result

    sample.store_in(folder)
    Database.write = write  # type: ignore[method-assign, assignment]
    sample.heard.append(lambda line: shim.mark(f"body {line}"))
    shim.arm(folder / "store", log=log)
    given = sample.run(folder, Manner())
    shim.disarm()
    return kills.Whole(given, look(sample.store_in(folder)).history, [])


def _heard(calls: list[shim.Call]) -> Known:
    safe: set[Place] = set()
    lines = []
    for call in calls:
        kind, _, text = call.data.decode().partition(" ") if call.kind == "mark" else ("", "", "")
        if kind == "safe":
            safe = {(owner, superstep, node) for owner, superstep, node in json.loads(text)}
        elif kind == "body":
            lines.append(text)
    return Known(safe, lines)


def flaws_at(disk: Disk, known: Known, whole: kills.Whole, chance: random.Random, variant: int) -> list[str]:
    """Make an image and say what is wrong with it."""
    with sample.scratch() as folder:
        (folder / "store").mkdir()
        kept = {0: 0.0, 1: 1.0}.get(variant)
        disk.image(folder / "store", chance, kept)
        sample.remember(folder, known.lines)
        store = sample.store_in(folder)
        store.backend.open()
        seen = look(store)
        flaws = flaws_of(store, seen)
        expected = {place for place in known.safe if place[0] in seen.workflows or place[0] != "scrap"}
        flaws += [f"{place} was safe and is lost" for place in expected - seen.recorded]
        begun = {place for place in sample.places(known.lines) if place[2] == sample.ONCE}
        announced = seen.recorded | set(_announced(store.backend.location))
        flaws += [f"{place} began and nobody had said so" for place in begun - announced]
        store.close()
        if not flaws and chance.random() < _RESUMED:
            flaws = _resumed(folder, whole)
        store.close()
    return flaws


def _resumed(folder: Path, whole: kills.Whole) -> list[str]:
    found = kills.resumed(folder, Manner(mode="async"))  # what is not safe may have begun
    return kills.differences(whole, found)


def _announced(path: str) -> Iterator[Place]:
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'intents'").fetchone():
            yield from connection.execute(_ANNOUNCED).fetchall()


def checked(log: Path, root: str, whole: kills.Whole, moments: list[Moment], seed: int) -> list[str]:
    """Let the power go at some moments, in their order; return what is wrong."""
    calls, disk, position, failures = shim.calls_in(log), Disk(root), 0, []
    for moment in moments:
        for call in calls[position : moment.calls]:
            disk.take(call)
        position = moment.calls
        chance = random.Random(f"{seed} {moment.calls} {moment.variant}")
        try:
            flaws = flaws_at(disk, _heard(calls[:position]), whole, chance, moment.variant)
        except Exception as error:
            flaws = [f"{type(error).__name__}: {error}"]
        if flaws:
            repeat = f"power.once({tuple(moment)}, seed={seed})"
            failures.append(f"power lost at {moment}: {'; '.join(flaws)}. Repeat: {repeat}")
    return failures


def _moments(calls: list[shim.Call], scale: float, seed: int) -> list[Moment]:
    """Return the end of every call, several times; or some of these."""
    ends = [number for number, call in enumerate(calls, 1) if call.kind != "mark"]
    variants = range(scaled(_VARIANTS, scale, _VARIANTS))
    every = [Moment(end, variant) for end in ends for variant in variants]
    some = every if scale >= 1 else random.Random(seed).sample(every, scaled(len(every), scale))
    return sorted(some)


def _on_record(folder: Path) -> tuple[Path, str, kills.Whole]:
    log = folder / "log"
    with shim.shimmed() as elsewhere:
        whole = elsewhere(recorded, folder, log)
    return log, str(folder / "store"), whole


def once(moment: tuple[int, int], seed: int = 0) -> list[str]:
    """Repeat one case."""
    with sample.scratch() as folder:
        return checked(*_on_record(folder), [Moment(*moment)], seed)


def prove(scale: float = 1.0, seed: int = 0) -> Outcome:
    """Let the power go at every moment, or at some."""
    outcome = Outcome(NAME)
    if shim.compiler() is None:
        outcome.skipped = shim.MISSING
        return outcome
    with outcome.timed(), sample.scratch() as folder:
        log, root, whole = _on_record(folder)
        moments = _moments(shim.calls_in(log), scale, seed)
        half = (len(moments) + 1) // 2

        def part(some: list[Moment]) -> list[str]:
            with started() as elsewhere:
                found: list[str] = elsewhere(checked, log, root, whole, some, seed)
                return found

        with ThreadPoolExecutor(2) as pool:
            for failures in pool.map(part, [moments[:half], moments[half:]]):
                outcome.failures += failures
        outcome.cases = len(moments)
    return outcome
