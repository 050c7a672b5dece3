"""Tables of pandas, polars and pyarrow as Arrow streams.

A library is imported only to rebuild a stored table. Arrow does not keep everything that a data frame can
hold, so each table is read back before it is stored, and refused if it changed.
"""

from __future__ import annotations

import struct
import sys
from datetime import UTC
from decimal import Decimal, getcontext
from typing import Any

from hypergraph.values.libraries import installed
from hypergraph.values.limits import memory_for
from hypergraph.values.tags import Blob, Parts, checked
from hypergraph.values.undecodable import refusal, with_public_text

NAMES = frozenset({"frame"})
_LONGEST = 64  # characters of a frequency
_INSTEAD = {  # of what a table is made of, what is stored
    "Series": "store it as a table: series.to_frame()",
    "Index": "store it as a table: index.to_frame(index=False)",
    "DataFrame": "it would come back as a plain table: store pandas.DataFrame(value)",
    "Categorical": 'store it as a column of a table: pandas.DataFrame({"name": value})',
    "Timestamp": "store timestamp.to_pydatetime(), or timestamp.to_datetime64() to keep nanoseconds",
    "Timedelta": "store delta.to_pytimedelta(), or delta.to_timedelta64() to keep nanoseconds",
    "NaTType": "store None",
    "NAType": "store None",
}
_LIBRARIES = frozenset({"pandas", "polars", "pyarrow"})
_PARTS = "store it as a column of a table, or its parts as plain data"
_SAFE = (14, 0, 1)  # earlier releases of pyarrow can be made to run code by the data they read


def to_parts(value: Any) -> tuple[str, Parts] | None:
    """Return tag and parts of a table, None for other values.

    Raises TypeError for tables that Arrow would change, ImportError without pyarrow.
    """
    kind = _kind_of(value)
    if kind is None:
        return None
    if kind == "pandas" and value.attrs:
        raise refusal("its attrs would be lost; clear them, or return them as a separate output")
    try:
        table = _table(kind, value)
        data = _to_stream(table)
        parts: Parts = {"of": kind, "v": Blob(data)}
        if extensions := _extensions(table.schema):
            parts["extensions"] = extensions  # a process that does not know them would read what they hold
        copy = _from_arrow(kind, data, extensions)
        if kind == "pandas" and (details := _details(value, copy)):
            parts["details"] = details
        is_exact = _is_same(kind, value, _with_details(copy, parts.get("details")), data)
    except ImportError:
        raise
    except Exception as error:
        raise _refused(kind, value, f"Arrow cannot store it: {error}") from error
    if not is_exact:
        raise _refused(kind, value, "Arrow would change it")
    return "frame", parts


def _refused(kind: str, value: Any, why: str) -> TypeError:
    """Return the error for a table that is not stored: it names the column, and what to do."""
    if kind != "pandas":
        return TypeError(why)
    text = ""
    if not value.columns.is_unique:
        text = "several of its columns have one name; give each a name of its own"
    elif not value.flags.allows_duplicate_labels:
        text = "its flags would be lost; clear them with set_flags(allows_duplicate_labels=True)"
    if text:
        return refusal(text)
    for number, name in enumerate(value.columns):
        column = value.iloc[:, number].reset_index(drop=True).rename("column")  # a label may be at fault, too
        if not _comes_back(column.to_frame()):
            what, remedy = _about(column)
            public = f"a column {what}; {remedy}"
            shown = repr(name) if isinstance(name, str | int) else f"number {number}"
            text = f"column {shown} {what}; {remedy}"
            return with_public_text(TypeError(text), public, text)
    if not _comes_back(value.reset_index(drop=True)):
        text = "its column names would come back changed; let each be a text"
    else:
        text = "its index would come back changed; make it a column: frame.reset_index()"
    return with_public_text(TypeError(f"{text} ({why})"), text)


def _comes_back(frame: Any) -> bool:
    """Say whether Arrow gives a data frame of pandas back as it is."""
    try:
        data = _to_stream(_table("pandas", frame))
        copy = _from_arrow("pandas", data, _extensions(_table("pandas", frame).schema))
        return _is_same("pandas", frame, _with_details(copy, _details(frame, copy) or None), data)
    except Exception:  # Arrow cannot store it at all
        return False


def _about(column: Any) -> tuple[str, str]:
    """Return what is the matter with a column of pandas, and what to store instead."""
    kind = column.dtype
    if column.dtype == object:
        types = sorted({type(cell).__name__ for cell in column})
        if (places := _decimal_places(column)) is not None:
            cell = f'lambda cell: cell.quantize(Decimal("{Decimal(1).scaleb(-places)}"))'
            ignored = ', na_action="ignore"' if "NoneType" in types else ""
            return "has objects of Decimal of several scales", f"store column.map({cell}{ignored})"
        what = f"has objects of {', '.join(types[:_TYPES])}{', ...' if len(types) > _TYPES else ''}"
        kinds = {_kind_of_cell(cell) for cell in column}
        return what, next((do for known, do in _INSTEAD_OF_OBJECTS if known >= kinds), _AS_LIST)
    if "Sparse" in str(kind):
        return "is sparse", "store column.sparse.to_dense()"
    if type(kind).__name__ == "ArrowDtype":  # pandas does not find every one of them by its name
        return "of ArrowDtype cannot be stored", "store the table of Arrow: pyarrow.Table.from_pandas(frame)"
    if getattr(kind, "byteorder", "=") in ("<", ">"):  # that of this machine is "="
        return "has another byte order", 'store column.astype(column.dtype.newbyteorder("="))'
    parts = getattr(kind, "categories", None)
    inner = "" if parts is None else f" with {type(parts.dtype).__name__}"
    return f"of {type(kind).__name__}{inner} cannot be stored", "store column.astype(str)"


def _decimal_places(column: Any) -> int | None:
    """Return the decimal places that all cells of several scales have room in, None for other columns."""
    cells = [cell for cell in column if cell is not None]
    if not all(type(cell) is Decimal and cell.is_finite() for cell in cells):
        return None
    scales = {int(cell.as_tuple().exponent) for cell in cells}
    places = max(0, -min(scales, default=0))
    has_room = all(cell.adjusted() + places < getcontext().prec for cell in cells)  # else quantize() raises
    return places if len(scales) > 1 and has_room else None


def _kind_of_cell(cell: Any) -> str:
    """Return the type of a cell by name: "NaN" for NaN, and "" for an integer of more than 64 bits."""
    if type(cell) is float and cell != cell:  # noqa: PLR0124 - NaN differs from itself
        return "NaN"
    return "" if type(cell) is int and cell.bit_length() > _BITS else type(cell).__name__


_TYPES = 4  # that a message names
_BITS = 63  # without the sign
_EMPTY = frozenset({"NoneType", "NaN", "NAType", "NaTType"})
_AS_LIST = "store its values as a list: column.tolist(), or column.astype(str)"
_INSTEAD_OF_OBJECTS = (  # what a column of these types is stored as
    (_EMPTY | {"str"}, 'store column.astype("string")'),
    (_EMPTY | {"bool"}, 'store column.astype("boolean")'),
    (_EMPTY - {"NaTType"} | {"int"}, 'store column.astype("Int64")'),
    (_EMPTY - {"NaTType"} | {"int", "float"}, 'store column.astype("Float64")'),
    (_EMPTY | {"Timestamp"}, "store pandas.to_datetime(column)"),
    (_EMPTY | {"Timedelta"}, "store pandas.to_timedelta(column)"),
    (_EMPTY | {"Decimal"}, "store column.map(str), or its values as a list: column.tolist()"),
    (_EMPTY | {"list", "tuple", "dict", "set"}, "store its values as a list: column.tolist()"),
)


def advice(kind: type[Any]) -> str | None:
    """Return what to store instead of a part of a table, None for other classes.

    >>> advice(int)
    """
    found = [base for base in kind.__mro__ if base.__module__.partition(".")[0] in _LIBRARIES]
    named = (_INSTEAD.get(base.__name__) for base in found if base.__module__.startswith("pandas"))
    return next(filter(None, named), _PARTS) if found else None


def from_parts(tag: str, of: object, v: object, details: object = None, extensions: object = None) -> Any:
    """Return the table of these parts. Raises ValueError, or ImportError without the library."""
    kind = checked(of, str)
    if kind not in ("pandas", "polars", "pyarrow"):
        raise ValueError(f"unknown kind of table {kind!r}")
    if details is not None and kind != "pandas":
        raise ValueError("only data frames of pandas have details")
    named = [] if extensions is None else [checked(name, str) for name in checked(extensions, list)]
    return _with_details(_from_arrow(kind, checked(v, bytes), named), details)


def _details(frame: Any, copy: Any) -> Parts:
    """Return what Arrow does not keep of a pandas data frame: frequencies, a range of columns, UTC, levels.

    `copy` is what Arrow makes of it.
    """
    axes = (frame.index, frame.columns)
    details: Parts = {}
    freqs = [getattr(getattr(axis, "freq", None), "freqstr", None) for axis in axes]
    if any(freqs) and not any(type(axis).__name__ == "PeriodIndex" for axis in axes):
        details["freq"] = freqs
    if type(frame.columns).__name__ == "RangeIndex":
        details["range"] = [frame.columns.start, frame.columns.stop, frame.columns.step]
    zones = [getattr(axis, "tz", None) for axis in axes] + [getattr(t, "tz", None) for t in frame.dtypes]
    utc = [number for number, zone in enumerate(zones) if zone is UTC]
    if utc:
        details["utc"] = utc  # 0 is the index, 1 the columns, the others are columns one by one
    orders = [_orders(*both) for both in zip(axes, (copy.index, copy.columns), strict=True)]
    if any(orders):
        details["levels"] = orders
    return details


def _orders(axis: Any, copy: Any) -> list[list[int]]:
    """Return where each value of the levels of a copied axis, and NaN, was in the axis; [] if just there.

    The order of a level is part of a table: `unstack` makes its columns in this order. Arrow keeps the labels
    of the rows, and pandas sorts the values of a level when it reads them. `groupby(dropna=False)` puts NaN
    among the values; where it is not, its place is -1. Values that no row has are not kept: only the level
    itself shows them.
    """
    if axis.nlevels != copy.nlevels:
        return []
    levels = [*zip(_levels(axis), _levels(copy), strict=True)]
    if all(ours.equals(theirs) for ours, theirs in levels):
        return []
    places = []
    for ours, theirs in levels:
        known = {value: place for place, value in enumerate(ours)}
        missing = next((place for place, is_missing in enumerate(ours.isna()) if is_missing), -1)
        places.append([*(known.get(value, -1) for value in theirs), missing])
        if not _is_order(places[-1]) or len(theirs) + (missing >= 0) != len(ours):
            return []  # the comparison with the copy finds it
    return places


def _is_order(places: list[int]) -> bool:
    """Say whether these are places of values, each another one, and of NaN, or -1 without it."""
    filled = places[:-1] if places[-1:] == [-1] else places
    return bool(places) and sorted(filled) == list(range(len(filled)))


def _levels(axis: Any) -> list[Any]:
    """Return the values of each level of an axis that some row has, in the order of the level."""
    return list(axis.remove_unused_levels().levels) if axis.nlevels > 1 else []


def _reorder(frame: Any, orders: object) -> None:
    """Give the levels of index and columns another order. Raises ValueError for orders that do not fit."""
    for name, order in zip(("index", "columns"), checked(orders, list), strict=True):
        if checked(order, list):
            setattr(frame, name, _reordered(getattr(frame, name), order))


def _reordered(axis: Any, order: list[Any]) -> Any:
    places = [[checked(place, int) for place in checked(each, list)] for each in order]
    levels = _levels(axis)
    if not all(map(_is_order, places)) or [len(e) - 1 for e in places] != [len(level) for level in levels]:
        raise ValueError("an order of other levels")
    numpy = installed("numpy")
    moved, codes = [], []
    for level, place, code in zip(levels, places, axis.remove_unused_levels().codes, strict=True):
        ordered = level.take(numpy.argsort(place[:-1]))
        moved.append(ordered if place[-1] < 0 else ordered.insert(place[-1], None))
        codes.append(numpy.array(place)[code])  # the code of a missing label is -1
    # Otherwise pandas would take NaN out of its place.
    return type(axis)(levels=moved, codes=codes, names=axis.names, verify_integrity=False)


def _with_details(frame: Any, details: object) -> Any:
    """Return the data frame with what Arrow did not keep. Raises ValueError for details that do not fit."""
    if details is None:
        return frame
    found = checked(details, dict)
    if not found.keys() <= {"freq", "range", "utc", "levels"}:
        raise ValueError("unknown details of a data frame")
    for number in checked(found.get("utc", []), list):
        if not 0 <= checked(number, int) < 2 + len(frame.columns):
            raise ValueError("a time zone of no column")
        if number == 0:
            frame.index = frame.index.tz_convert(UTC)
        elif number == 1:
            frame.columns = frame.columns.tz_convert(UTC)
        else:
            frame.isetitem(number - 2, frame.iloc[:, number - 2].dt.tz_convert(UTC))
    pandas = installed("pandas")
    if "range" in found:
        start, stop, step = (checked(number, int) for number in checked(found["range"], list))
        if len(range(start, stop, step)) != len(frame.columns):
            raise ValueError("a range of other columns")
        frame.columns = pandas.RangeIndex(start, stop, step, name=frame.columns.name)
    _reorder(frame, found.get("levels", [[], []]))
    freqs = checked(found.get("freq", [None, None]), list)
    for axis, text in zip((frame.index, frame.columns), freqs, strict=True):
        if text is not None:
            if len(checked(text, str)) > _LONGEST:
                raise ValueError("a frequency of no date range")
            axis.freq = pandas.tseries.frequencies.to_offset(text)
    return frame


def same(a: Any, b: Any) -> bool | None:
    """Say whether two tables are alike, to the type of each column; None if they are not two of one kind."""
    kind = _kind_of(a)
    return None if kind is None or kind != _kind_of(b) else _is_same(kind, a, b)


def _kind_of(value: Any) -> str | None:
    return next((name for name, cls in _classes().items() if type(value) is cls), None)


def _classes() -> dict[str, Any]:
    """Return the table classes of loaded libraries."""
    found = {"pandas": "DataFrame", "polars": "DataFrame", "pyarrow": "Table"}
    loaded = {name: sys.modules[name] for name in found if name in sys.modules}
    return {name: getattr(module, found[name], None) for name, module in loaded.items()}


def _arrow() -> Any:
    try:
        arrow = installed("pyarrow")
    except ImportError:
        raise ImportError('pyarrow is not installed: pip install "hypergraph[arrays]"') from None
    if tuple(int(part) for part in arrow.__version__.split(".")[:3] if part.isdigit()) < _SAFE:
        raise ImportError(f"pyarrow {arrow.__version__} has a security hole; install 15 or newer")
    return arrow


def _table(kind: str, value: Any) -> Any:
    arrow = _arrow()
    if kind == "pandas":
        return arrow.Table.from_pandas(value)
    return value.to_arrow() if kind == "polars" else value


def _to_stream(table: Any) -> memoryview:
    arrow = _arrow()
    sink = arrow.BufferOutputStream()
    with arrow.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
        if not table.num_rows and any(map(arrow.types.is_dictionary, table.schema.types)):
            # Without a batch the categories are lost: they travel with the first one.
            chunks = [column.chunk(0) for column in table.columns if column.num_chunks]
            if len(chunks) == table.num_columns:
                writer.write_batch(arrow.RecordBatch.from_arrays(chunks, schema=table.schema))
    return memoryview(sink.getvalue())


def _extensions(schema: Any) -> list[str]:
    """Return the names of the types that are not of Arrow, like periods of pandas."""
    arrow, found, waiting = _arrow(), set(), [field.type for field in schema]
    for kind in waiting:
        if isinstance(kind, arrow.BaseExtensionType):
            found.add(kind.extension_name)
            waiting.append(kind.storage_type)
        elif arrow.types.is_dictionary(kind):
            waiting.append(kind.value_type)
        else:
            waiting += [kind.field(number).type for number in range(kind.num_fields)]
    return sorted(found)


def _from_arrow(kind: str, data: bytes | memoryview, extensions: list[str]) -> Any:
    arrow = _arrow()
    if kind == "pandas":  # makes its types known, which pandas does when it first needs them
        arrow.array(installed("pandas").PeriodIndex([], freq="D"))
    try:
        for message in arrow.ipc.MessageReader.open_stream(data):
            if _is_compressed(bytes(message.metadata)):
                raise ValueError("compressed Arrow data; a codec of the store has a limit, Arrow has none")
        table = arrow.ipc.open_stream(data).read_all()
        table.validate(full=True)  # without it, offsets lead to any place in memory
    except (arrow.ArrowException, struct.error) as error:
        raise ValueError(f"not an Arrow stream: {error}") from None
    if table.nbytes > len(data):
        raise ValueError("columns of an Arrow stream overlap")
    if unknown := {*extensions}.difference(_extensions(table.schema)):
        raise ValueError(f"its type {min(unknown)[:_LONGEST]!r} is not known to pyarrow in this process")
    if kind == "pyarrow":
        return table
    _check_memory(arrow, table, len(data))
    return table.to_pandas() if kind == "pandas" else _to_polars(table)


def _to_polars(table: Any) -> Any:
    polars = installed("polars")
    try:
        return polars.from_arrow(table)
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # of Rust, where polars expects no such data
            raise
        raise ValueError(f"polars cannot read it: {error}") from None


_CELL, _OBJECT = 8, 128  # bytes of memory of a number, and of a Python object
_RECORD_BATCH, _DICTIONARY_BATCH = 3, 2  # kinds of messages


def _is_compressed(metadata: bytes) -> bool:
    """Return whether the body of a message is compressed; raises struct.error for nonsense.

    pyarrow does not tell, and decompresses whatever size a message claims. A message is a FlatBuffer: a
    table begins with the distance to the list of the places of its fields.
    """
    root = _number("<I", metadata, 0)
    kind = _field(metadata, root, 1)
    header = _field(metadata, root, 2)
    if not kind or not header or metadata[kind] not in (_RECORD_BATCH, _DICTIONARY_BATCH):
        return False
    batch = header + _number("<I", metadata, header)
    if metadata[kind] == _DICTIONARY_BATCH:
        inner = _field(metadata, batch, 1)
        if not inner:
            return False
        batch = inner + _number("<I", metadata, inner)
    return bool(_field(metadata, batch, 3))


def _field(data: bytes, table: int, number: int) -> int:
    """Return the place of a field of a table, 0 if the table has no such field."""
    fields = table - _number("<i", data, table)
    place = 4 + 2 * number
    found = _number("<H", data, fields + place) if place < _number("<H", data, fields) else 0
    return table + found if found else 0


def _number(kind: str, data: bytes, place: int) -> int:
    if place < 0:
        raise struct.error("a place before the beginning")
    return int(struct.unpack_from(kind, data, place)[0])


def _check_memory(arrow: Any, table: Any, size: int) -> None:
    """Raise ValueError if a data frame of this table would take too much memory.

    Some types of Arrow take no bytes per row, or refer many times to the same bytes; cells of a data frame
    do not.
    """
    cells = sum(_cell_size(arrow, field.type) for field in table.schema)
    if cells * table.num_rows > memory_for(size):
        raise ValueError(f"{table.num_rows} rows are too many for {size} bytes")


def _cell_size(arrow: Any, kind: Any) -> int:
    types = arrow.types
    if types.is_run_end_encoded(kind) or types.is_union(kind) or types.is_list_view(kind):
        raise ValueError(f"data frames have no columns of type {kind}")
    if types.is_nested(kind):
        children = (kind.field(number).type for number in range(kind.num_fields))
        width = kind.list_size if types.is_fixed_size_list(kind) else 1
        return _OBJECT + width * sum(_cell_size(arrow, child) for child in children)
    return _OBJECT if types.is_decimal(kind) or types.is_date(kind) or types.is_time(kind) else _CELL


def _is_same(kind: str, value: Any, copy: Any, data: memoryview | None = None) -> bool:
    """Say whether two tables are alike; `data` is the first one as a stream, if it is known."""
    if kind == "pyarrow":  # a NaN differs from itself, but not in its bytes
        is_equal = value.equals(copy) or _to_stream(copy) == (_to_stream(value) if data is None else data)
        return bool(is_equal and value.schema.equals(copy.schema, check_metadata=True))
    if kind == "polars":
        return bool(value.schema == copy.schema and value.equals(copy, null_equal=True))
    pandas = sys.modules["pandas"]
    value, copy = _with_plain_levels(value), _with_plain_levels(copy)
    try:
        pandas.testing.assert_frame_equal(
            value, copy, check_exact=True, check_freq=True, check_index_type=True, check_column_type=True
        )
    except AssertionError:
        return False
    ours, theirs = ([*map(_levels, (frame.index, frame.columns))] for frame in (value, copy))
    if not all(a.equals(b) for both in zip(ours, theirs, strict=True) for a, b in zip(*both, strict=True)):
        return False
    return _axes_of(value) == _axes_of(copy) and all(
        _is_same_cell(a, b)
        for ours, theirs in zip(_objects_of(value), _objects_of(copy), strict=True)
        for a, b in zip(ours, theirs, strict=True)
    )


def _with_plain_levels(frame: Any) -> Any:
    """Return the data frame with numbers in place of the ranges among the levels of its axes.

    pandas keeps counted rows as a range, such as those that concat(keys=...) and stack() put below another
    level. Arrow writes the numbers. Nothing that is asked of a level tells one from the other.
    """
    index = sys.modules["pandas"].Index
    for name in ("index", "columns"):
        axis = getattr(frame, name)
        levels = getattr(axis, "levels", ())
        ranges = [place for place, level in enumerate(levels) if type(level).__name__ == "RangeIndex"]
        if ranges:
            plain = [index(levels[place].to_numpy()) for place in ranges]
            frame = frame.copy(deep=False)
            setattr(frame, name, axis.set_levels(plain, level=ranges, verify_integrity=False))
    return frame


def _objects_of(frame: Any) -> list[Any]:
    """Return the columns, levels of the axes and categories that are Python objects."""
    columns = [frame.iloc[:, number] for number, kind in enumerate(frame.dtypes) if _may_hold_objects(kind)]
    levels = [axis.get_level_values(n) for axis in (frame.index, frame.columns) for n in range(axis.nlevels)]
    found = [getattr(part.dtype, "categories", part) for part in (*columns, *levels)]
    return [part for part in found if part.dtype == object]


def _may_hold_objects(kind: Any) -> bool:
    return kind == object or getattr(kind, "categories", None) is not None  # noqa: E721 - a dtype


def _axes_of(frame: Any) -> list[Any]:
    """Return what a comparison of data frames leaves out: frequencies, and the kinds of time zones."""
    axes = (frame.index, frame.columns)
    zones = [getattr(axis, "tz", None) for axis in axes] + [getattr(t, "tz", None) for t in frame.dtypes]
    return [*(getattr(axis, "freq", None) for axis in axes), *((type(zone), str(zone)) for zone in zones)]


def _is_same_cell(a: Any, b: Any) -> bool:
    if type(a) is not type(b):
        return False
    if type(a) is dict:
        return list(a) == list(b) and all(map(_is_same_cell, a.values(), b.values()))
    if type(a) in (list, tuple):
        return len(a) == len(b) and all(map(_is_same_cell, a, b))
    if type(a) is Decimal:
        return bool(a.as_tuple() == b.as_tuple())
    return bool(a == b) or bool(a != a and b != b)  # noqa: PLR0124 - NaN and NaT differ from themselves
