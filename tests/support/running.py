"""Run graphs on both runners alike: `run` and `map_` are fixtures over SyncRunner and AsyncRunner."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from hypergraph import AsyncRunner, Graph, MapResult, RunResult, SyncRunner

RUNNERS = ("sync", "async")


def run_sync(graph: Graph, *args: Any, cache: Any = None, store: Any = None, **options: Any) -> RunResult:
    """Run a graph on a fresh SyncRunner."""
    return SyncRunner(cache, store).run(graph, *args, **options)


def run_async(graph: Graph, *args: Any, cache: Any = None, store: Any = None, **options: Any) -> RunResult:
    """Run a graph on a fresh AsyncRunner, in an event loop of its own."""

    async def main() -> RunResult:
        return await AsyncRunner(cache, store).run(graph, *args, **options)

    return asyncio.run(main())


def map_sync(graph: Graph, *args: Any, cache: Any = None, store: Any = None, **options: Any) -> MapResult:
    """Map a graph on a fresh SyncRunner."""
    return SyncRunner(cache, store).map(graph, *args, **options)


def map_async(graph: Graph, *args: Any, cache: Any = None, store: Any = None, **options: Any) -> MapResult:
    """Map a graph on a fresh AsyncRunner, in an event loop of its own."""

    async def main() -> MapResult:
        return await AsyncRunner(cache, store).map(graph, *args, **options)

    return asyncio.run(main())


@pytest.fixture(params=RUNNERS)
def run(request: pytest.FixtureRequest) -> Callable[..., RunResult]:
    """`run(graph, ...)` on either runner."""
    return run_sync if request.param == "sync" else run_async


@pytest.fixture(params=RUNNERS)
def map_(request: pytest.FixtureRequest) -> Callable[..., MapResult]:
    """`map_(graph, ..., map_over=...)` on either runner."""
    return map_sync if request.param == "sync" else map_async


def trace(result: RunResult) -> list[tuple[int, str]]:
    """Return what ran, as pairs of superstep and node name."""
    return [(record.superstep, record.node_name) for record in result.log.steps]


def order(result: RunResult) -> list[str]:
    """Return the names of the nodes that ran, in order."""
    return [record.node_name for record in result.log.steps]


class OnSync:
    """Calls of one SyncRunner, each brought to its end."""

    is_async = False

    def __init__(self, **options: Any) -> None:
        self.runner: Any = SyncRunner(**options)

    def run(self, *args: Any, **options: Any) -> RunResult:
        """Run a graph."""
        return self.runner.run(*args, **options)

    def map(self, *args: Any, **options: Any) -> MapResult:
        """Map a graph."""
        return self.runner.map(*args, **options)

    def iter(self, *args: Any, **options: Any) -> tuple[list[Any], RunResult]:
        """Iterate over a run; return its events and its result."""
        iterator = self.runner.iter(*args, **options)
        return list(iterator), iterator.result

    def map_iter(self, *args: Any, **options: Any) -> list[tuple[int, RunResult]]:
        """Iterate over a map; return its items as they came."""
        return list(self.runner.map_iter(*args, **options))

    def start_run(self, *args: Any, **options: Any) -> RunResult:
        """Start a run in the background and wait for its result."""
        return self.runner.start_run(*args, **options).result()

    def start_map(self, *args: Any, **options: Any) -> MapResult:
        """Start a map in the background and wait for its result."""
        return self.runner.start_map(*args, **options).result()


class OnAsync:
    """Calls of one AsyncRunner, each in an event loop of its own."""

    is_async = True

    def __init__(self, **options: Any) -> None:
        self.runner: Any = AsyncRunner(**options)

    def run(self, *args: Any, **options: Any) -> RunResult:
        """Run a graph."""
        return asyncio.run(self.runner.run(*args, **options))

    def map(self, *args: Any, **options: Any) -> MapResult:
        """Map a graph."""
        return asyncio.run(self.runner.map(*args, **options))

    def iter(self, *args: Any, **options: Any) -> tuple[list[Any], RunResult]:
        """Iterate over a run; return its events and its result."""

        async def main() -> tuple[list[Any], RunResult]:
            iterator = self.runner.iter(*args, **options)
            return [event async for event in iterator], iterator.result

        return asyncio.run(main())

    def map_iter(self, *args: Any, **options: Any) -> list[tuple[int, RunResult]]:
        """Iterate over a map; return its items as they came."""

        async def main() -> list[tuple[int, RunResult]]:
            return [item async for item in self.runner.map_iter(*args, **options)]

        return asyncio.run(main())

    def start_run(self, *args: Any, **options: Any) -> RunResult:
        """Start a run in the background and wait for its result."""

        async def main() -> RunResult:
            return await self.runner.start_run(*args, **options).result()

        return asyncio.run(main())

    def start_map(self, *args: Any, **options: Any) -> MapResult:
        """Start a map in the background and wait for its result."""

        async def main() -> MapResult:
            return await self.runner.start_map(*args, **options).result()

        return asyncio.run(main())


On = OnSync | OnAsync


@pytest.fixture(params=[OnSync, OnAsync], ids=RUNNERS)
def on(request: pytest.FixtureRequest) -> On:
    """A runner of either kind, with every call brought to its end."""
    made: On = request.param()
    return made
