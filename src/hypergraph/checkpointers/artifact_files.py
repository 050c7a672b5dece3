"""Artifacts as files: ROOT/ab/cd/abcd..., named by the sha256 of their content.

A file gets its name only when its content is on disk, and `put` returns only when its name is, so a name
never stands for half a value. A process that dies leaves at most a `.tmp-` file, which `sweep` removes.
Folders are for their owner only (0700), files too (0600). No link below the root is ever followed.

Any number of processes may put, get and sweep at once. A lock file lets `sweep` decide and delete in one go:
it cannot take away what a `put` has just found to be there.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import stat
import time
from collections.abc import Container, Iterable, Iterator
from contextlib import closing, contextmanager

from hypergraph.checkpointers import points
from hypergraph.checkpointers.artifact_folders import (
    ABSENT,
    NOT_OURS,
    Folder,
    folders_in,
    make_path,
    write_all,
)
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
from hypergraph.checkpointers.errors import translated
from hypergraph.exceptions import StoreCorruptError

_TEMPORARY = ".tmp-"
_LOCK = ".lock"


class FileArtifactStore:
    """Keep artifacts as files below a folder, which is made when the first one is put.

    `clock` tells the age of artifacts.
    """

    storage = "file"  # its kind, in references

    def __init__(self, root: str | os.PathLike[str], *, clock: Clock = time.time) -> None:
        self.root = os.path.abspath(os.fspath(root))  # a later chdir must not move the store
        self._clock = clock
        self._synced: set[str] = set()  # folders whose own names are on disk

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.root!r})"

    def put(self, data: Data, *, content_type: str) -> ArtifactRef:
        """Return a reference, with the `content_type`, once the data is on disk; no content is written twice.

        Raises:
            TypeError, ValueError: see `ArtifactRef.of`.
            StoreError: the folder is full, read-only, not reachable or not a folder.
        """
        ref, view = ArtifactRef.of(data, storage=self.storage, content_type=content_type), viewed(data)
        with self._translating():
            with self._made() as root, self._made_below(root, ref.key) as leaf:
                if not self._again(root, leaf, ref):
                    self._write(root, leaf, ref.key, view)
                # Even if the file was there: whoever renamed it may not have come to this line.
                leaf.sync()
            if points.hook is not None:
                points.point("artifact.after_directory_fsync")
        return ref

    def get(self, ref: ArtifactRef) -> bytes:
        """Return the data, read once and checked.

        Raises:
            ArtifactMissingError: the file is gone or altered, or the reference is forged.
            StoreError: the folder cannot be read.
        """
        key = key_of(ref)
        with self._translating():
            try:
                with self._opened(*_fan_out(key)) as leaf:
                    file = leaf.open_to_read(key)
            except OSError as error:
                if error.errno in ABSENT:
                    raise gone(ref, self.root) from error
                raise
            with open(file, "rb", buffering=0) as stream:
                found = os.fstat(file)
                if not stat.S_ISREG(found.st_mode) or found.st_size != ref.size:
                    raise altered(ref, self.root, f"it has {found.st_size} bytes instead of {ref.size}")
                data = stream.readall()
        if hashlib.sha256(data).hexdigest() != key:
            raise altered(ref, self.root, "its content has another sha256")
        return data

    def exists(self, ref: ArtifactRef) -> bool:
        """Return whether a file of that key and size is there, without reading it.

        Raises:
            ArtifactMissingError: the reference is forged.
            StoreError: the folder cannot be read.
        """
        key = key_of(ref)
        with self._translating():
            try:
                with self._opened(*_fan_out(key)) as leaf:
                    found = leaf.status(key)
            except OSError as error:
                if error.errno in ABSENT:
                    return False
                raise
        return found is not None and stat.S_ISREG(found.st_mode) and found.st_size == ref.size

    def delete(self, ref: ArtifactRef) -> None:
        """Delete the file if it is there; raises ArtifactMissingError for a forged reference, StoreError."""
        key = key_of(ref)
        with self._translating():
            try:
                with self._opened(*_fan_out(key)) as leaf:
                    leaf.remove(key)
            except OSError as error:
                if error.errno not in ABSENT:
                    raise

    def keys(self) -> Iterator[str]:
        """Yield the key of every artifact, in no particular order; raises StoreError."""
        with self._translating():
            for leaf in self._leaves():
                yield from (name for name in leaf.names() if is_key(name))

    def sweep(
        self, keep: Iterable[str] | Container[str], *, older_than_seconds: float = GRACE_SECONDS
    ) -> int:
        """Delete the artifacts not in `keep` that nobody put for `older_than_seconds`; return how many.

        What dead processes left unfinished goes too, and is not counted.

        Raises:
            TypeError, ValueError: `keep` holds something else than keys, or the period is negative.
            StoreError: the folder cannot be read or written.
        """
        kept, limit = kept_keys(keep), oldest_kept(self._clock(), older_than_seconds)
        swept = 0
        with self._translating():
            for leaf in self._leaves():
                for name in leaf.names():
                    if name.startswith(_TEMPORARY) or (is_key(name) and name not in kept):
                        swept += self._dropped(leaf, name, limit) and is_key(name)
        return swept

    def _dropped(self, leaf: Folder, name: str, limit: float) -> bool:
        """Delete a file unless it was put since; nobody can put it again between the two."""
        with self._opened() as root, root.locked(_LOCK, alone=True):
            found = leaf.status(name)
            if found is None or found.st_mtime >= limit:
                return False
            if points.hook is not None:
                points.point("artifact.before_remove")
            leaf.remove(name)
        if points.hook is not None:
            points.point("artifact.after_remove")
        return True

    def _again(self, root: Folder, leaf: Folder, ref: ArtifactRef) -> bool:
        """Return whether the content is there, whole, and safe from being swept for another while."""
        if not _holds(leaf, ref.key, ref.size):
            return False
        with root.locked(_LOCK, alone=False):
            if leaf.status(ref.key) is None:
                return False  # swept since we looked
            leaf.touch(ref.key, self._clock())
        return True

    def _write(self, root: Folder, leaf: Folder, key: str, view: memoryview) -> None:
        name = _TEMPORARY + secrets.token_hex(16)
        file = leaf.create(name)
        try:
            try:
                if points.hook is not None:
                    points.point("artifact.before_write")
                write_all(file, view)
                leaf.touch(name, self._clock())
                if points.hook is not None:
                    points.point("artifact.before_fsync")
                os.fsync(file)
            finally:
                os.close(file)
            if points.hook is not None:
                points.point("artifact.before_rename")
            with root.locked(_LOCK, alone=False):
                leaf.replace(name, key)
        except BaseException:
            try:
                leaf.remove(name)
            except OSError:
                pass  # what went wrong first is what counts; sweep removes the rest
            raise
        if points.hook is not None:
            points.point("artifact.after_rename")

    @contextmanager
    def _made(self) -> Iterator[Folder]:
        """Open the root, which is made if need be, with the folders around it."""
        if not os.path.isdir(self.root):
            make_path(self.root)
        with self._opened() as root:
            yield root

    @contextmanager
    def _made_below(self, root: Folder, key: str) -> Iterator[Folder]:
        first, second = _fan_out(key)
        with closing(self._made_in(root, first)) as middle, closing(self._made_in(middle, second)) as leaf:
            yield leaf

    def _made_in(self, folder: Folder, name: str) -> Folder:
        """Open a folder in another; its name is on disk then, whoever made it."""
        path = os.path.join(folder.path, name)
        if folder.make(name) or path not in self._synced:
            folder.sync()
            self._synced.add(path)
        try:
            return folder.below(name)
        except OSError as error:
            if error.errno not in NOT_OURS:
                raise
            raise StoreCorruptError(
                f"{path} is not a folder of this artifact store but a link or a file: remove it, and find "
                "out who put it there. Nothing was written.",
                location=self.root,
            ) from error

    @contextmanager
    def _opened(self, *names: str) -> Iterator[Folder]:
        folder = Folder.at(self.root)
        try:
            for name in names:
                inner = folder.below(name)
                folder.close()
                folder = inner
            yield folder
        finally:
            folder.close()

    def _leaves(self) -> Iterator[Folder]:
        """Open the folders that hold artifacts, one after another; what is not ours is left alone."""
        if not os.path.isdir(self.root):
            return
        with self._opened() as root:
            for middle in folders_in(root):
                yield from folders_in(middle)

    @contextmanager
    def _translating(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise translated(error, self.root) from error


def _fan_out(key: str) -> tuple[str, str]:
    return key[:2], key[2:4]


def _holds(leaf: Folder, key: str, size: int) -> bool:
    """Return whether the file of that key has the content it stands for: a damaged one is written anew."""
    try:
        file = leaf.open_to_read(key)
    except OSError as error:
        if error.errno in ABSENT:
            return False
        raise
    with open(file, "rb", buffering=0) as stream:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode) or found.st_size != size:
            return False
        return hashlib.file_digest(stream, "sha256").hexdigest() == key
