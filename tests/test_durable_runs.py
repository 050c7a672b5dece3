"""Durable runs as users meet them: look at them later, take them up again, fork them, answer them."""

from __future__ import annotations

import asyncio
import threading
import warnings
from typing import Any

import pytest
from durable import Bodies, bodies, durable, rows, store  # noqa: F401 - fixtures
from listening import Recorder
from running import On

from hypergraph import (
    END,
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
from hypergraph.checkpointers import Checkpointer, StepStatus, WorkflowStatus
from hypergraph.events.types import CheckpointSavedEvent
from hypergraph.exceptions import WorkflowLockedError

BROKEN = ValueError("broken")


def pipeline(bodies: Bodies, size: int = 5, name: str = "pipeline") -> Graph:
    """Return a chain s1 ... s5 that adds one at each step: v0 -> v5."""

    def step(position: int) -> Any:
        def body(value: int) -> int:
            bodies.enter(f"s{position}")
            return value + 1

        made = node(output_name=f"v{position}")(body)
        return made.with_name(f"s{position}").with_inputs(value=f"v{position - 1}")

    return Graph([step(position) for position in range(1, size + 1)], name=name)


def counting(bodies: Bodies) -> Graph:
    """Return a loop that counts up to its limit."""

    @node(output_name="count")
    def add(count: int) -> int:
        bodies.enter(f"add {count}")
        return count + 1

    @route(targets=["add", END])
    def again(count: int, limit: int) -> Any:
        bodies.enter(f"again {count}")
        return END if count >= limit else "add"

    return Graph([add, again], name="counting")


def asking(bodies: Bodies) -> Graph:
    """Return a graph that asks in its middle."""

    @node(output_name="draft")
    def write(topic: str) -> str:
        bodies.enter("write")
        return f"on {topic}"

    @interrupt(output_name="verdict")
    def review(draft: str) -> None:
        return None

    @node(output_name="final")
    def publish(draft: str, verdict: str) -> str:
        bodies.enter("publish")
        return f"{draft}: {verdict}"

    return Graph([write, review, publish], name="asking")


def fail_once(durable: On, bodies: Bodies, graph: Graph, at: str, **options: Any) -> None:
    """Run a graph that fails at one body, and mend it."""
    bodies.failing[at] = ValueError("broken")
    with pytest.raises(ValueError, match="broken"):
        durable.run(graph, **options)
    bodies.failing.clear()


def read(store: Checkpointer, question: str, *args: Any, **options: Any) -> Any:
    """Ask the awaitable side of a store."""

    async def main() -> Any:
        return await getattr(store, question)(*args, **options)

    return asyncio.run(main())


# -- looking at runs ------------------------------------------------------------------------------------


def test_values_can_be_read_at_any_superstep(durable: On, store: Checkpointer, bodies: Bodies) -> None:
    durable.run(pipeline(bodies), {"v0": 0}, workflow_id="w")
    for superstep in range(5):
        expected = {f"v{position}": position for position in range(1, superstep + 2)}
        assert read(store, "get_state", "w", superstep=superstep) == expected
        assert store.state("w", superstep=superstep) == expected


def test_steps_tell_what_happened_and_with_what(durable: On, store: Checkpointer, bodies: Bodies) -> None:
    durable.run(pipeline(bodies, 2), {"v0": 0}, workflow_id="w")
    first, second = read(store, "get_steps", "w")
    assert (first.values, first.input_versions, first.status) == ({"v1": 1}, {"v0": 1}, StepStatus.COMPLETED)
    assert (second.values, second.input_versions, second.index) == ({"v2": 2}, {"v1": 1}, 1)
    assert second.duration_ms >= 0


def test_items_of_a_map_are_workflows_of_their_own(durable: On, store: Checkpointer, bodies: Bodies) -> None:
    durable.map(pipeline(bodies, 2), {"v0": [1, 2, 3]}, map_over="v0", workflow_id="batch")
    assert store.state("batch/item-2", superstep=0) == {"v1": 4}
    assert store.workflow("batch").status is WorkflowStatus.COMPLETED
    assert [w.id for w in store.workflows()] == ["batch"]
    assert {w.id for w in store.workflows(parent="batch")} == {f"batch/item-{i}" for i in range(3)}


def test_failed_workflows_are_listed_and_print_their_failing_step(
    durable: On, store: Checkpointer, bodies: Bodies
) -> None:
    durable.run(pipeline(bodies), {"v0": 0}, workflow_id="good")
    fail_once(durable, bodies, pipeline(bodies), "s3", values={"v0": 0}, workflow_id="bad")
    failed = read(store, "list_workflows", status=WorkflowStatus.FAILED)
    assert [w.id for w in failed] == ["bad"]
    text = str(failed[0])
    assert text.startswith("Workflow: bad | FAILED | 3 steps | ")
    assert "FAILED: broken" in text
    step = store.steps("bad")[-1]
    assert (step.error, step.error_type) == ("broken", "builtins.ValueError")
    assert "in body" in step.traceback
    assert {w.id for w in store.workflows()} == {"good", "bad"}


def test_a_decision_is_part_of_its_step(durable: On, store: Checkpointer, bodies: Bodies) -> None:
    durable.run(counting(bodies), {"count": 0, "limit": 2}, workflow_id="w")
    decisions = [s.decision for s in store.steps("w") if s.node_name == "again"]
    assert decisions[-1] == "END"
    assert set(decisions[:-1]) == {"add"}


def test_a_run_without_an_id_is_kept_under_its_run_id(durable: On, store: Checkpointer, bodies: Bodies) -> None:
    result = durable.run(pipeline(bodies, 1), {"v0": 0})
    assert result.workflow_id is not None
    assert store.state(result.workflow_id) == {"v1": 1}


# -- forks ----------------------------------------------------------------------------------------------


def test_a_fork_executes_only_later_steps(durable: On, store: Checkpointer, bodies: Bodies) -> None:
    graph = pipeline(bodies)
    fail_once(durable, bodies, graph, "s4", values={"v0": 0}, workflow_id="order")
    parent = rows(store, "order")
    bodies.take()
    point = store.checkpoint("order", superstep=2)
    assert point.values == {"v0": 0, "v1": 1, "v2": 2, "v3": 3}
    result = durable.run(graph, {**point.values}, history=point.steps, workflow_id="retry")
    assert bodies.take() == ["s4", "s5"]
    assert result["v5"] == 5
    assert rows(store, "order") == parent
    assert rows(store, "retry") == [(k, f"s{k + 1}", "completed") for k in range(5)]
    forked = store.workflow("retry")
    assert (forked.forked_from, forked.forked_at) == ("order", 2)


def test_a_fork_with_an_edited_value_goes_on_from_the_edit(
    durable: On, store: Checkpointer, bodies: Bodies
) -> None:
    graph = pipeline(bodies)
    durable.run(graph, {"v0": 0}, workflow_id="order")
    bodies.take()
    point = store.checkpoint("order", superstep=2)
    result = durable.run(graph, {**point.values, "v3": 100}, history=point.steps, workflow_id="edited")
    assert bodies.take() == ["s4", "s5"]
    assert result["v5"] == 102
    assert store.state("order")["v5"] == 5


def test_a_fork_of_a_fork_is_whole(durable: On, store: Checkpointer, bodies: Bodies) -> None:
    graph = pipeline(bodies)
    durable.run(graph, {"v0": 0}, workflow_id="a")
    one = store.checkpoint("a", superstep=3)
    durable.run(graph, one.values, history=one.steps, workflow_id="b")
    two = store.checkpoint("b", superstep=1)
    bodies.take()
    assert durable.run(graph, two.values, history=two.steps, workflow_id="c")["v5"] == 5
    assert bodies.take() == ["s3", "s4", "s5"]
    assert store.workflow("c").forked_from == "b"


def test_a_fork_inside_a_loop_goes_on_with_the_next_round(
    durable: On, store: Checkpointer, bodies: Bodies
) -> None:
    graph = counting(bodies)
    durable.run(graph, {"count": 0, "limit": 4}, workflow_id="w")
    whole = bodies.take()
    last = store.steps("w")[-1].superstep
    for superstep in range(last + 1):
        point = store.checkpoint("w", superstep=superstep)
        result = durable.run(graph, point.values, history=point.steps, workflow_id=f"fork-{superstep}")
        assert result["count"] == 4
        assert bodies.take() == whole[len(point.steps) :]


# -- going on after a failure ---------------------------------------------------------------------------


@pytest.mark.parametrize("at", ["s1", "s3", "s5"])
def test_finished_bodies_do_not_run_again(durable: On, store: Checkpointer, bodies: Bodies, at: str) -> None:
    graph = pipeline(bodies)
    fail_once(durable, bodies, graph, at, values={"v0": 0}, workflow_id="w")
    result = durable.run(graph, workflow_id="w")
    assert result["v5"] == 5
    assert bodies.take() == ["s1", "s2", "s3", "s4", "s5"]
    assert store.workflow("w").status is WorkflowStatus.COMPLETED
    assert [(n, s) for _, n, s in rows(store, "w")].count((at, "failed")) == 1
    supersteps = [s for s, _, _ in rows(store, "w")]
    assert supersteps == sorted(supersteps)


def test_what_was_restored_is_skipped_in_the_log(durable: On, bodies: Bodies) -> None:
    graph = pipeline(bodies, 3)
    fail_once(durable, bodies, graph, "s3", values={"v0": 0}, workflow_id="w")
    result = durable.run(graph, workflow_id="w")
    assert [(r.node_name, r.status) for r in result.log.steps] == [
        ("s1", "skipped"),
        ("s2", "skipped"),
        ("s3", "completed"),
    ]


def test_a_completed_workflow_answers_without_running_or_writing(
    durable: On, store: Checkpointer, bodies: Bodies
) -> None:
    graph = pipeline(bodies, 3)
    first = durable.run(graph, {"v0": 0}, workflow_id="w")
    bodies.take()
    before = (store.steps("w"), store.workflow("w").to_dict())
    for values in (None, {"v0": 0}):
        again = durable.run(graph, values, workflow_id="w")
        assert (again.values, again.status) == (first.values, RunStatus.COMPLETED)
    assert bodies.take() == []
    assert (store.steps("w"), store.workflow("w").to_dict()) == before


def test_changed_inputs_run_what_takes_them(durable: On, store: Checkpointer, bodies: Bodies) -> None:
    @node(output_name="left")
    def double(a: int) -> int:
        bodies.enter("double")
        return 2 * a

    @node(output_name="right")
    def square(b: int) -> int:
        bodies.enter("square")
        return b * b

    @node(output_name="total")
    def add(left: int, right: int) -> int:
        bodies.enter("add")
        return left + right

    graph = Graph([double, square, add])
    durable.run(graph, {"a": 1, "b": 2}, workflow_id="w")
    bodies.take()
    assert durable.run(graph, {"a": 1, "b": 3}, workflow_id="w")["total"] == 11
    assert bodies.take() == ["square", "add"]
    assert durable.run(graph, {"b": 3}, workflow_id="w")["total"] == 11
    assert bodies.take() == []
    assert durable.run(graph, {"a": 5}, workflow_id="w")["total"] == 19
    assert bodies.take() == ["double", "add"]
    assert store.state("w") == {"left": 10, "right": 9, "total": 19}
    supersteps = [s for s, _, _ in rows(store, "w")]
    assert supersteps == sorted(supersteps)


def test_a_new_turn_counts_equal_values_as_new(durable: On, bodies: Bodies) -> None:
    graph = pipeline(bodies, 2)
    durable.run(graph, {"v0": 0}, workflow_id="w")
    bodies.take()
    durable.run(graph, {"v0": 0}, workflow_id="w", new_turn=True)
    assert bodies.take()[:1] == ["s1"]


@pytest.mark.parametrize("at", ["add 0", "again 1", "add 2", "again 3"])
def test_a_loop_that_failed_goes_on_in_the_same_round(
    durable: On, store: Checkpointer, bodies: Bodies, at: str
) -> None:
    graph, values = counting(bodies), {"count": 0, "limit": 4}
    durable.run(graph, values, workflow_id="reference")
    whole = bodies.take()
    fail_once(durable, bodies, graph, at, values=values, workflow_id="w")
    assert durable.run(graph, workflow_id="w")["count"] == 4
    assert bodies.take() == whole
    assert store.state("w") == store.state("reference")


def test_a_failure_two_graphs_deep_is_taken_up_there(durable: On, store: Checkpointer, bodies: Bodies) -> None:
    inner = pipeline(bodies, 3, "inner").as_node()
    middle = Graph([inner], name="middle").as_node()

    @node(output_name="result")
    def finish(v3: int) -> int:
        bodies.enter("finish")
        return v3 * 10

    graph = Graph([middle, finish], name="outer")
    fail_once(durable, bodies, graph, "s3", values={"v0": 0}, workflow_id="w")
    assert rows(store, "w/middle/inner") == [
        (0, "s1", "completed"),
        (1, "s2", "completed"),
        (2, "s3", "failed"),
    ]
    assert store.workflow("w/middle/inner").status is WorkflowStatus.FAILED
    assert store.steps("w")[0].child_workflow_id == "w/middle"
    assert durable.run(graph, workflow_id="w")["result"] == 30
    assert bodies.take() == ["s1", "s2", "s3", "finish"]
    assert store.workflow("w/middle/inner").status is WorkflowStatus.COMPLETED
    assert store.workflow("w").status is WorkflowStatus.COMPLETED


def test_a_graph_in_a_loop_has_a_workflow_for_each_visit(
    durable: On, store: Checkpointer, bodies: Bodies
) -> None:
    @node(output_name="count")
    def add(count: int) -> int:
        bodies.enter(f"add {count}")
        return count + 1

    @route(targets=["body", END])
    def again(count: int) -> Any:
        return END if count >= 3 else "body"

    graph = Graph([Graph([add], name="body").as_node(), again])
    fail_once(durable, bodies, graph, "add 1", values={"count": 0}, workflow_id="w")
    assert durable.run(graph, workflow_id="w")["count"] == 3
    assert bodies.take() == ["add 0", "add 1", "add 2"]
    assert {w.id for w in store.workflows(parent="w")} == {"w/body", "w/body#2", "w/body#3"}


def test_finished_items_of_a_map_do_not_run_again(durable: On, store: Checkpointer, bodies: Bodies) -> None:
    @node(output_name="y")
    def work(x: int) -> int:
        bodies.enter(f"work {x}")
        return x * 2

    graph = Graph([work], name="work")
    options: dict[str, Any] = {"map_over": "x", "workflow_id": "batch", "error_handling": "continue"}
    bodies.failing["work 2"] = ValueError("broken")
    results = durable.map(graph, {"x": [1, 2, 3]}, **options)
    assert [r.status for r in results] == [RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.COMPLETED]
    assert store.workflow("batch").status is WorkflowStatus.PARTIAL
    assert bodies.take() == ["work 1", "work 3"]
    bodies.failing.clear()
    results = durable.map(graph, {"x": [1, 2, 3]}, **options)
    assert results["y"] == [2, 4, 6]
    assert bodies.take() == ["work 2"]
    assert store.workflow("batch").status is WorkflowStatus.COMPLETED


def test_a_map_inside_a_graph_goes_on_with_the_failed_item(
    durable: On, store: Checkpointer, bodies: Bodies
) -> None:
    @node(output_name="y")
    def work(x: int) -> int:
        bodies.enter(f"work {x}")
        return x * 2

    @node(output_name="total")
    def add(y: list[int]) -> int:
        bodies.enter("add")
        return sum(y)

    graph = Graph([Graph([work], name="each").as_node().map_over("x"), add])
    fail_once(durable, bodies, graph, "work 3", values={"x": [1, 2, 3]}, workflow_id="w")
    assert durable.run(graph, workflow_id="w")["total"] == 12
    assert sorted(bodies.take()) == ["add", "work 1", "work 2", "work 3"]


def test_selected_outputs_of_a_resumed_run_are_those_asked_for(durable: On, bodies: Bodies) -> None:
    graph = pipeline(bodies, 3)
    fail_once(durable, bodies, graph, "s3", values={"v0": 0}, workflow_id="w")
    options: dict[str, Any] = {"select": ["v1", "v3"], "on_missing": "error"}
    assert durable.run(graph, workflow_id="w", **options).values == {"v1": 1, "v3": 3}
    assert durable.run(graph, workflow_id="w", **options).values == {"v1": 1, "v3": 3}


# -- pauses, stops and time -----------------------------------------------------------------------------


class TestPauses:
    """Only AsyncRunner pauses."""

    @pytest.fixture(autouse=True)
    def _only_async(self, durable: On) -> None:
        if not durable.is_async:
            pytest.skip("interrupts need an event loop")

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
    with warnings.catch_warnings(record=True) as caught, pytest.raises(error):
        warnings.simplefilter("always")
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
