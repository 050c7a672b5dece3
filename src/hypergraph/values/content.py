"""Content of arrays and tables as plain parts: equal ones have equal parts, however they lie in memory.

Copies, slices and what was read back differ in blocks, chunks, strides, and in what stands under a missing
value. The parts are for comparison only; no array or table is made of them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import lru_cache
from itertools import accumulate
from typing import Any

_LIBRARIES = frozenset({"numpy", "pandas", "polars", "pyarrow"})
_NOT_ITS_MEMORY = "gGOTV"  # dtypes whose bytes are not the whole content, or more than that
_MANY = 1000  # texts from which on it takes less time to have Arrow write them
Parts = tuple[Any, ...]


def parts_of(value: Any) -> Parts | None:
    """Return the content of an array or table, None for other values.

    Among the parts may be objects: cells of a column, labels, arrays of other libraries.
    """
    kind: Any = type(value)
    make = _maker_of(kind)
    return None if make is None else make(value)


@lru_cache(maxsize=1024)
def _maker_of(kind: Any) -> Callable[[Any], Parts | None] | None:
    """Return what makes the parts of values of a class. Subclasses may hold more, and have none."""
    library = kind.__module__.partition(".")[0]
    if library not in _LIBRARIES:
        return None
    loaded = sys.modules[library]
    if library == "pandas":
        for name, make in _OF_PANDAS.items():
            if kind is getattr(loaded, name, None):
                return make
        if issubclass(kind, loaded.Index):
            return _index
        return _extension if issubclass(kind, loaded.api.extensions.ExtensionArray) else None
    of_library = {"numpy": _OF_NUMPY, "polars": _OF_POLARS, "pyarrow": _OF_ARROW}[library]
    found = (make for name, make in of_library.items() if kind is getattr(loaded, name, None))
    is_array = library == "pyarrow" and issubclass(kind, loaded.Array)
    return next(found, _arrow_array if is_array else None)


# --- numpy ---------------------------------------------------------------------------------------


def _array(value: Any) -> Parts | None:
    dtype = value.dtype
    if dtype.hasobject and dtype.fields is None:
        return "numpy", "object", value.shape, _cells(value.ravel().tolist())
    if dtype.char in _NOT_ITS_MEMORY or dtype.fields is not None or dtype.metadata:
        return None
    return "numpy", dtype.str, value.shape, _memory(value)


def _memory(array: Any) -> bytes:
    """Return the bytes of an array in C order, with one NaN for all: they differ by what computed them."""
    if array.dtype.kind == "f":
        unknown = array != array  # noqa: PLR0124 - where it is NaN
        if unknown.any():
            array = array.copy()
            array[unknown] = float("nan")
    data: bytes = array.tobytes()
    return data


def _cells(cells: list[Any]) -> Any:
    """Return cells as they are, and texts at once: a column has many."""
    if not cells or {*map(type, cells)} != {str}:
        return cells
    ends = ",".join(map(str, accumulate(map(len, cells))))
    return "texts", ends, "".join(cells).encode("utf-8", "surrogatepass")


# --- pandas --------------------------------------------------------------------------------------


def _frame(frame: Any) -> Parts:
    kinds = set(frame.dtypes)
    if len(kinds) == 1 and not getattr(kinds.pop(), "hasobject", True):  # all are one array of numpy
        return "frame", *_about(frame), _index(frame.columns), _column(frame.to_numpy())
    columns = [_column(column.array) for _, column in frame.items()]
    return "frame", *_about(frame), _index(frame.columns), columns


def _series(series: Any) -> Parts:
    return "series", *_about(series), series.name, _column(series.array)


def _about(value: Any) -> Parts:
    return value.attrs, value.flags.allows_duplicate_labels, _index(value.index)


def _index(index: Any) -> Parts:
    kind, names = type(index).__name__, list(index.names)
    if kind == "RangeIndex":
        return kind, names, index.start, index.stop, index.step
    if kind == "MultiIndex":
        rows = [_column(index.get_level_values(n).array) for n in range(index.nlevels)]
        # Where each row is in its level: `unstack` goes by the order of the levels.
        return kind, names, rows, [_memory(places) for places in index.remove_unused_levels().codes]
    return kind, names, getattr(index, "freqstr", None), _column(index.array)


def _column(array: Any) -> Any:
    """Return the content of a column, or the array itself if it is of another library."""
    found = parts_of(array)
    return array if found is None else found


def _extension(array: Any) -> Parts | None:
    kind, dtype = type(array).__name__, array.dtype
    if kind == "NumpyExtensionArray":
        return "extension", _column(array.to_numpy())
    if kind == "Categorical":
        return "category", dtype.ordered, _index(dtype.categories), _memory(array.codes)
    if (integers := getattr(array, "asi8", None)) is not None:
        zone = getattr(dtype, "tz", None)
        return "times", str(dtype), str(type(zone)), _memory(integers)
    if (plain := getattr(dtype, "numpy_dtype", None)) is not None and kind != "ArrowExtensionArray":
        return "masked", str(dtype), _memory(array.isna()), _memory(array.to_numpy(dtype=plain, na_value=0))
    if kind.endswith("StringArray") and (len(array) < _MANY or not kind.startswith("Arrow")):
        missing, cells = array.isna(), array.to_numpy(object)
        return "strings", repr(dtype), _memory(missing), _cells(cells[~missing].tolist())
    if kind.startswith("Arrow"):
        return "arrow", repr(dtype), _arrow_array(array.__arrow_array__())
    if kind == "SparseArray":
        return "sparse", str(dtype), _column(array.to_dense())
    if kind == "IntervalArray":
        return "intervals", str(dtype), _column(array.left.array), _column(array.right.array)
    return None


# --- polars --------------------------------------------------------------------------------------


def _polars_frame(frame: Any) -> Parts:
    return "polars", frame.shape, [_polars_series(column) for column in frame.get_columns()]


def _polars_series(series: Any) -> Parts:
    dtype, about = series.dtype, (series.name, repr(series.dtype), len(series))
    missing = _memory(series.is_null().to_numpy()) if series.null_count() else b""
    there = series.drop_nulls() if missing else series
    bits = dtype.is_integer() or dtype.is_float() or (dtype.is_temporal() and not dtype.is_nested())
    if bits and "128" not in about[1]:
        return "series", *about, missing, _memory(there.to_physical().to_numpy())
    categories = getattr(dtype, "categories", None) if about[1].startswith("Enum") else None
    order = None if categories is None else categories.to_list()
    return "series", *about, order, missing, _cells(there.to_list())


# --- pyarrow -------------------------------------------------------------------------------------


def _arrow_table(table: Any) -> Parts:
    columns = [_arrow_array(column) for column in table.columns]
    return "arrow", table.schema.serialize().to_pybytes(), table.num_rows, columns


def _arrow_array(array: Any) -> Parts:
    arrow = sys.modules["pyarrow"]
    whole = array.combine_chunks() if hasattr(array, "combine_chunks") else array
    if not whole.null_count:
        return str(whole.type), len(whole), _stream(arrow, whole)
    return str(whole.type), len(whole), _stream(arrow, whole.is_valid()), _stream(arrow, whole.drop_null())


def _stream(arrow: Any, array: Any) -> bytes:
    table = arrow.Table.from_arrays([array], names=[""])
    sink = arrow.BufferOutputStream()
    with arrow.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    data: bytes = sink.getvalue().to_pybytes()
    return data


_Makers = dict[str, Callable[[Any], Parts | None]]
_OF_NUMPY: _Makers = {"ndarray": _array}
_OF_PANDAS: _Makers = {"DataFrame": _frame, "Series": _series}
_OF_POLARS: _Makers = {"DataFrame": _polars_frame, "Series": _polars_series}
_OF_ARROW: _Makers = {"Table": _arrow_table, "RecordBatch": _arrow_table, "ChunkedArray": _arrow_array}
