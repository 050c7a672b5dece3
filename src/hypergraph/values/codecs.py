"""Codecs, which compress or otherwise transform stored bytes, and chains of them."""

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
from hypergraph.values.undecodable import of_settings

_PIECE = 64 * 1024  # passed to zlib and read from it at once; small, because zlib copies unconsumed input
_SEAL = b"seal"  # the identity of seals; those of values contain a zero byte
_ZSTD_RATIO = 32 * 1024  # four bytes become at most one block of 128 KiB; a larger claim is false
_ZSTD_WINDOW = 1024, 128 * 1024 * 1024  # the smallest window of zstd, and the largest for levels up to 22


@runtime_checkable
class Codec(Protocol):
    """Turn bytes into other bytes and back.

    Optional attributes: `id` and `version`, stored next to the bytes (by default the name of the class, and
    1); `compresses` or `encrypts`; `max_size`, a limit for the decoded bytes. If the methods have a keyword
    `identity`, they receive the identity of the row that the bytes belong to.
    """

    def encode(self, data: bytes) -> bytes:
        """Return the bytes to store."""

    def decode(self, data: bytes) -> bytes:
        """Return the original bytes. Raises ValueError for bytes that this codec did not produce."""


class ZlibCodec:
    """Compress with zlib, part of every Python; `level` is 1 (fast) to 9 (small).

    Values of more than `max_size` bytes raise ValueError, before compression and during decompression.
    """

    id: ClassVar[str] = "zlib"  # the name in stored formats
    version: ClassVar[int] = 1  # the version in stored formats
    compresses: ClassVar[bool] = True  # a chain has at most one compression

    def __init__(self, level: int = 6, *, max_size: int = MAX_SIZE) -> None:
        self.level = check_limit("level", level, 9)  # 1 (fast) to 9 (small)
        self.max_size = check_limit("max_size", max_size)  # the limit of a value in bytes

    def encode(self, data: bytes, *, identity: bytes = b"") -> bytes:
        """Return the compressed bytes; `identity` is ignored. Raises ValueError for more than `max_size`."""
        check_size(self, len(data))
        return zlib.compress(data, self.level)

    def decode(self, data: bytes, *, identity: bytes = b"") -> bytes:
        """Return the decompressed bytes; `identity` is ignored.

        Raises ValueError if the data is damaged or larger than `max_size`.
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
            size += unpacked.write(unpacker.decompress(b"", _PIECE))  # zlib can hold back a few bytes
        except zlib.error as error:
            raise _damaged(self, error) from error
        check_size(self, size)
        if not unpacker.eof:
            raise _damaged(self, "the data is incomplete")
        if unpacker.unused_data or given < len(data):
            raise _damaged(self, "data follows after the end")
        return unpacked.getvalue()

    def __repr__(self) -> str:
        return _compression_repr(self)


class ZstdCodec:
    """Compress with Zstandard, faster and smaller than zlib; `level` is 1 (fast) to 22 (small).

    Values of more than `max_size` bytes raise ValueError, before compression and before decompression.
    Raises ImportError without the extra `hypergraph[zstd]`.
    """

    id: ClassVar[str] = "zstd"  # the name in stored formats
    version: ClassVar[int] = 1  # the version in stored formats
    compresses: ClassVar[bool] = True  # a chain has at most one compression

    def __init__(self, level: int = 3, *, max_size: int = MAX_SIZE) -> None:
        try:
            import zstandard
        except ImportError as error:
            raise ImportError(
                'ZstdCodec needs the package zstandard; install it with: pip install "hypergraph[zstd]"'
            ) from error
        self.level = check_limit("level", level, 22)  # 1 (fast) to 22 (small)
        self.max_size = check_limit("max_size", max_size)  # the limit of a value in bytes
        self._zstd: Any = zstandard
        self._own = threading.local()  # objects of zstandard are not thread-safe

    def encode(self, data: bytes, *, identity: bytes = b"") -> bytes:
        """Return the compressed bytes; `identity` is ignored. Raises ValueError for more than `max_size`."""
        check_size(self, len(data))
        compressor = getattr(self._own, "compressor", None)
        if compressor is None:
            compressor = self._own.compressor = self._zstd.ZstdCompressor(level=self.level)
        packed: bytes = compressor.compress(data)
        return packed

    def decode(self, data: bytes, *, identity: bytes = b"") -> bytes:
        """Return the decompressed bytes; `identity` is ignored.

        Raises ValueError if the data is damaged or larger than `max_size`.
        """
        # Zstandard allocates the size in the header, so that is checked first.
        unpacker = getattr(self._own, "unpacker", None)
        if unpacker is None:
            unpacker = self._own.unpacker = self._new_unpacker()
        try:
            size = self._zstd.frame_content_size(data)
            if size < 0:
                raise _damaged(self, "the size is missing")
            check_size(self, size)
            if size > len(data) * _ZSTD_RATIO:
                raise _damaged(self, "the data is incomplete")
            if size == 0 and data != self.encode(b""):  # zstandard would ignore further data
                raise _damaged(self, "data follows an empty frame")
            unpacked: bytes = unpacker.decompress(data, allow_extra_data=False)
        except self._zstd.ZstdError as error:
            raise _damaged(self, error) from error
        if len(unpacked) != size:
            raise _damaged(self, "the data is incomplete")
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
    return ValueError(f"{type(codec).__name__} cannot decompress the stored bytes: {reason}")


_ID = re.compile(r"[^+/\s\x00]+")
_BUILT_IN = {"zlib": "ZlibCodec()", "zstd": "ZstdCodec()"}  # id -> the codec that reads it


class CodecChain:
    """Apply codecs in order, and undo them in reverse order.

    `also_reads` are codecs for older data: used to decode, never to encode. Raises TypeError for objects that
    are not codecs, ValueError for a repeated codec, two compressions, or a compression after an encryption.
    """

    def __init__(self, codecs: Iterable[Codec] = (), *, also_reads: Iterable[Codec] = ()) -> None:
        links = [_Link(codec) for codec in codecs]
        _check_order(links)
        self._links = links
        self._sealing = next((link for link in links if link.encrypts), None)
        self.encrypts = self._sealing is not None  # whether the encoded bytes are encrypted
        self._known = {link.id: link for link in (*(_Link(codec) for codec in also_reads), *links)}
        self.format = "+".join(link.tag for link in links)  # the name of the chain in stored values

    @classmethod
    def of(cls, codec: Codec | Sequence[Codec] | CodecChain | None) -> CodecChain:
        """Return the chain for an option: a chain, one codec, several, or None."""
        if isinstance(codec, CodecChain):
            return codec
        if codec is None:
            return cls()
        return cls(codec) if isinstance(codec, list | tuple) else cls([codec])  # type: ignore[list-item]

    @property
    def codecs(self) -> tuple[Codec, ...]:
        """The codecs that are applied, in order."""
        return tuple(link.codec for link in self._links)

    def encode(self, data: bytes, identity: bytes = b"") -> bytes:
        """Return the bytes to store; `identity` identifies the row they belong to.

        Raises ValueError if they are too large for a codec, and what codecs raise.
        """
        if self._links:
            bound = _bound_identity(self.format, identity)
            for link in self._links:
                data = link.encode(data, bound)
        return data

    def decode(self, data: bytes, format: str, identity: bytes = b"") -> bytes:
        """Return the original bytes of data stored with this format and identity.

        Raises DecryptionError if they cannot be decrypted, or are plaintext in an encrypted store; ValueError
        if they are damaged, too large, or have an unknown format.
        """
        links = self._links if format == self.format else self._readers(format)
        bound = _bound_identity(format, identity)
        for link in reversed(links):
            data = link.decode(data, bound)
        return data

    def seal(self, facts: bytes) -> bytes | None:
        """Return a proof that the owner of the key wrote these facts, None without an encryption."""
        link = self._sealing
        return None if link is None else link.encode(_digest(facts), _SEAL)

    def check_seal(self, seal: bytes | None, facts: bytes) -> None:
        """Check facts against their seal; without an encryption, everything passes.

        Raises DecryptionError if there is none, or if the facts or the seal were changed.
        """
        link = self._sealing
        if link is None or (seal is None and link.allow_plaintext):
            return
        if seal is None:
            raise DecryptionError("they have no seal")
        if link.decode(seal, _SEAL) != _digest(facts):
            raise DecryptionError("their seal is that of others")

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
            raise of_settings(self._unknown(name or tag, format))
        if not version.isdecimal() or not version.isascii():
            raise ValueError(f"A stored value has an invalid format: {format!r}")
        if int(version) > link.version:
            raise of_settings(
                ValueError(
                    f"A stored value has the format {tag!r}, this release reads up to {link.tag!r}; "
                    "upgrade it"
                )
            )
        return link

    def _unknown(self, name: str, format: str) -> Exception:
        if name == "aesgcm":
            return DecryptionError(
                f"A stored value is encrypted ({format!r}) and this store has no key; "
                "pass the key it was written with: codec=AesGcmCodec(key)"
            )
        missing = _BUILT_IN.get(name, f"the codec with the id {name!r}")
        return ValueError(
            f"A stored value has the format {format!r} and this store has no codec {name!r}; "
            f"add {missing} to codec=, or to CodecChain(codecs, also_reads=[...])"
        )

    def _check_plaintext(self, format: str) -> None:
        if any(link.encrypts and not link.allow_plaintext for link in self._links):
            raise DecryptionError(
                f"plaintext row in an encrypted store: a stored value has the format {format!r}, without "
                "encryption; if it is older than the encryption, read it with "
                "AesGcmCodec(..., allow_plaintext=True)"
            )

    def __repr__(self) -> str:
        return f"CodecChain([{', '.join(map(repr, self.codecs))}])"


def _digest(facts: bytes) -> bytes:
    import hashlib  # only encrypted stores need it, and it takes long to load

    return hashlib.blake2b(facts, digest_size=24).digest()


class _Link:
    """One codec of a chain, with defaults for optional attributes, and size limits."""

    def __init__(self, codec: Any) -> None:
        if isinstance(codec, type) or not isinstance(codec, Codec):
            raise TypeError(f"A codec needs methods encode(data) and decode(data), got {codec!r}")
        self.codec = codec
        kind = type(codec)
        self.id: str = getattr(codec, "id", f"{kind.__module__}:{kind.__qualname__}")
        if not isinstance(self.id, str) or not _ID.fullmatch(self.id):
            raise ValueError(f"The id of a codec must be text without blanks, '+' and '/', got {self.id!r}")
        self.version: int = check_limit(f"The version of {self.id}", getattr(codec, "version", 1))
        self.tag = f"{self.id}/{self.version}"
        self.compresses: bool = getattr(codec, "compresses", False)
        self.encrypts: bool = getattr(codec, "encrypts", False)
        self.allow_plaintext: bool = getattr(codec, "allow_plaintext", False)
        limit = getattr(codec, "max_size", MAX_SIZE)
        self._largest_encoded = limit + limit // 64 + 1024  # incompressible data grows a little
        self._encode = _with_identity(codec.encode)
        self._decode = _with_identity(codec.decode)

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
        if len(data) > self._largest_encoded:  # more than any allowed value can become
            check_size(self.codec, len(data))

    def _checked(self, made: Any) -> bytes:
        if not isinstance(made, bytes):
            raise TypeError(f"{type(self.codec).__name__} returned {type(made).__name__} instead of bytes")
        return made


def _with_identity(method: Callable[..., Any]) -> Callable[[bytes, bytes], Any]:
    parameters = inspect.signature(method).parameters.values()
    if any(one.name == "identity" or one.kind is one.VAR_KEYWORD for one in parameters):
        return lambda data, identity: method(data, identity=identity)
    return lambda data, identity: method(data)


def _bound_identity(format: str, identity: bytes) -> bytes:
    return format.encode() + b"\x00" + identity  # formats contain no zero byte, so this is unambiguous


def _check_order(links: Sequence[_Link]) -> None:
    ids = [link.id for link in links]
    tags = "+".join(link.tag for link in links)
    for place, link in enumerate(links):
        if link.id in ids[:place]:
            raise ValueError(f"The codecs {tags!r} contain {link.id!r} twice; remove one")
        if link.compresses and any(earlier.encrypts for earlier in links[:place]):
            raise ValueError(
                f"The codecs {tags!r} compress encrypted data, which has no effect; compress first"
            )
        if link.compresses and any(earlier.compresses for earlier in links[:place]):
            raise ValueError(f"The codecs {tags!r} compress twice; remove one compression")
