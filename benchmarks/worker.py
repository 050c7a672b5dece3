"""One library in a process of its own: builds cases, keeps them warm and runs a slice when it is asked to.

python -m benchmarks.worker MODULE

A request is a line of JSON on standard input, an answer one on standard output; what a library prints goes to
standard error. Between slices the bare call is measured, so that each figure has the unit of its moment.

Nothing but the standard library and the module is imported here.
"""

from __future__ import annotations

import gc
import importlib
import json
import logging
import os
import sys
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

from benchmarks.cases import BY_NAME, group_of
from benchmarks.measure import Case, bare_loop

_SLOW = 0.2  # seconds: more than a slice, so that there is nothing to calibrate


class Worker:
    """Answer requests; every method that does not begin with an underscore is one."""

    def __init__(self, module: str) -> None:
        self._library = importlib.import_module(f"benchmarks.libraries.{module}")
        self._cases: dict[tuple[str, int], Case] = {}
        self._growing: dict[str, tuple[Callable[[], Any], Callable[[], int], list[float]]] = {}
        self._bare = bare_loop()
        self._bare.calibrate()

    def cases(self) -> dict[str, Any]:
        """Tell what this library can do, and why not the rest."""
        return {"cases": [*self._library.CASES, *self._library.GROWING], "dashes": self._library.DASHES}

    def open(self, case: str, size: int) -> dict[str, Any]:
        """Build a case, see that it is right, and warm it up."""
        most, why = getattr(self._library, "LARGEST", {}).get(case, (size, ""))
        if size > most:
            return {"error": why}
        work = self._library.CASES[case](size)
        answer = BY_NAME[group_of(case)].answer(size)
        started = time.perf_counter()
        found = work()
        is_slow = time.perf_counter() - started > _SLOW
        if answer is not None and found != answer:
            raise ValueError(f"{case} of {size} found {found!r:.80}")
        made = self._cases[case, size] = Case(case, work)
        if not is_slow:
            made.calibrate()
        return {}

    def slice(self, case: str, size: int) -> dict[str, Any]:
        """Run one slice; return seconds per call, and those of a bare call right before."""
        bare, made = self._bare, self._cases[case, size]
        bare.best = made.best = float("inf")
        bare.slice()
        made.slice()
        return {"seconds": made.best, "bare": bare.best}

    def close(self) -> dict[str, Any]:
        """Forget all cases."""
        self._cases.clear()
        gc.collect()
        return {}

    def grow(self, case: str, size: int) -> dict[str, Any]:
        """Go on until so many calls are made; return seconds of the best of them."""
        if case not in self._growing:
            self._growing[case] = (*self._library.GROWING[case](), [])
        work, _, times = self._growing[case]
        before = len(times)
        self._bare.best = float("inf")
        self._bare.slice()
        while len(times) < size:
            started = time.perf_counter()
            found = work()
            times.append(time.perf_counter() - started)
            if found != len(times):
                raise ValueError(f"turn {len(times)} of {case} found {found!r:.80}")
        return {"seconds": min(times[before:], default=0.0), "bare": self._bare.best}

    def weigh(self, case: str) -> dict[str, Any]:
        """Return the bytes that something has grown to."""
        return {"bytes": self._growing[case][1]()}

    def memory(self, small: int, large: int) -> dict[str, Any]:
        """Return the bytes per node of a chain: what its result keeps, and the most there was meanwhile."""
        (kept, peak), (more_kept, more_peak) = (self._traced(size) for size in (small, large))
        return {"kept": (more_kept - kept) / (large - small), "peak": (more_peak - peak) / (large - small)}

    def _traced(self, size: int) -> tuple[int, int]:
        run = getattr(self._library, "chain_result", None) or self._library.CASES["chain"]
        work = run(size)
        work()
        gc.collect()
        tracemalloc.start()
        result = work()
        _, peak = tracemalloc.get_traced_memory()
        gc.collect()
        kept, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        del result
        return kept, peak


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # a library that prints does not speak for the worker
    logging.disable(logging.CRITICAL)
    worker = Worker(sys.argv[1])
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = getattr(worker, request.pop("do"))(**request)
        except Exception as error:  # of a library: reported, not fatal
            answer = {"error": f"{type(error).__name__}: {error}".partition("\n")[0][:200]}
        answers.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()
