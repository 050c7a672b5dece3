"""Keys of answers to items of a mapped graph: the name alone, and items that do not exist or do not ask."""

from __future__ import annotations

from typing import Any

import pytest
from support.durable import Bodies, On, bodies, durable, store

from hypergraph import END, Graph, ifelse, interrupt, node, route
from hypergraph.checkpointers import Checkpointer
from hypergraph.exceptions import WorkflowError

__all__ = ["bodies", "durable", "store"]  # fixtures


class Agent:
    """A model that calls tools: each call is an item of a map, and asks if it is about milk."""

    def __init__(self, bodies: Bodies, calls: dict[int, list[str]], *, taken: bool = False) -> None:
        @node(output_name="log", append=True)
        def listen(said: str) -> str:
            return f"user {said}"

        @node(output_name=("log", "calls"), append="log")
        def model(log: list[str]) -> tuple[str, list[str]]:
            rounds = sum(line.startswith("model") for line in log)
            return "model", calls.get(rounds, [])

        @route(targets=["act", END])
        def decide(calls: list[str]) -> Any:
            return "act" if calls else END

        @interrupt("ok")
        def ask(call: str) -> bool | None:
            return None if "milk" in call else True

        @ifelse(when_true="pay", when_false="refuse")
        def allowed(ok: bool) -> bool:
            return ok

        @node(output_name="line")
        def pay(call: str) -> str:
            bodies.enter(f"pay {call}")
            return f"paid {call}"

        @node(output_name="line")
        def refuse(call: str) -> str:
            return f"refused {call}"

        @node(output_name="count")
        def tally(ok: list[bool]) -> int:
            return sum(ok)

        one = Graph([ask, allowed, pay, refuse], name="act").as_node(append="line")
        act = one.with_outputs(line="log").with_inputs(call="calls").map_over("calls")
        self.graph = Graph([listen, model, decide, act, *([tally] if taken else [])], name="agent")


def keys(result: Any) -> list[str]:
    return [pause.response_key for pause in result.pauses]


@pytest.mark.parametrize("taken", [False, True], ids=["", "taken"])
@pytest.mark.parametrize("rounds", [[["milk"]], [["tea"], ["milk"]], [["tea"], ["rum", "milk", "oat milk"]]])
def test_the_name_alone_is_refused_while_items_ask_in_whichever_round_of_a_loop(
    durable: On, store: Checkpointer, bodies: Bodies, rounds: list[list[str]], taken: bool
) -> None:
    agent = Agent(bodies, dict(enumerate(rounds)), taken=taken)
    asked = keys(durable.run(agent.graph, {"said": "go"}, workflow_id="w"))
    before = store.steps("w"), store.checkpoint("w").values, bodies.take()
    for value in (True, False, [False]):
        for options in ({}, {"new_turn": True}, {"on_internal_override": "ignore"}):
            with pytest.raises(ValueError, match="each item of node 'act' asks") as refused:
                durable.run(agent.graph, {"ok": value}, workflow_id="w", **options)
            assert all(repr(key) in str(refused.value) for key in asked)
        with pytest.raises(ValueError, match="each item of node 'act' asks"):
            durable.run(agent.graph, {"ok": value}, workflow_id="f", fork_from=("w", None))
    assert (store.steps("w"), store.checkpoint("w").values, bodies.take()) == (*before[:2], [])
    assert [workflow.id for workflow in store.workflows()] == ["w"]
    assert durable.run(agent.graph, dict.fromkeys(asked, False), workflow_id="w").completed


def test_the_name_alone_is_refused_in_a_later_turn_of_a_graph_without_a_loop(durable: On) -> None:
    @interrupt("ok")
    def ask(topic: str) -> bool | None:
        return None

    graph = Graph([Graph([ask], name="inner").as_node(name="each").map_over("topic")], name="desk")
    for topic in ("tea", "milk"):
        assert keys(durable.run(graph, {"topic": [topic]}, workflow_id="w")) == ["each.item-0.ok"]
        with pytest.raises(ValueError, match=r"pass 'each.item-0.ok'"):
            durable.run(graph, {"ok": True}, workflow_id="w")
        assert durable.run(graph, {"each.item-0.ok": True}, workflow_id="w").completed


@pytest.mark.parametrize("key", ["ok", "act.ok"])
def test_the_name_alone_is_refused_before_a_loop_asks(durable: On, bodies: Bodies, key: str) -> None:
    agent = Agent(bodies, {0: ["tea"], 1: ["milk"]})
    with pytest.raises(ValueError, match=r"'act.item-0.ok'"):
        durable.run(agent.graph, {"said": "go", key: True}, workflow_id="w")
    assert bodies.take() == []


def test_the_list_of_the_answers_of_all_items_may_be_edited_and_given_again(
    durable: On, store: Checkpointer, bodies: Bodies
) -> None:
    agent = Agent(bodies, {0: ["tea", "rum"]}, taken=True)
    assert durable.run(agent.graph, {"said": "go"}, workflow_id="w")["count"] == 2
    point = store.checkpoint("w")
    assert durable.run(agent.graph, {"ok": point.values["ok"]}, workflow_id="w")["count"] == 2
    edited = durable.run(agent.graph, {"ok": [False, True]}, workflow_id="f", fork_from=("w", None))
    assert edited["count"] == 1
    again = {**point.values, "ok": [False, False]}
    assert durable.run(agent.graph, again, workflow_id="g", checkpoint=point)["count"] == 0


def test_a_fork_refuses_an_answer_to_an_item_that_the_next_map_does_not_have(
    durable: On, store: Checkpointer, bodies: Bodies
) -> None:
    agent = Agent(bodies, {0: ["tea"], 1: ["milk", "rum"]})
    durable.run(agent.graph, {"said": "go"}, workflow_id="w")
    at = store.steps("w", node="decide")[1].superstep
    bodies.take()
    with pytest.raises(WorkflowError, match=r"does not ask for 'act.item-7.ok': node 'act', .* has 2 items"):
        durable.run(agent.graph, {"act.item-7.ok": True}, workflow_id="f", fork_from=("w", at))
    assert (bodies.take(), [found.id for found in store.workflows()]) == ([], ["w"])
    result = durable.run(agent.graph, {"act.item-0.ok": False}, workflow_id="f", fork_from=("w", at))
    assert (result.completed, "refused milk" in result["log"], bodies.take()) == (True, True, ["pay rum"])


@pytest.mark.parametrize("forks", [False, True], ids=["", "fork"])
def test_another_answer_to_an_item_that_failed_after_its_answer_is_refused_beside_an_open_one(
    durable: On, store: Checkpointer, bodies: Bodies, forks: bool
) -> None:
    agent = Agent(bodies, {0: ["milk", "oat milk"]})
    durable.run(agent.graph, {"said": "go"}, workflow_id="w")
    bodies.failing["pay milk"] = OSError("down")
    with pytest.raises(OSError, match="down"):
        durable.run(agent.graph, {"act.item-0.ok": True}, workflow_id="w")
    bodies.failing.clear()
    options: dict[str, Any] = {"workflow_id": "w"}
    if forks:
        options = {"workflow_id": "f", "fork_from": ("w", None)}
    with pytest.raises(WorkflowError, match=r"'act.item-0.ok' .* has been answered already"):
        durable.run(agent.graph, {"act.item-0.ok": False}, **options)
    assert bodies.take() == []
    result = durable.run(agent.graph, {"act.item-1.ok": False}, **options)
    assert (result.completed, bodies.take()) == (True, ["pay milk"])


# -- answers that a store takes without the graph ---


@pytest.mark.parametrize("value", [True, False, [True]])
@pytest.mark.parametrize("name", ["ok", "calls", "log"])
def test_a_value_that_a_node_has_made_is_not_taken_for_an_answer(
    durable: On, store: Checkpointer, bodies: Bodies, name: str, value: Any
) -> None:
    agent = Agent(bodies, {0: ["tea"], 1: ["rum", "milk", "oat milk"]})
    durable.run(agent.graph, {"said": "go"}, workflow_id="w")
    asked = r"does not ask for '{}'. It asks for: 'act.item-1.ok', 'act.item-2.ok'"
    with pytest.raises(WorkflowError, match=asked.format(name)):
        store.answer("w", name, value)


def test_what_the_handler_of_an_item_decided_is_not_taken_for_an_answer(
    durable: On, store: Checkpointer, bodies: Bodies
) -> None:
    agent = Agent(bodies, {0: ["rum", "milk"]})
    durable.run(agent.graph, {"said": "go"}, workflow_id="w")
    asked = r"does not ask for 'act.item-0.ok'. It asks for: 'act.item-1.ok'\."
    with pytest.raises(WorkflowError, match=asked):
        store.answer("w", "act.item-0.ok", False)
    store.answer("w", "act.item-1.ok", True)
    assert durable.run(agent.graph, workflow_id="w").completed
    store.answer("w", "act.item-1.ok", True)  # the same again
    with pytest.raises(WorkflowError, match=r"'act.item-1.ok' .* has been answered already"):
        store.answer("w", "act.item-1.ok", False)
