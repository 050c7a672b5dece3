"""One process per library, measured in turns: a disturbance of the machine affects all of them alike."""

from __future__ import annotations

import json
import os
import selectors
import statistics
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from benchmarks.cases import Group, group_of
from benchmarks.environments import FOLDER, OURS, ROOT, Library

_PATIENCE = 300  # seconds until a worker counts as lost
_LAST = 5  # turns of a chat that are looked at, at least
_LEAST = 3  # slices of a case that is slower than its share of time
_OFF = {"HAMILTON_TELEMETRY_ENABLED": "false", "BURR_TELEMETRY_ENABLED": "false", "DO_NOT_TRACK": "1"}


@dataclass
class Figure:
    """What came out for one case in one size: seconds per call of every slice, and those of a bare call."""

    seconds: list[float] = field(default_factory=list)
    bare: list[float] = field(default_factory=list)
    bytes: int | None = None
    error: str | None = None

    @property
    def spent(self) -> float:
        return sum(self.seconds)

    def summary(self, parts: int) -> dict[str, Any]:
        """Return the best slice in microseconds and in bare calls, and how far the middle one is above it."""
        if self.error or not self.seconds:
            return {"error": self.error or "no time left"}
        best, bare = min(self.seconds), min(self.bare)
        found = {
            "us": best / parts * 1e6,
            "calls": best / parts / bare,
            "spread": statistics.median(self.seconds) / best - 1,
            "slices": len(self.seconds),
        }
        return found if self.bytes is None else found | {"bytes": self.bytes}


class Worker:
    """The process of one library, seen from outside."""

    def __init__(self, library: Library) -> None:
        self.library = library
        path = os.pathsep.join([str(ROOT), str(ROOT / "src")] if not library.packages else [str(ROOT)])
        FOLDER.mkdir(exist_ok=True)
        with (FOLDER / f"{library.module}.log").open("w") as log:
            self.process = subprocess.Popen(  # noqa: S603 - ourselves
                [library.python, "-m", "benchmarks.worker", library.module],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**os.environ, **_OFF, "PYTHONPATH": path},
                cwd=ROOT,
            )
        self.cases: list[str] = []
        self.dashes: dict[str, str] = {}

    def ask(self, do: str, **details: Any) -> dict[str, Any]:
        """Send a request and return the answer; a worker that died or hangs has an error to tell."""
        try:
            self.process.stdin.write(json.dumps({"do": do, **details}) + "\n")  # type: ignore[union-attr]
            self.process.stdin.flush()  # type: ignore[union-attr]
        except BrokenPipeError:
            return {"error": "its process ended"}
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)  # type: ignore[arg-type]
            if not selector.select(_PATIENCE):
                self.process.kill()
                return {"error": f"{do} took more than {_PATIENCE} seconds"}
        line = self.process.stdout.readline()  # type: ignore[union-attr]
        return json.loads(line) if line else {"error": f"its process ended: {self._last_words()}"}

    def _last_words(self) -> str:
        lines = (FOLDER / f"{self.library.module}.log").read_text(errors="replace").strip().splitlines()
        return lines[-1][:160] if lines else "without a word"

    def label(self, case: str) -> str:
        """Return how a case is called in tables: the library, and the variant if there is one."""
        variant = case.partition("/")[2]
        return f"{self.library.name}, {variant}" if variant else self.library.name


@contextmanager
def fleet(libraries: list[Library]) -> Iterator[tuple[list[Worker], dict[str, str]]]:
    """Start a worker for each library; yield those that answer, and why others do not."""
    workers, lost = [Worker(library) for library in libraries], {}
    try:
        for worker in workers:
            answer = worker.ask("cases")
            worker.cases, worker.dashes = answer.get("cases", []), answer.get("dashes", {})
            if "error" in answer:
                lost[worker.library.name] = f"did not run: {answer['error']}"
        yield [worker for worker in workers if worker.cases], lost
    finally:
        for worker in workers:
            worker.process.stdin.close()  # type: ignore[union-attr] - that ends it
            worker.process.wait()
            worker.process.stdout.close()  # type: ignore[union-attr]


Figures = dict[str, dict[int, Figure]]


def measured(
    workers: list[Worker], group: Group, sizes: tuple[int, ...], rounds: int, share: float
) -> Figures:
    """Measure a group in turns; a case that has used up its share of seconds sits out the later rounds."""
    turns = [
        (worker, case, size, Figure())
        for size in sizes
        for worker in workers
        for case in worker.cases
        if group_of(case) == group.name
    ]
    for worker, case, size, figure in turns:
        figure.error = worker.ask("open", case=case, size=size).get("error")
    for number in range(rounds):
        for worker, case, size, figure in turns if number % 2 else reversed(turns):
            if figure.error or (figure.spent > share and len(figure.seconds) >= _LEAST):
                continue
            _took(figure, worker.ask("slice", case=case, size=size))
    for worker in workers:
        worker.ask("close")
    return _by_label(turns)


def grown(workers: list[Worker], case_name: str, sizes: tuple[int, ...]) -> Figures:
    """Grow all libraries to one size before the next size; the last calls before it count."""
    cases = [(worker, case) for worker in workers for case in worker.cases if group_of(case) == case_name]
    found = []
    for size in sizes:
        turns = [(worker, case, size, Figure()) for worker, case in cases]
        counted = max(_LAST, size // 20)
        for worker, case in cases:
            worker.ask("grow", case=case, size=size - counted)
        for number in range(1, _LAST + 1):
            for worker, case, _, figure in turns:
                _took(figure, worker.ask("grow", case=case, size=size - counted + counted * number // _LAST))
        for worker, case, _, figure in turns:
            figure.bytes = worker.ask("weigh", case=case).get("bytes")
        found += turns
    return _by_label(found)


def _took(figure: Figure, answer: dict[str, Any]) -> None:
    figure.error = answer.get("error")
    if not figure.error:
        figure.seconds.append(answer["seconds"])
        figure.bare.append(answer["bare"])


def _by_label(turns: list[tuple[Worker, str, int, Figure]]) -> Figures:
    found: Figures = {}
    for worker, case, size, figure in turns:
        found.setdefault(worker.label(case), {})[size] = figure
    return found


def import_times(libraries: list[Library], rounds: int) -> dict[str, Figure]:
    """Start a fresh interpreter for each library in turn: with its import, and with nothing."""
    found = {library.name: Figure() for library in libraries}
    for number in range(rounds + 1):
        for library in libraries:
            with_it, without = _started(library, library.imports), _started(library, "pass")
            if number:  # the first round compiles and fills the caches of the disk
                found[library.name].seconds.append(with_it)
                found[library.name].bare.append(without)
    return found


def _started(library: Library, program: str) -> float:
    path = str(ROOT / "src") if library.name == OURS else ""
    started = time.perf_counter()
    command = [library.python, "-c", program]
    subprocess.run(command, env={**os.environ, **_OFF, "PYTHONPATH": path}, check=True)  # noqa: S603 - our words
    return time.perf_counter() - started
