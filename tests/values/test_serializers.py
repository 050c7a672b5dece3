"""Serializers: values unchanged after a round trip, or a TypeError with type and path."""

from __future__ import annotations

import collections
import itertools
import json
import math
import os
import pickle
import subprocess
import sys
import threading
from datetime import UTC, date, datetime, tzinfo
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.nasty import NASTY, PARIS, Colour, containers, hashable_leaves, nested, same, storable

from benchmarks import measure, values
from hypergraph.values.serializers import JsonSerializer, MsgpackSerializer, PickleSerializer, Serializer
from hypergraph.values.undecodable import Undecodable, public_text

EXACT = [JsonSerializer(), MsgpackSerializer()]
SOURCES = Path(__file__).parents[2] / "src"


Point = collections.namedtuple("Point", "x y")


class Text(str): ...


class Number(int): ...


class Real(float): ...


class Items(list): ...


class Table(dict): ...


class Pair(tuple): ...


class Day(date): ...


class Elsewhere(tzinfo): ...


def itself() -> list[Any]:
    value: list[Any] = []
    value += [value, value]
    return value


UNSTORABLE: dict[str, tuple[Any, str]] = {  # value, part of the message
    "object": (object(), "builtins.object:"),
    "function": ({"a": [1, {"b c": len}]}, "builtins.builtin_function_or_method at value['a'][1]['b c']:"),
    "class": ((int,), "builtins.type at value[0]:"),
    "module": (math, "builtins.module:"),
    "generator": ((i for i in ()), "generator"),
    "lock": ({1: threading.Lock()}, "_thread.lock at value[1]:"),
    "open file": (sys.__stderr__, "TextIOWrapper"),
    "exception": (ValueError("x"), "builtins.ValueError"),
    "ellipsis": (..., "builtins.ellipsis"),
    "range": (range(3), "builtins.range"),
    "memoryview": (memoryview(b"x"), "builtins.memoryview"),
    "text subclass": (Text("a"), "a subclass of str would come back as a plain str"),
    "text subclass as key": ({Text("a"): 1}, "Text"),
    "text subclass beside its equal": ({"b": 1, Text("a"): 1}, "Text"),
    "int subclass": ([1, Number(1)], "a subclass of int would come back as a plain int"),
    "int subclass among many": ([1] * 40 + [Number(1)], "Number at value[40]:"),
    "int subclass as key": ({Number(1): 1}, "Number"),
    "float subclass": (Real(1), "a subclass of float"),
    "list subclass": ({"a": Items([1])}, "Items at value['a']: a subclass of list"),
    "dict subclass": ([Table(a=1)], "Table at value[0]: a subclass of dict"),
    "ordered dict": (collections.OrderedDict(a=1), "a subclass of dict"),
    "default dict": (collections.defaultdict(list), "a subclass of dict"),
    "tuple subclass": (Pair([1]), "a subclass of tuple"),
    "struct sequence": (os.stat_result(range(10)), "a subclass of tuple"),
    "date subclass": (Day(2024, 1, 1), "a subclass of date"),
    "foreign time zone": (datetime(2024, 1, 1, tzinfo=Elsewhere()), "Elsewhere"),
    "zone without a lasting name": ([ZoneInfo("posix/UTC")], "cannot be found by its name"),
    "inside a set": ({object()}, "builtins.object at value[0]:"),
    "contains itself": (itself(), "nested deeper than 100 levels, or contains itself"),
    "deeper than the stack": (nested(100_000), "nested deeper than 100 levels"),
    "stand-in": (Undecodable("lost"), "Undecodable"),
    "array of objects": (np.array([object()]), "dtype object is not plain memory"),
    "record array": (np.zeros(2, dtype=[("a", "i4")]), "is not plain memory"),
    "masked array": (np.ma.masked_array([1], [True]), "MaskedArray"),
    "long double": (np.longdouble(1), "is another one on other machines"),
    "array of long doubles": (np.zeros(1, "G"), "is another one on other machines"),
    "array of a described dtype": (
        np.zeros(1, np.dtype("i4", metadata={"a": 1})),
        "the metadata of its dtype",
    ),
    "numpy text that ends with NUL": (np.str_("a\0"), "would cut off the NUL"),
    "numpy bytes that end with NUL": (np.bytes_(b"a\0"), "would cut off the NUL"),
}
serializers = pytest.mark.parametrize("serializer", EXACT, ids=lambda s: s.id)


def back(serializer: Serializer, value: Any) -> Any:
    return serializer.deserialize(serializer.serialize(value))


# --- exact or TypeError --------------------------------------------------------------------------


@serializers
@pytest.mark.parametrize("name", NASTY)
def test_value_comes_back_exactly(serializer, name):
    assert same(back(serializer, NASTY[name]), NASTY[name])


@serializers
@pytest.mark.parametrize("name", NASTY)
def test_value_comes_back_exactly_from_inside_others(serializer, name):
    value = {"plain": [1, "a"], "odd": (NASTY[name],), 3: [NASTY[name]]}
    assert same(back(serializer, value), value)


@serializers
@pytest.mark.parametrize("name", UNSTORABLE)
def test_unstorable_value_is_a_type_error_with_type_and_path(serializer, name):
    value, message = UNSTORABLE[name]
    with pytest.raises(TypeError) as caught:
        serializer.serialize(value)
    assert str(caught.value).startswith(f"{type(serializer).__name__} cannot store ")
    assert message in str(caught.value)
    assert ": " in public_text(caught.value).partition(" cannot store ")[2]  # a warning says why


anything = st.recursive(
    hashable_leaves | st.sampled_from([Text("a"), Number(1), Items(), Table(), range(2), Point(1, 2)]),
    containers,
    max_leaves=12,
)
json_values = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**63), 2**64 - 1),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(),
    ),
    lambda inner: st.lists(inner) | st.dictionaries(st.text().filter(lambda key: key != "$"), inner),
)


@serializers
@given(value=storable)
def test_every_composition_of_supported_types_comes_back_exactly(serializer, value):
    assert same(back(serializer, value), value)


@serializers
@given(value=anything)
def test_a_value_comes_back_exactly_or_is_refused(serializer, value):
    try:
        data = serializer.serialize(value)
    except TypeError:
        return
    found = serializer.deserialize(data)
    assert same(found, value) or "Point is not known here" in found.reason


@given(value=json_values)
def test_plain_values_are_plain_json(value):
    data = JsonSerializer().serialize(value)
    assert data == msgspec.json.encode(value)
    assert same(json.loads(data), value)


@given(value=storable)
def test_json_is_standard_json(value):
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    json.loads(JsonSerializer().serialize(value), parse_constant=refuse)


# --- what is stored ------------------------------------------------------------------------------


@pytest.mark.parametrize("odd", [math.inf, math.nan, -math.inf, 2**63, -(2**70), b"x", (1,), {"$": 1}, None])
@pytest.mark.parametrize("serializer", [JsonSerializer(), MsgpackSerializer()])
def test_one_odd_value_among_many_rows_comes_back_exactly(serializer, odd):
    rows = [{"id": i, "text": "a", "score": i / 4} for i in range(40)]
    rows[7]["score"] = odd
    assert same(serializer.deserialize(serializer.serialize(rows)), rows)
    column = [row["score"] for row in rows]
    assert same(serializer.deserialize(serializer.serialize(column)), column)


def test_tagged_values_stay_readable():
    value = {"at": datetime(2024, 1, 1, tzinfo=UTC), "total": Decimal("1.50"), "pair": (1, Colour.RED)}
    assert json.loads(JsonSerializer().serialize(value)) == {
        "at": {"$": "datetime", "v": "2024-01-01T00:00:00+00:00"},
        "total": {"$": "decimal", "v": "1.50"},
        "pair": {"$": "tuple", "v": [1, {"$": "object", "of": "support.nasty:Colour", "v": "RED"}]},
    }


def test_equal_sets_give_equal_bytes_in_every_process():
    code = (
        "from hypergraph.values.serializers import JsonSerializer\n"
        "print(JsonSerializer().serialize({*'abcdefgh', 1, (2, 'x')}))"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONPATH": str(SOURCES), "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1


def test_arrays_come_back_writable():
    found = back(JsonSerializer(), np.arange(3))
    found[0] = 5
    assert found[0] == 5


def test_every_serializer_has_an_id_and_a_version():
    class Own(JsonSerializer):
        def serialize(self, value: Any) -> bytes:
            return super().serialize([value])

    found = [*EXACT, PickleSerializer(allow_pickle=True)]
    assert [(s.id, s.version) for s in found] == [("json", 1), ("msgpack", 1), ("pickle", 1)]
    assert Own().id.endswith("Own")  # it writes something else, and may not pass for JSON


def test_serializers_say_how_they_were_made():
    made = [*EXACT, JsonSerializer(lossy=True), PickleSerializer(allow_pickle=True)]
    assert [repr(eval(repr(s))) for s in made] == [repr(s) for s in made]


def test_bytes_like_data_is_read():
    data = JsonSerializer().serialize((1,))
    assert JsonSerializer().deserialize(memoryview(data)) == (1,)  # type: ignore[arg-type]


# --- lossy ---------------------------------------------------------------------------------------


def test_lossy_json_keeps_the_text_of_what_it_cannot_store():
    value = {"a": [Text("t"), range(2), (1,)], Number(3): PARIS, "b": "\ud800"}
    found = back(JsonSerializer(lossy=True), value)
    assert same(found, {"a": ["t", "range(0, 2)", (1,)], "3": PARIS, "b": "\ud800"})


def test_lossy_json_survives_a_broken_str():
    class Broken:
        def __str__(self) -> str:
            raise ValueError("no")

    assert "Broken" in back(JsonSerializer(lossy=True), [Broken()])[0]


def test_lossy_json_still_refuses_what_contains_itself():
    with pytest.raises(TypeError, match="contains itself"):
        JsonSerializer(lossy=True).serialize(itself())


# --- pickle --------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"allow_pickle": False}, {"allow_pickle": 1}])
def test_pickle_has_to_be_asked_for(options):
    with pytest.raises(ValueError, match="allow_pickle=True"):
        PickleSerializer(**options)


@pytest.mark.parametrize("name", NASTY)
def test_pickle_keeps_every_value(name):
    assert same(back(PickleSerializer(allow_pickle=True), NASTY[name]), NASTY[name])


def test_what_pickle_cannot_store_is_a_type_error():
    with pytest.raises(TypeError, match="PickleSerializer cannot store function"):
        PickleSerializer(allow_pickle=True).serialize(lambda: 1)


def test_broken_pickle_is_undecodable():
    assert "pickle" in PickleSerializer(allow_pickle=True).deserialize(b"\x80\x05garbage").reason


def test_no_serializer_reads_the_bytes_of_pickle_or_falls_back_to_it():
    data = pickle.dumps([1])
    assert all(isinstance(serializer.deserialize(data), Undecodable) for serializer in EXACT)
    for serializer, value in itertools.product(EXACT, [object(), Items()]):
        with pytest.raises(TypeError):
            serializer.serialize(value)


def test_a_viewer_opens_no_pickle():
    viewer = PickleSerializer(allow_pickle=True).without_types()
    assert viewer.deserialize(pickle.dumps(1)).reason == "pickled values are not read for viewing"


# --- speed ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_every_bar_of_the_serializers_is_within_reach(monkeypatch):
    monkeypatch.setattr(measure, "SLICE_SECONDS", 0.0003)
    monkeypatch.setattr(measure.measure, "__defaults__", (8,))
    over = [bar for bar in values.value_bars() if bar.ratio > 3 * bar.limit]  # a busy machine is no bug
    assert not over
