"""What it costs to write a run down: beside a loop over bare sqlite3 that commits the same rows.

The loop by hand has the same tables in a file of its own and the same pragmas, and commits once per
superstep; its rows are ready-made, but for the key of the workflow and the values.

python -m benchmarks.durable
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.engine import Bar, chain_of
from benchmarks.measure import WIDTH, Case, measure, on_loop, plus_one
from hypergraph import AsyncRunner, FunctionNode, Graph, SyncRunner
from hypergraph.checkpointers import SqliteCheckpointer
from hypergraph.checkpointers.sql.columns import WRITTEN

LENGTH = 100
LIMITS = {"chain": 2.0, "siblings": 2.75}  # the second is a short run: its beginning and its end count too
Row = tuple[Any, ...]


def siblings() -> Graph:
    """Return a graph whose nodes all run beside each other."""
    nodes = [FunctionNode(plus_one, f"n{i}", f"v{i + 1}", rename_inputs={"x": "v0"}) for i in range(WIDTH)]
    return Graph(nodes, name="siblings")


def _insert(table: str, row: Row) -> str:
    return f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})"  # noqa: S608 - fixed names


class ByHand:
    """Commit what a run of ours left behind, superstep by superstep, under a new key each time.

    A statement of a user, if there is one, is in the commit of every step.
    """

    def __init__(self, store: SqliteCheckpointer, workflow_id: str, path: Path, statement: str = "") -> None:
        self.statement = statement
        with closing(sqlite3.connect(store.backend.location)) as ours:
            workflow = ours.execute("SELECT * FROM workflows WHERE id = ?", (workflow_id,)).fetchone()
            rows = "SELECT {} FROM {} WHERE workflow = ? ORDER BY idx"
            columns = ", ".join(WRITTEN[True])
            steps = ours.execute(rows.format(columns, "steps"), workflow[:1]).fetchall()
            values = ours.execute(rows.format("*", "vals"), workflow[:1]).fetchall()
        self.workflow, self.inputs = workflow, [row[1:] for row in values if row[1] == 1]
        outputs = [row for row in values if row[1] == 0]
        pairs = [(step[1:], value[1:-2]) for step, value in zip(steps, outputs, strict=True)]
        self.supersteps = [list(rows) for _, rows in groupby(pairs, key=lambda pair: pair[0][0])]
        self.put_step, self.put_value = _insert("steps", steps[0]), _insert("vals", values[0])
        tables = SqliteCheckpointer(path)
        tables.open()
        tables.close()
        self.connection = sqlite3.connect(path, isolation_level=None)
        self.connection.execute("PRAGMA synchronous = NORMAL")  # the journal mode stays in the file
        self.key = 0

    def run(self) -> int:
        """Do the work of one run."""
        execute, put_step, put_value = self.connection.execute, self.put_step, self.put_value
        statement = self.statement
        self.key = key = self.key + 1
        x = y = 0
        execute("BEGIN IMMEDIATE")
        execute(_insert("workflows", self.workflow), (key, f"w{key}", *self.workflow[2:]))
        for row in self.inputs:
            execute(put_value, (key, *row))
        execute("COMMIT")
        for superstep in self.supersteps:
            last = superstep is self.supersteps[-1]
            if last:
                execute("PRAGMA synchronous = FULL")
            execute("BEGIN IMMEDIATE")
            for step, value in superstep:
                y = plus_one(x)
                if statement:
                    execute(statement)
                execute(put_step, (key, *step))
                execute(put_value, (key, *value, json.dumps(y).encode(), None))
            if last:
                execute("UPDATE workflows SET status = 'completed' WHERE key = ?", (key,))
            execute("COMMIT")
            x = y
        execute("PRAGMA synchronous = NORMAL")
        return x

    async def run_awaited(self) -> int:
        """Do the same as a task of an event loop."""
        return self.run()


def durable_bars() -> list[Bar]:
    """Measure runs that are written down and return the bars."""
    loop = asyncio.new_event_loop()
    with TemporaryDirectory() as folder:
        bars = _bars(Path(folder), loop)
    loop.close()
    return bars


def _bars(folder: Path, loop: asyncio.AbstractEventLoop) -> list[Bar]:
    cases: dict[str, Case] = {}
    for name, graph, units in (
        ("chain", chain_of(LENGTH, plus_one), LENGTH),
        ("siblings", siblings(), WIDTH),
    ):
        store = SqliteCheckpointer(folder / f"{name}.db")
        sync, awaited = SyncRunner(checkpointer=store), AsyncRunner(checkpointer=store)
        sync.run(graph, {"v0": 0}, workflow_id="model")
        hand = ByHand(store, "model", folder / f"{name}-hand.db")
        cases[name, "sync by hand"] = Case(f"{name} by hand", hand.run, units)
        cases[name, "async by hand"] = Case(
            f"{name} by hand, awaited", on_loop(loop, hand.run_awaited), units
        )
        cases[name, "sync"] = Case(f"{name} sync", _running(sync, graph), units)
        cases[name, "async"] = Case(f"{name} async", on_loop(loop, _running(awaited, graph)), units)
    measure(list(cases.values()), rounds=40)
    titles = {
        "chain": f"chain of {LENGTH} written to SQLite",
        "siblings": f"{WIDTH} siblings written to SQLite",
    }
    return [
        Bar(
            f"{titles[name]}, {kind}, in commits by hand",
            case.nanoseconds / cases[name, f"{kind} by hand"].nanoseconds,
            LIMITS[name],
            case.nanoseconds,
        )
        for (name, kind), case in cases.items()
        if "by hand" not in kind
    ]


def _running(runner: Any, graph: Graph) -> Callable[[], Any]:
    return lambda: runner.run(graph, {"v0": 0})


if __name__ == "__main__":
    for bar in durable_bars():
        print(bar)
