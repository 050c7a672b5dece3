"""Graphs whose bodies leave a line in a file whenever they are called, and processes that die in one of them.

python crashing.py                  for each request, a line of JSON, a process runs something and is killed
python crashing.py FOLDER RUNNER    run "hold" when told so by a line
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import traceback
from pathlib import Path
from typing import Any

from hypergraph import END, AsyncRunner, FunctionNode, Graph, SyncRunner, interrupt, node, route
from hypergraph.durability import journal
from hypergraph.exceptions import OwnershipLostError, WorkflowLockedError
from support.running import On, OnAsync, OnSync
from support.stored import store_at

LENGTH, LOOPS, ITEMS = 30, 12, 20
_settings: dict[str, Any] = {"folder": None, "place": None, "calls": 0}


def told(folder: Path, place: str | int | None = None) -> None:
    """Say where calls are noted, and in which one to die: by its name, or by its number from now on."""
    _settings.update(folder=folder, place=place, calls=0)


def note(place: str) -> None:
    """Leave a line that outlives the process; die if this is the place."""
    file = os.open(_settings["folder"] / "calls", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(file, f"{place}\n".encode())
    os.close(file)
    _settings["calls"] += 1
    if _settings["place"] in (place, _settings["calls"]):
        os.kill(os.getpid(), signal.SIGKILL)


def opened(folder: Path, runner: str, place: str | int | None = None, **policy: Any) -> On:
    """Return a runner of either kind over the store of a folder, where calls are noted too."""
    told(folder, place)
    made: On = {"sync": OnSync, "async": OnAsync}[runner](checkpointer=store_at(folder / "w.db", **policy))
    return made


def plus_one(x: int) -> int:
    note(f"plus {x}")
    return x + 1


async def plus_one_async(x: int) -> int:
    note(f"plus {x}")
    await asyncio.sleep(0)
    return x + 1


def chain_of(length: int, func: Any = plus_one) -> Graph:
    nodes = [FunctionNode(func, f"n{i}", f"v{i + 1}", rename_inputs={"x": f"v{i}"}) for i in range(length)]
    return Graph(nodes, name="chain")


@node(output_name="n")
def count(n: int) -> int:
    note(f"count {n}")
    return n + 1


@route(targets=["count", END])
def enough(n: int) -> Any:
    note(f"enough {n}")
    return "count" if n < LOOPS else END


@node(output_name="v0")
def before(x: int) -> int:
    note("before")
    return x


@node(output_name="total")
def after(v10: int) -> int:
    note("after")
    return v10 * 2


@node(output_name="y")
def double(v2: int) -> int:
    note(f"double {v2}")
    return 2 * v2


async def _stay(name: str, x: int) -> str:
    """Outlast the siblings in the one that may die: each turn of the loop lets all others go on.

    What is written early is written by then, however long a busy machine takes.
    """
    for _ in range(100 if name == "d" else 1):
        await asyncio.sleep(0)
    store = store_at(_settings["folder"] / "w.db")
    while name == "d" and journal._EARLY == 0 and len(store.steps("w")) < 3:
        await asyncio.sleep(0)
    note(f"sibling {name}")
    return f"{name}{x}"


@node(output_name="a_out")
async def a(x: int) -> str:
    return await _stay("a", x)


@node(output_name="b_out")
async def b(x: int) -> str:
    return await _stay("b", x)


@node(output_name="c_out")
async def c(x: int) -> str:
    return await _stay("c", x)


@node(output_name="d_out")
async def d(x: int) -> str:
    return await _stay("d", x)


@node(output_name="joined")
def join(a_out: str, b_out: str, c_out: str, d_out: str) -> str:
    note("join")
    return a_out + b_out + c_out + d_out


@node(output_name="draft")
def write(topic: str) -> str:
    note("write")
    return f"on {topic}"


@interrupt(output_name="verdict")
def ask(draft: str) -> None:
    note("ask")


@node(output_name="published")
def publish(draft: str, verdict: str) -> str:
    note("publish")
    return f"{draft}: {verdict}"


@node(output_name="held")
def hold(x: int) -> int:
    """Stay in the body until the other end of the pipe has heard of it."""
    note("hold")
    print("running", flush=True)
    sys.stdin.readline()
    return x + 1


GRAPHS: dict[str, tuple[Graph, dict[str, Any]]] = {
    "chain": (chain_of(LENGTH), {"v0": 0}),
    "awaits": (chain_of(LENGTH, plus_one_async), {"v0": 0}),
    "loop": (Graph([count, enough], name="loop"), {"n": 0}),
    "nested": (Graph([before, chain_of(10).as_node(name="inner"), after], name="outer"), {"x": 0}),
    "siblings": (Graph([a, b, c, d, join], name="siblings"), {"x": 1}),
    "review": (Graph([write, ask, publish], name="review"), {"topic": "crashes"}),
    "hold": (Graph([hold], name="hold"), {"x": 1}),
}
MAPPED = Graph([*chain_of(2).nodes.values(), double], name="item")


def started(folder: Path, runner: str, what: str, **options: Any) -> Any:
    """Start or resume a workflow of one of the graphs, here and now; return its result."""
    store = store_at(folder / "w.db")
    made: Any = SyncRunner(checkpointer=store) if runner == "sync" else AsyncRunner(checkpointer=store)
    if what == "map":
        numbers = [100 * item for item in range(ITEMS)]
        call: Any = (made.map, (MAPPED, {"v0": numbers}), {"map_over": "v0"})
    else:
        call = (made.run, GRAPHS[what], {})
    method, arguments, more = call
    more = {"workflow_id": "w", **more, **options}
    if runner == "sync":
        return method(*arguments, **more)

    async def main() -> Any:
        return await method(*arguments, **more)

    return asyncio.run(main())


def at_once(folder: Path, runner: str) -> None:
    """Start when told so; say who owns the workflow if it is somebody else, and if it was taken away."""
    told(folder)
    print("ready", flush=True)
    sys.stdin.readline()
    try:
        print("result", started(folder, runner, "hold")["held"], flush=True)
    except WorkflowLockedError as error:
        print("locked", error.pid, error.host, flush=True)
    except OwnershipLostError:
        print("lost", flush=True)


def die(folder: str, runner: str, what: str, place: str | None, early: float | None) -> None:
    """Run something and be killed: inside the body that notes the place, else once there is a result."""
    told(Path(folder), place)
    if early is not None:
        journal._EARLY = early
    started(Path(folder), runner, what)
    os.kill(os.getpid(), signal.SIGKILL)  # what was acknowledged must not need a farewell


def serve() -> None:
    """Fork a process for each request and tell how it ended; far quicker than to start one from nothing."""
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            try:
                die(**json.loads(line))
            except BaseException:
                traceback.print_exc()
            os._exit(1)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


if __name__ == "__main__":
    at_once(Path(sys.argv[1]), sys.argv[2]) if len(sys.argv) > 1 else serve()
