"""Statistics and deletions over many workflows: as whole statements, with the results of single steps."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from hypergraph import Graph, InMemoryCache, NodeContext, SyncRunner, node
from hypergraph.checkpointers import Checkpointer, SqliteCheckpointer, StepStatus
from hypergraph.checkpointers.analysis import NodeStats
from hypergraph.checkpointers.sql import writes
from hypergraph.clock import now
from hypergraph.exceptions import WorkflowLockedError
from hypergraph.testing.conformance.samples import commit, opened, recorded, step


def store_of(kind: str, folder: Path) -> Checkpointer:
    if kind == "sqlite":
        return SqliteCheckpointer(folder / "runs.db")
    from support.postgres import server

    from hypergraph.checkpointers import PostgresCheckpointer

    return PostgresCheckpointer(server().create())


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    with store_of(request.param, tmp_path) as made:
        yield made


def rounded(found: Iterable[dict[str, NodeStats]]) -> list[dict[str, NodeStats]]:
    """Return statistics with times as sums in any order: a database adds them in its own."""
    return [
        {name: replace(stats, total_ms=round(stats.total_ms, 9)) for name, stats in each.items()}
        for each in found
    ]


def test_statistics_are_those_of_the_steps(store: Checkpointer, monkeypatch: pytest.MonkeyPatch) -> None:
    @node(output_name="doubled", cache=True)
    def double(x: int) -> int:
        return 2 * x

    @node(output_name="checked")
    def check(doubled: int, context: NodeContext) -> int:
        context.record(cost=0.5)
        if doubled == 6:
            raise ValueError("six")
        return doubled

    inner = Graph([double], name="inner")
    graph = Graph([inner.as_node(name="sub"), check], name="outer")
    runner = SyncRunner(checkpointer=store, cache=InMemoryCache())
    for x in (1, 1, 2, 3):
        runner.run(graph, x=x, workflow_id=f"w{x}-{len(store.workflows())}", error_handling="continue")
    first = store.workflows()[-1].id
    runner.run(graph, workflow_id="fork", fork_from=(first, 0))
    questions: list[dict[str, Any]] = [
        {},
        {"graph": "inner"},
        {"graph": "none"},
        {"node": "check"},
        {"since": now() - timedelta(hours=1)},
        {"since": now() + timedelta(hours=1)},
    ]
    quick = [store.stats(**question) for question in questions]
    monkeypatch.setattr(type(store.backend), "survey", lambda *_: None)
    assert rounded(quick) == rounded(store.stats(**question) for question in questions)
    assert (quick[0]["check"].count, quick[0]["check"].error_rate) == (5, 0.2)
    assert quick[0]["check"].usage == {"cost": 2.5}
    assert quick[0]["double"].cache_rate > 0


def test_many_workflows_and_a_long_one_are_deleted_in_parts(
    store: Checkpointer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writes, "_ROWS", 7)
    monkeypatch.setattr(writes, "_BATCH", 3)
    claim = opened(store, "long")
    commit(store, claim, *(step(n, workflow_id="long", values={"x": n}, index=n) for n in range(20)))
    store.backend.release(claim)
    for number in range(8):
        recorded(store, step(0, workflow_id=f"w{number}", values={"x": 1}), workflow_id=f"w{number}")
    recorded(store, step(0, workflow_id="kept", values={"x": 2}), workflow_id="kept")
    below = opened(store, "w3/n", parent_id="w3")
    ids = ["long", "none", *(f"w{number}" for number in range(8))]
    with pytest.raises(WorkflowLockedError):
        store.delete(*ids)
    assert len(store.workflows()) == 10
    store.backend.release(below)
    assert store.delete(*ids) == 10
    assert [found.id for found in store.workflows()] == ["kept"]
    assert store.state("kept") == {"x": 2}

    def left(connection: Any) -> list[int]:
        tables = ("steps", "vals", "erased")
        return [connection.execute(f"SELECT count(*) FROM {each}").fetchone()[0] for each in tables]

    backend: Any = store.backend
    assert backend.database.read(left)[0] == 1
    assert backend.database.read(left)[2] == 0
    assert [found.status for found in store.steps("kept")] == [StepStatus.COMPLETED]
