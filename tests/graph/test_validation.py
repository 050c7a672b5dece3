"""Build-time checks: every finding, in order, with cause, place and fix."""

import gc
import sys
import time
import warnings
from collections.abc import AsyncIterator, Generator, Iterable, Iterator
from typing import Any

import numpy
import pytest
from support.making import make

from hypergraph import (
    END,
    FunctionNode,
    Graph,
    GraphConfigError,
    GraphWarning,
    SyncRunner,
    ifelse,
    interrupt,
    node,
    receive,
    route,
)
from hypergraph.graph import validate_graph
from hypergraph.graph.validation import RULES
from hypergraph.graph.wiring import Wiring


def findings_of(*nodes: Any, **options: Any) -> tuple[str, ...]:
    with pytest.raises(GraphConfigError) as caught:
        Graph(nodes, **options)
    return caught.value.findings


def with_default(name: str, default: Any) -> FunctionNode:
    def func(shared=default):
        return shared

    return FunctionNode(func, name, f"{name}_out")


# -- the error ---


def test_all_findings_come_together_in_the_order_of_the_rules() -> None:
    nodes = [
        make("a", "x=1", out="v"),
        make("b", "x=2", out="v"),
        make("END"),
        make("c", wait_for="nowhere", out="class"),
        route(targets=["missing", "gate"], name="gate")(lambda x=1: END),
        route(targets=["a", "b"], name="many", multi_target=True)(lambda x=1: []),
    ]
    fragments = [
        "unknown source 'q'",
        "Multiple nodes produce 'v'",
        "cannot contain '.'",
        "reserved",
        "Invalid output name: 'class' is a Python keyword",
        "Inconsistent defaults for 'x'",
        "unknown node 'missing'",
        "cannot target itself",
        "share the output 'v'",
        "wait_for='nowhere'",
    ]
    with pytest.raises(GraphConfigError) as caught:
        Graph(nodes, name="bad.name", edges=[("q", "a")])
    assert str(caught.value).startswith(caught.value.findings[0])
    assert len(caught.value.findings) == len(fragments)
    for finding, fragment in zip(caught.value.findings, fragments, strict=True):
        assert fragment in finding
        assert finding in str(caught.value)


def test_each_finding_has_details_and_ends_with_the_remedy() -> None:
    nodes = [make("a", out="v"), make("b", out="v"), make("c", wait_for="nowhere")]
    for finding in [*findings_of(*nodes), *findings_of(make("a"), edges=["a", ("q", "a"), ("a", "a", "q")])]:
        what, *details, fix = finding.splitlines()
        assert what
        assert details
        assert all(detail.startswith("-> ") for detail in details)
        assert fix.startswith("How to fix: ")


def test_rules_have_a_docstring_that_cites_their_number() -> None:
    cited = [int(rule.__doc__[1:].split(":")[0].split(",")[0]) for rule in RULES]
    assert cited == sorted(cited)
    assert set(cited) == set(range(1, 17))


def test_validate_graph_returns_the_wiring_or_raises() -> None:
    wiring = validate_graph([make("a"), make("b", "a_out")])
    assert isinstance(wiring, Wiring)
    assert [(e.source, e.target) for e in wiring.edges] == [("a", "b")]
    with pytest.raises(GraphConfigError, match="Invalid graph name"):
        validate_graph([], name="a/b")


# -- B1 to B6: names ---


def test_b1_duplicate_node_names() -> None:
    (found,) = findings_of(make("x"), make("x", out="y"), make("z"))
    assert found.startswith("Duplicate node name: 'x'")


def test_b1_leaves_out_what_needs_edges() -> None:
    found = findings_of(make("a"), make("a"), make("b", wait_for="nowhere"), name="p.q")
    assert [text.split(":")[0] for text in found] == ["Duplicate node name", "Invalid graph name"]


@pytest.mark.parametrize("character", [".", "/"])
def test_b3_graph_names(character: str) -> None:
    (found,) = findings_of(name=f"a{character}b")
    assert "Invalid graph name" in found
    assert f"cannot contain '{character}'" in found
    assert "cannot contain '.'" in found


def test_b4_end_is_reserved() -> None:
    assert "reserved" in findings_of(make("END"))[0]
    assert "reserved" in findings_of(Graph([make("a")], name="END").as_node())[0]


@pytest.mark.parametrize("name", ["a b", "1a", "", "a.b", "a/b", "a-b", "<lambda>"])
def test_b5_names_must_be_identifiers(name: str) -> None:
    (found,) = findings_of(make("a").with_name(name))
    assert "Invalid node name" in found
    assert "valid Python identifiers" in found
    (found,) = findings_of(make("a", out=name or "-"))
    assert "Invalid output name" in found
    assert "valid Python identifiers" in found


def test_b5_names_must_not_be_keywords() -> None:
    assert "Invalid node name: 'class' is a Python keyword" in findings_of(make("a").with_name("class"))[0]
    assert "Invalid output name: 'None' is a Python keyword" in findings_of(make("a", out="None"))[0]


def test_b5_emit_names_are_outputs_and_soft_keywords_are_names() -> None:
    assert "Invalid output name" in findings_of(make("a", emit="is done"))[0]
    assert Graph([make("match", out="type", emit="case")]).outputs == ("type", "case")


def test_b5_inputs_may_be_any_text_because_values_are_a_dict() -> None:
    assert Graph([make("a", "x").with_inputs(x="class or so")]).inputs.required == ("class or so",)


def test_b6_a_nested_name_may_not_be_an_output_of_another_node() -> None:
    inner = Graph([make("a")], name="a_result")
    (found,) = findings_of(inner.as_node(), make("b", out="a_result"))
    assert "collides with output" in found
    assert Graph([Graph([make("a")], name="a_out").as_node()]).outputs == ("a_out",)


# -- B2: several producers ---


def both(**options: Any) -> list[FunctionNode]:
    return [make("a", out="v", **options), make("b", out="v")]


def test_b2_two_unrelated_producers_are_refused() -> None:
    (found,) = findings_of(*both())
    assert "Multiple nodes produce 'v'" in found
    assert "emit/wait_for" in found
    assert "exclusive branches" in found


def test_b2_different_branches_of_one_gate_are_exclusive() -> None:
    assert Graph([ifelse("a", "b", name="g")(lambda x: True), *both()])
    assert Graph([route(targets=["a", "b", END], name="g")(lambda x: END), *both()])


def test_b2_branches_reach_as_far_as_only_they_lead() -> None:
    gate = ifelse("p", "q", name="g")(lambda x: True)
    tail = [make("p"), make("q"), make("a", "p_out", out="v"), make("b", "q_out", out="v")]
    assert Graph([gate, *tail])
    joined = [*tail[:3], make("b", "p_out", "q_out", out="v")]
    assert "Multiple nodes produce 'v'" in findings_of(gate, *joined)[0]


def test_b2_the_same_branch_is_not_exclusive() -> None:
    gate = ifelse("p", END, name="g")(lambda x: True)
    found = findings_of(gate, make("p"), make("a", "p_out", out="v"), make("b", "p_out", out="v"))
    assert "'a' and 'b' could both run" in found[0]


def test_b2_targets_of_two_gates_are_not_exclusive() -> None:
    gates = [route(targets=[t, END], name=f"g{t}")(lambda x: END) for t in "ab"]
    assert "Multiple nodes produce 'v'" in findings_of(*gates, *both())[0]


def test_b2_targets_of_a_multi_target_gate_are_never_exclusive() -> None:
    found = findings_of(route(targets=["a", "b"], name="g", multi_target=True)(lambda x: []), *both())
    assert "Multiple nodes produce 'v'" in found[0]
    assert "share the output 'v'" in found[1]


@pytest.mark.parametrize("swapped", [False, True])
def test_b2_exclusive_branches_of_a_loop_may_update_the_same_value(swapped: bool) -> None:
    steps = [make("a", "v", out="v"), make("b", "v", out="v")]
    gate = route(targets=["a", "b", END], name="g")(lambda v: END)
    graph = Graph([gate, *(reversed(steps) if swapped else steps)])
    assert graph.has_cycles


def test_b2_a_loop_may_lead_from_one_branch_to_the_other() -> None:
    gate = ifelse("a", "b", name="g")(lambda c_out: True)
    loop = [make("a", "c_out", out="v"), make("b", "c_out", out="v"), make("c", "v")]
    assert Graph([gate, *loop])


def test_b2_ordered_producers_are_fine() -> None:
    assert Graph([make("a", out="v", emit="done"), make("b", out="v", wait_for="done")])
    assert Graph([make("b", "a_out", out="v"), make("a", out=("v", "a_out"))])
    three = [make("b", "p", out=("v", "q")), make("c", "q", out="v"), make("a", out=("v", "p"))]
    assert Graph(three).sole_producers == {"q": "b", "p": "a"}


def test_b2_any_path_orders_that_of_the_contested_value_included() -> None:
    assert Graph([make("a", out="v"), make("b", "v", out="v")])
    assert Graph([make("a", out=("v", "w")), make("b", "v", "w", out=("v", "w"))])
    assert Graph([make("a", out=("v", "extra")), make("b", "v", "extra", out="v")])
    assert "Multiple nodes produce 'v'" in findings_of(make("a", out="v"), make("b", out="v"))[0]


def test_b2_any_declared_path_orders_under_explicit_edges() -> None:
    nodes = [make("a", out="v"), make("b", "v", out="v"), make("c", "v")]
    assert Graph(nodes, edges=[("a", "b"), ("b", "c")])
    assert "Multiple nodes produce 'v'" in findings_of(*nodes, edges=[("a", "c"), ("b", "c")])[0]


def test_b2_every_pair_has_to_agree() -> None:
    gate = ifelse("a", "b", name="g")(lambda x: True)
    exclusive = [gate, make("a", out="v", emit="e"), make("b", out="v", emit="f")]
    assert "'a' and 'c' could both run" in findings_of(*exclusive, make("c", out="v"))[0]
    assert Graph([*exclusive, make("c", out="v", wait_for=("e", "f"))])
    assert Graph([*exclusive, make("c", out="v", wait_for="e")])


def test_b2_emit_names_may_have_several_producers() -> None:
    assert Graph([make("a", emit="tick"), make("b", emit="tick"), make("c", wait_for="tick")])


def test_b2_a_value_that_another_node_emits_at_any_time_is_refused() -> None:
    (found,) = findings_of(make("a", emit="tick"), make("b", out="tick"))
    assert found.startswith("Multiple nodes produce 'tick'")


# -- B7: defaults ---


def test_b7_a_default_in_some_consumers_only_is_refused() -> None:
    (found,) = findings_of(make("a", "x=1"), make("b", "x"))
    assert "Inconsistent defaults for 'x'" in found
    assert "-> node 'a': default 1" in found
    assert "-> node 'b': without default" in found


@pytest.mark.parametrize(
    ("one", "other"),
    [(1, 2), (1, 1.0), (True, 1), (None, 0), ([1], [2]), ("a", b"a"), (float("nan"), 1.0)],
)
def test_b7_different_defaults_are_refused(one: Any, other: Any) -> None:
    assert (
        "Inconsistent defaults for 'shared'"
        in findings_of(with_default("a", one), with_default("b", other))[0]
    )


class Box:
    """A value that equals only itself."""

    def __init__(self, content: int) -> None:
        self.content = content


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, 1),
        ([1, {2}], [1, {2}]),
        (float("nan"), float("nan")),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        (Box(1), Box(1)),
        (numpy.array([1.0, numpy.nan]), numpy.array([1.0, numpy.nan])),
        ([numpy.zeros(3)], [numpy.zeros(3)]),
    ],
)
def test_b7_equal_defaults_are_fine(one: Any, other: Any) -> None:
    assert Graph([with_default("a", one), with_default("b", other)]).inputs.optional == ("shared",)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (numpy.array([1, 1]), numpy.array([1])),
        (numpy.array([]), numpy.array([1.0])),
        (numpy.array([1, 2]), numpy.array([1, 3])),
        (Box(1), Box(2)),
    ],
)
def test_b7_arrays_and_objects_differ_by_content(one: Any, other: Any) -> None:
    assert "Inconsistent defaults" in findings_of(with_default("a", one), with_default("b", other))[0]


def test_b7_a_default_that_cannot_be_compared_or_shown_is_still_reported() -> None:
    class Hostile:
        def __eq__(self, other: object) -> bool:
            raise RuntimeError("no comparison")

        __hash__ = None  # type: ignore[assignment]

        def __repr__(self) -> str:
            raise RuntimeError("no text")

    assert "default <Hostile>" in findings_of(with_default("a", Hostile()), with_default("b", Hostile()))[0]
    shared = Hostile()
    assert Graph([with_default("a", shared), with_default("b", shared)])


def test_b7_looks_only_at_consumers_that_nobody_feeds() -> None:
    assert Graph([make("a", out="x"), make("b", "x=1"), make("c", "x=2")])
    assert Graph([make("a", out="x"), make("b", "x=1"), make("c", "x")], edges=[("a", "b"), ("a", "c")])
    assert findings_of(make("a", out="x"), make("b", "x=1"), make("c", "x"), edges=[])


def test_b7_bound_values_do_not_count() -> None:
    inner = Graph([make("b", "x")], name="inner")
    assert Graph([make("a", "x=1"), inner.bind(x=2).as_node()])
    assert findings_of(make("a", "x=1"), inner.as_node())
    assert findings_of(make("a", "x=1"), Graph([make("b", "x=2")], name="inner").as_node())


# -- B8 to B13 ---


def test_b8_unknown_targets_suggest_close_ones() -> None:
    gate = route(targets=["aprove", "zzz"], name="g")(lambda x: "aprove")
    first, second = findings_of(gate, make("approve"))
    assert "unknown node 'aprove'" in first
    assert "Did you mean 'approve'?" in first
    assert "Did you mean" not in second


def test_b9_a_gate_cannot_target_itself() -> None:
    assert "'g' cannot target itself" in findings_of(route(targets=["g", END], name="g")(lambda x: END))[0]


def test_b11_what_must_not_be_repeated_has_a_record_of_its_own() -> None:
    till = Graph([Graph([make("pay", repeatable=False)], name="till").as_node()], name="shop")
    (found,) = findings_of(till.as_node(durability="atomic"))
    assert "'shop' is atomic but contains nodes with repeatable=False: 'pay'" in found
    assert 'durability="nested"' in found
    assert Graph([till.as_node()])


def test_b13_awaited_names_exist_and_suggest_close_ones() -> None:
    (found,) = findings_of(make("a", emit="finished"), make("b", wait_for="finishd"))
    assert "wait_for='finishd'" in found
    assert "Did you mean 'finished'?" in found


def test_b13_a_data_output_may_be_awaited() -> None:
    assert Graph([make("a"), make("b", wait_for="a_out")])


# -- B14: strict types ---


@node(output_name="n")
def number() -> int:
    return 1


def test_b14_missing_and_wrong_types_name_both_nodes_and_the_value() -> None:
    @node(output_name="r")
    def wants_text(n: str) -> None: ...

    @node(output_name="s")
    def wants_anything(n): ...

    wrong, missing = findings_of(number, wants_text, wants_anything, strict_types=True)
    for found, what, name in (
        (wrong, "Type mismatch", "wants_text"),
        (missing, "Missing type annotation", "wants_anything"),
    ):
        assert what in found
        assert f"'number' -> '{name}', value 'n'" in found
        assert "How to fix" in found
    assert Graph([number, wants_text, wants_anything])


def test_b14_looks_at_every_producer() -> None:
    @node(output_name="n")
    def text() -> str:
        return ""

    @node(output_name="r")
    def use(n: int) -> int:
        return n

    gate = ifelse("number", "text", name="g")(lambda x: True)
    (found,) = findings_of(gate, number, text, use, strict_types=True)
    assert "'text' -> 'use'" in found


def test_b14_looks_through_nested_and_mapped_graphs() -> None:
    @node(output_name="total")
    def add(n: list[int]) -> int:
        return sum(n)

    @node(output_name="n")
    def inc(x: int) -> int:
        return x + 1

    inner = Graph([inc], name="inner").as_node()
    assert Graph([inner.map_over("x"), add], strict_types=True)
    assert "Type mismatch" in findings_of(inner, add, strict_types=True)[0]


def test_b14_skips_hints_that_cannot_be_resolved_with_a_warning() -> None:
    @node(output_name="n")
    def make_n(x: int) -> "Nowhere":  # noqa: F821
        return x

    @node(output_name=("a", "b"))
    def split(n: int) -> "tuple[Nowhere, int]":  # noqa: F821
        return n, n

    @node(output_name="total")
    def add(a: "Nowhere", b: str) -> int:  # noqa: F821
        return 0

    inner = Graph([make_n], name="inner").as_node()
    for nodes in ([inner, split], [split, add]):
        with pytest.warns(UserWarning, match="Unresolvable type hint"):
            assert Graph(nodes, strict_types=True)


def test_b14_checks_hints_beside_one_that_cannot_be_resolved() -> None:
    @node(output_name="n")
    def make_n(x: "Nowhere") -> int:  # noqa: F821
        return x

    @node(output_name="text")
    def show(n: str, x: "Nowhere") -> str:  # noqa: F821
        return n

    assert "Type mismatch for 'n'" in findings_of(make_n, show, strict_types=True)[0]


# -- scale ---


def chain_of(length: int) -> list[FunctionNode]:
    link = make("n0", "v0", out="v1")
    return [
        link.with_name(f"n{i}").with_inputs(v0=f"v{i}").with_outputs(v1=f"v{i + 1}") if i else link
        for i in range(length)
    ]


def seconds_to_build(nodes: list[FunctionNode], times: int) -> float:
    gc.disable()  # what else is in memory is not the graph's fault
    try:
        start = time.process_time()
        for _ in range(times):
            Graph(nodes).inputs  # noqa: B018 - the access computes it
        return (time.process_time() - start) / times
    finally:
        gc.enable()


def calls_to_build(nodes: list[FunctionNode]) -> int:
    """Return the number of calls, in Python and in C, that building a graph takes."""
    calls = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        Graph(nodes).inputs  # noqa: B018 - the access computes it
    finally:
        sys.setprofile(None)
    return calls


def test_building_a_thousand_nodes_takes_at_most_twelve_times_the_calls_of_a_hundred() -> None:
    short, long = chain_of(100), chain_of(1000)
    for nodes in (short, long):
        calls_to_build(nodes)  # what is remembered of functions and types counts for neither
    assert calls_to_build(long) <= 12 * calls_to_build(short)


@pytest.mark.slow
def test_building_a_thousand_nodes_takes_time_in_proportion_to_their_number() -> None:
    short, long = chain_of(100), chain_of(1000)
    small = large = float("inf")
    for _ in range(25):
        # Both take about as long, so that other work is as likely to be in the way.
        small, large = min(small, seconds_to_build(short, 10)), min(large, seconds_to_build(long, 1))
    assert large <= 30 * small, f"{large / small:.1f} times"  # 10 in proportion, 100 with the square


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["chain", "shared input", "producers in a row", "exclusive producers"])
def test_ten_thousand_nodes_build(shape: str) -> None:
    nodes: list[Any] = chain_of(10_000)
    if shape == "shared input":
        nodes = [n.with_inputs({n.inputs[0]: "x"}) for n in nodes]
    if shape == "producers in a row":
        nodes = [
            FunctionNode(n, n.name, (n.outputs[0], "v"), rename_inputs={"v0": n.inputs[0]}) for n in nodes
        ]
    if shape == "exclusive producers":
        nodes = [n.with_inputs({n.inputs[0]: "x"}).with_outputs({n.outputs[0]: "v"}) for n in nodes[:1000]]
        nodes.append(route(targets=[n.name for n in nodes], name="gate")(lambda x: None))
    graph = Graph(nodes)
    assert len(graph.nodes) == len(nodes)
    assert len(graph.inputs.required) == 1
    assert len(graph.definition_hash) == 64


# -- warnings ------------------------------------------------------------------------------------------


def test_a_cycle_without_a_gate_is_a_warning_that_names_it() -> None:
    with pytest.warns(GraphWarning, match=r"to_b → to_a feed each other and no gate .* begins at 'to_b'"):
        Graph([make("to_b", "a", out="b"), make("to_a", "b", out="a")])


def test_a_cycle_that_passes_the_gate_by_is_a_warning_that_names_the_node_to_put_behind_one() -> None:
    @route(targets=["approve", END])
    def wants(calls: list[str]) -> str:
        return "approve"

    @interrupt("approved")
    def approve(calls: list[str]) -> bool | None:
        return None

    @node(output_name=("messages", "calls"), append="messages")
    def model(messages: list[str]) -> tuple[str, list[str]]:
        return "", []

    book = node(output_name="messages", append=True)(make("book", "calls, approved", out="sent").func)
    with pytest.warns(GraphWarning, match=r"model → book .*replace the inputs of 'book'.*Put 'book' behind"):
        Graph([model, wants, approve, book])
    allowed = ifelse(when_true="book", when_false=END, name="allowed")(lambda approved: approved)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Graph([model, wants, approve, allowed, book])


def appending(name: str, *params: str) -> Any:
    return node(output_name="messages", append=True)(make(name, *params, out="said").func)


THINK, REPLY = make("think", "messages", out="tokens"), appending("reply", "tokens")


def test_a_way_back_by_appended_items_alone_is_no_cause_for_a_warning() -> None:
    decide = route(targets=["weather", END], name="decide")(lambda tokens: END)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Graph([THINK, REPLY])
        Graph([REPLY, THINK])  # begins at think: reply needs what it makes
        Graph([appending("listen", "said"), THINK, REPLY])
        Graph([THINK, REPLY, decide, appending("weather", "tokens")])
    result = SyncRunner().run(Graph([THINK, REPLY]), messages=[])
    assert [step.node_name for step in result.log.steps] == ["think", "reply"]


def test_a_value_that_comes_back_beside_the_list_is_a_cause_for_a_warning() -> None:
    again = make("think", "messages", "hint=''", out="tokens")
    plan = make("plan", "goal, hint", out="goal_text")
    hint = make("hint_of", "goal_text, messages", out="hint")
    for nodes in (
        [again, REPLY, make("hint_of", "tokens", out="hint")],  # the hint comes back to where it begins
        [FunctionNode(lambda tokens="": tokens, "first", "messages", append=True), THINK],  # the tokens do
        [THINK, REPLY, plan, hint],  # two cycles; only plan and hint_of go round
    ):
        with pytest.warns(GraphWarning, match="feed each other and no gate ends the loop"):
            Graph(nodes)


def payments(*more: Any, spend: str = "query, grant") -> list[Any]:
    """A loop that asks before it spends, or rewrites the query."""
    asking = interrupt("grant")(make("ask", "query", out="grant").func)
    judge = route(targets=["ask", "rewrite", END], name="judge")(lambda query: END)
    begin, rewrite = make("begin", "topic", out="query"), make("rewrite", "query", out="query")
    return [begin, judge, asking, make("spend", spend, out="query"), rewrite, *more]


@pytest.mark.parametrize(
    ("nodes", "node_name", "answer"),
    [
        (payments(), "spend", "grant"),
        (payments(make("parse", "grant", out="sum"), spend="query, sum"), "spend", "sum"),
        (payments(route(targets=["spend", END], name="may")(lambda grant, query: END)), "may", "grant"),
    ],
    ids=["direct", "derived", "gate"],
)
def test_a_node_that_a_loop_runs_again_on_an_old_answer_is_a_warning(
    nodes: list[Any], node_name: str, answer: str
) -> None:
    told = f"'{node_name}' takes '{answer}', which comes from the question 'ask', and 'query'"
    advice = f"Put '{node_name}' behind a gate that takes only '{answer}'"
    with pytest.warns(GraphWarning, match=f"{told}.* chooses '(rewrite|spend)'.*{advice}"):
        Graph(nodes)


def test_an_old_answer_inside_of_a_nested_graph_counts_as_well() -> None:
    asking = Graph([interrupt("grant")(make("ask_inside", "query", out="grant").func)], name="ask").as_node()
    nodes = [asking if n.name == "ask" else n for n in payments()]
    with pytest.warns(GraphWarning, match="'spend' takes 'grant', which comes from the question 'ask'"):
        Graph(nodes)


def test_an_answer_that_is_asked_for_anew_or_is_chosen_for_is_no_cause_for_a_warning() -> None:
    write, ask = make("write", "topic, critique=''", out="draft"), make("ask", "draft", out="critique")
    again = ifelse(when_true=END, when_false="write", name="again")(lambda draft, critique: True)
    model = make("model", "said, rain='', answer=''", out="calls")
    dispatch = route(targets=["weather", "reply", END], name="dispatch")(lambda calls: END)
    reply = interrupt("answer")(make("reply", "calls", out="answer").func)
    price = make("price", "grant", out="cost")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Graph(payments(route(targets=["spend", END], name="may")(lambda grant: END)))
        Graph([write, interrupt("critique")(ask.func), again])  # it is asked about every draft
        Graph(
            [model, dispatch, make("weather", "calls", out="rain"), reply]
        )  # it runs without an answer, too
        only_asks = [n for n in payments(price, spend="cost, grant") if n.name not in ("rewrite", "judge")]
        Graph([*only_asks, route(targets=["ask", END], name="judge")(lambda query: END)])


def test_a_loop_with_a_gate_is_no_cause_for_a_warning() -> None:
    @route(targets=["ask", END])
    def gate(b: int) -> str:
        return "ask"

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Graph([make("ask", "a", out="b"), make("answer", "b", out="a"), gate])


def test_an_accumulator_beside_a_loop_is_a_warning() -> None:
    @route(targets=["up", END])
    def gate(n: int) -> str:
        return "up"

    with pytest.warns(GraphWarning, match="'trace' takes its own output .* wait_for='trail'"):
        Graph([make("up", "n", out="n"), gate, make("trace", "n", "trail", out="trail")])


def test_an_answer_is_not_the_input_of_a_node_that_no_edge_leads_to() -> None:
    @interrupt(output_name="approved")
    def approve(draft: str) -> bool | None:
        return None

    review = Graph([approve], name="review")
    send = make("send", "draft, approved", out="sent")
    for asking in (approve, review.as_node()):
        (found,) = findings_of(asking, send, edges=[])
        assert f"'approved' answers {asking.name!r} and is an input of 'send'" in found
        assert f"add the edge ({asking.name!r}, 'send')" in found
        Graph([asking, send], edges=[(asking.name, "send")])
        Graph([asking, send])
    each = review.as_node().map_over("draft")
    Graph([each, send], edges=[])  # the answers of its items have other names


def test_an_answer_has_the_type_of_the_handler_without_none() -> None:
    """None means that there is no answer yet: it never reaches another node."""

    @interrupt(output_name=("approved", "note"))
    def ask() -> tuple[bool, str] | None:
        return None

    @interrupt(output_name="amount", answer=float)
    def pay():  # type: ignore[no-untyped-def]
        return None

    @interrupt(output_name="anything")
    def look() -> Any:
        return None

    @node(output_name="sent")
    def send(approved: bool, note: str, amount: float, payment: float, anything: Any) -> str:
        return note

    nodes = [ask, pay, look, receive("payment", float), send]
    assert Graph(nodes, strict_types=True)
    wrong = [*nodes[:-1], send.with_inputs(approved="note", note="approved")]
    assert [text.splitlines()[0] for text in findings_of(*wrong, strict_types=True)] == [
        "Type mismatch for 'note'",
        "Type mismatch for 'approved'",
    ]
    silent = [*nodes[:3], receive("payment"), send]
    assert findings_of(*silent, strict_types=True)[0].startswith("Missing type annotation for 'payment'")


@pytest.mark.parametrize("declared", [Iterator[str], Iterable[str], Generator[str, None, int], Iterator])
def test_the_output_of_a_generator_is_a_list_of_its_items(declared: Any) -> None:
    @node(output_name="words")
    def speak() -> Any:
        yield "a"

    @node(output_name="total")
    def count(words: list[str]) -> int:
        return len(words)

    @node(output_name="total")
    def add(words: list[int]) -> int:
        return sum(words)

    speak.func.__annotations__["return"] = declared
    made = node(speak.func, output_name="words")
    assert Graph([made, count], strict_types=True)
    if declared is not Iterator:
        assert "Type mismatch for 'words'" in findings_of(made, add, strict_types=True)[0]


def test_the_output_of_an_async_generator_is_a_list_of_its_items() -> None:
    @node(output_name="words")
    async def speak() -> AsyncIterator[str]:
        yield "a"

    assert speak.get_output_type("words") == list[str]
    assert speak.with_function(lambda: ["b"]).get_output_type("words") == list[str]
