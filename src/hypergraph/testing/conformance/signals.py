"""Tests of signals: values that are sent to a workflow and received once each, in order."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest

from hypergraph.checkpointers import Checkpointer, WorkflowStatus
from hypergraph.checkpointers.query import Query
from hypergraph.checkpointers.records import NewWorkflow
from hypergraph.exceptions import WorkflowError, WorkflowNotFoundError
from hypergraph.testing.conformance.samples import commit, opened

_LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


def due(store: Checkpointer, parent: str | None = None) -> list[str]:
    """Return the ids of workflows that wait for a signal which is kept."""
    return sorted(found.id for found in store.backend.find(Query(parent=parent, due=_LONG_AGO))[0])


class SignalTests:
    """Each value belongs to one taker, which is given the same value again; a waiting workflow is due."""

    def test_values_are_received_once_in_their_order(self, store: Checkpointer) -> None:
        store.backend.release(opened(store))
        for value in ("one", "two"):
            store.send("w", "go", value, by="ann")
        store.send("w", "other", 3)
        take = store.backend.take_signal
        values = [
            store.encoding.read_signal(*found).value
            for taker in ("a", "b", "a")
            if (found := take(["w"], "go", taker)) is not None
        ]
        assert values == ["one", "two", "one"]
        assert take(["w"], "go", "c") is None
        assert [(sent.name, sent.by, sent.received_by is None) for sent in store.signals("w")] == [
            ("go", "ann", True),
            ("go", "ann", True),
            ("other", None, True),
        ]
        assert store.state("w") == {}
        assert store.steps("w") == []

    def test_the_nearest_workflow_comes_first(self, store: Checkpointer) -> None:
        store.backend.release(opened(store))
        store.backend.release(opened(store, "w/item-0", parent_id="w", item=0))
        store.send("w", "go", "to all")
        store.send("w/item-0", "go", "to one")
        found = [store.backend.take_signal(["w/item-0", "w"], "go", taker) for taker in "ab"]
        assert [each and each[0] for each in found] == ["w/item-0", "w"]

    def test_an_index_is_given_once(self, store: Checkpointer) -> None:
        store.backend.release(opened(store))
        payload = store.encoding.signal("w", "go", 1, None, 1)
        assert store.backend.put_signal("w", payload)
        assert not store.backend.put_signal("w", payload)
        assert store.backend.take_signal(["w"], "go", "a") is not None
        assert not store.backend.put_signal("w", payload)
        assert not store.backend.put_signal("w", payload._replace(idx=3))

    def test_senders_and_takers_at_once_lose_nothing(self, store: Checkpointer) -> None:
        store.backend.release(opened(store))
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda number: store.send("w", "go", number), range(12)))
            found = list(pool.map(lambda n: store.backend.take_signal(["w"], "go", f"t{n}"), range(14)))
        taken = [store.encoding.read_signal(*each).value for each in found if each is not None]
        assert sorted(taken) == list(range(12))

    def test_what_is_unknown_or_over_is_refused(self, store: Checkpointer) -> None:
        with pytest.raises(WorkflowNotFoundError):
            store.send("none", "go", 1)
        claim = opened(store)
        commit(store, claim, status=WorkflowStatus.COMPLETED)
        store.backend.release(claim)
        with pytest.raises(WorkflowError, match="has completed"):
            store.send("w", "go", 1)
        assert store.backend.read_signals("none") == []

    def test_a_workflow_is_due_while_it_waits_for_what_is_kept(self, store: Checkpointer) -> None:
        claim = opened(store)
        commit(store, claim, status=WorkflowStatus.PAUSED, awaits={"go_on": 1})
        store.backend.release(claim)
        assert (due(store), store.workflow("w").awaits) == ([], {"go_on": 1})
        store.send("w", "goXon", 1)
        store.send("w", "Go_on", 1)
        store.send("w", "go", 1)
        assert due(store) == []
        store.send("w", "go_on", 1)
        assert due(store) == ["w"]
        claim = opened(store)
        commit(store, claim, status=WorkflowStatus.ACTIVE)
        assert due(store) == ["w"]  # a run that was killed now would stay due
        store.backend.take_signal(["w"], "go_on", "a")
        assert due(store) == []
        assert [found.id for found in store.due_runs()] == ["w"]  # so would one that is killed with the value
        commit(store, claim, status=WorkflowStatus.COMPLETED)
        store.backend.release(claim)
        assert (store.workflow("w").awaits, store.due_runs()) == ({}, [])

    def test_a_workflow_that_did_not_wait_for_a_value_is_not_due(self, store: Checkpointer) -> None:
        claim = opened(store)
        commit(store, claim, status=WorkflowStatus.PAUSED, awaits={"other": 1})
        store.send("w", "go", 1)
        store.backend.take_signal(["w"], "go", "a")
        assert store.due_runs() == []
        store.backend.release(claim)

    def test_why_a_workflow_ended_is_kept_until_its_next_status(self, store: Checkpointer) -> None:
        claim = opened(store)
        commit(store, claim, status=WorkflowStatus.FAILED, reason="TimeoutError: 5 s → over")
        assert store.workflow("w").reason == "TimeoutError: 5 s → over"
        commit(store, claim, status=WorkflowStatus.ACTIVE)
        store.backend.release(claim)
        assert store.workflow("w").reason is None

    def test_items_of_a_map_are_due_for_what_was_sent_to_them_or_to_the_map(
        self, store: Checkpointer
    ) -> None:
        top = opened(store)
        for number, name in enumerate(("go", "other", "go")):
            item = opened(store, f"w/item-{number}", parent_id="w", item=number)
            commit(store, item, status=WorkflowStatus.PAUSED, awaits={name: 1})
            store.backend.release(item)
        commit(store, top, status=WorkflowStatus.PAUSED)
        store.backend.release(top)
        store.backend.settle_map("w")
        assert store.workflow("w").awaits == {"go": 2, "other": 1}
        store.send("w/item-1", "go", 1)  # which it does not wait for
        assert (due(store), due(store, "w")) == ([], [])
        store.send("w/item-2", "go", 1)
        assert (due(store), due(store, "w")) == (["w"], ["w/item-2"])
        store.send("w", "go", 1)
        assert (due(store), due(store, "w")) == (["w"], ["w/item-0", "w/item-2"])

    def test_a_fork_begins_without_signals_and_deletion_takes_them_along(self, store: Checkpointer) -> None:
        store.backend.release(opened(store))
        store.send("w", "go", 1)
        new = NewWorkflow(forked_from="w", copies=True)
        store.backend.release(store.backend.claim("f", new, store.encoding))
        assert store.signals("f") == []
        store.delete("w")
        store.backend.release(opened(store))
        assert store.signals("w") == []
