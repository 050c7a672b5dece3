"""What is inside a value: items by key, index, row or field, whatever class holds them.

Libraries are recognised by the attributes of their types, so none of them is loaded to look at a list.
"""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from typing import Any, NamedTuple


class Content(NamedTuple):
    """The items of a value: how many, which, and how one is found by the token of a path."""

    size: int
    pairs: Callable[[], Iterator[tuple[Any, Any]]]
    at: Callable[[str], Any]  # raises LookupError
    named: bool  # by keys or fields, not by position
    kind: str = ""  # a closer name of the type, where its own says too little


def content_of(value: Any) -> Content | None:
    """Return what is inside a value, None for one that has no parts, texts included."""
    if isinstance(value, str | bytes | bytearray):
        return None
    for look in (_mapping, _fields, _sequence, _table, _array):
        found = look(value)
        if found is not None:
            return found
    return None


def type_name(value: Any) -> str:
    """Return the type of a value in a word or two: with the shape of arrays and tables."""
    name = type(value).__name__
    shape = getattr(value, "shape", None)
    return f"{name}{tuple(shape)}" if isinstance(shape, tuple) and shape else name


def index_of(token: str, size: int) -> int:
    """Return the place that a token of a path means. Raises LookupError."""
    if not token.isdecimal() or len(token) > 15 or int(token) >= size:
        raise IndexError(token)
    return int(token)


def _mapping(value: Any) -> Content | None:
    if not isinstance(value, Mapping):
        return None

    def at(token: str) -> Any:
        if token in value:
            return value[token]
        return next(item for key, item in value.items() if str(key) == token)

    return Content(len(value), lambda: iter(value.items()), _or_lookup_error(at), named=True)


def _fields(value: Any) -> Content | None:
    names = _field_names(value)
    if names is None:
        return None
    found = {name: getattr(value, name, None) for name in names}
    return Content(len(found), lambda: iter(found.items()), found.__getitem__, named=True)


def _field_names(value: Any) -> Sequence[str] | None:
    """Return the fields of an object of a class that declares them."""
    cls = type(value)
    if dataclasses.is_dataclass(cls):
        return [field.name for field in dataclasses.fields(cls)]
    declared = getattr(cls, "__struct_fields__", None) or (
        getattr(cls, "_fields", None) if isinstance(value, tuple) else getattr(cls, "model_fields", None)
    )
    return [str(name) for name in declared] if isinstance(declared, tuple | dict) else None


def _sequence(value: Any) -> Content | None:
    if isinstance(value, Set):
        value = sorted(value, key=repr)  # a page must continue where the one before ended
    elif not isinstance(value, list | tuple | deque | range):
        return None
    size = len(value)
    return Content(size, lambda: enumerate(value), lambda token: value[index_of(token, size)], named=False)


def _table(value: Any) -> Content | None:
    """Return the rows of a data frame, of whichever library."""
    columns, size = getattr(value, "columns", None), _length(value)
    if columns is None or size is None:
        return None
    if hasattr(value, "iloc"):
        row: Callable[[int], Any] = lambda place: {k: _plain(v) for k, v in value.iloc[place].items()}  # noqa: E731
    elif callable(getattr(value, "row", None)):
        row = lambda place: value.row(place, named=True)  # noqa: E731
    else:
        return None
    return _by_place(size, row)


def _array(value: Any) -> Content | None:
    """Return the rows of an array, or the items of a series."""
    shape, size = getattr(value, "shape", None), _length(value)
    if not isinstance(shape, tuple) or not shape or size is None:
        return None
    items = getattr(value, "iloc", value)
    return _by_place(size, lambda place: _plain(items[place]))


def _by_place(size: int, item: Callable[[int], Any]) -> Content:
    return Content(
        size,
        lambda: ((place, item(place)) for place in range(size)),
        lambda token: item(index_of(token, size)),
        named=False,
    )


def _plain(item: Any) -> Any:
    """Return a number of an array library as a number of Python."""
    return item.item() if getattr(item, "shape", None) == () and hasattr(item, "item") else item


def _length(value: Any) -> int | None:
    try:
        return len(value)
    except Exception:  # whatever the class of a user does
        return None


def _or_lookup_error(find: Callable[[str], Any]) -> Callable[[str], Any]:
    def at(token: str) -> Any:
        try:
            return find(token)
        except StopIteration:
            raise KeyError(token) from None

    return at
