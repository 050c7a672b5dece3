"""Caching in real runs: what is a hit, what it delivers, and what is never kept."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.listening import Recorder, assert_closed
from support.running import map_, run, run_async

from hypergraph import (
    END,
    CacheHitEvent,
    DiskCache,
    FunctionNode,
    Graph,
    InMemoryCache,
    InterruptEvent,
    InterruptNode,
    NodeContext,
    NodeEndEvent,
    RetryPolicy,
    RouteDecisionEvent,
    RouteNode,
    StreamingChunkEvent,
    SyncRunner,
    ifelse,
    interrupt,
    node,
    route,
)
from hypergraph.cache import compute_cache_key

__all__ = ["map_", "run"]
Runs = Callable[..., Any]


class Counted:
    """A cached node around a function that counts its calls."""

    def __init__(self, func: Callable[..., Any] = lambda x: x * 2, **options: Any) -> None:
        self.calls = 0

        def f(x):  # type: ignore[no-untyped-def]  # without a hint its result may be dropped
            self.calls += 1
            return func(x)

        self.node = FunctionNode(f, **{"output_name": "y", "cache": True, **options})


class Spying(InMemoryCache):
    """A cache that shows what it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[str, Any] = {}

    def set(self, key: str, value: Any) -> None:
        self.kept[key] = value
        super().set(key, value)


def statuses(result: Any) -> list[str]:
    return [record.status for record in result.log.steps]


# -- C1: opt-in twice ---------------------------------------------------------------------------------


def test_a_second_run_takes_the_result_from_the_cache(run: Runs) -> None:
    counted, cache = Counted(), InMemoryCache()
    for status in ("completed", "cached"):
        result = run(Graph([counted.node]), {"x": 2}, cache=cache)
        assert (result["y"], statuses(result)) == (4, [status])
    assert counted.calls == 1
    record = result.log.steps[0]
    assert (record.cached, record.duration_ms, record.error) == (True, 0.0, None)
    assert result.log.node_stats["f"].cached == 1


def test_other_inputs_are_another_call(run: Runs) -> None:
    counted, cache = Counted(), InMemoryCache()
    assert [run(Graph([counted.node]), {"x": x}, cache=cache)["y"] for x in (1, 2, 1, True)] == [2, 4, 2, 2]
    assert counted.calls == 3


@pytest.mark.parametrize(("on_node", "on_runner"), [(True, False), (False, True), (False, False)])
def test_caching_needs_both_the_node_and_the_runner(run: Runs, on_node: bool, on_runner: bool) -> None:
    counted = Counted(cache=on_node)
    cache = Spying() if on_runner else None
    for _ in range(2):
        assert statuses(run(Graph([counted.node]), {"x": 1}, cache=cache)) == ["completed"]
    assert counted.calls == 2
    assert cache is None or cache.kept == {}


def test_something_else_than_a_cache_is_refused() -> None:
    with pytest.raises(TypeError, match="cache must have get"):
        SyncRunner(cache={})  # type: ignore[arg-type]


# -- C3: keys -----------------------------------------------------------------------------------------


def test_inputs_count_under_their_original_names(run: Runs) -> None:
    counted, cache = Counted(), Spying()
    run(Graph([counted.node.with_inputs(x="renamed")]), {"renamed": 3}, cache=cache)
    assert list(cache.kept) == [compute_cache_key(counted.node.definition_hash, {"x": 3})]


def test_inputs_that_cannot_be_pickled_mean_no_caching_for_that_call(run: Runs) -> None:
    counted, cache = Counted(lambda x: 1), Spying()
    lock = threading.Lock()
    for _ in range(2):
        result = run(Graph([counted.node]), {"x": lock}, cache=cache)
        assert (result["y"], statuses(result)) == (1, ["completed"])
    assert (counted.calls, cache.kept) == (2, {})
    run(Graph([counted.node]), {"x": 1}, cache=cache)
    assert statuses(run(Graph([counted.node]), {"x": 1}, cache=cache)) == ["cached"]


def test_defaults_and_bound_values_are_part_of_the_key(run: Runs) -> None:
    calls: list[int] = []

    @node(output_name="y", cache=True)
    def add(x: int, by: int = 1) -> int:
        calls.append(by)
        return x + by

    graph, cache = Graph([add]), InMemoryCache()
    given = [run(graph, {"x": 1}, cache=cache)["y"], run(graph, {"x": 1, "by": 1}, cache=cache)["y"]]
    bound = run(graph.bind(by=5), {"x": 1}, cache=cache)["y"]
    assert ([*given, bound], calls) == ([2, 2, 6], [1, 5])


def test_the_context_is_never_part_of_the_key(run: Runs) -> None:
    calls: list[str] = []

    @node(output_name="y", cache=True)
    def f(x: int, ctx: NodeContext) -> int:
        calls.append(ctx.run_id)
        return x

    cache = InMemoryCache()
    for _ in range(2):
        assert run(Graph([f]), {"x": 1}, cache=cache)["y"] == 1
    assert len(calls) == 1


def test_an_input_changed_in_place_does_not_change_the_key(run: Runs) -> None:
    counted, cache = Counted(lambda x: x.append(0) or len(x)), InMemoryCache()
    for _ in range(2):
        assert run(Graph([counted.node]), {"x": [1]}, cache=cache)["y"] == 2
    assert counted.calls == 1


# -- C4: what a function captured ---------------------------------------------------------------------


def test_nodes_of_one_factory_never_share_an_entry(run: Runs) -> None:
    def times(factor: int) -> FunctionNode:
        def scale(x: int) -> int:
            return x * factor

        return FunctionNode(scale, name=f"times{factor}", output_name=f"y{factor}", cache=True)

    cache = InMemoryCache()
    for _ in range(2):
        result = run(Graph([times(2), times(3)]), {"x": 5}, cache=cache)
        assert result.values == {"y2": 10, "y3": 15}
    assert statuses(result) == ["cached", "cached"]


def test_a_captured_object_without_content_makes_the_key_private(run: Runs) -> None:
    def of(thing: object) -> FunctionNode:
        def f(x: int) -> str:
            return f"{x} {thing is first}"

        return FunctionNode(f, output_name="y", cache=True)

    first, cache = object(), InMemoryCache()
    mine, other = of(first), of(object())
    assert run(Graph([mine]), {"x": 1}, cache=cache)["y"] == "1 True"
    assert run(Graph([other]), {"x": 1}, cache=cache)["y"] == "1 False"
    assert statuses(run(Graph([mine]), {"x": 1}, cache=cache)) == ["cached"]


# -- C5: renames --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "result",
    [(1, 2), [1, 2], {"a": 1, "b": 2}, {"b": 2, "a": 1}],
    ids=["tuple", "list", "dict", "dict turned"],
)
def test_a_hit_after_with_outputs_delivers_every_output_under_its_new_name(run: Runs, result: Any) -> None:
    counted, cache = Counted(lambda x: result, output_name=("a", "b")), InMemoryCache()
    assert run(Graph([counted.node]), {"x": 0}, cache=cache).values == {"a": 1, "b": 2}
    renamed = counted.node.with_outputs(a="p", b="q").with_name("other").with_inputs(x="z")
    again = run(Graph([renamed], name="elsewhere"), {"z": 0}, cache=cache)
    assert (again.values, statuses(again)) == ({"p": 1, "q": 2}, ["cached"])
    swapped = run(Graph([counted.node.with_outputs(a="b", b="a")]), {"x": 0}, cache=cache)
    assert (swapped.values, statuses(swapped)) == ({"a": 2, "b": 1}, ["cached"])
    assert counted.calls == 1


def test_one_function_with_one_and_with_two_outputs_gets_what_each_would_compute(run: Runs) -> None:
    counted, cache = Counted(lambda x: {"a": 1, "b": 2}, output_name=("a", "b")), InMemoryCache()
    run(Graph([counted.node]), {"x": 0}, cache=cache)
    whole = FunctionNode(counted.node.func, output_name="whole", cache=True)
    turned = FunctionNode(counted.node.func, output_name=("b", "a"), cache=True)
    assert run(Graph([whole]), {"x": 0}, cache=cache).values == {"whole": {"a": 1, "b": 2}}
    assert run(Graph([turned]), {"x": 0}, cache=cache).values == {"a": 1, "b": 2}
    assert counted.calls == 1


# -- C6: what is kept ---------------------------------------------------------------------------------


def test_exceptions_are_never_kept(run: Runs) -> None:
    def fail_once(x: int) -> int:
        if counted.calls == 1:
            raise ValueError("once")
        return x

    counted, cache = Counted(fail_once), Spying()
    assert run(Graph([counted.node]), {"x": 1}, cache=cache, error_handling="continue").failed
    assert cache.kept == {}
    assert run(Graph([counted.node]), {"x": 1}, cache=cache)["y"] == 1


@pytest.mark.parametrize("bad", [None, (1, 2, 3), {"a": 1}, "ab", 5])
def test_a_result_that_breaks_the_contract_is_not_kept(run: Runs, bad: Any) -> None:
    counted, cache = Counted(lambda x: bad, output_name=("a", "b")), Spying()
    for calls in (1, 2):
        assert run(Graph([counted.node]), {"x": 1}, cache=cache, error_handling="continue").failed
        assert (counted.calls, cache.kept) == (calls, {})


def test_none_is_a_result_like_any_other(run: Runs) -> None:
    counted, cache = Counted(lambda x: None), InMemoryCache()
    results = [run(Graph([counted.node]), {"x": 1}, cache=cache) for _ in range(2)]
    assert [(result.values, *statuses(result)) for result in results] == [
        ({"y": None}, "completed"),
        ({"y": None}, "cached"),
    ]


def test_a_side_effect_happens_once(run: Runs) -> None:
    counted, cache = Counted(output_name=None), InMemoryCache()
    for _ in range(2):
        assert run(Graph([counted.node]), {"x": 1}, cache=cache).values == {}
    assert counted.calls == 1


def test_a_hit_raises_the_markers_a_call_would_raise(run: Runs) -> None:
    counted, cache = Counted(emit="done"), Spying()

    @node(output_name="z", wait_for="done")
    def after(x: int) -> int:
        return x

    for _ in range(2):
        result = run(Graph([counted.node, after]), {"x": 1}, cache=cache)
        assert result.values == {"y": 2, "z": 1}
    assert list(cache.kept.values()) == [2]


def test_a_generator_is_kept_as_its_items_and_a_hit_streams_nothing(run: Runs) -> None:
    @node(output_name="y", cache=True)
    def count(x: int) -> Any:
        yield from range(x)

    cache = InMemoryCache()
    for chunks in (3, 0):
        heard = Recorder()
        assert run(Graph([count]), {"x": 3}, cache=cache, event_processors=[heard])["y"] == [0, 1, 2]
        assert len(heard.of(StreamingChunkEvent)) == chunks


def test_a_retried_call_is_kept_and_a_hit_counts_as_one_attempt(run: Runs) -> None:
    def flaky(x: int) -> int:
        if counted.calls == 1:
            raise ConnectionError
        return x

    retry = RetryPolicy(max_attempts=2, initial_delay=0.0, jitter=0.0)
    counted, cache = Counted(flaky, retry=retry), InMemoryCache()
    attempts = [run(Graph([counted.node]), {"x": 1}, cache=cache).log.steps[0].attempt for _ in range(2)]
    assert (attempts, counted.calls) == ([2, 1], 2)


def test_async_nodes_are_cached_too() -> None:
    calls: list[int] = []

    @node(output_name="y", cache=True)
    async def f(x: int) -> int:
        calls.append(x)
        return x

    @node(output_name="z", cache=True)
    async def items(y: int) -> Any:
        yield y
        yield y + 1

    cache = InMemoryCache()
    for _ in range(2):
        assert run_async(Graph([f, items]), {"x": 1}, cache=cache).values == {"y": 1, "z": [1, 2]}
    assert calls == [1]


# -- gates --------------------------------------------------------------------------------------------


@node(output_name="left")
def go_left(x: int) -> int:
    return x


@node(output_name="right")
def go_right(x: int) -> int:
    return x


@pytest.mark.parametrize(
    ("decision", "values", "shown"),
    [
        ("go_left", {"left": 1}, "go_left"),
        (END, {}, "END"),
        (None, {"right": 1}, "go_right"),
    ],
)
def test_a_cached_gate_decides_without_being_called(
    run: Runs, decision: Any, values: Any, shown: Any
) -> None:
    calls: list[int] = []

    def choose(x: int) -> Any:
        calls.append(x)
        return decision

    gate = RouteNode(choose, ["go_left", "go_right", END], fallback="go_right", cache=True)
    cache = Spying()
    for _ in range(2):
        heard = Recorder()
        result = run(Graph([gate, go_left, go_right]), {"x": 1}, cache=cache, event_processors=[heard])
        assert result.values == values
        assert result.log.steps[0].decision == shown
        assert [event.decision for event in heard.of(RouteDecisionEvent)] == [shown]
    assert calls == [1]
    assert list(cache.kept.values()) == [decision]


def test_cached_gates_of_several_targets_and_of_two(run: Runs) -> None:
    calls: list[str] = []

    @route(targets=["go_left", "go_right"], multi_target=True, cache=True)
    def both(x: int) -> list[str]:
        calls.append("both")
        return ["go_left", "go_right"]

    @ifelse(when_true="go_left", when_false="go_right", cache=True)
    def which(x: int) -> bool:
        calls.append("which")
        return False

    cache = InMemoryCache()
    for _ in range(2):
        assert run(Graph([both, go_left, go_right]), {"x": 1}, cache=cache).values == {"left": 1, "right": 1}
        assert run(Graph([which, go_left, go_right]), {"x": 1}, cache=cache).values == {"right": 1}
    assert calls == ["both", "which"]


def test_a_gate_that_decides_wrongly_is_not_kept(run: Runs) -> None:
    @route(targets=["go_left"], cache=True)
    def choose(x: int) -> str:
        return "nowhere"

    cache = Spying()
    with pytest.raises(ValueError, match="invalid target"):
        run(Graph([choose, go_left]), {"x": 1}, cache=cache)
    assert cache.kept == {}


def test_a_cached_loop_takes_every_round_from_the_cache(run: Runs) -> None:
    calls: list[int] = []

    @node(output_name="n", cache=True)
    def step(n: int) -> int:
        calls.append(n)
        return n + 1

    @route(targets=["step", END], cache=True)
    def again(n: int) -> Any:
        calls.append(-n)
        return "step" if n < 3 else END

    cache = InMemoryCache()
    logs = [run(Graph([step, again]), {"n": 0}, cache=cache) for _ in range(2)]
    assert [result["n"] for result in logs] == [3, 3]
    assert [(r.node_name, r.decision) for r in logs[0].log.steps] == [
        (r.node_name, r.decision) for r in logs[1].log.steps
    ]
    assert {record.status for record in logs[1].log.steps} == {"cached"}
    assert len(calls) == 7


# -- interrupts ---------------------------------------------------------------------------------------


def test_an_answer_of_a_handler_is_cached_and_a_pause_is_not() -> None:
    calls: list[int] = []

    @interrupt(output_name="verdict", cache=True)
    def ask(x: int) -> str | None:
        calls.append(x)
        return "fine" if x else None

    cache = Spying()
    for _ in range(2):
        heard = Recorder()
        assert run_async(Graph([ask]), {"x": 0}, cache=cache, event_processors=[heard]).paused
        assert len(heard.of(InterruptEvent)) == 1
        assert run_async(Graph([ask]), {"x": 1}, cache=cache)["verdict"] == "fine"
    assert (calls, list(cache.kept.values())) == ([0, 1, 0], ["fine"])
    assert statuses(run_async(Graph([ask]), {"x": 1}, cache=cache)) == ["cached"]


def test_an_answer_that_was_given_is_not_cached() -> None:
    @interrupt(output_name="verdict", cache=True)
    def ask(x: int) -> None:
        return None

    cache = Spying()
    result = run_async(Graph([ask]), {"x": 1, "verdict": "ok"}, cache=cache)
    assert (result["verdict"], statuses(result), cache.kept) == ("ok", ["completed"], {})


def test_a_handler_that_breaks_its_contract_is_not_kept() -> None:
    bad = InterruptNode(lambda x: {"a": 1}, "ask", ("a", "b"), cache=True)
    cache = Spying()
    result = run_async(Graph([bad]), {"x": 1}, cache=cache, error_handling="continue")
    assert (type(result.error), cache.kept) == (ValueError, {})
    assert "missing: ['b']" in str(result.error)


def test_a_cached_answer_of_several_parts_survives_renames() -> None:
    def handler(x: int) -> dict[str, int]:
        return {"a": 1, "b": 2}

    ask, cache = InterruptNode(handler, "ask", ("a", "b"), cache=True), InMemoryCache()
    assert run_async(Graph([ask]), {"x": 1}, cache=cache).values == {"a": 1, "b": 2}
    again = run_async(Graph([ask.with_outputs(a="p", b="q")]), {"x": 1}, cache=cache)
    assert (again.values, statuses(again)) == ({"p": 1, "q": 2}, ["cached"])


# -- nesting and maps ---------------------------------------------------------------------------------


def test_nodes_inside_nested_graphs_and_maps_cache_by_themselves(run: Runs) -> None:
    counted, cache = Counted(), InMemoryCache()
    inner = Graph([counted.node], name="inner")
    assert run(Graph([counted.node]), {"x": 1}, cache=cache)["y"] == 2
    nested = run(Graph([inner.as_node()]), {"x": 1}, cache=cache)
    assert (nested["y"], statuses(nested), statuses(nested["inner"])) == (2, ["completed"], ["cached"])
    mapped = run(Graph([inner.as_node().map_over("x")]), {"x": [1, 2, 1]}, cache=cache)
    assert mapped["y"] == [2, 4, 2]
    assert mapped.log.steps[0].log.node_stats["f"].cached >= 1
    assert counted.calls == 2


def test_map_items_share_the_cache(map_: Runs) -> None:
    counted, cache = Counted(), InMemoryCache()
    results = map_(Graph([counted.node]), {"x": [1, 1, 2, 1]}, map_over="x", cache=cache)
    assert results["y"] == [2, 2, 4, 2]
    assert counted.calls == 2
    assert [record.status for item in results.log for record in item.steps] == [
        *("completed", "cached", "completed", "cached")
    ]


# -- C7: events ---------------------------------------------------------------------------------------


def test_a_hit_is_told_between_start_and_end(run: Runs) -> None:
    counted, cache = Counted(), InMemoryCache()

    @route(targets=[END], cache=True)
    def stop(y: int) -> Any:
        return END

    graph = Graph([counted.node, stop], name="g")
    run(graph, {"x": 1}, cache=cache)
    heard = Recorder()
    run(graph, {"x": 1}, cache=cache, event_processors=[heard])
    assert heard.short == [
        *("RunStart g", "SuperstepStart g", "NodeStart f", "CacheHit f", "NodeEnd f"),
        *("SuperstepStart g", "NodeStart stop", "CacheHit stop", "RouteDecision stop", "NodeEnd stop"),
        "RunEnd g",
    ]
    assert [(event.cached, event.duration_ms) for event in heard.of(NodeEndEvent)] == [(True, 0.0)] * 2
    assert heard.of(CacheHitEvent)[0].cache_key == compute_cache_key(counted.node.definition_hash, {"x": 1})
    assert_closed(heard.events)


# -- backends -----------------------------------------------------------------------------------------


def test_a_disk_cache_serves_other_runners(run: Runs, tmp_path: Path) -> None:
    counted = Counted()

    @route(targets=["f", END], cache=True)
    def gate(x: int) -> Any:
        return END if x > 5 else "f"

    for x, values in ((1, {"y": 2}), (9, {})):
        for status in ("completed", "cached"):
            result = run(Graph([gate, counted.node]), {"x": x}, cache=DiskCache(tmp_path / "cache"))
            assert (result.values, set(statuses(result))) == (values, {status})


def test_a_broken_cache_costs_hits_and_never_a_run(run: Runs, caplog: Any) -> None:
    class Broken:
        def get(self, key: str) -> tuple[bool, Any]:
            raise OSError("disk is gone")

        def set(self, key: str, value: Any) -> None:
            raise OSError("disk is gone")

    counted = Counted()
    with caplog.at_level(logging.WARNING, "hypergraph"):
        assert run(Graph([counted.node]), {"x": 1}, cache=Broken())["y"] == 2
    assert len(caplog.records) == 2


def test_a_cache_that_returns_no_pair_is_told_what_to_return(run: Runs, caplog: Any) -> None:
    class Plain(InMemoryCache):
        def get(self, key: str) -> Any:
            return None

    counted = Counted()
    with caplog.at_level(logging.WARNING, "hypergraph"):
        assert run(Graph([counted.node]), {"x": 1}, cache=Plain())["y"] == 2
    assert "Plain.get must return (True, value) or (False, None), got NoneType" in caplog.text
