"""Event loop of a SyncRunner with executors."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from contextvars import copy_context
from typing import Any, TypeVar

from hypergraph.engine.async_kernel import AsyncKernel
from hypergraph.engine.nested import MapRun
from hypergraph.engine.run import Run
from hypergraph.exceptions import CALLED_AT, calling_line
from hypergraph.executors.dispatch import ExecutorChoice, NodeExecutors
from hypergraph.graph.graph import Graph
from hypergraph.runners.async_ import Handover
from hypergraph.runners.handles import in_thread

T = TypeVar("T")
IN_FLIGHT = 1000  # calls submitted to executors at a time; more would only wait in memory
_OVER: Any = object()


def kernel_for(executor: ExecutorChoice, graph: Graph) -> AsyncKernel:
    """Return a kernel that waits for executors. Raises ValueError for nodes that an executor cannot call."""
    executors = NodeExecutors(executor, graph)
    return AsyncKernel(IN_FLIGHT, executors=executors, at_once=executors.width)


def finish_on_loop(run: Run | MapRun, work: Coroutine[Any, Any, None]) -> None:
    """Drive a coroutine of a run to its end."""
    with _private_loop(run, calling_line()) as drive:
        drive(work)


def steps_on_loop(run: Run | MapRun, work: Coroutine[Any, Any, None], handover: Handover[T]) -> Iterator[T]:
    """Drive a run from item to item, as the consumer asks for them."""
    taken = handover.take(run, lambda: work)

    async def next_one() -> Any:
        return await anext(taken, _OVER)

    with _private_loop(run, calling_line()) as drive:
        while (thing := drive(next_one())) is not _OVER:
            yield thing


@contextmanager
def _private_loop(
    run: Run | MapRun, line: tuple[str, int]
) -> Iterator[Callable[[Coroutine[Any, Any, Any]], Any]]:
    context = copy_context()
    context.run(CALLED_AT.set, line)
    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:

        def drive(work: Coroutine[Any, Any, Any]) -> Any:
            if not _is_on_loop():
                return runner.run(work, context=context)
            future = in_thread(lambda: runner.run(work, context=context))
            try:
                return future.result()
            except KeyboardInterrupt:
                run.context.stop("interrupted")
                raise

        try:
            yield drive
        finally:
            if _is_on_loop():  # closing runs the loop once more
                in_thread(runner.close).result()


def _is_on_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
