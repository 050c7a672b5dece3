"""Items of a map that were stored before they begin: they leave what they would leave as resumed runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hypergraph import END, Graph, SyncRunner, node, route
from hypergraph.checkpointers import Checkpointer, MemoryCheckpointer, SqliteCheckpointer, WorkflowStatus
from hypergraph.checkpointers.records import NewWorkflow
from hypergraph.durability.code_hashes import node_hashes, recorded_structure
from hypergraph.durability.recorder import WorkflowRecorder


@dataclass
class Point:
    """A class whose fields are recorded."""

    x: int = 1


@node(output_name="doubled")
def double(x: int) -> int:
    """A node."""
    return 2 * x


@node(output_name="total")
def add(doubled: int, more: int = 5) -> int:
    """A node with a default."""
    return doubled + more


@node(output_name="x")
def grow(x: int) -> int:
    """A node of a loop."""
    return x + 1


@route(targets=["grow", END])
def again(x: int) -> Any:
    """A gate that ends a loop."""
    return "grow" if x < 4 else END


@node(output_name="moved")
def move(point: Point, x: int) -> int:
    """A node that takes an instance of a class."""
    return point.x + x


@node(output_name="broken")
def fail(x: int) -> int:
    """A node that fails."""
    raise ValueError(x)


GRAPHS = {
    "two nodes": (Graph([double, add], name="g"), {"x": 1}),
    "a default that is given": (Graph([double, add], name="g"), {"x": 1, "more": 7}),
    "a loop": (Graph([grow, again], name="g"), {"x": 1}),
    "a nested graph": (Graph([Graph([double], name="inner").as_node(), add], name="g"), {"x": 1}),
    "a mapped one": (Graph([Graph([double], name="inner").as_node().map_over("x")], name="g"), {"x": [1, 2]}),
    "a class": (Graph([move], name="g"), {"x": 1, "point": Point(3)}),
    "a failure": (Graph([double, fail], name="g"), {"x": 1}),
    "a version": (Graph([double], name="g", version="2"), {"x": 1}),
}


def stored_ahead(store: Checkpointer, graph: Graph, inputs: dict[str, Any], **changes: Any) -> None:
    """Store a map and an item of it, as the worker does that submits the items."""
    facts: dict[str, Any] = {
        "graph_name": graph.name,
        "graph_hash": graph.definition_hash,
        "graph": recorded_structure(graph),
        "node_hashes": node_hashes(graph),
        "version": graph.version,
    }
    code = NewWorkflow(**(facts | changes))
    store.backend.create("m", code, store.encoding)
    item = NewWorkflow(**(facts | changes), parent_id="m", item=0, inputs=inputs)
    store.backend.create("m/item-0", item, store.encoding)


def left(store: Checkpointer) -> Any:
    """Return all that is stored of the item and of what is inside of it, but for times."""
    found = {}
    for name in ("m/item-0", *(child.id for child in store.backend.children("m/item-0"))):
        workflow = store.backend.read_workflow(name)
        assert workflow is not None
        steps = [
            (
                s.superstep,
                s.index,
                s.node_name,
                s.status,
                s.input_versions,
                s.output_versions,
                s.values,
                s.error,
            )
            for s in store.steps(name)
        ]
        facts = (workflow.status, workflow.graph_hash, workflow.version, workflow.crashes)
        inputs = [(p.name, p.version, p.superstep, p.data) for p in store.backend.read_inputs(name)]
        found[name] = (facts, steps, sorted(inputs), store.state(name))
    return found


@pytest.mark.parametrize("name", GRAPHS)
def test_an_item_leaves_the_same_whether_it_is_begun_or_resumed(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (graph, inputs), found = GRAPHS[name], []
    for number, is_resumed in enumerate((False, True)):
        store = SqliteCheckpointer(tmp_path / f"{number}.db")
        stored_ahead(store, graph, inputs)
        with monkeypatch.context() as patch:
            if is_resumed:
                patch.setattr(WorkflowRecorder, "_is_untouched", lambda *args: False)
            runner = SyncRunner(checkpointer=store)
            result = runner.run(graph, inputs, workflow_id="m/item-0", error_handling="continue")
        found.append((result.status, dict(result.values), left(store)))
        again = runner.run(graph, workflow_id="m/item-0", error_handling="continue")
        assert again.status is result.status
        found[-1] += (dict(again.values), left(store))
        store.close()
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("graph_changes", "given"),
    [({}, {"x": 2}), ({"graph_hash": "other"}, {"x": 1}), ({"node_hashes": {"double": "other"}}, {"x": 1})],
)
def test_an_item_whose_code_or_inputs_changed_is_resumed(
    graph_changes: dict[str, Any], given: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, store = Graph([double], name="g"), MemoryCheckpointer()
    stored_ahead(store, graph, {"x": 1}, **graph_changes)
    resumed, real = [], WorkflowRecorder._resume

    def go_on(self: Any, *args: Any, **options: Any) -> bool:
        resumed.append(args)
        return real(self, *args, **options)

    monkeypatch.setattr(WorkflowRecorder, "_resume", go_on)
    result = SyncRunner(checkpointer=store).run(graph, given, workflow_id="m/item-0")
    assert result["doubled"] == 2 * given["x"]
    assert len(resumed) == 1
    assert store.workflow("m/item-0").status is WorkflowStatus.COMPLETED
