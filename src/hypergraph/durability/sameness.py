"""Sameness: values that are equal for Python, and hold moments or arrays that differ."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterable
from functools import lru_cache
from types import FunctionType
from typing import Any

from hypergraph.engine.scheduler import CLOCKS, is_other_moment
from hypergraph.values.serializers import JsonSerializer

_SETTLED = frozenset({int, float, bool, str, bytes, type(None)})  # what `==` says of these is all there is
_as_stored = JsonSerializer().serialize


def holds_other(old: Any, new: Any) -> bool:
    """Say whether two equal values differ in a time or an array: themselves, or somewhere inside.

    Looked into are lists, tuples, sets, dicts, and objects that are compared field by field. May raise what
    a class of the user's own raises, and RecursionError for a list that holds itself.
    """
    if old is new:
        return False
    if isinstance(old, CLOCKS) and isinstance(new, CLOCKS):
        return is_other_moment(old, new)
    if isinstance(old, dict) and isinstance(new, dict):
        if _has_others(old.keys(), new):
            return True
        if _SETTLED.issuperset(map(type, old.values())) and _SETTLED.issuperset(map(type, new.values())):
            return False  # of large data the types say it quickly
        return any(holds_other(value, new[key]) for key, value in old.items() if key in new)
    if isinstance(old, (list, tuple)) and isinstance(new, (list, tuple)):
        if _SETTLED.issuperset(map(type, old)) and _SETTLED.issuperset(map(type, new)):
            return False
        return any(holds_other(*pair) for pair in zip(old, new, strict=False) if pair[0] is not pair[1])
    if isinstance(old, (set, frozenset)) and isinstance(new, (set, frozenset)):
        return _has_others(old, new)
    kind: Any = type(old)
    other: Any = type(new)
    if _is_array(kind) or _is_array(other):
        return _as_stored(old) != _as_stored(new)  # `==` knows neither dtype nor shape of a single element
    names = _compared(kind) if kind is other else ()
    return any(holds_other(getattr(old, name), getattr(new, name)) for name in names)


def _has_others(old: Iterable[Any], new: Iterable[Any]) -> bool:
    """Say whether a member of a set, or a key of a dict, differs from the equal one of the other."""
    if _SETTLED.issuperset(map(type, old)):
        return False
    found = {member: member for member in new}
    return any(holds_other(member, found[member]) for member in old if member in found)


@lru_cache(maxsize=1024)
def _is_array(kind: type[Any]) -> bool:
    """Say whether a class is one of arrays, whose `==` gives an array; a number of NumPy is none."""
    if not (hasattr(kind, "dtype") and hasattr(kind, "shape")):
        return False
    numpy: Any = sys.modules.get("numpy")
    return numpy is None or not issubclass(kind, numpy.generic)


@lru_cache(maxsize=1024)
def _compared(kind: type[Any]) -> tuple[str, ...]:
    """Return the names of the fields that the `==` of a class compares, none if its author wrote that."""
    code = getattr(kind.__eq__, "__code__", None)
    written = code.co_filename if isinstance(kind.__eq__, FunctionType) and code is not None else ""
    if dataclasses.is_dataclass(kind):
        return tuple(f.name for f in dataclasses.fields(kind) if f.compare) if written == "<string>" else ()
    if (attributes := getattr(kind, "__attrs_attrs__", None)) is not None:
        is_made = written.startswith("<attrs generated")
        return tuple(a.name for a in attributes if a.eq) if is_made else ()
    if hasattr(kind, "__struct_fields__"):
        return tuple(kind.__struct_fields__) if not written else ()
    if hasattr(kind, "model_fields"):
        is_made = kind.__eq__.__module__.partition(".")[0] == "pydantic"
        return tuple(kind.model_fields) if is_made else ()
    return ()
