"""Which nodes run when: the scheduling rules, one by one, on both runners."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Any

import pytest
from support.running import order, run, run_sync, trace

from hypergraph import (
    END,
    AsyncRunner,
    FunctionNode,
    Graph,
    GraphConfigError,
    InfiniteLoopError,
    chain,
    ifelse,
    node,
    route,
)
from hypergraph.runners import GraphState, NodeExecution

__all__ = ["run"]
Run = Callable[..., Any]


def const(name: str, output: str, value: Any, **options: Any) -> FunctionNode:
    return FunctionNode(lambda: value, name, output, **options)


# -- the public state type ------------------------------------------------------------------------------


def test_a_state_raises_versions_only_for_new_names_and_different_values() -> None:
    state = GraphState()
    assert state.get_version("x") == 0
    state.update_value("x", 1)
    state.update_value("x", 1)
    assert (state.values["x"], state.get_version("x")) == (1, 1)
    state.update_value("x", 2)
    assert state.get_version("x") == 2


def test_a_state_keeps_the_old_object_when_the_version_stays() -> None:
    first, second = [1], [1]
    state = GraphState()
    state.update_value("x", first)
    state.update_value("x", second)
    assert state.values["x"] is first


def test_copies_of_a_state_have_their_own_executions() -> None:
    state = GraphState({"x": 1}, {"x": 1}, {"n": NodeExecution("n", {"x": 1}, {"y": 2})}, {"gate": END})
    copied = state.copy()
    copied.update_value("x", 5)
    copied.node_executions["n"].input_versions["x"] = 9
    copied.routing_decisions["gate"] = "n"
    assert (state.values, state.versions) == ({"x": 1}, {"x": 1})
    assert state.node_executions["n"].input_versions == {"x": 1}
    assert state.routing_decisions == {"gate": END}


def test_an_execution_needs_only_name_versions_and_outputs() -> None:
    execution = NodeExecution("n", {"x": 1}, {"y": 2})
    assert (execution.wait_for_versions, execution.duration_ms, execution.cached) == ({}, 0.0, False)


# -- S4, S12: supersteps ----------------------------------------------------------------------------------


def test_a_cycle_without_a_gate_begins_at_its_first_node(run: Run) -> None:
    @node(output_name="a")
    def swap_a(b: int) -> int:
        return b

    @node(output_name="b")
    def swap_b(a: int) -> int:
        return a

    assert run(Graph([swap_a, swap_b]).bind(a=1, b=2)).values == {"a": 2, "b": 2}
    assert run(Graph([swap_b, swap_a]).bind(a=1, b=2)).values == {"a": 1, "b": 1}


def test_heads_that_feed_each_other_run_on_what_was_there_before_either(run: Run) -> None:
    @node(output_name="a")
    def swap_a(b: int) -> int:
        return b

    @node(output_name="b")
    def swap_b(a: int) -> int:
        return a

    @route(targets=["swap_a", "swap_b", END], multi_target=True)
    def gate(a: int, b: int, rounds: int = 3) -> list[Any]:
        return ["swap_a", "swap_b"] if a < b else [END]

    assert run(Graph([swap_a, swap_b, gate]), {"a": 1, "b": 2}).values == {"a": 2, "b": 1}


def test_nodes_of_a_superstep_run_and_are_recorded_in_graph_order(run: Run) -> None:
    seen: list[str] = []

    def noting(name: str) -> FunctionNode:
        return FunctionNode(lambda: seen.append(name), name, None)

    result = run(Graph([noting("c"), noting("a"), noting("b")]))
    assert seen == order(result) == ["c", "a", "b"]
    assert trace(result) == [(0, "c"), (0, "a"), (0, "b")]


def test_the_superstep_of_a_node_is_its_depth(run: Run) -> None:
    @node(output_name="late")
    def late(middle: int, x: int) -> int:
        return middle + x

    @node(output_name="middle")
    def middle(early: int) -> int:
        return early + 1

    result = run(Graph([late, middle, const("early", "early", 1)]), {"x": 1})
    assert trace(result) == [(0, "early"), (1, "middle"), (2, "late")]


def test_a_slow_sibling_does_not_hold_back_a_branch_that_does_not_need_it() -> None:
    finished: list[str] = []

    async def main() -> Any:
        gate = asyncio.Event()

        @node(output_name="slow")
        async def slow() -> str:
            await gate.wait()
            finished.append("slow")
            return "slow"

        @node(output_name="quick")
        async def quick() -> str:
            return "quick"

        @node(output_name="after")
        async def after(quick: str) -> str:
            finished.append("after")
            gate.set()
            return "after"

        return await AsyncRunner().run(Graph([slow, quick, after]))

    result = asyncio.run(main())
    assert finished == ["after", "slow"]
    assert trace(result) == [(0, "slow"), (0, "quick"), (1, "after")]


# -- S5: readiness -----------------------------------------------------------------------------------------


def test_nodes_outside_of_the_entry_points_never_run(run: Run) -> None:
    @node(output_name="b")
    def b(a: int) -> int:
        return a + 1

    graph = Graph([const("a", "a", 1), b]).with_entrypoint("b")
    result = run(graph, {"a": 10})
    assert (order(result), result["b"]) == (["b"], 11)


def test_an_entry_point_behind_a_gate_or_a_signal_runs_all_the_same(run: Run) -> None:
    @route(targets=["work", END])
    def gate(x: int) -> Any:
        return END

    @node(output_name="y", wait_for="ready")
    def work(x: int) -> int:
        return x + 1

    graph = Graph([gate, FunctionNode(lambda: None, "prepare", None, emit="ready"), work])
    assert run(graph.with_entrypoint("work"), {"x": 1}).values == {"y": 2}


def test_without_its_gate_in_scope_an_accumulator_does_not_loop(run: Run) -> None:
    @node(output_name="total")
    def add(total: int, step: int) -> int:
        return total + step

    @route(targets=["add", END])
    def gate(x: int) -> Any:
        return "add"

    result = run(Graph([gate, add]).with_entrypoint("add"), {"total": 0, "step": 1})
    assert result.values == {"total": 1}


def test_a_default_waits_for_a_producer_that_can_still_run(run: Run) -> None:
    @node(output_name="shown")
    def show(note: str = "none") -> str:
        return note

    @node(output_name="note")
    def write(raw: str) -> str:
        return raw.upper()

    graph = Graph([show, write, FunctionNode(lambda: "hi", "read", "raw")])
    assert run(graph)["shown"] == "HI"
    assert order(run(graph)) == ["read", "write", "show"]


@pytest.mark.parametrize("bound", [False, True])
@pytest.mark.parametrize(("good", "shown"), [(True, "NOTE"), (False, "none")])
def test_a_default_or_binding_counts_as_soon_as_its_producer_cannot_run_any_more(
    run: Run, good: bool, shown: str, bound: bool
) -> None:
    @ifelse("write", "skip")
    def gate(good: bool) -> bool:
        return good

    @node(output_name="draft")
    def write() -> str:
        return "note"

    @node(output_name="note")
    def polish(draft: str) -> str:
        return draft.upper()

    @node(output_name="skipped")
    def skip() -> int:
        return 1

    @node(output_name="shown")
    def show(note: str) -> str:
        return note

    @node(output_name="shown")
    def show_default(note: str = "none") -> str:
        return note

    last = show if bound else show_default
    graph = Graph([gate, write, polish, skip, last])
    result = run(graph.bind(note="none") if bound else graph, {"good": good})
    assert result["shown"] == shown
    if not good:
        assert trace(result) == [(0, "gate"), (1, "skip"), (1, last.name)]


@pytest.mark.parametrize("bound", [False, True])
def test_a_loop_begins_with_a_value_though_its_node_could_make_it(run: Run, bound: bool) -> None:
    @node(output_name="answer")
    def summarize(question: str, web: str) -> str:
        return f"{question} {web}".strip()

    @node(output_name="web")
    def search(question: str) -> str:
        return "found"

    @route(targets=["search", END])
    def grounded(answer: str) -> Any:
        return END if "found" in answer else "search"

    graph = Graph([summarize, search, grounded])
    result = run(graph.bind(web=""), question="q") if bound else run(graph, question="q", web="")
    assert order(result) == ["summarize", "grounded", "search", "summarize", "grounded"]
    assert result["answer"] == "q found"


def test_a_bound_value_does_not_stand_in_for_a_producer_that_can_run() -> None:
    @node(output_name="y")
    def double(x: int) -> int:
        return 2 * x

    with pytest.raises(ValueError, match=r"You bound 'x'.*Cannot mix compute and inject"):
        run_sync(Graph([const("make", "x", 1), double]).bind(x=5))


@pytest.mark.parametrize(("good", "shown"), [(True, 1), (False, 5)])
def test_a_bound_value_stands_in_for_a_node_that_waits_for_what_a_gate_leaves_out(
    run: Run, good: bool, shown: int
) -> None:
    @ifelse(when_true="sign", when_false=END)
    def gate(good: bool) -> bool:
        return good

    @node(output_name="signed", emit="ready")
    def sign(good: bool) -> bool:
        return good

    @node(output_name="page", wait_for="ready")
    def write(good: bool) -> int:
        return 1

    @node(output_name="shown")
    def show(page: int) -> int:
        return page

    graph = Graph([gate, sign, write, show]).bind(page=5)
    assert run(graph, good=good)["shown"] == shown


def test_inside_a_cycle_a_default_starts_the_loop(run: Run) -> None:
    @node(output_name="count")
    def up(count: int = 0) -> int:
        return count + 1

    @route(targets=["up", END])
    def gate(count: int) -> Any:
        return END if count >= 3 else "up"

    assert run(Graph([up, gate]))["count"] == 3


def test_a_loop_begins_at_the_node_that_has_what_it_takes_by_default(run: Run) -> None:
    seen: list[Any] = []

    @node(output_name="draft")
    def write(topic: str) -> str:
        return f"on {topic}"

    @node(output_name="score")
    def judge(draft: str = "nothing") -> int:
        seen.append(draft)
        return len(seen)

    @route(targets=["write", END])
    def gate(score: int) -> Any:
        return END if score > 1 else "write"

    result = run(Graph([judge, write, gate]), {"topic": "tea"})
    assert seen == ["nothing", "on tea"]
    assert order(result) == ["judge", "gate", "write", "judge", "gate"]


# -- S2, S3, S6: what counts as a change -----------------------------------------------------------------


def test_a_cycle_without_gates_ends_when_values_stop_changing(run: Run) -> None:
    @node(output_name="b")
    def half(a: int) -> int:
        return a // 2

    @node(output_name="a")
    def same(b: int) -> int:
        return b

    result = run(Graph([half, same]), {"a": 8})
    assert result.values == {"b": 0, "a": 0}


def test_an_accumulator_does_not_loop_by_itself(run: Run) -> None:
    @node(output_name="total")
    def add(total: int, step: int) -> int:
        return total + step

    assert run(Graph([add]), {"total": 0, "step": 5}).values == {"total": 5}


@pytest.mark.filterwarnings("ignore:'add' takes its own output")
def test_an_accumulator_beside_a_loop_runs_once_after_it(run: Run) -> None:
    @node(output_name="total")
    def add(total: int, step: int) -> int:
        return total + step

    @node(output_name="step")
    def shrink(step: int) -> int:
        return step // 2

    @route(targets=["shrink", END])
    def gate(step: int) -> Any:
        return END if step < 2 else "shrink"

    result = run(Graph([add, shrink, gate]), {"total": 0, "step": 4})
    assert result.values == {"total": 1, "step": 1}
    assert order(result)[-1] == "add"


def test_an_accumulator_that_the_gate_waits_for_runs_in_every_round(run: Run) -> None:
    @node(output_name="total", emit="added")
    def add(total: int, step: int) -> int:
        return total + step

    @node(output_name="step")
    def shrink(step: int) -> int:
        return step // 2

    @route(targets=["shrink", END], wait_for="added")
    def gate(step: int) -> Any:
        return END if step < 2 else "shrink"

    result = run(Graph([add, shrink, gate]), {"total": 0, "step": 4})
    assert result.values == {"total": 4 + 2 + 1, "step": 1}


def test_a_change_made_in_place_triggers_consumers_and_gates(run: Run) -> None:
    @node(output_name="items")
    def push(items: list[int]) -> list[int]:
        items.append(len(items))
        return items

    @node(output_name="size")
    def measure(items: list[int]) -> int:
        return len(items)

    @route(targets=["push", END])
    def gate(items: list[int]) -> Any:
        return END if len(items) >= 4 else "push"

    result = run(Graph([push, measure, gate]), {"items": []})
    assert result.values == {"items": [0, 1, 2, 3], "size": 4}


@pytest.mark.parametrize("value", [1, "text", (1, ("a",)), [1], {"a": 1}, object()])
def test_a_value_passed_through_is_taken_once(run: Run, value: Any) -> None:
    @node(output_name="x")
    def touch(x: Any, tick: int) -> Any:
        return x

    @node(output_name="seen")
    def watch(x: Any) -> int:
        return 1

    result = run(Graph([touch, watch]), {"x": value, "tick": 0})
    assert order(result).count("watch") == 1


@pytest.mark.parametrize("value", [1, "text", b"bytes", None, (1, ("a",)), frozenset({1}), len, int, 2.5])
def test_an_immutable_value_passed_round_is_no_change(run: Run, value: Any) -> None:
    @node(output_name="y")
    def there(x: Any) -> Any:
        return x

    @node(output_name="x")
    def back(y: Any) -> Any:
        return y

    assert order(run(Graph([there, back]), {"x": value})) == ["there", "back"]


@pytest.mark.parametrize("value", [[1], {"a": 1}, {1}, (1, [2]), bytearray(b"x"), object()])
def test_a_mutable_value_passed_round_may_have_changed_in_place(run: Run, value: Any) -> None:
    @node(output_name="y")
    def there(x: Any) -> Any:
        return x

    @node(output_name="x")
    def back(y: Any) -> Any:
        return y

    result = run(Graph([there, back]), {"x": value}, max_iterations=3, error_handling="continue")
    assert isinstance(result.error, InfiniteLoopError)


def test_consumers_of_a_loop_run_once_after_it(run: Run) -> None:
    calls: list[int] = []

    @node(output_name="parity")
    def parity(n: int) -> int:
        return n % 2

    @node(output_name="shown")
    def show(parity: int) -> int:
        calls.append(parity)
        return parity

    @node(output_name="n")
    def up(n: int) -> int:
        return n + 2

    @route(targets=["up", END])
    def gate(n: int) -> Any:
        return END if n > 6 else "up"

    result = run(Graph([parity, show, up, gate]), {"n": 0})
    assert (result["n"], calls) == (8, [0])


def test_a_polling_loop_goes_on_although_it_sees_the_same_again(run: Run) -> None:
    answers = iter(["pending", "pending", "pending", "done"])

    @node(output_name="status")
    def poll(job: str) -> str:
        return next(answers)

    @route(targets=["poll", END])
    def gate(status: str) -> Any:
        return END if status == "done" else "poll"

    result = run(Graph([poll, gate]), {"job": "j"})
    assert (result["status"], order(result).count("poll")) == ("done", 4)


# -- S7-S8a: holding back -----------------------------------------------------------------------------------


def test_targets_of_a_ready_gate_wait_for_its_decision(run: Run) -> None:
    @node(output_name="n")
    def up(n: int) -> int:
        return n + 1

    @route(targets=["up", END])
    def gate(n: int) -> Any:
        return END if n >= 2 else "up"

    result = run(Graph([up, gate]), {"n": 0})
    assert order(result) == ["gate", "up", "gate", "up", "gate"]
    assert run(Graph([up, gate]), {"n": 5}).values == {"n": 5}


def test_what_waits_for_a_node_runs_after_it(run: Run) -> None:
    @node(output_name="seen", wait_for="written")
    def check(n: int) -> int:
        return n

    @node(output_name="log", emit="written")
    def write(n: int) -> int:
        return n

    @node(output_name="n")
    def up(n: int) -> int:
        return n + 1

    @route(targets=["up", END])
    def gate(n: int) -> Any:
        return END if n >= 2 else "up"

    result = run(Graph([check, write, up, gate]), {"n": 0})
    names = order(result)
    assert names[-2:] == ["write", "check"]
    assert result.values == {"seen": 2, "log": 2, "n": 2}


def test_gates_that_choose_each_other_need_an_entry_point(run: Run) -> None:
    @route(targets=["second", END])
    def first(x: int) -> Any:
        return END

    @route(targets=["first", END])
    def second(x: int) -> Any:
        return "first"

    for nodes in ([first, second], [second, first]):
        with pytest.raises(ValueError, match=r"could begin at .* not a gate, by with_entrypoint"):
            run(Graph(nodes), {"x": 1})


# -- S10, S11: gates and their decisions --------------------------------------------------------------------


def test_a_gate_is_asked_after_everything_that_leads_to_it(run: Run) -> None:
    @node(output_name="n")
    def up(n: int, go: int) -> int:
        return n + 1

    @route(targets=["small", "large"])
    def gate(n: int) -> str:
        return "large" if n > 0 else "small"

    small, large = const("small", "s", 1), const("large", "l", 1)
    for nodes in ([up, gate, small, large], [gate, up, small, large]):
        result = run(Graph(nodes), {"n": 0, "go": 1})
        assert result.values == {"n": 1, "l": 1}
        assert [r.decision for r in result.log.steps if r.node_name == "gate"] == ["large"]


def test_end_is_final_for_its_gate_while_another_one_goes_on(run: Run) -> None:
    @node(output_name="n")
    def up(n: int) -> int:
        return n + 1

    @route(targets=["up", END])
    def early(n: int) -> Any:
        return END

    @route(targets=["up", END])
    def late(n: int) -> Any:
        return END if n == 3 else "up"

    result = run(Graph([up, early, late]), {"n": 0})
    assert (result.values, order(result).count("early"), order(result).count("late")) == ({"n": 3}, 1, 4)


def test_end_leaves_nodes_alone_that_its_gate_does_not_control(run: Run) -> None:
    @route(targets=["more", END])
    def gate(x: int) -> Any:
        return END

    @node(output_name="b")
    def b(a: int) -> int:
        return a + 1

    @node(output_name="a")
    def a(x: int) -> int:
        return x

    result = run(Graph([gate, const("more", "m", 1), a, b]), {"x": 1})
    assert result.values == {"a": 1, "b": 2}


def test_one_of_several_gates_is_enough(run: Run) -> None:
    @route(targets=["work", END])
    def no(x: int) -> Any:
        return END

    @route(targets=["work", END])
    def yes(x: int) -> Any:
        return "work"

    assert run(Graph([no, yes, const("work", "w", 1)]), {"x": 1}).values == {"w": 1}


# -- S13: the limit ----------------------------------------------------------------------------------------


def endless() -> Graph:
    @node(output_name="n")
    def up(n: int) -> int:
        return n + 1

    @route(targets=["up", END])
    def gate(n: int) -> Any:
        return "up"

    return Graph([up, gate])


def test_the_limit_counts_rounds_and_keeps_what_was_reached(run: Run) -> None:
    with pytest.raises(InfiniteLoopError, match=r"exceeded maximum iterations.*7") as caught:
        run(endless(), {"n": 0}, max_iterations=7)
    assert caught.value.max_iterations == 7
    assert caught.value.values == {"n": 6}
    assert caught.value.log.node_stats["gate"].count == 7
    assert "up → gate" in str(caught.value)
    assert "gate 'gate' last returned 'up'" in str(caught.value)


def test_the_default_limit_is_a_thousand(run: Run) -> None:
    for options in ({}, {"max_iterations": None}):
        result = run(endless(), {"n": 0}, error_handling="continue", **options)
        assert (result.status.value, result["n"]) == ("failed", 999)


def test_a_loop_that_ends_at_the_limit_is_within_it(run: Run) -> None:
    @node(output_name="n")
    def up(n: int) -> int:
        return n + 1

    @route(targets=["up", END])
    def gate(n: int) -> Any:
        return END if n == 3 else "up"

    assert run(Graph([up, gate]), {"n": 0}, max_iterations=4)["n"] == 3
    with pytest.raises(InfiniteLoopError):
        run(Graph([up, gate]), {"n": 0}, max_iterations=3)


def test_a_graph_without_cycles_needs_no_limit(run: Run) -> None:
    names = [f"v{index}" for index in range(30)]
    nodes = [
        FunctionNode(lambda x: x + 1, f"n{index}", names[index + 1], rename_inputs={"x": names[index]})
        for index in range(29)
    ]
    assert run(Graph(nodes), {"v0": 0}, max_iterations=1)["v29"] == 29


# -- declared edges ----------------------------------------------------------------------------------------


def adding(name: str) -> FunctionNode:
    return FunctionNode(lambda state: [*state, name], name, "state")


def test_with_declared_edges_nodes_wait_for_their_source_although_a_value_was_given(run: Run) -> None:
    graph = Graph([adding("c"), adding("b"), adding("a")], edges=chain("a", "b", "c"))
    result = run(graph, {"state": []})
    assert result["state"] == ["a", "b", "c"]
    assert trace(result) == [(0, "a"), (1, "b"), (2, "c")]


@pytest.mark.parametrize("extra", [[], [("b", "a")]])
def test_with_declared_edges_a_loop_begins_at_its_gate_and_goes_along_the_chain(
    run: Run, extra: list[Any]
) -> None:
    @route(targets=["a", END])
    def gate(state: list[str]) -> Any:
        return END if len(state) >= 6 else "a"

    for nodes in ([adding("a"), adding("b"), gate], [gate, adding("a"), adding("b")]):
        result = run(Graph(nodes, edges=[*chain("a", "b", "gate"), *extra]), {"state": []})
        assert result["state"] == ["a", "b"] * 3
        assert order(result) == ["gate", *["a", "b", "gate"] * 3]


def test_with_declared_edges_only_those_make_a_node_stale(run: Run) -> None:
    @node(output_name="seen")
    def look(state: list[str]) -> int:
        return len(state)

    result = run(Graph([adding("a"), adding("b"), look], edges=[("a", "b"), ("b", "look")]), {"state": []})
    assert trace(result) == [(0, "a"), (1, "b"), (2, "look")]


def test_an_edge_without_values_is_an_order(run: Run) -> None:
    seen: list[str] = []
    nodes = [FunctionNode(_noting(seen, name), name, None) for name in ("late", "early")]
    run(Graph(nodes, edges=[("early", "late")]))
    assert seen == ["early", "late"]


def _noting(seen: list[str], name: str) -> Callable[[], None]:
    def note() -> None:
        seen.append(name)

    return note


def test_a_value_is_not_made_beside_a_node_that_takes_it(run: Run) -> None:
    """Without an edge it would depend on timing which value the node takes."""

    @node(output_name="seen")
    def look(x: int) -> int:
        return x

    made = const("make", "x", 1)
    with pytest.raises(GraphConfigError, match="'x' is made by 'make' and is an input of 'look'"):
        run(Graph([made, look], edges=[]), {"x": 4})
    assert run(Graph([made, look], edges=[("make", "look")])).values == {"x": 1, "seen": 1}
    assert run(Graph([made, look], edges=[("look", "make")]), {"x": 4}).values == {"x": 1, "seen": 4}


# -- emit and wait_for -----------------------------------------------------------------------------------


def test_signals_order_nodes_and_appear_nowhere(run: Run) -> None:
    @node(output_name="read", wait_for="migrated")
    def read() -> str:
        return "rows"

    @node(emit="migrated")
    def migrate() -> None:
        pass

    result = run(Graph([read, migrate]))
    assert order(result) == ["migrate", "read"]
    assert result.values == {"read": "rows"}
    assert "migrated" not in str(result.log.to_dict())


def test_in_every_round_a_waiter_waits_for_the_signal_of_this_round(run: Run) -> None:
    events: list[str] = []

    @node(output_name="n")
    def up(n: int) -> int:
        return n + 1

    @node(output_name="saved", emit="done")
    def save(n: int) -> int:
        events.append(f"save {n}")
        return 0

    @node(output_name="told", wait_for="done", emit="told_all")
    def tell(n: int) -> int:
        events.append(f"tell {n}")
        return 0

    @route(targets=["up", END], wait_for="told_all")
    def gate(n: int) -> Any:
        return END if n >= 2 else "up"

    run(Graph([tell, up, save, gate]), {"n": 0})
    assert events == ["save 0", "tell 0", "save 1", "tell 1", "save 2", "tell 2"]


def test_data_can_be_waited_for_too(run: Run) -> None:
    @node(output_name="late", wait_for="early")
    def late() -> int:
        return 2

    assert order(run(Graph([late, const("early", "early", 1)]))) == ["early", "late"]


def test_a_gate_can_signal_that_it_has_decided(run: Run) -> None:
    @route(targets=["work", END], emit="decided")
    def gate(x: int) -> Any:
        return END

    @node(output_name="after", wait_for="decided")
    def after() -> int:
        return 1

    result = run(Graph([after, gate, const("work", "w", 1)]), {"x": 1})
    assert (order(result), result.values) == (["gate", "after"], {"after": 1})


# -- cost ---------------------------------------------------------------------------------------------------


def calls_in(graph: Graph, supersteps: int) -> int:
    """Count the calls of engine functions in a run that is cut off after so many supersteps."""
    count = 0

    def watch(frame: Any, event: str, _arg: Any) -> None:
        nonlocal count
        count += event == "call" and "hypergraph" in frame.f_code.co_filename

    sys.setprofile(watch)
    try:
        run_sync(graph, {"n": 0}, max_iterations=supersteps, error_handling="continue")
    finally:
        sys.setprofile(None)
    return count


def test_the_work_per_superstep_does_not_grow_with_the_graph() -> None:
    costs = []
    for size in (2, 200):
        idle = [const(f"idle{index}", f"i{index}", index) for index in range(size)]
        graph = Graph([*endless().nodes.values(), *idle])
        run_sync(graph, {"n": 0}, max_iterations=2, error_handling="continue")
        costs.append(calls_in(graph, 110) - calls_in(graph, 10))
    assert costs[0] == costs[1]


def test_a_value_may_have_the_name_that_an_earlier_node_emits(run: Run) -> None:
    @node(output_name="draft", emit="ready")
    def write(x: int) -> int:
        return x

    @node(output_name="ready")
    def check(draft: int) -> int:
        return draft + 1

    @node(output_name="sent")
    def send(ready: int) -> int:
        return ready

    assert run(Graph([write, check, send]), x=1).values == {"draft": 1, "ready": 2, "sent": 2}


@pytest.mark.parametrize("awaited", ["y", "told", "x"])
def test_nodes_that_would_wait_for_ever_are_refused(run: Run, awaited: str) -> None:
    @node(output_name="y", emit="told")
    def second(x: int) -> int:
        return x

    with pytest.raises(GraphConfigError, match="'first' waits for") as caught:
        run(Graph([const("first", "x", 1, wait_for=awaited), second, const("third", "z", 3)]))
    assert "would wait forever: 'first'" in str(caught.value)
    assert "third" not in str(caught.value)


def test_waiting_for_somebody_who_is_bypassed_is_refused(run: Run) -> None:
    @node(output_name="x", emit="done")
    def make(raw: int) -> int:
        return raw

    @node(output_name="y")
    def use(x: int) -> int:
        return x

    graph = Graph([make, use, const("after", "z", 1, wait_for="done")])
    assert run(graph, raw=1)["z"] == 1
    with pytest.raises(GraphConfigError, match="would wait forever: 'after'"):
        run(graph, x=1, on_internal_override="ignore")


def test_waiting_for_a_branch_that_is_not_taken_is_no_mistake(run: Run) -> None:
    @ifelse("yes", "no")
    def pick(x: int) -> bool:
        return False

    graph = Graph([pick, const("yes", "a", 1), const("no", "b", 2), const("late", "c", 3, wait_for="a")])
    assert run(graph, x=1).values == {"b": 2}
