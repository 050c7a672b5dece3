"""Where the inputs of items and nested graphs came from: the workflow around them, or a correction."""

from typing import Any

import pytest

from hypergraph import Graph, SyncRunner, node
from hypergraph.checkpointers import MemoryCheckpointer
from hypergraph.views.why import why


@node(output_name="frames")
def split(raw: list[int]) -> list[int]:
    return [number * 10 for number in raw]


@node(output_name="t")
def clean(frame: int, unit: int) -> int:
    if frame < 0:
        raise ValueError("a negative number")
    return frame + unit


@node(output_name="s")
def add(ts: list[int]) -> int:
    return sum(ts)


CLEAN = Graph([clean], name="clean")


@pytest.fixture
def store() -> MemoryCheckpointer:
    """A workflow whose last item was repaired with another input."""
    store = MemoryCheckpointer()
    runner = SyncRunner(checkpointer=store)
    each = CLEAN.as_node(name="each").with_inputs(frame="frames").with_outputs(t="ts")
    graph = Graph([split, each.map_over("frames", error_handling="continue"), add], name="g")
    runner.run(graph, raw=[1, 2, -3], unit=1, workflow_id="m", error_handling="continue")
    runner.run(CLEAN, frame=30, workflow_id="m/each/item-2")
    assert runner.run(graph, workflow_id="m")["s"] == 63
    return store


def test_provenance_leads_from_an_item_to_the_workflow_around_it(store: MemoryCheckpointer) -> None:
    found = store.provenance("m/each/item-0", "t")
    told = [(o.workflow_id, o.name, o.version, o.value, o.source, o.step and o.step.node_name) for o in found]
    assert told[0] == ("m/each/item-0", "t", 1, 11, "step", "clean")
    assert set(told[1:3]) == {
        ("m/each/item-0", "frame", 1, 10, "around", None),
        ("m/each/item-0", "unit", 1, 1, "around", None),
    }
    assert told[3] == ("m", "frames", 1, [10, 20, -30], "step", "split")
    assert set(map(str, told[4:])) == {
        str(("m", "raw", 1, [1, 2, -3], "given", None)),
        str(("m", "unit", 1, 1, "given", None)),
    }
    around = {origin.name: origin.around for origin in found}
    assert around["frame"] is not None
    assert around["frame"].step is not None
    assert (around["frame"].step.workflow_id, around["frame"].step.node_name) == ("m", "split")
    assert found[1].to_dict()["around"]["workflow"] == "m"


def test_a_corrected_input_was_given(store: MemoryCheckpointer) -> None:
    found: dict[str, Any] = {o.name: o for o in reversed(store.provenance("m/each/item-2", "t"))}
    assert (found["frame"].value, found["frame"].source, found["frame"].around) == (30, "given", None)
    assert found["unit"].around is not None
    assert "frames" not in found


def test_why_says_what_the_items_took(store: MemoryCheckpointer) -> None:
    made = {item["name"]: item for item in why(store, "m", "s")["items"]}
    assert made["ts"]["corrected"] == [{"workflow": "m/each/item-2", "inputs": ["frame"]}]
    origins = {origin.name: origin.corrected for origin in store.provenance("m", "s")}
    assert origins == {"s": (), "ts": ("m/each/item-2",), "frames": (), "raw": (), "unit": ()}
    assert made["s"]["corrected"] == made["frames"]["corrected"] == []
    inside = {item["name"]: item for item in why(store, "m/each/item-0", "t")["items"]}
    assert inside["frame"]["given"] is False
    assert inside["frame"]["around"] == {
        "workflow": "m",
        "name": "frames",
        "version": 1,
        "made_by": {"index": 0, "node": "split", "superstep": 0},
    }
    assert inside["unit"]["around"] == {"workflow": "m", "name": "unit", "version": 1, "made_by": None}
    repaired = {item["name"]: item for item in why(store, "m/each/item-2", "t")["items"]}
    assert (repaired["frame"]["given"], repaired["frame"]["around"]) == (True, None)


def test_it_leads_through_several_levels() -> None:
    store = MemoryCheckpointer()
    middle = Graph([CLEAN.as_node(name="inner").with_inputs(frame="piece")], name="middle")
    outer = Graph(
        [split, middle.as_node(name="middle").with_inputs(piece="frames").map_over("frames")], name="o"
    )
    SyncRunner(checkpointer=store).run(outer, raw=[1, 2], unit=1, workflow_id="w")
    found = store.provenance("w/middle/item-1/inner", "t")
    assert [(o.workflow_id, o.name) for o in found if o.name not in ("unit", "t")] == [
        ("w/middle/item-1/inner", "frame"),
        ("w/middle/item-1", "piece"),
        ("w", "frames"),
        ("w", "raw"),
    ]


def test_items_of_an_outermost_map_were_given() -> None:
    store = MemoryCheckpointer()
    SyncRunner(checkpointer=store).map(CLEAN, {"frame": [1, 2], "unit": 1}, map_over="frame", workflow_id="m")
    assert {o.source for o in store.provenance("m/item-0", "t") if o.step is None} == {"given"}
