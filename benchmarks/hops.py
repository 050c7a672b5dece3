"""Calls, files and transactions behind one question: what a reader has to follow, what a store has to do.

python -m benchmarks.hops [--files] [--json]

- resume: a stored graph of ten nodes that failed at the fifth, run again under the same id
- show: `hypergraph show` of that workflow

Each question is asked twice in this process, of two files that other processes have written. The second time
counts: imports do not, opening the store does. Calls are calls of functions of the package, hops those
of them that lead from one file of it to another. Transactions are those of SQLite: from BEGIN to its end, and
each statement outside of one, PRAGMA apart. The figures depend on nothing but the code, so that two commits
can be compared:

PYTHONPATH=/path/to/another/checkout/src python benchmarks/hops.py
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import io
import json
import sqlite3
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any

import hypergraph
from hypergraph import Graph, SyncRunner, node
from hypergraph.checkpointers import SqliteCheckpointer
from hypergraph.cli import main as command

PACKAGE = str(Path(hypergraph.__file__).parent)
NODES, FAILS_AT = 10, 5


class Calls:
    """A profile function: counts the calls of a package, by file, and those that change the file."""

    def __init__(self) -> None:
        self.files: Counter[str] = Counter()
        self.hops = 0

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        name = frame.f_code.co_filename
        if event != "call" or not name.startswith(PACKAGE):
            return
        self.files[name[len(PACKAGE) + 1 :]] += 1
        caller = frame.f_back
        while caller is not None and not caller.f_code.co_filename.startswith(PACKAGE):
            caller = caller.f_back  # through the standard library, as a decorator or an executor does
        self.hops += caller is not None and caller.f_code.co_filename != name


class Transactions:
    """The transactions of every SQLite connection that is opened inside of this context."""

    def __init__(self) -> None:
        self.reads = self.writes = self.statements = self.pragmas = self.connections = 0
        self._connect = sqlite3.connect

    def __enter__(self) -> Transactions:
        sqlite3.connect = self._traced
        return self

    def __exit__(self, *error: object) -> None:
        sqlite3.connect = self._connect

    def _traced(self, *arguments: Any, **options: Any) -> sqlite3.Connection:
        connection = self._connect(*arguments, **options)
        self.connections += 1
        connection.set_trace_callback(self._counter())
        return connection

    def _counter(self) -> Callable[[str], None]:
        is_open, last = False, ""

        def count(sql: str) -> None:
            nonlocal is_open, last
            if sql == last and sql.startswith(("INSERT", "UPDATE")):  # again for each part of a trigger
                return
            last = sql
            words = sql.split(None, 2)
            verb = words[0].upper().rstrip(";") if words else "--"
            if verb.startswith("--"):  # a statement of a trigger
                return
            self.statements += 1
            if verb == "BEGIN":
                is_open = True
                is_write = len(words) > 1 and words[1].upper().rstrip(";") in ("IMMEDIATE", "EXCLUSIVE")
                self.writes, self.reads = self.writes + is_write, self.reads + (not is_write)
            elif verb in ("COMMIT", "END", "ROLLBACK"):
                is_open = False
            elif verb == "PRAGMA":
                self.pragmas += 1
            elif not is_open:
                is_read = verb in ("SELECT", "WITH")
                self.reads, self.writes = self.reads + is_read, self.writes + (not is_read)

        return count


def chain() -> Graph:
    """Return ten nodes in a row; the fifth one fails until `WORKING` is set."""

    def step(number: int) -> Callable[..., int]:
        def add(value: int) -> int:
            if number == FAILS_AT and not WORKING.is_set():
                raise ConnectionError("the till does not answer")
            return value + 1

        return add

    nodes = [
        node(output_name=f"v{number}")(step(number))
        .with_name(f"n{number}")
        .with_inputs(value=f"v{number - 1}")
        for number in range(1, NODES + 1)
    ]
    return Graph(nodes, name="chain")


WORKING = threading.Event()
CHAIN = chain()


def fail(file: Path) -> None:
    """Store a run of the chain that fails at its fifth node."""
    WORKING.clear()
    runner = SyncRunner(checkpointer=SqliteCheckpointer(str(file)))
    runner.run(CHAIN, {"v0": 0}, workflow_id="order", error_handling="continue")


def resume(file: Path) -> None:
    """Run the chain again, under the same id and with a store that was just opened."""
    WORKING.set()
    runner = SyncRunner(checkpointer=SqliteCheckpointer(str(file)))
    assert runner.run(CHAIN, workflow_id="order")["v10"] == NODES


def show(file: Path) -> None:
    """Print the workflow as `hypergraph show` does."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        code = command(["--db", str(file), "show", "order"])
    assert code == 0
    assert "order" in said.getvalue()


@contextlib.contextmanager
def profiled(calls: Calls) -> Iterator[None]:
    """Profile this thread, and those that are started meanwhile."""
    gc.collect()  # else stores of others might be closed in between
    gc.disable()
    threading.setprofile(calls)
    sys.setprofile(calls)
    try:
        yield
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type] - as the documentation says
        gc.enable()


def measured(question: Callable[[Path], None], *before: Callable[[Path], None]) -> dict[str, Any]:
    """Return the figures of a question about a file that others have prepared."""
    with TemporaryDirectory() as folder:
        for name in ("warm.db", "measured.db"):
            file, calls = Path(folder, name), Calls()
            for each in before:  # in other processes: connections are shared inside of one
                subprocess.run([sys.executable, __file__, each.__name__, file], check=True)  # noqa: S603
            with Transactions() as transactions, profiled(calls):
                question(file)
    return {
        "calls": calls.files.total(),
        "files": len(calls.files),
        "hops": calls.hops,
        "transactions": transactions.reads + transactions.writes,
        "reads": transactions.reads,
        "writes": transactions.writes,
        "statements": transactions.statements,
        "pragmas": transactions.pragmas,
        "connections": transactions.connections,
        "by_file": dict(calls.files.most_common()),
    }


def main(arguments: list[str] | None = None) -> int:
    """Print the figures of both questions."""
    parser = argparse.ArgumentParser(description="Count calls, files and transactions of two questions.")
    parser.add_argument("prepare", nargs="*", help="fail or resume, and a file: only do that")
    parser.add_argument("--files", action="store_true", help="list the files, with the calls in each")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(arguments)
    if options.prepare:
        {"fail": fail, "resume": resume}[options.prepare[0]](Path(options.prepare[1]))
        return 0
    found = {"resume": measured(resume, fail), "show": measured(show, fail, resume)}
    if options.json:
        print(json.dumps(found, indent=2))
        return 0
    names = [name for name in found["show"] if name != "by_file"]
    print(f"{'':8}" + "".join(f"{name:>14}" for name in names))
    for question, figures in found.items():
        print(f"{question:8}" + "".join(f"{figures[name]:>14,}" for name in names))
        if options.files:
            for file, count in figures["by_file"].items():
                print(f"    {count:>6} {file}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
