"""Tests of ids, lists, forks, deletions and retention."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pytest

from hypergraph import PauseInfo
from hypergraph.checkpointers import Checkpointer, CheckpointPolicy, StepStatus, WorkflowStatus
from hypergraph.checkpointers.query import Filters, parse
from hypergraph.exceptions import CheckpointError, InvalidWorkflowIdError
from hypergraph.testing.conformance.samples import commit, given, opened, recorded, step

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


class _Pair(NamedTuple):
    """An object whose class no store knows."""

    left: str
    right: int


class IdTests:
    """Ids are refused or taken as they are."""

    @pytest.mark.parametrize("bad", BAD_IDS)
    def test_bad_ids_are_refused(self, store: Checkpointer, bad: Any) -> None:
        with pytest.raises(InvalidWorkflowIdError):
            opened(store, bad)
        with pytest.raises(InvalidWorkflowIdError):
            store.create_workflow(bad)
        assert store.workflows() == []

    @pytest.mark.parametrize("good", GOOD_IDS)
    def test_good_ids_are_taken_as_they_are(self, store: Checkpointer, good: str) -> None:
        recorded(store, step(0, workflow_id=good), workflow_id=good)
        assert [found.id for found in store.workflows()] == [good]

    def test_ids_with_pattern_characters_stand_for_themselves(self, store: Checkpointer) -> None:
        for name in ("a_b", "axb", "a%", "a_b/c"):
            recorded(store, workflow_id=name, parent_id="a_b" if "/" in name else None)
        assert store.delete("a_b") == 2
        assert {found.id for found in store.workflows()} == {"axb", "a%"}

    def test_names_begin_with_a_text_and_no_pattern(self, store: Checkpointer) -> None:
        for name in ("a_b", "axb", "a%", "a_b/c", "b", "aé"):
            recorded(store, workflow_id=name, parent_id="a_b" if "/" in name else None)
        assert store.backend.find_ids("a") == ["a%", "a_b", "axb", "aé"]
        assert store.backend.find_ids("a_") == ["a_b"]
        assert store.backend.find_ids("a%") == ["a%"]
        assert store.backend.find_ids("a", limit=2) == ["a%", "a_b"]
        assert store.backend.find_ids("a_b/", parent="a_b") == ["a_b/c"]
        assert store.backend.find_ids("x") == store.backend.find_ids("\ud800") == []


class ListTests:
    """Lists, children and forks."""

    def test_a_list_is_walked_page_by_page_while_it_grows(self, store: Checkpointer) -> None:
        for number in range(7):
            recorded(store, workflow_id=f"w{number}")
        first = store.workflows(limit=3)
        recorded(store, workflow_id="newer")
        second = store.workflows(limit=3, cursor=first.next_cursor)
        third = store.workflows(limit=3, cursor=second.next_cursor)
        assert [found.id for found in (*first, *second, *third)] == [f"w{n}" for n in range(6, -1, -1)]
        assert (first.total, third.next_cursor) == (7, None)
        with pytest.raises(ValueError, match="cursor"):
            store.workflows(cursor="' OR 1=1")

    def test_ids_are_those_of_the_list(self, store: Checkpointer) -> None:
        for number in range(5):
            recorded(store, workflow_id=f"w{number}", graph_name="odd" if number % 2 else "even")
        recorded(store, workflow_id="w0/n", parent_id="w0")
        opened(store, "active", tags={"team": "a"})
        asked: list[Filters] = [
            {},
            {"limit": 2},
            {"limit": None},
            {"graph": "odd"},
            {"parent": "w0"},
            {"tag": "team=a"},
            {"status": ["active", "completed"], "limit": 3},
            {"where": "steps = 0"},
        ]
        for filters in asked:
            assert store.backend.ids(parse(**filters)) == [found.id for found in store.workflows(**filters)]
        first = store.workflows(limit=3)
        assert store.backend.ids(parse(cursor=first.next_cursor)) == ["w2", "w1", "w0"]
        with pytest.raises(ValueError, match="cursor"):
            store.backend.ids(parse(cursor="' OR 1=1"))

    def test_children_are_listed_below_their_parent_only(self, store: Checkpointer) -> None:
        recorded(store)
        for item in range(3):
            recorded(store, workflow_id=f"w/item-{item}", parent_id="w", item=item)
        assert [found.item for found in store.backend.children("w")] == [0, 1, 2]
        assert [found.id for found in store.workflows()] == ["w"]

    def test_a_search_finds_inputs_of_every_turn_and_fields_of_unknown_classes(
        self, store: Checkpointer
    ) -> None:
        claim = opened(store)
        made = {"pair": _Pair("teapot", 1)}
        commit(store, claim, inputs={"word": (1, "samovar"), "unused": (1, ["kettle"])})
        commit(store, claim, step(0, "first", made, input_versions={"word": 1}))
        commit(store, claim, inputs={"word": (2, "cup")}, at=1)
        commit(store, claim, step(1, "second", {"n": 1}, input_versions={"word": 2}))
        commit(store, claim, step(2, "third", {"n": 2}, input_versions={"word": 2, "n": 1}))
        store.backend.release(claim)

        def found(text: str) -> list[str]:
            return [match.node_name for match in store.search(text)]

        assert (found("Samovar"), found("cup"), found("kettle")) == (["first"], ["second"], ["first"])
        assert (found("teapot"), found("samovar teapot"), found("cup teapot")) == (["first"], ["first"], [])
        assert found("register") == []  # the reason is not part of the content

    def test_a_copied_history_is_whole_without_its_origin(self, store: Checkpointer) -> None:
        claim = opened(store)
        commit(store, claim, *(step(i, values={"x": i}) for i in range(4)), inputs={"q": (1, "?")})
        store.backend.release(claim)
        opened(store, "fork", forked_from="w", forked_at=2, copies=True)
        store.backend.delete(["w"])
        assert (store.state("fork"), given(store, "fork")) == ({"x": 2}, {"q": (1, "?")})
        assert [(found.workflow_id, found.index) for found in store.steps("fork")] == [
            ("fork", n) for n in range(3)
        ]


class UpkeepTests:
    """What is removed is gone, and nothing else."""

    def test_delete_takes_children_along_and_nothing_else(self, store: Checkpointer) -> None:
        recorded(store, *(step(i, values={"x": i}) for i in range(1200)))
        recorded(store, step(0, workflow_id="w/n", values={"y": 1}), workflow_id="w/n", parent_id="w")
        recorded(store, step(0, workflow_id="other", values={"z": 1}), workflow_id="other")
        assert store.delete("w") == 2
        left = [store.backend.read_steps(name, store.encoding) for name in ("w", "w/n")]
        assert (left, store.backend.read_workflow("w")) == ([[], []], None)
        assert store.state("other") == {"z": 1}
        recorded(store, workflow_id="w")
        assert store.steps("w") == []

    def test_trimming_keeps_every_state_from_a_superstep_on(self, store: Checkpointer) -> None:
        recorded(store, step(0, "a", {"k": 1}), *(step(i, "b", {"x": i}) for i in range(1, 9)))
        states = {n: store.state("w", superstep=n) for n in range(5, 9)}
        store.backend.trim("w", store.encoding, before=5)
        assert {n: store.state("w", superstep=n) for n in range(5, 9)} == states
        steps = store.steps("w")
        assert [found.superstep for found in steps if not found.durable] == [1, 2, 3, 4]
        assert "retention" in steps[1].lost["x"]

    def test_trimming_keeps_pauses(self, store: Checkpointer) -> None:
        pause = PauseInfo("ask", "x", value="?")
        recorded(
            store, step(0, "ask", status=StepStatus.PAUSED, pause=pause), step(1, values={"x": 1}), step(2)
        )
        store.backend.trim("w", store.encoding, before=2)
        assert store.steps("w")[0].pause == pause

    @pytest.mark.parametrize(("policy", "kept"), [
        (CheckpointPolicy(retention="full"), 6),
        (CheckpointPolicy(retention="latest"), 1),
        (CheckpointPolicy(retention="windowed", window=3), 3),
    ])  # fmt: skip
    def test_the_policy_says_how_many_supersteps_keep_their_values(
        self, store: Checkpointer, policy: CheckpointPolicy, kept: int
    ) -> None:
        recorded(store, *(step(i, values={"x": i}) for i in range(6)))
        store.policy = policy
        store.backend.retain("w", store.policy, store.encoding)
        assert len([found for found in store.steps("w") if found.durable]) == kept
        assert store.state("w") == {"x": 5}

    def test_prune_removes_what_ended_long_ago(self, store: Checkpointer) -> None:
        recorded(store)
        opened(store, "active")
        for status in (WorkflowStatus.FAILED, WorkflowStatus.PARTIAL):
            claim = opened(store, status.value)
            store.backend.write(store.encoding.commit(claim, status=status))
            store.backend.release(claim)
        future = datetime.now(UTC) + timedelta(days=1)  # everything ended before tomorrow
        with pytest.raises(ValueError, match="Invalid older_than"):
            store.prune(timedelta(days=-1))
        assert store.prune("1d") == []
        assert store.prune(future, keep_failed=True, dry_run=True) == ["w"]
        assert store.prune(future) == ["partial", "failed", "w"]
        assert [found.id for found in store.workflows()] == ["active"]
        with pytest.raises(ValueError, match="older_than"):
            store.prune()

    def test_tags_are_set_and_removed_also_of_active_workflows(self, store: Checkpointer) -> None:
        recorded(store)
        opened(store, "busy")
        assert store.tag("busy", {"user": "ann", "team": "é"}) == {"user": "ann", "team": "é"}
        assert store.tag("busy", {"user": "bob"}, remove=["team", "unknown"]) == {"user": "bob"}
        assert [found.id for found in store.workflows(tag="user=bob")] == ["busy"]
        assert store.tag("busy", remove=["user"]) == store.workflow("busy").tags == {}
        assert store.workflow("w").tags == {}
        with pytest.raises(CheckpointError, match="Workflow 'unknown' not found"):
            store.tag("unknown", {"user": "ann"})
        with pytest.raises(ValueError, match="from text to text"):
            store.tag("w", {"user": 7})  # type: ignore[dict-item]


class AwaitableTests:
    """The methods that users await."""

    def test_the_awaitable_methods_tell_the_same_story(self, store: Checkpointer) -> None:
        async def story() -> None:
            store.backend.open()
            store.backend.open()
            store.create_workflow("w", graph_name="g", inputs={"q": 1}, tags={"k": "v"})
            store.save_step(step(0, values={"x": 1}))
            store.save_step(step(0, values={"y": 2}))
            store.update_workflow_status("w", WorkflowStatus.COMPLETED)
            assert await store.get_state("w") == {"y": 2}
            assert [found.values for found in await store.get_steps("w")] == [{"y": 2}]
            assert (await store.get_checkpoint("w")).values == {"q": 1, "y": 2}
            found = await store.get_workflow("w")
            assert found is not None
            assert found.status is WorkflowStatus.COMPLETED
            async with store as entered:
                assert (await entered.list_workflows(tag="k=v")).total == 1
            store.close()
            with store as entered:
                assert entered is store

        asyncio.run(story())

    def test_creating_twice_and_changing_what_is_not_there_are_refused(self, store: Checkpointer) -> None:
        store.create_workflow("w")
        with pytest.raises(CheckpointError, match="exists already"):
            store.create_workflow("w")
        with pytest.raises(CheckpointError, match="not found"):
            store.update_workflow_status("?", WorkflowStatus.FAILED)

    def test_a_saved_step_of_an_unknown_workflow_creates_it(self, store: Checkpointer) -> None:
        store.save_step(step(0, values={"x": 1}))
        assert store.workflow("w").step_count == 1
