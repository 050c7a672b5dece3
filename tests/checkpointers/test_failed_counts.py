"""Failed runs inside of others, counted by SQL and by a walk from run to run: both find the same."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest
from support.postgres import store_in

from hypergraph.checkpointers import Checkpointer, MemoryCheckpointer, SqliteCheckpointer, WorkflowStatus
from hypergraph.testing.conformance.samples import commit, opened


def ended(stores: list[Checkpointer], workflow_id: str, status: str, **more: Any) -> None:
    for store in stores:
        claim = opened(store, workflow_id, **more)
        commit(store, claim, status=WorkflowStatus(status))
        store.backend.release(claim)


def grow(rng: Random, stores: list[Checkpointer], around: str, depth: int, ids: list[str]) -> None:
    """Write nested graphs, some visited again, and maps below a run."""
    for name in rng.sample(["m", "n"], rng.randint(0, 2)):
        for visit in range(1, rng.randint(2, 4)):
            own = f"{around}/{name}" if visit == 1 else f"{around}/{name}#{visit}"
            status = rng.choice(["completed", "failed", "partial"])
            ended(stores, own, status, parent_id=around, node_name=name, visit=visit)
            ids.append(own)
            for item in range(rng.randint(0, 3)):
                inside = f"{own}/item-{item}"
                ended(stores, inside, rng.choice(["completed", "failed"]), parent_id=own, item=item)
                ids.append(inside)
                if depth:
                    grow(rng, stores, inside, depth - 1, ids)


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_sql_counts_what_a_walk_counts(tmp_path: Path, kind: str) -> None:
    store = SqliteCheckpointer(tmp_path / "runs.db") if kind == "sqlite" else store_in(tmp_path)
    stores, ids = [store, MemoryCheckpointer()], list[str]()
    for number in range(12):
        root = f"w{number or ''}"  # the first id is the beginning of the others
        ended(stores, root, "completed")
        ids.append(root)
        grow(Random(number), stores, root, 1, ids)
    for each in ids:
        by_sql, by_walk = (store.backend.count_failed([each]) for store in stores)
        assert by_sql == by_walk, each
    by_sql, by_walk = (store.backend.count_failed(ids) for store in stores)
    assert by_sql == by_walk
    assert len(by_sql) > 20
