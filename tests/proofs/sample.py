"""One program with everything in it that a store has to keep, to be killed anywhere and started again.

A graph with siblings, a loop with a gate, a nested graph, a map, a growing list, an artifact, a call that
must not be repeated, one that is tried again at once and one that fails until somebody mends it; then a
workflow of which only the end is kept, one that is deleted, and the removal of what nobody needs any more.
Started again after any crash, the program gives what it gives without one.
"""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from typing import Any, NamedTuple

from support import crashing
from support.running import On, OnAsync, OnSync
from support.stored import store_at

from hypergraph import END, Graph, NodeContext, RetryPolicy, node, route
from hypergraph.checkpointers import CheckpointPolicy
from hypergraph.checkpointers.sql.store import SqlCheckpointer
from hypergraph.durability import journal

INPUTS: dict[str, Any] = {"size": 2, "messages": []}
ONCE = "charge"  # the node whose effect must not happen twice
BROKEN = "check"  # the node that fails until it is mended
_ROUNDS = 3
_place: dict[str, Path] = {}
heard: list[Callable[[str], None]] = []  # who else is told of every call


class Manner(NamedTuple):
    """How the program runs: on which runner, when its steps are written, how soon without their siblings.

    A brief one ends after the first graph.
    """

    runner: str = "sync"
    mode: Any = "sync"
    early: float = 60.0
    brief: bool = False


def enter(ctx: NodeContext) -> None:
    """Leave a line that outlives the process: whose call it is, and where in the history."""
    place = f"{ctx.workflow_id}|{ctx.superstep}|{ctx.node_name.rpartition('/')[2]}"
    line = f"{place}|{ctx.attempt}|{ctx.idempotency_key}|{os.getpid()}"
    for listener in heard:
        listener(line)
    crashing.note(line)


def calls(folder: Path) -> list[str]:
    """Return the lines of all calls so far."""
    file = folder / "calls"
    return file.read_text().splitlines() if file.exists() else []


def remember(folder: Path, lines: list[str]) -> None:
    """Leave the lines of earlier calls in a folder; what was called after it had failed is mended there."""
    (folder / "calls").write_text("".join(f"{line}\n" for line in lines))
    if sum(f"|{BROKEN}|" in line for line in lines) > 1:
        (folder / "mended").touch()


def places(lines: list[str]) -> set[tuple[str, int, str]]:
    """Return the places in the history that were called: workflow, superstep and node."""
    split = (line.split("|") for line in lines)
    return {(owner, int(superstep), name) for owner, superstep, name, *_ in split}


def visits(lines: list[str]) -> Counter[str]:
    """Return how often each visit of a node was called, by its key; attempts of one call count as one."""
    split = (line.split("|") for line in lines)
    return Counter(key for _, _, _, attempt, key, _ in split if attempt == "1")


def of_process(lines: list[str], pid: str) -> list[str]:
    """Return the lines that a process has left."""
    return [line for line in lines if line.split("|")[-1] == pid]


def receipt_of(right: int) -> str:
    return f"receipt for {right}"


def what_happened(_node: str, _key: str, inputs: dict[str, Any]) -> Any:
    """Find out whether the call that must not be repeated has had its effect."""
    done = any(line.split("|")[2] == ONCE for line in calls(_place["folder"]))
    return receipt_of(inputs["right"]) if done else NotImplemented


@node(output_name="x")
def gather(size: int, ctx: NodeContext) -> list[int]:
    enter(ctx)
    return [10 * (item + 1) for item in range(size)]


@node(output_name="left")
def go_left(x: list[int], ctx: NodeContext) -> int:
    enter(ctx)
    return sum(x)


@node(output_name="right", retry=RetryPolicy(max_attempts=2, initial_delay=0.0))
def go_right(x: list[int], ctx: NodeContext) -> int:
    enter(ctx)
    if ctx.attempt == 1:
        raise ConnectionError("no line")
    return max(x)


@node(output_name="picture", artifact=True)
def paint(left: int, ctx: NodeContext) -> str:
    enter(ctx)
    return f"{left} " * 2000


@node(output_name="receipt", repeatable=False, on_ambiguous=what_happened)
def charge(right: int, ctx: NodeContext) -> str:
    enter(ctx)
    return receipt_of(right)


@node(output_name="checked")
def check(story: str, ctx: NodeContext) -> bool:
    enter(ctx)
    if not (_place["folder"] / "mended").exists():
        raise ValueError("broken")
    return bool(story)


@node(output_name="half")
def halve(right: int, ctx: NodeContext) -> int:
    enter(ctx)
    return right // 2


@node(output_name="quarter")
def halve_again(half: int, ctx: NodeContext) -> int:
    enter(ctx)
    return half // 2


@node(output_name="y")
def square(x: int, ctx: NodeContext) -> int:
    enter(ctx)
    return x * x


@node(output_name="z")
def plus_one(y: int, ctx: NodeContext) -> int:
    enter(ctx)
    return y + 1


@node(output_name="messages")
def grow(messages: list[str], ctx: NodeContext) -> list[str]:
    enter(ctx)
    return [*messages, f"message {len(messages)} " * 20]


@route(targets=["grow", "finish"])
def enough(messages: list[str]) -> str:
    return "grow" if len(messages) < _ROUNDS else "finish"


@route(targets=["grow", END])
def enough_alone(messages: list[str]) -> Any:
    return "grow" if len(messages) < _ROUNDS else END


@node(output_name="story")
def finish(  # noqa: PLR0917 - everything comes together here
    picture: str, receipt: str, quarter: int, z: list[int], messages: list[str], ctx: NodeContext
) -> str:
    enter(ctx)
    return f"{len(picture)} {receipt} {quarter} {z} {len(messages)}"


_INNER = Graph([halve, halve_again], name="halves").as_node()
_MAPPED = Graph([square, plus_one], name="squares").as_node().map_over("x")
_NODES = [gather, go_left, go_right, paint, charge, _INNER, _MAPPED, grow, enough, finish, check]
GRAPH = Graph(_NODES, name="sample")
INSIDE = [halve, halve_again, square, plus_one]  # the nodes of the graphs in it
CHAT = Graph([grow, enough_alone], name="chat")
SCRAP = Graph([gather, go_left, paint], name="scrap")


@contextmanager
def scratch() -> Iterator[Path]:
    """Make a folder that goes afterwards, in memory where there is such a place: nothing outlives it."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as folder:
        yield Path(folder)


def store_in(folder: Path, **options: Any) -> SqlCheckpointer:
    """Return the store of a folder; it has a folder of its own, apart from the lines of the calls."""
    (folder / "store").mkdir(exist_ok=True)
    return store_at(folder / "store" / "w.db", **options)


def run(folder: Path, manner: Manner) -> dict[str, Any]:
    """Run the program from its beginning, or from wherever it was killed; return what it gives."""
    crashing.told(folder)
    _place["folder"] = folder
    journal._EARLY = manner.early
    store = store_in(folder, durability=manner.mode)
    given = _work(folder, _on(manner, store))
    if not manner.brief:
        given["chat"] = _tidy_up(manner, store)
    store.close()
    return given


def _on(manner: Manner, store: SqlCheckpointer) -> On:
    return (OnSync if manner.runner == "sync" else OnAsync)(checkpointer=store)


def _work(folder: Path, on: On) -> dict[str, Any]:
    """Run the graph; mend what is broken, and run it again."""
    try:
        result = on.run(GRAPH, INPUTS, workflow_id="w")
    except ValueError as error:
        if str(error) != "broken":
            raise
        (folder / "mended").touch()
        result = on.run(GRAPH, INPUTS, workflow_id="w")
    return {"story": result["story"], "checked": result["checked"]}


def _tidy_up(manner: Manner, store: SqlCheckpointer) -> Any:
    """Run a graph of which little is kept, and one of which nothing is; return what the former gives."""
    brief = copy(store)
    brief.policy = CheckpointPolicy(manner.mode, retention="windowed", window=1)
    chat = _on(manner, brief).run(CHAT, {"messages": []}, workflow_id="chat")
    _on(manner, store).run(SCRAP, {"size": 1}, workflow_id="scrap")
    store.backend.delete(["scrap"])
    store.gc(older_than=0.0)
    return chat["messages"]
