"""Steps that run at the same time, under a kernel that can do so.

A `GroupStep` stands for the steps of one superstep; all of them end before the next begins. A `Flow` is a
fixed course in which each step starts as soon as its own inputs are there; superstep numbers stay what they
are in the course. A flow can be a whole run, or the part of an unfolding run that no gate, cycle or second
producer has a say in: then it goes on beside the unfolding, which waits only for the steps it takes from.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

from hypergraph.engine.run import Run
from hypergraph.engine.scope import clock
from hypergraph.plan.steps import Step

Perform = Callable[[Run, Any, int], Awaitable[None]]


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


class Flow:
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

    @property
    def depth(self) -> int:
        """How many supersteps the course has."""
        return max(self.superstep_of.values()) + 1

    def can_overlap(self) -> bool:
        """Say whether two steps could be under way at the same time."""
        return any(width > 1 for width in Counter(self.superstep_of.values()).values())

    async def run(self, run: Run, _superstep: int, perform: Perform) -> None:
        """Perform all steps, each when nothing blocks it any more."""
        blockers = dict(self.blockers)

        async def one(index: int) -> list[int]:
            step, superstep = self.steps[index], self.superstep_of[index]
            if run.failure is not None and superstep > run.failure.superstep:
                return []  # siblings of the step that failed still run
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


class SideFlow:
    """A flow beside the unfolding of the same run."""

    def __init__(self, run: Run, flow: Flow) -> None:
        self.owner = run
        self.course = flow
        self.results: dict[int, Any] = {}
        self.signals: dict[int, Any] = {}
        self.over = False

    def land(self, step: Step, value: Any) -> None:
        """Take over what a step of the flow produced: for the flow at once, for the unfolding when due."""
        results = (value,) if step.output is not None else value or ()
        self.owner.values.update(zip(step.outputs, results, strict=False))
        self.owner.versions.update(dict.fromkeys(step.outputs, 1))  # nobody else writes them
        self.results[step.index] = value
        if step.index in self.signals:
            self.signals[step.index].set()

    async def run(self, perform: Perform) -> None:
        """Run the flow to its end."""
        try:
            await self.course.run(self.owner, 0, perform)
        finally:
            self.over = True
            for signal in self.signals.values():
                signal.set()  # after a failure or a stop nothing more will come

    async def deliver(self, indexes: list[int]) -> None:
        """Wait for these steps and land them in the unfolding."""
        for index in indexes:
            if index not in self.results and not self.over:
                self.signals[index] = self.owner.scope.kernel.signal()
                await self.signals[index].wait()
            if index in self.results:
                self.owner.landed.append((self.course.steps[index], self.results[index]))


class DeliveryStep:
    """A wait for steps of the flow, because the unfolding cannot go on without them."""

    plain = False
    kind = "group"

    def __init__(self, side: SideFlow, indexes: list[int]) -> None:
        self.side = side
        self.indexes = indexes
        self.name = side.course.steps[indexes[0]].name

    async def run(self, run: Run, _superstep: int, _perform: Perform) -> None:
        """Wait until they have landed."""
        await self.side.deliver(self.indexes)
