"""Graphs inside graphs at work: any depth, mapped, lifted, renamed, with values bound at every level."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
from support.running import map_, order, run, trace

from hypergraph import (
    END,
    FunctionNode,
    Graph,
    GraphConfigError,
    InfiniteLoopError,
    MapResult,
    MissingInputError,
    NodeError,
    RunResult,
    RunStatus,
    node,
    route,
)

__all__ = ["map_", "run"]
Run = Callable[..., Any]


@node(output_name="y")
def double(x: int) -> int:
    return 2 * x


@node(output_name="z")
def add(y: int, k: int = 1) -> int:
    return y + k


def inner(name: str = "inner") -> Graph:
    return Graph([double, add], name=name)


def nest(levels: int) -> Graph:
    graph = inner("level0")
    for level in range(levels):
        graph = Graph([graph.as_node()], name=f"level{level + 1}")
    return graph


# -- any depth ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("levels", [1, 2, 3, 10, 60])
def test_values_come_through_any_depth(run: Run, levels: int) -> None:
    assert run(nest(levels), {"x": 3}).values == {"y": 6, "z": 7}
    assert run(nest(levels), {"x": 3, "k": 10})["z"] == 16
    assert run(nest(levels).bind(k=5), {"x": 3})["z"] == 11


def test_the_nested_result_is_at_hand_at_every_level(run: Run) -> None:
    result = run(nest(3), {"x": 3})
    for name in ("level2", "level1", "level0"):
        assert isinstance(result[name], RunResult)
        assert result[name].status is RunStatus.COMPLETED
        result = result[name]
    assert result.values == {"y": 6, "z": 7}
    assert order(result) == ["double", "add"]


def test_inner_runs_do_not_mix_into_the_outer_log(run: Run) -> None:
    result = run(nest(1), {"x": 3})
    assert order(result) == ["level0"]
    assert [step.node_name for step in result.log.steps[0].log.steps] == ["double", "add"]


def test_a_nested_graph_takes_part_like_any_node(run: Run) -> None:
    before = FunctionNode(lambda raw: raw + 1, "before", "x")
    after = FunctionNode(lambda z: -z, "after", "w")
    result = run(Graph([after, inner().as_node(), before]), {"raw": 2})
    assert result.values == {"w": -7, "y": 6, "z": 7, "x": 3}
    assert trace(result) == [(0, "before"), (1, "inner"), (2, "after")]


# -- values at each level ----------------------------------------------------------------------------------


def test_the_outermost_word_counts(run: Run) -> None:
    base = inner()
    assert run(Graph([base.as_node()]), {"x": 1})["z"] == 3
    bound = base.bind(k=10)
    middle = Graph([bound.as_node()], name="middle")
    assert run(Graph([middle.as_node()]), {"x": 1})["z"] == 12
    assert run(Graph([middle.bind(k=20).as_node()]), {"x": 1})["z"] == 22
    assert run(Graph([middle.bind(k=20).as_node()]).bind(k=30), {"x": 1})["z"] == 32
    assert run(Graph([middle.bind(k=20).as_node()]).bind(k=30), {"x": 1, "k": 40})["z"] == 42


def test_what_is_bound_inside_need_not_be_given(run: Run) -> None:
    graph = Graph([inner().bind(x=4).as_node()])
    assert graph.inputs.optional == ("x", "k")
    assert run(graph)["y"] == 8


def test_what_is_missing_inside_is_missing_outside(run: Run) -> None:
    with pytest.raises(MissingInputError, match="'x'"):
        run(nest(2))


def test_a_producer_outside_feeds_a_defaulted_input_inside(run: Run) -> None:
    make = FunctionNode(lambda: 100, "make", "k")
    result = run(Graph([inner().as_node(), make]), {"x": 1})
    assert result["z"] == 102
    assert order(result) == ["make", "inner"]


def test_a_branch_not_taken_outside_leaves_the_default_inside(run: Run) -> None:
    make = FunctionNode(lambda: 100, "make", "k")

    @route(targets=["make", END])
    def gate(want: bool) -> Any:
        return "make" if want else END

    graph = Graph([gate, make, inner().as_node()])
    assert run(graph, {"x": 1, "want": True})["z"] == 102
    assert run(graph, {"x": 1, "want": False})["z"] == 3


def test_selection_inside_narrows_what_comes_out(run: Run) -> None:
    graph = Graph([inner().select("z").as_node()])
    assert graph.outputs == ("z",)
    assert run(graph, {"x": 1}).values == {"z": 3}


def test_entry_points_inside_hold(run: Run) -> None:
    graph = Graph([inner().with_entrypoint("add").as_node()])
    assert run(graph, {"y": 5}).values["z"] == 6


# -- renames and lift --------------------------------------------------------------------------------------


def test_renamed_inputs_and_outputs_reach_the_inner_names(run: Run) -> None:
    made = inner().as_node(name="twice").with_inputs(x="start", k="plus").with_outputs(z="end")
    result = run(Graph([made]), {"start": 2, "plus": 3})
    assert result.values == {"y": 4, "end": 7}
    assert result["twice"].values == {"y": 4, "z": 7}


def test_names_can_be_swapped(run: Run) -> None:
    take = Graph([FunctionNode(lambda a, b: (a, b), "take", ("p", "q"))], name="take_both")
    made = take.as_node().with_inputs(a="b", b="a").with_outputs(p="q", q="p")
    assert run(Graph([made]), {"a": 1, "b": 2}).values == {"q": 2, "p": 1}


def test_the_same_graph_twice_under_other_names(run: Run) -> None:
    one = inner("one").as_node().with_inputs(x="x1").with_outputs(y="y1", z="z1")
    two = inner("two").as_node().with_inputs(x="z1").with_outputs(y="y2", z="z2")
    assert run(Graph([two, one]), {"x1": 1})["z2"] == 7


def test_lift_hides_the_rest(run: Run) -> None:
    graph = Graph([inner().as_node(lift=("z",))])
    result = run(graph, {"x": 1})
    assert (graph.outputs, result.values) == (("z",), {"z": 3})
    assert result["inner"].values == {"y": 2, "z": 3}


def test_lift_orders_and_renames(run: Run) -> None:
    made = inner().as_node().lift("z", "y").with_outputs(z="last")
    assert list(run(Graph([made]), {"x": 1}).values.items()) == [("last", 3), ("y", 2)]
    assert run(Graph([made.lift("last")]), {"x": 1}).values == {"last": 3}


# -- map_over ----------------------------------------------------------------------------------------------


def mapped(*params: str, graph: Graph | None = None, **options: Any) -> Graph:
    return Graph([(graph or inner()).as_node().map_over(*params, **options)])


def test_each_output_becomes_a_list_in_item_order(run: Run) -> None:
    result = run(mapped("x"), {"x": [3, 1, 2]})
    assert result.values == {"y": [6, 2, 4], "z": [7, 3, 5]}
    assert isinstance(result["inner"], MapResult)
    assert [item.values for item in result["inner"]] == [{"y": y, "z": y + 1} for y in (6, 2, 4)]


def test_zip_walks_together_and_product_tries_all(run: Run) -> None:
    given = {"x": [1, 2], "k": [10, 20]}
    assert run(mapped("x", "k"), given)["z"] == [12, 24]
    assert run(mapped("x", "k", mode="product"), given)["z"] == [12, 22, 14, 24]
    assert run(mapped("k", "x", mode="product"), given)["z"] == [12, 14, 22, 24]


def test_zip_needs_equal_lengths(run: Run) -> None:
    with pytest.raises(ValueError, match="equal lengths"):
        run(mapped("x", "k"), {"x": [1, 2], "k": [1]})


def test_errors_about_items_name_the_inputs_of_the_graph_around_it(run: Run) -> None:
    def renamed(*over: str) -> Graph:
        inner = Graph([FunctionNode(lambda x, k: x + k, "add", "y")], name="inner")
        return Graph([inner.as_node().with_inputs(x="first", k="second").map_over(*over)])

    with pytest.raises(TypeError, match=r"Cannot map over 'first': .* first=\['ab'\]"):
        run(renamed("first"), {"first": "ab", "second": 1})
    with pytest.raises(ValueError, match="first: 2, second: 1"):
        run(renamed("first", "second"), {"first": [1, 2], "second": [1]})
    with pytest.raises(ValueError, match="second: 1, first: 2"):
        run(renamed("second", "first"), {"first": [1, 2], "second": [1]})


def test_no_items_make_empty_lists(run: Run) -> None:
    assert run(mapped("x"), {"x": []}).values == {"y": [], "z": []}


@pytest.mark.parametrize("make", [tuple, list, iter, range.__iter__, lambda items: items])
def test_any_iterable_of_items_will_do(run: Run, make: Any) -> None:
    assert run(mapped("x"), {"x": make(range(1, 3))})["y"] == [2, 4]


@pytest.mark.parametrize("value", ["text", 5, {"a": 1}])
def test_what_is_no_list_of_items_is_refused(run: Run, value: Any) -> None:
    with pytest.raises(TypeError, match="map over 'x'"):
        run(mapped("x"), {"x": value})


def test_other_inputs_are_the_same_for_all_items(run: Run) -> None:
    shared: list[int] = []
    note = FunctionNode(lambda x, seen: seen.append(x), "note", None)
    graph = mapped("x", graph=Graph([note], name="noting"))
    run(graph, {"x": [1, 2], "seen": shared})
    assert shared == [1, 2]


def test_clones_are_made_per_item_and_only_where_asked(run: Run) -> None:
    push = FunctionNode(lambda x, mine, ours: (mine.append(x), ours.append(x), mine)[2], "push", "got")
    graph = Graph([push], name="pushing")
    for clone, mine_size in ((["mine"], 0), (False, 2)):
        mine: list[int] = []
        ours: list[int] = []
        result = run(mapped("x", graph=graph, clone=clone), {"x": [1, 2], "mine": mine, "ours": ours})
        assert (len(mine), len(ours)) == (mine_size, 2)
        assert result["got"] == ([[1], [2]] if clone else [[1, 2], [1, 2]])
    mine, ours = [], []
    run(mapped("x", graph=graph, clone=True), {"x": [1, 2], "mine": mine, "ours": ours})
    assert (mine, ours) == ([], [])


def test_bound_values_are_never_cloned(run: Run) -> None:
    class Client:
        def __deepcopy__(self, memo: Any) -> Any:
            raise RuntimeError("one of a kind")

    client = Client()
    graph = Graph([FunctionNode(lambda x, client: client, "use", "used")], name="using")
    assert run(mapped("x", graph=graph.bind(client=client), clone=True), {"x": [1]})["used"] == [client]
    with pytest.raises(GraphConfigError, match="cannot be deep-copied for clone"):
        run(mapped("x", graph=graph, clone=True), {"x": [1], "client": client})


@node(output_name="inverse")
def invert(x: float) -> float:
    return 1 / x


@node(output_name="also")
def also(x: float) -> float:
    return x


def test_a_failing_item_fails_the_node(run: Run) -> None:
    graph = mapped("x", graph=Graph([invert], name="inverting"))
    with pytest.raises(ZeroDivisionError) as caught:
        run(graph, {"x": [1, 0, 2]})
    evidence = NodeError.of(caught.value)
    assert evidence is not None
    assert (evidence.node_name, evidence.item_index) == ("inverting/invert", 1)
    assert evidence.inputs == {"x": 0}


def test_under_continue_failed_items_are_none_in_every_list(run: Run) -> None:
    graph = mapped("x", graph=Graph([invert, also], name="inverting"), error_handling="continue")
    result = run(graph, {"x": [1, 0, 2]})
    assert result.completed
    assert result.values == {"inverse": [1, None, 0.5], "also": [1, None, 2]}
    assert result["inverting"].status is RunStatus.PARTIAL


def test_branches_not_taken_leave_none_in_the_list(run: Run) -> None:
    @route(targets=["double", END])
    def gate(x: int) -> Any:
        return "double" if x > 0 else END

    assert run(mapped("x", graph=Graph([gate, double], name="g")), {"x": [1, -1]})["y"] == [2, None]


def test_renames_carry_over_to_mapped_names(run: Run) -> None:
    made = inner().as_node().map_over("x").with_inputs(x="items").with_outputs(z="sums")
    assert run(Graph([made]), {"items": [1, 2]})["sums"] == [3, 5]
    again = inner().as_node().with_inputs(x="items").map_over("items")
    assert run(Graph([again]), {"items": [1, 2]})["z"] == [3, 5]


def test_maps_inside_maps(run: Run) -> None:
    rows = Graph([inner("cell").as_node().map_over("x").lift("z")], name="row")
    assert run(mapped("x", graph=rows), {"x": [[1, 2], [3]]})["z"] == [[3, 5], [7]]


def test_a_mapped_graph_inside_a_mapped_run(map_: Run) -> None:
    results = map_(mapped("x"), {"x": [[1], [2, 3]]}, map_over="x")
    assert results["y"] == [[2], [4, 6]]


def test_a_mapped_list_from_a_producer(run: Run) -> None:
    make = FunctionNode(lambda n: list(range(n)), "make", "x")
    graph = Graph([make, inner().as_node().map_over("x"), FunctionNode(lambda z: sum([*z]), "total", "sum")])
    assert run(graph, {"n": 3})["sum"] == 1 + 3 + 5


# -- loops -------------------------------------------------------------------------------------------------


def counting(limit: int) -> Graph:
    @node(output_name="n")
    def up(n: int) -> int:
        return n + 1

    @route(targets=["up", END])
    def gate(n: int) -> Any:
        return END if n >= limit else "up"

    return Graph([up, gate], name="counting")


def test_a_loop_inside_runs_to_its_end_each_time(run: Run) -> None:
    result = run(Graph([counting(3).as_node()]), {"n": 0})
    assert result["n"] == 3
    assert order(result) == ["counting"]


def test_a_nested_graph_in_a_loop_outside(run: Run) -> None:
    step = Graph([FunctionNode(lambda n: n + 1, "up", "n")], name="step")

    @route(targets=["step", END])
    def gate(n: int) -> Any:
        return END if n >= 3 else "step"

    result = run(Graph([step.as_node(), gate]), {"n": 0})
    assert result["n"] == 3
    assert order(result).count("step") == 3
    assert result["step"].values == {"n": 3}


def test_each_nested_run_counts_for_itself_under_the_same_limit(run: Run) -> None:
    graph = Graph([counting(3).as_node()])
    assert run(graph, {"n": 0}, max_iterations=4)["n"] == 3
    with pytest.raises(InfiniteLoopError) as caught:
        run(graph, {"n": 0}, max_iterations=3)
    assert caught.value.max_iterations == 3
    mapped_graph = Graph([counting(3).as_node().map_over("n")])
    assert run(mapped_graph, {"n": [0, 1, 2]}, max_iterations=4)["n"] == [3, 3, 3]
    with pytest.raises(InfiniteLoopError):
        run(mapped_graph, {"n": [0, 1, 2]}, max_iterations=3)


# -- options reach inside ----------------------------------------------------------------------------------


def test_on_missing_reaches_inside_and_select_does_not(run: Run) -> None:
    @route(targets=["double", END])
    def gate(x: int) -> Any:
        return END

    graph = Graph([Graph([gate, double, also], name="g").select("y", "also").as_node()])
    assert run(graph, {"x": 1}).values == {"also": 1}
    assert run(graph, {"x": 1}, select="also").values == {"also": 1}
    with pytest.warns(UserWarning, match="Requested outputs not found"):
        run(graph, {"x": 1}, on_missing="warn")
    with pytest.raises(ValueError, match="Requested outputs not found"):
        run(graph, {"x": 1}, on_missing="error")


def test_an_output_missing_inside_holds_back_its_consumers_only(run: Run) -> None:
    @route(targets=["double", END])
    def gate(x: int) -> Any:
        return END

    use = FunctionNode(lambda y: y, "use", "used")
    beside = FunctionNode(lambda also: also, "beside", "seen")
    fallback = FunctionNode(lambda y=0: y, "fallback", "fell")
    result = run(Graph([Graph([gate, double, also], name="g").as_node(), use, beside]), {"x": 1})
    assert result.values == {"also": 1, "seen": 1}
    slow = [FunctionNode(lambda x: x, "slow", "s"), FunctionNode(lambda s: s, "slower", "t")]
    result = run(Graph([Graph([gate, double, also], name="g").as_node(), fallback, *slow]), {"x": 1})
    assert result["fell"] == 0
    assert trace(result) == [(0, "g"), (0, "slow"), (1, "fallback"), (1, "slower")]


def test_nothing_is_warned_about_inside(run: Run) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(nest(3).bind(k=2), {"x": 1})
        run(mapped("x"), {"x": [1], "k": 2})


# -- failures ----------------------------------------------------------------------------------------------


def test_a_failure_deep_inside_names_its_path(run: Run) -> None:
    fail = FunctionNode(lambda x: 1 / x, "fail", "y")
    graph = Graph([Graph([Graph([fail], name="a").as_node()], name="b").as_node()], name="c")
    with pytest.raises(ZeroDivisionError) as caught:
        run(graph, {"x": 0})
    evidence = NodeError.of(caught.value)
    assert evidence is not None
    assert (evidence.node_name, evidence.inputs) == ("b/a/fail", {"x": 0})
    result = run(graph, {"x": 0}, error_handling="continue")
    assert result.failed
    assert result["b"]["a"].failed


def test_deriving_a_graph_drops_nothing(run: Run) -> None:
    made = inner().bind(k=5).select("z").as_node().with_inputs(x="start").map_over("start")
    graph = Graph([made], name="outer").bind(start=[1, 2]).select("z")
    grown = graph.add_nodes(FunctionNode(lambda z: len([*z]), "count", "size"))
    assert run(grown).values == {"z": [7, 9]}
    assert run(grown, select="**").values == {"z": [7, 9], "size": 2}


# -- refused before anything runs --------------------------------------------------------------------------


def begins(started: list[int], output: str = "x") -> FunctionNode:
    def begin(q: int) -> int:
        started.append(q)
        return q

    return FunctionNode(begin, "begin", output)


def rivals() -> Graph:
    """`b` and `d` make the same name; the ways back to `x` lead from each of them to the other."""
    ways = [("a", "x", "v"), ("b", "v", "s"), ("c", "v", "w"), ("d", "w", "s"), ("e", "s", "x")]
    nodes = [FunctionNode(lambda value: value, name, out).with_inputs(value=took) for name, took, out in ways]
    with warnings.catch_warnings(action="ignore"):
        return Graph(nodes, name="rivals")


def swings() -> Graph:
    """A loop that begins with `n` or with `m`."""

    @node(output_name="m")
    def up(n: int) -> int:
        return n + 1

    @node(output_name="n")
    def down(m: int) -> int:
        return m + 1

    @route(targets=["up", "down", END])
    def stop(n: int, m: int) -> Any:
        return END if n > 3 else "up"

    return Graph([up, down, stop], name="swings")


@pytest.mark.parametrize("levels", [1, 2])
@pytest.mark.parametrize("mapped", [False, True])
def test_rivals_inside_are_refused_before_anything_runs(run: Run, levels: int, mapped: bool) -> None:
    with pytest.raises(GraphConfigError, match="Multiple nodes produce 's'"):
        run(rivals(), x=1)
    started: list[int] = []
    inside = rivals().as_node(lift="w")
    for level in range(1, levels):
        inside = Graph([inside], name=f"level{level}").as_node(lift="w")
    with warnings.catch_warnings(action="ignore"):
        graph = Graph([begins(started), inside.map_over("x") if mapped else inside])
    with pytest.raises(GraphConfigError, match=f"^Inside node '{inside.name}': .*Multiple nodes produce 's'"):
        run(graph, q=1, error_handling="continue")
    assert not started


def test_a_loop_inside_that_could_begin_at_two_places_is_refused_before_anything_runs(run: Run) -> None:
    started: list[int] = []
    inside = two_starts().as_node(name="inside", lift="out")
    graph = Graph([begins(started, "k"), inside])
    with pytest.raises(ValueError, match=r"^Inside node 'inside': Ambiguous cycle entry.*'left' or 'right'"):
        run(graph, q=1, error_handling="continue")
    assert not started


def two_starts() -> Graph:
    @node(output_name="p")
    def left(k: int, r: int = 0) -> int:
        return k + r

    @node(output_name="p")
    def right(k: int, r: int = 0) -> int:
        return k - r

    @node(output_name="r")
    def back(p: int) -> int:
        return p

    @node(output_name="out")
    def after(r: int) -> int:
        return r

    @route(targets=["left", "right", END])
    def choose(r: int) -> Any:
        return END

    return Graph([left, right, back, after, choose], name="two")


def test_a_loop_inside_that_nothing_starts_is_refused_before_anything_runs(run: Run) -> None:
    started: list[int] = []
    with warnings.catch_warnings(action="ignore"):
        nested = swings().as_node().with_inputs(n="seed")
        graph = Graph([begins(started), nested])
    with pytest.raises(MissingInputError, match=r"^Inside node 'swings': Nothing starts the cycle") as caught:
        run(graph, q=1)
    assert not started
    assert caught.value.missing == ["m", "seed"]
    assert "-> 'n' is 'seed' outside of it\n" in str(caught.value)
    assert "run(graph, seed=...)" in str(caught.value)
    assert run(graph, q=1, seed=5)["m"] == 6


def test_what_may_come_by_then_is_not_refused(run: Run) -> None:
    started: list[int] = []

    @route(targets=["begin", END])
    def whether(q: int) -> Any:
        return "begin" if q else END

    with warnings.catch_warnings(action="ignore"):
        graph = Graph([whether, begins(started, "n"), swings().as_node(lift="m")])
    assert run(graph, q=5)["m"] == 6
    with pytest.raises(MissingInputError, match="Nothing starts the cycle"):
        run(graph, q=0)


def test_a_nested_graph_that_cannot_run_is_not_refused(run: Run) -> None:
    with warnings.catch_warnings(action="ignore"):
        graph = Graph([rivals().as_node(lift="w"), FunctionNode(lambda w: w, "last", "out")])
    assert run(graph, w=3, on_internal_override="ignore")["out"] == 3


def test_what_a_loop_inside_begins_with_is_an_input_wherever_it_has_a_default(run: Run) -> None:
    @node(output_name="total")
    def count(v: int, total: int = 0) -> int:
        return total + v

    @node(output_name="v")
    def half(total: int) -> int:
        return total // 2

    @route(targets=["count", END])
    def enough(total: int, v: int) -> Any:
        return END

    with warnings.catch_warnings(action="ignore"):
        graph = Graph([Graph([count, half, enough], name="inside").as_node()])
    assert graph.inputs.all == ("v", "total")
    assert run(graph, total=9)["v"] == 4
