"""What a map costs that is called elsewhere, against the same calls submitted by hand.

The calls take 5 ms each and keep no processor busy, so that the figures tell what is added per call, on any
machine. Both ways take turns, and of each the best round counts.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from importlib.util import find_spec

from benchmarks.engine import Bar
from hypergraph import FunctionNode, Graph, SyncRunner

CALLS = 100
ROUNDS = 8
WORKERS = 2
LIMIT = 1.25


def nap(x: int) -> int:
    time.sleep(0.005)
    return x


GRAPH = Graph([FunctionNode(nap, "nap", "y")], name="naps")


def executor_bars() -> list[Bar]:
    """Return a bar for processes, and one for Dask, where what they need is installed."""
    if find_spec("cloudpickle") is None:
        return []
    with ProcessPoolExecutor(WORKERS) as pool:
        bars = [_bar("ProcessPoolExecutor.map", pool, lambda: list(pool.map(nap, range(CALLS), chunksize=1)))]
    with _dask() as executor:
        if executor is not None:
            bars.append(_bar("submits to Dask", executor, lambda: _submitted(executor)))
    return bars


def _bar(name: str, executor: Executor, by_hand: Callable[[], list[int]]) -> Bar:
    runner = SyncRunner(executor=executor)

    def ours() -> list[int]:
        found: list[int] = runner.map(GRAPH, x=list(range(CALLS)), map_over="x")["y"]
        return found

    best = {ours: float("inf"), by_hand: float("inf")}
    for number in range(ROUNDS + 1):
        for way in (ours, by_hand) if number % 2 else (by_hand, ours):
            started = time.perf_counter()
            assert way() == list(range(CALLS))
            if number:  # the first round starts the workers
                best[way] = min(best[way], time.perf_counter() - started)
    return Bar(
        f"map of calls of 5 ms, in {name}", best[ours] / best[by_hand], LIMIT, best[ours] / CALLS * 1e9
    )


def _submitted(executor: Executor) -> list[int]:
    return [future.result() for future in [executor.submit(nap, x) for x in range(CALLS)]]


@contextmanager
def _dask() -> Iterator[Executor | None]:
    try:
        from distributed import Client, LocalCluster
    except ImportError:
        yield None
        return
    logging.getLogger("distributed").setLevel(logging.ERROR)
    options = {"processes": True, "n_workers": WORKERS, "threads_per_worker": 1, "dashboard_address": None}
    with LocalCluster(**options) as cluster, Client(cluster) as client:
        yield client.get_executor(pure=False)


if __name__ == "__main__":
    for bar in executor_bars():
        print(bar)
