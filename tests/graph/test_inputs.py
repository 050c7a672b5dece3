"""InputSpec: scope, parameters, cycles, bound values."""

from typing import Any

import pytest
from support.making import make

from hypergraph import END, Graph, InputSpec, ifelse, interrupt, route
from hypergraph.graph import compute_input_spec


def spec(*nodes: Any, **options: Any) -> InputSpec:
    return Graph(nodes, **options).inputs


# -- the record ---


def test_all_is_required_then_optional_then_entries_each_once() -> None:
    found = InputSpec(("a", "b"), ("c",), {"n": ("d", "a"), "m": ("d",)}, {"c": 1})
    assert found.all == ("a", "b", "c", "d")


def test_input_spec_is_frozen() -> None:
    with pytest.raises(AttributeError):
        InputSpec().required = ("a",)  # type: ignore[misc]


def test_input_spec_is_computed_once() -> None:
    graph = Graph([make("a", "x")])
    assert graph.inputs is graph.inputs


def test_compute_input_spec_takes_a_graph_with_its_settings_or_others() -> None:
    graph = Graph([make("a", "x"), make("b", "a_out", "y")]).bind(x=1).select("a_out")
    assert compute_input_spec(graph) == graph.inputs
    assert compute_input_spec(graph, bound={}).required == ("x",)
    assert compute_input_spec(graph, selected=["b_out"]).required == ("y",)
    assert compute_input_spec(graph, entrypoints=["b"], selected=["b_out"]).required == ("a_out", "y")
    assert compute_input_spec(graph.wiring).required == ("x", "y")


# -- parameters ---


def test_unfed_parameters_are_required_or_optional() -> None:
    found = spec(make("a", "x", "y=1"), make("b", "a_out", "z"))
    assert (found.required, found.optional, found.entrypoints, found.bound) == (("x", "z"), ("y",), {}, {})


def test_a_fed_parameter_is_no_input_even_with_a_default() -> None:
    assert spec(make("a"), make("b", "a_out=3")).all == ()


def test_bound_parameters_stay_listed_as_optional() -> None:
    found = Graph([make("a", "x", "y")]).bind(y=None).inputs
    assert (found.required, found.optional, found.bound) == (("x",), ("y",), {"y": None})


def test_one_default_makes_a_parameter_optional() -> None:
    # Consumers disagree here only because the second one is a graph that has the value bound.
    inner = Graph([make("b", "x")], name="inner").bind(x=1)
    assert spec(make("a", "x"), inner.as_node()).optional == ("x",)


def test_a_default_of_a_fed_consumer_does_not_help_an_unfed_one() -> None:
    found = spec(make("a", out="x"), make("b", "x=1"), make("c", "x"), edges=[("a", "b")])
    assert found.required == ("x",)


def test_explicit_edges_feed_only_what_they_carry() -> None:
    nodes = [make("a", out=("x", "y")), make("b", "x", "y")]
    assert Graph(nodes, edges=[("a", "b", "x")]).inputs.required == ("y",)
    assert Graph(nodes, edges=[]).inputs.required == ("x", "y")


def test_wait_for_is_no_input() -> None:
    assert spec(make("a", emit="done"), make("b", "x", wait_for="done")).all == ("x",)


# -- scope ---


@pytest.fixture
def diamond() -> Graph:
    return Graph(
        [make("a", "x"), make("b", "a_out", "y"), make("c", "a_out", "z"), make("d", "b_out", "c_out", "w")]
    )


def test_entry_points_reach_forward(diamond: Graph) -> None:
    assert diamond.with_entrypoint("b").inputs.required == ("a_out", "y", "c_out", "w")
    assert diamond.with_entrypoint("b", "c").inputs.required == ("a_out", "y", "z", "w")


def test_selection_walks_backwards(diamond: Graph) -> None:
    assert diamond.select("b_out").inputs.required == ("x", "y")
    assert diamond.select("b_out", "c_out").inputs.required == ("x", "y", "z")


def test_entry_points_and_selection_narrow_together(diamond: Graph) -> None:
    assert diamond.with_entrypoint("b").select("b_out").inputs.required == ("a_out", "y")


def test_bound_values_out_of_scope_inside_nested_graphs_do_not_show(diamond: Graph) -> None:
    inner = Graph([make("e", "a_out", "p")], name="inner").bind(p=1)
    grown = diamond.add_nodes(inner.as_node())
    assert grown.inputs.bound == {"p": 1}
    assert grown.select("b_out").inputs.bound == {}


def test_a_gate_in_scope_brings_its_targets_and_their_descendants() -> None:
    gate = ifelse("left", "right", name="gate")(lambda x: True)
    nodes = [
        gate,
        make("left", "p"),
        make("right", "q"),
        make("after", "right_out", "helper_out"),
        make("helper", "r"),
        make("apart", "s"),
    ]
    assert Graph(nodes).select("left_out").inputs.required == ("x", "p", "q", "r")


def test_gates_brought_in_by_gates_bring_theirs() -> None:
    first = ifelse("a", "second", name="first")(lambda x: True)
    second = ifelse("b", END, name="second")(lambda y: True)
    assert Graph([first, second, make("a", "p"), make("b", "q")]).select("a_out").inputs.required == (
        *("x", "y", "p", "q"),
    )


def test_a_selection_needs_every_producer_of_what_it_reads() -> None:
    gate = ifelse("left", "right", name="gate")(lambda x: True)
    nodes = [gate, make("left", "p", out="v"), make("right", "q", out="v"), make("use", "v")]
    assert Graph(nodes).select("use_out").inputs.required == ("x", "p", "q")


# -- cycles ---


def test_each_node_of_a_cycle_lists_what_it_would_need() -> None:
    found = spec(make("a", "v", "x", out="w"), make("b", "w", out="v"))
    assert (found.required, found.entrypoints) == (("x",), {"a": ("v",), "b": ("w",)})
    assert found.all == ("x", "v", "w")


def test_a_node_that_feeds_itself_is_a_cycle() -> None:
    assert spec(make("a", "v", out="v")).entrypoints == {"a": ("v",)}


def test_bound_and_defaulted_cycle_parameters_need_no_entry() -> None:
    loop = [make("a", "v", "u=1", out="w"), make("b", "w=2", out=("v", "u"))]
    assert spec(*loop).entrypoints == {"a": ("v",)}
    assert Graph(loop).bind(v=1).inputs.entrypoints == {}


def test_gates_are_no_entries() -> None:
    gate = route(targets=["a", END], name="gate")(lambda v: END)
    assert spec(make("a", "v", out="v"), gate).entrypoints == {"a": ("v",)}


def test_control_edges_alone_make_no_entry() -> None:
    gate = route(targets=["a", END], name="gate")(lambda a_out: END)
    found = spec(make("a", "x"), gate)
    assert (found.required, found.entrypoints) == (("x",), {})


def test_what_an_interrupt_produces_is_no_entry() -> None:
    ask = interrupt("v")(lambda w: None).with_name("ask")
    assert spec(make("a", "v", out="w"), ask).entrypoints == {"ask": ("w",)}


def test_two_cycles_are_entered_separately() -> None:
    found = spec(make("a", "v", out="v"), make("b", "v", "w", out="w"))
    assert found.entrypoints == {"a": ("v",), "b": ("w",)}


def test_a_configured_entry_is_the_only_one_of_its_cycle() -> None:
    graph = Graph([make("a", "v", out="w"), make("b", "w", out="v")]).with_entrypoint("b")
    assert graph.inputs.entrypoints == {"b": ("w",)}


def test_a_scope_may_cut_a_cycle_open() -> None:
    # Without `back` in scope nothing leads from b to a.
    graph = Graph([make("a", "v", out="w"), make("b", "w", out="u"), make("back", "u", out="v")])
    assert graph.inputs.entrypoints == {"a": ("v",), "b": ("w",), "back": ("u",)}
    ordered = Graph([make("a", "v", out="w"), make("b", "w", out="u")])
    assert ordered.inputs.entrypoints == {}


@pytest.mark.parametrize("swapped", [False, True])
def test_exclusive_branches_that_update_one_value_need_it_to_start(swapped: bool) -> None:
    gate = route(targets=["a", "b", END], name="gate")(lambda v: END)
    steps = [make("a", "v", out="v"), make("b", "v", out="v")]
    assert spec(gate, *(steps[::-1] if swapped else steps)).all == ("v",)


def test_what_a_binding_replaces_needs_no_inputs() -> None:
    first, second, third = make("a", "x"), make("b", "a_out"), make("c", "b_out", "y")
    graph = Graph([first, second, third], name="inner").bind(b_out=1)
    assert graph.inputs.required == ("y",)
    assert Graph([graph.as_node(), make("d", "c_out")]).inputs.required == ("y",)
    assert Graph([first], name="inner").bind(a_out=1).inputs.all == ()


def test_what_a_gate_may_choose_needs_its_inputs_beside_a_binding() -> None:
    @route(targets=["b", END])
    def gate(y: int) -> str:
        return "b"

    graph = Graph([gate, make("a", "x"), make("b", "a_out"), make("c", "b_out")]).bind(b_out=1)
    assert graph.inputs.required == ("y", "x")


@pytest.mark.parametrize("start_first", [True, False])
def test_a_cycle_that_is_fed_from_outside_needs_no_entry(start_first: bool) -> None:
    start, step = make("start", "x", out=("state", "begun")), make("step", "state", "begun", out="state")
    found = spec(*([start, step] if start_first else [step, start]))
    assert (found.all, found.entrypoints) == (("x",), {})


def test_a_feeder_out_of_scope_does_not_start_the_cycle() -> None:
    start, step = make("start", "x", out=("state", "begun")), make("step", "state", "begun", out="state")
    graph = Graph([step, start]).with_entrypoint("step")
    assert (graph.inputs.required, graph.inputs.entrypoints) == (("begun",), {"step": ("state",)})
