"""InputSpec of nested graphs: the inputs they require, and the defaults they share."""

from __future__ import annotations

import pytest

from hypergraph import END, Graph, MissingInputError, SyncRunner, node, route


@node(output_name="same")
def same(k):
    return k


@node(output_name="tenfold")
def tenfold(k):
    return k * 10


@node(output_name="next_one")
def next_one(k):
    return k + 1


def bound_to(value, inner, name):
    return Graph([inner], name=name).bind(k=value).as_node()


def test_a_value_bound_inside_serves_a_plain_node_beside():
    assert SyncRunner().run(Graph([bound_to(1, same, "inner"), next_one])).values == {
        "same": 1,
        "next_one": 2,
    }


def test_each_nested_graph_keeps_its_own_bound_value():
    graph = Graph([bound_to(1, same, "one"), bound_to(2, tenfold, "two"), next_one])
    values = SyncRunner().run(graph).values
    assert (values["same"], values["tenfold"]) == (1, 20)


def test_a_given_value_wins_over_those_bound_inside():
    graph = Graph([bound_to(1, same, "one"), bound_to(2, tenfold, "two"), next_one])
    assert SyncRunner().run(graph, k=5).values == {"same": 5, "tenfold": 50, "next_one": 6}


def test_a_given_value_wins_over_one_bound_inside_a_mapped_graph():
    @node(output_name="product")
    def times(x, k):
        return x * k

    @node(output_name="k")
    def hundred():
        return 100

    mapped = bound_to(1, times, "inner").map_over("x")
    graph = Graph([mapped])
    assert SyncRunner().run(graph, x=[1, 2])["product"] == [1, 2]
    assert SyncRunner().run(graph, x=[1, 2], k=10)["product"] == [10, 20]
    assert SyncRunner().run(graph.bind(k=5), x=[1, 2])["product"] == [5, 10]
    assert SyncRunner().run(Graph([mapped, hundred]), x=[1, 2])["product"] == [100, 200]


def test_a_mapped_input_is_required_even_if_it_is_bound_inside():
    graph = Graph([bound_to(5, same, "inner").map_over("k")])
    assert graph.inputs.required == ("k",)
    with pytest.raises(MissingInputError, match="'k' is needed by inner"):
        SyncRunner().run(graph)
    assert SyncRunner().run(graph, k=[1, 2])["same"] == [1, 2]


@node(output_name="draft")
def write(topic, feedback=""):
    return topic + feedback


@node(output_name="feedback")
def review(draft):
    return "!" * len(draft)


@route(targets=["write", END])
def enough(draft, feedback):
    return END if len(draft) > 5 else "write"


def test_a_nested_loop_that_starts_alone_asks_for_nothing_else():
    loop = Graph([write, review, enough], name="loop")
    outer = Graph([loop.as_node()])
    assert outer.inputs.required == ("topic",)
    assert outer.inputs.all == loop.inputs.all
    assert SyncRunner().run(outer, topic="abc").values == SyncRunner().run(loop, topic="abc").values


def test_a_nested_loop_runs_though_a_neighbour_makes_one_of_its_entry_values():
    @route(targets=["loop", "quick"])
    def choose(topic):
        return "loop" if topic == "abc" else "quick"

    @node(output_name="draft")
    def quick(topic):
        return f"quick {topic}"

    loop = Graph([write, review, enough], name="loop").as_node()
    graph = Graph([choose, loop, quick])
    assert SyncRunner().run(graph, topic="abc")["draft"] == "abc!!!"
    assert SyncRunner().run(graph, topic="xyz")["draft"] == "quick xyz"


@node(output_name="y")
def forth(x):
    return x + 1


@node(output_name="x")
def back(y):
    return y


@route(targets=["forth", END])
def stop(x):
    return "forth" if x < 3 else END


@pytest.mark.parametrize("given", [{"x": 0}, {"y": 1}])
def test_a_nested_loop_with_several_ways_in_takes_either(given):
    graph = Graph([forth, back, stop], name="loop")
    for name in ("parent", "grandparent"):
        inner, graph = graph.name, Graph([graph.as_node()], name=name)
        assert (graph.inputs.required, graph.inputs.entrypoints) == ((), {inner: ("x", "y")})
        assert SyncRunner().run(graph, given)["x"] == 3
        assert SyncRunner().run(graph, given, entrypoint=inner)["x"] == 3


def test_a_nested_loop_that_nothing_starts_says_so():
    outer = Graph([Graph([forth, back, stop], name="loop").as_node()])
    with pytest.raises(MissingInputError, match="Nothing starts the cycle"):
        SyncRunner().run(outer)
