"""Tables of pandas, polars and pyarrow as Arrow streams.

A library is imported only to rebuild a stored table. Arrow does not keep everything that a data frame can
hold, so each table is read back before it is stored, and refused if it changed.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

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
        arrow = importlib.import_module("pyarrow")
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
        table = arrow.ipc.open_stream(data).read_all()
    except arrow.ArrowInvalid as error:
        raise ValueError(f"not an Arrow stream: {error}") from None
    if kind == "pyarrow":
        return table
    if kind == "pandas":
        return table.to_pandas()
    return importlib.import_module("polars").from_arrow(table)


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
