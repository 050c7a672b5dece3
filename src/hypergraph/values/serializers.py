"""Values to bytes and back: what returns equals what was stored, type by type, all the way down.

`serialize` raises TypeError rather than store something else than it was given. `deserialize` never raises
for what the bytes contain: data that is broken, or of a class nobody registered, comes back as `Undecodable`.
Reading never imports by name and never runs code that stored data chose; pickle breaks that rule and has to
be asked for.
"""

from __future__ import annotations

import copy
import pickle
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Self

import msgspec

from hypergraph.values.classes import REGISTERED, Classes, register
from hypergraph.values.trees import PLAIN, Reader, Writer, is_plain
from hypergraph.values.undecodable import Undecodable

__all__ = ["JsonSerializer", "MsgpackSerializer", "PickleSerializer", "Serializer", "Undecodable", "register"]


class Serializer(ABC):
    """Turn values into bytes and back.

    `id` and `version` are stored next to the bytes and decide who may read them. A subclass without an id of
    its own is known by the name of its class.
    """

    id: ClassVar[str]  # its name in stored formats
    version: ClassVar[int] = 1  # of what it writes

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "id" not in vars(cls):
            cls.id = f"{cls.__module__}:{cls.__qualname__}"

    @abstractmethod
    def serialize(self, value: Any) -> bytes:
        """Return the value as bytes; raise TypeError when it would not come back as it is."""

    @abstractmethod
    def deserialize(self, data: bytes) -> Any:
        """Return the value of these bytes, or an `Undecodable` with the reason."""

    def with_types(self, annotations: Iterable[Any]) -> Serializer:
        """Return a serializer that also rebuilds objects of the classes these annotations name."""
        return self

    def without_types(self) -> Serializer:
        """Return a serializer for mere viewing: it builds no object of a user's class, registered or not."""
        return self

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class _TreeSerializer(Serializer):
    """What JSON and MessagePack have in common: everything but the last step to bytes."""

    _native: ClassVar[frozenset[type]]
    _marker: ClassVar[bytes]  # how the key "$" looks in the bytes; where it is not found, there are no tags
    _encode: Callable[[Any], bytes]
    _decode: Callable[[bytes], Any]
    _lossy = False
    _classes: tuple[Classes, ...] | None = (REGISTERED,)

    def serialize(self, value: Any) -> bytes:
        """Return the value as bytes; raise TypeError, with type and path, when it would not come back."""
        try:
            if is_plain(value, self._native):
                return self._encode(value)
        except (UnicodeEncodeError, RecursionError):
            pass  # a lone surrogate somewhere, to be tagged, or a deep stack, to be reported
        try:
            writer = Writer(type(self).__name__, self._native, self._encode, self._lossy)
            return self._encode(writer.write(value))
        except RecursionError:
            raise TypeError(
                f"{type(self).__name__} cannot store {type(value).__name__}: nested too deep"
            ) from None

    def deserialize(self, data: bytes) -> Any:
        """Return the value of these bytes, or an `Undecodable` with the reason and whatever is readable."""
        if type(data) is not bytes:
            data = bytes(data)
        try:
            tree = self._decode(data)
            has_tags = (
                b"$" in data and self._marker in data
            )  # one byte is found several times faster than three
            del data  # it may be large, and nobody else may be holding it
            return Reader(self._classes).value(tree) if has_tags else tree
        except Exception as error:  # stored bytes may be anything: broken, truncated, nested without end
            return Undecodable(f"not readable as {self.id}: {type(error).__name__}: {error}")

    def with_types(self, annotations: Iterable[Any]) -> Self:
        """Return a serializer that also rebuilds objects of the classes these annotations name."""
        other = copy.copy(self)
        other._classes = (Classes(annotations), *(self._classes or ()))
        return other

    def without_types(self) -> Self:
        """Return a serializer for mere viewing: it builds no object of a user's class, registered or not."""
        other = copy.copy(self)
        other._classes = None
        return other


class JsonSerializer(_TreeSerializer):
    """Store values as JSON: plain data stays plain and readable, other types are tagged.

    >>> serializer = JsonSerializer()
    >>> serializer.serialize({"price": [1, 2.5]})
    b'{"price":[1,2.5]}'
    >>> serializer.deserialize(serializer.serialize((1, 2)))
    (1, 2)

    With `lossy=True` a part that cannot be stored is replaced by its `str()` instead of raising TypeError.
    """

    id = "json"
    _native: ClassVar[frozenset[type]] = PLAIN
    _marker = b'"$"'
    _encode = staticmethod(msgspec.json.Encoder().encode)
    _decode = staticmethod(msgspec.json.Decoder().decode)

    def __init__(self, *, lossy: bool = False) -> None:
        self._lossy = lossy

    def __repr__(self) -> str:
        return "JsonSerializer(lossy=True)" if self._lossy else "JsonSerializer()"


def _refuse_extension(code: int, data: memoryview) -> Any:
    raise ValueError(f"the extension {code} is unknown")


class MsgpackSerializer(_TreeSerializer):
    """Store values as MessagePack: as exact as JSON, smaller and faster for bytes, arrays and floats."""

    id = "msgpack"
    _native: ClassVar[frozenset[type]] = PLAIN | {float, bytes}
    _marker = b"\xa1$"
    _encode = staticmethod(msgspec.msgpack.Encoder().encode)
    _decode = staticmethod(msgspec.msgpack.Decoder(ext_hook=_refuse_extension).decode)


class PickleSerializer(Serializer):
    """Store values with pickle, which keeps almost any object, and can run any code when it is read.

    Raises ValueError unless called with `allow_pickle=True`. Only for a store that nobody else can write to.
    """

    id = "pickle"

    def __init__(self, *, allow_pickle: bool = False) -> None:
        if allow_pickle is not True:
            raise ValueError(
                "Reading pickled values can run any code. If nobody else can write to the store, "
                "say so: PickleSerializer(allow_pickle=True)"
            )
        self._open = True

    def serialize(self, value: Any) -> bytes:
        """Return the value as bytes; raise TypeError when pickle cannot store it."""
        try:
            return pickle.dumps(value, protocol=5)
        except Exception as error:  # objects decide themselves how they fail to be pickled
            raise TypeError(f"PickleSerializer cannot store {type(value).__qualname__}: {error}") from error

    def deserialize(self, data: bytes) -> Any:
        """Return the value of these bytes, or an `Undecodable` with the reason."""
        if not self._open:
            return Undecodable("pickled values are not opened here")
        try:
            return pickle.loads(data)  # noqa: S301 -- asked for with allow_pickle=True
        except Exception as error:  # classes that moved, bytes that are broken
            return Undecodable(f"not readable as pickle: {type(error).__name__}: {error}")

    def without_types(self) -> Self:
        """Return a serializer that opens no pickle at all: for mere viewing."""
        other = copy.copy(self)
        other._open = False
        return other

    def __repr__(self) -> str:
        return "PickleSerializer(allow_pickle=True)"
