"""Crashes of simulated runs: they reach every line of every node, in every call, and the report says so."""

from __future__ import annotations

import dis
import re
import sys
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from hypergraph import FunctionNode, Graph, NodeContext, interrupt, node, pause_for
from hypergraph.testing import SimulatedRun, simulate


@node(output_name="draft")
def write(topic: str) -> str:
    shout = topic.upper()
    return f"{shout}!"


@interrupt("approved")
def approve(draft: str) -> bool | None:
    return None


@interrupt("confirmed")
def confirm(draft: str, approved: bool) -> bool | None:
    return None


@node(output_name="seen")
def look(approved: bool) -> bool:
    return approved


def send(draft: str, ctx: NodeContext) -> str:
    outbox = ctx.service("outbox", dict)
    outbox["sent"] = outbox.get("sent", 0) + 1
    return draft


def send_once(draft: str, ctx: NodeContext) -> str:
    outbox = ctx.service("outbox", dict)
    outbox["sent"] = 1
    return draft


def behind(func: Callable[..., Any], *names: str, **options: Any) -> FunctionNode[..., Any]:
    """Return a node that sends, behind what it takes or waits for."""
    return FunctionNode(func, "send", "sent", wait_for=names, **options)


def graphs(func: Callable[..., Any]) -> dict[str, tuple[Graph, str, dict[str, Any]]]:
    """Return graphs with an effect behind what ends a call, the path of the effect, and the answers."""
    rest = pause_for("rest", timedelta(days=2), wait_for="draft")
    inner = Graph([approve, behind(func, "approved")], name="act")
    alone = Graph([behind(func)], name="act")
    once = {"approved": True}
    return {
        "question": (Graph([write, approve, behind(func, "approved")]), "send", once),
        "two questions": (
            Graph([write, approve, confirm, behind(func, "confirmed")]),
            "send",
            {**once, "confirmed": True},
        ),
        "timer": (Graph([write, rest, behind(func, "rest")]), "send", {}),
        "nested graph": (Graph([write, alone.as_node()]), "act/send", {}),
        "question in a nested graph": (Graph([write, inner.as_node()]), "act/send", once),
        "question before a nested graph": (
            Graph([write, approve, Graph([look, behind(func, "seen")], name="act").as_node()]),
            "act/send",
            once,
        ),
    }


def sent_once(run: SimulatedRun) -> bool:
    return bool(run.services["outbox"]["sent"] == 1)


KINDS = list(graphs(send))


@pytest.mark.parametrize("kind", KINDS)
def test_an_effect_that_is_repeated_is_found_behind_whatever_ends_a_call(kind: str) -> None:
    graph, path, answers = graphs(send)[kind]
    given = {"topic": "tea"}
    options: dict[str, Any] = {"services": lambda: {"outbox": {}}, "answers": answers, "check": sent_once}
    report = simulate(graph, given, **options)
    assert report.failure is not None, report
    assert report.seeds < 100
    assert report.killed[path] >= 1
    assert report.failure.killed[path] >= 1
    again = simulate(graph, given, seeds=[report.failure.seed], **options)
    assert again.failure is not None
    assert again.failure.course == report.failure.course


@pytest.mark.parametrize("kind", KINDS)
def test_the_process_dies_in_every_node_and_no_answer_is_lost(kind: str) -> None:
    graph, path, answers = graphs(send_once)[kind]
    lost: list[list[str]] = []

    def check(run: SimulatedRun) -> bool:
        begun = False
        for line in run.course:
            begun = begun or line.endswith(f" {path} begins")
            if begun and "answers" in line:
                lost.append(run.course)
        return sent_once(run)

    report = simulate(
        graph, {"topic": "tea"}, services=lambda: {"outbox": {}}, answers=answers, check=check, seeds=40
    )
    assert report.ok, report
    assert not lost  # what runs behind a question has its answer for good
    assert report.endings == {"completed": 40}
    assert report.never_killed == []
    assert report.never_called == []
    assert report.killed[path] > 2


def test_an_effect_in_an_item_of_a_map_is_found() -> None:
    @node(output_name="paid")
    def pay(amount: int, approved: bool, ctx: NodeContext) -> int:
        ctx.service("ledger", list).append(amount)
        return amount

    @interrupt("approved")
    def allow(amount: int) -> bool | None:
        return None

    def check(run: SimulatedRun) -> bool:
        return sorted(run.services["ledger"]) == [1, 2]

    options: dict[str, Any] = {"answers": {"approved": True}, "check": check}
    options["services"] = lambda: {"ledger": []}
    graph = Graph([allow, pay], name="order")
    outside = simulate(graph, {"amount": [1, 2]}, map_over="amount", **options)
    assert outside.failure is not None, outside
    assert outside.killed["pay"] >= 1
    inside = simulate(Graph([graph.as_node(name="each").map_over("amount")]), {"amount": [1, 2]}, **options)
    assert inside.failure is not None, inside
    assert inside.killed["each/pay"] >= 1


def lines_of(func: Callable[..., Any]) -> set[int]:
    first = func.__code__.co_firstlineno
    return {line for _, line in dis.findlinestarts(func.__code__) if line is not None and line > first}


def test_law_every_line_of_every_node_is_a_place_to_die() -> None:
    graph, _, answers = graphs(send_once)["two questions"]
    found: set[tuple[str, int]] = set()

    def check(run: SimulatedRun) -> None:
        for line in run.course:
            place = re.search(r"dies in (\w+), before line (\d+)", line)
            found.update([(place[1], int(place[2]))] if place else [])

    simulate(
        graph, {"topic": "tea"}, services=lambda: {"outbox": {}}, answers=answers, check=check, seeds=200
    )
    functions = {"write": write.func, "approve": approve.func, "confirm": confirm.func, "send": send_once}
    assert {(name, line) for name, func in functions.items() for line in lines_of(func)} <= found


def test_the_report_names_nodes_in_which_the_process_never_died_and_those_never_called() -> None:
    graph, _, _ = graphs(send)["question"]
    report = simulate(graph, {"topic": "tea"}, services=lambda: {"outbox": {}}, seeds=40)
    assert report.endings == {"paused": 40}
    assert report.never_called == ["send"]
    assert set(report.killed) == {"write", "approve"}
    assert "Never called: send" in str(report)
    few = simulate(graph, {"topic": "tea"}, services=lambda: {"outbox": {}}, crashes=False, seeds=2)
    assert few.never_killed == ["write", "approve"]
    assert "ied in" not in str(few)  # no crashes were wanted
    seeds = next([seed] for seed in range(100) if simulate(graph, {"topic": "t"}, seeds=[seed]).crashes == 1)
    one = simulate(graph, {"topic": "t"}, seeds=seeds)
    shown = ", ".join(f"{path} {one.killed.get(path, 0)}" for path in ("write", "approve", "send"))
    assert f"Died in: {shown}" in str(one)
    assert f"Never died in: {', '.join(one.never_killed)}" in str(one)


def test_a_generator_that_is_given_up_does_not_print_where_the_process_died(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ended: list[int] = []

    def note(number: int) -> None:
        ended.append(number)

    def numbers() -> Any:
        try:
            yield 1
            yield 2
        finally:
            note(1)

    @node(output_name="found")
    def search(items: list[int]) -> bool:
        return any(item > 1 for item in items) and any(number for number in numbers())

    @node(output_name="first")
    def first(found: bool) -> int:
        def inside() -> Any:
            try:
                yield 1
            finally:
                note(2)

        for number in inside():
            return int(number)
        return 0

    printed: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", printed.append)
    report = simulate(Graph([search, first], name="s"), {"items": [1, 2, 3]}, seeds=60)
    assert (report.ok, printed) == (True, [])
    assert report.crashes > 20
