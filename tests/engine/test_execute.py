"""A run that comes to rest says what it was to do and did not, and why."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable
from typing import Any

import pytest
from support.durable import Bodies, asking, bodies, durable, store
from support.running import On, map_, run

from hypergraph import (
    END,
    AsyncRunner,
    Graph,
    MapResult,
    RunResult,
    RunStatus,
    ifelse,
    interrupt,
    node,
    route,
)
from hypergraph.checkpointers import Checkpointer

__all__ = ["bodies", "durable", "map_", "run", "store"]  # fixtures


@node(output_name="notes")
def research(topic: str) -> str:
    return f"notes on {topic}"


@node(output_name="text")
def write(notes: str) -> str:
    return f"text from {notes}"


@ifelse(when_true="research", when_false="write")
def is_new(topic: str) -> bool:
    return topic == "new"


@node(output_name="page")
def publish(text: str) -> str:
    return text.upper()


WRITING = Graph([is_new, research, write, publish], name="writing")


def test_a_chosen_node_that_cannot_run_is_told_with_what_it_lacks(run: Callable[..., RunResult]) -> None:
    with pytest.warns(UserWarning, match=r"'is_new' chose 'write' .*'writing'.* 'notes'") as told:
        result = run(WRITING, topic="old")
    assert (result.status, result.values) == (RunStatus.COMPLETED, {})
    assert len(told) == 1  # publish waits for a node that did not run, which is no news


def test_every_item_of_a_map_tells(map_: Callable[..., MapResult]) -> None:
    with pytest.warns(UserWarning, match="chose 'write'"):
        result = map_(WRITING, topic=["new", "old"], map_over="topic")
    assert [item.values for item in result] == [{"notes": "notes on new"}, {}]


def test_a_nested_run_tells(run: Callable[..., RunResult]) -> None:
    with pytest.warns(UserWarning, match="chose 'write'"):
        run(Graph([WRITING.as_node()]), topic="old")
    with pytest.warns(UserWarning, match="chose 'write'"):
        run(Graph([WRITING.as_node().map_over("topic")]), topic=["new", "old"])


def test_selected_outputs_of_mapped_items_are_missed(run: Callable[..., RunResult]) -> None:
    graph = Graph([WRITING.select("notes").as_node().map_over("topic")])
    assert run(graph, topic=["new"], on_missing="error")["notes"] == ["notes on new"]
    with pytest.raises(ValueError, match="Requested outputs not found"):
        run(graph, topic=["new", "old"], on_missing="error")


def test_a_join_of_two_branches_is_no_news_when_only_one_was_taken(run: Callable[..., RunResult]) -> None:
    @node(output_name="a")
    def left(x: int) -> int:
        return x

    @node(output_name="b")
    def right(x: int) -> int:
        return x

    @node(output_name="c")
    def both(a: int, b: int) -> int:
        return a + b

    @ifelse(when_true="left", when_false="right")
    def is_small(x: int) -> bool:
        return x < 5

    assert run(Graph([is_small, left, right, both]), x=1).values == {"a": 1}


def test_what_is_chosen_and_on_its_way_is_waited_for(run: Callable[..., RunResult]) -> None:
    @node(output_name="late")
    def second(early: int) -> int:
        return early + 1

    @node(output_name="early")
    def first(x: int) -> int:
        return x + 1

    @node(output_name="end")
    def last(late: int) -> int:
        return late * 10

    @route(targets=["last", END])
    def gate(x: int) -> Any:
        return "last"

    assert run(Graph([gate, last, second, first]), x=1)["end"] == 30


def test_a_resumed_run_tells_again(durable: On, store: Checkpointer) -> None:
    for again in (False, True):
        with pytest.warns(UserWarning, match="chose 'write'"):
            durable.run(WRITING, topic="old", new_turn=again, workflow_id="w")


def test_a_chosen_node_that_needs_the_answer_of_nobody_is_told() -> None:
    @interrupt(output_name="verdict")
    def review(draft: str) -> None:
        return None

    @node(output_name="final")
    def print_it(draft: str, verdict: str) -> str:
        return f"{draft}: {verdict}"

    @route(targets=["review", "print_it"])
    def is_long(draft: str) -> str:
        return "review" if len(draft) > 10 else "print_it"

    graph = Graph([is_long, review, print_it])
    with pytest.warns(UserWarning, match=r"'is_long' chose 'print_it' .* 'verdict'"):
        result = asyncio.run(AsyncRunner().run(graph, draft="short"))
    assert result.values == {}
    assert asyncio.run(AsyncRunner().run(graph, draft="a long one, though")).paused


def test_a_pause_leaves_nothing_to_tell_yet(bodies: Bodies) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert asyncio.run(AsyncRunner().run(asking(bodies), topic="x")).paused


def test_a_run_in_which_nothing_could_run_says_what_was_missing() -> None:
    @node(output_name="reply")
    def answer(question: str) -> str:
        return f"re: {question}"

    @interrupt(output_name="question")
    def ask(reply: str) -> None:
        return None

    graph = Graph([answer, ask], name="chat")
    with pytest.warns(UserWarning, match=r"Nothing ran in graph 'chat': 'answer' lacks 'question'"):
        result = asyncio.run(AsyncRunner().run(graph))
    assert (result.status, result.values) == (RunStatus.COMPLETED, {})
    assert asyncio.run(AsyncRunner().run(graph, question="why")).paused
