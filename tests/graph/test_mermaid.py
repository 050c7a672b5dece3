"""Boxes and arrows of graphs, and Mermaid source that no user text can break."""

import re
from collections.abc import Callable, Iterable
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hypergraph import viz
from hypergraph.graph import Graph
from hypergraph.graph.drawing import KINDS, draw
from hypergraph.graph.mermaid import MermaidDiagram
from hypergraph.nodes import END, FunctionNode, IfElseNode, InterruptNode, RouteNode, interrupt, node

LABEL = r'"((?:[^"#`|<>\[\]{};\n]|#\d+;|<br/>)*)"'
BOX = re.compile(rf"(n\d+)(\[\[|\[|\(\[|\(\(|\(|\{{\{{|\{{){LABEL}(?:\]\]|\]|\]\)|\)\)|\)|\}}\}}|\}})")
ARROW = re.compile(rf"(n\d+) (-->|==>|-\.->)(?:\|{LABEL}\|)? (n\d+)")
SUBGRAPH = re.compile(rf"subgraph (n\d+)\[{LABEL}\]")
STYLE = re.compile(r"classDef kind_\w+ fill:[#\w]+(,[\w-]+:[#\w ]+)*|class n\d+(,n\d+)* kind_\w+")


def read(diagram: MermaidDiagram) -> tuple[dict[str, str], list[tuple[str, str, str, str]]]:
    """Read the source back: the label of each id, the arrows. Every line must have a known form."""
    first, *lines = str(diagram).split("\n")
    assert re.fullmatch("flowchart (TD|TB|LR|RL|BT)", first)
    labels: dict[str, str] = {}
    arrows = []
    open_subgraphs = 0
    for line in map(str.strip, lines):
        if found := SUBGRAPH.fullmatch(line):
            open_subgraphs += 1
            assert found[1] not in labels
            labels[found[1]] = found[2]
        elif line == "end":
            open_subgraphs -= 1
        elif found := BOX.fullmatch(line):
            assert found[1] not in labels
            labels[found[1]] = found[3]
        elif found := ARROW.fullmatch(line):
            arrows.append((found[1], found[2], found[3] or "", found[4]))
        else:
            assert STYLE.fullmatch(line), line
    assert open_subgraphs == 0
    assert {end for arrow in arrows for end in (arrow[0], arrow[3])} <= labels.keys()
    return labels, arrows


def arrows_of(graph: Graph, **options: Any) -> set[tuple[str, str, str, str]]:
    """Return (source, type, labels, target) of each arrow, boxes by label; value boxes in brackets."""
    drawing = draw(graph, **options)
    names = {
        box["id"]: f"[{box['label']}]"
        if box["kind"] in ("input", "optional", "bound", "entry", "output")
        else box["label"]
        for box in drawing["nodes"]
    }
    return {
        (names[arrow["source"]], arrow["type"], ",".join(arrow["labels"]), names[arrow["target"]])
        for arrow in drawing["edges"]
    }


def kinds_of(graph: Graph, **options: Any) -> dict[str, str]:
    return {box["label"]: box["kind"] for box in draw(graph, **options)["nodes"]}


def step(name: str, inputs: Iterable[str], outputs: Any = None, **options: Any) -> FunctionNode:
    """Return a node that is all names."""
    return FunctionNode(function(inputs), name, outputs, **options)


def function(inputs: Iterable[str]) -> Callable[..., Any]:
    return eval(f"lambda {', '.join(inputs)}: None")


@node(output_name="doubled")
def double(x: int) -> int:
    return 2 * x


@node(output_name="total")
def add(doubled: int, offset: int = 1) -> int:
    return doubled + offset


def loop(**gate_options: Any) -> Graph:
    return Graph(
        [
            step("grow", ["count"], "count"),
            IfElseNode(function(["count"]), "grow", END, name="more", **gate_options),
        ],
        name="loop",
    )


# --- boxes and arrows ---------------------------------------------------------------------------


def test_values_lead_from_inputs_through_nodes() -> None:
    assert arrows_of(Graph([double, add])) == {
        ("[x]", "data", "", "double"),
        ("double", "data", "doubled", "add"),
        ("[offset]", "data", "", "add"),
    }


def test_required_optional_bound_and_entry_values_are_told_apart() -> None:
    assert kinds_of(Graph([double, add])) == {
        "double": "function",
        "add": "function",
        "x": "input",
        "offset": "optional",
    }
    assert kinds_of(Graph([double, add]).bind(x=1))["x"] == "bound"
    assert kinds_of(loop())["count"] == "entry"
    assert kinds_of(loop().bind(count=0))["count"] == "bound"


def test_a_bound_value_is_not_shown() -> None:
    assert "secret" not in Graph([double]).bind(x="secret").to_mermaid()


def test_several_values_between_two_nodes_share_an_arrow() -> None:
    graph = Graph([step("a", [], ("x", "y")), step("b", ["y", "x"])])
    assert arrows_of(graph) == {("a", "data", "y,x", "b")}


def test_every_producer_of_a_value_leads_to_its_taker() -> None:
    gate = IfElseNode(function(["flag"]), "a", "b", name="gate")
    graph = Graph([gate, step("a", [], "x"), step("b", [], "x"), step("c", ["x"])])
    assert {("a", "data", "x", "c"), ("b", "data", "x", "c")} <= arrows_of(graph)


def test_an_ordering_arrow_is_dotted_and_bears_the_awaited_name() -> None:
    graph = Graph([step("a", [], emit="done"), step("b", [], wait_for="done")])
    assert arrows_of(graph) == {("a", "ordering", "done", "b")}
    assert 'n0 -.->|"done"| n1' in graph.to_mermaid()


def test_a_gate_is_a_diamond_with_one_arrow_per_branch() -> None:
    assert ("more", "control", "True", "grow") in arrows_of(loop())
    assert ("more", "control", "False", "END") in arrows_of(loop())
    source = loop().to_mermaid()
    assert 'n1{"more"}' in source
    assert re.search(r'n\d+\(\("END"\)\)', str(source))
    assert 'n1 ==>|"True"| n0' in source


def test_a_route_bears_its_descriptions() -> None:
    gate = RouteNode(function(["x"]), {"a": "when small", END: ""}, fallback="b", name="gate")
    assert {
        arrow for arrow in arrows_of(Graph([gate, step("a", []), step("b", [])])) if arrow[0] == "gate"
    } == {
        ("gate", "control", "when small", "a"),
        ("gate", "control", "", "END"),
        ("gate", "control", "", "b"),
    }


def test_gates_of_one_graph_share_its_end() -> None:
    gates = [IfElseNode(function(["x"]), "a", END, name=name) for name in ("g", "h")]
    assert [box["kind"] for box in draw(Graph([*gates, step("a", [])]))["nodes"]].count("end") == 1


def test_a_node_that_feeds_itself_has_an_arrow_to_itself() -> None:
    assert ("grow", "data", "count", "grow") in arrows_of(loop())


def test_refining_a_value_is_not_drawn_as_a_loop() -> None:
    graph = Graph([step("a", [], ("x", "k")), step("b", ["x", "k"], "x"), step("c", ["x"])])
    assert arrows_of(graph) == {("a", "data", "x,k", "b"), ("a", "data", "x", "c"), ("b", "data", "x", "c")}


def test_an_interrupt_is_a_hexagon() -> None:
    @interrupt(output_name="verdict")
    def review(draft: str) -> str | None: ...

    assert '{{"review<br/>out: verdict"}}' in Graph([review]).to_mermaid()


def test_nodes_before_the_entry_points_are_left_out() -> None:
    assert arrows_of(Graph([double, add]).with_entrypoint("add")) == {
        ("[doubled]", "data", "", "add"),
        ("[offset]", "data", "", "add"),
    }


def test_a_selection_leaves_no_node_out_because_all_run() -> None:
    graph = Graph([double, step("other", ["y"], "z")]).select("doubled")
    assert kinds_of(graph) == {"double": "function", "other": "function", "x": "input", "y": "optional"}


def test_explicit_edges_are_drawn_as_declared() -> None:
    graph = Graph([step("a", [], "x"), step("b", [], "y"), step("c", ["x"])], edges=[("a", "c"), ("b", "c")])
    assert arrows_of(graph) == {("a", "data", "x", "c"), ("b", "ordering", "", "c")}


def test_the_empty_graph_is_an_empty_diagram() -> None:
    assert str(Graph([]).to_mermaid()) == "flowchart TD"


# --- hidden nodes -------------------------------------------------------------------------------


def test_arrows_bridge_hidden_nodes() -> None:
    hidden = [step("h1", ["x"], "y", hide=True), step("h2", ["y"], "z", hide=True)]
    assert arrows_of(Graph([step("a", ["i"], "x"), *hidden, step("b", ["z"])])) == {
        ("[i]", "data", "", "a"),
        ("a", "data", "z", "b"),
    }


def test_a_bridge_is_as_weak_as_its_weakest_step() -> None:
    hidden = step("h", ["x"], emit="done", hide=True)
    assert ("a", "ordering", "done", "b") in arrows_of(
        Graph([step("a", [], "x"), hidden, step("b", [], wait_for="done")])
    )
    assert arrows_of(loop(hide=True)) >= {
        ("grow", "data", "count", "grow"),
        ("grow", "control", "False", "END"),
    }


def test_an_input_goes_on_to_what_follows_a_hidden_node() -> None:
    graph = Graph([step("h", ["x"], "y", hide=True), step("b", ["y"])])
    assert arrows_of(graph) == {("[x]", "data", "y", "b")}


def test_an_input_that_only_ends_in_hidden_nodes_is_hidden() -> None:
    assert kinds_of(Graph([double, step("sink", ["doubled", "path"], hide=True)])) == {
        "double": "function",
        "x": "input",
    }


def test_an_end_that_only_hidden_gates_reach_is_hidden() -> None:
    gate = IfElseNode(function([]), "a", END, name="gate", hide=True)
    assert kinds_of(Graph([gate, step("a", [])])) == {"a": "function"}


def test_hidden_nodes_in_a_cycle_leave_a_loop() -> None:
    cycle = [step("a", ["z"], "x"), step("h", ["x"], "y", hide=True), step("k", ["y"], "z", hide=True)]
    assert ("a", "data", "z", "a") in arrows_of(Graph(cycle))


def test_a_cycle_of_hidden_nodes_only_is_nothing() -> None:
    cycle = [step("h", ["y"], "x", hide=True), step("k", ["x"], "y", hide=True)]
    assert draw(Graph(cycle)) == {"name": None, "nodes": [], "edges": []}


# --- nested graphs ------------------------------------------------------------------------------


def nested() -> Graph:
    inner = Graph([double, add], name="inner").as_node().with_inputs(x="start").with_outputs(total="sum")
    middle = Graph([inner], name="middle").as_node()
    return Graph([step("first", [], "start"), middle, step("last", ["sum"])], name="outer")


def test_a_nested_graph_is_one_box_by_default() -> None:
    assert kinds_of(nested()) == {
        "first": "function",
        "middle": "graph",
        "last": "function",
        "offset": "optional",
    }
    assert '[["middle<br/>out: doubled, sum"]]' in nested().to_mermaid()


def test_each_level_of_depth_opens_one_more_level() -> None:
    opened = [[box["label"] for box in draw(nested(), depth=depth)["nodes"]] for depth in range(4)]
    assert "inner" not in opened[0]
    assert "inner" in opened[1]
    assert "double" not in opened[1]
    assert "double" in opened[2]
    assert opened[2] == opened[3]
    assert str(nested().to_mermaid(depth=2)).count("subgraph") == 2


def test_values_lead_to_the_nodes_inside_an_opened_graph() -> None:
    assert arrows_of(nested(), depth=2) == {
        ("first", "data", "start", "double"),
        ("double", "data", "doubled", "add"),
        ("[offset]", "data", "", "add"),
        ("add", "data", "sum", "last"),
    }


def test_boxes_know_their_parent_and_path() -> None:
    boxes = {box["label"]: box for box in draw(nested(), depth=2)["nodes"]}
    assert boxes["double"]["path"] == "middle/inner/double"
    assert boxes["double"]["parent"] == boxes["inner"]["id"]
    assert boxes["first"]["parent"] is None


def test_gates_and_orders_lead_to_the_opened_graph_itself() -> None:
    inner = Graph([step("inside", [], "x")], name="inner").as_node()
    gate = IfElseNode(function(["flag"]), "inner", END, name="gate", emit="decided")
    graph = Graph([gate, inner, step("last", [], wait_for="x")])
    assert ("gate", "control", "True", "inner") in arrows_of(graph, depth=1)
    assert ("inner", "ordering", "x", "last") in arrows_of(graph, depth=1)


def test_a_loop_inside_has_its_own_end_and_entry() -> None:
    graph = Graph([loop().as_node()])
    assert arrows_of(graph, depth=1) == arrows_of(loop())
    parents = {box["label"]: box["parent"] for box in draw(graph, depth=1)["nodes"]}
    assert parents["END"] == parents["grow"] is not None


def test_a_first_value_bound_inside_stays_inside() -> None:
    boxes = {box["kind"]: box for box in draw(Graph([loop().bind(count=0).as_node()]), depth=1)["nodes"]}
    assert boxes["bound"]["parent"] == boxes["graph"]["id"]


def test_a_nested_graph_in_a_loop_is_entered_from_its_own_output() -> None:
    body = Graph([step("grow", ["count"], "count")], name="body").as_node()
    gate = IfElseNode(function(["count"]), "body", END, name="more")
    assert ("grow", "data", "count", "grow") in arrows_of(Graph([body, gate]), depth=1)


def test_a_nested_graph_with_nothing_to_show_stays_a_box() -> None:
    inner = Graph([step("h", ["x"], "y", hide=True)], name="inner").as_node()
    graph = Graph([inner, step("b", ["y"])])
    assert arrows_of(graph, depth=1) == {("[x]", "data", "", "inner"), ("inner", "data", "y", "b")}
    assert "subgraph" not in graph.to_mermaid(depth=1)


def test_arrows_bridge_hidden_nodes_inside() -> None:
    inner = Graph([step("h", ["x"], "y", hide=True), step("b", ["y"], "z")], name="inner").as_node()
    assert ("a", "data", "y", "b") in arrows_of(Graph([step("a", [], "x"), inner]), depth=1)


def test_a_mapped_graph_says_over_what() -> None:
    mapped = Graph([add], name="inner").as_node().map_over("doubled", "offset", mode="product")
    graph = Graph([mapped])
    assert "inner<br/>map_over: doubled, offset (product)" in graph.to_mermaid()
    assert 'subgraph n0["inner<br/>map_over: doubled, offset (product)"]' in graph.to_mermaid(depth=1)
    assert (draw(graph)["nodes"][0]["map_over"], draw(graph)["nodes"][0]["map_mode"]) == (
        ["doubled", "offset"],
        "product",
    )


# --- options ------------------------------------------------------------------------------------


def test_separate_outputs_are_boxes_between_nodes() -> None:
    assert arrows_of(Graph([double, add]), separate_outputs=True) == {
        ("[x]", "data", "", "double"),
        ("double", "data", "", "[doubled]"),
        ("[doubled]", "data", "", "add"),
        ("[offset]", "data", "", "add"),
        ("add", "data", "", "[total]"),
    }
    assert '("total")' in Graph([double, add]).to_mermaid(separate_outputs=True)


def test_a_separate_output_renamed_on_the_way_out_tells_its_new_name() -> None:
    assert ("[total]", "data", "sum", "last") in arrows_of(nested(), depth=2, separate_outputs=True)


def test_types_are_shown_on_demand() -> None:
    @node(output_name="y")
    def typed(x: list[int], mode: Literal["a", "b"], rest: Any, none: None) -> "dict[str, int] | None": ...

    plain, shown = Graph([typed]).to_mermaid(), Graph([typed]).to_mermaid(show_types=True)
    assert "int" not in plain
    for text in ("x: list#91;int#93;", "none: None", "rest: Any", "y: dict#91;str, int#93; #124; None"):
        assert text in shown
    assert "Literal#91;#39;a#39;, #39;b#39;#93;" in shown


def test_a_type_whose_text_fails_is_drawn_all_the_same() -> None:
    class Odd:
        def __repr__(self) -> str:
            raise RuntimeError("no text")

    def take(x: Any) -> None: ...

    take.__annotations__["x"] = list[Odd()]  # type: ignore[misc]
    read(Graph([FunctionNode(take)]).to_mermaid(show_types=True))


@pytest.mark.parametrize("direction", ["TD", "TB", "LR", "RL", "BT"])
def test_the_direction_stands_first(direction: str) -> None:
    assert Graph([double]).to_mermaid(direction=direction).startswith(f"flowchart {direction}\n")


@pytest.mark.parametrize("direction", ["td", "", "TD\n", "TD; x", None, ["TD"]])
def test_another_direction_is_refused(direction: Any) -> None:
    with pytest.raises(ValueError, match="direction"):
        Graph([double]).to_mermaid(direction=direction)


@pytest.mark.parametrize("depth", [-1, 1.0, "1", None, True])
def test_a_depth_that_is_no_count_is_refused(depth: Any) -> None:
    with pytest.raises(ValueError, match="depth"):
        Graph([double]).to_mermaid(depth=depth)


@pytest.mark.parametrize("colour", ["red", "#abc", "#abcd", "#A1B2C3", "#A1B2C3D4"])
def test_a_kind_takes_a_colour(colour: str) -> None:
    assert f"classDef kind_function fill:{colour}," in Graph([double]).to_mermaid(colors={"function": colour})


@pytest.mark.parametrize(
    "colour", ["", "#12", "red;", "red,stroke:blue", "red\n", "url(x)", "rgb(1,2,3)", None, 3]
)
def test_what_is_no_plain_colour_is_refused(colour: Any) -> None:
    with pytest.raises(ValueError, match="colour of 'function'"):
        Graph([double]).to_mermaid(colors={"function": colour})


def test_colours_of_unknown_kinds_are_refused_with_a_hint() -> None:
    with pytest.raises(ValueError, match="Did you mean 'function'"):
        Graph([double]).to_mermaid(colors={"functions": "red"})
    with pytest.raises(ValueError, match=", ".join(KINDS)):
        Graph([double]).to_mermaid(colors={7: "red"})  # type: ignore[dict-item]


# --- the diagram object -------------------------------------------------------------------------


def test_a_diagram_is_its_source() -> None:
    diagram = Graph([double]).to_mermaid()
    assert isinstance(diagram, viz.MermaidDiagram)
    assert str(diagram) == diagram.source
    assert "double" in diagram
    assert "triple" not in diagram
    assert diagram.startswith("flowchart")
    assert diagram == viz.to_mermaid(Graph([double]))


def test_a_notebook_gets_the_diagram_and_its_text() -> None:
    diagram = Graph([double]).to_mermaid()
    assert diagram._repr_mimebundle_() == {
        "text/vnd.mermaid": diagram.source,
        "text/markdown": f"```mermaid\n{diagram.source}\n```",
        "text/plain": diagram.source,
    }


# --- whatever the names and sizes ---------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        'say "hi"',
        "a]b[c",
        "x|y",
        "<b>bold</b>",
        "two\nlines",
        "end",
        "`code`",
        "%%{init: {}}%%",
        "a;b",
        "a--b",
        "\x1b[0m",
        "#quot#",
    ],
)
def test_no_name_can_become_syntax(name: str) -> None:
    inner = Graph([double], name="inner").as_node().with_inputs(x=name).with_outputs(doubled="y")
    gate = RouteNode(function(["y"]), {"last": name, END: name}, name="gate")
    graph = Graph([inner, gate, step("last", [])])
    for depth in (0, 1):
        plain, _ = read(graph.to_mermaid(depth=depth))
        assert plain


def test_ordinary_names_stay_readable() -> None:
    inner = Graph([double], name="x").as_node(name="größe-2 of my_graph")
    assert "größe-2 of my_graph" in Graph([inner]).to_mermaid()


@pytest.mark.slow
def test_a_thousand_nodes_are_drawn() -> None:
    chain = [step(f"s{i}", [f"v{i}", "shared"], f"v{i + 1}", hide=i % 3 == 1) for i in range(1000)]
    labels, arrows = read(Graph(chain).to_mermaid(separate_outputs=True))
    assert len([label for label in labels.values() if label.startswith("s")]) == 667 + 1
    assert len(arrows) == 667 * 3  # to its output, from there to the next, and from the shared value


def test_a_thousand_hidden_nodes_in_a_row_are_bridged() -> None:
    chain = [step(f"s{i}", [f"v{i}"], f"v{i + 1}", hide=0 < i < 999) for i in range(1000)]
    assert ("s0", "data", "v999", "s999") in arrows_of(Graph(chain))


TEXT = st.text(st.characters(codec="utf-8", exclude_characters="./#"), min_size=1, max_size=8)

NAME = st.text(
    st.characters(codec="utf-8", exclude_characters="./#", exclude_categories=["Cc"]), min_size=1, max_size=8
)


@st.composite
def graphs(draw_: Any, levels: int = 2) -> Graph:
    """Draw chains with extra inputs, a loop gate, hidden nodes, odd names and nested graphs."""
    nodes: list[Any] = []
    size = draw_(st.integers(1, 5))
    for i in range(size):
        known = [f"v{j}" for j in range(i)]
        inputs = draw_(st.lists(st.sampled_from([*known, "p", "q"]), unique=True, max_size=3))
        hide = draw_(st.booleans())
        if levels and draw_(st.integers(0, 3)) == 0:
            inner = draw_(graphs(levels - 1))
            name = draw_(
                NAME.filter(lambda text: text.strip() and not re.fullmatch(r"item-\d+|END|[svgh]\d*", text))
            )
            renames = {output: f"w{levels}_{i}_{output}" for output in inner.outputs}
            nodes.append(inner.as_node(name=f"{name} {i}").with_outputs(renames))
        elif draw_(st.integers(0, 4)) == 0:
            nodes.append(InterruptNode(function(inputs), f"s{i}", f"v{i}", hide=hide))
        else:
            nodes.append(step(f"s{i}", inputs, f"v{i}", hide=hide, emit=f"e{i}"))
    targets = {n.name: draw_(TEXT) for n in nodes if draw_(st.booleans())}
    if draw_(st.booleans()):
        gate = RouteNode(function([]), {**targets, END: draw_(TEXT)}, name="g", hide=draw_(st.booleans()))
        nodes.append(gate)
    return Graph(nodes, name="any")


@pytest.mark.slow
@settings(max_examples=60)
@given(graphs(), st.integers(0, 3), st.booleans(), st.booleans())
def test_every_graph_gives_source_of_a_known_form(
    graph: Graph, depth: int, types: bool, separate: bool
) -> None:
    drawing = draw(graph, depth=depth, separate_outputs=separate)
    labels, arrows = read(graph.to_mermaid(depth=depth, show_types=types, separate_outputs=separate))
    assert set(labels) == {box["id"] for box in drawing["nodes"]}
    assert len(arrows) == len(drawing["edges"])
    assert {box["path"] for box in drawing["nodes"]}.isdisjoint(n.name for n in graph.iter_nodes() if n.hide)
