"""Stored types of answers and signals, which check what is typed: made by another person, they do no harm."""

from __future__ import annotations

import json
import random
from functools import partial
from typing import Any

import pytest

from hypergraph.answers import check, described, from_text, schema_of, stored_schema
from hypergraph.exceptions import InvalidAnswerError
from security.costly import MOST_MEMORY, MOST_SECONDS, cost_of

WRONG: tuple[Any, ...] = (None, 5, -1, 1.5, True, "x", "[", [], [1], [[]], [None], {}, {"a": 1}, [{"a": 1}])
KEYWORDS = (
    *("type", "format", "pattern", "enum", "const", "x-names", "anyOf", "oneOf", "properties", "required"),
    *("items", "prefixItems", "additionalProperties", "minLength", "maxLength", "minItems", "maxItems"),
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "title", "$ref", ""),
)
VALUES = ("text", 5, 2.5, True, None, [1, "x"], {"a": 1, "b": [2]})


def used(found: Any) -> None:
    """Use a stored type in every way."""
    schema = stored_schema(found)
    described(schema)
    for value in VALUES:
        try:
            check("key", value, schema)
        except InvalidAnswerError:
            pass
    for text in ("text", "5", "yes", '{"a": 1}', "[1]", "[" * 10_000):
        try:
            from_text("key", text, schema)
        except InvalidAnswerError:
            pass


@pytest.mark.parametrize("keyword", KEYWORDS)
def test_a_type_with_a_wrong_part_is_used_without_it(keyword: str) -> None:
    for value in WRONG:
        used({keyword: value})
        for kind in ("string", "number", "object", "array"):
            used({"type": kind, keyword: value})
        used({"anyOf": [{keyword: value}, {"type": "string"}], "items": {keyword: value}})


def test_types_of_chance_are_used() -> None:
    rnd = random.Random(7)

    def tree(depth: int) -> Any:
        if not depth or not rnd.randrange(3):
            return rnd.choice((*WRONG, "string", "object", "array", "integer"))
        parts = {rnd.choice(KEYWORDS): tree(depth - 1) for _ in range(rnd.randrange(1, 4))}
        return rnd.choice((parts, parts, [parts]))

    for _ in range(1500):
        used(tree(4))


PATTERNS = {
    "repeated groups": ("^(a+)+$", "a" * 40 + "!"),
    "repeated choices": ("^(?:a|a)*$", "a" * 40 + "!"),
    "many choices": ("^" + "(?:a|a)" * 40 + "$", "a" * 40 + "!"),
    "many that may be left out": ("a?" * 40 + "a" * 40, "a" * 40),
    "many repeats": ("a*" * 20 + "b", "a" * 60),
    "some repeats of a long text": ("a*a*a*b", "a" * 100_000),
    "one repeat of a long text": ("a*b", "a" * 1_000_000),
    "empty choices": ("(|)" * 60 + "x", ""),
    "assertions": ("(?=(a+))*b", "a" * 40),
    "references": (r"(a*)\1\1\1\1\1b", "a" * 2000),
    "wide repeats": ("a{0,9999}a{0,9999}a{0,9999}b", "a" * 9999),
}


@pytest.mark.parametrize("name", PATTERNS)
def test_a_stored_pattern_takes_little_time(name: str) -> None:
    pattern, text = PATTERNS[name]

    def compare() -> None:
        try:
            check("key", text, stored_schema({"type": "string", "pattern": pattern}))
        except InvalidAnswerError:
            pass

    assert cost_of(compare).seconds <= MOST_SECONDS


@pytest.mark.parametrize(
    ("pattern", "good", "bad"),
    [
        *(
            (r"^[A-Z]{2}\d+$", "AB123", "ab123"),
            (r"^\d{4}-\d{2}$", "2030-01", "2030"),
            ("tea", "green tea", "x"),
        ),
        (r"^[^@]+@[^@]+\.[a-z]+$", "a@b.com", "a.b"),
    ],
)
def test_usual_patterns_are_compared(pattern: str, good: str, bad: str) -> None:
    schema = stored_schema({"type": "string", "pattern": pattern})
    check("key", good, schema)
    with pytest.raises(InvalidAnswerError, match="must match"):
        check("key", bad, schema)


def deep(keyword: str, levels: int, inner: Any) -> Any:
    for _ in range(levels):
        inner = {keyword: [inner] if keyword == "anyOf" else inner}
    return inner


@pytest.mark.parametrize(
    "schema",
    [
        deep("anyOf", 150, {"anyOf": [{"type": "null"}] * 100_000}),
        {"anyOf": [{"type": "null"}] * 130_000},
        {"enum": [str(number) for number in range(200_000)]},
        {"type": "object", "properties": {str(number): {} for number in range(150_000)}},
        deep("items", 400, {"type": "string"}),
    ],
    ids=["deep and wide", "choices", "members", "fields", "deep"],
)
def test_a_large_type_takes_little_time(schema: Any) -> None:
    found = cost_of(partial(used, schema))
    for _ in range(4):  # other work may be in the way
        if found.seconds > MOST_SECONDS:
            found = cost_of(partial(used, schema))
    assert found.seconds <= MOST_SECONDS
    assert found.memory <= MOST_MEMORY


def test_a_message_about_a_large_type_is_short() -> None:
    for schema in (
        {"enum": ["x" * 400] * 1000},
        {"anyOf": [{"const": "x" * 90}] * 1000},
        {"pattern": "x" * 499},
    ):
        with pytest.raises(InvalidAnswerError) as caught:
            check("key", "text", stored_schema(schema))
        assert len(str(caught.value)) <= 500


def test_what_a_release_writes_is_read_whole() -> None:
    for declared in (bool, int | str, list[dict[str, float]], tuple[int, str] | None):
        schema = schema_of(declared)
        assert schema is not None
        assert stored_schema(json.loads(json.dumps(schema))) == json.loads(json.dumps(schema))
