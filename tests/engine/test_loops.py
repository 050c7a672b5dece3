"""Loops as people write them: counters, refinement, agents, polling, several loops in one graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.running import order, run, run_sync, trace

from hypergraph import END, FunctionNode, Graph, InfiniteLoopError, ifelse, node, route

__all__ = ["run"]
Run = Callable[..., Any]


def counter(limit: int, name: str = "n") -> list[Any]:
    def up(n: int) -> int:
        return n + 1

    def gate(n: int) -> Any:
        return END if n >= limit else f"up_{name}"

    return [
        FunctionNode(up, f"up_{name}", name, rename_inputs={"n": name}),
        route([f"up_{name}", END], name=f"gate_{name}", rename_inputs={"n": name})(gate),
    ]


@pytest.mark.parametrize("limit", [0, 1, 2, 17])
def test_a_counter_stops_where_its_gate_says(run: Run, limit: int) -> None:
    result = run(Graph(counter(limit)), {"n": 0})
    assert result["n"] == limit
    assert result.log.node_stats["gate_n"].count == limit + 1


def test_nothing_runs_after_end(run: Run) -> None:
    result = run(Graph(counter(3)), {"n": 0})
    assert order(result)[-1] == "gate_n"
    assert result.log.steps[-1].decision == "END"


def test_a_refinement_loop_alternates_and_ends_with_the_last_draft(run: Run) -> None:
    @node(output_name="draft")
    def write(topic: str, feedback: str = "") -> str:
        return f"{topic}{feedback}"

    @node(output_name="feedback")
    def review(draft: str) -> str:
        return "!" * (draft.count("!") + 1)

    @ifelse(END, "write")
    def good(feedback: str) -> bool:
        return len(feedback) > 2

    result = run(Graph([write, review, good]), {"topic": "tea"})
    assert order(result) == ["write", "review", "good"] * 3
    assert result.values == {"draft": "tea!!", "feedback": "!!!"}


def test_an_agent_loop_collects_messages_in_place(run: Run) -> None:
    @node(output_name="messages")
    def think(messages: list[str]) -> list[str]:
        messages.append(f"thought {len(messages)}")
        return messages

    @node(output_name="messages")
    def act(messages: list[str]) -> list[str]:
        messages.append(f"act {len(messages)}")
        return messages

    @route(targets=["act", END])
    def more(messages: list[str]) -> Any:
        return END if len(messages) >= 5 else "act"

    @route(targets=["think"])
    def again(messages: list[str]) -> str:
        return "think"

    given = ["hello"]
    edges = [("think", "more"), ("act", "again"), ("act", "think"), ("think", "act")]
    result = run(Graph([think, more, act, again], edges=edges), {"messages": given}, entrypoint="think")
    assert result["messages"] is given
    assert given == ["hello", "thought 1", "act 2", "thought 3", "act 4", "thought 5"]


def test_two_loops_in_one_graph_do_not_disturb_each_other(run: Run) -> None:
    result = run(Graph([*counter(3, "a"), *counter(7, "b")]), {"a": 0, "b": 0})
    assert result.values == {"a": 3, "b": 7}
    assert result.log.node_stats["up_a"].count == 3


def test_a_node_behind_a_loop_runs_with_each_value_and_keeps_the_last(run: Run) -> None:
    @node(output_name="shown")
    def show(n: int) -> str:
        return f"n={n}"

    assert run(Graph([*counter(3), show]), {"n": 0})["shown"] == "n=3"


def test_a_node_behind_the_gate_runs_once_when_the_loop_is_over(run: Run) -> None:
    @node(output_name="n")
    def up(n: int) -> int:
        return n + 1

    @node(output_name="report")
    def report(n: int) -> str:
        return f"reached {n}"

    @route(targets=["up", "report"])
    def gate(n: int) -> str:
        return "report" if n >= 3 else "up"

    result = run(Graph([up, gate, report]), {"n": 0})
    assert result["report"] == "reached 3"
    assert order(result).count("report") == 1


def test_a_loop_inside_a_loop(run: Run) -> None:
    @node(output_name=("row", "col"))
    def next_row(row: int) -> tuple[int, int]:
        return row + 1, 0

    @node(output_name="col")
    def next_col(col: int) -> int:
        return col + 1

    @route(targets=["next_col", "next_row", END])
    def gate(row: int, col: int) -> Any:
        if col < 2:
            return "next_col"
        return "next_row" if row < 2 else END

    result = run(Graph([next_row, next_col, gate]), {"row": 0, "col": 0})
    assert result.values == {"row": 2, "col": 2}
    assert result.log.node_stats["next_col"].count == 6


def test_a_loop_may_run_more_often_than_python_recurses() -> None:
    assert run_sync(Graph(counter(5000)), {"n": 0}, max_iterations=20_000)["n"] == 5000


def test_the_message_of_an_endless_loop_names_the_limit(run: Run) -> None:
    @node(output_name="x")
    def flip(x: int) -> int:
        return 1 - x

    @route(targets=["flip"])
    def forever(x: int) -> str:
        return "flip"

    with pytest.raises(InfiniteLoopError, match=r"exceeded maximum iterations.*9"):
        run(Graph([flip, forever]), {"x": 0}, max_iterations=9)


def test_default_open_false_waits_for_the_gate(run: Run) -> None:
    @node(output_name="n")
    def up(n: int, step: int) -> int:
        return n + step

    def deciding(default_open: bool) -> Any:
        @route(targets=["up", END], default_open=default_open, wait_for="armed")
        def gate(n: int) -> Any:
            return END if n >= 2 else "up"

        return gate

    arm = FunctionNode(lambda: None, "arm", None, emit="armed")
    for default_open in (True, False):  # a gate that can be asked goes first in any case
        graph = Graph([up, deciding(default_open), arm])
        assert order(run(graph, {"n": 0, "step": 1}))[:3] == ["arm", "gate", "up"]


@pytest.mark.filterwarnings("ignore:Nothing ran")
def test_default_open_false_keeps_a_loop_from_beginning_at_the_target_of_its_gate(run: Run) -> None:
    def looping(default_open: bool) -> Graph:
        @node(output_name="draft")
        def write(topic: str) -> str:
            return topic

        @route(targets=["write", END], default_open=default_open)
        def gate(draft: str) -> Any:
            return END

        return Graph([write, gate])

    assert order(run(looping(True), {"topic": "tea"})) == ["write", "gate"]
    assert order(run(looping(False), {"topic": "tea"})) == []
    assert order(run(looping(False).with_entrypoint("write"), {"topic": "tea"})) == ["write", "gate"]


def test_the_first_round_of_a_loop_is_open_by_default(run: Run) -> None:
    @node(output_name="draft")
    def write(topic: str) -> str:
        return topic

    @route(targets=["write", END])
    def gate(draft: str) -> Any:
        return END

    assert trace(run(Graph([gate, write]), {"topic": "x"})) == [(0, "write"), (1, "gate")]


def test_a_cycle_that_starts_at_a_chosen_node_waits_for_it_everywhere_else(run: Run) -> None:
    @node(output_name="b")
    def to_b(a: int) -> int:
        return a + 1

    @node(output_name="a")
    def to_a(b: int) -> int:
        return min(b + 1, 10)

    graph = Graph([to_b, to_a])
    assert order(run(graph, {"a": 10}))[0] == "to_b"
    assert order(run(graph, {"b": 9}))[0] == "to_a"
    assert order(run(graph, {"a": 10, "b": 9}))[0] == "to_b"  # the first one in graph order
    assert order(run(graph, {"a": 10, "b": 9}, entrypoint="to_a"))[0] == "to_a"
    assert order(run(graph.with_entrypoint("to_b"), {"a": 10, "b": 9}))[0] == "to_b"


def test_an_improvement_waits_for_the_critique_of_the_one_before(run: Run) -> None:
    @node(output_name="draft")
    def improve(draft: str, critique: str) -> str:
        assert critique == f"more than {draft}"
        return draft + "+"

    @node(output_name="critique")
    def criticise(draft: str) -> str:
        return f"more than {draft}"

    @route(targets=["improve", END])
    def good(critique: str) -> Any:
        return END if critique.endswith("+++") else "improve"

    result = run(Graph([improve, criticise, good]), {"draft": "v"})
    assert order(result) == ["criticise", "good", *["improve", "criticise", "good"] * 3]
    assert result["draft"] == "v+++"


def test_a_round_ends_at_its_gate_however_long_the_way(run: Run) -> None:
    @node(output_name="draft")
    def write(notes: str) -> str:
        return notes + "+"

    @node(output_name="notes")
    def read(draft: str) -> str:
        return draft

    @node(output_name="score")
    def count(notes: str) -> int:
        return len(notes)

    @route(targets=["write", END], default_open=False)
    def good(score: int) -> Any:
        return END if score >= 3 else "write"

    result = run(Graph([write, read, count, good]), {"notes": ""})
    assert result["draft"] == "+++"
    assert result.log.node_stats["write"].count == 3


def test_a_loop_whose_seed_is_given_waits_for_a_gate_whose_inputs_are_on_their_way(run: Run) -> None:
    @node(output_name="n")
    def up(n: int) -> int:
        return n + 1

    @node(output_name="text")
    def ask(question: str) -> str:
        return question

    @node(output_name="limit")
    def parse(text: str) -> int:
        return int(text)

    @route(targets=["up", END])
    def gate(n: int, limit: int) -> Any:
        return END if n >= limit else "up"

    result = run(Graph([up, ask, parse, gate]), {"n": 0, "question": "1"})
    assert trace(result) == [(0, "ask"), (1, "parse"), (2, "gate"), (3, "up"), (4, "gate")]


def poller(answers: list[str]) -> FunctionNode:
    remaining = iter(answers)

    @node(output_name="raw")
    def poll(job: str) -> str:
        return next(remaining)

    return poll


@node(output_name="parsed")
def parse(raw: str) -> str:
    return raw.strip()


@node(output_name="status")
def status_of(parsed: str) -> str:
    return parsed.upper()


def test_polling_goes_on_however_many_nodes_see_the_same_on_the_way_to_the_gate(run: Run) -> None:
    @route(targets=["poll", END])
    def finished(status: str) -> Any:
        return END if status == "DONE" else "poll"

    poll = poller(["pending", "pending ", "pending", "done"])
    result = run(Graph([poll, parse, status_of, finished]), {"job": "j"})
    assert result["status"] == "DONE"
    assert result.log.node_stats["poll"].count == 4
    assert order(result)[-1] == "finished"


def test_a_round_that_left_for_another_branch_does_not_come_back(run: Run) -> None:
    @route(targets=["check", "give_up"])
    def watch(parsed: str) -> str:
        return "give_up" if parsed == "gone" else "check"

    @node(output_name="verdict")
    def check(parsed: str) -> bool:
        return parsed == "done"

    @node(output_name="reason")
    def give_up(parsed: str) -> str:
        return parsed

    @route(targets=["poll", END])
    def finished(verdict: bool) -> Any:
        return END if verdict else "poll"

    poll = poller(["pending", "pending", "gone"])
    result = run(Graph([poll, parse, watch, check, give_up, finished]), {"job": "j"})
    assert result["reason"] == "gone"
    assert result.log.node_stats["poll"].count == 3
    assert order(result)[-1] == "give_up"


def test_every_node_of_a_loop_runs_in_every_round(run: Run) -> None:
    @node(output_name="sign")
    def sign(raw: str) -> int:
        return 1

    @node(output_name="double")
    def double(sign: int) -> int:
        return 2 * sign

    @route(targets=["poll", END])
    def finished(raw: str, double: int) -> Any:
        return END if raw == "done" else "poll"

    result = run(Graph([poller(["pending", "done"]), finished, sign, double]), {"job": "j"})
    assert order(result) == ["poll", "sign", "double", "finished"] * 2
    assert result["raw"] == "done"
