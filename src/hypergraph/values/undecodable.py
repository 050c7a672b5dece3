"""Values that cannot be read: the placeholder for a stored one, and the refusal to store one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar
from zlib import crc32

from hypergraph.display import preview

if TYPE_CHECKING:
    from hypergraph.values.serializers import Serializer

Error = TypeVar("Error", bound=Exception)
_LEVELS = 4  # of what is readable, in a repr
_PUBLIC = "without_content"  # the attribute of an error that says why a value was not stored
_KEYED = "without_content_but_columns"
_SETTINGS = "of_settings"  # the attribute of an error that other settings of the store would avoid


def with_public_text(error: Error, text: str, keyed: str | None = None) -> Error:
    """Return the error with a text that quotes nothing of the value, for stores and logs.

    `keyed` says the same with the names of columns.
    """
    setattr(error, _PUBLIC, text)
    setattr(error, _KEYED, keyed)
    return error


def refusal(text: str) -> TypeError:
    """Return the error for a value that is not stored; its text quotes nothing of the value."""
    return with_public_text(TypeError(text), text)


def public_text(error: Exception, *, keys: bool = False) -> str:
    """Return the name of the error, with a text only where that quotes nothing of a value.

    With `keys`, the text names the column in question. Keys of dicts are part of the value, and never named.
    """
    text = plain_text(error, keys=keys)
    return type(error).__name__ + (f": {text}" if text else "")


def plain_text(error: Exception, *, keys: bool = False) -> str:
    """Return the same without the name of the error; empty where the text may quote a value."""
    keyed: str | None = getattr(error, _KEYED, None) if keys else None
    text: str | None = getattr(error, _PUBLIC, None) if keyed is None else keyed
    return text or ""


# How a value is read that other settings of the store would read, for messages.
OPEN_OTHERWISE = (
    "open the store with the serializer, codecs and keys that wrote it, on the command line with "
    "--db module:attribute"
)


def of_settings(error: Error) -> Error:
    """Return the error, marked as one that other settings of the store would avoid."""
    setattr(error, _SETTINGS, True)
    return error


def is_of_settings(error: Exception) -> bool:
    """Say whether a value is intact, and a store with another serializer, codec or key would read it."""
    return getattr(error, _SETTINGS, False)


class UnknownClassError(TypeError):
    """An object was not stored, because a later process could not find its class."""


class Undecodable:
    """Replace a stored value that cannot be rebuilt.

    `data` holds the readable part: the fields of an object whose class is unknown, or a value with such
    placeholders inside; None if the bytes are unreadable. Serializers refuse to store an Undecodable.
    """

    # A damaged value may hold very many.
    __slots__ = (
        *("_checksum", "_form", "_is_same", "classes", "data", "is_foreign", "is_unstorable", "of"),
        *("reason", "rows"),
    )
    _exist: ClassVar[bool] = False

    def __init__(self, reason: str, data: Any = None, of: str | None = None) -> None:
        self.reason = reason  # the cause and its remedy
        self.data = data  # the readable part
        self.of = of  # the name of the class, if it is an object
        self.classes: tuple[str, ...] = ()  # the classes of objects in it that could not be built
        self.is_foreign: bool = False  # whether a store with other settings reads it
        # Formats and bytes that no serializer reads here.
        self.rows: tuple[tuple[str, bytes | None], ...] = ()
        self.is_unstorable: bool = False  # whether it was never stored, because it could not be
        self._form: tuple[bytes, Serializer] | None = None
        self._is_same: Callable[[Any], bool | None] | None = None
        self._checksum = 0  # of a value that was not stored, if it has one
        Undecodable._exist = True

    def stored_as(self, raw: bytes, serializer: Serializer) -> Undecodable:
        """Keep the stored bytes, for a comparison with another value."""
        self._form = (raw, serializer)
        return self

    def summed_as(self, checksum: int) -> Undecodable:
        """Keep the checksum of a value that could not be stored, for a comparison with another value."""
        self.is_unstorable, self._checksum = True, checksum
        return self

    def compared_by(self, is_same: Callable[[Any], bool | None]) -> Undecodable:
        """Keep what compares a value with the stored one, whose bytes are gone or damaged."""
        self._is_same = is_same
        return self

    def __getstate__(self) -> tuple[None, dict[str, Any]]:
        """Return all but what compares it: that belongs to the store, which is not copied along."""
        return None, {name: getattr(self, name) for name in self.__slots__} | {"_is_same": None}

    def __setstate__(self, state: tuple[None, dict[str, Any]]) -> None:
        """Take up one that another process has made."""
        for name, value in state[1].items():
            setattr(self, name, value)
        Undecodable._exist = True

    @property
    def raw(self) -> bytes | None:
        """The serialized bytes, None if they were not kept."""
        return None if self._form is None else self._form[0]

    def is_stored_like(self, other: Undecodable) -> bool:
        """Say whether both are known to be stored as the same bytes."""
        return (self.raw is not None or bool(self.rows)) and (self.raw, self.rows) == (other.raw, other.rows)

    def is_form_of(self, value: Any) -> bool | None:
        """Return whether this value would be stored with the same bytes, None if that is not known.

        The name of its class may differ in the module, where the bytes are of a script or are read by one.
        """
        if self._form is None:
            return None if self._is_same is None else self._is_same(value)
        raw, serializer = self._form
        plain = serializer.without_types()
        try:
            form = plain.serialize(value)
            return form == raw or form == plain.serialize(
                serializer.with_types([type(value)]).deserialize(raw)
            )
        except Exception:  # a value that cannot be stored
            return False

    def is_replaced_by(self, value: Any) -> bool:
        """Say whether a value differs from this one, which was not stored; False if that is not known."""
        return bool(self._checksum) and checksum_of(value) not in (0, self._checksum)

    def may_be(self, value: Any) -> bool:
        """Say whether nothing tells a value from this one, which could not be stored."""
        return self.is_unstorable and checksum_of(value) == self._checksum

    def __repr__(self) -> str:
        known = "" if self.data is None else f", {preview(self.data, _LEVELS, _readable)}"
        return f"Undecodable({self.reason!r}{known})"


def may_exist() -> bool:
    """Say whether this process has met an Undecodable: else no input need be searched for one."""
    return Undecodable._exist


class _Sum:
    """A file that keeps the checksum of what is written, and nothing else."""

    def __init__(self) -> None:
        self.sum = 0

    def write(self, data: Any) -> None:
        self.sum = crc32(data, self.sum)


def checksum_of(value: Any) -> int:
    """Return a checksum of a value that no serializer takes, 0 if it has none. Nothing is ever unpickled."""
    import pickle  # only values that cannot be stored need it

    found = _Sum()
    try:
        pickle.Pickler(found, 5).dump(value)
    except Exception:  # a lock, a connection, a function of the main module
        return 0
    return found.sum


def _readable(value: object) -> object:
    """Return the readable part of a value, or the value itself if there is none."""
    while isinstance(value, Undecodable) and value.data is not None:
        value = value.data
    return value
