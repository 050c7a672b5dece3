"""What a checkpoint says would run next: what did run, else what the stored facts leave to do."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from support.durable import Bodies, asking, bodies, counting, pipeline, read, store
from support.making import make
from support.random_graphs import UNDONE, random_case
from support.running import OnAsync, OnSync

from hypergraph import END, Graph, ifelse, interrupt, node, route
from hypergraph.checkpointers import Checkpointer, MemoryCheckpointer, StepRecord, StepStatus, WorkflowStatus
from hypergraph.checkpointers.course import ready_nodes
from hypergraph.checkpointers.records import Turn
from hypergraph.exceptions import WorkflowError
from hypergraph.graph.structure import structure_of
from hypergraph.structure import StoredGraph
from hypergraph.testing.conformance import samples

__all__ = ["bodies", "store"]  # fixtures

Row = tuple[Any, ...]  # superstep, node, versions taken, versions made; then more fields of a record


def after(
    store: Checkpointer,
    graph: Graph,
    rows: Sequence[Row] = (),
    *,
    status: WorkflowStatus = WorkflowStatus.ACTIVE,
    **inputs: Any,
) -> tuple[str, ...]:
    """Store a workflow with its structure and these steps; return what comes next."""
    read(store, "create_workflow", "w", graph=structure_of(graph), inputs=inputs)
    save(store, rows)
    read(store, "update_workflow_status", "w", status)
    return store.checkpoint("w").next


def save(store: Checkpointer, rows: Sequence[Row]) -> None:
    """Save steps of the workflow "w"."""
    for index, (superstep, name, taken, made, *rest) in enumerate(rows):
        more = {"status": StepStatus.COMPLETED, **(rest[0] if rest else {})}
        values = dict.fromkeys(made, 0)
        record = StepRecord(
            "w", superstep, name, index, input_versions=taken, values=values, output_versions=made, **more
        )
        read(store, "save_step", record)


def chain() -> Graph:
    return Graph([make("a", "x", out="y"), make("b", "y", out="z"), make("c", "z", out="end")])


FAILED = {"status": StepStatus.FAILED, "error": "broken"}


# --- what did run ------------------------------------------------------------------------------------


def test_in_the_middle_of_a_history_it_is_what_ran_next(store: Checkpointer, bodies: Bodies) -> None:
    OnSync(checkpointer=store).run(pipeline(bodies), v0=0, workflow_id="w")
    assert [store.checkpoint("w", superstep=n).next for n in range(-1, 4)] == [
        *(("s1",), ("s2",), ("s3",), ("s4",), ("s5",))
    ]
    assert read(store, "get_checkpoint", "w", superstep=2).next == ("s4",)


def test_nodes_that_ran_together_are_named_in_their_order(store: Checkpointer) -> None:
    graph = Graph([make("a", out="x"), make("z", "x"), make("b", "x"), make("y", "x")])
    OnSync(checkpointer=store).run(graph, workflow_id="w")
    assert store.checkpoint("w", superstep=0).next == ("z", "b", "y")


def test_after_a_failure_in_the_past_it_is_the_retry(store: Checkpointer, bodies: Bodies) -> None:
    bodies.failing["s3"] = ValueError("broken")
    with pytest.raises(ValueError, match="broken"):
        OnSync(checkpointer=store).run(pipeline(bodies), v0=0, workflow_id="w")
    assert store.checkpoint("w").next == ("s3",)
    bodies.failing.clear()
    OnSync(checkpointer=store).run(pipeline(bodies), workflow_id="w")
    assert store.checkpoint("w", superstep=2).next == ("s3",)
    assert store.checkpoint("w", superstep=3).next == ("s4",)
    assert store.checkpoint("w").next == ()


def test_a_superstep_without_steps_is_passed_over(store: Checkpointer) -> None:
    save(store, [(0, "a", {}, {"x": 1}), (7, "b", {"x": 1}, {"y": 1})])
    assert store.checkpoint("w", superstep=0).next == ("b",)
    assert store.checkpoint("w", superstep=3).next == ("b",)


# --- what the status says ----------------------------------------------------------------------------


def test_nothing_follows_what_is_completed(store: Checkpointer, bodies: Bodies) -> None:
    OnSync(checkpointer=store).run(counting(bodies), count=0, limit=3, workflow_id="w")
    assert store.checkpoint("w").next == ()
    assert after(MemoryCheckpointer(), chain(), status=WorkflowStatus.COMPLETED, x=1) == ()


def test_a_pause_is_next_until_it_is_answered(store: Checkpointer, bodies: Bodies) -> None:
    on = OnAsync(checkpointer=store)
    on.run(asking(bodies), topic="x", workflow_id="w")
    assert store.checkpoint("w").next == ("review",)
    on.run(asking(bodies), verdict="good", workflow_id="w")
    assert store.checkpoint("w").next == ()


def test_an_unknown_workflow_has_nothing_next(store: Checkpointer) -> None:
    assert asyncio.run(store.get_checkpoint("none")).next == ()


def test_without_a_structure_only_failures_and_pauses_are_known(store: Checkpointer) -> None:
    save(store, [(0, "a", {}, {"x": 1}), (1, "b", {}, {}, FAILED), (1, "c", {}, {})])
    assert store.checkpoint("w").next == ("b",)
    read(store, "save_step", StepRecord("v", 0, "a", 0, StepStatus.COMPLETED, {}))
    assert store.checkpoint("v").next == ()


def test_a_failure_that_others_went_past_is_next_until_it_is_made_good(store: Checkpointer) -> None:
    rows = [(0, "a", {}, {}, FAILED), (0, "b", {}, {"x": 1}), (1, "c", {"x": 1}, {})]
    save(store, rows)
    assert store.checkpoint("w").next == ("a",)
    save(store, [*rows, (2, "a", {}, {"y": 1})])
    assert store.checkpoint("w").next == ()


def test_a_structure_of_unknown_origin_is_left_alone(store: Checkpointer) -> None:
    read(store, "create_workflow", "w", graph={"nodes": [{"name": "a"}], "version": 99})
    assert store.checkpoint("w").next == ()


# --- what the structure says -------------------------------------------------------------------------


def test_what_has_its_inputs_and_never_ran_is_next(store: Checkpointer) -> None:
    assert after(store, chain(), x=1) == ("a",)
    save(store, [(0, "a", {"x": 1}, {"y": 1}), (1, "b", {"y": 1}, {"z": 1})])
    assert store.checkpoint("w").next == ("c",)


def test_what_lacks_an_input_is_not_next(store: Checkpointer) -> None:
    assert after(store, chain()) == ()


def test_bound_values_and_defaults_count_as_inputs(store: Checkpointer) -> None:
    graph = Graph([make("a", "key", out="x"), make("b", "n=1")]).bind(key=1)
    assert after(store, graph) == ("a", "b")


def test_a_default_waits_for_whoever_may_still_make_the_value(store: Checkpointer) -> None:
    assert after(store, Graph([make("a", "x", out="y"), make("b", "y=1")]), x=1) == ("a",)


def test_a_default_waits_for_nobody_who_cannot_run(store: Checkpointer) -> None:
    @ifelse(when_true="a", when_false=END)
    def wanted(x: int) -> bool: ...

    graph = Graph([make("a", "x", out="y"), make("b", "y=1"), wanted])
    assert after(store, graph, [(0, "wanted", {"x": 1}, {}, {"decision": "END"})], x=1) == ("b",)


def test_a_sibling_that_is_missing_from_the_last_superstep_goes_first(store: Checkpointer) -> None:
    graph = Graph([make("a", "x", out="y"), make("b", "x"), make("c", "y")])
    assert after(store, graph, [(0, "a", {"x": 1}, {"y": 1})], x=1) == ("b",)


def test_failed_nodes_are_next_before_what_their_siblings_made_ready(store: Checkpointer) -> None:
    graph = Graph([make("a", "x", out="y"), make("b", "x"), make("c", "y")])
    rows = [(0, "a", {"x": 1}, {"y": 1}), (0, "b", {"x": 1}, {}, FAILED)]
    assert after(store, graph, rows, status=WorkflowStatus.FAILED, x=1) == ("b",)
    save(store, [*rows, (1, "b", {"x": 1}, {"b_out": 1}, {"retry_of": 0})])
    assert store.checkpoint("w").next == ("c",)


def test_what_never_ran_beside_a_failure_is_next_with_it(store: Checkpointer) -> None:
    graph = Graph([make("a", "x"), make("b", "x"), make("c", "x", out="y"), make("d", "y")])
    rows = [(0, "b", {"x": 1}, {}, FAILED), (0, "c", {"x": 1}, {"y": 1})]
    assert after(store, graph, rows, status=WorkflowStatus.FAILED, x=1) == ("a", "b")


def test_a_resume_begins_with_what_was_said_to_be_next(store: Checkpointer, bodies: Bodies) -> None:
    def entering(name: str, taken: str, made: str) -> Any:
        def body(value: int) -> int:
            bodies.enter(name)
            return value

        return node(output_name=made)(body).with_name(name).with_inputs(value=taken)

    graph = Graph([entering("a", "x", "y"), entering("b", "x", "z"), entering("c", "y", "w")])
    bodies.failing["b"] = ValueError("broken")
    with pytest.raises(ValueError, match="broken"):
        OnSync(checkpointer=store).run(graph, x=1, workflow_id="w")
    expected = store.checkpoint("w").next
    bodies.failing.clear()
    OnSync(checkpointer=store).run(graph, workflow_id="w")
    assert store.checkpoint("w", superstep=0).next == expected == ("b",)


def test_a_map_has_no_nodes_of_its_own_that_would_run(store: Checkpointer) -> None:
    def fail(x: int = 1) -> None:
        raise ValueError("broken")

    graph = Graph([node(output_name="y")(fail)], name="failing")
    on = OnSync(checkpointer=store)
    on.map(graph, x=[1, 2], map_over="x", error_handling="continue", workflow_id="batch")
    with pytest.raises(WorkflowError, match="is a map"):
        store.checkpoint("batch")
    assert store.checkpoint("batch/item-0").next == ("fail",)


def test_a_node_that_stopped_midway_is_next(store: Checkpointer) -> None:
    rows = [(0, "a", {"x": 1}, {"y": 1}), (1, "b", {"y": 1}, {}, {"status": StepStatus.STOPPED})]
    assert after(store, chain(), rows, status=WorkflowStatus.STOPPED, x=1) == ("b",)


def test_the_branch_that_a_gate_named_is_next(store: Checkpointer) -> None:
    @ifelse(when_true="a", when_false="b")
    def good(x: int) -> bool: ...

    graph = Graph([make("a", "x"), make("b", "x"), good])
    assert after(store, graph, x=1) == ("good",)
    save(store, [(0, "good", {"x": 1}, {}, {"decision": "b"})])
    assert store.checkpoint("w").next == ("b",)


def looping() -> Graph:
    @route(targets=["add", END])
    def again(n: int) -> Any: ...

    return Graph([make("add", "n", out="n"), again])


def test_a_loop_goes_through_its_gate_before_it_goes_on(store: Checkpointer) -> None:
    add, again = (0, "add", {"n": 1}, {"n": 2}), (1, "again", {"n": 2}, {}, {"decision": "add"})
    assert after(store, looping(), n=0) == ("again",)  # a gate that is ready goes first
    save(store, [(0, "again", {"n": 1}, {}, {"decision": "add"}), (1, "add", {"n": 1}, {"n": 2})])
    assert store.checkpoint("w").next == ("again",)
    assert after(MemoryCheckpointer(), looping(), [add, again], n=0) == ("add",)


def test_nothing_follows_a_gate_that_decided_end(store: Checkpointer) -> None:
    rows = [(0, "add", {"n": 1}, {"n": 2}), (1, "again", {"n": 2}, {}, {"decision": "END"})]
    assert after(store, looping(), rows, n=0) == ()


def test_a_new_turn_takes_up_a_loop_that_had_ended(store: Checkpointer) -> None:
    rows = [(0, "again", {"n": 1}, {}, {"decision": "END"})]
    shape = StoredGraph(structure_of(looping()))
    save(store, rows)
    steps = store.steps("w")
    first = Turn(0, frozenset({"n"}))
    assert ready_nodes(shape, steps, [first]) == ()
    assert ready_nodes(shape, steps, [first, Turn(1, frozenset({"n"}))]) == ("again",)


def test_several_named_targets_are_all_next(store: Checkpointer) -> None:
    @route(targets=["a", "b", "c"], multi_target=True)
    def pick(x: int) -> Any: ...

    graph = Graph([pick, *(make(name, "x") for name in "abc")])
    assert after(store, graph, [(0, "pick", {"x": 1}, {}, {"decision": ["c", "a"]})], x=1) == ("a", "c")


def test_a_node_waits_for_what_it_was_told_to(store: Checkpointer) -> None:
    graph = Graph([make("last", "x", wait_for="done"), make("first", "x", emit="done")])
    assert after(store, graph, x=1) == ("first",)
    save(store, [(0, "first", {"x": 1}, {"first_out": 1})])
    assert store.checkpoint("w").next == ("last",)


def test_a_question_to_a_person_holds_nothing_up(store: Checkpointer) -> None:
    @interrupt(output_name="answer")
    def ask(x: int) -> None: ...

    assert after(store, Graph([make("a", "x"), ask]), x=1) == ("a", "ask")


def test_what_lies_before_the_entry_points_is_never_next(store: Checkpointer) -> None:
    assert after(store, chain().with_entrypoint("b"), x=1, y=1) == ("b",)


def test_new_values_make_what_took_the_old_ones_next(store: Checkpointer) -> None:
    graph = chain()
    done = [(0, "a", {"x": 1}, {"y": 1}), (1, "b", {"y": 1}, {"z": 1}), (2, "c", {"z": 1}, {"end": 1})]
    assert after(store, graph, [*done, (3, "a", {"x": 2}, {"y": 2})], x=1) == ("b",)


# --- against the engine ------------------------------------------------------------------------------


@UNDONE
@given(st.integers(0, 2**32), st.randoms(use_true_random=False))
@settings(max_examples=75)
def test_at_every_point_of_a_run_it_is_what_the_engine_did(seed: int, rng: Random) -> None:
    case = random_case(Random(seed), ("sum",))
    assume(case is not None and not case.graph.has_cycles)
    assert case is not None
    kept, graph = MemoryCheckpointer(), case.ready_graph()
    plain = {name: getattr(value, "number", value) for name, value in case.inputs().items()}
    OnSync(checkpointer=kept).run(graph, plain, workflow_id="w")
    steps, shape = kept.steps("w"), StoredGraph(structure_of(graph))
    turns = [Turn(0, frozenset(samples.given(kept, "w")))]
    for superstep in range(-1, max((step.superstep for step in steps), default=-1) + 1):
        so_far = [step for step in steps if step.superstep <= superstep]
        following = [step for step in steps if step.superstep == superstep + 1]
        assert ready_nodes(shape, so_far, turns) == tuple(step.node_name for step in following)
        crashed = [step for step in following if rng.random() < 0.5]
        if crashed:
            missing = tuple(step.node_name for step in following if step not in crashed)
            assert not missing or ready_nodes(shape, [*so_far, *crashed], turns) == missing


def test_a_checkpoint_leaves_out_what_is_not_stored_rather_than_show_what_was_given_before() -> None:
    double = node(output_name="y", persist=False)(lambda x: x * 2).with_name("double")
    count = node(output_name="z")(lambda y: y + 1).with_name("count")
    store, graph = MemoryCheckpointer(), Graph([double, count], name="sums")
    runner = OnSync(checkpointer=store)
    for values in ({"x": 1}, {"y": 100}, {"x": 7}):
        runner.run(graph, values, workflow_id="w")
    assert store.checkpoint("w").values == {"z": 15, "x": 7}  # y was 14
    assert runner.run(graph, {"x": 8}, workflow_id="w").values == {"y": 16, "z": 17}
