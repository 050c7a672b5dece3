"""A store and the processes of a program: forks at the worst moment, and stores sent elsewhere."""

from __future__ import annotations

import os
import pickle
import sqlite3
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from proofs.rivals import Child
from support.durable import Bodies, bodies, pipeline

from hypergraph import SyncRunner
from hypergraph.checkpointers import CheckpointPolicy, MsgpackSerializer, SqliteCheckpointer
from hypergraph.checkpointers.sqlite.database import Database
from hypergraph.checkpointers.sqlite.migrations import MIGRATIONS, migrate, missing_migrations

__all__ = ["bodies"]  # fixture


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_in_the_middle_of_a_transaction_leaves_the_child_a_store_that_works(
    tmp_path: Path, bodies: Bodies, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, inside = SqliteCheckpointer(tmp_path / "w.db"), threading.Event()
    store.backend.open()

    def work(connection: Any) -> None:
        connection.execute("DELETE FROM structures")
        inside.set()
        threading.Event().wait(0.05)  # the fork comes meanwhile

    thread = threading.Thread(target=store.backend.database.write, args=(work,))
    thread.start()
    inside.wait()
    monkeypatch.setattr(Database, "timeout", 2.0)
    run = SyncRunner(checkpointer=store).run
    heard = Child(lambda: run(pipeline(bodies), {"v0": 0}, workflow_id="child")["v5"]).hear()
    thread.join()
    assert heard == ("", 5)
    assert run(pipeline(bodies), {"v0": 0}, workflow_id="parent")["v5"] == 5
    assert {workflow.id for workflow in store.workflows()} == {"child", "parent"}


def test_a_store_can_be_sent_to_another_process(tmp_path: Path, bodies: Bodies) -> None:
    policy = CheckpointPolicy(durability="async", ttl=60)
    store = SqliteCheckpointer(tmp_path / "w.db", policy=policy, serializer=MsgpackSerializer())
    SyncRunner(checkpointer=store).run(pipeline(bodies), {"v0": 0}, workflow_id="w")
    sent = pickle.loads(pickle.dumps(store))
    assert (sent.backend.location, sent.policy, sent.encoding.serializer.id) == (
        store.backend.location,
        policy,
        "msgpack",
    )
    assert sent.state("w") == store.state("w")
    assert SyncRunner(checkpointer=sent).run(pipeline(bodies), {"v0": 0}, workflow_id="v")["v5"] == 5


def test_a_file_that_another_process_creates_meanwhile_is_not_a_foreign_one(tmp_path: Path) -> None:
    path = tmp_path / "w.db"
    ours = sqlite3.connect(path, isolation_level=None)
    other = sqlite3.connect(path, isolation_level=None, timeout=0)

    def meanwhile(statement: str) -> None:
        if "sqlite_master" in statement:  # read last
            with suppress(sqlite3.OperationalError):  # it may have to wait for us
                migrate(other, str(path))

    ours.set_trace_callback(meanwhile)
    assert missing_migrations(ours, str(path)) in (0, len(MIGRATIONS))
    ours.close()
    other.close()
