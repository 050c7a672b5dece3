"""The order of steps in a run: a list where it is fixed, a generator where it unfolds.

A plan without gates, cycles, interrupts or contested outputs has a fixed course for each set of given
names. It is found by rehearsing the very same unfolding once, with placeholders for values. The steps of an
unfolding run that nothing of that kind concerns have a fixed course too, and can go on beside the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from hypergraph.engine.flow import DeliveryStep, Flow, GroupStep, SideFlow
from hypergraph.engine.run import Run
from hypergraph.engine.schedule import NEVER, Unfolding
from hypergraph.engine.taking_up import restore
from hypergraph.plan.admission import Admission
from hypergraph.plan.steps import Step

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
