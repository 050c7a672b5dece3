"""Hostile stored bytes: read as `Undecodable`, with nothing imported, called or crashed."""

from __future__ import annotations

import base64
import builtins
import io
import json
import subprocess
import sys
import zoneinfo
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.nasty import same, storable

from hypergraph.values import tags
from hypergraph.values.serializers import JsonSerializer, MsgpackSerializer, Serializer
from hypergraph.values.undecodable import Undecodable


@dataclass
class Known:
    x: int


KNOWN = f"{__name__}:Known"
READERS = [serializer.with_types([Known]) for serializer in (JsonSerializer(), MsgpackSerializer())]
readers = pytest.mark.parametrize("reader", READERS, ids=lambda s: s.id)


def written(reader: Serializer, tree: Any) -> bytes:
    return msgspec.json.encode(tree) if reader.id == "json" else msgspec.msgpack.encode(tree)


def tag(name: Any, *args: Any, **parts: Any) -> dict[str, Any]:
    return {"$": name, **({"v": args[0]} if args else {}), **parts}


def object_of(name: Any, v: Any = None, **parts: Any) -> dict[str, Any]:
    return tag("object", {} if v is None else v, of=name, **parts)


FOUR = tag("bytes", base64.b64encode(b"abcd").decode())
HOSTILE: dict[str, Any] = {
    "unknown tag": tag("antigravity", 1),
    "no tag": {"$": None},
    "tag that is a number": tag(1, 1),
    "tag that is a list": tag(["tuple"], [1]),
    "tag that is an object": tag(object_of(KNOWN), [1]),
    "tag without parts": tag("tuple"),
    "tag with a part too many": tag("tuple", [1], w=2),
    "tag with a part called self": tag("tuple", [1], self=2),
    "private name as tag": tag("__class__", 1),
    "object of os.system": object_of("os:system", ["true"]),
    "object of a module": object_of("antigravity:fly"),
    "object of builtins": object_of("builtins:eval", {"source": "1/0"}),
    "object of subprocess": object_of("subprocess:Popen", {"args": "true"}),
    "object of our own": object_of("hypergraph.values.undecodable:Undecodable", {"reason": "x"}),
    "object without a name": tag("object", {}),
    "object with a list for a name": object_of([KNOWN]),
    "object without fields": tag("object", of=KNOWN),
    "object with a list of fields": object_of(KNOWN, [1]),
    "object with foreign fields": object_of(KNOWN, {"x": 1, "__class__": "y"}),
    "object with its class replaced": object_of(KNOWN, {"__class__": 1}),
    "object with a dict": object_of(KNOWN, {"__dict__": {}}),
    "object with another kind's parts": object_of(KNOWN, {"x": 1}, private={}),
    "tuple of text": tag("tuple", "abc"),
    "tuple of a dict": tag("tuple", {"a": 1}),
    "set of lists": tag("set", [[1]]),
    "dict of odd length": tag("dict", [1, 2, 3]),
    "dict with a list as key": tag("dict", [[1], 2]),
    "dict of pairs": tag("dict", {"a": 1}),
    "int of words": tag("int", "__import__('os')"),
    "int of digits without end": tag("int", "9" * 100_000),
    "int that is an int": tag("int", 5),
    "float of words": tag("float", "much"),
    "str that is no base64": tag("str", "\x00"),
    "str of broken bytes": tag("str", base64.b64encode(b"\xff").decode()),
    "bytes that are no base64": tag("bytes", "a"),
    "bytes of a number": tag("bytes", 10**9),
    "bytearray of a number": tag("bytearray", 10**9),
    "complex of text": tag("complex", ["1", "2"]),
    "complex of three": tag("complex", [1.0, 2.0, 3.0]),
    "decimal of words": tag("decimal", "one"),
    "decimal of a number": tag("decimal", 1.5),
    "fraction over zero": tag("fraction", [1, 0]),
    "fraction of bools": tag("fraction", [True, True]),
    "date of the thirtieth": tag("date", "2024-02-30"),
    "date of a number": tag("date", 1),
    "datetime of words": tag("datetime", "now"),
    "datetime with a text as zone": tag("datetime", "2024-01-01", tz="UTC"),
    "datetime with two zones": tag("datetime", "2024-01-01T00:00:00+00:00", tz=tag("zoneinfo", "UTC")),
    "datetime with many folds": tag("datetime", "2024-01-01", fold=7),
    "time of words": tag("time", "noon"),
    "timedelta without end": tag("timedelta", [10**12, 0, 0]),
    "timezone beyond a day": tag("timezone", tag("timedelta", [2, 0, 0])),
    "timezone of a number": tag("timezone", 3),
    "zone that is a path": tag("zoneinfo", "../../../../etc/passwd"),
    "zone that is a file": tag("zoneinfo", "/etc/passwd"),
    "zone that is a module": tag("zoneinfo", "antigravity/x"),
    "zone of a number": tag("zoneinfo", 1),
    "uuid of words": tag("uuid", "me"),
    "uuid that is safe in its own way": tag("uuid", "0" * 32, safe=9),
    "path of a number": tag("PosixPath", 1),
    "path of another system": tag("WindowsPath" if sys.platform != "win32" else "PosixPath", "a"),
    "path with options": tag("PosixPath", "a", kind="b"),
    "array of objects": tag("ndarray", FOUR, dtype="|O8", shape=[1]),
    "array of an expression": tag("ndarray", FOUR, dtype="i4,O", shape=[1]),
    "array of a record": tag("ndarray", FOUR, dtype={"names": ["a"]}, shape=[1]),
    "array of another size": tag("ndarray", FOUR, dtype="<i4", shape=[2]),
    "array without end": tag("ndarray", FOUR, dtype="<i4", shape=[2**62, 2**62]),
    "array of negative size": tag("ndarray", FOUR, dtype="<i4", shape=[-1, -1]),
    "array in many dimensions": tag("ndarray", FOUR, dtype="<i4", shape=[1] * 1000),
    "array of huge items": tag("ndarray", FOUR, dtype="<U99999999999999", shape=[0]),
    "array of text": tag("ndarray", "abcd", dtype="<i4", shape=[1]),
    "numpy scalar with a shape": tag("npscalar", FOUR, dtype="<i8"),
}
BROKEN_JSON = {
    "nothing": b"",
    "half": b'{"a": [1, ',
    "two": b"1 2",
    "no text": b"\xff\xfe",
    "nan": b"NaN",
    "lone surrogate": b'"\\ud800"',
    "nested without end": b"[" * 200_000,
    "tags nested without end": b'{"$":"tuple","v":[' * 50_000,
    "tags nested and closed": b'{"$":"tuple","v":[' * 5_000 + b"]}" * 5_000,
    "a number without end": b"1" * 100_000,
    "a float without end": b"1e999",
}
BROKEN_MSGPACK = {
    "nothing": b"",
    "a list that claims billions": b"\xdd\xff\xff\xff\xff",
    "a dict that claims billions": b"\xdf\xff\xff\xff\xff\xa1$",
    "bytes that claim billions": b"\xc6\xff\xff\xff\xff",
    "extension": b"\xc7\x01\x05a",
    "nested without end": b"\x91" * 200_000,
    "tags nested without end": b"\x82\xa1$\xa5tuple\xa1v\x91" * 50_000,
    "reserved byte": b"\xc1",
    "tag with parts that have no names": b"\x83\xa1$\xa5tuple\xa1v\x90\x05\x06",
    "trailing": b"\x01\x01",
}


@pytest.fixture
def nothing_happens(monkeypatch):
    """Fail the test on an import of anything new, and on the usual ways to run something."""
    plain_import = builtins.__import__

    def checked_import(name: str, *args: Any, **options: Any) -> Any:
        assert name in sys.modules or (args[2:] and args[2]), f"imports {name}"
        return plain_import(name, *args, **options)

    def refuse(*args: Any, **options: Any) -> Any:
        raise AssertionError(f"called with {args}")

    zoneinfo.available_timezones()
    tags._zones()
    monkeypatch.setattr(builtins, "__import__", checked_import)
    for owner, name in [(builtins, "eval"), (builtins, "exec"), (builtins, "open"), (io, "open")]:
        monkeypatch.setattr(owner, name, refuse)
    monkeypatch.setattr(subprocess, "Popen", refuse)
    modules = set(sys.modules)
    yield
    assert "antigravity" not in sys.modules
    assert {name.partition(".")[0] for name in sys.modules.keys() - modules} <= {"numpy"}


@readers
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_tag_is_undecodable(reader, name, nothing_happens):
    found = reader.deserialize(written(reader, HOSTILE[name]))
    assert isinstance(found, Undecodable)
    assert found.reason.startswith("value: ")


@readers
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_tag_leaves_its_surroundings_readable(reader, name, nothing_happens):
    found = reader.deserialize(written(reader, {"good": [1, tag("tuple", [2])], "bad": [HOSTILE[name]]}))
    assert isinstance(found, Undecodable)
    assert found.reason.startswith("value['bad'][0]")
    assert found.data["good"] == [1, (2,)]
    assert isinstance(found.data["bad"][0], Undecodable)


@pytest.mark.parametrize("name", BROKEN_JSON)
def test_broken_json_is_undecodable(name, nothing_happens):
    assert READERS[0].deserialize(BROKEN_JSON[name]).reason.startswith(("not readable as json: ", "value"))


@pytest.mark.parametrize("name", BROKEN_MSGPACK)
def test_broken_msgpack_is_undecodable(name, nothing_happens):
    assert (
        READERS[1].deserialize(BROKEN_MSGPACK[name]).reason.startswith(("not readable as msgpack: ", "value"))
    )


@pytest.mark.parametrize("reader", [serializer.without_types() for serializer in READERS], ids=lambda s: s.id)
def test_a_viewer_builds_no_arrays(reader):
    found = reader.deserialize(written(reader, tag("ndarray", FOUR, dtype="<i4", shape=[1])))
    assert found.reason == "value: arrays are not built for viewing"


def test_a_tag_spelled_with_escapes_is_plain_data():
    assert READERS[0].deserialize(b'{"\\u0024": "object", "of": "os:system"}') == {
        "$": "object",
        "of": "os:system",
    }


NAMES = st.sampled_from(["v", "of", "tz", "fold", "name", "dtype", "shape", "x"])
TAGS = st.sampled_from([*tags.MAKE, "object", "ndarray", "npscalar"])


def tagged(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    plain = st.dictionaries(NAMES, inner, max_size=3)
    return (
        st.lists(inner, max_size=3) | plain | st.builds(lambda name, rest: {"$": name, **rest}, TAGS, plain)
    )


number = st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False)
parts = st.recursive(st.none() | st.booleans() | number | st.text(max_size=5), tagged, max_leaves=8)


@readers
@given(tree=parts)
def test_any_tree_of_tags_is_read_without_an_error(reader, tree):
    reader.deserialize(written(reader, tree))


@readers
@given(data=st.binary(max_size=60))
def test_any_bytes_are_read_without_an_error(reader, data):
    reader.deserialize(data)


@readers
@given(value=storable, where=st.integers(min_value=0), to=st.integers(0, 255))
def test_a_flipped_byte_never_raises(reader, value, where, to):
    data = bytearray(reader.serialize(value))
    data[where % len(data)] = to
    reader.deserialize(bytes(data))


@given(tree=parts)
def test_what_a_user_stores_is_never_read_as_a_tag(tree):
    assert same(READERS[0].deserialize(READERS[0].serialize(tree)), tree)


def test_the_stand_in_is_readable_and_cannot_be_stored():
    found = READERS[0].deserialize(json.dumps(tag("tuple", 1)).encode())
    assert repr(found) == "Undecodable('value: expected list, found int', {'v': 1})"
    assert found.data == {"v": 1}
    with pytest.raises(TypeError, match="Undecodable"):
        READERS[0].serialize(found)
