"""Events with values, for the processors that ask for them; the item and path of events; progress."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hypergraph import (
    AsyncRunner,
    EventProcessor,
    Graph,
    NodeContext,
    NodeEndEvent,
    NodeProgressEvent,
    NodeStartEvent,
    SyncRunner,
    TypedEventProcessor,
    node,
)
from hypergraph.events.rich_progress import RichProgressProcessor


class Seen(EventProcessor):
    def __init__(self, *, values: bool = False) -> None:
        super().__init__(values=values)
        self.events: list[Any] = []

    def on_event(self, event: Any) -> None:
        self.events.append(event)

    def of(self, kind: type) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


@node(output_name="b")
def add(a: int) -> int:
    return a + 1


@node(output_name=("c", "d"))
def split(b: int, context: NodeContext) -> tuple[int, int]:
    context.stream(b)
    context.progress(1, 2, "half")
    return b, -b


@pytest.fixture(params=["sync", "async"])
def call(request: pytest.FixtureRequest) -> Any:
    def run(graph: Graph, method: str = "run", **options: Any) -> Any:
        if request.param == "sync":
            return getattr(SyncRunner(), method)(graph, **options)

        async def wait() -> Any:
            return await getattr(AsyncRunner(), method)(graph, **options)

        return asyncio.run(wait())

    return run


def test_a_processor_with_values_gets_inputs_and_outputs_and_others_do_not(call: Any) -> None:
    curious, other = Seen(values=True), Seen()
    call(Graph([add, split]), a=1, event_processors=[other, curious])
    assert [event.inputs for event in curious.of(NodeStartEvent)] == [{"a": 1}, {"b": 2}]
    assert [event.outputs for event in curious.of(NodeEndEvent)] == [{"b": 2}, {"c": 2, "d": -2}]
    assert all(event.inputs is None for event in other.of(NodeStartEvent))
    assert all(event.outputs is None for event in other.of(NodeEndEvent))
    assert [event.span_id for event in other.events] == [event.span_id for event in curious.events]


def test_a_class_with_a_constructor_of_its_own_sets_the_attribute(call: Any) -> None:
    class Own(TypedEventProcessor):
        values = True

        def __init__(self) -> None:
            self.seen: list[Any] = []

        def on_node_end(self, event: NodeEndEvent) -> None:
            self.seen.append(event.outputs)

    own = Own()
    call(Graph([add]), a=1, event_processors=[own])
    assert own.seen == [{"b": 2}]


def test_every_event_of_an_item_has_its_index_and_path(call: Any) -> None:
    seen = Seen()
    call(Graph([add, split]), "map", a=[1, 2], map_over="a", event_processors=[seen])
    first, *inside, last = seen.events
    assert {(event.item_index, event.path) for event in (first, last)} == {(None, ())}
    assert {(event.item_index, event.path) for event in inside} == {(0, ("item-0",)), (1, ("item-1",))}


def test_events_of_nested_graphs_have_the_path_from_the_outermost(call: Any) -> None:
    inner = Graph([add, split], name="inner")
    outer = Graph([inner.as_node(name="each").map_over("a")], name="outer")
    seen = Seen(values=True)
    call(outer, a=[1, 2], event_processors=[seen])
    starts = {(event.node_name, event.item_index, event.path) for event in seen.of(NodeStartEvent)}
    assert starts == {
        ("each", None, ()),
        *(("add", item, ("each", f"item-{item}")) for item in (0, 1)),
        *(("split", item, ("each", f"item-{item}")) for item in (0, 1)),
    }
    (whole,) = [event for event in seen.of(NodeEndEvent) if event.node_name == "each"]
    assert whole.outputs == {"b": [2, 3], "c": [2, 3], "d": [-2, -3]}


def test_progress_is_an_event_and_a_line(call: Any, capsys: pytest.CaptureFixture[str]) -> None:
    seen = Seen()
    lines = RichProgressProcessor(force_mode="non-tty")
    call(Graph([add, split], name="g"), a=1, event_processors=[seen, lines])
    (event,) = seen.of(NodeProgressEvent)
    assert (event.node_name, event.done, event.total, event.text) == ("split", 1, 2, "half")
    assert "▶ split 50% (1/2)" in capsys.readouterr().err


def test_bars_show_the_progress_of_a_node(capsys: pytest.CaptureFixture[str]) -> None:
    bars = RichProgressProcessor(force_mode="tty", transient=False)
    SyncRunner().run(Graph([add, split], name="g"), a=1, event_processors=[bars])
    assert "g" in capsys.readouterr().err
