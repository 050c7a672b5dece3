"""Tests of answers that come while a run is under way: a workflow that waits is due for each of them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest

from hypergraph.checkpointers import Checkpointer, StepRecord, StepStatus, WorkflowStatus
from hypergraph.checkpointers.records import Ownership
from hypergraph.records import PauseInfo
from hypergraph.testing.conformance.races import at_once
from hypergraph.testing.conformance.samples import commit, opened, step

_LATER = datetime.now(UTC) + timedelta(days=3650)
_PAUSED = WorkflowStatus.PAUSED
_TOP, _MAP, _ITEM = "w", "w/each", "w/each/item-0"


def asking(node: str, superstep: int = 0, **fields: Any) -> StepRecord:
    """Return a step that waits for an answer under the name of its node."""
    pause = PauseInfo(node, node, value="?")
    return step(superstep, node, status=StepStatus.PAUSED, pause=pause, **fields)


def due(store: Checkpointer) -> list[str]:
    """Return what is due, and every workflow around it."""
    return [each for each in (_TOP, _MAP, _ITEM) if _is_due(store, each)]


def _is_due(store: Checkpointer, workflow_id: str) -> bool:
    found = store.backend.read_workflow(workflow_id)
    return found is not None and found.due is not None and found.due < _LATER


def _nested(store: Checkpointer) -> list[Ownership]:
    """Begin a workflow, a map inside of it and an item that waits for an answer; return the claims."""
    outer = step(0, "each", status=StepStatus.PAUSED, child_workflow_id=_MAP)
    ask = asking("ask", workflow_id=_ITEM)
    places: dict[str, dict[str, Any]] = {_TOP: {}, _MAP: {"parent_id": _TOP, "node_name": "each"}}
    places[_ITEM] = {"parent_id": _MAP, "item": 0}
    claims = [opened(store, name, **about) for name, about in places.items()]
    commit(store, claims[2], ask)
    commit(store, claims[0], outer)
    return claims


class AnswerTests:
    """A workflow that waits is due for an answer that no run has used, whenever it came."""

    def test_an_answer_that_comes_before_the_end_makes_what_waits_due(self, store: Checkpointer) -> None:
        claim = opened(store)
        commit(store, claim, asking("first"), asking("second", index=1))
        store.answer("w", "second", 1)
        commit(store, claim, step(0, "first", {"first": 1}), status=_PAUSED)
        store.backend.release(claim)
        assert [found.id for found in store.due_runs()] == ["w"]
        assert [found.id for found in store.workflows(due=True)] == ["w"]

    def test_an_answer_that_was_used_makes_nothing_due(self, store: Checkpointer) -> None:
        claim = opened(store)
        commit(store, claim, asking("first"), asking("second", index=1))
        store.answer("w", "first", 1)
        commit(store, claim, step(0, "first", {"first": 1}), status=_PAUSED)
        store.backend.release(claim)
        assert store.due_runs() == []
        store.answer("w", "second", 1)
        claim = opened(store)
        commit(store, claim, step(0, "second", {"second": 1}, index=1), status=WorkflowStatus.COMPLETED)
        store.backend.release(claim)
        assert (store.due_runs(), store.workflow("w").due) == ([], None)

    def test_what_was_answered_before_the_questions_that_may_be_open_is_left_out(
        self, store: Checkpointer
    ) -> None:
        claim = opened(store)
        commit(store, claim, asking("old"), asking("new", 4, index=1))
        store.answer("w", "old", 1)
        commit(store, claim, status=_PAUSED, since=1)
        assert store.due_runs() == []
        commit(store, claim, status=_PAUSED, since=0)
        assert [found.id for found in store.due_runs()] == ["w"]
        store.backend.release(claim)

    def test_a_deadline_stays_where_nothing_is_answered(self, store: Checkpointer) -> None:
        claim = opened(store)
        commit(store, claim, asking("ask"), status=_PAUSED, due=_LATER)
        assert store.workflow("w").due == _LATER
        store.answer("w", "ask", 1)
        assert [found.id for found in store.due_runs()] == ["w"]
        commit(store, claim, status=WorkflowStatus.ACTIVE)
        commit(store, claim, status=_PAUSED, due=_LATER)
        assert [found.id for found in store.due_runs()] == ["w"]
        store.backend.release(claim)

    def test_a_workflow_that_was_killed_after_an_answer_is_due(self, store: Checkpointer) -> None:
        claim = opened(store)
        commit(store, claim, asking("ask"))
        store.answer("w", "ask", 1)  # and the process dies
        assert [found.id for found in store.due_runs()] == ["w"]
        commit(store, claim, status=WorkflowStatus.STOPPED)
        store.backend.release(claim)
        assert store.due_runs() == []

    def test_a_workflow_that_was_killed_before_it_began_again_is_due(self, store: Checkpointer) -> None:
        claim = opened(store)
        commit(store, claim, asking("ask"), status=_PAUSED)
        store.backend.release(claim)
        opened(store)  # it is paused, and has an owner, who dies
        store.answer("w", "ask", 1)
        assert [found.id for found in store.due_runs()] == ["w"]

    @pytest.mark.parametrize("moment", range(7))
    def test_an_answer_inside_makes_all_around_it_due_at_any_moment(
        self, store: Checkpointer, moment: int
    ) -> None:
        claims = _nested(store)
        ends: list[Callable[[], None]] = []
        for claim in reversed(claims):  # from the inside out
            ends += [partial(commit, store, claim, status=_PAUSED), partial(store.backend.release, claim)]
        ends.insert(moment, partial(store.answer, _TOP, "each.item-0.ask", 1))
        for end in ends:
            end()
        assert due(store) == [_TOP, _MAP, _ITEM]
        assert [found.id for found in store.due_runs()] == [_TOP]

    @pytest.mark.parametrize("failed", [1, 2])
    @pytest.mark.parametrize("moment", range(7))
    def test_what_waits_is_due_for_an_answer_below_what_has_failed(
        self, store: Checkpointer, moment: int, failed: int
    ) -> None:
        """The item, or the map, has failed beside the question; its place is among those of `_nested`."""
        claims = _nested(store)
        ends: list[Callable[[], None]] = []
        for place, claim in reversed(list(enumerate(claims))):
            status = WorkflowStatus.FAILED if place == failed else _PAUSED
            ends += [partial(commit, store, claim, status=status), partial(store.backend.release, claim)]
        ends.insert(moment, partial(store.answer, _TOP, "each.item-0.ask", 1))
        for end in ends:
            end()
        assert due(store) == [each for place, each in enumerate((_TOP, _MAP, _ITEM)) if place != failed]
        assert [found.id for found in store.due_runs()] == [_TOP]
        again = opened(store, _ITEM, parent_id=_MAP, item=0)
        commit(store, again, step(0, "ask", {"ask": 1}, workflow_id=_ITEM), status=WorkflowStatus.COMPLETED)
        store.backend.release(again)
        for around in (opened(store, _MAP, parent_id=_TOP, node_name="each"), opened(store)):
            commit(store, around, status=_PAUSED)
            store.backend.release(around)
        assert store.due_runs() == []

    def test_answers_and_ends_at_once_lose_nothing(self, store: Checkpointer) -> None:
        for number in range(20):
            name = f"w{number}"
            claim = opened(store, name)
            asked = [asking(node, workflow_id=name, index=i) for i, node in enumerate(("first", "second"))]
            commit(store, claim, *asked)
            used = step(0, "first", {"first": 1}, workflow_id=name)
            end = partial(commit, store, claim, used, status=_PAUSED)
            answer = partial(store.answer, name, "second", 1)
            assert at_once(*((end, answer) if number % 2 else (answer, end))) == [None] * 2
            store.backend.release(claim)
            assert _is_due(store, name), name

    def test_a_map_that_an_item_of_its_own_settles_at_once_with_an_answer_is_due(
        self, store: Checkpointer
    ) -> None:
        for number in range(10):
            top, names = opened(store, f"m{number}"), [f"m{number}/item-{item}" for item in range(2)]
            for item, name in enumerate(names):
                claim = opened(store, name, parent_id=f"m{number}", item=item)
                commit(store, claim, asking("ask", workflow_id=name), status=_PAUSED)
                store.backend.release(claim)
            commit(store, top, status=_PAUSED)
            store.backend.release(top)
            settle = partial(store.backend.settle_map, f"m{number}")
            answer = partial(store.answer, names[1], "ask", 1)
            assert at_once(settle, answer) == [None] * 2
            assert _is_due(store, f"m{number}"), number
