"""The one coroutine that executes a run, for sync and async alike.

Plain steps are called right here; whatever needs more (listeners, retries, caches, limits, nested graphs,
steps that run together) goes through `perform`. Only kernels wait.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import CoroutineType
from typing import Any

from hypergraph.engine.course import course_of
from hypergraph.engine.perform import perform, refuse_coroutine
from hypergraph.engine.run import Detail, Run, clock
from hypergraph.plan.steps import Step
from hypergraph.records import RunStatus


async def execute(run: Run) -> Run:
    """Execute a run to its end, whichever that is; only interrupts of the program itself are raised."""
    observer = run.scope.observer
    if observer is not None:
        await observer.run_started(run)
    run.started = clock()
    try:
        await _advance(run)
    except BaseException:
        run.status = RunStatus.STOPPED
        raise
    finally:
        run.stopped_at = clock()
        run.close()
        if observer is not None:
            await observer.run_ended(run)
    return run


async def _advance(run: Run) -> None:
    scope, values, landed, record = run.scope, run.values, run.landed, run.records.extend
    quick, fixed = scope.quick, run.plan.fixed
    course = iter(course_of(run))
    now = run.started
    step: Step | None = None
    for superstep, step in course:
        if now >= scope.halt_at:
            run.halt(step, superstep)
            return
        if not (quick and step.plain):
            await perform(run, step, superstep)
            now = clock()
            if run.failure is not None:
                return await _finish_siblings(run, course, superstep)
            continue
        try:
            if step.arg is not None:
                value = step.func(values[step.arg])
            elif step.getter is not None:
                value = step.func(*step.getter(values))
            else:
                value = step.call(values, run, superstep)  # type: ignore[misc]  # one of the three is set
            if step.is_async:
                value = await value
            elif value.__class__ is CoroutineType:
                refuse_coroutine(step, value)
            if step.resolve is not None:
                value = step.resolve(value)
        except BaseException as error:
            run.fail(step, superstep, error, clock() - now, Detail())
            return await _finish_siblings(run, course, superstep)
        end = clock()
        record((superstep, step, end - now, value if step.is_gate else None))
        now = end
        if not fixed:
            landed.append((step, value))
        elif step.output is not None:
            values[step.output] = value
        elif step.outputs:
            values.update(zip(step.outputs, value, strict=True))
    if now >= scope.halt_at and scope.stop_request is None and step is not None and not run.is_over:
        run.halt(step, superstep, was_executing=True)  # the deadline passed during the last node


async def _finish_siblings(run: Run, course: Iterator[tuple[int, Any]], superstep: int) -> None:
    """After a failure: the other steps of the same superstep still run, nothing else does."""
    for later, step in course:
        if later != superstep or clock() >= run.scope.halt_at:
            return
        await perform(run, step, later)
