"""Tests of claims and commits."""

from __future__ import annotations

import pytest

from hypergraph import PauseInfo
from hypergraph.checkpointers import Checkpointer, StepStatus, WorkflowStatus
from hypergraph.checkpointers.background import Writer
from hypergraph.checkpointers.records import Commit, NewWorkflow, Ownership
from hypergraph.exceptions import CheckpointError, OwnershipLostError, WorkflowLockedError
from hypergraph.testing.conformance.samples import commit, given, opened, step


class CommitTests:
    """A commit is written whole or not at all, and history is only added to."""

    def test_a_commit_is_all_or_nothing(self, store: Checkpointer) -> None:
        claim = opened(store)
        commit(store, claim, step(0))
        with pytest.raises(OwnershipLostError):
            commit(store, claim, step(1), step(0), inputs={"x": (1, 1)}, status=WorkflowStatus.FAILED)
        assert len(store.steps("w")) == 1
        assert given(store, "w") == {}
        assert store.workflow("w").status is WorkflowStatus.ACTIVE

    def test_a_long_commit_is_all_or_nothing_too(self, store: Checkpointer) -> None:
        claim, many = opened(store), 50
        commit(store, claim, step(many - 10))
        with pytest.raises(OwnershipLostError, match="recorded already"):
            commit(store, claim, *(step(number, values={"x": number}) for number in range(many)))
        assert [found.superstep for found in store.steps("w")] == [many - 10]
        later = [step(many + number, values={"x": number, "y": "z"}) for number in range(many)]
        commit(store, claim, *later, inputs={"q": (1, 1)}, status=WorkflowStatus.COMPLETED, duration_ms=1)
        assert [found.values for found in store.steps("w")[1:]] == [record.values for record in later]
        assert (store.workflow("w").status, given(store, "w")) == (WorkflowStatus.COMPLETED, {"q": (1, 1)})

    @pytest.mark.parametrize("status", [s for s in StepStatus if s is not StepStatus.PAUSED])
    def test_a_recorded_step_is_never_replaced(self, store: Checkpointer, status: StepStatus) -> None:
        claim = opened(store)
        commit(store, claim, step(0, values={"x": 1}, status=status))
        with pytest.raises(OwnershipLostError, match="recorded already"):
            commit(store, claim, step(0, values={"x": 2}))
        assert store.steps("w")[0].values == {"x": 1}

    def test_a_pause_is_completed_in_place(self, store: Checkpointer) -> None:
        claim = opened(store)
        commit(store, claim, step(0, status=StepStatus.PAUSED, pause=PauseInfo("n", "x"), values={"z": 1}))
        commit(store, claim, step(0, values={"x": 2}))
        (found,) = store.steps("w")
        assert (found.status, found.values, found.pause) == (StepStatus.COMPLETED, {"x": 2}, None)

    def test_a_full_commit_reads_like_any_other(self, store: Checkpointer) -> None:
        commit(store, opened(store), step(0, values={"x": 1}), full=True)
        assert store.state("w") == {"x": 1}

    def test_status_and_duration_are_on_the_workflow(self, store: Checkpointer) -> None:
        claim = opened(store, graph_name="g", graph={"nodes": ["n"]}, tags={"k": "v"}, node_hashes={"n": "h"})
        commit(store, claim, step(0), status=WorkflowStatus.FAILED, duration_ms=5.0)
        found = store.workflow("w")
        assert (found.status, found.duration_ms, found.step_count) == (WorkflowStatus.FAILED, 5.0, 1)
        assert (found.graph, found.tags, found.node_hashes) == ({"nodes": ["n"]}, {"k": "v"}, {"n": "h"})
        assert found.completed_at is not None
        store.backend.write(store.encoding.commit(claim, status=WorkflowStatus.ACTIVE))
        assert store.workflow("w").completed_at is None

    def test_the_version_of_the_code_is_kept_until_other_code_is_recorded(self, store: Checkpointer) -> None:
        claim = opened(store, graph={"nodes": ["n"]}, node_hashes={"n": "h"}, version="1")
        commit(store, claim, step(0), status=WorkflowStatus.PAUSED)
        assert store.workflow("w").version == "1"
        for version in ("2", None):
            code = NewWorkflow(graph={"nodes": ["m"]}, node_hashes={"m": "h"}, version=version)
            store.backend.write(store.encoding.commit(claim, code=code))
            found = store.workflow("w")
            assert (found.version, found.graph, found.node_hashes) == (version, {"nodes": ["m"]}, {"m": "h"})
            assert (found.status, found.step_count) == (WorkflowStatus.PAUSED, 1)

    def test_commits_in_a_group_stand_or_fall_by_themselves(self, store: Checkpointer) -> None:
        good, bad = opened(store, "good"), opened(store, "bad")
        commit(store, bad, step(0, workflow_id="bad"))

        def unit(claim: Ownership, superstep: int) -> Commit:
            record = step(superstep, workflow_id=claim.workflow_id)
            return store.encoding.commit(claim, [store.encoding.encode(record)], full=superstep == 1)

        group = [unit(good, 0), unit(bad, 0), unit(bad, 1), unit(good, 1)]
        outcomes = store.backend.write_all(group)
        assert [error is None for error in outcomes] == [True, False, False, True]
        assert len(store.steps("good")) == 2
        assert len(store.steps("bad")) == 1  # what follows on a failure is not written either


class OwnershipTests:
    """A workflow has one owner; one that was succeeded is refused."""

    def test_a_claim_creates_an_active_workflow_once(self, store: Checkpointer) -> None:
        claim = opened(store, graph_name="g")
        assert claim.existing is None
        assert store.workflow("w").status is WorkflowStatus.ACTIVE
        store.backend.release(claim)
        again = opened(store, graph_name="other")
        assert again.existing is not None
        assert (again.existing.graph_name, again.fence > claim.fence) == ("g", True)

    def test_a_claimed_workflow_is_refused_to_others(self, store: Checkpointer) -> None:
        opened(store)
        with pytest.raises(WorkflowLockedError) as caught:
            opened(store)
        assert caught.value.pid
        assert caught.value.host
        assert caught.value.since
        with pytest.raises(WorkflowLockedError):
            store.save_step(step(0))
        with pytest.raises(WorkflowLockedError):
            store.update_workflow_status("w", WorkflowStatus.FAILED)
        with pytest.raises(WorkflowLockedError):
            store.delete("w")

    def test_force_takes_a_workflow_over_and_the_old_owner_is_refused(self, store: Checkpointer) -> None:
        old = opened(store)
        new = store.backend.claim("w", NewWorkflow(), store.encoding, force=True)
        with pytest.raises(OwnershipLostError):
            commit(store, old, step(0))
        store.backend.release(old)
        with pytest.raises(WorkflowLockedError):
            opened(store)
        commit(store, new, step(0))
        assert len(store.steps("w")) == 1

    def test_a_released_claim_is_worth_nothing(self, store: Checkpointer) -> None:
        claim = opened(store)
        store.backend.release(claim)
        store.backend.release(claim)
        with pytest.raises(OwnershipLostError):
            commit(store, claim, step(0))

    def test_a_claim_of_a_deleted_workflow_does_not_fit_a_new_one(self, store: Checkpointer) -> None:
        old = opened(store)
        store.backend.release(old)
        store.backend.delete(["w"])
        opened(store)
        with pytest.raises(OwnershipLostError):
            commit(store, old, step(0))

    def test_announced_steps_without_a_record_are_known_to_the_next_owner(self, store: Checkpointer) -> None:
        claim = opened(store)
        store.backend.write(store.encoding.commit(claim, running="a", at=2))
        store.backend.write(store.encoding.commit(claim, running="b", at=2))
        commit(store, claim, step(2, "b"))
        store.backend.release(claim)
        assert store.backend.read_announced("w") == [(2, "a")]
        assert store.backend.read_announced("none") == []
        assert opened(store).running == ((2, "a"),)


class BackgroundTests:
    """The background writer loses nothing and hides no failure."""

    def test_the_background_writer_has_written_all_when_it_is_drained(self, store: Checkpointer) -> None:
        writer, claim = Writer(store.backend, capacity=4), opened(store)
        for number in range(100):
            writer.submit(
                store.encoding.commit(claim, [store.encoding.encode(step(number, values={"x": number}))])
            )
        writer.drain(claim)
        assert [found.index for found in store.steps("w")] == list(range(100))

    def test_after_a_failed_commit_none_of_its_claim_is_written(self, store: Checkpointer) -> None:
        writer, claim, other = Writer(store.backend), opened(store), opened(store, "other")
        commit(store, claim, step(0))
        writer.submit(store.encoding.commit(claim, [store.encoding.encode(step(0))]))
        with pytest.raises(OwnershipLostError):  # noqa: PT012 - at one of the next calls, whichever it is
            for number in range(1, 10_000):
                writer.submit(store.encoding.commit(claim, [store.encoding.encode(step(number))]))
        with pytest.raises(OwnershipLostError):
            writer.drain(claim)
        writer.submit(store.encoding.commit(other, [store.encoding.encode(step(0, workflow_id="other"))]))
        writer.drain()
        assert len(store.steps("w")) == 1
        assert len(store.steps("other")) == 1

    def test_a_store_that_breaks_in_the_background_is_reported(self, store: Checkpointer) -> None:
        writer, claim = Writer(store.backend), opened(store)
        writer.submit(Commit(claim, (None,)))  # type: ignore[arg-type]
        with pytest.raises(CheckpointError, match="background writer"):
            writer.drain()
