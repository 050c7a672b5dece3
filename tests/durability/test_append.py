"""Lists that nodes append to, in stores: turns, resumes, forks, and the bytes they take."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from hypergraph import END, AsyncRunner, Graph, Replace, SyncRunner, interrupt, node, route
from hypergraph.checkpointers import MemoryCheckpointer, SqliteCheckpointer
from hypergraph.exceptions import WorkflowError

CALLS: list[str] = []


@node(output_name="messages", append=True)
def listen(said: str) -> str:
    CALLS.append("listen")
    return said


@node(output_name=("messages", "calls"), append="messages")
def ask(messages: list[str]) -> tuple[str, list[str]]:
    CALLS.append("ask")
    return f"reply {len(messages)}", [] if messages[-1].startswith("tool") else ["look"]


@route(targets=["act", END])
def decide(calls: list[str]) -> Any:
    CALLS.append("decide")
    return "act" if calls else END


@node(output_name="messages", append=True)
def act(calls: list[str], messages: list[str]) -> list[str]:
    CALLS.append("act")
    if broken:
        raise ConnectionError("the tool is down")
    return [f"tool {len(messages)}" for call in calls]


broken = False
agent = Graph([listen, ask, decide, act], name="agent")
TURN = ["listen", "ask", "decide", "act", "ask", "decide"]


def said_in(*turns: str) -> list[str]:
    found: list[str] = []
    for said in turns:
        found.append(said)
        for kind in ("reply", "tool", "reply"):
            found.append(f"{kind} {len(found)}")
    return found


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    CALLS.clear()
    return MemoryCheckpointer() if request.param == "memory" else SqliteCheckpointer(str(tmp_path / "a.db"))


@pytest.fixture(params=["sync", "async"])
def run(request: pytest.FixtureRequest, store: Any) -> Any:
    def called(graph: Any, **options: Any) -> Any:
        if request.param == "sync":
            return SyncRunner(checkpointer=store).run(graph, **options)
        return asyncio.run(AsyncRunner(checkpointer=store).run(graph, **options))

    return called


def test_three_turns_of_an_agent(run: Any, store: Any) -> None:
    for number, said in enumerate(("hi", "and", "bye")):
        CALLS.clear()
        result = run(agent, said=said, workflow_id="w", new_turn=True)
        assert CALLS == TURN
        assert result["messages"] == said_in("hi", "and", "bye")[: 4 * (number + 1)]
    assert store.state("w")["messages"] == said_in("hi", "and", "bye")
    assert store.state("w", superstep=6)["messages"] == [*said_in("hi"), "and"]
    again = run(agent, workflow_id="w")
    assert (again["messages"], CALLS) == (said_in("hi", "and", "bye"), TURN)


def test_a_fork_goes_on_from_the_list_as_it_was(run: Any, store: Any) -> None:
    run(agent, said="hi", workflow_id="w")
    run(agent, said="and", workflow_id="w")
    other = run(agent, said="but", fork_from=("w", 5), workflow_id="f")
    assert other["messages"] == said_in("hi", "but")
    assert store.state("w")["messages"] == said_in("hi", "and")


def test_a_turn_that_fails_is_finished_once(run: Any, store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    run(agent, said="hi", workflow_id="w")
    monkeypatch.setitem(globals(), "broken", True)
    run(agent, said="and", workflow_id="w", error_handling="continue")
    assert store.state("w")["messages"] == said_in("hi", "and")[:6]
    monkeypatch.setitem(globals(), "broken", False)
    CALLS.clear()
    assert run(agent, workflow_id="w")["messages"] == said_in("hi", "and")
    assert CALLS == ["act", "ask", "decide"]


def test_a_turn_after_one_that_was_cut_off_loses_no_message(
    run: Any, store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(globals(), "broken", True)
    run(agent, said="hi", workflow_id="w", error_handling="continue")
    monkeypatch.setitem(globals(), "broken", False)
    CALLS.clear()
    result = run(agent, said="tool, please", workflow_id="w")
    assert CALLS == ["listen", "ask", "decide"]
    assert result["messages"] == ["hi", "reply 1", "tool, please", "reply 3"]


def test_a_list_that_is_given_later_begins_it_anew(run: Any, store: Any) -> None:
    run(agent, said="hi", workflow_id="w")
    result = run(agent, said="and", messages=["short"], workflow_id="w")
    assert result["messages"] == ["short", "and", "reply 2", "tool 3", "reply 4"]
    assert run(agent, said="bye", workflow_id="w")["messages"][:6] == [*result["messages"], "bye"]


def test_replace_is_remembered(run: Any, store: Any) -> None:
    @node(output_name="messages", append=True)
    def compact(messages: list[str]) -> Replace | list[str]:
        return Replace([f"{len(messages)} before"]) if len(messages) > 2 else []

    graph = Graph([listen, compact], name="short")
    for said in "abcd":
        result = run(graph, said=said, workflow_id="w")
    assert result["messages"] == ["3 before", "d"]
    assert store.state("w", superstep=3)["messages"] == ["a", "b"]


def test_a_question_inside_a_nested_graph_keeps_the_list(run: Any, store: Any) -> None:
    @interrupt(output_name="answer")
    def confirm(messages: list[str]) -> str | None:
        return None

    @node(output_name="messages", append=True)
    def note(answer: str) -> str:
        return f"they said {answer}"

    @node(output_name="total")
    def total(messages: list[str]) -> int:
        return len(messages)

    inner = Graph([confirm, note], name="inner", edges=[("confirm", "note")])
    graph = Graph([listen, inner.as_node(), total], name="outer")
    paused = run(graph, said="hi", workflow_id="w")
    assert paused.pause is not None
    result = run(graph, values={paused.pause.response_key: "yes"}, workflow_id="w")
    assert result["messages"] == ["hi", "they said yes"]
    assert result["total"] == 2


def test_appenders_that_end_in_any_order_are_stored_in_graph_order(store: Any) -> None:
    @node(output_name="log", append=True)
    async def slow(x: int) -> str:
        for _ in range(5):
            await asyncio.sleep(0)
        return f"slow {x}"

    @node(output_name="log", append=True)
    async def fast(x: int) -> str:
        return f"fast {x}"

    graph = Graph([slow, fast], name="pair")
    for x in range(3):
        result = asyncio.run(AsyncRunner(checkpointer=store).run(graph, x=x, workflow_id="w"))
    expected = [f"{name} {x}" for x in range(3) for name in ("slow", "fast")]
    assert result["log"] == store.state("w")["log"] == expected


def test_a_list_that_could_not_be_stored_is_not_begun_anew_in_silence(tmp_path: Path) -> None:
    @node(output_name="messages", append=True)
    def odd(said: str) -> Any:
        return threading.Lock() if said == "odd" else said

    store = SqliteCheckpointer(str(tmp_path / "a.db"))
    runner, graph = SyncRunner(checkpointer=store), Graph([odd], name="odd")
    runner.run(graph, said="hi", workflow_id="w")
    with pytest.warns(UserWarning, match="cannot be stored"):
        runner.run(graph, said="odd", workflow_id="w")
    with pytest.raises(WorkflowError, match="'messages' of workflow 'w', made by node 'odd'"):
        runner.run(graph, said="and", workflow_id="w")
    result = runner.run(graph, said="and", messages=["hi"], workflow_id="w")
    assert result["messages"] == ["hi", "and"]


def test_a_store_keeps_what_each_step_has_added(tmp_path: Path) -> None:
    @node(output_name="messages", append=True)
    def say(number: int) -> str:
        return f"{number:05}" + "".join(chr(97 + (number * 7 + i * i) % 26) for i in range(507))

    path, turns = tmp_path / "long.db", 300
    store = SqliteCheckpointer(str(path))
    graph = Graph([say], name="long")
    for number in range(turns):
        result = SyncRunner(checkpointer=store).run(graph, number=number, workflow_id="w")
    store.close()
    messages = sum(len(text) for text in result["messages"])
    with closing(sqlite3.connect(path)) as connection:
        (stored,) = connection.execute("SELECT sum(length(data)) FROM vals").fetchone()
    assert len(result["messages"]) == turns
    assert stored <= 1.5 * messages
