"""Background writer: a bounded queue of commits and the thread that writes them."""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from collections import deque
from typing import TYPE_CHECKING

from hypergraph.checkpointers import fault_points
from hypergraph.checkpointers.records import Commit, Ownership
from hypergraph.exceptions import CheckpointError

if TYPE_CHECKING:
    from hypergraph.checkpointers.backend import Backend


_CAPACITY = 256  # commits that may wait
_GROUP = 64  # commits written together
_PATIENCE = 10.0  # seconds without work after which the thread ends
_Name = tuple[str, int]  # workflow id and fence


class Writer:
    """Write the commits of any number of claims to one backend, in the background."""

    _changed: threading.Condition
    _waiting: deque[Commit]
    _busy: bool
    _failed: dict[_Name, CheckpointError]
    _thread: threading.Thread | None

    def __init__(self, backend: Backend, *, capacity: int = _CAPACITY) -> None:
        self._backend = backend
        self._capacity = capacity
        self._reset()
        _ALL.add(self)

    @classmethod
    def of(cls, backend: Backend) -> Writer:
        """Return the writer of a backend, always the same one."""
        with _LOCK:
            if backend.writer is None:
                backend.writer = cls(backend)
            return backend.writer

    def submit(self, commit: Commit, *, wait: bool = True) -> bool:
        """Queue a commit; return whether it was queued. While the queue is full it waits, if it may.

        Raises:
            CheckpointError: an earlier commit of this claim could not be written; this one is not queued.
        """
        claim = _name(commit.claim)
        with self._changed:
            while len(self._waiting) >= self._capacity and claim not in self._failed:
                if not wait:
                    return False
                self._changed.wait()
            if claim in self._failed:
                raise self._failed[claim]
            self._waiting.append(commit)
            self._changed.notify_all()
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="hypergraph-writer", daemon=True)
                self._thread.start()
        return True

    @property
    def is_idle(self) -> bool:
        """Whether everything queued so far is written."""
        return not (self._waiting or self._busy)

    def drain(self, claim: Ownership | None = None) -> None:
        """Wait until everything queued so far is written, then raise the error of the claim, or of any.

        Raises:
            CheckpointError: a commit could not be written; it is raised here for the last time.
        """
        with self._changed:
            while self._waiting or self._busy:
                self._changed.wait()
            concerned = list(self._failed) if claim is None else [_name(claim)]
            errors = [self._failed.pop(item) for item in concerned if item in self._failed]
        if errors:
            raise errors[0]

    def forget(self) -> None:
        """Start over in the child of a fork: the parent writes what was queued."""
        self._reset()

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        return type(None), ()  # a backend in another process gets its own

    def _reset(self) -> None:
        self._changed = threading.Condition()
        self._waiting = deque()
        self._busy = False
        self._failed = {}
        self._thread = None

    def _work(self) -> None:
        while True:
            with self._changed:
                while not self._waiting:
                    if not self._changed.wait(_PATIENCE) and not self._waiting:
                        self._thread = None  # nothing to do for a while: the next commit starts another
                        return
                group = [self._waiting.popleft() for _ in range(min(_GROUP, len(self._waiting)))]
                group = [commit for commit in group if _name(commit.claim) not in self._failed]
                self._busy = True
                self._changed.notify_all()
            if fault_points.hook is not None:
                fault_points.point("writer.before_group")
            outcomes = self._write(group)
            if fault_points.hook is not None:
                fault_points.point("writer.after_group")
            with self._changed:
                self._busy = False
                for commit, error in zip(group, outcomes, strict=True):
                    if error is not None:
                        self._failed.setdefault(_name(commit.claim), error)
                self._changed.notify_all()

    def _write(self, group: list[Commit]) -> list[CheckpointError | None]:
        try:
            return self._backend.write_all(group)
        except BaseException as error:  # whatever it is, the thread must not die with commits queued
            ours = CheckpointError(f"The background writer failed ({type(error).__name__}: {error}).")
            ours.__cause__ = error
            return [ours] * len(group)


_LOCK = threading.Lock()
_ALL: weakref.WeakSet[Writer] = weakref.WeakSet()


def _name(claim: Ownership) -> _Name:
    return claim.workflow_id, claim.fence


def _at_exit() -> None:
    for writer in list(_ALL):
        try:
            writer.drain()
        except CheckpointError:
            pass  # a run that is concerned has drained before


def _in_child() -> None:
    for writer in list(_ALL):
        writer.forget()


atexit.register(_at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
