"""Answers on the command line: that name no item, come too late, or are of a type with choices and forms."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from support.cli import Cli

from hypergraph import SyncRunner
from hypergraph.checkpointers import SqliteCheckpointer

AGENT = """
import enum
from dataclasses import dataclass

from hypergraph import END, Graph, ifelse, interrupt, node, route


@node(output_name=("log", "calls"), append="log")
def model(log: list[str]) -> tuple[str, list[str]]:
    return "model", {1: ["tea"], 3: ["milk", "rum"]}.get(len(log), [])


@route(targets=["act", END])
def decide(calls: list[str]):
    return "act" if calls else END


@interrupt("allowed")
def allow(call: str) -> bool | None:
    return True if call == "tea" else None


@ifelse(when_true="pay", when_false="refuse")
def is_allowed(allowed: bool) -> bool:
    return allowed


@node(output_name="line")
def pay(call: str) -> str:
    print("paid", call)
    return f"paid {call}"


@node(output_name="line")
def refuse(call: str) -> str:
    return f"refused {call}"


act = Graph([allow, is_allowed, pay, refuse], name="act").as_node(append="line").with_outputs(line="log")
calls = Graph([model, decide, act.with_inputs(call="calls").map_over("calls")], name="calls")


@node(output_name="call")
def plan(said: str, line: str = "") -> str:
    return "" if line else said


@route(targets=["allow", END])
def dispatch(call: str):
    return "allow" if call else END


class Rate(enum.Enum):
    LOW = 1.5
    HIGH = 2.0
    BOTH = (1.5, 2.0)


@interrupt(("rate", "key"))
def choose(said: str) -> tuple[Rate, bytes] | None:
    return None


@node(output_name="chosen")
def keep(rate: Rate, key: bytes) -> str:
    return f"{rate.name} {key!r}"


@dataclass
class Share:
    percent: int

    def __post_init__(self) -> None:
        if self.percent % 10:
            raise ValueError("tens only")


@interrupt("share")
def divide(said: str) -> Share | None:
    return None


shares = Graph([divide], name="shares")
choice = Graph([choose, keep], name="choice")
single = Graph([plan, dispatch, allow, is_allowed, pay, refuse], name="single")
"""


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    (tmp_path / "agent_graphs.py").write_text(AGENT)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    sys.modules.pop("agent_graphs", None)
    return Cli(tmp_path / "runs.db")


def test_the_name_alone_is_refused_with_the_keys_of_the_items_that_ask(agent: Cli) -> None:
    import agent_graphs

    with SqliteCheckpointer(agent.database) as store:
        SyncRunner(checkpointer=store).run(agent_graphs.calls, log=["user"], workflow_id="w")
    for value in ("yes", "[true, true]"):
        refused = agent("resume", "w", "agent_graphs:calls", f"allowed={value}", code=2).err
        assert "each item of node 'act' asks for its own. To answer one, pass 'act.item-0.allowed'" in refused
    refused = agent("answer", "w", "allowed=yes", code=4).err
    assert "It asks for: 'act.item-0.allowed', 'act.item-1.allowed'" in refused
    refused = agent("fork", "w", "agent_graphs:calls", "act.item-7.allowed=yes", "--at", "4", code=4).err
    assert "does not ask for 'act.item-7.allowed': node 'act', which runs next, has 2 items" in refused


def test_a_fork_after_the_gate_says_where_to_fork(agent: Cli) -> None:
    import agent_graphs

    with SqliteCheckpointer(agent.database) as store:
        runner = SyncRunner(checkpointer=store)
        runner.run(agent_graphs.single, said="milk", workflow_id="w")
        runner.run(agent_graphs.single, allowed=True, workflow_id="w")
        at = store.steps("w", node="is_allowed")[0].superstep
    fork = ("fork", "w", "agent_graphs:single", "allowed=no", "--id", "x", "--at")
    refused = agent(*fork, str(at), code=4)
    assert "'pay' would run before another one could be used" in refused.err
    again = f"fork w agent_graphs:single allowed=... --at {at - 2}\n"
    assert refused.err.endswith(f"before the question: hypergraph --db {agent.database} {again}")
    assert "paid" not in refused.out
    assert "refused milk" in agent(*fork, str(at - 2)).out


@pytest.mark.parametrize(
    ("typed", "name"), [("HIGH", "HIGH"), ("2", "HIGH"), ("1.5", "LOW"), ("BOTH", "BOTH")]
)
def test_a_member_of_any_enum_is_given_by_its_name_or_value(agent: Cli, typed: str, name: str) -> None:
    import agent_graphs

    with SqliteCheckpointer(agent.database) as store:
        SyncRunner(checkpointer=store).run(agent_graphs.choice, said="x", workflow_id="w")
    refused = agent("answer", "w", "rate=nonsense", "key=dGVh", code=2).err
    assert "'rate' must be one of 1.5, 2.0, 'BOTH', not 'nonsense'" in refused
    refused = agent("answer", "w", f"rate={typed}", "key=abc", code=2).err
    assert "'key' must be bytes in Base64, not 'abc'" in refused
    agent("answer", "w", f"rate={typed}", "key=dGVh")
    assert f"{name} b'tea'" in agent("resume", "w", "agent_graphs:choice").out


def test_an_answer_is_checked_by_the_code_that_the_workflow_remembers(agent: Cli) -> None:
    agent("run", "agent_graphs:shares", "said=x", "--id", "w")
    assert "tens only" in agent("answer", "w", 'share={"percent": 5}', code=2).err
    assert "when the workflow is resumed" not in agent("answer", "w", 'share={"percent": 10}').out
    assert "Share(percent=10)" in agent("resume", "w").out


def test_an_answer_that_only_code_can_check_is_said_to_be_checked_later(agent: Cli) -> None:
    import agent_graphs

    with SqliteCheckpointer(agent.database) as store:
        runner = SyncRunner(checkpointer=store)
        runner.run(agent_graphs.shares, said="x", workflow_id="w")
        runner.run(agent_graphs.single, said="milk", workflow_id="plain")
    said = "the code of its type checks it when the workflow is resumed"
    assert said in agent("answer", "w", 'share={"percent": 5}').out
    assert said not in agent("answer", "plain", "allowed=yes").out
    assert "tens only" in agent("resume", "w", "agent_graphs:shares", code=2).err
    assert "Share(percent=20)" in agent("resume", "w", "agent_graphs:shares", 'share={"percent": 20}').out
