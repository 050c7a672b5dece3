"""Versions of registered classes: old stored objects brought to the class of today when they are read."""

import enum
import importlib
import sys
from collections.abc import Callable
from dataclasses import dataclass, make_dataclass
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pydantic
import pytest

from hypergraph import Graph, SyncRunner, node
from hypergraph.checkpointers import JsonSerializer, MemoryCheckpointer, SqliteCheckpointer, register
from hypergraph.checkpointers import Undecodable as Unreadable
from hypergraph.exceptions import ValueUnreadableError
from hypergraph.migration import migrate
from hypergraph.testing import replay
from hypergraph.values.classes import REGISTERED

JSON = JsonSerializer()


@pytest.fixture(autouse=True)
def nothing_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(REGISTERED, "_named", dict(REGISTERED._named))
    monkeypatch.setattr(REGISTERED, "_former", dict(REGISTERED._former))


def made(name: str, **fields: Any) -> type[Any]:
    """Return a dataclass under a name of this module, as another release of the code has it."""
    cls: type[Any] = make_dataclass(name, list(fields.items()))
    cls.__module__ = __name__
    return cls


def stored(value: Any) -> bytes:
    """Return an object of a release as bytes."""
    return JSON.serialize(value)


def as_read(cls: type[Any], data: bytes, **options: Any) -> Any:
    register(cls, **options)
    return JSON.deserialize(data)


def cents(fields: dict[str, Any]) -> dict[str, Any]:
    return {"cents": round(fields["euros"] * 100)}


def test_old_fields_become_those_of_today() -> None:
    old = register(made("Price", euros=float))
    data = stored([old(1.5), old(2.0)])
    new = made("Price", cents=int)
    assert as_read(new, data, version=2, upgrade={1: cents}) == [new(150), new(200)]


def test_a_single_function_leads_to_the_version_and_steps_follow_each_other() -> None:
    data = stored(register(made("Price", euros=float))(1.5))
    second = made("Price", cents=int)
    assert as_read(second, data, version=2, upgrade=cents) == second(150)
    between = stored(second(150))
    assert b'"version":2' in between
    third = made("Price", cents=int, currency=str)
    steps = {1: cents, 2: lambda fields: {**fields, "currency": "EUR"}}
    assert as_read(third, data, version=3, upgrade=steps) == third(150, "EUR")
    assert JSON.deserialize(between) == third(150, "EUR")
    assert JSON.deserialize(stored(third(1, "USD"))) == third(1, "USD")


@pytest.mark.parametrize(
    ("upgrade", "before"), [({1: cents}, 2), ({2: cents}, 1), (None, 1)], ids=["last", "first", "all"]
)
def test_an_object_of_a_version_without_a_step_is_not_read(upgrade: Any, before: int) -> None:
    data = stored(register(made("Price", euros=float))(1.5))
    found = as_read(made("Price", cents=int), data, version=3, upgrade=upgrade)
    assert isinstance(found, Unreadable)
    assert f"it is of version 1, and no upgrade leads from version {before} to {before + 1}" in found.reason
    assert f"add upgrade={{{before}: ...}}" in found.reason


def test_a_step_may_return_the_object_and_work_with_a_former_name() -> None:
    data = stored(register(made("Cost", euros=float))(1.5))
    new = made("Price", cents=int)
    found = as_read(new, data, version=2, upgrade=lambda fields: new(7), formerly=[f"{__name__}:Cost"])
    assert found == new(7)


def test_register_with_options_is_a_decorator() -> None:
    @register(version=2, upgrade=lambda fields: fields)
    @dataclass
    class Decorated:
        size: int

    assert JSON.deserialize(stored(Decorated(1))) == Decorated(1)


class Point(NamedTuple):
    x: int


class Line(msgspec.Struct):
    length: int


class Model(pydantic.BaseModel):
    size: int
    extra: str = "none"


class Colour(enum.Enum):
    CRIMSON = 1


@pytest.mark.parametrize(
    ("cls", "data", "step", "expected"),
    [
        (Point, {"v": {"a": 1}}, lambda v: {"x": v["a"]}, Point(1)),
        (Line, {"v": {"a": 1}}, lambda v: {"length": v["a"]}, Line(1)),
        (Model, {"v": {"a": 1}, "given": ["a"]}, lambda v: {"size": v["a"]}, Model(size=1)),
        (Colour, {"v": "RED"}, lambda v: "CRIMSON", Colour.CRIMSON),
    ],
)
def test_every_kind_of_class_has_versions(
    cls: type[Any], data: Any, step: Callable[[Any], Any], expected: Any
) -> None:
    tree = {"$": "object", "of": f"{__name__}:{cls.__name__}", **data}
    mark = next(iter(msgspec.json.decode(stored({1, 2}))))  # the key that marks a tagged value
    raw = msgspec.json.encode({mark if key == "$" else key: value for key, value in tree.items()})
    assert as_read(cls, raw, version=2, upgrade={1: step}) == expected


def raises(fields: Any) -> Any:
    raise KeyError("euros")


def loops(fields: Any) -> Any:
    found = JSON.deserialize(OLD)
    if isinstance(found, Unreadable):
        raise ValueError(found.reason)
    return found


OLD = stored(register(made("Price", euros=float))(1.5))


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        (raises, "its upgrade from version 1 raised KeyError: 'euros'"),
        (loops, "its upgrade from version 1 loops: it reads an object of that version again"),
        (lambda fields: [1], "returned list; it must return a dict of fields, or an object of Price"),
        (lambda fields: None, "returned NoneType; it must return a dict of fields"),
        (lambda fields: {"pence": 1}, "the class has no field 'pence'"),
        (lambda fields: {}, "its field 'cents' is missing"),
    ],
)
def test_a_wrong_step_says_what_is_wrong(step: Any, reason: str) -> None:
    found = as_read(made("Price", cents=int), OLD, version=2, upgrade={1: step})
    assert isinstance(found, Unreadable)
    assert reason in found.reason
    assert found.data == {"euros": 1.5}


def test_an_object_of_a_newer_release_is_not_read() -> None:
    data = stored(register(made("Price", cents=int), version=3, upgrade={1: cents})(5))
    found = as_read(made("Price", cents=int), data, version=2, upgrade={1: cents})
    assert "it is of version 3, and this code has version 2; it is of a newer release" in found.reason
    assert "this code has version 1" in as_read(made("Price", cents=int), data).reason


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"version": "2"}, TypeError, "an int"),
        ({"version": True}, TypeError, "an int"),
        ({"version": 0}, ValueError, "counts from 1"),
        ({"upgrade": cents}, ValueError, "needs version=2"),
        ({"version": 2, "upgrade": {2: cents}}, ValueError, "from 1 to 1, got 2"),
        ({"version": 2, "upgrade": {1: "x"}}, TypeError, "a function of the fields, got str"),
        ({"version": 2, "upgrade": 5}, TypeError, "a function of the fields, got int"),
        ({"formerly": "shop:Order"}, TypeError, "a list of names"),
    ],
)
def test_wrong_options_are_refused(options: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        register(made("Price", cents=int), **options)


def release(price: type[Any], fails: bool) -> Graph:
    """Return a graph whose second node takes a price."""

    @node(output_name="price")
    def ask(item: str) -> Any:
        return price(1.5)

    @node(output_name="text")
    def show(price: Any) -> str:
        if fails:
            raise RuntimeError
        return str(price)

    return Graph([ask, show], name="shop")


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
@pytest.mark.filterwarnings("ignore:.*has changed since")
def test_a_resume_reads_upgraded_values_and_refuses_what_it_cannot_read(kind: str, tmp_path: Any) -> None:
    store: Any = MemoryCheckpointer() if kind == "memory" else SqliteCheckpointer(tmp_path / "runs.db")
    runner = SyncRunner(checkpointer=store)
    old = register(made("Price", euros=float))
    for name in ("good", "bad"):
        runner.run(release(old, True), item="tea", workflow_id=name, error_handling="continue")
    new = made("Price", cents=int)
    register(new, version=2, upgrade={1: raises})
    with pytest.raises(ValueUnreadableError, match="its upgrade from version 1 raised KeyError"):
        runner.run(release(new, False), workflow_id="bad")
    first = replay(store, release(new, False), ["bad"]).runs[0]
    assert first.first is None or first.first.kind == "type"
    register(new, version=2, upgrade={1: cents})
    assert runner.run(release(new, False), workflow_id="good")["text"] == "Price(cents=150)"
    assert runner.run(release(new, False), workflow_id="bad")["text"] == "Price(cents=150)"
    assert replay(store, release(new, False)).ok


# --- two releases in one process -----------------------------------------------------------------

OCTOBER = """
from dataclasses import dataclass
from typing import Any
from hypergraph import Graph, interrupt, node

@dataclass
class Fare:
    amount: float  # euros

@node(output_name="price")
def look_up(item: str) -> Any:
    return Fare(3.0)

@interrupt("ok")
def ask(item: str) -> bool | None:
    return None

@node(output_name="paid")
def pay(price: Any, ok: bool) -> str:
    return f"{price.amount} euros"

shop = Graph([look_up, ask, pay], name="shop", version="10")
"""
NOVEMBER = """
import october
from dataclasses import dataclass
from typing import Any
from hypergraph import Graph, interrupt, node
from hypergraph.checkpointers import register

@dataclass
class Fare:
    amount: float  # cents

register(Fare, version=2, formerly=["october:Fare"], upgrade={1: lambda old: {"amount": 100 * old["amount"]}})

@node(output_name="paid")
def pay(price: Any, ok: bool) -> str:
    return f"{price.amount} cents"

shop = Graph([october.look_up, october.ask, pay], name="shop", version="11")
"""


@pytest.fixture
def releases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Any]:
    """Return the modules of two releases, which a worker may have at the same time."""
    for name, code in (("october", OCTOBER), ("november", NOVEMBER)):
        (tmp_path / f"{name}.py").write_text(code)
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    return importlib.import_module("october"), importlib.import_module("november")


@pytest.mark.filterwarnings("ignore:.*has changed since")
def test_each_release_reads_objects_as_its_own_class(releases: tuple[Any, Any]) -> None:
    october, november = releases
    runner = SyncRunner(checkpointer=MemoryCheckpointer())
    for name in ("stays", "moves"):
        runner.run(october.shop, item="tea", workflow_id=name)
    assert migrate(runner.checkpointer, november.shop, ["moves"]).ok
    assert runner.run(october.shop, ok=True, workflow_id="stays")["paid"] == "3.0 euros"
    assert runner.run(november.shop, ok=True, workflow_id="moves")["paid"] == "300.0 cents"


@pytest.mark.parametrize("is_registered", [False, True], ids=["found", "registered"])
@pytest.mark.parametrize("stored_as", ["october", "__main__"])
def test_the_class_that_the_code_names_comes_before_the_one_that_followed_it(
    releases: tuple[Any, Any], is_registered: bool, stored_as: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    october, november = releases
    if is_registered:
        register(october.Fare)
    monkeypatch.setattr(october.Fare, "__module__", stored_as)
    data = stored([october.Fare(3.0)])
    monkeypatch.setattr(october.Fare, "__module__", "october")
    old, new, both = [october.Fare(3.0)], [november.Fare(300.0)], [october.Fare, november.Fare]
    for annotations, functions, expected in (
        ([october.Fare], [], old),
        ([list[october.Fare]], [november.pay.func], old),
        ([], [october.pay.func], old),
        ([november.Fare], [], new),
        ([november.Fare], [october.pay.func], new),
        ([], [november.pay.func], new),
        (both, [], new),
        ([], [], new),
    ):
        found = JSON.with_types(annotations, functions).deserialize(data)
        assert found == expected, (annotations, functions)
