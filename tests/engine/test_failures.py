"""What a failing node leaves behind: its own exception, the evidence beside it, and all that worked."""

from __future__ import annotations

import asyncio
import copy
import pickle
from typing import Any

import pytest
from support.running import On, on, order

from hypergraph import (
    END,
    CancellationError,
    FunctionNode,
    Graph,
    HypergraphError,
    IncompatibleRunnerError,
    InfiniteLoopError,
    MissingInputError,
    NodeError,
    NodeTimeoutError,
    PanicError,
    RunStatus,
    RunTimeoutError,
    node,
    route,
)
from hypergraph.checkpointers import MemoryCheckpointer
from hypergraph.exceptions import ExecutionError

__all__ = ["on"]


@node(output_name="b")
def double(a: int) -> int:
    return a * 2


@node(output_name="broken")
def boom(b: int) -> int:
    raise ValueError(f"boom {b}")


@node(output_name="fine")
def healthy(b: int) -> int:
    return b + 1


@node(output_name="never")
def after(fine: int, broken: int) -> int:
    raise AssertionError("nothing runs after a failure")


def raised_in_a_handler(on: On, graph: Graph) -> BaseException:
    """Run a graph while another exception is being handled; return what it raises."""

    async def awaited() -> BaseException:
        try:
            raise LookupError("what the caller is busy with")
        except LookupError:
            with pytest.raises(ValueError) as caught:  # noqa: PT011 - the caller looks closer
                await on.runner.run(graph, {"x": 1})
        return caught.value

    if on.is_async:
        return asyncio.run(awaited())
    try:
        raise LookupError("what the caller is busy with")
    except LookupError:
        with pytest.raises(ValueError) as caught:  # noqa: PT011 - the caller looks closer
            on.run(graph, {"x": 1})
    return caught.value


# -- F1, F2: the exception and its evidence ------------------------------------------------------------


def test_the_original_exception_is_raised_with_cause_and_context_untouched(on: On) -> None:
    cause, context = KeyError("cause"), OSError("context")
    error = ValueError("boom")

    @node(output_name="y")
    def fail(x: int) -> int:
        try:
            raise context
        except OSError:
            raise error from cause

    assert raised_in_a_handler(on, Graph([fail])) is error
    assert error.__cause__ is cause
    assert error.__context__ is context


def test_a_nested_exception_keeps_its_context_too(on: On) -> None:
    context, error = OSError("context"), ValueError("boom")

    @node(output_name="y")
    def fail(x: int) -> int:
        try:
            raise context
        except OSError:
            raise error from None

    assert raised_in_a_handler(on, Graph([Graph([fail], name="inner").as_node()])) is error
    assert error.__context__ is context


def test_one_note_says_where_it_happened(on: On) -> None:
    with pytest.raises(ValueError, match="boom") as caught:
        on.run(Graph([double, boom], name="g"), {"a": 1}, run_id="run-7")
    (note,) = caught.value.__notes__
    for part in ("'g'", "'boom'", "superstep 1", "run-7"):
        assert part in note


def test_an_exception_raised_by_two_runs_carries_the_note_of_the_last_only(on: On) -> None:
    error = ValueError("boom")
    error.add_note("the node's own note")

    @node(output_name="y")
    def fail(x: int) -> int:
        raise error

    for run_id in ("first", "second"):
        with pytest.raises(ValueError, match="boom"):
            on.run(Graph([fail]), {"x": 1}, run_id=run_id)
    own, ours = error.__notes__
    assert own == "the node's own note"
    assert "second" in ours


def test_the_evidence_says_everything(on: On) -> None:
    on.runner.checkpointer = MemoryCheckpointer()
    with pytest.raises(ValueError, match="boom") as caught:
        on.run(Graph([double, boom, healthy]), {"a": 1}, run_id="run-7", workflow_id="w")
    evidence = NodeError.of(caught.value)
    assert evidence is not None
    assert (evidence.node_name, evidence.op, evidence.superstep) == ("boom", "execute", 1)
    assert evidence.cause is caught.value
    assert evidence.item_index is None
    assert evidence.inputs == {"b": 2}
    assert evidence.values == {"a": 1, "b": 2, "fine": 3}
    assert evidence.map_result is None
    assert evidence.run_id == "run-7"
    assert evidence.workflow_id == "w"
    assert order_of(evidence) == ["double", "boom", "healthy"]
    assert str(evidence) == "node boom: execute: boom 2"


def order_of(evidence: NodeError) -> list[str]:
    return [record.node_name for record in evidence.log.steps]


def test_there_is_no_evidence_for_exceptions_from_elsewhere() -> None:
    assert NodeError.of(ValueError("x")) is None
    assert NodeError.of(None) is None


def test_evidence_shows_inputs_as_they_were_left(on: On) -> None:
    @node(output_name="y")
    def change(items: list[int]) -> int:
        items.append(2)
        raise ValueError("boom")

    result = on.run(Graph([change]), {"items": [1]}, error_handling="continue")
    assert result.failure is not None
    assert result.failure.inputs == {"items": [1, 2]}


def test_values_that_are_only_bound_are_no_state(on: On) -> None:
    @node(output_name="y")
    def fail(x: int, model: object) -> int:
        raise ValueError("boom")

    model = object()
    result = on.run(Graph([fail]).bind(model=model), {"x": 1}, error_handling="continue")
    assert result.failure is not None
    assert result.failure.values == {"x": 1}
    assert result.failure.inputs == {"x": 1, "model": model}


def test_a_failing_gate_is_a_failure_of_routing(on: On) -> None:
    @route(targets=["double", END])
    def gate(a: int) -> str:
        raise ValueError("no idea")

    with pytest.raises(ValueError, match="no idea") as caught:
        on.run(Graph([gate, double]), {"a": 1})
    evidence = NodeError.of(caught.value)
    assert evidence is not None
    assert str(evidence) == "node gate: route: no idea"


# -- F3, F4, F5 ----------------------------------------------------------------------------------------


def test_continue_returns_what_was_produced(on: On) -> None:
    result = on.run(Graph([double, boom, healthy, after]), {"a": 1}, error_handling="continue")
    assert result.status is RunStatus.FAILED
    assert isinstance(result.error, ValueError)
    assert result.failure is not None
    assert result.failure.cause is result.error
    assert NodeError.of(result.error) is result.failure
    assert result.values == {"b": 2, "fine": 3}
    assert order(result) == ["double", "boom", "healthy"]
    assert [record.status for record in result.log.steps] == ["completed", "failed", "completed"]
    assert [record.error for record in result.log.errors] == ["boom 2"]


@pytest.mark.parametrize("handling", ["raise", "continue"])
def test_mistakes_in_the_call_are_raised_whatever_the_handling(on: On, handling: str) -> None:
    with pytest.raises(MissingInputError):
        on.run(Graph([double]), error_handling=handling)


def test_of_several_failures_the_first_in_graph_order_is_reported(on: On) -> None:
    @node(output_name="y1")
    def first(x: int) -> int:
        raise ValueError("first")

    @node(output_name="y2")
    def second(x: int) -> int:
        raise KeyError("second")

    for nodes, expected in (([first, second], ValueError), ([second, first], KeyError)):
        result = on.run(Graph(nodes), {"x": 1}, error_handling="continue")
        assert isinstance(result.error, expected)
        assert len(result.log.errors) == 2


def test_siblings_of_a_failing_node_keep_their_outputs_in_a_loop_too(on: On) -> None:
    @node(output_name="broken")
    def fails_at_two(n: int) -> int:
        if n == 2:
            raise ValueError("two")
        return n

    @node(output_name="seen")
    def sibling(n: int) -> int:
        return n

    @node(output_name="n")
    def count(n: int) -> int:
        return n + 1

    @route(targets=["count", END])
    def gate(n: int, broken: int, seen: int) -> str:
        return "count"

    result = on.run(Graph([fails_at_two, sibling, count, gate]), {"n": 0}, error_handling="continue")
    assert result["seen"] == 2
    assert result["broken"] == 1


def test_a_failing_loop_ends_with_the_round_that_failed(on: On) -> None:
    error_at = 3

    @node(output_name="n")
    def count(n: int) -> int:
        if n == error_at:
            raise ValueError("three")
        return n + 1

    @route(targets=["count", END])
    def gate(n: int) -> str:
        return "count"

    result = on.run(Graph([count, gate]), {"n": 0}, error_handling="continue")
    assert result.failure is not None
    assert result.failure.superstep == 7
    assert result.failure.values == {"n": 3}


# -- through nesting -----------------------------------------------------------------------------------


def test_a_nested_failure_names_the_whole_path(on: On) -> None:
    inner = Graph([double, boom], name="inner")
    middle = Graph([inner.as_node()], name="middle")
    with pytest.raises(ValueError, match="boom 2") as caught:
        on.run(Graph([middle.as_node()], name="outer"), {"a": 1})
    evidence = NodeError.of(caught.value)
    assert evidence is not None
    assert evidence.node_name == "middle/inner/boom"
    assert evidence.inputs == {"b": 2}
    assert "'middle/inner/boom'" in caught.value.__notes__[0]


def test_a_nested_failure_leaves_the_inner_state_at_hand(on: On) -> None:
    inner = Graph([double, boom, healthy], name="inner")
    result = on.run(Graph([inner.as_node()]), {"a": 1}, error_handling="continue")
    assert result.failure is not None
    assert result.failure.values == {"a": 1}
    nested: Any = result.nested["inner"]
    assert nested.failed
    assert nested.failure.values == {"a": 1, "b": 2, "fine": 3}
    assert nested.failure.node_name == "inner/boom"


def test_a_failing_item_of_a_nested_map_is_named(on: On) -> None:
    @node(output_name="y")
    def inverse(x: int) -> float:
        return 1 / x

    mapped = Graph([inverse], name="each").as_node().map_over("x")
    result = on.run(Graph([mapped]), {"x": [1, 0, 2]}, error_handling="continue")
    assert result.failure is not None
    assert result.failure.node_name == "each/inverse"
    assert result.failure.item_index == 1
    assert result.failure.inputs == {"x": 0}
    assert result.failure.map_result is not None
    assert [item.status.value for item in result.failure.map_result][:2] == ["completed", "failed"]


def test_of_nested_maps_the_outermost_item_is_named(on: On) -> None:
    @node(output_name="y")
    def inverse(x: int) -> float:
        return 1 / x

    mapped = Graph([inverse], name="each").as_node().map_over("x")
    with pytest.raises(ZeroDivisionError) as caught:
        on.map(Graph([mapped]), {"x": [[1], [2, 0]]}, map_over="x")
    evidence = NodeError.of(caught.value)
    assert evidence is not None
    assert evidence.item_index == 1
    assert evidence.map_result is not None
    assert len(evidence.map_result) == 2


# -- awkward exceptions --------------------------------------------------------------------------------


class Rigid(Exception):
    """Refuses notes and attributes."""

    def __setattr__(self, name: str, value: object) -> None:
        raise TypeError("no attributes, please")

    def add_note(self, note: str) -> None:
        raise TypeError("no notes, please")


class Hidden(Exception):
    """Refuses even to be looked at."""

    @property
    def __dict__(self) -> Any:  # type: ignore[override]
        raise TypeError("no looking, please")


class Speechless(Exception):
    """Has no text."""

    def __str__(self) -> str:
        raise TypeError("no text, please")


@pytest.mark.parametrize("kind", [Rigid, Hidden, Speechless])
def test_an_exception_that_refuses_everything_is_raised_all_the_same(on: On, kind: type[Exception]) -> None:
    error = kind()

    @node(output_name="y")
    def fail(x: int) -> int:
        raise error

    with pytest.raises(kind) as caught:
        on.run(Graph([fail]), {"x": 1})
    assert caught.value is error
    NodeError.of(error)
    result = on.run(Graph([fail]), {"x": 1}, error_handling="continue")
    assert result.error is error
    assert result.failure is not None
    assert result.failure.node_name == "fail"
    assert "fail" in str(result.failure)
    assert "fail" in str(result.log)


def test_stop_iteration_is_an_error_like_any_other(on: On) -> None:
    error = StopIteration("over")

    @node(output_name="y")
    def fail(x: int) -> int:
        raise error

    plain, retried = Graph([fail]), Graph([FunctionNode(fail.func, output_name="y", timeout=60)])
    for graph in (plain, retried, Graph([plain.as_node(name="inner")])):
        result = on.run(graph, {"x": 1}, error_handling="continue")
        assert result.error is error
        with pytest.raises((StopIteration, RuntimeError)) as caught:
            on.run(graph, {"x": 1})
        assert (evidence := NodeError.of(caught.value)) is not None
        assert evidence.inputs == {"x": 1}


# -- the classes ---------------------------------------------------------------------------------------

ERRORS = [
    MissingInputError("m", ["x"], ["y"]),
    IncompatibleRunnerError("m", "n", "supports_async_nodes"),
    InfiniteLoopError(7, values={"x": 1}),
    ExecutionError("m", {"x": 1}),
    NodeError("n", ValueError("v")),
    NodeError("n", ValueError("v"), op="route", superstep=2, item_index=3, values={"x": 1}, inputs={"y": 2}),
    PanicError("n", SystemExit(2)),
    NodeTimeoutError("n", 1.5),
    CancellationError("n", TimeoutError("t"), values={"x": 1}, was_executing=True),
    RunTimeoutError("n", TimeoutError("t"), values={"x": 1}, timeout=0.5),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_errors_survive_pickling_and_copying(error: HypergraphError) -> None:
    for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert type(twin) is type(error)
        assert str(twin) == str(error)
        assert twin.__dict__.keys() == error.__dict__.keys()
        assert isinstance(twin, HypergraphError)


def test_timeouts_are_builtin_timeouts_with_a_text_of_their_own() -> None:
    assert isinstance(NodeTimeoutError("n", 1.5), TimeoutError)
    assert str(NodeTimeoutError("n", 1.5)) == "node n took longer than its timeout of 1.5 s"
    error = RunTimeoutError("n", TimeoutError("late"), was_executing=True, timeout=2)
    assert isinstance(error, TimeoutError)
    assert isinstance(error, CancellationError)
    assert (str(error), error.timeout) == ("cancelled during node n: late", 2)


def test_evidence_of_a_run_survives_pickling(on: On) -> None:
    result = on.run(Graph([double, boom]), {"a": 1}, error_handling="continue")
    twin = pickle.loads(pickle.dumps(result.failure))
    assert str(twin) == "node boom: execute: boom 2"
    assert twin.values == {"a": 1, "b": 2}
    assert order_of(twin) == ["double", "boom"]
