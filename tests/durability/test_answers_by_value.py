"""Answers and signals that name a member of an Enum by its value mean the member of then."""

from __future__ import annotations

import enum
from dataclasses import make_dataclass
from typing import Any, Literal

import pydantic
import pytest
from support.durable import On, durable, store

from hypergraph import Graph, InvalidAnswerError, interrupt, node, receive
from hypergraph.answers import as_asked, schema_of, stored_schema
from hypergraph.checkpointers import Checkpointer
from hypergraph.checkpointers.view import view_of
from hypergraph.exceptions import ValueUnreadableError
from hypergraph.migration import migrate

__all__ = ["durable", "store"]  # fixtures


def choice(**members: Any) -> Any:
    return enum.Enum("Choice", members, module=__name__, qualname="Choice")


OLD, NEW = choice(YES=1, NO=2), choice(MAYBE=1, YES=2, NO=3)
SWAPPED, GONE = choice(YES=2, NO=1), choice(NO=1, LATER=2)


def asking(declared: Any, version: str | None = None) -> Graph:
    @interrupt("choice", answer=declared)
    def ask(x: int) -> Any:
        return None

    @node(output_name="got")
    def use(choice: Any) -> str:
        return str(choice)

    return Graph([ask, use], name="asking", version=version)


def waiting(declared: Any, version: str | None = None) -> Graph:
    @node(output_name="got")
    def use(choice: Any) -> str:
        return str(choice)

    return Graph([receive("choice", declared), use], name="waiting", version=version)


@pytest.mark.parametrize(("now", "got"), [(NEW, "Choice.YES"), (SWAPPED, "Choice.YES"), (OLD, "Choice.YES")])
def test_a_stored_value_is_the_member_of_then(durable: On, store: Checkpointer, now: Any, got: str) -> None:
    durable.run(asking(OLD), {"x": 1}, workflow_id="w")
    store.answer("w", "choice", 1)
    assert durable.run(asking(now), workflow_id="w")["got"] == got


def test_a_value_given_to_an_open_question_is_as_its_schema_says(durable: On, store: Checkpointer) -> None:
    durable.run(asking(OLD), {"x": 1}, workflow_id="w")
    view_of(store, graph=asking(NEW)).answer("w", "choice", 2)
    assert durable.run(asking(NEW), workflow_id="w")["got"] == "Choice.NO"


@pytest.mark.parametrize("kind", ["answer", "signal"])
def test_a_value_whose_member_is_gone_is_refused_and_kept(
    durable: On, store: Checkpointer, kind: str
) -> None:
    make, given = (asking, {"x": 1}) if kind == "answer" else (waiting, {})
    durable.run(make(OLD), given, workflow_id="w")
    if kind == "answer":
        store.answer("w", "choice", 1)
    else:
        store.send("w", "choice", 1)
    (refused,) = migrate(store, make(GONE, "2"), dry_run=True).refused
    assert "stood for YES" in (refused.reason or "")
    with pytest.raises((InvalidAnswerError, ValueUnreadableError), match=r"(?s)stood for YES.*How to fix"):
        durable.run(make(GONE), workflow_id="w")
    assert durable.run(make(OLD), workflow_id="w")["got"] == "Choice.YES"


@pytest.mark.parametrize("is_early", [False, True])
def test_a_signal_is_the_member_of_then_also_after_a_migration(
    durable: On, store: Checkpointer, is_early: bool
) -> None:
    @node(output_name="seen")
    def see(approved: bool) -> bool:
        return approved

    def graph(declared: Any, version: str) -> Graph:
        @interrupt("approved")
        def approve(x: int) -> bool | None:
            return None

        wait = receive("choice", declared, wait_for="seen" if is_early else None)
        return Graph([*([approve, see] if is_early else []), wait, use], name="g", version=version)

    @node(output_name="got")
    def use(choice: Any) -> str:
        return str(choice)

    durable.run(graph(OLD, "1"), {"x": 1} if is_early else {}, workflow_id="w")
    store.send("w", "choice", 1)
    assert migrate(store, graph(SWAPPED, "2")).ok
    answer = {"approved": True} if is_early else {}
    assert durable.run(graph(SWAPPED, "2"), answer, workflow_id="w")["got"] == "Choice.YES"


def test_a_member_given_as_an_object_needs_no_schema(durable: On, store: Checkpointer) -> None:
    durable.run(asking(OLD), {"x": 1}, workflow_id="w")
    view_of(store, graph=asking(OLD)).answer("w", "choice", OLD.YES)
    assert durable.run(asking(NEW), workflow_id="w")["got"] == "Choice.YES"


# --- inside of other types -----------------------------------------------------------------------

TYPES: dict[str, Any] = {
    "dataclass": lambda e: make_dataclass("Form", [("one", e), ("note", str, "")]),
    "list": lambda e: list[e],
    "set": lambda e: set[e],
    "tuple": lambda e: tuple[int, e],
    "dict": lambda e: dict[str, e],
    "keys": lambda e: dict[e, int],
    "union": lambda e: e | list[e],
    "model": lambda e: pydantic.create_model("Form", one=(e, ...), more=(dict[e, int], {})),
}
GIVEN: list[tuple[str, Any, Any]] = [
    ("dataclass", {"one": 1, "note": "1"}, {"one": 2, "note": "1"}),
    ("list", [1, 2], [2, 3]),
    ("set", [2], [3]),
    ("tuple", [1, 1], [1, 2]),
    ("dict", {"1": 1}, {"1": 2}),
    ("keys", {"1": 1, "2": 1}, {"2": 1, "3": 1}),
    ("keys", {1: 1}, {2: 1}),
    ("union", 1, 2),
    ("union", [1], [2]),
    ("model", {"one": 1, "more": {"2": 5}}, {"one": 2, "more": {"3": 5}}),
]


@pytest.mark.parametrize(("shape", "value", "meant"), GIVEN)
def test_members_are_found_in_other_types(shape: str, value: Any, meant: Any) -> None:
    asked = stored_schema(schema_of(TYPES[shape](OLD)))
    assert as_asked("a", value, asked, TYPES[shape](NEW)) == meant
    assert as_asked("a", value, asked, TYPES[shape](OLD)) is value


RENAMED = choice(JA=1, NO=2)
ALIASED = enum.Enum("Choice", {"NO": 1, "JA": 2, "YES": 2})
WORDS = choice(YES="y", NO="n")


@pytest.mark.parametrize(
    ("then", "now", "value", "meant"),
    [
        (OLD, choice(NO=2, YES=1), 1, 1),  # another order
        (OLD, choice(NO=2, YES=1, MAYBE=3), 2, 2),  # one more
        (OLD, RENAMED, 1, 1),
        (OLD, ALIASED, 1, 2),
        (ALIASED, choice(YES=1, NO=2), 2, 1),  # its other name is left
        (OLD, WORDS, 1, "y"),
        (WORDS, OLD, "n", 2),
        (choice(A=(1, 2), B="b"), choice(A=5, B=6), "A", 5),  # the name stands for a value that JSON lacks
        (OLD, int, 1, 1),
        (Literal[1, 2], NEW, 1, 1),
        (OLD, NEW, OLD.YES, OLD.YES),
        (OLD, NEW, 7, 7),  # never fitted: the check says so
        (enum.IntFlag("F", {"A": 1, "B": 2}), enum.IntFlag("F", {"Z": 1, "A": 2, "B": 4}), 2, 4),
    ],
)
def test_what_a_value_stands_for_today(then: Any, now: Any, value: Any, meant: Any) -> None:
    assert as_asked("a", value, stored_schema(schema_of(then)), now) == meant


@pytest.mark.parametrize("now", [GONE, choice(MAYBE=1, ASK=2, NO=3), choice(NO=2)])
def test_a_member_that_is_not_there_is_refused(now: Any) -> None:
    with pytest.raises(InvalidAnswerError, match=r"'a\[1\]' was given as 1, which stood for YES"):
        as_asked("a", [2, 1], schema_of(list[OLD]), list[now])
