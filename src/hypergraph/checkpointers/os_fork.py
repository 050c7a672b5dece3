"""Handling of open databases when the process forks."""

from __future__ import annotations

import os
import threading
import weakref
from typing import Protocol


class Forked(Protocol):
    """A database that may be open when the process forks."""

    path: str
    timeout: float
    lock: threading.RLock  # held by the thread inside of a transaction

    def forget(self) -> None:
        """Start over in the child, without touching what belongs to the parent."""


_open: weakref.WeakSet[Forked] = weakref.WeakSet()
_one_at_a_time = threading.Lock()
_held: list[threading.RLock] = []  # by the thread that forks


def watch(database: Forked) -> None:
    """Take care of a database at every fork from now on."""
    _open.add(database)


def _before() -> None:
    _one_at_a_time.acquire()
    for database in sorted(_open, key=lambda database: database.path):
        if database.lock.acquire(timeout=database.timeout):
            _held.append(database.lock)


def _in_parent() -> None:
    while _held:
        _held.pop().release()
    _one_at_a_time.release()


def _in_child() -> None:
    global _one_at_a_time  # noqa: PLW0603 - the parent's is held
    _one_at_a_time = threading.Lock()
    _held.clear()
    for database in list(_open):
        database.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
