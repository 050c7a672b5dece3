"""Stores with durability="best-effort": a failure is reported once, and the run continues."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.durable import Bodies, bodies, fail_once, pipeline, rows
from support.running import RUNNERS, On, OnAsync, OnSync

from hypergraph import Graph, node
from hypergraph.checkpointers import (
    CheckpointPolicy,
    FileArtifactStore,
    MemoryCheckpointer,
    SqliteCheckpointer,
)
from hypergraph.checkpointers.records import NewWorkflow
from hypergraph.exceptions import OwnershipLostError, StoreFullError, StoreUnavailableError

__all__ = ["bodies"]  # fixtures

STORES: dict[str, Callable[[Path], Any]] = {
    "memory": lambda path: MemoryCheckpointer(policy=CheckpointPolicy(durability="best-effort")),
    "sqlite": lambda path: SqliteCheckpointer(path / "w.db", durability="best-effort"),
}


@pytest.fixture(params=[OnSync, OnAsync], ids=RUNNERS)
def kind(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture(params=STORES)
def on(request: pytest.FixtureRequest, kind: Any, tmp_path: Path) -> On:
    made: On = kind(checkpointer=STORES[request.param](tmp_path))
    return made


class Disk:
    """A disk that fills up and is freed again: every write of a backend fails meanwhile."""

    def __init__(self, on: On, monkeypatch: pytest.MonkeyPatch, verbs: tuple[str, ...] = ("write",)) -> None:
        self.is_full = False
        self.tries = 0
        backend = on.runner.checkpointer.backend
        for verb in verbs:
            monkeypatch.setattr(backend, verb, self.guarded(getattr(backend, verb)))
        if "write" in verbs:
            monkeypatch.setattr(backend, "try_write", lambda commit: backend.write(commit) or True)

    def guarded(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def guarded(*args: Any, **options: Any) -> Any:
            if self.is_full:
                self.tries += 1
                raise StoreFullError("no space left")
            return call(*args, **options)

        return guarded


def reports(call: Callable[[], Any]) -> tuple[Any, list[str]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        return call(), [str(w.message) for w in caught]


def test_a_store_that_fails_midway_is_reported_once_and_the_run_ends(
    on: On, bodies: Bodies, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(on, monkeypatch)

    disks = [disk]

    def fill(v1: int) -> int:
        for first in disks[:1]:
            first.is_full = True
        return v1 + 1

    graph = Graph([*list(pipeline(bodies).iter_nodes())[:1], node(output_name="v2")(fill)])
    for number in range(3, 9):
        after = node(output_name=f"v{number}")(lambda value: value + 1)
        graph = graph.add_nodes(after.with_name(f"s{number}").with_inputs(value=f"v{number - 1}"))
    result, told = reports(lambda: on.run(graph, {"v0": 0}, workflow_id="w"))
    assert result["v8"] == 8
    (text,) = told
    assert "StoreFullError: no space left" in text
    assert "best-effort" in text
    assert disk.tries <= 4  # once when it is found, and at the end; not once for every step
    disk.is_full = False
    disks.clear()
    kept = [name for _, name, _ in rows(on.runner.checkpointer, "w")]
    assert kept in ([], ["s1"])  # a beginning of the history, without holes
    again, told = reports(lambda: on.run(graph, {"v0": 0}, workflow_id="w"))
    assert again["v8"] == 8
    assert told == []
    assert on.runner.checkpointer.workflow("w").status.value == "completed"


def test_what_could_not_be_written_is_written_at_the_end(
    on: On, bodies: Bodies, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(on, monkeypatch)

    @node(output_name="b")
    def full(a: int) -> int:
        disk.is_full = True
        return a + 1

    @node(output_name="c")
    def between(b: int) -> int:
        return b + 1

    @node(output_name="d")
    def free(c: int) -> int:
        disk.is_full = False
        return c + 1

    graph = Graph([full, between, free])
    result, told = reports(lambda: on.run(graph, {"a": 1}, workflow_id="w"))
    assert result["d"] == 4
    assert len(told) == 1
    assert rows(on.runner.checkpointer, "w") == [
        (0, "full", "completed"),
        (1, "between", "completed"),
        (2, "free", "completed"),
    ]
    assert on.runner.checkpointer.workflow("w").status.value == "completed"


def test_a_run_that_cannot_be_recorded_at_all_runs(
    on: On, bodies: Bodies, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(on, monkeypatch, ("claim", "write"))
    disk.is_full = True
    graph = pipeline(bodies)
    for options in ({}, {"workflow_id": "w"}):
        result, told = reports(lambda options=options: on.run(graph, {"v0": 0}, **options))
        assert result["v5"] == 5
        assert len(told) == 1
    found, told = reports(
        lambda: on.map(graph, {"v0": [0, 1]}, map_over="v0", workflow_id="batch", error_handling="continue")
    )
    assert [item["v5"] for item in found] == [5, 6]
    assert len(told) == 1
    assert on.runner.checkpointer.workflows() == []


def test_a_stored_run_continues_where_it_stopped_though_the_store_cannot_be_written(
    on: On, bodies: Bodies, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = pipeline(bodies)
    fail_once(on, bodies, graph, "s3", values={"v0": 0}, workflow_id="w")
    bodies.take()
    before = rows(on.runner.checkpointer, "w")
    disk = Disk(on, monkeypatch, ("claim", "write"))
    disk.is_full = True
    result, told = reports(lambda: on.run(graph, workflow_id="w"))
    assert result["v5"] == 5
    assert len(told) == 1
    assert bodies.take() == ["s3", "s4", "s5"]
    assert rows(on.runner.checkpointer, "w") == before
    disk.is_full = False
    result, told = reports(lambda: on.run(graph, workflow_id="w"))
    assert result["v5"] == 5
    assert told == []
    assert bodies.take() == ["s3", "s4", "s5"]


def test_nested_graphs_and_their_maps_run_too(
    on: On, bodies: Bodies, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(on, monkeypatch, ("claim", "write"))

    @node(output_name="xs")
    def make(n: int) -> list[int]:
        disk.is_full = True
        return list(range(n))

    @node(output_name="y")
    def double(x: int) -> int:
        return 2 * x

    inner = Graph([double], name="inner").as_node().with_inputs(x="xs").map_over("xs")
    result, told = reports(lambda: on.run(Graph([make, inner]), {"n": 3}, workflow_id="w"))
    assert result["y"] == [0, 2, 4]
    assert len(told) == 1
    disk.is_full = False
    again, _ = reports(lambda: on.run(Graph([make, inner]), {"n": 3}, workflow_id="w"))
    assert again["y"] == [0, 2, 4]


def test_a_database_that_cannot_be_opened_does_not_stop_a_run(
    kind: Any, tmp_path: Path, bodies: Bodies
) -> None:
    on = kind(checkpointer=SqliteCheckpointer(tmp_path / "none" / "w.db", durability="best-effort"))
    graph = pipeline(bodies)
    for options in ({}, {"workflow_id": "w"}):
        result, told = reports(lambda options=options: on.run(graph, {"v0": 0}, **options))
        assert result["v5"] == 5
        assert len(told) == 1
        assert "StoreUnavailableError" in told[0]
    with pytest.raises(StoreUnavailableError):  # there is nothing that it could start from
        on.run(graph, {"v0": 0}, fork_from=("w", None))


def test_a_large_value_without_a_place_is_lost_and_the_rest_is_kept(
    kind: Any, tmp_path: Path, bodies: Bodies, monkeypatch: pytest.MonkeyPatch
) -> None:
    artifacts = FileArtifactStore(tmp_path / "large")
    store = SqliteCheckpointer(
        tmp_path / "w.db", durability="best-effort", artifact_store=artifacts, artifact_threshold=100
    )

    def full(data: bytes, **_: Any) -> Any:
        raise StoreFullError("no space left")

    monkeypatch.setattr(artifacts, "put", full)

    @node(output_name="text")
    def large(n: int) -> str:
        return "x" * n

    @node(output_name="size")
    def measure(text: str) -> int:
        return len(text)

    result, told = reports(
        lambda: kind(checkpointer=store).run(Graph([large, measure]), n=999, workflow_id="w")
    )
    assert result["size"] == 999
    assert len(told) == 1
    first, second = store.steps("w")
    assert "no space left" in first.lost["text"]
    assert second.values == {"size": 999}


def test_another_owner_still_stops_the_run(on: On, bodies: Bodies) -> None:
    store = on.runner.checkpointer

    @node(output_name="b")
    def lose(a: int) -> int:
        store.backend.claim("w", NewWorkflow(), store.encoding, force=True)
        return a

    @node(output_name="c")
    def after(b: int) -> int:
        bodies.enter("after")
        return b

    with pytest.raises(OwnershipLostError):
        on.run(Graph([lose, after]), {"a": 1}, workflow_id="w")
    assert bodies.take() == []


def test_nodes_that_must_not_be_repeated_are_refused(on: On) -> None:
    @node(output_name="b", repeatable=False)
    def once(a: int) -> int:
        return a

    for graph in (Graph([once]), Graph([Graph([once], name="inner").as_node()])):
        with pytest.raises(ValueError, match=r"'once' must not be repeated.*best-effort"):
            on.run(graph, {"a": 1})
