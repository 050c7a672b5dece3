"""Durable runs that wait, stop, have an owner, tell listeners, or make what cannot be stored."""

from __future__ import annotations

import asyncio
import threading
import warnings
from typing import Any

import pytest
from support.durable import Bodies, asking, bodies, durable, fail_once, pipeline, rows, store
from support.listening import Recorder
from support.running import On

from hypergraph import (
    END,
    AsyncRunner,
    Graph,
    NodeEndEvent,
    NodeStartEvent,
    RunStatus,
    RunTimeoutError,
    SyncRunner,
    interrupt,
    node,
    route,
)
from hypergraph.checkpointers import Checkpointer, WorkflowStatus
from hypergraph.events.types import CheckpointSavedEvent
from hypergraph.exceptions import WorkflowError, WorkflowLockedError
from hypergraph.testing.conformance.samples import given

__all__ = ["bodies", "durable", "store"]  # fixtures

# -- pauses, stops and time -----------------------------------------------------------------------------


class TestPauses:
    """Only AsyncRunner pauses."""

    def test_an_answer_may_come_later(self, durable: On, store: Checkpointer, bodies: Bodies) -> None:
        graph = asking(bodies)
        paused = durable.run(graph, {"topic": "bees"}, workflow_id="w")
        assert paused.status is RunStatus.PAUSED
        assert rows(store, "w")[-1] == (1, "review", "paused")
        again = durable.run(graph, workflow_id="w")
        assert (again.status, again.pause) == (RunStatus.PAUSED, paused.pause)
        assert bodies.take() == ["write"]
        result = durable.run(graph, {paused.pause.response_key: "fine"}, workflow_id="w")
        assert result["final"] == "on bees: fine"
        assert bodies.take() == ["publish"]
        assert rows(store, "w") == [
            (0, "write", "completed"),
            (1, "review", "completed"),
            (2, "publish", "completed"),
        ]

    def test_a_turn_that_gives_up_a_question_asked_meanwhile_warns_of_it(
        self, durable: On, store: Checkpointer, bodies: Bodies, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        graph = asking(bodies)
        paused = durable.run(graph, {"topic": "bees"}, workflow_id="w")
        durable.run(graph, {paused.pause.response_key: "fine"}, workflow_id="w")
        claim = store.backend.claim

        def late(*args: Any, **options: Any) -> Any:
            monkeypatch.setattr(store.backend, "claim", claim)
            given = {"workflow_id": "w", "new_turn": True}
            rival = threading.Thread(target=durable.run, args=(graph, {"topic": "ants"}), kwargs=given)
            rival.start()
            rival.join()
            return claim(*args, **options)

        monkeypatch.setattr(store.backend, "claim", late)
        with pytest.warns(UserWarning, match="gives up what it asked for"):
            durable.run(graph, {"topic": "wasps"}, workflow_id="w", new_turn=True)

    def test_a_turn_that_gives_up_a_question_of_the_call_it_waited_for_warns_of_it(
        self, store: Checkpointer
    ) -> None:
        begun, go_on = asyncio.Event(), asyncio.Event()

        @node(output_name="heard")
        async def listen(said: str) -> str:
            begun.set()
            await go_on.wait()
            return said

        @interrupt("ok")
        def ask(heard: str) -> bool | None:
            return None if heard == "refund" else True

        graph, runner = Graph([listen, ask], name="chat"), AsyncRunner(checkpointer=store)

        async def main() -> Any:
            first = asyncio.create_task(runner.run(graph, said="refund", workflow_id="w"))
            await begun.wait()
            second = asyncio.create_task(
                runner.run(graph, said="hello", workflow_id="w", new_turn=True, wait=True)
            )
            await asyncio.sleep(0.02)
            go_on.set()
            return await first, await second

        with pytest.warns(UserWarning, match=r"gives up what it asked for \('ok'\) because of 'said'"):
            paused, result = asyncio.run(main())
        assert (paused.status, result["ok"]) == (RunStatus.PAUSED, True)

    @pytest.mark.parametrize("place", ["questions", "steps"])
    def test_the_same_answer_given_elsewhere_between_two_reads(
        self,
        place: str,
        durable: On,
        store: Checkpointer,
        bodies: Bodies,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        graph = asking(bodies)
        paused = durable.run(graph, {"topic": "bees"}, workflow_id="w")
        answer = {paused.pause.response_key: "fine"}
        read = getattr(Checkpointer, place)

        def late(*args: Any, **options: Any) -> Any:
            monkeypatch.setattr(Checkpointer, place, read)
            rival = threading.Thread(target=durable.run, args=(graph, answer), kwargs={"workflow_id": "w"})
            rival.start()
            rival.join()
            return read(*args, **options)

        monkeypatch.setattr(Checkpointer, place, late)
        result = durable.run(graph, answer, workflow_id="w")
        assert (result.status, result["final"]) == (RunStatus.COMPLETED, "on bees: fine")
        assert bodies.take() == ["write", "publish"]

    def test_a_nested_pause_is_answered_later(self, durable: On, store: Checkpointer, bodies: Bodies) -> None:
        middle = Graph([asking(bodies).as_node()], name="middle")
        graph = Graph([middle.as_node()], name="outer")
        paused = durable.run(graph, {"topic": "bees"}, workflow_id="w")
        assert paused.status is RunStatus.PAUSED
        assert store.workflow("w/middle/asking").status is WorkflowStatus.PAUSED
        bodies.take()
        again = durable.run(graph, workflow_id="w")
        assert (again.status, again.pause) == (RunStatus.PAUSED, paused.pause)
        result = durable.run(graph, {paused.pause.response_key: "fine"}, workflow_id="w")
        assert result["final"] == "on bees: fine"
        assert bodies.take() == ["publish"]
        assert store.workflow("w/middle/asking").status is WorkflowStatus.COMPLETED

    def test_the_next_question_does_not_open_the_last_one_again(self, durable: On) -> None:
        @interrupt(output_name="approved")
        def approve(text: str) -> None:
            return None

        @interrupt(output_name="channel")
        def choose(text: str, approved: bool) -> None:
            return None

        graph = Graph([approve, choose], name="publishing")
        durable.run(graph, {"text": "tea"}, workflow_id="w")
        asked = durable.run(graph, {"approved": True}, workflow_id="w").pause
        assert asked.response_key == "channel"
        with pytest.raises(WorkflowError, match="'approved' of workflow 'w' has been answered"):
            durable.run(graph, {"approved": False, "channel": "post"}, workflow_id="w")
        result = durable.run(graph, {"approved": True, "channel": "post"}, workflow_id="w")
        assert result.values == {"approved": True, "channel": "post"}

    def test_a_loop_asks_in_every_round(self, durable: On, store: Checkpointer, bodies: Bodies) -> None:
        @node(output_name="messages")
        def reply(messages: list[str], user: str) -> list[str]:
            bodies.enter(f"reply {user}")
            return [*messages, user]

        @interrupt(output_name="user")
        def ask(messages: list[str]) -> None:
            return None

        @route(targets=["ask", END])
        def go_on(messages: list[str]) -> Any:
            return END if len(messages) >= 3 else "ask"

        graph = Graph([ask, reply, go_on], name="chat").with_entrypoint("ask")
        result = durable.run(graph, {"messages": []}, workflow_id="w")
        for word in ("a", "b", "b"):
            assert result.status is RunStatus.PAUSED
            result = durable.run(graph, {result.pause.response_key: word}, workflow_id="w")
        assert result.status is RunStatus.COMPLETED
        assert result["messages"] == ["a", "b", "b"]
        assert bodies.take() == ["reply a", "reply b", "reply b"]

    @pytest.mark.parametrize(("again", "used"), [({}, 1), ({"x": 1}, 1), ({"x": 3}, 3)])
    def test_what_a_loop_began_with_is_kept_though_a_question_asks_for_the_same_name(
        self, durable: On, store: Checkpointer, again: dict[str, int], used: int
    ) -> None:
        taken: list[int] = []

        @node(output_name="y")
        def double(x: int) -> int:
            taken.append(x)
            if len(taken) == 1:
                raise ConnectionError
            return 2 * x

        @interrupt(output_name="x")
        def ask(y: int) -> int | None:
            return None

        @route(targets=["ask", END])
        def enough(y: int) -> str:
            return "ask" if y < 10 else END

        graph = Graph([double, enough, ask], name="asking")
        failed = durable.run(graph, {"x": 1}, workflow_id="w", error_handling="continue")
        assert failed.status is RunStatus.FAILED
        assert given(store, "w") == {"x": (1, 1)}
        paused = durable.run(graph, again, workflow_id="w")
        assert (paused.status, paused["y"], taken) == (RunStatus.PAUSED, 2 * used, [1, used])
        assert durable.run(graph, {"x": 7}, workflow_id="w")["y"] == 14


def test_a_stopped_run_goes_on(durable: On, store: Checkpointer, bodies: Bodies) -> None:
    @node(output_name="y")
    def first(x: int) -> int:
        bodies.enter("first")
        if len(bodies.ran) == 1:
            assert durable.runner.stop("w")
        return x + 1

    @node(output_name="z")
    def second(y: int) -> int:
        bodies.enter("second")
        return y + 1

    graph = Graph([first, second])
    stopped = durable.run(graph, {"x": 0}, workflow_id="w", error_handling="continue")
    assert stopped.status is RunStatus.STOPPED
    assert store.workflow("w").status is WorkflowStatus.STOPPED
    assert durable.run(graph, workflow_id="w")["z"] == 2
    assert bodies.take() == ["first", "second"]


def test_a_run_whose_time_was_up_goes_on(durable: On, store: Checkpointer, bodies: Bodies) -> None:
    graph = pipeline(bodies, 2)
    with pytest.raises(RunTimeoutError):
        durable.run(graph, {"v0": 0}, workflow_id="w", timeout=1e-9)
    assert store.workflow("w").status is WorkflowStatus.STOPPED
    assert durable.run(graph, workflow_id="w")["v2"] == 2
    assert bodies.take() == ["s1", "s2"]


# -- listeners, owners, values --------------------------------------------------------------------------


def test_listeners_hear_what_became_durable_and_what_was_replayed(durable: On, bodies: Bodies) -> None:
    graph, heard = pipeline(bodies, 3), Recorder()
    bodies.failing["s3"] = ValueError("broken")
    durable.run(graph, {"v0": 0}, workflow_id="w", event_processors=[heard], error_handling="continue")
    saved = heard.of(CheckpointSavedEvent)
    assert [index for event in saved for index in event.steps] == [0, 1, 2]
    assert {event.workflow_id for event in saved} == {"w"}
    bodies.failing.clear()
    later = Recorder()
    durable.run(graph, workflow_id="w", event_processors=[later])
    ended = [(event.node_name, event.replayed) for event in later.of(NodeEndEvent)]
    assert ended == [("s1", True), ("s2", True), ("s3", False)]
    assert [e.node_name for e in later.of(NodeStartEvent) if not getattr(e, "replayed", False)] == ["s3"]
    assert [index for event in later.of(CheckpointSavedEvent) for index in event.steps] == [3]


def test_a_workflow_under_way_is_refused_to_others(store: Checkpointer, durable: On, bodies: Bodies) -> None:
    entered, leave = threading.Event(), threading.Event()

    @node(output_name="y")
    def wait(x: int) -> int:
        entered.set()
        assert leave.wait(20)
        return x

    graph = Graph([wait])
    found: list[Any] = []
    owner = threading.Thread(
        target=lambda: found.append(SyncRunner(checkpointer=store).run(graph, {"x": 1}, workflow_id="w"))
    )
    owner.start()
    assert entered.wait(20)
    try:
        with pytest.raises(WorkflowLockedError):
            durable.run(graph, {"x": 1}, workflow_id="w")
        with pytest.raises(WorkflowLockedError):
            durable.run(graph, workflow_id="w")
    finally:
        leave.set()
        owner.join()
    assert found[0]["y"] == 1
    assert durable.run(graph, workflow_id="w")["y"] == 1


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_value_that_cannot_be_stored_is_one_warning_and_made_again(
    durable: On, store: Checkpointer, bodies: Bodies, error: type[BaseException]
) -> None:
    @node(output_name="handle")
    def connect(x: int) -> Any:
        bodies.enter("connect")
        return threading.Lock()

    @node(output_name="y")
    def use(handle: Any, x: int) -> int:
        bodies.enter("use")
        assert handle.acquire(False)
        return x + 1

    graph = Graph([connect, use])
    bodies.failing["use"] = error("broken")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with pytest.raises(error):
            durable.run(graph, {"x": 1}, workflow_id="w", select=["y"])
    texts = [str(w.message) for w in caught]
    assert len(texts) == 1
    assert all(word in texts[0] for word in ("w", "connect", "handle"))
    assert rows(store, "w")[0] == (0, "connect", "completed")
    bodies.failing.clear()
    bodies.take()
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        assert durable.run(graph, workflow_id="w", select=["y"])["y"] == 2
    assert bodies.take() == ["connect", "use"]


def test_a_value_that_cannot_be_stored_is_not_made_again_for_nobody(durable: On, bodies: Bodies) -> None:
    @node(output_name="handle")
    def connect(x: int) -> Any:
        bodies.enter("connect")
        return threading.Lock()

    @node(output_name="y")
    def use(handle: Any, x: int) -> int:
        bodies.enter("use")
        return x + 1

    @node(output_name="z")
    def finish(y: int) -> int:
        bodies.enter("finish")
        return y + 1

    graph = Graph([connect, use, finish])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fail_once(durable, bodies, graph, "finish", values={"x": 1}, workflow_id="w")
        assert durable.run(graph, workflow_id="w", select=["z"])["z"] == 3
    assert bodies.take() == ["connect", "use", "finish"]


def test_steps_are_kept_in_graph_order_whichever_finishes_first(
    durable: On, store: Checkpointer, bodies: Bodies
) -> None:
    if not durable.is_async:
        pytest.skip("one after another anyway")
    done = asyncio.Event()

    @node(output_name="a")
    async def slow(x: int) -> int:
        await done.wait()
        return x

    @node(output_name="b")
    async def quick(x: int) -> int:
        done.set()
        return x

    durable.run(Graph([slow, quick]), {"x": 1}, workflow_id="w")
    assert [(s.index, s.node_name) for s in store.steps("w")] == [(0, "slow"), (1, "quick")]
