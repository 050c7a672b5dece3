"""Members of enums are stored by their names, also where several stand in one value."""

from __future__ import annotations

import enum
from typing import Any

import pytest

from hypergraph.values import register
from hypergraph.values.serializers import JsonSerializer, MsgpackSerializer, PickleSerializer, Serializer
from hypergraph.values.undecodable import Undecodable

serializers = pytest.mark.parametrize("serializer", [JsonSerializer(), MsgpackSerializer()], ids=repr)


def flags(base: Any = enum.Flag, boundary: Any = None, /, **members: int) -> Any:
    """Return a class of flags, of one name whatever its members."""
    return base("Right", members, module=__name__, qualname="Right", boundary=boundary)


def moved(serializer: Serializer, value: Any, now: type[Any]) -> Any:
    """Return a value as another release reads it."""
    return serializer.with_types([now]).deserialize(serializer.serialize(value))


@serializers
@pytest.mark.parametrize("base", [enum.Flag, enum.IntFlag])
def test_flags_are_read_by_their_names(serializer: Serializer, base: Any) -> None:
    old = flags(base, READ=1, WRITE=2)
    new = flags(base, ADMIN=1, READ=2, WRITE=4)
    both, now = old.READ | old.WRITE, new.READ | new.WRITE
    assert moved(serializer, old.READ, new) is new.READ
    assert moved(serializer, both, new) is now
    assert moved(serializer, {both: [both, (old.WRITE,)]}, new) == {now: [now, (new.WRITE,)]}
    assert moved(serializer, {both, old.READ}, new) == {now, new.READ}
    assert moved(serializer, old(0), new) is new(0)


@serializers
def test_a_flag_that_is_not_there_any_more_is_refused(serializer: Serializer) -> None:
    old, new = flags(READ=1, WRITE=2), flags(READ=1, OTHER=2)
    for value in (old.WRITE, old.READ | old.WRITE):
        found = moved(serializer, value, new)
        assert isinstance(found, Undecodable)
        assert "no member 'WRITE'; add: register(Right, version=2, upgrade={1: function_of_names})" in str(
            found
        )


@serializers
def test_flags_stored_as_a_number_are_refused(serializer: Serializer) -> None:
    now = flags(READ=1)
    tree = {"$": "object", "of": f"{__name__}:Right", "v": 1}
    found = serializer.with_types([now]).deserialize(serializer._encode(tree))  # type: ignore[attr-defined]
    assert isinstance(found, Undecodable)
    assert "not a list of names" in str(found)


NEGATIVE = flags(enum.IntFlag, A=1, ALL=-1)
PARTLY = flags(enum.Flag, A=1, AX=3, Y=12)
KEEPING = flags(enum.IntFlag, enum.KEEP, A=1, H=64)
VALUES = [
    *(NEGATIVE.A, NEGATIVE.ALL, PARTLY.AX, PARTLY.Y, PARTLY.AX | PARTLY.Y, PARTLY(2)),
    *(KEEPING(3), KEEPING(-2), ~KEEPING.H, KEEPING(2**70), KEEPING(0), KEEPING(2**1023)),
    *(~flags(enum.IntFlag, A=1, B=2, ALL=7).A, flags(NONE=0, A=1).NONE, ~flags(A=1, B=2, C=4, AB=3).A),
    flags(enum.Flag, enum.CONFORM, A=1, B=4)(5),
    flags(enum.IntFlag, enum.EJECT, A=1, B=4)(5),
]


@serializers
@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_no_bit_is_lost(serializer: Serializer, value: Any) -> None:
    assert moved(serializer, value, type(value)) is value


def test_bits_without_a_name_are_not_taken_for_one_that_has_a_name_now() -> None:
    old = flags(enum.IntFlag, A=1)
    kept = flags(enum.IntFlag, B=1, A=2)
    assert moved(JsonSerializer(), old(9), kept) == kept.A | 8
    for now in (flags(enum.IntFlag, A=1, B=8), flags(enum.Flag, A=1), flags(enum.Flag, enum.CONFORM, A=1)):
        assert isinstance(moved(JsonSerializer(), old(9), now), Undecodable)
    assert isinstance(moved(JsonSerializer(), old(9), flags(enum.IntFlag, enum.EJECT, A=1)), Undecodable)
    with pytest.raises(TypeError, match="bits without a name"):
        JsonSerializer().serialize(old(2**1024))


def test_an_older_name_of_a_flag_is_found_as_another_name() -> None:
    old = flags(READ=1, WRITE=2)
    new = flags(WRITE=1, LOOK=2, READ=2)
    assert moved(JsonSerializer(), old.READ | old.WRITE, new) is new.LOOK | new.WRITE
    whole = flags(A=1, B=2, WRITE=3, READ=4)
    assert moved(JsonSerializer(), old.WRITE, whole) is whole.WRITE


def test_an_upgrade_gets_the_names_of_flags() -> None:
    old, new = flags(READ=1, WRITE=2), flags(LOOK=1, WRITE=2)
    register(new, version=2, upgrade={1: lambda names: ["LOOK" if n == "READ" else n for n in names]})
    assert moved(JsonSerializer(), old.READ | old.WRITE, new) is new.LOOK | new.WRITE


@serializers
def test_an_enum_is_known_by_names_whatever_its_values_are(serializer: Serializer) -> None:
    for base, then, now in (
        (enum.Enum, {"A": (1, 2), "B": 2, "C": 2}, {"B": (1, 2), "C": 7, "A": 2}),
        (enum.IntEnum, {"A": 1, "B": 2}, {"A": 2, "B": 1}),
        (enum.StrEnum, {"A": "x", "B": "y"}, {"A": "y", "B": "x"}),
    ):
        old, new = (base("E", each, module=__name__, qualname="E") for each in (then, now))
        assert moved(serializer, {old.A: [old.B]}, new) == {new.A: [new.B]}


class Way(enum.Enum):
    """Pickle needs a class that can be found."""

    LEFT = 1
    RIGHT = 2


def test_a_pickle_has_members_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    serializer = PickleSerializer(allow_pickle=True)
    data = serializer.serialize([Way.LEFT])
    other = enum.Enum("Way", {"RIGHT": 1, "LEFT": 2}, module=__name__, qualname="Way")
    monkeypatch.setitem(globals(), "Way", other)
    assert serializer.deserialize(data) == [other["LEFT"]]
