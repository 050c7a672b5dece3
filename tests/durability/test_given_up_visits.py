"""Nested graphs and maps that a process left unfinished: a new turn gives them up, else they resume."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.durable import On, durable, store

from hypergraph import END, Graph, interrupt, node, route
from hypergraph.checkpointers import Checkpointer
from hypergraph.checkpointers.records import Commit
from hypergraph.exceptions import WorkflowError

__all__ = ["durable", "store"]  # fixtures

pytestmark = pytest.mark.filterwarnings("ignore:.*gives up an unfinished turn:UserWarning")


class Died(BaseException):
    """The end of a process."""


class Power:
    """What a process lives on: once it is off, nothing is written to the store any more."""

    def __init__(self, store: Checkpointer, patch: pytest.MonkeyPatch) -> None:
        self.is_off = False
        self.last = ""  # the node whose step is not written any more
        for name in ("write", "try_write"):
            patch.setattr(store.backend, name, self._guarded(getattr(store.backend, name)))

    def _guarded(self, write: Callable[[Commit], Any]) -> Callable[[Commit], Any]:
        def guarded(commit: Commit) -> Any:
            if self.is_off or any(step.record.node_name == self.last for step in commit.steps):
                self.fail()
            return write(commit)

        return guarded

    def fail(self) -> None:
        self.is_off = True
        raise Died

    def back(self) -> None:
        self.is_off, self.last = False, ""


@pytest.fixture
def power(store: Checkpointer, monkeypatch: pytest.MonkeyPatch) -> Power:
    return Power(store, monkeypatch)


class Agent:
    """An agent whose tools run in a nested graph, and a record of what its nodes did."""

    def __init__(self, power: Power, shape: str, *, asks: bool = False) -> None:
        self.ran: list[str] = []
        self.broken = ""  # the call at which the process dies, or the tool fails
        self.fails = False
        self.power = power

        @node(output_name="messages", append=True)
        def listen(said: str) -> str:
            return said

        @node(output_name=("messages", "calls"), append="messages")
        def ask(messages: list[str]) -> tuple[list[str], list[str]]:
            self.ran.append("ask")
            if messages[-1].startswith("did"):
                return ["done"], []
            return [], messages[-1].split()

        @route(targets=["act", END])
        def decide(calls: list[str]) -> Any:
            return "act" if calls else END

        @interrupt("allowed")
        def allow(call: str) -> str | None:
            return None if call == "pay" else "yes"

        @node(output_name="messages")
        def use(call: str) -> str:
            return self.use(call)

        @node(output_name="messages")
        def use_allowed(call: str, allowed: str) -> str:
            return self.use(f"{call} {allowed}")

        @node(output_name="messages")
        def use_all(calls: list[str]) -> str:
            return self.use("+".join(calls))

        one = Graph([allow, use_allowed] if asks else [use], name="act")
        mapped = one.as_node(append="messages").with_inputs(call="calls").map_over("calls")
        if shape == "mapped":
            act = mapped
        elif shape == "plain":
            act = Graph([use_all], name="act").as_node(append="messages")
        else:
            act = Graph([mapped.with_name("each")], name="act").as_node(append="messages")
        self.graph = Graph([listen, ask, decide, act], name="agent")

    def use(self, call: str) -> str:
        if self.broken and call.split(maxsplit=1)[0] == self.broken:
            if self.fails:
                raise OSError("down")
            self.power.fail()
        self.ran.append(call)
        return f"did {call}"

    def interrupted(self, durable: On, broken: str, said: str) -> None:
        """Run a turn that ends in the middle of a tool."""
        self.broken = broken
        with pytest.raises((Died, OSError)):
            durable.run(self.graph, {"said": said}, workflow_id="w")
        self.power.back()
        self.broken, self.ran = "", []


SHAPES = {"mapped": "a", "nested": "a", "plain": "a+b"}  # and where the process dies
DONE = {"mapped": ["x", "y"], "nested": ["x", "y"], "plain": ["x+y"]}


@pytest.fixture(params=[False, True], ids=["killed", "failed"])
def fails(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_new_turn_gives_up_what_was_under_way(
    durable: On, store: Checkpointer, power: Power, shape: str, fails: bool
) -> None:
    agent = Agent(power, shape)
    agent.fails = fails
    agent.interrupted(durable, SHAPES[shape], "a b")
    result = durable.run(agent.graph, {"said": "x y"}, workflow_id="w")
    assert agent.ran == ["ask", *DONE[shape], "ask"]
    assert result["messages"] == ["a b", "x y", *(f"did {call}" for call in DONE[shape]), "done"]
    old, new = sorted(store.workflows(parent="w"), key=lambda child: child.id)
    assert (old.id, new.id, new.status.value) == ("w/act", "w/act#2", "completed")
    assert old.status.value in ({"failed", "partial"} if fails else {"stopped"})


@pytest.mark.parametrize("shape", SHAPES)
def test_a_call_without_news_resumes_what_was_under_way(
    durable: On, store: Checkpointer, power: Power, shape: str, fails: bool
) -> None:
    agent = Agent(power, shape)
    agent.fails = fails
    agent.interrupted(durable, SHAPES[shape], "a b")
    result = durable.run(agent.graph, workflow_id="w")
    assert result["messages"][-1] == "done"
    assert agent.ran.count("ask") == 1
    assert [(c.id, c.status.value) for c in store.workflows(parent="w")] == [("w/act", "completed")]


@pytest.mark.parametrize("shape", SHAPES)
def test_a_turn_that_is_interrupted_after_it_gave_something_up_is_resumed(
    durable: On, store: Checkpointer, power: Power, shape: str
) -> None:
    agent = Agent(power, shape)
    agent.interrupted(durable, SHAPES[shape], "a b")
    agent.interrupted(durable, DONE[shape][-1], "x y")
    result = durable.run(agent.graph, workflow_id="w")
    assert result["messages"] == ["a b", "x y", *(f"did {call}" for call in DONE[shape]), "done"]
    assert sorted(c.id for c in store.workflows(parent="w")) == ["w/act", "w/act#2"]
    agent.ran = []
    assert durable.run(agent.graph, {"said": "z"}, workflow_id="w")["messages"][-2:] == ["did z", "done"]
    assert agent.ran == ["ask", "z", "ask"]


@pytest.mark.parametrize("shape", SHAPES)
def test_a_nested_graph_that_ended_just_before_its_process_is_given_up_too(
    durable: On, store: Checkpointer, power: Power, shape: str
) -> None:
    agent = Agent(power, shape)
    for said in ("a b", "c d"):
        power.last = "act"
        with pytest.raises(Died):
            durable.run(agent.graph, {"said": said}, workflow_id="w")
        power.back()
    result = durable.run(agent.graph, {"said": "x y"}, workflow_id="w")
    assert result["messages"][-len(DONE[shape]) - 2 :] == ["x y", *(f"did {c}" for c in DONE[shape]), "done"]
    children = sorted((c.id, c.status.value) for c in store.workflows(parent="w"))
    assert children == [("w/act", "completed"), ("w/act#2", "completed"), ("w/act#3", "completed")]


def test_a_nested_graph_that_began_the_first_turn_is_given_up(
    durable: On, store: Checkpointer, power: Power
) -> None:
    dying = {"b"}

    @node(output_name="out")
    def use(call: str) -> str:
        if call in dying:
            power.fail()
        return call.upper()

    one = Graph([use], name="one")
    first = one.as_node(name="first").with_inputs(call="here").with_outputs(out="left").map_over("here")
    second = one.as_node(name="second").with_inputs(call="there").with_outputs(out="right").map_over("there")
    graph = Graph([first, second], name="both")
    with pytest.raises(Died):
        durable.run(graph, {"here": ["a", "b"], "there": ["c"]}, workflow_id="w")
    power.back()
    result = durable.run(graph, {"here": ["d"]}, workflow_id="w")
    assert (result["left"], result["right"]) == (["D"], ["C"])
    ids = sorted(c.id for c in store.workflows(parent="w"))
    assert ids == ["w/first", "w/first#2", "w/second"]


# -- forks from before a question ----------------------------------------------------------------------------


@pytest.mark.parametrize(("shape", "key"), [("mapped", "act.item-0"), ("nested", "act.each.item-0")])
def test_an_answer_in_a_fork_from_before_the_question_is_used(
    durable: On, store: Checkpointer, power: Power, shape: str, key: str
) -> None:
    agent = Agent(power, shape, asks=True)
    durable.run(agent.graph, {"said": "pay tea"}, workflow_id="w")
    durable.run(agent.graph, {f"{key}.allowed": "yes"}, workflow_id="w")
    at = next(step.superstep for step in store.steps("w") if step.node_name == "act")
    options = {"workflow_id": "other", "fork_from": ("w", at - 1)}
    result = durable.run(agent.graph, {f"{key}.allowed": "no"}, **options)
    assert result["messages"] == ["pay tea", "did pay no", "did tea yes", "done"]
    assert store.state("w")["messages"] == ["pay tea", "did pay yes", "did tea yes", "done"]
    with pytest.raises(WorkflowError, match="answered already"):
        durable.run(agent.graph, {f"{key}.allowed": "no"}, workflow_id="late", fork_from=("w", at))
