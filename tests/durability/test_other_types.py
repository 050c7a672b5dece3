"""Stored values under types that have changed: what fits is kept, what does not is named."""

from dataclasses import dataclass, make_dataclass
from decimal import Decimal
from typing import Any, Generic, NamedTuple, NewType, TypedDict, TypeVar, get_origin

import msgspec
import pydantic
import pytest

from hypergraph import FunctionNode, Graph, InterruptNode, SyncRunner
from hypergraph.answers import converted
from hypergraph.checkpointers import MemoryCheckpointer, register
from hypergraph.exceptions import GraphChangedError, ValueUnreadableError
from hypergraph.migration import migrate


class Down(Exception):
    """The last node cannot work yet."""


def graph_of(made: Any, declared: Any, *, works: bool) -> Graph:
    """Return a graph whose first node makes a value, and whose last node fails or returns it."""

    def make(x: int) -> Any:
        return made

    def use(value: Any) -> Any:
        if not works:
            raise Down
        return value

    if declared is None:  # as without an annotation
        del make.__annotations__["return"], use.__annotations__["value"]
    else:
        make.__annotations__["return"] = use.__annotations__["value"] = declared
    return Graph([FunctionNode(make, output_name="value"), FunctionNode(use, output_name="out")], name="g")


def resumed(before: Any, made: Any, now: Any, **options: Any) -> Any:
    """Return what a run makes of a value that was stored under another type."""
    runner = SyncRunner(checkpointer=MemoryCheckpointer())
    with pytest.raises(Down):
        runner.run(graph_of(made, before, works=False), x=1, workflow_id="w")
    return runner.run(graph_of(made, now, works=True), workflow_id="w", **options)["out"]


pytestmark = pytest.mark.filterwarnings("ignore:.*has changed since it was recorded")


@pytest.mark.parametrize(
    ("before", "made", "now", "place"),
    [
        (int, 1, str, "value is of type int; node 'make' now declares str"),
        (list[int], [1, 2], list[str], r"value\[0\] is of type int"),
        (dict[str, int], {"a": 1}, dict[str, list[int]], r"value\['a'\] is of type int"),
        (tuple[int, int], (1, 2), tuple[int, int, int], "value is"),
        (int | None, None, int, "value is of type NoneType"),
        (None, 1, str, "value is of type int; node 'make' now declares str"),
    ],
    ids=str,
)
def test_a_value_that_does_not_fit_a_changed_type_is_named(
    before: Any, made: Any, now: Any, place: str
) -> None:
    with pytest.raises(ValueUnreadableError, match=place) as caught:
        resumed(before, made, now)
    assert caught.value.name == "value"
    assert 'code_change="rerun"' in str(caught.value)


def test_an_input_that_does_not_fit_a_changed_type_is_to_be_passed_again() -> None:
    def graph(declared: Any, *, works: bool) -> Graph:
        def use(value: Any) -> str:
            if not works:
                raise Down
            return str(value)

        use.__annotations__["value"] = declared
        return Graph([FunctionNode(use, output_name="out")], name="g")

    runner = SyncRunner(checkpointer=MemoryCheckpointer())
    with pytest.raises(Down):
        runner.run(graph(int, works=False), value=1, workflow_id="w")
    fix = r"How to fix: accept both types in the annotation, or pass value again\."
    with pytest.raises(ValueUnreadableError, match=fix):
        runner.run(graph(str, works=True), workflow_id="w")
    assert runner.run(graph(str, works=True), value="1", workflow_id="w")["out"] == "1"


@pytest.mark.parametrize(
    ("before", "made", "now"),
    [
        (int, 1, float),
        (int, 1, int | str),
        (list[int], [], list[str]),
        (int, "a lie", int),  # the type has not changed, so it is left to the code
        (Any, 1, int),
        (int, 1, Any),
        (None, 1, int),
        (int, 1, None),
    ],
    ids=str,
)
def test_a_value_that_fits_or_whose_type_has_not_changed_is_kept(before: Any, made: Any, now: Any) -> None:
    assert resumed(before, made, now) == made


def test_results_that_are_made_again_are_not_compared() -> None:
    assert resumed(int, 1, str, code_change="rerun") == 1
    with pytest.raises(GraphChangedError):
        resumed(int, 1, str, code_change="error")


def in_this_module(cls: Any) -> Any:
    """Return a class with the name under which its objects are stored, whatever its fields."""
    cls.__module__, cls.__qualname__ = __name__, "Order"
    return cls


@dataclass
class Line:
    price: int


def as_dataclass(hint: Any, lines: Any) -> Any:
    return in_this_module(make_dataclass("Order", [("amount", hint), ("lines", lines), ("note", str, None)]))


def as_struct(hint: Any, lines: Any) -> Any:
    return in_this_module(
        msgspec.defstruct("Order", [("amount", hint), ("lines", lines), ("note", Any, None)])
    )


def as_model(hint: Any, lines: Any) -> Any:
    fields: dict[str, Any] = {"amount": (hint, ...), "lines": (lines, ...), "note": (Any, None)}
    return in_this_module(pydantic.create_model("Order", **fields))


@pytest.mark.parametrize("kind", [as_dataclass, as_struct, as_model], ids=lambda kind: kind.__name__)
def test_a_field_whose_type_has_changed_is_named(kind: Any) -> None:
    before, now = kind(int, list[int]), kind(list[int], list[int])
    with pytest.raises(ValueUnreadableError, match=r"value\.amount is of type|value does not fit .*amount"):
        resumed(before, before(amount=5, lines=[1]), now)
    wider = kind(int | str, list[int])
    assert resumed(before, before(amount=5, lines=[1]), wider).amount == 5
    assert resumed(before, before(amount=5, lines=[1]), kind(int, list[int])).lines == [1]


def test_a_class_that_says_otherwise_than_its_objects_are_is_no_obstacle() -> None:
    order = as_dataclass(int, list[int])
    assert resumed(order, order(amount="many", lines=[]), as_dataclass(int, list[int])).amount == "many"
    changed = as_dataclass(str, list[int])
    assert resumed(order, order(amount="many", lines=[]), changed).note is None  # its default is no misfit


def test_a_migration_refuses_what_a_resume_would_refuse() -> None:
    store = MemoryCheckpointer()
    with pytest.raises(Down):
        SyncRunner(checkpointer=store).run(graph_of(1, int, works=False), x=1, workflow_id="w")
    (found,) = migrate(store, graph_of(1, str, works=True), dry_run=True).runs
    assert found.outcome == "refused"
    assert "now declares str" in (found.reason or "") or "is str now" in (found.reason or "")
    assert migrate(store, graph_of(1, int | str, works=True), dry_run=True).ok


def test_the_result_of_a_completed_run_is_recalled_as_it_is() -> None:
    runner = SyncRunner(checkpointer=MemoryCheckpointer())
    runner.run(graph_of(1, int, works=True), x=1, workflow_id="w")
    assert runner.run(graph_of(1, str, works=True), workflow_id="w")["out"] == 1


def test_an_upgrade_that_gives_a_field_another_type_is_named() -> None:
    runner = SyncRunner(checkpointer=MemoryCheckpointer())
    before = register(as_dataclass(int, list[int]))
    with pytest.raises(Down):
        runner.run(graph_of(before(5, [1]), before, works=False), x=1, workflow_id="w")
    now = as_dataclass(int, list[int])
    register(now, version=2, upgrade={1: lambda fields: {**fields, "amount": "5"}})
    with pytest.raises(ValueUnreadableError, match=r"value\.amount is of type str; .*int.\nIt is '5'"):
        runner.run(graph_of(None, now, works=True), workflow_id="w")
    register(now, version=2, upgrade={1: lambda fields: {**fields, "amount": 6}})
    assert runner.run(graph_of(None, now, works=True), workflow_id="w")["out"].amount == 6


# -- inside of maps ------------------------------------------------------------------------------------


def made_in_items(cost: Any, field: str = "cost") -> Graph:
    """Return a graph of one item: it makes an object, and asks about the second one."""
    found = make_dataclass("Found", [(field, cost)])
    found.__module__, found.__qualname__ = __name__, "Found"

    def make(n: int) -> Any:
        calls.append("make")
        return found(cost(n))

    def ask(n: int) -> bool | None:
        return True if n == 0 else None

    make.__annotations__["return"] = found
    return Graph([FunctionNode(make, output_name="found"), InterruptNode(ask, output_name="ok")], name="one")


calls: list[str] = []


@pytest.mark.parametrize(
    ("now", "reason"),
    [((str,), "found.cost is of type int"), ((int, "price"), r"add: register\(Found, version=2")],
)
@pytest.mark.parametrize("shape", ["mapped", "nested", "nested map", "map"])
def test_what_does_not_fit_inside_is_refused_before_anything_is_written(
    shape: str, now: Any, reason: str
) -> None:
    if shape == "map" and len(now) > 1:
        pytest.skip("no node of the item needs it, and the result says why it cannot be read")
    store = MemoryCheckpointer()
    runner = SyncRunner(checkpointer=store)

    def run(graph: Graph, values: dict[str, Any]) -> Any:
        if shape == "map":
            given = {"n": [1, 2], **values}
            return runner.map(graph, given, map_over="n", workflow_id="w")
        each = graph.as_node(name="each")
        outer = Graph([each if shape == "nested" else each.map_over("n")], name="outer")
        if shape == "nested map":
            outer = Graph([outer.as_node(name="mid")], name="all")
        return runner.run(outer, values, workflow_id="w")

    key = {"mapped": "each.item-1.ok", "nested": "each.ok", "map": "item-1.ok"}
    run(made_in_items(int), {"n": 1 if shape == "nested" else [0, 1]} if shape != "map" else {})
    places = ["w", *(child.id for child in store.backend.children("w"))]

    def recorded() -> list[Any]:
        steps = [[(s.node_name, s.status, s.answer) for s in store.steps(id)] for id in places]
        return [*steps, *(store.workflow(id).status for id in places)]

    before = recorded()
    calls.clear()
    match = reason.replace("is 0", r"is \d")
    with pytest.raises(ValueUnreadableError, match=match):
        run(made_in_items(*now), {key.get(shape, "mid.each.item-1.ok"): True})
    assert recorded() == before
    assert calls == []


def class_with(kind: str, declared: Any) -> Any:
    """Return a class with a field, or key, of a type; register it if it needs that."""
    if kind == "dict":
        return TypedDict("Line", {"count": declared, "size": int})
    if kind == "tuple":
        made: Any = NamedTuple("Line", [("count", declared), ("size", int)])
    else:
        base = make_dataclass("Base", [("count", declared)])
        made = make_dataclass("Line", [("size", int)], bases=(base,))
    register(made)
    return made


@pytest.mark.parametrize("kind", ["inherited", "dict", "tuple"])
def test_fields_of_all_kinds_are_compared_with_their_types_of_today(kind: str) -> None:
    runner = SyncRunner(checkpointer=MemoryCheckpointer())
    before = class_with(kind, int)
    made = [before(count=1, size=1)]
    runner.run(graph_of(made, list[before], works=False), x=1, workflow_id="w", error_handling="continue")
    today = graph_of(made, list[class_with(kind, str)], works=True)
    with pytest.raises(GraphChangedError):
        runner.run(today, workflow_id="w", code_change="error")
    with pytest.warns(UserWarning, match="has changed"), pytest.raises(ValueUnreadableError, match="count"):
        runner.run(today, workflow_id="w")


T = TypeVar("T")


@dataclass
class Box(Generic[T]):
    value: T


@pytest.mark.parametrize(
    ("before", "made", "now", "place"),
    [
        (
            NewType("Money", int),
            5,
            NewType("Money", Decimal),
            "value is of type int.*now declares Decimal",
        ),
        (Box[int], Box(5), Box[Decimal], r"value\.value is of type int"),
    ],
    ids=["NewType", "generic class"],
)
def test_what_stands_behind_a_name_is_compared(before: Any, made: Any, now: Any, place: str) -> None:
    with pytest.raises(ValueUnreadableError, match=place):
        resumed(before, made, now)


@pytest.mark.parametrize("around", [lambda cls: cls, lambda cls: list[cls], lambda cls: dict[str, cls]])
def test_an_object_of_a_class_of_the_same_name_is_refused(around: Any) -> None:
    modules = ({"__module__": module} for module in ("shop", "shop2"))
    before, now = (make_dataclass("Order", [("total", int)], namespace=module) for module in modules)
    register(before)
    made = {int: before(5), list: [before(5)], dict: {"a": before(5)}}[get_origin(around(before)) or int]
    with pytest.raises(ValueUnreadableError, match=r"class shop:Order.*declares shop2:Order(.|\n)*formerly"):
        resumed(around(before), made, around(now))


def test_a_fork_is_refused_where_a_resume_is() -> None:
    runner = SyncRunner(checkpointer=MemoryCheckpointer())
    with pytest.raises(Down):
        runner.run(graph_of(1, int, works=False), x=1, workflow_id="w")
    after = graph_of(1, str, works=True)
    with pytest.raises(ValueUnreadableError, match="now declares str"):
        runner.run(after, workflow_id="f", fork_from=("w", None))
    assert runner.run(after, x=2, workflow_id="f", fork_from=("w", None))["out"] == 1  # made again


def claims(kind: Any) -> Graph:
    def decide(claim: str) -> Any:
        return None

    def pay(refund: Any) -> Any:
        return refund.amount

    pay.__annotations__["refund"] = kind
    return Graph(
        [InterruptNode(decide, output_name="refund", answer=kind), FunctionNode(pay, output_name="paid")]
    )


def refunds(where: str) -> tuple[Any, Any, Any, Any]:
    """Return the answer's class in pounds with an answer, then its class in pence with a function for that.

    The class of another version is that of the answer, or of a field.
    """
    names = {"namespace": {"__module__": "claims"}}
    old, new = (make_dataclass("Refund", [("amount", int)], **names) for _ in range(2))
    fields, now = {"amount": 8}, lambda: register(new, version=2, upgrade={1: pence})
    register(old)
    if where == "the class":
        return old, fields, new, now
    around = [make_dataclass("Claim", [("first", kind)], **names) for kind in (old, new)]
    for kind in around:
        kind.amount = property(lambda self: self.first.amount)
    register(around[0])
    return around[0], {"first": fields}, around[1], lambda: (now(), register(around[1]))


def pence(fields: dict[str, Any]) -> dict[str, Any]:
    return {"amount": fields["amount"] * 100}


@pytest.mark.parametrize("where", ["the class", "a field"])
@pytest.mark.parametrize("answered", ["before", "after", "after the move"])
def test_an_answer_in_the_fields_of_an_older_version_is_not_taken_for_one_of_today(
    where: str, answered: str
) -> None:
    old, fields, new, change = refunds(where)
    store = MemoryCheckpointer()
    runner = SyncRunner(checkpointer=store)
    runner.run(claims(old), claim="a cup", workflow_id="w")
    if answered == "before":
        store.answer("w", "refund", fields)
    change()
    if answered == "after the move":
        assert migrate(store, claims(new)).ok
    if answered != "before":
        store.answer("w", "refund", fields)  # of a terminal, which shows the question as it was asked
    with pytest.raises(ValueUnreadableError, match="fields of Refund, which was of version 1 then"):
        runner.run(claims(new), workflow_id="w")
    assert "of version 1 then" in (migrate(store, claims(new), ["w"], dry_run=True).runs[0].reason or "")
    if answered == "after the move":
        assert runner.run(claims(new), refund=fields, workflow_id="w")["paid"] == 8
        runner.run(claims(new), claim="a pot", workflow_id="later")
        store.answer("later", "refund", fields)
        with pytest.raises(ValueUnreadableError, match="of version 2 then and is of version 1 now"):
            runner.run(claims(old), workflow_id="later")
    else:
        store.answer("w", "refund", fields, graph=claims(new), replace=True)
        assert runner.run(claims(new), workflow_id="w")["paid"] == 8


@pytest.mark.parametrize("where", ["the class", "a field"])
@pytest.mark.parametrize("knows", ["object", "graph"])
def test_an_answer_of_an_older_version_is_upgraded_where_its_class_was_known(where: str, knows: str) -> None:
    old, fields, new, change = refunds(where)
    store = MemoryCheckpointer()
    runner = SyncRunner(checkpointer=store)
    runner.run(claims(old), claim="a cup", workflow_id="w")
    if knows == "graph":
        store.answer("w", "refund", fields, graph=claims(old))
    else:
        store.answer("w", "refund", converted("refund", fields, old))
    store.answer("w", "refund", fields)  # the same again, of a terminal
    change()
    assert runner.run(claims(new), workflow_id="w")["paid"] == 800


class Form(TypedDict):
    x: int


@dataclass
class FormAsObject:
    x: int


FormAsObject.__name__ = FormAsObject.__qualname__ = "Form"
FormAsModel = pydantic.create_model("Form", x=(int, ...))
FormAsModel.__qualname__ = "Form"


@pytest.mark.parametrize("now", [FormAsObject, FormAsModel], ids=["dataclass", "pydantic"])
def test_a_dict_is_not_taken_for_an_object_of_the_class_that_has_its_name_now(now: Any) -> None:
    with pytest.raises(ValueUnreadableError, match=r"value is of type dict; .*Form.\nIt is \{'x': 1\}"):
        resumed(Form, {"x": 1}, now)


def test_a_key_that_is_required_by_now_is_missed() -> None:
    some = TypedDict("Some", {"x": int}, total=False)  # noqa: UP013 - of one name
    every = TypedDict("Some", {"x": int})  # noqa: UP013 - of one name
    some.__qualname__ = every.__qualname__ = "Some"
    with pytest.raises(ValueUnreadableError, match=r"value is of type dict"):
        resumed(some, {}, every)
    assert resumed(some, {"x": 1}, every) == {"x": 1}


def test_a_model_that_refuses_a_value_is_named_with_its_words() -> None:
    before = pydantic.create_model("Size", x=(float, ...))
    now = pydantic.create_model("Size", x=(int, ...))
    before.__qualname__ = now.__qualname__ = "Size"
    register(now)
    with pytest.raises(ValueUnreadableError, match=r"value does not fit Size of node 'make': 1 validation"):
        resumed(before, before(x=1.5), now)


def test_migrate_names_what_a_resume_refuses_and_says_when_accept_helps() -> None:
    store = MemoryCheckpointer()
    runner = SyncRunner(checkpointer=store)
    with pytest.raises(Down):
        runner.run(graph_of({"x": 1}, Form, works=False), x=1, workflow_id="w")
    (run,) = migrate(store, graph_of({"x": 1}, FormAsObject, works=True), dry_run=True).runs
    assert (run.outcome, run.reason) == ("refused", "its output value was dict, and is Form now")
    accepted = migrate(store, graph_of({"x": 1}, FormAsObject, works=True), dry_run=True, accept=True)
    assert not accepted.ok

    def taking(declared: Any) -> Graph:
        def use(form: Any) -> Any:
            raise Down

        use.__annotations__["form"] = declared
        return Graph([FunctionNode(use, output_name="out")], name="taking")

    with pytest.raises(Down):
        runner.run(taking(Form), form={"x": 1}, workflow_id="v")
    (run,) = migrate(store, taking(FormAsObject), ["v"], dry_run=True).runs
    assert (run.outcome, run.reason) == ("refused", "its input form was dict, and is Form now")
