"""Versions of graphs in a worker: which runs it takes, and what it says of others."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytest.importorskip("dbos")

import dbos

from hypergraph import Graph, SyncRunner, node
from hypergraph.checkpointers import MemoryCheckpointer
from hypergraph.integrations.dbos.calls import Call
from hypergraph.integrations.dbos.execution import Runs
from hypergraph.integrations.dbos.worker import graphs_by_name


@node(output_name="doubled")
def double(x: int) -> int:
    if x == "?":
        raise ValueError(x)
    return 2 * x


def graph(version: str | None, name: str = "g") -> Graph:
    return Graph([double], name=name, version=version)


def runs(*graphs: Graph) -> Runs:
    store: Any = MemoryCheckpointer()
    runner = SyncRunner(checkpointer=store)
    runner.run(graph("1"), x="?", workflow_id="first", error_handling="continue")  # unfinished
    runner.run(graph("1"), x=1, workflow_id="done")
    nothing: Any = None
    return Runs(nothing, store, graphs_by_name(graphs), nothing)


def graph_of(worker: Runs, call: Call) -> Graph:
    return worker.graph_of(call, asyncio.run(worker.look_up(call)))


def serves(worker: Runs, call: Call) -> bool:
    return worker.serves(call, asyncio.run(worker.look_up(call)))


def test_a_worker_takes_the_versions_that_it_has() -> None:
    one, two = graph("1"), graph("2")
    worker = runs(one, two)
    assert graph_of(worker, Call("g", "first")) is one
    assert graph_of(worker, Call("g", "new")) is two  # the last one gets what has no version
    assert graph_of(worker, Call("g", "new", version="1")) is one
    assert not serves(worker, Call("g", "new", version="3"))
    assert not serves(worker, Call("other", "new"))


def test_a_run_of_another_version_is_refused_with_what_to_do() -> None:
    worker = runs(graph("2"))
    assert not serves(worker, Call("g", "first"))
    with pytest.raises(
        dbos.PortableWorkflowError, match="pinned to version '1' of graph 'g'; the worker has '2'"
    ):
        graph_of(worker, Call("g", "first"))
    with pytest.raises(dbos.PortableWorkflowError, match="no graph 'h'"):
        graph_of(worker, Call("h", "first"))


def test_a_completed_run_is_of_no_version_any_more() -> None:
    one, two = graph("1"), graph("2")
    assert graph_of(runs(two), Call("g", "done")) is two
    both = runs(one, two)
    assert graph_of(both, Call("g", "done")) is two  # as of a new run
    assert graph_of(both, Call("g", "done", version="1")) is one
    assert not serves(runs(two), Call("g", "done", version="1"))


def test_graphs_need_different_names_or_versions() -> None:
    assert [*graphs_by_name([graph(None), graph(None, "h")])] == ["g", "h"]
    assert {*graphs_by_name({"a": graph("1"), "b": graph("1")})} == {"a", "a@1", "b", "b@1"}
    with pytest.raises(ValueError, match="give each a version"):
        graphs_by_name([graph("1"), graph("1")])
