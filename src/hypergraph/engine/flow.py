"""Steps that run at the same time, under a kernel that can do so.

A `GroupStep` stands for the steps of one superstep; all of them end before the next begins. A `FlowStep`
stands for a whole fixed course in which each step starts as soon as its own inputs are there; superstep
numbers stay what they are in the course.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

from hypergraph.engine.run import Run, clock
from hypergraph.plan.steps import Step

Perform = Callable[[Run, Any, int], Awaitable[None]]


def overlaps(course: Sequence[tuple[int, Step]]) -> bool:
    """Say whether some step could be waited for while another one runs."""
    widths = Counter(superstep for superstep, _ in course)
    return any(width > 1 for width in widths.values())


class GroupStep:
    """The steps of one superstep, run together."""

    plain = False
    kind = "group"

    def __init__(self, steps: Sequence[Step]) -> None:
        self.steps = steps
        self.name = steps[0].name

    async def run(self, run: Run, superstep: int, perform: Perform) -> None:
        """Perform all steps; each records and lands by itself."""
        await run.scope.kernel.together([partial(perform, run, step, superstep) for step in self.steps])


class FlowStep:
    """A fixed course in which a step waits for its own inputs only."""

    plain = False
    kind = "group"

    def __init__(self, course: Sequence[tuple[int, Step]]) -> None:
        self.superstep_of = {step.index: superstep for superstep, step in course}
        self.steps = {step.index: step for _, step in course}
        self.name = course[0][1].name
        self.successors: dict[int, list[int]] = {index: [] for index in self.steps}
        self.blockers: dict[int, int] = dict.fromkeys(self.steps, 0)
        for index, step in self.steps.items():
            followers = {c for _, consumers in step.writes for c in consumers}.union(step.waiters)
            for follower in followers.intersection(self.steps):
                # a follower at the same depth or above started from what was given: nothing to wait for
                if self.superstep_of[follower] > self.superstep_of[index]:
                    self.successors[index].append(follower)
                    self.blockers[follower] += 1

    async def run(self, run: Run, _superstep: int, perform: Perform) -> None:
        """Perform all steps, each when nothing blocks it any more."""
        blockers = dict(self.blockers)

        async def one(index: int) -> list[int]:
            step, superstep = self.steps[index], self.superstep_of[index]
            if run.failure is not None:
                return []
            if clock() >= run.scope.halt_at:
                run.halt(step, superstep)
                return []
            await perform(run, step, superstep)
            freed = []
            for follower in self.successors[index]:
                blockers[follower] -= 1
                if not blockers[follower]:
                    freed.append(follower)
            return freed

        await run.scope.kernel.flow([index for index, count in blockers.items() if not count], one)
