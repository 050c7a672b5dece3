"""The order of steps in a run: a list where it is fixed, a generator where it unfolds.

A plan without gates, cycles, interrupts or contested outputs has a fixed course for each set of given
names. It is found by rehearsing the very same unfolding once, with placeholders for values.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from hypergraph.engine.flow import FlowStep, GroupStep, overlaps
from hypergraph.engine.run import Run
from hypergraph.engine.schedule import Unfolding
from hypergraph.plan.admission import Admission
from hypergraph.plan.steps import Step

Course = list[tuple[int, Step]]


class _Rehearsal:
    """A run in which every step succeeds at once."""

    is_over = False

    def __init__(self, admission: Admission) -> None:
        self.admission = admission
        self.values: dict[str, Any] = dict.fromkeys((*admission.base, *admission.given))
        self.versions = dict.fromkeys(admission.given, 1)
        self.landed: list[tuple[Step, Any]] = []
        self.answers: dict[str, Any] = {}

    def course(self) -> Course:
        course: Course = []
        unfolding = Unfolding(self)
        for batch in unfolding.batches():
            for index in batch:
                step = unfolding.steps[index]
                course.append((unfolding.superstep, step))
                self.landed.append((step, None if step.output is not None else (None,) * len(step.outputs)))
        return course


def course_of(run: Run) -> Iterable[tuple[int, Any]]:
    """Return the steps of a run, each with its superstep, in the order in which they are to start."""
    admission = run.admission
    if not run.plan.fixed:
        return _unfold(run)
    if admission.course is None:
        course = _Rehearsal(admission).course()
        admission.course = (course, overlaps(course))
    course, can_overlap = admission.course
    if can_overlap and run.scope.kernel.concurrent:
        return [(0, FlowStep(course))]
    return course  # type: ignore[no-any-return]  # put there three lines above


def _unfold(run: Run) -> Iterator[tuple[int, Any]]:
    unfolding = run.unfolding = Unfolding(run)
    steps = unfolding.steps
    together = run.scope.kernel.concurrent
    limit = run.scope.max_iterations if run.plan.has_cycles else None
    for batch in unfolding.batches():
        superstep = unfolding.superstep
        if limit is not None and superstep >= limit:
            run.exhaust(steps[batch[0]], superstep)
            return
        if len(batch) == 1:
            yield superstep, steps[batch[0]]
        elif together:
            yield superstep, GroupStep([steps[index] for index in batch])
        else:
            for index in batch:
                yield superstep, steps[index]
