"""Tests of outlines of steps and items, and of change markers."""

from __future__ import annotations

import os
import threading
from functools import partial
from typing import Any

import pytest

from hypergraph import PauseInfo
from hypergraph.checkpointers import Checkpointer, StepStatus, WorkflowStatus
from hypergraph.checkpointers.backend import START, StepOutline
from hypergraph.checkpointers.query import Query
from hypergraph.checkpointers.records import NewWorkflow
from hypergraph.exceptions import WorkflowError
from hypergraph.testing.conformance.samples import commit, opened, recorded, step


class OutlineTests:
    """Outlines say the same as the records, and nothing changes unseen."""

    def test_lines_say_of_steps_what_the_records_say(self, store: Checkpointer) -> None:
        recorded(
            store,
            step(0, "b", {"x": 1}, index=1, duration_ms=2.5, cached=True),
            step(0, "a", {"y": 1}, index=0, child_workflow_id="w/a", visit=3, replayed=True),
            step(2, "c", index=2, status=StepStatus.FAILED, error="\ud800", traceback="\ud800", attempt=4),
            step(3, "d", {"z": 1}, index=3, waited_ms=1.5),
        )
        whole = store.backend.read_outlines("w")
        assert whole == [StepOutline.of(record) for record in store.steps("w", limit=100, values=False)]
        assert [(line.superstep, line.idx, line.node) for line in whole] == [
            (0, 0, "a"),
            (0, 1, "b"),
            (2, 2, "c"),
            (3, 3, "d"),
        ]
        assert [line.waited_ms for line in whole] == [None, None, None, 1.5]
        found, after = [], START
        while page := store.backend.read_outlines("w", after=after, limit=1):
            found += page
            after = page[-1].superstep, page[-1].idx
        assert found == whole
        assert store.backend.read_outlines("unknown") == []

    def test_all_versions_of_a_name_are_there_in_order(self, store: Checkpointer) -> None:
        recorded(
            store,
            step(0, "a", {"x": 2}, index=0, output_versions={"x": 2}),
            step(0, "b", {"x": 3, "y": 1}, index=1, output_versions={"x": 3, "y": 1}),
            step(1, "c", {"x": 4}, index=2, output_versions={"x": 4}),
            inputs={"x": 1},
        )
        found = store.backend.read_versions("w", "x")
        assert [(row.version, row.superstep, store.encoding.value("w", row)) for row in found] == [
            (1, 0, 1),
            (2, 0, 2),
            (3, 0, 3),
            (4, 1, 4),
        ]
        assert [row.idx for row in found[1:]] == [0, 1, 2]
        assert found[0].idx < 0  # it was given
        assert store.backend.read_versions("w", "x", upto=0) == found[:3]
        assert store.backend.read_versions("w", "z") == store.backend.read_versions("unknown", "x") == []

    @pytest.mark.parametrize(
        ("before", "items", "after"),
        [
            ("paused", "completed completed", "completed"),
            ("paused", "completed paused", "paused"),
            ("paused", "completed active", "paused"),
            ("paused", "completed failed", "partial"),
            ("completed", "completed failed", "partial"),
            ("completed", "failed", "failed"),
            ("completed", "completed paused", "paused"),
            ("completed", "completed active", "completed"),
            ("partial", "completed completed", "partial"),  # the list may be longer
            ("failed", "completed failed", "partial"),
            ("active", "completed completed", "active"),
        ],
    )
    def test_a_map_follows_an_item_that_ran_by_itself(
        self, store: Checkpointer, before: str, items: str, after: str
    ) -> None:
        top = opened(store)
        for number, status in enumerate(items.split()):
            item = opened(store, f"w/item-{number}", parent_id="w", item=number)
            commit(store, item, status=WorkflowStatus(status))
            store.backend.release(item)
        commit(store, top, status=WorkflowStatus(before))
        store.backend.release(top)
        ended = store.workflow("w").completed_at
        store.backend.settle_map("w")
        found = store.workflow("w")
        assert found.status is WorkflowStatus(after)
        assert (found.completed_at is None) is (after in ("active", "paused"))
        if before == after:
            assert found.completed_at == ended

    def test_contents_of_many_runs_say_what_the_records_say(self, store: Checkpointer) -> None:
        failed = step(1, "b", index=1, status=StepStatus.FAILED, error="late", error_type="TimeoutError")
        recorded(store, step(0, "a", {"y": 2, "z": [3]}, index=0), failed, inputs={"x": 1})
        recorded(store, workflow_id="empty")
        found = store.backend.read_contents(["w", "empty", "unknown"])
        if found is None:
            return  # a store that has no shorter way
        value = partial(store.encoding.value, "w")
        assert [(each.name, value(each)) for each in found["w"].inputs] == [("x", 1)]
        made = sorted((node, each.name, value(each)) for node, each in found["w"].outputs)
        assert made == [("a", "y", 2), ("a", "z", [3])]
        assert found["w"].errors == [("b", "TimeoutError", "late")]
        assert found["empty"] == found["unknown"] == ([], [], [])

    def test_workflows_are_found_by_their_ids(self, store: Checkpointer) -> None:
        for name in ("one", "two", "three"):
            recorded(store, workflow_id=name)
        wanted = Query(ids=frozenset({"two", "one", "unknown"}), limit=None)
        found, total, _ = store.backend.find(wanted)
        assert ([each.id for each in found], total) == (["two", "one"], 2)
        assert store.backend.find(wanted._replace(ids=frozenset()))[0] == []
        assert store.backend.find(wanted._replace(statuses=frozenset({WorkflowStatus.FAILED})))[0] == []

    def test_items_of_a_map_come_in_their_order(self, store: Checkpointer) -> None:
        recorded(store, workflow_id="m")
        for item in (2, 0, 1):
            key = f"key {item}" if item else None
            recorded(store, workflow_id=f"m/item-{item}", parent_id="m", item=item, fingerprint=key)
        recorded(store, workflow_id="m/other", parent_id="m", node_name="other")
        found = store.backend.read_items("m")
        assert [(line.item, line.id, line.status) for line in found] == [
            (item, f"m/item-{item}", "completed") for item in range(3)
        ]
        assert [line.fingerprint for line in found] == [None, "key 1", "key 2"]
        assert store.backend.read_items("unknown") == []

    def test_whatever_is_written_is_seen_by_who_watches(self, store: Checkpointer) -> None:
        recorded(store, step(0), workflow_id="w")
        version = store.backend.watch()
        assert version() == version()
        seen, marks = version(), store.backend.change_markers()
        for write in (
            lambda: recorded(store, workflow_id="new"),
            lambda: commit(store, opened(store), step(1), status=WorkflowStatus.ACTIVE),
            lambda: store.backend.set_tags("w", {"a": "b"}),
            lambda: store.backend.delete(["new"]),
        ):
            write()
            now, later = version(), store.backend.change_markers()
            assert now != seen
            assert version() == now
            assert later != marks
            seen, marks = now, later

    def test_marks_differ_for_what_has_changed_alone(self, store: Checkpointer) -> None:
        recorded(store, workflow_id="still")
        recorded(store, workflow_id="w")
        before = store.backend.change_markers()
        commit(store, opened(store), step(0), status=WorkflowStatus.FAILED)
        after = store.backend.change_markers()
        assert {name for name in after if before.get(name) != after[name]} == {"w"}

    def test_the_oldest_is_marked_while_it_is_active(self, store: Checkpointer) -> None:
        opened(store, "old")
        for number in range(4):
            recorded(store, workflow_id=f"new-{number}")
        assert set(store.backend.change_markers(2)) == {"old", "new-2", "new-3"}


class OverviewTests:
    """An overview and a history are of one moment and agree with the single questions."""

    def test_an_overview_has_steps_counts_error_and_forks(self, store: Checkpointer) -> None:
        failed = step(1, "b", index=1, status=StepStatus.FAILED, error="no", error_type="builtins.ValueError")
        claim = opened(store)
        commit(store, claim, step(0, "a", {"x": 1}), failed, status=WorkflowStatus.FAILED)
        store.backend.release(claim)
        recorded(store, workflow_id="fork", forked_from="w", forked_at=0)
        found = store.read_overview("w", steps=1)
        assert found is not None
        assert found.workflow == store.workflow("w")
        assert [step.node_name for step in found.steps] == ["a"]
        assert [(tally.node, tally.steps) for tally in found.tallies] == [("a", 1), ("b", 1)]
        assert found.first_error == store.step("w", 1)
        assert (found.forks, found.owner, found.is_map) == (["fork"], None, False)
        assert store.read_overview("unknown") is None

    def test_an_overview_of_a_map_lists_failed_items_first(self, store: Checkpointer) -> None:
        recorded(store, workflow_id="m")
        for item in range(3):
            name = f"m/item-{item}"
            claim = opened(store, name, parent_id="m", item=item)
            is_bad = item == 1
            status = StepStatus.FAILED if is_bad else StepStatus.COMPLETED
            commit(
                store,
                claim,
                step(0, workflow_id=name, status=status, error="no" if is_bad else None),
                status=WorkflowStatus.FAILED if is_bad else WorkflowStatus.COMPLETED,
            )
            store.backend.release(claim)
        found = store.read_overview("m")
        assert found is not None
        assert [child.item for child in found.children] == [1, 0, 2]
        assert found.child_counts == {"failed": 1, "completed": 2}
        assert found.is_map
        tallied = {(tally.node, tally.status.value): tally.steps for tally in found.item_tallies}
        assert tallied == {("n", "failed"): 1, ("n", "completed"): 2}
        assert found.first_error == found.child_errors["m/item-1"] == store.step("m/item-1", 0)

    def test_an_overview_names_the_owner_and_the_open_question(self, store: Checkpointer) -> None:
        pause = PauseInfo("ask", "answer", value="?")
        claim = opened(store)
        commit(store, claim, step(0, "ask", status=StepStatus.PAUSED, pause=pause))
        found = store.read_overview("w")
        assert found is not None
        assert found.owner is not None
        assert (found.owner.pid, found.owner.alive) == (os.getpid(), True)
        store.backend.write(store.encoding.commit(claim, status=WorkflowStatus.PAUSED))
        store.backend.release(claim)
        paused = store.read_overview("w")
        assert paused is not None
        assert (paused.owner, paused.next) == (None, ("ask",))
        assert [question.pause for question in paused.questions] == [pause]

    def test_a_question_takes_one_answer_and_all_of_several_or_none(self, store: Checkpointer) -> None:
        first, second = PauseInfo("ask", "answer", value="?"), PauseInfo("sign", "name", value=1)
        claim = opened(store)
        paused = StepStatus.PAUSED
        commit(
            store,
            claim,
            step(0, "ask", status=paused, pause=first),
            step(0, "sign", index=1, status=paused, pause=second),
        )
        store.answer("w", "answer", [1, {"two": 2}], by="ann")  # also while a process owns the workflow
        asked = {question.step.node_name: question.step for question in store.questions("w")}
        assert (asked["ask"].answer, asked["ask"].answered_by) == ({"answer": [1, {"two": 2}]}, "ann")
        assert (asked["ask"].status, asked["ask"].pause, asked["sign"].answer) == (paused, first, None)
        again = [store.encoding.answer(asked[name], {"answer": 3}, None) for name in ("sign", "ask")]
        with pytest.raises(WorkflowError, match="answered already"):
            store.backend.put_answers(again)
        assert [question.step.answer for question in store.questions("w")] == [asked["ask"].answer, None]
        better = store.encoding.answer(asked["ask"], {"answer": 4}, "bob")
        better = better._replace(payload=better.payload._replace(version=1), replaces=True)
        store.backend.put_answers([better])  # in place of one that cannot be used
        with pytest.raises(WorkflowError, match="answered already"):
            store.backend.put_answers([better])
        with pytest.raises(WorkflowError, match="answered already"):  # there is none to be replaced
            store.backend.put_answers([better._replace(record=asked["sign"])])
        assert [question.step.answer for question in store.questions("w")] == [{"answer": 4}, None]
        store.backend.write(store.encoding.commit(claim, status=WorkflowStatus.PAUSED))
        store.backend.release(claim)
        assert store.state("w") == {}
        claim = store.backend.claim("w", NewWorkflow(), store.encoding)
        commit(
            store,
            claim,
            step(0, "ask", {"answer": 5}, answered_by="ann", answered_at="2026-01-02T00:00:00+00:00"),
        )
        found = store.steps("w", node="ask")[0]
        assert (found.values, found.answer, found.answered_by) == ({"answer": 5}, None, "ann")
        with pytest.raises(WorkflowError, match="does not ask any more"):
            store.backend.put_answers([store.encoding.answer(found, {"answer": 6}, None)])
        store.backend.release(claim)

    def test_a_snapshot_does_not_see_what_is_written_meanwhile(self, store: Checkpointer) -> None:
        recorded(store, step(0, values={"x": 1}))

        def read(view: Checkpointer) -> tuple[object, ...]:
            before = view.state("w")
            writer = threading.Thread(target=store.save_step, args=[step(1, values={"x": 2})])
            writer.start()
            if store.backend.kind != "memory":  # there, a writer waits for the snapshot to end
                writer.join()
            return before, view.state("w"), len(view.steps("w")), writer

        before, after, steps, writer = store.snapshot(read)
        assert (before, after, steps) == ({"x": 1}, {"x": 1}, 1)
        assert isinstance(writer, threading.Thread)
        writer.join()
        assert store.state("w") == {"x": 2}

    def test_a_history_holds_inputs_steps_and_state(self, store: Checkpointer) -> None:
        recorded(store, step(0, values={"x": 1}), inputs={"q": 7})
        first = store.read_history("w")
        assert first is not None
        assert (first.inputs, dict(first.state), len(first.steps)) == ({"q": (1, 7)}, {"x": 1}, 1)
        assert store.read_history("unknown") is None

    def test_a_map_with_all_items_is_complete_when_they_are(self, store: Checkpointer) -> None:
        top, item = opened(store), opened(store, "w/item-0", parent_id="w", item=0)
        commit(store, item, status=WorkflowStatus.COMPLETED)
        commit(store, top, status=WorkflowStatus.PARTIAL)
        store.backend.release(item)
        store.backend.release(top)
        store.backend.settle_map("w", is_whole=True)
        assert store.workflow("w").status is WorkflowStatus.COMPLETED

    def test_fences_are_those_of_the_newest_claims(self, store: Checkpointer) -> None:
        held = opened(store, "held")
        first = opened(store)
        store.backend.release(first)
        assert store.backend.read_fences(["w", "held", "unknown"]) == {"w": first.fence}
        assert store.backend.read_fences([]) == {}
        store.backend.raise_fence("w")
        assert store.backend.read_fences(["w"]) == {"w": first.fence + 1}
        store.backend.release(opened(store, "w/n", parent_id="w", node_name="n"))
        before = store.backend.read_fences(["w/n"])["w/n"]
        store.backend.raise_fence("w/n")
        assert store.backend.read_fences(["w/n"]) == {"w/n": before + 1}
        store.backend.raise_fence("w", 1)  # it has a higher one
        store.backend.raise_fence("held")  # its owner must be able to write
        assert store.backend.read_fences(["w"]) == {"w": first.fence + 1}
        store.backend.raise_fence("w", 9)
        assert store.backend.read_fences(["w"]) == {"w": 9}
        commit(store, held, status=WorkflowStatus.COMPLETED)
        store.backend.release(held)
        again = opened(store)
        assert again.fence == 10
        store.backend.release(again)

    def test_failed_items_below_are_counted_in_the_last_visits(self, store: Checkpointer) -> None:
        def ended(workflow_id: str, status: str, **more: Any) -> None:
            claim = opened(store, workflow_id, **more)
            commit(store, claim, status=WorkflowStatus(status))
            store.backend.release(claim)

        ended("w", "completed")
        ended("w/n", "failed", parent_id="w", node_name="n")
        ended("w/n/item-0", "failed", parent_id="w/n", item=0)
        assert store.backend.count_failed(["w", "unknown"]) == {"w": 1}
        ended("w/n/item-0/m", "failed", parent_id="w/n/item-0", node_name="m")
        ended("w/n/item-1", "completed", parent_id="w/n", item=1)
        ended("w/n/item-1/m", "partial", parent_id="w/n/item-1", node_name="m")
        ended("w/n/item-1/m/item-0", "failed", parent_id="w/n/item-1/m", item=0)
        assert store.backend.count_failed(["w", "w/n/item-1"]) == {"w": 2, "w/n/item-1": 1}
        ended("w/n#2", "completed", parent_id="w", node_name="n", visit=2)
        assert store.backend.count_failed(["w"]) == {}
        ended("v", "completed")
        ended("v/n", "failed", parent_id="v", node_name="n")
        assert store.backend.count_failed(["v"]) == {"v": 1}
