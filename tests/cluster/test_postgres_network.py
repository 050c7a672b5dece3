"""An owner whose line to the server is cut is succeeded, and refused when it is back; needs root on Linux."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest
from test_dbos_network import dsn, namespace, run  # noqa: F401 - fixtures

from hypergraph.checkpointers import PostgresCheckpointer
from hypergraph.checkpointers.records import Ownership
from hypergraph.exceptions import WorkflowLockedError
from hypergraph.testing.conformance.samples import commit, opened, step

IMPATIENT = (
    "?keepalives_idle=1&keepalives_interval=1&keepalives_count=2&tcp_user_timeout=2000&connect_timeout=2"
)
OWNER = """
import sys
from hypergraph.checkpointers import PostgresCheckpointer
from hypergraph.exceptions import CheckpointError
from hypergraph.testing.conformance.samples import commit, opened, step

store = PostgresCheckpointer(sys.argv[1])
store.backend.database.patience = 1.0
claim = opened(store)
commit(store, claim, step(0, values={"x": "zombie"}))
for number, _ in enumerate("up", 1):
    print("ready", flush=True)
    sys.stdin.readline()
    try:
        commit(store, claim, step(number, values={"x": "zombie"}))
        print("written", flush=True)
    except CheckpointError as error:
        print(type(error).__name__, flush=True)
"""


@pytest.mark.slow
def test_an_owner_that_is_cut_off_is_succeeded_and_refused_when_it_is_back(
    dsn: str,  # noqa: F811
    namespace: str,  # noqa: F811
) -> None:
    line = f"hgf{os.getpid()}"
    store = PostgresCheckpointer(dsn)
    store.backend.open()
    command = ["ip", "netns", "exec", namespace, sys.executable, "-c", OWNER, dsn + IMPATIENT]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as owner:
        assert owner.stdin is not None
        assert owner.stdout is not None
        assert owner.stdout.readline() == "ready\n"
        with pytest.raises(WorkflowLockedError):
            opened(store)
        run("ip", "-n", namespace, "link", "set", line, "down")
        owner.stdin.write("\n")
        owner.stdin.flush()
        assert owner.stdout.readline() == "StoreUnavailableError\n"
        claim = until_free(store)
        assert claim.crashed
        run("ip", "-n", namespace, "link", "set", line, "up")
        assert owner.stdout.readline() == "ready\n"
        owner.stdin.write("\n")
        owner.stdin.flush()
        assert owner.stdout.readline() == "OwnershipLostError\n"
        commit(store, claim, step(1, values={"x": "mine"}))
    assert [found.values for found in store.steps("w")] == [{"x": "zombie"}, {"x": "mine"}]
    store.backend.release(claim)
    store.close()


def until_free(store: PostgresCheckpointer) -> Ownership:
    """Claim the workflow as soon as the server has noticed that its owner is gone."""
    give_up = time.monotonic() + 60
    while True:
        try:
            return opened(store)
        except WorkflowLockedError:
            if time.monotonic() > give_up:
                raise
        time.sleep(0.1)
