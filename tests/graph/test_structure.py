"""The structure of a graph as plain data: complete, JSON only, without values."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any, Literal, NewType

from hypothesis import assume, given, settings
from hypothesis import strategies as st
from support.making import make
from support.random_graphs import KINDS, random_case

from hypergraph import END, Graph, ifelse, interrupt, node, route
from hypergraph.graph.structure import Structure, structure_of, type_text


def node_of(graph: Graph, name: str) -> Structure:
    """Return the entry of a node."""
    return next(entry for entry in structure_of(graph)["nodes"] if entry["name"] == name)


@given(st.integers(0, 2**32))
@settings(max_examples=80)
def test_the_structure_of_any_graph_is_json_and_has_every_node_and_edge(seed: int) -> None:
    case = random_case(Random(seed), (*KINDS, "interrupt"))
    assume(case is not None)
    assert case is not None
    graph = case.ready_graph()
    found = structure_of(graph)
    assert json.loads(json.dumps(found)) == found
    assert [entry["name"] for entry in found["nodes"]] == list(graph.nodes)
    assert [(e["source"], e["target"], e["type"], tuple(e["values"])) for e in found["edges"]] == [
        (e.source, e.target, e.edge_type, e.value_names) for e in graph.edges
    ]
    assert found["inputs"]["bound"] == list(case.bound)
    for entry, made in zip(found["nodes"], graph.iter_nodes(), strict=True):
        assert (entry["inputs"], entry["outputs"]) == (list(made.inputs), list(made.data_outputs))
        assert [*entry["outputs"], *entry["emit"]] == list(made.outputs)
        assert entry["optional"] == [param for param in made.inputs if made.has_default_for(param)]


def test_a_function_is_told_with_its_ends_types_and_defaults() -> None:
    @node(output_name="text", emit="fetched", wait_for="ready", hide=True)
    def fetch(url: str, tries: int = 3, note=None) -> list[str] | None: ...

    graph = Graph([make("start", emit="ready"), fetch], name="reading")
    assert node_of(graph, "fetch") == {
        "name": "fetch",
        "kind": "function",
        "inputs": ["url", "tries", "note"],
        "outputs": ["text"],
        "emit": ["fetched"],
        "wait_for": ["ready"],
        "hidden": True,
        "optional": ["tries", "note"],
        "types": {"inputs": {"url": "str", "tries": "int"}, "outputs": {"text": "list[str] | None"}},
    }
    assert structure_of(graph)["inputs"] == {
        "required": ["url"],
        "optional": ["tries", "note"],
        "bound": [],
        "entrypoints": {},
    }


def test_a_route_is_told_with_its_targets_and_what_they_mean() -> None:
    @route(targets={"b": "better", END: "good enough"}, default_open=False)
    def judge(x: int) -> Any: ...

    found = node_of(Graph([make("b", "x"), judge]), "judge")
    assert (found["kind"], found["targets"], found["outputs"]) == ("gate", ["b", "END"], [])
    assert found["labels"] == {"b": "better", "END": "good enough"}
    assert (found["multi_target"], found["default_open"], found["ifelse"]) == (False, False, False)


def test_the_first_target_of_an_ifelse_is_the_one_for_true() -> None:
    @ifelse(when_true="a", when_false=END)
    def good(x: int) -> bool: ...

    found = node_of(Graph([make("a", "x"), good]), "good")
    assert (found["ifelse"], found["targets"], found["labels"]) == (True, ["a", "END"], {})


def test_an_interrupt_is_told_as_one() -> None:
    @interrupt(output_name="answer")
    def ask(question: str) -> None: ...

    assert node_of(Graph([ask]), "ask")["kind"] == "interrupt"


def test_a_nested_graph_stands_whole_inside_its_node() -> None:
    @node(output_name="y")
    def double(x: int, by: int = 2) -> int: ...

    inner = Graph([double], name="inner")
    mapped = inner.as_node(durability="atomic").with_inputs(x="xs").with_outputs(y="ys").map_over("xs")
    found = node_of(Graph([mapped]), "inner")
    assert found["kind"] == "graph"
    assert found["graph"] == structure_of(inner)
    assert found["renamed"] == {"inputs": {"xs": "x"}, "outputs": {"ys": "y"}}
    assert (found["map_over"], found["map_mode"], found["durability"]) == (["xs"], "zip", "atomic")
    assert found["types"] == {"inputs": {"xs": "list[int]", "by": "int"}, "outputs": {"ys": "list[int]"}}
    assert found["optional"] == ["by"]


def test_bound_values_are_named_and_never_told() -> None:
    inner = Graph([make("log", "line", "password")], name="inner").bind(password="hunter2")
    graph = Graph([make("a", "key", out="line"), inner.as_node()]).bind(key="sesame")
    assert structure_of(graph)["inputs"]["bound"] == ["password", "key"]
    assert "hunter2" not in json.dumps(structure_of(graph))
    assert "sesame" not in json.dumps(structure_of(graph))


def test_defaults_are_never_told_either() -> None:
    assert "sesame" not in json.dumps(structure_of(Graph([make("a", "key='sesame'")])))


def test_selection_entry_points_and_declared_edges_are_told() -> None:
    nodes = [make("a", "x", out="y"), make("b", "y", out="z")]
    plain = structure_of(Graph(nodes))
    assert (plain["selected"], plain["entrypoints"], plain["explicit"]) == (None, None, False)
    chosen = structure_of(Graph(nodes, edges=[("a", "b")]).with_entrypoint("b").select("z"))
    assert (chosen["selected"], chosen["entrypoints"], chosen["explicit"]) == (["z"], ["b"], True)


def test_cycles_are_told_over_all_ways_and_over_those_of_values() -> None:
    @route(targets=["a", END])
    def again(y: int) -> Any: ...

    driven = structure_of(Graph([make("a", "x", out="y"), again]))
    assert (driven["cycles"], driven["value_cycles"]) == ([["a", "again"]], [])
    turning = structure_of(Graph([make("a", "x", out="y"), make("b", "y", out="x")]))
    assert turning["cycles"] == turning["value_cycles"] == [["a", "b"]]


def test_the_structure_is_made_once_per_graph() -> None:
    graph = Graph([make("a", "x")])
    assert structure_of(graph) is structure_of(graph) is graph.memo["structure"]


def test_very_deep_nesting_is_cut_rather_than_unwritable() -> None:
    graph = Graph([make("a", "x")], name="g")
    for level in range(400):
        graph = Graph([graph.as_node(name=f"level{level}")], name="g")
    found = structure_of(graph)
    assert found["nodes"][0]["graph"] is None
    assert found["nodes"][0]["inputs"] == ["x"]
    assert json.loads(json.dumps(found)) == found


def test_a_graph_that_contains_itself_twice_over_and_over_is_cut_too() -> None:
    graph = Graph([make("a", "x", out="y")], name="g")
    for _ in range(30):
        left, right = graph.as_node(name="left"), graph.as_node(name="right")
        graph = Graph([left.with_outputs(y="u"), right.with_outputs(y="y")], name="g").select("y")
    assert len(json.dumps(structure_of(graph))) < 2**20


def test_the_text_of_a_type_does_not_depend_on_the_module_of_a_class() -> None:
    def texts(module: str) -> list[str | None]:
        offer, inner = type("Offer", (), {"__module__": module}), type("In", (), {"__module__": module})
        inner.__qualname__ = "Offer.In"
        Cents = NewType("Cents", int)
        Cents.__module__ = module
        hints: list[Any] = [offer, list[offer], dict[str, inner | None], tuple[Cents, ...]]
        hints += [Callable[[offer], inner], Cents]
        return [type_text(hint) for hint in hints]

    assert texts("__main__") == texts("app.desk")
    assert texts("desk")[1:4] == ["list[Offer]", "dict[str, Offer.In | None]", "tuple[Cents, ...]"]
    assert type_text(Literal["desk.Offer", "__main__.Offer"]) == "Literal['desk.Offer', '__main__.Offer']"
