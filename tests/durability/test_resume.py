"""Durable runs that failed, or are called again: only what is left to do is done."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from support.durable import Bodies, bodies, counting, durable, fail_once, pipeline, rows, store
from support.running import On

from hypergraph import END, FunctionNode, Graph, InfiniteLoopError, RouteNode, RunStatus, node, route
from hypergraph.checkpointers import Checkpointer, WorkflowStatus
from hypergraph.exceptions import ValueUnreadableError

__all__ = ["bodies", "durable", "store"]  # fixtures

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


def test_a_value_that_was_not_kept_is_missing_from_the_stored_result_alone(
    durable: On, bodies: Bodies
) -> None:
    @node(output_name="token", persist=False)
    def sign_in(user: str) -> str:
        return f"token of {user}"

    @node(output_name="greeting")
    def greet(token: str) -> str:
        return f"with {token}"

    graph = Graph([sign_in, greet], name="desk")
    whole = {"token": "token of ann", "greeting": "with token of ann"}
    assert durable.run(graph, {"user": "ann"}, workflow_id="w").values == whole
    again = durable.run(graph, {"user": "ann"}, workflow_id="w")
    assert (again.status, again.values) == (RunStatus.COMPLETED, {"greeting": "with token of ann"})
    assert durable.run(graph, {"user": "ann"}, workflow_id="other").values == whole
    assert durable.run(graph, workflow_id="w", select="greeting").values == {"greeting": "with token of ann"}


@pytest.mark.parametrize("fails", ["write", "review"])
def test_a_loop_that_does_not_keep_its_values_does_not_go_on_with_defaults(
    durable: On, bodies: Bodies, fails: str
) -> None:
    @node(output_name="draft", persist=False)
    def write(topic: str, critique: str = "") -> str:
        if critique:
            bodies.enter("write")
        return topic + critique

    @node(output_name="critique", persist=False)
    def review(draft: str) -> str:
        if draft != "tea":
            bodies.enter("review")
        return draft[3:] + "!"

    @node(output_name="n")
    def count(critique: str, n: int = 0) -> int:
        return n + 1

    @route(targets=["write", END])
    def good(n: int) -> Any:
        return END if n >= 3 else "write"

    graph = Graph([write, review, count, good], name="essay")
    bodies.failing[fails] = ConnectionError("down")
    with pytest.raises(ConnectionError):
        durable.run(graph, topic="tea", workflow_id="w")
    bodies.failing.clear()
    with pytest.raises(ValueUnreadableError, match="persist=False"):
        durable.run(graph, workflow_id="w")


def test_a_second_turn_makes_again_what_was_not_to_be_kept(durable: On, bodies: Bodies) -> None:
    @node(output_name="page", persist=False)
    def fetch(url: str) -> str:
        return f"page {url}"

    @node(output_name="title")
    def parse(page: str) -> str:
        return page[:6]

    @node(output_name="report")
    def report(page: str, title: str) -> str:
        bodies.enter("report")
        return page + title

    graph = Graph([fetch, parse, report], name="pages")
    durable.run(graph, url="a", workflow_id="w")
    bodies.failing["report"] = ConnectionError("down")
    with pytest.raises(ConnectionError):
        durable.run(graph, url="b", workflow_id="w")
    bodies.failing.clear()
    whole = {"page": "page b", "title": "page b", "report": "page bpage b"}
    assert durable.run(graph, workflow_id="w").values == whole


def test_a_stored_result_says_what_could_not_be_stored(durable: On) -> None:
    graph = Graph([FunctionNode(lambda x: threading.Lock(), "open", "lock")], name="locks")
    with pytest.warns(UserWarning, match="cannot be stored"):
        durable.run(graph, {"x": 1}, workflow_id="w")
    with pytest.warns(UserWarning, match="'w' has ended before, and its result lacks what is not stored"):
        assert durable.run(graph, workflow_id="w").values == {}
    with pytest.warns(UserWarning, match="lacks"), pytest.raises(ValueError, match="not stored") as caught:
        durable.run(graph, workflow_id="w", select="lock", on_missing="error")
    assert "['lock']. An earlier call of graph 'locks' made them; they are not stored." in str(caught.value)


def test_what_a_graph_has_gained_since_a_run_completed_is_run_once(
    durable: On, store: Checkpointer, bodies: Bodies
) -> None:
    durable.run(pipeline(bodies, 1), {"v0": 0}, workflow_id="w")
    grown = pipeline(bodies, 2)
    bodies.take()
    for ran in (["s2"], []):
        assert durable.run(grown, {"v0": 0}, workflow_id="w").values == {"v1": 1, "v2": 2}
        assert bodies.take() == ran
    assert rows(store, "w") == [(0, "s1", "completed"), (1, "s2", "completed")]
    assert durable.run(grown, {"v0": 0}, workflow_id="other").values == {"v1": 1, "v2": 2}


def test_a_node_that_makes_more_by_now_runs_again_for_who_needs_it(durable: On, bodies: Bodies) -> None:
    def measure(text: str) -> Any:
        bodies.enter("measure")
        return (len(text), 1) if is_new else len(text)

    def judge(letters: int, lines: int = 0) -> str:
        bodies.enter("judge")
        return f"{letters} in {lines}"

    is_new = False
    short = Graph([node(measure, output_name="letters"), node(judge, output_name="verdict")], name="judging")
    fail_once(durable, bodies, short, "judge", values={"text": "tea"}, workflow_id="w")
    is_new = True
    both = node(measure, output_name=("letters", "lines"))
    grown = Graph([both, node(judge, output_name="verdict")], name="judging")
    bodies.take()
    with pytest.warns(UserWarning, match="'measure' has changed"):  # its result was one value, and is two
        result = durable.run(grown, workflow_id="w")
    assert result.values == {"letters": 3, "lines": 1, "verdict": "3 in 1"}
    assert bodies.take() == ["measure", "judge"]
    with pytest.warns(UserWarning, match="'measure' has changed"):
        durable.run(grown, workflow_id="w")
    assert bodies.take() == []


def test_the_log_says_what_replayed_gates_had_decided(durable: On, bodies: Bodies) -> None:
    def save(y: int) -> int:
        bodies.enter("save")
        return y

    many = RouteNode(lambda x: ["left", "right"], ["left", "right"], name="many", multi_target=True)
    over = RouteNode(lambda x: END, ["left", END], name="over")
    left = node(lambda x: x, output_name="y").with_name("left")
    right = node(lambda x: x, output_name="other").with_name("right")
    graph = Graph([many, over, left, right, node(save, output_name="z")], name="sides")
    fail_once(durable, bodies, graph, "save", values={"x": 1}, workflow_id="w")
    for _ in range(2):  # resumed, and recalled as a whole
        steps = durable.run(graph, workflow_id="w").log.steps
        assert {s.node_name: s.decision for s in steps if s.decision} == {
            "many": ["left", "right"],
            "over": "END",
        }
        assert {s.status for s in steps if s.decision} == {"skipped"}


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


def _table(numbers: list[float]) -> Any:
    return pytest.importorskip("pandas").DataFrame({"numbers": numbers})


def _array(numbers: list[float]) -> Any:
    return pytest.importorskip("numpy").array(numbers)


@pytest.mark.parametrize("kind", [list, _array, _table, lambda numbers: {"inside": _array(numbers)}])
def test_what_does_not_equal_itself_is_known_again_by_what_it_holds(
    durable: On, bodies: Bodies, kind: Callable[[list[float]], Any]
) -> None:
    @node(output_name="seen")
    def look(data: Any) -> bool:
        bodies.enter("look")
        return True

    graph = Graph([look], name="looking")
    for numbers, ran in (([1.0, float("nan")], 1), ([1.0, float("nan")], 0), ([2.0, float("nan")], 1)):
        durable.run(graph, {"data": kind(numbers)}, workflow_id="w")
        assert len(bodies.take()) == ran
    for ran in (2, 0):
        items = [kind([1.0, float("nan")]), kind([2.0])]
        assert durable.map(graph, {"data": items}, map_over="data", workflow_id="m")["seen"] == [True, True]
        assert len(bodies.take()) == ran


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


def test_the_statistics_of_a_resumed_loop_count_what_ran_in_this_call(durable: On, bodies: Bodies) -> None:
    graph, values = counting(bodies), {"count": 0, "limit": 4}
    fail_once(durable, bodies, graph, "add 2", values=values, workflow_id="w")
    result = durable.run(graph, workflow_id="w")
    assert {name: stats.count for name, stats in result.log.node_stats.items()} == {"add": 2, "again": 2}
    result = durable.run(graph, workflow_id="w")  # completed: nothing is left to do
    assert {name: stats.count for name, stats in result.log.node_stats.items()} == {"add": 0, "again": 0}
    assert [line.split()[1] for line in str(result.log).splitlines()[-2:]] == ["skipped", "skipped"]


def test_a_loop_makes_again_what_its_gate_needs_and_nobody_kept(durable: On, bodies: Bodies) -> None:
    @node(output_name="log", persist=False)
    def grow(log: list[int] = ()) -> list[int]:  # type: ignore[assignment]
        bodies.enter("grow")
        return [*log, len(log)]

    @route(targets=["grow", END])
    def more(log: list[int]) -> Any:
        bodies.enter("more")
        return "grow" if len(log) < 3 else END

    graph = Graph([grow, more], name="growing")
    fail_once(durable, bodies, graph, "more", workflow_id="w")
    bodies.take()
    assert durable.run(graph, workflow_id="w")["log"] == [0, 1, 2]
    assert bodies.take() == ["grow", "more"] * 3


def test_a_failure_two_graphs_deep_is_taken_up_there(
    durable: On, store: Checkpointer, bodies: Bodies
) -> None:
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


@pytest.mark.parametrize("often", [2, 3])
def test_rounds_are_counted_on_when_a_run_is_resumed(durable: On, often: int) -> None:
    """A loop that fails now and then ends as one that never fails: with too many rounds."""
    calls: list[int] = []

    @node(output_name="n")
    def up(n: int) -> int:
        calls.append(n)
        if len(calls) % often == 0:
            raise ConnectionError
        return n + 1

    @route(targets=["up", END])
    def check(n: int) -> Any:
        return "up"

    graph = Graph([up, check], name="endless")
    for _ in range(20):
        try:
            durable.run(graph, n=0, workflow_id="w", max_iterations=6)
        except ConnectionError:
            continue
        except InfiniteLoopError:
            break
    else:
        raise AssertionError("it goes round for ever")
    done = [n for number, n in enumerate(calls, start=1) if number % often]
    assert done == [0, 1, 2, 3, 4]
    with pytest.raises(InfiniteLoopError):
        durable.run(graph, n=0, workflow_id="w", max_iterations=6)
    assert max(calls) == 4
    with pytest.raises((InfiniteLoopError, ConnectionError)):
        durable.run(graph, n=0, workflow_id="w", max_iterations=8)
    assert max(calls) > 4
