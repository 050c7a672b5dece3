"""Answers of the type that the question asks for: refused before anything is written, with the field."""

from __future__ import annotations

import enum
import warnings
from dataclasses import dataclass, make_dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Literal, Required, TypedDict
from uuid import UUID

import msgspec
import pydantic
import pytest
from support.durable import On, OnSync, durable, store

from hypergraph import Graph, InvalidAnswerError, SyncRunner, interrupt, node, receive
from hypergraph.answers import check, described, from_text, schema_of
from hypergraph.checkpointers import Checkpointer, MemoryCheckpointer
from hypergraph.checkpointers.questions import record_answers
from hypergraph.checkpointers.records import EncodedAnswer
from hypergraph.checkpointers.view import view_of
from hypergraph.exceptions import WorkflowError
from hypergraph.migration import migrate
from hypergraph.values import register

__all__ = ["durable", "store"]  # fixtures


class Size(enum.Enum):
    SMALL = "s"
    LARGE = "l"


class Rate(enum.Enum):
    LOW = 1.5
    HIGH = 2.0


class Shape(enum.Enum):
    POINT = "p"
    WIDE = (3, 1)
    NONE = None


class Swapped(enum.Enum):
    A = "B"
    B = (1,)


@dataclass
class Offer:
    rate: Rate
    shapes: list[Shape]
    until: datetime | None = None


class Priced(msgspec.Struct, rename="camel"):
    the_rate: Rate
    count: int = 1


class Listed(TypedDict, total=False):
    rate: Required[Rate]
    count: int


@dataclass
class Refund:
    amount: int
    size: Size = Size.SMALL


class Address(TypedDict):
    street: str


class Order(msgspec.Struct):
    count: int
    to: Address


class Invoice(pydantic.BaseModel):
    total: float = pydantic.Field(ge=0)
    lines: list[str] = []


def asking(declared: Any) -> Graph:
    """Return a graph that asks for a value of a type, and keeps what it got."""

    @interrupt("answer", answer=declared)
    def ask(draft: str) -> None:
        return None

    @node(output_name="got")
    def take(answer: Any) -> Any:
        return answer

    return Graph([ask, take], name="asking")


ACCEPTED = [
    (bool, False, False),
    (str, "yes", "yes"),
    (int, 3, 3),
    (float, 3, 3.0),
    (Literal["a", "b"], "b", "b"),
    (Size, "l", Size.LARGE),
    (Size, Size.LARGE, Size.LARGE),
    (Refund, {"amount": 3, "size": "l"}, Refund(3, Size.LARGE)),
    (Refund, Refund(2), Refund(2)),
    (Address, {"street": "Main"}, {"street": "Main"}),
    (Order, {"count": 1, "to": {"street": "Main"}}, Order(1, {"street": "Main"})),
    (Invoice, {"total": 2, "lines": ["a"]}, Invoice(total=2, lines=["a"])),
    (list[Refund], [{"amount": 1}, {"amount": 2}], [Refund(1), Refund(2)]),
    (list[Invoice], [{"total": 1.5}], [Invoice(total=1.5)]),
    (bool | str, "later", "later"),
    (Rate, 1.5, Rate.LOW),
    (Rate, 2, Rate.HIGH),  # as JSON may have it
    (Rate | None, Rate.LOW, Rate.LOW),
    (Shape, "p", Shape.POINT),
    (Shape, "WIDE", Shape.WIDE),
    (Shape, Shape.WIDE, Shape.WIDE),
    (Shape, Shape.NONE, Shape.NONE),
    (Swapped, "B", Swapped.B),
    (Swapped, Swapped.A, Swapped.A),
    (list[Rate], [1.5, Rate.HIGH], [Rate.LOW, Rate.HIGH]),
    (set[Shape], ["WIDE"], {Shape.WIDE}),
    (tuple[Rate, int], [1.5, 3], (Rate.LOW, 3)),
    (tuple[Rate, ...], [1.5, 2.0], (Rate.LOW, Rate.HIGH)),
    (dict[str, Shape], {"a": "WIDE", "b": Shape.POINT}, {"a": Shape.WIDE, "b": Shape.POINT}),
    (dict[Rate, int], {"1.5": 1, "HIGH": 2}, {Rate.LOW: 1, Rate.HIGH: 2}),
    (Rate | str, "other", "other"),
    (Shape | str, "WIDE", Shape.WIDE),
    (Rate | Shape, Shape.WIDE, Shape.WIDE),
    (Offer, {"rate": 1.5, "shapes": ["WIDE"]}, Offer(Rate.LOW, [Shape.WIDE])),
    (Offer, Offer(Rate.LOW, [Shape.WIDE]), Offer(Rate.LOW, [Shape.WIDE])),
    (list[Offer], [Offer(Rate.LOW, [Shape.WIDE])], [Offer(Rate.LOW, [Shape.WIDE])]),
    (Priced, {"theRate": 2.0, "count": 4}, Priced(Rate.HIGH, 4)),
    (Listed, {"rate": 1.5, "count": 2}, {"rate": Rate.LOW, "count": 2}),
    (datetime, "2020-01-02", datetime(2020, 1, 2)),
    (datetime, "2020-01-02T10:30", datetime(2020, 1, 2, 10, 30)),
    (datetime, "2020-01-02T10:30:00Z", datetime(2020, 1, 2, 10, 30, tzinfo=UTC)),
    (list[date], ["20200102"], [date(2020, 1, 2)]),
    (timedelta, "PT90S", timedelta(seconds=90)),
    (timedelta, "-1 day, 0:01:30", timedelta(-1, 90)),
    (timedelta, "-0:01:30", timedelta(seconds=-90)),
    (bytes, "dGVh", b"tea"),
    (UUID, f"{{{UUID(int=3)}}}", UUID(int=3)),
]
REFUSED = [
    (bool, "no", "'answer' must be true or false, not 'no'"),
    (bool, 1, "'answer' must be true or false, not 1"),
    (int, True, "'answer' must be a whole number, not True"),
    (int, 1.5, "'answer' must be a whole number, not 1.5"),
    (float, float("nan"), "'answer' must be a finite number, not nan"),
    (str, 3, "'answer' must be a text, not 3"),
    (str, None, "'answer' must be a text, not None"),
    (Literal["a", "b"], "c", "'answer' must be one of 'a', 'b', not 'c'"),
    (Size, "LARGE", "'answer' must be one of 's', 'l', not 'LARGE'"),
    (Refund, {"amount": "3"}, "'answer.amount' must be a whole number, not '3'"),
    (Refund, {"size": "s"}, "'answer.amount' is missing; given: 'size'"),
    (Refund, {"amount": 1, "by": "ann"}, "'answer.by' is not a field; the fields are amount, size"),
    (Order, {"count": 1, "to": {"street": 5}}, "'answer.to.street' must be a text, not 5"),
    (Invoice, {"total": -1}, "'answer.total' must be at least 0"),
    (list[Refund], [{"amount": 1}, {"amount": "2"}], r"'answer\[1\].amount' must be a whole number, not '2'"),
    (list[int], 3, "'answer' must be a list, each item a whole number, not 3"),
    (bool | str, 3, "'answer' must be true or false or a text, not 3"),
    (Rate, "nonsense", "'answer' must be one of 1.5, 2.0, not 'nonsense'"),
    (Rate, 3, "'answer' must be one of 1.5, 2.0, not 3"),
    (Shape, (3, 1), r"'answer' must be one of 'p', 'WIDE', 'NONE', not \(3, 1\)"),
    (Swapped, "C", "'answer' must be one of 'A', 'B', not 'C'"),
    (list[Rate], [1.5, "x"], r"'answer\[1\]' must be one of 1.5, 2.0, not 'x'"),
    (dict[str, Rate], {"a": True}, "'answer.a' must be one of 1.5, 2.0, not True"),
    (Rate | bool, "x", "'answer' must be one of 1.5, 2.0 or true or false, not 'x'"),
    (Offer, {"rate": "x", "shapes": []}, "'answer.rate' must be one of 1.5, 2.0, not 'x'"),
    (Offer, {"rate": 1.5, "shapes": [], "by": 1}, "'answer.by' is not a field"),
    (Listed, {"count": 2}, "'answer.rate' is missing"),
    (datetime, "soon", "'answer' must be a date-time, not 'soon'"),
    (timedelta, "long", "'answer' must be a duration such as 'P1DT2H' or '26:00:00', not 'long'"),
    (bytes, "abc", "'answer' must be bytes in Base64, not 'abc'"),
]


@pytest.mark.parametrize(("declared", "given", "wanted"), ACCEPTED)
def test_an_answer_arrives_as_the_declared_type(declared: Any, given: Any, wanted: Any) -> None:
    kept, graph = MemoryCheckpointer(), asking(declared)
    runner = SyncRunner(checkpointer=kept)
    runner.run(graph, draft="tea", workflow_id="w")
    kept.answer("w", "answer", given, by="ann")
    assert runner.run(graph, workflow_id="w")["got"] == wanted
    assert SyncRunner().run(graph, draft="tea", answer=given)["got"] == wanted
    assert type(runner.run(graph, draft="tea", answer=given, workflow_id="v")["got"]) is type(wanted)


@pytest.mark.parametrize(("declared", "given", "text"), REFUSED)
def test_an_answer_that_does_not_fit_is_refused_with_its_field(declared: Any, given: Any, text: str) -> None:
    kept, graph = MemoryCheckpointer(), asking(declared)
    runner = SyncRunner(checkpointer=kept)
    runner.run(graph, draft="tea", workflow_id="w")
    for attempt in (
        lambda: kept.answer("w", "answer", given),
        lambda: runner.run(graph, answer=given, workflow_id="w"),
        lambda: runner.run(graph, draft="tea", answer=given, workflow_id="new"),
        lambda: SyncRunner().run(graph, draft="tea", answer=given),
    ):
        with pytest.raises(InvalidAnswerError, match=text):
            attempt()
    assert kept.questions("w")[0].step.answer is None
    assert [workflow.id for workflow in kept.workflows()] == ["w"]


def test_the_return_annotation_is_the_type_and_no_annotation_takes_anything(
    durable: On, store: Checkpointer
) -> None:
    @interrupt(("size", "note"))
    def ask(draft: str) -> tuple[Size, str] | None:
        return None

    @interrupt("free")
    def ask_freely(draft):
        return None

    graph = Graph([ask, ask_freely])
    asked = durable.run(graph, {"draft": "tea"}, workflow_id="w")
    schemas = {key: schema for pause in asked.pauses for key, schema in (pause.schemas or {}).items()}
    assert schemas["size"]["enum"] == ["s", "l"]
    assert "free" not in schemas
    with pytest.raises(InvalidAnswerError, match=r"'note' must be a text, not 3") as refused:
        store.answer("w", {"size": "s", "note": 3, "free": object})
    assert (refused.value.key, refused.value.field) == ("note", "note")
    store.answer("w", {"size": "s", "note": "x", "free": [1, None]})
    done = durable.run(graph, workflow_id="w")
    assert (done["size"], done["note"], done["free"]) == (Size.SMALL, "x", [1, None])


def test_answers_in_maps_and_nested_graphs_are_checked_too(durable: On, store: Checkpointer) -> None:
    inner = asking(bool)
    outer = Graph([inner.as_node(name="one")])
    durable.run(outer, {"draft": "tea"}, workflow_id="w")
    with pytest.raises(InvalidAnswerError, match=r"'one.answer' must be true or false"):
        store.answer("w", "one.answer", "yes")
    with pytest.raises(InvalidAnswerError, match=r"'one.answer' must be true or false"):
        durable.run(outer, {"one.answer": "yes"}, workflow_id="w")
    with pytest.raises(InvalidAnswerError, match=r"'answer' must be true or false"):
        durable.run(outer, {"answer": 3}, workflow_id="w")
    durable.map(inner, {"draft": ["a", "b"]}, map_over="draft", workflow_id="m")
    with pytest.raises(InvalidAnswerError, match=r"'item-1.answer' must be true or false"):
        store.answer("m", {"item-0.answer": True, "item-1.answer": "yes"})
    with pytest.raises(InvalidAnswerError, match=r"'answer' must be true or false"):
        durable.map(inner, {"draft": ["a", "b"], "item-1.answer": 2}, map_over="draft", workflow_id="m")
    assert all(question.step.answer is None for question in store.questions("m"))
    store.answer("m", {"item-0.answer": True, "item-1.answer": False})
    done = durable.map(inner, {"draft": ["a", "b"]}, map_over="draft", workflow_id="m")
    assert [item["got"] for item in done] == [True, False]


SHAPES = {  # how a graph is run, and the key of its question
    "flat": "answer",
    "nested": "one.answer",
    "mapped": "one.item-1.answer",
    "nested deeper": "outer.one.item-1.answer",
    "map": "item-1.answer",
}


def run_as(durable: On, shape: str, inner: Graph, given: dict[str, Any] | None = None) -> None:
    """Run a graph by itself, inside of others or as items."""
    values = {"draft": "tea" if shape in ("flat", "nested") else ["a", "b"], **(given or {})}
    if shape == "map":
        durable.map(inner, values, map_over="draft", workflow_id="w")
    else:
        durable.run(shaped(shape, inner), values, workflow_id="w")


def taken(store: Checkpointer) -> list[Any]:
    """Return what the nodes have got that take answers."""
    steps = [step for id in places(store) for step in store.steps(id, node="take")]
    return [(step.values or {})["got"] for step in steps]


def shaped(shape: str, inner: Graph) -> Graph:
    """Return a graph with this one inside."""
    if shape in ("flat", "map"):
        return inner
    one = inner.as_node(name="one")
    graph = Graph([one if shape == "nested" else one.map_over("draft")], name="around")
    return Graph([graph.as_node(name="outer")], name="all") if shape == "nested deeper" else graph


def places(store: Checkpointer, workflow_id: str = "w") -> list[str]:
    """Return the ids of a workflow and of all below it."""
    below = (places(store, child.id) for child in store.backend.children(workflow_id))
    return [workflow_id, *(each for found in below for each in found)]


def recorded(store: Checkpointer) -> list[Any]:
    """Return all that a refused call must leave as it is."""
    return [
        (id, store.workflow(id).status, [(s.node_name, s.status, s.answer) for s in store.steps(id)])
        for id in places(store)
    ]


@pytest.mark.parametrize("shape", SHAPES)
def test_a_stored_answer_of_another_type_is_refused_and_kept(
    durable: On, store: Checkpointer, shape: str
) -> None:
    run_as(durable, shape, asking(str))
    store.answer("w", SHAPES[shape], "plenty", by="ann")
    before = recorded(store)
    for _ in range(2):
        with pytest.raises(InvalidAnswerError) as caught:
            run_as(durable, shape, asking(int))
        assert recorded(store) == before
    for part in (
        f"'{SHAPES[shape]}' must be a whole number, not 'plenty'",
        "int | str",
        "by 'ann'",
        "for int now",
    ):
        assert part in str(caught.value)
    (refused,) = migrate(store, shaped(shape, asking(int)), ["w"], dry_run=True).refused
    assert f"'{SHAPES[shape]}' must be a whole number, not 'plenty'" in (refused.reason or "")
    run_as(durable, shape, asking(int | str))
    assert taken(store) == ["plenty"]


@pytest.mark.parametrize("shape", SHAPES)
def test_a_stored_answer_of_another_type_is_used_by_the_code_that_asked(
    durable: On, store: Checkpointer, shape: str
) -> None:
    run_as(durable, shape, asking(str))
    store.answer("w", SHAPES[shape], "plenty", by="ann")
    with pytest.raises(InvalidAnswerError):
        run_as(durable, shape, asking(int))
    run_as(durable, shape, asking(str))
    assert taken(store) == ["plenty"]


@pytest.mark.parametrize("shape", SHAPES)
def test_an_answer_of_today_s_type_takes_the_place_of_one_of_another_type(
    durable: On, store: Checkpointer, shape: str
) -> None:
    run_as(durable, shape, asking(str))
    store.answer("w", SHAPES[shape], "plenty", by="ann")
    run_as(durable, shape, asking(int), {SHAPES[shape]: 3})
    assert taken(store) == [3]
    steps = [step for id in places(store) for step in store.steps(id, node="ask")]
    (step,) = [step for step in steps if step.status.value == "completed"]
    assert (step.answer, step.answered_by, step.answered_at is not None) == (None, None, True)
    with pytest.raises(WorkflowError, match="has been answered already"):
        run_as(durable, shape, asking(int), {SHAPES[shape]: 4})


def kept_unchecked(store: Checkpointer, value: Any) -> None:
    """Keep an answer as a release did that checked less."""
    (question,) = store.questions("w")
    store.backend.put_answers([store.encoding.answer(question.step, {"answer": value}, "ann")])


def test_an_answer_that_cannot_be_used_may_be_replaced(durable: On, store: Checkpointer) -> None:
    durable.run(asking(bytes), {"draft": "tea"}, workflow_id="w")
    kept_unchecked(store, "abc")
    with pytest.raises(InvalidAnswerError) as refused:
        durable.run(asking(bytes), workflow_id="w")
    assert str(refused.value) == (
        "Workflow 'w': 'answer' must be bytes in Base64, not 'abc'. The answer by 'ann' is stored, and "
        "cannot be used as the bytes that node 'ask' asks for.\n"
        "Nothing ran, and it is kept. How to fix: answer again: pass {'answer': ...} to this call."
    )
    with pytest.raises(InvalidAnswerError, match="must be bytes in Base64, not 'x'"):
        store.answer("w", "answer", "x")
    with pytest.raises(WorkflowError, match="replace=True"):  # an answer is not overwritten in silence
        store.answer("w", "answer", "dGVh", by="bob")
    store.answer("w", "answer", "dGVh", by="bob", replace=True)
    assert store.questions("w")[0].step.answered_by == "bob"
    store.answer("w", "answer", "dGVh")
    with pytest.raises(WorkflowError, match="has been answered already, with another value"):
        store.answer("w", "answer", "bWlsaw==")
    assert durable.run(asking(bytes), workflow_id="w")["got"] == b"tea"


class Share(pydantic.BaseModel):
    percent: int

    @pydantic.field_validator("percent")
    @classmethod
    def is_whole(cls, percent: int) -> int:
        if percent % 10:
            raise ValueError("tens only")
        return percent


def test_a_validator_checks_an_answer_where_the_graph_is_known(durable: On, store: Checkpointer) -> None:
    @interrupt("share")
    def ask(x: int) -> Share | None:
        return None

    inner = Graph([ask], name="inner")
    outer = Graph([inner.as_node().map_over("x")], name="outer")
    durable.run(outer, x=[1, 2], workflow_id="w")
    durable.map(inner, x=[1, 2], map_over="x", workflow_id="m")
    for graph, workflow_id, key in (
        (outer, "w", "inner.item-0.share"),
        (outer, "w/inner", "item-1.share"),
        (inner, "m", "item-0.share"),
        (inner, "m/item-1", "share"),
    ):
        with pytest.raises(InvalidAnswerError, match=f"'{key}' does not fit.*tens only"):
            store.answer(workflow_id, key, {"percent": 5}, graph=graph)
        store.answer(workflow_id, key, {"percent": 5})  # without the code nothing tells
        for known in (None, graph):
            with pytest.raises(WorkflowError, match="replace=True"):
                store.answer(workflow_id, key, {"percent": 10}, graph=known)
        for percent in (20, 10):
            store.answer(workflow_id, key, {"percent": percent}, graph=graph, replace=True)
        store.answer(workflow_id, key, {"percent": 10})  # the same again, as fields
    assert durable.run(outer, workflow_id="w")["share"] == [Share(percent=10)] * 2
    assert durable.map(inner, x=[1, 2], map_over="x", workflow_id="m")["share"] == [Share(percent=10)] * 2


def test_of_two_answers_in_place_of_one_that_cannot_be_used_one_counts(store: Checkpointer) -> None:
    SyncRunner(checkpointer=store).run(asking(bytes), draft="tea", workflow_id="w")
    kept_unchecked(store, "abc")
    (question,) = store.questions("w")  # as both see it
    for value in ("dGVh", "bWlsaw=="):
        record, payload, _ = store.encoding.answer(question.step, {"answer": value}, None)
        better = EncodedAnswer(record, payload._replace(version=1), replaces=True)
        if value == "dGVh":
            store.backend.put_answers([better])
    with pytest.raises(WorkflowError, match="has been answered already"):
        store.backend.put_answers([better])
    assert store.questions("w")[0].step.answer == {"answer": "dGVh"}


def test_an_answer_that_code_of_today_has_taken_is_not_replaced(store: Checkpointer) -> None:
    runner = SyncRunner(checkpointer=store)
    runner.run(asking(int), draft="tea", workflow_id="w")
    record_answers(store, "w", {"answer": "plenty"}, is_checked=True)  # before the run of it ended
    with pytest.raises(WorkflowError, match="has been answered already"):
        store.answer("w", "answer", 3)
    assert runner.run(asking(str), workflow_id="w")["got"] == "plenty"


def test_an_answer_of_another_type_is_not_refused_where_its_question_is_given_up(
    durable: On, store: Checkpointer
) -> None:
    durable.run(asking(str), {"draft": "tea"}, workflow_id="w")
    store.answer("w", "answer", "plenty")
    with pytest.warns(UserWarning, match="gives up what it asked for"):
        assert durable.run(asking(int), {"draft": "milk"}, workflow_id="w").paused


def test_a_fork_with_an_answer_of_another_type_is_refused_and_leaves_nothing(
    durable: On, store: Checkpointer
) -> None:
    durable.run(asking(str), {"draft": "tea"}, workflow_id="w")
    store.answer("w", "answer", "plenty")
    with pytest.raises(InvalidAnswerError, match="must be a whole number"):
        durable.run(asking(int), workflow_id="f", fork_from=("w", None))
    assert store.backend.read_workflow("f") is None
    assert durable.run(asking(int), {"answer": 3}, workflow_id="f", fork_from=("w", None))["got"] == 3
    assert durable.run(asking(str), workflow_id="w")["got"] == "plenty"


@pytest.mark.parametrize("shape", SHAPES)
def test_an_answer_whose_class_has_lost_a_field_is_refused_and_kept(shape: str) -> None:
    def refund(*fields: Any) -> Any:
        return make_dataclass("Lost", fields, namespace={"__module__": "lost.fields"})

    kept = MemoryCheckpointer()
    durable = OnSync(checkpointer=kept)
    old, new = register(refund(("amount", int), ("note", str))), refund(("amount", int))
    run_as(durable, shape, asking(old))
    kept.answer("w", SHAPES[shape], old(1, "x"))
    register(new)
    before = recorded(kept)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(InvalidAnswerError, match=r"has no field 'note'.*register.*asks for Lost now"):
            run_as(durable, shape, asking(new))
    assert [found[:2] for found in recorded(kept)] == [found[:2] for found in before]
    (refused,) = migrate(kept, shaped(shape, asking(new)), ["w"], dry_run=True).refused
    assert "has no field 'note'" in (refused.reason or "")
    register(new, version=2, upgrade={1: lambda fields: {"amount": fields["amount"]}})
    run_as(durable, shape, asking(new))
    assert taken(view_of(kept, graph=asking(new))) == [new(1)]


@pytest.mark.parametrize("is_nested", [False, True])
def test_a_signal_of_another_type_is_refused_and_kept(
    durable: On, store: Checkpointer, is_nested: bool
) -> None:
    def waiting(declared: Any) -> Graph:
        @node(output_name="got")
        def take(payment: Any) -> Any:
            return payment

        inner = Graph([receive("payment", declared), take], name="waiting")
        return Graph([inner.as_node()], name="around") if is_nested else inner

    assert durable.run(waiting(str), workflow_id="w").paused
    store.send("w", "payment", "plenty", by="bank")
    before = recorded(store)
    with pytest.raises(InvalidAnswerError, match=r"The signal 'payment' is stored.* asks for int now"):
        durable.run(waiting(int), workflow_id="w")
    assert recorded(store) == before
    assert [run.outcome for run in migrate(store, waiting(int), ["w"], dry_run=True).runs] == ["refused"]
    assert durable.run(waiting(str), workflow_id="w")["got"] == "plenty"


TYPED = [
    ({"type": "boolean"}, "no", False),
    ({"type": "boolean"}, "Yes", True),
    ({"type": "integer"}, "12", 12),
    ({"type": "number"}, "1.5", 1.5),
    ({"type": "string"}, "12", "12"),
    (schema_of(Size), "LARGE", "l"),
    (schema_of(Size), "l", "l"),
    (schema_of(Literal[1, 2]), "2", 2),
    (schema_of(Refund), '{"amount": 1}', {"amount": 1}),
    (schema_of(bool | str), "later", "later"),
    (schema_of(bool | str), "off", False),
    (None, "[1]", [1]),
]


@pytest.mark.parametrize(("schema", "text", "wanted"), TYPED)
def test_a_text_is_read_by_the_type(schema: Any, text: str, wanted: Any) -> None:
    read = from_text("answer", text, schema)
    assert (type(read), read) == (type(wanted), wanted)


@pytest.mark.parametrize(
    ("schema", "text"), [({"type": "integer"}, "no"), ({"type": "boolean"}, "2"), (schema_of(Refund), "3")]
)
def test_a_text_of_another_type_is_refused(schema: Any, text: str) -> None:
    with pytest.raises(InvalidAnswerError):
        from_text("answer", text, schema)


def test_a_type_that_says_nothing_has_no_schema() -> None:
    class Other:
        pass

    for declared in (None, Any, object, Other, Other | None, "Unknown"):
        assert schema_of(declared) is None
    check("answer", object(), None)
    assert (
        described(schema_of(list[Refund]))
        == "a list, each item an object with amount, size (one of 's', 'l')"
    )


@dataclass
class Form:
    name: str


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (str, b"yes"),
        (str, timedelta(days=1)),
        (int | str, b"yes"),
        (list[str], [b"a"]),
        (dict[str, str], {"1": "kept", 1: "lost"}),
        (Form, {"name": b"ann"}),
        (Form, Form(b"ann")),  # type: ignore[arg-type]  # what is refused
        (float, 10**400),
        (float, float("inf")),
        (date, datetime(2026, 1, 31, tzinfo=UTC)),
    ],
)
def test_an_answer_of_another_type_is_not_converted(kind: Any, value: Any) -> None:
    def ask(x: int) -> None:
        return None

    ask.__annotations__["return"] = kind
    graph, store = Graph([interrupt("answer")(ask)]), MemoryCheckpointer()
    runner = SyncRunner(checkpointer=store)
    runner.run(graph, x=1, workflow_id="w")
    with pytest.raises(InvalidAnswerError):
        runner.run(graph, answer=value, workflow_id="w")
    assert [question.keys for question in store.questions("w")] == [("answer",)]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (bytes, b"yes"),
        (timedelta, timedelta(days=1)),
        (date, date(2026, 1, 31)),
        (datetime, datetime(2026, 1, 31, tzinfo=UTC)),
        (Decimal, Decimal("1.5")),
        (UUID, UUID(int=7)),
        (dict[int, str], {1: "a"}),
        (int, 10**400),
    ],
)
def test_an_answer_of_the_type_stays_what_it_is(kind: Any, value: Any) -> None:
    def ask(x: int) -> None:
        return None

    ask.__annotations__["return"] = kind
    graph, store = Graph([interrupt("answer")(ask)]), MemoryCheckpointer()
    runner = SyncRunner(checkpointer=store)
    runner.run(graph, x=1, workflow_id="w")
    store.answer("w", "answer", value)
    assert runner.run(graph, workflow_id="w")["answer"] == value


def test_who_answers_is_a_text() -> None:
    store = MemoryCheckpointer()
    graph = Graph([interrupt("ok")(lambda x: None).with_name("ask")])
    SyncRunner(checkpointer=store).run(graph, x=1, workflow_id="w")
    with pytest.raises(TypeError, match="by must be a text"):
        store.answer("w", "ok", True, by=3)  # type: ignore[arg-type]  # what is refused


class Line(pydantic.BaseModel):
    amount: int = 1


class Order(pydantic.BaseModel):
    lines: list[Line] = []
    note: str | None = None


class OpenOrder(Order, extra="ignore"):
    """An order that says what becomes of other names."""


class NamedOrder(pydantic.BaseModel, populate_by_name=True):
    note: str = pydantic.Field("", alias="remark")


@pytest.mark.parametrize(
    ("wrong", "place"),
    [({"nots": "x"}, "answer.nots"), ({"lines": [{"amont": 2}]}, r"answer.lines\[0\].amont")],
)
def test_a_misspelt_field_of_a_model_is_refused(
    durable: On, store: Checkpointer, wrong: dict[str, Any], place: str
) -> None:
    """pydantic drops it: an edit without the edited value would count as given."""
    durable.run(asking(Order), draft="a", workflow_id="w")
    for give in (
        lambda: store.answer("w", "answer", wrong),
        lambda: store.answer("w", "answer", wrong, graph=asking(Order)),
        lambda: durable.run(asking(Order), answer=wrong, workflow_id="w"),
    ):
        with pytest.raises(InvalidAnswerError, match=f"'{place}' is not a field; the fields are"):
            give()


@pytest.mark.parametrize(
    ("model", "given", "made"),
    [
        (OpenOrder, {"note": "a", "more": 1}, OpenOrder(note="a")),
        (NamedOrder, {"note": "a"}, NamedOrder(note="a")),
        (NamedOrder, {"remark": "a"}, NamedOrder(note="a")),
        (Order, {"lines": [{"amount": 2}]}, Order(lines=[Line(amount=2)])),
    ],
)
def test_a_model_may_take_other_names(
    durable: On, store: Checkpointer, model: Any, given: dict[str, Any], made: Any
) -> None:
    durable.run(asking(model), draft="a", workflow_id="w")
    assert durable.run(asking(model), answer=given, workflow_id="w")["got"] == made


@pytest.mark.parametrize("is_nested", [False, True], ids=["flat", "nested"])
@pytest.mark.parametrize("is_moved", [False, True], ids=["as it was", "moved"])
def test_the_graph_of_today_says_what_an_open_question_asks_for(
    durable: On, store: Checkpointer, is_nested: bool, is_moved: bool
) -> None:
    class Discount(pydantic.BaseModel):
        percent: Decimal

    def graph(declared: Any, version: str) -> Graph:
        def ask(x: int) -> Any:
            return None

        inner = Graph([interrupt("discount", answer=declared)(ask)], name="asking", version=version)
        return Graph([inner.as_node()], name="order", version=version) if is_nested else inner

    key = "asking.discount" if is_nested else "discount"
    durable.run(graph(float, "1"), x=1, workflow_id="w")
    today = graph(Discount, "2")
    if is_moved:
        assert migrate(store, today).ok
    with pytest.raises(InvalidAnswerError, match=r"must be an object with percent, not 0\.1"):
        store.answer("w", key, 0.1, graph=today)
    with pytest.raises(InvalidAnswerError, match="percent"):
        store.answer("w", key, {"percent": "many"}, graph=today)
    store.answer("w", key, {"percent": "10"}, graph=today)
    assert migrate(store, today).ok
    assert durable.run(today, workflow_id="w")["discount"] == Discount(percent=Decimal(10))
