"""The tree of spans, rebuilt from events alone, says the same as the logs of the run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.listening import CLOSING, AwaitedRecorder, Recorder, assert_closed, breath
from support.running import run, run_async, run_sync

from hypergraph import (
    END,
    FunctionNode,
    Graph,
    MapLog,
    MapResult,
    NodeErrorEvent,
    NodeRecord,
    NodeStartEvent,
    RouteDecisionEvent,
    RunEndEvent,
    RunLog,
    RunStartEvent,
    node,
    route,
)

__all__ = ["run"]
Runs = Callable[..., Any]


@dataclass
class Span:
    """A run, a map or a node, with what happened inside."""

    start: Any
    end: Any = None
    inside: list[Span] = field(default_factory=list)
    decision: Any = None


def tree_of(events: list[Any]) -> Span:
    """Rebuild the tree by span ids."""
    spans: dict[str, Span] = {}
    roots = []
    for event in events:
        if isinstance(event, (RunStartEvent, NodeStartEvent)):
            spans[event.span_id] = span = Span(event)
            around = spans.get(event.parent_span_id or "")
            (roots if around is None else around.inside).append(span)
        elif isinstance(event, (RunEndEvent, *CLOSING)):
            spans[event.span_id].end = event
        elif isinstance(event, RouteDecisionEvent):
            gates = [
                s for s in spans[event.parent_span_id or ""].inside if s.start.node_name == event.node_name
            ]
            gates[-1].decision = event.decision
    (root,) = roots
    return root


def assert_tells(span: Span, log: RunLog) -> None:
    """Compare the span of a run with the log of that run, all levels down."""
    assert (span.start.graph_name, span.start.run_id) == (log.graph_name, log.run_id)
    assert round(span.end.duration_ms, 3) == log.total_duration_ms
    records = {record.span_id: record for record in log.steps}
    assert len(records) == len(log.steps)
    assert set(records) == {node.start.span_id for node in span.inside}
    for node_span in span.inside:
        record = records[node_span.start.span_id]
        assert record.node_name == node_span.start.node_name
        assert record.decision == node_span.decision
        failed = isinstance(node_span.end, NodeErrorEvent)
        assert failed == (record.status == "failed")
        assert not failed or node_span.end.error == record.error
        assert failed or round(node_span.end.duration_ms, 3) == record.duration_ms
        assert_inner(node_span, record.log)


def assert_inner(node_span: Span, log: Any) -> None:
    if log is None or (isinstance(log, MapLog) and not log):  # a map of nothing tells nothing
        assert node_span.inside == []
        return
    (inner,) = node_span.inside
    if isinstance(log, RunLog):
        assert_tells(inner, log)
        return
    assert isinstance(log, MapLog)
    assert inner.start.is_map
    by_id = {item.start.run_id: item for item in inner.inside}
    assert set(by_id) == {item.run_id for item in log}
    for item in log:
        assert_tells(by_id[item.run_id], item)


# -- a deep run with maps, loops and failures ---------------------------------------------------------


@node(output_name="n")
def grow(n: int) -> int:
    return n + 1


@route(targets=["grow", END])
def enough(n: int) -> Any:
    return END if n >= 3 else "grow"


@node(output_name="checked")
def check(n: int, limit: int) -> int:
    if n > limit:
        raise ValueError(f"{n} is beyond {limit}")
    return n


@node(output_name="total")
def add(checked: list[Any]) -> int:
    return sum(value or 0 for value in checked)


def deep(error_handling: str) -> Graph:
    loop = Graph([grow, enough], name="loop")
    item = Graph([loop.as_node(), check], name="item")
    batch = item.as_node(name="batch").map_over("n", error_handling=error_handling)
    middle = Graph([batch, add], name="middle")
    return Graph([middle.as_node()], name="outer")


INPUTS = {"n": [0, 7, 2], "limit": 5}


def test_a_deep_run_with_a_failed_item_tells_the_same_in_events_and_logs(run: Runs) -> None:
    heard = Recorder()
    result = run(deep("continue"), INPUTS, event_processors=[heard])
    assert result["total"] == 6
    assert_closed(heard.events)
    assert_tells(tree_of(heard.events), result.log)
    middle = result["middle"]
    assert isinstance(middle["batch"], MapResult)
    assert middle["batch"].partial
    assert [item["loop"]["n"] for item in middle["batch"]] == [3, 7, 3]


def test_a_deep_failure_tells_the_same_in_events_and_logs(run: Runs) -> None:
    heard = Recorder()
    result = run(deep("raise"), INPUTS, event_processors=[heard], error_handling="continue")
    assert result.failed
    assert result.failure.node_name == "middle/batch/check"
    assert result.failure.item_index == 1
    assert_closed(heard.events)
    assert_tells(tree_of(heard.events), result.log)
    path = [end.graph_name for end in heard.of(RunEndEvent) if end.status.value in ("failed", "partial")]
    assert path == ["item", "item", "middle", "outer"]
    batch = result["middle"].log.steps[0]
    assert (batch.status, batch.error) == ("failed", "7 is beyond 5")


def test_spans_of_async_nodes_that_interleave_are_kept_apart() -> None:
    @node(output_name="y")
    async def wait(x: int) -> int:
        for _ in range(x):
            await breath()
        if x == 3:
            raise ValueError("three")
        return x

    inner = Graph([wait, FunctionNode(grow, output_name="m", rename_inputs={"n": "y"})], name="inner")
    mapped = inner.as_node().map_over("x", error_handling="continue")
    for heard in (Recorder(), AwaitedRecorder()):
        result = run_async(Graph([mapped], name="outer"), {"x": [5, 1, 3, 0]}, event_processors=[heard])
        assert result["m"] == [6, 2, None, 1]
        assert_closed(heard.events)
        assert_tells(tree_of(heard.events), result.log)


def test_without_listeners_the_logs_are_the_same_but_for_spans(run: Runs) -> None:
    def shape(log: Any) -> Any:
        if log is None:
            return None
        if isinstance(log, MapLog):
            return [shape(item) for item in log]
        return [(r.node_name, r.superstep, r.status, r.error, r.decision, shape(r.log)) for r in log.steps]

    heard = run(deep("continue"), INPUTS, event_processors=[Recorder()])
    alone = run(deep("continue"), INPUTS)
    assert shape(heard.log) == shape(alone.log)
    assert {record.span_id for record in alone.log.steps} == {""}


@pytest.mark.slow
@given(st.data())
def test_every_random_nesting_tells_the_same_in_events_and_logs(data: Any) -> None:
    def level(depth: int) -> Graph:
        nodes = [
            FunctionNode(check, name=f"check{depth}", output_name=f"checked{depth}"),
            FunctionNode(grow, name=f"grow{depth}", output_name=f"m{depth}"),
        ]
        if depth:
            inner = level(depth - 1).as_node()
            nodes.append(inner.map_over("n") if data.draw(st.booleans()) and not mapped(inner) else inner)
        return Graph(nodes, name=f"level{depth}")

    def mapped(graph_node: Any) -> bool:
        return any(
            getattr(inner, "map_config", None) or (inner.nested_graph and mapped(inner))
            for inner in graph_node.graph.iter_nodes()
        )

    graph = level(data.draw(st.integers(0, 3)))
    has_map = mapped(graph.as_node())
    run_one = data.draw(st.sampled_from([run_sync, run_async]))
    heard = Recorder()
    value: Any = (
        data.draw(st.lists(st.integers(0, 9), max_size=3)) if has_map else data.draw(st.integers(0, 9))
    )
    result = run_one(graph, {"n": value, "limit": 5}, event_processors=[heard], error_handling="continue")
    assert_closed(heard.events)
    assert_tells(tree_of(heard.events), result.log)


def test_listening_to_a_nested_map_makes_one_record_per_execution(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []

    def counting(**fields: Any) -> NodeRecord:
        made[-1] += 1
        return NodeRecord(**fields)

    monkeypatch.setattr("hypergraph.runs.build.NodeRecord", counting)
    inner = Graph([grow], name="inner").as_node().map_over("n")
    graph = Graph([Graph([inner], name="middle").as_node()])
    for size in (100, 1000):
        made.append(0)
        assert run_async(graph, {"n": list(range(size))}, event_processors=[Recorder()]).log.steps
    assert made == [102, 1002]
