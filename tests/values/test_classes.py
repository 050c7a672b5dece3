"""Objects of user classes: stored as readable data, rebuilt only for registered classes."""

from __future__ import annotations

import abc
import enum
import functools
import itertools
import json
import re
import sys
import types
from dataclasses import InitVar, dataclass, field, make_dataclass
from typing import Annotated, Any, Generic, NamedTuple, TypeVar

import msgspec
import pytest
from support.nasty import same

from hypergraph.values.classes import REGISTERED, fields_of, register
from hypergraph.values.serializers import JsonSerializer, MsgpackSerializer, Serializer
from hypergraph.values.undecodable import Undecodable

T = TypeVar("T")
EXACT = [JsonSerializer(), MsgpackSerializer()]
serializers = pytest.mark.parametrize("serializer", EXACT, ids=lambda s: s.id)


class Status(enum.Enum):
    OPEN = "open"


@dataclass
class Line:
    item: str
    count: int = 1


@dataclass
class Order:
    lines: list[Line]
    status: Status | None = None
    parent: Order | None = None
    notes: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class Frozen:
    x: int
    y: Any = None


@dataclass
class Derived:
    x: int
    seed: InitVar[int]
    total: int = field(init=False)

    def __post_init__(self, seed: int) -> None:
        self.total = self.x + seed

    @functools.cached_property
    def square(self) -> int:
        return self.x**2


@dataclass
class Box(Generic[T]):
    content: T


class Place(NamedTuple):
    name: str
    at: tuple[int, int] = (0, 0)


class Event(msgspec.Struct, frozen=True, kw_only=True, tag=True, rename="camel"):
    event_name: str
    parts: set[int] = msgspec.field(default_factory=set)


class Doubling(msgspec.Struct):
    x: int

    def __post_init__(self) -> None:
        self.x *= 2


class Base(abc.ABC):
    @abc.abstractmethod
    def f(self) -> None: ...


@dataclass
class Concrete(Base):
    x: int

    def f(self) -> None: ...


CLASSES = [Order, Frozen, Derived, Box, Place, Event, Doubling, Concrete, Status, Line]
OBJECTS = {
    "nested": Order([Line("a"), Line("b", 2)], Status.OPEN, Order([]), (1, {2})),
    "frozen with slots": Frozen(1, [Frozen(2)]),
    "derived fields": Derived(2, 40),
    "generic": Box[int](1),
    "named tuple": Place("x", (1, 2)),
    "named tuple as key": {Place("x"): 1},
    "frozen as set item": {Frozen(1), Frozen(2)},
    "struct": Event(event_name="e", parts={1, 2}),
    "struct that changes what it is given": Doubling(3),
    "child of an abstract class": Concrete(1),
    "a field that looks like a tag": Frozen(1, {"$": "tuple"}),
}


def back(serializer: Serializer, value: Any) -> Any:
    return serializer.deserialize(serializer.serialize(value))


@pytest.fixture(autouse=True)
def nothing_registered(monkeypatch):
    monkeypatch.setattr(REGISTERED, "_named", {})
    monkeypatch.setattr(REGISTERED, "_former", {})


# --- with permission -----------------------------------------------------------------------------


@serializers
@pytest.mark.parametrize("name", OBJECTS)
def test_object_of_a_registered_class_comes_back_exactly(serializer, name):
    for cls in CLASSES:
        register(cls)
    assert same(back(serializer, OBJECTS[name]), OBJECTS[name])


@serializers
@pytest.mark.parametrize("name", OBJECTS)
def test_object_of_an_annotated_class_comes_back_exactly(serializer, name):
    assert same(back(serializer.with_types(CLASSES), OBJECTS[name]), OBJECTS[name])


def test_registering_a_class_includes_those_its_fields_name():
    register(Order)
    assert same(back(JsonSerializer(), OBJECTS["nested"]), OBJECTS["nested"])


@pytest.mark.parametrize(
    "annotation",
    [Line, list[Line], dict[str, Line | None], Annotated[Line, "doc"], Order, tuple[int, list[Order]]],
)
def test_annotations_name_classes_at_any_depth(annotation):
    assert back(JsonSerializer().with_types([int, annotation, "text"]), [Line("a")]) == [Line("a")]


def test_permission_given_to_one_serializer_stays_with_it():
    serializer = JsonSerializer()
    serializer.with_types([Line])
    assert isinstance(back(serializer, Line("a")), Undecodable)


def test_register_works_as_a_decorator_and_returns_the_class():
    @register
    @dataclass
    class Local:
        x: int

    assert back(JsonSerializer(), Local(1)) == Local(1)


def test_a_class_that_moved_reads_its_old_name():
    data = JsonSerializer().serialize(Line("a"))

    @dataclass
    class Row:
        item: str
        count: int

    register(Row, formerly=[f"{__name__}:Line"])
    assert JsonSerializer().deserialize(data) == Row("a", 1)


@pytest.mark.parametrize("wrong", [int, str, object, dict, Base, 3, "Line", list[Line], Exception])
def test_only_classes_with_fields_can_be_registered(wrong):
    with pytest.raises(TypeError, match="cannot be registered"):
        register(wrong)


def test_init_does_not_run_again():
    calls = []

    @dataclass
    class Loud:
        x: int

        def __post_init__(self) -> None:
            calls.append(self.x)

    register(Loud)
    back(JsonSerializer(), Loud(1))
    assert calls == [1]


class Shifted:
    """A descriptor that shows another value than the object holds."""

    def __get__(self, one: Any, kind: Any = None) -> int:
        return 0 if one is None else one.__dict__["x"] + 1

    def __set__(self, one: Any, value: int) -> None:
        one.__dict__["x"] = value


@dataclass
class Showing:
    x: int = Shifted()  # type: ignore[assignment]


@dataclass
class Counting:
    x: int = 1

    def __getattribute__(self, name: str) -> Any:
        found = object.__getattribute__(self, name)
        return found + 1 if name == "x" else found


class Reversed(Place):
    def __iter__(self) -> Any:
        return reversed(tuple(super().__iter__()))


class Masked(enum.Flag):
    A = 1
    B = 2

    @property
    def value(self) -> int:
        return 2


class Renamed(enum.Enum):
    A = 1
    B = 2

    @property
    def name(self) -> str:
        return "B"


@serializers
@pytest.mark.parametrize(
    "value", [Showing(1), Counting(1), Reversed("x", (1, 2)), Masked.A, Renamed.A], ids=repr
)
def test_what_an_object_holds_is_stored_whatever_its_attributes_show(serializer, value):
    found = serializer.with_types([type(value)]).deserialize(serializer.serialize(value))
    assert type(found) is type(value)
    assert vars(found) == vars(value)
    assert repr(found) == repr(value)


def test_cached_properties_are_computed_again():
    value = Derived(3, 1)
    assert value.square == 9
    found = back(JsonSerializer().with_types([Derived]), value)
    assert "square" not in vars(found)
    assert found.square == 9


# --- without permission --------------------------------------------------------------------------


def test_an_unknown_object_is_undecodable_and_shows_its_fields():
    found = back(JsonSerializer(), Line("a"))
    assert isinstance(found, Undecodable)
    assert found.data == {"item": "a", "count": 1}
    assert found.reason == (
        f"value: the class {__name__}:Line is not known here; "
        "add: from hypergraph.checkpointers import register; "
        f"from {__name__} import Line; register(Line)"
    )


def test_a_value_with_an_unknown_object_inside_is_undecodable_as_a_whole():
    found = back(JsonSerializer(), {"rows": [1, Line("a"), Line("b")], "n": 2})
    assert found.reason.startswith(f"value['rows'][1]: the class {__name__}:Line is not known here")
    assert found.reason.endswith("(and 1 more)")
    assert found.data["n"] == 2
    assert found.data["rows"][1].data == {"item": "a", "count": 1}


def test_an_unknown_key_does_not_hide_the_rest():
    found = back(JsonSerializer(), {Status.OPEN: 1})
    assert [key.data for key in found.data] == ["OPEN"]


@serializers
def test_a_viewer_builds_no_objects_even_of_registered_classes(serializer):
    register(Line)
    viewer = serializer.with_types([Line]).without_types()
    assert back(viewer, [Line("a")]).data[0].data == {"item": "a", "count": 1}
    assert same(back(viewer, (1, {2})), (1, {2}))


# --- a class that changed since ------------------------------------------------------------------


def stored_by(old: type[Any], *args: Any) -> bytes:
    return JsonSerializer().serialize(old(*args))


def version(*fields: Any) -> type[Any]:
    return make_dataclass("Versioned", fields, namespace={"__module__": __name__})


def test_a_field_that_is_new_gets_its_default():
    data = stored_by(version("x"), 1)
    new = version("x", ("y", int, 5), ("z", list, field(default_factory=list)))
    assert JsonSerializer().with_types([new]).deserialize(data) == new(1, 5, [])


@pytest.mark.parametrize(
    ("new", "reason"),
    [(["y"], "has no field 'x'"), (["x", "y"], "field 'y' is missing"), ([], "no field 'x'")],
)
def test_fields_that_no_longer_fit_are_undecodable(new, reason):
    data = stored_by(version("x"), 1)
    found = JsonSerializer().with_types([version(*new)]).deserialize(data)
    assert reason in found.reason
    assert found.data == {"x": 1}


def test_an_object_whose_class_has_become_one_of_another_kind_is_upgraded():
    pydantic = pytest.importorskip("pydantic")
    about = {"__module__": __name__, "__qualname__": "Versioned"}
    model = type("Versioned", (pydantic.BaseModel,), {**about, "__annotations__": {"x": int}})
    plain, member = version("x"), enum.Enum("Versioned", ["A"], module=__name__, qualname="Versioned")
    samples = {"dataclass": plain(1), "pydantic": model(x=1), "Enum": member.A}
    for (was, old), (now, new) in itertools.permutations(samples.items(), 2):
        data, cls = JsonSerializer().serialize(old), type(new)
        found = JsonSerializer().with_types([cls]).deserialize(data)
        assert re.search(rf"was an? .*{was}.* and is an? .*{now}.* by now", found.reason)
        assert found.reason.endswith("; add: register(Versioned, version=2, upgrade={1: function_of_fields})")
    register(model, version=2, upgrade={1: lambda fields: fields})
    found = JsonSerializer().deserialize(stored_by(plain, 1))
    assert found.reason.endswith(
        "its upgrade from version 1 returned dict, but its class was a dataclass or the like and is a "
        "pydantic model by now: it must return an object of Versioned"
    )
    register(model, version=2, upgrade={1: lambda fields: model(**fields)})
    assert JsonSerializer().deserialize(stored_by(plain, 1)) == model(x=1)


def test_an_enum_member_that_is_gone_is_undecodable():
    data = JsonSerializer().serialize(enum.Enum("Status", ["GONE"], module=__name__, qualname="Status").GONE)
    found = JsonSerializer().with_types([Status]).deserialize(data)
    assert "no member 'GONE'" in found.reason
    assert found.reason.endswith("add: register(Status, version=2, upgrade={1: function_of_name})")


def test_a_class_that_moved_is_found_for_the_line_to_add(monkeypatch):
    old = make_dataclass("Moved", ["x"], namespace={"__module__": "shop"})
    new = make_dataclass("Moved", ["x"], namespace={"__module__": "office"})
    old.__module__, new.__module__ = "shop", "office"
    data, reader = JsonSerializer().serialize(old(1)), JsonSerializer().with_types([new])
    start = (
        "value: the class shop:Moved is not known here; add: from hypergraph.checkpointers import register; "
    )
    moved = start + "from office import Moved; register(Moved, formerly=['shop:Moved'])"
    assert reader.deserialize(data).reason == moved
    monkeypatch.setitem(sys.modules, "shop", types.ModuleType("shop"))
    assert reader.deserialize(data).reason == moved
    gone = start + "register(..., formerly=['shop:Moved']) with the class that it has become"
    assert JsonSerializer().with_types([Status]).deserialize(data).reason == gone


# --- objects whose fields do not say it all ------------------------------------------------------


@dataclass
class Mapping(dict):  # type: ignore[type-arg]
    x: int = 1


@dataclass
class Failure(Exception):
    x: int = 1


class Slotted:
    __slots__ = ("hidden",)


@dataclass
class Hiding(Slotted):
    x: int = 1


class Loose(Place): ...


class LooseStruct(msgspec.Struct, dict=True):
    x: int = 1


@dataclass(slots=True)
class Raising:
    x: int = 1

    def __getattribute__(self, name: str) -> Any:
        if name == "x":
            raise ValueError("not today")
        return object.__getattribute__(self, name)


def with_attribute(value: Any, name: str = "hidden") -> Any:
    setattr(value, name, 1)
    return value


def without_field() -> Any:
    value = Line("a")
    del value.item
    return value


@serializers
@pytest.mark.parametrize(
    ("value", "message"),
    [
        (Mapping(), "a subclass of dict"),
        (Failure(), "Failure"),
        (with_attribute(Line("a")), "attributes that are not fields: hidden"),
        (with_attribute(Hiding()), "attributes that are not fields: hidden"),
        (with_attribute(Loose("a")), "attributes that are not fields: hidden"),
        (with_attribute(LooseStruct()), "attributes that are not fields: hidden"),
        (without_field(), "its field 'item' is not set"),
        (Raising(), "ValueError('not today')"),
        (Order([Line("a"), Line(object())]), "builtins.object at value.lines[1].item:"),  # type: ignore[arg-type]
        (types.SimpleNamespace(x=1), "SimpleNamespace"),
    ],
)
def test_what_would_be_lost_is_a_type_error(serializer, value, message):
    with pytest.raises(TypeError) as caught:
        serializer.serialize(value)
    assert message in str(caught.value)


# --- pydantic ------------------------------------------------------------------------------------


@serializers
def test_pydantic_models_come_back_with_all_their_state(serializer):
    pydantic = pytest.importorskip("pydantic")

    class Inner(pydantic.BaseModel):
        at: tuple[int, int] = (0, 0)

    class Model(pydantic.BaseModel, extra="allow"):
        name: str = pydantic.Field(alias="n")
        inner: Inner = Inner()
        made: list[int] = pydantic.Field(default_factory=list)
        _private: int = 0

    value = Model(n="a", more={"$": 1})
    value._private = 7
    found = back(serializer.with_types([Model, Inner]), value)
    assert found == value
    assert found.model_fields_set == value.model_fields_set == {"name", "more"}
    assert (type(found), type(found.inner), found.inner.at, found._private) == (Model, Inner, (0, 0), 7)
    assert back(serializer.with_types([Inner]), Inner()) == Inner()
    assert back(serializer, value).data["name"] == "a"


def test_pydantic_fields_follow_the_rules_of_all_fields():
    pydantic = pytest.importorskip("pydantic")

    class Model(pydantic.BaseModel):
        x: int
        y: int = 5

    data = JsonSerializer().serialize(Model(x=1))
    serializer = JsonSerializer().with_types([Model])
    tree = json.loads(data)
    del tree["v"]["y"]
    assert serializer.deserialize(json.dumps(tree).encode()) == Model(x=1)
    for broken in (
        {**tree, "v": {}},
        {**tree, "v": {"x": 1, "z": 2}},
        {**tree, "given": 1},
        {**tree, "private": 1},
    ):
        assert isinstance(serializer.deserialize(json.dumps(broken).encode()), Undecodable)


# --- classes of scripts --------------------------------------------------------------------------


def twin(module: str, name: str = "Verdict", base: type[Any] = object) -> Any:
    """Return a new dataclass of this module and name."""
    fields = [] if base is not object else [("allowed", bool)]
    return make_dataclass(name, fields, bases=(base,), namespace={"__module__": module})


def as_script(monkeypatch: pytest.MonkeyPatch, file: str) -> None:
    monkeypatch.setattr(sys.modules["__main__"], "__file__", file, raising=False)


@serializers
def test_an_object_of_a_script_is_read_where_the_script_is_imported(serializer):
    here = twin("desk")
    data = serializer.serialize([twin("__main__")(True)])
    assert serializer.with_types([list[here]]).deserialize(data) == [here(True)]


@serializers
@pytest.mark.parametrize("module", ["desk", "app.desk"])
def test_an_object_is_read_by_the_script_of_its_module(serializer, module, monkeypatch):
    as_script(monkeypatch, "/home/ann/app/desk.py")
    here = twin("__main__")
    data = serializer.serialize(twin(module)(True))
    assert serializer.with_types([here]).deserialize(data) == here(True)


@pytest.mark.parametrize("module", ["shop", "other.desk", "desk.app", "home.ann.app", ""])
def test_an_object_of_another_module_is_not_of_the_script(module, monkeypatch):
    as_script(monkeypatch, "/home/ann/app/desk.py")
    data = JsonSerializer().serialize(twin(module)(True))
    assert isinstance(JsonSerializer().with_types([twin("__main__")]).deserialize(data), Undecodable)


def test_a_class_of_another_module_does_not_stand_for_that_of_the_script(monkeypatch):
    as_script(monkeypatch, "/home/ann/desk.py")
    data = JsonSerializer().serialize(twin("desk")(True))
    assert isinstance(JsonSerializer().with_types([twin("shop")]).deserialize(data), Undecodable)


@pytest.mark.parametrize("stored", ["__main__", "desk"])
def test_of_two_known_classes_none_stands_for_that_of_a_script(stored, monkeypatch):
    as_script(monkeypatch, "/home/ann/desk.py")
    known = [twin("shop"), twin("bank" if stored == "__main__" else "__main__")]
    found = JsonSerializer().with_types(known).deserialize(JsonSerializer().serialize(twin(stored)(True)))
    assert isinstance(found, Undecodable)
    assert f"{stored}:Verdict is not known here; add: from hypergraph.checkpointers" in found.reason


def test_a_class_that_was_defined_twice_is_one():
    base = twin("desk", "Base")
    old, new = twin("desk", "Sub", base), twin("desk", "Sub", base)
    data = JsonSerializer().serialize(twin("__main__", "Sub")(True))
    assert isinstance(JsonSerializer().with_types([base]).deserialize(data), new)
    assert old is not new


def test_a_class_of_a_script_is_found_in_the_modules_of_functions():
    def function() -> None:
        pass

    names = {"Line": Line, "__name__": "desk"}
    names["function"] = types.FunctionType(function.__code__, names)
    data = JsonSerializer().serialize(twin("__main__", "Line")(True)).replace(b"allowed", b"item")
    assert JsonSerializer().with_types([], [names["function"]]).deserialize(data) == Line(True)
    assert isinstance(JsonSerializer().deserialize(data), Undecodable)


def test_data_import_nothing_for_a_script(monkeypatch):
    as_script(monkeypatch, "/usr/lib/python3/this.py")
    for name in ("this:Verdict", "__main__:this.Verdict", "__main__:Verdict", "__main__:", ":", "__main__"):
        data = JsonSerializer().serialize(twin("m")(True)).replace(b"m:Verdict", name.encode())
        assert isinstance(JsonSerializer().with_types([Line]).deserialize(data), Undecodable)
    assert "this" not in sys.modules


def test_the_fields_of_classes_do_not_depend_on_the_name_of_a_script():
    assert fields_of([list[twin("__main__")]]) == fields_of([list[twin("desk")]])
    both = fields_of([twin("__main__"), twin("desk")])
    assert both == {"Verdict": {"allowed": "bool; bool"}}
