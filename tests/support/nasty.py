"""Values that are hard to store, strategies for more of them, and what "comes back exactly" means."""

from __future__ import annotations

import dataclasses
import enum
import math
import os
import sys
import threading
import uuid
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from pathlib import Path, PosixPath, PurePosixPath, PureWindowsPath
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import msgspec
import numpy as np
from hypothesis import strategies as st

from hypergraph.checkpointers import (
    AesGcmCodec,
    Checkpointer,
    Codec,
    JsonSerializer,
    MemoryCheckpointer,
    MsgpackSerializer,
    PickleSerializer,
    Serializer,
    ZlibCodec,
    ZstdCodec,
)
from hypergraph.checkpointers.view import view_of
from hypergraph.values.classes import register
from support.stored import store_at

PARIS = ZoneInfo("Europe/Paris")


def same(a: Any, b: Any) -> bool:
    """Tell whether two values could not be told apart by a program, identity and memory layout aside."""
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):  # the order of keys is part of the value
        return len(a) == len(b) and all(map(same, a, b)) and all(map(same, a.values(), b.values()))
    if isinstance(a, set | frozenset):
        return len(a) == len(b) and all(any(same(x, y) for y in b) for x in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, np.ndarray | np.generic):
        return (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes())
    if isinstance(a, float):
        return (math.isnan(a) and math.isnan(b)) or (a == b and math.copysign(1, a) == math.copysign(1, b))
    if isinstance(a, complex):
        return same(a.real, b.real) and same(a.imag, b.imag)
    if isinstance(a, Decimal):
        return a.as_tuple() == b.as_tuple()
    if isinstance(a, datetime | time):
        naive = a.replace(tzinfo=None) == b.replace(tzinfo=None)
        return naive and a.fold == b.fold and same(a.tzinfo, b.tzinfo) and str(a.tzinfo) == str(b.tzinfo)
    if isinstance(a, uuid.UUID):
        return a == b and a.is_safe is b.is_safe
    names = _field_names(a)
    return a == b if names is None else all(same(getattr(a, name), getattr(b, name)) for name in names)


def _field_names(value: Any) -> list[str] | None:
    if dataclasses.is_dataclass(value):
        return [field.name for field in dataclasses.fields(value)]
    return list(value.__struct_fields__) if isinstance(value, msgspec.Struct) else None


@register
class Colour(enum.Enum):
    RED = 1
    BLUE = "blue"


@register
class Level(enum.IntEnum):
    LOW = 1


@register
class Mode(enum.StrEnum):
    FAST = "fast"


@register
class Right(enum.Flag):
    READ = 1
    WRITE = 2


@register
@dataclasses.dataclass
class Message:
    role: str
    parts: tuple[Any, ...]
    when: datetime | None = None


@register
class Point(NamedTuple):
    x: float
    y: float


@register
class Order(msgspec.Struct):
    lines: list[Any]
    paid: bool


def nested(depth: int, wrap: Any = lambda inner: [inner]) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = wrap(value)
    return value


NASTY: dict[str, Any] = {
    "none": None,
    "true": True,
    "zero": 0,
    "minus zero": -0.0,
    "one as float": 1.0,
    "huge float": 1.7976931348623157e308,
    "tiny float": 5e-324,
    "nan": math.nan,
    "infinities": [math.inf, -math.inf],
    "nan among many floats": [0.5] * 40 + [math.nan],
    "infinities that cancel": [math.inf, -math.inf] * 20,
    "floats whose sum overflows": [1e308] * 40,
    "nan deep inside": {"a": [{"b": [1, 2.0, math.nan]}]},
    "last plain int": [2**64 - 1, -(2**63)],
    "first big ints": [2**64, -(2**63) - 1],
    "big int among many": [1] * 40 + [2**70],
    "an int of thousands of digits": 7**9000,
    "a negative int of thousands of digits": -(7**9000),
    "bools beside ints": [True, 1, False, 0, 1.0],
    "empty text": "",
    "nul": "a\x00b",
    "emoji": "👩‍👩‍👧",
    "lone surrogate": "\ud800",
    "surrogate pair written as two": "\ud83d\ude00",
    "surrogate in a key": {"\udc80": 1},
    "surrogate deep inside": [{"a": ["b", "\udfff"]}],
    "line separators": "\u2028\u2029\ufeff",
    "html": "</script><!--",
    "bytes": bytes(range(256)),
    "no bytes": b"",
    "bytearray": bytearray(b"ab"),
    "empty containers": [[], {}, (), set(), frozenset()],
    "tuple": (1, (2, [3])),
    "tuple among many": [[1]] * 40 + [(1,)],
    "set": {1, "a", None, (1, 2), b"x"},
    "frozenset of frozensets": frozenset({frozenset(), frozenset({1})}),
    "dict in order": {"b": 1, "a": 2},
    "int keys": {1: "a", -1: "b"},
    "int and text keys": {1: "a", "1": "b"},
    "bool keys": {True: 1, False: 0},
    "none key": {None: 1},
    "float keys": {1.5: 1, math.inf: 2, -0.0: 3},
    "two nan keys": {float("nan"): 1, float("nan"): 2},
    "tuple keys": {(1, (2, 3)): 1, frozenset({1}): 2},
    "bytes key": {b"a": 1},
    "enum key": {Colour.RED: 1},
    "datetime key": {datetime(2024, 1, 1): 1},
    "looks like a tag": {"$": "tuple", "v": [1, 2]},
    "looks like an escaped tag": {"$": "dict", "v": ["$", "tuple"]},
    "looks like an object": {"$": "object", "of": "os:system", "v": {}},
    "a tag inside a tuple": ({"$": "set"},),
    "the mark as a value": ["$", {"a": "$"}],
    "the mark as one key of many": {"a": 1, "$": 2, "b": 3},
    "empty key": {"": 1},
    "date": date.min,
    "datetime": datetime.max,
    "datetime in utc": datetime(2024, 2, 29, 23, 59, 59, 999999, UTC),
    "datetime with an offset of seconds": datetime(1900, 1, 1, tzinfo=timezone(timedelta(seconds=-3721))),
    "datetime with an offset of microseconds": datetime(1, 1, 2, tzinfo=timezone(timedelta(microseconds=1))),
    "datetime with a named offset": datetime(2024, 1, 1, tzinfo=timezone(timedelta(hours=1), "CET")),
    "datetime in a zone": datetime(2024, 7, 1, 12, tzinfo=PARIS),
    "the hour that comes twice": [datetime(2024, 10, 27, 2, 30, fold=f, tzinfo=PARIS) for f in (0, 1)],
    "naive fold": datetime(2024, 10, 27, 2, 30, fold=1),
    "the hour that never was": datetime(2024, 3, 31, 2, 30, tzinfo=PARIS),
    "time": time(1, 2, 3, 4),
    "time with zone and fold": time(1, 2, tzinfo=PARIS, fold=1),
    "time with offset": time(1, 2, tzinfo=timezone(timedelta(hours=-5))),
    "timedeltas": [timedelta.min, timedelta.max, timedelta(microseconds=-1)],
    "time zones": [UTC, timezone(timedelta(hours=2), ""), ZoneInfo("UTC"), PARIS],
    "decimal": [Decimal("1.10"), Decimal("-0"), Decimal("1E+400"), Decimal("Infinity")],
    "decimal nans": [Decimal("NaN"), Decimal("-sNaN123")],
    "a decimal longer than any context": Decimal("1." + "1" * 5000),
    "fraction": [Fraction(-1, 3), Fraction(7**400, 2**400)],
    "complex": [1j, complex(-0.0, math.nan), complex(math.inf, -0.0)],
    "uuid": [uuid.UUID(int=0), uuid.UUID(int=5, is_safe=uuid.SafeUUID.safe)],
    "paths": [Path("a/../b"), PosixPath("/"), PurePosixPath("//x"), PureWindowsPath("c:\\a b\\..")],
    "path that is no text": Path(os.fsdecode(b"/x/\xff")),
    "empty path": Path(),
    "enums": [Colour.RED, Colour.BLUE, Level.LOW, Mode.FAST],
    "flags": [Right.READ, Right.READ | Right.WRITE, Right(0)],
    "dataclass": Message("user", (1, {"a": b"x"}), datetime(2024, 1, 1, tzinfo=UTC)),
    "objects inside of objects": [Message("a", (Order([Point(1.0, math.nan)], True), Colour.RED))],
    "named tuple": Point(-0.0, 1.5),
    "struct": Order([(1, 2), {3}], False),
    "ninety lists": nested(90),
    "ninety tuples": nested(90, lambda inner: (inner,)),
    "ninety dicts with other keys": nested(90, lambda inner: {1: inner}),
    "the same list twice": [[1]] * 2,
    "array": np.arange(6, dtype="<i4").reshape(2, 3),
    "empty arrays": [np.zeros((0, 3)), np.array([], dtype="U3")],
    "array of no dimension": np.array(1.5),
    "big-endian array": np.array([1, 2], dtype=">u2"),
    "array in another order": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    "slice of an array": np.arange(10)[::3],
    "arrays of text and time": [np.array(["a", "béé"]), np.array(["2024-01-01"], "M8[ms]"), np.array([b"x"])],
    "numpy scalars": [np.float64(1.5), np.float64("nan"), np.int8(-1), np.bool_(True), np.str_("a")],
    "numpy times": [np.datetime64("2024-01-01"), np.timedelta64(3, "s"), np.datetime64("NaT")],
}


zones = st.timezone_keys(allow_prefix=False).map(ZoneInfo)
hashable_leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(min_value=2**63 - 2, max_value=2**64 + 2),
    st.floats(),
    st.text(st.characters(exclude_categories=())),
    st.sampled_from(["$", "v", "tuple", "dict", "object"]),
    st.binary(),
    st.dates(),
    st.times(timezones=st.none() | zones),
    st.datetimes(timezones=st.none() | zones | st.just(timezone(timedelta(minutes=-7)))),
    st.timedeltas(),
    st.decimals().filter(lambda number: not number.is_snan()),
    st.fractions(),
    st.uuids(),
    st.complex_numbers(),
    st.sampled_from([*Colour, *Level, *Mode, *Right, Path("a"), PureWindowsPath("c:x")]),
)
hashables = st.recursive(
    hashable_leaves,
    lambda inner: st.frozensets(inner, max_size=3) | st.lists(inner, max_size=3).map(tuple),
    max_leaves=5,
)


def containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.lists(inner, min_size=1, max_size=2).map(lambda few: few * 20),
        st.sets(hashables, max_size=4),
        st.dictionaries(st.text(max_size=3) | st.just("$"), inner, max_size=4),
        st.dictionaries(hashables, inner, max_size=4),
    )


storable = st.recursive(hashables | st.builds(bytearray, st.binary()), containers, max_leaves=12)


# -- what cannot be stored, and every way to store the rest -----------------------------------------------


class Untold:
    """An object whose fields nobody knows."""


class Tagged(dict[str, Any]):
    """A dict that is more than a dict."""


def endless() -> list[Any]:
    made: list[Any] = []
    made.append(made)
    return made


UNSTORABLE: dict[str, Any] = {  # by no serializer; what JSON and MessagePack refuse beside these is below
    "a function of nobody": lambda: 1,
    "a generator": (number for number in ()),
    "a lock deep inside": {"a": [(threading.Lock(),)]},
    "a module": math,
    "a frame": sys._getframe(),
}
ONLY_PICKLED: dict[str, Any] = {
    "an object": Untold(),
    "a dict of its own kind": Tagged(a=1),
    "a list that contains itself": endless(),
    "an array of objects": np.array([object()]),
    "a class": Untold,
    "an exception": ValueError("x"),
    "a range": range(3),
}

KEY, OTHER_KEY = bytes(range(32)), bytes(range(32, 64))
SERIALIZERS: dict[str, Serializer] = {
    "json": JsonSerializer(),
    "msgpack": MsgpackSerializer(),
    "pickle": PickleSerializer(allow_pickle=True),
}
CODECS: dict[str, tuple[Codec, ...]] = {
    "plain": (),
    "zlib": (ZlibCodec(),),
    "zstd": (ZstdCodec(),),
    "aes": (AesGcmCodec(KEY),),
    "zstd+aes": (ZstdCodec(), AesGcmCodec(KEY)),
}
WAYS = [  # store, serializer, codecs
    *(("memory", serializer, "plain") for serializer in SERIALIZERS),
    *(("sqlite", serializer, codecs) for serializer in SERIALIZERS for codecs in CODECS),
]
FEW_WAYS = [  # every store, serializer and codec once or twice; `make prove` goes all ways
    ("sqlite", "json", "plain"),
    ("memory", "json", "plain"),
    ("sqlite", "msgpack", "zlib"),
    ("memory", "msgpack", "plain"),
    ("sqlite", "pickle", "zstd"),
    ("sqlite", "json", "aes"),
    ("sqlite", "msgpack", "zstd+aes"),
    ("sqlite", "pickle", "plain"),
]


def kept(way: tuple[str, str, str], folder: Path, **options: Any) -> Checkpointer:
    """Return a store that keeps values in one of the ways, in a folder that may have it already."""
    store, serializer, codecs = way
    made: Checkpointer
    if store == "memory":
        made = MemoryCheckpointer(**options)
    else:
        made = store_at(folder / "w.db", codec=CODECS[codecs], **options)
    return view_of(made, serializer=SERIALIZERS[serializer])
