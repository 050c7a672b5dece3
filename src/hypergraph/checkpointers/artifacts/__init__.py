"""Artifacts: large values kept outside the rows, each under the sha256 of its content."""

import re
import threading
import time
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol, TypeAlias, runtime_checkable

from hypergraph.exceptions import ArtifactMissingError

Data: TypeAlias = bytes | bytearray | memoryview
Clock: TypeAlias = Callable[[], float]

GRACE_SECONDS = 3600.0
_FORMAT = "v1"
_LONGEST_TEXT = 512
_STORAGE = re.compile(r"[a-z][a-z0-9_-]{0,31}")
_KEY = re.compile(r"[0-9a-f]{64}")
_SIZE = re.compile(r"0|[1-9][0-9]{0,17}")
_TOKEN = r"[A-Za-z0-9!#$&^_.+-]+"  # noqa: S105 - a word of a media type
_CONTENT_TYPE = re.compile(rf'{_TOKEN}/{_TOKEN}(; ?{_TOKEN}=({_TOKEN}|"[A-Za-z0-9 _.,:/+-]*"))*')


@dataclass(frozen=True, slots=True)
class ArtifactRef:
    """Name one artifact: where it was put, under which key, and what must come back."""

    storage: str  # the kind of store
    key: str  # sha256 of the content
    size: int  # in bytes
    content_type: str  # as in MIME
    checksum: str  # what the content must have

    @classmethod
    def of(cls, data: Data, *, storage: str, content_type: str) -> "ArtifactRef":
        """Return the reference to this content, of a `content_type` as in MIME, in a kind of store.

        Raises:
            TypeError: the data is not a contiguous run of bytes.
            ValueError: the storage or the content type is not well-formed.
        """
        import hashlib  # most values are small, and it takes long to load

        view = viewed(data)
        key = hashlib.sha256(view).hexdigest()
        ref = cls(storage, key, view.nbytes, content_type, f"sha256:{key}")
        if flaw := _flaw(ref):
            raise ValueError(f"An artifact cannot be stored: {flaw}.")
        return ref

    def to_text(self) -> str:
        """Return one short line of ASCII that `from_text` reads; raises ValueError for malformed fields."""
        if flaw := _flaw(self):
            raise ValueError(f"This reference to an artifact cannot be written: {flaw}.")
        return f"{_FORMAT} {self.storage} {self.size} {self.key} {self.checksum} {self.content_type}"

    @classmethod
    def from_text(cls, text: str) -> "ArtifactRef":
        """Return the reference that `to_text` wrote; raises ArtifactMissingError for anything else."""
        if not isinstance(text, str) or len(text) > _LONGEST_TEXT:
            raise _forged("it is not a short line of text")
        parts = text.split(" ", 5)
        if len(parts) != 6 or parts[0] != _FORMAT or not _SIZE.fullmatch(parts[2]):
            raise _forged(f"it does not read {_FORMAT!r}, storage, size, key, checksum, content type")
        ref = cls(parts[1], parts[3], int(parts[2]), parts[5], parts[4])
        if flaw := _flaw(ref):
            raise _forged(flaw)
        return ref


@runtime_checkable
class ArtifactStore(Protocol):
    """Keep large values; each method raises StoreError when the store itself fails."""

    def put(self, data: Data, *, content_type: str) -> ArtifactRef:
        """Return a reference once the data is durable; `ArtifactRef.of` says what `content_type` is."""

    def get(self, ref: ArtifactRef) -> bytes:
        """Return the data; raises ArtifactMissingError when it is gone, altered or never was."""

    def exists(self, ref: ArtifactRef) -> bool:
        """Return whether an artifact of that key and size is there, without reading it."""

    def delete(self, ref: ArtifactRef) -> None:
        """Delete the artifact if it is there."""


@runtime_checkable
class SweepableStore(ArtifactStore, Protocol):
    """An artifact store that can drop what no value refers to."""

    def keys(self) -> Iterator[str]:
        """Yield the key of every artifact, in no particular order."""

    def sweep(
        self, keep: Iterable[str] | Container[str], *, older_than_seconds: float = GRACE_SECONDS
    ) -> int:
        """Delete the artifacts not in `keep` that were not put within the grace period; return how many."""


class MemoryArtifactStore:
    """Keep artifacts in this process, under the same contract as stores that outlive it.

    `clock` tells the age of artifacts.
    """

    storage = "memory"  # its kind, in references

    def __init__(self, *, clock: Clock = time.time) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._held: dict[str, tuple[bytes, float]] = {}  # the data, and when it was last put

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self._held)} artifacts)"

    def put(self, data: Data, *, content_type: str) -> ArtifactRef:
        """Keep the data and return a reference with the `content_type`; raises what `ArtifactRef.of` does."""
        ref = ArtifactRef.of(data, storage=self.storage, content_type=content_type)
        with self._lock:
            known = self._held.get(ref.key)
            own = known[0] if known else bytes(viewed(data)) if type(data) is not bytes else data
            self._held[ref.key] = own, self._clock()
        return ref

    def get(self, ref: ArtifactRef) -> bytes:
        """Return the data; raises ArtifactMissingError when it is not here."""
        held = self._held.get(key_of(ref))
        if held is None or len(held[0]) != ref.size:
            raise gone(ref, "this process's memory")
        return held[0]

    def exists(self, ref: ArtifactRef) -> bool:
        """Return whether the data is here; raises ArtifactMissingError for a forged reference."""
        held = self._held.get(key_of(ref))
        return held is not None and len(held[0]) == ref.size

    def delete(self, ref: ArtifactRef) -> None:
        """Forget the data if it is here; raises ArtifactMissingError for a forged reference."""
        self._held.pop(key_of(ref), None)

    def keys(self) -> Iterator[str]:
        """Yield the key of every artifact held now."""
        return iter(list(self._held))

    def sweep(
        self, keep: Iterable[str] | Container[str], *, older_than_seconds: float = GRACE_SECONDS
    ) -> int:
        """Forget what is not in `keep` and older than `older_than_seconds`; return how many.

        Raises:
            TypeError, ValueError: `keep` holds something else than keys, or the period is negative.
        """
        kept, limit = kept_keys(keep), oldest_kept(self._clock(), older_than_seconds)
        with self._lock:
            orphans = [key for key, (_, at) in self._held.items() if at < limit and key not in kept]
            for key in orphans:
                del self._held[key]
        return len(orphans)


def viewed(data: Data) -> memoryview:
    """Return the bytes as a flat view, without copying; raises TypeError for anything else."""
    if not isinstance(data, bytes | bytearray | memoryview):
        raise TypeError(f"An artifact is bytes or a memoryview, not {type(data).__name__}.")
    view = memoryview(data)
    if not view.c_contiguous:
        raise TypeError("An artifact is a contiguous memoryview; this one skips bytes, copy it first.")
    return view.cast("B") if view.nbytes else memoryview(b"")


def key_of(ref: ArtifactRef) -> str:
    """Return the key, which is safe to build a path from; raises ArtifactMissingError for a forged one."""
    if flaw := _flaw(ref):
        raise _forged(flaw)
    return ref.key


def kept_keys(keep: Iterable[str] | Container[str]) -> Container[str]:
    """Return the keys for fast lookup; raises TypeError or ValueError rather than let a slip cost data."""
    if isinstance(keep, str | bytes):
        raise TypeError("keep is a collection of keys, not one key.")
    if not isinstance(keep, Iterable):
        return keep
    kept = keep if isinstance(keep, set | frozenset | dict) else set(keep)
    for key in kept:
        if not is_key(key):
            raise ValueError(f"keep holds keys of artifacts (ref.key), not {str(key)[:80]!r}.")
    return kept


def oldest_kept(now: float, older_than_seconds: float) -> float:
    """Return the time before which orphans go; raises ValueError unless the period is 0 or more."""
    if not older_than_seconds >= 0:  # says no to NaN too
        raise ValueError(f"older_than_seconds must be 0 or more, not {older_than_seconds!r}.")
    return now - older_than_seconds


def gone(ref: ArtifactRef, location: str) -> ArtifactMissingError:
    """Return the error for an artifact that is not there."""
    return ArtifactMissingError(
        f"The artifact {ref.key} ({ref.size} bytes, put into a {ref.storage!r} store) is not in {location}: "
        "restore it, give the store it was put into, or let the step run again."
    )


def altered(ref: ArtifactRef, location: str, how: str) -> ArtifactMissingError:
    """Return the error for an artifact whose content is another than what was put."""
    return ArtifactMissingError(
        f"The artifact {ref.key} in {location} was altered: {how}. Restore it, or let the step run again."
    )


def _forged(flaw: str) -> ArtifactMissingError:
    return ArtifactMissingError(
        f"A reference to an artifact is not one that was written here: {flaw}. Nothing was read; restore the "
        "reference, or let the step run again."
    )


def is_key(key: object) -> bool:
    return isinstance(key, str) and _KEY.fullmatch(key) is not None


def _flaw(ref: ArtifactRef) -> str | None:
    """Return what is wrong with a reference; never its content at length, which may be hostile."""
    if not isinstance(ref.storage, str) or not _STORAGE.fullmatch(ref.storage):
        return "the storage is not a short lower-case word"
    if not is_key(ref.key):
        return f"the key is not 64 digits of 0-9a-f but {str(ref.key)[:80]!r}"
    if type(ref.size) is not int or not _SIZE.fullmatch(str(ref.size)):
        return "the size is not a number of bytes"
    if ref.checksum != f"sha256:{ref.key}":
        return "key and checksum differ"
    if not isinstance(ref.content_type, str) or len(ref.content_type) > 127:
        return "the content type is not a short text"
    if not _CONTENT_TYPE.fullmatch(ref.content_type):
        return 'the content type is not like "application/json"'
    return None
