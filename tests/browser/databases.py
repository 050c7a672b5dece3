"""The databases the page is looked at with: `python -m browser.databases NAME FILE` writes one."""

from __future__ import annotations

import asyncio
import io
import json
import shutil
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from browser import graphs
from hypergraph import AsyncRunner, SqliteCheckpointer, SyncRunner
from hypergraph.demo import run_demo

LONG = 20_000  # steps
SHORT = 200
ITEMS = 1_000
ROUND = 3  # steps in one round of the loop


def write_long(file: Path) -> None:
    """A loop of 20,000 steps, one of 200, and a map of 1,000 items of which ten fail."""
    runner = SyncRunner(checkpointer=SqliteCheckpointer(file))
    for steps in (SHORT, LONG):
        values = {"n": 0, "until": steps // ROUND}
        runner.run(graphs.loop, values, workflow_id=f"loop-{steps}", max_iterations=LONG)
    tickets = [{"text": f"ticket {number} ", "number": number} for number in range(ITEMS)]
    options = {"map_over": "ticket", "error_handling": "continue"}
    runner.map(graphs.triage, ticket=tickets, workflow_id="batch", **options)
    runner.run(graphs.desk, ticket=tickets[:30], workflow_id="desk")


def write_stories(file: Path) -> None:
    """One small run of each kind."""
    store = SqliteCheckpointer(file, artifact_threshold=20_000)
    runner = SyncRunner(checkpointer=store)
    runner.run(graphs.loop, n=0, until=6, workflow_id="loop")
    runner.run(graphs.nest, seed=7, workflow_id="nest")
    broken = {"source": {"rows": 6, "name": "table"}, "by": 0}
    runner.run(graphs.shares, broken, workflow_id="broken", error_handling="continue")
    runner.run(graphs.deep_shares, broken, workflow_id="deep", error_handling="continue")
    runner.run(graphs.fetching, url="tea.example", workflow_id="retried", error_handling="continue")
    runner.run(graphs.library, size=1_900, workflow_id="lost")
    shutil.rmtree(f"{file}-artifacts")
    runner.run(graphs.library, size=2_000, workflow_id="library")
    runner.run(graphs.answers, question="tea", workflow_id="tea")
    for before, after in (("tea", "tea-b"), ("tea-b", "tea-c"), ("tea-c", "tea-d")):
        edited = {"documents": [f"a page for {after}"]}
        runner.run(graphs.answers, edited, fork_from=(before, 0), workflow_id=after, tags={"round": after})
    asyncio.run(_pause(store))


async def _pause(store: SqliteCheckpointer) -> None:
    await AsyncRunner(checkpointer=store).run(graphs.newsletter, topic="tea", workflow_id="newsletter")


def write_hostile(file: Path) -> None:
    """Runs whose every name, value and message is an attack, some of which no program of ours would write."""
    store = SqliteCheckpointer(file)
    runner = SyncRunner(checkpointer=store)
    for number, text in enumerate(graphs.NASTY):
        options = {"workflow_id": f"attack-{number}", "tags": {"note": text}, "error_handling": "continue"}
        runner.run(graphs.hostile, bait=text, **options)
    options = {"map_over": "bait", "key": "bait", "workflow_id": "many", "error_handling": "continue"}
    runner.map(graphs.hostile, bait=graphs.NASTY, **options)
    store.close()
    with closing(sqlite3.connect(file)) as database, database:
        keys = [key for (key,) in database.execute("SELECT key FROM workflows WHERE id LIKE 'attack%'")]
        for key, text in zip(keys, graphs.NASTY, strict=True):
            _plant(database, key, text)


def _plant(database: sqlite3.Connection, key: int, text: str) -> None:
    """Give a workflow, its first node and its values names that only an attacker writes."""
    (kept,) = database.execute(
        "SELECT graph FROM structures JOIN workflows ON digest = structure WHERE key = ?", (key,)
    ).fetchone()
    digest = key.to_bytes(32, "big")
    forged = kept.replace('"harvest"', json.dumps(text)).replace('"spoils"', json.dumps(text))
    database.execute("INSERT INTO structures (digest, graph) VALUES (?, ?)", (digest, forged))
    database.execute(
        "UPDATE workflows SET id = ?, graph_name = ?, structure = ? WHERE key = ?", (text, text, digest, key)
    )
    database.execute("UPDATE steps SET node = ? WHERE workflow = ? AND node = 'harvest'", (text, key))
    database.execute("UPDATE steps SET error_type = ? WHERE workflow = ? AND error IS NOT NULL", (text, key))
    database.execute("UPDATE vals SET node = ? WHERE workflow = ? AND node = 'harvest'", (text, key))
    database.execute("UPDATE vals SET name = ? WHERE workflow = ? AND name = 'spoils'", (text, key))


def write_chat(file: Path) -> None:
    """A chat of forty turns, in which three nodes append to one list."""
    runner = SyncRunner(checkpointer=SqliteCheckpointer(file))
    for number in range(40):
        given = {"messages": [{"role": "system", "content": "Be kind."}]} if number == 0 else {}
        runner.run(graphs.agent, said=f"question {number}", workflow_id="chat", **given)


def write_demo(file: Path) -> None:
    """What `hypergraph demo` leaves."""
    run_demo(str(file), io.StringIO())


WRITERS: dict[str, Callable[[Path], None]] = {
    "long": write_long,
    "stories": write_stories,
    "hostile": write_hostile,
    "demo": write_demo,
    "chat": write_chat,
}


if __name__ == "__main__":
    WRITERS[sys.argv[1]](Path(sys.argv[2]))
