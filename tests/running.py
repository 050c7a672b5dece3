"""Run graphs on both runners alike: `run` and `map_` are fixtures over SyncRunner and AsyncRunner."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from hypergraph import AsyncRunner, Graph, MapResult, RunResult, SyncRunner

RUNNERS = ("sync", "async")


def run_sync(graph: Graph, *args: Any, cache: Any = None, **options: Any) -> RunResult:
    """Run a graph on a fresh SyncRunner."""
    return SyncRunner(cache).run(graph, *args, **options)


def run_async(graph: Graph, *args: Any, cache: Any = None, **options: Any) -> RunResult:
    """Run a graph on a fresh AsyncRunner, in an event loop of its own."""

    async def main() -> RunResult:
        return await AsyncRunner(cache).run(graph, *args, **options)

    return asyncio.run(main())


def map_sync(graph: Graph, *args: Any, cache: Any = None, **options: Any) -> MapResult:
    """Map a graph on a fresh SyncRunner."""
    return SyncRunner(cache).map(graph, *args, **options)


def map_async(graph: Graph, *args: Any, cache: Any = None, **options: Any) -> MapResult:
    """Map a graph on a fresh AsyncRunner, in an event loop of its own."""

    async def main() -> MapResult:
        return await AsyncRunner(cache).map(graph, *args, **options)

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
