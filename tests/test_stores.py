"""What every store promises, asked of each of them by the same tests."""

import asyncio
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from hypergraph import PauseInfo
from hypergraph.checkpointers import (
    Checkpointer,
    CheckpointPolicy,
    MemoryCheckpointer,
    MsgpackSerializer,
    SqliteCheckpointer,
    StepRecord,
    StepStatus,
    Undecodable,
    WorkflowStatus,
)
from hypergraph.checkpointers.base import Commit, Ownership
from hypergraph.checkpointers.types import NewWorkflow
from hypergraph.checkpointers.writer import Writer
from hypergraph.exceptions import (
    CheckpointError,
    InvalidWorkflowIdError,
    OwnershipLostError,
    WorkflowLockedError,
)

wait_for = asyncio.run
BAD_IDS = [
    "",
    "a/b",
    "a\0b",
    "a\nb",
    "\x7f",
    "\x85",
    "a\ud800",
    " a",
    "a ",
    "\u3000a",
    "x" * 513,
    "é" * 257,
    7,
]
GOOD_IDS = ["a", "x" * 512, "é" * 256, "a b", "x') OR 1=1--", "%_", "item-5", "名前", "a#2", "run-1|2"]


def step(superstep: int, node: str = "n", values: Any = None, **fields: Any) -> StepRecord:
    given = {"workflow_id": "w", "index": superstep, "status": StepStatus.COMPLETED, "input_versions": {}}
    return StepRecord(**{**given, "superstep": superstep, "node_name": node, "values": values, **fields})


def opened(store: Checkpointer, workflow_id: str = "w", **about: Any) -> Ownership:
    return store.claim(workflow_id, NewWorkflow(**about))


def commit(store: Checkpointer, claim: Ownership, *records: StepRecord, **more: Any) -> None:
    store.commit(claim, [store.encode(record) for record in records], **more)


def told(store: Checkpointer, *records: StepRecord, workflow_id: str = "w", **about: Any) -> None:
    """Store a whole workflow that completes."""
    claim = opened(store, workflow_id, **about)
    commit(store, claim, *records, status=WorkflowStatus.COMPLETED)
    store.release(claim)


class StoreContract:
    """The tests; a subclass brings the store."""

    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[Checkpointer]:
        raise NotImplementedError

    # -- steps -------------------------------------------------------------------------------------

    def test_a_step_comes_back_with_every_field(self, store: Checkpointer) -> None:
        record = step(
            3,
            values={"b": (1, 2), "a": {"x": None}},
            index=7,
            input_versions={"q": 2},
            output_versions={"b": 1, "a": 4},
            duration_ms=12.5,
            cached=True,
            decision=["left", "right"],
            child_workflow_id="w/n",
            attempt=3,
            attempt_errors=("ValueError: one", "ValueError: two \ud800"),
            replayed=True,
            wait_versions={"ready": 1},
            visit=2,
        )
        told(store, record)
        (found,) = store.steps("w")
        assert found == record
        assert list(found.values or {}) == ["b", "a"]

    def test_a_failed_step_keeps_its_error_as_text(self, store: Checkpointer) -> None:
        record = step(
            0,
            status=StepStatus.FAILED,
            error="bad \ud800 é",
            error_type="ValueError",
            traceback="line 1 \ud800",
        )
        told(store, record)
        (found,) = store.steps("w")
        assert (found.error_type, found.traceback, found.values) == ("ValueError", "line 1 \ud800", None)
        assert found.error is not None
        assert found.error.startswith("bad ")

    def test_a_pause_comes_back_with_its_value(self, store: Checkpointer) -> None:
        pause = PauseInfo("ask", "answer", value={"q": (1,)}, path=("outer",))
        told(store, step(0, "ask", status=StepStatus.PAUSED, pause=pause))
        assert [found.pause for found in store.steps("w")] == [pause]
        assert store.state("w") == {}

    def test_no_values_and_empty_values_stay_apart(self, store: Checkpointer) -> None:
        told(store, step(0, "none", None), step(1, "empty", {}))
        assert [found.values for found in store.steps("w")] == [None, {}]

    def test_steps_come_in_order_of_their_index(self, store: Checkpointer) -> None:
        told(store, step(0, "z", index=1), step(0, "a", index=2), step(0, "m", index=0))
        assert [found.node_name for found in store.steps("w")] == ["m", "z", "a"]

    def test_steps_can_be_asked_for_by_superstep_and_node(self, store: Checkpointer) -> None:
        told(store, *(step(i, f"n{i % 2}", {"x": i}) for i in range(6)))
        assert [found.superstep for found in store.read_steps("w", upto=3, node="n1")] == [1, 3]
        assert [found.values for found in store.read_steps("w", upto=1)] == [{"x": 0}, {"x": 1}]

    def test_without_values_gaps_and_pauses_are_still_known(self, store: Checkpointer) -> None:
        pause = PauseInfo("p", "x")
        told(store, step(0, values={"x": 1}, lost={"y": "asked for"}), step(1, "p", pause=pause))
        first, second = store.read_steps("w", values=False)
        assert (first.values, first.lost, second.pause) == (None, {"y": "asked for"}, pause)

    def test_unknown_ids_give_nothing(self, store: Checkpointer) -> None:
        assert (store.state("?"), store.steps("?"), store.workflow("?")) == ({}, [], None)
        assert (store.read_inputs("?"), store.children("?"), store.erase(["?"])) == ({}, [], 0)

    # -- values ------------------------------------------------------------------------------------

    def test_state_is_the_latest_of_each_name_up_to_a_superstep(self, store: Checkpointer) -> None:
        told(store, step(0, "a", {"x": 0, "y": 0}), *(step(i, "b", {"x": i}) for i in range(1, 5)))
        assert store.state("w") == {"x": 4, "y": 0}
        assert store.state("w", superstep=2) == {"x": 2, "y": 0}
        assert store.state("w", superstep=99) == {"x": 4, "y": 0}

    def test_of_one_superstep_the_higher_index_counts(self, store: Checkpointer) -> None:
        told(store, step(0, "late", {"x": "late"}, index=9), step(0, "a", {"x": "early"}, index=8))
        assert store.state("w") == {"x": "late"}

    def test_state_follows_indexes_even_where_supersteps_disagree(self, store: Checkpointer) -> None:
        for superstep, index in ((3, 1), (1, 5), (2, 4), (0, 9)):
            wait_for(store.save_step(step(superstep, values={"x": index}, index=index)))
        assert store.state("w") == {"x": 9}
        assert store.state("w", superstep=3) == {"x": 9}
        opened(store, "fork", forked_from="w", copies=True)
        assert store.state("fork") == {"x": 9}

    def test_only_completed_steps_make_state(self, store: Checkpointer) -> None:
        others = [s for s in StepStatus if s is not StepStatus.COMPLETED]
        told(
            store,
            step(0, values={"x": 1}),
            *(step(i, values={"x": "no"}, status=s) for i, s in enumerate(others, 1)),
        )
        assert store.state("w") == {"x": 1}
        assert store.steps("w")[-1].values == {"x": "no"}

    def test_values_are_those_at_the_time_of_encoding(self, store: Checkpointer) -> None:
        value = [1]
        claim = opened(store)
        encoded = store.encode(step(0, values={"x": value}))
        value.append(2)
        store.commit(claim, [encoded])
        store.state("w")["x"].append(3)
        assert store.state("w") == {"x": [1]}

    def test_a_value_that_cannot_be_stored_warns_and_leaves_the_step_not_durable(
        self, store: Checkpointer
    ) -> None:
        claim = opened(store)
        with pytest.warns(UserWarning, match=r"'x' cannot be stored .*'w', node 'n'") as caught:
            commit(store, claim, step(0, values={"x": object(), "y": 1}))
        assert len(caught) == 1
        (found,) = store.steps("w")
        assert (found.values, found.durable, list(found.lost)) == ({"y": 1}, False, ["x"])

    def test_an_older_value_does_not_pass_for_one_that_is_not_stored(self, store: Checkpointer) -> None:
        told(store, step(0, values={"x": 1}), step(1, lost={"x": "persist=False"}))
        assert store.state("w") == {}
        assert store.state("w", superstep=0) == {"x": 1}

    def test_a_value_of_another_serializer_is_undecodable_and_hides_nothing(
        self, store: Checkpointer
    ) -> None:
        other = store.reading(MsgpackSerializer())
        claim = opened(store)
        commit(other, claim, step(0, values={"x": (1, 2)}))
        commit(store, claim, step(1, values={"y": 1}))
        assert other.state("w")["x"] == (1, 2)
        assert isinstance(store.state("w")["x"], Undecodable)
        assert store.steps("w")[1].values == {"y": 1}

    def test_inputs_have_versions_and_enter_before_a_superstep(self, store: Checkpointer) -> None:
        claim = opened(store)
        store.commit(claim, inputs={"q": (1, "a"), "k": (1, 5)})
        store.commit(claim, inputs={"q": (2, "b")}, at=4)
        assert store.read_inputs("w") == {"q": (2, "b"), "k": (1, 5)}
        assert store.read_inputs("w", upto=3) == {"q": (1, "a"), "k": (1, 5)}
        assert store.state("w") == {}

    # -- commits -----------------------------------------------------------------------------------

    def test_a_commit_is_all_or_nothing(self, store: Checkpointer) -> None:
        claim = opened(store)
        commit(store, claim, step(0))
        with pytest.raises(OwnershipLostError):
            commit(store, claim, step(1), step(0), inputs={"x": (1, 1)}, status=WorkflowStatus.FAILED)
        assert len(store.steps("w")) == 1
        assert store.read_inputs("w") == {}
        assert store.workflow("w").status is WorkflowStatus.ACTIVE

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
        store.commit(claim, status=WorkflowStatus.ACTIVE)
        assert store.workflow("w").completed_at is None

    def test_commits_in_a_group_stand_or_fall_by_themselves(self, store: Checkpointer) -> None:
        good, bad = opened(store, "good"), opened(store, "bad")
        commit(store, bad, step(0, workflow_id="bad"))

        def unit(claim: Ownership, superstep: int) -> Commit:
            record = step(superstep, workflow_id=claim.workflow_id)
            return store.prepare(claim, [store.encode(record)], full=superstep == 1)

        group = [unit(good, 0), unit(bad, 0), unit(bad, 1), unit(good, 1)]
        outcomes = store.write_all(group)
        assert [error is None for error in outcomes] == [True, False, False, True]
        assert len(store.steps("good")) == 2
        assert len(store.steps("bad")) == 1  # what follows on a failure is not written either

    # -- ownership ---------------------------------------------------------------------------------

    def test_a_claim_creates_an_active_workflow_once(self, store: Checkpointer) -> None:
        claim = opened(store, graph_name="g")
        assert claim.existing is None
        assert store.workflow("w").status is WorkflowStatus.ACTIVE
        store.release(claim)
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
            wait_for(store.save_step(step(0)))
        with pytest.raises(WorkflowLockedError):
            wait_for(store.update_workflow_status("w", WorkflowStatus.FAILED))
        with pytest.raises(WorkflowLockedError):
            wait_for(store.delete("w"))

    def test_force_takes_a_workflow_over_and_the_old_owner_is_refused(self, store: Checkpointer) -> None:
        old = opened(store)
        new = store.claim("w", NewWorkflow(), force=True)
        with pytest.raises(OwnershipLostError):
            commit(store, old, step(0))
        store.release(old)
        with pytest.raises(WorkflowLockedError):
            opened(store)
        commit(store, new, step(0))
        assert len(store.steps("w")) == 1

    def test_a_released_claim_is_worth_nothing(self, store: Checkpointer) -> None:
        claim = opened(store)
        store.release(claim)
        store.release(claim)
        with pytest.raises(OwnershipLostError):
            commit(store, claim, step(0))

    def test_a_claim_of_a_deleted_workflow_does_not_fit_a_new_one(self, store: Checkpointer) -> None:
        old = opened(store)
        store.release(old)
        store.erase(["w"])
        opened(store)
        with pytest.raises(OwnershipLostError):
            commit(store, old, step(0))

    def test_of_many_threads_one_gets_the_claim(self, store: Checkpointer) -> None:
        start, outcomes = threading.Barrier(8), []

        def race() -> None:
            start.wait()
            try:
                outcomes.append(opened(store))
            except WorkflowLockedError:
                outcomes.append(None)

        threads = [threading.Thread(target=race) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len([claim for claim in outcomes if claim]) == 1

    def test_announced_steps_without_a_record_are_known_to_the_next_owner(self, store: Checkpointer) -> None:
        claim = opened(store)
        store.commit(claim, running="a", at=2)
        store.commit(claim, running="b", at=2)
        commit(store, claim, step(2, "b"))
        store.release(claim)
        assert opened(store).running == ((2, "a"),)

    # -- ids ---------------------------------------------------------------------------------------

    @pytest.mark.parametrize("bad", BAD_IDS)
    def test_bad_ids_are_refused(self, store: Checkpointer, bad: Any) -> None:
        with pytest.raises(InvalidWorkflowIdError):
            opened(store, bad)
        with pytest.raises(InvalidWorkflowIdError):
            wait_for(store.create_workflow(bad))
        assert store.workflows() == []

    @pytest.mark.parametrize("good", GOOD_IDS)
    def test_good_ids_are_taken_as_they_are(self, store: Checkpointer, good: str) -> None:
        told(store, step(0, workflow_id=good), workflow_id=good)
        assert [found.id for found in store.workflows()] == [good]

    def test_ids_with_pattern_characters_stand_for_themselves(self, store: Checkpointer) -> None:
        for name in ("a_b", "axb", "a%", "a_b/c"):
            told(store, workflow_id=name, parent_id="a_b" if "/" in name else None)
        assert wait_for(store.delete("a_b")) == 2
        assert {found.id for found in store.workflows()} == {"axb", "a%"}

    # -- lists, children, forks --------------------------------------------------------------------

    def test_a_list_is_walked_page_by_page_while_it_grows(self, store: Checkpointer) -> None:
        for number in range(7):
            told(store, workflow_id=f"w{number}")
        first = store.workflows(limit=3)
        told(store, workflow_id="newer")
        second = store.workflows(limit=3, cursor=first.next_cursor)
        third = store.workflows(limit=3, cursor=second.next_cursor)
        assert [found.id for found in (*first, *second, *third)] == [f"w{n}" for n in range(6, -1, -1)]
        assert (first.total, third.next_cursor) == (7, None)
        with pytest.raises(ValueError, match="cursor"):
            store.workflows(cursor="' OR 1=1")

    def test_children_are_listed_below_their_parent_only(self, store: Checkpointer) -> None:
        told(store)
        for item in range(3):
            told(store, workflow_id=f"w/item-{item}", parent_id="w", item=item)
        assert [found.item for found in store.children("w")] == [0, 1, 2]
        assert [found.id for found in store.workflows()] == ["w"]

    def test_a_copied_history_is_whole_without_its_origin(self, store: Checkpointer) -> None:
        claim = opened(store)
        commit(store, claim, *(step(i, values={"x": i}) for i in range(4)), inputs={"q": (1, "?")})
        store.release(claim)
        opened(store, "fork", forked_from="w", forked_at=2, copies=True)
        store.erase(["w"])
        assert (store.state("fork"), store.read_inputs("fork")) == ({"x": 2}, {"q": (1, "?")})
        assert [(found.workflow_id, found.index) for found in store.steps("fork")] == [
            ("fork", n) for n in range(3)
        ]

    # -- upkeep ------------------------------------------------------------------------------------

    def test_delete_takes_children_along_and_nothing_else(self, store: Checkpointer) -> None:
        told(store, *(step(i, values={"x": i}) for i in range(1200)))
        told(store, step(0, workflow_id="w/n", values={"y": 1}), workflow_id="w/n", parent_id="w")
        told(store, step(0, workflow_id="other", values={"z": 1}), workflow_id="other")
        assert wait_for(store.delete("w")) == 2
        assert (store.steps("w"), store.steps("w/n"), store.workflow("w")) == ([], [], None)
        assert store.state("other") == {"z": 1}
        told(store, workflow_id="w")
        assert store.steps("w") == []

    def test_trimming_keeps_every_state_from_a_superstep_on(self, store: Checkpointer) -> None:
        told(store, step(0, "a", {"k": 1}), *(step(i, "b", {"x": i}) for i in range(1, 9)))
        states = {n: store.state("w", superstep=n) for n in range(5, 9)}
        store.trim("w", before=5)
        assert {n: store.state("w", superstep=n) for n in range(5, 9)} == states
        steps = store.steps("w")
        assert [found.superstep for found in steps if not found.durable] == [1, 2, 3, 4]
        assert "retention" in steps[1].lost["x"]

    def test_trimming_keeps_pauses(self, store: Checkpointer) -> None:
        pause = PauseInfo("ask", "x", value="?")
        told(store, step(0, "ask", status=StepStatus.PAUSED, pause=pause), step(1, values={"x": 1}), step(2))
        store.trim("w", before=2)
        assert store.steps("w")[0].pause == pause

    @pytest.mark.parametrize(("policy", "kept"), [
        (CheckpointPolicy(retention="full"), 6),
        (CheckpointPolicy(retention="latest"), 1),
        (CheckpointPolicy(retention="windowed", window=3), 3),
    ])  # fmt: skip
    def test_the_policy_says_how_many_supersteps_keep_their_values(
        self, store: Checkpointer, policy: CheckpointPolicy, kept: int
    ) -> None:
        told(store, *(step(i, values={"x": i}) for i in range(6)))
        store.policy = policy
        store.retain("w")
        assert len([found for found in store.steps("w") if found.durable]) == kept
        assert store.state("w") == {"x": 5}

    def test_prune_removes_what_ended_long_ago(self, store: Checkpointer) -> None:
        told(store)
        opened(store, "active")
        failed = opened(store, "failed")
        store.commit(failed, status=WorkflowStatus.FAILED)
        store.release(failed)
        future = timedelta(days=-1)  # everything ended before tomorrow
        assert wait_for(store.prune("1d")) == []
        assert wait_for(store.prune(future, keep_failed=True, dry_run=True)) == ["w"]
        assert wait_for(store.prune(future)) == ["failed", "w"]
        assert [found.id for found in store.workflows()] == ["active"]
        with pytest.raises(ValueError, match="older_than"):
            wait_for(store.prune())

    # -- what users call ---------------------------------------------------------------------------

    def test_the_awaitable_methods_tell_the_same_story(self, store: Checkpointer) -> None:
        async def story() -> None:
            await store.initialize()
            await store.initialize()
            await store.create_workflow("w", graph_name="g", inputs={"q": 1}, tags={"k": "v"})
            await store.save_step(step(0, values={"x": 1}))
            await store.save_step(step(0, values={"y": 2}))
            await store.update_workflow_status("w", WorkflowStatus.COMPLETED)
            assert await store.get_state("w") == {"y": 2}
            assert [found.values for found in await store.get_steps("w")] == [{"y": 2}]
            assert (await store.get_checkpoint("w")).values == {"q": 1, "y": 2}
            assert (await store.get_workflow("w")).status is WorkflowStatus.COMPLETED
            assert (await store.list_workflows(tag="k=v")).total == 1
            await store.close()
            await store.close()

        wait_for(story())

    def test_creating_twice_and_changing_what_is_not_there_are_refused(self, store: Checkpointer) -> None:
        wait_for(store.create_workflow("w"))
        with pytest.raises(CheckpointError, match="exists already"):
            wait_for(store.create_workflow("w"))
        with pytest.raises(CheckpointError, match="no workflow"):
            wait_for(store.update_workflow_status("?", WorkflowStatus.FAILED))

    def test_a_saved_step_of_an_unknown_workflow_creates_it(self, store: Checkpointer) -> None:
        wait_for(store.save_step(step(0, values={"x": 1})))
        assert store.workflow("w").step_count == 1

    # -- writing in the background -----------------------------------------------------------------

    def test_the_background_writer_has_written_all_when_it_is_drained(self, store: Checkpointer) -> None:
        writer, claim = Writer(store, capacity=4), opened(store)
        for number in range(100):
            writer.submit(store.prepare(claim, [store.encode(step(number, values={"x": number}))]))
        writer.drain(claim)
        assert [found.index for found in store.steps("w")] == list(range(100))

    def test_after_a_failed_commit_none_of_its_claim_is_written(self, store: Checkpointer) -> None:
        writer, claim, other = Writer(store), opened(store), opened(store, "other")
        commit(store, claim, step(0))
        writer.submit(store.prepare(claim, [store.encode(step(0))]))
        with pytest.raises(OwnershipLostError):  # noqa: PT012 - at one of the next calls, whichever it is
            for number in range(1, 10_000):
                writer.submit(store.prepare(claim, [store.encode(step(number))]))
        with pytest.raises(OwnershipLostError):
            writer.drain(claim)
        writer.submit(store.prepare(other, [store.encode(step(0, workflow_id="other"))]))
        writer.drain()
        assert len(store.steps("w")) == 1
        assert len(store.steps("other")) == 1

    def test_a_store_that_breaks_in_the_background_is_reported(self, store: Checkpointer) -> None:
        writer, claim = Writer(store), opened(store)
        writer.submit(Commit(claim, (None,)))  # type: ignore[arg-type]
        with pytest.raises(CheckpointError, match="background writer"):
            writer.drain()


class TestMemory(StoreContract):
    @pytest.fixture
    def store(self) -> Checkpointer:
        return MemoryCheckpointer()


class TestSqlite(StoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[Checkpointer]:
        store = SqliteCheckpointer(tmp_path / "w.db")
        yield store
        store.shut()


def test_memory_lets_the_oldest_finished_workflow_go_first() -> None:
    store = MemoryCheckpointer(max_workflows=2)
    active = opened(store, "active")
    for name in ("a", "b", "c"):
        told(store, workflow_id=name)
    assert [found.id for found in store.workflows()] == ["c", "active"]
    store.release(active)


@pytest.mark.parametrize("limit", [0, -1, 1.5, True])
def test_memory_refuses_a_limit_that_is_none(limit: Any) -> None:
    with pytest.raises(ValueError, match="max_workflows"):
        MemoryCheckpointer(max_workflows=limit)


def test_memory_cannot_be_backed_up() -> None:
    with pytest.raises(CheckpointError, match="SqliteCheckpointer"):
        wait_for(MemoryCheckpointer().backup("x"))


def test_sqlite_takes_a_policy_or_shortcuts_but_not_both(tmp_path: Path) -> None:
    path = tmp_path / "w.db"
    assert SqliteCheckpointer(path, durability="exit").policy.durability == "exit"
    assert SqliteCheckpointer(path, retention="latest").policy.retention == "latest"
    with pytest.raises(ValueError, match="Cannot pass both"):
        SqliteCheckpointer(path, durability="exit", policy=CheckpointPolicy())
    with pytest.raises(ValueError, match="MemoryCheckpointer"):
        SqliteCheckpointer(":memory:")
    assert not path.exists()
