"""Graphs as nodes: flat names, lifting, mapping, inner defaults and types."""

from typing import Any

import pytest

from hypergraph import (
    FunctionNode,
    Graph,
    GraphConfigError,
    GraphNode,
    NodeContext,
    RenameError,
    interrupt,
    node,
)


@node(output_name="docs", emit="found")
def search(query: str, limit: int = 5) -> list[str]:
    return [query] * limit


@node(output_name="answer")
def write(docs: list[str], model: str) -> int:
    return len(docs)


@pytest.fixture
def inner() -> Graph:
    return Graph([search, write], name="rag")


# -- name ---


def test_name_comes_from_argument_or_graph(inner: Graph) -> None:
    assert inner.as_node().name == "rag"
    assert inner.as_node(name="other").name == GraphNode(inner, "other").name == "other"


@pytest.mark.parametrize("name", [None, ""])
def test_a_name_is_needed(name: Any) -> None:
    with pytest.raises(ValueError, match="GraphNode requires a name"):
        Graph([search]).as_node(name=name)


@pytest.mark.parametrize("name", ["a.b", "a/b", "a#2", "item-0", "item-12"])
def test_names_that_are_part_of_ids_are_refused(inner: Graph, name: str) -> None:
    with pytest.raises(ValueError, match="GraphNode name"):
        inner.as_node(name=name)
    with pytest.raises(ValueError, match="GraphNode name"):
        inner.as_node().with_name(name)


@pytest.mark.parametrize("name", ["my-graph", "two words", "class", "item-x", "items-1", "9"])
def test_names_need_not_be_identifiers(inner: Graph, name: str) -> None:
    assert Graph([inner.as_node(name=name)]).nodes[name].name == name


def test_only_graphs_become_graph_nodes() -> None:
    with pytest.raises(TypeError, match="needs a Graph"):
        GraphNode(search, "x")  # type: ignore[arg-type]


# -- what shows outside ---


def test_naming_is_flat(inner: Graph) -> None:
    made = inner.as_node()
    assert made.inputs == inner.inputs.all == ("query", "model", "limit")
    assert made.outputs == ("docs", "found", "answer")
    assert (made.data_outputs, made.emit) == (("docs", "answer"), ("found",))
    assert (made.node_type, made.nested_graph) == ("GRAPH", inner)


def test_outputs_are_the_inner_selection_if_there_is_one(inner: Graph) -> None:
    made = inner.select("docs").as_node()
    assert (made.outputs, made.inputs) == (("docs",), ("query", "limit"))


def test_inner_entry_points_narrow_the_inputs(inner: Graph) -> None:
    assert inner.with_entrypoint("write").as_node().inputs == ("docs", "model")


def test_hash_and_kind_are_those_of_the_inner_graph(inner: Graph) -> None:
    @node(output_name="y")
    async def later(x):
        return x

    assert inner.as_node().definition_hash == inner.definition_hash
    assert not inner.as_node().is_async
    level_two = Graph([Graph([later], name="a").as_node()], name="b").as_node()
    assert level_two.is_async


def test_defaults_show_through(inner: Graph) -> None:
    made = inner.bind(model="m").as_node()
    assert (made.has_default_for("limit"), made.get_default_for("limit")) == (True, 5)
    assert (made.has_default_for("model"), made.get_default_for("model")) == (True, "m")
    assert not made.has_default_for("query")
    assert not made.has_default_for("nowhere")
    with pytest.raises(KeyError, match="No default for 'query'"):
        made.get_default_for("query")


def test_signature_defaults_ignore_bindings(inner: Graph) -> None:
    made = inner.bind(model="m", limit=9).as_node()
    assert not made.has_signature_default_for("model")
    assert not made.has_signature_default_for("limit")
    assert inner.as_node().has_signature_default_for("limit")
    assert inner.as_node().get_signature_default_for("limit") == 5
    with pytest.raises(KeyError, match="No default for 'limit'"):
        made.get_signature_default_for("limit")


def test_bindings_show_in_the_outer_graph_and_an_outer_bind_wins(inner: Graph) -> None:
    outer = Graph([inner.bind(model="inside").as_node()])
    assert outer.inputs.bound == {"model": "inside"}
    assert outer.inputs.optional == ("limit", "model")
    assert outer.bind(model="outside").inputs.bound == {"model": "outside"}


def test_bindings_follow_renames(inner: Graph) -> None:
    renamed = inner.bind(model="m", limit=1).as_node().with_inputs(model="limit", limit="model")
    outer = Graph([renamed])
    assert outer.inputs.bound == {"limit": "m", "model": 1}
    deeper = Graph([Graph([renamed.with_inputs(limit="llm")], name="two").as_node()])
    assert deeper.inputs.bound == {"llm": "m", "model": 1}


def test_types_come_from_inside(inner: Graph) -> None:
    made = inner.as_node().with_inputs(query="q").with_outputs(docs="d")
    assert (made.get_input_type("q"), made.get_input_type("query")) == (str, None)
    assert (made.get_output_type("d"), made.get_output_type("docs")) == (list[str], None)


def test_types_under_map_over_are_lists(inner: Graph) -> None:
    @node(output_name="z")
    def untyped(model):
        return model

    made = Graph([search, write, untyped], name="g").as_node().map_over("query")
    assert (made.get_input_type("query"), made.get_input_type("limit")) == (list[str], int)
    assert (made.get_output_type("docs"), made.get_output_type("z")) == (list[list[str]], list)


def test_inputs_translate_back_to_inner_names(inner: Graph) -> None:
    made = inner.as_node().with_inputs(query="model", model="query")
    assert made.map_inputs_to_params({"model": 1, "query": 2, "limit": 3}) == {
        "query": 1,
        "model": 2,
        "limit": 3,
    }


def test_repr_names_the_ends(inner: Graph) -> None:
    assert repr(inner.select("docs").as_node()) == (
        "GraphNode(rag, inputs=('query', 'limit'), outputs=('docs',))"
    )


# -- map_over ---


def test_map_config_is_none_or_the_three_settings(inner: Graph) -> None:
    assert inner.as_node().map_config is None
    made = inner.as_node().map_over(
        "query", "limit", mode="product", error_handling="continue", clone=["model"]
    )
    assert made.map_config == (["query", "limit"], "product", "continue")
    assert made.clone == ["model"]
    assert inner.as_node().map_over("query").map_config == (["query"], "zip", "raise")


def test_map_over_checks_its_parameters(inner: Graph) -> None:
    made = inner.as_node()
    for params, options, complaint in [
        ((), {}, "at least one parameter"),
        (("nope",), {}, "not an input"),
        ((["query", "limit"],), {}, r"one by one, not a list: map_over\('query', 'limit'\)"),
        (([],), {}, r"one by one, not a list: map_over\(\"name\"\)"),
        (("query",), {"clone": ["query"]}, "Cannot clone mapped parameter"),
        (("query",), {"clone": ["nope"]}, "not an input"),
        (("query",), {"mode": "both"}, "mode must be"),
        (("query",), {"error_handling": "ignore"}, "error_handling must be"),
    ]:
        with pytest.raises(ValueError, match=complaint):
            made.map_over(*params, **options)


def test_clone_must_be_a_bool_or_a_list_of_names(inner: Graph) -> None:
    for clone in ("model", ("model",), 1, None):
        with pytest.raises(TypeError, match="clone must be bool or list"):
            inner.as_node().map_over("query", clone=clone)
    with pytest.raises(TypeError, match="clone list entries must be strings"):
        inner.as_node().map_over("query", clone=[3])


def test_renames_carry_over_to_mapped_and_cloned_names(inner: Graph) -> None:
    made = inner.as_node().map_over("query", clone=["model"]).with_inputs(query="model", model="query")
    assert (made.map_config[0], made.clone) == (["model"], ["query"])
    assert (made.inner_map_params, made.inner_clone) == (["query"], ["model"])


def test_map_over_after_a_rename_uses_the_new_names(inner: Graph) -> None:
    made = inner.as_node().with_inputs(query="questions")
    assert made.map_over("questions").inner_map_params == ["query"]
    with pytest.raises(ValueError, match="not an input"):
        made.map_over("query")


def test_mapping_lifting_and_renaming_work_in_any_order(inner: Graph) -> None:
    one = inner.as_node().map_over("query").lift("answer").with_inputs(query="qs").with_outputs(answer="as_")
    two = inner.as_node().with_outputs(answer="as_").with_inputs(query="qs").lift("as_").map_over("qs")
    for made in (one, two):
        assert (made.inputs, made.outputs) == (("qs", "model", "limit"), ("as_",))
        assert (made.inner_inputs, made.inner_outputs) == (("query", "model", "limit"), ("answer",))
        assert (made.inner_map_params, made.get_output_type("as_")) == (["query"], list[int])


# -- lift ---


def test_lift_restricts_outputs_in_the_given_order(inner: Graph) -> None:
    for made in (inner.as_node(lift=("answer", "docs")), inner.as_node().lift("answer", "docs")):
        assert (made.outputs, made.inner_outputs) == (("answer", "docs"), ("answer", "docs"))
    assert inner.as_node(lift="docs").outputs == ("docs",)


def test_what_is_not_lifted_cannot_be_wired_or_selected(inner: Graph) -> None:
    outer = Graph([inner.as_node(lift="answer")])
    assert outer.outputs == ("answer",)
    with pytest.raises(ValueError, match="not graph outputs"):
        outer.select("docs")
    with pytest.raises(RenameError, match="'docs' not found"):
        inner.as_node(lift="answer").with_outputs(docs="d")


def test_lift_replaces_an_earlier_lift_and_uses_current_names(inner: Graph) -> None:
    made = inner.as_node(lift="docs").with_outputs(docs="d")
    again = made.lift("d", "answer")
    assert (again.outputs, again.inner_outputs) == (("d", "answer"), ("docs", "answer"))
    with pytest.raises(ValueError, match="'docs' is not an output"):
        made.lift("docs")


def test_a_lifted_output_may_take_the_name_of_one_left_inside(inner: Graph) -> None:
    made = inner.as_node(lift="answer").with_outputs(answer="docs")
    assert (made.outputs, made.inner_outputs) == (("docs",), ("answer",))
    assert made.lift("docs").inner_outputs == ("answer",)


def test_swapped_outputs_are_lifted_from_where_they_came(inner: Graph) -> None:
    made = inner.as_node().with_outputs(docs="answer", answer="docs").lift("docs")
    assert (made.outputs, made.inner_outputs) == (("docs",), ("answer",))


def test_lift_refuses_unknown_repeated_and_no_names(inner: Graph) -> None:
    with pytest.raises(ValueError, match="not an output"):
        inner.as_node(lift="nope")
    with pytest.raises(ValueError, match="docs"):
        inner.as_node(lift=("docs", "docs"))
    with pytest.raises(ValueError, match="must not repeat"):
        inner.as_node().lift("docs", "docs")
    for build in (lambda: inner.as_node(lift=()), lambda: inner.as_node().lift()):
        with pytest.raises(ValueError, match="at least one output"):
            build()


# -- durability and limits ---


def test_durability_is_one_of_two(inner: Graph) -> None:
    assert inner.as_node().durability == "nested"
    assert inner.as_node(durability="atomic").with_name("x").durability == "atomic"
    with pytest.raises(ValueError, match="durability"):
        inner.as_node(durability="none")  # type: ignore[arg-type]


@interrupt(output_name="verdict")
def review(draft):
    return None


def test_interrupts_cannot_wait_inside_an_atomic_boundary() -> None:
    asking = Graph([review], name="asking")
    deep = Graph([asking.as_node()], name="deep")
    for graph in (asking, deep):
        assert Graph([graph.as_node().map_over("draft")]).has_interrupts
        with pytest.raises(GraphConfigError, match="contains interrupts: 'review'") as caught:
            Graph([graph.as_node(durability="atomic")])
        assert 'durability="nested"' in str(caught.value)
        assert "move the interrupt outside" in str(caught.value)
        assert Graph([graph.as_node()]).has_interrupts


@pytest.mark.parametrize("option", [{"repeatable": False}, {"transaction": True}])
def test_effects_cannot_be_inside_an_atomic_boundary(option: dict[str, bool]) -> None:
    def charge(order: str, ctx: NodeContext) -> str:
        return order

    pay = FunctionNode(charge, "pay", "paid", **option)
    name, value = next(iter(option.items()))
    with pytest.raises(GraphConfigError, match=f"contains nodes with {name}={value}: 'pay'"):
        Graph([Graph([pay], name="shop").as_node(durability="atomic")])


def test_the_name_of_a_graph_can_be_part_of_an_id(inner: Graph) -> None:
    for name in ("a\nb", "a\ud800"):
        with pytest.raises(GraphConfigError, match="has a control character, or half of a surrogate pair"):
            Graph([inner.as_node(name=name)])
    with pytest.raises(GraphConfigError, match="half of a surrogate pair"):
        Graph([review], name="a\ud800")
    assert Graph([inner.as_node(name="größe\u00a02 👩‍💻")], name="a\tb")


def test_a_graph_node_cannot_cache(inner: Graph) -> None:
    class Caching(GraphNode):
        cache = True

    with pytest.raises(GraphConfigError, match="'rag' cannot have cache=True"):
        Graph([Caching(inner)])


# -- nothing configured is lost ---


def test_configuration_reaches_derived_objects(inner: Graph) -> None:
    configured = inner.bind(limit=1).select("docs").with_entrypoint("search")
    made = configured.as_node().map_over("query").with_name("x").with_inputs(limit="n").with_outputs(docs="d")
    assert made.graph is configured
    assert made.map_config == (["query"], "zip", "raise")
    assert Graph([made]).inputs.bound == {"n": 1}
    assert Graph([made]).outputs == ("d",)


# -- depth ---


def nest(depth: int) -> GraphNode:
    @node(output_name="y")
    def leaf(x: int = 1) -> int:
        return x

    made: Any = leaf
    for level in range(depth):
        made = Graph([made], name=f"level{level}").as_node()
    return made


def test_two_hundred_levels_work() -> None:
    made = nest(200)
    graph = Graph([made], strict_types=True)
    assert (graph.inputs.optional, graph.outputs) == (("x",), ("y",))
    assert (made.get_input_type("x"), made.get_output_type("y"), made.get_default_for("x")) == (int, int, 1)
    assert len(graph.definition_hash) == 64
    assert not graph.has_interrupts
    assert graph.describe().splitlines()[-1] == "Nodes: level199"
    assert graph.to_flat_graph().number_of_nodes() == 201


def calls_of(monkeypatch: pytest.MonkeyPatch, method: str, depth: int, *args: str) -> int:
    made, count = nest(depth), 0
    original = getattr(GraphNode, method)

    def counting(self: GraphNode, *given: str) -> Any:
        nonlocal count
        count += 1
        return original(self, *given)

    with monkeypatch.context() as patch:
        patch.setattr(GraphNode, method, counting)
        getattr(made, method)(*args)
    return count


@pytest.mark.parametrize(("method", "name"), [("get_input_type", "x"), ("get_output_type", "y")])
def test_type_lookup_is_linear_in_depth(monkeypatch: pytest.MonkeyPatch, method: str, name: str) -> None:
    assert [calls_of(monkeypatch, method, depth, name) for depth in (1, 10, 40)] == [1, 10, 40]
