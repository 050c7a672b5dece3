"""Tests of stores whose processes are killed."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest

from hypergraph.checkpointers import Checkpointer, WorkflowStatus
from hypergraph.checkpointers.records import NewWorkflow
from hypergraph.exceptions import WorkflowLockedError
from hypergraph.testing.conformance.process import Another
from hypergraph.testing.conformance.samples import commit, opened, step

Other = Callable[[], Another]


class CrashTests:
    """What was acknowledged to a killed process is stored; what it held is free."""

    def test_a_live_owner_in_another_process_is_named(self, store: Checkpointer, other: Other) -> None:
        owner = other()
        assert owner.ask("claim w") == "done"
        with pytest.raises(WorkflowLockedError) as caught:
            opened(store)
        assert caught.value.pid == owner.process.pid
        assert caught.value.workflow_id == "w"

    def test_a_killed_owner_is_succeeded_and_its_death_is_told(
        self, store: Checkpointer, other: Other
    ) -> None:
        owner = other()
        owner.ask("claim w")
        owner.ask("step 0")
        owner.signal(signal.SIGKILL)
        claim = opened(store)
        assert claim.crashed
        assert claim.existing is not None
        assert claim.existing.crashes == {"": 1}
        assert len(store.steps("w")) == 1

    @pytest.mark.parametrize("heard", [0, 1, 7, 40])
    def test_what_a_killed_process_heard_of_is_stored_whole(
        self, store: Checkpointer, other: Other, heard: int
    ) -> None:
        owner = other()
        owner.ask("claim w")
        owner.say("steps 1000")
        acknowledged = [int(owner.hear()) for _ in range(heard)]
        owner.signal(signal.SIGKILL)
        found = store.steps("w")
        assert [record.superstep for record in found] == list(range(len(found)))
        assert len(found) >= len(acknowledged)
        assert [record.values for record in found] == [{"x": [n] * 100} for n in range(len(found))]
        if found:
            assert store.state("w") == {"x": [len(found) - 1] * 100}

    def test_a_workflow_goes_on_where_its_killed_owner_left_it(
        self, store: Checkpointer, other: Other
    ) -> None:
        for number in range(3):
            owner = other()
            assert owner.ask("claim w") == "done"
            assert owner.ask(f"step {number}") == "done"
            owner.signal(signal.SIGKILL)
        claim = opened(store)
        commit(store, claim, step(3, values={"y": 1}), status=WorkflowStatus.COMPLETED)
        assert [record.superstep for record in store.steps("w")] == [0, 1, 2, 3]
        assert store.workflow("w").status is WorkflowStatus.COMPLETED

    def test_an_owner_that_left_in_peace_did_not_crash(self, store: Checkpointer, other: Other) -> None:
        owner = other()
        owner.ask("claim w")
        owner.ask("release")
        owner.signal(signal.SIGKILL)
        assert not opened(store).crashed

    def test_an_owner_that_died_after_the_end_did_not_crash_the_workflow(
        self, store: Checkpointer, other: Other
    ) -> None:
        owner = other()
        owner.ask("claim w")
        owner.ask("status failed")
        owner.signal(signal.SIGKILL)
        assert not opened(store).crashed

    def test_crashes_are_counted_by_the_node_that_was_announced(
        self, store: Checkpointer, other: Other
    ) -> None:
        for superstep in range(3):
            owner = other()
            assert owner.ask("claim w") == "done"
            owner.ask(f"announce bomb {superstep}")
            owner.signal(signal.SIGKILL)
        claim = opened(store)
        assert claim.existing is not None
        assert claim.existing.crashes == {"bomb": 3}
        assert claim.running[-1] == (2, "bomb")
        store.backend.release(claim)
        forgiven = store.backend.claim("w", NewWorkflow(), store.encoding, force=True)
        assert forgiven.existing is not None
        assert forgiven.existing.crashes == {}

    def test_a_workflow_that_completes_is_forgiven_its_crashes(
        self, store: Checkpointer, other: Other
    ) -> None:
        owner = other()
        owner.ask("claim w")
        owner.ask("announce bomb 0")
        owner.signal(signal.SIGKILL)
        claim = opened(store)
        store.backend.write(store.encoding.commit(claim, status=WorkflowStatus.COMPLETED))
        store.backend.release(claim)
        again = opened(store)
        assert again.existing is not None
        assert (again.existing.crashes, again.running, again.crashed) == ({}, (), False)


class FenceTests:
    """An owner that was succeeded while it slept is refused when it wakes."""

    def test_a_stopped_owner_that_was_succeeded_by_force_is_refused_when_it_wakes(
        self, store: Checkpointer, other: Other
    ) -> None:
        zombie = other()
        zombie.ask("claim w")
        zombie.ask("step 0")
        zombie.signal(signal.SIGSTOP)
        with pytest.raises(WorkflowLockedError):
            opened(store)
        claim = store.backend.claim("w", NewWorkflow(), store.encoding, force=True)
        zombie.say("step 1")
        zombie.signal(signal.SIGCONT)
        assert zombie.hear() == "OwnershipLostError"
        assert zombie.ask("status failed") == "OwnershipLostError"
        commit(store, claim, step(1, values={"x": "mine"}))
        assert store.state("w") == {"x": "mine"}
        assert store.workflow("w").status is WorkflowStatus.ACTIVE

    def test_who_took_over_by_force_is_protected_after_the_zombie_is_gone(
        self, store: Checkpointer, other: Other
    ) -> None:
        zombie, successor = other(), other()
        zombie.ask("claim w")
        assert successor.ask("claim w force") == "done"
        zombie.signal(signal.SIGKILL)
        with pytest.raises(WorkflowLockedError):
            opened(store)

    def test_closing_the_store_keeps_what_it_claimed(self, store: Checkpointer, other: Other) -> None:
        claim = opened(store)
        store.close()
        rival = other()
        assert rival.ask("claim w") == "WorkflowLockedError"
        store.backend.release(claim)
        assert rival.ask("claim w") == "done"
