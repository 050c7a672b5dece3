"""Execution of a run and of its steps."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Iterator, Mapping
from datetime import datetime
from functools import partial
from types import CoroutineType
from typing import TYPE_CHECKING, Any

from hypergraph.clock import now, skips
from hypergraph.display import preview
from hypergraph.engine.concurrent import course_of
from hypergraph.engine.kernel import (
    AWAY,
    HALTED,
    NOT_KNOWN,
    Carried,
    Expired,
    PauseExecution,
    SyncKernel,
    is_cancellation,
    original,
)
from hypergraph.engine.plan import NO_ANSWER, Step, inputs_of, refuse_replace
from hypergraph.engine.run import CallWatch, Run, StepOutcome, clock, idle_time, monotonic
from hypergraph.engine.scheduler import ASKED, differs
from hypergraph.exceptions import (
    CancellationError,
    CheckpointError,
    InvalidAnswerError,
    NodeTimeoutError,
    NotPicklableError,
    QuestionExpiredError,
    TransactionError,
    WorkerLostError,
    annotate,
    safe_text,
    warn_caller,
)
from hypergraph.nodes.context import NodeContext
from hypergraph.nodes.gate import END
from hypergraph.nodes.interrupt import InterruptNode
from hypergraph.nodes.options import Replace, RetryPolicy
from hypergraph.nodes.receive import ReceiveNode
from hypergraph.nodes.signature import MISSING
from hypergraph.nodes.timer import TimerNode
from hypergraph.records import PauseInfo, RunStatus
from hypergraph.scheduling import Standing, bits

if TYPE_CHECKING:
    from hypergraph.durability.recorder import WorkflowRecorder
    from hypergraph.engine.nested import MapRun
    from hypergraph.runners.observer import EventObserver

_UNSHARED = 2  # references to an object that only a variable and the question about them hold
# Since 3.14 the loads of a variable may not count, and elsewhere nothing may: then nothing is used twice.
_counts = sys.version_info < (3, 14) and hasattr(sys, "getrefcount")
_references: Callable[[Any], int] = sys.getrefcount if _counts else lambda _: _UNSHARED + 1
_TICK = 1.0  # seconds between looks at the clock while a timer waits: it may jump
_PATIENCE = 0.05  # seconds between checks of a workflow that another process is running


def execute(run: Run) -> Coroutine[Any, Any, None]:
    """Execute a run to its end; the run records failures. Raises KeyboardInterrupt and cancellation."""
    context = run.context
    if context.recorder is not None:
        return _kept(run, context.recorder)
    if context.observer is not None:
        return _observed(run, context.observer, _advance(run))
    return _advance(run)


async def _kept(run: Run, recorder: WorkflowRecorder) -> None:
    """Execute a recorded run; one that has nothing left to do gets its stored result."""
    context = run.context
    while (left := await _opened(run, recorder)) is None:
        await context.kernel.sleep(_PATIENCE, context)
        if clock() >= context.halt_at:
            raise context.halt_error(run.path_of(""), was_executing=False)
    if context.begun is not None:
        context.begun()
    course = _closing(run, recorder) if left else _nothing()
    if context.observer is None:
        return await course
    try:
        await _observed(run, context.observer, course)
    except BaseException as error:
        _note_reason(run, error)
        recorder.close(run)  # a processor may raise before the run has begun
        raise
    return None


async def _opened(run: Run, recorder: WorkflowRecorder) -> bool | None:
    """Open the history of a run; one that is cancelled meanwhile gives it back."""
    try:
        found: bool | None = await stored(run, partial(recorder.open, run))
    except BaseException as error:
        if run.journal is not None:
            run.status = RunStatus.STOPPED
            _note_reason(run, error)
            recorder.close(run)
        raise
    return found


async def _closing(run: Run, recorder: WorkflowRecorder) -> None:
    """Advance a run, and record its end before it is reported."""
    try:
        await _advance(run)
    except BaseException as error:
        _note_reason(run, error)
        try:
            if run.context.kernel.is_cancelled(error):
                await stored(run, partial(recorder.close, run))
            else:
                recorder.close(run)
        except CheckpointError as trouble:
            annotate(error, f"recording the end of the run failed too: {trouble}")
        raise
    saved = await stored(run, partial(recorder.close, run))
    if saved and run.context.observer is not None:
        await run.context.observer.checkpoint_saved(run, saved)


def _note_reason(run: Run, error: BaseException) -> None:
    """Note why the outermost run ends, unless a step of it has failed."""
    if run.failure is None and run.parent is None and run.map_run is None:
        run.reason = cut_off_by(error)


def cut_off_by(error: BaseException) -> str:
    """Return why a run was stopped that has not failed: a server that starts again looks for such runs."""
    if is_cancellation(error):
        return "CancelledError: the task of the run was cancelled"
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


async def stored(run: Any, call: Callable[[], Any]) -> Any:
    """Make a call that writes; one that would hold up the event loop is made in a thread."""
    kernel, recorder = run.context.kernel, run.context.recorder
    if kernel.concurrent and recorder is not None and recorder.is_slow:
        return await kernel.settle(call)
    return call()


async def _nothing() -> None:
    """Do nothing: the run was restored as a whole."""


async def _observed(run: Run, observer: EventObserver, course: Coroutine[Any, Any, None]) -> None:
    try:
        await observer.run_started(run)
        if run.resumed is not None:
            await observer.replayed(run)
        await course
    except BaseException:
        course.close()
        run.status = RunStatus.STOPPED
        raise
    finally:
        await observer.run_ended(run)


async def _advance(run: Run) -> None:  # noqa: PLR0912, PLR0915 - the hot loop: calls would cost too much
    context, values, record = run.context, run.values, run.records.extend
    watched, journal = frozenset() if run.fixed else run.watched, run.journal
    step, course, quick, extra, spare = None, iter(course_of(run)), context.quick, None, None
    run.started = now = clock()
    breath = now + context.kernel.stride
    try:
        for superstep, step in course:
            if now >= breath:
                await context.kernel.yield_control()
                breath = clock() + context.kernel.stride
            if now >= context.halt_at:
                run.halt(step, superstep)
                break
            if not (quick and step.plain):
                await perform(run, step, superstep)
                now = clock()
                if run.failure is None:
                    continue
                await _finish_siblings(run, course, superstep)
                break
            if journal is not None:
                journal.before(step, superstep)
                if journal.must_wait:
                    await context.kernel.settle(journal.catch_up)
                if journal.shared:
                    journal.hand_out(step)
                now = clock()
            try:
                if step.arg is not None:
                    value = step.func(values[step.arg])
                elif step.getter is not None:
                    value = step.func(*step.getter(values))
                elif step.seen is not None or step.sees is not None:
                    if spare is None or _references(spare) > _UNSHARED:
                        spare = NodeContext(run, step.name, superstep)
                    else:  # the function before has not kept it
                        spare._name, spare.superstep = step.name, superstep
                    if step.seen is not None:
                        value = step.func(values[step.seen], spare)
                    else:
                        value = step.func(*step.sees(values), spare)
                else:
                    value = step.call(values, run, superstep)
                if step.is_async:
                    value = await value
                if (kind := type(value)) is CoroutineType or kind is Replace:
                    refuse(step, value)
                if step.resolve is not None:
                    value = step.resolve(value)
            except BaseException as error:
                run.fail(step, superstep, original(error), clock() - now, StepOutcome())
                await _finish_siblings(run, course, superstep)
                break
            end = clock()
            if run.inner is not None:
                extra = run.leave(step)
            if journal is not None:
                journal.done(step, superstep, value, end - now, extra)
            if step.is_gate:
                if extra is not None:
                    extra.decision = value
                record((superstep, step, end - now, value if extra is None else extra))
                run.landed.append((step, value))
                now = end
                continue
            record((superstep, step, end - now, extra))
            now = end
            if watched and step.index in watched:
                run.landed.append((step, value))
            elif step.output is not None:
                values[step.output] = value
            elif step.outputs:
                values.update(zip(step.outputs, value, strict=True))
        else:
            if now >= context.halt_at and run.records:
                run.overrun()
    except BaseException:
        run.status, now = RunStatus.STOPPED, clock()
        raise
    finally:
        run.stopped_at = now if run.failure is None else clock()  # failing takes time, and so do siblings
        if run.calls is not None:  # an item does not work while it waits for the workers of its siblings
            run.stopped_at -= idle_time(run.calls)
        if run.failure is not None or not run.fixed:
            run.close()


async def _finish_siblings(run: Run, course: Iterator[tuple[int, Any]], superstep: int) -> None:
    """After a failure, run only the other steps of the same superstep."""
    for later, step in course:
        if later != superstep or clock() >= run.context.halt_at:
            return
        await perform(run, step, later)


Produce = Callable[[Run, Step, int, StepOutcome], Awaitable[Any]]
producers: dict[str, Produce] = {}  # by kind of step; engine.nested adds "graph"


async def perform(run: Run, step: Any, superstep: int) -> None:  # noqa: PLR0912, PLR0915 - one step, and its ends
    """Perform a step: produce its value, record it, store it, emit its events."""
    if step.kind == "group":
        await step.run(run, superstep, perform)
        return
    observer, journal, outcome = run.context.observer, run.journal, StepOutcome()
    saved: tuple[int, ...] = ()
    given = NOT_KNOWN
    if run.context.stepper is not None:
        given = await run.context.stepper.before(run, step, superstep)
        if given is HALTED:
            run.halt(step, superstep)
            return
    if step.appends:
        past = run.resumed
        run.lists.begin(step.index, superstep if past is None else past.round_of(step, superstep))
    if journal is not None:
        saved = journal.before(step, superstep)  # first: it numbers the steps
        if journal.must_wait:
            saved += await run.context.kernel.settle(journal.catch_up)
    if observer is not None:
        if saved:
            await observer.checkpoint_saved(run, saved)
        if superstep > run.superstep:
            run.superstep = superstep
            await observer.superstep_started(run, superstep)
        if clock() >= run.context.halt_at:  # one of these events has had the run stopped
            run.halt(step, superstep)
            if journal is not None:
                journal.not_begun(step, superstep)
            return
        outcome.span_id = await observer.node_started(run, step)
    started = clock()
    try:
        if step.kind == "graph" and journal is not None and journal.shared:
            journal.hand_out(step)
        if given is NOT_KNOWN:
            value = await producers[step.kind](run, step, superstep, outcome)
        else:
            value, outcome.answered_by = given, "debugger"
        duration = 0.0 if outcome.cached else clock() - started - outcome.waited
        outcome.decision = value if step.is_gate else None
    except PauseExecution as signal:
        if run.inner is not None:
            run.leave(step, outcome)
        run.ask(step, superstep, signal.pauses)
        is_away = any(pause.reason == AWAY for pause in signal.pauses)
        if journal is not None and is_away:
            journal.left(step)
        elif journal is not None:
            journal.paused(step, superstep, signal.pause, outcome)
        run.land(step, ASKED)
        if observer is not None and not is_away:
            await observer.interrupted(run, step, outcome.span_id, signal.pause)
        return
    except BaseException as raised:
        error, duration = original(raised), clock() - started - outcome.waited
        if journal is not None and not (step.node.repeatable or outcome.called):
            journal.not_called(step, superstep, error)
        try:
            run.fail(step, superstep, error, duration, outcome)
        finally:
            if observer is not None:
                await observer.node_failed(run, step, outcome, outcome.error or error)
        return
    if run.inner is not None:
        run.leave(step, outcome)
    if journal is not None and not outcome.committed:
        journal.done(step, superstep, value, duration, outcome)
        if journal.must_wait:
            await run.context.kernel.settle(journal.flush)
    run.records += (superstep, step, duration, outcome)
    run.land(step, value)
    if observer is not None:
        if step.is_gate:
            await observer.decided(run, step, value)
        await observer.node_ended(run, step, outcome, duration, value)


def refuse(step: Step, value: Any) -> None:
    """Raise TypeError for a function that returned a coroutine, or Replace where nothing is appended."""
    if type(value) is Replace:
        if step.output not in step.appends:
            refuse_replace(step.name, step.output or step.name)
        return
    value.close()
    raise TypeError(
        f"Node {step.name!r} returned a coroutine that is never awaited. Declare its function with "
        "`async def`, or await inside it."
    )


# -- functions and gates ------------------------------------------------------------------------------


async def _call_function(run: Run, step: Step, superstep: int, outcome: StepOutcome) -> Any:
    if run.journal is not None and not step.node.repeatable:
        known = await run.context.kernel.settle(partial(run.journal.known_result, step, superstep))
        if known is not NOT_KNOWN:
            outcome.answered_by = "on_ambiguous"
            return _resolved(step, known)
    if step.direct and type(run.context.kernel) is SyncKernel and run.context.deadline is None:
        outcome.called = True
        if run.journal is not None and run.journal.shared:
            run.journal.hand_out(step)
        return _transact(run, step, superstep, outcome)
    return await _through_cache(run, step, superstep, outcome, _attempts)


async def _through_cache(run: Run, step: Step, superstep: int, outcome: StepOutcome, produce: Produce) -> Any:
    cache = run.context.cache if step.node.cache else None
    if cache is None:
        return _resolved(step, await produce(run, step, superstep, outcome))
    key = cache.key(step, inputs_of(step, run.values))
    hit, result = cache.get(key) if key else (False, None)
    if hit:
        outcome.cached = True
        if run.context.observer is not None:
            await run.context.observer.cache_hit(run, step, key)
        return _resolved(step, result)
    result = await produce(run, step, superstep, outcome)
    value = _resolved(step, result)  # first: an invalid result must not be cached
    if key and value is not NO_ANSWER:
        cache.set(key, result)
    return value


def _resolved(step: Step, result: Any) -> Any:
    return step.resolve(result) if step.resolve is not None else result


async def _attempts(run: Run, step: Step, superstep: int, outcome: StepOutcome) -> Any:
    retry = getattr(step.node, "retry", None)
    kernel, context = run.context.kernel, run.context
    while True:
        try:
            result = await kernel.limited(partial(_attempt, run, step, superstep, outcome, clock()))
        except Exception as raised:
            error = original(raised)
            halted = isinstance(error, CancellationError) and clock() >= context.halt_at
            is_final = halted or (outcome.in_doubt and not step.node.repeatable)
            delay = None if is_final else _delay(step.node, retry, error, outcome)
            if delay is None:
                raise
            outcome.failed_attempts += (f"{type(error).__name__}: {safe_text(error)}",)
            if context.observer is not None:
                await context.observer.node_retried(run, step, outcome.attempts, error, delay)
            await kernel.sleep(delay, context)
            if clock() >= context.halt_at:
                raise context.halt_error(run.path_of(step.name), was_executing=True) from error
            outcome.attempts += 1
            if run.inner is not None and step.name in run.inner:
                run.inner[step.name].again()
        else:
            if type(result) is CoroutineType or type(result) is Replace:
                refuse(step, result)
            return result


def _delay(node: Any, retry: RetryPolicy | None, error: BaseException, outcome: StepOutcome) -> float | None:
    """Return the seconds until the next attempt, None if there is none."""
    if isinstance(error, WorkerLostError):  # not a failure of the function: on_worker_loss decides
        was_lost, outcome.lost_worker = outcome.lost_worker, True
        again = node.on_worker_loss == "rerun" and not (was_lost or error.is_final)
        return 0.0 if again else None
    if retry is None or isinstance(error, NotPicklableError) or not retry.wants(error, outcome.attempts):
        return None
    return retry.delay_before(outcome.attempts + 1)


async def _attempt(run: Run, step: Step, superstep: int, outcome: StepOutcome, asked: float) -> Any:
    """Call the function once, within its timeout and that of the run."""
    started, attempt = clock(), outcome.attempts
    outcome.waited += started - asked
    timeout: float | None = getattr(step.node, "timeout", None)
    if timeout is not None or attempt > 1 or run.attempts is not None:
        deadline = None if timeout is None else monotonic() + timeout
        run.note_attempt(step.name, attempt, deadline)
    remaining = run.context.halt_at - started if run.context.deadline is not None else None
    try:
        before = outcome.waited
        result = await _result(run, step, superstep, outcome, (timeout, remaining))
    except Expired:
        outcome.in_doubt = True
        if clock() >= run.context.halt_at:
            raise run.context.halt_error(run.path_of(step.name), was_executing=outcome.called) from None
        raise NodeTimeoutError(run.path_of(step.name), timeout or 0.0) from None
    outcome.in_doubt = True  # until its result is taken
    if timeout is not None and clock() - started - (outcome.waited - before) > timeout:
        raise NodeTimeoutError(run.path_of(step.name), timeout)
    return result


def _earlier(timeout: float | None, remaining: float | None) -> float | None:
    return min((seconds for seconds in (timeout, remaining) if seconds is not None), default=None)


def _begun(
    work: Callable[[], Awaitable[Any]], watch: CallWatch, start: Callable[[float], None]
) -> Awaitable[Any]:
    watch.start = start
    return work()


async def _result(
    run: Run,
    step: Step,
    superstep: int,
    outcome: StepOutcome,
    seconds: tuple[float | None, float | None],
) -> Any:
    node, kernel = step.node, run.context.kernel
    if run.journal is not None and run.journal.shared:
        run.journal.hand_out(step)
    if not step.is_async and kernel.executors is not None:
        executor = kernel.executors.of(run, step)
        if executor is not None:
            watch = CallWatch(outcome)
            work = partial(kernel.executors.call, executor, run, step, superstep, watch)
            try:
                return await kernel.within_begun(partial(_begun, work, watch), *seconds)
            finally:
                watch.ended(run)
    outcome.called = True
    if step.is_async:
        call_async = _collect_async if node.is_generator else step.invoke
        given = (run, step, superstep) if node.is_generator else (run.values, run, superstep)
        return await kernel.within(call_async(*given), _earlier(*seconds))
    if node.transaction:
        call = partial(_transact, run, step, superstep, outcome)
        return await kernel.settle(call)  # also a cancelled run waits for the commit, or the rollback
    call = partial(_collect if node.is_generator else _invoke, run, step, superstep)
    if kernel.offload_all or getattr(node, "offload", False):
        return await kernel.offload(call)
    return call()


def _transact(run: Run, step: Step, superstep: int, outcome: StepOutcome) -> Any:
    """Call a function inside of the transaction in which its step is committed."""
    started, timeout = clock(), getattr(step.node, "timeout", None)

    def work() -> tuple[Any, float]:
        result = _invoke(run, step, superstep)
        if type(result) is CoroutineType or type(result) is Replace:
            refuse(step, result)
        seconds = clock() - started
        if timeout is not None and seconds > timeout:
            raise NodeTimeoutError(run.path_of(step.name), timeout)
        return _resolved(step, result), seconds

    if run.journal is None:
        raise TransactionError(
            f"Node {run.path_of(step.name)!r} has transaction=True, and its step is not stored: it runs in "
            'a nested graph without a history of its own (durability="atomic").',
            node_name=run.path_of(step.name),
        )
    return run.journal.transact(step, superstep, outcome, work)


def _invoke(run: Run, step: Step, superstep: int) -> Any:
    try:
        return step.invoke(run.values, run, superstep)
    except StopIteration as error:
        raise Carried(error) from None


def _collect(run: Run, step: Step, superstep: int) -> list[Any]:
    items = []
    for item in step.invoke(run.values, run, superstep):
        items.append(item)
        run.stream(step.name, item)
    return items


async def _collect_async(run: Run, step: Step, superstep: int) -> list[Any]:
    items = []
    async for item in step.invoke(run.values, run, superstep):
        items.append(item)
        run.stream(step.name, item)
    return items


# -- interrupts ---------------------------------------------------------------------------------------


async def _ask(run: Run, step: Step, superstep: int, outcome: StepOutcome) -> Any:
    """Use the given answer, else call the handler; pause if it returns None."""
    outputs = step.outputs
    if all(name in run.answers for name in outputs):
        given = not all(map(run.is_bound, outputs))
        answers = tuple(map(run.take_answer, outputs))
        if not given or run.journal is None or run.journal.asks_the_same(step):
            outcome.given = given
            answers = _typed(run, step, answers)
            return answers[0] if step.output is not None else answers
    before = _asked_before(run, step)
    if isinstance(step.node, TimerNode):
        return await _wait(run, step, superstep, outcome, before)
    if isinstance(step.node, ReceiveNode) and run.context.recorder is not None:
        take = partial(run.context.recorder.receive, run, step, superstep)
        sent = await run.context.kernel.settle(take)
        if sent is not None:
            outcome.given, outcome.answered_by = True, sent.by
            return _typed(run, step, (sent.value,))[0]
    if before is not None and before.due is not None and before.due <= now():
        answers = await _after_deadline(run, step, outcome, before)
        return answers[0] if step.output is not None else answers
    if not isinstance(step.node, ReceiveNode):
        answer = await _through_cache(run, step, superstep, outcome, _handle)
        if answer is not NO_ANSWER:
            return answer
    raise PauseExecution(_question(run, step, before))


def _typed(run: Run, step: Step, given: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return answers as their declared types; what a call gives was compared with them before.

    Raises InvalidAnswerError for one that is stored, and was given when the code asked for another type.
    """
    try:
        return step.node.as_answers(given)  # type: ignore[no-any-return]  # of an InterruptNode
    except InvalidAnswerError as error:
        text = f"{error}. It is stored, and was given for another type than node {step.name!r} asks for now."
        key, names = error.key, run.admission.graph.renaming
        if names is not None:
            text, key = names.text(text), names.value(key)
        text += f" Pass one of that type: run(graph, {key}=...)."
        raise InvalidAnswerError(text, key=key, field=error.field) from None


def _asked_before(run: Run, step: Step) -> PauseInfo | None:
    """Return the question as it is stored, if it has been asked before and is still open."""
    name, holder = step.name, run
    while holder.journal is None and holder.parent is not None:  # a nested graph without a history
        name, holder = holder.step_name, holder.parent
    if holder.journal is None:
        return None
    record = holder.journal.waiting.get(name)
    pause = None if record is None else record.pause
    if holder is run or pause is None:
        return pause
    return pause if pause.node_name == "/".join((*run.trail, step.name)) else None


async def _after_deadline(run: Run, step: Step, outcome: StepOutcome, before: PauseInfo) -> tuple[Any, ...]:
    """Return the default, or an answer that came in time. Raises QuestionExpiredError without either."""
    node: InterruptNode = step.node
    if run.journal is not None:
        given = await run.context.kernel.settle(partial(run.journal.expire, step))
        if given and all(name in given for name in step.outputs):
            return node.as_answers(tuple(given[name] for name in step.outputs))
    if node.default is MISSING:
        where = run.path_of(step.name)
        raise QuestionExpiredError(
            f"Node {where!r} was not answered by {before.due:%Y-%m-%d %H:%M:%S} UTC, and has no default. "
            "To ask again, run it again.",
            node_name=where,
            due=before.due,
        )
    outcome.expired = True
    answers: tuple[Any, ...] = node.default
    return answers


async def _wait(
    run: Run, step: Step, superstep: int, outcome: StepOutcome, before: PauseInfo | None
) -> datetime:
    """Wait until a timer is due; a long wait of a stored run is left to the store."""
    node, context = step.node, run.context
    if before is not None and before.due is not None:
        due = before.due
    else:
        due = node.due_after(await _attempts(run, step, superstep, outcome), now())
    started = clock()
    while (left := (due - now()).total_seconds()) > 0:
        if context.recorder is not None and left > node.hold.total_seconds():
            raise PauseExecution(_question(run, step, PauseInfo(step.name, "", due=due)))
        await context.kernel.sleep(left if skips() else min(left, _TICK), context)
        if clock() >= context.halt_at:
            raise context.halt_error(run.path_of(step.name), was_executing=True)
    outcome.waited += clock() - started
    return due


async def _handle(run: Run, step: Step, superstep: int, outcome: StepOutcome) -> Any:
    try:
        return await _attempts(run, step, superstep, outcome)
    except CancellationError:
        raise
    except Exception as raised:
        error = original(raised)
        text = f"{type(error).__name__}: {safe_text(error)}"
        raise RuntimeError(f"Interrupt {step.name!r}: its handler failed: {text}") from error


def _question(run: Run, step: Step, before: PauseInfo | None) -> PauseInfo:
    inputs, node = inputs_of(step, run.values), step.node
    due = before.due if before is not None else None
    if due is None and node.open_for is not None:
        due = now() + node.open_for
    has_default = node.default is not MISSING
    return PauseInfo(
        node_name="/".join((*run.trail, step.name)),
        output_param=step.outputs[0],
        value=next(iter(inputs.values()), None),
        output_params=step.outputs if len(step.outputs) > 1 else None,
        values=inputs if len(inputs) > 1 else None,
        reason=node.reason,
        path=run.trail,
        schemas=node.answer_schemas or None,
        due=due,
        default=", ".join(map(preview, node.default)) if has_default else None,
        signal=node.signal if isinstance(node, ReceiveNode) else None,
    )


producers.update({"function": _call_function, "gate": _call_function, "interrupt": _ask})


def report(run: Run) -> None:
    """Warn about what a completed or paused run lacks, and about answers that a run did not use.

    An answer belongs to the call that gives it before its question is asked.

    Raises ValueError for outputs that a completed run lacks by `on_missing="error"`.
    """
    told = [] if run.fixed or run.failure is not None else _left_undone(run)
    if not run.fixed and (run.answers or run.context.recorder is not None):
        told += _unused_answers(run)
    steps = run.plan.steps
    for name, (first, anew) in run.lists.dropped.items():
        told.append(
            f"What {run.path_of(steps[first].name)!r} has appended to {name!r} is lost: "
            f"{run.path_of(steps[anew].name)!r} has returned Replace in the same superstep, and stands after "
            f"it in the graph. Let one run before the other, as with wait_for; or put the node that "
            "replaces first, so that what others append beside it follows."
        )
    policy = run.context.options.on_missing
    selected = run.admission.selected if run.status is RunStatus.COMPLETED else None
    missing = [name for name in selected if name not in run.values] if selected else []
    if missing and policy != "ignore":  # V5
        lost = missing_results(run)
        reasons = {
            f"Their nodes did not run in graph {_name(run)}.": [n for n in missing if n not in lost],
            f"An earlier call of graph {_name(run)} made them; they are not stored.": [*lost],
        }
        told += [f"Requested outputs not found: {names}. {why}" for why, names in reasons.items() if names]
        if policy == "error":
            raise ValueError(" ".join(told))
    for text in told:
        warn_caller(text)


def missing_results(run: Run) -> dict[str, str]:
    """Return the outputs that a restored result lacks because they are not stored, with the reasons."""
    lost: Mapping[str, str] = {} if run.resumed is None else run.resumed.lost
    return {
        name: lost[step.name]
        for step in (run.plan.steps if lost else ())
        if step.name in lost
        for name in step.outputs
        if name in run.admission.returns and name not in run.values
    }


def _left_undone(run: Run) -> list[str]:
    """Return what was to be done, one text for each matter."""
    standing: Standing | None = run.standing
    if standing is None or run.asked:
        return []
    unmet = (
        _choices_without_a_run(run, standing) if standing.owed or standing.lost or standing.dropped else []
    )
    unmet += _passed_over(run, standing) if standing.passed else []
    if standing.layout.loops:
        unmet += [
            f"{part.name!r} has its inputs in graph {_name(run)} and did not run: its loop began elsewhere "
            f"and did not lead to it. Let the loop begin there: with_entrypoint({part.name!r})."
            for part in map(standing.layout.parts.__getitem__, standing.overlooked())
        ]
        unmet = unmet or _unended(run, standing) or _unfilled(run, standing)
    if run.records and not run.records[1].is_gate:
        return unmet  # the first step was a node: mostly so, and quick to see
    if unmet or any(not step.is_gate for step, _ in _ran(run)):
        return unmet
    if gates := list(_ran(run)):
        if any(_decided_end(outcome) for _, outcome in gates) or not _has_others(run):
            return []
        return [
            f"Nothing but gates ran in graph {_name(run)}: {_quoted(step.name for step, _ in gates)} "
            "chose no other node. Choose one, or return END where nothing is to run."
        ]
    past = run.resumed
    if run.outcome().keys() - run.admission.given if past is None else past.first != past.entry:
        return []
    reasons = [_idle_because(standing, i) for i in bits(standing.layout.scope & standing.idle)]
    listed = "; ".join(filter(None, reasons))
    return [f"Nothing ran in graph {_name(run)}: {listed}. Give one of them what it lacks."] if listed else []


def _choices_without_a_run(run: Run, standing: Standing) -> list[str]:
    """Return the choices of gates that were not carried out, one text for each."""
    parts = standing.layout.parts
    unmet = [
        f"Gate {parts[gate].name!r} chose {parts[target].name!r} in graph {_name(run)}, which did not run: "
        + why
        for gate, target in (standing.unmet() if standing.owed else ())
        if (why := _not_run_because(standing, gate, target))
    ]
    lost = standing.lost & ~standing.owed
    for i in bits(lost) if lost else ():
        by = _quoted(parts[gate].name for gate in standing.layout.controllers[i])
        unmet.append(
            f"{by} chose {parts[i].name!r} in graph {_name(run)}, which did not run before the next "
            f"decision: {_lacking(standing, i, by)}"
        )
    dropped = standing.dropped & ~standing.owed & ~lost
    for i in bits(dropped) if dropped else ():
        by = _quoted(parts[gate].name for gate in standing.layout.controllers[i])
        unmet.append(
            f"{by} chose {parts[i].name!r} in graph {_name(run)}, which did not run before its loop began "
            "anew: a value came from outside of the loop, and that ended the choice. Let the loop begin "
            "after it: let the gate or node that leads to its beginning take that value, too."
        )
    return unmet


def _passed_over(run: Run, standing: Standing) -> list[str]:
    """Return what a gate chose together with a node that ran, and did not choose again before it could run.

    It comes after the loop that the other node is in, and of that loop the last decision counts.
    """
    names = [part.name for part in standing.layout.parts]
    return [
        f"Gate {names[gate]!r} chose {names[i]!r} together with {names[other]!r} in graph {_name(run)}, and "
        f"{names[i]!r} did not run before the next decision. The last decision counts: choose {names[i]!r} "
        f"in the one that ends the loop of {names[other]!r}, or let a gate after the loop choose it."
        for gate, i, other in standing.passed_over()
    ]


def _unended(run: Run, standing: Standing) -> list[str]:
    """Return which loops went no further that no gate has ended, and what to do about it."""
    told = []
    for loop, names, takers in standing.unended():
        reasons = "; ".join(filter(None, (_idle_because(standing, i) for i in bits(takers))))
        told.append(
            f"The loop {' -> '.join(standing.layout.names_of(loop.members))} in graph {_name(run)} came to "
            f"rest, and none of its gates has decided END or chosen a way out. Nothing took {_quoted(names)}"
            f"{reasons and ': '}{reasons}. Give one of them what it lacks, or let a gate end the loop."
        )
    return told


def _unfilled(run: Run, standing: Standing) -> list[str]:
    """Return which loops began by reading lists that came empty, though they could have filled them first."""
    told = []
    for loop in standing.unfilled():
        empty = sorted(name for name in loop.filled if not run.values.get(name))
        if empty:
            first = standing.layout.names_of(loop.filling)
            told.append(
                f"The loop {' -> '.join(standing.layout.names_of(loop.members))} in graph {_name(run)} began "
                f"with an empty {_quoted(empty)}, and {_quoted(first)} did not run, which had all inputs. To "
                f"begin there: with_entrypoint({first[0]!r}), after the names of nodes before the loop."
            )
    return told


def _not_run_because(standing: Standing, gate: int, target: int) -> str:
    """Return why a node has not run that a gate has chosen, and what to do about it; empty if it is open."""
    if standing.lacks(target):
        return _lacking(standing, target, repr(standing.layout.parts[gate].name))
    if standing.ended >> target & 1:
        return "it has decided END, which is final until its loop is entered again."
    return ""


def _lacking(standing: Standing, index: int, gates: str) -> str:
    """Return what a node lacks that gates have chosen, and what to do about it."""
    lacks, takes = standing.lacks(index), standing.layout.parts[index].takes
    if any(name in takes for name in lacks):
        advice = "Have it made on the way that was taken, give the parameter a default"
    else:
        advice = "Choose the node that gives the signal as well, leave out wait_for="
    return f"nothing made {_quoted(lacks)}. {advice}, or let {gates} wait for it, too."


def _idle_because(standing: Standing, index: int) -> str:
    """Return why a node has not run in this turn: an input is missing, or no gate has chosen it."""
    layout, missing = standing.layout, standing.lacks(index)
    name = repr(layout.parts[index].name)
    if missing:
        return f"{name} lacks {_quoted(missing)}"
    gates = [] if standing.open >> index & 1 else layout.controllers[index]
    return f"{name} lacks the choice of {_quoted(layout.parts[g].name for g in gates)}" if gates else ""


def _ran(run: Run) -> Iterator[tuple[Step, Any]]:
    """Yield the steps of the turn, those that an earlier call has made included."""
    first = 0 if run.resumed is None else run.resumed.first
    for superstep, step, _, outcome in run.all_records():
        if superstep >= first:
            yield step, outcome


def _decided_end(outcome: Any) -> bool:
    """Say whether a gate has decided END; a step of an earlier call has its decision as text."""
    decision = outcome.decision if isinstance(outcome, StepOutcome) else outcome
    decided = decision if isinstance(decision, list) else [decision]
    return END in decided or "END" in decided


def _has_others(run: Run) -> bool:
    return any(not run.plan.steps[index].is_gate for index in bits(run.layout.scope))


def _unused_answers(run: Run) -> list[str]:
    """Return a text for each answer that was given in this call and not used."""
    recorder = run.context.recorder
    if run.standing is None or (recorder is None and not run.answers):
        return []  # restored as a whole, or without a question
    told = []
    is_outermost = run.parent is None and run.map_run is None
    for name, answer in run.answers.items():
        is_known = name in run.values and not differs(run.values[name], answer)
        if run.is_bound(name) or (is_known and not is_outermost):
            continue  # bound for whenever it is asked, or the answer that the item was given before
        asking = next((s for s in run.plan.steps if s.kind == "interrupt" and name in s.outputs), None)
        others = [] if asking is None else [other for other in asking.outputs if other not in run.answers]
        if asking is not None and others:
            why = f"node {asking.name!r} also needs {_quoted(others)}. Give all of them in one call."
        elif run.failure is not None and _is_kept(run, name, asking):
            continue  # the answer is stored with its question, and used by the next call
        elif run.failure is not None:
            why = ENDED_EARLY
        else:
            why = f"its question was not asked. Give the answer again once the question is open.{_open(run)}"
        told.append(_unused_as_given(run, name, why))
    if recorder is not None and recorder.repeated and is_outermost:
        told += repeated_answers(run, recorder.repeated, run.graph_name)
    if recorder is not None and run.parent is None and run.status is RunStatus.PAUSED:
        told += recorder.unkept_answers(run)
    return told


def repeated_answers(run: Run | MapRun, repeated: Mapping[str, bool], graph: str | None) -> list[str]:
    """Return a text for each answer that an earlier question was given, and that a later one waits for.

    `repeated` says of each answer whether a question has waited for it when the call began.
    """
    asked = {key for pause in run.pauses for key in pause.response_keys.values()} if repeated else set()
    # After a failure the same answer would be taken for the same call again, however often it is given.
    why = _ASKED_AGAIN if run.failure is None else _ASKED_STILL
    return [
        unused_answer(graph, key, why.format(run.workflow_id, key))
        for key, is_open in repeated.items()
        if is_open or key in asked
    ]


ENDED_EARLY = "the run ended before its question was asked. Give the answer again when you resume the run."
_USED_BEFORE = (
    "it answered an earlier question before the run was interrupted, and the question is asked again."
)
_ASKED_AGAIN = f"{_USED_BEFORE} Give the answer again, now that the question is open."
_ASKED_STILL = f"{_USED_BEFORE} To answer that one too: store.answer({{!r}}, {{!r}}, ...)."


def _unused_as_given(run: Run, name: str, why: str) -> str:
    """Return the warning about an answer of a run, with the key that the outermost run was given."""
    root, key = run.context.root, ".".join((*run.trail, name))
    if isinstance(root, Run):
        given: Collection[str] = root.admission.answers
    else:
        given = {f"item-{n}.{k}" for n, own in root.answers.items() for k in own} if root is not None else ()
    if key not in given:
        return unused_answer(run.graph_name, name, why)
    return unused_answer(root.admission.graph.name, key, why)


def unused_answer(graph: str | None, key: str, why: str) -> str:
    """Return the warning about an answer that was not used."""
    return f"The answer {key!r} was not used in graph {graph or 'unnamed'!r}: {why}"


def _is_kept(run: Run, name: str, asking: Step | None) -> bool:
    """Say whether a question was open when the run began, and is still: its answer is stored with it."""
    if asking is not None or run.parent is not None:
        return run.journal is not None and asking is not None and asking.name in run.journal.waiting
    items, recorder = run.map_run, run.context.recorder  # it is asked inside of a nested graph
    key = name if items is None else f"item-{items.number_of(run.item_index)}.{name}"
    return recorder is not None and key in recorder.kept


def _keys(run: Run) -> list[str]:
    """Return the keys of the open questions."""
    return [key for pause in run.pauses for key in pause.response_keys.values()]


def _open(run: Run) -> str:
    """Return a sentence with the keys of the open questions, if there are any."""
    return f" Open questions: {_quoted(keys)}." if (keys := _keys(run)) else ""


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(map(repr, dict.fromkeys(names)))


def _name(run: Run) -> str:
    return repr(run.graph_name or "unnamed")
