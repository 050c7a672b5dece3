"""Graph.replace: other nodes in the places of those of a graph, nested ones by path."""

import pickle
from collections.abc import Callable
from typing import Any
from unittest.mock import AsyncMock, MagicMock, Mock, create_autospec

import pytest
from support.making import make

from hypergraph import (
    END,
    FunctionNode,
    Graph,
    GraphConfigError,
    NodeContext,
    SyncRunner,
    ifelse,
    interrupt,
    node,
    pause_for,
    route,
)


@node(output_name="answer")
def call_tool(tool: str, question: str) -> str:
    raise ConnectionError("no network in tests")


def nested(**options: Any) -> Graph:
    """Return act / tools / call_tool, with a rename on the way."""
    tools = Graph([call_tool], name="tools")
    act = Graph([tools.as_node().with_outputs(answer="found")], name="act")
    report = FunctionNode(lambda found, title: f"{title}: {found}", "report", "text")
    return Graph([act.as_node(), report], name="agent", **options)


def fake(question: str, tool: str) -> str:  # another order of parameters
    return f"{tool} says {question}"


INPUTS = {"tool": "search", "question": "why", "title": "Notes"}


def test_a_function_is_called_in_the_place_of_a_nested_node() -> None:
    graph = nested()
    offline = graph.replace({"act/tools/call_tool": fake})
    assert SyncRunner().run(offline, INPUTS)["text"] == "Notes: search says why"
    assert graph.nodes["act"].nested_graph.nodes["tools"].nested_graph.nodes["call_tool"] is call_tool
    assert offline.inputs == graph.inputs
    assert offline.name == "agent"
    assert offline.definition_hash != graph.definition_hash


def test_a_node_gets_the_name_of_the_place() -> None:
    other = node(fake, output_name="answer")
    offline = nested().replace({"act/tools/call_tool": other})
    assert SyncRunner().run(offline, INPUTS)["text"] == "Notes: search says why"
    tools = offline.nodes["act"].nested_graph.nodes["tools"]
    assert [*tools.nested_graph.nodes] == ["call_tool"]


def test_a_nested_graph_may_be_replaced_as_a_whole() -> None:
    offline = nested().replace({"act": lambda tool, question: "nothing"})
    assert SyncRunner().run(offline, INPUTS)["text"] == "Notes: nothing"


def test_a_mapped_graph_stays_mapped() -> None:
    one = Graph([make("double", "number", out="twice")], name="one")
    graph = Graph([one.as_node().map_over("number").with_inputs(number="numbers")])
    changed = graph.replace({"one/double": lambda number: number * 2})
    assert SyncRunner().run(changed, numbers=[1, 2, 3])["twice"] == [2, 4, 6]


def test_bindings_selection_and_entry_points_are_kept() -> None:
    graph = Graph([make("a", "x"), make("b", "a_out", "k"), make("c", "b_out")], name="g")
    kept = graph.bind(k=2).select("b_out").with_entrypoint("b").replace({"b": lambda a_out, k: a_out * k})
    assert (kept.bound, kept.selected, kept.entrypoints_config) == ({"k": 2}, ("b_out",), ("b",))
    assert SyncRunner().run(kept, a_out=21).values == {"b_out": 42}


def test_explicit_edges_are_kept() -> None:
    nodes = [
        make("a", "x", out="v"),
        make("b", "x", out="u", emit="told"),
        make("c", "v", out="w", wait_for="told"),
        make("d", "x", out="z"),
        route(targets=["d", END], name="gate")(lambda w: END),
    ]
    graph = Graph(nodes, edges=[("a", "c", "v"), ("b", "d"), ("c", "gate")])
    changed = graph.replace({"a": lambda x: x, "gate": lambda w: "d"})
    assert {(e.source, e.target, e.edge_type, e.value_names) for e in changed.edges} == {
        (e.source, e.target, e.edge_type, e.value_names) for e in graph.edges
    }
    assert changed.replace({"a": nodes[0], "gate": nodes[4]}).definition_hash == graph.definition_hash


def test_options_of_the_node_stay_with_a_function() -> None:
    kept = FunctionNode(fake, "n", "out", cache=True, timeout=3, emit="done", rename_inputs={"tool": "t"})
    (changed,) = Graph([kept]).replace({"n": lambda tool, question: 0}).iter_nodes()
    assert (changed.inputs, changed.outputs, changed.cache) == (("t", "question"), ("out", "done"), True)
    assert isinstance(changed, FunctionNode)
    assert changed.timeout == 3


@pytest.mark.parametrize(
    "make_mock",
    [
        Mock,
        MagicMock,
        AsyncMock,
        lambda: Mock(spec=fake),
        lambda: create_autospec(FunctionNode(fake, "n", "out")),
    ],
)
def test_a_mock_is_refused_and_one_with_the_parameters_is_taken(make_mock: Callable[[], Any]) -> None:
    graph = Graph([FunctionNode(fake, "n", "out")])
    with pytest.raises(GraphConfigError, match=r"create_autospec\(fake\.func, return_value=\.\.\.\)"):
        graph.replace({"n": make_mock()})
    double = create_autospec(fake, return_value="faked")
    assert SyncRunner().run(graph.replace({"n": double}), tool="t", question="q")["out"] == "faked"
    double.assert_called_once_with(tool="t", question="q")


def test_a_question_may_be_answered_by_a_function_or_a_node() -> None:
    ask = interrupt("approved")(lambda draft: None)
    graph = Graph([FunctionNode(ask.func, "x", "y"), ask.with_name("ask")], name="g")
    assert SyncRunner().run(graph.replace({"ask": lambda draft: True}), draft="d")["approved"] is True
    by_node = graph.replace({"ask": FunctionNode(lambda draft: "no", "never", "approved")})
    assert SyncRunner().run(by_node, draft="d")["approved"] == "no"


def test_a_timer_may_be_replaced_by_a_node_that_does_not_wait() -> None:
    graph = Graph([pause_for("wait", 3600.0), make("after", "wait")])
    quick = graph.replace({"wait": FunctionNode(lambda: 0, "now", "wait")})
    assert SyncRunner().run(quick).completed


def test_a_gate_takes_another_rule() -> None:
    gate = ifelse("a", "b", name="gate")(lambda x: True)
    graph = Graph([gate, make("a", "x", out="r"), make("b", "x", out="s")])
    assert "s" in SyncRunner().run(graph.replace({"gate": lambda x: False}), x=1).values
    with pytest.raises(GraphConfigError, match="its targets differ: the replacement lacks b and adds END"):
        graph.replace({"gate": ifelse("a", END, name="gate")(lambda x: True)})
    with pytest.raises(GraphConfigError, match="its targets differ: the replacement lacks a, b"):
        graph.replace({"gate": FunctionNode(lambda x: True, "gate")})

    def many(x: int) -> Any:
        yield x

    with pytest.raises(GraphConfigError, match="cannot be a generator"):
        graph.replace({"gate": many})


def greet_titled(name, ctx):  # type: ignore[no-untyped-def]
    return f"hi {ctx.service('title')}{name}"


def test_a_replacement_may_take_the_context_without_an_annotation_or_leave_it_out() -> None:
    @node(output_name="greeting")
    def greet(name: str, ctx: NodeContext) -> str:
        return f"{name} {ctx.attempt}"

    graph = Graph([greet.with_inputs(name="who")], name="g")
    outer = Graph([graph.as_node()], name="outer")
    fakes: list[Any] = [
        lambda name: f"hi {name}",
        lambda name, ctx: f"hi {ctx.service('title')}{name}",
        lambda ctx, name: f"hi {ctx.service('title')}{name}",
        lambda name, ctx=None: f"hi {ctx.service('title')}{name}",
    ]
    for fake in fakes:
        for found in (graph.replace({"greet": fake}), outer.replace({"g/greet": fake})):
            assert found.inputs.all == ("who",)
            result = SyncRunner().run(found, who="Ada", services={"title": "Dr "})
            assert result["greeting"] in {"hi Ada", "hi Dr Ada"}
    copied = pickle.loads(pickle.dumps(graph.nodes["greet"].with_function(greet_titled)))  # type: ignore[attr-defined]
    assert SyncRunner().run(Graph([copied]), who="Ada", services={"title": "Dr "})["greeting"] == "hi Dr Ada"


def test_a_replacement_with_other_parameters_names_those_of_the_function_and_the_context() -> None:
    @node(output_name="greeting")
    def greet(name: str, ctx: NodeContext) -> str:
        return name

    def typed(name: str, ctx: int) -> str:
        return name

    graph = Graph([greet])
    said = r"\(who, ctx: NodeContext\), the one it replaces \(name, ctx: NodeContext\); ctx may be left out"
    with pytest.raises(GraphConfigError, match=said):
        graph.replace({"greet": lambda who, ctx: who})
    with pytest.raises(GraphConfigError, match=r"takes \(name, context\), the one it replaces"):
        graph.replace({"greet": lambda name, context: name})
    with pytest.raises(GraphConfigError, match=r"takes \(name, ctx\), the one it replaces"):
        graph.replace({"greet": typed})


@pytest.mark.parametrize(
    ("replacement", "said"),
    [
        (lambda tool: "", r"takes \(tool\), the one it replaces \(tool, question\)"),
        (lambda tool, question, more: "", r"takes \(tool, question, more\), the one it replaces"),
        (node(lambda tool: "", "answer"), "its inputs differ: the replacement lacks question"),
        (node(lambda tool, q: "", "answer"), "its inputs differ: the replacement lacks question and adds q"),
        (node(fake, output_name="reply"), "its outputs differ: the replacement lacks answer and adds reply"),
        (node(fake, output_name="answer", emit="done"), "its outputs differ: the replacement adds done"),
        (node(fake, output_name="answer", append=True), "its append differ: the replacement adds answer"),
        (node(fake, output_name="answer", wait_for="z"), "its wait_for differ: the replacement adds z"),
        ("fake", "str 'fake' is neither a node nor a function"),
        (Graph([call_tool]), "is neither a node nor a function"),
        (lambda *args: "", r"takes \(args\), the one it replaces"),
    ],
)
def test_a_replacement_that_does_not_fit_is_refused_with_what_differs(replacement: Any, said: str) -> None:
    with pytest.raises(GraphConfigError, match=said) as caught:
        nested().replace({"act/tools/call_tool": replacement})
    assert "In nested graph 'act': In nested graph 'tools': Cannot replace 'call_tool'" in str(caught.value)


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("reprot", "Did you mean 'report'?"),
        ("call_tool", "Did you mean 'act/tools/call_tool'?"),
        ("act/tool/call_tool", "Did you mean 'act/tools/call_tool'?"),
        ("act/tools/call_tools", "Did you mean 'act/tools/call_tool'?"),
        ("report/inner", "Did you mean 'report'?"),
        ("", "nodes of this graph: 'act', 'act/tools', 'act/tools/call_tool', 'report'"),
        ("act/", "Did you mean 'act'?"),
        (7, "nodes of this graph: 'act'"),
    ],
)
def test_an_unknown_path_is_refused_with_a_hint(path: Any, said: str) -> None:
    with pytest.raises(GraphConfigError, match="no node has this path") as caught:
        nested().replace({path: fake})
    assert said in str(caught.value)


def test_all_findings_are_shown_at_once() -> None:
    with pytest.raises(GraphConfigError) as caught:
        nested().replace({"act": fake, "act/tools": fake, "report": fake, "nowhere": fake})
    assert len(caught.value.findings) == 3
    assert "Cannot replace 'act' and nodes inside of it" in str(caught.value)


def test_strict_types_are_checked_again() -> None:
    graph = Graph([node(len, output_name="size"), node(lambda size: size, "out").with_name("o")])
    strict = Graph([*graph.iter_nodes()], name="g")
    assert strict.replace({}).definition_hash == strict.definition_hash

    @node(output_name="n")
    def make_number() -> int:
        return 1

    @node(output_name="m")
    def take_number(n: int) -> int:
        return n

    def make_text() -> str:
        return ""

    typed = Graph([make_number, take_number], strict_types=True)
    with pytest.raises(GraphConfigError, match="str"):
        typed.replace({"make_number": make_text})
    assert typed.replace({"make_number": lambda: 2, "take_number": lambda n: n})  # they keep the types


def test_what_is_no_mapping_is_refused() -> None:
    with pytest.raises(TypeError, match="takes a dict of paths and nodes"):
        nested().replace([("report", fake)])  # type: ignore[arg-type]


# -- defaults -------------------------------------------------------------------------------------------


@node(output_name="draft")
def write(topic: str, comment: str = "") -> str:
    return f"{topic}{comment}"


@interrupt("comment")
def review(draft: str) -> str | None:
    return "ok"


@ifelse(when_true=END, when_false="write")
def good(comment: str) -> bool:
    return comment == "ok"


def test_the_defaults_of_a_replaced_function_stay() -> None:
    offline = Graph([write, review, good], name="letters").replace(
        {"write": lambda comment, topic: f"<{topic}{comment}>"}
    )
    assert offline.inputs.required == ("topic",)
    assert SyncRunner().run(offline, topic="tea")["draft"] == "<tea>"
    copied = pickle.loads(pickle.dumps(write.with_function(fake_draft)))
    assert copied.has_default_for("comment")
    assert SyncRunner().run(Graph([copied]), topic="tea")["draft"] == "tea "
    assert write.with_function(lambda topic, comment="!": topic + comment).get_default_for("comment") == "!"


def fake_draft(topic: str, comment: str) -> str:
    return f"{topic} {comment}"


def test_a_node_without_a_default_does_not_replace_one_with_a_default() -> None:
    other = FunctionNode(fake_draft, "write", "draft")
    graph = Graph([write, review, good], name="letters")
    with pytest.raises(GraphConfigError, match="its defaults differ: the replacement has none for comment"):
        graph.replace({"write": other})
    bound = Graph([write], name="drafts").bind(comment="!").replace({"write": other})
    assert SyncRunner().run(bound, topic="tea")["draft"] == "tea !"
