"""Objects of user classes as fields, and the classes that stored data can be read as.

Supported are classes whose fields are their whole state: dataclass, NamedTuple, msgspec.Struct, pydantic
model, Enum. All of them can be stored. Reading builds objects only of classes named by running code, with
`register` or in an annotation; nothing is imported, and fields are set without calling `__init__`. (Only the
`__post_init__` of a Struct runs again.)
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
_FLAG_BITS = 1024
_MODEL_STATE = ("__pydantic_fields_set__", "__pydantic_extra__", "__pydantic_private__")


class Kind(NamedTuple):
    """Conversion of one kind of class: an object to named parts, and unchecked parts to an object."""

    to_parts: Callable[[Any], dict[str, Any]]
    from_parts: Callable[..., Any]


# --- fields --------------------------------------------------------------------------------------


def _check_no_other_state(value: Any, fields: Iterable[str]) -> None:
    """Raise TypeError if the object has state besides its fields, which would be lost."""
    state = object.__getstate__(value)
    held = {name for part in (state if type(state) is tuple else (state,)) for name in part or ()}
    lost = sorted(
        str(name)
        for name in held.difference(
            fields, ["__orig_class__"]
        )  # set by typing on instances of generic aliases
        if not isinstance(inspect.getattr_static(type(value), name, None), functools.cached_property)
    )
    if lost:
        raise TypeError(f"it has attributes that are not fields: {', '.join(lost)}")


def _fields_parts(names: tuple[str, ...], value: Any) -> dict[str, Any]:
    _check_no_other_state(value, names)
    unset = [name for name in names if not hasattr(value, name)]
    if unset:
        raise TypeError(f"its field {unset[0]!r} is not set")
    return {"v": {name: getattr(value, name) for name in names}}


def _with_defaults(stored: object, defaults: dict[str, Callable[[], Any] | None]) -> dict[str, Any]:
    """Return stored fields in the order of the class; fields added since then get their defaults."""
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
        object.__new__(cls)  # fails if a base class written in C has its own state, like dict and Exception
    except TypeError:
        return None
    defaults: dict[str, Callable[[], Any] | None] = {}
    for field in dataclasses.fields(cls):
        default = None if field.default is dataclasses.MISSING else _constant(field.default)
        factory = field.default_factory
        defaults[field.name] = default if factory is dataclasses.MISSING else factory

    def from_parts(v: object) -> Any:
        made = object.__new__(cls)
        for name, value in _with_defaults(v, defaults).items():
            object.__setattr__(made, name, value)  # works for frozen classes too
        return made

    return Kind(functools.partial(_fields_parts, tuple(defaults)), from_parts)


def _namedtuple_kind(cls: type[Any]) -> Kind:
    known = cls._field_defaults
    defaults = {name: _constant(known[name]) if name in known else None for name in cls._fields}

    def to_parts(value: Any) -> dict[str, Any]:
        _check_no_other_state(value, ())
        return {"v": dict(zip(cls._fields, tuple(value), strict=True))}

    return Kind(to_parts, lambda v: tuple.__new__(cls, _with_defaults(v, defaults).values()))


def _struct_kind(cls: type[Any]) -> Kind:
    defaults: dict[str, Callable[[], Any] | None] = {}
    for field in msgspec.structs.fields(cls):
        default = None if field.default is msgspec.NODEFAULT else _constant(field.default)
        factory = field.default_factory
        defaults[field.name] = default if factory is msgspec.NODEFAULT else factory

    def from_parts(v: object) -> Any:
        values = _with_defaults(v, defaults)
        made = cls(**values)
        for name, value in values.items():  # __post_init__ ran again and may have changed fields
            msgspec.structs.force_setattr(made, name, value)
        return made

    return Kind(functools.partial(_fields_parts, tuple(defaults)), from_parts)


def _model_kind(cls: type[Any]) -> Kind:
    fields = cls.model_fields
    defaults: dict[str, Callable[[], Any] | None] = {
        name: None if field.is_required() else functools.partial(field.get_default, call_default_factory=True)
        for name, field in fields.items()
    }

    def to_parts(value: Any) -> dict[str, Any]:
        state = object.__getattribute__(value, "__dict__")
        more = {part: getattr(value, f"__pydantic_{part}__") for part in ("extra", "private")}
        _check_no_other_state(value, [*fields, *_MODEL_STATE])
        return {
            "v": {name: state[name] for name in fields},
            "given": sorted(value.__pydantic_fields_set__),
            **{part: held for part, held in more.items() if held is not None},
        }

    def from_parts(v: object, given: object, extra: object = None, private: object = None) -> Any:
        if (
            type(given) is not list
            or not set(map(type, given)) <= {str}
            or not {type(extra), type(private)} <= {dict, type(None)}
        ):
            raise ValueError("its parts do not form a pydantic model")
        parts = (_with_defaults(v, defaults), set(given), extra, private)
        made = object.__new__(cls)
        made.__setstate__(dict(zip(("__dict__", *_MODEL_STATE), parts, strict=True)))
        return made

    return Kind(to_parts, from_parts)


def _enum_kind(cls: type[Any]) -> Kind:
    flags = issubclass(cls, enum.Flag)

    def to_parts(value: Any) -> dict[str, Any]:
        if not flags and cls.__members__.get(value.name) is not value:
            raise TypeError("it is not a member of its enum")
        return {"v": value.value if flags else value.name}

    def from_parts(v: object) -> Any:
        if flags and type(v) is int and v.bit_length() <= _FLAG_BITS:  # Python looks at each bit
            return cls(v)
        if flags or type(v) is not str or v not in cls.__members__:
            raise ValueError(f"the enum has no member {str(v)[:100]!r}")
        return cls.__members__[v]

    return Kind(to_parts, from_parts)


def _kind_of(cls: type[Any]) -> Kind | None:
    """Return the conversion for this class, None if it is not supported."""
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


# --- registered classes --------------------------------------------------------------------------


def name_of(cls: type[Any]) -> str:
    """Return the name of a class in stored data."""
    return f"{cls.__module__}:{cls.__qualname__}"


def _classes_in(annotation: Any) -> Iterator[type[Any]]:
    """Yield the supported classes in an annotation, including those in unions and generics."""
    if isinstance(annotation, type) and kind_of(annotation):
        yield annotation
    parts = annotation if type(annotation) is list else typing.get_args(annotation)
    for part in parts:
        yield from _classes_in(part)


def _field_annotations(cls: type[Any]) -> Iterable[Any]:
    try:
        return typing.get_type_hints(cls).values()
    except Exception:  # an unresolvable name: such a class has to be registered itself
        return ()


class Classes:
    """The classes that stored data can be read as: registered ones, and those of their fields."""

    def __init__(self, annotations: Iterable[Any] = ()) -> None:
        self._named: dict[str, type[Any]] = {}
        for annotation in annotations:
            for cls in _classes_in(annotation):
                self.add(cls)

    def add(self, cls: type[Any], names: Iterable[str] = ()) -> None:
        """Register a class under its name and further names."""
        for name in (name_of(cls), *names):
            self._named[name] = cls

    def find(self, name: str) -> type[Any] | None:
        """Return the class of this name, None if it is not registered."""
        if name not in self._named:  # annotations are read late: forward references resolve only now
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
    """Allow stored objects of this class, and of the classes of its fields, to be read as objects.

    Works as a decorator. `formerly` lists older names ("module:Class") of the class in stored values. Raises
    TypeError unless the class is a dataclass, NamedTuple, msgspec.Struct, pydantic model or Enum.
    """
    if not isinstance(cls, type) or kind_of(cls) is None:
        kinds = "dataclass, NamedTuple, msgspec.Struct, pydantic model or Enum"
        raise TypeError(f"{cls!r} cannot be registered: it is not a {kinds}")
    REGISTERED.add(cls, formerly)
    return cls
