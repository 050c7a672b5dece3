"""Artifacts as files: ROOT/ab/cd/abcd..., named by the sha256 of their content."""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Container, Iterable, Iterator
from contextlib import closing, contextmanager

from hypergraph.checkpointers import fault_points
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

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]


NOT_OURS = (errno.ELOOP, errno.ENOTDIR, errno.EMLINK)  # a link or a file where something of ours should be
ABSENT = (errno.ENOENT, *NOT_OURS)
_MOST_AT_ONCE = 1 << 24  # bytes: a write can be interrupted between two of these
_RELATIVE = os.open in os.supports_dir_fd
_SAFE = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)

# Opening a planted pipe must not wait for its other end.
_READ = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | _SAFE
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _SAFE
_LOCK_FLAGS = os.O_RDWR | _SAFE
_PRIVATE_FILE, _PRIVATE_FOLDER = 0o600, 0o700


class Folder:
    """A folder that is open until `close`; names given to it have no separators. Raises OSError."""

    def __init__(self, path: str, handle: int | None) -> None:
        self.path = path
        self._handle = handle

    @classmethod
    def at(cls, path: str) -> Folder:
        """Open a folder, itself and not what it may link to; folders around it may be links."""
        if _RELATIVE:
            return cls(path, os.open(path, _FOLDER | getattr(os, "O_NOFOLLOW", 0)))
        if not stat.S_ISDIR(os.lstat(path).st_mode):
            raise NotADirectoryError(path)
        return cls(path, None)

    def below(self, name: str) -> Folder:
        """Open the folder of that name in this one; a link in its place raises NotADirectoryError."""
        path = os.path.join(self.path, name)
        if _RELATIVE:
            flags = _FOLDER | getattr(os, "O_NOFOLLOW", 0)
            return Folder(path, os.open(name, flags, dir_fd=self._handle))
        if not stat.S_ISDIR(os.lstat(path).st_mode):
            raise NotADirectoryError(path)
        return Folder(path, None)

    def make(self, name: str) -> bool:
        """Make a folder in this one; return False if something of that name is there."""
        try:
            os.mkdir(self._name(name), _PRIVATE_FOLDER, dir_fd=self._handle)
        except FileExistsError:
            return False
        if os.chmod in os.supports_dir_fd or not _RELATIVE:  # a umask may have taken even the owner's bits
            os.chmod(self._name(name), _PRIVATE_FOLDER, dir_fd=self._handle)
        return True

    def open_to_read(self, name: str) -> int:
        """Open what is there, itself and not what it may link to."""
        return os.open(self._name(name), _READ, dir_fd=self._handle)

    def create(self, name: str) -> int:
        """Create a file that was not there, for its owner only."""
        file = os.open(self._name(name), _WRITE, _PRIVATE_FILE, dir_fd=self._handle)
        if hasattr(os, "fchmod"):
            os.fchmod(file, _PRIVATE_FILE)
        return file

    def replace(self, source: str, target: str) -> None:
        """Rename a file over whatever is there."""
        os.replace(self._name(source), self._name(target), src_dir_fd=self._handle, dst_dir_fd=self._handle)

    def remove(self, name: str) -> None:
        """Remove a file or link; one that is gone already is fine."""
        try:
            os.unlink(self._name(name), dir_fd=self._handle)
        except FileNotFoundError:
            pass  # another process did the same

    def status(self, name: str) -> os.stat_result | None:
        """Return the status of what is there, itself and not what it may link to; None if nothing is."""
        try:
            return os.stat(self._name(name), dir_fd=self._handle, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def touch(self, name: str, at: float) -> None:
        """Set when a file was last put."""
        os.utime(
            self._name(name),
            (at, at),
            dir_fd=self._handle,
            follow_symlinks=os.utime not in os.supports_follow_symlinks,
        )

    def names(self) -> list[str]:
        """Return the names of everything in this folder."""
        return os.listdir(self.path if self._handle is None else self._handle)

    def sync(self) -> None:
        """Return once the names in this folder are on disk, where the system lets one ask."""
        if self._handle is not None:
            os.fsync(self._handle)

    @contextmanager
    def locked(self, name: str, *, alone: bool) -> Iterator[None]:
        """Hold a lock file of this folder, with others or alone; the system frees it if the process dies."""
        if self.status(name) is None:
            try:
                os.close(self.create(name))
            except FileExistsError:
                pass  # another process was quicker
        file = os.open(self._name(name), _LOCK_FLAGS, dir_fd=self._handle)
        try:
            if fcntl is not None:
                fcntl.flock(file, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
            yield
        finally:
            os.close(file)

    def close(self) -> None:
        """Close the folder."""
        if self._handle is not None:
            os.close(self._handle)

    def _name(self, name: str) -> str:
        return name if self._handle is not None else os.path.join(self.path, name)


def folders_in(folder: Folder) -> Iterator[Folder]:
    """Open the folders of two hex digits in this one, one after another; what is not ours is left alone."""
    for name in folder.names():
        if len(name) == 2 and set(name) <= set("0123456789abcdef"):
            try:
                inner = folder.below(name)
            except OSError as error:
                if error.errno in ABSENT:
                    continue
                raise
            with closing(inner):
                yield inner


def make_path(path: str) -> None:
    """Make a folder and those around it that are missing, each for its owner only, and on disk."""
    parent, name = os.path.split(path)
    if not os.path.isdir(parent):
        make_path(parent)
    with closing(Folder.at(os.path.realpath(parent))) as folder:
        folder.make(name)
        folder.sync()


def write_all(file: int, view: memoryview) -> None:
    """Write every byte, without copying any."""
    while view.nbytes:
        view = view[os.write(file, view[:_MOST_AT_ONCE]) :]


_TEMPORARY = ".tmp-"
_LOCK = ".lock"


class FileArtifactStore:
    """Keep artifacts as files below a folder, which is made when the first one is put.

    A link to a folder is resolved once, here; with `link=False` it is refused on first use, as it is for the
    folder beside a database, which may come with the database. `clock` tells the age of artifacts.
    """

    storage = "file"  # its kind, in references
    root: str  # the folder, as an absolute path

    def __init__(self, root: str | os.PathLike[str], *, clock: Clock = time.time, link: bool = True) -> None:
        path = os.path.abspath(os.fspath(root))  # a later chdir must not move the store
        self.root = os.path.realpath(path) if link else path  # the folder
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
                # Even if the file was there: the process that renamed it may not have come to this line.
                leaf.sync()
            if fault_points.hook is not None:
                fault_points.point("artifact.after_directory_fsync")
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
        import hashlib  # most values are small, and it takes long to load

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
        """Delete the artifacts not in `keep` that were not put for `older_than_seconds`; return how many.

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
        """Delete a file unless it was put since; it cannot be put again between the two."""
        with self._opened() as root, root.locked(_LOCK, alone=True):
            found = leaf.status(name)
            if found is None or found.st_mtime >= limit:
                return False
            if fault_points.hook is not None:
                fault_points.point("artifact.before_remove")
            leaf.remove(name)
        if fault_points.hook is not None:
            fault_points.point("artifact.after_remove")
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
        name = _TEMPORARY + os.urandom(16).hex()
        file = leaf.create(name)
        try:
            try:
                if fault_points.hook is not None:
                    fault_points.point("artifact.before_write")
                write_all(file, view)
                leaf.touch(name, self._clock())
                if fault_points.hook is not None:
                    fault_points.point("artifact.before_fsync")
                os.fsync(file)
            finally:
                os.close(file)
            if fault_points.hook is not None:
                fault_points.point("artifact.before_rename")
            with root.locked(_LOCK, alone=False):
                leaf.replace(name, key)
        except BaseException:
            try:
                leaf.remove(name)
            except OSError:
                pass  # what went wrong first is what counts; sweep removes the rest
            raise
        if fault_points.hook is not None:
            fault_points.point("artifact.after_rename")

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
        """Open a folder in another; its name is on disk then, also if another process made it."""
        path = os.path.join(folder.path, name)
        if folder.make(name) or path not in self._synced:
            folder.sync()
            self._synced.add(path)
        try:
            return folder.below(name)
        except OSError as error:
            if error.errno not in NOT_OURS:
                raise
            raise _not_ours(path, self.root) from error

    @contextmanager
    def _opened(self, *names: str) -> Iterator[Folder]:
        try:
            folder = Folder.at(self.root)
        except OSError as error:
            if os.path.islink(self.root):
                raise _not_ours(self.root, self.root) from error
            raise
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


def _not_ours(path: str, root: str) -> StoreCorruptError:
    return StoreCorruptError(
        f"{path} is not a folder of this artifact store but a link or a file: remove it, and find out where "
        "it comes from. Nothing was written.",
        location=root,
    )


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
        import hashlib  # as above

        return hashlib.file_digest(stream, "sha256").hexdigest() == key
