"""Stores for tests of durable runs, graphs to run, and nodes that fail when they are told to."""

from __future__ import annotations

import asyncio
import inspect
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hypergraph import END, Graph, interrupt, node, route
from hypergraph.checkpointers import Checkpointer, MemoryCheckpointer
from support.running import RUNNERS, On, OnAsync, OnSync
from support.stored import store_at

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
    made: Checkpointer = MemoryCheckpointer() if request.param == "memory" else store_at(tmp_path / "runs.db")
    yield made
    made.close()


@pytest.fixture(params=[OnSync, OnAsync], ids=RUNNERS)
def durable(request: pytest.FixtureRequest, store: Checkpointer) -> On:
    """A runner of either kind over the store."""
    made: On = request.param(checkpointer=store)
    return made


def rows(store: Checkpointer, workflow_id: str) -> list[tuple[int, str, str]]:
    """Return the stored steps in short: superstep, node, status."""
    return [(s.superstep, s.node_name, s.status.value) for s in store.steps(workflow_id)]


def pipeline(bodies: Bodies, size: int = 5, name: str = "pipeline") -> Graph:
    """Return a chain s1 ... s5 that adds one at each step: v0 -> v5."""

    def step(position: int) -> Any:
        def body(value: int) -> int:
            bodies.enter(f"s{position}")
            return value + 1

        made = node(output_name=f"v{position}")(body)
        return made.with_name(f"s{position}").with_inputs(value=f"v{position - 1}")

    return Graph([step(position) for position in range(1, size + 1)], name=name)


def counting(bodies: Bodies) -> Graph:
    """Return a loop that counts up to its limit."""

    @node(output_name="count")
    def add(count: int) -> int:
        bodies.enter(f"add {count}")
        return count + 1

    @route(targets=["add", END])
    def again(count: int, limit: int) -> Any:
        bodies.enter(f"again {count}")
        return END if count >= limit else "add"

    return Graph([add, again], name="counting")


def asking(bodies: Bodies) -> Graph:
    """Return a graph that asks in its middle."""

    @node(output_name="draft")
    def write(topic: str) -> str:
        bodies.enter("write")
        return f"on {topic}"

    @interrupt(output_name="verdict")
    def review(draft: str) -> None:
        return None

    @node(output_name="final")
    def publish(draft: str, verdict: str) -> str:
        bodies.enter("publish")
        return f"{draft}: {verdict}"

    return Graph([write, review, publish], name="asking")


def fail_once(durable: On, bodies: Bodies, graph: Graph, at: str, **options: Any) -> None:
    """Run a graph that fails at one body, and mend it."""
    bodies.failing[at] = ValueError("broken")
    with pytest.raises(ValueError, match="broken"):
        durable.run(graph, **options)
    bodies.failing.clear()


def read(store: Checkpointer, question: str, *args: Any, **options: Any) -> Any:
    """Ask the awaitable side of a store."""

    async def main() -> Any:
        found = getattr(store, question)(*args, **options)
        return await found if inspect.isawaitable(found) else found

    return asyncio.run(main())
