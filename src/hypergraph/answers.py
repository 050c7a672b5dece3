"""Types of answers: as a JSON Schema that is stored with the question, as a check, and as a conversion.

A schema is plain data, so that an answer can be checked where the code of the graph is unknown. It has the
keywords that `schema_of` writes and pydantic writes for usual models; other keywords are ignored.
"""

from __future__ import annotations

import dataclasses
import enum
import json
import math
import operator
import re
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import partial
from typing import Any
from uuid import UUID

from hypergraph.display import bounded, preview
from hypergraph.exceptions import InvalidAnswerError

Schema = dict[str, Any]

_SIGNAL = re.compile(r"[\w.-]{1,100}", re.ASCII)

WORDS = {
    **dict.fromkeys(("true", "yes", "y", "on", "1"), True),
    **dict.fromkeys(("false", "no", "n", "off", "0"), False),
}
_LONGEST = 500  # characters of a message, and of a pattern
_SHOWN = 20  # members of an enumeration that a message names
_WAYS = 10**8  # in which a text may be tried against a pattern
_CHOICE = re.compile(r"[*+?|]|\{\d*,")  # in a pattern, where there are several ways
_NESTING = re.compile(r"\)[*+?{]|\(\?[^:P]|\\[1-9]|\(\?P=")  # repeated groups, assertions and references
_DEEPEST = 20  # levels of a type that is described; below, anything is accepted
_TYPES: dict[str, tuple[type, ...]] = {
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "string": (str,),
    "array": (list, tuple),
    "object": (Mapping,),
    "null": (type(None),),
}
_CALLED = {"boolean": "true or false", "integer": "a whole number", "number": "a number", "string": "a text"}
_CALLED |= {"array": "a list", "object": "an object", "null": "null"}
_LIMITS = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum", "lt": "exclusiveMaximum"}
_LENGTHS = {"min_length": "minLength", "max_length": "maxLength", "pattern": "pattern"}
_TEXTS = {  # how a text is written, by the name of the type
    "DateTimeType": "date-time",
    "DateType": "date",
    "TimeType": "time",
    "TimeDeltaType": "duration",
    "UUIDType": "uuid",
    "DecimalType": "decimal",
    "BytesType": "base64",
}
_WRITTEN: dict[str, type | tuple[type, ...]] = {  # what a text of this format stands for
    "date-time": datetime,
    "date": date,
    "time": time,
    "duration": timedelta,
    "uuid": UUID,
    "decimal": Decimal,
    "base64": (bytes, bytearray),
    "binary": (bytes, bytearray),
}
_KEPT = (bytes, bytearray, datetime, date, time, timedelta, UUID, Decimal)


def checked_signal(name: Any) -> str:
    """Return the name of a signal. Raises TypeError or ValueError for what cannot be one."""
    if not isinstance(name, str):
        raise TypeError(f"The name of a signal must be a text, got {preview(name)}")
    if not _SIGNAL.fullmatch(name):
        raise ValueError(
            f"{name[:100]!r} cannot be the name of a signal. Use up to 100 letters, digits, and . _ -"
        )
    return name


def schema_of(declared: Any) -> Schema | None:
    """Return the JSON Schema of a type without None, None for a type that says nothing about an answer.

    >>> schema_of(bool | None)
    {'type': 'boolean'}
    """
    wanted = without_none(declared)
    if wanted is None or isinstance(wanted, str):
        return None
    from msgspec import inspect

    found: Schema | None
    try:
        by_hand = _has_other_enum(wanted)
        found = _described(wanted, _DEEPEST) if by_hand else _schema(inspect.type_info(wanted), _DEEPEST)
    except Exception:  # a class that nothing is known of: any answer is left to the graph
        found = _of_model(wanted)
    return found or None


def without_none(declared: Any) -> Any:
    """Return a type without None, and None for no type at all."""
    if typing.get_origin(declared) not in (typing.Union, types.UnionType):
        return None if declared in (None, type(None), Any, object) else declared
    members = [member for member in typing.get_args(declared) if member is not type(None)]
    return typing.Union[tuple(members)] if members else None  # noqa: UP007 - made at run time


def _schema(info: Any, depth: int) -> Schema:  # noqa: PLR0912 - one line for each kind of type
    kind = type(info).__name__
    if depth == 0:
        return {}
    if kind == "Metadata":
        return _schema(info.type, depth)
    if kind == "BoolType":
        return {"type": "boolean"}
    if kind in ("IntType", "FloatType"):
        return {"type": "integer" if kind == "IntType" else "number", **_named(info, _LIMITS)}
    if kind == "StrType":
        return {"type": "string", **_named(info, _LENGTHS)}
    if kind in _TEXTS:
        return {"type": "string", "format": _TEXTS[kind]}
    if kind == "LiteralType":
        return {"enum": list(info.values)}
    if kind == "EnumType":
        return _of_enum(info.cls)
    if kind in ("DataclassType", "TypedDictType", "StructType"):
        return _of_fields(info, depth)
    if kind in ("ListType", "VarTupleType", "SetType", "FrozenSetType"):
        return {"type": "array", **_inside("items", _schema(info.item_type, depth - 1))}
    if kind == "TupleType":
        items = [_schema(item, depth - 1) for item in info.item_types]
        return {"type": "array", "prefixItems": items, "minItems": len(items), "maxItems": len(items)}
    if kind == "DictType":
        return _mapping(*(_schema(each, depth - 1) for each in (info.key_type, info.value_type)))
    if kind == "NoneType":
        return {"type": "null"}
    if kind == "UnionType":
        choices = [_schema(member, depth - 1) for member in info.types]
        return {"anyOf": choices} if all(choices) else {}
    return _of_model(info.cls) or {} if kind == "CustomType" else {}


def _named(info: Any, names: Mapping[str, str]) -> Schema:
    found = {keyword: getattr(info, name) for name, keyword in names.items()}
    return {keyword: value for keyword, value in found.items() if value is not None}


def _inside(keyword: str, schema: Schema) -> Schema:
    return {keyword: schema} if schema else {}


def _mapping(of_keys: Schema, of_values: Schema) -> Schema:
    keys = _inside("propertyNames", of_keys if "x-names" in of_keys else {})  # others stand for themselves
    return {"type": "object", **keys, **_inside("additionalProperties", of_values)}


def _of_enum(kind: type[enum.Enum]) -> Schema:
    choices = _choices(kind)
    if not choices:
        return {}
    return {"title": kind.__name__, "enum": list(choices.values()), **_names_in(kind)}


def _names_in(kind: type[enum.Enum]) -> Schema:
    """Return the names of the members, in their order, and the other names that some have."""
    others = {name: member.name for name, member in kind.__members__.items() if name != member.name}
    return {"x-names": [member.name for member in kind], **_inside("x-aliases", others)}


def _choices(kind: type[enum.Enum]) -> dict[str, Any]:
    """Return what stands for each member in an answer, by name: its value, else the name.

    The name is for a value that JSON has not, or has as no single value. If it could be taken for the value
    of another member, names stand for all of them.
    """
    values = {member.name: member.value for member in kind}
    held = {name: value for name, value in values.items() if _is_single(value)}
    is_clear = not any(name in held.values() for name in values.keys() - held.keys())
    return {name: held[name] if name in held and is_clear else name for name in values}


def _is_single(value: Any) -> bool:
    return type(value) in (str, int, bool) or (type(value) is float and math.isfinite(value))


def _of_fields(info: Any, depth: int) -> Schema:
    fields = [(field.encode_name, _schema(field.type, depth - 1), field.required) for field in info.fields]
    return _object(info.cls, fields)


def _object(kind: type, fields: list[tuple[str, Schema, bool]]) -> Schema:
    return {
        "title": kind.__name__,
        "type": "object",
        "properties": {name: schema for name, schema, _ in fields},
        "required": [name for name, _, is_required in fields if is_required],
        "additionalProperties": False,
    }


# msgspec refuses a type with an Enum inside whose values are neither all texts nor all whole numbers. What
# is around such an Enum is taken apart here; msgspec has the parts without one.

_LISTS = (list, tuple, set, frozenset)
_WRAPPED = (typing.Annotated, typing.Required, typing.NotRequired)


def _is_other_enum(kind: Any) -> bool:
    if not (isinstance(kind, type) and issubclass(kind, enum.Enum)):
        return False
    return {type(member.value) for member in kind} not in ({str}, {int})


def _has_other_enum(declared: Any) -> bool:
    """Say whether a type has an Enum inside that msgspec does not know; pydantic models read their own."""
    waiting: list[Any] = [declared]
    seen: list[Any] = []
    while waiting:
        part = waiting.pop()
        if _is_other_enum(part):
            return True
        if not any(part is one for one in seen):  # a class may contain itself
            seen.append(part)
            bare = _bare(part)
            waiting += typing.get_args(part) if bare is part else [bare]
            waiting += [field.type for field in _fields(part) or ()]
    return False


def _bare(declared: Any) -> Any:
    """Return what an alias, a NewType or an annotated type stands for."""
    if typing.get_origin(declared) in _WRAPPED:
        return typing.get_args(declared)[0]
    if isinstance(declared, typing.NewType):
        return declared.__supertype__
    return declared.__value__ if type(declared).__name__ == "TypeAliasType" else declared


class _Field(typing.NamedTuple):
    name: str
    written: str  # its name in an answer
    type: Any
    required: bool


def _fields(kind: Any) -> list[_Field] | None:
    """Return the fields of a dataclass, a Struct or a TypedDict, None for anything else."""
    import msgspec  # as below

    if not isinstance(kind, type):
        return None
    if issubclass(kind, msgspec.Struct):
        return [_Field(f.name, f.encode_name, f.type, f.required) for f in msgspec.structs.fields(kind)]
    is_dict = typing.is_typeddict(kind)
    if not (is_dict or dataclasses.is_dataclass(kind)):
        return None
    hints = typing.get_type_hints(kind, include_extras=True)
    if is_dict:
        needed: Set[str] = kind.__required_keys__  # type: ignore[attr-defined]  # of a TypedDict
        # It knows nothing of marks in annotations that were texts.
        marks = {typing.Required: True, typing.NotRequired: False}
        return [
            _Field(name, name, hint, marks.get(typing.get_origin(hint), name in needed))
            for name, hint in hints.items()
        ]
    none = dataclasses.MISSING
    return [
        _Field(f.name, f.name, hints[f.name], f.default is none and f.default_factory is none)
        for f in dataclasses.fields(typing.cast(Any, kind))
        if f.init
    ]


def _described(declared: Any, depth: int) -> Schema:
    """Return the schema of a type, part by part."""
    from msgspec import inspect

    if depth == 0:
        return {}
    bare = _bare(declared)
    if not _has_other_enum(declared):
        is_field = typing.get_origin(declared) in (typing.Required, typing.NotRequired)
        return _schema(inspect.type_info(bare if is_field else declared), depth)
    if bare is not declared:
        return _described(bare, depth)
    if _is_other_enum(declared):
        return _of_enum(declared)
    if (fields := _fields(declared)) is not None:
        return _object(declared, [(f.written, _described(f.type, depth - 1), f.required) for f in fields])
    kind, parts = _around(declared)
    inside = [_described(part, depth - 1) for part in parts]
    if kind == "union":
        return {"anyOf": inside} if all(inside) else {}
    if kind == "tuple":
        return {"type": "array", "prefixItems": inside, "minItems": len(inside), "maxItems": len(inside)}
    if kind == "list":
        return {"type": "array", **_inside("items", inside[0])}
    return _mapping(*inside) if kind == "dict" else {}


def _around(declared: Any) -> tuple[str, list[Any]]:
    """Return what kind of type is around others, and these; "" for one that says nothing about an answer."""
    origin, parts = typing.get_origin(declared), list(typing.get_args(declared))
    if origin in (typing.Union, types.UnionType):
        return "union", parts
    if origin is tuple and parts[-1] is not ...:
        return "tuple", parts
    if isinstance(origin, type) and issubclass(dict, origin) and len(parts) == 2:
        return "dict", parts
    if isinstance(origin, type) and any(issubclass(kind, origin) for kind in _LISTS):
        return "list", parts[:1]
    return "", []


def _made(value: Any, declared: Any) -> Any:
    """Return a plain value, which fits, as its type. Raises what msgspec raises."""
    import msgspec  # as below

    bare = _bare(declared)
    if not _has_other_enum(declared):
        is_field = typing.get_origin(declared) in (typing.Required, typing.NotRequired)
        wanted = bare if is_field else declared
        return msgspec.convert(value, wanted, dec_hook=_built, str_keys=True)
    if bare is not declared:
        return _made(value, bare)
    if _is_other_enum(declared):
        return next(declared[name] for name, one in _choices(declared).items() if _listed(value, [one]))
    if (fields := _fields(declared)) is not None:
        is_dict = typing.is_typeddict(declared)
        given = [field for field in fields if field.written in value]
        return declared(**{f.written if is_dict else f.name: _made(value[f.written], f.type) for f in given})
    kind, parts = _around(declared)
    if kind == "union":
        in_order = sorted(parts, key=lambda part: not _is_other_enum(_bare(part)))  # a text may be a choice
        fitting = (p for p in in_order if not any(_problems(value, _described(p, _DEEPEST), "")))
        return _made(value, next(fitting))
    if kind == "tuple":
        return tuple(_made(one, part) for one, part in zip(value, parts, strict=True))
    if kind == "list":
        made = [_made(one, parts[0]) for one in value]
        origin = typing.get_origin(declared)
        return made if issubclass(list, origin) else next(k for k in _LISTS if issubclass(k, origin))(made)
    if kind == "dict":
        return {_key(name, parts[0]): _made(one, parts[1]) for name, one in value.items()}
    return value


def _key(name: Any, declared: Any) -> Any:
    """Return a key of a mapping as its type. Raises ValueError for one that does not fit."""
    import msgspec  # as below

    if not _has_other_enum(declared):
        (found,) = msgspec.convert({name: None}, dict[declared, None], dec_hook=_built, str_keys=True)
        return found
    schema = _described(declared, _DEEPEST)
    read = _from_text(name, schema) if isinstance(name, str) else name  # JSON has texts as keys
    for _, problem in _problems(read, schema, ""):
        raise ValueError(f"a key {problem}")
    return _made(read, declared)


def _of_model(kind: Any) -> Any:
    """Return the schema of a pydantic model with its definitions put in place."""
    describe = getattr(kind, "model_json_schema", None)
    if describe is None:
        return None
    found = describe()
    resolved = _resolved(found, found.get("$defs", {}), _DEEPEST)
    resolved = _with_names(resolved, {each.__name__: each for each in _enums_in(kind)})
    return _closed(resolved) if all(map(_has_fixed_fields, _models_in(kind, set()))) else resolved


def _resolved(schema: Any, known: Mapping[str, Any], depth: int) -> Any:
    if isinstance(schema, list):
        return [_resolved(part, known, depth) for part in schema]
    if not isinstance(schema, dict):
        return schema
    reference = schema.get("$ref")
    if reference is not None:
        target = known.get(str(reference).rpartition("/")[2])
        return _resolved(target, known, depth - 1) if target is not None and depth else {}
    return {name: _resolved(part, known, depth) for name, part in schema.items() if name != "$defs"}


def _enums_in(declared: Any) -> Iterator[type[enum.Enum]]:
    """Yield the classes of members in a type, and in the fields of its classes."""
    waiting, seen = [declared], list[Any]()
    while waiting:
        part = waiting.pop()
        if any(part is one for one in seen):
            continue
        seen.append(part)
        if isinstance(part, type) and issubclass(part, enum.Enum):
            yield part
        bare = _bare(part)
        waiting += typing.get_args(part) if bare is part else [bare]
        waiting += [field.annotation for field in getattr(part, "model_fields", {}).values()]
        waiting += [field.type for field in _fields(part) or ()]


def _with_names(schema: Any, kinds: Mapping[str, type[enum.Enum]]) -> Any:
    """Return the schema of a model with the names of members, which pydantic leaves out."""
    if isinstance(schema, list):
        return [_with_names(part, kinds) for part in schema]
    if not isinstance(schema, dict):
        return schema
    found = {name: _with_names(part, kinds) for name, part in schema.items()}
    kind = kinds.get(str(schema.get("title")))
    known = schema.get("enum", [schema["const"]] if "const" in schema else None)
    if kind is not None and isinstance(known, list) and len(known) == len(kind):
        found |= _names_in(kind)
    return found


def _models_in(declared: Any, seen: set[Any]) -> Iterator[Any]:
    """Yield the pydantic models in a type, and in the fields of these."""
    if isinstance(declared, type) and hasattr(declared, "model_fields") and declared not in seen:
        seen.add(declared)
        yield declared
        for field in declared.model_fields.values():
            yield from _models_in(field.annotation, seen)
    for part in typing.get_args(declared):
        yield from _models_in(part, seen)


def _has_fixed_fields(model: Any) -> bool:
    """Say whether a model leaves open what becomes of other names, and knows its fields by one name each.

    pydantic drops other names then, without a word; an answer with a misspelt field would count without it.
    """
    is_open = (getattr(model, "model_config", None) or {}).get("extra") is not None
    return not is_open and not any(
        field.alias or field.validation_alias for field in model.model_fields.values()
    )


def _closed(schema: Any) -> Any:
    """Return the schema of a model in which an object has no other names than those of its fields."""
    if isinstance(schema, list):
        return [_closed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    found = {
        name: {key: _closed(each) for key, each in part.items()} if name == "properties" else _closed(part)
        for name, part in schema.items()
    }
    if schema.get("type") == "object" and isinstance(schema.get("properties"), dict):
        found.setdefault("additionalProperties", False)
    return found


# -- reading ------------------------------------------------------------------------------------------

_NUMBERS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
_SIZES = ("minLength", "maxLength", "minItems", "maxItems")
_MOST_PARTS = 5000  # of a schema that is read


def stored_schema(found: Any) -> Schema | None:
    """Return a schema that was stored; a damaged row may hold anything, and such parts are left out.

    >>> stored_schema({"type": "string", "minLength": "x", "pattern": 5})
    {'type': 'string'}
    """
    return _readable(found, _DEEPEST, [_MOST_PARTS]) if isinstance(found, dict) else None


def _readable(  # noqa: PLR0912 - one branch for each kind of keyword
    found: Any, depth: int, room: list[int]
) -> Schema:
    room[0] -= 1
    if not isinstance(found, dict) or depth < 0 or room[0] < 0:
        return {}
    read = partial(_readable, depth=depth - 1, room=room)
    schema: Schema = {}
    for name, part in found.items():
        is_right, kept = False, part
        if name in ("anyOf", "oneOf", "prefixItems"):
            if is_right := _is_list(part, dict):
                kept = [read(each) for each in part]
        elif name == "properties":
            if is_right := isinstance(part, dict) and _is_list(list(part), str):
                kept = {key: read(each) for key, each in part.items()}
        elif name in ("items", "propertyNames") or (
            name == "additionalProperties" and isinstance(part, dict)
        ):
            is_right, kept = isinstance(part, dict), read(part)
        elif name in ("required", "x-names"):
            is_right = _is_list(part, str)
        elif name in _SIZES or name in _NUMBERS:
            is_right = type(part) is int or (name in _NUMBERS and type(part) is float)
        elif name in ("enum", "const"):
            is_right = name == "const" or isinstance(part, list)
        elif name in ("x-versions", "x-aliases"):
            is_right = isinstance(part, dict) and _is_list([*part, *part.values()], str)
        else:  # a type, a format, a pattern, or words about it
            is_right = isinstance(part, str | bool)
        if is_right and isinstance(name, str):
            schema[name] = kept
    return schema if room[0] >= 0 else {}


def _is_list(found: Any, kind: type) -> bool:
    return isinstance(found, list) and all(isinstance(each, kind) for each in found)


# -- checking -----------------------------------------------------------------------------------------


def check(key: str, value: Any, schema: Schema | None) -> None:
    """Raise InvalidAnswerError, with the name of the field, for an answer that does not fit.

    >>> check("approved", "maybe", {"type": "boolean"})
    Traceback (most recent call last):
        ...
    hypergraph.exceptions.InvalidAnswerError: 'approved' must be true or false, not 'maybe'
    """
    if not schema:
        return
    for place, problem in _problems(plain(value), schema, ""):
        text = bounded(f"{key + place!r} {problem}", _LONGEST)
        raise InvalidAnswerError(text, key=key, field=(key + place))


def plain(value: Any) -> Any:
    """Return a value as JSON has it: fields of objects by name, members of an Enum as what stands for them.

    Dates, bytes and the like stay what they are: as texts they would fit where a text is asked for.
    """
    if value is None or (isinstance(value, (str, int, float)) and not isinstance(value, enum.Enum)):
        return value
    import msgspec  # loaded on first use: most graphs ask nothing

    try:
        return msgspec.to_builtins(_with_choices(value), enc_hook=_dumped, builtin_types=_KEPT)
    except Exception:  # a class of the user's own, which fits no schema
        return value


def _with_choices(value: Any) -> Any:
    """Return a value with what stands for members of an Enum, where that is not what msgspec makes of them.

    What has no such member inside is returned as it is.
    """
    if isinstance(value, enum.Enum):
        return _choices(type(value)).get(value.name, value) if _is_other_enum(type(value)) else value
    if isinstance(value, _LISTS):
        parts = [_with_choices(part) for part in value]
        return value if all(map(operator.is_, parts, value)) else parts
    if isinstance(value, dict):
        pairs = [(_with_choices(key), _with_choices(part)) for key, part in value.items()]
        is_same = all(
            pair[0] is key and pair[1] is value[key] for pair, key in zip(pairs, value, strict=True)
        )
        return value if is_same else dict(pairs)
    if (fields := _fields(type(value))) is None:
        return value
    held = {field.written: getattr(value, field.name) for field in fields}
    told = {name: _with_choices(part) for name, part in held.items()}
    return value if all(told[name] is part for name, part in held.items()) else told


def _dumped(value: Any) -> Any:
    dump = getattr(value, "model_dump", None)
    if dump is None:
        raise NotImplementedError
    return dump(mode="json")


def _problems(value: Any, schema: Schema, place: str) -> Iterator[tuple[str, str]]:
    shown = preview(value)
    choices = schema.get("anyOf") or schema.get("oneOf")
    if choices:
        tried = [list(_problems(value, choice, place)) for choice in choices]
        if all(tried):
            deepest = max((found[0] for found in tried), key=lambda found: len(found[0]))
            yield deepest if deepest[0] != place else (place, f"must be {described(schema)}, not {shown}")
        return
    if "const" in schema or "enum" in schema:
        known = schema["enum"] if "enum" in schema else [schema["const"]]
        if not _listed(value, known):
            yield place, f"must be {described(schema)}, not {shown}"
        return
    kind = schema.get("type")
    if isinstance(kind, str) and not (_is_of(value, kind) or _is_written(value, schema)):
        wanted = described(schema) if kind in ("object", "array") else _CALLED.get(kind, kind)
        yield place, f"must be {wanted}, not {shown}"
        return
    if isinstance(value, str):
        yield from ((place, problem) for problem in _wrong_text(value, schema, shown))
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield from ((place, problem) for problem in _wrong_number(value, schema, shown))
    elif isinstance(value, Mapping):
        yield from _wrong_object(value, schema, place)
    elif isinstance(value, (list, tuple)):
        yield from _wrong_list(value, schema, place)


def _listed(value: Any, known: Iterable[Any]) -> list[Any]:
    """Return the listed value that a value is, if any; JSON may have 2.0 as 2."""
    if isinstance(known, list) and value not in known:  # quick, also for many
        return []
    kinds = (int, float) if type(value) is int else (type(value),)
    return [one for one in known if type(one) in kinds and value == one][:1]


def _is_of(value: Any, kind: str) -> bool:
    known = _TYPES.get(kind)
    if known is None:
        return True
    return isinstance(value, known) and (kind == "boolean" or not isinstance(value, bool))


def _is_written(value: Any, schema: Schema) -> bool:
    """Say whether JSON has a value as a text, of the kind that is asked for."""
    if schema.get("type") != "string" or not isinstance(value, _KEPT):
        return False
    if isinstance(value, Decimal) and "pattern" in schema:  # a decimal number, as pydantic describes it
        return bool(_may_match(schema["pattern"], str(value)))
    kind = schema.get("format")
    is_other = kind == "date" and isinstance(value, datetime)
    return kind in _WRITTEN and isinstance(value, _WRITTEN[kind]) and not is_other


def _wrong_text(value: str, schema: Schema, shown: str) -> Iterator[str]:
    if len(value) < schema.get("minLength", 0):
        yield f"must have at least {schema['minLength']} characters, not {len(value)}"
    if len(value) > schema.get("maxLength", len(value)):
        yield f"must have at most {schema['maxLength']} characters, not {len(value)}"
    pattern = schema.get("pattern")
    if isinstance(pattern, str) and not _may_match(pattern, value):
        yield f"must match {pattern!r}, not {shown}"
    kind = schema.get("format", "")
    if kind in _READ:
        try:
            _as_written(value, kind)
        except (ValueError, ArithmeticError):
            yield f"must be {_FORMS.get(kind, f'a {kind}')}, not {shown}"


_DURATION = re.compile(r"(-?)(?:(\d{1,9}) days?,? )?(\d{1,9}):(\d\d)(?::(\d\d)(\.\d{1,6})?)?", re.ASCII)


def _duration(text: str) -> timedelta:
    """Return a duration that is written as Python shows it, where the sign is that of the days."""
    found = _DURATION.fullmatch(text)
    if found is None:
        raise ValueError(text)
    sign, days, hours, minutes, seconds, rest = found.groups()
    whole = timedelta(int(days or 0))
    clock = timedelta(hours=int(hours), minutes=int(minutes), seconds=float((seconds or "0") + (rest or "")))
    if not sign:
        return whole + clock
    return clock - whole if days else -clock


# What a text of a format stands for, as msgspec reads it. Some more ways to write it are read as well: a page
# gives a date-time without seconds, and pydantic takes a duration as Python shows it.
_READ: dict[str, tuple[type, Callable[[str], Any] | None]] = {
    "date-time": (datetime, datetime.fromisoformat),
    "date": (date, date.fromisoformat),
    "time": (time, time.fromisoformat),
    "duration": (timedelta, _duration),
    "uuid": (UUID, UUID),
    "decimal": (Decimal, Decimal),
    "base64": (bytes, None),
}
_FORMS = {"base64": "bytes in Base64", "duration": "a duration such as 'P1DT2H' or '26:00:00'"}


def _as_written(text: str, kind: str) -> Any:
    """Return what a text of a format stands for. Raises ValueError or ArithmeticError."""
    import msgspec  # as above

    wanted, other = _READ[kind]
    try:
        return msgspec.convert(text, wanted)
    except msgspec.ValidationError:
        if other is None:
            raise
    return other(text)


def _with_read(value: Any, schema: Schema) -> Any:
    """Return a plain value, which fits, with what its texts stand for in place of those that have a format.

    So the run takes all that the check has accepted. Bytes are left to what reads them: to read Base64 twice
    would change it.
    """
    choices = schema.get("anyOf") or schema.get("oneOf")
    if choices:
        fitting = (choice for choice in choices if not any(_problems(value, choice, "")))
        return _with_read(value, next(fitting, {}))
    kind = schema.get("format")
    if isinstance(value, str):
        is_read = schema.get("type") == "string" and kind in _READ and kind != "base64"
        return _as_written(value, str(kind)) if is_read else value
    if isinstance(value, Mapping):
        fields, more = schema.get("properties", {}), schema.get("additionalProperties")
        rest = more if isinstance(more, dict) else {}
        return {name: _with_read(part, fields.get(name, rest)) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        first, rest = schema.get("prefixItems", ()), schema.get("items") or {}
        return [_with_read(p, first[at] if at < len(first) else rest) for at, p in enumerate(value)]
    return value


def _may_match(pattern: str, value: str) -> bool:
    """Say whether a text matches a pattern, or that would take long to find out.

    A stored pattern may be of a stranger, and made to take hours. The run that takes the answer checks it
    again, with the type that its code declares.
    """
    if len(pattern) > _LONGEST or _NESTING.search(pattern):
        return True
    if max(len(value), 1).bit_length() * (len(_CHOICE.findall(pattern)) + 1) > _WAYS.bit_length():
        return True
    try:
        return re.search(pattern, value) is not None
    except (re.error, OverflowError, RecursionError):
        return True


def _wrong_number(value: float, schema: Schema, shown: str) -> Iterator[str]:
    if not _is_finite(value, schema):
        yield f"must be a finite number, not {shown}"
    if "minimum" in schema and value < schema["minimum"]:
        yield f"must be at least {schema['minimum']}, not {shown}"
    if "exclusiveMinimum" in schema and value <= schema["exclusiveMinimum"]:
        yield f"must be above {schema['exclusiveMinimum']}, not {shown}"
    if "maximum" in schema and value > schema["maximum"]:
        yield f"must be at most {schema['maximum']}, not {shown}"
    if "exclusiveMaximum" in schema and value >= schema["exclusiveMaximum"]:
        yield f"must be below {schema['exclusiveMaximum']}, not {shown}"


def _is_finite(value: float, schema: Schema) -> bool:
    """Say whether a number is finite, as a float where one is asked for."""
    if isinstance(value, int) and schema.get("type") != "number":
        return True
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def _wrong_object(value: Mapping[Any, Any], schema: Schema, place: str) -> Iterator[tuple[str, str]]:
    fields, more = schema.get("properties", {}), schema.get("additionalProperties", True)
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{place}.{name}", f"is missing; given: {', '.join(map(repr, value)) or 'no fields'}"
    for name, part in value.items():
        if name in fields:
            yield from _problems(part, fields[name], f"{place}.{name}")
        elif more is False:
            known = ", ".join(fields) or "none"
            yield f"{place}.{name}", f"is not a field; the fields are {known}"
        elif isinstance(more, dict):
            yield from _problems(part, more, f"{place}.{name}")


def _wrong_list(value: list[Any] | tuple[Any, ...], schema: Schema, place: str) -> Iterator[tuple[str, str]]:
    if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
        yield place, f"must have {schema.get('minItems', 0)} items, not {len(value)}"
        return
    first, rest = schema.get("prefixItems", ()), schema.get("items")
    for number, part in enumerate(value):
        wanted = first[number] if number < len(first) else rest
        if isinstance(wanted, dict):
            yield from _problems(part, wanted, f"{place}[{number}]")


def described(schema: Schema | None) -> str:
    """Return what an answer must be, in a few words, "anything" without a schema."""
    if not schema:
        return "anything"
    if "enum" in schema:
        named = [*map(repr, schema["enum"][:_SHOWN]), *(["..."] if len(schema["enum"]) > _SHOWN else [])]
        return "one of " + ", ".join(named)
    if "const" in schema:
        return repr(schema["const"])
    if choices := schema.get("anyOf") or schema.get("oneOf"):
        return " or ".join(described(choice) for choice in choices)
    kind = schema.get("type", "")
    if kind == "object" and "properties" in schema:
        fields = (_field(name, part) for name, part in schema["properties"].items())
        return f"an object with {', '.join(fields) or 'no fields'}"
    if kind == "array" and isinstance(schema.get("items"), dict):
        return f"a list, each item {described(schema['items'])}"
    return _CALLED.get(kind, "anything")


def _field(name: str, schema: Schema) -> str:
    """Return a field of an object, with its choices if it has some."""
    choices = isinstance(schema, dict) and ("enum" in schema or "const" in schema)
    return f"{name} ({described(schema)})" if choices else name


# -- converting ---------------------------------------------------------------------------------------


def from_text(key: str, text: str, schema: Schema | None) -> Any:
    """Return the answer in a text that was typed: "no" is False where a bool is expected, and no int.

    Raises:
        InvalidAnswerError: the text does not fit.
    """
    value = _from_text(text, schema or {})
    check(key, value, schema)
    return value


def _from_text(text: str, schema: Schema) -> Any:
    choices = schema.get("anyOf") or schema.get("oneOf")
    if choices:
        for choice in sorted(choices, key=lambda choice: choice.get("type") == "string"):
            value = _from_text(text, choice)
            if not any(_problems(value, choice, "")):
                return value
        return text
    if "enum" in schema or "const" in schema:
        known = schema["enum"] if "enum" in schema else [schema["const"]]
        named = dict(zip(schema.get("x-names", ()), known, strict=False))
        if text in named:
            return named[text]
        written = [one for one in known if text == (one if type(one) is str else _text(one))]
        return (written or _listed(_loaded(text), known) or [text])[0]  # 2 may stand for 2.0
    kind = schema.get("type")
    if kind == "boolean":
        return WORDS.get(text.strip().lower(), text)
    return text if kind == "string" else _loaded(text)


def _loaded(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _text(value: Any) -> str:
    return json.dumps(value) if isinstance(value, (bool, type(None))) else str(value)


def has_members(schema: Any) -> bool:
    """Say whether a schema has members of an Enum in it, which a value stands for."""
    parts = schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ()
    return (isinstance(schema, dict) and "x-names" in schema) or any(map(has_members, parts))


def as_asked(key: str, value: Any, asked: Schema | None, declared: Any) -> Any:
    """Return an answer in which each member of an Enum is what stands for it in today's type.

    `asked` is the schema that the giver could know. A member is found by its name of then. One whose name is
    gone was renamed if its value is that of a new name, and no other member has another value by now. Objects
    are left as they are.

    Raises:
        InvalidAnswerError: the member is not there any more.
    """
    if not asked or not has_members(asked):
        return value
    now = schema_of(declared)
    return value if now is None else _as_asked(value, asked, [now], key)


def _as_asked(value: Any, asked: Schema, now: list[Schema], place: str) -> Any:
    if isinstance(value, enum.Enum):
        return value
    if choices := asked.get("anyOf") or asked.get("oneOf"):
        in_order = sorted(choices, key=lambda choice: "x-names" not in choice)
        fitting = (choice for choice in in_order if not any(_problems(plain(value), choice, "")))
        chosen = next(fitting, None)
        return value if chosen is None else _as_asked(value, chosen, now, place)
    now = [part for each in now for part in _alternatives(each)]
    if "x-names" in asked:
        return _member_as_asked(value, asked, [each for each in now if "x-names" in each], place)
    if isinstance(value, Mapping):
        made = {
            _key_as_asked(name, asked, now, place): _as_asked(
                *(part, _field_of(asked, name), [_field_of(each, name) for each in now], f"{place}.{name}")
            )
            for name, part in value.items()
        }
        pairs = zip(made.items(), value.items(), strict=False)
        is_same = len(made) == len(value) and all(a is c and b is d for (a, b), (c, d) in pairs)
        return value if is_same else made
    if isinstance(value, _LISTS):
        parts = [
            _as_asked(part, _item_of(asked, at), [_item_of(each, at) for each in now], f"{place}[{at}]")
            for at, part in enumerate(value)
        ]
        return value if all(map(operator.is_, parts, value)) else parts
    return value


def _alternatives(schema: Schema) -> list[Schema]:
    choices = schema.get("anyOf") or schema.get("oneOf")
    return [part for each in choices for part in _alternatives(each)] if choices else [schema]


def _field_of(schema: Schema, name: Any) -> Schema:
    more = schema.get("additionalProperties")
    found: Schema = schema.get("properties", {}).get(name, more if isinstance(more, dict) else {})
    return found


def _item_of(schema: Schema, at: int) -> Schema:
    first = schema.get("prefixItems", ())
    found: Schema = first[at] if at < len(first) else schema.get("items") or {}
    return found


def _key_as_asked(name: Any, asked: Schema, now: list[Schema], place: str) -> Any:
    """Return a key of a mapping as today's type has it; JSON has texts as keys."""
    known = asked.get("propertyNames", {})
    if "x-names" not in known:
        return name
    read = _from_text(name, known) if isinstance(name, str) else name
    others = [each["propertyNames"] for each in now if "propertyNames" in each]
    made = _as_asked(read, known, others, f"a key of {place}")
    if made is read:
        return name
    return _text(made) if isinstance(name, str) and not isinstance(made, str) else made


def _member_as_asked(value: Any, asked: Schema, now: list[Schema], place: str) -> Any:
    """Return what stands today for the member that a value stood for."""
    was = _members_in(asked)
    names = [name for name, one in was.items() if _listed(value, [one])]
    if not (names and now):
        return value
    today = _members_in(next((each for each in now if each.get("title") == asked.get("title")), now[0]))
    for name in names:
        if name in today:
            return value if _listed(value, [today[name]]) else today[name]
    is_new = any(name not in was and _listed(value, [one]) for name, one in today.items())
    if is_new and all(_listed(today[name], [one]) for name, one in was.items() if name in today):
        return value
    raise InvalidAnswerError(
        f"{place!r} was given as {preview(value)}, which stood for {names[0]} when it was asked for, and "
        "there is no such member now",
        key=place,
        field=place,
    )


def _members_in(schema: Schema) -> dict[str, Any]:
    """Return what stands for each member of an Enum, by all of its names."""
    known = schema["enum"] if "enum" in schema else [schema.get("const")]
    found = dict(zip(schema["x-names"], known, strict=False))
    others = schema.get("x-aliases", {})
    return found | {name: found[other] for name, other in others.items() if other in found}


def converted(key: str, value: Any, declared: Any) -> Any:
    """Return an answer as the type that the handler declares: an object as its class, a value as its Enum.

    Raises:
        InvalidAnswerError: it does not fit.
    """
    wanted = without_none(declared)
    if wanted is None or isinstance(wanted, str):
        return value
    schema = schema_of(declared)
    if schema is None:
        return value
    check(key, value, schema)
    if isinstance(wanted, type) and type(value) is wanted:
        return value
    import msgspec  # as above

    validate = getattr(wanted, "model_validate", None)
    try:
        if validate is not None:
            return value if isinstance(value, wanted) else validate(plain(value))
        return _made(_with_read(plain(value), schema), wanted)
    except (msgspec.ValidationError, ValueError) as error:
        text = " ".join(str(error).split())
        raise InvalidAnswerError(f"{key!r} does not fit: {text}", key=key, field=key) from error
    except TypeError:  # a class that cannot be made from plain data
        return value


def _built(kind: Any, value: Any) -> Any:
    validate = getattr(kind, "model_validate", None)
    return validate(value) if validate is not None else value
