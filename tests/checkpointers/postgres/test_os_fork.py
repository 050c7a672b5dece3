"""A Postgres store and the processes of a program: forks at the worst moment, and stores sent elsewhere."""

from __future__ import annotations

import gc
import os
import pickle
import threading
from pathlib import Path
from typing import Any

import pytest
from proofs.rivals import Child
from support.durable import Bodies, bodies, pipeline
from support.postgres import store_in

from hypergraph import SyncRunner
from hypergraph.checkpointers import CheckpointPolicy, MsgpackSerializer
from hypergraph.exceptions import OwnershipLostError, WorkflowLockedError
from hypergraph.testing.conformance.samples import commit, opened, step

__all__ = ["bodies"]  # fixture


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_in_the_middle_of_a_transaction_leaves_both_a_store_that_works(
    tmp_path: Path, bodies: Bodies
) -> None:
    store, inside, forked = store_in(tmp_path), threading.Event(), threading.Event()
    claim = opened(store, "claimed")

    def work(connection: Any) -> None:
        connection.execute("DELETE FROM erased")
        inside.set()
        forked.wait(30)

    thread = threading.Thread(target=store.backend.database.write, args=(work,))
    thread.start()
    inside.wait(30)
    run = SyncRunner(checkpointer=store).run

    def in_child() -> Any:
        for attempt, error in ((lambda: commit(store, claim, step(0)), OwnershipLostError),
                               (lambda: opened(store, "claimed"), WorkflowLockedError)):  # fmt: skip
            with pytest.raises(error):
                attempt()
        gc.collect()  # nothing of the parent's may be closed by it
        return run(pipeline(bodies), {"v0": 0}, workflow_id="child")["v5"]

    heard = Child(in_child).hear()
    forked.set()
    thread.join()
    assert heard == ("", 5)
    commit(store, claim, step(0, workflow_id="claimed"))
    assert run(pipeline(bodies), {"v0": 0}, workflow_id="parent")["v5"] == 5
    assert {workflow.id for workflow in store.workflows()} == {"claimed", "child", "parent"}
    store.backend.release(claim)


def test_a_store_can_be_sent_to_another_process(tmp_path: Path, bodies: Bodies) -> None:
    policy = CheckpointPolicy(durability="async", ttl=60)
    store = store_in(tmp_path, policy=policy, serializer=MsgpackSerializer())
    SyncRunner(checkpointer=store).run(pipeline(bodies), {"v0": 0}, workflow_id="w")
    sent = pickle.loads(pickle.dumps(store))
    assert (repr(sent), sent.policy, sent.encoding.serializer.id) == (repr(store), policy, "msgpack")
    assert sent.state("w") == store.state("w")
    assert SyncRunner(checkpointer=sent).run(pipeline(bodies), {"v0": 0}, workflow_id="v")["v5"] == 5
