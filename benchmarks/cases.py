"""What is measured side by side: for every group of figures its title, its sizes and the right answer.

Nothing but the standard library is imported here: this runs in the environments of other libraries too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchmarks.measure import WIDTH


@dataclass(frozen=True)
class Group:
    """One table of the report: a case in several sizes. `parts` of a call are what a figure is per."""

    name: str
    title: str
    unit: str
    sizes: tuple[int, ...]
    parts: Callable[[int], int]
    answer: Callable[[int], Any]
    quick: tuple[int, ...] = ()
    axis: str = ""  # what N counts, where growth is drawn
    text: str = ""


def _whole(size: int) -> int:
    return 1


def _each(size: int) -> int:
    return size


def _size(size: int) -> int:
    return size


def _unknown(size: int) -> Any:
    return None  # what is found depends on what a library calls a step; a test looks at ours


GROUPS = [
    Group(
        *(
            "chain",
            "Chain of N nodes",
            "per node",
            (10, 30, 100, 300, 1000),
            _each,
            _size,
            (100,),
            "nodes in the chain",
        ),
        text="Each node adds one to what the one before it returned. Nothing is stored or traced.",
    ),
    Group(
        *("chain_async", "Chain of N awaited nodes", "per node", (10, 100, 1000), _each, _size, (100,)),
        text="The same with `async def`, on an event loop that is there already.",
    ),
    Group(
        *("loop", "Loop with a gate, N times round", "per round", (10, 100, 1000), _each, _size, (100,)),
        axis="times round",
        text="A node that counts, and a decision that sends the run back to it.",
    ),
    Group(
        *("map", "Map of N items over three nodes", "per item", (10, 30, 100, 300, 1000), _each),
        answer=lambda size: list(range(3, size + 3)),
        quick=(100,),
        axis="items",
        text="LangGraph's `batch`, one by one, as its threads make it slower; Burr's `MapStates`; pipefunc's "
        "`map` without a pool; Hamilton's `Parallelizable`, locally; pydantic-graph's `map` with a join.",
    ),
    Group(
        *("nested", "Graph of ten graphs", "per inner graph", (10,), _each, lambda size: 3 * size, (10,)),
        text="Ten graphs of three nodes each, one after the other, inside of one graph.",
    ),
    Group(
        *("failure", "A node that fails", "per run", (1,), _whole, lambda size: "boom", (1,)),
        text="One node raises; the time until the caller has caught the exception.",
    ),
    Group(
        *("parallel", "Eight siblings", "per run", (WIDTH,), _whole, lambda size: WIDTH, (WIDTH,)),
        text="Eight nodes that need the same input and nothing of each other.",
    ),
    Group(
        *(
            "parallel_async",
            "Eight awaited siblings",
            "per run",
            (WIDTH,),
            _whole,
            lambda size: WIDTH,
            (WIDTH,),
        ),
        text="The same with `async def`.",
    ),
    Group(
        *("durable", "Stored chain of N nodes", "per node", (10, 100, 300), _each, _size, (100,)),
        axis="nodes in the chain",
        text="Every run is a new workflow in a SQLite file. By hand: our rows and bytes, committed with bare "
        "`sqlite3` once per node. The modes are those that each library has; Burr saves after every step.",
    ),
    Group(
        *(
            "durable_parallel",
            "Eight stored siblings",
            "per run",
            (WIDTH,),
            _whole,
            lambda size: WIDTH,
            (WIDTH,),
        ),
        text="The same eight, written to SQLite.",
    ),
    Group(
        *(
            "state",
            "State of a run with a history of N rounds",
            "per read",
            (100, 300, 1000, 3000),
            _whole,
            _unknown,
        ),
        quick=(300,),
        axis="rounds in the history",
        text="What a stored loop had found at its end, and in its middle.",
    ),
    Group(
        *("listing", "List 50 of N workflows", "per list", (100, 300, 1000, 3000), _whole, lambda size: 50),
        quick=(300,),
        axis="workflows in the store",
        text='What is on record of 50 workflows, and as "ids" their ids alone. Of hypergraph: the newest, '
        "with status, times, number of steps, tags and the like, but no values. Of LangGraph: the newest 50 "
        "checkpoints with their values, as its saver has no list of threads. Of Burr: its list has the ids "
        "of all applications, of which 50 are taken; status, time and state of each are loaded one by one.",
    ),
]
TURNS = (10, 30, 100, 300, 1000)
QUICK_TURNS = (10, 100)
BY_NAME = {group.name: group for group in GROUPS}


def group_of(case: str) -> str:
    """Return the group of a case: what stands before its variant."""
    return case.partition("/")[0]
