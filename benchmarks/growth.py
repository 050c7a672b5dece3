"""What values that grow, and values that are large, cost: bytes on disk, peaks of memory, time to look back.

Large values are made, stored, taken up after a kill and looked at in processes of their own, so that each
shows its own peak.

python -m benchmarks.growth
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.engine import Bar
from benchmarks.measure import Case, bytes_of_file, measure, message
from hypergraph import END, Graph, SyncRunner, node, route
from hypergraph.checkpointers import JsonSerializer, MsgpackSerializer, SqliteCheckpointer

TURNS, MANY_TURNS, CALLS = 1_000, 3_000, 300
MEGABYTES = 200
KINDS = {"documents": JsonSerializer, "array": MsgpackSerializer, "array as JSON": JsonSerializer}


@node(output_name="messages")
def reply(messages: list[Any]) -> list[Any]:
    return [*messages, message(len(messages))]


@node(output_name="messages", append=True)
def answer(said: dict[str, str]) -> dict[str, str]:
    return said


@node(output_name="messages", append=True)
def note(number: int) -> dict[str, str]:
    return message(number)


@node(output_name="length")
def think(messages: list[Any]) -> int:
    return len(messages)


@node(output_name=("messages", "reply"), append="messages")
def say(number: int) -> tuple[dict[str, str], int]:
    return message(number), number


def chat_loop(store: SqliteCheckpointer, turns: int) -> list[Any]:
    """Run a chat of so many turns as one loop, as the workflow "chat"; return what was said."""

    @route(targets=["reply", END])
    def more(messages: list[Any]) -> Any:
        return "reply" if len(messages) < turns else END

    graph = Graph([reply, more], name="chat")
    runner = SyncRunner(checkpointer=store)
    result = runner.run(graph, messages=[message(0)], workflow_id="chat", max_iterations=3 * turns)
    said: list[Any] = result["messages"]
    return said


def chat_calls(store: SqliteCheckpointer, turns: int) -> list[Any]:
    """Run a chat with one call per turn, all on the id "chat"; return what was said."""
    graph, runner = Graph([answer], name="chat"), SyncRunner(checkpointer=store)
    said: list[Any] = []
    for number in range(turns):
        said = runner.run(graph, said=message(number), workflow_id="chat", new_turn=True)["messages"]
    return said


def bytes_of(store: SqliteCheckpointer) -> int:
    """Return what a store takes up, artifacts included."""
    store.close()
    artifacts = Path(store.backend.location + "-artifacts")
    return bytes_of_file(Path(store.backend.location)) + sum(
        f.stat().st_size for f in artifacts.rglob("*") if f.is_file()
    )


def json_size(value: Any) -> int:
    return len(json.dumps(value, separators=(",", ":")))


# --- chats -------------------------------------------------------------------------------------------


def chat_bars(
    folder: Path, turns: int = TURNS, many: int = MANY_TURNS, calls: int = CALLS
) -> tuple[list[Bar], SqliteCheckpointer]:
    """Measure what chats take up; return the store of the shorter one too."""
    loop, long, called = (SqliteCheckpointer(folder / f"{name}.db") for name in ("loop", "long", "calls"))
    said, more_said, all_said = chat_loop(loop, turns), chat_loop(long, many), chat_calls(called, calls)
    sizes = [bytes_of(store) for store in (loop, long, called)]
    bars = [
        Bar(f"bytes of {turns:,} turns of a loop, in the final list", sizes[0] / json_size(said), 4),
        Bar(f"bytes of {calls:,} calls on one id, in the final list", sizes[2] / json_size(all_said), 4),
        Bar(f"bytes of {many:,} turns, in those of {turns:,}", sizes[1] / sizes[0], 1.1 * many / turns),
    ]
    assert len(more_said) == many
    return bars, loop


def look_back_bars(store: SqliteCheckpointer, turns: int) -> list[Bar]:
    """Measure what reading an earlier state costs, against the last one; a turn takes two supersteps."""
    last = Case("last", lambda: store.state("chat"))
    places = {"first quarter": turns // 2, "middle": turns, "third quarter": 3 * turns // 2}
    cases = {name: Case(name, _reading(store, superstep)) for name, superstep in places.items()}
    measure([last, *cases.values()], rounds=10)
    return [
        Bar(f"state in the {name}, against the last", case.best / last.best, 3, case.nanoseconds)
        for name, case in cases.items()
    ]


def _reading(store: SqliteCheckpointer, superstep: int) -> Callable[[], Any]:
    return lambda: store.state("chat", superstep=superstep)


# --- turns -------------------------------------------------------------------------------------------


def turn_bars(folder: Path, turns: int = TURNS) -> list[Bar]:
    """Measure what late turns cost against early ones where nothing takes the list, and the bytes of all."""
    store = SqliteCheckpointer(folder / "turns.db")
    graph, runner = Graph([say], name="turns"), SyncRunner(checkpointer=store)
    times = []
    for number in range(turns):
        started = time.process_time()
        runner.run(graph, number=number, workflow_id="chat", select="reply")
        times.append(time.process_time() - started)
    early, late = (statistics.median(times[at - 20 : at]) for at in (30, turns))
    return [
        Bar(f"turn {turns:,}, in turn 20", late / early, 1.5, late * 1e9),
        Bar(f"bytes of {turns:,} turns, in the messages", _weight(folder, turns), 1.5),
    ]


def _weight(folder: Path, turns: int) -> float:
    """Return what a file takes up in which each turn adds a message, and no more, in those messages."""
    store = SqliteCheckpointer(folder / "messages.db")
    graph, runner = Graph([note], name="turns"), SyncRunner(checkpointer=store)
    for number in range(turns):
        said = runner.run(graph, number=number, workflow_id="chat")["messages"]
    return bytes_of(store) / json_size(said)


def nested_bars(folder: Path, turns: int = TURNS) -> list[Bar]:
    """Measure what a chat takes up that passes its history into a nested graph, against one without."""
    sizes = []
    for thinking in (think, Graph([think], name="think").as_node()):
        store = SqliteCheckpointer(folder / f"nested-{len(sizes)}.db")
        graph, runner = Graph([note, thinking], name="turns"), SyncRunner(checkpointer=store)
        for number in range(turns):
            runner.run(graph, number=number, workflow_id="chat", select="length")
        sizes.append(bytes_of(store))
    return [Bar(f"bytes of {turns:,} turns with a nested graph, in those without", sizes[1] / sizes[0], 2)]


# --- large values, in processes of their own ---------------------------------------------------------


def large_value(kind: str, megabytes: int) -> Any:
    """Return a value of that size, of which no part is shared with another."""
    if kind == "documents":
        return [{"id": i, "text": f"{i:08d} " + "lorem " * 165} for i in range(megabytes * 1000)]
    import numpy

    return numpy.arange(megabytes * 125_000, dtype=numpy.int64)


def large_graph(kind: str, dies: bool) -> Graph:
    """Return a graph with a large value and a node that takes it; that one dies, or nothing is made."""

    @node(output_name="value")
    def make(megabytes: int) -> Any:
        assert dies, "what is stored is not made again"
        return large_value(kind, megabytes)

    @node(output_name="length")
    def measure_it(value: Any) -> int:
        if dies:
            print(peak(), flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        return len(value)

    return Graph([make, measure_it], name="large")


def peak() -> int:
    """Return the most memory this process has had, in bytes."""
    status = Path("/proc/self/status")
    if status.exists():  # getrusage would count what the parent had when it started this process
        text = status.read_text(encoding="utf-8")
        return 1024 * int(text.partition("VmHWM:")[2].split()[0])
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def child(deed: str, path: str, kind: str, megabytes: int) -> None:
    """Do one thing to the workflow "large", and print the peak of it."""
    if kind != "documents":
        import numpy  # noqa: F401 - what it takes up by itself is not what is measured
    store = SqliteCheckpointer(path, serializer=KINDS[kind]())
    runner = SyncRunner(checkpointer=store)
    if deed == "die":
        runner.run(large_graph(kind, dies=True), megabytes=megabytes, workflow_id="large")
    elif deed == "resume":
        assert runner.run(large_graph(kind, dies=False), workflow_id="large", select="length")["length"]
    elif deed == "look":
        assert "large" in str(store.workflows())
        assert "make" in str(store.workflow("large"))
    print(peak())


def peak_of(deed: str, path: Path, kind: str, megabytes: int) -> int:
    """Return the peak of a child process that does one thing."""
    command = [sys.executable, "-m", "benchmarks.growth", deed, str(path), kind, str(megabytes)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)  # noqa: S603 - ours
    expected = -signal.SIGKILL if deed == "die" else 0
    assert done.returncode == expected, f"{deed} ended with {done.returncode}: {done.stderr}"
    return int(done.stdout)


def large_bars(folder: Path, kind: str, megabytes: int = MEGABYTES) -> list[Bar]:
    """Store a large value, be killed, take it up and look at it; measure memory and rows."""
    path, size = folder / f"{kind}.db", megabytes * 1_000_000
    nothing = peak_of("nothing", path, kind, megabytes)
    what = f"{megabytes} MB of {kind}"
    limits = {"die": ("stored", 3.5), "resume": ("resumed", 3.5), "look": ("listed", 0.2)}
    bars = []
    for deed, (name, limit) in limits.items():
        above = peak_of(deed, path, kind, megabytes) - nothing
        bars.append(Bar(f"{what}, {name}: peak, in its size", above / size, limit))
    return [*bars, Bar(f"{what}: largest row, in KB", largest_row(path) / 1000, 4)]


def largest_row(path: Path) -> int:
    """Return the bytes of the largest value or record in a database."""
    with closing(sqlite3.connect(path)) as connection:
        sizes = []
        for table in ("vals", "steps", "workflows"):
            columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
            total = " + ".join(f"coalesce(length(CAST({name} AS BLOB)), 0)" for name in columns)
            sizes.append(connection.execute(f"SELECT coalesce(max({total}), 0) FROM {table}").fetchone()[0])  # noqa: S608 - fixed names
    return int(max(sizes))


# --- all of it ---------------------------------------------------------------------------------------


def growth_bars() -> list[Bar]:
    """Measure everything and return the bars."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        bars, store = chat_bars(folder)
        bars += look_back_bars(store, TURNS)
        bars += turn_bars(folder)
        bars += nested_bars(folder)
        for kind in KINDS:
            bars += large_bars(folder, kind)
    return bars


if __name__ == "__main__":
    if len(sys.argv) > 1:
        child(*sys.argv[1:4], int(sys.argv[4]))  # type: ignore[call-arg] - the parent names all of them
    else:
        for bar in growth_bars():
            print(bar)
