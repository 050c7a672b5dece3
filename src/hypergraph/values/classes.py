"""Objects of user classes: what they are made of, and which classes stored data may come back as.

A class takes part when its fields say everything about its objects: dataclass, NamedTuple, msgspec.Struct,
pydantic model, Enum. Writing needs no permission. Reading builds an object only of a class that running code
named, with `register` or in an annotation; nothing is imported, and `__init__` does not run again: fields are
put back as they were. (Of all these, only a Struct's `__post_init__` cannot be kept from running.)
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import inspect
import sys
import typing
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, TypeVar, cast

import msgspec

C = TypeVar("C", bound=type[Any])
_MODEL_STATE = ("__pydantic_fields_set__", "__pydantic_extra__", "__pydantic_private__")


class Kind(NamedTuple):
    """One sort of class: an object to named parts, and parts (unchecked) back to an object."""

    take: Callable[[Any], dict[str, Any]]
    make: Callable[..., Any]


# --- fields --------------------------------------------------------------------------------------


def _refuse_leftovers(value: Any, fields: Iterable[str]) -> None:
    """Raise TypeError when the object holds state besides its fields, which would be lost."""
    state = object.__getstate__(value)
    held = {name for part in (state if type(state) is tuple else (state,)) for name in part or ()}
    lost = sorted(
        str(name)
        for name in held.difference(fields, ["__orig_class__"])  # typing's note on a generic alias
        if not isinstance(inspect.getattr_static(type(value), name, None), functools.cached_property)
    )
    if lost:
        raise TypeError(f"it has attributes that are no fields: {', '.join(lost)}")


def _take_fields(names: tuple[str, ...], value: Any) -> dict[str, Any]:
    _refuse_leftovers(value, names)
    unset = [name for name in names if not hasattr(value, name)]
    if unset:
        raise TypeError(f"its field {unset[0]!r} is not set")
    return {"v": {name: getattr(value, name) for name in names}}


def _complete(stored: object, defaults: dict[str, Callable[[], Any] | None]) -> dict[str, Any]:
    """Return stored fields in the order of the class; a field that is new since then gets its default."""
    if type(stored) is not dict:
        raise ValueError("its fields are not a mapping")
    unknown = [name for name in stored if name not in defaults]
    if unknown:
        raise ValueError(f"the class has no field {unknown[0]!r}")
    values = {}
    for name, default in defaults.items():
        if name not in stored and default is None:
            raise ValueError(f"its field {name!r} is missing")
        values[name] = stored[name] if name in stored or default is None else default()
    return values


def _constant(value: Any) -> Callable[[], Any]:
    return lambda: value


# --- kinds ---------------------------------------------------------------------------------------


def _dataclass_kind(cls: type[Any]) -> Kind | None:
    try:
        object.__new__(cls)  # refused where a base in C keeps state of its own, as dict and Exception do
    except TypeError:
        return None
    defaults: dict[str, Callable[[], Any] | None] = {}
    for field in dataclasses.fields(cls):
        default = None if field.default is dataclasses.MISSING else _constant(field.default)
        factory = field.default_factory
        defaults[field.name] = default if factory is dataclasses.MISSING else factory

    def make(v: object) -> Any:
        made = object.__new__(cls)
        for name, value in _complete(v, defaults).items():
            object.__setattr__(made, name, value)  # also where the class is frozen
        return made

    return Kind(functools.partial(_take_fields, tuple(defaults)), make)


def _namedtuple_kind(cls: type[Any]) -> Kind:
    known = cls._field_defaults
    defaults = {name: _constant(known[name]) if name in known else None for name in cls._fields}

    def take(value: Any) -> dict[str, Any]:
        _refuse_leftovers(value, ())
        return {"v": dict(zip(cls._fields, tuple(value), strict=True))}

    return Kind(take, lambda v: tuple.__new__(cls, _complete(v, defaults).values()))


def _struct_kind(cls: type[Any]) -> Kind:
    defaults: dict[str, Callable[[], Any] | None] = {}
    for field in msgspec.structs.fields(cls):
        default = None if field.default is msgspec.NODEFAULT else _constant(field.default)
        factory = field.default_factory
        defaults[field.name] = default if factory is msgspec.NODEFAULT else factory

    def make(v: object) -> Any:
        values = _complete(v, defaults)
        made = cls(**values)
        for name, value in values.items():  # __post_init__ ran again and may have changed what it found
            msgspec.structs.force_setattr(made, name, value)
        return made

    return Kind(functools.partial(_take_fields, tuple(defaults)), make)


def _model_kind(cls: type[Any]) -> Kind:
    fields = cls.model_fields
    defaults: dict[str, Callable[[], Any] | None] = {
        name: None if field.is_required() else functools.partial(field.get_default, call_default_factory=True)
        for name, field in fields.items()
    }

    def take(value: Any) -> dict[str, Any]:
        state = object.__getattribute__(value, "__dict__")
        more = {part: getattr(value, f"__pydantic_{part}__") for part in ("extra", "private")}
        _refuse_leftovers(value, [*fields, *_MODEL_STATE])
        return {
            "v": {name: state[name] for name in fields},
            "given": sorted(value.__pydantic_fields_set__),
            **{part: held for part, held in more.items() if held is not None},
        }

    def make(v: object, given: object, extra: object = None, private: object = None) -> Any:
        if type(given) is not list or not {type(extra), type(private)} <= {dict, type(None)}:
            raise ValueError("its parts are not those of a model")
        parts = (_complete(v, defaults), set(given), extra, private)
        made = object.__new__(cls)
        made.__setstate__(dict(zip(("__dict__", *_MODEL_STATE), parts, strict=True)))
        return made

    return Kind(take, make)


def _enum_kind(cls: type[Any]) -> Kind:
    flags = issubclass(cls, enum.Flag)

    def take(value: Any) -> dict[str, Any]:
        if not flags and cls.__members__.get(value.name) is not value:
            raise TypeError("it is no member of its own class")
        return {"v": value.value if flags else value.name}

    def make(v: object) -> Any:
        if flags and type(v) is int:
            return cls(v)
        if flags or type(v) is not str or v not in cls.__members__:
            raise ValueError(f"it has no member {v!r}")
        return cls.__members__[v]

    return Kind(take, make)


def _kind_of(cls: type[Any]) -> Kind | None:
    """Return how objects of this class are taken apart and made, None when their fields do not say it all."""
    if issubclass(cls, enum.Enum):
        return _enum_kind(cls)
    if issubclass(cls, msgspec.Struct):
        return _struct_kind(cls)
    model = getattr(sys.modules.get("pydantic"), "BaseModel", None)
    if isinstance(model, type) and issubclass(cls, model):
        return _model_kind(cls)
    if dataclasses.is_dataclass(cls):
        return _dataclass_kind(cast(type[Any], cls))
    if issubclass(cls, tuple) and type(getattr(cls, "_fields", None)) is tuple:
        return _namedtuple_kind(cls)
    return None


kind_of = cast(Callable[[type[Any]], Kind | None], functools.lru_cache(maxsize=1024)(_kind_of))


# --- which classes may come back -----------------------------------------------------------------


def name_of(cls: type[Any]) -> str:
    """Return the name a class has in stored data."""
    return f"{cls.__module__}:{cls.__qualname__}"


def _classes_in(annotation: Any) -> Iterator[type[Any]]:
    """Yield the storable classes an annotation names, inside of unions and generics too."""
    if isinstance(annotation, type) and kind_of(annotation):
        yield annotation
    parts = annotation if type(annotation) is list else typing.get_args(annotation)
    for part in parts:
        yield from _classes_in(part)


def _field_annotations(cls: type[Any]) -> Iterable[Any]:
    try:
        return typing.get_type_hints(cls).values()
    except Exception:  # a name that does not exist (yet): such a class has to be named on its own
        return ()


class Classes:
    """The classes that stored data may come back as: those named here, and those their fields name."""

    def __init__(self, annotations: Iterable[Any] = ()) -> None:
        self._named: dict[str, type[Any]] = {}
        for annotation in annotations:
            for cls in _classes_in(annotation):
                self.add(cls)

    def add(self, cls: type[Any], names: Iterable[str] = ()) -> None:
        """Let a class come back under its name and these."""
        for name in (name_of(cls), *names):
            self._named[name] = cls

    def find(self, name: str) -> type[Any] | None:
        """Return the class of this name, None when running code has not named it."""
        if name not in self._named:  # annotations are read late: at registration, forward references are open
            waiting = list(self._named.values())
            seen = set(waiting)
            while waiting:
                for annotation in _field_annotations(waiting.pop()):
                    fresh = [cls for cls in _classes_in(annotation) if cls not in seen]
                    waiting += fresh
                    seen.update(fresh)
                    for cls in fresh:
                        self._named.setdefault(name_of(cls), cls)
        return self._named.get(name)


REGISTERED = Classes()


def register(cls: C, *, formerly: Iterable[str] = ()) -> C:
    """Let stored objects of this class, and of classes its fields name, come back as objects.

    Works as a decorator. `formerly` lists names ("module:Class") the class had when older values were stored.
    Raises TypeError for a class that is no dataclass, NamedTuple, msgspec.Struct, pydantic model or Enum.
    """
    if not isinstance(cls, type) or kind_of(cls) is None:
        kinds = "dataclass, NamedTuple, msgspec.Struct, pydantic model or Enum"
        raise TypeError(f"{cls!r} cannot be registered: it is no {kinds}")
    REGISTERED.add(cls, formerly)
    return cls
