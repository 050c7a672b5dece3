"""Types of answers: as a JSON Schema that is stored with the question, as a check, and as a conversion.

A schema is plain data, so that an answer can be checked where the code of the graph is unknown. It has the
keywords that `schema_of` writes and pydantic writes for usual models; other keywords are ignored.
"""

from __future__ import annotations

import enum
import json
import math
import re
import types
import typing
from collections.abc import Callable, Iterator, Mapping
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
_FORMATS: dict[str, Callable[[str], Any]] = {
    "date-time": datetime.fromisoformat,
    "date": date.fromisoformat,
    "uuid": UUID,
    "decimal": Decimal,
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
        found = _schema(inspect.type_info(wanted), _DEEPEST)
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
        return {"type": "object", **_inside("additionalProperties", _schema(info.value_type, depth - 1))}
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


def _of_enum(kind: type[enum.Enum]) -> Schema:
    members = list(kind)
    if not all(isinstance(member.value, (str, int)) for member in members):
        return {}
    names = {"x-names": [member.name for member in members]}
    return {"title": kind.__name__, "enum": [member.value for member in members], **names}


def _of_fields(info: Any, depth: int) -> Schema:
    fields = {field.encode_name: _schema(field.type, depth - 1) for field in info.fields}
    return {
        "title": info.cls.__name__,
        "type": "object",
        "properties": fields,
        "required": [field.encode_name for field in info.fields if field.required],
        "additionalProperties": False,
    }


def _of_model(kind: Any) -> Any:
    """Return the schema of a pydantic model with its definitions put in place."""
    describe = getattr(kind, "model_json_schema", None)
    if describe is None:
        return None
    found = describe()
    return _resolved(found, found.get("$defs", {}), _DEEPEST)


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


def _readable(found: Any, depth: int, room: list[int]) -> Schema:
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
        elif name == "items" or (name == "additionalProperties" and isinstance(part, dict)):
            is_right, kept = isinstance(part, dict), read(part)
        elif name in ("required", "x-names"):
            is_right = _is_list(part, str)
        elif name in _SIZES or name in _NUMBERS:
            is_right = type(part) is int or (name in _NUMBERS and type(part) is float)
        elif name in ("enum", "const"):
            is_right = name == "const" or isinstance(part, list)
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
    """Return a value as JSON has it: fields of objects by name, members of an Enum as their values.

    Dates, bytes and the like stay what they are: as texts they would fit where a text is asked for.
    """
    if value is None or (isinstance(value, (str, int, float)) and not isinstance(value, enum.Enum)):
        return value
    import msgspec  # loaded on first use: most graphs ask nothing

    try:
        return msgspec.to_builtins(value, enc_hook=_dumped, builtin_types=_KEPT)
    except Exception:  # a class of the user's own, which fits no schema
        return value


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
        if not any(type(value) is type(one) and value == one for one in known):
            yield place, f"must be {described(schema)}, not {shown}"
        return
    kind = schema.get("type")
    if isinstance(kind, str) and not (_is_of(value, kind) or _is_written(value, schema)):
        yield place, f"must be {_CALLED.get(kind, kind)}, not {shown}"
        return
    if isinstance(value, str):
        yield from ((place, problem) for problem in _wrong_text(value, schema, shown))
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield from ((place, problem) for problem in _wrong_number(value, schema, shown))
    elif isinstance(value, Mapping):
        yield from _wrong_object(value, schema, place)
    elif isinstance(value, (list, tuple)):
        yield from _wrong_list(value, schema, place)


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
    read = _FORMATS.get(schema.get("format", ""))
    if read is not None:
        try:
            read(value)
        except (ValueError, ArithmeticError):
            yield f"must be a {schema['format']}, not {shown}"


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
            yield f"{place}.{name}", "is missing"
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
        return named.get(text, next((one for one in known if text in (one, _text(one))), text))
    kind = schema.get("type")
    if kind == "boolean":
        return WORDS.get(text.strip().lower(), text)
    if kind == "string":
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _text(value: Any) -> str:
    return json.dumps(value) if isinstance(value, (bool, type(None))) else str(value)


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
        return msgspec.convert(plain(value), wanted, dec_hook=_built, str_keys=True)
    except (msgspec.ValidationError, ValueError) as error:
        text = " ".join(str(error).split())
        raise InvalidAnswerError(f"{key!r} does not fit: {text}", key=key, field=key) from error
    except TypeError:  # a class that cannot be made from plain data
        return value


def _built(kind: Any, value: Any) -> Any:
    validate = getattr(kind, "model_validate", None)
    return validate(value) if validate is not None else value
