"""Bytes to other bytes and back, between a serializer and a row; here: compression.

Unpacking is bounded: it makes no more than `max_size` bytes, whatever the stored ones claim to be, and raises
ValueError for what is damaged, incomplete or followed by something else. One codec serves many threads.
"""

from __future__ import annotations

import threading
import zlib
from io import BytesIO
from typing import Any, ClassVar, Protocol, runtime_checkable

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
