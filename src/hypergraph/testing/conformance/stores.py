"""Tests of steps and values."""

from __future__ import annotations

import pytest

from hypergraph import PauseInfo
from hypergraph.checkpointers import (
    Checkpointer,
    MsgpackSerializer,
    PickleSerializer,
    StepStatus,
    Undecodable,
)
from hypergraph.checkpointers.backend import START
from hypergraph.checkpointers.view import view_of
from hypergraph.exceptions import WorkflowNotFoundError
from hypergraph.testing.conformance.samples import commit, given, opened, recorded, step


class StepTests:
    """Steps come back as they were recorded."""

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
        recorded(store, record)
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
        recorded(store, record)
        (found,) = store.steps("w")
        assert (found.error_type, found.traceback, found.values) == ("ValueError", "line 1 \ud800", None)
        assert found.error is not None
        assert found.error.startswith("bad ")

    def test_a_pause_comes_back_with_its_value(self, store: Checkpointer) -> None:
        pause = PauseInfo("ask", "answer", value={"q": (1,)}, path=("outer",))
        recorded(store, step(0, "ask", status=StepStatus.PAUSED, pause=pause))
        assert [found.pause for found in store.steps("w")] == [pause]
        assert store.state("w") == {}

    def test_pages_of_steps_hold_each_step_once_by_superstep_and_index(self, store: Checkpointer) -> None:
        # The second superstep is recorded first, and one superstep has more steps than a page.
        placed = [(1, "late", 5), (0, "b", 1), (0, "a", 0), (0, "c", 2), (4, "last", 6)]
        recorded(store, *(step(at, node, {node: at}, index=index) for at, node, index in placed))
        found, after = [], START
        while page := store.steps("w", after=after, limit=2, values=False):
            assert len(page) <= 2
            found += page
            after = page[-1].superstep, page[-1].index
        assert [record.node_name for record in found] == ["a", "b", "c", "late", "last"]
        assert {record.values for record in found} == {None}
        assert [record.node_name for record in store.steps("w", superstep=0, limit=100, values=False)] == [
            "a",
            "b",
            "c",
        ]
        assert (store.backend.last_superstep("w"), store.backend.last_superstep("unknown")) == (4, None)

    def test_one_step_comes_with_its_values(self, store: Checkpointer) -> None:
        recorded(store, *(step(at, "loop", {"x": at}, index=at, visit=at + 1) for at in range(4)))
        found = store.step("w", 2)
        assert found is not None
        assert (found.index, found.values) == (2, {"x": 2})
        assert store.step("w", 9) is None

    def test_steps_are_counted_by_node_and_how_they_ended(self, store: Checkpointer) -> None:
        failed = step(3, "a", None, status=StepStatus.FAILED, duration_ms=None)
        recorded(
            store,
            *(step(at, "a", {"x": at}, index=at, duration_ms=2.0) for at in range(2)),
            step(2, "b"),
            failed,
        )
        found = store.backend.tally_steps("w")
        assert [(t.node, t.status.value, t.steps, t.first, t.last, t.superstep) for t in found] == [
            ("a", "completed", 2, 0, 1, 1),
            ("b", "completed", 1, 2, 2, 2),
            ("a", "failed", 1, 3, 3, 3),
        ]
        assert (found[0].total_ms, found[2].total_ms, store.backend.tally_steps("unknown")) == (4.0, 0.0, [])

    def test_no_values_and_empty_values_stay_apart(self, store: Checkpointer) -> None:
        recorded(store, step(0, "none", None), step(1, "empty", {}))
        assert [found.values for found in store.steps("w")] == [None, {}]

    def test_steps_come_in_order_of_their_index(self, store: Checkpointer) -> None:
        recorded(store, step(0, "z", index=1), step(0, "a", index=2), step(0, "m", index=0))
        assert [found.node_name for found in store.steps("w")] == ["m", "z", "a"]

    def test_steps_can_be_asked_for_by_superstep_and_node(self, store: Checkpointer) -> None:
        recorded(store, *(step(i, f"n{i % 2}", {"x": i}) for i in range(6)))
        assert [found.superstep for found in store.steps("w", superstep=3, node="n1")] == [1, 3]
        assert [found.values for found in store.steps("w", superstep=1)] == [{"x": 0}, {"x": 1}]

    def test_without_values_gaps_and_pauses_are_still_known(self, store: Checkpointer) -> None:
        pause = PauseInfo("p", "x")
        recorded(store, step(0, values={"x": 1}, lost={"y": "asked for"}), step(1, "p", pause=pause))
        first, second = store.steps("w", values=False)
        assert (first.values, first.lost, second.pause) == (None, {"y": "asked for"}, pause)

    def test_unknown_ids_give_nothing(self, store: Checkpointer) -> None:
        assert store.backend.read_workflow("?") is None
        for ask in (store.workflow, store.state, store.steps, store.checkpoint, store.questions):
            with pytest.raises(WorkflowNotFoundError, match=r"Workflow '\?' not found"):
                ask("?")
        assert (given(store, "?"), store.backend.children("?"), store.backend.delete(["?"])) == (
            {},
            [],
            0,
        )


class ValueTests:
    """Values are exact, those of the time they were handed over, and never mixed up."""

    def test_state_is_the_latest_of_each_name_up_to_a_superstep(self, store: Checkpointer) -> None:
        recorded(store, step(0, "a", {"x": 0, "y": 0}), *(step(i, "b", {"x": i}) for i in range(1, 5)))
        assert store.state("w") == {"x": 4, "y": 0}
        assert store.state("w", superstep=2) == {"x": 2, "y": 0}
        assert store.state("w", superstep=99) == {"x": 4, "y": 0}

    def test_states_of_one_and_of_several_values_are_read_in_turn(self, store: Checkpointer) -> None:
        recorded(store, *(step(i, "a", {"x": i}) for i in range(2, 5)))
        several = [{"x": 0}, {"y": 1}, {"z": 2}]
        recorded(store, *(step(i, "b", v, workflow_id="v") for i, v in enumerate(several)), workflow_id="v")
        recorded(store, workflow_id="none")
        for _ in range(2):
            assert (store.state("w"), store.state("w", superstep=3)) == ({"x": 4}, {"x": 3})
            assert store.state("w", superstep=1) == store.state("none") == {}
            assert (store.state("v"), store.state("v", superstep=1)) == (
                {"x": 0, "y": 1, "z": 2},
                {"x": 0, "y": 1},
            )
            assert (store.state("v", superstep=0), store.state("w")) == ({"x": 0}, {"x": 4})

    def test_of_one_superstep_the_higher_index_counts(self, store: Checkpointer) -> None:
        recorded(store, step(0, "late", {"x": "late"}, index=9), step(0, "a", {"x": "early"}, index=8))
        assert store.state("w") == {"x": "late"}

    def test_state_follows_indexes_even_where_supersteps_disagree(self, store: Checkpointer) -> None:
        for superstep, index in ((3, 1), (1, 5), (2, 4), (0, 9)):
            store.save_step(step(superstep, values={"x": index}, index=index))
        assert store.state("w") == {"x": 9}
        assert store.state("w", superstep=3) == {"x": 9}
        opened(store, "fork", forked_from="w", copies=True)
        assert store.state("fork") == {"x": 9}

    def test_only_completed_steps_make_state(self, store: Checkpointer) -> None:
        others = [s for s in StepStatus if s is not StepStatus.COMPLETED]
        recorded(
            store,
            step(0, values={"x": 1}),
            *(step(i, values={"x": "no"}, status=s) for i, s in enumerate(others, 1)),
        )
        assert store.state("w") == {"x": 1}
        assert store.steps("w")[-1].values == {"x": "no"}

    def test_values_are_those_at_the_time_of_encoding(self, store: Checkpointer) -> None:
        value = [1]
        claim = opened(store)
        encoded = store.encoding.encode(step(0, values={"x": value}))
        value.append(2)
        store.backend.write(store.encoding.commit(claim, [encoded]))
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
        recorded(store, step(0, values={"x": 1}), step(1, lost={"x": "persist=False"}))
        assert store.state("w") == {}
        assert store.state("w", superstep=0) == {"x": 1}

    def test_a_value_of_another_serializer_is_undecodable_and_hides_nothing(
        self, store: Checkpointer
    ) -> None:
        other = view_of(store, serializer=PickleSerializer(allow_pickle=True))
        claim = opened(store)
        commit(other, claim, step(0, values={"x": (1, 2)}))
        commit(store, claim, step(1, values={"y": 1}))
        assert other.state("w")["x"] == (1, 2)
        assert isinstance(store.state("w")["x"], Undecodable)
        assert store.steps("w")[1].values == {"y": 1}

    def test_stores_with_json_and_with_messagepack_read_each_other(self, store: Checkpointer) -> None:
        other = view_of(store, serializer=MsgpackSerializer())
        claim = opened(store)
        commit(other, claim, step(0, values={"x": (1, 2)}))
        commit(store, claim, step(1, values={"y": {3, 4}}))
        assert store.state("w") == other.state("w") == {"x": (1, 2), "y": {3, 4}}

    def test_inputs_have_versions_and_enter_before_a_superstep(self, store: Checkpointer) -> None:
        claim = opened(store)
        store.backend.write(store.encoding.commit(claim, inputs={"q": (1, "a"), "k": (1, 5)}))
        store.backend.write(store.encoding.commit(claim, inputs={"q": (2, "b")}, at=4))
        assert given(store, "w") == {"q": (2, "b"), "k": (1, 5)}
        assert given(store, "w", 3) == {"q": (1, "a"), "k": (1, 5)}
        assert store.state("w") == {}
        store.backend.write(store.encoding.commit(claim, inputs={"q": (2, "c")}, at=4))  # replaces it
        assert given(store, "w") == {"q": (2, "c"), "k": (1, 5)}
        assert [payload.version for payload in store.backend.read_versions("w", "q")] == [1, 2]
