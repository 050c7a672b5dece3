"""What gates do to a run: decisions, branches, bad results."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest
from support.running import order, run, run_sync

from hypergraph import END, FunctionNode, Graph, InMemoryCache, NodeError, ifelse, node, route

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
    assert values_of(run, deciding(None)) == {}
    assert values_of(run, deciding(None, ["a"], fallback="b")) == {"b_out": "b"}
    assert values_of(run, deciding(None, ["a"], fallback=END), "a") == {}


def test_a_gate_with_many_targets_runs_those_it_lists(run: Run) -> None:
    for result, expected in ((["a", "b"], {"a_out": "a", "b_out": "b"}), (["b"], {"b_out": "b"}), ([], {})):
        assert values_of(run, deciding(result, ("a", "b"), multi_target=True)) == expected
    assert values_of(run, deciding(None, ("a", "b"), multi_target=True)) == {}


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
