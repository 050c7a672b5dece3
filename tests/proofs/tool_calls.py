"""A node that makes twenty calls with `ctx.step`, killed at each in turn, and started again after each kill.

Every call leaves a line in a file. Before each start the store says which calls are on record: none of these
may be made again, whether the process was killed in a call, right after its commit, or after `step` returned.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from support.processes import Elsewhere, started
from support.stored import store_at

from hypergraph import AsyncRunner, Graph, NodeContext, SyncRunner, node
from hypergraph.checkpointers import CheckpointPolicy, fault_points
from proofs import sample
from proofs.kills import in_two
from proofs.outcome import Outcome, scaled

NAME = "calls inside of a node, killed at each"
CALLS = 20
MOMENTS = ("in the call", "after its commit", "after it returned")


class Manner(NamedTuple):
    """How the program runs, and when it is killed."""

    runner: str
    durability: Any
    moment: str


MANNERS = [
    Manner(runner, durability, moment)
    for runner, durability in (("sync", "sync"), ("async", "sync"), ("sync", "async"))
    for moment in MOMENTS
    if durability == "sync" or moment == "in the call"  # a writer in the background commits several at once
]


def program(folder: Path, manner: Manner, victim: int | None) -> int:
    """Run the node, or resume it, and die at the call of this number."""
    done = [0]

    def die(moment: str, number: int) -> None:
        if victim == number and manner.moment == moment:
            os.kill(os.getpid(), signal.SIGKILL)

    def tool(number: int) -> int:
        file = os.open(folder / "calls", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(file, f"{number}\n".encode())
        os.close(file)
        done[0] = number
        die("in the call", number)
        return number

    async def await_tool(number: int) -> int:
        return tool(number)

    def hook(name: str) -> None:
        if name == "write.after_commit" and done[0]:
            die("after its commit", done[0])

    @node(output_name="total")
    def agent(x: int, ctx: NodeContext) -> int:
        total = 0
        for number in range(1, CALLS + 1):
            total += ctx.step(f"call {number}", tool, number)
            die("after it returned", number)
        return total

    @node(output_name="total")
    async def agent_async(x: int, ctx: NodeContext) -> int:
        total = 0
        for number in range(1, CALLS + 1):
            total += await ctx.step(f"call {number}", await_tool, number)
            die("after it returned", number)
        return total

    fault_points.hook = hook
    with store_at(folder / "w.db", policy=CheckpointPolicy(durability=manner.durability)) as store:
        if manner.runner == "sync":
            result = SyncRunner(checkpointer=store).run(Graph([agent]), x=1, workflow_id="w")
            return int(result["total"])
        graph = Graph([agent_async])
        found = asyncio.run(AsyncRunner(checkpointer=store).run(graph, x=1, workflow_id="w"))
        return int(found["total"])


def recorded(folder: Path) -> set[int]:
    """Return the numbers of the calls that are on record."""
    with store_at(folder / "w.db") as store:
        if store.backend.read_workflow("w") is None:
            return set()
        return {int(step.args[0]) for step in store.inner_steps("w") if step.status == "completed"}


def calls(folder: Path) -> list[int]:
    """Return the numbers of the calls that were made, in order."""
    file = folder / "calls"
    return [int(line) for line in file.read_text().split()] if file.exists() else []


def _case(elsewhere: Elsewhere, manner: Manner, victims: Sequence[int]) -> str | None:
    """Kill the program at one call after another; return what is wrong."""
    with sample.scratch() as folder:
        for victim in (*victims, None):
            known, before = elsewhere(recorded, folder), len(calls(folder))
            is_dead, found = elsewhere.ends(program, folder, manner, victim)
            again = known.intersection(calls(folder)[before:])
            if again:
                return f"{manner}, killed at {victim}: on record, and called again: {sorted(again)}"
            if is_dead is not (victim is not None):
                return f"{manner}, killed at {victim}: {found!r}"
        if found != CALLS * (CALLS + 1) // 2:
            return f"{manner}: the result is {found}"
    return None


def _some_of(part: int, parts: int, scale: float) -> Outcome:
    outcome = Outcome(NAME)
    with started() as elsewhere:
        victims = range(1, CALLS + 1) if scale >= 1 else range(1, CALLS + 1, max(1, round(0.5 / scale)))
        for _ in range(scaled(3, scale)):  # three times over
            for manner in MANNERS[part::parts]:
                outcome.count(_case(elsewhere, manner, victims))
    return outcome


def prove(scale: float = 1.0, seed: int = 0) -> Outcome:
    """Kill the program at every call, in every manner, three times over."""
    return in_two(Outcome(NAME), partial(_some_of, scale=scale))
