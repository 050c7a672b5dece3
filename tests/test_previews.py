"""Previews of values as short text and as JSON primitives."""

from __future__ import annotations

import json
from collections import deque
from enum import Enum, IntEnum
from types import MappingProxyType, SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypergraph.display import bounded, jsonable, preview

ANY_TEXT = st.text(st.characters() | st.sampled_from("\ud800\x1b\n\r\t\u202e\u2028<>&\"'—"), max_size=30)


class Mute:
    """A value that cannot show itself."""

    def __repr__(self) -> str:
        raise RuntimeError("no repr")

    __str__ = __repr__


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (1, "1"),
        ("short", "'short'"),
        ("x" * 120, repr("x" * 120)),
        ("x" * 500, repr("x" * 120) + "... (length 500)"),
        (b"x" * 500, repr(b"x" * 120) + "... (length 500)"),
        ([1, 2, 3, 4, 5, 6], "[1, 2, 3, 4, 5, 6]"),
        (list(range(20)), "[0, 1, 2, 3, 4, 5, ... (20 items)]"),
        ((1,), "(1,)"),
        ((), "()"),
        ({1}, "{1}"),
        (set(), "set()"),
        (frozenset({1}), "frozenset({1})"),
        (deque([1]), "deque([1])"),
        ({"a": 1}, "{'a': 1}"),
        (MappingProxyType({"a": 1}), "mappingproxy({'a': 1})"),
        ({n: n for n in range(8)}, "{0: 0, 1: 1, 2: 2, 3: 3, 4: 4, 5: 5, ... (8 keys)}"),
        ([[[1]], [[]], [{}]], "[[[...]], [[]], [{}]]"),
        (np.zeros((3, 2)), "ndarray(shape=(3, 2), dtype=float64)"),
        (np.float64(1.5), repr(np.float64(1.5))),
        (SimpleNamespace(shape=(3, 2)), "SimpleNamespace(shape=(3, 2))"),
        (Mute(), "<Mute whose repr raises RuntimeError>"),
        ([Mute(), 1], "[<Mute whose repr raises RuntimeError>, 1]"),
    ],
)
def test_a_preview_is_short_and_never_fails(value: object, shown: str) -> None:
    assert preview(value) == shown


def test_an_integer_too_long_to_print_is_survived() -> None:
    assert preview(10**5000) == "<int whose repr raises ValueError>"
    assert jsonable(10**5000) == "<int whose text raises ValueError>"


def test_a_preview_of_a_recursive_value_ends() -> None:
    loop: list[object] = [1]
    loop.append(loop)
    circle: dict[str, object] = {}
    circle["self"] = circle
    assert preview(loop) == "[1, [1, [...]]]"
    assert preview(circle) == "{'self': {'self': {...}}}"


def test_a_preview_is_bounded_whatever_the_value() -> None:
    class Verbose:
        def __repr__(self) -> str:
            return "\x1b" * 100_000

    assert len(preview(Verbose())) < 4001
    assert "\x1b" not in preview(Verbose())
    assert len(preview([["x" * 200] * 6] * 6)) <= 4000


def test_bounded_text_says_that_it_was_cut() -> None:
    assert (bounded("abcdef", 6), bounded("abcdefg", 6)) == ("abcdef", "abc...")


# --- JSON ---------------------------------------------------------------------------------------


class Colour(Enum):
    RED = "red"


class Level(IntEnum):
    LOW = 1


@pytest.mark.parametrize(
    ("value", "primitive"),
    [
        (None, None),
        (True, True),
        (3, 3),
        (2**64, str(2**64)),
        (1.5, 1.5),
        (float("nan"), "nan"),
        (float("-inf"), "-inf"),
        ("a\ud800", "a\\ud800"),
        (int, "<class 'int'>"),
        (Colour.RED, "Colour.RED"),
        (Level.LOW, 1),
        ((1, {2: Mute()}), [1, {"2": "<Mute whose text raises RuntimeError>"}]),
    ],
)
def test_what_json_cannot_hold_becomes_its_text(value: object, primitive: object) -> None:
    assert jsonable(value) == primitive
    assert type(jsonable(value)) is type(primitive)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | ANY_TEXT | st.binary() | st.builds(Mute),
    lambda inner: st.lists(inner) | st.dictionaries(ANY_TEXT | st.integers(), inner) | st.tuples(inner),
    max_leaves=12,
)


@pytest.mark.slow
@given(ANYTHING)
def test_anything_passes_json_dumps(value: object) -> None:
    text = json.dumps(jsonable(value), allow_nan=False, ensure_ascii=False)
    assert json.loads(text.encode()) == jsonable(value)


def test_a_recursive_value_passes_json_dumps() -> None:
    loop: list[object] = []
    loop.append(loop)
    assert json.dumps(jsonable(loop))
