"""What a cluster of workers costs and survives: `python -m benchmarks.dbos`.

Everything happens on one Postgres server of this program and in worker processes of their own, started as a
command line starts them. Ratios are of things that ran side by side on that server; the cost of a bare
INSERT and COMMIT on it is printed beside them.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))  # what starts workers there starts them here

import psycopg
from dbos import DBOS
from support.dbos_cluster import TestCluster
from support.postgres import server

from benchmarks.engine import Bar
from hypergraph import FunctionNode, Graph, SyncRunner
from hypergraph.checkpointers import PostgresCheckpointer
from hypergraph.integrations.dbos.cluster import session_address, url_of

_LONG = 300  # nodes of a run whose cost per node is measured
_BARE = """
CREATE TABLE bare (workflow BIGINT, superstep BIGINT, node TEXT, data BYTEA,
PRIMARY KEY (workflow, superstep, node))
"""
_SIZE = "SELECT pg_total_relation_size('hypergraph.steps') + pg_total_relation_size('hypergraph.vals')"
_RUN_SIZE = """
SELECT sum(pg_total_relation_size(c.oid))::float8
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind = 'r' AND (n.nspname = 'dbos' OR (n.nspname = 'hypergraph' AND c.relname = 'workflows'))
"""
_SHORT = 500  # runs of one node
_INTERVAL = 0.5  # seconds between two looks of a worker at the others


@contextmanager
def cluster_of(count: int, **environment: Any) -> Iterator[TestCluster]:
    """Yield a cluster of that many workers on a database of its own."""
    cluster = TestCluster()
    try:
        variables = {"TRACE_DSN": "", **{name: str(value) for name, value in environment.items()}}
        cluster.start(*(f"w{number}" for number in range(1, count + 1)), **variables)
        yield cluster
    finally:
        cluster.close()


def wait_for_the_disk() -> None:
    """Let the server of the tests wait for its disk, as any other does."""
    with psycopg.connect(server().dsn(), autocommit=True) as connection:
        connection.execute("ALTER SYSTEM RESET fsync")
        connection.execute("SELECT pg_reload_conf()")


def machine() -> dict[str, Any]:
    """Return where and when this is."""
    with psycopg.connect(server().dsn()) as connection:
        version = connection.info.server_version
    return {
        "date": time.strftime("%Y-%m-%d"),
        "python": platform.python_version(),
        "postgres": f"{version // 10_000}.{version % 10_000}",
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
    }


def bare(connection: psycopg.Connection[Any], workflow: int, rows: int) -> float:
    """Return the seconds that one row takes, inserted and committed by hand."""
    insert, data = "INSERT INTO bare VALUES (%s, %s, %s, %s)", b"1"
    started = time.perf_counter()
    for number in range(rows):
        connection.execute(insert, [workflow, number, f"n{number}", data], prepare=True)
    return (time.perf_counter() - started) / rows


def cost() -> dict[str, float]:
    """Return what a node and a run cost beside a bare row, in seconds."""
    nodes, rows, latencies = [], [], []  # medians count: a disk is not the same from one moment to the next
    with cluster_of(1, NODES=_LONG, NODE_SECONDS=0) as cluster:
        cluster.connection.execute(_BARE)
        for number in range(8):
            rows.append(bare(cluster.connection, number, _LONG))
            result = cluster.runner.run("chain", {"run": "x", "v0": 0}, workflow_id=f"long{number}")
            assert result[f"v{_LONG}"] == _LONG
            stored = cluster.runner.checkpointer.workflow(f"long{number}")
            assert stored is not None
            nodes.append((stored.duration_ms or 0) / 1000 / _LONG)
            started = time.perf_counter()
            cluster.runner.run("doubling", {"x": number})
            latencies.append(time.perf_counter() - started)
        size, before = cluster.one(_SIZE), cluster.one(_RUN_SIZE)
        started = time.perf_counter()
        submitted = [cluster.runner.submit("doubling", {"x": number}) for number in range(_SHORT)]
        for each in submitted:
            each.result()
        short = (time.perf_counter() - started) / _SHORT
        run_size = (cluster.one(_RUN_SIZE) - before) / _SHORT
        own = cluster.one("SELECT pg_total_relation_size('hypergraph.workflows')") / (_SHORT + 16)
    return {
        "bare row": statistics.median(rows),
        "node": statistics.median(nodes),
        "run": statistics.median(latencies),
        "one of many short runs": short,
        "bytes per step": size / (8 * _LONG),
        "bytes per run": run_size,
        "bytes per run of ours": own,
    }


def capacity(clients: int, seconds: float = 2.0) -> float:
    """Return the bare rows that so many clients commit in a second, each waiting for its own."""
    dsn, counts, over = server().create(), [], time.perf_counter() + seconds
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(_BARE)

    def work(client: int) -> None:
        count = 0
        with psycopg.connect(dsn, autocommit=True) as connection:
            while time.perf_counter() < over:
                bare(connection, client * 1_000_000 + count, 10)
                count += 10
        counts.append(count)

    with ThreadPoolExecutor(clients) as threads:
        list(threads.map(work, range(clients)))
    return sum(counts) / seconds


def bytes_of_values() -> dict[str, float]:
    """Return the bytes that the server keeps for a byte of a value of 64 KB."""
    size = 64 * 1024
    makers: dict[str, Callable[[int], Any]] = {
        "of random text": lambda number: os.urandom(size // 2).hex(),
        "of prose": lambda number: (f"{number} the quick brown fox jumps over the lazy dog. " * size)[:size],
        "of random bytes": lambda number: os.urandom(size),
    }
    found = {}
    for name, make in makers.items():
        store = PostgresCheckpointer(server().create())
        graph = Graph([FunctionNode(make, name="make", output_name="value")], name="making")
        runner = SyncRunner(checkpointer=store)
        for number in range(20):
            runner.run(graph, {"number": number}, workflow_id=f"w{number}")
        with psycopg.connect(store.backend.location) as connection:
            row = connection.execute("SELECT pg_total_relation_size('hypergraph.vals')").fetchone()
            found[f"stored bytes for a byte {name}"] = row[0] / (20 * size) if row else 0.0
        store.close()
    return found


def steps_of_dbos(steps: int = 200) -> float:
    """Return the seconds of one step of DBOS, in a workflow of DBOS in this process."""

    def nothing() -> int:
        return 1

    def workflow() -> None:
        for _ in range(steps):
            DBOS.run_step({"name": "nothing"}, nothing)

    url = url_of(session_address(server().create(), "steps"))
    DBOS(config={"name": "steps", "system_database_url": url, "log_level": "ERROR"})
    registered = DBOS.workflow(name="steps")(workflow)
    DBOS.launch()
    try:
        registered()
        started = time.perf_counter()
        registered()
        return (time.perf_counter() - started) / steps
    finally:
        DBOS.destroy()


def throughput(workers: int, runs: int = 48) -> float:
    """Return the runs of ten sleeping nodes that so many workers end in a second, four at once in each."""
    with cluster_of(0) as cluster:
        cluster.runner.queue("hypergraph", worker_concurrency=4)  # before a worker claims ten
        cluster.start(*(f"w{number}" for number in range(workers)), TRACE_DSN="", NODE_SECONDS="0.1")
        for number in range(runs):
            name = f"r{number}"
            cluster.runner.submit("chain", {"run": name, "v0": 0}, workflow_id=name)
        for number in range(runs):
            cluster.runner.result(f"r{number}")
        took = cluster.one("SELECT max(completed_at) - min(started_at_epoch_ms) FROM dbos.workflow_status")
        return runs / (took / 1000)


def survive(runs: int, every: float, seed: int) -> dict[str, float]:
    """Kill a random worker now and then while two of them work; return what came of it."""
    draw = random.Random(seed)  # noqa: S311 - it picks victims
    kills, in_flight, takeovers = 0, 0, []
    with cluster_of(0) as cluster:
        alive = cluster.start("a1", "a2", NODE_SECONDS="0.1")  # these tell which bodies ran
        names = [f"r{number}" for number in range(runs)]
        for name in names:
            cluster.runner.submit("chain", {"run": name, "v0": 0}, workflow_id=name)
        count = "SELECT count(*) FROM dbos.workflow_status WHERE status = %s"
        taken = count + " AND executor_id = %s"
        started = time.perf_counter()
        while cluster.one(count, "SUCCESS") < runs:
            time.sleep(every * draw.uniform(0.7, 1.3))
            if cluster.one(count, "SUCCESS") >= runs:
                break
            victim = draw.choice(alive)
            alive.remove(victim)
            victim.kill()
            at = time.perf_counter()
            in_flight += cluster.one(taken, "PENDING", victim.executor_id)
            cluster.until(
                partial(lambda name: not cluster.one(taken, "PENDING", name), victim.executor_id), 60
            )
            takeovers.append(time.perf_counter() - at)
            kills += 1
            alive += cluster.start(f"b{kills}", NODE_SECONDS="0.1")
        took = time.perf_counter() - started
        for name in names:
            assert cluster.runner.result(name)["v10"] == 10
        recorded = cluster.recorded()
        return {
            "seconds": took,
            "kills": kills,
            "completed": cluster.one(count, "SUCCESS"),
            "steps recorded": len(recorded),
            "steps recorded twice": sum(1 for found in recorded.values() if found > 1),
            "nodes in flight at a kill": in_flight,
            "bodies repeated": cluster.repeated(),
            "slowest takeover": max(takeovers, default=0.0),
        }


def cluster_bars(found: dict[str, Any]) -> list[Bar]:
    """Return what must hold."""
    costs, kills = found["cost"], found["kills"]
    repeated = kills["bodies repeated"] / max(1, kills["nodes in flight at a kill"])
    return [
        Bar("a node of DBOSRunner, against a bare INSERT and COMMIT", costs["node"] / costs["bare row"], 3),
        Bar("ideal speed-up of two workers, against what it was", 2 / found["speed-up"], 2 / 1.8),
        Bar("steps recorded twice", kills["steps recorded twice"], 0),
        Bar("bodies repeated, against nodes in flight", repeated, 1),
        Bar("slowest takeover, in intervals", kills["slowest takeover"] / _INTERVAL, 3),
    ]


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, and return 0 if everything holds."""
    parser = argparse.ArgumentParser(description="Measure a cluster of workers, and kill some.")
    parser.add_argument("--runs", type=int, default=200, help="runs of ten nodes while workers are killed")
    parser.add_argument("--every", type=float, default=1.0, help="seconds between two kills")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args(arguments)
    found: dict[str, Any] = {"machine": machine(), "short runs": _SHORT}
    print(", ".join(f"{name} {value}" for name, value in found["machine"].items()))
    wait_for_the_disk()
    found["cost"] = cost()
    for name, value in found["cost"].items():
        print(f"{name}: {value:.0f}" if "bytes" in name else f"{name}: {value * 1e3:.3f} ms")
    found["commits a second"] = [capacity(1), capacity(8)]
    print("bare commits a second: {:.0f} by one client, {:.0f} by eight".format(*found["commits a second"]))
    found["bytes"] = bytes_of_values()
    for name, value in found["bytes"].items():
        print(f"{name}: {value:.2f}")
    found["step of DBOS"] = steps_of_dbos()
    print(f"one step of DBOS: {found['step of DBOS'] * 1e3:.3f} ms")
    one, two = throughput(1), throughput(2)
    found |= {"runs a second": [one, two], "speed-up": two / one}
    print(f"runs a second: {one:.1f} by one worker, {two:.1f} by two")
    found["kills"] = survive(options.runs, options.every, options.seed)
    print("kills:", {name: round(value, 2) for name, value in found["kills"].items()})
    bars = cluster_bars(found)
    for bar in bars:
        print(bar)
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n")
    return 0 if all(bar.holds for bar in bars) else 1


if __name__ == "__main__":
    sys.exit(main())
