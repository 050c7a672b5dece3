"""Forks: their ids, and what the values mean that are given with them."""

import asyncio
from typing import Any

import pytest
from support.durable import On, durable, store

from hypergraph import END, AsyncRunner, FunctionNode, Graph, SyncRunner, node, route
from hypergraph.checkpointers import Checkpointer, MemoryCheckpointer

__all__ = ["durable", "store"]  # fixtures

GRAPH = Graph([FunctionNode(lambda x: x, "take", "y"), FunctionNode(lambda y: y + 1, "add", "z")])


def store_with_a_run() -> MemoryCheckpointer:
    store = MemoryCheckpointer()
    SyncRunner(checkpointer=store).run(GRAPH, x=1, workflow_id="first")
    return store


def ways_to_fork(store: MemoryCheckpointer) -> dict[str, dict[str, Any]]:
    point = store.checkpoint("first", superstep=0)
    return {
        "history": {"values": {**point.values}, "history": point.steps},
        "checkpoint": {"checkpoint": point},
        "fork_from": {"fork_from": ("first", 0)},
    }


@pytest.mark.parametrize("way", ["history", "checkpoint", "fork_from"])
def test_a_fork_without_an_id_is_stored_under_its_run_id(way: str) -> None:
    store = store_with_a_run()
    result = SyncRunner(checkpointer=store).run(GRAPH, **ways_to_fork(store)[way])
    assert result["z"] == 2
    assert result.workflow_id == result.run_id
    forked = store.workflow(result.run_id)
    assert forked is not None
    assert (forked.forked_from, [step.node_name for step in forked.steps]) == ("first", ["take", "add"])


def test_a_given_run_id_serves_as_the_id_of_a_fork() -> None:
    store = store_with_a_run()
    runner = AsyncRunner(checkpointer=store)
    result = asyncio.run(runner.run(GRAPH, fork_from=("first", 0), run_id="second"))
    assert (result.run_id, result.workflow_id) == ("second", "second")


@pytest.mark.parametrize("way", ["history", "checkpoint", "fork_from"])
def test_a_fork_needs_a_store(way: str) -> None:
    with pytest.raises(ValueError, match=f"{way}.* needs? a runner with a checkpointer"):
        SyncRunner().run(GRAPH, **ways_to_fork(store_with_a_run())[way])


# -- values given with a fork ------------------------------------------------------------------------------


class Essay:
    """A loop that writes twice, and a record of its calls."""

    def __init__(self) -> None:
        self.ran: list[tuple[Any, ...]] = []

        @node(output_name="plan")
        def sketch(goal: str, review: str = "") -> str:
            self.ran.append(("sketch", goal, review))
            return f"{goal}{review}"

        @node(output_name="text")
        def write(plan: str) -> str:
            self.ran.append(("write", plan))
            return f"<{plan}>"

        @node(output_name="review")
        def check(text: str) -> str:
            self.ran.append(("check", text))
            return f"!{text}"

        @node(output_name="rows")
        def count(review: str, rows: tuple[str, ...] = ()) -> tuple[str, ...]:
            self.ran.append(("count", len(rows)))
            return (*rows, review)

        @route(targets=["sketch", END])
        def enough(rows: tuple[str, ...]) -> Any:
            self.ran.append(("enough", len(rows)))
            return END if len(rows) >= 2 else "sketch"

        self.graph = Graph([sketch, write, check, count, enough], name="essay")

    def took(self) -> list[tuple[Any, ...]]:
        ran, self.ran = self.ran, []
        return ran


SECOND_ROUND = [
    ("count", 0),
    ("enough", 1),
    ("sketch", "g", "!EDIT"),
    ("write", "g!EDIT"),
    ("check", "<g!EDIT>"),
    ("count", 1),
    ("enough", 2),
]


@pytest.mark.parametrize("at", [1, 2])
def test_a_value_made_inside_a_loop_is_replaced_and_the_round_goes_on(durable: On, at: int) -> None:
    essay = Essay()
    durable.run(essay.graph, {"goal": "g"}, workflow_id="w")
    essay.took()
    durable.run(essay.graph, {"text": "EDIT"}, fork_from=("w", at), workflow_id="f")
    assert essay.took() == [("check", "EDIT"), *SECOND_ROUND]


def test_a_fork_that_is_interrupted_after_its_edit_ends_alike(durable: On, store: Checkpointer) -> None:
    essay = Essay()
    durable.run(essay.graph, {"goal": "g"}, workflow_id="w")
    whole = durable.run(essay.graph, {"text": "EDIT"}, fork_from=("w", 1), workflow_id="whole")
    steps = [(step.superstep, step.node_name) for step in store.steps("whole")]
    for cut in range(2, 9):
        name = f"cut{cut}"
        durable.run(essay.graph, fork_from=("whole", cut), workflow_id=name)
        assert [(step.superstep, step.node_name) for step in store.steps(name)] == steps
        assert store.state(name) == whole.values


def test_a_value_that_is_made_again_before_it_is_used_is_warned_about(durable: On) -> None:
    essay = Essay()
    durable.run(essay.graph, {"goal": "g"}, workflow_id="w")
    with pytest.warns(UserWarning, match="'text' is not used: node 'write' makes it again first"):
        durable.run(essay.graph, {"text": "EDIT"}, fork_from=("w", 0), workflow_id="f")


def test_a_given_input_is_news_whichever_step_had_taken_its_default(durable: On) -> None:
    ran: list[tuple[Any, ...]] = []

    @node(output_name="a")
    def first(x: int, k: int = 1) -> int:
        ran.append(("first", x, k))
        return x + k

    @node(output_name="b")
    def second(a: int, k: int = 1) -> int:
        ran.append(("second", a, k))
        return a * k

    graph = Graph([first, second], name="defaults")
    durable.run(graph, {"x": 1}, workflow_id="w")
    for at in (0, 1):
        ran.clear()
        result = durable.run(graph, {"k": 5}, fork_from=("w", at), workflow_id=f"f{at}")
        assert (ran, result["b"]) == ([("first", 1, 5), ("second", 6, 5)], 30)


@pytest.mark.parametrize(
    ("edit", "course", "draft"),
    [
        ({"critique": ""}, [(3, "good", "END")], "tea:"),
        ({"draft": "a better draft"}, [(3, "review", None), (4, "good", "END")], "a better draft"),
    ],
)
def test_a_value_that_is_edited_after_a_gate_has_decided_takes_its_decision_back(
    edit: dict[str, str], course: list[tuple[int, str, str | None]], draft: str
) -> None:
    @node(output_name="draft")
    def write(topic: str, critique: str = "") -> str:
        return f"{topic}:{critique}"

    @node(output_name="critique")
    def review(draft: str) -> str:
        return "" if "better" in draft else "make it better"

    @route(targets=["write", END])
    def good(critique: str) -> Any:
        return "write" if critique else END

    graph, store = Graph([write, review, good], name="essay"), MemoryCheckpointer()
    runner = SyncRunner(checkpointer=store)
    runner.run(graph, topic="tea", workflow_id="w")
    result = runner.run(graph, edit, workflow_id="fork", checkpoint=store.checkpoint("w", superstep=2))
    assert result["draft"] == draft
    steps = [(step.superstep, step.node_name, step.decision) for step in store.steps("fork")]
    assert steps[3:] == course
    assert runner.run(graph, workflow_id="fork").values == result.values
