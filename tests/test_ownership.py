"""Who may write a workflow in a SQLite store: the one live owner, whatever dies, stops or forks."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hypergraph.checkpointers import SqliteCheckpointer, StepRecord, StepStatus, WorkflowStatus, locks
from hypergraph.checkpointers.base import Ownership
from hypergraph.checkpointers.types import NewWorkflow
from hypergraph.exceptions import OwnershipLostError, WorkflowLockedError

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs signals"),
]

OTHER = """
import sys
from hypergraph.checkpointers import SqliteCheckpointer, StepRecord, StepStatus, WorkflowStatus
from hypergraph.checkpointers.types import NewWorkflow
from hypergraph.exceptions import CheckpointError
store = SqliteCheckpointer(sys.argv[1])
claim = None
print("up", flush=True)
for line in sys.stdin:
    word, *rest = line.split()
    try:
        if word == "claim":
            claim = store.claim(rest[0], NewWorkflow(), force="force" in rest)
        elif word == "announce":
            store.commit(claim, running=rest[0], at=int(rest[1]))
        elif word == "step":
            record = StepRecord(claim.workflow_id, int(rest[0]), "n", int(rest[0]), StepStatus.COMPLETED, {})
            store.commit(claim, [store.encode(record)])
        elif word == "status":
            store.commit(claim, status=WorkflowStatus(rest[0]))
        elif word == "release":
            store.release(claim)
        print("done", flush=True)
    except CheckpointError as error:
        print(type(error).__name__, flush=True)
"""


class Other:
    """Another process with a store on the same file."""

    def __init__(self, path: Path) -> None:
        command = [sys.executable, "-c", OTHER, str(path)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.hear() == "up"

    def hear(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def say(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def ask(self, line: str) -> str:
        self.say(line)
        return self.hear()

    def signal(self, number: int) -> None:
        self.process.send_signal(number)
        if number == signal.SIGKILL:
            self.process.wait()

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "w.db"


@pytest.fixture
def other(path: Path) -> Iterator[Callable[[], Other]]:
    started: list[Other] = []

    def start() -> Other:
        started.append(Other(path))
        return started[-1]

    yield start
    for process in started:
        process.end()


def claimed(path: Path, **options: Any) -> Ownership:
    return SqliteCheckpointer(path).claim("w", NewWorkflow(), **options)


def test_a_live_owner_in_another_process_is_named(path: Path, other: Callable[[], Other]) -> None:
    owner = other()
    assert owner.ask("claim w") == "done"
    with pytest.raises(WorkflowLockedError) as caught:
        claimed(path)
    assert (caught.value.pid, caught.value.host) == (owner.process.pid, locks.HOST)
    assert caught.value.workflow_id == "w"


def test_a_killed_owner_is_succeeded_and_its_death_is_told(path: Path, other: Callable[[], Other]) -> None:
    owner = other()
    owner.ask("claim w")
    owner.ask("step 0")
    owner.signal(signal.SIGKILL)
    store = SqliteCheckpointer(path)
    claim = store.claim("w", NewWorkflow())
    assert claim.crashed
    assert claim.existing is not None
    assert claim.existing.crashes == {"": 1}
    assert len(store.steps("w")) == 1


def test_an_owner_that_left_in_peace_did_not_crash(path: Path, other: Callable[[], Other]) -> None:
    owner = other()
    owner.ask("claim w")
    owner.ask("release")
    owner.signal(signal.SIGKILL)
    assert not claimed(path).crashed


def test_an_owner_that_died_after_the_end_did_not_crash_the_workflow(
    path: Path, other: Callable[[], Other]
) -> None:
    owner = other()
    owner.ask("claim w")
    owner.ask("status failed")
    owner.signal(signal.SIGKILL)
    assert not claimed(path).crashed


def test_a_stopped_owner_that_was_succeeded_by_force_is_refused_when_it_wakes(
    path: Path, other: Callable[[], Other]
) -> None:
    zombie = other()
    zombie.ask("claim w")
    zombie.ask("step 0")
    zombie.signal(signal.SIGSTOP)
    store = SqliteCheckpointer(path)
    with pytest.raises(WorkflowLockedError):
        store.claim("w", NewWorkflow())
    claim = store.claim("w", NewWorkflow(), force=True)
    zombie.say("step 1")
    zombie.signal(signal.SIGCONT)
    assert zombie.hear() == "OwnershipLostError"
    record = StepRecord("w", 1, "n", 1, StepStatus.COMPLETED, {}, values={"x": "mine"})
    store.commit(claim, [store.encode(record)])
    assert store.state("w") == {"x": "mine"}


def test_who_took_over_by_force_is_protected_after_the_zombie_is_gone(
    path: Path, other: Callable[[], Other]
) -> None:
    zombie = other()
    zombie.ask("claim w")
    successor = other()
    assert successor.ask("claim w force") == "done"
    zombie.signal(signal.SIGKILL)
    with pytest.raises(WorkflowLockedError):
        claimed(path)


def test_of_processes_that_race_for_a_workflow_one_wins(path: Path, other: Callable[[], Other]) -> None:
    racers = [other() for _ in range(3)]
    for number in range(15):
        for racer in racers:
            racer.say(f"claim w{number}")
        assert sorted(racer.hear() for racer in racers) == ["WorkflowLockedError"] * 2 + ["done"]


def test_closing_the_store_keeps_what_it_claimed(path: Path, other: Callable[[], Other]) -> None:
    store = SqliteCheckpointer(path)
    claim = store.claim("w", NewWorkflow())
    store.shut()
    rival = other()
    assert rival.ask("claim w") == "WorkflowLockedError"
    store.release(claim)
    assert rival.ask("claim w") == "done"


def test_the_child_of_a_fork_neither_owns_nor_frees_what_its_parent_claimed(
    path: Path, other: Callable[[], Other]
) -> None:
    store = SqliteCheckpointer(path)
    claim = store.claim("w", NewWorkflow())
    child = os.fork()
    if child == 0:
        code = 1
        try:
            try:
                store.claim("w", NewWorkflow())
            except WorkflowLockedError:
                store.release(claim)
                store.shut()
                code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert other().ask("claim w") == "WorkflowLockedError"
    store.commit(claim, status=WorkflowStatus.COMPLETED)


def test_crashes_are_counted_by_the_node_that_was_announced(path: Path, other: Callable[[], Other]) -> None:
    for superstep in range(3):
        owner = other()
        assert owner.ask("claim w") == "done"
        owner.ask(f"announce bomb {superstep}")
        owner.signal(signal.SIGKILL)
    store = SqliteCheckpointer(path)
    claim = store.claim("w", NewWorkflow())
    assert claim.existing is not None
    assert claim.existing.crashes == {"bomb": 3}
    assert claim.running[-1] == (2, "bomb")
    store.release(claim)
    forgiven = store.claim("w", NewWorkflow(), force=True)
    assert forgiven.existing is not None
    assert forgiven.existing.crashes == {}


def test_a_workflow_that_completes_is_forgiven_its_crashes(path: Path, other: Callable[[], Other]) -> None:
    owner = other()
    owner.ask("claim w")
    owner.ask("announce bomb 0")
    owner.signal(signal.SIGKILL)
    store = SqliteCheckpointer(path)
    claim = store.claim("w", NewWorkflow())
    store.commit(claim, status=WorkflowStatus.COMPLETED)
    store.release(claim)
    again = store.claim("w", NewWorkflow())
    assert again.existing is not None
    assert (again.existing.crashes, again.running, again.crashed) == ({}, (), False)


def test_without_file_locks_an_owner_lives_as_long_as_its_process(
    path: Path, other: Callable[[], Other], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "fcntl", None)
    owner = other()
    owner.ask("claim w")
    with pytest.raises(WorkflowLockedError):
        claimed(path)
    owner.signal(signal.SIGKILL)
    assert claimed(path).crashed


def test_without_file_locks_an_owner_on_another_host_counts_as_living(
    path: Path, other: Callable[[], Other], monkeypatch: pytest.MonkeyPatch
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
    old = store.claim("w", NewWorkflow())
    store.claim("w", NewWorkflow(), force=True)
    with pytest.raises(OwnershipLostError):
        store.commit(old, status=WorkflowStatus.FAILED)
    assert store.workflow("w").status is WorkflowStatus.ACTIVE
