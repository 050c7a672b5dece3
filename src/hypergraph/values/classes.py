"""Objects of user classes as fields, and the classes that stored data can be read as.

Supported are classes whose fields are their whole state: dataclass, NamedTuple, msgspec.Struct, pydantic
model, Enum. Reading builds objects only of classes that running code names: with `register`, in annotations,
or in the modules of the functions of a graph. Nothing is imported, and fields are set without calling
`__init__`. (Only the `__post_init__` of a Struct runs again.)
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import inspect
import operator
import sys
import types
import typing
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import PurePath
from typing import Any, Literal, NamedTuple, TypeVar, cast, overload

import msgspec

from hypergraph.values.undecodable import refusal, with_public_text

C = TypeVar("C", bound=type[Any])
_FLAG_BITS = 1024
_MAIN = "__main__"  # the module of a script, which has another name where it is imported
_MODEL_STATE = ("__pydantic_fields_set__", "__pydantic_extra__", "__pydantic_private__")


class Kind(NamedTuple):
    """Conversion of one kind of class: an object to named parts, and unchecked parts to an object."""

    to_parts: Callable[[Any], dict[str, Any]]
    from_parts: Callable[..., Any]
    shape: Literal["fields", "model", "member"] = "fields"  # of the parts; a member of an Enum has no fields


# --- fields --------------------------------------------------------------------------------------


def _state(value: Any, fields: Iterable[str]) -> dict[str, Any]:
    """Return what an object holds. Raises TypeError for state besides its fields, which would be lost."""
    state = object.__getstate__(value)
    held: dict[str, Any] = {}
    for part in state if type(state) is tuple else (state,):
        held.update(part or {})
    lost = sorted(
        str(name)
        for name in held.keys() - {*fields, "__orig_class__"}  # set by typing on instances of generic aliases
        if not isinstance(inspect.getattr_static(type(value), name, None), functools.cached_property)
    )
    if lost:
        text = "it has attributes that are not fields"
        raise with_public_text(TypeError(f"{text}: {', '.join(lost)}"), text)
    return held


def _fields_parts(names: tuple[str, ...], value: Any) -> dict[str, Any]:
    held = _state(value, names)  # what an attribute shows may be something else, made by a descriptor
    unset = [name for name in names if name not in held and not hasattr(value, name)]
    if unset:
        raise refusal(f"its field {unset[0]!r} is not set")
    return {"v": {name: held[name] if name in held else getattr(value, name) for name in names}}


class OtherFieldsError(ValueError):
    """A stored object has other fields than its class: an upgrade would lead from one to the other."""


def _with_defaults(stored: object, defaults: dict[str, Callable[[], Any] | None]) -> dict[str, Any]:
    """Return stored fields in the order of the class; fields added since then get their defaults."""
    if type(stored) is not dict:
        raise ValueError("its fields are not a mapping")
    unknown = [name for name in stored if name not in defaults]
    if unknown:
        raise OtherFieldsError(f"the class has no field {unknown[0]!r}")
    values = {}
    for name, default in defaults.items():
        if name not in stored and default is None:
            raise OtherFieldsError(f"its field {name!r} is missing")
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

    asked = {name for name in defaults if _is_asked(inspect.getattr_static(cls, name, None))}

    def from_parts(v: object) -> Any:
        made = object.__new__(cls)
        for name, value in _with_defaults(v, defaults).items():
            if name in asked:
                made.__dict__[name] = value
            else:
                object.__setattr__(made, name, value)  # works for frozen classes too
        return made

    return Kind(functools.partial(_fields_parts, tuple(defaults)), from_parts)


def _is_asked(attribute: Any) -> bool:
    """Return whether setting an attribute of this name calls code of its class; a slot has none."""
    return hasattr(type(attribute), "__set__") and not isinstance(attribute, types.MemberDescriptorType)


def _namedtuple_kind(cls: type[Any]) -> Kind:
    known = cls._field_defaults
    defaults = {name: _constant(known[name]) if name in known else None for name in cls._fields}

    def to_parts(value: Any) -> dict[str, Any]:
        _state(value, ())
        return {"v": dict(zip(cls._fields, tuple.__iter__(value), strict=True))}

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
        _state(value, [*fields, *_MODEL_STATE])
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

    return Kind(to_parts, from_parts, "model")


def _enum_kind(cls: type[Any]) -> Kind:
    if issubclass(cls, enum.Flag):
        return _flag_kind(cls)

    def to_parts(value: Any) -> dict[str, Any]:
        if cls.__members__.get(value._name_) is not value:
            raise refusal("it is not a member of its enum")
        return {"v": value._name_}

    def from_parts(v: object) -> Any:
        if type(v) is not str or v not in cls.__members__:
            raise OtherFieldsError(f"the enum has no member {str(v)[:100]!r}")
        return cls.__members__[v]

    return Kind(to_parts, from_parts, "member")


def _flag_kind(cls: type[Any]) -> Kind:
    """Return the conversion for flags: the names of the bits, and those without a name as a number."""
    named: dict[int, str] = {}  # the first name of each value; bits of their own come first
    for name, member in sorted(cls.__members__.items(), key=lambda one: not _is_one_bit(one[1]._value_)):
        named.setdefault(member._value_, name)
    single = sum(filter(_is_one_bit, named))

    def to_parts(value: Any) -> dict[str, Any]:
        rest = value._value_
        if type(rest) is not int or cls._value2member_map_.get(rest) is not value:
            raise refusal("it is not a member of its enum")
        if rest in named and (rest & ~single or not rest):  # the names of its bits would not tell it
            return {"v": [named[rest]]}
        names = []
        for bits, name in named.items():
            if 0 < bits == bits & value._value_ and bits & rest:
                names.append(name)
                rest &= ~bits
        if not 0 <= rest < 2**_FLAG_BITS:
            raise refusal(f"it has bits without a name beyond the first {_FLAG_BITS}")
        return {"v": [*names, rest] if rest else names}

    def from_parts(v: object) -> Any:
        if type(v) is not list:  # a number would not say which bit had which name
            raise OtherFieldsError(f"the flags {str(v)[:100]!r} are not a list of names")
        names, rest = (v[:-1], v[-1]) if v and type(v[-1]) is int else (v, 0)
        for name in names:
            if type(name) is not str or name not in cls.__members__:
                raise OtherFieldsError(f"the enum has no member {str(name)[:100]!r}")
        if len(names) == 1 and not rest:
            return cls.__members__[names[0]]
        if not 0 <= rest < 2**_FLAG_BITS:  # Python looks at each bit
            raise ValueError("its bits without a name are not a number that flags can have")
        if rest & single:
            taken = next(name for bits, name in named.items() if bits & rest)
            raise OtherFieldsError(f"a bit that had no name is {taken!r} now")
        value = functools.reduce(operator.or_, (cls.__members__[name]._value_ for name in names), rest)
        found = cls(value)
        if type(found) is not cls or found._value_ != value:
            raise OtherFieldsError(f"the enum does not take the bits {rest:#x}, which have no name")
        return found

    return Kind(to_parts, from_parts, "member")


def _is_one_bit(value: int) -> bool:
    return value > 0 and not value & (value - 1)


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


def classes_in(annotation: Any, *, dicts: bool = False) -> Iterator[type[Any]]:
    """Yield the supported classes in an annotation, including those in unions, generics and TypedDicts.

    With `dicts`, TypedDicts and NewTypes are among them.
    """
    waiting: list[Any] = [annotation]
    seen: set[int] = set()
    while waiting:
        part = waiting.pop()
        if id(part) in seen:  # a TypedDict or an alias can contain itself
            continue
        seen.add(id(part))
        if isinstance(part, type) and kind_of(part):
            yield part
        elif typing.is_typeddict(part):
            if dicts:
                yield part
            waiting += _field_annotations(part)
        elif type(part) is list:
            waiting += part
        else:
            if dicts and isinstance(part, typing.NewType):
                yield part  # type: ignore[misc]  # it has a name, and stands for a type, as a class does
            waiting += typing.get_args(part)
            for link in ("__supertype__", "__value__"):  # of NewType, of an alias
                if type(part).__module__ == "typing" and hasattr(part, link):
                    waiting.append(getattr(part, link))


def _field_annotations(cls: type[Any]) -> Iterable[Any]:
    try:
        return typing.get_type_hints(cls).values()
    except Exception:  # an unresolvable name: such a class has to be registered itself
        return ()


def hints_of(cls: type[Any]) -> dict[str, Any]:
    """Return the declared types of the fields of a class, empty if one cannot be resolved."""
    try:
        return typing.get_type_hints(cls, include_extras=True)
    except Exception:  # a name that is not there at run time
        return {}


def fields_of(
    annotations: Iterable[Any], *, versions: bool = False, defaults: bool = False
) -> dict[str, dict[str, str]]:
    """Return the fields and their types of the classes in annotations, and of the classes of their fields.

    Inherited fields are among them, the keys of TypedDicts, the members of an Enum with their values, and
    what a NewType stands for. Classes have their names without the module: that of a script differs between
    processes. Of classes with one name, the fields are joined. With `versions`, the version of a class is
    under "", if it was registered with one, and what a TypedDict requires under "{}". With `defaults`, the
    default of a field follows its type, where it is plain data.
    """
    waiting = [cls for annotation in annotations for cls in classes_in(annotation, dicts=True)]
    found: dict[type[Any], dict[str, str]] = {}
    while waiting:
        cls = waiting.pop()
        if cls not in found:
            if isinstance(cls, typing.NewType):
                found[cls] = {"of": hint_text(cls.__supertype__)}
                continue
            hints = hints_of(cls)
            if issubclass(cls, enum.Enum):
                found[cls] = {name: _value_text(one._value_) for name, one in cls.__members__.items()}
            else:
                written: dict[str, Any] = {}
                for base in reversed(cls.__mro__):
                    written |= inspect.get_annotations(base)
                found[cls] = {name: hint_text(hints.get(name, hint)) for name, hint in written.items()}
            if defaults:
                for name in found[cls].keys() & (default_of := _defaults_of(cls)).keys():
                    text = _default_text(default_of[name])
                    found[cls][name] += f" = {text}" if text else ""
            if versions and version_of(cls) > 1:
                found[cls][""] = str(version_of(cls))
            if versions and typing.is_typeddict(cls):  # with the same fields, a class is another type
                found[cls]["{}"] = ", ".join(sorted(getattr(cls, "__required_keys__", ())))
            waiting += [inner for hint in hints.values() for inner in classes_in(hint, dicts=True)]
    joined: dict[str, dict[str, str]] = {}
    in_order = sorted(found.items(), key=lambda one: (one[0].__qualname__, sorted(one[1].items())))
    for cls, fields in in_order:
        others = joined.setdefault(cls.__qualname__, {})
        for name, text in fields.items():
            others[name] = f"{others[name]}; {text}" if name in others else text
    return joined


def form_of(cls: type[Any]) -> str:
    """Return the version of a class and its fields in order, as a text; empty for a class without fields.

    Where it differs, the same parts may mean something else. Members of an Enum are known by their names.
    """
    return f"{version_of(cls)} {_fields_text(cls)}" if kind_of(cls) is not None else ""


def _fields_as_text(cls: type[Any]) -> str:
    if issubclass(cls, enum.Enum):
        return ""
    written: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        written |= inspect.get_annotations(base)
    # As written: what a text in an annotation means may not be known yet.
    hints = {name: hint if isinstance(hint, str) else hint_text(hint) for name, hint in written.items()}
    return ", ".join(f"{name}: {'' if ' at 0x' in hint else hint}" for name, hint in hints.items())


_fields_text = cast(Callable[[type[Any]], str], functools.lru_cache(maxsize=1024)(_fields_as_text))


def _defaults_of(cls: Any) -> Mapping[str, Any]:
    """Return the defaults of the fields of a class, those that a function makes left out."""
    if hasattr(cls, "__struct_defaults__"):
        values = cls.__struct_defaults__
        return dict(
            zip(cls.__struct_fields__[len(cls.__struct_fields__) - len(values) :], values, strict=True)
        )
    if hasattr(cls, "model_fields"):
        return {name: field.default for name, field in cls.model_fields.items()}
    if dataclasses.is_dataclass(cls):
        return {field.name: field.default for field in dataclasses.fields(cls)}
    found: Mapping[str, Any] = getattr(cls, "_field_defaults", {})
    return found


def _default_text(value: Any) -> str:
    """Return a default as a text, empty if it is not plain data and may differ between processes."""
    if isinstance(value, enum.Enum):
        return f"{type(value).__qualname__}.{value.name}"
    if type(value) is tuple:
        parts = list(map(_default_text, value))
        return f"({', '.join(parts)})" if all(parts) else ""
    return _value_text(value)


def _value_text(value: Any) -> str:
    """Return the value of a member of an enum as a text, empty if it may differ between processes."""
    is_plain = type(value) in _PLAIN or (type(value) is tuple and all(map(_value_text, value)))
    return repr(value) if is_plain else ""


def hint_text(hint: Any) -> str:
    """Return a type as a text that does not depend on how it is written."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        return hint_text(arguments[0])
    if origin in (typing.Union, types.UnionType):
        return " | ".join(sorted(map(hint_text, arguments)))
    if origin is typing.Literal:
        return f"Literal[{', '.join(map(repr, arguments))}]"
    if origin is not None and arguments:
        return f"{hint_text(origin)}[{', '.join(map(hint_text, arguments))}]"
    if isinstance(hint, type):
        return "None" if hint is types.NoneType else hint.__qualname__
    if isinstance(hint, typing.NewType):
        return hint.__name__
    return str(hint).replace("typing.", "")


def line_for(name: str, classes: Iterable[Classes] = ()) -> str:
    """Return the line of code that makes a class of stored data known.

    A class that is not in its module any more may be among `classes`, in another one.
    """
    module, _, qualname = name.partition(":")
    start = "from hypergraph.checkpointers import register; "
    if not all(part.isidentifier() for part in f"{module}.{qualname}".replace("<locals>", "x").split(".")):
        return f"{start}register(...) with this class"  # stored data may hold any text
    is_local = module == _MAIN or "<" in qualname
    first = qualname.partition(".")[0]
    there = sys.modules.get(module)
    found = None if there is None else _at(vars(there), qualname)
    is_there = found is not None and kind_of(found) is not None
    elsewhere = {other for some in classes for other in some.names_for(qualname)} - {name}
    if not is_there and len(elsewhere) == 1:
        module = elsewhere.pop().partition(":")[0]
        came = "" if module == _MAIN or is_local else f"from {module} import {first}; "
        return f"{start}{came}register({qualname}, formerly=[{name!r}])"
    if there is not None and not is_there and not is_local:
        return f"{start}register(..., formerly=[{name!r}]) with the class that it has become"
    return start + ("" if is_local else f"from {module} import {first}; ") + f"register({qualname})"


def upgrade_line(cls: type[Any], stored: Any = None) -> str:
    """Return the line of code that leads stored objects of a class to its fields of today."""
    version = version_of(cls)
    is_member = issubclass(cls, enum.Enum)
    takes = "fields"
    if is_member and type(stored) in (str, list):
        takes = "name" if type(stored) is str else "names"
    return f"register({cls.__qualname__}, version={version + 1}, upgrade={{{version}: function_of_{takes}}})"


_PLAIN = (str, bytes, int, float, bool, types.NoneType)
_CONTAINERS = (list, tuple, set, frozenset)
_MANY = 1000  # objects looked at in closures and defaults


class Scope:
    """The classes that functions can name.

    These are the classes in their closures and defaults, in their modules, and in packages that these modules
    import. A module that is not loaded is not looked at.
    """

    def __init__(self, functions: Iterable[Any] = ()) -> None:
        self._functions = tuple(functions)
        self._held: dict[str, type[Any]] = {}
        self._modules: dict[int, dict[str, Any]] = {}  # the globals of the functions
        self._packages: set[str] | None = None  # read late: modules may still be loading

    def find(self, name: str) -> type[Any] | None:
        """Return the class of this name, None if the functions cannot name it."""
        if not self._functions:
            return None
        if self._packages is None:
            self._packages = self._read()
        module, _, qualname = name.partition(":")
        own = [names for names in self._modules.values() if names.get("__name__") == module]
        loaded = sys.modules.get(module) if module.partition(".")[0] in self._packages else None
        for names in (*own, *([] if loaded is None else [vars(loaded)])):
            if (found := _inside(names, qualname, name)) is not None:
                return found
        if name in self._held:
            return self._held[name]
        for names in self._modules.values():  # a class with another name than its variable
            for value in list(names.values()):
                if isinstance(value, type) and name_of(value) == name and kind_of(value):
                    return value
        return None

    def holds(self, cls: type[Any]) -> bool:
        """Say whether a module or a closure of the functions has a class; their packages do not count."""
        if self._packages is None:
            self._packages = self._read()
        if cls in self._held.values():
            return True
        first = cls.__qualname__.partition(".")[0]
        here = (one for names in self._modules.values() for one in list(names.values()))
        outer = getattr(sys.modules.get(cls.__module__), first, None)
        return any(one is cls or (isinstance(one, type) and one is outer) for one in here)

    def names_for(self, qualname: str) -> set[str]:
        """Return the names of classes with this qualified name, in closures and modules of the functions."""
        if self._packages is None:
            self._packages = self._read()
        found = list(self._held.values())
        for names in self._modules.values():
            found += [value for value in list(names.values()) if isinstance(value, type)]
            found += [cls for cls in [_at(names, qualname)] if cls is not None]  # a class inside another
        return {name_of(cls) for cls in found if cls.__qualname__ == qualname and kind_of(cls)}

    def _read(self) -> set[str]:
        """Look through the functions; return the packages that their modules refer to."""
        waiting: list[Any] = list(self._functions)
        seen: set[int] = set()
        while waiting and len(seen) < _MANY:
            one = waiting.pop()
            if isinstance(one, _PLAIN) or id(one) in seen:
                continue
            seen.add(id(one))
            waiting += self._referred(one)
        packages = set()
        for names in self._modules.values():
            packages.add(str(names.get("__name__")).partition(".")[0])
            for value in list(names.values()):
                home = value.__name__ if isinstance(value, types.ModuleType) else _home_of(value)
                packages.add(home.partition(".")[0])
        return packages

    def _referred(self, one: Any) -> list[Any]:
        """Note what an object names; return the objects to look at next."""
        if isinstance(one, types.FunctionType):
            self._modules[id(one.__globals__)] = one.__globals__
            cells = [cell.cell_contents for cell in one.__closure__ or () if _is_filled(cell)]
            defaults = [*(one.__defaults__ or ()), *(one.__kwdefaults__ or {}).values()]
            return [*cells, *defaults, one.__dict__.get("__wrapped__")]
        if isinstance(one, types.MethodType):
            return [one.__func__, one.__self__]
        if isinstance(one, functools.partial):
            return [one.func, *one.args, *one.keywords.values()]
        if isinstance(one, type):
            if kind_of(one):
                self._held.setdefault(name_of(one), one)
            loaded = sys.modules.get(one.__module__)
            if loaded is not None and one.__module__ != "builtins":
                self._modules[id(vars(loaded))] = vars(loaded)
            return []
        if type(one) in _CONTAINERS:
            return list(one)
        if type(one) is dict:
            return [*one, *one.values()]
        return [type(one)]


def _is_filled(cell: types.CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018 -- raises while the variable has no value
    except ValueError:
        return False
    return True


def _home_of(value: Any) -> str:
    """Return the module of a class, a function, or the class of an object."""
    kind = value if isinstance(value, (type, types.FunctionType)) else type(value)
    home = kind.__module__
    return home if isinstance(home, str) else ""


def _inside(names: Mapping[str, Any], qualname: str, name: str) -> type[Any] | None:
    """Return the class at this path, if it calls itself so."""
    found = _at(names, qualname)
    return found if found is not None and name_of(found) == name and kind_of(found) else None


def _at(names: Mapping[str, Any], qualname: str) -> type[Any] | None:
    """Return the class at this path; attributes are not computed."""
    found: Any = None
    for part in qualname.split("."):
        found = names.get(part)
        if not isinstance(found, type):
            return None
        names = vars(found)
    return cast(type[Any], found)


def _is_script(module: str) -> bool:
    """Say whether the script of this process could be imported as this module: by the path of its file."""
    file = getattr(sys.modules.get(_MAIN), "__file__", None)
    parts = module.split(".")
    return isinstance(file, str) and PurePath(file.removesuffix(".py")).parts[-len(parts) :] == tuple(parts)


def find_class(classes: Iterable[Classes], name: str) -> type[Any] | None:
    """Return the class of this name in stored data, None if it is not known.

    A script is the module `__main__`, and has its own name where it is imported. So a class of the one is
    found under the name of the other, if a single known class has its qualified name.
    """
    known = tuple(classes)
    if exact := _named_so(known, name):
        return exact
    module, _, qualname = name.partition(":")
    if "<" in qualname or not (module == _MAIN or _is_script(module)):
        return None
    names = {other for some in known for other in some.names_for(qualname)}
    found = {cls for other in names if (cls := _named_so(known, other))}
    read = {name_of(cls) for cls in found}  # what has come after one of these is not what is stored
    found = {cls for cls in found if not read & REGISTERED.former_names_of(cls) - {name_of(cls)}}
    if len(found) != 1:
        return None
    (only,) = found
    return only if _MAIN in (module, only.__module__) else None


def _named_so(known: Iterable[Classes], name: str) -> type[Any] | None:
    """Return the class of exactly this name, or the one that has followed it.

    Two releases may be loaded at once, of which the newer one has a class that was called like one of the
    older one. The code that reads an object decides: it gets its own class if that is nearer to it.
    """
    later = REGISTERED.follower(name)
    if later is None:
        return REGISTERED.versioned(name) or next(filter(None, (some.find(name) for some in known)), None)
    for some in known:
        if some is not REGISTERED:
            own = some.find(name)
            if own is not None and some.nearness(own) > some.nearness(later):
                return own
            if some.nearness(later):
                break
    return later


class Classes:
    """The classes that stored data can be read as: named ones, those of their fields, those of a scope."""

    def __init__(self, annotations: Iterable[Any] = (), functions: Iterable[Any] = ()) -> None:
        self._named: dict[str, type[Any]] = {}
        self._former: dict[str, type[Any]] = {}  # by names that they had before
        self._known: set[type[Any]] = set()  # classes that `find` returns
        self._scope = Scope(functions)
        for annotation in annotations:
            for cls in classes_in(annotation):
                self.add(cls)

    def add(self, cls: type[Any], names: Iterable[str] = ()) -> None:
        """Make a class known under its name and former ones."""
        self._named[name_of(cls)] = cls
        self._former.update(dict.fromkeys(names, cls))

    def knows(self, cls: type[Any]) -> bool:
        """Return whether objects of this class can be read back; of two with one name, the newer counts."""
        if cls in self._known:
            return True
        name = name_of(cls)
        if self.find(name) is not cls:
            if self._scope.find(name) is not cls:
                return False
            self._known.discard(self._named[name])
            self._named[name] = cls  # it was defined again, as notebooks do
        self._known.add(cls)
        return True

    def find(self, name: str) -> type[Any] | None:
        """Return the class of this name, None if it is not known."""
        if name not in self._named:  # annotations are read late: forward references resolve only now
            waiting = list(self._named.values())
            seen = set(waiting)
            while waiting:
                for annotation in _field_annotations(waiting.pop()):
                    fresh = [cls for cls in classes_in(annotation) if cls not in seen]
                    waiting += fresh
                    seen.update(fresh)
                    for cls in fresh:
                        self._named.setdefault(name_of(cls), cls)
        found = self._named.get(name) or self._former.get(name)
        return found or self._scope.find(name) or self._subclass(name)

    def names_for(self, qualname: str) -> set[str]:
        """Return the names of the known classes with this qualified name, whatever their module."""
        below = {name_of(cls) for cls in self._subclasses() if cls.__qualname__ == qualname and kind_of(cls)}
        named = {name for name in (*self._named, *self._former) if name.partition(":")[2] == qualname}
        return below | named | self._scope.names_for(qualname)

    def follower(self, name: str) -> type[Any] | None:
        """Return the class that had this name before, None if no other one had it."""
        found = self._former.get(name)
        return None if found is None or name_of(found) == name else found

    def former_names_of(self, cls: type[Any]) -> set[str]:
        """Return the names that a class had before."""
        return {name for name, found in self._former.items() if found is cls}

    def nearness(self, cls: type[Any]) -> int:
        """Say how near a class is: 2 if annotations name it, 1 if a module of the functions does, else 0."""
        if self.find(name_of(cls)) is not cls:
            return 0
        return 2 if self._named.get(name_of(cls)) is cls else int(self._scope.holds(cls))

    def versioned(self, name: str) -> type[Any] | None:
        """Return the class of this name if it was registered with a version, which says how to read it."""
        found = self._named.get(name)
        return found if found is not None and version_of(found) > 1 else None

    def _subclass(self, name: str) -> type[Any] | None:
        """Return the class of this name if it is derived from a known one: an annotation allows it.

        A class that a function defines is not there before that function is called.
        """
        if "<locals>" in name:
            return None
        return next((cls for cls in self._subclasses() if name_of(cls) == name and kind_of(cls)), None)

    def _subclasses(self) -> Iterator[type[Any]]:
        """Yield the classes that are derived from known ones; of those below one class the newest first."""
        waiting: list[type[Any]] = list(self._named.values())
        seen = set(waiting)
        while waiting:
            below: list[type[Any]] = type.__subclasses__(waiting.pop())
            fresh: list[type[Any]] = [cls for cls in below if cls not in seen]
            yield from reversed(fresh)
            seen.update(fresh)
            waiting += fresh


# --- versions ------------------------------------------------------------------------------------

Step = Callable[[Any], Any]  # from the fields of one version to those of the next
Upgrade = Mapping[int, Step] | Step | None


class _Version(NamedTuple):
    number: int
    steps: Mapping[int, Step]  # by the version that each begins with


_versions: weakref.WeakKeyDictionary[type[Any], _Version] = weakref.WeakKeyDictionary()
_under_way: ContextVar[tuple[tuple[type[Any], int], ...]] = ContextVar("upgrades under way", default=())


_noticed: ContextVar[dict[str, None] | None] = ContextVar("upgrades that were made", default=None)


@contextmanager
def noticing_upgrades() -> Iterator[dict[str, None]]:
    """Collect which classes were brought from which version to which, as texts."""
    found: dict[str, None] = {}
    token = _noticed.set(found)
    try:
        yield found
    finally:
        _noticed.reset(token)


def version_of(cls: type[Any]) -> int:
    """Return the version of a class in stored data; 1 for one that was registered without."""
    known = _versions.get(cls) if _versions else None
    return 1 if known is None else known.number


def rebuilt(cls: type[Any], kind: Kind, version: object = 1, **parts: Any) -> Any:
    """Return an object of stored parts, brought to the version of the class. Raises ValueError."""
    if type(version) is not int or version < 1:
        raise ValueError("its version is not a number from 1 on")
    known = _versions.get(cls) if _versions else None
    number = 1 if known is None else known.number
    if version > number:
        raise ValueError(
            f"it is of version {version}, and this code has version {number}; it is of a newer release"
        )
    if known is None or version == number:
        return _built(cls, kind, parts)
    if (noticed := _noticed.get()) is not None:
        noticed[f"{cls.__qualname__} from version {version} to {number}"] = None
    fields, last_step = parts["v"], None
    for before in range(version, number):
        if before not in known.steps:  # to leave it out could read euros as cents
            raise ValueError(
                f"it is of version {version}, and no upgrade leads from version {before} to {before + 1}: "
                f"add upgrade={{{before}: ...}}; if nothing changed, lambda fields: fields"
            )
        fields, last_step = _stepped(cls, before, known.steps[before], fields), before
        if isinstance(fields, cls):
            return fields
    if "given" in parts and type(fields) is dict and type(parts["given"]) is list:
        parts["given"] = [name for name in parts["given"] if name in fields]  # of a pydantic model
    return _built(cls, kind, {**parts, "v": fields}, last_step)


def _built(cls: type[Any], kind: Kind, parts: dict[str, Any], last_step: int | None = None) -> Any:
    """Return an object of stored parts. Raises OtherFieldsError if its class was of another kind then.

    Where an upgrade is there, ValueError says what its last step must return.
    """
    shape = "model" if "given" in parts else "fields" if type(parts.get("v")) is dict else "member"
    if shape != kind.shape:
        was, is_now = _SHAPES[shape], _SHAPES[kind.shape]
        if last_step is not None:
            returned = type(parts["v"]).__name__
            raise ValueError(
                f"its upgrade from version {last_step} returned {returned}, "
                f"but its class was {was} and is {is_now} by now: it must return an object of {cls.__name__}"
            )
        raise OtherFieldsError(
            f"its class was {was} and is {is_now} by now, so that its upgrade must return an object of it"
        )
    return kind.from_parts(**parts)


_SHAPES = {"fields": "a dataclass or the like", "model": "a pydantic model", "member": "an Enum"}


def _stepped(cls: type[Any], version: int, step: Step, fields: Any) -> Any:
    """Return the fields after one step. Raises ValueError for one that raises, loops or changes the type."""
    what, place = f"its upgrade from version {version}", (cls, version)
    if place in _under_way.get():
        raise ValueError(f"{what} loops: it reads an object of that version again")
    token = _under_way.set((*_under_way.get(), place))
    try:
        found = step(dict(fields) if type(fields) is dict else fields)
    except Exception as error:  # the code of a user may raise anything
        raise ValueError(f"{what} raised {type(error).__name__}: {str(error)[:200]}") from error
    finally:
        _under_way.reset(token)
    if type(found) is not type(fields) and not isinstance(found, cls):
        wanted = "a dict of fields" if type(fields) is dict else f"a {type(fields).__name__}"
        raise ValueError(
            f"{what} returned {type(found).__name__}; it must return {wanted}, or an object of {cls.__name__}"
        )
    return found


REGISTERED = Classes()


@overload
def register(cls: C, *, formerly: Iterable[str] = ..., version: int = ..., upgrade: Upgrade = ...) -> C: ...
@overload
def register(
    *, formerly: Iterable[str] = ..., version: int = ..., upgrade: Upgrade = ...
) -> Callable[[C], C]: ...
def register(
    cls: Any = None, *, formerly: Iterable[str] = (), version: int = 1, upgrade: Upgrade = None
) -> Any:
    """Allow stored objects of this class, and of the classes of its fields, to be read as objects.

    Works as a decorator. Objects are stored with the version of their class. When the fields change in a way
    that a default does not cover, raise the version and say how old fields become those of today:

    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Price:
    ...     cents: int
    >>> _ = register(Price, version=2, upgrade={1: lambda fields: {"cents": round(fields["euros"] * 100)}})

    A step gets the fields as a dict (of an Enum the name of the member, of a Flag a list of names), and
    returns those of the next version, or an object of the class. Where a step raises, loops or returns
    another type, the value is an `Undecodable` that says so, and a run that needs it is refused with
    ValueUnreadableError. The same holds for an object of a version from which no step leads on.

    Args:
        cls: the class; leave it out to write `@register(version=2, upgrade=...)`
        formerly: older names ("module:Class") of the class in stored values
        version: the version of its fields, from 1 on
        upgrade: a dict from an older version to the function that leads to the next one; a single function
            for the step to this version

    Raises:
        TypeError: the class is not a dataclass, NamedTuple, msgspec.Struct, pydantic model or Enum; the
            version is not an int; a step of the upgrade is not a function.
        ValueError: the version is below 1, or the upgrade begins with a version that is not an older one.
    """
    if isinstance(formerly, str):
        raise TypeError(f'formerly takes a list of names such as ["shop:Order"], got {formerly!r}')
    steps = _checked_steps(version, upgrade)
    if cls is None:
        return lambda found: register(found, formerly=formerly, version=version, upgrade=upgrade)
    if not isinstance(cls, type) or kind_of(cls) is None:
        kinds = "dataclass, NamedTuple, msgspec.Struct, pydantic model or Enum"
        raise TypeError(f"{cls!r} cannot be registered: it is not a {kinds}")
    _versions.pop(cls, None)
    if version > 1:
        _versions[cls] = _Version(version, steps)
    REGISTERED.add(cls, formerly)
    return cls


def _checked_steps(version: Any, upgrade: Any) -> dict[int, Step]:
    if type(version) is not int:
        raise TypeError(f"The version of a class is an int, got {version!r}")
    if version < 1:
        raise ValueError(f"The version of a class counts from 1, got {version}")
    steps = (
        dict(upgrade) if isinstance(upgrade, Mapping) else {} if upgrade is None else {version - 1: upgrade}
    )
    for before, step in steps.items():
        if not callable(step):
            raise TypeError(f"A step of an upgrade is a function of the fields, got {type(step).__name__}")
        if type(before) is not int or not 1 <= before < version:
            raise ValueError(
                f"An upgrade to version {version} begins with one from 1 to {version - 1}, got {before!r}"
                if version > 1
                else "An upgrade needs version=2 or higher: stored objects without a version are of version 1"
            )
    return steps
