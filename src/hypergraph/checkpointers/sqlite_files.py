"""The file of a SQLite database, as the system sees it."""

from __future__ import annotations

import os


def create_private(path: str, *, exist_ok: bool = True) -> None:
    """Create a file that nobody else can read; raises FileExistsError unless it may exist."""
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o600)
    except FileExistsError:
        if exist_ok:
            return
        raise
    try:
        if hasattr(os, "fchmod"):
            os.fchmod(file, 0o600)  # whatever the umask; SQLite gives its other files the same mode
    finally:
        os.close(file)


def in_uri(path: str) -> str:
    """Return a path as it stands in SQLite's file: addresses."""
    return path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")


def is_empty(path: str) -> bool:
    """Return whether there is nothing at a path, or nothing in it."""
    return not (os.path.exists(path) and os.path.getsize(path))


def identity(path: str) -> tuple[int, int] | None:
    """Return which file a path means, None if there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino
