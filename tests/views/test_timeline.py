"""The critical path against brute force, and answers about long histories."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hypergraph import END, AsyncRunner, FunctionNode, Graph, SyncRunner, ifelse, interrupt, node, route
from hypergraph.checkpointers import MemoryCheckpointer
from hypergraph.checkpointers.history import History
from hypergraph.cli.commands.timeline import _lanes, bars
from hypergraph.views.diff import changes, diff
from hypergraph.views.graph import graph
from hypergraph.views.inside import joined
from hypergraph.views.timeline import Chain, TimelineView, longest_chain, timeline
from hypergraph.views.why import why


def ran(graph: Graph, **inputs: Any) -> MemoryCheckpointer:
    store = MemoryCheckpointer()
    SyncRunner(checkpointer=store).run(graph, inputs, workflow_id="w")
    return store


def chain_of(store: MemoryCheckpointer, times: dict[str, float]) -> Chain:
    """Return the critical path as if nodes had taken these times."""
    steps = [replace(step, duration_ms=times[step.node_name]) for step in store.steps("w")]
    return longest_chain(History(store, "w", steps=steps), store.workflow("w").graph)


def taker(name: str, sources: list[str]) -> FunctionNode:
    code = f"def {name}({', '.join(sources) or 'seed'}): return 1"
    scope: dict[str, Any] = {}
    exec(code, scope)
    return FunctionNode(scope[name], output_name=f"{name}_out")


@st.composite
def acyclic(draw: st.DrawFn) -> tuple[dict[str, list[str]], dict[str, float]]:
    names = [f"n{number}" for number in range(draw(st.integers(1, 8)))]
    edges = {
        name: draw(st.lists(st.sampled_from(names[:place]), unique=True, max_size=3)) if place else []
        for place, name in enumerate(names)
    }
    # Powers of two: every set of nodes has a time of its own, so there is one longest path.
    order = draw(st.permutations(range(len(names))))
    return edges, {name: float(2**exponent) for name, exponent in zip(names, order, strict=True)}


def all_paths(edges: dict[str, list[str]]) -> list[list[str]]:
    def back(name: str) -> list[list[str]]:
        before = [path for source in edges[name] for path in back(source)]
        return [[*path, name] for path in before] or [[name]]

    return [path for name in edges for path in back(name)]


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(acyclic())
def test_the_critical_path_is_the_longest_of_all_paths(
    made: tuple[dict[str, list[str]], dict[str, float]],
) -> None:
    edges, times = made
    nodes = [taker(name, [f"{source}_out" for source in sources]) for name, sources in edges.items()]
    chain = chain_of(ran(Graph(nodes, name="random"), seed=1), times)
    longest = max(all_paths(edges), key=lambda path: sum(times[name] for name in path))
    assert [step.node_name for step in chain.steps] == longest
    assert chain.length_ms == sum(times[name] for name in longest)


@node(output_name="a")
def first(seed: int) -> int:
    return seed


@node(output_name="b", emit="done")
def second(seed: int) -> int:
    return seed


@node(output_name="c", wait_for="done")
def third(seed: int) -> int:
    return seed


@ifelse(when_true="yes", when_false="no")
def gate(a: int) -> bool:
    return a > 0


@node(output_name="d")
def yes(seed: int) -> int:
    return seed


@node(output_name="d")
def no(seed: int) -> int:
    return seed


def names_of(chain: Chain) -> list[str]:
    return [step.node_name for step in chain.steps]


def test_a_step_waits_for_the_signal_it_awaits() -> None:
    store = ran(Graph([first, second, third], name="signals"), seed=1)
    assert names_of(chain_of(store, {"first": 9, "second": 5, "third": 6})) == ["second", "third"]


def test_a_step_waits_for_the_gate_that_chose_it() -> None:
    store = ran(Graph([first, second, gate, yes, no], name="gated"), seed=1)
    times = {"first": 5, "second": 9, "gate": 2, "yes": 3}
    assert names_of(chain_of(store, times)) == ["first", "gate", "yes"]


def test_every_round_of_a_loop_is_on_the_path() -> None:
    @node(output_name="n")
    def count(n: int) -> int:
        return n + 1

    @route(targets=["count", END])
    def more(n: int) -> str:
        return END if n > 2 else "count"

    store = ran(Graph([count, more], name="loop"), n=0)
    chain = chain_of(store, {"count": 3, "more": 1})
    assert chain.length_ms == sum({"count": 3, "more": 1}[step.node_name] for step in store.steps("w"))


def test_what_a_step_only_ran_after_is_not_waited_for() -> None:
    store = ran(Graph([first, second, gate, yes, no], name="gated"), seed=1)
    assert "second" not in names_of(chain_of(store, {"first": 1, "second": 2, "gate": 1, "yes": 1}))


def test_without_a_structure_versions_and_decisions_still_tell() -> None:
    store = ran(Graph([first, gate, yes, no], name="gated"), seed=1)
    assert names_of(longest_chain(History(store, "w"), None)) == ["first", "gate", "yes"]


ROUNDS = 150


@pytest.fixture(scope="module")
def long_store() -> MemoryCheckpointer:
    """A workflow in which a value is made anew in every round of a loop."""

    @node(output_name="n")
    def count(n: int) -> int:
        return n + 1

    @route(targets=["count", END])
    def more(n: int) -> str:
        return END if n >= ROUNDS else "count"

    return ran(Graph([count, more], name="loop"), n=0)


@pytest.mark.slow
def test_answers_about_long_histories_are_bounded(long_store: MemoryCheckpointer) -> None:
    told = why(long_store, "w", "n")
    assert (len(told["items"]), told["left_out"]) == (100, 1)
    assert len(why(long_store, "w", "n", depth=3)["items"]) == 4
    between = changes(long_store, "w", 0, 2 * ROUNDS)
    assert (len(between["steps"]), between["steps_left_out"]) == (100, True)
    page = timeline(long_store, "w", limit=50)
    assert (len(page["items"]), page["total"]) == (50, 2 * ROUNDS + 1)
    assert page["critical"] is not None
    assert page["critical"]["steps"] == 2 * ROUNDS + 1
    assert diff(long_store, "w", "w")["same"] is True


def test_a_path_that_is_not_looked_for_is_not_told_of(long_store: MemoryCheckpointer) -> None:
    page = timeline(long_store, "w", limit=1, critical=False)
    assert (page["critical"], page["busy_ms"], page["items"][0]["critical"]) == (None, None, None)


def test_a_nested_run_that_goes_on_is_shown_before_it_has_a_step() -> None:
    store = MemoryCheckpointer()

    async def fill() -> None:
        store.create_workflow("w", graph_name="g")
        store.create_workflow("w/inner", parent="w")

    asyncio.run(fill())
    (row,) = timeline(store, "w")["items"]
    assert (row["index"], row["status"], row["workflow"]) == (None, "active", "w/inner")


def test_what_runs_now_is_marked_in_the_graph() -> None:
    store = ran(Graph([first, second], name="pair"), seed=1)
    structure = store.workflow("w").graph

    async def fill() -> None:
        store.create_workflow("now", graph=structure, inputs={"seed": 1})

    asyncio.run(fill())
    overlay = graph(store, "now")["overlay"]
    assert {path: facts["status"] for path, facts in overlay.items()} == {
        "first": "active",
        "second": "active",
    }


def test_a_nested_graph_that_paused_counts_with_all_its_calls() -> None:
    @node(output_name="ready")
    def prepare(x: int) -> int:
        time.sleep(0.05)
        return x

    @interrupt("ok")
    def ask(ready: int) -> bool | None:
        return None

    @node(output_name="out")
    def use(ready: int, ok: bool) -> int:
        return ready

    outer = Graph([Graph([prepare, ask, use], name="inner").as_node()], name="outer")
    store = MemoryCheckpointer()
    runner = SyncRunner(checkpointer=store)
    runner.run(outer, x=1, workflow_id="w")
    runner.run(outer, {"inner.ok": True}, workflow_id="w")
    path = timeline(store, "w")["critical"]
    assert path is not None
    assert path["length_ms"] >= (store.workflow("w/inner").duration_ms or 0) >= 50
    assert all(found["share"] <= 1 for found in path["nodes"])


def test_a_nested_run_that_failed_and_was_resumed_is_shown_once_below_the_last_attempt() -> None:
    @node(output_name="a")
    def fetch(x: int) -> int:
        return x

    down = iter([True] * 4 + [False] * 2)  # each run calls it twice

    @node(output_name="b")
    def use(a: int) -> int:
        if next(down):
            raise ConnectionError("down")
        time.sleep(0.02)
        return a

    inner = Graph([fetch, use], name="inner")
    each = inner.as_node(name="each").with_inputs(x="xs").map_over("xs").with_outputs(a="all_a", b="all_b")
    outer = Graph([inner.as_node(), each], name="outer")
    store = MemoryCheckpointer()
    for _ in range(3):
        SyncRunner(checkpointer=store).run(outer, x=1, xs=[1], workflow_id="w", error_handling="continue")
    found = timeline(store, "w")
    for name in ("inner", "each"):
        rows = [row for row in found["items"] if (row["child"] or "").startswith(f"w/{name}")]
        assert [row["status"] for row in rows if row["depth"] == 0] == ["failed", "failed", "completed"]
    of_nodes = [row["node"] for row in found["items"] if row["depth"] and row["child"] is None]
    assert of_nodes.count("fetch") == 2
    assert of_nodes.count("use") == 6
    recorded = sum(step.duration_ms or 0 for step in store.steps("w"))
    whole = store.workflow("w").duration_ms or 0
    assert recorded - 0.1 <= (found["busy_ms"] or 0) <= whole + 0.1


ITEMS = 60


@pytest.fixture(scope="module")
def mapped() -> TimelineView:
    """A run with a map of many items, of which four run at once; one of them is slow in another node."""

    @node(output_name="a")
    async def fetch(x: int) -> int:
        await asyncio.sleep(0.06 if x == 3 else 0.001)
        return x

    @node(output_name="b")
    async def receipt(a: int) -> int:
        await asyncio.sleep(0.02)
        return a

    @node(output_name="n")
    def count(bs: list[int]) -> int:
        return len(bs)

    each = (
        Graph([fetch, receipt], name="one")
        .as_node(name="each")
        .with_inputs(x="xs")
        .map_over("xs")
        .with_outputs(a="all_a", b="bs")
    )
    store = MemoryCheckpointer()
    runner = AsyncRunner(checkpointer=store)
    asyncio.run(
        runner.run(
            Graph([each, count], name="outer"), xs=list(range(ITEMS)), workflow_id="w", max_concurrency=4
        )
    )
    return timeline(store, "w")


@pytest.mark.slow
def test_times_of_a_map_are_those_of_all_items(mapped: TimelineView) -> None:
    row = next(row for row in mapped["items"] if row["node"] == "each" and row["depth"] == 0)
    assert row["left_out"] == ITEMS - 20
    assert [(each["node"], each["item"], each["count"]) for each in mapped["nodes"]] == [
        ("each", True, ITEMS),
        ("fetch", False, ITEMS),
        ("receipt", False, ITEMS),
    ]
    assert mapped["nodes"][2]["duration_ms"] >= ITEMS * 20 * 0.9
    lanes = [(lane.name, lane.count) for lane in _lanes(mapped)]
    assert lanes == [
        ("each", 1),
        (f"each ×{ITEMS}", ITEMS),
        (f"fetch ×{ITEMS}", ITEMS),
        (f"receipt ×{ITEMS}", ITEMS),
        ("count", 1),
    ]


@pytest.mark.slow
def test_the_critical_path_of_a_map_follows_free_slots_and_adds_up(mapped: TimelineView) -> None:
    path, total = mapped["critical"], mapped["total_ms"]
    assert path is not None
    assert total is not None
    assert path["length_ms"] <= total
    assert sum(found["share"] for found in path["nodes"]) == pytest.approx(1)
    assert sum(found["self_ms"] for found in path["nodes"]) == pytest.approx(path["length_ms"])
    assert path["length_ms"] + (path["waiting_ms"] or 0) == pytest.approx(total)
    shares = {found["path"]: found["share"] for found in path["nodes"]}
    assert max(shares, key=lambda name: shares[name]) == "each/receipt"
    assert next(found["steps"] for found in path["nodes"] if found["path"] == "each/receipt") > 5


@pytest.mark.slow
def test_nothing_is_idle_while_items_run_in_a_call_before_a_pause() -> None:
    @node(output_name="ready")
    def prepare(x: int) -> int:
        time.sleep(0.02)
        return x

    @interrupt("ok")
    def ask(ready: int) -> bool | None:
        return None if ready == 24 else True

    each = (
        Graph([prepare, ask], name="one")
        .as_node(name="each")
        .with_inputs(x="xs")
        .map_over("xs")
        .with_outputs(ready="all_ready", ok="oks")
    )
    store = MemoryCheckpointer()
    runner = SyncRunner(checkpointer=store)
    outer = Graph([each], name="outer")
    runner.run(outer, xs=list(range(25)), workflow_id="w")
    found = timeline(store, "w")
    assert found["busy"] is not None
    assert sum(end - begin for begin, end in found["busy"]) >= 25 * 20 * 0.9


def test_a_pause_is_cut_out_only_where_nothing_else_ran() -> None:
    assert joined([(0, 1), (5, 6), (5.5, 7), (8, 9)]) == [(0, 1), (5, 7), (8, 9)]
    assert joined([(0, 1), (5, 6), (6.5, 7), (20, 21)], 2) == [(0, 7), (20, 21)]
    view_lanes = list(_lanes(_drawn((0, 10), (1000, 10))))
    assert bars(view_lanes, 20)[1] > 0
    assert bars(view_lanes, 20, [(10, 990)])[1] == 0


def _drawn(*spans: tuple[float, float]) -> Any:
    rows: list[dict[str, Any]] = [
        {
            "workflow": "w",
            "node": f"n{place}",
            "item": None,
            "depth": 0,
            "status": "completed",
            "critical": False,
        }
        | {"start_ms": begin, "duration_ms": took, "child": None, "left_out": 0}
        for place, (begin, took) in enumerate(spans)
    ]
    return {"items": rows, "nodes": []}
