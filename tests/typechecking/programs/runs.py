"""Runs and their results: a result always has a log."""

from typing import Any, assert_type

from hypergraph import AsyncRunner, Graph, MapResult, RunLog, RunResult, SyncRunner, node
from hypergraph.runners import NodeStop, RunDebugger


@node(output_name="total")
def add(a: int, b: int = 1) -> int:
    return a + b


graph = Graph([add], name="sum")
result = SyncRunner().run(graph, a=1)
assert_type(result, RunResult)
assert_type(result.log, RunLog)
assert_type([step.node_name for step in result.log.steps], list[str])
assert_type(result["total"], Any)
mapped = SyncRunner().map(graph, {"a": [1, 2]}, map_over="a")
assert_type(mapped, MapResult)
assert_type(mapped[0].log.timing, dict[str, float])
assert_type(SyncRunner().iter(graph, a=1, step=True), RunDebugger)
assert_type(list(SyncRunner().iter(graph, {"a": 1}, step=True)), list[NodeStop])


async def main() -> RunResult:
    return await AsyncRunner().run(graph, {"a": 1})


SyncRunner().run(add)  # E: expected "Graph"
print(result.log.step)  # E: "RunLog" has no attribute "step"
print(result.pause.node_name)  # E: Item "None" of "PauseInfo | None" has no attribute "node_name"
Graph([len])  # E: expected "HyperNode"
