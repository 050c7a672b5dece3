"""Error messages about graphs, letter for letter: the cause and the fix of common mistakes."""

from typing import Any

import pytest

from hypergraph import END, FunctionNode, Graph, GraphConfigError, MissingInputError, SyncRunner, node, route


@node(output_name="words")
def split(text: str) -> list[str]:
    return text.split()


@node(output_name="total")
def count(words: list[str]) -> int:
    return len(words)


def message(error: type[Exception], call: Any) -> str:
    with pytest.raises(error) as caught:
        call()
    return str(caught.value)


def refused(*nodes: Any, **options: Any) -> str:
    return message(GraphConfigError, lambda: Graph(nodes, **options))


def test_two_producers() -> None:
    assert refused(split, split.with_name("split_again")) == (
        "Multiple nodes produce 'words'\n"
        "-> 'split' and 'split_again' could both run, in no fixed order\n"
        "How to fix: put them into exclusive branches of one gate, order them with emit/wait_for, "
        "or rename one output with with_outputs()."
    )


def test_types_are_shown_by_their_names() -> None:
    @node(output_name="x")
    def a() -> int: ...

    @node(output_name="y")
    def b(x: str) -> None: ...

    @node(output_name="z")
    def c(x: dict[str, int] | None) -> None: ...

    assert refused(a, b, strict_types=True) == (
        "Type mismatch for 'x'\n"
        "-> 'a' -> 'b', value 'x'\n"
        "-> 'a' returns int\n"
        "-> 'b' takes str\n"
        "How to fix: change one annotation, or put a converting node in between."
    )
    assert "'c' takes dict[str, int] | None" in refused(a, c, strict_types=True)


def test_a_misspelled_target() -> None:
    @route(targets=["splt", END])
    def g(x): ...

    assert refused(split, g) == (
        "Gate 'g' targets unknown node 'splt'\n"
        "-> nodes of this graph: split, g\n"
        "-> Did you mean 'split'?\n"
        "How to fix: add the node to the graph or correct the target."
    )


def test_a_lambda_without_a_name() -> None:
    expected = (
        "Invalid node name: '<lambda>'. Names must be valid Python identifiers\n"
        "-> a lambda has no name of its own: FunctionNode(<lambda>, outputs=('y',))\n"
        'How to fix: name it: FunctionNode(fn, "name", "output").'
    )
    one = node(lambda x: x, output_name="y")
    assert refused(one) == expected
    two = node(lambda x: x, output_name="z")
    found = message(GraphConfigError, lambda: Graph([one, two]))
    assert found.startswith(expected)
    assert "Duplicate" not in found
    Graph([FunctionNode(lambda x: x, "name", "output")])


def test_equal_names_of_nested_graphs_are_found_even_if_they_are_not_identifiers() -> None:
    inner = Graph([split], name="my-graph").as_node()
    assert refused(inner, inner) == (
        "Duplicate node name: 'my-graph'\n"
        "-> 2 nodes of this graph have the name 'my-graph'\n"
        "How to fix: rename all but one, e.g. with_name('my-graph_2')."
    )


def test_a_plain_function_is_named() -> None:
    def clean(text): ...

    assert message(TypeError, lambda: Graph([clean])) == (
        "function 'clean' is not a node; decorate it with @node(output_name=...), "
        "or write node(clean, output_name=...)."
    )
    assert message(TypeError, lambda: Graph([lambda x: x])) == (
        'A lambda is not a node; write FunctionNode(fn, "name", "output").'
    )
    assert message(TypeError, lambda: Graph([Graph([split])])) == (
        "Graph(unnamed, 1 node, outputs=('words',)) is not a node; use graph.as_node()."
    )


def test_a_single_node_belongs_into_a_list() -> None:
    assert message(TypeError, lambda: Graph(split)) == (
        "A graph takes a list of nodes, got FunctionNode(split, outputs=('words',)); write Graph([split])."
    )


def test_a_result_without_output_name_is_the_reason_for_a_missing_input() -> None:
    @node
    def words(text):
        return text.split()

    found = message(MissingInputError, lambda: SyncRunner().run(Graph([words, count]), text="a b"))
    assert (
        "-> node 'words' returns a value but has no output_name, so the value is dropped; "
        "add output_name='words' to make it an input of other nodes"
    ) in found.splitlines()


def test_a_node_that_returns_nothing_is_not_blamed() -> None:
    @node
    def log(text):
        if not text:
            return
        print(text)

    @node
    def note(text) -> None:
        return print(text)

    found = message(MissingInputError, lambda: SyncRunner().run(Graph([log, note, count]), text="a b"))
    assert "output_name" not in found
