"""Cost of the web page and of `hypergraph show`: a polled writer, long lists, long histories, one screen.

python -m benchmarks.ui
"""

from __future__ import annotations

import http.client
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import NamedTuple
from urllib.parse import urlsplit

from benchmarks.engine import Bar, chain_of, plus_one
from benchmarks.measure import Case, measure
from benchmarks.stores import LARGE, SMALL, loop_of, workflows_of
from hypergraph import SyncRunner
from hypergraph.checkpointers import SqliteCheckpointer

STEPS = 300  # of the run that is written while others look
RUNS = 8  # of it, in a row
LONG = 20_000  # steps that a page draws
POLLED = ("workflow", "columns", "state", "steps")  # one thread each


class Page:
    """One connection to a server, kept open as a browser does."""

    def __init__(self, address: str) -> None:
        found = urlsplit(address)
        self._headers = {"Authorization": f"Bearer {found.fragment.removeprefix('token=')}"}
        self._connection = http.client.HTTPConnection("127.0.0.1", found.port or 0, timeout=60)

    def get(self, question: str) -> bytes:
        """Return the answer to a question; one about what is not there yet is an answer, too."""
        try:
            return self._ask(question)
        except http.client.RemoteDisconnected:  # idle for too long: a browser asks again
            self._connection.close()
            return self._ask(question)

    def _ask(self, question: str) -> bytes:
        self._connection.request("GET", f"/api/v1/{question}", headers=self._headers)
        return self._connection.getresponse().read()

    def __enter__(self) -> Page:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()


@contextmanager
def serving(database: Path) -> Iterator[str]:
    """Yield the address of a server."""
    code = "import sys; from hypergraph.cli import main; sys.exit(main())"
    with subprocess.Popen(  # noqa: S603 - this interpreter
        [sys.executable, "-c", code, "--db", str(database), "ui", "--no-open"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


@contextmanager
def polled(address: str, workflow_id: str) -> Iterator[list[int]]:
    """Ask all the time, in several threads, about one workflow; yield how often so far."""
    asked, is_over = [0] * len(POLLED), threading.Event()

    def poll(number: int) -> None:
        with Page(address) as page:
            while not is_over.is_set():
                page.get(f"{POLLED[number]}?id={workflow_id}")
                asked[number] += 1

    threads = [threading.Thread(target=poll, args=(number,), daemon=True) for number in range(len(POLLED))]
    for thread in threads:
        thread.start()
    try:
        yield asked
    finally:
        is_over.set()
        for thread in threads:
            thread.join()


class Watched(NamedTuple):
    """How long a run takes, as medians of what was done in turns."""

    against_alone: float  # times as long while it is asked about, as alone
    against_others: float  # and as while the same is asked about another file: processors are shared, too
    seconds: float
    questions: int


def watched_runs(folder: Path, steps: int, rounds: int) -> Watched:
    """Measure a run that is asked about all the time, by threads of another process.

    A server does not mind which file it reads: what differs between the two is what readers cost a writer.
    """
    own, other = folder / "own.db", folder / "other.db"
    with _writer(own, steps) as run, _writer(other, steps) as prepare:
        run("warm")
        prepare("other")
        with serving(own) as asked, serving(other) as asked_about_others:
            alone, watched, beside, questions = [], [], [], 0
            for number in range(rounds):
                alone.append(run(f"alone-{number}"))
                with polled(asked, f"watched-{number}-0") as counts:
                    watched.append(run(f"watched-{number}"))
                questions += sum(counts)
                with polled(asked_about_others, "other-0"):
                    beside.append(run(f"beside-{number}"))
    return Watched(_ratio(watched, alone), _ratio(watched, beside), median(watched), questions)


def _ratio(slow: list[float], quick: list[float]) -> float:
    return median(one / other for one, other in zip(slow, quick, strict=True))


@contextmanager
def _writer(database: Path, steps: int) -> Iterator[Callable[[str], float]]:
    with subprocess.Popen(  # noqa: S603 - this interpreter
        [sys.executable, "-m", "benchmarks.ui", str(database), str(steps)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        given, answers = process.stdin, process.stdout

        def run(workflow_id: str) -> float:
            given.write(f"{workflow_id}\n")
            given.flush()
            return float(answers.readline())

        yield run


def _write(database: str, steps: int) -> None:
    """Run a chain a few times for every name that comes in, and print how long one run took."""
    runner, graph = SyncRunner(checkpointer=SqliteCheckpointer(database)), chain_of(steps, plus_one)
    for line in sys.stdin:
        started = time.perf_counter()
        for number in range(RUNS):
            runner.run(graph, {"v0": 0}, workflow_id=f"{line.strip()}-{number}")
        print((time.perf_counter() - started) / RUNS, flush=True)


def list_bar(folder: Path, small: int = SMALL, large: int = LARGE) -> Bar:
    """Compare the first page of a long list with that of a short one."""
    files = [folder / f"list{count}.db" for count in (small, large)]
    for file, count in zip(files, (small, large), strict=True):
        workflows_of(file, count).close()
    with serving(files[0]) as short, serving(files[1]) as long, Page(short) as first, Page(long) as second:
        cases = [Case("list", partial(page.get, "workflows?limit=50")) for page in (first, second)]
        measure(cases, rounds=20)
    ratio = cases[1].best / cases[0].best
    return Bar(f"first page of {large:,} workflows, against {small:,}", ratio, 2, cases[1].nanoseconds)


def columns_bar(folder: Path, steps: int = LONG) -> Bar:
    """Compare a long history as a page draws it with its rows read by hand."""
    store = loop_of(folder / "long.db", steps)
    with serving(folder / "long.db") as address, Page(address) as page:
        by_hand = Case("by hand", lambda: store.backend.read_outlines("loop", limit=steps))
        over_http = Case("http", lambda: page.get("columns?id=loop"))
        measure([by_hand, over_http], rounds=10)
        size = len(page.get("columns?id=loop"))
    store.close()
    name = f"{steps:,} steps as columns ({size / steps:.0f} bytes a step), against reading them"
    return Bar(name, over_http.best / by_hand.best, 5, over_http.nanoseconds)


def show_bar(folder: Path, steps: int = 10) -> Bar:
    """Compare `hypergraph show` of a short run with `hypergraph ls`, each as a process of its own."""
    file = folder / "shown.db"
    store = SqliteCheckpointer(file)
    SyncRunner(checkpointer=store).run(chain_of(steps, plus_one), {"v0": 0}, workflow_id="run")
    store.close()
    code = "import sys; from hypergraph.cli import main; sys.exit(main())"

    compiled = {**os.environ, "PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(folder / "compiled")}

    def command(*words: str) -> Case:
        call = [sys.executable, "-c", code, "--db", str(file), *words]
        run = partial(subprocess.run, call, stdout=subprocess.DEVNULL, env=compiled, check=True)
        return Case(words[0], run)

    cases = [command("ls"), command("show", "run")]
    measure(cases, rounds=10)
    ratio = cases[1].best / cases[0].best
    return Bar(f"hypergraph show of {steps} steps, against hypergraph ls", ratio, 2.5, cases[1].nanoseconds)


def ui_bars() -> list[Bar]:
    """Measure everything and return the bars."""
    with TemporaryDirectory() as folder:
        found = watched_runs(Path(folder), STEPS, rounds=15)
        name = (
            f"a run of {STEPS} steps that is asked about ({found.against_alone:.2f} times as long as alone)"
        )
        writer = Bar(f"{name}, against others", found.against_others, 1.3, found.seconds * 1e9)
        return [writer, list_bar(Path(folder)), columns_bar(Path(folder)), show_bar(Path(folder))]


if __name__ == "__main__":
    if len(sys.argv) > 1:
        _write(sys.argv[1], int(sys.argv[2]))
    else:
        for bar in ui_bars():
            print(
                f"{bar.ratio:6.2f} (at most {bar.limit:g})  {bar.name}, {(bar.nanoseconds or 0) / 1e6:.1f} ms"
            )
