"""Several codecs as one: applied in order, undone in reverse, and named next to the bytes they made.

The format of a chain ("zstd/1+aesgcm/1", "" for none) is stored with the bytes and decides who may read them.
A chain reads every format made of codecs it knows, so bytes from before compression was switched on stay
readable. A chain that encrypts refuses bytes whose format names no encryption: whoever can write to the store
could otherwise put plain ones there. The format is authenticated together with the identity of the row.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from hypergraph.exceptions import DecryptionError
from hypergraph.values.codecs import Codec
from hypergraph.values.limits import MAX_SIZE, check_limit, check_size

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
