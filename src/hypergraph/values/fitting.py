"""Values compared with declared types, into containers and the fields of classes."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple

import msgspec

from hypergraph.values.classes import classes_in, hints_of, kind_of

_MANY = 10_000  # values looked at in one; the rest is taken to be like them
_FIRST = 100  # the same, for the name of their class alone


class Misfit(NamedTuple):
    """A value that is not of its declared type."""

    place: str  # where it is, as ".amount" or "[3]"; empty for the whole value
    value: Any
    declared: Any
    reason: str = ""  # the words of a model that refuses its fields


def misfit(value: Any, declared: Any) -> Misfit | None:
    """Return the first part of a value that is not of its declared type, None if all fit."""
    waiting = [("", value, declared)]
    for _ in range(_MANY):
        if not waiting:
            break
        place, part, hint = waiting.pop()
        while isinstance(hint, typing.NewType) or typing.get_origin(hint) is typing.Annotated:
            hint = hint.__supertype__ if isinstance(hint, typing.NewType) else typing.get_args(hint)[0]
        if typing.get_origin(hint) in (typing.Union, types.UnionType):
            found = [misfit(part, each) for each in typing.get_args(hint)]
            if all(each is not None for each in found):
                return Misfit(place, part, hint)
            continue
        if not _is_of(part, hint):
            return Misfit(place, part, hint)
        if reason := _refusal(part):
            return Misfit(place, part, hint, reason)
        waiting += reversed([(place + inner, value, each) for inner, value, each in _parts(part, hint)])
    return None


def namesake(value: Any, declared: Any) -> tuple[type[Any], type[Any]] | None:
    """Return the class of an object, or of one in a collection, and another of that name that is declared.

    Of a collection the first items are looked at.
    """
    named = {cls.__qualname__: cls for cls in classes_in(declared)}
    waiting = [value] if named else []
    for part in waiting:
        cls = type(part)
        other = named.get(cls.__qualname__)
        if other is not None and not issubclass(cls, other):
            return cls, other
        inside = part.values() if isinstance(part, dict) else part
        if isinstance(inside, (list, tuple, set, frozenset)) or inside is not part:
            waiting += islice(inside, max(_FIRST - len(waiting), 0))
    return None


def _is_of(value: Any, hint: Any) -> bool:
    """Say whether a value is of a type, without a look at what it contains."""
    if hint is Any or isinstance(hint, (str, typing.TypeVar)):
        return True
    if hint is None:
        return value is None
    origin = typing.get_origin(hint)
    if origin is typing.Literal:
        return value in typing.get_args(hint)
    kind: Any = origin if isinstance(origin, type) else hint
    if not isinstance(kind, type) or (kind is float and type(value) is int):
        return True
    arguments = typing.get_args(hint)
    if origin is tuple and isinstance(value, tuple) and Ellipsis not in arguments:
        return len(value) == len(arguments)
    if typing.is_typeddict(kind):
        return isinstance(value, dict) and getattr(kind, "__required_keys__", frozenset()) <= value.keys()
    try:
        return isinstance(value, kind)
    except TypeError:  # a protocol that cannot be checked
        return True


def _parts(value: Any, hint: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yield what a value contains: the place, the part and its declared type."""
    arguments = typing.get_args(hint)
    if isinstance(value, tuple) and arguments and Ellipsis not in arguments:
        yield from ((f"[{n}]", *pair) for n, pair in enumerate(zip(value, arguments, strict=False)))
    elif isinstance(value, dict) and typing.is_typeddict(hint):
        yield from ((f"[{key!r}]", value[key], each) for key, each in hints_of(hint).items() if key in value)
    elif isinstance(value, Mapping):
        of_key, of_value = arguments if len(arguments) == 2 else (Any, Any)
        for key, each in value.items():
            yield from (("", key, of_key), (f"[{key!r:.50}]", each, of_value))
    elif isinstance(value, tuple) and hasattr(value, "_fields"):  # a NamedTuple
        yield from _fields(value)
    elif isinstance(value, (list, tuple, set, frozenset)):
        of_item = arguments[0] if arguments else Any
        yield from ((f"[{n}]", each, of_item) for n, each in enumerate(value))
    elif kind_of(type(value)) is not None:
        given = dict(zip(getattr(type(value), "__parameters__", ()), arguments, strict=False))
        for place, part, each in _fields(value):
            yield place, part, given.get(each, each) if isinstance(each, typing.TypeVar) else each


def _fields(value: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yield the fields of an object; one that has its default is as the class says."""
    cls = type(value)
    defaults = {}
    if dataclasses.is_dataclass(cls):
        defaults = {field.name: field.default for field in dataclasses.fields(cls)}
    for name, hint in hints_of(cls).items():
        found = getattr(value, name, None)
        if found is not defaults.get(name, msgspec.UNSET):
            yield f".{name}", found, hint


def _refusal(value: Any) -> str:
    """Return why the class of a model would not make this object, empty if it would."""
    try:
        if isinstance(value, msgspec.Struct):
            msgspec.convert(msgspec.structs.asdict(value), type(value))
        elif hasattr(type(value), "model_validate") and kind_of(type(value)) is not None:
            type(value).model_validate(dict(value))
    except ValueError as error:  # what both raise; pydantic first names the number of problems
        return " ".join(str(error).split("For further information")[0].split())
    except Exception:  # noqa: S110 - a field that it cannot look into
        pass
    return ""
