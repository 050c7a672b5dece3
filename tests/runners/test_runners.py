"""The calls of both runners: signatures, options, iterating, background runs."""

from __future__ import annotations

import asyncio
import dataclasses
import gc
import inspect
import re
import threading
import warnings
from argparse import Namespace
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from typing import Any

import pytest
from support.listening import Recorder, assert_closed
from support.running import On, OnAsync, OnSync, on, order

from hypergraph import (
    END,
    AsyncRunner,
    BaseRunner,
    CancellationError,
    CheckpointSavedEvent,
    Event,
    EventProcessor,
    FunctionNode,
    Graph,
    GraphConfigError,
    InfiniteLoopError,
    InterruptNode,
    MissingInputError,
    NodeContext,
    NodeEndEvent,
    NodeStartEvent,
    RunEndEvent,
    RunResult,
    RunStartEvent,
    RunStatus,
    SuperstepStartEvent,
    SyncRunner,
    ifelse,
    interrupt,
    node,
    route,
)
from hypergraph.checkpointers import MemoryCheckpointer
from hypergraph.durability.journal import Intents
from hypergraph.engine.options import RunOptions
from hypergraph.exceptions import WorkflowLockedError
from hypergraph.runners import MapHandle, PauseExecution, RunHandle, RunnerCapabilities

__all__ = ["on"]


@node(output_name="b")
def double(a: int) -> int:
    return a * 2


@node(output_name="c")
def inc(b: int) -> int:
    return b + 1


@node(output_name="b")
def boom(a: int) -> int:
    raise ValueError("boom")


LINE = Graph([double, inc], name="line")

# -- signatures ----------------------------------------------------------------------------------------

RUN_OPTIONS = {
    "select": None,
    "on_missing": "ignore",
    "on_internal_override": "warn",
    "entrypoint": None,
    "max_iterations": None,
    "error_handling": "raise",
    "event_processors": None,
    "timeout": None,
    "run_id": None,
    "workflow_id": None,
}


@pytest.mark.parametrize("runner", [SyncRunner, AsyncRunner])
def test_run_takes_its_options_by_keyword_with_these_defaults(runner: Any) -> None:
    parameters = inspect.signature(runner.run).parameters
    assert [*parameters][:3] == ["self", "graph", "values"]
    assert parameters["values"].default is None
    for name, default in RUN_OPTIONS.items():
        assert parameters[name].kind is inspect.Parameter.KEYWORD_ONLY
        if name != "select":
            assert parameters[name].default == default
    assert ("max_concurrency" in parameters) == (runner is AsyncRunner)
    assert [*parameters][-1] == "input_values"


@pytest.mark.parametrize("runner", [SyncRunner, AsyncRunner])
@pytest.mark.parametrize("call", ["map", "map_iter", "start_map"])
def test_maps_need_to_know_what_to_map_over(runner: Any, call: str) -> None:
    parameters = inspect.signature(getattr(runner, call)).parameters
    assert parameters["map_over"].default is inspect.Parameter.empty
    assert (parameters["map_mode"].default, parameters["clone"].default) == ("zip", False)


def test_async_calls_are_coroutines() -> None:
    assert asyncio.iscoroutinefunction(AsyncRunner.run)
    assert asyncio.iscoroutinefunction(AsyncRunner.map)
    assert not inspect.iscoroutinefunction(SyncRunner.run)


def test_the_base_class_is_abstract() -> None:
    assert BaseRunner.__abstractmethods__ == {"capabilities", "run", "map"}
    assert issubclass(SyncRunner, BaseRunner)
    assert issubclass(AsyncRunner, BaseRunner)
    with pytest.raises(TypeError, match="abstract"):
        BaseRunner()  # type: ignore[abstract]


def test_capabilities_say_what_a_runner_can_do() -> None:
    assert dataclasses.asdict(RunnerCapabilities()) == {
        "supports_cycles": True,
        "supports_async_nodes": False,
        "supports_streaming": False,
        "returns_coroutine": False,
        "supports_interrupts": False,
        "supports_checkpointing": False,
    }
    assert SyncRunner().capabilities == RunnerCapabilities(supports_interrupts=True)
    assert AsyncRunner().capabilities == RunnerCapabilities(
        supports_async_nodes=True, returns_coroutine=True, supports_interrupts=True
    )


@pytest.mark.parametrize("limit", [0, -1, 1.5, True, "10"])
def test_max_iterations_is_a_positive_int(on: On, limit: Any) -> None:
    with pytest.raises(ValueError, match="max_iterations"):
        type(on)(max_iterations=limit)
    with pytest.raises(ValueError, match="max_iterations"):
        on.run(LINE, {"a": 1}, max_iterations=limit)


def test_a_cache_must_be_one(on: On) -> None:
    with pytest.raises(TypeError, match="cache"):
        type(on)(cache=object())


# -- inputs --------------------------------------------------------------------------------------------


def test_inputs_are_given_as_values_keywords_or_both(on: On) -> None:
    @node(output_name="s")
    def add(x: int, y: int) -> int:
        return x + y

    graph = Graph([add])
    assert on.run(graph, {"x": 1, "y": 2})["s"] == 3
    assert on.run(graph, x=1, y=2)["s"] == 3
    assert on.run(graph, {"x": 1}, y=2)["s"] == 3
    with pytest.raises(ValueError, match="both values and kwargs"):
        on.run(graph, {"x": 1, "y": 2}, y=2)


@pytest.mark.parametrize("values", [[("a", 1)], "a", 7])
def test_values_must_be_a_mapping(on: On, values: Any) -> None:
    with pytest.raises(TypeError, match="mapping"):
        on.run(LINE, values)


def test_only_graphs_can_be_run(on: On) -> None:
    with pytest.raises(TypeError, match="Graph"):
        on.run(double, {"a": 1})


def test_the_values_given_are_left_alone(on: On) -> None:
    values = {"a": 1}
    on.run(LINE, values)
    assert values == {"a": 1}


RESERVED = [
    "key",
    "map_over",
    "clone",
]


@pytest.mark.parametrize(
    "option",
    [
        {"new_turn": True},
        {"tags": {"a": "b"}},
        {"force": True},
        {"wait": True},
        {"history": [], "workflow_id": "w"},
        {"fork_from": ("v", 0), "workflow_id": "w"},
    ],
)
def test_what_needs_a_store_is_refused_without_one(on: On, option: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"needs? a runner with a checkpointer: .*checkpointer='runs.db'"):
        on.run(Graph([double]), {"x": 1}, **option)


@pytest.mark.parametrize("name", RESERVED)
def test_options_of_other_calls_are_no_inputs(on: On, name: str) -> None:
    with pytest.raises(ValueError, match="reserved runner options") as caught:
        on.run(LINE, {"a": 1}, **{name: 1})
    assert name in str(caught.value)
    assert "values" in str(caught.value)


def test_options_a_call_does_not_have_are_refused_by_all_its_variants() -> None:
    runner = SyncRunner()
    for call in (runner.run, runner.iter, runner.start_run):
        with pytest.raises(ValueError, match="reserved runner options: max_concurrency"):
            call(LINE, {"a": 1}, max_concurrency=2)
    for map_call in (runner.map, runner.map_iter, runner.start_map):
        with pytest.raises(ValueError, match="reserved runner options: run_id"):
            map_call(LINE, {"a": [1]}, map_over="a", run_id="r")


@pytest.mark.parametrize("name", sorted(RunOptions.__annotations__))
def test_an_input_called_like_any_option_is_told_where_it_goes(on: On, name: str) -> None:
    scope: dict[str, Any] = {}
    exec(f"def uses({name}): return {name}", scope)
    graph = Graph([FunctionNode(scope["uses"], "uses", "y")])
    assert on.run(graph, {name: 7})["y"] == 7
    with pytest.raises(ValueError, match=f"reserved runner options: {name}.*pass it in `values`"):
        on.run(graph, **{name: 7})


def test_an_answer_called_like_an_option_is_told_where_it_goes(on: On) -> None:
    graph = Graph([InterruptNode(lambda x: None, name="ask", output_name="budget")])
    with pytest.raises(ValueError, match="reserved runner options: budget"):
        on.run(graph, x=1, budget=7)


def test_an_input_called_like_an_option_is_given_in_values(on: On) -> None:
    @node(output_name="y")
    def uses(timeout: int) -> int:
        return timeout

    graph = Graph([uses])
    assert on.run(graph, {"timeout": 7})["y"] == 7
    with pytest.raises(ValueError, match="reserved runner options: timeout"):
        on.run(graph, timeout=7)
    assert on.run(graph, {"timeout": 7}, timeout=60)["y"] == 7


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ({"on_missing": "never"}, "Invalid on_missing"),
        ({"error_handling": "ignore"}, "Invalid error_handling"),
        ({"on_internal_override": "never"}, "Invalid on_internal_override"),
    ],
)
def test_unknown_policies_are_refused(on: On, option: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        on.run(LINE, {"a": 1}, **option)
    if "error_handling" in option:
        with pytest.raises(ValueError, match="How to fix"):
            on.map(LINE, {"a": [1]}, map_over="a", **option)


# -- results -------------------------------------------------------------------------------------------


def test_a_run_has_an_id_of_its_own_or_the_one_given(on: On) -> None:
    first, second = on.run(LINE, {"a": 1}), on.run(LINE, {"a": 1})
    assert re.fullmatch(r"run-[0-9a-f]{12}", first.run_id)
    assert first.run_id != second.run_id
    named = on.run(LINE, {"a": 1}, run_id="mine")
    assert (named.run_id, named.workflow_id, named.log.run_id) == ("mine", None, "mine")
    on.runner.checkpointer = MemoryCheckpointer()
    assert on.run(LINE, {"a": 1}, workflow_id="w").workflow_id == "w"


def test_select_restricts_what_is_returned(on: On) -> None:
    assert on.run(LINE, {"a": 1}).values == {"b": 2, "c": 3}
    assert on.run(LINE, {"a": 1}, select="c").values == {"c": 3}
    assert on.run(LINE, {"a": 1}, select=["c", "b"]).values == {"c": 3, "b": 2}
    narrow = LINE.select("c")
    assert on.run(narrow, {"a": 1}).values == {"c": 3}
    assert on.run(narrow, {"a": 1}, select="**").values == {"b": 2, "c": 3}
    with pytest.raises(GraphConfigError, match="Invalid select"):
        on.run(LINE, {"a": 1}, select="d")
    with pytest.raises(GraphConfigError, match="it names no output"):
        on.run(LINE, {"a": 1}, select=[])


def test_missing_outputs_follow_the_policy(on: On) -> None:
    @ifelse("double", END)
    def gate(a: int) -> bool:
        return a > 0

    graph = Graph([gate, double])
    assert on.run(graph, {"a": 0}, select="b").values == {}
    with pytest.warns(UserWarning, match="Requested outputs not found"):
        on.run(graph, {"a": 0}, select="b", on_missing="warn")
    with pytest.raises(ValueError, match="Requested outputs not found"):
        on.run(graph, {"a": 0}, select="b", on_missing="error")


def test_an_entry_point_can_be_chosen_for_a_loop(on: On) -> None:
    @node(output_name="question")
    def ask(answer: str) -> str:
        return answer + "?"

    @node(output_name="answer")
    def reply(question: str) -> str:
        return question + "!"

    @route(targets=["ask", END])
    def gate(answer: str) -> Any:
        return END if len(answer) > 4 else "ask"

    graph = Graph([ask, reply, gate])
    assert order(on.run(graph, {"question": "q"}, entrypoint="reply"))[0] == "reply"
    with pytest.raises(ValueError, match="is not a valid entry point"):
        on.run(graph, {"question": "q"}, entrypoint="nobody")


def test_the_limit_of_iterations_comes_from_the_call_or_the_runner(on: On) -> None:
    @node(output_name="n")
    def count(n: int) -> int:
        return n + 1

    @route(targets=["count", END])
    def gate(n: int) -> str:
        return "count"

    graph = Graph([count, gate])
    strict = type(on)(max_iterations=7)
    for options, expected in (({}, 7), ({"max_iterations": None}, 7), ({"max_iterations": 3}, 3)):
        result = strict.run(graph, {"n": 0}, error_handling="continue", **options)
        assert isinstance(result.error, InfiniteLoopError)
        assert result.error.max_iterations == expected
        assert result.log.node_stats["gate"].count == expected
        assert result.error.log.steps == result.log.steps
    nested = Graph([graph.as_node(name="inner")])
    assert strict.run(nested, {"n": 0}, error_handling="continue").failed


def test_a_graph_without_cycles_needs_no_limit(on: On) -> None:
    assert on.run(LINE, {"a": 1}, max_iterations=1).completed


def test_a_pause_never_escapes_as_its_signal() -> None:
    @interrupt(output_name="answer")
    def ask(a: int) -> None:
        return None

    result = OnAsync().run(Graph([Graph([ask], name="inner").as_node()]), {"a": 1})
    assert result.paused
    assert issubclass(PauseExecution, BaseException)

    @node(output_name="y")
    def raises(a: int) -> int:
        raise PauseExecution(None)  # type: ignore[arg-type]

    assert not OnSync().run(Graph([raises]), {"a": 1}, error_handling="continue").completed


# -- iter ----------------------------------------------------------------------------------------------


def test_iter_yields_the_events_in_order_and_then_has_the_result(on: On) -> None:
    heard = Recorder()
    events, result = on.iter(LINE, {"a": 1}, event_processors=[heard])
    assert events == heard.events
    assert isinstance(events[0], RunStartEvent)
    assert isinstance(events[-1], RunEndEvent)
    assert [event.node_name for event in events if isinstance(event, NodeEndEvent)] == ["double", "inc"]
    assert result.values == {"b": 2, "c": 3}
    assert {event.run_id for event in events} == {result.run_id}
    assert heard.shutdowns == 1


def test_iter_raises_a_failure_after_the_last_event(on: On) -> None:
    heard = Recorder()
    with pytest.raises(ValueError, match="boom"):
        on.iter(Graph([boom]), {"a": 1}, event_processors=[heard])
    assert_closed(heard.events)
    events, result = on.iter(Graph([boom]), {"a": 1}, error_handling="continue")
    assert result.failed
    assert events[-1].status is RunStatus.FAILED


def test_iter_checks_the_call_before_anything_runs(on: On) -> None:
    with pytest.raises(MissingInputError):
        on.iter(LINE)


def test_a_missing_input_is_named_with_who_needs_it_and_what_was_passed_instead(on: On) -> None:
    @node(output_name="text")
    def write(topic: str, tone: str = "dry") -> str:
        return topic

    graph = Graph([write], name="essay")
    with pytest.raises(MissingInputError) as caught:
        on.run(graph, topc="tea")
    assert str(caught.value) == (
        "Missing required inputs of graph 'essay': 'topic'\n"
        "-> 'topic' is needed by write; you passed 'topc'. Did you mean 'topic'?\n"
        "-> provided: 'topc'\n"
        "-> other inputs, which may be given: 'tone'\n"
        "How to fix: call run(graph, topic=...), or bind them; "
        "bind returns a new graph: graph.bind(topic=...)."
    )


def test_a_method_decorated_in_its_class_is_told_to_bring_its_object(on: On) -> None:
    class Shop:
        rate = 2

        @node(output_name="decorated")
        def inside(self, net: int) -> int:
            return net

        def price(self, net: int) -> int:
            return net * self.rate

    with pytest.raises(MissingInputError, match=r"'self' is needed by inside; .* node\(an_object\.method, "):
        on.run(Graph([Shop.inside]), net=1)
    assert on.run(Graph([node(Shop().price, output_name="gross")]), net=1)["gross"] == 2


def test_a_selection_is_made_of_names(on: On) -> None:
    with pytest.raises(TypeError, match="select takes the name of an output or a list of names, got int 3"):
        on.run(LINE, {"a": 1}, select=3)


def test_there_is_no_result_before_the_last_event() -> None:
    iterator = SyncRunner().iter(LINE, {"a": 1}, run_id="r")
    assert iterator.run_id == "r"
    next(iterator)
    with pytest.raises(RuntimeError, match="not ended"):
        _ = iterator.result
    assert list(iterator)
    assert iterator.result is iterator.result


def test_a_run_goes_on_only_as_far_as_somebody_asks(on: On) -> None:
    seen: list[str] = []

    @node(output_name="b")
    def first(a: int) -> int:
        seen.append("first")
        return a

    @node(output_name="c")
    def second(b: int) -> int:
        seen.append("second")
        return b

    graph = Graph([first, second])

    async def awaited() -> RunResult:
        iterator = on.runner.iter(graph, {"a": 1})
        async for event in iterator:
            if isinstance(event, NodeEndEvent):
                break
        await iterator.aclose()
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return iterator.result

    if on.is_async:
        result = asyncio.run(awaited())
    else:
        iterator = on.runner.iter(graph, {"a": 1})
        for event in iterator:
            if isinstance(event, NodeEndEvent):
                break
        result = iterator.result
    assert seen == ["first"]
    assert result.stopped
    assert result.values == {"b": 1}
    assert isinstance(result.error, CancellationError)


def test_what_is_refused_after_leaving_a_loop_says_that_aclose_waits_for_the_end() -> None:
    @node(output_name="c")
    async def slow(b: int) -> int:
        await asyncio.sleep(0.01)
        return b

    async def awaited() -> RunResult:
        runner = AsyncRunner(checkpointer=MemoryCheckpointer())
        iterator = runner.iter(Graph([slow]), {"b": 1}, workflow_id="w")
        async for event in iterator:
            if isinstance(event, NodeStartEvent):
                break
        with pytest.raises(RuntimeError, match="`await aclose\\(\\)` stops the run and waits for its end"):
            _ = iterator.result
        with pytest.raises(WorkflowLockedError, match=r"It is this process: .* aclose\(\)"):
            await runner.run(Graph([slow]), workflow_id="w")
        await iterator.aclose()
        assert iterator.result.workflow_id == "w"
        return await runner.run(Graph([slow]), workflow_id="w")

    assert asyncio.run(awaited())["c"] == 1


@pytest.mark.parametrize("rounds", range(4))
def test_a_loop_that_was_left_can_be_closed_at_any_time(rounds: int) -> None:
    troubles: list[Any] = []

    @node(output_name="c")
    async def slow(b: int) -> int:
        for _ in range(5):
            await asyncio.sleep(0)
        return b

    async def awaited() -> RunResult:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: troubles.append(context))
        iterator = AsyncRunner().iter(Graph([slow]), {"b": 1})
        async for event in iterator:
            if isinstance(event, NodeStartEvent):
                break
        for _ in range(rounds):
            await asyncio.sleep(0)
        await iterator.aclose()
        return iterator.result

    assert asyncio.run(awaited())["c"] == 1
    gc.collect()
    assert troubles == []


@pytest.mark.parametrize("again", ["for", "next"])
@pytest.mark.parametrize("step", [False, True], ids=["events", "stops"])
def test_a_loop_after_one_that_was_left_finds_the_run_stopped(on: On, step: bool, again: str) -> None:
    troubles: list[Any] = []

    async def awaited() -> Any:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: troubles.append(context))
        iterator = on.runner.iter(LINE, {"a": 1}, step=step)
        async for _ in iterator:
            break
        if again == "next":
            with pytest.raises(StopAsyncIteration):
                await anext(iterator)
        assert [thing async for thing in iterator] == []
        while len(asyncio.all_tasks()) > 1:
            await asyncio.sleep(0)
        return iterator

    def direct() -> Any:
        iterator = on.runner.iter(LINE, {"a": 1}, step=step)
        for _ in iterator:
            break
        assert next(iterator, None) is None
        assert list(iterator) == []
        return iterator

    iterator = asyncio.run(awaited()) if on.is_async else direct()
    assert iterator.result.status is RunStatus.STOPPED
    gc.collect()
    assert troubles == []


@pytest.mark.parametrize("in_cycle", [False, True])
@pytest.mark.parametrize("step", [False, True], ids=["events", "stops"])
@pytest.mark.parametrize("with_executor", [False, True])
def test_a_run_stops_when_its_iterator_is_dropped(with_executor: bool, step: bool, in_cycle: bool) -> None:
    troubles: list[Any] = []
    heard, holder = Recorder(), Namespace()
    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(2) as executor:
        patch.setattr("sys.unraisablehook", troubles.append)
        runner = SyncRunner(executor=executor if with_executor else None)
        holder.iterator = runner.iter(LINE, {"a": 1}, step=step, event_processors=[heard])
        if in_cycle:
            holder.own = holder
        next(holder.iterator)
        del holder
        gc.collect()
    assert troubles == []
    assert heard.of(RunEndEvent)[-1].status is RunStatus.STOPPED
    assert heard.of(NodeEndEvent) == []


@pytest.mark.parametrize("with_executor", [False, True])
def test_a_map_stops_when_its_iterator_is_dropped(with_executor: bool) -> None:
    store = MemoryCheckpointer()
    with ThreadPoolExecutor(2) as executor:
        runner = SyncRunner(checkpointer=store, executor=executor if with_executor else None)
        items = runner.map_iter(LINE, a=list(range(50)), map_over="a", workflow_id="m")
        next(items)
        del items
        gc.collect()
    assert store.workflow("m").status.value == "stopped"


def test_an_async_run_stops_when_its_iterator_is_dropped() -> None:
    heard, troubles = Recorder(), []

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: troubles.append(context))
        iterator = AsyncRunner().iter(LINE, {"a": 1}, event_processors=[heard])
        await anext(iterator)
        del iterator
        gc.collect()
        while len(asyncio.all_tasks()) > 1:
            await asyncio.sleep(0)

    asyncio.run(main())
    assert troubles == []
    assert heard.of(RunEndEvent)[-1].status is RunStatus.STOPPED


def test_leaving_the_loop_stops_and_closes_the_run(on: On) -> None:
    heard = Recorder()

    async def awaited() -> None:
        async for event in on.runner.iter(LINE, {"a": 1}, event_processors=[heard]):
            if isinstance(event, NodeStartEvent):
                break
        while len(asyncio.all_tasks()) > 1:  # what was left behind by `break` comes to its end by itself
            await asyncio.sleep(0)

    if on.is_async:
        asyncio.run(awaited())
    else:
        for event in on.runner.iter(LINE, {"a": 1}, event_processors=[heard]):
            if isinstance(event, NodeStartEvent):
                break
    assert heard.of(RunEndEvent)[-1].status is RunStatus.STOPPED
    assert_closed(heard.events)
    assert heard.shutdowns == 1


BETWEEN = [(CheckpointSavedEvent, True), (SuperstepStartEvent, True), (SuperstepStartEvent, False)]


@pytest.mark.parametrize("by_processor", [False, True], ids=["left", "stop"])
@pytest.mark.parametrize(("kind", "stored"), BETWEEN)
def test_a_stop_between_two_nodes_keeps_the_next_one_from_starting(
    on: On, kind: type[Event], stored: bool, by_processor: bool
) -> None:
    called: list[str] = []
    first = FunctionNode(lambda x: called.append("f") or x, "f", "y")
    second = FunctionNode(lambda y: called.append("g") or y, "g", "z")
    runner = type(on.runner)(checkpointer=MemoryCheckpointer() if stored else None)
    graph, options = Graph([first, second]), {"workflow_id": "w"} if stored else {"run_id": "w"}

    class Stops(EventProcessor):
        def on_event(self, event: Event) -> None:
            if by_processor and called and isinstance(event, kind):
                runner.stop("w")

    async def awaited() -> RunResult:
        iterator = runner.iter(graph, x=1, error_handling="continue", event_processors=[Stops()], **options)
        async with aclosing(iterator):
            async for event in iterator:
                if called and isinstance(event, kind) and not by_processor:
                    break
        return iterator.result  # type: ignore[no-any-return]

    def direct() -> RunResult:
        iterator = runner.iter(graph, x=1, error_handling="continue", event_processors=[Stops()], **options)
        for event in iterator:
            if called and isinstance(event, kind) and not by_processor:
                break
        return iterator.result  # type: ignore[no-any-return]

    result = asyncio.run(awaited()) if on.is_async else direct()
    assert (result.status, called, order(result)) == (RunStatus.STOPPED, ["f"], ["f"])
    if stored:
        runner = on.runner.__class__(checkpointer=runner.checkpointer)
        resumed = runner.run(graph, workflow_id="w")
        assert (asyncio.run(resumed) if on.is_async else resumed)["z"] == 1
        assert called == ["f", "g"]


def test_a_call_not_to_be_repeated_that_was_not_begun_is_not_ambiguous(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = Intents.__init__

    def wary(self: Intents, *args: Any) -> None:
        made(self, *args)
        self.wary = True  # as after a crash

    monkeypatch.setattr(Intents, "__init__", wary)
    pay = FunctionNode(lambda b: b, "pay", "paid", repeatable=False)
    runner, graph = SyncRunner(checkpointer=MemoryCheckpointer()), Graph([double, pay])
    for event in runner.iter(graph, a=1, workflow_id="w"):
        if isinstance(event, CheckpointSavedEvent):
            break
    assert runner.run(graph, workflow_id="w")["paid"] == 2


def test_an_error_of_the_consumer_stops_the_run(on: On) -> None:
    heard = Recorder()

    async def awaited() -> None:
        async with aclosing(on.runner.iter(LINE, {"a": 1}, event_processors=[heard])) as iterator:
            async for _ in iterator:
                raise LookupError("the consumer's own")

    def direct() -> None:
        for _ in on.runner.iter(LINE, {"a": 1}, event_processors=[heard]):
            raise LookupError("the consumer's own")

    with pytest.raises(LookupError):
        asyncio.run(awaited()) if on.is_async else direct()
    assert_closed(heard.events)
    assert heard.of(NodeEndEvent) == []


def test_cancelling_the_consumer_cancels_the_run() -> None:
    heard = Recorder()

    async def main() -> None:
        entered = asyncio.Event()

        @node(output_name="y")
        async def waits(x: int) -> int:
            entered.set()
            return await asyncio.get_running_loop().create_future()

        async def consume() -> None:
            async for _ in AsyncRunner().iter(Graph([waits]), {"x": 1}, event_processors=[heard]):
                pass

        task = asyncio.create_task(consume())
        await entered.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        while len(asyncio.all_tasks()) > 1:
            await asyncio.sleep(0)

    asyncio.run(main())
    assert_closed(heard.events)
    assert heard.of(RunEndEvent)[-1].status is RunStatus.STOPPED


def test_functions_under_way_do_not_wait_for_the_consumer() -> None:
    async def main() -> RunResult:
        finished = asyncio.Event()

        @node(output_name="p")
        async def one(x: int) -> int:
            await asyncio.sleep(0)
            finished.set()
            return x

        @node(output_name="q")
        async def two(x: int) -> int:
            return x

        iterator = AsyncRunner().iter(Graph([one, two]), {"x": 1})
        async for event in iterator:
            if isinstance(event, NodeEndEvent) and event.node_name == "two":
                async with asyncio.timeout(30):
                    await finished.wait()
        return iterator.result

    assert asyncio.run(main()).completed


def test_an_async_iterator_without_a_loop_says_what_it_needs() -> None:
    for step in (False, True):
        with pytest.raises(RuntimeError, match=re.escape("start that with asyncio.run(main())")):
            AsyncRunner().iter(LINE, {"a": 1}, step=step)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"run_id": 3}, "run_id must be a text that is not empty, got 3"),
        ({"run_id": ""}, "run_id must be a text that is not empty, got ''"),
        ({"timeout": 10**400}, "timeout is too large"),
    ],
)
def test_options_that_cannot_work_are_refused(on: On, options: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        on.run(LINE, {"a": 1}, **options)


# -- map_iter ------------------------------------------------------------------------------------------


def test_map_iter_yields_items_as_they_finish(on: On) -> None:
    items = on.map_iter(LINE, {"a": [1, 2, 3]}, map_over="a")
    assert sorted((index, result["c"]) for index, result in items) == [(0, 3), (1, 5), (2, 7)]


def test_map_iter_yields_in_the_order_of_finishing() -> None:
    async def main() -> list[int]:
        done = [asyncio.Event() for _ in range(4)]
        done[3].set()

        @node(output_name="y")
        async def after_the_next(x: int) -> int:
            await done[x + 1].wait()
            done[x].set()
            return x

        graph = Graph([after_the_next])
        return [index async for index, _ in AsyncRunner().map_iter(graph, {"x": [0, 1, 2]}, map_over="x")]

    assert asyncio.run(main()) == [2, 1, 0]


def test_map_iter_raises_a_failure_after_the_items_that_ran(on: On) -> None:
    @node(output_name="y")
    def invert(x: int) -> float:
        return 1 / x

    found: list[int] = []

    async def awaited() -> None:
        async for index, _ in on.runner.map_iter(Graph([invert]), {"x": [1, 0]}, map_over="x"):
            found.append(index)

    def direct() -> None:
        for index, _ in on.runner.map_iter(Graph([invert]), {"x": [1, 0]}, map_over="x"):
            found.append(index)

    with pytest.raises(ZeroDivisionError):
        asyncio.run(awaited()) if on.is_async else direct()
    assert found == [0, 1]
    every = on.map_iter(Graph([invert]), {"x": [1, 0]}, map_over="x", error_handling="continue")
    assert [result.status for _, result in every] == [RunStatus.COMPLETED, RunStatus.FAILED]


def test_leaving_map_iter_stops_the_map(on: On) -> None:
    seen: list[int] = []

    @node(output_name="y")
    def note(x: int) -> int:
        seen.append(x)
        return x

    async def awaited() -> None:
        items = on.runner.map_iter(Graph([note]), {"x": [1, 2, 3]}, map_over="x")
        async with aclosing(items):
            async for _ in items:
                break
        assert asyncio.all_tasks() == {asyncio.current_task()}

    if on.is_async:
        asyncio.run(awaited())
    else:
        for _ in on.runner.map_iter(Graph([note]), {"x": [1, 2, 3]}, map_over="x"):
            break
    assert seen == [1]


def test_leaving_a_map_iter_that_is_kept_stops_the_map(on: On) -> None:
    store = MemoryCheckpointer()
    runner = type(on.runner)(checkpointer=store)
    options: dict[str, Any] = {"a": [1, 2, 3], "map_over": "a", "workflow_id": "m"}

    async def awaited() -> list[Any]:
        items = runner.map_iter(LINE, **options)
        async for _ in items:
            break
        return [item async for item in items]

    def direct() -> list[Any]:
        items = runner.map_iter(LINE, **options)
        for _ in items:
            break
        return list(items)

    assert (asyncio.run(awaited()) if on.is_async else direct()) == []
    assert store.workflow("m").status.value == "stopped"


def test_the_error_for_a_locked_map_does_not_name_an_option_that_it_lacks() -> None:
    runner = SyncRunner(checkpointer=MemoryCheckpointer())
    items = runner.map_iter(LINE, a=[1, 2], map_over="a", workflow_id="m")
    next(items)
    with pytest.raises(
        WorkflowLockedError, match=r"with run\(\.\.\., wait=True\), or call map\(\) again when"
    ):
        runner.map(LINE, a=[1, 2], map_over="a", workflow_id="m")


def test_map_iter_checks_the_call_before_anything_runs(on: On) -> None:
    with pytest.raises(ValueError, match="equal lengths"):
        on.map_iter(LINE, {"a": [1], "b": [1, 2]}, map_over=["a", "b"])


# -- handles -------------------------------------------------------------------------------------------


def test_background_calls_give_what_direct_calls_give(on: On) -> None:
    assert on.start_run(LINE, {"a": 1}).values == {"b": 2, "c": 3}
    assert on.start_map(LINE, {"a": [1, 2]}, map_over="a")["c"] == [3, 5]
    with pytest.raises(ValueError, match="boom"):
        on.start_run(Graph([boom]), {"a": 1})
    assert on.start_run(Graph([boom]), {"a": 1}, error_handling="continue").failed
    with pytest.raises(ValueError, match="boom"):
        on.start_map(Graph([boom]), {"a": [1]}, map_over="a")


def test_mistakes_in_the_call_are_raised_before_anything_starts(on: On) -> None:
    before = threading.active_count()
    with pytest.raises(MissingInputError):
        on.start_run(LINE)
    with pytest.raises(ValueError, match="equal lengths"):
        on.start_map(LINE, {"a": [1], "b": []}, map_over=["a", "b"])
    assert threading.active_count() == before


def test_a_sync_handle_says_whether_it_is_done_and_can_be_asked_again() -> None:
    released = threading.Event()

    @node(output_name="y")
    def waits(x: int) -> int:
        assert released.wait(30)
        return x

    handle = SyncRunner().start_run(Graph([waits]), {"x": 1}, run_id="r")
    assert isinstance(handle, RunHandle)
    assert (handle.run_id, handle.done) == ("r", False)
    assert "running" in repr(handle)
    found: list[RunResult] = []
    threads = [threading.Thread(target=lambda: found.append(handle.result())) for _ in range(3)]
    for thread in threads:
        thread.start()
    released.set()
    for thread in threads:
        thread.join()
    assert handle.done
    assert all(result is handle.result() for result in found)
    assert isinstance(SyncRunner().start_map(LINE, {"a": [1]}, map_over="a"), MapHandle)


def test_an_async_handle_says_whether_it_is_done_and_can_be_asked_again() -> None:
    async def main() -> None:
        released = asyncio.Event()

        @node(output_name="y")
        async def waits(x: int) -> int:
            await released.wait()
            return x

        handle = AsyncRunner().start_run(Graph([waits]), {"x": 1}, run_id="r")
        assert isinstance(handle, RunHandle)
        assert (handle.run_id, handle.done) == ("r", False)
        released.set()
        first, second = await asyncio.gather(handle.result(), handle.result())
        assert first is second
        assert first["y"] == 1
        assert handle.done
        assert isinstance(AsyncRunner().start_map(LINE, {"a": [1]}, map_over="a"), MapHandle)

    asyncio.run(main())


def test_a_handle_waits_until_its_run_is_in_the_store(on: On) -> None:
    released = threading.Event()

    @node(output_name="y", offload=on.is_async)
    def waits(x: int) -> int:
        assert released.wait(30)
        return x

    graph, store = Graph([waits]), MemoryCheckpointer()
    runner = type(on.runner)(checkpointer=store)

    async def awaited() -> None:
        handle = runner.start_run(graph, {"x": 1}, workflow_id="w")
        await handle.started()
        assert store.workflow("w").status.value == "active"
        second = runner.start_run(graph, {"x": 1}, workflow_id="w")
        with pytest.raises(WorkflowLockedError):
            await second.started()
        whole = runner.start_map(graph, {"x": [1, 2]}, map_over="x", workflow_id="m")
        await whole.started()
        assert store.workflow("m").status.value == "active"
        released.set()
        assert ((await handle.result())["y"], (await whole.result())["y"]) == (1, [1, 2])
        await handle.started()  # as often as you like

    if on.is_async:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            asyncio.run(awaited())
        return
    handle = runner.start_run(graph, {"x": 1}, workflow_id="w")
    handle.started()
    assert store.workflow("w").status.value == "active"
    with pytest.raises(WorkflowLockedError):
        runner.start_run(graph, {"x": 1}, workflow_id="w").started()
    whole = runner.start_map(graph, {"x": [1, 2]}, map_over="x", workflow_id="m")
    whole.started()
    assert store.workflow("m").status.value == "active"
    released.set()
    assert (handle.result()["y"], whole.result()["y"]) == (1, [1, 2])
    SyncRunner().start_run(graph, {"x": 1}).started()  # without a store there is nothing to wait for


def test_a_failed_handle_raises_the_same_error_every_time() -> None:
    handle = SyncRunner().start_run(Graph([boom]), {"a": 1})
    errors = []
    for _ in range(2):
        with pytest.raises(ValueError, match="boom") as caught:
            handle.result()
        errors.append(caught.value)
    assert errors[0] is errors[1]
    assert len(errors[0].__notes__) == 1


def test_a_handle_stops_its_run(on: On) -> None:
    reached, stopped = threading.Event(), threading.Event()

    def waiting(x: int, ctx: NodeContext) -> int:
        reached.set()
        assert stopped.wait(30)
        return x

    first = (
        node(waiting, output_name="a") if not on.is_async else node(waiting, output_name="a", offload=True)
    )
    graph = Graph([first, double])

    async def awaited() -> RunResult:
        handle = on.runner.start_run(graph, {"x": 1}, error_handling="continue")
        while not reached.is_set():
            await asyncio.sleep(0)
        handle.stop("enough")
        stopped.set()
        return await handle.result()  # type: ignore[no-any-return]

    if on.is_async:
        result = asyncio.run(awaited())
    else:
        handle = on.runner.start_run(graph, {"x": 1}, error_handling="continue")
        assert reached.wait(30)
        handle.stop("enough")
        stopped.set()
        result = handle.result()
    assert result.stopped
    assert "enough" in str(result.error)


def test_a_stop_after_the_end_changes_nothing() -> None:
    handle = SyncRunner().start_run(LINE, {"a": 1})
    assert handle.result().completed
    handle.stop()
    assert handle.result().completed
    kept: list[Any] = []

    async def main() -> None:
        kept.append(AsyncRunner().start_run(LINE, {"a": 1}))
        await kept[0].result()

    asyncio.run(main())
    kept[0].stop()  # its loop is closed


@pytest.mark.parametrize("call", ["start_run", "start_map"])
def test_a_run_goes_on_when_nobody_waits_for_its_handle_any_more(call: str) -> None:
    async def main() -> None:
        entered, released = asyncio.Event(), asyncio.Event()

        @node(output_name="y")
        async def waits(x: int) -> int:
            entered.set()
            await released.wait()
            return x

        options: dict[str, Any] = {"x": [1], "map_over": "x"} if call == "start_map" else {"x": 1}
        handle = getattr(AsyncRunner(), call)(Graph([waits]), **options)
        waiter = asyncio.ensure_future(handle.result())
        await entered.wait()
        waiter.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiter
        assert not handle.done
        released.set()
        result = await handle.result()
        assert (result.completed, result["y"]) == (True, options["x"])
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())


def test_a_run_whose_handle_is_left_ends_with_its_loop() -> None:
    heard, troubles = Recorder(), []

    async def main() -> None:
        entered = asyncio.Event()

        @node(output_name="y")
        async def waits(x: int) -> int:
            entered.set()
            return await asyncio.get_running_loop().create_future()

        asyncio.get_running_loop().set_exception_handler(lambda _, trouble: troubles.append(trouble))
        handle = AsyncRunner().start_run(Graph([waits]), {"x": 1}, event_processors=[heard])
        waiter = asyncio.ensure_future(handle.result())
        await entered.wait()
        waiter.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiter

    asyncio.run(main())
    assert heard.of(RunEndEvent)[-1].status is RunStatus.STOPPED
    assert troubles == []


def test_all_calls_are_there_on_both_runners() -> None:
    calls: list[Callable[..., Any]] = []
    for name in ("run", "map", "iter", "map_iter", "start_run", "start_map", "stop"):
        calls += [getattr(SyncRunner, name), getattr(AsyncRunner, name)]
    assert all(inspect.getdoc(call) for call in calls)
