"""Tags: the fixed set of built-in types that JSON lacks, with their conversion to parts and back.

`to_parts` returns named parts, simpler values that are written by the same rules. `from_parts` receives them
as keyword arguments from untrusted data: every part is checked, and invalid ones raise.
"""

from __future__ import annotations

import base64
import binascii
import functools
import pathlib
import re
import zoneinfo
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple, TypeVar
from uuid import UUID, SafeUUID

from hypergraph.values.libraries import only_installed
from hypergraph.values.limits import check_hashes
from hypergraph.values.undecodable import refusal, with_public_text

T = TypeVar("T")
Parts = dict[str, Any]
LOWEST, HIGHEST = -(2**63), 2**64 - 1  # the integers that JSON and MessagePack represent exactly
_DECIMAL_BITS = 2048  # Python always reads 640 decimal digits, whatever its limit; longer numbers are hex
_INT = re.compile(r"-?(?:0x[0-9a-f]+|[0-9]{1,640})")
_FRACTION_BITS = 65_536  # of numerator and denominator; reducing larger ones takes long
_LONGEST_FLOAT = 32  # characters
_LONGEST_PATH = 32_767  # characters, the most that a system takes


class Tag(NamedTuple):
    """A name in stored data, its exact type, and the conversions between them."""

    name: str
    type: type
    to_parts: Callable[[Any], Parts]
    from_parts: Callable[..., Any]


class Blob(NamedTuple):
    """Bytes to store without a copy."""

    view: memoryview


def checked(part: object, kind: type[T]) -> T:
    """Return a part of exactly this type. Raises ValueError for others."""
    if type(part) is not kind:
        raise ValueError(f"expected {kind.__name__}, found {type(part).__name__}")
    return part


def _listed(part: object, kind: type[T], size: int) -> list[T]:
    items = [checked(item, kind) for item in checked(part, list)]
    if len(items) != size:
        raise ValueError(f"expected {size} items, found {len(items)}")
    return items


# --- numbers, text, bytes ------------------------------------------------------------------------


def _int_text(value: int) -> str:
    return str(value) if value.bit_length() <= _DECIMAL_BITS else hex(value)


def _make_int(text: str) -> int:
    if not _INT.fullmatch(text):
        raise ValueError("not an integer")
    return int(text, 0) if "x" in text else int(text)


def _make_float(text: str) -> float:
    if len(text) > _LONGEST_FLOAT:
        raise ValueError("not a float")
    return float(text)


def _str_bytes(value: str) -> Parts:
    return {"v": base64.b64encode(value.encode("utf-8", "surrogatepass")).decode()}


def _from_base64(v: object) -> bytes:
    try:
        return binascii.a2b_base64(checked(v, str), strict_mode=True)
    except binascii.Error as error:
        raise ValueError(f"not base64: {error}") from None


def _make_complex(v: object) -> complex:
    return complex(*_listed(v, float, 2))


def _fraction_parts(value: Fraction) -> Parts:
    parts = [value.numerator, value.denominator]
    if any(part.bit_length() > _FRACTION_BITS for part in parts):
        raise refusal(f"a fraction of more than {_FRACTION_BITS} bits")
    return {"v": parts}


def _make_fraction(v: object) -> Fraction:
    parts = _listed(v, int, 2)
    if any(part.bit_length() > _FRACTION_BITS for part in parts):
        raise ValueError(f"a fraction of more than {_FRACTION_BITS} bits")
    return Fraction(*parts)


# --- dates and times -----------------------------------------------------------------------------


@functools.lru_cache(maxsize=1)
def _zones() -> frozenset[str]:
    with only_installed("tzdata"):  # which this imports
        return frozenset(zoneinfo.available_timezones())


def _make_zone(v: object) -> zoneinfo.ZoneInfo:
    # Checked first: ZoneInfo would import a module for an unknown key.
    key = checked(v, str)
    if key not in _zones():
        raise ValueError(f"unknown time zone {key!r}; installing tzdata may help")
    return zoneinfo.ZoneInfo(key)


def _zone_parts(value: zoneinfo.ZoneInfo) -> Parts:
    if value.key not in _zones():
        text = "cannot be found by its name"
        raise with_public_text(TypeError(f"the time zone {value.key!r} {text}"), f"the time zone {text}")
    return {"v": value.key}


def _timezone_parts(value: timezone) -> Parts:
    offset, *name = value.__getinitargs__()  # type: ignore[attr-defined]
    return {"v": offset, **({"name": name[0]} if name else {})}


def _make_timezone(v: object, name: object = None) -> timezone:
    offset = checked(v, timedelta)
    return timezone(offset) if name is None else timezone(offset, checked(name, str))


def _is_offset(zone: tzinfo | None) -> bool:
    """Return whether the ISO text of a time contains its whole zone."""
    if zone is None or zone is UTC:
        return True
    if type(zone) is not timezone:
        return False
    parts = _timezone_parts(zone)
    return (
        "name" not in parts and not parts["v"].microseconds
    )  # Python misreads fractions of a second in offsets


def _clock_parts(value: datetime | time) -> Parts:
    """Return the parts of a datetime or time: an offset is in the text, other time zones are a part."""
    zone = value.tzinfo
    in_text = _is_offset(zone)
    parts: Parts = {"v": (value if in_text else value.replace(tzinfo=None)).isoformat()}
    if not in_text:
        parts["tz"] = zone
    if value.fold:
        parts["fold"] = 1
    return parts


def _make_clock(kind: type[Any], v: object, tz: object = None, fold: object = 0) -> Any:
    value = kind.fromisoformat(checked(v, str)).replace(fold=checked(fold, int))
    if tz is None:
        return value
    if not isinstance(tz, tzinfo) or value.tzinfo is not None:
        raise ValueError("invalid time zone")
    return value.replace(tzinfo=tz)


def _make_timedelta(v: object) -> timedelta:
    return timedelta(*_listed(v, int, 3))


# --- identifiers and paths -----------------------------------------------------------------------


def _uuid_parts(value: UUID) -> Parts:
    return {"v": str(value), **({} if value.is_safe is SafeUUID.unknown else {"safe": value.is_safe.value})}


def _make_uuid(v: object, safe: object = None) -> UUID:
    return UUID(checked(v, str), is_safe=SafeUUID(safe))


def _path_parts(value: pathlib.PurePath) -> Parts:
    text = str(value)
    if len(text) > _LONGEST_PATH or type(value)(text) != value:
        raise refusal("its text is a different path")
    return {"v": text}


def _make_path(kind: type[Any], v: object) -> Any:
    if len(checked(v, str)) > _LONGEST_PATH:
        raise ValueError(f"a path of more than {_LONGEST_PATH} characters")
    return kind(v)


# --- containers ----------------------------------------------------------------------------------


def _make_dict(v: object) -> dict[Any, Any]:
    items = checked(v, list)
    if len(items) % 2:
        raise ValueError("a key without a value")
    keys = items[::2]
    check_hashes(keys)
    return dict(zip(keys, items[1::2], strict=True))


def _set(kind: type[Any]) -> Tag:
    def to_parts(value: Any) -> Parts:
        try:
            check_hashes(value)
        except ValueError as error:
            raise TypeError(str(error)) from None
        return {"v": list(value)}

    def from_parts(v: object) -> Any:
        items = checked(v, list)
        check_hashes(items)
        return kind(items)

    return Tag(kind.__name__, kind, to_parts, from_parts)


def _from_text(kind: type[Any], write: Callable[[Any], str], read: Callable[[str], Any] | None = None) -> Tag:
    make = read or kind
    return Tag(
        kind.__name__.lower(), kind, lambda value: {"v": write(value)}, lambda v: make(checked(v, str))
    )


_PATHS = (pathlib.PurePosixPath, pathlib.PureWindowsPath, pathlib.PosixPath, pathlib.WindowsPath)

TAGS = (
    Tag("tuple", tuple, lambda value: {"v": list(value)}, lambda v: tuple(checked(v, list))),
    _set(set),
    _set(frozenset),
    _from_text(int, _int_text, _make_int),
    _from_text(float, repr, _make_float),
    Tag("str", str, _str_bytes, lambda v: _from_base64(v).decode("utf-8", "surrogatepass")),
    Tag("bytes", bytes, lambda value: {"v": value}, _from_base64),
    Tag("bytearray", bytearray, lambda value: {"v": bytes(value)}, lambda v: bytearray(checked(v, bytes))),
    Tag("complex", complex, lambda value: {"v": [value.real, value.imag]}, _make_complex),
    _from_text(Decimal, str),
    Tag("fraction", Fraction, _fraction_parts, _make_fraction),
    _from_text(date, date.isoformat, date.fromisoformat),
    Tag("datetime", datetime, _clock_parts, functools.partial(_make_clock, datetime)),
    Tag("time", time, _clock_parts, functools.partial(_make_clock, time)),
    Tag(
        "timedelta",
        timedelta,
        lambda value: {"v": [value.days, value.seconds, value.microseconds]},
        _make_timedelta,
    ),
    Tag("timezone", timezone, _timezone_parts, _make_timezone),
    Tag("zoneinfo", zoneinfo.ZoneInfo, _zone_parts, _make_zone),
    Tag("uuid", UUID, _uuid_parts, _make_uuid),
    *(Tag(kind.__name__, kind, _path_parts, functools.partial(_make_path, kind)) for kind in _PATHS),
)
BY_TYPE = {tag.type: tag for tag in TAGS}
MAKE: dict[str, Callable[..., Any]] = {"dict": _make_dict, **{tag.name: tag.from_parts for tag in TAGS}}
