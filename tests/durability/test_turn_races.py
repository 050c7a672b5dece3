"""Turns of two runners on one chat: what the other one did between the look and the claim."""

from __future__ import annotations

from typing import Any

import pytest
from support.durable import On, durable, store
from support.running import run_async, run_sync

from hypergraph import Graph, SyncRunner, interrupt, node, receive
from hypergraph.checkpointers import Checkpointer, MemoryCheckpointer
from hypergraph.exceptions import WorkflowError
from hypergraph.testing import FakeClock

__all__ = ["durable", "store"]  # fixtures


@pytest.mark.parametrize("call", [run_sync, run_async], ids=["sync", "async"])
def test_a_resume_without_values_does_not_repeat_an_older_message(call: Any) -> None:
    said_to: list[str] = []
    down = [True]

    @node(output_name="messages", append=True)
    def listen(said: str) -> str:
        if said == "two" and down:
            down.clear()
            raise ConnectionError
        said_to.append(said)
        return said

    chat, store = Graph([listen], name="chat"), MemoryCheckpointer()
    other = SyncRunner(checkpointer=store)
    other.run(chat, said="one", workflow_id="c")
    other.run(chat, said="two", workflow_id="c", error_handling="continue")
    backend, claim = store.backend, store.backend.claim

    def late(*args: Any, **options: Any) -> Any:
        backend.claim = claim  # type: ignore[method-assign]  # of this test
        other.run(chat, workflow_id="c")
        other.run(chat, said="three", workflow_id="c")
        return claim(*args, **options)

    backend.claim = late  # type: ignore[method-assign]  # as above
    result = call(chat, workflow_id="c", store=store)
    assert result.completed
    assert said_to == result["messages"] == ["one", "two", "three"]


@pytest.mark.parametrize("call", [run_sync, run_async])
def test_a_turn_if_completed_gives_up_no_other_turn(call: Any) -> None:
    down = {"mail"}

    @node(output_name="messages", append=True)
    def listen(said: str) -> str:
        return said

    @interrupt("approved")
    def ask(said: str) -> bool | None:
        return None if said == "ask" else True

    @node(output_name="mailed")
    def mail(said: str, approved: bool) -> str:
        if down and said == "fail":
            raise ConnectionError("down")
        return said

    graph, store = Graph([listen, ask, mail], name="chat"), MemoryCheckpointer()

    def send(said: str) -> Any:
        return call(
            *(graph, {"said": said}),
            store=store,
            workflow_id="w",
            new_turn="if-completed",
            error_handling="continue",
        )

    assert send("hello").completed, "there was no turn before"
    assert send("ask").paused
    with pytest.raises(
        WorkflowError,
        match=r"has not completed: it is paused\. Answer its questions; if that has been done, run the",
    ):
        send("later")
    assert [question.keys for question in store.questions("w")] == [("approved",)]
    assert call(graph, {"approved": True}, store=store, workflow_id="w").completed
    assert send("fail").failed
    with pytest.raises(WorkflowError, match=r"it is failed\. To finish it, run the workflow without values"):
        send("later")
    down.clear()
    assert call(graph, store=store, workflow_id="w").completed
    assert send("fail")["messages"] == ["hello", "ask", "fail", "fail"]
    with pytest.raises(ValueError, match="Invalid new_turn: 'always'"):
        call(graph, {"said": "x"}, store=store, workflow_id="w", new_turn="always")


def test_the_error_about_an_unfinished_turn_says_what_finishes_it(durable: On, store: Checkpointer) -> None:
    """An answer after the deadline would be refused, and a signal is no answer."""
    ask = interrupt("ok", timeout=60, default=False)(lambda said: None).with_name("ask")
    options: dict[str, Any] = {"new_turn": "if-completed"}
    with FakeClock() as clock:
        durable.run(Graph([ask], name="asking"), said="a", workflow_id="w", **options)
        clock.jump(60)
        with pytest.raises(
            WorkflowError, match=r"waited for has come, an answer or its time: run the workflow without"
        ):
            durable.run(Graph([ask], name="asking"), said="b", workflow_id="w", **options)
    asked = interrupt("ok")(lambda said: None).with_name("ask")
    durable.run(Graph([asked], name="asked"), said="a", workflow_id="answered", **options)
    store.answer("answered", "ok", True)
    with pytest.raises(WorkflowError, match=r"has come, an answer or its time: run the workflow without"):
        durable.run(Graph([asked], name="asked"), said="b", workflow_id="answered", **options)
    place = node(output_name="order")(lambda said: said).with_name("place")
    paying = Graph([place, receive("payment", float, wait_for="order")], name="paying")
    durable.run(paying, said="a", workflow_id="p", **options)
    with pytest.raises(WorkflowError, match=r"it is paused\. Send what it waits for, or answer it, and run"):
        durable.run(paying, said="b", workflow_id="p", **options)
