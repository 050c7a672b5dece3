"""One open folder below an artifact store's root, in which names never lead anywhere else.

Where the system can, every operation is relative to the open folder, so that nobody can put a link in the
way between a check and its use. Whatever is made here is for its owner alone, whatever the umask.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import closing, contextmanager

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
# Opening a planted pipe must not wait for somebody at its other end.
_READ = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | _SAFE
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _SAFE
_LOCK = os.O_RDWR | _SAFE
_PRIVATE_FILE, _PRIVATE_FOLDER = 0o600, 0o700


class Folder:
    """A folder that is open until `close`; names given to it have no separators. Raises OSError."""

    def __init__(self, path: str, handle: int | None) -> None:
        self.path = path
        self._handle = handle

    @classmethod
    def at(cls, path: str) -> Folder:
        """Open a folder where the user put it, which may be behind links of the user's own."""
        return cls(path, os.open(path, _FOLDER) if _RELATIVE else None)

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
            pass  # somebody else wanted the same

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
        file = os.open(self._name(name), _LOCK, dir_fd=self._handle)
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
    with closing(Folder.at(parent)) as folder:
        folder.make(name)
        folder.sync()


def write_all(file: int, view: memoryview) -> None:
    """Write every byte, without copying any."""
    while view.nbytes:
        view = view[os.write(file, view[:_MOST_AT_ONCE]) :]
