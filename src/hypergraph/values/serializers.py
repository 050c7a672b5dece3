"""Serializers: values to bytes and back, with types and content preserved at every level.

`serialize` raises TypeError for a value that it cannot store exactly. `deserialize` does not raise for
invalid data: damaged values and objects of unregistered classes become `Undecodable`. Reading never imports
by name and never runs code chosen by stored data; pickle does both, and has to be enabled.
"""

from __future__ import annotations

import copy
import pickle
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from typing import Any, ClassVar, Self

import msgspec

from hypergraph.values.classes import REGISTERED, Classes, register
from hypergraph.values.limits import LONGEST_TEXT, SMALL, check_json, check_msgpack
from hypergraph.values.pickles import pickled
from hypergraph.values.trees import PLAIN, SHORT, Reader, Writer, is_plain
from hypergraph.values.undecodable import Undecodable, with_public_text

__all__ = ["JsonSerializer", "MsgpackSerializer", "PickleSerializer", "Serializer", "Undecodable", "register"]


class Serializer(ABC):
    """Turn values into bytes and back.

    `id` and `version` are stored next to the bytes and select the serializer that reads them. The id of a
    subclass defaults to the name of its class.
    """

    id: ClassVar[str]  # the name in stored formats
    version: ClassVar[int] = 1  # the version in stored formats

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "id" not in vars(cls):
            cls.id = f"{cls.__module__}:{cls.__qualname__}"

    @abstractmethod
    def serialize(self, value: Any) -> bytes:
        """Return the value as bytes. Raises TypeError if it cannot be stored exactly."""

    @abstractmethod
    def deserialize(self, data: bytes) -> Any:
        """Return the value of these bytes, or an `Undecodable` with the reason."""

    def joined(self, lists: Sequence[bytes]) -> bytes | None:
        """Return several stored lists as one, None if they have to be read one by one."""
        return None

    def with_types(self, annotations: Iterable[Any], functions: Iterable[Any] = ()) -> Serializer:
        """Return a serializer for the classes that these annotations and functions name.

        It also rebuilds objects of these classes, and refuses to store objects of classes that it does not
        know.
        """
        return self

    def beside(self, format_name: str) -> Serializer | None:
        """Return a serializer of another format that may read what is stored beside this one's values."""
        return None

    def without_types(self) -> Serializer:
        """Return a serializer for viewing: it builds no objects of user classes, even registered ones."""
        return self

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class _TreeSerializer(Serializer):
    """The common base of JSON and MessagePack, which differ in the encoder only."""

    _native: ClassVar[frozenset[type]]
    _marker: ClassVar[bytes]  # the key "$" as encoded; data without it has no tags
    _encode: Callable[[Any], bytes]
    _decode: Callable[[bytes], Any]
    _check: Callable[[bytes], None]  # raises ValueError for bytes that would take too much memory
    _lossy = False
    _classes: tuple[Classes, ...] | None = (REGISTERED,)
    _strict = False  # whether only objects of these classes are stored

    def serialize(self, value: Any) -> bytes:
        """Return the value as bytes. Raises TypeError, with type and path, if it cannot be stored exactly."""
        kind, native = type(value), self._native
        try:
            if kind is dict or kind is list:
                is_direct = is_plain(value, native)
            else:
                is_direct = (kind is int and 0 <= value < SHORT) or kind in native or is_plain(value, native)
            data = self._encode(value) if is_direct else self._tagged(value)
        except (UnicodeEncodeError, RecursionError):
            data = self._tagged(value)  # a lone surrogate, which needs a tag, or deep nesting
        if len(data) <= SMALL:
            return data
        try:
            self._check(data)
        except ValueError as error:
            raise self._refused(value, error) from None
        return data

    def _tagged(self, value: Any) -> bytes:
        try:
            known = self._classes if self._strict else None
            writer = Writer(type(self).__name__, self._native, self._encode, self._lossy, known)
            return self._encode(writer.write(value))
        except RecursionError:
            raise self._refused(value, "nested too deep") from None

    def _refused(self, value: Any, reason: object) -> TypeError:
        text = f"{type(self).__name__} cannot store {type(value).__name__}: {reason}"
        return with_public_text(TypeError(text), text)

    def deserialize(self, data: bytes) -> Any:
        """Return the value of these bytes, or an `Undecodable` with the reason and the readable part."""
        if type(data) is not bytes:
            data = bytes(data)
        try:
            if len(data) > SMALL:
                self._check(data)
            tree = self._decode(data)
            has_tags = b"$" in data and self._marker in data  # a single byte is found much faster
            del data  # frees memory early: it may be large
            return Reader(self._classes).value(tree) if has_tags else tree
        except Exception as error:  # stored bytes can be damaged, truncated, nested too deep
            reason = f"not readable as {self.id}: {type(error).__name__}: {error}"
            return Undecodable(reason[:LONGEST_TEXT])

    def with_types(self, annotations: Iterable[Any], functions: Iterable[Any] = ()) -> Self:
        """Return a serializer for the classes that these annotations and functions name.

        It also rebuilds objects of these classes. What it stores it can read: `serialize` raises TypeError
        for an object of a class that it does not know.
        """
        other = copy.copy(self)
        other._classes = (Classes(annotations, functions), *(self._classes or ()))
        other._strict = True
        return other

    def beside(self, format_name: str) -> Serializer | None:
        """Return the other one of JSON and MessagePack, with the same classes: both only parse."""
        found = next((kind for kind in (JsonSerializer, MsgpackSerializer) if kind.id == format_name), None)
        if found is None:
            return None
        other = found()
        other._classes, other._strict = self._classes, self._strict
        return other

    def without_types(self) -> Self:
        """Return a serializer for viewing: it builds no objects of user classes, even registered ones."""
        other = copy.copy(self)
        other._classes, other._strict = None, False
        return other


_OPEN, _CLOSE = b"[]"
_FIRST, _INSIDE, _LAST = itemgetter(0), itemgetter(slice(1, -1)), itemgetter(-1)


class JsonSerializer(_TreeSerializer):
    """Store values as JSON: plain data stays readable, other types are tagged.

    >>> serializer = JsonSerializer()
    >>> serializer.serialize({"price": [1, 2.5]})
    b'{"price":[1,2.5]}'
    >>> serializer.deserialize(serializer.serialize((1, 2)))
    (1, 2)

    With `lossy=True`, parts that cannot be stored are replaced by their `str()` instead of raising TypeError.
    """

    id = "json"
    _native: ClassVar[frozenset[type]] = PLAIN
    _marker = b'"$"'
    _encode = msgspec.json.Encoder().encode
    _decode = msgspec.json.Decoder().decode
    _check = staticmethod(check_json)

    def __init__(self, *, lossy: bool = False) -> None:
        self._lossy = lossy

    def joined(self, lists: Sequence[bytes]) -> bytes | None:
        """Return several stored lists as one, None if one of them is not a list."""
        if not all(lists) or {*map(_FIRST, lists)} != {_OPEN} or {*map(_LAST, lists)} != {_CLOSE}:
            return None
        return b"[" + b",".join(filter(None, map(_INSIDE, lists))) + b"]"

    def __repr__(self) -> str:
        return "JsonSerializer(lossy=True)" if self._lossy else "JsonSerializer()"


def _refuse_extension(code: int, data: memoryview) -> Any:
    raise ValueError(f"unknown extension {code}")


class MsgpackSerializer(_TreeSerializer):
    """Store values as MessagePack, smaller and faster than JSON for bytes, arrays and floats."""

    id = "msgpack"
    _native: ClassVar[frozenset[type]] = PLAIN | {float, bytes}
    _marker = b"\xa1$"
    _encode = msgspec.msgpack.Encoder().encode
    _decode = msgspec.msgpack.Decoder(ext_hook=_refuse_extension).decode
    _check = staticmethod(check_msgpack)


class PickleSerializer(Serializer):
    """Store values with pickle, which supports almost any object, and runs arbitrary code when it is read.

    Members of an Enum are stored by name. Use it only for a store that no one else can write to. Raises
    ValueError unless `allow_pickle=True`.
    """

    id = "pickle"

    def __init__(self, *, allow_pickle: bool = False) -> None:
        if allow_pickle is not True:
            raise ValueError(
                "Reading pickled values can run arbitrary code. If you trust everything that writes to the "
                "store, use PickleSerializer(allow_pickle=True)."
            )
        self._enabled = True

    def serialize(self, value: Any) -> bytes:
        """Return the value as bytes. Raises TypeError if it cannot be pickled."""
        try:
            return pickled(value)[0]
        except Exception as error:  # __reduce__ can raise anything
            text = f"PickleSerializer cannot store {type(value).__qualname__}"
            raise with_public_text(TypeError(f"{text}: {error}"), text) from error

    def deserialize(self, data: bytes) -> Any:
        """Return the value of these bytes, or an `Undecodable` with the reason."""
        if not self._enabled:
            return Undecodable("pickled values are not read for viewing")
        try:
            return pickle.loads(data)  # noqa: S301 -- enabled with allow_pickle=True
        except Exception as error:  # moved classes, damaged bytes
            return Undecodable(f"not readable as pickle: {type(error).__name__}: {error}")

    def without_types(self) -> Self:
        """Return a serializer for viewing: it reads no pickles."""
        other = copy.copy(self)
        other._enabled = False
        return other

    def __repr__(self) -> str:
        return "PickleSerializer(allow_pickle=True)"
