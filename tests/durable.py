"""Stores for tests of durable runs, and nodes that fail when they are told to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from running import RUNNERS, On, OnAsync, OnSync

from hypergraph.checkpointers import Checkpointer, MemoryCheckpointer, SqliteCheckpointer

STORES = ("memory", "sqlite")


class Bodies:
    """What the bodies of nodes did: each calls `enter` with its name, and fails there if it is told to."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.failing: dict[str, BaseException] = {}

    def enter(self, name: str) -> None:
        if name in self.failing:
            raise self.failing[name]
        self.ran.append(name)

    def take(self) -> list[str]:
        """Return what ran since the last call."""
        ran, self.ran = self.ran, []
        return ran


class Fuse:
    """Counts the bodies of a run and raises at the start or the end of the chosen ones."""

    def __init__(self, *, at: frozenset[int] = frozenset(), error: type[BaseException] = OSError) -> None:
        self.at = at
        self.error = error
        self.count = 0
        self.finished: Counter[str] = Counter()

    def run(self, name: str, body: Callable[[], Any]) -> Any:
        """Run a body, unless this is one of those that fail."""
        self.count += 1
        if self.count in self.at:
            raise self.error(f"body {self.count}: {name}")
        result = body()
        self.finished[name] += 1
        return result


@pytest.fixture
def bodies() -> Bodies:
    """What the nodes of a test did."""
    return Bodies()


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Checkpointer]:
    """A store of either kind, empty."""
    made: Checkpointer = (
        MemoryCheckpointer() if request.param == "memory" else SqliteCheckpointer(tmp_path / "runs.db")
    )
    yield made
    made.close_now() if hasattr(made, "close_now") else None


@pytest.fixture(params=[OnSync, OnAsync], ids=RUNNERS)
def durable(request: pytest.FixtureRequest, store: Checkpointer) -> On:
    """A runner of either kind over the store."""
    made: On = request.param(checkpointer=store)
    return made


def rows(store: Checkpointer, workflow_id: str) -> list[tuple[int, str, str]]:
    """Return the stored steps in short: superstep, node, status."""
    return [(s.superstep, s.node_name, s.status.value) for s in store.steps(workflow_id)]
