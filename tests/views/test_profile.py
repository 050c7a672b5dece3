"""Where the time of the last runs went: nodes of nested graphs and items by path, self time and amounts."""

import pytest

from hypergraph import Graph, NodeContext, SyncRunner, node
from hypergraph.checkpointers import MemoryCheckpointer
from hypergraph.views.problems import Problem
from hypergraph.views.profile import profile
from hypergraph.views.steps import columns
from hypergraph.views.watch import running


@node(output_name="word")
def ask(text: str, context: NodeContext) -> str:
    context.record(tokens=len(text))
    return text.upper()


@node(output_name="text")
def read(path: str) -> str:
    return path


inner = Graph([ask], name="inner")
outer = Graph([read, inner.as_node()], name="outer")


def test_nested_nodes_have_a_path_and_only_their_own_time_counts_as_self() -> None:
    store = MemoryCheckpointer()
    runner = SyncRunner(checkpointer=store)
    for number in range(3):
        runner.run(outer, path="abc", workflow_id=f"run-{number}")
    runner.run(inner, text="x", workflow_id="other")
    found = profile(store, graph="outer", last=2)
    nodes = {item["path"]: item for item in found["items"]}
    assert (found["runs"], found["of"], found["left_out"]) == (2, 3, 0)
    assert set(nodes) == {"read", "inner", "inner/ask"}
    assert [nodes[path]["count"] for path in nodes] == [2, 2, 2]
    assert nodes["inner/ask"]["usage"] == {"tokens": 6}
    assert nodes["inner"]["self_ms"] < nodes["inner"]["total_ms"]
    assert nodes["read"]["self_ms"] == nodes["read"]["total_ms"]
    assert sum(item["share"] for item in found["items"]) == pytest.approx(1)
    assert profile(store, last=10)["runs"] == 4


def test_attempts_of_a_nested_graph_count_what_ran_inside_once() -> None:
    down = iter((True, True, False))

    @node(output_name="b")
    def use(word: str) -> str:
        if next(down):
            raise ConnectionError("down")
        return word

    nested = Graph([ask, use], name="nested")
    store = MemoryCheckpointer()
    for _ in range(3):
        runner = SyncRunner(checkpointer=store)
        runner.run(Graph([nested.as_node()]), text="abc", workflow_id="w", error_handling="continue")
    nodes = {item["path"]: item for item in profile(store)["items"]}
    assert {path: found["count"] for path, found in nodes.items()} == {
        "nested": 3,
        "nested/ask": 1,
        "nested/use": 3,
    }
    assert nodes["nested/ask"]["usage"] == {"tokens": 3}
    assert nodes["nested/use"]["error_rate"] == pytest.approx(2 / 3)
    assert 0 <= nodes["nested"]["self_ms"] <= nodes["nested"]["total_ms"]


def test_items_of_a_map_count_under_the_names_of_their_nodes() -> None:
    store = MemoryCheckpointer()
    runner = SyncRunner(checkpointer=store)
    runner.map(inner, text=["a", "bc"], map_over="text", workflow_id="batch")
    (found,) = profile(store)["items"]
    assert (found["path"], found["count"], found["usage"]) == ("ask", 2, {"tokens": 3})


@pytest.mark.parametrize("last", [0, 1001])
def test_a_number_of_runs_has_bounds(last: int) -> None:
    with pytest.raises(Problem, match="from 1 to 1000"):
        profile(MemoryCheckpointer(), last=last)


def test_columns_have_the_amounts_of_steps_and_of_the_runs_inside() -> None:
    store = MemoryCheckpointer()
    SyncRunner(checkpointer=store).run(outer, path="abc", workflow_id="w")
    assert columns(store, "w")["rows"]["usage"] == [None, {"tokens": 3}]
    assert columns(store, "w/inner")["rows"]["usage"] == [{"tokens": 3}]


def test_streams_of_an_ended_run_are_listed_and_nothing_is_running() -> None:
    @node(output_name="said", stream=True)
    def say(text: str, context: NodeContext) -> str:
        context.stream(text)
        return text

    store = MemoryCheckpointer()
    SyncRunner(checkpointer=store).run(Graph([say], name="say"), text="hi", workflow_id="w")
    found = running(store, "w")
    assert found["streams"] == [{"workflow": "w", "node": "say", "length": 1, "kept": 0}]
    assert (found["progress"], found["inner"]) == ([], [])
