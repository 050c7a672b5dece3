"""Errors of SQLite and the operating system as errors of the package, each with its remedy."""

from __future__ import annotations

import errno
import os
import sqlite3

from hypergraph.exceptions import (
    CheckpointError,
    StoreCorruptError,
    StoreError,
    StoreFullError,
    StoreReadOnlyError,
    StoreUnavailableError,
)

_FULL = "is full: free some disk space or prune old workflows, then resume. Nothing was written"
_READ_ONLY = "cannot be written: check the permissions of the file and of the folder around it"
_READ_ONLY_FOLDER = "is in a folder that cannot be written: check its permissions, and how it is mounted"
_CORRUPT = "is damaged: restore it from a backup, or move it away and start over"
_OTHER_FILE = "is not a SQLite database: check the path. If it was one, restore it from a backup"
_FOLDER = "is a folder: name a file in it"
_UNREACHABLE = "cannot be opened: check that the folder exists and that the path is right"
_HALF_WRITTEN = "was left half written by a program that crashed: run it again, or: hypergraph db recover"
_ENDLESS = "takes longer to read than its size allows: it is damaged. Restore it from a backup"
_LOCKED = "is locked by another program: wait for it or stop it, then try again"
_DISK = "cannot be read or written by the system: check the disk"
_SQLITE: dict[int, tuple[type[StoreError], str]] = {
    sqlite3.SQLITE_FULL: (StoreFullError, _FULL),
    sqlite3.SQLITE_READONLY: (StoreReadOnlyError, _READ_ONLY),
    sqlite3.SQLITE_READONLY_ROLLBACK: (StoreUnavailableError, _HALF_WRITTEN),
    sqlite3.SQLITE_INTERRUPT: (StoreCorruptError, _ENDLESS),
    sqlite3.SQLITE_PERM: (StoreReadOnlyError, _READ_ONLY),
    sqlite3.SQLITE_CORRUPT: (StoreCorruptError, _CORRUPT),
    sqlite3.SQLITE_NOTADB: (StoreCorruptError, _OTHER_FILE),
    sqlite3.SQLITE_IOERR_SHORT_READ: (StoreCorruptError, _CORRUPT),
    sqlite3.SQLITE_CANTOPEN: (StoreUnavailableError, _UNREACHABLE),
    sqlite3.SQLITE_BUSY: (StoreUnavailableError, _LOCKED),
    sqlite3.SQLITE_LOCKED: (StoreUnavailableError, _LOCKED),
    sqlite3.SQLITE_IOERR: (StoreUnavailableError, _DISK),
}
_SYSTEM: dict[int, tuple[type[StoreError], str]] = {
    errno.ENOSPC: (StoreFullError, _FULL),
    getattr(errno, "EDQUOT", errno.ENOSPC): (StoreFullError, _FULL),
    errno.EISDIR: (StoreUnavailableError, _FOLDER),
    errno.EROFS: (StoreReadOnlyError, _READ_ONLY),
    errno.EACCES: (StoreReadOnlyError, _READ_ONLY),
    errno.EPERM: (StoreReadOnlyError, _READ_ONLY),
    errno.EIO: (StoreUnavailableError, _DISK),
}
# Errors in what is written; any other is an error of the file, and concerns all writers.
BAD_ROW: tuple[type[Exception], ...] = (
    *(sqlite3.IntegrityError, sqlite3.DataError, sqlite3.InterfaceError, sqlite3.ProgrammingError),
    *(OverflowError, UnicodeError),
)
_PRIMARY = 0xFF  # the low byte of a SQLite result code; the rest refines it


def translated(error: Exception, location: str) -> CheckpointError:
    """Return our error for one of sqlite3's or the system's, which becomes its cause."""
    if isinstance(error, CheckpointError):
        return error
    if isinstance(error, OSError):
        kind, remedy = _SYSTEM.get(error.errno or 0, (StoreUnavailableError, _UNREACHABLE))
    else:
        code = getattr(error, "sqlite_errorcode", None) or 0
        kind, remedy = _SQLITE.get(code) or _SQLITE.get(code & _PRIMARY) or (StoreError, "failed")
        # SQLite cannot open a file either if it cannot create its log beside it.
        is_there = code & _PRIMARY == sqlite3.SQLITE_CANTOPEN and os.path.isfile(location)
        if is_there and not os.access(os.path.dirname(os.path.abspath(location)), os.W_OK):
            kind, remedy = StoreReadOnlyError, _READ_ONLY_FOLDER
    ours = kind(f"The store {location} {remedy} ({type(error).__name__}: {error}).", location=location)
    ours.__cause__ = error
    return ours
