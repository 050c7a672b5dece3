"""Steps inside of a node: called once for each visit, whatever happens to the node around them."""

from __future__ import annotations

import asyncio
import threading
import time
import warnings
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any

import pytest
from support.durable import durable, store
from support.running import On, OnAsync, OnSync
from support.stored import store_at

from hypergraph import END, AsyncRunner, Graph, NodeContext, RetryPolicy, SyncRunner, node, route
from hypergraph.checkpointers import Checkpointer, CheckpointPolicy, MemoryCheckpointer
from hypergraph.exceptions import AmbiguousStepError, NodeTimeoutError, StepUsageError, WorkflowNotFoundError
from hypergraph.views.why import why as explained

__all__ = ["durable", "store"]  # fixtures


def in_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Return a test that runs in an event loop of its own."""

    @wraps(test)
    def run(*args: Any, **fixtures: Any) -> None:
        asyncio.run(test(*args, **fixtures))

    return run


class Tools:
    """Functions that note their calls, and fail if they are told to."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.fails: list[Any] = []

    def use(self, number: Any) -> dict[str, Any]:
        self.calls.append(number)
        if number in self.fails:
            raise OSError(f"tool {number}")
        return {"made": number}

    async def await_use(self, number: Any) -> dict[str, Any]:
        await asyncio.sleep(0)
        return self.use(number)


def test_the_descent_of_a_value_names_the_calls_that_made_it(durable: On, tools: Tools) -> None:
    def body(ctx: NodeContext) -> int:
        ctx.step("search", tools.use, 1)
        ctx.step("read", tools.use, 2)
        return 3

    @node(output_name="twice")
    def double(out: int) -> int:
        return 2 * out

    tools.fails = [2]
    graph = agent_of(body).add_nodes(double)
    durable.run(graph, x=1, workflow_id="w", error_handling="continue")
    tools.fails = []
    durable.run(graph, workflow_id="w")
    store: Checkpointer = durable.runner.checkpointer
    found = {origin.name: origin for origin in store.provenance("w", "twice")}
    calls = [(call.key, call.args, call.value) for call in found["out"].calls]
    assert calls == [("search", (1,), {"made": 1}), ("read", (2,), {"made": 2})]
    assert (found["twice"].calls, found["x"].calls) == ((), ())
    assert [call["key"] for call in found["out"].to_dict()["calls"]] == ["search", "read"]
    why = {item["name"]: item for item in explained(store, "w", "twice")["items"]}
    assert [(call["key"], call["call"]) for call in why["out"]["calls"]] == [
        ("search", "use(1)"),
        ("read", "use(2)"),
    ]


def test_parallel_calls_stand_in_the_order_in_which_they_began(store: Checkpointer, tools: Tools) -> None:
    @node(output_name="out")
    async def agent(x: int, context: NodeContext) -> int:
        await context.step("z", tools.await_use, 1)
        await asyncio.gather(*(context.step(key, tools.await_use, key) for key in "cab"))
        return x

    asyncio.run(AsyncRunner(checkpointer=store).run(Graph([agent]), x=1, workflow_id="w"))
    assert [(step.key, step.index) for step in store.inner_steps("w")] == [
        ("z", 0),
        ("c", 1),
        ("a", 2),
        ("b", 3),
    ]


@pytest.fixture
def tools() -> Tools:
    return Tools()


def agent_of(body: Callable[[NodeContext], Any], **options: Any) -> Graph:
    """Return a graph of one node, whose function gets the context."""

    @node(output_name="out", **options)
    def agent(x: int, ctx: NodeContext) -> Any:
        return body(ctx)

    return Graph([agent])


def test_a_recorded_key_is_not_called_again_when_the_node_fails_further_down(
    durable: On, tools: Tools
) -> None:
    broken = [True]

    def body(ctx: NodeContext) -> int:
        total = sum(ctx.step(f"tool {n}", tools.use, n)["made"] for n in range(4))
        if broken:
            raise RuntimeError("further down")
        return total

    graph = agent_of(body)
    durable.run(graph, x=1, workflow_id="w", error_handling="continue")
    broken.clear()
    result = durable.run(graph, workflow_id="w")
    assert (result["out"], tools.calls) == (6, [0, 1, 2, 3])
    assert [(step.key, step.replayed) for step in result.log.steps[-1].steps] == [
        (f"tool {n}", True) for n in range(4)
    ]


def test_a_failed_call_is_made_again_on_resume(durable: On, tools: Tools) -> None:
    graph = agent_of(lambda ctx: [ctx.step(tools.use, n) for n in range(3)])
    tools.fails = [1]
    failed = durable.run(graph, x=1, workflow_id="w", error_handling="continue")
    assert isinstance(failed.error, OSError)
    assert [(s.key, s.status, s.error) for s in failed.log.steps[0].steps] == [
        ("use-1", "completed", None),
        ("use-2", "failed", "tool 1"),
    ]
    tools.fails = []
    durable.run(graph, workflow_id="w")
    assert tools.calls == [0, 1, 1, 2]
    assert durable.runner.checkpointer is not None
    stored = durable.runner.checkpointer.inner_steps("w", node="agent", visit=1)
    assert [(s.superstep, s.key, s.status, s.args, s.value) for s in stored] == [
        (0, "use-1", "completed", (0,), {"made": 0}),
        (0, "use-2", "failed", (1,), None),
        (1, "use-2", "completed", (1,), {"made": 1}),
        (1, "use-3", "completed", (2,), {"made": 2}),
    ]


@pytest.mark.parametrize("runner", [OnSync, OnAsync])
def test_without_a_store_another_attempt_reuses_what_is_recorded(runner: type[On], tools: Tools) -> None:
    def body(ctx: NodeContext) -> Any:
        made = [ctx.step(tools.use, n) for n in range(3)]
        made[0]["made"] = "changed in place"
        if ctx.attempt < 3:
            raise RuntimeError("again")
        return ctx.step("use-1", tools.use, 0)

    graph = agent_of(body, retry=RetryPolicy(max_attempts=3, initial_delay=0))
    assert runner().run(graph, x=1)["out"] == {"made": 0}
    assert tools.calls == [0, 1, 2]


@pytest.mark.parametrize("runner", [OnSync, OnAsync])
def test_without_a_store_what_is_recorded_does_not_change_in_place(runner: type[On], tools: Tools) -> None:
    def body(ctx: NodeContext) -> Any:
        made = ctx.step("use", tools.use, 0)
        made["made"] = "changed in place"
        return ctx.step("use", tools.use, 0)

    assert runner().run(agent_of(body), x=1)["out"] == {"made": 0}

    def other(ctx: NodeContext) -> Any:
        rows = [1]
        ctx.step("sum", sum, rows)
        rows.append(41)
        return ctx.step("sum", sum, rows)

    with pytest.raises(StepUsageError, match=r"recorded are \(\[1\]\), given are \(\[1, 41\]\)"):
        runner().run(agent_of(other), x=1)


@pytest.mark.parametrize("runner", [OnSync, OnAsync])
def test_without_a_store_what_cannot_be_copied_is_made_again(runner: type[On]) -> None:
    calls: list[int] = []

    def lines() -> Iterator[str]:
        calls.append(1)
        return (line for line in ["a", "b"])

    def body(ctx: NodeContext) -> list[str]:
        read = list(ctx.step("open", lines))
        if ctx.attempt == 1:
            raise ConnectionError
        return read

    graph = agent_of(body, retry=RetryPolicy(max_attempts=2, initial_delay=0))
    assert runner().run(graph, x=1)["out"] == ["a", "b"]
    assert len(calls) == 2

    def careful(ctx: NodeContext) -> list[str]:
        read = list(ctx.step("open", lines, repeatable=False))
        raise ConnectionError(read)

    graph = agent_of(careful, retry=RetryPolicy(max_attempts=2, initial_delay=0))
    with pytest.raises(AmbiguousStepError, match="its result cannot be restored"):
        runner().run(graph, x=1)
    assert len(calls) == 3


@pytest.mark.parametrize("make", [lambda: float("nan"), lambda: (float("nan"), 1), lambda: lambda: 1])
def test_without_a_store_arguments_are_compared_as_with_one(make: Callable[[], Any]) -> None:
    def body(ctx: NodeContext) -> int:
        found: int = ctx.step("use", lambda *args: len(args), make(), 1)
        if ctx.attempt == 1:
            raise ConnectionError
        return found

    graph = agent_of(body, retry=RetryPolicy(max_attempts=2, initial_delay=0))
    for runner in (SyncRunner(), SyncRunner(checkpointer=MemoryCheckpointer())):
        assert runner.run(graph, x=1)["out"] == 2


@pytest.mark.parametrize("checkpointer", [None, MemoryCheckpointer()])
@pytest.mark.parametrize(("before", "now"), [(1, 2), ("a", b"a"), (1.5, float("nan")), (None, 0)])
def test_another_plain_argument_is_refused_with_and_without_a_store(
    checkpointer: Any, before: Any, now: Any
) -> None:
    graph = agent_of(lambda ctx: [ctx.step("use", repr, value) for value in (before, now)])
    with pytest.raises(StepUsageError, match="with other arguments"):
        SyncRunner(checkpointer=checkpointer).run(graph, x=1)


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_every_mode_of_durability_keeps_inner_steps(tmp_path: Path, tools: Tools, durability: Any) -> None:
    broken = [True]

    def body(ctx: NodeContext) -> Any:
        made = ctx.step(tools.use, 1)
        if broken:
            raise RuntimeError
        return made

    with store_at(tmp_path / "w.db", policy=CheckpointPolicy(durability=durability)) as kept:
        runner = SyncRunner(checkpointer=kept)
        runner.run(agent_of(body), x=1, workflow_id="w", error_handling="continue")
        broken.clear()
        assert runner.run(agent_of(body), workflow_id="w")["out"] == {"made": 1}
    assert tools.calls == [1]


def test_under_sync_a_step_is_stored_before_it_returns(store: Checkpointer, tools: Tools) -> None:
    def body(ctx: NodeContext) -> Any:
        ctx.step("first", tools.use, 1)
        return [(s.key, s.value) for s in store.inner_steps("w")]

    found = SyncRunner(checkpointer=store).run(agent_of(body), x=1, workflow_id="w")["out"]
    assert found == [("first", {"made": 1})]


@in_loop
async def test_coroutine_functions_are_awaited_also_several_at_once(
    store: Checkpointer, tools: Tools
) -> None:
    broken = [True]

    @node(output_name="out")
    async def agent(x: int, ctx: NodeContext) -> Any:
        made = await asyncio.gather(*(ctx.step(tools.await_use, n) for n in range(4)))
        made.append(await ctx.step("wrapped", lambda: tools.await_use(9)))  # a coroutine, from a function
        if broken:
            raise RuntimeError
        return [each["made"] for each in made]

    runner = AsyncRunner(checkpointer=store)
    await runner.run(Graph([agent]), x=1, workflow_id="w", error_handling="continue")
    broken.clear()
    assert (await runner.run(Graph([agent]), workflow_id="w"))["out"] == [0, 1, 2, 3, 9]
    assert sorted(tools.calls) == [0, 1, 2, 3, 9]


@in_loop
async def test_of_several_at_once_those_that_are_done_are_not_repeated(tools: Tools) -> None:
    kept, gate = MemoryCheckpointer(), asyncio.Event()

    async def slow(n: int) -> int:
        tools.calls.append(n)
        await gate.wait()
        return n

    @node(output_name="out")
    async def agent(x: int, ctx: NodeContext) -> Any:
        quick = ctx.step("quick", tools.await_use, 1)
        late = ctx.step("slow", slow, 2, timeout=None if gate.is_set() else 0.01)
        return await asyncio.gather(quick, late)

    runner = AsyncRunner(checkpointer=kept)
    result = await runner.run(Graph([agent]), x=1, workflow_id="w", error_handling="continue")
    assert isinstance(result.error, NodeTimeoutError)
    assert "agent/slow" in str(result.error)
    gate.set()
    assert (await runner.run(Graph([agent]), workflow_id="w"))["out"] == [{"made": 1}, 2]
    assert sorted(tools.calls) == [1, 2, 2]


def test_each_visit_of_a_loop_has_its_own_keys(durable: On, tools: Tools) -> None:
    @node(output_name="n")
    def count(n: int, ctx: NodeContext) -> int:
        return int(ctx.step("add", tools.use, n)["made"]) + 1

    @route(targets=["count", END])
    def enough(n: int) -> Any:
        return "count" if n < 4 else END

    assert durable.run(Graph([count, enough]), n=0, workflow_id="w")["n"] == 4
    assert tools.calls == [0, 1, 2, 3]
    assert durable.runner.checkpointer is not None
    assert [(s.visit, s.value) for s in durable.runner.checkpointer.inner_steps("w")] == [
        (visit, {"made": visit - 1}) for visit in (1, 2, 3, 4)
    ]


def test_in_nested_graphs_and_maps_each_run_has_its_own(durable: On, tools: Tools) -> None:
    broken = [True]

    @node(output_name="y")
    def inside(x: int, ctx: NodeContext) -> int:
        made = ctx.step("tool", tools.use, x)["made"]
        if broken and x == 2:
            raise RuntimeError
        return int(made)

    inner = Graph([inside], name="inner")
    outer = Graph([inner.as_node(name="nested").map_over("x")])
    durable.run(outer, x=[1, 2, 3], workflow_id="w", error_handling="continue")
    broken.clear()
    assert durable.run(outer, workflow_id="w")["y"] == [1, 2, 3]
    assert sorted(tools.calls) == [1, 2, 3]


def test_a_retry_policy_repeats_the_call_alone(durable: On, tools: Tools) -> None:
    tries = []

    def shaky(n: int) -> int:
        tries.append(n)
        if len(tries) < 3:
            raise OSError("not yet")
        return n

    policy = RetryPolicy(max_attempts=3, initial_delay=0)
    graph = agent_of(lambda ctx: (ctx.step(tools.use, 1), ctx.step("shaky", shaky, 7, retry=policy))[1])
    result = durable.run(graph, x=1)
    assert (result["out"], tries, tools.calls) == (7, [7, 7, 7], [1])
    assert result.log.steps[0].steps[1].attempt == 3


def test_a_call_that_takes_too_long_fails(durable: On) -> None:
    waiting = threading.Event()
    graph = agent_of(lambda ctx: ctx.step("slow", waiting.wait, 0.05, timeout=0.01))
    with pytest.raises(NodeTimeoutError, match="agent/slow"):
        durable.run(graph, x=1)


# -- calls that must not be repeated ------------------------------------------------------------------------


def half_done(store: Checkpointer) -> None:
    """Leave a workflow whose step "charge" was announced and has no result."""

    def charge(n: int) -> int:
        raise KeyboardInterrupt

    graph = agent_of(lambda ctx: ctx.step("charge", charge, 5, repeatable=False))
    with pytest.raises(KeyboardInterrupt):
        SyncRunner(checkpointer=store).run(graph, x=1, workflow_id="w")


def test_an_announced_call_without_a_result_is_ambiguous(store: Checkpointer, tools: Tools) -> None:
    half_done(store)
    assert [(s.key, s.status) for s in store.inner_steps("w")] == [("charge", "running")]
    graph = agent_of(lambda ctx: ctx.step("charge", tools.use, 5, repeatable=False))
    with pytest.raises(AmbiguousStepError, match="'charge' of node 'agent'"):
        SyncRunner(checkpointer=store).run(graph, workflow_id="w")
    assert tools.calls == []


def test_what_an_ambiguous_call_returned_can_be_found_out(store: Checkpointer, tools: Tools) -> None:
    half_done(store)
    asked = []

    def find_out(name: str, key: str, inputs: dict[str, Any]) -> Any:
        asked.append((name, key, inputs))
        return "paid"

    graph = agent_of(
        lambda ctx: [
            ctx.step("charge", tools.use, 5, repeatable=False, on_ambiguous=find_out) for _ in range(2)
        ]
    )
    runner = SyncRunner(checkpointer=store)
    assert runner.run(graph, workflow_id="w")["out"] == ["paid", "paid"]
    assert asked == [("agent/charge", "w:agent:1:charge", {"args": (5,), "kwargs": {}})]
    assert tools.calls == []


def test_an_ambiguous_call_is_made_again_where_that_is_said(store: Checkpointer, tools: Tools) -> None:
    half_done(store)
    graph = agent_of(lambda ctx: ctx.step("charge", tools.use, 5, repeatable=False, on_ambiguous="rerun"))
    assert SyncRunner(checkpointer=store).run(graph, workflow_id="w")["out"] == {"made": 5}


ONCE: dict[str, Any] = {"repeatable": False, "timeout": 0.01}
PATIENT = RetryPolicy(max_attempts=3, initial_delay=0)


class Slow(Tools):
    """Tools whose first call takes longer than it may."""

    def use(self, number: Any) -> dict[str, Any]:
        self.calls.append(number)
        time.sleep(0.05 if len(self.calls) == 1 else 0)
        return {"made": number}

    async def await_use(self, number: Any) -> dict[str, Any]:
        self.calls.append(number)
        await asyncio.sleep(0.05 if len(self.calls) == 1 else 0)
        return {"made": number}


def test_a_call_that_took_too_long_is_not_repeated(durable: On) -> None:
    tools = Slow()
    graph = agent_of(lambda ctx: ctx.step("charge", tools.use, 5, retry=PATIENT, **ONCE))
    with pytest.raises(NodeTimeoutError):
        durable.run(graph, x=1, workflow_id="w")
    with pytest.raises(AmbiguousStepError):
        durable.run(graph, workflow_id="w")
    assert tools.calls == [5]
    known = agent_of(lambda ctx: ctx.step("charge", tools.use, 5, on_ambiguous=lambda *_: "paid", **ONCE))
    assert durable.run(known, workflow_id="w")["out"] == "paid"
    assert tools.calls == [5]


@pytest.mark.parametrize("is_stored", [True, False], ids=["stored", "in memory"])
@in_loop
async def test_an_async_call_that_took_too_long_is_not_repeated(store: Checkpointer, is_stored: bool) -> None:
    tools = Slow()

    @node(output_name="out")
    async def agent(x: int, ctx: NodeContext) -> Any:
        return await ctx.step("charge", tools.await_use, 5, retry=PATIENT, **ONCE)

    runner = AsyncRunner(checkpointer=store if is_stored else None)
    with pytest.raises(NodeTimeoutError):
        await runner.run(Graph([agent]), x=1, **({"workflow_id": "w"} if is_stored else {}))
    if is_stored:
        with pytest.raises(AmbiguousStepError):
            await runner.run(Graph([agent]), workflow_id="w")
    assert tools.calls == [5]


def test_a_call_that_raised_by_itself_is_made_again(durable: On, tools: Tools) -> None:
    def charge(number: int) -> Any:
        tools.use(number)
        if len(tools.calls) < 3:
            raise NodeTimeoutError("other", 1.0)  # of a graph that it runs, say
        return "paid"

    once = agent_of(lambda ctx: ctx.step("charge", charge, 5, repeatable=False))
    with pytest.raises(NodeTimeoutError):
        durable.run(once, x=1, workflow_id="w")
    patient = agent_of(lambda ctx: ctx.step("charge", charge, 5, repeatable=False, retry=PATIENT))
    assert durable.run(patient, workflow_id="w")["out"] == "paid"
    assert tools.calls == [5, 5, 5]


# -- what is refused ----------------------------------------------------------------------------------------


NOT_STORED: list[tuple[dict[str, Any], bool, str]] = [
    ({"granularity": "none"}, False, "granularity='none' does not store .* Use granularity='step'"),
    ({"granularity": "none"}, True, "granularity='none' does not store .* Use granularity='step'"),
    ({"granularity": "top-level"}, True, "granularity='top-level' does not .* Use granularity='step'"),
    ({"durability": "best-effort"}, False, "durability='best-effort' .* Use durability='sync'"),
    ({"durability": "best-effort"}, True, "durability='best-effort' .* Use durability='sync'"),
]


@pytest.mark.parametrize("runner", [OnSync, OnAsync])
@pytest.mark.parametrize(("policy", "is_nested", "text"), NOT_STORED)
@pytest.mark.parametrize("is_mapped", [False, True])
def test_a_call_that_must_not_be_repeated_is_refused_where_it_is_not_stored(  # noqa: PLR0917 - all cases
    runner: type[On], policy: dict[str, Any], is_nested: bool, text: str, is_mapped: bool, tools: Tools
) -> None:
    def body(ctx: NodeContext) -> Any:
        ctx.step("plain", tools.use, 1)
        return ctx.step("pay", tools.use, 2, repeatable=False)

    graph, on = agent_of(body), runner(checkpointer=MemoryCheckpointer(policy=CheckpointPolicy(**policy)))
    inside = graph.as_node(name="inner")
    if is_nested:
        graph = Graph([inside.map_over("x") if is_mapped else inside])
    given: dict[str, Any] = {"x": [1] if is_mapped else 1}
    is_map = is_mapped and not is_nested
    with pytest.raises(StepUsageError, match=rf"'pay'\) with repeatable=False, .*{text}, or leave out"):
        _ = on.map(graph, given, map_over="x") if is_map else on.run(graph, given)
    assert tools.calls == [1]


@pytest.mark.parametrize("runner", [OnSync, OnAsync])
@pytest.mark.parametrize("policy", [None, {}, {"granularity": "top-level"}, {"durability": "best-effort"}])
def test_an_atomic_graph_keeps_calls_that_must_not_be_repeated_in_memory(
    runner: type[On], policy: dict[str, Any] | None, tools: Tools
) -> None:
    store = None if policy is None else MemoryCheckpointer(policy=CheckpointPolicy(**policy))
    graph = agent_of(lambda ctx: ctx.step("pay", tools.use, 1, repeatable=False))
    around = Graph([graph.as_node(name="inner")], name="around").as_node(name="outer", durability="atomic")
    assert runner(checkpointer=store).run(Graph([around]), x=1)["out"] == {"made": 1}
    if policy is None or "durability" not in policy:  # the outermost graph has its steps
        assert runner(checkpointer=store).run(graph, x=1)["out"] == {"made": 1}


@pytest.mark.parametrize(
    ("on_ambiguous", "text"),
    [
        (None, "it must not be repeated, so that a resume that needs it raises AmbiguousStepError"),
        ("rerun", "its call is made again on resume"),
        (lambda path, key, inputs: 1, "a resume that needs it asks on_ambiguous"),
    ],
    ids=["fail", "rerun", "function"],
)
def test_the_warning_of_a_lost_result_says_what_a_resume_does(
    store: Checkpointer, on_ambiguous: Any, text: str
) -> None:
    once: dict[str, Any] = {"repeatable": False, "on_ambiguous": on_ambiguous}
    graph = agent_of(lambda ctx: ctx.step("lock", threading.Lock, **once) and 1 // 0)
    with pytest.warns(UserWarning, match=rf"'lock' cannot be stored .*; {text}\. "):
        SyncRunner(checkpointer=store).run(graph, x=1, workflow_id="w", error_handling="continue")
    if on_ambiguous is None:
        with pytest.raises(AmbiguousStepError):
            SyncRunner(checkpointer=store).run(graph, workflow_id="w")


def test_other_arguments_under_a_recorded_key_are_refused_and_both_shown(durable: On, tools: Tools) -> None:
    given = [1]

    def body(ctx: NodeContext) -> Any:
        ctx.step("search", tools.use, {"cats": given[0]})
        raise RuntimeError("later")

    durable.run(agent_of(body), x=1, workflow_id="w", error_handling="continue")
    given[0] = 2
    result = durable.run(agent_of(body), workflow_id="w", error_handling="continue")
    assert isinstance(result.error, StepUsageError)
    assert "recorded are ({'cats': 1}), given are ({'cats': 2})" in str(result.error).replace('"', "'")
    assert len(tools.calls) == 1


def test_the_same_key_twice_gives_the_same_result_and_other_arguments_an_error(tools: Tools) -> None:
    def body(ctx: NodeContext) -> Any:
        assert ctx.step("k", tools.use, 1) == ctx.step("k", tools.use, 1)
        return ctx.step("k", tools.use, 2)

    with pytest.raises(StepUsageError, match="other arguments"):
        SyncRunner().run(agent_of(body), x=1)
    assert tools.calls == [1]


def test_a_step_inside_of_a_step_is_refused(durable: On, tools: Tools) -> None:
    graph = agent_of(lambda ctx: ctx.step("outer", lambda: ctx.step("inner", tools.use, 1)))
    with pytest.raises(StepUsageError, match="inside of the step 'outer'"):
        durable.run(graph, x=1)


@in_loop
async def test_a_key_that_is_open_is_refused(tools: Tools) -> None:
    @node(output_name="out")
    async def agent(x: int, ctx: NodeContext) -> Any:
        return await asyncio.gather(ctx.step("k", tools.await_use, 1), ctx.step("k", tools.await_use, 1))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # the first coroutine is not awaited
        with pytest.raises(StepUsageError, match="not over"):
            await AsyncRunner().run(Graph([agent]), x=1)


def test_threads_need_keys(durable: On, tools: Tools) -> None:
    def with_keys(ctx: NodeContext) -> Any:
        with ThreadPoolExecutor(4) as pool:
            return list(pool.map(lambda n: ctx.step(f"tool {n}", tools.use, n)["made"], range(8)))

    assert durable.run(agent_of(with_keys), x=1, workflow_id="w")["out"] == [*range(8)]
    assert sorted(tools.calls) == [*range(8)]

    def without(ctx: NodeContext) -> Any:
        ctx.step(tools.use, 1)
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(ctx.step, tools.use, 2).result()

    with pytest.raises(StepUsageError, match="second thread"):
        durable.run(agent_of(without), x=1)


@in_loop
async def test_a_task_that_outlives_its_node_is_refused(store: Checkpointer, tools: Tools) -> None:
    over, tasks = asyncio.Event(), []

    async def afterwards(ctx: NodeContext, used: bool) -> None:
        await over.wait()
        if used:
            ctx.record(cost=1)
        await ctx.step("late", tools.await_use, 1)

    @node(output_name="out")
    async def agent(x: int, ctx: NodeContext) -> int:
        tasks.append(asyncio.create_task(afterwards(ctx, x == 1)))
        if x == 1:
            await ctx.step("in time", tools.await_use, 0)
        return x

    for x in (1, 2):
        await AsyncRunner(checkpointer=store).run(Graph([agent]), x=x, workflow_id=f"w{x}")
    over.set()
    for found in await asyncio.gather(*tasks, return_exceptions=True):
        assert isinstance(found, StepUsageError)
    assert tools.calls == [0]


def test_a_result_that_cannot_be_stored_is_made_again_on_resume(store: Checkpointer) -> None:
    made: list[object] = []
    broken = [True]

    def opened() -> object:
        made.append(threading.Lock())
        return made[-1]

    def body(ctx: NodeContext) -> str:
        assert ctx.step("lock", opened) is made[-1]
        if broken:
            raise RuntimeError
        return "fine"

    runner = SyncRunner(checkpointer=store)
    with pytest.warns(UserWarning, match="step 'lock' cannot be stored"):
        runner.run(agent_of(body), x=1, workflow_id="w", error_handling="continue")
    assert store.inner_steps("w")[0].problem is not None
    broken.clear()
    with pytest.warns(UserWarning, match="step 'lock' cannot be stored"):
        assert runner.run(agent_of(body), workflow_id="w")["out"] == "fine"
    assert len(made) == 2


def test_arguments_that_cannot_be_stored_are_compared_by_type(store: Checkpointer, tools: Tools) -> None:
    broken = [True]

    def body(ctx: NodeContext) -> Any:
        made = ctx.step("use", lambda client, n: tools.use(n), threading.Lock(), 3)
        if broken:
            raise RuntimeError
        return made

    runner = SyncRunner(checkpointer=store)
    runner.run(agent_of(body), x=1, workflow_id="w", error_handling="continue")
    assert repr(store.inner_steps("w")[0].args) == "(<lock, not stored>, 3)"
    broken.clear()
    assert runner.run(agent_of(body), workflow_id="w")["out"] == {"made": 3}
    assert tools.calls == [3]


@dataclass
class Found:
    title: str


def test_results_of_own_classes_are_restored(store: Checkpointer) -> None:
    broken, calls = [True], []

    def look(title: str) -> Found:
        calls.append(title)
        return Found(title)

    @node(output_name="out")
    def agent(x: int, ctx: NodeContext) -> str:
        found = ctx.step("look", look, "cats")
        if broken:
            raise RuntimeError
        return found.title

    runner = SyncRunner(checkpointer=store)
    runner.run(Graph([agent]), x=1, workflow_id="w", error_handling="continue")
    broken.clear()
    assert runner.run(Graph([agent]), workflow_id="w")["out"] == "cats"
    assert calls == ["cats"]


@pytest.mark.parametrize("bad", ["", "a\nb", "x" * 600])
def test_a_key_is_short_printable_text(bad: str, tools: Tools) -> None:
    with pytest.raises(ValueError, match="printable text"):
        SyncRunner().run(agent_of(lambda ctx: ctx.step(bad, tools.use, 1)), x=1)


def test_what_is_not_a_function_is_refused() -> None:
    with pytest.raises(TypeError, match="takes a key and a function"):
        SyncRunner().run(agent_of(lambda ctx: ctx.step("k")), x=1)  # type: ignore[call-overload]


# -- forks, new inputs, upkeep ------------------------------------------------------------------------------


@pytest.mark.parametrize("keep", [True, False])
def test_a_fork_keeps_inner_steps_of_what_it_runs_again_if_asked(
    store: Checkpointer, tools: Tools, keep: bool
) -> None:
    @node(output_name="y")
    def first(x: int, ctx: NodeContext) -> int:
        return int(ctx.step("first", tools.use, x)["made"])

    @node(output_name="z")
    def second(y: int, ctx: NodeContext) -> int:
        return int(ctx.step("second", tools.use, y + 1)["made"])

    graph, runner = Graph([first, second]), SyncRunner(checkpointer=store)
    runner.run(graph, x=1, workflow_id="w")
    result = runner.run(graph, workflow_id="f", fork_from=("w", 0), keep_steps=keep)
    assert result["z"] == 2
    assert tools.calls == ([1, 2] if keep else [1, 2, 2])
    assert [s.key for s in store.inner_steps("f")] == ["first", "second"]


def test_keep_steps_needs_a_fork(store: Checkpointer) -> None:
    with pytest.raises(ValueError, match="fork_from"):
        SyncRunner(checkpointer=store).run(agent_of(lambda ctx: 1), x=1, workflow_id="w", keep_steps=True)


def test_with_new_inputs_the_calls_are_made_anew(store: Checkpointer, tools: Tools) -> None:
    @node(output_name="out")
    def agent(x: int, ctx: NodeContext) -> int:
        made = ctx.step("tool", tools.use, x)["made"]
        if x == 1:
            raise RuntimeError
        return int(made)

    runner = SyncRunner(checkpointer=store)
    runner.run(Graph([agent]), x=1, workflow_id="w", error_handling="continue")
    assert runner.run(Graph([agent]), x=2, workflow_id="w")["out"] == 2
    assert tools.calls == [1, 2]


def test_deleting_and_retention_reach_inner_steps(tmp_path: Path, tools: Tools) -> None:
    @node(output_name="n")
    def count(n: int, ctx: NodeContext) -> int:
        return int(ctx.step("add", tools.use, n)["made"]) + 1

    @route(targets=["count", END])
    def enough(n: int) -> Any:
        return "count" if n < 3 else END

    policy = CheckpointPolicy(retention="latest")
    for kept in (MemoryCheckpointer(policy=policy), store_at(tmp_path / "w.db", policy=policy)):
        SyncRunner(checkpointer=kept).run(Graph([count, enough]), n=0, workflow_id="w")
        assert kept.inner_steps("w")[0].problem is not None
        kept.delete("w")
        with pytest.raises(WorkflowNotFoundError):
            kept.inner_steps("w")
        assert kept.backend.read_inner("w") == []
        kept.close()


def test_retention_keeps_what_an_unfinished_visit_needs(tmp_path: Path, tools: Tools) -> None:
    broken = [True]

    def body(ctx: NodeContext) -> Any:
        made = ctx.step("tool", tools.use, 1)
        if broken:
            raise RuntimeError
        return made

    policy = CheckpointPolicy(retention="latest")
    for kept in (MemoryCheckpointer(policy=policy), store_at(tmp_path / "w.db", policy=policy)):
        tools.calls.clear()
        broken[:] = [True]
        runner = SyncRunner(checkpointer=kept)
        runner.run(agent_of(body), x=1, workflow_id="w", error_handling="continue")
        runner.run(agent_of(body), workflow_id="w", error_handling="continue")
        runner.run(agent_of(body), workflow_id="w", error_handling="continue")
        broken.clear()
        assert runner.run(agent_of(body), workflow_id="w")["out"] == {"made": 1}
        assert tools.calls == [1]
        kept.close()
