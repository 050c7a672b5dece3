"""Values of KEY=VALUE and --values, converted to the types that a graph declares."""

import datetime
import enum
from pathlib import Path
from typing import Annotated, Any, Literal, Optional

import pytest
from pydantic import BaseModel

from hypergraph import Graph, interrupt, node
from hypergraph.cli.inputs import given_values
from hypergraph.views.problems import Problem


class Colour(enum.Enum):
    RED = 1
    BLUE = "b"


class Order(BaseModel):
    item: str
    count: int = 1


def graph_of(declared: Any) -> Graph:
    def take(x: Any) -> None:
        """Take a value."""

    take.__annotations__["x"] = declared
    if declared is None:
        del take.__annotations__["x"]
    return Graph([node(take)])


def typed(declared: Any, text: str, mapped: tuple[str, ...] = ()) -> Any:
    return given_values(graph_of(declared), None, [f"x={text}"], mapped)["x"]


FITS = [
    (bool, "false", False),
    (bool, "No", False),
    (bool, "true", True),
    (bool, "1", True),
    (int, "3", 3),
    (float, "3", 3.0),
    (str, "3", "3"),
    (str, "true", "true"),
    (str, "", ""),
    (bytes, "3", b"3"),
    (int | None, "null", None),
    (int | None, "4", 4),
    (Optional[str], "4", "4"),
    (int | str, "4", 4),
    (int | str, "four", "four"),
    (Literal["a", "b"], "b", "b"),
    (Literal[1, 2], "2", 2),
    (Colour, "RED", Colour.RED),
    (Colour, "b", Colour.BLUE),
    (Path, "a/b", Path("a/b")),
    (datetime.date, "2026-01-02", datetime.date(2026, 1, 2)),
    (list[int], "[1, 2]", [1, 2]),
    (list, "[1, 'a']", [1, "a"]),
    (set[int], "[1, 2]", {1, 2}),
    (dict[str, int], '{"a": 1}', {"a": 1}),
    (Annotated[int, "count"], "5", 5),
    (Order, '{"item": "tea"}', Order(item="tea")),
    (Any, "false", False),
    (None, "[1, 2]", [1, 2]),
    (None, "plain text", "plain text"),
]


@pytest.mark.parametrize(("declared", "text", "expected"), FITS)
def test_a_value_becomes_what_the_graph_declares(declared: Any, text: str, expected: Any) -> None:
    found = typed(declared, text)
    assert found == expected
    assert type(found) is type(expected)


DOES_NOT_FIT = [
    (bool, "maybe", "'maybe' is not bool (true or false)"),
    (int, "3.5", "'3.5' is not int"),
    (int, "three", "'three' is not int"),
    (list[int], "3", "'3' is not list[int]"),
    (list[int], '["a"]', "is not list[int]"),
    (Literal["a", "b"], "c", "(one of a, b)"),
    (Colour, "green", "(one of RED, BLUE)"),
    (Order, "{}", "is not Order"),
    (int | None, "x", "'x' is not int | None"),
]


@pytest.mark.parametrize(("declared", "text", "expected"), DOES_NOT_FIT)
def test_a_value_that_does_not_fit_is_refused(declared: Any, text: str, expected: str) -> None:
    with pytest.raises(Problem) as caught:
        typed(declared, text)
    assert "Invalid value for x: " in caught.value.message
    assert expected in caught.value.message


def test_mapped_inputs_are_lists_of_their_type() -> None:
    assert typed(bool, '["false", true]', mapped=("x",)) == [False, True]
    with pytest.raises(Problem, match="is not list"):
        typed(int, "3", mapped=("x",))


def test_a_name_is_given_once() -> None:
    for values, pairs in ((None, ["x=1", "x=2"]), ('{"x": 2}', ["x=1"])):
        with pytest.raises(Problem, match=r"'x' is given twice: '1' and '?2"):
            given_values(graph_of(int), values, pairs)


def test_json_values_are_converted_too() -> None:
    assert given_values(graph_of(Colour), '{"x": "RED"}', []) == {"x": Colour.RED}
    with pytest.raises(Problem, match="is not str"):
        given_values(graph_of(str), '{"x": 3}', [])


def test_answers_have_the_type_of_their_interrupt_nested_ones_too() -> None:
    @interrupt("approved")
    def ask(draft: str) -> bool | None:
        return None

    inner = Graph([ask], name="review")
    outer = Graph([inner.as_node()], name="outer")
    assert given_values(inner, None, ["approved=false"]) == {"approved": False}
    assert given_values(outer, None, ["review.approved=no"]) == {"review.approved": False}
