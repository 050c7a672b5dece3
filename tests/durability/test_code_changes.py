"""Changed code on resume: what counts as a change, and what runs again."""

from __future__ import annotations

import warnings
from dataclasses import make_dataclass
from typing import Any

import pytest

from hypergraph import END, FunctionNode, Graph, IfElseNode, RouteNode, SyncRunner
from hypergraph.checkpointers import MemoryCheckpointer
from hypergraph.exceptions import GraphChangedError


def net(x: int) -> int:
    return x + 1


def gross(x: int) -> int:
    return x * 100


def invoice(v: int) -> int:
    return v


def bill(amount: str) -> Graph:
    nodes = [
        FunctionNode(net, "net", "n"),
        FunctionNode(gross, "gross", "g"),
        FunctionNode(invoice, "invoice", "total", rename_inputs={"v": amount}),
    ]
    return Graph(nodes, name="bill")


@pytest.fixture
def runner() -> SyncRunner:
    return SyncRunner(checkpointer=MemoryCheckpointer())


def test_a_renamed_input_is_a_change(runner: SyncRunner) -> None:
    for workflow_id in ("keep", "rerun", "error"):
        assert runner.run(bill("n"), x=1, workflow_id=workflow_id)["total"] == 2
    with pytest.warns(UserWarning, match="the code or wiring of 'invoice' has changed"):
        assert runner.run(bill("g"), workflow_id="keep")["total"] == 2
    assert runner.run(bill("g"), workflow_id="rerun", code_change="rerun")["total"] == 100
    with pytest.raises(GraphChangedError, match=r"invoice: \(n\) -> \(total\) is now \(g\) -> \(total\)"):
        runner.run(bill("g"), workflow_id="error", code_change="error")


def swapped(first: str, second: str) -> Graph:
    nodes = [FunctionNode(net, "net", first), FunctionNode(gross, "gross", second)]
    return Graph([*nodes, FunctionNode(invoice, "invoice", "total", rename_inputs={"v": "n"})], name="bill")


def test_swapped_outputs_are_a_change(runner: SyncRunner) -> None:
    assert runner.run(swapped("n", "g"), x=1, workflow_id="w")["total"] == 2
    assert runner.run(swapped("g", "n"), workflow_id="w", code_change="rerun")["total"] == 100


def test_other_targets_of_a_gate_are_a_change(runner: SyncRunner) -> None:
    def choose(n: int) -> str:
        return "invoice"

    def graph(*targets: Any) -> Graph:
        gate = RouteNode(choose, targets=[*targets])
        other = FunctionNode(gross, "gross", "g")
        nodes = [FunctionNode(net, "net", "n"), gate, other]
        return Graph(
            [*nodes, FunctionNode(invoice, "invoice", "total", rename_inputs={"v": "n"})], name="bill"
        )

    runner.run(graph("invoice", END), x=1, workflow_id="w")
    with pytest.raises(GraphChangedError, match="'choose'"):
        runner.run(graph("invoice", "gross"), workflow_id="w", code_change="error")


def test_another_field_of_a_class_is_a_change(runner: SyncRunner) -> None:
    def graph(*fields: str) -> Graph:
        def make(x):  # type: ignore[no-untyped-def]
            return x

        make.__annotations__ = {"return": make_dataclass("Receipt", fields)}
        return Graph([FunctionNode(make, "make", "receipt")], name="g")

    runner.run(graph("number"), x=1, workflow_id="w")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        runner.run(graph("number"), workflow_id="w", code_change="error")
    with pytest.raises(GraphChangedError, match="a class it names"):
        runner.run(graph("reference"), workflow_id="w", code_change="error")


def one_more(n: int) -> int:
    return n + 1


def two_more(n: int) -> int:
    return n + 2


def loop(step: Any) -> Graph:
    done = IfElseNode(lambda n: n >= 5, END, "step", name="done")
    return Graph([FunctionNode(step, "step", "n"), done], name="loop")


def test_a_changed_loop_is_not_run_again_from_its_end(runner: SyncRunner) -> None:
    assert runner.run(loop(one_more), n=0, workflow_id="w")["n"] == 5
    with pytest.raises(GraphChangedError, match="'step' is in a loop"):
        runner.run(loop(two_more), workflow_id="w", code_change="rerun")
    with pytest.warns(UserWarning, match="kept"):
        assert runner.run(loop(two_more), workflow_id="w")["n"] == 5


def chat(reply: Any) -> Graph:
    def remember(answer: str, messages: list[str] = ()) -> list[str]:  # type: ignore[assignment]
        return [*messages, answer]

    return Graph([FunctionNode(reply, "reply", "answer"), FunctionNode(remember, "remember", "messages")])


def test_a_chat_does_not_remember_twice(runner: SyncRunner) -> None:
    runner.run(chat(lambda said: f"old {said}"), said="tea", workflow_id="w")
    with pytest.raises(GraphChangedError, match="'remember' adds to what it made"):
        runner.run(chat(lambda said: f"new {said}"), workflow_id="w", code_change="rerun")
    assert runner.checkpointer is not None
    assert runner.checkpointer.state("w")["messages"] == ["old tea"]


@pytest.mark.parametrize("mapped", [False, True])
def test_a_nested_graph_runs_again_where_it_changed(runner: SyncRunner, mapped: bool) -> None:
    calls: list[str] = []

    def first(x: int) -> int:
        calls.append("first")
        return x + 1

    def old(a: int) -> int:
        calls.append("old")
        return a * 2

    def new(a: int) -> int:
        calls.append("new")
        return a * 3

    def graph(second: Any) -> Graph:
        inner = Graph([FunctionNode(first, "first", "a"), FunctionNode(second, "second", "b")], name="inner")
        node = inner.as_node().map_over("x") if mapped else inner.as_node()
        return Graph([node, FunctionNode(lambda b: b, "last", "c")], name="g")

    runner.run(graph(old), x=[1, 2] if mapped else 1, workflow_id="w")
    calls.clear()
    found = runner.run(graph(new), workflow_id="w", code_change="rerun")["c"]
    assert found == ([6, 9] if mapped else 6)
    assert calls == (["new", "new"] if mapped else ["new"])
    calls.clear()
    assert runner.run(graph(new), workflow_id="w", code_change="rerun")["c"] == found
    assert calls == []
