"""Hamilton: a driver built once from a module of functions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from hamilton import ad_hoc_utils, async_driver, driver
from hamilton.execution.executors import SynchronousLocalTaskExecutor

from benchmarks.measure import WIDTH, on_loop

Work = Callable[[], Any]


def module_of(*functions: str, head: str = "") -> Any:
    return ad_hoc_utils.module_from_source(head + "\n\n".join(functions))


def steps(size: int, kind: str = "def") -> list[str]:
    return [f"{kind} v{i + 1}(v{i}: int) -> int:\n    return v{i} + 1\n" for i in range(size)]


def chain(size: int) -> Work:
    built = driver.Builder().with_modules(module_of(*steps(size))).build()
    return lambda: built.execute([f"v{size}"], inputs={"v0": 0})[f"v{size}"]


def chain_async(size: int) -> Work:
    loop = asyncio.new_event_loop()
    module = module_of(*steps(size, "async def"))
    built = loop.run_until_complete(async_driver.Builder().with_modules(module).build())

    async def run() -> Any:
        return (await built.execute([f"v{size}"], inputs={"v0": 0}))[f"v{size}"]

    return on_loop(loop, run)


def map_items(size: int) -> Work:
    module = module_of(
        "def v0(size: int) -> Parallelizable[int]:\n    yield from range(size)\n",
        *steps(3),
        "def found(v3: Collect[int]) -> list:\n    return list(v3)\n",
        head="from hamilton.htypes import Collect, Parallelizable\n",
    )
    builder = driver.Builder().with_modules(module).enable_dynamic_execution(allow_experimental_mode=True)
    built = builder.with_remote_executor(SynchronousLocalTaskExecutor()).build()
    return lambda: built.execute(["found"], inputs={"size": size})["found"]


def nested(size: int) -> Work:
    inner = "def a(x: int) -> int:\n    return x + 1\n\ndef b(a: int) -> int:\n    return a + 1\n\n"
    head = f"from hamilton.function_modifiers import source, subdag\n{inner}"
    head += "def c(b: int) -> int:\n    return b + 1\n\n"
    outer = [
        f"@subdag(a, b, c, inputs={{'x': source('w{i}')}})\ndef w{i + 1}(c: int) -> int:\n    return c\n"
        for i in range(size)
    ]
    module = module_of(*outer, head=head)
    for name in "abc":
        setattr(module, f"_{name}", vars(module).pop(name))  # they are parts, not nodes of their own
    built = driver.Builder().with_modules(module).build()
    return lambda: built.execute([f"w{size}"], inputs={"w0": 0})[f"w{size}"]


def failure(_: int) -> Work:
    module = module_of('def y(x: int) -> int:\n    raise ValueError("boom")\n')
    built = driver.Builder().with_modules(module).build()

    def work() -> str:
        try:
            built.execute(["y"], inputs={"x": 1})
        except ValueError as error:
            return str(error.args[0])
        return ""

    return work


def siblings(kind: str) -> tuple[Any, list[str]]:
    names = [f"v{i + 1}" for i in range(WIDTH)]
    return module_of(*(f"{kind} {name}(v0: int) -> int:\n    return v0 + 1\n" for name in names)), names


def parallel(_: int) -> Work:
    module, names = siblings("def")
    built = driver.Builder().with_modules(module).build()
    return lambda: sum(built.execute(names, inputs={"v0": 0}).values())


def parallel_async(_: int) -> Work:
    loop, (module, names) = asyncio.new_event_loop(), siblings("async def")
    built = loop.run_until_complete(async_driver.Builder().with_modules(module).build())

    async def run() -> int:
        return sum((await built.execute(names, inputs={"v0": 0})).values())

    return on_loop(loop, run)


CASES: dict[str, Callable[[int], Work]] = {
    "chain": chain,
    "chain_async": chain_async,
    "map": map_items,
    "nested": nested,
    "failure": failure,
    "parallel": parallel,
    "parallel_async": parallel_async,
}
GROWING: dict[str, Any] = {}
_CACHE = "has a cache of results, no record of runs"
DASHES = {
    "loop": "its graphs have no cycles",
    "durable": _CACHE,
    "durable_parallel": _CACHE,
    "state": _CACHE,
    "listing": _CACHE,
    "chat": _CACHE,
}
