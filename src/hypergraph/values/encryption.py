"""Encryption of stored values: AES-256-GCM, with the id of the key in front of each.

    \\xe1  length of key id  key id  nonce (12 bytes)  ciphertext and tag (16 bytes)

Every value has a random nonce of its own. What stands in front of the nonce, "aesgcm/1" and the identity of
the row are authenticated with the ciphertext: changed in one bit, or in another row, it does not decrypt.
Keys are neither kept as bytes nor shown.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

from hypergraph.exceptions import DecryptionError
from hypergraph.values.limits import MAX_SIZE, check_limit, check_size

_MARK = 0xE1
_KEY = 32
_NONCE = 12
_TAG = 16
_LONGEST_ID = 64
_LARGEST = 2**31 - 1  # what the AES-GCM of cryptography takes at once
_ONLY_KEY = "default"  # the id of a key that was given without one
_HOW_TO_MAKE_ONE = "make one with os.urandom(32)"


class AesGcmCodec:
    """Encrypt with AES-256-GCM, under one `key` of 32 bytes or under the current one of several `keys`.

    `keys` maps ids to keys; new values are encrypted with `current` (the first one, if not given), older ones
    with any of them are still read. A `key` alone has the id "default". Stored values without encryption are
    refused, unless `allow_plaintext=True` says that a store is being moved to encryption. Values of more than
    `max_size` bytes are refused.

    Raises TypeError or ValueError for keys that are none, ImportError without the extra `hypergraph[crypto]`.
    """

    id: ClassVar[str] = "aesgcm"  # its name in stored formats
    version: ClassVar[int] = 1  # of what it writes
    encrypts: ClassVar[bool] = True  # so that plain values are refused

    def __init__(
        self,
        key: bytes | None = None,
        *,
        keys: Mapping[str, bytes] | None = None,
        current: str | None = None,
        allow_plaintext: bool = False,
        max_size: int = MAX_SIZE,
    ) -> None:
        named = _named_keys(key, keys)
        self.current = next(iter(named)) if current is None else current  # the id of the key for new values
        if self.current not in named:
            raise ValueError(f"current={current!r} is not among the keys: {', '.join(map(repr, named))}")
        self.allow_plaintext = allow_plaintext  # whether plain values are read
        self.max_size = check_limit("max_size", max_size, _LARGEST - _TAG)  # bytes of the largest value
        self._ciphers = _ciphers(named)
        self._head = _head(self.current)

    @property
    def key_ids(self) -> tuple[str, ...]:
        """The ids of the keys this codec can read."""
        return tuple(self._ciphers)

    def encode(self, data: bytes, *, identity: bytes = b"") -> bytes:
        """Return the bytes encrypted with the current key; raise ValueError for more than `max_size`.

        They can be decrypted under the same `identity` only: that of their row.
        """
        check_size(self, len(data))
        nonce = os.urandom(_NONCE)
        cipher = self._ciphers[self.current]
        sealed: bytes = cipher.encrypt(nonce, data, self._bound(self._head, identity))
        return self._head + nonce + sealed

    def decode(self, data: bytes, *, identity: bytes = b"") -> bytes:
        """Return the bytes decrypted; raise DecryptionError when the key, the row or one bit is wrong.

        The `identity` is that of their row. Raises ValueError when they are more than `max_size`.
        """
        from cryptography.exceptions import InvalidTag

        parts = _parts(data)
        check_size(self, len(parts.sealed) - _TAG)
        cipher = self._ciphers.get(parts.key_id)
        if cipher is None:
            known = ", ".join(map(repr, self._ciphers))
            raise DecryptionError(
                f"A stored value is encrypted with the key {parts.key_id!r}, this store has {known}; "
                f"add it: AesGcmCodec(keys={{..., {parts.key_id!r}: ...}})"
            )
        try:
            opened: bytes = cipher.decrypt(parts.nonce, parts.sealed, self._bound(parts.head, identity))
        except InvalidTag as error:
            raise DecryptionError(
                f"A stored value does not decrypt with the key {parts.key_id!r}: it was written with another "
                f"key, changed, or moved here from another row; give the store the key that {parts.key_id!r} "
                "was when the value was written, or restore the row from a backup"
            ) from error
        return opened

    def _bound(self, head: bytes, identity: bytes) -> bytes:
        """Return what is authenticated besides the ciphertext; the head says itself where it ends."""
        return b"%s/%d" % (self.id.encode(), self.version) + head + identity

    def __repr__(self) -> str:
        keys = ", ".join(f"{key_id!r}: ***" for key_id in self._ciphers)
        plaintext = ", allow_plaintext=True" if self.allow_plaintext else ""
        return f"AesGcmCodec(keys={{{keys}}}, current={self.current!r}{plaintext})"


class _Parts(NamedTuple):
    head: bytes
    key_id: str
    nonce: bytes
    sealed: bytes


def _parts(data: bytes) -> _Parts:
    start = 2 + data[1] if len(data) > 1 else 2
    if len(data) < start + _NONCE + _TAG or data[0] != _MARK:
        raise DecryptionError(
            "A stored value is not encrypted by AesGcmCodec, or cut short; restore the row from a backup"
        )
    key_id = data[2:start].decode("utf-8", "backslashreplace")
    return _Parts(data[:start], key_id, data[start : start + _NONCE], data[start + _NONCE :])


def _head(key_id: str) -> bytes:
    name = key_id.encode()
    return bytes([_MARK, len(name)]) + name


def _named_keys(key: Any, keys: Any) -> dict[str, bytes]:
    if (key is None) == (keys is None):
        raise TypeError(f"AesGcmCodec takes either a key or keys={{id: key}}; {_HOW_TO_MAKE_ONE}")
    if keys is None:
        return {_ONLY_KEY: _checked_key(_ONLY_KEY, key)}
    if not isinstance(keys, Mapping):
        raise TypeError(
            f"keys must map ids to keys, like {{'2025': os.urandom(32)}}, not {type(keys).__name__}"
        )
    if not keys:
        raise ValueError(f"keys is empty; {_HOW_TO_MAKE_ONE} and give it an id: keys={{'2025': key}}")
    return {_checked_id(key_id): _checked_key(key_id, one) for key_id, one in keys.items()}


def _checked_id(key_id: Any) -> str:
    if not isinstance(key_id, str):
        raise TypeError(f"The id of a key must be text, not {type(key_id).__name__}")
    if not key_id.isprintable() or not 1 <= len(key_id.encode()) <= _LONGEST_ID:
        raise ValueError(f"The id of a key is 1 to {_LONGEST_ID} bytes of printable text")
    return key_id


def _checked_key(key_id: str, key: Any) -> bytes:
    # No message shows the key, nor a part of it: somebody may have mistaken a password for one.
    if not isinstance(key, bytes | bytearray | memoryview):
        hint = "give several as keys={id: key}" if isinstance(key, Mapping) else _HOW_TO_MAKE_ONE
        raise TypeError(f"The key {key_id!r} must be {_KEY} random bytes, not {type(key).__name__}; {hint}")
    secret = bytes(key)
    if len(secret) != _KEY:
        raise ValueError(f"The key {key_id!r} must have {_KEY} bytes, not {len(secret)}; {_HOW_TO_MAKE_ONE}")
    return secret


def _ciphers(keys: Mapping[str, bytes]) -> dict[str, Any]:
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError as error:
        raise ImportError(
            'AesGcmCodec needs the package cryptography; install it with: pip install "hypergraph[crypto]"'
        ) from error
    return {key_id: AESGCM(key) for key_id, key in keys.items()}
