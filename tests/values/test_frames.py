"""Tables as stored values: unchanged after reading, or refused."""

from __future__ import annotations

import re
import subprocess
import sys
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import numpy
import pandas
import polars
import pyarrow
import pytest

from hypergraph import FunctionNode, Graph, SyncRunner, node
from hypergraph.checkpointers import (
    JsonSerializer,
    MemoryCheckpointer,
    MsgpackSerializer,
    SqliteCheckpointer,
    Undecodable,
)
from hypergraph.values import frames
from hypergraph.values.undecodable import public_text

TIMES = pandas.date_range("2026-01-01", periods=3, tz="Europe/Berlin")
SCALES = pandas.Index([Decimal("1.1"), Decimal("1.20")])
SALES = pandas.DataFrame(
    {"size": ["S", "M", "L", "S"], "month": ["may", "june", "may", "june"], "sold": [1, 2, 3, 4]}
)
MONTHS = SALES.assign(month=pandas.Categorical(SALES["month"], ["june", "may", "july"]))
SPANS = pandas.IntervalIndex.from_tuples([(1, 4), (0, 3), (1, 4), (0, 3)])  # they overlap
LEVELS = {
    "appearance": SALES.groupby(["month", "size"], sort=False).sum(),
    "what was computed": SALES.groupby("month").agg({"sold": ["sum", "mean"]}),
    "what is left": SALES.groupby(["size", "month"], sort=False).sum().loc[["M", "S"]],
    "rows and columns": SALES.pivot_table(
        index=["month", "sold"], columns="size", values="sold", aggfunc=["sum", "mean"], sort=False
    ),
    "categories": MONTHS.groupby(["month", "size"], observed=True, sort=False).sum(),
    "all categories": MONTHS.groupby(["month", "size"], observed=False).sum(),
    "what is missing": SALES.replace({"size": {"M": None}})
    .groupby(["month", "size"], sort=False, dropna=False)
    .sum(),
    "what is missing, last": SALES.replace({"size": {"M": None}})
    .groupby(["month", "size"], dropna=False)
    .sum(),
    "moments": SALES.assign(size=pandas.to_datetime(["2027", "2026", None, "2027"]))
    .groupby(["month", "size"], sort=False, dropna=False)
    .sum(),
    "spans": SALES.set_index([SPANS, "size"]).groupby(level=[0, 1], sort=False).sum(),
}
GOOD = {
    "numbers": pandas.DataFrame({"a": [1, 2, 3], "b": [0.5, float("nan"), float("inf")]}),
    "text": pandas.DataFrame({"s": ["x", "ä\U0001f600", ""]}),
    "times and an index": pandas.DataFrame({"t": TIMES}, index=pandas.Index([3, 1, 2], name="key")),
    "categories": pandas.DataFrame({"c": pandas.Categorical(["a", "b", "a"], categories=["b", "a"])}),
    "two levels": pandas.DataFrame(
        {"v": [1, 2]}, index=pandas.MultiIndex.from_tuples([("a", 1), ("b", 2)], names=["x", "y"])
    ),
    "counted rows below a level": pandas.concat([pandas.DataFrame({"a": [1, 2]})] * 2, keys=["x", "y"]),
    "counted rows above a level": pandas.DataFrame({"a": [1, 2], "b": [3, 4]}).stack().to_frame(),
    **{f"levels in the order of {name}": frame for name, frame in LEVELS.items()},
    "empty": pandas.DataFrame({"a": pandas.Series([], dtype="int16")}),
    "a frequency": pandas.DataFrame({"a": [1, 2]}, index=pandas.date_range("2026", periods=2, freq="B")),
    "a frequency of columns": pandas.DataFrame(
        [[1, 2]], columns=pandas.date_range("2026", periods=2, freq="D")
    ),
    "a frequency of spans": pandas.DataFrame(
        {"a": [1, 2]}, index=pandas.timedelta_range("1h", periods=2, freq="h")
    ),
    "numbered columns": pandas.DataFrame([[0.5, 1.5], [2.5, -0.0]]),
    "nothing": pandas.DataFrame(),
    "utc": pandas.DataFrame(
        {"a": pandas.to_datetime(["2026-01-01"], utc=True), "b": [1]},
        index=pandas.date_range("2026", periods=1, tz="UTC", freq="D"),
    ),
    "zones": pandas.DataFrame(
        {"a": pandas.date_range("2026", periods=1, tz=ZoneInfo("UTC")), "b": TIMES[:1]}
    ),
    "nullable types": pandas.DataFrame(
        {
            kind: pandas.array([1, None], dtype=kind)
            for kind in ("Int8", "Float32", "boolean", "int64[pyarrow]")
        }
    ),
    "an ordered category of numbers": pandas.DataFrame(
        {"c": pandas.Categorical([2, None], categories=[3, 2, 1], ordered=True)}
    ),
    "polars": polars.DataFrame({"a": [1, None, 3], "l": [[1], [], [2, 3]], "s": ["x", None, "z"]}),
    "pyarrow": pyarrow.table({"a": [1, None], "d": [{"x": 1}, {"x": 2}]}),
    "months": pandas.DataFrame({"a": [1, 2]}, index=pandas.period_range("2026", periods=2, freq="M")),
    "quarters": pandas.DataFrame({"q": pandas.period_range("2026", periods=2, freq="Q")}),
    "intervals": pandas.DataFrame({"i": pandas.interval_range(0, 2)}, index=pandas.interval_range(0, 2)),
    "an empty category": pandas.DataFrame({"c": pandas.Categorical(["a"], categories=["b", "a"])}).iloc[:0],
    "an empty ordered category in the index": pandas.DataFrame(
        {"a": [1]}, index=pandas.CategoricalIndex([2], categories=[3, 2], ordered=True, name="c")
    ).iloc[:0],
    "an empty polars enum": polars.DataFrame({"c": []}, schema={"c": polars.Enum(["b", "a"])}),
    "an empty dictionary of arrow": pyarrow.table({"d": pyarrow.array(["x"]).dictionary_encode()}).slice(1),
    "decimals of one scale": pandas.DataFrame({"a": [1]}, index=pandas.Index([Decimal("1.10")])),
}
BAD = {
    "mixed objects": pandas.DataFrame({"o": [1, "two", None]}),
    "own classes": pandas.DataFrame({"o": [object(), object()]}),
    "tuples become lists": pandas.DataFrame({"o": [(1, 2), (3, 4)]}),
    "decimals of several scales": pandas.DataFrame({"d": [Decimal("1.1"), Decimal("1.10")]}),
    "numbers of several kinds inside": pandas.DataFrame({"d": [{"x": 1}, {"x": 2.5}]}),
    "two columns of one name": pandas.DataFrame([[1, 2]], columns=["a", "a"]),
    "column names that are no text": pandas.DataFrame({("a", 1): [1], 7: [2]}),
    "an index of several scales": pandas.DataFrame({"a": [1, 2]}, index=SCALES),
    "a level of several scales": pandas.DataFrame(
        {"a": [1, 2]}, index=pandas.MultiIndex.from_arrays([SCALES, [1, 2]])
    ),
    "categories of several scales": pandas.DataFrame({"c": pandas.Categorical(SCALES)}),
}
serializers = pytest.mark.parametrize(
    "serializer", [JsonSerializer(), MsgpackSerializer()], ids=["json", "msgpack"]
)


def assert_same(found: Any, value: Any) -> None:
    assert type(found) is type(value)
    if isinstance(value, pandas.DataFrame):
        exact: Any = {"check_exact": True, "check_freq": True, "check_column_type": True}
        # A level of several that is a range comes back as the numbers that are in it.
        kind = True if value.index.nlevels == 1 else "equiv"
        pandas.testing.assert_frame_equal(found, value, check_index_type=kind, **exact)
        for axis in ("index", "columns"):
            ours, theirs = getattr(found, axis), getattr(value, axis)
            assert getattr(ours, "freq", None) == getattr(theirs, "freq", None)
            assert repr(getattr(ours, "tz", None)) == repr(getattr(theirs, "tz", None))
        assert [repr(t) for t in found.dtypes] == [repr(t) for t in value.dtypes]
        assert [repr(getattr(t, "tz", "")) for t in found.dtypes] == [
            repr(getattr(t, "tz", "")) for t in value.dtypes
        ]
    else:
        assert found.equals(value)
        assert found.schema == value.schema


@serializers
@pytest.mark.parametrize("name", GOOD)
def test_a_table_comes_back_as_it_was(serializer: Any, name: str) -> None:
    assert_same(serializer.deserialize(serializer.serialize([GOOD[name]]))[0], GOOD[name])


@pytest.mark.parametrize("name", ["months", "intervals"])
def test_a_table_comes_back_as_it_was_in_a_process_that_has_loaded_nothing(name: str, tmp_path: Any) -> None:
    (tmp_path / "stored").write_bytes(JsonSerializer().serialize(GOOD[name]))
    code = (
        "import pathlib, sys; from hypergraph.checkpointers import JsonSerializer; "
        "frame = JsonSerializer().deserialize(pathlib.Path(sys.argv[1]).read_bytes()); "
        "print(list(frame.dtypes), frame.index.dtype)"
    )
    found = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "stored"], check=True, capture_output=True, text=True
    )
    assert found.stdout.strip() == f"{list(GOOD[name].dtypes)} {GOOD[name].index.dtype}"


class Tagged(pyarrow.ExtensionType):  # type: ignore[misc]  # which has no types
    """A type of a user."""

    def __init__(self) -> None:
        super().__init__(pyarrow.int64(), "test.tagged")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: Any, serialized: bytes) -> Tagged:
        return cls()


@serializers
@pytest.mark.parametrize("wrap", [lambda one: one, lambda one: pyarrow.StructArray.from_arrays([one], ["x"])])
def test_a_type_of_arrow_that_is_not_known_here_is_undecodable(serializer: Any, wrap: Any) -> None:
    pyarrow.register_extension_type(Tagged())
    try:
        column = pyarrow.ExtensionArray.from_storage(Tagged(), pyarrow.array([1, 2]))
        table = pyarrow.table({"a": wrap(column)})
        data = serializer.serialize(table)
        assert serializer.deserialize(data).equals(table)
    finally:
        pyarrow.unregister_extension_type("test.tagged")
    found = serializer.deserialize(data)
    assert type(found) is Undecodable
    assert "its type 'test.tagged' is not known to pyarrow" in found.reason


@serializers
def test_a_pyarrow_table_with_nan_is_stored(serializer: Any) -> None:
    table = pyarrow.table({"a": [1.0, float("nan"), None]}).slice(1)
    found = serializer.deserialize(serializer.serialize(table))
    assert found.schema == table.schema
    assert repr(found.to_pylist()) == "[{'a': nan}, {'a': None}]"


@serializers
@pytest.mark.parametrize("name", BAD)
def test_a_table_that_would_change_is_refused(serializer: Any, name: str) -> None:
    with pytest.raises(TypeError, match="DataFrame"):
        serializer.serialize(BAD[name])


@serializers
@pytest.mark.parametrize("library", [pandas, polars])
def test_a_table_without_pyarrow_names_the_extra(
    serializer: Any, library: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = library.DataFrame({"a": [1]})
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(TypeError, match=r'pyarrow is not installed: pip install "hypergraph\[arrays\]"'):
        serializer.serialize(frame)
    store = SqliteCheckpointer(":memory:", serializer=serializer)
    graph = Graph([FunctionNode(lambda x: frame, "load", "table")])
    with pytest.warns(UserWarning, match=r"pip install \"hypergraph\[arrays\]"):
        SyncRunner(checkpointer=store).run(graph, x=1, workflow_id="w")


@serializers
def test_attributes_are_not_lost_in_silence(serializer: Any) -> None:
    frame = pandas.DataFrame({"a": [1]})
    frame.attrs["unit"] = "m"
    with pytest.raises(TypeError, match="attrs") as refused:
        serializer.serialize(frame)
    assert "return them as a separate output" in public_text(refused.value)


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


@serializers
@pytest.mark.parametrize(
    "details",
    [
        {"freq": ["W", None]},
        {"freq": ["x" * 99, None]},
        {"freq": [1, None]},
        {"range": [0, 10**12, 1]},
        {"range": [0, 2, 0]},
        {"utc": [7]},
        {"utc": [2]},
        {"levels": [[[0, 1]], []]},
        {"levels": [[], [[1, 0], [0]]]},
        {"levels": [[[True]], []]},
        {"levels": [[]]},
        {"levels": 1},
        {"other": 1},
        [],
    ],
    ids=str,
)
def test_details_that_do_not_fit_are_not_applied(serializer: Any, details: Any) -> None:
    frame = pandas.DataFrame({"a": [1, 2], "b": [3, 4]}, index=pandas.date_range("2026", periods=2))
    tag, parts = frames.to_parts(frame) or ("", {})
    with pytest.raises((ValueError, AttributeError, TypeError)):
        frames.from_parts(tag, parts["of"], bytes(parts["v"].view), details)


@serializers
@pytest.mark.parametrize(
    "orders",
    [
        [[1, 0, -1]],
        [[1, 1, -1], [0, 1, -1]],
        [[0, 2, -1], [0, 1, -1]],
        [[-1, 0, 1], [0, 1, -1]],
        [[0, 1], [0, 1]],
        [[], []],
        [[0, 1, -1], [0, 1, -1], [-1]],
    ],
    ids=str,
)
def test_orders_of_other_levels_are_not_applied(serializer: Any, orders: Any) -> None:
    frame = pandas.DataFrame({"v": [1, 2]}, index=pandas.MultiIndex.from_tuples([("a", 1), ("b", 2)]))
    tag, parts = frames.to_parts(frame) or ("", {})
    data = bytes(parts["v"].view)
    assert "details" not in parts
    with pytest.raises(ValueError, match="order of other levels"):
        frames.from_parts(tag, parts["of"], data, {"levels": [orders, []]})


@serializers
@pytest.mark.parametrize("name", LEVELS)
def test_what_is_computed_from_the_levels_of_a_table_does_not_change(serializer: Any, name: str) -> None:
    frame = LEVELS[name]
    found = serializer.deserialize(serializer.serialize(frame))
    for level in range(frame.index.nlevels if frame.index.nlevels > 1 else 0):
        pandas.testing.assert_frame_equal(found.unstack(level), frame.unstack(level))
    for level in range(frame.columns.nlevels if frame.columns.nlevels > 1 else 0):
        pandas.testing.assert_frame_equal(found.T.unstack(level), frame.T.unstack(level))


def test_tables_with_other_orders_of_levels_are_not_alike() -> None:
    frame = LEVELS["appearance"]
    sorted_levels = frame.reset_index().set_index(["month", "size"])
    pandas.testing.assert_frame_equal(frame, sorted_levels)
    assert frames.same(frame, sorted_levels) is False
    assert frames.same(LEVELS["what is left"], LEVELS["what is left"].copy()) is True


@serializers
@pytest.mark.parametrize("is_writable", [True, False])
@pytest.mark.parametrize("order", ["C", "F"])
def test_an_array_keeps_its_order_and_its_protection(serializer: Any, order: Any, is_writable: bool) -> None:
    array = numpy.array([[1, 2, 3], [4, 5, 6]], order=order)
    array.flags.writeable = is_writable
    found = serializer.deserialize(serializer.serialize(array))
    assert (found == array).all()
    assert found.strides == array.strides
    assert found.flags.writeable is is_writable


class _Sheet(pandas.DataFrame):
    """A table of a class of its own."""


@serializers
@pytest.mark.parametrize(
    ("value", "advice"),
    [
        (pandas.Series([1, 2], name="n"), "series.to_frame()"),
        (pandas.Index([1, 2]), "index.to_frame(index=False)"),
        (pandas.RangeIndex(3), "index.to_frame(index=False)"),
        (pandas.date_range("2026-01-01", periods=3), "index.to_frame(index=False)"),
        (pandas.MultiIndex.from_product([[1], ["a"]]), "index.to_frame(index=False)"),
        (pandas.Categorical(["a", "b"]), 'pandas.DataFrame({"name": value})'),
        (pandas.Timestamp("2026-01-01T00:00", tz="UTC"), "timestamp.to_pydatetime()"),
        (pandas.Timestamp("2026-01-01T00:00:00.000000001"), "timestamp.to_datetime64()"),
        (pandas.Timedelta("1D"), "delta.to_pytimedelta()"),
        (pandas.Timedelta("1ns"), "delta.to_timedelta64()"),
        (pandas.NaT, "None"),
        (pandas.NA, "None"),
        (_Sheet({"a": [1]}), "pandas.DataFrame(value)"),
    ],
    ids=lambda given: given if isinstance(given, str) else type(given).__name__,
)
def test_a_part_of_a_table_is_refused_with_what_to_store_instead(
    serializer: Any, value: Any, advice: str
) -> None:
    with pytest.raises(TypeError) as raised:
        serializer.serialize({"x": value})
    assert advice in str(raised.value)
    scope = dict.fromkeys(("value", "series", "index", "timestamp", "delta"), value)
    serializer.serialize(eval(advice, {"pandas": pandas}, scope))
    graph = Graph([FunctionNode(lambda x: value, "make", "made")])
    with pytest.warns(UserWarning, match="cannot be stored") as warned:
        SyncRunner(checkpointer=MemoryCheckpointer()).run(graph, x=1, workflow_id="w")
    assert advice in str(warned[0].message)


@serializers
@pytest.mark.parametrize("value", [polars.Series([1]), pyarrow.array([1]), pandas.Interval(0, 1)])
def test_other_parts_of_tables_are_to_become_columns(serializer: Any, value: Any) -> None:
    with pytest.raises(TypeError, match="as a column of a table"):
        serializer.serialize(value)


# -- refusals --------------------------------------------------------------------------------------------

COLUMNS: dict[str, tuple[Any, str]] = {
    "texts": (
        pandas.Series(["a", None], dtype=object),
        'has objects of NoneType, str; store column.astype("string")',
    ),
    "flags": (
        pandas.Series([True, float("nan")], dtype=object),
        'has objects of bool, float; store column.astype("boolean")',
    ),
    "numbers": (
        pandas.Series([1, None], dtype=object),
        'has objects of NoneType, int; store column.astype("Int64")',
    ),
    "shares of numbers": (
        pandas.Series([0.5, None], dtype=object),
        'has objects of NoneType, float; store column.astype("Float64")',
    ),
    "numbers and shares": (
        pandas.Series([1, 0.5], dtype=object),
        'has objects of float, int; store column.astype("Float64")',
    ),
    "long numbers": (
        pandas.Series([2**64, 1], dtype=object),
        "has objects of int; store its values as a list: column.tolist()",
    ),
    "texts and shares": (
        pandas.Series(["a", 0.5], dtype=object),
        "has objects of float, str; store its values as a list: column.tolist()",
    ),
    "flags and shares": (
        pandas.Series([True, 0.5], dtype=object),
        "has objects of bool, float; store its values as a list: column.tolist()",
    ),
    "moments": (
        pandas.Series([pandas.Timestamp("2026-01-01", tz="Europe/Berlin"), pandas.NaT], dtype=object),
        "has objects of NaTType, Timestamp; store pandas.to_datetime(column)",
    ),
    "spans": (
        pandas.Series([pandas.Timedelta("1h"), None], dtype=object),
        "has objects of NoneType, Timedelta; store pandas.to_timedelta(column)",
    ),
    "bytes the other way round": (
        pandas.Series(numpy.array([1, 2], dtype="<i4" if sys.byteorder == "big" else ">i4")),
        'has another byte order; store column.astype(column.dtype.newbyteorder("="))',
    ),
    "small and large": (
        pandas.Series([Decimal("1E-20"), Decimal("1E+20")]),
        "has objects of Decimal; store column.map(str)",
    ),
    "counts and gaps": (
        pandas.Series([1, float("nan")], dtype=object),
        'has objects of float, int; store column.astype("Int64")',
    ),
    "prices": (
        pandas.Series([Decimal("1.20"), Decimal(3)]),
        "has objects of Decimal of several scales; "
        'store column.map(lambda cell: cell.quantize(Decimal("0.01")))',
    ),
    "shares": (
        pandas.Series([Decimal("1.20"), Decimal("NaN")]),
        "has objects of Decimal; store column.map(str)",
    ),
    "lists": (
        pandas.Series([[1, 2], [3]]),
        "has objects of list; store its values as a list: column.tolist()",
    ),
    "mixed": (
        pandas.Series([1, "a"], dtype=object),
        "has objects of int, str; store its values as a list: column.tolist()",
    ),
    "bins": (
        pandas.Series(pandas.cut([1, 9], 3)),
        "of CategoricalDtype with IntervalDtype cannot be stored; store column.astype(str)",
    ),
    "rare": (pandas.Series(pandas.arrays.SparseArray([0, 1])), "is sparse; store column.sparse.to_dense()"),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_a_refusal_names_the_column_and_what_to_store(name: str) -> None:
    column, text = COLUMNS[name]
    frame, serializer = pandas.DataFrame({"n": [1, 2], name: column}), JsonSerializer()
    with pytest.raises(TypeError) as refused:
        serializer.serialize([frame])
    assert f"column {name!r} {text}" in str(refused.value)
    assert public_text(refused.value).endswith(text.split("; ")[1] + str(refused.value).split(text)[1])
    assert name not in public_text(refused.value).replace(text, "")
    assert f"column {name!r} {text}" in public_text(refused.value, keys=True)
    code = re.split("store (?:its values as a list: )?", text)[1]
    instead = eval(code, {"column": column, "Decimal": Decimal, "pandas": pandas})
    if "str" not in code:  # the same values, of one type
        cells = [cell for cell, is_gone in zip(instead, column.isna(), strict=True) if not is_gone]
        assert cells == column.dropna().tolist()
    stored = {"found": instead} if isinstance(instead, list) else frame.assign(**{name: instead})
    serializer.deserialize(serializer.serialize(stored))


def test_a_refusal_tells_of_names_index_and_flags() -> None:
    double = pandas.DataFrame([[1, 2]], columns=["a", "a"])
    odd = pandas.DataFrame({"n": [1, 2]}, index=pandas.Index([1, "a"], dtype=object))
    flagged = pandas.DataFrame({"n": [1]}).set_flags(allows_duplicate_labels=False)
    for frame, text in ((double, "one name"), (odd, "frame.reset_index()"), (flagged, "its flags")):
        with pytest.raises(TypeError, match=re.escape(text)):
            JsonSerializer().serialize(frame)


def test_a_refusal_of_decimals_keeps_every_digit_and_what_is_missing() -> None:
    frame = pandas.DataFrame({"p": [Decimal("1.5"), None, Decimal("1.250"), Decimal("2E+3")]})
    with pytest.raises(TypeError, match=r"of several scales; store column\.map\(.*\)") as refused:
        JsonSerializer().serialize(frame)
    code = str(refused.value).partition("column.")[2]
    instead = frame.assign(p=eval(f"column.{code}", {"column": frame["p"], "Decimal": Decimal}))
    found = JsonSerializer().deserialize(JsonSerializer().serialize(instead))
    assert [str(cell) for cell in found["p"]] == ["1.500", "None", "1.250", "2000.000"]


@serializers
def test_a_refusal_of_arrow_types_that_pandas_does_not_find_names_the_table_of_arrow(serializer: Any) -> None:
    kind = pandas.ArrowDtype(pyarrow.decimal128(5, 2))
    frame = pandas.DataFrame({"p": pandas.Series([Decimal("1.20"), None], dtype=kind)})
    with pytest.raises(TypeError, match=r"'p' of ArrowDtype .*: pyarrow\.Table\.from_pandas\(frame\)"):
        serializer.serialize(frame)
    found = serializer.deserialize(serializer.serialize(pyarrow.Table.from_pandas(frame)))
    assert_same(found.to_pandas(types_mapper=pandas.ArrowDtype), frame)


@pytest.mark.parametrize("label", [False, pandas.Period("2026-01", "M")])
def test_a_refusal_of_a_label_does_not_blame_the_column(label: Any) -> None:
    with pytest.raises(TypeError, match="its column names would come back changed"):
        JsonSerializer().serialize(pandas.DataFrame([[1]], columns=[label]))
