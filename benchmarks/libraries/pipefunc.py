"""pipefunc: a Pipeline of PipeFuncs; maps without a pool, which trivial functions do not pay for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pipefunc import NestedPipeFunc, PipeFunc, Pipeline

from benchmarks.measure import WIDTH, plus_one

Work = Callable[[], Any]


def functions(size: int, start: int = 0) -> list[PipeFunc]:
    return [PipeFunc(plus_one, f"v{i + 1}", renames={"x": f"v{i}"}) for i in range(start, start + size)]


def chain(size: int) -> Work:
    pipeline = Pipeline(functions(size))
    return lambda: pipeline(f"v{size}", v0=0)


def map_items(size: int) -> Work:
    steps = [
        PipeFunc(plus_one, f"v{i + 1}", renames={"x": f"v{i}"}, mapspec=f"v{i}[i] -> v{i + 1}[i]")
        for i in range(3)
    ]
    pipeline, items = Pipeline(steps), list(range(size))

    def work() -> list[Any]:
        found = pipeline.map({"v0": items}, parallel=False, storage="dict", show_progress=False)
        return list(found["v3"].output)

    return work


def nested(size: int) -> Work:
    parts = [NestedPipeFunc(functions(3, 3 * i), output_name=f"v{3 * i + 3}") for i in range(size)]
    pipeline = Pipeline(parts)
    return lambda: pipeline(f"v{3 * size}", v0=0)


def failure(_: int) -> Work:
    def fail(x: int) -> int:
        raise ValueError("boom")

    pipeline = Pipeline([PipeFunc(fail, "y", print_error=False)])

    def work() -> str:
        try:
            pipeline("y", x=1)
        except ValueError as error:
            return str(error.args[0])
        return ""

    return work


def parallel(_: int) -> Work:
    names = [f"v{i + 1}" for i in range(WIDTH)]
    pipeline = Pipeline([PipeFunc(plus_one, name, renames={"x": "v0"}) for name in names])
    return lambda: sum(pipeline.run(names, kwargs={"v0": 0}))


CASES: dict[str, Callable[[int], Work]] = {
    "chain": chain,
    "map": map_items,
    "nested": nested,
    "failure": failure,
    "parallel": parallel,
}
LARGEST = {
    "chain": (300, "builds a chain of 1,000 for more than half a minute, and then it is a RecursionError"),
}
GROWING: dict[str, Any] = {}
_FILES = "keeps the results of a map in the files of a run folder; no steps, no SQLite"
DASHES = {
    "chain_async": "does not await functions of the user",
    "parallel_async": "does not await functions of the user",
    "loop": "its graphs have no cycles",
    "durable": _FILES,
    "durable_parallel": _FILES,
    "state": _FILES,
    "listing": _FILES,
    "chat": _FILES,
}
