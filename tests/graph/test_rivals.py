"""Nodes that share a name: in a fixed order, in branches of one gate, or refused."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from typing import Any

import pytest
from support.making import make

from hypergraph import END, Graph, GraphConfigError, HyperNode, SyncRunner, chain, ifelse, node, route


def outcome(nodes: Sequence[HyperNode], edges: Any = None, **given: Any) -> Any:
    """Return the values and calls of a run that is the same in every order of listing the nodes."""
    found = []
    for listed in (*list(permutations(nodes))[:24], nodes[::-1]):
        result = run_of(listed, edges, (), given)
        found.append((result.values, sorted(step.node_name for step in result.log.steps)))
    assert all(one == found[0] for one in found)
    return found[0]


def refused(nodes: Sequence[HyperNode], edges: Any = None, entry: Sequence[str] = (), **given: Any) -> str:
    """Return why a graph, or a run of it, is refused in every order of listing the nodes."""
    for listed in (nodes, nodes[::-1]):
        with pytest.raises(GraphConfigError) as caught:
            run_of(listed, edges, entry, given)
    return str(caught.value)


def run_of(nodes: Sequence[HyperNode], edges: Any, entry: Sequence[str], given: dict[str, Any]) -> Any:
    graph = Graph(nodes, edges=edges, name="shared")
    return SyncRunner().run(graph.with_entrypoint(*entry) if entry else graph, given)


def test_a_node_behind_a_branch_that_runs_without_it_is_not_exclusive() -> None:
    gate = ifelse("a", "b", name="gate")(lambda x: False)
    nodes = [gate, make("a", "x"), make("tail", "a_out=0", out="out"), make("b", "x", out="out")]
    assert "'b' and 'tail' could both run" in refused(nodes, x=1)
    nodes[2] = make("tail", "a_out", out="out")
    assert outcome(nodes, x=1)[1] == ["b", "gate"]


def test_the_open_beginning_of_a_loop_is_not_exclusive_with_the_branch_that_leaves_the_loop_out() -> None:
    which = route(targets=["one", "two"], name="which")(lambda x: x)
    again = route(targets=["first", END], name="again")(lambda y, w: END)
    nodes = [
        which,
        make("one", "x", out="v"),
        make("late", "v", out="out"),
        make("two", "x", out="y"),
        again,  # asked after `two` only, but its loop begins with `first` by itself
        make("first", "z=0", out=("out", "w")),
    ]
    assert "could both run" in refused(nodes, x="one")


def test_a_target_that_another_gate_may_choose_is_not_exclusive() -> None:
    one = ifelse("a", "b", name="one")(lambda x: True)
    other = ifelse("b", END, name="other")(lambda x: True)
    assert "'a' and 'b' could both run" in refused(
        [one, other, make("a", "x", out="out"), make("b", "x", out="out")][::-1], x=1
    )


def test_nodes_that_a_round_runs_side_by_side_do_not_make_the_same_name() -> None:
    gate = route(targets=["head", END], name="gate")(lambda s: END)
    nodes = [
        make("head", "s", out="v"),
        make("a", "v", out="x"),
        make("b", "v", out="x"),
        make("j", "x", out="s"),
    ]
    assert "Multiple nodes produce 'x'" in refused([*nodes, gate], entry=["head"], s=1)
    nodes[2] = make("b", "v", "x", out="x")
    graph = Graph([*nodes, gate]).with_entrypoint("head")
    assert [s.node_name for s in SyncRunner().run(graph, s=1).log.steps] == ["head", "a", "b", "j", "gate"]


def loop_with_branches(*tail: HyperNode) -> list[HyperNode]:
    """A loop whose gate chooses `a` first and `b` in the second round."""

    @node(output_name="z")
    def top(start: str, out: str = "") -> str:
        return start + out

    @route(targets=["a", "b"])
    def which(z: str) -> str:
        return "b" if "|" in z else "a"

    @node(output_name="va")
    def a(z: str) -> str:
        return "a"

    @node(output_name="out")
    def b(z: str) -> str:
        return "|b"

    @route(targets=["top", END])
    def again(out: str) -> Any:
        return END if out == "|b" else "top"

    return [top, which, a, b, again, *tail]


def test_a_branch_of_a_loop_is_not_exclusive_if_each_round_brings_it_something_new() -> None:
    tail = node(output_name="out")(lambda va, z: f"|{va}").with_name("tail")
    assert "'tail' and 'b' could both run" in refused(loop_with_branches(tail), start="s")


def test_a_branch_of_a_loop_may_take_what_comes_from_outside() -> None:
    tail = node(output_name="out")(lambda va, start: f"|{va}").with_name("tail")
    values, calls = outcome(loop_with_branches(tail), start="s")
    assert values["out"] == "|b"
    assert calls == ["a", "again", "again", "b", "tail", "top", "top", "which", "which"]


def test_what_comes_after_a_loop_runs_for_all_of_its_rounds() -> None:
    nodes = [n for n in loop_with_branches() if n.name != "b"]
    tail = node(output_name="out")(lambda va: f"|{va}").with_name("tail")
    b = node(output_name=("out", "vb"))(lambda z: ("|b", "b")).with_name("b")
    after = [make("after_a", "va", out="end"), make("after_b", "vb", out="end")]
    assert "'after_a' and 'after_b' could both run" in refused([*nodes, tail, b, *after][::-1], start="s")


def test_what_waits_for_a_loop_runs_whatever_its_last_choice_was() -> None:
    begin = node(output_name="b", emit="begun")(lambda: 1).with_name("begin")
    gate = route(targets=["begin", "chosen", END], name="gate")(lambda b: "chosen")
    chosen = node(output_name="a")(lambda b: "chosen").with_name("chosen")
    after = node(output_name="a", wait_for="begun")(lambda b: "after").with_name("after")
    assert "'chosen' and 'after' could both run" in refused([after, gate, begin, chosen])


def test_a_loop_in_a_branch_makes_what_the_other_branch_makes() -> None:
    @route(targets=["quick", "research"])
    def how(question: str) -> str:
        return "research"

    @node(output_name="notes")
    def research(question: str, answer: str = "") -> str:
        return f"{answer}."

    @node(output_name="answer")
    def write(notes: str) -> str:
        return f"{notes}!"

    @ifelse(when_true=END, when_false="research")
    def good(answer: str) -> bool:
        return len(answer) > 3

    quick = make("quick", "question", out="answer")
    values, calls = outcome([how, quick, research, write, good], question="?")
    assert values["answer"] == ".!.!"
    assert calls == ["good", "good", "how", "research", "research", "write", "write"]


def test_entry_points_that_make_the_same_name_are_refused() -> None:
    gate = route(targets=["a", "b", END], name="gate")(lambda v: END)
    nodes = [make("a", "v=0", out="v"), make("b", "v=0", out="v"), gate]
    assert "Multiple nodes produce 'v'" in refused(nodes, entry=["a", "b"])


def test_branches_over_one_state_need_no_edges_between_them() -> None:
    @node(output_name="state")
    def ask(state: str) -> str:
        return f"{state}?"

    @route(targets=["left", "right"])
    def where(state: str) -> str:
        return "right"

    def step(state: str) -> str:
        return f"{state}!"

    left, right, last = (
        node(output_name="state")(step).with_name(name) for name in ("left", "right", "last")
    )
    nodes = [ask, where, left, right, last]
    edges = [*chain(ask, where), *chain(ask, left, last), *chain(ask, right, last)]
    values, calls = outcome(nodes, edges, state="s")
    assert (values, calls) == ({"state": "s?!!"}, ["ask", "last", "right", "where"])
