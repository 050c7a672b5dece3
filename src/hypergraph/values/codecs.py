"""Codecs: bytes to other bytes and back, alone or in a chain."""

from __future__ import annotations

import inspect
import re
import threading
import zlib
from collections.abc import Callable, Iterable, Sequence
from io import BytesIO
from typing import Any, ClassVar, Protocol, runtime_checkable

from hypergraph.exceptions import DecryptionError
from hypergraph.values.limits import MAX_SIZE, check_limit, check_size

_PIECE = 64 * 1024  # given to zlib and taken from it at once: small, as zlib copies what it has not consumed
_ZSTD_RATIO = 32 * 1024  # four bytes make at most one block of 128 KiB; who claims more is lying
_ZSTD_WINDOW = 1024, 128 * 1024 * 1024  # the smallest zstd has, and the largest that levels up to 22 need


@runtime_checkable
class Codec(Protocol):
    """Turn bytes into other bytes and back.

    May also have an `id` and a `version`, stored next to the bytes (otherwise the name of the class, and 1),
    `compresses` or `encrypts` if it does, and `max_size`, a limit for the decoded bytes. A codec whose
    methods have a keyword `identity` is told there which row the bytes belong to.
    """

    def encode(self, data: bytes) -> bytes:
        """Return the bytes to store."""

    def decode(self, data: bytes) -> bytes:
        """Return the bytes that were encoded; raise ValueError for bytes this codec has not made."""


class ZlibCodec:
    """Compress with zlib, which every Python has; `level` is 1 (fast) to 9 (small).

    Values of more than `max_size` bytes are refused with ValueError, before compression and while unpacking.
    """

    id: ClassVar[str] = "zlib"  # its name in stored formats
    version: ClassVar[int] = 1  # of what it writes
    compresses: ClassVar[bool] = True  # so that two of a kind are refused

    def __init__(self, level: int = 6, *, max_size: int = MAX_SIZE) -> None:
        self.level = check_limit("level", level, 9)  # from 0, fast, to 9, small
        self.max_size = check_limit("max_size", max_size)  # bytes of the largest value

    def encode(self, data: bytes, *, identity: bytes = b"") -> bytes:
        """Return the bytes compressed, whatever the `identity`; raise ValueError for more than `max_size`."""
        check_size(self, len(data))
        return zlib.compress(data, self.level)

    def decode(self, data: bytes, *, identity: bytes = b"") -> bytes:
        """Return the bytes unpacked; raise ValueError when they are damaged or more than `max_size`.

        The `identity` makes no difference.
        """
        unpacker, unpacked, given, size = zlib.decompressobj(), BytesIO(), 0, 0
        try:
            while given < len(data) and not unpacker.eof:
                packed = data[given : given + _PIECE]
                given += len(packed)
                while packed and not unpacker.eof:
                    size += unpacked.write(unpacker.decompress(packed, _PIECE))
                    check_size(self, size)
                    packed = unpacker.unconsumed_tail
            size += unpacked.write(unpacker.decompress(b"", _PIECE))  # zlib may have held back a few bytes
        except zlib.error as error:
            raise _damaged(self, error) from error
        check_size(self, size)
        if not unpacker.eof:
            raise _damaged(self, "they are incomplete")
        if unpacker.unused_data or given < len(data):
            raise _damaged(self, "others follow after their end")
        return unpacked.getvalue()

    def __repr__(self) -> str:
        return _compression_repr(self)


class ZstdCodec:
    """Compress with Zstandard, faster and smaller than zlib; `level` is 1 (fast) to 22 (small).

    Values of more than `max_size` bytes are refused with ValueError, before compression and before unpacking.
    Raises ImportError without the extra `hypergraph[zstd]`.
    """

    id: ClassVar[str] = "zstd"  # its name in stored formats
    version: ClassVar[int] = 1  # of what it writes
    compresses: ClassVar[bool] = True  # so that two of a kind are refused

    def __init__(self, level: int = 3, *, max_size: int = MAX_SIZE) -> None:
        try:
            import zstandard
        except ImportError as error:
            raise ImportError(
                'ZstdCodec needs the package zstandard; install it with: pip install "hypergraph[zstd]"'
            ) from error
        self.level = check_limit("level", level, 22)  # from 0, fast, to 22, small
        self.max_size = check_limit("max_size", max_size)  # bytes of the largest value
        self._zstd: Any = zstandard
        self._own = threading.local()  # zstandard's objects serve one thread at a time

    def encode(self, data: bytes, *, identity: bytes = b"") -> bytes:
        """Return the bytes compressed, whatever the `identity`; raise ValueError for more than `max_size`."""
        check_size(self, len(data))
        compressor = getattr(self._own, "compressor", None)
        if compressor is None:
            compressor = self._own.compressor = self._zstd.ZstdCompressor(level=self.level)
        packed: bytes = compressor.compress(data)
        return packed

    def decode(self, data: bytes, *, identity: bytes = b"") -> bytes:
        """Return the bytes unpacked; raise ValueError when they are damaged or more than `max_size`.

        The `identity` makes no difference.
        """
        # Zstandard gets room for exactly the size in the header, and that is checked before.
        unpacker = getattr(self._own, "unpacker", None)
        if unpacker is None:
            unpacker = self._own.unpacker = self._new_unpacker()
        try:
            size = self._zstd.frame_content_size(data)
            if size < 0:
                raise _damaged(self, "they do not say how many they will be")
            check_size(self, size)
            if size > len(data) * _ZSTD_RATIO:
                raise _damaged(self, "they are incomplete")
            if size == 0 and data != self.encode(b""):  # zstandard itself would not look any further
                raise _damaged(self, "they are not as empty as they claim")
            unpacked: bytes = unpacker.decompress(data, allow_extra_data=False)
        except self._zstd.ZstdError as error:
            raise _damaged(self, error) from error
        if len(unpacked) != size:
            raise _damaged(self, "they are incomplete")
        return unpacked

    def _new_unpacker(self) -> Any:
        smallest, largest = _ZSTD_WINDOW
        window = min(max(smallest, 1 << (self.max_size - 1).bit_length()), largest)
        return self._zstd.ZstdDecompressor(max_window_size=window)

    def __repr__(self) -> str:
        return _compression_repr(self)


def _compression_repr(codec: ZlibCodec | ZstdCodec) -> str:
    limit = "" if codec.max_size == MAX_SIZE else f", max_size={codec.max_size}"
    return f"{type(codec).__name__}(level={codec.level}{limit})"


def _damaged(codec: ZlibCodec | ZstdCodec, reason: object) -> ValueError:
    return ValueError(f"{type(codec).__name__} cannot unpack the stored bytes: {reason}")


_ID = re.compile(r"[^+/\s\x00]+")
_OURS = {"zlib": "ZlibCodec()", "zstd": "ZstdCodec()"}  # how to read what these have written


class CodecChain:
    """Apply codecs in order, and undo them in reverse.

    `also_reads` are codecs for older bytes: never applied, but known when they are named in a format. Raises
    TypeError for what is no codec, and ValueError for a chain that makes no sense: a codec twice, two
    compressions, or a compression after an encryption, where it finds nothing to compress.
    """

    def __init__(self, codecs: Iterable[Codec] = (), *, also_reads: Iterable[Codec] = ()) -> None:
        links = [_Link(codec) for codec in codecs]
        _check_order(links)
        self._links = links
        self._known = {link.id: link for link in (*(_Link(codec) for codec in also_reads), *links)}
        self.format = "+".join(link.tag for link in links)  # how stored values name the chain

    @classmethod
    def of(cls, codec: Codec | Sequence[Codec] | CodecChain | None) -> CodecChain:
        """Return the chain that this option means: a chain, one codec, several, or none."""
        if isinstance(codec, CodecChain):
            return codec
        if codec is None:
            return cls()
        return cls(codec) if isinstance(codec, list | tuple) else cls([codec])  # type: ignore[list-item]

    @property
    def codecs(self) -> tuple[Codec, ...]:
        """The codecs that are applied, in order."""
        return tuple(link.codec for link in self._links)

    @property
    def encrypts(self) -> bool:
        """Whether what this chain makes is encrypted."""
        return any(link.encrypts for link in self._links)

    def encode(self, data: bytes, identity: bytes = b"") -> bytes:
        """Return the bytes to store; `identity` says which row they are for.

        Raises ValueError when they are too large for a codec, and whatever a codec of yours raises.
        """
        if self._links:
            bound = _bound(self.format, identity)
            for link in self._links:
                data = link.encode(data, bound)
        return data

    def decode(self, data: bytes, format: str, identity: bytes = b"") -> bytes:
        """Return the bytes that were encoded, given the format and the identity they were stored with.

        Raises DecryptionError when they are encrypted and cannot be decrypted, or are not and should be, and
        ValueError when they are damaged, too large, or of a format this chain does not read.
        """
        links = self._links if format == self.format else self._readers(format)
        bound = _bound(format, identity)
        for link in reversed(links):
            data = link.decode(data, bound)
        return data

    def _readers(self, format: str) -> list[_Link]:
        readers = [self._reader(tag, format) for tag in format.split("+")] if format else []
        if not any(link.encrypts for link in readers):
            self._check_plaintext(format)
        _check_order(readers)
        return readers

    def _reader(self, tag: str, format: str) -> _Link:
        name, _, version = tag.rpartition("/")
        link = self._known.get(name)
        if link is None:
            raise self._unknown(name or tag, format)
        if not version.isdecimal() or not version.isascii():
            raise ValueError(f"A stored value has the format {format!r}, which is none of a codec")
        if int(version) > link.version:
            raise ValueError(
                f"A stored value was written as {tag!r}, this store reads up to {link.tag!r}; upgrade it"
            )
        return link

    def _unknown(self, name: str, format: str) -> Exception:
        if name == "aesgcm":
            return DecryptionError(
                f"A stored value is encrypted ({format!r}) and this store has no key; "
                "give it the one it was written with: codec=AesGcmCodec(key)"
            )
        missing = _OURS.get(name, f"your codec with the id {name!r}")
        return ValueError(
            f"A stored value was written as {format!r}, this store does not know {name!r}; "
            f"name {missing} in codec=, or in CodecChain(codecs, also_reads=[...])"
        )

    def _check_plaintext(self, format: str) -> None:
        if any(link.encrypts and not link.allow_plaintext for link in self._links):
            raise DecryptionError(
                f"plaintext row in an encrypted store: a stored value has the format {format!r}, without "
                "encryption; if it is from before encryption was switched on, read it with "
                "AesGcmCodec(..., allow_plaintext=True)"
            )

    def __repr__(self) -> str:
        return f"CodecChain([{', '.join(map(repr, self.codecs))}])"


class _Link:
    """One codec of a chain, with the defaults for what it leaves out, and limits before and after it."""

    def __init__(self, codec: Any) -> None:
        if isinstance(codec, type) or not isinstance(codec, Codec):
            raise TypeError(f"A codec is an object with encode(data) and decode(data), not {codec!r}")
        self.codec = codec
        kind = type(codec)
        self.id: str = getattr(codec, "id", f"{kind.__module__}:{kind.__qualname__}")
        if not isinstance(self.id, str) or not _ID.fullmatch(self.id):
            raise ValueError(f"The id of a codec is text without blanks, '+' and '/', not {self.id!r}")
        self.version: int = check_limit(f"The version of {self.id}", getattr(codec, "version", 1))
        self.tag = f"{self.id}/{self.version}"
        self.compresses: bool = getattr(codec, "compresses", False)
        self.encrypts: bool = getattr(codec, "encrypts", False)
        self.allow_plaintext: bool = getattr(codec, "allow_plaintext", False)
        limit = getattr(codec, "max_size", MAX_SIZE)
        self._largest_encoded = limit + limit // 64 + 1024  # what cannot be compressed grows a little
        self._encode = _telling_identity(codec.encode)
        self._decode = _telling_identity(codec.decode)

    def encode(self, data: bytes, identity: bytes) -> bytes:
        check_size(self.codec, len(data))
        encoded = self._checked(self._encode(data, identity))
        self._check_encoded(encoded)
        return encoded

    def decode(self, data: bytes, identity: bytes) -> bytes:
        self._check_encoded(data)
        decoded = self._checked(self._decode(data, identity))
        check_size(self.codec, len(decoded))
        return decoded

    def _check_encoded(self, data: bytes) -> None:
        if len(data) > self._largest_encoded:  # more than any value it takes could have become
            check_size(self.codec, len(data))

    def _checked(self, made: Any) -> bytes:
        if not isinstance(made, bytes):
            raise TypeError(f"{type(self.codec).__name__} returned {type(made).__name__} instead of bytes")
        return made


def _telling_identity(method: Callable[..., Any]) -> Callable[[bytes, bytes], Any]:
    parameters = inspect.signature(method).parameters.values()
    if any(one.name == "identity" or one.kind is one.VAR_KEYWORD for one in parameters):
        return lambda data, identity: method(data, identity=identity)
    return lambda data, identity: method(data)


def _bound(format: str, identity: bytes) -> bytes:
    return format.encode() + b"\x00" + identity  # no format contains a zero, so no two pairs look the same


def _check_order(links: Sequence[_Link]) -> None:
    ids = [link.id for link in links]
    tags = "+".join(link.tag for link in links)
    for place, link in enumerate(links):
        if link.id in ids[:place]:
            raise ValueError(f"The codecs {tags!r} contain {link.id!r} twice")
        if link.compresses and any(earlier.encrypts for earlier in links[:place]):
            raise ValueError(
                f"The codecs {tags!r} compress what is encrypted, which never gets smaller; compress first"
            )
        if link.compresses and any(earlier.compresses for earlier in links[:place]):
            raise ValueError(f"The codecs {tags!r} compress twice; one compression is enough")
