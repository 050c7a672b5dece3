"""Encryption of stored values with AES-256-GCM.

    \\xe1  length of key id  key id  nonce (12 bytes)  ciphertext and tag (16 bytes)

Every value has its own random nonce. The head before the nonce, "aesgcm/1" and the identity of the row are
authenticated with the ciphertext: a value with a changed bit, or moved to another row, does not decrypt. Keys
are never shown.
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
_LARGEST = 2**31 - 1  # the limit of one call of AESGCM
_ONLY_KEY = "default"  # the id of a key passed without one
_HOW_TO_MAKE_ONE = "make one with os.urandom(32)"


class AesGcmCodec:
    """Encrypt with AES-256-GCM, with one `key` of 32 bytes or the current one of several `keys`.

    >>> codec = AesGcmCodec(keys={"2025": bytes(32), "2026": bytes(range(32))}, current="2026")
    >>> codec.decode(codec.encode(b"secret"))
    b'secret'

    Raises TypeError or ValueError for invalid keys, ImportError without the extra `hypergraph[crypto]`.

    Args:
        key: the only key, with the id "default"
        keys: maps ids to keys; values written with any of them can be read
        current: the id of the key for new values; by default the first
        allow_plaintext: read unencrypted values too, while a store moves to encryption
        max_size: the limit of a value in bytes
    """

    id: ClassVar[str] = "aesgcm"  # the name in stored formats
    version: ClassVar[int] = 1  # the version in stored formats
    encrypts: ClassVar[bool] = True  # plaintext values are refused

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
        self.allow_plaintext = allow_plaintext  # whether unencrypted values can be read
        self.max_size = check_limit("max_size", max_size, _LARGEST - _TAG)  # the limit of a value in bytes
        self._ciphers = _ciphers(named)
        self._head = _head(self.current)

    @property
    def key_ids(self) -> tuple[str, ...]:
        """The ids of all keys."""
        return tuple(self._ciphers)

    def encode(self, data: bytes, *, identity: bytes = b"") -> bytes:
        """Return the bytes encrypted with the current key; they decrypt with the same `identity` only.

        Raises ValueError for more than `max_size`.
        """
        check_size(self, len(data))
        nonce = os.urandom(_NONCE)
        cipher = self._ciphers[self.current]
        sealed: bytes = cipher.encrypt(nonce, data, self._bound(self._head, identity))
        return self._head + nonce + sealed

    def decode(self, data: bytes, *, identity: bytes = b"") -> bytes:
        """Return the decrypted bytes of the row with this `identity`.

        Raises DecryptionError for a wrong key or row and for changed bytes, ValueError for more than
        `max_size`.
        """
        from cryptography.exceptions import InvalidTag

        parts = _parts(data)
        check_size(self, len(parts.sealed) - _TAG)
        cipher = self._ciphers.get(parts.key_id)
        if cipher is None:
            known = ", ".join(map(repr, self._ciphers))
            raise DecryptionError(
                f"A stored value is encrypted with the key {parts.key_id!r}, but this store has {known}; "
                f"add the key: AesGcmCodec(keys={{..., {parts.key_id!r}: ...}})"
            )
        try:
            opened: bytes = cipher.decrypt(parts.nonce, parts.sealed, self._bound(parts.head, identity))
        except InvalidTag as error:
            raise DecryptionError(
                f"A stored value cannot be decrypted with the key {parts.key_id!r}: it was written with "
                "another key of this id, changed, or moved from another row; pass the original key, or "
                "restore the row from a backup"
            ) from error
        return opened

    def _bound(self, head: bytes, identity: bytes) -> bytes:
        """Return the additional authenticated data; the head contains its own length."""
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
            "A stored value is truncated or not encrypted by AesGcmCodec; restore the row from a backup"
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
            f"keys must map ids to keys, like {{'2025': os.urandom(32)}}, got {type(keys).__name__}"
        )
    if not keys:
        raise ValueError(f"keys is empty; {_HOW_TO_MAKE_ONE} and give it an id: keys={{'2025': key}}")
    return {_checked_id(key_id): _checked_key(key_id, one) for key_id, one in keys.items()}


def _checked_id(key_id: Any) -> str:
    if not isinstance(key_id, str):
        raise TypeError(f"The id of a key must be a string, got {type(key_id).__name__}")
    if not key_id.isprintable() or not 1 <= len(key_id.encode()) <= _LONGEST_ID:
        raise ValueError(f"The id of a key must be 1 to {_LONGEST_ID} bytes of printable text")
    return key_id


def _checked_key(key_id: str, key: Any) -> bytes:
    # No message shows any part of the key, which could be a password by mistake.
    if not isinstance(key, bytes | bytearray | memoryview):
        hint = "pass several as keys={id: key}" if isinstance(key, Mapping) else _HOW_TO_MAKE_ONE
        raise TypeError(f"The key {key_id!r} must be {_KEY} random bytes, got {type(key).__name__}; {hint}")
    secret = bytes(key)
    if len(secret) != _KEY:
        raise ValueError(f"The key {key_id!r} must have {_KEY} bytes, got {len(secret)}; {_HOW_TO_MAKE_ONE}")
    return secret


def _ciphers(keys: Mapping[str, bytes]) -> dict[str, Any]:
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError as error:
        raise ImportError(
            'AesGcmCodec needs the package cryptography; install it with: pip install "hypergraph[crypto]"'
        ) from error
    return {key_id: AESGCM(key) for key_id, key in keys.items()}
