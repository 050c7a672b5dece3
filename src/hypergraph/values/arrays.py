"""numpy arrays and scalars as dtype, shape and raw bytes.

numpy is imported only to rebuild a stored array. Fortran order and write protection are kept; views with gaps
come back in C order.
"""

from __future__ import annotations

import math
import re
import sys
from typing import Any

from hypergraph.values.libraries import installed
from hypergraph.values.tags import Blob, Parts, checked
from hypergraph.values.undecodable import refusal, with_public_text

NAMES = frozenset({"ndarray", "npscalar"})
_DTYPE = re.compile(
    r"[<>|][biufcSUMm][1-9][0-9]{0,9}(\[[0-9]{0,9}[a-zA-Z]{1,9}\])?"
)  # no objects, no records, no expressions
_LONG = "gG"  # long doubles: 80 or 128 bits, with bytes that mean nothing
_TEXTS = "US"
_MOST_DIMENSIONS = 64  # of numpy; the product of very many sizes takes long


def to_parts(value: Any) -> tuple[str, Parts] | None:
    """Return tag and parts of a numpy array or scalar, None for other values.

    Raises TypeError for dtypes that are not plain memory: objects, records, variable-length strings, and for
    what its memory does not tell: long doubles, metadata of a dtype, NULs at the end of a text.
    """
    numpy = sys.modules.get("numpy")
    if numpy is None or not (type(value) is numpy.ndarray or isinstance(value, numpy.generic)):
        return None
    dtype = value.dtype
    if dtype.char in _LONG:
        raise refusal(f"its dtype {dtype} is another one on other machines")
    if dtype.metadata:
        raise refusal("the metadata of its dtype would be lost")
    exact = _DTYPE.fullmatch(dtype.str) and numpy.dtype(dtype.str) == dtype
    if type(value) is numpy.ndarray:
        if exact:
            by_columns = value.flags.f_contiguous and not value.flags.c_contiguous
            flat = numpy.ascontiguousarray(value.T if by_columns else value).reshape(-1).view("u1")
            parts: Parts = {"dtype": dtype.str, "shape": list(value.shape), "v": Blob(memoryview(flat))}
            layout = ("F" if by_columns else "") + ("" if value.flags.writeable else "R")
            return "ndarray", {**parts, "layout": layout} if layout else parts
    elif exact and numpy.dtype(dtype.str).type is type(value):
        if dtype.char in _TEXTS and value[-1:] in ("\0", b"\0"):
            raise refusal("numpy would cut off the NUL at its end")
        return "npscalar", {"dtype": dtype.str, "v": value.tobytes()}
    if dtype.char == "O":
        raise refusal("its dtype object is not plain memory; store it as a list: array.tolist()")
    text = "is not plain memory"  # a dtype with fields has their names, which are part of the value
    raise with_public_text(TypeError(f"its dtype {dtype} {text}"), f"its dtype {text}")


def from_parts(tag: str, dtype: Any, v: object, shape: object = (), layout: object = "") -> Any:
    """Return the array or scalar of these parts. Raises ValueError, TypeError, or ImportError."""
    if not _DTYPE.fullmatch(checked(dtype, str)):
        raise ValueError(f"the dtype {dtype!r} is not plain memory")
    sizes = [checked(size, int) for size in checked(shape, list)] if tag == "ndarray" else []
    if len(sizes) > _MOST_DIMENSIONS:
        raise ValueError(f"an array of {len(sizes)} dimensions")
    try:
        numpy = installed("numpy")
    except ImportError:
        raise ImportError('numpy is not installed: pip install "hypergraph[arrays]"') from None
    kind = numpy.dtype(dtype)
    data = checked(v, bytes)
    if any(size < 0 for size in sizes) or math.prod(sizes) * kind.itemsize != len(data):
        raise ValueError("its shape does not fit its bytes")
    if checked(layout, str) not in ("", "F", "R", "FR"):
        raise ValueError(f"unknown layout {layout!r}")
    array = numpy.ndarray(sizes, kind, bytearray(data), order="F" if "F" in checked(layout, str) else "C")
    if "R" in checked(layout, str):
        array.flags.writeable = False
    return array if tag == "ndarray" else array[()]
