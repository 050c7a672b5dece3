"""Failed items of a map in a loop: what `restart=` reaches, and what is said of the rest."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
from support.durable import On, durable, store

from hypergraph import END, Graph, node, route
from hypergraph.checkpointers import Checkpointer

__all__ = ["durable", "store"]  # fixtures


class Plan:
    """A loop that makes a list for a map in each round; items in `down` fail."""

    def __init__(self, rounds: int, down: str) -> None:
        self.down, self.calls = set(down), list[str]()

        @node(output_name="found")
        def work(task: str) -> str:
            self.calls.append(task)
            if task in self.down:
                raise ConnectionError(task)
            return task.upper()

        @node(output_name=("tasks", "number"))
        def plan(request: str, number: int = 0) -> tuple[list[str], int]:
            return list(request.split()[number]), number + 1

        @route(targets=["plan", END])
        def enough(found: list[str], number: int) -> Any:
            return "plan" if number < rounds else END

        self.one = Graph([work], name="one")
        each = self.one.as_node(name="each", append="found").with_inputs(task="tasks")
        self.graph = Graph([plan, each.map_over("tasks", error_handling="continue"), enough], name="plans")

    def called(self) -> list[str]:
        found, self.calls = self.calls, []
        return found


def warned(call: Any, *args: Any, **options: Any) -> tuple[Any, list[str]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = call(*args, **options)
    return result, [str(warning.message) for warning in caught]


def test_failed_items_of_an_earlier_round_are_named(durable: On, store: Checkpointer) -> None:
    work = Plan(3, "be")
    durable.run(work.graph, request="abc de fg", workflow_id="w")
    work.down.clear()
    work.called()
    result, [said] = warned(durable.run, work.graph, workflow_id="w", restart="node")
    assert result["found"] == ["A", "C", "D", "F", "G"], "what followed has taken the results of these rounds"
    assert work.called() == []
    assert "does not run the failed items of earlier rounds again: 'w/each/item-1', 'w/each#2/item-1'" in said
    assert "fork_from=('w', 0)" in said
    fork = durable.run(work.graph, workflow_id="v", fork_from=("w", 0))
    assert fork["found"] == ["A", "B", "C", "D", "E", "F", "G"]


def test_the_items_of_an_earlier_turn_are_not_meant(durable: On, store: Checkpointer) -> None:
    work = Plan(1, "b")
    durable.run(work.graph, request="ab", workflow_id="w")
    durable.run(work.graph, request="cd", number=0, workflow_id="w", new_turn=True)
    assert warned(durable.run, work.graph, workflow_id="w", restart="node")[1] == []


def test_failed_items_of_earlier_rounds_are_named_inside_of_items(durable: On, store: Checkpointer) -> None:
    work = Plan(2, "b")
    teams = work.graph.as_node(name="team").with_inputs(request="requests").map_over("requests")
    outer = Graph([teams], name="outer")
    durable.run(outer, requests=["ab c", "d e"], workflow_id="w")
    work.down.clear()
    said = warned(durable.run, outer, workflow_id="w", restart="node")[1]
    assert ["'w/team/item-0/each/item-1'" in text for text in said] == [True]


@pytest.mark.parametrize("rounds", [1, 2])
def test_a_run_without_failed_items_says_nothing(durable: On, store: Checkpointer, rounds: int) -> None:
    work = Plan(rounds, "")
    durable.run(work.graph, request="a b", workflow_id="w")
    assert warned(durable.run, work.graph, workflow_id="w", restart="node")[1] == []
