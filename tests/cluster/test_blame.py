"""A run that kills its workers, and runs that were beside it: only the first is given up."""

from __future__ import annotations

import pytest

pytest.importorskip("dbos")

from support.dbos_cluster import TestCluster, gated

from hypergraph.exceptions import WorkflowError

__all__ = ["gated"]  # fixture

pytestmark = pytest.mark.slow
INNOCENT = [f"innocent-{number}" for number in range(8)]


def test_only_the_run_that_kills_its_workers_is_given_up(cluster: TestCluster) -> None:
    cluster.all("SELECT pg_advisory_lock(1)")
    for name in INNOCENT:
        cluster.runner.submit("holding", {"run": name, "gate": 1}, workflow_id=name)
    killing = cluster.runner.submit("killing", {"gate": 2, "others": len(INNOCENT)}, workflow_id="killing")
    kills = 0
    while not killing.done:
        if kills == 2:  # what is suspected runs one by one from now on
            cluster.all("SELECT pg_advisory_unlock(1)")
        (worker,) = cluster.start(f"w{kills}")
        cluster.until(lambda one=worker: one.process.poll() is not None or killing.done)
        kills += 1
    for name in INNOCENT:
        assert cluster.runner.result(name, timeout=300)["held"] == name
    with pytest.raises(WorkflowError, match="CrashLoopError"):
        killing.result()
    assert kills == 4
