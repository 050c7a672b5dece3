"""The least that has to be done: plain Python and bare sqlite3, with no library."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.durable import ByHand, siblings
from benchmarks.engine import chain_of
from benchmarks.measure import WIDTH, bytes_of_file, message, on_loop, plus_one, plus_one_async, scratch
from hypergraph import SyncRunner
from hypergraph.checkpointers import SqliteCheckpointer

Work = Callable[[], Any]


def chain(size: int) -> Work:
    def work() -> int:
        x = 0
        for _ in range(size):
            x = plus_one(x)
        return x

    return work


def chain_async(size: int) -> Work:
    async def run() -> int:
        x = 0
        for _ in range(size):
            x = await plus_one_async(x)
        return x

    return on_loop(asyncio.new_event_loop(), run)


def loop(size: int) -> Work:
    def work() -> int:
        n = plus_one(0)
        while n < size:
            n = plus_one(n)
        return n

    return work


def map_items(size: int) -> Work:
    return lambda: [plus_one(plus_one(plus_one(x))) for x in range(size)]


def nested(size: int) -> Work:
    return chain(3 * size)


def failure(_: int) -> Work:
    def fail(x: int) -> int:
        raise ValueError("boom")

    def work() -> str:
        try:
            fail(1)
        except ValueError as error:
            return str(error)
        return ""

    return work


def parallel(_: int) -> Work:
    return lambda: sum([plus_one(0) for _ in range(WIDTH)])


def parallel_async(_: int) -> Work:
    async def run() -> int:
        return sum(await asyncio.gather(*(plus_one_async(0) for _ in range(WIDTH))))

    return on_loop(asyncio.new_event_loop(), run)


def hand_of(graph: Any) -> ByHand:
    """Return what commits the rows of a run of this graph."""
    store = SqliteCheckpointer(scratch("model.db"))
    SyncRunner(checkpointer=store).run(graph, {"v0": 0}, workflow_id="model")
    return ByHand(store, "model", Path(scratch("hand.db")))


def durable(size: int) -> Work:
    return hand_of(chain_of(size, plus_one)).run


def durable_parallel(_: int) -> Work:
    hand = hand_of(siblings())
    return lambda: WIDTH * hand.run()


def chat() -> tuple[Work, Callable[[], int]]:
    """Read what was said, add a row, commit."""
    path = scratch("chat.db")
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("CREATE TABLE said (number INTEGER PRIMARY KEY, message BLOB)")

    def turn() -> int:
        rows = connection.execute("SELECT message FROM said ORDER BY number")
        messages = [json.loads(row[0]) for row in rows]
        connection.execute(
            "INSERT INTO said VALUES (?, ?)", (len(messages), json.dumps(message(len(messages))).encode())
        )
        return len(messages) + 1

    return turn, lambda: bytes_of_file(path)


CASES: dict[str, Callable[[int], Work]] = {
    "chain": chain,
    "chain_async": chain_async,
    "loop": loop,
    "map": map_items,
    "nested": nested,
    "failure": failure,
    "parallel": parallel,
    "parallel_async": parallel_async,
    "durable": durable,
    "durable_parallel": durable_parallel,
}
GROWING = {"chat": chat}
DASHES = {"state": "", "listing": ""}
