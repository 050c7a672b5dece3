"""Executors for systems that have no `concurrent.futures.Executor` of their own."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any, TypeVar

__all__ = ["RayExecutor"]

T = TypeVar("T")


class RayExecutor(Executor):
    """Submit calls to Ray as tasks; the options are those of `ray.remote`, such as `num_cpus`.

    Ray must be initialised, and stays initialised after `shutdown`. Ray does not repeat a task whose worker
    died: its future raises, and the node's `on_worker_loss` decides. Raises ImportError without the extra.
    """

    def __init__(self, **options: Any) -> None:
        try:
            import ray
        except ImportError as error:
            raise ImportError("RayExecutor needs Ray. Install it: pip install 'hypergraph[ray]'") from error
        self._ray: Any = ray
        self._task: Any = ray.remote(**{"max_retries": 0, "num_cpus": 1, **options})(_call)
        self._pending: set[Future[Any]] = set()
        self._is_shut_down = False

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Submit a call. Raises RuntimeError after `shutdown`."""
        if self._is_shut_down:
            raise RuntimeError("cannot schedule new futures after shutdown")
        reference = self._task.remote(fn, args, kwargs)
        future: Future[T] = reference.future()

        def discard(ended: Future[T]) -> None:
            self._pending.discard(ended)
            if ended.cancelled():
                self._ray.cancel(reference)

        self._pending.add(future)
        future.add_done_callback(discard)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Accept no more calls and wait for the running ones; `cancel_futures` cancels them first."""
        self._is_shut_down = True
        pending = list(self._pending)
        if cancel_futures:
            for future in pending:
                future.cancel()
        if wait:
            for future in pending:
                if not future.cancelled():
                    future.exception()


def _call(fn: Callable[..., T], args: tuple[Any, ...], kwargs: dict[str, Any]) -> T:
    return fn(*args, **kwargs)
