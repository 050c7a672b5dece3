"""A model of a cluster: how a queue grows and shrinks when workers die or the database is away.

`python -m benchmarks.queue_model [--json FILE]` simulates workers with so many places each, runs that arrive
at random, and a database that does so many commits a second; FILE is what `benchmarks.dbos --json` wrote, by
default the file beside this one. The same seed gives the same table. It models whole runs: what a run
takes is its nodes and their commits, and a run whose worker dies goes on from the node it was at.
"""

from __future__ import annotations

import argparse
import heapq
import json
import random
import sys
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

MEASURED = Path(__file__).parent / "measured.json"
_FAR = float("inf")
HEADS = ("runs/s", "runs", "longest queue", "short after", "wait p50", "p95", "repeated")


@dataclass(frozen=True)
class Setting:
    """One cluster and what happens to it; times in seconds."""

    name: str
    load: float = 0.8  # of what the workers could do
    workers: int = 4
    places: int = 10  # runs at once in one worker
    nodes: int = 10
    node: float = 0.2  # what the functions of a node take
    commit: float = 0.0033  # seconds of a commit without other writers
    overhead: float = 0.028  # what a run takes beside its nodes: submitting, taking, recording its end
    commits: float = 2340.0  # a second, which the database does at most
    interval: float = 1.0  # between two looks at other workers
    polling: float = 0.1
    seconds: float = 600.0  # for which runs arrive
    dies: tuple[float, float, int] | None = None  # when, for how long, how many workers
    away: tuple[float, float] | None = None  # when, and for how long, the database
    burst: int = 0  # runs that are there at the beginning
    seed: int = 1

    @property
    def commit_under_load(self) -> float:
        """What a commit takes while others write: a server of one place, where who comes waits."""
        wanted = self.rate * self.nodes
        busy = min(0.99, wanted / self.commits)
        return self.commit / (1 - busy)

    @property
    def service(self) -> float:
        """What a run takes, without waiting for its turn."""
        return self.overhead + self.nodes * (self.node + self.commit)

    @property
    def rate(self) -> float:
        """The runs that arrive in a second."""
        return self.load * self.workers * self.places / self.service


@dataclass
class Course:
    """What became of it."""

    done: int = 0
    repeated: int = 0
    peak: int = 0
    peak_after: float = 0.0
    settled: float = 0.0  # when the queue was first short again after that
    waits: list[float] = field(default_factory=list)

    def wait(self, part: float) -> float:
        """Return how long that part of the runs waited at most."""
        ordered = sorted(self.waits)
        return ordered[min(len(ordered) - 1, int(part * len(ordered)))] if ordered else 0.0


class Simulation:
    """Events in order of time: runs arrive and end, workers die and come back."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.draw = random.Random(setting.seed)  # noqa: S311 - a model
        self.course = Course()
        self.queue: deque[tuple[float, float]] = deque()  # (when it came, what is left to do)
        self.live: dict[int, dict[int, tuple[float, float, float]]] = {w: {} for w in range(setting.workers)}
        self.events: list[tuple[float, int, str, int, int]] = []
        self.numbers = iter(range(sys.maxsize))

    def run(self) -> Course:
        """Simulate until everything has ended."""
        setting = self.setting
        for _ in range(setting.burst):
            self.queue.append((0.0, self._work()))
        self._at(self._gap(), "arrival")
        if setting.dies is not None:
            at, away, count = setting.dies
            for worker in range(count):
                self._at(at, "death", worker)
                self._at(at + away, "return", worker)
        self._begin(0.0)
        while self.events:
            now, _, kind, worker, number = heapq.heappop(self.events)
            getattr(self, f"_{kind}")(now, worker, number)
            self._begin(now)
        return self.course

    def _at(self, time: float, kind: str, worker: int = 0, number: int = 0) -> None:
        heapq.heappush(self.events, (time, next(self.numbers), kind, worker, number))

    def _gap(self) -> float:
        return self.draw.expovariate(self.setting.rate)

    def _work(self) -> float:
        """Draw what one run takes: its nodes differ by as much as they take."""
        setting = self.setting
        body = sum(self.draw.expovariate(1 / setting.node) for _ in range(setting.nodes))
        return setting.overhead + body + setting.nodes * setting.commit_under_load

    def _arrival(self, now: float, worker: int, number: int) -> None:
        self.queue.append((now, self._work()))
        if now < self.setting.seconds:
            self._at(now + self._gap(), "arrival")

    def _end(self, now: float, worker: int, number: int) -> None:
        if self.live.get(worker, {}).pop(number, None) is not None:
            self.course.done += 1

    def _death(self, now: float, worker: int, number: int) -> None:
        """Its runs are back in the queue when another has looked and a poll has found them."""
        noticed = now + self.draw.uniform(0, self.setting.interval) + self.setting.polling
        for came, begun, work in self.live.pop(worker).values():
            step = work / self.setting.nodes
            kept = int((now - begun) / step) * step  # whole nodes are written down
            self.course.repeated += 1
            self.queue.appendleft((came, max(step, work - kept) + noticed - now))

    def _return(self, now: float, worker: int, number: int) -> None:
        self.live[worker] = {}

    def _begin(self, now: float) -> None:
        """Give what waits to workers with a free place, and remember how long the queue was."""
        setting = self.setting
        resumes = self._resumes(now)
        if resumes > now:
            self._at(resumes, "look")
        else:
            for worker, live in self.live.items():
                while self.queue and len(live) < setting.places:
                    came, work = self.queue.popleft()
                    number = next(self.numbers)
                    begun = now + self.draw.uniform(0, setting.polling)
                    live[number] = (came, begun, work)
                    self.course.waits.append(begun - came)
                    self._at(self._ends(begun, work), "end", worker, number)
        if len(self.queue) > self.course.peak:
            self.course.peak, self.course.peak_after, self.course.settled = len(self.queue), now, _FAR
        elif len(self.queue) <= setting.places:
            self.course.settled = min(now, self.course.settled)

    def _look(self, now: float, worker: int, number: int) -> None:
        """The database is back."""

    def _resumes(self, now: float) -> float:
        away = self.setting.away
        return away[0] + away[1] if away and away[0] <= now < away[0] + away[1] else now

    def _ends(self, begun: float, work: float) -> float:
        """Nothing ends while the database is away: what is under way waits for it."""
        away = self.setting.away
        if away and begun < away[0] + away[1] and begun + work > away[0]:
            return begun + work + away[1]
        return begun + work


def settings(base: Setting) -> list[Setting]:
    """Return the cases of the table."""
    return [
        replace(base, name="half the load", load=0.5),
        replace(base, name="four fifths"),
        replace(base, name="nearly all", load=0.95),
        replace(base, name="1 of 4 workers dies, back after a minute", dies=(120, 60, 1)),
        replace(base, name="2 of 4 workers die, back after a minute", dies=(120, 60, 2)),
        replace(base, name="the database is away for 30 s", away=(120, 30)),
        replace(base, name="10,000 runs at once, on top", burst=10_000, seconds=3600.0),
    ]


def measured(found: Mapping[str, Any]) -> Setting:
    """Return a cluster with the figures that benchmarks.dbos has measured."""
    costs, commits = found["cost"], found["commits a second"][-1]
    overhead = costs["one of many short runs"]
    return replace(Setting(""), commit=costs["node"], overhead=overhead, commits=commits)


def figures(setting: Setting) -> tuple[str, ...]:
    """Simulate a case and return its line of the table."""
    found = Simulation(setting).run()
    return (
        *(setting.name, f"{setting.rate:.1f}", f"{found.done}", f"{found.peak}"),
        *(f"{found.settled - found.peak_after:.0f}s", f"{found.wait(0.5):.2f}s"),
        *(f"{found.wait(0.95):.2f}s", f"{found.repeated}"),
    )


def main(arguments: list[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Simulate a cluster of workers.")
    parser.add_argument("--json", type=Path, default=MEASURED, help="figures that benchmarks.dbos wrote")
    options = parser.parse_args(arguments)
    base = measured(json.loads(options.json.read_text()))
    print(f"{base.workers} workers, {base.places} runs each; {base.nodes} nodes of {base.node * 1e3:.0f} ms")
    print(f"commit {base.commit * 1e3:.2f} ms, {base.overhead * 1e3:.0f} ms a run beside its nodes\n")
    for name, *rest in [("", *HEADS), *map(figures, settings(base))]:
        print(f"{name:<42}" + "".join(f"{figure:>15}" for figure in rest))
    return 0


if __name__ == "__main__":
    sys.exit(main())
