"""Values of classes that no annotation names, and graphs that make them under every style of annotation.

Nothing here is registered. A process that resumes has to find the classes by itself, through the functions.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import http
import warnings
from collections import namedtuple
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Generic, NamedTuple, NewType, TypedDict, TypeVar

import msgspec
import numpy
import pandas
import polars
import pydantic

from hypergraph import FunctionNode, Graph, SyncRunner
from hypergraph.checkpointers import Checkpointer
from hypergraph.exceptions import ValueUnreadableError
from support.nasty import NASTY, same

T = TypeVar("T")


@dataclasses.dataclass
class Plain:
    a: Any = 1


@dataclasses.dataclass(frozen=True)
class Frozen:
    a: Any = 1


@dataclasses.dataclass(slots=True)
class Slotted:
    a: Any = 1


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Strict:
    a: Any = 1


@dataclasses.dataclass
class Derived(Plain):
    b: Any = 2


class Further(Derived):
    """A subclass that is not declared as a dataclass itself."""


@dataclasses.dataclass
class Generous(Generic[T]):
    a: T


@dataclasses.dataclass
class Computed:
    a: int
    b: int = dataclasses.field(init=False, default=0)
    given: dataclasses.InitVar[int] = 0

    def __post_init__(self, given: int) -> None:
        self.b = self.a + 1

    @functools.cached_property
    def later(self) -> int:
        return self.b + 1


class Outer:
    @dataclasses.dataclass
    class Inner:
        a: Any = 1

        class Deepest(enum.Enum):
            ONE = 1


class Pair(NamedTuple):
    left: Any
    right: Any = None


class Model(pydantic.BaseModel):
    a: Any = 1
    inner: Model | None = None


class Loose(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")
    _hidden: int = pydantic.PrivateAttr(default=3)
    a: int = 1


class Fixed(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(frozen=True)
    when: datetime
    colour: Colour


class Boxed(pydantic.BaseModel, Generic[T]):
    item: T


class Record(msgspec.Struct):
    a: Any = 1


class Tagged(msgspec.Struct, tag=True, frozen=True):
    a: Any = 1


class Colour(enum.Enum):
    RED = "red"
    CRIMSON = "red"  # noqa: PIE796 - an alias
    BLUE = ("b", 1)


class Weight(enum.IntEnum):
    LIGHT = enum.auto()


class Word(enum.StrEnum):
    HELLO = "hello"


class Right(enum.IntFlag):
    READ = 1
    WRITE = 2


class Letter(TypedDict, total=False):
    head: Plain
    body: list[Pair]


OldPoint = namedtuple("PointOfOld", "x y")  # type: ignore[name-match]  # under another name
Made = dataclasses.make_dataclass("MadeElsewhere", ["a"])
Number = NewType("Number", Plain)


def objects() -> dict[str, Any]:
    """Return objects of classes that nothing names."""
    loose = Loose(a=2, other=[Plain()])  # type: ignore[call-arg]
    loose._hidden = 9
    found: dict[str, Any] = {
        "plain": Plain([1, (2,)]),
        "frozen": Frozen({1: 2}),
        "slotted": Slotted({1, 2}),
        "strict": Strict(a=b"x"),
        "derived": Derived(1, [Plain(2)]),
        "further": Further(1, 2),
        "generic": Generous[int](3),
        "computed": Computed(4),
        "inner": Outer.Inner(Outer.Inner.Deepest.ONE),
        "pair": Pair(Plain(), Pair(1)),
        "model": Model(a={"x": (1,)}, inner=Model()),
        "loose": loose,
        "fixed": Fixed(when=datetime(2026, 1, 1), colour=Colour.BLUE),
        "boxed": Boxed[int](item=1),
        "record": Record([Record()]),
        "tagged": Tagged((1,)),
        "colour": Colour.CRIMSON,
        "weight": Weight.LIGHT,
        "word": Word.HELLO,
        "rights": Right.READ | Right.WRITE,
        "no rights": Right(0),
        "letter": Letter(head=Plain(), body=[Pair(1)]),
        "old point": OldPoint(1, 2),
        "made elsewhere": Made((1,)),
        "new type": Number(Plain(5)),
        "of the standard library": http.HTTPStatus.NOT_FOUND,
        "a class of its own kind": _local(1),
        "a subclass of a class that is named": _local_subclass(1),
        "frame": pandas.DataFrame({"a": [1, 2]}, index=pandas.date_range("2026", periods=2, freq="D")),
        "numbered columns": pandas.DataFrame(numpy.eye(2)),
        "categories": pandas.DataFrame({"c": pandas.Categorical(["a"], categories=["b", "a"], ordered=True)}),
        "zones": pandas.DataFrame({"t": pandas.to_datetime(["2026-01-01"], utc=True)}),
        "mixed": pandas.DataFrame({"o": [1, "two", None]}),
        "polars": polars.DataFrame({"a": [1, None], "l": [[1], []]}),
        "by columns": numpy.asfortranarray(numpy.arange(6).reshape(2, 3)),
    }
    held = {f"{name} in {kind}": wrap(value) for name, value in found.items() for kind, wrap in WRAPS.items()}
    return {**found, **held}


REFUSED = (  # a later process could not find their classes; Arrow would change the last one
    "a class of its own kind",
    "a subclass of a class that is named",
    "boxed",
    "mixed",
)
WRAPS: dict[str, Any] = {
    "a list": lambda value: [value, 1],
    "a dict": lambda value: {"k": {"$": value}},
    "a tuple in an object": lambda value: Plain((value,)),
    "a model": lambda value: Record({"k": value}),
}


def _local(a: int) -> Any:
    @dataclasses.dataclass
    class Local:
        a: int

    return Local(a)


def _local_subclass(a: int) -> Any:
    class LocalPlain(Plain):
        pass

    return LocalPlain(a)


STYLES: dict[str, Any] = {
    "none": None,
    "Any": Any,
    "object": object,
    "list": list,
    "dict": dict,
    "list of a base": list[Plain],
    "a union": Plain | list[Any] | None,
    "a TypedDict": Letter,
    "a NewType": Number,
    "a TypeVar": T,
    "unresolvable": "NotThere",
}


def values() -> dict[str, Any]:
    """Return all values."""
    return {**NASTY, **objects()}


def is_same(a: Any, b: Any) -> bool:
    """Return whether two values could not be told apart, as `same` does, tables and models included."""
    if type(a).__qualname__ != type(b).__qualname__:  # a class of a function is another one in each process
        return False
    if isinstance(a, pandas.DataFrame):
        try:
            pandas.testing.assert_frame_equal(a, b, check_exact=True, check_freq=True)
        except AssertionError:
            return False
        return type(a.columns) is type(b.columns)
    if isinstance(a, polars.DataFrame):
        return a.schema == b.schema and a.equals(b)
    if isinstance(a, pydantic.BaseModel):
        return repr(a) == repr(b) and a.__pydantic_private__ == b.__pydantic_private__
    if isinstance(a, numpy.ndarray):
        return same(a, b) and (a.flags.fnc == b.flags.fnc or not a.flags.forc)  # a view with gaps has none
    if isinstance(a, enum.Enum) or not _parts(a):
        return same(a, b)
    return len(_parts(a)) == len(_parts(b)) and all(map(is_same, _parts(a), _parts(b)))


def _parts(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [*value, *value.values()]
    if isinstance(value, (list, tuple)):
        return list(value)
    if dataclasses.is_dataclass(value):
        return [getattr(value, field.name) for field in dataclasses.fields(value)]
    if isinstance(value, msgspec.Struct):
        return [getattr(value, name) for name in value.__struct_fields__]
    return []


class Halves:
    """One graph for many values: its first half makes them, its second half is shown them."""

    def __init__(self, made: Mapping[str, Any], style: str, *, broken: bool) -> None:
        self.labels = {f"v{number}": label for number, label in enumerate(made)}
        self.shown: dict[str, Any] = {}
        self.made: list[str] = []
        _source[id(self)] = dict(zip(self.labels, made.values(), strict=True))
        stop = FunctionNode(_stop if broken else _pass, "stop", "stopped")
        nodes = [stop, *(node for name in self.labels for node in self._pair(name, STYLES[style]))]
        self.graph = Graph(nodes, name="unnamed")

    def _pair(self, name: str, annotation: Any) -> Iterator[FunctionNode]:
        key, made, shown = id(self), self.made, self.shown

        def make():  # type: ignore[no-untyped-def]  # annotated below, or not at all
            made.append(name)
            return _source[key][name]

        def show(x, stopped):  # type: ignore[no-untyped-def]
            shown[name] = x
            return 1

        if annotation is not None:
            make.__annotations__, show.__annotations__ = {"return": annotation}, {"x": annotation}
        yield FunctionNode(make, f"make_{name}", name)
        yield FunctionNode(show, f"show_{name}", f"shown_{name}").with_inputs(x=name)


_source: dict[int, dict[str, Any]] = {}  # out of the closures, in which classes are looked for


def _stop() -> int:
    raise OSError("stopped")


def _pass() -> int:
    return 1


def first_half(store: Checkpointer, style: str) -> list[str]:
    """Make and store the values; return the labels of those that were refused, with a warning."""
    halves = Halves(values(), style, broken=True)
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        SyncRunner(checkpointer=store).run(halves.graph, workflow_id=style, error_handling="continue")
    told = {str(one.message).split("'")[1] for one in heard if "cannot be stored" in str(one.message)}
    lost = {name for step in store.steps(style, values=False) for name in step.lost}
    assert lost == told, f"gaps without a warning, or warnings without a gap: {lost ^ told}"
    return [halves.labels[name] for name in told]


def second_half(store: Checkpointer, style: str, refused: list[str]) -> dict[str, str]:
    """Resume; return the labels of values that came back otherwise, and what is wrong with each."""
    halves = Halves(values(), style, broken=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            SyncRunner(checkpointer=store).run(halves.graph, workflow_id=style, code_change="keep")
        except ValueUnreadableError as error:
            return {str(error.name): str(error)}
    wrong = {}
    for name, label in halves.labels.items():
        expected = _source[id(halves)][name]
        if (name in halves.made) != (label in refused):
            wrong[label] = "made again" if name in halves.made else "refused, and not made again"
        elif name not in halves.made and not is_same(halves.shown.get(name), expected):
            wrong[label] = f"{expected!r} came back as {halves.shown.get(name)!r}"[:400]
    return wrong
