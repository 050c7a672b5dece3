"""Tables of pandas, polars and pyarrow as Arrow streams.

A library is imported only to rebuild a stored table. Arrow does not keep everything that a data frame can
hold, so each table is read back before it is stored, and refused if it changed.
"""

from __future__ import annotations

import struct
import sys
from typing import Any

from hypergraph.values.libraries import installed
from hypergraph.values.limits import memory_for
from hypergraph.values.tags import Blob, Parts, checked

NAMES = frozenset({"frame"})
_SAFE = (14, 0, 1)  # earlier releases of pyarrow can be made to run code by the data they read


def to_parts(value: Any) -> tuple[str, Parts] | None:
    """Return tag and parts of a table, None for other values.

    Raises TypeError for tables that Arrow would change, ImportError without pyarrow.
    """
    kind = next((name for name, cls in _classes().items() if type(value) is cls), None)
    if kind is None:
        return None
    if kind == "pandas" and value.attrs:
        raise TypeError("its attrs would be lost; clear them, or return them as a separate output")
    try:
        data = _to_arrow(kind, value)
        same = _is_same(kind, value, _from_arrow(kind, data))
    except ImportError:
        raise
    except Exception as error:
        raise TypeError(f"Arrow cannot store it: {error}") from error
    if not same:
        raise TypeError("Arrow would change it")
    return "frame", {"of": kind, "v": Blob(data)}


def from_parts(tag: str, of: object, v: object) -> Any:
    """Return the table of these parts. Raises ValueError, or ImportError without the library."""
    kind = checked(of, str)
    if kind not in ("pandas", "polars", "pyarrow"):
        raise ValueError(f"unknown kind of table {kind!r}")
    return _from_arrow(kind, checked(v, bytes))


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


def _to_arrow(kind: str, value: Any) -> memoryview:
    arrow = _arrow()
    table = arrow.Table.from_pandas(value) if kind == "pandas" else value
    table = table.to_arrow() if kind == "polars" else table
    sink = arrow.BufferOutputStream()
    with arrow.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return memoryview(sink.getvalue())


def _from_arrow(kind: str, data: bytes | memoryview) -> Any:
    arrow = _arrow()
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
    if kind == "pyarrow":
        return table
    _check_memory(arrow, table, len(data))
    return table.to_pandas() if kind == "pandas" else installed("polars").from_arrow(table)


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


def _is_same(kind: str, value: Any, copy: Any) -> bool:
    if kind == "pyarrow":
        return bool(value.schema.equals(copy.schema, check_metadata=True) and value.equals(copy))
    if kind == "polars":
        return bool(value.schema == copy.schema and value.equals(copy, null_equal=True))
    pandas = sys.modules["pandas"]
    try:
        pandas.testing.assert_frame_equal(value, copy, check_exact=True, check_freq=False)
    except AssertionError:
        return False
    return all(
        type(a) is type(b)
        for column in value.columns
        if value[column].dtype == object
        for a, b in zip(value[column], copy[column], strict=True)
    )
