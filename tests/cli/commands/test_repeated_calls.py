"""Commands about runs with calls that must not be repeated: what they show, and which forks they refuse."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import pytest
from support.saying import Said, saying

from hypergraph import Graph, SyncRunner, interrupt, node
from hypergraph.checkpointers import SqliteCheckpointer
from hypergraph.integrations.mcp.read_tools import Source
from hypergraph.integrations.mcp.write_tools import RunTools
from hypergraph.views.problems import Problem

PAID: list[tuple[int, bool]] = []


@node(output_name="x")
def load(n: int) -> list[int]:
    return list(range(n))


@interrupt("ok")
def ask(x: int) -> bool | None:
    return None if x > 1 else True


@node(output_name="paid", repeatable=False)
def pay(x: int, ok: bool) -> str:
    PAID.append((x, ok))
    if x == 13:
        raise KeyboardInterrupt
    return f"paid {x}"


ONE = Graph([ask, pay], name="one")
ALL = Graph([load, ONE.as_node(name="each").map_over("x")], name="all")
CUT = Graph([interrupt("ok")(lambda n: True).with_name("ask"), pay.with_inputs(x="n")], name="cut")
ALL_HERE, ONE_HERE = f"{__name__}:ALL", f"{__name__}:ONE"


@pytest.fixture
def said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Said:
    """Return a function that runs a command and returns what it prints."""
    monkeypatch.chdir(tmp_path)
    return saying(capsys)


def paid_for() -> None:
    """Run "w" over three items, the last of which needs an answer."""
    with SqliteCheckpointer("runs.db") as store:
        runner = SyncRunner(checkpointer=store)
        runner.run(ALL, n=3, workflow_id="w")
        runner.run(ALL, {"each.item-2.ok": True}, workflow_id="w")
    PAID.clear()


def test_a_fork_that_makes_calls_again_is_refused_until_that_is_said(said: Said) -> None:
    paid_for()
    words = ("fork", "w", ALL_HERE, "each.item-0.ok=false", "--at", "0", "--id", "v")
    for refused in (said(*words), said("fork", "w", "--at", "0", "--id", "v")):
        assert "may call nodes with repeatable=False again: 'each/pay' (3 completed calls)" in refused
        assert "--repeat" in refused
    assert "not found" in said("show", "v")
    assert PAID == []
    assert "forked from w" in said("fork", "w", "--id", "copy")  # nothing of it runs again
    said(*words, "--repeat")
    assert (0, False) in PAID


def test_so_is_the_fork_of_an_agent(said: Said) -> None:
    paid_for()
    tools = RunTools(Source("runs.db"), [ALL])
    with pytest.raises(Problem, match=r"'each/pay' \(3 completed calls\)") as refused:
        tools.fork_workflow("w", "v", 0, {"each.item-0.ok": False})
    assert (refused.value.code, PAID) == ("refused", [])
    with pytest.warns(UserWarning, match="'each/pay'"):
        tools.fork_workflow("w", "v", 0, {"each.item-0.ok": False}, repeat=True)
    assert (0, False) in PAID


def test_show_leads_to_the_item_for_another_answer_of_it(said: Said) -> None:
    paid_for()
    shown = said("show", "w")
    assert "--at" not in shown
    assert (
        "hypergraph --db runs.db resume w/each/item-2 MODULE:GRAPH KEY=... --new-turn; then resume" in shown
    )
    asked = {each["node"]: each["item"] for each in json.loads(said("show", "w", "--json"))["asked"]}
    assert asked == {f"each/item-{n}/ask": f"w/each/item-{n}" for n in range(3)}
    said("resume", "w/each/item-0", ONE_HERE, "ok=false", "--new-turn")
    assert PAID == [(0, False)]  # nothing of the other items
    inside = json.loads(said("show", "w/each/item-2", "--json"))["asked"]
    assert [each["item"] for each in inside] == [None]  # it can be forked before its own question


@pytest.mark.parametrize("mapped", [False, True])
def test_show_says_that_a_call_began_and_left_no_result(said: Said, mapped: bool) -> None:
    graph = Graph([CUT.as_node(name="box").map_over("n")], name="around") if mapped else CUT
    with SqliteCheckpointer("runs.db") as store, suppress(KeyboardInterrupt):
        SyncRunner(checkpointer=store).run(graph, n=[13] if mapped else 13, workflow_id="w")
    found = json.loads(said("show", "w", "--json"))
    assert found["unresolved"] == [{"workflow": "w/box/item-0" if mapped else "w", "node": "pay"}]
    shown = said("show", "w")
    assert "pay: began without leaving a result" in shown
    assert "resume" not in shown.rpartition("next:")[2]
