"""Tables as stored values: unchanged after reading, or refused."""

from __future__ import annotations

from typing import Any

import pandas
import polars
import pyarrow
import pytest

from hypergraph import Graph, SyncRunner, node
from hypergraph.checkpointers import JsonSerializer, MsgpackSerializer, SqliteCheckpointer

TIMES = pandas.date_range("2026-01-01", periods=3, tz="Europe/Berlin")
GOOD = {
    "numbers": pandas.DataFrame({"a": [1, 2, 3], "b": [0.5, float("nan"), float("inf")]}),
    "text": pandas.DataFrame({"s": ["x", "ä\U0001f600", ""]}),
    "times and an index": pandas.DataFrame({"t": TIMES}, index=pandas.Index([3, 1, 2], name="key")),
    "categories": pandas.DataFrame({"c": pandas.Categorical(["a", "b", "a"], categories=["b", "a"])}),
    "two levels": pandas.DataFrame(
        {"v": [1, 2]}, index=pandas.MultiIndex.from_tuples([("a", 1), ("b", 2)], names=["x", "y"])
    ),
    "empty": pandas.DataFrame({"a": pandas.Series([], dtype="int16")}),
    "polars": polars.DataFrame({"a": [1, None, 3], "l": [[1], [], [2, 3]], "s": ["x", None, "z"]}),
    "pyarrow": pyarrow.table({"a": [1, None], "d": [{"x": 1}, {"x": 2}]}),
}
BAD = {
    "mixed objects": pandas.DataFrame({"o": [1, "two", None]}),
    "own classes": pandas.DataFrame({"o": [object(), object()]}),
    "tuples become lists": pandas.DataFrame({"o": [(1, 2), (3, 4)]}),
    "column names that are no text": pandas.DataFrame({("a", 1): [1], 7: [2]}),
}
serializers = pytest.mark.parametrize(
    "serializer", [JsonSerializer(), MsgpackSerializer()], ids=["json", "msgpack"]
)


def assert_same(found: Any, value: Any) -> None:
    assert type(found) is type(value)
    if isinstance(value, pandas.DataFrame):
        pandas.testing.assert_frame_equal(found, value, check_exact=True, check_freq=False)
    else:
        assert found.equals(value)
        assert found.schema == value.schema


@serializers
@pytest.mark.parametrize("name", GOOD)
def test_a_table_comes_back_as_it_was(serializer: Any, name: str) -> None:
    assert_same(serializer.deserialize(serializer.serialize([GOOD[name]]))[0], GOOD[name])


@serializers
@pytest.mark.parametrize("name", BAD)
def test_a_table_that_would_change_is_refused(serializer: Any, name: str) -> None:
    with pytest.raises(TypeError, match="DataFrame"):
        serializer.serialize(BAD[name])


@serializers
def test_attributes_are_not_lost_in_silence(serializer: Any) -> None:
    frame = pandas.DataFrame({"a": [1]})
    frame.attrs["unit"] = "m"
    with pytest.raises(TypeError, match="attrs"):
        serializer.serialize(frame)


def test_bytes_that_are_no_table_are_undecodable() -> None:
    serializer = MsgpackSerializer()
    data = serializer.serialize(GOOD["numbers"])
    broken = data.replace(b"ARROW", b"BROKE").replace(b"\xff\xff\xff\xff", b"\x00\x00\x00\x07", 1)
    found = serializer.deserialize(broken)
    assert "Undecodable" in repr(found)


def test_a_resumed_run_gets_its_table_back(tmp_path: Any) -> None:
    fails = [True]

    @node(output_name="table")
    def load(rows: int) -> pandas.DataFrame:
        return pandas.DataFrame({"a": range(rows)})

    @node(output_name="total")
    def add(table: pandas.DataFrame) -> int:
        if fails:
            raise OSError(fails.pop())
        return int(table["a"].sum())

    runner = SyncRunner(checkpointer=SqliteCheckpointer(tmp_path / "w.db"))
    graph = Graph([load, add])
    with pytest.raises(OSError, match="True"):
        runner.run(graph, rows=4, workflow_id="w")
    result = runner.run(graph, workflow_id="w")
    assert result["total"] == 6
    assert_same(result["table"], pandas.DataFrame({"a": range(4)}))
