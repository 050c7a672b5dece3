"""Tests of outlines of steps and items, and of change markers."""

from __future__ import annotations

from hypergraph.checkpointers import Checkpointer, StepStatus, WorkflowStatus
from hypergraph.checkpointers.backend import START, StepOutline
from hypergraph.testing.conformance.samples import commit, opened, recorded, step


class OutlineTests:
    """Outlines say the same as the records, and nothing changes unseen."""

    def test_lines_say_of_steps_what_the_records_say(self, store: Checkpointer) -> None:
        recorded(
            store,
            step(0, "b", {"x": 1}, index=1, duration_ms=2.5, cached=True),
            step(0, "a", {"y": 1}, index=0, child_workflow_id="w/a", visit=3, replayed=True),
            step(2, "c", index=2, status=StepStatus.FAILED, error="\ud800", traceback="\ud800", attempt=4),
        )
        whole = store.backend.read_outlines("w")
        assert whole == [StepOutline.of(record) for record in store.steps("w", limit=100, values=False)]
        assert [(line.superstep, line.idx, line.node) for line in whole] == [
            (0, 0, "a"),
            (0, 1, "b"),
            (2, 2, "c"),
        ]
        found, after = [], START
        while page := store.backend.read_outlines("w", after=after, limit=1):
            found += page
            after = page[-1].superstep, page[-1].idx
        assert found == whole
        assert store.backend.read_outlines("unknown") == []

    def test_items_of_a_map_come_in_their_order(self, store: Checkpointer) -> None:
        recorded(store, workflow_id="m")
        for item in (2, 0, 1):
            recorded(store, workflow_id=f"m/item-{item}", parent_id="m", item=item)
        recorded(store, workflow_id="m/other", parent_id="m", node_name="other")
        assert [(line.item, line.id, line.status) for line in store.backend.read_items("m")] == [
            (item, f"m/item-{item}", "completed") for item in range(3)
        ]
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
