"""Nodes called by the workers of a Ray cluster on this machine."""

from __future__ import annotations

import os
import sys

import pytest
import ray
from support.clusters import OnACluster, kind

from hypergraph.integrations.executors import RayExecutor

__all__ = ["kind"]  # a fixture
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # what Ray has to warn about is no business of these tests
]


@pytest.fixture(scope="module")
def cluster():
    options = {"include_dashboard": False, "log_to_driver": False, "logging_level": "ERROR"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(sys.path))  # workers find the modules of the tests
        ray.init(num_cpus=2, object_store_memory=100_000_000, **options)
    try:
        with RayExecutor() as executor:
            yield executor
    finally:
        ray.shutdown()


class TestOnRay(OnACluster):
    def test_after_shutdown_nothing_is_accepted_and_ray_goes_on(self, cluster):
        with RayExecutor(num_cpus=0) as executor:
            future = executor.submit(os.getpid)
        assert future.result() != os.getpid()
        with pytest.raises(RuntimeError, match="after shutdown"):
            executor.submit(os.getpid)
        assert ray.is_initialized()
