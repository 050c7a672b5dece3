"""The state while a turn is under way: values of earlier turns that it has not made again are marked."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from hypergraph import END, AsyncRunner, Graph, Replace, SyncRunner, interrupt, node, route
from hypergraph.checkpointers import Checkpointer, MemoryCheckpointer, SqliteCheckpointer
from hypergraph.cli.main import main
from hypergraph.views.state import state


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Checkpointer:
    return MemoryCheckpointer() if request.param == "memory" else SqliteCheckpointer(str(tmp_path / "a.db"))


@node(output_name="messages", append=True)
def listen(said: str) -> str:
    return f"user: {said}"


@node(output_name="count")
def counted(said: str, count: int = 0) -> int:
    return count + 1


@node(output_name="tone")
def toned(said: str) -> str:
    return "kind"


@node(output_name="rules")
def ruled(house: str) -> str:
    return f"rules of {house}"


@interrupt("approved")
def approve(tone: str, messages: list[str]) -> bool | None:
    return None


@node(output_name="reply")
def answered(approved: bool, rules: str) -> str:
    return f"{approved} by {rules}"


DESK = Graph([listen, counted, toned, ruled, approve, answered], name="desk")


def told(store: Checkpointer, graph: Graph = DESK, **values: Any) -> Any:
    return asyncio.run(AsyncRunner(checkpointer=store).run(graph, values, workflow_id="w"))


def marks(store: Checkpointer, workflow_id: str = "w", at: int | None = None) -> set[str]:
    return {item["name"] for item in state(store, workflow_id, at=at)["items"] if item["earlier_turn"]}


def asked_twice(store: Checkpointer) -> Any:
    told(store, said="tea", house="ours")
    told(store, approved=True)
    return told(store, said="milk")


def test_what_the_turn_has_not_made_again_is_marked(store: Checkpointer) -> None:
    result = asked_twice(store)
    assert result.paused
    assert store.state("w")["approved"] is True  # the latest value of each output
    assert marks(store) == {"approved", "reply"}
    assert marks(store).isdisjoint(result.values)


def test_nothing_is_marked_when_the_turn_has_made_all(store: Checkpointer) -> None:
    asked_twice(store)
    told(store, approved=False)
    assert marks(store) == set()


def test_a_state_of_the_past_knows_its_own_turns(store: Checkpointer) -> None:
    asked_twice(store)
    last = state(store, "w")["last"]
    first = store.backend.read_turns("w")[-1].superstep
    assert last is not None
    assert marks(store, at=first - 1) == set()
    assert marks(store, at=last) == {"approved", "reply"}


def test_what_a_turn_gave_up_stays_marked_in_one_that_does_not_reach_it(store: Checkpointer) -> None:
    asked_twice(store)
    told(store, house="theirs")  # reaches `ruled` and `answered`, not the question
    assert "approved" in marks(store)


def test_a_fork_in_the_middle_of_a_loop_begins_no_turn(store: Checkpointer) -> None:
    @node(output_name="draft")
    def write(topic: str, notes: str = "") -> str:
        return topic + notes

    @node(output_name="notes")
    def review(draft: str) -> str:
        return draft[-1:] + "!"

    @route(targets=["write", END])
    def again(notes: str, draft: str) -> Any:
        return END if len(draft) > 3 else "write"

    graph = Graph([write, review, again], name="loop")
    runner = SyncRunner(checkpointer=store)
    runner.run(graph, topic="ab", workflow_id="w")
    at = next(each.superstep for each in store.steps("w") if each.node_name == "review")
    runner.run(graph, {"notes": "??"}, fork_from=("w", at), workflow_id="f")
    assert marks(store, "f") == set()


def test_a_list_that_was_replaced_is_remembered(store: Checkpointer) -> None:
    @interrupt("approved")
    def ask(said: str) -> bool | None:
        return None

    @node(output_name="messages", append=True)
    def shorten(approved: bool) -> Replace:
        return Replace(["thanks"])

    graph = Graph([ask, shorten], name="short")
    told(store, graph, said="tea")
    told(store, graph, approved=True)
    told(store, graph, said="milk")
    assert marks(store) == {"approved"}


def test_the_terminal_says_which_values_are_of_an_earlier_turn(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(tmp_path / "a.db")
    with SqliteCheckpointer(file) as store:
        asked_twice(store)
    assert main(["--db", file, "state", "w"]) == 0
    rows = capsys.readouterr().out.splitlines()
    marked = [row.split()[0] for row in rows if "), earlier turn" in row]
    assert marked == ["approved", "reply"]
