"""What gates do to a run: decisions, branches, bad results."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from support.running import order, run, run_async, run_sync

from hypergraph import (
    END,
    FunctionNode,
    Graph,
    InMemoryCache,
    NodeContext,
    NodeError,
    NodeTimeoutError,
    RetryPolicy,
    ifelse,
    node,
    route,
)
from hypergraph.checkpointers import MemoryCheckpointer
from hypergraph.exceptions import IncompatibleRunnerError

__all__ = ["run"]
Run = Callable[..., Any]


def leaf(name: str) -> FunctionNode:
    return FunctionNode(lambda: name, name, f"{name}_out")


def deciding(result: Any, targets: Any = ("a", "b", END), **options: Any) -> Any:
    @route(list(targets), **options)
    def gate(x: int) -> Any:
        return result

    return gate


def values_of(run: Run, gate: Any, *names: str) -> dict[str, Any]:
    return run(Graph([gate, *map(leaf, names or ("a", "b"))]), {"x": 1}).values


def test_only_the_target_that_is_named_runs(run: Run) -> None:
    assert values_of(run, deciding("a")) == {"a_out": "a"}
    assert values_of(run, deciding("b")) == {"b_out": "b"}
    assert values_of(run, deciding(END)) == {}


def test_none_is_the_fallback_or_nothing(run: Run) -> None:
    with pytest.warns(UserWarning, match="Nothing but gates ran"):
        assert values_of(run, deciding(None)) == {}
    assert values_of(run, deciding(None, ["a"], fallback="b")) == {"b_out": "b"}
    assert values_of(run, deciding(None, ["a"], fallback=END), "a") == {}


def test_a_gate_with_many_targets_runs_those_it_lists(run: Run) -> None:
    for result, expected in ((["a", "b"], {"a_out": "a", "b_out": "b"}), (["b"], {"b_out": "b"})):
        assert values_of(run, deciding(result, ("a", "b"), multi_target=True)) == expected
    for nothing in ([], None):
        with pytest.warns(UserWarning, match="Nothing but gates ran"):
            assert values_of(run, deciding(nothing, ("a", "b"), multi_target=True)) == {}


def test_a_list_of_many_targets_may_contain_end(run: Run) -> None:
    gate = deciding(["a", END], ("a", END), multi_target=True)
    assert values_of(run, gate, "a") == {"a_out": "a"}


@pytest.mark.parametrize(("good", "expected"), [(True, {"a_out": "a"}), (False, {"b_out": "b"})])
def test_ifelse_takes_one_of_two_ways(run: Run, good: bool, expected: dict[str, str]) -> None:
    @ifelse("a", "b")
    def gate(good: bool) -> bool:
        return good

    assert run(Graph([gate, leaf("a"), leaf("b")]), {"good": good}).values == expected


def test_decisions_are_in_the_log_as_names(run: Run) -> None:
    @ifelse("a", END)
    def gate(good: bool) -> bool:
        return good

    def decision(graph: Graph, **values: Any) -> Any:
        return run(graph, values).log.steps[0].decision

    assert decision(Graph([gate, leaf("a")]), good=True) == "a"
    assert decision(Graph([gate, leaf("a")]), good=False) == "END"
    both = decision(Graph([deciding(["a", "b"], ("a", "b"), multi_target=True), leaf("a"), leaf("b")]), x=1)
    assert isinstance(both, list)
    assert both == ["a", "b"]
    assert both == ("a", "b")
    assert pickle.loads(pickle.dumps(both)) == ("a", "b")


@pytest.mark.parametrize(
    ("gate", "error", "text"),
    [
        (deciding("c"), ValueError, "invalid target"),
        (deciding(3), ValueError, "invalid target"),
        (deciding(["a"]), TypeError, "multi_target=False but returned a list"),
        (deciding("a", ("a", "b"), multi_target=True), TypeError, "multi_target=True but returned str"),
        (deciding({"a"}, ("a", "b"), multi_target=True), TypeError, "multi_target=True but returned set"),
        (deciding(["z"], ("a", "b"), multi_target=True), ValueError, "invalid target"),
    ],
)
def test_a_bad_decision_is_a_failure_of_the_gate(run: Run, gate: Any, error: type, text: str) -> None:
    with pytest.raises(error, match=text) as caught:
        values_of(run, gate)
    evidence = NodeError.of(caught.value)
    assert evidence is not None
    assert (evidence.node_name, evidence.op) == ("gate", "route")


def test_the_string_end_is_refused(run: Run) -> None:
    with pytest.raises(ValueError, match=r"invalid target: 'END'.* Return END itself"):
        values_of(run, deciding("END"))


@pytest.mark.parametrize("result", [1, 0, "yes", None])
def test_ifelse_takes_nothing_but_bools(run: Run, result: Any) -> None:
    @ifelse("a", "b")
    def gate(x: int) -> Any:
        return result

    with pytest.raises(TypeError):
        values_of(run, gate)


def test_an_unhashable_decision_is_an_invalid_target(run: Run) -> None:
    with pytest.raises(ValueError, match="invalid target"):
        values_of(run, deciding({"a": 1}))


def test_exclusive_branches_may_produce_the_same_name(run: Run) -> None:
    @ifelse("fast", "slow")
    def gate(x: int) -> bool:
        return x > 0

    @node(output_name="y")
    def fast(x: int) -> str:
        return "fast"

    @node(output_name="y")
    def slow(x: int) -> str:
        return "slow"

    @node(output_name="z")
    def after(y: str) -> str:
        return y.upper()

    graph = Graph([gate, fast, slow, after])
    assert run(graph, {"x": 1}).values == {"y": "fast", "z": "FAST"}
    assert run(graph, {"x": -1}).values == {"y": "slow", "z": "SLOW"}


def test_a_plain_branch_waits_for_its_gate_although_it_could_run(run: Run) -> None:
    @node(output_name="late")
    def late(x: int) -> int:
        return x

    @route(targets=["work", END])
    def gate(late: int) -> Any:
        return END

    @node(output_name="w")
    def work(x: int) -> int:
        return x

    result = run(Graph([work, late, gate]), {"x": 1})
    assert order(result) == ["late", "gate"]
    assert result.values == {"late": 1}


def test_gates_can_target_gates(run: Run) -> None:
    @route(targets=["inner", END])
    def outer(x: int) -> Any:
        return "inner" if x > 0 else END

    @route(targets=["a", "b"])
    def inner(x: int) -> str:
        return "a" if x > 10 else "b"

    graph = Graph([outer, inner, leaf("a"), leaf("b")])
    assert run(graph, {"x": 20}).values == {"a_out": "a"}
    assert run(graph, {"x": 5}).values == {"b_out": "b"}
    assert run(graph, {"x": -1}).values == {}


def test_what_hangs_on_a_branch_not_taken_does_not_run(run: Run) -> None:
    @node(output_name="deep")
    def deep(a_out: str) -> str:
        return a_out

    result = run(Graph([deciding("b"), leaf("a"), leaf("b"), deep]), {"x": 1})
    assert order(result) == ["gate", "b"]


def test_gate_bookkeeping_appears_in_no_values(run: Run) -> None:
    gate = deciding("a", emit="decided")
    result = run(Graph([gate, leaf("a"), leaf("b")]), {"x": 1})
    assert result.values == {"a_out": "a"}
    assert list(result.values) == ["a_out"]


def test_a_decision_stands_until_the_inputs_of_its_gate_change(run: Run) -> None:
    """The target runs again for new data of its own while the gate, asked once, stays as it decided."""

    @node(output_name="n")
    def up(n: int) -> int:
        return n + 1

    @route(targets=["up", END])
    def more(n: int) -> Any:
        return END if n >= 3 else "up"

    @route(targets=["show", END])
    def allowed(who: str) -> Any:
        return "show"

    @node(output_name="shown")
    def show(n: int) -> int:
        return n

    result = run(Graph([up, more, allowed, show]), {"n": 0, "who": "me"})
    assert result["shown"] == 3
    assert order(result).count("allowed") == 1


def test_gates_take_defaults_and_bound_values(run: Run) -> None:
    @route(targets=["a", "b"])
    def gate(x: int, limit: int = 5) -> str:
        return "a" if x > limit else "b"

    graph = Graph([gate, leaf("a"), leaf("b")])
    assert run(graph, {"x": 6}).values == {"a_out": "a"}
    assert run(graph.bind(limit=10), {"x": 6}).values == {"b_out": "b"}
    assert run(graph.bind(limit=10), {"x": 6, "limit": 1}).values == {"a_out": "a"}


def test_a_failing_gate_stops_the_run_and_keeps_its_siblings(run: Run) -> None:
    @route(targets=["a", END])
    def gate(x: int) -> Any:
        raise KeyError("no idea")

    result = run(Graph([gate, leaf("a"), leaf("sibling")]), {"x": 1}, error_handling="continue")
    assert result.values == {"sibling_out": "sibling"}
    assert isinstance(result.error, KeyError)


def test_selected_outputs_of_a_branch_not_taken_follow_on_missing(run: Run) -> None:
    graph = Graph([deciding("a"), leaf("a"), leaf("b")])
    assert run(graph, {"x": 1}, select=["a_out", "b_out"]).values == {"a_out": "a"}
    with pytest.warns(UserWarning, match="Requested outputs not found"):
        run(graph, {"x": 1}, select=["b_out"], on_missing="warn")
    with pytest.raises(ValueError, match="Requested outputs not found"):
        run(graph, {"x": 1}, select=["b_out"], on_missing="error")


def test_a_cached_decision_opens_the_same_way() -> None:
    calls = []

    @route(targets=["a", "b"], cache=True)
    def gate(x: int) -> str:
        calls.append(x)
        return "b"

    cache, graph = InMemoryCache(), Graph([gate, leaf("a"), leaf("b")])
    for _ in range(2):
        assert run_sync(graph, {"x": 1}, cache=cache).values == {"b_out": "b"}
    assert calls == [1]


# -- runs in which nothing but gates ran ---


def test_a_run_of_nothing_but_gates_says_so(run: Run) -> None:
    @route(targets=["inner", END])
    def outer(x: int) -> Any:
        return "inner"

    @route(targets=["a", "b"], cache=True)
    def inner(x: int) -> Any:
        return None

    text = r"^Nothing but gates ran in graph 'idle': 'outer', 'inner' chose no other node\."
    with pytest.warns(UserWarning, match=text) as warned:
        run(Graph([outer, inner, leaf("a"), leaf("b")], name="idle"), {"x": 1})
    assert len(warned) == 1


def test_end_is_a_decision_about_which_nothing_is_said(run: Run) -> None:
    """Warnings are errors in these tests."""
    assert values_of(run, deciding(END)) == values_of(run, deciding(END, cache=True)) == {}
    assert values_of(run, deciding([END], multi_target=True)) == {}


def test_a_graph_of_gates_has_nothing_else_to_run(run: Run) -> None:
    other = route([END], name="other")(lambda x: None)
    assert order(run(Graph([deciding(None, ["other"]), other]), {"x": 1})) == ["gate"]


def test_a_node_beside_the_gates_is_enough(run: Run) -> None:
    assert order(run(Graph([deciding(None, ["a"]), leaf("a"), leaf("b")]), {"x": 1})) == ["gate", "b"]


# -- async, retried, timed out, stored ---


def test_an_async_gate_is_awaited_on_every_round() -> None:
    @node(output_name="n")
    def up(n: int) -> int:
        return n + 1

    @route(targets=["up", END])
    async def again(n: int) -> Any:
        await asyncio.sleep(0)
        return "up" if n < 3 else END

    result = run_async(Graph([up, again]), {"n": 1})
    assert order(result) == ["again", "up", "again", "up", "again"]
    assert result["n"] == 3


def test_async_gates_wait_at_the_same_time() -> None:
    met = 0
    both = asyncio.Event()

    async def meet() -> bool:
        nonlocal met
        met += 1
        if met == 2:
            both.set()
        await both.wait()  # forever, if the gates were asked one after the other
        return True

    @ifelse("a", END)
    async def first(x: int) -> bool:
        return await meet()

    @ifelse("b", END)
    async def second(x: int) -> bool:
        return await meet()

    assert run_async(Graph([first, second, leaf("a"), leaf("b")]), {"x": 1}).values == {
        "a_out": "a",
        "b_out": "b",
    }


def test_an_async_gate_decides_inside_a_nested_graph() -> None:
    @ifelse("a", "b")
    async def gate(good: bool) -> bool:
        return good

    inner = Graph([gate, leaf("a"), leaf("b")], name="inner")
    assert run_async(Graph([inner.as_node()]), {"good": False}).values["b_out"] == "b"


def test_a_bad_decision_of_an_async_gate_is_a_failure_of_the_gate() -> None:
    @ifelse("a", "b")
    async def gate(x: int) -> Any:
        return "a"

    with pytest.raises(TypeError, match="must return True or False"):
        values_of(run_async, gate)


def test_the_sync_runner_refuses_an_async_gate() -> None:
    @ifelse("a", "b")
    async def gate(x: int) -> bool:
        return True

    with pytest.raises(IncompatibleRunnerError, match="cannot run async nodes: gate"):
        values_of(run_sync, gate)


def test_a_sync_gate_that_returns_a_coroutine_is_refused(run: Run) -> None:
    async def later() -> str:
        return "a"

    @route(targets=["a", "b"])
    def gate(x: int) -> Any:
        return later()

    with pytest.raises(TypeError, match="'gate' returned a coroutine"):
        values_of(run, gate)


def test_a_cached_async_gate_is_asked_once() -> None:
    asked = []

    @route(targets=["a", "b"], cache=True)
    async def gate(x: int) -> str:
        asked.append(x)
        return "b"

    cache, graph = InMemoryCache(), Graph([gate, leaf("a"), leaf("b")])
    for _ in range(2):
        result = run_async(graph, {"x": 1}, cache=cache)
        assert result.values == {"b_out": "b"}
    assert asked == [1]
    assert [record.cached for record in result.log.steps] == [True, False]


def flaky_gate(kind: str, times: int, **options: Any) -> tuple[Any, list[int]]:
    """Return a gate that fails so many times before it chooses "a", and the attempts it will have seen."""
    attempts: list[int] = []

    def attempt(ctx: NodeContext) -> None:
        attempts.append(ctx.attempt)
        if len(attempts) <= times:
            raise ValueError(f"attempt {len(attempts)}")

    if kind == "async":

        @ifelse("a", "b", **options)
        async def gate(x: int, ctx: NodeContext) -> bool:
            attempt(ctx)
            return True

    else:

        @route(["a", "b"], **options)
        def gate(x: int, ctx: NodeContext) -> str:
            attempt(ctx)
            return "a"

    return gate, attempts


@pytest.mark.parametrize(("kind", "call"), [("sync", run_sync), ("sync", run_async), ("async", run_async)])
def test_a_flaky_gate_is_asked_until_it_decides(kind: str, call: Run) -> None:
    gate, attempts = flaky_gate(kind, 2, retry=RetryPolicy(initial_delay=0))
    result = call(Graph([gate, leaf("a"), leaf("b")]), {"x": 1})
    assert result.values == {"a_out": "a"}
    assert attempts == [1, 2, 3]
    assert (result.log.steps[0].attempt, result.log.steps[0].decision) == (3, "a")


def test_a_gate_that_fails_to_the_end_runs_none_of_its_targets(run: Run) -> None:
    gate, attempts = flaky_gate("sync", 9, retry=RetryPolicy(2, initial_delay=0))
    result = run(Graph([gate, leaf("a"), leaf("b")]), {"x": 1}, error_handling="continue")
    assert (str(result.error), attempts, order(result)) == ("attempt 2", [1, 2], ["gate"])


def test_an_async_gate_is_cut_off_by_its_timeout() -> None:
    cut_off = []

    @route(targets=["a", "b"], timeout=0.01)
    async def gate(x: int) -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cut_off.append(x)
            raise
        return "a"

    with pytest.raises(NodeTimeoutError, match="gate"):
        values_of(run_async, gate)
    assert cut_off == [1]


def test_a_gate_sees_its_deadline(run: Run) -> None:
    seen = []

    @route(targets=["a", "b"], timeout=60)
    def gate(x: int, ctx: NodeContext) -> str:
        seen.append(ctx.deadline)
        return "a"

    assert values_of(run, gate) == {"a_out": "a"}
    assert seen[0] is not None


@pytest.mark.parametrize(("kind", "call"), [("sync", run_sync), ("sync", run_async), ("async", run_async)])
@pytest.mark.parametrize(
    "options", [{}, {"retry": RetryPolicy(initial_delay=0), "timeout": 60}, {"cache": True}]
)
def test_a_recorded_decision_is_not_asked_for_again(kind: str, call: Run, options: dict[str, Any]) -> None:
    gate, attempts = flaky_gate(kind, 0, **options)
    broken = [True]

    @node(output_name="a_out")
    def a() -> str:
        if broken:
            raise ValueError("broken")
        return "a"

    graph, store = Graph([gate, a, leaf("b")], name="stored"), MemoryCheckpointer()
    with pytest.raises(ValueError, match="broken"):
        call(graph, {"x": 1}, store=store, workflow_id="w")
    broken.clear()
    assert call(graph, {"x": 1}, store=store, workflow_id="w").values == {"a_out": "a"}
    assert attempts == [1]
    assert [step.decision for step in store.steps("w") if step.node_name == "gate"] == ["a"]


@pytest.mark.parametrize(("kind", "call"), [("sync", run_sync), ("sync", run_async), ("async", run_async)])
def test_a_gate_that_failed_is_asked_again_on_resume(kind: str, call: Run) -> None:
    gate, attempts = flaky_gate(kind, 2, retry=RetryPolicy(2, initial_delay=0))
    graph, store = Graph([gate, leaf("a"), leaf("b")], name="stored"), MemoryCheckpointer()
    with pytest.raises(ValueError, match="attempt 2"):
        call(graph, {"x": 1}, store=store, workflow_id="w")
    assert call(graph, {"x": 1}, store=store, workflow_id="w").values == {"a_out": "a"}
    assert attempts == [1, 2, 1]
