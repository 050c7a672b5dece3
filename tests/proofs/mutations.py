"""Defects to be planted in all processes of a suite: one that does not notice proves nothing."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace

from support import processes

from hypergraph.checkpointers.artifacts import files
from hypergraph.checkpointers.sqlite.database import Connection
from hypergraph.durability.journal import Journal
from hypergraph.engine.plan import Step


def _commit_late() -> None:
    """Let a step start before what it takes is written down."""
    plain = Journal.before

    def before(self: Journal, step: Step, superstep: int) -> tuple[int, ...]:
        lowest, self.lowest = self.lowest, float("inf")
        saved = plain(self, step, superstep)
        self.lowest = lowest
        return saved

    Journal.before = before  # type: ignore[method-assign]


def _do_not_sync_artifacts() -> None:
    """Let a row name a file whose content may not be on disk yet."""
    files.os = SimpleNamespace(**{**vars(os), "fsync": lambda file: None})  # type: ignore[assignment]


def _do_not_check_fences() -> None:
    """Accept writes from an owner that was replaced."""
    any_owner = "SELECT 1 WHERE ? IS NOT NULL AND ? IS NOT NULL"
    Connection.dialect = Connection.dialect._replace(owned=any_owner)


DEFECTS: dict[str, Callable[[], None]] = {
    "a commit after the next superstep starts": _commit_late,
    "no fsync before the row of an artifact": _do_not_sync_artifacts,
    "no check of the fence": _do_not_check_fences,
}


def plant(defect: str) -> None:
    """Break this process."""
    DEFECTS[defect]()


@contextmanager
def planted(defect: str) -> Iterator[None]:
    """Break every process that is started meanwhile, and not this one."""
    os.environ[processes.DEFECT] = defect
    try:
        yield
    finally:
        del os.environ[processes.DEFECT]
