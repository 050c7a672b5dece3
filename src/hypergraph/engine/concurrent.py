"""Order of steps, and steps that run at the same time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from hypergraph.engine.admission import Admission
from hypergraph.engine.plan import Step
from hypergraph.engine.restore import restore
from hypergraph.engine.run import Run, clock
from hypergraph.engine.scheduler import NEVER, Unfolding

Course = list[tuple[int, Step]]


class _Rehearsal:
    """A run in which every step succeeds at once."""

    failure = pause = journal = None

    def __init__(self, admission: Admission) -> None:
        self.admission = admission
        self.values: dict[str, Any] = dict.fromkeys((*admission.base, *admission.given))
        self.versions = dict.fromkeys(admission.given, 1)
        self.landed: list[tuple[Step, Any]] = []
        self.answers: dict[str, Any] = {}

    def exhaust(self, step: Step, superstep: int) -> None:
        """Never happens: a rehearsal knows no limit."""

    def course(self) -> Course:
        course: Course = []
        for superstep, step in Unfolding(self).course():
            course.append((superstep, step))
            self.landed.append((step, None if step.output is not None else (None,) * len(step.outputs)))
        return course


def course_of(run: Run) -> Iterable[tuple[int, Any]]:
    """Return the steps of a run, each with its superstep, in the order in which they are to start."""
    admission, concurrent = run.admission, run.scope.kernel.concurrent
    if not run.fixed:
        return _unfold(run)
    if admission.course is None:
        admission.course = _Rehearsal(admission).course()
    if concurrent and run.plan.could_overlap(run.scope.kernel.overlaps):
        if admission.flow is None:
            admission.flow = Flow(admission.course) if admission.course else False
        if admission.flow and admission.flow.can_overlap():
            return [(0, admission.flow)]
    return admission.course  # type: ignore[no-any-return]  # put there above


def side_flow_of(run: Run) -> SideFlow | None:
    """Return the part of an unfolding run that can go on beside the rest, None if there is none worth it."""
    kernel, plan, admission = run.scope.kernel, run.plan, run.admission
    if run.fixed or not kernel.concurrent or not plan.could_overlap(kernel.overlaps):
        return None
    if admission.flow is None:
        free = admission.scope & plan.unconcerned()
        course = _Rehearsal(replace(admission, scope=free)).course() if free else []
        admission.flow = Flow(course) if course else False
    return SideFlow(run, admission.flow) if admission.flow else None


def _unfold(run: Run) -> Iterator[tuple[int, Any]]:
    side, scope = run.side, run.scope
    limit = scope.max_iterations if run.plan.has_cycles else NEVER
    together = GroupStep if scope.kernel.concurrent else None
    if side is None:
        run.unfolding = Unfolding(run)
        if run.past is not None:
            restore(run.unfolding, run.past)
        return run.unfolding.course(limit, together)  # type: ignore[no-any-return]  # an Unfolding since one line
    run.unfolding = Unfolding(run, side.course.superstep_of)
    return run.unfolding.course(limit, together, partial(DeliveryStep, side))  # type: ignore[no-any-return]  # as above


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
