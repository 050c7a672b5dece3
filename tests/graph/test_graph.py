"""Graph: inferred and explicit edges, immutable copies, descriptions and networkx graphs."""

import copy
import pickle
import sys
from itertools import permutations
from typing import Any

import networkx
import pytest
from support.making import make

from hypergraph import END, FunctionNode, Graph, GraphConfigError, chain, ifelse, interrupt, node, route


@node(output_name="b_out")
def increment(a_out: int) -> int:
    return a_out + 1


def edges_of(graph: Graph) -> list[tuple[str, str, str, tuple[str, ...]]]:
    return [(e.source, e.target, e.edge_type, e.value_names) for e in graph.edges]


# -- inferred edges ---


def test_equal_names_make_a_data_edge() -> None:
    assert edges_of(Graph([make("a", "x"), increment])) == [("a", "increment", "data", ("a_out",))]


def test_several_values_between_one_pair_share_an_edge() -> None:
    graph = Graph([make("a", out=("p", "q", "r")), make("b", "q", "p")])
    assert edges_of(graph) == [("a", "b", "data", ("q", "p"))]


def test_the_first_listed_producer_gets_the_edge() -> None:
    gate = ifelse("a", "b", name="gate")(lambda x: True)
    graph = Graph([gate, make("a", out="v"), make("b", out="v"), make("c", "v")])
    assert [e for e in edges_of(graph) if e[2] == "data"] == [("a", "c", "data", ("v",))]


def test_a_node_may_feed_itself() -> None:
    graph = Graph([make("a", "v", out="v")])
    assert edges_of(graph) == [("a", "a", "data", ("v",))]
    assert graph.has_cycles


def test_control_edges_lead_to_every_target_but_end() -> None:
    gate = route(targets=["a", "b", END], name="gate")(lambda x: END)
    graph = Graph([gate, make("a"), make("b")])
    assert edges_of(graph) == [("gate", "a", "control", ()), ("gate", "b", "control", ())]
    assert graph.controlled_by == {"a": ["gate"], "b": ["gate"]}


def test_ordering_edges_stand_only_where_nothing_else_joins_the_pair() -> None:
    first = make("a", emit="done")
    gate = route(targets=["c"], name="gate", emit="chosen")(lambda x: "c")
    waiting = make("b", "x", wait_for=("done", "a_out"))
    fed = make("c", "a_out", wait_for=("done", "chosen"))
    assert edges_of(Graph([first, gate, waiting, fed])) == [
        ("a", "c", "data", ("a_out",)),
        ("gate", "c", "control", ()),
        ("a", "b", "ordering", ("done", "a_out")),
    ]


def test_a_node_gets_no_ordering_edge_to_itself() -> None:
    graph = Graph(
        [make("a", wait_for="a_out"), make("b", out="a_out", wait_for="c_out"), make("c")], edges=[]
    )
    assert ("a", "a") not in {(e.source, e.target) for e in graph.edges}


# -- explicit edges ---


def test_a_pair_carries_the_common_names_in_target_order() -> None:
    graph = Graph([make("a", out=("p", "q", "r")), make("b", "q", "p")], edges=[("a", "b")])
    assert edges_of(graph) == [("a", "b", "data", ("q", "p"))]


def test_a_pair_without_common_names_only_orders() -> None:
    graph = Graph([make("a"), make("b")], edges=[("a", "b")])
    assert graph.nx_graph.edges["a", "b"] == {"edge_type": "ordering", "value_names": []}


def test_a_triple_carries_the_named_values() -> None:
    nodes = [make("a", out=("p", "q")), make("b", "p", "q")]
    for values in ("q", ["q"], ("q",)):
        graph = Graph(nodes, edges=[("a", "b", values)])
        assert edges_of(graph) == [("a", "b", "data", ("q",))]
        assert graph.inputs.required == ("p",)


def test_ends_are_names_or_nodes() -> None:
    a, b = make("a"), make("b", "a_out")
    assert edges_of(Graph([a, b], edges=[(a, b)])) == edges_of(Graph([a, b], edges=[("a", "b")]))


def test_inference_is_off_but_gates_and_waiting_still_join() -> None:
    nodes = [
        make("a", emit="done"),
        make("b", "a_out", wait_for="done"),
        route(targets=["a"], name="g")(lambda a_out: "a"),
    ]
    assert edges_of(Graph(nodes, edges=[])) == [("g", "a", "control", ()), ("a", "b", "ordering", ("done",))]


def test_a_declared_order_between_gate_and_target_is_control() -> None:
    graph = Graph([route(targets=["a"], name="g")(lambda x: "a"), make("a")], edges=[("g", "a")])
    assert edges_of(graph) == [("g", "a", "control", ())]


def test_edges_that_join_the_same_pair_are_one() -> None:
    graph = Graph(
        [make("a", out=("p", "q")), make("b", "p", "q")],
        edges=[("a", "b", "p"), ("a", "b", "q"), ("a", "b", [])],
    )
    assert edges_of(graph) == [("a", "b", "data", ("p", "q"))]


def test_chain_joins_a_row_and_may_end() -> None:
    a, b = make("a"), make("b", "a_out")
    assert chain(a, "b", END) == [("a", "b"), ("b", END)]
    assert edges_of(Graph([a, b], edges=chain(a, b, END))) == [("a", "b", "data", ("a_out",))]


def test_chain_refuses_what_is_no_row() -> None:
    with pytest.raises(ValueError, match="at least two"):
        chain("a")
    with pytest.raises(ValueError, match="END can only be the last"):
        chain("a", END, "b")


@pytest.mark.parametrize(
    ("edges", "fragment"),
    [
        ([("a",)], "2-tuple or 3-tuple"),
        (["ab"], "2-tuple or 3-tuple"),
        ([None], "2-tuple or 3-tuple"),
        (5, "2-tuple or 3-tuple"),
        ([("aa", "b")], "unknown source 'aa'"),
        ([("nope", END)], "unknown source 'nope'"),
        ([(END, "b")], "unknown source END"),
        ([("a", "bb")], "unknown target 'bb'"),
        ([("a", ["b"])], r"unknown target \['b'\]"),
        ([("a", "b", "nope")], "'nope' is not an output of 'a'"),
        ([("a", "b", "extra")], "'extra' is not an input of 'b'"),
        ([("a", "b", [["a_out"]])], "is not an output of 'a'"),
        ([("a", "b", 5)], "the values must be"),
    ],
)
def test_mistakes_in_edges_are_findings(edges: Any, fragment: str) -> None:
    nodes = [make("a", out=("a_out", "extra")), make("b", "a_out")]
    with pytest.raises(GraphConfigError, match=fragment):
        Graph(nodes, edges=edges)


def test_mistakes_in_edges_suggest_close_names() -> None:
    with pytest.raises(GraphConfigError, match="Did you mean 'increment'"):
        Graph([make("a"), increment], edges=[("a", "incremnt")])


# -- members ---


def test_nodes_is_a_copy_in_construction_order() -> None:
    graph = Graph([make("b"), make("a")], name="g")
    graph.nodes.clear()
    assert list(graph.nodes) == ["b", "a"] == [n.name for n in graph.iter_nodes()]
    assert (graph.name, graph.strict_types) == ("g", False)


def test_outputs_are_unique_and_in_node_order() -> None:
    gate = ifelse("a", "b", name="gate")(lambda x: True)
    graph = Graph([gate, make("a", out=("v", "w"), emit="done"), make("b", out="v"), make("c", "w")])
    assert graph.outputs == ("v", "w", "done", "c_out")
    assert graph.leaf_outputs == ("v", "c_out")


def test_producers_are_listed() -> None:
    gate = ifelse("a", "b", name="gate")(lambda x: True)
    graph = Graph([gate, make("a", out=("v", "w")), make("b", out="v")])
    assert graph.self_producers == {"v": {"a", "b"}, "w": {"a"}}
    assert graph.sole_producers == {"w": "a"}


def test_kinds_of_nodes_are_noticed_at_the_right_depth() -> None:
    async def wait(x): ...

    ask = interrupt("answer")(lambda question: None).with_name("ask")
    graph = Graph([Graph([FunctionNode(wait, output_name="y"), ask], name="inner").as_node()])
    assert (graph.has_async_nodes, graph.has_interrupts, graph.interrupt_nodes) == (True, True, [])
    assert [n.name for n in next(graph.iter_nodes()).nested_graph.interrupt_nodes] == ["ask"]
    plain = Graph([make("a")])
    assert (plain.has_async_nodes, plain.has_interrupts, plain.has_cycles) == (False, False, False)


def test_edges_of_every_type_make_a_cycle() -> None:
    loop = [make("a", "x"), route(targets=["a", END], name="g")(lambda a_out: END)]
    waiting = [make("a", wait_for="b_out"), make("b", wait_for="a_out")]
    assert Graph(loop).has_cycles
    assert Graph(waiting).has_cycles


def test_a_cycle_is_one_in_whatever_order_its_producers_are_listed() -> None:
    nodes = [
        make("start", out=("state", "begun")),
        make("step", "state", "begun", out="state"),
        route(targets=["step", END], name="gate")(lambda state: END),
    ]
    for order in permutations(nodes):
        graph = Graph(order)
        assert graph.has_cycles
        assert sorted(graph.wiring.cycles[0]) == ["gate", "step"]


def test_an_empty_graph_is_a_graph() -> None:
    graph = Graph([])
    assert (graph.outputs, graph.inputs.all, graph.has_cycles) == ((), (), False)
    assert graph.describe() == "# unnamed\n\nInputs: none\nOutputs: none\nNodes: none"


@pytest.mark.parametrize(
    ("thing", "hint"),
    [
        (len, "decorate it"),
        (3, "pass functions decorated with @node"),
        (Graph([], name="g"), "as_node"),
    ],
)
def test_what_is_no_node_is_refused(thing: Any, hint: str) -> None:
    with pytest.raises(TypeError, match=f"not a node; .*{hint}"):
        Graph([thing])


def test_a_node_without_its_list_is_refused_with_the_remedy() -> None:
    with pytest.raises(TypeError, match=r"takes a list of nodes, got FunctionNode.*; write Graph\(\["):
        Graph(make("a", "x"))  # type: ignore[arg-type]


def test_a_graph_name_is_text() -> None:
    with pytest.raises(TypeError, match="name of a graph must be a string, got int 3"):
        Graph([], name=3)  # type: ignore[arg-type]


def test_graphs_refuse_assignment() -> None:
    with pytest.raises(AttributeError, match="immutable"):
        Graph([]).name = "x"


# -- bind, select, entry points ---


@pytest.fixture
def graph() -> Graph:
    return Graph([make("a", "x", emit="done"), make("b", "a_out", "y=2"), make("c", "b_out")], name="g")


def test_bind_fills_inputs_and_outputs_and_later_binds_win(graph: Graph) -> None:
    bound = graph.bind(x=1, a_out=2).bind(x=None)
    assert bound.bound == bound.inputs.bound == {"x": None, "a_out": 2}
    assert graph.bound == {}
    assert graph.bind().bound == {}


def test_bind_refuses_unknown_and_emit_names(graph: Graph) -> None:
    with pytest.raises(ValueError, match=r"'b_ot': not a graph input or output\. Did you mean 'b_out'"):
        graph.bind(b_ot=1)
    with pytest.raises(ValueError, match="'done': an emit name"):
        graph.bind(done=1)


def test_an_input_called_self_can_be_bound() -> None:
    assert Graph([make("a", "self")]).bind(self=1).bound == {"self": 1}


def test_unbind_ignores_unknown_keys(graph: Graph) -> None:
    assert graph.bind(x=1, y=2).unbind("x", "nope").bound == {"y": 2}


def test_the_bound_values_cannot_be_changed_through_the_copy(graph: Graph) -> None:
    bound = graph.bind(x=1)
    bound.bound["x"] = 2
    assert bound.bound == {"x": 1}


def test_select_replaces_and_narrows(graph: Graph) -> None:
    selected = graph.select("c_out").select("b_out", "a_out")
    assert selected.selected == ("b_out", "a_out")
    assert graph.selected is None
    assert graph.select("a_out").inputs.all == ("x",)
    assert selected.select().selected is None


def test_select_refuses_unknown_repeated_and_emit_names(graph: Graph) -> None:
    for names in (("nope",), ("done",), ("x",), (["a_out"],)):
        with pytest.raises(ValueError, match="not graph outputs"):
            graph.select(*names)
    with pytest.raises(ValueError, match="unique output names"):
        graph.select("a_out", "a_out")


def test_entry_points_add_up(graph: Graph) -> None:
    entered = graph.with_entrypoint("c").with_entrypoint("b", "c")
    assert entered.entrypoints_config == ("c", "b")
    assert graph.entrypoints_config is None
    assert graph.with_entrypoint("c").inputs.all == ("b_out",)


def test_entry_points_are_nodes_but_no_gates(graph: Graph) -> None:
    with pytest.raises(GraphConfigError, match="Unknown entry point 'nope'"):
        graph.with_entrypoint("nope")
    with pytest.raises(GraphConfigError, match="Unknown entry point"):
        graph.with_entrypoint(["b"])  # type: ignore[arg-type]
    gated = graph.add_nodes(route(targets=["c"], name="g")(lambda b_out: "c"))
    with pytest.raises(GraphConfigError, match="is a gate"):
        gated.with_entrypoint("g")


def test_add_nodes_keeps_bind_and_select_and_drops_entry_points(graph: Graph) -> None:
    grown = graph.bind(x=1, a_out=5).select("b_out").with_entrypoint("b").add_nodes(make("d", "c_out"))
    assert list(grown.nodes) == ["a", "b", "c", "d"]
    assert (grown.bound, grown.selected, grown.entrypoints_config) == ({"x": 1, "a_out": 5}, ("b_out",), None)
    assert grown.name == "g"
    assert graph.add_nodes() is graph


def test_add_nodes_keeps_strict_types() -> None:
    with pytest.raises(GraphConfigError, match="Missing type annotation"):
        Graph([increment], strict_types=True).add_nodes(make("c", "b_out"))


def test_add_nodes_refuses_explicit_edges() -> None:
    with pytest.raises(GraphConfigError, match="Cannot use add_nodes"):
        Graph([make("a")], edges=[]).add_nodes(make("b"))


def test_add_nodes_refuses_to_turn_a_bound_input_into_an_output(graph: Graph) -> None:
    with pytest.raises(ValueError, match=r"no longer valid.*produced by \['source'\].*unbind"):
        graph.bind(x=1).add_nodes(make("source", out="x"))


# -- looking at it ---


def test_nx_graph_is_what_users_of_networkx_expect(graph: Graph) -> None:
    network = graph.nx_graph
    assert isinstance(network, networkx.DiGraph)
    assert network.number_of_nodes() == 3
    assert network.number_of_edges() == 2
    assert network.has_edge("a", "b")
    assert network.get_edge_data("a", "b") == {"edge_type": "data", "value_names": ["a_out"]}
    assert [*network.in_edges("b")] == [("a", "b")]
    assert network.out_degree("c") == 0
    assert network.nodes["a"] == {**graph.nodes["a"].nx_attrs, "parent": None}


def test_flat_graph_has_all_levels() -> None:
    inner = Graph([make("a", "x"), make("b", "a_out", "y=1")], name="inner").bind(x=1)
    flat = Graph([inner.as_node(), make("c", "b_out", "z")]).to_flat_graph()
    assert list(flat.nodes) == ["inner", "c", "inner/a", "inner/b"]
    assert (flat.nodes["inner/a"]["parent"], flat.nodes["inner/a"]["original_name"]) == ("inner", "a")
    assert flat.nodes["c"]["parent"] is None
    assert list(flat.edges) == [("inner", "c"), ("inner/a", "inner/b")]
    assert flat.graph["input_spec"] == {
        "required": ("z",),
        "optional": ("x", "y"),
        "bound": {"x": 1},
        "entrypoints": {},
    }
    assert flat.graph["output_to_sources"] == {"a_out": ["inner"], "b_out": ["inner"], "c_out": ["c"]}


def test_networkx_is_needed_for_networks_only(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "networkx", None)
    for look in (lambda: graph.nx_graph, graph.to_flat_graph):
        with pytest.raises(ImportError, match=r"hypergraph\[viz\]"):
            look()
    assert graph.describe()
    assert graph.definition_hash
    assert graph.with_entrypoint("b").inputs.all


def test_describe_joins_a_chain_by_arrows() -> None:
    @node(output_name="n")
    def size(text: str, unit: int = 1) -> int:
        return len(text) // unit

    @node(output_name="ok")
    def enough(n: int, limit: float | None) -> bool:
        return True

    graph = Graph([enough, size], name="check").bind(unit=2)
    assert graph.describe() == (
        "# check\n\n"
        "Inputs:\n"
        "  required: limit (float | None), text (str)\n"
        "  bound: unit (int)\n"
        "Outputs: n (int) → ok (bool)\n"
        "Nodes: size → enough"
    )
    assert graph.describe(show_types=False).splitlines()[-2:] == ["Outputs: n → ok", "Nodes: size → enough"]


def test_describe_joins_anything_else_by_commas() -> None:
    graph = Graph([make("a", "x", "w=1"), make("b", "a_out"), make("c", "a_out")])
    assert graph.describe() == (
        "# unnamed\n\nInputs:\n  required: x\n  optional: w\nOutputs: a_out, b_out, c_out\nNodes: a, b, c"
    )
    assert graph.select("b_out").describe().splitlines()[-2:] == ["Outputs: b_out", "Nodes: a → b"]


def test_describe_lists_entries_of_cycles() -> None:
    graph = Graph([make("a", "v", out="w"), make("b", "w", out="v")])
    assert "Inputs:\n  entrypoint[a]: v\n  entrypoint[b]: w\n" in graph.describe()
    assert graph.describe().endswith("Nodes: a, b")


def test_repr_says_how_much_there_is(graph: Graph) -> None:
    assert repr(graph) == "Graph(g, 3 nodes, outputs=('a_out', 'done', 'b_out', 'c_out'))"
    assert repr(Graph([make("a", "x")])) == "Graph(unnamed, 1 node, outputs=('a_out',))"


# -- copies and pickles ---


@route(targets=["increment", END])
def again(b_out):
    return END


@node(output_name="a_out")
def start(x: int, names: tuple[str, ...] = ("a",)) -> int:
    return x


@pytest.fixture
def picklable() -> Graph:
    inner = Graph([start.with_inputs(x="begin")], name="inner").bind(begin=4)
    return Graph([inner.as_node(lift="a_out"), increment.with_name("increment"), again]).select("b_out")


def test_copies_of_nodes_and_graphs_are_themselves(picklable: Graph) -> None:
    for thing in (picklable, start, again, next(picklable.iter_nodes())):
        assert copy.copy(thing) is thing
        assert copy.deepcopy([thing])[0] is thing


def test_graphs_of_decorated_functions_survive_pickling(picklable: Graph) -> None:
    assert picklable.definition_hash
    assert picklable.nx_graph
    back = pickle.loads(pickle.dumps(picklable))
    assert back.definition_hash == picklable.definition_hash
    assert (back.inputs, back.selected, back.edges) == (picklable.inputs, ("b_out",), picklable.edges)
    assert back.nodes["increment"].func is increment.func
    assert back.nodes["again"].targets == ["increment", END]


def test_nodes_around_plain_functions_survive_pickling() -> None:
    made = FunctionNode(edges_of, output_name="y", rename_inputs={"graph": "g"}, timeout=3)
    back = pickle.loads(pickle.dumps(made))
    assert (back.func, back.inputs, back.timeout, back.signature) == (edges_of, ("g",), 3, made.signature)
    assert back.with_inputs(g="h").inputs == ("h",)


def test_a_node_around_a_lambda_says_why_it_cannot_be_pickled() -> None:
    with pytest.raises((pickle.PicklingError, AttributeError), match="lambda"):
        pickle.dumps(FunctionNode(lambda x: x, "f", "y"))


def test_the_error_of_a_broken_graph_survives_pickling() -> None:
    with pytest.raises(GraphConfigError) as caught:
        Graph([make("a"), make("a")], name="x.y")
    back = pickle.loads(pickle.dumps(caught.value))
    assert (str(back), back.findings) == (str(caught.value), caught.value.findings)
    assert len(back.findings) == 2
