"""Who may write a workflow in a SQLite store: the one live owner, whatever dies, stops or forks."""

import fcntl
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hypergraph.checkpointers import SqliteCheckpointer, WorkflowStatus
from hypergraph.checkpointers.records import NewWorkflow, Ownership
from hypergraph.checkpointers.sqlite import locks
from hypergraph.exceptions import OwnershipLostError, WorkflowLockedError
from hypergraph.testing.conformance.process import Another

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs signals"),
]


class Sqlite:
    """How the other processes make their store."""

    def make_store(self, folder: Path) -> SqliteCheckpointer:
        return SqliteCheckpointer(folder / "w.db")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "w.db"


@pytest.fixture
def other(path: Path) -> Iterator[Callable[[], Another]]:
    started: list[Another] = []

    def start() -> Another:
        started.append(Another(Sqlite, path.parent))
        return started[-1]

    yield start
    for process in started:
        process.end()


def claimed(path: Path, **options: Any) -> Ownership:
    return SqliteCheckpointer(path).backend.claim(
        "w", NewWorkflow(), SqliteCheckpointer(path).encoding, **options
    )


def test_the_child_of_a_fork_neither_owns_nor_frees_what_its_parent_claimed(
    path: Path, other: Callable[[], Another]
) -> None:
    store = SqliteCheckpointer(path)
    claim = store.backend.claim("w", NewWorkflow(), store.encoding)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            try:
                store.backend.claim("w", NewWorkflow(), store.encoding)
            except WorkflowLockedError:
                store.backend.release(claim)
                store.close()
                code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert other().ask("claim w") == "WorkflowLockedError"
    store.backend.write(store.encoding.commit(claim, status=WorkflowStatus.COMPLETED))


def test_two_processes_that_look_for_a_dead_owner_do_not_find_each_other(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, seen = fcntl.lockf, []

    def lockf(file: int, operation: int, *place: int) -> None:
        if operation == fcntl.LOCK_UN and not seen:  # this process has looked, and still holds the byte
            child = os.fork()
            if child == 0:
                monkeypatch.undo()
                os._exit(locks.LockFile(f"{path}-lock").lives(1, 1, 0, locks.HOST))
            seen.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        plain(file, operation, *place)

    Path(f"{path}-lock").touch()
    monkeypatch.setattr(fcntl, "lockf", lockf)
    assert not locks.LockFile(f"{path}-lock").lives(1, 1, 0, locks.HOST)
    assert seen == [False]


def test_without_file_locks_an_owner_lives_as_long_as_its_process(
    path: Path, other: Callable[[], Another], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "fcntl", None)
    owner = other()
    owner.ask("claim w")
    with pytest.raises(WorkflowLockedError):
        claimed(path)
    owner.signal(signal.SIGKILL)
    assert claimed(path).crashed


def test_without_file_locks_an_owner_on_another_host_counts_as_living(
    path: Path, other: Callable[[], Another], monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = other()
    owner.ask("claim w")
    owner.signal(signal.SIGKILL)
    monkeypatch.setattr(locks, "fcntl", None)
    monkeypatch.setattr(locks, "HOST", "elsewhere")
    with pytest.raises(WorkflowLockedError):
        claimed(path)


def test_a_stale_claim_cannot_even_change_the_status(path: Path) -> None:
    store = SqliteCheckpointer(path)
    old = store.backend.claim("w", NewWorkflow(), store.encoding)
    store.backend.claim("w", NewWorkflow(), store.encoding, force=True)
    with pytest.raises(OwnershipLostError):
        store.backend.write(store.encoding.commit(old, status=WorkflowStatus.FAILED))
    assert store.workflow("w").status is WorkflowStatus.ACTIVE
