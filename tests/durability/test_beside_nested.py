"""Nested graphs that wait or fail beside nodes that write what they took continue with what they began with.

A gate chooses both at once, so neither waits for the other.
"""

from __future__ import annotations

from typing import Any

import pytest
from support.durable import durable, store
from support.running import On

from hypergraph import END, Graph, GraphNode, Replace, interrupt, node, route
from hypergraph.checkpointers import Checkpointer

__all__ = ["durable", "store"]  # fixtures

ORDERS = pytest.mark.parametrize("beside_first", [True, False])
CHANGES = pytest.mark.parametrize("change", ["more", Replace(["all new"])], ids=["append", "replace"])


class Office:
    """A supervisor that starts a clerk and a writer at once; `down` makes the last node of the clerk fail."""

    def __init__(self, change: Any = "more") -> None:
        self.change = change
        self.down = False
        self.shown: list[int] = []
        self.filed: list[int] = []

    def graph(self, clerk: GraphNode, *, beside_first: bool) -> Graph:
        @node(output_name="notes", append=True)
        def listen(said: str) -> list[str]:
            return [said] * 4  # enough for the store to refer to it instead of copying it

        @route(targets=["writer", "clerk", END], multi_target=True)
        def dispatch(said: str) -> list[str]:
            return ["writer", "clerk"]

        @node(output_name="notes", append=True)
        def writer(notes: list[str]) -> Any:
            return self.change

        both = [writer, clerk] if beside_first else [clerk, writer]
        return Graph([listen, dispatch, *both], name="office")

    def clerk(self, *, asks: bool) -> GraphNode:
        @interrupt("approved")
        def approve(notes: list[str]) -> bool | None:
            self.shown.append(len(notes))
            return None if asks else True

        @node(output_name="filed", repeatable=False)
        def file(notes: list[str], approved: bool) -> int:
            self.filed.append(len(notes))
            return len(notes)

        @node(output_name="notes", append=True)
        def report(notes: list[str], filed: int) -> str:
            if self.down:
                raise ConnectionError("down")
            return f"filed {filed} of {len(notes)}"

        return Graph([approve, file, report], name="clerk").as_node(lift="notes")


@ORDERS
@CHANGES
@pytest.mark.filterwarnings("ignore:What 'clerk' has appended to 'notes' is lost")  # by design, in one order
@pytest.mark.parametrize("asks", [True, False])
def test_a_failure_after_the_answer_repeats_nothing(
    durable: On, change: Any, asks: bool, beside_first: bool
) -> None:
    office = Office(change)
    graph = office.graph(office.clerk(asks=asks), beside_first=beside_first)
    given = {"said": "tea", "clerk.approved": True} if asks else {"said": "tea"}
    expected = durable.run(graph, given, workflow_id="uninterrupted")["notes"]
    office.shown, office.filed, office.down = [], [], True
    first = durable.run(graph, said="tea", workflow_id="w", error_handling="continue")
    if asks:
        assert first.pause is not None
        durable.run(graph, {"clerk.approved": True}, workflow_id="w", error_handling="continue")
    office.down = False
    for _ in range(2):
        assert durable.run(graph, workflow_id="w")["notes"] == expected
    assert office.shown == [4]
    assert office.filed == [4]


@ORDERS
def test_an_approval_is_for_what_was_shown(durable: On, beside_first: bool) -> None:
    sent = []

    @route(targets=["edit", "office", END], multi_target=True)
    def dispatch(turn: int) -> list[Any]:
        return ["edit", "office"] if turn == 1 else [END]

    @node(output_name="turn")
    def plan(goal: str, turn: int = 0, mail: str = "", edited: bool = False) -> int:
        return turn + 1

    @node(output_name=("draft", "edited"))
    def edit(draft: str, turn: int) -> tuple[str, bool]:
        return draft + " and fire Bob", True

    @interrupt("approved")
    def approve(draft: str) -> bool | None:
        return None

    @node(output_name="mail")
    def send(draft: str, approved: bool) -> str:
        sent.append(draft)
        return draft

    office = Graph([approve, send], name="office").as_node(lift="mail")
    graph = Graph([plan, dispatch, *([edit, office] if beside_first else [office, edit])], name="letters")
    asked = durable.run(graph, {"goal": "x", "draft": "Pay Ann"}, workflow_id="w")
    assert [pause.value for pause in asked.pauses] == ["Pay Ann"]
    durable.run(graph, {"office.approved": True}, workflow_id="w")
    assert sent == ["Pay Ann"]


@ORDERS
def test_items_of_one_map_work_on_one_list(durable: On, beside_first: bool) -> None:
    office, lengths = Office(), []

    @interrupt("approved")
    def approve(call: int) -> bool | None:
        return None

    @node(output_name="notes")
    def tool(call: int, notes: list[str], approved: bool) -> str:
        lengths.append(len(notes))
        if office.down and call == 1:
            raise ConnectionError("down")
        return f"tool {call}"

    inner = Graph([approve, tool], name="clerk").as_node(append="notes", lift="notes")
    clerk = inner.with_inputs(call="calls").map_over("calls")
    graph = office.graph(clerk, beside_first=beside_first)
    office.down = True
    durable.run(graph, said="tea", calls=[0, 1], workflow_id="w")
    for item in range(2):  # one answer per call
        answer = {f"clerk.item-{item}.approved": True}
        durable.run(graph, answer, workflow_id="w", error_handling="continue")
    office.down = False
    assert {"more", "tool 0", "tool 1"} <= {*durable.run(graph, workflow_id="w")["notes"]}
    assert {*lengths} == {4}


def test_the_history_says_what_each_of_several_nodes_took(durable: On, store: Checkpointer) -> None:
    office = Office()
    graph = office.graph(office.clerk(asks=False), beside_first=True)
    durable.run(graph, said="tea", workflow_id="w")
    taken = {step.node_name: step.input_versions.get("notes") for step in store.steps("w")}
    assert taken == {"listen": None, "dispatch": None, "writer": 1, "clerk": 1}
    assert store.inputs("w", "clerk")["notes"] == ["tea"] * 4
    assert store.inputs("w/clerk")["notes"] == ["tea"] * 4
