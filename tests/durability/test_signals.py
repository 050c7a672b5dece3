"""Signals: values sent to a workflow, before or after a node waits for them, received once each."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from support.durable import On, durable, store

from hypergraph import (
    END,
    Graph,
    InvalidAnswerError,
    QuestionExpiredError,
    ReceiveNode,
    SyncRunner,
    node,
    receive,
    route,
)
from hypergraph.checkpointers import (
    AesGcmCodec,
    Checkpointer,
    CheckpointPolicy,
    MemoryCheckpointer,
    SqliteCheckpointer,
    copy_store,
)
from hypergraph.exceptions import WorkflowError, WorkflowNotFoundError
from hypergraph.testing import FakeClock

__all__ = ["durable", "store"]  # fixtures

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def shop(**options: Any) -> Graph:
    @node(output_name="order")
    def begin(item: str) -> str:
        return item

    @node(output_name="sold")
    def sell(order: str, payment: float) -> str:
        return f"{order} for {payment}"

    return Graph([begin, receive("payment", float, wait_for="order", **options), sell], name="shop")


def test_a_run_waits_and_is_due_once_the_signal_is_sent(durable: On, store: Checkpointer) -> None:
    asked = durable.run(shop(), {"item": "tea"}, workflow_id="w")
    assert (asked.pause.reason, asked.pause.signal, asked.pause.response_key) == (
        "signal",
        "payment",
        "payment",
    )
    assert durable.run(shop(), workflow_id="w").paused
    assert store.due_runs() == []
    store.send("w", "payment", 9.5, by="ann")
    assert [found.id for found in store.due_runs()] == ["w"]
    assert durable.run(shop(), workflow_id="w")["sold"] == "tea for 9.5"
    (sent,) = store.signals("w")
    assert (sent.value, sent.by, sent.received_by) == (9.5, "ann", "w/payment")
    assert store.due_runs() == []
    assert durable.run(shop(), workflow_id="w")["sold"] == "tea for 9.5"


def test_a_signal_may_be_sent_before_a_node_waits_for_it(durable: On, store: Checkpointer) -> None:
    @node(output_name="sent")
    def order_and_pay(item: str) -> str:
        store.send("w", "payment", 3)
        return item

    @node(output_name="sold")
    def sell(payment: float) -> float:
        return payment

    graph = Graph([order_and_pay, receive("payment", float, wait_for="sent"), sell])
    assert durable.run(graph, {"item": "tea"}, workflow_id="w")["sold"] == 3


def chat() -> Graph:
    """Return a loop that receives lines until one says "bye"."""

    @node(output_name="heard", append=True)
    def hear(line: str) -> str:
        return line

    @route(targets=["line", END])
    def more(heard: list[str]) -> Any:
        return END if heard[-1:] == ["bye"] else "line"

    return Graph([receive("line", str), hear, more], name="chat")


def test_a_loop_receives_values_in_their_order(durable: On, store: Checkpointer) -> None:
    assert durable.run(chat(), workflow_id="w").paused
    for line in ("a", "b"):
        store.send("w", "line", line)
    assert durable.run(chat(), workflow_id="w").paused
    assert store.state("w")["heard"] == ["a", "b"]
    for line in ("c", "bye", "unheard"):
        store.send("w", "line", line)
    assert durable.run(chat(), workflow_id="w")["heard"] == ["a", "b", "c", "bye"]
    assert [sent.value for sent in store.signals("w") if sent.received_by is None] == ["unheard"]


def test_a_run_after_a_crash_is_given_the_same_value(
    durable: On, store: Checkpointer, monkeypatch: pytest.MonkeyPatch
) -> None:
    durable.run(shop(), {"item": "tea"}, workflow_id="w")
    store.send("w", "payment", 1.0)
    store.send("w", "payment", 2.0)
    take, backend = store.backend.take_signal, type(store.backend)

    def cut(self: Any, *args: Any) -> Any:
        take(*args)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(backend, "take_signal", cut)
        with pytest.raises(KeyboardInterrupt):
            durable.run(shop(), workflow_id="w")
    assert durable.run(shop(), workflow_id="w")["sold"] == "tea for 1.0"
    assert [sent.received_by for sent in store.signals("w")] == ["w/payment", None]


def nested() -> Graph:
    """Return a graph with a nested one that receives the same signal twice."""

    @node(output_name="both")
    def join(first: int, second: int) -> int:
        return first * 10 + second

    first = receive("first", int, signal="go")
    inner = Graph([first, receive("second", int, signal="go", wait_for="first"), join], name="inner")
    return Graph([inner.as_node(name="sub")], name="outer")


def test_nodes_of_nested_graphs_receive_what_is_sent_to_the_workflow(
    durable: On, store: Checkpointer
) -> None:
    assert durable.run(nested(), workflow_id="w").paused
    assert store.workflow("w").awaits == {"go": 1}
    store.send("w", "go", 4)
    assert durable.run(nested(), workflow_id="w").paused
    store.send("w", "go", 2)
    assert [found.id for found in store.due_runs()] == ["w"]
    assert durable.run(nested(), workflow_id="w")["both"] == 42
    with pytest.raises(WorkflowError, match=r"part of 'w'\. Send the signal to 'w'"):
        store.send("w/sub", "go", 1)


def test_a_nested_graph_without_a_history_receives_the_same_values_again() -> None:
    store = MemoryCheckpointer(policy=CheckpointPolicy(granularity="top-level"))
    runner = SyncRunner(checkpointer=store)
    assert runner.run(nested(), workflow_id="w").paused
    store.send("w", "go", 4)
    assert runner.run(nested(), workflow_id="w").paused
    assert [found.id for found in store.due_runs()] == []
    store.send("w", "go", 2)
    assert runner.run(nested(), workflow_id="w")["both"] == 42


def test_items_of_a_map_each_receive_their_own(durable: On, store: Checkpointer) -> None:
    @node(output_name="y")
    def use(x: int, go: int) -> int:
        return x * go

    graph = Graph([receive("go", int), use], name="each")
    numbers = {"x": [1, 2, 3]}
    durable.map(graph, numbers, map_over="x", workflow_id="b")
    store.send("b/item-1", "go", 10)
    assert [found.id for found in store.due_runs()] == ["b/item-1"]
    assert durable.run(graph, workflow_id="b/item-1")["y"] == 20
    for value in (100, 1000):
        store.send("b", "go", value)
    found = durable.map(graph, numbers, map_over="x", workflow_id="b")["y"]
    assert sorted(found) in ([20, 100, 3000], [20, 300, 1000])
    assert store.due_runs() == []


def test_a_new_turn_receives_the_next_value_and_a_fork_waits_for_its_own(
    durable: On, store: Checkpointer
) -> None:
    graph = shop()
    durable.run(graph, {"item": "tea"}, workflow_id="w")
    for value in (1.0, 2.0):
        store.send("w", "payment", value)
    assert durable.run(graph, workflow_id="w")["sold"] == "tea for 1.0"
    assert durable.run(graph, {"item": "milk"}, workflow_id="w")["sold"] == "milk for 2.0"
    forked = durable.run(graph, workflow_id="f", fork_from=("w", 0))
    assert forked.paused
    store.send("f", "payment", 7.0)
    assert durable.run(graph, workflow_id="f")["sold"].endswith("for 7.0")


def test_a_deadline_counts_unless_the_signal_is_there(durable: On, store: Checkpointer) -> None:
    with FakeClock(NOON) as clock:
        for name, options in (("late", {"default": 0.0}), ("never", {}), ("paid", {"default": 0.0})):
            durable.run(shop(timeout=60, **options), {"item": "tea"}, workflow_id=name)
        store.send("paid", "payment", 5.0)
        clock.jump(timedelta(minutes=2))
        assert durable.run(shop(timeout=60, default=0.0), workflow_id="late")["sold"] == "tea for 0.0"
        assert durable.run(shop(timeout=60, default=0.0), workflow_id="paid")["sold"] == "tea for 5.0"
        with pytest.raises(QuestionExpiredError):
            durable.run(shop(timeout=60), workflow_id="never")


def test_an_answer_ends_the_wait_as_well(durable: On, store: Checkpointer) -> None:
    durable.run(shop(), {"item": "tea"}, workflow_id="w")
    store.answer("w", "payment", 4.0)
    assert durable.run(shop(), workflow_id="w")["sold"] == "tea for 4.0"
    assert durable.run(shop(), {"item": "tea", "payment": 2.0}, workflow_id="v")["sold"] == "tea for 2.0"


def test_without_a_store_the_value_is_given_as_an_answer() -> None:
    assert SyncRunner().run(shop(), item="tea").pause.signal == "payment"
    assert SyncRunner().run(shop(), item="tea", payment=1.0)["sold"] == "tea for 1.0"


def test_what_cannot_be_sent_is_refused(durable: On, store: Checkpointer) -> None:
    durable.run(shop(), {"item": "tea"}, workflow_id="w")
    cases: list[tuple[tuple[Any, ...], type[Exception], str]] = [
        (("none", "payment", 1.0), WorkflowNotFoundError, "none"),
        (("w", "paymet", 1.0), WorkflowError, "Did you mean 'payment'"),
        (("w", "payment", "much"), InvalidAnswerError, "must be a number"),
        (("w", "pay ment", 1.0), ValueError, "cannot be the name of a signal"),
        (("w", "", 1.0), ValueError, "cannot be the name of a signal"),
        (("w", None, 1.0), TypeError, "must be a text"),
    ]
    for arguments, error, text in cases:
        with pytest.raises(error, match=text):
            store.send(*arguments)
    with pytest.raises(TypeError, match="by must be a text"):
        store.send("w", "payment", 1.0, by=3)  # type: ignore[arg-type]
    assert store.signals("w") == []
    store.send("w", "payment", 1.0)
    durable.run(shop(), workflow_id="w")
    with pytest.raises(WorkflowError, match="has completed"):
        store.send("w", "payment", 1.0)
    with pytest.raises(WorkflowNotFoundError):
        store.signals("none")


def test_a_value_that_cannot_be_stored_is_refused(store: Checkpointer) -> None:
    store.create_workflow("w")
    with pytest.raises(InvalidAnswerError, match="signal 'go' to workflow 'w' is of type function"):
        store.send("w", "go", lambda: None)
    assert store.signals("w") == []


def test_a_node_is_refused_with_what_makes_no_sense() -> None:
    cases: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"signal": "a b"}, ValueError, "cannot be the name of a signal"),
        ({"signal": 3}, TypeError, "must be a text"),
        ({"timeout": 0}, ValueError, "greater than 0"),
        ({"default": 1}, ValueError, "add timeout"),
        ({"timeout": 1, "default": "x", "answer": int}, InvalidAnswerError, "whole number"),
    ]
    for options, error, text in cases:
        with pytest.raises(error, match=text):
            receive("go", **options)
    with pytest.raises(ValueError, match="has one output"):
        ReceiveNode(lambda: None, "go", ("a", "b"))
    assert receive("go").signal == "go"
    assert receive("go").with_name("went").signal == "go"
    assert receive("go", signal="a").definition_hash != receive("go", signal="b").definition_hash


def test_signals_are_encrypted_redacted_and_move_with_their_workflow(tmp_path: Path) -> None:
    codec = AesGcmCodec(b"k" * 32)
    with SqliteCheckpointer(tmp_path / "a.db", codec=codec, redact=lambda _, name, value: value) as source:
        runner = SyncRunner(checkpointer=source)
        runner.run(shop(), item="tea", workflow_id="w")
        source.send("w", "payment", 12345.5)
        assert b"12345.5" not in (tmp_path / "a.db").read_bytes()
        with SqliteCheckpointer(tmp_path / "b.db", codec=codec) as target:
            copy_store(source, target)
            assert [found.id for found in target.due_runs()] == ["w"]
            assert SyncRunner(checkpointer=target).run(shop(), workflow_id="w")["sold"] == "tea for 12345.5"


def test_retention_keeps_what_was_not_received() -> None:
    store = MemoryCheckpointer()
    runner = SyncRunner(checkpointer=store)
    runner.run(chat(), workflow_id="w")
    store.send("w", "line", "a")
    store.send("w", "line", "b")
    store.backend.trim("w", store.encoding, before=100)
    runner.run(chat(), workflow_id="w")
    assert store.state("w")["heard"] == ["a", "b"]
