"""Graphs that are built, bound, nested and changed for tests."""

from typing import assert_type

from hypergraph import Graph, GraphNode, chain, node
from hypergraph.testing import FakeClock, RecordingProcessor


@node(output_name="words")
def split(text: str) -> list[str]:
    return text.split()


@node(output_name="count")
def count(words: list[str]) -> int:
    return len(words)


graph = Graph([split, count], edges=chain(split, count), name="words")
assert_type(graph.bind(text="a b").select("count"), Graph)
assert_type(graph.as_node().map_over("text").with_inputs(text="texts"), GraphNode)
assert_type(graph.replace({"split": lambda text: [text], "count": count}), Graph)
assert_type(FakeClock().time.year, int)
assert_type(RecordingProcessor().shutdowns, int)

graph.replace({"split": "fake"})  # E: expected "str": "HyperNode | Callable[..., Any]"
graph.as_node(durability="none")  # E: expected "Literal['nested', 'atomic']"
