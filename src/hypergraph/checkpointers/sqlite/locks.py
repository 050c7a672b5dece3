"""Locks of claims: one byte each of a file beside the database, freed by the kernel when a process dies.

The byte belongs to (workflow, fence), so a claim taken by force has a lock of its own, and whether an owner
lives is whether its byte is locked. These locks are per process, so bytes of our own are kept in a set
as well. The file stays open as long as the store: closing any handle of it would free all our locks.
Where the system has no such locks, an owner lives if its process does.
"""

from __future__ import annotations

import errno
import os
import sys

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_FENCES = 1024  # bytes per workflow; fences go around, long after their owners are gone
_TAKEN = (errno.EACCES, errno.EAGAIN)
_STILL_ACTIVE = 258  # what WaitForSingleObject says of a process that runs
_SYNCHRONIZE = 0x100000
HOST = os.uname().nodename if hasattr(os, "uname") else os.environ.get("COMPUTERNAME", "")


class LockFile:
    """The locks of all claims on one database that this process holds."""

    def __init__(self, path: str) -> None:
        self.address = HOST
        self._path = path
        self._file: int | None = None
        self.held: set[tuple[int, int]] = set()  # key and fence of each claim

    def hold(self, key: int, fence: int) -> None:
        """Lock the byte of a new claim; raises OSError when the file cannot be used."""
        if fcntl is not None:
            fcntl.lockf(self._open(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _byte(key, fence))
        self.held.add((key, fence))

    def free(self, key: int, fence: int) -> None:
        """Unlock the byte of a claim, if this process holds it."""
        if (key, fence) in self.held:
            self.held.discard((key, fence))
            if fcntl is not None:
                fcntl.lockf(self._open(), fcntl.LOCK_UN, 1, _byte(key, fence))

    def lives(self, key: int, fence: int, pid: int, host: str) -> bool:
        """Return whether the owner of that claim is still there."""
        if (key, fence) in self.held:
            return True
        if fcntl is None:
            return host != HOST or _process_lives(pid)
        if self._file is None and not os.path.exists(self._path):
            return False  # no process ever claimed anything, and to look does not make the file
        file, byte = self._open(), _byte(key, fence)
        try:  # shared: a process that looks at the same moment is not taken for the owner
            fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB, 1, byte)
        except OSError as error:
            if error.errno in _TAKEN:
                return True
            raise
        fcntl.lockf(file, fcntl.LOCK_UN, 1, byte)
        return False

    def forget(self) -> None:
        """Start over in the child of a fork, which inherits the handle but none of the locks."""
        self.held.clear()

    def close(self) -> None:
        """Close the file unless a claim needs it."""
        if self._file is not None and not self.held:
            os.close(self._file)
            self._file = None

    def _open(self) -> int:
        if self._file is None:
            flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
            self._file = os.open(self._path, flags, 0o600)
        return self._file


def _byte(key: int, fence: int) -> int:
    return key * _FENCES + fence % _FENCES


def _process_lives(pid: int) -> bool:
    if sys.platform == "win32":  # os.kill would end it there
        import ctypes

        kernel = ctypes.windll.kernel32
        handle = kernel.OpenProcess(_SYNCHRONIZE, False, pid)
        if not handle:
            return False
        running = kernel.WaitForSingleObject(handle, 0) == _STILL_ACTIVE
        kernel.CloseHandle(handle)
        return bool(running)
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
