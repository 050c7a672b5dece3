"""The language of filters: what it understands, what it refuses with which remedy, what counts as alike."""

import contextlib
import inspect
import math
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypergraph.checkpointers.analysis import same
from hypergraph.checkpointers.query import (
    FILTERS,
    Clause,
    Comparison,
    Query,
    milliseconds,
    moment,
    parse,
    parse_where,
)
from hypergraph.checkpointers.records import StepRecord, Workflow
from hypergraph.checkpointers.status import WorkflowStatus
from hypergraph.values.undecodable import Undecodable

NOON = datetime(2026, 5, 2, 12, tzinfo=UTC)

# --- values of filters --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("250ms", 250),
        ("1s", 1000),
        ("1.5s", 1500),
        ("5m", 300_000),
        ("1h30m", 5_400_000),
        ("2d", 172_800_000),
        (" 1w ", 604_800_000),
        ("5", None),
        ("", None),
        ("s", None),
        ("1 s", None),
        ("-1s", None),
        ("1sx", None),
        ("1e3s", None),
    ],
)
def test_durations_need_a_unit(text: str, length: float | None) -> None:
    assert milliseconds(text) == length


def test_a_moment_is_a_datetime_a_date_or_a_time_ago() -> None:
    shifted = NOON.astimezone(timezone(timedelta(hours=5)))
    assert moment(shifted) == NOON
    assert moment("2026-05-02T12:00:00+00:00") == NOON
    assert moment(None) is None
    before = datetime.now(UTC)
    found = [moment("2h"), moment(timedelta(hours=2))]
    after = datetime.now(UTC)
    assert all(before <= ago + timedelta(hours=2) <= after for ago in found)


def test_a_moment_without_zone_is_local_time() -> None:
    assert moment(NOON.astimezone().replace(tzinfo=None)) == NOON
    assert moment("2026-05-02") == moment(date(2026, 5, 2)) == datetime(2026, 5, 2).astimezone()


def test_a_moment_of_pandas_is_a_datetime() -> None:
    pandas = pytest.importorskip("pandas")
    assert moment(pandas.Timestamp(NOON)) == NOON
    assert moment(pandas.Timestamp("2026-05-02")) == moment("2026-05-02")


@pytest.mark.parametrize("wrong", ["soon", "", "2 hours", 7, "99999999999w", ["2h"]])
def test_a_moment_that_is_none_is_refused_by_name(wrong: Any) -> None:
    with pytest.raises(ValueError, match=r"Invalid until: "):
        moment(wrong, "until")


@pytest.mark.parametrize(
    ("filters", "message"),
    [
        ({"status": "broken"}, "Unknown status 'broken'; it is one of 'active', 'completed'"),
        ({"status": []}, "status names nothing"),
        ({"status": ["failed", 3]}, "Unknown status 3"),
        ({"tag": "urgent"}, "key=value"),
        ({"tag": ["a=b", "=c"]}, "key=value"),
        ({"limit": 0}, "limit must be a positive int"),
        ({"limit": -1}, "limit must be a positive int"),
        ({"limit": True}, "limit must be a positive int"),
        ({"limit": "10"}, "limit must be a positive int"),
        ({"since": "later"}, "Invalid since: 'later'"),
        ({"until": "later"}, "Invalid until: 'later'"),
    ],
)
def test_filters_that_cannot_be_understood_are_refused(filters: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse(**filters)


def test_filters_say_nothing_by_default() -> None:
    assert parse() == Query()
    assert parse(where="  ") == Query()


def test_a_tag_may_hold_an_equals_sign() -> None:
    assert parse(tag="query=a=b").tags == {"query": "a=b"}
    assert parse(tag={"n": 1}).tags == {"n": "1"}


def test_since_is_inclusive_and_until_is_not() -> None:
    workflow = Workflow("w", "active", created_at=NOON)
    assert Query(since=NOON).admits(workflow, list)
    assert not Query(until=NOON).admits(workflow, list)
    assert Query(until=NOON + timedelta(seconds=1)).admits(workflow, list)
    assert not Query(since=NOON + timedelta(seconds=1)).admits(workflow, list)


def test_steps_are_read_only_for_conditions_on_nodes() -> None:
    workflow = Workflow("w", "failed", duration_ms=10)
    query = Query(statuses=frozenset({WorkflowStatus.FAILED}), where=parse_where("duration > 5ms"))
    assert query.admits(workflow, lambda: pytest.fail("steps were read"))


# --- conditions ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "clauses"),
    [
        ("node:llm_call status=failed", [("llm_call", [("status", "=", "failed")])]),
        ("node:embed duration > 1s", [("embed", [("duration_ms", ">", 1000)])]),
        ("duration > 5m", [(None, [("duration_ms", ">", 300_000)])]),
        ("duration>5m", [(None, [("duration_ms", ">", 300_000)])]),
        ("STATUS == Failed", [(None, [("status", "=", "failed")])]),
        ("steps >= 3 and duration < 1s", [(None, [("step_count", ">=", 3), ("duration_ms", "<", 1000)])]),
        ("steps < 9 node:a node:b cached=true", [
            (None, [("step_count", "<", 9)]),
            ("a", []),
            ("b", [("cached", "=", True)]),
        ]),
        ("node:'my node' error ~ \"time out\"", [("my node", [("error", "~", "time out")])]),
        ("node: and attempt != 1", [("and", [("attempt", "!=", 1)])]),
    ],
)  # fmt: skip
def test_conditions_are_read_from_text(text: str, clauses: list[Any]) -> None:
    expected = tuple(Clause(node, tuple(Comparison(*test) for test in tests)) for node, tests in clauses)
    assert parse_where(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("durations > 1s", "Unknown field 'durations'; a workflow has .*Did you mean 'duration'"),
        ("node:a steps > 1", "Unknown field 'steps'; a node has"),
        ("duration > 5", 'duration > 5: the value must be a duration with its unit, like "250ms"'),
        ("status = broken", "the value must be one of active, completed"),
        ("node:a status = active", "the value must be one of completed, failed"),
        ("node:a cached = maybe", "one of true, false"),
        ("steps = many", "a whole number"),
        ("steps = 99999999999999999999", "a whole number"),
        ("status > failed", "status cannot be compared by '>', only by = !="),
        ("duration ~ 1s", "cannot be compared by '~'"),
        ("duration => 1s", "cannot be compared by '=>'"),
        ("node:", "a node's name must follow"),
        ("duration", "after 'duration', write an operator and a value"),
        ("duration >", "after 'duration', write an operator and a value"),
        ('node:a error ~ "x', "a quote is not closed"),
    ],
)
def test_conditions_that_cannot_be_understood_are_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_where(text)


@given(st.text(max_size=30) | st.text(alphabet="node:status=failed >\"'~duration1s ", max_size=30))
def test_any_text_is_understood_or_refused_with_a_value_error(text: str) -> None:
    with contextlib.suppress(ValueError):
        assert all(clause.node or clause.tests for clause in parse_where(text))


def test_a_field_of_steps_without_a_node_says_where_it_belongs() -> None:
    with pytest.raises(ValueError, match='name its node first: "node:NAME error'):
        parse_where("error ~ 503")


def test_all_conditions_on_a_node_must_hold_for_one_step() -> None:
    steps = [
        StepRecord("w", 0, "a", 0, "completed", {}, duration_ms=9000),
        StepRecord("w", 1, "a", 1, "failed", {}, duration_ms=1, error="Time Out"),
    ]
    workflow = Workflow("w", "failed")

    def holds(text: str) -> bool:
        return Query(where=parse_where(text)).admits(workflow, lambda: steps)

    assert not holds("node:a status=failed duration > 1s")
    assert holds("node:a status=failed node:a duration > 1s")
    assert holds("node:a error ~ 'time out'")
    assert not holds("node:b")


def test_what_is_unknown_fulfils_no_condition() -> None:
    active = Workflow("w", "active")
    for symbol in ("=", "!=", "<", "<=", ">", ">="):
        assert not Query(where=parse_where(f"duration {symbol} 1s")).admits(active, list)


# --- likeness -----------------------------------------------------------------------------------


class Refuses:
    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no")

    __hash__ = object.__hash__


def endless() -> list[Any]:
    items: list[Any] = []
    items.append(items)
    return items


@pytest.mark.parametrize(
    ("a", "b", "alike"),
    [
        (1, 1, True),
        (1, True, False),
        (1, 1.0, False),
        ([1, {"a": (2,)}], [1, {"a": (2,)}], True),
        ([1, {"a": (2,)}], [1, {"a": [2]}], False),
        ({"a": 1}, {"b": 1}, False),
        ([1], [1, 2], False),
        (float("nan"), float("nan"), True),
        ([float("nan")], [float("nan")], True),
        ({1, 2}, {2, 1}, True),
        (Refuses(), Refuses(), False),
        (endless(), endless(), False),
    ],
)
def test_values_are_alike_if_type_and_content_are(a: object, b: object, alike: bool) -> None:
    assert same(a, b) is alike


def test_arrays_are_alike_element_by_element() -> None:
    numpy = pytest.importorskip("numpy")
    assert same(numpy.array([1.0, numpy.nan]), numpy.array([1.0, numpy.nan]))
    assert not same(numpy.array([1, 2]), numpy.array([1, 3]))
    assert not same(numpy.array([1, 2]), numpy.array([1, 2, 3]))


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_tables_are_alike_if_types_and_cells_are(library: str) -> None:
    arrow = pytest.importorskip("pyarrow")

    def table(*cells: float | None, kind: Any = None) -> Any:
        made = arrow.table({"a": arrow.array(cells, kind or arrow.float64())})
        if library == "polars":
            return pytest.importorskip("polars").from_arrow(made)
        return made if library == "pyarrow" else made.to_pandas()

    assert same(table(1, None, math.nan), table(1, None, math.nan))
    assert same({"found": [table(1)]}, {"found": [table(1)]})
    assert not same(table(1, 2), table(1, 3))
    assert not same(table(1, 2), table(1, 2, kind=arrow.float32()))


def test_objects_of_unknown_classes_are_alike_if_class_and_fields_are() -> None:
    def offer(amount: int, of: str = "app:Offer") -> Undecodable:
        return Undecodable("not registered (and 1 more)", [Undecodable("not registered", {"n": amount}, of)])

    assert same(offer(3), offer(3))
    assert not same(offer(3), offer(4))
    assert not same(offer(3), offer(3, "app:Other"))
    assert not same(Undecodable("damaged"), Undecodable("damaged"))


def test_every_filter_is_offered_as_a_text() -> None:
    assert {each.name for each in FILTERS} | {"limit", "cursor"} == set(inspect.signature(parse).parameters)
