"""Nodes called by the workers of a Dask cluster: real processes, one of which is killed now and then."""

from __future__ import annotations

import logging
import os
from contextlib import contextmanager

import pytest
from distributed import Client, LocalCluster
from support import away
from support.clusters import OnACluster, kind

from hypergraph import FunctionNode, Graph, SyncRunner
from hypergraph.exceptions import WorkerLostError

__all__ = ["kind"]  # a fixture
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # what Dask has to warn about is no business of these tests
]


@contextmanager
def started(workers):
    options = {"processes": True, "n_workers": workers, "threads_per_worker": 1, "dashboard_address": None}
    with LocalCluster(**options) as cluster, Client(cluster) as client:
        yield client


@pytest.fixture(scope="module")
def client():
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # it tells of every worker that dies
    with started(2) as client:
        yield client


@pytest.fixture(scope="module")
def cluster(client):
    return client.get_executor(pure=False)


class TestOnDask(OnACluster):
    def test_equal_calls_are_made_twice_even_where_dask_takes_functions_for_pure(self, client, tmp_path):
        notes = tmp_path / "notes"
        graph = Graph([FunctionNode(away.note, "note", "n")])
        runner = SyncRunner(executor=client.get_executor())
        runner.map(graph, path=[str(notes)] * 3, text="x", map_over="path")
        assert notes.read_text() == "xxx"

    def test_dask_itself_tries_again_and_we_leave_it_at_that(self, client, cluster, tmp_path):
        notes = tmp_path / "notes"
        with pytest.raises(WorkerLostError, match="KilledWorker"):
            SyncRunner(executor=cluster).run(Graph([away.die_always]), notes=str(notes))
        assert len(notes.read_text()) > 1  # how often is a setting of Dask; on a busy machine once less

    def test_fifty_megabytes_go_there_and_come_back(self):
        payload = os.urandom(50_000_000)
        graph = Graph([FunctionNode(lambda data: data[::-1], "turn", "turned")])
        # On a worker of its own: on a busy machine Dask may not replace those that other tests have killed.
        with started(1) as client:
            runner = SyncRunner(executor=client.get_executor(pure=False))
            assert runner.run(graph, data=payload)["turned"] == payload[::-1]
