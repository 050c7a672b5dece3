"""What it costs to record what happens inside of nodes: inner steps and transactions.

Inner steps are compared with stored nodes that do the same. Transactional nodes are compared with stored
nodes that commit the same statement through a connection of their own, and with a loop over bare sqlite3 that
commits it with ready-made rows of steps.

python -m benchmarks.inner
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.durable import ByHand
from benchmarks.engine import Bar, chain_of
from benchmarks.measure import Case, measure, plus_one
from hypergraph import FunctionNode, Graph, NodeContext, SyncRunner, node
from hypergraph.checkpointers import SqliteCheckpointer

LENGTH = 100
MOST_OF_A_STEP = 1.5
MOST_OF_A_COMMIT = 1.2
MOST_BY_HAND = 4  # in commits that Python code does nothing for
_UPDATE = "UPDATE accounts SET balance = balance + 1 WHERE name = 'ann'"


@node(output_name="total")
def call_tools(v0: int, ctx: NodeContext) -> int:
    """Add one as often as the chain does, each time in an inner step."""
    total = v0
    for _ in range(LENGTH):
        total = ctx.step(plus_one, total)
    return total


def inner_bars() -> list[Bar]:
    """Measure and return the bars."""
    with TemporaryDirectory() as folder:
        return [_step_bar(Path(folder)), *_transaction_bars(Path(folder))]


def _running(runner: SyncRunner, graph: Graph) -> Callable[[], Any]:
    return lambda: runner.run(graph, {"v0": 0})


def _step_bar(folder: Path) -> Bar:
    runner = SyncRunner(checkpointer=SqliteCheckpointer(folder / "steps.db"))
    nodes = Case("stored nodes", _running(runner, chain_of(LENGTH, plus_one)), LENGTH)
    steps = Case("inner steps", _running(runner, Graph([call_tools])), LENGTH)
    measure([nodes, steps], rounds=20)
    ratio = steps.nanoseconds / nodes.nanoseconds
    return Bar("inner step, in stored nodes", ratio, MOST_OF_A_STEP, steps.nanoseconds)


def _transaction_bars(folder: Path) -> list[Bar]:
    path = folder / "transactions.db"
    store = SqliteCheckpointer(path)
    store.open()
    _add_table(path)
    own = sqlite3.connect(path, isolation_level=None, timeout=30)
    own.execute("PRAGMA synchronous = NORMAL")

    def by_itself(x: int, ctx: NodeContext) -> int:
        own.execute("BEGIN IMMEDIATE")
        own.execute(_UPDATE)
        own.execute("COMMIT")
        return x + 1

    def together(x: int, ctx: NodeContext) -> int:
        ctx.connection.execute(_UPDATE)
        return x + 1

    def chain(func: Any, **options: Any) -> Graph:
        made = [
            FunctionNode(func, f"n{i}", f"v{i + 1}", rename_inputs={"x": f"v{i}"}, **options)
            for i in range(LENGTH)
        ]
        return Graph(made)

    runner, graph = SyncRunner(checkpointer=store), chain(together, transaction=True)
    runner.run(graph, {"v0": 0}, workflow_id="model")
    hand = ByHand(store, "model", folder / "hand.db", _UPDATE)
    _add_table(folder / "hand.db")
    bare = Case("commits by hand", hand.run, LENGTH)
    apart = Case("commits of their own, in stored nodes", _running(runner, chain(by_itself)), LENGTH)
    ours = Case("transactional nodes", _running(runner, graph), LENGTH)
    measure([bare, apart, ours], rounds=40)
    own.close()
    return [
        Bar(
            "transactional node, in a commit of its statement and a stored node",
            ours.nanoseconds / apart.nanoseconds,
            MOST_OF_A_COMMIT,
            ours.nanoseconds,
        ),
        Bar(
            "transactional node, in commits of its statement and its step by hand",
            ours.nanoseconds / bare.nanoseconds,
            MOST_BY_HAND,
        ),
    ]


def _add_table(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE accounts (name TEXT PRIMARY KEY, balance INTEGER)")
        connection.execute("INSERT INTO accounts VALUES ('ann', 0)")


if __name__ == "__main__":
    for bar in inner_bars():
        print(bar)
