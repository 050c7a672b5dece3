"""Looking at one value: bounded, paged, safe, and never failing for what the value is."""

from __future__ import annotations

import json
from collections import deque
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy
import pandas
import polars
import pyarrow
import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hypergraph.checkpointers import Undecodable
from hypergraph.views.problems import Problem
from hypergraph.views.values import describe, line_of, part_at, pointer


@dataclass
class Page:
    title: str
    tags: list[str]


class Pair(NamedTuple):
    left: int
    right: int


class Model(pydantic.BaseModel):
    name: str


class Broken:
    def __repr__(self) -> str:
        raise RuntimeError("no repr")

    __str__ = __repr__


leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary()
values = st.recursive(
    leaves, lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner), max_leaves=30
)


@pytest.mark.slow
@settings(max_examples=40)
@given(values, st.integers(0, 60), st.integers(1, 5))
def test_an_answer_is_json_and_no_longer_than_asked(value: Any, characters: int, limit: int) -> None:
    view = describe(value, characters=characters, limit=limit)
    text = json.dumps(view["value"], ensure_ascii=False, allow_nan=False)
    text.encode()
    assert len(view["items"]) <= limit
    if not isinstance(value, int | float | str | bytes | None):
        assert len(text) <= 30 * characters + 60, "escapes and brackets count a little more"


@pytest.mark.slow
@settings(max_examples=40)
@given(values)
def test_all_of_a_value_is_not_truncated(value: Any) -> None:
    view = describe(value, limit=None, characters=None)
    assert (view["truncated"], view["next_offset"]) == (False, None)


@pytest.mark.slow
@settings(max_examples=40)
@given(st.lists(values, min_size=1, max_size=8) | st.dictionaries(st.text(), values, min_size=1, max_size=8))
def test_every_part_is_found_by_its_path(value: Any) -> None:
    parts = describe(value)["items"]
    assert len(parts) == len(value)
    for key, part in zip(value if isinstance(value, dict) else range(len(value)), parts, strict=True):
        if part["key"] == str(key):  # a lone surrogate is told in other letters
            assert part_at(value, part["path"]) is value[key]


@given(st.lists(st.integers(0, 9), max_size=30), st.integers(1, 7))
def test_pages_hold_each_item_once(value: list[int], limit: int) -> None:
    found: list[int] = []
    offset: int | None = 0
    while offset is not None:
        view = describe(value, offset=offset, limit=limit)
        found += view["value"]
        offset = view["next_offset"]
    assert found == value


def test_a_text_is_paged_by_characters() -> None:
    view = describe("abcdef", offset=2, characters=3)
    assert (view["value"], view["next_offset"], view["size"]) == ("cde", 5, 6)


@pytest.mark.parametrize(
    ("value", "path", "found"),
    [
        ({"docs": [{"title": "T"}]}, "/docs/0/title", "T"),
        ({"a/b": {"~": 1}}, "/a~1b/~0", 1),
        ({3: "three"}, "/3", "three"),
        (Page("T", ["x"]), "/tags/0", "x"),
        (Pair(1, 2), "/right", 2),
        (Model(name="n"), "/name", "n"),
        (deque("ab"), "/1", "b"),
        (numpy.arange(6).reshape(2, 3), "/1/2", 5),
        (pandas.DataFrame({"a": [1, 2]}), "/1/a", 2),
        (pandas.DataFrame({"id": [2**53 + 1], "total": [0.5]}), "/0/id", 2**53 + 1),
        (pandas.DataFrame({"a": [1, 2]}, pandas.Index(["x", "y"], name="key")), "/1/key", "y"),
        (pandas.DataFrame({"a": [1, 2]}, ["x", "y"]), "/0", {"index": "x", "a": 1}),
        (pandas.DataFrame({"index": [1]}, ["x"]), "/0", {"index (index)": "x", "index": 1}),
        (pandas.DataFrame({"a": [1, 2]}, range(1, 3)), "/0", {"index": 1, "a": 1}),
        (
            pandas.DataFrame({"a": [1]}, pandas.MultiIndex.from_tuples([("x", 7)], names=["key", None])),
            "/0",
            {"key": "x", "level_1": 7, "a": 1},
        ),
        (polars.DataFrame({"a": [1, 2]}), "/1/a", 2),
        (pyarrow.table({"a": [1, 2]}), "/1/a", 2),
        (pandas.Series([1, 2]), "/0", 1),
        (Undecodable("why", {"a": Undecodable("why", {"b": 1})}), "/a/b", 1),
    ],
)
def test_a_path_leads_through_whatever_holds_parts(value: Any, path: str, found: Any) -> None:
    assert describe(value, path=path)["value"] == found


def test_a_row_that_python_cannot_represent_leaves_the_others_readable() -> None:
    late = pyarrow.table({"at": pyarrow.array([0, 2**62], pyarrow.timestamp("s"))})
    first, second = describe(late)["items"]
    assert "1970" in first["text"]
    assert second["text"].startswith("(not readable here: OverflowError")


@pytest.mark.parametrize(
    ("path", "hint", "matches"),
    [
        ("/titel", "the value itself is a dict with 2 keys", ("/title",)),
        ("/docs/9", "/docs is a list; its indexes: 0 to 0", ()),
        ("/docs/-1", "/docs is a list; its indexes: 0 to 0", ()),
        ("/title/x", "/title is 'T', which has no items", ()),
        ("title", "Example: /docs/0/title", ()),
    ],
)
def test_a_path_to_nothing_says_what_is_there(path: str, hint: str, matches: tuple[str, ...]) -> None:
    with pytest.raises(Problem) as caught:
        describe({"title": "T", "docs": [1]}, path=path)
    assert (caught.value.hint, caught.value.matches) == (hint, matches)


def test_an_object_of_an_unknown_class_is_shown_by_its_fields() -> None:
    view = describe(Undecodable("the class app:Offer is not registered", {"amount": 3}, "app:Offer"))
    assert (view["type"], view["value"], view["size"]) == ("Offer", {"amount": 3}, 1)
    assert view["problem"] == "the class app:Offer is not registered"


def test_objects_of_an_unknown_class_in_a_list_are_shown_by_their_fields_too() -> None:
    offers = [Undecodable("not registered", {"amount": n}, "app:Offer") for n in (3, 4)]
    view = describe(Undecodable("not registered (and 1 more)", [*offers, Undecodable("damaged")]))
    assert view["text"] == "[{'amount': 3}, {'amount': 4}, Undecodable('damaged')]"


def test_what_cannot_be_read_says_why() -> None:
    view = describe(Undecodable("the stored bytes are damaged"))
    assert (view["value"], view["problem"]) == (None, "the stored bytes are damaged")


def test_a_value_that_cannot_show_itself_hides_nothing_else() -> None:
    view = describe({"a": Broken(), "b": 1})
    assert view["value"]["b"] == 1
    assert "raises RuntimeError" in view["text"]


def test_a_set_is_told_in_one_order() -> None:
    assert describe({"b", "a", "c"}, limit=2)["value"] == ["a", "b"]


def test_a_pointer_escapes_what_has_a_meaning() -> None:
    assert pointer("/x", "a/b~c") == "/x/a~1b~0c"


@pytest.mark.parametrize(
    ("message", "line"),
    [
        ({"role": "assistant", "content": "hello"}, "assistant: 'hello'"),
        ({"role": "assistant", "content": "hello", "calls": []}, "assistant: 'hello'"),
        ({"role": "assistant", "content": ""}, "assistant: ''"),
        (
            {"role": "assistant", "content": "", "calls": [{"name": "book", "to": "Rome"}]},
            "assistant: calls=[{'name': 'book', 'to': 'Rome'}]",
        ),
        ({"role": "a\x1b[1m", "text": "", "b\x07": "\x1b"}, r"a\x1b[1m: b\x07='\x1b'"),
    ],
)
def test_a_message_without_words_is_told_by_what_it_asks_for(message: Any, line: str) -> None:
    assert line_of(message) == line
