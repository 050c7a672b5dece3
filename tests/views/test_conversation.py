"""Appended lists as conversations: which step of which node said what."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hypergraph import END, Graph, Replace, SyncRunner, node, route
from hypergraph.checkpointers import Checkpointer, MemoryCheckpointer, SqliteCheckpointer
from hypergraph.cli.main import main
from hypergraph.views.state import conversations, value


@node(output_name="messages", append=True)
def listen(said: str) -> str:
    return said


@node(output_name=("messages", "calls"), append="messages")
def ask(messages: list[str]) -> tuple[str, list[str]]:
    return f"reply {len(messages)}", [] if messages[-1].startswith("tool") else ["look", "read"]


@route(targets=["act", END])
def decide(calls: list[str]) -> Any:
    return "act" if calls else END


@node(output_name="messages", append=True)
def act(calls: list[str]) -> list[str]:
    return [f"tool {call}" for call in calls]


agent = Graph([listen, ask, decide, act], name="agent")


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Checkpointer:
    return MemoryCheckpointer() if request.param == "memory" else SqliteCheckpointer(tmp_path / "x.db")


def said_by(items: list[Any]) -> list[Any]:
    return [item["by"] and (item["by"]["node"], item["by"]["superstep"]) for item in items]


def test_items_come_with_the_steps_that_added_them(store: Checkpointer) -> None:
    SyncRunner(checkpointer=store).run(agent, said="hi", messages=["be kind"], workflow_id="w")
    seen = value(store, "w", "messages")
    assert seen["value"] == ["be kind", "hi", "reply 2", "tool look", "tool read", "reply 5"]
    assert said_by(seen["items"]) == [
        None,
        ("listen", 0),
        ("ask", 1),
        ("act", 3),
        ("act", 3),
        ("ask", 4),
    ]
    page = value(store, "w", "messages", offset=2, limit=2)
    assert said_by(page["items"]) == [("ask", 1), ("act", 3)]
    assert said_by(value(store, "w", "messages", at=1)["items"]) == [None, ("listen", 0), ("ask", 1)]
    assert said_by(value(store, "w", "calls")["items"]) == []


def test_a_long_conversation_is_folded(store: Checkpointer) -> None:
    for number in range(9):
        SyncRunner(checkpointer=store).run(agent, said=f"turn {number}", workflow_id="w")
    (seen,) = conversations(store, "w", limit=4).values()
    assert (seen["offset"], len(seen["items"])) == (41, 4)
    assert seen["value"] == ["reply 41", "tool look", "tool read", "reply 44"]


def test_a_message_shows_its_role_and_what_it_says(store: Checkpointer) -> None:
    @node(output_name="messages", append=True)
    def say(said: str) -> list[Any]:
        return [{"role": "user", "content": said}, {"role": "tool", "result": 1}, {"content": said}, said]

    SyncRunner(checkpointer=store).run(Graph([say]), said="a\nb", workflow_id="w")
    texts = [item["text"] for item in value(store, "w", "messages")["items"]]
    assert texts[0] == "user: 'a\\nb'"
    assert texts[1:] == ["{'role': 'tool', 'result': 1}", "{'content': 'a\\nb'}", "'a\\nb'"]


def test_what_replace_left_out_is_not_shown(store: Checkpointer) -> None:
    @node(output_name="messages", append=True)
    def compact(messages: list[str]) -> Any:
        return Replace([f"{len(messages)} before"]) if len(messages) > 2 else []

    for said in "abcd":
        SyncRunner(checkpointer=store).run(Graph([listen, compact]), said=said, workflow_id="w")
    assert said_by(value(store, "w", "messages")["items"]) == [("compact", 5), ("listen", 6)]


def test_the_command_line_shows_who_said_what(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.db"
    for number in range(3):
        runner = SyncRunner(checkpointer=SqliteCheckpointer(path))
        runner.run(agent, said=f"turn {number}", workflow_id="w")
    main(["--db", str(path), "show", "w"])
    shown = capsys.readouterr().out
    assert "ask (step 16)" in shown
    assert "... and 7 earlier items" in shown
    assert "turn 0" not in shown
    main(["--db", str(path), "state", "w", "--key", "messages", "--limit", "3"])
    lines = capsys.readouterr().out.splitlines()
    assert any("listen (step 0)" in line and "turn 0" in line for line in lines)


def test_the_command_line_shows_what_each_step_added(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(tmp_path / "chat.db")
    SyncRunner(checkpointer=file).run(agent, said="tea", workflow_id="chat")
    assert main(["--db", file, "steps", "chat", "--values"]) == 0
    seen = capsys.readouterr().out
    assert "messages: + 'tea'\n" in seen
    assert "messages: + 'tool look'; 'tool read'" in seen
    assert main(["--db", file, "why", "chat", "messages"]) == 0
    assert "list 5: + 'reply 4'\n" in capsys.readouterr().out
