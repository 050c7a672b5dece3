"""Artifacts in object storage (S3, GCS, Azure and others), through obstore: the extra `objects`.

The names are those of the files: PREFIX/ab/cd/abcd..., so a folder of artifacts can be copied to a bucket
and serve there. An object appears whole or not at all.

Objects cannot be touched. One that was uploaded within the last `refresh_seconds` is not uploaded again;
`sweep` spares objects that much longer, so that its grace period holds for every `put`. Both compare this
machine's clock with the storage's. No storage can look and delete in one go: an orphan past its grace
period that is put again within the very request that deletes it is lost, and its step runs again.
"""

from __future__ import annotations

import hashlib
import io
import time
from collections.abc import Callable, Container, Iterable, Iterator
from typing import Any, TypeVar
from urllib.parse import urlsplit

from hypergraph.checkpointers.artifacts import (
    GRACE_SECONDS,
    ArtifactRef,
    Clock,
    Data,
    altered,
    gone,
    is_key,
    kept_keys,
    key_of,
    oldest_kept,
    viewed,
)
from hypergraph.exceptions import StoreUnavailableError

T = TypeVar("T")


class ObjectArtifactStore:
    """Keep artifacts as objects of a bucket, given as a URL or as a store of obstore.

    Nothing is connected to yet. `options` go to `obstore.store.from_url` (region, credentials, retries). Keys
    begin with `prefix`. An object that is put again is written again once it is older than `refresh_seconds`,
    so that no sweep takes it; `clock` tells its age.

    Raises:
        ImportError: the extra `objects` is not installed.
        ValueError: the URL or the prefix is not one, or options come with a store.
    """

    storage = "object"  # its kind, in references

    def __init__(
        self,
        url_or_store: Any,
        *,
        prefix: str = "",
        refresh_seconds: float = 600.0,
        clock: Clock = time.time,
        **options: Any,
    ) -> None:
        try:
            import obstore
            from obstore.store import from_url
        except ImportError as error:
            raise ImportError(
                'ObjectArtifactStore needs obstore: pip install "hypergraph[objects]".'
            ) from error
        parts = [part for part in prefix.split("/") if part]
        if {".", ".."} & set(parts) or not prefix.isprintable():
            raise ValueError(f"prefix is a path of plain names, not {prefix!r}.")
        if not isinstance(url_or_store, str):
            if options:
                raise ValueError(f"Give {', '.join(options)} to the store itself, or pass a URL.")
            self._store, self.location = url_or_store, type(url_or_store).__name__
        else:
            self.location = _without_secrets(url_or_store)  # the bucket, without secrets
            try:
                self._store = from_url(url_or_store, **options)
            except obstore.exceptions.BaseError as error:
                raise ValueError(f"{self.location} cannot be used: {_first_line(error)}") from error
        self._prefix = "".join(f"{part}/" for part in parts)
        self._refresh = refresh_seconds
        self._clock = clock
        self._api = obstore

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.location!r})"

    def put(self, data: Data, *, content_type: str) -> ArtifactRef:
        """Return a reference, with the `content_type`, once the storage has acknowledged the data.

        Raises:
            TypeError, ValueError: see `ArtifactRef.of`.
            StoreUnavailableError: the storage cannot be reached or refuses.
        """
        ref, view = ArtifactRef.of(data, storage=self.storage, content_type=content_type), viewed(data)
        found = self._head(ref.key)
        limit = self._clock() - self._refresh
        if found is None or found["size"] != ref.size or found["last_modified"].timestamp() <= limit:
            if not view.readonly and type(self._store).__name__ == "MemoryStore":
                view = memoryview(bytes(view))  # it would keep the caller's buffer, which may change
            self._asked(lambda: self._api.put(self._store, self._path(ref.key), view))
        return ref

    def get(self, ref: ArtifactRef) -> bytes:
        """Return the data, read once and checked.

        Raises:
            ArtifactMissingError: the object is gone or altered, or the reference is forged.
            StoreUnavailableError: the storage cannot be reached or refuses.
        """
        path = self._path(key_of(ref))
        answer = self._found(lambda: self._api.get(self._store, path))
        if answer is None:
            raise gone(ref, self.location)
        if answer.meta["size"] != ref.size:
            raise altered(ref, self.location, f"it has {answer.meta['size']} bytes instead of {ref.size}")
        # Grown in place and handed out as it is: joining chunks would hold the data twice.
        gathered, digest = io.BytesIO(), hashlib.sha256()
        chunks = iter(answer.stream() if ref.size else ())
        while (chunk := self._asked(lambda: next(chunks, None))) is not None:
            gathered.write(chunk)
            digest.update(chunk)
        if digest.hexdigest() != ref.key:
            raise altered(ref, self.location, "its content has another sha256")
        return gathered.getvalue()

    def exists(self, ref: ArtifactRef) -> bool:
        """Return whether an object of that key and size is there, without reading it.

        Raises:
            ArtifactMissingError: the reference is forged.
            StoreUnavailableError: the storage cannot be reached or refuses.
        """
        found = self._head(key_of(ref))
        return found is not None and found["size"] == ref.size

    def delete(self, ref: ArtifactRef) -> None:
        """Delete the object if it is there; raises ArtifactMissingError (forged reference) or StoreError."""
        self._remove(key_of(ref))

    def keys(self) -> Iterator[str]:
        """Yield the key of every artifact, in no particular order; raises StoreUnavailableError."""
        return (key for key, _ in self._listed())

    def sweep(
        self, keep: Iterable[str] | Container[str], *, older_than_seconds: float = GRACE_SECONDS
    ) -> int:
        """Delete the artifacts not in `keep` that were not put for `older_than_seconds`; return how many.

        Raises:
            TypeError, ValueError: `keep` holds something else than keys, or the period is negative.
            StoreUnavailableError: the storage cannot be reached or refuses.
        """
        kept = kept_keys(keep)
        limit = oldest_kept(self._clock(), older_than_seconds) - self._refresh
        orphans = [key for key, at in self._listed() if at < limit and key not in kept]
        return sum(self._remove_if_older(key, limit) for key in orphans)

    def _remove_if_older(self, key: str, limit: float) -> bool:
        """Look again right before: the listing of a large bucket takes its time."""
        found = self._head(key)
        if found is None or found["last_modified"].timestamp() >= limit:
            return False
        self._remove(key)
        return True

    def _head(self, key: str) -> dict[str, Any] | None:
        return self._found(lambda: dict(self._api.head(self._store, self._path(key))))

    def _remove(self, key: str) -> None:
        self._found(lambda: self._api.delete(self._store, self._path(key)))

    def _listed(self) -> Iterator[tuple[str, float]]:
        """Yield key and time of every object that is one of ours."""
        pages = iter(self._asked(lambda: self._api.list(self._store, self._prefix or None)))
        while (page := self._asked(lambda: next(pages, None))) is not None:
            for entry in page:
                key = entry["path"].rpartition("/")[2]
                if is_key(key) and entry["path"] == self._path(key):
                    yield key, entry["last_modified"].timestamp()

    def _path(self, key: str) -> str:
        return f"{self._prefix}{key[:2]}/{key[2:4]}/{key}"

    def _found(self, question: Callable[[], T]) -> T | None:
        """Return the answer, None for what is not there; raises StoreUnavailableError."""

        def asked() -> T | None:
            try:
                return question()
            except FileNotFoundError:
                return None

        return self._asked(asked)

    def _asked(self, question: Callable[[], T]) -> T:
        """Return the answer; raises StoreUnavailableError."""
        try:
            return question()
        except (self._api.exceptions.BaseError, OSError, NotImplementedError, ValueError) as error:
            raise StoreUnavailableError(
                f"The artifact store {self.location} failed: check its address, your credentials and what "
                f"they allow ({type(error).__name__}: {_first_line(error)}).",
                location=self.location,
            ) from error


def _without_secrets(url: str) -> str:
    """Return the address without user, password and query, which may hold a key."""
    parts = urlsplit(url)
    if not parts.scheme:
        raise ValueError('An object store is named by a URL such as "s3://bucket/folder".')
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), "")  # below it stand the driver's own structures
