"""Type compatibility: whether a value of one declared type fits where another is required.

The rules, in order. An outgoing type fits a required one if

 1. either has no annotation, or the required one is `Any`;
 2. one of them is a forward reference that cannot be resolved: skipped, with a warning;
 3. they are equal, or the required one resolves to `Any` or `object`;
 4. the outgoing one is a TypeVar, or the required TypeVar accepts it by constraints or bound;
 5. every outgoing member of a union fits some required member; `Literal["a", "b"]` is the union of
    `Literal["a"]` and `Literal["b"]`, `Never` is an empty union;
 6. the type behind an outgoing Literal or NewType fits; a required one accepts only equal hints;
 7. the outgoing class is a subclass of the required one and the arguments fit one by one, in equal number;
    a side without arguments accepts. Protocols and TypedDicts are compared by their members.

`Annotated` is stripped and type aliases are resolved. Unknown cases are accepted: parameter specifications,
unpacked tuples, hints that are not types.
"""

from __future__ import annotations

import collections.abc
import typing
import warnings
from types import FunctionType, NoneType, SimpleNamespace, UnionType
from typing import Annotated, Any, ForwardRef, Literal, LiteralString, NewType, TypeVar, Union

from hypergraph.nodes.signature import MISSING

_CALLABLE: Any = collections.abc.Callable
_NOT_MEMBERS = {"__init__", "__subclasshook__"}  # added to every protocol by typing


class _Unresolvable(Exception):
    """A hint refers to an unknown name."""


def fits(outgoing: Any, required: Any) -> bool:
    """Return whether a value annotated as `outgoing` fits where `required` is declared.

    Warns "Unresolvable type hint" if a forward reference has to be skipped.
    """
    try:
        return _fits(outgoing, required)
    except Warning:
        raise
    except Exception:  # a recursive alias, or a class whose own checks raise
        return True


def _fits(outgoing: Any, required: Any) -> bool:
    if outgoing is MISSING or required is MISSING or required is Any:
        return True
    try:
        outgoing, required = _plain(outgoing), _plain(required)
    except _Unresolvable as name:
        warnings.warn(f"Unresolvable type hint {name}; its values are not checked", stacklevel=3)
        return True
    if required is Any or required is object or _equal(outgoing, required):
        return True
    if isinstance(outgoing, TypeVar):
        return True
    if isinstance(required, TypeVar):
        return _accepts(required, outgoing)
    if (members := _members(outgoing)) is not None:
        return all(_fits(member, required) for member in members)
    if (members := _members(required)) is not None:
        return any(_fits(outgoing, member) for member in members)
    if typing.get_origin(outgoing) is Literal:
        return _fits(type(typing.get_args(outgoing)[0]), required)
    if isinstance(outgoing, NewType):
        return _fits(outgoing.__supertype__, required)
    if isinstance(required, NewType) or typing.get_origin(required) is Literal:
        return False
    return _class_fits(outgoing, required)


def _equal(one: Any, other: Any) -> bool:
    try:
        return one is other or bool(one == other)
    except Exception:  # metadata and literals can hold anything, e.g. arrays
        return False


def _plain(hint: Any) -> Any:
    """Resolve references, aliases and Annotated. Raises _Unresolvable."""
    while True:
        if isinstance(hint, (str, ForwardRef)):
            hint = _resolve(hint)
        elif typing.get_origin(hint) is Annotated:
            hint = hint.__origin__
        elif "TypeAliasType" in (type(hint).__name__, type(typing.get_origin(hint)).__name__):
            hint = _alias_value(hint)
        elif hint is None or _equal(hint, Literal[None]):
            return NoneType
        else:
            return str if hint is LiteralString else hint


def _resolve(reference: str | ForwardRef) -> Any:
    carrier = SimpleNamespace(__annotations__={"hint": reference})
    try:
        return typing.get_type_hints(carrier, include_extras=True)["hint"]
    except Exception as error:  # the text can be any expression
        text = reference.__forward_arg__ if isinstance(reference, ForwardRef) else reference
        raise _Unresolvable(repr(text)) from error


def _alias_value(alias: Any) -> Any:
    try:
        return alias.__value__
    except NameError as error:  # the value of an alias is computed on first access
        raise _Unresolvable(repr(str(alias))) from error


def _accepts(variable: TypeVar, outgoing: Any) -> bool:
    if variable.__constraints__:
        return any(_fits(outgoing, constraint) for constraint in variable.__constraints__)
    return variable.__bound__ is None or _fits(outgoing, variable.__bound__)


def _members(hint: Any) -> tuple[Any, ...] | None:
    """Return the members of a union, None for other hints."""
    if hint is typing.Never or hint is typing.NoReturn:
        return ()
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Union or origin is UnionType:
        return arguments
    if origin is Literal and len(arguments) > 1:
        return tuple(Literal[(value,)] for value in arguments)  # a bare tuple would be unpacked
    return None


def _class_fits(outgoing: Any, required: Any) -> bool:
    given = typing.get_origin(outgoing) or outgoing
    wanted = typing.get_origin(required) or required
    if not isinstance(given, type) or not isinstance(wanted, type):
        return True
    if wanted not in given.__mro__:
        if getattr(wanted, "_is_protocol", False):
            return _has_methods(given, wanted)  # how its arguments map to those of the class is unknown
        if typing.is_typeddict(wanted):
            return typing.is_typeddict(given) and _has_items(given, wanted)
        if not issubclass(given, wanted):
            return False
    return _arguments_fit(given, _arguments(outgoing), wanted, _arguments(required))


def _has_methods(given: type, protocol: type) -> bool:
    # Attributes can be set in __init__, so only methods are compared.
    wanted = {
        name
        for base in protocol.__mro__
        if getattr(base, "_is_protocol", False)
        for name, member in vars(base).items()
        if isinstance(member, (FunctionType, classmethod, staticmethod)) and name not in _NOT_MEMBERS
    }
    return all(getattr(given, name, None) is not None for name in wanted)


def _has_items(given: type, wanted: type) -> bool:
    have = given.__annotations__
    return all(key in have and _fits(have[key], hint) for key, hint in wanted.__annotations__.items())


def _arguments(hint: Any) -> tuple[Any, ...] | None:
    """Return the arguments of a generic, None without any; those of `tuple[()]` are ()."""
    is_empty_tuple = typing.get_origin(hint) is tuple and hint is not typing.Tuple  # noqa: UP006
    return typing.get_args(hint) or (() if is_empty_tuple else None)


def _arguments_fit(
    given: type, have: tuple[Any, ...] | None, wanted: type, want: tuple[Any, ...] | None
) -> bool:
    if have is None or want is None or any(map(_is_unpacked, (*have, *want))):
        return True
    if wanted is _CALLABLE:  # how arguments of other classes map to those of Callable is unknown
        return given is not wanted or (_parameters_fit(have[0], want[0]) and _fits(have[1], want[1]))
    if given is tuple:
        elements = [element for element in have if element is not ...]
        if wanted is not tuple or (want and want[-1] is ...):
            return all(_fits(element, want[0]) for element in elements)
        if len(elements) < len(have):
            return False  # tuple[X, ...] does not fit a fixed length
    return len(have) == len(want) and all(map(_fits, have, want))


def _parameters_fit(have: Any, want: Any) -> bool:
    if not isinstance(have, list) or not isinstance(want, list):
        return True  # `...` or a parameter specification
    # Contravariant: what the caller passes must fit the parameters of the callable.
    return len(have) == len(want) and all(map(_fits, want, have))


def _is_unpacked(argument: Any) -> bool:
    return (
        isinstance(argument, typing.TypeVarTuple)
        or typing.get_origin(argument) is typing.Unpack
        or getattr(argument, "__unpacked__", False) is True
    )
