"""NodeContext: ids, logger, deadline, stop request and streaming, as a node sees them."""

from __future__ import annotations

import logging
import threading
import time
from typing import Any

import pytest
from support.listening import Recorder
from support.running import On, OnAsync, on

from hypergraph import (
    END,
    FunctionNode,
    Graph,
    InMemoryCache,
    NodeContext,
    RetryPolicy,
    StreamingChunkEvent,
    interrupt,
    node,
    route,
)
from hypergraph.checkpointers import MemoryCheckpointer

__all__ = ["on"]


def look(x: int, ctx: NodeContext) -> NodeContext:
    return ctx


LOOK = FunctionNode(look, output_name="seen")


def stored(on: On) -> On:
    """Return the same kind of runner with an empty store."""
    return type(on)(checkpointer=MemoryCheckpointer())


def seen(on: On, graph: Graph, **options: Any) -> NodeContext:
    context: NodeContext = on.run(graph, {"x": 1}, **options)["seen"]
    return context


def test_the_context_is_no_input() -> None:
    assert LOOK.inputs == ("x",)
    assert Graph([LOOK]).inputs.all == ("x",)


def test_it_is_found_by_type_whatever_its_name_and_place(on: On) -> None:
    def before(about: NodeContext, x: int) -> NodeContext:
        return about

    def optional(x: int, about: NodeContext | None = None) -> NodeContext | None:
        return about

    def keyword(x: int, *, about: NodeContext) -> NodeContext:
        return about

    for function in (before, optional, keyword):
        context = seen(on, Graph([FunctionNode(function, output_name="seen")]))
        assert context.node_name == function.__name__


def test_it_has_ids_superstep_and_attempt(on: On) -> None:
    @node(output_name="x")
    def first(w: int) -> int:
        return w

    @node(output_name="seen")
    def look(x: int, ctx: NodeContext) -> list[Any]:
        return [ctx.run_id, ctx.workflow_id, ctx.node_name, ctx.superstep, ctx.attempt, repr(ctx)]

    result = stored(on).run(Graph([first, look]), {"w": 1}, run_id="r", workflow_id="w")
    assert result["seen"] == ["r", "w", "look", 1, 1, "NodeContext('look', superstep=1, attempt=1)"]


def test_a_context_that_was_kept_still_belongs_to_its_node(on: On) -> None:
    kept: list[NodeContext] = []

    def keep(x: int, ctx: NodeContext) -> int:
        kept.append(ctx)
        return x + 1

    def forget(x: int, y: int, ctx: NodeContext) -> tuple[str, int]:
        return ctx.node_name, ctx.superstep

    nodes = [FunctionNode(keep, f"n{i}", f"v{i + 1}", rename_inputs={"x": f"v{i}"}) for i in range(4)]
    seen = [
        FunctionNode(forget, f"m{i}", f"w{i}", rename_inputs={"x": f"v{i}", "y": f"v{i + 1}"})
        for i in range(4)
    ]
    result = on.run(Graph([*nodes, *seen]), {"v0": 0})
    assert [(ctx.node_name, ctx.superstep) for ctx in kept] == [(f"n{i}", i) for i in range(4)]
    assert [result[f"w{i}"] for i in range(4)] == [(f"m{i}", i + 1) for i in range(4)]


def test_a_context_in_a_closure_or_a_thread_is_not_used_again(on: On) -> None:
    released, names = threading.Event(), []

    def start(x: int, ctx: NodeContext) -> threading.Thread:
        def later() -> None:
            released.wait(30)
            names.append(ctx.node_name)

        thread = threading.Thread(target=later)
        thread.start()
        return thread

    def close(thread: threading.Thread, ctx: NodeContext) -> Any:
        return lambda: (ctx.node_name, ctx.superstep)

    def end(say: Any, thread: threading.Thread, ctx: NodeContext) -> tuple[Any, str]:
        released.set()
        thread.join()
        return say(), ctx.node_name

    named = {"thread": start, "say": close, "said": end}
    graph = Graph([FunctionNode(function, output_name=name) for name, function in named.items()])
    assert on.run(graph, {"x": 1})["said"] == (("close", 1), "end")
    assert names == ["start"]


def test_without_a_workflow_there_is_no_workflow_id(on: On) -> None:
    context = seen(on, Graph([LOOK]))
    assert context.workflow_id is None
    assert context.run_id.startswith("run-")
    assert len(context.run_id) == len("run-") + 12


def test_the_run_id_is_that_of_the_result(on: On) -> None:
    result = on.run(Graph([LOOK]), {"x": 1})
    assert result["seen"].run_id == result.run_id


def test_inside_a_nested_graph_the_name_is_a_path_and_the_run_is_the_inner_one(on: On) -> None:
    inner = Graph([LOOK], name="inner")
    result = on.run(Graph([Graph([inner.as_node()], name="middle").as_node()]), {"x": 1}, run_id="outer")
    context = result["seen"]
    assert context.node_name == "middle/inner/look"
    assert context.run_id == result["middle"]["inner"].run_id != "outer"


def test_gates_and_interrupt_handlers_get_one_too() -> None:
    names: list[str] = []

    @route(targets=["ask", END])
    def gate(x: int, ctx: NodeContext) -> str:
        names.append(ctx.node_name)
        return "ask"

    @interrupt(output_name="answer")
    def ask(x: int, ctx: NodeContext) -> str:
        names.append(ctx.node_name)
        return "yes"

    assert OnAsync().run(Graph([gate, ask]), {"x": 1})["answer"] == "yes"
    assert names == ["gate", "ask"]


# -- deadlines -----------------------------------------------------------------------------------------


def test_without_a_timeout_there_is_no_deadline(on: On) -> None:
    assert seen(on, Graph([LOOK])).deadline is None


def test_the_deadline_is_the_earlier_of_run_and_node(on: On) -> None:
    def deadline(x: int, ctx: NodeContext) -> float:
        assert ctx.deadline is not None
        return ctx.deadline - time.monotonic()

    for own, whole, expected in (
        (1000.0, None, 1000),
        (None, 1000.0, 1000),
        (1000.0, 5000.0, 1000),
        (5000.0, 1000.0, 1000),
    ):
        graph = Graph([FunctionNode(deadline, output_name="left", timeout=own)])
        left = on.run(graph, {"x": 1}, timeout=whole)["left"]
        assert expected - 60 < left <= expected


def test_check_returns_nothing_while_there_is_time(on: On) -> None:
    def checks(x: int, ctx: NodeContext) -> Any:
        return ctx.check(), ctx.stop_requested  # type: ignore[func-returns-value]

    assert on.run(Graph([FunctionNode(checks, output_name="y")]), {"x": 1})["y"] == (None, False)


# -- logger --------------------------------------------------------------------------------------------


def test_the_logger_is_the_packages_unless_another_is_given(on: On) -> None:
    assert seen(on, Graph([LOOK])).logger is logging.getLogger("hypergraph")
    mine = logging.getLogger("tests.context")
    assert seen(type(on)(logger=mine), Graph([LOOK])).logger is mine


# -- idempotency ---------------------------------------------------------------------------------------


def test_the_idempotency_key_is_the_same_for_all_attempts_and_new_for_every_visit(on: On) -> None:
    keys: list[str] = []

    @node(output_name="n", retry=RetryPolicy(initial_delay=0))
    def count(n: int, ctx: NodeContext) -> int:
        keys.append(ctx.idempotency_key)
        if ctx.attempt == 1:
            raise ValueError("again")
        return n + 1

    @route(targets=["count", END])
    def gate(n: int) -> Any:
        return "count" if n < 2 else END

    on.run(Graph([count, gate]), {"n": 0})
    first, second, third, fourth = keys
    assert first == second != third == fourth


def test_idempotency_keys_of_map_items_differ(on: On) -> None:
    @node(output_name="key")
    def key(x: int, ctx: NodeContext) -> str:
        return ctx.idempotency_key

    keys = stored(on).map(Graph([key]), {"x": [1, 2, 3]}, map_over="x", workflow_id="w")["key"]
    assert len(set(keys)) == 3
    assert keys[0].startswith("w/item-0")
    again = stored(on).map(Graph([key]), {"x": [1, 2, 3]}, map_over="x", workflow_id="w")["key"]
    assert again == keys


def test_idempotency_keys_of_visits_of_a_nested_graph_differ(on: On) -> None:
    keys: list[str] = []

    @node(output_name="n")
    def count(n: int, ctx: NodeContext) -> int:
        keys.append(ctx.idempotency_key)
        return n + 1

    @route(targets=["inner", END])
    def gate(n: int) -> Any:
        return "inner" if n < 3 else END

    stored(on).run(Graph([Graph([count], name="inner").as_node(), gate]), {"n": 0}, workflow_id="w")
    assert keys == ["w/inner:count:1", "w/inner#2:count:1", "w/inner#3:count:1"]


# -- streaming -----------------------------------------------------------------------------------------


def test_streaming_reports_chunks_and_changes_nothing(on: On) -> None:
    heard = Recorder()

    @node(output_name="y")
    def streams(x: int, ctx: NodeContext) -> int:
        for chunk in ("a", "b"):
            ctx.stream(chunk)
        return x

    assert on.run(Graph([streams]), {"x": 1}, event_processors=[heard]).values == {"y": 1}
    chunks = heard.of(StreamingChunkEvent)
    assert [(event.node_name, event.chunk, event.chunk_index) for event in chunks] == [
        ("streams", "a", 0),
        ("streams", "b", 1),
    ]
    assert on.run(Graph([streams]), {"x": 1})["y"] == 1


def test_a_direct_call_may_pass_anything_as_context() -> None:
    marker: Any = object()
    assert LOOK(1, marker) is marker


def test_a_context_is_never_part_of_a_cache_key() -> None:
    calls: list[int] = []

    @node(output_name="y", cache=True)
    def counts(x: int, ctx: NodeContext) -> int:
        calls.append(x)
        return x

    on_cached = OnAsync(cache=InMemoryCache())
    for _ in range(2):
        on_cached.run(Graph([counts]), {"x": 1})
    assert calls == [1]


@pytest.mark.parametrize("name", ["run_id", "node_name", "attempt"])
def test_a_context_cannot_be_written_to(on: On, name: str) -> None:
    context = seen(on, Graph([LOOK]))
    with pytest.raises(AttributeError):
        setattr(context, name, "other")
