"""The one coroutine that executes a run, for sync and async alike.

Plain steps are called right here; whatever needs more (listeners, retries, caches, limits, nested graphs,
steps that run together) goes through `perform`. Only kernels wait.
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterator
from functools import partial
from types import CoroutineType
from typing import Any

from hypergraph.engine.course import course_of, side_flow_of
from hypergraph.engine.endings import Detail
from hypergraph.engine.flow import SideFlow
from hypergraph.engine.perform import perform, refuse_coroutine
from hypergraph.engine.ports import Keeper, Observer
from hypergraph.engine.run import Run
from hypergraph.engine.scope import clock
from hypergraph.exceptions import CheckpointError, annotate
from hypergraph.records import RunStatus

_PATIENCE = 0.05  # seconds between looks at a workflow that somebody else is at work on


def execute(run: Run) -> Coroutine[Any, Any, None]:
    """Execute a run to its end, whichever that is; only interrupts of the program itself are raised."""
    scope = run.scope
    if scope.keeper is not None:
        return _kept(run, scope.keeper)
    if scope.kernel.concurrent and not run.fixed:
        run.side = side_flow_of(run)
    if scope.observer is not None:
        return _observed(run, scope.observer, _course(run))
    return _advance(run) if run.side is None else _advance_beside(run, run.side)


async def _kept(run: Run, keeper: Keeper) -> None:
    """Execute a run that is written down; one that has nothing left to do ends as it ended before."""
    scope = run.scope
    while (left := keeper.open(run)) is None:
        await scope.kernel.sleep(_PATIENCE, scope)
        if clock() >= scope.halt_at:
            raise scope.halt_error(run.path_of(""), was_executing=False)
    if left and scope.kernel.concurrent and not run.fixed and run.past is None:
        run.side = side_flow_of(run)
    course = _closing(run, keeper) if left else _nothing()
    await (course if scope.observer is None else _observed(run, scope.observer, course))


async def _closing(run: Run, keeper: Keeper) -> None:
    """Advance a run, and write down how it ended before anybody hears of it."""
    try:
        await _course(run)
    except BaseException as error:
        try:
            keeper.close(run)
        except CheckpointError as trouble:
            annotate(error, f"the end of the run could not be written down either: {trouble}")
        raise
    is_slow = run.scope.kernel.concurrent and keeper.is_slow
    saved = await run.scope.kernel.settle(partial(keeper.close, run)) if is_slow else keeper.close(run)
    if saved and run.scope.observer is not None:
        await run.scope.observer.checkpoint_saved(run, saved)


async def _nothing() -> None:
    """Stand for the course of a run that was over before it began."""


def _course(run: Run) -> Coroutine[Any, Any, None]:
    return _advance(run) if run.side is None else _advance_beside(run, run.side)


async def _observed(run: Run, observer: Observer, course: Coroutine[Any, Any, None]) -> None:
    try:
        await observer.run_started(run)
        if run.past is not None:
            await observer.replayed(run)
        await course
    except BaseException:
        course.close()
        run.status = RunStatus.STOPPED
        raise
    finally:
        await observer.run_ended(run)


async def _advance_beside(run: Run, side: SideFlow) -> None:
    """Advance a run while the part of it that needs no schedule goes on at its own pace."""
    try:
        await run.scope.kernel.beside(_advance(run), side.run(perform))
    except BaseException:
        run.status = RunStatus.STOPPED
        raise
    finally:
        run.stopped_at = clock()
        run.close()


async def _advance(run: Run) -> None:  # noqa: PLR0912, PLR0915 - the hot loop: calls would cost too much
    scope, values, record = run.scope, run.values, run.records.extend
    land, journal = None if run.fixed else run.landed.append, run.journal
    step, course, quick = None, iter(course_of(run)), scope.quick
    run.started = now = clock()
    breath = now + scope.kernel.stride
    try:
        for superstep, step in course:
            if now >= breath:
                await scope.kernel.breathe()
                breath = clock() + scope.kernel.stride
            if now >= scope.halt_at:
                return run.halt(step, superstep)
            if not (quick and step.plain):
                await perform(run, step, superstep)
                now = clock()
                if run.failure is not None:
                    return await _finish_siblings(run, course, superstep)
                continue
            if journal is not None:
                journal.before(step, superstep)
                now = clock()
            try:
                if step.arg is not None:
                    value = step.func(values[step.arg])
                elif step.getter is not None:
                    value = step.func(*step.getter(values))
                else:
                    value = step.call(values, run, superstep)
                if step.is_async:
                    value = await value
                elif type(value) is CoroutineType:
                    refuse_coroutine(step, value)
                if step.resolve is not None:
                    value = step.resolve(value)
            except BaseException as error:
                run.fail(step, superstep, error, clock() - now, Detail())
                return await _finish_siblings(run, course, superstep)
            end = clock()
            if journal is not None:
                journal.done(step, superstep, value, end - now)
            record((superstep, step, end - now, value if step.is_gate else None))
            now = end
            if land is not None:
                land((step, value))
            elif step.output is not None:
                values[step.output] = value
            elif step.outputs:
                values.update(zip(step.outputs, value, strict=True))
        if now >= scope.halt_at and run.records:
            run.overrun()
    except BaseException:
        run.status, now = RunStatus.STOPPED, clock()
        raise
    finally:
        run.stopped_at = now if run.failure is None else clock()  # failing takes time, and so do siblings
        if run.failure is not None or land is not None:
            run.close()


async def _finish_siblings(run: Run, course: Iterator[tuple[int, Any]], superstep: int) -> None:
    """After a failure: the other steps of the same superstep still run, nothing else does."""
    for later, step in course:
        if later != superstep or clock() >= run.scope.halt_at:
            return
        await perform(run, step, later)
